"""Figures show what they are given, and leave nothing behind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mvsboost import MVS, SGB, Metric, MVSClassifier
from mvsboost.errors import DataError, ParameterError
from mvsboost.plots import plot_history, plot_importance, plot_sampling, plot_tree
from research.figures import plot_error_by_rate, plot_prediction, to_png

matplotlib = pytest.importorskip("matplotlib")
pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    pyplot.close("all")


RECORDS = [
    {"method": "no sampling", "rate": 1.0, "change": 0.0},
    {"method": "SGB", "rate": 0.4, "change": 2.0},
    {"method": "SGB", "rate": 0.1, "change": 8.0},
    {"method": "MVS", "rate": 0.1, "change": 3.0},
]


def fit(**parameters: Any) -> MVSClassifier:
    rows = np.arange(120)
    X = np.column_stack([rows % 7, rows % 2, np.zeros(120)])
    y = (rows % 7 > 3).astype(int)
    settings = {"n_estimators": 3, "min_samples_leaf": 5, "second_look": 0, **parameters}
    return MVSClassifier(**settings).fit(X, y, eval_set=[(X, y), (X[:50], y[:50])])


@pytest.fixture(scope="module")
def estimator() -> MVSClassifier:
    return fit(sampler=MVS(0.6), eval_metric=["log_loss", "auc"], early_stopping_rounds=3)


def test_error_by_rate_draws_one_line_a_method_in_order_of_rate() -> None:
    (axes,) = plot_error_by_rate(RECORDS).axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert list(lines) == ["no sampling", "SGB", "MVS"]
    assert lines["SGB"].get_xydata().tolist() == [[0.1, 8.0], [0.4, 2.0]]
    assert set(lines["no sampling"].get_ydata()) == {0.0}
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.1", "0.4"]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == list(lines)
    assert axes.get_ylabel()


def test_methods_can_be_told_apart() -> None:
    records = [{"method": f"m{i}", "rate": 0.1, "change": i} for i in range(7)]
    lines = plot_error_by_rate(records).axes[0].get_lines()[1:]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 7


def test_error_by_rate_needs_a_rate_under_one() -> None:
    with pytest.raises(DataError, match="at least one result at a rate under 1"):
        plot_error_by_rate(RECORDS[:1])


def test_predictions_are_dashed_beside_what_was_measured() -> None:
    records = [
        {"panel": panel, "line": line, "x": x, "measured": 0.1 * x, "predicted": 0.2}
        for panel in ("root", "deep")
        for line in ("SGB", "MVS")
        for x in (1, 2)
    ]
    panels = plot_prediction(records, "iteration", "deviation").axes
    assert [axes.get_title() for axes in panels] == ["root", "deep"]
    for axes in panels:
        measured, predicted, other, _ = axes.get_lines()
        assert (measured.get_label(), other.get_label()) == ("SGB", "MVS")
        assert measured.get_ydata().tolist() == [0.1, 0.2]
        assert (measured.get_linestyle(), predicted.get_linestyle()) == ("-", "--")
        assert measured.get_color() == predicted.get_color() != other.get_color()
    with pytest.raises(DataError, match="at least one result"):
        plot_prediction([], "iteration", "deviation")


def test_history_has_a_panel_a_metric_and_a_line_a_set(estimator: MVSClassifier) -> None:
    panels = plot_history(estimator)
    assert [axes.get_ylabel() for axes in panels] == ["log_loss", "auc"]
    for axes in panels:
        first, second, best = axes.get_lines()
        assert (first.get_label(), second.get_label()) == ("eval_0", "eval_1")
        assert best.get_label() == f"best: {estimator.best_iteration_}"
    values = estimator.evals_result_["eval_0"]["log_loss"]
    assert panels[0].get_lines()[0].get_ydata().tolist() == values


def test_history_of_a_continued_model_begins_behind_the_first_one() -> None:
    X, y = [[0.0], [1.0]] * 20, [0, 1] * 20
    first = MVSClassifier(n_estimators=3).fit(X, y)
    second = MVSClassifier(n_estimators=2).fit(X, y, eval_set=[(X, y)], init_model=first)
    line, *_ = plot_history(second).get_lines()
    assert list(line.get_xdata()) == [4, 5]


def test_history_without_an_evaluation_says_what_to_do(estimator: MVSClassifier) -> None:
    bare = MVSClassifier(n_estimators=1).fit([[0.0], [1.0]] * 20, [0, 1] * 20)
    with pytest.raises(DataError, match="eval_set"):
        plot_history(bare)


def test_sampling_shows_the_four_records(estimator: MVSClassifier) -> None:
    panels = plot_sampling(estimator).ravel()
    assert len(panels) == 4
    keys = ("rows", "effective_sample_size", "mu", "lam")
    for axes, key in zip(panels, keys, strict=True):
        (line,) = axes.get_lines()
        expected = [record[key] for record in estimator.sampling_history_]
        assert line.get_ydata().tolist() == expected
        assert line.get_xdata().tolist() == [1, 2, 3]


def test_sampling_says_where_a_sampler_has_no_threshold() -> None:
    _, (mu, lam) = plot_sampling(fit(sampler=SGB(0.5)))
    assert [text.get_text() for text in mu.texts] == ["the sampler has no threshold µ"]
    assert [text.get_text() for text in lam.texts] == ["the sampler has no regularisation λ"]


def test_sampling_needs_at_least_one_iteration(estimator: MVSClassifier) -> None:
    empty = fit()
    empty.sampling_history_ = []
    with pytest.raises(DataError, match="no iteration was trained"):
        plot_sampling(empty)


def test_importance_puts_the_largest_on_top(estimator: MVSClassifier) -> None:
    axes = plot_importance(estimator, max_features=2)
    widths = [bar.get_width() for bar in axes.patches]
    shares = 100.0 * estimator.feature_importances_
    assert len(widths) == 2
    assert widths == sorted(shares, reverse=True)[:2]
    assert widths[0] > 50
    low, high = axes.get_ylim()
    assert low > high
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[0] == estimator.model_.schema.names[int(shares.argmax())]


def fit_columns(*names: str) -> MVSClassifier:
    rows = np.arange(60)
    table = {name: rows % (i + 2) for i, name in enumerate(names)}
    y = (rows % (len(names) + 1) > 0).astype(int)
    return MVSClassifier(n_estimators=1, min_samples_leaf=5).fit(table, y)


def drawn(text: Any) -> tuple[str, Any]:
    """What matplotlib makes of a label: the characters, and whether they are mathematics."""
    return text._preprocess_math(text.get_text())


@pytest.mark.parametrize(
    "name", ["$a_$", "price ($) per area ($)", "$", r"\$x\$", "$$", "100%_#{}^"]
)
def test_a_name_is_shown_as_it_is_written(name: str) -> None:
    axes = plot_importance(fit_columns("other", name))
    labels = [drawn(label) for label in axes.get_yticklabels()]
    assert (name, False) in labels
    assert to_png(axes.figure, dpi=40).startswith(b"\x89PNG")


def test_every_text_of_a_user_is_shown_as_it_is_written() -> None:
    odd = "$a_$"
    record = {"method": odd, "rate": 0.1, "change": 1.0}
    metric = Metric(odd, lambda y, p: 0.5, greater_is_better=True)
    one = {"panel": odd, "line": odd, "x": odd, "measured": 1.0, "predicted": 2.0}
    figures = (
        plot_error_by_rate([record], title=odd),
        plot_history(fit(eval_metric=metric)).figure,
        plot_prediction([one], odd, odd),
    )
    for figure in figures:
        assert to_png(figure, dpi=40).startswith(b"\x89PNG")
    (rates,), (history,), (prediction,) = (figure.axes for figure in figures)
    texts = [rates.title, rates.get_legend().get_texts()[1], history.yaxis.label]
    texts += [prediction.title, prediction.xaxis.label, prediction.yaxis.label]
    texts += [*prediction.get_legend().get_texts(), *prediction.get_xticklabels()]
    assert [drawn(text) for text in texts] == [(odd, False)] * 8


@pytest.mark.parametrize("letter", ["n", "W", "$"])
def test_long_names_leave_room_for_the_bars(letter: str) -> None:
    axes = plot_importance(fit_columns(letter * 60 + "1", letter * 90 + "2", "short"))
    to_png(axes.figure, dpi=40)  # a layout that cannot be had is a warning, and so an error
    assert axes.get_position().width > 0.1
    names = {drawn(label)[0] for label in axes.get_yticklabels()}
    start, end = letter * 20, letter * 18
    assert names == {f"{start}…{end}1", f"{start}…{end}2", "short"}


def test_a_name_of_forty_characters_is_whole() -> None:
    names = ["a" * 40, "b" * 41]
    axes = plot_importance(fit_columns(*names))
    shown = {label.get_text() for label in axes.get_yticklabels()}
    assert shown == {"a" * 40, "b" * 20 + "…" + "b" * 19}


@pytest.mark.parametrize("value", [0, 2.5, True])
def test_importance_refuses_a_senseless_number(estimator: MVSClassifier, value: Any) -> None:
    with pytest.raises(ParameterError, match="max_features must be a positive integer"):
        plot_importance(estimator, max_features=value)


@pytest.mark.parametrize("plot", [plot_history, plot_sampling, plot_importance, plot_tree])
def test_an_unfitted_estimator_is_named(plot: Any) -> None:
    with pytest.raises(DataError, match=r"MVSClassifier has no .*_: fit it"):
        plot(MVSClassifier())


def test_a_tree_in_the_words_of_the_table() -> None:
    model = fit_columns("x", "y")
    axes = plot_tree(model)
    (tree,) = model.model_.iterations[0]
    texts = [text.get_text() for text in axes.texts]
    assert len(texts) == tree.n_nodes
    assert len(axes.lines) == tree.n_nodes - 1
    assert sum("<" in text for text in texts) == tree.n_nodes - tree.n_leaves
    assert texts[0].endswith("60 rows")
    places = [text.get_position() for text in axes.texts]
    assert len(set(places)) == tree.n_nodes
    with pytest.raises(ParameterError, match="tree must be an integer from 0 to 0, got 1"):
        plot_tree(model, 1)


def test_axes_of_the_users_own(estimator: MVSClassifier) -> None:
    _, axes = pyplot.subplots(1, 3)
    assert plot_history(estimator, "auc", ax=axes[0]) is axes[0]
    assert plot_importance(estimator, ax=axes[1]) is axes[1]
    assert plot_tree(estimator, ax=axes[2]) is axes[2]
    assert pyplot.get_fignums() == [1]
    assert axes[0].get_ylabel() == "auc"
    with pytest.raises(ParameterError, match="metric must be one of 'log_loss', 'auc' with ax"):
        plot_history(estimator, ax=axes[0])
    with pytest.raises(ParameterError, match="metric must be one of"):
        plot_history(estimator, "magic")


def test_figures_of_the_experiments_need_no_pyplot() -> None:
    before = dict(matplotlib.rcParams)
    figure = plot_error_by_rate(RECORDS)
    png = to_png(figure, dpi=40)
    assert png.startswith(b"\x89PNG")
    assert to_png(figure, dpi=40) == png
    assert dict(matplotlib.rcParams) == before
    assert pyplot.get_fignums() == []


def test_without_matplotlib_the_extra_is_named(
    estimator: MVSClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install matplotlib"):
        plot_importance(estimator)
