"""Every public function that may take long keeps time and memory limits.

`python -m bench.limits_table` measures how closely; the tolerances here are wide, for busy machines.
"""

from __future__ import annotations

import threading
import time

import gymnasium
import numpy as np
import pytest

import solvent
from bench import limits_table as table
from solvent import LimitError, instances
from solvent.core.limits import ResourceMonitor
from solvent.core.preparation import preparing, working_time
from solvent.solvers.diagnosis import relaxed_value

#: Time limit in seconds: every call would take more than thirty times as long on a fast machine.
LIMIT = 0.1
#: Seconds beyond the limit that are accepted, on a busy machine.
SPARE = 10.0
SLOW = ("reduction, real costs", "additive, continuous", "relative, strict", "gap 0, no unit", "augment, stationary",
        "simulate")  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.slow) if each in SLOW else each for each in table.TIMED]
)
def test_time(name):
    call = table.TIMED[name]
    call.warm_up()
    model = call.model()
    began = working_time()
    _, said = call.run(model, time_limit=LIMIT)
    assert f"time limit of {LIMIT:g} s" in said
    assert working_time() - began < LIMIT + SPARE


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["discounted", "60,000 states", "gap", "labels", "augment", "verify, table", "compare"]
)
def test_memory(name):
    used = table.measure_apart(f"memory: {name}")
    assert used.kept, used


def test_the_same_with_and_without_limits():
    """Limits that are not reached do not change any result."""
    limits = {"time_limit": 1000, "memory_limit": "4GB"}
    for model, options in [
        (table.near(20, 30), {"method": "frontier"}),
        (table.far(6, 8), {"method": "frontier"}),
        (table.far(6, 8), {"method": "reduction"}),
        (table.near(6, 8, resources=2), {}),
        (table.knapsack(20), {"method": "labels"}),
        (table.far(6, 8), {"gap": 1e-6}),
        (table.forever(6, "0.6"), {"epsilon": 0.1, "strict": True}),
    ]:
        free, bound = solvent.solve(model, **options), solvent.solve(model, **options, **limits)
        assert (free.status, free.value, free.value_upper) == (bound.status, bound.value, bound.value_upper)
        assert free.policy == bound.policy
    model = table.near(6, 8)
    policy = table.uniform(model)
    assert solvent.verify(model, policy).value == solvent.verify(model, policy, **limits).value
    played = [solvent.simulate(model, policy, 1000, **given).rewards for given in ({}, limits)]
    np.testing.assert_array_equal(*played)


def test_simulate_returns_the_episodes_so_far(monkeypatch):
    monkeypatch.setattr("solvent.verification.simulate._BATCH", 100)
    model = instances.fuel_grid(3)
    policy = solvent.solve(model).policy
    whole = solvent.simulate(model, policy, 1000, seed=3)
    looks = iter(range(10**6))
    usual = ResourceMonitor.check_time

    def check_time(self):
        if next(looks) == 3 * (model.horizon + 1) + 2:  # a look before each batch, and before each of its steps
            self.seconds = 1e-9
        usual(self)

    monkeypatch.setattr(ResourceMonitor, "check_time", check_time)
    part = solvent.simulate(model, policy, 1000, seed=3, time_limit=1000)
    assert "time limit" in part.stopped
    assert part.episodes == 300
    np.testing.assert_array_equal(part.rewards, whole.rewards[:300])
    assert whole.stopped == ""
    assert all(sum(each.counts) == 1000 for each in whole.distributions["fuel"])


def test_compare_marks_unfinished_methods():
    found = solvent.compare(instances.fuel_grid(3), time_limit=1e-9)
    assert {row.status for row in found.rows} == {"limit"}
    assert all("time limit" in row.message for row in found.rows)
    small = solvent.compare(instances.fuel_grid(3), memory_limit=100, methods=["exact", "chance", "unconstrained"])
    assert {row.status for row in small.rows} == {"limit"}


def test_learn_returns_the_result_so_far():
    learned = solvent.learn(instances.fuel_grid(3), epsilon=1e-9, time_limit=3, max_episodes=10**9)
    assert (learned.status.value, learned.limit_reached) == ("limit", True)
    assert learned.message.startswith("the time limit of 3 s was reached after ")
    assert solvent.verify(instances.fuel_grid(3), learned.policy).feasible
    with pytest.raises(LimitError, match=r"learning stopped: .* more than the memory limit of"):
        solvent.learn(instances.fuel_grid(3), memory_limit=1000)


@pytest.mark.parametrize("limit", [{"time_limit": 1e-9}, {"memory_limit": 100}])
def test_functions_without_partial_results_raise_an_error(limit):
    model = instances.fuel_grid(3)
    policy = solvent.solve(model).policy
    for function, given in [
        (solvent.verify, (model, policy)), (solvent.simulate, (model, policy)), (solvent.augment, (model,)),
        (solvent.frontier, (model,)), (solvent.derandomize, (model, policy)),
    ]:  # fmt: skip
        with pytest.raises(LimitError, match="limit of"):
            function(*given, **limit)


def test_gap_0_ends_at_free_memory(monkeypatch):
    """Costs without a unit that fits 64 bits can be split until memory is used up."""
    monkeypatch.setattr("solvent.core.limits.free_memory", lambda: 100_000_000)
    solution = solvent.solve(table.unitless(12), gap=0)
    assert solution.status.value in ("feasible", "optimal")
    assert solution.stats.peak_bytes < 300_000_000


def test_kernels_see_the_flag_while_they_run():
    monitor = ResourceMonitor(0.05)
    flag = monitor.halt
    assert not flag[0]
    deadline = time.perf_counter() + 10
    while not flag[0] and time.perf_counter() < deadline:
        time.sleep(0.01)
    assert flag[0]
    with pytest.raises(Exception, match=r"time limit of 0\.05 s"):
        monitor.check_time()


def test_time_spent_on_kernels_does_not_raise_the_flag():
    with preparing(), ResourceMonitor(0.1) as monitor:
        flag = monitor.halt
        time.sleep(0.3)
        assert not flag[0]


def test_reported_times_are_without_those_spent_on_kernels(monkeypatch):
    """Here every check of a limit comes with 1000 s of compilation, on a clock that can skip time."""
    running, checked, skipped = time.perf_counter, ResourceMonitor.check_time, 0

    def check(monitor):
        nonlocal skipped
        with preparing():
            skipped += 1000
        checked(monitor)

    monkeypatch.setattr(time, "perf_counter", lambda: running() + skipped)
    monkeypatch.setattr(ResourceMonitor, "check_time", check)
    model = instances.fuel_grid(3)
    seconds = [solvent.solve(model, method=method).stats.seconds for method in ("reduction", "frontier", "grid")]
    solution = solvent.solve(instances.paper(12, seed=1, budget=2), gap=0.1)
    seconds += [solution.stats.seconds, *(each.seconds for each in solution.rounds)]
    seconds += [one.stats.seconds for one in solvent.solve_many([model, model])]
    seconds += [row.seconds for row in solvent.compare(model, methods=["exact", "expectation"]).rows]
    assert skipped > 5000
    assert 0 <= min(seconds) <= max(seconds) < 1000


def test_a_stopped_clock_raises_no_flag():
    before = set(threading.enumerate())
    with ResourceMonitor(1000) as monitor:
        flag = monitor.halt
        clocks = set(threading.enumerate()) - before
    assert len(clocks) == 1
    for clock in clocks:
        clock.join(60)
        assert not clock.is_alive()
    assert not flag[0]
    assert not ResourceMonitor().halt[0]
    assert ResourceMonitor().halt is ResourceMonitor(float("inf")).halt


def test_a_bound_that_takes_no_time():
    model = table.near(300, 400)
    assert relaxed_value(model, 1e-9) >= relaxed_value(model)


class Slow(gymnasium.Env):
    """A slow environment."""

    observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(1)
    pause = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        time.sleep(self.pause)
        return 0, 0.0, False, False, {"cost": 1}


def test_learning_in_a_slow_environment_ends_between_episodes(monkeypatch):
    known = {"support": {(0, 0): [(0, 1)]}, "epsilon": 1e-9, "bonus_scale": 50.0, "budget": 30}
    solvent.learn(Slow(), 20, max_episodes=5, **known)
    monkeypatch.setattr(Slow, "pause", 0.01)  # a hundred episodes would take 20 seconds
    began = time.perf_counter()
    learned = solvent.learn(Slow(), 20, time_limit=0.5, **known)
    assert learned.limit_reached
    assert time.perf_counter() - began < 0.5 + SPARE
