"""The plot of the page: the time of each peer as a multiple of Solvent's, for each workload.

Peers without an answer are named beside the plot, in a column of their own: they have no time that could be drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from bench.peers.child import Row
from solvent.plot import style

MARKS = "osD^vP*<h"
COLORS = (*style.CATEGORIES, style.BLACK)
#: Width of the plot, and height of a workload, in inches.
WIDTH, HEIGHT = 9.6, 0.27
#: Statuses of a peer that supports a workload but has not answered.
UNANSWERED = ("time", "memory")


def draw(rows: list[Row], titles: Mapping[str, str], limits: str = "") -> Any:
    """Return Axes with a mark for each checked answer, and the names of peers that did not answer at the right.

    Parameters
    ----------
    rows : list of Row
    titles : mapping
        Title of each peer.
    limits : str, optional
        Time and memory within which a peer had to answer.
    """
    ours = {row.workload: row.solve for row in rows if row.peer == "solvent" and row.status == "ok"}
    place = {name: -i for i, name in enumerate(ours)}
    others = [peer for peer in titles if peer != "solvent" and any(row.peer == peer for row in rows)]
    found: dict[str, list[tuple[float, int]]] = {peer: [] for peer in others}
    unanswered: dict[str, list[str]] = {name: [] for name in ours}
    for row in rows:
        if row.peer not in found or row.workload not in ours:
            continue
        if row.status == "ok" and row.build is not None and row.solve is not None and row.ours:
            times = ((row.augment or 0.0) + row.build + row.solve) / row.ours
            found[row.peer].append((times, place[row.workload]))
        elif row.status in UNANSWERED:
            unanswered[row.workload].append(titles[row.peer].replace("OR-Tools ", "").replace(", ", " "))
    with style.look():
        axes = Figure(figsize=(WIDTH, 1.6 + HEIGHT * len(ours)), layout="constrained").add_subplot()
        for i, peer in enumerate(others):
            if found[peer]:
                x, y = zip(*found[peer], strict=True)
                color = COLORS[i % len(COLORS)]
                axes.plot(x, y, MARKS[i % len(MARKS)], color=color, markersize=5, label=titles[peer], clip_on=False)
        axes.axvline(1, color=style.BLACK, linewidth=1)
        axes.set_xscale("log")
        axes.set_yticks(list(place.values()), list(place))
        axes.set_ylim(-len(ours) + 0.4, 0.6)
        axes.set_xlabel("time as a multiple of Solvent's, from the model to the answer: augment, build and solve")
        axes.grid(axis="x", color=style.GRID)
        axes.set_axisbelow(True)
        side: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "fontsize": 6.5}
        for name, peers in unanswered.items():
            if peers:
                axes.text(1.02, place[name], " · ".join(peers), va="center", style="italic", color=style.GRAY, **side)
        if any(unanswered.values()):
            axes.text(1.02, 0.8, f"no answer\nwithin {limits}:", va="bottom", **side)
        axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0 + 0.9 / (len(ours) + 3)), ncols=5)
    return axes
