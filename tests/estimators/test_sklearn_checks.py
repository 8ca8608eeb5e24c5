"""scikit-learn's own checks, all of them: nothing is skipped or expected to fail."""

from __future__ import annotations

import warnings

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from mvsboost import MVSClassifier, MVSRegressor

# trees enough for what the checks ask of a fit
ESTIMATORS = [kind(n_estimators=25, n_jobs=1) for kind in (MVSClassifier, MVSRegressor)]


def _checks():
    for estimator in ESTIMATORS:
        for instance, check in estimator_checks_generator(estimator):
            name = check.func.__name__ if hasattr(check, "func") else str(check)
            yield pytest.param(instance, check, id=f"{type(estimator).__name__}-{name}")


@pytest.mark.large
@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
def test_estimator_check(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it one of the checks skips itself
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # checks provoke scikit-learn's warnings on purpose
        check(estimator)
