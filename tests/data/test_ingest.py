"""Ingest: every kind of table gives the same columns, and bad input an error that names it."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from mvsboost.data import CategoricalColumn, Columns, ColumnTypeError, NumericColumn, ingest
from mvsboost.data.columns import canonical
from mvsboost.errors import DataError, ParameterError

RAW = {
    "size": [1.5, None, -2.0, 0.0],
    "count": [3, 1, None, 2],
    "flag": [True, False, True, True],
    "city": ["Oslo", "Bergen", None, "Oslo"],
}


def assert_same(a: Columns, b: Columns) -> None:
    assert a.names == b.names
    for x, y in zip(a.columns, b.columns, strict=True):
        assert type(x) is type(y)
        if isinstance(x, CategoricalColumn):
            assert x.categories == y.categories
            np.testing.assert_array_equal(x.codes, y.codes)
        else:
            np.testing.assert_array_equal(x.values, y.values)


def pandas_nullable() -> pd.DataFrame:
    frame = pd.DataFrame({"size": RAW["size"]}, dtype="Float64")
    frame["count"] = pd.array(RAW["count"], dtype="Int64")
    frame["flag"] = pd.array(RAW["flag"], dtype="boolean")
    frame["city"] = pd.Categorical(RAW["city"], categories=["Oslo", "Nowhere", "Bergen"])
    return frame


def arrow_dictionary() -> pa.Table:
    columns = {name: pa.array(values) for name, values in RAW.items()}
    return pa.table({**columns, "city": columns["city"].dictionary_encode()})


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(RAW),
        pd.DataFrame(RAW).astype({"city": object}),
        pandas_nullable(),
        pd.DataFrame(RAW).astype({"city": "category"}),
        pl.DataFrame(RAW),
        pl.DataFrame(RAW).with_columns(pl.col("city").cast(pl.Categorical)),
        pl.DataFrame(RAW).with_columns(pl.col("city").cast(pl.Enum(["Oslo", "x", "Bergen"]))),
        pa.table(RAW),
        arrow_dictionary(),
        {name: pd.Series(values) for name, values in RAW.items()},
        {name: np.array(values, dtype=object) for name, values in RAW.items()},
    ],
    ids=lambda table: type(table).__module__.split(".")[0],
)
def test_every_table_gives_the_same_columns(table: object) -> None:
    expected = ingest(RAW)
    assert [type(c) for c in expected.columns] == [NumericColumn] * 3 + [CategoricalColumn]
    assert_same(ingest(table), expected)


def test_rows_and_object_arrays_have_columns_without_names() -> None:
    rows = list(zip(*RAW.values(), strict=True))
    expected = Columns(ingest(RAW).columns, None)
    assert_same(ingest([list(row) for row in rows]), expected)
    assert_same(ingest(np.array(rows, dtype=object)), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_views_of_the_array(dtype: type) -> None:
    matrix = np.array([[1, np.nan], [3, 4]], dtype)
    for j, column in enumerate(ingest(matrix).columns):
        assert column.values.dtype == dtype
        assert np.shares_memory(column.values, matrix)
        np.testing.assert_array_equal(column.values, matrix[:, j])


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": np.array([1, np.nan], np.float32)}),
        pl.DataFrame({"x": [1.0, None]}, schema={"x": pl.Float32}),
        pa.table({"x": pa.array([1.0, None], pa.float32())}),
    ],
    ids=["pandas", "polars", "arrow"],
)
def test_float32_frames_stay_float32(frame: object) -> None:
    values = ingest(frame).columns[0].values
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, np.array([1, np.nan], np.float32))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, object])
def test_other_numbers_become_floats(dtype: type) -> None:
    column = ingest(np.array([[0], [1]]).astype(dtype)).columns[0]
    assert column.values.dtype == (np.float32 if dtype is np.float16 else np.float64)
    assert column.values.tolist() == [0, 1]


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix])
def test_sparse_is_its_dense_self(form: type) -> None:
    dense = np.random.default_rng(0).integers(0, 3, (20, 70)).astype(np.float32)
    columns = ingest(form(dense))
    assert columns.columns[0].values.dtype == np.float32
    assert_same(columns, ingest(dense))


def test_a_masked_array_has_missing_values() -> None:
    masked = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    np.testing.assert_array_equal(ingest(masked).columns[1].values, [np.nan, 4])


def test_masked_columns_have_missing_values() -> None:
    mask, dates = [False, True], np.array(["1970-01-01", "1970-01-02"], "M8[ns]")
    table = {
        "number": np.ma.array([1, -999], mask=mask),
        "text": np.ma.array(["a", "b"], mask=mask),
        "date": np.ma.array(dates, mask=mask),
        "span": np.ma.array(dates - dates[0], mask=mask),
    }
    number, text, date, span = ingest(table).columns
    assert np.array_equal(number.values, [1.0, np.nan], equal_nan=True)
    assert (text.codes.tolist(), text.categories) == ([0, -1], ("a",))
    assert np.array_equal(date.values, [0.0, np.nan], equal_nan=True)
    assert np.array_equal(span.values, [0.0, np.nan], equal_nan=True)
    matrix = np.ma.array([["a"], ["b"]], mask=[[False], [True]])
    assert ingest(matrix).columns[0].codes.tolist() == [0, -1]


def test_dates_may_be_objects() -> None:
    east = timezone(timedelta(hours=1))
    table = {
        "day": [date(1970, 1, 2), None, date(1970, 1, 1)],
        "moment": [
            datetime(1970, 1, 1, 1, tzinfo=east),
            pd.NaT,
            pd.Timestamp("1970-01-01 00:01", tz="UTC"),
        ],
        "span": [timedelta(seconds=1), None, np.timedelta64(2, "s")],
        "time": [time(0, 1, 0, 5), None, time(0)],
    }
    day, moment, span, of_day = (column.values for column in ingest(table).columns)
    assert np.array_equal(day, [86_400e6, np.nan, 0.0], equal_nan=True)
    assert np.array_equal(moment, [0.0, np.nan, 60e6], equal_nan=True)
    assert np.array_equal(span, [1e6, np.nan, 2e6], equal_nan=True)
    assert np.array_equal(of_day, [60_000_005.0, np.nan, 0.0], equal_nan=True)
    part = {name: table[name] for name in ("day", "time")}
    for frame in (pd.DataFrame(part), pl.DataFrame(part)):
        for column, expected in zip(ingest(frame).columns, (day, of_day), strict=True):
            assert np.array_equal(column.values, expected, equal_nan=True)


@pytest.mark.parametrize("other", [3, "x", timedelta(1)])
def test_dates_are_not_mixed_with_others(other: object) -> None:
    with pytest.raises(DataError, match=r"'day'.* all must be dates, got a date in row 0"):
        ingest({"day": [date(1970, 1, 2), other]})


def test_categories_of_other_objects_go_by_their_text() -> None:
    ranges = pd.cut([1.0, 2.0, 3.0, np.nan], [0, 1, 5])
    for frame, codes in ((ranges, [0, 1, 1, -1]), (ranges[:3], [0, 1, 1])):
        (column,) = ingest(pd.DataFrame({"range": frame})).columns
        assert (column.codes.tolist(), column.categories) == (codes, ("(0, 1]", "(1, 5]"))


def test_members_of_an_enumeration_are_their_text() -> None:
    class Colour(str, Enum):  # noqa: UP042 - a StrEnum's text is its value
        RED = "red"
        BLUE = "blue"

    (column,) = ingest({"colour": [Colour.RED, Colour.BLUE, "red", None]}).columns
    assert (column.codes.tolist(), column.categories) == ([1, 0, 1, -1], ("blue", "red"))


def test_a_record_batch_has_names() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1.0, 2.0], "b": ["x", "y"]})
    assert ingest(batch).names == ("a", "b")


def test_times_are_microseconds_from_every_source() -> None:
    moments = [datetime(1970, 1, 1, 0, 0, 1), None]
    spans = [timedelta(milliseconds=2), None]
    days = [date(1970, 1, 2), None]
    raw = {"at": moments, "span": spans, "day": days}
    numpy = {
        "at": np.array(moments, "datetime64[s]"),
        "span": np.array(spans, "timedelta64[ms]"),
        "day": np.array(days, "datetime64[D]"),
    }
    expected = [[1e6, np.nan], [2e3, np.nan], [86400e6, np.nan]]
    for table in (raw, pl.DataFrame(raw), pa.table(raw), numpy, pd.DataFrame(numpy)):
        read = ingest(table)
        np.testing.assert_array_equal([c.values for c in read.columns], expected)


def test_decimals_are_numbers() -> None:
    raw = {"x": [Decimal("1.5"), None]}
    for table in (raw, pa.table(raw)):
        np.testing.assert_array_equal(ingest(table).columns[0].values, [1.5, np.nan])


def test_frames_with_numbered_columns_have_no_names() -> None:
    assert ingest(pd.DataFrame(np.zeros((2, 2)))).names is None


def test_every_missing_marker_is_missing() -> None:
    text = ingest({"x": ["a", None, float("nan"), pd.NA, pd.NaT]}).columns[0]
    assert text.codes.tolist() == [0, -1, -1, -1, -1]
    numbers = ingest({"x": [1, None, float("nan"), pd.NA]}).columns[0]
    np.testing.assert_array_equal(numbers.values, [1, np.nan, np.nan, np.nan])


# --- categorical_features -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "chosen",
    [["b", "c"], [1, 2], np.array([1, 2]), [False, True, True], np.array([False, True, True])],
    ids=repr,
)
def test_chosen_columns_are_categorical_by_their_values(chosen: object) -> None:
    table = {"a": [1, 2, 3], "b": [7, 5, 7], "c": ["x", "y", "x"]}
    a, b, c = ingest(table, categorical_features=chosen).columns
    assert isinstance(a, NumericColumn)
    assert (b.codes.tolist(), b.categories) == ([1, 0, 1], (5.0, 7.0))
    assert c.categories == ("x", "y")


def test_a_numeric_category_may_be_missing() -> None:
    column = ingest(np.array([[2.0], [np.nan], [2.0]]), categorical_features=[0]).columns[0]
    assert (column.codes.tolist(), column.categories) == ([0, -1, 0], (2.0,))


def test_pandas_categories_may_be_numbers() -> None:
    column = ingest(pd.DataFrame({"x": pd.Categorical([3, 1, None])})).columns[0]
    assert (column.codes.tolist(), column.categories) == ([1, 0, -1], (1.0, 3.0))


@pytest.mark.parametrize("dictionaries", [True, False])
def test_chunks_of_arrow_share_their_categories(dictionaries: bool) -> None:
    chunks = [pa.array(["b", None, "a"]), pa.array(["c", "b"])]
    if dictionaries:
        chunks = [chunk.dictionary_encode() for chunk in chunks]
    (column,) = ingest(pa.table({"x": pa.chunked_array(chunks)})).columns
    assert column.categories == ("a", "b", "c")
    assert column.codes.tolist() == [1, -1, 0, 2, 1]


def test_mixed_categories_of_pandas_name_a_row() -> None:
    mixed = pd.Categorical(["a", None, 3, "a"], categories=["b", 3, "a"])
    with pytest.raises(ColumnTypeError, match="row 2 holds 3"):
        ingest(pd.DataFrame({"x": mixed}))


@pytest.mark.parametrize("chosen", [None, ["a"], []])
def test_text_left_out_is_an_error(chosen: object) -> None:
    with pytest.raises(DataError, match=r"'city' holds text.*categorical_features='auto'"):
        ingest({"a": [1, 2], "city": ["x", "y"]}, categorical_features=chosen)


def test_text_without_a_value_may_be_left_out() -> None:
    frame = pl.DataFrame({"a": [None, None]}, schema={"a": pl.String})
    assert isinstance(ingest(frame).columns[0], CategoricalColumn)
    assert np.isnan(ingest(frame, categorical_features=None).columns[0].values).all()


@pytest.mark.parametrize("chosen", ["yes", [0, "a"], [1.5], [3], [-1], [True], ["z"]], ids=repr)
def test_impossible_choices_name_the_parameter(chosen: object) -> None:
    with pytest.raises(ParameterError, match="categorical_features must be"):
        ingest({"a": [1], "b": [2]}, categorical_features=chosen)


def test_names_need_a_table_with_names() -> None:
    with pytest.raises(ParameterError, match="no names"):
        ingest(np.zeros((2, 2)), categorical_features=["a"])


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((2, 2), complex),
        np.array([[1 + 2j, "a"]], dtype=object),
        {"a": np.zeros(2, complex)},
        sparse.csr_matrix(np.ones((2, 2), complex)),
    ],
    ids=["array", "objects", "dict", "sparse"],
)
def test_complex_numbers(X: object) -> None:
    with pytest.raises(DataError, match="Complex data not supported"):
        ingest(X)


def test_odd_objects_name_column_type_and_row() -> None:
    X = np.array([[1.0, 2.0], [3.0, {"foo": "bar"}]], dtype=object)
    with pytest.raises(TypeError, match=r"argument must be .* string.* number") as caught:
        ingest(X)
    assert isinstance(caught.value, DataError)
    for part in ("'f1'", "dict", "row 1"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "X",
    [{"a": [b"x"]}, {"a": np.array([b"x"])}, pl.DataFrame({"a": [[1, 2]]}), {"a": [range(3)]}],
    ids=["bytes", "byte array", "lists", "ranges"],
)
def test_other_odd_values(X: object) -> None:
    with pytest.raises(ColumnTypeError, match="'a'"):
        ingest(X)


def test_text_mixed_with_numbers() -> None:
    with pytest.raises(ColumnTypeError, match=r"'a' mixes text and numbers: row 2 holds 3"):
        ingest({"a": ["x", float("nan"), 3]})


@pytest.mark.parametrize("form", [np.array, sparse.csr_matrix, pd.DataFrame, pl.DataFrame, list])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinity_is_a_value(form: type, dtype: type) -> None:
    X = np.array([[1.0, -np.inf], [3.0, np.inf]], dtype)
    assert ingest(form(X)).columns[1].values.tolist() == [-np.inf, np.inf]
    assert ingest({"x": [Decimal("inf"), 1]}).columns[0].values.tolist() == [np.inf, 1.0]


def test_an_integer_beyond_floats() -> None:
    with pytest.raises(DataError, match="'a' holds an integer too large"):
        ingest({"a": [10**400]})


@pytest.mark.parametrize("X", [np.zeros(3), np.float64(1), np.zeros((2, 2, 2)), pd.Series([1.0])])
def test_wrong_dimensions(X: object) -> None:
    with pytest.raises(DataError, match=r"Expected 2D array.*Reshape your data"):
        ingest(X)


@pytest.mark.parametrize(
    "X", [np.zeros((0, 3)), pd.DataFrame({"a": []}), {"a": []}, sparse.csr_matrix((0, 3))]
)
def test_no_rows(X: object) -> None:
    with pytest.raises(DataError, match=r"0 sample\(s\) \(shape=\(0, \d\)\) while a minimum of 1"):
        ingest(X)


@pytest.mark.parametrize("X", [np.zeros((12, 0)), pd.DataFrame(index=range(12)), {}])
def test_no_columns(X: object) -> None:
    with pytest.raises(DataError, match=r"0 feature\(s\) \(shape=\(\d*, 0\)\) while a minimum"):
        ingest(X)


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame(np.zeros((2, 3)), columns=["age", "b", "age"]),
        pa.Table.from_arrays([pa.array([1])] * 2, names=["age", "age"]),
    ],
    ids=["pandas", "arrow"],
)
def test_duplicate_names(X: object) -> None:
    with pytest.raises(DataError, match=r"(?s)Duplicate column names.*age"):
        ingest(X)


def test_names_of_mixed_types() -> None:
    with pytest.raises(DataError, match="all be strings, got 1 of type int"):
        ingest(pd.DataFrame({"a": [1], 1: [2]}))


def test_unequal_columns_and_rows() -> None:
    with pytest.raises(DataError, match="'a' has 2 rows, 'b' has 1"):
        ingest({"a": [1, 2], "b": [1]})
    with pytest.raises(DataError, match="Rows of X differ"):
        ingest([[1, 2], [3]])
    with pytest.raises(DataError, match="'a' must be one-dimensional"):
        ingest({"a": np.zeros((2, 2))})
    with pytest.raises(DataError, match="Keys of a dict"):
        ingest({0: [1]})


def test_a_dict_may_hold_any_array_like() -> None:
    column = ingest({"a": memoryview(np.array([1.0, 2.0]))}).columns[0]
    assert column.values.tolist() == [1.0, 2.0]


def test_lazy_tables_ask_to_be_collected() -> None:
    with pytest.raises(DataError, match=r"collect\(\)"):
        ingest(pl.LazyFrame({"a": [1]}))


def test_a_one_dimensional_sparse_array() -> None:
    with pytest.raises(DataError, match="2D sparse"):
        ingest(sparse.coo_array(np.array([1.0, 0.0])))


@pytest.mark.parametrize(
    "array",
    [
        pd.Categorical([3, 1, None, 3]),
        pd.CategoricalIndex([3, 1, None, 3]),
        pd.Series([3, 1, None, 3], dtype="category"),
        pa.array([3, 1, None, 3]).dictionary_encode(),
        pa.chunked_array([pa.array([3, 1, None, 3]).dictionary_encode()]),
    ],
    ids=lambda array: type(array).__name__,
)
def test_arrays_of_categories_in_a_dict_are_categories(array):
    column = ingest({"store": array}).columns[0]
    assert isinstance(column, CategoricalColumn)
    assert column.categories == (1, 3)
    assert column.codes.tolist() == [1, 0, -1, 1]


@pytest.mark.parametrize(
    "array",
    [pd.array([1, None, 2], dtype="Int64"), pd.Index([1.0, np.nan, 2.0]), pa.array([1, None, 2])],
)
def test_arrays_of_numbers_in_a_dict_are_numbers(array):
    column = ingest({"x": array}).columns[0]
    assert isinstance(column, NumericColumn)
    np.testing.assert_array_equal(column.values, [1.0, np.nan, 2.0])


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([{"q": 1.0, "r": 2.0}] * 3),
        pl.Series([[1.0, 2.0]] * 3, dtype=pl.Array(pl.Float64, 2)),
    ],
    ids=["struct", "array"],
)
def test_several_numbers_a_row_are_no_column(column):
    with pytest.raises(ColumnTypeError, match=r"Column 'pair' holds several numbers a row"):
        ingest(pl.DataFrame({"pair": column}))


# --- categories that are numbers ----------------------------------------------------------------


BIG = [2**60 + 1, 7, 2**60, None, 2**60 + 1, -(2**60) - 1]
BIG_CODES = ([3, 1, 2, -1, 3, 0], (-(2**60) - 1, 7.0, 2**60, 2**60 + 1))
FULL = [7 if value is None else value for value in BIG]
FULL_CODES = ([3, 1, 2, 1, 3, 0], BIG_CODES[1])


def masked(values: list[int | None]) -> np.ma.MaskedArray:
    full = [0 if value is None else value for value in values]
    return np.ma.array(full, mask=[value is None for value in values])


def decimals() -> pa.Array:
    values = [None if value is None else Decimal(value) for value in BIG]
    return pa.array(values, pa.decimal128(38, 0))


@pytest.mark.parametrize(
    "table",
    [
        {"x": BIG},
        {"x": np.array(BIG, dtype=object)},
        {"x": [None if v is None else Decimal(v) for v in BIG]},
        {"x": [None if v is None else Fraction(v) for v in BIG]},
        {"x": [np.nan if v is None else np.int64(v) for v in BIG]},
        {"x": masked(BIG)},
        {"x": pa.array(BIG)},
        {"x": pd.Categorical(pd.array(BIG, "Int64"))},
        np.array(BIG, dtype=object)[:, None],
        masked(BIG)[:, None],
        [[value] for value in BIG],
        pd.DataFrame({"x": BIG}, dtype="Int64"),
        pd.DataFrame({"x": BIG}, dtype="int64[pyarrow]"),
        pd.DataFrame({"x": BIG}, dtype=object),
        pd.DataFrame({"x": BIG}, dtype="Int64").astype("category"),
        pl.DataFrame({"x": BIG}),
        pl.DataFrame({"x": decimals()}),
        pa.table({"x": BIG}),
        pa.table({"x": pa.array(BIG).dictionary_encode()}),
        pa.table({"x": decimals()}),
    ],
    ids=lambda table: type(table).__module__.split(".")[0],
)
def test_large_integers_are_categories_of_their_own(table: object) -> None:
    for chosen in ([0], [True]):
        (column,) = ingest(table, categorical_features=chosen).columns
        assert (column.codes.tolist(), column.categories) == BIG_CODES
        assert [type(c) for c in column.categories] == [int, float, int, int]


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="polars 1.18 has it")
def test_integers_of_128_bits_are_categories_of_their_own() -> None:
    table = pl.DataFrame({"x": BIG}, schema={"x": pl.Int128})
    (column,) = ingest(table, categorical_features=[0]).columns
    assert (column.codes.tolist(), column.categories) == BIG_CODES


@pytest.mark.parametrize(
    "table",
    [
        np.array(FULL)[:, None],
        np.asfortranarray(np.array([FULL, FULL]).T),
        [[value, value] for value in FULL],
        [[value, 0.5] for value in FULL],
        [(value, None) for value in FULL],
        pd.DataFrame({"x": FULL, "y": 0.5}),
        pd.DataFrame({"x": pd.arrays.SparseArray(FULL)}),
        sparse.csr_matrix(np.array(FULL)[:, None]),
        {"x": pd.Index(FULL)},
    ],
    ids=lambda table: type(table).__module__.split(".")[0],
)
def test_large_integers_without_a_missing_value(table: object) -> None:
    column = ingest(table, categorical_features=[0]).columns[0]
    assert (column.codes.tolist(), column.categories) == FULL_CODES


@pytest.mark.parametrize("values", [[2**64 - 1, 2**64 - 2, 5], [2**63, 5, -1]])
def test_integers_of_more_bits(values: list[int]) -> None:
    tables = [{"x": values}, [[value] for value in values]]
    if min(values) > 0:
        unsigned = np.array(values, np.uint64)
        tables += [unsigned[:, None], pd.DataFrame({"x": unsigned})]
        tables += [pl.DataFrame({"x": unsigned}), pa.table({"x": unsigned})]
    for table in tables:
        (column,) = ingest(table, categorical_features=[0]).columns
        assert column.categories == tuple(sorted(values))
        assert [column.categories[code] for code in column.codes] == values


def test_large_integers_are_floats_where_they_are_numbers() -> None:
    for table in ({"x": BIG}, pa.table({"x": BIG}), pl.DataFrame({"x": BIG})):
        values = ingest(table).columns[0].values
        assert values.dtype == np.float64
        expected = [np.nan if value is None else float(value) for value in BIG]
        np.testing.assert_array_equal(values, expected)


def test_integers_are_kept_beside_only_where_floats_are_not_enough() -> None:
    for limit in (2**53, -(2**53)):
        assert ingest(np.array([[0], [limit]])).columns[0].exact is None
        beyond = limit + (1 if limit > 0 else -1)
        matrix = np.array([[0, beyond], [1, limit]])
        first, second = ingest(matrix).columns
        assert first.exact is None
        assert np.shares_memory(second.exact, matrix)
        assert second.take(np.array([0])).exact.tolist() == [beyond]


def test_rows_of_several_types_keep_them() -> None:
    spans = [[np.timedelta64(1, "s"), 5], [np.timedelta64(2, "s"), 6]]
    span, number = ingest(spans).columns
    assert (span.kind, number.kind, number.values.tolist()) == ("duration", "number", [5.0, 6.0])
    days = [np.array(["1970-01-02", "1970-01-03"], "M8[ns]")]
    assert [c.values.tolist() for c in ingest(days).columns] == [[86_400e6], [172_800e6]]
    mixed = [[np.datetime64("1970-01-02", "ns"), np.timedelta64(5, "s")]]
    assert [c.kind for c in ingest(mixed).columns] == ["time", "duration"]


TENTHS = [0.1, 2.5, 1 / 3, 0.7, None]


def as_dtype(dtype: type) -> np.ndarray:
    return np.array(TENTHS, float).astype(dtype)


@pytest.mark.parametrize(
    "table",
    [
        as_dtype(np.float32)[:, None],
        as_dtype(np.float32).astype(float)[:, None],
        as_dtype(np.float32).astype(object)[:, None],
        {"x": as_dtype(np.float32)},
        {"x": as_dtype(np.float32).tolist()},
        {"x": list(as_dtype(np.float32))},
        pd.DataFrame({"x": as_dtype(np.float32)}),
        pd.DataFrame({"x": TENTHS}, dtype="Float32"),
        pd.DataFrame({"x": as_dtype(np.float32)}).astype("category"),
        pl.DataFrame({"x": TENTHS}, schema={"x": pl.Float32}),
        pa.table({"x": pa.array(TENTHS, pa.float32())}),
        pa.table({"x": pa.array(TENTHS, pa.float32()).dictionary_encode()}),
        sparse.csr_matrix(as_dtype(np.float32)[:, None]),
    ],
    ids=lambda table: type(table).__module__.split(".")[0],
)
def test_a_category_has_no_width(table: object) -> None:
    (column,) = ingest(table, categorical_features=[0]).columns
    assert column.codes.tolist() == [0, 3, 1, 2, -1]
    assert column.categories == (0.1, 0.33333334, 0.7, 2.5)


@pytest.mark.parametrize(
    "column",
    [
        as_dtype(np.float16),
        pd.Series(as_dtype(np.float16)),
        pytest.param(
            pl.Series(as_dtype(np.float16)),
            marks=pytest.mark.skipif(not hasattr(pl, "Float16"), reason="polars makes it float32"),
        ),
        pa.array(as_dtype(np.float16)),
    ],
    ids=lambda column: type(column).__module__.split(".")[0],
)
def test_half_precision_has_decimals_of_its_own(column: object) -> None:
    (read,) = ingest({"x": column}, categorical_features=[0]).columns
    assert read.categories == (0.1, 0.3333, 0.7, 2.5)


def test_the_same_number_at_two_widths_is_one_category() -> None:
    values = [0.1, float(np.float32(0.1)), 0.3, 16777217.0, 0.0, -0.0]
    (column,) = ingest({"x": values}, categorical_features=[0]).columns
    assert column.codes.tolist() == [1, 1, 2, 3, 0, 0]
    assert column.categories == (0.0, 0.1, 0.3, 16777217.0)
    assert not np.signbit(column.categories[0])
    beside = ingest({"x": [*values, 2**60]}, categorical_features=[0]).columns[0]
    assert beside.categories == (*column.categories, 2**60)


@given(st.floats(width=32, allow_nan=False))
def test_the_decimal_of_a_float32_is_the_float32(value: float) -> None:
    (category,) = canonical([value])
    assert np.float32(category) == np.float32(value)
    whole = value == np.round(value)  # an integer is what it is
    decimal = value if whole else float(str(np.float32(value)))
    assert canonical([decimal]) == canonical([category]) == [category]


def test_decimals_have_one_float_from_every_source() -> None:
    numbers = [Decimal(value).scaleb(-2) for value in (123456789012345, 110, -29, 570)]
    expected = [float(value) for value in numbers]
    for kind in (pa.decimal128(38, 2), pa.decimal128(38, 18)):
        array = pa.array([*numbers, None], kind)
        arrow = pd.Series(array, dtype=pd.ArrowDtype(kind))
        for column in (array, pl.from_arrow(array), arrow):
            values = ingest({"x": column}).columns[0].values
            np.testing.assert_array_equal(values, [*expected, np.nan])


def test_infinity_may_be_a_category() -> None:
    values = [np.inf, -np.inf, 0.5, np.inf]
    for table in ({"x": values}, pd.DataFrame({"x": values}).astype("category")):
        (column,) = ingest(table, categorical_features=[0]).columns
        assert (column.codes.tolist(), column.categories) == ([2, 0, 1, 2], (-np.inf, 0.5, np.inf))


def test_categories_of_dates_go_by_their_text_from_arrow_too() -> None:
    days = [date(2024, 2, 1), None, date(2024, 1, 1)]
    arrow = pa.array(days).dictionary_encode()
    for array in (arrow, pd.Categorical(days)):
        (column,) = ingest({"day": array}).columns
        assert column.categories == ("2024-01-01", "2024-02-01")
        assert column.codes.tolist() == [1, -1, 0]


# --- what numbers stand for ---------------------------------------------------------------------


MOMENT = datetime(2024, 2, 1, 12, 30, 0, 5)
OSLO = MOMENT.replace(tzinfo=timezone(timedelta(hours=1)))
SPAN, TIME, DAY = timedelta(milliseconds=-3), time(12, 30, 0, 5), date(2024, 2, 1)


def zoned(unit: str) -> pd.Series:
    return pd.Series(pd.to_datetime([OSLO, None]).astype(f"datetime64[{unit}, Europe/Oslo]"))


@pytest.mark.parametrize(
    ("kind", "value", "columns"),
    [
        ("number", 1.0, [[1, None], [True, None], [Decimal(1), None], pa.array([1.0, None])]),
        ("number", 1.0, [pd.array([True, None], "boolean"), pd.array([1, None], "Int8")]),
        (
            "time",
            1706790600000005.0,
            [
                [MOMENT, None],
                [pd.Timestamp(MOMENT), pd.NaT],
                [np.datetime64(MOMENT), np.datetime64("NaT", "us")],
                np.array([MOMENT, None], object),
                np.array([MOMENT, None], "M8[us]"),
                np.array([MOMENT, None], "M8[ns]"),
                np.ma.array(np.array([MOMENT, MOMENT], "M8[us]"), mask=[False, True]),
                pd.Series([MOMENT, None]).astype("M8[ns]"),
                pd.Series([MOMENT, None]).astype("M8[us]"),
                pd.Series([MOMENT, None], dtype=pd.ArrowDtype(pa.timestamp("us"))),
                pl.Series([MOMENT, None], dtype=pl.Datetime("us")),
                pl.Series([MOMENT, None], dtype=pl.Datetime("ns")),
                pa.array([MOMENT, None], pa.timestamp("us")),
                pa.array([MOMENT, None], pa.timestamp("ns")),
            ],
        ),
        (
            "time",
            1706745600000000.0,
            [
                [DAY, None],
                [datetime(2024, 2, 1), None],
                *(np.array([DAY, None], f"M8[{unit}]") for unit in ("D", "s", "ms", "us", "ns")),
                pl.Series([DAY, None]),
                pl.Series([DAY, None]).cast(pl.Datetime("ms")),
                pa.array([DAY, None]),
                pa.array([DAY, None], pa.date64()),
                pa.array([datetime(2024, 2, 1), None], pa.timestamp("s")),
                pd.Series([DAY, None], dtype=pd.ArrowDtype(pa.date32())),
                pd.Series([DAY, None]),
            ],
        ),
        (
            "zoned time",
            1706787000000005.0,
            [
                [OSLO, None],
                [pd.Timestamp(OSLO).tz_convert("Asia/Tokyo"), pd.NaT, OSLO],
                zoned("us"),
                zoned("ns"),
                zoned("us").astype(object),
                zoned("us").astype(pd.ArrowDtype(pa.timestamp("us", "UTC"))),
                pl.Series([OSLO, None], dtype=pl.Datetime("us", "UTC")),
                pl.from_pandas(zoned("ns")),
                pa.array([OSLO, None], pa.timestamp("us", "Europe/Oslo")),
                pa.array([OSLO, None], pa.timestamp("ns", "+03:00")),
            ],
        ),
        (
            "duration",
            -3000.0,
            [
                [SPAN, None],
                [np.timedelta64(-3, "ms"), None],
                *(np.array([SPAN, None], f"m8[{unit}]") for unit in ("ms", "us", "ns")),
                pd.Series([SPAN, None]),
                pd.Series([SPAN, None]).astype("m8[ms]"),
                *(pl.Series([SPAN, None], dtype=pl.Duration(u)) for u in ("ms", "us", "ns")),
                *(pa.array([SPAN, None], pa.duration(unit)) for unit in ("ms", "us", "ns")),
                pd.Series([SPAN, None], dtype=pd.ArrowDtype(pa.duration("ns"))),
            ],
        ),
        (
            "time of day",
            45000000005.0,
            [
                [TIME, None],
                pd.Series([TIME, None]),
                pd.Series([TIME, None], dtype=pd.ArrowDtype(pa.time64("ns"))),
                pl.Series([TIME, None]),
                pa.array([TIME, None]),
                pa.array([TIME, None], pa.time64("ns")),
            ],
        ),
    ],
    ids=["numbers", "more numbers", "times", "dates", "instants", "durations", "times of day"],
)
def test_every_source_gives_the_same_kind(kind: str, value: float, columns: list[object]) -> None:
    for column in columns:
        (read,) = ingest({"x": column}).columns
        assert read.kind == kind, column
        assert read.values[0] == value, column
        assert np.isnan(read.values[1]), column
        assert read.take(np.array([0])).kind == kind
        (chosen,) = ingest({"x": column}, categorical_features=[0]).columns
        assert (chosen.kind, chosen.categories) == (kind, (value,))
        assert chosen.take(np.array([0])).kind == kind


def test_parts_of_a_microsecond_are_dropped_alike() -> None:
    spans = np.array([-1, 1500, -1500], "m8[ns]")
    for column in (spans, pd.Series(spans), pl.Series(spans), pa.array(spans), list(spans)):
        assert ingest({"x": column}).columns[0].values.tolist() == [-1.0, 1.0, -2.0]


@pytest.mark.parametrize("bare", [MOMENT, DAY, pd.Timestamp(MOMENT), np.datetime64(MOMENT)])
def test_times_with_and_without_a_zone_are_not_mixed(bare: object) -> None:
    message = r"'when' mixes times with and without a time zone: row 1 holds .*\+01:00, row 2 holds"
    for table in ({"when": [None, OSLO, bare]}, pd.DataFrame({"when": [None, OSLO, bare]})):
        with pytest.raises(ColumnTypeError, match=message):
            ingest(table)


def test_times_of_day_have_no_zone() -> None:
    with pytest.raises(ColumnTypeError, match=r"'at' holds times of day with a time zone.*row 1"):
        ingest({"at": [TIME, OSLO.timetz()]})
