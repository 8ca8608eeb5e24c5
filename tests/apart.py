"""Many numbered cases in batches, each in a process of its own, so that crashes are seen."""

from __future__ import annotations

import argparse
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

PATIENCE = 300.0
"""Seconds after which a case hangs."""


@dataclass(frozen=True)
class Cases:
    """What is done with case number i: `start` once in each process, then `check` with its result.

    What `check` returns is counted, what it raises is a failure.
    """

    start: Callable[[], Any]
    check: Callable[[Any, int], str]


def options(description: str | None, counted: str, default: int) -> argparse.Namespace:
    """What the command line of a campaign says: how many cases (`counted`), of which seed."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument(f"--{counted}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def run(cases: Cases, n: int, *, batch: int = 500, jobs: int | None = None) -> bool:
    """Run cases 0 to n - 1, print what fails and what was counted; whether nothing failed."""
    start = time.perf_counter()
    counts: Counter[str] = Counter()
    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        spans = [(first, min(first + batch, n)) for first in range(0, n, batch)]
        for found, failures in pool.map(lambda span: _batch(cases, *span), spans):
            counts.update(found)
            for line in failures:
                print(line, flush=True)
    minutes = (time.perf_counter() - start) / 60
    print(f"{sum(counts.values())} cases in {minutes:.1f} minutes: {dict(counts.most_common())}")
    return not counts["failed"] + counts["crashed"] + counts["hung"]


def _batch(cases: Cases, first: int, last: int) -> tuple[Counter[str], list[str]]:
    """Cases first to last; a crash is one failure, and the rest goes on."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    fork = get_context("fork")
    while first < last:
        ours, theirs = fork.Pipe(duplex=False)
        process = fork.Process(target=_work, args=(cases, first, last, theirs))
        process.start()
        theirs.close()
        number, became = first, "crashed"
        while number < last:
            if not ours.poll(PATIENCE):
                became = "hung"
                process.kill()
                break
            try:
                counted, failure = ours.recv()
            except EOFError:
                break
            counts[counted] += 1
            failures += failure
            number += 1
        process.join()
        if number < last:
            counts[became] += 1
            failures.append(f"case {number} {became}: its process ended with {process.exitcode}")
        first = number + 1
    return counts, failures


def _work(cases: Cases, first: int, last: int, report: Any) -> None:
    """Try one case after another, and say at once what became of it."""
    state = cases.start()
    for number in range(first, last):
        try:
            report.send((cases.check(state, number), []))
        except (Exception, SystemExit) as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            notes = " ".join(getattr(error, "__notes__", []))
            told = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            where = f"{Path(place.filename).name}:{place.lineno}"
            report.send(("failed", [f"case {number}: {told} [{where}] {notes}"]))
