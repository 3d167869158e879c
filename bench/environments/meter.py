"""Independent meters, directly around the innermost environment; this module imports nothing of Solvent.

A meter adds up what an environment really took, in fractions. An episode is over budget if, after some step, the sum
of the costs so far exceeds the budget. A float counts as the binary number that it is.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import gymnasium


class Step(NamedTuple):
    """A step of an environment, as the meter saw it.

    Attributes
    ----------
    env : gymnasium.Env
        The environment itself, without wrappers.
    before, action, after, reward, info : Any
    """

    env: Any
    before: Any
    action: Any
    after: Any
    reward: Any
    info: dict[str, Any]


#: What a step costs: a whole number, a fraction or a float.
Charge = Callable[[Step], Any]


class Account:
    """What episodes spent.

    Parameters
    ----------
    budget : Fraction

    Attributes
    ----------
    episodes, steps, over : int
        Number of episodes that took at least one step, of steps, and of episodes over budget.
    most : Fraction
        The most that was spent after any step of any episode.
    """

    def __init__(self, budget: Fraction) -> None:
        self.budget = budget
        self.episodes = self.steps = self.over = 0
        self.most = Fraction(0)
        self._spent, self._length, self._broken = Fraction(0), 0, False

    def begin(self) -> None:
        """Start an episode."""
        self._spent, self._length, self._broken = Fraction(0), 0, False

    def add(self, cost: Any) -> None:
        """Charge the cost of a step."""
        self._spent += Fraction(cost)
        self.steps += 1
        self.episodes += self._length == 0
        self._length += 1
        self.most = max(self.most, self._spent)
        self.over += not self._broken and self._spent > self.budget
        self._broken = self._broken or self._spent > self.budget


class Meter(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Charge every step of an environment to an account.

    Parameters
    ----------
    env : gymnasium.Env
    charge : Charge
    account : Account
    report : bool
        Whether to pass the cost on as `info["cost"]`; if not, what is above must read it from the environment itself.
    """

    #: Solvent's wrappers accept wrappers inside that pass actions on unchanged.
    passes_actions = True

    def __init__(self, env: Any, charge: Charge, account: Account, *, report: bool = True) -> None:
        super().__init__(env)
        self._charge, self._account, self._report = charge, account, report
        self._before: Any = None

    def reset(self, **options: Any) -> Any:
        """Start an episode, in the environment and in the account."""
        self._account.begin()
        result = self.env.reset(**options)
        self._before = result[0]
        return result

    def step(self, action: Any) -> Any:
        """Take a step and charge it."""
        after, reward, terminated, truncated, info = self.env.step(action)
        cost = self._charge(Step(self.env.unwrapped, self._before, action, after, reward, info))
        self._account.add(cost)
        self._before = after
        return after, reward, terminated, truncated, {**info, "cost": cost} if self._report else info


class Ledger:
    """The accounts of several agents: one for each, or one that all share.

    Parameters
    ----------
    agents : list
    budget : Fraction
    shared : bool
    """

    def __init__(self, agents: list[Any], budget: Fraction, *, shared: bool) -> None:
        if shared:
            account = Account(budget)
            self._accounts = dict.fromkeys(agents, account)
        else:
            self._accounts = {agent: Account(budget) for agent in agents}

    @property
    def accounts(self) -> list[Account]:
        """The accounts, each once."""
        return list({id(account): account for account in self._accounts.values()}.values())

    def begin(self) -> None:
        """Start an episode."""
        for account in self.accounts:
            account.begin()

    def add(self, agent: Any, cost: Any) -> None:
        """Charge the action of an agent."""
        self._accounts[agent].add(cost)


def parallel_meter(env: Any, prices: Callable[[Any, int], Any], ledger: Ledger) -> Any:
    """Return a PettingZoo environment whose agents act at the same time, with a ledger of what their actions cost."""
    from pettingzoo.utils.wrappers import BaseParallelWrapper

    class Parallel(BaseParallelWrapper):  # type: ignore[misc, type-arg, unused-ignore]
        passes_actions = True

        def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            ledger.begin()
            return self.env.reset(seed=seed, options=options)

        def step(self, actions: Any) -> Any:
            for agent, action in actions.items():
                ledger.add(agent, prices(agent, int(action)))
            return self.env.step(actions)

    return Parallel(env)


def turns_meter(env: Any, prices: Callable[[Any, int], Any], ledger: Ledger) -> Any:
    """Return a PettingZoo environment whose agents take turns, with a ledger of what their actions cost."""
    from pettingzoo.utils.wrappers import BaseWrapper

    class Turns(BaseWrapper):  # type: ignore[misc, type-arg, unused-ignore]
        passes_actions = True

        def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
            ledger.begin()
            self.env.reset(seed=seed, options=options)

        def step(self, action: Any) -> None:
            if action is not None:  # agents that are done take no action
                ledger.add(self.env.agent_selection, prices(self.env.agent_selection, int(action)))
            self.env.step(action)

    return Turns(env)
