"""Draws and programs that only the ablation uses, and the check of Theorem 1."""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost.errors import ParameterError
from mvsboost.objectives import Logistic
from mvsboost.sampling.gradient_rows import GradientRows
from research.draws import SampledLogistic, SystematicMVS, mvs_probabilities, mvs_weights
from research.engines import ENGINES, fit_and_judge
from research.hosts import OWN
from research.levels import boost_by_levels
from research.plan import setting
from research.race import race
from research.sets import SETS, SetInfo
from research.sets.large import synthetic
from research.theory import SAMPLERS, judge_samplers, predicted_deviation, split_scores

TREE = {
    "num_leaves": 8,
    "min_data_in_leaf": 20,
    "min_sum_hessian_in_leaf": 1e-3,
    "feature_fraction": 1.0,
    "lambda_l1": 0.0,
    "lambda_l2": 1.0,
}


@pytest.fixture
def few(monkeypatch):
    info = SetInfo("Few", lambda folder: synthetic(1500), trees=10, learning_rate=0.1, tree=TREE)
    monkeypatch.setitem(SETS, "few rows", info)


def _cell(**changes):
    cell = {
        "set": "few rows",
        "engine": "mvsboost",
        "view": "native",
        **setting({"name": "mvs", "rate": 0.3, "lam": 0.1}, "all"),
        "trees": 10,
        "learning_rate": 0.1,
        "tree": TREE,
        "seed": 0,
        "fold": -1,
        "folds": 0,
    }
    return {**cell, **changes}


@pytest.fixture
def gradients():
    rng = np.random.default_rng(0)
    return rng.normal(size=400), rng.uniform(0.1, 0.25, size=400)


@pytest.mark.parametrize("ordered", [False, True])
def test_systematic_draws_have_a_fixed_size_and_the_probabilities_of_mvs(gradients, ordered):
    rows = GradientRows(*gradients)
    g, h = (part[0].astype(np.float64) for part in rows.gradients())
    p = mvs_probabilities(g, h, 0.2, 0.1)
    drawn = np.zeros(len(p))
    sampler = SystematicMVS(0.2, 0.1, ordered=ordered)
    n = 400
    for iteration in range(n):
        sample = sampler.draw(rows, rows.context(iteration=iteration))
        assert abs(sample.summary.n_rows - 80) <= 1
        drawn += rows.weights > 0
    inside = rows.weights > 0
    assert rows.weights[inside] == pytest.approx(1 / p[inside], rel=1e-4)
    assert np.abs(drawn / n - p).max() < 5 * np.sqrt(0.25 / n)


def test_the_sampled_loss_has_the_same_gradients_on_average():
    y, scores = np.array([0.0, 1.0] * 50), np.linspace(-2, 2, 100)[None, :]
    sampled, full = SampledLogistic(0.3, 0.1, seed=1), Logistic().gradients(y, scores)
    draws = [sampled.gradients(y, scores) for _ in range(2000)]
    for which in (0, 1):
        values = np.array([draw[which][0] for draw in draws])
        error = values.std(axis=0) / np.sqrt(len(draws))
        assert (np.abs(values.mean(axis=0) - full[which][0]) < 5 * error + 1e-9).all()
    assert (draws[0][0] == 0).mean() > 0.5


@pytest.mark.large
def test_theorem_1_predicts_what_many_draws_measure(monkeypatch):
    # it is of first order: on few rows the squares of deviations count as well
    info = SetInfo("", lambda folder: synthetic(20_000), trees=1, learning_rate=0.1, tree=TREE)
    monkeypatch.setitem(SETS, "more rows", info)
    cell = {
        "set": "more rows",
        "iteration": 1,
        "depth": 0,
        "rate": 0.3,
        "draws": 60,
        "learning_rate": 0.1,
        "tree": TREE,
        "seed": 0,
    }
    results = judge_samplers(cell)
    assert tuple(results) == SAMPLERS
    for name in ("SGB", "importance sampling", "MVS"):
        assert results[name]["measured"] == pytest.approx(results[name]["predicted"], rel=0.2)
    assert results["MVS"]["predicted"] < results["SGB"]["predicted"]
    assert results["MVS"]["measured"] < results["SGB"]["measured"]
    assert 0 < results["MVS"]["exact"] <= results["MVS"]["hits"] <= 1
    deeper = judge_samplers({**cell, "depth": 2, "draws": 20})
    assert deeper["MVS"]["hits"] < 1


def test_all_rows_have_no_deviation(gradients):
    g, h = gradients
    bins = (np.arange(400)[:, None] % 7).astype(np.uint8)
    assert predicted_deviation(bins, g, h, np.ones(400)) == pytest.approx(0.0)
    total = g.sum() ** 2 / h.sum()
    assert split_scores(bins, g, h)[0, 6:] == pytest.approx(total)
    weights = mvs_weights(g, h, 1.0, 0.1, np.uint64(3))
    assert (weights == 1.0).all()


@pytest.mark.usefixtures("few")
def test_a_sample_for_each_level_learns_too():
    cell = {
        "set": "few rows",
        "fold": 0,
        "folds": 5,
        "lam": 0.1,
        "depth": 3,
        "trees": 15,
        "learning_rate": 0.3,
        "l2": 1.0,
        "seed": 0,
    }
    full = boost_by_levels({**cell, "rate": 1.0, "fresh": False})
    assert full == boost_by_levels({**cell, "rate": 1.0, "fresh": True})
    once, fresh = (boost_by_levels({**cell, "rate": 0.5, "fresh": f}) for f in (False, True))
    assert once != fresh
    for result in (full, once, fresh):
        assert result["error"] < 0.35
        assert 1 <= result["trees"] <= 15


@pytest.mark.large
@pytest.mark.usefixtures("few")
def test_a_race_times_everybody_and_stopping_ends_early():
    fast, slow = _cell(trees=2), _cell(trees=60, stages=True)
    result = race({"contenders": {"fast": fast, "slow": slow}, "rounds": 3, "slice": 0.1})
    assert set(result["seconds"]) == {"fast", "slow"}
    assert min(result["seconds"].values()) > 0
    (stages,) = result["stages"].values()  # of the one that asked for them
    assert {"compute_gradients", "grow_whole_tree", "apply_tree"} <= set(stages)
    assert 0 < stages["grow_whole_tree"] < result["seconds"]["slow"]
    assert "stages" not in race({"contenders": {"fast": fast}, "rounds": 1, "slice": 0.1})
    stopped = fit_and_judge(_cell(trees=4000, patience=3, learning_rate=0.5, fold=0, folds=5))
    assert 1 <= stopped["trees"] < 400
    assert "trees" not in fit_and_judge(_cell(trees=2))


@pytest.mark.large
@pytest.mark.usefixtures("few")
def test_fits_that_take_turns_are_those_that_run_one_after_another():
    pytest.importorskip("lightgbm")
    theirs = {"engine": "lightgbm", "view": "counters", **setting({"name": "none"}, "all")}
    contenders = {
        "ours": _cell(trees=12, stages=True),
        "more": _cell(trees=30),
        "two threads": _cell(trees=20, threads=2),
        "theirs": _cell(trees=12, **theirs),
    }
    alone = {name: fit_and_judge(cell)["error"] for name, cell in contenders.items()}
    in_turn = race({"contenders": contenders, "rounds": 1, "slice": 0.0})
    assert in_turn["errors"] == alone
    assert min(in_turn["seconds"].values()) > 0
    assert 0 < in_turn["stages"]["ours"]["compute_gradients"] < in_turn["seconds"]["ours"]


@pytest.mark.large
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("engine", ENGINES)
def test_errors_on_the_way_are_those_of_fewer_trees(engine):
    if engine != "mvsboost":
        pytest.importorskip(engine)
    without = setting({"name": "none"}, "all")
    how = {"engine": engine, "view": "counters", "trees": 12, **without}
    result = fit_and_judge(_cell(course=4, **how))
    fewer = [fit_and_judge(_cell(**{**how, "trees": n}))["error"] for n in (3, 6, 9, 12)]
    assert result["errors"] == pytest.approx(fewer)
    assert result["errors"][-1] == result["error"]
    assert len(set(fewer)) > 1


@pytest.mark.large
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "changes",
    [
        setting({"name": "variant", "variant": "catboost", "rate": 0.5}, "all"),
        setting({"name": "systematic", "rate": 0.5, "lam": "leaf", "ordered": True}, "all"),
        {"second_look": 2, "decider": [0.5, 0.1]},
        {
            "engine": "catboost",
            "view": "counters",
            "sampler": {"name": "mvs", "rate": 0.5, "lam": OWN},
        },
        {
            "engine": "xgboost",
            "view": "counters",
            "sampler": {"name": "mvs", "rate": 0.5, "lam": OWN},
        },
        {"engine": "lightgbm", "view": "counters", "seed": 2},
    ],
)
def test_every_kind_of_cell_learns(changes):
    if "engine" in changes:
        pytest.importorskip(changes["engine"])
    assert fit_and_judge(_cell(trees=30, **changes))["error"] < 0.35


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": "xgboost", "view": "counters"}, "its own MVS for XGBoost"),
        ({"engine": "catboost"}, "'counters' for catboost"),
        ({"engine": "h2o"}, "mvsboost, lightgbm"),
        ({"view": "sideways"}, "native"),
    ],
)
def test_cells_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ParameterError, match=message):
        fit_and_judge(_cell(**changes))
