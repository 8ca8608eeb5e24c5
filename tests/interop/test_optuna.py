"""Trials that promise nothing end early."""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost import MVSRegressor
from mvsboost.interop.optuna import PruningCallback

optuna = pytest.importorskip("optuna")


def test_a_trial_is_pruned():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=300)
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial):
        rate = [0.3, 1e-6, 1e-6][trial.number]
        model = MVSRegressor(
            n_estimators=20, learning_rate=rate, callbacks=[PruningCallback(trial)]
        )
        model.fit(X, y, eval_set=[(X[:100], y[:100])])
        return model.evals_result_["eval_0"]["rmse"][-1]

    pruner = optuna.pruners.MedianPruner(n_startup_trials=1, n_warmup_steps=3)
    study = optuna.create_study(pruner=pruner)
    study.optimize(objective, n_trials=3)
    states = [trial.state.name for trial in study.trials]
    assert states == ["COMPLETE", "PRUNED", "PRUNED"]
    assert len(study.trials[0].intermediate_values) == 20
    assert len(study.trials[1].intermediate_values) == 4
