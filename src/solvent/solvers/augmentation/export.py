"""The augmented MDP as a transition system, for model checkers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from solvent.formats.transition_systems import (
    REWARD,
    TransitionSystem,
    Variable,
    exact_float,
    rational_chances,
)
from solvent.model.amounts import format_amount

if TYPE_CHECKING:
    from solvent.solvers.augmentation.mdp import AugmentedMDP


def augmented_system(mdp: AugmentedMDP) -> TransitionSystem:
    """Return the transition system of an augmented MDP: a state for each node, and one before several first nodes.

    A node without rows has one choice: `stay` at the end and at dead ends, `end` at terminal nodes, which leads to the
    end with the reward for ending. In the stationary form, which has no end, terminal nodes stay as well.
    """
    bare = np.flatnonzero(np.diff(mdp.row_indptr) == 0)
    stays = np.isin(bare, mdp.dead_ends) | (bare == mdp.n_nodes - 1) | mdp.stationary
    actions = [*map(str, mdp.model.actions), "stay", "end", "begin"]
    stay, end, begin = (len(actions) - i for i in (3, 2, 1))
    several = len(mdp.start_nodes) > 1
    nodes = np.concatenate([mdp.row_node, bare, [mdp.n_nodes] * several]).astype(np.int64)
    order = np.argsort(nodes, kind="stable")
    action = np.concatenate([mdp.row_action, np.where(stays, stay, end), [begin] * several]).astype(np.int64)
    indptr = mdp.transitions.indptr.tolist()
    after, chance = mdp.transitions.indices.tolist(), mdp.transitions.data.tolist()
    reward, loops = mdp.reward.tolist(), np.where(stays, bare, mdp.n_nodes - 1).tolist()
    ended = np.where(stays, 0.0, mdp.end_reward[bare]).tolist()
    next_state: list[int] = []
    probability: list[Fraction] = []
    rewards: list[Fraction] = []
    lengths: list[int] = []
    for i in order.tolist():
        if i < mdp.n_rows:
            targets, chances = after[indptr[i] : indptr[i + 1]], rational_chances(chance[indptr[i] : indptr[i + 1]])
            rewards.append(exact_float(reward[i]))
        elif i < mdp.n_rows + len(bare):
            targets, chances = [loops[i - mdp.n_rows]], [Fraction(1)]
            rewards.append(exact_float(ended[i - mdp.n_rows]))
        else:
            targets, chances = mdp.start_nodes.tolist(), rational_chances(mdp.start_probability.tolist())
            rewards.append(Fraction(0))
        next_state += targets
        probability += chances
        lengths.append(len(targets))
    n_states = mdp.n_nodes + several
    texts = tuple(_node_text(mdp, i) for i in range(mdp.n_nodes)) + ("before the start",) * several
    labels = {} if mdp.stationary else {"end": np.array([mdp.n_nodes - 1])}
    return TransitionSystem(
        variables=(Variable("node", 0, n_states - 1, texts),),
        valuation_SV=np.arange(n_states)[:, None],
        initial=mdp.n_nodes if several else mdp.start,
        actions=tuple(actions),
        choice_indptr=np.searchsorted(nodes[order], np.arange(n_states + 1)).astype(np.int64),
        choice_action=action[order],
        entry_indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        next_state=np.array(next_state, np.int64),
        probability=probability,
        rewards={REWARD: rewards},
        labels=labels | ({"dead_end": mdp.dead_ends} if len(mdp.dead_ends) else {}),
        notes=_notes(mdp, several=several),
    )


def _node_text(mdp: AugmentedMDP, index: int) -> str:
    if index == mdp.end:
        return "the end"
    node = mdp.node(index)
    amounts = [f"{name} {'settled' if x is None else format_amount(x)}" for name, x in node.spent.items()]
    return ", ".join([*([] if node.step is None else [f"step {node.step}"]), str(node.state), *amounts])


def _notes(mdp: AugmentedMDP, *, several: bool) -> tuple[str, ...]:
    horizon = mdp.model.horizon + several
    query = f"[C<={horizon}]" if mdp.stationary else '[F "end"]'
    notes = [
        f"{mdp.model.name or 'A model'} with the amounts spent in its states, written by Solvent.",
        f'The best expected reward that keeps the budget: R{{"{REWARD}"}}max=? {query}',
    ]
    if not mdp.feasible:
        notes.append("No policy keeps the budget: the initial state leads to dead ends.")
    elif len(mdp.dead_ends):
        notes.append('A policy must not reach the states with the label "dead_end".')
    return tuple(notes)
