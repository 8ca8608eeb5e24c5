"""Kernels: the nodes of a grown tree in the form of a finished one.

A tree has some sixty nodes, and NumPy takes a microsecond or two for each of the thirty steps that
are written out here: a tenth of a millisecond for a tree that small data grows in less than one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.exact.fixedpoint import HALF
from mvsboost.kernels.split import GRADIENT, HESSIAN, WEIGHT, drawn_to_zero
from mvsboost.runtime.jit import kernel

_LOW = np.int64(0xFFFFFFFF)


@kernel
def describe_nodes(
    feature: Any,
    goes_left: Any,
    words: Any,
    n_bins: Any,
    categorical: Any,
    units: Any,
    bits: int,
    missing_left: Any,
    numbers: Any,
    sums: Any,
    sets: Any,
) -> Any:
    """Whether missing values go left, and their bin and the number of the category set, or -1.

    The latter two into `numbers` (2, n); gradient, hessian and weight into `sums` (3, n); and
    the category sets into `sets` (n, 8), see `trees.tree.pack_set`. Returns how many these are.
    """
    n_sets = 0
    for node in range(feature.shape[0]):
        f, first, second = feature[node], words[node, 0], words[node, 1]
        sums[GRADIENT, node] = (first >> bits) * units[GRADIENT]
        sums[HESSIAN, node] = (second >> HALF) * units[HESSIAN]
        sums[WEIGHT, node] = (second & _LOW) * units[WEIGHT]
        missing_left[node], numbers[0, node], numbers[1, node] = False, 0, -1
        if f >= 0:
            missing_left[node], numbers[0, node] = goes_left[node, n_bins[f]] == 1, n_bins[f]
            if categorical[f]:
                numbers[1, node] = n_sets
                for word in range(sets.shape[1]):
                    bits_of_word = np.uint32(0)
                    for b in range(32):
                        bits_of_word |= np.uint32(goes_left[node, 32 * word + b]) << np.uint32(b)
                    sets[n_sets, word] = bits_of_word
                n_sets += 1
    return n_sets


@kernel
def finish_nodes(
    left: Any,
    right: Any,
    lower: Any,
    upper: Any,
    newton: bool,
    l2: float,
    l1: float,
    largest: float,
    shrinkage: float,
    nodes: Any,
) -> None:
    """Leaf values bounded and shrunk, 0 at inner nodes; these get the sums of their children.

    `nodes` is (3, n): value, and two sums that are right at leaves. If `newton`, the first is a
    sum too, of gradients, and the second is that of hessians: the value is −G / (H + l2) with G
    drawn to 0 by l1, and 0 where H + l2 is 0.
    """
    n = left.shape[0]
    for step in range(n):
        node = n - 1 - step  # children come after their parent
        if left[node] >= 0:
            nodes[0, node] = 0.0
            for row in range(1, 3):
                nodes[row, node] = nodes[row, left[node]] + nodes[row, right[node]]
        else:
            value = nodes[0, node]
            if newton:
                denominator = nodes[1, node] + l2
                value = -drawn_to_zero(value, l1) / denominator if denominator > 0.0 else 0.0
            value = min(max(value, lower[node]), upper[node])
            # the same for all leaves, so that those in order stay so
            nodes[0, node] = shrinkage * min(max(value, -largest), largest)
