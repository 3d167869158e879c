"""Problems as plain data: what the generator makes, transformations change, and the shrinker cuts down.

A `Problem` knows nothing of the package's arrays. It can be built into a model and a budget, and printed as a script
that runs by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from solvent.model.distributions import CostDistribution

#: A number as a user would type it: exact ones, floats, or text such as "1/3" and "0.1".
Number = int | float | str | Fraction


class Distribution(NamedTuple):
    """A continuous cost: the arguments of `solvent.distribution`."""

    name: str
    parameters: tuple[tuple[str, Number], ...]
    negate: bool = False


Cost = Number | Distribution
#: One side of a limit: a number for all steps, one entry per step, or None if it is open.
Side = Number | tuple[Number | None, ...] | None


class Outcome(NamedTuple):
    """One outcome of a row; `cost` has one entry per resource of the problem."""

    probability: Number
    next_state: Any
    cost: tuple[Cost, ...] = ()


class Row(NamedTuple):
    """The outcomes of an action in a state; `steps` is None for all steps."""

    state: Any
    action: Any
    reward: Number
    outcomes: tuple[Outcome, ...]
    steps: tuple[int, ...] | None = None


class Limit(NamedTuple):
    """The limits of one resource: a number for all steps, a tuple with one entry per step, or None if it is open.

    `final` limits hold after the last step only; then both sides are numbers or None.
    """

    upper: Side = None
    lower: Side = None
    final: bool = False


class Account(NamedTuple):
    """How the amount spent of one resource behaves: where it saturates, and where it begins."""

    floor: Number | None = None
    ceiling: Number | None = None
    initial: Number = 0


#: What a problem may have besides rows and limits, in the order in which statistics list them.
FEATURES = ("floor", "ceiling", "initial", "start", "end_reward", "goal")


@dataclass(frozen=True)
class Problem:
    """A model and a budget.

    Attributes
    ----------
    horizon : int or None
        None for a discounted model.
    start : hashable, or dict of hashable to Number
        The first state, or the probability of each possible one.
    resources : tuple of str
    rows : tuple of Row
    limits : dict of str to Limit
        A resource that is missing is not limited.
    terminal : tuple of (state, steps or None)
        Where the episode is over, at all steps or at those given.
    discount : Number or None
    tags : frozenset of str
        What the generator put into it, for statistics and for choosing checks.
    accounts : dict of str to Account
        Floor, ceiling and initial amount of resources; one that is missing has neither and begins at 0.
    end_reward : dict of state to Number
        What it is worth to end there.
    goals : tuple of states, or None
        Where an episode may end; None for everywhere.
    """

    horizon: int | None
    start: Any
    resources: tuple[str, ...]
    rows: tuple[Row, ...]
    limits: Mapping[str, Limit] = field(default_factory=dict)
    terminal: tuple[tuple[Any, tuple[int, ...] | None], ...] = ()
    discount: Number | None = None
    tags: frozenset[str] = frozenset()
    accounts: Mapping[str, Account] = field(default_factory=dict)
    end_reward: Mapping[Any, Number] = field(default_factory=dict)
    goals: tuple[Any, ...] | None = None

    def build(self) -> tuple[Any, dict[str, Any]]:
        """Return the model and the budget that `solvent.solve` takes; see `given` for what else it takes."""
        import solvent

        resources = [self._resource(name) for name in self.resources]
        options: dict[str, Any] = {"horizon": self.horizon, "start": self.start, "resources": resources}
        if self.discount is not None:
            options["discount"] = self.discount
        if self.end_reward:
            options["end_reward"] = dict(self.end_reward)
        if self.goals is not None:
            options["must_end_in"] = list(self.goals)
        builder = solvent.CMDP.builder(**options)
        for row in self.rows:
            outcomes = [(o.probability, o.next_state, [_cost(cost) for cost in o.cost]) for o in row.outcomes]
            steps = {} if row.steps is None else {"steps": list(row.steps)}
            builder.add(row.state, row.action, reward=row.reward, outcomes=outcomes, **steps)
        for state, steps_over in self.terminal:
            builder.terminal(state, steps=None if steps_over is None else list(steps_over))
        return builder.build(), self.budget()

    def budget(self) -> dict[str, Any]:
        """Return the budget alone."""
        import solvent

        budget: dict[str, Any] = dict.fromkeys(self.resources)
        for name, limit in self.limits.items():
            if limit.final:
                budget[name] = solvent.Budget.final(constant(limit.upper), lower=constant(limit.lower))
            else:
                upper = list(limit.upper) if isinstance(limit.upper, tuple) else limit.upper
                lower = list(limit.lower) if isinstance(limit.lower, tuple) else limit.lower
                budget[name] = solvent.Budget(upper=upper, lower=lower)
        return budget

    def _resource(self, name: str) -> Any:
        import solvent

        account = self.account(name)
        if account.floor is None and account.ceiling is None:
            return name
        return solvent.Resource(name, floor=account.floor, ceiling=account.ceiling)

    @property
    def given(self) -> dict[str, Any]:
        """Keyword arguments besides the budget: what has been spent before the first step, if anything."""
        spent = {name: each.initial for name, each in self.accounts.items() if Fraction(each.initial)}
        return {"spent": spent} if spent else {}

    def account(self, name: str) -> Account:
        """Return the account of a resource."""
        return self.accounts.get(name, Account())

    @property
    def first_states(self) -> dict[Any, Number]:
        """Probability of each possible first state."""
        return dict(self.start) if isinstance(self.start, Mapping) else {self.start: 1}

    @property
    def features(self) -> tuple[str, ...]:
        """Which of `FEATURES` it has."""
        accounts = [self.account(name) for name in self.resources]
        has = {
            "floor": any(each.floor is not None for each in accounts),
            "ceiling": any(each.ceiling is not None for each in accounts),
            "initial": any(Fraction(each.initial) for each in accounts),
            "start": len(self.first_states) > 1,
            "end_reward": bool(self.end_reward),
            "goal": self.goals is not None,
        }
        return tuple(name for name in FEATURES if has[name])

    def with_(self, **changes: Any) -> Problem:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)

    @property
    def outcome_count(self) -> int:
        """Number of outcomes of all rows."""
        return sum(len(row.outcomes) for row in self.rows)


def constant(side: Side) -> Number | None:
    """Return a limit that is the same at every step.

    Raises
    ------
    TypeError
        If the limit has one entry per step.
    """
    if isinstance(side, tuple):
        raise TypeError(f"expected a limit for all steps, found {side}")
    return side


def _cost(cost: Cost) -> Number | CostDistribution:
    if not isinstance(cost, Distribution):
        return cost
    import solvent

    parameters: dict[str, Any] = dict(cost.parameters)
    return solvent.distribution(cost.name, negate=cost.negate, **parameters)
