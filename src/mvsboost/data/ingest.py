"""From what people have (arrays, tables, dicts, sparse matrices) to `Columns`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mvsboost.data.columns import (
    LARGEST_EXACT,
    MISSING,
    ZONED,
    CategoricalColumn,
    Column,
    Columns,
    ColumnTypeError,
    NumericColumn,
    as_categories,
    as_floats,
    column_from_array,
    column_from_objects,
    numeric_columns,
    to_categorical,
)
from mvsboost.data.device import check_on_host, device_columns, form_of, is_on_device
from mvsboost.errors import DataError, ParameterError

__all__ = ["CategoricalFeatures", "as_table", "chosen_columns", "ingest"]

CategoricalFeatures: TypeAlias = str | Sequence[str] | Sequence[int] | Sequence[bool] | None

_SPARSE_BLOCK = 64


def ingest(X: Any, *, categorical_features: CategoricalFeatures = "auto") -> Columns:
    """Read a table into columns.

    Parameters
    ----------
    X : 2-D NumPy array, pandas / polars / Arrow table, dict of arrays, list of rows, or sparse
        `Columns` that were read before pass as they are. A 2-D array of numbers on a GPU, with
        ``__cuda_array_interface__``, stays there; of its columns those that are categorical are
        copied to the host.
        A sparse matrix is made dense, a block of columns at a time: the result takes
        ``n_rows * n_columns`` times the size of its dtype (8 bytes for float64).
    categorical_features : "auto", list of names or indices, boolean mask, or None
        ``"auto"`` takes text and categorical dtypes as categorical. A list or a mask says
        exactly which columns are; a numeric column among them is categorical by its
        distinct values. None says that no column is.

    Returns
    -------
    Columns
        Float32 and float64 columns of an array or a table are views, not copies.

    Raises
    ------
    DataError
        Empty or not two-dimensional data, complex numbers, duplicate names, columns of
        unequal lengths, text where none is allowed, times with and without a time zone in one
        column, and values that are neither text nor numbers.

    Examples
    --------
    >>> columns = ingest({"age": [31, None], "city": ["Oslo", "Bergen"]})
    >>> columns.names, columns.columns[1].categories
    (('age', 'city'), ('Bergen', 'Oslo'))
    """
    columns = _read(X)
    return _assign_kinds(columns, categorical_features)


def _read(X: Any) -> Columns:
    if isinstance(X, Columns):
        return X
    if hasattr(X, "__dask_graph__"):
        kind = type(X).__name__
        raise DataError(f"X is a collection of dask ({kind}); call compute() on it first")
    if isinstance(X, np.ndarray):
        return _read_array(X)
    if is_on_device(X):
        _check_array(*form_of(X))
        return Columns(device_columns(X), None)
    check_on_host(X, "X")
    # nobody can hold a sparse matrix without having imported the module; one kind is a dict
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(X):
        return _read_sparse(X)
    if isinstance(X, Mapping):
        return _read_mapping(X)
    if isinstance(X, (list, tuple)):
        return _read_array(_array_from_rows(X))
    return _read_frame(X)


def _check_shape(n_rows: int, n_columns: int) -> None:
    shape = f"(shape=({n_rows}, {n_columns})) while a minimum of 1 is required."
    if n_columns == 0:
        raise DataError(f"Found array with 0 feature(s) {shape}")
    if n_rows == 0:
        raise DataError(f"Found array with 0 sample(s) {shape}")


def _check_names(names: Sequence[Any]) -> tuple[str, ...] | None:
    """Names if they are text, None if none of them is: positions then."""
    texts = [isinstance(name, str) for name in names]
    if not any(texts):
        return None
    if not all(texts):
        odd = names[texts.index(False)]
        raise DataError(
            f"Column names must all be strings, got {odd!r} of type {type(odd).__name__}. "
            "Rename it, for example with X.columns = X.columns.astype(str)."
        )
    return tuple(names)


# --- arrays -----------------------------------------------------------------------------------


def _array_from_rows(rows: Sequence[Any]) -> NDArray[Any]:
    try:
        array = np.asarray(rows)
        return _objects(rows, array.shape) if _one_dtype_changed_them(array) else array
    except ValueError as error:
        raise DataError(f"Rows of X differ in length or depth: {error}") from error


def _one_dtype_changed_them(array: NDArray[Any]) -> bool:
    """Whether values of several types may have become others in an array of one dtype.

    Numbers beside text become text, numbers beside durations become durations, and large
    integers beside floats become floats.
    """
    if array.dtype.kind == "f":
        return bool((np.abs(array) >= np.float64(LARGEST_EXACT)).any())
    return array.dtype.kind in "USmM"


def _objects(rows: Sequence[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if len(shape) != 2:
        return np.array(rows, dtype=object)
    objects = np.empty(shape, dtype=object)
    for i, row in enumerate(rows):
        objects[i] = list(row)  # not by NumPy, to which a datetime64[ns] is an integer
    return objects


def _check_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if dtype.kind == "c":
        raise DataError(f"Complex data not supported, got an array of dtype {dtype}")
    if len(shape) != 2:
        raise DataError(
            f"Expected 2D array, got {len(shape)}D array of shape {shape} instead. Reshape your "
            "data with array.reshape(-1, 1) if it has a single feature or "
            "array.reshape(1, -1) if it contains a single sample."
        )
    _check_shape(*shape)


def _read_array(X: NDArray[Any]) -> Columns:
    _check_array(X.shape, X.dtype)
    X = _unmasked(X)
    if X.dtype.kind in "fbiu" and not np.ma.is_masked(X):
        return Columns(numeric_columns(np.asarray(X)), None)
    return Columns(tuple(column_from_array(X[:, j], f"f{j}") for j in range(X.shape[1])), None)


def _unmasked(values: NDArray[Any]) -> NDArray[Any]:
    """The same with missing values in place of those that are masked, but for numbers."""
    if not isinstance(values, np.ma.MaskedArray) or values.dtype.kind in "fbiuc":
        return values
    if values.dtype.kind in "mM":
        unit, _ = np.datetime_data(values.dtype)
        return np.ma.filled(values, values.dtype.type("NaT", unit))
    objects = np.ma.getdata(values).astype(object)
    objects[np.ma.getmaskarray(values)] = None
    return objects


def _read_sparse(X: Any) -> Columns:
    if X.dtype.kind == "c":
        raise DataError(f"Complex data not supported, got a sparse matrix of dtype {X.dtype}")
    if X.ndim != 2:
        raise DataError(f"Expected 2D sparse matrix, got shape {X.shape}. Reshape your data.")
    _check_shape(*X.shape)
    by_column = X.tocsc()
    read: list[Column] = []
    for start in range(0, X.shape[1], _SPARSE_BLOCK):
        dense = by_column[:, start : start + _SPARSE_BLOCK].toarray(order="F")
        read.extend(numeric_columns(dense))
    return Columns(tuple(read), None)


# --- named columns ----------------------------------------------------------------------------


def _read_mapping(X: Mapping[Any, Any]) -> Columns:
    if not X:
        _check_shape(0, 0)
    names = _check_names(list(X))
    if names is None:
        raise DataError(f"Keys of a dict of columns must be strings, got {next(iter(X))!r}")
    read = tuple(_read_values(values, name) for name, values in X.items())
    n_rows = read[0].n_rows
    for name, column in zip(names, read, strict=True):
        if column.n_rows != n_rows:
            raise DataError(
                f"Columns differ in length: {names[0]!r} has {n_rows} rows, "
                f"{name!r} has {column.n_rows}."
            )
    _check_shape(n_rows, len(read))
    return Columns(read, names)


def _read_values(values: Any, name: str) -> Column:
    if isinstance(values, (list, tuple)):
        return column_from_objects(list(values), name)
    if not isinstance(values, np.ndarray):
        import narwhals as nw

        check_on_host(values, f"Column {name!r}")
        series = nw.from_native(_as_series(values), series_only=True, pass_through=True)
        if isinstance(series, nw.Series):
            return _read_series(series, name)
        values = np.asarray(values)
    if values.ndim != 1:
        raise DataError(f"Column {name!r} must be one-dimensional, got shape {values.shape}")
    return column_from_array(_unmasked(values), name)


def _read_frame(X: Any) -> Columns:
    import narwhals as nw
    from narwhals.exceptions import DuplicateError

    X = as_table(X)
    if hasattr(X, "collect") and not hasattr(X, "__array__"):
        raise DataError(f"X is a lazy table ({type(X).__name__}); call collect() on it first")
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        if not isinstance(frame, nw.DataFrame):
            return _read_array(np.asarray(X))
        labels = frame.columns
    except DuplicateError as error:
        raise DataError(f"Duplicate column names in X: {error}") from error
    names = _check_names(labels)
    _check_shape(*frame.shape)
    shown = names or [f"f{j}" for j in range(len(labels))]
    pandas = sys.modules.get("pandas")
    read_all = _read_pandas if pandas and isinstance(X, pandas.DataFrame) else _read_each
    return Columns(tuple(read_all(frame, shown)), names)


def _read_each(frame: Any, names: Sequence[str]) -> Iterator[Column]:
    return map(_read_series, frame.iter_columns(), names)


def _read_pandas(frame: Any, names: Sequence[str]) -> Iterator[Column]:
    """The same, with NumPy's numbers taken as they are, which takes a third of the time."""
    for name, (label, series) in zip(names, frame.to_native().items(), strict=True):
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "fbiu":
            yield column_from_array(series.to_numpy(), name)
        else:
            yield _read_series(frame.get_column(label), name)


def as_table(X: Any) -> Any:
    """A record batch of Arrow as a table, which narwhals and scikit-learn know; others as is."""
    arrow = sys.modules.get("pyarrow")
    if arrow is None or not isinstance(X, arrow.RecordBatch):
        return X
    return arrow.Table.from_batches([X])


def _as_series(values: Any) -> Any:
    """Arrays of pandas and Arrow as columns of theirs, which narwhals knows; others as is."""
    pandas, arrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
    if arrow is not None and isinstance(values, arrow.Array):
        return arrow.chunked_array([values])
    if pandas is None or getattr(values, "nlevels", 1) > 1:
        return values
    if isinstance(values, pandas.Index | pandas.api.extensions.ExtensionArray):
        return pandas.Series(values)
    return values


def _read_series(series: Any, name: str) -> Column:
    import narwhals as nw

    dtype = series.dtype
    if dtype in (nw.Categorical, nw.Enum, nw.String):
        # values alone would say numeric where categories are numbers or all are missing
        return _read_categories(series, name)
    if dtype == nw.Datetime and dtype.time_zone is not None:
        return replace(_read_integers(series.dt.timestamp("us"), name), kind=ZONED)
    if dtype.is_integer():
        return _read_integers(series, name)
    if dtype == nw.Decimal:
        return _read_decimals(series, name)
    values = series.to_numpy()
    if dtype in (nw.Float64, nw.Boolean) and values.dtype.kind not in "fb":
        values = series.cast(nw.Float64).to_numpy()
    if values.ndim != 1:
        raise ColumnTypeError(
            f"Column {name!r} holds several numbers a row ({dtype}). Make each a column of "
            "its own, or leave it out."
        )
    return column_from_array(values, name)


def _read_integers(series: Any, name: str) -> Column:
    import narwhals as nw

    fits_numpy = series.dtype not in (nw.Int128, nw.UInt128)
    if fits_numpy and (values := series.to_numpy()).dtype.kind in "iu":  # no value is missing
        return column_from_array(values, name)
    missing = series.is_null().to_numpy()
    if missing.all() or -LARGEST_EXACT <= series.min() <= series.max() <= LARGEST_EXACT:
        # Arrow refuses to make floats of integers that they may not tell apart
        return NumericColumn(as_floats(series.cast(nw.Float64).to_numpy()))
    if fits_numpy:
        integers = np.ma.array(series.fill_null(0).to_numpy(), mask=missing)
        return column_from_array(integers, name)
    return column_from_objects(series.to_list(), name)


def _read_decimals(series: Any, name: str) -> Column:
    import narwhals as nw

    # by their text: Arrow's own way to floats rounds twice
    values = as_floats(series.cast(nw.String).cast(nw.Float64).to_numpy())
    if (np.abs(values) >= LARGEST_EXACT).any():
        return column_from_objects(series.to_list(), name)
    return NumericColumn(values)


def _read_categories(series: Any, name: str) -> CategoricalColumn:
    """Text and numbers as they are; other categories, which only pandas has, by their text."""
    distinct, codes = _encoded(series)
    numbers = codes.astype(np.intp) + 1  # of missing values 0
    present = np.flatnonzero(np.bincount(numbers, minlength=1)[1:])
    values = [None, *(distinct[code] for code in present.tolist())]
    place = np.zeros(len(distinct) + 1, np.intp)
    place[present + 1] = np.arange(1, len(values))
    try:
        column = to_categorical(column_from_objects(as_categories(values), name))
    except DataError:
        column_from_objects(as_categories(series.to_list()), name)  # the same error names a row
        raise
    return replace(column, codes=column.codes[place[numbers]])


def _encoded(series: Any) -> tuple[list[Any], NDArray[Any]]:
    """Distinct values, and the number of each row's; -1 where it is missing."""
    native, pandas, arrow = series.to_native(), *map(sys.modules.get, ("pandas", "pyarrow"))
    if pandas is not None and isinstance(native, pandas.Series):
        if isinstance(native.dtype, pandas.CategoricalDtype):
            # not by the values: intervals of integers become those of floats where one is missing
            return native.cat.categories.tolist(), native.cat.codes.to_numpy()
        codes, distinct = pandas.factorize(native)
        return distinct.tolist(), codes
    if arrow is not None and isinstance(native, arrow.ChunkedArray):
        encoded = native.dictionary_encode().unify_dictionaries().combine_chunks()
        return encoded.dictionary.to_pylist(), encoded.indices.fill_null(MISSING).to_numpy()
    values = series.to_list()
    code = {value: i for i, value in enumerate(dict.fromkeys(values))}
    return list(code), np.fromiter(map(code.__getitem__, values), np.int64, len(values))


# --- which columns are categorical ------------------------------------------------------------


def _assign_kinds(columns: Columns, categorical_features: CategoricalFeatures) -> Columns:
    if isinstance(categorical_features, str):
        if categorical_features != "auto":
            raise _not_allowed(categorical_features)
        return columns
    chosen = chosen_columns(columns.names, columns.n_columns, categorical_features)
    read: list[Column] = []
    for j, column in enumerate(columns.columns):
        if j in chosen:
            column = to_categorical(column)
        elif isinstance(column, CategoricalColumn) and not column.all_missing:
            raise DataError(
                f"Column {columns.label(j)!r} holds text or categories but "
                f"categorical_features={categorical_features!r} leaves it out. Name it there, "
                "encode it as numbers, or use categorical_features='auto'."
            )
        elif isinstance(column, CategoricalColumn):
            column = NumericColumn(np.full(column.n_rows, np.nan))
        read.append(column)
    return Columns(tuple(read), columns.names)


def _not_allowed(value: object) -> ParameterError:
    allowed = "'auto', None, a list of column names or of indices, or a boolean mask"
    return ParameterError("categorical_features", value, allowed)


def chosen_columns(names: Sequence[str] | None, n: int, wanted: Any) -> set[int]:
    """Positions of the columns that `categorical_features` names, out of n.

    Examples
    --------
    >>> chosen_columns(["age", "city"], 2, ["city"])
    {1}
    """
    if wanted is None:
        return set()
    items = np.asarray(wanted).tolist() if isinstance(wanted, np.ndarray) else list(wanted)
    if items and all(isinstance(i, (bool, np.bool_)) for i in items):
        if len(items) != n:
            allowed = f"a mask of one value for each of the {n} columns"
            raise ParameterError("categorical_features", wanted, allowed)
        return {j for j, yes in enumerate(items) if yes}
    if all(isinstance(i, str) for i in items):
        return {_position(name, names) for name in items}
    if all(isinstance(i, (int, np.integer)) for i in items):
        for i in items:
            if not 0 <= i < n:
                raise ParameterError("categorical_features", i, f"an index from 0 to {n - 1}")
        return {int(i) for i in items}
    raise _not_allowed(wanted)


def _position(name: str, names: Sequence[str] | None) -> int:
    if names is None:
        allowed = "indices or a mask, since the columns of X have no names"
        raise ParameterError("categorical_features", name, allowed)
    if name not in names:
        raise ParameterError("categorical_features", name, f"one of {list(names)}")
    return names.index(name)
