"""UMB archives, the unified binary format of model checkers: read and written through Storm.

Storm writes numbers as floats. As everywhere, a float means its shortest decimal: 0.1 is read back as one tenth, and
a cost such as 1/3, which no float means, is refused.
"""

from __future__ import annotations

from solvent.core.exact import exact, nearest_float
from solvent.errors import ModelError
from solvent.formats.drn import encode as encode_drn
from solvent.formats.programs import ProgramOptions
from solvent.formats.storm import convert_drn, read_program
from solvent.formats.transition_systems import REWARD, TransitionSystem, transition_system
from solvent.model.amounts import short_amount
from solvent.model.cmdp import CMDP
from solvent.model.discounted import AnyModel


def read(content: bytes, options: ProgramOptions) -> CMDP:
    """Return the model of a UMB archive.

    Raises
    ------
    ModelError
        If Storm refuses the archive, or it is neither an MDP nor a DTMC.
    """
    return read_program(content, "umb", options)


def write(model: AnyModel) -> bytes:
    """Return a UMB archive that holds a model.

    Raises
    ------
    ModelError
        If the model is discounted or has continuous costs.
    SolventError
        If stormpy is not installed.
    """
    return encode(transition_system(model))


def encode(system: TransitionSystem) -> bytes:
    """Return a transition system as a UMB archive.

    Raises
    ------
    ModelError
        If a float does not hold a cost exactly.
    """
    for name, column in system.rewards.items():
        for value in dict.fromkeys(column):
            if name != REWARD and exact(nearest_float(value)) != value:
                raise ModelError(
                    f"cost of {name}", "a number that a float holds", short_amount(value), "save it as .drn"
                )
    return convert_drn(encode_drn(system))
