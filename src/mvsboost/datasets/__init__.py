"""Data sets: Adult, shipped with the package, and the way to those that are not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from mvsboost.datasets._pack import unpack
from mvsboost.errors import DataError

__all__ = ["DATA_VARIABLE", "Table", "data_path", "load_adult"]

DATA_VARIABLE = "MVSBOOST_DATA"
"""Environment variable that names the folder of data sets outside the package."""


@dataclass(frozen=True, eq=False)
class Table:
    """A data set for binary classification.

    Attributes
    ----------
    data : dict of str to array
        Features by name: object arrays of str with None for missing, and int64 arrays.
    target : int64 array
        0 or 1.
    part : object array of str
        "train" or "test", the split the data set came with.
    """

    data: dict[str, NDArray[Any]]
    target: NDArray[np.int64]
    part: NDArray[np.object_]


@overload
def load_adult(*, as_frame: Literal[False] = ...) -> Table: ...
@overload
def load_adult(*, as_frame: Literal[True]) -> Any: ...
def load_adult(*, as_frame: bool = False) -> Any:
    """Load Adult (Census Income) of UCI: who earns more than 50,000 dollars a year.

    48842 rows, 14 features of which 8 are text, 23.93% of the target positive. By Barry
    Becker and Ronny Kohavi, 1996, CC BY 4.0; see ATTRIBUTION.txt beside this file.

    Parameters
    ----------
    as_frame : bool
        Return a pandas DataFrame of features, ``part`` and ``target`` (needs pandas)
        instead of a `Table`.

    Examples
    --------
    >>> adult = load_adult()
    >>> len(adult.target), len(adult.data), round(float(adult.target.mean()), 4)
    (48842, 14, 0.2393)
    """
    data = unpack(Path(__file__).with_name("adult.npz"))
    part = data.pop("part")
    target = (data.pop("income") == ">50K").astype(np.int64)
    if not as_frame:
        return Table(data, target, part)
    try:
        import pandas as pd
    except ImportError as error:
        raise DataError("as_frame=True needs pandas: install it, or use as_frame=False") from error
    return pd.DataFrame({**data, "part": part, "target": target})


def data_path(name: str, folder: Path | None = None) -> Path:
    """Path of a data set in a folder, by default the one that the variable MVSBOOST_DATA names.

    Raises
    ------
    DataError
        No folder is given and the variable is not set, or the folder has no such file.

    Examples
    --------
    >>> data_path("no-such-file.parquet")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    mvsboost.errors.DataError: ...
    """
    if folder is not None:
        if not (folder / name).is_file():
            raise DataError(f"{name} is not in the folder {folder}")
        return folder / name
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        raise DataError(
            f"{name} is not part of the package: set {DATA_VARIABLE} to the folder that has it"
        )
    path = Path(named) / name
    if not path.is_file():
        raise DataError(f"{name} is not in the folder {named} that {DATA_VARIABLE} names")
    return path
