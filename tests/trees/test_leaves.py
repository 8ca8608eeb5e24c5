"""Where leaf values come from: sums, quantiles, bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mvsboost.backends.protocol import BinnedRows
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.objectives import Absolute
from mvsboost.trees import Tree
from mvsboost.trees.leaves import newton_values, residual_quantiles, sums_of_all_rows


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


def test_newton_values():
    seen = newton_values(np.array([2.0, -3.0, 5.0]), np.array([3.0, 0.5, 0.0]), 1.0)
    assert seen.tolist() == [-0.5, 2.0, -5.0]
    assert newton_values(np.array([5.0]), np.array([0.0]), 0.0).tolist() == [0.0]


singles = st.floats(-1e6, 1e6, width=32)


@settings(deadline=None)
@given(st.lists(singles, min_size=1, max_size=40), st.floats(0.01, 0.99))
@example([0.0, -0.0, 1.0], 0.5)
def test_quantiles_are_exact(values, alpha):
    seen = residual_quantiles(backend_of(values), Tree.single_leaf(), alpha)[0]
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
    seen = residual_quantiles(backend_of(values, weights), Tree.single_leaf(), alpha)[0]
    assert seen in values
    rank, slack = alpha * weights.sum(), 1e-9
    assert weights[values <= seen].sum() >= rank - slack
    assert weights[values < seen].sum() <= rank + slack


def test_rows_of_no_weight_do_not_count():
    backend = backend_of([-5.0, 1.0, 2.0, 3.0, 900.0], np.array([0.0, 1.0, 1.0, 1.0, 0.0]))
    assert residual_quantiles(backend, Tree.single_leaf(), 0.01)[0] == 1.0
    assert residual_quantiles(backend, Tree.single_leaf(), 0.99)[0] == 3.0


def test_quantiles_of_each_leaf(make_rows, mixed_tree):
    rows = make_rows(150)
    backend = ReferenceBackend(rows, Absolute())
    backend.set_baseline(np.array([0.25]))
    seen = residual_quantiles(backend, mixed_tree, 0.3)
    residual = (rows.target - 0.25).astype(np.float32).astype(np.float64)
    leaf = backend._leaf(mixed_tree)
    for node in range(5):
        inside = leaf == node
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
