"""Slices of rows, and the pool that works on them."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvsboost.backends.cpu import threads
from mvsboost.backends.cpu.threads import SMALLEST_SLICE, Threads, available_cores


@given(st.integers(1, 64), st.integers(0, 10**7))
def test_slices_cover_all_rows_once(n_threads, n_rows):
    slices = Threads(n_threads).slices(n_rows)
    assert slices[0][0] == 0
    assert slices[-1][1] == n_rows
    assert all(a[1] == b[0] for a, b in pairwise(slices))
    assert 1 <= len(slices) <= n_threads
    assert len(slices) == 1 or all(b - a >= SMALLEST_SLICE for a, b in slices)


@pytest.mark.usefixtures("small_slices")
def test_results_come_in_order():
    assert Threads(4).run(lambda a, b: (a, b), 28) == [(0, 7), (7, 14), (14, 21), (21, 28)]


@pytest.mark.usefixtures("small_slices")
def test_slices_run_on_threads_of_the_pool():
    names = Threads(2).run(lambda a, b: threading.current_thread().name, 100)
    assert all(name.startswith("mvsboost") for name in names)


def test_few_rows_stay_on_the_calling_thread():
    names = Threads(4).run(lambda a, b: threading.current_thread().name, 100)
    assert names == [threading.current_thread().name]


@pytest.mark.usefixtures("small_slices")
def test_an_error_on_a_thread_reaches_the_caller():
    def fail(start, stop):
        raise RuntimeError(f"rows from {start}")

    with pytest.raises(RuntimeError, match="rows from 0"):
        Threads(2).run(fail, 100)


def test_pools_are_shared_by_size():
    assert threads._pool(2, 1) is threads._pool(2, 1)
    assert threads._pool(2, 1) is not threads._pool(2, 2)


def test_there_is_a_core():
    assert available_cores() >= 1
