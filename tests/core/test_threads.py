"""Kernels on several threads: each state is processed once, errors are raised, and forked processes work."""

from __future__ import annotations

import multiprocessing
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvent.core import threads
from solvent.core.threads import one_thread, run_by_states, split

WORK = st.lists(st.floats(0, 1e6), min_size=1, max_size=60).map(np.array)


@given(WORK, st.integers(1, 40))
def test_ranges_cover_all_states_in_order(work, n_parts):
    parts = split(work, n_parts)
    assert [state for begin, end in parts for state in range(begin, end)] == list(range(len(work)))
    assert all(begin < end for begin, end in parts)
    assert len(parts) <= n_parts


@given(st.integers(1, 20), st.integers(1, 20))
def test_ranges_have_about_the_same_work(n_states, n_parts):
    work = np.arange(1.0, n_states + 1)
    heaviest = max(work[begin:end].sum() for begin, end in split(work, n_parts))
    assert heaviest <= work.sum() / n_parts + 2 * work.max()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_state_is_worked_on_once(monkeypatch, count):
    monkeypatch.setattr(threads, "_threads", count)
    done = np.zeros(1000, int)

    def kernel(begin, end):
        done[begin:end] += 1

    run_by_states(kernel, np.ones(len(done)))
    assert (done == 1).all()


def test_several_threads_work_at_a_time(monkeypatch):
    monkeypatch.setattr(threads, "_threads", 3)
    together = threading.Barrier(3, timeout=30)
    first = threading.local()

    def kernel(begin, end):
        if not hasattr(first, "done"):
            first.done = True
            together.wait()  # breaks if fewer than three come

    run_by_states(kernel, np.ones(100))


def test_an_error_is_raised_and_ends_the_work(monkeypatch):
    monkeypatch.setattr(threads, "_threads", 2)

    def kernel(begin, end):
        raise ValueError(f"in {threading.current_thread().name}")

    with pytest.raises(ValueError, match="in "):
        run_by_states(kernel, np.ones(100))


def test_one_thread_is_the_calling_one(monkeypatch):
    monkeypatch.setattr(threads, "_threads", 4)
    seen = []
    with one_thread():
        run_by_states(lambda begin, end: seen.append((begin, end, threading.current_thread())), np.ones(9))
    assert seen == [(0, 9, threading.current_thread())]
    assert threads.thread_count() == 4


def _sum_in_child(out):
    found = []
    run_by_states(lambda begin, end: found.append(end - begin), np.ones(50))
    out.put(sum(found))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_its_own_threads(monkeypatch):
    monkeypatch.setattr(threads, "_threads", 2)
    run_by_states(lambda begin, end: None, np.ones(50))
    fork = multiprocessing.get_context("fork")
    out = fork.SimpleQueue()
    child = fork.Process(target=_sum_in_child, args=(out,), daemon=True)
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert out.get() == 50


def test_one_thread_in_several_threads_at_the_same_time(monkeypatch):
    monkeypatch.setattr(threads, "_threads", 3)
    first, second = one_thread(), one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # not in the order of nested contexts
    assert threads.thread_count() == 1
    second.__exit__(None, None, None)
    assert threads.thread_count() == 3
