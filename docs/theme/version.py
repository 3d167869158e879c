"""A MkDocs hook: pages show the version of the package."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parents[2] / "src" / "solvent" / "_version.py"


def on_config(config: Any) -> Any:
    """Add the version to the footer."""
    release = runpy.run_path(str(_FILE))["__version__"]
    config.copyright = f"Solvent {release}, MIT licensed."
    return config
