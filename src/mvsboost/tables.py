"""Tables in files: CSV, Parquet, Arrow and Feather, and the data set that ships."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mvsboost.datasets import load_adult
from mvsboost.errors import DataError, ParameterError
from mvsboost.runtime.files import write_whole

__all__ = ["SHIPPED", "column_of", "read_table", "without", "write_table"]

SHIPPED = "adult"
"""Name of the data set that ships with the package; its target is called ``target``."""


def read_table(path: str, kind: str | None = None) -> Any:
    """A table of Arrow, or of pandas where pyarrow is not installed and the file is CSV.

    Parameters
    ----------
    path : str
        A file, ``-`` for standard input, or "adult".
    kind : str, optional
        A suffix that says what it is; that of the file by default, and CSV for standard input.
    """
    if path == SHIPPED and not Path(path).exists():
        return _adult()
    suffix = (kind or ("csv" if path == "-" else Path(path).suffix)).lower().lstrip(".")
    if suffix not in _READERS:
        allowed = (
            f"a file that ends in {', '.join('.' + name for name in _READERS)}, or {SHIPPED!r}"
        )
        raise ParameterError("data", path, allowed)
    if path != "-" and not Path(path).is_file():
        raise DataError(f"there is no file {path!r}")
    try:
        return _READERS[suffix](sys.stdin.buffer if path == "-" else path)
    except ImportError as error:
        raise ImportError(f"reading .{suffix} needs pyarrow: pip install pyarrow") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _adult() -> dict[str, Any]:
    adult = load_adult()
    return {**adult.data, "target": adult.target}


def _csv(source: Any) -> Any:
    from pyarrow import csv

    return csv.read_csv(source)


def _parquet(source: Any) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    return parquet.read_table(source if isinstance(source, str) else pa.BufferReader(source.read()))


def _feather(source: Any) -> Any:
    import pyarrow as pa
    from pyarrow import feather

    return feather.read_table(source if isinstance(source, str) else pa.BufferReader(source.read()))


_READERS: dict[str, Callable[[Any], Any]] = {
    "csv": _csv,
    "parquet": _parquet,
    "arrow": _feather,
    "feather": _feather,
}


def _names(table: Any) -> list[str]:
    return list(table) if isinstance(table, dict) else list(table.column_names)


def column_of(table: Any, name: str, parameter: str) -> Any:
    """A column by its name; `parameter` is what asked for it.

    Examples
    --------
    >>> column_of({"a": [1, 2]}, "a", "target")
    [1, 2]
    """
    if name not in _names(table):
        raise ParameterError(parameter, name, f"a column of the table: {', '.join(_names(table))}")
    values = table[name]
    return values if isinstance(table, dict) else values.to_pandas().to_numpy()


def without(table: Any, names: Sequence[str]) -> Any:
    """The other columns.

    Examples
    --------
    >>> without({"a": [1, 2], "y": [0, 1]}, ["y"])
    {'a': [1, 2]}
    """
    kept = [name for name in _names(table) if name not in names]
    return {name: table[name] for name in kept} if isinstance(table, dict) else table.select(kept)


def write_table(columns: Mapping[str, Any], path: str) -> None:
    """Write columns to a file of the kind its name says, whole or not at all.

    ``-`` is CSV to standard output.
    """
    try:
        import pyarrow as pa
        from pyarrow import csv, feather, parquet
    except ImportError as error:
        raise ImportError("writing tables needs pyarrow: pip install pyarrow") from error
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    if path == "-":
        csv.write_csv(table, sys.stdout.buffer)
        return
    writers = {
        "csv": csv.write_csv,
        "parquet": parquet.write_table,
        "arrow": feather.write_feather,
        "feather": feather.write_feather,
    }
    write = writers.get(Path(path).suffix.lower().lstrip("."))
    if write is None:
        raise ParameterError("out", path, "a file that ends in .csv, .parquet, .arrow or .feather")
    write_whole(path, lambda file: write(table, file), "out")
