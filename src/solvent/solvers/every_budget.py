"""`frontier`: the optimal value for every budget of one resource (`Curve`), or of several (`Surface`)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, overload

from solvent.core.checkpoint import EVERY, open_checkpoint
from solvent.core.exact import Number, exact
from solvent.core.interrupt import held_back
from solvent.core.limits import LimitReached, ResourceMonitor, read_memory, read_seconds
from solvent.core.progress import ProgressLike, open_progress
from solvent.errors import BudgetError, LimitError, ModelError, did_you_mean, quote
from solvent.model.budget import Budget, BudgetLike, SpentLike, read_budgets, read_spent
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.solvers.curve import Curve, curve_of, ignored_limits
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
        With `vary="remaining"`, the fixed limit of the resource; the model's own if not given. With several resources,
        also the limits of those that do not vary, of any kind, which are kept.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step, of resources of which this does not vary. Default: nothing.
    ignore_limits : bool
        If the model's own budget has limits that cannot be kept, ignore them: lower, final or step-dependent limits on
        a resource that varies and, for a single resource, limits on other resources. By default such a model is
        rejected, because policies could violate these limits. With several resources, limits on other resources are
        kept unless this is True. `ignored_limits` of the result lists what is ignored.
    time_limit, memory_limit, checkpoint, checkpoint_every, progress : optional
        As for `solve`. If the limit of a resource that saturates varies, the solves that are finished are saved.

    Returns
    -------
    Curve or Surface
        A `Surface` for several resources. A list of one resource gives a `Curve`.

    Raises
    ------
    ModelError
        If a resource does not exist, the model's own budget has limits that cannot be kept, or several limits are to
        vary of which one is that of a resource that saturates.
    LimitError
        If the time or memory limit was reached. No partial result is returned.

    Notes
    -----
    For a resource without a floor or a ceiling, the curve takes one solve. The same holds for `vary="remaining"`. For
    the limit of a resource that saturates, it takes one or two solves for most budgets at which the value rises; they
    run on all cores. A surface takes one sweep over all combinations of budgets.

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
    seconds, memory = read_seconds(time_limit), read_memory(memory_limit)
    asked = f"{names}, max_budget={largest}, vary={vary}, budget={budget!r}, spent={spent!r}, {ignore_limits}"
    try:
        with (
            open_checkpoint(
                checkpoint, checkpoint_every, "frontier", lambda: {"model": model.fingerprint, "arguments": asked}
            ) as saved,
            held_back(),
            open_progress(progress) as bar,
            ResourceMonitor(seconds, memory, bar, checkpoint=saved) as monitor,
        ):
            if len(names) > 1:
                return _surface(model, names, largest, vary, budget, spent, ignore_limits, monitor)
            return _curve(model, names[0], largest, vary, budget, spent, ignore_limits, monitor)
    except LimitReached as reached:
        what, also = ("curve", "") if len(names) == 1 else ("surface", ", or round costs up to fewer digits")
        raise LimitError(f"the {what} was not finished: {reached}; raise the limit or lower max_budget{also}") from None


def _curve(
    model: CMDP,
    name: str,
    largest: Mapping[str, Fraction],
    vary: str,
    budget: Any,
    spent: Any,
    ignore_limits: bool,
    monitor: ResourceMonitor,
) -> Curve:
    if vary == "budget" and budget is not None:
        raise ModelError("budget", 'vary="remaining" with it', 'vary="budget"', "pass max_budget=... for the largest")
    if vary == "remaining" and spent is not None:
        raise ModelError("spent", 'vary="budget" with it', 'vary="remaining", which varies it')
    own = model.budget if budget is None else read_budgets(budget, model.resources, model.horizon)
    ignored = ignored_limits(own, name)
    if ignored and not ignore_limits:
        _refuse(
            ignored[0], f"a model whose own budget is one anytime limit on {name}, or none", "curve", _cut(own, name)
        )
    refuse_continuous(model, [name], "a curve")
    initial = Fraction(0) if vary == "remaining" else read_spent(model, spent)[name]
    return curve_of(model, name, largest.get(name), vary, own, initial, monitor)


def _surface(
    model: CMDP,
    names: tuple[str, ...],
    largest: Mapping[str, Fraction],
    vary: str,
    budget: Any,
    spent: Any,
    ignore_limits: bool,
    monitor: ResourceMonitor,
) -> Surface:
    others = [name for name in model.resources if name not in names]
    own: Mapping[str, Budget] = model.budget or {}
    if vary == "budget":
        _refuse_saturation(model, names)
        if budget is not None:
            own = {**own, **_read_others(model, others, budget)}
    else:
        own = own if budget is None else read_budgets(budget, model.resources, model.horizon)
        spent = {**_spent_of_others(names, spent), **{name: model.resource(name).clamp(Fraction(0)) for name in names}}
    ignored = [f"{name}: {own[name]!r}" for name in names if name in own and not is_plain(own[name])]
    if ignored and not ignore_limits:
        _refuse(ignored[0], "a model whose own budget has one anytime limit on each resource that varies", "surface")
    fixed = {name: own[name] for name in others if name in own and is_limited(own[name])}
    if ignore_limits and budget is None:
        ignored += [f"{name}: {each!r}" for name, each in fixed.items()]
        fixed = {}
    refuse_continuous(model, [*names, *fixed], "a surface")
    remaining = None if vary == "budget" else {name: limit_of(own or None, name) for name in names}
    start = Start(read_spent(model, spent), remaining, fixed)
    return surface_of(model, names, largest, vary, start, tuple(ignored), monitor)


def _refuse(found: str, expected: str, what: str, also: str = "") -> None:
    """Raise the error about a limit that policies of a curve or a surface would break."""
    raise ModelError(
        "frontier",
        expected,
        found,
        f"use solve(model, budget) for single budgets, which keeps it{also}; with ignore_limits=True, policies of the "
        f"{what} can break it",
    )


def _cut(own: Mapping[str, Budget] | None, name: str) -> str:
    """Return a hint that a cut through a surface keeps the limits of other resources, if all of these are plain."""
    limited = {other: each for other, each in (own or {}).items() if is_limited(each)}
    if set(limited) <= {name} or not all(map(is_plain, limited.values())):
        return ""
    names = [name, *(other for other in limited if other != name)]
    return f", or frontier(model, {names!r}).curve({name!r}, at=...), which keeps the limits of the others"


def _refuse_saturation(model: CMDP, names: tuple[str, ...]) -> None:
    for name in names:
        if model.resource(name).saturates:
            hint = (
                'use vary="remaining" with budget=... to vary what remains of fixed limits, or '
                f"resource={name!r} to vary this limit alone"
            )
            expected = "resources without a floor or a ceiling if several limits vary"
            raise ModelError("frontier", expected, repr(model.resource(name)), hint)


def _read_others(model: CMDP, others: list[str], budget: Any) -> dict[str, Budget]:
    """Return the limits of the resources that do not vary."""
    varies = [name for name in budget if name not in others] if isinstance(budget, Mapping) else model.resources
    varies = [name for name in varies if name in model.resources]
    if varies:
        known = f"limits of {', '.join(map(quote, others))} by name" if others else "none, as all resources vary"
        raise BudgetError("budget", f"{known}", quote(budget), "pass max_budget=... for the largest budgets")
    return read_budgets(budget, others, model.horizon)


def _spent_of_others(names: tuple[str, ...], spent: Any) -> dict[str, Any]:
    """Return what has been spent of the resources that do not vary."""
    if spent is None:
        return {}
    if not isinstance(spent, Mapping) or any(name in spent for name in names):
        raise BudgetError("spent", 'amounts of resources that do not vary, with vary="remaining"', quote(spent))
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
