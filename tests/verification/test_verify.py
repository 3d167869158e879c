"""`verify` compared with an enumeration of all histories, and on instances with known answers."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import histories
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from effort import draws
from solvent.errors import NodeLimitError, PolicyError, SolventError
from solvent.model import instances
from solvent.model.budget import resolve
from solvent.model.lattice import Lattice
from solvent.policy.markov import MarkovPolicy
from solvent.policy.table import AugmentedPolicy
from solvent.verification.verify import verify

SEEDS = st.integers(0, 10**6)
many = draws(80)


def check(case: histories.Case) -> None:
    report = verify(case.model, case.policy)
    histories.assert_true(report, case.model, case.decide, case.limits)


@many
@given(histories.models(), SEEDS)
def test_augmented_policies_agree_with_all_histories(model, seed):
    check(histories.augmented_case(model, seed))


@many
@given(histories.models(max_resources=2), SEEDS)
def test_settled_policies_agree_with_all_histories(model, seed):
    check(histories.augmented_case(model, seed, settle=True))


@many
@given(histories.models(), SEEDS)
def test_markov_policies_agree_with_all_histories(model, seed):
    check(histories.markov_case(model, seed, randomized=False))
    check(histories.markov_case(model, seed, randomized=True))


@many
@given(histories.models(), SEEDS)
def test_randomized_policies_agree_with_all_histories(model, seed):
    check(histories.randomized_case(model, seed))


@many
@given(histories.models(), SEEDS)
def test_callables_agree_with_all_histories(model, seed):
    check(histories.callable_case(model, seed))


@many
@given(histories.models(), SEEDS)
def test_a_history_without_decisions_stops_only_beyond_a_limit(model, seed):
    case = histories.augmented_case(model, seed, forget=True)
    try:
        histories.truth(model, case.decide, case.limits)
    except histories.UndecidedError:
        with pytest.raises(PolicyError, match="expected"):
            verify(model, case.policy)
    else:
        check(case)


@draws(60)
@given(histories.models(), SEEDS, st.data())
def test_another_budget_than_the_policys(model, seed, data):
    case = histories.augmented_case(model, seed)
    budget = {name: data.draw(histories.budgets(model.horizon)) for name in model.resources}
    limits = resolve(model, budget)
    histories.assert_true(verify(model, case.policy, budget), model, case.decide, limits)


def test_settled_nodes_are_merged():
    model = instances.random(4, 2, horizon=6, resources=1, seed=3)
    limits = resolve(model, 100)
    lattice = Lattice.fit(model, limits)
    everywhere = (np.full((4, 1), -(10**6)), np.full((4, 1), 10**6))
    layer = (np.arange(4), np.zeros((4, 1), int), np.zeros(4, int))
    policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=[layer] * 6, settled=[everywhere] * 6)
    report = verify(model, policy)
    plain = verify(model, np.zeros((6, 4), int), 100)
    assert report.nodes == plain.nodes <= 4 * 6
    assert (report.worst_spent_by_step, report.least_spent_by_step, report.value) == (
        plain.worst_spent_by_step,
        plain.least_spent_by_step,
        plain.value,
    )


@pytest.mark.parametrize("seed", range(6))
def test_random_instances(seed):
    model = instances.random(4, 3, horizon=4, resources=1 + seed % 2, branching=2, seed=seed, stationary=seed % 3 > 0)
    check(histories.augmented_case(model, seed))
    check(histories.markov_case(model, seed, randomized=False))


def test_costs_beyond_64_bits_are_exact():
    b = solvent.CMDP.builder(horizon=3, start=0, resources=["x"])
    b.add(0, "a", outcomes=[(0.5, 0, 10**30), (0.5, 0, Fraction(1, 10**30))])
    model = b.build()
    limit = 2 * 10**30 + Fraction(1, 10**30)
    report = verify(model, np.zeros((3, 1), int), 3 * 10**30 - Fraction(1, 10**40))
    assert report.violation_probability == 0.125
    assert report.worst_spent_by_step["x"][-1] == 3 * 10**30
    assert verify(model, lambda step, state, spent: "a", [limit, limit, 3 * 10**30]).feasible


def test_the_markov_gap_of_the_paper():
    """Proposition 1: bold Markov policies exceed the budget with probability 1/2, a fair coin with 1/4."""
    model = instances.markov_gap(prize=10)
    bold = verify(model, MarkovPolicy(model, [[0], [1]]))
    assert (bold.violation_probability, bold.value, bold.expected_excess) == (0.5, 10, {"cost": 0.5})
    fair = verify(model, MarkovPolicy(model, [[[1, 0]], [[0.5, 0.5]]]))
    assert (fair.violation_probability, fair.value) == (0.25, 5)
    best = verify(model, lambda step, state, spent: 1 if step == 0 or spent == 0 else 0)
    assert (best.feasible, best.value, best.violation_probability) == (True, 5, 0)


def test_tiny_probabilities_count():
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["x"], budget=1)
    b.add(0, "a", outcomes=[(1 - 1e-12, 0, 0), (1e-12, 0, 1)])
    model = b.build()
    report = verify(model, np.zeros((2, 1), int))
    assert not report.feasible
    assert report.violation_probability == pytest.approx(1e-24)
    assert len(report.witness) == 2


def test_three_tenths_keep_a_budget_of_three_tenths():
    model = instances.knapsack([1, 1, 1], [0.1, 0.1, 0.1], capacity=0.3)
    report = verify(model, np.ones((3, 1), int))
    assert report.feasible
    assert report.worst_spent_by_step == {"weight": (Fraction(1, 10), Fraction(1, 5), Fraction(3, 10))}


def small_grid():
    model = instances.fuel_grid(3, horizon=5, tank=6)
    limits = resolve(model, None)
    lattice = Lattice.fit(model, limits)
    move, stay = model.action_index("east"), model.action_index("stay")

    def choose(step, state, ticks, actions):
        return [move if ticks[0] + 2 <= 6 else stay]

    nodes = histories.reachable(model, lattice, choose)
    layers = [
        [np.array([s for s, _ in layer]), np.array([t for _, t in layer]), np.array([a[0] for a in layer.values()])]
        for layer in nodes
    ]
    return model, lattice, limits, layers, (move, stay)


def test_a_tampered_policy_is_caught():
    model, lattice, limits, layers, (move, stay) = small_grid()
    assert verify(model, AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers)).feasible
    caught = 0
    for layer in layers:
        for at in np.flatnonzero(layer[2] == stay):
            layer[2][at] = move
            tampered = AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers)
            layer[2][at] = stay
            report = verify(model, tampered)
            assert not report.feasible
            last = report.witness.steps[-1]
            assert last.action == "east"
            assert last.spent["fuel"] > 6
            assert 0 < report.violation_probability < 1
            caught += 1
    assert caught > 10


def test_missing_and_unavailable_decisions_are_named():
    model, lattice, limits, layers, _ = small_grid()
    state, spent = model.states[layers[2][0][0]], int(layers[2][1][0, 0])
    cut = [[part[1:] if i == 2 else part for part in layer] for i, layer in enumerate(layers)]
    with pytest.raises(PolicyError, match=rf"step 2, state .*, spent fuel {spent}: expected to have spent") as error:
        verify(model, AugmentedPolicy.from_nodes(model, lattice, limits, layers=cut))
    assert str(state) in str(error.value)
    b = solvent.CMDP.builder(horizon=1, start="s", resources=["x"], actions=["go", "fly"], budget=1)
    b.add("s", "go", outcomes=[(1, "s", 0)])
    model = b.build()
    with pytest.raises(PolicyError, match="available actions, 'go', found 'fly'"):
        verify(model, np.array([[1]]))
    with pytest.raises(PolicyError, match="a decision, as the policy leads here, found none"):
        verify(model, np.array([[-1]]))
    with pytest.raises(PolicyError, match=r"policy at step 0, state 's', spent x 0: .*did you mean 'fly'"):
        verify(model, lambda *_: "flyy")
    with pytest.raises(PolicyError, match="sum to 1"):
        verify(model, lambda *_: {"go": 0.5})
    with pytest.raises(PolicyError, match="a policy, a solution, an array"):
        verify(model, 3)


def test_limits_on_size_and_model():
    model = instances.fuel_grid(3)
    with pytest.raises(NodeLimitError, match="at most 20 nodes, found more; raise max_nodes"):
        verify(model, np.zeros((9, 9), int), max_nodes=20)
    with pytest.raises(PolicyError, match="for this model"):
        verify(instances.fuel_grid(3, slip=0), MarkovPolicy(model, np.zeros((9, 9), int)))


def continuous():
    b = solvent.CMDP.builder(horizon=2, start="s", resources=["dose", "cash"])
    b.add(
        "s", "drip", reward=1, outcomes=[(1, "s", {"dose": solvent.distribution("uniform", low=1, high=2), "cash": 1})]
    )
    b.add(
        "s", "rest", outcomes=[(1, "s", {"dose": solvent.distribution("exponential", scale=1, negate=True), "cash": 0})]
    )
    return b.build()


def test_continuous_costs_count_by_their_range():
    model = continuous()
    drip = np.zeros((2, 1), int)
    report = verify(model, drip, {"dose": 4, "cash": None})
    assert report.feasible
    assert report.worst_spent_by_step == {"dose": (2, 4), "cash": (1, 2)}
    assert report.least_spent_by_step == {"dose": (1, 2), "cash": (1, 2)}
    report = verify(model, drip, {"dose": "3.99", "cash": 1})
    assert not report.feasible
    assert (report.violation_probability, report.expected_excess) == (None, {"dose": None, "cash": None})
    assert len(report.witness) == 2
    assert "uniform(low=1, high=2)" in str(report.witness)
    report = verify(model, drip, {"dose": 4, "cash": 1})
    assert (report.violation_probability, report.expected_excess) == (1, {"dose": 0, "cash": 1})
    report = verify(model, np.ones((2, 1), int), {"dose": solvent.Budget(lower=-100), "cash": None})
    assert not report.feasible
    assert report.least_spent_by_step["dose"] == (None, None)


def test_functions_must_not_depend_on_continuous_amounts():
    model = continuous()
    budget = {"dose": 4, "cash": 1}
    report = verify(model, lambda step, state, spent: "rest" if spent["cash"] else "drip", budget)
    assert (report.feasible, report.value) == (True, 1)
    with pytest.raises(solvent.ModelError, match="spent of dose: expected a policy that does not depend on it"):
        verify(model, lambda step, state, spent: "rest" if spent["dose"] > 1 else "drip", budget)


def test_text_of_reports():
    model = instances.markov_gap()
    text = str(verify(model, MarkovPolicy(model, [[0], [1]])))
    assert "breaks a limit with probability 0.5; value 1" in text
    assert "2 !" in text
    assert "never breaks a limit" in str(verify(model, MarkovPolicy(model, [[0], [0]])))


def test_a_violation_whose_probability_underflows_is_possible() -> None:
    b = solvent.CMDP.builder(horizon=2, start="home", resources=["fuel"], budget=1)
    b.add("home", "go", outcomes=[(5e-324, "away", 1), (1.0, "home", 0)])
    b.add("away", "go", outcomes=[(Fraction(1, 4), "away", 1), (Fraction(3, 4), "away", 0)])
    model = b.build()
    report = verify(model, solvent.solve(model, 2).policy, 1)
    assert not report.feasible
    assert report.violation_probability == 5e-324


def test_a_solution_is_verified_by_its_policy() -> None:
    model = instances.fuel_grid(3)
    solution = solvent.solve(model)
    assert verify(model, solution) == verify(model, solution.policy)
    assert verify(model, solution, 100).upper == verify(model, solution.policy, 100).upper
    played, expected = (solvent.simulate(model, each, 100, seed=2) for each in (solution, solution.policy))
    assert (played.rewards == expected.rewards).all()
    curve = solvent.frontier(instances.knapsack([3, 9], [2, 3], capacity=4))
    assert verify(curve.model, solvent.solve(curve.model)).value == curve.value(4)


def test_a_solution_for_a_discounted_model_is_verified_by_its_policy() -> None:
    b = solvent.CMDP.builder(horizon=None, discount="1/2", start="home", resources=["fuel"], budget=3)
    b.add("home", "go", reward=1, outcomes=[(1, "home", 2)])
    b.add("home", "rest", outcomes=[(1, "home")])
    model = b.build()
    solution = solvent.solve(model, epsilon=0.25)
    report = verify(model, solution)
    assert report.worst_spent == verify(model, solution.policy).worst_spent


@pytest.mark.parametrize("use", [verify, solvent.simulate])
def test_a_solution_without_a_policy_is_refused(use) -> None:
    model = instances.partition([3, 1, 1])
    with pytest.raises(SolventError, match="policy: expected a solution with a policy, found status infeasible: "):
        use(model, solvent.solve(model))
    with pytest.raises(
        PolicyError, match="policy: expected a policy, or a solution with a policy, found a SimpleNamespace without"
    ):
        use(model, SimpleNamespace(policy=None))


def test_a_callable_with_a_policy_is_a_function() -> None:
    """Objects of other libraries may have an attribute of that name, which is something else."""
    model = instances.markov_gap(prize=10)

    class Network:
        policy = "weights"

        def __call__(self, step, state, spent):
            return 0

    assert verify(model, Network()).value == verify(model, lambda *_: 0).value


def test_extremes_over_all_steps() -> None:
    b = solvent.CMDP.builder(horizon=3, start=0, resources=["x", "y"], budget={"x": 3, "y": None})
    b.add(0, 0, outcomes=[(0.5, 0, (1, -1)), (0.5, 0, (-2, 0))])
    report = verify(b.build(), lambda *_: 0)
    assert report.worst_spent_by_step == {"x": (1, 2, 3), "y": (0, 0, 0)}
    assert report.least_spent_by_step == {"x": (-2, -4, -6), "y": (-1, -2, -3)}
    assert report.worst_spent == {"x": 3, "y": 0}
    assert report.least_spent == {"x": -6, "y": -3}


def test_verifications_are_logged(caplog) -> None:
    model = instances.markov_gap(prize=10)
    with caplog.at_level("DEBUG", "solvent.verification"):
        verify(model, MarkovPolicy(model, [[0], [1]]))
    assert [message.partition(",")[0] for message in caplog.messages] == [
        "first pass: 2 nodes",
        "second pass: 6 nodes in all",
        "verified: feasible False",
    ]
    assert {record.name for record in caplog.records} == {"solvent.verification"}


@pytest.mark.parametrize(
    ("budget", "row"),
    [
        (solvent.Budget(upper=[9, 4, 9]), "│ 3        │ 1          │ <= 4"),
        (solvent.Budget(lower=[-9, -9, -1]), "│ -1       │ 2          │ >= -1"),
        (solvent.Budget(upper=9, lower=[-9, -9, -1]), "│ -1       │ 2          │ -1 to 9"),
        (solvent.Budget(upper=4, lower=-3), "│ 3        │ 1          │ -3 to 4"),
        (None, "│ 3        │ 1          │ -"),
    ],
)
def test_the_tightest_amount_is_the_closest_to_either_limit(budget: solvent.Budget | None, row: str) -> None:
    b = solvent.CMDP.builder(horizon=3, start=0, resources=["fuel"], budget={"fuel": budget})
    for step, costs in enumerate(((0, 2), (0, 1), (-1, -1))):
        b.add(0, "go", outcomes=[(0.5, 0, cost) for cost in costs], steps=[step])
    model = b.build()
    report = solvent.verify(model, solvent.MarkovPolicy(model, [[0], [0], [0]]))
    assert report.feasible
    assert (report.worst_spent["fuel"], report.least_spent["fuel"]) == (3, -1)
    assert row in str(report)
