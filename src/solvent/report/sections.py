"""The sections of the page as markup."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from solvent.baselines.compare import Comparison, ComparisonRow
from solvent.model.distributions import CostDistribution
from solvent.report.curves import BudgetValues, NoValues
from solvent.report.gather import Contents
from solvent.report.markup import Markup, escape, facts, join, paragraph, shown, table, tag
from solvent.report.numbers import amount_text, rounded_text, share_text, value_text
from solvent.report.words import STATUS, excess_text, fault_text, limit_texts, listed, problem_text, start_text
from solvent.solvers.solution import Status
from solvent.verification.report import CostPart, VerifyReport, Witness

#: What each method of the comparison does.
METHODS = {
    "expectation": "keeps the budget on average",
    "chance": "keeps the budget with high probability",
    "smaller expectation": "as expectation, with a smaller budget so that the true one holds",
    "smaller chance": "as chance, with a smaller budget so that the true one holds",
    "knapsack": "assumes that the episode ends with the step that breaks a limit",
    "unconstrained": "ignores the budget",
}


_VALUE_NOTE = "The value is the expected reward from there on, with six digits."
_UNREACHED = "A row may include amounts to which the plan never leads. "
_UNREACHED_SAFE = "There the action still keeps every limit, but another one may be better, "
_UNREACHED_RELAXED = "There another action may be better, "
_UNREACHED_VALUE = "and the value is that of the amounts to which the plan does lead."
#: Longest remark of a method that is shown beside its result.
_LONGEST_NOTE = 120


class Section(NamedTuple):
    """A section of the page: its anchor, its heading, and its content."""

    anchor: str
    heading: str
    content: Markup

    def to_markup(self) -> Markup:
        """Return the section."""
        heading = tag("h2", escape(self.heading), id=f"{self.anchor}-heading")
        return tag("section", heading, self.content, id=self.anchor, aria_labelledby=f"{self.anchor}-heading")


def sections(contents: Contents) -> Iterator[Section]:
    """Yield the sections of the page, in order."""
    yield Section("answer", "The answer", _answer(contents))
    yield Section("problem", "The problem", _problem(contents))
    if contents.limits.resources:
        yield Section("budget", "Value of the budget", _budget(contents))
    if contents.plans:
        yield Section("plan", "The plan", _plan(contents))
    if contents.has_policy:
        yield Section("spending", "Spending over time", _spending(contents))
    yield Section("methods", "Compared with other methods", _methods(contents))
    if contents.episodes:
        yield Section("episodes", "Sample episodes", _episodes(contents))


def _problem(contents: Contents) -> Markup:
    model, limits = contents.model, contents.limits
    summary = model.describe()
    parts = [paragraph(problem_text(model, limits))]
    terminal = f" ({summary.terminal_states:,} terminal)" if summary.terminal_states else ""
    sizes = [
        ("steps", f"{model.horizon:,}"),
        ("states", f"{model.n_states:,}{terminal}"),
        ("actions", f"{model.n_actions:,}"),
        ("outcomes", f"{model.n_outcomes:,}"),
        ("starts in", start_text(model.start)),
    ]
    if summary.must_end_in is not None:
        sizes.append(("must end in", listed(summary.must_end_in) or "no state"))
    if summary.end_reward:
        rewards = [f"{shown(state)} {value_text(reward)}" for state, reward in summary.end_reward.items()]
        sizes.append(("reward for ending in", listed(rewards)))
    parts.append(facts((name, escape(text)) for name, text in sizes))
    if model.resources:
        texts = limit_texts(model, limits)
        before = dict(zip(limits.resources, limits.initial, strict=True))
        rows = []
        for each in summary.resources:
            low = "unbounded" if each.low is None else amount_text(each.low)
            cells = [
                shown(each.name),
                texts[each.name],
                f"{low} to {amount_text(each.high)}" if each.low != each.high else low,
                "continuous" if each.bits is None else amount_text(each.unit),
                "none" if each.floor is None else amount_text(each.floor),
                "none" if each.ceiling is None else amount_text(each.ceiling),
                amount_text(before.get(each.name, Fraction(0))),
            ]
            rows.append([escape(cell) for cell in cells])
        headings = ["resource", "limit on what is spent", "cost of a step", "unit", "floor", "ceiling", "spent before"]
        parts.append(table(headings, rows, label="Resources and their limits"))
        notes = ["Costs are exact multiples of the unit."]
        if model.has_continuous_costs:
            notes = ["The limits hold for every cost that can be drawn, up to the largest."]
        if model.is_saturating:
            notes.append("With a floor or a ceiling, what is spent never goes beyond it: a full tank takes no more.")
        parts.append(paragraph(" ".join(notes), "note"))
    names = [("states", listed(model.states)), ("actions", listed(model.actions))]
    parts.append(
        tag(
            "details",
            tag("summary", escape("Names of states and actions")),
            facts((name, escape(text)) for name, text in names),
        )
    )
    return join(parts)


def _answer(contents: Contents) -> Markup:
    solution = contents.solution
    style, word, meaning = STATUS[solution.status]
    verified = contents.verified
    if isinstance(verified, VerifyReport) and not verified.feasible and solution.status is not Status.RELAXED:
        style, word, meaning = (
            "bad",
            "Verification failed",
            f"The independent check found a history that {fault_text(contents.model, contents.limits)}.",
        )
    numbers: list[Markup] = []
    if math.isfinite(solution.value):
        unit = tag("span", escape("expected reward"), class_="unit")
        numbers.append(
            tag("p", escape(f"{solution.value:.10g}"), unit, class_="headline", data_value=repr(solution.value))
        )
    parts = [
        tag("p", tag("span", escape(word), class_=f"chip {style}"), escape(" "), escape(meaning), class_="verdict"),
        *numbers,
    ]
    if solution.status is Status.RELAXED:
        parts.append(paragraph(f"It can exceed the limits: {excess_text(solution)}.", "warning"))
    if not contents.has_policy:
        return join([*parts, *_why(contents)])
    parts.append(_proof(contents))
    if isinstance(verified, str):
        parts.append(paragraph(verified, "warning"))
        return join(parts)
    said = (
        "The second column was computed by an independent implementation that shares no code with the solver: it "
        f"followed every history of the plan, {verified.nodes:,} nodes, with amounts as integers."
    )
    parts.append(paragraph(said, "note"))
    if verified.witness is not None:
        parts.append(paragraph(f"A shortest history that {_fault_of(verified.witness)}:"))
        parts.append(_history(verified.witness))
    return join(parts)


def _proof(contents: Contents) -> Markup:
    solution, limits, verified = contents.solution, contents.limits, contents.verified
    checked = verified if isinstance(verified, VerifyReport) else None
    nothing = "–"
    low, high = value_text(solution.value_lower), value_text(solution.value_upper)
    if not math.isfinite(solution.value_lower):
        optimum = f"at most {high}"
    else:
        optimum = low if low == high else f"from {low} to {high}"
    rows: list[tuple[str, str, str]] = [
        ("expected reward", value_text(solution.value), value_text(checked.value) if checked else nothing),
        ("the optimum", optimum, nothing),
    ]
    if math.isfinite(solution.gap):
        rows.append(
            ("relative gap", "0 (rounding errors only)" if not solution.gap else share_text(solution.gap), nothing)
        )
    texts = limit_texts(contents.model, limits)
    for d, name in enumerate(limits.resources):
        bound = "" if solution.worst_is_exact else "at most "
        found = f"{bound}{amount_text(solution.worst_spent[name])}" if name in solution.worst_spent else nothing
        by_step = len(set(zip(limits.lower[d], limits.upper[d], strict=True))) > 1
        label = f"most {shown(name)} ever spent ({'limits by step' if by_step else texts[name]})"
        rows.append((label, found, amount_text(checked.worst_spent[name]) if checked else nothing))
        if checked and any(each is not None for each in limits.lower[d]):
            rows.append((f"least {shown(name)} ever spent", nothing, amount_text(checked.least_spent[name])))
    if checked:
        chance = checked.violation_probability
        chance_label = f"probability of {fault_text(contents.model, limits, noun=True)}"
        rows.append((chance_label, nothing, "unknown" if chance is None else value_text(chance)))
        if checked.has_goal:
            rows.append(("always ends where it must", nothing, "yes" if checked.feasible else "no"))
        rows.append(("never exceeds the budget", nothing, "yes" if checked.feasible else "no"))
    return table(
        ["", "solver", "verification"], [[escape(cell) for cell in row] for row in rows],
        label="The answer and its proof", numbers=(1, 2),
    )  # fmt: skip


def _why(contents: Contents) -> list[Markup]:
    """Return why there is no policy."""
    solution = contents.solution
    if solution.diagnosis is None:
        message = solution.message.removeprefix(f"{solution.status.value}: ")
        said = [paragraph(message)]
        if math.isfinite(solution.value_upper):
            said.append(paragraph(f"The best value is at most {value_text(solution.value_upper)}."))
        return said
    why = [text[:1].upper() + text[1:] + "." for text in solution.diagnosis.to_text("the goal").split("; ")]
    parts = [tag("ul", *(tag("li", escape(text)) for text in why))]
    if contents.history is not None:
        parts += [paragraph("Even the most careful plan can end like this:"), _history(contents.history)]
    return parts


def _fault_of(witness: Witness) -> str:
    """Return what goes wrong in a history."""
    faults = ["breaks a limit"] if witness.resource is not None else []
    return " and ".join([*faults, *(["ends outside the goal"] if witness.ends_astray else [])])


def _history(witness: Witness) -> Markup:
    if not witness.steps:
        return paragraph(f"The first state, {shown(witness.start)}, is terminal and outside the goal.")
    names = list(witness.steps[0].upper)
    headings = ["step", "state", "action"]
    for name in names:
        suffix = f" of {shown(name)}" if len(names) > 1 else ""
        headings += [f"cost{suffix}", f"spent{suffix}", f"limit{suffix}"]
    rows = []
    for each in witness.steps:
        cells = [str(each.step), shown(each.state), "(ended)" if each.action is None else shown(each.action)]
        for name in names:
            cost = each.cost.get(name, Fraction(0))
            low, high = each.lower[name], each.upper[name]
            ends = [
                f"at least {amount_text(low)}" if low is not None else "",
                f"at most {amount_text(high)}" if high is not None else "",
            ]
            broken = each is witness.steps[-1] and name == witness.resource
            cells += [
                str(cost) if isinstance(cost, CostDistribution | CostPart) else amount_text(cost),
                amount_text(each.spent[name]) + (" (broken)" if broken else ""),
                ", ".join(filter(None, ends)) or "none",
            ]
        rows.append([escape(cell) for cell in cells])
    parts = [table(headings, rows, label=f"A history that {_fault_of(witness)}")]
    if witness.ends_astray:
        goal = listed(witness.must_end_in) or "no state"
        parts.append(paragraph(f"It ends in {shown(witness.ends_in)}, outside the goal: {goal}."))
    return join(parts)


def _budget(contents: Contents) -> Markup:
    follow = "the mark, the values and the plan below follow" if contents.plans else "the mark and the values follow"
    parts = [paragraph(f"How much would be earned with more or less? Move the slider: {follow}.")]
    found = [each for each in contents.values if isinstance(each, BudgetValues)]
    missing = [each for each in contents.values if isinstance(each, NoValues)]
    if found:
        if len(found) > 1:
            parts.append(_choice("curve-resource", "Resource", [shown(each.resource) for each in found]))
        parts.append(_slider_box("budget of the plan" if contents.solution.status.has_policy else "given budget"))
        parts.append(tag("p", class_="note", id="curve-note"))
        if contents.values_note:
            parts.append(paragraph(contents.values_note, "note"))
    else:
        parts = []
    for each in missing:
        lead = f"{shown(each.resource)}: " if len(contents.limits.resources) > 1 else ""
        parts.append(paragraph(lead + each.reason, "note"))
    return join(parts)


def _slider_box(own: str) -> Markup:
    """Return the slider, its values and the charts; `own` is what the budget of the solution is called."""
    slider = tag(
        "div",
        tag("label", escape("Budget"), for_="budget-slider", id="budget-label"),
        Markup('<input type="range" id="budget-slider" min="0" max="0" step="1" value="0">'),
        tag("button", escape(f"Back to the {own}"), type="button", id="budget-reset"),
        class_="slider",
    )
    readout = tag(
        "dl",
        *(
            tag("div", tag("dt", escape(name), id=f"{key}-name"), tag("dd", escape(""), id=key))
            for key, name in (
                ("budget-amount", "budget"),
                ("budget-value", "best expected value"),
                ("budget-marginal", "gain of +1"),
                ("budget-rise", "next rise"),
                ("budget-first", "first action"),
            )
        ),
        class_="facts readout",
        aria_live="polite",
    )
    legend = _legend(
        [
            ("line accent", "best expected value"),
            ("line mark", "chosen budget"),
            ("line dashed", own),
            ("line gain", "gain of more budget"),
        ]
    )
    return tag(
        "div", slider, readout, tag("div", class_="chart", id="value-chart"),
        tag("div", class_="chart", id="gain-chart"), legend, class_="box",
    )  # fmt: skip


def _choice(key: str, label: str, options: list[str]) -> Markup:
    listed = (tag("option", escape(text), value=str(i)) for i, text in enumerate(options))
    return tag("div", tag("label", escape(label), for_=key), tag("select", *listed, id=key), class_="choice")


def _legend(entries: list[tuple[str, str]]) -> Markup:
    items = (tag("li", tag("span", class_=f"sign {style}"), escape(text)) for style, text in entries)
    return tag("ul", *items, class_="legend")


def _plan(contents: Contents) -> Markup:
    parts = [
        paragraph(
            "What to do depends on the step, on the state, and on how much of the budget remains. A plan needs no "
            "forecast: look up what remains, and take the action."
        ),
        tag("p", class_="chosen", id="plan-for", aria_live="polite"),
    ]
    if contents.counting:
        parts.append(paragraph(f"Amounts are as the plan counts them: {contents.counting}.", "note"))
    if contents.map is not None:
        parts.append(_map_box(contents))
    if contents.limits.resources:
        colors = "Where there is no color, the plan never gets there or the episode is over."
        if len(contents.limits.resources) > 1:
            colors += " Where there are several side by side, the action depends on the other amounts."
        controls = tag(
            "div",
            _choice("plan-state", "State", []),
            tag("div", _choice("plan-along", "Vertical axis", []), id="plan-along-box", hidden=True),
            tag("div", _choice("plan-others", "Other amounts", []), id="plan-others-box", hidden=True),
            class_="controls",
        )
        parts.append(
            tag(
                "div", tag("h3", escape("In one state")), controls, tag("div", class_="chart", id="plan-chart"),
                tag("ul", class_="legend", id="plan-legend"),
                paragraph(colors, "note"),
                class_="box",
            )
        )  # fmt: skip
    search = tag(
        "div",
        tag("label", escape("Search the plan"), for_="plan-search"),
        Markup(
            '<input type="search" id="plan-search" autocomplete="off" spellcheck="false" '
            'placeholder="state, action, step 3 …">'
        ),
        tag("span", id="plan-count", role="status"),
        class_="search",
    )
    body = tag("table", tag("thead", tag("tr", id="plan-head")), tag("tbody", id="plan-rows"), class_="folded")
    parts.append(
        tag(
            "div", tag("h3", escape("As a table")), search,
            tag("div", body, class_="scroll tall", tabindex="0", role="region", aria_label="The plan as a table"),
            tag("p", class_="note", id="plan-note"),
            tag("p", escape(_VALUE_NOTE), class_="note", id="plan-values"), paragraph(_unreached(contents), "note"),
            class_="box",
        )
    )  # fmt: skip
    return join(parts)


def _unreached(contents: Contents) -> str:
    """Return what rows say about amounts to which the plan never leads."""
    relaxed = contents.solution.status is Status.RELAXED
    return _UNREACHED + (_UNREACHED_RELAXED if relaxed else _UNREACHED_SAFE) + _UNREACHED_VALUE


def _map_box(contents: Contents) -> Markup:
    step = tag(
        "div",
        tag("label", escape("Step"), for_="map-step"),
        Markup('<input type="range" id="map-step" min="-1" max="0" step="1" value="-1">'),
        tag("output", id="map-step-text", for_="map-step"),
        class_="slider",
    )
    return tag(
        "div", tag("h3", escape("On the map")), step, tag("div", class_="chart map", id="map-chart"),
        tag("ul", class_="legend", id="map-legend"), tag("p", class_="note", id="map-note"), class_="box",
    )  # fmt: skip


def _spending(contents: Contents) -> Markup:
    verified, simulated = contents.verified, contents.simulated
    if isinstance(verified, str):
        return paragraph(verified, "warning")
    entries = [
        ("line limit", "limit"),
        ("line mark", "most spent by any history, exact"),
        ("line good", "least spent, exact"),
    ]
    if isinstance(simulated, str):
        said = [paragraph(simulated, "warning")]
    else:
        error = "" if math.isnan(simulated.standard_error) else f" ± {simulated.standard_error:.2g} (standard error)"
        times = f"{simulated.violations:,} of {simulated.episodes:,} simulated episodes broke a limit"
        cut = f" The simulation was stopped early: {simulated.stopped}." if simulated.stopped else ""
        said = [
            paragraph(
                f"No history leaves the range between the two exact lines. The bands are {simulated.episodes:,} "
                f"simulated episodes (seed {contents.settings.seed}), whose mean reward is "
                f"{rounded_text(simulated.mean_reward)}{error}; {times}.{cut}"
            )
        ]
        entries += [("line accent", "median of episodes"), ("band strong", "25–75 %"), ("band", "5–95 %")]
    names = list(verified.worst_spent_by_step)
    parts = [*said]
    if not names:
        return paragraph("The model has no resources.")
    if len(names) > 1:
        parts.append(_choice("spending-resource", "Resource", [shown(name) for name in names]))
    parts.append(tag("div", tag("div", class_="chart", id="spending-chart"), _legend(entries), class_="box"))
    rows = _spending_rows(verified, names)
    headings = ["after step", *(f"{what} {shown(name)}" for name in names for what in ("worst", "least", "limit of"))]
    parts.append(
        tag(
            "details", tag("summary", escape("The exact amounts after each step")),
            table(
                headings, rows, label="Worst and least amounts after each step", numbers=range(1, len(headings)),
                stacked=False,
            ),
        )
    )  # fmt: skip
    return join(parts)


def _spending_rows(verified: VerifyReport, names: list[str]) -> Iterator[list[Markup]]:
    for step in range(len(verified.worst_spent_by_step[names[0]])):
        cells = [str(step)]
        for name in names:
            low, high = (side[name][step] if name in side else None for side in (verified.lower, verified.upper))
            limits = [
                f"≥ {amount_text(low)}" if low is not None else "",
                f"≤ {amount_text(high)}" if high is not None else "",
            ]
            cells += [
                amount_text(verified.worst_spent_by_step[name][step]),
                amount_text(verified.least_spent_by_step[name][step]),
                " and ".join(filter(None, limits)) or "none",
            ]
        yield [escape(cell) for cell in cells]


def _methods(contents: Contents) -> Markup:
    compared = contents.compared
    if isinstance(compared, str):
        return paragraph(compared, "note")
    fault = fault_text(contents.model, compared.limits)
    parts = [
        paragraph(
            "Standard methods keep a budget on average or with high probability. Each made a plan for the same "
            f"problem, and each plan was verified exactly: what it really earns, and how often it {fault}."
        ),
        tag(
            "div",
            tag("div", class_="chart", id="over-chart"),
            tag("div", class_="chart", id="earned-chart"),
            class_="pair box",
        ),
    ]
    names = compared.limits.resources
    headings = [
        "method",
        "what it does",
        "expected reward",
        fault,
        *(f"worst {shown(n)}" for n in names),
        "mean excess",
    ]
    rows = [_own_cells(contents, names), *(_method_cells(row, compared, contents) for row in compared.rows)]
    parts.append(table(headings, rows, label="Methods compared", numbers=range(2, len(headings))))
    return join(parts)


def _own_cells(contents: Contents, names: tuple[str, ...]) -> list[Markup]:
    solution, verified = contents.solution, contents.verified
    cells = ["this plan", "keeps the budget under every outcome"]
    if isinstance(verified, VerifyReport):
        if not verified.feasible:
            cells[1] = "may exceed the budget by a bounded amount"
        excess = [_excess(name, verified.expected_excess.get(name), names) for name in names]
        cells += [
            rounded_text(verified.value), share_text(verified.violation_probability),
            *(_extreme(verified.least_spent[name], verified.worst_spent[name], contents, name) for name in names),
            ", ".join(excess) or "0",
        ]  # fmt: skip
    else:
        cells[1] = STATUS[solution.status][1].lower()
        cells += ["–", "–", *("–" for _ in names), "–"]
    return [escape(cell) for cell in cells]


def _method_cells(row: ComparisonRow, compared: Comparison, contents: Contents) -> list[Markup]:
    names = compared.limits.resources
    what = METHODS.get(row.method, "")
    if "chance" in row.method:
        what = what.replace("high probability", f"probability {100 * (1 - float(contents.settings.delta)):g} %")
    if row.feasible is None:
        note = _refusal(row, contents)
        cells = ["–", "–", *("–" for _ in names), "–"]
    else:
        excess = [_excess(name, row.expected_excess.get(name), names) for name in names]
        note = row.message if row.status is Status.FEASIBLE and len(row.message) <= _LONGEST_NOTE else ""
        cells = [
            rounded_text(row.value), share_text(row.violation_probability),
            *(_extreme(row.least_spent[name], row.worst_spent[name], contents, name) for name in names),
            ", ".join(excess),
        ]  # fmt: skip
    said = join([escape(what), tag("small", escape(note))]) if note else escape(what)
    return [escape(row.method), said, *(escape(cell) for cell in cells)]


def _refusal(row: ComparisonRow, contents: Contents) -> str:
    """Return why a method has no policy."""
    if row.status is Status.REFUSED and contents.model.has_continuous_costs:
        return "does not accept continuous costs"
    text = shown(row.message or row.status.value.replace("_", " "))
    return text if len(text) <= _LONGEST_NOTE else text[: _LONGEST_NOTE - 1] + "…"


def _extreme(least: Fraction | None, most: Fraction | None, contents: Contents, name: str) -> str:
    """Return the most spent if there are upper limits, and the least spent if there are lower limits."""
    d = contents.limits.resources.index(name)
    sides = ((least, contents.limits.lower[d]), (most, contents.limits.upper[d]))
    return " to ".join(amount_text(amount) for amount, limits in sides if any(each is not None for each in limits))


def _excess(name: str, excess: float | None, names: tuple[str, ...]) -> str:
    text = "unknown" if excess is None else f"{excess:.4g}"
    return f"{shown(name)} {text}" if len(names) > 1 else text


def _episodes(contents: Contents) -> Markup:
    count = len(contents.episodes)
    parts = [
        paragraph(
            f"{'One simulated episode' if count == 1 else f'{count} simulated episodes'} of the plan (seed "
            f"{contents.settings.seed}), step by step. Use the buttons, or the left and right arrow keys."
        )
    ]
    names = [f"Episode {i + 1}" for i in range(count)]
    buttons = [
        tag("button", escape(text), type="button", id=f"episode-{key}")
        for key, text in (("first", "First"), ("back", "Back"), ("next", "Next"), ("last", "Last"))
    ]
    controls = tag(
        "div", _choice("episode", "Episode", names), tag("div", *buttons, class_="buttons"), class_="controls"
    )
    resources = contents.limits.resources
    if len(resources) > 1:
        controls = join([controls, _choice("episode-resource", "Resource", [shown(name) for name in resources])])
    charts = [tag("div", class_="chart", id="episode-chart")] if resources else []
    if contents.map is not None:
        charts.append(tag("div", class_="chart map", id="episode-map"))
    body = tag("table", tag("thead", tag("tr", id="episode-head")), tag("tbody", id="episode-rows"), class_="folded")
    parts.append(
        tag(
            "div", controls, tag("p", class_="chosen", id="episode-text", aria_live="polite"), *charts,
            tag("div", body, class_="scroll tall", tabindex="0", role="region", aria_label="Steps of the episode"),
            class_="box", id="player", tabindex="0", role="group", aria_label="Episode player",
        )
    )  # fmt: skip
    return join(parts)
