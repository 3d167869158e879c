"""Rows are kept, a killed run can be resumed, and rows of different studies are not mixed."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from measures import Case, Measured, measure

from solvent.errors import ModelError, SolventError
from solvent.experiments import runs
from solvent.experiments.fitting import Growth, fit_growth
from solvent.experiments.runs import Row, Study, run

SIZES = (1, 2, 5, 7)


def study(folder: Path, **changes: object) -> Study[Case, Measured]:
    cases = tuple(replace(Case(size, folder=str(folder)), **changes) for size in SIZES)
    return Study("sums", cases, measure, Measured)


def calls(folder: Path) -> list[int]:
    path = folder / "calls"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_rows_come_in_the_order_of_cases(tmp_path: Path) -> None:
    rows = run(study(tmp_path), tmp_path)
    assert [row.case.size for row in rows] == [1, 2, 5, 7]
    assert rows[0] == Row(Case(1, folder=str(tmp_path)), Measured(0.5 / 3, False, None))
    lines = (tmp_path / "sums.csv").read_text().splitlines()
    assert lines[0] == "solvent,size,share,kind,seed,folder,total,large,note"
    assert lines[1].endswith(",1,0.5,plain,," + str(tmp_path) + ",0.16666666666666666,False,")
    assert len(lines) == 5


def test_nothing_is_measured_twice(tmp_path: Path) -> None:
    first = run(study(tmp_path), tmp_path)
    assert run(study(tmp_path), tmp_path) == first
    assert calls(tmp_path) == [1, 2, 5, 7]
    assert run(study(tmp_path), tmp_path, fresh=True) == first
    assert calls(tmp_path) == [1, 2, 5, 7] * 2
    assert len((tmp_path / "sums.csv").read_text().splitlines()) == 5


@pytest.mark.parametrize("cut", range(1, 12))
def test_half_a_line_is_dropped_and_measured_again(cut: int, tmp_path: Path) -> None:
    whole = run(study(tmp_path), tmp_path)
    file = tmp_path / "sums.csv"
    content = file.read_bytes()
    file.write_bytes(content[:-cut])
    assert run(study(tmp_path), tmp_path) == whole
    assert file.read_bytes() == content
    assert calls(tmp_path) == [1, 2, 5, 7, 7]


def test_half_a_header_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "sums.csv").write_bytes(b"solvent,si")
    assert len(run(study(tmp_path), tmp_path)) == 4
    assert (tmp_path / "sums.csv").read_text().count("solvent") == 1


@pytest.mark.parametrize("change", [{"share": 0.25}, {"kind": "other"}, {"seed": 0}])
def test_other_arguments_are_other_rows(change: dict[str, object], tmp_path: Path) -> None:
    before = run(study(tmp_path), tmp_path)
    other = run(study(tmp_path, **change), tmp_path)
    assert calls(tmp_path) == [1, 2, 5, 7] * 2
    assert [row.case for row in other] != [row.case for row in before]
    assert run(study(tmp_path), tmp_path) == before
    assert run(study(tmp_path, **change), tmp_path) == other
    assert calls(tmp_path) == [1, 2, 5, 7] * 2


def test_a_whole_number_in_a_field_of_floats_is_the_same_case(tmp_path: Path) -> None:
    run(study(tmp_path, share=1), tmp_path)
    run(study(tmp_path, share=1.0), tmp_path)
    assert calls(tmp_path) == [1, 2, 5, 7]


def test_rows_of_another_version_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(study(tmp_path), tmp_path)
    monkeypatch.setattr(runs, "__version__", "99.0")
    run(study(tmp_path), tmp_path)
    assert calls(tmp_path) == [1, 2, 5, 7] * 2


def test_a_case_that_stands_twice_is_measured_once(tmp_path: Path) -> None:
    case = Case(3, folder=str(tmp_path))
    rows = run(Study("sums", (case, case), measure, Measured), tmp_path)
    assert rows[0] == rows[1]
    assert calls(tmp_path) == [3]


def test_two_processes_find_what_one_does(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    alone = run(study(tmp_path / "a"), tmp_path / "a")
    together = run(study(tmp_path / "b"), tmp_path / "b", jobs=2)
    assert [row.result for row in together] == [row.result for row in alone]
    assert [row.case.size for row in together] == [row.case.size for row in alone]
    assert sorted(calls(tmp_path / "b")) == [1, 2, 5, 7]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_ends_the_run_names_the_case_and_keeps_the_rows(jobs: int, tmp_path: Path) -> None:
    good = study(tmp_path)
    run(replace(good, cases=good.cases[:2]), tmp_path)
    bad = replace(good, cases=(*good.cases[:2], replace(good.cases[2], kind="broken")))
    with pytest.raises(ArithmeticError, match="cannot add this up") as caught:
        run(bad, tmp_path, jobs)
    assert caught.value.__notes__[0].startswith("while measuring Case(size=5, share=0.5, kind='broken'")
    assert len((tmp_path / "sums.csv").read_text().splitlines()) == 3


def test_a_worker_that_dies_is_not_waited_for(tmp_path: Path) -> None:
    cases = (Case(1, kind="killed"), Case(2, kind="killed"))
    with pytest.raises(SolventError, match="sums: a worker process ended without a result"):
        run(Study("sums", cases, measure, Measured), tmp_path, jobs=2)


PROGRAM = """
from pathlib import Path
from measures import Case, Measured, measure
from solvent.experiments.runs import Study, run

if __name__ == "__main__":
    cases = [Case(1), Case(2), Case(3, kind="slow"), Case(4, kind="slow"), Case(5)]
    try:
        run(Study("sums", tuple(cases), measure, Measured), {folder!r}, {jobs})
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def begin(folder: Path, jobs: int) -> subprocess.Popen[str]:
    """Begin a run whose third case takes long, and return its process once two rows are there."""
    script = folder / "program.py"
    script.write_text(PROGRAM.format(folder=str(folder), jobs=jobs))
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": path}, start_new_session=True,
    )  # fmt: skip
    file = folder / "sums.csv"
    until = time.monotonic() + 60
    while not (file.exists() and file.read_text().count("\n") == 3):
        assert time.monotonic() < until, "no rows came"
        time.sleep(0.05)
    return process


def wait_until_gone(group: int) -> None:
    """Wait until no process of a group is left; the slow case would keep a worker for minutes."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("a worker is still there")


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_ends_cleanly(jobs: int, tmp_path: Path) -> None:
    process = begin(tmp_path, jobs)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the line
    said, _ = process.communicate(timeout=60)
    assert said == "interrupted\n"
    assert process.returncode == 0
    wait_until_gone(process.pid)
    assert (tmp_path / "sums.csv").read_text().count("\n") == 3


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    process = begin(tmp_path, 1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    cases = tuple(Case(size, folder="") for size in (1, 2, 5))
    before = (tmp_path / "sums.csv").read_text()
    rows = run(Study("sums", cases, measure, Measured), tmp_path)
    assert [row.result.total for row in rows] == [size * 0.5 / 3 for size in (1, 2, 5)]
    after = (tmp_path / "sums.csv").read_text()
    assert after.startswith(before)
    assert after.count("\n") == before.count("\n") + 1


def test_workers_do_not_outlive_a_killed_run(tmp_path: Path) -> None:
    process = begin(tmp_path, 2)
    process.kill()  # this one only, which cannot tell the others
    process.communicate()
    wait_until_gone(process.pid)


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        ("a,b\n1,2\n", 1, "the columns solvent,size,share,kind,seed,folder,total,large,note"),
        ("HEADER\n0.1.0,1,0.5\n", 2, "9 cells"),
        ("HEADER\n0.1.0,1,0.5,plain,,,many,False,\n", 2, "a row of this experiment"),
        ("HEADER\n0.1.0,1,0.5,plain,,,1.0,perhaps,\n", 2, "a row of this experiment"),
    ],
)
def test_files_of_something_else_are_refused(content: str, line: int, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "sums.csv"
    file.write_text(content.replace("HEADER", "solvent,size,share,kind,seed,folder,total,large,note"))
    before = file.read_bytes()
    with pytest.raises(ModelError) as caught:
        run(study(tmp_path), tmp_path)
    assert caught.value.where == f"{file}, line {line}"
    assert caught.value.expected == expected
    assert caught.value.hint == "name another folder, or discard these rows with --fresh (fresh=True)"
    assert file.read_bytes() == before


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "sums.csv").write_bytes(b"\xff\xfe\n")
    with pytest.raises(ModelError, match=r"expected a file of rows, found bytes that are not UTF-8 text.*--fresh"):
        run(study(tmp_path), tmp_path)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
        for fresh in (False, True):
            with pytest.raises(ModelError, match="file: expected a folder, found a file; name a folder"):
                run(study(tmp_path), folder, fresh=fresh)


@pytest.mark.parametrize("jobs", [0, -1, True, 1.5, "2"])
def test_jobs_must_be_a_number(jobs: object, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="jobs: expected an integer of at least 1, found"):
        run(study(tmp_path), tmp_path, jobs)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Nested:
    cases: list[int]


@dataclass(frozen=True)
class Same:
    size: int


def test_only_plain_fields_make_rows(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"Nested.cases: expected an int, float, str or bool"):
        run(Study("bad", (Nested([1]),), measure, Measured), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="expected different names for the fields of case and result"):
        run(Study("bad", (Same(1),), lambda case: case, Same), tmp_path)
    with pytest.raises(ModelError, match="expected a plain str on one line"):
        run(study(tmp_path, kind="two\nlines"), tmp_path)


def test_growth_of_a_power_is_found() -> None:
    sizes = [10, 20, 30, 40, 50, 60]
    growth = fit_growth(sizes, [7 * size**2.5 for size in sizes])
    assert growth.exponent == pytest.approx(2.5)
    assert growth.factor == pytest.approx(7)
    assert growth.error == pytest.approx(0, abs=1e-9)
    assert growth.points == 3


def test_small_sizes_do_not_count_and_noise_is_stated() -> None:
    sizes = [1, 2, 4, 8, 16, 32, 64, 128]
    amounts = [100 + size**2 * (1.2 if size in (32, 128) else 1) for size in sizes]
    whole, half = fit_growth(sizes, amounts, larger_half=False), fit_growth(sizes, amounts)
    assert whole.exponent < half.exponent
    assert abs(half.exponent - 2) < 3 * half.error < 1
    assert math.isnan(fit_growth([1, 2], [1, 4]).error)
    assert str(Growth(2.0, math.nan, 1.0, 2)) == "2.00"


@pytest.mark.parametrize(
    ("sizes", "amounts"), [([1, 1], [1, 2]), ([1, 2], [1]), ([1, 2], [0, 1]), ([1, 2], [1, math.inf])]
)
def test_what_cannot_be_fitted(sizes: list[float], amounts: list[float]) -> None:
    with pytest.raises(ModelError, match="expected"):
        fit_growth(sizes, amounts)


def test_rows_that_are_no_csv_are_refused(tmp_path: Path) -> None:
    from solvent.experiments.runs import _whole_lines

    with pytest.raises(ModelError, match="a file of rows, found field larger than field limit"):
        list(_whole_lines(b"a," + b"x" * 200_000 + b"\n", tmp_path / "rows.csv"))
