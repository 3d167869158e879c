"""What a frontier's policy can have spent: attained where it is followed, and bounds that hold where it is not."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import solvent
from solvent.core.limits import ResourceMonitor
from solvent.model.budget import resolve
from solvent.solvers.frontier import frontiers as frontier
from solvent.solvers.frontier import solver as methods
from solvent.solvers.frontier.following import visit
from solvent.solvers.frontier.solver import purse_of
from solvent.solvers.problem import Problem
from solvent.solvers.transforms import gap as certified


def random_model(rng: np.random.Generator) -> solvent.CMDP:
    """A model whose costs have any one sign or both, and in which episodes may be over early."""
    horizon, n_states = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    low, high = [(-9, -1), (1, 9), (-5, 5), (0, 9), (-9, 0)][int(rng.integers(5))]
    b = solvent.CMDP.builder(horizon=horizon, start=0, resources=["x"], budget=int(rng.integers(-20, 30)))
    for state in range(n_states):
        over = [h for h in range(horizon) if rng.random() < 0.2 and (state or h)]
        steps = [h for h in range(horizon) if h not in over]
        if over:
            b.terminal(state, steps=over)
        for action in range(2):
            nexts = rng.choice(n_states, size=2)
            outcomes = [(Fraction(1, 2), int(s), int(rng.integers(low, high + 1))) for s in nexts]
            if steps:
                b.add(state, action, reward=int(rng.integers(0, 5)), outcomes=outcomes, steps=steps)
    return b.build()


@pytest.mark.parametrize("seed", range(150))
def test_bounds_without_following_hold(seed: int) -> None:
    model = random_model(np.random.default_rng(seed))
    problem = Problem.exact(model, resolve(model, None))
    purse, _ = purse_of(problem.lattice)
    found = frontier.build(problem.model, purse, ResourceMonitor())
    if found.value(0) == -np.inf:
        return
    cost = purse.cost
    done, bound = (visit(problem.model, purse, found, 0, cost, cost, most) for most in (10**6, 0))
    assert done.complete
    assert not bound.complete
    assert (bound.peak >= done.peak).all()
    assert (bound.trough <= done.trough).all()


def covering(sign: int) -> tuple[solvent.CMDP, Any]:
    """Ending early spends least of what is to be delivered: "risky" falls short by a hundredth, "safe" does not."""
    horizon = 6
    amount = [Fraction("1.99") * -sign, Fraction(-sign), Fraction(-3 * sign, 2)]
    budget = solvent.Budget.final(-2) if sign > 0 else solvent.Budget.final(lower=2)
    b = solvent.CMDP.builder(horizon=horizon, start="s", resources=["x"], budget=budget)
    b.add("s", "risky", reward=10, outcomes=[(0.5, "end", amount[0]), (0.5, "t", amount[1])], steps=[0])
    b.add("s", "safe", outcomes=[(1, "t", amount[1])], steps=[0])
    b.add("t", "on", outcomes=[(0.5, "t", amount[1]), (0.5, "t", amount[2])], steps=range(1, horizon))
    b.terminal("end")
    b.terminal("s", steps=range(1, horizon))
    b.terminal("t", steps=[0])
    return b.build(), budget


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("options", [{"approximation": "additive", "epsilon": "0.3", "strict": True}, {"gap": 0.01}])
def test_policies_that_are_not_followed_are_never_over(
    sign: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = covering(sign)
    assert solvent.solve(model).value == 0
    monkeypatch.setattr(methods, "MOST_FOLLOWED", 0)
    monkeypatch.setattr(certified, "_FOLLOW", 0)
    monkeypatch.setattr(certified, "_FIRST_TRY", 0)
    found = solvent.solve(model, **options)
    assert solvent.verify(model, found.policy).feasible
    assert found.value_lower <= 0 <= found.value_upper


def test_bounds_of_large_costs_do_not_wrap_around() -> None:
    """The largest cost times the horizon is beyond 64 bits, though no sum of costs is."""
    horizon, large = 80, 2**57
    b = solvent.CMDP.builder(horizon=horizon, start="s", resources=["x"], budget=large + 10)
    b.add("s", "go", outcomes=[(1, "t", large)], steps=[0])
    b.add("t", "on", outcomes=[(0.5, "t", 0), (0.5, "t", 1)], steps=range(1, 9))
    b.add("t", "on", outcomes=[(1, "t", 0)], steps=range(9, horizon))
    b.terminal("s", steps=range(1, horizon))
    b.terminal("t", steps=[0])
    model = b.build()
    problem = Problem.exact(model, resolve(model, None))
    purse, _ = purse_of(problem.lattice)
    found = frontier.build(problem.model, purse, ResourceMonitor())
    bound = visit(problem.model, purse, found, 0, purse.cost, purse.cost, 0)
    assert bound.peak[-1] == large + 8
    assert bound.trough[0] == large
