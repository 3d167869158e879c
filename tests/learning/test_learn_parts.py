"""The parts of learning: the graph, one sweep against the formulas, logs, and refused arguments."""

from __future__ import annotations

import math
import signal
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flat import FlatGraph, flat
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from walker import Space, Walker

import solvent
from solvent import CMDP, BudgetError, ModelError, UnmodeledOutcome, instances
from solvent.learning import CsvLog, TensorBoardLog
from solvent.learning.bonus import Bonus, TheoryBonus
from solvent.learning.counts import Counts
from solvent.learning.graph import SafeGraph
from solvent.learning.kernels import NodeValues, Ranges, draw, sweep, sweep_theory
from solvent.learning.planner import value_ranges
from solvent.model.budget import resolve
from solvent.solvers.problem import Problem


def graph_of(model: CMDP, *, pool: bool = True) -> SafeGraph:
    return SafeGraph.of(Problem.exact(model, resolve(model, None), merge=False), share=pool)


@given(seed=st.integers(0, 10**6), resources=st.integers(0, 2), stationary=st.booleans())
def test_outcomes_lead_where_the_augmented_mdp_says(seed: int, resources: int, stationary: bool) -> None:
    model = instances.random(4, 2, horizon=4, resources=resources, stationary=stationary, seed=seed)
    safe, merged = graph_of(model), solvent.augment(model)
    graph = flat(safe)
    assert (safe.n_nodes, safe.n_rows) == (merged.n_nodes, merged.n_rows)
    assert np.array_equal(graph.layer_indptr, merged.layer_indptr)
    assert np.array_equal(graph.node_state, merged.node_state)
    assert np.array_equal(graph.node_spent_ND, merged.node_spent_ND)
    assert np.array_equal(graph.row_action, merged.row_action)
    for row in range(merged.n_rows):
        chances: dict[int, float] = {}
        entries = range(int(graph.entry_indptr[row]), int(graph.entry_indptr[row + 1]))
        first = int(model.outcome_indptr[graph.row_model[row]])
        for j, entry in enumerate(entries):
            node = int(graph.entry_next[entry])
            chances[node] = chances.get(node, 0.0) + float(model.probability[first + j])
        found = merged.transitions[[row]]
        assert chances == pytest.approx(dict(zip(found.indices.tolist(), found.data.tolist(), strict=True)))


def plan_by_formulas(
    graph: SafeGraph, counts: Counts, delta: float, chosen: NDArray[np.int64]
) -> dict[int, tuple[float, float, float]]:
    """Return (V_up, V_low, G) of each node by the formulas of "theory", one node at a time.

    Among equally good rows, the gap is that of the chosen row, which must be one of the best.
    """
    mdp, horizon = flat(graph), graph.problem.model.horizon
    value = {mdp.n_nodes - 1: (0.0, 0.0, 0.0)}
    log_term = math.log(3 * len(mdp.row_model) / delta)
    for node in range(mdp.n_nodes - 2, -1, -1):
        left = horizon - (int(np.searchsorted(mdp.layer_indptr, node, side="right")) - 1)
        rows = []
        for row in range(int(mdp.row_indptr[node]), int(mdp.row_indptr[node + 1])):
            n, p, r, after = row_data(mdp, counts, row, value)
            top = min(left, 1 + max(up for up, _, _ in after))
            bottom, sure = min(low for _, low, _ in after), min(up - gap for up, _, gap in after)
            if n == 0:
                rows.append((top, bottom, top - sure))
                continue
            worth = [ri + up for ri, (up, _, _) in zip(r, after, strict=True)]
            mean = float(np.dot(p, worth))
            mean_low = float(np.dot(p, [ri + low for ri, (_, low, _) in zip(r, after, strict=True)]))
            mean_gap = float(np.dot(p, [gap for _, _, gap in after]))
            sd = math.sqrt(max(float(np.dot(p, np.square(worth))) - mean**2, 0.0))
            if len(after) == 1:
                rows.append((min(top, mean), max(bottom, mean_low), min(min(top, mean) - sure, mean_gap)))
                continue
            growth = math.log(8 * math.e * (n + 1))
            sigma = sd * math.sqrt((log_term + growth) / n)
            beta = log_term + len(after) * growth
            bonus = 3 * sigma + 14 * horizon**2 * beta / n + (mean - mean_low) / horizon
            gap = 6 * sigma + 36 * horizon**2 * beta / n + (1 + 3 / horizon) * mean_gap
            up = min(top, mean + bonus)
            rows.append((up, max(bottom, mean_low - bonus), min(up - sure, gap)))
        if not rows:
            value[node] = (0.0, 0.0, 0.0)
            continue
        best, low = max(up for up, _, _ in rows), max(low for _, low, _ in rows)
        up, _, gap = rows[int(chosen[node]) - int(mdp.stored_row[mdp.row_indptr[node]])]
        assert up == pytest.approx(best, abs=1e-9)
        value[node] = (best, low, gap)
    return value


def row_data(graph: FlatGraph, counts: Counts, row: int, value: dict[int, Any]) -> tuple[int, Any, Any, list[Any]]:
    """Return how often a row was tried, shares and mean rewards of its outcomes, and the values after them."""
    key, first = int(counts.row_key[graph.stored_row[row]]), int(graph.entry_indptr[row])
    begin, end = int(counts.key_indptr[key]), int(counts.key_indptr[key + 1])
    after = [value[int(graph.entry_next[first + j])] for j in range(end - begin)]
    n, seen, sums = int(counts.count_K[key]), counts.count_O[begin:end], counts.reward_sum_O[begin:end]
    row_mean = float(sums.sum()) / max(n, 1)
    return n, seen / max(n, 1), [float(s / c) if c else row_mean for s, c in zip(sums, seen, strict=True)], after


def counted(graph: SafeGraph, seed: int, *, pool: bool, most: int) -> Counts:
    """Return random counts and rewards."""
    counts, rng = Counts.of(graph, pool=pool), np.random.default_rng(seed)
    counts.count_O[:] = rng.integers(0, most, len(counts.count_O))
    counts.count_K[:] = np.add.reduceat(counts.count_O, counts.key_indptr[:-1])
    counts.reward_sum_O[:] = counts.count_O * rng.random(len(counts.count_O))
    counts.square_sum_K[:] = np.add.reduceat(counts.reward_sum_O, counts.key_indptr[:-1])
    return counts


@given(seed=st.integers(0, 10**6), pool=st.booleans(), most=st.sampled_from([3, 10**6]))
def test_a_sweep_of_theory_is_what_the_formulas_say(seed: int, pool: bool, most: int) -> None:
    graph = graph_of(instances.random(3, 2, horizon=3, seed=seed), pool=pool)
    if not graph.feasible:
        return
    counts = counted(graph, seed, pool=pool, most=most)
    value_3N, row_N = np.empty((3, graph.n_nodes)), np.zeros(graph.n_nodes, np.int64)
    weights = TheoryBonus(0.05, 3, graph.n_rows).weights(counts)
    rng_state, values = np.array([seed], np.uint64), NodeValues(*value_3N)
    sweep_theory(counts.graph_arrays(graph), counts.estimates(), weights, rng_state, values, row_N)
    for node, expected in plan_by_formulas(graph, counts, 0.05, row_N).items():
        assert value_3N[:, node] == pytest.approx(expected, abs=1e-9)


def log_factorial(n: int) -> float:
    return math.lgamma(n + 1)


def radius(seen: list[int], n_keys: int, delta: float, *, known: bool) -> float:
    """Return the radius by the formula of the documentation; with exact factorials, so it may be a little smaller."""
    n, k = sum(seen), len(seen) if known else sum(map(bool, seen)) + 1
    if k == 1:
        return 0.0
    repeats = log_factorial(n) - sum(map(log_factorial, seen)) + sum(c * math.log(c / n) for c in seen if c)
    return (math.log(n_keys / delta) + math.log(math.comb(n + k - 1, k - 1)) + repeats) / n


@given(seed=st.integers(0, 10**6), known=st.booleans(), most=st.sampled_from([3, 1000]))
def test_radii_are_what_the_formula_says(seed: int, known: bool, most: int) -> None:
    graph = graph_of(instances.random(3, 2, horizon=3, seed=seed))
    counts = counted(graph, seed, pool=True, most=most)
    found = Bonus(0.05, len(counts.count_K), known).radii(counts).radius_K
    for key, n in enumerate(counts.count_K.tolist()):
        if n:
            seen = counts.count_O[counts.key_indptr[key] : counts.key_indptr[key + 1]].tolist()
            exactly = radius(seen, len(counts.count_K), 0.05, known=known)
            assert exactly - 1e-12 <= found[key] <= exactly + 0.2 * len(seen) / n


@given(
    seed=st.integers(0, 10**6), pool=st.booleans(), most=st.sampled_from([3, 1000]), sign=st.sampled_from([1.0, -1.0]),
    kind=st.sampled_from(["by row", "by outcome", "random"]), known=st.booleans(), scale=st.sampled_from([1.0, 0.05]),
)  # fmt: skip
def test_a_sweep_is_what_the_formulas_say(
    seed: int, pool: bool, most: int, sign: float, kind: str, known: bool, scale: float
) -> None:
    graph = graph_of(instances.random(3, 2, horizon=3, seed=seed), pool=pool)
    if not graph.feasible:
        return
    counts, mdp = counted(graph, seed, pool=pool, most=most), flat(graph)
    radii = Bonus(0.05, len(counts.count_K), known, 1.5 if kind == "random" else 0.0).radii(counts)
    low, high = -0.5, 1.0
    ranges = Ranges(
        *value_ranges((low, high), (-1.0, 2.0), 3), low, high, known, kind == "random", kind == "by row", -1
    )
    value_N, row_N = np.empty(mdp.n_nodes), np.zeros(mdp.n_nodes, np.int64)
    rng = np.array([seed], np.uint64)
    arrays, estimates = counts.graph_arrays(graph), counts.estimates()
    sweep(arrays, estimates, radii, scale, ranges, sign, True, rng, value_N, row_N)
    value = {mdp.n_nodes - 1: 0.0}
    for node in range(mdp.n_nodes - 2, -1, -1):
        step = int(np.searchsorted(mdp.layer_indptr, node, side="right")) - 1
        bounds = []
        for row in range(int(mdp.row_indptr[node]), int(mdp.row_indptr[node + 1])):
            n, p, r, after = row_data(mdp, counts, row, value)
            key = int(counts.row_key[mdp.stored_row[row]])
            bounds.append(sign * signed_bound(n, p, r, after, sign, step, ranges, radii, key, scale))
        value[node] = max(bounds, default=0.0)
        assert value_N[node] == pytest.approx(value[node], abs=1e-9)
        if bounds:
            assert bounds[int(row_N[node]) - int(mdp.stored_row[mdp.row_indptr[node]])] == pytest.approx(
                value[node], abs=1e-9
            )
    again = np.empty(mdp.n_nodes)
    sweep(arrays, estimates, radii, scale, ranges, sign, False, rng, again, row_N)
    assert again.tolist() == value_N.tolist()


def signed_bound(
    n: int, p: Any, r: Any, after: Any, sign: float, step: int, ranges: Ranges, radii: Any, key: int, scale: float
) -> float:
    """Return `sign` times the bound of a row, by the formulas of the documentation."""
    extreme = ranges.reward_high if sign > 0 else ranges.reward_low
    cap = [float(sign * (ranges.cap_H if sign > 0 else ranges.floor_H)[h]) for h in (step, step + 1)]
    most = min(cap[0], sign * extreme + max(sign * v for v in after)) if ranges.known else cap[0]
    if n == 0:
        return most
    if ranges.random:
        f = [v for _, v in zip(r, after, strict=True)]
    else:
        f = [(ri if pi or ranges.by_row else extreme) + v for pi, ri, v in zip(p, r, after, strict=True)]
    possible = [sign * x for pi, x in zip(p, f, strict=True) if pi or ranges.known]
    if not ranges.known and scale >= 1:
        possible.append((0.0 if ranges.random else sign * extreme) + cap[1])
    mean = float(np.dot(p, f))
    variance = max(float(np.dot(p, np.square(np.array(f) - mean))), 0.0)
    a = scale * float(radii.radius_K[key])
    bound = sign * mean + math.sqrt(2 * a * variance) + a * (max(possible) - sign * mean)
    if ranges.random:
        bound += sign * float(np.dot(p, r)) + scale * float(radii.reward_K[key])
    return min(bound, most)


def test_draws_are_uniform() -> None:
    rng = np.array([42], np.uint64)
    drawn = np.array([draw(rng) for _ in range(20_000)])
    assert 0 <= drawn.min() < drawn.max() < 1
    counts = np.histogram(drawn, 20, (0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 45  # 19 degrees of freedom: exceeded once in a thousand
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.03


def test_csv_log(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    with CsvLog(file, every=2) as log:
        learned = solvent.learn(instances.fuel_grid(2), callback=log, max_episodes=500)
    lines = file.read_text().splitlines()
    assert lines[0] == "episodes,gap,value_lower,value_upper,violations,nodes"
    assert [tuple(map(float, line.split(","))) for line in lines[1:]] == [tuple(m) for m in learned.history]
    with pytest.raises(ModelError, match="every: expected a whole number of at least 1, found 0"):
        CsvLog(file, every=0)


def test_tensorboard_log() -> None:
    class Writer:
        def __init__(self) -> None:
            self.lines: list[Any] = []

        def add_scalar(self, tag: str, value: float, step: int) -> None:
            self.lines.append((tag, value, step))

    writer = Writer()
    learned = solvent.learn(instances.fuel_grid(2), callback=TensorBoardLog(writer), max_episodes=50)
    assert writer.lines[-4] == ("learning/gap", learned.history[-1].gap, learned.history[-1].episodes)
    assert len(writer.lines) == 4 * len(learned.history)


def test_tensorboard_files(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    pytest.importorskip("torch")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with TensorBoardLog(tmp_path / "runs") as log:
        learned = solvent.learn(instances.fuel_grid(2), callback=log, max_episodes=50)
    events = EventAccumulator(str(tmp_path / "runs")).Reload()
    for name in ("gap", "value_lower", "value_upper", "violations"):
        found = [(each.step, each.value) for each in events.Scalars(f"learning/{name}")]
        assert found == [(each.episodes, pytest.approx(getattr(each, name))) for each in learned.history]


def test_tensorboard_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(
        solvent.SolventError, match=r'expected torch and tensorboard, found .*pip install "solvent\[rl\]"'
    ):
        TensorBoardLog(tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_writer_that_is_there_already_is_left_open() -> None:
    class Writer:
        done: tuple[str, ...] = ()

        def add_scalar(self, tag: str, value: float, step: int) -> None:
            raise AssertionError

        def flush(self) -> None:
            self.done += ("flush",)

        def close(self) -> None:
            self.done += ("close",)

    writer = Writer()
    with TensorBoardLog(writer):
        pass
    assert writer.done == ("flush",)


def test_ctrl_c_ends_a_run_between_two_episodes() -> None:
    def press(moment: Any) -> None:
        if moment.episodes > 100:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    learned = solvent.learn(instances.fuel_grid(3), callback=press, epsilon=1e-6)
    assert learned.status.value == "limit"
    assert learned.message.startswith(f"interrupted after {learned.episodes:,} episodes")
    assert learned.policy.horizon == 9
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_breaks_off() -> None:
    def press(moment: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        solvent.learn(instances.fuel_grid(3), callback=press, epsilon=1e-6)
    assert signal.getsignal(signal.SIGINT) is before


GRID = instances.fuel_grid(2)
COVER = {"budget": {"fuel": solvent.Budget(9, lower=-99)}}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0}, "epsilon: expected a number above 0, found 0"),
    ({"delta": 1}, "delta: expected a number above 0 and below 1, found 1"),
    ({"bonus": "none"}, "bonus: expected 'practical' or 'theory', found 'none'"),
    ({"replan": "never"}, "replan: expected 'doubling' or 'episode', found 'never'"),
    ({"seed": -1}, "seed: expected a whole number of at least 0, found -1"),
    ({"max_episodes": 0}, "max_episodes: expected a whole number of at least 1, found 0"),
    ({"resume": True}, "resume: expected checkpoint=... to go on from, found none"),
    ({"reward_range": 3}, "reward_range: expected two numbers, the least and the greatest reward, found 3"),
    ({"reward_range": (1, 0)}, r"reward_range: expected two finite numbers, the least first, found \(1, 0\)"),
    ({"reward_range": (0, 0.5)}, "rewards: expected numbers from 0 to 0.5, found 0 to 1"),
    ({"reward_range": (0, 9), "bonus": "theory"}, 'expected rewards from 0 to 1 with bonus="theory", found 0 to 9'),
    ({"random_rewards": True, "bonus": "theory"}, "random_rewards: expected False"),
    ({"cost_support": "some"}, "cost_support: expected 'known' or 'learned', found 'some'"),
    ({"cost_support": "learned", "bonus": "theory"}, 'bonus: expected "practical" with a learned support'),
    ({"cost_support": "learned", "pool": False}, "pool: expected True with a learned support"),
    (
        {"cost_support": "learned", **COVER},
        "budget, fuel: expected only upper limits, unless the support is known",
    ),
    ({"horizon": 9}, "horizon: expected that of the model, 6, or none, found 9"),
    ({"cost": 1}, "expected no support, cost_bound or cost with a model"),
]


@pytest.mark.parametrize(("options", "text"), REFUSED)
def test_what_does_not_fit_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        solvent.learn(GRID, **options)


def step_model() -> CMDP:
    b = CMDP.builder(horizon=2, start=0, resources=["cost"], budget=3)
    b.add(0, 0, reward=0.5, outcomes=[(0.5, 0, 1), (0.5, 1, 0)])
    b.add(1, 0, outcomes=[(1, 1, 0)])
    return b.build()


def test_environments_that_do_not_fit_are_refused() -> None:
    model = step_model()
    with pytest.raises(ModelError, match="horizon: expected a number of steps for an environment, found none"):
        solvent.learn(Walker(model))
    with pytest.raises(ModelError, match="budget: expected a budget, found none"):
        solvent.learn(Walker(model), 2)
    with pytest.raises(ModelError, match=r"cost_support: expected support=... \(the possible outcomes"):
        solvent.learn(Walker(model), 2, 3, cost_support="known")
    with pytest.raises(ModelError, match="learn: expected a CMDP or an environment, found <object"):
        solvent.learn(object(), 2, 3)
    boxed = Walker(model)
    boxed.observation_space = object()  # type: ignore[assignment]
    with pytest.raises(ModelError, match="environment, observation_space: expected a Discrete space"):
        solvent.learn(boxed, 2, 3)
    with pytest.raises(ModelError, match="support: expected a CMDP, a dict by"):
        solvent.learn(Walker(model), 2, 3, support=3)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="support: expected a model of horizon 3, found one of 2"):
        solvent.learn(Walker(model), 3, 3, support=model)
    with pytest.raises(ModelError, match="a cost under 'price', found the keys"):
        solvent.learn(Walker(model), 2, 3, cost="price", cost_bound=1)
    with pytest.raises(ModelError, match=r"step 0, reward: expected a number from 0 to 0.1, found 0.5"):
        solvent.learn(Walker(model), 2, 3, reward_range=(0, 0.1), cost_bound=1)
    with pytest.raises(BudgetError):
        solvent.learn(Walker(model), 2, "much")


def test_a_start_that_varies_is_refused() -> None:
    class Anywhere(Walker):
        def reset(self, *, seed: int | None = None) -> Any:
            super().reset(seed=seed)
            self.state = (seed or 0) % 2
            return self.state, {}

    with pytest.raises(ModelError, match="reset: expected every episode to begin in state 0, found 1"):
        solvent.learn(Anywhere(step_model()), 2, 3, cost_support="learned")


def test_an_observation_out_of_range_is_refused() -> None:
    env = Walker(step_model())
    env.observation_space = Space(1)
    with pytest.raises(ModelError, match="step, observation: expected a number from 0 to 0, found 1"):
        solvent.learn(env, 2, 3, cost_support="learned")


def test_what_a_known_support_lacks_ends_learning() -> None:
    support = {(0, 0): [(0, 1)], (1, 0): [(1, 0)]}
    with pytest.raises(UnmodeledOutcome, match="state 0, action 0: expected 0 at cost 1, found 1 at cost 0"):
        solvent.learn(Walker(step_model()), 2, 3, support=support)


def test_an_episode_that_ends_early_is_refused_where_the_support_goes_on() -> None:
    class Short(Walker):
        def step(self, action: Any) -> Any:
            observation, reward, _, _, info = super().step(action)
            return observation, reward, True, False, info

    with pytest.raises(ModelError, match="expected the episode to continue, as the support and the horizon of 2 say"):
        solvent.learn(Short(step_model()), 2, 3, support=step_model())


def test_a_policy_is_restated_for_a_model_with_finer_costs() -> None:
    """The support lacks a state that cannot be reached, where costs are not whole multiples of the others."""
    b = CMDP.builder(horizon=3, start=0, resources=["cost"], budget=4)
    for state, cost in ((0, 2), (1, 2), (2, "0.3")):
        b.add(state, 0, reward=1, outcomes=[(0.5, state, cost), (0.5, 1, 0)])
        b.add(state, 1, outcomes=[(1, state, 0)])
    model = b.build()
    support = {(s, a): [(s, 2), (1, 0)] if a == 0 else [(s, 0)] for s in (0, 1) for a in (0, 1)}
    learned = solvent.learn(Walker(model), 3, 4, support=support, max_episodes=200)
    assert learned.policy.units == (2,)
    policy = learned.policy_for(model)
    assert policy.units == (Fraction(1, 10),)
    report = solvent.verify(model, policy)
    assert report.feasible
    assert report.value >= learned.value_lower
    assert report.worst_spent["cost"] == 4


def test_a_policy_is_not_restated_for_a_model_that_lacks_its_names() -> None:
    learned = solvent.learn(GRID, epsilon=2)
    with pytest.raises(solvent.PolicyError, match="model: expected a horizon of 6, found 2"):
        learned.policy_for(step_model())
    other = CMDP.from_arrays(np.ones((1, 1, 1)), [[0]], [[0]], horizon=6)
    with pytest.raises(solvent.PolicyError, match=r"model: expected every state of the policy, found no state"):
        learned.policy_for(other)
