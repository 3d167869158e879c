"""Plots of models with several resources, and with none."""

from __future__ import annotations

import pytest

import solvent
from solvent import ModelError
from solvent.plot.panels import spending_panels


def test_one_panel_for_each_limited_resource() -> None:
    model = solvent.instances.partition([3, 1, 2])
    figure = spending_panels(model, solvent.solve(model).policy, episodes=50)
    assert len(figure.axes) == 2
    assert all(name in panel.get_ylabel() for name, panel in zip(model.resources, figure.axes, strict=True))


def test_nothing_to_draw() -> None:
    b = solvent.CMDP.builder(horizon=2, start=0)
    b.add(0, "stay", reward=1, outcomes=[(1, 0)])
    model = b.build()
    with pytest.raises(ModelError, match="spending: expected a model with resources, found a model without"):
        spending_panels(model, solvent.solve(model, {}).policy)
