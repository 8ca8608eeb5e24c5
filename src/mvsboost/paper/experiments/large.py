"""Large data: the error and the time by rate on whole sets, each fit alone on all cores.

The paper has Higgs and RecSys here; their loaders are in `sets.publishers`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from mvsboost.backends.cpu.threads import available_cores
from mvsboost.paper.plan import NO_SAMPLING, Cell, Experiment, Plan, Setting, setting
from mvsboost.paper.sets import LARGE_SETS
from mvsboost.paper.summaries import percent
from mvsboost.report import Part, Table, Text

__all__ = ["LARGE"]

_SETS = (
    ("small synthetic",),
    ("flights", "whole sba", "covertype", "whole ieee", "synthetic"),
    ("flights", "whole sba", "covertype", "whole ieee", "synthetic"),
)
_RATES = ((0.1,), (0.02, 0.1, 0.3, 0.8), (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8))
_TREES = (20, 100, 500)

PAPER_LARGE = (
    ("Higgs", "SGB", "no rate without loss"),
    ("Higgs", "GOSS", "-8.5% at rate 0.8"),
    ("Higgs", "MVS", "-17.7% at rate 0.8"),
    ("RecSys", "SGB", "-50.3% at rate 0.2"),
    ("RecSys", "GOSS", "-39.9% at rate 0.2"),
    ("RecSys", "MVS", "-61.5% at rate 0.1"),
)
"""Change of the learning time without loss of quality in the paper."""

_TEXT = (
    "Change of 1 − AUC and of the time of boosting against no sampling, one seed, all cores, one "
    "fit at a time; the same number of trees for all, whether they have converged or not."
)


def _settings(rate: float) -> dict[str, Setting]:
    return {
        "SGB": setting({"name": "sgb", "rate": rate}),
        "GOSS": setting({"name": "goss", "top_rate": rate / 2, "other_rate": rate / 2}),
        "MVS": setting({"name": "mvs", "rate": rate, "lam": 0.1}),
        "MVS, leaves from all rows": setting({"name": "mvs", "rate": rate, "lam": "leaf"}, "all"),
        "MVS, second look 4": setting({"name": "mvs", "rate": rate, "lam": "leaf"}, "all", 4),
    }


def _cell(plan: Plan, name: str, one: Setting) -> Cell:
    return {
        **plan.cell(name, one, 0),
        "alone": True,
        "trees": _TREES[plan.size.effort],
        "learning_rate": LARGE_SETS[name].learning_rate,
        "threads": available_cores(),
    }


def _cells(plan: Plan) -> Iterator[Cell]:
    for name in _SETS[plan.size.effort]:
        yield _cell(plan, name, NO_SAMPLING)
        for rate in _RATES[plan.size.effort]:
            for one in _settings(rate).values():
                yield _cell(plan, name, one)


def _parts(plan: Plan) -> list[Part]:
    parts: list[Part] = []
    rates = _RATES[plan.size.effort]
    for name in _SETS[plan.size.effort]:
        base = plan.store.get(_cell(plan, name, NO_SAMPLING))
        if base is None:
            continue
        rows = []
        for method in _settings(0.5):
            cells = []
            for rate in rates:
                result = plan.store.get(_cell(plan, name, _settings(rate)[method]))
                cells.append("" if result is None else _both(result, base))
            rows.append([method, *cells])
        without = f"no sampling: 1 − AUC {base['error']:.5f}, {base['seconds']:.1f} s"
        parts.append(Text(f"{LARGE_SETS[name].title}; {without}."))
        parts.append(Table(["error, time", *(f"{rate:g}" for rate in rates)], rows))
    if not parts:
        return []
    paper = Table(["set", "method", "time in the paper"], PAPER_LARGE, text_columns=3)
    return [Text(_TEXT), *parts, Text("The paper, at the smallest rate without loss:"), paper]


def _both(result: dict[str, float], base: dict[str, float]) -> str:
    error = 100.0 * (result["error"] / base["error"] - 1.0) if base["error"] else math.nan
    time = 100.0 * (result["seconds"] / base["seconds"] - 1.0)
    return f"{percent(error)}, {time:+.0f}%"


LARGE = Experiment("Large data", _cells, _parts)
