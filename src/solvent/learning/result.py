"""The result of learning: a policy, bounds on its value, and the history of the run."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core import html
from solvent.core.exact import MAX_TICKS, common_unit
from solvent.core.frames import import_pandas
from solvent.core.loading import LoadLimits
from solvent.errors import ModelError, PolicyError, SolventError, quote
from solvent.model.cmdp import CMDP
from solvent.policy.nodes import ACCOUNTS
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.solution import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LearnProgress(NamedTuple):
    """The progress of learning when a plan was made.

    Attributes
    ----------
    episodes : int
        Number of episodes played so far.
    gap : float
        Upper bound on the difference between the optimum and the value of the policy.
    value_lower : float
        Lower bound on the value of the policy.
    value_upper : float
        Upper bound on the optimum.
    violations : int
        Number of episodes so far that broke a limit.
    nodes : int
        Number of nodes of the graph on which the plan was made.
    """

    episodes: int
    gap: float
    value_lower: float
    value_upper: float
    violations: int
    nodes: int

    def __str__(self) -> str:
        return (
            f"{self.episodes:>12,} {self.value_lower:>12.6g} {self.value_upper:>12.6g} {self.gap:>12.6g} "
            f"{self.violations:>10,} {self.nodes:>12,}"
        )


HEADER = f"{'episodes':>12} {'lower':>12} {'upper':>12} {'gap':>12} {'violations':>10} {'nodes':>12}"


@dataclass(frozen=True, eq=False)
class LearnResult:
    """The result of `learn`.

    Attributes
    ----------
    status : Status
        "within_gap": the gap is at most epsilon. "limit": the run ended before that, at `max_episodes`, the time limit
        or the memory limit, or because the callback or Ctrl-C stopped it; the policy is the best estimate so far.
        "infeasible": no policy keeps the budget under all outcomes that are known to be possible; with `strict`, none
        keeps it with costs rounded up, although there may be one with finer rounding.
    value_lower : float
        Lower bound on the value of the policy.
    value_upper : float
        Upper bound on the optimum.
    gap : float
        The absolute gap `value_upper - value_lower`, which is compared with epsilon.
    guaranteed : bool
        Whether the bounds hold with probability at least 1 - delta, as they do if the support is known; else they are
        estimates.
    episodes : int
        Number of episodes played.
    violations : int
        Number of episodes that broke a limit, judged by exact true costs. 0 with a known support or a bound on costs,
        unless costs are rounded down (`epsilon_cost` without `strict`).
    history : tuple of LearnProgress
        One entry per plan.
    message : str
        Why learning ended, and what to try.
    returns : ndarray of float64, shape (E,)
        Sum of the rewards of each episode.
    costs : ndarray of float64, shape (E, D)
        What each episode spent in the end, by resource, as floating-point numbers.
    resources : tuple of str
        The limited resources.
    limit_reached : bool
        Whether `time_limit` or `memory_limit` ended the run.
    checkpoint_error : str
        Why the last checkpoint could not be written; empty if it was written or none was requested.
    model_name : str
        Name of the model, or the id of the environment; empty if it has none, or the result was saved by version 0.2.
    limits : dict of str to str
        The limits of each limited resource in words, such as "at most 30"; empty if the result was saved by version
        0.2.
    """

    status: Status
    value_lower: float
    value_upper: float
    gap: float
    guaranteed: bool
    episodes: int
    violations: int
    history: tuple[LearnProgress, ...]
    message: str
    _make_policy: Callable[[], AugmentedPolicy] | None = field(default=None, repr=False)
    returns: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False)
    costs: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    resources: tuple[str, ...] = ()
    limit_reached: bool = False
    checkpoint_error: str = ""
    model_name: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def infeasible(
        cls,
        episodes: int,
        violations: int,
        history: tuple[LearnProgress, ...],
        returns: NDArray[np.float64],
        costs: NDArray[np.float64],
        resources: tuple[str, ...],
        message: str,
    ) -> LearnResult:
        """Return the result that no policy keeps the budget."""
        return cls(
            status=Status.INFEASIBLE,
            value_lower=-math.inf,
            value_upper=-math.inf,
            gap=0.0,
            guaranteed=True,
            episodes=episodes,
            violations=violations,
            history=history,
            message=message,
            returns=returns,
            costs=costs,
            resources=resources,
        )

    @cached_property
    def policy(self) -> AugmentedPolicy:
        """The policy.

        Raises
        ------
        SolventError
            If there is none.
        """
        if self._make_policy is None:
            raise SolventError(
                f"policy: expected a result with a policy, found status {self.status.value}: {self.message}"
            )
        return self._make_policy()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling: the policy in place of the function that makes it."""
        state = dict(self.__dict__)
        if self._make_policy is not None:
            state |= {"policy": self.policy, "_make_policy": None}
        return state

    @property
    def log(self) -> str:
        """The history as text, with a line per plan."""
        return "\n".join([HEADER, *map(str, self.history)])

    def policy_for(self, model: CMDP) -> AugmentedPolicy:
        """Return the policy as a policy for a model whose states, actions and resources have the same names.

        Use it to verify a policy that was learned in an environment of which a model exists. A policy with a learned
        support decides nothing at nodes it has never visited.

        Raises
        ------
        ModelError
            If `model` is not a model.
        PolicyError
            If the model has another horizon, or lacks a state or an action of the policy.
        """
        _check_model(model, "a CMDP")
        return restate(self.policy, model)

    def save(self, path: str | Path) -> None:
        """Write the result, with its policy, history and episodes, to a file, atomically; `load` reads it back.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from solvent.learning.learn import learn
        >>> from solvent.model import instances
        >>> learned = learn(instances.markov_gap(), epsilon=0.3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "run.learned"
        ...     learned.save(file)
        ...     LearnResult.load(file).policy == learned.policy
        True
        """
        from solvent.learning.files import save_result

        save_result(self, path)

    @staticmethod
    def load(path: str | Path, model: CMDP | None = None, *, limits: LoadLimits | None = None) -> LearnResult:
        """Load a result that `save` wrote. Nothing in the file is executed.

        Parameters
        ----------
        path : str or Path
        model : CMDP, optional
            The model that the policy was made for; `policy.agent()` needs it.
        limits : LoadLimits, optional
            Limits on time, memory and sizes; see `solvent.LoadLimits` for the defaults.

        Raises
        ------
        ModelError, PolicyError
            If the file does not contain a result, or does not match its checksum, or the policy was made for another
            model, or `model` is not a model.
        LoadLimitError
            If loading would exceed `limits`.
        """
        from solvent.learning.files import load_result

        if model is not None:
            _check_model(model, "a CMDP, or None")
        fields = load_result(path, model, limits=limits)
        policy, history = fields.pop("policy"), tuple(LearnProgress(*each) for each in fields.pop("history"))
        return LearnResult(**fields, history=history, _make_policy=None if policy is None else lambda: policy)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot bounds and returns by episode, and return the Matplotlib axes; see `solvent.plot.learning`."""
        if isinstance(ax, str | os.PathLike):
            hint = f"to save the figure: solvent.plot.save(learned.plot(), {quote(os.fspath(ax))})"
            raise ModelError("ax", "matplotlib Axes, or None for a new figure", quote(ax), hint)
        from solvent.plot.episodes import learning as draw

        return draw(self, ax)

    def to_frame(self, *, by: Literal["episode", "plan"] = "episode") -> Any:
        """Return the episodes, or the plans, as a pandas DataFrame.

        Parameters
        ----------
        by : {"episode", "plan"}
            One row per episode, with its return and what it spent of each resource; or one row per plan, with the
            fields of `LearnProgress`.

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        if by not in ("episode", "plan"):
            raise ModelError("by", "'episode' or 'plan'", quote(by))
        pandas = import_pandas()
        if by == "plan":
            return pandas.DataFrame(self.history, columns=LearnProgress._fields)
        spent = {f"spent_{name}": self.costs[:, d] for d, name in enumerate(self.resources)}
        index = pandas.RangeIndex(len(self.returns), name="episode")
        return pandas.DataFrame({"return": self.returns, **spent}, index=index)

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("model", self.model_name)] if self.model_name else []
        if self.status is not Status.INFEASIBLE:
            rows.append(("value", f"between {self.value_lower:.6g} and {self.value_upper:.6g}"))
        rows.append(("episodes", f"{self.episodes:,}, of which {self.violations:,} over budget"))
        rows.append(("bounds", "hold with probability at least 1 − delta" if self.guaranteed else "estimates"))
        drawn = html.figure(self.plot, "bounds on the value by episode") if self.history else None
        parts = [
            html.facts(rows),
            drawn or html.note(f"{len(self.history):,} plans"),
            html.note(self.message),
        ]
        tone: html.Tone = "bad" if self.violations or self.status is Status.INFEASIBLE else "good"
        return html.card("LearnResult", self.status.value.replace("_", " "), *parts, tone=tone)

    def __repr__(self) -> str:
        known = self.status is not Status.INFEASIBLE
        bounds = f"value {self.value_lower:.6g} to {self.value_upper:.6g}, " if known else ""
        return f"LearnResult({self.status.value}, {bounds}{self.episodes:,} episodes, {self.violations:,} violations)"


def _check_model(model: Any, expected: str) -> None:
    """Raise a `ModelError` unless an argument is a `CMDP`; an environment or a path gets a hint."""
    if isinstance(model, CMDP):
        return
    hint = ""
    if isinstance(getattr(getattr(model, "unwrapped", model), "model", None), CMDP):
        hint = "pass its model: env.unwrapped.model"
    elif hasattr(model, "step"):
        hint = "an environment is not a model; solvent.CMDP.from_gymnasium(env, ...) reads the table of one that has it"
    elif isinstance(model, str | os.PathLike):
        hint = "solvent.load_model(path) reads a file"
    raise ModelError("model", expected, quote(model), hint)


def restate(policy: AugmentedPolicy, model: CMDP) -> AugmentedPolicy:
    """Return a policy as a policy for another model; states and actions are matched by name.

    Units that do not divide the costs of the model become finer, as far as ticks fit, unless the policy rounds.

    Examples
    --------
    >>> from solvent.model import instances
    >>> from solvent.solvers.solve import solve
    >>> one, other = (instances.knapsack([3, value], [2, 3], capacity=4) for value in (9, 1))
    >>> restate(solve(one).policy, other).fingerprint == other.fingerprint
    True
    """
    if model.horizon != policy.horizon:
        raise PolicyError("model", f"a horizon of {policy.horizon}", str(model.horizon))
    places = {name: i for i, name in enumerate(model.states)}
    actions = {name: i for i, name in enumerate(model.actions)}
    used = np.unique(policy.action_N).tolist()
    for kind, known, names in (
        ("state", places, [policy.states[s] for s in np.unique(policy.group_state).tolist()]),
        ("action", actions, [policy.actions[a] for a in used]),
    ):
        missing = [name for name in names if name not in known]
        if missing:
            raise PolicyError("model", f"every {kind} of the policy", f"no {kind} {quote(missing[0])}")
    policy = _in_finer_units(policy, model)
    new_action = np.zeros(len(policy.actions), np.int64)
    new_action[used] = [actions[policy.actions[a]] for a in used]
    layers, settled = [], []
    shape = (model.n_states, len(policy.resources))
    for step in range(policy.horizon):
        groups = slice(int(policy.step_indptr[step]), int(policy.step_indptr[step + 1]))
        states = np.array([places[policy.states[s]] for s in policy.group_state[groups].tolist()], np.int64)
        ends = policy.node_indptr[groups.start : groups.stop + 1]
        nodes = slice(int(ends[0]), int(ends[-1]))
        layers.append((np.repeat(states, np.diff(ends)), policy.spent_ND[nodes], new_action[policy.action_N[nodes]]))
        low, high = np.ones(shape, np.int64), np.zeros(shape, np.int64)
        if policy.settled_low_GD is not None and policy.settled_high_GD is not None:
            low[states], high[states] = policy.settled_low_GD[groups], policy.settled_high_GD[groups]
        settled.append((low, high))
    kept = None if policy.settled_low_GD is None else settled
    return AugmentedPolicy.from_nodes(
        model, policy, policy.limits, layers=layers, settled=kept, lookup=policy.lookup, counting=policy.counting
    )


def _in_finer_units(policy: AugmentedPolicy, model: CMDP) -> AugmentedPolicy:
    """Return the same policy in units that divide the costs of the model, where it counts costs exactly."""
    units = []
    for unit, name, counting in zip(policy.units, policy.resources, policy.counting, strict=True):
        if name not in model.resources or counting != "exact":
            units.append(unit)
            continue
        column = model.cost[model.resource_index(name)]
        units.append(common_unit([unit, column.unit]) if column.ticks.any() else unit)
    factors = [int(old / new) for old, new in zip(policy.units, units, strict=True)]
    if max(factors, default=1) == 1 or max(factors) > MAX_TICKS:
        return policy
    factor_D, arrays = np.array(factors), dict[str, Any]()
    for name in ("spent_ND", "settled_low_GD", "settled_high_GD", *ACCOUNTS):
        ticks = getattr(policy, name)
        if ticks is not None:
            finite = (ticks >= -MAX_TICKS) & (ticks <= MAX_TICKS)  # others are infinite, or `COLLAPSED`
            if (finite & (np.abs(ticks) > MAX_TICKS // factor_D)).any():
                return policy
            arrays[name] = np.where(finite, ticks * factor_D, ticks)
    return replace(policy, units=tuple(units), **arrays)
