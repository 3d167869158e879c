"""The page: one HTML document with its style, its scripts and its data.

A content security policy allows the two scripts of the page by their hashes and no request to anywhere, so that nothing
in a model can run or be fetched, even if it were not escaped.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from solvent._version import __version__
from solvent.report.bundle import chart_script, library_text
from solvent.report.charts import (
    bars_chart,
    episode_chart,
    gain_chart,
    map_chart,
    plan_chart,
    spending_chart,
    value_chart,
)
from solvent.report.curves import BudgetValues
from solvent.report.gather import Contents
from solvent.report.markup import Markup, escape, facts, join, paragraph, shown, tag, to_json
from solvent.report.numbers import amount_text, as_float, rounded_text, share_text
from solvent.report.plans import starting_amounts
from solvent.report.sections import Section, sections
from solvent.report.words import fault_text
from solvent.verification.report import VerifyReport
from solvent.verification.simulate import Simulation


def page(contents: Contents, made: datetime | None = None) -> str:
    """Return the whole document.

    Parameters
    ----------
    contents : Contents
    made : datetime, optional
        When the page was made. Default: now.
    """
    style, own = (
        files("solvent.report").joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
    )
    library = chart_script()
    when = (made or datetime.now(UTC)).astimezone(UTC)
    listed = [*sections(contents), Section("made", "How this page was made", _made(contents, when))]
    title = shown(contents.model.name) or "Model"
    hashes = " ".join(_hash(script) for script in (library, own))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = [
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup('<meta name="referrer" content="no-referrer">'),
        tag("title", escape(f"{title}: report")),
        tag("style", Markup(style)),
    ]
    header = tag(
        "header",
        paragraph("Solvent report", "eyebrow"),
        tag("h1", escape(title)),
        paragraph(contents.model.description, "lead") if contents.model.description else Markup(""),
        tag(
            "nav",
            tag("ul", *(tag("li", tag("a", escape(each.heading), href=f"#{each.anchor}")) for each in listed)),
            aria_label="Sections",
        ),
    )
    missing = tag(
        "noscript", paragraph("Charts and controls need JavaScript, which is turned off. The tables do not.", "warning")
    )
    body = [
        tag("a", escape("Skip to the answer"), href="#answer", class_="skip"),
        header,
        tag("main", missing, *(each.to_markup() for each in listed)),
        Markup(f'<script type="application/json" id="data">{to_json(page_data(contents))}</script>'),
        Markup(f"<script>{library}</script>"),
        Markup(f"<script>{own}</script>"),
    ]
    root = f'<html lang="en"><head>{join(head)}</head><body>{join(body)}</body></html>'
    return f"<!DOCTYPE html>\n{root}\n"


def page_data(contents: Contents) -> dict[str, Any]:
    """Return what the script of the page reads."""
    model, limits = contents.model, contents.limits
    values = [each for each in contents.values if isinstance(each, BudgetValues)]
    resources = list(contents.solution.policy.resources) if contents.has_policy else list(limits.resources)
    specs: dict[str, Any] = {
        "value": [value_chart(each) for each in values],
        "gain": [gain_chart(each, amount_text(each.extra)) for each in values],
        "plan": [plan_chart(shown(name), model.horizon) for name in resources],
        "spending": _spending_specs(contents),
        "episode": [
            episode_chart(name, limits.upper[d], limits.lower[d], model.horizon)
            for d, name in enumerate(limits.resources)
        ],
        "map": None if contents.map is None else map_chart(contents.map["width"], contents.map["height"]),
        **_method_specs(contents),
    }
    starting: list[float | None] = []
    if contents.has_policy:
        remaining = starting_amounts(contents.solution.policy)
        starting = [as_float(remaining[name]) for name in resources]
    return {
        **contents.names.to_data(),
        "horizon": model.horizon,
        "limited": [shown(name) for name in limits.resources],
        "curves": [each.to_data() for each in values],
        "plans": [plan.to_data() for plan in contents.plans],
        "own": contents.has_policy,
        "starting": starting,
        "map": contents.map,
        "episodes": contents.episodes,
        "specs": specs,
    }


def _spending_specs(contents: Contents) -> list[dict[str, Any]]:
    verified, simulated = contents.verified, contents.simulated
    if not isinstance(verified, VerifyReport):
        return []
    runs = simulated if isinstance(simulated, Simulation) else None
    return [spending_chart(verified, runs, name) for name in verified.worst_spent_by_step]


def _method_specs(contents: Contents) -> dict[str, Any]:
    compared, verified = contents.compared, contents.verified
    if isinstance(compared, str):
        return {"over": None, "earned": None}
    found: list[tuple[str, float, float | None, bool]] = []
    if isinstance(verified, VerifyReport):
        found.append(("this plan", verified.value, verified.violation_probability, verified.feasible))
    for row in compared.rows:
        if row.value is not None and row.feasible is not None:
            found.append((row.method, row.value, row.violation_probability, row.feasible))
    if not found:
        return {"over": None, "earned": None}

    def color(safe: bool, own: bool) -> str:
        return "var(--accent)" if own else "var(--good)" if safe else "var(--bad)"

    over = [
        {"m": method, "v": chance, "text": share_text(chance), "c": color(safe, method == "this plan")}
        for method, _, chance, safe in found
        if chance is not None
    ]
    earned = [
        {"m": method, "v": value, "text": rounded_text(value), "c": color(safe, method == "this plan")}
        for method, value, _, safe in found
    ]
    return {
        "over": bars_chart(over, f"How often it {fault_text(contents.model, contents.limits)}") if over else None,
        "earned": bars_chart(earned, "Expected reward"),
    }


def _made(contents: Contents, when: datetime) -> Markup:
    solution, settings = contents.solution, contents.settings
    stats = solution.stats
    rounding = "none" if solution.rounding is None else solution.rounding
    pairs = [
        ("made by", f"Solvent {__version__}"),
        ("date", f"{when:%Y-%m-%d %H:%M} UTC"),
        ("model", shown(contents.model.name) or "without a name"),
        ("fingerprint of the model", contents.model.fingerprint),
        ("method", f"{solution.method}, {stats.nodes:,} {stats.representation}"),
        ("rounding of costs", rounding),
        ("simulated episodes", f"{settings.episodes:,}, seed {settings.seed}"),
        ("charts", library_text()),
    ]
    note = (
        "Amounts and limits are exact: 1/3 is a third. Values are floating-point numbers and are shown with ten "
        "digits, in long tables and beside bars with six. Steps are counted from 0. This file contains "
        "everything it needs and sends nothing anywhere."
    )
    shown_facts = facts([(name, escape(text)) for name, text in pairs], wide="fingerprint of the model")
    return join([shown_facts, paragraph(note, "note")])


def _hash(script: str) -> str:
    """Return the hash of a script for the content security policy."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
