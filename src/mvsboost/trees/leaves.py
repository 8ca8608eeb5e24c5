"""Where leaf values come from: the sample, all rows, or quantiles of residuals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cpu.nodes import finish_nodes
from mvsboost.backends.protocol import DIGIT_BITS, Backend, GradientRange, residual_of_key
from mvsboost.errors import DataError
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


def sums_of_all_rows(
    backend: Backend, tree: Tree, output: int, gradients: GradientRange
) -> NDArray[np.float64]:
    """Gradient, hessian and number of rows of each leaf, of every row; 0 at inner nodes."""
    largest = (gradients.max_gradient, gradients.max_hessian)
    scales = np.array([*(sum_scale(value, backend.n_rows) for value in largest), 1.0])
    sums: NDArray[np.float64] = (backend.leaf_sums(tree, output, scales[:2]) / scales).T
    return sums


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
    values = np.where(tree.is_leaf & (reached[:, -1] > 0), values, 0.0)
    if not np.isfinite(values).all():
        raise DataError("a residual of the target is too large for a float32; scale the target")
    return values


def with_values(
    grown: GrownTree, values: NDArray[np.float64], shrinkage: float, max_step: float = np.inf
) -> Tree:
    """The finished tree: these values at leaves, bounded and shrunk; 0 at inner nodes."""
    _, hessian, cover = grown.decisive
    return _finish(grown, np.array([values, hessian, cover]), shrinkage, max_step)


def with_newton_values(
    grown: GrownTree,
    sums: NDArray[np.float64],
    l2: float,
    shrinkage: float,
    max_step: float = np.inf,
) -> Tree:
    """The finished tree: Newton values of these gradients, hessians and covers of its leaves.

    Inner nodes add up the hessians and covers of theirs.
    """
    return _finish(grown, sums.copy(), shrinkage, max_step, l2)


def _finish(
    grown: GrownTree,
    numbers: NDArray[np.float64],
    shrinkage: float,
    max_step: float,
    l2: float | None = None,
) -> Tree:
    """Numbers are value or, with l2, gradient; hessian; and cover."""
    tree, lower, upper = grown.structure, grown.nodes.lower, grown.nodes.upper
    newton, l2 = l2 is not None, float(l2 or 0.0)
    finish_nodes(tree.left, tree.right, lower, upper, newton, l2, max_step, shrinkage, numbers)
    value, hessian, cover = numbers
    return tree.with_leaves(value, hessian, cover, shrinkage)
