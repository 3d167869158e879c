"""Optional packages: what needs one says which extra to install if it is missing."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import solvent

ROOT = Path(__file__).parents[1]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
#: Extras of those who work on Solvent itself.
OWN = {"bench", "docs", "dev"}
#: Extras whose packages users import themselves: graphs and environments are handed to Solvent.
HANDED_OVER = {"graph", "envs"}


def model() -> solvent.CMDP:
    return solvent.instances.fuel_grid(2)


def read_prism(folder: Path) -> Any:
    (folder / "m.prism").write_text("mdp\nmodule m\nx : [0..1];\n[] x=0 -> (x'=1);\nendmodule\n")
    return solvent.load_model(folder / "m.prism", horizon=1)


#: For each extra: the module that is missing, and what needs it.
CASES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "pandas": ("pandas", lambda folder: model().to_frame()),
    "storm": ("stormpy", read_prism),
    "ray": ("ray", lambda folder: solvent.solve(model(), engine="ray")),
    "rl": ("torch", lambda folder: solvent.learning.TensorBoardLog(folder / "board")),
    "pettingzoo": ("pettingzoo", lambda folder: importlib.import_module("solvent.gym.pettingzoo")),
    "rddl": ("pyRDDLGym", lambda folder: solvent.CMDP.from_rddl("Elevators", "1", cost=1)),
}
if hasattr(solvent.Solution, "report"):
    CASES["report"] = ("vl_convert", lambda folder: solvent.solve(model()).report(folder / "page.html"))  # type: ignore[attr-defined]


@pytest.mark.parametrize("extra", CASES)
def test_what_is_missing_is_named(extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing, use = CASES[extra]
    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "solvent.gym.pettingzoo", raising=False)  # so that it is imported again
    monkeypatch.setitem(sys.modules, missing, None)  # as if it were not installed
    monkeypatch.chdir(tmp_path)
    with pytest.raises(solvent.SolventError) as caught:
        use(tmp_path)
    assert f'pip install "solvent[{extra}]"' in str(caught.value)


def test_every_extra_of_users_has_a_message() -> None:
    assert set(EXTRAS) - OWN - HANDED_OVER - {"all", "report"} == set(CASES) - {"report"}


def test_every_message_names_an_extra() -> None:
    package = Path(solvent.__file__).parent
    named = {
        extra
        for file in package.rglob("*.py")
        for extra in re.findall(r'pip install "solvent\[(\w+)\]"', file.read_text(encoding="utf-8"))
    }
    assert named == set(CASES)


def test_all_holds_every_extra_of_users_but_one() -> None:
    listed: set[str] = set()
    for requirement in map(Requirement, EXTRAS["all"]):
        assert requirement.name == "solvent"
        assert requirement.marker is None  # hatchling drops it
        listed |= requirement.extras
    assert listed == set(EXTRAS) - OWN - {"all", "rddl"}


def test_no_extra_of_users_pins_a_version() -> None:
    for extra in set(EXTRAS) - OWN:
        for requirement in map(Requirement, EXTRAS[extra]):
            assert not [each for each in requirement.specifier if each.operator in ("==", "~=", "===")], requirement
