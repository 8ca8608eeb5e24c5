"""A table and its target, binned and checked: what training takes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import BinnedRows
from mvsboost.data.binning import SAMPLE_ROWS, BinMapper
from mvsboost.data.columns import UNSEEN, CategoricalColumn, Column, Columns
from mvsboost.data.ingest import CategoricalFeatures, ingest
from mvsboost.data.parquet import ParquetTable, Source
from mvsboost.data.schema import Feature, Schema
from mvsboost.data.target_statistics import target_columns
from mvsboost.errors import DataError, ParameterError
from mvsboost.exact.checksum import checksum
from mvsboost.exact.dtypes import MAX_BINS, WEIGHT
from mvsboost.exact.fixedpoint import power_of_two_below

__all__ = ["Dataset", "check_lengths"]

_LARGE_WEIGHT = 2.0**64
"""Weights up to this one, and down to its inverse, are used as they are."""


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
        target = _check_target(y, columns.n_rows, n_classes)
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
        return cls(schema, mapper, rows, unit, for_training)

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
        seed: int = 0,
        sample_rows: int = SAMPLE_ROWS,
        n_threads: int = 1,
    ) -> Dataset:
        """Bin a table in Parquet files, one column at a time; the model is that of `from_data`.

        Besides the bins no more than one column is in memory. Needs pyarrow.

        Parameters
        ----------
        source : path, pattern, or list of them
            A file, a folder of files, or a pattern such as ``"part-*.parquet"``. Rows follow one
            another in the order of the files' names.
        target, weight : str
            Their columns.
        categorical_features, max_bins, n_classes, seed, sample_rows, n_threads
            Those of `from_data`.
        """
        table = ParquetTable(source)
        y = _check_target(table.vector(target, "target"), table.n_rows, n_classes)
        weights, unit = _in_units(check_weight(table.vector(weight, "weight"), table.n_rows))
        features: list[Feature] = []

        def noted() -> Iterator[tuple[Column, Feature]]:
            for column, feature in table.columns([target, weight], categorical_features):
                features.append(feature)
                yield column, feature

        mapper, bins = BinMapper.fit_transform_by_column(
            noted(),
            table.n_rows,
            targets=target_columns(y, n_classes),
            weight=weights,
            max_bins=max_bins,
            seed=seed,
            sample_rows=sample_rows,
            n_threads=n_threads,
        )
        rows = BinnedRows(bins, mapper.n_bins, y, weights)
        return cls(Schema(tuple(features), named=True), mapper, rows, unit)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    def check_target(self, objective: ChecksTargets) -> None:
        """Raise a `DataError` if the objective cannot be trained on these rows."""
        objective.check_target(self.rows.target)

    def check_values(self, objective: ChecksTargets) -> None:
        """Raise a `DataError` if the objective is not defined for some row."""
        objective.check_values(self.rows.target)

    def has_rows_of(self, other: Dataset) -> bool:
        """Whether the rows are those of another set, but for bins that show the target."""
        fixed = ~self.mapper.of_target
        return np.array_equal(self.rows.target, other.rows.target) and np.array_equal(
            self.rows.bins[:, fixed], other.rows.bins[:, fixed]
        )

    def weight_of(self, row: int) -> float | None:
        """The weight of a row, if rows have any."""
        weight = self.rows.weight
        return None if weight is None else float(weight[row] * self.weight_unit)

    def fingerprint(self) -> str:
        """A short name for the rows."""
        rows = self.rows
        check = checksum(rows.bins, rows.target, rows.weight, rows.start)
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
) -> NDArray[np.uint8]:
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


def check_lengths(n_rows: int, **vectors: Any) -> None:
    """Check that each vector, given by its name, has as many rows as X; None passes.

    Examples
    --------
    >>> check_lengths(3, y=[0, 1])
    Traceback (most recent call last):
        ...
    mvsboost.errors.DataError: X has 3 rows but y has 2
    """
    for name, vector in vectors.items():
        if vector is not None and len(vector) != n_rows:
            raise DataError(f"X has {n_rows} rows but {name} has {len(vector)}")


def _as_vector(values: Any, name: str, n_rows: int) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.dtype.kind == "c":
        raise DataError(f"Complex data not supported, got {name} of dtype {array.dtype}")
    if array.ndim != 1:
        raise DataError(f"{name} must be one-dimensional, got shape {array.shape}")
    check_lengths(n_rows, **{name: array})
    try:
        return np.ascontiguousarray(array, WEIGHT)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must hold numbers: {error}") from error


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
    array = np.asarray(scores)
    columns = [array] if array.ndim != 2 else list(array.T)
    found = np.array([_as_vector(column, name, n_rows) for column in columns])
    if (row := _first(~np.isfinite(found).all(axis=0))) is not None:
        raise DataError(f"{name} must be finite, row {row} holds {found[:, row].tolist()}")
    return found


def _first(wrong: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(wrong)) if wrong.any() else None


def _check_target(y: Any, n_rows: int, n_classes: int) -> NDArray[np.float64]:
    target = _as_vector(y, "y", n_rows)
    if (row := _first(~np.isfinite(target))) is not None:
        raise DataError(f"Input y contains NaN or infinity: row {row} holds {target[row]}")
    if n_classes > 0:
        unknown = (target < 0) | (target >= n_classes) | (target != np.floor(target))
        if (row := _first(unknown)) is not None:
            raise DataError(
                f"y must hold class indices 0 to {n_classes - 1}, row {row} holds {target[row]}"
            )
    return target


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
    return (weight if unit == 1.0 else weight / unit), unit


def unit_of_weights(largest: float) -> float:
    """The unit of weights, by the largest."""
    if 1.0 / _LARGE_WEIGHT <= largest <= _LARGE_WEIGHT:
        return 1.0
    return power_of_two_below(largest)


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


def weights_of(weight: Any, n_rows: int, name: str) -> NDArray[np.float64]:
    """Weights of rows of which others may follow, so that these may all be zero."""
    weights = _as_vector(weight, name, n_rows)
    if (row := _first(~(np.isfinite(weights) & (weights >= 0)))) is not None:
        raise DataError(f"{name} must be finite and not negative, row {row} holds {weights[row]}")
    return weights
