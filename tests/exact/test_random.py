"""Random numbers of rows: no ties, uniform, unrelated between keys, the same everywhere."""

from __future__ import annotations

import itertools

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mvsboost.exact.random import (
    NEXT_ROW,
    Purpose,
    row_bits,
    row_bits_scalar,
    row_state_scalar,
    rows_set_aside,
    stream_key,
    uniform,
    uniform_from_state_scalar,
)

WORD = 1 << 64
ROWS = np.arange(20_000, dtype=np.uint64)
words = st.integers(0, WORD - 1)


@numba.njit(error_model="numpy")
def one_by_one(key, first, out):
    """Numbers from a row on, each state from the one before."""
    state = row_state_scalar(key, first)
    for i in range(out.shape[0]):
        out[i] = uniform_from_state_scalar(state)
        state += NEXT_ROW
    return out


@numba.njit(error_model="numpy")
def each(function, key, rows, out):
    """Hash row after row inside a compiled loop, as kernels do."""
    for i in range(rows.shape[0]):
        out[i] = function(key, rows[i])
    return out


def undo_shift(z: int, shift: int) -> int:
    result = z
    for _ in range(64 // shift):
        result = z ^ (result >> shift)
    return result


def row_of(key: int, bits: int) -> int:
    """The inverse of `row_bits`, which exists only if it is a bijection."""
    z = undo_shift(bits, 31)
    z = undo_shift(z * pow(0x94D049BB133111EB, -1, WORD) % WORD, 27)
    z = undo_shift(z * pow(0xBF58476D1CE4E5B9, -1, WORD) % WORD, 30)
    return ((z - key) * pow(0x9E3779B97F4A7C15, -1, WORD) - 1) % WORD


@settings(deadline=None)
@given(words, st.lists(words, min_size=1, max_size=20))
def test_row_bits_are_a_bijection(key, rows):
    bits = row_bits(np.uint64(key), np.array(rows, np.uint64))
    assert [row_of(key, int(b)) for b in bits] == rows


def test_consecutive_rows_never_tie():
    bits = row_bits(stream_key(1, 2, Purpose.DRAW), ROWS)
    assert len(np.unique(bits)) == len(ROWS)


def test_keys_of_different_streams_differ():
    parts = itertools.product((-1, 0, 1, 2**40), range(20), Purpose, range(3))
    keys = [int(stream_key(*part)) for part in parts]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("seed", [0, 1, 12345])
@pytest.mark.parametrize("purpose", list(Purpose))
def test_numbers_are_uniform(seed, purpose):
    u = uniform(stream_key(seed, 0, purpose), ROWS)
    assert u.min() >= 0.0
    assert u.max() < 1.0
    assert stats.kstest(u, "uniform").pvalue > 1e-4


def streams():
    yield from (stream_key(0, 0, purpose) for purpose in Purpose)
    yield from (stream_key(0, iteration, Purpose.DRAW) for iteration in range(1, 5))
    yield from (stream_key(seed, 0, Purpose.DRAW) for seed in range(1, 5))
    yield from (stream_key(0, 0, Purpose.DRAW, attempt) for attempt in range(1, 4))


def test_streams_are_uncorrelated():
    numbers = np.array([uniform(key, ROWS) for key in streams()])
    correlation = np.corrcoef(numbers) - np.eye(len(numbers))
    assert np.abs(correlation).max() < 5 / np.sqrt(len(ROWS))


def test_neighbouring_rows_are_uncorrelated():
    u = uniform(stream_key(0, 0, Purpose.DRAW), ROWS)
    for lag in (1, 2, 7, 256):
        assert abs(np.corrcoef(u[:-lag], u[lag:])[0, 1]) < 5 / np.sqrt(len(ROWS))


def test_scalars_have_the_bits_of_arrays():
    key = stream_key(3, 1, Purpose.ROUNDING)
    rows = np.array([0, 1, 2, 1000, 2**32, 2**63, WORD - 1], np.uint64)
    with np.errstate(over="ignore"):
        bits = each(row_bits_scalar, key, rows, np.empty(len(rows), np.uint64))
        numbers = [one_by_one(key, row, np.empty(1))[0] for row in rows]
        in_turn = one_by_one(key, rows[0], np.empty(2000))
    assert np.array_equal(bits, row_bits(key, rows))
    assert np.array_equal(numbers, uniform(key, rows))
    assert np.array_equal(in_turn, uniform(key, ROWS[:2000]))


def test_rows_set_aside_keeps_the_share_of_every_group():
    groups = np.repeat([0.0, 1.0, 2.0], [100, 40, 7])
    apart = rows_set_aside(groups, 0.25, seed=5)
    assert [int(apart[groups == g].sum()) for g in range(3)] == [25, 10, 2]
    assert np.array_equal(apart, rows_set_aside(groups, 0.25, seed=5))
    assert not np.array_equal(apart, rows_set_aside(groups, 0.25, seed=6))


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint64, np.uint8])
def test_seeds_of_numpy_are_those_of_python(kind):
    assert stream_key(kind(3), kind(7), Purpose.DRAW) == stream_key(3, 7, Purpose.DRAW)
    assert stream_key(np.int64(-5), 0, Purpose.DRAW) == stream_key(-5, 0, Purpose.DRAW)
    groups = np.repeat([0.0, 1.0], 20)
    assert np.array_equal(
        rows_set_aside(groups, 0.25, seed=kind(3)), rows_set_aside(groups, 0.25, seed=3)
    )
