"""Levels without a horizon: Solvent and fimdp on the streets of Manhattan (NYC.json of FiMDPEnv).

Both get the same states, actions and outcomes in one process, and must agree on every state:

    reload_levels     MIN_INIT_CONS
    survival_levels   SAFE
    reach_levels      AS_REACH

The file has edges of probability 0. Solvent does not count them as outcomes, and fimdp does: they are left out for
both, and then, as a second workload, possible for both. Times are medians, with kernels compiled beforehand, and
include the conversion of costs to ticks, but not the construction of models.

    python -m bench.levels [NYC.json]

The file is looked for in shared/cases beside the repository. fimdp is a part of the extra `bench`: pip install fimdp.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import solvent
from bench.peers.report import PAGE, fill, markdown_table
from bench.peers.workloads import CASES
from bench.yardstick import median_times
from solvent.core.files import write_atomically

FILE = CASES / "NYC.json"
#: Solvent must be faster by this factor.
TARGET = 10.0

#: Action, consumption, and probability by next state.
Choice = tuple[str, int, dict[str, float]]


@dataclass(frozen=True)
class Streets:
    """A consumption MDP as in the file."""

    states: dict[str, list[Choice]]
    reload: list[str]
    targets: list[str]
    capacity: int

    @classmethod
    def read(cls, path: Path, *, least: float = 0.0) -> Streets:
        """Return the contents of a file; outcomes of a probability of 0 get the probability `least`."""
        data = json.loads(path.read_text())
        after: dict[str, list[dict[str, Any]]] = {}
        for edge in data["edges"]:
            after.setdefault(edge["tail"], []).append(edge)
        states: dict[str, list[Choice]] = {}
        for node in data["nodes"]:
            if node["action"]:
                continue
            states[node["label"]] = choices = []
            for edge in after.get(node["label"], []):
                weights: dict[str, float] = {}
                for outcome in after[edge["head"]]:
                    weight = max(outcome["probability"], least)
                    if weight > 0:
                        weights[outcome["head"]] = weights.get(outcome["head"], 0) + weight
                total = sum(weights.values())
                choices.append((edge["head"], edge["consumption"], {s: w / total for s, w in weights.items()}))
        reload = [node["label"] for node in data["nodes"] if node["reload"]]
        return cls(states, reload, [each["label"] for each in data["T"]], data["cmax"])

    def for_solvent(self) -> solvent.CMDP:
        """Return the model of Solvent."""
        b = solvent.CMDP.builder(horizon=1, start=next(iter(self.states)), resources=["charge"])
        for state, choices in self.states.items():
            for action, cost, weights in choices:
                b.add(state, action, outcomes=[(weight, after, cost) for after, weight in weights.items()])
        return b.build()

    def for_fimdp(self) -> Any:
        """Return the model of fimdp."""
        from fimdp.core import ConsMDP

        mdp = ConsMDP()
        index = {state: mdp.new_state(state in set(self.reload), state) for state in self.states}
        for state, choices in self.states.items():
            for action, cost, weights in choices:
                mdp.add_action(index[state], {index[s]: weight for s, weight in weights.items()}, action, cost)
        return mdp


@dataclass(frozen=True)
class Result:
    """One line of the table; times in milliseconds."""

    question: str
    states: int
    possible: int
    different: int
    milliseconds: float
    peer: float

    @property
    def factor(self) -> float:
        """How many times faster Solvent is."""
        return self.peer / self.milliseconds


def why_not(file: Path = FILE) -> str | None:
    """Return why the comparison cannot be made; None if it can."""
    if not file.exists():
        return f"{file.name} of FiMDPEnv is not there"
    return "fimdp is not installed" if importlib.util.find_spec("fimdp") is None else None


def measure(streets: Streets, title: str, seconds: float, only: str = "") -> list[Result]:
    """Ask both all questions, or those whose name begins with `only`."""
    from fimdp.energy_solvers import BasicES
    from fimdp.objectives import AS_REACH, MIN_INIT_CONS, SAFE

    model, mdp = streets.for_solvent(), streets.for_fimdp()
    given: dict[str, Any] = {"capacity": streets.capacity, "reload": streets.reload}
    one = streets.targets[:1]
    questions: list[tuple[str, Callable[[], solvent.Levels], int, list[str]]] = [
        ("reload", lambda: solvent.reload_levels(model, **given), MIN_INIT_CONS, []),
        ("survive", lambda: solvent.survival_levels(model, **given), SAFE, []),
        (f"reach {len(streets.targets)} targets", lambda: solvent.reach_levels(model, streets.targets, **given),
         AS_REACH, streets.targets),
        ("reach 1 target", lambda: solvent.reach_levels(model, one, **given), AS_REACH, one),
    ]  # fmt: skip
    results = []
    for name, ask, objective, targets in questions:
        if not name.startswith(only):
            continue
        goals = [mdp.state_with_name(state) for state in targets]

        def ask_peer(objective: int = objective, goals: list[int] = goals) -> list[float]:
            answer: list[float] = BasicES(mdp, streets.capacity, goals).get_min_levels(objective)
            return answer

        ours = [math.inf if level is None else level for level in ask().levels.values()]
        theirs = ask_peer()
        results.append(
            Result(
                f"{name}, {title}" if title else name,
                len(ours),
                sum(level < math.inf for level in ours),
                sum(a != b for a, b in zip(ours, theirs, strict=True)),
                *(1000 * taken for taken in median_times([ask, ask_peer], seconds)),
            )
        )
    return results


def page_part(results: list[Result]) -> str:
    """Return the table of the page, as Markdown."""
    lines = [
        [r.question, f"{r.states:,}", f"{r.milliseconds:.2f} ms", f"{r.peer:,.0f} ms", f"{r.factor:,.0f}"]
        for r in results
    ]
    return markdown_table(("question", "states", "Solvent", "fimdp", "fimdp / Solvent"), lines, "lrrrr")


def main() -> int:
    """Run the command line; return 1 if an answer differs, or Solvent is not fast enough."""
    parser = argparse.ArgumentParser(prog="python -m bench.levels", description="Compare levels with fimdp.")
    parser.add_argument("file", type=Path, nargs="?", default=FILE, help="NYC.json of FiMDPEnv")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to repeat each measurement")
    parser.add_argument("--page", action="store_true", help="rewrite docs/benchmarks.md, with the first variant only")
    arguments = parser.parse_args()
    reason = why_not(arguments.file)
    if reason is not None:
        print(reason)
        return 0 if arguments.page else 1
    results = []
    variants = ((0.0, "edges of probability 0 left out"), (0.01, "edges of probability 0 possible"))
    for least, title in variants[: 1 if arguments.page else None]:
        results += measure(Streets.read(arguments.file, least=least), title, arguments.seconds)
    table = Table("question", "states", "possible", "different", "Solvent ms", "fimdp ms", "factor")
    for each in results:
        counts = (f"{n:,}" for n in (each.states, each.possible, each.different))
        table.add_row(each.question, *counts, f"{each.milliseconds:.2f}", f"{each.peer:.0f}", f"{each.factor:.0f}")
    Console(width=130).print(table)
    if arguments.page:
        write_atomically(PAGE, fill(PAGE.read_text(encoding="utf-8"), {"levels": page_part(results)}).encode())
    return int(any(each.different or each.factor < TARGET for each in results))


if __name__ == "__main__":
    sys.exit(main())
