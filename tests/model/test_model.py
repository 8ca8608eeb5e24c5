"""The model: scores, stages, leaves, importances, and its file."""

from __future__ import annotations

import copy
import json
import math
import pickle

import numpy as np
import pytest

from mvsboost.boosting import train
from mvsboost.errors import ModelFormatError, ParameterError
from mvsboost.metrics import get_metric
from mvsboost.model import Model, files
from mvsboost.model.forest import Forest
from mvsboost.model.model import FORMAT_VERSION
from mvsboost.objectives import Absolute, Logistic, Poisson, Quantile, Softmax, Squared
from mvsboost.runtime.threads import SMALLEST_SLICE
from mvsboost.sampling import MVS


@pytest.fixture(scope="module")
def data(make_data):
    return {name: make_data(name) for name in ("logistic", "softmax", "squared", "poisson")}


@pytest.fixture(scope="module")
def models(data, make_config):
    objectives = {"logistic": Logistic(), "softmax": Softmax(3), "squared": Squared()}
    objectives["poisson"] = Poisson()
    return {
        name: train(
            data[name],
            make_config(objective, MVS(0.5), metrics=[get_metric("loss", objective)]),
            eval_sets={"train": data[name]},
        ).model
        for name, objective in objectives.items()
    }


NAMES = ["logistic", "softmax", "squared", "poisson"]


@pytest.mark.parametrize("name", NAMES)
def test_the_last_stage_is_the_whole_model(name, models, data):
    model, bins = models[name], data[name].rows.bins
    stages = list(model.staged_scores(bins))
    assert len(stages) == model.n_iterations == 3
    assert np.array_equal(stages[-1], model.raw_scores(bins))
    for used, stage in enumerate(stages, start=1):
        assert np.array_equal(stage, model.raw_scores(bins, n_iterations=used))


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_the_sum_of_the_leaves(name, models, data):
    model, bins = models[name], data[name].rows.bins
    leaves = model.leaves(bins)
    scores = np.tile(model.baseline, (len(bins), 1))
    for t, number in enumerate(leaves.T):
        iteration, output = divmod(t, model.n_outputs)
        tree = model.iterations[iteration][output]
        scores[:, output] += tree.value[tree.is_leaf][number]
    assert np.array_equal(scores.T, model.raw_scores(bins))


@pytest.mark.parametrize("name", NAMES)
def test_predictions_go_through_the_link(name, models, data):
    model = models[name]
    X = np.random.default_rng(1).normal(size=(50, 4))
    X[:, 3] = np.arange(50) % 6
    predictions = model.predict(X)
    assert predictions.shape == ((50, 3) if name == "softmax" else (50,))
    scores = model.objective.link.inverse(model.raw_scores(model.bin(X)))
    assert np.array_equal(predictions, scores.T if name == "softmax" else scores[0])


@pytest.mark.parametrize("name", NAMES)
def test_threads_predict_the_same_bits(name, models, data):
    model, bins = models[name], np.tile(data[name].rows.bins, (500, 1))
    assert len(bins) > 4 * SMALLEST_SLICE
    for n_threads in (2, 4):
        assert np.array_equal(model.raw_scores(bins, n_threads=n_threads), model.raw_scores(bins))
        assert np.array_equal(model.leaves(bins, n_threads), model.leaves(bins))


def test_the_baseline_alone(models, data):
    model = models["softmax"]
    scores = model.raw_scores(data["softmax"].rows.bins, n_iterations=0)
    assert np.array_equal(scores, np.tile(model.baseline[:, None], 300))


@pytest.mark.parametrize("n_iterations", [-1, 4])
def test_iterations_that_are_not_there(models, data, n_iterations):
    with pytest.raises(ParameterError, match="from 0 to 3"):
        models["logistic"].raw_scores(data["logistic"].rows.bins, n_iterations)


def test_the_best_iteration_is_what_predictions_use(models, data):
    model, bins = models["logistic"].copy(), data["logistic"].rows.bins
    model.best_iteration = 2
    assert np.array_equal(model.raw_scores(bins), models["logistic"].raw_scores(bins, 2))
    assert len(list(model.staged_scores(bins))) == 2
    assert model.leaves(bins).shape[1] == 2
    assert model.importances("split").sum() < models["logistic"].importances("split").sum()


@pytest.mark.parametrize("name", NAMES)
def test_importances(name, models):
    model = models[name]
    inner = [
        (tree, node)
        for trees in model.iterations
        for tree in trees
        for node in np.flatnonzero(~tree.is_leaf)
    ]
    for kind in ("gain", "split", "cover"):
        expected = np.zeros(4)
        for tree, node in inner:
            amount = 1.0 if kind == "split" else getattr(tree, kind)[node]
            expected[model.mapper.source[tree.feature[node]]] += amount
        assert model.importances(kind) == pytest.approx(expected)
        assert expected.sum() > 0
    with pytest.raises(ParameterError, match="'gain', 'split', 'cover'"):
        model.importances("weight")


def test_a_copy_grows_by_itself(models):
    model = models["logistic"]
    other = model.copy()
    other.append(other.last_trees())
    other.metadata["note"] = 1
    other.history["train"]["loss"].append(0.0)
    assert (model.n_iterations, other.n_iterations) == (3, 4)
    assert model.metadata == {}
    assert len(model.history["train"]["loss"]) == 3


# --- the file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
@pytest.mark.parametrize("name", NAMES)
def test_files_round_trip_to_the_bit(name, suffix, models, data, tmp_path, model_bytes):
    model = models[name].copy()
    model.metadata = {"classes": ["a", "b"], "nested": {"x": [1, None, 0.1]}}
    model.best_iteration = 2
    path = tmp_path / f"model.{suffix}"
    model.save(path)
    again = Model.load(path)
    assert model_bytes(again) == model_bytes(model)
    bins = data[name].rows.bins
    assert again.raw_scores(bins).tobytes() == model.raw_scores(bins).tobytes()
    assert again.metadata == model.metadata
    assert again.history == model.history
    second = tmp_path / f"again.{suffix}"
    again.save(second)
    assert second.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("objective", [Absolute(), Quantile(0.7)], ids=repr)
def test_objectives_come_back_with_their_parameters(objective, data, make_config):
    model = train(data["squared"], make_config(objective)).model
    assert repr(Model.from_dict(model.to_dict()).objective) == repr(objective)


def test_a_history_with_nan_survives(models, tmp_path):
    model = models["logistic"].copy()
    model.history["train"]["loss"][1] = math.nan
    model.save(tmp_path / "m.json")
    values = Model.load(tmp_path / "m.json").history["train"]["loss"]
    assert math.isnan(values[1])
    assert values[0] == model.history["train"]["loss"][0]


def test_a_history_with_infinities_survives(models, tmp_path):
    model = models["logistic"].copy()
    model.history["train"]["loss"] = [math.inf, -math.inf, 1.5]
    model.save(tmp_path / "m.json")
    assert Model.load(tmp_path / "m.json").history == model.history


@pytest.mark.parametrize("value", ["nan", "1.5", True, [1.0]])
def test_a_history_of_things_that_are_no_numbers(value, models):
    state = {**models["logistic"].to_dict(), "history": {"train": {"loss": [value]}}}
    with pytest.raises(ModelFormatError, match="damaged"):
        Model.from_dict(state)


def test_a_model_without_trees(data, tmp_path):
    model = Model.empty(data["logistic"], Logistic(), np.array([0.3]))
    model.save(tmp_path / "m.json")
    again = Model.load(tmp_path / "m.json")
    assert again.n_iterations == 0
    assert again.last_trees() == []
    assert np.array_equal(again.raw_scores(data["logistic"].rows.bins), np.full((1, 300), 0.3))


def test_a_failing_save_leaves_the_old_model(models, tmp_path, monkeypatch, model_bytes):
    path = tmp_path / "m.json"
    models["logistic"].save(path)

    def fail(*args):
        raise OSError("no space left")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        models["softmax"].save(path)
    assert model_bytes(Model.load(path)) == model_bytes(models["logistic"])
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_of_another_kind(tmp_path):
    for content in ({}, {"format": "lightgbm"}, [1, 2], "text", None):
        (tmp_path / "m.json").write_text(json.dumps(content))
        with pytest.raises(ModelFormatError, match="not a model"):
            Model.load(tmp_path / "m.json")


def test_a_file_of_another_version(models):
    state = {**models["logistic"].to_dict(), "version": FORMAT_VERSION + 1}
    with pytest.raises(ModelFormatError, match=f"version {FORMAT_VERSION + 1}"):
        Model.from_dict(state)


def test_a_cut_file(models, tmp_path):
    path = tmp_path / "m.json.gz"
    models["logistic"].save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelFormatError, match=r"m\.json\.gz"):
        Model.load(path)


@pytest.mark.parametrize(
    "key",
    [
        "objective",
        "baseline",
        "best_iteration",
        "metadata",
        "history",
        "schema",
        "mapper",
        "iterations",
    ],
)
def test_a_part_that_is_missing_or_of_a_wrong_kind(key, models):
    state = models["logistic"].to_dict()
    with pytest.raises(ModelFormatError):
        Model.from_dict({name: value for name, value in state.items() if name != key})
    with pytest.raises(ModelFormatError):
        Model.from_dict({**state, key: "garbage"})


TREE_DAMAGE = {
    "too short": lambda tree: tree.update(value=tree["value"][:-1]),
    "missing": lambda tree: tree.pop("threshold"),
    "text": lambda tree: tree.update(value=["x"] * len(tree["value"])),
    "too large a number": lambda tree: tree["left"].__setitem__(0, 2**40),
    "child out of range": lambda tree: tree["left"].__setitem__(0, 10**6),
    "negative child": lambda tree: tree["right"].__setitem__(0, -7),
    "circle": lambda tree: tree["left"].__setitem__(0, 0),
    "feature out of range": lambda tree: tree["feature"].__setitem__(0, 999),
    "category set out of range": lambda tree: tree["categories"].__setitem__(0, 77),
    "missing bin out of range": lambda tree: tree["missing_bin"].__setitem__(0, 300),
    "nested": lambda tree: tree.update(feature=[tree["feature"]]),
}


@pytest.mark.parametrize("damage", list(TREE_DAMAGE))
def test_a_damaged_tree_is_not_loaded(damage, models):
    """A kernel follows children without asking, so the file must be asked before."""
    state = copy.deepcopy(models["logistic"].to_dict())
    TREE_DAMAGE[damage](state["iterations"][0][0])
    with pytest.raises(ModelFormatError):
        Model.from_dict(state)


@pytest.mark.parametrize("best", [-1, 99, 1.5, "2"])
def test_a_best_iteration_that_is_not_there(best, models):
    with pytest.raises(ModelFormatError):
        Model.from_dict({**models["logistic"].to_dict(), "best_iteration": best})


@pytest.mark.parametrize("iterations", ["none", "all"])
@pytest.mark.parametrize(
    "baseline", [1.5, [], [0.0], [0.0] * 4, [[0.0]] * 3, [0.0, math.nan, 0.0], [math.inf] * 3]
)
def test_a_baseline_that_does_not_fit_the_objective(baseline, iterations, models):
    state = {**models["softmax"].to_dict(), "baseline": baseline}
    if iterations == "none":
        state |= {"iterations": [], "best_iteration": None}
    with pytest.raises(ModelFormatError, match=r"3 finite number\(s\) as its baseline"):
        Model.from_dict(state)


def test_trees_for_another_number_of_outputs(models):
    state = models["softmax"].to_dict()
    state["iterations"][0] = state["iterations"][0][:1]
    with pytest.raises(ModelFormatError, match="trees for another number of outputs"):
        Model.from_dict(state)


def test_trees_are_laid_out_once_for_many_predictions(make_data, make_config, monkeypatch):
    data = make_data("logistic")
    model, bins = train(data, make_config(n_estimators=4)).model, data.rows.bins
    model.append(model.iterations.pop())  # what was laid out while training is gone
    laid_out, lay_out = [], Forest.from_iterations
    monkeypatch.setattr(
        Forest, "from_iterations", lambda trees: laid_out.append(1) or lay_out(trees)
    )
    whole = model.raw_scores(bins)
    for _ in range(3):
        np.testing.assert_array_equal(model.raw_scores(bins), whole)
    model.leaves(bins)
    assert len(laid_out) == 1
    shorter = model.raw_scores(bins, 2)
    assert not np.array_equal(shorter, whole)
    np.testing.assert_array_equal(model.raw_scores(bins), whole)
    longer = model.copy()
    longer.append(model.iterations[0])
    assert not np.array_equal(longer.raw_scores(bins), whole)
    np.testing.assert_array_equal(model.raw_scores(bins), whole)
    assert pickle.loads(pickle.dumps(model))._laid_out is None
