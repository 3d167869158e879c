"""Every argument of `learn` with values of wrong types: each is refused by a `SolventError` that names it."""

from __future__ import annotations

import inspect
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

import solvent
from solvent import ModelError, SolventError, instances


class Two(gymnasium.Env[Any, Any]):
    """Two states; action 1 leads to state 1 with reward 1 and cost 1, action 0 has no effect."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return int(action), float(action), False, False, {"cost": int(action)}


NO_FOLDER = Path("no such folder", "file")
VALUES: dict[str, Any] = {
    "nan": math.nan, "inf": math.inf, "-inf": -math.inf, "-1": -1, "0": 0, "2.5": 2.5, "1e308": 1e308, "tiny": 5e-324,
    "huge": 10**400, "-huge": -(10**400), "complex": 1j, "float16": np.float16(0.5), "int8": np.int8(3),
    "longdouble": np.longdouble(0.25), "complex64": np.complex64(1), "date": np.datetime64("2020-01-01"),
    "third": Fraction(1, 3), "decimal": Decimal("0.3"), "decimal nan": Decimal("NaN"),
    "signaling nan": Decimal("sNaN"), "decimal inf": Decimal("Infinity"),
    "true": True, "numpy true": np.True_, "none": None, "ellipsis": ..., "object": object(), "slice": slice(3),
    "not implemented": NotImplemented, "module": math, "namespace": SimpleNamespace(shape=3),
    "text": "text", "empty text": "", "number as text": "01", "bytes": b"1", "path": NO_FOLDER,
    "empty": [], "nested empty": [[]], "ragged": [1, [2]], "ragged rows": [[1, 2], [3]], "deep": [[[[1]]]],
    "one": (1,), "three": (0, 1, 2), "nan in two": (0, math.nan), "two inf": (math.inf, math.inf), "reversed": (1, 0),
    "two bools": (False, True), "two texts": ("0", "1"), "with huge": (0, 10**400), "wide": (-1e308, 1e308),
    "with complex": (0, 1j), "with none": (0, None), "set": {1}, "range": range(3),
    "array 0-d nan": np.array(math.nan), "array 0-d": np.array(1), "array 1": np.array([1]), "array 3": np.ones(3),
    "array 2-d": np.ones((2, 2)), "array 3x2": np.ones((3, 2)), "array 4-d": np.ones((2, 2, 2, 2)),
    "array empty": np.empty((0, 2)), "array nan": np.array([math.nan, 1]), "array bool": np.array([True, False]),
    "array text": np.array(["a", "b"]), "array object": np.array([1, "a", None], object),
    "array dates": np.array(["2020-01-01"], "datetime64[D]"), "uneven arrays": [np.ones((2, 2)), np.ones(2)],
    "dict": {}, "dict dict": {"cost": {}}, "dict other": {"x": 1}, "dict nan": {"cost": math.nan},
    "dict 2-d": {"cost": np.zeros((2, 2))}, "dict 3": {"cost": [1, 2, 3]}, "dict 1": {"cost": [1]},
    "dict ragged": {"cost": [1, [2]]}, "dict text": {"cost": "x"}, "dict none": {"cost": None},
    "dict true": {"cost": True}, "dict number": {1: 1}, "dict tuple": {(): 1}, "dict pair": {(0, 0): 3},
    "dict pair text": {(0, 0): "ab"}, "dict pair array": {(0, 0): np.ones((2, 2, 2))},
    "returns none": lambda *_: None, "returns nan": lambda *_: math.nan, "returns object": lambda *_: object(),
}  # fmt: skip

_FUNCTIONS = {"returns none", "returns nan", "returns object"}
_REALS = {"2.5", "1e308", "tiny", "float16", "int8", "longdouble"}
_EXACT = {"2.5", "float16", "int8", "longdouble", "third", "decimal", "number as text"}
_SWITCH = {"true", "numpy true"}
_LENGTH = {"huge", "int8"}
#: Values that are valid for each argument.
FINE: dict[str, set[str]] = {
    "env": set(),
    "horizon": {"int8"},
    "budget": _EXACT | {"-1", "0", "tiny", "three", "range", "array 0-d", "array 3", "dict other", "dict 3"},
    "epsilon": _REALS,
    "delta": {"tiny", "float16", "longdouble"},
    "cost_support": set(),  # no value is valid
    "spent": {"none"},  # for a model only
    "support": set(),
    "cost_bound": {
        "2.5", "1e308", "huge", "int8", "number as text", "with huge", "with none", "two texts", "array 0-d",
        "array 2-d",
    },
    "cost": _EXACT - {"number as text"} | {
        "-1", "0", "1e308", "huge", "-huge", "none", "one", "array 0-d", "array 1", "dict",
    },
    "approximation": {"none"},
    "epsilon_cost": _EXACT | {"1e308", "huge", "none"},
    "strict": _SWITCH,
    "stationary": _SWITCH | {"none"},
    "pool": _SWITCH,
    "bonus": set(),
    "bonus_scale": _REALS,
    "reward_range": {"none"},
    "return_range": {"none", "wide"},
    "random_start": _SWITCH,
    "random_rewards": _SWITCH | {"none"},
    "replan": set(),
    "max_episodes": _LENGTH,
    "time_limit": _REALS - {"tiny"} | {"inf", "huge", "none"},
    "memory_limit": {"huge", "1e308", "none"},
    "seed": _LENGTH | {"0"},
    "callback": _FUNCTIONS | {"none", "empty"},
    "progress": {"true", "none"} | _FUNCTIONS,
    "checkpoint": {"none", "text", "number as text"},
    "checkpoint_every": _LENGTH,
    "resume": set(),
    "limits": {"none"},
}  # fmt: skip
#: Text in the error if it does not contain the name of the argument.
SAID = {
    "env": "learn: ", "checkpoint": "a folder for a checkpoint", "time_limit": "the time limit of",
    "memory_limit": "the memory limit of",
}  # fmt: skip
#: Budgets and bounds that have no common unit with the costs are detected together with the costs.
NO_UNIT = "a common unit in which all sums fit 64-bit integers"


def test_every_argument_is_looked_at() -> None:
    assert set(FINE) == set(inspect.signature(solvent.learn).parameters)


def beside(name: str) -> dict[str, Any]:
    """Return other arguments that an argument requires: `cost_support`, and a rounding for `strict`."""
    known = {"cost_support": "learned"} if name not in ("support", "cost_bound") else {}
    return known | ({"epsilon_cost": 1} if name == "strict" else {})


@pytest.mark.parametrize("name", FINE)
def test_values_of_the_wrong_kind(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    taken = set()
    for label, value in VALUES.items():
        given = {"env": Two(), "horizon": 3, "budget": 2, "max_episodes": 3, **beside(name), name: value}
        try:
            solvent.learn(**given)
        except SolventError as error:
            said = str(error)
            assert name in said or SAID.get(name, NO_UNIT) in said, f"{label}: {said}"
        else:
            taken.add(label)
    assert taken == FINE[name]


@pytest.mark.parametrize("label", sorted(set(VALUES) - {"none"}))
def test_the_horizon_of_a_model(label: str) -> None:
    with pytest.raises(ModelError, match=r"^horizon: expected"):
        solvent.learn(instances.fuel_grid(2), VALUES[label], max_episodes=3)


BY_STATE = r"for bounds by state pass an array with one row per state, or a function of \(state, action\)"
ONE_EACH = r"expected a number, or 2 numbers, one for each action, found shape"


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        ({"cost": np.zeros((2, 2))}, rf"cost_bound, 'cost': {ONE_EACH} \(2, 2\); {BY_STATE}"),
        ({"cost": [1, 2, 3]}, rf"cost_bound, 'cost': {ONE_EACH} \(3,\); {BY_STATE}"),
        ({"cost": [1]}, rf"cost_bound, 'cost': {ONE_EACH} \(1,\); {BY_STATE}"),
        ({"cost": [1, [2]]}, rf"cost_bound, 'cost': {ONE_EACH} \(2, \?\); {BY_STATE}"),
        ([[1, 2], [3]], r"cost_bound: expected rows of the same length, found shape \(2, \?\)"),
        (np.ones((3, 2)), r"cost_bound: expected 2 rows, one for each state, found shape \(3, 2\)"),
        (np.ones(3), r"cost_bound: expected numbers of shape \(2,\), found shape \(3,\); bounds by observation have a"),
        (np.ma.masked_array([1, 9], [False, True]), r"cost_bound: expected numbers, found a masked array; use None"),
        ({"cost": np.ma.masked_array([1, 9])}, r"cost_bound: expected numbers, found a masked array; use None"),
        ({"fuel": 1}, r"cost_bound: expected numbers for each of 'cost', found 'fuel'"),
        ([1, math.nan], r"cost_bound\[1\]: expected a finite number .*, found nan"),
    ],
)
def test_bounds_of_the_wrong_shape(bound: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        solvent.learn(Two(), 3, 2, cost_bound=bound, max_episodes=3)


def test_bounds_of_several_resources() -> None:
    budget = {"fuel": 2, "wear": 2}
    with pytest.raises(ModelError, match=r"cost_bound, 'wear': .*found shape \(2, 2\); .* an array with one row"):
        solvent.learn(Two(), 3, budget, cost_bound={"fuel": [0, 1], "wear": np.ones((2, 2))})
    with pytest.raises(ModelError, match=r"cost_bound: expected 2 rows, one for each state, found shape \(3, 2, 2\)"):
        solvent.learn(Two(), 3, budget, cost_bound=np.ones((3, 2, 2)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"support": {(0, 0): 3}}, r"support of \(0, 0\): expected a list of pairs \(next state, cost\), found 3"),
        ({"support": lambda *_: math.nan}, r"support of \(0, 0\): expected a list of pairs .*, found nan"),
        ({"support": {}}, r"support: actions\(0\): expected at least one action at the start, found none"),
        ({"reward_range": (-1e308, 1e308)}, r"reward_range: .* 3 steps have a finite square .*, found -1e\+308 to"),
        ({"reward_range": "01"}, r"reward_range: expected two numbers, the least and the greatest reward, found '01'"),
        ({"reward_range": (0, 10**400)}, r"reward_range: expected two finite numbers, the least first, found \(0, 10"),
        ({"epsilon": 10**400}, r"epsilon: expected a number above 0, found 10"),
        ({"pool": "no"}, r"pool: expected True or False, found 'no'"),
        ({"stationary": 1}, r"stationary: expected True or False or None, found 1"),
        ({"callback": 3}, r"callback: expected a function of a LearnProgress, or None, found 3"),
        ({"checkpoint": 3}, r"checkpoint: expected a path, found 3"),
        ({"budget": {}}, r"budget: expected a limit on some resource, found \{\}"),
        ({"seed": np.timedelta64(1, "s")}, r"seed: expected a whole number of at least 0, found np.timedelta64"),
        ({"bonus": np.array(["theory", "practical"])}, r"bonus: expected 'practical' or 'theory', found array"),
    ],
)
def test_messages(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        solvent.learn(**{"env": Two(), "horizon": 3, "budget": 2, **options})
