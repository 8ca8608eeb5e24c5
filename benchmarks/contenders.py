"""The libraries, each with its own sampling modes, behind one small interface.

A contender bins a data set once (`prepare`), boosts a number of iterations on it
(`boost`), and predicts (`predict`). Learning rate, bins, leaves and threads are
the same for all. XGBoost and CatBoost are told to grow best first, as the others do,
and XGBoost to any depth; LightGBM and scikit-learn have an L2 penalty of 1, which is
XGBoost's default and ours (CatBoost keeps its 3); scikit-learn does not stop early.
Everything else is the library's default. What cannot be made equal is listed in
``benchmarks/notes.md``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from cases import Data

LEARNING_RATE = 0.1
BINS = 255
THREADS = 2

WARM_UP = math.ceil(1 / LEARNING_RATE)
"""Iterations in which LightGBM's GOSS still takes all rows."""

Watch = Callable[[float], bool]
"""Called with the test log loss after an iteration; True stops training."""


@dataclass
class Contender:
    """A library in one of its modes."""

    library: str
    mode: str
    options: dict[str, Any] = field(default_factory=dict)
    can_be_watched = True
    """Whether `boost` can call `watch` after every iteration."""

    @property
    def name(self) -> str:
        return f"{self.library} {self.mode}"

    def prepare(self, data: Data) -> Any:
        raise NotImplementedError

    def boost(self, prepared: Any, iterations: int, leaves: int, watch: Watch | None = None) -> Any:
        raise NotImplementedError

    def predict(self, model: Any, X: pd.DataFrame) -> np.ndarray:
        raise NotImplementedError


class Ours(Contender):
    def prepare(self, data: Data) -> Any:
        from mvsboost.data import Dataset

        train = Dataset.from_data(data.X, data.y, n_classes=2, n_threads=THREADS)
        test = Dataset.from_data(
            data.X_test,
            data.y_test,
            n_classes=2,
            mapper=train.mapper,
            schema=train.schema,
            n_threads=THREADS,
        )
        return train, test

    def boost(self, prepared: Any, iterations: int, leaves: int, watch: Watch | None = None) -> Any:
        from mvsboost.boosting import TrainConfig, train
        from mvsboost.callbacks import Callback
        from mvsboost.estimators.fitting import MIN_SAMPLED
        from mvsboost.metrics import get_metric
        from mvsboost.objectives import Logistic
        from mvsboost.sampling import make_sampler
        from mvsboost.trees import TreeParams

        objective = Logistic()

        class Watching(Callback):
            def after_iteration(self, progress: Any) -> str | None:
                stop = watch(progress.model.history["test"]["log_loss"][-1])
                return "watched" if stop else None

        config = TrainConfig(
            objective,
            make_sampler(self.options.get("sampler")),
            n_estimators=iterations,
            learning_rate=LEARNING_RATE,
            tree=TreeParams(
                max_leaves=leaves,
                min_sampled=MIN_SAMPLED,
                second_look=self.options.get("second_look", 0),
            ),
            leaf_values=self.options.get("leaf_values", "all"),
            metrics=[get_metric("log_loss", objective)] if watch else [],
            n_threads=THREADS,
        )
        rows, test = prepared
        return train(
            rows,
            config,
            eval_sets={"test": test} if watch else {},
            callbacks=[Watching()] if watch else [],
        ).model

    def predict(self, model: Any, X: pd.DataFrame) -> np.ndarray:
        return model.predict(X, n_threads=THREADS)


class LightGBM(Contender):
    def prepare(self, data: Data) -> Any:
        import lightgbm as lgb

        parameters = {"max_bin": BINS, "verbose": -1, "num_threads": THREADS}
        train = lgb.Dataset(data.X, data.y, params=parameters, free_raw_data=False).construct()
        test = train.create_valid(data.X_test, data.y_test).construct()
        return train, test

    def boost(self, prepared: Any, iterations: int, leaves: int, watch: Watch | None = None) -> Any:
        import lightgbm as lgb

        def after(env: Any) -> None:
            if watch(env.evaluation_result_list[0][2]):
                raise lgb.callback.EarlyStopException(env.iteration, [])

        parameters = {
            "objective": "binary",
            "metric": "binary_logloss" if watch else "None",
            "num_leaves": leaves,
            "learning_rate": LEARNING_RATE,
            "max_bin": BINS,
            "num_threads": THREADS,
            "lambda_l2": 1.0,
            "verbose": -1,
            **self.options,
        }
        rows, test = prepared
        return lgb.train(
            parameters,
            rows,
            iterations,
            valid_sets=[test] if watch else None,
            callbacks=[after] if watch else None,
        )

    def predict(self, model: Any, X: pd.DataFrame) -> np.ndarray:
        return model.predict(X, num_threads=THREADS)


class XGBoost(Contender):
    def prepare(self, data: Data) -> Any:
        import xgboost as xgb

        train = xgb.QuantileDMatrix(
            data.X, data.y, max_bin=BINS, nthread=THREADS, enable_categorical=True
        )
        test = xgb.DMatrix(data.X_test, data.y_test, nthread=THREADS, enable_categorical=True)
        return train, test

    def boost(self, prepared: Any, iterations: int, leaves: int, watch: Watch | None = None) -> Any:
        import xgboost as xgb

        class Watching(xgb.callback.TrainingCallback):
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                return watch(evals_log["test"]["logloss"][-1])

        parameters = {
            "objective": "binary:logistic",
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_leaves": leaves,
            "max_depth": 0,
            "max_bin": BINS,
            "learning_rate": LEARNING_RATE,
            "nthread": THREADS,
            "eval_metric": "logloss",
            "verbosity": 0,
            **self.options,
        }
        rows, test = prepared
        return xgb.train(
            parameters,
            rows,
            iterations,
            evals=[(test, "test")] if watch else (),
            callbacks=[Watching()] if watch else None,
            verbose_eval=False,
        )

    def predict(self, model: Any, X: pd.DataFrame) -> np.ndarray:
        return model.inplace_predict(X)


class CatBoost(Contender):
    """Bins ahead, but for the rows to watch: on their own they would number categories anew.

    Statistics of categories are found inside `fit`.
    """

    def prepare(self, data: Data) -> Any:
        import catboost

        def pool(X: pd.DataFrame, y: np.ndarray) -> Any:
            categories = list(X.select_dtypes("category"))
            text = {c: X[c].astype(object).fillna("missing").astype(str) for c in categories}
            X = X.assign(**text)
            return catboost.Pool(X, y, cat_features=categories, thread_count=THREADS)

        train, test = pool(data.X, data.y), pool(data.X_test, data.y_test)
        train.quantize(border_count=BINS - 1, task_type="CPU")
        return train, test

    def boost(self, prepared: Any, iterations: int, leaves: int, watch: Watch | None = None) -> Any:
        import catboost

        class Watching:
            def after_iteration(self, info: Any) -> bool:
                return not watch(info.metrics["validation"]["Logloss"][-1])

        rows, test = prepared
        model = catboost.CatBoostClassifier(
            iterations=iterations,
            learning_rate=LEARNING_RATE,
            grow_policy="Lossguide",
            max_leaves=leaves,
            depth=max(6, math.ceil(math.log2(leaves))),  # 6, its default, allows 64 leaves
            thread_count=THREADS,
            verbose=False,
            allow_writing_files=False,
            **self.options,
        )
        model.fit(
            rows,
            eval_set=test if watch else None,
            use_best_model=False,
            callbacks=[Watching()] if watch else None,
        )
        return model

    def predict(self, model: Any, X: pd.DataFrame) -> np.ndarray:
        return model.predict_proba(X, thread_count=THREADS)[:, 1]


class SklearnHGB(Contender):
    """Bins inside `fit`; the time of an iteration is a difference of two fits, so it drops out.

    It cannot be watched: there is nothing to be called back between its iterations. It takes
    no column of more categories than bins, so those are left out.
    """

    can_be_watched = False

    def prepare(self, data: Data) -> Any:
        return data

    def boost(self, prepared: Any, iterations: int, leaves: int, watch: Watch | None = None) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        categorical = [str(t) == "category" for t in prepared.X.dtypes]
        small = [
            not c or prepared.X[name].nunique() <= BINS
            for name, c in zip(prepared.X, categorical, strict=True)
        ]
        X = prepared.X.loc[:, small]
        with threadpool_limits(THREADS, "openmp"):
            return HistGradientBoostingClassifier(
                learning_rate=LEARNING_RATE,
                max_iter=iterations,
                max_leaf_nodes=leaves,
                max_bins=BINS,
                l2_regularization=1.0,
                early_stopping=False,
                categorical_features="from_dtype",
            ).fit(X, prepared.y)

    def predict(self, model: Any, X: pd.DataFrame) -> np.ndarray:
        return model.predict_proba(X[list(model.feature_names_in_)])[:, 1]


def contenders() -> list[Contender]:
    """Every library in every mode, LightGBM without sampling first: ratios are against it."""
    from mvsboost import MVS

    return [
        LightGBM("LightGBM", "full"),
        LightGBM("LightGBM", "quantised", {"use_quantized_grad": True}),
        LightGBM("LightGBM", "GOSS 0.2/0.1", {"data_sample_strategy": "goss"}),
        LightGBM("LightGBM", "bagging 0.1", {"bagging_fraction": 0.1, "bagging_freq": 1}),
        XGBoost("XGBoost", "full"),
        XGBoost(
            "XGBoost",
            "gradient_based 0.1",
            {"subsample": 0.1, "sampling_method": "gradient_based"},
        ),
        CatBoost("CatBoost", "MVS 0.2", {"bootstrap_type": "MVS", "subsample": 0.2}),
        SklearnHGB("scikit-learn", "HGB"),
        Ours("mvsboost", "none", {"sampler": "none"}),
        Ours("mvsboost", "MVS 0.3", {"sampler": MVS(rate=0.3)}),
        Ours("mvsboost", "MVS 0.1", {"sampler": MVS(rate=0.1)}),
        Ours("mvsboost", "MVS 0.1, second look 3", {"sampler": MVS(rate=0.1), "second_look": 3}),
        Ours(
            "mvsboost",
            "MVS 0.05, leaves from the sample",
            {"sampler": MVS(rate=0.05), "leaf_values": "sample"},
        ),
    ]


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result
