"""Metrics: values against scikit-learn, weights, directions, and the same bits for any chunking."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as skm

from mvsboost.backends.registry import backend_factory
from mvsboost.errors import DataError, ParameterError
from mvsboost.metrics import METRIC_NAMES, Metric, RowMean, default_metric, get_metric, pinball
from mvsboost.objectives import (
    Absolute,
    Logistic,
    Objective,
    Poisson,
    Quantile,
    Softmax,
    Squared,
    make_objective,
)


@dataclass
class Rows:
    target: np.ndarray
    weight: np.ndarray | None = None

    @property
    def is_weighted(self) -> bool:
        return self.weight is not None


class Chunked:
    """The metric verbs of a backend whose rows are cut into chunks."""

    def __init__(self, rows: Rows, scores: np.ndarray, chunk: int = 10**9) -> None:
        self.n_rows = len(rows.target)
        self.n_outputs = len(scores)
        weight = np.ones(self.n_rows) if rows.weight is None else rows.weight
        self.chunks = [
            (rows.target[i : i + chunk], weight[i : i + chunk], scores[:, i : i + chunk])
            for i in range(0, self.n_rows, chunk)
        ]
        self.brought_back = 0

    def _losses(self, metric: RowMean) -> list[np.ndarray]:
        return [w * metric.rowwise(y, f) for y, w, f in self.chunks]

    def metric_range(self, metric: RowMean) -> float:
        return max(float(np.abs(losses).max()) for losses in self._losses(metric))

    def metric_sums(self, metric: RowMean, scale: float) -> int:
        return sum(
            int(np.rint(losses * scale).astype(np.int64).sum()) for losses in self._losses(metric)
        )

    def scores(self) -> np.ndarray:
        self.brought_back += 1
        return np.concatenate([f for _, _, f in self.chunks], axis=1)


def make_rows(objective: Objective, n: int = 211, seed: int = 3) -> tuple[Rows, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(objective.n_outputs, n))
    if objective.is_classifier:
        target = rng.integers(0, max(2, objective.n_outputs), n).astype(float)
    elif objective.name == "poisson":
        target = rng.poisson(1.5, n).astype(float)
    else:
        target = scores[0] + rng.normal(size=n)
    return Rows(target, rng.uniform(0.1, 3.0, n)), scores


def value(spec: Any, objective: Objective, rows: Rows, scores: np.ndarray, **cut: int) -> float:
    return get_metric(spec, objective).evaluate(Chunked(rows, scores, **cut), rows)  # type: ignore[arg-type]


def macro_auc(y: np.ndarray, p: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    return skm.roc_auc_score(y, p, multi_class="ovr", average="macro", sample_weight=sample_weight)


def multi_brier(y: np.ndarray, p: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    squares = (p - np.eye(p.shape[1])[y.astype(int)]) ** 2
    return float(np.average(squares.sum(axis=1), weights=sample_weight))


def labels(p: np.ndarray) -> np.ndarray:
    return np.argmax(p, axis=1) if p.ndim == 2 else (p > 0.5).astype(int)


def accuracy(y: np.ndarray, p: np.ndarray, **kw: Any) -> float:
    return skm.accuracy_score(y, labels(p), **kw)


def error(y: np.ndarray, p: np.ndarray, **kw: Any) -> float:
    return skm.zero_one_loss(y, labels(p), **kw)


OF_CLASSES = ("f1", "precision", "recall")


def of_classes(name: str, **options: Any) -> Any:
    function = getattr(skm, f"{name}_score")
    return lambda y, p, **kw: function(y, labels(p), **options, **kw)


def macro_precision(y: np.ndarray, p: np.ndarray, **kw: Any) -> float:
    return float(
        np.mean([skm.average_precision_score(y == k, p[:, k], **kw) for k in range(p.shape[1])])
    )


CASES = [
    ("log_loss", Logistic(), skm.log_loss),
    ("log_loss", Softmax(3), skm.log_loss),
    ("auc", Logistic(), skm.roc_auc_score),
    ("auc", Softmax(3), macro_auc),
    ("accuracy", Logistic(), accuracy),
    ("accuracy", Softmax(3), accuracy),
    ("error", Logistic(), error),
    ("error", Softmax(3), error),
    ("brier", Logistic(), skm.brier_score_loss),
    ("average_precision", Logistic(), skm.average_precision_score),
    ("average_precision", Softmax(3), macro_precision),
    *((name, Logistic(), of_classes(name)) for name in OF_CLASSES),
    *((name, Softmax(3), of_classes(name, average="macro")) for name in OF_CLASSES),
    ("balanced_accuracy", Softmax(3), of_classes("balanced_accuracy")),
    ("mape", Squared(), skm.mean_absolute_percentage_error),
    ("rmsle", Poisson(), skm.root_mean_squared_log_error),
    ("brier", Softmax(3), multi_brier),
    ("rmse", Squared(), skm.root_mean_squared_error),
    ("rmse", Poisson(), skm.root_mean_squared_error),
    ("mse", Squared(), skm.mean_squared_error),
    ("mae", Absolute(), skm.mean_absolute_error),
    ("r2", Squared(), skm.r2_score),
    ("r2", Poisson(), skm.r2_score),
    (
        "pinball",
        Quantile(0.8),
        lambda y, p, **kw: skm.mean_pinball_loss(y, p, alpha=0.8, **kw),
    ),
    ("poisson_deviance", Poisson(), skm.mean_poisson_deviance),
    (
        pinball(0.1),
        Poisson(),
        lambda y, p, **kw: skm.mean_pinball_loss(y, p, alpha=0.1, **kw),
    ),
    ("loss", Squared(), lambda y, p, **kw: skm.mean_squared_error(y, p, **kw) / 2),
]
IDS = [f"{spec if isinstance(spec, str) else spec.name}-{o!r}" for spec, o, _ in CASES]


@pytest.mark.parametrize(("spec", "objective", "peer"), CASES, ids=IDS)
def test_values_are_those_of_scikit_learn(spec: Any, objective: Objective, peer: Any) -> None:
    rows, scores = make_rows(objective)
    predictions = objective.link.inverse(scores)
    y_pred = predictions[0] if objective.n_outputs == 1 else predictions.T
    weighted = value(spec, objective, rows, scores)
    assert weighted == pytest.approx(peer(rows.target, y_pred, sample_weight=rows.weight), rel=1e-9)
    plain = value(spec, objective, Rows(rows.target), scores)
    assert plain == pytest.approx(peer(rows.target, y_pred), rel=1e-9)
    assert plain != pytest.approx(weighted, rel=1e-6)


@pytest.mark.parametrize(("spec", "objective", "peer"), CASES, ids=IDS)
def test_the_same_bits_for_any_chunking(spec: Any, objective: Objective, peer: Any) -> None:
    rows, scores = make_rows(objective)
    values = {value(spec, objective, rows, scores, chunk=chunk) for chunk in (1, 2, 7, 100, 999)}
    assert len(values) == 1


@pytest.mark.parametrize(("spec", "objective", "peer"), CASES, ids=IDS)
def test_weight_two_is_the_row_twice(spec: Any, objective: Objective, peer: Any) -> None:
    rows, scores = make_rows(objective)
    counts = np.random.default_rng(0).integers(0, 4, len(rows.target))
    repeated = Rows(np.repeat(rows.target, counts))
    counted = Rows(rows.target, counts.astype(float))
    assert value(spec, objective, counted, scores) == pytest.approx(
        value(spec, objective, repeated, np.repeat(scores, counts, axis=1)), rel=1e-9
    )


def test_row_means_leave_the_scores_where_they_are() -> None:
    rows, scores = make_rows(Logistic())
    backend = Chunked(rows, scores)
    get_metric("log_loss", Logistic()).evaluate(backend, rows)  # type: ignore[arg-type]
    assert backend.brought_back == 0
    get_metric("auc", Logistic()).evaluate(backend, rows)  # type: ignore[arg-type]
    assert backend.brought_back == 1


@pytest.mark.parametrize("name", METRIC_NAMES)
def test_directions(name: str) -> None:
    objectives = (Logistic(), Squared(), Quantile(0.5), Poisson())
    for objective in objectives:
        try:
            metric = get_metric(name, objective)
        except ParameterError:
            continue
        best = {"auc", "accuracy", "r2", "average_precision", "balanced_accuracy", *OF_CLASSES}
        assert metric.greater_is_better == (name in best)
        assert metric.name == name
        return
    pytest.fail(f"{name} fits no objective")


def test_large_scores_keep_log_loss_finite_and_auc_exact() -> None:
    rows = Rows(np.array([0.0, 1.0, 1.0, 0.0]))
    scores = np.array([[50.0, 60.0, 1e5, -1e5]])
    assert value("log_loss", Logistic(), rows, scores) == pytest.approx(50.0 / 4)
    assert value("auc", Logistic(), rows, scores) == 1.0


def test_a_perfect_fit_is_zero() -> None:
    rows = Rows(np.array([1.0, 2.0]), np.array([0.5, 3.0]))
    assert value("rmse", Squared(), rows, rows.target[np.newaxis]) == 0.0
    assert value("r2", Squared(), rows, rows.target[np.newaxis]) == 1.0


def test_r2_of_a_constant_target() -> None:
    rows = Rows(np.ones(3))
    assert value("r2", Squared(), rows, np.ones((1, 3))) == 1.0
    assert value("r2", Squared(), rows, np.zeros((1, 3))) == 0.0


def test_a_loss_that_is_not_finite_is_reported_as_it_is() -> None:
    rows = Rows(np.zeros(2))
    assert value("mae", Squared(), rows, np.array([[np.inf, 1.0]])) == np.inf


def test_auc_with_one_class_says_so() -> None:
    rows = Rows(np.array([1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0]))
    with pytest.raises(DataError, match=r"'auc' needs rows of at least two classes.*\[1.0\]"):
        value("auc", Logistic(), rows, np.zeros((1, 3)))


def test_multiclass_auc_skips_a_class_that_is_absent() -> None:
    rows = Rows(np.array([0.0, 2.0, 2.0, 0.0]))
    scores = np.array([[2.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 2.0, 0.0]])
    assert value("auc", Softmax(3), rows, scores) == 1.0


def test_weights_that_are_all_zero() -> None:
    with pytest.raises(DataError, match=r"weight: .*positive total"):
        value("mae", Squared(), Rows(np.ones(2), np.zeros(2)), np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("objective", "name"),
    [
        (Logistic(), "log_loss"),
        (Softmax(3), "log_loss"),
        (Squared(), "rmse"),
        (Absolute(), "mae"),
        (Quantile(0.3), "pinball"),
        (Poisson(), "poisson_deviance"),
    ],
    ids=repr,
)
def test_defaults(objective: Objective, name: str) -> None:
    assert default_metric(objective).name == name


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"link": "log"},
        {"link": "logit"},
        {"link": "logit", "is_classifier": False},
        {"is_classifier": True},
        {"n_outputs": 3},
        {"n_outputs": 3, "link": "multinomial"},
        {"loss": lambda target, scores: np.abs(scores[0] - target)},
    ],
)
def test_every_custom_objective_has_a_default_that_fits(attributes: dict[str, Any]) -> None:
    source = type("Own", (), {"gradients": lambda self, y, f: (f, f)})()
    source.__dict__.update(attributes)
    objective = make_objective(source)
    rows, scores = make_rows(objective)
    rows.target = np.abs(rows.target) / (1 + np.abs(rows.target).max())
    if objective.is_classifier:
        rows.target = np.arange(len(rows.target)) % max(2, objective.n_outputs) * 1.0
    result = default_metric(objective).evaluate(Chunked(rows, scores), rows)  # type: ignore[arg-type]
    assert np.isfinite(result)


@pytest.mark.parametrize(
    ("spec", "objective"),
    [
        ("auc", Squared()),
        ("log_loss", Squared()),
        ("accuracy", Poisson()),
        ("rmse", Logistic()),
        ("r2", Softmax(3)),
        ("pinball", Squared()),
        ("poisson_deviance", Squared()),
    ],
)
def test_a_metric_that_does_not_fit_the_objective(spec: str, objective: Objective) -> None:
    with pytest.raises(ParameterError, match=f"one that fits objective '{objective.name}'"):
        get_metric(spec, objective)


def test_unknown_metrics() -> None:
    with pytest.raises(ParameterError, match=r"'log_loss', 'auc'.*got 'f2'"):
        get_metric("f2", Logistic())
    with pytest.raises(ParameterError, match=r"Metric\(name, function, greater_is_better"):
        get_metric(lambda y, p: 0.0, Logistic())  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="ends with _score, _error, _loss or _deviance"):
        get_metric(skm.confusion_matrix, Logistic())  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="a name or a Metric, got 3"):
        get_metric(3, Logistic())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "own"),
    [("RMSE", "rmse"), ("l2", "mse"), ("mean_absolute_error", "mae"), ("MAPE", "mape")],
)
def test_names_of_other_libraries(name: str, own: str) -> None:
    assert get_metric(name, Squared()).name == own


@pytest.mark.parametrize("name", ["binary_logloss", "logloss", "Logloss"])
def test_names_of_log_loss(name: str) -> None:
    assert get_metric(name, Logistic()).name == "log_loss"
    assert get_metric("roc_auc", Logistic()).name == "auc"


@pytest.mark.parametrize(
    ("function", "objective"),
    [
        (skm.f1_score, Logistic()),
        (skm.accuracy_score, Softmax(3)),
        (skm.average_precision_score, Logistic()),
        (skm.mean_absolute_error, Squared()),
        (skm.r2_score, Squared()),
    ],
)
def test_functions_of_scikit_learn(function: Any, objective: Objective) -> None:
    rows, scores = make_rows(objective)
    metric = get_metric(function, objective)
    assert metric.greater_is_better == function.__name__.endswith("_score")
    p = objective.link.inverse(scores)
    y_pred = p[0] if len(p) == 1 else p.T
    if objective.is_classifier and function is not skm.average_precision_score:
        y_pred = labels(y_pred)
    expected = function(rows.target, y_pred, sample_weight=rows.weight)
    assert value(function, objective, rows, scores) == pytest.approx(expected)


def test_a_users_metric_sees_predictions() -> None:
    seen = {}

    def look(y_true: np.ndarray, y_pred: np.ndarray) -> float:
        seen["y_true"], seen["y_pred"] = y_true, y_pred
        return 7

    metric = Metric("look", look, greater_is_better=True)
    rows, scores = make_rows(Logistic())
    assert value(metric, Logistic(), rows, scores) == 7.0
    assert np.shares_memory(seen["y_true"], rows.target)
    assert np.array_equal(seen["y_true"], rows.target)
    assert np.array_equal(seen["y_pred"], Logistic().link.inverse(scores)[0])
    rows, scores = make_rows(Softmax(3))
    value(metric, Softmax(3), rows, scores)
    assert np.array_equal(seen["y_pred"], Softmax(3).link.inverse(scores).T)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("objective", [Squared(), Logistic(), Softmax(3)], ids=repr)
def test_a_users_metric_can_not_write_to_our_arrays(objective: Objective, raw: bool) -> None:
    seen: list[np.ndarray] = []

    def look(y_true: np.ndarray, y_pred: np.ndarray, sample_weight: np.ndarray) -> float:
        seen.extend([y_true, y_pred, sample_weight])
        return 0.0

    def look_at_rows(target: np.ndarray, predictions: np.ndarray) -> np.ndarray:
        seen.extend([target, predictions])
        return target

    rows, scores = make_rows(objective)
    value(Metric("look", look, True, weighted=True, raw=raw), objective, rows, scores)
    value(RowMean("rows", look_at_rows, True, raw=raw), objective, rows, scores)
    assert len(seen) >= 5
    for array in seen:
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = 0.0
    assert rows.target.flags.writeable
    assert scores.flags.writeable


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_losses_of_rows_have_one_number_a_row(device: str, make_rows: Any) -> None:
    rows = make_rows(40)
    backend = backend_factory(device, 1)(rows, Squared())
    backend.set_baseline(np.zeros(1))

    def evaluate(function: Any) -> float:
        return get_metric(RowMean("own", function, False), Squared()).evaluate(backend, rows)

    expected = evaluate(lambda y, p: np.abs(p[0] - y))
    assert evaluate(lambda y, p: np.abs(p - y)) == expected  # (1, n) can only mean the same
    for wrong in (lambda y, p: np.abs(p - y).T, lambda y, p: np.float64(1), lambda y, p: y[:3]):
        with pytest.raises(ParameterError, match=r"'own' must be of shape \(40,\), one number a"):
            evaluate(wrong)
    with pytest.raises(ParameterError, match="'own' must be an array of real numbers"):
        evaluate(lambda y, p: y.astype(complex))


def test_a_users_metric_can_take_weights() -> None:
    rows, scores = make_rows(Squared())
    metric = Metric("max", skm.mean_absolute_error, greater_is_better=False, weighted=True)
    assert value(metric, Squared(), rows, scores) == pytest.approx(
        value("mae", Squared(), rows, scores), rel=1e-12
    )


@pytest.mark.parametrize("result", [None, "good", np.ones(2), 1j])
def test_a_users_metric_must_give_one_number(result: Any) -> None:
    rows, scores = make_rows(Squared())
    metric = Metric("own", lambda y, p: result, greater_is_better=True)
    with pytest.raises(ParameterError, match="eval_metric 'own' must be one real number"):
        value(metric, Squared(), rows, scores)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", max, True), "Metric.name"),
        ((max, max, True), "Metric.name"),
        (("own", "max", True), "Metric.function"),
        (("own", max, "maximise"), "Metric.greater_is_better"),
    ],
)
def test_a_metric_made_wrongly(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Metric(*arguments)


@pytest.mark.parametrize(("spec", "objective", "peer"), CASES, ids=IDS)
def test_metrics_travel_to_workers(spec: Any, objective: Objective, peer: Any) -> None:
    metric = pickle.loads(pickle.dumps(get_metric(spec, objective)))
    rows, scores = make_rows(objective)
    assert metric.evaluate(Chunked(rows, scores), rows) == value(spec, objective, rows, scores)


def test_a_found_metric_can_be_found_again() -> None:
    rows, scores = make_rows(Logistic())
    once = get_metric("log_loss", Logistic())
    assert value(once, Logistic(), rows, scores) == value("log_loss", Logistic(), rows, scores)
