"""Measure how time and memory grow with the size of a problem, on one machine, out of core and on a Ray cluster.

python -m bench.scaling growth               time of a sweep against states, horizon, resources and amounts
python -m bench.scaling spill                a problem of more than 10^9 nodes within 4 GB, and its verification
python -m bench.scaling ray                  one worker against two, on the same machine: a sweep of boxes
python -m bench.scaling layers               the same for layers of nodes
python -m bench.scaling exchange             values that parts of a problem send to each other at a step
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import solvent
from bench.limits_table import resident
from bench.peers.workloads import random_model
from solvent.core.limits import ResourceMonitor
from solvent.model.budget import resolve
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.grid.parts import Part
from solvent.solvers.grid.spilled import plan_parts
from solvent.solvers.parts import Exchange
from solvent.solvers.problem import Problem

MOVES = {"north": (0, -1), "south": (0, 1), "west": (-1, 0), "east": (1, 0)}
NAMES = ("fuel", "hours", "risk")
#: Seconds after which an instance of Ray has started all of its own processes.
_SETTLED = 5.0


def city(n: int, horizon: int, budget: int, resources: int = 3, *, highest: int = 8) -> solvent.CMDP:
    """Return a courier in a city of n x n places: every street has its own costs, and traffic may double one of them.

    Parameters
    ----------
    n, horizon : int
    budget : int
        Of each resource.
    resources : int
        1 to 3.
    highest : int
        The largest cost of a street.
    """
    rng = np.random.default_rng(11)
    names = NAMES[:resources]
    b = solvent.CMDP.builder(
        horizon=horizon, start=(n // 2, n // 2), resources=list(names), budget=dict.fromkeys(names, budget),
        name=f"city({n}, {horizon}, {budget})",
    )  # fmt: skip
    for x in range(n):
        for y in range(n):
            b.add((x, y), "wait", outcomes=[(1, (x, y))])
            for name, (dx, dy) in MOVES.items():
                after = (min(max(x + dx, 0), n - 1), min(max(y + dy, 0), n - 1))
                cost = rng.integers(1, highest // 2 + 1, resources)
                slow = cost * (1 + (np.arange(resources) == rng.integers(resources)))
                outcomes = [(0.75, after, cost.tolist()), (0.25, after, slow.tolist())]
                b.add((x, y), name, reward=float(rng.integers(1, 10)), outcomes=outcomes)
    return b.build()


def layout_of(model: solvent.CMDP) -> BoxLayout:
    """Return the boxes of a model."""
    problem = Problem.exact(model, resolve(model, None))
    return BoxLayout.at_start(problem.model, problem.lattice, ResourceMonitor())


def growth() -> None:
    """Print the processor time of a solve for growing problems, and the work that the formula counts."""
    print("| states | horizon | resources | budget | nodes | evaluations | processor s | ns per evaluation |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    cases = [
        *((n, 20, 40, 2) for n in (10, 20, 40, 80)), *((20, h, 40, 2) for h in (10, 40, 80)),
        *((20, 40, b, 2) for b in (20, 80, 160)), *((10, 20, b, 3) for b in (10, 20, 40)), (40, 80, 80, 1),
    ]  # fmt: skip
    solvent.solve(city(3, 3, 5, 2), method="grid")
    for n, horizon, budget, resources in cases:
        model = city(n, horizon, budget, resources)
        layout = layout_of(model)
        times = []
        for _ in range(3):
            began = time.process_time()
            solvent.solve(model, method="grid")
            times.append(time.process_time() - began)
        took, work = float(np.median(times)), float(layout.sizes.work_H.sum())
        nodes = int(layout.sizes.cells_H.sum())
        cells = [
            n * n,
            horizon,
            resources,
            budget,
            f"{nodes:,}",
            f"{work:,.0f}",
            f"{took:.3g}",
            f"{1e9 * took / work:.2f}",
        ]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def spill(n: int, horizon: int, budget: int, memory: str) -> None:
    """Solve a problem that does not fit into memory, and verify its policy."""
    model = city(n, horizon, budget)
    layout = layout_of(model)
    print(f"{model.n_states} states, {horizon} steps, {layout.sizes.cells_H.sum():,.0f} nodes, at most "
          f"{layout.sizes.cells_H.max():,.0f} at a step, {layout.sizes.work_H.sum():.3g} evaluations; "
          f"{layout.peak_bytes / 1e9:.1f} GB would be needed for a step in memory", flush=True)  # fmt: skip
    del layout
    began = time.perf_counter()
    solution = solvent.solve(
        model, method="grid", memory_limit=memory, progress="log" if sys.stderr.isatty() else False
    )
    print(
        f"solve: {time.perf_counter() - began:.0f} s, {solution}, peak resident {resident('VmHWM') / 1e9:.2f} GB",
        flush=True,
    )
    began = time.perf_counter()
    policy = solution.policy
    print(f"policy: {time.perf_counter() - began:.0f} s, {policy}", flush=True)
    began = time.perf_counter()
    report = solvent.verify(model, policy, max_nodes=10**10, memory_limit=memory)
    print(f"verify: {time.perf_counter() - began:.0f} s, {report}", flush=True)
    same = abs(report.value - solution.value) <= 1e-9 * abs(solution.value)
    print(f"feasible {report.feasible}, the value is confirmed: {same}; peak resident {resident('VmHWM') / 1e9:.2f} GB")
    if not (report.feasible and same):
        raise SystemExit(1)


def on_ray(model: solvent.CMDP, method: str, repeat: int) -> None:
    """Solve the same problem on one worker and on two, again and again in turn.

    The clock begins when an instance of Ray runs, before the processes of its workers have loaded Solvent.
    """
    import ray

    times: dict[int, list[float]] = {1: [], 2: []}
    found = {}
    for _ in range(repeat):
        for workers in (1, 2):
            ray.init(address="local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
            try:
                time.sleep(_SETTLED)
                began = time.perf_counter()
                found[workers] = solvent.solve(model, method=method, engine="ray")
                times[workers].append(time.perf_counter() - began)
            finally:
                ray.shutdown()
        print("seconds:", *(f"{times[workers][-1]:.2f} on {workers}" for workers in (1, 2)), flush=True)
    one, two = (float(np.median(times[workers])) for workers in (1, 2))
    same = found[1].value == found[2].value and found[1].policy == found[2].policy
    began = time.perf_counter()
    here = solvent.solve(model, method=method)
    took = time.perf_counter() - began
    same = same and here.value == found[1].value and here.policy == found[1].policy
    print(f"{here.stats.nodes:,} nodes, at most {max(here.stats.layer_sizes):,} at a step; medians of {repeat}: "
          f"one worker {one:.1f} s, two {two:.1f} s: {one / two:.2f} times as fast; this process with its threads "
          f"{took:.1f} s; same bits: {same}")  # fmt: skip
    if not same:
        raise SystemExit(1)


def exchange() -> None:
    """Print how many values parts send to each other at a step."""
    print("| problem | parts | values at a step | sent at a step | share |")
    print("| --- | ---: | ---: | ---: | ---: |")
    dense = random_model(12, 400, 4, 8, 2, 30)
    for name, model in (("city of 40 x 40 places", city(40, 40, 40, 2)), ("8 random successors of each action", dense)):
        layout = layout_of(model)
        for count in (2, 4, 8, 16):
            sets = plan_parts(layout, 2**62, least=count)
            assert sets is not None
            parts = Part.all_of(layout, sets)
            between = Exchange.between(parts, model.n_states)
            h = int(layout.sizes.stored_H[:-1].argmax())
            sent = sum(
                int(np.diff(parts[p].own_boxes.offset[h])[states].sum()) for (p, _), states in between.sent.items()
            )
            total = int(layout.sizes.stored_H[h])
            print(f"| {name} | {count} | {total:,} | {sent:,} | {sent / total:.2f} |", flush=True)


def main() -> int:
    """Run a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["growth", "spill", "ray", "layers", "exchange"])
    parser.add_argument("--size", type=int, nargs=3, metavar=("N", "HORIZON", "BUDGET"), default=None)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--repeat", type=int, default=3, help="number of measurements on Ray")
    given = parser.parse_args()
    if given.what == "growth":
        growth()
    elif given.what == "spill":
        spill(*(given.size or (20, 30, 90)), given.memory)
    elif given.what == "ray":
        on_ray(city(*(given.size or (20, 30, 70))), "grid", given.repeat)
    elif given.what == "layers":
        n, horizon, budget = given.size or (12, 22, 800)
        on_ray(city(n, horizon, budget, 2, highest=60), "reduction", given.repeat)
    else:
        exchange()
    return 0


if __name__ == "__main__":
    sys.exit(main())
