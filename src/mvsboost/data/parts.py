"""A table that comes in parts: what its columns are, from what each part's are.

The schema and the bins of the whole are those that the table would have at once, whatever
its parts: categories are the union, and edges come from the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mvsboost.data.binning import BinFeature
from mvsboost.data.columns import CategoricalColumn, Column, Columns, NumericColumn
from mvsboost.errors import DataError

__all__ = ["describe", "features_of", "merge_described", "rows_within"]


def describe(columns: Columns) -> Columns:
    """One row that says what the columns are: kinds, categories, and whether there is a value.

    Examples
    --------
    >>> from mvsboost.data import ingest
    >>> described = describe(ingest({"city": ["b", "a", None], "age": [1, 2, 3]}))
    >>> described.n_rows, described.columns[0].categories
    (1, ('a', 'b'))
    """
    return Columns(tuple(map(_describe, columns.columns)), columns.names)


def _describe(column: Column) -> Column:
    if isinstance(column, CategoricalColumn):
        code = np.array([-1 if column.all_missing else 0], np.int32)
        return CategoricalColumn(code, column.categories, column.kind)
    value = np.array([np.nan if column.all_missing else 0.0])
    return NumericColumn(value, None, column.kind)


def merge_described(parts: Sequence[Columns]) -> Columns:
    """What the columns of a table are, of whose parts each has been described.

    Examples
    --------
    >>> from mvsboost.data import ingest
    >>> parts = [describe(ingest({"city": cities})) for cities in (["b"], ["a", "b"], [None])]
    >>> merge_described(parts).columns[0].categories
    ('a', 'b')
    """
    first = parts[0]
    for part in parts:
        if part.names != first.names or part.n_columns != first.n_columns:
            raise DataError(
                f"parts of X have other columns: {_names(first)} and {_names(part)}; all parts "
                "must have the same ones, in one order"
            )
    return Columns(
        tuple(
            _merge([part.columns[j] for part in parts], first.label(j))
            for j in range(first.n_columns)
        ),
        first.names,
    )


def _names(columns: Columns) -> list[str]:
    return [columns.label(j) for j in range(columns.n_columns)]


def _merge(parts: Sequence[Column], name: str) -> Column:
    """Columns without a value fit any other."""
    present = [part for part in parts if not part.all_missing] or list(parts)
    categorical = [part for part in present if isinstance(part, CategoricalColumn)]
    kinds = {part.kind for part in present}
    if len(categorical) not in (0, len(present)) and present[0].all_missing:
        return categorical[0]
    if len(categorical) not in (0, len(present)) or len(kinds) > 1:
        shown = sorted({_in_words(part) for part in present})
        raise DataError(
            f"column {name!r} holds {' in some parts of X and '.join(shown)} in others: give it "
            "one type"
        )
    if not categorical:
        return present[0]
    categories = sorted({category for part in categorical for category in part.categories})
    code = np.array([0 if categories else -1], np.int32)
    return CategoricalColumn(code, tuple(categories), categorical[0].kind)


def _in_words(column: Column) -> str:
    if isinstance(column, CategoricalColumn):
        return "text" if column.kind is None else f"categories ({column.kind})"
    return f"numbers ({column.kind})"


def features_of(
    described: Columns,
    names: Sequence[str],
    max_bins: int,
    edges: Callable[[int], NDArray[np.float64]],
    wide: Callable[[int, int], list[BinFeature]],
) -> list[BinFeature]:
    """What the columns of a table in parts become.

    Parameters
    ----------
    described : Columns
    names : sequence of str
    max_bins : int
    edges : callable
        Edges of a numeric column.
    wide : callable
        What a column of more categories than bins becomes, given its number and that of its first
        feature.
    """
    features: list[BinFeature] = []
    for source, column in enumerate(described.columns):
        if not isinstance(column, CategoricalColumn):
            features.append(BinFeature(names[source], source, edges(source)))
        elif len(column.categories) <= max_bins:
            n_categories = len(column.categories)
            features.append(BinFeature(names[source], source, None, n_categories=n_categories))
        else:
            features += wide(source, len(features))
    return features


def rows_within(rows: NDArray[np.int64] | None, start: int, stop: int) -> slice | NDArray[np.int64]:
    """The chosen rows of a part that holds rows start to stop, counted from its own first.

    Examples
    --------
    >>> rows_within(np.array([1, 4, 6]), 3, 6).tolist()
    [1]
    """
    if rows is None:
        return slice(None)
    a, b = np.searchsorted(rows, [start, stop])
    return rows[a:b] - start
