"""Runs the jobs that have no record yet, each in a process of its own, and records each as soon as it is finished.

Processes are forked from a server that has imported the libraries, since importing torch takes longer than many a job.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from bench.claims.jobs import RUNNERS
from bench.training.records import Records

#: What the server of processes imports.
PRELOAD = ["bench.claims.jobs", "bench.claims.masked_dqn", "bench.claims.q_learning", "sb3_contrib"]


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job; return its record, with the seconds of processor time."""
    began = time.process_time()
    found = RUNNERS[job["kind"]](job)
    return {**job, **found, "seconds": round(time.process_time() - began, 1)}


def run_all(
    jobs: list[dict[str, Any]], records: Records, workers: int, report: Callable[[dict[str, Any], int], None]
) -> None:
    """Run the jobs without a record, several at a time; `report` gets each record and the number of jobs left.

    A job that fails is recorded with its error, and tried again by the next run.
    """
    missing = [job for job in jobs if records.needs(job)]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    pool = ProcessPoolExecutor(workers, mp_context=context, max_tasks_per_child=1)
    try:
        futures = {pool.submit(run_job, job): job for job in missing}
        for left, future in zip(range(len(missing) - 1, -1, -1), as_completed(futures), strict=True):
            failure = future.exception()
            record = future.result() if failure is None else {**futures[future], "error": _described(failure)}
            records.add(record)
            report(record, left)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _described(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}"
