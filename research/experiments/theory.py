"""Theory: Theorem 1 against many draws, and how often each sampler finds the best split."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mvsboost.report import Part, Picture, Table, Text
from research.figures import plot_prediction, to_png
from research.plan import Cell, Experiment, Plan
from research.sets import SETS
from research.theory import SAMPLERS

__all__ = ["THEORY"]

_ITERATIONS = ((0, 20), (0, 10, 50, 200), (0, 10, 50, 200, 1000))
_DEPTHS = (0, 3)
_RATE = 0.1
_DRAWS = (20, 50, 200)
_LEAST_LEARNING_RATE = 0.03
_TEXT = (
    f"Deviation of split scores under a sample of {_RATE:g} of the rows: the root of the mean of "
    "(Ŝ − S)² over draws and over all splits of a node by a bin (of categories too, in the order "
    "of their bins), as a share of the best split's gain; beside it what Theorem 1 predicts from "
    "the probabilities alone, as if rows were drawn independently, which those of SGB and GOSS are "
    "not. Then how often the largest Ŝ is of the feature of the largest S, and in brackets of the "
    "same threshold as well. Gradients of a model without sampling after some iterations, learning "
    f"rates under {_LEAST_LEARNING_RATE:g} raised to it; the root, and the nodes of depth 3 of a "
    "tree that all rows grow. Means over the sets."
)
_FIGURE = "Deviations as measured (solid) and by Theorem 1 (dashed), on a logarithmic scale:"


def _cell(plan: Plan, name: str, iteration: int, depth: int) -> Cell:
    info = SETS[name]
    return {
        "kind": "theory",
        "set": name,
        "iteration": iteration,
        "depth": depth,
        "rate": _RATE,
        "draws": _DRAWS[plan.size.effort],
        "learning_rate": max(info.learning_rate, _LEAST_LEARNING_RATE),
        "tree": dict(info.tree),
        "seed": 0,
    }


def _cells(plan: Plan) -> Iterator[Cell]:
    for name in plan.sets:
        for iteration in _ITERATIONS[plan.size.effort]:
            for depth in _DEPTHS:
                yield _cell(plan, name, iteration, depth)


def _parts(plan: Plan) -> list[Part]:
    rows, records = [], []
    for depth in _DEPTHS:
        for iteration in _ITERATIONS[plan.size.effort]:
            known = [plan.store.get(_cell(plan, name, iteration, depth)) for name in plan.sets]
            found = [result for result in known if result is not None]
            if not found:
                continue
            for sampler in SAMPLERS:
                measured, predicted, hits, exact = (
                    float(np.mean([result[sampler][what] for result in found]))
                    for what in ("measured", "predicted", "hits", "exact")
                )
                where = "root" if depth == 0 else f"depth {depth}"
                picked = f"{hits:.0%} ({exact:.0%})"
                records.append(
                    {
                        "panel": where,
                        "line": sampler,
                        "x": iteration,
                        "measured": measured,
                        "predicted": predicted,
                    }
                )
                rows.append(
                    [where, iteration, sampler, f"{measured:.3f}", f"{predicted:.3f}", picked]
                )
    header = ["node", "iteration", "sampler", "deviation", "Theorem 1", "best split found"]
    if not rows:
        return []
    description = "Deviation of split scores by iteration, measured and by Theorem 1"
    picture = Picture(to_png(plot_prediction(records, "iteration", "deviation")), description)
    return [Text(_TEXT), Table(header, rows), Text(_FIGURE), picture]


THEORY = Experiment("Theory", _cells, _parts)
