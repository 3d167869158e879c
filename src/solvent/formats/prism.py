"""Programs of PRISM: read through Storm, written as one module with a command for each choice."""

from __future__ import annotations

import re

from solvent.errors import printable
from solvent.formats.programs import UNNAMED, ProgramOptions
from solvent.formats.storm import read_program
from solvent.formats.transition_systems import TransitionSystem, identifiers, number_text, transition_system
from solvent.model.cmdp import CMDP
from solvent.model.discounted import AnyModel

_STRUCTURE = re.compile(rb'^[ \t]*rewards\b[ \t]*(?:"([A-Za-z_][A-Za-z_0-9]*)")?', re.MULTILINE)


def read(content: bytes, options: ProgramOptions) -> CMDP:
    """Return the model of a PRISM program.

    Raises
    ------
    ModelError
        If Storm refuses the program, or it is neither an MDP nor a DTMC.
    """
    return read_program(content, "prism", options)


def read_resources(content: bytes) -> list[str]:
    """Return the names of the reward structures of a program, each of which may be a cost.

    Examples
    --------
    >>> read_resources(b'rewards "time" true : 1; endrewards')
    ['time']
    """
    return list(dict.fromkeys((name or UNNAMED.encode()).decode() for name in _STRUCTURE.findall(content)))


def write(model: AnyModel) -> bytes:
    """Return a PRISM program that holds a model.

    Raises
    ------
    ModelError
        If the model is discounted or has continuous costs.
    """
    return encode(transition_system(model))


def encode(system: TransitionSystem) -> bytes:
    """Return a transition system as a PRISM program."""
    names = identifiers([each.name for each in system.variables], _RESERVED)
    actions = identifiers(system.actions, _RESERVED | set(names))
    lines = [*(f"// {printable(line)}" for line in system.notes), "", "mdp", "", "module model"]
    initial = system.valuation_SV[system.initial].tolist()
    for name, variable, first in zip(names, system.variables, initial, strict=True):
        lines.append(f"  {name} : [{variable.low}..{variable.high}] init {first};")
        lines += [f"  //   {value}: {printable(text)}" for value, text in enumerate(variable.texts)]
    guards = [
        " & ".join(f"{name}={value}" for name, value in zip(names, row, strict=True))
        for row in system.valuation_SV.tolist()
    ]
    updates = [
        " & ".join(f"({name}'={value})" for name, value in zip(names, row, strict=True))
        for row in system.valuation_SV.tolist()
    ]
    rewards: dict[str, list[str]] = {name: [] for name in system.rewards}
    for s, choices in enumerate(system.choices()):
        for r in choices:
            label = actions[system.choice_action[r]]
            parts = " + ".join(f"{number_text(p)} : {updates[t]}" for p, t in system.outcomes(r))
            lines.append(f"  [{label}] {guards[s]} -> {parts};")
            for name, column in system.rewards.items():
                if column[r]:
                    rewards[name].append(f"  [{label}] {guards[s]} : {number_text(column[r])};")
    lines += ["endmodule"]
    structures = identifiers(list(rewards), _RESERVED)
    for name, (meant, entries) in zip(structures, rewards.items(), strict=True):
        lines += ["", *([f"// {printable(meant)}"] if meant != name else [])]
        lines += [f'rewards "{name}"', *entries, "endrewards"]
    labels = identifiers(list(system.labels), _RESERVED | {"init", "deadlock"})
    for name, states in zip(labels, system.labels.values(), strict=True):
        where = " | ".join(f"({guards[s]})" for s in states.tolist()) or "false"
        lines += ["", f'label "{name}" = {where};']
    return ("\n".join(lines) + "\n").encode()


#: Words that are not names in PRISM.
_RESERVED = frozenset(
    """
    A bool ceil clamp clock const C ctmc double dtmc E endequiv endinit endinvariant endmodule endobservables endplayer
    endrewards endsystem equiv exp false filter floor formula func F global G init int invariant I label log ma max mdp
    min mod module nondeterministic observable observables of P player Pmax Pmin pomdp popta pow prob probabilistic pta
    R rate rewards Rmax Rmin round S smg stochastic system true U W X
    """.split()  # noqa: SIM905
)
