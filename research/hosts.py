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
from mvsboost.interop.lightgbm import MVSObjective
from mvsboost.sampling import MVS
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
    start_score, initial = 0.0, None
    if sampler["name"] == "mvs":
        if isinstance(sampler["lam"], str) and sampler["lam"] != "root":
            raise ParameterError("lam", sampler["lam"], "a number or 'root' for LightGBM")
        objective = MVSObjective("logistic", MVS(sampler["rate"], sampler["lam"]), seed=seed)
        parameters["objective"], initial = objective, objective.start_score(y)
        start_score = float(initial[0])
        if sampler.get("support") == DRAWN:
            needed = cell["tree"]["min_data_in_leaf"] / sampler["rate"]
            parameters["min_data_in_leaf"] = round(needed)
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
