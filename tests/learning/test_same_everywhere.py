"""The same seed gives the same run on every CPU, bit for bit."""

from __future__ import annotations

import copy
import importlib
import json
import math
import os
import pickle
import pkgutil
import platform
import random
import subprocess
import sys
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from digests import MODELS, THEORY, digest, digests_of_kernels

import solvent
from solvent.learning import planner
from solvent.learning.kernels import log, sweep, sweep_theory

ROOT = Path(__file__).parents[2]
#: Episodes, bounds and gap of runs in models, which depend only on the code of this package.
EXPECTED = {
    "practical": "59499 0x1.7202f4ab175f3p+1 0x1.93d9d77e5e746p+1 0x1.0eb7169a38a98p-2",
    "every episode": "700 0x1.58825d1a22b80p+0 0x1.4c03c13951bcep+2 0x1.ebc653e5921dcp+1",
    "by node": "152767 0x1.63274c14a5e16p+1 0x1.a2850678622b7p+1 0x1.faedd31de2508p-2",
    "theory": "55296 0x1.53c3468d11305p-2 0x1.3eaf880749bbbp-1 0x1.299bc98182471p-2",
    "theory by node": "31744 0x1.139293afcdc46p-2 0x1.5476613cd7f00p-1 0x1.955a2ec9e21bap-2",
    "learned support": "40562 0x1.691d12aecb01bp+1 0x1.a4a36d27fd110p+1 0x1.dc32d3c9907a8p-2",
    "rounded": "2000 0x1.17fbbc9c58c10p+1 0x1.e451d6724739cp+1 0x1.98ac33abdcf18p+0",
    "model environment": "30050 0x1.699d5cf38bbecp+1 0x1.9b33d3ad8b0dep+1 0x1.8cb3b5cffa790p-2",
}


@pytest.mark.parametrize("name", MODELS)
def test_runs_in_models_are_the_same_on_every_machine(name: str) -> None:
    *found, _ = digest(MODELS[name]).split()
    assert " ".join(found) == EXPECTED[name]


def test_no_kernel_is_compiled_with_fastmath() -> None:
    looked_at = 0
    for module in pkgutil.walk_packages(solvent.__path__, "solvent."):
        if module.name.endswith("kernels"):
            for kernel in vars(importlib.import_module(module.name)).values():
                if hasattr(kernel, "targetoptions"):
                    looked_at += 1
                    assert not kernel.targetoptions.get("fastmath"), kernel
    assert looked_at > 30


def test_logarithms_are_off_by_less_than_one_unit_in_the_last_place() -> None:
    rng = random.Random(1)
    numbers = [rng.uniform(0.5, 2) for _ in range(1000)] + [math.exp(rng.uniform(-700, 700)) for _ in range(1000)]
    numbers += [1 + rng.uniform(-1, 1) * 2 ** -rng.randint(1, 52) for _ in range(500)]
    numbers += [8 * math.e * (n + 1.0) for n in range(500)] + [2.0**k for k in range(-1074, 1024, 9)]
    numbers += [math.sqrt(0.5), math.nextafter(math.sqrt(0.5), 0), 5e-324, sys.float_info.max]
    with localcontext() as context:
        context.prec = 40
        for x in numbers:
            true = Decimal(x).ln()
            assert abs(Decimal(log(x)) - true) <= Decimal("0.8") * Decimal(math.ulp(float(true))), x
    assert log(1.0) == 0.0


def run(*arguments: str, cache: Path, **variables: str) -> dict[str, Any]:
    """Return what `digests.py` prints in a process with these environment variables."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}", **variables}
    environment["NUMBA_CACHE_DIR"] = str(cache)
    command = [sys.executable, str(Path(__file__).with_name("digests.py")), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def baseline() -> dict[str, str]:
    """Return environment variables that disable the CPU features by which libraries on this machine choose code."""
    from numpy._core._multiarray_umath import (  # type: ignore[attr-defined]
        __cpu_dispatch__,
        __cpu_features__,
    )

    variables = {"NUMBA_CPU_NAME": "generic", "NUMBA_NUM_THREADS": "1"}
    extra = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    if extra:
        variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(extra)
    if platform.machine() in ("x86_64", "AMD64"):
        variables["OPENBLAS_CORETYPE"] = "Prescott"
        if platform.libc_ver()[0] == "glibc":
            variables["GLIBC_TUNABLES"] = "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F"
    return variables


@pytest.mark.slow
def test_kernels_compiled_for_a_generic_cpu_do_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps: list[Any] = []

    def noted(*arguments: Any) -> None:
        if len(sweeps) < 400:
            sweeps.append(copy.deepcopy(arguments))
        (sweep_theory if len(arguments) == THEORY else sweep)(*arguments)

    monkeypatch.setattr(planner, "sweep", noted)
    monkeypatch.setattr(planner, "sweep_theory", noted)
    for name in ("every episode", "theory", "by node", "learned support"):
        sweeps, before = [], sweeps
        MODELS[name]()
        sweeps = before + sweeps[:: max(len(sweeps) // 40, 1)]
    (tmp_path / "sweeps").write_bytes(pickle.dumps(sweeps))
    assert len(sweeps) > 100
    assert run(str(tmp_path / "sweeps"), cache=tmp_path, **baseline()) == digests_of_kernels(sweeps)


@pytest.mark.nightly
def test_runs_are_the_same_with_every_set_of_cpu_features(tmp_path: Path) -> None:
    variables = baseline()
    native, generic = run(cache=tmp_path), run(cache=tmp_path / "generic", NUMBA_CPU_NAME="generic")
    plain = run(cache=tmp_path / "generic", **variables)
    learned = [{k: v for k, v in each.items() if k not in ("compiled", "libm")} for each in (native, generic, plain)]
    assert learned[0] == learned[1] == learned[2]
    for each in (native, generic):  # kernels loaded from the cache cannot be inspected
        kernels = {"log", "average", "write_radii", "weigh_theory", "sweep", "sweep_theory", "play"}
        assert set(each["compiled"]) >= kernels
        assert not any(each["compiled"].values()), "fused instructions, or functions of the C library"
    if "GLIBC_TUNABLES" in variables and " fma " in Path("/proc/cpuinfo").read_text():
        assert plain["libm"] != native["libm"], "the environment variable did not change the functions of the C library"
