"""Where leaf values come from: the sample, all rows, or quantiles of residuals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.draws import DrawSummary
from mvsboost.backends.messages import DIGIT_BITS, GradientRange, RowSet, residual_of_key
from mvsboost.backends.protocol import Backend
from mvsboost.errors import DataError
from mvsboost.exact.fixedpoint import sum_scale
from mvsboost.kernels.nodes import finish_nodes
from mvsboost.trees.grower import GrownTree
from mvsboost.trees.tree import Tree


def sums_of_all_rows(
    backend: Backend, tree: Tree, output: int, gradients: GradientRange
) -> NDArray[np.float64]:
    """Gradient, hessian and number of rows of each leaf, of every row; 0 at inner nodes."""
    largest = (gradients.max_gradient, gradients.max_hessian)
    scales = np.array([*(sum_scale(value, backend.n_rows) for value in largest), 1.0])
    sums: NDArray[np.float64] = (backend.leaf_sums(RowSet.ALL, tree, output, scales) / scales).T
    return sums


def sums_of_sample(
    backend: Backend, grown: GrownTree, output: int, drawn: DrawSummary
) -> NDArray[np.float64]:
    """Gradient, hessian and weight of each leaf, of the drawn rows.

    They are in the words that the tree was grown from, unless one row is so much heavier than
    the others that these keep next to nothing of their hessians.
    """
    if not grown.is_coarse:
        return grown.sample_sums
    largest = (drawn.max_gradient, drawn.max_hessian, drawn.max_weight)
    scales = np.array([sum_scale(value, drawn.n_rows) for value in largest])
    exact = backend.leaf_sums(RowSet.SAMPLE, grown.structure, output, scales)
    sums: NDArray[np.float64] = (exact / scales).T
    return sums


def residual_quantiles(
    backend: Backend, tree: Tree, alpha: float, output: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The weighted α-quantile of the residuals y − F of each leaf, and the weight of its rows.

    Found by counting: four calls fix the 32 bits of the answer's order key, eight at a
    time, so that only integer counts leave the rows, and the result is exact.
    """
    max_weight, _ = backend.target_range()
    scale = sum_scale(max_weight, backend.n_rows)
    nodes = np.arange(tree.n_nodes)
    prefix = np.zeros(tree.n_nodes, np.int64)
    rank: NDArray[np.int64] | None = None
    for known_bits in range(0, 32, DIGIT_BITS):
        counts = backend.residual_counts(tree, output, prefix, known_bits, scale)
        reached = np.cumsum(counts, axis=1)
        if rank is None:
            # an integer: as a float it could pass the total, and no row would match
            total = np.where(tree.is_leaf, reached[:, -1], 0)
            rank = np.clip(np.ceil(alpha * total).astype(np.int64), 1, np.maximum(total, 1))
        digit = np.minimum((reached < rank[:, None]).sum(axis=1), counts.shape[1] - 1)
        rank = rank - np.where(digit > 0, reached[nodes, digit - 1], 0)
        prefix = (prefix << DIGIT_BITS) | digit
    values = residual_of_key(prefix.astype(np.uint32)).astype(np.float64)
    values = np.where(total > 0, values, 0.0)
    if not np.isfinite(values).all():
        raise DataError("a residual of the target is too large for a float32; scale the target")
    return values, total / scale


def with_quantiles(
    grown: GrownTree,
    quantiles: NDArray[np.float64],
    weight: NDArray[np.float64],
    monotone: NDArray[np.int8],
    shrinkage: float,
) -> Tree:
    """The finished tree: these quantiles at leaves, put in order and shrunk; 0 at inner nodes.

    The bounds that the tree was grown under are Newton values, which have another unit.
    """
    tree, (_, hessian, cover) = grown.structure, grown.decisive
    numbers = np.array([in_order(tree, quantiles, monotone, weight), hessian, cover])
    return with_free_values(tree, numbers, shrinkage)


def in_order(
    tree: Tree,
    values: NDArray[np.float64],
    monotone: NDArray[np.int8],
    weight: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Leaf values moved as far as monotone constraints ask.

    From the leaves up, where the two sides of a constrained split overlap, the middle of their
    means parts them: values beyond it are moved to it. Whatever was in order below stays so.

    Parameters
    ----------
    tree : Tree
    values, weight : float64 array of shape (n_nodes,)
        What counts are those of leaves.
    monotone : int8 array of shape (n_features,)
        Signs as in `FeatureTable`.
    """
    constrained = (tree.feature >= 0) & (monotone[tree.feature] != 0)
    if not constrained.any():
        return values
    values, leaves = values.copy(), {}
    weight = np.maximum(weight, np.finfo(np.float64).tiny)  # a mean of nothing but empty leaves
    for node in range(tree.n_nodes - 1, -1, -1):  # children come after their parent
        if tree.left[node] < 0:
            leaves[node] = np.array([node])
            continue
        sides = leaves.pop(tree.left[node]), leaves.pop(tree.right[node])
        leaves[node] = np.concatenate(sides)
        if constrained[node]:
            low, high = sides if monotone[tree.feature[node]] > 0 else sides[::-1]
            if values[low].max() > values[high].min():
                means = [np.average(values[side], weights=weight[side]) for side in sides]
                middle = means[0] / 2 + means[1] / 2
                values[low] = np.minimum(values[low], middle)
                values[high] = np.maximum(values[high], middle)
    return values


def with_newton_values(
    grown: GrownTree,
    sums: NDArray[np.float64],
    l2: float,
    shrinkage: float,
    max_step: float = np.inf,
    l1: float = 0.0,
) -> Tree:
    """The finished tree: Newton values of these gradients, hessians and covers of its leaves.

    Inner nodes add up the hessians and covers of theirs.
    """
    lower, upper = grown.nodes.lower, grown.nodes.upper
    return _finish(grown.structure, lower, upper, sums.copy(), shrinkage, max_step, l2, l1)


def with_free_values(
    tree: Tree,
    numbers: NDArray[np.float64],
    shrinkage: float,
    max_step: float = np.inf,
    l2: float | None = None,
    l1: float = 0.0,
) -> Tree:
    """A tree with values of its leaves that no constraint bounds; see `_finish`."""
    bound = np.full(tree.n_nodes, np.inf)
    return _finish(tree, -bound, bound, numbers, shrinkage, max_step, l2, l1)


def _finish(
    tree: Tree,
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    numbers: NDArray[np.float64],
    shrinkage: float,
    max_step: float = np.inf,
    l2: float | None = None,
    l1: float = 0.0,
) -> Tree:
    """Numbers are value or, with l2, gradient; hessian; and cover."""
    newton, l2 = l2 is not None, float(l2 or 0.0)
    limits = newton, l2, l1, max_step, shrinkage
    finish_nodes(tree.left, tree.right, lower, upper, *limits, numbers)
    value, hessian, cover = numbers
    return tree.with_leaves(value, hessian, cover, shrinkage)
