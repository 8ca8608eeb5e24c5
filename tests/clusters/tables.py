"""Tables of every kind of column, whole and in partitions."""

from typing import NamedTuple

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd


class Sets(NamedTuple):
    X: pd.DataFrame
    y: pd.Series
    weight: pd.Series

    def parts(self, n=5):
        return Sets(*(dd.from_pandas(one, npartitions=n, sort=False) for one in self))

    def first(self, n):
        return Sets(*(one[:n] for one in self))


def mixed(n=3_000, seed=0):
    """Numbers, missing values, few and many categories, times, and classes as text."""
    r = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "number": r.normal(size=n),
            "single": r.normal(size=n).astype(np.float32),
            "integer": r.integers(0, 9, n),
            "colour": r.choice(["red", "green", "blue"], n),
            "town": r.choice([f"town {i}" for i in range(300)], n),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(r.integers(0, 900, n), unit="h"),
        }
    )
    X["kind"] = pd.Categorical(r.choice(["a", "b"], n), categories=["b", "a", "unused"])
    X.loc[::7, "number"] = np.nan
    X.loc[::11, "colour"] = None
    signal = X.number.fillna(0) + X.integer / 4 + (X.colour == "red") + r.normal(size=n)
    y = pd.Series(np.where(signal > 1, "yes", "no"), name="y")
    return Sets(X, y, pd.Series(r.uniform(0.5, 2.0, n)))


def numbers(n=2_000, seed=1):
    """An array of numbers and a target that is one."""
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, 5))
    return X, X[:, 0] * 2.0 + np.abs(X[:, 1]) + r.normal(size=n)


def as_arrays(X, y, rows=600):
    return da.from_array(X, chunks=(rows, 3)), da.from_array(y, chunks=rows)
