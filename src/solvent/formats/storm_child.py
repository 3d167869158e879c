"""Builds a model with Storm; run as a script, in a process of its own, by `solvent.formats.storm`.

Storm is compiled code that neither an interrupt nor a limit of this library can stop, and that writes messages to
standard output. A process can be stopped and its output discarded. Usage:

    python -P storm_child.py REQUEST RESULT

REQUEST is a JSON file; RESULT is the NPZ file to write. It holds either the arrays of the model or, in the header, the
reason why there is none. All numbers of the model are exact: `values` lists fractions as text, and arrays of numbers
are positions in that list. This file imports nothing of the package, so that it starts quickly.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

#: How Storm calls the variable that holds the location of an automaton begins.
_LOCATION = "_loc_"

#: The declaration of a variable in PRISM; variables are listed in this order.
_DECLARATION = re.compile(r"\b([A-Za-z_]\w*)\s*:\s*(?:\[|bool\b|int\b)")

#: Comments and texts of a PRISM program, which hold no keywords.
_IGNORED = re.compile(r'//[^\n]*|"[^"\n]*"')

#: The keyword of a PRISM program that states its type, and what keywords of earlier versions mean.
_KIND = re.compile(
    r"(?:\A|;|\bend[a-z]+)\s*\b(mdp|dtmc|ctmc|ma|pomdp|pta|popta|smg|csg|tsg|idtmc|imdp|lts|"
    r"nondeterministic|probabilistic|stochastic)\b(?=\s*(?:[A-Za-z_]|\Z))"
)
_EARLIER = {"nondeterministic": "mdp", "probabilistic": "dtmc", "stochastic": "ctmc"}


#: How a file begins that says to be UTF-8, read byte by byte.
_MARK = "\xef\xbb\xbf"


class _Read(NamedTuple):
    """What a file states.

    Attributes
    ----------
    model : SparseModel
        The model as Storm builds it.
    order : list of str or None
        Variables in the order in which they are listed, before all others; None if the file has no order.
    hidden : set of str
        Variables that are no part of a state.
    locations : dict of str to list of str
        Names of the locations of each automaton.
    is_chain : bool
        Whether the file states a DTMC, of which `model` is the MDP: its choices are equally likely.
    """

    model: Any
    order: list[str] | None = None
    hidden: frozenset[str] = frozenset()
    locations: dict[str, list[str]] = {}  # noqa: RUF012
    is_chain: bool = False


class RefusedError(Exception):
    """The file or the request is not valid; the arguments are those of `ModelError`.

    If a name is not known, `name` and `known` say which one, and which others there are.
    """

    def __init__(self, *args: str, name: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(*args)
        self.name, self.known = name, list(known)


class Values:
    """Exact numbers by position."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._place: dict[Any, int] = {}

    def index(self, value: Any) -> int:
        """Return the position of a number."""
        found = self._place.get(value)
        if found is None:
            found = self._place[value] = len(self.texts)
            self.texts.append(str(value))
        return found

    def array(self, values: Any) -> Any:
        """Return the positions of several numbers."""
        return np.fromiter((self.index(value) for value in values), np.int64)


def main(request_path: str, result_path: str) -> None:
    """Read the request, build the model and write the result."""
    with open(request_path, encoding="utf-8") as file:  # noqa: PTH123
        request = json.load(file)
    _limit_memory(request["memory"])
    try:
        header, arrays = _build(request)
    except RefusedError as error:
        header, arrays = {"refused": error.args, "name": error.name, "known": error.known}, {}
    except MemoryError:
        header, arrays = {"memory": True}, {}
    except Exception as error:  # whatever Storm raises: the message is all there is
        header, arrays = _explain(f"{type(error).__name__}: {error}", str(error), request["path"]), {}
    np.savez(result_path, header=np.array(json.dumps(header)), **arrays)


def _explain(text: str, message: str, path: str) -> dict[str, Any]:
    """Return the header for an error of Storm."""
    if "bad_alloc" in text:
        return {"memory": True}
    if "bad_any_cast" in text:
        hint = "write mod(a, b) as a - b * floor(a / b)"
        found = "a function such as mod or log"
        return {"refused": ("file", "probabilities and rewards with exact values", found, hint)}
    if "custom system compositions" in text:
        found = "a composition of its own"
        return {"refused": ("system", "modules that synchronize over all actions that they share", found)}
    message = message.replace(f"Error in {path}, line", "Error in line").replace(path, "the file")
    return {"storm": re.sub(r" into \S*gmp\S*", " as a number", message)}


def _limit_memory(limit: int) -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _build(request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    import stormpy

    stormpy.developer.set_log_level(stormpy.developer.LogLevel.OFF)
    if "target" in request:
        model = _read_drn(stormpy, request).model
        options = stormpy.io.UmbExportOptions()
        options.value_type = stormpy.io.UmbExportValueType.DOUBLE
        stormpy.io.export_to_umb(model, request["target"], options=options)
        return {}, {}
    read = _READERS[request["format"]](stormpy, request)
    model = read.model
    kind = str(model.model_type).rpartition(".")[2]
    if kind not in ("MDP", "DTMC"):
        raise RefusedError("model type", "an MDP or a DTMC", f"a {kind}", "")
    if not len(model.initial_states):
        raise RefusedError("initial states", "at least one", "none", "")
    n_entries = model.nr_choices + model.nr_transitions * (1 + len(request["rewards"]))
    if n_entries > request["entries"]:
        return {"entries": n_entries}, {}
    values = Values()
    arrays = _transitions(model, kind, values)
    available = {name or request["unnamed"]: each for name, each in model.reward_models.items()}
    if len(available) != len(model.reward_models):
        found = f"one without a name and one called {request['unnamed']}"
        raise RefusedError("reward structures", "distinct names", found, "")
    arrays |= _rewards(model, kind, request, available, values)
    variables = _valuations(read, arrays, values)
    labels = sorted(model.labeling.get_labels())
    if request["goal"] is not None:
        if request["goal"] not in labels:
            expected = f"one of the labels {', '.join(labels)}"
            raise RefusedError("goal", expected, repr(request["goal"]), "", name=request["goal"], known=labels)
        arrays["goal"] = np.array(list(model.labeling.get_states(request["goal"])), np.int64)
    arrays["values"] = np.array(values.texts)
    arrays["initial"] = np.array(sorted(model.initial_states), np.int64)
    header = {"states": model.nr_states, "variables": variables, "rewards": sorted(available)}
    header["is_chain"] = read.is_chain
    names = _choice_names(model, arrays)
    return header | {"choice_names": names}, arrays


# ---------------------------------------------------------------------------------------------------------------------
# formats


def _read_prism(stormpy: Any, request: dict[str, Any]) -> _Read:
    with open(request["path"], encoding="latin-1", newline="") as file:  # noqa: PTH123
        text = file.read().removeprefix(_MARK)
    is_chain = _normalize_prism(request["path"], text)
    program = stormpy.parse_prism_program(request["path"], prism_compatibility=True, simplify=False)
    unnamed = sum(not each.name for each in program.reward_models)
    if unnamed > 1:
        raise RefusedError("reward structures", "at most one without a name", f"{unnamed}", "")
    program = _instantiate(stormpy, program, request)
    place = {name: found.start() for found in _DECLARATION.finditer(text) for name in found.groups()}
    order = sorted((each.name for each in program.variables), key=lambda name: place.get(name, sys.maxsize))
    model = stormpy.build_model[stormpy.Rational](program, options=_options(stormpy))
    return _Read(model, order, is_chain=is_chain)


def _normalize_prism(path: str, text: str) -> bool:
    """Write a program as an MDP, in the words that Storm knows; return whether it is a DTMC."""
    bare = _IGNORED.sub(lambda found: " " * len(found.group()), text)
    stated = _KIND.search(bare)
    word = "mdp" if stated is None else stated.group(1)  # PRISM takes a program without a type for an MDP
    kind = _EARLIER.get(word, word)
    if kind not in ("mdp", "dtmc"):
        raise RefusedError("model type", "mdp or dtmc", kind, "")
    if re.search(r":\s*clock\b", bare):
        raise RefusedError("variables", "integers and truth values", "a clock", "")
    first, last = (0, 0) if stated is None else stated.span(1)
    if re.search(r"\bmodule\b", bare):  # otherwise Storm says what is wrong
        gap = " " * (last - first)
        leads = not bare[:first].strip()  # Storm expects the type before all else
        text = f"{text[:first]}mdp {text[last:]}" if leads else f"mdp {text[:first]}{gap}{text[last:]}"
    with open(path, "w", encoding="latin-1", newline="") as file:  # noqa: PTH123
        file.write(text)
    return kind == "dtmc"


def _read_jani(stormpy: Any, request: dict[str, Any]) -> _Read:
    with open(request["path"], encoding="utf-8") as file:  # noqa: PTH123
        text = file.read()
    program, _ = stormpy.parse_jani_model_from_string(text, property_filter=[])
    kind = str(program.model_type).rpartition(".")[2]
    if kind not in ("MDP", "DTMC"):
        raise RefusedError("type", "mdp or dtmc", kind.lower(), "")
    program.set_model_type(type(program.model_type).MDP)
    program = _instantiate(stormpy, program, request)
    order: list[str] = []
    hidden: list[str] = []
    locations = {}
    for each in program.global_variables:
        (hidden if each.is_transient else order).append(each.name)
    for automaton in program.automata:
        order += [f"{_LOCATION}{automaton.name}"]
        for each in automaton.variables:  # this is how Storm calls them in a state
            (hidden if each.is_transient else order).append(f"{automaton.name}_{each.name}")
        locations[automaton.name] = [each.name for each in automaton.locations]
    model = stormpy.build_model[stormpy.Rational](program, options=_options(stormpy))
    return _Read(model, order, frozenset(hidden) - frozenset(order), locations, kind == "DTMC")


def _read_drn(stormpy: Any, request: dict[str, Any]) -> _Read:
    with open(request["path"], encoding="latin-1") as file:  # noqa: PTH123
        head = file.read().partition("@model")[0]
    for field, accepted in (("type", ("MDP", "DTMC")), ("value_type", ("rational", "double"))):
        stated = re.search(rf"^@{field}:[ \t]*(.*?)\s*$", head, re.MULTILINE)
        if stated is not None and stated.group(1).lower() not in [each.lower() for each in accepted]:
            raise RefusedError(f"@{field}", " or ".join(accepted), stated.group(1), "")
    options = stormpy.io.DirectEncodingParserOptions()
    options.build_choice_labeling = "@nr_choices" in head  # Storm needs the number for labels
    return _Read(stormpy.build_model_from_drn[stormpy.Rational](request["path"], options=options))


def _read_umb(stormpy: Any, request: dict[str, Any]) -> _Read:
    options = stormpy.io.UmbImportOptions()
    options.value_type = stormpy.io.UmbImportValueType.RATIONAL
    options.build_choice_labeling = options.build_state_valuations = True
    return _Read(stormpy.build_model_from_umb(request["path"], options=options))


_READERS = {"prism": _read_prism, "jani": _read_jani, "drn": _read_drn, "umb": _read_umb}


def _options(stormpy: Any) -> Any:
    options = stormpy.BuilderOptions()
    options.set_build_all_reward_models()
    options.set_build_all_labels()
    options.set_build_state_valuations()
    options.set_build_choice_labels()
    options.set_exploration_checks()  # values out of bounds are errors
    return options


def _instantiate(stormpy: Any, program: Any, request: dict[str, Any]) -> Any:
    """Give the undefined constants of a program their values."""
    known = {each.name: each for each in program.constants}
    undefined = [name for name, each in known.items() if not each.defined]
    defined, wanted = {}, ", ".join(undefined) or "none"
    for name, text in request["constants"].items():
        where = f"constants, {name}"
        if name not in known:
            expected = f"a constant of the file (undefined: {wanted})"
            raise RefusedError(where, expected, "no such constant", "", name=name, known=undefined)
        if name not in undefined:
            raise RefusedError(where, f"an undefined constant ({wanted})", "one that the file defines", "")
        kind = known[name].type
        if kind.is_boolean != (text in ("true", "false")) or (kind.is_integer and "/" in text):
            expected = "true or false" if kind.is_boolean else "a whole number" if kind.is_integer else "a number"
            raise RefusedError(where, expected, text, "")
        if kind.is_boolean:
            defined[name] = text == "true"
        else:
            defined[name] = int(text) if kind.is_integer else stormpy.Rational(text)
    missing = [name for name in undefined if name not in defined]
    if missing:
        listed = ", ".join(f"{name} ({known[name].type})" for name in missing)
        example = f'constants={{"{missing[0]}": ...}}, or --constant {missing[0]}=...'
        raise RefusedError("constants", f"values of {listed}", "none", f"give {example}")
    if undefined:
        program, _ = stormpy.instantiate_constants(program, defined)
    return program.substitute_constants()


# ---------------------------------------------------------------------------------------------------------------------
# parts of a built model


def _transitions(model: Any, kind: str, values: Values) -> dict[str, Any]:
    n_choices, matrix = model.nr_choices, model.transition_matrix
    choice_indptr = np.arange(model.nr_states + 1, dtype=np.int64)
    if kind == "MDP":
        choice_indptr = np.array(model.nondeterministic_choice_indices, np.int64)
    lengths = np.empty(n_choices, np.int64)
    columns: list[int] = []
    probability: list[int] = []
    for row in range(n_choices):
        before = len(columns)
        for entry in matrix.get_row(row):
            value = entry.value
            if value != 0:
                columns.append(entry.column)
                probability.append(values.index(value))
        lengths[row] = len(columns) - before
    return {
        "choice_indptr": choice_indptr,
        "entry_indptr": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "next_state": np.array(columns, np.int64),
        "probability": np.array(probability, np.int64),
    }


def _rewards(
    model: Any, kind: str, request: dict[str, Any], available: dict[str, Any], values: Values
) -> dict[str, Any]:
    """Return the reward of each state and of each choice, for each structure that is asked for."""
    arrays: dict[str, Any] = {}
    for i, (name, where) in enumerate(request["rewards"]):
        if name not in available:
            known = sorted(each for each in available if not each.startswith(request["internal"]))
            expected = f"one of the reward structures {', '.join(known)}" if known else "a file with reward structures"
            raise RefusedError(where, expected, repr(name), "", name=name, known=known)
        each = available[name]
        if each.has_transition_rewards:
            raise RefusedError(where, "rewards of states and of actions", f"rewards of transitions in {name!r}", "")
        zero = values.index(0)
        by_state, by_choice = np.full(model.nr_states, zero), np.full(model.nr_choices, zero)
        if each.has_state_rewards:
            by_state = values.array(each.state_rewards)
        if each.has_state_action_rewards:
            by_choice = values.array(each.state_action_rewards)
        arrays |= {f"state_reward{i}": by_state, f"choice_reward{i}": by_choice}
    return arrays


def _valuations(read: _Read, arrays: dict[str, Any], values: Values) -> list[dict[str, Any]]:
    """Return the variables that make up a state, and add their values to the arrays."""
    model, locations = read.model, read.locations
    if not model.has_state_valuations():
        return []
    held = model.state_valuations
    variables: list[dict[str, Any]] = []
    named = {each.name: each for each in held.get_all_variables() if each.name not in read.hidden}
    known = [name for name in read.order or () if name in named]
    for name in [*known, *sorted(set(named) - set(known), key=_numerically)]:  # such as the elements of an array
        variable = named[name]
        entry: dict[str, Any] = {"name": name, "type": "int"}
        if variable.has_boolean_type():
            entry["type"] = "bool"
            column = np.zeros(model.nr_states, np.int64)
            column[np.array(list(held.get_boolean_values(variable)), np.int64)] = 1
        elif variable.has_integer_type():
            column = np.array(held.get_int64_values(variable), np.int64)
        else:
            entry["type"] = "number"
            column = values.array(held.get_rational_values(variable))
        automaton = name.removeprefix(_LOCATION)
        if automaton != name and automaton in locations:
            if len(locations[automaton]) < 2:
                continue
            entry |= {"type": "location", "locations": locations[automaton]}
            entry["name"] = name if automaton in named else automaton
        arrays[f"variable{len(variables)}"] = column
        variables.append(entry)
    return variables


def _numerically(name: str) -> list[tuple[int, str]]:
    """Return a key that orders names with numbers by these: a_2 before a_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def _choice_names(model: Any, arrays: dict[str, Any]) -> list[str]:
    """Return the distinct labels of choices, and add the position of each choice's label to the arrays."""
    place: dict[str, int] = {}
    numbers = np.empty(model.nr_choices, np.int64)
    labeling = model.choice_labeling if model.has_choice_labeling() else None
    for choice in range(model.nr_choices):
        text = "" if labeling is None else "+".join(sorted(labeling.get_labels_of_choice(choice)))
        numbers[choice] = place.setdefault(text, len(place))
    arrays["choice_name"] = numbers
    return list(place)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
