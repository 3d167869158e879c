"""After `warmup`, nothing is left to compile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import solvent

ROOT = Path(solvent.__file__).parents[2]
#: What users do: every method, the examples, learning, checks.
CALLS = """
import json, sys, warnings
from pathlib import Path
import numpy as np
import solvent
from solvent import instances
from solvent.core.jit import KERNELS, compiled_kernels
from solvent.warmup import warmup

done = warmup()
before = len(compiled_kernels())
for name in solvent.examples.names():
    model = solvent.examples.load(name)
    if name != "campaign":  # continuous costs
        solution = solvent.solve(model)
        solvent.verify(model, solution.policy)
        solvent.simulate(model, solution.policy, episodes=100)
        solvent.solve(model, method="reduction")
    solvent.solve(model, approximation="additive", epsilon=1)
    solvent.solve(model, gap=0.05, time_limit=2)
grid = instances.fuel_grid(4)
two = instances.random(5, 3, horizon=6, resources=2, budget=8, seed=1)
uneven = instances.random(5, 3, horizon=6, budget=8, stationary=False, seed=1)
for model in (grid, two, uneven):
    solvent.augment(model)
    solvent.solve(model, gap=0.01)
    solvent.solve(model, method="reduction", prune=False)
    solvent.solve(model, approximation="relative", epsilon=0.3, strict=True)
    solvent.learn(model, epsilon=1, reward_range=(-100, 100), max_episodes=50, seed=1)
    solvent.learn(model, epsilon=1, reward_range=(-100, 100), max_episodes=50, cost_support="learned")
    solvent.learn(model, epsilon=1, reward_range=(-100, 100), max_episodes=5, pool=False, replan="episode")
solvent.frontier(grid, max_budget=20)
crowd = solvent.CMDP.builder(horizon=12, start="here", resources=["money"], budget=2500)
for cost in range(300):
    crowd.add("here", cost, reward=cost + cost % 7, outcomes=[(0.5, "here", cost), (0.5, "here", cost - 1)])
solvent.solve(crowd.build(), method="frontier")
solvent.frontier(two, ["r0", "r1"])
solvent.compare(grid)
solvent.solve(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50))
solvent.solve(instances.paper(20, seed=1, budget=3))
solvent.solve(instances.paper(16, seed=1, budget=6), method="reduction", prune=False)
solvent.solve(instances.partition([3, 1, 1]))
solvent.frontier(instances.negative_knapsack([3, 1, 2]), max_budget=3)
b = solvent.CMDP.builder(horizon=None, discount="1/2", start="home", resources=["fuel"], budget=3)
b.add("home", "go", reward=1, outcomes=[(1, "home", 2)])
b.add("home", "rest", outcomes=[(1, "home")])
solvent.solve(b.build(), epsilon=0.25, strict=True)
solvent.survival_levels(b.build(), capacity=5, reload=["home"])
solvent.reach_levels(grid, grid.states[:1], capacity=5)
charging = solvent.CMDP.builder(horizon=1, start="home", resources=["fuel"])
charging.add("home", "charge", outcomes=[(0.5, "home", -2), (0.5, "work", 1)])
charging.add("work", "back", outcomes=[(1, "home", 2)])
for model in (charging.build(), b.build()):
    solvent.reload_levels(model, capacity=5, reload=["home"])
    solvent.reach_levels(model, ["home"], capacity=5)
names = [f"{{kernel.py_func.__module__}}.{{kernel.py_func.__name__}}" for kernel in compiled_kernels()[before:]]
modules = [name for name in sys.modules if name.startswith("solvent.") and name.endswith("kernels")]
print(json.dumps({{"more": names, "kernels": done.kernels, "compiled": done.compiled, "modules": len(modules)}}))
"""


@pytest.mark.slow
def test_nothing_is_left_to_compile() -> None:
    setting = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    code = CALLS.format()
    done = subprocess.run([sys.executable, "-c", code], env=setting, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["more"] == []
    assert found["kernels"] > 40
    assert found["modules"] == len(list((ROOT / "src" / "solvent").rglob("*kernels.py")))


def test_the_command_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    from solvent.cli import main
    from solvent.warmup import warmup

    warmup()
    assert main(["warmup"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("all ")
    assert " kernels are already compiled (checked in " in said.out
    assert main(["warmup", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["compiled"], facts["kernels"] > 40) == (0, True)
    assert said.err == ""


def test_the_command_says_that_there_is_nothing_to_compile() -> None:
    setting = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NUMBA_DISABLE_JIT": "1"}
    code = "from solvent.cli import main; main(['warmup']); main(['warmup', '--json'])"
    done = subprocess.run([sys.executable, "-c", code], env=setting, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    said, _, facts = done.stdout.partition("\n")
    assert said == "nothing to compile: NUMBA_DISABLE_JIT is set"
    assert (json.loads(facts)["compiled"], json.loads(facts)["kernels"]) == (0, 0)


@pytest.mark.slow
def test_the_second_process_does_every_task() -> None:
    from solvent.warmup import _helper, warmup

    warmup()
    helper = _helper()
    if helper is None:
        assert os.cpu_count() == 1
        return
    out, _ = helper.communicate()
    assert (helper.returncode, out.split()) == (0, [])  # and all was in the cache


@pytest.mark.nightly
@pytest.mark.parametrize("executable", [sys.executable, "/bin/false"])
def test_an_empty_cache_is_filled(executable: str, tmp_path: Path) -> None:
    code = f"import sys; sys.executable = {executable!r}; from solvent.warmup import warmup; print(warmup().compiled)"
    setting = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NUMBA_CACHE_DIR": str(tmp_path)}
    compiled = [
        int(subprocess.run([sys.executable, "-c", code], env=setting, capture_output=True, check=True).stdout)
        for _ in range(2)
    ]
    assert compiled[0] > 40
    assert compiled[1] == 0
