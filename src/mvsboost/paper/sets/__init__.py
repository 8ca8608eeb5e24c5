"""The data sets of the experiments: how each is read, prepared and split."""

from __future__ import annotations

from pathlib import Path

from mvsboost.errors import ParameterError
from mvsboost.paper.sets.base import Part, PreparedSet, SetInfo, counted
from mvsboost.paper.sets.large import LARGE_SETS
from mvsboost.paper.sets.published import PAPER_SETS
from mvsboost.paper.sets.suite import load_suite_set, suite_names

__all__ = [
    "LARGE_SETS",
    "PAPER_SETS",
    "Part",
    "PreparedSet",
    "SetInfo",
    "counted",
    "load_set",
    "suite_names",
]


def load_set(name: str, folder: Path | None = None) -> PreparedSet:
    """Read and prepare one of `PAPER_SETS` or `LARGE_SETS`, or a set of the suite.

    Raises
    ------
    DataError
        Its file is not there; the message names it.
    """
    if name.startswith("suite/"):
        return load_suite_set(name, folder)
    known = {**PAPER_SETS, **LARGE_SETS}
    if name not in known:
        raise ParameterError("datasets", name, f"among {', '.join(known)}")
    return known[name].read(folder)
