"""Threads that meet inside compiled code, whoever comes late."""

from __future__ import annotations

import time

import numpy as np
import pytest

from mvsboost.backends.cpu.compilation import jit_enabled
from mvsboost.runtime.atomics import take_number
from mvsboost.runtime.barrier import meet
from mvsboost.runtime.jit import kernel
from mvsboost.runtime.threads import ThreadPool

pytestmark = pytest.mark.skipif(not jit_enabled(), reason="plain Python has no threads to meet")


@kernel
def _rounds(counter, n_threads, thread, first, n, seen):
    """In each round everybody notes how far all others have come."""
    for meeting in range(first, first + n):
        seen[thread, meeting] = meeting + 1
        meet(counter, n_threads, 2 * meeting + 1)
        least = seen[0, meeting]
        for other in range(n_threads):
            least = min(least, seen[other, meeting])
        seen[thread, meeting] = -1 if least != meeting + 1 else meeting + 1
        meet(counter, n_threads, 2 * meeting + 2)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_nobody_goes_on_before_all_have_come(n_threads):
    n = 300
    counter, seen = np.zeros(1, np.int64), np.zeros((n_threads, n), np.int64)
    ThreadPool(n_threads).together(
        lambda thread: _rounds(counter, n_threads, thread, 0, n, seen), n_threads
    )
    assert (seen == np.arange(1, n + 1)).all()
    assert counter[0] == (2 * n * n_threads if n_threads > 1 else 0)


@pytest.mark.parametrize("n_threads", [2, 4])
def test_those_who_wait_long_are_woken(n_threads):
    counter, seen = np.zeros(1, np.int64), np.zeros((n_threads, 5), np.int64)

    def one(thread):
        for meeting in range(5):
            if thread == meeting % n_threads:
                time.sleep(0.02)  # long enough that the others sleep
            _rounds(counter, n_threads, thread, meeting, 1, seen)

    ThreadPool(n_threads).together(one, n_threads)
    assert (seen == np.arange(1, 6)).all()


@kernel
def _take_numbers(counter, mine, most):
    n = 0
    while True:
        number = take_number(counter)
        if number >= most:
            return n
        mine[n] = number
        n += 1


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_every_number_is_taken_once(n_threads):
    most = 20_000
    counter, room = np.zeros(1, np.int64), np.zeros((n_threads, most), np.int64)
    taken = ThreadPool(n_threads).together(
        lambda thread: _take_numbers(counter, room[thread], most), n_threads
    )
    numbers = np.concatenate([room[thread, :n] for thread, n in enumerate(taken)])
    assert np.array_equal(np.sort(numbers), np.arange(most))
    assert counter[0] == most + n_threads
