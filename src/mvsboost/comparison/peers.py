"""Other libraries beside this one, where they are installed: their defaults, as many threads."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from mvsboost.comparison.plan import Setting
from mvsboost.comparison.store import Fit
from mvsboost.data import Columns
from mvsboost.data.columns import CategoricalColumn
from mvsboost.errors import ParameterError
from mvsboost.runtime.threads import threads_of

if TYPE_CHECKING:
    from mvsboost.comparison.fitting import Protocol, Rows

__all__ = ["PEERS", "check_peers"]


def check_peers(names: Sequence[str]) -> tuple[str, ...]:
    """Names of libraries that are known and installed."""
    for name in names:
        if name not in PEERS:
            raise ParameterError("peers", name, f"one of {', '.join(map(repr, PEERS))}")
        for module in (_MODULES[name], "pandas"):
            if find_spec(module) is None:
                raise ImportError(f"{name} needs {module}: pip install {module}")
    return tuple(dict.fromkeys(names))


def _frame(columns: Columns) -> Any:
    """The columns as a pandas table; categories as such."""
    import pandas as pd

    return pd.DataFrame(
        {
            f"f{j}": (
                pd.Categorical.from_codes(np.maximum(column.codes, -1), column.categories)
                if isinstance(column, CategoricalColumn)
                else column.values
            )
            for j, column in enumerate(columns.columns)
        }
    )


# of three parts, each function trains on the first and stops by the second; weights may be None


def _lightgbm(protocol: Protocol, parts: Sequence[Any], rows: Sequence[Rows]) -> Any:
    import lightgbm as lgb

    kind = lgb.LGBMClassifier if protocol.task.is_classification else lgb.LGBMRegressor
    model = kind(
        n_estimators=protocol.n_estimators,
        n_jobs=threads_of(protocol.parameters.get("n_jobs")),
        verbosity=-1,
    )
    stop = lgb.early_stopping(protocol.patience, verbose=False)
    model.fit(
        parts[0],
        rows[0].target,
        sample_weight=rows[0].weight,
        eval_set=[(parts[1], rows[1].target)],
        eval_sample_weight=None if rows[1].weight is None else [rows[1].weight],
        callbacks=[stop],
    )
    return model, model.best_iteration_


def _xgboost(protocol: Protocol, parts: Sequence[Any], rows: Sequence[Rows]) -> Any:
    import xgboost as xgb

    kind = xgb.XGBClassifier if protocol.task.is_classification else xgb.XGBRegressor
    model = kind(
        n_estimators=protocol.n_estimators,
        early_stopping_rounds=protocol.patience,
        enable_categorical=True,
        n_jobs=threads_of(protocol.parameters.get("n_jobs")),
        verbosity=0,
    )
    model.fit(
        parts[0],
        rows[0].target,
        sample_weight=rows[0].weight,
        eval_set=[(parts[1], rows[1].target)],
        sample_weight_eval_set=None if rows[1].weight is None else [rows[1].weight],
        verbose=False,
    )
    return model, model.best_iteration + 1


def _catboost(protocol: Protocol, parts: Sequence[Any], rows: Sequence[Rows]) -> Any:
    import catboost as cb

    kind = cb.CatBoostClassifier if protocol.task.is_classification else cb.CatBoostRegressor
    texts = list(parts[0].select_dtypes("category"))
    model = kind(
        iterations=protocol.n_estimators,
        early_stopping_rounds=protocol.patience,
        thread_count=threads_of(protocol.parameters.get("n_jobs")),
        verbose=False,
        allow_writing_files=False,
    )
    training, held = (
        cb.Pool(_with_text(part, texts), one.target, cat_features=texts, weight=one.weight)
        for part, one in zip(parts[:2], rows, strict=False)
    )
    model.fit(training, eval_set=held)
    parts[2][texts] = _with_text(parts[2], texts)[texts]
    return model, (model.get_best_iteration() or 0) + 1


def _with_text(frame: Any, texts: list[str]) -> Any:
    """Categories as text, which is what CatBoost takes; a missing one is a category."""
    return frame.assign(**{c: frame[c].astype(object).fillna("missing").astype(str) for c in texts})


_Train = Callable[["Protocol", Sequence[Any], Sequence["Rows"]], Any]


def _peer(train: _Train) -> Callable[..., Fit]:
    def fit(protocol: Protocol, setting: Setting, fold: int, parts: tuple[Rows, Rows, Rows]) -> Fit:
        frames = [_frame(part.columns) for part in _aligned(parts)]
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that the newest release would have
            model, trees = train(protocol, frames, parts)
        seconds = time.perf_counter() - start
        predict = model.predict_proba if protocol.task.is_classification else model.predict
        found = np.asarray(predict(frames[2]))
        error = protocol.task.error(parts[2].target, found, parts[2].weight)
        return Fit(setting, fold, error, seconds, int(trees), float(len(parts[0].target)))

    return fit


def _aligned(parts: tuple[Rows, Rows, Rows]) -> list[Rows]:
    """All parts with the categories of the first."""
    from dataclasses import replace

    from mvsboost.data import Schema

    schema = Schema.from_columns(parts[0].columns)
    return [parts[0], *(replace(p, columns=schema.check(p.columns)) for p in parts[1:])]


PEERS: dict[str, Callable[..., Fit]] = {
    "LightGBM": _peer(_lightgbm),
    "XGBoost": _peer(_xgboost),
    "CatBoost": _peer(_catboost),
}
_MODULES = {"LightGBM": "lightgbm", "XGBoost": "xgboost", "CatBoost": "catboost"}
