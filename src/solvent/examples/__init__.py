"""The example models that are installed with Solvent.

Each is a file in YAML whose first comment says what the model shows. On the command line the name of an example stands
for its file, as in `solvent solve delivery-van`; `solvent examples` lists and copies them.

>>> from solvent import examples
>>> examples.names()[:3]
('campaign', 'cash-line', 'covering')
>>> examples.load("delivery-van")
CMDP('delivery-van': horizon 20, 7 states, 13 actions, 22 rows, 32 outcomes, stationary,
     resources [Resource('fuel', floor=0)])
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from solvent.errors import ModelError, did_you_mean, quote

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP

__all__ = ["load", "names", "path", "summary"]

_FOLDER = Path(__file__).parent
_SUFFIX = ".yaml"


@cache
def names() -> tuple[str, ...]:
    """Return the names of the example models, in alphabetical order.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> names()
    ('campaign', 'cash-line', 'covering', 'delivery-van', 'dose', 'drone', 'reservoir', 'robot')
    """
    return tuple(sorted(file.stem for file in _FOLDER.glob(f"*{_SUFFIX}")))


def path(name: str) -> Path:
    """Return the path of the file of an example model.

    The file is part of the installation. To edit it, make a copy: `solvent examples delivery-van` writes one.

    Parameters
    ----------
    name : str
        One of `names()`.

    Returns
    -------
    Path

    Raises
    ------
    ModelError
        If there is no example of this name.

    Examples
    --------
    >>> path("delivery-van").name
    'delivery-van.yaml'
    """
    if name not in names():
        known = ", ".join(map(quote, names()))
        raise ModelError("example", f"one of {known}", quote(name), did_you_mean(name, names()))
    return _FOLDER / f"{name}{_SUFFIX}"


def load(name: str) -> CMDP:
    """Load an example model.

    Parameters
    ----------
    name : str
        One of `names()`.

    Returns
    -------
    CMDP

    Raises
    ------
    ModelError
        If there is no example of this name.

    Examples
    --------
    >>> load("drone").resources
    ('battery', 'risk')
    """
    from solvent.formats.files import load_model

    return load_model(path(name))


def summary(name: str) -> str:
    """Return the first line of the comment of an example model: what it models, in a few words.

    Parameters
    ----------
    name : str
        One of `names()`.

    Returns
    -------
    str

    Raises
    ------
    ModelError
        If there is no example of this name.

    Examples
    --------
    >>> summary("dose")
    'A drug-dose schedule with a limit on toxicity.'
    """
    with path(name).open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip()
