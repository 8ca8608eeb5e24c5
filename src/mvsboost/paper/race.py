"""Time fits against each other: in turn, in one process, medians of several rounds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from mvsboost.paper.engines import fit_and_judge

__all__ = ["race"]


def race(cell: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Median seconds of boosting of each contender, and its error.

    Parameters
    ----------
    cell : mapping
        ``contenders``, cells by name, and ``rounds``. What is read and compiled in the first
        fit of each is not counted: only boosting is. Of contenders that ask for ``stages``
        the median seconds of each are given too.
    folder : Path, optional
    """
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in cell["contenders"]}
    for _ in range(cell["rounds"]):
        for name, contender in cell["contenders"].items():
            results[name].append(fit_and_judge(contender, folder))
    timed = {
        "seconds": {
            name: median(one["seconds"] for one in rounds) for name, rounds in results.items()
        },
        # the same in every round
        "errors": {name: rounds[-1]["error"] for name, rounds in results.items()},
    }
    stages = {
        name: {verb: median(one["stages"][verb] for one in rounds) for verb in rounds[0]["stages"]}
        for name, rounds in results.items()
        if "stages" in rounds[0]
    }
    return {**timed, "stages": stages} if stages else timed
