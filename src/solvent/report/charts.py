"""Charts of the page, as Vega-Lite specifications.

Fields have fixed names, and names of a model are values of them, or titles: they are never read as expressions. Colors
are variables of the style sheet, so that charts follow it into the dark and onto paper. Data sets that the page fills
in are empty here: "marker" (the chosen budget), "cells" (a plan), "path" (an episode).
"""

from __future__ import annotations

from typing import Any

from solvent.report.curves import BudgetValues
from solvent.report.markup import shown
from solvent.report.numbers import as_float, finite
from solvent.verification.report import PerStep, VerifyReport
from solvent.verification.simulate import Simulation

Spec = dict[str, Any]

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
#: Lower quantile, upper quantile and opacity of each band.
_BANDS = ((0.05, 0.95, 0.28), (0.25, 0.75, 0.5))
#: Width of a map on a phone, in pixels, and the columns of the widest map whose cells have names.
_NARROWEST_MAP, _MOST_LABELED = 340, 8
_CONFIG: Spec = {
    "background": "transparent",
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--soft)", "titleColor": "var(--ink)", "tickColor": "var(--line)",
        "domainColor": "var(--line)", "gridColor": "var(--line)", "gridOpacity": 0.6, "labelFontSize": 12,
        "titleFontSize": 12, "titleFontWeight": 500, "titlePadding": 8, "titleLimit": 400, "labelLimit": 180,
    },
    "axisX": {"grid": False},
    "axisY": {"domain": False, "ticks": False, "minExtent": 46, "titleLimit": 200},
    "text": {"color": "var(--ink)", "font": _FONT},
    "title": {"color": "var(--ink)"},
}  # fmt: skip


def _chart(description: str, height: int, **parts: Any) -> Spec:
    return {
        "$schema": _SCHEMA, "description": description, "width": "container", "height": height,
        "autosize": {"type": "fit", "contains": "padding"}, "config": _CONFIG, **parts,
    }  # fmt: skip


def _number(field: str, title: str | None, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, **more}


def value_chart(values: BudgetValues) -> Spec:
    """Return the value against the budget, with a movable mark and the budget of the solution."""
    known = [each for each in values.positions if finite(each.value) is not None]
    rows = [{"x": as_float(each.amount), "v": finite(each.value)} for each in known]
    ends = [as_float(values.positions[place].amount) for place in (0, -1)]
    here = as_float(values.positions[values.marked].amount)
    x = _number("x", values.axis, scale={"domain": ends, "nice": False, "zero": False}, axis={"tickCount": 8})
    heights = [row["v"] for row in rows if row["v"] is not None] or [0.0]
    spread = [min(heights), max(heights)] if min(heights) < max(heights) else [heights[0] - 1, heights[0] + 1]
    y = _number(
        "v", "best expected value", scale={"zero": False, "domain": spread, "nice": True}, axis={"tickCount": 5}
    )
    first = rows[0]["x"] if rows else ends[1]
    layers: list[Spec] = []
    if first != ends[0]:
        layers.append(
            {
                "data": {"values": [{"x": ends[0], "x2": first}]},
                "mark": {"type": "rect", "color": "var(--bad)", "opacity": 0.1},
                "encoding": {"x": x, "x2": {"field": "x2"}},
            }
        )
    mark: Spec = {"type": "line", "interpolate": "step-after", "color": "var(--accent)", "strokeWidth": 2.2}
    if not values.is_complete:
        mark = {"type": "point", "filled": True, "size": 40, "color": "var(--accent)", "opacity": 1}
    layers += [
        {
            "data": {"values": [{"x": here}]},
            "mark": {"type": "rule", "color": "var(--soft)", "strokeDash": [4, 4]},
            "encoding": {"x": x},
        },
        {"data": {"values": rows}, "mark": mark, "encoding": {"x": x, "y": y}},
        {
            "data": {"name": "marker"},
            "mark": {"type": "rule", "color": "var(--mark)", "strokeWidth": 1.5},
            "encoding": {"x": x},
        },
        {
            "data": {"name": "marker"},
            "transform": [{"filter": "isValid(datum.v)"}],
            "mark": {"type": "point", "filled": True, "size": 110, "color": "var(--mark)", "opacity": 1},
            "encoding": {"x": x, "y": y},
        },
    ]
    description = f"Best expected value against the {values.axis}"
    return _chart(description, 260, layer=layers, datasets={"marker": []})


def gain_chart(values: BudgetValues, extra: str) -> Spec:
    """Return the gain of `extra` more budget, for each budget."""
    rows = [
        {"x": as_float(each.amount), "m": finite(each.marginal)}
        for each in values.positions
        if finite(each.marginal) is not None
    ]
    ends = [as_float(values.positions[place].amount) for place in (0, -1)]
    x = _number("x", None, scale={"domain": ends, "nice": False, "zero": False}, axis={"labels": False, "ticks": False})
    y = _number("m", f"gain of +{extra}", axis={"tickCount": 3})
    layers = [
        {
            "data": {"values": rows},
            "mark": {"type": "rule", "color": "var(--gain)", "strokeWidth": 3},
            "encoding": {"x": x, "y": y, "y2": {"datum": 0}},
        },
        {
            "data": {"name": "marker"},
            "mark": {"type": "rule", "color": "var(--mark)", "strokeWidth": 1.5},
            "encoding": {"x": x},
        },
    ]
    return _chart(f"Gain of +{extra}, for each budget", 110, layer=layers, datasets={"marker": []})


def plan_chart(resource: str, horizon: int) -> Spec:
    """Return the actions in one state, by step and by what remains of a resource; the page fills in the cells."""
    x = _number(
        "x", "step", scale={"domain": [-0.5, horizon - 0.5], "nice": False}, axis={"tickMinStep": 1, "grid": False}
    )
    y = _number("y", f"{resource} remaining", scale={"zero": False, "nice": False}, axis={"tickCount": 6})
    tooltip = [
        {"field": "step", "title": "step"},
        {"field": "range", "title": "remaining"},
        {"field": "action", "title": "action"},
        {"field": "value", "title": "value from there on"},
    ]
    layer = {
        "data": {"name": "cells"},
        "mark": {"type": "rect", "stroke": "var(--card)", "strokeWidth": 0.6},
        "encoding": {
            "x": x, "x2": {"field": "x2"}, "y": y, "y2": {"field": "y2"},
            "color": {"field": "color", "type": "nominal", "scale": None, "legend": None}, "tooltip": tooltip,
        },
    }  # fmt: skip
    return _chart(f"Action by step and by {resource} remaining", 320, **layer, datasets={"cells": []})


def map_chart(width: int, height: int) -> Spec:
    """Return the plan on a grid: arrows for moves, letters for other actions; the page fills in the cells."""
    scale = {"nice": False, "zero": False}
    cell = _NARROWEST_MAP / width
    arrow = min(900, round((0.55 * cell) ** 2))
    bare = {"labels": False, "ticks": False, "domain": False, "grid": False}
    x = {
        "field": "x",
        "type": "quantitative",
        "title": None,
        "scale": {**scale, "domain": [-0.5, width - 0.5]},
        "axis": bare,
    }
    y = {
        "field": "y", "type": "quantitative", "title": None,
        "scale": {**scale, "domain": [height - 0.5, -0.5]}, "axis": {**bare, "minExtent": 0},
    }  # fmt: skip
    edge = {"x": {**x, "field": "x0"}, "x2": {"field": "x1"}, "y": {**y, "field": "y0"}, "y2": {"field": "y1"}}
    tooltip = [
        {"field": "state", "title": "state"},
        {"field": "step", "title": "step"},
        {"field": "range", "title": "remaining"},
        {"field": "action", "title": "action"},
    ]
    layers: list[Spec] = [
        {
            "data": {"name": "cells"},
            "mark": {"type": "rect", "stroke": "var(--card)", "strokeWidth": 2, "cornerRadius": 4},
            "encoding": {
                **edge, "tooltip": tooltip,
                "color": {"field": "fill", "type": "nominal", "scale": None, "legend": None},
            },
        },
        {
            "data": {"name": "here"},
            "mark": {"type": "rect", "fill": None, "stroke": "var(--mark)", "strokeWidth": 3, "cornerRadius": 4},
            "encoding": edge,
        },
        {
            "data": {"name": "cells"},
            "transform": [{"filter": "isValid(datum.angle)"}],
            "mark": {"type": "point", "shape": "arrow", "filled": True, "size": arrow, "opacity": 1},
            "encoding": {
                "x": x, "y": y, "angle": {"field": "angle", "type": "quantitative", "scale": None},
                "color": {"field": "color", "type": "nominal", "scale": None, "legend": None}, "tooltip": tooltip,
            },
        },
        {
            "data": {"name": "cells"},
            "transform": [{"filter": "isValid(datum.letter)"}],
            "mark": {"type": "text", "fontSize": min(16, round(0.42 * cell)), "fontWeight": 700},
            "encoding": {
                "x": x, "y": y, "text": {"field": "letter"},
                "color": {"field": "color", "type": "nominal", "scale": None, "legend": None}, "tooltip": tooltip,
            },
        },
    ]  # fmt: skip
    if width <= _MOST_LABELED:
        names = {"x": {**x, "field": "x0"}, "y": {**y, "field": "y0"}, "text": {"field": "state"}}
        small = {"type": "text", "fontSize": 10, "color": "var(--soft)", "limit": 60}
        corner = {"align": "left", "baseline": "top", "dx": 3, "dy": 3}
        layers.append({"data": {"name": "cells"}, "mark": {**small, **corner}, "encoding": names})
    size = max(220, min(520, 78 * height))
    return _chart("Actions on the map", size, layer=layers, datasets={"cells": [], "here": []})


def spending_chart(report: VerifyReport, runs: Simulation | None, name: str) -> Spec:
    """Return what is spent over time: the exact extremes, quantiles of simulated episodes, and the limits."""
    first = as_float(report.initial[name])
    worst, least = (_line(first, side[name]) for side in (report.worst_spent_by_step, report.least_spent_by_step))
    rows: list[dict[str, Any]] = [
        {"h": h, "worst": w, "least": b} for h, (w, b) in enumerate(zip(worst, least, strict=True))
    ]
    if runs is not None:
        for level in sorted({level for low, high, _ in _BANDS for level in (low, high)} | {0.5}):
            for h, amount in enumerate([first, *runs.quantile(name, level).tolist()]):
                rows[h][f"q{round(100 * level)}"] = finite(amount)
    x = _number("h", "steps taken", scale={"nice": False, "domain": [-0.3, len(worst) - 0.7]}, axis={"tickMinStep": 1})
    scale = {"zero": False, "padding": 10}
    title = f"{shown(name)} spent"
    layers: list[Spec] = [_limit_layer(x, title, scale, report.upper.get(name, ()), report.lower.get(name, ()))]
    if runs is not None:
        for low, high, opacity in _BANDS:
            layers.append(
                {
                    "mark": {"type": "area", "color": "var(--band)", "opacity": opacity},
                    "encoding": {
                        "x": x, "y": _number(f"q{round(100 * low)}", title, scale=scale, axis={"tickCount": 6}),
                        "y2": {"field": f"q{round(100 * high)}"},
                    },
                }
            )  # fmt: skip
        layers.append(_curve_layer(x, "q50", title, "var(--accent)", [1, 0]))
    layers.append(_curve_layer(x, "least", title, "var(--good)", [5, 3]))
    layers.append(_curve_layer(x, "worst", title, "var(--mark)", [1, 0]))
    return _chart(f"{title} over time, with its limits", 300, data={"values": rows}, layer=layers)


def _curve_layer(x: Spec, field: str, title: str, color: str, dash: list[int]) -> Spec:
    return {
        "mark": {"type": "line", "color": color, "strokeWidth": 2, "strokeDash": dash, "point": False},
        "encoding": {"x": x, "y": _number(field, title, scale={"zero": False, "padding": 10})},
    }


def _limit_layer(x: Spec, title: str, scale: Spec, upper: PerStep, lower: PerStep) -> Spec:
    """Return the limits, each drawn half a step to either side of the step after which it holds."""
    rows = [
        {"h": h + 0.5, "h2": h + 1.5, "limit": as_float(limit)}
        for side in (upper, lower)
        for h, limit in enumerate(side)
        if limit is not None
    ]
    return {
        "data": {"values": rows},
        "mark": {"type": "rule", "color": "var(--limit)", "strokeWidth": 5, "clip": True},
        "encoding": {"x": x, "x2": {"field": "h2"}, "y": _number("limit", title, scale=scale)},
    }


def _line(first: float | None, amounts: PerStep) -> list[float | None]:
    return [first, *(as_float(each) for each in amounts)]


def episode_chart(name: str, upper: PerStep, lower: PerStep, horizon: int) -> Spec:
    """Return what one episode spends, against the limits; the page fills in the path and the mark."""
    x = _number("h", "steps taken", scale={"nice": False, "domain": [-0.3, horizon + 0.3]}, axis={"tickMinStep": 1})
    title = f"{shown(name)} spent"
    scale = {"zero": False, "padding": 10}
    y = _number("s", title, scale=scale, axis={"tickCount": 5})
    layers: list[Spec] = [
        _limit_layer(x, title, scale, upper, lower),
        {
            "data": {"name": "path"},
            "mark": {"type": "line", "color": "var(--accent)", "strokeWidth": 2, "point": {"color": "var(--accent)"}},
            "encoding": {"x": x, "y": y},
        },
        {
            "data": {"name": "marker"},
            "mark": {"type": "point", "filled": True, "size": 140, "color": "var(--mark)", "opacity": 1},
            "encoding": {"x": x, "y": y},
        },
    ]
    return _chart(f"{title} in one episode", 220, layer=layers, datasets={"path": [], "marker": []})


def bars_chart(rows: list[dict[str, Any]], title: str) -> Spec:
    """Return one bar for each method: `rows` have its name `m`, a number `v` with its text, and a color `c`."""
    known = [row["v"] for row in rows if row["v"] is not None] or [0.0]
    low, high = min(0.0, *known), max(0.0, *known)
    room = 0.42 * (high - low or 1.0)
    scale = {"domain": [low - room * (low < 0), high + room], "nice": False}
    method = {
        "field": "m", "type": "nominal", "sort": None, "title": None,
        "axis": {"minExtent": 124, "maxExtent": 124, "labelLimit": 120, "domain": True},
    }  # fmt: skip
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "cornerRadiusEnd": 3, "height": {"band": 0.62}},
            "encoding": {
                "y": method, "x": _number("v", None, scale=scale, axis=None),
                "color": {"field": "c", "type": "nominal", "scale": None, "legend": None},
            },
        },
        {
            "mark": {
                "type": "text", "fontSize": 12, "align": {"expr": "datum.v < 0 ? 'right' : 'left'"},
                "dx": {"expr": "datum.v < 0 ? -5 : 5"},
            },
            "encoding": {"y": method, "x": _number("v", None, scale=scale, axis=None), "text": {"field": "text"}},
        },
    ]  # fmt: skip
    heading = {"text": title, "anchor": "start", "fontSize": 13, "fontWeight": 600, "color": "var(--ink)", "offset": 6}
    return _chart(title, 28 * len(rows) + 34, data={"values": rows}, layer=layers, title=heading)
