"""A CMDP as text in the PRISM language, with counters for the amounts spent.

Variables are the state `s`, one counter `x<d>` for each resource, in ticks, and, on request, the step `h`. Rows with
the same effect relative to their state share one command, as in a model written by hand: on a grid a few dozen commands
suffice for all cells. A command is guarded by its largest cost, so that no limit is ever broken. Counters stop falling
below amounts from which even the largest costs cannot reach a limit.

Model checkers require nonnegative rewards. As every history has H steps, they may be shifted: to gains `r - least` for
a maximum over H steps, or to losses `most - r` for a minimum on the way to the end. The latter also excludes dead ends
exactly, since a policy that may never reach the end has infinite loss.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice

#: The reward and the outcomes of a row, as changes: (probability, move of the state, costs).
Effect = tuple[float, tuple[tuple[float, int, tuple[int, ...]], ...]]


@dataclass(frozen=True)
class Program:
    """A model in PRISM.

    Attributes
    ----------
    text : str
    query : str
        The property to check.
    actions : dict of str to int
        The action of each label of a command; labels of commands that wait are not in it.
    state : ndarray of int
        The state of the model for each value of `s`.
    value : callable
        Turns what the checker finds back into expected reward.
    """

    text: str
    query: str
    actions: dict[str, int]
    state: Any
    value: Any


def write(model: CMDP, lattice: Lattice, *, counts_steps: bool, stops_falling: bool = True) -> Program:
    """Return the program of a problem with constant upper limits, with or without the step among its variables.

    If counters do not stop falling, they hold exactly what was spent; steps must then be counted.
    """
    order = _order(model)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    horizon, upper = model.horizon, lattice.upper_HD[0].tolist()
    cheapest, largest = lattice.cost_OD.min(0).tolist(), lattice.cost_OD.max(0).tolist()
    lows = [min(0, u - horizon * max(0, c)) for u, c in zip(upper, largest, strict=True)]
    if not stops_falling:
        lows = [min(low, horizon * c) for low, c in zip(lows, cheapest, strict=True)]
    most, least = max(0.0, float(model.row_reward.max())), min(0.0, float(model.row_reward.min()))
    lines, shifts, actions = [], [], {}
    running = "h<H & " if counts_steps else ""
    onward = "(h'=h+1)" if counts_steps else ""
    for label, ((action, (reward, outcomes)), where) in _labeled(_alike(model, lattice, place)):
        worst = [max(costs[d] for _, _, costs in outcomes) for d in range(len(upper))]
        affordable = " & ".join(f"x{d}<={u - c}" for d, (u, c) in enumerate(zip(upper, worst, strict=True)))
        updates = " + ".join(f"{p!r}:{_update(move, costs, lows, onward)}" for p, move, costs in outcomes)
        lines.append(f"  [{label}] {running}({_places(where, counts_steps)}) & {affordable} -> {updates};")
        shifts.append(f"  [{label}] true : {most - reward if counts_steps else reward - least!r};")
        actions[label] = action
    over = _places(_over(model, place), counts_steps)
    if over:
        ending = "(h'=H)" if counts_steps else "true"
        lines.append(f"  [over] {running}({over}) -> 1:{ending};")
        shifts.append(f"  [over] true : {f'(H-h)*{most!r}' if counts_steps else repr(-least)};")
    counters = [f"  x{d} : [{low}..{u}] init 0;" for d, (low, u) in enumerate(zip(lows, upper, strict=True))]
    variables = [f"  s : [0..{len(order) - 1}] init {place[model.start_index]};", *counters]
    if counts_steps:
        variables.append("  h : [0..H] init 0;")
    text = [
        "mdp", f"const int H = {horizon};", "module world", *variables, *lines, "endmodule",
        'rewards "shifted"', *shifts, "endrewards",
        *(['label "end" = h=H;'] if counts_steps else []), "",
    ]  # fmt: skip
    if counts_steps:
        return Program(
            "\n".join(text), 'R{"shifted"}min=? [F "end"]', actions, order, lambda found: horizon * most - found
        )
    query = f'R{{"shifted"}}max=? [C<={horizon}]'
    return Program("\n".join(text), query, actions, order, lambda found: horizon * least + found)


def _order(model: CMDP) -> Any:
    """Return the states in the order of their names, so that offsets between grid neighbors are uniform."""
    names = list(model.states)
    try:
        return np.array(sorted(range(len(names)), key=lambda i: names[i]), np.int64)  # type: ignore[arg-type,return-value]
    except TypeError:
        return np.arange(len(names))


def _alike(model: CMDP, lattice: Lattice, place: Any) -> dict[tuple[int, Effect], dict[int, list[int]]]:
    """Return groups of rows with the same effect, as steps and positions of states."""
    alike: dict[tuple[int, Effect], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    cost, after = lattice.cost_OD.tolist(), place[model.next_state].tolist()
    for _, steps in model.steps_of_table():
        for s in range(model.n_states):
            at = int(place[s])
            for row in model.rows(steps[0], s):
                outcomes = tuple(
                    (float(model.probability[o]), after[o] - at, tuple(cost[o]))
                    for o in range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1]))
                )
                key = int(model.row_action[row]), (float(model.row_reward[row]), outcomes)
                for step in steps:
                    alike[key][step].append(at)
    return alike


def _labeled(alike: dict[Any, Any]) -> Iterable[tuple[str, Any]]:
    return ((f"c{i}", item) for i, item in enumerate(alike.items()))


def _over(model: CMDP, place: Any) -> dict[int, list[int]]:
    """Return the terminal states of each step."""
    found: dict[int, list[int]] = defaultdict(list)
    for _, steps in model.steps_of_table():
        at = [int(place[s]) for s in range(model.n_states) if model.is_terminal(steps[0], s)]
        for step in steps if at else []:
            found[step] = at
    return found


def _places(where: dict[int, list[int]], counts_steps: bool) -> str:
    """Return a guard that holds at these steps and states."""
    by_states: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for step, states in where.items():
        by_states[tuple(sorted(states))].append(step)
    parts = []
    for states, steps in by_states.items():
        here = " | ".join(_ranges("s", states))
        parts.append(f"({here}) & ({' | '.join(_ranges('h', sorted(steps)))})" if counts_steps else here)
    return " | ".join(f"({part})" for part in parts)


def _ranges(name: str, numbers: Iterable[int]) -> list[str]:
    """Return conditions for runs of consecutive numbers."""
    runs: list[list[int]] = []
    for x in numbers:
        if runs and runs[-1][1] == x - 1:
            runs[-1][1] = x
        else:
            runs.append([x, x])
    return [f"{name}={a}" if a == b else f"({name}>={a} & {name}<={b})" for a, b in runs]


def _update(move: int, costs: tuple[int, ...], lows: list[int], onward: str) -> str:
    parts = [onward] if onward else []
    if move:
        parts.append(f"(s'=s{move:+d})")
    for d, cost in enumerate(costs):
        if cost:
            after = f"x{d}{cost:+d}"
            parts.append(f"(x{d}'={after})" if cost > 0 else f"(x{d}'=max({lows[d]},{after}))")
    return "&".join(parts) or "true"
