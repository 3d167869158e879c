"""`warmup`: compile all kernels in advance."""

from __future__ import annotations

from solvent.cli.session import ExitCode, Session


def warmup(session: Session) -> int:
    """Compile all kernels for this machine in advance.

    Compiled kernels are stored in the user's cache folder, and recompiled only after an update.
    """
    from solvent.warmup import warmup as compile_kernels

    done = compile_kernels(session.progress)
    if done.compiled:
        text = f"compiled {done.compiled} of {done.kernels} kernels in {done.seconds:.1f} s"
    elif not done.kernels:
        text = "nothing to compile: NUMBA_DISABLE_JIT is set"
    else:
        text = f"all {done.kernels} kernels are already compiled (checked in {done.seconds:.1f} s)"
    session.print_result(text, {"compiled": done.compiled, "kernels": done.kernels, "seconds": done.seconds})
    return ExitCode.OK
