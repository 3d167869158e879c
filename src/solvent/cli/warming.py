"""`warmup`: compile what is compiled once, now."""

from __future__ import annotations

from solvent.cli.session import Code, Session


def warmup(session: Session) -> int:
    """Compile all kernels for this machine now, so that no later command has to wait for it.

    They are kept beside the package or in the user's cache folder, and compiled again after an update only.
    """
    from solvent.warmup import warmup as compile_kernels

    done = compile_kernels(session.progress)
    if done.compiled:
        text = f"compiled {done.compiled} of {done.kernels} kernels in {done.seconds:.1f} s"
    elif not done.kernels:
        text = "nothing to compile: NUMBA_DISABLE_JIT is set"
    else:
        text = f"all {done.kernels} kernels are already compiled (checked in {done.seconds:.1f} s)"
    session.answer(text, {"compiled": done.compiled, "kernels": done.kernels, "seconds": done.seconds})
    return Code.OK
