"""The sets, prepared as published: rows, columns, splits."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from mvsboost.datasets import DATA_VARIABLE
from mvsboost.errors import DataError, ParameterError
from research.sets import (
    LARGE_SETS,
    PAPER_SETS,
    SETS,
    Part,
    PreparedSet,
    counted,
    load_set,
    suite_names,
)
from research.sets.base import as_texts, split_again, split_at_random
from research.sets.checksums import checksum_of, known_checksums
from research.sets.large import synthetic

SHAPES = {
    "adult": (39073, 9769, 14, 8, 14),
    "amazon": (26215, 6554, 9, 9, 9),
    "internet": (8086, 2022, 68, 21, 68),
    "kick": (58388, 14595, 35, 23, 43),
    "click": (31934, 8014, 11, 8, 11),
    "ieee": (80000, 20000, 120, 5, None),
    "sba": (80000, 20000, 21, 6, None),
}
"""Training rows, test rows, columns, those of categories, columns with counters and indicators."""

FILES = {
    "amazon": "amazon.parquet",
    "internet": "internet.parquet",
    "kick": "kick.parquet",
    "click": "click_small.parquet",
    "ieee": "ieee_fraud.parquet",
    "sba": "sba_loans.parquet",
}


def _needs(file: str) -> None:
    """Skip a test whose data are not on this machine."""
    if not (Path(os.environ.get(DATA_VARIABLE, ".")) / file).exists():
        pytest.skip(f"{DATA_VARIABLE} names no folder with {file}")


def _load_as_published(name: str, folder: Path | None = None) -> PreparedSet:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # checksums agree
        return load_set(name, folder)


@pytest.fixture(scope="module", params=PAPER_SETS)
def prepared(request) -> PreparedSet:
    if request.param != "adult":
        _needs(FILES[request.param])
    return _load_as_published(request.param)


def test_rows_and_columns_are_those_of_the_protocol(prepared):
    n_train, n_test, n_columns, n_categorical, n_counted = SHAPES[prepared.name]
    assert (len(prepared.train), len(prepared.test)) == (n_train, n_test)
    assert len(prepared.train.columns) == n_columns
    assert len(prepared.categorical) == n_categorical
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


def test_names_of_kick_are_those_of_the_benchmark():
    _needs(FILES["kick"])
    data = _load_as_published("kick")
    columns = [
        np.concatenate([part.columns[name] for part in (data.train, data.test)])
        for name in data.categorical
    ]
    texts = {text for column in columns for text in column if text is not None}
    assert all(text.replace("_", "").isalnum() and text.isascii() for text in texts)
    assert not any("__" in text for text in texts)
    models = columns[data.categorical.index("Model")]
    assert len(set(models)) == 1_061


def test_numbers_as_categories_keep_their_digits():
    assert as_texts(np.array([1, 20])).tolist() == ["1", "20"]
    assert as_texts(np.array([0.1, np.nan])).tolist() == ["0.10000000000000001", None]
    assert as_texts(np.array(["x", None], object)).tolist() == ["x", None]


def test_what_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("sklearn.datasets.fetch_openml", _no_network)
    with pytest.raises(ParameterError, match="adult, amazon"):
        load_set("iris")
    with pytest.raises(DataError, match=r"amazon\.parquet is not in .*openml\.org/d/4135"):
        load_set("amazon", tmp_path)
    with pytest.raises(DataError, match=r"covtype\.parquet is not in the folder"):
        load_set("covertype", tmp_path)
    with pytest.raises(ParameterError, match="suite/NAME/SPLIT"):
        load_set("suite/abalone", tmp_path)


def _no_network(**named):
    raise OSError("no network")


def _hosted(frame):
    return lambda **named: type("Bunch", (), {"frame": frame})


def test_openml_stands_in_for_a_file(tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    n = 32_769
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"target": pd.Categorical(["1", "0"] * (n // 2) + ["1"]), "RESOURCE": rng.integers(0, 9, n)}
    )
    frame["ROLE"] = pd.Categorical(np.where(np.arange(n) % 5 == 0, None, "x"))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", _hosted(frame))
    with pytest.warns(UserWarning, match="differs from the data"):
        data = load_set("amazon", tmp_path)
    assert (len(data.train), len(data.test)) == (26_215, 6_554)
    first = [1272, 5543, 2288, 26673, 22332]  # as the benchmark's index file has it
    assert data.train.target[:5].tolist() == [1 - row % 2 for row in first]
    resources = frame["RESOURCE"][first].astype(str).tolist()
    assert data.train.columns["RESOURCE"][:5].tolist() == resources
    assert set(data.test.columns["ROLE"]) == {None, "x"}
    monkeypatch.setattr("sklearn.datasets.fetch_openml", _hosted(frame[:100]))
    with pytest.raises(DataError, match="100 rows in place of the 32769"):
        load_set("amazon", tmp_path)


@pytest.mark.parametrize("name", ["amazon", "internet"])
def test_openml_has_texts_for_flags_and_codes(name, tmp_path, monkeypatch):
    _needs(FILES[name])
    pd = pytest.importorskip("pandas")
    frame = pd.read_parquet(Path(os.environ[DATA_VARIABLE]) / FILES[name])
    frame = frame.astype("string").astype("category")
    monkeypatch.setattr("sklearn.datasets.fetch_openml", _hosted(frame))
    assert _load_as_published(name, tmp_path).categorical == load_set(name).categorical


def test_a_checksum_sees_every_value():
    data = _toy_part()
    expected = checksum_of(("kind",), data)
    assert checksum_of(("kind",), _toy_part()) == expected
    assert checksum_of(("kind",), data, data) != expected
    other = _toy_part()
    other.columns["x"][3] += 1e-9
    assert checksum_of(("kind",), other) != expected
    more = Part({**data.columns, "more": data.columns["x"]}, data.target)
    assert checksum_of(("kind",), more) != expected


def test_every_set_of_the_figures_has_a_checksum():
    named = {name for name in known_checksums() if not name.startswith("suite/")}
    assert named == {*PAPER_SETS, *LARGE_SETS} - {"small synthetic"}


def test_every_set_of_the_suite_has_a_checksum():
    _needs("suite/INDEX.csv")
    suite = {f"suite/{name}" for name in suite_names()}
    assert {name for name in known_checksums() if name.startswith("suite/")} == suite


def test_the_suite_is_that_of_the_figures():
    _needs("suite/INDEX.csv")
    for name in suite_names():
        assert len(_load_as_published(f"suite/{name}/0").train) > 0


def test_a_large_set_is_that_of_the_figures():
    _needs("covtype.parquet")
    data = _load_as_published("covertype")
    assert (len(data.train), len(data.test)) == (464_809, 116_203)


def _toy_part() -> Part:
    kinds = np.array(["a", None, "b", "c"] * 10, object)
    return Part({"kind": kinds, "x": np.arange(40.0)}, np.arange(40) % 2)


def test_a_set_is_split_again_without_losing_rows():
    rows = Part({"x": np.arange(100.0)}, np.repeat([0, 1], 50))
    data = split_at_random("a", rows, ())
    again = [split_again(data, seed) for seed in (1, 1, 2)]
    for one in again:
        assert len(one.test) == 20
        seen = np.concatenate([one.train.columns["x"], one.test.columns["x"]])
        assert np.array_equal(np.sort(seen), rows.columns["x"])
        assert np.array_equal(one.test.columns["x"] >= 50, one.test.target == 1)
    assert len({checksum_of((), one.train, one.test) for one in again}) == 2


def test_synthetic_rows_need_no_file():
    data = synthetic(2000)
    assert (len(data.train), len(data.test)) == (1800, 200)
    assert len(data.train.columns) == 28
    assert 0.3 < data.train.target.mean() < 0.7
    assert {"flights", "higgs", "churn"} < set(SETS)


@pytest.fixture
def small_suite(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "INDEX.csv").write_text("name,rows\nfirst,50\nabalone,50\n")
    table = pa.table({"x": np.arange(50.0), "kind": ["a", "b"] * 25, "target": [0, 1] * 25})
    for name in ("first", "abalone"):
        pq.write_table(table, tmp_path / "suite" / f"{name}.parquet")
    return tmp_path


def test_a_set_of_the_suite_has_as_many_splits_as_one_likes(small_suite):
    assert suite_names(small_suite) == ["first", "abalone"]
    one, other = (load_set(f"suite/first/{split}", small_suite) for split in (0, 1))
    assert one.categorical == ("kind",)
    assert len(one.test) == 10
    assert one.test.columns["x"].tolist() != other.test.columns["x"].tolist()


@pytest.mark.parametrize("split", [0, 1])
def test_a_set_of_the_suite_that_has_changed_is_warned_of(split, small_suite):
    with pytest.warns(UserWarning, match="suite/abalone differs from the data"):
        load_set(f"suite/abalone/{split}", small_suite)
