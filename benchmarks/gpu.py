"""Time on a GPU: an iteration by stage, first fits, and XGBoost beside it where it is installed.

    python benchmarks/gpu.py --rows 11000000

The table has 28 numeric columns and two classes that depend on 12 of them. Its rows are binned
once; iterations are those of `train`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

import numpy as np

from mvsboost.boosting import TrainConfig, train
from mvsboost.callbacks import Callback, Progress
from mvsboost.data import Dataset
from mvsboost.objectives import Logistic
from mvsboost.sampling import MVS, NoSampling, Sampler
from mvsboost.trees import TreeParams

WARM_UP = 12


def make_table(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """28 columns, and a target that depends on 12 of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 28), dtype=np.float32)
    score = X[:, 0] * X[:, 1] + X[:, 2] - X[:, 3] ** 2 + np.sin(2 * X[:, 4]) * X[:, 5]
    score += np.abs(X[:, 6]) * (X[:, 7] > 0) + 0.5 * X[:, 8] * X[:, 9] * X[:, 10] + X[:, 11]
    return X, (score + rng.logistic(size=n) > 0).astype(np.float64)


class Clock(Callback):
    """Notes when iterations end."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def after_iteration(self, progress: Progress) -> str | None:
        self.at.append(time.perf_counter())
        return None


def config(sampler: Sampler, iterations: int, **options: Any) -> TrainConfig:
    """The configuration of a classifier on the GPU."""
    leaf_values = options.pop("leaf_values", "all")
    device = options.pop("device", "cuda")
    tree = {"max_leaves": None, "max_depth": 8, "min_samples_leaf": 20, "l2": 1.0, **options}
    return TrainConfig(
        objective=Logistic(),
        sampler=sampler,
        n_estimators=iterations,
        tree=TreeParams(**tree),
        leaf_values=leaf_values,
        device=device,
    )


CASES = {
    "depth 8, MVS 0.1, leaves of the sample": (MVS(0.1), {"leaf_values": "sample"}),
    "depth 8, MVS 0.1": (MVS(0.1), {}),
    "depth 6, MVS 0.1": (MVS(0.1), {"max_depth": 6}),
    "depth 8, MVS 0.3": (MVS(0.3), {}),
    "depth 8, all rows": (NoSampling(), {}),
    "31 leaves, MVS 0.1": (MVS(0.1), {"max_leaves": 31, "max_depth": None}),
    "depth 8, MVS 0.1, second look 4": (MVS(0.1), {"second_look": 4}),
}


def time_case(dataset: Dataset, name: str, iterations: int) -> None:
    sampler, options = CASES[name]
    clock = Clock()
    begun = time.perf_counter()
    result = train(dataset, config(sampler, iterations, **options), callbacks=[clock])
    steps = np.diff(clock.at)[WARM_UP:] * 1e3
    print(
        f"{name}: {statistics.median(steps):.3f} ms an iteration (of {len(steps)}; "
        f"first {clock.at[0] - begun:.2f} s, all {time.perf_counter() - begun:.2f} s)"
    )
    per = {k: v / iterations * 1e3 for k, v in result.stage_times.items()}
    print("   ", ", ".join(f"{k} {v:.3f}" for k, v in sorted(per.items(), key=lambda x: -x[1])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=11_000_000)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    options = parser.parse_args()
    X, y = make_table(options.rows)
    begun = time.perf_counter()
    dataset = Dataset.from_data(X, y, n_classes=2, n_threads=os.cpu_count() or 1)
    print(f"binned on the host in {time.perf_counter() - begun:.1f} s")
    for name in options.cases:
        time_case(dataset, name, options.iterations)


if __name__ == "__main__":
    main()
