"""What nobody wishes to be given: trained to a right model, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mvsboost import MVSClassifier
from tests.hostile import checks


@settings(
    derandomize=True,
    max_examples=80,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(rng=st.randoms(use_true_random=False))
def test_tables_train_a_right_model_or_are_refused(rng, tmp_path_factory):
    assert checks.outcome(rng, tmp_path_factory.getbasetemp()) in ("fitted", "refused")


@pytest.mark.large
def test_one_row_in_a_million():
    x = np.arange(1_000_000, dtype=np.float32)[:, None]
    y = (x[:, 0] == 999_999).astype(np.int64)
    clf = MVSClassifier(n_estimators=20, min_child_weight=0.0, l2=0.0, n_jobs=2).fit(x, y)
    shares = clf.predict_proba(x)[:, 1]
    assert np.isfinite(shares).all()
    assert shares[-1] == shares.max() > 1e-4 > 1e-5 > np.median(shares)
