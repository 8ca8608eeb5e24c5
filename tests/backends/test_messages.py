"""The small messages of the protocol, and the registry of devices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.cuda import CUDABackend
from mvsboost.backends.draws import DrawSummary, RankKey
from mvsboost.backends.messages import BinnedRows, GradientRange, residual_key, residual_of_key
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.backends.registry import DEVICES, backend_factory
from mvsboost.errors import ParameterError
from mvsboost.kernels.histogram import feature_offsets
from mvsboost.objectives import Squared

singles = hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(width=32, allow_nan=False))


@given(singles)
def test_residual_keys_are_ordered_as_residuals(values):
    keys = residual_key(values.astype(np.float64))
    assert np.array_equal(residual_of_key(keys), values)
    for a, ka in zip(values, keys, strict=True):
        # -0.0 lies just under 0.0, equal as a number
        assert np.all((a < values) <= (ka < keys))


def test_slices_of_rows_keep_their_ids():
    rows = BinnedRows(np.zeros((10, 1), np.uint8), np.ones(1, np.int64), np.arange(10.0), None, 100)
    part = rows.slice(3, 6)
    assert part.ids.tolist() == [103, 104, 105]
    assert part.target.tolist() == [3.0, 4.0, 5.0]
    assert part.weight is None


def test_offsets_leave_a_place_for_missing_values():
    n_bins = np.array([3, 255, 1])
    assert feature_offsets(n_bins, np.array([2, 0])).tolist() == [0, 2, 6]


def test_gradient_ranges_merge_to_the_range_of_the_whole():
    a, b = GradientRange(1.0, 2.0, 0.5, -1), GradientRange(3.0, 1.0, 0.1, 17)
    assert a.merge(b) == b.merge(a) == GradientRange(3.0, 2.0, 0.1, 17)
    assert b.merge(GradientRange(0.0, 0.0, 9.0, 4)).bad_row == 4


def test_draws_merge():
    a, b = DrawSummary(3, 1, 2.0, 1.0, 0.5, 5.0, 9.0), DrawSummary(1, 1, 1.0, 4.0, 0.1, 1.0, 1.0)
    assert a.merge(b) == DrawSummary(4, 2, 2.0, 4.0, 0.5, 6.0, 10.0)


def test_keys_by_score_rank_by_score_and_never_tie():
    ids = np.arange(1000, dtype=np.uint64)
    scores = np.random.default_rng(0).integers(0, 5, 1000).astype(np.float32)
    keys = RankKey(np.uint64(12345), by_score=True).values(scores, ids)
    assert len(np.unique(keys)) == 1000
    assert (np.diff(scores[np.argsort(keys)]) >= 0).all()
    # rows of equal score are not simply ranked by their place
    equal = keys[scores == 2]
    assert not np.array_equal(np.sort(equal), equal)


def test_devices_have_their_backends(make_rows):
    kinds = {"cpu": CPUBackend, "cuda": CUDABackend, "reference": ReferenceBackend}
    assert set(kinds) == set(DEVICES)
    for device, kind in kinds.items():
        assert type(backend_factory(device, 2)(make_rows(10), Squared())) is kind


def test_an_unknown_device_is_refused():
    with pytest.raises(ParameterError, match="device must be one of 'cpu', 'cuda', 'reference'"):
        backend_factory("gpu", 1)
