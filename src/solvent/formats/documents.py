"""A model as a document: the mapping of fields that YAML and JSON files hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from solvent.core.loading import check_limit, check_time
from solvent.errors import ModelError, did_you_mean, quote
from solvent.formats.accounts import REWARD, encode_by_state, encode_resource, encode_start
from solvent.formats.encoding import encode_budget, encode_cost, encode_name, encode_number
from solvent.formats.schema import ModelFile, check_document, choose_document_reader
from solvent.model.budget import Budget
from solvent.model.build import Builder
from solvent.model.cmdp import CMDP
from solvent.model.discounted import AnyModel, DiscountedCMDP, read_discount, refuse_ends
from solvent.model.discounted_build import DiscountedBuilder
from solvent.model.ends import first_states


def from_document(data: Any) -> AnyModel:
    """Return the model that a document describes.

    Raises
    ------
    ModelError
        If the document is not a valid model. The error names the field, or the state and the action.
    """
    return choose_document_reader(data, READERS)(data)


def _from_document_1(data: Any) -> AnyModel:
    """Return the model that a document of format 1 describes."""
    file = check_document(data)
    check_limit("resources", len(file.resources), "resources", "resources")
    resources = [each.name for each in file.resources]
    if len(set(resources)) != len(resources):
        raise ModelError("resources", "each name once", quote(resources))
    options: dict[str, Any] = {key: getattr(file, key) for key in ("start", "resources", "states", "actions")}
    options |= {"name": file.name, "description": file.description}
    options["budget"] = None if file.budget is None else _name_budgets(file.budget, resources)
    discount = read_discount(file.horizon, file.discount)
    builder: Builder | DiscountedBuilder
    if discount is not None:
        refuse_ends(file.end_reward, file.must_end_in)
        builder = DiscountedBuilder(discount=discount, **options)
    else:
        assert file.horizon is not None
        # any set of states, also an empty one: a model from a function may not reach its goals
        goals = None if file.must_end_in is None else frozenset(file.must_end_in).__contains__
        builder = Builder(horizon=file.horizon, end_reward=file.end_reward, must_end_in=goals, **options)
    _refuse_unknown_states(file)
    for entry in file.terminal:
        builder.terminal(entry.state, steps=entry.steps)
    for i, row in enumerate(file.rows):
        if not i % 256:
            check_time()
        builder.add(
            row.state,
            row.action,
            reward=row.reward,
            steps=row.steps,
            outcomes=[(o.probability, o.next, o.cost, o.reward) for o in row.outcomes],
        )
    return builder.build()


#: Readers by format version.
READERS: dict[int, Callable[[Any], AnyModel]] = {1: _from_document_1}


def _name_budgets(budgets: Mapping[str | None, Budget], resources: list[str]) -> dict[str, Budget]:
    """Return budgets by resource; the key None stands for the only resource."""
    if None in budgets and len(resources) != 1:
        names = ", ".join(map(quote, resources)) or "none"
        raise ModelError("budget", f"a limit for each resource ({names}) by name", "a single limit")
    return {resources[0] if name is None else name: budget for name, budget in budgets.items()}


def _refuse_unknown_states(file: ModelFile) -> None:
    """Refuse names of states that are not in the list of states: they may be spelling mistakes.

    Without such a list, a state has rows or is declared terminal. The builder compares the names in rows with the list.
    """
    named = [("end_reward", state) for state in file.end_reward or ()]
    named += [(f"must_end_in[{i}]", state) for i, state in enumerate(file.must_end_in or ())]
    if file.states is not None:
        known, expected = set(file.states), "one of the states"
    else:
        known = {row.state for row in file.rows} | {entry.state for entry in file.terminal}
        expected = "a state that has rows, or one listed under terminal"
        named = [("start", state) for state in first_states(file.start)] + named
        named += [
            (f"rows[{i}].outcomes[{j}].next", outcome.next)
            for i, row in enumerate(file.rows)
            for j, outcome in enumerate(row.outcomes)
        ]
    for where, state in named:
        if state not in known:
            hint = did_you_mean(state, known)
            if isinstance(state, str) and any(not isinstance(name, str) and str(name) == state for name in known):
                hint = f"{quote(state)} is text; in a mapping, names that are numbers become text: write a list instead"
            raise ModelError(where, expected, f"unknown state {quote(state)}", hint)


def to_document(model: AnyModel) -> dict[str, Any]:
    """Return the document that describes a model."""
    if isinstance(model, DiscountedCMDP):
        one_step = list(to_document(model.base).items())
        at = [key for key, _ in one_step].index("horizon")
        discount = ("discount", encode_number(model.discount))
        return dict([*one_step[:at], ("horizon", None), discount, *one_step[at + 1 :]])
    states = [encode_name(name, "state") for name in model.states]
    actions = [encode_name(name, "action") for name in model.actions]
    entries: dict[str, Any] = {"solvent": 1}
    entries |= {key: getattr(model, key) for key in ("name", "description") if getattr(model, key)}
    entries |= {"horizon": model.horizon, "start": encode_start(model.start)}
    resources = [encode_resource(model.resource(name)) for name in model.resources]
    entries |= {"resources": resources, "states": states, "actions": actions}
    terminal = _terminal_entries(model, states)
    if terminal:
        entries["terminal"] = terminal
    if model.end_reward is not None:
        worth = {model.states[s]: float(model.end_reward[s]) for s in np.flatnonzero(model.end_reward).tolist()}
        entries["end_reward"] = encode_by_state(worth, REWARD)
    if model.may_end is not None:
        entries["must_end_in"] = [states[s] for s in np.flatnonzero(model.may_end).tolist()]
    if model.budget is not None:
        entries["budget"] = {name: encode_budget(budget) for name, budget in model.budget.items()}
    merged: dict[tuple[int, str], tuple[dict[str, Any], list[int]]] = {}
    for _, steps in model.steps_of_table():
        for state in range(model.n_states):
            for row in model.rows(steps[0], state):
                entry = {"state": states[state], "action": actions[model.row_action[row]]}
                entry |= {
                    "reward": encode_number(float(model.row_reward[row])),
                    "outcomes": _outcomes(model, row, states),
                }
                key = (state, json.dumps(entry))
                merged.setdefault(key, (entry, []))[1].extend(steps)
    order = {json.dumps(name): i for i, name in enumerate(actions)}
    rows = sorted(merged.items(), key=lambda item: (item[0][0], order[json.dumps(item[1][0]["action"])]))
    entries["rows"] = [_with_steps(entry, steps, model.horizon) for _, (entry, steps) in rows]
    return entries


def _terminal_entries(model: CMDP, states: list[Any]) -> list[Any]:
    entries: list[Any] = []
    empty = np.diff(model.row_indptr).reshape(model.n_tables, model.n_states) == 0
    for state in np.flatnonzero(empty.any(0)).tolist():
        name, ends = states[state], np.flatnonzero(empty[model.table_of_step, state]).tolist()
        if len(ends) == model.horizon:
            entries.append(name)
        else:
            entries.append({"state": name, "steps": _runs(ends)})
    return entries


def _with_steps(entry: dict[str, Any], steps: list[int], horizon: int) -> dict[str, Any]:
    if len(steps) == horizon:
        return entry
    return {**entry, "steps": _runs(sorted(steps))}


def _runs(steps: list[int]) -> list[int | str]:
    """Return steps as a list in which three or more consecutive steps are a range such as "4-9"."""
    result: list[int | str] = []
    first = 0
    for i in range(1, len(steps) + 1):
        if i == len(steps) or steps[i] != steps[i - 1] + 1:
            run = steps[first:i]
            result.extend([f"{run[0]}-{run[-1]}"] if len(run) > 2 else run)
            first = i
    return result


def _outcomes(model: CMDP, row: int, states: list[Any]) -> list[dict[str, Any]]:
    by_list = "distribution" in model.resources
    result = []
    for o in range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1])):
        entry = {"probability": encode_number(float(model.probability[o])), "next": states[model.next_state[o]]}
        costs = {name: encode_cost(model.cost_of(d, o)) for d, name in enumerate(model.resources)}
        if by_list:
            entry["cost"] = list(costs.values())
        elif any(cost != 0 for cost in costs.values()):
            entry["cost"] = {name: cost for name, cost in costs.items() if cost != 0}
        result.append(entry)
    return result
