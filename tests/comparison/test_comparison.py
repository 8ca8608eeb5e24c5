"""Samplers compared on a table: the fits, the answer, and what is kept."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from mvsboost import MVSClassifier, MVSRegressor, compare
from mvsboost import comparison as module
from mvsboost.comparison.plan import ALL_ROWS, Setting, check_rates, seconds_of, settings_of
from mvsboost.comparison.statistics import changes_of, verdict_of
from mvsboost.comparison.tasks import folds_of, task_of
from mvsboost.errors import DataError, ParameterError, UnknownParameterError
from mvsboost.sampling import make_sampler

SMALL = {"rates": [0.3], "folds": 2, "n_estimators": 6, "progress": False}


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"x": rng.normal(size=n), "c": rng.choice(["a", "b", "c"], n)})
    return X, X["x"] + (X["c"] == "a") + 0.4 * rng.normal(size=n)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    X, y = table()
    return compare(X, y > 0.4, out=tmp_path_factory.mktemp("out"), **SMALL)


# --- end to end -----------------------------------------------------------------------------------


def test_every_setting_is_fitted_on_every_fold(found):
    assert len(found.store.fits) == 5 * 2
    assert [change.setting for change in found.changes] == settings_of([0.3])
    assert all(change.folds == 2 for change in found.changes)
    base = found.changes[0]
    assert (base.change, base.spread, base.speed) == (0.0, 0.0, 1.0)


def test_the_estimator_and_its_code_are_the_same(found):
    names = {}
    exec(found.code, names)
    assert isinstance(names["model"], MVSClassifier)
    expected, model = found.estimator.get_params(), names["model"].get_params()
    model["sampler"] = make_sampler(model["sampler"])
    assert repr(model) == repr({**expected, "second_look": model["second_look"]})
    X, y = table()
    assert found.estimator.fit(X, y > 0.4).score(X, y > 0.4) > 0.7


def test_numbers_and_several_classes():
    X, y = table()
    numbers = compare(X, y, **SMALL)
    assert numbers.task.error_name == "RMSE"
    assert isinstance(numbers.estimator, MVSRegressor)
    classes = compare(X, np.digitize(y, [0.0, 1.0]), **SMALL)
    assert classes.task.measure == "log loss"
    weighted = compare(X, y, sample_weight=np.linspace(0.5, 2, len(y)), **SMALL)
    assert weighted.changes[0].error != numbers.changes[0].error


def test_what_was_done_is_not_done_again(found, tmp_path, monkeypatch):
    X, y = table()
    first = compare(X, y, out=tmp_path, **SMALL)
    lines = (tmp_path / "fits.jsonl").read_text().splitlines()
    # as if the run had been killed while it wrote the eighth line
    (tmp_path / "fits.jsonl").write_text("\n".join(lines[:7]) + "\n" + lines[7][:20])
    done = []
    fit = module.fit_on_fold
    monkeypatch.setattr(module, "fit_on_fold", lambda *a: done.append(a[1:3]) or fit(*a))
    again = compare(X, y, out=tmp_path, **SMALL)
    assert len(done) == 3
    assert {(f.setting, f.fold, f.error) for f in again.store.fits} == {
        (f.setting, f.fold, f.error) for f in first.store.fits
    }
    for line in (tmp_path / "fits.jsonl").read_text().splitlines():
        assert line == lines[7][:20] or json.loads(line)
    compare(X, y + 1.0, out=tmp_path, **SMALL)
    assert len(done) == 3 + 10  # other data, other fits


def test_a_run_is_known_in_another_process(tmp_path):
    code = (
        "import numpy as np\n"
        "from mvsboost import compare\n"
        "x = np.arange(80.0)\n"
        "found = compare(x[:, None], x % 7, rates=[0.5], folds=2, n_estimators=2,\n"
        f"    progress=False, task='regression', out={str(tmp_path)!r})\n"
        "print(len(found.store.fits))"
    )
    exec(code, {})
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["10"]
    assert len((tmp_path / "fits.jsonl").read_text().splitlines()) == 10


def test_a_budget_takes_what_is_of_most_use_first():
    X, y = table()
    least = compare(X, y, **{**SMALL, "folds": 3}, budget=1e-6)
    assert [(fit.setting, fit.fold) for fit in least.store.fits] == [(ALL_ROWS, 0)]
    assert least.sentence.startswith("All rows")
    assert "n_estimators=" in least.code


@pytest.mark.parametrize("installed", [True, False])
def test_the_display(installed, monkeypatch, capsys):
    if not installed:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    X, y = table(100)
    compare(X, y, **{**SMALL, "progress": True})
    shown = capsys.readouterr().err
    assert "10/10 fits" in shown if installed else "9/10 fits" in shown
    assert "fold 2, GOSS at 0.3" in shown
    assert " s left" in shown


def test_parameters_of_the_estimator():
    X, y = table()
    found = compare(X, y, learning_rate=0.3, categorical_features=["c"], **SMALL)
    assert found.estimator.learning_rate == 0.3
    assert "learning_rate=0.3, categorical_features=['c']" in found.code
    with pytest.raises(UnknownParameterError, match="'num_leaves' is called 'max_leaves' here"):
        compare(X, y, num_leaves=3, **SMALL)


@pytest.mark.parametrize(
    ("library", "module_name"),
    [("LightGBM", "lightgbm"), ("XGBoost", "xgboost"), ("CatBoost", "catboost")],
)
def test_other_libraries_beside(library, module_name):
    pytest.importorskip(module_name)
    X, y = table(200)
    weight = np.linspace(0.5, 2.0, 200)
    for target, w in ((y, None), (y > 0.4, weight), (np.digitize(y, [0.0, 1.0]), None)):
        found = compare(X, target, sample_weight=w, peers=[library], **SMALL)
        assert found.changes[-1].setting == Setting(library, 1.0)
        assert found.changes[-1].error < 1.5
        assert found.verdict.setting.method != library


def test_the_text_and_the_table(found):
    text = str(found)
    assert "MVS, second look at 0.3" in text
    assert found.sentence in text
    frame = found.to_dataframe()
    assert frame["setting"].iloc[0] == "all rows"
    assert frame.shape == (5, 10)


@pytest.mark.parametrize("library", [None, "LightGBM", "XGBoost", "CatBoost"])
def test_rows_that_weigh_nothing_are_not_there(library):
    """Neither in learning, nor in stopping, nor in judging."""
    X, y = table(600)
    wrong = np.arange(600) % 3 == 0
    target = np.where(wrong, -5.0 * y, y)
    peers = [] if library is None else [library]
    if library is not None:
        pytest.importorskip(library.lower())
    options = {**SMALL, "n_estimators": 40, "peers": peers}
    heavy, light = (
        compare(X, target, sample_weight=w, **options).changes[-1 if peers else 0].error
        for w in (None, np.where(wrong, 0.0, 1.0))
    )
    assert light < 0.5 * heavy
    assert light < 0.8


def test_labels_that_are_missing_are_named():
    X, _ = table(60)
    with pytest.raises(DataError, match="missing label: row 1 holds None"):
        compare(X, np.array(["a", None, "b"] * 20, object), **SMALL)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"folds": 1}, "folds must be an integer >= 2"),
        ({"rates": []}, "rates must be at least one number"),
        ({"rates": [1.0]}, r"rates must be numbers in \(0, 1\)"),
        ({"budget": "soon"}, "budget must be a time"),
        ({"task": "magic"}, "task must be 'auto'"),
        ({"peers": ["magic"]}, "peers must be one of 'LightGBM'"),
        ({"folds": 200}, "every class needs at least 400 rows"),
    ],
)
def test_bad_arguments(given, message, tmp_path):
    X, y = table(60)
    with pytest.raises((ParameterError, DataError), match=message):
        compare(X, y > 0.4, **{**SMALL, **given})


# --- parts ----------------------------------------------------------------------------------------


def test_order_of_use():
    names = [setting.name for setting in settings_of([0.5, 0.1, 0.3], ["XGBoost"])]
    assert names[:4] == ["all rows", "MVS at 0.3", "MVS at 0.5", "MVS at 0.1"]
    assert names[-1] == "XGBoost"
    assert len(names) == 1 + 4 * 3 + 1


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("2h", 7200), ("1.5 min", 90), (7, 7)])
def test_times(text, seconds):
    assert seconds_of(text) == seconds
    assert seconds_of(None) == math.inf


@pytest.mark.parametrize("text", ["", "-1s", "3 weeks", "1.2.3", 0])
def test_what_is_no_time(text):
    with pytest.raises(ParameterError, match="budget"):
        seconds_of(text)


def test_rates_once_and_ascending():
    assert check_rates([0.5, 0.1, 0.5]) == (0.1, 0.5)


@pytest.mark.parametrize(
    ("y", "name"),
    [
        ([0, 1, 1], "two classes"),
        ([True, False], "two classes"),
        (["a", "b", "c"], "classes"),
        ([1.0, 2.0, 3.0], "classes"),
        ([0.5, 1.0], "numbers"),
        (range(30), "numbers"),
    ],
)
def test_what_a_target_asks_for(y, name):
    assert task_of(list(y))[0].name == name
    assert task_of(list(y), "regression")[0].name == "numbers" if name != "classes" else True


def test_a_target_of_one_value():
    with pytest.raises(DataError, match=r"at least two classes, it holds \['a'\]"):
        task_of(["a", "a"])


def test_folds_share_no_row():
    task, y, _ = task_of(np.arange(200) % 2)
    parts = list(folds_of(task, y, 4, 0))
    judged = np.concatenate([part[2] for part in parts])
    assert sorted(judged) == list(range(200))
    for training, held, own in parts:
        assert len({*training, *held, *own}) == 200
        assert len(held) == pytest.approx(150 / 8, abs=1)


def fits(**errors):
    """By setting and fold, with seconds that are those of the rate."""
    settings = {"none": ALL_ROWS, "mvs": Setting("MVS", 0.25), "sgb": Setting("SGB", 0.5)}
    return {
        settings[name]: {
            fold: {"error": error, "seconds": settings[name].rate, "trees": 10, "rows": 5}
            for fold, error in enumerate(values)
        }
        for name, values in errors.items()
    }


def verdict(**errors):
    return verdict_of(changes_of(fits(**errors)), "AUC")


def test_changes_are_paired():
    (base, change) = changes_of(fits(none=[0.1, 0.3, 0.2], mvs=[0.11, 0.31, 0.21]))
    assert change.change == pytest.approx(5.0)
    assert change.spread == pytest.approx(0.0, abs=1e-9)
    assert change.speed == pytest.approx(4.0)
    assert base.change == 0.0


def test_only_folds_of_both_count():
    _, change = changes_of(fits(none=[0.1], mvs=[0.2, 0.3]))
    assert (change.folds, change.change) == (1, pytest.approx(100.0))
    assert math.isinf(change.spread)


def test_the_fastest_that_keeps_the_error():
    found = verdict(none=[0.1, 0.2, 0.3], mvs=[0.101, 0.198, 0.301], sgb=[0.1, 0.2, 0.3])
    assert found.setting.method == "MVS"
    assert found.sentence == "MVS at 0.25: the AUC of all rows within its error, 4.0 × faster."


def test_less_error_is_said():
    found = verdict(none=[0.1, 0.2, 0.3], mvs=[0.09, 0.19, 0.29])
    assert found.sentence == "MVS at 0.25: 5.0% less error than all rows, 4.0 × faster."


def test_every_sample_costs():
    found = verdict(none=[0.1, 0.2, 0.3], mvs=[0.2, 0.3, 0.4])
    assert found.setting == ALL_ROWS
    assert "every sample costs AUC" in found.sentence


def test_nothing_that_these_data_can_tell():
    changes = changes_of(fits(none=[0.1, 0.2, 0.3], mvs=[0.11, 0.19, 0.3]))
    slow = [changes[0], changes[1].__class__(**{**vars(changes[1]), "speed": 1.0})]
    found = verdict_of(slow, "AUC")
    assert found.setting == ALL_ROWS
    assert "no difference of AUC that these data can tell" in found.sentence


def test_one_fold_says_nothing():
    assert "one fold" in verdict(none=[0.1], mvs=[0.05]).sentence
    assert "nothing was compared" in verdict(none=[0.1]).sentence
