"""The regression check reports regressions, and nothing else."""

from __future__ import annotations

import json

import pytest

import solvent
from bench import check, limit, targets
from bench.peers import workloads
from bench.yardstick import cpu_time, kernel_clock, work_ratios
from solvent import instances

BASE = {"a": {"nodes": 100, "calls": 1000, "python": 2.0, "kernels": 4.0}}


def taking(*ratios, nodes=100, calls=1000, kernels=4.0):
    left = list(ratios)
    return lambda name: {"nodes": nodes, "calls": calls, "python": left.pop(0), "kernels": kernels}


@pytest.mark.parametrize(
    ("take", "regressions"),
    [
        (taking(2.0), []),
        (taking(3.9, calls=1099), []),
        (taking(2.0, nodes=101), ["a: nodes was 100, is 101"]),
        (taking(2.0, calls=1101), ["a: calls was 1000, is 1101"]),
        (taking(4.1, 4.2, 4.3), ["a: python was 2, is 4.1"]),
        (taking(9.0, 9.0, 2.1), []),
        (taking(2.0, 2.0, 2.0, kernels=8.1), ["a: kernels was 4, is 8.1"]),
        (taking(9.0, nodes=200), ["a: nodes was 100, is 200", "a: python was 2, is 9"]),
    ],
)
def test_judge(take, regressions):
    assert check.judge(BASE, take)[1] == regressions


@pytest.mark.slow
def test_main_fails_on_a_regression(tmp_path, monkeypatch, capsys):
    file = tmp_path / "baseline.json"
    monkeypatch.setattr(check, "WORKLOADS", ("fuel grid n=5",))
    monkeypatch.setattr(check, "ROUNDS", 3)
    assert check.main(["--update", "--baseline", str(file)]) == 0
    numbers = json.loads(file.read_text())
    assert numbers["fuel grid n=5"]["nodes"] == solvent.solve(instances.fuel_grid(5)).stats.nodes
    numbers["fuel grid n=5"] |= {"python": 1e9, "kernels": 1e9}
    file.write_text(json.dumps(numbers))
    assert check.main(["--baseline", str(file)]) == 0
    numbers["fuel grid n=5"]["kernels"] = 1e-9
    file.write_text(json.dumps(numbers))
    assert check.main(["--baseline", str(file)]) == 1
    assert "worse fuel grid n=5: kernels was 1e-09" in capsys.readouterr().out
    numbers["fuel grid n=5"]["nodes"] -= 1
    file.write_text(json.dumps(numbers))
    assert check.main(["--baseline", str(file)]) == 1
    assert "worse fuel grid n=5: nodes was" in capsys.readouterr().out


def test_baseline_speaks_of_what_is_checked():
    assert tuple(json.loads(check.BASELINE.read_text())) == check.WORKLOADS


@pytest.mark.parametrize("name", ["two resources n=4", "paths, 4 resources", "courier 30, gap 1%"])
def test_counts_of_nodes_are_reproducible(name):
    workload = workloads.find(name)
    first, again = (solvent.solve(workload.model, **workload.options).stats.nodes for _ in range(2))
    assert first == again > 10


def test_generated_paths_are_like_those_of_the_files():
    model = workloads.find("paths, 4 resources").model
    assert model.n_outcomes == model.n_rows  # no randomness
    found = solvent.solve(model)
    free = solvent.solve(model, dict.fromkeys(model.resources))
    assert found.status == free.status == "optimal"
    assert found.value < free.value  # the limits bind


def test_counts_of_calls_are_reproducible():
    model = instances.fuel_grid(4)
    solvent.solve(model)
    first, again = (check.python_calls(lambda: solvent.solve(model)) for _ in range(2))
    assert first == again > 10


def test_calls_of_other_packages_do_not_count():
    assert check.python_calls(lambda: json.dumps(json.loads("[1]"), indent=1)) == 0


def test_time_in_python_and_time_in_kernels_are_told_apart():
    model = instances.fuel_grid(8)

    def thrice():
        for _ in range(3):
            solvent.solve(model)

    def busy():
        solvent.solve(model)
        sum(range(300_000))

    def told_apart():
        once = work_ratios(lambda: solvent.solve(model), 15)
        both = all(1.7 < more / one < 5 for more, one in zip(work_ratios(thrice, 15), once, strict=True))
        python, kernels = work_ratios(busy, 15)
        return both and python > 2 * once[0] and kernels < 1.7 * once[1]

    assert any(told_apart() for _ in range(10))  # other load on the machine may disturb a measurement


def test_kernels_are_timed_only_while_asked():
    model = instances.fuel_grid(5)
    solvent.solve(model)
    with kernel_clock() as taken:
        total = cpu_time(lambda: solvent.solve(model))
    assert 0 < sum(taken) < total
    before = len(taken)
    solvent.solve(model)
    assert len(taken) == before


def test_evaluations_are_counted():
    # two rows of one outcome at each of three steps. 20 to 50 may be left at the last, where 30 or more are worth 120;
    # 40 or 50 at the one before, worth 120 and 220. So the rows of the first two steps read two points each.
    model = instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50)
    count = limit.count_evaluations(model)
    assert (count.way, count.width >= 1) == ("points", True)
    assert count.evaluations == 2 * 2 + 2 * 2 + 2


def test_evaluations_of_several_resources_are_outcomes_at_nodes():
    model = workloads.find("two resources n=4").model
    mdp = solvent.augment(model)
    count = limit.count_evaluations(model)
    assert (count.way, count.evaluations) == ("nodes", mdp.transitions.nnz)
    assert count.width == mdp.n_nodes // (model.horizon * model.n_states)


def test_evaluations_are_known_where_they_are_needed():
    assert set(limit.counts()) == set(limit.RATED) >= set(targets.SWEEPS)


@pytest.mark.slow
def test_growth_and_rates():
    lines = list(
        limit.growth([limit.Sweep("steps H", "1", (2, 4), lambda x: workloads.random_model(x, 3, 2, 2, 1, 5))], 0.0)
    )
    assert lines[0][:3] == ["steps H", "2 4", "1"]
    [rate] = limit.rates(["fuel grid n=10"], 0.0)
    assert rate.evaluations == limit.counts()["fuel grid n=10"].evaluations
    assert min(rate.plain, rate.generic, rate.solve) > 0
