"""Files from outside: every input loads or raises a `SolventError`, soon and in little memory.

    files        models as JSON, YAML and NPZ
    policies     policies with their model; one that `verify` calls feasible never exceeds the budget
    checkpoints  learners; one that is resumed continues
    flips        raw bytes of all of them

An input is a function of its target and seed, so that one that crashes its worker can be reproduced and saved.
"""

from __future__ import annotations

import copy
import resource
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import solvent
from fuzz.mutate import Seed, flip, mutate
from solvent.core.archives import read_archive, write_archive
from solvent.core.checkpoint import Checkpoint
from solvent.formats.files import parse_model
from solvent.formats.registry import DOCUMENTS
from solvent.learning.checkpoint import restore, section_of, state_of
from solvent.learning.learner import Learner
from solvent.policy.discounted import DiscountedPolicy
from solvent.policy.files import from_bytes
from solvent.policy.table import AugmentedPolicy

#: No input may take longer than this, in seconds of the processor, or this much more memory.
MOST_SECONDS, MOST_BYTES = 2.0, 500_000_000
#: Episodes in which an agent follows a policy on rounded costs.
_EPISODES = 6


@dataclass(frozen=True)
class Input:
    """One file to load.

    Attributes
    ----------
    target : str
    seed : int
    origin : Seed
        The valid file that it was made from.
    content : bytes
    """

    target: str
    seed: int
    origin: Seed
    content: bytes

    def save(self, folder: Path, suffix: str = "") -> Path:
        """Write the content to a new file, and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.target}-{self.seed}{suffix}.{self.origin.kind}"
        path.write_bytes(self.content)
        return path


@dataclass(frozen=True)
class Verdict:
    """Result of an input.

    Attributes
    ----------
    outcome : {"loaded", "refused", "failed"}
    why : str
        The failure, in one line that is the same for failures of the same cause.
    detail : str
        A traceback or numbers.
    """

    outcome: str
    why: str = ""
    detail: str = ""


# ---------------------------------------------------------------------------------------------------------------------
# valid files


@cache
def _models() -> dict[str, Any]:
    """Return small models of all kinds, by name."""
    b = solvent.CMDP.builder(horizon=3, start="home", resources=["fuel"], budget=3, name="van", description="drives")
    b.add("home", "go", reward=2, outcomes=[(0.5, "home", 1), (0.5, "away", 2)])
    b.add("home", "rest", outcomes=[(1, "home", 0)])
    b.add("away", "back", reward=1, outcomes=[(1, "home", 1)])
    b.add("away", "wait", outcomes=[(1, "away", 0)], steps=[1, 2])
    two = solvent.CMDP.builder(
        horizon=2, start=0, resources=["x", "y"], budget={"x": "3/2", "y": solvent.Budget(2, lower=-1)}
    )
    two.add(0, 0, reward=0.5, outcomes=[(0.25, 0, ["1/2", 0]), (0.75, (1, "b"), [1, -1])])
    two.add(0, 1, outcomes=[(1, 0, [0, 1])])
    two.add((1, "b"), 0, reward=3, outcomes=[(1, 0, ["1/3", 1])])
    two.terminal("end")
    distribution = solvent.CMDP.builder(horizon=2, start="s", resources=["z"], budget=2)
    distribution.add(
        "s", "draw", reward=1, outcomes=[(0.5, "s", solvent.distribution("uniform", low=0, high=1)), (0.5, "s", 0.25)]
    )
    distribution.add("s", "stay", outcomes=[(1, "s", 0)])
    wide = solvent.CMDP.builder(horizon=2, start="s", resources=["z"], budget=2)
    wide.add("s", "a", reward=1, outcomes=[(0.5, "s", 1e300), (0.5, "s", 1e-300)])
    tank = solvent.CMDP.builder(
        horizon=2,
        start={"home": 0.25, "away": 0.75},
        resources=[solvent.Resource("fuel", floor=0, ceiling="9/2"), solvent.Resource("heat", ceiling=3), "time"],
        budget={"fuel": 3, "heat": None, "time": 4},
        end_reward={"home": 5, "done": -0.5},
        must_end_in=["home", "done"],
    )
    tank.add("home", "go", reward=1, outcomes=[(0.5, "away", [1, 2, 1]), (0.5, "done", [2, 0, 1])])
    tank.add("home", "fill", outcomes=[(1, "home", [-3, -1, 1])])
    tank.add("away", "back", outcomes=[(1, "home", ["1/2", 0, 1])])
    mixed = solvent.CMDP.builder(
        horizon=1, start={0: "1/3", (0, "b"): "2/3"}, resources=["x"], end_reward={0: 2, (0, "b"): "1/3"},
        must_end_in=[(0, "b")],
    )  # fmt: skip
    mixed.add(0, 0, outcomes=[(1, (0, "b"), 1)])
    mixed.add((0, "b"), 0, outcomes=[(1, (0, "b"), 0)])
    ever = solvent.CMDP.builder(horizon=None, discount="1/2", start="s", resources=["z"], budget=2)
    ever.add("s", "a", reward=1, outcomes=[(0.5, "s", 1), (0.5, "s", 0)])
    ever.add("s", "b", outcomes=[(1, "s", 0)])
    return {
        "van": b.build(),
        "two": two.build(),
        "distribution": distribution.build(),
        "wide": wide.build(),
        "tank": tank.build(),
        "mixed": mixed.build(),
        "ever": ever.build(),
    }


@cache
def _policies() -> list[tuple[Seed, Any]]:
    """Return policies as files, each with its model."""
    models = _models()
    solved = [
        ("reduction", models["van"], solvent.solve(models["van"], method="reduction").policy),
        ("frontier", models["van"], solvent.solve(models["van"], method="frontier").policy),
        ("two", models["two"], solvent.solve(models["two"]).policy),
        (
            "rounded",
            models["van"],
            solvent.solve(models["van"], approximation="additive", epsilon="3/2", strict=True).policy,
        ),
        (
            "continuous",
            models["distribution"],
            solvent.solve(models["distribution"], approximation="additive", epsilon="1/2", strict=True).policy,
        ),
        ("discounted", models["ever"], solvent.solve(models["ever"], epsilon="1/2").policy),
    ]
    with TemporaryDirectory() as folder:
        found = []
        for name, model, policy in solved:
            path = Path(folder) / name
            policy.save(path)
            found.append((Seed.of_archive("policy", name, path.read_bytes()), model))
    return found


@cache
def _first_learner(name: str) -> Learner:
    from solvent.learning.arguments import BONUS_SCALE, read_settings
    from solvent.learning.setup import LearnSetup

    settings = read_settings(
        epsilon=0.01, delta=0.05, pool=name != "nodes", bonus="practical", bonus_scale=BONUS_SCALE, replan="doubling",
        reward_range=(0.0, 2.0), return_range=None, random_rewards=None, seed=3,
    )  # fmt: skip
    support: Any = "learned" if name == "learned" else None
    return LearnSetup(env=_models()["van"], settings=settings, cost_support=support).learner()


def _learner(name: str) -> Learner:
    """Return a learner that has learned nothing; the graph, which takes long to make, is shared."""
    first = _first_learner(name)
    runner = copy.copy(first.runner)
    if first.learned_support is None:
        return Learner(first.settings, first.origin, first.graph, runner)
    support = copy.copy(first.learned_support)
    support.outcomes = [list(each) for each in support.outcomes]
    support.forget_pending()
    return Learner(first.settings, first.origin, first.graph, runner, support)


@cache
def _checkpoints() -> list[Seed]:
    seeds = []
    for name in ("pooled", "nodes", "learned"):
        learner = _learner(name)
        learner.run(20)
        state, arrays = state_of(learner)
        seeds.append(Seed.of_archive("checkpoint", name, write_archive(arrays, state)))
    return seeds


@cache
def _files() -> list[Seed]:
    """Return models as files of all kinds."""
    seeds = []
    with TemporaryDirectory() as folder:
        for name, model in _models().items():
            for kind in ("json", "yaml", "npz"):
                path = Path(folder) / f"{name}.{kind}"
                model.save(path)
                content = path.read_bytes()
                make = Seed.of_archive if kind == "npz" else Seed.of_document
                seeds.append(make(kind, name, content))
    return seeds


# ---------------------------------------------------------------------------------------------------------------------
# inputs and what they must do


def make_input(target: str, seed: int) -> Input:
    """Return the input of a seed."""
    random = Random(f"{target}-{seed}")
    if target == "files":
        # YAML takes ten times as long as the others
        kind = random.choices(("json", "npz", "yaml"), (10, 5, 1))[0]
        origin = random.choice([each for each in _files() if each.kind == kind])
        return Input(target, seed, origin, mutate(origin, random))
    if target == "policies":
        origin, _ = random.choice(_policies())
        return Input(target, seed, origin, mutate(origin, random))
    if target == "checkpoints":
        origin = random.choice(_checkpoints())
        return Input(target, seed, origin, mutate(origin, random))
    if target != "flips":
        raise ValueError(f"there is no target {target!r}")
    pool = [each for each in _files() if each.kind != "yaml"] * 2 + [each for each, _ in _policies()] + _checkpoints()
    pool += [each for each in _files() if each.kind == "yaml"][:1]
    origin, other = random.choice(pool), random.choice(pool)
    return Input(target, seed, origin, flip(origin, other, random))


def check_input(each: Input) -> Verdict:
    """Load an input and use the result; return the failure, if any."""
    before = _peak()
    began = time.process_time()
    try:
        loaded = _READERS[each.origin.kind](each)
    except solvent.SolventError as error:
        verdict = Verdict("refused")
        text = str(error)
        if any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in text):
            verdict = Verdict("failed", "a control character in a message", repr(text))
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        inner = [frame for frame in frames if "solvent" in frame.filename] or list(frames)
        where = f"{type(error).__name__} in {inner[-1].name}"
        verdict = Verdict("failed", where, "".join(traceback.format_exception(error))[-3000:])
    else:
        verdict = Verdict("failed", loaded) if loaded else Verdict("loaded")
    seconds, grown = time.process_time() - began, _peak() - before
    if verdict.outcome != "failed" and seconds > MOST_SECONDS:
        verdict = Verdict("failed", f"takes more than {MOST_SECONDS:g} seconds", f"{seconds:.1f} s")
    if verdict.outcome != "failed" and grown > MOST_BYTES:
        verdict = Verdict("failed", "takes too much memory", f"{grown / 1e6:,.0f} MB")
    return verdict


def _peak() -> int:
    """Return the peak memory of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _load_model(each: Input) -> str:
    model = parse_model(each.content, each.origin.kind)
    repr(model)
    if each.seed % 8 == 0:
        str(model.describe())
        if model.fingerprint != model.fingerprint:
            return "a fingerprint that changes"
        file_format = DOCUMENTS[each.seed // 8 % len(DOCUMENTS)]
        again = parse_model(file_format.write(model), file_format.name)
        if again != model or again.fingerprint != model.fingerprint:
            return "a model that does not survive saving"
    return ""


def _load_policy(each: Input) -> str:
    model = next(model for origin, model in _policies() if origin is each.origin)
    policy = from_bytes(each.content, model)
    repr(policy)
    if each.seed % 2:
        return ""
    if isinstance(policy, DiscountedPolicy):
        return _follow_discounted(model, policy, each.seed)
    report = solvent.verify(model, policy)
    if not report.feasible:
        return ""
    if policy.rounds or model.has_continuous_costs:
        return _follow_by_agent(model, policy, each.seed)
    return _follow_by_names(model, policy)


def _follow_by_names(model: Any, policy: AugmentedPolicy) -> str:
    """Follow a policy through all histories, by names; return how it exceeds the budget, if it does."""
    limits = policy.limits
    layer = {(model.start, (Fraction(0),) * len(model.resources))}
    for step in range(model.horizon):
        after = set()
        for state, spent in layer:
            index = model.state_index(state)
            if model.is_terminal(step, index):
                after.add((state, spent))
                continue
            known = {
                name: amount for name, amount in zip(model.resources, spent, strict=True) if name in policy.resources
            }
            action = policy.action(step, state, known or ())
            offered = {model.actions[model.row_action[r]]: r for r in model.rows(step, index)}
            if action not in offered:
                return "a policy called feasible that takes actions which are not there"
            for outcome in model.outcomes(offered[action]):
                total = tuple(s + c for s, c in zip(spent, outcome.cost.values(), strict=True))
                after.add((outcome.next_state, total))
        layer = after
        for _, spent in layer:
            for d, name in enumerate(limits.resources):
                amount = spent[model.resources.index(name)]
                upper, lower = limits.upper[d][step], limits.lower[d][step]
                if (upper is not None and amount > upper) or (lower is not None and amount < lower):
                    return "a policy called feasible that goes over"
    return ""


def _follow_by_agent(model: Any, policy: AugmentedPolicy, seed: int) -> str:
    simulation = solvent.simulate(model, policy, 32, seed=seed)
    if simulation.violations:
        return "a policy called feasible that goes over in simulation"
    random = Random(seed)
    for _ in range(_EPISODES):
        agent = policy.agent(model)
        while not agent.done:
            action = agent.act()
            index = model.state_index(agent.state)
            row = next(r for r in model.rows(agent.step, index) if model.actions[model.row_action[r]] == action)
            outcome = random.choice(model.outcomes(row))
            costs = {
                name: cost if isinstance(cost, Fraction) else random.choice((cost.high, cost.low or Fraction(0)))
                for name, cost in outcome.cost.items()
            }
            agent.observe(outcome.next_state, costs)
            if any(left is not None and left < 0 for left in agent.remaining.values()) and not agent.done:
                return "a policy called feasible whose agent goes over"
    return ""


def _follow_discounted(model: Any, policy: DiscountedPolicy, seed: int) -> str:
    report = solvent.verify(model, policy)
    random = Random(seed)
    agent = policy.agent(model)
    for _ in range(12):
        agent.act()
        state = model.base.state_index(agent.state)
        row = random.choice(list(model.base.rows(0, state)))
        for _ in range(4):  # the agent knows which outcomes its action can have
            outcome = random.choice(model.base.outcomes(row))
            try:
                agent.observe(outcome.next_state, outcome.cost)
                break
            except solvent.UnmodeledOutcome:
                return ""
        if report.feasible and any(left is not None and left < 0 for left in agent.remaining.values()):
            return "a discounted policy called feasible whose agent goes over"
    return ""


def _load_checkpoint(each: Input) -> str:
    """Put arrays and state into a checkpoint, so that its checksums are valid, and restore a learner from it."""
    arrays, state = read_archive(each.content)
    learner = _learner(each.origin.name)
    with TemporaryDirectory() as folder, Checkpoint(Path(folder) / "c", "learn", {}) as checkpoint:
        try:
            section_of(checkpoint).save(state, arrays)
        except (TypeError, ValueError) as error:  # types that no checkpoint contains
            raise solvent.ModelError("checkpoint", "a state and arrays of numbers", str(error)) from None
        restore(learner, section_of(checkpoint))
    if learner.episodes < 10**6:
        learned = learner.run(learner.episodes + 2)
        repr(learned)
    return ""


_READERS: dict[str, Callable[[Input], str]] = {
    "json": _load_model,
    "yaml": _load_model,
    "npz": _load_model,
    "policy": _load_policy,
    "checkpoint": _load_checkpoint,
}
