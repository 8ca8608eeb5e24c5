"""Ordered target statistics against an obvious loop, and that no row sees its own target."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mvsboost.data import CategoricalColumn, TargetStatistics, row_order, target_columns
from mvsboost.errors import ParameterError
from mvsboost.exact.numerics import log


def column(codes: list[int] | np.ndarray, n: int) -> CategoricalColumn:
    return CategoricalColumn(np.asarray(codes, np.int32), tuple(f"c{i}" for i in range(n)))


def slow(codes: np.ndarray, t: np.ndarray, w: np.ndarray, order: np.ndarray) -> np.ndarray:
    prior, a = math.fsum(w * t) / math.fsum(w), math.fsum(w) / len(w)
    out = np.empty(len(codes))
    for position, i in enumerate(order):
        earlier = [j for j in order[:position] if codes[j] == codes[i]]
        total = sum(w[j] * t[j] for j in earlier)
        out[i] = (total + a * prior) / (sum(w[j] for j in earlier) + a)
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
    prior, a = 6 / 8, 8 / 4
    values = statistics.transform(column([0, 1, -1, -2], 2))
    expected = [(1 + a * prior) / (3 + a), (1 + a * prior) / (1 + a), (4 + a * prior) / (4 + a)]
    expected.append(prior)
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
    prior, rows, a = weighted.values[0, 0], np.array([0, 0, 5, 1]), times.mean()
    assert repeated.values[0, 0] == pytest.approx(prior, rel=1e-14)
    # a row has the mean weight, so the prior counts a times as much as beside repetitions
    sums = [(rows + b) * s.values[0] - b * prior for b, s in ((a, weighted), (1.0, repeated))]
    np.testing.assert_allclose(sums[0], sums[1], rtol=1e-14, atol=1e-14)


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


# --- magnitudes ---------------------------------------------------------------------------------


def ordinary(n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    codes, order = rng.integers(-1, 20, n), row_order(n, 0)
    return codes, rng.normal(3.0, 10.0, n), rng.gamma(1.0, 2.0, n), order


def means(
    codes: np.ndarray, t: np.ndarray, w: np.ndarray | None, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    statistics, rows = TargetStatistics.fit_transform(column(codes, 20), t[None], w, order=order)
    return statistics.values[0], rows[0]


@pytest.mark.parametrize("power", [-960, -30, 1, 7, 960])
def test_a_power_of_two_changes_no_bit(power: int) -> None:
    codes, t, w, order = ordinary()
    for weight in (None, w):
        for plain, scaled in zip(
            means(codes, t, weight, order),
            means(codes, np.ldexp(t, power), weight, order),
            strict=True,
        ):
            np.testing.assert_array_equal(np.ldexp(plain, power), scaled)
    for plain, scaled in zip(
        means(codes, t, w, order), means(codes, t, np.ldexp(w, power), order), strict=True
    ):
        np.testing.assert_array_equal(plain, scaled)


def test_without_weights_the_prior_counts_as_one_row() -> None:
    codes, t, _, order = ordinary()
    totals, rows = means(codes, t, None, order)
    prior = math.fsum(t) / len(t)
    sums, counts = np.zeros(22), np.zeros(22)
    for i in order:
        c = codes[i] + 2
        assert rows[i] == (sums[c] + prior) / (counts[c] + 1.0)
        sums[c] += t[i]
        counts[c] += 1.0
    np.testing.assert_array_equal(totals, (sums + prior) / (counts + 1.0))
    for again, first in zip(means(codes, t, np.ones(300), order), (totals, rows), strict=True):
        np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize("factor", [1e-300, 0.01, 3.0, 1e300])
def test_only_the_proportions_of_weights_count(factor: float) -> None:
    codes, t, w, order = ordinary()
    for plain, scaled in zip(
        means(codes, t, w, order), means(codes, t, factor * w, order), strict=True
    ):
        np.testing.assert_allclose(plain, scaled, rtol=1e-12)


def test_rows_without_weight_do_not_count() -> None:
    codes, t, w, order = ordinary()
    w[::3] = 0.0
    kept = np.flatnonzero(w)
    kept_order = np.argsort(np.argsort(order)[kept])
    totals, rows = means(codes, t, w, order)
    alone, alone_rows = means(codes[kept], t[kept], w[kept], kept_order)
    np.testing.assert_allclose(totals, alone, rtol=1e-13)
    np.testing.assert_allclose(rows[kept], alone_rows, rtol=1e-13)


def test_rows_without_weight_are_not_counted() -> None:
    column = CategoricalColumn(np.array([0, 0, 1], np.int32), ("a", "b"))
    weight = np.array([1.0, 0.0, 2.0])
    statistics, _ = TargetStatistics.fit_transform(
        column, np.zeros((1, 3)), weight, order=np.arange(3)
    )
    np.testing.assert_array_equal(statistics.values[-1, 2:], log(np.array([2.0, 2.0])))


LARGEST = np.finfo(np.float64).max
any_finite = st.floats(allow_nan=False, allow_infinity=False)
any_weight = st.floats(0.0, LARGEST, exclude_min=True)


@given(st.lists(st.tuples(st.integers(-1, 4), any_finite, any_weight), min_size=1, max_size=30))
@example([(0, LARGEST, 1.0)] * 3)
@example([(0, 2.0**51, 1e-17), (0, -3.517204286639423e-301, 1.0)])
@settings(max_examples=300, deadline=None)
def test_means_lie_among_the_targets(data: list[tuple[int, float, float]]) -> None:
    codes, t, w = (np.array(part) for part in zip(*data, strict=True))
    for weight in (None, w):
        statistics, rows = TargetStatistics.fit_transform(
            column(codes, 5), t[None], weight, order=row_order(len(t), 0)
        )
        for values in (statistics.values[0], rows[0]):
            assert t.min() <= values.min()
            assert values.max() <= t.max()


@pytest.mark.parametrize("weight", [None, 1e308, 1e-305])
def test_the_largest_numbers_have_a_mean(weight: float | None) -> None:
    n = 600
    t = np.where(np.arange(n) % 2 == 0, 1.7e308, -1.7e308)
    w = None if weight is None else np.full(n, weight)
    totals, rows = means(np.arange(n) % 20, t, w, np.arange(n))
    expected = np.where(np.arange(20) % 2 == 0, 1.0, -1.0) * 1.7e308 * (30 / 31)
    np.testing.assert_allclose(totals[2:], expected, rtol=1e-14)
    assert totals[0] == rows[0] == 0.0
