"""Time on a GPU: iterations by stage, the first fit, and XGBoost in turn where it is installed.

    python benchmarks/gpu.py --rows 11000000

The table has 28 numeric columns and two classes that depend on 12 of them. Its rows are binned
once, on the GPU where CuPy is installed, as XGBoost's are; iterations are those of `train`, and of
`xgboost.train` on a `QuantileDMatrix`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from mvsboost.boosting import TrainConfig, train
from mvsboost.callbacks import Callback, Progress
from mvsboost.data import Dataset
from mvsboost.objectives import Logistic
from mvsboost.sampling import MVS, NoSampling, Sampler
from mvsboost.trees import TreeParams

RATE, L2 = 0.1, 1.0
WARM_UP = 12
"""Iterations that are not timed: kernels are compiled, and programs recorded."""


def make_table(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """28 columns, and a target that depends on 12 of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 28), dtype=np.float32)
    score = X[:, 0] * X[:, 1] + X[:, 2] - X[:, 3] ** 2 + np.sin(2 * X[:, 4]) * X[:, 5]
    score += np.abs(X[:, 6]) * (X[:, 7] > 0) + 0.5 * X[:, 8] * X[:, 9] * X[:, 10] + X[:, 11]
    return X, (score + rng.logistic(size=n) > 0).astype(np.float64)


@dataclass
class Clock(Callback):
    """Notes when iterations end."""

    ends: list[float] = field(default_factory=list)

    def after_iteration(self, progress: Progress) -> str | None:
        self.ends.append(time.perf_counter())
        return None

    @property
    def milliseconds(self) -> float:
        """Of an iteration, the median."""
        return statistics.median(np.diff(self.ends)[WARM_UP:]) * 1e3


def config(sampler: Sampler, iterations: int, **options: Any) -> TrainConfig:
    """The configuration of a classifier on the GPU."""
    leaf_values = options.pop("leaf_values", "all")
    tree = {"max_leaves": None, "max_depth": 8, "min_samples_leaf": 20, "l2": L2, **options}
    return TrainConfig(
        objective=Logistic(),
        sampler=sampler,
        n_estimators=iterations,
        learning_rate=RATE,
        tree=TreeParams(**tree),
        leaf_values=leaf_values,
        device="cuda",
    )


CASES: dict[str, tuple[Sampler, dict[str, Any]]] = {
    "depth 8, MVS 0.1, leaves of the sample": (MVS(0.1), {"leaf_values": "sample"}),
    "depth 8, MVS 0.1": (MVS(0.1), {}),
    "depth 6, MVS 0.1": (MVS(0.1), {"max_depth": 6}),
    "depth 8, MVS 0.3": (MVS(0.3), {}),
    "depth 8, MVS 0.1, second look 4": (MVS(0.1), {"second_look": 4}),
    "depth 8, all rows": (NoSampling(), {}),
    "31 leaves, MVS 0.1": (MVS(0.1), {"max_leaves": 31, "max_depth": None}),
}

PEERS: dict[str, dict[str, Any]] = {
    "XGBoost, depth 8": {"max_depth": 8},
    "XGBoost, depth 6": {"max_depth": 6},
    "XGBoost, depth 8, gradient_based 0.1": {
        "max_depth": 8,
        "sampling_method": "gradient_based",
        "subsample": 0.1,
    },
}


def time_ours(dataset: Dataset, name: str, iterations: int) -> float:
    sampler, options = CASES[name]
    clock, begun = Clock(), time.perf_counter()
    result = train(dataset, config(sampler, iterations, **options), callbacks=[clock])
    stages = sorted(result.stage_times.items(), key=lambda stage: -stage[1])
    mean = ", ".join(f"{verb} {seconds / iterations * 1e3:.3f}" for verb, seconds in stages)
    print(f"{name}: first iteration after {clock.ends[0] - begun:.1f} s; mean ms by stage: {mean}")
    return clock.milliseconds


def xgboost_parameters(options: dict[str, Any]) -> dict[str, Any]:
    own = {"objective": "binary:logistic", "tree_method": "hist", "max_bin": 256}
    return {**own, "device": "cuda", "eta": RATE, "lambda": L2, **options}


def time_xgboost(matrix: Any, name: str, iterations: int) -> float:
    import xgboost

    ends: list[float] = []

    class Ends(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            ends.append(time.perf_counter())
            return False

    xgboost.train(xgboost_parameters(PEERS[name]), matrix, iterations, callbacks=[Ends()])
    return statistics.median(np.diff(ends)[WARM_UP:]) * 1e3


def race(X: np.ndarray, y: np.ndarray, dataset: Dataset, matrix: Any) -> None:
    """Seconds to the test AUC that XGBoost has after 200 iterations; prediction is not timed."""
    import xgboost

    begun = time.perf_counter()
    model = xgboost.train(xgboost_parameters({"max_depth": 8}), matrix, 200)
    seconds = time.perf_counter() - begun
    X_test, y_test = make_table(500_000, seed=1)
    target = roc_auc_score(y_test, model.predict(xgboost.DMatrix(X_test)))
    print(f"XGBoost, depth 8, 200 iterations: {seconds:.2f} s, test AUC {target:.5f}")
    clock, begun = Clock(), time.perf_counter()
    ours = train(dataset, config(MVS(0.1), 400), callbacks=[clock]).model
    bins = Dataset.from_data(
        X_test, y_test, n_classes=2, mapper=dataset.mapper, schema=dataset.schema
    ).rows.bins

    def auc(iterations: int) -> float:
        return roc_auc_score(y_test, ours.raw_scores(bins, iterations, os.cpu_count() or 1)[0])

    low, high = 1, 400
    while low < high:  # the fewest iterations that have it, as AUC grows with them
        middle = (low + high) // 2
        low, high = (low, middle) if auc(middle) >= target else (middle + 1, high)
    own = clock.ends[low - 1] - begun
    print(f"MVS 0.1, depth 8: test AUC {auc(low):.5f} at iteration {low} after {own:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=11_000_000)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    options = parser.parse_args()
    X, y = make_table(options.rows)
    where, own = "host", X
    if importlib.util.find_spec("cupy"):
        import cupy

        where, own = "GPU", cupy.asarray(X)
    begun = time.perf_counter()
    dataset = Dataset.from_data(own, y, n_classes=2, n_threads=os.cpu_count() or 1)
    print(f"binned on the {where} in {time.perf_counter() - begun:.1f} s")
    run: dict[str, Callable[[str], float]] = {
        name: lambda name: time_ours(dataset, name, options.iterations) for name in options.cases
    }
    matrix = None
    if importlib.util.find_spec("xgboost"):
        import xgboost

        begun = time.perf_counter()
        matrix = xgboost.QuantileDMatrix(X, y, max_bin=256)
        print(f"QuantileDMatrix {xgboost.__version__} in {time.perf_counter() - begun:.1f} s")
        run |= {name: lambda name: time_xgboost(matrix, name, options.iterations) for name in PEERS}
    found: dict[str, list[float]] = {name: [] for name in run}
    for _ in range(options.rounds):
        for name, measure in run.items():
            found[name].append(measure(name))
    for name, times in found.items():
        print(f"{name}: {statistics.median(times):.2f} ms an iteration")
    if matrix is not None:
        race(X, y, dataset, matrix)


if __name__ == "__main__":
    main()
