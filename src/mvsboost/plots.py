"""Figures of results: each function takes plain results or an estimator and returns a Figure.

Figures are made without pyplot, so nothing global changes: no backend is chosen, no style
is set and no figure stays open. Matplotlib is imported when the first figure is made.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mvsboost.errors import DataError, ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "plot_error_by_rate",
    "plot_history",
    "plot_importance",
    "plot_prediction",
    "plot_sampling",
    "to_png",
]

# Okabe and Ito's palette, which stays apart for colour-blind eyes, less its yellow
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LONGEST = 40
"""Characters of a name at most: they leave about half of a figure to what is drawn."""

_SAMPLING_PANELS = {
    "rows": "rows drawn",
    "effective_sample_size": "effective sample size",
    "mu": "threshold µ",
    "lam": "regularisation λ",
}


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
        (line,) = axes.plot(x, y, label=_shown(method), linewidth=1.8, markersize=6, **_style(i))
        if low != high:
            axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    rates = sorted({point[0] for points in lines.values() for point in points})
    axes.set_title(_shown(title, longest=2 * _LONGEST))
    axes.set_xscale("log")
    axes.set_xticks(rates, _tick_labels(rates))
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+g}%" if value else "0%")
    _label(axes, "sample rate", "test error (1 − AUC) against no sampling")
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
            at = [_shown(point["x"]) for point in points]
            measured, predicted = (
                [point[what] for point in points] for what in ("measured", "predicted")
            )
            axes.plot(at, measured, label=_shown(line), **_style(i))
            axes.plot(at, predicted, linestyle="--", **{**_style(i), "marker": ""})
        axes.set_title(_shown(panel))
        axes.set_yscale("log")
        _label(axes, _shown(x), _shown(y) if axes is every[0] else "")
    every[0].legend(frameon=False)
    return figure


def plot_history(estimator: Any) -> Figure:
    """Every metric by iteration: a panel for each metric, a line for each evaluation set.

    Parameters
    ----------
    estimator : MVSClassifier or MVSRegressor
        Fitted with an ``eval_set`` or a ``validation_fraction``.
    """
    history = _fitted(estimator, "evals_result_")
    if not history:
        raise DataError(
            "evals_result_ is empty: fit with an eval_set or a validation_fraction to have "
            "metrics to plot"
        )
    metrics = list(dict.fromkeys(name for by_metric in history.values() for name in by_metric))
    figure = _new_figure(6.0 * len(metrics), 4.0)
    best, last = getattr(estimator, "best_iteration_", None), estimator.model_.n_iterations
    for axes, metric in zip(
        figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True
    ):
        for i, (data, by_metric) in enumerate(history.items()):
            values = by_metric.get(metric, [])
            style = {**_style(i), "marker": ""}
            iterations = range(last - len(values) + 1, last + 1)  # a continued model had others
            axes.plot(iterations, values, label=_shown(data), **style)
        if best is not None:
            axes.axvline(best, color="0.35", linestyle=":", label=f"best: {best}")
        _label(axes, "iteration", _shown(metric))
        axes.legend(frameon=False)
    return figure


def plot_sampling(estimator: Any) -> Figure:
    """Rows drawn, effective sample size, µ and λ by iteration.

    Parameters
    ----------
    estimator : MVSClassifier or MVSRegressor
        Fitted in this process: model files do not keep these records.

    Notes
    -----
    The effective sample size is (Σw)² / Σw²: the number of equally weighted rows that
    would be as precise.
    """
    history = _fitted(estimator, "sampling_history_")
    if not history:
        raise DataError("sampling_history_ is empty: no iteration was trained")
    figure = _new_figure(10.0, 6.0)
    iterations = np.arange(1, len(history) + 1)
    for i, (axes, (key, title)) in enumerate(
        zip(figure.subplots(2, 2).flat, _SAMPLING_PANELS.items(), strict=True)
    ):
        values = np.array([record[key] for record in history], np.float64)
        _label(axes, "iteration", title)
        if np.isnan(values).all():
            axes.text(
                0.5, 0.5, f"the sampler has no {title}", ha="center", transform=axes.transAxes
            )
            continue
        axes.plot(iterations, values, **{**_style(i), "marker": "." if len(history) < 60 else ""})
        if key != "lam":
            axes.set_ylim(bottom=0.0)
        elif np.nanmin(values) > 0.0:
            axes.set_yscale("log")
    return figure


def plot_importance(estimator: Any, kind: str = "gain", max_features: int = 20) -> Figure:
    """Share of each column in the total importance, largest first.

    Parameters
    ----------
    estimator : MVSClassifier or MVSRegressor
        Fitted.
    kind : {"gain", "split", "cover"}
        See `Model.importances`.
    max_features : int
        Columns to show at most.
    """
    if isinstance(max_features, bool) or not isinstance(max_features, int) or max_features < 1:
        raise ParameterError("max_features", max_features, "a positive integer")
    model = _fitted(estimator, "model_")
    totals = model.importances(kind)
    shares = totals / (totals.sum() or 1.0)
    shown = np.argsort(-shares, kind="stable")[:max_features]
    names = [_shown(model.schema.names[column]) for column in shown]
    figure = _new_figure(7.0, 1.0 + 0.3 * len(shown))
    axes = figure.subplots()
    axes.barh(range(len(shown)), 100.0 * shares[shown], color=_COLOURS[0])
    axes.set_yticks(range(len(shown)), names)
    axes.invert_yaxis()
    _label(axes, f"share of the total {kind}, %", "")
    axes.grid(visible=False, axis="y")
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


# --- small parts --------------------------------------------------------------------------------


def _new_figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install mvsboost[plot]") from error
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def _shown(text: object, longest: int = _LONGEST) -> str:
    r"""A user's text as a label: a dollar is a dollar, and a long text loses its middle.

    Two dollars would have matplotlib read what is between them as mathematics. Names that begin
    alike mostly end differently, so both ends are kept.

    Examples
    --------
    >>> print(_shown("price ($)"))
    price (\$)
    >>> _shown("income_of_the_household_last_year", longest=12)
    'income…_year'
    """
    whole = str(text)
    if len(whole) > longest:
        tail = (longest - 1) // 2
        whole = f"{whole[: longest - 1 - tail]}…{whole[-tail:]}"
    return whole.replace("$", r"\$")


def _style(index: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "marker": _MARKERS[index % len(_MARKERS)],
    }


def _label(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _fitted(estimator: Any, attribute: str) -> Any:
    if not hasattr(estimator, attribute):
        raise DataError(
            f"{type(estimator).__name__} has no {attribute}: fit it in this process first"
        )
    return getattr(estimator, attribute)
