"""Fixed-point words: fields that never meet, exact integers, unbiased rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mvsboost.backends.draws import score_key
from mvsboost.errors import DataError
from mvsboost.exact.dtypes import ROW
from mvsboost.exact.fixedpoint import (
    HALF,
    MAX_IDS,
    MAX_ROWS,
    Packing,
    check_rows,
    power_of_two_below,
    sum_scale,
)

LARGEST_U = 1.0 - 2.0**-53
"""The largest number that `random.uniform` can give."""

magnitudes = st.floats(1e-280, 1e280)
row_counts = st.one_of(st.integers(1, 1000), st.integers(1, MAX_ROWS))
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
@example(MAX_ROWS, 1.0, 1.0, 1.0, -1, LARGEST_U)
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


# --- how many rows ------------------------------------------------------------------------------


def test_levels_of_a_row_where_there_are_as_many_as_possible():
    packing = Packing.choose(MAX_ROWS, 1.0, 1.0, 1.0)
    assert packing.scales().tolist() == [16.0, 4.0, 8.0]


def test_more_rows_than_a_tree_can_sum_are_an_error():
    with pytest.raises(DataError, match="268,435,457 rows, and 268,435,456 are possible") as error:
        Packing.choose(MAX_ROWS + 1, 1.0, 1.0, 1.0)
    assert "rate of the sampler" in str(error.value)
    assert "second_look=0" in str(error.value)


@relaxed
@given(magnitudes, magnitudes, magnitudes, st.sampled_from([-1, 1]), st.integers(0, 1))
@example(1.0, 1.0, 1.0, -1, 0)
@example(16.0, 4.0, 8.0, 1, 0)
def test_no_field_overflows_where_there_are_as_many_rows_as_possible(g, h, w, sign, fewer):
    n = MAX_ROWS - fewer
    packing = Packing.choose(n, g, h, w)
    first, second = pack_one(packing, sign * g, h, w, LARGEST_U)
    gradient, count = first >> packing.count_bits, first % 2**packing.count_bits
    hessian, weight = second >> HALF, second % 2**HALF
    assert n * count < 2**packing.count_bits
    assert abs(n * gradient) < 2 ** (63 - packing.count_bits)
    assert n * hessian < 2 ** (63 - HALF)
    assert n * weight < 2**HALF


@pytest.mark.parametrize(
    ("n_rows", "share", "second_look"),
    [
        (0, 1.0, 4),
        (MAX_ROWS, 1.0, 0),
        (MAX_ROWS, 1.0, 4),
        (MAX_ROWS, 0.999, 4),
        (10**9, 0.26, 0),
        (MAX_IDS, 0.05, 0),
    ],
)
def test_rows_that_trees_can_sum(n_rows, share, second_look):
    check_rows(n_rows, share, second_look)


@pytest.mark.parametrize(
    ("n_rows", "share", "second_look", "says"),
    [
        (MAX_ROWS + 1, 1.0, 0, "268,435,457 rows of which the sampler draws 100% are too many"),
        (MAX_ROWS + 1, 1.0, 0, "; lower the rate of the sampler to at most 0.99$"),
        (10**9, 0.5, 0, "can sum 268,435,456; lower the rate of the sampler to at most 0.26$"),
        (10**9, 0.1, 4, "; set second_look=0, since a second look sums all rows$"),
        (10**9, 0.5, 4, "; set second_look=0, .* and lower the rate of the sampler to at most"),
        (MAX_IDS, 0.07, 0, "lower the rate of the sampler to at most 0.06$"),
        (
            MAX_IDS + 1,
            0.01,
            0,
            "4,294,967,297 rows are too many, 4,294,967,296 are possible$",
        ),
    ],
)
def test_rows_that_trees_cannot_sum(n_rows, share, second_look, says):
    with pytest.raises(DataError, match=says):
        check_rows(n_rows, share, second_look)


def test_a_draw_may_be_a_little_larger_than_expected():
    n_rows = 2 * MAX_ROWS
    with pytest.raises(DataError, match="lower the rate"):
        check_rows(n_rows, 0.5, 0)
    share = 0.4997
    check_rows(n_rows, share, 0)
    assert share * n_rows + 6 * math.sqrt(share * n_rows) < MAX_ROWS


@relaxed
@given(st.integers(MAX_ROWS + 1, MAX_IDS), st.floats(0.01, 1.0), st.integers(0, 4))
def test_the_rate_that_an_error_names_is_possible(n_rows, share, second_look):
    try:
        check_rows(n_rows, share, second_look)
    except DataError as error:
        named = str(error).rpartition(" at most ")[2]
        check_rows(n_rows, float(named) if "at most" in str(error) else share, 0)


def test_32_bits_number_all_rows():
    assert np.array([MAX_IDS - 1]).astype(ROW)[0] == MAX_IDS - 1
    ids = np.array([7, MAX_IDS - 1, 7 + MAX_IDS], np.uint64)
    keys = score_key(np.uint64(3), np.ones(3, np.float32), ids)
    assert keys[0] != keys[1]
    assert keys[0] == keys[2]  # one more row would tie
    assert sum_scale(1.0, MAX_IDS) == 2.0**30
