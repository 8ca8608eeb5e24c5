"""A thread pool that runs serial, GIL-free kernels on slices of rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")

SMALLEST_SLICE = 8192
"""Fewer rows than this a thread are not worth the hand-over (some 30 µs)."""


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """Run kernels on slices of a range, on up to `n_threads` threads.

    The threads are this object's own: some kernels wait for each other, and would wait
    for ever if another fit's had taken the threads that their partners need.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_threads - 1, thread_name_prefix="mvsboost")

    def worth(self, n_rows: int) -> int:
        """Threads that so many rows are worth."""
        return max(1, min(self.n_threads, n_rows // SMALLEST_SLICE))

    def slices(self, n_rows: int) -> list[tuple[int, int]]:
        """Equal slices of range(n_rows), one a thread, none of them too small."""
        pieces = self.worth(n_rows)
        return list(pairwise(n_rows * piece // pieces for piece in range(pieces + 1)))

    def run(self, function: Callable[[int, int], T], n_rows: int) -> list[T]:
        """Results of function(start, stop) for all slices, in their order."""
        slices = self.slices(n_rows)
        return self.together(lambda piece: function(*slices[piece]), len(slices))

    def together(self, function: Callable[[int], T], n_threads: int) -> list[T]:
        """Results of function(0), function(1), ..., each on a thread of its own, at one time."""
        others = [self._pool.submit(function, thread) for thread in range(1, n_threads)]
        return [function(0), *(other.result() for other in others)]
