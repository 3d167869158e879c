"""`verify`, `simulate` and `compare`: check policies."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from solvent.cli.budgets import read_budget_options, read_spent_options
from solvent.cli.drawing import plan_drawing
from solvent.cli.exits import finish
from solvent.cli.models import read_model
from solvent.cli.options import (
    AddressOption,
    BudgetOption,
    CheckpointEvery,
    CheckpointOption,
    EngineOption,
    MemoryLimit,
    ModelArgument,
    PolicyArgument,
    PolicyPlotOption,
    SeedOption,
    SpentOption,
    TimeLimit,
)
from solvent.cli.outputs import OutputFiles
from solvent.cli.session import ExitCode, Session
from solvent.core.tables import group


def verify(
    session: Session,
    model: ModelArgument,
    policy: PolicyArgument,
    budget: BudgetOption = None,
    spent: SpentOption = None,
    max_nodes: Annotated[
        int, typer.Option("--max-nodes", metavar="N", help="Stop with an error beyond this number of nodes.")
    ] = 20_000_000,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    checkpoint: CheckpointOption = None,
    checkpoint_every: CheckpointEvery = 60.0,
    engine: EngineOption = "local",
    address: AddressOption = None,
) -> int:
    """Check exactly whether a policy can exceed its budget.

    The check shares no code with the solvers.
    """
    from solvent.cli.text import records, results
    from solvent.policy.files import load_policy
    from solvent.verification.verify import verify as run

    loaded = read_model(session, model)
    limits = read_budget_options(budget, loaded)
    with session.working("verifying"), session.checkpoint_notes(checkpoint):
        report = run(
            loaded, load_policy(policy, loaded), limits, spent=read_spent_options(spent, loaded), max_nodes=max_nodes,
            time_limit=time_limit, memory_limit=memory_limit, checkpoint=checkpoint, checkpoint_every=checkpoint_every,
            engine=engine, address=address,
        )  # fmt: skip
    session.print_result(results.report_text(report, verbose=session.verbose), records.report_record(loaded, report))
    return ExitCode.OK if report.feasible else ExitCode.INFEASIBLE


def simulate(
    session: Session,
    model: ModelArgument,
    policy: PolicyArgument,
    budget: BudgetOption = None,
    spent: SpentOption = None,
    episodes: Annotated[int, typer.Option("--episodes", "-n", metavar="N", help="Number of episodes.")] = 100_000,
    seed: SeedOption = 0,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    plot: PolicyPlotOption = None,
) -> int:
    """Simulate a policy over many episodes."""
    from solvent.cli.text import records, results
    from solvent.policy.files import load_policy
    from solvent.verification.simulate import simulate as run

    drawing = plan_drawing(plot, "spending", (model, policy))
    session.plan_files(plot=None if drawing is None else drawing.output)
    loaded = read_model(session, model)
    limits = read_budget_options(budget, loaded)
    before = read_spent_options(spent, loaded)
    followed = load_policy(policy, loaded)
    with session.working(f"simulating {episodes:,} episodes"):
        simulation = run(
            loaded, followed, episodes, seed, limits, spent=before, time_limit=time_limit, memory_limit=memory_limit,
            engine=engine, address=address,
        )  # fmt: skip
    if simulation.stopped:
        session.note(f"stopped after {simulation.episodes:,} of {episodes:,} episodes: {simulation.stopped}")
    output_files = OutputFiles()
    if drawing is not None:
        shown: dict[str, Any] = {"budget": limits, "spent": before, "episodes": episodes, "seed": seed}
        with session.working("drawing"):
            output_files.write("plot", drawing.output, lambda path: drawing.draw(path, loaded, followed, **shown))
    text = results.simulation_text(simulation, verbose=session.verbose)
    record = records.simulation_record(loaded, simulation, seed) | {"written": output_files.files}
    code = ExitCode.INFEASIBLE if simulation.violations else ExitCode.LIMIT if simulation.stopped else ExitCode.OK
    return finish(session, group(text, results.written_text(output_files.files)), record, code, output_files.error)


def compare(
    session: Session,
    model: ModelArgument,
    budget: BudgetOption = None,
    spent: SpentOption = None,
    delta: Annotated[
        float, typer.Option("--delta", metavar="P", help="Violation probability that chance constraints allow.")
    ] = 0.05,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
) -> int:
    """Compare with standard methods.

    Solves the model with each method and verifies every policy exactly: claimed value, true value, violations.
    """
    from solvent.baselines.compare import compare as run
    from solvent.cli.text import records

    loaded = read_model(session, model)
    limits = read_budget_options(budget, loaded)
    comparison = run(
        loaded, limits, delta=delta, spent=read_spent_options(spent, loaded), time_limit=time_limit,
        memory_limit=memory_limit, engine=engine, address=address, progress=session.progress,
    )  # fmt: skip
    session.print_result(group(comparison), records.comparison_record(loaded, comparison, delta))
    if any(row.status == "limit" for row in comparison.rows):
        return ExitCode.LIMIT
    return ExitCode.INFEASIBLE if comparison["exact"].status == "infeasible" else ExitCode.OK
