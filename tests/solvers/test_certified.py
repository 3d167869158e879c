"""Bounds that close: they enclose the optimum, reach the gap asked for, and the policy is never over."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from catalog import CASES, Case
from effort import draws, first, seeds
from oracle import optimum
from solvent import ModelError, Status, instances
from solvent.core.limits import ResourceMonitor
from solvent.model.budget import resolve
from solvent.model.cmdp import CMDP
from solvent.solvers.base import Run, SolverOptions
from solvent.solvers.choice import solve_problem
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.build import build
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.problem import Problem
from solvent.solvers.solve import solve
from solvent.solvers.transforms import gap as certified
from solvent.solvers.transforms.rounding import project
from strategies import Tiny, one_sided_problems, problems

NOISE = 1e-9


@pytest.fixture
def no_short_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no problem be so small that it is solved exactly at once."""
    monkeypatch.setattr(certified, "_FIRST_TRY", 0)


def check(model: CMDP, budget: Any, exact: float, gap: float, **options: Any) -> Any:
    """Hold a certified answer to what it says."""
    solution = solve(model, budget, gap=gap, **options)
    if exact == -math.inf:
        assert solution.status is Status.INFEASIBLE
        return solution
    assert solution.status in (Status.OPTIMAL, Status.WITHIN_GAP)
    size = NOISE * max(1.0, abs(exact))
    assert solution.value_lower <= solution.value <= solution.value_upper
    assert solution.value_lower - size <= exact <= solution.value_upper + size
    assert solution.gap <= gap
    report = solvent.verify(model, solution.policy, budget)
    assert report.feasible
    assert report.value >= solution.value - size
    for before, after in zip(solution.rounds, solution.rounds[1:], strict=False):
        assert before.lower <= after.lower
        assert before.upper >= after.upper
        assert before.seconds <= after.seconds
    assert solution.rounds[-1].gap <= gap
    return solution


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_catalog(case: Case) -> None:
    check(case.model, case.budget, case.value, 0.01, spent=case.spent)


@pytest.mark.usefixtures("no_short_cut")
@pytest.mark.parametrize("case", [case for case in CASES if "huge" not in case.name], ids=lambda case: case.name)
def test_the_catalog_in_rounds(case: Case) -> None:
    check(case.model, case.budget, case.value, 0.1, spent=case.spent, time_limit=60)


@given(problems(min_resources=1, max_resources=2), st.sampled_from([0.0, 0.01, 0.5]))
@draws(100)
def test_random_problems(tiny: Tiny, gap: float) -> None:
    check(tiny.model, tiny.budget, float(optimum(tiny.model, tiny.budget)), gap)


@given(st.integers(0, 10**6), st.sampled_from([0.2, 0.01]))
@draws(40)
def test_real_costs_by_lengths(seed: int, gap: float) -> None:
    n_resources = 1 + seed % 2
    model = instances.random(
        3, 2, horizon=5, resources=n_resources, real_costs=True, cost_range=(-(seed % 3), 3), budget=9, seed=seed
    )
    exact = solve(model).value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certified, "_FIRST_TRY", 0)
        patch.setattr(certified, "_FIRST_AMOUNTS", (16, 4))
        solution = check(model, None, exact, gap)
    assert solution.rounds


@given(one_sided_problems(rest=True), st.sampled_from([0.3, 0.02, 0.0]))
@draws(60)
def test_by_resolution(tiny: Tiny, gap: float) -> None:
    problem = Problem.exact(tiny.model, resolve(tiny.model, tiny.budget))
    exact = float(optimum(tiny.model, tiny.budget))
    bracket = certified._Bracket(gap, 100.0, ResourceMonitor(), None)
    for _, nodes in zip(range(60), certified._by_resolution(problem, bracket), strict=False):
        assert nodes >= 0
        if bracket.done:
            break
        assert bracket.lower - NOISE <= exact <= bracket.upper + NOISE
    assert bracket.done
    assert bracket.is_infeasible == (exact == -math.inf)
    if exact != -math.inf:
        assert bracket.best is not None
        transform, made, found = bracket.best
        policy = transform.invert(made, found.recall()).make_policy()
        report = solvent.verify(tiny.model, policy, tiny.budget)
        assert report.feasible
        assert report.value >= bracket.lower - NOISE


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("delta", [0.3, 0.05, 0.01])
def test_rounded_values_stay_within_the_bound_and_are_few(seed: int, delta: float) -> None:
    model = instances.random(4, 3, horizon=7, real_costs=True, cost_range=(0, 3), budget=15, seed=seed)
    problem = Problem.exact(model, resolve(model, None))
    bounds = FrontierBounds.at_start(model, SingleResource.of(problem.lattice), ResourceMonitor())
    exact = build(bounds, ResourceMonitor()).value(0)
    down, up = (build(bounds, ResourceMonitor(), resolution=delta, up=side) for side in (False, True))
    if exact == -math.inf:
        assert down.value(0) == up.value(0) == -math.inf
        return
    assert exact - model.horizon * delta - NOISE <= down.value(0) <= exact + NOISE
    assert exact - NOISE <= up.value(0) <= exact + model.horizon * delta + NOISE
    for found in (down, up):
        points = (found.points.indptr_HS[:, 1:] - found.points.indptr_HS[:, :-1]).max(axis=1)
        for step, most in enumerate(points):
            # rewards are in [0, 1], so values at a step range over no more than what is left of the horizon
            assert most <= (model.horizon - step) / delta + 2


def test_lengths_that_stall_give_way_to_resolution(no_short_cut: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # costs that meet the budget to the last bit, and others that are over by less than any length in reach
    third = Fraction(1, 3) + Fraction(1, 2**40)
    b = solvent.CMDP.builder(horizon=3, start=0, resources=["x"], budget={"x": 3 * third})
    b.add(0, "take", reward=1, outcomes=[(0.5, 0, third), (0.5, 0, 0)])
    b.add(0, "grab", reward=2, outcomes=[(0.5, 0, third + Fraction(1, 2**45)), (0.5, 0, third)])
    b.add(0, "rest", outcomes=[(1, 0, 0)])
    model = b.build()
    used = []
    by_resolution = certified._by_resolution
    monkeypatch.setattr(certified, "_by_resolution", lambda *args: used.append(1) or by_resolution(*args))
    solution = check(model, None, solve(model).value, 0.001)
    assert used
    assert len(solution.rounds) > 2


def test_an_interrupt_returns_the_best_so_far(no_short_cut: None, monkeypatch: pytest.MonkeyPatch) -> None:
    model = instances.random(4, 2, horizon=6, resources=2, real_costs=True, cost_range=(0, 3), budget=16, seed=4)
    calls = 0
    run = certified.solve_problem

    def interrupted(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        return run(*args, **options)

    monkeypatch.setattr(certified, "solve_problem", interrupted)
    solution = solve(model, gap=0)
    assert solution.status is Status.FEASIBLE
    assert solution.message.startswith("feasible: interrupted, with a gap of ")
    assert len(solution.rounds) >= 1
    assert solvent.verify(model, solution.policy).feasible
    assert solution.value_lower <= solve(model).value <= solution.value_upper
    calls = 4
    empty = solve(model, gap=0)
    assert empty.status is Status.LIMIT
    assert "interrupted, before any policy was found" in empty.message


def test_time_and_memory_end_it_with_what_was_found(no_short_cut: None) -> None:
    model = instances.random(15, 3, horizon=20, resources=2, real_costs=True, cost_range=(0, 3), budget=48, seed=2)
    for options in ({"time_limit": 1.5}, {"memory_limit": "8MB"}):
        solution = solve(model, gap=0, **options)  # type: ignore[arg-type]
        assert solution.status in (Status.FEASIBLE, Status.LIMIT)
        assert solution.message.startswith(f"{solution.status.value}: ")
        assert solution.value_upper < math.inf
        if solution.status is Status.FEASIBLE:
            assert solution.policy.limits.resources == ("r0", "r1")
    assert solve(model, gap=0, memory_limit=1000).status is Status.LIMIT


def test_continuous_costs_close_too() -> None:
    b = solvent.CMDP.builder(horizon=4, start=0, resources=["x"], budget={"x": 5})
    b.add(0, "work", reward=2, outcomes=[(1, 0, solvent.distribution("uniform", low=0, high=2))])
    b.add(0, "idle", reward=1, outcomes=[(1, 0, solvent.distribution("triangular", low=0, mode="1/2", high=1))])
    b.add(0, "rest", outcomes=[(1, 0, 0)])
    solution = solve(b.build(), gap=0.02)
    assert solution.status is Status.WITHIN_GAP
    assert solution.worst_spent["x"] <= 5
    assert 0 < solution.gap <= 0.02


def test_the_log_has_a_line_for_each_round() -> None:
    solution = solve(instances.paper(10, seed=1, budget=2), gap=0.01)
    header, *lines = solution.log.splitlines()
    assert header.split() == ["lower", "upper", "gap", "nodes", "time"]
    assert len(lines) == len(solution.rounds) == 1
    assert solve(instances.paper(10, seed=1, budget=2)).log == ""


@pytest.mark.parametrize("gap", [-0.1, math.nan, math.inf, "1e400", 10**400, "1%", True])
def test_messages_of_a_wrong_gap(gap: Any) -> None:
    with pytest.raises(ModelError, match=r"gap: expected a relative gap of at least 0, such as 0\.01, found"):
        solve(instances.paper(3), 1, gap=gap)


def test_a_gap_is_a_number_as_it_was_typed() -> None:
    model = instances.paper(10, seed=1, budget=2)
    assert solve(model, gap="1/100").gap <= 0.01
    assert solve(model, gap=Fraction(1, 100)).gap <= 0.01


def test_continuous_costs_that_nothing_can_keep_are_infeasible_at_once() -> None:
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["m"], budget=-2)
    b.add(0, "a", reward=1, outcomes=[(1, 0, solvent.distribution("beta", a=2, b=3, low=1, high=3))])
    b.add(0, "z", outcomes=[(1, 0, 0)])
    assert solve(b.build(), gap=0.1, memory_limit="50MB").status is Status.INFEASIBLE


def test_a_gap_needs_pruned_layers() -> None:
    with pytest.raises(ModelError, match=r"gap: expected without prune=False, as closing a gap .*, found prune=False"):
        solve(instances.paper(5, 1, budget=2), gap=0.1, prune=False)


def test_a_gap_chooses_its_own_method() -> None:
    with pytest.raises(
        ModelError, match=r"gap: expected without method= and approximation=, which it chooses itself, found method="
    ):
        solve(instances.paper(3), 1, gap=0.1, method="frontier")


@pytest.mark.parametrize("seed", seeds(12))
def test_what_a_coarser_round_proved_prunes_the_next(seed: int) -> None:
    model = instances.random(
        5, 3, horizon=6, resources=2, real_costs=True, cost_range=(-1, 3), budget=11 + seed % 4, seed=seed
    )
    limits = resolve(model, None)
    coarse, fine = (project(model, limits, (Fraction(1, n),) * 2, "relaxed") for n in (4, 8))
    known = certified._Known.of(coarse, solve_problem(coarse, "reduction", Run(ResourceMonitor())))
    assert known is not None
    for scheme in ("relaxed", "rounded"):
        problem = project(model, limits, (Fraction(1, 8),) * 2, scheme)
        plain = solve_problem(problem, "reduction", Run(ResourceMonitor()))
        pruned = solve_problem(
            problem, "reduction", Run(ResourceMonitor(), SolverOptions(within=known.inside(problem)))
        )
        assert pruned.value == plain.value
        assert pruned.stats.nodes <= plain.stats.nodes
    answer = solve_problem(fine, "reduction", Run(ResourceMonitor()))
    if not answer.feasible:
        return
    live_low, live_high = answer.live_box()
    low, high = known.inside(fine)
    some = live_low <= live_high
    assert (low[some] <= live_low[some]).all()
    assert (high[some] >= live_high[some]).all()


def test_pruning_by_a_coarser_round_does_prune() -> None:
    # whoever falls into the pit must pay with fuel or with heat at each step: one alone would do, both together do not
    b = solvent.CMDP.builder(horizon=8, start="road", resources=["fuel", "heat"], budget={"fuel": 9, "heat": 9})
    b.add("road", "drive", reward=1, outcomes=[(0.5, "road", ["1.01", "0.33"]), (0.5, "road", ["1.07", "0.61"])])
    b.add("road", "jump", reward=3, outcomes=[(0.5, "road", ["0.51", 0]), (0.5, "pit", ["0.33", 0])])
    b.add("pit", "climb", outcomes=[(1, "pit", ["7.1", 0])])
    b.add("pit", "dig", outcomes=[(1, "pit", [0, "7.3"])])
    model = b.build()
    limits = resolve(model, None)
    coarse, fine = (project(model, limits, (Fraction(1, n),) * 2, "relaxed") for n in (16, 32))
    known = certified._Known.of(coarse, solve_problem(coarse, "reduction", Run(ResourceMonitor())))
    assert known is not None
    plain = solve_problem(fine, "reduction", Run(ResourceMonitor()))
    pruned = solve_problem(fine, "reduction", Run(ResourceMonitor(), SolverOptions(within=known.inside(fine))))
    assert pruned.value == plain.value
    assert pruned.stats.nodes < plain.stats.nodes


def test_rounds_are_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    model = instances.paper(10, seed=1, budget=2)
    solve(model, gap=0.01, progress=True)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    solution = solve(model, gap=0.01, progress=True)
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].split() == ["lower", "upper", "gap", "nodes", "time"]
    assert shown[1].split()[:3] == solution.log.splitlines()[1].split()[:3]


@pytest.mark.parametrize("cost_range", [(-2, 5), (0, 5)])
def test_a_policy_that_there_is_no_time_to_follow_is_still_never_over(
    cost_range: tuple[int, int], monkeypatch: pytest.MonkeyPatch, no_short_cut: None
) -> None:
    """Its worst case is then a bound, which is no larger than the limit that rounding up keeps."""
    monkeypatch.setattr(ResourceMonitor, "has_time_for", lambda *_: False)
    monkeypatch.setattr(ResourceMonitor, "expect", lambda *_: None)
    model = instances.random(6, 3, horizon=10, real_costs=True, cost_range=cost_range, budget=35, seed=3)
    solution = solve(model, gap=0.05)
    assert solution.status in (Status.WITHIN_GAP, Status.OPTIMAL)
    assert not solution.worst_is_exact
    assert not solution.value_checked
    assert solution.excess == dict.fromkeys(model.resources, 0)
    assert solution.worst_spent[model.resources[0]] <= 35
    assert solvent.verify(model, solution.policy).feasible
    exact = solve(model).value
    assert solution.value_lower <= exact <= solution.value_upper


@pytest.mark.slow
@pytest.mark.parametrize("limit", first(2, [0.1, 0.3, 0.05, 0.2, 0.27, 0.33, 0.38, 0.5]))
def test_any_time_limit_gives_an_answer(limit: float) -> None:
    model = instances.random(20, 3, horizon=30, real_costs=True, cost_range=(-2, 5), budget=60, seed=3)
    for _ in range(3):
        solution = solve(model, gap=1e-4, time_limit=limit)
        assert solution.value_lower <= solution.value_upper
        if solution._make_policy is not None:
            assert solvent.verify(model, solution.policy).feasible
