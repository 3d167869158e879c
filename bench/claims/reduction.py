"""`cor: reduction`: three off-the-shelf learners on the augmented MDP.

Tabular Q-learning, MaskablePPO of sb3-contrib, and DQN of Stable-Baselines3 with masks. After training, the greedy
policy is evaluated exactly with `solvent.verify` and compared with the optimum of `solvent.solve`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import solvent
from bench.claims.nodes import Nodes, NodeVecEnv
from solvent import CMDP, instances

#: Titles of the learners.
LEARNERS = {"q": "tabular Q-learning", "ppo": "MaskablePPO", "dqn": "DQN with masks"}
PACKAGES = ("gymnasium", "numba", "numpy", "torch", "stable-baselines3", "sb3-contrib")


def _knapsack() -> CMDP:
    """Return an instance of the paper's experiments with 10 items, with weights rounded down to hundredths."""
    return instances.paper(10, seed=1, budget=2, digits=2)


#: Problems by name, and the number by which rewards are divided for networks.
PROBLEMS: dict[str, tuple[Callable[[], CMDP], float]] = {
    "knapsack": (_knapsack, 1.0),
    "fuel grid": (lambda: instances.fuel_grid(3), 1.0),
    "delivery van": (lambda: solvent.examples.load("delivery-van"), 10.0),
}


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Train, and return the exact value of the greedy policy, and violations in training and of the policy."""
    make, scale = PROBLEMS[job["task"]]
    model = make()
    nodes = Nodes(model, 1.0 if job["method"] == "q" else scale)
    train = {"q": _train_q, "ppo": _train_ppo, "dqn": _train_dqn}[job["method"]]
    actions, episodes, over = train(nodes, job)
    report = solvent.verify(model, nodes.mdp.policy(actions))
    return {
        "value": report.value,
        "optimum": solvent.solve(model).value,
        "feasible": report.feasible,
        "violation_probability": report.violation_probability,
        "training": {"episodes": episodes, "over": over},
        "nodes": nodes.mdp.n_nodes,
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def _train_q(nodes: Nodes, job: dict[str, Any]) -> tuple[NDArray[np.int64], int, int]:
    from bench.claims.q_learning import learn

    return learn(nodes, job["steps"], job["seed"], **job["settings"])


def _train_ppo(nodes: Nodes, job: dict[str, Any]) -> tuple[NDArray[np.int64], int, int]:
    from sb3_contrib import MaskablePPO

    options, vector = _prepare(nodes, job, with_mask=False)
    agent = MaskablePPO("MlpPolicy", vector, seed=job["seed"], device="cpu", **options)
    agent.learn(job["steps"])
    masks = nodes.mask | nodes.ends[:, None]  # where an episode is over, any action
    actions, _ = agent.predict(nodes.features, action_masks=masks, deterministic=True)
    return actions, vector.episodes, vector.over


def _train_dqn(nodes: Nodes, job: dict[str, Any]) -> tuple[NDArray[np.int64], int, int]:
    from bench.claims.masked_dqn import MaskedDQN, MaskedDQNPolicy

    options, vector = _prepare(nodes, job, with_mask=True)
    agent = MaskedDQN(MaskedDQNPolicy, vector, seed=job["seed"], device="cpu", **options)
    agent.learn(job["steps"])
    actions, _ = agent.predict(vector.observations, deterministic=True)
    return actions, vector.episodes, vector.over


def _prepare(nodes: Nodes, job: dict[str, Any], *, with_mask: bool) -> tuple[dict[str, Any], NodeVecEnv]:
    """Return the options, with a learning rate that decreases linearly to 0, and the episodes to learn from."""
    import torch

    torch.set_num_threads(1)
    options = dict(job["settings"])
    rate = options.pop("learning_rate")
    vector = NodeVecEnv(nodes, options.pop("n_envs"), with_mask=with_mask)
    return {**options, "learning_rate": lambda left: rate * left}, vector
