"""Figures of the experiments, made without pyplot: no backend is chosen, and none stays open."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from mvsboost.errors import DataError
from mvsboost.plots import label_axes, shown, style

__all__ = ["plot_error_by_rate", "plot_prediction", "to_png"]

_LONGEST_TITLE = 80


def plot_error_by_rate(records: Iterable[Mapping[str, Any]], title: str = "") -> Figure:
    """Change of the error against the sample rate, one line a method.

    Parameters
    ----------
    records : iterable of mapping
        Each with ``method`` (str), ``rate`` (in (0, 1]) and ``change`` (% against no
        sampling). A record at rate 1 is the zero line and is not drawn. ``low`` and ``high``,
        where given, are drawn as a band.
    title : str

    Examples
    --------
    >>> records = [{"method": "MVS", "rate": r, "change": 1 / r} for r in (0.1, 0.2)]
    >>> plot_error_by_rate(records).axes[0].get_xlabel()
    'sample rate'
    """
    lines: dict[str, list[tuple[float, ...]]] = {}
    for record in records:
        if record["rate"] < 1:
            change = float(record["change"])
            band = float(record.get("low", change)), float(record.get("high", change))
            lines.setdefault(record["method"], []).append((float(record["rate"]), change, *band))
    if not lines:
        raise DataError("records must hold at least one result at a rate under 1, got none")
    figure = _new_figure(8.0, 5.0)
    axes = figure.subplots()
    axes.axhline(0.0, color="0.35", linewidth=1.2, linestyle="--", label="no sampling")
    for i, (method, points) in enumerate(lines.items()):
        x, y, low, high = zip(*sorted(points), strict=True)
        (line,) = axes.plot(x, y, label=shown(method), linewidth=1.8, markersize=6, **style(i))
        if low != high:
            axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    rates = sorted({point[0] for points in lines.values() for point in points})
    axes.set_title(shown(title, longest=_LONGEST_TITLE))
    axes.set_xscale("log")
    axes.set_xticks(rates, _tick_labels(rates))
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+g}%" if value else "0%")
    label_axes(axes, "sample rate", "test error (1 − AUC) against no sampling")
    axes.legend(frameon=False)
    return figure


def _tick_labels(rates: Sequence[float]) -> list[str]:
    """The rates; empty where a label would run into the one before it, on a logarithmic axis.

    Examples
    --------
    >>> _tick_labels([0.3, 0.35, 0.4])
    ['0.3', '0.35', '']
    """
    labels, last = [], 0.0
    for rate in rates:
        far = rate > 1.15 * last
        labels.append(f"{rate:g}" if far else "")
        last = rate if far else last
    return labels


def plot_prediction(records: Iterable[Mapping[str, Any]], x: str, y: str) -> Figure:
    """What was measured, solid, and what was predicted, dashed; y on a logarithmic scale.

    Parameters
    ----------
    records : iterable of mapping
        Each with ``panel``, ``line``, ``x``, ``measured`` and ``predicted``.
    x, y : str
        Names of the axes.

    Examples
    --------
    >>> one = {"panel": "root", "line": "MVS", "x": 1, "measured": 0.2, "predicted": 0.1}
    >>> [axes.get_title() for axes in plot_prediction([one], "iteration", "deviation").axes]
    ['root']
    """
    panels: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for record in records:
        panels.setdefault(record["panel"], {}).setdefault(record["line"], []).append(record)
    if not panels:
        raise DataError("records must hold at least one result, got none")
    figure = _new_figure(5.0 * len(panels), 4.0)
    every = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, (panel, lines) in zip(every, panels.items(), strict=True):
        for i, (line, points) in enumerate(lines.items()):
            at = [shown(point["x"]) for point in points]
            measured, predicted = (
                [point[what] for point in points] for what in ("measured", "predicted")
            )
            axes.plot(at, measured, label=shown(line), **style(i))
            axes.plot(at, predicted, linestyle="--", **{**style(i), "marker": ""})
        axes.set_title(shown(panel))
        axes.set_yscale("log")
        label_axes(axes, shown(x), shown(y) if axes is every[0] else "")
    every[0].legend(frameon=False)
    return figure


def to_png(figure: Figure, dpi: int = 150) -> bytes:
    """A figure as the bytes of a PNG file, drawn by Agg.

    Examples
    --------
    >>> to_png(plot_error_by_rate([{"method": "MVS", "rate": 0.1, "change": 1.0}]))[1:4]
    b'PNG'
    """
    buffer = io.BytesIO()
    # without its version in the file, equal figures make equal bytes
    figure.savefig(buffer, format="png", dpi=dpi, backend="agg", metadata={"Software": None})
    return buffer.getvalue()


def _new_figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")
