"""A thread pool that runs serial, GIL-free kernels on slices of rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")

SMALLEST_SLICE = 8192
"""Fewer rows than this a thread are not worth the hand-over (some 30 µs)."""


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(n_threads: int, _process: int) -> ThreadPoolExecutor:
    # keyed by process id: a forked child must not wait on its parent's threads
    return ThreadPoolExecutor(n_threads, thread_name_prefix="mvsboost")


class Threads:
    """Run a function on slices of a range, on up to `n_threads` threads."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads

    def slices(self, n_rows: int) -> list[tuple[int, int]]:
        """Equal slices of range(n_rows), one a thread, none of them too small."""
        pieces = max(1, min(self.n_threads, n_rows // SMALLEST_SLICE))
        edges = [n_rows * piece // pieces for piece in range(pieces + 1)]
        return list(pairwise(edges))

    def run(self, function: Callable[[int, int], T], n_rows: int) -> list[T]:
        """Results of function(start, stop) for all slices, in their order."""
        slices = self.slices(n_rows)
        if len(slices) == 1:
            return [function(0, n_rows)]
        pool = _pool(self.n_threads, os.getpid())
        return list(pool.map(lambda piece: function(*piece), slices))
