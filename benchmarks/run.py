"""Measure this library beside its peers, and write the results.

All measurements of a case are made in one process, contenders in turn, the rounds one
after another, so that a slow minute of the machine falls on everybody; figures are
medians, and what counts are ratios. ``make bench`` runs everything;
``python benchmarks/run.py --cases "1M x 28" --measures iteration`` a part, whose figures
replace the same ones in the file of results and no others. The file is of one environment.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from cases import CASES, REAL, Case, Data, synthetic
from contenders import WARM_UP, Contender, Ours, contenders, seconds
from record import BASE, RESULTS, merge, open_for
from record import MEASURES as OF_A_CASE

MEASURES = (*OF_A_CASE, "growth")
UNTIMED = WARM_UP + 3
"""Iterations before the timed ones: until LightGBM's GOSS draws rows, and a few to settle."""
PATIENCE = 30
"""Iterations without a lower loss after which a race is given up."""
MOST_ITERATIONS = 400
"""In which LightGBM sets the loss to reach; a race may take twice as many."""
LONGEST = 5.0
"""Times LightGBM's time without sampling after which a race to its loss is given up."""


def log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


# --- measures -----------------------------------------------------------------------------------


def prepare(data: Data, everyone: list[Contender]) -> dict[str, Any]:
    """The data as each contender wants it, binned once a library."""
    of_library: dict[str, Any] = {}
    for c in everyone:
        if c.library not in of_library:
            of_library[c.library] = c.prepare(data)
    return {c.name: of_library[c.library] for c in everyone}


def iteration_times(case: Case, data: Data, everyone: list[Contender], rounds: int) -> dict:
    """Milliseconds an iteration: a long run less a short one, so that start-up drops out.

    The short one ends after LightGBM's GOSS has begun to draw rows: in its first
    ``1 / learning rate`` iterations it takes all of them.
    """
    short, long = UNTIMED, UNTIMED + case.iterations
    prepared = prepare(data, everyone)
    times: dict[str, list[float]] = {c.name: [] for c in everyone}
    for contender in everyone:
        contender.boost(prepared[contender.name], 2, case.leaves)
    for number in range(rounds):
        for c in everyone:
            first, _ = seconds(lambda c=c: c.boost(prepared[c.name], short, case.leaves))
            second, _ = seconds(lambda c=c: c.boost(prepared[c.name], long, case.leaves))
            times[c.name].append(1000 * (second - first) / (long - short))
        log(f"{case.name}: round {number + 1} of {rounds}")
    return {name: statistics.median(values) for name, values in times.items()}


def times_to_quality(
    case: Case, data: Data, everyone: list[Contender], rounds: int
) -> tuple[float, dict]:
    """LightGBM's best test log loss without sampling, and seconds until it is reached.

    A contender that does not reach it in one round is not run in the others.
    """
    everyone = [c for c in everyone if c.can_be_watched]
    prepared = prepare(data, everyone)
    base = next(c for c in everyone if c.name == BASE)
    target = _best_loss(base, prepared[base.name], case)
    results: dict[str, list[float | None]] = {c.name: [] for c in everyone}
    for contender in everyone:
        contender.boost(prepared[contender.name], 2, case.leaves, lambda loss: False)
    limit = np.inf
    for number in range(rounds):
        for c in everyone:
            if None in results[c.name]:
                continue
            spent = _seconds_to(c, prepared[c.name], case, target, limit)
            results[c.name].append(spent)
            if c is base and spent is not None:
                limit = LONGEST * spent
        log(f"{case.name}: quality round {number + 1} of {rounds}")
    medians = {
        name: statistics.median(values) if None not in values else None  # type: ignore[type-var]
        for name, values in results.items()
    }
    return target, medians


def _best_loss(contender: Contender, prepared: Any, case: Case) -> float:
    losses: list[float] = []

    def watch(loss: float) -> bool:
        losses.append(loss)
        return len(losses) - int(np.argmin(losses)) > PATIENCE

    contender.boost(prepared, MOST_ITERATIONS, case.leaves, watch)
    return min(losses)


def _seconds_to(
    contender: Contender, prepared: Any, case: Case, target: float, limit: float
) -> float | None:
    start = time.perf_counter()
    reached: list[float] = []
    losses: list[float] = []

    def watch(loss: float) -> bool:
        losses.append(loss)
        spent = time.perf_counter() - start
        if loss <= target:
            reached.append(spent)
        return bool(reached) or spent > limit or len(losses) - int(np.argmin(losses)) > PATIENCE

    contender.boost(prepared, 2 * MOST_ITERATIONS, case.leaves, watch)
    return reached[0] if reached else None


def binning_times(data: Data, everyone: list[Contender], rounds: int) -> dict:
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        for c in everyone:
            times.setdefault(c.library, []).append(seconds(lambda c=c: c.prepare(data))[0])
    return {library: statistics.median(values) for library, values in times.items()}


def prediction_rates(data: Data, everyone: list[Contender], rounds: int) -> dict:
    """Raw rows a second through 100 trees of 31 leaves."""
    models = {c.name: c.boost(c.prepare(data), 100, 31) for c in everyone}
    rates: dict[str, list[float]] = {}
    for contender in everyone:
        contender.predict(models[contender.name], data.X[:1000])
    for _ in range(rounds):
        for c in everyone:
            spent, _ = seconds(lambda c=c: c.predict(models[c.name], data.X))
            rates.setdefault(c.library, []).append(len(data.X) / spent)
    return {library: statistics.median(values) for library, values in rates.items()}


def growth(rounds: int) -> dict:
    """Milliseconds an iteration of MVS 0.1 by rows, and the slope on logarithmic scales."""
    sizes = (100_000, 300_000, 1_000_000, 3_000_000, 5_000_000)
    ours = next(c for c in contenders() if c.name == "mvsboost MVS 0.1")
    times = {}
    for n_rows in sizes:
        case = Case(f"{n_rows} rows", lambda: None, iterations=20)
        times[n_rows] = iteration_times(case, synthetic(n_rows), [ours], rounds)[ours.name]
    slope = np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)[0]
    return {"milliseconds": times, "slope": float(slope)}


def peak_memory(case: Case, contender: Contender) -> float:
    """MiB above the input that binning and 20 iterations take, in a process of their own."""
    command = [sys.executable, __file__, "--memory-of", contender.name, "--cases", case.name]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(result.stdout.split()[-1])


def _measure_memory(case: Case, name: str) -> None:
    import psutil

    data = case.load()
    contender = next(c for c in contenders() if c.name == name)
    tiny = synthetic(2000)
    contender.boost(contender.prepare(tiny), 2, case.leaves)  # code and libraries do not count
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = psutil.Process().memory_info().rss / 2**20
    contender.boost(contender.prepare(data), 20, case.leaves)
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 2**10
    print(max(0.0, peak - before))


# --- putting it together --------------------------------------------------------------------------


def measure(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The results of one case after another."""
    everyone, rounds = contenders(), arguments.rounds
    for name in arguments.cases:
        case = CASES[name]
        log(f"{name}: loading")
        data = case.load()
        found: dict[str, Any] = {"rows": len(data.X), "features": data.X.shape[1]}
        found["rounds"] = rounds
        if "iteration" in arguments.measures:
            found["iteration"] = iteration_times(case, data, everyone, rounds)
        if "quality" in arguments.measures and name in REAL:
            found["target"], found["quality"] = times_to_quality(case, data, everyone, rounds)
        plain = [c for c in everyone if c.mode in ("full", "none", "MVS 0.2")]
        if name == "1M x 28":
            if "binning" in arguments.measures:
                found["binning"] = binning_times(data, plain, rounds)
            if "prediction" in arguments.measures:
                found["prediction"] = prediction_rates(data, plain, rounds)
            if "memory" in arguments.measures:
                one = [c for c in everyone if isinstance(c, Ours) or c.mode == "full"]
                found["memory"] = {c.name: peak_memory(case, c) for c in one}
        yield {"cases": {name: found}}
    if "growth" in arguments.measures:
        yield {"growth": growth(rounds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        _measure_memory(CASES[arguments.cases[0]], arguments.memory_of)
        return
    open_for(arguments.out)
    for found in measure(arguments):
        merge(arguments.out, found)


if __name__ == "__main__":
    main()
