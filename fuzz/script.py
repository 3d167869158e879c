"""A failure as a script that runs by itself: the model by the builder, the budget, the call, expected and found."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fuzz.ledger import Found, Run
from fuzz.problems import Cost, Distribution, Limit, Problem


def script(found: Found) -> str:
    """Return a Python script that makes the failing call and prints what came of it."""
    failure, problem = found.failure, found.problem
    title = f"{failure.check} ({failure.run.label}), kind {found.kind}, seed {found.seed}"
    lines = [f'"""{title}{", shrunk" if found.shrunk else ""}."""', ""]
    uses = model_lines(problem)
    if any("Fraction(" in line for line in uses):
        lines += ["from fractions import Fraction", ""]
    lines += ["import solvent", ""]
    lines += uses
    lines += [""]
    lines += _call_lines(failure.run, problem)
    lines += ["", *_comment("expected", failure.expected), *_comment("found", failure.found)]
    if failure.detail:
        lines += [*_comment("traceback", ""), *(f"#   {line}" for line in failure.detail.splitlines())]
    return "\n".join(lines) + "\n"


def _comment(name: str, text: str) -> list[str]:
    first, *rest = text.splitlines() or [""]
    return [f"# {name}: {first}".rstrip(), *(f"#   {line}".rstrip() for line in rest)]


def model_lines(problem: Problem) -> list[str]:
    """Return the lines that build a problem's `model` and `budget`."""
    options = [f"horizon={problem.horizon}", f"start={problem.start!r}", f"resources={list(problem.resources)!r}"]
    if problem.discount is not None:
        options.append(f"discount={problem.discount!r}")
    lines = [f"b = solvent.CMDP.builder({', '.join(options)})"]
    for row in problem.rows:
        steps = "" if row.steps is None else f", steps={list(row.steps)!r}"
        lines += [f"b.add({row.state!r}, {row.action!r}, reward={row.reward!r}{steps}, outcomes=["]
        for o in row.outcomes:
            costs = ", ".join(map(_cost, o.cost))
            lines.append(f"    ({o.probability!r}, {o.next_state!r}, [{costs}]),")
        lines.append("])")
    for state, when in problem.terminal:
        lines.append(f"b.terminal({state!r}{'' if when is None else f', steps={list(when)!r}'})")
    lines += ["model = b.build()"]
    limits = ", ".join(f"{name!r}: {_limit(problem.limits.get(name))}" for name in problem.resources)
    return [*lines, f"budget = {{{limits}}}"]


def _cost(cost: Cost) -> str:
    if not isinstance(cost, Distribution):
        return repr(cost)
    parameters = ", ".join(f"{key}={value!r}" for key, value in cost.parameters)
    return f"solvent.law({cost.name!r}, {parameters}{', negate=True' if cost.negate else ''})"


def _limit(limit: Limit | None) -> str:
    if limit is None:
        return "None"
    if limit.final:
        return f"solvent.Budget.final({limit.upper!r}, lower={limit.lower!r})"
    upper, lower = (list(side) if isinstance(side, tuple) else side for side in (limit.upper, limit.lower))
    return f"solvent.Budget(upper={upper!r}, lower={lower!r})"


def _call_lines(run: Run, problem: Problem) -> list[str]:
    options = "".join(f", {key}={_value(value)}" for key, value in run.options.items())
    lines: list[str] = []
    for path, value in run.settings.items():
        module, attribute = path.rsplit(".", 1)
        lines += [f"import solvent.plan.{module}", "", f"solvent.plan.{module}.{attribute} = {value!r}"]
    if run.function == "frontier":
        free = f"{{**dict.fromkeys(model.resources), {run.options['resource']!r}: x}}"
        return [
            *lines,
            f"curve = solvent.frontier(model{options}, ignore_limits=True)",
            "print(curve, list(curve.budgets), curve.values)",
            "for x in curve.budgets:",
            f"    print(x, curve.value(x), solvent.solve(model, {free}, method='reduction').value)",
        ]
    if run.function == "augment":
        return [*lines, f"print(solvent.augment(model, budget{options}))"]
    if run.function == "chance":
        return [*lines, f"print(solvent.baselines.chance(model, budget{options}))"]
    if run.function == "scaled":
        return [
            *lines,
            f"# all rewards times 2**{run.options['exponent']} must give values times 2**{run.options['exponent']}",
            "print(solvent.solve(model, budget))",
        ]
    if run.function == "build":
        return lines
    return [
        *lines,
        f"solution = solvent.solve(model, budget{options})",
        "print(solution, solution.value_lower, solution.value_upper, solution.message)",
        "if solution.status.value not in ('infeasible', 'limit'):",
        "    print(solvent.verify(model, solution.policy, budget))",
    ]


def _value(value: Any) -> str:
    return repr(str(value)) if isinstance(value, Fraction) else repr(value)
