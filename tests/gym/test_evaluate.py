"""Evaluation by an independent meter, the meter's own account, and early termination."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from foreign import Foreign, Road
from gymnasium.wrappers import TimeLimit

import solvent
from solvent.errors import ModelError, PolicyError
from solvent.gym import (
    BudgetWrapper,
    ContinuousBudgetWrapper,
    CostMeter,
    EarlyTermination,
    Evaluation,
    ModelEnv,
    evaluate,
)
from solvent.model import instances


def fake(returns: list[float], violated: list[bool], confidence: float = 0.95) -> Evaluation:
    n = len(returns)
    return Evaluation(
        np.array(returns), np.full(n, 3), {"cost": np.arange(n, dtype=float)}, {"cost": (Fraction(0),) * n},
        np.array(violated), 0, confidence,
    )  # fmt: skip


def binomial_tail(n: int, least: int, p: float) -> float:
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(least, n + 1))


@pytest.mark.parametrize(("n", "k"), [(10, 0), (10, 3), (10, 10), (200, 1)])
def test_intervals_of_the_violation_probability(n: int, k: int) -> None:
    """The ends are where k or more, or k or fewer, violations have probability 2.5%, by the definition."""
    low, high = fake([0.0] * n, [i < k for i in range(n)]).violation_interval
    assert low <= k / n <= high
    assert low == 0 if k == 0 else binomial_tail(n, k, low) == pytest.approx(0.025)
    assert high == 1 if k == n else 1 - binomial_tail(n, k + 1, high) == pytest.approx(0.025)


def test_intervals_of_the_mean_and_quantiles() -> None:
    found = fake([1.0, 2.0, 3.0, 4.0], [False] * 4)
    low, high = found.return_interval
    assert found.mean_return == 2.5
    assert (low, high) == pytest.approx((2.5 - 3.1824 * 0.6455, 2.5 + 3.1824 * 0.6455), abs=1e-3)  # t with 3 degrees
    assert fake([1.0], [False]).return_interval == (-math.inf, math.inf)
    assert found.quantile(0.5) == 2.5
    assert found.quantile([0, 1], "cost").tolist() == [0, 3]
    assert found.quantile(0.5, "length") == 3
    with pytest.raises(ModelError, match="of: expected one of 'cost', 'return', 'length', found 'fuel'"):
        found.quantile(0.5, "fuel")
    assert "violations  0 (95% interval of the probability: 0 to 0.6)" in str(found)


def test_the_meter_counts_for_itself() -> None:
    meter = CostMeter(Road([0, 1, 2]))
    for actions in ([2, 2, 2], [1], [], [2, 0]):
        meter.reset()
        for action in actions:
            meter.step(action)
    assert [episode.most["cost"] for episode in meter.episodes()] == [6, 1, 2]
    assert [episode.steps for episode in meter.episodes()] == [3, 1, 2]
    assert meter.episodes()[0].reward == 6
    assert (meter.violations(1), meter.violations(2), meter.violations({"cost": 5})) == (2, 1, 1)
    with pytest.raises(ModelError, match=r"budget: expected resources with a recorded cost \('cost'\), found 'x'"):
        meter.violations({"x": 0})
    charge = CostMeter(Road([3, -5]))
    charge.reset()
    charge.step(0), charge.step(1)
    assert charge.spent == {"cost": -2}
    assert charge.episodes()[0].most == {"cost": 3}
    named = CostMeter(Foreign(instances.fuel_grid(3)))
    named.reset(seed=0)
    named.step(1)
    assert set(named.spent) == {"fuel"}
    pair = CostMeter(Road(), cost=lambda seen, action, after: [1, action])
    pair.reset()
    pair.step(2)
    assert pair.spent == {"0": 1, "1": 2}


def test_agents_that_can_be_evaluated() -> None:
    model = instances.fuel_grid(3)
    env = BudgetWrapper(ModelEnv(model), 4)
    optimal = solvent.solve(model, budget=4)
    found = evaluate(env, optimal.policy, episodes=300, seed=1)
    assert found.violations == 0
    low, high = found.return_interval
    assert low - 0.1 <= optimal.value <= high + 0.1

    class Predicts:
        def predict(self, observation: Any, deterministic: bool, action_masks: Any) -> Any:
            assert deterministic
            return np.array(int(np.argmax(action_masks))), None

    for agent in (
        Predicts(),
        lambda observation: 4,
        lambda observation, info: int(np.argmax(info["action_mask"])),
        "random",
    ):
        again = evaluate(env, agent, episodes=5, seed=2)
        assert again.episodes == 5
        assert again.violations == 0
        assert max(again.most["fuel"]) <= 4
    with pytest.raises(ModelError, match="agent: expected an object with predict, a function of"):
        evaluate(env, 3, 1)
    with pytest.raises(ModelError, match="agent: expected a policy only for a ModelEnv"):
        evaluate(BudgetWrapper(CostMeter(Road()), 3, cost_bound=2), optimal.policy, 1)


@pytest.mark.parametrize(("answer", "said"), [(1, "1"), (np.zeros(2), r"array\(\[0., 0.\]\)"), ((1,), r"\(1,\)")])
def test_predict_returns_an_action_and_a_state(answer: Any, said: str) -> None:
    class Predicts:
        def predict(self, observation: Any, deterministic: bool) -> Any:
            return answer

    with pytest.raises(ModelError, match=rf"agent, predict: expected a tuple \(action, state\), found {said}"):
        evaluate(CostMeter(Road(), cost=1), Predicts(), 1, budget=5)


def test_recurrent_ppo_is_evaluated_as_by_its_own_library() -> None:
    contrib, torch = pytest.importorskip("sb3_contrib"), pytest.importorskip("torch")
    torch.set_num_threads(1)
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    env = CostMeter(gymnasium.make("CartPole-v1"), cost=1)
    agent = contrib.RecurrentPPO("MlpLstmPolicy", env, n_steps=64, seed=0, device="cpu")
    for parameter in agent.policy.parameters():
        parameter.data *= 3  # so that what the network remembers decides
    vector = agent.get_env()
    vector.seed(5)
    expected, _ = evaluate_policy(agent, vector, n_eval_episodes=4, return_episode_rewards=True)
    assert evaluate(Monitor(env), agent, 4, budget=500, seed=5).returns.tolist() == expected


def test_evaluations_need_a_meter_and_a_budget() -> None:
    with pytest.raises(ModelError, match=r"evaluate: expected an environment with a meter inside.*CostMeter"):
        evaluate(BudgetWrapper(Road(), 3, cost_bound=2), "random", 1)
    with pytest.raises(ModelError, match="budget: expected a budget, as no wrapper of the environment has one"):
        evaluate(CostMeter(Road()), "random", 1)
    with pytest.raises(
        ModelError, match=r"budget: expected one anytime upper limit, .*; put a BudgetWrapper with other"
    ):
        evaluate(CostMeter(Road()), "random", 1, budget=solvent.Budget(upper=[1, 2]))
    with pytest.raises(ModelError, match="episodes: expected a whole number of at least 1, found 0"):
        evaluate(CostMeter(Road()), "random", 0, budget=1)
    with pytest.raises(ModelError, match="confidence: expected a number between 0 and 1, found 1"):
        evaluate(CostMeter(Road()), "random", 1, budget=1, confidence=1)


def test_violations_within_a_step_are_counted() -> None:
    """Costs of 3 and -5 within one step exceed a budget of 2, though the sum does not."""

    class Pulse(Road):
        def step(self, action: Any) -> Any:
            self.prices = [3 if self._cell % 2 == 0 else -5] * 2
            return super().step(1)

    if not hasattr(gymnasium.wrappers, "RepeatAction"):
        pytest.skip("this Gymnasium has no wrapper that repeats actions")
    meter = CostMeter(Pulse([0, 0], length=4))
    env = gymnasium.wrappers.RepeatAction(meter, 2)
    found = evaluate(env, lambda observation: 1, 2, budget=2, max_steps=1)
    assert found.violations == 2
    assert found.most["cost"] == (3, 3)
    assert not list(meter._tapes)  # nothing is left behind
    assert evaluate(env, lambda observation: 1, 2, budget=3, max_steps=1).violations == 0


def test_limits_by_step_are_evaluated() -> None:
    model = instances.knapsack([60, 100, 20], [10, 20, 5])
    env = ModelEnv(model)
    wrapped = BudgetWrapper(env, solvent.Budget(upper=[10, 30, 30]))
    assert evaluate(wrapped, "random", 20, seed=0).violations == 0
    assert evaluate(env, lambda observation: 1, 3, budget={"weight": 34}).violations == 3
    assert evaluate(env, lambda observation: 1, 3, budget={"weight": 35}).violations == 0


def test_early_termination_is_after_the_fact() -> None:
    meter = CostMeter(Road([0, 1, 2], length=10**6))
    env = EarlyTermination(meter, 3, termination_reward=-7)
    env.reset()
    assert env.step(2)[2] is False
    _, reward, terminated, truncated, info = env.step(2)
    assert (reward, terminated, truncated, info["violation"], info["dead_end"]) == (-5, True, False, True, False)
    assert (env.violations, env.remaining["cost"], meter.violations(3)) == (1, -1, 1)
    with pytest.raises(PolicyError, match="an episode that is over"):
        env.step(0)
    found = evaluate(env, "random", 30, seed=0)
    assert found.violations == 30  # it promises nothing
    assert evaluate(BudgetWrapper(meter, 3, cost_bound=2), "random", 30, seed=0).violations == 0
    box = EarlyTermination(gymnasium.make("Pendulum-v1"), 1, cost=1, layout="flat")
    box.reset(seed=0)
    assert [box.step([0.5])[2] for _ in range(2)] == [False, True]


def test_a_constant_bound_ends_episodes_in_time() -> None:
    """Costs that do not depend on the action, with a bound: the promise is kept by ending the episode."""
    for env in (
        BudgetWrapper(CostMeter(gymnasium.make("FrozenLake-v1"), cost=lambda s, a, n: n % 4), 7, cost_bound=3),
        ContinuousBudgetWrapper(
            CostMeter(TimeLimit(gymnasium.make("Pendulum-v1"), 50), cost=lambda s, a, n: abs(round(float(n[2]), 3))),
            20,
            cost_bound=8,
        ),
    ):
        found = evaluate(env, "random", 20, seed=0)
        assert found.violations == 0
        assert found.dead_ends > 0


def two_resources(**ends: Any) -> solvent.CMDP:
    resources = [solvent.Resource("fuel", **ends), solvent.Resource("time")]
    b = solvent.CMDP.builder(horizon=4, start="s", resources=resources)
    b.add("s", "go", reward=1, outcomes=[(1, "s", {"fuel": 3, "time": 1})])
    return b.build()


def test_a_limit_on_an_unknown_resource_is_refused() -> None:
    model = instances.fuel_grid(3)
    wrapped = BudgetWrapper(ModelEnv(model), budget=4)
    for env in (ModelEnv(model), wrapped):
        said = r"budget: expected resources that the meter records \('fuel'\), found 'feul'; did you mean 'fuel'\?"
        with pytest.raises(ModelError, match=said):
            evaluate(env, "random", 10, budget={"feul": 1}, seed=1)
        with pytest.raises(ModelError, match="found 'cost'"):
            evaluate(env, "random", 10, budget={"fuel": 1, "cost": 1}, seed=1)
    by_name = evaluate(ModelEnv(model), "random", 100, budget={"fuel": 1}, seed=1)
    by_number = evaluate(ModelEnv(model), "random", 100, budget=1, seed=1)
    assert by_number.violations == by_name.violations == 100
    assert by_number.most == by_name.most
    assert evaluate(wrapped, "random", 100, budget=1, seed=1).violations > 0
    assert evaluate(wrapped, "random", 100, budget=solvent.Budget(4), seed=1).violations == 0
    with pytest.raises(ModelError, match=r"budget: expected a dict of limits by resource \('fuel', 'time'\), found 3"):
        evaluate(ModelEnv(two_resources()), "random", 1, budget=3)


def test_a_number_limits_the_resource_of_the_wrapper() -> None:
    meter = CostMeter(Road([1, 1, 1], report="fuel"), cost="fuel")
    env = EarlyTermination(meter, {"fuel": 30}, spent=2)
    found = evaluate(env, lambda observation: 0, 2, budget=4, max_steps=3)
    assert (found.violations, found.most) == (2, {"fuel": (5, 5)})
    with pytest.raises(ModelError, match=r"budget: expected a dict of limits by resource \('fuel', 'time'\), found 4"):
        evaluate(EarlyTermination(CostMeter(Road(), cost=[1, 2]), {"fuel": 9, "time": 9}), "random", 1, budget=4)


def test_a_limited_resource_whose_cost_is_never_reported() -> None:
    meter = CostMeter(Road(), cost=lambda seen, action, after: {"fuel": 1, "time": 2} if action else {"fuel": 1})
    found = evaluate(meter, lambda observation: 1, 2, budget={"fuel": 4, "time": 8}, max_steps=5)
    assert found.violations == 2
    assert evaluate(meter, lambda observation: 1, 2, budget={"time": 8}, max_steps=5).violations == 2
    said = r"budget: expected resources with a recorded cost \('fuel', 'time'\), found 'tim'; did you mean 'time'\?"
    with pytest.raises(ModelError, match=said):
        evaluate(meter, lambda observation: 1, 2, budget={"fuel": 4, "tim": 8}, max_steps=5)
    with pytest.raises(ModelError, match=r"\('fuel'\), found 'time'; report a cost of 0 in steps that cost nothing"):
        evaluate(meter, lambda observation: 0, 2, budget={"fuel": 9, "time": 8}, max_steps=5)
    with pytest.raises(ModelError, match=r"\('fuel', 'time'\), found 'cost'; name the resource: budget={'fuel': ...}"):
        evaluate(meter, lambda observation: 1, 2, budget=8, max_steps=5)
    assert not list(meter._tapes)
    sparse = CostMeter(Road(), cost=lambda seen, action, after: {"fuel": 1} if action else {})
    assert evaluate(sparse, lambda observation: 0, 2, budget={"fuel": 0}, max_steps=5).violations == 0
    plain = CostMeter(Road())
    assert evaluate(plain, lambda observation: 1, 2, budget={"fuel": 4}, max_steps=5).violations == 2


def test_a_resource_of_a_wrapper_need_not_occur() -> None:
    meter = CostMeter(gymnasium.make("CartPole-v1"), cost=lambda state, action, after: {"fuel": 1} if action else {})
    env = BudgetWrapper(meter, {"fuel": 5, "crash": 0}, cost_bound={"fuel": [0, 1], "crash": 0})
    found = evaluate(env, lambda observation, info: int(info["action_mask"][1]), 5, seed=1)
    assert found.violations == 0
    assert max(found.most["fuel"]) == 5
    assert max(found.most["crash"]) == 0


def test_the_innermost_meter_that_records_the_resources_is_read() -> None:
    meter = CostMeter(ModelEnv(instances.fuel_grid(3)), cost=2)
    found = evaluate(meter, "random", 3, budget={"fuel": 100}, seed=0)
    assert set(found.most) == {"fuel"}
    found = evaluate(meter, "random", 3, budget=1, seed=0)
    assert found.violations == 3
    assert [int(most) for most in found.most["cost"]] == (2 * found.lengths).tolist()


def line(actions: dict[str, int], **ends: Any) -> solvent.CMDP:
    resources = [solvent.Resource("fuel", **ends)]
    b = solvent.CMDP.builder(horizon=4, start="s", resources=resources, budget={"fuel": 6})
    for name, cost in actions.items():
        b.add("s", name, reward=1, outcomes=[(1, "s", {"fuel": cost})])
    return b.build()


def test_accounts_saturate_and_begin_as_in_the_environment() -> None:
    full = ModelEnv(line({"charge": -5, "drive": 3}, floor=0))
    agent = lambda observation, info: 0 if info["step"] == 0 else 1  # noqa: E731
    found = evaluate(full, agent, 1, budget={"fuel": 6})
    assert (found.violations, found.most["fuel"], full.spent["fuel"]) == (1, (9,), 9)
    model = line({"fill": 3}, ceiling=5)
    solution = solvent.solve(model)
    for budget in (6, {"fuel": 6}):
        found = evaluate(ModelEnv(model), solution, 5, budget=budget)
        assert (found.violations, found.most["fuel"]) == (0, (5,) * 5)
    begun = ModelEnv(line({"go": 2}), spent=3)
    for env in (begun, EarlyTermination(begun, {"fuel": 100}, spent=3)):
        found = evaluate(env, lambda observation, info: 0, 1, budget={"fuel": 10})
        assert (found.violations, found.most["fuel"], found.spent["fuel"].tolist()) == (1, (11,), [11])


def test_accounts_are_those_of_the_wrapper() -> None:
    meter = CostMeter(Road([-5, 3, 3]))
    env = EarlyTermination(meter, 100, resources=[solvent.Resource("cost", floor=0)], spent=1)
    actions = [0, 1, 1, 1]
    for budget in (None, 8, {"cost": 8}):
        found = evaluate(env, lambda observation, info: actions[info["step"]], 1, budget=budget, max_steps=4)
        assert (found.violations, found.most["cost"]) == (budget is not None, (9,))


def test_several_steps_at_once_of_an_account_that_saturates() -> None:
    class Twice(gymnasium.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            self.env.step(0)
            return self.env.step(1)

    env = Twice(ModelEnv(line({"charge": -5, "drive": 3}, floor=0)))
    found = evaluate(env, lambda observation: 0, 1, budget=2)
    assert (found.violations, found.most["fuel"], env.unwrapped.spent["fuel"]) == (1, (3,), 3)


def test_only_single_environments_are_evaluated() -> None:
    vector = gymnasium.vector.SyncVectorEnv([lambda: CostMeter(Road()), lambda: CostMeter(Road())])
    said = r"evaluate: expected a single Gymnasium environment, found a vector of 2 environments; evaluate one of them"
    with pytest.raises(ModelError, match=said):
        evaluate(vector, "random", 1, budget=1)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="evaluate: expected an environment with a meter inside, found 3"):
        evaluate(3, "random", 1, budget=1)  # type: ignore[arg-type]


def test_results_are_followed_by_their_policy(tmp_path: Path) -> None:
    model = instances.fuel_grid(3)
    solution = solvent.solve(model, budget=4)
    found = evaluate(ModelEnv(model), solution, 20, budget=4, seed=1)
    assert found.violations == 0
    assert found.returns.tolist() == evaluate(ModelEnv(model), solution.policy, 20, budget=4, seed=1).returns.tolist()
    solution.policy.save(tmp_path / "saved.policy")
    loaded = solvent.load_policy(tmp_path / "saved.policy")
    assert evaluate(ModelEnv(model), loaded, 20, budget=4, seed=1).returns.tolist() == found.returns.tolist()
    learned = solvent.learn(instances.markov_gap(), epsilon=0.3)
    assert evaluate(ModelEnv(instances.markov_gap()), learned, 5, budget=1).violations == 0
    with pytest.raises(solvent.SolventError, match="infeasible"):
        evaluate(ModelEnv(model), solvent.solve(model, budget=-1), 1, budget=4)


def test_random_policies_draw_anew_in_every_episode() -> None:
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["cost"])
    b.add(0, "a", reward=0, outcomes=[(1, 0, 0)])
    b.add(0, "b", reward=1, outcomes=[(1, 0, 0)])
    model = b.build()
    policy = solvent.MarkovPolicy(model, np.array([[[0.5, 0.5]]]))
    found = evaluate(ModelEnv(model), policy, 200, budget=1, seed=3)
    assert 70 < found.returns.sum() < 130
    again = evaluate(ModelEnv(model), policy, 200, budget=1, seed=3)
    assert again.returns.tolist() == found.returns.tolist()


def test_policies_that_were_learned_in_an_environment() -> None:
    meter = CostMeter(gymnasium.make("FrozenLake-v1"), cost=lambda state, action, after: action)
    bound = [0, 1, 2, 3]
    learned = solvent.learn(meter, budget=6, horizon=5, cost_bound=bound, max_episodes=2000, epsilon=0.5)
    for env in (
        meter,
        BudgetWrapper(meter, 6, cost_bound=bound),
        BudgetWrapper(meter, 6, cost_bound=bound, layout="flat"),
    ):
        found = evaluate(env, learned, 50, budget=6, seed=0)
        assert found.violations == 0
        assert found.lengths.max() <= 5  # the horizon
        assert evaluate(env, learned, 2, budget=6, seed=0, max_steps=2).lengths.max() <= 2
    attached = len(list(meter._tapes))
    evaluate(meter, learned, 2, budget=6, seed=0)
    assert len(list(meter._tapes)) == attached
    other = solvent.solve(solvent.instances.knapsack([60, 100], [10, 20]), budget=20).policy
    metered = CostMeter(Road(), cost={"weight": 1})
    for env, found_there in ((CostMeter(meter.env, cost={"weight": 1}), "an observation of 0"), (metered, r"Box\(")):
        said = rf"agent: expected a policy only for a ModelEnv, or for an .* found {found_there}.*; pass a function of"
        with pytest.raises(ModelError, match=said):
            evaluate(env, other, 1, budget={"weight": 6})
        assert not list(env._tapes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_steps": "x"}, "max_steps: expected a whole number of at least 1, found 'x'"),
        ({"max_steps": -1}, "max_steps: expected a whole number of at least 1, found -1"),
        ({"max_steps": 0}, "max_steps: expected a whole number of at least 1, found 0"),
        ({"max_steps": True}, "max_steps: expected a whole number of at least 1, found True"),
        ({"seed": -1}, "seed: expected a whole number of at least 0, found -1"),
        ({"seed": "x"}, "seed: expected a whole number of at least 0, found 'x'"),
        ({"seed": 1.5}, "seed: expected a whole number of at least 0, found 1.5"),
        ({"episodes": 2.0}, "episodes: expected a whole number of at least 1, found 2.0"),
        ({"episodes": np.timedelta64(2)}, "episodes: expected a whole number of at least 1, found"),
        ({"confidence": True}, "confidence: expected a number between 0 and 1, found True"),
        ({"confidence": False}, "confidence: expected a number between 0 and 1, found False"),
        ({"confidence": math.nan}, "confidence: expected a number between 0 and 1, found nan"),
        ({"confidence": "0.9"}, "confidence: expected a number between 0 and 1, found '0.9'"),
        ({"agent": "radnom"}, "agent: expected an object with predict, .* found 'radnom'; did you mean 'random'"),
        ({"agent": lambda: 0}, r"agent: expected a function of \(observation, info\) or of the obs.* arguments \(\)"),
        ({"agent": lambda a, b, c: 0}, r"agent: expected a .* found one with the arguments \(a, b, c\)"),
        ({"agent": lambda a, b, *, c: 0}, r"agent: .* found one with the arguments \(a, b, \*, c\)"),
        ({"agent": max}, r"agent: expected a function of .* found <built-in function max>; write lambda observation, "),
        ({"agent": dict}, r"agent: expected an object with predict, .* found <class 'dict'>; pass an instance"),
    ],
)  # fmt: skip
def test_arguments_of_evaluate(given: dict[str, Any], said: str) -> None:
    arguments: dict[str, Any] = {"agent": "random", "episodes": 1, "budget": 5, "max_steps": 3} | given
    with pytest.raises(ModelError, match=said):
        evaluate(CostMeter(Road()), **arguments)


def test_numbers_of_numpy_are_accepted() -> None:
    found = evaluate(
        CostMeter(Road()),
        "random",
        np.int64(2),
        budget=5,
        seed=np.int32(1),
        max_steps=np.int64(3),
        confidence=np.float32(0.5),
    )
    assert (found.episodes, found.lengths.tolist(), found.confidence) == (2, [3, 3], 0.5)
    for agent in (lambda *seen: 1, lambda seen=0, info=None: 1, lambda seen, prices=(1,): 1, lambda seen, *, wild=1: 1):
        assert evaluate(CostMeter(Road()), agent, 1, budget=5, max_steps=2).most["cost"] == (2,)


def test_resources_named_like_other_columns() -> None:
    env = CostMeter(Road([2, 2, 2]), cost=2)
    found = evaluate(env, "random", 3, budget={"length": 5}, max_steps=3, seed=1)
    assert found.spent["length"].tolist() == [6, 6, 6]
    said = r"of: expected a name with one meaning, found 'length', which is also a resource; use found.lengths or"
    with pytest.raises(ModelError, match=said):
        found.quantile(0.5, "length")
    assert found.quantile(0.5) == found.quantile(0.5, "return")
    assert "length      quantiles 5%: 3, 50%: 3, 95%: 3" in str(found)
    assert "spent of length quantiles 5%: 6, 50%: 6, 95%: 6" in str(found)
    earned = evaluate(env, "random", 3, budget={"return": 5}, max_steps=3, seed=1)
    with pytest.raises(ModelError, match=r"found 'return', which is also a resource; use found.returns or"):
        earned.quantile(0.5)


@pytest.mark.parametrize("q", [50, -0.1, [0.5, 2], math.nan, "x", None, True, [[0.1], [0.1, 0.2]]])
def test_probabilities_of_quantiles(q: Any) -> None:
    with pytest.raises(ModelError, match="q: expected probabilities from 0 to 1, found"):
        fake([1.0, 2.0], [False] * 2).quantile(q)


def test_names_of_quantiles() -> None:
    with pytest.raises(ModelError, match=r"of: expected one of .* found 'lengths'; did you mean 'length'"):
        fake([1.0, 2.0], [False] * 2).quantile(0.5, "lengths")
    with pytest.raises(ModelError, match=r"of: expected one of .* found \['cost'\]"):
        fake([1.0, 2.0], [False] * 2).quantile(0.5, ["cost"])  # type: ignore[arg-type]


def test_recurrent_agents_keep_their_state() -> None:
    """As sb3-contrib's RecurrentPPO: the state of a step is that which the step before returned."""

    class Counts:
        def predict(
            self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
        ) -> Any:
            assert (state is None) == bool(episode_start[0])
            assert episode_start.shape == (1,)
            steps = 0 if state is None else state[0]
            return np.array(int(steps == 2)), (steps + 1,)

    meter = CostMeter(TimeLimit(Road(), 4))
    agent: Any = Counts()
    assert evaluate(meter, agent, 3, budget=9).most["cost"] == (1, 1, 1)
    assert evaluate(meter, agent, 2, budget=9, max_steps=2).most["cost"] == (0, 0)


def test_episodes_that_start_in_a_terminal_state() -> None:
    builder = solvent.CMDP.builder(horizon=3, start={"a": 0.5, "z": 0.5}, resources=["fuel"])
    builder.add("a", "go", reward=1, outcomes=[(1, "a", {"fuel": 1})])
    builder.terminal("z")
    model = builder.build()
    solution = solvent.solve(model, budget=5)
    for env in (ModelEnv(model, spent=1), BudgetWrapper(ModelEnv(model, spent=1), 5)):
        for agent in ("random", solution, lambda observation: 0):
            found = evaluate(env, agent, 40, budget=5, seed=1)
            assert set(found.lengths) == {0, 3}
            assert (found.returns == found.lengths).all()
            assert (found.spent["fuel"] == found.lengths + 1).all()
            assert found.violations == found.dead_ends == 0


def test_the_most_is_what_was_spent_after_a_step() -> None:
    found = evaluate(CostMeter(TimeLimit(Road([-2, 1]), 3)), lambda observation, info: 0, 2, budget=-1)
    assert found.most["cost"] == (-2, -2)  # 0 was spent before the first step only
    assert found.violations == 0


def test_a_random_agent_needs_an_action() -> None:
    class Full(Road):
        def step(self, action: Any) -> Any:
            return *super().step(action)[:4], {"cost": 0, "action_mask": np.zeros(3, np.int8)}

    with pytest.raises(PolicyError, match="agent: expected a mask that allows an action, found an empty mask in info"):
        evaluate(CostMeter(Full()), "random", 1, budget=1)
