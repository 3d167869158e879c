"""A failure as a script that runs by itself: the model by the builder, the budget, the call, expected and found.

Where two answers were compared, the script has both problems and both calls. Only where the failing call is not known,
or is one of the fuzzer's own, does it need the package `fuzz`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Mapping

from fuzz.ledger import Comparison, Failure, Found, Run
from fuzz.oracles import backward_value
from fuzz.problems import Account, Cost, Distribution, Limit, Problem

#: What a script imports if it uses it.
_IMPORTS = {
    "math.": "import math",
    "Fraction(": "from fractions import Fraction",
    ": Any": "from typing import Any",
    "Random(": "from random import Random",
    "mock.": "from unittest import mock",
    "np.": "import numpy as np",
    "check_problem(": "from fuzz.checks import check_problem",
    "generate(": "from fuzz.generate import generate",
    "walk(": "from fuzz.oracles import walk",
}


def script(found: Found, environment: Mapping[str, str] | None = None) -> str:
    """Return a Python script that makes the failing call and prints the result.

    Parameters
    ----------
    found : Found
    environment : dict of str to str, optional
        Environment variables of the process in which it was found, for a comment.
    """
    failure = found.failure
    title = f"{failure.check} ({failure.run.label}), kind {found.kind}, seed {found.seed}"
    if failure.comparison is not None:
        body = _comparison_lines(failure, failure.comparison)
        pair = failure.comparison
        given = {"spent": pair.problem.given, "other_spent": pair.other.given}
    else:
        body = [*model_lines(found.problem), "", *_call_lines(found)]
        given = {"spent": found.problem.given}
    body = [_spent_before(line, {name for name, options in given.items() if options}) for line in body]
    used = [line for mark, line in _IMPORTS.items() if any(mark in each for each in body)]
    standard = [line for line in used if " fuzz." not in line and " numpy" not in line]
    other = [line for line in used if line not in standard]
    modules = sorted({f"import solvent.solvers.{name}" for run in _runs(failure) for name in _modules(run)})
    lines = [f'"""{title}{", shrunk" if found.shrunk else ""}."""', ""]
    lines += [*standard, *([""] if standard else []), *other, "import solvent", *modules, ""]
    lines += body
    lines += ["", *_comment("expected", failure.expected), *_comment("found", failure.found)]
    if environment:
        lines += _comment("environment", " ".join(f"{key}={value}" for key, value in environment.items()))
    if failure.detail:
        lines += [*_comment("traceback", ""), *(f"#   {line}" for line in failure.detail.splitlines())]
    return "\n".join(lines) + "\n"


def _comment(name: str, text: str) -> list[str]:
    first, *rest = text.splitlines() or [""]
    return [f"# {name}: {first}".rstrip(), *(f"#   {line}".rstrip() for line in rest)]


def _runs(failure: Failure) -> Iterable[Run]:
    both = failure.comparison
    return (failure.run,) if both is None else (both.run, both.other_run)


def _modules(run: Run) -> list[str]:
    return [path.rsplit(".", 1)[0] for path in run.settings]


# ---------------------------------------------------------------------------------------------------------------------
# problems


def model_lines(problem: Problem, model: str = "model", budget: str = "budget") -> list[str]:
    """Return the lines that build a problem; `model` and `budget` are the names that they assign."""
    resources = ", ".join(_resource(name, problem.account(name)) for name in problem.resources)
    options = [f"horizon={problem.horizon}", f"start={problem.start!r}", f"resources=[{resources}]"]
    if problem.discount is not None:
        options.append(f"discount={problem.discount!r}")
    if problem.end_reward:
        options.append(f"end_reward={dict(problem.end_reward)!r}")
    if problem.goals is not None:
        options.append(f"must_end_in={list(problem.goals)!r}")
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
    limits = ", ".join(f"{name!r}: {_limit(problem.limits.get(name))}" for name in problem.resources)
    lines += [f"{model} = b.build()", f"{budget} = {{{limits}}}"]
    if problem.given:
        lines.append(f"{budget.replace('budget', 'spent')} = {problem.given['spent']!r}")
    return lines


#: Calls that take the amounts spent before the first step.
_TAKES_SPENT = re.compile(r"(solvent\.(solve|verify|augment|frontier|simulate|baselines\.chance)|\bwalk)\(")


def _spent_before(line: str, names: Collection[str]) -> str:
    """Return a line whose calls are given what has been spent before the first step, where the problem has that."""
    at = 0
    while (call := _TAKES_SPENT.search(line, at)) is not None:
        depth, at = 1, call.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(line[at], 0)
            at += 1
        name = "other_spent" if "other_model" in line[call.end() : at] else "spent"
        if name in names:
            line = f"{line[: at - 1]}, spent={name}{line[at - 1 :]}"
    return line


def _resource(name: str, account: Account) -> str:
    ends = (("floor", account.floor), ("ceiling", account.ceiling))
    stated = "".join(f", {side}={end!r}" for side, end in ends if end is not None)
    return f"solvent.Resource({name!r}{stated})" if stated else repr(name)


def _cost(cost: Cost) -> str:
    if not isinstance(cost, Distribution):
        return repr(cost)
    parameters = ", ".join(f"{key}={value!r}" for key, value in cost.parameters)
    return f"solvent.distribution({cost.name!r}, {parameters}{', negate=True' if cost.negate else ''})"


def _limit(limit: Limit | None) -> str:
    if limit is None:
        return "None"
    if limit.final:
        return f"solvent.Budget.final({limit.upper!r}, lower={limit.lower!r})"
    upper, lower = (list(side) if isinstance(side, tuple) else side for side in (limit.upper, limit.lower))
    return f"solvent.Budget(upper={upper!r}, lower={lower!r})"


# ---------------------------------------------------------------------------------------------------------------------
# calls


def _call_lines(found: Found) -> list[str]:
    """Return the lines that make a call on `model` and `budget`."""
    run = found.failure.run
    options = "".join(f", {key}={value!r}" for key, value in run.options.items())
    if run.function == "all":
        return [
            "# the call is not known: make all of them",
            f"for failure in check_problem(generate({found.seed}, {found.kind!r}), {found.seed}).failures:",
            "    print(failure)",
        ]
    if run.function == "build":
        return ["print(model, budget)"]
    if run.function == "frontier":
        return _curve_lines(run)
    if run.function == "surface":
        return _surface_lines(run)
    if run.function == "remaining":
        return _remaining_lines(run)
    if run.function == "curves":
        return ["for name in model.resources:", *_indented(_print_curve("solvent.frontier(model, name)"))]
    if run.function == "augment":
        call = [f"mdp = solvent.augment(model, budget{options})", "print(mdp, mdp.feasible)"]
        return [
            "",
            *inspect.getsource(backward_value).splitlines(),
            "",
            "",
            *_forced(run, call),
            "if mdp.feasible:",
            "    print(backward_value(mdp))",
            "print(solvent.solve(model, budget, method='reduction'))",
        ]
    if run.function == "verify":
        names = "spent if len(model.resources) != 1 else {model.resources[0]: spent}"
        return [
            "",
            "def act(step, state, spent):",
            '    """Choose by lot, but always alike at the same node."""',
            "    rows = model.rows(step, model.state_index(state))",
            f"    spent = {names}",
            f'    key = f"{run.options["seed"]}-{{step}}-{{state}}-{{[str(spent[name]) for name in model.resources]}}"',
            "    return model.actions[model.row_action[Random(key).choice(rows)]]",
            "",
            "",
            "print(repr(solvent.verify(model, act, budget)))",
        ]
    if run.function == "chance":
        return [
            *_forced(run, [f"found = solvent.baselines.chance(model, budget{options})"]),
            "print(found, repr(found.value), found.message)",
            "print(solvent.solve(model, budget, method='reduction'))",
        ]
    return _solve_lines(run, found.failure.check)


def _solve_lines(run: Run, check: str) -> list[str]:
    lines = [*_solution(run), "if solution.status.value not in ('infeasible', 'limit'):"]
    lines += ["    print(repr(solvent.verify(model, solution.policy, budget)))"]
    if run.limits:
        limits = ", ".join(f"{name!r}: {_limit(limit)}" for name, limit in run.limits.items())
        lines += [f"    smaller = {{**budget, {limits}}}"]
        lines += ["    print(repr(solvent.verify(model, solution.policy, smaller)))"]
    if check.startswith("walk raises") or check == "policy decides":
        lines += ["    print(walk(model, budget, solution.policy))"]
    if run.observed:
        lines += ["    agent = solution.policy.agent(model)"]
        lines += [f"    for state, costs in {[(state, list(costs)) for state, costs in run.observed]!r}:"]
        lines += ["        print(agent.act(), state, costs)", "        agent.observe(state, costs)"]
    if check.startswith("agent raises"):
        lines += [*([] if run.observed else ["    agent = solution.policy.agent(model)"]), "    print(agent.act())"]
    return lines


def _solution(run: Run, model: str = "model", budget: str = "budget", name: str = "solution") -> list[str]:
    options = "".join(f", {key}={value!r}" for key, value in run.options.items())
    return [
        *_forced(run, [f"{name} = solvent.solve({model}, {budget}{options})"]),
        f"print({name}, {name}.value, {name}.value_lower, {name}.value_upper, {name}.message)",
        f"print({name}.worst_spent, {name}.excess, {name}.diagnosis)",
    ]


def _forced(run: Run, lines: list[str]) -> list[str]:
    """Return lines with the settings of a run in effect."""
    for path, value in run.settings.items():
        module, attribute = path.rsplit(".", 1)
        lines = [f"with mock.patch.object(solvent.solvers.{module}, {attribute!r}, {value!r}):", *_indented(lines)]
    return lines


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _print_curve(call: str, name: str = "curve") -> list[str]:
    return [
        f"{name} = {call}",
        f"print({name}, {name}.least_budget, list(zip({name}.budgets, map(float, {name}.values), strict=True)))",
    ]


def _curve_lines(run: Run) -> list[str]:
    name, at = run.options["resource"], run.options.get("budget")
    kept = run.options.get("kept")
    others = "fixed = {name: limit for name, limit in budget.items() if name != " + repr(name) + "}"
    call = f"solvent.frontier(model, {name!r}, {'budget=fixed' if kept else 'ignore_limits=True'})"
    budgets = "curve.budgets" if at is None else f"[{at!r}]"
    return [
        others if kept else "fixed = dict.fromkeys(model.resources)",
        *_forced(run, _print_curve(call)),
        f"for x in {budgets}:",
        f"    free = {{**fixed, {name!r}: x}}",
        "    print(x, curve.value(x), solvent.solve(model, free, method='reduction'))",
        "    if curve.value(x) > float('-inf'):",
        "        print(repr(solvent.verify(model, curve.policy(x), free)))",
    ]


def _surface_lines(run: Run) -> list[str]:
    names, at = run.options["resources"], run.options.get("budget")
    return [
        f"surface = solvent.frontier(model, {names!r}, ignore_limits=True)",
        "print(surface, surface.least_budgets, surface.error)",
        f"for x in {'surface.budgets' if at is None else f'[{at!r}]'}:",
        f"    free = {{**dict.fromkeys(model.resources), **dict(zip({names!r}, x))}}",
        "    print(x, surface.value(x), solvent.solve(model, free, method='reduction'))",
        "    if surface.value(x) > float('-inf'):",
        "        print(repr(solvent.verify(model, surface.policy(x), free)))",
    ]


def _remaining_lines(run: Run) -> list[str]:
    name, limit, at = run.options["resource"], run.options["limit"], run.options.get("remaining")
    return [
        f"fixed = {{**dict.fromkeys(model.resources), {name!r}: {limit!r}}}",
        "draw, find = solvent.frontier, solvent.solve  # the amounts spent before are those given here",
        f"curve = draw(model, {name!r}, vary='remaining', budget=fixed)",
        "print(curve, curve.least_budget, list(zip(curve.budgets, map(float, curve.values), strict=True)))",
        f"for x in {'curve.budgets' if at is None else f'[{at!r}]'}:",
        f"    before = {{{name!r}: Fraction({limit!r}) - x}}",
        "    print(x, curve.value(x), find(model, fixed, method='reduction', spent=before))",
    ]


# ---------------------------------------------------------------------------------------------------------------------
# two calls


def _comparison_lines(failure: Failure, both: Comparison) -> list[str]:
    """Return the lines that build two problems and make a call on each."""
    change = failure.run.options.get("transformation", "scale_rewards")
    lines = [*model_lines(both.problem), "", f"# the second problem: the first one after the transformation {change}"]
    lines += [*model_lines(both.other, "other_model", "other_budget"), ""]
    relation = both.relation
    if both.run.function == "curves":
        names = [(name, *relation.spending(name)) for name in both.problem.resources]
        lines += ["# amounts of the second resource are the factor times those of the first, plus the shift"]
        lines += [f"for name, other_name, factor, shift in {names!r}:", "    print(name, other_name, factor, shift)"]
        lines += _indented(_print_curve("solvent.frontier(model, name)"))
        lines += _indented(_print_curve("solvent.frontier(other_model, other_name)", "other_curve"))
    else:
        lines += [*_solution(both.run), *_solution(both.other_run, "other_model", "other_budget", "other")]
    lines += [f"# values of the second are those of the first times 2**{relation.exponent}, plus {relation.shift}"]
    if both.run.function == "curves" or failure.run.function == "scaled":
        return lines
    lines += ["if other.status.value not in ('infeasible', 'limit'):"]
    lines += ["    print(repr(solvent.verify(other_model, other.policy, other_budget)))"]
    exact = not {"epsilon", "gap"} & both.other_run.options.keys()
    unknown = failure.check.endswith((", error", " crash", " hang")) and exact and relation.lifts
    if failure.check.endswith(", lift") or unknown:
        lines += _lift_lines(both)
    return lines


def _lift_lines(both: Comparison) -> list[str]:
    """Return the lines that carry the first policy over to the second problem."""
    relation = both.relation
    single = len(both.other.resources) == 1
    known = []
    for name in both.problem.resources:
        new, factor, shift = relation.spending(name)
        amount = "spent" if single else f"spent[{new!r}]"
        known.append(f"{name!r}: {f'({amount} - {shift!r})' if shift else amount} / {factor!r}")
    lines = ["", "", "def act(step, state, spent):", '    """Follow the policy of the first problem in the second."""']
    if relation.delay:
        first = {row.state: row.action for row in reversed(both.other.rows)}
        lines += [f"    if step < {relation.delay}:", f"        return {first!r}[state]"]
    lines += [
        f"    known = {{{', '.join(known)}}}",
        f"    state = {dict(relation.states)!r}.get(state, state)",
        f"    action = solution.policy.action(step - {relation.delay}, state, known)",
        f"    return {dict(relation.actions)!r}.get(action, action)",
        "",
        "",
    ]
    return [
        *lines,
        "if solution.status.value not in ('infeasible', 'limit'):",
        "    print(repr(solvent.verify(model, solution.policy, budget)))",
        "    print(repr(solvent.verify(other_model, act, other_budget)))",
    ]
