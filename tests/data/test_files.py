"""Tables in Parquet files give the data set, and the model, of the table in memory."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mvsboost import MVS, Dataset, TrainConfig, train
from mvsboost.errors import DataError, ParameterError
from mvsboost.objectives import Logistic, Softmax

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
csv = pytest.importorskip("pyarrow.csv")
tables = pytest.importorskip("tests.data.tables")
files, table = tables.files, tables.table


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


# --- CSV ------------------------------------------------------------------------------------------


def csv_files(frame, folder, parts):
    ends = np.linspace(0, len(frame), parts + 1).astype(int)
    for k in range(parts):
        frame.iloc[ends[k] : ends[k + 1]].to_csv(folder / f"part-{k}.csv", index=False)
    return sorted(folder.glob("*.csv"))


@pytest.mark.parametrize("parts", [1, 3])
def test_csv_files_give_what_reading_them_at_once_gives(parts, tmp_path, monkeypatch):
    monkeypatch.setattr("mvsboost.data.files._BUFFER", 1 << 12)  # several blocks
    frame = table()
    # types that the first block does not show
    frame["late number"] = [1] * 700 + [0.5] * 200
    frame["late text"] = [1] * 800 + ["many"] * 100
    frame["none at first"] = [None] * 600 + [3] * 300
    source = csv_files(frame, tmp_path, parts)
    frame.to_csv(tmp_path / "whole", index=False)
    whole = csv.read_csv(tmp_path / "whole")
    expected = Dataset.from_data(
        whole.drop(["y", "w"]), whole["y"].to_numpy(), weight=whole["w"].to_numpy(), n_classes=3
    )
    monkeypatch.setattr("mvsboost.data.dataset.BATCH_BYTES", 1 << 14)
    data = Dataset.from_csv(source, "y", weight="w", n_classes=3)
    assert data.schema == expected.schema
    assert data.mapper.to_dict() == expected.mapper.to_dict()
    assert np.array_equal(data.rows.bins, expected.rows.bins)
    kept = Dataset.from_csv(source, "y", weight="w", n_classes=3, store=tmp_path / "store")
    assert kept.fingerprint() == expected.fingerprint()


def test_csv_files_that_are_no_table(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n1\n")
    with pytest.raises(DataError, match=r"a\.csv cannot be read"):
        Dataset.from_csv(tmp_path / "a.csv", "y")
    (tmp_path / "b.csv").write_text("x,y\n")
    with pytest.raises(DataError, match="has no rows"):
        Dataset.from_csv(tmp_path / "b.csv", "y")
    (tmp_path / "c.csv").write_text("x,z\n1,2\n")
    with pytest.raises(DataError, match="files of a table have the same ones"):
        Dataset.from_csv([tmp_path / "b.csv", tmp_path / "c.csv"], "y")
    with pytest.raises(DataError, match="there is no CSV file"):
        Dataset.from_csv(tmp_path / "none.csv", "y")


def test_batches_of_any_size_give_the_same(tmp_path, monkeypatch):
    source = files(table(), tmp_path, 2)
    expected = Dataset.from_parquet(source, "y", sample_rows=300)
    monkeypatch.setattr("mvsboost.data.files._FEWEST", 1)
    for rows in (3, 64):
        monkeypatch.setattr("mvsboost.data.dataset.BATCH_BYTES", 16 * 10 * rows)
        data = Dataset.from_parquet(source, "y", sample_rows=300)
        assert data.schema == expected.schema
        assert data.fingerprint() == expected.fingerprint()


def test_progress_is_shown(tmp_path, capsys):
    pytest.importorskip("tqdm")
    Dataset.from_parquet(files(table(60), tmp_path, 1), "y", progress=True)
    shown = capsys.readouterr().err
    assert "reading" in shown
    assert "binning" in shown


def test_a_damaged_file_is_named(tmp_path):
    source = files(table(200), tmp_path, 1)
    (file,) = source.glob("*.parquet")
    content = bytearray(file.read_bytes())
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"part-00\.parquet cannot be read"):
        Dataset.from_parquet(source, "y")
    content[100:2000] = bytes(1900)
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"part-00\.parquet cannot be read"):
        Dataset.from_parquet(source, "y")
