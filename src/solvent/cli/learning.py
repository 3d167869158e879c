"""`learn`: policies when the model is unknown."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solvent.cli.budgets import read_budget_options
from solvent.cli.complete import complete_bonus, complete_replan, complete_support
from solvent.cli.environments import (
    is_model_file,
    read_arguments,
    read_bound,
    read_environment_budget,
    read_price,
    read_range,
)
from solvent.cli.failures import finish
from solvent.cli.models import read_model
from solvent.cli.options import BudgetOption, MemoryLimit, SeedOption, TimeLimit
from solvent.cli.outputs import Output, Writing, plan_output, refuse_doubles
from solvent.cli.session import Code, Session
from solvent.errors import CheckpointWarning, ModelError, SolventError, quote
from solvent.formats.registry import suffixes_text

if TYPE_CHECKING:
    from solvent.learning.learner import Callback
    from solvent.learning.result import LearnResult
    from solvent.model.cmdp import CMDP
    from solvent.verification.report import Report

SubjectArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL|ENV",
        help="A model file, or the name of a registered Gymnasium environment.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Subject:
    """What is learned in, and what is known of it.

    Attributes
    ----------
    name : str
    world : CMDP or environment
    known : dict
        Arguments of `solvent.learn` that say what is known.
    truth : CMDP or None
        What to check the policy with.
    support : {"known", "bound", "learned"}
    """

    name: str
    world: Any
    known: dict[str, Any]
    truth: CMDP | None
    support: str


def learn(
    session: Session,
    model: SubjectArgument,
    budget: BudgetOption = None,
    horizon: Annotated[
        int | None, typer.Option("--horizon", metavar="N", help="Steps of an episode, for ENV.", show_default=False)
    ] = None,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", metavar="E", help="Stop this near to the best.")] = 0.1,
    delta: Annotated[float, typer.Option("--delta", metavar="P", help="The chance of being wrong.")] = 0.05,
    support: Annotated[
        str | None,
        typer.Option(
            "--support",
            metavar="KNOWN",
            help="known (never over budget, the default) or learned (by going over).",
            autocompletion=complete_support,
            show_default=False,
        ),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            "--cost",
            metavar="COST",
            help="Of a step of ENV: a number, one for each action (0,1,1), or a key of info (cost, if not given).",
            show_default=False,
        ),
    ] = None,
    cost_bound: Annotated[
        str | None,
        typer.Option(
            "--cost-bound",
            metavar="MOST",
            help="What a step of ENV costs at most, in the same way.",
            show_default=False,
        ),
    ] = None,
    env_arg: Annotated[
        list[str] | None,
        typer.Option(
            "--env-arg", metavar="NAME=VALUE", help="An argument of ENV; may be repeated.", show_default=False
        ),
    ] = None,
    reward_range: Annotated[
        str | None,
        typer.Option(
            "--reward-range", metavar="LOW..HIGH", help="Of rewards; as the model says, or 0..1.", show_default=False
        ),
    ] = None,
    bonus: Annotated[
        str,
        typer.Option(
            "--bonus",
            metavar="BONUS",
            help="practical (bounds are estimates) or theory (proved, and slow).",
            autocompletion=complete_bonus,
        ),
    ] = "practical",
    no_pool: Annotated[
        bool, typer.Option("--no-pool", help="Count by node, as in the paper.", show_default=False)
    ] = False,
    epsilon_cost: Annotated[
        str | None,
        typer.Option("--epsilon-cost", metavar="E", help="Round costs; over by at most this.", show_default=False),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="With --epsilon-cost: round so as to be never over.", show_default=False)
    ] = False,
    replan: Annotated[
        str,
        typer.Option(
            "--replan",
            metavar="WHEN",
            help="doubling (of some count) or episode (after each).",
            autocompletion=complete_replan,
        ),
    ] = "doubling",
    max_episodes: Annotated[int, typer.Option("--max-episodes", "-n", metavar="N", help="In all.")] = 1_000_000,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    seed: SeedOption = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="POLICY", help="Write the policy.", show_default=False)
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="FILE", help="Write a line for each plan, as CSV.", show_default=False),
    ] = None,
    tensorboard: Annotated[
        Path | None,
        typer.Option("--tensorboard", metavar="FOLDER", help="Write the same for TensorBoard.", show_default=False),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="FILE", help="Write how far it is, to go on later.", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.", show_default=False)] = False,
) -> int:
    """Learn a policy by playing, never over budget.

    Plays episodes in a model as if its probabilities and rewards were unknown, or in a registered environment.
    """
    from solvent.cli.text.learned import Told, learned_record, learned_text
    from solvent.learning.learn import learn as run

    inputs = (model,) if is_model_file(model) else ()
    outputs = {
        "--out": plan_output("--out", out, inputs=inputs),
        "--log": plan_output("--log", log, inputs=inputs),
        "--checkpoint": plan_output("--checkpoint", checkpoint, inputs=inputs),
    }
    refuse_doubles(outputs)
    session.will_write(policy=outputs["--out"], log=outputs["--log"], checkpoint=outputs["--checkpoint"])
    if is_model_file(model):
        given = {"--horizon": horizon, "--cost": cost, "--cost-bound": cost_bound, "--env-arg": env_arg or None}
        subject = _of_file(session, model, budget, support, read_range(reward_range), given)
    else:
        subject = _of_environment(session, model, budget, horizon, support, cost, cost_bound, env_arg, reward_range)
    if no_pool and subject.support != "known":
        raise ModelError("--no-pool", "no such option unless it is known what can happen", "it")
    with _logs(outputs["--log"], tensorboard) as callback, _warnings(session):
        learned = run(
            subject.world, epsilon=epsilon, delta=delta, bonus=bonus, pool=not no_pool, replan=replan,  # type: ignore[arg-type]
            epsilon_cost=epsilon_cost, strict=strict, max_episodes=max_episodes, time_limit=time_limit,
            memory_limit=memory_limit, seed=seed, callback=callback, checkpoint=checkpoint, resume=resume,
            progress=session.progress, **subject.known,
        )  # fmt: skip
    report, unchecked = _check(session, subject, learned, time_limit=time_limit, memory_limit=memory_limit)
    rounded = epsilon_cost is not None and not strict
    told = Told(
        subject.name, subject.truth, learned, subject.support, report, unchecked, rounded, epsilon, delta, bonus, seed
    )
    writing = _write(session, learned, outputs)
    text = learned_text(told, verbose=session.verbose, written=writing.files)
    record = learned_record(told) | {"written": writing.files, "interrupted": session.interrupted}
    code = Code.INFEASIBLE if not told.kept else Code.LIMIT if learned.limit_reached else Code.OK
    return finish(session, text, record, code, writing.error)


def _of_file(
    session: Session,
    path: Path,
    budget: list[str] | None,
    support: str | None,
    rewards: tuple[float, float] | None,
    given: dict[str, Any],
) -> Subject:
    for option, value in given.items():
        if value is not None:
            raise ModelError(option, "no such option beside a model file, which says it itself", quote(value))
    loaded = read_model(session, path)
    if rewards is None and loaded.n_rows:
        rewards = float(loaded.row_reward.min()), float(loaded.row_reward.max())
    known: dict[str, Any] = {"budget": read_budget_options(budget, loaded), "cost_support": support}
    known["reward_range"] = rewards or (0.0, 1.0)
    return Subject(loaded.name or path.name, loaded, known, loaded, "learned" if support == "learned" else "known")


def _of_environment(
    session: Session,
    path: Path,
    budget: list[str] | None,
    horizon: int | None,
    support: str | None,
    cost: str | None,
    cost_bound: str | None,
    env_arg: list[str] | None,
    reward_range: str | None,
) -> Subject:
    limits, price, arguments = read_environment_budget(budget), read_price(cost), read_arguments(env_arg)
    bound, rewards = read_bound(cost_bound), read_range(reward_range)
    if horizon is None:
        hint = f"name a file ending in {suffixes_text()} if a model is meant"
        raise ModelError("--horizon", "a number of steps for an environment", "none", hint)
    from solvent.gym.registered import read_registered
    from solvent.model.validation import check_horizon

    with session.working(f"making {path}"):
        found = read_registered(str(path), arguments, check_horizon(horizon), price, limits, session.note)
    if support != "learned" and found.table is None and bound is None:
        raise ModelError(
            str(path), "an environment with a table P and a --cost in numbers, or --cost-bound", "neither",
            "--support learned finds out by going over budget",
        )  # fmt: skip
    known = {"horizon": found.horizon, "budget": found.budget, "cost": found.cost, "cost_support": support}
    known["reward_range"] = rewards or found.reward_range or (0.0, 1.0)
    if bound is not None:
        known["cost_bound"] = bound
        return Subject(str(path), found.env, known, found.table, "bound")
    if found.table is not None and support != "learned":
        known["support"] = found.table
        return Subject(str(path), found.env, known, found.table, "known")
    return Subject(str(path), found.env, known, found.table, "learned")


@contextmanager
def _warnings(session: Session) -> Iterator[None]:
    """Note checkpoints that cannot be written, in place of Python's way to warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", CheckpointWarning)
        show = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if issubclass(category, CheckpointWarning):
                session.note(str(message))
            else:
                show(message, category, *place)

        warnings.showwarning = note  # type: ignore[assignment]
        yield


@contextmanager
def _logs(log: Output | None, tensorboard: Path | None) -> Iterator[Callback | None]:
    """Keep the logs that are asked for."""
    from solvent.learning.callbacks import CsvLog, TensorBoardLog

    with ExitStack() as stack:
        logs: list[Callable[[Any], Any]] = []
        if tensorboard is not None:
            logs.append(stack.enter_context(TensorBoardLog(tensorboard)))
        if log is not None:
            logs.append(CsvLog(log.path))  # written whole at the end, with what was before a checkpoint

        def tell(moment: Any) -> None:
            for each in logs:
                each(moment)

        yield tell if logs else None


def _check(session: Session, subject: Subject, learned: LearnResult, **limits: Any) -> tuple[Report | None, str]:
    """Return the report of what was learned in the true model, or why there is none."""
    from solvent.errors import LimitError, PolicyError
    from solvent.verification.verify import verify

    if learned.status.value == "infeasible":
        return None, "there is no policy"
    if subject.truth is None:
        return None, "there is no model of it to check with"
    try:
        with session.working("verifying"):
            policy = learned.policy if subject.support == "known" else learned.policy_for(subject.truth)
            return verify(subject.truth, policy, **limits), ""
    except LimitError as error:
        return None, str(error)
    except PolicyError as error:
        return None, f"not all that can happen was seen, and nothing is decided at {error.where}"


def _write(session: Session, learned: LearnResult, outputs: dict[str, Output | None]) -> Writing:
    from solvent.learning.callbacks import CsvLog

    writing = Writing()

    def write_log(path: Path) -> None:
        with CsvLog(path, every=len(learned.history) + 1) as log:
            for moment in learned.history:
                log(moment)

    with session.working("writing"):
        if learned.status.value != "infeasible":
            writing.put("policy", outputs["--out"], lambda path: learned.policy.save(path))
        elif outputs["--out"] is not None:
            session.note("no policy was written, as there is none")
        writing.put("log", outputs["--log"], write_log)
        if not learned.checkpoint_error:
            writing.put("checkpoint", outputs["--checkpoint"], lambda path: None)
        elif writing.error is None:
            writing.error = SolventError(f"the checkpoint could not be written: {learned.checkpoint_error}")
    return writing
