"""Tables in Parquet files give the data set, and the model, of the table in memory."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from mvsboost import MVS, Dataset, TrainConfig, train
from mvsboost.errors import DataError, ParameterError
from mvsboost.objectives import Logistic, Softmax

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def table(n=900, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.1, np.nan, x),
            "single": rng.normal(size=n).astype(np.float32),
            "whole": rng.integers(0, 9, n),
            "flag": rng.random(n) < 0.5,
            "kind": rng.choice(["a", "b", "c"], n),
            "dictionary": pd.Categorical(rng.choice(["p", "q"], n)),
            "town": [f"t{k}" for k in rng.integers(0, 70, n)],
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 9999, n), "s"),
        }
    )
    frame.loc[::7, "kind"] = None
    frame["y"] = (x + (frame["kind"] == "a") > 0.3).astype(int) + (x > 1.0)
    frame["w"] = rng.integers(1, 4, n).astype(float)
    return frame


def files(frame, folder, parts):
    """The table in several files of several row groups."""
    ends = np.linspace(0, len(frame), parts + 1).astype(int)
    for k in range(parts):
        part = pa.Table.from_pandas(frame.iloc[ends[k] : ends[k + 1]], preserve_index=False)
        pq.write_table(part, folder / f"part-{k:02}.parquet", row_group_size=100)
    return folder


def model_of(data, objective):
    config = TrainConfig(objective, MVS(0.5), n_estimators=5)
    return json.dumps(train(data, config).model.to_dict())


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("options", [{}, {"max_bins": 16, "sample_rows": 200, "seed": 3}], ids=str)
def test_the_model_is_that_of_the_table(parts, n_classes, options, tmp_path):
    frame = table()
    frame["y"] = np.minimum(frame["y"], n_classes - 1)
    options = {"n_classes": n_classes, **options}
    X = frame.drop(columns=["y", "w"])
    expected = Dataset.from_data(X, frame["y"], weight=frame["w"], **options)
    data = Dataset.from_parquet(files(frame, tmp_path, parts), "y", weight="w", **options)
    assert data.schema == expected.schema
    assert data.mapper.to_dict() == expected.mapper.to_dict()
    assert np.array_equal(data.rows.bins, expected.rows.bins)
    objective = Logistic() if n_classes == 2 else Softmax(3)
    assert model_of(data, objective) == model_of(expected, objective)


@pytest.mark.parametrize("chosen", [["whole", "kind", "dictionary", "town"], [2, 4, 5, 6]])
def test_chosen_categories(chosen, tmp_path):
    frame = table()
    options = {"categorical_features": chosen}
    expected = Dataset.from_data(frame.drop(columns=["y", "w"]), frame["y"], **options)
    folder = files(frame.drop(columns="w"), tmp_path, 2)
    data = Dataset.from_parquet(folder, "y", **options)
    assert data.schema == expected.schema
    assert np.array_equal(data.rows.bins, expected.rows.bins)


def test_files_patterns_and_lists(tmp_path):
    frame = table(60)
    folder = files(frame, tmp_path, 3)
    several = sorted(folder.glob("*.parquet"))
    for source in (folder, str(folder / "part-*.parquet"), several, [str(one) for one in several]):
        assert Dataset.from_parquet(source, "y", weight="w").n_rows == 60
    assert Dataset.from_parquet(several[0], "y", weight="w").n_rows == 20


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"target": "z"}, ParameterError, "target must be a column of the files: x, single"),
        ({"target": "y", "weight": "z"}, ParameterError, "weight must be a column of the files"),
        ({"target": "kind"}, DataError, "y must hold numbers"),
        (
            {"target": "y", "categorical_features": ["z"]},
            ParameterError,
            "categorical_features must be one of",
        ),
        ({"target": "y", "categorical_features": None}, DataError, "'kind' holds text"),
    ],
)
def test_what_cannot_be_read(options, error, message, tmp_path):
    with pytest.raises(error, match=message):
        Dataset.from_parquet(files(table(60), tmp_path, 1), **options)


def test_files_that_are_no_table(tmp_path):
    with pytest.raises(DataError, match="there is no Parquet file"):
        Dataset.from_parquet(tmp_path / "none.parquet", "y")
    frame = table(40)
    files(frame, tmp_path, 1)
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "part-99.parquet")
    with pytest.raises(DataError, match="files of a table have the same ones"):
        Dataset.from_parquet(tmp_path, "y")
    pq.write_table(pa.table({"y": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    with pytest.raises(DataError, match="has no rows"):
        Dataset.from_parquet(tmp_path / "empty.parquet", "y")
