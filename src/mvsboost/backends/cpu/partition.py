"""Kernels: stable partition of a node's rows, in slices that threads can take.

A node owns a range of `order`. Each slice of the range is split by itself into
`scratch`, lefts before rights; then every part is copied to its final place::

    order     [ . . . slice 0 . . . | . . . slice 1 . . . ]
    scratch   [ L0 L0 L0 | R0 R0 R0 | L1 L1 | R1 R1 R1 R1 ]
    order     [ L0 L0 L0   L1 L1    | R0 R0 R0 R1 R1 R1 R1 ]

Both steps keep the order of rows, so the result does not depend on the slices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.jit import twice


def _split_slice(column: Any, goes_left: Any, order: Any, scratch: Any) -> Any:
    """Write lefts, then rights, of one slice to scratch; returns the number of lefts."""
    n = order.shape[0]
    lefts = np.int64(0)
    for j in range(n):
        lefts += np.int64(goes_left[column[np.uint64(order[j])]])
    left, right = np.int64(0), lefts
    for j in range(n):
        row = order[j]
        side = np.int64(goes_left[column[np.uint64(row)]])
        scratch[left if side == 1 else right] = row
        left += side
        right += 1 - side
    return lefts


split_slice, split_slice_inlined = twice(_split_slice)
