"""Kernels that call other threads, whoever comes late, sleeps or has other work."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mvsboost.backends.cpu.compilation import jit_enabled
from mvsboost.runtime import threads as threads_module
from mvsboost.runtime.barrier import meet
from mvsboost.runtime.jit import kernel
from mvsboost.runtime.pool import (
    CALLER,
    N_ASLEEP,
    begin,
    end,
    largest_found,
    note,
    share,
    sum_parts,
    sums_found,
    worth,
)
from mvsboost.runtime.threads import ThreadPool

needs_threads = pytest.mark.skipif(not jit_enabled(), reason="plain Python has no threads to call")


@kernel
def _sum(part, pool, x, visits, sums):
    """Sums of x and x², the largest x and −x; how often each was visited, and sums by parity."""
    mine = begin(part, pool, worth(pool, x.shape[0]))
    start, stop = share(pool, mine, x.shape[0])
    total = squares = np.int64(0)
    largest = smallest = x[start]
    for i in range(start, stop):
        visits[i] += 1
        total += x[i]
        squares += x[i] * x[i]
        largest, smallest = max(largest, x[i]), min(smallest, x[i])
        sums[mine, i % 2] += x[i]
    note(pool, mine, (total, squares, np.int64(1)), (largest, -smallest, np.int64(0)))
    end(part, pool)
    if part < 0:
        sum_parts(pool, sums.reshape(-1), 2)
    return sums_found(pool), largest_found(pool)


@kernel
def _meet_all(part, pool, n_threads, counter, seen):
    thread = begin(part, pool, n_threads)
    seen[thread] += 1
    meet(counter, n_threads, 1)
    end(part, pool)


def check_sum(threads: ThreadPool, n: int) -> int:
    """Run `_sum` over n numbers, and return the number of parts it was done in."""
    x, visits = np.arange(n) * 7 % 1001 - 300, np.zeros(n, np.int64)
    sums = np.zeros((threads.n_threads, 2), np.int64)
    found, largest = _sum(CALLER, threads.pool(n), x, visits, sums)
    assert (visits == 1).all()
    assert found[:2] == (x.sum(), (x * x).sum())
    assert largest[:2] == (x.max(), -x.min())
    assert sums[0].tolist() == [x[::2].sum(), x[1::2].sum()]
    return int(found[2])


def is_met(threads: ThreadPool) -> bool:
    counter, n = np.zeros(1, np.int64), threads.n_threads
    seen = np.zeros(n, np.int64)
    threads.whole(n, _meet_all, counter, seen)
    return bool((seen == 1).all() and counter[0] == n)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_every_part_is_done_once(n_threads, few_rows_each):
    threads = few_rows_each(n_threads)
    for n in (1, 6, 7, 13, 14, 36, 1000):
        parts = max(1, min(n_threads, n // 7)) if jit_enabled() else 1
        assert check_sum(threads, n) == parts


@needs_threads
def test_thousands_of_jobs_one_after_another(few_rows_each):
    threads = few_rows_each(3)
    for n in range(21, 3021):
        check_sum(threads, n)


@needs_threads
def test_nobody_waits_for_a_thread_that_is_late(monkeypatch, few_rows_each):
    go, serve = threading.Event(), threads_module.serve

    def late(*arguments):
        go.wait(timeout=30)
        return serve(*arguments)

    monkeypatch.setattr(threads_module, "serve", late)
    threads = few_rows_each(3)
    assert check_sum(threads, 100) == 3  # by the caller alone
    assert not go.is_set()
    go.set()
    assert is_met(threads)


@needs_threads
@pytest.mark.parametrize("looks", [0, 300])
def test_sleepers_are_woken(looks, monkeypatch, few_rows_each):
    monkeypatch.setattr(threads_module.Patience, "looks", lambda self: looks)
    threads = few_rows_each(3)
    pool, deadline = threads.pool(100), time.monotonic() + 30
    while pool[N_ASLEEP] < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert pool[N_ASLEEP] == 2
    for n in range(100, 300):
        check_sum(threads, n)
        assert is_met(threads)
    while pool[N_ASLEEP] < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert pool[N_ASLEEP] == 2  # counted right, whoever woke whom


@needs_threads
def test_a_tree_wakes_only_as_many_as_it_needs():
    threads = ThreadPool(5)
    assert threads.whole(3, lambda part, pool, n_threads: int(pool[N_ASLEEP])) == 2


@needs_threads
def test_a_kernel_wakes_only_as_many_as_its_rows_are_worth(few_rows_each):
    threads = few_rows_each(5)
    assert threads.pool(13)[N_ASLEEP] == 4
    assert threads.pool(14)[N_ASLEEP] >= 3  # it may sleep again by now
    assert threads.pool(21)[N_ASLEEP] >= 2
    assert check_sum(threads, 1000) == 5


@needs_threads
def test_those_whom_a_tree_does_not_need_may_sleep():
    threads = ThreadPool(4)
    assert is_met(threads)  # all are awake

    def wait(part, pool, n_threads):
        deadline = time.monotonic() + 30
        while pool[N_ASLEEP] < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        return int(pool[N_ASLEEP])

    assert threads.whole(2, wait) == 2
    assert is_met(threads)


@needs_threads
def test_functions_of_python_and_kernels_take_turns(few_rows_each):
    threads = few_rows_each(3)
    for n in range(30, 130):
        check_sum(threads, n)
        assert threads.together(lambda thread, n=n: n + thread, 3) == [n, n + 1, n + 2]
        assert is_met(threads)


@needs_threads
def test_several_pools_at_once(few_rows_each):
    def fit(_: int) -> bool:
        threads = few_rows_each(3)
        for n in range(40, 140):
            check_sum(threads, n)
            if not is_met(threads):
                return False
        return True

    with ThreadPoolExecutor(4) as fits:
        assert all(fits.map(fit, range(8)))


@needs_threads
def test_few_rows_start_no_thread():
    threads, before = ThreadPool(4), set(threading.enumerate())
    assert check_sum(threads, 100) == 1
    assert threads.whole(1, lambda part, pool, n_threads: (part, n_threads)) == (CALLER, 1)
    # those of other tests may have ended in the meantime
    assert set(threading.enumerate()) <= before
