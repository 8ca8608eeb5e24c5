"""Threads that run serial, GIL-free kernels on slices of rows."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from functools import cached_property
from queue import SimpleQueue
from time import perf_counter
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from mvsboost.backends.cpu.barrier import CACHE_LINE, report_and_wait, wait_awake

resource: ModuleType | None
try:
    import resource
except ImportError:  # Windows
    resource = None

T = TypeVar("T")

SMALLEST_SLICE = 32_768
"""Fewer rows than this a thread are not worth the hand-over (some 20 µs, and Python's lock)."""


_AWAKE, _HARDLY_AWAKE = 80_000, 2_000  # looks: two milliseconds, and a fortieth of that
_CHECKED = 4  # jobs between two looks for other programs
_CROWDED = 250.0  # times a second that one takes the core; the system's own threads do up to 150


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """Run kernels on slices of a range, on up to `n_threads` threads.

    The threads are this object's own: some kernels wait for each other, and would wait
    for ever if another fit's had taken the threads that their partners need. They end
    with the object. An executor would do as much with futures and conditions around it,
    which cost more than many of the kernels.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads

    @cached_property
    def _workers(self) -> list[_Worker]:
        workers = [_Worker() for _ in range(1, self.n_threads)]
        weakref.finalize(self, _dismiss, workers)
        return workers

    def worth(self, n_rows: int) -> int:
        """Threads that so many rows are worth."""
        return max(1, min(self.n_threads, n_rows // SMALLEST_SLICE))

    def slices(self, n_rows: int) -> list[tuple[int, int]]:
        """Equal slices of range(n_rows), one a thread, none of them too small."""
        pieces = self.worth(n_rows)
        if pieces == 1:
            return [(0, n_rows)]
        return [(n_rows * i // pieces, n_rows * (i + 1) // pieces) for i in range(pieces)]

    def run(self, function: Callable[[int, int], T], n_rows: int) -> list[T]:
        """Results of function(start, stop) for all slices, in their order."""
        slices = self.slices(n_rows)
        if len(slices) == 1:
            return [function(*slices[0])]
        return self.together(lambda piece: function(*slices[piece]), len(slices))

    def together(self, function: Callable[[int], T], n_threads: int) -> list[T]:
        """Results of function(0), function(1), ..., each on a thread of its own, at one time."""
        if n_threads == 1:
            return [function(0)]
        outcomes: list[_Outcome] = [
            (None, None)
        ] * n_threads  # of this call: none is ever left over
        done: SimpleQueue[None] = SimpleQueue()
        workers = self._workers[: n_threads - 1]
        for thread, worker in enumerate(workers, start=1):
            worker.put(function, thread, outcomes, done)
        outcomes[0] = _attempt(function, 0)
        for worker in workers:
            worker.linger()
        for _ in workers:
            done.get()
        for _, error in outcomes:
            if error is not None:
                raise error
        return [result for result, _ in outcomes]


_Outcome = tuple[Any, BaseException | None]
"""Result of a job, or what it raised."""

_Job = tuple[Callable[[int], Any], int, list[_Outcome], "SimpleQueue[None]"]
"""A function, its argument, where to put the outcome, and whom to tell."""


class _Worker:
    """A thread, and what it is to do.

    Who has to wait, this thread for its next job or another for this one, stays awake for a
    while, in compiled code and without Python's lock: waking up takes as long as many a kernel,
    and milliseconds on a virtual machine whose host has found other work for a sleeper's core. But
    where another program often takes the core away, it sleeps at once, and the core is free.
    """

    def __init__(self) -> None:
        self._looks = _AWAKE
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._n_put, self._n_done = np.zeros((2, CACHE_LINE), np.int64)
        threading.Thread(target=self._work, name="mvsboost", daemon=True).start()

    def put(self, *job: Any) -> None:
        """Give it a job."""
        self._jobs.put(job)
        self._n_put[0] += 1

    def linger(self) -> None:
        """Wait a little until all its jobs are done."""
        wait_awake(self._n_done, int(self._n_put[0]), self._looks)

    def dismiss(self) -> None:
        """Let it end."""
        self._jobs.put(None)

    def _work(self) -> None:
        n_done, seen, then = 0, _times_displaced(), perf_counter()
        while (job := self._jobs.get()) is not None:
            function, thread, outcomes, done = job
            outcomes[thread] = _attempt(function, thread)
            done.put(None)
            del job, function, outcomes, done  # they hold the arrays of a fit
            n_done += 1
            if n_done % _CHECKED == 0:
                before, seen, since, then = seen, _times_displaced(), then, perf_counter()
                crowded = seen - before > _CROWDED * (then - since)
                self._looks = _HARDLY_AWAKE if crowded else _AWAKE
            report_and_wait(self._n_done, n_done, self._n_put, n_done + 1, self._looks)


def _times_displaced() -> int:
    """How often another program took the core of this thread; 0 where the system does not say."""
    if resource is None or not hasattr(resource, "RUSAGE_THREAD"):
        return 0
    return int(resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw)


def _attempt(function: Callable[[int], Any], thread: int) -> _Outcome:
    try:
        return function(thread), None
    except BaseException as error:
        return None, error


def _dismiss(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.dismiss()
