"""Print digests of everything that is learned in several settings; a test runs this with other CPU features.

`python digests.py` prints a JSON object of digests by case, and which fused instructions and functions of the C library
the kernels were compiled to. `python digests.py FILE` prints digests of kernels on the arguments in a file, which
compiles quickly.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import pickle
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script, it finds the helpers of all tests

import solvent
from checkpoint_folders import read_folder
from solvent import CMDP, LearnResult, instances
from solvent.gym import ModelEnv
from solvent.learning import kernels
from solvent.learning.bonus import Bonus, TheoryBonus
from solvent.learning.counts import Counts

#: Number of arguments of `sweep_theory`.
THEORY = 6


def toll(state: Any, action: int, after: Any) -> int:
    return int(action != 0)


class Noisy(gymnasium.Env[Any, Any]):
    """Three states, with rewards and costs that vary."""

    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        drawn = self.np_random.random(3)
        cost = float(drawn[0] < 0.3) * 0.1 + 0.2 * action
        return int(3 * drawn[1]), float((1 + action) * drawn[2] / 3), False, False, {"cost": round(cost, 1)}


def lake() -> tuple[Any, CMDP]:
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=6)
    return env, solvent.CMDP.from_gymnasium(env, cost=toll, horizon=6, budget=3)


def in_lake(**options: Any) -> LearnResult:
    env, table = lake()
    if options.pop("known", False):
        options["support"] = table
    return solvent.learn(env, 6, {"cost": 3}, cost=toll, seed=2, **options)


GRID, GAP = instances.fuel_grid(3), instances.markov_gap()
MODELS: dict[str, Callable[..., LearnResult]] = {
    "practical": lambda **more: solvent.learn(GRID, epsilon=0.3, seed=1, **more),
    "every episode": lambda **more: solvent.learn(GRID, 9, max_episodes=700, replan="episode", seed=5, **more),
    "by node": lambda **more: solvent.learn(GRID, epsilon=0.5, pool=False, seed=2, **more),
    "theory": lambda **more: solvent.learn(GAP, epsilon=0.3, bonus="theory", seed=3, **more),
    "theory by node": lambda **more: solvent.learn(
        GAP, epsilon=0.4, bonus="theory", pool=False, stationary=False, seed=3, **more
    ),
    "learned support": lambda **more: solvent.learn(GRID, epsilon=0.5, cost_support="learned", seed=4, **more),
    "rounded": lambda **more: solvent.learn(GRID, max_episodes=2000, epsilon_cost="1/3", bonus_scale=0.7, **more),
    "model environment": lambda **more: solvent.learn(ModelEnv(GRID), epsilon=0.4, seed=6, **more),
}
ENVIRONMENTS: dict[str, Callable[..., LearnResult]] = {
    "lake": lambda **more: in_lake(known=True, max_episodes=150, **more),
    "lake, theory": lambda **more: in_lake(known=True, max_episodes=100, bonus="theory", pool=False, **more),
    "lake, bound": lambda **more: in_lake(cost_bound=[0, 1, 1, 1], max_episodes=150, **more),
    "noisy": lambda **more: solvent.learn(
        Noisy(), 4, 0.5, max_episodes=200, replan="episode", seed=7, cost_support="learned", **more
    ),
}


def digest(run: Callable[..., LearnResult]) -> str:
    """Return a digest of the bounds, the episodes, the policy and everything in the checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.ckpt"
        learned = run(checkpoint=file)
        arrays, header = read_folder(file)
    found = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    policy = learned.policy
    arrays |= {"action": policy.action_N, "spent": policy.spent_ND, "states": policy.group_state}
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode() + arrays[name].tobytes())
    bounds = [learned.value_lower.hex(), learned.value_upper.hex(), learned.gap.hex()]
    return f"{learned.episodes} {' '.join(bounds)} {found.hexdigest()}"


def digest_of_weights() -> str:
    """Return a digest of many weights and radii, which are computed from logarithms."""
    count = np.arange(1, 1_000_001)
    zeros, seen = np.zeros(len(count)), np.stack([count // 3, count - count // 3, 0 * count], axis=1).ravel()
    rewards = np.repeat(count / 7, 3)
    counts = Counts(count, np.arange(0, len(seen) + 1, 3), count, seen, rewards, zeros + 2.0 * count, 0 * count)
    found = hashlib.sha256()
    for delta in (0.05, 1e-9, 0.3):
        weights = TheoryBonus(delta, 7, 12_345).weights(counts)
        radii = Bonus(delta, len(count), reward_width=1.5).radii(counts)
        for array in (weights.spread_K, weights.range_K, weights.gap_K, radii.radius_K, radii.reward_K):
            found.update(array.tobytes())
    return found.hexdigest()


def digest_of_sweep(arguments: tuple[Any, ...]) -> str:
    """Return a digest of everything that a sweep writes: the generator, values, gaps and rows."""
    own = copy.deepcopy(arguments)
    (kernels.sweep_theory if len(own) == THEORY else kernels.sweep)(*own)
    rng, values, out_row = own[-3:]
    found = hashlib.sha256()
    for array in (rng, *(values if isinstance(values, tuple) else (values,)), out_row):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def digests_of_kernels(sweeps: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Return digests of sweeps with these arguments, and of weights."""
    return {"sweeps": [digest_of_sweep(each) for each in sweeps], "weights": digest_of_weights()}


def compiled() -> dict[str, list[str]]:
    """Return fused instructions and functions of the C library in the code of each kernel compiled by this process."""
    found = {}
    for name, kernel in vars(kernels).items():
        if hasattr(kernel, "inspect_asm") and kernel.signatures:
            assembly, llvm = "".join(kernel.inspect_asm().values()), "".join(kernel.inspect_llvm().values())
            fused = re.findall(r"\b(?:vf[n]?m(?:add|sub)\w*|fn?m(?:add|sub|la|ls)\b)", assembly)
            called = re.findall(r"@\"?((?:llvm\.)?(?:log|exp|pow|fma|fmuladd|sin|cos|tan)[\w.]*)\"?\(", llvm)
            found[name] = sorted({*fused, *called})
    return found


def digest_of_libm() -> str:
    """Return a digest of logarithms of the C library, which shows whether an environment variable affected it."""
    numbers = (1 + np.random.default_rng(0).random(400_000) * 1e6).tolist()
    return hashlib.sha256(np.array([math.log(x) for x in numbers]).tobytes()).hexdigest()


def main() -> None:
    digests: dict[str, Any]
    if len(sys.argv) > 1:
        digests = digests_of_kernels(pickle.loads(Path(sys.argv[1]).read_bytes()))
    else:
        digests = {name: digest(run) for name, run in (MODELS | ENVIRONMENTS).items()}
        digests |= {"weights": digest_of_weights(), "compiled": compiled(), "libm": digest_of_libm()}
    print(json.dumps(digests))


if __name__ == "__main__":
    main()
