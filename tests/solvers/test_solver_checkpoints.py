"""Checkpoints of solvers: a run that ends after any save and is started again gives the very same result."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from effort import slow_after
from fuzz.generate import generate
from interrupting import crash_after, every_crash, small_pieces
from solvent.core.checkpoint import Checkpoint
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.errors import LimitError, SolventError
from solvent.model import instances
from solvent.policy.discounted import DiscountedPolicy
from solvent.policy.writing import discounted_to_bytes, to_bytes
from solvent.solvers import registry
from solvent.solvers.grid import choice, solver, sweep
from solvent.solvers.grid.spilled import plan_parts
from solvent.solvers.solution import Solution
from solvent.solvers.surface import Surface
from solvent.solvers.transforms import gap

#: Kinds of random problems; the first five are drawn by default.
KINDS = ("general", "deterministic", "product", "resources", "accounts", "one_sided", "rewards", "steps", "midsize")


def same_solution(one: Solution, other: Solution) -> None:
    """Assert that two solutions agree in everything but time and memory."""
    # the message of a limit may state how much memory is free at the time
    said = [re.sub(r"[\d,]+ MB of free memory", "the free memory", each.message) for each in (one, other)]
    assert said[0] == said[1]
    for name in ("status", "method", "approximation", "diagnosis"):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("value", "value_lower", "value_upper"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name
    assert [each[:4] for each in one.rounds] == [each[:4] for each in other.rounds]
    for name in ("nodes", "layer_sizes", "representation"):
        assert getattr(one.stats, name) == getattr(other.stats, name), name
    if one.status.has_policy:
        assert one.worst_spent == other.worst_spent
        write = discounted_to_bytes if isinstance(one.policy, DiscountedPolicy) else to_bytes
        assert write(one.policy) == write(other.policy)


def same_curve(one: Any, other: Any) -> None:
    """Assert that two curves, or two surfaces, agree in all values."""
    assert type(one) is type(other)
    assert (one.budgets, one.error, one.max_budget, one.flat_beyond) == (
        other.budgets, other.error, other.max_budget, other.flat_beyond,
    )  # fmt: skip
    assert np.array_equal(one.values, other.values)
    if isinstance(one, Surface):
        assert np.array_equal(one.table, other.table)
    elif len(one):
        assert to_bytes(one.policy(one.budgets[-1])) == to_bytes(other.policy(other.budgets[-1]))


def problem(seed: int, kind: str) -> tuple[Any, Any, dict[str, Any]]:
    """Return a random model, its budget, and what was spent before."""
    drawn = generate(seed, kind)
    model, budget = drawn.build()
    return model, budget, drawn.given


@pytest.mark.parametrize("method", registry.names())
@pytest.mark.parametrize(
    ("kind", "count"),
    slow_after(5, [*((kind, 1) for kind in KINDS), *((kind, 8) for kind in KINDS)]),
)
def test_every_method_goes_on_from_every_save(tmp_path: Path, kind: str, count: int, method: str) -> None:
    solved = 0
    for seed in range(count, 40):
        try:
            model, budget, given = problem(seed, kind)
            solvent.solve(model, budget, method=method, time_limit=5, memory_limit="50MB", **given)
        except SolventError:
            continue
        compute = partial(solvent.solve, model, budget, method=method, **given)
        (tmp_path / str(seed)).mkdir()
        with small_pieces():
            every_crash(tmp_path / str(seed), compute, same_solution, most=5)
        solved += 1
        if solved == count:
            break


def certain(seed: int, horizon: int, *, resources: int = 1, real: bool = True) -> solvent.CMDP:
    """Return a random model without randomness."""
    rng = np.random.default_rng(seed)
    names = [f"r{d}" for d in range(resources)]
    b = solvent.CMDP.builder(horizon=horizon, start=0, resources=names, budget=dict.fromkeys(names, horizon // 2))
    for state in range(4):
        for action in range(3):
            costs = [float(rng.random()) * 2 - 0.3 if real else int(rng.integers(0, 4)) for _ in names]
            b.add(state, action, reward=float(rng.random()), outcomes=[(1, int(rng.integers(4)), costs)])
    return b.build()


def rolls(horizon: int, **options: Any) -> solvent.CMDP:
    """Return a random model with costs of 0 to 3."""
    given = {"cost_range": (0, 3), "branching": 2, "seed": 3, "budget": 2 * horizon, **options}
    return instances.random(3, 2, horizon=horizon, **given)


#: A model, the arguments of `solve`, and the sections that its checkpoint contains.
SOLVES: dict[str, tuple[Any, dict[str, Any], set[str]]] = {
    "reduction": (lambda: rolls(9, resources=2), {"method": "reduction"}, {"layers"}),
    "hashed": (lambda: rolls(5, real_costs=True, resources=2), {"method": "reduction"}, {"layers"}),
    "unpruned": (lambda: rolls(5), {"method": "reduction", "prune": False}, {"layers"}),
    "points": (lambda: rolls(8, real_costs=True), {"method": "frontier"}, {"points"}),
    "arrays": (lambda: rolls(20), {"method": "frontier"}, {"arrays"}),
    "grid": (lambda: rolls(9, resources=2), {"method": "grid"}, {"grid"}),
    "labels": (lambda: certain(1, 9, resources=2), {"method": "labels"}, {"paths"}),
    "one path": (lambda: certain(2, 12), {"method": "labels"}, {"path"}),
    "auto": (lambda: rolls(9, resources=2), {}, {"grid"}),
    "gap, one resource": (
        lambda: rolls(8, cost_range=(0, 3000), budget=16_000), {"gap": 1e-4}, {"arrays", "points", "round"},
    ),
    "gap, two resources": (lambda: rolls(4, real_costs=True, resources=2), {"gap": 0.05}, {"grid", "round"}),
    "relaxed": (lambda: rolls(8, real_costs=True), {"approximation": "additive", "epsilon": 1}, {"points"}),
    "strict": (
        lambda: rolls(8, real_costs=True), {"approximation": "relative", "epsilon": 0.3, "strict": True}, {"points"},
    ),
}  # fmt: skip


#: Solves that take seconds, with each of their checkpoints, and those that are like others.
LONG = ("one path", "gap, one resource", "gap, two resources", "auto", "relaxed")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in SOLVES]
)
def test_what_is_saved(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, options, sections = SOLVES[name]
    if name.startswith("gap"):  # otherwise such small problems are solved exactly first, or by rounded costs alone
        monkeypatch.setattr(gap, "_FIRST_TRY", 1)
        monkeypatch.setattr(gap, "_STALLED", 0.0)
        monkeypatch.setattr(gap, "_FIRST_AMOUNTS", (4, 4))
    if name == "arrays":
        monkeypatch.setattr("solvent.solvers.frontier.bounds.DENSE_FROM", 0)
    with small_pieces():
        saved = every_crash(tmp_path, partial(solvent.solve, make(), **options), same_solution, most=10)
    assert sections <= set(saved), set(saved)
    assert len(saved) > 2


@pytest.mark.parametrize("name", ["gap, one resource", "gap, two resources"])
def test_finished_rounds_are_not_solved_again(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Except for the one that the best policy is from."""
    make, options, _ = SOLVES[name]
    monkeypatch.setattr(gap, "_FIRST_TRY", 1)
    monkeypatch.setattr(gap, "_FIRST_AMOUNTS", (4, 4))
    solves: list[int] = []
    usual = gap.solve_problem
    monkeypatch.setattr(gap, "solve_problem", lambda *given: solves.append(1) or usual(*given))
    model, path = make(), tmp_path / "c"
    expected = solvent.solve(model, **options)
    assert len(solves) > 5
    with crash_after(None) as saved:
        same_solution(expected, solvent.solve(model, checkpoint=path, checkpoint_every=0, **options))
    solves.clear()
    same_solution(expected, solvent.solve(model, checkpoint=path, **options))
    assert len(solves) == 2  # the first try, of the exact problem, and the best policy
    # a run that ends in the middle, and one with another gap, whose rounds begin alike
    with small_pieces(), crash_after(len(saved) // 2):
        solvent.solve(model, checkpoint=tmp_path / "d", checkpoint_every=0, **options)
    same_solution(expected, solvent.solve(model, checkpoint=tmp_path / "d", **options))
    wide = {**options, "gap": 10 * options["gap"]}
    same_solution(solvent.solve(model, **wide), solvent.solve(model, checkpoint=tmp_path / "d", **wide))


def test_a_limit_before_the_best_policy_is_there_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, options, _ = SOLVES["gap, two resources"]
    monkeypatch.setattr(gap, "_FIRST_TRY", 1)
    monkeypatch.setattr(gap, "_FIRST_AMOUNTS", (4, 4))
    model, path = make(), tmp_path / "c"
    expected = solvent.solve(model, checkpoint=path, **options)
    usual = gap.solve_problem

    def stop(problem: Any, method: str, run: Any) -> Any:
        if not problem.is_exact:
            raise LimitReached("the time is up")
        return usual(problem, method, run)

    with monkeypatch.context() as patch:
        patch.setattr(gap, "solve_problem", stop)
        found = solvent.solve(model, checkpoint=path, **options)
    assert found.status == "limit"
    assert found.message == "limit: the time is up, before the best policy so far was computed again"
    assert found.value_upper == expected.value_upper
    same_solution(expected, solvent.solve(model, checkpoint=path, **options))


def test_the_lower_bound_is_that_of_the_policy_that_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is computed again by another method, which may be chosen if there is less memory."""
    make, options, _ = SOLVES["gap, two resources"]
    monkeypatch.setattr(gap, "_FIRST_TRY", 1)
    monkeypatch.setattr(gap, "_FIRST_AMOUNTS", (4, 4))
    model, path = make(), tmp_path / "c"
    before = solvent.solve(model, checkpoint=path, **options)
    usual = gap.solve_problem

    def other_method(*given: Any) -> Any:
        answer = usual(*given)
        return replace(answer, lower=answer.lower - 1e-3)

    monkeypatch.setattr(gap, "solve_problem", other_method)
    found = solvent.solve(model, checkpoint=path, **options)
    assert found.value_lower == pytest.approx(before.value_lower - 1e-3)
    assert found.value_upper == before.value_upper


@pytest.mark.slow
def test_layers_that_are_given_up_for_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice between layers and boxes is made once, and those layers are not kept."""
    monkeypatch.setattr(solver, "_SMALL_STEP", 0.0)
    monkeypatch.setattr(choice, "_SCAN_WORK", 0.0)
    chosen = set()
    for work in (0.001, 0.1, 1.0, 10.0, 100.0):
        monkeypatch.setattr(choice, "_NODE_WORK", work)
        (tmp_path / str(work)).mkdir()
        with small_pieces():
            saved = every_crash(
                tmp_path / str(work), partial(solvent.solve, rolls(9, resources=2)), same_solution, most=8
            )
        chosen.add(tuple(sorted(set(saved))))
    assert ("layers",) in chosen
    assert ("grid", "layers") in chosen


@pytest.mark.slow
def test_discounted_models(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(discount="0.5", start=0, resources=["r"])
    b.add(0, "go", reward=1, outcomes=[(0.5, 0, 1), (0.5, 1, "1/3")])
    b.add(0, "rest", outcomes=[(1, 1, 0)])
    b.add(1, "go", reward=2, outcomes=[(0.5, 0, "1/2"), (0.5, 1, 2)])
    b.add(1, "rest", outcomes=[(1, 0, 0)])
    model = b.build()
    for k, options in enumerate(({}, {"strict": True}, {"method": "reduction"})):
        (tmp_path / str(k)).mkdir()
        compute = partial(solvent.solve, model, 2, epsilon=0.25, **options)
        with small_pieces():
            assert every_crash(tmp_path / str(k), compute, same_solution, most=20)


FRONTIERS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], set[str]]] = {
    "points": (lambda: rolls(7, real_costs=True), (), {}, {"points"}),
    "arrays": (lambda: rolls(20), (), {"max_budget": 25}, {"arrays"}),
    "surface": (lambda: rolls(6, resources=2), (["r0", "r1"],), {}, {"grid"}),
    "tank": (lambda: tank(), (), {}, {"sizes"}),
    "remaining": (lambda: tank(), (), {"vary": "remaining", "budget": 6}, {"points"}),
}


def tank() -> solvent.CMDP:
    """Return a model with a resource that saturates."""
    b = solvent.CMDP.builder(horizon=8, start=0, resources=[solvent.Resource("fuel", floor=0)])
    rng = np.random.default_rng(4)
    for s in range(3):
        for a in range(3):
            outcomes = [(0.5, int(rng.integers(3)), int(rng.integers(-3, 5))) for _ in range(2)]
            b.add(s, a, reward=float(rng.random()), outcomes=outcomes)
    return b.build()


@pytest.mark.parametrize("name", FRONTIERS)
def test_curves_and_surfaces(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, arguments, options, sections = FRONTIERS[name]
    if name == "arrays":
        monkeypatch.setattr("solvent.solvers.frontier.bounds.DENSE_FROM", 0)
    with small_pieces():
        saved = every_crash(tmp_path, partial(solvent.frontier, make(), *arguments, **options), same_curve, most=10)
    assert sections <= set(saved), set(saved)


@pytest.mark.parametrize("kind", ["one_sided", "general", "accounts"])
def test_random_curves(tmp_path: Path, kind: str) -> None:
    found = 0
    for seed in range(60):
        try:
            model, _, _ = problem(seed, kind)
        except SolventError:
            continue
        for resources in {model.resources[:1], model.resources}:
            arguments = {"ignore_limits": True, "max_budget": dict.fromkeys(resources, 5)}
            try:
                solvent.frontier(model, resources, **arguments, time_limit=2, memory_limit="20MB")
            except SolventError:
                continue
            folder = tmp_path / f"{seed}-{len(resources)}"
            folder.mkdir()
            with small_pieces():
                every_crash(folder, partial(solvent.frontier, model, resources, **arguments), same_curve, most=6)
            found += 1
        if found >= 3:
            break
    assert found


def test_values_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are swept one after another, because values do not fit into memory."""
    model = instances.random(12, 3, horizon=8, resources=2, cost_range=(0, 4), budget=24, seed=1)
    expected = solvent.solve(model, method="grid")
    monkeypatch.setattr(ResourceMonitor, "has_room_for", lambda self, size: False)
    monkeypatch.setattr(sweep, "plan_parts", lambda layout, room: plan_parts(layout, 2**40, least=3))
    with small_pieces():
        saved = every_crash(tmp_path, partial(solvent.solve, model, method="grid"), same_solution)
    assert set(saved) == {"parts"}
    assert solvent.solve(model, method="grid", checkpoint=tmp_path / "whole").value == expected.value


def test_a_time_limit_leaves_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that are each too short get there together, although the interval between saves is never reached."""
    model = instances.random(8, 3, horizon=40, resources=2, cost_range=(0, 5), budget=160, seed=1)
    expected = solvent.solve(model, method="grid")
    assert expected.status == "optimal"
    usual = ResourceMonitor.should_save

    def should_save(self: ResourceMonitor) -> bool:
        self.__dict__["pieces"] = self.__dict__.get("pieces", 0) + 1
        return usual(self)

    # a clock that counts pieces of work, each of which is one step
    monkeypatch.setattr(ResourceMonitor, "should_save", should_save)
    monkeypatch.setattr(ResourceMonitor, "elapsed", property(lambda self: float(self.__dict__.get("pieces", 0))))
    monkeypatch.setattr(sweep, "_WORK_OF_CALL", 0.0)
    steps = [model.horizon]
    while steps[-1] > 0 and len(steps) < 100:
        solvent.solve(model, method="grid", checkpoint=tmp_path / "c", time_limit=10)
        saved = Checkpoint(tmp_path / "c", "solve", {})
        steps.append(min((each.state["step"] for each in saved._sections.values()), default=model.horizon))
        saved.close()
    assert steps == sorted(set(steps), reverse=True)
    assert 3 < len(steps) < 8
    assert steps[-1] == 0
    monkeypatch.undo()
    same_solution(expected, solvent.solve(model, method="grid", checkpoint=tmp_path / "c"))


def test_another_problem_is_refused(tmp_path: Path) -> None:
    model, path = rolls(5), tmp_path / "run.ckpt"
    solvent.solve(model, checkpoint=path)
    with pytest.raises(SolventError, match=r"budget: expected the same as now.*remove the folder"):
        solvent.solve(model, 1, checkpoint=path)
    with pytest.raises(SolventError, match="model: expected the same as now"):
        solvent.solve(rolls(5, seed=9), checkpoint=path)
    with pytest.raises(SolventError, match="method: expected the same as now"):
        solvent.solve(model, method="reduction", checkpoint=path)
    with pytest.raises(SolventError, match="options: expected the same as now"):
        solvent.solve(model, approximation="relative", epsilon=0.1, checkpoint=path)
    with pytest.raises(SolventError, match="expected a checkpoint of frontier, found one of 'solve'"):
        solvent.frontier(model, checkpoint=path)
    for every in (-1, 10**400, float("nan"), True, "3"):
        with pytest.raises(SolventError, match="checkpoint_every: expected seconds"):
            solvent.solve(model, checkpoint=path, checkpoint_every=every)
    solvent.solve(model, checkpoint=path, checkpoint_every=np.int64(3))
    with pytest.raises(SolventError, match="checkpoint: expected a path"):
        solvent.solve(model, checkpoint=3)  # type: ignore[arg-type]
    same_solution(solvent.solve(model), solvent.solve(model, checkpoint=path, gap=None))


def test_a_curve_goes_on_whatever_form_its_arguments_have(tmp_path: Path) -> None:
    model, path = rolls(6, resources=2), tmp_path / "c"
    curve = solvent.frontier(model, "r0", 9, budget={"r1": solvent.Budget(upper=lambda h: 12)}, checkpoint=path)
    again = solvent.frontier(model, ["r0"], {"r0": 9.0}, budget={"r1": "12"}, spent={}, checkpoint=path)
    same_curve(curve, again)
    for other in ({"budget": {"r1": 11}}, {"budget": {"r1": 12}, "spent": {"r1": 1}}, {"max_budget": 8}):
        with pytest.raises(SolventError, match=r"(budget|spent): expected the same as now"):
            solvent.frontier(model, "r0", **{"max_budget": 9, "budget": {"r1": 12}, **other}, checkpoint=path)


def test_more_memory_or_time_goes_on(tmp_path: Path) -> None:
    """Limits are no part of a problem: a run that had too little of one goes on with more."""
    model = rolls(9, resources=2)
    few = solvent.solve(model, method="reduction", checkpoint=tmp_path / "c", checkpoint_every=0, memory_limit="25kB")
    assert few.status == "limit"
    saved = Checkpoint(tmp_path / "c", "solve", {})
    assert next(iter(saved._sections.values())).state["layers"] > 1
    saved.close()
    same_solution(
        solvent.solve(model, method="reduction"),
        solvent.solve(model, method="reduction", checkpoint=tmp_path / "c"),
    )
    with pytest.raises(LimitError):
        solvent.frontier(model, ["r0", "r1"], checkpoint=tmp_path / "f", memory_limit="10kB")
    same_curve(solvent.frontier(model, ["r0", "r1"]), solvent.frontier(model, ["r0", "r1"], checkpoint=tmp_path / "f"))
