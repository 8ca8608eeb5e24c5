"""Fixed-point words: fields that never meet, exact integers, unbiased rounding."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mvsboost.fixedpoint import HALF, Packing, power_of_two_below, sum_scale

LARGEST_U = 1.0 - 2.0**-53
"""The largest number that `random.uniform` can give."""

magnitudes = st.floats(1e-280, 1e280)
row_counts = st.one_of(st.integers(1, 1000), st.integers(1, 2**30))
uniforms = st.floats(0.0, LARGEST_U)
relaxed = settings(deadline=None, max_examples=200)


def pack_one(packing: Packing, g: float, h: float, w: float, u: float) -> list[int]:
    arrays = (np.array([value]) for value in (g, h, w, u))
    return [int(word) for word in packing.pack(*arrays)[0]]


@relaxed
@given(magnitudes)
def test_power_of_two_below(x):
    p = power_of_two_below(x)
    assert math.frexp(p)[0] == 0.5
    assert p <= x < 2 * p


@relaxed
@given(magnitudes, st.integers(1, 2**40))
def test_sum_scale_leaves_room_for_all_rows(largest, n):
    scale = sum_scale(largest, n)
    assert math.frexp(scale)[0] == 0.5
    assert n * round(largest * scale) < 2**63
    # and no power of two is given away beyond the mantissa's own bits
    assert n * largest * scale * 4 > min(2.0**62, n * 2.0**52)


def test_sum_scale_of_nothing():
    assert sum_scale(0.0, 10) == 1.0
    assert sum_scale(3.0, 0) == 1.0


@relaxed
@given(row_counts, magnitudes, magnitudes, magnitudes, st.sampled_from([-1, 1]), uniforms)
@example(1, 1.0, 1.0, 1.0, 1, LARGEST_U)
@example(1, 1.0, 2.0**31 - 1, 2.0**32 - 1, 1, LARGEST_U)
@example(2**30, 1.0, 1.0, 1.0, -1, LARGEST_U)
def test_all_rows_in_one_bin_with_maximal_values_do_not_overflow(n, g, h, w, sign, u):
    packing = Packing.choose(n, g, h, w)
    words = [n * word for word in pack_one(packing, sign * g, h, w, u)]
    assert all(-(2**63) <= word < 2**63 for word in words)
    sums = packing.unpack(words)
    assert sums.count == n
    for seen, value, scale in (
        (sums.gradient, sign * g, packing.gradient_scale),
        (sums.hessian, h, packing.hessian_scale),
        (sums.weight, w, packing.weight_scale),
    ):
        # every row is rounded by at most one unit
        assert abs(seen - n * value) <= n / scale * (1 + 1e-9)


@relaxed
@given(
    st.lists(
        st.tuples(st.floats(-1, 1), st.floats(0, 0.25), st.floats(0, 50), uniforms),
        min_size=1,
        max_size=60,
    )
)
def test_fields_add_up_apart(rows):
    g, h, w, u = (np.array(column) for column in zip(*rows, strict=True))
    packing = Packing.choose(len(rows), 1.0, 0.25, 50.0)
    sums = packing.unpack(packing.pack(g, h, w, u).sum(axis=0))

    each = [packing.unpack(pack_one(packing, *row)) for row in rows]
    assert sums.count == len(rows)
    for name in ("gradient", "hessian", "weight"):
        # multiples of one power of two, so that these float sums are exact
        assert getattr(sums, name) == math.fsum(getattr(one, name) for one in each)


def test_negative_gradients_borrow_nothing_from_the_count():
    packing = Packing.choose(7, 1.0, 1.0, 1.0)
    words = packing.pack(np.full(7, -1.0), np.ones(7), np.ones(7), np.zeros(7)).sum(axis=0)
    assert packing.unpack(words).count == 7
    assert packing.unpack(words).gradient == -7.0


def test_word_pairs_subtract_exactly():
    rng = np.random.default_rng(0)
    packing = Packing.choose(50, 2.0, 1.0, 3.0)
    words = packing.pack(rng.normal(size=50).clip(-2, 2), *rng.random((3, 50)))
    rest = words.sum(axis=0) - words[:20].sum(axis=0)
    assert packing.unpack(rest) == packing.unpack(words[20:].sum(axis=0))


@relaxed
@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_rounding_is_unbiased(g, h, w):
    packing = Packing.choose(2**20, 1.0, 1.0, 1.0)
    m = 512
    u = (np.arange(m) + 0.5) / m
    words = packing.pack(*(np.full(m, value) for value in (g, h, w)), u)
    seen = [packing.unpack(pair) for pair in words]
    for name, value in (("gradient", g), ("hessian", h), ("weight", w)):
        scale = getattr(packing, f"{name}_scale")
        mean_units = np.mean([getattr(s, name) * scale for s in seen])
        # the grid of u resolves a unit to 1 / m
        assert abs(mean_units - value * scale) <= 1 / m + 1e-6 * abs(value * scale) * 1e-6


@relaxed
@given(st.integers(1, 5000), st.integers(-20, 20), uniforms)
@example(10, 0, LARGEST_U)
def test_powers_of_two_are_kept_exactly(n, exponent, u):
    value = 2.0**exponent
    packing = Packing.choose(n, value, value, value)
    sums = packing.unpack(pack_one(packing, -value, value, value, u))
    assert (sums.gradient, sums.hessian, sums.weight) == (-value, value, value)


@relaxed
@given(st.integers(1, 5000), st.integers(1, 1000), uniforms)
def test_whole_numbers_are_kept_exactly(n, k, u):
    packing = Packing.choose(n, 1000.0, 1000.0, 1000.0)
    sums = packing.unpack(pack_one(packing, -float(k), float(k), float(k), u))
    assert (sums.gradient, sums.hessian, sums.weight) == (-k, k, k)


def test_zero_maxima_give_zero_sums():
    packing = Packing.choose(0, 0.0, 0.0, 0.0)
    assert packing.unpack(pack_one(packing, 0.0, 0.0, 0.0, LARGEST_U)).gradient == 0.0


def test_half_is_half_a_word():
    assert np.iinfo(np.int64).bits == 2 * HALF


def test_the_smallest_maxima_keep_some_resolution():
    assert round(1e-300 * sum_scale(1e-300, 10)) >= 1
