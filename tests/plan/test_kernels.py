"""Kernels mean the same compiled and as plain Python, and need no folder to be cached in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import catalogue
import pytest
from test_methods import run

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
    for case in catalogue.CASES:
        for method in case.methods if case.name in NAMES else ():
            solution = run(method, case.model, case.budget)
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


def test_kernels_mean_the_same_without_compilation():
    code = ANSWER.format(paths=[str(PACKAGE.parent), str(TESTS), str(TESTS / "plan")])
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


SOLVE = """
import sys
sys.path.insert(0, {source!r})
import solvent
from solvent.model import instances
from solvent.plan import jit
from solvent.plan.solve import solve
assert solvent.__file__.startswith({source!r})
print(solve(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50), method="frontier"))
"""


def test_a_folder_that_cannot_be_written_is_survived(tmp_path):
    """No cache beside the source, none in the home folder, none where the variable says."""
    shutil.copytree(PACKAGE, tmp_path / "solvent", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [tmp_path / "solvent", *(tmp_path / "solvent").glob("*/")]:
        if folder.is_dir():
            # a file in place of the folder holds even against root, as permissions would not
            (folder / "__pycache__").write_text("")
    nowhere = "/dev/null/x"
    environment = {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "NUMBA_CACHE_DIR": nowhere, "PYTHONPATH": ""}
    solved = python(SOLVE.format(source=str(tmp_path)), **environment)
    assert solved.returncode == 0, solved.stderr
    assert solved.stdout.strip() == "Solution(optimal, value 220, worst spent weight 50, frontier)"
    assert not list(tmp_path.rglob("*.nbi"))


PARALLEL = """
import os, sys
sys.path.insert(0, {source!r})
from solvent.model import instances
from solvent.plan import kernels, reduction
from solvent.plan.solve import solve
reduction.PARALLEL_FROM = {threshold}
solve(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50), method="reduction")
chosen = kernels.{kernel}
(signature,) = chosen.signatures
print("parallel" if "numba_parfor" in str(chosen.inspect_llvm(signature)) else "serial")
"""
