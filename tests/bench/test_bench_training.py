"""The harness of the learning benchmarks: the meter, records, aggregation and the page; no agent is trained here."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from bench.training import page, plot, run, tabular
from bench.training.__main__ import PUBLISHED, jobs_of
from bench.training.measure import curve, results, summary
from bench.training.meter import Episode, Meter
from bench.training.methods import FULL, METHODS, QUICK, training_jobs
from bench.training.records import Records, key, only_one
from bench.training.sb3 import Penalized, wrap
from bench.training.tasks import TASKS, probe


class Corridor(gymnasium.Env):
    """Each step moves on by one; the episode ends at 4."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        self.place = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.place += 1
        return np.full(1, self.place, np.float32), 1.0, self.place == 4, False, {}


def metered(budget=3, horizon=10):
    return Meter(Corridor(), lambda env, action, info: [0.0, 1.0, -1.0][action], budget, horizon)


def play(env, actions):
    env.reset()
    for action in actions:
        env.step(action)


def test_meter_counts_any_step():
    meter = metered(budget=2)
    play(meter, [1, 1, 1, 2])  # 3 after three steps, 2 in the end
    play(meter, [1, 1, 0, 0])
    first, second = meter.read()
    assert first == Episode(4, 4.0, 3.0, over=True, finished=True)
    assert second == Episode(8, 4.0, 2.0, over=False, finished=True)
    assert meter.read() == []


def test_meter_is_exact():
    meter = Meter(Corridor(), lambda env, action, info: 0.1, 1, 20)
    meter.reset()
    for _ in range(10):  # ten times the float 0.1 is above 1 by 5.6e-17, which floats do not show
        meter.step(0)
    assert meter.read()[0].over


def test_cut_episodes_count_but_are_not_finished():
    meter = metered(budget=1)
    play(meter, [1, 1])
    play(meter, [0])
    cut, under_way = meter.read()
    assert cut.over
    assert not cut.finished
    assert not under_way.over
    assert not under_way.finished
    assert summary([cut, under_way])["over"] == 1
    meter.reset_finishes = True
    play(meter, [1, 1])
    assert meter.read()[0].finished


def test_horizon_finishes():
    meter = metered(horizon=2)
    play(meter, [0, 0])
    assert meter.read()[0].finished


def test_curve():
    episodes = [
        Episode(3, 1.0, 0, over=False, finished=True),
        Episode(5, 3.0, 9, over=True, finished=True),
        Episode(7, 100.0, 9, over=True, finished=False),
        Episode(10, 4.0, 0, over=False, finished=True),
    ]
    found = curve(episodes, 10, points=5)
    assert found["step"] == [2, 4, 6, 8, 10]
    assert found["return"] == [None, 1.0, 3.0, None, 4.0]
    assert found["over"] == [0, 0, 1, 2, 2]
    assert found["episodes"] == [0, 1, 2, 3, 4]


def test_band_skips_missing():
    middle, low, high = plot.band([[1.0, None, None], [3.0, 5.0, None]])
    assert middle[:2].tolist() == [2.0, 5.0]
    assert np.isnan(middle[2])
    assert (low[:2] <= middle[:2]).all()
    assert (middle[:2] <= high[:2]).all()


@pytest.mark.parametrize("size", [QUICK, FULL])
def test_jobs_are_distinct(size):
    jobs = training_jobs(size) + tabular.learning_jobs(size)
    assert len({key(job) for job in jobs}) == len(jobs)
    assert all(job == json.loads(json.dumps(job)) for job in jobs)
    per_seed = sum(1 for t in TASKS.values() for m in METHODS.values() if not (t.discrete and m.continuous_only))
    assert len(training_jobs(size)) == size.seeds * per_seed


def fake(job, over=0):
    episodes = [Episode(10 * i, float(i), 1.0, over=i <= over, finished=True) for i in range(1, 6)]
    if job["kind"] == "training":
        return {**job, **results(episodes, episodes, job["steps"]), "versions": {"numpy": "1"}, "seconds": 1.0}
    counts = tabular.counts(job["steps"])
    values = {"episodes": counts, "value": [1.0] * len(counts), "optimum": 2.0}
    return {**job, **values, "training": {"episodes": 5, "over": over}, "versions": {}, "seconds": 1.0}


def all_fake():
    return [fake(job) for job in training_jobs(QUICK) + tabular.learning_jobs(QUICK)]


def test_records_are_kept_and_continued(tmp_path, monkeypatch):
    path = tmp_path / "runs" / "r.jsonl"
    jobs = training_jobs(QUICK)[:5]
    ran = []

    def failing(job, why_not=None):
        ran.append(key(job))
        if len(ran) == 3:
            return {**job, "error": "killed"}
        return fake(job)

    monkeypatch.setattr(run, "run_job", failing)
    monkeypatch.setattr(run, "install_omnisafe", lambda: None)
    run.run_all(jobs[:3], Records(path), 1, lambda record, left: None)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [key(line) for line in lines] == [key(job) for job in jobs[:3]]
    ran.clear()
    run.run_all(jobs, Records(path), 1, lambda record, left: None)
    assert ran == [key(job) for job in jobs[2:]]  # the failure is tried again, what is finished is not
    assert len(path.read_text().splitlines()) == 5
    assert list(path.parent.iterdir()) == [path]


def test_interrupted_runs_are_not_recorded(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    monkeypatch.setattr(run, "install_omnisafe", lambda: None)
    monkeypatch.setattr(run, "run_job", lambda job, why_not: fake(job))

    def interrupt(record, left):
        raise KeyboardInterrupt

    jobs = training_jobs(QUICK)
    with pytest.raises(KeyboardInterrupt):
        run.run_all(jobs, Records(path), 1, interrupt)
    records = Records(path)
    assert not records.needs(jobs[0])
    assert all("error" not in json.loads(line) for line in path.read_text().splitlines())


def test_other_settings_are_another_run(tmp_path):
    records = Records(tmp_path / "r.jsonl")
    (job, *_) = training_jobs(QUICK)
    records.add(fake(job))
    assert not records.needs(job)
    assert records.needs({**job, "settings": {**job["settings"], "gamma": 0.5}})
    assert records.needs({**job, "budget": job["budget"] + 1})


def test_two_runs_are_refused(tmp_path):
    path = tmp_path / "r.jsonl"
    with only_one(path), pytest.raises(SystemExit, match="another run is writing these records"), only_one(path):
        pass
    with only_one(path):
        pass


def test_a_peer_that_cannot_be_installed_says_why():
    job = next(job for job in training_jobs(QUICK) if job["method"] == "PPOLag")
    record = run.run_job(job, "no matching distribution")
    assert record["error"] == "OmniSafe cannot be installed: no matching distribution"
    assert page.row("PPOLag", [record]) == (
        "| PPOLag | 0 | not run: OmniSafe cannot be installed: no matching distribution | | | |"
    )


def test_row_counts():
    (job, *_) = training_jobs(QUICK)
    cells = page.row("x", [fake(job, over=1), fake(job, over=2), {**job, "error": "?"}]).split(" | ")
    assert cells == ["| x", "2 (1 failed)", "3 of 10 (30.0%)", "3 of 10 (30.0%)", "1.0", "3.0 ± 0.0 (3.0) |"]


def test_overview():
    jobs = {(job["task"], job["method"]): job for job in training_jobs(QUICK)}
    records = [
        fake(jobs["CartPole-v1", "CPO"], over=1),
        fake(jobs["CartPole-v1", "CPO"], over=2),
        fake(jobs["Acrobot-v1", "CPO"]),
        {**jobs["Pendulum-v1", "CPO"], "error": "?"},
    ]
    lines = page.overview(records).splitlines()
    assert lines[0] == "| method | CartPole-v1 | Acrobot-v1 | Pendulum-v1 | HalfCheetah-v4 |"
    assert "| OmniSafe CPO | 30.0% / 30.0% | 0% / 0% | not run | not run |" in lines
    assert "| Solvent, SAC |  |  | not run | not run |" in lines
    records[2]["training"] |= {"over": 1, "episodes": 10_000}  # a small share is not rounded to none
    assert "| 0.1% / 0% |" in page.overview(records)


def test_broken_promises():
    jobs = {job["method"]: job for job in training_jobs(QUICK) + tabular.learning_jobs(QUICK)}
    kept = [fake(jobs["solvent-ppo"]), fake(jobs["CPO"], over=3), fake(jobs["q"])]
    assert page.broken_promises(kept) == []
    found = page.broken_promises([fake(jobs["solvent-sac"], over=1), fake(jobs["pooled"], over=2)])
    assert [line.split(": ")[1] for line in found] == ["2 episodes", "2 episodes"]


def test_differing_environments_are_named():
    (job, *_) = training_jobs(QUICK)
    records = [{**fake(job), "probe": [1.0]}, {**fake(job), "probe": [2.0]}]
    assert page.differing_probes(records) == ["CartPole-v1"]
    assert page.differing_probes([{**records[0], "probe": [1.000001]}, records[0]]) == []
    assert page.differing_probes([{**records[0], "probe": [1.0, 1.0]}, records[0]]) == ["CartPole-v1"]
    assert "The environments CartPole-v1 do not behave the same" in page.text(records, QUICK)


def test_page():
    text = page.text(all_fake(), QUICK)
    assert "quick run" in text
    assert "not run" not in text
    assert "quick run" not in page.text(all_fake(), FULL)
    for task in TASKS:
        assert f"### {task}" in text
    for method in METHODS.values():
        assert f"| {method.title} | 2 |" in text
    assert "| fuel_grid(3) | solvent.learn | 2 | 50% |" in text
    for line in text.splitlines():
        assert not line.startswith("|") or line.endswith("|")


def test_page_of_an_interrupted_run_says_how_many_seeds_it_has():
    records = [{**record, "error": "killed"} if i == 0 else record for i, record in enumerate(all_fake())]
    assert "1 to 2 of 2 seeds;" in page.text(records, QUICK)
    assert f"{len(records) - 1} of {len(records)} runs recorded" in page.text(records, QUICK)
    assert "0 to 1 of 10 seeds;" in page.text([fake(training_jobs(FULL)[0])], FULL)
    assert " 2 seeds;" in page.text(all_fake(), QUICK)


def test_the_published_page_is_what_the_records_say():
    records = Records(PUBLISHED)
    found = [record for job in jobs_of(FULL) if (record := records.find(job)) is not None]
    assert len(found) == len(PUBLISHED.read_text(encoding="utf-8").splitlines())  # all are of today's settings
    assert page.PAGE.read_text(encoding="utf-8") == page.text(found, FULL)
    assert page.broken_promises(found) == []
    assert page.differing_probes(found) == []


def test_page_without_records():
    assert "not run: no run yet" in page.text([], FULL)


def test_figures():
    records = all_fake()
    for task in TASKS.values():
        returns, violations = plot.training(records, task).axes
        assert len(returns.lines) == len(violations.lines) == len(METHODS) - task.discrete
    for axes in plot.learning(records).axes:
        assert len(axes.lines) == len(tabular.LEARNERS) + 1  # and the optimum


@pytest.mark.parametrize("name", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1"])
def test_wrapped_tasks_keep_their_budgets(name):
    task = TASKS[name]
    env, meter = wrap(task, "solvent-ppo")
    rng = np.random.default_rng(0)
    for seed in range(2):
        _, info = env.reset(seed=seed)
        over = False
        while not over:
            if task.discrete:
                costly = [a for a in np.flatnonzero(info["action_mask"]) if task.cost(None, a, {})]
                action = rng.choice(costly or np.flatnonzero(info["action_mask"]))
            else:
                action = rng.choice([env.action_space.low, env.action_space.high])
            _, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
    assert not any(episode.over for episode in meter.read())


def test_penalty():
    meter = metered(budget=1)
    env = Penalized(meter, 1, 10.0)
    observation, _ = env.reset()
    assert observation.tolist() == [0, 1, 0]
    rewards = []
    for _ in range(3):
        observation, reward, *_ = env.step(1)
        rewards.append(reward)
    assert rewards == [1.0, -9.0, -9.0]
    assert observation.tolist() == [3, -2, 3]


@pytest.mark.parametrize("name", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1"])
def test_probe_is_repeatable(name):
    assert probe(TASKS[name]) == probe(TASKS[name])


@pytest.mark.parametrize("learner", tabular.LEARNERS)
def test_learners_are_metered(learner):
    job = {"task": "fuel_grid(3)", "method": learner, "seed": 0, "steps": 30, "settings": tabular.OPTIONS[learner]}
    found = tabular.run(job)
    assert found["episodes"] == [10, 16, 25, 30]
    assert found["training"] == {"episodes": 30, "over": 0}
    assert all(0 <= value <= found["optimum"] + 1e-9 for value in found["value"])


def test_requirements_are_pinned():
    lines = Path(run.REQUIREMENTS).read_text(encoding="utf-8").splitlines()
    assert all("==" in line for line in lines)
    assert "gymnasium==0.28.1" in lines
    assert "torch==2.13.0" in lines
    assert "omnisafe==0.5.0" in lines
