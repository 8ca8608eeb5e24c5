"""The data of the benchmark: synthetic tables, and real ones from the folder MVSBOOST_DATA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from mvsboost.datasets import data_path, load_adult


@dataclass(frozen=True)
class Data:
    """A table for binary classification, cut into a training and a test part."""

    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray


@dataclass(frozen=True)
class Case:
    """Data and the shape of the trees."""

    name: str
    load: Callable[[], Data]
    leaves: int = 31
    iterations: int = 20


def synthetic(n_rows: int, n_features: int = 28, seed: int = 0) -> Data:
    """Interactions, curves and noise, float32, as many test rows as a fifth, at most 200,000."""
    rng = np.random.default_rng(seed)
    n_test = min(n_rows // 5, 200_000)
    X = rng.normal(size=(n_rows + n_test, n_features)).astype(np.float32)
    signal = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] + 0.5 * X[:, 4] ** 2
    signal += 0.3 * X[:, 5] * X[:, 6] - np.abs(X[:, 7])
    y = (signal + rng.normal(size=len(X)) > 0).astype(np.int64)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(n_features)])
    return Data(frame[:n_rows], y[:n_rows], frame[n_rows:], y[n_rows:])


def _parquet(name: str) -> pd.DataFrame:
    return pd.read_parquet(data_path(f"{name}.parquet"))


def _split(frame: pd.DataFrame, y: pd.Series) -> Data:
    """A fixed random fifth is the test part; text becomes categories."""
    for column in frame.select_dtypes(exclude=["number", "bool"]):
        frame[column] = frame[column].astype("category")
    X, X_test, y, y_test = train_test_split(
        frame, np.asarray(y, np.int64), test_size=0.2, random_state=0, stratify=y
    )
    return Data(X, y, X_test, y_test)


def covertype() -> Data:
    table = _parquet("covtype")
    return _split(table.drop(columns="Cover_Type"), table["Cover_Type"] == 2)


def flights() -> Data:
    table = _parquet("flights_3m").dropna(subset=["delay"])
    date = pd.to_datetime(table["date"])
    features = table[["distance", "origin", "destination"]].assign(
        minute=(date.dt.hour * 60 + date.dt.minute + 1440 * date.dt.dayofweek).astype(np.int32)
    )
    return _split(features, table["delay"] > 15)


def sba_loans() -> Data:
    table = _parquet("sba_loans").dropna(subset=["MIS_Status"])
    y = table["MIS_Status"] == "CHGOFF"
    table = table.drop(columns=["MIS_Status", "ChgOffDate", "ChgOffPrinGr", "BalanceGross"])
    for column in table.columns:
        if "date" in column.lower():
            table[column] = pd.to_datetime(table[column], errors="coerce").map(
                lambda d: d.toordinal() if d == d else np.nan
            )
    return _split(table, y)


def ieee_fraud() -> Data:
    table = _parquet("ieee_fraud")
    return _split(table.drop(columns="isFraud"), table["isFraud"])


def adult() -> Data:
    table = load_adult()
    return _split(pd.DataFrame(table.data), pd.Series(table.target))


CASES = {
    case.name: case
    for case in (
        Case("1M x 28", lambda: synthetic(1_000_000)),
        Case("1M x 28, 255 leaves", lambda: synthetic(1_000_000), leaves=255),
        Case("Covertype", covertype),
        Case("flights", flights),
        Case("SBA loans", sba_loans),
        Case("IEEE fraud", ieee_fraud),
        Case("Adult", adult, iterations=50),
    )
}

REAL = ("Covertype", "flights", "SBA loans", "IEEE fraud", "Adult")
