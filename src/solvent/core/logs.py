"""Logging: the package logs under the logger "solvent", which is silent until the application configures logging.

Each package has one child logger: "solvent.core" (kernels that are compiled, limits that are reached),
"solvent.verification" (sizes and times), "solvent.solvers", and so on. Reports of progress go to "solvent.progress" if
`progress="log"` is passed. Sizes, times and decisions are logged at level DEBUG; a limit that was reached and progress,
at level INFO.
"""

from __future__ import annotations

import logging

#: Name of the logger of the package.
ROOT = "solvent"

logging.getLogger(ROOT).addHandler(logging.NullHandler())


def get_logger(module: str) -> logging.Logger:
    """Return the logger of a module's package.

    Parameters
    ----------
    module : str
        The module's `__name__`.

    Examples
    --------
    >>> get_logger("solvent.verification.verify").name
    'solvent.verification'
    """
    return logging.getLogger(".".join([ROOT, *module.split(".")[1:2]]))
