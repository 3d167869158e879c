"""The page: what it says, how it is escaped, and what happens when a part is missing."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import re
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from pages import EVIL, Page, hostile, trips

import solvent
from solvent.report import curves, gather
from solvent.report import page as page_module
from solvent.report.bundle import chart_script
from solvent.report.markup import to_json


@pytest.fixture(autouse=True)
def _short_library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not bundle the charting library, which takes seconds, except for tests of it."""
    if "with_library" not in request.fixturenames:
        monkeypatch.setattr(page_module, "chart_script", lambda: "/* library */")


@pytest.fixture(autouse=True)
def _few_methods(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with methods that take no search, except for tests of the comparison."""
    if "all_methods" not in request.fixturenames:
        monkeypatch.setattr(gather, "METHODS", ("exact", "expectation", "unconstrained"))


@pytest.fixture
def all_methods() -> None:
    """Marks a test that compares with all methods."""


@pytest.fixture
def with_library() -> None:
    """Marks a test that needs the real library."""


def report(solution: solvent.Solution, folder: Path, **options: Any) -> Page:
    path = folder / "page.html"
    solution.report(path, **{"episodes": 200, "trajectories": 2, "time_limit": None, **options})
    return Page.of(path.read_text(encoding="utf-8"))


def test_the_answer_and_its_proof_are_the_computed_figures(tmp_path: Path) -> None:
    model = trips()
    solution = solvent.solve(model)
    checked = solvent.verify(model, solution)
    page = report(solution, tmp_path)
    value = f"{solution.value:.10g}"
    assert "Optimal This plan never exceeds the budget" in page.text
    assert f"expected reward {value} {checked.value:.10g}" in page.text
    assert f"most fuel ever spent (at most 3) {solution.worst_spent['fuel']} {checked.worst_spent['fuel']}" in page.text
    assert "probability of breaking a limit – 0" in page.text
    assert "never exceeds the budget – yes" in page.text
    assert model.fingerprint in page.text
    assert f"Solvent {solvent.__version__}" in page.text
    assert "200, seed 0" in page.text


def test_the_problem_is_stated_with_exact_numbers(tmp_path: Path) -> None:
    page = report(solvent.solve(trips(), spent="1/3"), tmp_path)
    assert "fuel at most 3 -1 to 4/3 1/3 0 none 1/3" in page.text  # limit, costs, unit, floor, ceiling, spent before
    assert "starts in home" in page.text
    assert "There are 4 steps" in page.text


def test_values_of_other_budgets_are_those_of_the_curve(tmp_path: Path) -> None:
    model = trips()
    page = report(solvent.solve(model), tmp_path)
    curve = solvent.frontier(model, "fuel", max_budget=7)
    (shown,) = page.data["curves"]
    assert [each["text"] for each in shown["positions"]][:4] == ["0", "1/3", "2/3", "1"]
    assert shown["positions"][shown["marked"]]["text"] == "3"
    assert shown["positions"][-1]["text"] == "13/3"  # no policy can spend more than 4
    for each in shown["positions"]:
        assert each["value"] == curve.value(each["text"])
        assert each["marginal"] == curve.marginal(each["text"], shown["extra"])
        above = [i for i, budget in enumerate(curve.budgets) if budget > Fraction(each["text"])]
        assert each["rise"] == ([str(curve.budgets[above[0]]), curve.values[above[0]]] if above else None)


def reached(model: solvent.CMDP, policy: Any) -> set[tuple[int, Any, Fraction]]:
    """Return all steps, states and amounts spent to which a policy leads."""
    found = {(0, model.start, Fraction(0))}
    for step in range(model.horizon - 1):
        for _, state, spent in [node for node in found if node[0] == step]:
            action = policy.action(step, state, spent)
            for row in model.rows(step, model.state_index(state)):
                if model.actions[model.row_action[row]] == action:
                    after = {(each.next_state, max(spent + each.cost["fuel"], 0)) for each in model.outcomes(row)}
                    found |= {(step + 1, *node) for node in after}
    return found


def test_plans_of_other_budgets_are_their_policies(tmp_path: Path) -> None:
    model = trips()
    page = report(solvent.solve(model), tmp_path)
    data = page.data
    for each in data["curves"][0]["positions"]:
        policy = solvent.solve(model, budget={"fuel": each["text"]}).policy
        plan = data["plans"][each["plan"]]
        rows = plan["tables"][0]["rows"]
        expected, nodes = policy.table(), reached(model, policy)
        assert len(rows) == len(expected)
        for row, one in zip(rows, expected, strict=True):
            step, state, action, low, high, value = row
            assert (step, data["states"][state], data["actions"][action]) == (one.step, one.state, one.action_text)
            ends = [None if i < 0 else Fraction(data["amounts"][i][0]) for i in (low, high)]
            bottom, top = one.remaining["fuel"]
            left = {Fraction(each["text"]) - spent for at, where, spent in nodes if (at, where) == (step, one.state)}
            inside = {x for x in left if bottom is None or bottom <= x if top is None or x <= top}
            assert inside
            assert ends[0] == bottom
            assert ends[1] == (max(left) if top is None else min(top, max(left)))
            assert value == one.value_text
        (first,) = plan["first"]
        assert data["actions"][first[1]] == policy.action(0, "home", 0)


def test_limits_by_step_are_moved_together(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=3, start="s", resources=["cash"])
    b.add("s", "buy", reward=3, outcomes=[(0.5, "s", {"cash": 2}), (0.5, "s", {"cash": 1})])
    b.add("s", "sell", reward=1, outcomes=[(1, "s", {"cash": -1})])
    model = b.build()
    limits = [3, 4, 2]
    page = report(solvent.solve(model, budget={"cash": solvent.Budget(upper=limits)}), tmp_path)
    (shown,) = page.data["curves"]
    assert shown["moved"]
    assert shown["positions"][shown["marked"]]["text"] == "0"
    feasible = 0
    for each in shown["positions"]:
        moved = [limit + Fraction(each["text"]) for limit in limits]
        solution = solvent.solve(model, budget={"cash": solvent.Budget(upper=moved)})
        assert each["value"] == (solution.value if solution.status.has_policy else None)
        feasible += each["value"] is not None
    assert feasible > 5
    assert shown["positions"][0]["value"] is None  # the search ends at the first infeasible one
    assert "all its upper limits are raised" in shown["note"]


def test_lower_limits_are_moved_down(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=2, start="s", resources=["water"])
    b.add("s", "use", reward=3, outcomes=[(1, "s", {"water": -2})])
    b.add("s", "fill", outcomes=[(1, "s", {"water": 1})])
    page = report(solvent.solve(b.build(), budget={"water": solvent.Budget(lower=-1)}), tmp_path)
    values = {each["text"]: each["value"] for each in page.data["curves"][0]["positions"]}
    assert [values[text] for text in ("0", "+1", "+3")] == [3.0, 3.0, 6.0]
    assert "least water ever spent" in page.text


def test_several_resources_have_a_curve_each(tmp_path: Path) -> None:
    model = solvent.instances.partition([3, 1, 2])
    solution = solvent.solve(model, budget={"left": 4, "right": 5})
    page = report(solution, tmp_path)
    assert [each["resource"] for each in page.data["curves"]] == ["left", "right"]
    for each in page.data["curves"]:
        other = {"left": "right", "right": "left"}[each["resource"]]
        fixed = {"left": 4, "right": 5}[other]
        for place in each["positions"]:
            found = solvent.solve(model, budget={each["resource"]: place["text"], other: fixed})
            assert place["value"] == (found.value if found.status.has_policy else None)
    assert {"curve-resource", "spending-resource", "episode-resource"} <= page.ids()


def test_a_floor_beside_other_limits_is_solved_budget_by_budget(tmp_path: Path) -> None:
    tank = solvent.Resource("fuel", floor=0)
    b = solvent.CMDP.builder(horizon=3, start="s", resources=[tank, "wear"], budget={"fuel": 2, "wear": 3})
    b.add("s", "go", reward=2, outcomes=[(1, "s", {"fuel": 1, "wear": 1})])
    b.add("s", "fill", outcomes=[(1, "s", {"fuel": -1})])
    model = b.build()
    page = report(solvent.solve(model), tmp_path)
    fuel = page.data["curves"][0]
    assert fuel["resource"] == "fuel"
    assert not fuel["moved"]
    assert fuel["positions"][fuel["marked"]]["text"] == "2"
    for each in fuel["positions"]:
        found = solvent.solve(model, budget={"fuel": each["text"], "wear": 3})
        assert each["value"] == (found.value if found.status.has_policy else None)


def test_spending_is_the_exact_worst_case(tmp_path: Path) -> None:
    model = trips()
    solution = solvent.solve(model)
    checked = solvent.verify(model, solution)
    page = report(solution, tmp_path)
    (spec,) = page.data["specs"]["spending"]
    rows = spec["data"]["values"]
    worst = [0.0, *map(float, checked.worst_spent_by_step["fuel"])]
    assert [row["worst"] for row in rows] == worst
    runs = solvent.simulate(model, solution, 200, 0)
    assert [row["q50"] for row in rows[1:]] == runs.quantile("fuel", 0.5).tolist()


def test_other_methods_are_compared(all_methods: None, tmp_path: Path) -> None:
    model = solvent.instances.markov_gap(prize=10)
    page = report(solvent.solve(model), tmp_path)
    found = solvent.compare(model, methods=["expectation", "unconstrained"])
    for row in found.rows:
        assert row.violation_probability is not None
        assert row.value is not None
        assert re.search(rf"{row.method} [a-z ]+ {row.value:.6g} {100 * row.violation_probability:.3g} %", page.text)
    bars = {row["m"]: row["v"] for row in page.data["specs"]["over"]["data"]["values"]}
    assert bars["this plan"] == 0
    assert bars["expectation"] == 0.25


def test_sample_episodes_are_simulated_ones(tmp_path: Path) -> None:
    model = trips()
    solution = solvent.solve(model)
    page = report(solution, tmp_path, seed=3)
    runs = solvent.simulate(model, solution, 200, 3, trajectories=2)
    assert len(page.data["episodes"]) == 2
    for k, episode in enumerate(page.data["episodes"]):
        assert episode["reward"] == pytest.approx(float(runs.rewards[k]))
        assert runs.trajectories is not None
        spent = [amounts[k] for amounts in runs.trajectories.spent["fuel"]]
        assert [Fraction(step["spent"][0]) for step in episode["steps"]] == spent
        assert [Fraction(step["remaining"][0]) for step in episode["steps"]] == [3 - s for s in [0, *spent[:-1]]]


def test_states_of_a_grid_are_a_map(tmp_path: Path) -> None:
    model = solvent.instances.fuel_grid(3)
    page = report(solvent.solve(model), tmp_path, time_limit=5)
    assert (page.data["map"]["width"], page.data["map"]["height"]) == (3, 3)
    east = page.data["actions"].index("east")
    start = page.data["states"].index("(0, 0)")
    assert page.data["map"]["moves"][f"{start},{east}"] == [1.0, 0.0]
    assert "map-chart" in page.ids()


def test_without_a_grid_there_is_no_map(tmp_path: Path) -> None:
    page = report(solvent.solve(trips()), tmp_path)
    assert page.data["map"] is None
    assert "map-chart" not in page.ids()


def test_an_infeasible_problem_says_why(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=2, start="s", resources=["fuel"])
    b.add("s", "go", reward=1, outcomes=[(1, "s", {"fuel": 2})])
    page = report(solvent.solve(b.build(), budget={"fuel": 3}), tmp_path)
    assert "Infeasible No plan keeps this budget" in page.text
    assert "The least feasible budget of fuel is 4." in page.text
    assert "Even the most careful plan can end like this:" in page.text
    assert "4 (broken)" in page.text
    assert not page.data["plans"] or page.data["plans"][0]["first"]
    assert page.data["episodes"] == []
    values = {each["text"]: each["value"] for each in page.data["curves"][0]["positions"]}
    assert values["3"] is None
    assert values["4"] == 2.0


def test_a_solve_that_was_stopped_says_so(tmp_path: Path) -> None:
    model = solvent.instances.paper(40, seed=2, budget=3)
    solution = solvent.solve(model, method="reduction", time_limit=1e-9)
    assert solution.status is solvent.Status.LIMIT
    page = report(solution, tmp_path, time_limit=1e-6)
    assert "Not finished A limit of time or memory was reached" in page.text
    assert "were not computed within the limits" in page.text
    assert "Sample episodes" not in page.text


def test_a_relaxed_policy_is_marked(tmp_path: Path) -> None:
    model = solvent.instances.paper(8, seed=2, budget=3)
    solution = solvent.solve(model, approximation="relative", epsilon=0.2)
    assert solution.status is solvent.Status.RELAXED
    page = report(solution, tmp_path, time_limit=5)
    assert "Relaxed This plan earns at least as much" in page.text
    assert "It can exceed the limits: " in page.text
    assert "never exceeds the budget – no" in page.text
    assert "A shortest history that breaks a limit" in page.text
    assert "rounded " in page.text


def test_the_plan_at_the_own_budget_is_that_of_the_solution(tmp_path: Path) -> None:
    model = solvent.instances.paper(8, seed=2, budget=3)
    solution = solvent.solve(model, approximation="relative", epsilon=0.2)
    page = report(solution, tmp_path, time_limit=5)
    (shown,) = page.data["curves"]
    assert shown["positions"][shown["marked"]]["plan"] == 0
    assert len(page.data["plans"][0]["tables"][0]["rows"]) == len(solution.policy.table())
    assert "The values are exact optima." in page.text


def test_continuous_costs_have_no_curve(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=2, start="s", resources=["fuel"], budget={"fuel": 3})
    b.add("s", "go", reward=1, outcomes=[(1, "s", {"fuel": solvent.distribution("uniform", low=1, high=2)})])
    b.add("s", "rest", outcomes=[(1, "s", 0)])
    page = report(solvent.solve(b.build(), gap=0.1), tmp_path)
    assert "There are no values of other budgets: costs are continuous" in page.text
    assert page.data["curves"] == []
    rows = page.data["plans"][0]["tables"][0]["rows"]
    assert all(row[4] >= 0 and page.data["amounts"][row[4]][1] <= 3 for row in rows)


def test_an_episode_that_begins_in_a_terminal_state_earns_its_end_reward(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(
        horizon=2, start={"done": 0.5, "on": 0.5}, states=["done", "on"], resources=["fuel"], budget=2,
        end_reward={"done": 3, "on": 1},
    )  # fmt: skip
    b.add("on", "go", reward=2, outcomes=[(1, "on", {"fuel": 1})])
    page = report(solvent.solve(b.build()), tmp_path, trajectories=20)
    found = {(len(each["steps"]), each["reward"], each["bonus"]) for each in page.data["episodes"]}
    assert found == {(0, 3.0, 3.0), (2, 5.0, 1.0)}


def test_a_slider_always_reaches_the_own_budget(tmp_path: Path) -> None:
    page = report(solvent.solve(trips()), tmp_path, max_budget=1)
    (shown,) = page.data["curves"]
    assert shown["positions"][shown["marked"]]["text"] == shown["positions"][-1]["text"] == "3"


def ends(page: Page) -> dict[str, str]:
    """Return the last amount of the slider of each resource."""
    return {each["resource"]: each["positions"][-1]["text"] for each in page.data["curves"]}


@pytest.mark.parametrize(("largest", "end"), [(9, "9"), ("10/3", "10/3"), (1, "2"), (None, "8")])
def test_the_slider_of_single_solves_ends_at_the_largest_budget(largest: Any, end: str, tmp_path: Path) -> None:
    tank = solvent.Resource("fuel", floor=0)
    b = solvent.CMDP.builder(horizon=3, start="s", resources=[tank, "wear"], budget={"fuel": 2, "wear": 3})
    b.add("s", "go", reward=2, outcomes=[(1, "s", {"fuel": 1, "wear": 1})])
    b.add("s", "fill", outcomes=[(1, "s", {"fuel": -1})])
    model = b.build()
    page = report(solvent.solve(model), tmp_path, max_budget=None if largest is None else {"fuel": largest})
    assert ends(page)["fuel"] == end
    fuel = page.data["curves"][0]
    values = {Fraction(each["text"]): each["value"] for each in fuel["positions"]}
    for each in fuel["positions"]:
        found = solvent.solve(model, budget={"fuel": each["text"], "wear": 3})
        assert each["value"] == (found.value if found.status.has_policy else None)
        after = values.get(Fraction(each["text"]) + Fraction(fuel["extra"]))
        assert each["marginal"] == (None if after is None or each["value"] is None else after - each["value"])


def test_the_largest_budget_of_limits_on_both_sides(tmp_path: Path) -> None:
    limits = {"fuel": solvent.Budget(upper=3, lower=0)}
    page = report(solvent.solve(trips(), budget=limits), tmp_path, max_budget=4)
    assert ends(page) == {"fuel": "4"}


@pytest.mark.parametrize(("largest", "end"), [(6, "+2"), (2, "0")])
def test_the_largest_budget_of_limits_by_step_is_the_largest_moved_limit(
    largest: int, end: str, tmp_path: Path
) -> None:
    limits = {"fuel": solvent.Budget(upper=[3, 4, 2, 2])}
    page = report(solvent.solve(trips(), budget=limits), tmp_path, max_budget=largest)
    assert ends(page) == {"fuel": end}


def test_the_largest_budget_is_shown_even_if_the_value_no_longer_rises(tmp_path: Path) -> None:
    page = report(solvent.solve(trips()), tmp_path, max_budget=9)
    assert ends(page) == {"fuel": "9"}


def delivery(chance: float, **options: Any) -> solvent.CMDP:
    """Return a model whose goal is missed with some probability, unless the slow action is taken."""
    b = solvent.CMDP.builder(horizon=1, start="dock", resources=["fuel"], budget=5, must_end_in=["bay"], **options)
    b.add("dock", "fast", reward=2, outcomes=[(1 - chance, "bay", 1), (chance, "dock", 1)])
    return b.build()


def test_missing_the_goal_is_not_called_breaking_a_limit(all_methods: None, tmp_path: Path) -> None:
    page = report(solvent.solve(delivery(0.25)), tmp_path)
    assert "expected reward breaks a limit or misses the goal worst fuel" in page.text
    assert "Every policy can end outside the goal, even without any limit." in page.text
    assert "It ends in dock, outside the goal: bay." in page.text
    labels = {attributes.get("aria-label") for _, attributes in page.tags}
    assert "A history that ends outside the goal" in labels
    assert "A history that breaks a limit" not in labels
    assert "must_end_in" not in page.text
    assert "assumes that the episode ends with the step that breaks a limit" in page.text
    assert "none of 0" not in page.text
    assert (
        "no smaller budget was tried, since every policy exceeds the budget itself in expectation, or may end"
        in page.text
    )
    title = page.data["specs"]["over"]["title"]["text"]
    assert title == "How often it breaks a limit or misses the goal"


def test_rows_may_include_amounts_to_which_the_plan_never_leads(tmp_path: Path) -> None:
    page = report(solvent.solve(trips()), tmp_path)
    assert (
        "A row may include amounts to which the plan never leads. There the action still keeps every limit" in page.text
    )
    assert "expected reward breaks a limit worst fuel" in page.text  # there is no goal to miss


def test_lower_limits_have_no_largest_budget(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=2, start="s", resources=["water"])
    b.add("s", "fill", outcomes=[(1, "s", {"water": 1})])
    solution = solvent.solve(b.build(), budget={"water": solvent.Budget(lower=-1)})
    message = "max_budget, water: expected a resource with an upper limit, found only lower limits; leave it out"
    for largest in (3, {"water": 3}):
        with pytest.raises(solvent.ModelError, match=re.escape(message)):
            report(solution, tmp_path, max_budget=largest)


@pytest.mark.parametrize("needed", [600, 601, 900])
def test_a_least_budget_near_the_end_of_the_slider(needed: int, tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=1, start="s", resources=["fuel"], budget=300)
    b.add("s", "go", reward=1, outcomes=[(0.5, "s", {"fuel": needed}), (0.5, "s", {"fuel": needed - 1})])
    page = report(solvent.solve(b.build()), tmp_path)
    values = [each["value"] for shown in page.data["curves"] for each in shown["positions"]]
    assert values == {600: [None, 1.0], 601: [], 900: []}[needed]
    said = (
        "No budget of fuel up to 600 is feasible, so that there is no curve. The least feasible budget is "
        f"{needed}; with max_budget of at least that, it is shown."
    )
    assert (said in page.text) == (needed > 600) == ("budget-slider" not in page.ids())


def test_a_model_that_no_budget_helps_says_so(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=1, start="s", resources=["fuel"], budget=3, must_end_in=["t"], states=["s", "t"])
    b.add("s", "go", reward=1, outcomes=[(1, "s", {"fuel": 1})])
    b.terminal("t")
    page = report(solvent.solve(b.build()), tmp_path)
    assert "No budget of fuel up to 6 is feasible, so that there is no curve." in page.text
    assert "budget-slider" not in page.ids()


def test_limits_by_step_that_no_change_helps_say_so(tmp_path: Path) -> None:
    limits = solvent.Budget(upper=[1, 2])
    b = solvent.CMDP.builder(horizon=2, start="s", resources=["fuel"], budget={"fuel": limits})
    b.add("s", "go", reward=1, outcomes=[(1, "s", {"fuel": 50}), (0, "s", {"fuel": 1})])
    b.add("s", "run", reward=1, outcomes=[(1, "s", {"fuel": 51})])
    page = report(solvent.solve(b.build()), tmp_path)
    assert (
        "Nothing is feasible even if all upper limits of fuel are raised by 6, so that there is no curve. " in page.text
    )
    assert "They are too tight by 98." in page.text
    assert "budget-slider" not in page.ids()


def test_the_other_limits_are_named_if_no_budget_is_feasible(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=1, start="s", resources=["fuel", "time"], budget={"fuel": 9, "time": 1})
    b.add("s", "go", reward=1, outcomes=[(1, "s", {"fuel": 1, "time": 5})])
    page = report(solvent.solve(b.build()), tmp_path)
    assert "fuel: No budget of fuel up to 18 is feasible while the other limits stay as they are" in page.text
    assert (
        "time: No budget of time up to 2 is feasible while the other limits stay as they are, so that there is no "
        "curve. The least feasible budget is 5; with max_budget of at least that, it is shown."
    ) in page.text


@pytest.mark.parametrize("upper", [3, (3, 3, 4, 4)])
def test_the_gain_is_that_of_the_curve_and_is_explained(upper: Any, tmp_path: Path) -> None:
    page = report(solvent.solve(trips(), budget={"fuel": solvent.Budget(upper=upper)}), tmp_path)
    (shown,) = page.data["curves"]
    extra = Fraction(shown["extra"])
    more = f"all limits relaxed by {extra} more" if shown["moved"] else f"{shown['extra']} more budget"
    gain = f"The gain of +{shown['extra']} is the best expected value with {more}, minus that without."
    assert shown["note"].endswith(gain)
    (spec,) = page.data["specs"]["gain"]
    assert spec["layer"][0]["encoding"]["y"]["title"] == f"gain of +{shown['extra']}"
    values = {Fraction(each["text"]): each["value"] for each in shown["positions"]}
    compared = 0
    for each in shown["positions"]:
        after = Fraction(each["text"]) + extra
        if after in values and each["value"] is not None:
            assert each["marginal"] == pytest.approx(values[after] - each["value"], abs=1e-12)
            compared += 1
    assert compared >= 4


def test_a_negative_budget_of_another_method_is_a_refund(all_methods: None, tmp_path: Path) -> None:
    page = report(solvent.solve(solvent.examples.load("robot")), tmp_path, time_limit=30)
    assert "planned for battery at most -120, that is, a refund of at least 120" in page.text


def test_actions_have_the_styles_of_figures(tmp_path: Path) -> None:
    from solvent.plot.action_colors import ActionScale

    b = solvent.CMDP.builder(horizon=2, start="s", resources=["fuel"], budget={"fuel": 40})
    for i in range(20):
        b.add("s", f"go {i}", reward=1 + i, outcomes=[(1, f"t{i}", {"fuel": 1 + 2 * i})])
        b.add(f"t{i}", f"end {i}", reward=1, outcomes=[(1, f"t{i}", {"fuel": 0})])
    model = b.build()
    page = report(solvent.solve(model), tmp_path)
    scale = ActionScale(model.actions, np.arange(model.n_actions)[:20])
    assert len(page.data["styles"]) == len(page.data["actions"]) >= 20
    for name, (color, hatch, line) in zip(page.data["actions"], page.data["styles"], strict=True):
        style = scale.styles.get(model.actions.index(name))
        if style is not None:
            assert (color, hatch, line) == (style.color, style.hatch[:1], style.hatch_color)
    assert {hatch for _, hatch, _ in page.data["styles"]} >= {"", "/", "."}


def test_amounts_end_at_what_can_remain(tmp_path: Path) -> None:
    van = solvent.examples.load("delivery-van")
    solution = solvent.solve(van, budget={"fuel": 12})
    page = report(solution, tmp_path, max_budget=20)
    exact = solvent.verify(van, solution)
    for plan, most in ((page.data["plans"][0], 12), *((p, 20) for p in page.data["plans"][1:])):
        for step, _, _, low, high, _ in plan["tables"][0]["rows"]:
            assert high >= 0, "an amount without an end"
            assert page.data["amounts"][low][1] <= page.data["amounts"][high][1] <= most
            if most == 12 and step == 1:
                assert page.data["amounts"][high][1] <= 12 - exact.least_spent_by_step["fuel"][0]


def test_amounts_end_at_limits_on_the_other_side(tmp_path: Path) -> None:
    page = report(solvent.solve(solvent.examples.load("drone")), tmp_path)
    at = page.data["limited"].index("battery")  # between 0 and 20, and recharging costs less than nothing
    for table in page.data["plans"][0]["tables"]:
        for row in table["rows"]:
            assert row[4 + 2 * at] < 0 or page.data["amounts"][row[4 + 2 * at]][1] <= 20


def test_amounts_of_lower_limits_end_too(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=3, start="s", resources=["cash"], budget={"cash": solvent.Budget(lower=-2)})
    b.add("s", "work", reward=0, outcomes=[(0.5, "s", {"cash": 1}), (0.5, "s", {"cash": 2})])
    b.add("s", "spend", reward=1, outcomes=[(1, "s", {"cash": -1})])
    page = report(solvent.solve(b.build()), tmp_path)
    rows = page.data["plans"][0]["tables"][0]["rows"]
    ends = {(row[0], page.data["amounts"][row[4]][1]) for row in rows if row[4] >= 0}
    assert {(row[0], row[4]) for row in rows if row[4] < 0} == set()
    assert max(end for step, end in ends if step == 0) == 2
    assert max(end for step, end in ends if step == 2) <= 6


@pytest.mark.parametrize("upper", [1, (1, 1, 2, 2)])
@pytest.mark.parametrize(
    "options", [{"gap": 0.1}, {"approximation": "additive", "epsilon": 0.1, "strict": True}], ids=["gap", "strict"]
)
def test_costs_without_a_common_unit_have_no_curve(options: dict[str, Any], upper: Any, tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=4, start="s", resources=["fuel"], budget={"fuel": solvent.Budget(upper=upper)})
    for i, prime in enumerate((1000003, 1000033, 1000037, 1000039)):
        costs = Fraction(i + 1, prime), Fraction(1, 7)
        b.add("s", f"go {i}", reward=i + 1, outcomes=[(0.5, "s", {"fuel": cost}) for cost in costs])
    page = report(solvent.solve(b.build(), **options), tmp_path)
    assert page.data["curves"] == []
    assert page.data["plans"]
    assert "There are no values of other budgets: exact values need a common unit" in page.text


@pytest.mark.parametrize("budget", [20, 1, Fraction(1, 2)])
@pytest.mark.parametrize("unit", [Fraction(10**310), Fraction(1, 10**330)], ids=["large", "small"])
def test_amounts_beyond_floats(unit: Fraction, budget: Any, tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=2, start="s", resources=["fuel"], budget={"fuel": budget * unit})
    b.add("s", "go", reward=1, outcomes=[(1, "s", {"fuel": unit})])
    solution = solvent.solve(b.build())
    page = report(solution, tmp_path)
    assert solution.status.has_policy == (budget == 20) == bool(page.data["episodes"])


def test_a_model_without_limits(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=2, start="s", resources=[])
    b.add("s", "go", reward=1, outcomes=[(1, "s", {})])
    page = report(solvent.solve(b.build()), tmp_path)
    assert "No resource is limited." in page.text
    assert page.data["plans"][0]["tables"][0]["rows"][0][:3] == [0, 0, 0]


def test_several_first_states(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=2, start={"a": 0.25, "b": 0.75}, resources=["fuel"], budget={"fuel": 2})
    for state in "ab":
        b.add(state, f"go {state}", reward=1, outcomes=[(1, state, {"fuel": 1})])
    page = report(solvent.solve(b.build()), tmp_path)
    assert "a (25 %), b (75 %)" in page.text
    assert len(page.data["plans"][0]["first"]) == 2


def test_a_verification_that_was_stopped_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise solvent.LimitError("verify stopped: the time limit was reached")

    monkeypatch.setattr("solvent.report.gather.verify", stopped)
    page = report(solvent.solve(trips()), tmp_path)
    assert "The plan is not verified: verify stopped" in page.text
    assert "shares no code with the solver" not in page.text
    assert "never exceeds the budget – yes" not in page.text


def test_a_failed_verification_is_the_headline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    model = trips()
    real = solvent.verify(model, solvent.solve(model))
    monkeypatch.setattr("solvent.report.gather.verify", lambda *_, **__: replace(real, feasible=False))
    page = report(solvent.solve(model), tmp_path)
    assert "Verification failed" in page.text
    assert "Optimal This plan" not in page.text


def test_large_tables_are_cut_with_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solvent.report.plans.MOST_ROWS", 3)
    monkeypatch.setattr("solvent.report.gather.MOST_ROWS_OF_ALL", 8)
    page = report(solvent.solve(trips()), tmp_path)
    rows = len(solvent.solve(trips()).policy.table())
    assert rows > 3
    assert len(page.data["plans"][0]["tables"][0]["rows"]) == 3
    assert page.data["plans"][0]["note"] == f"the last {rows - 3} of {rows} rows are left out"
    assert re.search(r"Plans of \d+ other budgets are left out, to keep this page small", page.text)


def test_a_long_curve_is_thinned_with_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "_MOST_POSITIONS", 5)
    page = report(solvent.solve(trips()), tmp_path)
    (shown,) = page.data["curves"]
    assert 5 <= len(shown["positions"]) <= 8
    assert re.search(r"The value rises at \d+ budgets; \d+ of them are left out here", shown["note"])
    assert shown["positions"][shown["marked"]]["text"] == "3"


def test_a_policy_of_many_nodes_is_read_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solvent.report.plans._MOST_NODES", 1)
    solution = solvent.solve(trips())
    whole = [(row.step, row.state, row.action_text) for row in solution.policy.table()]
    page = report(solution, tmp_path)
    plan = page.data["plans"][0]
    found = [(row[0], page.data["states"][row[1]], page.data["actions"][row[2]]) for row in plan["tables"][0]["rows"]]
    assert found == whole
    assert "values of rows are left out" in plan["note"]


def test_nothing_of_a_model_becomes_markup(tmp_path: Path) -> None:
    page = report(solvent.solve(hostile()), tmp_path)
    assert not {"img", "svg", "iframe", "link"} & {tag for tag, _ in page.tags}
    assert not [attribute for _, attributes in page.tags for attribute in attributes if attribute.startswith("on")]
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 3
    assert len(page.scripts) == 2
    assert EVIL.format("state") in page.data["states"]
    assert EVIL.format("action") in page.data["actions"]
    assert EVIL.format("resource") in page.data["limited"]
    assert EVIL.format("description") in "".join(page.texts)
    assert "\\u202eback\\u2028" in page.data["actions"]  # text that changes direction is shown as an escape


def test_data_cannot_end_its_script() -> None:
    text = to_json({"a": "</script><!-- & \u2028", "b": [1.5, None]})
    assert "<" not in text
    assert "&" not in text
    assert json.loads(text) == {"a": "</script><!-- & \u2028", "b": [1.5, None]}
    with pytest.raises(ValueError, match="Out of range"):
        to_json({"a": float("nan")})


def test_the_page_may_load_nothing_and_run_only_its_own_scripts(tmp_path: Path) -> None:
    page = report(solvent.solve(trips()), tmp_path)
    (policy,) = [a["content"] or "" for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    for script in page.scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert (attributes.get("href") or "#").startswith("#")


def test_every_control_has_a_label(tmp_path: Path) -> None:
    page = report(solvent.solve(trips()), tmp_path)
    labels = {attributes.get("for") for tag, attributes in page.tags if tag == "label"}
    controls = [a["id"] for tag, a in page.tags if tag in ("select", "input")]
    assert len(controls) >= 4
    assert set(controls) <= labels
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_the_charts_are_valid(all_methods: None, tmp_path: Path) -> None:
    import vl_convert

    specs = report(solvent.solve(solvent.instances.fuel_grid(3)), tmp_path, time_limit=5).data["specs"]
    kinds = [spec for each in specs.values() for spec in (each if isinstance(each, list) else [each]) if spec]
    assert len(kinds) >= 8
    for spec in kinds:
        assert vl_convert.vegalite_to_vega(spec)["marks"]


def test_the_library_is_whole(with_library: None) -> None:
    script = chart_script()
    assert "window.vegaEmbed=" in script
    assert "</script" not in script
    assert 400_000 < len(script) < 2_000_000


def test_a_missing_folder_is_found_before_anything_is_computed(tmp_path: Path) -> None:
    solution = solvent.solve(trips())
    with pytest.raises(solvent.ModelError, match=r"expected a place that can be written, found no folder .*missing"):
        solution.report(tmp_path / "missing" / "page.html")
    with pytest.raises(solvent.ModelError, match="found a folder; add a file name"):
        solution.report(tmp_path)


def test_the_extra_is_named_if_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    message = r'report: expected the package vl-convert-python, found no such package; pip install "solvent\[report\]"'
    with pytest.raises(solvent.SolventError, match=message):
        solvent.solve(trips()).report(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_text("before")

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(solvent.ModelError, match="disk full"):
        report(solvent.solve(trips()), tmp_path)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": 0}, "episodes: expected a whole number of at least 1, found 0"),
        ({"seed": -1}, "seed: expected a whole number of at least 0, found -1"),
        ({"trajectories": 51}, "trajectories: expected a whole number from 0 to 50, found 51"),
        ({"max_budget": {"fule": 3}}, "limited resources ('fuel'), found 'fule'; did you mean 'fuel'?"),
        ({"max_budget": "much"}, "max_budget: expected"),
        ({"time_limit": -1}, "time_limit"),
        ({"delta": 2}, "delta"),
    ],
)  # fmt: skip
def test_invalid_arguments(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(solvent.ModelError, match=re.escape(message)):
        report(solvent.solve(trips()), tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_solution_of_a_discounted_model_is_refused(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=None, discount=0.5, start="s", resources=["fuel"], budget={"fuel": 4})
    b.add("s", "go", reward=1, outcomes=[(1, "s", {"fuel": 1})])
    b.add("s", "rest", outcomes=[(1, "s", 0)])
    model = b.build()
    solution = solvent.solve(model, epsilon=0.5)
    message = (
        "report: expected a solution of a model with a last step, as `solve` returns it, found a solution of a "
        "discounted model; for the first steps, take the solution of solve(model.unrolled(steps)); verify(model, "
        "solution) checks this one"
    )
    with pytest.raises(solvent.ModelError, match=f"^{re.escape(message)}$"):
        solution.report(tmp_path / "page.html")
    assert solvent.verify(model, solution).worst_spent["fuel"] <= 4
    assert "There are 5 steps" in report(solvent.solve(model.unrolled(5)), tmp_path).text


def test_a_copy_of_a_solution_has_the_same_page(tmp_path: Path) -> None:
    solution = solvent.solve(trips())
    first = report(solution, tmp_path).data
    assert report(pickle.loads(pickle.dumps(solution)), tmp_path).data == first


def test_progress_is_reported(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    report(
        solvent.solve(trips()), tmp_path, progress=lambda phase, done, total, facts: seen.append((phase, done, total))
    )
    parts = [done for phase, done, _ in seen if phase == "report"]
    assert parts == sorted(parts)
    assert parts[-1] == 5
    assert "comparing" in {phase for phase, _, _ in seen}
