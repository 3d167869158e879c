"""Policies of many nodes: in files that are mapped into memory instead of being read."""

from __future__ import annotations

import mmap
import zipfile

import numpy as np
import pytest

import solvent
from solvent.core import archives
from solvent.core.array_files import temporary_folder
from solvent.errors import LoadLimitError, PolicyError
from solvent.policy.table import AugmentedPolicy


@pytest.fixture(autouse=True)
def small_files_are_large(monkeypatch):
    monkeypatch.setattr(archives, "LARGE", 20_000)
    monkeypatch.setattr(archives, "_LEAST_MAPPED", 100)


@pytest.fixture(scope="module")
def model():
    return solvent.instances.random(12, 3, horizon=14, resources=2, branching=3, cost_range=(0, 6), budget=70)


@pytest.fixture(scope="module")
def policy(model) -> AugmentedPolicy:
    return solvent.solve(model, method="reduction").policy


def is_mapped(array: np.ndarray) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def test_a_large_policy_is_mapped(model, policy, tmp_path):
    path = tmp_path / "large.policy"
    policy.save(path)
    with zipfile.ZipFile(path) as archive:
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
        assert archive.testzip() is None
    loaded = solvent.load_policy(path, model)
    assert loaded == policy
    assert is_mapped(loaded.spent_ND)
    assert is_mapped(loaded.action_N)
    assert loaded.spent_ND.flags.aligned
    assert not loaded.spent_ND.flags.writeable
    assert solvent.verify(model, loaded).value == solvent.verify(model, policy).value
    agent, other = loaded.agent(), policy.agent()
    assert agent.act() == other.act()
    # NumPy can read it as well
    np.testing.assert_array_equal(np.load(path)["spent_ND"], policy.spent_ND)


def test_a_mapped_policy_is_saved_and_loaded_again(model, policy, tmp_path):
    policy.save(tmp_path / "one.policy")
    loaded = solvent.load_policy(tmp_path / "one.policy", model)
    loaded.save(tmp_path / "one.policy")  # over the file that is mapped
    assert solvent.load_policy(tmp_path / "one.policy") == policy
    assert loaded == policy


def test_damage_is_noticed(policy, tmp_path):
    path = tmp_path / "large.policy"
    policy.save(path)
    content = path.read_bytes()
    assert len(content) > 20_000
    rng = np.random.default_rng(1)
    for at in rng.integers(0, len(content), 60).tolist():
        path.write_bytes(content[:at] + bytes([content[at] ^ (1 << int(rng.integers(8)))]) + content[at + 1 :])
        try:
            loaded = solvent.load_policy(path)
        except PolicyError:
            continue
        assert loaded == policy  # in a part of the file that does not matter, such as padding
    for end in (0, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:end])
        with pytest.raises(PolicyError):
            solvent.load_policy(path)


def test_limits_apply(policy, tmp_path):
    path = tmp_path / "large.policy"
    policy.save(path)
    with pytest.raises(LoadLimitError, match="file_bytes"):
        solvent.load_policy(path, limits=solvent.LoadLimits(file_bytes=21_000))
    (tmp_path / "other.policy").write_bytes(b"x" * 30_000)
    with pytest.raises(PolicyError, match="text that begins with"):
        solvent.load_policy(tmp_path / "other.policy")


def test_amounts_that_do_not_increase_are_refused(policy, tmp_path, monkeypatch):
    monkeypatch.setattr("solvent.policy.finite_files._PIECE", 50)
    path = tmp_path / "large.policy"
    policy.save(path)
    assert solvent.load_policy(path) == policy
    spent = policy.spent_ND.copy()
    group = int(np.argmax(np.diff(policy.node_indptr) > 1))
    first = int(policy.node_indptr[group])
    spent[[first, first + 1]] = spent[[first + 1, first]]
    arrays = {field: getattr(policy, field) for field in policy.__dataclass_fields__}
    AugmentedPolicy(**{**arrays, "spent_ND": spent}).save(path)
    with pytest.raises(PolicyError, match="amounts that increase within a group"):
        solvent.load_policy(path)


def test_nodes_in_files(model, policy):
    layers = []
    for step in range(policy.horizon):
        groups = range(int(policy.step_indptr[step]), int(policy.step_indptr[step + 1]))
        nodes = slice(int(policy.node_indptr[groups.start]), int(policy.node_indptr[groups.stop]))
        sizes = np.diff(policy.node_indptr[groups.start : groups.stop + 1])
        state = np.repeat(policy.group_state[groups.start : groups.stop], sizes)
        layers.append((state, policy.spent_ND[nodes], policy.action_N[nodes]))
    given = {"layers": layers, "counting": policy.counting}
    kept = AugmentedPolicy.from_nodes(model, policy, policy.limits, **given)
    stored = AugmentedPolicy.from_nodes(model, policy, policy.limits, **given, folder=temporary_folder())
    assert stored == kept
    assert is_mapped(stored.spent_ND)
    assert stored.action_N.dtype == kept.action_N.dtype
