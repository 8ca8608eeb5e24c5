"""Models and trainings in MLflow, with its own store of files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

from mvsboost import MVSClassifier, MVSRegressor
from mvsboost.interop.mlflow import autolog, load_model, log_fit, log_model

mlflow = pytest.importorskip("mlflow")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file://{tmp_path}/runs")
    mlflow.set_experiment("test")
    yield
    autolog(disable=True)
    while mlflow.active_run():
        mlflow.end_run()


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=300), "c": rng.choice(["a", "b"], 300)})
    return X, X["x"] + (X["c"] == "a")


def test_a_model_comes_back_with_its_predictions(rows):
    X, y = rows
    model = MVSClassifier(n_estimators=4).fit(X, np.where(y > 0, "yes", "no"))
    with mlflow.start_run():
        info = log_model(model)
    served = mlflow.pyfunc.load_model(info.model_uri)
    assert served.predict(X).tolist() == model.predict(X).tolist()
    again = load_model(info.model_uri)
    assert again.predict_proba(X).tolist() == model.predict_proba(X).tolist()


def test_parameters_and_metrics_by_iteration(rows):
    X, y = rows
    model = MVSRegressor(n_estimators=7, sampler="sgb").fit(X, y, eval_set=[(X, y)])
    with mlflow.start_run() as run:
        log_fit(model)
    data = mlflow.get_run(run.info.run_id).data
    assert data.params["n_estimators"] == "7"
    assert data.params["sampler"] == "'sgb'"
    assert data.metrics["iterations"] == 7
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "eval_0 rmse")
    assert [one.step for one in history] == list(range(1, 8))
    assert [one.value for one in history] == model.evals_result_["eval_0"]["rmse"]


def test_every_fit_logs_itself_until_it_is_told_not_to(rows):
    X, y = rows
    autolog()
    MVSRegressor(n_estimators=3).fit(X, y)
    with mlflow.start_run() as outer:
        cross_val_score(MVSRegressor(n_estimators=2), X, y, cv=2)
    autolog(disable=True)
    MVSRegressor(n_estimators=1).fit(X, y)
    runs = mlflow.search_runs(output_format="list")
    fits = [run for run in runs if "n_estimators" in run.data.params]
    assert sorted(run.data.params["n_estimators"] for run in fits) == ["2", "2", "3"]
    inside = [run for run in fits if run.data.tags.get("mlflow.parentRunId") == outer.info.run_id]
    assert len(inside) == 2
    assert mlflow.active_run() is None


def test_a_fit_that_fails_ends_its_run(rows):
    X, y = rows
    autolog(log_models=False)
    with pytest.raises(ValueError, match="n_estimators"):
        MVSRegressor(n_estimators=0).fit(X, y)
    assert mlflow.active_run() is None
    (run,) = mlflow.search_runs(output_format="list")
    assert run.info.status == "FAILED"
