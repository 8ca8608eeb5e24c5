"""Where the time of an iteration goes: milliseconds in each verb of the backend, 1M x 28.

    python benchmarks/stages.py [--rows 1000000] [--leaves 31]

A long run less a short one, so that start-up drops out; medians of alternating rounds.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

from cases import synthetic
from table import rows_of

from mvsboost import MVS
from mvsboost.boosting import TrainConfig, train
from mvsboost.data import Dataset
from mvsboost.objectives import Logistic
from mvsboost.sampling import make_sampler
from mvsboost.trees import TreeParams

SETTINGS = {
    "none": ("none", 0),
    "MVS 0.1": (MVS(rate=0.1), 0),
    "MVS 0.3": (MVS(rate=0.3), 0),
    "MVS 0.1, second look 3": (MVS(rate=0.1), 3),
}
SHORT, LONG = 3, 23


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    data = synthetic(arguments.rows)
    rows = Dataset.from_data(data.X, data.y, n_classes=2, n_threads=arguments.threads)

    def stages(name: str, iterations: int) -> dict[str, float]:
        sampler, look = SETTINGS[name]
        config = TrainConfig(
            Logistic(),
            make_sampler(sampler),
            n_estimators=iterations,
            tree=TreeParams(max_leaves=arguments.leaves, second_look=look),
            n_threads=arguments.threads,
        )
        start = time.perf_counter()
        times = dict(train(rows, config).stage_times)
        return {**times, "iteration": time.perf_counter() - start}

    found: dict[str, dict[str, list[float]]] = {name: {} for name in SETTINGS}
    for round_number in range(arguments.rounds + 1):
        for name in SETTINGS:
            short, long = stages(name, SHORT), stages(name, LONG)
            for stage, seconds in long.items():
                if round_number > 0:  # the first one warms up
                    own = 1000 * (seconds - short.get(stage, 0.0)) / (LONG - SHORT)
                    found[name].setdefault(stage, []).append(own)
    every = list(dict.fromkeys(stage for times in found.values() for stage in times))
    shown = [s for s in every if any(median(t.get(s, [0.0])) >= 0.05 for t in found.values())]
    table = [[s, *(f"{median(t.get(s, [0.0])):.1f}" for t in found.values())] for s in shown]
    print(rows_of(["ms an iteration", *found], table))


if __name__ == "__main__":
    main()
