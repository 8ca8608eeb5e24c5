"""The page of a comparison, one file that needs no network, and its table as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mvsboost.comparison.peers import PEERS
from mvsboost.comparison.plan import ALL_ROWS, METHODS
from mvsboost.comparison.statistics import Change
from mvsboost.comparison.store import Fit
from mvsboost.report import Chart, Code, Section, Table, Text, environment, write_page
from mvsboost.runtime.files import write_whole

if TYPE_CHECKING:
    from mvsboost.comparison import Comparison

__all__ = ["summary_html", "write_results"]

_HEADER = [
    "setting",
    "error",
    "change, %",
    "from",
    "to",
    "times as fast",
    "seconds",
    "trees",
    "folds",
]


_FALL = 0.15
"""Curves begin where so much of the loss is left to learn, so that their ends can be told apart."""

_GREY = 8
"""A colour of no method."""


def write_results(found: Comparison, folder: Path) -> list[Path]:
    """Write the page and the table; the folder is made if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    changes = found.changes
    page, table = folder / "index.html", folder / "results.csv"
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_HEADER)
    writer.writerows([c.setting.name, *_numbers(c)] for c in changes)
    write_whole(table, lambda file: file.write(text.getvalue().encode()))
    write_page(page, "Which rows may be left out", _sections(found, changes))
    return [page, table]


def summary_html(found: Comparison) -> str:
    """The answer and the table, for a notebook."""
    parts = Text(found.sentence), Code(found.code), _table(found.changes)
    return "\n".join(part.html() for part in parts)


def _numbers(c: Change) -> list[float | int]:
    return [c.error, c.change, c.low, c.high, c.speed, c.seconds, c.trees, c.folds]


def _sections(found: Comparison, changes: Sequence[Change]) -> list[Section]:
    task, fits = found.task, found.store.fits
    done, planned = len(fits), len(found.settings) * found.folds
    size = f"{found.n_rows:,} rows, {found.n_columns} columns, {task.name} as the target"
    part = "" if done >= planned else f" {done} of {planned} fits were done."
    called = [Code(found.command)] if found.command else []
    versions = "\n".join(f"{name:<14}{value}" for name, value in environment().items())
    return [
        Section("The answer", [Text(found.sentence), Code(found.code)]),
        Section(
            "Error by sample rate",
            [_by_rate(changes, task.error_name), Text(f"{size}; {found.folds} folds.{part}")],
        ),
        Section("Time against error", [_pareto(changes, task.error_name)]),
        Section("Learning curves", [_curves(fits)]),
        Section("What is drawn", _sampling(fits, found.n_rows)),
        Section("All settings", [_table(changes)]),
        Section("How it was made", [Text(_EXPLANATION), *called, Code(versions)]),
    ]


_EXPLANATION = (
    "Every setting is fitted on the same folds. An eighth of the training rows tells when to stop; "
    "the fold tells the error. Changes are paired over folds; bands and intervals hold 95%, and "
    "allow for the rows that folds share. Time is that of a whole fit: binning, boosting and early "
    "stopping. MVS draws rows with large gradients more often; with a second look the sample "
    "proposes features and all rows decide; SGB draws rows uniformly; GOSS keeps the largest "
    "gradients. The best of many settings flatters itself a little."
)


def _by_rate(changes: Sequence[Change], error: str) -> Chart:
    series: list[dict[str, Any]] = []
    for method in METHODS:
        own = sorted(
            (c for c in changes if c.setting.method == method and c.setting != ALL_ROWS),
            key=lambda c: c.setting.rate,
        )
        points = [
            {"x": c.setting.rate, "y": c.change, **_band(c), "label": _label(c, error)} for c in own
        ]
        if points:
            series.append({"name": method, "points": points, "colour": _colour(method)})
    rates = sorted({c.setting.rate for c in changes if c.setting.rate < 1.0})
    spec = {
        "x": "sample rate",
        "y": f"change of {error}",
        "xlog": True,
        "xticks": rates,
        "zero": 0.0,
        "percent": True,
        "series": series,
    }
    caption = "Lower is better; the dashed line is training on all rows. Bands hold 95%."
    return Chart(spec, f"Change of {error} by sample rate, a line for each method", caption)


def _colour(method: str) -> int:
    """The same in all charts."""
    return [*METHODS, *PEERS].index(method)


def _band(c: Change) -> dict[str, float]:
    return {"low": c.low, "high": c.high} if math.isfinite(c.spread) else {}


def _label(c: Change, error: str) -> str:
    band = f" ({c.low:+.2f} to {c.high:+.2f})" if math.isfinite(c.spread) else ""
    return (
        f"{c.setting.name}: {error} {c.error:.5f}, {c.change:+.2f}%{band}, "
        f"{c.seconds:.2f} s, {c.speed:.1f} × as fast"
    )


def _pareto(changes: Sequence[Change], error: str) -> Chart:
    by_method: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for c in changes:
        point = {"x": c.seconds, "y": c.error, "label": _label(c, error)}
        by_method[c.setting.method].append(point)
    series: list[dict[str, Any]] = [
        {"name": m, "points": points, "line": False, "colour": _colour(m)}
        for m, points in by_method.items()
    ]
    best = [{"x": c.seconds, "y": c.error} for c in _unbeaten(changes)]
    if len(best) > 1:
        series.append(
            {"name": "unbeaten", "points": best, "dots": False, "colour": _GREY, "strength": 0.6}
        )
    spec = {"x": "seconds of a fit", "y": error, "xlog": True, "series": series}
    return Chart(spec, f"{error} against seconds of a fit", "Left and low is better.")


def _unbeaten(changes: Iterable[Change]) -> list[Change]:
    """Settings that none is both faster and better than, by time."""
    found: list[Change] = []
    for c in sorted(changes, key=lambda c: (c.seconds, c.error)):
        if not found or c.error < found[-1].error:
            found.append(c)
    return found


def _shown(fits: Iterable[Fit]) -> list[Fit]:
    """All rows, and of each method the rate nearest to the default, on the first fold."""
    first = [fit for fit in fits if fit.fold == 0 and fit.curve]
    chosen: dict[str, Fit] = {}
    for fit in first:
        known = chosen.get(fit.setting.method)
        if known is None or abs(fit.setting.rate - 0.3) < abs(known.setting.rate - 0.3):
            chosen[fit.setting.method] = fit
    return list(chosen.values())


def _curves(fits: Sequence[Fit]) -> Chart:
    shown = _shown(fits)
    losses = [loss for fit in shown for _, _, loss in fit.curve]
    highest = min(losses) + _FALL * (max(losses) - min(losses)) if losses else 0.0
    series = [
        {
            "name": fit.setting.name,
            "points": [{"x": s, "y": loss} for _, s, loss in fit.curve if loss <= highest],
            "colour": _colour(fit.setting.method),
        }
        for fit in shown
    ]
    spec = {"x": "seconds", "y": "loss of rows held out", "series": series}
    return Chart(
        spec, "Loss of rows held out, by time", "The first fold, when most of the loss is gone."
    )


def _sampling(fits: Sequence[Fit], n_rows: int) -> list[Chart | Text]:
    drawn = _by_rates_of_mvs(fits)
    charts: list[Chart | Text] = []
    for column, name in ((1, "threshold µ"), (2, "regularisation λ"), (3, "effective sample size")):
        series = [
            {
                "name": fit.setting.name,
                "points": points,
                "colour": _colour(fit.setting.method),
                "strength": (k + 1) / len(drawn),
            }
            for k, fit in enumerate(drawn)
            if (points := [{"x": row[0], "y": row[column]} for row in fit.sampling if row[column]])
        ]
        if series:
            spec = {"x": "iteration", "y": name, "ylog": column == 2, "series": series}
            charts.append(Chart(spec, f"{name} by iteration", ""))
    return charts or [Text("No fit of MVS on the first fold yet.")]


def _by_rates_of_mvs(fits: Iterable[Fit]) -> list[Fit]:
    own = [fit for fit in fits if fit.fold == 0 and fit.setting.method == "MVS"]
    return sorted(own, key=lambda fit: fit.setting.rate)


def _table(changes: Sequence[Change]) -> Table:
    rows = [
        [
            c.setting.name,
            f"{c.error:.5f}",
            f"{c.change:+.2f}",
            _signed(c.low),
            _signed(c.high),
            f"{c.speed:.2f}",
            f"{c.seconds:.2f}",
            f"{c.trees:.0f}",
            c.folds,
        ]
        for c in changes
    ]
    return Table(_HEADER, rows, sortable=True)


def _signed(value: float) -> str:
    return f"{value:+.2f}" if math.isfinite(value) else "–"
