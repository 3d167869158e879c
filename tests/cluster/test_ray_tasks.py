"""Tasks on the engine "ray": the same results as in this process."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from experiments.measures import Case, Measured, measure
from solvent.cli import main
from solvent.core import engines
from solvent.core.engines import RayEngine, open_engine
from solvent.core.threads import thread_count
from solvent.errors import BudgetError, LimitError, ModelError, SolventError
from solvent.experiments.runs import Study, run
from solvent.model import instances
from solvent.verification import simulate as simulation

ray = pytest.importorskip("ray")

# Ray leaves files and processes to be collected
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

MODEL = instances.markov_gap(prize=10)
BOLD = solvent.MarkovPolicy(MODEL, [[0], [1]])


def test_tasks_run_on_every_node_with_one_thread_each(engine: RayEngine, tmp_path: Path) -> None:
    def where(_: int) -> tuple[str, int]:
        node = ray.get_runtime_context().get_node_id()
        (tmp_path / node).touch()
        until = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:  # for a task on the other node
            time.sleep(0.05)
        return node, thread_count()

    assert engine.workers == 2
    found = dict(engine.map(where, range(8)))
    assert sorted(found) == list(range(8))
    assert len({node for node, _ in found.values()}) == 2
    assert {threads for _, threads in found.values()} == {1}
    assert engine.call(lambda: 6 * 7) == 42


def test_workers_prepare_once_and_get_arrays_that_can_be_written_to(engine: RayEngine, tmp_path: Path) -> None:
    shared = np.arange(100_000)

    def prepare() -> None:
        (tmp_path / f"{os.getpid()}-{time.time_ns()}").touch()

    def add(item: np.ndarray) -> np.ndarray:
        shared[0] += 1
        item += shared[1]
        return item

    found = dict(engine.map(add, (np.full(50_000, i) for i in range(20)), prepare))
    assert [int(found[i][0]) for i in range(20)] == list(range(1, 21))
    assert all(each.flags.writeable for each in found.values())
    workers = [path.name.partition("-")[0] for path in tmp_path.iterdir()]
    assert len(workers) == len(set(workers))
    assert shared[0] == 0


def test_jobs_limit_how_many_tasks_run_at_the_same_time(engine: RayEngine) -> None:
    def interval(_: int) -> tuple[float, float]:
        began = time.time()
        time.sleep(0.1)
        return began, time.time()

    times = sorted(each for _, each in engine.map(interval, range(6), jobs=1))
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times))


def test_the_error_of_the_first_item_is_raised_after_the_results_before_it(engine: RayEngine) -> None:
    def fail(number: int) -> int:
        time.sleep(0.5 if number == 2 else 0)
        if number in (2, 4, 5):
            raise BudgetError(f"number {number}", "another", "this")
        return number

    found: dict[int, int] = {}
    with pytest.raises(BudgetError, match=r"^number 2: expected another, found this$") as caught:
        found.update(engine.map(fail, range(1000)))
    assert set(found) >= {0, 1}
    assert "in fail" in str(caught.value.__cause__)


def test_errors_and_objects_that_cannot_be_pickled_have_a_message(engine: RayEngine) -> None:
    class LockedError(Exception):
        def __init__(self) -> None:
            super().__init__("locked")
            self.lock = threading.Lock()

    def fail(_: int) -> None:
        raise LockedError

    with pytest.raises(SolventError, match="LockedError: locked"):
        list(engine.map(fail, range(2)))
    with pytest.raises(SolventError, match="expected objects that can be pickled, found cannot pickle"):
        list(engine.map(len, [threading.Lock()]))


def kill_once(marker: Path, number: int) -> int:
    if number == 3 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return number**2


def test_a_killed_worker_is_replaced(engine: RayEngine, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = dict(engine.map(partial(kill_once, tmp_path / "killed"), range(12)))
    assert found == {number: number**2 for number in range(12)}
    assert (tmp_path / "killed").exists()
    assert capfd.readouterr().out == ""


def test_a_task_that_kills_every_worker_ends_with_an_error(engine: RayEngine) -> None:
    with pytest.raises(SolventError, match="engine='ray': a task was lost 4 times, the last time: The worker died"):
        list(engine.map(lambda _: os.kill(os.getpid(), signal.SIGKILL), range(1)))


@pytest.mark.nightly
def test_a_lost_node_changes_nothing(cluster: Any, engine: RayEngine) -> None:
    node = cluster.add_node(num_cpus=1)
    while engine.workers < 3:
        time.sleep(0.1)

    def slow(number: int) -> int:
        time.sleep(0.2)
        return -number

    found = {}
    for index, result in engine.map(slow, range(30)):
        found[index] = result
        if len(found) == 6:
            cluster.remove_node(node, allow_graceful=False)
    assert found == {number: -number for number in range(30)}


def test_ctrl_c_ends_tasks(engine: RayEngine) -> None:
    assert len(list(engine.map(abs, range(6)))) == 6  # workers have started
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    hard = [instances.paper(400, seed=seed, budget=3) for seed in range(4)]
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        solvent.solve_many(hard, method="reduction", engine="ray")
    assert len(list(engine.map(abs, range(6)))) == 6  # no worker is busy with what was ended
    assert time.perf_counter() - began < 20


def test_solve_many(remote: dict[str, str]) -> None:
    models = [instances.paper(12, seed=seed, budget=3) for seed in range(40)]
    here, there = solvent.solve_many(models), solvent.solve_many(models, **remote)
    for mine, yours, model in zip(here, there, models, strict=True):
        assert (mine.status, mine.value, mine.value_lower, mine.value_upper, mine.worst_spent) == (
            yours.status, yours.value, yours.value_lower, yours.value_upper, yours.worst_spent,
        )  # fmt: skip
        assert yours.policy.model is model
        assert solvent.verify(model, yours) == solvent.verify(model, mine)


def test_solve_many_with_one_model(engine: RayEngine) -> None:
    sack = instances.knapsack([60, 100, 120], [10, 20, 30])
    calls: list[tuple[int, int]] = []
    found = solvent.solve_many(
        sack, [10, 30, 50], engine="ray", jobs=1, progress=lambda phase, done, total, facts: calls.append((done, total))
    )
    assert [solution.value for solution in found] == [60.0, 160.0, 220.0]
    assert all(solution.policy.model is sack for solution in found)
    assert calls[-1] == (3, 3)
    assert solvent.solve_many([], engine="ray") == []
    with pytest.raises(BudgetError, match=r"^budgets\[1\]: "):
        solvent.solve_many(sack, [10, "much", 50, "more"], engine="ray")


def test_learn_seeds(remote: dict[str, str]) -> None:
    gap = instances.markov_gap()
    here = solvent.learn_seeds(gap, range(4), epsilon=0.5)
    there = solvent.learn_seeds(gap, range(4), epsilon=0.5, jobs=2, **remote)
    for mine, yours in zip(here, there, strict=True):
        assert mine.history == yours.history
        np.testing.assert_array_equal(mine.returns, yours.returns)
        assert mine.policy == yours.policy
    with pytest.raises(ModelError, match=r"^seeds\[0\]: epsilon: "):
        solvent.learn_seeds(gap, range(4), epsilon=-1, **remote)


def test_simulate(remote: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "_BATCH", 1000)
    van = solvent.examples.load("delivery-van")
    policy = solvent.solve(van).policy
    here = solvent.simulate(van, policy, 12_345, seed=4)
    there = solvent.simulate(van, policy, 12_345, seed=4, **remote)
    np.testing.assert_array_equal(here.rewards, there.rewards)
    assert (here.violations, here.max_spent) == (there.violations, there.max_spent)
    for name, distributions in here.distributions.items():
        for mine, yours in zip(distributions, there.distributions[name], strict=True):
            np.testing.assert_array_equal(mine.values, yours.values)
            np.testing.assert_array_equal(mine.counts, yours.counts)
    assert there.rewards.flags.writeable


def test_limits_and_lost_workers_of_a_simulation(engine: RayEngine, tmp_path: Path) -> None:
    marker = tmp_path / "killed"

    def policy(step: int, state: object, spent: object) -> int:
        if step == 1 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return int(step)

    there = solvent.simulate(MODEL, policy, 300_000, seed=4, engine="ray")
    assert marker.exists()
    np.testing.assert_array_equal(there.rewards, solvent.simulate(MODEL, policy, 300_000, seed=4).rewards)
    with pytest.raises(LimitError, match=r"^simulate stopped: the time limit of 1e-09 s was reached"):
        solvent.simulate(MODEL, BOLD, 300_000, time_limit=1e-9, engine="ray")
    some = solvent.simulate(MODEL, BOLD, 10**9, seed=4, time_limit=2, engine="ray")
    assert some.stopped == "the time limit of 2 s was reached"
    assert some.episodes % 2**17 == 0
    np.testing.assert_array_equal(some.rewards, solvent.simulate(MODEL, BOLD, some.episodes, seed=4).rewards)


def test_verify(remote: dict[str, str]) -> None:
    assert solvent.verify(MODEL, BOLD, **remote) == solvent.verify(MODEL, BOLD)


def test_compare(remote: dict[str, str]) -> None:
    here, there = solvent.compare(MODEL), solvent.compare(MODEL, **remote)
    assert [replace(row, seconds=0) for row in here.rows] == [replace(row, seconds=0) for row in there.rows]
    late = solvent.compare(MODEL, methods=["exact", "expectation"], time_limit=1e-9, **remote)
    assert [row.status for row in late.rows] == ["limit", "limit"]
    assert {row.message for row in late.rows} == {"not finished: the time limit of 1e-09 s was reached"}


def test_solve_and_frontier(engine: RayEngine) -> None:
    here, there = solvent.solve(MODEL), solvent.solve(MODEL, engine="ray")
    assert (here.value, here.value_upper, here.worst_spent) == (there.value, there.value_upper, there.worst_spent)
    curve = solvent.frontier(MODEL, engine="ray")
    assert curve.budgets == solvent.frontier(MODEL).budgets


def test_the_size_of_a_tank(engine: RayEngine) -> None:
    van = solvent.examples.load("delivery-van")
    here, there = solvent.frontier(van, "fuel"), solvent.frontier(van, "fuel", engine="ray")
    assert here.budgets == there.budgets
    np.testing.assert_array_equal(here.values, there.values)
    assert here.error == there.error
    with pytest.raises(LimitError, match=r"the curve was not finished: the time limit of 0\.05 s was reached"):
        solvent.frontier(van, "fuel", time_limit=0.05, engine="ray")


def test_measurements(remote: dict[str, str], tmp_path: Path) -> None:
    cases = tuple(Case(size) for size in range(9))
    here = run(Study("sums", cases, measure, Measured), tmp_path / "here")
    assert run(Study("sums", cases, measure, Measured), tmp_path / "there", None, **remote) == here
    broken = Study("sums", (*cases, Case(9, kind="broken")), measure, Measured)
    with pytest.raises(ArithmeticError, match="cannot add this up") as caught:
        run(broken, tmp_path / "there", 2, **remote)
    assert "while measuring Case(size=9" in caught.value.__notes__[0]


def test_commands(van: Path, cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def record(line: str, code: int = 0) -> Any:
        assert main([*line.split(), "--json"]) == code
        printed = capsys.readouterr()
        assert printed.err == ""
        return json.loads(re.sub(r'"seconds": [\d.e-]+', '"seconds": 0', printed.out))

    remote = f"--engine ray --address {cluster.address}"
    followed = "delivery-van.yaml van.policy"
    for line in ("solve delivery-van.yaml", f"simulate {followed}", f"verify {followed}", "frontier delivery-van.yaml"):
        assert record(f"{line} {remote}") == record(line)
    made = record(f"paper precision --quick --jobs 2 --out figures {remote}")
    assert made["figures"][0]["rows"] > 0


def test_a_connection_of_the_user_is_kept(cluster: Any) -> None:
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        name = ray.get_runtime_context().get_job_id()
        assert solvent.verify(MODEL, BOLD, engine="ray") == solvent.verify(MODEL, BOLD)
        for address in ("auto", cluster.address):
            with open_engine("ray", address) as opened:
                assert opened.call(lambda: 1) == 1
        with (
            pytest.raises(ModelError, match="address: expected that of the cluster this process is connected to"),
            open_engine("ray", "192.0.2.9:6379"),
        ):
            pass
        assert ray.get_runtime_context().get_job_id() == name
    finally:
        ray.shutdown()


def test_a_local_instance_is_started_and_ends(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    handler = signal.getsignal(signal.SIGTERM)
    variables = {name for name in os.environ if name.startswith("RAY_")}
    with open_engine("ray") as opened:
        assert isinstance(opened, RayEngine)
        assert ray.get_runtime_context().gcs_address != cluster.address
        assert signal.getsignal(signal.SIGTERM) is handler
        assert opened.call(lambda: 1) == 1
    assert not ray.is_initialized()
    assert signal.getsignal(signal.SIGTERM) is handler
    assert {name for name in os.environ if name.startswith("RAY_")} == variables
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_the_address_in_the_environment_is_used(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    with open_engine("ray"):
        assert ray.get_runtime_context().gcs_address == cluster.address


@pytest.mark.parametrize("protocol", ["", "ray://"])
def test_without_a_cluster_at_the_address_there_is_a_message(protocol: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nothing listens here
        address = f"{protocol}127.0.0.1:{taken.getsockname()[1]}"
        message = f"engine='ray': no Ray cluster found at '{address}': .*refused"
        with pytest.raises(SolventError, match=message), open_engine("ray", address):
            pass


def test_workers_with_another_version_are_refused(engine: RayEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "__version__", "0.0.1")
    with pytest.raises(SolventError, match=r"expected Solvent 0\.0\.1 on all machines, found "):
        engine.call(lambda: 1)
