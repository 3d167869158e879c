"""`demo`: a delivery van, from question to answer."""

from __future__ import annotations

from solvent.cli.session import Session


def demo(session: Session) -> int:
    """Tell a story: a delivery van and its tank."""
    raise NotImplementedError
