"""Names of states: every observation of a discrete space has one of the names that are listed."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium import spaces

from solvent.errors import ModelError
from solvent.model.spaces import finite_states, state_reader

PAIR = spaces.Dict({"b": spaces.Discrete(3, start=2), "a": spaces.MultiDiscrete([2, 3])})


@pytest.mark.parametrize(
    "space", [spaces.Discrete(4, start=-1), spaces.MultiBinary([2, 2]), PAIR, spaces.Tuple([PAIR, spaces.Discrete(2)])]
)
def test_observations_have_names_that_are_listed(space: Any) -> None:
    read, states = state_reader(space), finite_states(space)
    assert read is not None
    space.seed(1)
    seen = {read(space.sample()) for _ in range(2000)}
    assert seen == set(states)
    assert len(states) == len(seen)


@pytest.mark.parametrize("space", [spaces.Box(0, 1), spaces.Dict(x=spaces.Box(0, 1), y=spaces.Discrete(2)), None])
def test_other_spaces_have_none(space: Any) -> None:
    assert state_reader(space) is None
    with pytest.raises(ModelError, match="environment, observation_space: expected a Discrete space"):
        finite_states(space)
