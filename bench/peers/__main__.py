"""`python -m bench.peers`: run the peers, and write the results to a file and to the page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench.peers import report
from bench.peers.adapters import ADAPTERS
from bench.peers.child import SECONDS
from bench.peers.run import ROOT, TIME_LIMIT, run_all, verdict
from bench.peers.workloads import WORKLOADS

RESULTS = ROOT / "out" / "bench" / "peers.json"


def main() -> int:
    """Run the command line; return 1 if an answer is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="peers, or parts of names of workloads")
    parser.add_argument("--quick", action="store_true", help="small workloads, few repeats")
    parser.add_argument("--page", action="store_true", help="also rewrite docs/benchmarks.md and its plot")
    parser.add_argument("--from", dest="file", type=Path, help="measure nothing; read results from this file")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file for the results")
    parser.add_argument("--time-limit", type=float, default=TIME_LIMIT, help="seconds for one peer on one workload")
    parser.add_argument("--list", action="store_true", help="list peers and workloads")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(["peers:", *(f"  {p}" for p in ADAPTERS), "workloads:", *(f"  {w.name}" for w in WORKLOADS)]))
        return 0
    console = Console(width=150)
    if arguments.file:
        results = report.read(arguments.file)
    else:
        results = _measure(arguments, console)
        report.write(results, arguments.results)
    console.print(report.table(results.rows))
    if arguments.page:
        report.write_page(results)
    bad = verdict(results.rows)
    for line in bad:
        console.print(f"[red]wrong[/] {line}")
    return 1 if bad else 0


def _measure(arguments: argparse.Namespace, console: Console) -> report.Results:
    wanted = arguments.only or []
    peers = [peer for peer in ADAPTERS if peer in wanted] or list(ADAPTERS)
    parts = [part for part in wanted if part not in ADAPTERS]
    chosen = [
        w for w in WORKLOADS if (w.quick or not arguments.quick) and (not parts or any(p in w.name for p in parts))
    ]
    if not chosen:
        sys.exit(f"no workload has a name with {' or '.join(parts)}; --list lists them")
    rows = []
    seconds = 0.2 if arguments.quick else SECONDS
    for row in run_all(chosen, peers, time_limit=arguments.time_limit, seconds=seconds):
        console.print(report.line(row), markup=False, highlight=False)
        rows.append(row)
    return report.Results.now(rows, arguments.time_limit)


if __name__ == "__main__":
    sys.exit(main())
