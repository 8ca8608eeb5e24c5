"""Schema: what training saw is what prediction must bring."""

from __future__ import annotations

import json
from datetime import date, time

import numpy as np
import pandas as pd
import pytest

from mvsboost.data import MISSING, UNSEEN, Feature, NumericColumn, Schema, ingest
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
    frame = pd.DataFrame({"age": pd.array([None], "str"), "city": [np.nan], "code": [None]})
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


# --- categories in files ------------------------------------------------------------------------


def through_a_file(schema: Schema) -> Schema:
    return Schema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False)))


@pytest.mark.parametrize(
    "values",
    [
        [2**60 + 3, 2**60, 2**60 + 1, -(2**60) - 1, 5],
        [2**64 - 1, 2**64 - 2],
        [np.inf, -np.inf, 0.5],
        [0.1, float(np.float32(0.7)), 1e300, 5e-324],
        ["inf", "-inf", "nan", "1.0"],
        [True, False],
    ],
    ids=repr,
)
def test_categories_survive_a_file(values: list[object]) -> None:
    columns = ingest({"x": values}, categorical_features=["x"])
    schema = Schema.from_columns(columns)
    again = through_a_file(schema)
    assert again == schema
    assert list(map(type, again.features[0].categories)) == (
        list(map(type, schema.features[0].categories))
    )
    codes = again.check(ingest({"x": values})).columns[0].codes
    assert codes.tolist() == columns.columns[0].codes.tolist()
    assert sorted(codes) == list(range(len(values)))


def test_integers_and_floats_find_each_other() -> None:
    schema = Schema.from_columns(ingest({"x": [2**60, 2**60 + 1, 3]}, categorical_features=["x"]))
    later = through_a_file(schema).check(ingest({"x": [2.0**60, 3.0, 2.0**61]}))
    assert later.columns[0].codes.tolist() == [1, 0, UNSEEN]


@pytest.mark.parametrize(
    "wrong",
    [
        {"number": "nan"},
        {"number": "1.0"},
        {"number": 1.0},
        {"number": ["inf"]},
        {"numbers": "inf"},
        {},
        {"number": "inf", "unit": "m"},
        [1.0],
        None,
        True,
        float("inf"),
        float("nan"),
    ],
    ids=repr,
)
def test_what_is_no_category_in_a_file(wrong: object) -> None:
    state = {"named": True, "features": [{"name": "x", "categories": ["a", wrong]}]}
    with pytest.raises(ValueError, match="is not a category"):
        Schema.from_dict(state)


def test_float32_categories_of_earlier_files() -> None:
    old = [{"name": "x", "categories": [float(np.float32(0.1)), float(np.float32(0.7))]}]
    schema = Schema.from_dict({"named": True, "features": old})
    for dtype in (np.float32, np.float64):
        later = schema.check(ingest({"x": np.array([0.7, 0.1], dtype)}))
        assert later.columns[0].codes.tolist() == [1, 0]


# --- what numbers stand for ---------------------------------------------------------------------


DAYS = pd.Series(pd.to_datetime(["2024-02-01", "2024-03-01"]))
KINDS = {
    "number": [1.0, 2.0],
    "time": DAYS,
    "zoned time": DAYS.dt.tz_localize("Europe/Oslo"),
    "duration": DAYS - DAYS[0],
    "time of day": [time(1), time(2)],
}
OTHERS = [(then, now) for then in KINDS for now in KINDS if then != now]


def of_kind(kind: str, chosen: list[str] | None = None) -> Schema:
    return Schema.from_columns(ingest({"when": KINDS[kind]}, categorical_features=chosen))


@pytest.mark.parametrize("chosen", [None, ["when"]], ids=["numeric", "categorical"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_kept(kind: str, chosen: list[str] | None) -> None:
    schema = of_kind(kind, chosen)
    assert schema.features[0].kind == kind
    assert through_a_file(schema) == schema
    assert through_a_file(schema).check(ingest({"when": KINDS[kind]})).n_rows == 2


@pytest.mark.parametrize("chosen", [None, ["when"]], ids=["numeric", "categorical"])
@pytest.mark.parametrize(("then", "now"), OTHERS)
def test_another_kind_of_number_is_named(then: str, now: str, chosen: list[str] | None) -> None:
    words = {"number": "numbers", "time": "times without a time zone"}
    words |= {"zoned time": "times with a time zone", "duration": "durations"}
    words |= {"time of day": "times of day"}
    message = f"^Column 'when' held {words[then]} in training but holds {words[now]} in X: .*[a-z]"
    with pytest.raises(SchemaError, match=message):
        through_a_file(of_kind(then, chosen)).check(ingest({"when": KINDS[now]}))


def test_a_zone_is_asked_for_or_taken_off() -> None:
    with pytest.raises(SchemaError, match=r"localise it, for example with tz_localize$"):
        of_kind("zoned time").check(ingest({"when": KINDS["time"]}))
    with pytest.raises(SchemaError, match=r"drop the zone, for example .* tz_localize\(None\)$"):
        of_kind("time").check(ingest({"when": KINDS["zoned time"]}))


def test_the_zone_and_the_unit_may_be_others() -> None:
    trained = of_kind("zoned time")
    tokyo = KINDS["zoned time"].dt.tz_convert("Asia/Tokyo").dt.as_unit("ms")
    later, same = (trained.check(ingest({"when": x})) for x in (tokyo, KINDS["zoned time"]))
    np.testing.assert_array_equal(later.columns[0].values, same.columns[0].values)
    dates = ingest({"when": [date(2024, 2, 1), date(2024, 3, 1)]})
    assert of_kind("time").check(dates).n_rows == 2


MISSING_ONLY = [
    [None, None],
    [np.nan, np.nan],
    np.array(["NaT", "NaT"], "M8[ns]"),
    np.array(["NaT", "NaT"], "m8[ns]"),
    pd.Series([None, None], dtype="str"),
    pd.Series([pd.NaT, pd.NaT]).dt.tz_localize("UTC"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nothing", MISSING_ONLY, ids=lambda x: str(getattr(x, "dtype", x)))
def test_no_value_fits_any_kind_of_number(kind: str, nothing: object) -> None:
    for chosen in (None, ["when"]):
        assert of_kind(kind, chosen).check(ingest({"when": nothing})).n_rows == 2
        empty = Schema.from_columns(ingest({"when": nothing}, categorical_features=chosen))
        assert empty.features[0].kind is None
        assert empty.check(ingest({"when": KINDS[kind]})).n_rows == 2


def test_files_that_do_not_say_take_any_kind() -> None:
    state = of_kind("time").to_dict()
    del state["features"][0]["kind"]
    schema = Schema.from_dict(state)
    assert schema.features == (Feature("when"),)
    for values in KINDS.values():
        assert schema.check(ingest({"when": values})).n_rows == 2


@pytest.mark.parametrize("wrong", ["date", 3, ["time"]])
def test_what_is_no_kind_in_a_file(wrong: object) -> None:
    state = of_kind("time").to_dict()
    state["features"][0]["kind"] = wrong
    with pytest.raises(ValueError, match="is not a kind"):
        Schema.from_dict(state)
