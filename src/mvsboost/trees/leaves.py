"""Where leaf values come from (METHOD §5): the sample, all rows, or quantiles of residuals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cpu.nodes import finish_nodes
from mvsboost.backends.protocol import DIGIT_BITS, Backend, GradientRange, residual_of_key
from mvsboost.fixedpoint import sum_scale
from mvsboost.trees.grower import GrownTree
from mvsboost.trees.tree import Tree


def newton_values(
    gradient: NDArray[np.float64], hessian: NDArray[np.float64], l2: float
) -> NDArray[np.float64]:
    """−G / (H + l2), and 0 where H + l2 is 0.

    Examples
    --------
    >>> newton_values(np.array([2.0]), np.array([3.0]), 1.0).tolist()
    [-0.5]
    """
    denominator = hessian + l2
    values = np.zeros(len(denominator))
    np.divide(-gradient, denominator, out=values, where=denominator > 0)
    return values


def values_from_words(grown: GrownTree, l2: float, *, sample: bool) -> NDArray[np.float64]:
    """Newton values from the sums the grower kept: of the sample, or of what decided."""
    gradient, hessian, _ = grown.sums(sample=sample)
    return newton_values(gradient, hessian, l2)


def values_from_all_rows(
    backend: Backend, tree: Tree, output: int, gradients: GradientRange, l2: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Newton values, hessian and number of rows of each leaf, from every row."""
    largest = (gradients.max_gradient, gradients.max_hessian)
    scales = np.array([sum_scale(value, backend.n_rows) for value in largest])
    sums = backend.leaf_sums(tree, output, scales)
    gradient, hessian = sums[:, 0] / scales[0], sums[:, 1] / scales[1]
    return newton_values(gradient, hessian, l2), hessian, sums[:, 2].astype(np.float64)


def residual_quantiles(backend: Backend, tree: Tree, alpha: float) -> NDArray[np.float64]:
    """The weighted α-quantile of the residuals y − F of each leaf.

    Found by counting: four calls fix the 32 bits of the answer's order key, eight at a
    time, so that only integer counts leave the rows, and the result is exact.
    """
    max_weight, _ = backend.target_range()
    scale = sum_scale(max_weight, backend.n_rows)
    nodes = np.arange(tree.n_nodes)
    prefix = np.zeros(tree.n_nodes, np.int64)
    rank: NDArray[np.int64] | None = None
    for known_bits in range(0, 32, DIGIT_BITS):
        counts = backend.residual_counts(tree, prefix, known_bits, scale)
        reached = np.cumsum(counts, axis=1)
        if rank is None:
            # an integer: as a float it could pass the total, and no row would match
            total = reached[:, -1]
            rank = np.clip(np.ceil(alpha * total).astype(np.int64), 1, np.maximum(total, 1))
        digit = np.minimum((reached < rank[:, None]).sum(axis=1), counts.shape[1] - 1)
        rank = rank - np.where(digit > 0, reached[nodes, digit - 1], 0)
        prefix = (prefix << DIGIT_BITS) | digit
    values = residual_of_key(prefix.astype(np.uint32)).astype(np.float64)
    return np.where(tree.is_leaf & (reached[:, -1] > 0), values, 0.0)


def with_values(
    grown: GrownTree,
    values: NDArray[np.float64],
    shrinkage: float,
    max_step: float = np.inf,
    hessian: NDArray[np.float64] | None = None,
    cover: NDArray[np.float64] | None = None,
) -> Tree:
    """The finished tree: bounded, shrunk leaf values; 0 at inner nodes.

    `hessian` and `cover`, if given, hold those of the leaves, and inner nodes add them up.
    """
    tree, nodes = grown.structure, grown.nodes
    finished = np.empty((3, tree.n_nodes))
    finished[0] = values
    finished[1] = tree.hessian if hessian is None else hessian
    finished[2] = tree.cover if cover is None else cover
    finish_nodes(tree.left, tree.right, nodes.lower, nodes.upper, max_step, shrinkage, finished)
    value, hessian, cover = finished
    return replace(tree, value=value, hessian=hessian, cover=cover, shrinkage=shrinkage)
