"""The mark of tests that need Storm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from solvent.formats import storm

_skipped_without_storm = pytest.mark.skipif(not storm.has_stormpy(), reason="needs stormpy")


def needs_storm(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that needs Storm."""
    marked: Callable[..., None] = pytest.mark.extras(_skipped_without_storm(test))
    return marked
