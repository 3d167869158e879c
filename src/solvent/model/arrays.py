"""Models from arrays of transitions, rewards and costs: dense or sparse, stationary or with a step axis."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import exact_column
from solvent.errors import ModelError
from solvent.model.budget import BudgetLike
from solvent.model.cmdp import CMDP
from solvent.model.consistency import PROBABILITY_TOLERANCE, check_horizon, check_names
from solvent.model.ends import EndRewardLike, GoalLike, StartLike, read_start
from solvent.model.resources import ResourceLike, as_resources
from solvent.model.validation import Accounts, Names, Rows, build_model


@dataclass(frozen=True)
class _Shape:
    """Number of steps, states and actions of the arrays."""

    horizon: int
    states: int
    actions: int

    @property
    def rows(self) -> tuple[int, int]:
        return self.states, self.actions


def from_arrays(
    P: Any,
    R: Any,
    C: Any,
    *,
    horizon: int,
    start: StartLike = 0,
    cost_probability: Any = None,
    available: Any = None,
    states: Sequence[Hashable] | None = None,
    actions: Sequence[Hashable] | None = None,
    resources: Sequence[ResourceLike] | None = None,
    budget: BudgetLike | None = None,
    end_reward: EndRewardLike | None = None,
    must_end_in: GoalLike | None = None,
    name: str = "",
    description: str = "",
) -> CMDP:
    """Return a model from transition, reward and cost arrays; see `CMDP.from_arrays` for the parameters.

    Raises
    ------
    ModelError
        If the shapes do not match or could be read in two ways, or the numbers are not a valid model.
    """
    horizon = check_horizon(horizon)
    transitions, n_states, n_actions = _read_transitions(P, horizon)
    shape = _Shape(horizon, n_states, n_actions)
    probabilities: list[Any] | None = None
    if cost_probability is not None:
        probabilities = _by_step(_read_floats(cost_probability, "cost_probability"), shape, 1, "cost_probability")
        _check_distributions(probabilities)
    cost_steps = _read_costs(C, shape, probabilities)
    reward_steps = _read_rewards(R, shape)
    available_steps = _by_step(
        np.ones(shape.rows, bool) if available is None else np.asarray(available, bool), shape, 0, "available"
    )
    n_resources = cost_steps[0].shape[-1]
    given = as_resources(_default_resources(n_resources) if resources is None else resources)
    if len(given) != n_resources:
        raise ModelError("resources", f"{n_resources} names, as in C", f"{len(given)}")
    names = Names(
        read_start(start),
        _names(states, n_states, "states"),
        _names(actions, n_actions, "actions"),
        tuple(each.name for each in given),
        name,
        description,
    )
    columns: list[list[Any]] = [transitions, reward_steps, cost_steps, available_steps, probabilities or [None]]
    varying = [column for column in columns if len(column) > 1]
    tables: dict[Hashable, int] = {}
    table_of_step = np.empty(horizon, np.int32)
    pieces: list[_Table] = []
    for h in range(horizon):
        table_of_step[h] = tables.setdefault(tuple(_content(column[h]) for column in varying), len(pieces))
        if table_of_step[h] == len(pieces):
            pieces.append(_table(shape, *(_pick(column, h) for column in columns)))
    rows = _join(pieces, names, horizon)
    accounts = Accounts(given, end_reward, must_end_in)
    return build_model(names, rows, horizon=horizon, table_of_step=table_of_step, budget=budget, accounts=accounts)


def _names(given: Sequence[Hashable] | None, count: int, kind: str) -> tuple[Hashable, ...]:
    names = check_names(given, kind)
    if names is None:
        return tuple(range(count))
    if len(names) != count:
        raise ModelError(kind, f"{count} names, as in P", f"{len(names)}")
    return names


def _default_resources(count: int) -> tuple[str, ...]:
    return ("cost",) if count == 1 else tuple(f"cost{i}" for i in range(count))


def _pick(steps: list[Any], h: int) -> Any:
    return steps[h] if len(steps) > 1 else steps[0]


def _content(entry: Any) -> Hashable:
    """Return a hashable key of the content, so that equal tables are stored once."""
    if entry is None:
        return None
    if _is_sparse(entry):
        return entry.indptr.tobytes(), entry.indices.tobytes(), entry.data.tobytes()
    return tuple(entry.ravel().tolist()) if entry.dtype == object else entry.tobytes()


def _is_sparse(value: Any) -> bool:
    return hasattr(value, "tocsr")


def _read_transitions(P: Any, horizon: int) -> tuple[list[Any], int, int]:
    """Return a matrix of shape (S * A, S) per step, dense or CSR, and S and A."""
    if _is_sparse(P):
        return _sparse_steps([P], 1)
    if _all_sparse(P):
        square = P[0].shape[0] == P[0].shape[1]
        return _sparse_steps([list(P)], len(P)) if square else _sparse_steps(list(P), horizon)
    if isinstance(P, list | tuple) and len(P) and all(map(_all_sparse, P)):
        return _sparse_steps([list(step) for step in P], horizon)
    dense = _read_floats(P, "P")
    if dense.ndim not in (3, 4) or dense.shape[-3] != dense.shape[-1] or not dense.size:
        raise ModelError("P", "shape (S, A, S) or (H, S, A, S)", f"shape {dense.shape}")
    if dense.ndim == 4 and dense.shape[0] != horizon:
        raise ModelError("P", f"one array for each of {horizon} steps", f"{dense.shape[0]}")
    n_states, n_actions = dense.shape[-3:-1]
    steps = dense.reshape(-1, n_states * n_actions, n_states)
    return list(steps), n_states, n_actions


def _all_sparse(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(map(_is_sparse, value))


def _sparse_steps(steps: list[Any], expected: int) -> tuple[list[Any], int, int]:
    from scipy import sparse

    matrices = []
    for step in steps:
        if isinstance(step, list):
            shapes = {matrix.shape for matrix in step}
            if len(shapes) != 1 or step[0].shape[0] != step[0].shape[1]:
                raise ModelError("P", "square matrices of one size, one per action", f"shapes {sorted(shapes)}")
            n_states, n_actions = step[0].shape[0], len(step)
            stacked = sparse.vstack([matrix.tocsr() for matrix in step], format="csr")
            order = np.arange(n_states * n_actions).reshape(n_actions, n_states).T.ravel()
            matrix = stacked[order]
        else:
            matrix = step.tocsr().copy()
        matrix.sum_duplicates()
        matrices.append(matrix)
    n_rows, n_states = matrices[0].shape
    if any(matrix.shape != (n_rows, n_states) for matrix in matrices) or not n_rows or n_rows % n_states:
        raise ModelError("P", "matrices of shape (S * A, S)", f"shape {matrices[0].shape}")
    if len(steps) > 1 and len(steps) != expected:
        raise ModelError("P", f"one matrix for each of {expected} steps", f"{len(steps)}")
    return matrices, n_states, n_rows // n_states


def _by_step(array: NDArray[Any], shape: _Shape, trailing: int, name: str) -> list[NDArray[Any]]:
    """Return the entries of the leading step axis, if there is one, of an array of shape (S, A, ...)."""
    plain = 2 + trailing
    text = "S, A" + ", n" * trailing
    if array.ndim == plain and array.shape[:2] == shape.rows:
        return [array]
    if array.ndim == plain + 1 and array.shape[1:3] == shape.rows and array.shape[0] in (1, shape.horizon):
        return list(array)
    raise ModelError(
        name,
        f"shape ({text}) or (H, {text}) with H={shape.horizon}, S={shape.states}, A={shape.actions}",
        f"shape {array.shape}",
    )


def _read_numbers(values: Any, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
        # NumPy converts lists of text and numbers to text, and lists of large integers and floats to floats
        mixed = array.dtype.kind in "US" or (array.dtype.kind == "f" and bool((np.abs(array) >= 2**53).any()))
        if mixed:
            array = np.array(values, dtype=object)
    except (TypeError, ValueError):
        raise ModelError(name, "an array of numbers", f"a {type(values).__name__} that cannot be converted") from None
    if array.dtype.kind not in "iufO":
        raise ModelError(name, "an array of numbers", f"an array of type {array.dtype}")
    return array


def _read_floats(values: Any, name: str) -> NDArray[np.float64]:
    """Return probabilities or rewards as floats; a fraction too small for a double does not become zero."""
    array = _read_numbers(values, name)
    if array.dtype != object:
        return array.astype(np.float64)
    try:
        floats = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(name, "an array of numbers that floats can hold", "other entries") from None
    lost = [number != 0 and rounded == 0 for number, rounded in zip(array.flat, floats.flat, strict=True)]
    return np.where(np.reshape(lost, array.shape), np.where(array > 0, 5e-324, -5e-324), floats)


def _check_distributions(steps: list[NDArray[np.float64]]) -> None:
    """Refuse invalid cost probabilities, which normalization with P could hide."""
    for probability in steps:
        total = probability.sum(-1)
        if not (probability >= 0).all() or not (np.abs(total - 1) <= PROBABILITY_TOLERANCE).all():
            raise ModelError("cost_probability", "numbers from 0 to 1 that sum to 1 over the last axis", "others")


def _read_rewards(R: Any, shape: _Shape) -> list[NDArray[np.float64]]:
    """Return rewards of shape (S, A) or (S, A, S) per step."""
    array = _read_floats(R, "R")
    by_transition = array.ndim == 3 and array.shape == (*shape.rows, shape.states)
    by_step = array.ndim == 3 and array.shape == (shape.horizon, *shape.rows)
    if by_transition and by_step and array.size > 1:
        raise ModelError(
            "R",
            "a shape that can be read in one way",
            f"{array.shape}, which could be (S, A, S) or (H, S, A)",
            "add a leading axis of length 1 for (S, A, S), or a trailing axis broadcast to S for (H, S, A)",
        )
    if array.ndim == 4 and array.shape[-1] != shape.states:
        raise ModelError("R", f"one reward for each of {shape.states} next states", f"shape {array.shape}")
    if array.ndim == 4 or by_transition:
        return _by_step(array, shape, 1, "R")
    return _by_step(array, shape, 0, "R")


def _read_costs(C: Any, shape: _Shape, probabilities: list[Any] | None) -> list[NDArray[Any]]:
    """Return costs of shape (S, A, n, d) per step."""
    array = _read_numbers(C, "C")
    points = 0 if probabilities is None else 1
    steps_first = array.ndim == 3 + points and array.shape[1:3] == shape.rows and array.shape[0] in (1, shape.horizon)
    resources_last = array.ndim == 3 + points and array.shape[:2] == shape.rows
    if steps_first and resources_last and array.shape[0] == shape.horizon and array.size > 1:
        raise ModelError(
            "C",
            "a shape that can be read in one way",
            f"{array.shape}, which could have a leading axis of steps or a trailing axis of resources",
            "add a trailing axis of length 1 for the resources",
        )
    if array.ndim == 2 + points or (steps_first and not resources_last):
        array = array[..., None]
    steps = _by_step(array, shape, 1 + points, "C")
    if probabilities is None:
        return [step[:, :, None, :] for step in steps]
    n = probabilities[0].shape[-1]
    if steps[0].shape[2] != n:
        raise ModelError("C", f"{n} possible costs, as in cost_probability", f"{steps[0].shape[2]}")
    return steps


@dataclass(frozen=True)
class _Table:
    """The rows of one table; costs are numbers as the user gave them, shape (O, d)."""

    rows_per_state: NDArray[np.int64]
    action: NDArray[np.int64]
    reward: NDArray[np.float64]
    outcomes_per_row: NDArray[np.int64]
    probability: NDArray[np.float64]
    next_state: NDArray[np.int64]
    cost: NDArray[Any]


def _table(
    shape: _Shape, P: Any, R: NDArray[np.float64], C: NDArray[Any], available: NDArray[np.bool_], q: Any
) -> _Table:
    row, following, p = _nonzero(P)
    offered = available.ravel()
    keep = offered[row]
    row, following, p = row[keep], following[keep], p[keep]
    n_rows = shape.states * shape.actions
    reward: NDArray[Any] = (
        R.ravel() if R.ndim == 2 else np.bincount(row, p * R.reshape(n_rows, -1)[row, following], n_rows)
    )
    n_points = C.shape[2]
    if q is not None:
        each, share = np.repeat(p, n_points), q.reshape(n_rows, -1)[row].ravel()
        # the product of two positive probabilities stays positive
        weight = np.where((each > 0) & (share > 0), np.maximum(each * share, 5e-324), each * share)
        point = np.tile(np.arange(n_points), len(row))
        row, following = np.repeat(row, n_points), np.repeat(following, n_points)
        p = weight
    else:
        point = np.zeros(len(row), np.int64)
    cost = C.reshape(n_rows, n_points, -1)[row, point]
    kept_rows = np.flatnonzero(offered)
    position = np.cumsum(offered) - 1
    return _Table(
        rows_per_state=available.sum(1).astype(np.int64),
        action=kept_rows % shape.actions,
        reward=reward[kept_rows],
        outcomes_per_row=np.bincount(position[row], minlength=len(kept_rows)),
        probability=p,
        next_state=following,
        cost=cost,
    )


def _nonzero(P: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    if _is_sparse(P):
        entries = P.tocoo()
        order = np.lexsort((entries.col, entries.row))
        row, following = entries.row[order].astype(np.int64), entries.col[order].astype(np.int64)
        return row, following, entries.data[order].astype(np.float64)
    # NaN and negative entries count as non-zero here and are refused by `build_model`
    row, following = np.nonzero(P)
    return row, following, P[row, following]


def _join(pieces: list[_Table], names: Names, horizon: int) -> Rows:
    def joined(key: str) -> NDArray[Any]:
        return np.concatenate([getattr(piece, key) for piece in pieces])

    def pointers(key: str) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(joined(key))]).astype(np.int64)

    row_indptr, outcome_indptr, action = (
        pointers("rows_per_state"),
        pointers("outcomes_per_row"),
        joined("action"),
    )

    def where(index: int, resource: str) -> str:
        row = int(np.searchsorted(outcome_indptr, index, side="right")) - 1
        state = (int(np.searchsorted(row_indptr, row, side="right")) - 1) % len(names.states)
        return f"C, {names.states[state]}/{names.actions[action[row]]}, cost of {resource}"

    cost = joined("cost")
    columns = tuple(
        exact_column(
            np.ascontiguousarray(cost[:, d]) if cost.dtype != object else cost[:, d].tolist(),
            steps=horizon,
            where=lambda index, name=name: where(index, name),  # type: ignore[misc]
        )
        for d, name in enumerate(names.resources)
    )
    return Rows(
        row_indptr=row_indptr,
        row_action=action.astype(np.int32),
        row_reward=joined("reward").astype(np.float64),
        outcome_indptr=outcome_indptr,
        probability=joined("probability"),
        next_state=joined("next_state").astype(np.int32),
        cost=columns,
    )
