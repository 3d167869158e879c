"""Continuous actions: accounts of floats never exceed the budget, and actions are moved no further than needed."""

from __future__ import annotations

import inspect
import math
import pickle
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from hypothesis import given
from hypothesis import strategies as st
from robots import FloatMeter, Motor, Switches

from solvent import Resource
from solvent.errors import BudgetError, ModelError, PolicyError, SolventError
from solvent.gym import ContinuousBudgetWrapper, CostMeter, NormCost

SIZES, WEIGHTS = st.integers(1, 12), st.sampled_from([1e-4, 0.1, 0.5, 1.0, 3.7, 1e3])


def bound_of(env: Motor) -> Any:
    return lambda observation, action: env._weight * float(np.sum(np.square(action)))


@given(SIZES, WEIGHTS, st.floats(0, 1), st.integers(0, 2**31), st.sampled_from(["norm", "function", "many"]))
def test_no_account_of_floats_exceeds_the_budget(size: int, weight: float, share: float, seed: int, kind: str) -> None:
    motor = Motor(size, weight, steps=60)
    meter = FloatMeter(motor)
    budget = share * 10 * weight * size
    bounds = {
        "norm": NormCost(weight),
        "function": bound_of(motor),
        "many": lambda observation, actions: weight * np.square(actions).sum(axis=1),
    }
    env = ContinuousBudgetWrapper(meter, budget, cost_bound=bounds[kind], vectorized=kind == "many")
    env.reset(seed=0)
    rng, truncated = np.random.default_rng(seed), False
    while not truncated:
        scale = 10.0 ** rng.uniform(-25 if rng.random() < 0.2 else -2, 0.5)
        proposed = (rng.normal(size=size) * scale).astype(np.float32)
        terminated, truncated = env.step(proposed)[2:4]
        assert not terminated
    assert meter.most <= Fraction(budget)
    assert meter.most_float <= budget
    assert meter.most_sum <= budget
    assert env.violations == 0


@pytest.mark.parametrize("bound", [NormCost(0.1), lambda observation, action: 0.1 * float(np.sum(action**2))])
def test_all_of_the_budget_is_used(bound: Any) -> None:
    meter = FloatMeter(Motor(6))
    env = ContinuousBudgetWrapper(meter, 5, cost_bound=bound, margin=1e-9)
    env.reset()
    for _ in range(50):
        info = env.step(np.ones(6, np.float32))[4]
    assert 5 * (1 - 1e-6) < meter.most <= 5
    assert info["action_scale"] < 1e-2
    assert np.abs(info["executed_action"]).max() < 1e-2


def test_a_meter_that_adds_up_float32_stays_within_the_budget() -> None:
    """As `spent += info["cost"]`, which keeps the type of NumPy's number; with a margin for float64, it does not."""
    rng = np.random.default_rng(3)
    over = {None: 0, 1e-9: 0}
    for limit, budget in ((None, 0.7), (None, 3), (40, 3), (40, 0.7), (400, 10.1), (400, 3)):
        for margin in over:
            motor = Motor(6) if limit is None else TimeLimit(Motor(6), limit)
            env = ContinuousBudgetWrapper(motor, budget, cost_bound=NormCost(0.1), margin=margin)
            most = 0.0
            for _ in range(8):
                env.reset()
                spent: Any = 0.0
                for _ in range(min(limit or 200, 200)):
                    scale = rng.choice([0.3, 0.7, 1])
                    info = env.step((np.sign(rng.uniform(-1, 1, 6)) * scale).astype(np.float32))[4]
                    spent += np.float32(info["cost"])
                assert type(spent) is np.float32
                over[margin] += int(spent > budget)
                most = max(most, float(spent))
            if margin is None:
                assert most > budget * (1 - 3 * ((limit or 1000) + 2) * 2**-24 - 2e-6)
    assert over[None] == 0
    assert over[1e-9] > 0


def test_what_fits_is_executed_unchanged() -> None:
    env = ContinuousBudgetWrapper(Motor(3), 100, cost_bound=NormCost(0.1))
    _, info = env.reset()
    assert "action_mask" not in info
    proposed = np.array([0.5, -0.25, 1.0], np.float32)
    info = env.step(proposed)[4]
    assert info["executed_action"].tolist() == proposed.tolist()
    assert info["action_scale"] == 1
    info = env.step(np.array([7.0, -7.0, 0.0]))[4]  # outside the space
    assert info["executed_action"].tolist() == [1, -1, 0]


@given(st.floats(0.01, 1), st.integers(0, 1000), st.sampled_from([1, 2, math.inf]), st.sampled_from([1, 2]))
def test_closed_form_and_search_agree(room: float, seed: int, order: float, power: int) -> None:
    norm = NormCost(0.3, order=order, power=power)
    action = np.random.default_rng(seed).uniform(-1, 1, 4).astype(np.float32)
    scales = []
    for bound in (norm, lambda observation, given: norm(observation, given)):
        env = ContinuousBudgetWrapper(Motor(4, 0), room * norm(None, action), cost=0, cost_bound=bound, margin=0)
        env.reset()
        scales.append(env.step(action)[4]["action_scale"])
    assert scales[0] == pytest.approx(scales[1], rel=2e-5)
    assert scales[0] == pytest.approx(min(room ** (1 / power), 1), rel=2e-5)


def test_a_naive_bound_would_be_over() -> None:
    """Without slack, float32 arithmetic exceeds the bound; the wrapper notices."""
    over = 0
    for seed in range(40):
        env = ContinuousBudgetWrapper(Motor(6), 100, cost_bound=NormCost(0.1), slack=0)
        env.reset()
        action = np.random.default_rng(seed).uniform(-1, 1, 6).astype(np.float32)
        try:
            env.step(action)
        except PolicyError:
            over += 1
    assert over > 5


def test_reserves_and_caps() -> None:
    env = ContinuousBudgetWrapper(Motor(1, 1.0), 5, cost_bound=NormCost(), reserve=4.5)
    env.reset()
    for _ in range(3):
        env.step(np.ones(1, np.float32))
    assert 0.499 < float(env.spent["cost"]) <= 0.5
    capped = ContinuousBudgetWrapper(Motor(1, 1.0), 5, cost_bound=NormCost(), step_cap="1/4")
    capped.reset()
    info = capped.step(np.ones(1, np.float32))[4]
    assert info["executed_action"][0] == pytest.approx(0.5, abs=1e-5)
    assert info["cost"] <= 0.25
    home = ContinuousBudgetWrapper(
        Motor(1, 1.0),
        2,
        cost_bound=NormCost(),
        reserve=lambda observation, action: abs(float(observation[0] + action[0])),
    )
    home.reset()
    for _ in range(20):
        home.step(np.ones(1, np.float32))
    assert float(home.remaining["cost"]) >= home._inner[0]  # the way back is always paid for


def test_several_resources() -> None:
    def cost(observation: Any, action: Any, after: Any) -> dict[str, float]:
        return {"energy": float(np.sum(action.astype(float) ** 2)), "wear": float(np.abs(action).max())}

    bounds = {"energy": NormCost(), "wear": NormCost(order=math.inf)}
    for stated in (
        bounds,
        lambda observation, action: {name: each(observation, action) for name, each in bounds.items()},
    ):
        env = ContinuousBudgetWrapper(Motor(2), {"energy": 4, "wear": 1.5}, cost, stated, step_cap={"wear": 0.75})
        env.reset()
        for _ in range(6):
            info = env.step(np.ones(2, np.float32))[4]
            assert info["costs"]["wear"] <= 0.75
        assert 1.499 < env.spent["wear"] <= Fraction(3, 2)
        assert env.spent["energy"] <= 4


def test_a_null_action_other_than_zero() -> None:
    class Hot(Motor):
        def step(self, action: Any) -> Any:
            seen, reward, terminated, truncated, _ = super().step(action)
            return seen, reward, terminated, truncated, {"cost": float(np.sum(np.square(action.astype(float) + 0.5)))}

    def bound(observation: Any, action: Any) -> float:
        return float(np.sum(np.square(action + 0.5)))

    env = ContinuousBudgetWrapper(Hot(2), 1, cost_bound=bound, null_action=[-0.5, -0.5])
    env.reset()
    for _ in range(10):
        info = env.step(np.ones(2, np.float32))[4]
    assert info["executed_action"] == pytest.approx([-0.5, -0.5], abs=1e-3)
    assert env.spent["cost"] <= 1
    assert env.violations == 0


def test_dead_ends() -> None:
    env = ContinuousBudgetWrapper(Motor(1), 2.5, cost=1, cost_bound=1)  # no action is free
    env.reset()
    first = env.step(np.zeros(1, np.float32))
    assert not first[2]
    _, reward, terminated, _, info = env.step(np.ones(1, np.float32) * -1)
    assert terminated
    assert info["dead_end"]
    assert info["dead_end_reward"] < -900  # a reward of -1.1, and 998 steps that are left
    assert reward == pytest.approx(-1.1 + info["dead_end_reward"])
    with pytest.raises(PolicyError, match="expected reset\\(\\) first, found an episode that is over"):
        env.step(np.zeros(1, np.float32))
    dead = ContinuousBudgetWrapper(Motor(1), 0.5, cost=1, cost_bound=1)
    with pytest.raises(SolventError, match="reset: expected a start at which the null action fits the budget"):
        dead.reset()
    late = ContinuousBudgetWrapper(Motor(1), 0.5, cost=1, cost_bound=1, dead_start="end")
    assert late.reset()[1]["dead_end"]
    assert late.step(np.zeros(1, np.float32))[1:4] == (0.0, True, False)


@pytest.mark.parametrize("spent", [1, Fraction(10**12 - 1, 10**12), "0.9999999995"])
def test_free_actions_fit_whatever_has_been_spent(spent: Any) -> None:
    """Also if the share of the budget that is not spent on purpose had been spent before."""
    env = ContinuousBudgetWrapper(Motor(), 1, cost_bound=NormCost(), spent=spent)
    env.reset()
    for _ in range(20):
        *_, terminated, _, info = env.step(np.ones(env.action_space.shape, np.float32))
        assert not terminated
        assert not info["executed_action"].any()
    assert env.spent["cost"] == Fraction(spent)
    over = ContinuousBudgetWrapper(Motor(), 1, cost_bound=NormCost(), spent=Fraction(10**12 + 1, 10**12))
    with pytest.raises(SolventError, match="expected a start at which the null action fits the budget"):
        over.reset()


def test_a_constant_bound_with_and_without_an_allowance_for_rounding() -> None:
    for options, steps in (({}, 2), ({"slack": 0, "margin": 0}, 3)):
        env = ContinuousBudgetWrapper(Motor(), 3, cost=1, cost_bound=1, **options)
        env.reset()
        found = 0
        terminated = False
        while not terminated:
            found, terminated = found + 1, env.step(np.ones(env.action_space.shape, np.float32))[2]
        assert found == steps


def test_costs_that_saturate() -> None:
    env = ContinuousBudgetWrapper(
        Motor(1),
        2,
        cost=lambda seen, action, after: float(action[0]),
        cost_bound=lambda seen, action: float(action[0]),
        resources=[Resource("cost", floor=0)],
        null_action=[-1.0],
        spent=1,
        margin=1e-9,
    )
    env.reset()
    for value in (-1.0, -1.0, 1.0, 1.0, 1.0):
        env.step(np.array([value], np.float32))
    assert Fraction(2) - Fraction(1, 10**5) < env.spent["cost"] <= 2


ENDS = st.sampled_from([None, "1/2", 1, 3])


@given(ENDS, ENDS, st.sampled_from([0, "1/2", 1, 2]), st.sampled_from([0, "1/4", 1, 2, 9]), st.booleans(), st.data())
def test_reserves_beside_floors_and_ceilings(
    floor: Any, ceiling: Any, spent: Any, reserve: Any, whole: bool, data: st.DataObject
) -> None:
    """What is executed, and whether anything is, by the definition: clamp(spent + bound) + reserve <= limit."""
    least = Fraction(0) if floor is None else -Fraction(floor)
    most = None if ceiling is None else Fraction(ceiling)
    account = Resource("cost", floor=None if floor is None else least, ceiling=most)
    if account.clamp(Fraction(spent)) != Fraction(spent):
        return
    space = spaces.MultiDiscrete([9]) if whole else spaces.Box(-1, 1, (1,), np.float32)

    def price(action: Any) -> Any:
        """Return a cost from -2 to 2 that is exact."""
        return Fraction(int(action[0]), 2) - 2 if whole else float(action[0]) * 2

    class Tank(gymnasium.Env[Any, Any]):
        observation_space, action_space = spaces.Box(0, 1, (1,), np.float32), space

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return np.zeros(1, np.float32), {}

        def step(self, action: Any) -> Any:
            return np.zeros(1, np.float32), 0.0, False, False, {"cost": price(action)}

    null = np.array([0]) if whole else np.array([-1.0])  # a refund of 2
    env = ContinuousBudgetWrapper(
        Tank(), 2, cost_bound=lambda seen, action: price(action), reserve=reserve, resources=[account], spent=spent,
        null_action=null, slack=0 if not whole else None, margin=0, dead_start="end",
    )  # fmt: skip

    def fits(before: Fraction, action: Any, more: Fraction = Fraction(0)) -> bool:
        return account.clamp(before + Fraction(price(action))) + Fraction(reserve) + more <= 2

    # floats are charged as the greater of two readings, and compared with sums that are rounded up
    rounding = Fraction(0) if whole else Fraction(1, 10**9)
    amount, dead = Fraction(spent), env.reset()[1]["dead_end"]
    for _ in range(4):
        assert fits(amount, null) if not dead else not fits(amount, null, rounding)
        if dead:
            break
        proposed = np.array([data.draw(st.integers(0, 8))]) if whole else np.float32([data.draw(st.floats(-1, 1))])
        info = env.step(proposed)[4]
        executed = info["executed_action"]
        assert fits(amount, executed)
        assert not fits(amount, proposed, rounding) or (executed == proposed).all()
        amount, dead = account.clamp(amount + Fraction(price(executed))), info["dead_end"]
        assert amount <= env.spent["cost"] <= min(amount + rounding, 2 - Fraction(reserve))


SPACES = [
    (spaces.MultiDiscrete([3, 2, 4]), [[0, 1, 5], [0, "1/3"], [0, 2, 1, 7]]),
    (spaces.MultiBinary(4), [[0, 1], [0, "0.1"], [0, 3], [0, 0]]),
    (spaces.MultiBinary((2, 2)), [[0, 1], [0, "0.1"], [0, 3], [0, 0]]),
]


if "start" in inspect.signature(spaces.MultiDiscrete).parameters:  # since Gymnasium 0.29
    SPACES.append((spaces.MultiDiscrete([3, 2], start=[1, 5]), [[0, 1, 5], [0, "1/3"]]))


@pytest.mark.parametrize(("space", "prices"), SPACES, ids=str)
@pytest.mark.parametrize("budget", ["0", "0.1", "4/3", "10"])
def test_several_discrete_actions(space: Any, prices: list[list[Any]], budget: str) -> None:
    switches = Switches(space, prices)
    null = np.asarray(getattr(space, "start", 0)) * np.ones(space.shape, space.dtype)
    env = ContinuousBudgetWrapper(switches, budget, cost_bound=switches.price, null_action=null.astype(space.dtype))
    env.reset()
    space.seed(0)
    spent = Fraction(0)
    for _ in range(40):
        mask = env.action_masks()
        assert len(mask) == sum(len(each) for each in prices)
        single = [price + spent <= Fraction(budget) for each in switches.prices for price in each]
        assert mask.tolist() == single
        proposed = space.sample()
        info = env.step(proposed)[4]
        executed = info["executed_action"]
        kept = (executed == proposed) | (executed == null)
        assert kept.all()
        spent += switches.price(0, executed)
        assert env.spent["cost"] == spent <= Fraction(budget)
        # no component that was given up would have fitted in addition
        for at in zip(*np.nonzero(executed != proposed), strict=True):
            more = executed.copy()
            more[at] = proposed[at]
            assert spent - switches.price(0, executed) + switches.price(0, more) > Fraction(budget)
        assert info["action_mask"].shape == mask.shape


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"ContinuousBudgetWrapper: expected a bound on the cost of actions, found none; pass cost_bound"),
        ({"cost_bound": 1, "slack": -1}, r"slack: expected a number of at least 0 and less than 1, found -1"),
        ({"cost_bound": 1, "margin": 1}, r"margin: expected a number of at least 0 and less than 1, found 1"),
        ({"cost_bound": 1, "null_action": [2.0]}, r"null_action: expected an action of Box"),
        ({"cost_bound": 1, "dead_start": "stop"}, r"dead_start: expected 'raise' or 'end', found 'stop'"),
        ({"cost_bound": {"fuel": 1}}, r"cost_bound: expected limited resources \('cost'\), found 'fuel'"),
        ({"cost_bound": 1, "step_cap": {"cots": 1}}, r"step_cap: .*found 'cots'; did you mean 'cost'\?"),
        ({"cost_bound": 1, "layout": "rllib"}, r"layout: expected 'dict' or 'flat', as there are no masks for Box"),
        ({"cost_bound": 1, "mask_in_observation": True}, r"mask_in_observation: expected False"),
        ({"cost_bound": 1, "dead_end_reward": math.nan}, r"dead_end_reward: expected a finite number, or None"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        ContinuousBudgetWrapper(Motor(1), 1, **options)


def test_wrong_spaces_and_actions() -> None:
    with pytest.raises(
        ModelError,
        match=r"expected an action space Box, MultiDiscrete or MultiBinary, found Discrete.*use BudgetWrapper",
    ):
        ContinuousBudgetWrapper(gymnasium.make("CartPole-v1"), 1, cost_bound=1)
    with pytest.raises(ModelError, match="ContinuousBudgetWrapper: expected a Gymnasium environment, found 3"):
        ContinuousBudgetWrapper(3, 1, cost_bound=1)  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="step_cap: expected a cap for each of 'a', 'b' by name"):
        ContinuousBudgetWrapper(Motor(1), {"a": 1, "b": 1}, cost_bound=1, step_cap=1)
    env = ContinuousBudgetWrapper(Motor(2), 1, cost_bound=NormCost(0.1))
    with pytest.raises(PolicyError, match="no episode"):
        env.step(np.zeros(2, np.float32))
    env.reset()
    for wrong in (np.zeros(3, np.float32), [np.nan, 0.0], "fast", None, [np.inf, 0]):
        with pytest.raises(PolicyError, match="finite numbers of shape"):
            env.step(wrong)
    env.step([0.0, 0.1])  # a refused action does not end the episode
    with pytest.raises(ModelError, match="action_masks: expected MultiDiscrete or MultiBinary actions"):
        env.action_masks()
    switches = Switches(*SPACES[0])
    several = ContinuousBudgetWrapper(switches, 1, cost_bound=switches.price)
    several.reset()
    for action in ([0, 0, 9], [0.5, 0, 0]):
        with pytest.raises(PolicyError, match="an action of MultiDiscrete"):
            several.step(action)


def test_bounds_that_are_wrong() -> None:
    env = ContinuousBudgetWrapper(Motor(2), 1, cost_bound=NormCost(0.01))
    env.reset()
    with pytest.raises(
        PolicyError, match=r"step 0, cost of cost: expected at most about 0\.02.*found about 0\.2.*use a constant"
    ):
        env.step(np.ones(2, np.float32))
    assert env.violations == 0  # the budget was kept nevertheless
    with pytest.raises(PolicyError, match="an episode that ended with an error"):
        env.step(np.zeros(2, np.float32))
    nan = ContinuousBudgetWrapper(
        Motor(2), 1, cost_bound=lambda observation, actions: np.full(len(actions), np.nan), vectorized=True
    )
    with pytest.raises(ModelError, match="cost_bound: expected numbers, found NaN"):
        nan.reset()
    shape = ContinuousBudgetWrapper(Motor(2), 1, cost_bound=lambda observation, actions: np.zeros(7), vectorized=True)
    with pytest.raises(ModelError, match=r"cost_bound: expected numbers of shape \(1, 1\), one row per action"):
        shape.reset()
    with pytest.raises(ModelError, match="weight: expected a finite number of at least 0, found -1"):
        NormCost(-1)
    with pytest.raises(ModelError, match="order: expected 1, 2 or infinity, found 3"):
        NormCost(1, order=3)
    with pytest.raises(ModelError, match="power: expected 1 or 2, found 3"):
        NormCost(1, power=3)


def test_wrappers_that_change_actions() -> None:
    inner = gymnasium.wrappers.RescaleAction(Motor(2), np.float32(-0.1), np.float32(0.1))
    with pytest.raises(ModelError, match=r"cost_bound: expected no wrapper inside .* found RescaleAction; put Rescale"):
        ContinuousBudgetWrapper(inner, 1, cost_bound=NormCost(0.1))
    ContinuousBudgetWrapper(inner, 1, cost_bound=NormCost(10.0).__call__)  # of the actions that arrive there
    normed = ContinuousBudgetWrapper(Motor(2), 1, cost_bound=NormCost(0.1))
    outer = gymnasium.wrappers.RescaleAction(normed, np.float32(-0.1), np.float32(0.1))
    outer.reset()
    for _ in range(9):
        outer.step(np.full(2, 0.1, np.float32))
    assert 0.99 < normed.spent["cost"] <= 1


def test_wrappers_that_repeat_actions() -> None:
    class Twice(gymnasium.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            self.env.step(action)
            return self.env.step(action)

    env = ContinuousBudgetWrapper(Twice(CostMeter(Motor(2))), 1, cost_bound=lambda seen, action: 0.4)
    env.reset()
    with pytest.raises(ModelError, match="step 0: expected one step of the environment for each action, found several"):
        env.step(np.ones(2, np.float32))
    inside = Twice(ContinuousBudgetWrapper(CostMeter(Motor(2)), 1, cost_bound=NormCost(0.1)))
    inside.reset()
    for _ in range(5):
        inside.step(np.ones(2, np.float32))
    assert 0.99 < inside.env.spent["cost"] <= 1


def test_forbidden_actions() -> None:
    env = ContinuousBudgetWrapper(
        Motor(1, 0), 1, cost=0, cost_bound=lambda observation, action: math.inf if action[0] > 0.5 else 0
    )
    env.reset()
    assert env.step(np.ones(1, np.float32))[4]["executed_action"][0] == pytest.approx(0.5, abs=1e-6)
    for ceiling in ("1/2", 2):  # also if no cost at all could exceed the limit
        tank = ContinuousBudgetWrapper(
            Motor(1, 0), 1, cost=0, resources=[Resource("cost", ceiling=ceiling)],
            cost_bound=lambda observation, action: None if action[0] > 0.5 else 0,
        )  # fmt: skip
        tank.reset()
        assert tank.step(np.ones(1, np.float32))[4]["executed_action"][0] == pytest.approx(0.5, abs=1e-6)


def test_bounds_are_rarely_computed_when_nothing_remains() -> None:
    """The closed form says at once that only the null action fits."""

    class Counted(NormCost):
        calls = 0

        def __call__(self, observation: Any, action: Any) -> Any:
            type(self).calls += 1
            return super().__call__(observation, action)

    env = ContinuousBudgetWrapper(Motor(3, 1.0, steps=300), 1, cost_bound=Counted())
    env.reset()
    for _ in range(50):
        env.step(np.ones(3, np.float32))
    before = Counted.calls
    for _ in range(100):
        assert not env.step(np.ones(3, np.float32))[4]["executed_action"].any()
    assert Counted.calls - before <= 400


def test_vectorized_bounds_by_resource() -> None:
    def make(bound: Any) -> ContinuousBudgetWrapper:
        env = ContinuousBudgetWrapper(Motor(1), {"fuel": 2, "wear": 1}, lambda *_: {}, bound, vectorized=True)
        env.reset()
        return env

    env = make(lambda seen, actions: {"fuel": np.abs(actions[:, 0]), "wear": 0})
    assert env.step(np.ones(1, np.float32))[4]["action_scale"] == 1
    make(lambda seen, actions: {"fuel": actions[:, 0]})  # what is not named costs nothing
    with pytest.raises(ModelError, match=r"cost_bound, cost: expected resources of the model .*, found 'fule'"):
        make(lambda seen, actions: {"fule": actions[:, 0]})
    for bound in (
        lambda seen, actions: {"fuel": np.ones(2)},
        {"fuel": lambda seen, actions: np.ones(2), "wear": 0},
    ):
        with pytest.raises(
            ModelError, match=r"cost_bound, 'fuel': expected 1 numbers, one per action, found shape \(2,\)"
        ):
            make(bound)


def test_the_negative_of_a_key_and_meters() -> None:
    meter = CostMeter(Motor(2), cost="-reward_ctrl")
    env = ContinuousBudgetWrapper(meter, 1, cost_bound=NormCost(0.1))
    env.reset()
    for _ in range(9):
        env.step(np.ones(2, np.float32))
    (episode,) = meter.episodes()
    assert episode.steps == 9
    assert 0.99 < episode.most["cost"] <= 1
    assert meter.violations(1) == 0
    assert meter.violations({"cost": 0.5}) == 1


def test_float64_and_integers() -> None:
    env = ContinuousBudgetWrapper(FloatMeter(Motor(2, dtype=np.float64)), 0.5, cost_bound=NormCost(0.1))
    env.reset()
    for _ in range(9):
        env.step(np.ones(2))
    assert 0.499 < env.spent["cost"] <= 0.5

    class Steps(Motor):
        def __init__(self) -> None:
            super().__init__(1)
            self.action_space = spaces.Box(-9, 9, (1,), np.int64)

        def step(self, action: Any) -> Any:
            return (*super().step(action)[:4], {"cost": abs(int(action[0]))})

    whole = ContinuousBudgetWrapper(Steps(), 10, cost_bound=NormCost(order=1), slack=0, margin=0)
    whole.reset()
    taken = [int(whole.step(np.array([-4]))[4]["executed_action"][0]) for _ in range(4)]
    assert taken == [-4, -4, -2, 0]


@pytest.mark.parametrize("bound", [NormCost(power=1), lambda seen, action: float(np.linalg.norm(action))])
def test_roots_of_squares_below_the_normal_range(bound: Any) -> None:
    """Squares of 1e-22 lose most of their digits in float32; such actions are what is left of an exhausted budget."""

    class Long(gymnasium.Env[Any, Any]):
        observation_space = action_space = spaces.Box(-1, 1, (28,), np.float32)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.spent = Fraction(0)
            return np.zeros(28, np.float32), {}

        def step(self, action: Any) -> Any:
            cost = np.sqrt(np.sum(np.square(action)))
            self.spent += Fraction(float(cost))
            return action, 0.0, False, False, {"cost": cost}

    rng, inner = np.random.default_rng(0), Long()
    for _ in range(60):
        env = ContinuousBudgetWrapper(inner, 10, cost_bound=bound)
        env.reset()
        for _ in range(12):
            env.step(rng.uniform(-1, 1, 28))  # fails if a cost exceeds its bound
        assert 9.999 < inner.spent <= 10


def test_float16() -> None:
    """An environment that computes in the type of its actions rounds much more than in float32."""

    class Coarse(gymnasium.Env[Any, Any]):
        observation_space = action_space = spaces.Box(-1, 1, (40,), np.float16)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.spent = Fraction(0)
            return np.zeros(40, np.float16), {}

        def step(self, action: Any) -> Any:
            cost = np.float16(0)
            for each in action:
                cost = np.float16(cost + each * each)
            self.spent += Fraction(float(cost))
            return action, 0.0, False, False, {"cost": cost}

    rng, inner = np.random.default_rng(0), Coarse()
    for bound in (NormCost(), lambda seen, action: float(np.square(action).sum())):
        for _ in range(10):
            env = ContinuousBudgetWrapper(inner, 20, cost_bound=bound)
            env.reset()
            for _ in range(15):
                env.step(rng.uniform(-1, 1, 40).astype(np.float16))
            assert 19 < inner.spent <= 20


def test_layouts_and_copies() -> None:
    env = ContinuousBudgetWrapper(Motor(2), 1, cost_bound=NormCost(0.1), layout="flat")
    seen, _ = env.reset()
    assert env.observation_space.contains(seen)
    twin = pickle.loads(pickle.dumps(env))
    for each in (env, twin):
        seen = each.step(np.ones(2, np.float32))[0]
        assert seen.shape == (4,)
        assert seen[2] == pytest.approx(0.8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "weight"), [("HalfCheetah-v5", 0.1), ("Ant-v5", 0.5), ("Swimmer-v5", 1e-4), ("Hopper-v5", 1e-3)]
)
@pytest.mark.parametrize("kind", ["norm", "function"])
def test_the_control_cost_of_mujoco(name: str, weight: float, kind: str) -> None:
    pytest.importorskip("mujoco")
    meter = FloatMeter(gymnasium.make(name), "reward_ctrl", -1.0)
    size = meter.action_space.shape[0]
    budget = 20 * weight * size
    bound = NormCost(weight) if kind == "norm" else (lambda seen, action: weight * float(np.sum(np.square(action))))
    env = ContinuousBudgetWrapper(meter, budget, cost="-reward_ctrl", cost_bound=bound)
    env.action_space.seed(1)
    rng = np.random.default_rng(1)
    env.reset(seed=1)
    for _ in range(1500):
        terminated, truncated = env.step(env.action_space.sample() * np.float32(rng.uniform()))[2:4]
        if terminated or truncated:
            env.reset()
    assert meter.steps == 1500
    assert 0.5 * budget < meter.most_float <= budget
    assert meter.most <= Fraction(budget)
    assert env.violations == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SAC", "TD3", "PPO"])
def test_agents_of_stable_baselines_train(name: str) -> None:
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    pytest.importorskip("torch").set_num_threads(1)
    meter = FloatMeter(Motor(3, steps=50))
    env = ContinuousBudgetWrapper(meter, 2, cost_bound=NormCost(0.1), layout="flat")
    short = {"n_steps": 128} if name == "PPO" else {"learning_starts": 100, "train_freq": 8, "gradient_steps": 2}
    agent = getattr(stable_baselines3, name)("MlpPolicy", env, seed=0, device="cpu", **short)
    agent.learn(600)
    assert meter.steps >= 600
    assert 1 < meter.most_float <= 2
    assert meter.most <= 2


@given(st.integers(0, 2**31), st.booleans(), st.floats(0, 3))
def test_bounds_of_any_shape_are_kept(seed: int, many: bool, reserve: float) -> None:
    """A bound that rises and falls along the way: what is executed fits, by a check of its own in exact numbers."""
    rng = np.random.default_rng(seed)
    waves, offset = rng.normal(size=(3, 2)) * 4, float(rng.uniform(0, 2))

    def bound(observation: Any, actions: Any) -> Any:
        found = np.abs(np.sin(np.atleast_2d(actions) @ waves.T)).sum(axis=1) + offset * np.abs(observation[0]) / 50
        return found if many else float(found[0])

    def cost(observation: Any, action: Any, after: Any) -> float:
        share = rng.uniform()
        return float(share * np.abs(np.sin(action.astype(float) @ waves.T)).sum())

    env = ContinuousBudgetWrapper(
        Motor(2, steps=20), 6, cost, bound, vectorized=many, reserve=reserve, dead_start="end"
    )
    observation, info = env.reset(seed=0)
    over, spent = info["dead_end"], Fraction(0)
    while not over:
        seen = observation["observation"].copy()
        left = Fraction(6) - spent - Fraction(reserve)
        observation, _, terminated, truncated, info = env.step(rng.uniform(-1, 1, 2))
        needed = bound(seen, info["executed_action"].astype(np.float64))
        assert Fraction(float(needed[0] if many else needed)) <= left
        spent += Fraction(info["cost"])
        assert abs(spent - env.spent["cost"]) < 1e-12
        over = terminated or truncated
    assert env.spent["cost"] <= 6
    assert env.violations == 0


@pytest.mark.slow
@pytest.mark.parametrize(("space", "prices"), [each for each in SPACES if each[0].shape in ((3,), (4,))], ids=str)
def test_maskable_ppo_with_several_actions(space: Any, prices: list[list[Any]]) -> None:
    sb3_contrib = pytest.importorskip("sb3_contrib")
    pytest.importorskip("torch").set_num_threads(1)
    switches = gymnasium.wrappers.TimeLimit(Switches(space, prices), 30)
    meter = CostMeter(switches)
    env = ContinuousBudgetWrapper(meter, 10, cost_bound=switches.unwrapped.price, layout="flat")
    agent = sb3_contrib.MaskablePPO("MlpPolicy", env, n_steps=128, batch_size=64, seed=0, device="cpu")
    agent.learn(400)
    assert max(episode.most["cost"] for episode in meter.episodes()) == 10
    assert env.violations == 0
