"""The file of results: one version, one environment, and figures by case and measure."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

from mvsboost.report import environment

RESULTS = Path(__file__).parent / "results.json"

BASE = "LightGBM full"
"""Ratios are against it, and its best loss is what the others race to."""

MEASURES = ("iteration", "quality", "memory", "binning", "prediction")
"""What is measured of a case: each a figure by the contender's name, or the library's."""


def facts() -> dict[str, str]:
    """What figures depend on besides the contender and the case."""
    found = environment("pandas", "lightgbm", "xgboost", "catboost")
    del found["platform"]  # which changes with every start of a virtual machine
    return {**found, "processor": _processor()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def load(path: Path = RESULTS) -> dict[str, Any]:
    """The results in a file; only the environment where there is none yet."""
    if not path.exists():
        return {"environment": facts()}
    results: dict[str, Any] = json.loads(path.read_text())
    return results


def open_for(path: Path) -> None:
    """End the program where the file has figures of another environment."""
    if load(path)["environment"] != facts():
        raise SystemExit(
            f"{path} has figures of another environment: remove it, or name another file by --out"
        )


def merge(path: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Replace the same figures in the file, and no others."""
    results = load(path)
    _update(results, found)
    path.write_text(json.dumps(results, indent=1) + "\n")
    return results


def _update(old: dict[str, Any], new: dict[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            _update(old[key], value)
        else:
            old[key] = value
