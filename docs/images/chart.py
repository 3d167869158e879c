"""The flow chart of docs/choosing.md: questions on the left, the function to call on the right."""

from __future__ import annotations

from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from solvent.plot import style

#: Centers of the two columns, and the distance of rows.
LEFT, RIGHT, ROW = 2.25, 8.4, 1.45
#: Widths of the boxes.
ASKS, CALLS = 4.3, 5.6
INK = "#333333"


class Question(NamedTuple):
    """A question, the answer that leads to a call, the call, and its result."""

    text: str
    answer: str
    call: str
    gives: str
    color: str


QUESTIONS = [
    Question(
        "Is the horizon infinite,\nwith a discount?",
        "yes", "solvent.solve(model, epsilon=0.05)", "relaxed; with strict=True it never exceeds the budget",
        style.VERMILLION,
    ),
    Question(
        "Do you want the value of every budget\nof one resource, or of one more unit?",
        "yes", "solvent.frontier(model)", "frontier: the optimum for all budgets", style.BLUE,
    ),
    Question(
        "Are all costs numbers, and is the\nproblem small enough for solve(model)?",
        "yes", "solvent.solve(model)", "exact: the optimum", style.BLUE,
    ),
    Question(
        "May the policy exceed the budget\nby an amount that you choose?",
        "yes", 'approximation="relative", epsilon=0.05', "relaxed: at least the optimum; excess at most epsilon",
        style.VERMILLION,
    ),
    Question(
        "Should the solve continue until it is\nwithin a given gap of the optimum?",
        "yes", "gap=0.01", "certified: within 1% of the optimum", style.GREEN,
    ),
]  # fmt: skip
LAST = Question(
    "",
    "",
    'approximation="relative", epsilon=0.05, strict=True',
    "strict: bounds on the optimum",
    style.GREEN,
)


def chart() -> Any:
    """Return the Axes of the chart."""
    with style.look():
        height = ROW * (len(QUESTIONS) + 1)
        axes = Figure(figsize=(8.4, 0.72 * height), layout="constrained").add_subplot()
        for row, question in enumerate(QUESTIONS):
            y = -ROW * row
            _box(axes, LEFT, y, ASKS, 0.85, "#F4F4F4", style.GRAY)
            axes.text(LEFT, y, question.text, ha="center", va="center", color=INK, linespacing=1.4)
            _call(axes, y, question)
            _arrow(axes, (LEFT + ASKS / 2, y), (RIGHT - CALLS / 2, y), question.answer)
            if row + 1 < len(QUESTIONS):
                _arrow(axes, (LEFT, y - 0.43), (LEFT, y - ROW + 0.43), "no")
        bottom = -ROW * len(QUESTIONS)
        _call(axes, bottom, LAST)
        axes.plot([LEFT, LEFT], [bottom + ROW - 0.43, bottom], color=INK, linewidth=1.1, solid_capstyle="butt")
        _arrow(axes, (LEFT, bottom), (RIGHT - CALLS / 2, bottom), "no")
        axes.set(xlim=(0, RIGHT + CALLS / 2 + 0.1), ylim=(bottom - 0.65, 0.65), aspect="equal")
        axes.axis("off")
    return axes


def _box(axes: Any, x: float, y: float, width: float, height: float, fill: str, edge: str) -> None:
    corner = (x - width / 2, y - height / 2)
    shape = "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, facecolor=fill, edgecolor=edge, linewidth=0.9))


def _call(axes: Any, y: float, question: Question) -> None:
    _box(axes, RIGHT, y, CALLS, 0.85, "#FFFFFF", question.color)
    axes.text(RIGHT, y + 0.17, question.call, ha="center", va="center", family="DejaVu Sans Mono", color=INK)
    axes.text(RIGHT, y - 0.19, question.gives, ha="center", va="center", color=question.color, fontsize=8)


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], label: str) -> None:
    arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 1}
    axes.annotate("", end, start, arrowprops=arrow)
    across = start[1] == end[1]
    x, y = (start[0] + 0.3, start[1] + 0.17) if across else (start[0] + 0.25, (start[1] + end[1]) / 2)
    axes.text(x, y, label, ha="center", va="center", color=style.GRAY, fontsize=8)
