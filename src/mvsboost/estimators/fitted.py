"""What an estimator does with its model: predict, explain, save."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, TypeVar

import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from mvsboost.backends.messages import Bins
from mvsboost.data import Schema, ingest
from mvsboost.data.columns import CategoricalColumn
from mvsboost.data.files import (
    BATCH_BYTES,
    Source,
    open_files,
    progress_bar,
    read_until_settled,
    write_batches,
)
from mvsboost.data.ingest import as_table
from mvsboost.errors import DataError, ModelFormatError, ParameterError
from mvsboost.model import Model
from mvsboost.objectives import Objective, same_kind
from mvsboost.parameters import revive
from mvsboost.runtime.threads import threads_of

__all__ = ["FittedEstimator"]

E = TypeVar("E", bound="FittedEstimator")


class FittedEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator that has a model, by `fit` or from a file."""

    model_: Model

    # --- predicting -----------------------------------------------------------------------------

    def _snapshot(self: E) -> E:
        """The estimator as it is now: a fit gives it new attributes, and leaves these alone."""
        snapshot: E = object.__new__(type(self))
        snapshot.__dict__ = self.__dict__
        return snapshot

    def _note_columns(self, X: Any, *, reset: bool) -> None:
        """Let scikit-learn keep or check names and number of columns; a dict is ours alone."""
        X = as_table(X)
        if hasattr(X, "shape") or isinstance(X, Sequence):
            try:
                X = X if hasattr(X, "shape") else np.asarray(X)
            except ValueError:
                return  # rows of several lengths: `ingest` says so in its own words
            if getattr(X, "ndim", 2) == 2:
                try:
                    validate_data(self, X, reset=reset, skip_check_array=True)
                except DuplicateError as error:
                    raise DataError(f"Duplicate column names in X: {error}") from error

    def _note_schema(self, schema: Schema) -> None:
        self.n_features_in_ = schema.n_features
        if schema.named:
            self.feature_names_in_ = np.array(schema.names, dtype=object)

    def _threads(self) -> int:
        return threads_of(self.n_jobs)

    def _expose(self) -> None:
        """Set the public attributes that follow from the model."""
        model = self.model_
        self._note_schema(model.schema)
        self.n_iter_ = model.used_iterations()
        self.best_iteration_ = model.best_iteration
        self.evals_result_ = model.history
        self.best_score_ = model.best_scores()

    # the next three are called on a snapshot: a fit in another thread must not come between lines

    def _bin(self, X: Any) -> Bins:
        check_is_fitted(self, "model_")
        self._note_columns(X, reset=False)
        return self.model_.bin(X, type(self).__name__, self._threads())

    def _scores(self, X: Any, n_iterations: int | None) -> NDArray[np.float64]:
        bins = self._bin(X)
        return self.model_.raw_scores(bins, n_iterations, self._threads())

    def _staged(
        self, X: Any, finish: Callable[[NDArray[np.float64]], NDArray[Any]]
    ) -> Iterator[NDArray[Any]]:
        bins = self._bin(X)
        for scores in self.model_.staged_scores(bins, self._threads()):
            yield finish(scores)

    def predict(self, X: Any, *, n_iterations: int | None = None) -> NDArray[Any]:
        """Predictions, (n_rows,).

        Parameters
        ----------
        X : table
            With the columns of training. Rows of an array on a GPU find their leaves there, and
            predictions come to the host.
        n_iterations : int, optional
            Use the trees of the first iterations only; by default ``n_iter_``.
        """
        now = self._snapshot()
        return now._predictions(now._scores(X, n_iterations))

    def predict_files(
        self,
        source: Source,
        out: str | PathLike[str],
        *,
        output: str = "predictions",
        keep: Sequence[str] = (),
        progress: bool = False,
    ) -> int:
        """Predict from files to a file, a batch of rows at a time (needs pyarrow).

        Parameters
        ----------
        source : path, pattern, or list of them
            Parquet or CSV files with the columns of training, by name; others are not read.
        out : path
            Ends in ``.parquet`` or ``.csv``; it is there once all of it is written.
        output : {"predictions", "probabilities", "scores"}
        keep : sequence of str
            Columns of the files to write beside, such as an identifier.
        progress : bool
            Whether to show a progress bar (needs tqdm).

        Returns
        -------
        int
            The number of rows.
        """
        now, files = self._snapshot(), open_files(source)
        check_is_fitted(now, "model_")
        names = [name for name in files.names if name in now.model_.schema.names]
        for name in keep:
            if name not in files.names:
                allowed = f"columns of the files: {', '.join(files.names)}"
                raise ParameterError("keep", name, allowed)

        def predicted() -> Iterator[dict[str, Any]]:
            chosen = [*names, *(name for name in keep if name not in names)]
            with progress_bar(progress, "predicting", files.n_rows) as done:
                for batch in files.batches(BATCH_BYTES, chosen):
                    kept = {name: batch.column(name) for name in keep}
                    yield {**kept, **now.named_outputs(batch.select(names), output)}
                    done(batch.num_rows)

        return read_until_settled(lambda: write_batches(predicted(), out))

    def named_outputs(self, X: Any, output: str = "predictions") -> dict[str, NDArray[Any]]:
        """Predictions, probabilities or raw scores as columns with names.

        Parameters
        ----------
        X : table
        output : {"predictions", "probabilities", "scores"}
        """
        now = self._snapshot()
        scores = now._scores(X, None)
        if output == "predictions":
            found = now._predictions(scores)
            if found.ndim == 1:
                return {"prediction": found}
            return {name: found[:, k] for k, name in enumerate(now.output_names())}
        if output == "scores":
            several = len(scores) > 1
            return {f"score_{k}" if several else "score": row for k, row in enumerate(scores)}
        if output == "probabilities" and hasattr(now, "classes_"):
            shares = now._probabilities(scores)
            return {f"p_{label}": shares[:, k] for k, label in enumerate(now.classes_)}
        allowed = "one of 'predictions', 'probabilities' (of classes), 'scores'"
        raise ParameterError("output", output, allowed)

    def output_names(self) -> list[str]:
        """What each of several outputs is called: a class, or a quantile."""
        if hasattr(self, "classes_"):
            return [str(name) for name in self.classes_]
        levels: Any = self.model_.objective.leaf_quantile
        return [f"q{level:g}" for level in levels]

    def _probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        raise NotImplementedError

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Predictions after each iteration in turn."""
        now = self._snapshot()
        return now._staged(X, now._predictions)

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Leaf of each row in each tree, (n_rows, n_trees)."""
        now = self._snapshot()
        return now.model_.leaves(now._bin(X), now._threads())

    def predict_contributions(
        self, X: Any, *, interactions: bool = False, n_iterations: int | None = None
    ) -> NDArray[np.float64]:
        """What each column adds to each raw score: exact SHAP values.

        Parameters
        ----------
        X : table
            With the columns of training.
        interactions : bool
            Whether to share them out among pairs of columns.
        n_iterations : int, optional
            Use the trees of the first iterations only; by default ``n_iter_``.

        Returns
        -------
        float64 array of shape (n_rows, n_features + 1)
            Its last column is the mean score; each row adds up to the raw score
            (`decision_function`). With several outputs (n_rows, n_outputs, n_features + 1).
            Interactions have one more axis of the same length, over which they add up to the
            contributions.
        """
        now = self._snapshot()
        found = now.model_.contributions(
            now._bin(X), n_iterations, now._threads(), interactions=interactions
        )
        return found[0] if len(found) == 1 else np.moveaxis(found, 0, 1)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Share of each column in the total gain; see `importances` for other kinds."""
        gains = self.importances("gain")
        total = gains.sum()
        return gains / total if total > 0 else gains

    def importances(self, kind: str = "gain") -> NDArray[np.float64]:
        """Importance of each column: ``"gain"``, ``"split"`` or ``"cover"``."""
        check_is_fitted(self, "model_")
        return self.model_.importances(kind)

    def to_lightgbm(self) -> Any:
        """The same model as a `lightgbm.Booster`; see `mvsboost.interop.lightgbm.to_lightgbm`."""
        from mvsboost.interop.lightgbm import to_lightgbm

        check_is_fitted(self, "model_")
        return to_lightgbm(self)

    def explain(self, X: Any) -> Any:
        """SHAP values as a `shap.Explanation`, for the plots of the shap package.

        Parameters
        ----------
        X : table
            With the columns of training.
        """
        try:
            import shap
        except ImportError as error:
            raise ImportError("explain needs shap: pip install shap") from error
        found = self.predict_contributions(X)
        columns = self.model_.schema.check(ingest(X), by_name=isinstance(X, Mapping)).columns
        shown = [
            np.array([*column.categories, None, None], object)[column.codes]
            if isinstance(column, CategoricalColumn)
            else column.values
            for column in columns
        ]
        values, mean = found[..., :-1], found[..., -1]
        if found.ndim == 3:  # shap has outputs last
            values = np.moveaxis(values, 1, 2)
        return shap.Explanation(
            values, mean, np.array(shown, object).T, feature_names=list(self.model_.schema.names)
        )

    # --- saving ---------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one JSON file, gzipped if the name ends in ``.gz``.

        The record of the training (``sampling_history_``, ``stage_times_``, ``stop_reason_``) and
        objects of the user's own among the parameters are not kept.
        """
        check_is_fitted(self, "model_")
        self.model_.save(path)

    @classmethod
    def load(cls: type[E], path: str | PathLike[str], *, objective: Any = None) -> E:
        """Read an estimator that `save` wrote; nothing in the file is executed.

        A sampler, objective or metric of the user's own is not in the file: a warning names them,
        and they have to be set anew before the next fit. Predictions need none of them but for an
        objective with a link of its own.

        Parameters
        ----------
        path : path
        objective : object, optional
            The user's own that the model was trained for.
        """
        model = Model.load(path)
        kind = model.metadata.get("estimator")
        if kind != cls.__name__:
            raise ModelFormatError(f"{path} holds {kind or 'a bare model'}, not {cls.__name__}")
        names = cls._get_param_names()
        try:
            stored = model.metadata["parameters"]
            estimator = cls(**{name: revive(v) for name, v in stored.items() if name in names})
            estimator._restore_labels(model)
        except ModelFormatError as error:
            raise ModelFormatError(f"{os.fspath(path)}: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            text = f"{os.fspath(path)}: what it says of the estimator is damaged: {error!r}"
            raise ModelFormatError(text) from error
        own = set(model.metadata.get("not kept", ()))
        if objective is not None:
            estimator.objective = objective
            model.objective = same_kind(model.objective, estimator._make_objective(), "the file")
            own.discard("objective")
        estimator.model_ = model
        estimator._expose()
        if own:
            warnings.warn(
                f"{os.fspath(path)} does not keep objects of your own: {', '.join(sorted(own))} "
                f"{'have' if len(own) > 1 else 'has'} the default now. Use set_params before you "
                f"fit again.",
                stacklevel=2,
            )
        return estimator

    # --- what subclasses fill in ------------------------------------------------------------------

    def _encode_target(self, y: Any, start: Model | None) -> NDArray[np.float64]:
        """The target as numbers; classes are those of the model to start from, if there is one."""
        raise NotImplementedError

    def _encode_eval(self, y: Any) -> NDArray[np.float64]:
        return self._encode_target(y, None)

    def _make_objective(self) -> Objective:
        raise NotImplementedError

    def _predictions(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        raise NotImplementedError

    def _n_classes(self) -> int:
        return 0

    def _class_weighted(self, target: Any, weight: Any) -> Any:
        return weight

    def _by_class(self, counts: NDArray[np.int64]) -> NDArray[np.float64] | None:
        return None

    def _take_classes(self, classes: NDArray[Any] | None, start: Model | None) -> None:
        """Labels of rows that are binned; None where their target holds numbers."""
        if classes is not None:
            raise DataError(
                f"the Dataset holds classes, {classes.tolist()[:5]} and so on: make it without "
                "labels= and n_classes= for regression"
            )

    def _labels(self) -> dict[str, Any]:
        return {}

    def _restore_labels(self, model: Model) -> None:
        return None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags
