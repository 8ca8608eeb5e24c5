"""Many small sets: a folder of Parquet files, and an index of them."""

from __future__ import annotations

import csv
from pathlib import Path

from mvsboost.datasets import data_path
from mvsboost.errors import ParameterError
from research.sets.base import PreparedSet, as_part, read_parquet, split_at_random
from research.sets.checksums import check_content

__all__ = ["load_suite_set", "suite_names"]

FOLDER = "suite"


def suite_names(folder: Path | None = None) -> list[str]:
    """Names of the sets, in the order of the index."""
    with data_path(f"{FOLDER}/INDEX.csv", folder).open(newline="", encoding="utf-8") as file:
        return [row["name"] for row in csv.DictReader(file)]


def load_suite_set(name: str, folder: Path | None = None) -> PreparedSet:
    """One of the sets, ``"suite/NAME/SPLIT"`` with the number of a random split."""
    try:
        _, which, split = name.split("/")
        seed = int(split)
    except ValueError:
        raise ParameterError("set", name, "of the form suite/NAME/SPLIT") from None
    table = read_parquet(f"{FOLDER}/{which}.parquet", folder)
    target = table.pop("target")
    texts = tuple(name for name, column in table.items() if column.dtype == object)
    rows = as_part(table, target, texts)
    check_content(f"{FOLDER}/{which}", texts, rows)
    return split_at_random(name, rows, texts, seed)
