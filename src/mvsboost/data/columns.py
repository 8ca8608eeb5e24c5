"""A column is numeric or categorical; how one column of raw values becomes either.

A categorical column is integer codes into its sorted distinct values, so that the same
values give the same codes from any kind of table, at any width and in any order of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import DeviceTable
from mvsboost.errors import DataError

__all__ = [
    "KINDS",
    "LARGEST_EXACT",
    "MISSING",
    "UNSEEN",
    "CategoricalColumn",
    "Category",
    "Column",
    "ColumnTypeError",
    "Columns",
    "DeviceColumn",
    "NumericColumn",
    "as_categories",
    "as_floats",
    "canonical",
    "column_from_array",
    "column_from_objects",
    "numeric_columns",
    "to_categorical",
]

MISSING = -1
"""Code of a missing value."""

UNSEEN = -2
"""Code of a category that training did not have."""

LARGEST_EXACT = 2**53
"""Up to here float64 tells all integers apart."""

NUMBER, TIME, ZONED, DURATION, OF_DAY = (
    "number",
    "time",
    "zoned time",
    "duration",
    "time of day",
)
KINDS = (NUMBER, TIME, ZONED, DURATION, OF_DAY)
"""What the numbers of a column stand for. Dates are times at midnight, and times with a time zone
are instants, whatever the zone. All but plain numbers are in microseconds."""

Category: TypeAlias = str | float | int
Floats: TypeAlias = NDArray[np.float32] | NDArray[np.float64]

_MISSING_TYPES = frozenset({"NoneType", "NAType", "NaTType"})
_NUMBERS = (Real, Decimal, np.bool_)
_MOMENTS = {TIME: (date, np.datetime64), DURATION: (timedelta, np.timedelta64), OF_DAY: (time,)}
"""Kinds of moments and spans, each of which a column may be of; a datetime is a date."""
_COMPLEX = "Complex data not supported"


class ColumnTypeError(DataError, TypeError):
    """A column holds values that are neither text nor numbers."""


@dataclass(frozen=True, eq=False)
class NumericColumn:
    """Numbers, float32 or float64 as they came; NaN is missing.

    Attributes
    ----------
    values : float32 or float64 array
    exact : array or None
        What the values were where the floats may not tell them apart: integers beyond
        ±2**53, and half precision, whose decimals are shorter. Only categories need it. Where a
        value is missing, this holds anything.
    kind : str
        What the numbers stand for, one of `KINDS`.
    """

    values: Floats
    exact: NDArray[Any] | None = None
    kind: str = NUMBER

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    @property
    def all_missing(self) -> bool:
        """Whether no row has a value."""
        return bool(np.isnan(self.values[0]) and np.isnan(self.values).all())

    def sample(self, rows: NDArray[np.int64] | None) -> Floats:
        """Values of some rows, or of all."""
        return self.values if rows is None else self.values[rows]

    def take(self, rows: NDArray[Any]) -> NumericColumn:
        """The chosen rows (mask or indices)."""
        exact = None if self.exact is None else self.exact[rows]
        return NumericColumn(self.values[rows], exact, self.kind)


@dataclass(frozen=True, eq=False)
class CategoricalColumn:
    """Codes into sorted distinct values; `MISSING` and `UNSEEN` are the negative codes.

    Attributes
    ----------
    codes : int32 array
    categories : tuple of str or of numbers
        Numbers are floats, but for integers beyond ±2**53; see `canonical`.
    kind : str or None
        What numbers stand for, one of `KINDS`; None for text.
    """

    codes: NDArray[np.int32]
    categories: tuple[Category, ...]
    kind: str | None = None

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
        categories = tuple(self.categories[i] for i in present)
        return CategoricalColumn(translation[codes], categories, self.kind)


@dataclass(frozen=True, eq=False)
class DeviceColumn:
    """A column of a table of numbers on a device.

    Training and prediction leave it there; what asks for its `values` brings them to the host.

    Attributes
    ----------
    table : DeviceTable
    index : int
        Its place in the table.
    kind : str
        As of `NumericColumn`.
    """

    table: DeviceTable
    index: int
    kind: str = NUMBER

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.shape[0]

    @property
    def all_missing(self) -> bool:
        """Whether no row has a value."""
        return not self.table.has_values[self.index]

    def take(self, rows: NDArray[Any]) -> DeviceColumn:
        """The chosen rows (mask or indices)."""
        return DeviceColumn(self.table.take(rows), self.index, self.kind)

    def sample(self, rows: NDArray[np.int64] | None) -> Floats:
        """Values of some rows, or of all, on the host."""
        return as_floats(self.table.sample(rows)[:, self.index])

    @cached_property
    def _on_host(self) -> NumericColumn:
        return numeric_columns(self.table.values(self.index))[0]

    @property
    def values(self) -> Floats:
        """The column on the host, as `NumericColumn` has it."""
        return self._on_host.values

    @property
    def exact(self) -> NDArray[Any] | None:
        """What the values were where floats may not tell them apart."""
        return self._on_host.exact


Column: TypeAlias = NumericColumn | CategoricalColumn | DeviceColumn


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


# --- arrays -----------------------------------------------------------------------------------


def column_from_array(values: NDArray[Any], name: str) -> Column:
    """A column from a 1-D array of any dtype; numbers may be masked.

    Float32 and float64 are kept as they are. Integers and booleans become float64, which
    is exact up to 2**53; integers beyond are kept beside, for categories. Dates and times become
    microseconds since 1970, durations become microseconds, whatever unit they were stored in.
    Text becomes categories.

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
        return _column_of_numbers(values)
    if kind in "mM":
        return _column_of_moments(values, TIME if kind == "M" else DURATION)
    return column_from_objects(values.tolist(), name)


def numeric_columns(matrix: NDArray[Any]) -> tuple[NumericColumn, ...]:
    """The columns of a 2-D array of numbers.

    Examples
    --------
    >>> import numpy as np
    >>> [column.values.tolist() for column in numeric_columns(np.array([[1, 2], [3, 4]]))]
    [[1.0, 3.0], [2.0, 4.0]]
    """
    floats, few = as_floats(matrix), _exact(matrix) is None
    return tuple(
        NumericColumn(floats[:, j], None if few else _exact(matrix[:, j]))
        for j in range(matrix.shape[1])
    )


def as_floats(values: NDArray[Any]) -> Floats:
    """Float32 and float64 as they are, half precision as float32, the rest as float64."""
    if values.dtype == np.float16:
        return values.astype(np.float32)
    if values.dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        return values
    return values.astype(np.float64)


def _column_of_numbers(
    values: NDArray[Any], missing: NDArray[np.bool_] | None = None, kind: str = NUMBER
) -> NumericColumn:
    data = np.ma.getdata(values)
    floats = as_floats(data)
    if missing is None and np.ma.is_masked(values):
        missing = np.ma.getmaskarray(values)
    if missing is not None:
        floats = np.where(missing, floats.dtype.type(np.nan), floats)
    return NumericColumn(floats, _exact(data), kind)


def _exact(values: NDArray[Any]) -> NDArray[Any] | None:
    """The numbers themselves where floats may not tell them apart, otherwise None."""
    if values.dtype == np.float16:
        return values
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or values.size == 0:
        return None
    within = int(values.min()) >= -LARGEST_EXACT and int(values.max()) <= LARGEST_EXACT
    return None if within else values


def _column_of_moments(values: NDArray[Any], kind: str) -> NumericColumn:
    unit = f"{'datetime64' if values.dtype.kind == 'M' else 'timedelta64'}[us]"
    missing = np.isnat(values)
    microseconds = values.astype(unit).astype(np.int64)
    microseconds[missing] = 0
    return _column_of_numbers(microseconds, missing, kind)


# --- objects ----------------------------------------------------------------------------------


def column_from_objects(values: list[Any], name: str) -> Column:
    """A column from Python objects: text, numbers, or dates, with missing values among them.

    Missing are None, NaN, and the NA and NaT of pandas. Dates and times, durations, or times of
    day become microseconds, as in `column_from_array`. Times with a time zone are not mixed with
    those without.

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
        kinds = [k for k, of in _MOMENTS.items() if all(issubclass(t, of) for t in other)]
        if kinds and not text and not numbers:
            return _column_from_moments(values, missing, kinds[0], name)
        _reject(values, other, name)
    if text - {str}:  # members of an enumeration have a text and a hash of their own
        values = [str.__str__(v) if isinstance(v, str) else v for v in values]
    if not text:
        return _column_from_numbers(values, missing, name)
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


def _column_from_numbers(values: list[Any], missing: set[type], name: str) -> NumericColumn:
    numbers = (math.nan if type(v) in missing else float(v) for v in values)
    try:
        floats = np.fromiter(numbers, np.float64, len(values))
    except OverflowError as error:
        raise DataError(f"Column {name!r} holds an integer too large for float64") from error
    beyond = np.flatnonzero((np.abs(floats) >= LARGEST_EXACT) & np.isfinite(floats))
    integers = {int(i): int(values[i]) for i in beyond if _is_integer(values[i])}
    if not integers:
        return NumericColumn(floats)
    exact = floats.astype(object)
    exact[list(integers)] = list(integers.values())
    return NumericColumn(floats, exact)


def _is_integer(value: Any) -> bool:
    """Whether the value is one, and not a float that can be no other."""
    return not isinstance(value, (float, np.floating)) and int(value) == value


def _column_from_moments(
    values: list[Any], missing: set[type], kind: str, name: str
) -> NumericColumn:
    zoned = [getattr(v, "tzinfo", None) is not None and type(v) not in missing for v in values]
    if any(zoned):
        _check_zones(values, zoned, missing, kind, name)

    def plain(value: Any) -> Any:
        if type(value) in missing:
            return None
        if isinstance(value, time):
            since = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
            return since + timedelta(microseconds=value.microsecond)
        if isinstance(value, datetime) and value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=None)
        return value

    unit = "datetime64[us]" if kind == TIME else "timedelta64[us]"
    moments = np.array([plain(value) for value in values], unit)
    return _column_of_moments(moments, ZONED if any(zoned) else kind)


def _check_zones(
    values: list[Any], zoned: list[bool], missing: set[type], kind: str, name: str
) -> None:
    aware = zoned.index(True)
    if kind == OF_DAY:
        raise ColumnTypeError(
            f"Column {name!r} holds times of day with a time zone, which is not the same all the "
            f"year: row {aware} holds {values[aware]}. Leave the zone out."
        )
    for row, value in enumerate(values):
        if not zoned[row] and type(value) not in missing and value == value:
            raise ColumnTypeError(
                f"Column {name!r} mixes times with and without a time zone: row {aware} holds "
                f"{values[aware]}, row {row} holds {value}. Give all of them a zone, or none."
            )


# --- categories -------------------------------------------------------------------------------


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
    present = ~np.isnan(column.values)
    values: NDArray[Any] = column.values if column.exact is None else column.exact
    distinct, inverse = np.unique(values[present], return_inverse=True)
    categories, position = _categories_of(distinct)
    codes = np.full(column.n_rows, MISSING, np.int32)
    codes[present] = position[inverse]
    return CategoricalColumn(codes, tuple(categories), column.kind)


def _categories_of(distinct: NDArray[Any]) -> tuple[list[Category], NDArray[Any]]:
    """Sorted categories, and the position of each distinct value among them.

    They may be fewer: 0.1 and the float32 next to it are one category.
    """
    if distinct.dtype == np.float16:
        distinct = _shortest_decimals(distinct)
    if distinct.dtype.kind == "f":
        floats, position = np.unique(_without_width(distinct), return_inverse=True)
        return floats.tolist(), position
    names = canonical(distinct.tolist())
    if distinct.dtype.kind in "iu":
        return names, np.arange(len(names))
    categories = sorted(set(names))
    code = {category: i for i, category in enumerate(categories)}
    return categories, np.array([code[name] for name in names])


def canonical(categories: Iterable[Category]) -> list[Category]:
    """Each category in the form that is the same from any source and at any width.

    An integer is a float up to ±2**53 and a Python integer beyond. A float that float32 can hold
    is the shortest decimal that float32 tells from others: 0.1, whether it came as float32, as
    float64 or as a float32 that became float64. There is one zero.

    Examples
    --------
    >>> import numpy as np
    >>> canonical(["a", 3, float(np.float32(0.1)), 0.1, 2**53 + 1])
    ['a', 3.0, 0.1, 0.1, 9007199254740993]
    """
    plain = [float(c) if isinstance(c, int) and abs(c) <= LARGEST_EXACT else c for c in categories]
    floats = [i for i, category in enumerate(plain) if isinstance(category, float)]
    values = np.array([plain[i] for i in floats], np.float64)
    for i, value in zip(floats, _without_width(values).tolist(), strict=True):
        plain[i] = value
    return plain


def _without_width(values: NDArray[Any]) -> NDArray[np.float64]:
    values = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    fractions = np.flatnonzero(values != np.round(values))
    single = values[fractions].astype(np.float32)
    held = single == values[fractions]
    values[fractions[held]] = _shortest_decimals(single[held])
    return values


def _shortest_decimals(values: NDArray[Any]) -> NDArray[np.float64]:
    """Float64 nearest to the shortest decimal that the narrower type tells from others."""
    return values.astype("U").astype(np.float64)
