"""Check that limits are kept: demanding calls under a time or memory limit, and the share of it that each used.

Every call runs in a separate process, after a small one of the same kind that loads the kernels. Time does not include
loading and compiling kernels, which limits do not count. Memory is the growth of the resident set at its peak.

    python -m bench.limits_table [CALL]...
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import solvent
from solvent import CMDP, instances
from solvent.core.preparation import working_time
from solvent.policy.markov import MarkovPolicy

SECONDS, MEMORY = 3.0, 200_000_000
#: Time limit in seconds of a call under a memory limit: by then it has reached its peak.
LONGEST = 15.0
#: Tolerance: a tenth of the limit, or this much if it is more.
SPARE_SECONDS, SPARE_MEMORY = 0.5, 50_000_000


def far(n_states: int, horizon: int, *, resources: int = 1, branching: int = 4) -> CMDP:
    """Return a random model whose costs have so many digits that all sums differ."""
    return instances.random(
        n_states, 3, horizon=horizon, resources=resources, branching=branching, cost_range=(0, 5), real_costs=True,
        budget=4 * horizon,
    )  # fmt: skip


def near(n_states: int, horizon: int, *, resources: int = 1, actions: int = 4) -> CMDP:
    """Return a random model with integer costs and many amounts."""
    return instances.random(
        n_states, actions, horizon=horizon, resources=resources, branching=8, cost_range=(0, 10), budget=9 * horizon
    )


def unitless(horizon: int) -> CMDP:
    """Return a model of two resources whose costs have no common unit that fits into 64 bits."""
    a, b = 1 + Fraction(1, 3**25), 1 + Fraction(1, 7**15)
    names = ["fuel", "wear"]
    builder = CMDP.builder(horizon=horizon, start="here", resources=names, budget=dict.fromkeys(names, horizon))
    builder.add("here", "go", reward=1, outcomes=[(0.5, "there", (a, b)), (0.5, "here", (b, a))])
    builder.add("here", "rest", reward=0.3, outcomes=[(1, "here", (Fraction(1, 3), Fraction(1, 7)))])
    builder.add("there", "back", reward=0.5, outcomes=[(1, "here", (b, a))])
    builder.add("there", "stay", reward=0.1, outcomes=[(1, "there", (Fraction(1, 9), Fraction(1, 11)))])
    return builder.build()


def knapsack(n_items: int) -> CMDP:
    """Return a knapsack whose values are the weights, which bounds cannot prune."""
    draw = random.Random(1)
    weights = [draw.randrange(10**9, 10**10) for _ in range(n_items)]
    return instances.knapsack([float(weight) for weight in weights], weights, capacity=sum(weights) // 2 + 1)


def forever(n_states: int, discount: str = "0.99") -> solvent.DiscountedCMDP:
    """Return a random discounted model."""
    draw = random.Random(0)
    b = CMDP.builder(horizon=None, discount=discount, start=0, resources=["fuel"], budget=20)
    for state in range(n_states):
        for action in range(3):
            outcomes = [("1/3", draw.randrange(n_states), round(draw.uniform(0, 2), 3)) for _ in range(3)]
            b.add(state, action, reward=draw.random(), outcomes=outcomes)
        b.add(state, "rest", reward=0.01, outcomes=[(1, draw.randrange(n_states), 0)])
    return b.build()


def large(n_states: int, horizon: int = 30) -> CMDP:
    """Return a model of many states in which one action is cheap enough to keep the budget."""
    draw = np.random.default_rng(0)
    after = draw.integers(0, n_states, (n_states, 2, 2))
    cost = draw.integers(0, 9, (n_states, 2, 2))
    cost[:, 0] %= 3
    b = CMDP.builder(horizon=horizon, start=0, resources=["fuel"], budget=60)
    for s in range(n_states):
        for a in range(2):
            b.add(s, a, reward=float(a), outcomes=[(0.5, int(after[s, a, k]), int(cost[s, a, k])) for k in range(2)])
    return b.build()


def uniform(model: CMDP) -> MarkovPolicy:
    """Return the policy that takes every action with the same probability."""
    table = np.zeros((model.horizon, model.n_states, model.n_actions))
    for step in range(model.horizon):
        for state in range(model.n_states):
            rows = model.rows(step, state)
            table[step, state, model.row_action[list(rows)]] = 1 / max(len(rows), 1)
    return MarkovPolicy(model, table)


def by_spent(step: int, state: Any, spent: Any) -> Any:
    """Return an action that depends on the amount spent."""
    return (step + int(spent)) % 3


def campaign() -> CMDP:
    """Return the example with continuous costs."""
    return solvent.examples.load("campaign")


@dataclass(frozen=True)
class Call:
    """A function, a model for it, and a small model that uses the same kernels."""

    function: Callable[..., Any]
    model: Callable[[], Any]
    small: Callable[[], Any]

    def warm_up(self) -> None:
        """Load the kernels."""
        with contextlib.suppress(solvent.LimitError):
            self.function(self.small(), time_limit=1, memory_limit="1GB")

    def run(self, model: Any, **limits: Any) -> tuple[str, str]:
        """Run the call, and return its status and its messages."""
        try:
            found = self.function(model, **limits)
        except solvent.LimitError as error:
            return "LimitError", str(error)
        said = [str(getattr(found, "message", "")), str(getattr(found, "stopped", ""))]
        said += [str(row.message) for row in getattr(found, "rows", [])]
        return str(getattr(getattr(found, "status", None), "value", "done")), "; ".join(said)


def _simulate(model: CMDP, **limits: Any) -> Any:
    return solvent.simulate(model, uniform(model), 20_000_000 if "time_limit" in limits else 2_000_000, **limits)


def _learn(model: CMDP, **limits: Any) -> Any:
    return solvent.learn(model, epsilon=1e-6, max_episodes=10**9 if limits else 100, reward_range=(-10, 10), **limits)


solve = solvent.solve

_real, _tiny = partial(far, 30, 60), partial(far, 4, 4)
_checked = partial(far, 20, 60)
#: Calls that would take many times longer than any limit here, on any machine, or far more memory.
TIMED = {
    "reduction, plain layers": Call(
        partial(solve, method="reduction", prune=False),
        lambda: instances.paper(60, budget=30),
        lambda: instances.paper(8, budget=2),
    ),
    "two resources": Call(solve, partial(near, 40, 100, resources=2, actions=64), partial(near, 5, 4, resources=2)),
    "reduction, real costs": Call(partial(solve, method="reduction"), _real, _tiny),
    "frontier, arrays": Call(
        partial(solve, method="frontier"), partial(near, 200, 3000, actions=8), partial(near, 30, 40)
    ),
    "frontier, points": Call(partial(solve, method="frontier"), _real, _tiny),
    "frontier, one state": Call(partial(solve, method="frontier"), partial(knapsack, 60), partial(knapsack, 8)),
    "labels": Call(partial(solve, method="labels"), partial(knapsack, 120), partial(knapsack, 8)),
    "additive, continuous": Call(partial(solve, approximation="additive", epsilon="0.0001"), campaign, campaign),
    "relative, strict": Call(partial(solve, approximation="relative", epsilon=0.0005, strict=True), _real, _tiny),
    "gap": Call(partial(solve, gap=1e-9), partial(far, 30, 60, resources=2), partial(far, 4, 4, resources=2)),
    "gap 0, no unit": Call(partial(solve, gap=0), partial(unitless, 1000), partial(unitless, 4)),
    "discounted, strict": Call(
        partial(solve, epsilon=0.1, strict=True), partial(forever, 60), partial(forever, 5, "0.5")
    ),
    "frontier()": Call(partial(solvent.frontier, ignore_limits=True), _real, _tiny),
    "augment": Call(solvent.augment, _real, _tiny),
    "augment, stationary": Call(partial(solvent.augment, stationary=True), _real, _tiny),
    "verify, table": Call(
        lambda model, **limits: solvent.verify(model, uniform(model), max_nodes=10**9, **limits), _checked, _tiny
    ),
    "verify, function": Call(
        lambda model, **limits: solvent.verify(model, by_spent, max_nodes=10**9, **limits), _checked, _tiny
    ),
    "simulate": Call(_simulate, partial(near, 50, 50), partial(near, 4, 3)),
    "compare": Call(solvent.compare, partial(near, 60, 40), partial(near, 4, 3)),
    "learn": Call(_learn, lambda: instances.fuel_grid(5), lambda: instances.fuel_grid(3)),
}
_ONLY_TIMED = ("additive, continuous", "verify, function", "learn")
SIZED = {
    **{name: call for name, call in TIMED.items() if name not in _ONLY_TIMED},
    "60,000 states": Call(partial(solve, method="frontier"), partial(large, 60_000), partial(large, 200)),
    "60,000 states, reduction": Call(partial(solve, method="reduction"), partial(large, 60_000), partial(large, 200)),
    "gap": Call(partial(solve, gap=1e-12), partial(far, 500, 60), _tiny),
    "discounted": Call(partial(solve, epsilon=0.3), partial(forever, 100, "0.95"), partial(forever, 5, "0.5")),
    "discounted, strict": Call(
        partial(solve, epsilon=0.5, strict=True), partial(forever, 100, "0.97"), partial(forever, 5, "0.5")
    ),
    "learn": Call(_learn, partial(near, 200, 60), partial(near, 4, 3)),
}
CALLS = {f"time: {name}": call for name, call in TIMED.items()}
CALLS |= {f"memory: {name}": call for name, call in SIZED.items()}


@dataclass(frozen=True)
class Used:
    """Use of a limit, in seconds or bytes, and how the call ended."""

    call: str
    limit: float
    used: float
    other: float
    ended: str

    @property
    def kept(self) -> bool:
        """Whether the limit was kept, up to the tolerance, by a call that would have taken longer."""
        timed = self.call.startswith("time")
        spare = SPARE_SECONDS if timed else SPARE_MEMORY
        return self.used <= max(1.1 * self.limit, self.limit + spare) and ("time" in self.ended or not timed)


def resident(name: str) -> int:
    """Return a size of this process in bytes: VmRSS, or VmHWM for its peak."""
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def measure(name: str, seconds: float = SECONDS, memory: int = MEMORY) -> Used:
    """Run a call in this process."""
    call, timed = CALLS[name], name.startswith("time")
    limits: dict[str, Any] = {"time_limit": seconds} if timed else {"memory_limit": memory, "time_limit": LONGEST}
    call.warm_up()
    model = call.model()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before, began = resident("VmRSS"), working_time()
    ended, message = call.run(model, **limits)
    ended += next((f", {limit}" for limit in ("time", "memory") if f"{limit} limit" in message), "")
    took = working_time() - began
    grew = resident("VmHWM") - before
    return Used(name, seconds if timed else memory, took if timed else grew, grew if timed else took, ended)


def measure_apart(name: str, seconds: float = SECONDS, memory: int = MEMORY) -> Used:
    """Run a call in a separate process."""
    command = [
        sys.executable,
        "-m",
        "bench.limits_table",
        "--one",
        name,
        "--seconds",
        str(seconds),
        "--memory",
        str(memory),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    return Used(**json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    """Print the table, as Markdown; return 1 if a limit was not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calls", nargs="*", help="parts of names; by default all")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--memory", type=int, default=MEMORY)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.seconds, given.memory).__dict__))
        return 0
    print("| call | allowed | used | ratio | kept | ended |\n| --- | --- | --- | --- | --- | --- |")
    kept = True
    for name in CALLS:
        if given.calls and not any(part in name for part in given.calls):
            continue
        try:
            used = measure_apart(name, given.seconds, given.memory)
        except RuntimeError as error:
            print(f"| {name} | | | | failed | {str(error)[-300:]!r} |", flush=True)
            kept = False
            continue
        unit, scale = ("s", 1.0) if name.startswith("time") else ("MB", 1e6)
        cells = [
            name,
            f"{used.limit / scale:g} {unit}",
            f"{used.used / scale:.2f} {unit}",
            f"{used.used / used.limit:.2f}",
        ]
        print(f"| {' | '.join(cells)} | {'yes' if used.kept else 'NO'} | {used.ended} |", flush=True)
        kept &= used.kept
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
