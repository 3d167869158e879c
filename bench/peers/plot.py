"""The plot of the page: the time of each peer as a multiple of Solvent's, for each workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from bench.peers.child import Row
from solvent.plot import style

MARKS = "osD^vP*X"


def draw(rows: list[Row], titles: Mapping[str, str]) -> Any:
    """Return Axes with a mark for each checked answer, and a cross at the right edge if there is none."""
    ours = {row.workload: row.solve for row in rows if row.peer == "solvent" and row.status == "ok"}
    names = [name for name in ours if any(row.workload == name for row in rows)]
    place = {name: -i for i, name in enumerate(names)}
    others = [peer for peer in titles if peer != "solvent"]
    with style.look():
        axes = Figure(figsize=(7.6, 1.2 + 0.27 * len(names)), layout="constrained").add_subplot()
        edge = 1.0
        found: dict[str, list[tuple[float, int]]] = {peer: [] for peer in others}
        gone: list[tuple[str, int]] = []
        for row in rows:
            mine = ours.get(row.workload)
            if row.peer not in found or mine is None:
                continue
            if row.status == "ok" and row.build is not None and row.solve is not None:
                times = ((row.augment or 0.0) + row.build + row.solve) / mine
                found[row.peer].append((times, place[row.workload]))
                edge = max(edge, times)
            elif row.status in ("time", "memory"):
                gone.append((row.peer, place[row.workload]))
        for i, peer in enumerate(others):
            color = style.CATEGORIES[i % len(style.CATEGORIES)]
            mark = MARKS[i % len(MARKS)]
            if found[peer]:
                x, y = zip(*found[peer], strict=True)
                axes.plot(x, y, mark, color=color, markersize=5, label=titles[peer], clip_on=False)
            lost = [(p, y) for p, y in gone if p == peer]
            right = edge * 4 * 1.5**i
            axes.plot([right] * len(lost), [y for _, y in lost], "x", color=color, markersize=5)
        axes.axvline(1, color=style.BLACK, linewidth=1)
        axes.set_xscale("log")
        axes.set_yticks(list(place.values()), names)
        axes.set_ylim(-len(names) + 0.4, 0.6)
        axes.set_xlabel("time as a multiple of Solvent's: augment, build and solve (x: out of time or memory)")
        axes.grid(axis="x", color=style.GRID)
        axes.set_axisbelow(True)
        axes.legend(loc="upper center", bbox_to_anchor=(0.4, 1.0 + 1.6 / (len(names) + 3)), ncols=4)
    return axes
