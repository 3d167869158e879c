"""The command line: parsing only. What it prints is written in `solvent.show`."""

from solvent.cli.app import app, main

__all__ = ["app", "main"]
