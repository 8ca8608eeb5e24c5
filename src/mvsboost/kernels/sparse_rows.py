"""Rows as lists of what is sparse in them, and kernels for such lists.

Most columns of most tables have a bin that most rows are in: a flag that is off, an
amount of 0, a missing value. A row's list has an entry for every column in which the
row is not in that usual bin; what a node's total leaves over is the usual bin's sum,
exactly, since sums are integers. Of 54 columns of Covertype 12 are listed on average,
of 121 of IEEE fraud 27. Exclusive flags need no bundles, and flags that are nearly
exclusive, or missing together, are served as well.

An entry is a place in a thread's part of a histogram, 2 bytes, so there is nothing
to look up or to add before the sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.kernels.histogram import PREFETCH, feature_offsets, pair_of
from mvsboost.runtime.arena import Arena
from mvsboost.runtime.intrinsics import add_pair, prefetch
from mvsboost.runtime.jit import inlined, kernel
from mvsboost.runtime.threads import ThreadPool

SPREAD = 8
"""Entries between two features in a thread's part of a histogram. Histograms of 256 entries
lie 4096 bytes apart, and a processor takes addresses that agree in their low 12 bits for the
same at first: where rows have the same bin in many features, additions would wait for each
other (three times slower)."""

PROBED = 4096
"""Rows that say which bins are usual."""

LEAST_SHARE = 0.3
"""Share of rows from which on a column's commonest bin counts as usual."""

COST_OF_A_SPARSE_ROW = 8
"""Columns that a row's list must be shorter by: where it ends is a surprise to the processor."""

_ENTRY = np.uint16
_START = np.uint32
_ONE = np.uint64(1)


class SparseRows(NamedTuple):
    """The sparse entries of rows.

    Attributes
    ----------
    starts : uint32 array of shape (n_rows,)
        Where the list of each row begins.
    lengths : uint16 array of shape (n_rows,)
    entries : uint16 array
    """

    starts: NDArray[np.uint32]
    lengths: NDArray[np.uint16]
    entries: NDArray[np.uint16]


NOT_SPARSE = SparseRows(np.empty(0, _START), np.empty(0, _ENTRY), np.empty(0, _ENTRY))
"""Stands for rows that are not listed."""


class SparseTable(NamedTuple):
    """All rows of a table as lists, and what the entries mean.

    Attributes
    ----------
    lists : SparseRows
    longest : int
        Entries of the longest list.
    places : int64 array of shape (n_features + 1,)
        First entry of each feature, and the end.
    usual : int64 array of shape (n_features,)
        The bin that is not listed, or -1.
    """

    lists: SparseRows
    longest: int
    places: NDArray[np.int64]
    usual: NDArray[np.int64]


def spread_out(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """First entries of features in a thread's part of a histogram, from those in a histogram."""
    return offsets + SPREAD * np.arange(len(offsets), dtype=np.int64)


def make_sparse(
    bins: NDArray[np.uint8], n_bins: NDArray[np.int64], threads: ThreadPool
) -> SparseTable | None:
    """The rows of a table as lists; None where these would be too long."""
    n_rows, n_features = bins.shape
    places = spread_out(feature_offsets(n_bins, np.arange(n_features, dtype=np.int64)))
    usual, listed = _usual_bins(bins)
    if listed > n_features - COST_OF_A_SPARSE_ROW or places[-1] > np.iinfo(_ENTRY).max:
        return None
    lengths = np.empty(n_rows, _ENTRY)
    threads.run(lambda a, b: count_entries(bins[a:b], usual, lengths[a:b]), n_rows)
    ends, longest = np.cumsum(lengths, dtype=np.int64), int(lengths.max())
    if longest * n_rows > np.iinfo(_START).max:
        return None
    starts, entries = ends - lengths, np.empty(ends[-1], _ENTRY)
    threads.run(lambda a, b: write_entries(bins[a:b], usual, places, starts[a:b], entries), n_rows)
    lists = SparseRows(starts.astype(_START), lengths, entries)
    return SparseTable(lists, longest, places, usual)


def room_for_sparse_rows(n_rows: int, longest: int, arena: Arena) -> SparseRows:
    """Room for the lists of some rows, in which each thread can begin where it likes.

    Most of the entries stay untouched, and are not memory before they are.
    """
    return SparseRows(
        arena.take("sample starts", (n_rows,), _START),
        arena.take("sample lengths", (n_rows,), _ENTRY),
        arena.take("sample entries", (n_rows * longest,), _ENTRY),
    )


def _usual_bins(bins: NDArray[np.uint8]) -> tuple[NDArray[np.int64], float]:
    """Usual bin of each feature, or -1, and how many entries a row has then, on average."""
    probe = bins[:: max(1, len(bins) // PROBED)]
    counts = [np.bincount(column) for column in probe.T]
    commonest = np.array([count.argmax() for count in counts], np.int64)
    share = np.array([count.max() for count in counts]) / len(probe)
    usual = np.where(share >= LEAST_SHARE, commonest, -1)
    return usual, float(np.where(usual >= 0, 1.0 - share, 1.0).sum())


@kernel
def count_entries(bins: Any, usual: Any, lengths: Any) -> None:
    """Length of the list of each row."""
    for i in range(bins.shape[0]):
        n = 0
        for f in range(bins.shape[1]):
            n += 1 if bins[i, f] != usual[f] else 0
        lengths[i] = n


@kernel
def write_entries(bins: Any, usual: Any, places: Any, starts: Any, entries: Any) -> None:
    """The lists of rows, each from its start on."""
    for i in range(bins.shape[0]):
        k = starts[i]
        for f in range(bins.shape[1]):
            if bins[i, f] != usual[f]:
                entries[k] = places[f] + bins[i, f]
                k += 1


@inlined
def add_sparse_inlined(
    lists: Any, whole: Any, drawn: Any, words: Any, bits: Any, order: Any, histogram: Any
) -> None:
    """Add the rows named in `order` to a histogram of shape (places, 2), but for usual bins.

    Where `drawn` is not empty `lists` is room: row r has the list of row ``drawn[r]`` of `whole`
    still, and it is copied on the way, the rows of `order` one after another.
    """
    flat, n_rows, fresh = histogram.reshape(-1), order.shape[0], drawn.shape[0] > 0
    source = whole if fresh else lists
    to = np.uint64(0)
    if fresh and n_rows > 0:  # as if all lists before were as long as the longest
        to = np.uint64(order[0]) * np.uint64(lists.entries.shape[0] // drawn.shape[0])
    for j in range(n_rows):
        row, soon = np.uint64(order[j]), np.uint64(order[min(j + PREFETCH, n_rows - 1)])
        first, second = pair_of(words[row], bits)
        prefetch(words, soon)
        there = row  # where the source has it
        if fresh:
            there, soon = np.uint64(drawn[row]), np.uint64(drawn[soon])
            lists.starts[row], lists.lengths[row] = to, whole.lengths[there]
        prefetch(source.entries, np.uint64(source.starts[soon]))
        start, length = np.uint64(source.starts[there]), np.uint64(source.lengths[there])
        for k in range(length):
            entry = source.entries[start + k]
            add_pair(flat, np.uint64(entry) << _ONE, first, second)
            if fresh:
                lists.entries[to + k] = entry
        to += length
