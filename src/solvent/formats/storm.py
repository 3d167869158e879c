"""Models built by Storm, the model checker, through the optional package stormpy.

`read_program` has Storm explore the states of a program with exact arithmetic, in a process of its own
(`storm_child.py`), and turns the transition system into a `CMDP`:

    states      valuations of the variables, as JSON text, or numbers where a file has no variables
    actions     labels of commands; numbered where several commands of a state share one
    cost        reward structure: reward of the state left, plus that of the action taken
    terminal    a state that can only be left to itself, without a cost or a reward
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import ExactColumn, exact, exact_column, nearest_float
from solvent.core.loading import check_limit, current_limits, refuse
from solvent.errors import ModelError, SolventError, did_you_mean, quote
from solvent.formats.programs import UNNAMED, ProgramOptions
from solvent.model.cmdp import CMDP
from solvent.model.validation import Accounts, Names, Rows, build_model

#: Name of an action without a label.
UNLABELED = "step"
_CHILD = Path(__file__).with_name("storm_child.py")


def has_stormpy() -> bool:
    """Return whether stormpy is installed."""
    return importlib.util.find_spec("stormpy") is not None


def require_stormpy(what: str) -> None:
    """Raise a `SolventError` if stormpy is not installed; `what` needs it."""
    if not has_stormpy():
        note = ", which has no build for Windows" if sys.platform == "win32" else ""
        raise SolventError(f'{what}: expected stormpy, found no such package; pip install "solvent[storm]"{note}')


@dataclass(frozen=True)
class Transition:
    """Costs that depend on the transition, of one resource.

    Attributes
    ----------
    resource : int
        Position of the resource.
    variable : str
        Variable of the next state that says which transition led to it.
    values : dict of int to str
        For each value of the variable, the reward structure with the cost of the transition.
    """

    resource: int
    variable: str
    values: dict[int, str]


def read_program(content: bytes, format: str, options: ProgramOptions, transitions: Sequence[Transition] = ()) -> CMDP:
    """Return the model of a file that Storm can read.

    Parameters
    ----------
    content : bytes
        Content of the file.
    format : {"prism", "jani", "drn", "umb"}
    options : ProgramOptions
    transitions : sequence of Transition
        Costs that depend on the transition. The variables that they name are not part of the states of the model.

    Raises
    ------
    ModelError
        If Storm refuses the file, or the model is neither an MDP nor a DTMC.
    LoadLimitError
        If a limit on loading is reached.
    SolventError
        If stormpy is not installed.
    """
    require_stormpy(f"{format.upper()} files")
    if options.horizon is None:
        hint = "a transition system has no horizon: give horizon=..."
        raise ModelError("horizon", "the number of steps", "none", hint)
    wanted = [(each.name, "costs") for each in options.costs]
    if options.reward_name is not None:
        wanted.append((options.reward_name, "reward"))
    wanted += [(name, "costs") for each in transitions for name in each.values.values()]
    header, arrays = _run_storm(content, format, options, wanted)
    values = [exact(text, "file") for text in arrays["values"].tolist()]
    if format == "umb":  # floats mean their shortest decimals
        values = [exact(near) if value == Fraction(near := nearest_float(value)) else value for value in values]
    return _Reading(header, arrays, values, options, transitions).model()


def convert_drn(content: bytes) -> bytes:
    """Return the UMB archive of a DRN file.

    Raises
    ------
    ModelError
        If Storm cannot convert it.
    SolventError
        If stormpy is not installed.
    """
    require_stormpy("UMB files")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.umb"
        _call_storm(Path(folder), content, "drn", {"target": str(target)})
        return target.read_bytes()


def _run_storm(
    content: bytes, format: str, options: ProgramOptions, wanted: list[tuple[str, str]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Have Storm build a model; return what it found."""
    limits = current_limits()
    asked: dict[str, Any] = {"rewards": wanted, "goal": options.goal, "unnamed": UNNAMED, "internal": TAG}
    asked["constants"] = {name: str(value).lower() for name, value in options.constants.items()}
    asked["entries"] = int(min(limits.entries, 2**62))
    with tempfile.TemporaryDirectory() as folder:
        header, arrays = _call_storm(Path(folder), content, format, asked)
    if "entries" in header:
        check_limit("entries", header["entries"], "choices, transitions and costs")
    return header, arrays


def _call_storm(
    folder: Path, content: bytes, format: str, asked: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Run Storm in a process of its own; return its answer."""
    limits = current_limits()
    program, request, result = (folder / name for name in (f"model.{format}", "request.json", "result.npz"))
    program.write_bytes(content)
    asked |= {"format": format, "path": str(program), "memory": int(min(limits.expanded_bytes, 2**62))}
    request.write_text(json.dumps(asked), encoding="utf-8")
    code = _run([sys.executable, "-P", str(_CHILD), str(request), str(result)], limits.seconds)
    if not result.is_file():
        if code < 0:  # killed by a signal, or aborted for lack of memory
            found = f"a larger one, or one with which Storm fails (signal {-code})"
            refuse("expanded_bytes", f"a model of at most {limits.expanded_bytes:,} bytes", found)
        raise ModelError("file", "a model that Storm can build", f"Storm ended with code {code}")
    with np.load(result, allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    header = json.loads(str(arrays.pop("header")))
    if "refused" in header:
        where, expected, found, *hint = header["refused"]
        near = did_you_mean(header["name"], header["known"]) if header.get("known") else ""
        raise ModelError(where, expected, found, "".join(hint) or near)
    if "memory" in header:
        refuse("expanded_bytes", f"a model of at most {limits.expanded_bytes:,} bytes", "a larger one")
    if "storm" in header:
        raise ModelError("file", "a model that Storm can build", _message(header["storm"]))
    return header, arrays


def _run(command: list[str], seconds: float) -> int:
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        try:
            return child.wait(min(seconds, 1e6))
        except subprocess.TimeoutExpired:
            child.kill()
            return refuse("seconds", f"to load within {seconds:g} seconds", "a model that takes longer")
        except BaseException:  # interrupted
            child.kill()
            raise


def _message(text: str) -> str:
    """Return a message of Storm in one line."""
    line = " ".join(text.split()).rstrip(".")
    return line.partition("Exception: ")[2] or line or "an error without a message"


#: Numbers by choice: positions in a list, and the list.
_Amounts = tuple[NDArray[np.int64], list[Fraction]]


class _Reading:
    """The arrays of Storm on their way to a model."""

    def __init__(
        self,
        header: dict[str, Any],
        arrays: dict[str, NDArray[Any]],
        values: list[Fraction],
        options: ProgramOptions,
        transitions: Sequence[Transition],
    ) -> None:
        self.header, self.arrays, self.values = header, arrays, values
        self.options, self.transitions = options, transitions
        self.n_states: int = header["states"]
        self.owner = np.repeat(np.arange(self.n_states), np.diff(arrays["choice_indptr"]))
        self.row_of = np.repeat(np.arange(len(self.owner)), np.diff(arrays["entry_indptr"]))
        tags = {each.variable for each in transitions}
        self.tags = {
            entry["name"]: arrays[f"variable{i}"]
            for i, entry in enumerate(header["variables"])
            if entry["name"] in tags
        }

    def model(self) -> CMDP:
        """Return the model."""
        options, next_state = self.options, self.arrays["next_state"]
        assert options.horizon is not None
        reward = self._reward()
        costs = [self._cost(d) for d in range(len(options.costs))]
        terminal = self._is_terminal(reward, costs)
        group, names, first = self._states()
        # states that differ in tags only have the same rows: those of the first stand for all
        kept = np.zeros(self.n_states, bool)
        kept[first] = True
        kept &= ~terminal
        if self.header["is_chain"]:
            reward = self._join_choices(reward)
        action, actions = self._actions()
        rows = np.flatnonzero(kept[self.owner])
        used, action[rows] = np.unique(action[rows], return_inverse=True)
        actions = [actions[i] for i in used.tolist()]
        rows = rows[np.lexsort((action[rows], group[self.owner[rows]]))]
        lengths = np.diff(self.arrays["entry_indptr"])[rows]
        outcome_indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        at = np.repeat(self.arrays["entry_indptr"][:-1][rows] - outcome_indptr[:-1], lengths)
        at = at + np.arange(outcome_indptr[-1])
        if not len(rows):
            raise ModelError("initial state", "a state that can be left, or that has a cost or a reward", "none")
        chance = np.array([float(value) or 5e-324 for value in self.values])
        per_state = np.bincount(group[self.owner[rows]], minlength=len(names))
        return build_model(
            Names(
                self._start(names, group), tuple(names), tuple(actions),
                tuple(each.name for each in options.costs),
            ),
            Rows(
                row_indptr=np.concatenate([[0], np.cumsum(per_state)]).astype(np.int64),
                row_action=action[rows].astype(np.int32),
                row_reward=np.array([float(value) for value in reward[1]])[reward[0][rows]],
                outcome_indptr=outcome_indptr,
                probability=chance[self.arrays["probability"][at]],
                next_state=group[next_state[at]].astype(np.int32),
                cost=tuple(column.take(at) for column in costs),
            ),
            horizon=options.horizon,
            table_of_step=np.zeros(options.horizon, np.int32),
            accounts=Accounts(options.costs, None, self._goals(names, group)),
        )  # fmt: skip

    def _structure(self, i: int) -> _Amounts:
        """Return the i-th reward structure that was asked for, by choice: positions in a list of numbers."""
        by_state, by_choice = self.arrays[f"state_reward{i}"][self.owner], self.arrays[f"choice_reward{i}"]
        pairs, index = np.unique(np.stack([by_state, by_choice]), axis=1, return_inverse=True)
        return index.reshape(-1), [self.values[s] + self.values[c] for s, c in pairs.T.tolist()]

    def _reward(self) -> _Amounts:
        options, candidates = self.options, self.header["rewards"]
        if options.reward is None:
            left = [name for name in candidates if name not in {each.name for each in options.costs}]
            left = [name for name in left if not name.startswith(TAG)]
            if left and options.goal is None:
                expected = f"the reward structure to maximize, one of {', '.join(left)}"
                hint = f'reward="-{left[0]}" minimizes it'
                raise ModelError("reward", expected, "none", hint)
            return np.zeros(len(self.owner), np.int64), [Fraction(0)]
        named = [each.name for each in options.costs]
        if self.transitions and options.reward_name in named:  # its costs of transitions are elsewhere
            index, numbers = self._expected(self._cost(named.index(options.reward_name)))
        else:
            index, numbers = self._structure(len(options.costs))
        return index, [options.reward_sign * value for value in numbers]

    def _expected(self, column: ExactColumn) -> _Amounts:
        """Return the expectation of a cost, by choice."""
        totals = [Fraction(0)] * len(self.owner)
        chances = self.arrays["probability"].tolist()
        for entry, row in enumerate(self.row_of.tolist()):
            totals[row] += self.values[chances[entry]] * column.value(entry)
        return np.arange(len(totals)), totals

    def _cost(self, d: int) -> ExactColumn:
        """Return the cost of a resource for each entry of the transition matrix."""
        assert self.options.horizon is not None
        index, numbers = self._structure(d)
        columns, tables = [index[self.row_of]], [numbers]
        place = len(self.options.costs) + (self.options.reward is not None)
        for each in self.transitions:
            for tag in each.values:
                if each.resource == d:
                    extra, amounts = self._structure(place)
                    taken = self.tags[each.variable][self.arrays["next_state"]] == tag
                    columns.append(np.where(taken, extra[self.row_of], len(amounts)))
                    tables.append([*amounts, Fraction(0)])
                place += 1
        combined, inverse = np.unique(np.stack(columns), axis=1, return_inverse=True)
        totals = [
            sum((table[i] for table, i in zip(tables, parts, strict=True)), Fraction(0))
            for parts in combined.T.tolist()
        ]
        return exact_column(totals, steps=self.options.horizon).take(inverse.reshape(-1))

    def _join_choices(self, reward: _Amounts) -> _Amounts:
        """Make the choices of each state one choice, in which they are equally likely; return its expected reward.

        Outcomes keep their costs: a chain in which several commands are enabled draws one of them at each step.
        """
        arrays, labels = self.arrays, self.header["choice_names"]
        counts = np.diff(arrays["choice_indptr"])
        share = counts[self.owner]
        several = np.stack([arrays["probability"], share[self.row_of]])
        pairs, index = np.unique(several, axis=1, return_inverse=True)
        arrays["probability"] = index.reshape(-1) + len(self.values)
        self.values = [*self.values, *(self.values[p] / n for p, n in pairs.T.tolist())]
        total, joined = [Fraction(0)] * self.n_states, [set[str]() for _ in range(self.n_states)]
        places, label = reward[0].tolist(), arrays["choice_name"].tolist()
        for choice, s in enumerate(self.owner.tolist()):
            total[s] += reward[1][places[choice]] / int(share[choice])
            joined[s] |= {labels[label[choice]]} - {""}
        place: dict[str, int] = {}
        arrays["choice_name"] = np.array([place.setdefault("+".join(sorted(each)), len(place)) for each in joined])
        self.header["choice_names"] = list(place)
        arrays["entry_indptr"] = arrays["entry_indptr"][arrays["choice_indptr"]]
        self.owner = np.arange(self.n_states)
        return np.arange(self.n_states), total

    def _start(self, names: list[Any], group: NDArray[np.int64]) -> Any:
        """Return the initial state, or equal probabilities of several: a policy is the best from each of them."""
        initial = list(dict.fromkeys(names[s] for s in group[self.arrays["initial"]].tolist()))
        return initial[0] if len(initial) == 1 else dict.fromkeys(initial, 1 / len(initial))

    def _is_terminal(self, reward: _Amounts, costs: list[ExactColumn]) -> NDArray[np.bool_]:
        """Return whether each state can only be left to itself, without a cost or a reward."""
        state_of = self.owner[self.row_of]
        active = self.arrays["next_state"] != state_of
        for column in costs:
            active |= column.ticks != 0
        earns = np.array([value != 0 for value in reward[1]])[reward[0]]
        busy = np.bincount(state_of, weights=active, minlength=self.n_states) > 0
        return ~(busy | (np.bincount(self.owner, weights=earns, minlength=self.n_states) > 0))

    def _states(self) -> tuple[NDArray[np.int64], list[Any], NDArray[np.int64]]:
        """Return the state of the model for each state of Storm, the names, and the first state of Storm for each."""
        entries = [(i, each) for i, each in enumerate(self.header["variables"]) if each["name"] not in self.tags]
        if not self.header["variables"]:
            every = np.arange(self.n_states)
            return every, every.tolist(), every
        listed = [self.arrays[f"variable{i}"] for i, _ in entries]
        columns = np.stack([*listed, np.zeros(self.n_states, np.int64)], 1)  # a last column, as there may be no other
        _, first, group = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)  # in the order in which Storm found them
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        group, first = rank[group.reshape(-1)], first[order]
        if not self.tags and len(first) != self.n_states:  # variables that a file does not show
            every = np.arange(self.n_states)
            return every, every.tolist(), every
        names = [
            json.dumps(
                {each["name"]: self._shown(each, value) for (_, each), value in zip(entries, row, strict=False)},
                ensure_ascii=False,
            )
            for row in columns[first].tolist()
        ]
        return group, names, first

    def _shown(self, variable: dict[str, Any], value: int) -> Any:
        if variable["type"] == "bool":
            return bool(value)
        if variable["type"] == "location":
            return variable["locations"][value]
        if variable["type"] == "number":
            number = self.values[value]
            return number.numerator if number.denominator == 1 else str(number)
        return value

    def _actions(self) -> tuple[NDArray[np.int64], list[str]]:
        """Return the action of each choice; choices of a state that share a label are numbered."""
        labels, label = self.header["choice_names"], self.arrays["choice_name"]
        key = self.owner * len(labels) + label
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        counts = np.diff(np.append(starts, len(key)))
        number, several = np.empty(len(key), np.int64), np.empty(len(key), bool)
        number[order] = np.arange(len(key)) - np.repeat(starts, counts) + 1
        several[order] = np.repeat(counts > 1, counts)
        number[~several] = 0
        place: dict[tuple[int, int], int] = {}
        action = np.array(
            [place.setdefault(pair, len(place)) for pair in zip(label.tolist(), number.tolist(), strict=True)], np.int64
        )
        names = [f"{labels[i] or UNLABELED}{f' {n}' if n else ''}" for i, n in place]
        return action, names

    def _goals(self, names: list[Any], group: NDArray[np.int64]) -> Any:
        if self.options.goal is None:
            return None
        if not len(self.arrays["goal"]):
            found = "one that no state has"
            raise ModelError("goal", "a label of a state that can be reached", f"{quote(self.options.goal)}, {found}")
        return {names[s] for s in group[self.arrays["goal"]].tolist()}.__contains__


#: How the names of variables and reward structures that `solvent.formats.jani_costs` adds begin.
TAG = "_solvent_"
