"""Model files changed at random: loaded whole and predicting one thing, or refused by name.

    python -m tests.model.mutations --files 1000000 --seed 0 --jobs 2

Half of the changes are to the structure, without a checksum, as by somebody who knows the format;
the others are to bytes. File number i of a seed is the same on every machine. A batch runs in a
process of its own, so that a crash is seen; the exit code is 1 if any file fails.
"""

from __future__ import annotations

import copy
import json
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mvsboost import MVSClassifier, MVSRegressor
from mvsboost.errors import DataError, ModelFormatError
from mvsboost.estimators import load_estimator
from mvsboost.model import forest
from tests.apart import Cases, options, run

NUMBERS: list[Any] = [
    *(-1, 0, 1, 2, 7, 254, 255, 256, 999, -(2**31), 2**31 - 1, 2**31, 2**32, 2**63, -(2**63)),
    *(0.5, -0.0, 1e-310, 1e308, -1e308, float("nan"), float("inf"), -float("inf")),
    *(10**30, True, False, None, "", "x", "1", [], [0], {}, {"a": 1}),
]


def table() -> dict[str, Any]:
    """Rows of numbers, categories and many categories."""
    rng = np.random.default_rng(0)
    n = 300
    return {
        "x": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
        "kind": rng.choice(list("abcdefgh"), n),
        "town": [f"t{k}" for k in rng.integers(0, 40, n)],
        "z": rng.integers(0, 9, n).astype(float),
    }


def originals() -> list[dict[str, Any]]:
    """States of small models of each kind."""
    X, rng = table(), np.random.default_rng(1)
    of_kind = dict(zip("abcdefgh", (0.9, -0.4, 0.3, -0.8, 0.6, -0.2, 0.1, -0.5), strict=True))
    score = np.nan_to_num(X["x"]) + [of_kind[kind] for kind in X["kind"]]
    score += 0.3 * rng.normal(size=300)
    shape = {"n_estimators": 2, "min_samples_leaf": 5, "n_jobs": 1}
    made = [
        MVSRegressor(max_leaves=9, max_bins=16, **shape).fit(X, score),
        MVSRegressor(objective="quantile", quantile=0.7, max_leaves=5, **shape).fit(X, score),
        MVSClassifier(max_leaves=15, **shape).fit(X, np.where(score > 0.5, "yes", "no")),
        MVSClassifier(max_depth=3, max_bins=16, **shape).fit(X, np.digitize(score, [0.0, 1.0])),
    ]
    with tempfile.TemporaryDirectory() as folder:
        states = []
        for one in made:
            one.save(Path(folder) / "model.json")
            states.append(json.loads((Path(folder) / "model.json").read_text()))
    return states


# --- changes ------------------------------------------------------------------------------------


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a state: what holds it, and its key."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from places(inner)


def changed_state(state: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A state with one to three changes, without its checksum."""
    state = copy.deepcopy(state)
    state.pop("checksum", None)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        # half of them in a tree, whose numbers kernels follow
        trees = [tree for trees in _list(state.get("iterations")) for tree in _list(trees)]
        inside = rng.choice(trees) if trees and rng.random() < 0.5 else state
        if not isinstance(inside, (dict, list)):
            continue
        found = list(places(inside))
        if found:
            change(*rng.choice(found), found, rng)
    return state


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def change(holder: Any, key: Any, found: list[tuple[Any, Any]], rng: random.Random) -> None:
    """One change at a place."""
    value, kind = holder[key], rng.randrange(8)
    if kind <= 2:
        holder[key] = copy.deepcopy(rng.choice(NUMBERS))
    elif kind == 3 and isinstance(value, (int, float)) and not isinstance(value, bool):
        holder[key] = value + rng.choice([-1, 1])
    elif kind == 4:
        del holder[key]
    elif kind == 5 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(value))
    elif kind == 6 and isinstance(holder, list):
        other = rng.randrange(len(holder))
        holder[key], holder[other] = holder[other], value
    else:
        there, at = rng.choice(found)
        if at in there if isinstance(there, dict) else at < len(there):
            holder[key] = copy.deepcopy(there[at])


def changed_bytes(state: dict[str, Any], rng: random.Random) -> bytes:
    """A file with one to four changes of bytes; its checksum may have been left out."""
    if rng.random() < 0.7:
        state = {key: value for key, value in state.items() if key != "checksum"}
    data = bytearray(json.dumps(state, separators=(",", ":")).encode())
    for _ in range(rng.randint(1, 4)):
        at, n = rng.randrange(len(data)), rng.choice([1, 1, 2, 5, 50, 1000])
        kind = rng.randrange(5)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at : at + 1] = rng.choice([b"0", b"9", b"-", b".", b"e", b",", b"]", b"[", b'"'])
        elif kind == 2:
            del data[at : at + n]
        elif kind == 3:
            data[at:at] = data[at : at + n]
        else:
            other = rng.randrange(len(data))
            data[at : at + n] = data[other : other + n]
        if not data:
            break
    return bytes(data)


# --- what must hold -----------------------------------------------------------------------------


def outcome(path: Path, X: dict[str, Any]) -> str:
    """Load a file and predict in every way: what became of it; all else is raised."""
    try:
        model = load_estimator(path)
    except ModelFormatError:
        return "refused"
    try:
        found = []
        for masked in (0, 10**9):  # by tests on columns, and row by row
            forest.MASKED_ROWS = masked
            found.append(model.named_outputs(X, "scores"))
        few = {name: column[:7] for name, column in X.items()}
        found.append(model.named_outputs(few, "scores"))
        model.predict(X)
        model.apply(X)
    except DataError:
        return "loaded for other columns"
    for name, scores in found[0].items():
        same = np.array_equal(scores, found[1][name], equal_nan=True)
        if not same or not np.array_equal(scores[:7], found[2][name], equal_nan=True):
            raise AssertionError(f"ways to predict differ: {scores[:7]} {found[1][name][:7]}")
        if np.isnan(scores).any():
            raise AssertionError("a score is NaN")
    return "loaded"


def run_one(seed: int, number: int, states: list[dict[str, Any]], path: Path, X: Any) -> str:
    """What becomes of file number i."""
    rng = random.Random(seed * 2**40 + number)
    state = rng.choice(states)
    if number % 2:
        path.write_bytes(changed_bytes(state, rng))
    else:
        path.write_text(json.dumps(changed_state(state, rng)))
    return outcome(path, X)


def start(states: Any, folder: str) -> tuple[Any, Path, Any]:
    """What a process has of its own: the states, a file to write, and rows to predict."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    return states, Path(folder) / f"{os.getpid()}.json", table()


def main() -> int:
    chosen = options(__doc__, "files", 1_000_000)
    states = originals()
    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(
            start=lambda: start(states, folder),
            check=lambda own, number: run_one(chosen.seed, number, *own),
        )
        return 0 if run(cases, chosen.files, jobs=chosen.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
