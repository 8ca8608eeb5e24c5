"""`MVSClassifier` and `MVSRegressor`: the library in the manner of scikit-learn."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, TypeVar

import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from mvsboost.arguments import (
    ASIDE,
    VALIDATION,
    EvalRows,
    check_checkpoint,
    check_order,
    check_parts,
    class_weights,
    eval_items,
    fingerprint,
    groups_by_feature,
    naming,
    signs_by_feature,
    starting_point,
)
from mvsboost.boosting import TrainConfig, TrainResult, train
from mvsboost.callbacks import Callback, Checkpoint, EarlyStopping, LogProgress, check_callbacks
from mvsboost.data import Dataset, check_init_score, check_lengths, check_weight, ingest
from mvsboost.data.columns import CategoricalColumn
from mvsboost.data.ingest import as_table
from mvsboost.data.targets import labels_of, numbers_of, vector_of
from mvsboost.dialects import checks_names
from mvsboost.errors import DataError, ModelFormatError, ObjectiveError, ParameterError
from mvsboost.exact.random import rows_set_aside
from mvsboost.metrics import Metric, default_metric, get_metric
from mvsboost.model import Model
from mvsboost.objectives import Objective, make_objective, same_kind
from mvsboost.parameters import (
    PARAMETERS,
    check_parameters,
    describe,
    parameters_of,
    plain_parameters,
    revive,
)
from mvsboost.runtime.threads import available_cores
from mvsboost.sampling import Sampler, make_sampler
from mvsboost.trees import TreeParams

__all__ = ["MVSClassifier", "MVSRegressor", "load_estimator"]

logger = logging.getLogger("mvsboost")

MIN_SAMPLED = 3
"""Sampled rows a leaf must have when its value comes from the sample: a value that rests
on one or two weighted rows can be arbitrarily large."""

MOST_LEAVES = 31
"""Leaves of a tree whose size nobody has bounded."""

SMALL_SAMPLE, LOOK = 100, 4
"""Rows under which a sample only proposes, unless asked otherwise, and how many features."""

E = TypeVar("E", bound="_MVSEstimator")

_OF_CONSTRUCTOR = {
    parameter.name: f"{parameter.name!r} belongs in the constructor: {{kind}}({parameter.name}=...)"
    for parameter in PARAMETERS
}
"""What to say of a parameter that is handed to `fit`, as other libraries have it."""


class _MVSEstimator(BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share."""

    model_: Model

    # --- fitting --------------------------------------------------------------------------------

    @checks_names(_OF_CONSTRUCTOR)
    def fit(
        self: E,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        eval_names: Sequence[str] | None = None,
        init_score: Any = None,
        eval_init_score: Sequence[Any] | None = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        init_model: Any = None,
        resume: str | PathLike[str] | None = None,
    ) -> E:
        """Train a model.

        Parameters
        ----------
        X : table
            NumPy array, pandas, polars or Arrow table, dict of columns, or sparse matrix.
            Missing values are welcome.
        y : array of shape (n_rows,)
        sample_weight : array of shape (n_rows,), optional
        eval_set : list of (X, y) or (X, y, sample_weight), optional
            Sets to evaluate after each iteration.
        eval_names : list of str, optional
            Their names, by default ``eval_0``, ``eval_1``, ...
        init_score : array of shape (n_rows,) or (n_rows, n_outputs), optional
            Raw scores to start from, in place of a constant, such as the logarithm of an exposure.
            Predictions leave them out.
        eval_init_score : list of arrays, optional
            The same of each set in `eval_set`.
        X_val, y_val, sample_weight_val : optional
            One more, named ``validation``. A pipeline transforms it with the training rows:
            ``Pipeline(..., transform_input=["X_val"])``.
        init_model : estimator, Model or path, optional
            Continue from it: its trees and bins stay and ``n_estimators`` more are added, also
            behind trees that early stopping found to be too many. Metrics, and what early
            stopping compares, begin with the first of these. On the rows it was trained on the
            result is that of one long fit; on others a warning tells if columns of many
            categories may show rows their own targets.
        resume : path, optional
            Checkpoint file: if it exists training goes on from it to ``n_estimators`` trees
            in all; it is kept up to date while training.

        Notes
        -----
        A fit that fails leaves the estimator as it was, and one that succeeds changes it at
        once: what another thread predicts meanwhile is all by the old model or by the new one.
        """
        before, fitting = dict(vars(self)), self._snapshot()
        fitting.__dict__ = dict(before)
        validation = (X_val, y_val, sample_weight_val)
        sets = eval_items(eval_set, eval_names, eval_init_score, validation)
        fitting._fit(X, y, sample_weight, init_score, sets, init_model, resume)
        after = vars(fitting)
        changed = {k: v for k, v in after.items() if k not in before or before[k] is not v}
        kept = {k: v for k, v in vars(self).items() if k in after or k not in before}
        self.__dict__ = {**kept, **changed}
        return self

    def _snapshot(self: E) -> E:
        """The estimator as it is now: a fit gives it new attributes, and leaves these alone."""
        snapshot: E = object.__new__(type(self))
        snapshot.__dict__ = self.__dict__
        return snapshot

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        init_score: Any,
        held_out: list[EvalRows],
        init_model: Any,
        resume: str | PathLike[str] | None,
    ) -> None:
        check_parameters(self.get_params(deep=False))
        sampler = make_sampler(self.sampler)
        sampler.validate()
        self._note_columns(X, reset=True)
        columns = ingest(X, categorical_features=self.categorical_features)
        start = starting_point(init_model, resume, _MVSEstimator)
        if not isinstance(X, Mapping):  # which has no positions
            check_order(columns, start)
        target = self._encode_target(y, start)
        objective = self._make_objective()
        objective.check_target(target)
        evaluated = bool(held_out) or self.validation_fraction is not None
        metrics = self._metrics(objective)
        callbacks = self._callbacks(evaluated)
        seed = self._seed(start if resume is not None else None)
        weight = check_weight(sample_weight, columns.n_rows, "sample_weight")
        scores = check_init_score(init_score, columns.n_rows)
        scores = None if scores is None else scores.T
        rows = EvalRows("training", "the training rows", columns, target, weight, scores)
        dataset, evaluation = self._datasets(rows, held_out, start, seed)
        places = {VALIDATION: ASIDE, **{rows.name: rows.where for rows in held_out}}
        for name, data in evaluation.items():
            with naming(places[name]):
                objective.check_values(data.rows.target)
        about = self._about()
        if resume is not None:
            sets = {"training": dataset, **evaluation}
            about["data"] = {name: fingerprint(one) for name, one in sets.items()}
            about["seed"] = seed
            callbacks.append(Checkpoint(resume))  # the last, so that it saves what others note
        config = self._config(objective, sampler, metrics if evaluated else [], dataset, seed)
        if start is not None and resume is not None:
            check_checkpoint(start.metadata, about, resume)
            if start.n_iterations > config.n_estimators:
                allowed = f"at least {start.n_iterations}, which the checkpoint to resume has"
                raise ParameterError("n_estimators", config.n_estimators, allowed)
            config = replace(config, n_estimators=config.n_estimators - start.n_iterations)
        result = train(
            dataset,
            config,
            eval_sets=evaluation,
            callbacks=callbacks,
            init_model=start,
            metadata=about,
            resume=resume is not None,
        )
        self._adopt(result)
        _say_why_flat(result.model, dataset.n_rows, config)

    def set_params(self: E, **params: Any) -> E:
        """Set parameters, and with ``sampler__rate`` and the like those of the sampler.

        A sampler that is given by its name becomes an object then.
        """
        sampler = params.get("sampler", self.sampler)
        if isinstance(sampler, str) and any(name.startswith("sampler__") for name in params):
            params["sampler"] = make_sampler(sampler)
        super().set_params(**params)
        return self

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

    def _seed(self, checkpoint: Model | None) -> int:
        """The seed; a run that goes on, and was not told one, keeps that which it began with."""
        state = self.random_state
        if isinstance(state, (int, np.integer)):
            return int(state)
        if checkpoint is not None and "seed" in checkpoint.metadata:
            return int(checkpoint.metadata["seed"])
        if isinstance(state, np.random.Generator):
            return int(state.integers(2**31))
        return int(check_random_state(state).randint(2**31 - 1))

    def _threads(self) -> int:
        cores = available_cores()
        if self.n_jobs is None:
            return 1
        asked = int(self.n_jobs)
        return min(asked, cores) if asked > 0 else max(1, cores + 1 + asked)

    def _datasets(
        self, training: EvalRows, held_out: list[EvalRows], start: Model | None, seed: int
    ) -> tuple[Dataset, dict[str, Dataset]]:
        """Rows to train on, and evaluation sets by name."""
        check_lengths(training.X.n_rows, y=training.y)
        sets = list(held_out)
        if self.validation_fraction is not None:
            training, apart = self._set_aside(training, sets, seed)
            sets.insert(0, apart)
        labels = {}
        for rows in sets:
            with naming(rows.where):
                if rows.where == ASIDE:
                    labels[rows.name] = rows.y
                    continue
                self._note_columns(rows.X, reset=False)  # in the order of training, as to predict
                labels[rows.name] = self._encode_eval(rows.y)
        weight = self._class_weighted(training.y, training.weight)
        dataset = self._binned(training._replace(weight=weight), start, seed)
        evaluation = {}
        for rows in sets:
            with naming(rows.where):
                evaluation[rows.name] = Dataset.from_data(
                    rows.X,
                    labels[rows.name],
                    weight=rows.weight,
                    init_score=rows.start,
                    n_classes=self._n_classes(),
                    mapper=dataset.mapper,
                    schema=dataset.schema,
                    n_threads=self._threads(),
                )
        return dataset, evaluation

    def _set_aside(
        self, rows: EvalRows, others: list[EvalRows], seed: int
    ) -> tuple[EvalRows, EvalRows]:
        """Rows that stay for training, and the `validation_fraction` of them."""
        assert self.validation_fraction is not None
        if any(other.name == VALIDATION for other in others):
            allowed = f"left out where a set is named {VALIDATION!r}, or X_val is given"
            raise ParameterError("validation_fraction", self.validation_fraction, allowed)
        groups = rows.y if self._n_classes() else np.zeros(len(rows.y))
        apart = rows_set_aside(groups, self.validation_fraction, seed)
        check_parts(self.validation_fraction, groups, apart, rows.weight)

        def part(name: str, where: str, chosen: NDArray[np.bool_]) -> EvalRows:
            weight = None if rows.weight is None else rows.weight[chosen]
            start = None if rows.start is None else rows.start[chosen]
            return EvalRows(name, where, rows.X.take(chosen), rows.y[chosen], weight, start)

        return part(rows.name, rows.where, ~apart), part(VALIDATION, ASIDE, apart)

    def _binned(self, rows: EvalRows, start: Model | None, seed: int) -> Dataset:
        """Rows to train on, in bins of their own, or in those of the model to start from."""
        bin_rows = partial(
            Dataset.from_data,
            rows.X,
            rows.y,
            weight=rows.weight,
            init_score=rows.start,
            n_classes=self._n_classes(),
            n_threads=self._threads(),
        )
        if start is None:
            return bin_rows(max_bins=self.max_bins, seed=seed)
        return bin_rows(mapper=start.mapper, schema=start.schema, for_training=True)

    def _config(
        self,
        objective: Objective,
        sampler: Sampler,
        metrics: list[Metric],
        dataset: Dataset,
        seed: int,
    ) -> TrainConfig:
        return TrainConfig(
            objective=objective,
            sampler=sampler,
            n_estimators=int(self.n_estimators),
            learning_rate=float(self.learning_rate),
            tree=TreeParams(
                max_leaves=self._most_leaves(),
                max_depth=self.max_depth,
                min_samples_leaf=float(self.min_samples_leaf),
                min_child_weight=float(self.min_child_weight),
                min_sampled=MIN_SAMPLED,
                l2=float(self.l2),
                l1=float(self.l1),
                min_gain=float(self.min_gain),
                second_look=self._look(sampler, dataset.rows.n_rows),
            ),
            colsample=float(self.colsample),
            leaf_values=str(self.leaf_values),
            order=int(self.order),
            monotone=signs_by_feature(self.monotone_constraints, dataset),
            interactions=groups_by_feature(self.interaction_constraints, dataset),
            metrics=metrics,
            seed=seed,
            n_threads=self._threads(),
            device=str(self.device),
        )

    def _most_leaves(self) -> int | None:
        if not _is_auto(self.max_leaves):
            return None if self.max_leaves is None else int(self.max_leaves)
        return MOST_LEAVES if self.max_depth is None else None

    def _look(self, sampler: Sampler, n_rows: int) -> int:
        """Features that all rows decide on: as asked for, or by the size of the sample."""
        if self.second_look is not None:
            return int(self.second_look)
        return LOOK if sampler.share * n_rows < SMALL_SAMPLE else 0

    def _metrics(self, objective: Objective) -> list[Metric]:
        if self.eval_metric is None:
            return [default_metric(objective)]
        several = isinstance(self.eval_metric, (list, tuple))
        specs = self.eval_metric if several else [self.eval_metric]
        metrics = [get_metric(spec, objective) for spec in specs]
        if not metrics or len({metric.name for metric in metrics}) < len(metrics):
            raise ParameterError(
                "eval_metric", self.eval_metric, "one metric, or several different"
            )
        return metrics

    def _callbacks(self, evaluated: bool) -> list[Callback]:
        callbacks = check_callbacks(self.callbacks)
        if self.early_stopping_rounds is not None:
            if not evaluated:
                raise ParameterError(
                    "early_stopping_rounds",
                    self.early_stopping_rounds,
                    "used with an eval_set or validation_fraction",
                )
            callbacks.append(EarlyStopping(self.early_stopping_rounds))
        if self.verbose:
            callbacks.append(LogProgress(int(self.verbose)))
        return callbacks

    def _adopt(self, result: TrainResult) -> None:
        self.model_ = result.model
        self.sampling_history_ = result.sampling_history
        self.stop_reason_ = result.stop_reason
        self.stage_times_ = result.stage_times
        for name in ("data", "seed"):  # for checkpoints only
            self.model_.metadata.pop(name, None)
        self._expose()

    def _about(self) -> dict[str, Any]:
        """What a file keeps of the estimator besides the model itself."""
        parameters, own = plain_parameters(self.get_params(deep=False))
        about = {"estimator": type(self).__name__, "parameters": parameters, **self._labels()}
        return {**about, "not kept": own} if own else about

    def _expose(self) -> None:
        """Set the public attributes that follow from the model."""
        model = self.model_
        self.n_features_in_ = model.schema.n_features
        if model.schema.named:
            self.feature_names_in_ = np.array(model.schema.names, dtype=object)
        self.n_iter_ = model.used_iterations()
        self.best_iteration_ = model.best_iteration
        self.evals_result_ = model.history
        self.best_score_ = model.best_scores()

    def refit(self: E, X: Any, y: Any, sample_weight: Any = None, *, keep: float = 0.9) -> E:
        """The same trees with leaf values from other rows, as a new estimator.

        Parameters
        ----------
        X : table
            With the columns of training.
        y : array of shape (n_rows,)
        sample_weight : array of shape (n_rows,), optional
        keep : float
            Share of the old values that stays, in [0, 1].
        """
        from mvsboost.refitting import refit

        check_is_fitted(self, "model_")
        model, other = self.model_, self._snapshot()
        other.__dict__ = dict(vars(self))
        self._note_columns(X, reset=False)
        dataset = Dataset.from_data(
            model.schema.check(ingest(X), type(self).__name__, by_name=isinstance(X, Mapping)),
            self._encode_target(y, model),
            weight=sample_weight,
            n_classes=self._n_classes(),
            mapper=model.mapper,
            schema=model.schema,
            n_threads=self._threads(),
        )
        config = self._config(model.objective, make_sampler(self.sampler), [], dataset, seed=0)
        other.model_ = refit(model, dataset, config, keep)
        other._expose()
        return other

    # --- predicting -----------------------------------------------------------------------------

    # the next three are called on a snapshot: a fit in another thread must not come between lines

    def _bin(self, X: Any) -> NDArray[np.uint8]:
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
            With the columns of training.
        n_iterations : int, optional
            Use the trees of the first iterations only; by default ``n_iter_``.
        """
        now = self._snapshot()
        return now._predictions(now._scores(X, n_iterations))

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
            estimator._restore_labels(model.metadata)
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

    def _labels(self) -> dict[str, Any]:
        return {}

    def _restore_labels(self, metadata: dict[str, Any]) -> None:
        return None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


class MVSClassifier(ClassifierMixin, _MVSEstimator):  # type: ignore[misc]
    @checks_names()
    def __init__(
        self,
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaves: int | str | None = "auto",
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        min_child_weight: float = 1e-3,
        l2: float = 1.0,
        l1: float = 0.0,
        min_gain: float = 0.0,
        max_bins: int = 255,
        colsample: float = 1.0,
        sampler: Any = "mvs",
        leaf_values: str = "all",
        second_look: int | None = None,
        order: int = 2,
        objective: Any = "auto",
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        categorical_features: Any = "auto",
        class_weight: Any = None,
        early_stopping_rounds: int | None = None,
        validation_fraction: float | None = None,
        eval_metric: Any = None,
        callbacks: Sequence[Callback] | None = None,
        n_jobs: int | None = -1,
        random_state: Any = 0,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaves = max_leaves
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.min_child_weight = min_child_weight
        self.l2 = l2
        self.l1 = l1
        self.min_gain = min_gain
        self.max_bins = max_bins
        self.colsample = colsample
        self.sampler = sampler
        self.leaf_values = leaf_values
        self.second_look = second_look
        self.order = order
        self.objective = objective
        self.monotone_constraints = monotone_constraints
        self.interaction_constraints = interaction_constraints
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.eval_metric = eval_metric
        self.callbacks = callbacks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _encode_target(self, y: Any, start: Model | None) -> NDArray[np.float64]:
        labels = labels_of(y)
        check_classification_targets(labels)
        if start is not None and "classes" in start.metadata:
            self._restore_labels(start.metadata)
            return self._codes(labels, "y", "the classes of the model to go on from")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        return codes.astype(np.float64)

    def _encode_eval(self, y: Any) -> NDArray[np.float64]:
        return self._codes(labels_of(y), "eval_set", "the training classes")

    def _codes(self, labels: NDArray[Any], what: str, known: str) -> NDArray[np.float64]:
        unknown = labels[~np.isin(labels, self.classes_)]
        if len(unknown):
            raise DataError(
                f"{what} holds class {unknown.tolist()[0]!r}, which is not among {known} "
                f"{self.classes_.tolist()}"
            )
        return np.searchsorted(self.classes_, labels).astype(np.float64)

    def _n_classes(self) -> int:
        return max(2, len(self.classes_))

    def _make_objective(self) -> Objective:
        spec = "log_loss" if _is_auto(self.objective) else self.objective
        return make_objective(spec, n_classes=self._n_classes())

    def _class_weighted(self, target: Any, weight: Any) -> Any:
        if self.class_weight is None:
            return weight
        codes, by_class = target.astype(int), np.ones(len(self.classes_))
        if isinstance(self.class_weight, Mapping):
            by_class[:] = class_weights(self.classes_.tolist(), self.class_weight)
        else:
            present = np.unique(codes)  # a model may be continued without some
            by_class[present] = compute_class_weight(
                "balanced", classes=self.classes_[present], y=self.classes_[codes]
            )
        weights = by_class[codes] if weight is None else by_class[codes] * weight
        if not weights.any():
            allowed = "such that it leaves a row to train on with a weight greater than zero"
            raise ParameterError("class_weight", self.class_weight, allowed)
        return weights

    def _labels(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), "classes_dtype": self.classes_.dtype.str}

    def _restore_labels(self, metadata: dict[str, Any]) -> None:
        dtype = metadata["classes_dtype"]
        self.classes_ = np.array(metadata["classes"], object if dtype == "|O" else dtype)

    def _predictions(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        best = (scores[0] > 0).astype(int) if len(scores) == 1 else scores.argmax(axis=0)
        best = np.minimum(best, len(self.classes_) - 1)  # of one class there is no other
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def _probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        objective = self.model_.objective
        if objective.link.name == "identity":
            raise ObjectiveError(
                f"objective {objective.name!r} has no link from scores to probabilities: give it "
                f"the link 'logit' or 'multinomial', or use decision_function"
            )
        shares = objective.link.inverse(scores)
        if len(self.classes_) == 1:
            return np.ones((scores.shape[1], 1))
        return np.column_stack([1.0 - shares[0], shares[0]]) if len(shares) == 1 else shares.T

    def _decisions(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return scores[0] if len(scores) == 1 else scores.T

    def predict_proba(self, X: Any, *, n_iterations: int | None = None) -> NDArray[np.float64]:
        """Probabilities of the classes in the order of ``classes_``, (n_rows, n_classes)."""
        now = self._snapshot()
        return now._probabilities(now._scores(X, n_iterations))

    def decision_function(self, X: Any, *, n_iterations: int | None = None) -> NDArray[np.float64]:
        """Raw scores: (n_rows,) for two classes, (n_rows, n_classes) for more."""
        now = self._snapshot()
        return now._decisions(now._scores(X, n_iterations))

    def staged_predict_proba(self, X: Any) -> Iterator[NDArray[Any]]:
        """Probabilities after each iteration in turn."""
        now = self._snapshot()
        return now._staged(X, now._probabilities)

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[Any]]:
        """Raw scores after each iteration in turn."""
        now = self._snapshot()
        return now._staged(X, now._decisions)


class MVSRegressor(RegressorMixin, _MVSEstimator):  # type: ignore[misc]
    @checks_names()
    def __init__(
        self,
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaves: int | str | None = "auto",
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        min_child_weight: float = 1e-3,
        l2: float = 1.0,
        l1: float = 0.0,
        min_gain: float = 0.0,
        max_bins: int = 255,
        colsample: float = 1.0,
        sampler: Any = "mvs",
        leaf_values: str = "all",
        second_look: int | None = None,
        order: int = 2,
        objective: Any = "auto",
        quantile: float | None = None,
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        categorical_features: Any = "auto",
        early_stopping_rounds: int | None = None,
        validation_fraction: float | None = None,
        eval_metric: Any = None,
        callbacks: Sequence[Callback] | None = None,
        n_jobs: int | None = -1,
        random_state: Any = 0,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaves = max_leaves
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.min_child_weight = min_child_weight
        self.l2 = l2
        self.l1 = l1
        self.min_gain = min_gain
        self.max_bins = max_bins
        self.colsample = colsample
        self.sampler = sampler
        self.leaf_values = leaf_values
        self.second_look = second_look
        self.order = order
        self.objective = objective
        self.quantile = quantile
        self.monotone_constraints = monotone_constraints
        self.interaction_constraints = interaction_constraints
        self.categorical_features = categorical_features
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.eval_metric = eval_metric
        self.callbacks = callbacks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _encode_target(self, y: Any, start: Model | None) -> NDArray[np.float64]:
        return numbers_of(vector_of(y))

    def _make_objective(self) -> Objective:
        spec = "squared" if _is_auto(self.objective) else self.objective
        if self.quantile is not None and spec != "quantile":
            allowed = "left out unless objective is 'quantile'"
            raise ParameterError("quantile", self.quantile, allowed)
        # softmax cannot be made without a number of classes
        objective = None if spec == "softmax" else make_objective(spec, alpha=self.quantile)
        if objective is None or objective.is_classifier:
            raise ParameterError(
                "objective", self.objective, "one for numbers; MVSClassifier is for classes"
            )
        return objective

    def _predictions(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        values: NDArray[Any] = self.model_.objective.link.inverse(scores)
        return values[0] if len(values) == 1 else values.T


def load_estimator(path: str | PathLike[str]) -> MVSClassifier | MVSRegressor:
    """The estimator of a model file, of whichever kind it is."""
    kinds = {kind.__name__: kind for kind in (MVSClassifier, MVSRegressor)}
    kind = Model.load(path).metadata.get("estimator")
    if kind not in kinds:
        raise ModelFormatError(f"{path} was not saved by an estimator: load it by Model.load")
    return kinds[kind].load(path)


def _say_why_flat(model: Model, n_rows: int, config: TrainConfig) -> None:
    """Log why no tree has a split, if none has."""
    if any(tree.n_nodes > 1 for trees in model.iterations for tree in trees):
        return
    least = config.tree.min_samples_leaf
    few = f"{n_rows} rows are fewer than twice min_samples_leaf={least:g}"
    why = few if n_rows < 2 * least else "no split improves the loss"
    logger.warning("no tree has a split: %s", why)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


_DOCUMENTATION = """Gradient-boosted trees for {task} on rows chosen by Minimal Variance Sampling.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
        Trees, bins and schema.
    {more}n_features_in_ : int
        Columns of X; ``feature_names_in_`` has their names, if they had any.
    n_iter_ : int
        Iterations that predictions use.
    best_iteration_ : int or None
        Best number of iterations, counted from 1, if early stopping looked for it.
    best_score_ : dict
        ``best_score_[set][metric]`` is the value at the iterations that predictions use.
    evals_result_ : dict
        ``evals_result_[set][metric]`` lists a metric after each iteration. Sets are ``"eval_0"``,
        ``"eval_1"``, ... and ``"validation"``, that of ``validation_fraction``.
    sampling_history_ : list of dict
        By iteration: rate, mu, lam, rows, certain, max_weight, effective_sample_size.
    stop_reason_ : str
        Why training ended.
    stage_times_ : dict
        Seconds spent in each verb of the backend, and in ``"evaluation"``. A file keeps neither
        these nor ``sampling_history_`` and ``stop_reason_``.
    feature_importances_ : array
        Share of each column in the total gain.

    Examples
    --------
    {example}
    """

_CLASSIFIER_EXAMPLE = """>>> from sklearn.datasets import load_breast_cancer
    >>> from mvsboost import MVS, MVSClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = MVSClassifier(n_estimators=20, sampler=MVS(rate=0.5)).fit(X, y)
    >>> bool(clf.score(X, y) > 0.95)
    True"""

_REGRESSOR_EXAMPLE = """>>> from sklearn.datasets import load_diabetes
    >>> from mvsboost import MVSRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> bool(MVSRegressor(n_estimators=20).fit(X, y).score(X, y) > 0.4)
    True"""

_CLASSES = """classes_ : array
        Labels, in the order of probabilities.
    """

for _class, _task, _more, _example in (
    (MVSClassifier, "classification", _CLASSES, _CLASSIFIER_EXAMPLE),
    (MVSRegressor, "regression", "", _REGRESSOR_EXAMPLE),
):
    _class.__doc__ = _DOCUMENTATION.format(
        task=_task,
        parameters=describe(parameters_of(_class.__name__)),
        more=_more,
        example=_example,
    )
