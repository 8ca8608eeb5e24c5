"""Where leaf values come from: sums, quantiles, bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mvsboost.backends.messages import BinnedRows
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.kernels.nodes import finish_nodes
from mvsboost.objectives import Absolute
from mvsboost.trees import Tree
from mvsboost.trees.leaves import in_order, residual_quantiles, sums_of_all_rows


def backend_of(target, weight=None, bins=None):
    target = np.asarray(target, np.float64)
    bins = np.zeros((len(target), 1), np.uint8) if bins is None else bins
    rows = BinnedRows(bins, np.array([13]), target, weight)
    backend = ReferenceBackend(rows, Absolute())
    backend.set_baseline(np.zeros(1))
    return backend


def quantile_of(values, weights, alpha):
    """The smallest value at which the weights from below reach the share alpha."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return values[order][np.searchsorted(reached, alpha * reached[-1] * (1 - 1e-12))]


def finished(gradient, hessian, l2, lower=-np.inf, upper=np.inf, largest=np.inf, l1=0.0):
    """Values of leaves with these sums, by the kernel that finishes trees."""
    n = len(gradient)
    leaf, nodes = np.full(n, -1, np.int32), np.array([gradient, hessian, np.ones(n)])
    bounds = np.full(n, lower), np.full(n, upper)
    finish_nodes(leaf, leaf, *bounds, True, l2, l1, largest, 1.0, nodes)
    return nodes[0].tolist()


def test_newton_values():
    assert finished([2.0, -3.0, 5.0], [3.0, 0.5, 0.0], 1.0) == [-0.5, 2.0, -5.0]
    assert finished([5.0], [0.0], 0.0) == [0.0]
    assert finished([2.0, -3.0, 0.5], [3.0, 1.0, 1.0], 1.0, l1=1.0) == [-0.25, 1.0, 0.0]


def test_no_bound_leads_beyond_the_largest_step():
    """A bound is the middle of two values that a few rows may have given."""
    assert finished([-2.0, 2.0], [1.0, 1.0], 1.0, lower=100.0, largest=4.0) == [4.0, 4.0]
    assert finished([-2.0, 2.0], [1.0, 1.0], 1.0, upper=0.5, largest=4.0) == [0.5, -1.0]


singles = st.floats(-1e6, 1e6, width=32)


@settings(deadline=None)
@given(st.lists(singles, min_size=1, max_size=40), st.floats(0.01, 0.99))
@example([0.0, -0.0, 1.0], 0.5)
def test_quantiles_are_exact(values, alpha):
    seen = residual_quantiles(backend_of(values), Tree.single_leaf(), alpha)[0][0]
    expected = quantile_of(np.array(values), np.ones(len(values)), alpha)
    assert seen == expected


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(singles, st.sampled_from([0.1, 0.3, 0.7, 1.0, 3.3])), min_size=1, max_size=40
    ),
    st.sampled_from([0.1, 0.25, 0.37, 0.5, 0.9]),
)
@example([(-8.0, 0.1), (1.0, 0.1), (1.5, 0.1), (100.0, 0.1), (200.0, 0.1), (300.0, 0.1)], 0.5)
def test_weighted_quantiles_are_one_of_the_residuals_in_the_right_place(rows, alpha):
    values, weights = (np.array(column) for column in zip(*rows, strict=True))
    seen = residual_quantiles(backend_of(values, weights), Tree.single_leaf(), alpha)[0][0]
    assert seen in values
    rank, slack = alpha * weights.sum(), 1e-9
    assert weights[values <= seen].sum() >= rank - slack
    assert weights[values < seen].sum() <= rank + slack


def test_rows_of_no_weight_do_not_count():
    backend = backend_of([-5.0, 1.0, 2.0, 3.0, 900.0], np.array([0.0, 1.0, 1.0, 1.0, 0.0]))
    assert residual_quantiles(backend, Tree.single_leaf(), 0.01)[0][0] == 1.0
    assert residual_quantiles(backend, Tree.single_leaf(), 0.99)[0][0] == 3.0


def test_quantiles_of_each_leaf(make_rows, mixed_tree):
    rows = make_rows(150)
    backend = ReferenceBackend(rows, Absolute())
    backend.set_baseline(np.array([0.25]))
    seen, weight = residual_quantiles(backend, mixed_tree, 0.3)
    residual = (rows.target - 0.25).astype(np.float32).astype(np.float64)
    leaf = backend._leaf(mixed_tree)
    for node in range(5):
        inside = leaf == node
        assert weight[node] == inside.sum()
        if inside.any():
            assert seen[node] == quantile_of(residual[inside], np.ones(inside.sum()), 0.3)
        else:
            assert seen[node] == 0.0


def test_sums_of_all_rows(make_rows, mixed_tree):
    rows = make_rows(150, weighted=True)
    backend = ReferenceBackend(rows, Absolute())
    backend.set_baseline(np.zeros(1))
    gradients = backend.compute_gradients(2)
    gradient, hessian, cover = sums_of_all_rows(backend, mixed_tree, 0, gradients)
    g, h = backend.gradients()
    leaf = backend._leaf(mixed_tree)
    for node in np.flatnonzero(mixed_tree.is_leaf):
        inside = leaf == node
        G, H = g[0, inside].sum(dtype=np.float64), h[0, inside].sum(dtype=np.float64)
        assert gradient[node] == pytest.approx(G)
        assert hessian[node] == pytest.approx(H)
        assert cover[node] == inside.sum()


# --- quantiles under monotone constraints ---------------------------------------------------------


@st.composite
def trees_and_signs(draw):
    """A tree of random shape over three features, their signs, and values for its leaves."""
    n_splits = draw(st.integers(0, 8))
    left, feature, leaves = [-1], [-1], [0]
    for _ in range(n_splits):
        node = leaves.pop(draw(st.integers(0, len(leaves) - 1)))
        left[node], feature[node] = len(left), draw(st.integers(0, 2))
        leaves += [len(left), len(left) + 1]
        left, feature = [*left, -1, -1], [*feature, -1, -1]
    left = np.array(left, np.int32)
    tree = replace(
        Tree.single_leaf(),
        feature=np.array(feature, np.int32),
        left=left,
        right=np.where(left < 0, -1, left + 1).astype(np.int32),
    )
    n = len(left)
    values = np.array(draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n)), float)
    weight = np.array(draw(st.lists(st.sampled_from([0.0, 1.0, 7.0]), min_size=n, max_size=n)))
    return (
        tree,
        np.array(draw(st.tuples(*[st.sampled_from([-1, 0, 1])] * 3)), np.int8),
        values,
        weight,
    )


def leaves_under(tree, node):
    if tree.left[node] < 0:
        return [node]
    return leaves_under(tree, tree.left[node]) + leaves_under(tree, tree.right[node])


def out_of_order(tree, values, signs):
    """Constrained nodes with a larger value on their lower side."""
    found = []
    for node in np.flatnonzero(tree.feature >= 0):
        sign = signs[tree.feature[node]]
        sides = [values[leaves_under(tree, child[node])] for child in (tree.left, tree.right)]
        if (sign > 0 and sides[0].max() > sides[1].min()) or (
            sign < 0 and sides[1].max() > sides[0].min()
        ):
            found.append(node)
    return found


@settings(deadline=None)
@given(trees_and_signs())
def test_values_are_put_in_order(drawn):
    tree, signs, values, weight = drawn
    seen = in_order(tree, values, signs, weight)
    assert not out_of_order(tree, seen, signs)
    leaves = tree.is_leaf
    assert seen[leaves].min() >= values[leaves].min()
    assert seen[leaves].max() <= values[leaves].max()
    if not out_of_order(tree, values, signs):
        assert np.array_equal(seen, values)
