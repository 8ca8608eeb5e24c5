"""From what a user passes as y or weights to numbers or labels, or to an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from mvsboost.data.device import on_host
from mvsboost.errors import DataError
from mvsboost.exact.checks import first_of, first_where, first_without_code
from mvsboost.exact.dtypes import WEIGHT
from mvsboost.exact.fixedpoint import power_of_two_below

__all__ = [
    "as_numbers",
    "check_lengths",
    "in_units",
    "labels_of",
    "numbers_of",
    "read_labels",
    "target_of",
    "unit_of_weights",
    "vector_of",
    "weights_of",
    "written_labels",
]

_LARGE_WEIGHT = 2.0**64
"""Weights up to this one, and down to its inverse, are used as they are."""


def vector_of(y: Any) -> NDArray[Any]:
    """One value a row, whatever its type."""
    y = on_host(y, "y")
    if y is None:
        raise DataError("training requires y to be passed, but the target y is None")
    if isinstance(y, np.ma.MaskedArray) and y.mask.any():
        row = int(np.ma.getmaskarray(y).argmax())
        raise DataError(f"Input y contains a masked value, first in row {row}: leave such rows out")
    array = np.asarray(y)
    if array.dtype.kind == "c":
        raise DataError(f"Complex data not supported, got y of dtype {array.dtype}")
    if array.dtype.kind == "U" and isinstance(y, (list, tuple)):
        # numbers among text, and missing labels, have become text: look at the objects
        objects = np.array(y, dtype=object)
        array = array if all(isinstance(label, str) for label in objects.flat) else objects
    vector: NDArray[Any] = column_or_1d(array, warn=True)
    if not len(vector):
        raise DataError("y is empty: it must hold one value for each row of X")
    return vector


def numbers_of(y: NDArray[Any]) -> NDArray[np.float64]:
    """Values as float64."""
    if y.dtype.kind in "mM":
        raise DataError(
            f"y must hold numbers, not {y.dtype}: make it the time since a day of your choice, "
            "in a unit of your choice"
        )
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"y must hold numbers: {error}") from error


def labels_of(y: Any) -> NDArray[Any]:
    """Labels, none of which is missing, all of one type that has an order."""
    labels = vector_of(y)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.argmin(np.isfinite(labels)))
        raise DataError(f"Input y contains NaN or infinity: row {row} holds {labels[row]}")
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        row = int(np.argmax(labels != np.floor(labels)))
        raise DataError(
            f"Unknown label type: continuous, as row {row} holds {labels[row]}. Train a regressor "
            "on numbers, or make them classes of text or integers"
        )
    if labels.dtype.kind in "SmM":
        raise DataError(f"y must hold numbers, text or booleans, not {labels.dtype}: make it text")
    if labels.dtype.kind != "O":
        return labels
    kinds: dict[str, int] = {}
    for row, label in enumerate(labels):
        if label is None or _is_missing(label):
            raise DataError(f"Input y contains a missing label: row {row} holds {label!r}")
        kinds.setdefault(_kind_of(label), row)
    if len(kinds) > 1:
        rows = " and ".join(f"row {row} holds {labels[row]!r}" for row in kinds.values())
        raise DataError(f"y must hold labels of one type: {rows}")
    if "text" in kinds:
        return labels
    plain = labels if "other" in kinds else np.array(labels.tolist())
    if plain.dtype.kind not in "biuf":
        raise DataError(f"y must hold numbers, text or booleans, not {labels[0]!r}: make it text")
    return labels_of(plain)


def _kind_of(label: Any) -> str:
    return next(
        (name for name, kind in _KINDS_OF_LABELS.items() if isinstance(label, kind)), "other"
    )


_KINDS_OF_LABELS: dict[str, Any] = {
    "text": str,
    "boolean": (bool, np.bool_),
    "number": (int, float, np.number),
}


def _is_missing(label: Any) -> bool:
    """Whether a label is not equal to itself, as NaN, NaT and pandas' NA are not."""
    try:
        return not bool(label == label)
    except (TypeError, ValueError):
        return True


def written_labels(labels: NDArray[Any]) -> dict[str, Any]:
    """Labels as JSON has them; see `read_labels`."""
    return {"classes": labels.tolist(), "classes_dtype": labels.dtype.str}


def read_labels(written: Mapping[str, Any]) -> NDArray[Any]:
    """Labels from what `written_labels` gave."""
    dtype = written["classes_dtype"]
    return np.array(written["classes"], object if dtype == "|O" else dtype)


def in_units(weight: NDArray[np.float64] | None, unit: float) -> NDArray[np.float64] | None:
    """Weights as multiples of a unit."""
    return weight if weight is None or unit == 1.0 else weight / unit


def unit_of_weights(largest: float) -> float:
    """The unit of weights, by the largest."""
    if 1.0 / _LARGE_WEIGHT <= largest <= _LARGE_WEIGHT:
        return 1.0
    return power_of_two_below(largest)


def check_lengths(n_rows: int, **vectors: Any) -> None:
    """Check that each vector, given by its name, has as many rows as X; None passes.

    Examples
    --------
    >>> check_lengths(3, y=[0, 1])
    Traceback (most recent call last):
        ...
    mvsboost.errors.DataError: X has 3 rows but y has 2
    """
    for name, vector in vectors.items():
        if vector is not None and len(vector) != n_rows:
            raise DataError(f"X has {n_rows} rows but {name} has {len(vector)}")


def as_numbers(values: Any, name: str, n_rows: int) -> NDArray[np.float64]:
    """A vector of so many numbers."""
    array = np.asarray(on_host(values, name))
    if array.dtype.kind == "c":
        raise DataError(f"Complex data not supported, got {name} of dtype {array.dtype}")
    if array.ndim != 1:
        raise DataError(f"{name} must be one-dimensional, got shape {array.shape}")
    check_lengths(n_rows, **{name: array})
    try:
        return np.ascontiguousarray(array, WEIGHT)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must hold numbers: {error}") from error


def target_of(y: Any, n_rows: int, n_classes: int) -> NDArray[np.float64]:
    """Finite numbers as the target of so many rows; of classes their indices."""
    target = as_numbers(y, "y", n_rows)
    if n_classes > 0:
        wrong = first_without_code(target, n_classes)
    else:
        wrong = first_where(lambda y: ~np.isfinite(y), target)
    if wrong is None:
        return target
    if (row := first_of(~np.isfinite(target))) is not None:
        raise DataError(f"Input y contains NaN or infinity: row {row} holds {target[row]}")
    raise DataError(
        f"y must hold class indices 0 to {n_classes - 1}, row {wrong} holds {target[wrong]}"
    )


def weights_of(weight: Any, n_rows: int, name: str) -> NDArray[np.float64]:
    """Weights of rows of which others may follow, so that these may all be zero."""
    weights = as_numbers(weight, name, n_rows)
    if (row := first_where(lambda w: ~(np.isfinite(w) & (w >= 0)), weights)) is not None:
        raise DataError(f"{name} must be finite and not negative, row {row} holds {weights[row]}")
    return weights
