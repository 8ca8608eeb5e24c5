"""Threads that run serial, GIL-free kernels on slices of rows."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from functools import cached_property
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

SMALLEST_SLICE = 32_768
"""Fewer rows than this a thread are not worth the hand-over (some 20 µs, and Python's lock)."""


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
        done: SimpleQueue[_Outcome] = SimpleQueue()  # of this call: an interrupted one leaves none
        for thread, worker in enumerate(self._workers[: n_threads - 1], start=1):
            worker.jobs.put((function, thread, done))
        outcomes = [_attempt(function, 0), *(done.get() for _ in range(1, n_threads))]
        outcomes.sort(key=lambda outcome: outcome.thread)
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        return [outcome.result for outcome in outcomes]


class _Outcome(NamedTuple):
    """What came of a job on one thread."""

    thread: int
    result: Any = None
    error: BaseException | None = None


class _Worker:
    """A thread, and what it is to do: a function, its argument, and where to put the outcome."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[tuple[Callable[[int], Any], int, SimpleQueue[_Outcome]] | None] = (
            SimpleQueue()
        )
        threading.Thread(target=self._work, name="mvsboost", daemon=True).start()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            function, thread, done = job
            done.put(_attempt(function, thread))
            del job, function, done  # they hold the arrays of a fit


def _attempt(function: Callable[[int], Any], thread: int) -> _Outcome:
    try:
        return _Outcome(thread, result=function(thread))
    except BaseException as error:
        return _Outcome(thread, error=error)


def _dismiss(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.jobs.put(None)
