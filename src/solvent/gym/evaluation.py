"""`evaluate`: play episodes and count violations with a meter at the environment itself.

The account kept here is separate from that of the wrappers: it adds up, in plain fractions, what a meter directly
around the environment recorded, and compares it with the limits after every step.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import exact
from solvent.errors import BudgetError, ModelError, did_you_mean, quote
from solvent.gym.account import AccountWrapper
from solvent.gym.env import ModelEnv
from solvent.gym.meter import never_reported
from solvent.gym.players import Player, player_of
from solvent.gym.recording import meters_of, recording_meter
from solvent.gym.tracker import ONLY_RESOURCE, read_limits
from solvent.model.budget import Limits
from solvent.model.build import read_costs
from solvent.model.metering import layers
from solvent.model.resources import Resource

#: Quantiles of a summary.
_SHOWN = (0.05, 0.5, 0.95)
#: Columns of an evaluation besides the resources.
_COLUMNS = ("return", "length")


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
        Greatest amount spent after any step of each episode, by resource; exact. Of an episode without a step, which
        starts in a terminal state: what had been spent before.
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
            Probabilities from 0 to 1.
        of : str
            "return", "length", or the name of a resource.

        Raises
        ------
        ModelError
            If a probability is not from 0 to 1, or the name is unknown, or it is "return" or "length" and there is a
            resource of that name: use `returns`, `lengths` and `spent` then.
        """
        columns = {**self.spent, "return": self.returns, "length": self.lengths}
        if not isinstance(of, str) or of not in columns:
            raise ModelError("of", f"one of {', '.join(map(quote, columns))}", quote(of), did_you_mean(of, columns))
        if of in self.spent and of in _COLUMNS:
            hint = f"use found.{of}s or found.spent[{quote(of)}], and numpy.quantile"
            raise ModelError("of", "a name with one meaning", f"{quote(of)}, which is also a resource", hint)
        return _quantiles(columns[of], q)

    def __str__(self) -> str:
        low, high = self.return_interval
        least, most = self.violation_interval
        level = f"{100 * self.confidence:g}%"
        lines = [
            f"{self.episodes} episodes, {self.dead_ends} ended in a dead end",
            f"violations  {self.violations} ({level} interval of the probability: {least:.2g} to {most:.2g})",
            f"return      mean {self.mean_return:.4g} ({level} interval: {low:.4g} to {high:.4g})",
        ]
        columns = {"return": self.returns, "length": self.lengths}
        for name, spent in self.spent.items():
            columns[f"spent of {name}" if name in _COLUMNS else name] = spent
        for name, column in columns.items():
            pairs = zip(_SHOWN, _quantiles(column, _SHOWN), strict=True)
            shown = ", ".join(f"{100 * q:g}%: {x:.4g}" for q, x in pairs)
            lines.append(f"{name:<11} quantiles {shown}")
        return "\n".join(lines)


def _quantiles(column: NDArray[Any], q: Any) -> Any:
    """Return quantiles of a column: a float, or an array for several probabilities."""
    try:
        chances = np.asarray(q, np.float64)
        valid = not isinstance(q, bool | str) and bool(((chances >= 0) & (chances <= 1)).all())
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ModelError("q", "probabilities from 0 to 1", quote(q))
    found = np.quantile(column, chances)
    return float(found) if np.ndim(found) == 0 else found


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

    Costs are those that the innermost meter records that knows the limited resources: a `CostMeter`, or a `ModelEnv`.
    They are added up here in exact numbers, independently of any wrapper with a budget. The floor and the ceiling of a
    resource, and what has been spent of it before the first step, are those of the outermost wrapper that limits a
    resource of that name, or else of a `ModelEnv`, also if `budget` is given.

    Parameters
    ----------
    env : gymnasium.Env
        A single environment with a meter inside.
    agent : object with `predict`, function, policy, result, or "random"
        An agent of Stable-Baselines3 or sb3-contrib, which gets masks, and its own state if it is recurrent; a function
        of (observation, info) or of the observation alone; a policy of Solvent, or the result of `solve` or `learn`
        that has one; or "random" for random actions among those the mask allows. A policy is followed in a `ModelEnv`,
        or in an environment whose observations name the states of the policy's model, as after learning there; episodes
        then end at its horizon.
    episodes : int
        Number of episodes.
    budget : number, Budget, or dict of them by resource, optional
        One anytime upper limit per resource. A number limits the only resource of a `ModelEnv`, or of the wrapper
        around a `CostMeter`, or else the costs without a name. Default: the limits of a wrapper in `env`.
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
        If there is no meter inside, or no budget, or the meter does not record a limited resource: a `ModelEnv`
        without it, or a `CostMeter` that reports costs by name, and in all episodes never one of that resource. A
        resource that a wrapper in `env` limits need not occur.

    Examples
    --------
    >>> from solvent.gym import BudgetWrapper, CostMeter
    >>> meter = CostMeter(gymnasium.make("CartPole-v1"), cost=lambda state, action, after: action)
    >>> env = BudgetWrapper(meter, budget=5, cost_bound=[0, 1])
    >>> found = evaluate(env, lambda observation, info: int(info["action_mask"][1]), episodes=20, seed=1)
    >>> found.violations, max(found.most["cost"]), evaluate(meter, "random", 20, budget=5, seed=1).violations
    (0, Fraction(5, 1), 17)
    """
    episodes = _whole(episodes, "episodes", 1)
    seed = None if seed is None else _whole(seed, "seed", 0)
    max_steps = None if max_steps is None else _whole(max_steps, "max_steps", 1)
    number = isinstance(confidence, int | float | np.floating) and not isinstance(confidence, bool)
    if not number or not 0 < confidence < 1:
        raise ModelError("confidence", "a number between 0 and 1", quote(confidence))
    limits, accounts = _limits(env, budget)
    meter, record = recording_meter(env, limits.resources), _Record(limits.resources)
    player = player_of(env, agent, seed, deterministic)
    lengths = [each for each in (max_steps, player.horizon) if each is not None]
    rows = []
    meter.attach(record)
    try:
        for episode in range(episodes):
            account = _Account(limits, accounts)
            rows.append(_play(env, player, record, account, seed if episode == 0 else None, min(lengths, default=None)))
    finally:
        meter.detach(record)
        player.close()
    record.check_names(_known_names(env), isinstance(budget, Mapping))
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
        self.spent = self.most = list(limits.initial)
        self.violated, self._step, self._begun = False, 0, False

    def add(self, steps: Sequence[Sequence[Fraction]]) -> None:
        """Add the costs of each step of the environment since the last call, and compare the sums with the limits."""
        for costs in steps:
            amounts = zip(self._accounts, self.spent, costs, strict=True)
            self.spent = [account.clamp(amount + cost) for account, amount, cost in amounts]
            self.most = [max(pair) for pair in zip(self.most, self.spent, strict=True)] if self._begun else self.spent
            self._begun = True
            for d, amount in enumerate(self.spent):
                upper, lower = self._limits.upper[d], self._limits.lower[d]
                most, least = upper[min(self._step, len(upper) - 1)], lower[min(self._step, len(lower) - 1)]
                self.violated |= (most is not None and amount > most) or (least is not None and amount < least)

    def next_step(self) -> None:
        """Go to the limits of the next step."""
        self._step += 1


class _Record:
    """What a meter reports: the costs of each step, and the names of all resources that costs were reported of."""

    def __init__(self, resources: tuple[str, ...]) -> None:
        self.resources = resources
        self._costs: list[tuple[Fraction, ...]] = []
        self._names: dict[str, None] = {}

    def write(self, found: Any) -> None:
        """Record the costs of one step of the environment; of costs by name, those of the limited resources."""
        if isinstance(found, Mapping):
            self._names.update(dict.fromkeys(map(str, found)))
            found = {name: found[name] for name in self.resources if name in found}
        costs = zip(self.resources, read_costs(found, self.resources, "step"), strict=True)
        self._costs.append(tuple(exact(cost, f"step, cost of {name}") for name, cost in costs))

    def fail(self, error: ModelError) -> None:
        """Raise the error that the costs of a step cannot be read."""
        raise error

    def take(self) -> list[tuple[Fraction, ...]]:
        """Return the costs of the steps since the last call, one per resource."""
        found, self._costs = self._costs, []
        return found

    def check_names(self, known: Container[str], named: bool) -> None:
        """Raise a `ModelError` if costs were reported by name, but never of a limited resource that is not known."""
        for name in self.resources if self._names else ():
            if name not in self._names and name not in known:
                hint = "" if named else f"name the resource: budget={{{next(iter(self._names))!r}: ...}}"
                raise never_reported(name, list(self._names), hint)


def _play(
    env: Any, player: Player, record: _Record, account: _Account, seed: int | None, max_steps: int | None
) -> tuple[float, int, _Account, bool]:
    """Play one episode; return its return, its length, its account, and whether it ended in a dead end."""
    record.take()
    observation, info = env.reset(seed=seed)
    account.add(record.take())  # a wrapper may take steps in its reset
    earned, steps, first = 0.0, 0, True
    if isinstance(env.unwrapped, ModelEnv) and env.unwrapped.done:  # it starts in a terminal state
        return earned, steps, account, False
    while max_steps is None or steps < max_steps:
        action = player(observation, info, first)
        observation, reward, terminated, truncated, info = env.step(action)
        earned, steps, first = earned + float(np.sum(reward)), steps + 1, False
        account.add(record.take())
        account.next_step()
        if terminated or truncated:
            break
    return earned, steps, account, bool(info.get("dead_end", False))


def _known_names(env: Any) -> set[str]:
    """Return the resources of wrappers with a budget, which refuse reports of other names."""
    return {name for layer in layers(env) if isinstance(layer, AccountWrapper) for name in layer.limits.resources}


def _whole(value: Any, where: str, least: int) -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    if not whole or value < least:
        raise ModelError(where, f"a whole number of at least {least}", quote(value))
    return int(value)


def _limits(env: Any, budget: Any) -> tuple[Limits, tuple[Resource, ...]]:
    """Return the limits, with the amounts spent before the first step, and the resources, which may saturate."""
    meters = meters_of(env)
    wrapper = next((layer for layer in layers(env) if isinstance(layer, AccountWrapper)), None)
    if budget is None:
        if wrapper is None:
            raise ModelError("budget", "a budget, as no wrapper of the environment has one", "None")
        return wrapper.limits, wrapper.accounts
    try:
        limits = read_limits(budget)
    except BudgetError as error:
        if "model=" not in error.hint:
            raise
        hint = "put a BudgetWrapper with other limits around the environment, and omit budget"
        raise BudgetError(error.where, error.expected, error.found, hint) from None
    if not isinstance(budget, Mapping):
        known: tuple[str, ...] = (ONLY_RESOURCE,) if wrapper is None else wrapper.limits.resources
        if isinstance(meters[0], ModelEnv):
            known = meters[0].model.resources
        if len(known) != 1:
            listed = ", ".join(map(quote, known)) or "there is none"
            raise ModelError("budget", f"a dict of limits by resource ({listed})", quote(budget))
        limits = replace(limits, resources=known)
    begun = [_account(env, name) for name in limits.resources]
    return replace(limits, initial=tuple(spent for _, spent in begun)), tuple(resource for resource, _ in begun)


def _account(env: Any, name: str) -> tuple[Resource, Fraction]:
    """Return a resource, which may saturate, and what has been spent of it before the first step."""
    for layer in layers(env):
        if isinstance(layer, AccountWrapper) and name in layer.limits.resources:
            d = layer.limits.resources.index(name)
            return layer.accounts[d], layer.limits.initial[d]
        if isinstance(layer, ModelEnv) and name in layer.model.resources:
            return layer.model.resource(name), layer.initial[name]
    return Resource(name), Fraction(0)
