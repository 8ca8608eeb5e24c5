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
        fit of each is not counted: only boosting is.
    folder : Path, optional
    """
    times: dict[str, list[float]] = {name: [] for name in cell["contenders"]}
    errors: dict[str, float] = {}
    for _ in range(cell["rounds"]):
        for name, contender in cell["contenders"].items():
            result = fit_and_judge(contender, folder)
            times[name].append(result["seconds"])
            errors[name] = result["error"]  # the same in every round
    seconds = {name: median(values) for name, values in times.items()}
    return {"seconds": seconds, "errors": errors}
