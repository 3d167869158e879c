"""The page docs/learning-claims.md, rendered from records."""

from __future__ import annotations

import json
import math
import platform
from pathlib import Path
from statistics import fmean
from typing import Any

import solvent
from bench.claims import approximate, complexity, plot, reduction
from bench.claims.jobs import SETTINGS, STEPS, Size, all_jobs
from bench.claims.statistics import TINY, broken, exponent, interval, points_of
from bench.training.run import ROOT
from solvent.core.files import write_atomically
from solvent.plot.files import save

PAGE = ROOT / "docs" / "learning-claims.md"
TEMPLATE = Path(__file__).with_name("template.md")
Record = dict[str, Any]
NAMES = {"D": "$D$", "H": "$H$", "S": "$S$", "A": "$A$", "1/gamma": r"$1/\gamma$"}

__all__ = ["broken", "tables", "text", "write"]


def _select(records: list[Record], kind: str, task: str | None = None, method: str | None = None) -> list[Record]:
    return [
        r
        for r in records
        if r["kind"] == kind and task in (None, r["task"]) and method in (None, r["method"]) and "error" not in r
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def reduction_table(records: list[Record]) -> str:
    """Return the table of `cor: reduction`: errors by problem and learner, and violations."""
    lines = [
        "| problem | learner | steps | mean error, 95 % interval | greatest error | within 1 % | within 5 % "
        "| policies over budget | training episodes over budget |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for task in reduction.PROBLEMS:
        for method, title in reduction.LEARNERS.items():
            found = _select(records, "reduction", task, method)
            if not found:
                lines.append(f"| {task} | {title} | no run yet | | | | | | |")
                continue
            errors = [max(1 - r["value"] / r["optimum"], 0.0) for r in found]
            mean, low, high = interval(errors)
            cells = (
                f"{found[0]['steps']:,}",
                f"{_percent(mean)} ({100 * max(low, 0):.2f} to {100 * high:.2f})",
                _percent(max(errors)),
                *(f"{sum(e <= most for e in errors)} of {len(errors)}" for most in (0.01, 0.05)),
                f"{sum(not r['feasible'] for r in found)} of {len(found)}",
                f"{sum(r['training']['over'] for r in found):,} of {sum(r['training']['episodes'] for r in found):,}",
            )
            lines.append(f"| {task} | {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _reduction_text(records: list[Record]) -> str:
    counts = {}
    for method in reduction.LEARNERS:
        errors = [1 - r["value"] / r["optimum"] for r in _select(records, "reduction", method=method)]
        counts[method] = (sum(e <= 0.01 for e in errors), sum(e <= 0.05 for e in errors), len(errors))
    parts = [
        f"{reduction.LEARNERS[method]} within 1 % of the optimum in {one} and within 5 % in {five} of {all_of} runs"
        for method, (one, five, all_of) in counts.items()
    ]
    return (
        f"Over all problems: {'; '.join(parts)}. No policy exceeds the budget under any outcome, since no action that "
        "could is in the augmented MDP. The corollary says that the optimum of the augmented MDP is that of the "
        "problem; how close a learner comes to it, after these numbers of steps, depends on the learner."
    )


def _problem_table(records: list[Record]) -> str:
    about = {
        "fuel grid": "`instances.fuel_grid(3)`: slippery moves, random fuel use, stations that refill",
        "knapsack": "`instances.paper(10, seed=1, budget=2, digits=2)`: one of the paper's hard instances, ten items "
        "to take or leave",
        "delivery van": '`solvent.examples.load("delivery-van")`: a tank that cannot be overfilled, rare large costs',
    }
    lines = ["| problem | | horizon | nodes | optimum |", "| --- | --- | ---: | ---: | ---: |"]
    for task, (make, _) in reduction.PROBLEMS.items():
        found = _select(records, "reduction", task)
        size = f"{found[0]['nodes']:,} | {found[0]['optimum']:.4f}" if found else " | "
        lines.append(f"| {task} | {about[task]} | {make().horizon} | {size} |")
    return "\n".join(lines)


def _fitted(found: list[Record], key: str) -> str:
    levels = [p["level"] for p in found]
    if len(set(levels)) < 2 or len(levels) < 3:
        return "too few points"
    middle, low, high = exponent(levels, [p[key] for p in found])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def complexity_table(records: list[Record]) -> str:
    """Return the table of exponents of the number of episodes."""
    titles = " | ".join(complexity.LEARNERS.values())
    lines = [f"| | exponent of the bound | {titles} |", "| --- | ---: |" + " ---: |" * len(complexity.LEARNERS)]
    for sweep, most in complexity.EPISODES.items():
        cells = []
        for method in complexity.LEARNERS:
            found = [p for p in points_of(records, method, sweep) if p["proved"]]
            levels = sorted({p["level"] for p in found})
            span = f", {levels[0]} to {levels[-1]}" if levels else ""
            cells.append(f"{_fitted(found, 'episodes')}{span}")
        lines.append(f"| {NAMES[sweep]} | {most} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _complexity_text(records: list[Record]) -> str:
    """Say which exponents are above the bound, and how long the learners played."""
    above, seeds, unproved, worst = [], {}, 0, 0.0
    for method, title in complexity.LEARNERS.items():
        seeds[title] = len(_select(records, "complexity", method=method))
        for sweep, most in complexity.EPISODES.items():
            every = points_of(records, method, sweep)
            found = [p for p in every if p["proved"]]
            unproved += len(every) - len(found)
            worst = max([worst, *(p["optimum"] - p["value"] for p in found)])
            if len({p["level"] for p in found}) > 1 and len(found) > 2:
                middle, low, _ = exponent([p["level"] for p in found], [p["episodes"] for p in found])
                if low > most:
                    above.append(f"{title} in {NAMES[sweep]} ({middle:.2f}, bound {most})")
    base = {
        title: fmean(p["episodes"] for p in found if p["level"] == 2)
        for method, title in complexity.LEARNERS.items()
        if (found := points_of(records, method, "S"))
    }
    played = "; ".join(f"{title}, {count:,.0f}" for title, count in base.items())
    verdict = (
        f"Above the exponent of the bound, with the whole interval: {', '.join(above)}. The bound hides logarithms and "
        r"terms that vanish only for small $\gamma$, so exponents over a small range may exceed it."
        if above
        else "No exponent exceeds that of the bound with its whole interval."
    )
    return (
        f"{verdict} Pooling shares counts between nodes that differ only in what was spent, so nothing depends on $D$: "
        f"the exponent is {_fitted(points_of(records, 'pooled', 'D'), 'episodes')}. Counts are shared between steps, "
        f"too, as the problems are stationary. Mean number of episodes in the base problem: {played}. Seeds: "
        f"{', '.join(f'{title}, {count}' for title, count in seeds.items())}. "
        + (f"{unproved} runs ended before their gap was proved and are left out. " if unproved else "")
        + f"No episode exceeded the budget. The greatest true distance to the optimum in any run was {worst:.3f}."
    )


def _log_exponent(size: Size) -> float:
    """Return the exponent in D of log(K / delta), for the K rows on nodes of the first and the last level of D."""
    levels = size.levels["D"]
    logs = []
    for level in (levels[0], levels[-1]):
        sizes = complexity.level_sizes("D", level)
        model = complexity.family(sizes["S"], sizes["A"], sizes["H"], sizes["D"], sizes["bits"])
        logs.append(math.log(solvent.augment(model).n_rows / 0.05))
    return math.log(logs[1] / logs[0]) / math.log(levels[-1] / levels[0])


def planning_table(records: list[Record]) -> str:
    """Return the table of exponents of nodes and outcomes of the augmented MDP."""
    lines = [
        "| | nodes: bound | nodes | outcomes: bound | outcomes |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for sweep, (nodes, outcomes) in complexity.SIZES.items():
        found = points_of(records, "pooled", sweep)
        cells = (str(nodes), _fitted(found, "nodes"), str(outcomes), _fitted(found, "outcomes"))
        lines.append(f"| {NAMES[sweep]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def rounding_table(records: list[Record]) -> str:
    """Return the table of learning with rounded costs."""
    lines = [
        "| problem | rounding | `epsilon_cost` | nodes (exact: all) | episodes | value / optimum | most over budget "
        "| guaranteed | training episodes over budget |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for task in approximate.PROBLEMS:
        found = _select(records, "rounding", task)
        for scheme, (title, _, amounts) in approximate.SCHEMES.items():
            for amount in amounts:
                points = [
                    (p, r["optimum"], r["nodes"])
                    for r in found
                    for p in r["points"]
                    if (p["scheme"], p["epsilon_cost"]) == (scheme, amount)
                ]
                lines.append(f"| {task} | {title} | {amount} | {_rounding_cells(points)} |")
    return "\n".join(lines)


def _rounding_cells(points: list[tuple[Record, float, int]]) -> str:
    learned = [(p, best, nodes) for p, best, nodes in points if "value" in p]
    if not learned:
        return ("no policy | | | | | |" if points else "no run yet | | | | | |").removesuffix(" |")
    mean, low, high = interval([p["value"] / best for p, best, _ in learned])
    shares = f"{mean:.3f}" if high - low < 5e-4 else f"{mean:.3f} ({low:.3f} to {high:.3f})"
    over, episodes = (sum(p[part] for p, _, _ in learned) for part in ("over", "episodes"))
    cells = (
        f"{learned[0][0]['nodes']:,} ({learned[0][2]:,})",
        f"{fmean(p['episodes'] for p, _, _ in learned):,.0f}",
        shares,
        f"{max(p['excess'] for p, _, _ in learned):.3f}",
        f"{learned[0][0]['bound']:.3f}",
        f"{over:,} of {episodes:,}",
    )
    return " | ".join(cells)


def _rounding_text(records: list[Record]) -> str:
    points = [(p, r["optimum"]) for r in _select(records, "rounding") for p in r["points"] if "value" in p]
    strict = [(p, best) for p, best in points if p["scheme"].endswith("strict")]
    down = [(p, best) for p, best in points if not p["scheme"].endswith("strict")]
    if not strict or not down:
        return ""
    within, enough = sum(p["within"] for p, _ in down), sum(p["value"] >= best - TINY for p, best in down)
    kept, episodes = sum(p["within"] for p, _ in strict), sum(p["episodes"] for p, _ in strict)
    over, shares = sum(p["over"] for p, _ in strict), sorted(p["value"] / best for p, best in strict)
    return (
        f"Rounded down, the excess was within its bound in {within} of {len(down)} runs, and the value was at least "
        f"the optimum in {enough}; such a policy earns more where it exceeds the budget. Rounded up, {kept} of "
        f"{len(strict)} policies kept the budget, {over} of {episodes:,} training episodes exceeded it, and the "
        f"policies earned {shares[0]:.1%} to {shares[-1]:.1%} of the optimum. For strict rounding the paper guarantees "
        "only the optimum of a smaller budget. Finer rounding comes closer to the optimum, with more nodes."
    )


def tables(records: list[Record]) -> str:
    """Return all tables, for the terminal."""
    return "\n\n".join(make(records) for make in (reduction_table, complexity_table, planning_table, rounding_table))


def _settings_table(size: Size) -> str:
    lines = ["| learner | steps | settings |", "| --- | --- | --- |"]
    for method, title in reduction.LEARNERS.items():
        steps = ", ".join(f"{int(size.share * STEPS[task][method]):,} ({task})" for task in reduction.PROBLEMS)
        lines.append(f"| {title} | {steps} | `{json.dumps(SETTINGS[method])}` |")
    return "\n".join(lines)


def _versions(records: list[Record]) -> str:
    found: dict[str, set[str]] = {}
    for record in records:
        for package, version in record.get("versions", {}).items():
            found.setdefault(package, set()).add(version)
    listed = ", ".join(f"{package} {' and '.join(sorted(versions))}" for package, versions in sorted(found.items()))
    return f"Versions: Python {platform.python_version()}{', ' if listed else ''}{listed}."


def _status(records: list[Record], size: Size) -> str:
    done, jobs = sum("error" not in r for r in records), len(all_jobs(size))
    minutes = sum(r.get("seconds", 0) for r in records) / 60
    text = (
        f"{size.seeds} seeds ({size.theory_seeds} of BPI-UCBVI by node); {done:,} of {jobs:,} runs recorded, with "
        f"{minutes:,.0f} minutes of processor time."
    )
    if size.name == "quick":
        return f"**This is a quick run** (`make bench-claims QUICK=1`), with too little training: {text}"
    return f"This run: {text}"


def text(records: list[Record], size: Size) -> str:
    """Return the page."""
    doc = complexity.__doc__ or ""
    shown = {name: ", ".join(f"{NAMES.get(k, k)} = {v}" for k, v in sizes.items() if k != "bits") for name, sizes in
             (("base", complexity.BASE), ("base_d", complexity.BASES["D"]))}  # fmt: skip
    options = "; ".join(f"{title}: `{json.dumps(complexity.OPTIONS[m])}`" for m, title in complexity.LEARNERS.items())
    epsilon = next(job["settings"]["epsilon"] for job in all_jobs(size) if job["kind"] == "rounding")
    return TEMPLATE.read_text(encoding="utf-8").format(
        status=_status(records, size), problems=_problem_table(records), reduction=reduction_table(records),
        reduction_text=_reduction_text(records), complexity=complexity_table(records),
        complexity_text=_complexity_text(records), log_exponent=f"{_log_exponent(size):.2f}",
        planning=planning_table(records),
        family=" ".join(doc.split("\n\n", 1)[1].split()), **shown, epsilon=epsilon,
        rounding=rounding_table(records), rounding_text=_rounding_text(records), settings=_settings_table(size),
        options=options, versions=_versions(records),
    )  # fmt: skip


def write(records: list[Record], size: Size) -> None:
    """Write the page and its figures."""
    images = ROOT / "docs" / "images"
    save(plot.reduction_figure(records), images / "claims-reduction.png")
    save(plot.complexity_figure(records), images / "claims-complexity.png")
    save(plot.rounding_figure(records), images / "claims-rounding.png")
    write_atomically(PAGE, text(records, size).encode())
