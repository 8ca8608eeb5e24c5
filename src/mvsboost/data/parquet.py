"""Tables in Parquet files, read one column at a time: no more than one is in memory as it was.

Parquet keeps columns apart, so each is read once, binned and let go of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from glob import glob
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from mvsboost.data.columns import Column
from mvsboost.data.ingest import CategoricalFeatures, chosen_columns, ingest
from mvsboost.data.schema import Feature, Schema
from mvsboost.errors import DataError, ParameterError

__all__ = ["ParquetTable"]

Source = str | PathLike[str] | Sequence[str | PathLike[str]]
"""A file, a folder of files, a pattern with ``*``, or several of them."""


class ParquetTable:
    """The columns of one or more Parquet files, whose rows follow one another.

    Parameters
    ----------
    source : path, pattern, or list of them
        Files of a folder or a pattern are taken in the order of their names.
    """

    def __init__(self, source: Source) -> None:
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise ImportError("reading Parquet needs pyarrow: pip install pyarrow") from error
        self.files = _files_of(source)
        self._read = parquet.read_table
        heads = [parquet.ParquetFile(file) for file in self.files]
        self.names = list(heads[0].schema_arrow.names)
        self.n_rows = sum(head.metadata.num_rows for head in heads)
        for file, head in zip(self.files, heads, strict=True):
            if list(head.schema_arrow.names) != self.names:
                raise DataError(
                    f"{file} has the columns {list(head.schema_arrow.names)}, and "
                    f"{self.files[0]} has {self.names}: files of a table have the same ones"
                )
        if not self.n_rows:
            raise DataError(f"{self.files[0]} has no rows")

    def column(self, name: str) -> Any:
        """A column of all files, as an Arrow table."""
        import pyarrow as pa

        parts = [self._read(file, columns=[name]) for file in self.files]
        try:
            return pa.concat_tables(parts, promote_options="permissive")
        except pa.ArrowInvalid as error:
            raise DataError(f"column {name!r} has other types in other files: {error}") from error

    def vector(self, name: str | None, parameter: str) -> Any:
        """A column as an array; `parameter` is what names it, and None gives None."""
        if name is None:
            return None
        if name not in self.names:
            allowed = f"a column of the files: {', '.join(self.names)}"
            raise ParameterError(parameter, name, allowed)
        return self.column(name).column(0).to_numpy()

    def columns(
        self, beside: Sequence[str | None], categorical_features: CategoricalFeatures
    ) -> Iterator[tuple[Column, Feature]]:
        """All columns but some, each with what a schema says of it."""
        names = [name for name in self.names if name not in beside]
        auto = isinstance(categorical_features, str)
        chosen = set() if auto else chosen_columns(names, len(names), categorical_features)
        for j, name in enumerate(names):
            kind: Any = categorical_features if auto else ([0] if j in chosen else None)
            one = ingest(self.column(name), categorical_features=kind)
            yield one.columns[0], Schema.from_columns(one).features[0]


def _files_of(source: Source) -> list[str]:
    several = [source] if isinstance(source, (str, PathLike)) else list(source)
    files: list[str] = []
    for item in (fspath(one) for one in several):
        if Path(item).is_dir():
            found = sorted(map(str, Path(item).glob("*.parquet")))
        elif Path(item).is_file():
            found = [item]
        else:
            found = sorted(glob(item))
        if not found:
            raise DataError(f"there is no Parquet file {item!r}")
        files += found
    if not files:
        raise DataError("no Parquet file was named")
    return files
