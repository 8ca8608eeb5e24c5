"""Publishers' own files, in small: the same formats, a few rows."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from mvsboost.errors import DataError
from research.sets import load_set
from research.sets.counters import count_categories

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def indices(tmp_path):
    """Write an index file: ``indices(churn={"train": [0, 1], "test": [2]})``."""

    def write(**sets):
        rows = [
            (name, part, position, row)
            for name, parts in sets.items()
            for part, numbers in parts.items()
            for position, row in enumerate(numbers)
        ]
        names = ("dataset", "part", "position", "row_index")
        table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
        pq.write_table(table, tmp_path / "catboost_split_indices.parquet")

    return write


@pytest.mark.parametrize("name", ["churn", "upselling"])
def test_orange(tmp_path, indices, name):
    header = "\t".join(f"Var{i}" for i in range(1, 231))
    lines = [header]
    for row in range(4):
        fields = [""] * 230
        fields[0], fields[190] = str(row), ["a", "1.50", "1.5", ""][row]
        lines.append("\t".join(fields))
    (tmp_path / "orange_small_train.data").write_text("\n".join(lines) + "\n")
    labels = tmp_path / f"orange_small_train_{name}.labels"
    labels.write_text("-1\n1\n-1\n1\n")
    indices(**{name: {"train": [3, 0, 2], "test": [1]}})
    data = load_set(name, tmp_path)
    assert len(data.train.columns) == 230
    assert len(data.categorical) == 38
    assert data.train.columns["Var1"].tolist() == [3.0, 0.0, 2.0]
    assert data.train.columns["Var191"].tolist() == [None, "a", "1.5"]
    assert data.test.columns["Var191"].tolist() == ["1.5"]
    assert np.isnan(data.train.columns["Var230"]).all()
    assert data.train.target.tolist() == [1, 0, 0]
    labels.write_text("-1\n1\n")
    with pytest.raises(DataError, match="has 2 lines"):
        load_set(name, tmp_path)


def test_click_takes_the_lines_that_are_wanted_some_of_them_twice(tmp_path, indices):
    lines = [
        "\t".join([str(n % 3), "1", "42", *(str(10 * n + k) for k in range(9))]) for n in range(9)
    ]
    (tmp_path / "training.txt").write_text("\n".join(lines) + "\n")
    indices(click={"subsampling": [5, 2, 5, 0], "train": [1, 0, 2], "test": [3]})
    data = load_set("whole click", tmp_path)
    assert data.train.columns["ad_id"].tolist() == ["20", "50", "50"]
    assert data.train.columns["depth"].tolist() == [22.0, 52.0, 52.0]
    assert data.train.target.tolist() == [1, 1, 1]
    assert data.test.target.tolist() == [0]
    assert "ad_id" in data.categorical
    assert "depth" not in data.categorical
    indices(click={"subsampling": [100], "train": [0], "test": [0]})
    with pytest.raises(DataError, match="ends before line 101"):
        load_set("whole click", tmp_path)


@pytest.mark.parametrize("file", ["HIGGS.csv", "HIGGS.csv.gz"])
def test_higgs(tmp_path, file):
    lines = [
        ",".join([f"{n % 2:.1e}", *(f"{n + k / 100:.4e}" for k in range(28))]) for n in range(30)
    ]
    text = "\n".join(lines).encode() + b"\n"
    (tmp_path / file).write_bytes(gzip.compress(text) if file.endswith("gz") else text)
    data = load_set("higgs", tmp_path)
    assert (len(data.train), len(data.test)) == (27, 3)
    assert data.train.columns["x28"][1] == pytest.approx(1.27)
    assert data.test.target.tolist() == [1, 0, 1]


def test_recsys_asks_whether_an_item_was_bought(tmp_path):
    clicks = [
        "1,2014-04-07T10:51:09.277Z,214536502,0",
        "1,2014-04-07T10:54:09.868Z,214536500,S",
        "1,2014-04-07T10:57:00.306Z,214536502,0",
        "12,2014-04-08T00:00:00.000Z,214536500,3",
        "13,2014-04-08T23:00:00.000Z,214536500,3",
    ]
    buys = [
        "1,2014-04-07T11:00:00.000Z,214536500,12462,1",
        "13,2014-04-08T23:30:00.000Z,214536500,1,1",
    ]
    (tmp_path / "yoochoose-clicks.dat").write_text("\n".join(clicks) + "\n")
    (tmp_path / "yoochoose-buys.dat").write_text("\n".join(buys) + "\n")
    data = load_set("recsys", tmp_path)
    assert data.test.target.tolist() == [1, 0]  # session 1: items ...500, ...502
    assert data.train.target.tolist() == [0, 1]
    columns = data.test.columns
    assert columns["clicks"].tolist() == [1.0, 2.0]
    assert columns["session_clicks"].tolist() == [3.0, 3.0]
    assert columns["session_items"].tolist() == [2.0, 2.0]
    assert columns["between"] == pytest.approx([0.0, 351.029])
    assert columns["hour"].tolist() == [10.0, 10.0]
    assert columns["item_clicks"].tolist() == [3.0, 2.0]
    assert columns["category"].tolist() == ["S", "0"]
    assert columns["weekday"].tolist() == [4.0, 4.0]  # from Thursday on, a Monday
    assert len(count_categories(data.train.columns["category"], data.train.target)) == 1


def test_files_that_are_not_there_are_named(tmp_path):
    for name, file in {
        "churn": "orange_small_train.data",
        "higgs": "HIGGS.csv.gz",
        "recsys": "yoochoose-clicks.dat",
        "whole click": "catboost_split_indices.parquet",
    }.items():
        with pytest.raises(DataError, match=file):
            load_set(name, tmp_path)
