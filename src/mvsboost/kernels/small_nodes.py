"""Kernels: sums over bins of nodes that have few rows, one feature at a time.

A node of a hundred rows has no more than a hundred of 256 bins to search, while a histogram
of all features is cleared, added up, taken from the parent's and searched as a whole. Here
a node's rows are gathered, and every feature is added up in one small histogram that stays in
the first-level cache; bins that no row is in are not looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.exact.dtypes import TABLE
from mvsboost.kernels.histogram import pair_of
from mvsboost.runtime.intrinsics import add_pair, lowest_bit, stack_array
from mvsboost.runtime.jit import inlined

MOST_ROWS = 512
"""Rows of a pair of nodes that there is room for."""

_ONE, _WORD, _BIT = np.uint64(1), np.uint64(6), np.uint64(63)
_N_WORDS = TABLE // 64

gathered_rows = stack_array(np.int64, MOST_ROWS, 3)
"""Room for where a row's bins start, and its two packed words."""

bin_sums = stack_array(np.int64, TABLE, 2)
"""Room for the histogram of one feature."""

bin_marks = stack_array(np.uint64, _N_WORDS)
"""Room for a bit for every bin."""


@inlined
def clear_bins(sums: Any, size: Any) -> None:
    """Nothing in the first bins."""
    for b in range(size):
        sums[b, 0] = sums[b, 1] = 0


@inlined
def clear_marks(marks: Any) -> None:
    """No bin marked."""
    for word in range(_N_WORDS):
        marks[word] = 0


@inlined
def gather_rows(source: Any, rows: Any, node: Any, n: Any, few: Any) -> Any:
    """Write a node's rows behind the first n of `few`; returns how many there are then."""
    width, listed = source.bins.shape[1], source.lists.starts.shape[0] > 0
    by_id = listed and source.ids.shape[0] > 0
    for lane in range(rows.ranges.shape[0]):
        ranges = rows.ranges[lane]
        order = rows.order if ranges[node, 3] == 0 else rows.scratch
        for j in range(ranges[node, 0], ranges[node, 1]):
            row = np.uint64(order[j])
            few[n, 0] = np.int64(source.ids[row] if by_id else row) * width
            few[n, 1], few[n, 2] = pair_of(rows.words[row], rows.bits)
            n += 1
    return n


@inlined
def add_gathered(bins: Any, few: Any, start: Any, stop: Any, feature: Any, sums: Any) -> None:
    """Add rows start..stop of `few` to a histogram of a feature."""
    for j in range(np.uint64(start), np.uint64(stop)):
        b = np.uint64(bins[np.uint64(few[j, 0] + feature)])
        add_pair(sums, b << _ONE, few[j, 1], few[j, 2])


@inlined
def add_gathered_marked(
    bins: Any, few: Any, start: Any, stop: Any, feature: Any, sums: Any, marks: Any
) -> None:
    """The same, and mark the bins that rows are in."""
    for j in range(np.uint64(start), np.uint64(stop)):
        b = np.uint64(bins[np.uint64(few[j, 0] + feature)])
        add_pair(sums, b << _ONE, few[j, 1], few[j, 2])
        marks[b >> _WORD] |= _ONE << (b & _BIT)


@inlined
def marked_bins(marks: Any, listed: Any) -> Any:
    """List bin 0 and all that are marked, and take the marks away; returns how many."""
    marks[0] |= _ONE
    n = np.uint64(0)
    for word in range(np.uint64(_N_WORDS)):
        rest = marks[word]
        while rest != 0:
            listed[n] = (word << _WORD) + lowest_bit(rest)
            rest &= rest - _ONE
            n += _ONE
        marks[word] = 0
    return np.int64(n)
