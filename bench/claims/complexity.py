"""`prop: complexity`: episodes until a learner has proved its accuracy, as D, H, S and A grow one at a time.

The problems have S states in pairs (good, bad), A actions, H steps, and D amounts that may have been spent. An episode
begins with steps without choice, of which log2(D) cost a power of two with probability 1/2, else nothing; the last of
them leads to any of the S states. Then each step taken in a good state earns 1. An action leads to one of two states,
to the good one with probability 3/4 for one action of the state and 1/2 for all others. One more action costs the whole
budget, so it is safe only if nothing was spent. No other action costs anything, so D does not depend on S, A and H.
"""

from __future__ import annotations

import importlib.metadata
from fractions import Fraction
from typing import Any

import solvent
from solvent import CMDP

#: Titles of the learners, and their options.
LEARNERS = {"theory": "BPI-UCBVI by node, as in the paper", "node": "Solvent, by node", "pooled": "Solvent, pooled"}
OPTIONS: dict[str, dict[str, Any]] = {
    "theory": {"pool": False, "bonus": "theory"},
    "node": {"pool": False, "bonus": "practical"},
    "pooled": {"pool": True, "bonus": "practical"},
}
#: Sizes that are the same in a sweep, by its name; "bits" is the number of steps without choice.
BASE = {"S": 2, "A": 2, "H": 4, "D": 2, "1/gamma": 1, "bits": 1}
BASES = {"D": {**BASE, "H": 7, "bits": 4}}
#: Exponents of the bound on the number of episodes, and on the number of nodes and outcomes.
EPISODES = {"D": 1, "H": 3, "S": 1, "A": 1, "1/gamma": 2}
SIZES = {"D": (1, 1), "H": (1, 1), "S": (1, 2), "A": (0, 1)}
#: Most episodes of a run.
MOST = 60_000_000


def family(states: int, actions: int, horizon: int, amounts: int, bits: int) -> CMDP:
    """Return the problem with S = `states`, A = `actions`, H = `horizon` and D = `amounts`, a power of two."""
    budget, half = amounts - 1, Fraction(1, 2)
    b = CMDP.builder(horizon=horizon, start="bit 0", resources=["cost"], budget=budget)
    for bit in range(bits):
        cost = 2**bit if 2**bit < amounts else 0
        if bit < bits - 1:
            next_states = [(Fraction(1), f"bit {bit + 1}")]
        else:
            next_states = [(Fraction(1, states), state) for state in range(states)]
        outcomes = [(half * p, state, c) for p, state in next_states for c in (0, cost)]
        b.add(f"bit {bit}", "go", outcomes=outcomes)
    for state in range(states):
        reward = float(state % 2 == 0)
        for action in range(actions):
            good = Fraction(3, 4) if action == state % actions else half
            pair = (state + 2 * action) % states // 2 * 2
            b.add(state, action, reward=reward, outcomes=[(good, pair, 0), (1 - good, pair + 1, 0)])
        b.add(state, "spend", reward=reward, outcomes=[(1, state - state % 2, budget)])
    return b.build()


def diversity(model: CMDP) -> int:
    """Return the paper's cost diversity: the greatest number of amounts at any step, by its safe exploration."""
    mdp = solvent.augment(model, prune=False)
    seen: dict[int, set[Any]] = {}
    for index in range(mdp.n_nodes):
        node = mdp.node(index)
        if node.step is not None and index != mdp.end:
            seen.setdefault(node.step, set()).add(tuple(node.spent.values()))
    return max(map(len, seen.values()))


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Learn the problem of each level of each sweep until the gap is proved; return episodes, nodes and outcomes."""
    points = [
        {"sweep": name, "level": level, **_learn(level_sizes(name, level), job)}
        for name, levels in job["settings"]["levels"].items()
        for level in levels
    ]
    training = {part: sum(p[part] for p in points) for part in ("episodes", "over")}
    return {"points": points, "training": training, "versions": {"numpy": importlib.metadata.version("numpy")}}


def _learn(sizes: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    model = family(sizes["S"], sizes["A"], sizes["H"], sizes["D"], sizes["bits"])
    mdp = solvent.augment(model, prune=False)
    learned = solvent.learn(
        model, epsilon=1 / sizes["1/gamma"], max_episodes=MOST, seed=job["seed"], **OPTIONS[job["method"]]
    )
    report = solvent.verify(model, learned.policy)
    return {
        "proved": learned.status == "within_gap",
        "episodes": learned.episodes,
        "over": learned.violations,
        "feasible": report.feasible,
        "value": report.value,
        "optimum": solvent.solve(model).value,
        "nodes": mdp.n_nodes,
        "outcomes": int(mdp.transitions.nnz),
        "diversity": diversity(model),
    }


def level_sizes(sweep: str, level: int) -> dict[str, int]:
    """Return the sizes of a problem: those of the base of a sweep, and the level."""
    return {**BASES.get(sweep, BASE), sweep: level}
