"""Kernels mean the same compiled and as plain Python, and need no folder to be cached in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_methods import run

import catalog
import solvent

TESTS = Path(__file__).parents[1]
PACKAGE = Path(solvent.__file__).parent
#: Small problems that between them reach every kernel: grids and hashes, points and arrays, ends and dead ends.
NAMES = [
    "knapsack-p02", "partition-yes", "partition-no", "markov-gap", "trap", "three-tenths", "no-resources", "ended",
    "relapse", "chain", "covering-deep", "shrinking-late", "shrinking-floor", "shrinking-interval", "gloom",
    "gloom-driven", "doubles-2-1.5", "doubles-0-1.5", "two-stores-intervals-8", "fuel-grid-3", "huge",
]  # fmt: skip

ANSWER = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = {paths!r}
from test_kernels import answers
print(json.dumps(answers()))
"""


def answers():
    """Return what every method says of every problem, down to the last bit."""
    found = {}
    for case in catalog.CASES:
        for method in case.methods if case.name in NAMES else ():
            solution = run(method, case.model, case.budget, case.spent)
            facts = {"status": solution.status.value, "value": repr(solution.value)}
            facts["sizes"] = list(solution.stats.layer_sizes)
            if solution.status == "optimal":
                facts["worst"] = {name: str(spent) for name, spent in solution.worst_spent.items()}
                facts["decisions"] = [repr(decision) for decision in solution.policy]
            found[f"{case.name}, {method}"] = facts
    return found


def python(code, **environment):
    """Run code in a process of its own and return what it prints."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
def test_kernels_mean_the_same_without_compilation():
    code = ANSWER.format(paths=[str(PACKAGE.parent), str(TESTS), str(TESTS / "solvers")])
    plain = python(code, NUMBA_DISABLE_JIT="1")
    assert plain.returncode == 0, plain.stderr
    expected = answers()
    assert len(expected) > 60
    found = json.loads(plain.stdout)
    assert found.keys() == expected.keys()
    for name, facts in expected.items():
        value = found[name].pop("value")
        assert float(value) == pytest.approx(float(facts.pop("value")), rel=1e-12), name
        assert found[name] == facts, name


SATURATED = """
import solvent
b = solvent.CMDP.builder(horizon=3, start=0, resources=[solvent.Resource("r", floor=5 * 10**12)])
b.add(0, "go", reward=1, outcomes=[(0.5, 0, -1), (0.5, 0, 10**12 + 1)])
b.add(0, "no", outcomes=[(1, 0, -3)])
limit = solvent.Budget(upper=[9 * 10**12, 8 * 10**12, 7 * 10**12])
print(solvent.solve(b.build(), limit, spent=5 * 10**12, method="frontier").value)
"""


def test_large_floors_without_compilation():
    """What is left of a limit by step may be a negative number of ticks, and is a Python integer if it saturates."""
    plain = python(SATURATED, NUMBA_DISABLE_JIT="1", PYTHONPATH=str(PACKAGE.parent))
    assert plain.stdout == "2.25\n", plain.stderr


PROBE = """
from solvent.core.jit import jit

@jit
def double(x):
    return 2 * x
"""

IMPORT = """
import importlib, pkgutil, sys
sys.path.insert(0, {source!r})
from solvent import solvers
assert solvers.__file__.startswith({source!r})
for module in pkgutil.walk_packages(solvers.__path__, "solvent.solvers."):
    importlib.import_module(module.name)
from solvent.solvers import probe
print(probe.double(21), probe.double.signatures)
"""


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_survived(tmp_path):
    """No cache in the home folder, none where the variable says."""
    shutil.copytree(PACKAGE, tmp_path / "solvent", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "solvent" / "solvers" / "probe.py").write_text(PROBE)
    nowhere = "/dev/null/x"  # even root cannot make a folder there
    environment = {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "NUMBA_CACHE_DIR": nowhere, "PYTHONPATH": ""}
    solved = python(IMPORT.format(source=str(tmp_path)), **environment)
    assert solved.returncode == 0, solved.stderr
    assert solved.stdout.strip() == "42 [(int64,)]"
    assert not list(tmp_path.rglob("*.kernel"))


@pytest.mark.slow
def test_kernels_are_cached_where_there_is_a_place(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "solvent", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "solvent" / "solvers" / "probe.py").write_text(PROBE)
    solved = python(IMPORT.format(source=str(tmp_path)), PYTHONPATH="", NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert solved.returncode == 0, solved.stderr
    assert solved.stdout.startswith("42 ")
    assert len(list((tmp_path / "cache" / "solvent").glob("*.kernel"))) == 1
