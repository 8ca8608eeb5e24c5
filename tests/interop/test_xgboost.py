"""MVS in XGBoost."""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost.interop.xgboost import MVSObjective

xgb = pytest.importorskip("xgboost")


@pytest.mark.parametrize("sampler", ["none", "mvs"])
def test_trees_on_drawn_rows(sampler):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    objective = MVSObjective("binary:logistic", sampler, learning_rate=0.3)
    parameters = {"base_score": 0.0, "nthread": 1, "verbosity": 0}
    data = xgb.DMatrix(X, y, nthread=1)
    model = xgb.train(parameters, data, 30, obj=objective)
    assert ((model.predict(data, output_margin=True) > 0) == y).mean() > 0.9
    assert len(objective.samples) == 30
