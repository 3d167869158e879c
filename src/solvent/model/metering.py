"""Reading the costs of an environment through wrappers.

A cost computed from an action is correct only if the environment was given that action, and a cost reported by a step
is complete only if it was one step of the environment. Wrappers can violate both: a sticky action is replaced by the
previous one, and a skipped frame is a step that is not reported. So costs are read either above wrappers that are known
to pass each action on, once and unchanged (`check_wrappers`), or by a meter inside the wrappers, which records every
step of the environment on a `Tape` for each reader.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from solvent.core.exact import exact
from solvent.errors import ModelError, quote
from solvent.model.build import read_costs

#: What a wrapper does with an action: pass it on once and unchanged, change it, repeat it, or unknown.
Way = Literal["passes", "changes", "repeats", "unknown"]
#: What a cost is computed from: the action and its outcome, the mere fact of a step, or a report in `info`.
Kind = Literal["action", "step", "report"]

_CORE = "gymnasium.core."
_WRAPPERS = "gymnasium.wrappers."
_VECTOR, _VECTOR_WRAPPERS = "gymnasium.vector.vector_env.", "gymnasium.wrappers.vector."
#: Classes whose `step` and `reset` pass every action on, once and unchanged.
_PASSING = frozenset(
    [
        *(_CORE + name for name in ("Wrapper", "ObservationWrapper", "RewardWrapper")),
        *(
            f"{_WRAPPERS}common.{name}"
            for name in ("TimeLimit", "Autoreset", "PassiveEnvChecker", "OrderEnforcing", "RecordEpisodeStatistics")
        ),
        _WRAPPERS + "array_conversion.ArrayConversion",
        *(f"{_WRAPPERS}rendering.{name}" for name in ("RenderCollection", "RecordVideo", "HumanRendering")),
        *(
            f"{_WRAPPERS}stateful_observation.{name}"
            for name in ("DelayObservation", "TimeAwareObservation", "FrameStackObservation", "NormalizeObservation")
        ),
        _WRAPPERS + "stateful_reward.NormalizeReward",
        _WRAPPERS + "transform_observation.AddRenderObservation",
        # the same in Gymnasium 0.28 and 0.29, where each wrapper has its own module
        *(
            _WRAPPERS + name
            for name in (
                "time_limit.TimeLimit",
                "env_checker.PassiveEnvChecker",
                "order_enforcing.OrderEnforcing",
                "record_episode_statistics.RecordEpisodeStatistics",
                "render_collection.RenderCollection",
                "record_video.RecordVideo",
                "human_rendering.HumanRendering",
                "frame_stack.FrameStack",
                "time_aware_observation.TimeAwareObservation",
                "normalize.NormalizeObservation",
                "normalize.NormalizeReward",
            )
        ),
        "stable_baselines3.common.monitor.Monitor",
        # wrappers of vectors
        *(_VECTOR + name for name in ("VectorWrapper", "VectorObservationWrapper", "VectorRewardWrapper")),
        *(
            _VECTOR_WRAPPERS + name
            for name in (
                "array_conversion.ArrayConversion",
                "common.RecordEpisodeStatistics",
                "rendering.HumanRendering",
                "rendering.RecordVideo",
                "stateful_observation.NormalizeObservation",
                "stateful_reward.NormalizeReward",
                "vectorize_observation.VectorizeTransformObservation",
            )
        ),
    ]
)
#: Classes that take one step for each action, with an action of their own.
_CHANGING = frozenset(
    [
        _CORE + "ActionWrapper",
        _VECTOR + "VectorActionWrapper",
        _WRAPPERS + "stateful_action.StickyAction",
        "solvent.gym.continuous.ContinuousBudgetWrapper",
    ]
)
#: Classes that take several steps for one action.
_REPEATING = frozenset(
    [
        _WRAPPERS + "stateful_action.RepeatAction",
        _WRAPPERS + "stateful_observation.MaxAndSkipObservation",
        _WRAPPERS + "atari_preprocessing.AtariPreprocessing",
    ]
)
#: What wrappers must not do below the place where costs of each kind are read.
_REFUSED: dict[Kind, tuple[Way, ...]] = {
    "action": ("changes", "repeats", "unknown"),
    "step": ("repeats", "unknown"),
    "report": ("repeats", "unknown"),
}
_DOES: dict[Way, str] = {
    "passes": "passes each action on once",
    "changes": "may change the action",
    "repeats": "takes several steps for one action",
    "unknown": "overrides step or reset, with unknown effect",
}


def layers(env: Any) -> Iterator[Any]:
    """Yield an environment and all environments wrapped in it, the outermost first.

    Examples
    --------
    >>> list(layers("anything"))
    ['anything']
    """
    while True:
        yield env
        if not _is_wrapper(env):
            return
        env = env.env


def _is_wrapper(layer: Any) -> bool:
    names = {_name(cls) for cls in type(layer).__mro__}
    if names & {_CORE + "Wrapper", "gym.core.Wrapper"}:
        return True
    return _CORE + "Env" not in names and getattr(layer, "env", None) is not None


def way_of(wrapper: Any) -> Way:
    """Return what a wrapper does with actions.

    A class declares that it passes actions on by `passes_actions = True`, or by a property of that name. The
    declaration does not extend to derived classes that override `step` or `reset`.
    """
    if "step" in vars(wrapper) or "reset" in vars(wrapper):
        return "unknown"
    found: set[Way] = {_way_of_method(wrapper, method) for method in ("step", "reset")}
    for worst in ("unknown", "repeats", "changes"):
        if worst in found:
            return worst
    return "passes"


def _way_of_method(wrapper: Any, method: str) -> Way:
    owner = next((cls for cls in type(wrapper).__mro__ if method in vars(cls)), None)
    if owner is None:
        return "unknown"
    name, said = _name(owner), vars(owner).get("passes_actions")
    if said is True or (isinstance(said, property) and wrapper.passes_actions is True) or name in _PASSING:
        return "passes"
    return "repeats" if name in _REPEATING else "changes" if name in _CHANGING else "unknown"


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def check_wrappers(env: Any, kind: Kind, where: str, *, adapted: bool = False, vector: bool = False) -> None:
    """Raise a `ModelError` if a wrapper in `env` can make the costs read above it differ from the true costs.

    Parameters
    ----------
    env : environment
        The environment whose costs are read.
    kind : {"action", "step", "report"}
        What the costs are computed from.
    where : str
        Name of the reader in errors.
    adapted : bool
        If True, accept reports from unknown wrappers, because the reader was made for them.
    vector : bool
        Whether the reader is around a vector, which cannot read meters.
    """
    for layer in layers(env):
        if not _is_wrapper(layer):
            return
        way = way_of(layer)
        if way == "unknown" and kind == "report" and adapted:
            continue
        if way in _REFUSED[kind]:
            made = {"action": "computed from actions", "step": "counted by steps", "report": "reported by steps"}[kind]
            name = type(layer).__name__
            advice = (
                f"measure costs inside: put solvent.gym.CostMeter(env, cost=...) below {name} and omit cost=... here"
            )
            if vector:
                advice = f"put {name} around {where}, or a BudgetWrapper with a CostMeter into every environment"
            raise ModelError(
                where,
                f"wrappers inside that pass each action on once{' and unchanged' if kind == 'action' else ''}, as "
                f"costs are {made}",
                f"{name}, which {_DOES[way]}",
                advice + (f", or set passes_actions = True in the class {name} if that is true" * (way == "unknown")),
            )


def kind_of(cost: Any) -> Kind:
    """Return what a cost is computed from, according to the argument `cost`.

    Examples
    --------
    >>> kind_of(None), kind_of("fuel"), kind_of(3), kind_of(max)
    ('report', 'report', 'step', 'action')
    """
    if cost is None or isinstance(cost, str):
        return "report"
    return "action" if callable(cost) else "step"


def find_meter(env: Any, resources: tuple[str, ...]) -> Any:
    """Return the outermost meter inside an environment that measures these resources, or None."""
    for layer in layers(env):
        knows = getattr(type(layer), "meters", None)
        if knows is not None and layer.meters(resources):
            return layer
    return None


def pick_costs(costs: Any, resources: tuple[str, ...], where: str) -> Any:
    """Return the costs of some resources from a report by name, or raise a `ModelError` if one is missing.

    Examples
    --------
    >>> pick_costs({"fuel": 1, "noise": 2}, ("fuel",), "step")
    {'fuel': 1}
    """
    if not isinstance(costs, Mapping):
        return costs
    for name in resources:
        if name not in costs:
            raise ModelError(
                f"{where}, costs", f"a cost of every limited resource ({', '.join(map(quote, resources))})",
                f"those of {quote(sorted(map(str, costs)))}", "name the resource in the budget: budget={...: ...}",
            )  # fmt: skip
    return {name: costs[name] for name in resources}


class Spent(NamedTuple):
    """Costs since a tape was last read.

    Attributes
    ----------
    steps : int
        Number of steps of the environment.
    reported : list
        One entry per resource: the cost as reported for a single step, else the exact sum.
    high, low : tuple of Fraction, or None
        If there were several steps: the largest and the smallest partial sum of each resource.
    """

    steps: int
    reported: list[Any]
    high: tuple[Fraction, ...] | None
    low: tuple[Fraction, ...] | None

    @classmethod
    def once(cls, reported: list[Any]) -> Spent:
        """Return the costs of a single step."""
        return cls(1, reported, None, None)


class Tape:
    """A record of costs that a meter writes and one reader takes.

    Parameters
    ----------
    resources : tuple of str
        The resources to record, in order.

    Examples
    --------
    >>> tape = Tape(("fuel",))
    >>> tape.write(3)
    >>> tape.write(-1)
    >>> tape.take()
    Spent(steps=2, reported=[Fraction(2, 1)], high=(Fraction(3, 1),), low=(Fraction(2, 1),))
    >>> tape.take()
    Spent(steps=0, reported=[0], high=None, low=None)
    """

    def __init__(self, resources: tuple[str, ...]) -> None:
        self.resources = resources
        self.rewind()

    def rewind(self) -> None:
        """Erase the record."""
        self._steps, self._reported = 0, [0] * len(self.resources)
        self._sums: tuple[Fraction, ...] | None = None
        self._high: tuple[Fraction, ...] | None = None
        self._low: tuple[Fraction, ...] | None = None
        self._error: ModelError | None = None

    def fail(self, error: ModelError) -> None:
        """Record that costs cannot be read; the reader gets the error when it takes the record."""
        self._error = self._error or error.with_traceback(None)  # a traceback would keep the tape

    def write(self, found: Any) -> None:
        """Record the costs of one step of the environment."""
        reported = read_costs(found, self.resources, "step")
        self._steps += 1
        if self._steps == 1:
            self._reported = reported
            return
        if self._sums is None:
            self._sums = self._high = self._low = _exactly(self._reported, self.resources)
        assert self._high is not None
        assert self._low is not None
        costs = _exactly(reported, self.resources)
        self._sums = tuple(a + b for a, b in zip(self._sums, costs, strict=True))
        self._high = tuple(max(a, b) for a, b in zip(self._high, self._sums, strict=True))
        self._low = tuple(min(a, b) for a, b in zip(self._low, self._sums, strict=True))

    def take(self) -> Spent:
        """Return the record, and erase it; raise a `ModelError` if the costs of a step could not be read."""
        error, sums = self._error, self._reported if self._sums is None else list(self._sums)
        spent = Spent(self._steps, sums, self._high, self._low)
        self.rewind()
        if error is not None:
            raise error
        return spent


class Tapes:
    """The tapes on which a meter writes, each as long as its reader exists.

    A reader that does not read, such as a wrapper that is no longer used, does not disturb the others: what it cannot
    read is an error of that reader only.

    Parameters
    ----------
    tapes : iterable of Tape, optional

    Examples
    --------
    >>> tapes, fuel, wear = Tapes(), Tape(("fuel",)), Tape(("wear",))
    >>> tapes.add(fuel), tapes.add(wear)
    (None, None)
    >>> tapes.write(lambda tape: {"fuel": 3})
    >>> fuel.take().reported
    [3]
    >>> del wear
    >>> len(list(tapes))
    1
    """

    def __init__(self, tapes: Iterable[Any] = ()) -> None:
        self._references = [weakref.ref(tape) for tape in tapes]

    def __iter__(self) -> Iterator[Any]:
        for reference in self._references:
            tape = reference()
            if tape is not None:
                yield tape

    def __reduce__(self) -> tuple[type[Tapes], tuple[list[Any]]]:
        return Tapes, (list(self),)

    def add(self, tape: Any) -> None:
        """Write on a tape from now on."""
        self._references = [weakref.ref(each) for each in (*self, tape)]

    def remove(self, tape: Any) -> None:
        """Write on a tape no longer."""
        self._references = [weakref.ref(each) for each in self if each is not tape]

    def write(self, find: Callable[[Any], Any]) -> None:
        """Write the costs of a step on each tape, as a function of the tape returns them."""
        for tape in self:
            try:
                tape.write(find(tape))
            except ModelError as error:
                tape.fail(error)


def _exactly(costs: Sequence[Any], resources: tuple[str, ...]) -> tuple[Fraction, ...]:
    pairs = zip(costs, resources, strict=True)
    return tuple(exact(cost, f"step, cost of {name}") for cost, name in pairs)
