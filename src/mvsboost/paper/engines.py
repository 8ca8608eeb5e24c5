"""Train one model of a cell and judge it.

An engine sees a prepared set through a *view*: ``"native"``, categories as they are, or
``"counters"``, numbers only. Settings carry LightGBM's names, since the published ones do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.boosting import TrainConfig, train
from mvsboost.data import Dataset
from mvsboost.errors import ParameterError
from mvsboost.numerics import sigmoid
from mvsboost.objectives import Logistic
from mvsboost.paper.sets import Part, counted, load_set
from mvsboost.random import Purpose, stream_key, uniform
from mvsboost.sampling import GOSS, MVS, SGB, NoSampling, Sampler
from mvsboost.sampling.threshold import threshold_by_sorting
from mvsboost.trees import TreeParams

__all__ = ["ENGINES", "VIEWS", "fit_and_judge", "make_sampler"]

FOLD_SEED = 0
VIEWS = ("native", "counters")

_SAMPLERS: dict[str, Callable[..., Sampler]] = {
    "none": NoSampling,
    "sgb": SGB,
    "goss": GOSS,
    "mvs": MVS,
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


def fit_and_judge(cell: Mapping[str, Any], folder: Path | None = None) -> dict[str, float]:
    """Errors on the judged rows, and the seconds that boosting took.

    Parameters
    ----------
    cell : mapping
        ``set``, ``view``, ``engine``, ``sampler``, ``trees``, ``learning_rate``, ``tree``,
        ``second_look``, ``leaf_values``, ``seed``, and ``fold``: -1 for the test part, else
        the number of the fold out of ``folds`` of the training part.
    folder : Path, optional
        Where the data lie.
    """
    from sklearn.metrics import log_loss, roc_auc_score

    probability, y, seconds = ENGINES[cell["engine"]](cell, folder)
    return {
        "error": 1.0 - float(roc_auc_score(y, probability)),
        "log_loss": float(log_loss(y, np.clip(probability, 1e-12, 1.0 - 1e-12))),
        "seconds": seconds,
    }


@lru_cache(maxsize=4)
def _parts(name: str, fold: int, folds: int, folder: Path | None) -> tuple[Part, Part, Any]:
    """Rows to learn from and rows to judge on, and the categorical columns."""
    data = load_set(name, folder)
    if fold < 0:
        return data.train, data.test, data.categorical
    from sklearn.model_selection import StratifiedKFold

    cut = StratifiedKFold(folds, shuffle=True, random_state=FOLD_SEED)
    learn, judge = list(cut.split(np.zeros(len(data.train)), data.train.target))[fold]
    return data.train.take(learn), data.train.take(judge), data.categorical


@lru_cache(maxsize=4)
def _counted(
    name: str, fold: int, folds: int, folder: Path | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    learn, judge, categorical = _parts(name, fold, folds, folder)
    return counted(learn, judge, categorical)


def _seen(cell: Mapping[str, Any], folder: Path | None) -> tuple[Any, Any, Part, Part]:
    """Both parts through the cell's view, and the parts themselves."""
    if cell["view"] not in VIEWS:
        raise ParameterError("view", cell["view"], f"one of {VIEWS}")
    which = cell["set"], cell["fold"], cell.get("folds", 0), folder
    learn, judge, _ = _parts(*which)
    if cell["view"] == "native":
        return learn.columns, judge.columns, learn, judge
    return *_counted(*which), learn, judge


# --- this library -------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _binned(view: str, name: str, fold: int, folds: int, folder: Path | None) -> Dataset:
    cell = {"view": view, "set": name, "fold": fold, "folds": folds}
    X, _, learn, _ = _seen(cell, folder)
    return Dataset.from_data(X, learn.target.astype(np.float64), n_classes=2)


def _ours(
    cell: Mapping[str, Any], folder: Path | None
) -> tuple[NDArray[np.float64], NDArray[np.int64], float]:
    _, X_judge, _, judge = _seen(cell, folder)
    data = _binned(cell["view"], cell["set"], cell["fold"], cell.get("folds", 0), folder)
    tree = cell["tree"]
    config = TrainConfig(
        Logistic(),
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
        seed=cell["seed"],
    )
    start = time.perf_counter()
    model = train(data, config).model
    seconds = time.perf_counter() - start
    return model.predict(X_judge), judge.target, seconds


# --- LightGBM -----------------------------------------------------------------------------------


def _lightgbm(
    cell: Mapping[str, Any], folder: Path | None
) -> tuple[NDArray[np.float64], NDArray[np.int64], float]:
    """LightGBM's trees on counters, as in the paper; with its own sampling, or with MVS."""
    import lightgbm as lgb

    if cell["view"] != "counters":
        raise ParameterError("view", cell["view"], "'counters' for LightGBM, as in the paper")
    X, X_judge, learn, judge = _seen(cell, folder)
    seed, sampler = cell["seed"], cell["sampler"]
    parameters = {
        "objective": "binary",
        "learning_rate": cell["learning_rate"],
        **cell["tree"],
        **_own_sampling(sampler),
        "data_random_seed": 1 + seed,
        "feature_fraction_seed": 2 + seed,
        "bagging_seed": 3 + seed,
        "num_threads": 1,
        "verbose": -1,
    }
    start_score = 0.0
    if sampler["name"] == "mvs":
        # an objective from outside gets no starting score from LightGBM
        start_score = float(np.log(learn.target.mean() / (1.0 - learn.target.mean())))
        parameters["objective"] = _SampledLogistic(learn.target, sampler, seed)
    initial = np.full(len(learn), start_score) if start_score else None
    binning = {"verbose": -1, "feature_pre_filter": False}
    rows = lgb.Dataset(X, learn.target, init_score=initial, params=binning).construct()
    start = time.perf_counter()
    model = lgb.train(parameters, rows, cell["trees"])
    seconds = time.perf_counter() - start
    raw = np.asarray(model.predict(X_judge, raw_score=True)) + start_score
    return sigmoid(raw), judge.target, seconds


def _own_sampling(sampler: Mapping[str, Any]) -> dict[str, Any]:
    if sampler["name"] == "sgb":
        return {"bagging_fraction": sampler["rate"], "bagging_freq": 1}
    if sampler["name"] == "goss":
        return {
            "data_sample_strategy": "goss",
            "top_rate": sampler["top_rate"],
            "other_rate": sampler["other_rate"],
        }
    return {}


class _SampledLogistic:
    """The logistic objective with the gradients of drawn rows weighted, of others 0.

    LightGBM goes on to count the rows that were not drawn, in `min_data_in_leaf` for
    instance, and to visit them: the quality of MVS can be seen in it, not its speed.
    """

    def __init__(self, target: NDArray[np.int64], sampler: Mapping[str, Any], seed: int) -> None:
        if isinstance(sampler["lam"], str) and sampler["lam"] != "root":
            raise ParameterError("lam", sampler["lam"], "a number or 'root' for LightGBM")
        self.target, self.sampler, self.seed, self.iteration = target, sampler, seed, 0
        self.rows = np.arange(len(target), dtype=np.uint64)

    def __call__(
        self, scores: NDArray[np.float64], rows: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        p = sigmoid(scores)
        g, h = p - self.target, p * (1.0 - p)
        lam = self.sampler["lam"]
        lam = (g.sum() / h.sum()) ** 2 if lam == "root" else lam
        score = np.sqrt(g * g + lam * h * h)
        mu = threshold_by_sorting(score, self.sampler["rate"] * len(score))
        probability = np.minimum(1.0, score / mu) if mu > 0.0 else (score > 0.0).astype(float)
        key = stream_key(self.seed, self.iteration, Purpose.DRAW)
        drawn = uniform(key, self.rows) < probability
        weight = np.where(drawn, 1.0 / np.maximum(probability, 1e-300), 0.0)
        self.iteration += 1
        return g * weight, h * weight


ENGINES: dict[
    str,
    Callable[
        [Mapping[str, Any], Path | None],
        tuple[NDArray[np.float64], NDArray[np.int64], float],
    ],
] = {"mvsboost": _ours, "lightgbm": _lightgbm}
"""Who trains: from a cell to probabilities, the judged rows' targets, and seconds."""
