"""Kernels: stable partition of a node's rows.

A node owns a range of `order` and as much of `scratch`. A thread that owns them alone
leaves the lefts where they were and writes the rights to the scratch. What remains of each
array is as long as the other child, and becomes its scratch; nothing is copied back::

    order     [ . . . . . . . . . ]  ->  [ L L L L | scratch of R ]
    scratch   [ . . . . . . . . . ]  ->  [ R R R R R | scratch of L ]

Where threads share a range, each slice of it is split by itself; then lefts move up, and
rights are copied behind them::

    order     [ . . . slice 0 . . . | . . . slice 1 . . . ]
    order     [ L0 L0 L0  .  .  .   | L1 L1  .  .  .  .   ]
    scratch   [ R0 R0 R0  .  .  .   | R1 R1 R1 R1  .  .   ]
    order     [ L0 L0 L0   L1 L1    | R0 R0 R0 R1 R1 R1 R1 ]

Both ways keep the order of rows, so the result does not depend on the slices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.kernels.histogram import PREFETCH
from mvsboost.runtime.intrinsics import prefetch
from mvsboost.runtime.jit import inlined, kernel


@inlined
def split_apart(
    bins: Any, first: Any, step: Any, ids: Any, goes_left: Any, order: Any, scratch: Any, ahead: Any
) -> Any:
    """Lefts to the front of `order`, rights to that of `scratch`; returns the number of lefts.

    Row r has its bin at ``bins[first + r * step]``, whichever way bins are laid out, or, where
    there are ids, at that of ``ids[r]``. Every row is written to both places and kept in one:
    no branch to mispredict. Bins of the row that comes so many rows later are fetched `ahead`;
    with 0 none are, which is faster where they are in the cache.
    """
    lefts, last = np.uint64(0), order.shape[0] - 1
    if ids.shape[0] == 0:  # a branch inside the loop would be taken for every row
        for j in range(order.shape[0]):
            row = order[j]
            if ahead > 0:
                prefetch(bins, first + np.uint64(order[min(j + ahead, last)]) * step)
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
def split_slice(bins: Any, feature: int, goes_left: Any, order: Any, scratch: Any) -> Any:
    """`split_apart` for one slice of rows whose bins lie by row; returns the number of lefts."""
    first, step = np.uint64(feature), np.uint64(bins.shape[1])
    return split_apart(
        bins.reshape(-1), first, step, order[:0], goes_left, order, scratch, PREFETCH
    )
