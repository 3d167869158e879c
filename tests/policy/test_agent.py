"""Agents: exact amounts, and no further action after an unmodeled outcome."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest

import solvent
from solvent.errors import ModelError, PolicyError, UnmodeledOutcome
from solvent.model import instances
from solvent.model.budget import resolve
from solvent.model.lattice import Lattice
from solvent.policy.agent import Agent
from solvent.policy.files import load_policy
from solvent.policy.markov import MarkovPolicy, RandomizedPolicy
from solvent.policy.table import AugmentedPolicy


def trip():
    """Return a model of three steps of cost 0.1 or 1/3 with a decreasing budget and a terminal state, and a policy."""
    b = solvent.CMDP.builder(
        horizon=3, start="road", resources=["fuel"], budget=solvent.Budget(upper=["1/2", None, "2/5"])
    )
    b.terminal("stop")
    b.add("road", "go", reward=1, outcomes=[(0.5, "road", 0.1), (0.25, "road", "1/3"), (0.25, "stop", 0)])
    b.add("road", "park", outcomes=[(1, "road", 0)])
    model = b.build()
    limits = resolve(model, None)
    lattice = Lattice.fit(model, limits)
    go, park = model.action_index("go"), model.action_index("park")
    tenth, third = int(Fraction(1, 10) / lattice.units[0]), int(Fraction(1, 3) / lattice.units[0])
    layers = [
        ([0], [[0]], [go]),
        ([0, 0], [[tenth], [third]], [go, park]),
        ([0, 0, 0], [[2 * tenth], [tenth + third], [third]], [go, go, park]),
    ]
    return model, AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers)


def test_an_episode():
    agent = trip()[1].agent()
    assert (agent.step, agent.state, agent.spent, agent.done) == (0, "road", {"fuel": 0}, False)
    assert agent.remaining == {"fuel": Fraction(1, 2)}
    assert agent.act() == agent.act() == "go"
    agent.observe("road", 1 / 3)
    assert agent.spent == {"fuel": Fraction(1, 3)}
    assert agent.remaining == {"fuel": Fraction(1, 15)}, "up to the limit after the last step, as this one has none"
    assert agent.act() == "park"
    agent.observe("road", 0)
    assert agent.act() == "park"
    agent.observe("road", {"fuel": 0.0})
    assert agent.done
    assert agent.step == 3
    assert agent.remaining == {"fuel": Fraction(1, 15)}
    assert [event.action for event in agent.history] == ["go", "park", "park"]
    assert agent.history[0] == (0, "road", "go", {"fuel": Fraction(1, 3)}, "road")
    with pytest.raises(
        PolicyError, match="act: expected an episode that is not over, found one that is over after 3 steps"
    ):
        agent.act()
    agent.reset()
    assert (agent.step, agent.spent, agent.history) == (0, {"fuel": 0}, [])


@pytest.mark.parametrize("cost", [0.1, "0.1", Fraction(1, 10), [0.1], {"fuel": 0.1}, np.float64(0.1), np.array([0.1])])
def test_costs_are_accepted_in_any_form(cost):
    agent = trip()[1].agent()
    agent.act()
    agent.observe("road", cost)
    assert agent.spent == {"fuel": Fraction(1, 10)}


def test_a_terminal_state_ends_an_episode():
    agent = trip()[1].agent()
    agent.act()
    agent.observe("stop", 0)
    assert agent.done
    with pytest.raises(PolicyError, match="over after 1 steps"):
        agent.act()


@pytest.mark.parametrize(
    ("state", "cost"),
    [
        ("road", 0.2),
        ("stop", 0.1),
        ("moon", 0.1),
        ("road", 0.1 + 1e-12),
        ("road", float("nan")),
        ("road", None),
        (["road"], 0.1),
        (np.array([1, 2]), 0.1),
    ],
)
def test_unmodeled_outcomes_stop_the_agent(state, cost):
    agent = trip()[1].agent()
    agent.act()
    message = (
        r"step 0, state 'road', action 'go': expected state 'road' at cost 0.1 or state 'road' at cost 1/3 or state"
    )
    with pytest.raises(UnmodeledOutcome, match=message) as caught:
        agent.observe(state, cost)
    assert (caught.value.step, caught.value.state, caught.value.action) == (0, "road", "go")
    assert "state 'stop' at cost 0" in caught.value.possible
    for call in (agent.act, lambda: agent.observe("road", 0.1)):
        with pytest.raises(PolicyError):
            call()
    with pytest.raises(PolicyError, match="outcomes that the model allows, found one that it does not"):
        agent.act()
    assert agent.history == []
    agent.reset()
    assert agent.act() == "go"
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ([0.1, 0.1], "observed, cost: expected 1 costs, one per resource, found 2"),
        ({"feul": 0.1}, "observed, cost: expected resources of the model .'fuel'., found 'feul'; did you mean 'fuel'?"),
    ],
)
def test_costs_of_wrong_resources_change_nothing(cost, message):
    agent = trip()[1].agent()
    agent.act()
    with pytest.raises(ModelError, match=message):
        agent.observe("road", cost)
    assert agent.act() == "go"
    agent.observe("road", 0.1)
    assert agent.step == 1


def test_observe_needs_an_action():
    agent = trip()[1].agent()
    with pytest.raises(PolicyError, match="observe: expected a call of act"):
        agent.observe("road", 0.1)
    assert agent.act() == "go"


def test_nothing_is_observed_after_the_end():
    agent = solvent.solve(instances.knapsack([60], [10], capacity=20)).policy.agent()
    state = agent.state
    agent.act()
    agent.observe(state, 10)
    assert agent.done
    with pytest.raises(PolicyError, match="observe: expected an episode that is not over, found one that is over"):
        agent.observe(state, 0)


def test_a_loaded_policy_needs_its_model(tmp_path):
    model, policy = trip()
    policy.save(tmp_path / "p")
    loaded = load_policy(tmp_path / "p")
    with pytest.raises(PolicyError, match=r"use policy.agent\(model\), or load_policy\(path, model\)"):
        loaded.agent()
    assert loaded.agent(model).act() == load_policy(tmp_path / "p", model).agent().act() == "go"
    with pytest.raises(PolicyError, match="a policy for this model"):
        loaded.agent(instances.markov_gap())


def test_floats_that_match_two_costs_are_refused():
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["x"], budget=9)
    close = Fraction(1, 3) + Fraction(1, 10**25)
    b.add(0, 0, outcomes=[(0.5, 0, "1/3"), (0.5, 0, close)])
    agent = MarkovPolicy(b.build(), [[0]]).agent()
    agent.act()
    with pytest.raises(UnmodeledOutcome, match="a float that several of these round to"):
        agent.observe(0, 1 / 3)
    agent.reset()
    agent.act()
    agent.observe(0, close)
    assert agent.spent == {"x": close}


def test_missing_decisions_are_errors():
    model, policy = trip()
    agent = policy.agent()
    agent.act()
    agent.observe("road", 0.1)
    agent.act()
    agent.observe("road", "1/3")
    agent.act()
    b = solvent.CMDP.builder(horizon=1, start="s", resources=["x"], actions=["go", "fly"], budget=1)
    b.add("s", "go", outcomes=[(1, "s", 0)])
    model = b.build()
    with pytest.raises(PolicyError, match="step 0, state 's', spent x 0: expected one of the available actions"):
        MarkovPolicy(model, [[1]]).agent().act()
    with pytest.raises(PolicyError, match="expected a decision, found none"):
        MarkovPolicy(model, [[-1]]).agent().act()


def test_continuous_costs_are_checked_by_their_range():
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["dose"], budget=2)
    b.add(0, "drip", outcomes=[(1, 0, solvent.distribution("uniform", low=0, high="1/3"))])
    model = b.build()
    agent = MarkovPolicy(model, [[0], [0]]).agent()
    agent.act()
    agent.observe(0, 0.2)
    assert agent.spent == {"dose": Fraction(1, 5)}
    agent.act()
    agent.observe(0, 1 / 3)
    assert agent.spent["dose"] <= Fraction(1, 5) + Fraction(1, 3)
    agent.reset()
    agent.act()
    with pytest.raises(UnmodeledOutcome, match=r"uniform\(low=0, high=1/3\), found state 0 at cost 0.34"):
        agent.observe(0, 0.34)


def test_random_choices_follow_the_probabilities():
    model = instances.markov_gap()
    limits = resolve(model, None)
    entries = ([0, 0], [[0], [0]], [0, 1], [0.2, 0.8])
    policy = RandomizedPolicy.from_nodes(model, Lattice.fit(model, limits), limits, layers=[entries, entries])
    markov = MarkovPolicy(model, [[[0.2, 0.8]], [[1, 0]]])
    for agent in (policy.agent(seed=1), markov.agent(seed=1)):
        bold = 0
        for _ in range(500):
            agent.reset()
            chosen = agent.act()
            assert agent.act() == chosen
            bold += chosen
        assert 360 < bold < 440


def test_markov_tables_are_checked():
    model = instances.markov_gap()
    for table, message in (
        ([[0]], r"whole numbers of shape \(2, 1\), or probabilities of shape \(2, 1, 2\)"),
        ([[0], [2]], "actions from 0 to 1, or -1"),
        ([[[0.5, 0.4]], [[1, 0]]], "step 0, state 0: expected probabilities that sum to 1"),
        ([[[1.5, -0.5]], [[1, 0]]], "step 0, state 0: expected probabilities that sum to 1"),
    ):
        with pytest.raises(PolicyError, match=message):
            MarkovPolicy(model, table)
    assert MarkovPolicy(model, [[0], [1]]) == MarkovPolicy(model, [[0], [1]])
    assert MarkovPolicy(model, [[0], [1]]) != MarkovPolicy(model, [[0], [0]])
    limits = resolve(model, None)
    lattice = Lattice.fit(model, limits)
    layers = [([0], [[0]], [0], [0.5]), ([], np.zeros((0, 1)), [], [])]
    with pytest.raises(PolicyError, match="sum to 1 at each node"):
        RandomizedPolicy.from_nodes(model, lattice, limits, layers=layers)


def test_repr():
    agent = trip()[1].agent()
    assert repr(agent) == "Agent(step 0, state 'road', spent fuel 0)"
    assert isinstance(agent, Agent)


BUDGETS = {
    "constant": solvent.Budget(7),
    "varying": solvent.Budget(upper=[3, 5, 9, 9]),
    "some steps": solvent.Budget(upper=[None, 6, None, None]),
    "final": solvent.Budget.final(8),
    "lower": solvent.Budget(lower=[None, -2, None, -1]),
    "both": solvent.Budget(upper=[None, None, 7, None], lower=0),
}


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_remaining_means_the_same_to_agents_and_environments(budget):
    """It is counted to the first upper limit still to come; without upper limits, to the first lower limit."""
    b = solvent.CMDP.builder(horizon=4, start="a", resources=["x", "y"], budget={"x": budget, "y": 100})
    b.add("a", "go", reward=1, outcomes=[(1, "a", (1, 2))])
    model = b.build()
    agent = solvent.solve(model).policy.agent()
    env = solvent.gym.BudgetWrapper(solvent.gym.ModelEnv(model))
    env.reset()
    for step in range(model.horizon):
        assert agent.remaining == env.remaining
        assert agent.remaining["y"] == 100 - 2 * step
        agent.act()
        agent.observe("a", (1, 2))
        env.step(0)
    assert agent.remaining == env.remaining


def test_remaining_by_hand():
    b = solvent.CMDP.builder(horizon=4, start="a", resources=["x"], budget=solvent.Budget(upper=[None, 6, None, None]))
    b.add("a", "go", reward=1, outcomes=[(1, "a", 1)])
    agent = solvent.solve(b.build()).policy.agent()
    seen = [agent.remaining["x"]]
    for _ in range(4):
        agent.act()
        agent.observe("a", 1)
        seen.append(agent.remaining["x"])
    assert seen == [6, 5, 4, 3, 2], "up to the limit after step 1, which also counts when it has passed"
