"""Dataset: checks of target and weights, reuse of a mapper, the same bits for any threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mvsboost.data import Dataset, check_lengths, ingest
from mvsboost.errors import DataError, ParameterError, SchemaError


def table(n: int = 300) -> tuple[dict[str, Any], np.ndarray]:
    rng = np.random.default_rng(0)
    X = {
        "x": rng.standard_normal(n),
        "few": np.array(list("abc"), dtype=object)[rng.integers(0, 3, n)],
        "many": np.array([f"id{i}" for i in range(20)], dtype=object)[rng.integers(0, 20, n)],
    }
    return X, rng.integers(0, 2, n).astype(float)


def test_it_holds_rows_schema_and_mapper() -> None:
    X, y = table()
    data = Dataset.from_data(X, y, weight=np.arange(300), max_bins=8, n_classes=2)
    assert (data.n_rows, data.n_features) == (300, 4)
    assert data.feature_names == ("x", "few", "many (mean target)", "many (log count)")
    assert data.schema.names == ("x", "few", "many")
    assert data.rows.bins.dtype == np.uint8
    assert data.rows.bins.flags.c_contiguous
    np.testing.assert_array_equal(data.rows.n_bins, data.mapper.n_bins)
    np.testing.assert_array_equal(data.rows.target, y)
    assert data.rows.target.dtype == data.rows.weight.dtype == np.float64


def test_without_weights_there_are_none() -> None:
    assert Dataset.from_data([[1], [2]], [0.5, 1.5]).rows.weight is None


def test_classes_have_means_of_their_own() -> None:
    X, y = table()
    y[:10] = 2.0
    data = Dataset.from_data(X, y, max_bins=8, n_classes=3)
    assert data.n_features == 2 + 3 + 1


def test_threads_change_nothing() -> None:
    X, y = table(5_000)
    one, four = (Dataset.from_data(X, y, max_bins=8, n_threads=t) for t in (1, 4))
    np.testing.assert_array_equal(one.rows.bins, four.rows.bins)
    assert one.mapper.to_dict() == four.mapper.to_dict()


def test_a_validation_set_uses_the_bins_of_training() -> None:
    X, y = table()
    train = Dataset.from_data(X, y, max_bins=8)
    head = {name: values[:50] for name, values in X.items()}
    valid = Dataset.from_data(head, y[:50], mapper=train.mapper, schema=train.schema)
    expected = train.mapper.transform(train.schema.check(ingest(X)))[:50]
    np.testing.assert_array_equal(valid.rows.bins, expected)
    assert valid.mapper is train.mapper
    del head["few"]
    with pytest.raises(SchemaError, match="'few'"):
        Dataset.from_data(head, y[:50], mapper=train.mapper, schema=train.schema)


def test_numbers_named_as_categories_stay_categories_at_validation() -> None:
    X = np.array([[3.0], [1.0], [3.0]])
    train = Dataset.from_data(X, [0, 1, 0], categorical_features=[0])
    valid = Dataset.from_data([[1], [2]], [0, 1], mapper=train.mapper, schema=train.schema)
    assert valid.rows.bins.ravel().tolist() == [0, 2]


def test_columns_read_before_pass_as_they_are() -> None:
    X, y = table()
    raw, read = Dataset.from_data(X, y), Dataset.from_data(ingest(X), y)
    assert raw.mapper.to_dict() == read.mapper.to_dict()
    np.testing.assert_array_equal(raw.rows.bins, read.rows.bins)


def test_part_of_columns_is_as_if_only_it_had_been_read() -> None:
    X, _ = table(40)
    X["few"][::3] = None
    rows = np.arange(40) % 4 == 1
    part = ingest(X).take(rows)
    alone = ingest({name: values[rows] for name, values in X.items()})
    assert part.names == alone.names
    np.testing.assert_array_equal(part.columns[0].values, alone.columns[0].values)
    for j in (1, 2):
        assert part.columns[j].categories == alone.columns[j].categories
        np.testing.assert_array_equal(part.columns[j].codes, alone.columns[j].codes)


def test_lengths_are_checked_by_name() -> None:
    check_lengths(2, y=[0, 1], sample_weight=None)
    with pytest.raises(DataError, match="X has 2 rows but sample_weight has 3"):
        check_lengths(2, y=[0, 1], sample_weight=[1, 1, 1])


def test_mapper_and_schema_come_together() -> None:
    train = Dataset.from_data([[1], [2]], [0, 1])
    with pytest.raises(ParameterError, match="mapper must be given together"):
        Dataset.from_data([[1]], [0], mapper=train.mapper)
    with pytest.raises(ParameterError, match="schema must be given together"):
        Dataset.from_data([[1]], [0], schema=train.schema)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, np.nan, np.inf], "NaN or infinity: row 1"),
        ([0, 1, np.inf], "NaN or infinity: row 2"),
        ([0, 1], "X has 3 rows but y has 2"),
        ([[0], [1], [2]], r"y must be one-dimensional, got shape \(3, 1\)"),
        (["a", "b", "c"], "y must hold numbers"),
        ([1j, 0, 0], "Complex data not supported"),
    ],
)
def test_targets_that_cannot_be(y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Dataset.from_data(np.zeros((3, 1)), y)


@pytest.mark.parametrize("bad", [-1.0, 2.0, 0.5])
def test_class_indices_that_cannot_be(bad: float) -> None:
    with pytest.raises(DataError, match="class indices 0 to 1, row 2"):
        Dataset.from_data(np.zeros((3, 1)), [0.0, 1.0, bad], n_classes=2)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, -1, 1], "not negative, row 1"),
        ([1, 1, np.nan], "finite and not negative, row 2"),
        ([np.inf, 1, 1], "finite and not negative, row 0"),
        ([0, 0, 0], "zero for every row"),
        ([1, 1], "X has 3 rows but weight has 2"),
        (np.ones((3, 1)), "weight must be one-dimensional"),
    ],
)
def test_weights_that_cannot_be(weight: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Dataset.from_data(np.zeros((3, 1)), [0, 1, 2], weight=weight)
