"""Arrays of CuPy and PyTorch on a GPU: the same bits as from the host, and how long bins take.

    python benchmarks/gpu_arrays.py --rows 11000000

First models and predictions of arrays on both sides are compared, byte for byte. Then the table of
`gpu.py` becomes bins, and `xgboost.QuantileDMatrix` in turn where XGBoost is installed; the first
round of each is left out. Needs CuPy; PyTorch's tensors are compared where it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
from gpu import make_table

from mvsboost import MVSClassifier, MVSRegressor
from mvsboost.data import Dataset, Schema, find_edges, ingest
from mvsboost.data.binning import SAMPLE_ROWS, BinMapper, sampled_rows

THREADS = os.cpu_count() or 1


def timed(work: Callable[[], Any], rounds: int) -> float:
    """Median seconds, after a first time that does not count."""
    seconds = []
    for _ in range(rounds + 1):
        cupy.cuda.Device().synchronize()
        begun = time.perf_counter()
        work()
        cupy.cuda.Device().synchronize()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds[1:])


def ways() -> dict[str, Callable[[np.ndarray], Any]]:
    """From an array on the host to one on the GPU."""
    found: dict[str, Callable[[np.ndarray], Any]] = {
        "CuPy": cupy.asarray,
        "CuPy, order F": lambda x: cupy.asfortranarray(cupy.asarray(x)),
        "CuPy, float64": lambda x: cupy.asarray(x, dtype=cupy.float64),
        "CuPy, every second row": lambda x: cupy.repeat(cupy.asarray(x), 2, axis=0)[::2],
        "CuPy, backwards twice": lambda x: cupy.asarray(x[::-1].copy())[::-1],
    }
    if importlib.util.find_spec("torch"):
        import torch

        found["PyTorch"] = lambda x: torch.as_tensor(x.copy(), device="cuda")
    return found


def compare(n: int) -> None:
    """Models and predictions of arrays on either side."""
    X, y = make_table(n)
    rng = np.random.default_rng(3)
    X[rng.random(X.shape) < 0.02] = np.nan
    X[:5, 0], X[5:9, 0], X[:, 27] = np.inf, -np.inf, np.nan
    X[:, 26] = rng.integers(0, 20, n)
    held_out, labels = make_table(n // 4, seed=1)
    size = {"n_estimators": 20, "max_depth": 6, "max_leaves": None, "device": "cuda"}
    classes = {**size, "validation_fraction": 0.2}
    numbers = {**size, "categorical_features": [26]}
    for kind, options in ((MVSClassifier, classes), (MVSRegressor, numbers)):
        host = kind(**options).fit(X, y, eval_set=[(held_out, labels)])
        expected = json.dumps(host.model_.to_dict())
        asked = ["predict", "predict_proba"] if kind is MVSClassifier else ["predict"]
        for name, put in ways().items():
            seen = kind(**options).fit(put(X), put(y), eval_set=[(put(held_out), put(labels))])
            assert json.dumps(seen.model_.to_dict()) == expected, (kind.__name__, name)
            for method in asked:
                for rows in (X, held_out):
                    found = getattr(seen, method)(put(rows))
                    assert np.array_equal(found, getattr(host, method)(rows)), (name, method)
            print(f"{kind.__name__}, {name}: the same bytes, the same predictions")


def time_parts(X: Any, rounds: int) -> None:
    """What bins are made of."""
    columns = ingest(X)
    rows = sampled_rows(columns.n_rows, 0, SAMPLE_ROWS)
    schema = Schema.from_columns(columns)
    mapper = BinMapper.fit(columns, schema)
    parts: dict[str, Callable[[], Any]] = {
        "missing columns": lambda: Schema.from_columns(ingest(X)),
        "rows of the sample": lambda: sampled_rows(columns.n_rows, 0, SAMPLE_ROWS),
        "their values": lambda: ingest(X).columns[0].sample(rows),
        "edges of a column": lambda: find_edges(columns.columns[0].sample(rows)),
        "bins": lambda: mapper.transform(columns, THREADS),
    }
    for name, work in parts.items():
        print(f"  {name}: {timed(work, rounds) * 1e3:.1f} ms")


def time_bins(n: int, rounds: int) -> None:
    X, y = make_table(n)
    own, target = cupy.asarray(X), cupy.asarray(y)
    run: dict[str, Callable[[], Any]] = {
        "Dataset.from_data, X on the GPU": lambda: Dataset.from_data(
            own, y, n_classes=2, n_threads=THREADS
        ),
        "Dataset.from_data, X and y on the GPU": lambda: Dataset.from_data(
            own, target, n_classes=2, n_threads=THREADS
        ),
    }
    if importlib.util.find_spec("xgboost"):
        import xgboost

        run["QuantileDMatrix, X and y on the GPU"] = lambda: xgboost.QuantileDMatrix(
            own, target, max_bin=256
        )
    for name, work in run.items():
        print(f"{name}: {timed(work, rounds):.3f} s")
    time_parts(own, rounds)
    run = {"host": lambda: Dataset.from_data(X, y, n_classes=2, n_threads=THREADS)}
    print(f"Dataset.from_data, X on the host: {timed(run['host'], 1):.3f} s")
    model = MVSClassifier(n_estimators=100, max_depth=8, device="cuda").fit(own, y)
    for name, rows in (("the GPU", own), ("the host", X)):
        seconds = timed(lambda rows=rows: model.decision_function(rows), min(rounds, 2))
        print(f"decision_function of {n:,} rows on {name}, 100 trees: {seconds:.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=11_000_000)
    parser.add_argument("--compared", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    compare(options.compared)
    time_bins(options.rows, options.rounds)


if __name__ == "__main__":
    main()
