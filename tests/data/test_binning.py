"""Bins: order, exactness, limits, missing values, round trips."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from mvsboost.data import BinMapper, Columns, NumericColumn, Schema, find_edges, ingest
from mvsboost.data.binning import sample_bits, sampled_rows
from mvsboost.errors import DataError, ParameterError

finite = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
special = st.sampled_from([np.nan, 0.0, np.inf, -np.inf])
columns = hnp.arrays(np.float64, st.integers(1, 60), elements=st.one_of(finite, special))


def fit(X: Any, **settings: Any) -> tuple[BinMapper, Columns]:
    read = ingest(X, categorical_features=settings.pop("categorical_features", "auto"))
    return BinMapper.fit(read, Schema.from_columns(read), **settings), read


def one(values: Any) -> Columns:
    return Columns((NumericColumn(np.asarray(values)),), None)


@given(columns, st.integers(2, 255))
@settings(max_examples=150, deadline=None)
def test_bins_keep_the_order_and_the_limits(values: np.ndarray, max_bins: int) -> None:
    mapper, read = fit(values[:, None], max_bins=max_bins)
    bins = mapper.transform(read)[:, 0].astype(int)
    missing = np.isnan(values)
    n_bins = int(mapper.n_bins[0])
    assert 1 <= n_bins <= max_bins
    assert (bins[missing] == n_bins).all()
    present, order = bins[~missing], np.argsort(values[~missing], kind="stable")
    assert (np.diff(present[order]) >= 0).all()
    assert set(present) == (set(range(n_bins)) if len(present) else set())
    edges = mapper.features[0].edges
    assert (edges[1:] > edges[:-1]).all()
    np.testing.assert_array_equal(present, np.searchsorted(edges, values[~missing], side="right"))


@given(columns)
@settings(max_examples=100, deadline=None)
def test_few_distinct_values_have_bins_of_their_own(values: np.ndarray) -> None:
    mapper, read = fit(values[:, None])
    present, largest = ~np.isnan(values), np.finfo(np.float64).max
    # infinity and the largest number are one value to bins
    distinct, rank = np.unique(values[present].clip(-largest, largest), return_inverse=True)
    assert mapper.n_bins[0] == max(len(distinct), 1)
    np.testing.assert_array_equal(mapper.transform(read)[present, 0], rank)


@pytest.mark.parametrize(
    "pair",
    [
        (5e-324, 1e-323),
        (-5e-324, 0.0),
        (0.0, 5e-324),
        (-1.7976931348623157e308, 1.7976931348623157e308),
        (1.7976931348623155e308, 1.7976931348623157e308),
        (1.0, np.nextafter(1.0, 2.0)),
        (np.nextafter(-1.0, -2.0), -1.0),
    ],
)
def test_an_edge_lies_above_its_left_value_and_not_above_its_right(
    pair: tuple[float, float],
) -> None:
    low, high = pair
    (edge,) = find_edges(np.array([high, low]))
    assert low < edge <= high


def test_quantiles_hold_equally_many_rows() -> None:
    values = np.random.default_rng(0).permutation(10_000.0 * np.arange(25_500))
    mapper, read = fit(values[:, None])
    assert mapper.n_bins[0] == 255
    assert set(np.bincount(mapper.transform(read)[:, 0])) == {100}


def test_a_frequent_value_costs_the_others_no_bins() -> None:
    values = np.concatenate([np.zeros(9_000), np.arange(1.0, 1_001.0)])
    mapper, read = fit(values[:, None], max_bins=11)
    assert np.bincount(mapper.transform(read)[:, 0]).tolist() == [9_000] + [100] * 10


def test_a_frequent_value_at_the_end() -> None:
    values = np.concatenate([np.arange(1_000.0), np.full(9_000, 1e6)])
    mapper, read = fit(values[:, None], max_bins=10)
    counts = np.bincount(mapper.transform(read)[:, 0])
    assert counts[-1] == 9_000
    assert find_edges(values, 10)[-1] > 999


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_frequent_value_leaves_bins_to_those_on_either_side(sign: float) -> None:
    capped = sign * np.concatenate([np.linspace(0.0, 1.0, 1_000), np.full(99_000, 2.0)])
    assert len(find_edges(capped)) == 254
    normal = np.random.default_rng(0).normal(size=10_000)
    edges = find_edges(sign * np.concatenate([normal, np.zeros(90_000)]))
    assert min((edges < 0).sum(), (edges > 0).sum()) > 120


def test_frequent_values_have_bins_of_their_own() -> None:
    values = np.concatenate([np.arange(0.5, 2_000.0), np.repeat([700.0, 701.0, 1e6], 30_000)])
    mapper, read = fit(values[:, None], max_bins=25)
    counts = np.bincount(mapper.transform(read)[:, 0])
    assert (counts == 30_000).sum() == 3
    assert len(counts) <= 25
    assert counts[counts < 30_000].max() < 150


@pytest.mark.parametrize("seed", range(20))
def test_edges_increase_and_are_few_enough_whatever_is_frequent(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distinct, max_bins = np.sort(rng.normal(size=600)), int(rng.integers(2, 256))
    values = np.repeat(distinct, np.ceil(rng.pareto(0.3, 600).clip(0, 3_000)).astype(int))
    edges = find_edges(values, max_bins)
    assert len(edges) < max_bins
    assert (edges[1:] > edges[:-1]).all()
    lower, upper = distinct.min(), distinct.max()
    assert ((edges > lower) & (edges <= upper)).all()


def test_every_row_counts_in_quantiles() -> None:
    values = np.repeat(np.arange(10.0), [1, 1, 1, 1, 1, 1, 1, 1, 1, 91])
    assert find_edges(values, 2).tolist() == [8.5]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_transform_is_a_search_for_any_input(dtype: type, order: str, n_threads: int) -> None:
    X = np.random.default_rng(1).standard_normal((5_000, 3)).astype(dtype)
    X[::7, 1] = np.nan
    mapper, read = fit(np.array(X, order=order), max_bins=100)
    bins = mapper.transform(read, n_threads)
    assert bins.dtype == np.uint8
    assert bins.flags.c_contiguous
    for j, feature in enumerate(mapper.features):
        expected = np.searchsorted(feature.edges, X[:, j].astype(np.float64), side="right")
        expected[np.isnan(X[:, j])] = feature.n_bins
        np.testing.assert_array_equal(bins[:, j], expected)


def test_values_outside_the_training_range_take_the_outer_bins() -> None:
    mapper, _ = fit(np.arange(255.0)[:, None])
    assert mapper.n_bins[0] == 255
    bins = mapper.transform(one([-1e308, 1e308, np.nan]))
    assert bins[:, 0].tolist() == [0, 254, 255]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinities_take_the_outer_bins(dtype: type) -> None:
    values = np.array([1.0, np.inf, 2.0, np.nan, -np.inf], dtype)
    for X in (values[:, None], {"x": values}, sparse.csr_matrix(values[:, None])):
        mapper, read = fit(X)
        assert np.isfinite(mapper.features[0].edges).all()
        assert mapper.transform(read)[:, 0].tolist() == [1, 3, 2, 4, 0]
    mapper, _ = fit(np.arange(255.0)[:, None])
    assert mapper.transform(one(values))[:, 0].tolist() == [1, 254, 2, 255, 0]


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_a_column_of_one_infinity_has_one_bin(value: float) -> None:
    mapper, read = fit(np.array([[value], [value], [np.nan]]))
    assert mapper.transform(read)[:, 0].tolist() == [0, 0, 1]


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_keeps_a_bin_among_many_values(bad: float) -> None:
    values = np.concatenate([np.random.default_rng(7).normal(size=2_000), np.full(200, bad)])
    mapper, read = fit(values[:, None], max_bins=12)
    bins = mapper.transform(read)[:, 0]
    assert set(bins[values == bad]).isdisjoint(bins[values != bad])


def test_a_bounded_sample_is_deterministic_and_close() -> None:
    X = np.random.default_rng(2).standard_normal((20_000, 1))
    first, read = fit(X, max_bins=16, sample_rows=4_000, seed=3)
    again, _ = fit(X, max_bins=16, sample_rows=4_000, seed=3)
    other, _ = fit(X, max_bins=16, sample_rows=4_000, seed=4)
    whole, _ = fit(X, max_bins=16)
    assert first.to_dict() == again.to_dict()
    assert first.to_dict() != other.to_dict()
    np.testing.assert_allclose(first.features[0].edges, whole.features[0].edges, atol=0.15)
    counts = np.bincount(first.transform(read)[:, 0])
    assert counts.min() > 0.7 * 20_000 / 16


def test_a_column_without_values_has_one_bin() -> None:
    mapper, read = fit(np.full((3, 1), np.nan))
    assert mapper.n_bins.tolist() == [1]
    assert mapper.transform(read)[:, 0].tolist() == [1, 1, 1]


# --- categories -------------------------------------------------------------------------------


def test_a_category_is_its_code_and_the_unknown_is_missing() -> None:
    train = ingest({"x": ["b", "a", None, "c"]})
    schema = Schema.from_columns(train)
    mapper = BinMapper.fit(train, schema)
    assert mapper.is_categorical.tolist() == [True]
    assert mapper.transform(train)[:, 0].tolist() == [1, 0, 3, 2]
    later = schema.check(ingest({"x": ["c", "new", None]}))
    assert mapper.transform(later)[:, 0].tolist() == [2, 3, 3]


def test_a_categorical_column_without_values_has_one_bin() -> None:
    mapper, read = fit(np.full((2, 1), np.nan), categorical_features=[0])
    assert mapper.n_bins.tolist() == [1]
    assert mapper.transform(read)[:, 0].tolist() == [1, 1]


@pytest.mark.parametrize(("n", "native"), [(255, True), (256, False)])
def test_the_limit_of_native_categories(n: int, native: bool) -> None:
    targets = np.arange(float(n))[None, :] % 2
    mapper, read = fit(np.arange(n)[:, None], categorical_features=[0], targets=targets)
    assert mapper.is_categorical[0] == native
    if native:
        np.testing.assert_array_equal(mapper.transform(read)[:, 0], np.arange(n))


def many(n_targets: int) -> tuple[Columns, np.ndarray]:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 40, 500)
    words = np.array([f"w{c:02d}" for c in codes], dtype=object)
    words[::50] = None
    columns = ingest({"n": codes * 0.5, "word": words})
    return columns, rng.integers(0, 2, (n_targets, 500)).astype(float)


@pytest.mark.parametrize("n_targets", [1, 3])
def test_many_categories_become_means_and_a_count(n_targets: int) -> None:
    columns, targets = many(n_targets)
    schema = Schema.from_columns(columns)
    mapper, bins = BinMapper.fit_transform(columns, schema, targets=targets, max_bins=16)
    means = ["mean target"] if n_targets == 1 else [f"mean of class {k}" for k in range(3)]
    names = ("n", *(f"word ({m})" for m in means), "word (log count)")
    assert mapper.feature_names == names
    assert mapper.source.tolist() == [0] + [1] * (n_targets + 1)
    assert not mapper.is_categorical.any()
    assert bins.shape == (500, len(names))
    assert (bins <= mapper.n_bins).all()
    later = mapper.transform(columns)
    np.testing.assert_array_equal(later[:, [0, -1]], bins[:, [0, -1]])
    assert (later[:, 1] != bins[:, 1]).any()


def test_prediction_looks_up_the_binned_statistic() -> None:
    columns, targets = many(1)
    schema = Schema.from_columns(columns)
    mapper = BinMapper.fit(columns, schema, targets=targets, max_bins=16)
    assert mapper.to_dict() == (
        BinMapper.fit_transform(columns, schema, targets=targets, max_bins=16)[0].to_dict()
    )
    later = schema.check(ingest({"n": [0.0, 0.0, 0.0], "word": ["w03", "new", None]}))
    bins = mapper.transform(later)
    for j in (1, 2):
        feature = mapper.features[j]
        position = [columns.columns[1].categories.index("w03") + 2, 0, 1]
        expected = np.searchsorted(feature.edges, feature.values[position], side="right")
        assert bins[:, j].tolist() == expected.tolist()


@pytest.mark.parametrize("weight", [None, 1e-305, 1e300])
def test_targets_near_the_limit_have_finite_means(weight: float | None) -> None:
    columns, targets = many(1)
    weights = None if weight is None else np.full(500, weight)
    mapper = BinMapper.fit(
        columns,
        Schema.from_columns(columns),
        targets=1.7e308 * (2.0 * targets - 1.0),
        weight=weights,
        max_bins=16,
    )
    means = mapper.features[1]
    assert np.isfinite(means.values).all()
    assert (np.abs(means.values) < 1.7e308).all()
    assert mapper.n_bins[1] == 16
    assert mapper.from_dict(json.loads(json.dumps(mapper.to_dict(), allow_nan=False)))


def test_many_categories_need_a_target() -> None:
    columns, _ = many(1)
    with pytest.raises(DataError, match="'word' has 40 categories, more than max_bins=16"):
        BinMapper.fit(columns, Schema.from_columns(columns), max_bins=16)


# --- round trip and export ----------------------------------------------------------------------


@given(columns, st.integers(2, 20))
@settings(max_examples=60, deadline=None)
def test_round_trip_through_json_keeps_every_bit(values: np.ndarray, max_bins: int) -> None:
    mapper, _ = fit(values[:, None], max_bins=max_bins)
    again = BinMapper.from_dict(json.loads(json.dumps(mapper.to_dict(), allow_nan=False)))
    assert again.features[0].edges.tobytes() == mapper.features[0].edges.tobytes()


def test_round_trip_of_all_kinds_of_features() -> None:
    columns, targets = many(2)
    mixed = Columns((*columns.columns, ingest({"c": ["x", "y"] * 250}).columns[0]), None)
    mapper = BinMapper.fit(mixed, Schema.from_columns(mixed), targets=targets, max_bins=16)
    again = BinMapper.from_dict(json.loads(json.dumps(mapper.to_dict(), allow_nan=False)))
    assert again.to_dict() == mapper.to_dict()
    np.testing.assert_array_equal(again.transform(mixed), mapper.transform(mixed))
    np.testing.assert_array_equal(again.n_bins, mapper.n_bins)


def test_a_threshold_separates_as_the_bins_do() -> None:
    X = np.random.default_rng(6).standard_normal((400, 1))
    mapper, read = fit(X, max_bins=10)
    bins = mapper.transform(read)[:, 0]
    for split in range(9):
        np.testing.assert_array_equal(bins <= split, X[:, 0] < mapper.threshold(0, split))


@pytest.mark.parametrize("split", [-1, 2])
def test_thresholds_that_are_not(split: int) -> None:
    mapper, _ = fit({"x": [1, 2, 3], "c": ["a", "b", "c"]})
    with pytest.raises(ParameterError, match="split must be a bin from 0 to 1"):
        mapper.threshold(0, split)
    with pytest.raises(ParameterError, match="categorical"):
        mapper.threshold(1, 0)


@pytest.mark.parametrize("settings", [{"max_bins": 1}, {"max_bins": 256}, {"sample_rows": 0}])
def test_settings_out_of_range(settings: dict[str, int]) -> None:
    with pytest.raises(ParameterError, match=f"{next(iter(settings))} must be"):
        fit(np.zeros((2, 1)), **settings)


@pytest.mark.parametrize(
    ("n_rows", "n"), [(1000, 10), (1001, 1000), (70_000, 500), (70_000, 69_000)]
)
def test_rows_of_the_sample_have_the_smallest_numbers(n_rows: int, n: int) -> None:
    expected = np.sort(np.argsort(sample_bits(0, n_rows, 3))[:n])
    np.testing.assert_array_equal(sampled_rows(n_rows, 3, n), expected)


def test_bins_are_found_by_any_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    read = ingest(rng.normal(size=(500, 9)))
    schema = Schema.from_columns(read)
    one, several = (BinMapper.fit_transform(read, schema, n_threads=n) for n in (1, 4))
    assert one[0].is_same_as(several[0])
    np.testing.assert_array_equal(one[1], several[1])
