"""Tables in files become binned rows in two passes, a batch of rows at a time.

The first pass learns what the columns are and keeps the rows that edges are found from; the
second bins. Columns with more categories than bins are read once more between the two: their
means of the target need all rows in their own order, some 40 bytes a row for as long as one
such column is at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import BinnedRows
from mvsboost.data.binning import (
    BinFeature,
    BinMapper,
    TrainingRows,
    find_edges,
    sample_bits,
    smallest_bits,
    statistics_of_column,
)
from mvsboost.data.columns import CategoricalColumn, Columns
from mvsboost.data.files import TableFiles, progress_bar, read_until_settled
from mvsboost.data.ingest import CategoricalFeatures, ingest
from mvsboost.data.parts import describe, features_of, merge_described
from mvsboost.data.schema import Schema
from mvsboost.data.target_statistics import target_columns
from mvsboost.data.targets import in_units, labels_of, target_of, unit_of_weights, weights_of
from mvsboost.errors import DataError, ParameterError
from mvsboost.exact.checksum import checksum

__all__ = ["Binning", "FileRequest", "Room", "StreamedTable", "Survey"]

T = TypeVar("T")

_DISTINCT = 256
"""Values of a target that stand for all, if there are more."""


class Room(Protocol):
    """Where binned rows go, one batch after another."""

    def append(self, rows: BinnedRows) -> None:
        """Take the next rows."""


@dataclass(frozen=True)
class FileRequest:
    """What is asked of a table in files; see `Dataset.from_parquet`."""

    target: str
    weight: str | None
    categorical_features: CategoricalFeatures
    labels: bool
    n_classes: int
    max_bins: int
    seed: int
    sample_rows: int
    n_threads: int
    batch_bytes: int
    progress: bool
    classes: NDArray[Any] | None = None

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return self.weight is not None

    def check(self, files: TableFiles) -> None:
        """The columns that are named must be there."""
        for parameter in ("target", "weight"):
            name = getattr(self, parameter)
            if name is not None and name not in files.names:
                allowed = f"a column of the files: {', '.join(files.names)}"
                raise ParameterError(parameter, name, allowed)
        if self.labels and self.n_classes:
            allowed = "left out with labels=True, which finds the classes"
            raise ParameterError("n_classes", self.n_classes, allowed)


@dataclass(frozen=True, eq=False)
class Survey:
    """What the first pass learns.

    Attributes
    ----------
    described : Columns
        What the columns are; see `parts`.
    n_rows : int
    sample : list of float arrays
        Values of the rows that edges are found from, by column; NaN where it holds categories.
    distinct : array
        Labels in order; of numbers those that occur, of many the largest and some of the least.
    largest_weight : float
    """

    described: Columns
    n_rows: int
    sample: list[NDArray[Any]]
    distinct: NDArray[Any]
    largest_weight: float


class Binning(NamedTuple):
    """How columns become bins.

    Attributes
    ----------
    schema : Schema
    mapper : BinMapper
    given : dict from feature to uint8 array
        Bins that the rows have in features that are means of the target.
    """

    schema: Schema
    mapper: BinMapper
    given: dict[int, NDArray[np.uint8]]


class _Sample:
    """Values of the rows of smallest random number, of all that have come so far."""

    def __init__(self, seed: int, n_rows: int) -> None:
        self._seed, self._n_rows = seed, n_rows
        self._limit = np.uint64(2**64 - 1)
        self._bits: list[NDArray[np.uint64]] = []
        self._values: list[list[NDArray[Any]]] = []

    def add(self, start: int, columns: Columns) -> None:
        bits = sample_bits(start, start + columns.n_rows, self._seed)
        rows = np.flatnonzero(bits <= self._limit)
        self._bits.append(bits[rows])
        self._values.append(
            [
                np.full(len(rows), np.nan, np.float32)  # categories, or no value at all
                if isinstance(column, CategoricalColumn)
                else column.values[rows]
                for column in columns.columns
            ]
        )
        if sum(map(len, self._bits)) > self._n_rows * 5 // 4:
            self._keep_smallest()

    def _keep_smallest(self) -> None:
        bits = np.concatenate(self._bits)
        if len(bits) > self._n_rows:
            kept = smallest_bits(bits, self._n_rows)
            self._bits, self._limit = [bits[kept]], bits[kept].max()
            columns = zip(*self._values, strict=True)
            self._values = [[np.concatenate(values)[kept] for values in columns]]

    def columns(self) -> list[NDArray[Any]]:
        """Of the rows in their order."""
        self._keep_smallest()
        return [np.concatenate(values) for values in zip(*self._values, strict=True)]


class StreamedTable:
    """A table in files, as it becomes binned rows; it has been read once when this is made.

    Parameters
    ----------
    files : TableFiles
    request : FileRequest

    Attributes
    ----------
    survey : Survey
    """

    def __init__(self, files: TableFiles, request: FileRequest) -> None:
        request.check(files)
        self._files, self._request = files, request
        self._beside = [name for name in (request.target, request.weight) if name is not None]
        self.survey = read_until_settled(self._read)

    def _each(
        self, what: str, take: Callable[[int, Any], T], columns: list[str] | None = None
    ) -> list[T]:
        """What a function makes of each batch of rows, given the number of its first."""
        start, files, request, found = 0, self._files, self._request, list[T]()
        with progress_bar(request.progress, what, files.n_rows) as done:
            for batch in files.batches(request.batch_bytes, columns):
                try:
                    found.append(take(start, batch))
                except DataError as error:
                    if not start:
                        raise
                    raise type(error)(f"{error} (counted from row {start})") from error
                done(batch.num_rows)
                start += batch.num_rows
        return found

    def _columns(self, batch: Any) -> Columns:
        features = batch.drop(self._beside)
        return ingest(features, categorical_features=self._request.categorical_features)

    def _target(self, batch: Any) -> NDArray[Any]:
        """Labels, or numbers."""
        values = batch.column(self._request.target).to_numpy()
        if self._request.labels:
            return labels_of(values)
        return target_of(values, len(values), self._request.n_classes)

    def _weight(self, batch: Any) -> NDArray[np.float64] | None:
        if self._request.weight is None:
            return None
        values = batch.column(self._request.weight).to_numpy()
        return weights_of(values, len(values), "weight")

    # --- the first pass -------------------------------------------------------------------------

    def _read(self) -> Survey:
        request = self._request
        sample = _Sample(request.seed, request.sample_rows)
        described: list[Columns] = []
        distinct: list[NDArray[Any]] = []

        def look(start: int, batch: Any) -> tuple[int, float]:
            columns = self._columns(batch)
            described[:] = [merge_described([*described, describe(columns)])]
            sample.add(start, columns)
            found = _together([*distinct, np.unique(self._target(batch))])
            if not request.labels and len(found) > _DISTINCT:
                found = np.append(found[: _DISTINCT - 1], found[-1])
            distinct[:] = [found]
            weight = self._weight(batch)
            return columns.n_rows, 1.0 if weight is None else float(weight.max())

        sizes, largest = zip(*self._each("reading", look), strict=True)
        if max(largest) == 0.0:
            raise DataError("weight must not be zero for every row")
        return Survey(described[0], sum(sizes), sample.columns(), distinct[0], max(largest))

    # --- between the two ------------------------------------------------------------------------

    def find_bins(self) -> Binning:
        """How columns become bins."""
        request, survey = self._request, self.survey
        described, schema = survey.described, Schema.from_columns(survey.described)
        given: dict[int, NDArray[np.uint8]] = {}
        checks: list[int] = []

        def wide(source: int, first: int) -> list[BinFeature]:
            targets, weight = self._vectors
            codes, field = self._codes(schema, source), schema.features[source]
            before = checks[-1] if checks else checksum(targets)
            checks.append(checksum(codes, before=before))
            found, bins = statistics_of_column(
                CategoricalColumn(codes, field.categories or (), field.kind),
                field.name,
                source,
                targets=targets,
                weight=weight,
                max_bins=request.max_bins,
                seed=request.seed,
                sample_rows=request.sample_rows,
            )
            given.update(enumerate(bins, start=first))
            return found

        def edges(source: int) -> NDArray[np.float64]:
            return find_edges(survey.sample[source], request.max_bins)

        features = features_of(described, schema.names, request.max_bins, edges, wide)
        training = None
        if checks:
            training = TrainingRows(int(request.seed), survey.n_rows, checks[-1])
        return Binning(schema, BinMapper(tuple(features), training), given)

    @cached_property
    def _vectors(self) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Targets whose means are taken, and weights, of all rows."""

        def read(start: int, batch: Any) -> tuple[NDArray[np.float64], Any]:
            weight = in_units(self._weight(batch), self.unit)
            return self.numbers(self._target(batch)), weight

        parts = self._each("target", read, self._beside)
        weights = [weight for _, weight in parts if weight is not None]
        target = np.concatenate([target for target, _ in parts])
        return target_columns(target, self.n_classes), np.concatenate(weights) if weights else None

    def _codes(self, schema: Schema, source: int) -> NDArray[np.int32]:
        """Categories of all rows in a column."""
        field, auto = schema.features[source], isinstance(self._request.categorical_features, str)
        alone, kind = Schema((field,), named=True), "auto" if auto else [field.name]

        def read(start: int, batch: Any) -> NDArray[np.int32]:
            (column,) = alone.check(ingest(batch, categorical_features=kind)).columns
            assert isinstance(column, CategoricalColumn)
            return column.codes

        return np.concatenate(self._each(field.name, read, [field.name]))

    # --- the second pass ------------------------------------------------------------------------

    @property
    def n_classes(self) -> int:
        """Of the target; 0 where it holds numbers."""
        return self._request.n_classes if self.classes is None else max(2, len(self.classes))

    @property
    def classes(self) -> NDArray[Any] | None:
        """Labels, in the order of their numbers."""
        if self._request.classes is not None:
            return self._request.classes
        if self._request.labels:
            return self.survey.distinct
        return np.arange(self._request.n_classes) if self._request.n_classes else None

    @property
    def extremes(self) -> NDArray[np.float64]:
        """Targets that stand for all."""
        return self.numbers(self.survey.distinct)

    @property
    def unit(self) -> float:
        """What weights are multiples of."""
        return 1.0 if self._request.weight is None else unit_of_weights(self.survey.largest_weight)

    def numbers(self, target: NDArray[Any]) -> NDArray[np.float64]:
        """A target as numbers."""
        classes = self.classes
        if not self._request.labels or classes is None:
            return target
        unknown = target[~np.isin(target, classes)]
        if len(unknown):
            raise DataError(
                f"y holds class {unknown.tolist()[0]!r}, which is not among {classes.tolist()}"
            )
        return np.searchsorted(classes, target).astype(np.float64)

    def bin_into(self, room: Room, binning: Binning) -> None:
        """Bin all rows into a room."""

        def bin_rows(start: int, batch: Any) -> None:
            columns = binning.schema.check(self._columns(batch))
            stop = start + columns.n_rows
            given = {feature: bins[start:stop] for feature, bins in binning.given.items()}
            bins = binning.mapper.transform(columns, self._request.n_threads, given)
            target = self.numbers(self._target(batch))
            weight = in_units(self._weight(batch), self.unit)
            room.append(BinnedRows(bins, binning.mapper.n_bins, target, weight, start))

        self._each("binning", bin_rows)


def _together(parts: list[NDArray[Any]]) -> NDArray[Any]:
    if len({part.dtype.kind == "O" for part in parts}) > 1:
        shown = " and ".join(repr(part.tolist()[0]) for part in parts)
        raise DataError(f"y must hold labels of one type: there are {shown}")
    return np.unique(np.concatenate(parts))
