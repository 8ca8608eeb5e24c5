"""Schema: what training saw is what prediction must bring."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from mvsboost.data import MISSING, UNSEEN, NumericColumn, Schema, ingest
from mvsboost.errors import SchemaError

TRAIN = {"age": [31.0, 42.0, 25.0], "city": ["Oslo", "Bergen", None], "code": [7, 3, 7]}


@pytest.fixture
def schema() -> Schema:
    return Schema.from_columns(ingest(TRAIN, categorical_features=["city", "code"]))


def test_it_keeps_names_kinds_and_categories(schema: Schema) -> None:
    assert schema.named
    assert schema.names == ("age", "city", "code")
    assert [f.is_categorical for f in schema.features] == [False, True, True]
    assert [f.categories for f in schema.features] == [None, ("Bergen", "Oslo"), (3.0, 7.0)]


def test_tables_without_names_get_numbered_ones() -> None:
    schema = Schema.from_columns(ingest(np.zeros((2, 2))))
    assert (schema.names, schema.named) == (("f0", "f1"), False)


def test_round_trip_through_json(schema: Schema) -> None:
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    unnamed = Schema.from_columns(ingest(np.zeros((2, 2))))
    assert Schema.from_dict(unnamed.to_dict()) == unnamed


def test_columns_are_put_in_order_by_name(schema: Schema) -> None:
    table = {"code": [3], "city": ["Oslo"], "age": [1.0]}
    checked = schema.check(ingest(table))
    assert checked.names == schema.names
    age, city, code = checked.columns
    assert (age.values.tolist(), city.codes.tolist(), code.codes.tolist()) == ([1.0], [1], [0])


def test_codes_are_those_of_training(schema: Schema) -> None:
    table = {"age": [1, 2, 3], "city": ["Oslo", "Tromsø", None], "code": [7.0, 4.0, None]}
    _, city, code = schema.check(ingest(table)).columns
    assert city.codes.tolist() == [1, UNSEEN, MISSING]
    assert code.codes.tolist() == [1, UNSEEN, MISSING]


def test_arrays_go_by_position(schema: Schema) -> None:
    checked = schema.check(ingest(np.array([[1.0, "Oslo", 7]], dtype=object)))
    assert checked.names == schema.names
    assert checked.columns[1].codes.tolist() == [1]


def test_columns_without_values_fit_any_kind(schema: Schema) -> None:
    frame = pd.DataFrame({"age": pd.array([None], "string"), "city": [np.nan], "code": [None]})
    age, city, code = schema.check(ingest(frame)).columns
    assert isinstance(age, NumericColumn)
    assert np.isnan(age.values).all()
    assert (city.codes.tolist(), code.codes.tolist()) == ([MISSING], [MISSING])


def test_categories_that_training_never_had_a_value_of() -> None:
    frame = pd.DataFrame({"x": pd.array([None, None], "str")})
    schema = Schema.from_columns(ingest(frame))
    assert schema.check(ingest({"x": ["new"]})).columns[0].codes.tolist() == [UNSEEN]


def test_a_missing_column_is_named(schema: Schema) -> None:
    with pytest.raises(SchemaError, match="'city' is missing"):
        schema.check(ingest({"age": [1], "code": [3]}))


def test_an_extra_column_is_named(schema: Schema) -> None:
    with pytest.raises(SchemaError, match="'extra' of X was not there"):
        schema.check(ingest({**TRAIN, "extra": [1, 2, 3]}))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("age", ["x", "y", "z"], "'age' was numeric"),
        ("city", [1, 2, 3], "'city' held text .* numbers in X"),
        ("code", ["7", "3", "7"], "'code' held numbers .* text in X"),
    ],
)
def test_another_kind_is_named(
    schema: Schema, name: str, values: list[object], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        schema.check(ingest({**TRAIN, name: values}))


def test_the_wrong_number_of_features(schema: Schema) -> None:
    message = "X has 2 features, but MVSClassifier is expecting 3 features as input"
    with pytest.raises(SchemaError, match=message):
        schema.check(ingest(np.zeros((1, 2))), "MVSClassifier")
