"""Explanations against brute force: values of actions, outcomes that forbid them, and the histories that follow."""

from __future__ import annotations

import math
import pickle
import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

import solvent
from effort import seeds
from solvent.model import instances
from solvent.model.budget import resolve
from solvent.solvers.explain import infeasible_history

STATES, ACTIONS = ("a", ("b", 2), 7, "over"), ("go", 3, "rest")


@dataclass
class Case:
    """A random problem, and everything about it by the definitions, with Fractions."""

    model: Any
    budget: dict[str, Any]
    initial: dict[str, Fraction]
    floors: list[Fraction | None]
    ceilings: list[Fraction | None]

    def __post_init__(self):
        self.limits = resolve(self.model, self.budget, self.initial)
        self.names = self.limits.resources
        self.known: dict[Any, Any] = {}

    def rows(self, step, state):
        found = []
        for row in self.model.rows(step, self.model.states.index(state)):
            outcomes = [
                (Fraction(o.probability), o.next_state, tuple(o.cost[name] for name in self.names))
                for o in self.model.outcomes(row)
            ]
            reward = Fraction(float(self.model.row_reward[row]))
            found.append((self.model.actions[self.model.row_action[row]], reward, outcomes))
        return found

    def add(self, spent, cost):
        result = []
        for name, s, c in zip(self.names, spent, cost, strict=True):
            r = self.model.resources.index(name)
            total = s + c
            total = total if self.floors[r] is None else max(total, self.floors[r])
            result.append(total if self.ceilings[r] is None else min(total, self.ceilings[r]))
        return tuple(result)

    def keeps(self, step, spent):
        pairs = zip(spent, self.limits.upper, self.limits.lower, strict=True)
        return all(
            (up[step] is None or x <= up[step]) and (low[step] is None or x >= low[step]) for x, up, low in pairs
        )

    def end(self, state):
        s = self.model.states.index(state)
        if self.model.may_end is not None and not self.model.may_end[s]:
            return -math.inf
        return Fraction(0) if self.model.end_reward is None else Fraction(float(self.model.end_reward[s]))

    def value(self, step, state, spent):
        key = (step, state, spent)
        if key not in self.known:
            self.known[key] = self._value(*key)
        return self.known[key]

    def _value(self, step, state, spent):
        if step == self.model.horizon:
            return self.end(state)
        rows = self.rows(step, state)
        if not rows:
            kept = all(self.keeps(later, spent) for later in range(step, self.model.horizon))
            return self.end(state) if kept else -math.inf
        return max(self.q(step, spent, row) for row in rows)

    def q(self, step, spent, row):
        total = row[1]
        for p, state, cost in row[2]:
            then = self.add(spent, cost)
            later = self.value(step + 1, state, then) if self.keeps(step, then) else -math.inf
            if later == -math.inf:
                return -math.inf
            total += p * later
        return total

    def chance(self, step, state, spent):
        """Return the greatest probability of ending where it may, within the limits; -inf if no policy keeps them."""
        if step == self.model.horizon:
            return Fraction(self.end(state) > -math.inf)
        rows = self.rows(step, state)
        if not rows:
            kept = all(self.keeps(later, spent) for later in range(step, self.model.horizon))
            return Fraction(self.end(state) > -math.inf) if kept else -math.inf
        found = []
        for _, _, outcomes in rows:
            after = [(p, self.add(spent, cost), name) for p, name, cost in outcomes]
            if all(self.keeps(step, then) for _, then, _ in after):
                later = [(p, self.chance(step + 1, name, then)) for p, then, name in after]
                found.append(-math.inf if any(c == -math.inf for _, c in later) else sum(p * c for p, c in later))
        return max(found, default=-math.inf)

    def keepable(self, step, state, spent, until):
        """Whether some policy keeps the limits up to and including step `until`, wherever it ends."""
        if step > until or step == self.model.horizon:
            return True
        rows = self.rows(step, state)
        if not rows:
            return all(self.keeps(later, spent) for later in range(step, until + 1))
        return any(
            all(
                self.keeps(step, self.add(spent, cost)) and self.keepable(step + 1, after, self.add(spent, cost), until)
                for _, after, cost in outcomes
            )
            for _, _, outcomes in rows
        )


def random_case(seed: int) -> Case:
    rng = random.Random(seed)
    horizon = rng.randint(1, 4)

    def amount(low, high):
        return Fraction(rng.randint(2 * low, 2 * high), rng.choice([1, 2, 3]))

    names = ["fuel", "wear", "risk"][: rng.choice([0, 1, 1, 2, 2, 3])]
    floors = [-amount(0, 1) if rng.random() < 0.5 else None for _ in names]
    ceilings = [amount(2, 4) if rng.random() < 0.3 else None for _ in names]
    resources = [
        solvent.Resource(name, floor=floor, ceiling=ceiling)
        for name, floor, ceiling in zip(names, floors, ceilings, strict=True)
    ]
    options: dict[str, Any] = {}
    if rng.random() < 0.5:
        options["must_end_in"] = rng.sample(STATES, rng.randint(1, 3))
    if rng.random() < 0.5:
        options["end_reward"] = {state: rng.randint(-3, 6) for state in rng.sample(STATES, 2)}
    start = {"a": 0.5, 7: 0.5} if rng.random() < 0.3 else "a"
    b = solvent.CMDP.builder(
        horizon=horizon, start=start, resources=resources, states=STATES, actions=ACTIONS, **options
    )
    for state in STATES[:3]:
        acting: set[int] = set()
        for action in rng.sample(ACTIONS, rng.randint(1, 3)):
            for steps in [None] if rng.random() < 0.7 else [[step] for step in range(horizon) if rng.random() < 0.8]:
                weights = [rng.randint(1, 3) for _ in range(rng.randint(1, 3))]
                outcomes = [
                    (Fraction(w, sum(weights)), rng.choice(STATES), [amount(-1, 2) for _ in names]) for w in weights
                ]
                b.add(state, action, reward=rng.randint(-2, 5), outcomes=outcomes, steps=steps)
                acting |= set(range(horizon) if steps is None else steps)
        if len(acting) < horizon:
            b.terminal(state, steps=[step for step in range(horizon) if step not in acting])
    budget: dict[str, Any] = {}
    for name in names:
        upper = [rng.choice([None, 1, 2, "7/2", 5]) for _ in range(horizon)]
        lower = [rng.choice([None, None, None, -3]) for _ in range(horizon)]
        budget[name] = rng.choice([solvent.Budget(upper=upper, lower=lower), amount(0, 4), None])
    initial = {}
    for name, floor, ceiling in zip(names, floors, ceilings, strict=True):
        first = amount(-1, 2) if rng.random() < 0.5 else Fraction(0)
        first = first if floor is None else max(first, floor)
        initial[name] = first if ceiling is None else min(first, ceiling)
    return Case(b.build(), budget, initial, floors, ceilings)


def nodes_of(case: Case, rng: random.Random) -> list[Any]:
    """Return some nodes, some that actions lead to and some with arbitrary amounts."""
    begin = tuple(case.limits.initial)
    starts = case.model.start if isinstance(case.model.start, dict) else [case.model.start]
    layer = {(state, begin) for state in starts}
    found = []
    for step in range(case.model.horizon):
        found += [(step, *node) for node in rng.sample(sorted(layer, key=repr), min(2, len(layer)))]
        odd = case.add(tuple(Fraction(rng.randint(-4, 9), 2) for _ in case.names), (Fraction(0),) * len(case.names))
        found.append((step, rng.choice(STATES), odd))
        layer = {
            (after, case.add(spent, cost))
            for state, spent in layer
            for _, _, outcomes in case.rows(step, state)
            for _, after, cost in outcomes
        }
        layer = set(rng.sample(sorted(layer, key=repr), min(12, len(layer))))
    return found


def policy_nodes(case: Case, policy: Any) -> set[Any]:
    """Return all nodes (step, state, spent) to which a policy leads, the last of each history included."""
    starts = case.model.start if isinstance(case.model.start, dict) else [case.model.start]
    layer = {(state, tuple(case.limits.initial)) for state in starts}
    found = set()
    for step in range(case.model.horizon):
        found |= {(step, *node) for node in layer}
        following = set()
        for state, spent in layer:
            rows = {row[0]: row for row in case.rows(step, state)}
            if rows:
                action = policy.action(step, state, dict(zip(case.names, spent, strict=True)))
                following |= {(after, case.add(spent, cost)) for _, after, cost in rows[action][2]}
        layer = following
    return found


def check_history(case: Case, node: Any, history: Any) -> None:
    """Check that a history is possible, that only its end is a violation, and that no policy keeps limits longer."""
    step, state, spent = node
    over = step == case.model.horizon or not case.rows(step, state)
    if not history.steps:
        assert over
        assert case.end(state) == -math.inf
        assert history.ends_astray
        return
    for i, each in enumerate(history.steps):
        assert (each.step, each.state) == (step, state)
        cost = tuple(each.cost[name] for name in case.names)
        if each.action is None:
            assert over
            assert each.next_state == state
            assert not any(cost)
        else:
            assert not over
            (row,) = (row for row in case.rows(step, state) if row[0] == each.action)
            assert any(p > 0 and (after, c) == (each.next_state, cost) for p, after, c in row[2])
        spent = case.add(spent, cost)
        assert tuple(each.spent[name] for name in case.names) == spent
        step, state = step + 1, each.next_state
        over = over or step == case.model.horizon or not case.rows(step, state)
        last = i == len(history.steps) - 1
        assert case.keeps(each.step, spent) or (last and history.resource is not None)
    if history.resource is None:
        assert history.ends_astray
        assert over
        assert case.end(state) == -math.inf
        assert history.ends_in == state
        assert case.keepable(*node, case.model.horizon - 1)
    else:
        d, last = case.names.index(history.resource), history.steps[-1].step
        upper, lower = case.limits.upper[d][last], case.limits.lower[d][last]
        assert (upper is not None and spent[d] > upper) or (lower is not None and spent[d] < lower)
        assert case.keepable(*node, last - 1)
        assert not case.keepable(*node, last)


def check_cause(case: Case, step: int, spent: Any, row: Any, cause: Any) -> None:
    cost = tuple(cause.cost[name] for name in case.names)
    same = [p for p, after, c in row[2] if (after, c) == (cause.next_state, cost)]
    assert same
    assert cause.probability == pytest.approx(float(sum(same)))
    then = case.add(spent, cost)
    assert tuple(cause.spent[name] for name in case.names) == then
    if cause.reason == "limit":
        assert not case.keeps(step, then)
        d = case.names.index(cause.resource)
        assert cause.limit in (case.limits.upper[d][step], case.limits.lower[d][step])
        return
    assert case.keeps(step, then)
    assert case.value(step + 1, cause.next_state, then) == -math.inf
    over = step + 1 == case.model.horizon or not case.rows(step + 1, cause.next_state)
    if cause.reason == "end":
        assert over
        assert case.end(cause.next_state) == -math.inf
        return
    assert cause.reason in ("goal", "later")
    assert cause.history is not None
    if cause.reason == "goal" or cause.history.ends_astray:
        assert (cause.reason == "goal") == (case.chance(step + 1, cause.next_state, then) == 0)
    check_history(case, (step + 1, cause.next_state, then), cause.history)


@pytest.mark.parametrize("seed", seeds(100))
def test_explanations_are_those_of_brute_force(seed: int) -> None:
    case = random_case(seed)
    solution = solvent.solve(case.model, case.budget, spent=case.initial)
    led_to = policy_nodes(case, solution.policy) if solution.status.has_policy else set()
    for step, state, spent in nodes_of(case, random.Random(seed)):
        amounts = dict(zip(case.names, spent, strict=True))
        found = solution.explain(step, state, amounts)
        notes = () if solution.status.has_policy else ("there is no policy, so no decision is shown",)
        assert (found.step, found.state, found.spent, found.notes) == (step, state, amounts, notes)
        rows = {row[0]: row for row in case.rows(step, state)}
        assert [option.action for option in found.options] == list(rows)
        best = case.value(step, state, spent)
        assert found.feasible == (best > -math.inf)
        assert found.value == (best if best == -math.inf else pytest.approx(float(best), abs=1e-9))
        for option in found.options:
            q = case.q(step, spent, rows[option.action])
            assert option.allowed == (q > -math.inf)
            assert option.value == (q if q == -math.inf else pytest.approx(float(q), abs=1e-9))
            assert (option.forbidden_by is None) == option.allowed
            if option.forbidden_by is not None:
                check_cause(case, step, spent, rows[option.action], option.forbidden_by)
        if solution.status.has_policy:
            assert found.reached == ((step, state, spent) in led_to)
            if found.reached and rows:
                assert found.action == solution.policy.action(step, state, amounts)
                assert found[found.action].probability == 1
                assert found[found.action].value == pytest.approx(found.value, abs=1e-9)
        else:
            assert found.action is None
        assert str(found) == str(pickle.loads(pickle.dumps(found)))
        assert len(found.to_dict()["options"]) == len(found.options)


@pytest.mark.parametrize("seed", seeds(100))
def test_the_history_of_an_infeasible_problem_is_real(seed: int) -> None:
    case = random_case(seed)
    starts = case.model.start if isinstance(case.model.start, dict) else [case.model.start]
    begin = tuple(case.limits.initial)
    lost = [state for state in starts if case.value(0, state, begin) == -math.inf]
    history = infeasible_history(case.model, case.limits)
    assert (history is not None) == bool(lost)
    if history is not None:
        assert history.start in lost
        check_history(case, (0, history.start, begin), history)


def robot():
    b = solvent.CMDP.builder(
        horizon=4, start="dock", resources=[solvent.Resource("battery", floor=0)], budget=4, must_end_in=["dock"]
    )
    b.add("dock", "drive", reward=5, outcomes=[(0.9, "field", 1), (0.1, "field", 3)])
    b.add("dock", "charge", outcomes=[(1, "dock", -3)])
    b.add("field", "work", reward=4, outcomes=[(0.8, "field", 1), (0.2, "ditch", 1)])
    b.add("field", "home", outcomes=[(0.9, "dock", 1), (0.1, "dock", 2)])
    b.add("ditch", "climb", outcomes=[(0.5, "field", 1), (0.5, "field", 2)])
    return b.build()


def test_text_of_all_reasons():
    solution = solvent.solve(robot())
    assert str(solution.explain(0, "dock")["drive"].forbidden_by) == (
        "leads to 'field' with probability 0.1 and costs battery 3: with battery 3 spent, every policy can break a "
        "limit at or before step 2"
    )
    assert str(solution.explain(1, "field", 0)["work"].forbidden_by) == (
        "leads to 'ditch' with probability 0.2 and costs battery 1: with battery 1 spent, every policy that keeps the "
        "limits can end outside must_end_in, for example in 'field'"
    )
    assert str(solution.explain(2, "field", 0)["work"].forbidden_by) == (
        "leads to 'ditch' with probability 0.2 and costs battery 1: with battery 1 spent, must_end_in cannot be "
        "reached any more within the limits"
    )
    assert str(solution.explain(3, "ditch", 1)["climb"].forbidden_by) == (
        "leads to 'field' with probability 0.5 and costs battery 1: the episode ends there, outside must_end_in"
    )
    assert str(solution.explain(0, "dock", 2)["drive"].forbidden_by) == (
        "leads to 'field' with probability 0.1 and costs battery 3: 5 of battery spent, more than the limit of 4"
    )
    text = str(solution.explain(1, "field", 0))
    assert "even the most careful policy\nends in 'field' after step 3, expected 'dock'" in text
    assert "no policy is safe from here on" in str(solution.explain(3, "ditch", 1))


def test_a_policy_on_rounded_costs_is_explained_with_true_costs():
    model = instances.paper(8, seed=2, budget=2)
    solution = solvent.solve(model, approximation="additive", epsilon=0.5)
    found = solution.explain(0, model.start)
    assert found.notes[0].startswith("the policy counts rounded costs: values and what is allowed are for true costs")
    assert found.reached is None
    exact = solvent.solve(model)
    assert found.value == pytest.approx(exact.value)


def test_other_policies_are_explained():
    model = instances.markov_gap(prize=10)
    bold = solvent.MarkovPolicy(model, [[0], [1]])
    found = solvent.explain(model, bold, 1, 0, 1)
    assert found.reached
    assert (found.action, found[1].allowed) == (1, False)
    mixed = solvent.MarkovPolicy(model, [[[1.0, 0.0]], [[0.25, 0.75]]])
    found = solvent.explain(model, mixed, 1, 0, 1)
    assert (found.action, found[0].probability, found[1].probability) == (None, 0.25, 0.75)
    assert "75 %" in str(found)


def test_a_search_that_is_cut_short_says_so():
    model = instances.paper(30, seed=1, budget=3)
    solution = solvent.solve(model)
    found = solution.explain(0, model.start, time_limit=1e-9)
    assert found.feasible is None
    assert found.value is None
    assert all(option.allowed is None for option in found.options)
    assert found.notes[-1].startswith("cut short: ")
    assert "cut short" in str(found)


def test_an_episode_that_is_over():
    b = solvent.CMDP.builder(horizon=3, start="a", resources=["x"], budget=2)
    b.add("a", "stop", reward=1, outcomes=[(1, "end", 1)])
    solution = solvent.solve(b.build())
    found = solution.explain(1, "end", 1)
    assert (found.reached, found.feasible, found.value, found.options) == (True, True, 0.0, ())
    assert "the episode is over" in str(found)
    assert "in a way in which it must not end" in str(solution.explain(1, "end", 3))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((4, "dock", 0), "explain, step: expected a step from 0 to 3, found 4"),
        ((True, "dock", 0), "explain, step: expected a step from 0 to 3, found True"),
        ((0, "doc", 0), "explain, state: expected one of the model's states .* did you mean 'dock'"),
        ((1, "dock", None), "explain, spent: expected what has been spent of 'battery' before step 1, found none"),
        ((1, "dock", {"fuel": 1}), r"explain, spent: expected a resource of the model \('battery'\), found 'fuel'"),
        ((1, "dock", -1), "explain, spent, battery: expected at least the floor, 0, found -1"),
    ],
)
def test_mistakes(given: Any, message: str) -> None:
    with pytest.raises(solvent.SolventError, match=message):
        solvent.solve(robot()).explain(*given)


def test_what_cannot_be_explained():
    b = solvent.CMDP.builder(horizon=2, start="a", resources=["x"], budget=2)
    b.add("a", "go", reward=1, outcomes=[(1, "a", solvent.distribution("uniform", low=0, high=1))])
    solution = solvent.solve(b.build(), gap=0.5)
    with pytest.raises(solvent.ModelError, match="explain, a/go, cost of x: expected costs of finite support"):
        solution.explain(0, "a")
    b = solvent.CMDP.builder(horizon=None, discount="1/2", start="home", resources=["fuel"], budget=3)
    b.add("home", "rest", outcomes=[(1, "home")])
    discounted = solvent.solve(b.build(), epsilon=1)
    with pytest.raises(solvent.ModelError, match="explain: expected a solution of a model with a last step"):
        discounted.explain(0, "home")
    with pytest.raises(solvent.ModelError, match="found a solution without a model"):
        solvent.solve(robot()).taking(1.0).explain(0, "dock")
    other = solvent.solve(instances.knapsack([1], [1], capacity=1)).policy
    with pytest.raises(solvent.PolicyError, match="a policy for this model"):
        solvent.explain(robot(), other, 0, "dock")


def test_notebooks_show_the_text():
    found = solvent.solve(robot()).explain(0, "dock")
    page = found._repr_html_()
    assert page.startswith("<pre>step 0, state dock, battery 0 spent, battery 4 remaining\n")
    assert "&lt;= 4" in page


def test_copies_explain_as_well():
    infeasible = pickle.loads(pickle.dumps(solvent.solve(robot(), -1)))
    assert infeasible.explain(0, "dock")["charge"].forbidden_by.reason == "limit"


def test_frames():
    pandas = pytest.importorskip("pandas")
    frame = solvent.solve(robot()).explain(0, "dock").to_frame()
    assert list(frame["action"]) == ["drive", "charge"]
    assert list(frame["allowed"]) == [False, True]
    assert frame["value"].tolist() == [-math.inf, 0.0]
    assert isinstance(frame, pandas.DataFrame)


def test_frames_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(solvent.SolventError, match=r'expected pandas, found no such package; .*"solvent\[pandas\]"'):
        solvent.solve(robot()).explain(0, "dock").to_frame()
