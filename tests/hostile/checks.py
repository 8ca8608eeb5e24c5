"""Any table either trains a right model or is refused by name.

    python -m tests.hostile.checks --cases 100000 --seed 0 --jobs 2

Case number i of a seed is the same on every machine. A batch runs in a process of its own, so that
a crash or a hang is seen; the exit code is 1 if any case fails.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from mvsboost import Dataset, MVSClassifier, MVSRegressor
from mvsboost.cli import main as command
from mvsboost.errors import MVSBoostError
from mvsboost.estimators import load_estimator
from tests.apart import Cases, options, run
from tests.hostile.tables import (
    Table,
    drawn_parameters,
    drawn_table,
    drawn_target,
    drawn_weight,
)


@dataclass
class Fit:
    """An estimator that was fitted, and what to."""

    estimator: Any
    table: Table
    y: Any
    weight: Any
    rng: Random
    folder: Path

    def again(self, X: Any = None, y: Any = None, weight: Any = None, **changes: Any) -> Any:
        """The same with another table, target, weights, or parameters."""
        other = type(self.estimator)(**{**self.estimator.get_params(deep=False), **changes})
        X = self.table.held() if X is None else X
        return other.fit(X, self.y if y is None else y, self.weight if weight is None else weight)


def written(estimator: Any) -> str:
    """A model without the parameters it was made with."""
    state = estimator.model_.to_dict()
    state["metadata"] = {**state["metadata"], "parameters": None, "not kept": None}
    return json.dumps(state)


def scores(estimator: Any, X: Any) -> Any:
    """Raw scores, one row each; none is NaN or infinite."""
    found = np.column_stack(list(estimator.named_outputs(X, "scores").values()))
    assert np.isfinite(found).all(), "a score is not finite"
    return found


def assert_named(error: MVSBoostError) -> None:
    """An error that somebody can read."""
    text = str(error)
    assert text, "an error says nothing"
    assert len(text) < 1_000, f"an error has {len(text)} characters"


# --- what must hold of what was fitted ------------------------------------------------------------


def rows_stand_alone(fit: Fit) -> None:
    whole = scores(fit.estimator, fit.table.held())
    rows = [fit.rng.randrange(fit.table.n_rows) for _ in range(3)]
    some = np.arange(fit.table.n_rows)[::-2]
    assert np.array_equal(scores(fit.estimator, fit.table.held(some)), whole[some]), "a few rows"
    for row in rows:
        found = scores(fit.estimator, fit.table.held(np.array([row])))
        assert np.array_equal(found[0], whole[row]), f"row {row} alone"


def predictions_are_of_the_target(fit: Fit) -> None:
    predictions = np.asarray(fit.estimator.predict(fit.table.held()))
    if hasattr(fit.estimator, "classes_"):
        assert np.isin(predictions, fit.estimator.classes_).all()
        shares = fit.estimator.predict_proba(fit.table.held())
        assert np.isfinite(shares).all()
        assert (shares >= 0).all()
        assert np.allclose(shares.sum(axis=1), 1.0)
    else:
        assert not np.isnan(predictions).any()


def files_keep_it(fit: Fit) -> None:
    path = fit.folder / f"model-{os.getpid()}.json"
    fit.estimator.save(path)
    X = fit.table.held()
    expected = scores(fit.estimator, X)
    assert np.array_equal(scores(load_estimator(path), X), expected), "loaded"
    assert np.array_equal(scores(pickle.loads(pickle.dumps(fit.estimator)), X), expected), "pickled"


def the_reference_agrees(fit: Fit) -> None:
    assert written(fit.again(device="reference")) == written(fit.estimator)


def twice_is_the_same(fit: Fit) -> None:
    assert written(fit.again(n_jobs=2)) == written(fit.estimator)


def contributions_add_up(fit: Fit) -> None:
    X = fit.table.held()
    expected = scores(fit.estimator, X)
    found = fit.estimator.predict_contributions(X).sum(axis=-1).reshape(expected.shape)
    size = max(1e-300, float(np.abs(fit.estimator.predict_contributions(X)).max()))
    assert np.allclose(found / size, expected / size, atol=1e-9), "contributions"


def other_tables_are_told_apart(fit: Fit) -> None:
    other = drawn_table(fit.rng)
    names = list(fit.table.columns)
    columns = dict(zip(names, other.columns.values(), strict=False))
    with contextlib.suppress(Exception):  # a container may not hold them
        X = Table(columns, other.container).held()
        try:
            scores(fit.estimator, X)
        except MVSBoostError as error:
            assert_named(error)


def files_of_tables_train_the_same(fit: Fit) -> None:
    """A table of Parquet, streamed, and the command line."""
    values = list(fit.y)
    if len({isinstance(value, np.datetime64) for value in values}) > 1:
        return  # pyarrow crashes on times of NumPy beside numbers
    try:
        table = pa.table({**dict(fit.table.columns), "the target": pa.array(values)})
        kind = fit.rng.choice(["parquet", "csv"])
        path = str(fit.folder / f"table-{os.getpid()}.{kind}")
        (parquet.write_table if kind == "parquet" else csv.write_csv)(table, path)
    except Exception:  # what these files cannot hold
        return
    model = str(fit.folder / f"cli-{os.getpid()}.json")
    quiet, said = contextlib.redirect_stdout(io.StringIO()), io.StringIO()
    with quiet, contextlib.redirect_stderr(said):
        options = ["--target", "the target", "--model", model, "--set", "n_estimators=2"]
        code = command(["train", path, *options])
        if code == 0:
            code = command(["predict", path, "--model", model, "--out", path + ".out.csv"])
    assert code in (0, 1, 2), code
    assert (code == 0) == (not said.getvalue().strip()), said.getvalue()[:300]
    read = Dataset.from_parquet if kind == "parquet" else Dataset.from_csv
    try:
        streamed = read(path, "the target", labels=hasattr(fit.estimator, "classes_"))
        type(fit.estimator)(n_estimators=1).fit(streamed)
    except MVSBoostError as error:
        assert_named(error)


# --- mathematics, on numbers and all rows ---------------------------------------------------------


def _numbers(fit: Fit) -> dict[str, Any]:
    """Columns of numbers that have a bin for each value."""
    columns = {
        name: np.asarray(values, float)
        for name, values in fit.table.columns.items()
        if isinstance(values, np.ndarray) and values.dtype.kind in "fiub"
    }
    return {name: values for name, values in columns.items() if not np.ma.isMA(values)}


def _trained(fit: Fit, columns: dict[str, Any]) -> Any:
    """Scores of the rows, trained on these columns; None where all rows are refused by name."""
    plain = {"sampler": "none", "colsample": 1.0, "second_look": 0, "max_bins": 255}
    other = type(fit.estimator)(**{**fit.estimator.get_params(deep=False), **plain})
    other.set_params(interaction_constraints=None)
    try:
        other.fit(columns, fit.y, fit.weight)
    except MVSBoostError as error:
        assert_named(error)
        return None
    return scores(other, columns)


def a_copy_of_a_column_tells_nothing(fit: Fit) -> None:
    if columns := _numbers(fit):
        doubled = {**columns, "a copy": next(iter(columns.values()))}
        assert np.array_equal(_trained(fit, columns), _trained(fit, doubled)), "a column twice"


def a_column_may_be_two(fit: Fit) -> None:
    """What is below a value, and what is above: each split is one of either.

    Missing values against all others are a split of both, and tried before others of the second.
    """
    if columns := _numbers(fit):
        name, values = next(iter(columns.items()))
        middle = fit.rng.choice(values.tolist())
        if not np.isnan(values).any():
            parts = {"low": np.minimum(values, middle), "high": np.maximum(values, middle)}
            others = {key: each for key, each in columns.items() if key != name}
            found = _trained(fit, {**parts, **others})
            assert np.array_equal(found, _trained(fit, columns)), "a column in two"


CHECKS: list[Callable[[Fit], None]] = [
    rows_stand_alone,
    predictions_are_of_the_target,
    files_keep_it,
    the_reference_agrees,
    twice_is_the_same,
    contributions_add_up,
    other_tables_are_told_apart,
    files_of_tables_train_the_same,
    a_copy_of_a_column_tells_nothing,
    a_column_may_be_two,
]


def outcome(rng: Random, folder: Path) -> str:
    """Fit one case and check it: what became of it; what must not be is raised."""
    classes = rng.random() < 0.5
    table = drawn_table(rng)
    y, weight = drawn_target(rng, table.n_rows, classes), drawn_weight(rng, table.n_rows)
    kind = MVSClassifier if classes else MVSRegressor
    estimator = kind(n_jobs=1, **drawn_parameters(rng, classes))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="the target holds one class only")
        warnings.filterwarnings("ignore", message="Warning: converting a masked element")
        try:
            X = table.held()
            estimator.fit(X, y, weight)
        except MVSBoostError as error:
            assert_named(error)
            return "refused"
        fit = Fit(estimator, table, y, weight, rng, folder)
        for check in rng.sample(CHECKS, 2):
            try:
                check(fit)
            except Exception as error:
                error.add_note(check.__name__)
                raise
    return "fitted"


def silent() -> None:
    """Many cases have nothing to split, which is said."""
    logging.getLogger("mvsboost").setLevel(logging.ERROR)


def main() -> int:
    chosen = options(__doc__, "cases", 100_000)
    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(
            start=silent,
            check=lambda _, number: outcome(Random(chosen.seed * 2**40 + number), Path(folder)),
        )
        return 0 if run(cases, chosen.cases, batch=200, jobs=chosen.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
