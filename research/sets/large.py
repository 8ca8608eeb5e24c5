"""Whole sets of half a million rows and more, in place of Higgs and RecSys."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from research.sets.base import (
    SPLIT_SEED,
    Part,
    PreparedSet,
    SetInfo,
    as_part,
    read_parquet,
    split_at_random,
)
from research.sets.published import read_ieee, read_sba, tuned

__all__ = ["LARGE_SETS", "synthetic"]

_PARAMETERS = tuned(200, 0.1, 31, 20, 1e-3, 1.0, 0.0, 1.0)


def _flights(folder: Path | None) -> PreparedSet:
    table = read_parquet("flights_3m.parquet", folder)
    late = table.pop("delay") > 15
    days = table.pop("date").astype("datetime64[ns]").astype(np.int64) / 86_400e9
    table |= {"day": np.floor(days), "time": days % 1.0, "weekday": np.floor(days) % 7}
    texts = ("origin", "destination")
    return split_at_random("flights", as_part(table, late, texts), texts)


def _covertype(folder: Path | None) -> PreparedSet:
    table = read_parquet("covtype.parquet", folder)
    target = table.pop("Cover_Type") == 2
    return split_at_random("covertype", as_part(table, target, ()), ())


def _whole_sba(folder: Path | None) -> PreparedSet:
    rows, texts = read_sba(folder)
    return split_at_random("whole sba", rows, texts)


def _whole_ieee(folder: Path | None) -> PreparedSet:
    rows, texts = read_ieee(folder)
    return split_at_random("whole ieee", rows, texts)


def synthetic(n_rows: int, seed: int = SPLIT_SEED) -> PreparedSet:
    """Rows as Higgs has them: 28 numbers, a target that depends on some and their products.

    The last tenth is for testing.
    """
    rng = np.random.default_rng(seed)
    columns = {f"x{i}": rng.normal(size=n_rows).astype(np.float32) for i in range(28)}
    x = list(columns.values())
    score = x[0] + 0.8 * x[1] * x[2] + np.sin(3 * x[3]) + 0.6 * (x[4] > x[5]) + 0.4 * x[6] ** 2
    y = (score + rng.logistic(size=n_rows).astype(np.float32) > 0.8).astype(np.int64)
    cut = n_rows * 9 // 10
    train, test = (
        Part({name: column[rows] for name, column in columns.items()}, y[rows])
        for rows in (slice(None, cut), slice(cut, None))
    )
    return PreparedSet("synthetic", train, test, ())


LARGE_SETS: dict[str, SetInfo] = {
    "flights": SetInfo("Flights, 3M x 6", _flights, stands_in=True, **_PARAMETERS),
    "whole sba": SetInfo("SBA loans, 897k x 21", _whole_sba, stands_in=True, **_PARAMETERS),
    "covertype": SetInfo("Covertype, 581k x 54", _covertype, stands_in=True, **_PARAMETERS),
    "whole ieee": SetInfo("IEEE fraud, 591k x 120", _whole_ieee, stands_in=True, **_PARAMETERS),
    "synthetic": SetInfo(
        "Synthetic, 11M x 28", lambda _: synthetic(11_000_000), stands_in=True, **_PARAMETERS
    ),
    "small synthetic": SetInfo(
        "Synthetic, 100k x 28", lambda _: synthetic(100_000), stands_in=True, **_PARAMETERS
    ),
}
"""Sets for the experiment on large data; the last is for a quick run, it needs no file."""
