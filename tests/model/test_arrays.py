from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from effort import draws
from solvent import CMDP, ModelError, instances

S, A, H = 3, 2, 4


def dyadic(rng: np.random.Generator, *shape: int) -> Any:
    """Return probabilities in sixteenths over the last axis, some of them zero, without rounding errors."""
    return rng.multinomial(16, np.ones(shape[-1]) / shape[-1], size=shape[:-1]) / 16


def by_builder(P: Any, R: Any, C: Any, q: Any = None, available: Any = None) -> CMDP:
    """Build the same model row by row. All arrays have a step axis, and C has axes of possible costs and resources."""
    d = C.shape[-1]
    resources = ["cost"] if d == 1 else [f"cost{i}" for i in range(d)]
    b = CMDP.builder(horizon=H, start=0, resources=resources, states=range(S), actions=range(A))
    for h in range(H):
        for s in range(S):
            if available is not None and not available[h, s].any():
                b.terminal(s, steps=[h])
            for a in range(A):
                if available is not None and not available[h, s, a]:
                    continue
                outcomes = [
                    (P[h, s, a, n] * (1 if q is None else q[h, s, a, k]), n, list(C[h, s, a, k]), float(R[h, s, a, n]))
                    for n in range(S)
                    for k in range(C.shape[3])
                ]
                b.add(s, a, outcomes=outcomes, steps=[h])
    return b.build()


def spread(array: Any, axes: str) -> Any:
    """Return an array with the given axes of h (step), s, a, n (next state or possible cost), d."""
    return array if "h" in axes else np.broadcast_to(array, (H, *array.shape))


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("kind", ["dense", "list", "stacked", "per action"])
def test_dense_and_sparse_arrays_give_the_model_of_the_builder(kind: str, steps: bool) -> None:
    rng = np.random.default_rng(1)
    P = dyadic(rng, *([H] if steps else []), S, A, S)
    R, C = rng.integers(-3, 4, (S, A)), rng.integers(-2, 5, (S, A)) / 4
    full = P if steps else np.broadcast_to(P, (H, *P.shape))

    def stacked(p: Any) -> Any:
        return sparse.csr_array(p.reshape(S * A, S))

    def per_action(p: Any) -> Any:
        return [sparse.coo_matrix(p[:, a]) for a in range(A)]

    given_P: Any = P
    if kind == "list":
        given_P = P.tolist()
    elif kind == "stacked":
        given_P = [stacked(p) for p in P] if steps else stacked(P)
    elif kind == "per action":
        given_P = [per_action(p) for p in P] if steps else per_action(P)
    model = CMDP.from_arrays(given_P, R, C, horizon=H)
    everywhere = np.broadcast_to(R[None, :, :, None], (H, S, A, S))
    expected = by_builder(full, everywhere, np.broadcast_to(C[None, :, :, None, None], (H, S, A, 1, 1)))
    assert model == expected
    assert model.is_stationary != steps
    assert model.probability.dtype == np.float64


@draws(40)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["sa", "hsa", "san", "hsan", "1sa", "1san"]),
    st.sampled_from(["sa", "sad", "hsa", "hsad"]),
    st.booleans(),
    st.booleans(),
)
def test_all_shapes_of_rewards_and_costs(seed: int, reward: str, cost: str, points: bool, mask: bool) -> None:
    rng = np.random.default_rng(seed)
    size = {"h": H, "1": 1, "s": S, "a": A, "n": S, "d": 2, "p": 5}
    cost = cost.replace("a", "ap") if points else cost
    P = dyadic(rng, S, A, S)
    R = rng.integers(-3, 4, [size[axis] for axis in reward])
    C = rng.integers(-2, 5, [size[axis] for axis in cost])
    q = dyadic(rng, S, A, 5) if points else None
    available = rng.random((S, A)) < 0.7 if mask else None
    if available is not None:
        available[0] = True
    model = CMDP.from_arrays(P, R, C, horizon=H, cost_probability=q, available=available)
    full_R = R if reward[0] in "h1" else R[None]
    full_R = np.broadcast_to(full_R if "n" in reward else full_R[..., None], (H, S, A, S))
    full_C = C if "h" in cost else C[None]
    full_C = full_C if "d" in cost else full_C[..., None]
    full_C = full_C if points else full_C[:, :, :, None, :]
    expected = by_builder(
        np.broadcast_to(P, (H, *P.shape)),
        full_R,
        np.broadcast_to(full_C, (H, *full_C.shape[1:])),
        None if q is None else np.broadcast_to(q, (H, *q.shape)),
        None if available is None else np.broadcast_to(available, (H, *available.shape)),
    )
    np.testing.assert_allclose(model.row_reward, expected.row_reward, atol=1e-12)
    for field in ("table_of_step", "row_indptr", "row_action", "outcome_indptr", "probability", "next_state"):
        np.testing.assert_array_equal(getattr(model, field), getattr(expected, field))
    assert model.cost == expected.cost
    assert model.resources == expected.resources


def test_tables_per_step_are_shared() -> None:
    P = np.ones((1, 1, 1))
    C = np.array([1, 2, 1, 2]).reshape(4, 1, 1)
    model = CMDP.from_arrays(P, [[0]], C, horizon=4)
    assert model.n_tables == 2
    assert model.table_of_step.tolist() == [0, 1, 0, 1]


def test_names() -> None:
    P = np.eye(2)[:, None, :]
    model = CMDP.from_arrays(
        P,
        [[0], [0]],
        [[[1, 2]], [[3, 4]]],
        horizon=2,
        start="b",
        states=["a", "b"],
        actions=["stay"],
        resources=("x", "y"),
        budget={"x": 1, "y": None},
        name="n",
        description="t",
    )
    assert (model.start, model.states, model.actions, model.resources) == ("b", ("a", "b"), ("stay",), ("x", "y"))
    assert (model.name, model.description) == ("n", "t")
    assert model.outcomes(1)[0].cost == {"x": 3, "y": 4}
    assert CMDP.from_arrays(P, [[0], [0]], [[1], [1]], horizon=1, states=np.arange(2)).states == (0, 1)


def test_objects_text_and_mixtures_stay_exact() -> None:
    P = np.full((1, 6, 1), 1)
    R = np.array([[Fraction(1, 2), 1, 2, 3, 4, 5]])
    long = 0.1 + 0.2
    C = [["1/3", Fraction(1, 7), 0.1, long, 2**53 + 1, "0.25"]]
    model = CMDP.from_arrays(P, R, C, horizon=1)
    values = [model.cost[0].value(i) for i in range(6)]
    assert values == [Fraction(1, 3), Fraction(1, 7), Fraction(1, 10), Fraction(long), 2**53 + 1, Fraction(1, 4)]
    assert model.row_reward.tolist() == [0.5, 1, 2, 3, 4, 5]
    numbers = CMDP.from_arrays(P[:, :2], R[:, :2], [[2**53 + 1, 0.5]], horizon=1)
    assert numbers.cost[0].value(0) == 2**53 + 1
    objects = np.array([[Fraction(1, 3), Fraction(2, 3)]])
    assert CMDP.from_arrays(P[:, :2], R[:, :2], objects, horizon=1).cost[0].unit == Fraction(1, 3)


def test_fractions_as_probabilities() -> None:
    third = Fraction(1, 3)
    tiny = Fraction(1, 10**400)
    P = [[[third, 2 * third, 0]], [[0, 1, tiny]], [[0, 0, 1]]]
    model = CMDP.from_arrays(P, np.zeros((3, 1)), np.zeros((3, 1)), horizon=2)
    assert model.probability.tolist() == [1 / 3, 2 / 3, 1, 5e-324, 1]


def test_products_of_small_probabilities_stay_positive() -> None:
    P = [[[1.0, 1e-200]], [[0, 1.0]]]
    q = [[[1.0, 1e-200]], [[1.0, 0.0]]]
    model = CMDP.from_arrays(P, np.zeros((2, 1)), [[[0, 9]], [[0, 9]]], horizon=2, cost_probability=q)
    costs = [(o.next_state, o.cost["cost"]) for o in model.outcomes(0)]
    assert costs == [(0, 0), (0, 9), (1, 0), (1, 9)]
    assert (model.probability > 0).all()


def test_integer_and_duplicate_entries_of_sparse_matrices() -> None:
    once = CMDP.from_arrays(sparse.eye(2, dtype=int, format="csc"), np.zeros((2, 1)), np.ones((2, 1)), horizon=2)
    assert once.probability.dtype == np.float64
    twice = sparse.csr_matrix(([0.5, 0.5, 1.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    for P in (twice, [twice]):
        assert CMDP.from_arrays(P, np.zeros((2, 1)), np.ones((2, 1)), horizon=2) == once


def test_states_that_offer_no_action_are_terminal() -> None:
    P = np.zeros((2, 1, 2))
    P[:, :, 1] = 1
    model = CMDP.from_arrays(P, [[1], [np.nan]], [[1], [np.nan]], horizon=2, available=[[True], [False]])
    assert model.n_rows == 1
    assert model.is_terminal(0, 1)
    with pytest.raises(ModelError, match="at least one row"):
        CMDP.from_arrays(P, [[1], [1]], [[1], [1]], horizon=2, available=[[False], [False]])


def test_a_state_masked_at_a_step_where_it_is_reached() -> None:
    available = np.array([[[1]], [[0]]], bool)
    with pytest.raises(ModelError, match="state 0: expected an action at step 1"):
        CMDP.from_arrays(np.ones((1, 1, 1)), [[0]], [[0]], horizon=2, available=available)


def test_minus_zero_is_zero() -> None:
    P, C = np.ones((1, 1, 1)), [[1]]
    zero = CMDP.from_arrays(P, [[0.0]], C, horizon=2)
    assert CMDP.from_arrays(P, [[-0.0]], C, horizon=2).fingerprint == zero.fingerprint
    assert CMDP.from_arrays(P, [[[0.0]], [[-0.0]]], C, horizon=2) == zero


def test_single_entries_are_not_ambiguous() -> None:
    model = CMDP.from_arrays([[[1]]], [[[2]]], [[[3]]], horizon=1)
    assert model.row_reward.tolist() == [2]
    assert model.cost[0].value(0) == 3


EYE = np.full((2, 2, 2), 0.5)
ZERO = np.zeros((2, 2))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"R": np.zeros((2, 2, 2))},
            r"^R: expected a shape that can be read in one way, found \(2, 2, 2\).*\(S, A, S\) or",
        ),
        ({"C": np.zeros((2, 2, 2))}, r"^C: expected a shape that can be read in one way, .*add a trailing axis"),
        ({"P": np.ones((2, 2))}, r"^P: expected shape \(S, A, S\) or \(H, S, A, S\), found shape \(2, 2\)"),
        ({"P": np.ones((2, 2, 3))}, r"^P: expected shape"),
        ({"P": np.ones((0, 2, 0))}, r"^P: expected shape"),
        ({"P": np.ones((2, 0, 2))}, r"^P: expected shape"),
        ({"P": np.ones((3, 2, 2, 2))}, r"^P: expected one array for each of 2 steps, found 3"),
        ({"P": [[1, 2], [3]]}, r"^P: expected an array of numbers"),
        ({"P": "P"}, r"^P: expected"),
        ({"P": [[["a"]]]}, r"^P: expected an array of numbers"),
        ({"P": [sparse.eye(2), np.eye(2)]}, r"^P: expected"),
        ({"P": sparse.csr_matrix((3, 2))}, r"^P: expected matrices of shape \(S \* A, S\), found shape \(3, 2\)"),
        ({"P": [sparse.eye(2), sparse.eye(3)]}, r"^P: expected square matrices of one size"),
        ({"P": [sparse.csr_matrix((4, 2))] * 3}, r"^P: expected one matrix for each of 2 steps, found 3"),
        ({"P": EYE * 0.9}, r"^0/0, probabilities: expected a sum of 1"),
        ({"P": EYE * np.nan}, r"^0/0, outcome 0, probability: expected a number from 0 to 1, found nan"),
        ({"P": EYE * [3, -1]}, r"^0/0, outcome 1, probability: expected a number from 0 to 1, found -0.5"),
        (
            {"R": np.zeros((3, 2))},
            r"^R: expected shape \(S, A\) or \(H, S, A\) with H=2, S=2, A=2, found shape \(3, 2\)",
        ),
        (
            {"R": np.zeros((1, 2, 2, 7))},
            r"^R: expected one reward for each of 2 next states, found shape \(1, 2, 2, 7\)",
        ),
        ({"R": np.zeros((1, 2, 2, 1))}, r"^R: expected one reward for each of 2 next states"),
        ({"R": [[np.inf, 0], [0, 0]]}, r"^0/0, reward: expected a finite number, found inf"),
        ({"R": [[10**400, 0], [0, 0]]}, r"^R: expected an array of numbers that floats can hold"),
        ({"R": [["x", 0], [0, 0]]}, r"^R: expected an array of numbers"),
        ({"C": [[1, 2], [3]]}, r"^C: expected an array of numbers"),
        ({"C": np.zeros((5, 2))}, r"^C: expected shape"),
        ({"C": np.zeros((2, 2), bool)}, r"^C: expected an array of numbers, found an array of type bool"),
        ({"C": [[0, 0], [np.nan, 0]]}, r"^C, 1/0, cost of cost: expected a finite number .* found nan"),
        ({"C": [[0, "x"], [0, 0]]}, r"^C, 0/1, cost of cost: expected a finite number .* found 'x'"),
        ({"available": [True]}, r"^available: expected shape"),
        ({"resources": ["x", "y"]}, r"^resources: expected 1 names, as in C, found 2"),
        ({"resources": "c"}, r"^resources: expected a list of names, found 'c'"),
        ({"states": ["x"]}, r"^states: expected 2 names, as in P, found 1"),
        ({"actions": ["x", "x"]}, r"^actions: expected each name once"),
        ({"start": 5}, r"^start: expected one of the model's states, found 5"),
        ({"horizon": 0}, r"^horizon: expected a whole number"),
        ({"cost_probability": [[1]]}, r"^cost_probability: expected shape \(S, A, n\)"),
        ({"cost_probability": [["x"]]}, r"^cost_probability: expected an array of numbers"),
        ({"cost_probability": np.ones((2, 2, 3)) / 3, "C": np.zeros((2, 2, 4))}, r"^C: expected 3 possible costs"),
        ({"cost_probability": np.full((2, 2, 2), 0.25), "P": EYE * 2, "C": EYE}, r"^cost_probability: .* sum to 1"),
        (
            {"cost_probability": np.full((2, 2, 1), -1), "P": -EYE, "C": ZERO[..., None]},
            r"^cost_probability: .* from 0 to 1",
        ),
        ({"cost_probability": np.full((2, 2, 1), np.nan), "C": ZERO[..., None]}, r"^cost_probability: "),
    ],
)
def test_invalid_arrays(arrays: dict[str, Any], message: str) -> None:
    arguments = {"P": EYE, "R": ZERO, "C": ZERO, "horizon": 2} | arrays
    with pytest.raises(ModelError, match=message):
        CMDP.from_arrays(**arguments)


def test_ambiguous_cost_arrays() -> None:
    C, q = np.zeros((2, 2, 2, 2)), np.full((2, 2, 2), 0.5)
    with pytest.raises(ModelError, match=r"^C: expected a shape that can be read in one way"):
        CMDP.from_arrays(EYE, ZERO, C, horizon=2, cost_probability=q)
    assert CMDP.from_arrays(EYE, ZERO, C[..., None], horizon=2, cost_probability=q).n_resources == 1


def test_the_given_arrays_are_not_changed() -> None:
    P, R, C = EYE.copy(), ZERO.copy(), ZERO.copy()
    model = CMDP.from_arrays(P, R, C, horizon=2)
    for array in (P, R, C):
        array[:] = 7
    assert model == CMDP.from_arrays(EYE, ZERO, ZERO, horizon=2)


def test_a_million_outcomes() -> None:
    n_states, n_actions, branching = 10_000, 10, 10
    rng = np.random.default_rng(3)
    columns = (rng.integers(n_states, size=(n_states * n_actions, 1)) + np.arange(branching)) % n_states
    data = np.full(columns.size, 0.1)
    indptr = np.arange(0, columns.size + 1, branching)
    P = sparse.csr_matrix((data, columns.ravel(), indptr), shape=(n_states * n_actions, n_states))
    R, C = rng.random((n_states, n_actions)), rng.random((n_states, n_actions))
    model = CMDP.from_arrays(P, R, C, horizon=50)
    assert model.n_outcomes == 10**6
    assert model.cost[0].fits
    for row in rng.integers(model.n_rows, size=50).tolist():
        state, action = divmod(row, n_actions)
        outcomes = model.outcomes(row)
        assert model.row_reward[row] == R[state, action]
        assert sorted(columns[row].tolist()) == [o.next_state for o in outcomes]
        assert {o.cost["cost"] for o in outcomes} == {Fraction(C[state, action])}


def test_arrays_of_an_instance() -> None:
    model = instances.random(4, 2, horizon=3, seed=5)
    assert CMDP.from_arrays(EYE, ZERO, ZERO, horizon=2) != model
