"""Train one model of a cell and judge it.

An engine sees a prepared set through a *view*: ``"native"``, categories as they are (those of a
column that has more of them than bins become numbers in the library itself), or ``"counters"``,
numbers only. Settings carry LightGBM's names, since the published ones do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import BinnedRows, GradientRange, RowObjective
from mvsboost.backends.protocol import Backend
from mvsboost.backends.registry import backend_factory
from mvsboost.boosting import TrainConfig, train
from mvsboost.callbacks import EarlyStopping
from mvsboost.data import Dataset
from mvsboost.errors import ParameterError
from mvsboost.metrics import get_metric
from mvsboost.model.forest import Forest
from mvsboost.objectives import Logistic
from mvsboost.sampling import GOSS, MVS, SGB, NoSampling, Sampler
from mvsboost.trees import TreeParams
from research.draws import SampledLogistic, SystematicMVS
from research.hosts import HOSTS, Fitted
from research.sets import Part, PreparedSet, counted, load_set, split_again
from research.turns import Pause, never
from research.variants import CatBoostLambda, as_in

__all__ = [
    "ENGINES",
    "VIEWS",
    "Which",
    "binned",
    "fit_and_judge",
    "make_sampler",
    "seen",
    "trees_on_the_way",
]

FOLD_SEED = 0
VIEWS = ("native", "counters")

_SAMPLERS: dict[str, Callable[..., Sampler]] = {
    "none": NoSampling,
    "sgb": SGB,
    "goss": GOSS,
    "mvs": lambda rate=0.3, lam="leaf": (
        CatBoostLambda(rate) if lam == "catboost" else MVS(rate, lam)
    ),
    "variant": lambda variant, rate: as_in(variant, rate),
    "systematic": SystematicMVS,
}


def make_sampler(settings: Mapping[str, Any]) -> Sampler:
    """The sampler of a cell: its name and its parameters.

    Examples
    --------
    >>> make_sampler({"name": "mvs", "rate": 0.1, "lam": "leaf"})
    MVS(rate=0.1)
    """
    parameters = {key: value for key, value in settings.items() if key != "name"}
    return _SAMPLERS[settings["name"]](**parameters)


def fit_and_judge(
    cell: Mapping[str, Any], folder: Path | None = None, pause: Pause = never
) -> dict[str, Any]:
    """Errors on the judged rows, and the seconds that boosting took.

    Parameters
    ----------
    cell : mapping
        ``set``, ``view``, ``engine``, ``sampler``, ``trees``, ``learning_rate``, ``tree``,
        ``second_look``, ``leaf_values``, ``seed``, and ``fold``: -1 for the test part, else
        the number of the fold out of ``folds`` of the training part. If it has them,
        ``threads``; ``patience``, which ends training so many iterations after the judged
        rows' best loss, and has the result say how many ``trees`` are used; ``split``, the
        number of a new random split of the set in place of its own; ``decider``, rate and λ of a
        sample that takes the place of all rows; ``course``, at how many numbers of trees on the
        way, of equal distance, errors are wanted (``errors``); ``stages``, whether the seconds of
        each verb of the backend are wanted.
    folder : Path, optional
        Where the data lie.
    pause : Pause
        Called between iterations; its seconds do not count.
    """
    from sklearn.metrics import log_loss, roc_auc_score

    if cell["engine"] not in ENGINES:
        raise ParameterError("engine", cell["engine"], f"one of {', '.join(ENGINES)}")
    X, X_judge, learn, judge = seen(cell, folder)
    y = judge.target
    if cell["engine"] == "mvsboost":
        fitted = _ours(cell, folder, X_judge, y, pause)
    elif cell["view"] == "counters":
        fitted = HOSTS[cell["engine"]](cell, X, learn.target, X_judge, pause)
    else:
        raise ParameterError("view", cell["view"], f"'counters' for {cell['engine']}")

    def error(probability: NDArray[np.float64]) -> float:
        return 1.0 - float(roc_auc_score(y, probability))

    probability = fitted.predict(0)
    result: dict[str, Any] = {
        "error": error(probability),
        "log_loss": float(log_loss(y, np.clip(probability, 1e-12, 1.0 - 1e-12))),
        "seconds": fitted.seconds,
    }
    if "stages" in cell:
        result["stages"] = dict(fitted.stages)
    if "patience" in cell:
        result["trees"] = fitted.trees
    if "course" in cell:
        result["errors"] = [error(fitted.predict(trees)) for trees in trees_on_the_way(cell)]
    return result


def trees_on_the_way(cell: Mapping[str, Any]) -> list[int]:
    """Numbers of trees at which a cell with a ``course`` is judged; the last is all.

    Examples
    --------
    >>> trees_on_the_way({"trees": 30, "course": 4})
    [8, 15, 22, 30]
    """
    points = cell["course"]
    return [max(1, round(cell["trees"] * point / points)) for point in range(1, points + 1)]


class Which(NamedTuple):
    """Which rows of which set are learned from and judged on.

    Attributes
    ----------
    set : str
    fold, folds : int
        One of so many folds of the training part is judged; -1 is the test part.
    split : int
        The number of a random split; -1 is the set's own.
    """

    set: str
    fold: int = -1
    folds: int = 0
    split: int = -1

    @classmethod
    def of(cls, cell: Mapping[str, Any]) -> Which:
        """The rows of a cell."""
        return cls(cell["set"], cell["fold"], cell.get("folds", 0), cell.get("split", -1))


_loaded = lru_cache(maxsize=2)(load_set)  # all folds of a set come from one reading


@lru_cache(maxsize=2)
def _split(name: str, split: int, folder: Path | None) -> PreparedSet:
    data = _loaded(name, folder)
    return data if split < 0 else split_again(data, split)


@lru_cache(maxsize=4)
def _parts(which: Which, folder: Path | None) -> tuple[Part, Part, Any]:
    """Rows to learn from and rows to judge on, and the categorical columns."""
    data = _split(which.set, which.split, folder)
    if which.fold < 0:
        return data.train, data.test, data.categorical
    from sklearn.model_selection import StratifiedKFold

    cut = StratifiedKFold(which.folds, shuffle=True, random_state=FOLD_SEED)
    learn, judge = list(cut.split(np.zeros(len(data.train)), data.train.target))[which.fold]
    return data.train.take(learn), data.train.take(judge), data.categorical


@lru_cache(maxsize=4)
def _counted(which: Which, folder: Path | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    learn, judge, categorical = _parts(which, folder)
    return counted(learn, judge, categorical)


def seen(cell: Mapping[str, Any], folder: Path | None) -> tuple[Any, Any, Part, Part]:
    """Both parts through the cell's view, and the parts themselves."""
    if cell["view"] not in VIEWS:
        raise ParameterError("view", cell["view"], f"one of {VIEWS}")
    return _seen(cell["view"], Which.of(cell), folder)


def _seen(view: str, which: Which, folder: Path | None) -> tuple[Any, Any, Part, Part]:
    learn, judge, _ = _parts(which, folder)
    if view == "native":
        return learn.columns, judge.columns, learn, judge
    return *_counted(which, folder), learn, judge


# --- this library -------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def binned(view: str, which: Which, folder: Path | None) -> Dataset:
    """The rows to learn from, as this library sees them."""
    X, _, learn, _ = _seen(view, which, folder)
    return Dataset.from_data(X, learn.target.astype(np.float64), n_classes=2)


def _ours(
    cell: Mapping[str, Any],
    folder: Path | None,
    X_judge: Any,
    y_judge: NDArray[np.int64],
    pause: Pause,
) -> Fitted:
    data, threads = binned(cell["view"], Which.of(cell), folder), cell.get("threads", 1)
    tree, objective, judged = cell["tree"], _objective(cell), {}
    if "patience" in cell:
        y = y_judge.astype(np.float64)
        judged["judged"] = Dataset.from_data(
            X_judge, y, mapper=data.mapper, schema=data.schema, n_classes=2
        )
    config = TrainConfig(
        objective,
        make_sampler(cell["sampler"]),
        n_estimators=cell["trees"],
        learning_rate=cell["learning_rate"],
        tree=TreeParams(
            max_leaves=int(tree["num_leaves"]),
            min_samples_leaf=tree["min_data_in_leaf"],
            min_child_weight=tree["min_sum_hessian_in_leaf"],
            l2=tree["lambda_l2"],
            second_look=cell["second_look"],
        ),
        colsample=tree["feature_fraction"],
        leaf_values=cell["leaf_values"],
        metrics=[get_metric("log_loss", objective)] if judged else [],
        seed=cell["seed"],
        n_threads=threads,
    )
    stopping = [EarlyStopping(cell["patience"])] if judged else []
    waited: list[float] = []

    def pausing(rows: BinnedRows, objective: RowObjective) -> Backend:
        return cast(Backend, _Pausing(factory(rows, objective), pause, waited))

    start = time.perf_counter()
    factory = backend_factory(config.device, config.n_threads)
    trained = train(data, config, eval_sets=judged, callbacks=stopping, backend=pausing)
    seconds, model = time.perf_counter() - start - sum(waited), trained.model
    stages = dict(trained.stage_times)
    stages["compute_gradients"] -= sum(waited)
    bins = model.bin(X_judge, n_threads=threads)
    nothing = np.repeat(model.baseline[:, None], len(bins), axis=1)
    scores, n_added = nothing.copy(), 0

    def predict(trees: int) -> NDArray[np.float64]:
        """Of one number of trees after another, each adds those that are new."""
        nonlocal scores, n_added
        wanted = model.used_iterations(min(trees, model.n_iterations) or None)
        if wanted < n_added:
            scores, n_added = nothing.copy(), 0
        Forest.from_iterations(model.iterations[n_added:wanted]).add_to(scores, bins, threads)
        n_added = wanted
        probability: NDArray[np.float64] = objective.link.inverse(scores)[0]
        return probability

    return Fitted(predict, seconds, stages, model.used_iterations())


class _Pausing:
    """A backend that pauses before gradients, so between iterations.

    A callback could do so too, but the loop would tell it about every iteration, which takes time.
    """

    def __init__(self, backend: Backend, pause: Pause, waited: list[float]) -> None:
        self._backend, self._pause, self._waited = backend, pause, waited

    def compute_gradients(self, order: int) -> GradientRange:
        self._waited.append(self._pause())
        return self._backend.compute_gradients(order)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def _objective(cell: Mapping[str, Any]) -> Logistic:
    if "decider" not in cell:
        return Logistic()
    rate, lam = cell["decider"]
    return SampledLogistic(rate, lam, cell["seed"])


ENGINES = ("mvsboost", *HOSTS)
"""Who trains."""
