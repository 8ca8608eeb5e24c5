"""A column is numeric or categorical; how one column of raw values becomes either.

A categorical column is integer codes into its sorted distinct values, so that the same
values give the same codes from any kind of table and in any order of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mvsboost.errors import DataError

__all__ = [
    "MISSING",
    "UNSEEN",
    "CategoricalColumn",
    "Category",
    "Column",
    "ColumnTypeError",
    "Columns",
    "NumericColumn",
    "as_categories",
    "column_from_array",
    "column_from_objects",
    "to_categorical",
]

MISSING = -1
"""Code of a missing value."""

UNSEEN = -2
"""Code of a category that training did not have."""

Category: TypeAlias = str | float
Floats: TypeAlias = NDArray[np.float32] | NDArray[np.float64]

_MISSING_TYPES = frozenset({"NoneType", "NAType", "NaTType"})
_NUMBERS = (Real, Decimal, np.bool_)
_MOMENTS = ((date, np.datetime64), (timedelta, np.timedelta64), (time,))
"""Kinds of moments and spans, each of which a column may be of; a datetime is a date."""
_COMPLEX = "Complex data not supported"


class ColumnTypeError(DataError, TypeError):
    """A column holds values that are neither text nor numbers."""


@dataclass(frozen=True, eq=False)
class NumericColumn:
    """Numbers, float32 or float64 as they came; NaN is missing."""

    values: Floats

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    def take(self, rows: NDArray[Any]) -> NumericColumn:
        """The chosen rows (mask or indices)."""
        return NumericColumn(self.values[rows])


@dataclass(frozen=True, eq=False)
class CategoricalColumn:
    """Codes into sorted distinct values; `MISSING` and `UNSEEN` are the negative codes."""

    codes: NDArray[np.int32]
    categories: tuple[Category, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def all_missing(self) -> bool:
        """Whether no row has a value."""
        return len(self.categories) == 0

    def take(self, rows: NDArray[Any]) -> CategoricalColumn:
        """The chosen rows (mask or indices), with the categories that occur in them."""
        codes = self.codes[rows]
        present = np.unique(codes[codes >= 0])
        # negative codes find the last two entries and stay as they are
        translation = np.full(len(self.categories) - UNSEEN, UNSEEN, np.int32)
        translation[MISSING] = MISSING
        translation[present] = np.arange(len(present))
        return CategoricalColumn(translation[codes], tuple(self.categories[i] for i in present))


Column: TypeAlias = NumericColumn | CategoricalColumn


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of one length, with names where the table had them.

    Examples
    --------
    >>> import numpy as np
    >>> Columns((NumericColumn(np.zeros(3)),), None).label(0)
    'f0'
    """

    columns: tuple[Column, ...]
    names: tuple[str, ...] | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.columns[0].n_rows

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.columns)

    def take(self, rows: NDArray[Any]) -> Columns:
        """The chosen rows (mask or indices), each column as if only they had been read."""
        return Columns(tuple(column.take(rows) for column in self.columns), self.names)

    def label(self, index: int) -> str:
        """Name of a column, or ``f<index>`` where there are no names."""
        return f"f{index}" if self.names is None else self.names[index]


def column_from_array(values: NDArray[Any], name: str) -> Column:
    """A column from a 1-D array of any dtype.

    Float32 and float64 are kept as they are. Integers and booleans become float64, which
    is exact up to 2**53. Dates and times become microseconds since 1970, durations become
    microseconds, whatever unit they were stored in. Text becomes categories.

    Examples
    --------
    >>> import numpy as np
    >>> column_from_array(np.array(["b", "a", "b"]), "x").categories
    ('a', 'b')
    """
    kind = values.dtype.kind
    if kind == "c":
        raise DataError(f"{_COMPLEX}: column {name!r}")
    if kind in "fbiu":
        return NumericColumn(as_floats(values))
    if kind in "mM":
        return NumericColumn(_microseconds(values))
    return column_from_objects(values.tolist(), name)


def as_floats(values: NDArray[Any]) -> Floats:
    """Float32 and float64 as they are, half precision as float32, the rest as float64."""
    if values.dtype == np.float16:
        return values.astype(np.float32)
    if values.dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        return values
    return values.astype(np.float64)


def _microseconds(values: NDArray[Any]) -> NDArray[np.float64]:
    unit = f"{'datetime64' if values.dtype.kind == 'M' else 'timedelta64'}[us]"
    numbers = values.astype(unit).astype(np.int64).astype(np.float64)
    numbers[np.isnat(values)] = np.nan
    return numbers


def column_from_objects(values: list[Any], name: str) -> Column:
    """A column from Python objects: text, numbers, or dates, with missing values among them.

    Missing are None, NaN, and the NA and NaT of pandas. Dates and times, durations, or times of
    day become microseconds, as in `column_from_array`.

    Examples
    --------
    >>> column_from_objects(["red", None, "blue"], "colour").codes.tolist()
    [1, -1, 0]
    >>> column_from_objects([1, 2.5, None], "size").values.tolist()
    [1.0, 2.5, nan]
    """
    types = set(map(type, values))
    text = {t for t in types if issubclass(t, str)}
    missing = {t for t in types if t.__name__ in _MISSING_TYPES}
    spans = {t for t in types if issubclass(t, np.timedelta64)}  # a number to NumPy
    numbers = {t for t in types if issubclass(t, _NUMBERS)} - spans
    if other := types - text - missing - numbers:
        moments = any(all(issubclass(t, kind) for t in other) for kind in _MOMENTS)
        if moments and not text and not numbers:
            return NumericColumn(_microseconds_from_objects(values, missing))
        _reject(values, other, name)
    if text - {str}:  # members of an enumeration have a text and a hash of their own
        values = [str.__str__(v) if isinstance(v, str) else v for v in values]
    if not text:
        return NumericColumn(_floats_from_objects(values, missing, name))
    for row, value in enumerate(values):
        if type(value) in numbers and value == value:
            raise ColumnTypeError(
                f"Column {name!r} mixes text and numbers: row {row} holds {value!r}. "
                "Convert the whole column to text or to numbers."
            )
    return _encode_text(values)


def _reject(values: list[Any], types: set[type], name: str) -> None:
    row, value = next((i, v) for i, v in enumerate(values) if type(v) in types)
    if isinstance(value, (complex, np.complexfloating)):
        raise DataError(f"{_COMPLEX}: column {name!r}, row {row}")
    raise ColumnTypeError(
        f"Column {name!r}: argument must be a string or a real number, or all must be dates, "
        f"got a {type(value).__name__} in row {row}. Convert the column, or leave it out."
    )


def _floats_from_objects(values: list[Any], missing: set[type], name: str) -> NDArray[np.float64]:
    numbers = (math.nan if type(v) in missing else float(v) for v in values)
    try:
        return np.fromiter(numbers, np.float64, len(values))
    except OverflowError as error:
        raise DataError(f"Column {name!r} holds an integer too large for float64") from error


def _microseconds_from_objects(values: list[Any], missing: set[type]) -> NDArray[np.float64]:
    def plain(value: Any) -> Any:
        if type(value) in missing:
            return None
        if isinstance(value, time):
            since = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
            return since + timedelta(microseconds=value.microsecond)
        if isinstance(value, datetime) and value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=None)
        return value

    moments = [plain(value) for value in values]
    spans = any(isinstance(value, (timedelta, np.timedelta64)) for value in moments)
    return _microseconds(np.array(moments, "timedelta64[us]" if spans else "datetime64[us]"))


def as_categories(values: list[Any]) -> list[Any]:
    """Text, numbers and missing values as they are, anything else by its text.

    Examples
    --------
    >>> from datetime import date
    >>> as_categories(["a", 1, None, date(2024, 2, 1)])
    ['a', 1, None, '2024-02-01']
    """

    def is_plain(value: Any) -> bool:
        return isinstance(value, (str, *_NUMBERS)) or type(value).__name__ in _MISSING_TYPES

    return [value if is_plain(value) else str(value) for value in values]


def _encode_text(values: list[Any]) -> CategoricalColumn:
    categories = sorted(v for v in set(values) if isinstance(v, str))
    code = {category: i for i, category in enumerate(categories)}
    codes = (code.get(v, MISSING) for v in values)
    return CategoricalColumn(np.fromiter(codes, np.int32, len(values)), tuple(categories))


def to_categorical(column: Column) -> CategoricalColumn:
    """The column by its distinct values; one that is categorical already is returned as it is.

    Examples
    --------
    >>> import numpy as np
    >>> column = to_categorical(NumericColumn(np.array([7.0, 3.0, np.nan, 7.0])))
    >>> column.codes.tolist(), column.categories
    ([1, 0, -1, 1], (3.0, 7.0))
    """
    if isinstance(column, CategoricalColumn):
        return column
    distinct, inverse = np.unique(column.values, return_inverse=True, equal_nan=True)
    codes = inverse.astype(np.int32)
    codes[np.isnan(column.values)] = MISSING
    categories = distinct[~np.isnan(distinct)].astype(np.float64).tolist()
    return CategoricalColumn(codes, tuple(categories))
