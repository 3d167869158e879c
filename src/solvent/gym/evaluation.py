"""`evaluate`: play episodes and count violations with a meter at the environment itself.

The account kept here is separate from that of the wrappers: it adds up, in plain fractions, what a meter directly
around the environment recorded, and compares it with the limits after every step.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import exact
from solvent.errors import ModelError, quote
from solvent.gym.account import AccountWrapper
from solvent.gym.env import ModelEnv
from solvent.gym.tracker import read_limits
from solvent.model.budget import Limits
from solvent.model.metering import Spent, Tape, layers
from solvent.model.resources import Resource

#: Quantiles of a summary.
_SHOWN = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Evaluation:
    """Episodes of an agent.

    Attributes
    ----------
    returns : array of float, shape (E,)
        Sum of the rewards of each episode.
    lengths : array of int, shape (E,)
        Number of steps of each episode.
    spent : dict of arrays of float, shape (E,)
        What was spent in each episode, by resource.
    most : dict of tuples of Fraction, length E
        Greatest amount spent after any step of each episode, by resource; exact.
    violated : array of bool, shape (E,)
        Whether a limit was broken after some step of the episode.
    dead_ends : int
        Number of episodes that ended because no action was safe.
    confidence : float
        Level of the confidence intervals.

    Examples
    --------
    >>> from solvent.gym import BudgetWrapper, ModelEnv
    >>> from solvent.model import instances
    >>> env = BudgetWrapper(ModelEnv(instances.fuel_grid(3)), budget=4)
    >>> found = evaluate(env, "random", episodes=50, seed=1)
    >>> found.violations, round(found.violation_interval[1], 3)
    (0, 0.071)
    >>> max(found.most["fuel"])
    Fraction(4, 1)
    """

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    spent: dict[str, NDArray[np.float64]]
    most: dict[str, tuple[Fraction, ...]]
    violated: NDArray[np.bool_]
    dead_ends: int
    confidence: float = 0.95

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return len(self.returns)

    @property
    def violations(self) -> int:
        """Number of episodes in which a limit was broken after some step."""
        return int(self.violated.sum())

    @property
    def violation_interval(self) -> tuple[float, float]:
        """Confidence interval of the probability that an episode breaks a limit (Clopper and Pearson).

        With 0 violations in E episodes the upper end is about 3.7 / E at 95%: that is what an evaluation can show. That
        a wrapper with a true bound has no violations at all follows from its construction, not from counting.
        """
        from scipy.stats import beta

        k, n, tail = self.violations, self.episodes, (1 - self.confidence) / 2
        low = float(beta.ppf(tail, k, n - k + 1)) if k else 0.0
        return low, float(beta.ppf(1 - tail, k + 1, n - k)) if k < n else 1.0

    @property
    def mean_return(self) -> float:
        """Mean of the returns."""
        return float(self.returns.mean())

    @property
    def return_interval(self) -> tuple[float, float]:
        """Confidence interval of the mean return (Student's t); infinite for a single episode."""
        from scipy.stats import t

        if self.episodes < 2:
            return -math.inf, math.inf
        error = float(self.returns.std(ddof=1)) / math.sqrt(self.episodes)
        width = float(t.ppf((1 + self.confidence) / 2, self.episodes - 1)) * error
        return self.mean_return - width, self.mean_return + width

    def quantile(self, q: float | Sequence[float], of: str = "return") -> Any:
        """Return quantiles over episodes of "return", "length", or what was spent of a resource.

        Parameters
        ----------
        q : float or sequence of float
            Probabilities.
        of : str
            "return", "length", or the name of a resource.
        """
        columns = {**self.spent, "return": self.returns, "length": self.lengths}
        if of not in columns:
            raise ModelError("of", f"one of {', '.join(map(quote, columns))}", quote(of))
        found = np.quantile(columns[of], q)
        return float(found) if np.ndim(found) == 0 else found

    def __str__(self) -> str:
        low, high = self.return_interval
        least, most = self.violation_interval
        level = f"{100 * self.confidence:g}%"
        lines = [
            f"{self.episodes} episodes, {self.dead_ends} ended in a dead end",
            f"violations  {self.violations} ({level} interval of the probability: {least:.2g} to {most:.2g})",
            f"return      mean {self.mean_return:.4g} ({level} interval: {low:.4g} to {high:.4g})",
        ]
        for name in ("return", "length", *self.spent):
            pairs = zip(_SHOWN, self.quantile(_SHOWN, name), strict=True)
            shown = ", ".join(f"{100 * q:g}%: {x:.4g}" for q, x in pairs)
            lines.append(f"{name:<11} quantiles {shown}")
        return "\n".join(lines)


def evaluate(
    env: gymnasium.Env[Any, Any],
    agent: Any,
    episodes: int = 100,
    *,
    budget: Any = None,
    seed: int | None = None,
    confidence: float = 0.95,
    max_steps: int | None = None,
    deterministic: bool = True,
) -> Evaluation:
    """Play episodes and return returns, costs and violations, with confidence intervals.

    Costs are those that the innermost meter records: a `CostMeter`, or a `ModelEnv`. They are added up here in exact
    numbers, independently of any wrapper with a budget.

    Parameters
    ----------
    env : gymnasium.Env
        Environment with a meter inside.
    agent : object with `predict`, function, policy, or "random"
        An agent of Stable-Baselines3 or sb3-contrib (which gets masks); a function of (observation, info) or of the
        observation alone; a policy of Solvent, for a `ModelEnv`; or "random" for random actions among those the mask
        allows.
    episodes : int
        Number of episodes.
    budget : number, Budget, or dict of them by resource, optional
        One anytime upper limit per resource. Default: the limits of a wrapper in `env`.
    seed : int, optional
        Random seed of the first episode, and of random actions.
    confidence : float
        Level of the confidence intervals.
    max_steps : int, optional
        End episodes after that number of steps, for environments without a time limit.
    deterministic : bool
        Argument of `predict`.

    Raises
    ------
    ModelError
        If there is no meter inside, or no budget.

    Examples
    --------
    >>> from solvent.gym import BudgetWrapper, CostMeter
    >>> meter = CostMeter(gymnasium.make("CartPole-v1"), cost=lambda state, action, after: action)
    >>> env = BudgetWrapper(meter, budget=5, cost_bound=[0, 1])
    >>> found = evaluate(env, lambda observation, info: int(info["action_mask"][1]), episodes=20, seed=1)
    >>> found.violations, max(found.most["cost"]), evaluate(meter, "random", 20, budget=5, seed=1).violations
    (0, Fraction(5, 1), 17)
    """
    if not isinstance(episodes, int) or isinstance(episodes, bool) or episodes < 1:
        raise ModelError("episodes", "a whole number of at least 1", quote(episodes))
    if not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise ModelError("confidence", "a number between 0 and 1", quote(confidence))
    limits, accounts = _limits(env, budget)
    meter, tape = _meter(env), Tape(limits.resources)
    player = _player(env, agent, seed, deterministic)
    rows = []
    meter.attach(tape)
    try:
        for number in range(episodes):
            rows.append(_play(env, player, tape, _Account(limits, accounts), seed if number == 0 else None, max_steps))
    finally:
        meter.detach(tape)
    names = limits.resources
    return Evaluation(
        returns=np.array([row[0] for row in rows], float),
        lengths=np.array([row[1] for row in rows], np.int64),
        spent={name: np.array([float(row[2].spent[d]) for row in rows]) for d, name in enumerate(names)},
        most={name: tuple(row[2].most[d] for row in rows) for d, name in enumerate(names)},
        violated=np.array([row[2].violated for row in rows], bool),
        dead_ends=sum(row[3] for row in rows),
        confidence=float(confidence),
    )


class _Account:
    """The account of one episode, in fractions."""

    def __init__(self, limits: Limits, accounts: Sequence[Resource]) -> None:
        self._limits, self._accounts = limits, accounts
        self.spent = list(limits.initial)
        self.most = list(limits.initial)
        self.violated, self._step = False, 0

    def add(self, found: Spent) -> None:
        """Add what was recorded since the last step, and compare it with the limits."""
        if not found.steps:
            return
        before = self.spent
        costs = [exact(cost, "step, cost") for cost in found.reported]
        self.spent = [a.clamp(x + c) for a, x, c in zip(self._accounts, before, costs, strict=True)]
        high = self.spent if found.high is None else [x + c for x, c in zip(before, found.high, strict=True)]
        low = self.spent if found.low is None else [x + c for x, c in zip(before, found.low, strict=True)]
        self.most = [max(pair) for pair in zip(self.most, high, strict=True)]
        for d in range(len(self.spent)):
            upper, lower = self._limits.upper[d], self._limits.lower[d]
            most, least = upper[min(self._step, len(upper) - 1)], lower[min(self._step, len(lower) - 1)]
            self.violated |= (most is not None and high[d] > most) or (least is not None and low[d] < least)

    def next_step(self) -> None:
        """Go to the limits of the next step."""
        self._step += 1


_Player = Callable[[Any, Mapping[str, Any], bool], Any]


def _play(
    env: Any, player: _Player, tape: Tape, account: _Account, seed: int | None, max_steps: int | None
) -> tuple[float, int, _Account, bool]:
    """Play one episode; return its return, its length, its account, and whether it ended in a dead end."""
    tape.rewind()
    observation, info = env.reset(seed=seed)
    account.add(tape.take())  # a wrapper may take steps in its reset
    earned, steps, first = 0.0, 0, True
    while max_steps is None or steps < max_steps:
        action = player(observation, info, first)
        observation, reward, terminated, truncated, info = env.step(action)
        earned, steps, first = earned + float(np.sum(reward)), steps + 1, False
        account.add(tape.take())
        account.next_step()
        if terminated or truncated:
            break
    return earned, steps, account, bool(info.get("dead_end", False))


def _meter(env: Any) -> Any:
    """Return the innermost meter."""
    found = [layer for layer in layers(env) if callable(getattr(type(layer), "attach", None))]
    if not found:
        hint = "put solvent.gym.CostMeter(env, cost=...) directly around the environment"
        raise ModelError("evaluate", "an environment with a meter inside", quote(env), hint)
    return found[-1]


def _limits(env: Any, budget: Any) -> tuple[Limits, tuple[Resource, ...]]:
    """Return the limits, and the resources, which may saturate."""
    if budget is not None:
        limits = read_limits(budget)
        return limits, tuple(map(Resource, limits.resources))
    for layer in layers(env):
        if isinstance(layer, AccountWrapper):
            return layer.limits, layer.accounts
    raise ModelError("budget", "a budget, as no wrapper of the environment has one", "None")


def _player(env: Any, agent: Any, seed: int | None, deterministic: bool) -> _Player:
    """Return a function of (observation, info, whether it is the first step) that returns an action."""
    if isinstance(agent, str) and agent == "random":
        return _RandomPlayer(env, seed)
    if callable(getattr(agent, "predict", None)):
        wants_masks = "action_masks" in inspect.signature(agent.predict).parameters

        def predict(observation: Any, info: Mapping[str, Any], first: bool) -> Any:
            masks = {"action_masks": info["action_mask"]} if wants_masks and "action_mask" in info else {}
            action = agent.predict(observation, deterministic=deterministic, **masks)[0]
            return action.item() if isinstance(action, np.ndarray) and action.ndim == 0 else action

        return predict
    if callable(getattr(agent, "agent", None)):
        return _PolicyPlayer(env, agent)
    if callable(agent):
        alone = len(_positional(agent)) == 1
        return lambda observation, info, first: agent(observation) if alone else agent(observation, info)
    expected = "an object with predict, a function of (observation, info), a policy of Solvent, or 'random'"
    raise ModelError("agent", expected, quote(agent))


def _positional(function: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind in kinds and each.default is inspect.Parameter.empty]


class _RandomPlayer:
    """Samples actions, among those that a mask allows if there is one."""

    def __init__(self, env: Any, seed: int | None) -> None:
        self._space, self._rng = env.action_space, np.random.default_rng(seed)
        self._space.seed(int(self._rng.integers(2**31)))

    def __call__(self, observation: Any, info: Mapping[str, Any], first: bool) -> Any:
        if "action_mask" in info and isinstance(self._space, gymnasium.spaces.Discrete):
            return int(self._rng.choice(np.flatnonzero(info["action_mask"]))) + int(self._space.start)
        return self._space.sample()


class _PolicyPlayer:
    """Follows a policy of Solvent in a `ModelEnv`."""

    def __init__(self, env: Any, policy: Any) -> None:
        base = env.unwrapped
        if not isinstance(base, ModelEnv):
            raise ModelError("agent", "a policy only for a ModelEnv, whose states it knows", quote(base))
        self._base, self._policy, self._agent = base, policy, policy.agent()

    def __call__(self, observation: Any, info: Mapping[str, Any], first: bool) -> int:
        if first:
            self._agent = self._policy.agent(step=0, state=self._base.state)
        else:
            self._agent.observe(self._base.state, self._base.last_cost)
        return self._base.model.actions.index(self._agent.act())
