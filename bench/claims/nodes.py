"""The augmented MDP of the paper as something to learn in: many episodes at once, with masks of safe actions.

A node is (step, state, spent), and its actions are those after which the budget holds with certainty. A learner sees
the features of a node, the mask of its actions and rewards; it knows nothing else of the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

import solvent
from solvent import CMDP


class Nodes:
    """The nodes of a problem with one limit and without dead ends, as arrays.

    Parameters
    ----------
    model : CMDP
    scale : float
        Rewards are divided by it.

    Attributes
    ----------
    mdp : AugmentedMDP
        Not pruned: its nodes and actions are those of the paper's definition.
    features : ndarray of float32, shape (N, F)
        The state and the step as unit vectors, and the remaining share of the budget.
    mask : ndarray of bool, shape (N, A)
    ends : ndarray of bool, shape (N,)
        Whether an episode is over in a node.
    over : ndarray of bool, shape (N,)
        Whether more than the budget was spent.
    row : ndarray of int64, shape (N, A)
        The row of each action; -1 if it is not safe.
    reward, row_indptr, next_node, cumulative : ndarray
        Rewards of rows; their outcomes, in the format of compressed rows, with cumulative probabilities.
    """

    def __init__(self, model: CMDP, scale: float = 1.0) -> None:
        self.mdp = solvent.augment(model, prune=False)
        if len(self.mdp.dead_ends):
            raise ValueError(f"{model.name} has dead ends: masks would have to look ahead")
        mdp, count = self.mdp, self.mdp.n_nodes
        (limit,) = model.budget.values()
        nodes = [mdp.node(index) for index in range(count - 1)]
        spent = [next(iter(node.spent.values())) for node in nodes]
        position = {state: i for i, state in enumerate(model.states)}
        self.features = np.zeros((count, model.n_states + model.horizon + 2), np.float32)
        for index, (node, amount) in enumerate(zip(nodes, spent, strict=True)):
            self.features[index, [position[node.state], model.n_states + node.step]] = 1
            self.features[index, -1] = (limit.upper - amount) / limit.upper
        self.over = np.array([amount > limit.upper for amount in spent] + [False])
        self.row = np.full((count, model.n_actions), -1, np.int64)
        self.row[mdp.row_node, mdp.row_action] = np.arange(mdp.n_rows)
        self.mask = self.row >= 0
        self.ends = ~self.mask.any(axis=1)
        self.reward = mdp.reward / scale
        self.row_indptr = mdp.transitions.indptr.astype(np.int64)
        self.next_node = mdp.transitions.indices.astype(np.int64)
        self.cumulative = np.concatenate(
            [
                np.append(np.cumsum(mdp.transitions.data[first : last - 1]), 1.0)
                for first, last in zip(self.row_indptr, self.row_indptr[1:], strict=False)
            ]
        )

    def step(self, nodes: NDArray[np.int64], actions: NDArray[np.int64], draws: NDArray[np.float64]) -> Any:
        """Return the rewards and next nodes of actions, with outcomes by uniform draws.

        Raises
        ------
        ValueError
            If an action is masked.
        """
        rows = self.row[nodes, actions]
        if (rows < 0).any():
            raise ValueError(f"action {actions[np.argmin(rows)]} is not safe in node {nodes[np.argmin(rows)]}")
        place = self.row_indptr[rows]
        while (behind := draws >= self.cumulative[place]).any():  # the last cumulative probability of a row is 1
            place = place + behind
        return self.reward[rows], self.next_node[place]


class NodeVecEnv(VecEnv):
    """Episodes in the augmented MDP, several at a time, for Stable-Baselines3.

    Parameters
    ----------
    nodes : Nodes
    n_envs : int
    with_mask : bool
        Whether observations end with the mask.

    Attributes
    ----------
    observations : ndarray of float32, shape (N, F)
        The observation of each node.
    episodes, over : int
        Number of episodes that have ended, and of those in which a node over budget was visited.
    """

    def __init__(self, nodes: Nodes, n_envs: int, *, with_mask: bool) -> None:
        self._nodes, self._with_mask = nodes, with_mask
        self.observations = np.concatenate([nodes.features, nodes.mask], axis=1) if with_mask else nodes.features
        self.observations = self.observations.astype(np.float32)
        space = gymnasium.spaces.Box(0.0, np.inf, self.observations.shape[1:], np.float32)
        super().__init__(n_envs, space, gymnasium.spaces.Discrete(nodes.mask.shape[1]))
        self._rng = np.random.default_rng()
        self._now = self._begin(n_envs)
        self._was_over = np.zeros(n_envs, bool)
        self._chosen: NDArray[np.int64] = np.zeros(n_envs, np.int64)
        self.episodes = self.over = 0

    def _begin(self, count: int) -> NDArray[np.int64]:
        mdp = self._nodes.mdp
        return self._rng.choice(mdp.start_nodes, count, p=mdp.start_probability)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Set the seed of all episodes to come."""
        self._rng = np.random.default_rng(seed)
        return [seed] * self.num_envs

    def reset(self) -> Any:
        """Start all episodes again."""
        self._now, self._was_over = self._begin(self.num_envs), np.zeros(self.num_envs, bool)
        return self.observations[self._now]

    def step_async(self, actions: Any) -> None:
        """Keep the actions for `step_wait`."""
        self._chosen = np.asarray(actions, np.int64)

    def step_wait(self) -> Any:
        """Take a step in each episode; those that end are started again."""
        reward, after = self._nodes.step(self._now, self._chosen, self._rng.random(self.num_envs))
        done = self._nodes.ends[after]
        self._was_over |= self._nodes.over[after]
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for place in np.flatnonzero(done):
            infos[place] = {"terminal_observation": self.observations[after[place]], "TimeLimit.truncated": False}
        self.episodes += int(done.sum())
        self.over += int((done & self._was_over).sum())
        self._now = np.where(done, self._begin(self.num_envs), after)
        self._was_over &= ~done
        return self.observations[self._now], reward.astype(np.float32), done, infos

    def action_masks(self) -> list[NDArray[np.bool_]]:
        """Return the masks of all episodes."""
        return list(self._nodes.mask[self._now])

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **options: Any) -> list[Any]:
        """Return the result of a method for each episode; only `action_masks` is there."""
        if method_name != "action_masks":
            raise AttributeError(method_name)
        return self.action_masks()

    def has_attr(self, attr_name: str) -> bool:
        """Return whether episodes have an attribute, or method, of this name."""
        return attr_name == "action_masks"

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of each episode."""
        if attr_name not in ("action_masks", "render_mode"):
            raise AttributeError(attr_name)
        return [self.action_masks if attr_name == "action_masks" else None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: there is nothing to set."""
        raise AttributeError(attr_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return that no episode is wrapped."""
        return [False] * self.num_envs

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
