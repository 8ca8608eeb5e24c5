"""Tables of numbers that are on the device already: what the host asks of them, and their bins."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cuda.device import (
    BLOCK,
    ONE_AT_A_TIME,
    borrowed,
    bring,
    cuda,
    each,
    filled,
    kernel,
    on_device,
    put,
    room,
    whole_numbers,
)
from mvsboost.backends.cuda.programs import step
from mvsboost.backends.cuda.rows import BINS_OF_WORD
from mvsboost.backends.messages import ForestArrays
from mvsboost.exact.dtypes import BIN, MAX_BINS, SCORE
from mvsboost.kernels import predict

_leaf_of = whole_numbers(predict.leaf_of)


@kernel
def take_values(values: Any, first: Any, rows: Any, out: Any) -> None:
    """Values of some rows, or of all, from a first column on."""
    n_columns = out.shape[1]
    for item in each(out.shape[0] * n_columns):
        i, j = item // n_columns, item % n_columns
        out[i, j] = values[rows[i] if rows.shape[0] > 0 else i, first + j]


@kernel
def note_present(values: Any, found: Any) -> None:
    """Set an entry for each column that has a value."""
    n_columns = found.shape[0]
    for item in each(values.shape[0] * n_columns):
        i, j = item // n_columns, item % n_columns
        if found[j] == 0 and values[i, j] == values[i, j]:
            found[j] = 1


@on_device
def _bin_of(x: Any, edges: Any, feature: Any) -> Any:
    """How many edges are at most x; there is room for 255, and the rest is NaN."""
    found, step = np.int64(0), np.int64(128)
    while step > 0:
        if edges[feature, found + step - 1] <= x:
            found += step
        step >>= 1
    return found


@kernel
def bin_values(
    values: Any, columns: Any, edges: Any, missing: Any, others: Any, words: Any
) -> None:
    """Bins of rows, eight to a word.

    A feature is cut from a column of `values`, or is column −1 − c of `others`, for c < 0.
    """
    n_features, n_words = columns.shape[0], words.shape[1]
    for item in each(words.shape[0] * n_words):
        i, at = item // n_words, item % n_words
        word = np.int64(0)
        for f in range(BINS_OF_WORD * at, min(BINS_OF_WORD * (at + 1), n_features)):
            column = columns[f]
            if column < 0:
                found = np.int64(others[i, -1 - column])
            else:
                x = np.float64(values[i, column])
                found = _bin_of(x, edges, f) if x == x else missing[f]
            word |= found << (8 * (f % BINS_OF_WORD))
        words[i, at] = word


class _Forest(NamedTuple):
    """The arrays of a forest; see `messages.ForestArrays`."""

    roots: Any
    outputs: Any
    feature: Any
    left: Any
    right: Any
    sets: Any
    value: Any


@kernel
def score_rows(bins: Any, baseline: Any, forest: Any, score: Any) -> None:
    """Scores of rows: the baseline, and the values of their leaves, in the order of the trees."""
    feature, left, right, sets = forest.feature, forest.left, forest.right, forest.sets
    for i in each(score.shape[1]):
        for k in range(score.shape[0]):
            score[k, i] = baseline[k]
        for t in range(forest.roots.shape[0]):
            leaf = _leaf_of(bins, i, forest.roots[t], feature, left, right, sets)
            score[forest.outputs[t], i] += forest.value[leaf]


def _run(compiled: Any, n: int, *arguments: Any) -> None:
    """Run a kernel once, and wait for its end."""
    once = step(compiled, n, *arguments)
    with ONE_AT_A_TIME:
        once.compiled[once.blocks, BLOCK](*once.arguments)
        cuda.synchronize()


def _chosen(values: Any, rows: NDArray[Any] | None, order: str, column: int | None = None) -> Any:
    """A copy of some rows, or of all, on the device; of all columns, or of one."""
    n = values.shape[0] if rows is None else len(rows)
    first, n_columns = (0, values.shape[1]) if column is None else (column, 1)
    out = room((n, n_columns), values.dtype, order)
    if n:
        numbers = put(np.empty(0, np.int64) if rows is None else rows.astype(np.int64))
        # Numba's own slices of arrays with negative strides begin elsewhere
        _run(take_values, out.size, values, first, numbers, out)
    return out


class Table:
    """A table of numbers on the device, which is not copied.

    Parameters
    ----------
    values : array on the device
        Of two dimensions.
    """

    def __init__(self, values: Any) -> None:
        self._values = values
        self.shape: tuple[int, int] = tuple(values.shape)
        self.dtype = np.dtype(values.dtype)
        self._taken: tuple[Any, Table] | None = None
        self._sample: tuple[Any, NDArray[Any]] | None = None

    @classmethod
    def of(cls, array: Any) -> Table:
        """Of an array of one or two dimensions, by its interface; one becomes a column."""
        interface = dict(array.__cuda_array_interface__)
        if len(interface["shape"]) == 1:
            interface["shape"] = (*interface["shape"], 1)
            strides = interface.get("strides")
            interface["strides"] = None if strides is None else (*strides, *strides)
        return cls(borrowed(interface, array))

    def values(self, column: int | None = None) -> NDArray[Any]:
        """All values on the host, or those of one column, in the order of Fortran."""
        found: NDArray[Any] = bring(_chosen(self._values, None, "F", column))
        return found

    def sample(self, rows: NDArray[np.int64] | None) -> NDArray[Any]:
        """Values of some rows, or of all, on the host, in the order of Fortran."""
        if self._sample is None or self._sample[0] is not rows:
            self._sample = rows, bring(_chosen(self._values, rows, "F"))
        return self._sample[1]

    def take(self, rows: NDArray[Any]) -> Table:
        """A table of the chosen rows (mask or indices)."""
        if self._taken is None or self._taken[0] is not rows:
            chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
            self._taken = rows, Table(_chosen(self._values, chosen, "C"))
        return self._taken[1]

    @cached_property
    def has_values(self) -> NDArray[np.bool_]:
        """Columns that have a value in any row."""
        n_rows, n_columns = self.shape
        if self.dtype.kind != "f":
            return np.ones(n_columns, np.bool_)
        found = filled(n_columns, np.int32)
        _run(note_present, n_rows * n_columns, self._values, found)
        is_there: NDArray[np.bool_] = bring(found) != 0
        return is_there

    def bins(
        self,
        columns: Sequence[int],
        edges: Sequence[NDArray[np.float64]],
        others: NDArray[np.uint8],
    ) -> Bins:
        """Bins of all rows; see `messages.DeviceTable`."""
        padded = np.full((len(columns), MAX_BINS), np.nan)
        for row, own in zip(padded, edges, strict=True):
            row[: len(own)] = own
        missing = np.array([len(own) + 1 for own in edges], np.int64)
        words = room((self.shape[0], -(-len(columns) // BINS_OF_WORD)), np.int64)
        known = others if others.size else np.zeros((1, 1), BIN)
        given = [put(part) for part in (np.array(columns, np.int64), padded, missing, known)]
        _run(bin_values, words.size, self._values, *given, words)
        return Bins(words, len(columns))


class Bins:
    """Bins of rows on the device, in the layout in which `CUDABackend` keeps them.

    Parameters
    ----------
    words : array on the device
        int64 of shape (n_rows, n_features / 8).
    n_features : int
    """

    def __init__(self, words: Any, n_features: int) -> None:
        self.words = words
        self.shape = int(words.shape[0]), n_features

    def on_host(self, start: int = 0, stop: int | None = None) -> NDArray[np.uint8]:
        """A copy of the bins of rows start to stop."""
        words = bring(self.words[start:stop])
        return np.ascontiguousarray(words.view(BIN)[:, : self.shape[1]])

    def scores(self, baseline: NDArray[np.float64], forest: ForestArrays) -> NDArray[np.float64]:
        """Scores of the rows, on the host; see `messages.DeviceBins`."""
        arrays = _Forest(*(put(getattr(forest, name)) for name in _Forest._fields))
        n_rows, score = self.shape[0], room((len(baseline), self.shape[0]), SCORE)
        _run(score_rows, n_rows, self.words.view(BIN), put(baseline), arrays, score)
        found: NDArray[np.float64] = bring(score)
        return found
