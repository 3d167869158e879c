"""Models of RDDL problems, through the optional package pyRDDLGym.

pyRDDLGym parses and grounds a problem. Each CPF is then an expression over ground fluents, and is evaluated here to a
distribution with exact probabilities instead of a sample:

    law(expression, fluents) = {value: probability}

The CPFs of a step are evaluated in the order of their levels, so that later ones see the values of earlier ones.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solvent.core.exact import Number, exact
from solvent.core.paths import read_path
from solvent.core.progress import ProgressLike
from solvent.errors import ModelError, SolventError, quote
from solvent.model.budget import BudgetLike
from solvent.model.functions import from_function
from solvent.model.resources import ResourceLike

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP

#: A distribution: the probability of each value.
Law = dict[Any, Fraction]
Fluents = dict[str, Any]

_NOOP = "noop"
_ONE = Fraction(1)
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "sgn": lambda x: (x > 0) - (x < 0),
    "round": round,
    "floor": math.floor,
    "ceil": math.ceil,
    "div": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "fmod": lambda x, y: x % y,
    "min": min,
    "max": max,
    "exp": lambda x: exact(math.exp(x)),
    "ln": lambda x: exact(math.log(x)),
    "sqrt": lambda x: exact(math.sqrt(x)),
    "pow": lambda x, y: x ** int(y) if y == int(y) else exact(float(x) ** float(y)),
}
_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": lambda x, y: x >= y,
    "<=": lambda x, y: x <= y,
    "<": lambda x, y: x < y,
    ">": lambda x, y: x > y,
    "==": lambda x, y: x == y,
    "~=": lambda x, y: x != y,
}


def from_rddl(
    domain: str | Path,
    instance: str | Path,
    cost: Number | Sequence[Any] | Mapping[str, Any] | Callable[[dict[str, Any], str, dict[str, Any]], Any],
    *,
    horizon: int | None = None,
    resources: Sequence[ResourceLike] = ("cost",),
    max_states: int = 100_000,
    progress: ProgressLike = True,
    budget: BudgetLike | None = None,
) -> CMDP:
    """Return the model of an RDDL problem; see `CMDP.from_rddl` for the parameters.

    Raises
    ------
    ModelError
        If the problem is not discrete, is partially observable, or has too many states.
    SolventError
        If pyRDDLGym is not installed.
    """
    problem = _Problem(*_paths(domain, instance))
    names = list(problem.model.state_fluents)

    def name_of(fluents: Fluents) -> str:
        return json.dumps({key: _plain(fluents[key]) for key in names})

    def fluents_of(state: str) -> Fluents:
        return {key: _number(value) for key, value in json.loads(state).items()}

    def actions(state: str) -> list[str]:
        return problem.actions(fluents_of(state))

    def outcomes(state: str, action: str) -> list[tuple[Fraction, str, Any, Fraction]]:
        before = fluents_of(state)
        shown = json.loads(state)
        merged: dict[str, list[Fraction]] = {}
        for p, after, reward in problem.outcomes(before, action):
            entry = merged.setdefault(name_of(after), [Fraction(0), Fraction(0)])
            entry[0] += p
            entry[1] += p * reward
        return [
            (p, after, cost(shown, action, json.loads(after)) if callable(cost) else cost, total / p)
            for after, (p, total) in merged.items()
        ]

    return from_function(
        name_of({key: _number(value) for key, value in problem.model.state_fluents.items()}),
        actions, outcomes, problem.model.horizon if horizon is None else horizon, resources=resources,
        max_states=max_states, progress=progress, budget=budget, name=str(problem.model.instance_name),
    )  # fmt: skip


def _paths(domain: Any, instance: Any) -> tuple[Path, Path]:
    """Return the files of a problem: given as paths, or by names in rddlrepository."""
    first, second = (
        read_path(given, f"from_rddl, {name}", "a path or a name")
        for name, given in (("domain", domain), ("instance", instance))
    )
    if first.is_file() and second.is_file():
        return first, second
    if first.suffix == ".rddl" or second.suffix == ".rddl":
        missing = first if not first.is_file() else second
        raise ModelError("from_rddl", "files of a domain and an instance", f"no file {quote(str(missing))}")
    try:
        from rddlrepository.core.manager import RDDLRepoManager
    except ImportError:
        raise SolventError(
            'from_rddl: expected rddlrepository, found no such package; pip install "solvent[rddl]"'
        ) from None
    try:
        found = RDDLRepoManager().get_problem(str(domain))
        return Path(found.get_domain()), Path(found.get_instance(str(instance)))
    except Exception as error:  # its own errors for unknown names
        raise ModelError("from_rddl", "a problem of rddlrepository", " ".join(str(error).split())) from None


class _Problem:
    """A ground problem."""

    def __init__(self, domain: Path, instance: Path) -> None:
        self.model = _ground(domain, instance)
        model = self.model
        if model.observ_fluents:
            raise ModelError("from_rddl", "a problem without observations", f"{next(iter(model.observ_fluents))}")
        for kind, fluents in (("state", model.state_fluents), ("action", model.action_fluents)):
            for name in fluents:
                found = model.variable_ranges[name]
                if found not in ("bool", "int") or (kind == "action" and found != "bool"):
                    wanted = "true or false" if kind == "action" else "a truth value or an integer"
                    raise ModelError(f"from_rddl, {kind} {quote(name)}", wanted, f"{found}")
        self.constants = {key: _number(value) for key, value in model.non_fluents.items()}
        self.cpfs = [
            (name, model.cpfs[name][1]) for level in sorted(model.level_to_cpfs) for name in model.level_to_cpfs[level]
        ]
        self.taken = self._action_sets()

    def _action_sets(self) -> dict[str, Fluents]:
        """Return the values of all action fluents for each action, by name."""
        model = self.model
        default = {key: bool(value) for key, value in model.action_fluents.items()}
        most = min(int(model.max_allowed_actions), len(default))
        sets = {}
        for size in range(most + 1):
            for changed in itertools.combinations(default, size):
                name = " + ".join(map(_shown, changed)) or _NOOP
                sets[name] = default | {key: not default[key] for key in changed}
        return sets

    def actions(self, state: Fluents) -> list[str]:
        """Return the actions of a state; none if the state is final."""
        if any(self._holds(each, state) for each in self.model.terminations):
            return []
        allowed = (name for name, values in self.taken.items() if self._allows(state | values))
        return list(allowed)

    def _allows(self, fluents: Fluents) -> bool:
        return all(self._holds(each, fluents) for each in self.model.preconditions)

    def _holds(self, expression: Any, fluents: Fluents) -> bool:
        law = self.law(expression, fluents)
        if len(law) != 1:
            raise ModelError("from_rddl", "conditions without random variables", str(expression)[:80])
        return bool(next(iter(law)))

    def outcomes(self, state: Fluents, action: str) -> Iterator[tuple[Fraction, Fluents, Fraction]]:
        """Yield the probability, the next state and the reward of each outcome."""
        branches = [(_ONE, state | self.taken[action])]
        for name, expression in self.cpfs:
            branches = [
                (p * q, fluents | {name: value})
                for p, fluents in branches
                for value, q in self.law(expression, fluents).items()
            ]
        for p, fluents in branches:
            reward = sum((_number(value) * q for value, q in self.law(self.model.reward, fluents).items()), Fraction(0))
            yield p, {key: fluents[f"{key}'"] for key in self.model.state_fluents}, reward

    def law(self, expression: Any, fluents: Fluents) -> Law:
        """Return the distribution of an expression, given the fluents."""
        kind, name = expression.etype
        args = expression.args
        if kind == "constant":
            return {_number(args): _ONE}
        if kind == "pvar":
            if name not in fluents and name not in self.constants:
                raise ModelError("from_rddl", "ground fluents", quote(name))
            return {fluents[name] if name in fluents else self.constants[name]: _ONE}
        if kind == "control" and name == "if":
            condition, yes, no = args
            return _mixed(
                (q, self.law(yes if value else no, fluents)) for value, q in self.law(condition, fluents).items()
            )
        if kind == "randomvar" and name in ("KronDelta", "DiracDelta"):
            return self.law(args[0], fluents)
        if kind == "randomvar" and name == "Bernoulli":
            return _mixed((q, _bernoulli(_number(p))) for p, q in self.law(args[0], fluents).items())
        apply = _operation(kind, name)
        if apply is None:
            raise ModelError("from_rddl", "Bernoulli, KronDelta and functions of discrete values", f"{kind} {name}")
        return self._combined(kind, name, args, fluents, apply)

    def _combined(self, kind: str, name: str, args: Any, fluents: Fluents, apply: Callable[..., Any]) -> Law:
        branches: dict[tuple[Any, ...], Fraction] = {(): _ONE}
        for arg in args:
            law = self.law(arg, fluents)
            grown: dict[tuple[Any, ...], Fraction] = {}
            for values, p in branches.items():
                for value, q in law.items():
                    grown[(*values, value)] = grown.get((*values, value), Fraction(0)) + p * q
            branches = grown
            if kind == "boolean" and name in ("^", "&", "|") and len(branches) == 1:
                [values] = branches
                if bool(values[-1]) == (name == "|"):  # decided already
                    return {name == "|": _ONE}
        found: Law = {}
        for values, p in branches.items():
            value = apply(*values)
            found[value] = found.get(value, Fraction(0)) + p
        return found


def _operation(kind: str, name: str) -> Callable[..., Any] | None:
    if kind == "arithmetic":
        return lambda *values: _arithmetic(name, [_number(value) for value in values])
    if kind == "boolean":
        return lambda *values: _boolean(name, [bool(value) for value in values])
    if kind == "relational":
        return _RELATIONS.get(name)
    return _FUNCTIONS.get(name) if kind == "func" else None


def _arithmetic(name: str, values: list[Fraction]) -> Fraction:
    if len(values) == 1:
        return -values[0] if name == "-" else values[0]
    total = values[0]
    for value in values[1:]:
        if name == "/" and value == 0:
            raise ModelError("from_rddl", "a quotient", "a division by zero")
        total = (
            total + value
            if name == "+"
            else total - value
            if name == "-"
            else total * value
            if name == "*"
            else total / value
        )
    return total


def _boolean(name: str, values: list[bool]) -> bool:
    if name == "~":
        return not values[0] if len(values) == 1 else values[0] != values[1]
    if name in ("^", "&"):
        return all(values)
    if name == "|":
        return any(values)
    return (not values[0]) or values[1] if name == "=>" else values[0] == values[1]


def _bernoulli(p: Fraction) -> Law:
    if not 0 <= p <= 1:
        raise ModelError("from_rddl, Bernoulli", "a probability", str(p))
    return {value: q for value, q in ((True, p), (False, 1 - p)) if q}


def _mixed(parts: Iterator[tuple[Fraction, Law]] | Any) -> Law:
    found: Law = {}
    for weight, law in parts:
        for value, p in law.items():
            found[value] = found.get(value, Fraction(0)) + weight * p
    return found


def _number(value: Any) -> Any:
    """Return a value of a fluent: a bool, or an exact number."""
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return bool(value)
    return value if isinstance(value, Fraction) else exact(value.item() if hasattr(value, "item") else value)


def _plain(value: Any) -> Any:
    """Return a value of a fluent for the name of a state."""
    if isinstance(value, bool):
        return value
    return int(value) if value == int(value) else str(value)


def _shown(fluent: str) -> str:
    """Return a ground fluent as people write it: `move(a, b)` instead of `move___a__b`."""
    name, separator, objects = fluent.partition("___")
    return f"{name}({', '.join(objects.split('__'))})" if separator else name


def _ground(domain: Path, instance: Path) -> Any:
    try:
        from pyRDDLGym.core.compiler.levels import RDDLLevelAnalysis
        from pyRDDLGym.core.grounder import RDDLGrounder
        from pyRDDLGym.core.parser.parser import RDDLParser
        from pyRDDLGym.core.parser.reader import RDDLReader
    except ImportError:
        raise SolventError(
            'from_rddl: expected pyRDDLGym, found no such package; pip install "solvent[rddl]"'
        ) from None
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            parser = RDDLParser(lexer=None, verbose=False)
            parser.build()
            model = RDDLGrounder(parser.parse(RDDLReader(str(domain), str(instance)).rddltxt)).ground()
            model.level_to_cpfs = RDDLLevelAnalysis(model).compute_levels()
    except Exception as error:  # the parser raises errors of many kinds
        raise ModelError("from_rddl", "a problem that pyRDDLGym can read", " ".join(str(error).split())[:200]) from None
    return model
