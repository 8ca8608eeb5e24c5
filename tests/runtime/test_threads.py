"""Slices of rows, and the pool that works on them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.registry import backend_factory
from mvsboost.errors import ParameterError
from mvsboost.objectives import Squared
from mvsboost.runtime import threads as threads_module
from mvsboost.runtime.threads import (
    AWAKE,
    HARDLY_AWAKE,
    SMALLEST_SLICE,
    Patience,
    ThreadPool,
    available_cores,
)


@given(st.integers(1, 64), st.integers(0, 10**7))
def test_slices_cover_all_rows_once(n_threads, n_rows):
    slices = ThreadPool(n_threads).slices(n_rows)
    assert slices[0][0] == 0
    assert slices[-1][1] == n_rows
    assert all(a[1] == b[0] for a, b in pairwise(slices))
    assert 1 <= len(slices) <= n_threads
    assert len(slices) == 1 or all(b - a >= SMALLEST_SLICE for a, b in slices)


def test_results_come_in_order(few_rows_each):
    assert few_rows_each(4).run(lambda a, b: (a, b), 28) == [(0, 7), (7, 14), (14, 21), (21, 28)]


def test_the_first_slice_stays_and_the_others_go_to_threads(few_rows_each):
    first, *others = few_rows_each(3).run(lambda a, b: threading.current_thread().name, 100)
    assert first == threading.current_thread().name
    assert len(others) == 2
    assert all(name.startswith("mvsboost") for name in others)


def test_few_rows_stay_on_the_calling_thread():
    names = ThreadPool(4).run(lambda a, b: threading.current_thread().name, 100)
    assert names == [threading.current_thread().name]


def test_an_error_on_a_thread_reaches_the_caller(few_rows_each):
    def fail(start, stop):
        raise RuntimeError(f"rows from {start}")

    with pytest.raises(RuntimeError, match="rows from 0"):
        few_rows_each(2).run(fail, 100)


def test_a_thread_that_takes_long_is_waited_for():
    threads = ThreadPool(3)

    def one(thread):
        time.sleep(0.02 * thread)  # much longer than anybody looks out for it
        return thread

    for _ in range(3):
        assert threads.together(one, 3) == [0, 1, 2]


def test_a_thread_that_is_often_displaced_goes_to_sleep_at_once():
    displaced = iter([0, 0, 200, 500, 800, 1000, 1001, 1250])
    patience = Patience(partial(next, displaced), itertools.count().__next__)
    awake, asleep = AWAKE, HARDLY_AWAKE
    assert [patience.looks() for _ in range(7)] == [
        awake,
        awake,
        asleep,
        asleep,
        awake,
        awake,
        awake,
    ]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not say")
def test_a_thread_knows_when_it_was_displaced():
    before, deadline = threads_module.times_displaced(), time.monotonic() + 30
    rivals = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(available_cores())
    ]
    try:
        while threads_module.times_displaced() == before and time.monotonic() < deadline:
            pass
    finally:
        for rival in rivals:
            rival.kill()
            rival.wait()
    assert threads_module.times_displaced() > before


def test_after_an_error_threads_go_on():
    threads = ThreadPool(3)

    def fail(thread):
        if thread == 2:
            raise RuntimeError("on thread 2")
        return thread

    for _ in range(2):
        with pytest.raises(RuntimeError, match="on thread 2"):
            threads.together(fail, 3)
        assert threads.together(lambda thread: thread, 3) == [0, 1, 2]


def test_all_run_at_one_time_whatever_other_fits_do():
    """Kernels wait for each other: two fits at once must not hold each other's threads."""

    def fit(_: int) -> list[int]:
        barrier = threading.Barrier(4)
        return ThreadPool(4).together(lambda thread: barrier.wait(timeout=30) * 0 + thread, 4)

    with ThreadPoolExecutor(5) as fits:
        assert list(fits.map(fit, range(5))) == [[0, 1, 2, 3]] * 5


def test_threads_end_with_their_object_and_hold_nothing_of_a_job():
    # others' threads may end meanwhile
    threads, before = ThreadPool(3), set(threading.enumerate())

    def own() -> set[threading.Thread]:
        return set(threading.enumerate()) - before

    held = np.zeros(1)
    weak = weakref.ref(held)
    assert threads.together(lambda thread, held=held: thread + held[0], 3) == [0, 1, 2]
    assert len(own()) == 2
    del held
    deadline = time.monotonic() + 30
    while weak() is not None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert weak() is None
    del threads
    while own() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not own()


def test_there_is_a_core():
    assert available_cores() >= 1


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 32),
        ({"cpu.max": "max 100000\n"}, 32),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "250000 100000\n"}, 3),
        ({"cpu.max": "1000 100000\n"}, 1),
        ({"cpu.max": "6400000 100000\n"}, 32),
        ({"cpu.max": "nonsense"}, 32),
        ({"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "50000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 32),
        ({"cpu/cpu.cfs_quota_us": "150000\n"}, 32),
    ],
)
def test_a_quota_of_time_is_worth_so_many_cores(files, expected, tmp_path, monkeypatch):
    cores = set(range(32))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cores, raising=False)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_cores(tmp_path) == expected


def test_a_fit_has_no_more_threads_than_cores(monkeypatch, make_rows):
    monkeypatch.setattr(threads_module, "available_cores", lambda: 2)
    assert [ThreadPool.within_cores(n).n_threads for n in (1, 2, 3, 10**12)] == [1, 2, 2, 2]
    backend = backend_factory("cpu", 16)(make_rows(), Squared())
    assert isinstance(backend, CPUBackend)
    assert backend._threads.n_threads == 2


@pytest.mark.parametrize("n_threads", [0, -1, 1.5, True, "2", None])
def test_the_number_of_threads_must_be_a_positive_integer(n_threads, make_rows):
    for make in (
        ThreadPool,
        ThreadPool.within_cores,
        lambda n: CPUBackend(make_rows(), Squared(), n),
        lambda n: backend_factory("cpu", n),
    ):
        with pytest.raises(ParameterError, match="n_threads must be a positive whole number"):
            make(n_threads)


def test_the_number_of_threads_may_be_numpys():
    assert ThreadPool(np.int32(3)).n_threads == 3
