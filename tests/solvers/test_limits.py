"""Time and memory end a solve with a status and a bound; arguments that make no sense end it with an error."""

from __future__ import annotations

import math
import time
import tracemalloc

import pytest
from hypothesis import given
from test_methods import run

import catalog
import oracle
import solvent
import strategies
from effort import draws
from solvent.core.limits import LimitReached, ResourceMonitor, read_memory
from solvent.errors import BudgetError, ModelError, SolventError
from solvent.model import instances
from solvent.model.budget import Budget
from solvent.solvers.solution import Status
from solvent.solvers.solve import solve

METHODS = pytest.mark.parametrize("method", ["reduction", "frontier"])
TINY_LIMITS = pytest.mark.parametrize("limit", [{"time_limit": 1e-9}, {"memory_limit": 100}])


def check(solution, optimum):
    assert solution.status == "limit"
    assert solution.value == solution.value_lower == -math.inf
    assert solution.value_upper >= optimum - 1e-9
    assert math.isfinite(solution.value_upper)
    assert solution.gap == math.inf
    assert solution.worst_spent == {}
    assert solution.message.startswith("limit: ")
    with pytest.raises(SolventError, match="policy: expected a solution with a policy, found status limit: "):
        _ = solution.policy


@METHODS
@TINY_LIMITS
def test_a_limit_is_a_status(method, limit):
    model = instances.fuel_grid(4)
    solution = solve(model, method=method, **limit)
    check(solution, catalog.FUEL_GRIDS[4])
    assert solution.method == method


@TINY_LIMITS
@pytest.mark.parametrize("name", ["ridge", "gloom", "gloom-idle", "covering", "two-stores", "paper-10-3", "crowd-300"])
def test_the_bound_holds(name, limit):
    case = next(case for case in catalog.CASES if case.name == name)
    check(solve(case.model, case.budget, **limit), case.value)


@given(strategies.problems())
@draws(30)
def test_the_bound_holds_on_random_problems(tiny):
    solution = solve(tiny.model, tiny.budget, time_limit=1e-9)
    if solution.status == "limit":
        check(solution, oracle.optimum(tiny.model, tiny.budget))


@METHODS
def test_the_message_says_what_to_try(method):
    model = instances.fuel_grid(3)
    timed = solve(model, method=method, time_limit=1e-9).message
    assert "the time limit of 1e-09 s was reached" in timed
    full = solve(model, method=method, memory_limit=100).message
    assert "more than the memory limit of" in full
    for message in (timed, full):
        assert "raise the limit" in message
        assert "rounded to the safe side" in message


def test_points_end_at_a_memory_limit_too(monkeypatch):
    monkeypatch.setattr("solvent.solvers.frontier.bounds.DENSE_WIDTH", -1)
    check(solve(instances.fuel_grid(4), memory_limit="1KB"), catalog.FUEL_GRIDS[4])


def traced(*arguments, **options):
    """Solve with compiled kernels and return the solution and the most memory that arrays took."""
    solve(*arguments, **{**options, "memory_limit": 20_000})
    tracemalloc.start()
    try:
        return solve(*arguments, **options), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_large_layer_is_not_begun():
    """Plain layers of the paper's family double with each step: the limit must stop them on the way."""
    model = instances.paper(40, seed=0, budget=40)
    solution, peak = traced(model, method="reduction", prune=False, memory_limit="2MB")
    check(solution, run("points", model).value)
    assert peak < 3_000_000
    assert solution.stats.peak_bytes <= 2_000_000


def test_a_time_limit_stops_what_would_take_forever():
    solution = solve(instances.paper(60, seed=0, budget=30), method="reduction", prune=False, time_limit=0.2)
    assert solution.status == "limit"
    assert "time limit of 0.2 s" in solution.message


@pytest.mark.parametrize(
    ("method", "lower"), [("frontier", None), ("reduction", None), ("reduction", -100)], ids=["points", "nodes", "box"]
)
def test_limits_hold_for_the_diagnosis(method, lower):
    """Finding out why nothing is feasible must not take more memory than the solve was allowed.

    Keeping the limits until the last step is a knapsack of real weights; the last limit is out of reach.
    """
    horizon = 18
    budget = Budget(upper=[horizon / 4] * (horizon - 1) + [-1], lower=lower)
    solution, peak = traced(instances.paper(horizon, seed=0), budget, method=method, memory_limit="500KB")
    assert solution.status in ("infeasible", "limit")
    assert peak < 1_500_000


def test_generous_limits_change_nothing():
    model = instances.fuel_grid(3)
    for limits in ({"time_limit": 1000}, {"time_limit": math.inf}, {"memory_limit": "1GB"}, {"memory_limit": 10**9}):
        solution = solve(model, **limits)
        assert solution.status == "optimal"
        assert solution.value == pytest.approx(catalog.FUEL_GRIDS[3], rel=1e-9)


@pytest.mark.parametrize("limit", [0, -1, math.nan, -math.inf, "soon", [1]])
def test_time_limits_that_make_no_sense(limit):
    with pytest.raises(ModelError, match="time_limit: expected a number of seconds above 0, found"):
        solve(instances.fuel_grid(3), time_limit=limit)


@pytest.mark.parametrize(
    "limit",
    [
        "lots",
        "8XB",
        "",
        "GB",
        "-8GB",
        "0GB",
        0,
        -5,
        True,
        math.nan,
        math.inf,
        "infGB",
        [1],
        "1e3e3",
        "8iB",
        "8GG",
        "1.2.3G",
    ],
)
def test_memory_limits_that_make_no_sense(limit):
    with pytest.raises(ModelError, match="memory_limit: expected bytes, or text such as '8GB', found"):
        solve(instances.fuel_grid(3), memory_limit=limit)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *[(text, 8 * 10**9) for text in ("8GB", "8 gb", "8G", "8g", " 8 G ", "8e9", "8e3 MB")],
        *[(text, 8 * 2**30) for text in ("8GiB", "8 GiB", "8Gi", "8gib")],
        *[("512M", 512 * 10**6), ("512 MiB", 512 * 2**20), ("1.5MB", 1_500_000), ("2TB", 2 * 10**12), ("3k", 3000)],
        *[("100", 100), ("100B", 100), (2048, 2048)],
    ],
)
def test_memory_limits_that_do(text, size):
    assert read_memory(text) == size


@pytest.mark.parametrize("method", ["simplex", "frontiers", "", None, 3])
def test_methods_that_do_not_exist(method):
    with pytest.raises(ModelError, match="method: expected one of auto, reduction, frontier"):
        solve(instances.fuel_grid(3), method=method)


def test_a_misspelled_method_is_recognized():
    with pytest.raises(ModelError, match="did you mean 'frontier'"):
        solve(instances.fuel_grid(3), method="fronteir")


def test_budgets_that_do_not_fit():
    with pytest.raises(BudgetError, match="the model carries no default"):
        solve(instances.knapsack([1], [1]))
    with pytest.raises(BudgetError, match="did you mean 'fuel'"):
        solve(instances.fuel_grid(3), {"feul": 3})
    with pytest.raises(BudgetError, match="9 limits, one after each step"):
        solve(instances.fuel_grid(3), Budget(upper=[1, 2]))


def test_a_monitor_keeps_account():
    monitor = ResourceMonitor(None, 100)
    monitor.reserve(60, "a thing")
    monitor.release(60)
    monitor.reserve(90, "another")
    assert (monitor.used, monitor.peak) == (90, 90)
    with pytest.raises(LimitReached, match="a third would need"):
        monitor.reserve(20, "a third")
    assert monitor.used == 90


@pytest.mark.parametrize("keys", [0, 8_000_000])
def test_the_clock_is_read_within_a_layer(keys, monkeypatch):
    """Layers of one state double: most of the time may be spent in a single one."""
    looks = []
    monkeypatch.setattr("solvent.core.limits._PIECE", 8)
    monkeypatch.setattr("solvent.solvers.reduction.layers._GRID_KEYS", keys)
    monkeypatch.setattr(ResourceMonitor, "check_time", lambda self: looks.append(1))
    model = instances.knapsack([1] * 8, [2**i for i in range(8)], capacity=200)
    expected = solve(model, method="reduction")
    looks.clear()
    bounded = solve(model, method="reduction", time_limit=1000)
    assert bounded.value == expected.value
    assert len(looks) > 2 * (bounded.stats.nodes // 8)


def test_work_that_cannot_end_in_time_is_not_begun():
    monitor = ResourceMonitor(seconds=0.5)
    monitor.expect(1000.0, "a little")
    with pytest.raises(LimitReached, match=r"a lot would take longer than is left of the time limit of 0\.5 s"):
        monitor.expect(1e12, "a lot")
    ResourceMonitor().expect(1e300, "without a clock")


def test_fine_bins_keep_the_time_limit():
    model = solvent.examples.load("campaign")
    began = time.perf_counter()
    solution = solve(model, approximation="additive", epsilon="0.00001", time_limit=0.3)
    assert solution.status is Status.LIMIT
    assert time.perf_counter() - began < 20


def test_small_limits_are_told_in_their_own_size():
    with pytest.raises(LimitReached, match=r"this would need 0\.002 MB, more than the memory limit of 0\.001 MB"):
        ResourceMonitor(bytes=1000).reserve(2000, "this")


@pytest.mark.parametrize("name", ["strict", "prune"])
@pytest.mark.parametrize("value", ["no", 0, None, []])
def test_switches_are_true_or_false(name, value):
    with pytest.raises(ModelError, match=f"^{name}: expected True or False, found "):
        solve(instances.knapsack([1], [1], 1), **{name: value})


@pytest.mark.parametrize("name", ["method", "approximation"])
def test_names_are_text(name):
    with pytest.raises(ModelError, match=rf"^{name}: expected one of .*, found \['a'\]"):
        solve(instances.knapsack([1], [1], 1), **{name: ["a"]})
