"""Bins: every column becomes bytes, at most 255 regular bins and one for missing values.

A numeric column is cut by edges; the bin of x is the number of edges that are at most x,
so bin b holds ``edges[b - 1] <= x < edges[b]``. A categorical column's bin is its code. A
column with more categories than bins becomes a few numeric ones first, see
`target_statistics`. Missing values have bin ``n_bins``, one after the regular bins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import Bins
from mvsboost.data.columns import (
    UNSEEN,
    CategoricalColumn,
    Column,
    Columns,
    DeviceColumn,
    Floats,
    NumericColumn,
)
from mvsboost.data.schema import Feature, Schema
from mvsboost.data.target_statistics import TargetStatistics, row_order
from mvsboost.errors import DataError, ParameterError
from mvsboost.exact.checksum import checksum
from mvsboost.exact.dtypes import BIN, MAX_BINS
from mvsboost.exact.random import Purpose, row_bits, row_bits_scalar, stream_key
from mvsboost.runtime.jit import kernel

__all__ = [
    "SAMPLE_ROWS",
    "BinFeature",
    "BinMapper",
    "TrainingRows",
    "check_settings",
    "find_edges",
    "sample_bits",
    "sampled_rows",
    "smallest_bits",
    "statistics_of_column",
]

SAMPLE_ROWS = 200_000
"""Rows that edges are found from, at most."""

_CROWDED = 4.0
"""Times its share of rows that a bin may hold before frequent values are cut out first.

Up to there the plain cut is kept: it uses every bin, and the other may leave some unused."""

_LARGEST = np.finfo(np.float64).max
_NO_EDGES = np.empty(0)

_BLOCK = 2048  # rows whose columns fit the second-level cache together


# --- edges --------------------------------------------------------------------------------------


def find_edges(values: Floats, max_bins: int = MAX_BINS) -> NDArray[np.float64]:
    """Increasing edges, at most ``max_bins - 1``, between distinct values.

    With at most `max_bins` distinct values each has a bin of its own. Otherwise bins hold
    about equally many rows: each closes at the distinct value that comes nearest to its
    share of the rows that are left, so that a frequent value costs those after it no bins.
    Where it would cost those before it too many, frequent values have their bins first.
    Infinities count as the largest numbers, so that edges are finite.

    Examples
    --------
    >>> import numpy as np
    >>> find_edges(np.array([1.0, 2.0, 2.0, 4.0, np.nan])).tolist()
    [1.5, 3.0]
    >>> find_edges(np.arange(100.0), max_bins=4).tolist()
    [24.5, 49.5, 74.5]
    """
    present = values[~np.isnan(values)].astype(np.float64).clip(-_LARGEST, _LARGEST)
    distinct, counts = np.unique(present, return_counts=True)
    if len(distinct) <= max_bins:
        return _between(distinct[:-1], distinct[1:])
    last = _closing_values(counts, max_bins)
    return _between(distinct[last], distinct[last + 1])


def _closing_values(counts: NDArray[np.int64], max_bins: int) -> NDArray[np.int64]:
    """Positions of the distinct values that close a bin, the last bin's left out."""
    rows = counts.astype(np.float64)
    closing, (frequent, bins) = _equal_shares(rows, max_bins), _frequent_values(counts, max_bins)
    rows[frequent] = 0.0
    if _largest(rows, closing) <= _CROWDED * rows.sum() / bins:
        return closing
    alone = np.concatenate([frequent, frequent - 1])  # closed on both sides
    closing = np.union1d(_equal_shares(rows, bins), alone)
    return closing[(closing >= 0) & (closing < len(rows) - 1)]


def _largest(rows: NDArray[np.float64], closing: NDArray[np.int64]) -> float:
    """Rows of the largest bin."""
    starts = np.concatenate([[0], closing + 1])
    return float(np.add.reduceat(rows, starts).max())


def _frequent_values(counts: NDArray[np.int64], max_bins: int) -> tuple[NDArray[np.int64], int]:
    """Positions of values with more rows than a bin of the others, and how many bins these have.

    One between others takes two bins from them, since it cuts one of theirs in two.
    """
    rows, bins, found = float(counts.sum()), max_bins, []
    most = np.argpartition(-counts, max_bins)[:max_bins]
    for j in most[np.lexsort((most, -counts[most]))].tolist():
        cost = 1 if j in (0, len(counts) - 1) else 2
        if bins - cost < 2 or counts[j] * bins <= rows:
            break
        found.append(j)
        rows, bins = rows - float(counts[j]), bins - cost
    return np.array(found, np.int64), bins


def _equal_shares(rows: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """Positions that close bins of about equally many rows, the last bin's left out."""
    closing = np.empty(bins - 1, np.int64)
    return closing[: _close_bins(np.cumsum(rows), closing)]


@kernel
def _close_bins(cumulative: NDArray[np.float64], closing: NDArray[np.int64]) -> int:
    """Write the positions that close a bin, given how many rows are up to each; their number."""
    last, n = cumulative.shape[0] - 1, 0
    previous, used = -1, 0.0
    while n < closing.shape[0]:
        goal = used + (cumulative[last] - used) / (closing.shape[0] + 1 - n)
        j, end = 0, last + 1
        while j < end:
            middle = (j + end) // 2
            if cumulative[middle] < goal:
                j = middle + 1
            else:
                end = middle
        if j - 1 > previous and goal - cumulative[j - 1] < cumulative[j] - goal:
            j -= 1
        if j >= last:
            break
        closing[n] = j
        n += 1
        previous, used = j, cumulative[j]
    return n


def _between(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Midpoints m with low < m <= high in float64, also where a sum would overflow."""
    middle = 0.5 * low + 0.5 * high
    # denormals lose their last bit when halved, and neighbours have nothing between them
    return np.where((low < middle) & (middle <= high), middle, high)


def sample_bits(start: int, stop: int, seed: int) -> NDArray[np.uint64]:
    """Random numbers of rows: edges are found from those of the smallest."""
    rows = np.arange(start, stop, dtype=np.uint64)
    bits: NDArray[np.uint64] = row_bits(stream_key(seed, 0, Purpose.BINNING), rows)
    return bits


def smallest_bits(bits: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """The rows of the n smallest numbers, in order."""
    return np.sort(np.argpartition(bits, n)[:n])


def sampled_rows(
    n_rows: int, seed: int, sample_rows: int, n_threads: int = 1
) -> NDArray[np.int64] | None:
    """The rows that edges are found from, in order: of smallest random number; None for all."""
    if n_rows <= sample_rows:
        return None
    # more than are wanted, but for a chance of one in 10**23, so that few are put in order
    expected = sample_rows + 10.0 * math.sqrt(sample_rows)
    rows, bits = _rows_below(min(expected / n_rows, 1.0), n_rows, seed, n_threads)
    if len(rows) <= sample_rows:
        rows, bits = _rows_below(1.0, n_rows, seed, n_threads)
    return rows[smallest_bits(bits, sample_rows)]


def _rows_below(
    share: float, n_rows: int, seed: int, n_threads: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """About this share of the rows, those of smallest random number, and the numbers."""
    most = np.uint64(min(int(share * 2.0**64), 2**64 - 1))
    key, size = stream_key(seed, 0, Purpose.BINNING), -(-n_rows // n_threads)

    def find(start: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        n = min(size, n_rows - start)
        rows, bits = np.empty(n, np.int64), np.empty(n, np.uint64)  # most is never touched
        found: int = _find_below(key, start, most, rows, bits)
        return rows[:found].copy(), bits[:found].copy()

    with ThreadPoolExecutor(n_threads) as pool:
        rows, bits = zip(*pool.map(find, range(0, n_rows, size)), strict=True)
    return np.concatenate(rows), np.concatenate(bits)


@kernel
def _find_below(key: Any, start: Any, most: Any, rows: Any, bits: Any) -> Any:
    n = np.int64(0)
    for i in range(rows.shape[0]):
        row = start + i
        found = row_bits_scalar(key, np.uint64(row))
        rows[n], bits[n] = row, found
        n += np.int64(found <= most)
    return n


# --- rows to bytes ------------------------------------------------------------------------------


@kernel
def _bin_block(
    values: NDArray[np.float64],
    edges: NDArray[np.float64],
    missing: int,
    out: NDArray[np.uint8],
    feature: int,
) -> None:
    # a search of fixed depth has no branch to mispredict; padding is NaN, which is never <= x
    for i in range(values.shape[0]):
        x = values[i]
        b = np.uint64(0)
        step = np.uint64(128)
        for _ in range(8):
            b += step * np.uint64(edges[b + step - np.uint64(1)] <= x)
            step >>= np.uint64(1)
        out[i, feature] = missing if np.isnan(x) else b


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Numbers to be cut by edges."""

    values: Floats
    edges: NDArray[np.float64]

    @cached_property
    def padded(self) -> NDArray[np.float64]:
        return np.concatenate([self.edges, np.full(MAX_BINS - len(self.edges), np.nan)])

    def write(self, start: int, out: NDArray[np.uint8], feature: int) -> None:
        # one block at a time becomes contiguous float64: one kernel for every kind of input
        block = np.ascontiguousarray(self.values[start : start + len(out)], np.float64)
        _bin_block(block, self.padded, len(self.edges) + 1, out, feature)


@dataclass(frozen=True, eq=False)
class _Codes:
    """Codes to be looked up."""

    codes: NDArray[np.int32]
    table: NDArray[np.uint8]

    def write(self, start: int, out: NDArray[np.uint8], feature: int) -> None:
        out[:, feature] = self.table[self.codes[start : start + len(out)] - UNSEEN]


@dataclass(frozen=True, eq=False)
class _Bins:
    """Bins that are known."""

    bins: NDArray[np.uint8]

    def write(self, start: int, out: NDArray[np.uint8], feature: int) -> None:
        out[:, feature] = self.bins[start : start + len(out)]


@dataclass(frozen=True, eq=False)
class _OnDevice:
    """Numbers on a device, to be cut there."""

    column: DeviceColumn
    edges: NDArray[np.float64]


_OnHost: TypeAlias = _Numbers | _Codes | _Bins
_Source: TypeAlias = _OnHost | _OnDevice


def _numbers(column: NumericColumn | DeviceColumn, edges: NDArray[np.float64]) -> _Source:
    if isinstance(column, DeviceColumn):
        return _OnDevice(column, edges)
    return _Numbers(column.values, edges)


def _write_rows(sources: Sequence[_Source], n_rows: int, n_threads: int) -> Bins:
    """Bins of rows; on the device, if there is a table there."""
    others = [source for source in sources if not isinstance(source, _OnDevice)]
    bins = _write_on_host(others, n_rows, n_threads)
    if len(others) == len(sources):
        return bins
    columns: list[int] = []
    known = 0
    for source in sources:
        if isinstance(source, _OnDevice):
            table = source.column.table
            columns.append(source.column.index)
        else:
            known += 1
            columns.append(-known)
    edges = [getattr(source, "edges", _NO_EDGES) for source in sources]
    return table.bins(columns, edges, bins)


def _write_on_host(sources: Sequence[_OnHost], n_rows: int, n_threads: int) -> NDArray[np.uint8]:
    bins = np.empty((n_rows, len(sources)), BIN)

    def write(start: int) -> None:
        out = bins[start : start + _BLOCK]
        for feature, source in enumerate(sources):
            source.write(start, out, feature)

    starts = range(0, n_rows if sources else 0, _BLOCK)
    if n_threads <= 1 or len(starts) <= 1:
        for start in starts:
            write(start)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(write, starts))
    return bins


# --- the mapper ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BinFeature:
    """One binned feature.

    Attributes
    ----------
    name : str
    source : int
        Input column it comes from.
    edges : float64 array or None
        None where the bin is the category's code.
    values : float64 array or None
        Of a derived feature, the number each category stands for; see `TargetStatistics`.
    n_categories : int
        Categories of the input column; 0 if it is numeric.
    """

    name: str
    source: int
    edges: NDArray[np.float64] | None
    values: NDArray[np.float64] | None = None
    n_categories: int = 0

    @property
    def n_bins(self) -> int:
        """Regular bins."""
        return max(self.n_categories, 1) if self.edges is None else len(self.edges) + 1

    @cached_property
    def table(self) -> NDArray[np.uint8]:
        """Bin of each category, entry ``code + 2``; the first two are unseen and missing."""
        if self.edges is None or self.values is None:
            table = np.arange(UNSEEN, self.n_categories)
            table[:2] = self.n_bins
            return table.astype(BIN)
        return np.searchsorted(self.edges, self.values, side="right").astype(BIN)

    def to_dict(self) -> dict[str, Any]:
        """As plain lists, strings and numbers, ready for JSON."""
        return {
            "name": self.name,
            "source": self.source,
            "edges": None if self.edges is None else self.edges.tolist(),
            "values": None if self.values is None else self.values.tolist(),
            "n_categories": self.n_categories,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> BinFeature:
        """The inverse of `to_dict`."""
        arrays = {
            key: None if state[key] is None else np.array(state[key], np.float64)
            for key in ("edges", "values")
        }
        return cls(
            state["name"], state["source"], arrays["edges"], arrays["values"], state["n_categories"]
        )


def _statistics_sources(features: Sequence[BinFeature]) -> list[int]:
    return sorted({f.source for f in features if f.values is not None})


@dataclass(frozen=True)
class TrainingRows:
    """By what rows are known again that target statistics were taken of.

    Attributes
    ----------
    seed : int
        Of the order in which they were taken.
    n_rows : int
    check : int
        Of the categories and the targets.
    """

    seed: int
    n_rows: int
    check: int

    @classmethod
    def of(
        cls,
        features: Sequence[BinFeature],
        columns: Columns,
        targets: NDArray[np.float64] | None,
        seed: int,
    ) -> TrainingRows | None:
        """Of rows with these columns and targets; None where no column became statistics."""
        sources = _statistics_sources(features)
        if not sources or targets is None:
            return None
        check = checksum(targets)
        for source in sources:
            column = columns.columns[source]
            assert isinstance(column, CategoricalColumn)
            check = checksum(column.codes, before=check)
        return cls(int(seed), columns.n_rows, check)


@dataclass(frozen=True, eq=False)
class BinMapper:
    """How columns become bins.

    Attributes
    ----------
    features : tuple of BinFeature
        Binned features in order. An input column makes one, or, with more categories than
        bins, one for each target's mean and one for the category's count.
    training : TrainingRows or None
        Which rows the means were taken of; None where there are none.

    Examples
    --------
    >>> from mvsboost.data import Schema, ingest
    >>> columns = ingest({"age": [31.0, 42.0, None], "city": ["Oslo", "Bergen", "Oslo"]})
    >>> mapper = BinMapper.fit(columns, Schema.from_columns(columns))
    >>> mapper.transform(columns).tolist()
    [[0, 1], [1, 0], [2, 1]]
    """

    features: tuple[BinFeature, ...]
    training: TrainingRows | None = None

    @classmethod
    def fit(
        cls,
        columns: Columns,
        schema: Schema,
        *,
        targets: NDArray[np.float64] | None = None,
        weight: NDArray[np.float64] | None = None,
        max_bins: int = MAX_BINS,
        seed: int = 0,
        sample_rows: int = SAMPLE_ROWS,
    ) -> BinMapper:
        """Find the bins of training columns.

        Parameters
        ----------
        columns : Columns
        schema : Schema
            Of the same columns.
        targets : float64 array of shape (n_targets, n_rows), optional
            See `target_columns`; needed where a column has more categories than bins.
        weight : float64 array of shape (n_rows,), optional
            Row weights, for the target statistics only.
        max_bins : int from 2 to 255
        seed : int
        sample_rows : int
            Edges are found from at most this many rows.
        """
        check_settings(max_bins, sample_rows)
        rows = sampled_rows(columns.n_rows, seed, sample_rows)
        encoder = _Encoder(targets, weight, seed, max_bins, rows)
        features = tuple(f for f, _ in encoder.encode(columns, schema))
        return cls(features, TrainingRows.of(features, columns, targets, seed))

    @classmethod
    def fit_transform(
        cls,
        columns: Columns,
        schema: Schema,
        *,
        targets: NDArray[np.float64] | None = None,
        weight: NDArray[np.float64] | None = None,
        max_bins: int = MAX_BINS,
        seed: int = 0,
        sample_rows: int = SAMPLE_ROWS,
        n_threads: int = 1,
    ) -> tuple[BinMapper, Bins]:
        """Find the bins and bin the training rows, parameters as for `fit`.

        Not the same as `fit` and then `transform`: where a column became target
        statistics, a training row sees only the rows that come before it in their order.
        """
        check_settings(max_bins, sample_rows)
        rows = sampled_rows(columns.n_rows, seed, sample_rows, n_threads)
        encoder = _Encoder(targets, weight, seed, max_bins, rows)
        features, sources = zip(*encoder.encode(columns, schema, n_threads), strict=True)
        training = TrainingRows.of(features, columns, targets, seed)
        return cls(features, training), _write_rows(sources, columns.n_rows, n_threads)

    def transform_again(
        self,
        columns: Columns,
        targets: NDArray[np.float64],
        weight: NDArray[np.float64] | None = None,
        n_threads: int = 1,
    ) -> Bins | None:
        """Bins that rows had when `fit_transform` found these bins; None if they are others.

        Where a column became target statistics, `transform` would show each row its own target.
        Parameters are those of `fit_transform`; `columns` must have passed `Schema.check`.
        """
        statistics, known = self.statistics_sources, self.training
        if not statistics:
            return self.transform(columns, n_threads)
        # files of before do not say which rows they were
        if known is None or known != TrainingRows.of(self.features, columns, targets, known.seed):
            return None
        order, sources = row_order(columns.n_rows, known.seed), self._sources(columns)
        for source in statistics:
            column = columns.columns[source]
            assert isinstance(column, CategoricalColumn)
            _, rows = TargetStatistics.fit_transform(column, targets, weight, order=order)
            own = [f for f, feature in enumerate(self.features) if feature.source == source]
            for f, values in zip(own, rows, strict=True):
                edges = self.features[f].edges
                assert edges is not None
                sources[f] = _Numbers(values, edges)
        return _write_rows(sources, columns.n_rows, n_threads)

    def transform(
        self,
        columns: Columns,
        n_threads: int = 1,
        given: Mapping[int, NDArray[np.uint8]] | None = None,
    ) -> Bins:
        """Bins of rows at prediction, (n_rows, n_features) in C order.

        `columns` must have passed `Schema.check`. A category unseen in training goes with
        the missing values, or to the prior where the column became target statistics; rows
        to train on have the bins that are `given` for such features.
        """
        sources = self._sources(columns)
        for feature, bins in (given or {}).items():
            sources[feature] = _Bins(bins)
        return _write_rows(sources, columns.n_rows, n_threads)

    def _sources(self, columns: Columns) -> list[_Source]:
        sources: list[_Source] = []
        for feature in self.features:
            column = columns.columns[feature.source]
            if isinstance(column, CategoricalColumn):
                sources.append(_Codes(column.codes, feature.table))
            else:
                assert feature.edges is not None
                sources.append(_numbers(column, feature.edges))
        return sources

    @property
    def n_features(self) -> int:
        """Number of binned features."""
        return len(self.features)

    @property
    def n_bins(self) -> NDArray[np.int64]:
        """Regular bins of each feature; a missing value has bin ``n_bins[f]``."""
        return np.array([f.n_bins for f in self.features], np.int64)

    @property
    def is_categorical(self) -> NDArray[np.bool_]:
        """Features whose bins have no order."""
        return np.array([f.edges is None for f in self.features])

    @property
    def of_target(self) -> NDArray[np.bool_]:
        """Features that are means of the target, so that rows trained on have bins of their own."""
        following = [*self.features[1:], None]
        return np.array(
            [
                f.values is not None and other is not None and other.source == f.source
                for f, other in zip(self.features, following, strict=True)
            ]  # the last one of a column is the category's count
        )

    @property
    def statistics_sources(self) -> list[int]:
        """Input columns that became target statistics."""
        return _statistics_sources(self.features)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the binned features."""
        return tuple(f.name for f in self.features)

    @property
    def source(self) -> NDArray[np.int64]:
        """Input column of each binned feature."""
        return np.array([f.source for f in self.features], np.int64)

    def threshold(self, feature: int, split: int) -> float:
        """The real t such that a row of bin at most `split` has x < t.

        Examples
        --------
        >>> import numpy as np
        >>> from mvsboost.data import Schema, ingest
        >>> columns = ingest(np.array([[1.0], [2.0], [4.0]]))
        >>> BinMapper.fit(columns, Schema.from_columns(columns)).threshold(0, 1)
        3.0
        """
        edges = self.features[feature].edges
        if edges is None:
            raise ParameterError("feature", feature, "a numeric feature; this one is categorical")
        if not 0 <= split < len(edges):
            raise ParameterError("split", split, f"a bin from 0 to {len(edges) - 1}")
        return float(edges[split])

    def is_same_as(self, other: BinMapper) -> bool:
        """Whether any row gets the same bins by either."""
        return self is other or self.to_dict()["features"] == other.to_dict()["features"]

    def to_dict(self) -> dict[str, Any]:
        """As plain lists, strings and numbers, ready for JSON; floats keep every bit."""
        features = [f.to_dict() for f in self.features]
        if self.training is None:
            return {"features": features}
        return {"features": features, "training": asdict(self.training)}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> BinMapper:
        """The inverse of `to_dict`."""
        training = TrainingRows(**state["training"]) if "training" in state else None
        return cls(tuple(BinFeature.from_dict(f) for f in state["features"]), training)


def statistics_of_column(
    column: CategoricalColumn,
    name: str,
    source: int,
    *,
    targets: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    max_bins: int,
    seed: int,
    sample_rows: int = SAMPLE_ROWS,
) -> tuple[list[BinFeature], list[NDArray[np.uint8]]]:
    """The features that a column of more categories than bins becomes, and its rows' bins."""
    rows = sampled_rows(column.n_rows, seed, sample_rows)
    encoder = _Encoder(targets, weight, seed, max_bins, rows)
    encoded = encoder.encode_one(column, Feature(name, column.categories, column.kind), source)
    bins = [_write_rows([one], column.n_rows, 1)[:, 0] for _, one in encoded]
    return [feature for feature, _ in encoded], bins


def check_settings(max_bins: int, sample_rows: int) -> None:
    """Raise a `ParameterError` for what no bins can be found with."""
    if not 2 <= max_bins <= MAX_BINS:
        raise ParameterError("max_bins", max_bins, f"from 2 to {MAX_BINS}")
    if sample_rows < 1:
        raise ParameterError("sample_rows", sample_rows, "at least 1")


@dataclass(frozen=True, eq=False)
class _Encoder:
    """From training columns to features, each with what its training rows are binned from."""

    targets: NDArray[np.float64] | None
    weight: NDArray[np.float64] | None
    seed: int
    max_bins: int
    rows: NDArray[np.int64] | None

    @cached_property
    def order(self) -> NDArray[np.int64]:
        assert self.targets is not None
        return row_order(self.targets.shape[1], self.seed)

    def encode(
        self, columns: Columns, schema: Schema, n_threads: int = 1
    ) -> list[tuple[BinFeature, _Source]]:
        for column in columns.columns:
            if isinstance(column, DeviceColumn):
                column.sample(self.rows)  # of all columns at once, by this thread
        each = columns.columns, schema.features, range(columns.n_columns)
        if n_threads <= 1:
            return list(chain.from_iterable(map(self.encode_one, *each)))
        with ThreadPoolExecutor(n_threads) as pool:
            return list(chain.from_iterable(pool.map(self.encode_one, *each)))

    def encode_one(
        self, column: Column, field: Feature, source: int
    ) -> list[tuple[BinFeature, _Source]]:
        if not isinstance(column, CategoricalColumn):
            edges = find_edges(column.sample(self.rows), self.max_bins)
            return [(BinFeature(field.name, source, edges), _numbers(column, edges))]
        if len(column.categories) <= self.max_bins:
            feature = BinFeature(field.name, source, None, n_categories=len(column.categories))
            return [(feature, _Codes(column.codes, feature.table))]
        return self._statistics(column, field.name, source)

    def _statistics(
        self, column: CategoricalColumn, name: str, source: int
    ) -> list[tuple[BinFeature, _Source]]:
        n_categories = len(column.categories)
        if self.targets is None:
            raise DataError(
                f"Column {name!r} has {n_categories} categories, more than max_bins="
                f"{self.max_bins}, and becomes means of the target: hand in the targets."
            )
        statistics, rows = TargetStatistics.fit_transform(
            column, self.targets, self.weight, order=self.order
        )
        suffixes = ["mean target"]
        if len(self.targets) > 1:
            suffixes = [f"mean of class {k}" for k in range(len(self.targets))]
        encoded: list[tuple[BinFeature, _Source]] = []
        for k, suffix in enumerate([*suffixes, "log count"]):
            chosen = rows[k] if self.rows is None else rows[k][self.rows]
            edges = find_edges(chosen, self.max_bins)
            feature = BinFeature(
                f"{name} ({suffix})", source, edges, statistics.values[k], n_categories
            )
            encoded.append((feature, _Numbers(rows[k], edges)))
        return encoded
