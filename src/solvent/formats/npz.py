"""Models as NPZ: the arrays of `CMDP` and a JSON header with names, units and budgets. Nothing is pickled.

Names on disk do not change, so that old files stay readable: the header fields "about" and "laws" hold the description
and the distributions, and the array "law_DO" holds `distribution_DO`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent._version import __version__
from solvent.core.archives import (
    FORMAT,
    Arrays,
    Header,
    check_array,
    check_length,
    check_names_of_arrays,
    check_pointers,
    check_positions,
    choose_reader,
    read_archive,
    read_header,
    write_archive,
)
from solvent.core.exact import LONGEST_FILE_UNIT, ExactColumn, canonical, common_unit, exact
from solvent.core.loading import check_limit
from solvent.errors import ModelError, quote
from solvent.formats.encoding import (
    decode_budget,
    decode_distribution,
    decode_name,
    encode_budget,
    encode_cost,
    encode_name,
)
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.model.consistency import check_horizon, check_names
from solvent.model.discounted import AnyModel, DiscountedCMDP, read_discount
from solvent.model.ends import read_start
from solvent.model.resources import Resource, as_resources
from solvent.model.steps import StepSet
from solvent.model.validation import Accounts, Names, Rows, build_model

_ARRAYS = {
    "table_of_step": np.int32,
    "row_indptr": np.int64,
    "row_action": np.int32,
    "row_reward": np.float64,
    "outcome_indptr": np.int64,
    "probability": np.float64,
    "next_state": np.int32,
}
#: Arrays with one entry per state, which a file may leave out.
_BY_STATE = {"end_reward": np.float64, "may_end": np.bool_}
#: The first states and their probabilities, if there are several.
_START = {"start_state": np.int32, "start_probability": np.float64}
_UNIT = re.compile(r"[0-9]{1,2000}(/[0-9]{1,2000})?")


def write(model: AnyModel) -> bytes:
    """Return the content of an NPZ file that holds a model."""
    discount = model.discount if isinstance(model, DiscountedCMDP) else None
    model = model.base if isinstance(model, DiscountedCMDP) else model
    header = {
        "solvent": FORMAT,
        "version": __version__,
        "name": model.name,
        "about": model.description,
        "horizon": model.horizon,
        "start": None if isinstance(model.start, dict) else encode_name(model.start, "state"),
        "states": [encode_name(name, "state") for name in model.states],
        "actions": [encode_name(name, "action") for name in model.actions],
        "resources": list(model.resources),
        "units": [str(column.unit) if column.fits else "1" for column in model.cost],
        "decimal_digits": [column.decimal_digits for column in model.cost],
        "laws": [encode_cost(distribution) for distribution in model.distributions],
        "budget": None
        if model.budget is None
        else {name: encode_budget(budget) for name, budget in model.budget.items()},
    }
    if discount is not None:
        header |= {"horizon": None, "discount": str(discount)}
    if model.is_saturating:
        for side in ("floors", "ceilings"):
            header[side] = [None if end is None else str(end) for end in getattr(model, side)]
    arrays: dict[str, NDArray[Any]] = {name: getattr(model, name) for name in _ARRAYS}
    if isinstance(model.start, dict):
        arrays["start_state"] = np.array([model.state_index(name) for name in model.start], np.int32)
        arrays["start_probability"] = np.array(list(model.start.values()))
    arrays |= {name: getattr(model, name) for name in _BY_STATE if getattr(model, name) is not None}
    for d, column in enumerate(model.cost):
        arrays[f"cost{d}"] = column.ticks
        if not column.fits:  # the unit may have far more digits than any entry
            arrays[f"cost{d}"] = np.array([str(column.value(o)) for o in range(len(column))])
    if model.distribution_DO is not None:
        arrays["law_DO"] = model.distribution_DO
    return write_archive(arrays, header)


def read(content: bytes) -> AnyModel:
    """Return the model in an NPZ file.

    Raises
    ------
    ModelError
        If the content is not a valid model. Object arrays, which could run code, are refused.
    """
    arrays, header = read_archive(content)
    return choose_reader(header, "solvent", READERS, "a model")(header, arrays)


def read_resources(content: bytes) -> list[str]:
    """Return the names of the resources in an NPZ file."""
    return list(read_header(content).get("resources", []))


def _read(header: Header, arrays: Arrays) -> AnyModel:
    if header.get("discount") is None:
        return _rebuild(header, arrays)
    discount = read_discount(header.get("horizon"), header["discount"])
    assert discount is not None
    return DiscountedCMDP(_rebuild({**header, "horizon": 1}, arrays), discount)


#: Readers by format version. Format 2 is format 1 with a checksum. Format 3 may have floors and ceilings, several first
#: states, end rewards and goals, which readers of earlier versions would ignore.
READERS: dict[int, Callable[[Header, Arrays], AnyModel]] = {1: _read, 2: _read, 3: _read}


def _rebuild(header: Header, arrays: Arrays) -> CMDP:
    horizon = check_horizon(_field(header, "horizon", int))
    accounts = _resources(header)
    resources = tuple(each.name for each in accounts)
    states = check_names([decode_name(name) for name in _field(header, "states", list)], "states") or ()
    actions = check_names([decode_name(name) for name in _field(header, "actions", list)], "actions") or ()
    names = Names(
        _start(header, arrays, states),
        states,
        actions,
        resources,
        _field(header, "name", str),
        _field(header, "about", str),
    )
    parts = {name: check_array(arrays, name, dtype) for name, dtype in _ARRAYS.items()}
    n_outcomes = len(parts["probability"])
    distributions = tuple(
        decode_distribution(entry, f"laws[{i}]") for i, entry in enumerate(_field(header, "laws", list))
    )
    rows = Rows(
        **{name: part for name, part in parts.items() if name != "table_of_step"},
        cost=tuple(_column(header, arrays, d, n_outcomes) for d in range(len(resources))),
        distributions=distributions,
        distribution_DO=_distributions_used(arrays, len(resources), n_outcomes, len(distributions)),
    )
    _check_layout(names, rows, parts["table_of_step"], horizon)
    check_names_of_arrays(
        arrays, {*_ARRAYS, *_BY_STATE, *_START, "law_DO", *(f"cost{d}" for d in range(len(resources)))}
    )
    if rows.distribution_DO is not None:
        for d, column in enumerate(rows.cost):
            if column.ticks[rows.distribution_DO[d] != NO_DISTRIBUTION].any():
                raise ModelError(f"cost{d}", "zeros where law_DO names a distribution", "other numbers")
    budget = _field(header, "budget", object)
    limits = None
    if budget is not None:
        if not isinstance(budget, dict):
            raise ModelError("header, budget", "limits by resource", quote(budget))
        limits = {name: decode_budget(entry, f"budget, {name}") for name, entry in budget.items()}
    return build_model(
        names,
        rows,
        horizon=horizon,
        table_of_step=parts["table_of_step"],
        budget=limits,
        terminal_at=dict.fromkeys(range(len(states)), StepSet([range(horizon)])),
        accounts=_accounts(accounts, arrays, states),
    )


def _resources(header: Header) -> tuple[Resource, ...]:
    names = _field(header, "resources", list)
    check_limit("resources", len(names), "resources")
    if not all(isinstance(name, str) for name in names):
        raise ModelError("resources", "names that are non-empty text", quote(names))
    sides: dict[str, list[Fraction | None]] = {}
    for side in ("floors", "ceilings"):
        ends = header.get(side, [None] * len(names))
        if not isinstance(ends, list) or len(ends) != len(names):
            raise ModelError(f"header, {side}", f"{len(names)} numbers as text, or null", quote(ends))
        sides[side] = [_end(text, f"header, {side}[{d}]") for d, text in enumerate(ends)]
    ends_of = zip(names, sides["floors"], sides["ceilings"], strict=True)
    return as_resources([Resource(name, floor=floor, ceiling=ceiling) for name, floor, ceiling in ends_of])


def _end(text: Any, where: str) -> Fraction | None:
    if text is not None and not isinstance(text, str):
        raise ModelError(where, "a number as text, or null", quote(text))
    return None if text is None else exact(text, where)


def _start(header: Header, arrays: Arrays, states: tuple[Hashable, ...]) -> Hashable | dict[Hashable, float]:
    """Return the first state, or the probabilities of several in the order of the file."""
    first = _field(header, "start", object)
    if not _START.keys() & arrays.keys():
        return decode_name(first)  # type: ignore[no-any-return]
    if first is not None:
        raise ModelError("header, start", "null beside the array start_state", quote(first))
    places, chances = (check_array(arrays, name, dtype) for name, dtype in _START.items())
    check_positions("start_state", places, len(states))
    check_length("start_probability", chances, len(places))
    if len(np.unique(places)) != len(places):
        raise ModelError("start_state", "each state once", "one twice")
    return read_start({states[s]: p for s, p in zip(places.tolist(), chances.tolist(), strict=True)})


def _accounts(resources: tuple[Resource, ...], arrays: Arrays, states: tuple[Hashable, ...]) -> Accounts:
    given = {name: check_array(arrays, name, dtype) for name, dtype in _BY_STATE.items() if name in arrays}
    for name, array in given.items():
        check_length(name, array, len(states))
    goals = None
    if "may_end" in given:
        goals = {states[s] for s in np.flatnonzero(given["may_end"]).tolist()}.__contains__
    return Accounts(resources, given.get("end_reward"), goals)


def _field(header: Header, name: str, kind: type) -> Any:
    if name not in header:
        raise ModelError("header", f"a field {name!r}", "none")
    if not isinstance(header[name], kind):
        raise ModelError(f"header, {name}", f"a {kind.__name__}", quote(header[name]))
    return header[name]


def _column(header: Header, arrays: Arrays, d: int, n_outcomes: int) -> ExactColumn:
    units, digits = _field(header, "units", list), _field(header, "decimal_digits", list)
    name = f"cost{d}"
    array = arrays.get(name)
    if array is None or d >= len(units) or d >= len(digits):
        raise ModelError(name, "an array, a unit and a number of digits", "not all of these")
    if not isinstance(units[d], str) or not _UNIT.fullmatch(units[d]) or not isinstance(digits[d], int):
        raise ModelError(f"header, units[{d}]", "a positive number as text", quote(units[d]))
    numerator, _, denominator = units[d].partition("/")
    if not int(numerator) or not int(denominator or 1):
        raise ModelError(f"header, units[{d}]", "a positive number as text", quote(units[d]))
    unit = Fraction(int(numerator), int(denominator or 1))
    if array.shape != (n_outcomes,) or (array.dtype != np.int64 and array.dtype.kind != "U"):
        raise ModelError(name, f"{n_outcomes} whole numbers", f"{array.dtype} of shape {array.shape}")
    if array.dtype.kind == "U":
        texts = array.tolist()
        values = {text: exact(text, name) * unit for text in dict.fromkeys(texts)}
        unit = common_unit(values.values(), LONGEST_FILE_UNIT)
        ticks = {text: int(value / unit) for text, value in values.items()}
        return canonical(np.array([ticks[text] for text in texts], object), unit, digits[d])
    if len(array) and array.min() == np.iinfo(np.int64).min:
        raise ModelError(name, "numbers above -2**63", str(array.min()))
    return canonical(array, unit, digits[d])


def _distributions_used(
    arrays: Arrays, n_resources: int, n_outcomes: int, n_distributions: int
) -> NDArray[np.int32] | None:
    used = arrays.get("law_DO")
    if used is None:
        return None
    if used.dtype != np.int32 or used.shape != (n_resources, n_outcomes):
        raise ModelError(
            "law_DO", f"int32 of shape ({n_resources}, {n_outcomes})", f"{used.dtype} of shape {used.shape}"
        )
    check_positions("law_DO", used, n_distributions, NO_DISTRIBUTION)
    return used


def _check_layout(names: Names, rows: Rows, table_of_step: NDArray[np.int32], horizon: int) -> None:
    """Check the sizes of all arrays, and that their positions are in range."""
    n_states, n_rows = len(names.states), len(rows.row_action)
    n_tables, rest = divmod(len(rows.row_indptr) - 1, n_states) if n_states else (0, 1)
    if n_tables < 1 or rest:
        raise ModelError("row_indptr", f"a multiple of {n_states} entries, plus one", f"{len(rows.row_indptr)}")
    check_positions("table_of_step", table_of_step, n_tables)
    check_positions("row_action", rows.row_action, len(names.actions))
    check_positions("next_state", rows.next_state, n_states)
    check_length("table_of_step", table_of_step, horizon)
    check_length("row_reward", rows.row_reward, n_rows)
    check_pointers("row_indptr", rows.row_indptr, None, n_rows)
    check_pointers("outcome_indptr", rows.outcome_indptr, n_rows, len(rows.probability))
    check_length("next_state", rows.next_state, len(rows.probability))
    owner = np.repeat(np.arange(len(rows.row_indptr) - 1), np.diff(rows.row_indptr))
    if n_rows > 1 and ((np.diff(rows.row_action) <= 0) & (np.diff(owner) == 0)).any():
        raise ModelError("row_action", "each action of a state once, in increasing order", "another order")
