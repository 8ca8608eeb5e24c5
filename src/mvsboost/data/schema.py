"""What columns a model was trained on, and whether a later table has the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mvsboost.data.columns import (
    DURATION,
    KINDS,
    MISSING,
    NUMBER,
    OF_DAY,
    TIME,
    UNSEEN,
    ZONED,
    CategoricalColumn,
    Category,
    Column,
    Columns,
    NumericColumn,
    canonical,
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
    categories : tuple of str or of numbers, or None
        Values seen in training, sorted; None for a numeric column.
    kind : str or None
        What numbers stand for: "number", "time", "zoned time", "duration" or "time of day".
        None for text, for a column without a value, and in files that do not say: any kind
        will do.
    """

    name: str
    categories: tuple[Category, ...] | None = None
    kind: str | None = None

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
                None if column.all_missing else column.kind,
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
                {
                    "name": f.name,
                    "categories": None if f.categories is None else [*map(_written, f.categories)],
                    "kind": f.kind,
                }
                for f in self.features
            ],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Schema:
        """The inverse of `to_dict`."""
        features = tuple(
            Feature(f["name"], _read_categories(f["categories"]), _read_kind(f.get("kind")))
            for f in state["features"]
        )
        return cls(features, bool(state["named"]))


# --- in files ---------------------------------------------------------------------------------


_INFINITE = ({"number": "inf"}, {"number": "-inf"})


def _written(category: Category) -> Any:
    """A category as JSON allows, which has no infinity; not to be taken for the text "inf"."""
    if isinstance(category, float) and math.isinf(category):
        return {"number": str(category)}
    return category


def _read(written: Any) -> Category:
    """The inverse of `_written`."""
    if written in _INFINITE:
        return float(written["number"])
    if isinstance(written, str):
        return written
    if type(written) in (int, float) and math.isfinite(written):
        number: float | int = written
        return number
    raise ValueError(f"schema: {written!r} is not a category")


def _read_categories(written: list[Any] | None) -> tuple[Category, ...] | None:
    # float32 categories may be written at the length of float64
    return None if written is None else tuple(canonical(map(_read, written)))


def _read_kind(kind: str | None) -> str | None:
    if kind is not None and kind not in KINDS:
        raise ValueError(f"schema: {kind!r} is not a kind of column, which are {KINDS}")
    return kind


# --- kinds ------------------------------------------------------------------------------------


_IN_WORDS = {
    NUMBER: "numbers",
    TIME: "times without a time zone",
    ZONED: "times with a time zone",
    DURATION: "durations",
    OF_DAY: "times of day",
}
_FIXES = {
    NUMBER: "convert it to the numbers that training had",
    TIME: "convert it to dates and times, for example with pandas.to_datetime",
    ZONED: "convert it, for example with pandas.to_datetime(..., utc=True)",
    DURATION: "convert it to durations, for example with pandas.to_timedelta",
    OF_DAY: "convert it to times of day, for example with the accessor dt.time of pandas",
}
_FIXES_OF_ZONES = {
    ZONED: "localise it, for example with tz_localize",
    TIME: "convert it to the zone that training was in and drop the zone, for example with "
    "tz_convert and then tz_localize(None)",
}


def _fit_kind(column: Column, feature: Feature) -> Column:
    if feature.categories is None:
        if not isinstance(column, CategoricalColumn):
            _check_kind(column, feature)
            return column
        if column.all_missing:
            return NumericColumn(np.full(column.n_rows, np.nan))
        raise SchemaError(
            f"Column {feature.name!r} was numeric in training but holds text or categories in X"
        )
    _check_kind(column, feature)
    column = to_categorical(column)
    if column.categories == feature.categories:
        return column
    _check_category_type(column.categories, feature)
    code = {category: i for i, category in enumerate(feature.categories)}
    table = [code.get(category, UNSEEN) for category in column.categories]
    # a missing value has code -1 and so finds the last entry
    translation = np.array([*table, MISSING], np.int32)
    return CategoricalColumn(translation[column.codes], feature.categories, column.kind)


def _check_kind(column: Column, feature: Feature) -> None:
    now, then = column.kind, feature.kind
    if now is None or then is None or now == then or column.all_missing:
        return
    fixes = _FIXES_OF_ZONES if {now, then} == {TIME, ZONED} else _FIXES
    raise SchemaError(
        f"Column {feature.name!r} held {_IN_WORDS[then]} in training but holds "
        f"{_IN_WORDS[now]} in X: {fixes[then]}"
    )


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
