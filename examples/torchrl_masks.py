"""TorchRL with a budget that is never exceeded: PPO with a masked categorical distribution.

`layout="pettingzoo"` gives observations with the keys "observation" and "action_mask", which TorchRL reads into
tensors. The policy samples from `MaskedCategorical`, so it never proposes an unsafe action, and the wrapper never
executes one. The model is the delivery van of `solvent.examples`, with its tank of 30.
Requires torchrl (`pip install torchrl`).
"""

from __future__ import annotations

import argparse

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.envs import GymWrapper
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import solvent
import solvent.gym

#: Rewards are divided by this for training.
SCALE = 20.0


class Logits(nn.Module):
    """A network for the logits; it passes the mask on as booleans."""

    def __init__(self, size: int, actions: int) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, actions))

    def forward(self, observation: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.network(observation), mask.bool()


def main(argv: list[str] | None = None) -> solvent.gym.Evaluation:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=40, help="number of batches of 256 steps")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)  # more threads slow down such small networks
    model = solvent.examples.load("delivery-van")
    wrapped = solvent.gym.BudgetWrapper(solvent.gym.ModelEnv(model), layout="pettingzoo")
    env = GymWrapper(wrapped, categorical_action_encoding=True)
    env.set_seed(options.seed)
    size, actions = env.observation_spec["observation"].shape[-1], int(wrapped.action_space.n)
    logits = TensorDictModule(
        Logits(size, actions), in_keys=["observation", "action_mask"], out_keys=["logits", "mask"]
    )
    actor = ProbabilisticActor(
        logits,
        in_keys=["logits", "mask"],
        out_keys=["action"],
        distribution_class=MaskedCategorical,
        return_log_prob=True,
        spec=env.action_spec,
    )
    critic = ValueOperator(nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 1)), in_keys=["observation"])
    advantage, loss = GAE(gamma=1.0, lmbda=0.95, value_network=critic), ClipPPOLoss(actor, critic)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-3)
    for _ in range(options.batches):
        with torch.no_grad():
            batch = env.rollout(256, actor, break_when_any_done=False)
        batch["next", "reward"] /= SCALE
        for _ in range(4):
            advantage(batch)
            terms = loss(batch)
            optimizer.zero_grad()
            sum(value for key, value in terms.items() if key.startswith("loss")).backward()
            optimizer.step()

    def act(observation: dict[str, object]) -> int:
        seen = {key: torch.as_tensor(value) for key, value in observation.items()}
        scores, mask = logits.module(seen["observation"], seen["action_mask"])
        return int(torch.where(mask, scores, -torch.inf).argmax())

    found = solvent.gym.evaluate(wrapped, act, episodes=200, seed=options.seed)
    print(found)
    print(f"violations in training: {wrapped.violations}")
    print(f"Optimal value without exceeding the budget: {solvent.solve(model).value:.3f}")
    return found


if __name__ == "__main__":
    main()
