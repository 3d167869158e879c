"""Models as files: YAML and JSON for people, NPZ for size. Nothing in a file can run code.

Numbers are read as the text that stands there, never through a float, and written so that they read back the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from solvent.core.exact import decimal
from solvent.core.files import read_plain, write_atomically
from solvent.core.loading import LoadLimits, check_limit, check_time, loading
from solvent.errors import ModelError, SolventError, did_you_mean, quote
from solvent.model.amounts import as_typed
from solvent.model.budget import Budget
from solvent.model.build import Builder
from solvent.model.cmdp import CMDP
from solvent.model.discounted import DiscountedCMDP, read_discount
from solvent.model.discounted_build import DiscountedBuilder
from solvent.model.distributions import CostDistribution

#: What a file can hold.
AnyModel = CMDP | DiscountedCMDP

_KINDS = ".yaml, .yml, .json or .npz"


def load_model(path: str | Path, *, limits: LoadLimits | None = None) -> AnyModel:
    """Load a model from a .yaml, .json or .npz file.

    Parameters
    ----------
    path : str or Path
        A plain file.
    limits : LoadLimits, optional
        What loading may cost at most; see `solvent.LoadLimits` for the defaults.

    Raises
    ------
    ModelError
        If there is no such file or it does not hold a model; the message names the field.
    LoadLimitError
        If loading it would cost more than `limits` allow.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from solvent.model import instances
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "knapsack.yaml"
    ...     instances.knapsack([3, 4], ["1/3", 3], capacity=4).save(file)
    ...     load_model(file).budget
    {'weight': Budget(4)}
    """
    if not isinstance(path, str | Path):
        raise ModelError("load", "the path of a model file", quote(path))
    path = Path(path)
    with loading(limits):
        reader = _reader(path)
        try:
            content = read_plain(path, _size_limit(path))
        except FileNotFoundError:
            hint = did_you_mean(path.name, _neighbors(path))
            raise ModelError(str(path), "a model file", "no such file", hint) from None
        except SolventError:
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ModelError(str(path), "a model file that can be read", reason) from None
        except MemoryError:
            raise ModelError(str(path), "a model that fits into memory", "one that does not") from None
        try:
            return reader(content)
        except ModelError as error:
            raise error.within(str(path)) from None


def loads(text: str | bytes, kind: str = "yaml", *, limits: LoadLimits | None = None) -> AnyModel:
    """Load a model from text or bytes of the given kind: "yaml", "json" or "npz"."""
    path = Path(f"model.{kind}")
    with loading(limits):
        reader = _reader(path)
        try:
            content = text.encode() if isinstance(text, str) else text
        except UnicodeEncodeError as error:
            raise ModelError("file", "text that UTF-8 can hold", quote(text[error.start : error.end])) from None
        limit = _size_limit(path)
        check_limit(limit, len(content), "bytes of text" if limit == "text_bytes" else "bytes")
        return reader(content)


def _size_limit(path: Path) -> str:
    return "file_bytes" if path.suffix.lower() == ".npz" else "text_bytes"


def save(model: AnyModel, path: str | Path) -> None:
    """Write a model to a .yaml, .json or .npz file, whole or not at all; the same as `model.save(path)`.

    Raises
    ------
    ModelError
        If the ending is none of these, the place cannot be written, or a name or distribution has no form in files.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind == ".npz":
        from solvent.formats.npz import to_bytes

        write_atomically(path, to_bytes(model))
    elif kind == ".json":
        write_atomically(path, _encode(json.dumps(to_entries(model), indent=1, ensure_ascii=False) + "\n"))
    elif kind in (".yaml", ".yml"):
        from solvent.formats.yaml12 import dump

        entries = to_entries(model)
        _encode(json.dumps(entries, ensure_ascii=False))  # libyaml would stop at what UTF-8 cannot hold
        write_atomically(path, dump(entries).encode())
    else:
        raise ModelError(str(path), f"a name ending in {_KINDS}", quote(path.suffix) if path.suffix else "no ending")


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        found = quote(text[error.start : error.end])
        raise ModelError("model", "names and texts that UTF-8 can hold", f"the lone surrogate {found}") from None


def _reader(path: Path) -> Callable[[bytes], AnyModel]:
    read = _parser(path)

    def guarded(content: bytes) -> AnyModel:
        try:
            return read(content)
        except RecursionError:
            raise ModelError("file", "a model", "a structure nested too deeply") from None
        except MemoryError:
            raise ModelError("file", "a model that fits into memory", "one that does not") from None

    return guarded


def _parser(path: Path) -> Callable[[bytes], AnyModel]:
    kind = path.suffix.lower()
    if kind == ".npz":
        from solvent.formats.npz import from_bytes

        return from_bytes
    if kind == ".json":
        return lambda content: from_entries(_parse_json(content))
    if kind in (".yaml", ".yml"):
        from solvent.formats.yaml12 import parse

        return lambda content: from_entries(parse(content))
    hint = "solvent.load_policy reads policies" if kind == ".policy" else ""
    found = quote(path.suffix) if path.suffix else "a folder" if path.is_dir() else "no ending"
    raise ModelError(str(path), f"a file ending in {_KINDS}", found, hint)


def _neighbors(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []


def _parse_json(content: bytes) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                raise ModelError("file", "each key once", f"{quote(key)} twice")
            result[key] = value
        return result

    try:
        return json.loads(content, parse_float=decimal, object_pairs_hook=unique)
    except SolventError:
        raise
    except ValueError as error:
        raise ModelError("file", "JSON", str(error)) from None


def from_entries(data: Any) -> AnyModel:
    """Return the model of a parsed file.

    Raises
    ------
    ModelError
        With the path of the field, or the state and action, at fault.
    """
    from solvent.formats.schema import choose_entries_reader

    return choose_entries_reader(data, READERS)(data)


def _from_entries_1(data: Any) -> AnyModel:
    """Return the model of a parsed file of format 1."""
    from solvent.formats.schema import read_entries

    file = read_entries(data)
    check_limit("resources", len(file.resources), "resources", "resources")
    if file.resources and len(set(file.resources)) != len(file.resources):
        raise ModelError("resources", "each name once", quote(file.resources))
    options: dict[str, Any] = {key: getattr(file, key) for key in ("start", "resources", "states", "actions")}
    options |= {"name": file.name, "description": file.description}
    options["budget"] = None if file.budget is None else _read_budgets(file.budget, file.resources)
    discount = read_discount(file.horizon, file.discount)
    builder: Builder | DiscountedBuilder
    if discount is not None:
        builder = DiscountedBuilder(discount=discount, **options)
    else:
        assert file.horizon is not None
        builder = Builder(horizon=file.horizon, **options)
    if file.states is None:
        _refuse_strangers(file)
    for entry in file.terminal:
        builder.terminal(entry.state, steps=entry.steps)
    for i, row in enumerate(file.rows):
        if not i % 256:
            check_time()
        builder.add(
            row.state,
            row.action,
            reward=row.reward,
            steps=row.steps,
            outcomes=[(o.probability, o.next, o.cost, o.reward) for o in row.outcomes],
        )
    return builder.build()


#: Readers of YAML and JSON files by format.
READERS: dict[int, Callable[[Any], AnyModel]] = {1: _from_entries_1}


def _read_budgets(limits: Mapping[str | None, Any], resources: list[str]) -> dict[str, Budget]:
    if None in limits and len(resources) != 1:
        names = ", ".join(map(quote, resources)) or "none"
        raise ModelError("budget", f"a limit for each resource ({names}) by name", "a bare limit")
    return {resources[0] if name is None else name: read_budget(limit) for name, limit in limits.items()}


def read_budget(limit: Mapping[str, Any]) -> Budget:
    """Return the budget that a checked entry of a file stands for."""
    if limit.get("final"):
        return Budget.final(limit.get("upper"), lower=limit.get("lower"))
    return Budget(upper=limit.get("upper"), lower=limit.get("lower"))


def _refuse_strangers(file: Any) -> None:
    """Without a list of states, a state that is only ever led to must be declared terminal: it may be a typo."""
    known = {row.state for row in file.rows} | {entry.state for entry in file.terminal}
    named = [("start", file.start)]
    named += [
        (f"rows[{i}].outcomes[{j}].next", outcome.next)
        for i, row in enumerate(file.rows)
        for j, outcome in enumerate(row.outcomes)
    ]
    for where, state in named:
        if state not in known:
            expected = "a state that has rows, or one listed under terminal"
            raise ModelError(where, expected, f"unknown state {quote(state)}", did_you_mean(state, known))


def plain(value: Fraction | float) -> int | float | str:
    """Return a number for a file: an int or float where its text reads back exactly, else text.

    Examples
    --------
    >>> plain(Fraction(1, 4)), plain(Fraction(1, 3)), plain(2.0)
    (0.25, '1/3', 2)
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if value.denominator == 1 and value.numerator.bit_length() < 1024:
        return value.numerator
    text = as_typed(value)
    try:
        close = float(value)
    except OverflowError:
        return str(text)
    return close if Fraction(Decimal(repr(close))) == value else str(text)


def encode_name(name: Hashable, kind: str) -> Any:
    """Return a name as JSON can hold it: text, a number, or a list for a tuple."""
    if isinstance(name, tuple) and name:
        return [part if isinstance(part, bool) else encode_name(part, kind) for part in name]
    if isinstance(name, Integral) and not isinstance(name, bool):
        return int(name)
    if isinstance(name, str) or (isinstance(name, float) and math.isfinite(name)):
        return str(name) if isinstance(name, str) else float(name)
    raise ModelError(
        f"{kind} {quote(name)}",
        "a name that files can hold: text, a number, or a tuple of them",
        f"a {type(name).__name__}",
    )


def decode_name(name: Any) -> Any:
    """Return the name of a state or action from what JSON holds of it."""
    from solvent.formats.schema import read_name

    return read_name(name, "header, names")


def to_entries(model: AnyModel) -> dict[str, Any]:
    """Return what a YAML or JSON file says of a model."""
    if isinstance(model, DiscountedCMDP):
        one_step = list(to_entries(model.base).items())
        at = [key for key, _ in one_step].index("horizon")
        return dict([*one_step[:at], ("horizon", None), ("discount", plain(model.discount)), *one_step[at + 1 :]])
    states = [encode_name(name, "state") for name in model.states]
    actions = [encode_name(name, "action") for name in model.actions]
    entries: dict[str, Any] = {"solvent": 1}
    entries |= {key: getattr(model, key) for key in ("name", "description") if getattr(model, key)}
    entries |= {"horizon": model.horizon, "start": encode_name(model.start, "state")}
    entries |= {"resources": list(model.resources), "states": states, "actions": actions}
    terminal = _terminal_entries(model, states)
    if terminal:
        entries["terminal"] = terminal
    if model.budget is not None:
        entries["budget"] = {name: encode_budget(budget) for name, budget in model.budget.items()}
    merged: dict[tuple[int, str], tuple[dict[str, Any], list[int]]] = {}
    for _, steps in model.steps_of_table():
        for state in range(model.n_states):
            for row in model.rows(steps[0], state):
                entry = {"state": states[state], "action": actions[model.row_action[row]]}
                entry |= {
                    "reward": plain(float(model.row_reward[row])),
                    "outcomes": _outcomes(model, row, states),
                }
                key = (state, json.dumps(entry))
                merged.setdefault(key, (entry, []))[1].extend(steps)
    order = {json.dumps(name): i for i, name in enumerate(actions)}
    rows = sorted(merged.items(), key=lambda item: (item[0][0], order[json.dumps(item[1][0]["action"])]))
    entries["rows"] = [_with_steps(entry, steps, model.horizon) for _, (entry, steps) in rows]
    return entries


def _terminal_entries(model: CMDP, states: list[Any]) -> list[Any]:
    entries: list[Any] = []
    empty = np.diff(model.row_indptr).reshape(model.n_tables, model.n_states) == 0
    for state in np.flatnonzero(empty.any(0)).tolist():
        name, ends = states[state], np.flatnonzero(empty[model.table_of_step, state]).tolist()
        if len(ends) == model.horizon:
            entries.append(name)
        else:
            entries.append({"state": name, "steps": _runs(ends)})
    return entries


def _with_steps(entry: dict[str, Any], steps: list[int], horizon: int) -> dict[str, Any]:
    if len(steps) == horizon:
        return entry
    return {**entry, "steps": _runs(sorted(steps))}


def _runs(steps: list[int]) -> list[int | str]:
    """Write runs of three or more steps as ranges."""
    result: list[int | str] = []
    first = 0
    for i in range(1, len(steps) + 1):
        if i == len(steps) or steps[i] != steps[i - 1] + 1:
            run = steps[first:i]
            result.extend([f"{run[0]}-{run[-1]}"] if len(run) > 2 else run)
            first = i
    return result


def _outcomes(model: CMDP, row: int, states: list[Any]) -> list[dict[str, Any]]:
    by_list = "distribution" in model.resources
    result = []
    for o in range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1])):
        entry = {"probability": plain(float(model.probability[o])), "next": states[model.next_state[o]]}
        costs = {name: encode_cost(model.cost_of(d, o)) for d, name in enumerate(model.resources)}
        if by_list:
            entry["cost"] = list(costs.values())
        elif any(cost != 0 for cost in costs.values()):
            entry["cost"] = {name: cost for name, cost in costs.items() if cost != 0}
        result.append(entry)
    return result


def encode_cost(cost: Fraction | CostDistribution) -> Any:
    """Return a cost as files hold it."""
    if not isinstance(cost, CostDistribution):
        return plain(cost)
    if not cost.in_files:
        raise ModelError(
            f"cost {cost}",
            "a distribution that files can name (solvent.distribution)",
            "a scipy distribution, which they cannot",
        )
    return {
        key: plain(Fraction(value)) if not isinstance(value, bool) and key != "distribution" else value
        for key, value in cost.as_entry().items()
    }


def encode_budget(budget: Budget) -> Any:
    """Return a budget as files hold it."""
    upper, lower = (_encode_side(side) for side in (budget.upper, budget.lower))
    if budget.only_final:
        entry = {"upper": upper, "lower": lower, "final": True}
        return {key: value for key, value in entry.items() if value is not None}
    if lower is None:
        return upper
    return {"lower": lower} if upper is None else {"upper": upper, "lower": lower}


def _encode_side(side: Any) -> Any:
    if isinstance(side, tuple):
        return [None if limit is None else plain(limit) for limit in side]
    return None if side is None else plain(side)
