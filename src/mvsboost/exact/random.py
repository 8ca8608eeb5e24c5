"""Randomness belongs to the row.

A random number is a hash of (seed, iteration, purpose, global row id). There is
no stream, so no order of threads, chunks or machines can change a draw, and any
sample can be replayed. The hash is the finaliser of SplitMix64 over a Weyl
sequence: for a fixed key it is a bijection of the row id, so the 64-bit numbers
of two rows never tie.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.runtime.jit import inlined

__all__ = [
    "NEXT_ROW",
    "Purpose",
    "row_bits",
    "row_bits_scalar",
    "row_state_scalar",
    "rows_set_aside",
    "stream_key",
    "uniform",
    "uniform_from_state_scalar",
]

_MASK = (1 << 64) - 1
_WEYL = np.uint64(0x9E3779B97F4A7C15)
NEXT_ROW = _WEYL
"""What a row's state grows by to the next row's: kernels that go from row to row add it."""

_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_PLAIN_WEYL, _PLAIN_MIX1, _PLAIN_MIX2 = int(_WEYL), int(_MIX1), int(_MIX2)
_S30, _S27, _S31, _S32, _S11 = (np.uint64(s) for s in (30, 27, 31, 32, 11))
_LOW32 = np.uint64(0xFFFFFFFF)
_TO_UNIT = 1.0 / (1 << 53)


class Purpose(IntEnum):
    """What a number is for; two purposes never share numbers."""

    DRAW = 1
    REST = 2
    BOOTSTRAP = 3
    ROUNDING = 4
    COLUMNS = 5
    VALIDATION = 6
    TARGET_ORDER = 7
    BINNING = 8
    PIVOT = 9


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * _PLAIN_MIX1) & _MASK
    z = ((z ^ (z >> 27)) * _PLAIN_MIX2) & _MASK
    return z ^ (z >> 31)


def stream_key(seed: int, iteration: int, purpose: Purpose, attempt: int = 0) -> np.uint64:
    """The key of one (seed, iteration, purpose, attempt); rows are hashed under it.

    Examples
    --------
    >>> bool(stream_key(0, 1, Purpose.DRAW) == stream_key(0, 1, Purpose.DRAW))
    True
    >>> bool(stream_key(0, 1, Purpose.DRAW) == stream_key(0, 2, Purpose.DRAW))
    False
    """
    # a NumPy integer has no room for 64 bits without a sign
    key = _then(_then(_iteration_key(index(seed), index(iteration)), purpose), attempt)
    return np.uint64(key)


@lru_cache(maxsize=4)
def _iteration_key(seed: int, iteration: int) -> int:
    """Where the keys of one iteration begin; it has several."""
    return _then(_then(0, seed), iteration)


def _then(key: int, part: int) -> int:
    return _mix((key + _PLAIN_WEYL + (part & _MASK)) & _MASK)


def _row_state(key: Any, row: Any) -> Any:
    """The Weyl sequence of a key at a row (uint64)."""
    return key + (row + np.uint64(1)) * _WEYL


def _state_bits(state: Any) -> Any:
    """64 random bits from a state."""
    z = (state ^ (state >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


def row_bits(key: Any, row: Any) -> Any:
    """64 random bits of a row (uint64 arrays or scalars) under a stream key."""
    return _state_bits(_row_state(key, row))


def uniform_from_bits(bits: Any) -> Any:
    """A float64 in [0, 1) from the upper 53 bits."""
    return (bits >> _S11) * _TO_UNIT


def uniform(key: np.uint64 | NDArray[np.uint64], rows: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), one for each row id; a column of keys gives a table.

    Examples
    --------
    >>> import numpy as np
    >>> u = uniform(stream_key(7, 0, Purpose.DRAW), np.arange(1000, dtype=np.uint64))
    >>> bool(0.45 < u.mean() < 0.55)
    True
    """
    values: NDArray[np.float64] = uniform_from_bits(row_bits(key, rows))
    return values


def rows_set_aside(groups: NDArray[np.float64], fraction: float, seed: int) -> NDArray[np.bool_]:
    """Mark a fraction of the rows of each group, at random but the same for the same seed.

    Examples
    --------
    >>> import numpy as np
    >>> int(rows_set_aside(np.repeat([0.0, 1.0], [80, 20]), 0.25, seed=0).sum())
    25
    """
    bits = row_bits(
        stream_key(seed, 0, Purpose.VALIDATION), np.arange(len(groups), dtype=np.uint64)
    )
    apart = np.zeros(len(groups), bool)
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        count = round(fraction * len(rows))
        apart[rows[np.argsort(bits[rows], kind="stable")[:count]]] = True
    return apart


row_state_scalar = inlined(_row_state)
_state_bits_scalar = inlined(_state_bits)
_uniform_from_bits_scalar = inlined(uniform_from_bits)


def _row_bits_scalar(key: Any, row: Any) -> Any:
    return _state_bits_scalar(row_state_scalar(key, row))


def _uniform_from_state(state: Any) -> Any:
    return _uniform_from_bits_scalar(_state_bits_scalar(state))


row_bits_scalar = inlined(_row_bits_scalar)
uniform_from_state_scalar = inlined(_uniform_from_state)
