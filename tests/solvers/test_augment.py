"""The augmented MDP, against solve, against plain sets of Fractions, and through other people's planners."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from effort import first
from solvent.errors import ModelError, PolicyError, SolventError
from solvent.model import instances
from solvent.model.budget import Budget, resolve
from solvent.model.build import Builder
from solvent.solvers.augmentation.augment import augment
from solvent.solvers.solve import solve

SEEDS = range(60)
FORMS = [{"prune": True}, {"prune": False}]


def problem(seed):
    """A small random model with 1 to 3 resources, and a budget of one of several kinds."""
    rng = np.random.default_rng(seed)
    n_resources, horizon = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    names = [f"r{d}" for d in range(n_resources)]
    if seed % 2:
        model = instances.random(
            4, 3, horizon=horizon, resources=n_resources, branching=2, seed=seed, stationary=bool(seed % 3),
            cost_range=(-2, 4), cost_unit="1/3",
        )  # fmt: skip
    else:
        model = with_terminals(rng, names, horizon)
    limits = [Fraction(int(x), 3) for x in rng.integers(-1, (3 if seed % 2 else 5) * horizon + 1, n_resources)]
    kind = seed % 5
    if kind == 1:
        budgets = [Budget.final(x, lower=min(x, Fraction(0)) - 2) for x in limits]
    elif kind == 2:
        budgets = [Budget(upper=[x + Fraction(h, 2) for h in range(horizon)], lower=x - 4) for x in limits]
    elif kind == 3:
        budgets = [Budget(upper=[x + 1] * (horizon - 1) + [x], lower=None) for x in limits]
    else:
        budgets = [Budget(x) for x in limits]
    return model, dict(zip(names, budgets, strict=True))


def with_terminals(rng, names, horizon, stationary=False):
    b = Builder(horizon=horizon, start=0, resources=names, states=range(5), actions=["a", "b", "c"])
    b.terminal(4)
    if horizon > 2 and not stationary:
        b.terminal(3, steps=[horizon - 1])
    for state in range(4):
        for action in "abc"[: int(rng.integers(1, 4))]:
            weights = rng.dirichlet(np.ones(3))
            outcomes = [
                (w, int(rng.integers(5)), [Fraction(int(rng.integers(-2, 5)), 3) for _ in names]) for w in weights
            ]
            steps = range(horizon - 1) if state == 3 and horizon > 2 and not stationary else None
            b.add(state, action, reward=float(rng.normal()), outcomes=outcomes, steps=steps)
    return b.build()


class Naive:
    """Definitions 1 and 2 over sets of (state, tuple of Fractions), and the value by recursion."""

    def __init__(self, model, budget):
        self.model, self.limits = model, resolve(model, budget)
        self.outcomes = cache(self._outcomes)
        self.value = cache(self._value)

    def _outcomes(self, row):
        found = [
            (p, self.model.state_index(after), tuple(cost[name] for name in self.limits.resources))
            for p, after, cost in self.model.outcomes(row)
        ]
        return [each for each in found if each[0] > 0]

    def within(self, spent, step):
        bounds = zip(self.limits.lower, self.limits.upper, spent, strict=True)
        return all((lo[step] is None or x >= lo[step]) and (up[step] is None or x <= up[step]) for lo, up, x in bounds)

    def ends_well(self, spent, step):
        return all(self.within(spent, later) for later in range(step, self.model.horizon))

    def safe(self, step, spent, row):
        for _, after, cost in self.outcomes(row):
            total = tuple(x + c for x, c in zip(spent, cost, strict=True))
            if not self.within(total, step):
                return False
            over = step + 1 < self.model.horizon and self.model.is_terminal(step + 1, after)
            if over and not self.ends_well(total, step + 1):
                return False
        return True

    def layers(self):
        layer = {(self.model.start_index, (Fraction(0),) * len(self.limits.resources))}
        for step in range(self.model.horizon):
            yield layer
            layer = {
                (after, tuple(x + c for x, c in zip(spent, cost, strict=True)))
                for state, spent in layer
                for row in self.model.rows(step, state)
                if self.safe(step, spent, row)
                for _, after, cost in self.outcomes(row)
            }

    def _value(self, step, state, spent):
        if step == self.model.horizon:
            return 0.0
        if self.model.is_terminal(step, state):
            return 0.0 if self.ends_well(spent, step) else -np.inf
        values = [-np.inf]
        for row in self.model.rows(step, state):
            if self.safe(step, spent, row):
                value = float(self.model.row_reward[row])
                for p, after, cost in self.outcomes(row):
                    value += p * self.value(step + 1, after, tuple(x + c for x, c in zip(spent, cost, strict=True)))
                values.append(value)
        return max(values)

    def best(self):
        return self.value(0, self.model.start_index, (Fraction(0),) * len(self.limits.resources))


def plan(mdp):
    """Plain backward induction; the value at the start and actions of shape (H, N)."""
    value = np.zeros(mdp.n_nodes)
    actions = np.zeros((mdp.model.horizon, mdp.n_nodes), int)
    acting = np.flatnonzero(np.diff(mdp.row_indptr))
    for h in range(mdp.model.horizon - 1, -1, -1):
        q = mdp.reward + mdp.transitions @ value
        value = np.zeros(mdp.n_nodes)
        value[mdp.dead_ends] = -np.inf
        if len(acting):
            value[acting] = np.maximum.reduceat(q, mdp.row_indptr[acting])
        best = np.flatnonzero(q == value[mdp.row_node])[::-1]
        actions[h, mdp.row_node[best]] = mdp.row_action[best]
    return float(value[mdp.start]), actions


def walk(model, budget, policy):
    """Follow a policy through all its histories with Fractions; its value, and whether it kept the budget."""
    naive = Naive(model, budget)

    @cache
    def value(step, state, spent):
        if step == model.horizon:
            return 0.0
        if model.is_terminal(step, state):
            assert naive.ends_well(spent, step)
            return 0.0
        action = model.action_index(policy.action(step, model.states[state], list(spent)))
        (row,) = [r for r in model.rows(step, state) if model.row_action[r] == action]
        total = float(model.row_reward[row])
        for p, after, cost in naive.outcomes(row):
            then = tuple(x + c for x, c in zip(spent, cost, strict=True))
            assert naive.within(then, step)
            total += p * value(step + 1, after, then)
        return total

    return value(0, model.start_index, (Fraction(0),) * len(naive.limits.resources))


def check(mdp):
    """What holds of every augmented MDP."""
    assert mdp.transitions.shape == (mdp.n_rows, mdp.n_nodes)
    assert len(mdp.row_indptr) == mdp.n_nodes + 1
    assert mdp.row_indptr[-1] == mdp.n_rows == len(mdp.reward)
    assert mdp.transitions.has_canonical_format
    if mdp.n_rows:
        np.testing.assert_allclose(mdp.transitions.sum(axis=1), 1)
    assert (mdp.transitions.data > 0).all()
    bare = np.flatnonzero(np.diff(mdp.row_indptr) == 0)
    assert np.isin(mdp.dead_ends, bare).all()
    assert np.isfinite(mdp.reward).all()


@pytest.mark.parametrize("seed", first(8, SEEDS))
@pytest.mark.parametrize("form", FORMS)
def test_any_planner_finds_the_value_of_solve(seed, form):
    model, budget = problem(seed)
    mdp, solution = augment(model, budget, **form), solve(model, budget)
    check(mdp)
    value, actions = plan(mdp)
    assert value == pytest.approx(solution.value, abs=1e-12)
    assert value == pytest.approx(Naive(model, budget).best(), abs=1e-12)
    assert mdp.feasible == (value > -np.inf)
    if not mdp.feasible:
        with pytest.raises(PolicyError, match="dead end"):
            mdp.policy(actions)
        return
    assert walk(model, budget, mdp.policy(actions)) == pytest.approx(value, abs=1e-12)
    assert mdp.policy(actions[0]) == mdp.policy(actions), "a node has one step, so its first action will do"


def test_the_instances_are_of_all_kinds():
    found = [augment(*problem(seed)) for seed in SEEDS]
    assert 10 <= sum(mdp.feasible for mdp in found) <= len(SEEDS) - 10
    plain = [augment(*problem(seed), prune=False) for seed in SEEDS]
    assert sum(len(mdp.dead_ends) > 0 and mdp.feasible for mdp in plain) >= 10
    assert sum(bool((np.diff(mdp.row_indptr)[:-1] == 0).any()) and mdp.feasible for mdp in found) >= 5, "terminal"


def stationary_problem(seed):
    rng = np.random.default_rng(1000 + seed)
    names = ["r0", "r1"][: 1 + seed % 2]
    horizon = int(rng.integers(1, 6))
    if seed % 3:
        model = instances.random(4, 2, horizon=horizon, resources=len(names), branching=2, seed=seed)
    else:
        model = with_terminals(rng, names, horizon, stationary=True)
    limits = rng.integers(-1, 3 * horizon + 1, len(names)).tolist()
    return model, {
        name: Budget(x, lower=x - 12 if seed % 4 == 1 else None) for name, x in zip(names, limits, strict=True)
    }


@pytest.mark.parametrize("seed", first(8, SEEDS))
def test_the_stationary_form(seed):
    model, budget = stationary_problem(seed)
    mdp = augment(model, budget, stationary=True)
    check(mdp)
    value, actions = plan(mdp)
    assert value == pytest.approx(solve(model, budget).value, abs=1e-12)
    assert mdp.feasible == (value > -np.inf)
    inner = set().union(*Naive(model, budget).layers())
    rows = np.diff(mdp.row_indptr)
    with_way = {i for i in range(mdp.n_nodes) if rows[i]}
    assert mdp.end is None
    for i in range(mdp.n_nodes):
        step, state, spent = mdp.node(i)
        assert step is None
        assert mdp.index(None, state, spent) == i
        key = (model.state_index(state), tuple(spent.values()))
        safe = [r for r in model.rows(0, key[0]) if Naive(model, budget).safe(0, key[1], r)] if key in inner else []
        assert rows[i] == len(safe)
        assert (i in mdp.dead_ends) == (key in inner and not safe and not model.is_terminal(0, key[0]))
    assert len(with_way) <= len(inner) <= mdp.n_nodes
    if mdp.feasible:
        assert walk(model, budget, mdp.policy(actions)) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("seed", first(8, SEEDS))
def test_plain_nodes_are_those_of_algorithm_5(seed):
    model, budget = problem(seed)
    mdp = augment(model, budget, prune=False)
    for step, layer in enumerate(Naive(model, budget).layers()):
        nodes = [mdp.node(i) for i in range(mdp.layer_indptr[step], mdp.layer_indptr[step + 1])]
        assert all(node.step == step for node in nodes)
        found = [(model.state_index(node.state), tuple(node.spent.values())) for node in nodes]
        assert len(found) == len(layer)
        assert set(found) == layer
    assert mdp.layer_indptr[-1] == mdp.n_nodes
    assert mdp.node(mdp.end) == (model.horizon, None, {})


@pytest.mark.parametrize("seed", first(8, SEEDS))
def test_every_action_of_a_pruned_mdp_can_be_continued_from(seed):
    model, budget = problem(seed)
    mdp, plain = augment(model, budget), augment(model, budget, prune=False)
    assert mdp.n_nodes <= max(plain.n_nodes, 2)
    assert mdp.dead_ends.tolist() == ([] if mdp.feasible else [mdp.start])
    reached = np.zeros(mdp.n_nodes, bool)
    reached[[mdp.start, mdp.end]] = True
    reached[mdp.transitions.indices] = True
    assert reached.all(), "no node is left that nothing leads to"
    for i in range(mdp.n_nodes - 1):
        node = mdp.node(i)
        assert mdp.index(*node) == i
        if not np.diff(mdp.row_indptr)[i] and mdp.feasible:
            assert model.is_terminal(node.step, model.state_index(node.state))
    naive = Naive(model, budget)
    offered = {}
    for step, layer in enumerate(naive.layers()):
        for state, spent in layer:
            if naive.value(step, state, spent) > -np.inf:
                good = {
                    int(model.row_action[r])
                    for r in model.rows(step, state)
                    if naive.safe(step, spent, r)
                    and all(
                        naive.value(step + 1, s, tuple(x + c for x, c in zip(spent, cost, strict=True))) > -np.inf
                        for _, s, cost in naive.outcomes(r)
                    )
                }
                try:
                    i = mdp.index(step, model.states[state], list(spent))
                except ModelError:
                    continue  # reached only by way of actions that were left out
                offered[i] = good
                assert set(mdp.row_action[mdp.row_indptr[i] : mdp.row_indptr[i + 1]].tolist()) == good
    assert len(offered) == (mdp.n_nodes - 1 if mdp.feasible else 0)


@pytest.mark.parametrize("seed", first(4, range(0, 60, 3)))
@pytest.mark.parametrize("form", [*FORMS, {"stationary": True}])
def test_quantecon(seed, form):
    markov = pytest.importorskip("quantecon").markov
    model, budget = stationary_problem(seed) if "stationary" in form else problem(seed)
    mdp = augment(model, budget, **form)
    ddp = mdp.to_quantecon()
    assert (ddp.num_states, ddp.beta) == (mdp.n_nodes, 1)
    values, actions = markov.backward_induction(ddp, model.horizon)
    expected = solve(model, budget).value
    assert values[0, mdp.start] == pytest.approx(expected, abs=1e-12)
    assert set(ddp.R[~np.isin(ddp.R, mdp.reward)].tolist()) <= {0.0, -np.inf}, "no penalties"
    if mdp.feasible:
        assert walk(model, budget, mdp.policy(actions)) == pytest.approx(expected, abs=1e-12)


def test_quantecon_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "quantecon.markov", None)
    with pytest.raises(SolventError, match="expected quantecon, found no such package; pip install quantecon"):
        augment(instances.knapsack([1], [1], capacity=1)).to_quantecon()


@pytest.mark.parametrize("seed", first(4, range(0, 60, 2)))
@pytest.mark.parametrize("form", [*FORMS, {"stationary": True}])
def test_gymnasium(seed, form):
    model, budget = stationary_problem(seed) if "stationary" in form else problem(seed)
    mdp = augment(model, budget, **form)
    P = mdp.to_gymnasium_P()
    assert list(P) == list(range(mdp.n_nodes))
    # planners differ in whether they look at `done`
    for heed in (False, True):
        value = dict.fromkeys(P, 0.0)
        for _ in range(model.horizon):
            value = {
                i: max(
                    sum(p * (r + (0.0 if heed and done else value[j])) for p, j, r, done in row)
                    for row in rows.values()
                )
                for i, rows in P.items()
            }
        assert value[mdp.start] == pytest.approx(solve(model, budget).value, abs=1e-12)
    for i, rows in P.items():
        for row in rows.values():
            assert sum(p for p, *_ in row) == pytest.approx(1)
        if i in mdp.dead_ends:
            assert rows == {0: [(1.0, i, -np.inf, False)]}


def trap():
    """Going is worth more than staying, but a slip in a million leads where nothing is safe."""
    b = Builder(horizon=3, start="home", resources=["fuel", "risk"], budget={"fuel": 2, "risk": 1})
    b.add("home", "stay", reward=1, outcomes=[(1, "home", 0)])
    b.add("home", "go", reward=2, outcomes=[(1 - 1e-9, "home", 0), (1e-9, "pit", {"fuel": 1, "risk": 1})])
    b.add("pit", "climb", reward=-1, outcomes=[(1, "home", {"fuel": 1, "risk": 1})])
    return b.build()


def test_a_dead_end_is_no_penalty():
    model = trap()
    mdp, plain = augment(model), augment(model, prune=False)
    # the last step may slip: nothing is asked of the pit any more
    assert plan(mdp)[0] == plan(plain)[0] == solve(model).value == 4.0
    assert len(mdp.dead_ends) == 0
    pits = {plain.node(i)[:2] for i in plain.dead_ends}
    assert pits == {(1, "pit"), (2, "pit")}
    # what a penalty makes of it
    value = np.zeros(plain.n_nodes)
    for _ in range(3):
        q = plain.reward + plain.transitions @ value
        value = np.array(
            [max(q[a:b], default=0.0) for a, b in zip(plain.row_indptr, plain.row_indptr[1:], strict=False)]
        )
        value[plain.dead_ends] = -1e6
    assert value[plain.start] > 5
    greedy = np.full(plain.n_nodes, model.action_index("go"))
    with pytest.raises(PolicyError, match=r"node \d+ \(step 1, state 'pit', fuel 1, risk 1\): .* found a dead end"):
        plain.policy(greedy)
    with pytest.raises(PolicyError, match=r"state 'home'.*an action offered there, 0 \('stay'\), found 1"):
        mdp.policy(greedy[: mdp.n_nodes])


def test_actions_by_name_and_by_position():
    model = instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50)
    mdp = augment(model)
    _, best = plan(mdp)
    names = np.array([model.actions[a] for a in best[0]])
    assert mdp.policy(names) == mdp.policy(best) == mdp.policy(names.astype(object)) == mdp.policy(names.tolist())
    assert walk(model, None, mdp.policy(names)) == 220
    with pytest.raises(PolicyError, match=r"offered there, 0 \('leave'\) or 1 \('take'\), found 'steal'"):
        mdp.policy(["steal"] * mdp.n_nodes)
    with pytest.raises(PolicyError, match="found 7"):
        mdp.policy([7] * mdp.n_nodes)
    with pytest.raises(PolicyError, match="found -1"):
        mdp.policy([-1] * mdp.n_nodes)
    with pytest.raises(PolicyError, match=r"of shape \(6,\) or \(3, 6\), found int64 of shape \(2,\)"):
        mdp.policy([0, 1])
    with pytest.raises(PolicyError, match="found float64"):
        mdp.policy(np.zeros(mdp.n_nodes))


def test_actions_are_read_only_where_they_matter():
    model = instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50)
    mdp = augment(model)
    actions = np.full(mdp.n_nodes, 99)
    i = mdp.start
    while mdp.row_indptr[i] < mdp.row_indptr[i + 1]:
        actions[i] = 0
        i = int(mdp.transitions[[mdp.row_indptr[i]]].indices[0])
    assert i == mdp.end
    assert len(mdp.policy(actions)) == 3


def test_index_says_what_is_wrong():
    mdp = augment(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50))
    settled = mdp.index(1, "knapsack", 0)
    assert mdp.node(settled).spent == {"weight": None}
    assert mdp.index(1, "knapsack", None) == mdp.index(1, "knapsack", {"weight": None}) == settled
    for spent in (11, "1/3", 10**40):
        with pytest.raises(ModelError, match="expected a node of the augmented MDP"):
            mdp.index(1, "knapsack", spent)
    with pytest.raises(ModelError, match="amounts of 'weight'"):
        mdp.index(1, "knapsack", [1, 2])
    with pytest.raises(ModelError, match="a step from 0 to 2, found 3"):
        mdp.index(3, "knapsack", 0)
    with pytest.raises(ModelError, match="one of the model's states"):
        mdp.index(1, "sack", 0)
    with pytest.raises(ModelError, match="a node from 0 to 5, found 6"):
        mdp.node(6)


@pytest.mark.parametrize("form", [*FORMS, {"stationary": True}])
def test_nothing_tracked(form):
    model = instances.random(4, 2, horizon=4, seed=3)
    mdp = augment(model, {"r0": None}, **form)
    assert plan(mdp)[0] == pytest.approx(solve(model, {"r0": None}).value)
    assert mdp.node(mdp.start).spent == {}
    assert mdp.index(0, 0, {}) == mdp.start


@pytest.mark.parametrize("form", [*FORMS, {"stationary": True}])
def test_a_start_that_is_terminal(form):
    b = Builder(horizon=2, start="done", resources=["fuel"])
    b.terminal("done")
    b.add("other", "go", outcomes=[(1, "done", 1)])
    model = b.build()
    for limit, feasible in ((0, True), (-1, False)):
        mdp = augment(model, limit, **form)
        assert mdp.feasible == feasible == (solve(model, limit).value == 0)
        assert plan(mdp)[0] == (0 if feasible else -np.inf)
        assert mdp.n_rows == 0


def test_stationary_form_is_refused_where_it_does_not_fit():
    model = instances.random(4, 2, horizon=4, seed=3)
    with pytest.raises(ModelError, match="the same limits at every step, found limits of r0 that vary"):
        augment(model, Budget.final(3), stationary=True)
    with pytest.raises(ModelError, match="a stationary model, found one with 3 tables"):
        augment(instances.knapsack([1, 2, 3], [1, 2, 3], capacity=3), stationary=True)


@pytest.mark.parametrize("form", [*FORMS, {"stationary": True}])
def test_limits_of_memory_and_time(form):
    model = instances.fuel_grid(6)
    with pytest.raises(SolventError, match=r"augment stopped: .* more than the memory limit of 0\.05 MB; raise"):
        augment(model, memory_limit=50_000, **form)
    with pytest.raises(SolventError, match="augment stopped: the time limit of 1e-09 s was reached"):
        augment(model, time_limit=1e-9, **form)
    with pytest.raises(ModelError, match="seconds above 0"):
        augment(model, time_limit=0, **form)


@pytest.mark.parametrize("form", [*FORMS, {"stationary": True}])
def test_many_nodes(form):
    model = instances.fuel_grid(5, horizon=14, tank=9)
    mdp = augment(model, **form)
    check(mdp)
    value, actions = plan(mdp)
    solution = solve(model)
    assert value == pytest.approx(solution.value, rel=1e-12)
    assert walk(model, None, mdp.policy(actions)) == pytest.approx(value, rel=1e-12)
    if form.get("prune") is False:
        assert np.diff(mdp.layer_indptr)[:-1].tolist() == list(
            solve(model, method="reduction", prune=False).stats.layer_sizes
        )
