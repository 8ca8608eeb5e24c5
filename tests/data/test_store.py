"""Rows in a store on disk give the model of the table in memory; a damaged store is made anew."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mvsboost import MVS, Dataset, MVSClassifier, MVSRegressor, TrainConfig, train
from mvsboost.backends.cpu import backend as cpu
from mvsboost.data.store import StoreWriter, bytes_of
from mvsboost.errors import DataError, ParameterError, StoreError
from mvsboost.objectives import Absolute, Squared

tables = pytest.importorskip("tests.data.tables")  # needs pyarrow
files, table = tables.files, tables.table


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of rows that a table of tests has several of."""
    monkeypatch.setattr(cpu, "_AT_ONCE", 128)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "table").mkdir()
    return files(table(), tmp_path / "table", 3)


def text_of(estimator):
    return json.dumps(estimator.model_.to_dict())


def stored(source, folder, **options):
    return Dataset.from_parquet(source, "y", weight="w", store=folder, **options)


@pytest.mark.parametrize("limit", [None, "1GB"])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"sampler": MVS(rate=0.1)},
        {"sampler": "none"},
        {"sampler": "goss", "max_depth": 3},
        {"sampler": MVS(rate=0.2), "second_look": 2},
        {"order": 1},
        {"leaf_values": "sample", "n_jobs": 2},
        {"colsample": 0.5, "device": "reference"},
    ],
    ids=str,
)
def test_the_model_is_that_of_the_table(limit, parameters, source, tmp_path):
    frame = table()
    X, y, w = frame.drop(columns=["y", "w"]), frame["y"], frame["w"]
    data = stored(source, tmp_path / "store", labels=True, memory_limit=limit)
    made = MVSClassifier(n_estimators=5, **parameters)
    expected = text_of(made.fit(X, y, w))
    predictions = made.predict(X)
    assert text_of(made.fit(data)) == expected
    assert (made.predict(X) == predictions).all()


@pytest.mark.parametrize("objective", [Squared(), Absolute()], ids=lambda one: one.name)
def test_numbers_without_weights(objective, source, tmp_path):
    frame = table()
    config = TrainConfig(objective, MVS(0.3), n_estimators=4, order=2)
    expected = train(Dataset.from_data(frame.drop(columns="y"), frame["y"]), config)
    data = Dataset.from_parquet(source, "y", store=tmp_path / "store")
    assert train(data, config).model.to_dict() == expected.model.to_dict()


def test_labels_of_text_and_rows_to_evaluate_on(source, tmp_path):
    frame = table()
    X, y = frame.drop(columns=["dictionary", "w"]), frame["dictionary"].astype(object)
    options = {"labels": True, "categorical_features": ["kind", "town"]}
    without_w = tmp_path / "without"
    without_w.mkdir()
    files(frame.drop(columns="w"), without_w, 2)
    data = Dataset.from_parquet(without_w, "dictionary", store=tmp_path / "one", **options)
    assert data.classes.tolist() == ["p", "q"]
    like = Dataset.from_parquet(without_w, "dictionary", like=data, store=tmp_path / "two")
    made = MVSClassifier(n_estimators=5, categorical_features=["kind", "town"])
    made.fit(data, eval_set=[like, (X, y)])
    assert made.evals_result_["eval_0"] == made.evals_result_["eval_1"]
    local = MVSClassifier(n_estimators=5, categorical_features=["kind", "town"])
    local.fit(X, y, eval_set=[(X, y), (X, y)])
    assert text_of(made) == text_of(local)
    assert made.feature_names_in_.tolist() == list(X.columns)


def test_resume_and_continue(source, tmp_path):
    data = stored(source, tmp_path / "store")
    frame = table()
    checkpoint = tmp_path / "checkpoint.json"
    MVSRegressor(n_estimators=3).fit(data, resume=checkpoint)
    again = Dataset.open(tmp_path / "store", memory_limit="100MB")
    resumed = MVSRegressor(n_estimators=6).fit(again, resume=checkpoint)
    X, y, w = frame.drop(columns=["y", "w"]), frame["y"], frame["w"]
    assert text_of(resumed) == text_of(MVSRegressor(n_estimators=6).fit(X, y, w))
    first = MVSRegressor(n_estimators=3).fit(X, y, w)
    assert text_of(MVSRegressor(n_estimators=3).fit(again, init_model=first)) == text_of(
        MVSRegressor(n_estimators=3).fit(X, y, w, init_model=first)
    )


# --- the folder -----------------------------------------------------------------------------------


def time_of(folder):
    return (folder / "manifest.json").stat().st_mtime_ns


def test_a_store_is_used_again(source, tmp_path):
    folder = tmp_path / "store"
    first, written = stored(source, folder), time_of(folder)
    again = stored(source, folder, memory_limit=10**9, n_threads=1)
    assert time_of(folder) == written
    assert again.fingerprint() == first.fingerprint()
    assert stored(source, folder, max_bins=16).mapper.n_bins.max() <= 16
    assert time_of(folder) > written


def test_other_files_make_another_store(source, tmp_path):
    folder = tmp_path / "store"
    stored(source, folder)
    files(table(seed=1), source, 3)
    in_memory = Dataset.from_parquet(source, "y", weight="w")
    assert stored(source, folder).fingerprint() == in_memory.fingerprint()


@pytest.mark.parametrize("name", ["rows", "columns", "target", "weight", "manifest.json"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_store_is_found_and_made_anew(name, damage, source, tmp_path):
    folder = tmp_path / "store"
    expected = stored(source, folder).fingerprint()
    file = folder / name
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    if damage == "flipped":
        content[middle] ^= 0xFF
    file.write_bytes(content if damage == "flipped" else content[:middle])
    if damage == "gone":
        file.unlink()
    with pytest.raises(StoreError, match=r"cannot be used|no store"):
        Dataset.open(folder)
    assert stored(source, folder).fingerprint() == expected
    assert Dataset.open(folder).fingerprint() == expected


PROGRAM = """
import os, signal, sys
from mvsboost import Dataset
from mvsboost.data.store import StoreWriter
append, calls = StoreWriter.append, []
def killed(self, *rows):
    calls.append(append(self, *rows))
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
StoreWriter.append = killed
Dataset.from_parquet(sys.argv[1], "y", weight="w", store=sys.argv[2])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_store_is_there_whole_or_not_at_all(source, tmp_path):
    folder = tmp_path / "store"
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(source), str(folder)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not folder.exists()
    (left,) = tmp_path.glob("store.partial-*")
    stored(source, folder)
    assert not left.exists()


def test_what_was_killed_before_its_first_file_is_removed(source, tmp_path):
    (tmp_path / "store.partial-01234567").mkdir()
    stored(source, tmp_path / "store")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["store", "table"]


def test_what_others_build_is_left_alone(source, tmp_path):
    with StoreWriter(tmp_path / "store", 5, 2) as writer:
        stored(source, tmp_path / "store")
        assert writer._partial.exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["store", "table"]


def test_a_store_in_the_place_of_another(source, tmp_path):
    folder, names = tmp_path / "store", []
    for max_bins in (16, 32, 64):
        expected = Dataset.from_parquet(source, "y", weight="w", max_bins=max_bins)
        made = stored(source, folder, max_bins=max_bins)
        assert made.fingerprint() == Dataset.open(folder).fingerprint() == expected.fingerprint()
        names.append(sorted(one.name.split(".")[0] for one in folder.iterdir()))
    assert names == [["columns", "manifest", "rows", "target", "weight"]] * 3
    # one without weights, and what a kill has left of the others
    (folder / "rows.2").write_bytes(b"x")
    Dataset.from_parquet(source, "y", store=folder)
    assert len(list(folder.iterdir())) == 4


def test_files_of_a_place_that_is_not_known(source, tmp_path):
    stored(source, tmp_path / "store")
    path = tmp_path / "store" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "slot": "/../../other"}))
    with pytest.raises(StoreError, match="cannot be used"):
        Dataset.open(tmp_path / "store")


def test_a_store_behind_a_link(source, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "store"
    link.symlink_to("elsewhere/store")
    for max_bins in (16, 32):
        made = stored(source, link, max_bins=max_bins)
        assert made.fingerprint() == Dataset.open(tmp_path / "elsewhere" / "store").fingerprint()
    assert link.is_symlink()
    assert [one.name for one in (tmp_path / "elsewhere").iterdir()] == ["store"]


def test_what_fails_leaves_nothing(source, tmp_path):
    frame = table()
    frame.loc[850, "y"] = -1
    files(frame, source, 3)
    with pytest.raises(DataError, match=r"row 50 holds -1.0 \(counted from row 800\)"):
        Dataset.from_parquet(source, "y", weight="w", n_classes=3, store=tmp_path / "store")
    assert [one.name for one in tmp_path.iterdir()] == ["table"]


def test_a_folder_of_others_is_left_alone(source, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("x")
    for _ in range(2):
        with pytest.raises(ParameterError, match="a folder that is new, empty, or a store"):
            stored(source, other)
        assert (other / "thesis.tex").exists()
        (other / "manifest.json").write_text('{"name": "an extension of a browser"}')


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_limit": "lots"}, "memory_limit must be a number of bytes"),
        ({"memory_limit": 10**6, "store": None}, "memory_limit must be given together with store"),
        ({"labels": True, "n_classes": 3}, "n_classes must be left out with labels=True"),
        ({"max_bins": 300}, "max_bins must be from 2 to 255"),
    ],
)
def test_what_cannot_be_asked(options, message, source, tmp_path):
    with pytest.raises(ParameterError, match=message):
        stored(source, **{"folder": options.pop("store", tmp_path / "store"), **options})


def test_a_limit_that_training_does_not_fit_into(source, tmp_path):
    data = stored(source, tmp_path / "store", memory_limit=10_000)
    with pytest.raises(ParameterError, match="memory_limit must be at least 31860 for 900 rows"):
        MVSRegressor().fit(data)


@pytest.mark.parametrize(
    ("parameters", "arguments", "message"),
    [
        ({}, {"y": [0, 1]}, "y must be left out with a Dataset"),
        ({}, {"sample_weight": [1, 1]}, "sample_weight must be left out with a Dataset"),
        ({"validation_fraction": 0.1}, {}, "validation_fraction must be left out"),
        ({"max_bins": 9}, {}, "max_bins must be as large as that of the Dataset"),
    ],
)
def test_what_a_data_set_brings_itself(parameters, arguments, message, source):
    data = Dataset.from_parquet(source, "y", weight="w")
    with pytest.raises(ParameterError, match=message):
        MVSRegressor(**parameters).fit(data, **arguments)


def test_classes_and_numbers_are_not_taken_for_each_other(source):
    numbers = Dataset.from_parquet(source, "y")
    classes = Dataset.from_parquet(source, "y", labels=True)
    with pytest.raises(DataError, match="make it with labels=True"):
        MVSClassifier().fit(numbers)
    with pytest.raises(DataError, match="the Dataset holds classes"):
        MVSRegressor().fit(classes)
    with pytest.raises(DataError, match="other classes than the training rows"):
        MVSClassifier().fit(classes, eval_set=[numbers])
    with pytest.raises(ParameterError, match="made of X and y, unless"):
        MVSRegressor().fit([[1.0], [2.0]], [1.0, 2.0], eval_set=[numbers])
    model = MVSClassifier(n_estimators=1).fit(classes).model_
    model.metadata["classes"] = ["a", "b", "c"]
    with pytest.raises(DataError, match="the model to go on from \\["):
        MVSClassifier(n_estimators=1).fit(classes, init_model=model)
    other = table().assign(y=7)
    files(other, Path(source), 3)
    with pytest.raises(DataError, match="y holds class 7, which is not among"):
        Dataset.from_parquet(source, "y", like=classes)


def test_texts_of_limits():
    assert bytes_of("1.5 GB") == 1_500_000_000
    assert bytes_of("2kB") == 2000
    for wrong in ("GB", "6", 0, -3, True, "1PB"):
        with pytest.raises(ParameterError, match="memory_limit"):
            bytes_of(wrong)


# --- from file to file ----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_predictions_from_file_to_file(suffix, source, tmp_path):
    frame = table()
    X = frame.drop(columns=["y", "w"])
    made = MVSClassifier(n_estimators=4).fit(Dataset.from_parquet(source, "y", labels=True))
    out = tmp_path / f"out.{suffix}"
    read = pd.read_parquet if suffix == "parquet" else pd.read_csv
    assert made.predict_files(source, out, keep=["w", "x"]) == len(frame)
    found = read(out)
    assert list(found.columns) == ["w", "x", "prediction"]
    X_w = X.assign(w=frame["w"])[list(made.feature_names_in_)]
    assert (found["prediction"] == made.predict(X_w)).all()
    assert np.array_equal(found["w"], frame["w"])
    made.predict_files(source, out, output="probabilities")
    assert np.allclose(read(out).to_numpy(), made.predict_proba(X_w), rtol=1e-12, atol=0)
    made.predict_files(source, out, output="scores")
    assert list(read(out).columns) == ["score_0", "score_1", "score_2"]


def test_predictions_that_cannot_be_written(source, tmp_path):
    made = MVSRegressor(n_estimators=2).fit(Dataset.from_parquet(source, "y"))
    for options, message in (
        ({"out": tmp_path / "out.txt"}, "a file that ends in .parquet or .csv"),
        ({"keep": ["z"]}, "keep must be columns of the files"),
        ({"output": "probabilities"}, "output must be one of"),
    ):
        with pytest.raises(ParameterError, match=message):
            made.predict_files(source, **{"out": tmp_path / "out.parquet", **options})
    assert [one.name for one in tmp_path.iterdir()] == ["table"]
