from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

da = pytest.importorskip("dask.array", reason="dask is not installed")
dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
pytest.importorskip("distributed", reason="distributed is not installed")

from distributed import Client, LocalCluster

from mvsboost import GOSS, MVS, MVSClassifier, MVSRegressor
from mvsboost.dask import DaskMVSClassifier, DaskMVSRegressor
from mvsboost.errors import ClusterError, DataError, ParameterError
from tests.clusters.tables import Sets, as_arrays, mixed, numbers


def file_of(estimator, folder, name="model.json"):
    estimator.save(folder / name)
    return (folder / name).read_bytes()


@pytest.fixture(scope="module")
def table():
    return mixed()


CASES = {
    "default": {},
    "second look": {"second_look": 2, "sampler": MVS(0.2)},
    "goss, depth": {"sampler": GOSS(0.1, 0.2), "max_depth": 4},
    "sample's leaves": {"sampler": MVS(0.3), "leaf_values": "sample", "class_weight": "balanced"},
    "constraints": {
        "monotone_constraints": {"number": 1},
        "interaction_constraints": [["number", "integer"]],
        "colsample": 0.6,
        "max_bins": 31,
    },
}


@pytest.mark.parametrize("case", CASES)
def test_the_model_is_that_of_one_machine(client, table, tmp_path, case):
    parameters = {"n_estimators": 5, "eval_metric": ["log_loss", "auc"], **CASES[case]}
    some = table.first(800)
    local = MVSClassifier(**parameters).fit(*table, eval_set=[(some.X, some.y)])
    parts, eval_parts = table.parts(), some.parts(2)
    remote = DaskMVSClassifier(client=client, **parameters).fit(
        *parts, eval_set=[(eval_parts.X, eval_parts.y)]
    )
    assert file_of(remote, tmp_path) == file_of(local, tmp_path)
    assert remote.evals_result_ == local.evals_result_
    for here, there in zip(local.sampling_history_, remote.sampling_history_, strict=True):
        # Σw and Σw² are sums of floats
        assert there == pytest.approx(here, rel=1e-12, nan_ok=True)
        np.testing.assert_equal(there["mu"], here["mu"])
    assert remote.stage_times_["grow_whole_tree"] > 0.0


@pytest.mark.parametrize("objective", ["squared", "absolute", "poisson"])
def test_arrays_of_numbers(client, tmp_path, objective):
    X, y = numbers()
    y = np.abs(y)
    local = MVSRegressor(n_estimators=4, objective=objective).fit(X, y)
    X_parts, y_parts = as_arrays(X, y)
    remote = DaskMVSRegressor(client=client, n_estimators=4, objective=objective)
    remote.fit(X_parts, y_parts)
    assert file_of(remote, tmp_path) == file_of(local, tmp_path)
    predicted = remote.predict(X_parts)
    assert isinstance(predicted, da.Array)
    np.testing.assert_array_equal(predicted.compute(scheduler="sync"), local.predict(X))
    np.testing.assert_array_equal(remote.predict(X), local.predict(X))


def test_collections_come_out(client, table, tmp_path):
    parts = table.parts()
    remote = DaskMVSClassifier(client=client, n_estimators=3).fit(parts.X, parts.y)
    local = remote.to_local()
    assert type(local) is MVSClassifier
    predicted, shares = remote.predict(parts.X), remote.predict_proba(parts.X)
    assert isinstance(predicted, dd.Series)
    assert isinstance(shares, dd.DataFrame)
    shares = shares.compute(scheduler="sync")
    assert list(shares.columns) == ["no", "yes"]
    assert shares.index.equals(table.X.index)
    np.testing.assert_array_equal(shares.to_numpy(), local.predict_proba(table.X))
    np.testing.assert_array_equal(predicted.compute(scheduler="sync"), local.predict(table.X))
    decisions = remote.decision_function(parts.X).compute(scheduler="sync")
    np.testing.assert_array_equal(decisions, local.decision_function(table.X))
    again = DaskMVSClassifier.load(_saved(remote, tmp_path))
    np.testing.assert_array_equal(again.predict(table.X), local.predict(table.X))
    assert MVSClassifier.load(tmp_path / "model.json").n_iter_ == 3


def _saved(estimator, folder):
    file_of(estimator, folder)
    return folder / "model.json"


def test_three_classes_as_an_array(client, tmp_path):
    X, y = numbers()
    classes = np.digitize(y, [-1.0, 1.5])
    X_parts, y_parts = as_arrays(X, classes)
    local = MVSClassifier(n_estimators=3).fit(X, classes)
    remote = DaskMVSClassifier(client=client, n_estimators=3).fit(X_parts, y_parts)
    assert file_of(remote, tmp_path) == file_of(local, tmp_path)
    shares = remote.predict_proba(X_parts)
    assert shares.shape == (len(X), 3)
    np.testing.assert_array_equal(shares.compute(scheduler="sync"), local.predict_proba(X))


def test_a_model_goes_on(client, table, tmp_path):
    X = table.X.drop(columns="town")
    parts = Sets(X, table.y, table.weight).parts()
    long = MVSClassifier(n_estimators=6).fit(X, table.y)
    first = MVSClassifier(n_estimators=2).fit(X, table.y)
    more = DaskMVSClassifier(client=client, n_estimators=4)
    more.fit(parts.X, parts.y, init_model=first)
    np.testing.assert_array_equal(more.predict_proba(X), long.predict_proba(X))
    checkpoint, all_parts = tmp_path / "checkpoint.json", table.parts()
    half = DaskMVSClassifier(client=client, n_estimators=3)
    half.fit(all_parts.X, all_parts.y, resume=checkpoint)
    whole = half.set_params(n_estimators=6).fit(all_parts.X, all_parts.y, resume=checkpoint)
    straight = MVSClassifier(n_estimators=6).fit(table.X, table.y)
    np.testing.assert_array_equal(whole.predict_proba(table.X), straight.predict_proba(table.X))
    other = mixed(seed=5).parts()
    with pytest.raises(DataError, match="rows it was trained on only"):
        more.fit(other.X, other.y, init_model=whole)


def test_odd_partitions(client, tmp_path):
    """Empty ones, one row each, types that only some have, more workers than partitions."""
    X = pd.DataFrame({"a": np.arange(40.0), "b": ["x", None] * 20})
    y = pd.Series(np.arange(40.0) % 7)
    cuts = [0, 0, 1, 2, 20, 20, 40, 40]
    local = MVSRegressor(n_estimators=3, min_samples_leaf=2).fit(X, y)
    remote = DaskMVSRegressor(client=client, n_estimators=3, min_samples_leaf=2)
    pieces = list(pairwise(cuts))
    X_parts = dd.from_map(lambda piece: X[slice(*piece)], pieces, meta=X[:0])
    y_parts = dd.from_map(lambda piece: y[slice(*piece)], pieces, meta=y[:0])
    assert file_of(remote.fit(X_parts, y_parts), tmp_path) == file_of(local, tmp_path)
    predicted = remote.predict(X_parts).compute(scheduler="sync")
    np.testing.assert_array_equal(predicted, local.predict(X))
    one = remote.fit(dd.from_pandas(X[:2], npartitions=1), dd.from_pandas(y[:2], npartitions=1))
    assert one.n_iter_ == 3


def test_errors_name_what_is_wrong(client, table):
    parts = table.parts()
    fit = DaskMVSClassifier(client=client, n_estimators=2).fit
    with pytest.raises(DataError, match="training X must be a dask DataFrame"):
        fit(table.X, parts.y)
    with pytest.raises(DataError, match="has 5 partitions and y has 3"):
        fit(parts.X, table.parts(3).y)
    with pytest.raises(DataError, match="init_score is not there"):
        fit(parts.X, parts.y, init_score=parts.weight)
    with pytest.raises(ParameterError, match="validation_fraction must be None"):
        DaskMVSClassifier(client=client, validation_fraction=0.1).fit(parts.X, parts.y)
    with pytest.raises(ParameterError, match="timeout must be"):
        DaskMVSClassifier(client=client, timeout=0).fit(parts.X, parts.y)
    with pytest.raises(DataError, match=r"partition [0-4]: sample_weight must be finite"):
        fit(parts.X, parts.y, parts.weight - 1.0)
    with pytest.raises(DataError, match="not be zero for every row"):
        fit(parts.X, parts.y, parts.weight * 0.0)
    with pytest.raises(DataError, match=r"eval_set\[0\].*'other', which is not among"):
        fit(parts.X, parts.y, eval_set=[(parts.X, parts.y.replace("no", "other"))])
    mixed_types = dd.from_map(
        lambda i: pd.DataFrame({"a": [1.0, 2.0] if i else ["x", "y"]}),
        range(2),
        meta=pd.DataFrame({"a": ["x"]}),
    )
    y = dd.from_pandas(pd.Series([0, 1, 0, 1]), npartitions=2)
    with pytest.raises(DataError, match=r"column 'a' holds numbers .* in some parts"):
        fit(mixed_types, y)


def test_there_must_be_a_client_and_a_worker():
    X, y = as_arrays(*numbers(50))
    with pytest.raises(ParameterError, match=r"client must be a distributed\.Client"):
        DaskMVSRegressor().fit(X, y)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        Client(empty, set_as_default=False) as lonely,
        pytest.raises(ClusterError, match=r"no worker has been there.*timeout=0\.5"),
    ):
        DaskMVSRegressor(client=lonely, timeout=0.5).fit(X, y)


class ThroughTheClient(DaskMVSRegressor):
    """Its workers do not reach one another."""

    def _cluster(self):
        cluster = super()._cluster()
        cluster.most_peers = 0
        return cluster


def test_few_rounds(client):
    X, y = numbers(20_000)
    parts, rounds, files = as_arrays(X, y, 5_000), {}, set()
    for kind in (DaskMVSRegressor, ThroughTheClient):
        for shape in ({}, {"max_depth": 6}):
            fitted = kind(client=client, n_estimators=10, sampler=MVS(0.3), **shape)
            traffic = fitted.fit(*parts).traffic_
            by_verb = traffic["by_verb"]
            trees = by_verb.get("grow_whole_tree", 0), by_verb.get("histograms", 0)
            rounds[kind, len(shape)] = *trees, traffic["rounds"]
            assert (traffic["between"] > 0) == (kind is DaskMVSRegressor)
            assert traffic["sent"] > 0
            assert traffic["rebuilt"] == 0
            files.add((len(shape), str(fitted.model_.to_dict()["iterations"])))
    assert len(files) == 2  # however trees are grown
    assert rounds[DaskMVSRegressor, 0][:2] == rounds[DaskMVSRegressor, 1][:2] == (10, 0)
    assert rounds[DaskMVSRegressor, 0][2] <= 90
    best_first, by_level = rounds[ThroughTheClient, 0], rounds[ThroughTheClient, 1]
    assert best_first[0] == by_level[0] == 0
    assert best_first[1] <= 120
    assert by_level[1] <= 60
    assert by_level[2] <= 140
