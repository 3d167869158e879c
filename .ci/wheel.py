"""Test the built wheel as a user meets it: `wheel.py [--python PYTHON] [--wheel FILE] [--no-tests]`.

Builds the wheel, checks its contents, and installs it into a fresh environment, without the folder `src`. There the
first pages of the documentation run as printed, in an empty folder: every block of Python, whose output must be the
lines that begin with `# >`, and every command line, with the wheel in place of `.` in `pip install .`. The first block
of the README is left to `check.py`. Then some tests run against the installed package.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from command_lines import commands, first_commands

ROOT = Path(__file__).parents[1]
#: The pages that a newcomer reads first.
PAGES = ("README.md", "docs/index.md", "docs/install.md", "docs/tutorial.md")
#: Tests that use most of the package in a minute or two.
TESTS = (
    "tests/core/test_exact.py", "tests/formats/test_files.py", "tests/solvers/test_curve.py",
    "tests/policy/test_policy_files.py", "tests/baselines/test_expectation.py", "tests/gym/test_model_env.py",
    "tests/plot/test_plot_value.py", "tests/cli/test_examples_command.py", "tests/cli/test_json.py",
    "tests/test_extras.py",
)  # fmt: skip
#: Packages that these tests need.
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "jsonschema", "packaging")
#: Files that must be in the wheel.
NEEDED = (
    "solvent/py.typed", "solvent/examples/delivery-van.yaml", "solvent/formats/model.schema.json",
    "solvent/policy/export_template.c",
)  # fmt: skip
#: Lines of the pages that do not run here: the environment of this test replaces that of the user.
SKIPPED = ("python3 -m venv ", "source ")

RUNNER = """
import contextlib, io, json, sys
namespace = {"__name__": "__main__"}
printed = []
for name, block in json.load(sys.stdin):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(block, name, "exec"), namespace)
    printed.append(out.getvalue())
sys.stdout.buffer.write(json.dumps(printed).encode())
"""


def build(folder: Path) -> Path:
    """Build the wheel into a folder and return it."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def check_contents(wheel: Path) -> None:
    """Exit if the wheel lacks a file, or contains one of the repository's own."""
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    if missing := [name for name in NEEDED if name not in names]:
        raise SystemExit(f"{wheel.name}: expected {', '.join(missing)}, found no such file")
    if len(top) != 2 or "solvent" not in top:
        raise SystemExit(f"{wheel.name}: expected the package and its metadata, found {', '.join(sorted(top))}")


def install(python: str, folder: Path, packages: Sequence[str]) -> Path:
    """Make an environment in a folder, install packages, and return the folder of its programs."""
    if not (folder / "pyvenv.cfg").exists():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages], check=True)
    return programs


def environment(programs: Path, home: Path) -> dict[str, str]:
    """Return the variables of a user: the programs of the environment first, no path to this repository."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    path = os.pathsep.join([str(programs), *os.environ["PATH"].split(os.pathsep)])
    return {**kept, "PATH": path, "HOME": str(home), "MPLBACKEND": "agg", "COLUMNS": "100", "PYTHONUTF8": "1"}


def check_commands(name: str, page: str, wheel: Path, programs: Path, variables: dict[str, str], folder: Path) -> int:
    """Run the command lines of a page in a folder, and return how many there are."""
    elsewhere = first_commands((ROOT / "README.md").read_text(encoding="utf-8"))
    found = [(line, code) for line, code in commands(page) if line not in elsewhere and not line.startswith(SKIPPED)]
    for line, code in found:
        program, *arguments = shlex.split(line)
        if program == "pip" and arguments[0] == "install":
            arguments = [re.sub(r"^\.(?=\[|$)", lambda _: str(wheel), each) for each in arguments]
        path = shutil.which(program, path=str(programs))
        if path is None:
            raise SystemExit(f"{name}: expected a program of the environment, found {line!r}")
        done = subprocess.run([path, *arguments], cwd=folder, env=variables, capture_output=True, check=False)
        if done.returncode != code:
            raise SystemExit(f"{name}: {line}\nexpected code {code}, found {done.returncode}\n{done.stderr.decode()}")
    return len(found)


def check_page(name: str, wheel: Path, programs: Path, variables: dict[str, str]) -> int:
    """Run the code and the commands of a page in an empty folder, and return how many blocks and commands ran."""
    page = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    with tempfile.TemporaryDirectory() as folder:
        count = check_commands(name, page, wheel, programs, variables, Path(folder))
        given = json.dumps([[f"{name}, block {number}", block] for number, block in enumerate(blocks, 1)])
        run = [str(programs / "python"), "-c", RUNNER]
        done = subprocess.run(run, cwd=folder, env=variables, input=given.encode(), capture_output=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr.decode()}")
    for block, printed in zip(blocks, json.loads(done.stdout), strict=True):
        expected = [line.rstrip() for line in re.findall(r"^# ?> ?(.*)$", block, re.M)]
        found = [line.rstrip() for line in printed.splitlines()]
        if expected and found != expected:
            raise SystemExit(f"{name}: expected\n" + "\n".join(expected) + "\nfound\n" + "\n".join(found))
    return len(blocks) + count


def check_tests(programs: Path, variables: dict[str, str], folder: Path, workers: str) -> None:
    """Run some tests, copied to a folder without the package, against the installed package."""
    wanted = ("tests", "fuzz", "examples", "pyproject.toml", "README.md", "constraints.txt", "oldest.txt", "docs")
    for name in wanted:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    run = [
        str(programs / "python"),
        "-m",
        "pytest",
        "-q",
        "-n",
        workers,
        "--dist",
        "worksteal",
        "-p",
        "no:cacheprovider",
    ]
    # newer dependencies may warn that something is deprecated, which must not fail the test of a release
    subprocess.run([*run, "-W", "ignore::DeprecationWarning", *TESTS], cwd=folder, env=variables, check=True)


def main(given: Sequence[str] | None = None) -> None:
    """Build, install and test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter to test with; default: this one")
    parser.add_argument("--wheel", type=Path, help="wheel to test; default: build it")
    parser.add_argument("--no-tests", action="store_true", help="run the pages only")
    parser.add_argument("--workers", default="auto", help="processes that run the tests; default: one a processor")
    options = parser.parse_args(given)
    with tempfile.TemporaryDirectory(prefix="solvent-wheel-") as name:
        folder = Path(name)
        wheel = options.wheel.resolve() if options.wheel else build(folder / "dist")
        check_contents(wheel)
        programs = install(options.python, folder / "environment", [str(wheel)])
        home = folder / "home"
        home.mkdir()
        variables = environment(programs, home)
        where = "import solvent, sys; print(solvent.__file__); print(sys.version.split()[0], solvent.__version__)"
        done = subprocess.run(
            [str(programs / "python"), "-c", where], cwd=home, env=variables, check=True, capture_output=True, text=True
        )
        file, versions = done.stdout.splitlines()
        if not Path(file).is_relative_to(folder):
            raise SystemExit(f"expected the package of the wheel, found {file}")
        for page in PAGES:
            ran = check_page(page, wheel, programs, variables)
            print(
                f"Python {versions.split()[0]}, solvent {versions.split()[1]}: {page}: {ran} blocks and commands run",
                flush=True,
            )
        if not options.no_tests:
            install(options.python, folder / "environment", TOOLS)
            (folder / "copy").mkdir()
            check_tests(programs, variables, folder / "copy", options.workers)


if __name__ == "__main__":
    main()
