"""Untrusted model files: small files take little time and memory, and every error is a `SolventError`."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from solvent import CMDP, LoadLimitError, LoadLimits, ModelError, SolventError, instances
from solvent.core.archives import read_archive, write_archive
from solvent.formats import npz
from solvent.formats.encoding import quote_value
from solvent.formats.files import parse_model
from solvent.model.steps import StepSet

#: Seconds of processor time that are accepted on any machine; most of these inputs take less than one.
SECONDS = 15.0


@contextmanager
def cheap(megabytes: float = 500) -> Iterator[None]:
    """Fail if the block takes long or uses more memory."""
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    yield
    assert time.process_time() - began < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1000 * megabytes


def document(**changes: Any) -> dict[str, Any]:
    rows = [{"state": "a", "action": "go", "outcomes": [{"probability": 1, "next": "a", "cost": {"x": 1}}]}]
    return {"solvent": 1, "horizon": 3, "start": "a", "resources": ["x"], "rows": rows} | changes


def test_pointers_that_overflow_are_refused() -> None:
    b = CMDP.builder(horizon=1, start=0, resources=["x"])
    for action in range(6):
        b.add(0, action, outcomes=[(0.5, 0, 1), (0.5, 1, 0)])
    arrays, header = read_archive(npz.write(b.build()))
    for name in ("outcome_indptr", "row_indptr"):
        for low in range(len(arrays[name]) - 1):
            for values in ([-(2**63), -2], [2**63 - 1, 0], [2**62, -(2**62)]):
                changed = arrays[name].copy()
                changed[low : low + 2] = values[: len(changed[low : low + 2])]
                with pytest.raises(ModelError, match=name):
                    parse_model(write_archive({**arrays, name: changed}, header), "npz")


def test_long_ranges_of_steps_are_fast() -> None:
    rows = document()["rows"]
    rows[0]["steps"] = ["0-999998"]
    rows.append(
        {"state": "a", "action": "end", "outcomes": [{"probability": 1, "next": "a"}], "steps": ["500000-999999"]}
    )
    with cheap(200):
        model = parse_model(json.dumps(document(horizon=10**6, rows=rows)), "json")
    assert isinstance(model, CMDP)
    assert model.n_tables == 3
    assert np.flatnonzero(np.diff(model.table_of_step)).tolist() == [499_999, 999_998]


def test_many_rows_of_long_ranges_take_little_memory() -> None:
    rows = [
        {"state": f"s{i}", "action": "go", "steps": [f"{i}-999999"], "outcomes": [{"probability": 1, "next": "s0"}]}
        for i in range(400)
    ]
    terminal = [{"state": f"s{i}", "steps": [f"0-{i - 1}"]} for i in range(1, 400)]
    text = json.dumps({"solvent": 1, "horizon": 10**6, "start": "s0", "terminal": terminal, "rows": rows})
    assert len(text) < 60_000
    with cheap(300):
        model = parse_model(text, "json")
    assert isinstance(model, CMDP)
    assert model.n_tables == 400


def test_tables_that_multiply_are_refused() -> None:
    rows = [
        {"state": "a", "action": i, "steps": [f"{i}-{999_999 - i}"], "outcomes": [{"probability": 1, "next": "a"}] * 1}
        for i in range(1500)
    ] + [{"state": "a", "action": "go", "outcomes": [{"probability": 1, "next": "a"}]}]
    text = json.dumps({"solvent": 1, "horizon": 10**6, "start": "a", "rows": rows})
    limits = LoadLimits(entries=10**6)
    with (
        cheap(300),
        pytest.raises(LoadLimitError, match=r"at most 1,000,000 rows, outcomes and costs .*entries=..."),
    ):
        parse_model(text, "json", limits=limits)


def test_steps_mean_the_same_as_lists() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        horizon = int(rng.integers(2, 12))
        written, spelled = [], []
        for action in range(int(rng.integers(1, 5))):
            ranges = [sorted(rng.integers(0, horizon, 2).tolist()) for _ in range(int(rng.integers(1, 3)))]
            row = {"state": "a", "action": action, "outcomes": [{"probability": 1, "next": "a"}]}
            written.append({**row, "steps": [f"{low}-{high}" for low, high in ranges]})
            spelled.append({**row, "steps": sorted({t for low, high in ranges for t in range(low, high + 1)})})
        for rows in (written, spelled):
            rows.append({"state": "a", "action": "always", "outcomes": [{"probability": 1, "next": "a"}]})
        models = [
            parse_model(json.dumps(document(horizon=horizon, rows=rows, resources=[])), "json")
            for rows in (written, spelled)
        ]
        assert models[0] == models[1]
        for step in range(horizon):
            offered = {models[0].actions[models[0].row_action[r]] for r in models[0].rows(step, 0)}  # type: ignore[union-attr]
            assert offered == {row["action"] for row in spelled if step in row.get("steps", range(horizon))}


def test_sets_of_steps() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        one, two = ({int(t) for t in rng.integers(0, 12, int(rng.integers(0, 8)))} for _ in range(2))
        first, second = StepSet.of(one), StepSet.of(two)
        assert list(first) == sorted(one)
        assert len(first) == len(one)
        assert [t for t in range(-1, 14) if t in first] == sorted(one)
        assert list(first | second) == sorted(one | two)
        assert first.first_shared(second) == min(one & two, default=None)
        assert all(a.stop < b.start for a, b in zip(first.ranges, first.ranges[1:], strict=False))
    assert "x" not in StepSet.of([1])


def test_stranded_states_are_found_at_late_steps() -> None:
    """In a cycle of seven states, one without an action at a late step is found without following a million steps."""
    rows = [
        {"state": i, "action": "on", "outcomes": [{"probability": 1, "next": (i + 1) % 7}], "steps": ["0-999992"]}
        for i in range(7)
    ]
    rows += [
        {"state": i, "action": "on", "outcomes": [{"probability": 1, "next": (i + 1) % 7}], "steps": ["999993-999999"]}
        for i in range(7)
        if i != 3
    ]
    base = {"solvent": 1, "horizon": 10**6, "start": 0, "rows": rows}
    when = next(step for step in range(999_993, 10**6) if step % 7 == 3)
    with (
        cheap(),
        pytest.raises(ModelError, match=f"state 3: expected an action at step {when}, where it can be reached"),
    ):
        parse_model(json.dumps(base), "json")
    with cheap():
        parse_model(json.dumps(base | {"terminal": [{"state": 3, "steps": [when]}]}), "json")


def test_long_denominators_without_a_common_unit_are_refused() -> None:
    found: list[int] = []
    number = 10**389 + 1
    while len(found) < 300:
        if all(gcd(number, other) == 1 for other in found):
            found.append(number)
        number += 2
    outcomes = [{"probability": f"1/{len(found)}", "next": "a", "cost": {"x": f"1/{d}"}} for d in found]
    rows = [{"state": "a", "action": "go", "outcomes": outcomes}]
    with cheap(), pytest.raises(ModelError, match="a common unit of at most 30,000 digits"):
        parse_model(json.dumps(document(rows=rows)), "json")


def test_many_resources() -> None:
    names = [f"r{i}" for i in range(30_000)]
    with (
        cheap(),
        pytest.raises(LoadLimitError, match=r"resources: expected at most 1,000 resources, found 30,000; raise"),
    ):
        parse_model(json.dumps(document(resources=names, rows=document()["rows"])), "json")
    names = names[:10_000]
    rows = [
        {"state": "a", "action": "go", "outcomes": [{"probability": 1, "next": "a", "cost": dict.fromkeys(names, 1)}]}
    ]
    budget = dict.fromkeys(names, 3)
    with cheap(300):
        text = json.dumps(document(resources=names, rows=rows, budget=budget))
        model = parse_model(text, "json", limits=LoadLimits(resources=10**6))
    assert model.n_resources == 10_000


def test_aliases_are_limited() -> None:
    outcome = "{probability: 1, next: a}"
    rows = "\n".join(f"  - {{state: a, action: {i}, outcomes: *o}}" for i in range(1000))
    text = "solvent: 1\nhorizon: 1\nstart: a\nrows:\n"
    text += f"  - &r {{state: a, action: x, outcomes: &o [{', '.join([outcome] * 900)}]}}\n"
    with (
        cheap(),
        pytest.raises(LoadLimitError, match=r"expand to at most 100,000 values, found more; raise .*nodes"),
    ):
        parse_model(text + rows)


def test_sizes_and_digits_are_limited(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text(json.dumps(document()) + " " * 5000)
    with pytest.raises(
        LoadLimitError, match=r"m.json: expected at most 4,000 bytes of text, found 5,\d\d\d; raise it with"
    ):
        solvent.load_model(file, limits=LoadLimits(text_bytes=4000))
    with pytest.raises(LoadLimitError, match=r"expected at most 4,000 bytes of text"):
        parse_model(file.read_bytes(), "json", limits=LoadLimits(text_bytes=4000))
    rows = document()["rows"]
    rows[0]["outcomes"][0]["cost"]["x"] = "1/" + "3" * 60
    with pytest.raises(LoadLimitError, match=r"a number of at most 40 digits, found one far longer.*digits="):
        parse_model(json.dumps(document(rows=rows)), "json", limits=LoadLimits(digits=40))
    assert parse_model(json.dumps(document(rows=rows)), "json").cost[0].value(0) == Fraction(1, int("3" * 60))  # type: ignore[union-attr]


def test_limits_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "m.json"
    file.write_text(json.dumps(document()))
    monkeypatch.setenv("SOLVENT_LOAD_LIMITS", "text_bytes=10")
    with pytest.raises(LoadLimitError):
        solvent.load_model(file)
    assert solvent.load_model(file, limits=LoadLimits()).horizon == 3


@pytest.mark.parametrize("name", ["m.yaml", "m.json", "m.npz", "m.policy"])
def test_only_regular_files_are_read(name: str, tmp_path: Path) -> None:
    pipe, device = tmp_path / name, tmp_path / f"zero-{name}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")

    def read(path: Path) -> Any:
        if name.endswith(".policy"):
            return solvent.load_policy(path)
        return solvent.load_model(path)

    for path in (pipe, device):
        with cheap(), pytest.raises(SolventError, match="can be read, found a device or a pipe"):
            read(path)
    folder = tmp_path / f"folder-{name}"
    folder.mkdir()
    with pytest.raises(SolventError, match="can be read, found Is a directory"):
        read(folder)


def test_text_arrays_beyond_unicode_are_refused() -> None:
    arrays, header = read_archive(npz.write(instances.knapsack([1, 1], [1e300, 1e-300])))
    assert arrays["cost0"].dtype.kind == "U"
    for code in (0x110000, 0x7FFFFFFF, 0xFFFFFFFF):
        bad = np.ascontiguousarray(arrays["cost0"]).copy()
        bad.view(np.uint32)[0] = code
        with pytest.raises(ModelError, match="expected Unicode text"):
            parse_model(write_archive({**arrays, "cost0": bad}, header), "npz")
    lone = arrays["cost0"].copy()
    lone.view(np.uint32)[0] = 0xD800
    with pytest.raises(ModelError):
        parse_model(write_archive({**arrays, "cost0": lone}, header), "npz")


def test_newer_formats_are_refused_with_a_hint() -> None:
    for found, hint in ((2, "written for a newer version of Solvent, which is needed"), (0, ""), (True, ""), ("1", "")):
        with pytest.raises(ModelError, match=f"^solvent: expected 1, found {quote_value(found)}.*{hint}"):
            parse_model(json.dumps(document(solvent=found)), "json")


@pytest.mark.slow
def test_large_models_are_accepted(tmp_path: Path) -> None:
    """A million outcomes of a regular model, which compress well."""
    n = 250_000
    model = solvent.CMDP.from_arrays(*_ring(n), horizon=2, resources=["x"], budget=3)
    model.save(tmp_path / "m.npz")
    assert model.n_outcomes >= n
    assert solvent.load_model(tmp_path / "m.npz") == model


def _ring(n: int) -> tuple[Any, Any, Any]:
    from scipy import sparse

    step = sparse.csr_matrix((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
    stay = sparse.identity(n, format="csr")
    cost = np.zeros((2, n))
    cost[0] = 1
    return [step, stay], np.zeros((n, 2)), cost.T.copy()


def test_names_that_utf_8_cannot_hold_are_refused() -> None:
    for budget in ({"\ud800": {"strange": 1}}, {"x": {"\ud800": 1}}):
        with pytest.raises(SolventError, match=r"budget\.(x|\\ud800): expected upper, lower or final, found '"):
            parse_model(json.dumps(document(budget=budget)), "json")


@pytest.mark.slow
def test_tables_of_a_small_file_stay_within_seconds_and_memory() -> None:
    """Overlapping ranges of steps make a table of their own for each of them, all with long rows."""
    n, outcomes = 2000, "[" + ", ".join(f"{{probability: 1/12, next: a, cost: {{r: {i}}}}}" for i in range(12)) + "]"
    rows = [
        f'- {{state: a, action: {i}, steps: ["{i}-{2 * n - i}"], outcomes: {f"&o {outcomes}" if i == 0 else "*o"}}}'
        for i in range(n)
    ]
    head = f"solvent: 1\nhorizon: {2 * n + 1}\nstart: a\nresources: [r]\nbudget: {{r: 1}}\nrows:\n"
    text = head + "\n".join(rows)
    assert len(text) < 130_000
    with cheap(300), pytest.raises(LoadLimitError, match=r"at most 10,000,000 rows, outcomes and costs"):
        parse_model(text, "yaml")


def test_tables_as_large_as_what_is_written_are_always_allowed() -> None:
    rows = [
        {"state": "a", "action": i, "steps": [i // 50], "outcomes": [{"probability": 1, "next": "a"}]}
        for i in range(100)
    ]
    text = json.dumps({"solvent": 1, "horizon": 2, "start": "a", "rows": rows})
    model = parse_model(text, "json", limits=LoadLimits(entries=10))
    assert isinstance(model, CMDP)
    assert model.n_rows == 100
