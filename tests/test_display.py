"""What notebooks show of each kind of object: escaped, short, and without computing anything."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest

import solvent
from solvent.model import instances
from solvent.solvers.solution import Solution

HOSTILE = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>"


@cache
def hostile() -> Any:
    """Return a model whose names are all HTML."""
    b = solvent.CMDP.builder(
        horizon=3, start={HOSTILE: 0.5, IMAGE: 0.5}, resources=[IMAGE, "<b>"], budget={IMAGE: 2, "<b>": 1},
        name="<i>model</i>", description="<u>all</u>", end_reward={HOSTILE: 1}, must_end_in=[HOSTILE],
    )  # fmt: skip
    for state in (HOSTILE, IMAGE):
        b.add(state, "</td><script>", reward=1, outcomes=[(1, HOSTILE, {IMAGE: 1, "<b>": 0})])
        b.add(state, "<rest>", outcomes=[(1, HOSTILE, 0)])
    return b.build()


@cache
def one() -> Any:
    b = solvent.CMDP.builder(horizon=2, start=HOSTILE, resources=[IMAGE], budget=1, name="<i>model</i>")
    b.add(HOSTILE, "</td><script>", reward=1, outcomes=[(0.5, HOSTILE, 1), (0.5, IMAGE, 0)])
    b.add(HOSTILE, "<rest>", outcomes=[(1, HOSTILE, 0)])
    b.add(IMAGE, "<rest>", outcomes=[(1, HOSTILE, 0)])
    return b.build()


@cache
def discounted() -> Any:
    b = solvent.CMDP.builder(
        horizon=None, discount="1/2", start=HOSTILE, resources=[IMAGE], budget=3, name="<i>model</i>"
    )
    b.add(HOSTILE, "</td><script>", reward=1, outcomes=[(1, HOSTILE, 2)])
    b.add(HOSTILE, "<rest>", outcomes=[(1, HOSTILE)])
    return b.build()


@cache
def discounted_policy() -> Any:
    return solvent.solve(discounted(), epsilon=0.25).policy


#: Objects by name, and texts that their display has.
ITEMS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "model": (hostile, ["CMDP <i>model</i>", "3 steps", "2: " + HOSTILE, "(0.5)", "must end in", "at most 2"]),
    "discounted model": (discounted, ["DiscountedCMDP", "0.5, without a last step", "0 to 2"]),
    "solution": (lambda: solvent.solve(hostile()), ["Solution optimal · <i>model</i>", "value 3", "at most 2"]),
    "infeasible": (lambda: solvent.solve(one(), {IMAGE: -1}), ["Solution infeasible", "the least feasible budget of"]),
    "policy": (lambda: solvent.solve(one()).policy, ["AugmentedPolicy", "at most 1", HOSTILE, "</td><script>"]),
    "discounted policy": (discounted_policy, ["DiscountedPolicy", "at most 3", "then best reward"]),
    "Markov policy": (lambda: solvent.MarkovPolicy(one(), [[0, 1], [0, 1]]), ["step and state only", "</td><script>"]),
    "randomized policy": (lambda: solvent.baselines.chance(one(), 0.1).policy, ["UntilViolationPolicy", HOSTILE]),
    "curve": (lambda: solvent.frontier(one()), ["Curve <i>model</i>", "least feasible 0", "from 2 on"]),
    "surface": (lambda: solvent.frontier(hostile(), [IMAGE, "<b>"]), ["Surface <i>model</i>", "<b> up to"]),
    "report": (lambda: solvent.verify(one(), solvent.solve(one())), ["never breaks a limit", "<= 1", "nodes"]),
    "violation": (
        lambda: solvent.verify(one(), solvent.MarkovPolicy(one(), [[0, 1], [0, 1]])),
        ["breaks a limit with probability 0.25", "A shortest history breaks the limit", HOSTILE, "2 !"],
    ),
    "discounted report": (lambda: solvent.verify(discounted(), discounted_policy()), ["steps and a tail"]),
    "comparison": (lambda: solvent.compare(one(), methods=["exact", "expectation"]), ["P(over)", "expectation", "no"]),
    "baseline": (lambda: solvent.baselines.expectation(one()), ["expectation: optimal", "at most 1"]),
    "learned": (lambda: solvent.learn(one(), epsilon=0.9), ["LearnResult within gap", "0 over budget"]),
    "simulation": (lambda: solvent.simulate(one(), solvent.solve(one()), 50), ["50 episodes", "0 of 50"]),
    "levels": (lambda: solvent.survival_levels(one(), capacity=4, reload=[HOSTILE]), ["reload states", "least level"]),
    "level policy": (lambda: solvent.survival_levels(one(), capacity=4, reload=[HOSTILE]).policy, ["0 or more"]),
}  # fmt: skip


class Page(HTMLParser):
    """Collects the names of elements and attributes, and the number of elements that are left open."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.depth += tag != "img"

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1


def read(shown: str) -> str:
    """Return the text that a page shows."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", shown)).split())


@pytest.mark.parametrize("name", ITEMS)
def test_displays(name: str) -> None:
    make, texts = ITEMS[name]
    shown = make()._repr_html_()
    found = read(shown)
    for text in texts:
        assert " ".join(text.split()) in found, found
    page = Page()
    page.feed(shown)
    page.close()
    assert page.tags <= {"div", "strong", "table", "tbody", "tr", "td", "th", "img"}
    assert page.attributes <= {"class", "style", "alt", "src"}
    assert page.depth == 0
    assert len(re.sub(r"base64,[^\"]*", "", shown)) < 12_000
    assert not re.search(r"[;\"' ](color|background-color):", shown)  # the page's own colors


def test_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = instances.random(40, 6, horizon=30, cost_range=(0, 9), budget=150, seed=3)
    solution = solvent.solve(model)

    def refuse(self: Solution) -> None:
        raise AssertionError("the policy was made")

    monkeypatch.setattr(Solution, "policy", property(refuse))
    assert "optimal" in solution._repr_html_()
    monkeypatch.undo()
    policy = solution.policy
    began = time.process_time()
    assert "policy.table() has all" in policy._repr_html_()
    assert time.process_time() - began < 5


def test_without_matplotlib_there_are_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = solvent.frontier(instances.knapsack([3, 4], [2, 3]))
    surface = solvent.frontier(hostile(), [IMAGE, "<b>"])
    learned = solvent.learn(instances.markov_gap(), epsilon=0.5)
    for each in (curve, surface, learned):
        assert "<img" in each._repr_html_()
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    for each in (curve, surface, learned):
        assert "<img" not in each._repr_html_()
    assert read(curve._repr_html_()).endswith("budget value 0 0 2 3 3 4 5 7")
    assert "plans" in read(learned._repr_html_())


def test_three_budgets_and_none_that_is_feasible_are_shown_as_tables() -> None:
    model = instances.random(resources=3, cost_range=(0, 2), horizon=3, seed=1)
    surface = solvent.frontier(model, list(model.resources))
    assert "<img" not in surface._repr_html_()
    assert "efficient budgets" in surface._repr_html_()
    b = solvent.CMDP.builder(horizon=1, start="a", resources=["x"])
    b.add("a", "go", outcomes=[(1, "a", 5)])
    infeasible = solvent.frontier(b.build(), max_budget=3)
    assert "none is feasible" in infeasible._repr_html_()


def test_pictures_are_png_files() -> None:
    import base64

    shown = solvent.frontier(instances.knapsack([3, 4], [2, 3]))._repr_html_()
    data = re.search(r'src="data:image/png;base64,([^"]*)"', shown)
    assert data is not None
    assert base64.b64decode(data[1]).startswith(b"\x89PNG")
    assert 'alt="optimal value against the budget of weight"' in shown
