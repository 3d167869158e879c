"""Compare the answers of every method for a problem and for its transformations.

For each transformation that applies and each method that takes both problems, the statuses must be equal and the bounds
on the optimum, mapped by the relation, must have a common point: both contain the optimum. Methods on rounded costs
must round alike where the relation says so. Policies are checked by `solvent.verify`, and one policy of each problem is
carried over to the transformed one, where it must keep the limits and be worth what the relation says.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

from fuzz.generate import fraction_of
from fuzz.ledger import Comparison, Ledger, Run, forced, text_of
from fuzz.ledger import Failure as LedgerFailure
from fuzz.problems import Distribution, Limit, Outcome, Problem, Row
from fuzz.transforms import TRANSFORMATIONS, Relation, Transformed, canonical, reward_size

#: Exact methods: as users call them, and with their other representations forced.
EXACT = ("auto", "reduction", "hash", "plain", "frontier", "points", "labels")
#: Methods that round costs or values.
ROUNDING = ("additive", "additive strict", "relative", "relative strict")
#: A gap, and the same where the exact problem is not tried first.
GAPS = ("gap", "gap rounds")
#: All methods; "curve" compares `solvent.frontier` of each resource.
METHODS = (*EXACT, *ROUNDING, *GAPS, "curve")
DISCOUNTED = ("additive", "additive strict")

_GAP = 0.02
#: Values that methods need not agree on to the last digit are compared to within this, relative to all rewards.
_CLOSE = 1e-9
#: Bounds of an optimal solution are no further apart than this, relative to all rewards of the original.
_WIDTH = 1e-6
#: Problems with larger rewards may overflow when they are summed.
_MOST_REWARD = 1e290
_UNIT = 2.0**-52
#: Bounds may allow for underflow, by an amount that does not depend on the rewards.
_UNDERFLOW = Fraction(2) ** -960
#: The share of policies that are verified, which takes longer than to find them.
_VERIFIED = 0.3


class Failure(NamedTuple):
    """Two answers that contradict each other.

    Attributes
    ----------
    transformation, method : str
    check : str
        One of "status", "value", "width", "rounding", "exact", "worst", "diagnosis", "policy", "lift", "curve" and
        "error".
    message : str
    comparison : Comparison
        Both problems and how they were solved.
    detail : str
        A traceback, for exceptions.
    """

    transformation: str
    method: str
    check: str
    message: str
    comparison: Comparison
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.transformation}, {self.method}: {self.check}: {self.message}"


@dataclass
class Tally:
    """Counts how often each transformation was compared by each method, and how often one side was refused."""

    compared: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)


class Refused(Exception):  # noqa: N818
    """The method does not accept this problem."""


def metamorphic_checks(
    problem: Problem,
    rng: Random,
    *,
    transformations: Iterable[str] | None = None,
    methods: Iterable[str] | None = None,
    limit: int | None = None,
    ulps: float = 0.0,
    tally: Tally | None = None,
    ledger: Ledger | None = None,
) -> list[Failure]:
    """Return the contradictions between the answers for a problem and for its transformations.

    Parameters
    ----------
    problem : Problem
    rng : Random
        Decides what the transformations draw.
    transformations : iterable of str, optional
        Names from `TRANSFORMATIONS`; all if not given.
    methods : iterable of str, optional
        Names from `METHODS`; all if not given.
    limit : int, optional
        At most this many of the transformations, drawn at random.
    ulps : float
        Allowed distance between two pairs of bounds, in units in the last place of `reward_size`. Bounds that account
        for rounding need none.
    tally : Tally, optional
        Counts comparisons.
    ledger : Ledger, optional
        Notified of each call.

    Returns
    -------
    list of Failure
    """
    problem = canonical(problem)
    if not reward_size(problem) < _MOST_REWARD:
        return []
    names = list(TRANSFORMATIONS if transformations is None else transformations)
    if limit is not None and limit < len(names):
        names = rng.sample(names, limit)
    tally = tally if tally is not None else Tally()
    seed = rng.random()
    original = _Side(problem, epsilons(problem, rng), Ledger() if ledger is None else ledger)
    failures: list[Failure] = []
    for name in names:
        # draws do not depend on which other transformations are made, so that a failure can be repeated alone
        rng = Random(f"{seed}-{name}")
        changed = TRANSFORMATIONS[name](problem, rng)
        if changed is not None:
            failures += _compare(
                name, original, changed, METHODS if methods is None else tuple(methods), rng, ulps, tally
            )
    return failures


def check_metamorphic(
    problem: Problem, seed: int, ledger: Ledger, *, limit: int | None = None, only: Run | None = None
) -> None:
    """Make the comparisons and note them in a ledger.

    Parameters
    ----------
    problem : Problem
    seed : int
        The same seed gives the same transformed problems.
    ledger : Ledger
        Its slack is taken relative to `reward_size`.
    limit : int, optional
        At most this many transformations, drawn at random.
    only : Run, optional
        Repeat a comparison that failed; for shrinking.
    """
    tally = Tally()
    failures = metamorphic_checks(
        problem,
        Random(f"metamorphic-{seed}"),
        transformations=None if only is None else [only.options["transformation"]],
        methods=None if only is None else [only.label],
        limit=limit,
        ulps=float(ledger.slack / Fraction(_UNIT)),
        tally=tally,
        ledger=ledger,
    )
    for (name, _), count in tally.compared.items():
        ledger.compared[f"metamorphic: {name}"] += count
    for (name, _), count in tally.refused.items():
        ledger.skipped[f"metamorphic: {name} refused"] += count
    for each in failures:
        run = Run(each.method, "metamorphic", {"transformation": each.transformation})
        check = f"metamorphic: {each.transformation}, {each.check}"
        ledger.failures.append(
            LedgerFailure(check, run, "corresponding answers", each.message, each.detail, each.comparison)
        )


# ---------------------------------------------------------------------------------------------------------------------
# solving


@dataclass(frozen=True)
class Epsilons:
    """Epsilons by resource: amounts for "additive", shares for "relative"."""

    additive: dict[str, Fraction]
    relative: dict[str, Fraction]

    def mapped(self, relation: Relation, limited: Iterable[str]) -> Epsilons:
        """Return the epsilons of a transformed problem; amounts that are new there take one of 1."""
        additive, relative = dict.fromkeys(limited, Fraction(1)), dict.fromkeys(limited, Fraction(1, 2))
        for name, amount in self.additive.items():
            new, factor, _ = relation.spending(name)
            additive[new], relative[new] = abs(factor) * amount, self.relative[name]
        for name, (source, factor) in relation.copies.items():
            additive[name], relative[name] = factor * additive[source], relative[source]
        return Epsilons(additive, relative)


def epsilons(problem: Problem, rng: Random) -> Epsilons:
    """Return epsilons with which typical costs are rounded, to two fifths of the largest cost or more."""
    share = rng.choice([Fraction(2, 5), Fraction(2, 5), Fraction(3, 5), Fraction(1)])
    additive, relative = {}, {}
    for d, name in enumerate(problem.resources):
        limits = _limits(problem, name)
        if not limits:
            continue
        costs = [abs(end) for row in problem.rows for o in row.outcomes for end in _ends(o.cost[d])]
        amount = share * (problem.horizon or 2) * max(costs) or Fraction(1)
        smallest = min(map(abs, limits)) or Fraction(1)
        additive[name], relative[name] = amount, min(amount / smallest, Fraction(4))
    return Epsilons(additive, relative)


def _limits(problem: Problem, name: str) -> list[Fraction]:
    limit = problem.limits.get(name)
    if limit is None:
        return []
    sides = (side if isinstance(side, tuple) else (side,) for side in (limit.upper, limit.lower))
    return [fraction_of(x) for side in sides for x in side if x is not None]


def _ends(cost: Any) -> list[Fraction]:
    if isinstance(cost, Distribution):
        return [fraction_of(value) for key, value in cost.parameters if key in ("low", "high")]
    return [fraction_of(cost)]


class _Side:
    """One of the two problems, and its answers by method."""

    def __init__(self, problem: Problem, epsilons: Epsilons, ledger: Ledger) -> None:
        self.problem, self.epsilons, self.ledger = problem, epsilons, ledger
        with ledger.under_way(Run("build", "build"), problem):
            self.model, self.budget = problem.build()
        self.limited = [name for name in problem.resources if _limits(problem, name)]
        self.continuous = any(isinstance(c, Distribution) for row in problem.rows for o in row.outcomes for c in o.cost)
        self._answers: dict[str, Any] = {}

    def takes(self, method: str) -> bool:
        """Return whether the method applies to problems of this form."""
        problem = self.problem
        if problem.horizon is None:
            return method in DISCOUNTED
        if method == "curve":
            return bool(problem.resources) and not self.continuous
        if method in ROUNDING or method in GAPS:
            if method.startswith("relative"):
                return all(x for name in self.limited for x in _limits(problem, name))
            return True
        if self.continuous:
            return False
        if method == "labels":
            return bool(self.limited) and all(len(row.outcomes) == 1 for row in problem.rows)
        if method in ("frontier", "points"):
            limits = [problem.limits[name] for name in self.limited]
            return len(limits) == 1 and (_is_open(limits[0].upper) or _is_open(limits[0].lower))
        return True

    def answer(self, method: str) -> Any:
        """Return the solution, or the curves by resource; solved once.

        Raises
        ------
        Refused
            If numbers do not fit 64 bits.
        """
        if method not in self._answers:
            self._answers[method] = self._solve(method)
        found = self._answers[method]
        if isinstance(found, Exception):
            raise found
        return found

    def answers(self, method: str) -> bool:
        """Return whether the method applies and does not refuse the problem."""
        if not self.takes(method):
            return False
        try:
            self.answer(method)
        except Refused:
            return False
        except Exception:
            return True
        return True

    def _solve(self, method: str) -> Any:
        import solvent
        from solvent.errors import LatticeOverflowError, ModelError

        call = call_of(method, self.epsilons)
        try:
            with self.ledger.under_way(call, self.problem), forced(call):
                if method == "curve":
                    return _curves(self)
                return solvent.solve(self.model, self.budget, **self.problem.given, **call.options)
        except (LatticeOverflowError, ModelError) as error:
            return Refused(str(error))
        except Exception as error:
            return error


def _is_open(side: Any) -> bool:
    return side is None or (isinstance(side, tuple) and all(limit is None for limit in side))


def call_of(method: str, epsilons: Epsilons) -> Run:
    """Return the call that one of `METHODS` stands for."""
    if method in _CALLS:
        return _CALLS[method]
    name, _, strict = method.partition(" ")
    epsilon = epsilons.additive if name == "additive" else epsilons.relative
    return Run(method, options={"approximation": name, "epsilon": epsilon or 1, "strict": bool(strict)})


_CALLS = {
    call.label: call
    for call in (
        Run("auto"),
        Run("reduction", options={"method": "reduction"}),
        Run("hash", options={"method": "reduction"}, settings={"reduction.layers._GRID_KEYS": 0}),
        Run("plain", options={"method": "reduction", "prune": False}),
        Run("frontier", options={"method": "frontier"}, settings={"frontier.bounds.DENSE_FROM": 0}),
        Run("points", options={"method": "frontier"}, settings={"frontier.bounds.DENSE_WIDTH": -1}),
        Run("labels", options={"method": "labels"}),
        Run("gap", options={"gap": _GAP}),
        Run("gap rounds", options={"gap": _GAP}, settings={"transforms.gap._FIRST_TRY": 0}),
        Run("curve", "curves"),
    )
}


def _curves(side: _Side) -> dict[str, Any]:
    import solvent

    return {name: solvent.frontier(side.model, name, **side.problem.given) for name in side.problem.resources}


# ---------------------------------------------------------------------------------------------------------------------
# comparing


@dataclass
class _Pair:
    """Two answers by one method and their relation."""

    transformation: str
    method: str
    original: _Side
    changed: _Side
    reference: str
    relation: Relation
    slack: Fraction
    size: float
    failures: list[Failure]

    @property
    def comparison(self) -> Comparison:
        """Both problems and how they are solved; the original by the method `reference`."""
        return Comparison(
            self.original.problem,
            self.changed.problem,
            call_of(self.reference, self.original.epsilons),
            call_of(self.method, self.changed.epsilons),
            self.relation,
        )

    def fail(self, check: str, message: str, detail: str = "") -> None:
        self.failures.append(Failure(self.transformation, self.method, check, message, self.comparison, detail))

    @contextmanager
    def no_exception(self) -> Iterator[None]:
        """Note any exception as a failure."""
        try:
            yield
        except Exception as error:
            self.fail("error", f"{type(error).__name__}: {error}", text_of(error))

    def expect(self, holds: bool, check: str, message: str) -> None:
        if not holds:
            self.fail(check, message)


def _compare(
    name: str,
    original: _Side,
    changed: Transformed,
    methods: Sequence[str],
    rng: Random,
    ulps: float,
    tally: Tally,
) -> list[Failure]:
    problem, relation = changed
    limited = [resource for resource in problem.resources if _limits(problem, resource)]
    side = _Side(problem, original.epsilons.mapped(relation, limited), original.ledger)
    size = math.ldexp(reward_size(original.problem), relation.exponent)
    size += abs(float(relation.shift))
    slack = Fraction(relation.slack) + Fraction(ulps * _UNIT) * Fraction(size)
    failures: list[Failure] = []
    solved: list[str] = []
    for method in methods:
        if not side.takes(method):
            continue
        reference = method if method not in EXACT or original.answers(method) else "auto"
        if not original.takes(reference) or (method == "curve" and not relation.curves):
            continue
        pair = _Pair(name, method, original, side, reference, relation, slack, size, failures)
        try:
            before, after = original.answer(reference), side.answer(method)
        except Refused:
            tally.refused[name, method] += 1
            continue
        except Exception as error:
            pair.fail("error", f"{type(error).__name__}: {error}", text_of(error))
            continue
        tally.compared[name, method] += 1
        if method == "curve":
            with pair.no_exception():
                _compare_curves(pair, before, after)
        else:
            _compare_solutions(pair, before, after, same_method=reference == method)
            if after.status in ("optimal", "within_gap", "feasible") and rng.random() < _VERIFIED:
                with pair.no_exception():
                    _verify(pair, after)
            if method in EXACT and before.status == after.status == "optimal":
                solved.append(method)
    if solved and relation.lifts:
        method = rng.choice(solved)
        reference = method if original.answers(method) else "auto"
        pair = _Pair(name, method, original, side, reference, relation, slack, size, failures)
        with pair.no_exception():
            _lift(pair, original.answer(reference))
    return failures


def _compare_solutions(pair: _Pair, before: Any, after: Any, *, same_method: bool) -> None:
    relation = pair.relation
    rounds = pair.method in ROUNDING
    infeasible = before.status == "infeasible", after.status == "infeasible"
    if pair.method in EXACT:
        same = before.status == after.status
    elif rounds and not relation.rounding:
        # rounding alone may decide whether infeasibility is seen, but a policy excludes it
        same = not any(infeasible) or not {before.status, after.status} & {"optimal", "feasible"}
    else:
        same = infeasible[0] == infeasible[1]
    pair.expect(same, "status", f"{before.status} and {after.status}")
    if all(infeasible):
        _compare_diagnoses(pair, before.diagnosis, after.diagnosis)
    if any(infeasible):
        return
    _compare_bounds(pair, before, after)
    if relation.exact and same_method:
        _compare_exactly(pair, before, after)
    if rounds and relation.rounding and pair.original.problem.horizon is not None:
        gap = Fraction(after.value_upper) - relation.value(before.value_upper)
        pair.expect(
            abs(gap) <= _CLOSE * pair.size + pair.slack + _UNDERFLOW,
            "rounding",
            f"upper bounds on rounded costs: {before.value_upper!r} and {after.value_upper!r}",
        )
    if after.worst_is_exact and pair.method in EXACT:
        for name, (source, factor) in relation.copies.items():
            pair.expect(
                after.worst_spent[name] == factor * after.worst_spent[source],
                "worst",
                f"{name} {after.worst_spent[name]}, {factor} * {source} {after.worst_spent[source]}",
            )


def _compare_bounds(pair: _Pair, before: Any, after: Any) -> None:
    """Check that the bounds have a point in common, and that they are bounds."""
    relation, slack = pair.relation, pair.slack
    shown = f"[{before.value_lower!r}, {before.value_upper!r}] and [{after.value_lower!r}, {after.value_upper!r}]"
    pair.expect(after.value_lower <= after.value_upper, "value", f"lower above upper bound: {shown}")
    if math.isfinite(before.value_lower) and math.isfinite(after.value_upper):
        apart = relation.value(before.value_lower) - Fraction(after.value_upper)
        pair.expect(apart <= slack, "value", f"bounds {float(apart):.3g} apart: {shown}")
    if math.isfinite(after.value_lower) and math.isfinite(before.value_upper):
        beyond = Fraction(after.value_lower) - relation.value(before.value_upper)
        pair.expect(beyond <= slack, "value", f"bounds {float(beyond):.3g} apart: {shown}")
        if after.status == "optimal":
            width = after.value_upper - after.value_lower
            pair.expect(
                width <= _WIDTH * pair.size + float(_UNDERFLOW), "width", f"optimal within {width:.3g}: {shown}"
            )


def _compare_exactly(pair: _Pair, before: Any, after: Any) -> None:
    """Check that everything is the same up to a power of two."""
    pair.expect(before.status == after.status, "exact", f"{before.status} and {after.status}")
    for name in ("value", "value_lower", "value_upper"):
        old, new = getattr(before, name), getattr(after, name)
        same = old == new
        if math.isfinite(old) and math.isfinite(new):
            same = abs(pair.relation.value(old) - Fraction(new)) <= _UNDERFLOW
        pair.expect(same, "exact", f"{name} {old!r} and {new!r}")
    pair.expect(before.worst_spent == after.worst_spent, "exact", f"spent {before.worst_spent} and {after.worst_spent}")


def _compare_diagnoses(pair: _Pair, before: Any, after: Any) -> None:
    if before is None or after is None or pair.relation.delay or not pair.relation.curves:
        return
    for name, least in before.least_budget.items():
        move = pair.relation.spending(name)
        new = move.name
        if move.factor > 0 and new in after.least_budget:
            found = after.least_budget[new]
            expected = None if least is None else move.amount(least)
            pair.expect(found == expected, "diagnosis", f"least budget of {new}: {expected} and {found}")
    if before.stuck_is_first and after.stuck_is_first:
        pair.expect(
            before.stuck_step == after.stuck_step,
            "diagnosis",
            f"stuck at step {before.stuck_step} and {after.stuck_step}",
        )


def _verify(pair: _Pair, solution: Any) -> None:
    """Check that the policy keeps the limits and is worth what the solution says."""
    import solvent
    from solvent.errors import PolicyError

    side = pair.changed
    try:
        with side.ledger.under_way(pair.comparison.other_run, side.problem):
            report = solvent.verify(side.model, solution.policy, side.budget, **side.problem.given)
    except PolicyError as error:
        if side.continuous:  # policies on rounded draws cannot always be followed
            return
        pair.fail("policy", str(error))
        return
    pair.expect(
        report.feasible, "policy", f"{solution.status} but breaks a limit: {getattr(report, 'witness', report)}"
    )
    allowed = _CLOSE * pair.size + getattr(report, "value_error", 0.0) + float(_UNDERFLOW)
    pair.expect(
        solution.value_lower - allowed <= report.value <= solution.value_upper + allowed,
        "policy",
        f"worth {report.value!r}, not within [{solution.value_lower!r}, {solution.value_upper!r}]",
    )


def _lift(pair: _Pair, before: Any) -> None:
    """Check the policy for the original on the transformed problem: the same limits, value and amounts."""
    import solvent
    from solvent.errors import SolventError

    relation, policy = pair.relation, before.policy
    names = [relation.spending(name) for name in pair.original.problem.resources]
    single = len(pair.changed.problem.resources) == 1

    def act(step: int, state: Any, spent: Any) -> Any:
        if step < relation.delay:
            return next(row.action for row in pair.changed.problem.rows if row.state == state)
        amounts = [each.original(spent if single else spent[each.name]) for each in names]
        known = dict(zip(pair.original.problem.resources, amounts, strict=True))
        action = policy.action(step - relation.delay, relation.states.get(state, state), known)
        return relation.actions.get(action, action)

    lift = Run(pair.method, "metamorphic", {"transformation": pair.transformation})
    try:
        with pair.changed.ledger.under_way(lift, comparison=pair.comparison):
            given, changed = pair.original.problem.given, pair.changed.problem.given
            first = solvent.verify(pair.original.model, policy, pair.original.budget, **given)
            second = solvent.verify(pair.changed.model, act, pair.changed.budget, **changed)
    except SolventError as error:
        pair.fail("lift", f"{type(error).__name__}: {error}")
        return
    pair.expect(second.feasible, "lift", f"the carried over policy breaks a limit: {second.witness}")
    apart = abs(float(relation.value(first.value) - Fraction(second.value)))
    pair.expect(
        apart <= _CLOSE * pair.size + float(pair.slack + _UNDERFLOW),
        "lift",
        f"the carried over policy is worth {second.value!r} instead of {float(relation.value(first.value))!r}",
    )
    for name, move in zip(pair.original.problem.resources, names, strict=True):
        most, least = first.worst_spent_by_step[name], first.least_spent_by_step[name]
        expected = [x if move.factor > 0 else y for x, y in zip(most, least, strict=True)]
        found = second.worst_spent_by_step[move.name][relation.delay :]
        pair.expect(
            list(found) == [move.amount(x) for x in expected],
            "lift",
            f"the carried over policy spends other amounts of {move.name}: {found}",
        )


def _compare_curves(pair: _Pair, before: dict[str, Any], after: dict[str, Any]) -> None:
    for name, old in before.items():
        move = pair.relation.spending(name)
        if move.factor < 0:
            continue
        new = after[move.name]
        least = None if old.least_budget is None else move.amount(old.least_budget)
        pair.expect(
            least == new.least_budget,
            "curve",
            f"least budget of {name}: {least} and {new.least_budget}",
        )
        if pair.relation.exact:
            same = old.budgets == new.budgets and all(
                pair.relation.value(float(a)) == Fraction(float(b))
                for a, b in zip(old.values, new.values, strict=False)
            )
            pair.expect(same, "curve", f"curves of {name} differ")
            continue
        for budget in sorted({*old.budgets, *map(move.original, new.budgets)}):
            a, b = _at(old, budget), _at(new, move.amount(budget))
            if a is None or b is None:
                continue
            same = a == b if math.inf in (-a, -b) else abs(float(pair.relation.value(a)) - b) <= _CLOSE * pair.size
            pair.expect(same, "curve", f"value with {budget} of {name}: {a!r} and {b!r}")


def _at(curve: Any, budget: Fraction) -> float | None:
    if budget > curve.max_budget and not curve.flat_beyond:
        return None
    return float(curve.value(budget))


# ---------------------------------------------------------------------------------------------------------------------
# problems


def correlated(seed: int) -> Problem:
    """Return a random problem in which the next state depends on the cost although the margins suggest otherwise.

    All rows share a list of n costs, and each row takes them with equal probability: one for each of n next states, or
    every pair of a cost and a next state. Some costs are far above all limits.
    """
    rng = Random(f"correlated-{seed}")
    n, horizon = rng.choice([2, 2, 4, 4, 5]), rng.randint(2, 4)
    resources = tuple(f"r{d}" for d in range(rng.choice([1, 1, 1, 2])))
    sides = {name: rng.choice(["upper", "lower", "both"]) for name in resources}
    costs = list(zip(*(rng.sample(range(rng.choice([-3, -1, 0]), 6), n) for _ in resources), strict=True))
    if rng.random() < 0.5:
        far = tuple((-1 if sides[name] == "upper" else 1) * rng.choice([100, 10**6]) for name in resources)
        costs[rng.randrange(n)] = far
    rows = []
    for state in range(n):
        for action in range(rng.randint(1, 3)):
            order = rng.sample(range(n), n)
            pairs = [(i, j) for i in range(n) for j in range(n)] if rng.random() < 0.4 else list(enumerate(order))
            outcomes = tuple(Outcome(Fraction(1, len(pairs)), i, costs[j]) for i, j in pairs)
            rows.append(Row(state, f"a{action}", rng.choice([rng.randint(0, 9), rng.random()]), outcomes))
        if rng.random() < 0.7:
            rows.append(Row(state, "rest", 0, (Outcome(1, state, (0,) * len(resources)),)))
    limits = {}
    for name, side in sides.items():
        upper = rng.randint(0, 5 * horizon)
        limits[name] = Limit(
            upper=upper if side != "lower" else None, lower=-rng.randint(0, 3) if side != "upper" else None
        )
    return Problem(horizon, 0, resources, tuple(rows), limits, tags=frozenset({"correlated"}))


def part_continuous(seed: int) -> Problem:
    """Return a random problem whose rows mix a continuous and a plain cost that may be rounded to the same amount."""
    rng = Random(f"part-continuous-{seed}")
    horizon, n_states = rng.randint(2, 3), rng.choice([1, 1, 2])
    rows = []
    for state in range(n_states):
        for action in range(rng.choice([1, 1, 2])):
            low = Fraction(rng.choice([0, 0, 1]), 2)
            uniform = Distribution("uniform", (("low", str(low)), ("high", str(low + rng.choice([1, 2])))))
            after = rng.randrange(n_states)
            chance = Fraction(rng.randint(1, 7), 8)
            outcomes = [
                Outcome(chance, after, (Fraction(rng.randint(0, 8), 4),)),
                Outcome(1 - chance, after, (uniform,)),
            ]
            rows.append(Row(state, f"a{action}", rng.choice([rng.randint(0, 9), rng.random()]), tuple(outcomes)))
        rows.append(Row(state, "rest", 0, (Outcome(1, state, (0,)),)))
    limits = {"r0": Limit(upper=Fraction(rng.randint(4, 16), 4))}
    return Problem(horizon, 0, ("r0",), tuple(rows), limits, tags=frozenset({"part_continuous"}))
