"""Where the costs of an environment are read, and what stands between that place and whoever keeps the account.

A cost that is computed from an action is true only if that action is what the environment was given, and a cost that is
reported by a step is all of it only if that step was one step of the environment. Wrappers can break both: a sticky
action is replaced by the one before, a skipped frame is a step that nobody sees. So a cost is read either above
wrappers that are known to take each action once and as it is (`check_wrappers`), or by a meter that sits where the cost
arises and writes every single step on the tapes of those who keep accounts (`Tape`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from solvent.core.exact import exact
from solvent.errors import ModelError, quote
from solvent.model.build import read_costs

#: What a wrapper does with an action: takes it once as it is, takes another, takes several, or nobody knows.
Way = Literal["passes", "changes", "repeats", "unknown"]
#: What a cost is made of: the action (and what came of it), nothing but the fact of a step, or a report in `info`.
Kind = Literal["action", "step", "report"]

_CORE = "gymnasium.core."
_WRAPPERS = "gymnasium.wrappers."
#: Classes whose `step` and `reset` hand every action on, once and as it is.
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
        "stable_baselines3.common.monitor.Monitor",
    ]
)
#: Classes that take one step for each, with what their `action` makes of it.
_CHANGING = frozenset([_CORE + "ActionWrapper", _WRAPPERS + "stateful_action.StickyAction"])
#: Classes that take several steps for one.
_REPEATING = frozenset(
    [
        _WRAPPERS + "stateful_action.RepeatAction",
        _WRAPPERS + "stateful_observation.MaxAndSkipObservation",
        _WRAPPERS + "atari_preprocessing.AtariPreprocessing",
    ]
)
#: What a wrapper must not do below a place where costs of a kind are read.
_REFUSED: dict[Kind, tuple[Way, ...]] = {
    "action": ("changes", "repeats", "unknown"),
    "step": ("repeats", "unknown"),
    "report": ("repeats", "unknown"),
}
_DOES: dict[Way, str] = {
    "passes": "takes each action once",
    "changes": "may take another action than it is given",
    "repeats": "takes several steps for one",
    "unknown": "has a step or reset of its own, which may do anything",
}


def layers(env: Any) -> Iterator[Any]:
    """Yield an environment and all that is inside it, the outermost first.

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

    A class says so itself by `passes_actions = True`, and not for those derived from it that have a step or reset of
    their own; an object may say so as a property of its class.
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


def check_wrappers(env: Any, kind: Kind, where: str, *, adapted: bool = False) -> None:
    """Raise a `ModelError` if something in `env` makes costs that are read above it differ from those that arise.

    Parameters
    ----------
    env : environment
        What the costs are read from.
    kind : {"action", "step", "report"}
        What they are made of.
    where : str
        Who reads them.
    adapted : bool
        Whether reports may come from wrappers nobody knows, as whoever reads them was put right above these.
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
            raise ModelError(
                where,
                f"wrappers inside that take each action once{' and as it is' if kind == 'action' else ''}, as costs "
                f"are {made}",
                f"{name}, which {_DOES[way]}",
                f"read costs where they arise: put solvent.gym.CostMeter(env, cost=...) below {name} and leave "
                "cost=... out here"
                + (f", or say passes_actions = True in the class {name} if that holds" * (way == "unknown")),
            )


def kind_of(cost: Any) -> Kind:
    """Return what a cost is made of, as `cost=` says.

    Examples
    --------
    >>> kind_of(None), kind_of("fuel"), kind_of(3), kind_of(max)
    ('report', 'report', 'step', 'action')
    """
    if cost is None or isinstance(cost, str):
        return "report"
    return "action" if callable(cost) else "step"


def find_meter(env: Any, resources: tuple[str, ...]) -> Any:
    """Return the outermost meter inside an environment that knows these resources; None if there is none."""
    for layer in layers(env):
        knows = getattr(type(layer), "meters", None)
        if knows is not None and layer.meters(resources):
            return layer
    return None


def pick_costs(costs: Any, resources: tuple[str, ...], where: str) -> Any:
    """Return of costs that are reported by name those of some resources; a `ModelError` if one is missing.

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
    """What was spent since a tape was last read.

    Attributes
    ----------
    steps : int
        Steps of the environment.
    reported : list
        One entry for each resource: as it was reported if that was one step, else exact sums.
    high, low : tuple of Fraction, or None
        The most and the least that had been spent of it after one of several steps.
    """

    steps: int
    reported: list[Any]
    high: tuple[Fraction, ...] | None
    low: tuple[Fraction, ...] | None

    @classmethod
    def once(cls, reported: list[Any]) -> Spent:
        """Return what one step cost."""
        return cls(1, reported, None, None)


class Tape:
    """What a meter has measured, for one who keeps an account.

    Parameters
    ----------
    resources : tuple of str
        Those of interest, in order.

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
        """Forget what is on it."""
        self._steps, self._reported = 0, [0] * len(self.resources)
        self._sums: tuple[Fraction, ...] | None = None
        self._high: tuple[Fraction, ...] | None = None
        self._low: tuple[Fraction, ...] | None = None

    def write(self, found: Any) -> None:
        """Take in what one step of the environment cost."""
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
        """Return what is on it, and forget it."""
        found = Spent(self._steps, self._reported if self._sums is None else list(self._sums), self._high, self._low)
        self.rewind()
        return found


def _exactly(costs: Sequence[Any], resources: tuple[str, ...]) -> tuple[Fraction, ...]:
    pairs = zip(costs, resources, strict=True)
    return tuple(exact(cost, f"step, cost of {name}") for cost, name in pairs)
