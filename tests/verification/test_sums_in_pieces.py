"""Long sums check the time limit between pieces and equal the sum in one piece."""

from __future__ import annotations

import itertools
import math
from unittest import mock

import numpy as np
import pytest

from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.verification import findings


def test_rewards_are_added_up_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "_PIECE", 10)
    values = np.random.default_rng(1).normal(size=35) * 1e10
    monitor = mock.Mock(spec=ResourceMonitor)
    pieces = list(findings._in_pieces(values, monitor))
    assert monitor.check_time.call_count == 4
    assert math.fsum(itertools.chain.from_iterable(pieces)) == math.fsum(values.tolist())
    monitor.check_time.side_effect = [None, LimitReached("time")]
    with pytest.raises(LimitReached):
        list(findings._in_pieces(values, monitor))
