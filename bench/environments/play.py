"""Playing the environments: agents, and every mode that promises never to exceed the budget.

Agents ask for random actions, for the most expensive action that is allowed, or always for the most expensive one,
allowed or not. The same agents without Solvent show that the budget matters and that the meter would notice.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

import solvent
from bench.environments.cases import Agents, Case, Continuous, Discrete
from bench.environments.meter import Account, Ledger, Meter, parallel_meter, turns_meter
from solvent.gym import BudgetWrapper, ContinuousBudgetWrapper, NormCost, VectorBudgetWrapper

#: Environments of a vector.
_VECTOR = 4
#: What an agent asks for: anything that is allowed, the most expensive that is allowed, the most expensive of all.
RANDOM, SPENDER, DEFIANT = "random", "spender", "defiant"
Record = dict[str, Any]


def modes(case: Case) -> tuple[str, ...]:
    """Return the modes that promise to keep the budget in an environment."""
    if isinstance(case, Agents):
        return ("ParallelBudgetWrapper" if case.parallel else "AECBudgetWrapper",)
    if isinstance(case, Continuous):
        return ("ContinuousBudgetWrapper",)
    found = ["BudgetWrapper, bound"]
    if case.table:
        found.append("BudgetWrapper, exact masks")
    if case.vector:
        found.append("VectorBudgetWrapper")
    if case.horizon is not None:
        found.append("learn, strict, bound")
        if case.table:
            found.append("learn, strict, support")
    return tuple(found)


def play(case: Case, mode: str, steps: int, seed: int) -> Record:
    """Play an environment in a mode, and without Solvent, for a number of steps with each agent; return the counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the environments
        if isinstance(case, Agents):
            accounts, bare = _play_agents(case, steps, seed), _play_agents(case, steps, seed, protected=False)
        elif isinstance(case, Continuous):
            accounts = _play_continuous(case, steps, seed)
            bare = _play_continuous(case, steps, seed, protected=False)
        else:
            accounts, bare = _PLAYERS[mode](case, steps, seed), _play_bare(case, steps, seed)
    return {
        "episodes": sum(each.episodes for each in accounts),
        "steps": sum(each.steps for each in accounts),
        "over": sum(each.over for each in accounts),
        "most": str(max(each.most for each in accounts)),
        "bare_episodes": sum(each.episodes for each in bare),
        "bare_over": sum(each.over for each in bare),
    }


def _most_expensive(case: Discrete, observation: Any, allowed: Any, rng: np.random.Generator) -> int:
    prices = [case.price(observation, int(a)) for a in allowed]
    best = max(prices)
    return int(rng.choice([int(a) for a, price in zip(allowed, prices, strict=True) if price == best]))


def _own_mask(observation: Any, n: int) -> Any:
    """Return the actions that an environment itself allows."""
    if isinstance(observation, dict) and "action_mask" in observation:
        return np.flatnonzero(np.asarray(observation["action_mask"]).ravel())
    return np.arange(n)


def _ask(case: Discrete, agent: str, observation: Any, mask: Any, rng: np.random.Generator) -> int:
    allowed = np.flatnonzero(mask)
    if agent == RANDOM:
        return int(rng.choice(allowed))
    return _most_expensive(case, observation, allowed if agent == SPENDER else np.arange(len(mask)), rng)


class _Seen(gymnasium.ObservationWrapper):  # type: ignore[type-arg]
    """Keeps the environment's own observation for the agents."""

    passes_actions = True
    last: Any = None

    def observation(self, observation: Any) -> Any:
        """Return an observation unchanged."""
        self.last = observation
        return observation


def _metered(case: Discrete | Continuous, account: Account, *, report: bool = True) -> _Seen:
    return _Seen(
        Meter(case.make(), case.charged if isinstance(case, Discrete) else case.charge, account, report=report)
    )


def _run(env: Any, seen: _Seen, ask: Callable[[Any, Any], Any], steps: int, seed: int) -> None:
    """Take steps; `ask` maps the environment's own observation and `info` to an action."""
    _, info = env.reset(seed=seed)
    for _ in range(steps):
        _, _, terminated, truncated, info = env.step(ask(seen.last, info))
        if terminated or truncated:
            _, info = env.reset()


def _play_masked(case: Discrete, steps: int, seed: int, model: solvent.CMDP | None = None) -> list[Account]:
    accounts = []
    for number, agent in enumerate((RANDOM, SPENDER, DEFIANT)):
        account, rng = Account(case.budget), np.random.default_rng([seed, number])
        seen = _metered(case, account)
        known: dict[str, Any] = {"cost_bound": case.price} if model is None else {"model": model}
        fallback = "first" if agent == DEFIANT else None
        env = BudgetWrapper(seen, case.budget, fallback=fallback, dead_start="end", **known)
        _run(env, seen, lambda o, info, a=agent, r=rng: _ask(case, a, o, info["action_mask"], r), steps, seed)  # type: ignore[misc]
        accounts.append(account)
    return accounts


def _table(case: Discrete) -> solvent.CMDP:
    assert case.horizon is not None
    return solvent.CMDP.from_gymnasium(case.make(), cost=lambda s, a, n: case.price(s, a), horizon=case.horizon)


def _play_exact(case: Discrete, steps: int, seed: int) -> list[Account]:
    return _play_masked(case, steps, seed, _table(case))


def _play_vector(case: Discrete, steps: int, seed: int) -> list[Account]:
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    found = []
    for number, agent in enumerate((RANDOM, SPENDER, DEFIANT)):
        accounts, rng = [Account(case.budget) for _ in range(_VECTOR)], np.random.default_rng([seed, number])
        inner = SyncVectorEnv(
            [lambda account=account: Meter(case.make(), case.charged, account) for account in accounts],  # type: ignore[misc]
            autoreset_mode=AutoresetMode.DISABLED,
        )
        env = VectorBudgetWrapper(
            inner,
            case.budget,
            cost=lambda seen, actions, after: [case.price(None, int(a)) for a in actions],
            cost_bound=case.price,
            fallback="first" if agent == DEFIANT else None,
        )
        env.reset(seed=seed)
        for _ in range(steps // _VECTOR):
            env.step(np.array([_ask(case, agent, None, mask, rng) for mask in env.action_masks()]))
        found += accounts
    return found


def _learn(case: Discrete, steps: int, seed: int, **known: Any) -> list[Account]:
    """Learn with costs rounded up; the episodes are the learner's own."""
    account = Account(case.budget)
    assert case.horizon is not None
    env = Meter(gymnasium.wrappers.TimeLimit(case.make().unwrapped, 10 * case.horizon), case.charged, account)
    solvent.learn(
        env, case.horizon, budget=case.budget, strict=True, seed=seed, reward_range=case.rewards, random_start=True,
        max_episodes=max(1, steps // case.horizon), **known,
    )  # fmt: skip
    return [account]


def _play_bare(case: Discrete, steps: int, seed: int) -> list[Account]:
    accounts = []
    for number, agent in enumerate((RANDOM, SPENDER)):
        account, rng = Account(case.budget), np.random.default_rng([seed, number])
        seen = _metered(case, account)
        n = int(seen.action_space.n)  # type: ignore[attr-defined]

        def ask(observation: Any, info: Any, agent: str = agent, rng: Any = rng, n: int = n) -> int:
            mask = np.isin(np.arange(n), _own_mask(observation, n))
            return _ask(case, agent, observation, mask, rng)

        _run(seen, seen, ask, steps, seed)
        accounts.append(account)
    return accounts


_PLAYERS: dict[str, Callable[[Discrete, int, int], list[Account]]] = {
    "BudgetWrapper, bound": _play_masked,
    "BudgetWrapper, exact masks": _play_exact,
    "VectorBudgetWrapper": _play_vector,
    "learn, strict, bound": lambda case, steps, seed: _learn(case, steps, seed, cost_bound=case.price),
    "learn, strict, support": lambda case, steps, seed: _learn(case, steps, seed, support=_table(case)),
}


def _play_continuous(case: Continuous, steps: int, seed: int, *, protected: bool = True) -> list[Account]:
    accounts = []
    for number, agent in enumerate((RANDOM, SPENDER)):
        account, rng = Account(case.budget), np.random.default_rng([seed, number])
        seen = _metered(case, account, report=case.key is None)
        env: Any = seen
        if protected:
            bound = case.bound if case.norm is None else NormCost(*case.norm)
            env = ContinuousBudgetWrapper(seen, case.budget, cost=case.key, cost_bound=bound)
        space: Any = seen.action_space
        low, high = (np.clip(side, -case.most, case.most) for side in (space.low, space.high))

        def ask(
            observation: Any, info: Any, agent: str = agent, rng: Any = rng, low: Any = low, high: Any = high
        ) -> Any:
            if agent == RANDOM:
                return rng.uniform(low, high).astype(np.float32)
            sides = np.where(np.abs(low) == np.abs(high), rng.random(low.shape) < 0.5, np.abs(high) > np.abs(low))
            return np.where(sides, high, low).astype(np.float32)

        _run(env, seen, ask, steps, seed)
        accounts.append(account)
    return accounts


def _play_agents(case: Agents, steps: int, seed: int, *, protected: bool = True) -> list[Account]:
    from solvent.gym.pettingzoo import AECBudgetWrapper, ParallelBudgetWrapper

    found = []
    for number, agent in enumerate((RANDOM, SPENDER, DEFIANT) if protected else (RANDOM, SPENDER)):
        inner, rng = case.make(), np.random.default_rng([seed, number])
        ledger = Ledger(list(inner.possible_agents), case.budget, shared=case.shared)
        env = (parallel_meter if case.parallel else turns_meter)(inner, case.prices, ledger)
        if protected:
            wrapper = ParallelBudgetWrapper if case.parallel else AECBudgetWrapper
            fallback = "first" if agent == DEFIANT else None
            bound = lambda name, observation, action: case.prices(name, action)  # noqa: E731
            env = wrapper(env, case.budget, bound, shared=case.shared, fallback=fallback)
        runner = _run_parallel if case.parallel else _run_turns
        runner(case, env, agent, rng, steps, seed, protected=protected)
        found += ledger.accounts
    return found


def _choose(case: Agents, name: Any, agent: str, mask: Any, rng: np.random.Generator) -> int:
    allowed = np.arange(len(mask)) if agent == DEFIANT else np.flatnonzero(mask)
    if agent == RANDOM:
        return int(rng.choice(allowed))
    return int(max(allowed, key=lambda a: case.prices(name, int(a))))


def _run_parallel(
    case: Agents, env: Any, agent: str, rng: np.random.Generator, steps: int, seed: int, *, protected: bool
) -> None:
    taken, episode = 0, 0
    while taken < steps:
        env.reset(seed=seed + episode)
        episode += 1
        while env.agents and taken < steps:
            masks = {
                name: env.action_mask(name) if protected else np.ones(env.action_space(name).n, bool)
                for name in env.agents
            }
            env.step({name: _choose(case, name, agent, mask, rng) for name, mask in masks.items()})
            taken += len(masks)


def _run_turns(
    case: Agents, env: Any, agent: str, rng: np.random.Generator, steps: int, seed: int, *, protected: bool
) -> None:
    taken, episode = 0, 0
    while taken < steps:
        env.reset(seed=seed + episode)
        episode += 1
        for name in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.step(None)
                continue
            mask = env.action_mask() if protected else np.asarray(observation["action_mask"], bool)
            env.step(_choose(case, name, agent, mask, rng))
            taken += 1
