"""`verify`, `simulate` and `compare`: doubting policies."""

from __future__ import annotations

from typing import Annotated

import typer

from solvent.cli.budgets import read_budget_options
from solvent.cli.failures import finish
from solvent.cli.models import read_model
from solvent.cli.options import (
    BudgetOption,
    MemoryLimit,
    ModelArgument,
    PlotOption,
    PolicyArgument,
    SeedOption,
    TimeLimit,
)
from solvent.cli.outputs import PICTURES, Writing, plan_output
from solvent.cli.planning import draw_spending
from solvent.cli.session import Code, Session
from solvent.core.tables import group


def verify(
    session: Session,
    model: ModelArgument,
    policy: PolicyArgument,
    budget: BudgetOption = None,
    max_nodes: Annotated[
        int, typer.Option("--max-nodes", metavar="N", help="Give up beyond so many nodes.")
    ] = 20_000_000,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
) -> int:
    """Check exactly whether a policy can go over.

    The check shares no code with the planner.
    """
    from solvent.cli.text import answers, records
    from solvent.policy.files import load_policy
    from solvent.verification.verify import verify as run

    loaded = read_model(session, model)
    held_to = read_budget_options(budget, loaded)
    with session.working("verifying"):
        report = run(
            loaded, load_policy(policy, loaded), held_to, max_nodes=max_nodes, time_limit=time_limit,
            memory_limit=memory_limit,
        )  # fmt: skip
    session.answer(answers.report_text(report, verbose=session.verbose), records.report_record(loaded, report))
    return Code.OK if report.feasible else Code.INFEASIBLE


def simulate(
    session: Session,
    model: ModelArgument,
    policy: PolicyArgument,
    budget: BudgetOption = None,
    episodes: Annotated[int, typer.Option("--episodes", "-n", metavar="N", help="How many.")] = 100_000,
    seed: SeedOption = 0,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    plot: PlotOption = None,
) -> int:
    """Play a policy many times."""
    from solvent.cli.text import answers, records
    from solvent.policy.files import load_policy
    from solvent.verification.simulate import simulate as run

    drawing = plan_output("--plot", plot, inputs=(model, policy), endings=PICTURES)
    session.will_write(plot=drawing)
    loaded = read_model(session, model)
    counted = read_budget_options(budget, loaded)
    followed = load_policy(policy, loaded)
    with session.working(f"playing {episodes:,} episodes"):
        simulation = run(loaded, followed, episodes, seed, counted, time_limit=time_limit, memory_limit=memory_limit)
    if simulation.stopped:
        session.note(f"stopped after {simulation.episodes:,} of {episodes:,} episodes: {simulation.stopped}")
    writing = Writing()
    with session.working("drawing"):
        writing.put(
            "plot", drawing, lambda path: draw_spending(path, loaded, followed, counted, episodes=episodes, seed=seed)
        )
    text = answers.simulation_text(simulation, verbose=session.verbose)
    record = records.simulation_record(loaded, simulation, seed) | {"written": writing.files}
    code = Code.INFEASIBLE if simulation.violations else Code.LIMIT if simulation.stopped else Code.OK
    return finish(session, group(text, answers.written_text(writing.files)), record, code, writing.error)


def compare(
    session: Session,
    model: ModelArgument,
    budget: BudgetOption = None,
    delta: Annotated[
        float, typer.Option("--delta", metavar="P", help="The chance of going over that chance constraints allow.")
    ] = 0.05,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
) -> int:
    """Set it beside what people use today.

    Each method plans, and each plan is checked exactly: what it claims, what it is worth, whether it can go over.
    """
    from solvent.baselines.compare import compare as run
    from solvent.cli.text import records

    loaded = read_model(session, model)
    limited = read_budget_options(budget, loaded)
    comparison = run(
        loaded, limited, delta=delta, time_limit=time_limit, memory_limit=memory_limit, progress=session.progress
    )
    session.answer(group(comparison), records.comparison_record(loaded, comparison, delta))
    if any(row.status == "limit" for row in comparison.rows):
        return Code.LIMIT
    return Code.INFEASIBLE if comparison["exact"].status == "infeasible" else Code.OK
