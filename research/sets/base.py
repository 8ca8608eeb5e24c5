"""What a prepared set is, and the steps from a file to one.

Files are looked for in a folder (an argument, or the environment variable
MVSBOOST_DATA). A set is prepared as in the quality benchmark that the paper's
experiments follow: missing numbers become 0 beside a column that says so, a missing
category is a category, and the published indices say which rows are for testing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.datasets import data_path
from mvsboost.errors import DataError
from research.sets.counters import count_categories

__all__ = [
    "Part",
    "PreparedSet",
    "SetInfo",
    "as_numbers",
    "as_part",
    "as_texts",
    "counted",
    "import_arrow",
    "published_rows",
    "read_hosted",
    "read_parquet",
    "split_again",
    "split_as_published",
    "split_at_random",
]

SPLIT_SEED = 0
"""Of the splits that nobody has published."""

TEST_SHARE = 0.2

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a set: columns by name, and a target of 0 and 1."""

    columns: Columns
    target: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.target)

    def take(self, rows: NDArray[np.int64]) -> Part:
        """Some of the rows, in this order."""
        return Part({name: c[rows] for name, c in self.columns.items()}, self.target[rows])


@dataclass(frozen=True, eq=False)
class PreparedSet:
    """A data set, split.

    Attributes
    ----------
    name : str
    train, test : Part
        Categories are texts, with None where they are missing; numbers float64, with NaN.
    categorical : tuple of str
        Columns that hold categories.
    """

    name: str
    train: Part
    test: Part
    categorical: tuple[str, ...]


def counted(
    train: Part, test: Part, categorical: tuple[str, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Columns as the experiments with other libraries see them, learned on `train`.

    Categories become running means of the target; missing numbers 0, with an indicator at
    the end for each column that has any in either part.
    """
    values: list[list[NDArray[np.float64]]] = []
    indicators: list[list[NDArray[np.float64]]] = []
    for name, column in train.columns.items():
        other = test.columns[name]
        if name in categorical:
            values.append(count_categories(column, train.target, other))
            continue
        missing = [np.isnan(column), np.isnan(other)]
        values.append([np.where(m, 0.0, c) for m, c in zip(missing, (column, other), strict=True)])
        if missing[0].any() or missing[1].any():
            indicators.append([m.astype(np.float64) for m in missing])
    columns = values + indicators
    return np.column_stack([c[0] for c in columns]), np.column_stack([c[1] for c in columns])


@dataclass(frozen=True)
class SetInfo:
    """What is known of a set before it is read.

    Attributes
    ----------
    title : str
    read : callable
        From the folder of files (or None for the environment's) to the prepared set.
    trees, learning_rate : int, float
        Tuned, as published for LightGBM.
    tree : mapping
        The other tuned parameters, under LightGBM's names.
    stands_in : bool
        Whether it is here in place of a set of the paper that cannot be had.
    paper_error : float or None
        1 − AUC without sampling in the paper.
    note : str
        Where it differs from the paper's.
    small : bool
        Under 50,000 rows: fits are quick, and folds differ much.
    """

    title: str
    read: Callable[[Path | None], PreparedSet]
    trees: int
    learning_rate: float
    tree: Mapping[str, float]
    stands_in: bool = False
    paper_error: float | None = None
    note: str = ""
    small: bool = False


# --- reading ------------------------------------------------------------------------------------


def import_arrow(module: str = "") -> Any:
    """A module of pyarrow, or an error that says how to get it."""
    try:
        return import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError as error:
        raise ImportError("the paper's data are read by pyarrow: pip install pyarrow") from error


def read_parquet(name: str, folder: Path | None) -> Columns:
    """Columns of a Parquet file, in the order of the file."""
    table = import_arrow("parquet").read_table(data_path(name, folder))
    return {name: table[name].to_numpy() for name in table.column_names}


def read_hosted(name: str, folder: Path | None, data_id: int, n_rows: int) -> Columns:
    """Columns of a Parquet file, or, where that is not there, of the set on OpenML.

    Raises
    ------
    DataError
        Neither can be had, or OpenML's has another number of rows.
    """
    try:
        return read_parquet(name, folder)
    except DataError as missing:
        from sklearn.datasets import fetch_openml

        try:
            frame = fetch_openml(data_id=data_id, as_frame=True, n_retries=1).frame
        except Exception as error:  # no network, no pandas, no such set: all end alike
            where = f"https://www.openml.org/d/{data_id}"
            raise DataError(f"{missing}; nor could it be had from {where} ({error})") from error
    if len(frame) != n_rows:
        raise DataError(
            f"set {data_id} of OpenML has {len(frame)} rows in place of the {n_rows} of {name}: "
            "it has changed, put the file into the folder"
        )
    columns: Columns = {}
    for column in frame.columns:
        values = frame[column]
        known = values.notna().to_numpy()
        if values.dtype.kind in "biuf":
            columns[column] = values.to_numpy()
        else:
            columns[column] = values.astype(object).to_numpy().copy()
            columns[column][~known] = None
    return columns


def as_numbers(column: NDArray[Any]) -> NDArray[np.float64]:
    """A column as float64; what is missing becomes NaN."""
    if column.dtype == object:
        return np.array([np.nan if x is None else float(x) for x in column])
    return column.astype(np.float64)


def as_texts(column: NDArray[Any]) -> NDArray[np.object_]:
    """A column as texts; what is missing becomes None."""
    if column.dtype == object:
        return np.array([None if x is None else str(x) for x in column], object)
    if np.issubdtype(column.dtype, np.floating):
        return np.array([None if x != x else f"{x:.17g}" for x in column], object)
    return column.astype(str).astype(object)


def as_part(table: Columns, target: NDArray[Any], categorical: tuple[str, ...]) -> Part:
    """Texts and numbers of all columns."""
    columns = {n: as_texts(c) if n in categorical else as_numbers(c) for n, c in table.items()}
    return Part(columns, target.astype(np.int64))


def split_at_random(
    name: str, rows: Part, categorical: tuple[str, ...], seed: int = SPLIT_SEED
) -> PreparedSet:
    """A stratified random fifth is for testing."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(
        np.arange(len(rows)), test_size=TEST_SHARE, random_state=seed, stratify=rows.target
    )
    return PreparedSet(name, rows.take(train), rows.take(test), categorical)


def split_again(data: PreparedSet, seed: int) -> PreparedSet:
    """All rows of a set, split anew: what its own split did may be the luck of that split."""
    parts = data.train, data.test
    columns = {name: np.concatenate([p.columns[name] for p in parts]) for name in parts[0].columns}
    rows = Part(columns, np.concatenate([p.target for p in parts]))
    return split_at_random(data.name, rows, data.categorical, seed)


def published_rows(name: str, part: str, folder: Path | None) -> NDArray[np.int64]:
    """Row numbers of a part of a set, in the order of the benchmark's index files."""
    table = read_parquet("catboost_split_indices.parquet", folder)
    ours = (table["dataset"] == name) & (table["part"] == part)
    by_position = np.argsort(table["position"][ours])
    rows: NDArray[np.int64] = table["row_index"][ours][by_position].astype(np.int64)
    return rows


def split_as_published(
    name: str, rows: Part, categorical: tuple[str, ...], folder: Path | None
) -> PreparedSet:
    """The rows that the benchmark's index files name, in their order.

    Those of sets that OpenML has are part of the package, so that nothing else is needed.
    """
    shipped = _shipped_rows(name)
    if shipped is not None and sum(map(len, shipped)) == len(rows):
        train, test = shipped
    else:
        train, test = (published_rows(name, part, folder) for part in ("train", "test"))
    return PreparedSet(name, rows.take(train), rows.take(test), categorical)


def _shipped_rows(name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Rows for training and for testing; None where the package has none of the set."""
    with np.load(Path(__file__).with_name("splits.npz")) as splits:
        if f"{name} train" not in splits:
            return None
        return splits[f"{name} train"].astype(np.int64), splits[f"{name} test"].astype(np.int64)
