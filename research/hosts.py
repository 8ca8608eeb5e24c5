"""Other libraries as engines: their trees on counters, with their own sampling, or with ours.

Settings carry LightGBM's names, since the published ones do; the others' are translated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.errors import ParameterError
from mvsboost.exact.numerics import sigmoid
from mvsboost.exact.random import Purpose, stream_key
from mvsboost.sampling import LAMBDA_FLOOR
from research.draws import mvs_weights
from research.turns import Pause

__all__ = ["DRAWN", "HOSTS", "OWN", "Fitted"]

OWN = "own"
"""λ of a host's own MVS: what it takes by itself."""

DRAWN = "drawn"
"""``support`` of a sampler whose leaves are to have `min_data_in_leaf` drawn rows, expectedly."""

Floats = NDArray[np.float64]


class Fitted(NamedTuple):
    """What an engine learned.

    Attributes
    ----------
    predict : callable
        Probabilities of the judged rows by the first so many trees, 0 for all.
    seconds : float
        Time of boosting.
    stages : mapping of str to float
        Seconds of it in each verb of the backend; empty where the engine has none.
    trees : int
        Trees that predictions use; 0 where the engine does not say.
    """

    predict: Callable[[int], Floats]
    seconds: float
    stages: Mapping[str, float] = MappingProxyType({})
    trees: int = 0


def _lightgbm(
    cell: Mapping[str, Any], X: Floats, y: NDArray[np.int64], X_judge: Floats, pause: Pause
) -> Fitted:
    """LightGBM's trees, as in the paper; with its own bagging and GOSS, or with MVS."""
    import lightgbm as lgb

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
        start_score = float(np.log(y.mean() / (1.0 - y.mean())))
        parameters["objective"] = _SampledGradients(y, sampler, seed)
        if sampler.get("support") == DRAWN:
            needed = cell["tree"]["min_data_in_leaf"] / sampler["rate"]
            parameters["min_data_in_leaf"] = round(needed)
    initial = np.full(len(y), start_score) if start_score else None
    binning = {"verbose": -1, "feature_pre_filter": False, "data_random_seed": 1 + seed}
    rows = lgb.Dataset(X, y, init_score=initial, params=binning).construct()
    waited: list[float] = []
    start = time.perf_counter()
    model = lgb.train(parameters, rows, cell["trees"], callbacks=[lambda _: waited.append(pause())])
    seconds = time.perf_counter() - start - sum(waited)

    def predict(trees: int) -> Floats:
        raw = np.asarray(model.predict(X_judge, raw_score=True, num_iteration=trees))
        probability: Floats = sigmoid(raw + start_score)
        return probability

    return Fitted(predict, seconds)


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


class _SampledGradients:
    """LightGBM's logistic objective with the gradients of drawn rows weighted, of others 0.

    LightGBM goes on to visit the rows that were not drawn: the quality of MVS can be seen in
    it, not its speed. It counts them as well, in `min_data_in_leaf`, unless that is divided
    by the rate (``support`` of the sampler).
    """

    def __init__(self, target: NDArray[np.int64], sampler: Mapping[str, Any], seed: int) -> None:
        if isinstance(sampler["lam"], str) and sampler["lam"] != "root":
            raise ParameterError("lam", sampler["lam"], "a number or 'root' for LightGBM")
        self.target, self.sampler, self.seed, self.iteration = target, sampler, seed, 0

    def __call__(self, scores: Floats, rows: Any) -> tuple[Floats, Floats]:
        p = sigmoid(scores)
        g, h = p - self.target, p * (1.0 - p)
        lam = self.sampler["lam"]
        if lam == "root":  # with the floor that it has here, without which it soon is nearly 0
            floor = LAMBDA_FLOOR * float((g * g).sum() / (h * h).sum())
            lam = max(float((g.sum() / h.sum()) ** 2), floor)
        key = stream_key(self.seed, self.iteration, Purpose.DRAW)
        self.iteration += 1
        weight = mvs_weights(g, h, self.sampler["rate"], lam, key)
        return g * weight, h * weight


def _catboost(
    cell: Mapping[str, Any], X: Floats, y: NDArray[np.int64], X_judge: Floats, pause: Pause
) -> Fitted:
    """CatBoost with its own MVS, its trees grown by leaves like the others'."""
    from catboost import CatBoostClassifier, Pool

    tree, sampler = cell["tree"], _own_mvs(cell["sampler"], "CatBoost")
    sampling = (
        {"bootstrap_type": "MVS", "subsample": sampler["rate"]}
        if sampler["name"] == "mvs"
        else {"bootstrap_type": "No"}
    )
    model = CatBoostClassifier(
        iterations=cell["trees"],
        learning_rate=cell["learning_rate"],
        grow_policy="Lossguide",
        max_leaves=int(tree["num_leaves"]),
        min_data_in_leaf=int(tree["min_data_in_leaf"]),
        l2_leaf_reg=tree["lambda_l2"],
        rsm=tree["feature_fraction"],
        random_seed=cell["seed"],
        thread_count=1,
        logging_level="Silent",
        allow_writing_files=False,
        **sampling,
    )
    rows = Pool(X, y)
    start = time.perf_counter()
    model.fit(rows)
    seconds = time.perf_counter() - start
    return Fitted(lambda n: model.predict_proba(X_judge, ntree_end=n)[:, 1], seconds)


def _xgboost(
    cell: Mapping[str, Any], X: Floats, y: NDArray[np.int64], X_judge: Floats, pause: Pause
) -> Fitted:
    """XGBoost with its gradient-based sampling, which is MVS with λ = 0.1."""
    import xgboost as xgb

    tree, sampler = cell["tree"], _own_mvs(cell["sampler"], "XGBoost")
    sampling = (
        {"subsample": sampler["rate"], "sampling_method": "gradient_based"}
        if sampler["name"] == "mvs"
        else {}
    )
    parameters = {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_depth": 0,
        "max_leaves": int(tree["num_leaves"]),
        "min_child_weight": tree["min_sum_hessian_in_leaf"],
        "learning_rate": cell["learning_rate"],
        "colsample_bytree": tree["feature_fraction"],
        "reg_alpha": tree["lambda_l1"],
        "reg_lambda": tree["lambda_l2"],
        "seed": cell["seed"],
        "nthread": 1,
        **sampling,
    }
    rows = xgb.QuantileDMatrix(X, y, nthread=1)
    start = time.perf_counter()
    model = xgb.train(parameters, rows, cell["trees"])
    seconds = time.perf_counter() - start
    judged = xgb.DMatrix(X_judge, nthread=1)

    def predict(trees: int) -> Floats:
        return model.predict(judged, iteration_range=(0, trees)).astype(np.float64)

    return Fitted(predict, seconds)


def _own_mvs(sampler: Mapping[str, Any], host: str) -> Mapping[str, Any]:
    if sampler["name"] == "none" or (sampler["name"] == "mvs" and sampler["lam"] == OWN):
        return sampler
    raise ParameterError("sampler", dict(sampler), f"none or its own MVS for {host}")


HOSTS = {"lightgbm": _lightgbm, "catboost": _catboost, "xgboost": _xgboost}
"""From a cell, columns, targets, other columns and a pause to what predicts these, and seconds.

LightGBM alone pauses between its iterations, the others take as long a turn as they need."""
