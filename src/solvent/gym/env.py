"""`ModelEnv`: any CMDP as a Gymnasium environment.

Observations are indices into `model.states`, actions indices into `model.actions`. Rewards are the model's expected
rewards; the first state, next states and costs are sampled. An episode ends in a terminal state or at the horizon. Both
count as `terminated`, since the horizon is part of the problem and not an external time limit. The last step also pays
the reward for ending in its state.
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
from solvent.model.budget import SpentLike, read_spent
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.model.distributions import CostDistribution
from solvent.model.metering import Tape, Tapes

#: Id for `gymnasium.make`, registered when `solvent.gym` is imported.
ENV_ID = "solvent/Model-v0"


class ModelEnv(gymnasium.Env[Any, Any]):
    """A model as a Gymnasium environment.

    Parameters
    ----------
    model : CMDP or path
        The model, or the path of a model file.
    render_mode : {"ansi"}, optional
        With "ansi", `render()` returns a line of text.
    fallback : None, "first", int or function
        What to do with an action that is not available in the state. None raises a `PolicyError`; "first" takes the
        first available action, a number takes that action, and a function of (observation, mask) returns the action to
        take. `info["action"]` is the action taken.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step. Default: nothing.

    Notes
    -----
    After `reset` and every `step`, `info` has "cost" (float: the cost, summed over resources), "costs" (dict of floats
    by resource), "step" (the coming step) and "action_mask" (int8: the available actions). There is no budget; use
    `BudgetWrapper` for that. Costs are those of the model, also where a resource saturates and `spent` changes by less.

    If the model has a goal (`must_end_in`), `info` also has "goal_missed": whether the episode has ended outside it. If
    the model has end rewards, `info` has "end_reward": what the last step was paid for ending in its state, 0 before.
    An episode that ends at `reset`, in a terminal state, has no step that could pay it.

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
    #: Tells `solvent.learn` that episodes follow the model exactly; looked up on this class only, not on subclasses.
    plays_its_model = True

    def __init__(
        self,
        model: CMDP | str | Path | None = None,
        *,
        render_mode: str | None = None,
        fallback: Fallback = None,
        spent: SpentLike | None = None,
    ) -> None:
        read = _read(model)
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ModelError("render_mode", "None or 'ansi'", quote(render_mode))
        self.model = read
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Discrete(read.n_states)
        self.action_space = gymnasium.spaces.Discrete(max(read.n_actions, 1))
        self._fallback = check_fallback(fallback, self.action_space)
        self._begun = False
        self._tapes = Tapes()
        self._accounts = tuple(map(read.resource, read.resources))
        self._initial = tuple(read_spent(read, spent).values())
        self._rewind(int(read.start_states[0]))

    def meters(self, resources: tuple[str, ...]) -> bool:
        """Whether it can record these resources: those of its model."""
        return set(resources) <= set(self.model.resources)

    def attach(self, tape: Tape) -> None:
        """Write the cost of every step on a tape from now on, as long as the tape exists."""
        self._tapes.add(tape)

    def detach(self, tape: Tape) -> None:
        """Write on a tape no longer."""
        self._tapes.remove(tape)

    def _rewind(self, state: int) -> None:
        self._step, self._state, self._last = 0, state, ""
        self._cost = (Fraction(0),) * self.model.n_resources
        self._spent = self._initial

    @property
    def state(self) -> Hashable:
        """Name of the current state."""
        return self.model.states[self._state]

    @property
    def last_cost(self) -> dict[str, Fraction]:
        """Exact cost of the last step, by resource."""
        return dict(zip(self.model.resources, self._cost, strict=True))

    @property
    def spent(self) -> dict[str, Fraction]:
        """Exact amount spent, by resource; with what had been spent before the first step."""
        return dict(zip(self.model.resources, self._spent, strict=True))

    @property
    def initial(self) -> dict[str, Fraction]:
        """Exact amount spent before the first step, by resource."""
        return dict(zip(self.model.resources, self._initial, strict=True))

    @property
    def done(self) -> bool:
        """Whether the episode has ended: at the horizon, or in a terminal state."""
        return self._step >= self.model.horizon or self.model.is_terminal(self._step, self._state)

    @property
    def goal_missed(self) -> bool:
        """Whether the episode has ended in a state in which it must not end."""
        may_end = self.model.may_end
        return may_end is not None and self.done and not may_end[self._state]

    @property
    def _end_reward(self) -> float:
        """What it is worth that the episode has ended; 0 as long as it continues."""
        rewards = self.model.end_reward
        return float(rewards[self._state]) if rewards is not None and self.done else 0.0

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are available, as a new array; all False when the episode has ended."""
        mask: NDArray[np.bool_] = np.zeros(int(self.action_space.n), np.bool_)
        if not self.done:
            rows = self.model.rows(self._step, self._state)
            mask[self.model.row_action[rows.start : rows.stop]] = True
        return mask

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Start an episode; the same seed gives the same episodes."""
        super().reset(seed=seed)
        self._begun = True
        self._rewind(self._first_state())
        return self._state, self._info()

    def _first_state(self) -> int:
        """Return a possible first state, drawn at random if there are several."""
        states, chances = self.model.start_states, np.cumsum(self.model.start_probability)
        drawn = np.searchsorted(chances[:-1], self.np_random.random(), side="right") if len(states) > 1 else 0
        return int(states[drawn])

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take an action and sample its outcome.

        Raises
        ------
        PolicyError
            If there is no episode or it has ended, or if the action is not available and there is no fallback.
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
        pairs = zip(self._accounts, self._spent, self._cost, strict=True)
        self._spent = tuple(account.clamp(amount + cost) for account, amount, cost in pairs)
        self._step, self._state = self._step + 1, int(model.next_state[first + drawn])
        self._tapes.write(lambda tape: {n: cost for n, cost in self.last_cost.items() if n in tape.resources})
        reward = float(model.row_reward[row]) + self._end_reward
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
        ends: dict[str, Any] = {}
        if self.model.may_end is not None:
            ends["goal_missed"] = self.goal_missed
        if self.model.end_reward is not None:
            ends["end_reward"] = self._end_reward
        return {
            "cost": float(sum(self._cost)),
            "costs": costs,
            "step": self._step,
            "action_mask": self.action_masks().astype(np.int8),
            **ends,
        }

    def render(self) -> str | None:
        """Return the step, state and amounts spent as a line of text; None without a render mode.

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
        over = ", over outside the goal" if self.goal_missed else ", over" if self.done else ""
        last = f"; last {self._last}" if self._last else ""
        spent = _listed(" spent ", self.spent)
        return f"step {self._step} of {self.model.horizon}, state {self.state}{spent}{over}{last}"


def _read(model: CMDP | str | Path | None) -> CMDP:
    if model is None:  # not given, which gymnasium.make would report as a TypeError
        hint = f"gymnasium.make({ENV_ID!r}, model=...)"
        raise ModelError("model", "a CMDP, or the path of a model file", "none", hint)
    found: Any = model
    if isinstance(model, str | Path):
        from solvent.formats.files import load_model

        found = load_model(model, discounted=None)
    check_model(found)
    return found  # type: ignore[no-any-return]


def _listed(title: str, amounts: dict[str, Fraction]) -> str:
    listed = ", ".join(f"{name} {short_amount(amount)}" for name, amount in amounts.items())
    return f",{title}{listed}" if listed else ""
