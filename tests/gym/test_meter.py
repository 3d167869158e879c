"""The own account of a `CostMeter`: the same whatever reads the meter, and clear about unknown names."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from foreign import Road

from solvent.core.exact import exact
from solvent.errors import ModelError
from solvent.gym import BudgetWrapper, CostMeter, EarlyTermination, ModelEnv
from solvent.model.instances import fuel_grid


class Reports(gymnasium.Env[Any, Any]):
    """Reports what a list says, one entry per step: the entries of `info`."""

    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, *infos: dict[str, Any]) -> None:
        self._infos = infos

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._step = 0
        return 0, {}

    def step(self, action: Any) -> Any:
        info = self._infos[self._step % len(self._infos)]
        self._step += 1
        return 0, 1.0, False, False, info


def play(env: Any) -> None:
    env.reset()
    for _ in range(3):
        env.step(0)


PAIR = {"costs": {"fuel": 1, "time": 2}}
#: A meter, and what is put around it.
CASES: list[tuple[Callable[[], CostMeter], Callable[[CostMeter], Any]]] = [
    (lambda: CostMeter(Reports(PAIR)), lambda meter: BudgetWrapper(meter, {"fuel": 9}, cost_bound=1)),
    (
        lambda: CostMeter(Reports(PAIR)),
        lambda meter: EarlyTermination(EarlyTermination(meter, {"time": 9}, layout="flat"), {"fuel": 9}),
    ),
    (lambda: CostMeter(Reports({**PAIR, "cost": 3})), lambda meter: BudgetWrapper(meter, 9, cost_bound=3)),
    (lambda: CostMeter(Reports({}), cost=1), lambda meter: BudgetWrapper(meter, {"fuel": 9}, cost_bound=1)),
    (lambda: CostMeter(Reports({"cost": 1})), lambda meter: BudgetWrapper(meter, {"fuel": 9}, cost_bound=1)),
    (lambda: CostMeter(Reports({}), cost=[1, 2]), lambda meter: EarlyTermination(meter, {"fuel": 9, "time": 9})),
    (lambda: CostMeter(Reports({}), cost=0), lambda meter: EarlyTermination(meter, {"fuel": 9, "time": 9})),
    (lambda: CostMeter(Road(report="six")), lambda meter: EarlyTermination(meter, {"fuel": 9})),
]


@pytest.mark.parametrize(("make", "around"), CASES)
def test_the_own_account_does_not_depend_on_what_reads_the_meter(
    make: Callable[[], CostMeter], around: Callable[[CostMeter], Any]
) -> None:
    alone, inside = make(), make()
    play(alone)
    play(around(inside))
    assert inside.spent == alone.spent
    assert inside.episodes() == alone.episodes()
    assert inside.violations(1) == alone.violations(1)


@pytest.mark.parametrize(
    ("info", "cost", "spent"),
    [
        (PAIR, None, {"fuel": 3, "time": 6}),
        ({}, 1, {"cost": 3}),
        ({}, [2], {"cost": 6}),
        ({}, [1, 2], {"0": 3, "1": 6}),
        ({"costs": {}}, None, {}),
        ({"costs": {}, "cost": 1}, None, {"cost": 3}),
        ({"costs": [1, 2]}, None, {"0": 3, "1": 6}),
    ],
)
def test_names_of_the_own_account(info: dict[str, Any], cost: Any, spent: dict[str, int]) -> None:
    meter = CostMeter(Reports(info), cost)
    play(meter)
    assert meter.spent == spent


def test_arrays_stand_for_the_same_numbers_in_every_account() -> None:
    for cost in (np.float32(0.1), np.array(0.1, np.float32), np.array([0.1], np.float32)):
        meter = CostMeter(Reports({}), cost=lambda *seen, cost=cost: cost)
        env = EarlyTermination(meter, 9)
        play(env)
        assert meter.spent == env.spent == {"cost": 3 * exact("0.1")}


def test_a_cost_function_is_called_once_per_step() -> None:
    calls: list[Any] = []

    def cost(*seen: Any) -> int:
        calls.append(seen)
        return len(calls)

    meter = CostMeter(Reports({}), cost=cost)
    env = EarlyTermination(EarlyTermination(meter, 100, layout="flat"), {"fuel": 100})
    play(env)
    assert len(calls) == 3
    assert (meter.spent["cost"], env.env.spent["cost"], env.spent["fuel"]) == (6, 6, 6)


def test_a_step_that_a_reader_refuses_is_on_the_account() -> None:
    meter = CostMeter(Reports({}), cost={"fuel": 1, "time": 2})
    env = EarlyTermination(meter, {"fuel": 9})
    env.reset()
    with pytest.raises(ModelError, match="found 'time'"):
        env.step(0)
    assert meter.spent == {"fuel": 1, "time": 2}
    broken = CostMeter(Reports({}), cost={"fuel": 1, "time": float("nan")})
    broken.reset()
    with pytest.raises(ModelError, match="step, cost of time: expected a finite number"):
        broken.step(0)
    assert (broken.spent, broken.episodes()) == ({}, [])


def test_a_resource_that_is_left_out_costs_nothing() -> None:
    meter = CostMeter(Reports({"costs": {"fuel": 1}}, {"costs": {"fuel": 1, "charge": -2}}))
    meter.reset()
    meter.step(0), meter.step(0)
    meter.reset()
    meter.step(0)
    first, second = meter.episodes()
    assert (first.spent, first.most) == ({"fuel": 2, "charge": -2}, {"fuel": 2, "charge": 0})
    assert second.most == {"fuel": 1}
    assert meter.violations({"charge": -1}) == 2
    assert meter.violations({"charge": 0}) == 0


def test_limits_on_resources_that_were_never_recorded() -> None:
    meter = CostMeter(Reports(PAIR))
    assert meter.violations({"feul": 0}) == 0  # nothing is known before the first step
    play(meter)
    said = r"budget: expected resources with a recorded cost \('fuel', 'time'\), found 'feul'; did you mean 'fuel'\?"
    with pytest.raises(ModelError, match=said):
        meter.violations({"feul": 0})
    with pytest.raises(ModelError, match="found 'wear'; report a cost of 0 in steps that cost nothing"):
        meter.violations({"fuel": 0, "wear": 0})
    plain = CostMeter(Reports({"cost": 1}))
    play(BudgetWrapper(plain, {"fuel": 9}, cost_bound=1))
    with pytest.raises(ModelError, match=r"\('cost'\), found 'fuel'; a cost without a name belongs to 'cost'"):
        plain.violations({"fuel": 0})
    assert (meter.violations({"time": 5}), meter.violations({"time": 6}), meter.violations(5)) == (1, 0, 1)
    with pytest.raises(ModelError, match="budget: expected a finite number"):
        meter.violations(None)  # type: ignore[arg-type]


def test_a_meter_is_for_a_single_environment() -> None:
    with pytest.raises(ModelError, match=r"CostMeter: expected a single Gymnasium environment, found 3; pass what gym"):
        CostMeter(3)  # type: ignore[arg-type]
    vector = gymnasium.vector.SyncVectorEnv([Road, Road])
    with pytest.raises(ModelError, match=r"expected a single .* found SyncVectorEnv.*; put a meter into every"):
        CostMeter(vector)  # type: ignore[arg-type]


def test_a_cost_function_that_cannot_take_its_arguments() -> None:
    said = r"^cost: expected a function of \(observation, action, next_observation\), found one of \(state, action\)$"
    with pytest.raises(ModelError, match=said):
        CostMeter(Road(), cost=lambda state, action: 1)  # type: ignore[arg-type]


def test_a_wrapper_that_is_not_used_does_not_disturb_others() -> None:
    for meter in (CostMeter(Reports(PAIR)), CostMeter(Reports({}), cost=PAIR["costs"])):
        unused = EarlyTermination(meter, 9)  # the resources have names, and no step of this wrapper is taken
        env = EarlyTermination(meter, {"fuel": 9, "time": 9})
        play(env)
        assert env.spent == meter.spent == {"fuel": 3, "time": 6}
        unused.reset()
        with pytest.raises(ModelError, match=r"expected resources of the model|expected a cost of every limited"):
            unused.step(0)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_meter_writes_for_readers_that_exist(copied: Callable[[Any], Any]) -> None:
    for meter in (CostMeter(Reports(PAIR)), ModelEnv(fuel_grid(3))):
        for _ in range(20):
            BudgetWrapper(meter, {"fuel": 9}, cost_bound=3)
        gc.collect()
        assert not list(meter._tapes)
        env = BudgetWrapper(meter, {"fuel": 9}, cost_bound=3)
        again = copied(env)
        gc.collect()
        assert len(list(meter._tapes)) == len(list(again.env._tapes)) == 1
        for each in (env, again):
            each.reset(seed=1)
            each.step(1)
        assert env.spent["fuel"] == again.spent["fuel"] > 0
