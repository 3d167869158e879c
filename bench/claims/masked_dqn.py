"""DQN of Stable-Baselines3 with action masks: the last entries of an observation are the mask.

Q-values of masked actions are replaced inside the network. So they are ignored in the greedy action and in the maximum
of the target alike, with the training code of Stable-Baselines3 unchanged. Random actions are drawn from the mask.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork

#: Q-value of a masked action: below any return, and finite, so that it vanishes when multiplied by "not done".
MASKED = -1e9


class MaskedQNetwork(QNetwork):
    """A network of Q-values in which those of masked actions are `MASKED`."""

    def forward(self, obs: Any) -> torch.Tensor:
        """Return Q-values, shape (batch, actions)."""
        mask = obs[:, -int(self.action_space.n) :]
        values: torch.Tensor = super().forward(obs)
        return values.masked_fill(mask < 0.5, MASKED)


class MaskedDQNPolicy(DQNPolicy):
    """The policy of DQN with masked networks, online and target."""

    def make_q_net(self) -> QNetwork:
        """Return a new network."""
        arguments = self._update_features_extractor(self.net_args, features_extractor=None)
        return MaskedQNetwork(**arguments).to(self.device)


class MaskedDQN(DQN):
    """DQN that explores allowed actions only; use it with `MaskedDQNPolicy`."""

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        """Return the greedy actions for a batch of observations, or random allowed ones while exploring."""
        if not deterministic and np.random.rand() < self.exploration_rate:  # noqa: NPY002  # seeded by SB3
            masks = np.asarray(observation)[:, -int(self.action_space.n) :] > 0.5
            return np.array([np.random.choice(np.flatnonzero(mask)) for mask in masks]), state  # noqa: NPY002
        return self.policy.predict(observation, state, episode_start, deterministic)
