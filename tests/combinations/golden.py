"""Digests of model files over a matrix of combinations: what a change of layout must leave alone,
and what every machine must give.

python tests/combinations/golden.py             # compare with the record
python tests/combinations/golden.py --few       # the part of it that make test compares
python tests/combinations/golden.py --record    # where models are meant to change
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from cases import Case, drawn_case, fitted, make_data
from relations import scores_of, written

RECORD = Path(__file__).with_name("golden.json")
SMALL, LARGE = 240, 40
"""Cases as the campaign draws them, and cases of some thousand rows on two threads."""


def golden_cases() -> list[Case]:
    numbers = random.Random("golden")
    small = [drawn_case(numbers) for _ in range(SMALL)]
    large = [drawn_case(numbers) for _ in range(LARGE)]
    sizes = (1_500, 6_000, 20_000)
    return small + [
        replace(case, n_rows=sizes[i % 3], max_bins=(32, 255)[i % 2])
        for i, case in enumerate(large)
    ]


def few_cases() -> list[Case]:
    """The first cases that make every choice twice."""
    made: Counter[tuple[str, Any]] = Counter()
    few = []
    for case in golden_cases():
        choices = set(_choices(case))
        if any(made[choice] < 2 for choice in choices):
            few.append(case)
            made.update(choices)
    return few


def _choices(case: Case) -> Iterator[tuple[str, Any]]:
    for name in (field.name for field in fields(case) if field.name not in ("columns", "seed")):
        yield name, getattr(case, name)
    for kind in case.columns:
        yield "columns", kind


def digest(case: Case) -> str:
    """Hash of the model's file, but for the parameters, and of its predictions on new rows."""
    estimator = fitted(case, n_jobs=1 if case.n_rows < 1_000 else 2)
    scores = scores_of(estimator, make_data(case, stream=1).table(case.container))
    whole = hashlib.sha256(written(estimator).encode())
    whole.update(scores.tobytes())
    return whole.hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", action="store_true", help="keep the digests of today")
    parser.add_argument("--few", action="store_true", help="compare a part that makes every choice")
    given = parser.parse_args()
    logging.getLogger("mvsboost").setLevel(logging.ERROR)  # many cases have nothing to split
    if given.record:
        record = {repr(case): digest(case) for case in golden_cases()}
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
        print(f"{len(record)} digests in {RECORD}")
        return 0
    record = json.loads(RECORD.read_text())
    cases = few_cases() if given.few else golden_cases()
    changed = [case for case in cases if digest(case) != record[repr(case)]]
    print(*changed, f"{len(cases) - len(changed)} of {len(cases)} the same", sep="\n")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
