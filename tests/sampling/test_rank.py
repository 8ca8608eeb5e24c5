"""Exact ranks from counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mvsboost.backends.composite import CompositeBackend
from mvsboost.backends.draws import RankKey, Score, ScoreRule, score_key
from mvsboost.errors import ParameterError
from mvsboost.kernels.sampling import RANK_BITS
from mvsboost.sampling import cut_largest, cut_smallest
from mvsboost.testing import GradientRows

KEY = np.uint64(0x123456789ABCDEF)
IDS = np.arange(500, dtype=np.uint64)


@given(st.integers(1, 500))
@settings(max_examples=20, deadline=None)
def test_k_keys_reach_the_cut(k):
    rows = GradientRows(np.ones(500), np.ones(500))
    keys = RankKey(KEY).values(None, IDS)
    assert (keys <= cut_smallest(rows, RankKey(KEY), k)).sum() == k
    assert (keys >= cut_largest(rows, RankKey(KEY), k)).sum() == k


def test_rounds_end_when_the_cut_parts_a_bucket_from_the_others():
    rows = GradientRows(np.ones(500), np.ones(500))
    rounds, count = [], rows.rank_counts
    rows.rank_counts = lambda *arguments: rounds.append(arguments) or count(*arguments)
    for k in range(1, 501):
        cut_smallest(rows, RankKey(KEY), k)
    keys = np.sort(RankKey(KEY).values(None, IDS))
    for known_bits in range(RANK_BITS, 64, RANK_BITS):  # rounds of cuts within a bucket
        left = np.uint64(64 - known_bits)
        within = int((keys[:-1] >> left == keys[1:] >> left).sum())
        assert sum(arguments[1] == known_bits for arguments in rounds) == within
    assert 500 < len(rounds) < 600  # few of 4096 buckets hold two of 500 rows


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=2, max_size=60), st.data())
@settings(max_examples=30, deadline=None)
def test_kth_score_key_with_ties(scores, data):
    k = data.draw(st.integers(1, len(scores)))
    rows = GradientRows(scores, np.zeros(len(scores)))
    rows.score_rows(ScoreRule(Score.ABS_GRADIENT))
    keys = score_key(KEY, np.array(scores, np.float32), IDS[: len(scores)])
    cut = cut_largest(rows, RankKey(KEY, by_score=True), k)
    assert (keys >= cut).sum() == k
    assert np.array(scores)[keys >= cut].min() >= np.array(scores)[keys < cut].max(initial=0.0)


def test_rows_over_the_cut_are_left_out():
    scores = np.arange(500, dtype=np.float32)
    rows = GradientRows(scores, np.zeros(500))
    rows.score_rows(ScoreRule(Score.ABS_GRADIENT))
    top = cut_largest(rows, RankKey(KEY, by_score=True), 100)
    rest = RankKey(np.uint64(77), only_below=(KEY, top))
    keys = RankKey(np.uint64(77)).values(None, IDS[:400])
    for k in (10, 400):
        assert (keys <= cut_smallest(rows, rest, k)).sum() == k


def test_parts_do_not_matter():
    whole = GradientRows(np.ones(500), np.ones(500))
    parts = CompositeBackend(
        [GradientRows(np.ones(200), np.ones(200)), GradientRows(np.ones(300), np.ones(300), 200)]
    )
    assert cut_smallest(whole, RankKey(KEY), 123) == cut_smallest(parts, RankKey(KEY), 123)


@pytest.mark.parametrize("k", [0, 501])
def test_rank_outside_the_rows_is_an_error(k):
    rows = GradientRows(np.ones(500), np.ones(500))
    with pytest.raises(ParameterError, match="from 1 to 500"):
        cut_smallest(rows, RankKey(KEY), k)
