"""What columns a model was trained on, and whether a later table has the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mvsboost.data.columns import (
    MISSING,
    UNSEEN,
    CategoricalColumn,
    Category,
    Column,
    Columns,
    NumericColumn,
    to_categorical,
)
from mvsboost.errors import SchemaError

__all__ = ["Feature", "Schema"]


@dataclass(frozen=True)
class Feature:
    """One input column.

    Attributes
    ----------
    name : str
    categories : tuple of str or of float, or None
        Values seen in training, sorted; None for a numeric column.
    """

    name: str
    categories: tuple[Category, ...] | None = None

    @property
    def is_categorical(self) -> bool:
        """Whether the column is categorical."""
        return self.categories is not None


@dataclass(frozen=True)
class Schema:
    """Names, kinds and categories of the input columns, in the order of training.

    Attributes
    ----------
    features : tuple of Feature
    named : bool
        Whether the training table had names; without, columns go by position and are
        called f0, f1, ...

    Examples
    --------
    >>> from mvsboost.data import ingest
    >>> schema = Schema.from_columns(ingest({"age": [31, 42], "city": ["Oslo", "Bergen"]}))
    >>> schema.check(ingest({"city": ["Oslo"], "age": [7.0]})).names
    ('age', 'city')
    >>> schema.check(ingest({"age": [31]}))
    Traceback (most recent call last):
        ...
    mvsboost.errors.SchemaError: Column 'city' is missing from X; training had ['age', 'city']
    """

    features: tuple[Feature, ...]
    named: bool

    @classmethod
    def from_columns(cls, columns: Columns) -> Schema:
        """The schema of a training table."""
        features = tuple(
            Feature(
                columns.label(j),
                column.categories if isinstance(column, CategoricalColumn) else None,
            )
            for j, column in enumerate(columns.columns)
        )
        return cls(features, columns.names is not None)

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return len(self.features)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the input columns."""
        return tuple(feature.name for feature in self.features)

    def check(
        self, columns: Columns, estimator: str = "the model", *, by_name: bool = False
    ) -> Columns:
        """Columns in the order, kinds and category codes of training.

        A table with names is put in order by name; one without, or for a model that was trained
        without, goes by position. A category that training did not have gets the code `UNSEEN`.
        A column without a single value fits any kind.

        Parameters
        ----------
        columns : Columns
        estimator : str
            Who is speaking, for the message.
        by_name : bool
            Whether names count where training had none and columns are called f0, f1, ….

        Raises
        ------
        SchemaError
            A column is missing, too many, or of another kind.
        """
        if (self.named or by_name) and columns.names is not None:
            ordered = self._by_name(columns.columns, columns.names)
        elif columns.n_columns != self.n_features:
            raise SchemaError(
                f"X has {columns.n_columns} features, but {estimator} is expecting "
                f"{self.n_features} features as input."
            )
        else:
            ordered = columns.columns
        pairs = zip(ordered, self.features, strict=True)
        fitted = tuple(_fit_kind(column, feature) for column, feature in pairs)
        return Columns(fitted, self.names if self.named else None)

    def _by_name(self, columns: Sequence[Column], names: Sequence[str]) -> tuple[Column, ...]:
        position = {name: j for j, name in enumerate(names)}
        expected = self.names
        for name in expected:
            if name not in position:
                raise SchemaError(
                    f"Column {name!r} is missing from X; training had {list(expected)}"
                )
        for name in names:
            if name not in expected:
                raise SchemaError(f"Column {name!r} of X was not there in training; leave it out")
        return tuple(columns[position[name]] for name in expected)

    def to_dict(self) -> dict[str, Any]:
        """As plain lists, strings and numbers, ready for JSON."""
        return {
            "named": self.named,
            "features": [
                {"name": f.name, "categories": None if f.categories is None else list(f.categories)}
                for f in self.features
            ],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Schema:
        """The inverse of `to_dict`."""
        features = tuple(
            Feature(f["name"], None if f["categories"] is None else tuple(f["categories"]))
            for f in state["features"]
        )
        return cls(features, bool(state["named"]))


def _fit_kind(column: Column, feature: Feature) -> Column:
    if feature.categories is None:
        if isinstance(column, NumericColumn):
            return column
        if column.all_missing:
            return NumericColumn(np.full(column.n_rows, np.nan))
        raise SchemaError(
            f"Column {feature.name!r} was numeric in training but holds text or categories in X"
        )
    column = to_categorical(column)
    if column.categories == feature.categories:
        return column
    _check_category_type(column.categories, feature)
    code = {category: i for i, category in enumerate(feature.categories)}
    table = [code.get(category, UNSEEN) for category in column.categories]
    # a missing value has code -1 and so finds the last entry
    translation = np.array([*table, MISSING], np.int32)
    return CategoricalColumn(translation[column.codes], feature.categories)


def _check_category_type(categories: tuple[Category, ...], feature: Feature) -> None:
    if not categories or not feature.categories:
        return
    kinds = {True: "text", False: "numbers"}
    now, then = isinstance(categories[0], str), isinstance(feature.categories[0], str)
    if now != then:
        raise SchemaError(
            f"Column {feature.name!r} held {kinds[then]} as categories in training "
            f"but holds {kinds[now]} in X"
        )
