"""How a table is packed for the package: a byte or two a cell, in one compressed file.

A text column becomes codes and the array ``<name>.categories``; the code after the last
category is a missing value. Numbers take the smallest unsigned type that holds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pack", "unpack"]

_CATEGORIES = ".categories"


def pack(columns: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Write columns of text (object arrays, None missing) and of non-negative integers."""
    arrays: dict[str, Any] = {}
    for name, values in columns.items():
        if values.dtype.kind != "O":
            arrays[name] = values.astype(np.min_scalar_type(values.max()))
            continue
        categories = sorted({v for v in values.tolist() if v is not None})
        code = {category: i for i, category in enumerate(categories)}
        codes = [code.get(v, len(categories)) for v in values.tolist()]
        arrays[name] = np.array(codes, np.min_scalar_type(len(categories)))
        arrays[name + _CATEGORIES] = np.array(categories)
    np.savez_compressed(path, **arrays)


def unpack(path: Path) -> dict[str, NDArray[Any]]:
    """Read what `pack` wrote: object arrays of str or None, and int64 arrays, in order."""
    columns: dict[str, NDArray[Any]] = {}
    with np.load(path, allow_pickle=False) as file:
        for name in file.files:
            if name.endswith(_CATEGORIES):
                continue
            values = file[name]
            if name + _CATEGORIES in file.files:
                categories = np.array([*file[name + _CATEGORIES].tolist(), None], dtype=object)
                columns[name] = categories[values]
            else:
                columns[name] = values.astype(np.int64)
    return columns
