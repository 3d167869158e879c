"""SIGINT and SIGTERM at any moment: a quick and clean end, and a correct list of the files written."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from shell import ROOT

import solvent
from effort import everything, first, slow_after, some
from solvent.model import instances

#: Seconds from a signal to the end of the process, usually and at most; other processes may slow it down.
SOON = 5.0
LATE = 30.0
#: Number of moments at which each command is interrupted in the slow tests; MOMENTS=20 tries more.
MOMENTS = int(os.environ.get("MOMENTS", "2" if everything else "1"))
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def pairs() -> solvent.CMDP:
    """Return a model of two resources whose reduction takes some seconds."""
    rng = np.random.default_rng(1)
    b = solvent.CMDP.builder(horizon=60, start=0, resources=["a", "b"], budget={"a": 1200, "b": 1200})
    for state in range(30):
        for action in range(3):
            outcomes = [
                (0.25, int(rng.integers(30)), {"a": int(rng.integers(40)), "b": int(rng.integers(40))})
                for _ in range(4)
            ]
            b.add(state, action, reward=float(rng.random()), outcomes=outcomes)
        b.add(state, "rest", outcomes=[(1, state, 0)])
    return b.build()


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of problems that take seconds to solve."""
    folder = tmp_path_factory.mktemp("signals")
    pairs().save(folder / "pairs.npz")
    instances.fuel_grid(12, horizon=300, tank=3000).save(folder / "grid.npz")
    instances.fuel_grid(16, horizon=90, tank=60).save(folder / "field.npz")
    instances.paper(2000, seed=1, budget=500, digits=6).save(folder / "paper.npz")
    small = instances.fuel_grid(12, horizon=60, tank=100)
    small.save(folder / "small.npz")
    solvent.solve(small).policy.save(folder / "small.policy")
    return folder


#: How Python prints an interrupt that it cannot raise.
IGNORED = re.compile(
    r"Exception ignored in: .*\nTraceback \(most recent call last\):\n(?:  .*\n)*KeyboardInterrupt: *\n"
)
#: Commands; the first ones cover what differs most.
LINES = {
    "frontier": "frontier grid.npz --csv out.csv",
    "reduction": "solve pairs.npz --method reduction --out out.policy",
    "gap": "solve pairs.npz --gap 0.000001 --out out.policy",
    "compare": "compare field.npz",
    "learn": "learn field.npz --epsilon 0.001 --max-episodes 100000000 --out out.policy --checkpoint out.ckpt",
    "verify": "verify small.npz small.policy",
    "arrays": "solve grid.npz --method frontier --out out.policy",
    "points": "solve paper.npz --method frontier",
    "grid": "solve grid.npz --method reduction --plot out.png",
    "labels": "solve paper.npz --method labels",
    "additive": "solve paper.npz --approximation additive --epsilon 0.0001",
    "relative": "solve pairs.npz --approximation relative --epsilon 0.001",
    "gap by rounds": "solve paper.npz --gap 0.0000001 --out out.policy",
    "learn support": "learn field.npz --epsilon 0.001 --support learned --max-episodes 100000000 --log out.csv",
    "simulate": "simulate small.npz small.policy --episodes 2000000 --plot out.png",
    "paper": "paper --quick --fresh --out figures",
    "paper here": "paper --quick --fresh --out figures --jobs 1",
}


@dataclass(frozen=True)
class End:
    """How a run ended, and how long after the signal."""

    code: int
    out: str
    err: str
    seconds: float


def wait_until_begun(process: subprocess.Popen[str]) -> None:
    """Wait until a command handles SIGTERM, or has ended: before, it is Python that starts."""
    status = Path(f"/proc/{process.pid}/status")
    until = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        caught = re.search(r"SigCgt:\s+(\w+)", status.read_text())
        if caught and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.02)


def interrupt(line: str, folder: Path, number: signal.Signals, moment: float, again: float | None = None) -> End | None:
    """Run a command, send it a signal some seconds after it has begun, and return how it ended.

    Return None if it had ended before.
    """
    setting = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": str(folder)}
    with subprocess.Popen(
        [sys.executable, "-m", "solvent", *line.split(), "--json"], cwd=folder, env=setting, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        wait_until_begun(process)
        time.sleep(moment)
        if process.poll() is not None:
            return None
        process.send_signal(number)
        began = time.perf_counter()
        if again is not None:
            time.sleep(again)
            process.send_signal(number)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        return End(process.returncode, out, err, time.perf_counter() - began)


def check(end: End, folder: Path, number: signal.Signals) -> None:
    assert "Traceback" not in end.err
    assert "internal error" not in end.err
    # 1 if the result was found before the signal
    assert end.code in (CODES[number], 0, 1), f"{end.code}: {end.err}"
    record = json.loads(end.out)
    if end.code == CODES[number]:
        assert record["interrupted"] is True
        assert record.get("exit_code", end.code) == end.code
        assert "interrupted" in end.err
    written = {Path(file["path"]).name for file in record.get("written", {}).values()}
    there = {path.name for path in folder.iterdir() if path.name.startswith("out.")}
    assert written == there
    assert not list(folder.glob(".solvent-*"))


def try_out(line: str, folder: Path, number: signal.Signals, moment: float) -> float:
    """Interrupt a command, check how it ends, and return the seconds until its end."""
    for path in folder.glob("out.*"):
        path.unlink()
    end = interrupt(line, folder, number, moment)
    if end is None:
        return 0.0
    check(end, folder, number)
    return end.seconds


@pytest.mark.parametrize(
    ("name", "number", "moment"),
    slow_after(
        1, [("gap by rounds", signal.SIGTERM, 2.0), ("frontier", signal.SIGINT, 1.5), ("compare", signal.SIGINT, 2.0)]
    ),
)
def test_a_signal_ends_a_command_soon(name: str, number: signal.Signals, moment: float, work: Path) -> None:
    assert try_out(LINES[name], work, number, moment) < LATE


@pytest.mark.slow
@pytest.mark.parametrize("name", first(6, LINES))
def test_signals_at_any_moment(name: str, work: Path) -> None:
    rng = random.Random(name)
    took = [
        try_out(LINES[name], work, rng.choice([signal.SIGINT, signal.SIGTERM]), rng.uniform(0.0, 4.5))
        for _ in range(MOMENTS)
    ]
    assert min(took) < SOON
    assert max(took) < LATE


@pytest.mark.parametrize("number", CODES)
def test_a_signal_while_a_command_begins_or_ends(number: signal.Signals, work: Path) -> None:
    # a short command: some of the moments are before it begins and some after its result is printed
    for moment in np.linspace(0.0, 0.7, some(40)):
        try_out("info small.npz", work, number, float(moment))


#: The program, with a signal before the command begins and where Python discards exceptions.
DISCARDED = """
import signal, sys
from solvent import cli

class Finalized:
    def __del__(self):
        signal.raise_signal({number})

def check(*_):
    Finalized()

cli.require_address_space = check
sys.argv = ["solvent", "info", "small.npz", "--json"]
sys.exit(cli.main())
"""


@pytest.mark.parametrize("number", CODES)
def test_a_signal_is_not_lost_where_exceptions_are_discarded(number: signal.Signals, work: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", DISCARDED.format(number=int(number))], cwd=work, text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == CODES[number]
    check(End(ran.returncode, ran.stdout, ran.stderr, 0.0), work, number)
    assert ran.stderr == "interrupted\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["frontier", "reduction", "compare", "learn"])
def test_a_second_signal_ends_a_command_too(name: str, work: Path) -> None:
    for path in work.glob("out.*"):
        path.unlink()
    for moment in (1.0, 2.5):
        end = interrupt(LINES[name], work, signal.SIGINT, moment, again=0.01)
        assert end is None or end.code in (130, 0), end
        # Python itself prints an interrupt that is raised in a callback of its own
        assert end is None or "Traceback" not in IGNORED.sub("", end.err)
