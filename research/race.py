"""Time fits against each other: in one process, medians of several rounds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from research.engines import fit_and_judge
from research.turns import in_turn

__all__ = ["race"]


def race(cell: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Median seconds of boosting of each contender, and its error.

    Parameters
    ----------
    cell : mapping
        ``contenders``, cells by name, ``rounds``, and ``slice``, the seconds for which contenders
        take turns. Only boosting counts. Of contenders that ask for ``stages`` the median seconds
        of each are given too.
    folder : Path, optional
    """
    contenders = cell["contenders"]
    for one in contenders.values():  # what is read and compiled does not count
        fit_and_judge({**one, "trees": 1}, folder)
    fits = [partial(fit_and_judge, one, folder) for one in contenders.values()]
    rounds = [in_turn(fits, cell["slice"]) for _ in range(cell["rounds"])]
    results = dict(zip(contenders, zip(*rounds, strict=True), strict=True))
    seconds = {name: median(fit["seconds"] for fit in own) for name, own in results.items()}
    errors = {name: own[0]["error"] for name, own in results.items()}  # the same in every round
    stages = {
        name: {verb: median(fit["stages"][verb] for fit in own) for verb in own[0]["stages"]}
        for name, own in results.items()
        if "stages" in own[0]
    }
    timed = {"seconds": seconds, "errors": errors}
    return {**timed, "stages": stages} if stages else timed
