"""Long runs and large ones: many trees, columns, fits, and predictions at once.

    python -m tests.soak                # some minutes
    python -m tests.soak --share 0.05

Prints what was measured; the exit code is 1 where memory, threads or files grow, or bytes differ.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from mvsboost import MVSClassifier, MVSRegressor

MIB = 1 << 20


def resident() -> float:
    """MiB of memory in use, after what can be given back was."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def handles() -> int:
    return len(os.listdir("/proc/self/fd"))


def table(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 1_000, (n, 8)).astype(np.float64)
    return X, X[:, 0] * 0.01 + np.sin(X[:, 1]) + rng.integers(0, 5, n)


def many_trees(n: int) -> list[str]:
    """One model of so many trees: finite, and the same from its file."""
    X, y = table(2_000)
    model = MVSRegressor(n_estimators=n, learning_rate=0.01, n_jobs=2).fit(X, y)
    predictions = model.predict(X)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json.gz"
        model.save(path)
        size = path.stat().st_size / MIB
        again = MVSRegressor.load(path).predict(X)
    print(f"{model.n_iter_:,} trees: R2 {model.score(X, y):.4f}, {size:.1f} MiB gzipped")
    same = np.array_equal(predictions, again) and np.isfinite(predictions).all()
    return [] if same and model.n_iter_ == n else ["a model of many trees changed in its file"]


def many_fits(n: int) -> list[str]:
    """Fits and files of both kinds; memory after a tenth of them and after all."""
    X, y = table(3_000)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [3.0, 8.0])]
    marks: list[tuple[float, int, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(n):
            clf = MVSClassifier(n_estimators=5, n_jobs=2, random_state=i).fit(X, labels)
            clf.save(Path(folder) / "model.json")
            MVSClassifier.load(Path(folder) / "model.json").predict_proba(X)
            MVSRegressor(n_estimators=5, n_jobs=2, validation_fraction=0.2).fit(X, y).predict(X)
            if i in (n // 10, n - 1):
                marks.append((resident(), threading.active_count(), handles()))
    (before, threads, files), (after, threads_after, files_after) = marks
    print(
        f"{2 * n:,} fits: {before:.0f} to {after:.0f} MiB, {threads} to {threads_after} threads, "
        f"{files} to {files_after} files open"
    )
    grown = after > before + 30.0 or threads_after > threads or files_after > files
    return ["a process of many fits grows"] if grown else []


def many_predictions(n: int) -> list[str]:
    """Predictions from eight threads: each the same as alone."""
    X, y = table(20_000)
    model = MVSRegressor(n_estimators=50, n_jobs=2).fit(X, y)
    parts = [slice(0, size) for size in (1, 7, 500, 5_000, 20_000)]
    expected = [model.predict(X[part]) for part in parts]

    def one(i: int) -> bool:
        part = i % len(parts)
        return np.array_equal(model.predict(X[parts[part]]), expected[part])

    before = resident()
    with ThreadPoolExecutor(8) as pool:
        different = n - sum(pool.map(one, range(n)))
    after = resident()
    print(
        f"{n:,} predictions from 8 threads: {different} differ, {before:.0f} to {after:.0f} MiB, "
        f"{threading.active_count()} threads left"
    )
    return ["predictions from threads differ or grow"] if different or after > before + 60 else []


def many_columns(n: int) -> list[str]:
    """A table of so many columns, of which the last one tells."""
    x = np.tile(np.arange(12.0)[:, None] % 3, (1, n))
    x[:, -1] = np.arange(12.0)
    model = MVSRegressor(n_estimators=1, learning_rate=1.0, min_samples_leaf=1, l2=0.0, n_jobs=2)
    found = model.set_params(sampler="none", max_leaves=12).fit(x, x[:, -1]).predict(x)
    error = float(np.abs(found - x[:, -1]).max())
    print(f"{n:,} columns: largest error {error:.1e}")
    return [] if error < 1e-4 else ["a table of many columns is not learned"]


FIRST_FIT = """
import hashlib
from tests import soak
X, y = soak.table(60_000)
model = soak.MVSRegressor(n_estimators=5, n_jobs=2).fit(X, y)
print(hashlib.sha256(model.predict(X).tobytes()).hexdigest())
"""


def first_fits_at_once(n: int) -> list[str]:
    """Processes that compile into one empty cache; one more finds all of it there."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}

        def first(_: int) -> tuple[str, str]:
            command = [sys.executable, "-c", FIRST_FIT]
            ended = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
            return ended.stdout, ended.stderr

        with ThreadPoolExecutor(n) as pool:
            found = list(pool.map(first, range(n)))
        found.append(first(n))
    print(f"{n} first fits at once: {len({said for said, _ in found})} result")
    same = found[0][0] != "" and {said for said, _ in found} == {found[0][0]}
    return [] if same and not found[-1][1] else [f"first fits at once: {found}"]


def interrupts(n: int) -> list[str]:
    """Seconds from Ctrl-C in the midst of a fit to its end, on a larger table."""
    X, y = table(500_000)
    model, took = MVSRegressor(n_estimators=5, n_jobs=2).fit(X, y), []
    expected = model.predict(X[:100])
    model.set_params(n_estimators=100_000)
    for i in range(n):
        sent: list[float] = []

        def send(sent: list[float] = sent) -> None:
            sent.append(time.monotonic())
            signal.raise_signal(signal.SIGINT)

        timer = threading.Timer(0.5 + 0.1 * i, send)
        timer.start()
        try:
            model.fit(X, y)
        except KeyboardInterrupt:
            took.append(time.monotonic() - sent[0])
    took.sort()
    print(f"{n} interrupted fits: {took[n // 2]:.2f} s in the median, {took[-1]:.2f} at most")
    same = np.array_equal(model.predict(X[:100]), expected)
    return [] if same and took[-1] < 1.0 else ["an interrupt takes long or changes the estimator"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of what is done")
    share = parser.parse_args().share
    found = first_fits_at_once(3)
    found += interrupts(20)
    found += many_columns(int(70_000 * share))
    found += many_trees(int(10_000 * share))
    found += many_fits(int(1_000 * share))
    found += many_predictions(int(20_000 * share))
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
