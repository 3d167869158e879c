"""DRN files, the explicit format of Storm: read through Storm, written directly."""

from __future__ import annotations

from solvent.errors import printable
from solvent.formats.programs import ProgramOptions
from solvent.formats.storm import read_program
from solvent.formats.transition_systems import TransitionSystem, identifiers, number_text, transition_system
from solvent.model.cmdp import CMDP
from solvent.model.discounted import AnyModel


def read(content: bytes, options: ProgramOptions) -> CMDP:
    """Return the model of a DRN file.

    Raises
    ------
    ModelError
        If Storm refuses the file, or it is neither an MDP nor a DTMC.
    """
    return read_program(content, "drn", options)


def write(model: AnyModel) -> bytes:
    """Return a DRN file that holds a model.

    Raises
    ------
    ModelError
        If the model is discounted or has continuous costs.
    """
    return encode(transition_system(model))


def encode(system: TransitionSystem) -> bytes:
    """Return a transition system as a DRN file."""
    actions, rewards = identifiers(system.actions, ()), identifiers(list(system.rewards), ())
    labels = identifiers(list(system.labels), {"init", "deadlock"})
    labeled: dict[int, list[str]] = {system.initial: ["init"]}
    for name, states in zip(labels, system.labels.values(), strict=True):
        for s in states.tolist():
            labeled.setdefault(s, []).append(name)
    lines = [
        *(f"// {printable(line)}" for line in system.notes),
        "@type: MDP", "@value_type: rational", "@parameters", "", "@reward_models", " ".join(rewards),
        "@nr_states", str(system.n_states), "@nr_choices", str(system.n_choices), "@model",
    ]  # fmt: skip
    zeros = f" [{', '.join('0' for _ in rewards)}]" if rewards else ""
    for s, choices in enumerate(system.choices()):
        lines.append(f"state {s}{zeros}{''.join(f' {name}' for name in labeled.get(s, ()))}")
        lines.append(f"//{printable(system.name_of(s))}")
        for r in choices:
            earned = ", ".join(number_text(column[r]) for column in system.rewards.values())
            lines.append(f"\taction {actions[system.choice_action[r]]}{f' [{earned}]' if rewards else ''}")
            lines += [f"\t\t{t} : {number_text(p)}" for p, t in sorted(system.outcomes(r), key=lambda each: each[1])]
    return ("\n".join(lines) + "\n").encode()
