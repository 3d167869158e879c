"""The harness of the claims about learning: problems, masks, statistics and the page; slow tests train agents."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import solvent
import solvent.gym
from solvent import CMDP, instances

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

from bench.claims import approximate, complexity, page, plot, reduction, run, statistics
from bench.claims.jobs import FULL, QUICK, SETTINGS, STEPS, all_jobs
from bench.claims.nodes import Nodes, NodeVecEnv
from bench.claims.q_learning import learn as q_learn
from bench.training.records import Records, key

pytestmark = pytest.mark.extras


@pytest.mark.parametrize(("states", "actions", "horizon"), [(2, 2, 6), (4, 3, 7), (8, 2, 8)])
@pytest.mark.parametrize("amounts", [2, 4, 8])
def test_the_family_has_the_sizes_it_says(states: int, actions: int, horizon: int, amounts: int) -> None:
    model = complexity.family(states, actions, horizon, amounts, bits=3)
    assert complexity.diversity(model) == amounts
    assert model.horizon == horizon
    assert model.n_states == states + 3
    assert model.is_stationary
    rows = [model.rows(0, state) for state in range(model.n_states)]
    assert sorted(len(found) for found in rows) == [1] * 3 + [actions + 1] * states


def test_spending_is_safe_only_if_nothing_was_spent() -> None:
    model = complexity.family(2, 2, 4, 4, bits=2)
    mdp = solvent.augment(model, prune=False)
    spend = model.actions.index("spend")
    for index in range(mdp.n_nodes - 1):
        node = mdp.node(index)
        offered = spend in mdp.row_action[mdp.row_indptr[index] : mdp.row_indptr[index + 1]]
        assert offered == (isinstance(node.state, int) and node.spent["cost"] == 0)


def numbered(model: CMDP) -> CMDP:
    return dataclasses.replace(
        model, states=tuple(range(model.n_states)), actions=tuple(range(model.n_actions)), start=model.start_index
    )


@pytest.mark.parametrize("task", reduction.PROBLEMS)
def test_nodes_have_the_masks_of_the_wrapper(task: str) -> None:
    make, _ = reduction.PROBLEMS[task]
    model = numbered(make())
    nodes = Nodes(model)
    env = solvent.gym.BudgetWrapper(solvent.gym.ModelEnv(model), model=model, cost="cost")
    rng = np.random.default_rng(0)
    for seed in range(20):
        _, info = env.reset(seed=seed)
        inner, over = env.unwrapped, False
        while not over:
            assert isinstance(inner, solvent.gym.ModelEnv)
            (spent,) = inner.spent.values()
            index = nodes.mdp.index(info["step"], inner.state, spent)
            assert (nodes.mask[index] == info["action_mask"].astype(bool)).all()
            assert not nodes.ends[index]
            _, _, terminated, truncated, info = env.step(rng.choice(np.flatnonzero(nodes.mask[index])))
            over = terminated or truncated


def test_nodes_with_dead_ends_are_refused() -> None:
    b = CMDP.builder(horizon=2, start="a", resources=["cost"], budget=1)
    b.add("a", "go", outcomes=[(1, "a", 1)])
    with pytest.raises(ValueError, match="has dead ends"):
        Nodes(b.build())


def test_steps_follow_the_probabilities_and_refuse_masked_actions() -> None:
    nodes = Nodes(instances.fuel_grid(3), scale=2.0)
    (start,) = nodes.mdp.start_nodes
    action = int(np.flatnonzero(nodes.mask[start])[0])
    draws = (np.arange(10_000) + 0.5) / 10_000
    reward, after = nodes.step(np.full(10_000, start), np.full(10_000, action), draws)
    row = nodes.row[start, action]
    expected = nodes.mdp.transitions[[row]].toarray()[0]
    assert np.abs(np.bincount(after, minlength=len(expected)) / 10_000 - expected).max() < 1e-3
    assert reward.tolist() == [nodes.mdp.reward[row] / 2] * 10_000
    masked = np.argwhere(~nodes.mask & ~nodes.ends[:, None])[0]
    with pytest.raises(ValueError, match="is not safe in node"):
        nodes.step(masked[:1], masked[1:], np.zeros(1))


def test_many_episodes_at_once() -> None:
    nodes = Nodes(instances.knapsack([1, 2, 3], [1, 2, 3], capacity=3))
    env = NodeVecEnv(nodes, 4, with_mask=True)
    env.seed(1)
    observations = env.reset()
    assert observations.shape == (4, nodes.features.shape[1] + 2)
    for step in range(6):
        masks = np.array(env.env_method("action_masks"))
        assert (observations[:, -2:] == masks).all()
        observations, rewards, dones, infos = env.step(masks[:, 1].astype(int))
        assert dones.all() == (step % 3 == 2)
        assert rewards.tolist() == [[1, 2, 0][step % 3]] * 4
        assert all(("terminal_observation" in info) == done for info, done in zip(infos, dones, strict=True))
    assert (env.episodes, env.over) == (8, 0)


def test_q_learning_finds_the_optimum_of_a_knapsack() -> None:
    make, _ = reduction.PROBLEMS["knapsack"]
    model = make()
    nodes = Nodes(model)
    actions, episodes, over = q_learn(nodes, 100_000, 5, **SETTINGS["q"])
    report = solvent.verify(model, nodes.mdp.policy(actions))
    assert (episodes, over, report.feasible) == (10_000, 0, True)
    assert report.value == pytest.approx(solvent.solve(model).value)
    assert (q_learn(nodes, 1000, 5, **SETTINGS["q"])[0] == q_learn(nodes, 1000, 5, **SETTINGS["q"])[0]).all()


def masked_agent(nodes: Nodes) -> Any:
    from bench.claims.masked_dqn import MaskedDQN, MaskedDQNPolicy

    vector = NodeVecEnv(nodes, 8, with_mask=True)
    return MaskedDQN(MaskedDQNPolicy, vector, seed=1, device="cpu", buffer_size=100, learning_starts=0), vector


def test_dqn_masks_values_targets_and_exploration() -> None:
    import torch

    from bench.claims.masked_dqn import MASKED

    nodes = Nodes(instances.fuel_grid(3))
    agent, vector = masked_agent(nodes)
    observations = torch.as_tensor(vector.observations)
    for network in (agent.q_net, agent.q_net_target):
        values = network(observations).detach().numpy()
        assert (values[~nodes.mask] == MASKED).all()
        assert (np.abs(values[nodes.mask]) < 100).all()
    playing = ~nodes.ends
    for explore in (0.0, 1.0):
        agent.exploration_rate = explore
        actions, _ = agent.predict(vector.observations[playing], deterministic=explore == 0.0)
        assert nodes.mask[playing][np.arange(playing.sum()), actions].all()
        assert len(np.unique(actions)) > 1


def test_exponents_and_intervals() -> None:
    x = [1, 2, 4, 8]
    assert statistics.exponent(x, [3 * v**2 for v in x]) == pytest.approx((2, 2, 2))
    assert statistics.exponent(x, [7, 7, 7, 7]) == (0, 0, 0)
    middle, low, high = statistics.exponent(x, [1, 2.2, 3.9, 8.1])
    assert low < middle < high
    assert low < 1 < high
    assert statistics.interval([2.0]) == (2, 2, 2)
    assert statistics.interval([1.0, 3.0]) == pytest.approx((2, 2 - 12.706, 2 + 12.706), abs=1e-3)


@pytest.mark.parametrize("size", [QUICK, FULL])
def test_jobs_are_distinct(size: Any) -> None:
    jobs = all_jobs(size)
    assert len({key(job) for job in jobs}) == len(jobs)
    assert all(job == json.loads(json.dumps(job)) for job in jobs)
    assert set(STEPS) == set(reduction.PROBLEMS)


def fake(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"training": {"episodes": 7, "over": 0}, "versions": {"numpy": "1"}, "seconds": 60.0}
    if job["kind"] == "reduction":
        found |= {"value": 1.98, "optimum": 2.0, "feasible": True, "violation_probability": 0.0, "nodes": 9}
    elif job["kind"] == "complexity":
        found["points"] = [
            {"sweep": sweep, "level": level, "proved": True, "episodes": 10 * level, "over": 0, "feasible": True,
             "value": 1.9, "optimum": 2.0, "nodes": 5 * level, "outcomes": 3 * level**2, "diversity": 2}
            for sweep, levels in job["settings"]["levels"].items() for level in levels
        ]  # fmt: skip
    else:
        found |= {"optimum": 2.0, "nodes": 99}
        found["points"] = [
            {"scheme": scheme, "epsilon_cost": amount, "status": "within_gap", "episodes": 5, "over": 0, "value": 2.0,
             "excess": 0.0, "bound": 0.0 if "strict" in options else 1.0, "within": True, "nodes": 8}
            for scheme, (_, options, amounts) in approximate.SCHEMES.items() for amount in amounts
        ]  # fmt: skip
    return {**job, **found}


def records(size: Any = QUICK) -> list[dict[str, Any]]:
    return [fake(job) for job in all_jobs(size)]


def test_nothing_is_broken_unless_it_is() -> None:
    assert statistics.broken(records()) == []
    by_kind = {record["kind"]: record for record in records()}
    learned, scaled, rounded = (by_kind[kind] for kind in ("reduction", "complexity", "rounding"))
    assert "exceeds the budget" in statistics.broken([{**learned, "feasible": False}])[0]
    assert "above the optimum" in statistics.broken([{**learned, "value": 2.1}])[0]
    assert "3 episodes over" in statistics.broken([{**learned, "training": {"episodes": 7, "over": 3}}])[0]

    def changed(record: dict[str, Any], place: int, **fields: Any) -> list[str]:
        points = [dict(point) for point in record["points"]]
        points[place].update(fields)
        return statistics.broken([{**record, "points": points}])

    assert "D = 2: a proved gap that does not hold" in changed(scaled, 0, value=0.9)[0]
    assert changed(scaled, 0, value=0.9, proved=False) == []
    assert "additive 3: more over budget than the bound" in changed(rounded, 0, within=False)[0]
    assert "additive 3: less than the optimum minus epsilon" in changed(rounded, 0, value=1.7)[0]
    assert "relative strict 1/50: an episode over budget" in changed(rounded, -1, over=1)[0]
    assert statistics.broken([{**learned, "feasible": False, "error": "killed"}]) == []


def test_page() -> None:
    text = page.text(records(FULL), FULL)
    assert "quick run" not in text
    assert "no run yet" not in text
    assert "| fuel grid | MaskablePPO | 204,800 | 1.00 % (1.00 to 1.00) | 1.00 % |" in text
    assert "| $D$ | 1 | 1.00 (1.00 to 1.00), 2 to 16 |" in text
    assert "| $S$ | 1 | 1.00 (1.00 to 1.00) | 2 | 2.00 (2.00 to 2.00) |" in text
    assert "Above the exponent of the bound" not in text
    steep = records(FULL)
    for record in steep:
        for point in record.get("points", []):
            if point.get("sweep") == "D":
                point["episodes"] = point["level"] ** 2
    assert "BPI-UCBVI by node, as in the paper in $D$ (2.00, bound 1)" in page.text(steep, FULL)
    for line in text.splitlines():
        assert not line.startswith("|") or line.endswith("|")
    assert "This is a quick run" in page.text(records(), QUICK)


def test_page_without_records() -> None:
    text = page.text([], FULL)
    assert "no run yet" in text
    for line in text.splitlines():
        assert not line.startswith("|") or line.endswith("|")


def test_rows_have_as_many_cells_as_their_headers() -> None:
    infeasible = records()
    for record in infeasible:
        for point in record.get("points", []):
            if point.get("scheme") == "additive strict":
                for part in ("value", "excess", "bound", "within", "nodes"):
                    del point[part]
    for found in ([], records(), infeasible):
        for table in page.tables(found).split("\n\n"):
            assert len({line.count("|") for line in table.splitlines()}) == 1
    assert "no policy" in page.tables(infeasible)


def test_figures() -> None:
    found = records(FULL)
    assert len(plot.reduction_figure(found).axes) == 3
    assert all(len(axes.lines) == 4 for axes in plot.complexity_figure(found).axes)
    values, excesses = plot.rounding_figure(found).axes
    assert len(values.collections) == len(excesses.collections) == 4
    for draw in (plot.reduction_figure, plot.complexity_figure, plot.rounding_figure):
        draw([])


def test_rounded_costs_are_judged_by_true_ones() -> None:
    job = {"task": "random 5", "seed": 3, "settings": {"epsilon": 1.0, "max_episodes": 200}}
    found = approximate.run(job)
    assert len(found["points"]) == 12
    for point in found["points"]:
        strict = point["scheme"].endswith("strict")
        assert point["within"]
        assert point["excess"] <= point["bound"]
        assert not strict or (point["over"] == 0 and point["excess"] == 0)
    assert any(point["excess"] > 0 for point in found["points"])


@pytest.mark.parametrize("method", complexity.LEARNERS)
def test_gaps_are_proved(method: str) -> None:
    job = {"kind": "complexity", "task": "family", "method": method, "seed": 3, "settings": {"levels": {"D": [2]}}}
    if method == "theory":
        job["settings"] = {"levels": {"H": [3]}}
    found = complexity.run(job)
    (point,) = found["points"]
    assert point["proved"]
    assert point["feasible"]
    assert point["diversity"] == 2
    assert statistics.broken([{**job, **found}]) == []


@pytest.mark.slow
def test_quick_run_is_recorded_and_failures_are_tried_again(tmp_path: Any) -> None:
    jobs = [job for job in all_jobs(QUICK) if job["seed"] == 0 and job["task"] == "knapsack"]
    wrong = {**jobs[0], "settings": {"explore": 1.0}}
    store = Records(tmp_path / "claims.jsonl")
    run.run_all([*jobs, wrong], store, 2, lambda record, left: None)
    found = [Records(store.path).find(job) for job in jobs]
    assert all(record is not None and "error" not in record for record in found)
    failed = Records(store.path).find(wrong)
    assert failed is not None
    assert "power" in failed["error"]
    assert Records(store.path).needs(wrong)
    assert statistics.broken([record for record in found if record is not None]) == []
    assert {record["method"] for record in found if record is not None} == set(reduction.LEARNERS)
