"""Rows as lists of what is unusual in them, and kernels for such lists.

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

from mvsboost.backends.cpu.arena import Arena
from mvsboost.backends.cpu.histogram import AHEAD, pair_of
from mvsboost.backends.cpu.machine import add_pair, prefetch
from mvsboost.backends.cpu.threads import Threads
from mvsboost.backends.protocol import feature_offsets
from mvsboost.jit import inlined, kernel

SPREAD = 8
"""Entries between two features in a thread's part of a histogram. Histograms of 256 entries
lie 4096 bytes apart, and a processor takes addresses that agree in their low 12 bits for the
same at first: where rows have the same bin in many features, additions would wait for each
other (three times slower)."""

PROBED = 4096
"""Rows that say which bins are usual."""

LEAST_SHARE = 0.3
"""Share of rows from which on a column's commonest bin counts as usual."""

COST_OF_A_LIST = 8
"""Columns that a row's list must be shorter by: where it ends is a surprise to the processor."""

_ENTRY = np.uint16
_START = np.uint32
_ONE = np.uint64(1)


class RowLists(NamedTuple):
    """The unusual entries of rows.

    Attributes
    ----------
    starts : uint32 array of shape (n_rows + 1,)
        Where the list of each row begins.
    entries : uint16 array
    """

    starts: NDArray[np.uint32]
    entries: NDArray[np.uint16]


NO_LISTS = RowLists(np.empty(0, _START), np.empty(0, _ENTRY))
"""Stands for rows that are not listed."""


class Unusual(NamedTuple):
    """All rows of a table as lists, and what the entries mean.

    Attributes
    ----------
    lists : RowLists
    places : int64 array of shape (n_features + 1,)
        First entry of each feature, and the end.
    usual : int64 array of shape (n_features,)
        The bin that is not listed, or -1.
    """

    lists: RowLists
    places: NDArray[np.int64]
    usual: NDArray[np.int64]


def spread_out(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """First entries of features in a thread's part of a histogram, from those in a histogram."""
    return offsets + SPREAD * np.arange(len(offsets))


def list_unusual(
    bins: NDArray[np.uint8], n_bins: NDArray[np.int64], threads: Threads
) -> Unusual | None:
    """The rows of a table as lists; None where these would be too long."""
    n_rows, n_features = bins.shape
    places = spread_out(feature_offsets(n_bins, np.arange(n_features)))
    usual, listed = _usual_bins(bins)
    if listed > n_features - COST_OF_A_LIST or places[-1] > np.iinfo(_ENTRY).max:
        return None
    starts = np.zeros(n_rows + 1, np.int64)
    threads.run(lambda a, b: count_unusual(bins[a:b], usual, starts[a + 1 : b + 1]), n_rows)
    np.cumsum(starts, out=starts)
    if starts[-1] > np.iinfo(_START).max:
        return None
    entries = np.empty(starts[-1], _ENTRY)
    threads.run(lambda a, b: write_unusual(bins[a:b], usual, places, starts[a:b], entries), n_rows)
    return Unusual(RowLists(starts.astype(_START), entries), places, usual)


def _usual_bins(bins: NDArray[np.uint8]) -> tuple[NDArray[np.int64], float]:
    """Usual bin of each feature, or -1, and how many entries a row has then, on average."""
    probe = bins[:: max(1, len(bins) // PROBED)]
    counts = [np.bincount(column) for column in probe.T]
    commonest = np.array([count.argmax() for count in counts], np.int64)
    share = np.array([count.max() for count in counts]) / len(probe)
    usual = np.where(share >= LEAST_SHARE, commonest, -1)
    return usual, float(np.where(usual >= 0, 1.0 - share, 1.0).sum())


def some_lists(
    lists: RowLists, rows: NDArray[np.uint32], threads: Threads, arena: Arena
) -> RowLists:
    """The lists of some rows, one after another."""
    slices = threads.slices(len(rows))
    lengths = threads.run(lambda a, b: total_length(lists.starts, rows[a:b]), len(rows))
    first = dict(zip((a for a, _ in slices), np.cumsum([0, *lengths[:-1]]), strict=True))
    starts = arena.take("sample starts", (len(rows) + 1,), _START)
    entries = arena.take("sample entries", (sum(lengths),), _ENTRY)
    threads.run(
        lambda a, b: copy_lists(*lists, rows[a:b], first[a], starts[a : b + 1], entries), len(rows)
    )
    return RowLists(starts, entries)


@kernel
def count_unusual(bins: Any, usual: Any, lengths: Any) -> None:
    """Length of the list of each row."""
    for i in range(bins.shape[0]):
        n = 0
        for f in range(bins.shape[1]):
            n += 1 if bins[i, f] != usual[f] else 0
        lengths[i] = n


@kernel
def write_unusual(bins: Any, usual: Any, places: Any, starts: Any, entries: Any) -> None:
    """The lists of rows, each from its start on."""
    for i in range(bins.shape[0]):
        k = starts[i]
        for f in range(bins.shape[1]):
            if bins[i, f] != usual[f]:
                entries[k] = places[f] + bins[i, f]
                k += 1


@kernel
def total_length(starts: Any, rows: Any) -> Any:
    """Entries of some rows."""
    total = np.int64(0)
    for j in range(rows.shape[0]):
        row = np.uint64(rows[j])
        total += np.int64(starts[row + _ONE]) - np.int64(starts[row])
    return total


@kernel
def copy_lists(
    starts: Any, entries: Any, rows: Any, first: Any, out_starts: Any, out_entries: Any
) -> None:
    """Copy the lists of some rows to `out_entries`, from `first` on."""
    n_rows, to = rows.shape[0], np.uint64(first)
    for j in range(n_rows):
        prefetch(entries, np.uint64(starts[np.uint64(rows[min(j + AHEAD, n_rows - 1)])]))
        row = np.uint64(rows[j])
        start, length = np.uint64(starts[row]), np.uint64(starts[row + _ONE] - starts[row])
        out_starts[j] = to
        for k in range(length):
            out_entries[to + k] = entries[start + k]
        to += length
    out_starts[n_rows] = to


@inlined
def add_lists_inlined(
    starts: Any, entries: Any, words: Any, bits: Any, order: Any, histogram: Any
) -> None:
    """Add the rows named in `order` to a histogram of shape (places, 2), but for usual bins."""
    flat, n_rows = histogram.reshape(-1), order.shape[0]
    for j in range(n_rows):
        soon = np.uint64(order[min(j + AHEAD, n_rows - 1)])
        prefetch(entries, np.uint64(starts[soon]))
        prefetch(words, soon)
        row = np.uint64(order[j])
        first, second = pair_of(words[row], bits)
        for k in range(np.uint64(starts[row]), np.uint64(starts[row + _ONE])):
            add_pair(flat, np.uint64(entries[k]) << _ONE, first, second)
