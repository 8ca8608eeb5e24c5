"""SHAP values beside LightGBM's `pred_contrib`: 100 trees of 31 leaves.

    python benchmarks/contributions.py [--rows 100000] [--rounds 3]

Both explain the same trees: ours, and the same exported. Rounds alternate; medians.
"""

from __future__ import annotations

import argparse
from statistics import median

import numpy as np
from cases import synthetic
from contenders import THREADS, seconds

from mvsboost import MVSClassifier


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    data = synthetic(options.rows)
    model = MVSClassifier(n_jobs=THREADS).fit(data.X, data.y)
    booster = model.to_lightgbm()
    model.predict_contributions(data.X[:100])
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(options.rounds):
        spent, found = seconds(lambda: model.predict_contributions(data.X))
        ours.append(spent)
        spent, expected = seconds(
            lambda: booster.predict(data.X, pred_contrib=True, num_threads=THREADS)
        )
        theirs.append(spent)
    print(f"mvsboost {median(ours):.2f} s, LightGBM {median(theirs):.2f} s")
    print(f"largest difference {np.abs(found - expected).max():.1e}")


if __name__ == "__main__":
    main()
