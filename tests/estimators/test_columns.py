"""What a column holds is what the model learns from, also after a file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mvsboost import MVSClassifier, MVSRegressor
from mvsboost.errors import SchemaError
from mvsboost.model import Model

N = 240
ROWS = np.arange(N)


def regressor(**parameters):
    settings = {"n_estimators": 5, "min_samples_leaf": 1, "learning_rate": 0.5, "n_jobs": 1}
    return MVSRegressor(**{**settings, **parameters})


def after_a_file(fitted, path):
    fitted.model_.save(path)
    return Model.load(path)


@pytest.mark.parametrize("start", [0, 2**60, 2**64 - 4])
def test_integers_of_any_size_are_categories(start, tmp_path):
    values = np.array([start + k for k in range(4)], np.uint64)[ROWS % 4]
    y = np.array([0.0, 5.0, 1.0, 9.0])[ROWS % 4]
    fitted = regressor(categorical_features=[0]).fit(values[:, None], y)
    predicted = fitted.predict(values[:, None])
    assert np.abs(predicted - y).max() < 1.0
    loaded = after_a_file(fitted, tmp_path / "model.json")
    assert np.array_equal(loaded.predict(values[:, None]), predicted)
    assert np.array_equal(loaded.predict({"f0": values.tolist()}), predicted)


def test_infinity_as_a_category_survives_a_file(tmp_path):
    values = np.array([np.inf, -np.inf, 0.5])[ROWS % 3]
    y = np.array([0.0, 5.0, 1.0])[ROWS % 3]
    frame = pd.DataFrame({"x": values}).astype("category")
    fitted = regressor().fit(frame, y)
    predicted = fitted.predict(frame)
    assert np.abs(predicted - y).max() < 0.5
    loaded = after_a_file(fitted, tmp_path / "model.json")
    assert np.array_equal(loaded.predict(frame), predicted)
    assert np.array_equal(loaded.predict({"x": values}), predicted)


@pytest.mark.parametrize(("then", "now"), [("f4", "f8"), ("f8", "f4"), ("f2", "f8")])
def test_the_width_of_a_category_does_not_matter(then, now):
    values, y = np.array([0.1, 0.7, 0.3])[ROWS % 3][:, None], np.array([0.0, 5.0, 1.0])[ROWS % 3]
    fitted = regressor(categorical_features=[0]).fit(values.astype(then), y)
    predicted = fitted.predict(values.astype(then))
    assert len(set(predicted)) == 3
    assert np.array_equal(fitted.predict(values.astype(now)), predicted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinity_is_the_largest_number(dtype, tmp_path):
    values = np.array([1.0, 2.0, np.inf, -np.inf, np.nan], dtype)[ROWS % 5][:, None]
    y = np.array([1.0, 2.0, 9.0, -4.0, 5.0])[ROWS % 5]
    fitted = regressor(n_estimators=20).fit(values, y, eval_set=[(values, y)])
    predicted = fitted.predict(values)
    assert np.abs(predicted - y).max() < 0.1
    loaded = after_a_file(fitted, tmp_path / "model.json")
    assert np.array_equal(loaded.predict(values), predicted)


def test_infinities_only():
    assert MVSClassifier(n_estimators=2).fit(np.full((20, 1), np.inf), ROWS[:20] % 2).n_iter_ >= 1


def test_times_are_asked_for_again(tmp_path):
    days = pd.Series(pd.date_range("2024-01-01", periods=N, freq="h"))
    frame = pd.DataFrame({"when": days, "x": ROWS / 7})
    fitted = regressor().fit(frame, 1.0 * ROWS)
    predicted = fitted.predict(frame)
    loaded = after_a_file(fitted, tmp_path / "model.json")
    for same in (days.astype("M8[s]"), days.astype(object), days.dt.as_unit("ms")):
        assert np.array_equal(loaded.predict(frame.assign(when=same)), predicted)
    seconds, zoned = days.astype("M8[s]").astype("int64"), days.dt.tz_localize("Europe/Oslo")
    for other in (seconds, zoned):
        wrong = frame.assign(when=other)
        for predict in (fitted.predict, loaded.predict):
            with pytest.raises(SchemaError, match="Column 'when' held times without a time zone"):
                predict(wrong)
        with pytest.raises(SchemaError, match=r"eval_set\[0\]: Column 'when' held"):
            regressor().fit(frame, 1.0 * ROWS, eval_set=[(wrong, 1.0 * ROWS)])
        with pytest.raises(SchemaError, match="Column 'when' held"):
            regressor().fit(wrong, 1.0 * ROWS, init_model=fitted)
    assert np.isfinite(loaded.predict(frame.assign(when=pd.NaT))).all()
