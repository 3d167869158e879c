"""What all tests share: where helpers are found, how long Hypothesis may take, and a terminal to type commands in."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, configuration, settings

sys.path.insert(0, str(Path(__file__).parent))

# where compiled kernels are found, also by tests that run a command in a home folder of its own
os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))

import effort  # found in this folder
from clusters import cluster, engine, remote  # noqa: F401  # fixtures
from solvent import examples

# a shell starts background jobs with Ctrl-C ignored, and tests of interrupts need Python's own handler
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
#: File to which the outcome of each test is added, for `.ci/stages.py`.
_outcomes: Path | None = None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that `make nightly` uses."""
    parser.addoption("--everything", action="store_true", help="draw all random problems instead of a share of them")


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many random problems are drawn, and where Hypothesis and the outcomes of tests are stored."""
    global _outcomes
    gc.disable()  # collecting tests makes many objects, all of which stay
    effort.everything = config.option.everything
    # beside the packages, as the checkout may be read-only
    stored = Path(sys.prefix) if os.access(sys.prefix, os.W_OK) else Path(tempfile.gettempdir())
    configuration.set_hypothesis_home_dir(stored / ".hypothesis")
    settings.register_profile("default", deadline=None, suppress_health_check=_QUIET, max_examples=effort.some(100))
    settings.register_profile("hunt", parent=settings.get_profile("default"), max_examples=5000)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
    if "SOLVENT_OUTCOMES" in os.environ and not hasattr(config, "workerinput"):  # not in a worker of pytest-xdist
        _outcomes = Path(os.environ["SOLVENT_OUTCOMES"]) / f"{os.getpid()}.jsonl"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record that a test has run, also if it failed as expected, or the reason why it was skipped."""
    if report.when == "call" or report.skipped:
        _record(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Record why a file of tests was skipped."""
    if report.skipped:
        _record(report)


def _record(report: pytest.TestReport | pytest.CollectReport) -> None:
    if _outcomes is None:
        return
    skipped = report.skipped and not hasattr(report, "wasxfail")
    reason = report.longrepr[2].removeprefix("Skipped: ") if skipped else None
    with _outcomes.open("a", encoding="utf-8") as file:
        file.write(json.dumps([report.nodeid, reason]) + "\n")


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over tests and modules, which it would visit again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # most of what tests make is freed without it
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need packages of extras."""
    for item in items:
        function = getattr(item, "function", None)
        if function is not None and effort.skips_without_a_package(function):
            item.add_marker(pytest.mark.extras)


@pytest.fixture
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 100 columns without colors."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def folder(plain_terminal: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with all example models in it."""
    for name in examples.names():
        shutil.copy(examples.path(name), tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def van(folder: Path) -> Path:
    """The same folder with a policy for the van's own tank."""
    from solvent.cli import main

    assert main(["solve", "delivery-van.yaml", "--out", "van.policy", "--json"]) == 0
    return folder
