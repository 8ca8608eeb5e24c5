"""exp, log and sigmoid: close to the truth, and the same bits on arrays and compiled."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from mvsboost.exact.numerics import (
    coarse_exp,
    coarse_sigmoid,
    coarse_sigmoid_scalar,
    exp,
    exp_scalar,
    log,
    log_scalar,
    sigmoid,
)


@numba.njit(error_model="numpy")
def each(function, x):
    """Apply a scalar function inside a compiled loop, as kernels do."""
    out = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = function(x[i])
    return out


def ulps(seen, exact):
    """Error in units of the last place, against a reference of more bits."""
    rounded = np.abs(exact.astype(np.float64))
    return np.abs(seen.astype(np.longdouble) - exact) / np.spacing(rounded)


@pytest.fixture(scope="module")
def wide():
    rng = np.random.default_rng(0)
    near = rng.normal(size=3000)
    return np.concatenate([near, 200 * near, rng.uniform(-708, 708, 3000), [0.0, -0.0, 1.0, -1.0]])


def test_exp_is_within_two_ulp(wide):
    x = np.clip(wide, -708, 708)
    assert ulps(exp(x), np.exp(x.astype(np.longdouble))).max() < 2.0


def test_log_is_within_two_ulp(wide):
    x = np.concatenate([np.exp(np.clip(wide, -700, 700)), 1.0 + 0.3 * wide.clip(-1, 1)])
    x = x[x != 1.0]
    assert ulps(log(x), np.log(x.astype(np.longdouble))).max() < 2.0


def test_sigmoid_is_close(wide):
    exact = 1 / (1 + np.exp(-wide.clip(-700, 700).astype(np.longdouble)))
    assert ulps(sigmoid(wide.clip(-700, 700)), exact).max() < 4.0


def test_coarse_numbers_are_good_for_a_float32(wide):
    x = wide.clip(-700, 700)
    assert np.abs(coarse_exp(x) / np.exp(x) - 1).max() < 1e-8
    assert np.abs(coarse_sigmoid(x) / sigmoid(x) - 1).max() < 1e-8


def test_exact_points():
    assert coarse_exp(np.float64(0.0)) == 1.0
    assert coarse_sigmoid(np.float64(0.0)) == 0.5
    assert exp(np.float64(0.0)) == 1.0
    assert log(np.float64(1.0)) == 0.0
    assert sigmoid(np.float64(0.0)) == 0.5


def test_arguments_beyond_the_range_are_clamped():
    beyond = np.array([709.0, 1e10, np.inf])
    assert np.array_equal(exp(beyond), np.full(3, exp(np.float64(708.0))))
    assert np.array_equal(exp(-beyond), np.full(3, exp(np.float64(-708.0))))
    assert exp(np.float64(-708.0)) > 0.0
    assert log(np.float64(0.0)) == log(np.float64(2.2250738585072014e-308))
    assert np.array_equal(sigmoid(np.array([-np.inf, np.inf])), [1 / (1 + exp(708.0)), 1.0])


@pytest.mark.parametrize("function", [exp, log, coarse_exp, sigmoid, coarse_sigmoid])
@pytest.mark.parametrize("shape", [(1,), (1, 1), (0,), (2, 3)])
def test_arrays_keep_their_shape(function, shape):
    seen = function(np.full(shape, 0.7))
    assert isinstance(seen, np.ndarray)
    assert seen.shape == shape
    assert (seen == function(np.float64(0.7))).all()


def test_nan_stays_nan():
    assert np.isnan(exp(np.array([np.nan]))).all()
    assert np.isnan(coarse_sigmoid(np.array([np.nan]))).all()


def test_exp_rises_and_sigmoid_stays_in_its_range(wide):
    x = np.sort(wide)
    assert (np.diff(exp(x)) >= 0).all()
    s = sigmoid(x)
    assert (s >= 0).all()
    assert (s <= 1).all()


@pytest.mark.parametrize(
    ("on_array", "on_scalar"),
    [(exp, exp_scalar), (log, log_scalar), (coarse_sigmoid, coarse_sigmoid_scalar)],
)
def test_compiled_scalars_have_the_bits_of_arrays(wide, on_array, on_scalar):
    x = wide[::5] if on_array is not log else np.abs(wide[::5])
    assert on_array(x).tobytes() == each(on_scalar, x).tobytes()
