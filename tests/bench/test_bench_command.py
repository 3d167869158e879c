"""The command line of benchmarks that keep records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.training.command import Command
from bench.training.run import ROOT


def test_both_commands_share_their_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command("things", "what it does", "things.md", "days", "tasks", ("task",))
    jobs = [{"task": "a", "seed": 1}, {"task": "b", "seed": 1}]
    ran: list[Any] = []

    def run(*arguments: str, stop: bool = False) -> Any:
        def run_all(chosen: Any, records: Any, workers: int, report: Any) -> None:
            ran.append(([job["task"] for job in chosen], workers))
            if stop:
                raise KeyboardInterrupt

        monkeypatch.setattr("sys.argv", ["things", "--records", str(tmp_path / "things.jsonl"), *arguments])
        return command.run(command.read(), "quick", jobs, run_all, print)

    assert run("--workers", "3") == []
    assert run("--only", "b") == []
    assert run("--render") == []
    assert ran == [(["a", "b"], 3), (["b"], 2)]
    assert run(stop=True) is None
    assert "the same command continues" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="--only: expected tasks, found c"):
        run("--only", "c")


def test_records_of_full_runs_may_be_published(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command("things", "what it does", "things.md", "days", "tasks", ("task",), ROOT / "bench" / "x.jsonl")
    monkeypatch.setattr("sys.argv", ["things", "--help"])
    with pytest.raises(SystemExit):
        command.read()
    assert "bench/x.jsonl or out/bench/things-quick.jsonl" in " ".join(capsys.readouterr().out.split())
