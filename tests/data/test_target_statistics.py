"""Ordered target statistics against an obvious loop, and that no row sees its own target."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mvsboost.data import CategoricalColumn, TargetStatistics, row_order, target_columns
from mvsboost.errors import ParameterError


def column(codes: list[int] | np.ndarray, n: int) -> CategoricalColumn:
    return CategoricalColumn(np.asarray(codes, np.int32), tuple(f"c{i}" for i in range(n)))


def slow(codes: np.ndarray, t: np.ndarray, w: np.ndarray, order: np.ndarray) -> np.ndarray:
    prior = math.fsum(w * t) / math.fsum(w)
    out = np.empty(len(codes))
    for position, i in enumerate(order):
        earlier = [j for j in order[:position] if codes[j] == codes[i]]
        total = sum(w[j] * t[j] for j in earlier)
        out[i] = (total + prior) / (sum(w[j] for j in earlier) + 1.0)
    return out


rows = st.lists(
    st.tuples(st.integers(-1, 4), st.floats(-10, 10), st.floats(0.125, 4)), min_size=1, max_size=40
)


@given(rows, st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_training_rows_follow_the_obvious_loop(
    data: list[tuple[int, float, float]], seed: int
) -> None:
    codes, t, w = (np.array(part) for part in zip(*data, strict=True))
    order = row_order(len(codes), seed)
    _, values = TargetStatistics.fit_transform(column(codes, 5), t[None], w, order=order)
    np.testing.assert_allclose(values[0], slow(codes, t, w, order), rtol=1e-12, atol=1e-12)


@given(rows, st.data())
@settings(max_examples=100, deadline=None)
def test_no_row_sees_its_own_target(
    data: list[tuple[int, float, float]], pick: st.DataObject
) -> None:
    codes, t, _ = (np.array(part) for part in zip(*data, strict=True))
    target = (t > 0).astype(float)
    order = row_order(len(codes), 0)
    i = pick.draw(st.integers(0, len(codes) - 1))
    # a second row moves the other way, so that the prior stays
    others = np.flatnonzero(target != target[i])
    if len(others) == 0:
        return
    j = int(others[0])
    flipped = target.copy()
    flipped[[i, j]] = target[[j, i]]
    before = TargetStatistics.fit_transform(column(codes, 5), target[None], order=order)[1][0]
    after = TargetStatistics.fit_transform(column(codes, 5), flipped[None], order=order)[1][0]
    position = np.argsort(order)
    if codes[i] != codes[j] or position[i] < position[j]:
        assert before[i] == after[i]


def test_a_flip_reaches_later_rows_of_the_category_only() -> None:
    codes = np.array([0, 1, 0, 1, 0])
    order = np.array([2, 1, 0, 3, 4])
    weight = np.ones(5)
    target = np.array([1.0, 0.0, 1.0, 1.0, 0.0])
    flipped = target.copy()
    flipped[[0, 1]] = [0.0, 1.0]
    before, after = (
        TargetStatistics.fit_transform(column(codes, 2), t[None], weight, order=order)[1][0]
        for t in (target, flipped)
    )
    assert (before != after).tolist() == [False, False, False, True, True]


def test_prediction_uses_totals_and_the_prior() -> None:
    codes = [0, 0, 1, -1]
    t = np.array([1.0, 0.0, 1.0, 1.0])
    w = np.array([1.0, 2.0, 1.0, 4.0])
    statistics, _ = TargetStatistics.fit_transform(column(codes, 2), t[None], w, order=np.arange(4))
    prior = 6 / 8
    values = statistics.transform(column([0, 1, -1, -2], 2))
    expected = [(1 + prior) / 4, (1 + prior) / 2, (4 + prior) / 5, prior]
    np.testing.assert_allclose(values[0], expected, rtol=1e-15)
    np.testing.assert_allclose(values[1], np.log([3, 2, 2, 1]), rtol=1e-14, atol=0)


def test_counts_are_totals_in_training_too() -> None:
    statistics, values = TargetStatistics.fit_transform(
        column([0, 0, 1, -1], 2), np.zeros((1, 4)), order=np.arange(4)
    )
    np.testing.assert_array_equal(values[-1], statistics.transform(column([0, 0, 1, -1], 2))[-1])


def test_weights_are_repetitions_in_totals() -> None:
    codes, t = np.array([0, 1, 0]), np.array([1.0, 3.0, 2.0])
    times = np.array([2, 1, 3])
    weighted, _ = TargetStatistics.fit_transform(
        column(codes, 2), t[None], times.astype(float), order=np.arange(3)
    )
    repeated, _ = TargetStatistics.fit_transform(
        column(np.repeat(codes, times), 2), np.repeat(t, times)[None], order=np.arange(6)
    )
    np.testing.assert_allclose(weighted.values[0], repeated.values[0], rtol=1e-14)


def test_each_target_has_its_own_means() -> None:
    codes = np.array([0, 1, 0, 1, 0, 0])
    targets = target_columns(np.array([0.0, 1.0, 2.0, 1.0, 0.0, 2.0]), 3)
    order = row_order(6, 1)
    _, together = TargetStatistics.fit_transform(column(codes, 2), targets, order=order)
    assert together.shape == (4, 6)
    for k in range(3):
        _, alone = TargetStatistics.fit_transform(column(codes, 2), targets[[k]], order=order)
        np.testing.assert_array_equal(together[k], alone[0])
    np.testing.assert_allclose(together[:3].sum(axis=0), 1.0, rtol=1e-14)


def test_the_order_depends_on_the_seed_only() -> None:
    assert row_order(100, 1).tolist() == row_order(100, 1).tolist()
    assert row_order(100, 1).tolist() != row_order(100, 2).tolist()
    assert sorted(row_order(100, 1)) == list(range(100))
    # a row's number is its own, so more rows do not reorder the first ones
    longer = row_order(200, 1)
    assert longer[longer < 100].tolist() == row_order(100, 1).tolist()


def test_target_columns() -> None:
    y = np.array([0.0, 1.0])
    assert target_columns(y, 0).tolist() == target_columns(y, 2).tolist() == [[0.0, 1.0]]
    for wrong in (1, -1):
        with pytest.raises(ParameterError, match="n_classes"):
            target_columns(y, wrong)
