"""Runs the jobs that have no record yet, each in a process of its own, and records each as soon as it is finished."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event
from typing import Any

from bench.training.methods import METHODS
from bench.training.records import Records

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-omnisafe"
REQUIREMENTS = Path(__file__).with_name("omnisafe.txt")
#: Seconds after which a run is given up.
TIME_LIMIT = 3600.0
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def install_omnisafe(venv: Path = VENV) -> str | None:
    """Make the virtual environment of OmniSafe if it is not there; return why it cannot be used, or None.

    All versions are pinned and installed without their dependencies, so that torch stays as it is and safety-gymnasium,
    which is not needed, is left out.
    """
    ready = venv / ".ready"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if ready.exists() and ready.read_text(encoding="utf-8") == wanted:
        return None
    python = venv / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", REQUIREMENTS]
    load = [python, "-c", "import bench.training.omni as omni; omni.load()"]
    for command in ([sys.executable, "-m", "venv", venv], pip, load):
        done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            return _last_line(done.stderr)
    ready.write_text(wanted, encoding="utf-8")
    return None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it ended without a message"


def run_job(job: dict[str, Any], why_not_omnisafe: str | None = None) -> dict[str, Any]:
    """Run a job in a process of its own; return its record, with "error" if there is no result."""
    module, python = "tabular", sys.executable
    if job["kind"] == "training":
        library = METHODS[job["method"]].library
        module = "omni" if library == "omnisafe" else "sb3"
        if library == "omnisafe":
            if why_not_omnisafe is not None:
                return {**job, "error": f"OmniSafe cannot be installed: {why_not_omnisafe}"}
            python = str(VENV / "bin" / "python")
    began = time.perf_counter()
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:  # libraries write logs to the current folder
        try:
            done = subprocess.run(
                [python, "-m", f"bench.training.{module}"], input=json.dumps(job), cwd=folder, env=environment,
                capture_output=True, text=True, timeout=TIME_LIMIT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {**job, "error": f"not finished within {TIME_LIMIT:,.0f} s"}
    if done.returncode:
        return {**job, "error": _last_line(done.stderr)}
    found = json.loads(done.stdout.splitlines()[-1])
    return {**job, **found, "seconds": round(time.perf_counter() - began, 1)}


def run_all(
    jobs: list[dict[str, Any]], records: Records, workers: int, report: Callable[[dict[str, Any], int], None]
) -> None:
    """Run the jobs without a record, several at a time; `report` gets each record and the number of jobs left."""
    missing = [job for job in jobs if records.needs(job)]
    wants_omnisafe = any(job["kind"] == "training" and METHODS[job["method"]].library == "omnisafe" for job in missing)
    why_not = install_omnisafe() if wants_omnisafe else None
    left, interrupted = len(missing), Event()

    def run_one(job: dict[str, Any]) -> dict[str, Any]:
        record = run_job(job, why_not)
        if not interrupted.is_set():  # what an interrupt ended has not failed
            records.add(record)
        return record

    pool = ThreadPoolExecutor(workers)
    try:
        for finished in as_completed([pool.submit(run_one, job) for job in missing]):
            left -= 1
            report(finished.result(), left)
    except BaseException:
        interrupted.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
