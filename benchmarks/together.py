"""Fits at once in threads of one process: seconds, with cores shared and with each fit taking all.

python benchmarks/together.py [--rows 200000] [--rounds 5]
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from time import perf_counter

import numpy as np

from mvsboost import MVSRegressor
from mvsboost.runtime.threads import ThreadPool

SHARE = ThreadPool._share


def seconds(n_fits: int, X: np.ndarray, y: np.ndarray, *, shared: bool) -> float:
    """Of so many fits of 30 trees, all at once."""
    ThreadPool._share = SHARE if shared else lambda self: self.n_threads
    start = perf_counter()
    with ThreadPoolExecutor(n_fits) as pool:
        list(pool.map(lambda i: MVSRegressor(n_estimators=30).fit(X, y), range(n_fits)))
    return perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    X = np.random.default_rng(0).normal(size=(options.rows, 20)).astype(np.float32)
    y = X[:, 0] + np.abs(X[:, 1])
    seconds(1, X, y, shared=True)
    print("fits at once    shared    each takes all    ratio")
    for n_fits in (1, 2, 4):
        rounds = [
            (seconds(n_fits, X, y, shared=True), seconds(n_fits, X, y, shared=False))
            for _ in range(options.rounds)
        ]
        one, other = (median(times) for times in zip(*rounds, strict=True))
        ratio = median(b / a for a, b in rounds)
        print(f"{n_fits:12d} {one:8.2f} s {other:12.2f} s {ratio:12.2f}")


if __name__ == "__main__":
    main()
