"""The bundled data set, and the way to those outside the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mvsboost.data import CategoricalColumn, Dataset, ingest
from mvsboost.datasets import data_path, load_adult
from mvsboost.datasets._pack import pack, unpack
from mvsboost.errors import DataError


def test_adult_is_complete() -> None:
    adult = load_adult()
    assert len(adult.data) == 14
    assert {len(v) for v in adult.data.values()} == {48842}
    assert round(100 * adult.target.mean(), 2) == 23.93
    assert round(100 * adult.target[adult.part == "train"].mean(), 2) == 24.08
    assert (adult.part[:32561] == "train").all()
    assert (adult.part[32561:] == "test").all()
    missing = {k: sum(x is None for x in v) for k, v in adult.data.items() if v.dtype == object}
    assert sum(missing.values()) == 6465
    assert {k for k, n in missing.items() if n} == {"workclass", "occupation", "native_country"}
    assert (adult.data["age"][0], adult.data["workclass"][0]) == (39, "State-gov")


def test_adult_goes_straight_into_training() -> None:
    adult = load_adult()
    columns = ingest(adult.data)
    assert sum(isinstance(c, CategoricalColumn) for c in columns.columns) == 8
    data = Dataset.from_data(adult.data, adult.target, n_classes=2)
    assert data.feature_names == tuple(adult.data)


def test_adult_as_a_frame_is_the_same_table() -> None:
    pytest.importorskip("pandas")
    adult, frame = load_adult(), load_adult(as_frame=True)
    assert list(frame.columns) == [*adult.data, "part", "target"]
    np.testing.assert_array_equal(frame["target"], adult.target)
    a, b = ingest(adult.data), ingest(frame[list(adult.data)])
    for x, y in zip(a.columns, b.columns, strict=True):
        if isinstance(x, CategoricalColumn):
            np.testing.assert_array_equal(x.codes, y.codes)
        else:
            np.testing.assert_array_equal(x.values, y.values)


def test_a_frame_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(DataError, match="needs pandas"):
        load_adult(as_frame=True)


def test_what_is_packed_is_read_back(tmp_path: Path) -> None:
    columns = {
        "word": np.array(["b", None, "a"], dtype=object),
        "big": np.array([0, 70_000, 3]),
        "small": np.array([1, 2, 255]),
    }
    pack(columns, tmp_path / "t.npz")
    again = unpack(tmp_path / "t.npz")
    assert list(again) == list(columns)
    for name, values in columns.items():
        assert again[name].tolist() == values.tolist()


def test_outside_data_are_found_by_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MVSBOOST_DATA", raising=False)
    with pytest.raises(DataError, match=r"amazon\.parquet.*set MVSBOOST_DATA"):
        data_path("amazon.parquet")
    monkeypatch.setenv("MVSBOOST_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"amazon\.parquet is not in the folder .*MVSBOOST_DATA"):
        data_path("amazon.parquet")
    (tmp_path / "amazon.parquet").touch()
    assert data_path("amazon.parquet") == tmp_path / "amazon.parquet"
