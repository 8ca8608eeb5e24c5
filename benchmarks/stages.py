"""Where the time of an iteration goes, and what bounds it: 1M x 28, on two threads.

    python benchmarks/stages.py [--rows 1000000] [--leaves 31]

The first table has milliseconds in each verb of the backend: a long run less a short one, so
that start-up drops out; medians of alternating rounds. The second sets what the verbs that
touch all rows must move against the speed at which the same threads copy memory.
"""

from __future__ import annotations

import argparse
import time
from statistics import mean, median
from typing import Any

import numpy as np
from cases import synthetic
from table import rows_of

from mvsboost import MVS
from mvsboost.boosting import TrainConfig, TrainResult, train
from mvsboost.data import Dataset
from mvsboost.objectives import Logistic
from mvsboost.runtime.threads import ThreadPool
from mvsboost.sampling import make_sampler
from mvsboost.trees import TreeParams

SETTINGS: dict[str, tuple[Any, int]] = {
    "none": ("none", 0),
    "MVS 0.1": (MVS(rate=0.1), 0),
    "MVS 0.3": (MVS(rate=0.3), 0),
    "MVS 0.1, second look 3": (MVS(rate=0.1), 3),
}
SHORT, LONG = 3, 23


def copy_speed(n_threads: int, rounds: int) -> float:
    """Bytes read and written a second when all threads copy 64 MiB."""
    source, target, spent = np.ones(1 << 23), np.empty(1 << 23), []
    threads = ThreadPool(n_threads)

    def copy(start: int, stop: int) -> None:
        target[start:stop] = source[start:stop]

    for _ in range(rounds + 1):
        begin = time.perf_counter()
        threads.run(copy, len(source))
        spent.append(time.perf_counter() - begin)
    return 2 * source.nbytes / median(spent[1:])


def bytes_of_a_row(result: TrainResult) -> dict[str, float]:
    """What each verb reads and writes for a row that is not drawn."""
    trees = [trees[0] for trees in result.model.iterations]
    columns = mean(len(set(tree.feature[~tree.is_leaf])) for tree in trees)
    return {
        "compute_gradients": 8 + 8 + 8 + 8,  # score, target; g and h written, and read again
        "gradient_sums": 8,
        "score_rows": 8 + 4 + 4,  # the score is written, and read again for the largest
        "threshold_sums": 4,
        "draw": 4,
        "leaf_sums": columns + 1 + 1 + 8,  # a bin of each column, the leaf, g and h
        "apply_tree": 1 + 16,
    }


def main() -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    data = synthetic(arguments.rows)
    rows = Dataset.from_data(data.X, data.y, n_classes=2, n_threads=arguments.threads)

    def run(name: str, iterations: int) -> tuple[TrainResult, dict[str, float]]:
        sampler, look = SETTINGS[name]
        config = TrainConfig(
            Logistic(),
            make_sampler(sampler),
            n_estimators=iterations,
            tree=TreeParams(max_leaves=arguments.leaves, second_look=look),
            n_threads=arguments.threads,
        )
        start = time.perf_counter()
        result = train(rows, config)
        return result, {**result.stage_times, "iteration": time.perf_counter() - start}

    found: dict[str, dict[str, list[float]]] = {name: {} for name in SETTINGS}
    sizes: dict[str, float] = {}
    for round_number in range(arguments.rounds + 1):
        for name in SETTINGS:
            (_, short), (result, long) = run(name, SHORT), run(name, LONG)
            if name == "MVS 0.1":
                sizes = bytes_of_a_row(result)
            for stage, seconds in long.items():
                if round_number > 0:  # the first one warms up
                    own = 1000 * (seconds - short.get(stage, 0.0)) / (LONG - SHORT)
                    found[name].setdefault(stage, []).append(own)
    every = list(dict.fromkeys(stage for times in found.values() for stage in times))
    shown = [s for s in every if any(median(t.get(s, [0.0])) >= 0.05 for t in found.values())]
    table = [[s, *(f"{median(t.get(s, [0.0])):.1f}" for t in found.values())] for s in shown]
    print(rows_of(["ms an iteration", *found], table))
    speed = copy_speed(arguments.threads, arguments.rounds)
    print(f"\nCopying memory: {speed / 1e9:.0f} GB/s on {arguments.threads} threads.\n")
    bound = []
    for stage, size in sizes.items():
        spent, least = median(found["MVS 0.1"][stage]), 1000 * size * len(data.X) / speed
        bound.append([stage, f"{size:.0f}", f"{least:.2f}", f"{spent:.2f}"])
    print(rows_of(["MVS 0.1", "bytes a row", "ms at that speed", "ms"], bound))


if __name__ == "__main__":
    main()
