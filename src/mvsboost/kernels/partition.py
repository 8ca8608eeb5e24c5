"""Kernels: stable partition of a node's rows.

A node owns a range of `order` and as much of `scratch`. A thread that owns them alone
leaves the lefts where they were and writes the rights to the scratch. What remains of each
array is as long as the other child, and becomes its scratch; nothing is copied back::

    order     [ . . . . . . . . . ]  ->  [ L L L L | scratch of R ]
    scratch   [ . . . . . . . . . ]  ->  [ R R R R R | scratch of L ]

Where threads share a range, each slice of it is split by itself into `scratch`, lefts before
rights; then every part is copied to its final place::

    order     [ . . . slice 0 . . . | . . . slice 1 . . . ]
    scratch   [ L0 L0 L0 | R0 R0 R0 | L1 L1 | R1 R1 R1 R1 ]
    order     [ L0 L0 L0   L1 L1    | R0 R0 R0 R1 R1 R1 R1 ]

Both ways keep the order of rows, so the result does not depend on the slices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.runtime.jit import inlined, kernel


@inlined
def split_apart(
    bins: Any, first: Any, step: Any, ids: Any, goes_left: Any, order: Any, scratch: Any
) -> Any:
    """Lefts to the front of `order`, rights to that of `scratch`; returns the number of lefts.

    Row r has its bin at ``bins[first + r * step]``, whichever way bins are laid out, or, where
    there are ids, at that of ``ids[r]``. Every row is written to both places and kept in one:
    no branch to mispredict.
    """
    lefts = np.uint64(0)
    if ids.shape[0] == 0:  # a branch inside the loop would be taken for every row
        for j in range(order.shape[0]):
            row = order[j]
            side = goes_left[bins[first + np.uint64(row) * step]]
            order[lefts] = row  # never ahead of j
            scratch[np.uint64(j) - lefts] = row
            lefts += np.uint64(side)
    else:
        for j in range(order.shape[0]):
            row = order[j]
            side = goes_left[bins[first + np.uint64(ids[np.uint64(row)]) * step]]
            order[lefts] = row
            scratch[np.uint64(j) - lefts] = row
            lefts += np.uint64(side)
    return np.int64(lefts)


@kernel
def split_slice(column: Any, goes_left: Any, order: Any, scratch: Any) -> Any:
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
