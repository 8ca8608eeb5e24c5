"""The data sets of the experiments: how each is read, prepared and split."""

from __future__ import annotations

from pathlib import Path

from mvsboost.errors import ParameterError
from research.sets.base import Part, PreparedSet, SetInfo, counted, split_again
from research.sets.checksums import check_content
from research.sets.large import LARGE_SETS
from research.sets.published import PAPER_SETS
from research.sets.publishers import PUBLISHER_SETS
from research.sets.suite import load_suite_set, suite_names

__all__ = [
    "LARGE_SETS",
    "PAPER_SETS",
    "SETS",
    "Part",
    "PreparedSet",
    "SetInfo",
    "counted",
    "load_set",
    "split_again",
    "suite_names",
]


SETS: dict[str, SetInfo] = {**PAPER_SETS, **PUBLISHER_SETS, **LARGE_SETS}
"""Every set but those of the suite."""


def load_set(name: str, folder: Path | None = None) -> PreparedSet:
    """Read and prepare one of `SETS`, or a set of the suite.

    Warns where its content is not that which this library's figures are from.

    Raises
    ------
    DataError
        Its file is not there; the message names it.
    """
    if name.startswith("suite/"):
        return load_suite_set(name, folder)
    if name not in SETS:
        raise ParameterError("datasets", name, f"among {', '.join(SETS)}")
    data = SETS[name].read(folder)
    check_content(name, data.categorical, data.train, data.test)
    return data
