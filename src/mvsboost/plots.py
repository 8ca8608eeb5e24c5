"""Figures of an estimator: each function draws on Axes, given ones or new ones, and returns them.

New ones are pyplot's, so that a notebook shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mvsboost.errors import DataError, ParameterError
from mvsboost.model.readable import column_splits
from mvsboost.trees import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_history", "plot_importance", "plot_sampling", "plot_tree"]

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


def plot_history(estimator: Any, metric: str | None = None, *, ax: Axes | None = None) -> Any:
    """A metric by iteration, a line for each evaluation set.

    Parameters
    ----------
    estimator : MVSClassifier or MVSRegressor
        Fitted with an ``eval_set`` or a ``validation_fraction``.
    metric : str, optional
        By default all, each on Axes of its own.
    ax : Axes, optional
        Draw here; for a single metric.

    Returns
    -------
    Axes, or an array of them where there are several metrics
    """
    history = _fitted(estimator, "evals_result_")
    if not history:
        raise DataError(
            "evals_result_ is empty: fit with an eval_set or a validation_fraction to have "
            "metrics to plot"
        )
    metrics = list(dict.fromkeys(name for by_metric in history.values() for name in by_metric))
    if metric is not None and metric not in metrics:
        raise ParameterError("metric", metric, f"one of {', '.join(map(repr, metrics))}")
    chosen = metrics if metric is None else [metric]
    if ax is not None and len(chosen) > 1:
        raise ParameterError("metric", metric, f"one of {', '.join(map(repr, metrics))} with ax")
    every = [ax] if ax is not None else new_axes(6.0 * len(chosen), 4.0, 1, len(chosen))
    best, last = getattr(estimator, "best_iteration_", None), estimator.model_.n_iterations
    for axes, name in zip(every, chosen, strict=True):
        for i, (data, by_metric) in enumerate(history.items()):
            values = by_metric.get(name, [])
            iterations = range(last - len(values) + 1, last + 1)  # a continued model had others
            axes.plot(iterations, values, label=shown(data), **{**style(i), "marker": ""})
        if best is not None:
            axes.axvline(best, color="0.35", linestyle=":", label=f"best: {best}")
        label_axes(axes, "iteration", shown(name))
        axes.legend(frameon=False)
    return every[0] if len(chosen) == 1 else np.array(every)


def plot_sampling(estimator: Any) -> Any:
    """Rows drawn, effective sample size, µ and λ by iteration, on four Axes.

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
    every = new_axes(10.0, 6.0, 2, 2)
    iterations = np.arange(1, len(history) + 1)
    for i, (axes, (key, title)) in enumerate(zip(every, _SAMPLING_PANELS.items(), strict=True)):
        values = np.array([record[key] for record in history], np.float64)
        label_axes(axes, "iteration", title)
        if np.isnan(values).all():
            axes.text(
                0.5, 0.5, f"the sampler has no {title}", ha="center", transform=axes.transAxes
            )
            continue
        axes.plot(iterations, values, **{**style(i), "marker": "." if len(history) < 60 else ""})
        if key != "lam":
            axes.set_ylim(bottom=0.0)
        elif np.nanmin(values) > 0.0:
            axes.set_yscale("log")
    return np.array(every).reshape(2, 2)


def plot_importance(
    estimator: Any, kind: str = "gain", max_features: int = 20, *, ax: Axes | None = None
) -> Axes:
    """Share of each column in the total importance, largest first.

    Parameters
    ----------
    estimator : MVSClassifier or MVSRegressor
        Fitted.
    kind : {"gain", "split", "cover"}
        See `Model.importances`.
    max_features : int
        Columns to show at most.
    ax : Axes, optional
        Draw here.
    """
    if isinstance(max_features, bool) or not isinstance(max_features, int) or max_features < 1:
        raise ParameterError("max_features", max_features, "a positive integer")
    model = _fitted(estimator, "model_")
    totals = model.importances(kind)
    shares = totals / (totals.sum() or 1.0)
    largest = np.argsort(-shares, kind="stable")[:max_features]
    names = [shown(model.schema.names[column]) for column in largest]
    axes = ax if ax is not None else new_axes(7.0, 1.0 + 0.3 * len(largest))[0]
    axes.barh(range(len(largest)), 100.0 * shares[largest], color=_COLOURS[0])
    axes.set_yticks(range(len(largest)), names)
    axes.invert_yaxis()
    label_axes(axes, f"share of the total {kind}, %", "")
    axes.grid(visible=False, axis="y")
    return axes


def plot_tree(estimator: Any, tree: int = 0, *, ax: Axes | None = None) -> Axes:
    """A tree, with the thresholds and categories of the table: what passes a test goes left.

    Parameters
    ----------
    estimator : MVSClassifier or MVSRegressor
        Fitted.
    tree : int
        Its number; several outputs take turns.
    ax : Axes, optional
        Draw here.
    """
    model = _fitted(estimator, "model_")
    trees = [one for group in model.iterations for one in group]
    if isinstance(tree, bool) or not isinstance(tree, int) or not 0 <= tree < len(trees):
        raise ParameterError("tree", tree, f"an integer from 0 to {len(trees) - 1}")
    drawn = trees[tree]
    x, y = _places(drawn)
    axes = ax if ax is not None else new_axes(1.5 * drawn.n_leaves + 2.0, 1.1 - y.min())[0]
    for node, split in enumerate(column_splits(drawn, model.mapper)):
        for child in (drawn.left[node], drawn.right[node]) if split is not None else ():
            axes.plot(x[[node, child]], y[[node, child]], color="0.6", linewidth=1.0, zorder=1)
        value = f"{drawn.value[node]:+.4g}" if split is None else split.told(model.schema, most=2)
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": _COLOURS[split is not None]}
        text = f"{shown(value)}\n{drawn.cover[node]:,.0f} rows"
        axes.text(x[node], y[node], text, ha="center", va="center", fontsize=8, bbox=box, zorder=2)
    axes.set_xlim(-0.7, drawn.n_leaves - 0.3)
    axes.set_ylim(y.min() - 0.5, 0.5)
    axes.set_axis_off()
    return axes


def _places(tree: Tree) -> tuple[Any, Any]:
    """Leaves side by side, each node over the middle of its children, a level lower than it."""
    x, y = np.zeros(tree.n_nodes), np.zeros(tree.n_nodes)
    waiting, n_leaves = [0], 0
    while waiting:  # from left to right
        node = waiting.pop()
        if tree.left[node] < 0:
            x[node], n_leaves = n_leaves, n_leaves + 1
            continue
        children = [tree.right[node], tree.left[node]]
        y[children] = y[node] - 1.0
        waiting += children
    for node in range(tree.n_nodes - 1, -1, -1):  # children come after their parent
        if tree.left[node] >= 0:
            x[node] = (x[tree.left[node]] + x[tree.right[node]]) / 2.0
    return x, y


# --- small parts --------------------------------------------------------------------------------


def new_axes(width: float, height: float, rows: int = 1, columns: int = 1) -> list[Axes]:
    """Axes of a new figure of pyplot."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib") from error
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(width, height), layout="constrained", squeeze=False
    )
    figure.set_facecolor("white")
    return list(axes.flat)


def shown(text: object, longest: int = _LONGEST) -> str:
    r"""A user's text as a label: a dollar is a dollar, and a long text loses its middle.

    Two dollars would have matplotlib read what is between them as mathematics. Names that begin
    alike mostly end differently, so both ends are kept.

    Examples
    --------
    >>> print(shown("price ($)"))
    price (\$)
    >>> shown("income_of_the_household_last_year", longest=12)
    'income…_year'
    """
    whole = str(text)
    if len(whole) > longest:
        tail = (longest - 1) // 2
        whole = f"{whole[: longest - 1 - tail]}…{whole[-tail:]}"
    return whole.replace("$", r"\$")


def style(index: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "marker": _MARKERS[index % len(_MARKERS)],
    }


def label_axes(axes: Axes, x: str, y: str) -> None:
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
