"""How an estimator comes by its model."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mvsboost.arguments import (
    ASIDE,
    VALIDATION,
    EvalRows,
    check_beside,
    check_checkpoint,
    check_order,
    check_parts,
    eval_items,
    groups_by_feature,
    naming,
    signs_by_feature,
    starting_point,
)
from mvsboost.backends.registry import BackendFactory
from mvsboost.boosting import TrainConfig, TrainResult, train
from mvsboost.callbacks import Callback, Checkpoint, EarlyStopping, LogProgress, check_callbacks
from mvsboost.data import Dataset, check_init_score, check_lengths, check_weight, ingest
from mvsboost.dialects import checks_names
from mvsboost.errors import DataError, ParameterError
from mvsboost.estimators.fitted import FittedEstimator
from mvsboost.exact.random import rows_set_aside
from mvsboost.metrics import Metric, default_metric, get_metric
from mvsboost.model import Model
from mvsboost.objectives import Objective
from mvsboost.parameters import (
    PARAMETERS,
    check_parameters,
    plain_parameters,
)
from mvsboost.sampling import Sampler, make_sampler
from mvsboost.trees import TreeParams

__all__ = ["MIN_SAMPLED", "MVSEstimator", "is_auto"]

logger = logging.getLogger("mvsboost")

MIN_SAMPLED = 3
"""Sampled rows a leaf must have when its value comes from the sample: a value that rests
on one or two weighted rows can be arbitrarily large."""

MOST_LEAVES = 31
"""Leaves of a tree whose size nobody has bounded."""

SMALL_SAMPLE, LOOK = 100, 4
"""Rows under which a sample only proposes, unless asked otherwise, and how many features."""

E = TypeVar("E", bound="MVSEstimator")

_OF_CONSTRUCTOR = {
    parameter.name: f"{parameter.name!r} belongs in the constructor: {{kind}}({parameter.name}=...)"
    for parameter in PARAMETERS
}
"""What to say of a parameter that is handed to `fit`, as other libraries have it."""


class Plan(NamedTuple):
    """A fit but for its rows.

    Attributes
    ----------
    objective : Objective
    sampler : Sampler
    metrics : list of Metric
        None where no rows are evaluated.
    callbacks : list of Callback
    start : Model or None
        To go on from.
    resume : path or None
        Of the checkpoint.
    seed : int
    """

    objective: Objective
    sampler: Sampler
    metrics: list[Metric]
    callbacks: list[Callback]
    start: Model | None
    resume: str | PathLike[str] | None
    seed: int


class MVSEstimator(FittedEstimator):
    """What classifier and regressor share."""

    # --- fitting --------------------------------------------------------------------------------

    @checks_names(_OF_CONSTRUCTOR)
    def fit(
        self: E,
        X: Any,
        y: Any = None,
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
            NumPy array, pandas, polars or Arrow table, dict of columns, or sparse matrix; with
            ``device="cuda"`` also an array on the GPU, of CuPy or PyTorch, which stays there.
            Missing values are welcome. Or a `Dataset`, which brings its own target and weights.
        y : array of shape (n_rows,)
        sample_weight : array of shape (n_rows,), optional
        eval_set : list of (X, y) or (X, y, sample_weight), optional
            Sets to evaluate after each iteration; beside a `Dataset` such as are like it, too.
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
        rows = EvalRows("training", "the training rows", X, y, sample_weight, init_score)
        fitting._fit(rows, sets, init_model, resume)
        after = vars(fitting)
        changed = {k: v for k, v in after.items() if k not in before or before[k] is not v}
        kept = {k: v for k, v in vars(self).items() if k in after or k not in before}
        self.__dict__ = {**kept, **changed}
        return self

    def _fit(
        self,
        rows: EvalRows,
        held_out: list[EvalRows],
        init_model: Any,
        resume: str | PathLike[str] | None,
    ) -> None:
        check_parameters(self.get_params(deep=False))
        X = rows.X
        if isinstance(X, Dataset):
            self._fit_binned(X, rows, held_out, init_model, resume)
            return
        if any(isinstance(other.X, Dataset) for other in held_out):
            allowed = "made of X and y, unless the training rows are a Dataset"
            raise ParameterError("eval_set", Dataset, allowed)
        self._note_columns(X, reset=True)
        columns = ingest(X, categorical_features=self.categorical_features)
        start = starting_point(init_model, resume, MVSEstimator)
        if not isinstance(X, Mapping):  # which has no positions
            check_order(columns, start)
        target = self._encode_target(rows.y, start)
        evaluated = bool(held_out) or self.validation_fraction is not None
        plan = self._plan(start, resume, evaluated=evaluated)
        plan.objective.check_target(target)
        weight = check_weight(rows.weight, columns.n_rows, "sample_weight")
        scores = check_init_score(rows.start, columns.n_rows)
        scores = None if scores is None else scores.T
        read = rows._replace(X=columns, y=target, weight=weight, start=scores)
        dataset, evaluation = self._datasets(read, held_out, start, plan.seed)
        places = {VALIDATION: ASIDE, **{other.name: other.where for other in held_out}}
        for name, data in evaluation.items():
            with naming(places[name]):
                data.check_values(plan.objective)
        self._boost(dataset, evaluation, plan)

    def _plan(
        self, start: Model | None, resume: str | PathLike[str] | None, *, evaluated: bool
    ) -> Plan:
        """What there is to say of a fit before any row is binned."""
        objective, sampler = self._make_objective(), make_sampler(self.sampler)
        sampler.validate()
        metrics = self._metrics(objective)
        seed = self._seed(start if resume is not None else None)
        return Plan(
            objective,
            sampler,
            metrics if evaluated else [],
            self._callbacks(evaluated),
            start,
            resume,
            seed,
        )

    def _fit_binned(
        self,
        dataset: Dataset,
        rows: EvalRows,
        held_out: list[EvalRows],
        init_model: Any,
        resume: str | PathLike[str] | None,
    ) -> None:
        """Train on rows that are binned."""
        check_beside(
            dataset,
            y=rows.y,
            sample_weight=rows.weight,
            init_score=rows.start,
            validation_fraction=self.validation_fraction,
            class_weight=getattr(self, "class_weight", None),
            max_bins=self.max_bins,
        )
        start = starting_point(init_model, resume, MVSEstimator)
        self._take_classes(dataset.classes, start)
        self._note_schema(dataset.schema)
        plan = self._plan(start, resume, evaluated=bool(held_out))
        evaluation = {}
        for other in held_out:
            with naming(other.where):
                evaluation[other.name] = self._evaluated_beside(dataset, other)
                evaluation[other.name].check_values(plan.objective)
        self._boost(dataset, evaluation, plan)

    def _evaluated_beside(self, dataset: Dataset, rows: EvalRows) -> Dataset:
        """Rows to evaluate on, in the bins of rows that are binned."""
        if not isinstance(rows.X, Dataset):
            self._note_columns(rows.X, reset=False)
            return self._binned_like(dataset, rows, self._encode_eval(rows.y))
        if not np.array_equal(np.array(rows.X.classes), np.array(dataset.classes)):
            raise DataError("it has other classes than the training rows: make it with like=")
        return rows.X

    def _boost(
        self,
        dataset: Dataset,
        evaluation: Mapping[str, Dataset],
        plan: Plan,
        backend: BackendFactory | None = None,
    ) -> None:
        """Train on data sets, and take the result."""
        start, resume, seed, callbacks = plan.start, plan.resume, plan.seed, plan.callbacks
        about = self._about()
        if resume is not None:
            sets = {"training": dataset, **evaluation}
            about["data"] = {name: one.fingerprint() for name, one in sets.items()}
            about["seed"] = seed
            callbacks.append(Checkpoint(resume))  # the last, so that it saves what others note
        config = self._config(plan.objective, plan.sampler, plan.metrics, dataset, seed)
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
            backend=backend,
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
                evaluation[rows.name] = self._binned_like(dataset, rows, labels[rows.name])
        return dataset, evaluation

    def _binned_like(
        self, dataset: Dataset, rows: EvalRows, target: NDArray[np.float64]
    ) -> Dataset:
        """Rows to evaluate on."""
        return Dataset.from_data(
            rows.X,
            target,
            weight=rows.weight,
            init_score=rows.start,
            n_classes=self._n_classes(),
            mapper=dataset.mapper,
            schema=dataset.schema,
            n_threads=self._threads(),
        )

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
        if not is_auto(self.max_leaves):
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
        model, other = self.model_, copy.copy(self)
        self._note_columns(X, reset=False)
        columns = model.schema.check(ingest(X), type(self).__name__, by_name=isinstance(X, Mapping))
        target = self._encode_target(y, model)
        check_lengths(columns.n_rows, y=target)
        weight = check_weight(sample_weight, columns.n_rows, "sample_weight")
        dataset = Dataset.from_data(
            columns,
            target,
            weight=self._class_weighted(target, weight),
            n_classes=self._n_classes(),
            mapper=model.mapper,
            schema=model.schema,
            n_threads=self._threads(),
        )
        config = self._config(model.objective, make_sampler(self.sampler), [], dataset, seed=0)
        other.model_ = refit(model, dataset, config, keep)
        other._expose()
        return other


def _say_why_flat(model: Model, n_rows: int, config: TrainConfig) -> None:
    """Log why no tree has a split, if none has."""
    if any(tree.n_nodes > 1 for trees in model.iterations for tree in trees):
        return
    least = config.tree.min_samples_leaf
    few = f"{n_rows} rows are fewer than twice min_samples_leaf={least:g}"
    why = few if n_rows < 2 * least else "no split improves the loss"
    logger.warning("no tree has a split: %s", why)


def is_auto(value: Any) -> bool:
    """Whether a parameter is left to the library."""
    return isinstance(value, str) and value == "auto"
