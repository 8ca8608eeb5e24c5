"""What a table is made from: the command, the seeds, and the versions that trained its fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import mvsboost
from mvsboost.paper.plan import Cell
from mvsboost.paper.store import Store, key_of

__all__ = ["made_from"]


def made_from(store: Store, cells: Iterable[Cell], command: str) -> str:
    """A line each for the command, the seeds, and who trained how many of the fits.

    Parameters
    ----------
    store : Store
    cells : iterable of Cell
        All of an experiment; those that are not done are left out.
    command : str
        What runs that experiment.
    """
    asked = {key_of(cell): cell for cell in cells}
    records = [record for record in store if record["key"] in asked]
    fits = [fit for record in records for fit in _fits(record["cell"])]
    trained = Counter(map(_trained_by, records))
    versions = (f"{number:,} by {who}" for who, number in trained.most_common())
    return "\n".join([command, _seeds(fits), f"records: {', '.join(versions)}"])


def _fits(cell: Cell) -> Iterator[Cell]:
    """A cell, or those that race in it."""
    yield from cell["contenders"].values() if "contenders" in cell else (cell,)


def _trained_by(record: Mapping[str, Any]) -> str:
    engine, made_by = record["cell"].get("engine", "mvsboost"), record.get("made_by")
    if engine != "mvsboost":
        return f"{engine} {made_by[engine]}" if made_by else f"{engine}, its version not kept"
    if made_by is None:
        return "mvsboost, its version not kept"
    return f"mvsboost {mvsboost.__version__} of code {made_by['code']}"


def _seeds(fits: Iterable[Cell]) -> str:
    """Which seeds, folds and random splits there are.

    Examples
    --------
    >>> _seeds([{"set": "a", "seed": 0}, {"set": "a", "seed": 1}, {"set": "suite/b/3", "seed": 0}])
    'seeds 0 and 1; random split 3, seed 0'
    >>> _seeds([{"set": "a", "seed": 0, "fold": fold} for fold in (0, 1, 2)])
    'folds 0 to 2, seed 0'
    """
    seeds: dict[str, set[int]] = {"": set(), "fold": set(), "random split": set()}
    numbers: dict[str, set[int]] = {kind: set() for kind in seeds}
    for fit in fits:
        kind, number = _part(fit)
        seeds[kind].add(fit["seed"])
        numbers[kind].add(number)
    return "; ".join(
        ", ".join([*([_named(kind, numbers[kind])] if kind else []), _named("seed", seeds[kind])])
        for kind in seeds
        if seeds[kind]
    )


def _part(fit: Cell) -> tuple[str, int]:
    """Which rows judge a fit: the test part of the set's own split, a fold, or a random split's."""
    if fit.get("fold", -1) >= 0:
        return "fold", fit["fold"]
    if "split" in fit:
        return "random split", fit["split"]
    if fit["set"].startswith("suite/"):
        return "random split", int(fit["set"].rsplit("/", 1)[1])
    return "", 0


def _named(noun: str, numbers: Iterable[int]) -> str:
    """Numbers in words.

    Examples
    --------
    >>> _named("seed", [0]), _named("fold", range(5)), _named("seed", [1, 3, 5])
    ('seed 0', 'folds 0 to 4', 'seeds 1, 3 and 5')
    """
    found = sorted(numbers)
    if len(found) == 1:
        return f"{noun} {found[0]}"
    if len(found) > 2 and found[-1] - found[0] == len(found) - 1:
        return f"{noun}s {found[0]} to {found[-1]}"
    return f"{noun}s {', '.join(map(str, found[:-1]))} and {found[-1]}"
