"""Check of the preparation: the figure that the paper starts from."""

from __future__ import annotations

from collections.abc import Iterator

from mvsboost.report import Part, Table, Text
from research.plan import NO_SAMPLING, Cell, Experiment, Plan
from research.sets import SETS

_TEXT = (
    "1 − AUC of LightGBM without sampling, with the published parameters and categories as "
    "running means of the target. Where it agrees with the paper's, the data are prepared as "
    "they were there. (Sizes under full raise low learning rates and take fewer trees, which "
    "changes the error a little.)"
)


def _cell(plan: Plan, name: str) -> Cell:
    return plan.cell(name, NO_SAMPLING, 0, engine="lightgbm", view="counters")


def _sets(plan: Plan) -> list[str]:
    return [name for name in plan.sets if not SETS[name].stands_in]


def _cells(plan: Plan) -> Iterator[Cell]:
    return (_cell(plan, name) for name in _sets(plan))


def _parts(plan: Plan) -> list[Part]:
    rows = []
    for name in _sets(plan):
        result, paper = plan.store.get(_cell(plan, name)), SETS[name].paper_error
        if result is not None:
            theirs = "" if paper is None else f"{paper:.4f}"
            rows.append([SETS[name].title, f"{result['error']:.4f}", theirs])
    return [Text(_TEXT), Table(["set", "here", "paper"], rows)] if rows else []


PREPARATION = Experiment("The preparation of the data", _cells, _parts)
