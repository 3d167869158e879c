"""Transition systems: the form in which model checkers see a model.

    state -- choice, with rewards --> distribution over next states

A reward belongs to a choice, not to its outcomes. Where costs of a row depend on the outcome, each step of the model is
therefore two transitions: the choice, then a choice `pay` from a state that says what is due. Probabilities of a choice
are rational numbers with the sum 1, within rounding of those of the model.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solvent.errors import ModelError, quote
from solvent.model.amounts import as_typed, format_amount
from solvent.model.cmdp import CMDP
from solvent.model.discounted import AnyModel, DiscountedCMDP

#: Name of the reward structure that holds the rewards of a model.
REWARD = "reward"
#: Label of the states in which an episode may end, of a model that says so.
GOAL = "goal"

_WORD = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True)
class Variable:
    """A variable of a transition system: its name, its range, and what its values mean."""

    name: str
    low: int
    high: int
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class TransitionSystem:
    """An MDP with exact numbers and named reward structures.

    Attributes
    ----------
    variables : tuple of Variable
    valuation_SV : ndarray of int64, shape (S, V)
        Values of the variables in each state.
    initial : int
        The initial state.
    actions : tuple of str
        Names of actions.
    choice_indptr : ndarray of int64, shape (S + 1,)
        First choice of each state; every state has one.
    choice_action : ndarray of int64, shape (C,)
        Action of each choice, by position.
    entry_indptr : ndarray of int64, shape (C + 1,)
        First outcome of each choice.
    next_state : ndarray of int64, shape (E,)
    probability : list of Fraction, length E
    rewards : dict of str to list of Fraction, each of length C
        Reward structures.
    labels : dict of str to ndarray of int64
        States that have each label.
    notes : tuple of str
        Lines to print at the beginning of a file.
    """

    variables: tuple[Variable, ...]
    valuation_SV: NDArray[np.int64]
    initial: int
    actions: tuple[str, ...]
    choice_indptr: NDArray[np.int64]
    choice_action: NDArray[np.int64]
    entry_indptr: NDArray[np.int64]
    next_state: NDArray[np.int64]
    probability: list[Fraction]
    rewards: dict[str, list[Fraction]]
    labels: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return len(self.valuation_SV)

    @property
    def n_choices(self) -> int:
        """Number of choices C."""
        return len(self.choice_action)

    def choices(self) -> Iterator[range]:
        """Yield the choices of each state."""
        bounds = self.choice_indptr.tolist()
        return (range(first, after) for first, after in itertools.pairwise(bounds))

    def outcomes(self, choice: int) -> list[tuple[Fraction, int]]:
        """Return the probability and the next state of each outcome of a choice."""
        entries = slice(int(self.entry_indptr[choice]), int(self.entry_indptr[choice + 1]))
        return list(zip(self.probability[entries], self.next_state[entries].tolist(), strict=True))

    def name_of(self, state: int) -> str:
        """Return what the values of the variables in a state mean, for a comment."""
        values = self.valuation_SV[state].tolist()
        parts = [
            variable.texts[value] if variable.texts else f"{variable.name}={value}"
            for variable, value in zip(self.variables, values, strict=True)
        ]
        return ", ".join(parts)


class SystemBuilder:
    """Collects the states and choices of a transition system.

    A state is a tuple of the values of all variables. States are numbered in the order in which they are first named.
    """

    def __init__(self, initial: tuple[int, ...], actions: Iterable[str], rewards: Iterable[str]) -> None:
        self.place: dict[tuple[int, ...], int] = {initial: 0}
        self.actions: dict[str, int] = {name: i for i, name in enumerate(actions)}
        self.rewards: dict[str, dict[int, Fraction]] = {name: {} for name in rewards}
        self._choices: list[tuple[int, int, list[Fraction], list[int]]] = []

    def index(self, state: tuple[int, ...]) -> int:
        """Return the number of a state."""
        return self.place.setdefault(state, len(self.place))

    def add(
        self,
        state: tuple[int, ...],
        action: str,
        outcomes: Iterable[tuple[Fraction, tuple[int, ...]]],
        rewards: Iterable[tuple[str, Fraction]] = (),
    ) -> None:
        """Add a choice; outcomes that lead to the same state are merged."""
        chance: dict[int, Fraction] = {}
        for p, after in outcomes:
            at = self.index(after)
            chance[at] = chance.get(at, Fraction(0)) + p
        number = self.actions.setdefault(action, len(self.actions))
        for name, amount in rewards:
            if amount:
                self.rewards[name][len(self._choices)] = amount
        self._choices.append((self.index(state), number, list(chance.values()), list(chance)))

    def build(
        self, variables: Sequence[Variable], labels: dict[str, list[tuple[int, ...]]], notes: Sequence[str]
    ) -> TransitionSystem:
        """Return the system; a state without a choice gets one that leads to itself."""
        acting = {state for state, *_ in self._choices}
        for number in range(len(self.place)):
            if number not in acting:
                stay = self.actions.setdefault("stay", len(self.actions))
                self._choices.append((number, stay, [Fraction(1)], [number]))
        order = sorted(range(len(self._choices)), key=lambda i: self._choices[i][0])
        listed = [self._choices[i] for i in order]
        counts = np.bincount(np.array([state for state, *_ in listed]), minlength=len(self.place))
        lengths = [len(after) for *_, after in listed]
        return TransitionSystem(
            variables=tuple(variables),
            valuation_SV=np.array(list(self.place), np.int64).reshape(len(self.place), len(variables)),
            initial=0,
            actions=tuple(self.actions),
            choice_indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            choice_action=np.array([action for _, action, *_ in listed], np.int64),
            entry_indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            next_state=np.array([t for *_, after in listed for t in after], np.int64),
            probability=[p for _, _, chance, _ in listed for p in chance],
            rewards={
                name: [given.get(i, Fraction(0)) for i in order] for name, given in self.rewards.items()
            },
            labels={
                name: np.array(sorted(self.place[state] for state in states if state in self.place), np.int64)
                for name, states in labels.items()
            },
            notes=tuple(notes),
        )  # fmt: skip


def transition_system(model: AnyModel) -> TransitionSystem:
    """Return the transition system of a model.

    Its variables are the state; the step, if rows or the value of ending depend on it; and what is due, if costs depend
    on outcomes. The notes say how many transitions an episode has.

    Raises
    ------
    ModelError
        If the model is discounted or has continuous costs, or two reward structures would have the same name.

    Examples
    --------
    >>> from solvent.model import instances
    >>> system = transition_system(instances.knapsack([60, 100], [10, 20], capacity=20))
    >>> [variable.name for variable in system.variables], system.n_states, list(system.rewards)
    (['state', 'step'], 3, ['weight', 'reward'])
    """
    if isinstance(model, DiscountedCMDP):
        raise ModelError(
            "model", "a model with a horizon", "a model with a discount", "save it as .yaml, .json or .npz"
        )
    for d in range(model.n_resources):
        model.refuse_continuous(d, "numbers, which model checkers can hold", "save the model as .yaml, .json or .npz")
    if REWARD in model.resources:
        raise ModelError("resources", f"names other than {quote(REWARD)}, which holds the rewards", quote(REWARD))
    conversion = _Conversion(model)
    if conversion.horizon != model.horizon:  # transitions without a cost must not change what was spent
        for name in model.resources:
            if model.resource(name).clamp(Fraction(0)):
                found = model.resource(name).text
                raise ModelError("resources", "floors of at most 0 and ceilings of at least 0", found)
    return conversion.system()


class _Conversion:
    """A model on its way to a transition system. States are tuples (state[, step][, due])."""

    def __init__(self, model: CMDP) -> None:
        self.model = model
        self.counts_steps = not model.is_stationary or model.end_reward is not None
        self.dues = self._costs_of_outcomes()
        self.over, self.lost, self.begin = model.n_states, model.n_states + 1, model.n_states + 2
        self.ends = model.end_reward is not None

    def _costs_of_outcomes(self) -> dict[tuple[int, ...], int]:
        """Return the distinct cost vectors, in ticks, numbered from 1; empty if no row has two different ones."""
        model = self.model
        if not model.n_resources:
            return {}
        ticks = np.stack([column.ticks for column in model.cost], 1)
        first = np.repeat(model.outcome_indptr[:-1], np.diff(model.outcome_indptr))
        if (ticks == ticks[first]).all():
            return {}
        distinct = dict.fromkeys(map(tuple, ticks.tolist()))
        return {costs: i + 1 for i, costs in enumerate(distinct)}

    def at(self, state: int, step: int, due: int = 0) -> tuple[int, ...]:
        """Return the values of the variables."""
        return (state, *((step,) if self.counts_steps else ()), *((due,) if self.dues else ()))

    def system(self) -> TransitionSystem:
        """Return the transition system."""
        model = self.model
        several = isinstance(model.start, dict)
        starts = model.start_states.tolist()
        first = self.at(self.begin if several else starts[0], 0)
        build = SystemBuilder(first, map(str, model.actions), [*model.resources, REWARD])
        if several:
            chances = rational_chances(model.start_probability.tolist())
            build.add(first, "begin", [(p, self.at(s, 0)) for p, s in zip(chances, starts, strict=True)])
        todo, seen = [(0, s) for s in starts], {(0, s) for s in starts}
        while todo:
            step, s = todo.pop()
            for after in self._expand(build, step, s):
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
        return build.build(self._variables(), self._labels(seen), self._notes())

    def _expand(self, build: SystemBuilder, step: int, s: int) -> list[tuple[int, int]]:
        """Add the choices of a state; return what they lead to."""
        model = self.model
        done = self.counts_steps and step == model.horizon
        rows = range(0) if done else model.rows(step, s)
        if not rows and self.ends:
            assert model.end_reward is not None
            good = model.may_end is None or bool(model.may_end[s])
            sink = self.at(self.over if good else self.lost, 0)
            build.add(self.at(s, step), "end", [(Fraction(1), sink)], [(REWARD, exact_float(model.end_reward[s]))])
        found = []
        for row in rows:
            outcomes = range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1]))
            chances = rational_chances(model.probability[outcomes.start : outcomes.stop].tolist())
            after = step + 1 if self.counts_steps else 0
            parts = []
            for p, o in zip(chances, outcomes, strict=True):
                t, costs = int(model.next_state[o]), tuple(int(column.ticks[o]) for column in model.cost)
                due = self.dues.get(costs, 0)
                parts.append((p, self.at(t, after, due)))
                if due and self.at(t, after, due) not in build.place:
                    paid = [
                        (name, c * column.unit)
                        for name, c, column in zip(model.resources, costs, model.cost, strict=True)
                    ]
                    build.add(self.at(t, after, due), "pay", [(Fraction(1), self.at(t, after))], paid)
                found.append((after, t))
            rewards = [(REWARD, exact_float(model.row_reward[row]))]
            if not self.dues:
                first = outcomes.start
                rewards += [
                    (name, column.value(first)) for name, column in zip(model.resources, model.cost, strict=True)
                ]
            build.add(self.at(s, step), str(model.actions[model.row_action[row]]), parts, rewards)
        return found

    def _variables(self) -> list[Variable]:
        model = self.model
        texts = [*map(str, model.states), "the end", "an end that is not allowed", "before the start"]
        last = self.begin if isinstance(model.start, dict) else self.lost if self.ends else model.n_states - 1
        found = [Variable("state", 0, last, tuple(texts[: last + 1]))]
        if self.counts_steps:
            found.append(Variable("step", 0, model.horizon))
        if self.dues:
            costs = [self._cost_text(ticks) for ticks in self.dues]
            found.append(Variable("due", 0, len(self.dues), ("nothing due", *costs)))
        return found

    def _cost_text(self, ticks: tuple[int, ...]) -> str:
        amounts = zip(self.model.resources, ticks, self.model.cost, strict=True)
        return "due " + ", ".join(f"{name} {format_amount(c * column.unit)}" for name, c, column in amounts)

    def _labels(self, seen: Set[tuple[int, int]]) -> dict[str, list[tuple[int, ...]]]:
        model = self.model
        if model.may_end is None:
            return {}
        if self.ends:
            return {GOAL: [self.at(self.over, 0)]}
        return {GOAL: [self.at(s, step) for step, s in seen if model.may_end[s]]}

    @property
    def horizon(self) -> int:
        """Number of transitions of an episode."""
        per_step = 2 if self.dues else 1
        return per_step * self.model.horizon + isinstance(self.model.start, dict) + self.ends

    def _notes(self) -> list[str]:
        model = self.model
        notes = [model.name] if model.name else []
        notes.append(
            f"Written by Solvent. An episode has {self.horizon} transitions: read it with horizon={self.horizon}."
        )
        if self.dues:
            notes.append("A step of the model is two transitions: an action, then the payment of what is due.")
        for name in model.resources:
            resource = model.resource(name)
            if resource.saturates:
                notes.append(f"Rewards cannot say that {name} saturates: read it with costs=[{resource!r}].")
        for name, budget in (model.budget or {}).items():
            notes.append(f"Budget of {name}: {budget!r}")
        if model.may_end is not None:
            notes.append(f'Episodes must end in states with the label "{GOAL}": read it with goal="{GOAL}".')
        return notes


def rational_chances(probability: Sequence[float]) -> list[Fraction]:
    """Return rational numbers with the sum 1 that are within rounding of probabilities.

    Numbers are those of the shortest text or, if their sum is not 1, the simplest ones that are rounded to the same
    floats. If that sum is not 1 either, the largest is what the others leave.

    Examples
    --------
    >>> rational_chances([0.1, 0.9]), rational_chances([1 / 3, 2 / 3])
    ([Fraction(1, 10), Fraction(9, 10)], [Fraction(1, 3), Fraction(2, 3)])
    """
    if len(probability) == 1:
        return [Fraction(1)]
    typed = [exact_float(p) for p in probability]
    if sum(typed) == 1:
        return typed
    simple = [_simplest(p) for p in probability]
    if sum(simple) == 1:
        return simple
    largest = max(range(len(typed)), key=lambda i: probability[i])
    typed[largest] += 1 - sum(typed)
    return typed


def _simplest(value: float) -> Fraction:
    """Return a fraction of a small denominator that is rounded to a float; the float itself if there is none."""
    found = Fraction(value).limit_denominator(1_000_000)
    return found if float(found) == value else Fraction(value)


def exact_float(value: float) -> Fraction:
    """Return the number that the shortest text of a float states."""
    return Fraction(repr(float(value)))


def number_text(value: Fraction) -> str:
    """Return a number as model checkers read it: a whole number, a decimal or a fraction.

    Examples
    --------
    >>> number_text(Fraction(1, 4)), number_text(Fraction(-1, 3)), number_text(Fraction(7))
    ('0.25', '-1/3', '7')
    """
    text = str(as_typed(value))
    return text if "/" not in text or value.denominator < 2**31 else f"{value.numerator}.0/{value.denominator}.0"


def identifiers(names: Sequence[Hashable], taken: Iterable[str]) -> list[str]:
    """Return a distinct identifier for each name; those in `taken` are not used.

    Examples
    --------
    >>> identifiers(["to town", "to-town", "max", 3], {"max"})
    ['to_town', 'to_town_2', 'max_2', '_3']
    """
    used, found = set(taken), []
    for name in names:
        word = _WORD.sub("_", str(name)).strip("_") or "_"
        word = f"_{word}" if word[0].isdigit() else word
        unique, number = word, 1
        while unique in used:
            number += 1
            unique = f"{word}_{number}"
        used.add(unique)
        found.append(unique)
    return found
