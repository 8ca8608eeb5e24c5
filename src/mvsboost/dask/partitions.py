"""What a worker does with the partitions of a table: read, describe, bin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from distributed import get_worker
from numpy.typing import NDArray

from mvsboost.backends.messages import BinnedRows
from mvsboost.data import (
    BinFeature,
    BinMapper,
    CategoricalColumn,
    Columns,
    Schema,
    check_lengths,
    find_edges,
    ingest,
    target_columns,
)
from mvsboost.data.binning import statistics_of_column
from mvsboost.data.parts import describe
from mvsboost.data.targets import in_units, weights_of
from mvsboost.errors import DataError
from mvsboost.exact.checksum import checksum

__all__ = [
    "Labels",
    "Part",
    "Recipe",
    "Summary",
    "Wide",
    "bin_run",
    "checks_of",
    "codes_of",
    "edges_of",
    "largest_weight",
    "read",
    "sample_of",
    "slice_of",
    "summary_of",
    "wide_features",
]


@dataclass(frozen=True, eq=False)
class Part:
    """A partition with rows: columns, target and weights; what the last two are is checked."""

    columns: Columns
    target: NDArray[Any]
    weight: NDArray[np.float64] | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.columns.n_rows


class Labels(NamedTuple):
    """What the target of a partition holds.

    Attributes
    ----------
    values : array
        Distinct labels, or the least and the largest number.
    counts : int array or None
        How often each label occurs.
    """

    values: NDArray[Any]
    counts: NDArray[np.int64] | None


class Summary(NamedTuple):
    """What a client has to know of a partition; of one without rows the number alone."""

    n_rows: int
    described: Columns | None = None
    labels: Labels | None = None
    largest_weight: float = 1.0


def read(
    blocks: Sequence[Any],
    categorical_features: Any,
    number: int,
    as_target: Callable[[Any], NDArray[Any]],
) -> Part | None:
    """Columns, target and weights of a partition; None where it has no rows.

    Parameters
    ----------
    blocks : sequence
        X, y and, where there are any, weights.
    categorical_features : see `ingest`
    number : int
        Of the partition, for errors.
    as_target : callable
        Checks a target.
    """
    X, y, weight = (*blocks, None)[:3]
    try:
        if len(X) == len(y) == 0:
            return None
        columns = ingest(X, categorical_features=categorical_features)
        target = as_target(y)
        check_lengths(columns.n_rows, y=target)
        if weight is not None:
            weight = weights_of(weight, columns.n_rows, "sample_weight")
    except DataError as error:
        raise type(error)(f"partition {number}: {error}") from error
    return Part(columns, target, weight)


def summary_of(part: Part | None, labels: bool) -> Summary:
    """A partition in short; `labels` says that the target is of classes."""
    if part is None:
        return Summary(0)
    target = part.target
    if labels:
        found = Labels(*np.unique(target, return_counts=True))
    else:
        found = Labels(np.array([target.min(), target.max()]), None)
    largest = 1.0 if part.weight is None else float(part.weight.max())
    return Summary(part.n_rows, describe(part.columns), found, largest)


def sample_of(part: Part, rows: Any, columns: Sequence[int]) -> list[NDArray[Any]]:
    """The values of some rows in numeric columns."""
    found = []
    for j in columns:
        column = part.columns.columns[j]
        if not isinstance(column, CategoricalColumn):
            found.append(column.values[rows])
        else:  # no row has a value
            found.append(np.full(len(column.codes[rows]), np.nan))
    return found


def edges_of(samples: Sequence[list[NDArray[Any]]], max_bins: int) -> list[NDArray[np.float64]]:
    """Edges of columns, from the samples of all partitions in order."""
    return [find_edges(np.concatenate(values), max_bins) for values in zip(*samples, strict=True)]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How partitions become binned rows.

    Attributes
    ----------
    schema : Schema
    mapper : BinMapper
    encode : callable
        From a partition's target to numbers.
    by_class : float64 array or None
        Weights of classes.
    unit : float
        What weights are multiples of.
    """

    schema: Schema
    mapper: BinMapper
    encode: Callable[[NDArray[Any]], NDArray[np.float64]]
    by_class: NDArray[np.float64] | None
    unit: float

    def target(self, part: Part) -> NDArray[np.float64]:
        """The target as numbers."""
        return self.encode(part.target)

    def weight(self, part: Part, target: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Weights with those of classes."""
        weight = part.weight
        if self.by_class is not None:
            of_class = self.by_class[target.astype(int)]
            weight = of_class if weight is None else of_class * weight
        return in_units(weight, self.unit)


def largest_weight(part: Part, recipe: Recipe) -> float:
    """The largest weight of the partition's rows."""
    weight = recipe.weight(part, recipe.target(part))
    return 1.0 if weight is None else float(weight.max())


def codes_of(
    part: Part, recipe: Recipe, source: int
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64] | None]:
    """Codes of a column of many categories, with target and weights."""
    target = recipe.target(part)
    column = recipe.schema.check(part.columns).columns[source]
    assert isinstance(column, CategoricalColumn)
    return column.codes, target, recipe.weight(part, target)


class Wide(NamedTuple):
    """A column of more categories than bins.

    Attributes
    ----------
    features : list of BinFeature
        What it becomes.
    bins : list of uint8 array
        Bins of all rows in each.
    check : int
        Of the codes, after that of the column before; see `TrainingRows`.
    """

    features: list[BinFeature]
    bins: list[NDArray[np.uint8]]
    check: int


def wide_features(
    parts: Sequence[tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64] | None]],
    before: int | None,
    source: int,
    schema: Schema,
    n_classes: int,
    max_bins: int,
    seed: int,
) -> Wide:
    """Means of the target by category: of all rows at once, since each sees those before it."""
    field = schema.features[source]
    assert field.categories is not None
    codes = np.concatenate([codes for codes, _, _ in parts])
    targets = target_columns(np.concatenate([target for _, target, _ in parts]), n_classes)
    weights = [weight for _, _, weight in parts if weight is not None]
    column = CategoricalColumn(codes, field.categories, field.kind)
    features, bins = statistics_of_column(
        column,
        field.name,
        source,
        targets=targets,
        weight=np.concatenate(weights) if weights else None,
        max_bins=max_bins,
        seed=seed,
    )
    check = checksum(codes, before=checksum(targets) if before is None else before)
    return Wide(features, bins, check)


def slice_of(wide: Wide, start: int, stop: int) -> list[NDArray[np.uint8]]:
    """The bins of some rows."""
    return [bins[start:stop].copy() for bins in wide.bins]


def bin_run(
    parts: Sequence[Part],
    recipe: Recipe,
    offset: int,
    wide: Sequence[list[NDArray[np.uint8]]],
) -> BinnedRows:
    """The rows of several partitions, one after another, binned."""
    mapper, n_threads = recipe.mapper, get_worker().state.nthreads
    own = [f for f, feature in enumerate(mapper.features) if feature.values is not None]
    given = dict(zip(own, (bins for column in wide for bins in column), strict=bool(wide)))
    n_rows = sum(part.n_rows for part in parts)
    bins = np.empty((n_rows, mapper.n_features), np.uint8)
    targets, weights, start = [], [], 0
    for part in parts:
        stop = start + part.n_rows
        columns = recipe.schema.check(part.columns)
        known = {f: of_all[start:stop] for f, of_all in given.items()}
        bins[start:stop] = mapper.transform(columns, n_threads, known)
        targets.append(recipe.target(part))
        weight = recipe.weight(part, targets[-1])
        if weight is not None:
            weights.append(weight)
        start = stop
    weight = np.concatenate(weights) if weights else None
    return BinnedRows(bins, mapper.n_bins, np.concatenate(targets), weight, offset)


def checks_of(rows: BinnedRows, of_target: NDArray[np.bool_]) -> tuple[int, int]:
    """Checksums of all there is, and of what does not show the target."""
    everything = checksum(rows.bins, rows.target, rows.weight)
    if not of_target.any() and rows.weight is None:
        return everything, everything
    return everything, checksum(np.ascontiguousarray(rows.bins[:, ~of_target]), rows.target)
