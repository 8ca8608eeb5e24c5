"""A user's whole fit beside LightGBM's: pandas in, early stopping, default settings.

    python benchmarks/fits.py [--sets Adult ...] [--rounds 3]

Both libraries get the same tables with columns of the type ``category``, the same validation part
to stop early by, and two threads. Ingestion and binning count. Rounds alternate in one process,
after a fit of each that does not count; figures are medians, kept by set in the file of results.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
from cases import CASES, REAL
from contenders import THREADS
from record import RESULTS, merge, open_for
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from mvsboost import MVSClassifier
from mvsboost.callbacks import Callback, Progress
from mvsboost.datasets import data_path

SMALL = 30
"""Sets of the suite: every fourth of its index."""
MOST_TREES, PATIENCE = {"LightGBM": 1000, "mvsboost": 2000}, 50
"""Trees that a fit may have, since a sample needs more of them; and how long none is better."""

Parts = tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]
Watch = Callable[[float], None]
"""Called with the loss of the validation part after each iteration."""


def small_sets() -> list[str]:
    """Names of every fourth set of the suite."""
    index = pd.read_csv(data_path("suite/INDEX.csv"))
    return [f"suite/{name}" for name in index["name"][::4]][:SMALL]


def load(name: str) -> tuple[Parts, pd.DataFrame, np.ndarray]:
    """Training and validation part, and the test part: 64, 16 and 20% of the rows."""
    if name in CASES:
        data = CASES[name].load()
        X, y, X_test, y_test = data.X, data.y, data.X_test, data.y_test
    else:
        table = pd.read_parquet(data_path(f"{name}.parquet"))
        target = np.asarray(table.pop("target"), np.int64)
        for column in table.select_dtypes(exclude=["number", "bool"]):
            table[column] = table[column].astype("category")
        # LightGBM takes no names with brackets or colons
        table.columns = [f"{re.sub(r'[^A-Za-z0-9]', '_', c)}_{j}" for j, c in enumerate(table)]
        X, X_test, y, y_test = _split(table, target)
    X, X_valid, y, y_valid = _split(X, y)
    return (X, y, X_valid, y_valid), X_test, y_test


def _split(X: pd.DataFrame, y: np.ndarray) -> Any:
    return train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)


# --- contenders ---------------------------------------------------------------------------------


def fit_lightgbm(parts: Parts, watch: Watch) -> Any:
    """LightGBM with its defaults."""
    X, y, X_valid, y_valid = parts
    model = lightgbm.LGBMClassifier(
        n_estimators=MOST_TREES["LightGBM"], n_jobs=THREADS, verbosity=-1
    )
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)

    def after(env: Any) -> None:
        watch(env.evaluation_result_list[0][2])

    after.order = 0  # type: ignore[attr-defined]  # before the one that stops
    return model.fit(X, y, eval_set=[(X_valid, y_valid)], callbacks=[after, stop])


def fit_ours(parts: Parts, watch: Watch) -> Any:
    """This library with its defaults."""

    class Watching(Callback):
        def after_iteration(self, progress: Progress) -> None:
            (loss,) = progress.latest().values()
            watch(loss)

    X, y, X_valid, y_valid = parts
    model = MVSClassifier(
        n_estimators=MOST_TREES["mvsboost"],
        n_jobs=THREADS,
        early_stopping_rounds=PATIENCE,
        callbacks=[Watching()],
    )
    return model.fit(X, y, eval_set=[(X_valid, y_valid)])


CONTENDERS: dict[str, Callable[[Parts, Watch], Any]] = {
    "LightGBM": fit_lightgbm,
    "mvsboost": fit_ours,
}


# --- measures -----------------------------------------------------------------------------------


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Seconds to the end of a fit, seconds to LightGBM's best validation loss, and test loss."""
    parts, X_test, y_test = load(name)
    runs: dict[str, list[tuple[float, list[tuple[float, float]], float]]] = {}
    for turn in range(rounds + 1):
        for who, fit in CONTENDERS.items():
            curve: list[tuple[float, float]] = []
            start = time.perf_counter()

            def watch(
                loss: float,
                curve: list[tuple[float, float]] = curve,
                start: float = start,
            ) -> None:
                curve.append((time.perf_counter() - start, loss))

            model = fit(parts, watch)
            spent = time.perf_counter() - start
            if turn > 0:
                loss = float(log_loss(y_test, model.predict_proba(X_test)))
                runs.setdefault(who, []).append((spent, curve, loss))
    # its threads' sums differ from run to run, and all its runs reach the worst of their best
    target = max(min(loss for _, loss in curve) for _, curve, _ in runs["LightGBM"])
    return {
        "rows": len(parts[0]),
        "features": parts[0].shape[1],
        "target": target,
        "rounds": rounds,
        "contenders": {who: _summary(found, target) for who, found in runs.items()},
    }


def _summary(
    runs: list[tuple[float, list[tuple[float, float]], float]], target: float
) -> dict[str, Any]:
    reached = [next((t for t, loss in curve if loss <= target), None) for _, curve, _ in runs]
    return {
        "seconds": statistics.median(spent for spent, _, _ in runs),
        "first": statistics.median(curve[0][0] for _, curve, _ in runs),
        "to_loss": None if None in reached else statistics.median(t for t in reached if t),
        "valid": min(loss for _, curve, _ in runs for _, loss in curve),
        "test": statistics.median(loss for _, _, loss in runs),
        "trees": statistics.median(len(curve) for _, curve, _ in runs),
    }


def lines(sets: dict[str, Any], header: bool) -> Iterator[str]:
    """A line a set: seconds to the end, seconds to LightGBM's loss, and test loss."""
    if header:
        yield f"{'':28s} {'LightGBM: s':>12s} {'to loss':>8s} {'ours: s':>8s} {'to loss':>8s}" + (
            f" {'ratio':>6s} {'loss':>8s} {'ours':>8s}"
        )
    for name, found in sets.items():
        base, ours = found["contenders"]["LightGBM"], found["contenders"]["mvsboost"]
        to_loss = "–" if ours["to_loss"] is None else f"{ours['to_loss']:8.2f}"
        ratio = "–" if ours["to_loss"] is None else f"{base['to_loss'] / ours['to_loss']:6.2f}"
        yield (
            f"{name:28s} {base['seconds']:12.2f} {base['to_loss']:8.2f} {ours['seconds']:8.2f} "
            f"{to_loss:>8s} {ratio:>6s} {base['test']:8.4f} {ours['test']:8.4f}"
        )


def main() -> None:
    """Measure, keep and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", help="default: five large sets and 30 small ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    open_for(options.out)
    for number, name in enumerate(options.sets or [*small_sets(), *REAL]):
        found = {name: measure(name, options.rounds)}
        merge(options.out, {"fits": found})
        print(*lines(found, header=number == 0), sep="\n", flush=True)


if __name__ == "__main__":
    main()
