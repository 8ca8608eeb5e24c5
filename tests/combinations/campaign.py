"""Run relations on many drawn combinations.

    python tests/combinations/campaign.py --cases 20000 --seed 0 --jobs 2 --out campaign.md

Case number i of a seed is the same on every machine. A case that breaks a relation is printed as
it can be run again; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cases import CHOICES, KINDS, Case, drawn_case, settled
from relations import RELATIONS

RELATIONS_A_CASE = 3
BATCH = 20
SKIPPED = ("alpha", "learning_rate")
"""Fields whose pairs are not counted: numbers that no code branches on."""


@dataclass
class Outcome:
    """What some cases gave."""

    cases: int = 0
    checks: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, other: Outcome) -> None:
        self.cases += other.cases
        self.failures += other.failures
        for name in ("checks", "failed", "pairs"):
            getattr(self, name).update(getattr(other, name))


def features_of(case: Case) -> list[str]:
    """What a case combines, as text."""
    names = [name for name in CHOICES if name not in SKIPPED]
    return [f"{name}={getattr(case, name)!r}" for name in names] + sorted(
        {f"column={kind!r}" for kind in case.columns}
    )


def run_case(seed: int, number: int, only: list[str]) -> Outcome:
    """Check one case by a few relations."""
    numbers = random.Random(f"{seed}/{number}")
    case, outcome = drawn_case(numbers), Outcome(cases=1)
    for name in only or numbers.sample(list(RELATIONS), RELATIONS_A_CASE):
        relation = RELATIONS[name]
        near = relation.towards(case)
        outcome.checks[name] += 1
        outcome.pairs.update(combinations(sorted(features_of(near)), 2))
        try:
            relation.check(near)
        except Exception as error:  # whatever it is, the campaign goes on
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            outcome.failed[name] += 1
            told = f"{type(error).__name__}: {' '.join(str(error).split())[:300]} [{where}]"
            outcome.failures.append(f'RELATIONS["{name}"].check({near!r})\n    # {told}')
    return outcome


def run_batch(work: tuple[int, range, list[str]]) -> Outcome:
    """Some cases in a row, with warnings as errors."""
    seed, numbers, only = work
    total = Outcome()
    logger = logging.getLogger("mvsboost")
    level = logger.level
    logger.setLevel(logging.ERROR)  # many cases have nothing to split
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for number in numbers:
                total.add(run_case(seed, number, only))
    finally:
        logger.setLevel(level)
    return total


def missing_pairs(outcome: Outcome) -> list[tuple[str, str]]:
    """Pairs of choices that are possible and did not occur."""
    known = [(name, value) for name in CHOICES if name not in SKIPPED for value in CHOICES[name]]
    known += [("column", kind) for kind in KINDS]
    missing = []
    for (a, x), (b, y) in combinations(dict.fromkeys(known), 2):
        if a == b and a != "column":
            continue
        pair = tuple(sorted((f"{a}={x!r}", f"{b}={y!r}")))
        if pair not in outcome.pairs and _is_possible(pair, a, x, b, y):
            missing.append(pair)
    return missing


def _is_possible(pair: tuple[str, ...], a: str, x: Any, b: str, y: Any) -> bool:
    columns = tuple(value for name, value in ((a, x), (b, y)) if name == "column")
    changes = {name: value for name, value in ((a, x), (b, y)) if name != "column"}
    base = Case(max_depth=3)  # whose every field can be changed alone
    case = settled(replace(base, columns=columns or base.columns, **changes))
    return set(pair) <= set(features_of(case))


def batches(cases: int, seed: int, only: list[str]) -> Iterator[tuple[int, range, list[str]]]:
    for start in range(0, cases, BATCH):
        yield seed, range(start, min(start + BATCH, cases)), only


def summary(outcome: Outcome, seed: int, seconds: float) -> str:
    """A table for people, in Markdown."""
    lines = ["| relation | checks | failed |", "|---|---:|---:|"]
    for name in RELATIONS:
        lines.append(f"| `{name}` | {outcome.checks[name]:,} | {outcome.failed[name]:,} |")
    checks, failed = sum(outcome.checks.values()), sum(outcome.failed.values())
    lines.append(f"| all | {checks:,} | {failed:,} |")
    head = f"{outcome.cases:,} cases (seed {seed}), {checks:,} checks in {seconds / 60:.0f} minutes"
    return "\n".join([head, "", *lines])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, help="file for the table and the failures")
    parser.add_argument("--only", nargs="*", default=[], choices=list(RELATIONS))
    asked = parser.parse_args()
    started, total = time.monotonic(), Outcome()
    work = batches(asked.cases, asked.seed, asked.only)
    # spawned, since a forked process would share threads of the parent
    with get_context("spawn").Pool(asked.jobs) as pool:
        for part in pool.imap_unordered(run_batch, work):
            total.add(part)
            for failure in part.failures:
                print(failure, flush=True)
            pace = total.cases / (time.monotonic() - started)
            line = f"{total.cases:,} of {asked.cases:,} cases, {len(total.failures)} failures"
            print(f"{line}, {pace:.1f} a second", end="\r", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    table = summary(total, asked.seed, time.monotonic() - started)
    never = missing_pairs(total)
    pairs = f"{len(total.pairs):,} pairs of choices occurred, {len(never)} possible ones did not"
    print(table, "", pairs, *(" and ".join(pair) for pair in never[:40]), sep="\n")
    if asked.out:
        asked.out.write_text("\n\n".join([table, pairs, *total.failures]) + "\n")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
