"""Whether a set has the content that this library's figures are from.

``checksums.csv`` has one for every set of the report in ``docs/paper``; those of the suite are of
all rows, before they are split.
"""

from __future__ import annotations

import csv
import hashlib
import warnings
from functools import cache
from importlib import resources

import numpy as np

from research.sets.base import Part

__all__ = ["check_content", "checksum_of", "known_checksums"]


@cache
def known_checksums() -> dict[str, str]:
    """Checksums by set, ``"suite/NAME"`` for one of the suite."""
    with resources.files(__package__).joinpath("checksums.csv").open(encoding="utf-8") as file:
        return {row["set"]: row["checksum"] for row in csv.DictReader(file)}


def check_content(name: str, categorical: tuple[str, ...], *parts: Part) -> None:
    """Warn if these parts of a set are not those of the figures; none are known of some sets."""
    expected = known_checksums().get(name)
    if expected and (found := checksum_of(categorical, *parts)) != expected:
        warnings.warn(
            f"{name} differs from the data that the published figures are from: its checksum is "
            f"{found}, not {expected}; results may differ as well",
            stacklevel=3,
        )


def checksum_of(categorical: tuple[str, ...], *parts: Part) -> str:
    """A short name for the content of parts of a set: columns, values, targets, their order.

    Examples
    --------
    >>> part = Part({"x": np.array([1.0, np.nan])}, np.array([0, 1]))
    >>> len(checksum_of((), part, part))
    16
    """
    digest = hashlib.sha256()
    for part in parts:
        for name, column in part.columns.items():
            digest.update(name.encode() + b"\0")
            if name in categorical:
                texts = ("\1" if text is None else text for text in column)
                digest.update("\0".join(texts).encode())
            else:
                numbers = np.where(np.isnan(column), np.nan, column)  # one kind of NaN
                digest.update(numbers.astype("<f8").tobytes())
        digest.update(part.target.astype("<i8").tobytes())
    return digest.hexdigest()[:16]
