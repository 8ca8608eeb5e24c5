"""Without sampling, at equal learning rate, leaves and bins, we are as good as LightGBM."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from mvsboost import MVSClassifier
from mvsboost.datasets import data_path, load_adult
from mvsboost.errors import DataError

lightgbm = pytest.importorskip("lightgbm")
pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.large

SETTING = {"n_estimators": 100, "learning_rate": 0.1}


def parquet(name):
    try:
        path = data_path(f"{name}.parquet")
    except DataError as error:
        pytest.skip(str(error))
    return pd.read_parquet(path)


def aucs(X, y):
    """Test AUC of LightGBM and ours on a fixed random fifth."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    peer = lightgbm.LGBMClassifier(
        **SETTING, num_leaves=31, max_bin=255, reg_lambda=1.0, n_jobs=2, verbose=-1
    ).fit(X, y)
    ours = MVSClassifier(**SETTING, max_leaves=31, max_bins=255, sampler="none", n_jobs=2)
    ours.fit(X, y)
    return [roc_auc_score(y_test, m.predict_proba(X_test)[:, 1]) for m in (peer, ours)]


def test_adult():
    table = load_adult()
    X = pd.DataFrame(table.data)
    for name in X.select_dtypes(exclude="number"):
        X[name] = X[name].astype("category")
    peer, ours = aucs(X, table.target)
    assert abs(ours - peer) < 0.002


def test_covertype():
    table = parquet("covtype").sample(150_000, random_state=0)
    peer, ours = aucs(table.drop(columns="Cover_Type"), (table["Cover_Type"] == 2).astype(int))
    assert abs(ours - peer) < 0.002


def test_higgs_sample():
    table = parquet("higgs_sample")
    features = table.drop(columns=["source", "label"]).astype(np.float32)
    peer, ours = aucs(features, table["label"].astype(int))
    assert abs(ours - peer) < 0.002
