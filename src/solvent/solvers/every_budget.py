"""`frontier`: the optimal value for every budget of one resource (`Curve`), or of several (`Surface`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, overload

from solvent.core.checkpoint import EVERY, digest, open_checkpoint
from solvent.core.engines import open_engine
from solvent.core.exact import Number, exact
from solvent.core.interrupt import held_back
from solvent.core.limits import LimitReached, ResourceMonitor, read_memory, read_seconds
from solvent.core.progress import ProgressLike, open_progress
from solvent.errors import BudgetError, LimitError, ModelError, did_you_mean, quote
from solvent.model.budget import Budget, BudgetLike, SpentLike, limits_of, read_budgets, read_spent
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.solvers.base import Run
from solvent.solvers.curve import Curve, curve_of
from solvent.solvers.surface import Start, Surface, surface_of
from solvent.solvers.varied import check_vary, is_limited, is_plain, limit_of, refuse_continuous


@overload
def frontier(
    model: CMDP,
    resource: str | tuple[str] | None = None,
    max_budget: Number | Mapping[str, Number] | None = None,
    *,
    vary: str = "budget",
    budget: BudgetLike | None = None,
    spent: SpentLike | None = None,
    ignore_limits: bool = False,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = EVERY,
    engine: str = "local",
    address: str | None = None,
    progress: ProgressLike = False,
) -> Curve: ...


@overload
def frontier(
    model: CMDP,
    resource: list[str] | tuple[str, str, *tuple[str, ...]],
    max_budget: Mapping[str, Number] | None = None,
    *,
    vary: str = "budget",
    budget: BudgetLike | None = None,
    spent: SpentLike | None = None,
    ignore_limits: bool = False,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = EVERY,
    engine: str = "local",
    address: str | None = None,
    progress: ProgressLike = False,
) -> Surface: ...


def frontier(
    model: CMDP,
    resource: str | list[str] | tuple[str, ...] | None = None,
    max_budget: Number | Mapping[str, Number] | None = None,
    *,
    vary: str = "budget",
    budget: BudgetLike | None = None,
    spent: SpentLike | None = None,
    ignore_limits: bool = False,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = EVERY,
    engine: str = "local",
    address: str | None = None,
    progress: ProgressLike = False,
) -> Curve | Surface:
    """Compute the optimal value and policy for every budget of one resource, or of several, at once.

    A budget is an anytime limit: the amount spent must not exceed it after any step.

    Parameters
    ----------
    model : CMDP
    resource : str, or list or tuple of str, optional
        The resource whose budget varies, or several of them. May be omitted if the model has only one.
    max_budget : number, or dict of numbers by resource, optional
        The largest budget of interest; a dict for several resources. By default, the largest amount that any policy can
        spend or, if `vary` is "remaining" and the resource has a floor, what remains there: a full tank.
    vary : {"budget", "remaining"}
        What varies: the limit ("budget"), or what remains of a fixed limit before the first step ("remaining").
        The two differ only for a resource that saturates.
    budget : number, Budget, or dict of them by resource, optional
        Limits of any kind on resources that do not vary, which are kept. With `vary="remaining"`, also the fixed limits
        of those that do; for a single resource, its limit alone may be given. Resources that are not named have the
        limits of the model's own budget.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step, of resources of which this does not vary. Default: nothing.
    ignore_limits : bool
        If True, ignore lower, final or step-dependent limits on a resource that varies, and limits of the model's own
        budget on resources that do not vary. By default the latter are kept, and the former are an error, because
        policies could violate them. `ignored_limits` of the result lists what is ignored.
    time_limit, memory_limit, checkpoint, checkpoint_every, engine, address, progress : optional
        As for `solve`. If the limit of a resource that saturates varies, the solves that are finished are saved.

    Returns
    -------
    Curve or Surface
        A `Surface` for several resources. A list of one resource gives a `Curve`.

    Raises
    ------
    ModelError
        If a resource does not exist or has limits that cannot be kept, or if the limit of a resource that saturates is
        to vary together with other limits, or while other limits are kept.
    LimitError
        If the time or memory limit was reached. No partial result is returned.

    Notes
    -----
    For a resource without a floor or a ceiling, the curve takes one solve. The same holds for `vary="remaining"`. For
    the limit of a resource that saturates, it takes one or two solves for most budgets at which the value rises; they
    run on all cores, or on the workers of a Ray cluster. A surface takes one sweep over all combinations of budgets; so
    does a curve along which limits of other resources are kept.

    Examples
    --------
    >>> from solvent.model import instances
    >>> curve = frontier(instances.knapsack([60, 100, 120], [10, 20, 30]))
    >>> curve
    Curve(weight up to 60, 7 points, least budget 0)
    >>> curve.value(50), curve.marginal(50, extra=10)
    (220.0, 60.0)
    >>> surface = frontier(instances.partition([3, 1, 2]), ["left", "right"])
    >>> surface
    Surface(left up to 6, right up to 6, 7 points, 7 least budgets)
    >>> surface.value({"left": 2, "right": 4}), surface.value([2, 3])
    (1.0, -inf)
    """
    check_model(model)
    names = _read_resources(model, resource)
    check_vary(vary)
    largest = _read_largest(names, max_budget)
    limits = _read_limits(model, names, vary, budget, ignore_limits)
    seconds, memory = read_seconds(time_limit), read_memory(memory_limit)
    try:
        with (
            open_checkpoint(
                checkpoint, checkpoint_every, "frontier", lambda: _identity(model, names, largest, vary, limits, spent)
            ) as saved,
            open_engine(engine, address) as opened,
            held_back(),
            open_progress(progress) as bar,
            ResourceMonitor(seconds, memory, bar, checkpoint=saved) as monitor,
        ):
            run = Run(monitor, engine=opened)
            return _compute(model, names, largest, vary, limits, spent, run)
    except LimitReached as reached:
        what = "curve" if len(names) == 1 else "surface"
        also = ", or round costs up to fewer digits" if len(names) > 1 or limits.fixed else ""
        raise LimitError(f"the {what} was not finished: {reached}; raise the limit or lower max_budget{also}") from None


def _identity(
    model: CMDP,
    names: tuple[str, ...],
    largest: Mapping[str, Fraction],
    vary: str,
    limits: _Limits,
    spent: Any,
) -> dict[str, str]:
    """Return what must be equal for a computation to go on from a checkpoint, whatever form arguments have."""
    kept = limits_of({name: limits.own[name] for name in model.resources if name in limits.own}, model.horizon)
    budget = digest((kept.resources, kept.upper, kept.lower, tuple(limits.fixed), limits.ignored))
    before = {} if spent is None else dict(spent) if isinstance(spent, Mapping) else {"": spent}
    return {
        "model": model.fingerprint,
        "resources": f"{', '.join(map(quote, names))}, by {vary}",
        "max_budget": quote({name: str(largest[name]) for name in sorted(largest)}),
        "budget": budget,
        "spent": quote({name: str(exact(before[name], "spent")) for name in sorted(before)}),
    }


class _Limits(NamedTuple):
    """The limits of a call, as read from its arguments and the model.

    Attributes
    ----------
    own : mapping of Budget by resource
        Of all resources that have one: given by the call, else by the model.
    fixed : dict of Budget by resource
        Limits on resources that do not vary, which are kept.
    ignored : tuple of str
        Limits that are not kept, as text.
    """

    own: Mapping[str, Budget]
    fixed: dict[str, Budget]
    ignored: tuple[str, ...]


def _compute(
    model: CMDP,
    names: tuple[str, ...],
    largest: Mapping[str, Fraction],
    vary: str,
    limits: _Limits,
    spent: Any,
    run: Run,
) -> Curve | Surface:
    """Compute a curve or a surface; a curve along which other limits are kept is a surface of one resource."""
    refuse_continuous(model, [*names, *limits.fixed], "a curve" if len(names) == 1 else "a surface")
    if vary == "remaining":
        spent = {**_spent_of_others(names, spent), **{name: model.resource(name).clamp(Fraction(0)) for name in names}}
    initial = read_spent(model, spent)
    if len(names) == 1 and not limits.fixed:
        own, given = limits.own or None, largest.get(names[0])
        return curve_of(model, names[0], given, vary, own, limits.ignored, initial[names[0]], run)
    if vary == "budget":
        _refuse_saturation(model, names)
    remaining = None if vary == "budget" else {name: limit_of(limits.own or None, name) for name in names}
    start = Start(initial, remaining, limits.fixed)
    surface = surface_of(model, names, largest, vary, start, limits.ignored, run)
    return surface if len(names) > 1 else surface.curve(names[0], at={})


def _read_limits(model: CMDP, names: tuple[str, ...], vary: str, budget: Any, ignore_limits: bool) -> _Limits:
    """Return the limits of a call: of resources that are not named in `budget`, those of the model."""
    others = [name for name in model.resources if name not in names]
    own: Mapping[str, Budget] = model.budget or {}
    given: dict[str, Any] = {}
    if budget is not None:
        given = _named(budget, names, others, vary)
        listed = model.resources if vary == "remaining" else others
        defaults = {name: own[name] for name in listed if name in own}
        own = {**own, **read_budgets({**defaults, **given}, listed, model.horizon)}
    ignored = [f"{name}: {own[name].text}" for name in names if name in own and not is_plain(own[name])]
    if ignored and not ignore_limits:
        what = "curve" if len(names) == 1 else "surface"
        raise ModelError(
            "frontier",
            f"one anytime limit, or none, on {'the' if len(names) == 1 else 'each'} resource that varies",
            ignored[0],
            "use solve(model, budget) for single budgets, which keeps it; with ignore_limits=True, policies of the "
            f"{what} can break it",
        )
    fixed = {name: own[name] for name in others if name in own and is_limited(own[name])}
    if ignore_limits:
        ignored += [f"{name}: {each.text}" for name, each in fixed.items() if name not in given]
        fixed = {name: each for name, each in fixed.items() if name in given}
    return _Limits(own, fixed, tuple(ignored))


def _named(budget: Any, names: tuple[str, ...], others: list[str], vary: str) -> dict[str, Any]:
    """Return the given limits by resource: any of them with `vary="remaining"`, else of those that do not vary."""
    hint = (
        'pass max_budget=... for the largest budgets, or vary="remaining" to fix the limits' if vary == "budget" else ""
    )
    allowed = others if vary == "budget" else [*names, *others]
    if vary == "remaining" and len(names) == 1 and not isinstance(budget, Mapping):
        return {names[0]: budget}
    if not allowed:
        found = quote(budget) if not isinstance(budget, Mapping) else f"a limit of {_listed(budget)}"
        raise BudgetError("budget", "none, as all resources vary", found, hint)
    if not isinstance(budget, Mapping):
        raise BudgetError("budget", f"limits by name, of {_listed(allowed)}", quote(budget), hint)
    for name in budget:
        if name not in allowed:
            expected = f"resources that do not vary ({_listed(others)})"
            if vary == "remaining":
                expected = f"resources of the model ({_listed(allowed)})"
            raise BudgetError("budget", expected, quote(name), did_you_mean(name, allowed) or hint * (name in names))
    return dict(budget)


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(map(quote, names))


def _refuse_saturation(model: CMDP, names: tuple[str, ...]) -> None:
    """Raise a `ModelError` if a resource saturates, whose limit cannot vary together with, or beside, other limits."""
    for name in names:
        if model.resource(name).saturates:
            several = "several limits vary" if len(names) > 1 else "limits of other resources are kept"
            raise ModelError(
                "frontier",
                f"resources without a floor or a ceiling if {several}",
                model.resource(name).text,
                'use vary="remaining" with budget=... to vary what remains of fixed limits, or solve(model, budget) '
                "for single budgets",
            )


def _spent_of_others(names: tuple[str, ...], spent: Any) -> dict[str, Any]:
    """Return what has been spent of the resources that do not vary."""
    if spent is None:
        return {}
    varies = [name for name in spent if name in names] if isinstance(spent, Mapping) else []
    if varies or not isinstance(spent, Mapping):
        found = f"an amount of {_listed(varies)}" if varies else quote(spent)
        raise BudgetError("spent", 'amounts of resources that do not vary, with vary="remaining"', found)
    return dict(spent)


def _read_resources(model: CMDP, resource: Any) -> tuple[str, ...]:
    if isinstance(resource, list | tuple):
        names = tuple(model.resources[model.resource_index(name)] for name in resource)
        if not names:
            raise ModelError("resource", "the name of a resource, or several names", quote(resource))
        for name in names:
            if names.count(name) > 1:
                raise ModelError("resource", "each resource once", f"{quote(name)} twice")
        return names
    if resource is not None:
        return (model.resources[model.resource_index(resource)],)
    if model.n_resources != 1:
        known = ", ".join(map(quote, model.resources)) or "none"
        hint = f"pass resource={model.resources[0]!r}" if model.resources else "a curve is about a limited resource"
        if model.n_resources > 1:
            hint += ", or several of them for a surface"
        raise ModelError("resource", f"one of the model's resources ({known})", "no resource", hint)
    return (model.resources[0],)


def _read_largest(names: tuple[str, ...], max_budget: Any) -> dict[str, Fraction]:
    """Return the largest budgets of interest by resource, as far as they are given."""
    if max_budget is None:
        return {}
    if not isinstance(max_budget, Mapping):
        if len(names) == 1:
            return {names[0]: exact(max_budget, "max_budget")}
        example = "{" + ", ".join(f"{name!r}: ..." for name in names) + "}"
        raise BudgetError("max_budget", f"an amount of each resource by name, as in {example}", quote(max_budget))
    for name in max_budget:
        if name not in names:
            known = ", ".join(map(quote, names))
            raise BudgetError("max_budget", f"resources that vary ({known})", quote(name), did_you_mean(name, names))
    return {name: exact(amount, f"max_budget, {name}") for name, amount in max_budget.items()}
