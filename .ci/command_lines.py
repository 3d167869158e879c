r"""Command lines in the pages of the documentation.

A block of `sh`, `shell` or `console` has a command in each line, possibly with a remark after two spaces and a `#`.
"""

from __future__ import annotations

import re

_BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.M | re.S)
_SHELLS = ("sh", "shell", "console")


def _commands(block: str) -> list[tuple[str, str]]:
    """Return the command lines of a block, each with its remark."""
    parts = (line.strip().partition("  #") for line in block.splitlines() if line.strip())
    return [(command.strip(), remark) for command, _, remark in parts]


def first_commands(page: str) -> list[str]:
    r"""Return the command lines of the first block of a page.

    Examples
    --------
    >>> first_commands("Type:\n```sh\nmake demo  # a minute\nmake test\n```\n```sh\npip install .\n```\n")
    ['make demo', 'make test']
    """
    found = _BLOCK.search(page)
    if found is None or found[1] not in _SHELLS:
        raise SystemExit("expected a page whose first block of code has command lines, found none")
    return [command for command, _ in _commands(found[2])]


def commands(page: str) -> list[tuple[str, int]]:
    r"""Return all command lines of a page, each with the exit code that its remark states.

    Examples
    --------
    >>> commands("```sh\npip install .\nsolvent demo  # a remark\nsolvent verify a b  # ends with 1\n```\n")
    [('pip install .', 0), ('solvent demo', 0), ('solvent verify a b', 1)]
    """
    found = []
    for language, block in _BLOCK.findall(page):
        if language in _SHELLS:
            for command, remark in _commands(block):
                code = re.search(r"ends with (\d+)", remark)
                found.append((command, int(code[1]) if code else 0))
    return found
