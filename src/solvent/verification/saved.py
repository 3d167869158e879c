"""Passes of a verification in a checkpoint: the last layer, and what was found in those before.

A section is named by a digest of the model, of the policy and of the ledgers. A pass with amounts that do not fit 64
bits is not saved.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.checkpoint import Section
from solvent.errors import ModelError
from solvent.policy.markov import MarkovPolicy
from solvent.policy.nodes import NodeTable
from solvent.policy.until_violation import UntilViolationPolicy
from solvent.verification.findings import Findings
from solvent.verification.layers import NO_OUTCOME, PolicyLayer, Walk

#: More nodes than any verification visits.
_MOST = 2**48


@dataclass
class Reached:
    """How far a pass has come.

    Attributes
    ----------
    layer : PolicyLayer
        The last layer.
    findings : Findings
    trail : list of PolicyLayer
        Layers from which a history is read backward; those before the last one may lack everything else.
    record : dict or None
        A history that was found, as `ViolationPass` records it.
    done : bool
        Whether the pass has ended.
    """

    layer: PolicyLayer
    findings: Findings
    trail: list[PolicyLayer] = field(default_factory=list)
    record: dict[str, Any] | None = None
    done: bool = False


class SavedPass:
    """The section of one pass; without a checkpoint, nothing is saved.

    Parameters
    ----------
    walk : Walk
    name : str
    *content
        What distinguishes the pass from others of the same walk.
    """

    def __init__(self, walk: Walk, name: str, *content: Any) -> None:
        self._walk, self._trailed = walk, 0
        self._section: Section | None = None
        if walk.monitor.checkpoint is not None and all(
            _is_narrow(ledger.low_O, ledger.high_O) for ledger in walk.ledgers
        ):
            self._section = walk.monitor.section(name, *_content_of(walk), *content)

    def save(self, reached: Reached) -> None:
        """Save how far the pass has come."""
        section, layer, found = self._section, reached.layer, reached.findings
        if section is None:
            return
        n_ledgers = len(self._walk.ledgers)
        state = {
            "step": layer.step, "broken": sorted(found.broken), "astray": int(found.astray), "nodes": found.nodes,
            "complete": int(found.complete), "done": int(reached.done), "record": reached.record,
        }  # fmt: skip
        flags = (layer.violated, layer.astray)
        arrays: dict[str, NDArray[Any]] = {
            "state": layer.state,
            "probability": layer.probability,
            "high": _stacked(layer.high, len(layer)),
            "low": _stacked(layer.low, len(layer)),
            "excess": _stacked(layer.excess, len(layer)),
            "history": np.stack([layer.parent, layer.outcome]),
            "flags": np.stack([np.zeros(len(layer), bool) if flag is None else flag for flag in flags]),
            "earned": np.array(found.earned, np.float64),
            "worst": np.array(found.worst, np.int64).reshape(-1, n_ledgers),
            "least": np.array(found.least, np.int64).reshape(-1, n_ledgers),
            "sizes": np.array([len(each) for each in reached.trail], np.int64),
        }
        new = reached.trail[self._trailed :]
        added = {}
        if new:
            added["trail"] = np.concatenate([np.stack([each.parent, each.outcome]) for each in new], axis=1)
        if section.save(state, arrays, added, dropped=() if reached.trail else ("trail",)):
            self._trailed = len(reached.trail)

    def load(self, *, traced: bool) -> Reached | None:
        """Return how far the pass has come; None if nothing is saved.

        Parameters
        ----------
        traced : bool
            Whether the pass records excesses.
        """
        section, walk = self._section, self._walk
        if section is None or not section.state:
            return None
        model, n_ledgers = walk.model, len(walk.ledgers)
        step = section.whole("step", 0, model.horizon)
        flags = {name: bool(section.whole(name, 0, 1)) for name in ("astray", "complete", "done")}
        broken, record = section.state.get("broken"), section.state.get("record")
        if not isinstance(broken, list) or not all(type(r) is int and 0 <= r < n_ledgers for r in broken):
            raise section.damaged("broken", "positions of resources", "others")
        if record is not None:
            _check_record(section, walk, record)
        worst, least = (section.array(name, np.int64, (None, n_ledgers)) for name in ("worst", "least"))
        earned = section.array("earned", np.float64, (None,))
        if len(worst) != len(least) or len(worst) > model.horizon or not np.isfinite(earned).all():
            raise section.damaged("worst", "amounts of each step", "others")
        layer = self._load_layer(section, step, traced=traced)
        trail = self._load_trail(section, layer)
        violated = any((excess > 0).any() for excess in layer.excess) or (
            layer.astray is not None and layer.astray.any()
        )
        if traced and record is None and (violated or not trail):
            raise section.damaged("record", "a history that breaks a limit", "none")
        findings = Findings(
            earned.tolist(), list(map(tuple, worst)), list(map(tuple, least)), set(broken), flags["astray"],
            section.whole("nodes", 0, _MOST), flags["complete"],
        )  # fmt: skip
        self._trailed = len(trail)
        return Reached(layer, findings, trail, record, flags["done"])

    def _load_layer(self, section: Section, step: int, *, traced: bool) -> PolicyLayer:
        walk, n_ledgers = self._walk, len(self._walk.ledgers)
        state = section.array("state", np.int64, (None,)).copy()
        if step:
            walk.monitor.reserve(walk.node_bytes * len(state), f"the nodes after step {step - 1}")
        if not ((state >= 0) & (state <= 2 * walk.ended)).all():
            raise section.damaged("state", "positions of states", "others")
        size = len(state)
        probability = section.array("probability", np.float64, (size,)).copy()
        if not (np.isfinite(probability) & (probability >= 0)).all():
            raise section.damaged("probability", "probabilities", "others")
        high, low = (list(section.array(name, np.int64, (n_ledgers, size)).copy()) for name in ("high", "low"))
        excess = section.array("excess", np.int64, (n_ledgers if traced else 0, size)).copy()
        parent, outcome = section.array("history", np.int64, (2, size)).copy()
        _check_history(section, walk, outcome)
        violated, astray = section.array("flags", np.bool_, (2, size)).copy()
        until = isinstance(walk.policy, UntilViolationPolicy)
        return PolicyLayer(
            step, state, probability, high, low, list(excess), parent, outcome, violated if until else None,
            astray if traced else None,
        )  # fmt: skip

    def _load_trail(self, section: Section, layer: PolicyLayer) -> list[PolicyLayer]:
        """Return the layers from which a history is read backward: positions only, except for the last one."""
        walk = self._walk
        sizes = section.array("sizes", np.int64, (None,))
        if not len(sizes):
            return []
        pieces = section.pieces("trail", np.int64, (2, None))
        parent, outcome = np.concatenate(pieces, axis=1) if pieces else np.empty((2, 0), np.int64)
        ends = np.append(0, np.cumsum(sizes))
        fits = len(sizes) == layer.step + 1 and ((sizes >= 0) & (sizes < _MOST)).all() and sizes[-1] == len(layer)
        if not fits or ends[-1] != len(parent) or sizes[0] != len(walk.model.start_states):
            raise section.damaged("trail", f"the layers of {layer.step + 1} steps", "others")
        _check_history(section, walk, outcome)
        trail = []
        for h, (begin, end) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
            known, before = parent[begin:end], int(sizes[h - 1]) if h else 0
            if h and not ((known >= 0) & (known < before)).all():
                raise section.damaged("trail", f"nodes before step {h}", "others")
            none = np.zeros(end - begin, np.int64)
            trail.append(PolicyLayer(h, none, none.astype(float), [], [], [], known, outcome[begin:end]))
            if 0 < h < layer.step:
                walk.monitor.reserve(walk.node_bytes * (end - begin), f"the nodes after step {h - 1}")
        trail[-1] = layer
        return trail


def _is_narrow(*arrays: NDArray[Any]) -> bool:
    return all(array.dtype == np.int64 for array in arrays)


def _stacked(columns: list[NDArray[Any]], size: int) -> NDArray[np.int64]:
    return np.stack(columns) if columns else np.empty((0, size), np.int64)


def _check_history(section: Section, walk: Walk, outcome: NDArray[np.int64]) -> None:
    if not ((outcome >= NO_OUTCOME) & (outcome < walk.model.n_outcomes)).all():
        raise section.damaged("history", "outcomes", "others")


def _check_record(section: Section, walk: Walk, record: Any) -> None:
    """Refuse a history that is not one of the model."""
    model = walk.model
    try:
        outcomes, first = record["outcomes"], record["first"]
        whole = [*outcomes, first, *record["broken"], record["astray"]]
        fits = all(type(each) is int for each in whole) and 0 <= first < len(model.start_states)
        fits = fits and all(NO_OUTCOME <= each < model.n_outcomes for each in outcomes)
        fits = fits and len(outcomes) <= model.horizon and 0 <= record["astray"] <= 1
        fits = fits and all(0 <= r < len(walk.ledgers) for r in record["broken"])
    except (KeyError, TypeError):
        fits = False
    if not fits:
        raise section.damaged("record", "a history", "something else")


def _content_of(walk: Walk) -> tuple[Any, ...]:
    """Return what determines a pass: the model, the policy, and the ledgers."""
    model = walk.model
    arrays = (
        model.table_of_step, model.row_indptr, model.row_action, model.row_reward, model.outcome_indptr,
        model.probability, model.next_state, model.start_states, model.start_probability, model.end_reward,
        model.may_end,
    )  # fmt: skip
    ledgers = tuple(
        (
            each.name, each.unit, each.high_O, each.low_O, each.upper, each.lower, each.continuous, each.counted,
            each.initial, each.floor, each.ceiling,
        )
        for each in walk.ledgers
    )  # fmt: skip
    return (*arrays, policy_content(walk.policy), ledgers)


def policy_content(policy: Any) -> tuple[Any, ...]:
    """Return what determines the decisions of a policy.

    Raises
    ------
    ModelError
        If it is a function, which a checkpoint cannot compare.
    """
    if isinstance(policy, MarkovPolicy):
        return ("Markov", policy.model.fingerprint, policy.table)
    if not isinstance(policy, NodeTable):
        raise ModelError("checkpoint", "a policy that is not a function, which cannot be compared", "a function")
    limits = policy.limits
    content: list[Any] = [type(policy).__name__, limits.resources, limits.upper, limits.lower, limits.initial]
    for each in fields(policy):
        value = getattr(policy, each.name)
        if isinstance(value, np.ndarray | int | str) or each.name in ("resources", "units", "counting"):
            content.append((each.name, value))
    after = getattr(policy, "after", None)
    return (*content, None if after is None else policy_content(after))
