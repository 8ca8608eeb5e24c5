"""Tables in Parquet or CSV files, read and written a batch of rows at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from glob import glob
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from mvsboost.errors import DataError, ParameterError
from mvsboost.runtime.bars import bar_of
from mvsboost.runtime.files import write_whole

__all__ = [
    "BATCH_BYTES",
    "CsvFiles",
    "ParquetFiles",
    "Source",
    "TableFiles",
    "open_files",
    "progress_bar",
    "read_until_settled",
    "write_batches",
]

BATCH_BYTES = 1 << 27
"""Bytes of a batch of rows, unless memory is bounded."""

T = TypeVar("T")

Source = str | PathLike[str] | Sequence[str | PathLike[str]]
"""A file, a folder of files, a pattern with ``*``, or several of them."""


class _TypesChanged(Exception):
    """A column was found to hold other values than those read so far: read all of it anew."""


def read_until_settled(read: Callable[[], T]) -> T:
    """What comes of reading files, from the start again where a column's type was given up."""
    while True:
        with suppress(_TypesChanged):
            return read()


class TableFiles(Protocol):
    """A table in files, whose rows follow one another in the order of the files."""

    files: list[str]
    names: list[str]
    n_rows: int | None

    def batches(self, n_bytes: int, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Arrow tables of rows that take about so many bytes, of all columns or of some."""


def open_files(source: Source) -> TableFiles:
    """Files that are Parquet, or CSV if their names say so."""
    several = [source] if isinstance(source, (str, PathLike)) else list(source)
    is_csv = bool(several) and Path(fspath(several[0])).suffix.lower() == ".csv"
    return CsvFiles(source) if is_csv else ParquetFiles(source)


class ParquetFiles:
    """A table in Parquet files.

    Parameters
    ----------
    source : path, pattern, or list of them
        Files of a folder or a pattern are taken in the order of their names.
    """

    def __init__(self, source: Source) -> None:
        self._open = _pyarrow("parquet").ParquetFile
        self.files = _files_of(source, "parquet")
        self.names: list[str] = []
        n_rows = 0
        for file in self.files:
            with _reading(file), self._open(file) as head:
                names = list(head.schema_arrow.names)
                n_rows += head.metadata.num_rows
            self.names = self.names or names
            _check_names(file, names, self.files[0], self.names)
        if not n_rows:
            raise DataError(f"{self.files[0]} has no rows")
        self.n_rows: int | None = n_rows

    def batches(self, n_bytes: int, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Arrow tables of rows that take about so many bytes, of all columns or of some."""
        import pyarrow as pa

        chosen = self.names if columns is None else list(columns)
        size = min(max(n_bytes // (_VALUE * len(chosen)), _FEWEST), _MOST)
        for file in self.files:
            with _reading(file), self._open(file, buffer_size=_BUFFER) as opened:
                for batch in opened.iter_batches(size, columns=chosen):
                    if batch.num_rows:
                        yield pa.Table.from_batches([batch])


_VALUE = 16  # bytes of a value while it is read and binned
_FEWEST, _MOST = 1 << 10, 1 << 20  # rows of a batch
_BUFFER = 1 << 20  # bytes of a column that are read from a file at once


class CsvFiles:
    """A table in CSV files.

    The type of a column is the first of whole numbers, booleans, dates, times, numbers and text
    that all its values have, as in `pyarrow.csv.read_csv`. Batches come under the assumption
    that the rest is like the beginning; where it is not all is to be read again, once for
    each type that is given up (`read_until_settled`).

    Parameters
    ----------
    source : path, pattern, or list of them
    """

    def __init__(self, source: Source) -> None:
        self._csv = _pyarrow("csv")
        self.files = _files_of(source, "csv")
        self._types: dict[str, Any] = {}
        self.n_rows: int | None = None
        self.names: list[str] = []
        for file in self.files:
            with self._read(file, _BUFFER, None) as reader:
                names = list(reader.schema.names)
            self.names = self.names or names
            _check_names(file, names, self.files[0], self.names)

    def batches(self, n_bytes: int, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Arrow tables of rows that take about so many bytes, of all columns or of some."""
        import pyarrow as pa

        n_rows = 0
        for file in self.files:
            with self._read(file, min(max(n_bytes // 4, _BUFFER), 1 << 30), columns) as reader:
                # what the first block of the first file seems to hold is asked of all others
                self._types = dict(zip(reader.schema.names, reader.schema.types, strict=True)) | (
                    self._types
                )
                while True:
                    try:
                        batch = reader.read_next_batch()
                    except StopIteration:
                        break
                    except pa.ArrowInvalid as error:
                        self._give_up(file, error, columns or self.names)
                    if batch.num_rows:
                        n_rows += batch.num_rows
                        yield pa.Table.from_batches([batch])
        if not n_rows:
            raise DataError(f"{self.files[0]} has no rows")
        self.n_rows = n_rows

    def _read(self, file: str, n_bytes: int, columns: Sequence[str] | None) -> Any:
        import pyarrow as pa

        try:
            return self._csv.open_csv(
                file,
                read_options=self._csv.ReadOptions(block_size=n_bytes),
                convert_options=self._csv.ConvertOptions(
                    column_types=self._types, include_columns=columns
                ),
            )
        except pa.ArrowInvalid as error:
            if self._types:
                self._give_up(file, error, columns or self.names)
            raise DataError(f"{file} cannot be read: {error}") from error

    def _give_up(self, file: str, error: Exception, names: Sequence[str]) -> None:
        """A value that the type of its column does not allow: on to the next type."""
        import pyarrow as pa

        found = re.search(r"CSV column #(\d+)", str(error))
        if found is None or "conversion error" not in str(error):
            raise DataError(f"{file} cannot be read: {error}") from error
        name = names[int(found[1])]
        types = [pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s")]
        types += [pa.timestamp("s"), pa.timestamp("ns"), pa.float64(), pa.string()]
        now = self._types.get(name, pa.null())
        if now not in types[:-1]:
            raise DataError(f"{file} cannot be read: {error}") from error
        self._types[name] = types[types.index(now) + 1]
        raise _TypesChanged(name) from error


@contextmanager
def _reading(file: str) -> Iterator[None]:
    """Say in errors which file cannot be read."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{file} cannot be read: {error}") from error


def _pyarrow(module: str) -> Any:
    try:
        return __import__(f"pyarrow.{module}", fromlist=[module])
    except ImportError as error:
        raise ImportError(f"{_KINDS[module]} files need pyarrow: pip install pyarrow") from error


def _check_names(file: str, names: list[str], first: str, expected: list[str]) -> None:
    if names != expected:
        raise DataError(
            f"{file} has the columns {names}, and {first} has {expected}: files of a table have "
            "the same ones"
        )


_KINDS = {"parquet": "Parquet", "csv": "CSV"}


def _files_of(source: Source, suffix: str) -> list[str]:
    several = [source] if isinstance(source, (str, PathLike)) else list(source)
    files: list[str] = []
    for item in (fspath(one) for one in several):
        if Path(item).is_dir():
            found = sorted(map(str, Path(item).glob(f"*.{suffix}")))
        elif Path(item).is_file():
            found = [item]
        else:
            found = sorted(glob(item))
        if not found:
            raise DataError(f"there is no {_KINDS[suffix]} file {item!r}")
        files += found
    if not files:
        raise DataError(f"no {_KINDS[suffix]} file was named")
    return files


# --- writing ------------------------------------------------------------------------------------


def write_batches(batches: Iterable[dict[str, Any]], path: str | PathLike[str]) -> int:
    """Write batches of named columns to a Parquet or CSV file, whole or not at all; the rows."""
    import pyarrow as pa

    suffix = Path(path).suffix.lower()
    if suffix not in (".parquet", ".csv"):
        raise ParameterError("out", fspath(path), "a file that ends in .parquet or .csv")
    kind = _pyarrow(suffix[1:])
    make = kind.ParquetWriter if suffix == ".parquet" else kind.CSVWriter

    def write(file: BinaryIO) -> int:
        n_rows, writer = 0, None
        with ExitStack() as opened:
            for columns in batches:
                table = pa.table({name: pa.array(values) for name, values in columns.items()})
                writer = writer or opened.enter_context(make(file, table.schema))
                writer.write_table(table)
                n_rows += table.num_rows
        return n_rows

    return write_whole(path, write, "out")


# --- progress -----------------------------------------------------------------------------------


@contextmanager
def progress_bar(shown: bool, what: str, total: int | None) -> Iterator[Any]:
    """A function to be called with the number of rows that are done; it draws a bar if shown."""
    if not shown:
        yield lambda n: None
        return
    with bar_of(total=total, desc=what, unit=" rows", unit_scale=True) as bar:
        yield bar.update
