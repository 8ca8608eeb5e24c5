"""Threads that run GIL-free kernels: a pool inside compiled code, or functions on slices."""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from queue import Empty, SimpleQueue
from time import perf_counter
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mvsboost.errors import ParameterError
from mvsboost.runtime.pool import (
    CALLER,
    N_ASLEEP,
    SLEEPS,
    WANTED,
    make_pool,
    mark_awake,
    recall,
    serve,
    want,
)

resource: ModuleType | None
try:
    import resource
except ImportError:  # Windows
    resource = None

T = TypeVar("T")

SMALLEST_SLICE = 32_768
"""Fewer rows than this a thread are not worth handing over a function of Python."""

SMALLEST_PART = 4096
"""Fewer rows than this a thread are not worth handing over inside a kernel; see `pool`."""

AWAKE, HARDLY_AWAKE = 80_000, 2_000  # looks: two milliseconds, and a fortieth of that
_CHECKED = 32  # jobs between two looks for other programs
_CROWDED = 250.0  # times a second that one takes the core; the system's own threads do up to 150


_GROUP = Path("/sys/fs/cgroup")
_QUOTAS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
"""Files of a control group that say quota and period, in its second version and in its first."""


def available_cores(group: Path = _GROUP) -> int:
    """Cores this process may use: those it may run on, or fewer where its time is bounded.

    A container has a quota of time, and sees all cores. `group` is where the system tells it.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return min(cores, _quota(group) or cores)


_at_work: Counter[int] = Counter()
"""Calls that use several threads, by the thread that makes them."""

_counting = threading.Lock()


@contextmanager
def sharing_cores() -> Iterator[None]:
    """Let calls that use threads at the same time, in one process, take equal parts of the cores.

    Examples
    --------
    >>> with sharing_cores():
    ...     ThreadPool(4).worth(10**6)  # there is no other
    4
    """
    caller = threading.get_ident()
    with _counting:
        _at_work[caller] += 1
    try:
        yield
    finally:
        with _counting:
            _at_work[caller] -= 1
            if not _at_work[caller]:
                del _at_work[caller]


def threads_of(n_jobs: Any) -> int:
    """Threads that `n_jobs` asks for, as in scikit-learn: -1 is all cores, and None one thread.

    All cores are no more than OMP_NUM_THREADS says, which joblib and others set for processes that
    work side by side.

    Examples
    --------
    >>> threads_of(None), 1 <= threads_of(-1) <= available_cores()
    (1, True)
    """
    if n_jobs is None:
        return 1
    asked, cores = int(n_jobs), available_cores()
    if asked > 0:
        return min(asked, cores)
    told = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    left = min(cores, int(told)) if told.isdecimal() and int(told) else cores
    return max(1, left + 1 + asked)


@lru_cache
def _quota(group: Path) -> int | None:
    """Cores that a quota of time is worth, rounded up; None where there is none."""
    for names in _QUOTAS:
        try:
            words = " ".join((group / name).read_text() for name in names).split()
            quota, period = map(int, words)
        except (OSError, ValueError):  # no such file, or "max"
            continue
        if quota > 0 and period > 0:
            return math.ceil(quota / period)
    return None


def _checked(n_threads: Any) -> int:
    whole = isinstance(n_threads, int | np.integer) and not isinstance(n_threads, bool)
    if not whole or n_threads < 1:
        raise ParameterError("n_threads", n_threads, "a positive whole number")
    return int(n_threads)


class Smallest(NamedTuple):
    """Rows that a thread is given, at least.

    Attributes
    ----------
    slice, part : int
        By a function of Python, and by a kernel.
    """

    slice: int = SMALLEST_SLICE
    part: int = SMALLEST_PART


class ThreadPool:
    """So many threads: the caller's, and others that wait for work.

    They run kernels that call them (`pool`), and functions of Python on slices of a range
    (`run`). They are this object's own: some kernels wait for each other, and would wait for
    ever if another fit's had taken the threads that their partners need. They end with the
    object. An executor would do as much with futures and conditions around it, which cost more
    than many of the kernels.

    Parameters
    ----------
    n_threads : int
        Taken as it is. Where kernels wait for each other, more than there are cores are slow: a
        fit has its threads from `within_cores`.
    smallest : Smallest
        Fewer rows are not worth a thread.
    """

    def __init__(self, n_threads: int, smallest: Smallest | None = None) -> None:
        self.n_threads = _checked(n_threads)
        self._smallest = smallest or Smallest()
        self._words = make_pool(self.n_threads, self._smallest.part)

    @classmethod
    def within_cores(cls, n_threads: int) -> ThreadPool:
        """So many threads, or as many as there are cores, if these are fewer."""
        return cls(min(_checked(n_threads), available_cores()))

    @cached_property
    def _workers(self) -> list[_Worker]:
        workers = [_Worker(self._words, thread) for thread in range(1, self.n_threads)]
        weakref.finalize(self, _dismiss, workers)
        return workers

    # --- kernels --------------------------------------------------------------------------------

    def pool(self, n_rows: int) -> NDArray[np.int64]:
        """The pool for a kernel over so many rows; as many are woken as these are worth."""
        parts = min(self._share(), n_rows // self._smallest.part)
        if parts > 1 and self._words[N_ASLEEP] > self.n_threads - parts:
            self._wake(parts)
        return self._words

    def whole(self, n_threads: int, kernel: Callable[..., T], *arguments: Any) -> T:
        """Result of a kernel whose threads meet: so many of the pool come for sure."""
        if n_threads == 1:
            return kernel(CALLER, self._words, 1, *arguments)
        try:
            if want(self._words, n_threads) > 0:
                self._wake(n_threads)
            return kernel(CALLER, self._words, n_threads, *arguments)
        finally:
            self._words[WANTED] = 0

    def _wake(self, n_threads: int) -> None:
        for worker in self._workers[: n_threads - 1]:
            worker.wake()

    # --- functions of Python --------------------------------------------------------------------

    def worth(self, n_rows: int) -> int:
        """Threads that so many rows are worth."""
        return max(1, min(self._share(), n_rows // self._smallest.slice))

    def _share(self) -> int:
        """Threads that leave other calls of this process their cores."""
        calls = len(_at_work)
        return self.n_threads if calls < 2 else min(self.n_threads, available_cores() // calls)

    def slices(self, n_rows: int) -> list[tuple[int, int]]:
        """Equal slices of range(n_rows), one a thread, none of them too small."""
        pieces = self.worth(n_rows)
        if pieces == 1:
            return [(0, n_rows)]
        return [(n_rows * i // pieces, n_rows * (i + 1) // pieces) for i in range(pieces)]

    def run(self, function: Callable[[int, int], T], n_rows: int) -> list[T]:
        """Results of function(start, stop) for all slices, in their order."""
        with sharing_cores():
            slices = self.slices(n_rows)
            if len(slices) == 1:
                return [function(*slices[0])]
            return self.together(lambda piece: function(*slices[piece]), len(slices))

    def together(self, function: Callable[[int], T], n_threads: int) -> list[T]:
        """Results of function(0), function(1), ..., each on a thread of its own, at one time."""
        if n_threads == 1:
            return [function(0)]
        # of this call: none is ever left over
        outcomes: list[_Outcome] = [(None, None)] * n_threads
        done: SimpleQueue[None] = SimpleQueue()
        workers = self._workers[: n_threads - 1]
        for thread, worker in enumerate(workers, start=1):
            worker.put(function, thread, outcomes, done)
        outcomes[0] = _attempt(function, 0)
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


def as_pool(n_threads: int | ThreadPool) -> ThreadPool:
    """So many threads, or those that are given."""
    return n_threads if isinstance(n_threads, ThreadPool) else ThreadPool(n_threads)


class _Worker:
    """A thread, and what it is to do.

    It stays awake for a while after a job, in compiled code and without Python's lock: waking up
    takes as long as many a kernel, and milliseconds on a virtual machine whose host has found
    other work for a sleeper's core. But where another program often takes the core away, it
    sleeps at once, and the core is free.
    """

    def __init__(self, pool: NDArray[np.int64], thread: int) -> None:
        self._pool, self._thread = pool, thread
        self._jobs: SimpleQueue[_Job | str | None] = SimpleQueue()
        threading.Thread(target=self._work, name="mvsboost", daemon=True).start()

    def put(self, *job: Any) -> None:
        """Give it a function of Python to run."""
        self._jobs.put(job)
        recall(self._pool, self._thread)

    def wake(self) -> None:
        """Let it come back to the pool if it sleeps."""
        if mark_awake(self._pool, self._thread):
            self._jobs.put("wake")

    def dismiss(self) -> None:
        """Let it end, when it sleeps at the latest."""
        self._jobs.put(None)

    def _work(self) -> None:
        number, why, patience = 0, SLEEPS, Patience()
        while True:
            try:
                job = self._jobs.get(block=why == SLEEPS)
            except Empty:
                job = "wake"
            mark_awake(self._pool, self._thread)
            if job is None:
                return
            if not isinstance(job, str):
                function, thread, outcomes, done = job
                outcomes[thread] = _attempt(function, thread)
                done.put(None)
                del function, outcomes, done  # they hold the arrays of a fit
            del job
            looks = patience.looks()
            number, why = serve(self._pool, self._thread, number, looks, _CHECKED)


class Patience:
    """How long this thread is to stay awake, by how often another program takes its core.

    Parameters
    ----------
    displaced : callable, optional
        Says how often that was; by default the system does.
    clock : callable
        Says when, in seconds.
    """

    def __init__(
        self,
        displaced: Callable[[], int] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._count, self._clock = displaced or times_displaced, clock
        self._displaced, self._then = self._count(), clock()

    def looks(self) -> int:
        """Looks for a job before it sleeps, by how often it was displaced since the last time."""
        before, since = self._displaced, self._then
        self._displaced, self._then = self._count(), self._clock()
        crowded = self._displaced - before > _CROWDED * (self._then - since)
        return HARDLY_AWAKE if crowded else AWAKE


def times_displaced() -> int:
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
