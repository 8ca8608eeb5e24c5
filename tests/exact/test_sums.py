"""How far sums may be from the truth on awkward numbers, and models in other units."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mvsboost import MVSClassifier, MVSRegressor
from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.messages import BinnedRows
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.exact.fixedpoint import Packing, sum_scale
from mvsboost.objectives import Squared

pytestmark = pytest.mark.large

relaxed = settings(deadline=None, max_examples=100, derandomize=True, database=None)

CANCELLING = [1e30, 1.0, -1e30] * 7
SPREAD = [math.ldexp((-1) ** i, -i) for i in range(60)]
ONE_LARGE = [1e20, *[1e-3] * 200]

awkward = st.lists(
    st.one_of(
        st.floats(-1e30, 1e30),
        st.sampled_from([1e30, -1e30, 1.0, -1.0, 1e-30, 2.0**-40, 1.0 + 2.0**-52, 0.1]),
    ),
    min_size=1,
    max_size=120,
)


def examples(test):
    for values in (CANCELLING, SPREAD, ONE_LARGE):
        test = example(values)(test)
    return relaxed(test)


def rows_of(target, weight=None) -> BinnedRows:
    bins = np.zeros((len(target), 1), np.uint8)
    return BinnedRows(bins, np.array([1]), np.asarray(target, float), weight)


@pytest.mark.parametrize("backend", [CPUBackend, ReferenceBackend])
@examples
@given(awkward)
@example([5.3e-287])
def test_sums_of_targets(backend, values):
    largest = max(map(abs, values))
    scales = np.array([1.0, sum_scale(largest, len(values))])
    found = backend(rows_of(values), Squared()).target_sums(scales)[0, 1] / scales[1]
    # half a step a row, of which the largest value has 2^52, or as many as the sum has room for
    allowed = 0.5 * len(values) / scales[1]
    assert abs(math.fsum(values) - found) <= allowed + 2.0**-52 * abs(found)
    # scales end at 2^1000
    assert allowed <= largest * len(values) * 2.0**-51 or largest < 2.0**-940


@pytest.mark.parametrize("backend", [CPUBackend, ReferenceBackend])
@examples
@given(awkward)
def test_sums_of_gradients(backend, values):
    """Gradients are float32: a 2^-24th of each, and then half a step."""
    one = backend(rows_of(values), Squared())
    one.set_baseline(np.zeros(1))
    largest = one.compute_gradients(2).max_gradient
    scales = np.array([sum_scale(largest, len(values)), 1.0, 0.0, 0.0])
    found = one.gradient_sums(scales)[0, 0] / scales[0]
    rounded = 2.0**-24 * math.fsum(map(abs, values)) + len(values) * 2.0**-150
    assert abs(-math.fsum(values) - found) <= (rounded + 0.5 * len(values) / scales[0]) * (1 + 1e-9)


@examples
@given(awkward)
def test_sums_in_histograms(values):
    """Of a row one step at most, of which the largest gradient has 2^30."""
    g, n = np.array(values), len(values)
    packing = Packing.choose(n, float(np.abs(g).max()) or 1.0, 1.0, 1.0)
    rounding = np.random.default_rng(n).random(n)
    words = packing.pack(g, np.ones(n), np.ones(n), rounding).sum(axis=0)
    sums = packing.unpack(words)
    assert abs(sums.gradient - math.fsum(values)) <= n / packing.gradient_scale * (1 + 1e-9)
    assert (sums.hessian, sums.weight, sums.count) == (n, n, n)
    assert packing.gradient_scale * np.abs(g).max() >= 2.0**28 or not g.any()


# --- other units ---------------------------------------------------------------------------------


def table():
    rng = np.random.default_rng(3)
    X = rng.integers(-500, 500, (700, 4)) / 8.0
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.nan_to_num(X[:, 0]) + np.abs(np.nan_to_num(X[:, 1])) + rng.integers(0, 9, 700)


@pytest.mark.parametrize("power", [-40, -7, 1, 40])
@pytest.mark.parametrize("objective", ["squared", "absolute", "quantile"])
def test_targets_of_another_unit(objective, power):
    X, y = table()
    shape = {"n_estimators": 15, "objective": objective, "l2": 0.0, "n_jobs": 1}
    if objective == "quantile":
        shape["quantile"] = 0.3
    expected = MVSRegressor(**shape).fit(X, y).predict(X)
    found = MVSRegressor(**shape).fit(X, y * 2.0**power).predict(X)
    assert np.array_equal(found, expected * 2.0**power)


@pytest.mark.parametrize("factor", [2.0**-40, 1.0, 2.0**40])
@pytest.mark.parametrize("shift", [0.0, 1000.0, -(2.0**30)])
@pytest.mark.parametrize("kind", [MVSRegressor, MVSClassifier])
def test_features_of_another_unit(kind, shift, factor):
    """Shifts and powers of two keep every number apart, so that each row finds the same leaf."""
    X, y = table()
    y = y if kind is MVSRegressor else y > np.median(y)
    model = kind(n_estimators=15, n_jobs=1, max_bins=255)
    changed = X * factor + shift * factor
    assert np.array_equal(changed / factor - shift, X, equal_nan=True)
    assert np.array_equal(model.fit(X, y).apply(X), model.fit(changed, y).apply(changed))
