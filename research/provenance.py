"""What a table is made from: the command, the seeds, and the versions that trained its fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import mvsboost
from research.plan import Cell
from research.store import Store, fits_of, key_of

__all__ = ["made_from"]


def made_from(store: Store, cells: Iterable[Cell], command: str) -> str:
    """One line that runs as it is: the command, and as its comment the seeds and the versions.

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
    fits = [fit for record in records for fit in fits_of(record["cell"])]
    return f"{command}  # {'; '.join([_seeds(fits), *_versions(records)])}"


def _versions(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """How many fits each library trained, and of this one how many by which code."""
    trained = Counter(who for record in records for who in _trained_by(record)).most_common()
    for library in dict.fromkeys(library for (library, _), _ in trained):
        codes = [(count, code) for (by, code), count in trained if by == library]
        fits = f"{sum(count for count, _ in codes):,} fits by {library}"
        by_code = ", ".join(f"{count:,} of {code}" for count, code in codes if code)
        yield f"{fits} ({by_code})" if by_code else fits


def _trained_by(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every library and its release, and of this one, which changes in between, the code.

    Early records kept neither. What is known of them is the commit that published them, and
    what stood under its tables.
    """
    made_by = record.get("made_by", {})
    for library in sorted({fit.get("engine", "mvsboost") for fit in fits_of(record["cell"])}):
        if library != "mvsboost":
            yield f"{library} {made_by.get(library, '(release not kept)')}", ""
            continue
        code = (f"{kind} {made_by[kind]}" for kind in ("code", "commit") if kind in made_by)
        yield f"mvsboost {mvsboost.__version__}", next(code, "a version not kept")


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
