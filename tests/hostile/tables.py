"""Tables, targets, weights and parameters as nobody wishes for, drawn from a generator.

The generator may be a plain `random.Random`, one of hypothesis, or the bytes of a fuzzer.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from mvsboost import GOSS, MVS, SGB, ImportanceSampling

NUMBERS: list[float] = [
    *(0.0, -0.0, 1.0, -1.0, 2.0, 0.1, math.nan, math.inf, -math.inf, 1.7976931348623157e308),
    *(1e308, -1e308, 5e-324, -5e-324, 1e-310, 2.2250738585072014e-308, 1e-300, 1e300, 1e-30),
    *(3.4028235677973366e38, 3.4e38, 1e-45, 65504.0, 65520.0, 2.0**53, 2.0**53 + 2, 2.0**63),
    *(math.nextafter(1.0, 2.0), math.nextafter(1.0, 0.0), 1e16, -1e16, 123456789.123456789),
]
INTEGERS = [
    *(0, 1, -1, 2, 127, 128, -128, -129, 255, 256, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32),
    *(2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, 10**30),
]
TEXTS = [
    *("", " ", "a", "A", "b", "nan", "NaN", "None", "null", "<NA>", "inf", "0", "1", "1.0", "-0"),
    *("é", "e\u0301", "\0", "\0a", "\U0001f642", "x" * 5_000, "\n", '"', "'", ",", "ß", "İ"),
    *("\u202e", "\ufeff", "true", "1e5", "\ud800", "zz", "cat", "dog"),
]
MOMENTS = [
    *("1970-01-01", "2020-02-29T12:00", "1677-09-22", "2262-04-11", "NaT", "1969-12-31T23:59:59"),
    *("0001-01-01", "9999-12-31", "2024-03-31T02:30"),
]
ODD: list[Any] = [
    *(None, True, False, 0, 1, 2.5, "a", b"a", math.nan, 10**30, Decimal("1.5"), Decimal("NaN")),
    *(Fraction(1, 3), dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), dt.timedelta(1), pd.NA),
    *(
        pd.NaT,
        1j,
        [1],
        (1, 2),
        {"a": 1},
        object,
        np.float32(1),
        np.int8(3),
        np.datetime64("NaT", "s"),
    ),
    *(dt.datetime(2020, 1, 1, tzinfo=dt.UTC), pd.Interval(0, 1), pd.Period("2020"), np.str_("a")),
]


def some(rng: Random, values: Sequence[Any], n: int) -> list[Any]:
    """n values, of few or many of those."""
    few = [rng.choice(values) for _ in range(rng.choice([1, 2, 3, 8]))]
    return [rng.choice(few) for _ in range(n)]


# --- columns: kinds by name, n values each --------------------------------------------------------


def _floats(rng: Random, n: int) -> Any:
    with np.errstate(over="ignore"):
        return np.array(some(rng, NUMBERS, n)).astype(rng.choice(["f8", "f8", "f4", "f2", ">f8"]))


def _plain(rng: Random, n: int) -> Any:
    scale = rng.choice([1.0, 1e-300, 1e300, 1e-3, 1e6])
    values = np.array([scale * rng.randrange(-9, 10) for _ in range(n)])
    values[[rng.random() < 0.1 for _ in range(n)]] = np.nan
    return values


def _integers(rng: Random, n: int) -> Any:
    kind = rng.choice(["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?", ">i4"])
    if kind == "?":
        return np.array(some(rng, [False, True], n))
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return np.array(some(rng, _within(low, high), n), dtype=kind)


def _within(low: int, high: int) -> list[int]:
    return [value for value in INTEGERS if low <= value <= high]


def _texts(rng: Random, n: int) -> Any:
    values = some(rng, [*TEXTS, None], n)
    return np.array(values, object) if rng.random() < 0.7 else [v or "" for v in values]


def _ids(rng: Random, n: int) -> Any:
    return np.array([f"id {rng.randrange(1000)}" for _ in range(n)], object)


def _moments(rng: Random, n: int) -> Any:
    unit = rng.choice(["D", "s", "ms", "us", "ns", "h", "M"])
    return np.array(some(rng, MOMENTS, n), "M8[us]").astype(f"M8[{unit}]")


def _durations(rng: Random, n: int) -> Any:
    return np.array(
        some(rng, [0, 1, -1, 10**9, -(10**15)], n), f"m8[{rng.choice(['D', 's', 'ns'])}]"
    )


def _zoned(rng: Random, n: int) -> Any:
    zones = [dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=45)), None]
    day = dt.datetime(2024, 3, 31, 2, 30)
    made = [day.replace(tzinfo=zone) for zone in some(rng, zones[: rng.choice([1, 2, 3])], n)]
    return np.array(made, object)


def _odd(rng: Random, n: int) -> Any:
    values = np.empty(n, object)
    values[:] = [None] * n
    for i, value in enumerate(some(rng, ODD, n)):
        values[i] = value
    return values


def _big(rng: Random, n: int) -> Any:
    return np.array([*some(rng, INTEGERS, n), None], object)[:-1]


def _decimals(rng: Random, n: int) -> Any:
    texts = ["0", "1.10", "-1e-400", "1e400", "123456789012345678901234567890", "0.1"]
    return np.array([*map(Decimal, some(rng, texts, n)), None], object)[:-1]


def _nothing(rng: Random, n: int) -> Any:
    nothing = rng.choice([None, math.nan, pd.NA, pd.NaT])
    return np.full(n, nothing, object if nothing is not math.nan else float)


def _constant(rng: Random, n: int) -> Any:
    return np.full(n, rng.choice([0.0, 1e308, -math.inf, 5e-324]))


def _bytes(rng: Random, n: int) -> Any:
    return np.array(some(rng, [b"", b"a", b"\xff"], n))


def _masked(rng: Random, n: int) -> Any:
    return np.ma.array(_plain(rng, n), mask=[rng.random() < 0.3 for _ in range(n)])


def _pandas(rng: Random, n: int) -> Any:
    kind = rng.choice(["Int64", "UInt8", "boolean", "Float32", "string", "category", "ordered"])
    if kind in ("category", "ordered"):
        categories = rng.choice([["b", "a", "unused"], [3, 1, 2], [1.5, -0.0], [True, False]])
        values = some(rng, [*categories, None], n)
        return pd.Series(pd.Categorical(values, categories, ordered=kind == "ordered"))
    values = some(rng, ["a", "", None] if kind == "string" else [0, 1, None], n)
    return pd.Series(values, dtype=kind)


def _intervals(rng: Random, n: int) -> Any:
    return pd.Series(pd.cut(pd.Series(some(rng, [0.5, 1.5, math.nan], n)), [0, 1, 2]))


def _arrow(rng: Random, n: int) -> Any:
    kind = rng.choice([pa.int64(), pa.string(), pa.bool_(), pa.float32(), pa.null(), pa.date32()])
    values: dict[Any, list[Any]] = {
        pa.string(): ["a", "é", None],
        pa.date32(): [dt.date(2020, 1, 1), None],
        pa.null(): [None],
        pa.bool_(): [True, False, None],
    }
    made = pa.array(some(rng, values.get(kind, [0, 1, None]), n), kind)
    return made.dictionary_encode() if rng.random() < 0.3 and kind != pa.null() else made


COLUMNS: dict[str, Callable[[Random, int], Any]] = {
    "plain": _plain,
    "floats": _floats,
    "integers": _integers,
    "texts": _texts,
    "ids": _ids,
    "moments": _moments,
    "durations": _durations,
    "zoned": _zoned,
    "odd": _odd,
    "big": _big,
    "decimals": _decimals,
    "nothing": _nothing,
    "constant": _constant,
    "bytes": _bytes,
    "masked": _masked,
    "pandas": _pandas,
    "intervals": _intervals,
    "arrow": _arrow,
}
COMMON = ("plain", "plain", "floats", "integers", "texts")
NAMES = ["a", "b", "A", "", " ", "é", "e\u0301", "\0", "f0", "0", "target", "mean", "x" * 300, "🙂"]


# --- containers -----------------------------------------------------------------------------------


def _rows_of(values: Any, rows: Any) -> Any:
    """Some rows of a column or a table."""
    if isinstance(values, dict):
        return {name: _rows_of(column, rows) for name, column in values.items()}
    if isinstance(values, list):
        return [values[i] for i in rows]
    if isinstance(values, pd.Series | pd.DataFrame):
        return values.iloc[rows].reset_index(drop=True)
    return values.take(pa.array(rows)) if isinstance(values, pa.Array | pa.Table) else values[rows]


def _objects(values: Any) -> list[Any]:
    return values.to_pylist() if isinstance(values, pa.Array) else list(values)


def _as_array(columns: dict[str, Any]) -> Any:
    made = np.empty((len(next(iter(columns.values()))), len(columns)), object)
    for j, values in enumerate(columns.values()):
        for i, value in enumerate(_objects(values)):
            made[i, j] = value
    return made


def _of_pandas(values: Any) -> Any:
    if isinstance(values, pa.Array):
        return values.to_pandas()
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiu":
        return values.astype(values.dtype.newbyteorder("="))  # pandas takes no rows of others
    return values


CONTAINERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "dict": dict,
    "pandas": lambda columns: pd.DataFrame({k: _of_pandas(v) for k, v in columns.items()}),
    "polars": lambda columns: pl.DataFrame(
        {
            k: pl.Series(_objects(v)) if not isinstance(v, np.ndarray) else v
            for k, v in columns.items()
        }
    ),
    "arrow": lambda columns: pa.table(
        {k: v if isinstance(v, pa.Array) else pa.array(v) for k, v in columns.items()}
    ),
    "objects": _as_array,
    "rows": lambda columns: [
        list(row) for row in zip(*map(_objects, columns.values()), strict=True)
    ],
    "numbers": lambda columns: np.column_stack([np.asarray(v, float) for v in columns.values()]),
    "fortran": lambda columns: np.asfortranarray(
        np.column_stack([np.asarray(v, np.float32) for v in columns.values()])
    ),
    "strided": lambda columns: np.repeat(
        np.column_stack([np.asarray(v, float) for v in columns.values()]), 2, axis=0
    )[::2],
}


@dataclass
class Table:
    """Columns by name, and what holds them; a container that cannot is a dict."""

    columns: dict[str, Any]
    container: str = "dict"

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def held(self, rows: Any = None) -> Any:
        with np.errstate(over="ignore"):  # a float that is no float32 any more is meant
            X = CONTAINERS[self.container](self.columns)
        return X if rows is None else _rows_of(X, rows)


def drawn_table(rng: Random) -> Table:
    n = rng.choice([1, 2, 3, 5, 12, 12, 30, 30, 60])
    width = rng.choice([1, 1, 2, 3, 5])
    names = rng.sample(NAMES, width)
    kinds = [rng.choice(COMMON if rng.random() < 0.8 else list(COLUMNS)) for _ in names]
    columns = {name: COLUMNS[kind](rng, n) for name, kind in zip(names, kinds, strict=True)}
    table = Table(columns, rng.choice(list(CONTAINERS)))
    try:
        table.held()
    except Exception:  # what this container cannot hold is none of our tables
        table.container = "dict"
    return table


# --- targets, weights, parameters -----------------------------------------------------------------


def drawn_target(rng: Random, n: int, classes: bool) -> Any:
    if rng.random() < 0.03:
        return _odd(rng, n)
    if classes:
        known = [[0, 1], ["no", "yes"], [False, True], [-2.0, 3.0, 0.0], TEXTS, INTEGERS]
        labels = rng.choice(known)
        values = some(rng, labels, n)
        if rng.random() < 0.2:
            values = [labels[0]] * (n - 1) + [labels[1]]  # as rare as can be
        kind = rng.choice([list, np.array, pd.Series])
        return list(values) if "\ud800" in values else kind(values)  # which pandas cannot hold
    if rng.random() < 0.1:
        return np.array(some(rng, NUMBERS, n))
    scale = rng.choice([*[1.0] * 9, 1e-29, 1e-29, 1e30, 1e30, 1e37, 1e-40, 1e40, 1e300])
    shift = rng.choice([0.0, 0.0, 1.0, 1e9])
    values = [scale * (rng.randrange(-5, 6) + shift) for _ in range(n)]
    return rng.choice([list, np.array, pd.Series])(np.abs(values) if rng.random() < 0.3 else values)


def drawn_weight(rng: Random, n: int) -> Any:
    kind = rng.randrange(8)
    if kind < 4:
        return None
    if kind == 4:
        return [10.0 ** rng.uniform(-300, 300) for _ in range(n)]
    if kind == 5:
        return [rng.choice([0, 1, 2]) for _ in range(n)]
    if kind == 6:
        return np.full(n, rng.choice([1e-300, 1e300, 5e-324, 1.7e308, 0.0, 0.3]))
    odd = rng.choice([math.nan, -1.0, math.inf, 1e-20, 1e-20, 0.0, 0.0])
    return np.array(some(rng, [1.0, 0.5, odd], n))


PARAMETERS: dict[str, list[Any]] = {
    "max_leaves": [2, 3, 31, "auto"],
    "max_depth": [1, 3, None],
    "max_bins": [2, 3, 16, 255],
    "min_samples_leaf": [1, 1, 2, 20],
    "min_child_weight": [0.0, 1e-3, 1e300],
    "learning_rate": [0.1, 1.0, 1e-300, 10.0],
    "l2": [0.0, 1.0, 1e300, 1e-300],
    "l1": [0.0, 0.5, 1e300],
    "min_gain": [0.0, 1e-300, 1e300],
    "colsample": [1.0, 0.5, 1e-9],
    "second_look": [0, 1, 4, None],
    "order": [1, 2],
    "leaf_values": ["all", "sample"],
    "sampler": [
        MVS(0.3),
        MVS(1e-9),
        MVS(1.0),
        GOSS(0.2, 0.3),
        SGB(0.5),
        "none",
        ImportanceSampling(0.5),
    ],
    "random_state": [0, 1, 2**32 - 1],
    "interaction_constraints": [None, None, "no_interactions", "pairwise"],
}
OF_REGRESSORS: dict[str, list[Any]] = {
    "objective": [
        "squared",
        "squared",
        "absolute",
        "quantile",
        "poisson",
        "huber",
        "gamma",
        "tweedie",
    ],
}
OF_CLASSIFIERS: dict[str, list[Any]] = {"class_weight": [None, None, "balanced"]}


def drawn_parameters(rng: Random, classes: bool) -> dict[str, Any]:
    """A few, beside trees that are few and rows that may stand alone."""
    known = {**PARAMETERS, **(OF_CLASSIFIERS if classes else OF_REGRESSORS)}
    made: dict[str, Any] = {"n_estimators": rng.choice([1, 2, 4]), "min_samples_leaf": 1}
    for name in rng.sample(list(known), rng.randrange(6)):
        made[name] = rng.choice(known[name])
    if made.get("objective") == "quantile":
        made["quantile"] = rng.choice([0.5, 1e-6, [0.1, 0.9]])
    return made
