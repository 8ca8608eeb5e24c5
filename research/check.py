"""What ``python -m research --check`` does: train some of a report's fits again, and compare.

Fits are the same bit for bit on any machine, so that a result is what this version gives, or
it is not. Fits of other libraries and races, which measure time, are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from random import Random
from typing import Any

from mvsboost.errors import DataError, ParameterError
from research.command import among
from research.runner import check_jobs, repeat_cells
from research.store import Store, key_of

__all__ = ["Checked", "check_paper", "format_checks"]

_MEASURED = "seconds"


@dataclass(frozen=True)
class Checked:
    """A record, and what its cell gives now.

    Attributes
    ----------
    record : mapping
    result : mapping or None
    reason : str
        Why there is no result: data are not there.
    """

    record: Mapping[str, Any]
    result: Mapping[str, Any] | None
    reason: str = ""

    @property
    def set(self) -> str:
        """The set, that of all small ones together."""
        return _set_of(self.record)

    @property
    def same(self) -> bool:
        """Whether the result is that of the record, time apart."""
        return self.result is not None and not self.differing

    @property
    def differing(self) -> list[str]:
        """What of the record is not so now; what only this version tells does not count."""
        before, now = self.record["result"], self.result or {}
        return [n for n in before if n != _MEASURED and (n not in now or now[n] != before[n])]


def check_paper(
    n: int,
    *,
    sets: Sequence[str] | None = None,
    jobs: int = 1,
    data: str | PathLike[str] | None = None,
    out: str | PathLike[str] = "paper-results",
    progress: bool = True,
) -> list[Checked]:
    """Repeat some random fits of this library that a folder of results has; nothing is written.

    Parameters
    ----------
    n : int
        Fits of each set, or all that there are. More of them are these and others.
    sets : sequence of str, optional
        Sets, ``suite`` for all small ones; all by default.
    jobs, data, out, progress
        See `run_paper`.
    """
    if n < 1:
        raise ParameterError("check", n, "an integer >= 1")
    check_jobs(jobs)
    store = Store(out)
    by_set: dict[str, list[dict[str, Any]]] = {}
    for record in store:
        cell = record["cell"]
        if "contenders" not in cell and cell.get("engine", "mvsboost") == "mvsboost":
            by_set.setdefault(_set_of(record), []).append(record)
    if not by_set:
        raise DataError(f"{store.path} has no results to check: name their folder with --out")
    names = among("datasets", sets, by_set)
    chosen = [record for name in names for record in _some(by_set[name], n)]
    return list(_repeat(chosen, None if data is None else Path(data), jobs, progress))


def _some(records: list[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """The first n in an order that is random, but the same every time."""
    in_order = sorted(records, key=lambda record: str(record["key"]))
    Random(0).shuffle(in_order)
    return in_order[:n]


def _repeat(
    records: Iterable[dict[str, Any]], folder: Path | None, jobs: int, progress: bool
) -> Iterator[Checked]:
    of_cell = {key_of(record["cell"]): record for record in records}
    cells = [record["cell"] for record in of_cell.values()]
    for cell, finished in repeat_cells(cells, folder, jobs=jobs, progress=progress):
        record = of_cell[key_of(cell)]
        try:
            result, _ = finished.result()
            yield Checked(record, json.loads(json.dumps(result)))
        except (DataError, ImportError) as error:
            yield Checked(record, None, str(error))


def format_checks(checks: Sequence[Checked]) -> str:
    """A line for each set, and one for each fit that differs or could not be repeated.

    Examples
    --------
    >>> record = {"key": "k", "cell": {"set": "toy"}, "result": {"error": 0.5, "seconds": 2.0}}
    >>> print(format_checks([Checked(record, {"error": 0.5, "seconds": 9.0})]))
    toy             1 of 1 fits the same
    """
    lines = []
    for name in dict.fromkeys(check.set for check in checks):
        here = [check for check in checks if check.set == name]
        repeated = [check for check in here if check.result is not None]
        same = sum(check.same for check in repeated)
        lines.append(f"{name:<15} {same} of {len(repeated)} fits the same")
        lines += [f"  {_difference(check)}" for check in repeated if not check.same]
        lines += sorted({f"  not repeated: {check.reason}" for check in here if check.reason})
    return "\n".join(lines)


def _difference(check: Checked) -> str:
    name, now = check.differing[0], check.result or {}
    before = check.record["result"][name]
    told = f"{before} in the records, {now.get(name)} here"
    values = told if isinstance(before, float) else "not the same"
    return f"{name} {values}: {json.dumps(check.record['cell'], sort_keys=True)}"


def _set_of(record: Mapping[str, Any]) -> str:
    return str(record["cell"]["set"]).partition("/")[0]
