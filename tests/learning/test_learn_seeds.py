"""`learn_seeds`: the results of `learn`, in the order of the seeds, and messages that say which run failed."""

from __future__ import annotations

import re

import numpy as np
import pytest
from walker import Walker

import solvent
from solvent.errors import ModelError
from solvent.model import instances

MODEL = instances.markov_gap()


def same(one: solvent.LearnResult, other: solvent.LearnResult) -> None:
    assert (one.status, one.value_lower, one.value_upper, one.history) == (
        other.status, other.value_lower, other.value_upper, other.history,
    )  # fmt: skip
    np.testing.assert_array_equal(one.returns, other.returns)
    assert one.policy == other.policy


def test_results_are_those_of_learn() -> None:
    calls: list[tuple[int, int]] = []
    found = solvent.learn_seeds(
        MODEL, [3, 1, 4], epsilon=0.3, progress=lambda phase, done, total, facts: calls.append((done, total))
    )
    for seed, result in zip([3, 1, 4], found, strict=True):
        same(result, solvent.learn(MODEL, epsilon=0.3, seed=seed))
    assert calls[-1] == (3, 3)
    assert solvent.learn_seeds(MODEL, []) == []
    same(found[0], solvent.learn_seeds(MODEL, np.arange(3, 4), epsilon=0.3)[0])


def test_environments_are_made_for_each_seed() -> None:
    world = instances.random(3, 2, horizon=4, cost_range=(0, 2), budget=8, seed=1)
    made: list[Walker] = []

    def make() -> Walker:
        made.append(Walker(world))
        return made[-1]

    options = {"support": world, "max_episodes": 20}
    found = solvent.learn_seeds(make, range(2), 4, 8, **options)
    assert len({id(env) for env in made}) == 2
    for seed, result in enumerate(found):
        same(result, solvent.learn(Walker(world), 4, 8, seed=seed, **options))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((MODEL, 3), {}, "seeds: expected several integers, such as range(10), found 3"),
        ((MODEL, [0, -1]), {}, "seeds[1]: expected a whole number of at least 0, found -1"),
        ((7, [0]), {}, "env: expected a CMDP, or a function that makes an environment, found 7"),
        ((MODEL, [0]), {"seed": 1}, "seed: expected an argument that all runs can share, found 1"),
        ((MODEL, [0]), {"checkpoint": "c"}, "checkpoint: expected an argument that all runs can share, found 'c'"),
        ((MODEL, [0]), {"jobs": 0}, "jobs: expected an integer of at least 1, found 0"),
        ((MODEL, [5]), {"epsilon": -1}, "seeds[0]: epsilon: expected"),
    ],
)
def test_messages(arguments: tuple, options: dict, message: str) -> None:
    with pytest.raises(ModelError, match="^" + re.escape(message)):
        solvent.learn_seeds(*arguments, **options)


def test_unknown_arguments_are_refused_before_the_first_run() -> None:
    with pytest.raises(TypeError, match="epsilom"):
        solvent.learn_seeds(MODEL, [0], epsilom=1)


def test_errors_of_environments_say_which_run() -> None:
    def make() -> Walker:
        raise RuntimeError("no license")

    with pytest.raises(RuntimeError, match="no license") as caught:
        solvent.learn_seeds(make, [3], 4, 8)
    assert caught.value.__notes__ == ["in seeds[0]"]
