"""The scripts of `.ci`: what the check of a commit runs first, how stages run, and which skips are noticed."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the modules of `.ci` importable."""
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_the_check_begins_with_every_line_of_the_first_block_of_the_readme(scripts: None, tmp_path: Path) -> None:
    block = re.findall(r"^```\w*\n(.*?)^```$", README, re.M | re.S)[0]
    lines = [line.partition("  #")[0].rstrip() for line in block.splitlines()]
    assert lines == ["make demo", "make test"]
    first = module("check").stages(README, tmp_path)[: len(lines)]
    assert [stage.command for stage in first] == lines
    assert [stage.after for stage in first] == [(), (first[0].name,)]
    for stage in first:
        assert stage.variables["HOME"] == str(tmp_path)
        assert stage.variables["PIP_CACHE_DIR"]
    more = README.replace("```sh\n", "```sh\nmake more\n", 1)
    assert [stage.command for stage in module("check").stages(more, tmp_path)][:3] == ["make more", *lines]


def test_every_command_of_the_first_pages_is_run(scripts: None) -> None:
    lines, wheel = module("command_lines"), module("wheel")
    page = "```sh\npip install .\nsolvent demo  # a comment\nsolvent verify a b  # ends with 1\n```\n"
    assert lines.commands(page) == [("pip install .", 0), ("solvent demo", 0), ("solvent verify a b", 1)]
    with pytest.raises(SystemExit, match="expected a page whose first block of code has command lines"):
        lines.first_commands("```python\nimport solvent\n```\n")
    elsewhere = set()
    for name in wheel.PAGES:
        for line, _ in lines.commands((ROOT / name).read_text(encoding="utf-8")):
            if not line.startswith(("solvent ", "pip install .", 'pip install ".[')):
                elsewhere.add(line)
    made = {"python3 -m venv ../solvent-env", "source ../solvent-env/bin/activate"}  # by the test itself
    assert elsewhere == {*lines.first_commands(README), *made}
    assert all(line.startswith(wheel.SKIPPED) for line in made)


def test_nothing_of_the_home_folder_is_seen_but_downloads(
    scripts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "PYTHONPATH"):
        monkeypatch.setenv(name, "mine")
    variables = module("check").newcomer(tmp_path)
    assert {name for name, value in variables.items() if value is None} >= {
        "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "PYTHONPATH",
    }  # fmt: skip


def test_every_target_that_a_stage_makes_exists(scripts: None, tmp_path: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    stages = [*module("check").stages(README, tmp_path), *module("nightly").stages()]
    commands = [stage.command for stage in stages]
    made = {name for command in commands for name in re.findall(r"\bmake ([\w-]+)", command)}
    assert {"demo", "test", "lint", "test-slow", "test-ray"} <= made <= targets


def test_stages_run_side_by_side_and_in_order(scripts: None, tmp_path: Path) -> None:
    stages = module("stages")
    meet = "touch {0}; for i in $(seq 600); do [ -e {1} ] && exit 0; sleep 0.1; done; exit 1"
    plan = [
        stages.Stage("last", "cat a b > c", after=("a", "b")),
        stages.Stage("a", meet.format("a", "b")),
        stages.Stage("b", meet.format("b", "a")),
        stages.Stage("alone", "test -e c", stages.ALL, after=("last",)),
    ]
    done = stages.run_stages(plan, tmp_path, {}, cores=2)
    assert {each.stage.name: each.code for each in done} == {"a": 0, "b": 0, "last": 0, "alone": 0}
    assert [each.stage.name for each in done][2:] == ["last", "alone"]


def test_stages_share_processors(scripts: None, tmp_path: Path) -> None:
    stages = module("stages")
    alone = "mkdir busy; sleep 0.3; rmdir busy"  # fails beside another
    plan = [stages.Stage("one", alone), stages.Stage("other", alone), stages.Stage("all", alone, stages.ALL)]
    assert [each.code for each in stages.run_stages(plan, tmp_path, {}, cores=1)] == [0, 0, 0]
    plan = [stages.Stage("one", alone), stages.Stage("all", alone, stages.ALL)]
    assert [each.code for each in stages.run_stages(plan, tmp_path, {}, cores=2)] == [0, 0]
    plan = [
        stages.Stage("all", "sleep 0.3; test -e seen", stages.ALL),
        stages.Stage("waits", "touch seen", stages.WAITING),
    ]
    assert [each.code for each in stages.run_stages(plan, tmp_path, {}, cores=2)] == [0, 0]


def test_nothing_starts_after_a_failure(scripts: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stages = module("stages")
    plan = [stages.Stage("bad", "echo said; exit 3"), stages.Stage("next", "touch next", after=("bad",))]
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "skips.txt").write_text("")
    with pytest.raises(SystemExit, match=r"^failed: bad$"):
        stages.run(plan, tmp_path)
    assert not (tmp_path / "next").exists()
    out = capfd.readouterr().out
    assert "said\n" in out
    assert "| bad | 0 | 0 |" in out


def test_stages_that_cannot_start_are_an_error(scripts: None, tmp_path: Path) -> None:
    stages = module("stages")
    for plan in ([stages.Stage("late", "true", after=("none",))], [stages.Stage("large", "true", 3)]):
        with pytest.raises(SystemExit, match="stages that wait for others or for processors that do not exist"):
            stages.run_stages(plan, tmp_path, {}, cores=2)


def test_processes_of_a_stage_end_with_the_check(scripts: None, tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / '.ci')!r})\n"
        "from pathlib import Path; from stages import Stage, run_stages\n"
        "run_stages([Stage('long', 'sleep 600 & echo $! > id; wait')], Path('.'), {}, 1)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        while not (tmp_path / "id").exists() or not (number := (tmp_path / "id").read_text().strip()):
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
    assert process.returncode == 128 + signal.SIGTERM
    until = time.monotonic() + 60
    while Path(f"/proc/{number}/stat").exists() and Path(f"/proc/{number}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < until
        time.sleep(0.05)


def test_time_of_a_processor_includes_that_of_children(scripts: None, tmp_path: Path) -> None:
    stages = module("stages")
    work = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    (done,) = stages.run_stages([stages.Stage("work", shlex.join([sys.executable, "-c", work]))], tmp_path, {}, 1)
    assert done.code == 0
    assert 0.5 <= done.processor <= done.wall + 0.5
    text = stages.table([done], done.wall)
    assert text.splitlines()[0] == "| stage | wall, s | processor, s |"


def test_tests_that_no_stage_runs_must_be_listed(scripts: None, tmp_path: Path) -> None:
    stages = module("stages")
    lines = {
        "one": [("a.py::x", None), ("a.py::y", "no y"), ("b.py", "no b"), ("c.py", "no c"), ("a.py::z", "no z")],
        "other": [("a.py::y", None), ("b.py::x", None)],
    }
    for name, outcomes in lines.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in outcomes))
    ran, skipped = stages.outcomes_of(tmp_path)
    assert ran == {"a.py::x", "a.py::y", "b.py::x"}
    assert skipped == {"a.py::z": "no z", "c.py": "no c"}
    assert stages.unlisted(skipped, "# a comment\nno z\n") == ["c.py: no c"]
    assert stages.unlisted(skipped, "no z\nno c\n") == []


def test_outcomes_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "test_it.py").write_text(
        "import pytest\ndef test_runs(): pass\ndef test_skips(): pytest.skip('why')\n"
        "@pytest.mark.skipif(True, reason='never')\ndef test_marked(): pass\n"
        "@pytest.mark.xfail\ndef test_fails(): raise ValueError\n"
    )
    (tmp_path / "test_all.py").write_text("import pytest\npytest.importorskip('nothing_of_that_name')\n")
    places = [str(ROOT / "tests"), *sys.path]
    variables = {**os.environ, "SOLVENT_OUTCOMES": str(tmp_path), "PYTHONPATH": os.pathsep.join(places)}
    for workers in ("0", "2"):
        command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider", "--rootdir", ".", "."]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        (file,) = tmp_path.glob("*.jsonl")
        found = sorted(json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
        reason = "could not import 'nothing_of_that_name': No module named 'nothing_of_that_name'"
        assert found == [
            ["test_all.py", reason], ["test_it.py::test_fails", None], ["test_it.py::test_marked", "never"],
            ["test_it.py::test_runs", None], ["test_it.py::test_skips", "why"],
        ]  # fmt: skip
        file.unlink()


def test_answers_that_depend_on_the_processor_are_found(
    scripts: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    processors = module("processors")
    monkeypatch.setattr(processors, "digests", lambda **variables: ["a: 1", "b: 2"])
    processors.main()
    assert "2 answers are the same" in capsys.readouterr().out
    monkeypatch.setattr(processors, "digests", lambda **variables: ["a: 1", "b: 3" if variables else "b: 2"])
    with pytest.raises(SystemExit, match=r"b: 2 \(this processor\), b: 3 \(generic\)"):
        processors.main()
