"""The page docs/learning-benchmarks.md, rendered from records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import numpy as np

from bench.training import plot
from bench.training.methods import METHODS, ROLLOUT, Method, Size, settings, training_jobs
from bench.training.run import ROOT
from bench.training.tabular import LEARNERS, OPTIONS, SIZES, learning_jobs
from bench.training.tasks import TASKS, Task
from solvent.core.files import write_atomically
from solvent.plot.files import save

PAGE = ROOT / "docs" / "learning-benchmarks.md"
TEMPLATE = Path(__file__).with_name("template.md")
Record = dict[str, Any]


def broken_promises(records: Iterable[Record]) -> list[str]:
    """Return the runs over budget of methods that promise never to exceed it."""
    found = []
    for record in records:
        promised = record["kind"] == "learning" or METHODS[record["method"]].promises
        counts = [record[part]["over"] for part in ("training", "after") if part in record]
        if promised and any(counts):
            found.append(f"{record['task']}, {record['method']}, seed {record['seed']}: {sum(counts)} episodes")
    return found


def differing_probes(records: Iterable[Record]) -> list[str]:
    """Return the tasks whose environments behave differently in the two installations, beyond rounding in float32."""
    probes: dict[str, list[list[float]]] = {}
    for record in records:
        if "probe" in record:
            probes.setdefault(record["task"], []).append(record["probe"])
    return [
        task
        for task, found in probes.items()
        if not all(len(each) == len(found[0]) and np.allclose(each, found[0], rtol=1e-5, atol=1e-5) for each in found)
    ]


def select(records: Iterable[Record], task: str, method: str) -> list[Record]:
    """Return the records of one method in one task."""
    return [record for record in records if (record["task"], record["method"]) == (task, method)]


def row(title: str, records: list[Record]) -> str:
    """Return a row of the table of a task: counts are sums over seeds, the return is the mean over seeds."""
    done = [record for record in records if "error" not in record]
    if not done:
        reason = records[0]["error"] if records else "no run yet"
        return f"| {title} | 0 | not run: {_escaped(reason)} | | | |"
    training, after = (_totals(done, part) for part in ("training", "after"))
    most = max(record[part]["most"] for record in done for part in ("training", "after"))
    returns = [record["after"]["return"] for record in done]
    spread = f" ± {stdev(returns):,.1f}" if len(returns) > 1 else ""
    failed = f" ({len(records) - len(done)} failed)" if len(done) < len(records) else ""
    cells = (
        f"{len(done)}{failed}",
        _share(*training),
        _share(*after),
        f"{most:,.1f}",
        f"{fmean(returns):,.1f}{spread} ({median(returns):,.1f})",
    )
    return f"| {title} | {' | '.join(cells)} |"


def _totals(records: list[Record], part: str) -> tuple[int, int]:
    return sum(record[part]["over"] for record in records), sum(record[part]["episodes"] for record in records)


def _share(over: int, episodes: int) -> str:
    share = f" ({_percent(over, episodes)})" if over else ""
    return f"{over:,} of {episodes:,}{share}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def overview(records: list[Record]) -> str:
    """Return a table of the shares of episodes over budget, in training and in evaluation, by method and task."""
    lines = [f"| method | {' | '.join(TASKS)} |", "| --- |" + " ---: |" * len(TASKS)]
    for method in METHODS.values():
        cells = []
        for task in TASKS.values():
            done = [record for record in select(records, task.name, method.name) if "error" not in record]
            shares = [_percent(*_totals(done, part)) for part in ("training", "after")] if done else []
            left_out = method.continuous_only and task.discrete
            cells.append(" / ".join(shares) or ("" if left_out else "not run"))
        lines.append(f"| {method.title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(over: int, episodes: int) -> str:
    """Return a share of episodes; 0% only if there is none."""
    return f"{max(over / episodes, 0.001):.1%}" if over else "0%"


def task_table(records: list[Record], task: Task) -> str:
    """Return the table of a task."""
    lines = [
        "| method | seeds | training episodes over budget | evaluation episodes over budget | most spent "
        "| evaluation return (median) |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for method in METHODS.values():
        if not (method.continuous_only and task.discrete):
            lines.append(row(method.title, select(records, task.name, method.name)))
    return "\n".join(lines)


def learning_table(records: list[Record]) -> str:
    """Return the table of learners: the share of the optimum after numbers of episodes, and violations."""
    counts = sorted({count for r in records if r["kind"] == "learning" for count in r.get("episodes", [])})
    shown = [count for i, count in enumerate(counts) if (len(counts) - 1 - i) % 3 == 0]
    lines = [
        "| problem | learner | seeds | "
        + " | ".join(f"{count:,} episodes" for count in shown)
        + " | training episodes over budget |",
        "| --- | --- | ---: |" + " ---: |" * (len(shown) + 1),
    ]
    for problem in SIZES:
        for learner, title in LEARNERS.items():
            done = [r for r in select(records, problem, learner) if "error" not in r]
            if done:
                shares = [fmean(r["value"][r["episodes"].index(n)] / r["optimum"] for r in done) for n in shown]
                cells = [f"{share:.0%}" for share in shares] + [_share(*_totals(done, "training"))]
                lines.append(f"| {problem} | {title} | {len(done)} | {' | '.join(cells)} |")
            else:
                reasons = [r["error"] for r in select(records, problem, learner)] or ["no run yet"]
                lines.append(f"| {problem} | {title} | 0 | not run: {_escaped(reasons[0])} |" + " |" * len(shown))
    return "\n".join(lines)


def tables(records: list[Record], size: Size) -> str:
    """Return all tables, for the terminal."""
    parts = [f"{task.name}, budget {task.budget}\n{task_table(records, task)}" for task in TASKS.values()]
    return "\n\n".join([*parts, learning_table(records), overview(records)])


def _environment_table() -> str:
    lines = ["| environment | actions | horizon | cost of a step | budget |", "| --- | --- | ---: | --- | ---: |"]
    for task in TASKS.values():
        kind = "discrete" if task.discrete else "continuous"
        lines.append(f"| {task.name} | {kind} | {task.horizon} | {task.charge} | {task.budget} |")
    return "\n".join(lines)


def _settings_table() -> str:
    lines = ["| environment | method | settings |", "| --- | --- | --- |"]
    for task in TASKS.values():
        for method in METHODS.values():
            if not (method.continuous_only and task.discrete):
                lines.append(f"| {task.name} | {method.title} | `{_flat(task, method)}` |")
    lines += [f"| {', '.join(SIZES)} | {title} | `{json.dumps(OPTIONS[name])}` |" for name, title in LEARNERS.items()]
    return "\n".join(lines)


def _flat(task: Task, method: Method) -> str:
    return json.dumps(settings(task, method))


def _versions(records: list[Record]) -> str:
    found: dict[str, dict[str, set[str]]] = {"Solvent and Stable-Baselines3": {}, "OmniSafe": {}}
    for record in records:
        if record["kind"] == "training" and "versions" in record:
            omnisafe = METHODS[record["method"]].library == "omnisafe"
            packages = found["OmniSafe" if omnisafe else "Solvent and Stable-Baselines3"]
            for package, version in record["versions"].items():
                packages.setdefault(package, set()).add(version)
    lines = ["| installation | packages |", "| --- | --- |"]
    for name, packages in found.items():
        listed = ", ".join(f"{package} {' and '.join(sorted(v))}" for package, v in packages.items()) or "not installed"
        lines.append(f"| {name} | {listed} |")
    return "\n".join(lines)


def _status(records: list[Record], size: Size) -> str:
    jobs = training_jobs(size) + learning_jobs(size)
    seeds_by_method = Counter({(job["task"], job["method"]): 0 for job in jobs})
    seeds_by_method.update((record["task"], record["method"]) for record in records if "error" not in record)
    done, least, most = seeds_by_method.total(), min(seeds_by_method.values()), max(seeds_by_method.values())
    seeds = f"{size.seeds} seeds" if least == size.seeds else f"{least} to {most} of {size.seeds} seeds"
    text = (
        f"{seeds}; {size.steps:,} training steps ({size.sac_steps:,} for SAC) and {size.evaluation} evaluation "
        f"episodes per seed; {size.episodes:,} episodes of the tabular learners; "
        f"{done:,} of {len(jobs):,} runs recorded."
    )
    if size.name == "quick":
        return (
            f"**These are the results of a quick run** (`make bench-learning QUICK=1`): {text} That is far too little "
            "training to judge returns; the counts of violations are exact for the episodes that were played."
        )
    return f"This run: {text}"


def text(records: list[Record], size: Size) -> str:
    """Return the page."""
    sections = [
        "\n\n".join(
            (
                f"### {task.name}, budget {task.budget}",
                f"![Return and cumulative violations during training in {task.name}]({_image(task.name)})",
                task_table(records, task),
            )
        )
        for task in TASKS.values()
    ]
    differing = differing_probes(records)
    same = (
        f"The environments {', '.join(differing)} do not behave the same in the two installations."
        if differing
        else "A fixed sequence of actions gives the same observations, rewards and costs in both installations, "
        "up to rounding in float32."
    )
    penalties = (f"{task.penalties[0]:g} or {task.penalties[1]:g} ({task.name})" for task in TASKS.values())
    return TEMPLATE.read_text(encoding="utf-8").format(
        status=_status(records, size), environments=_environment_table(), overview=overview(records),
        results="\n\n".join(sections),
        learning_image=_image("learn"), learning=learning_table(records), penalties=", ".join(penalties),
        rollout=ROLLOUT, same=same, versions=_versions(records), settings=_settings_table(),
    )  # fmt: skip


def _image(name: str) -> str:
    return f"images/learning-{name.lower()}.png"


def write(records: list[Record], size: Size) -> None:
    """Write the page and its figures."""
    for task in TASKS.values():
        save(plot.training(records, task), ROOT / "docs" / _image(task.name))
    save(plot.learning(records), ROOT / "docs" / _image("learn"))
    write_atomically(PAGE, text(records, size).encode())
