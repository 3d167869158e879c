"""First steps with the delivery van: solve, verify, simulate, act, and compute the value of every tank size.

`solvent demo` shows the same on the command line. The script writes a policy and two plots into `out/`.
"""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import solvent

OUT = Path("out")


def main() -> None:
    console = Console()
    console.rule("The problem")
    model = solvent.examples.load("delivery-van")
    console.print(model.description)
    console.print(model.describe())

    console.rule("A policy that never runs dry")
    solution = solvent.solve(model)
    console.print(solution)
    report = solvent.verify(model, solution.policy)
    console.print(
        f"verified independently: feasible {report.feasible}, value {report.value:.4f}, worst spent "
        f"{report.worst_spent['fuel']} of 30, over budget with probability {report.violation_probability:g}"
    )
    runs = solvent.simulate(model, solution.policy, episodes=100_000, seed=1)
    console.print(f"100,000 simulated days: mean reward {runs.mean_reward:.3f}, days over budget {runs.violations}")

    console.rule("One day")
    agent = solution.policy.agent()
    console.print(f"action at {model.start} with {agent.remaining['fuel']} of fuel remaining: {agent.act()}")

    console.rule("What another liter is worth")
    began = time.perf_counter()
    curve = solvent.frontier(model, resource="fuel", max_budget=60)
    took = time.perf_counter() - began
    table = Table("tank", "best value", "next liter adds")
    for tank in (0, 3, 6, 12, 20, 30, 45, 59):
        table.add_row(str(tank), f"{curve.value(tank):.3f}", f"{curve.marginal(tank):.3f}")
    console.print(table)
    console.print(f"all tanks up to 60 at once: {len(curve)} levels, in {1000 * took:.1f} ms")

    OUT.mkdir(exist_ok=True)
    solution.policy.save(OUT / "van.policy")
    solvent.plot.save(curve.plot(budget=30), OUT / "van-frontier.png")
    solvent.plot.save(solvent.plot.spending(model, solution.policy), OUT / "van-spending.png")
    console.print(f"written: {OUT / 'van.policy'} ({len(solution.policy)} nodes)")
    console.print(f"written: {OUT / 'van-frontier.png'}, {OUT / 'van-spending.png'}")


if __name__ == "__main__":
    main()
