"""`learn`: learn a policy when the model is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solvent.cli.budgets import read_budget_options
from solvent.cli.completion import complete_bonus, complete_replan, complete_support
from solvent.cli.environments import (
    is_model_file,
    read_arguments,
    read_bound,
    read_environment_budget,
    read_range,
    read_step_cost,
)
from solvent.cli.examples import find_model
from solvent.cli.exits import finish
from solvent.cli.models import read_model
from solvent.cli.options import BudgetOption, MemoryLimit, SeedOption, TimeLimit
from solvent.cli.outputs import Output, OutputFiles, plan_output, refuse_duplicates
from solvent.cli.programs import read_costs
from solvent.cli.session import ExitCode, Session
from solvent.errors import ModelError, SolventError, quote
from solvent.formats.registry import find_format, suffixes_text

if TYPE_CHECKING:
    from solvent.learning.learner import Callback
    from solvent.learning.result import LearnResult
    from solvent.model.cmdp import CMDP
    from solvent.verification.report import VerifyReport

ModelOrEnvArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL|ENV",
        help="A model file, the name of an example, or the id of a registered Gymnasium environment.",
        callback=find_model,
        show_default=False,
    ),
]


@dataclass(frozen=True)
class LearnTask:
    """An environment to learn in, and what is known about it.

    Attributes
    ----------
    name : str
    env : CMDP or gymnasium.Env
    options : dict
        Arguments of `solvent.learn` that state what is known.
    true_model : CMDP or None
        The model to verify the policy with.
    support : {"known", "bound", "learned"}
        How it is known which costs are possible.
    """

    name: str
    env: Any
    options: dict[str, Any]
    true_model: CMDP | None
    support: str


def learn(
    session: Session,
    model: ModelOrEnvArgument,
    budget: BudgetOption = None,
    horizon: Annotated[
        int | None,
        typer.Option("--horizon", metavar="N", help="Steps per episode; required for ENV.", show_default=False),
    ] = None,
    epsilon: Annotated[
        float, typer.Option("--epsilon", "-e", metavar="E", help="Stop when the gap is at most E.")
    ] = 0.1,
    delta: Annotated[float, typer.Option("--delta", metavar="P", help="Probability that a bound fails.")] = 0.05,
    support: Annotated[
        str | None,
        typer.Option(
            "--support",
            metavar="SUPPORT",
            help="Possible costs: known (default; no episode exceeds the budget) or learned (episodes may exceed it).",
            autocompletion=complete_support,
            show_default=False,
        ),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            "--cost",
            metavar="COST",
            help="Cost of a step of ENV: a number, one per action (0,1,1), or a key of info. Default: key cost.",
            show_default=False,
        ),
    ] = None,
    cost_bound: Annotated[
        str | None,
        typer.Option(
            "--cost-bound",
            metavar="BOUND",
            help="Upper bound on the cost of a step of ENV: a number, or one per action.",
            show_default=False,
        ),
    ] = None,
    env_arg: Annotated[
        list[str] | None,
        typer.Option(
            "--env-arg", metavar="NAME=VALUE", help="Keyword argument of ENV; repeatable.", show_default=False
        ),
    ] = None,
    reward_range: Annotated[
        str | None,
        typer.Option(
            "--reward-range",
            metavar="LOW..HIGH",
            help="Range of rewards. Default: from the model or table, else 0..1.",
            show_default=False,
        ),
    ] = None,
    return_range: Annotated[
        str | None,
        typer.Option(
            "--return-range",
            metavar="LOW..HIGH",
            help="Range of the sum of rewards of an episode, if narrower.",
            show_default=False,
        ),
    ] = None,
    random_start: Annotated[
        bool, typer.Option("--random-start", help="Episodes of ENV begin in different states.", show_default=False)
    ] = False,
    bonus: Annotated[
        str,
        typer.Option(
            "--bonus",
            metavar="BONUS",
            help="Confidence bounds: practical, or theory (the algorithm in the paper; slow).",
            autocompletion=complete_bonus,
        ),
    ] = "practical",
    no_pool: Annotated[
        bool, typer.Option("--no-pool", help="Keep counts per node, as in the paper.", show_default=False)
    ] = False,
    epsilon_cost: Annotated[
        str | None,
        typer.Option(
            "--epsilon-cost",
            metavar="E",
            help="Round costs down; the policy may exceed the budget by at most E.",
            show_default=False,
        ),
    ] = None,
    relative: Annotated[
        bool, typer.Option("--relative", help="--epsilon-cost is a share of the smallest limit.", show_default=False)
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Round real-valued costs up; never exceed the budget.", show_default=False),
    ] = False,
    replan: Annotated[
        str,
        typer.Option(
            "--replan",
            metavar="WHEN",
            help="When to solve again: doubling (when a visit count has doubled) or episode (after each episode).",
            autocompletion=complete_replan,
        ),
    ] = "doubling",
    max_episodes: Annotated[
        int, typer.Option("--max-episodes", "-n", metavar="N", help="Maximum number of episodes.")
    ] = 1_000_000,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    seed: SeedOption = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="POLICY", help="Write the policy.", show_default=False)
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="FILE", help="Write one line per planning step as CSV.", show_default=False),
    ] = None,
    tensorboard: Annotated[
        Path | None,
        typer.Option("--tensorboard", metavar="FOLDER", help="Write a TensorBoard log.", show_default=False),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint", metavar="FOLDER", help="Save the state of learning to a folder.", show_default=False
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint.", show_default=False)] = False,
) -> int:
    """Learn a policy from episodes, without exceeding the budget.

    Plays episodes in a model as if its probabilities and rewards were unknown, or in a registered environment.
    """
    from solvent.cli.text.learning import LearnSummary, learn_record, learn_text
    from solvent.learning.learn import learn as run

    inputs = (model,) if is_model_file(model) else ()
    outputs = {
        "--out": plan_output("--out", out, inputs=inputs),
        "--log": plan_output("--log", log, inputs=inputs),
    }
    refuse_duplicates(outputs)
    session.plan_files(policy=outputs["--out"], log=outputs["--log"])
    if is_model_file(model):
        given = {"--horizon": horizon, "--cost": cost, "--cost-bound": cost_bound, "--env-arg": env_arg or None}
        given |= {"--random-start": random_start or None}
        task = _task_of_file(session, model, budget, support, read_range(reward_range), given)
    else:
        task = _task_of_env(session, model, budget, horizon, support, cost, cost_bound, env_arg, reward_range)
        task.options["random_start"] = random_start
    if no_pool and task.support != "known":
        raise ModelError("--no-pool", "a known support", f"support {quote(task.support)}", "leave out --no-pool")
    with _logs(outputs["--log"], tensorboard) as callback, session.checkpoint_notes(checkpoint):
        learned = run(
            task.env, epsilon=epsilon, delta=delta, bonus=bonus, pool=not no_pool, replan=replan,  # type: ignore[arg-type]
            epsilon_cost=epsilon_cost, approximation="relative" if relative else None, strict=strict,
            return_range=read_range(return_range, "--return-range"), max_episodes=max_episodes, time_limit=time_limit,
            memory_limit=memory_limit, seed=seed, callback=callback, checkpoint=checkpoint, resume=resume,
            progress=session.progress, **task.options,
        )  # fmt: skip
    report, unchecked = _verify(session, task, learned, time_limit=time_limit, memory_limit=memory_limit)
    rounded = epsilon_cost is not None and not strict
    summary = LearnSummary(
        task.name, task.true_model, learned, task.support, report, unchecked, rounded, epsilon, delta, bonus, seed
    )
    output_files = _write(session, learned, outputs)
    text = learn_text(summary, verbose=session.verbose, written=output_files.files)
    record = learn_record(summary) | {"written": output_files.files, "interrupted": session.interrupted}
    code = ExitCode.INFEASIBLE if not summary.feasible else ExitCode.LIMIT if learned.limit_reached else ExitCode.OK
    return finish(session, text, record, code, output_files.error)


def _task_of_file(
    session: Session,
    path: Path,
    budget: list[str] | None,
    support: str | None,
    rewards: tuple[float, float] | None,
    given: dict[str, Any],
) -> LearnTask:
    from solvent.model.consistency import check_horizon

    file_format = find_format(path)
    if file_format is not None and file_format.is_program:  # these two options are for such files as well
        costs, horizon = given.pop("--cost"), given.pop("--horizon")
        session.program = replace(
            session.program,
            costs=tuple(read_costs([] if costs is None else [costs])),
            horizon=None if horizon is None else check_horizon(horizon),
        )
    for option, value in given.items():
        if value is not None:
            raise ModelError(option, "no such option for a model file", quote(value), "it is for environments only")
    loaded = read_model(session, path)
    options: dict[str, Any] = {"budget": read_budget_options(budget, loaded), "cost_support": support}
    options["reward_range"] = rewards
    return LearnTask(loaded.name or path.name, loaded, options, loaded, "learned" if support == "learned" else "known")


def _task_of_env(
    session: Session,
    path: Path,
    budget: list[str] | None,
    horizon: int | None,
    support: str | None,
    cost: str | None,
    cost_bound: str | None,
    env_arg: list[str] | None,
    reward_range: str | None,
) -> LearnTask:
    limits, step_cost, arguments = read_environment_budget(budget), read_step_cost(cost), read_arguments(env_arg)
    bound, rewards = read_bound(cost_bound), read_range(reward_range)
    if horizon is None:
        hint = f"for a model, name a file ending in {suffixes_text()}"
        raise ModelError("--horizon", "a number of steps for an environment", "none", hint)
    from solvent.gym.registered import make_registered
    from solvent.model.consistency import check_horizon

    with session.working(f"making {path}"):
        found = make_registered(str(path), arguments, check_horizon(horizon), step_cost, limits, session.note)
    if support != "learned" and found.table is None and bound is None:
        raise ModelError(
            str(path), "an environment with a table P and numbers for --cost, or --cost-bound", "neither",
            "--support learned learns the costs from episodes that exceed the budget",
        )  # fmt: skip
    options = {"horizon": found.horizon, "budget": found.budget, "cost": found.cost, "cost_support": support}
    options["reward_range"] = rewards or found.reward_range
    if bound is not None:
        options["cost_bound"] = _with_free_draw(found.env, bound)
        return LearnTask(str(path), found.env, options, found.table, "bound")
    if found.table is not None and support != "learned":
        options["support"] = found.table
        return LearnTask(str(path), found.env, options, found.table, "known")
    return LearnTask(str(path), found.env, options, found.table, "learned")


def _with_free_draw(env: Any, bound: Any) -> Any:
    """Return bounds on the costs of an environment's actions; a step that draws the first state costs 0.

    That step has one action, as in the table.
    """
    from solvent.gym.starts import RandomStart

    n_actions = getattr(env.action_space, "n", 0)
    if not isinstance(env, RandomStart) or (isinstance(bound, list) and len(bound) != n_actions):
        return bound
    by_action = bound if isinstance(bound, list) else [bound] * n_actions
    draw = [0, *[None] * (n_actions - 1)]
    return [*[by_action] * (getattr(env.observation_space, "n", 1) - 1), draw]  # the additional state is the last one


@contextmanager
def _logs(log: Output | None, tensorboard: Path | None) -> Iterator[list[Callback]]:
    """Return the callbacks that write the requested logs."""
    from solvent.learning.callbacks import CsvLog, TensorBoardLog

    with ExitStack() as stack:
        logs: list[Callback] = []
        if tensorboard is not None:
            logs.append(stack.enter_context(TensorBoardLog(tensorboard)))
        if log is not None:
            logs.append(CsvLog(log.path))  # written again at the end, including the history before a checkpoint
        yield logs


def _verify(session: Session, task: LearnTask, learned: LearnResult, **limits: Any) -> tuple[VerifyReport | None, str]:
    """Return the report of verifying the learned policy in the true model, or None and the reason."""
    from solvent.errors import LimitError, PolicyError
    from solvent.verification.verify import verify

    if learned.status.value == "infeasible":
        return None, "there is no policy"
    if task.true_model is None:
        return None, "there is no model to verify it with"
    try:
        with session.working("verifying"):
            policy = learned.policy if task.support == "known" else learned.policy_for(task.true_model)
            return verify(task.true_model, policy, **limits), ""
    except LimitError as error:
        return None, str(error)
    except PolicyError as error:
        return None, f"some outcomes were never observed, and the policy has no action at {error.where}"


def _write(session: Session, learned: LearnResult, outputs: dict[str, Output | None]) -> OutputFiles:
    from solvent.learning.callbacks import CsvLog

    output_files = OutputFiles()

    def write_log(path: Path) -> None:
        with CsvLog(path, every=len(learned.history) + 1) as log:
            for progress in learned.history:
                log(progress)

    with session.working("writing"):
        if learned.status.value != "infeasible":
            output_files.write("policy", outputs["--out"], lambda path: learned.policy.save(path))
        elif outputs["--out"] is not None:
            session.note("no policy was written: there is none")
        output_files.write("log", outputs["--log"], write_log)
        if learned.checkpoint_error and output_files.error is None:
            output_files.error = SolventError(f"the checkpoint could not be written: {learned.checkpoint_error}")
    return output_files
