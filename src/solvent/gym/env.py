"""`ModelEnv`: any CMDP as a Gymnasium environment.

The observation is the position of the state in `model.states`, an action a position in `model.actions`. Rewards are the
model's expected ones; next state and costs are drawn. An episode ends in a terminal state or after the horizon, both
`terminated`: the horizon is a part of the problem, not a limit on top of it.
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import exact
from solvent.errors import ModelError, PolicyError, quote
from solvent.gym.actions import Fallback, allowed, check_fallback, position, replacement
from solvent.model.amounts import short_amount
from solvent.model.cmdp import CMDP, check_model
from solvent.model.distributions import CostDistribution
from solvent.model.metering import Tape

#: What `gymnasium.make` knows it by, once `solvent.gym` was imported.
ENV_ID = "solvent/Model-v0"


class ModelEnv(gymnasium.Env[Any, Any]):
    """A model to act in, one step at a time.

    Parameters
    ----------
    model : CMDP or path
        The model, or a file of one.
    render_mode : {"ansi"}, optional
        `render()` then returns a line of text.
    fallback : None, "first", int or function
        What happens on an action that the state does not offer: None refuses it with a `PolicyError`; "first" takes the
        first that is offered, a number that action, and a function of (observation, mask) chooses one. `info["action"]`
        says what was done.

    Notes
    -----
    `info` has, after `reset` and every `step`: "cost" (float: of the only resource, or the sum over several), "costs"
    (a dict of floats by resource), "step" (the coming one) and "action_mask" (int8: the actions the state offers). It
    knows no budget; `BudgetWrapper` does.

    Examples
    --------
    >>> from solvent.model import instances
    >>> env = ModelEnv(instances.knapsack([60, 100], [10, 20]))
    >>> env.reset(seed=1)
    (0, {'cost': 0.0, 'costs': {'weight': 0.0}, 'step': 0, 'action_mask': array([1, 1], dtype=int8)})
    >>> observation, reward, terminated, truncated, info = env.step(1)
    >>> reward, terminated, info["cost"], env.state
    (60.0, False, 10.0, 'knapsack')
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  # as Gymnasium declares it
    action_space: gymnasium.spaces.Discrete
    #: Tells `solvent.learn` that it may be played as its model; read off this very class, as derived ones may differ.
    plays_its_model = True

    def __init__(self, model: CMDP | str | Path, *, render_mode: str | None = None, fallback: Fallback = None) -> None:
        read = _read(model)
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ModelError("render_mode", "None or 'ansi'", quote(render_mode))
        self.model = read
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Discrete(read.n_states)
        self.action_space = gymnasium.spaces.Discrete(max(read.n_actions, 1))
        self._fallback = check_fallback(fallback, self.action_space)
        self._begun = False
        self._tapes: list[Tape] = []
        self._rewind()

    def meters(self, resources: tuple[str, ...]) -> bool:
        """Whether it measures these resources exactly: those of its model."""
        return set(resources) <= set(self.model.resources)

    def attach(self, tape: Tape) -> None:
        """Write what steps cost on a tape from now on."""
        self._tapes.append(tape)

    def _rewind(self) -> None:
        self._step, self._state, self._last = 0, self.model.start_index, ""
        self._cost = (Fraction(0),) * self.model.n_resources
        self._spent = self._cost

    @property
    def state(self) -> Hashable:
        """Where it is, by name."""
        return self.model.states[self._state]

    @property
    def last_cost(self) -> dict[str, Fraction]:
        """What the last step cost, exactly."""
        return dict(zip(self.model.resources, self._cost, strict=True))

    @property
    def spent(self) -> dict[str, Fraction]:
        """What was spent since the episode began, exactly."""
        return dict(zip(self.model.resources, self._spent, strict=True))

    @property
    def done(self) -> bool:
        """Whether the episode is over: all steps taken, or a terminal state reached."""
        return self._step >= self.model.horizon or self.model.is_terminal(self._step, self._state)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions the state offers; a new array each time, all False when the episode is over."""
        mask: NDArray[np.bool_] = np.zeros(int(self.action_space.n), np.bool_)
        if not self.done:
            rows = self.model.rows(self._step, self._state)
            mask[self.model.row_action[rows.start : rows.stop]] = True
        return mask

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Go back to the start; the same seed gives the same episodes."""
        super().reset(seed=seed)
        self._begun = True
        self._rewind()
        return self._state, self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take an action and draw what comes of it.

        Raises
        ------
        PolicyError
            If the episode is over or was not begun, or the state does not offer the action and there is no fallback.
        """
        where = f"step {self._step}, state {quote(self.state)}"
        if not self._begun or self.done:
            raise PolicyError(where, "reset() first", "an episode that is over" if self._begun else "no episode")
        mask = self.action_masks()
        chosen = position(action, self.action_space, where)
        if not mask[chosen]:
            if self._fallback is None:
                raise PolicyError(where, allowed(mask, self.action_space), quote(int(chosen)))
            chosen = replacement(self._fallback, self._state, mask, self.action_space, where)
        model, rows = self.model, self.model.rows(self._step, self._state)
        row = next(r for r in rows if model.row_action[r] == chosen)
        first, last = int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1])
        chances = np.cumsum(model.probability[first:last])
        drawn = int(np.searchsorted(chances[:-1], self.np_random.random(), side="right"))
        self._cost = tuple(self._draw_cost(d, first + drawn) for d in range(model.n_resources))
        self._spent = tuple(a + b for a, b in zip(self._spent, self._cost, strict=True))
        self._step, self._state = self._step + 1, int(model.next_state[first + drawn])
        for tape in self._tapes:
            tape.write({name: cost for name, cost in self.last_cost.items() if name in tape.resources})
        reward = float(model.row_reward[row])
        self._last = f"{model.actions[chosen]}: reward {reward:g}{_listed(' cost ', self.last_cost)}"
        return self._state, reward, self.done, False, {**self._info(), "action": chosen}

    def _draw_cost(self, resource: int, outcome: int) -> Fraction:
        cost = self.model.cost_of(resource, outcome)
        if not isinstance(cost, CostDistribution):
            return cost
        drawn = min(exact(float(cost.sample(1, self.np_random)[0])), cost.high)
        return drawn if cost.low is None else max(drawn, cost.low)

    def _info(self) -> dict[str, Any]:
        costs = {name: float(cost) for name, cost in self.last_cost.items()}
        return {
            "cost": float(sum(self._cost)),
            "costs": costs,
            "step": self._step,
            "action_mask": self.action_masks().astype(np.int8),
        }

    def render(self) -> str | None:
        """Return where the episode stands as a line of text; None without a render mode.

        Examples
        --------
        >>> from solvent.model import instances
        >>> env = ModelEnv(instances.knapsack([60, 100], [10, 20]), render_mode="ansi")
        >>> _ = env.reset(), env.step(1)
        >>> env.render()
        'step 1 of 2, state knapsack, spent weight 10; last take: reward 60, cost weight 10'
        """
        if self.render_mode is None:
            return None
        over = ", over" if self.done else ""
        last = f"; last {self._last}" if self._last else ""
        spent = _listed(" spent ", self.spent)
        return f"step {self._step} of {self.model.horizon}, state {self.state}{spent}{over}{last}"


def _read(model: CMDP | str | Path) -> CMDP:
    found: Any = model
    if isinstance(model, str | Path):
        from solvent.formats.files import load_model

        found = load_model(model, discounted=None)
    check_model(found)
    return found  # type: ignore[no-any-return]


def _listed(title: str, amounts: dict[str, Fraction]) -> str:
    listed = ", ".join(f"{name} {short_amount(amount)}" for name, amount in amounts.items())
    return f",{title}{listed}" if listed else ""
