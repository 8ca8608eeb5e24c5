"""The file of results: each figure with what it was measured under.

A part of the benchmark that is run again, by another version or on another machine, replaces
its own figures: those of a case, a measure and a contender. All others stay as they are, with
the environment and the rounds they come from, and with the time that their ratio is against.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BASE = "LightGBM full"
"""Ratios are against it, and its best loss is what the others race to."""

MEASURES = ("iteration", "quality", "auc", "memory", "binning", "prediction")
"""What is measured of a case: each a figure by the contender's name, or the library's."""


def figures(values: dict[str, Any], **under: Any) -> dict[str, dict[str, Any]]:
    """Values by name, each with what all of them were measured under."""
    return {who: {"value": value, **under} for who, value in values.items()}


def load(path: Path) -> dict[str, Any]:
    """The results in a file, in the format of today: environments, cases, and growth."""
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if "environment" in results:
        return _upgraded(results)
    return {"environments": [], "cases": {}, **results}


def merge(path: Path, found: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
    """What is in the file and what was found in this environment, which is written back."""
    results = load(path)
    if environment not in results["environments"]:
        results["environments"].append(environment)
    stamp = {"environment": results["environments"].index(environment)}
    for name, new in found.get("cases", {}).items():
        case = results["cases"].setdefault(name, {})
        for key, value in new.items():
            if key in MEASURES:
                own = {who: {**figure, **stamp} for who, figure in value.items()}
                case[key] = {**case.get(key, {}), **own}
            else:
                case[key] = value
    if "growth" in found:
        results["growth"] = {**found["growth"], **stamp}
    path.write_text(json.dumps(results, indent=1))
    return results


def _upgraded(old: dict[str, Any]) -> dict[str, Any]:
    """A file of the first format, which had one environment for all: that of its last run."""
    cases = {n: _upgraded_case(c) for n, c in old.items() if n not in ("environment", "growth")}
    results = {"environments": [old["environment"]], "cases": cases}
    if "growth" in old:
        results["growth"] = {**old["growth"], "environment": 0}
    return results


def _upgraded_case(old: dict[str, Any]) -> dict[str, Any]:
    case = {key: old[key] for key in ("rows", "features")}
    for measure in MEASURES:
        if measure not in old:
            continue
        values, under = old[measure], {"environment": 0}
        if measure == "iteration":
            under |= {"rounds": old["rounds"], "base": values.get(BASE)}
        if measure == "quality":
            target, values = values["target"], values["seconds"]
            rounds = old[measure].get("rounds", 1)
            under |= {"rounds": rounds, "target": target, "base": values.get(BASE)}
        case[measure] = figures(values, **under)
    return case
