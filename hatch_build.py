"""The text that a package index shows: the README, as people read it who install a release there.

Relative links and pictures would lead nowhere on such a page, and there is no Makefile.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

INSTALLATION = "```sh\npip install solvent\nsolvent demo\n```\n\n"


def package_page(readme: str) -> str:
    """Return the README without relative links and pictures, and with the installation of a release."""
    page = re.sub(r"^<!-- repository.*?^<!-- end -->\n", INSTALLATION, readme, flags=re.M | re.S)
    page = re.sub(r"^!\[[^]]*\]\((?!https?:).*\n(?:.+\n)*\n", "", page, flags=re.M)  # a picture and its caption
    page = re.sub(r"\[([^]]+)\]\((?!https?:)[^)]*\)", r"\1", page)
    return re.sub(r'(["`])\.\[', r"\1solvent[", page)


class ReadmeHook(MetadataHookInterface):
    """Sets the field `readme` of the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the text to the metadata of the project."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": package_page(text)}
