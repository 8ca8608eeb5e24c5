"""The sets, prepared as published: rows, columns, splits."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from mvsboost.datasets import DATA_VARIABLE
from mvsboost.errors import DataError, ParameterError
from mvsboost.paper.sets import PAPER_SETS, Part, PreparedSet, as_texts, counted, load_set

SHAPES = {
    "adult": (39073, 9769, 14, 14),
    "amazon": (26215, 6554, 9, 9),
    "internet": (8086, 2022, 68, 68),
    "kick": (58388, 14595, 35, 43),
    "click": (31934, 8014, 11, 11),
    "ieee": (80000, 20000, 120, None),
    "sba": (80000, 20000, 21, None),
}
"""Training rows, test rows, columns, columns with counters and indicators."""


@pytest.fixture(scope="module", params=PAPER_SETS)
def prepared(request) -> PreparedSet:
    folder = Path(os.environ.get(DATA_VARIABLE, "."))
    if request.param != "adult" and not any(folder.glob("catboost_split_indices.parquet")):
        pytest.skip(f"{DATA_VARIABLE} names no folder with the paper's data")
    return load_set(request.param)


def test_rows_and_columns_are_those_of_the_protocol(prepared):
    n_train, n_test, n_columns, n_counted = SHAPES[prepared.name]
    assert (len(prepared.train), len(prepared.test)) == (n_train, n_test)
    assert len(prepared.train.columns) == n_columns
    for part in (prepared.train, prepared.test):
        assert set(part.target) == {0, 1}
        for name, column in part.columns.items():
            assert column.dtype == (object if name in prepared.categorical else np.float64)
    rates = prepared.train.target.mean(), prepared.test.target.mean()
    assert abs(rates[0] - rates[1]) < 0.01
    if n_counted is not None:
        train, test = counted(prepared.train, prepared.test, prepared.categorical)
        assert train.shape == (n_train, n_counted)
        assert test.shape == (n_test, n_counted)
        assert np.isfinite(train).all()


def test_counters_replace_categories_and_indicators_say_what_was_missing():
    train = Part(
        {"kind": np.array(["a", "b", "a"], object), "x": np.array([1.0, np.nan, 3.0])},
        np.array([1, 0, 1]),
    )
    test = Part({"kind": np.array(["a"], object), "x": np.array([np.nan])}, np.array([0]))
    learned, judged = counted(train, test, ("kind",))
    assert learned[:, 1:].tolist() == [[1.0, 0.0], [0.0, 1.0], [3.0, 0.0]]
    assert judged.tolist() == [[0.75, 0.0, 1.0]]


def test_numbers_as_categories_keep_their_digits():
    assert as_texts(np.array([1, 20])).tolist() == ["1", "20"]
    assert as_texts(np.array([0.1, np.nan])).tolist() == ["0.10000000000000001", None]
    assert as_texts(np.array(["x", None], object)).tolist() == ["x", None]


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(ParameterError, match="adult, amazon"):
        load_set("iris")
    with pytest.raises(DataError, match=r"amazon\.parquet is not in the folder"):
        load_set("amazon", tmp_path)
