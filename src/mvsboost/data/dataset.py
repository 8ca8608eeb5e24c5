"""A table and its target, binned and checked: what training takes."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from os import PathLike
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import BinnedRows, Bins, bins_on_host
from mvsboost.data.binning import SAMPLE_ROWS, BinMapper, check_settings
from mvsboost.data.columns import UNSEEN, CategoricalColumn, Columns
from mvsboost.data.device import on_host
from mvsboost.data.files import BATCH_BYTES, CsvFiles, ParquetFiles, Source, TableFiles
from mvsboost.data.ingest import CategoricalFeatures, ingest
from mvsboost.data.schema import Schema
from mvsboost.data.store import (
    MemoryRoom,
    Stored,
    StoreWriter,
    bytes_of,
    check_place,
    origin_of,
    read_store,
    tidy,
)
from mvsboost.data.streaming import Binning, FileRequest, StreamedTable
from mvsboost.data.target_statistics import target_columns
from mvsboost.data.targets import (
    as_numbers,
    in_units,
    target_of,
    unit_of_weights,
    weights_of,
)
from mvsboost.errors import DataError, ParameterError, StoreError
from mvsboost.exact.checks import first_of
from mvsboost.exact.checksum import checksum
from mvsboost.exact.dtypes import MAX_BINS
from mvsboost.runtime.threads import threads_of

__all__ = ["Dataset", "check_init_score", "check_weight"]

_SMALL_BATCH = 1 << 22  # bytes of a batch of rows of a file, at least
_COMPARED = 1 << 20  # rows that are compared at a time


class ChecksTargets(Protocol):
    """What a data set asks of an objective."""

    def check_target(self, y: NDArray[np.float64]) -> None:
        """Raise a `DataError` if the objective cannot be trained on `y`."""

    def check_values(self, y: NDArray[np.float64]) -> None:
        """Raise a `DataError` if the objective is not defined for some value of `y`."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Binned rows with the schema and the mapper they were made by.

    Attributes
    ----------
    schema : Schema
        The input columns.
    mapper : BinMapper
        How they became bins.
    rows : BinnedRows
        Bins, target and weights.
    weight_unit : float
        What the weights in `rows` are multiples of: 1, or a power of two where the largest is
        too large or too small for gradients in float32.
    for_training : bool
        Whether no row sees its own target in its bins; see `from_data`.
    classes : array or None
        Labels in the order of their numbers, where the target holds numbers of classes.
    extremes : float64 array or None
        Targets that stand for all, where it would take long to look at all.
    check : int or None
        Checksum of the rows, where it is known.

    Examples
    --------
    >>> data = Dataset.from_data([[1.0], [2.0], [4.0]], [0, 1, 1], n_classes=2)
    >>> data.n_rows, data.n_features, data.rows.bins.ravel().tolist()
    (3, 1, [0, 1, 2])
    """

    schema: Schema
    mapper: BinMapper
    rows: BinnedRows
    weight_unit: float = 1.0
    for_training: bool = True
    classes: NDArray[Any] | None = None
    extremes: NDArray[np.float64] | None = None
    check: int | None = None

    @classmethod
    def from_data(
        cls,
        X: Any,
        y: Any,
        *,
        weight: Any = None,
        init_score: Any = None,
        categorical_features: CategoricalFeatures = "auto",
        max_bins: int = MAX_BINS,
        n_classes: int = 0,
        mapper: BinMapper | None = None,
        schema: Schema | None = None,
        for_training: bool = False,
        seed: int = 0,
        sample_rows: int = SAMPLE_ROWS,
        n_threads: int = 1,
    ) -> Dataset:
        """Read, check and bin a table.

        Parameters
        ----------
        X : table
            Anything `ingest` reads.
        y : array of shape (n_rows,)
            Numbers; for classification the class indices 0 .. n_classes - 1.
        weight : array of shape (n_rows,), optional
        init_score : array of shape (n_rows,) or (n_rows, n_outputs), optional
            Raw scores that the rows have before the model's.
        categorical_features : see `ingest`
        max_bins : int from 2 to 255
        n_classes : int
            0 for regression. Decides which means a column of many categories becomes.
        mapper, schema : optional, both or none
            Those of an earlier `Dataset`: for a validation set, or for more training of a
            model that exists. Rows then get the bins they would get at prediction.
        for_training : bool
            Whether a data set with a given mapper is for more training. Columns of many
            categories are means of the target over the mapper's training rows. The same rows get
            the bins they had then, in which none sees its own target; for other rows, of which
            some may have been among them, there is a warning.
        seed, sample_rows, n_threads : int
            The number of threads changes no bit of the result.
        """
        _check_pair(mapper, schema)
        columns = ingest(X, categorical_features="auto" if schema else categorical_features)
        target = target_of(y, columns.n_rows, n_classes)
        weights, unit = _in_units(check_weight(weight, columns.n_rows))
        targets = target_columns(target, n_classes)
        if schema is not None and mapper is not None:
            columns = schema.check(columns)
            if for_training:
                bins = _bins_to_train(columns, targets, weights, schema, mapper, n_threads)
            else:
                bins = mapper.transform(columns, n_threads)
        else:
            for_training, schema = True, Schema.from_columns(columns)
            settings = {"max_bins": max_bins, "seed": seed, "sample_rows": sample_rows}
            mapper, bins = BinMapper.fit_transform(
                columns, schema, targets=targets, weight=weights, n_threads=n_threads, **settings
            )
        start = check_init_score(init_score, columns.n_rows)
        rows = BinnedRows(bins, mapper.n_bins, target, weights, start=start)
        classes = np.arange(n_classes) if n_classes else None
        return cls(schema, mapper, rows, unit, for_training, classes)

    @classmethod
    def from_parquet(
        cls,
        source: Source,
        target: str,
        *,
        weight: str | None = None,
        categorical_features: CategoricalFeatures = "auto",
        max_bins: int = MAX_BINS,
        n_classes: int = 0,
        labels: bool = False,
        like: Dataset | None = None,
        store: str | PathLike[str] | None = None,
        memory_limit: int | str | None = None,
        seed: int = 0,
        sample_rows: int = SAMPLE_ROWS,
        n_threads: int | None = -1,
        progress: bool = False,
    ) -> Dataset:
        """Bin a table in Parquet files, a batch of rows at a time; the model is `from_data`'s.

        Needs pyarrow. The files are read twice.

        Parameters
        ----------
        source : path, pattern, or list of them
            A file, a folder of files, or a pattern such as ``"part-*.parquet"``. Rows follow one
            another in the order of the files' names.
        target, weight : str
            Their columns.
        categorical_features, max_bins, n_classes, seed, sample_rows
            Those of `from_data`.
        labels : bool
            Whether the target holds classes, of whatever names, which are kept in `classes`.
        like : Dataset, optional
            Rows whose bins and classes these get, as rows to evaluate on must.
        store : path, optional
            A folder for the bins, which are then read as they are needed. One that was made of
            the same files in the same way is used again if it is undamaged, and else made anew.
            By default bins are in memory.
        memory_limit : int or str, optional
            Bytes, or a text such as ``"6GB"``, that may be in memory; needs a store.
        n_threads : int
            All cores by default. Changes no bit of the result.
        progress : bool
            Whether to show a progress bar (needs tqdm).
        """
        settings = dict(locals())
        del settings["cls"]
        return cls._from_files(ParquetFiles(source), **settings)

    @classmethod
    def from_csv(cls, source: Source, target: str, **options: Any) -> Dataset:
        """Bin a table in CSV files, as `from_parquet` does, with the same options.

        The type of a column is the first of whole numbers, booleans, dates, times, numbers and
        text that all its values have.
        """
        given = signature(cls.from_parquet).bind(source, target, **options)
        given.apply_defaults()
        return cls._from_files(CsvFiles(source), **given.arguments)

    @classmethod
    def _from_files(
        cls,
        files: TableFiles,
        *,
        source: Source,
        like: Dataset | None,
        store: str | PathLike[str] | None,
        memory_limit: int | str | None,
        n_threads: int | None,
        **asked: Any,
    ) -> Dataset:
        check_settings(asked["max_bins"], asked["sample_rows"])
        limit, threads = bytes_of(memory_limit), threads_of(n_threads)
        if limit is not None and store is None:
            raise ParameterError("memory_limit", memory_limit, "given together with store")
        if like is not None:
            if asked["labels"] or asked["n_classes"]:
                allowed = "left out with like, which knows the classes"
                raise ParameterError("labels", asked["labels"], allowed)
            asked |= {"labels": like.classes is not None, "categorical_features": "auto"}
        request = FileRequest(
            n_threads=threads,
            batch_bytes=BATCH_BYTES
            if limit is None
            else min(BATCH_BYTES, max(limit // 16, _SMALL_BATCH)),
            classes=None if like is None else like.classes,
            **asked,
        )
        request.check(files)

        def read() -> tuple[StreamedTable, Binning]:
            table = StreamedTable(files, request)
            if like is None:
                return table, table.find_bins()
            like.schema.check(table.survey.described)
            return table, Binning(like.schema, like.mapper, {})

        if store is None:
            table, binning = read()
            schema, mapper, _ = binning
            room = MemoryRoom(table.survey.n_rows, mapper.n_features, weighted=request.is_weighted)
            table.bin_into(room, binning)
            unit, classes, extremes = table.unit, table.classes, table.extremes
            return cls(
                schema, mapper, room.rows(mapper.n_bins), unit, like is None, classes, extremes
            )
        check_place(store)
        origin = origin_of(files, request, None if like is None else like.mapper)
        tidy(store)
        with suppress(StoreError):
            return cls._of_store(read_store(store, limit, threads, origin))
        table, binning = read()
        with StoreWriter(store, table.survey.n_rows, binning.mapper.n_features) as writer:
            table.bin_into(writer, binning)
            writer.finish(
                origin=origin,
                schema=binning.schema.to_dict(),
                mapper=binning.mapper.to_dict(),
                weight_unit=table.unit,
                classes=table.classes,
                extremes=table.extremes,
                for_training=like is None,
            )
        return cls._of_store(read_store(store, limit, threads))

    @classmethod
    def open(
        cls,
        store: str | PathLike[str],
        *,
        memory_limit: int | str | None = None,
        n_threads: int | None = -1,
    ) -> Dataset:
        """The rows of a store that `from_parquet` or `from_csv` made, without their files.

        Every byte is checked first.
        """
        return cls._of_store(read_store(store, bytes_of(memory_limit), threads_of(n_threads)))

    @classmethod
    def _of_store(cls, stored: Stored) -> Dataset:
        return cls(
            stored.schema,
            stored.mapper,
            stored.rows,
            stored.weight_unit,
            stored.for_training,
            stored.classes,
            stored.extremes,
            stored.check,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    def check_target(self, objective: ChecksTargets) -> None:
        """Raise a `DataError` if the objective cannot be trained on these rows."""
        objective.check_target(self.rows.target if self.extremes is None else self.extremes)

    def check_values(self, objective: ChecksTargets) -> None:
        """Raise a `DataError` if the objective is not defined for some row."""
        objective.check_values(self.rows.target if self.extremes is None else self.extremes)

    def has_rows_of(self, other: Dataset) -> bool:
        """Whether the rows are those of another set, but for bins that show the target."""
        fixed, one, two = ~self.mapper.of_target, self.rows, other.rows
        if one.n_rows != two.n_rows:
            return False

        def bins(rows: BinnedRows, start: int) -> NDArray[np.uint8]:
            return bins_on_host(rows.bins, start, start + _COMPARED)[:, fixed]

        starts = range(0, one.n_rows, _COMPARED)
        return all(
            np.array_equal(one.target[a : a + _COMPARED], two.target[a : a + _COMPARED])
            and np.array_equal(bins(one, a), bins(two, a))
            for a in starts
        )

    def weight_of(self, row: int) -> float | None:
        """The weight of a row, if rows have any."""
        weight = self.rows.weight
        return None if weight is None else float(weight[row] * self.weight_unit)

    def fingerprint(self) -> str:
        """A short name for the rows."""
        rows, check = self.rows, self.check
        if check is None:
            check = checksum(bins_on_host(rows.bins), rows.target, rows.weight, rows.start)
        return f"{rows.n_rows} rows, {check:08x}"

    @property
    def n_features(self) -> int:
        """Number of binned features."""
        return self.mapper.n_features

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the binned features."""
        return self.mapper.feature_names


def _check_pair(mapper: BinMapper | None, schema: Schema | None) -> None:
    if (mapper is None) != (schema is None):
        given = "mapper" if schema is None else "schema"
        raise ParameterError(given, "given alone", "given together with the other one")


def _bins_to_train(
    columns: Columns,
    targets: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    schema: Schema,
    mapper: BinMapper,
    n_threads: int,
) -> Bins:
    bins = mapper.transform_again(columns, targets, weight, n_threads)
    if bins is None:
        _warn_of_own_targets(columns, schema, mapper)
        bins = mapper.transform(columns, n_threads)
    return bins


def _warn_of_own_targets(columns: Columns, schema: Schema, mapper: BinMapper) -> None:
    """Warn where rows may see their own targets: one that was trained on has known categories."""
    names = []
    for source in mapper.statistics_sources:
        column = columns.columns[source]
        if isinstance(column, CategoricalColumn) and (column.codes > UNSEEN).any():
            names.append(schema.names[source])
    if names:
        warnings.warn(
            f"columns {names} have more categories than bins, and the model to continue knows the "
            "mean target of each category over the rows it was trained on. Rows of X that were "
            "among them see their own target in it, and new trees would trust these columns too "
            "much: continue on exactly the same rows, or on new ones only.",
            stacklevel=4,
        )


def check_init_score(
    scores: Any, n_rows: int, name: str = "init_score"
) -> NDArray[np.float64] | None:
    """Scores of so many rows, (n_outputs, n_rows), once it is sure that they are some; None passes.

    Examples
    --------
    >>> check_init_score([0.5, -1.0], 2).tolist()
    [[0.5, -1.0]]
    """
    if scores is None:
        return None
    array = np.asarray(on_host(scores, name))
    columns = [array] if array.ndim != 2 else list(array.T)
    found = np.array([as_numbers(column, name, n_rows) for column in columns])
    if (row := first_of(~np.isfinite(found).all(axis=0))) is not None:
        raise DataError(f"{name} must be finite, row {row} holds {found[:, row].tolist()}")
    return found


def _in_units(weight: NDArray[np.float64] | None) -> tuple[NDArray[np.float64] | None, float]:
    """Weights that gradients can be multiplied by, and their unit.

    Examples
    --------
    >>> _in_units(np.array([3e-310, 0.0]))[1] < 1e-300
    True
    """
    if weight is None:
        return None, 1.0
    unit = unit_of_weights(float(weight.max()))
    return in_units(weight, unit), unit


def check_weight(weight: Any, n_rows: int, name: str = "weight") -> NDArray[np.float64] | None:
    """Weights of so many rows as an array, once it is sure that they are some; None passes.

    Examples
    --------
    >>> check_weight([1.0, -1.0], 2, "sample_weight")
    Traceback (most recent call last):
        ...
    mvsboost.errors.DataError: sample_weight must be finite and not negative, row 1 holds -1.0
    """
    if weight is None:
        return None
    weights = weights_of(weight, n_rows, name)
    if not weights.any():
        raise DataError(f"{name} must not be zero for every row")
    return weights
