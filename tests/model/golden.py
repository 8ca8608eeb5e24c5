"""Whole model files that every machine and every release must read, and training must give again.

python tests/model/golden.py    # write those that are not there

A file is never written anew: what an older release wrote must still load. Where models are meant to
change, take the number of a file up, and let the old one be in `READ_ONLY`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from mvsboost import MVS, SGB, MVSClassifier, MVSRegressor

FOLDER = Path(__file__).with_name("golden")
READ_ONLY: tuple[str, ...] = ()
"""Files that load and predict as ever, and that training gives no more."""


def table(seed: int, n: int = 120) -> dict[str, Any]:
    """Numbers with holes, categories and small integers, by operations that are exact."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-4000, 4001, n) / 1000.0
    kinds = np.array([*"abcde", "elsewhere"], object)[rng.integers(0, 5 + (seed > 0), n)]
    return {
        "x": np.where(rng.random(n) < 0.15, np.nan, x),
        "kind": kinds,
        "few": rng.integers(0, 5, n).astype(float),
    }


def target(X: dict[str, Any]) -> Any:
    """A score with a step, and effects of categories."""
    effects = dict(zip([*"abcde"], (0.75, -0.5, 0.25, -1.0, 1.5), strict=True))
    steps = np.where(np.nan_to_num(X["x"]) > 0.5, 1.0, -0.5)
    return steps * X["few"] + np.array([effects[kind] for kind in X["kind"]])


def classes() -> Any:
    """Three classes by name, MVS, a second look, weights, leaf-wise trees."""
    X, rng = table(0), np.random.default_rng(1)
    y = np.array(["low", "middle", "high"])[np.digitize(target(X), [-1.0, 1.0])]
    model = MVSClassifier(
        n_estimators=4, learning_rate=0.5, max_leaves=6, min_samples_leaf=5, max_bins=16,
        sampler=MVS(0.5), second_look=2, n_jobs=1, random_state=3,
    )  # fmt: skip
    return model.fit(X, y, rng.integers(1, 4, len(y)) / 2.0)


def quantiles() -> Any:
    """A quantile, a constraint, SGB, depth-wise trees, early stopping."""
    X = table(0)
    model = MVSRegressor(
        objective="quantile", quantile=0.7, n_estimators=6, learning_rate=0.5, max_leaves=None,
        max_depth=3, min_samples_leaf=5, max_bins=16, monotone_constraints=[1, 0, 0],
        sampler=SGB(0.6), validation_fraction=0.25, early_stopping_rounds=2, n_jobs=1,
    )  # fmt: skip
    return model.fit(X, target(X))


def counts() -> Any:
    """A Poisson mean on numbers without names."""
    X = np.column_stack([table(0)["x"], table(0)["few"]])
    model = MVSRegressor(
        objective="poisson", n_estimators=5, learning_rate=0.5, max_leaves=5, max_bins=16, n_jobs=1
    )
    return model.fit(X, np.maximum(np.rint(target(table(0))), 0.0))


GOLDEN = {"classes-1": classes, "quantiles-1": quantiles, "counts-1": counts}


def predictions(estimator: Any) -> list[Any]:
    """What a model says of new rows, some with categories that training did not have."""
    X: Any = table(1, n=25)
    if not estimator.model_.schema.named:
        X = np.column_stack([X["x"], X["few"]])
    predict = getattr(estimator, "predict_proba", estimator.predict)
    said: list[Any] = predict(X).tolist()
    return said


def paths(name: str) -> tuple[Path, Path]:
    """The model's file, and that of its predictions."""
    return FOLDER / f"{name}.json", FOLDER / f"{name}.predictions.json"


def main() -> None:
    for name, fitted in GOLDEN.items():
        model, said = paths(name)
        if not model.exists():
            estimator = fitted()
            estimator.save(model)
            said.write_text(json.dumps(predictions(estimator)) + "\n")
            print(f"{model}: {model.stat().st_size} bytes")


if __name__ == "__main__":
    main()
