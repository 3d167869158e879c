"""Exported policies decide as the policy does: the C file is compiled, and the JSON file has a reader of its own."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from solvent.errors import PolicyError
from solvent.model import instances
from solvent.policy.nodes import NO_NODE
from tests.effort import seeds

COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
EXAMPLES = Path(solvent.examples.__file__).parent
NO_DECISION, BAD_ARGUMENT, OVER_LIMIT = -1, -2, -3


class Account(ctypes.Structure):
    """The account of a policy with up to eight resources; the C structure is a prefix of it."""

    _fields_ = [("step", ctypes.c_int32), ("state", ctypes.c_int32), ("spent", ctypes.c_int64 * 8)]


class Compiled:
    """A compiled policy."""

    def __init__(self, policy: solvent.AugmentedPolicy, folder: Path) -> None:
        source = folder / "van.c"
        policy.export(source)
        assert COMPILER is not None
        flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", "-shared", "-fPIC"]
        target = folder / f"van{len(list(folder.glob('*.so')))}.so"  # a library is loaded only once by a name
        subprocess.run([COMPILER, *flags, str(source), "-o", str(target)], check=True)
        self.library = ctypes.CDLL(str(target))
        self.account, self.policy = Account(), policy

    def begin(self, state: int) -> int:
        return int(self.library.van_begin(ctypes.byref(self.account), state))

    def act(self) -> int:
        return int(self.library.van_act(ctypes.byref(self.account)))

    def observe(self, state: int, ticks: list[int]) -> int:
        costs = (ctypes.c_int64 * max(1, len(ticks)))(*ticks)
        return int(self.library.van_observe(ctypes.byref(self.account), state, costs))


class Reader:
    """Decides with an exported JSON file; written from its description only."""

    def __init__(self, policy: solvent.AugmentedPolicy, folder: Path) -> None:
        policy.export(folder / "van.json")
        self.document = json.loads((folder / "van.json").read_text())

    def act(self, step: int, state: int, spent: list[int]) -> int:
        groups = [group for group in self.document["steps"][step] if group["state"] == state]
        if not groups:
            return NO_DECISION
        [group] = groups
        keys: list[int | None] = list(spent)
        for d, ends in enumerate(group["settled"] or []):
            if ends and (ends[0] is None or ends[0] <= spent[d]) and (ends[1] is None or spent[d] <= ends[1]):
                keys[d] = None
        lookup = self.document["lookup"]
        found = list(zip(group["spent"], group["action"], strict=True))
        if lookup == "equal":
            return next((action for amounts, action in found if amounts == keys), NO_DECISION)
        found = [(amounts[-1], action) for amounts, action in found if amounts[:-1] == keys[:-1]]
        exact = [action for last, action in found if last == keys[-1]]
        if exact:
            return int(exact[0])
        plain = [(last, action) for last, action in found if last is not None]
        if keys[-1] is None:  # settled: the run that is furthest from the limits
            return NO_DECISION if not plain else int(plain[0][1] if lookup == "at_most" else plain[-1][1])
        if lookup == "at_most":
            return next((action for last, action in plain if last >= keys[-1]), NO_DECISION)
        return next((action for last, action in reversed(plain) if last <= keys[-1]), NO_DECISION)


def compare(model: solvent.CMDP, policy: solvent.AugmentedPolicy, folder: Path, episodes: int, seed: int) -> None:
    """Follow random histories with the agent, the compiled policy and the reader; then ask for random nodes."""
    rng = np.random.default_rng(seed)
    compiled, reader = Compiled(policy, folder), Reader(policy, folder)
    units, tracked = policy.units, [model.resource_index(name) for name in policy.resources]
    for _ in range(episodes):
        start = int(rng.choice(model.start_states, p=model.start_probability))
        agent = policy.agent(state=model.states[start])
        assert compiled.begin(start) == 0
        while not agent.done:
            step, state = agent.step, model.state_index(agent.state)
            wanted = model.action_index(agent.act())
            spent = list(compiled.account.spent[: len(units)])
            assert spent == [int(agent.spent[name] / unit) for name, unit in zip(policy.resources, units, strict=True)]
            assert compiled.act() == reader.act(step, state, spent) == wanted
            [row] = [r for r in model.rows(step, state) if model.row_action[r] == wanted]
            first, last = int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1])
            o = int(rng.integers(first, last))  # any outcome can happen, however unlikely
            costs = [model.cost[d].value(o) for d in range(model.n_resources)]
            after = int(model.next_state[o])
            agent.observe(model.states[after], costs)
            ticks = [int(costs[d] / unit) for d, unit in zip(tracked, units, strict=True)]
            assert compiled.observe(after, ticks) == 0
    most = int(np.abs(policy.spent_ND[policy.spent_ND > -(2**62)]).max(initial=1)) + 2
    for _ in range(300):
        step, state = int(rng.integers(policy.horizon)), int(rng.integers(len(policy.states)))
        ticks = rng.integers(-most, most + 1, len(units)).tolist()
        node = policy.node(step, state, ticks)
        wanted = NO_DECISION if node == NO_NODE else int(policy.action_N[node])
        compiled.account.step, compiled.account.state = step, state
        for d, each in enumerate(ticks):
            compiled.account.spent[d] = each
        assert compiled.act() == reader.act(step, state, ticks) == wanted


@needs_compiler
@pytest.mark.parametrize("name", ["delivery-van", "drone", "cash-line", "robot", "reservoir", "dose"])
def test_examples(name: str, tmp_path: Path) -> None:
    model = solvent.load_model(EXAMPLES / f"{name}.yaml")
    compare(model, solvent.solve(model).policy, tmp_path, 30, 1)


@needs_compiler
@pytest.mark.parametrize("seed", seeds(30))
def test_random_models(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    n_resources = 1 + seed % 3
    model = instances.random(
        n_states=4, n_actions=3, horizon=5, resources=n_resources, seed=seed, cost_unit=["1", "1/3", "0.25"][seed % 3]
    )
    limits: dict[str, Any] = {name: int(rng.integers(3, 12)) for name in model.resources}
    if seed % 4 == 1:
        limits[model.resources[-1]] = solvent.Budget(lower=0)
    if seed % 4 == 2:
        limits[model.resources[0]] = solvent.Budget(upper=12, lower=-3)
    for method in ("reduction", "auto"):
        solution = solvent.solve(model, limits, method=method)
        if solution.value > -np.inf:
            compare(model, solution.policy, tmp_path, 20, seed)


@needs_compiler
def test_mistakes_are_reported_by_status(tmp_path: Path) -> None:
    model = solvent.load_model(EXAMPLES / "delivery-van.yaml")
    compiled = Compiled(solvent.solve(model).policy, tmp_path)
    assert compiled.begin(-1) == BAD_ARGUMENT
    assert compiled.begin(0) == 0
    assert compiled.observe(99, [0]) == BAD_ARGUMENT
    assert compiled.observe(1, [31]) == OVER_LIMIT
    assert compiled.act() == NO_DECISION
    assert compiled.observe(1, [2**62]) == OVER_LIMIT
    assert compiled.observe(1, [2**62]) == OVER_LIMIT  # amounts do not wrap around
    assert compiled.account.spent[0] > 2**62
    assert compiled.begin(0) == 0
    assert compiled.observe(0, [-8]) == 0
    assert compiled.account.spent[0] == 0  # a full tank takes no more
    for _ in range(model.horizon - 1):
        assert compiled.observe(0, [0]) == 0
    assert compiled.act() == compiled.observe(0, [0]) == BAD_ARGUMENT


@needs_compiler
def test_hostile_names_are_quoted(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=1, start='a"; */ ??/ \\ ü \n', resources=["*/ #error"], budget=1)
    b.add('a"; */ ??/ \\ ü \n', "\u202e%s", outcomes=[(1, 'a"; */ ??/ \\ ü \n', 1)])
    policy = solvent.solve(b.build()).policy
    compiled = Compiled(policy, tmp_path)
    names = (ctypes.c_char_p * 1).in_dll(compiled.library, "van_states")
    assert names[0] == 'a"; */ ??/ \\ ü \\n'.encode()
    policy.export(tmp_path / "9 lives.c")
    assert "int32_t p_9_lives_act(const p_9_lives_account *account)" in (tmp_path / "9 lives.c").read_text()


@needs_compiler
def test_long_names(tmp_path: Path) -> None:
    """C99 compilers need not accept literals of more than 4095 characters."""
    names = ["x" * 4096, "\xe9" * 3000, "y" * 4095]
    b = solvent.CMDP.builder(horizon=1, start=names[0], resources=["fuel"])
    b.add(names[0], "go", outcomes=[(0.5, names[1], 1), (0.5, names[2], 2)])
    compiled = Compiled(solvent.solve(b.build(), 2).policy, tmp_path)
    assert (compiled.begin(0), compiled.act()) == (0, 0)
    found = (ctypes.c_char_p * 3).in_dll(compiled.library, "van_states")
    assert [each.decode() for each in found] == names


def test_what_is_not_exported(tmp_path: Path) -> None:
    model = instances.knapsack([3, 4], ["1/3", 3], capacity=4)
    policy = solvent.solve(model).policy
    with pytest.raises(PolicyError, match=r"expected a name ending in \.c or \.json, found '\.h'; policy.save writes"):
        policy.export(tmp_path / "policy.h")
    rounded = solvent.solve(model, approximation="additive", epsilon=1).policy
    with pytest.raises(PolicyError, match="expected a policy that counts costs exactly, found one that rounds costs"):
        rounded.export(tmp_path / "policy.c")
    policy.export(tmp_path / "policy.json")
    document = json.loads((tmp_path / "policy.json").read_text())
    assert document["resources"][0]["unit"] == str(Fraction(1, 3))
    assert document["resources"][0]["upper"] == [12, 12]
