"""Explicit files of Storm, which can be written but not read: transitions, labels, and one file per reward structure.

van.tra         a line "state choice next probability" for each transition
van.lab         labels of states
van.fuel.rew    a line "state choice next reward" for each transition of a choice with a reward
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from solvent.errors import ModelError
from solvent.formats.transition_systems import REWARD, TransitionSystem, identifiers, number_text, transition_system
from solvent.model.amounts import short_amount
from solvent.model.discounted import AnyModel


def write_files(model: AnyModel, path: Path) -> dict[Path, bytes]:
    """Return the content of each file that holds a part of a model.

    Raises
    ------
    ModelError
        If the model is discounted or has continuous costs, or a number is negative.
    """
    return encode_files(transition_system(model), path)


def encode_files(system: TransitionSystem, path: Path) -> dict[Path, bytes]:
    """Return a transition system as files; `path` is that of the transitions.

    Raises
    ------
    ModelError
        If a reward or a cost is negative, which Storm does not read in these files.
    """
    names = identifiers(list(system.rewards), ())
    for name, column in system.rewards.items():
        least = min(column)
        if least < 0:
            where = "reward" if name == REWARD else f"cost of {name}"
            expected = "numbers of at least 0, as Storm reads no others in explicit files"
            raise ModelError(where, expected, short_amount(least), "save it as .drn")
    transitions = ["mdp"]
    earned: dict[str, list[str]] = {name: [] for name in names}
    for s, choices in enumerate(system.choices()):
        for i, r in enumerate(choices):
            for p, t in sorted(system.outcomes(r), key=lambda each: each[1]):
                transitions.append(f"{s} {i} {t} {_decimal(p)}")
                for name, column in zip(names, system.rewards.values(), strict=True):
                    if column[r]:
                        earned[name].append(f"{s} {i} {t} {_decimal(column[r])}")
    for lines in earned.values():  # Storm refuses an empty file
        lines += [] if lines else [f"{transitions[1].rpartition(' ')[0]} 0"]
    labels = identifiers(list(system.labels), {"init", "deadlock"})
    labeled: dict[int, list[str]] = {system.initial: ["init"]}
    for name, states in zip(labels, system.labels.values(), strict=True):
        for s in states.tolist():
            labeled.setdefault(s, []).append(name)
    marks = ["#DECLARATION", " ".join(["init", "deadlock", *labels]), "#END"]
    marks += [f"{s} {' '.join(labeled[s])}" for s in sorted(labeled)]
    files = {path: transitions, path.with_suffix(".lab"): marks}
    files |= {path.with_suffix(f".{name}.rew"): lines for name, lines in earned.items()}
    return {each: ("\n".join(lines) + "\n").encode() for each, lines in files.items()}


def _decimal(value: Fraction) -> str:
    """Return a number as a decimal: this format has no fractions."""
    text = number_text(value)
    return repr(float(value)) if "/" in text else text
