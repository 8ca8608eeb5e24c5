"""The loop.

`train` reads like the paper's Algorithm 1: gradients, sample, trees, update,
callbacks. It knows no device, no cluster, no clock and no screen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import BinnedRows, GradientRange
from mvsboost.backends.protocol import Backend
from mvsboost.backends.registry import BackendFactory, backend_factory
from mvsboost.backends.timed import TimedBackend
from mvsboost.callbacks import Callback, Progress, check_callbacks
from mvsboost.data import BinMapper, Dataset
from mvsboost.errors import ConvergenceStop, DataError, ObjectiveError, ParameterError
from mvsboost.exact.fixedpoint import Packing, check_rows, sum_scale
from mvsboost.exact.random import Purpose, stream_key, uniform
from mvsboost.metrics import Metric, default_metric
from mvsboost.model import Model
from mvsboost.objectives import Objective, same_kind
from mvsboost.parameters import check_parameters
from mvsboost.sampling import (
    GradientMoments,
    LeafSummary,
    Sample,
    Sampler,
    SamplingContext,
    gradient_moments,
)
from mvsboost.trees import FeatureTable, GrownTree, Tree, TreeParams, grow_tree
from mvsboost.trees.leaves import (
    residual_quantiles,
    sums_of_all_rows,
    sums_of_sample,
    with_newton_values,
    with_quantiles,
)

__all__ = ["TrainConfig", "TrainResult", "train"]

MAX_SAMPLE_STEP = 4.0
"""Largest leaf value, before shrinkage and on the scale of a logit, that a sample is trusted
with: a handful of heavily weighted rows can look arbitrarily certain."""

_NO_SPLIT = "no split improves the loss"

_QUANTILE_STEPS = 3
"""Times that a quantile is looked for among residuals of the last one found: these are rounded
to 24 bits, so that two leave an error of 2**-48 of the target, and three none."""


@dataclass(frozen=True)
class TrainConfig:
    """Everything that determines a training run besides the data.

    Attributes
    ----------
    objective : Objective
    sampler : Sampler
    n_estimators : int
        Boosting iterations to add.
    learning_rate : float
    tree : TreeParams
    colsample : float
        Share of features that each iteration may use.
    leaf_values : {"all", "sample"}
        Rows that leaf values come from.
    order : {1, 2}
        Whether the hessian is used.
    monotone : mapping from binned feature to +1 or -1
    metrics : sequence of Metric
        Evaluated on every evaluation set after every iteration; that of the objective by default.
    seed, n_threads : int
    device : str
    """

    objective: Objective
    sampler: Sampler
    n_estimators: int = 100
    learning_rate: float = 0.1
    tree: TreeParams = field(default_factory=TreeParams)
    colsample: float = 1.0
    leaf_values: str = "all"
    order: int = 2
    monotone: Mapping[int, int] = field(default_factory=dict)
    metrics: Sequence[Metric] = ()
    seed: int = 0
    n_threads: int = 1
    device: str = "cpu"

    def validate(self) -> None:
        """Raise `ParameterError` for a value outside what is allowed."""
        if not isinstance(self.objective, Objective):
            allowed = "an Objective, such as make_objective makes of a name"
            raise ParameterError("objective", self.objective, allowed)
        if not isinstance(self.sampler, Sampler):
            allowed = "a Sampler, such as make_sampler makes of a name"
            raise ParameterError("sampler", self.sampler, allowed)
        self.sampler.validate()
        own = ("learning_rate", "colsample", "leaf_values", "order")
        of_tree = ["max_depth", "min_child_weight", "l2", "min_gain", "second_look"]
        if self.tree.max_leaves is not None:  # here a tree may also have no bound at all
            of_tree.append("max_leaves")
        check_parameters(
            {name: getattr(self, name) for name in own}
            | {name: getattr(self.tree, name) for name in of_tree}
        )
        if not self.tree.min_samples_leaf >= 0:
            raise ParameterError("min_samples_leaf", self.tree.min_samples_leaf, "a number >= 0")
        # none is left where a fit is resumed that was done
        if not isinstance(self.n_estimators, int | np.integer) or self.n_estimators < 0:
            raise ParameterError("n_estimators", self.n_estimators, "an integer >= 0")
        if self.order == 1 and self.objective.link.name == "log":
            allowed = f"2 for objective {self.objective.name!r}: its steps need the hessian"
            raise ParameterError("order", self.order, allowed)
        for metric in self.metrics:
            if not isinstance(metric, Metric):
                allowed = "a list of Metric, such as get_metric makes of a name"
                raise ParameterError("metrics", metric, allowed)
        names = [metric.name for metric in self.metrics]
        if len(set(names)) < len(names):
            raise ParameterError("metrics", names, "different from each other")


@dataclass(frozen=True)
class TrainResult:
    """A trained model and the record of its training.

    Attributes
    ----------
    model : Model
    sampling_history : list of dict
        One record an iteration: rate, µ, λ, rows drawn, and more.
    stop_reason : str
        Why training ended.
    stage_times : dict of str to float
        Seconds spent in each verb of the training rows' backend, and in ``"evaluation"``.
    """

    model: Model
    sampling_history: list[dict[str, float]]
    stop_reason: str
    stage_times: dict[str, float]


def train(
    dataset: Dataset,
    config: TrainConfig,
    *,
    eval_sets: Mapping[str, Dataset] | None = None,
    callbacks: Iterable[Callback] = (),
    init_model: Model | None = None,
    backend: BackendFactory | None = None,
    metadata: Mapping[str, Any] | None = None,
    resume: bool = False,
) -> TrainResult:
    """Boost trees on the rows that the sampler draws.

    Parameters
    ----------
    dataset : Dataset
        Training rows, binned.
    config : TrainConfig
    eval_sets : mapping from name to Dataset, optional
        Sets to evaluate ``config.metrics`` on, binned by the training set's mapper.
    callbacks : iterable of Callback, optional
    init_model : Model, optional
        Continue from this model; its trees stay, those after the best iteration too, and
        iterations are numbered on. Its history does not, unless this is to `resume`: metrics may
        be of other data now.
    backend : callable, optional
        ``backend(rows, objective)`` puts rows behind a backend; by default the device's.
    metadata : mapping, optional
        The model's ``metadata`` from the start, checkpoints included; by default `init_model`'s.
    resume : bool
        Whether `init_model` is a checkpoint of this very run: if early stopping has ended that,
        no tree is added.
    """
    run = _Run.start(dataset, config, eval_sets, callbacks, init_model, backend, metadata, resume)
    with run.watched():
        for iteration in run.iterations:
            try:
                gradients = run.compute_gradients()
                sample = run.draw(iteration, gradients)
            except ConvergenceStop as optimum:
                run.stop_reason = str(optimum)
                break
            trees = [run.grow(iteration, k, sample, gradients) for k in range(run.n_outputs)]
            run.update(trees, sample)
            if run.notify(iteration):
                break
    return run.finish()


@dataclass
class _Run:
    """The state of a training run: what Algorithm 1 keeps between its lines."""

    dataset: Dataset
    config: TrainConfig
    backend: TimedBackend
    table: FeatureTable
    model: Model
    evaluation: dict[str, tuple[Backend, Dataset]]
    callbacks: list[Callback]
    iterations: range
    resumed: bool
    best_before: int | None
    samples: list[Sample] = field(default_factory=list)
    moments: GradientMoments | None = None
    stop_reason: str = "all iterations done"

    @classmethod
    def start(
        cls,
        dataset: Dataset,
        config: TrainConfig,
        eval_sets: Mapping[str, Dataset] | None,
        callbacks: Iterable[Callback],
        init_model: Model | None,
        factory: BackendFactory | None,
        metadata: Mapping[str, Any] | None,
        resume: bool,
    ) -> _Run:
        _check_arguments(dataset, config, eval_sets, init_model)
        eval_sets, callbacks = dict(eval_sets or {}), check_callbacks(callbacks)
        config.validate()
        if dataset.weight_unit != 1.0:
            config = replace(config, tree=config.tree.in_units(dataset.weight_unit))
        if eval_sets and not config.metrics:
            config = replace(config, metrics=[default_metric(config.objective)])
        config.objective.check_target(dataset.rows.target)
        for data in eval_sets.values():
            _check_mapper(data, dataset.mapper, "an evaluation set")
            config.objective.check_values(data.rows.target)
        make = factory or backend_factory(config.device, config.n_threads)
        backend = TimedBackend(make(dataset.rows, config.objective))
        check_rows(backend.n_rows, config.sampler.share, config.tree.second_look)
        evaluation = {
            name: (make(data.rows, config.objective), data) for name, data in eval_sets.items()
        }
        if init_model is None:
            model = Model.empty(dataset, config.objective, _baseline(backend, config.objective))
        else:
            _check_start(init_model, dataset, config.objective)
            model = init_model.copy()
            model.objective = config.objective  # of a user's own a file keeps the name alone
            model.best_iteration = None  # early stopping looks for it anew
            if not resume:
                model.history = {}  # which may be of other data
        if metadata is not None:
            model.metadata = dict(metadata)
        for name in eval_sets:
            model.expect(name, config.metrics)
        for rows in (backend, *(other for other, _ in evaluation.values())):
            model.put_scores(rows)
        first = model.n_iterations
        return cls(
            dataset=dataset,
            config=config,
            backend=backend,
            table=_feature_table(dataset, config.monotone),
            model=model,
            evaluation=evaluation,
            callbacks=callbacks,
            iterations=range(first, first + config.n_estimators),
            resumed=resume,
            best_before=None if init_model is None else init_model.best_iteration,
        )

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Callbacks begin before the first iteration and end after the last, or where one fails."""
        begun: list[Callback] = []
        try:
            self._begin(begun)
            yield
            while begun:
                begun.pop(0).end(self.progress(self._last))
        except BaseException:
            failed = replace(self.progress(self._last), failed=True)
            for callback in begun:
                with suppress(Exception):  # what went wrong first is what is raised
                    callback.end(failed)
            raise

    def _begin(self, begun: list[Callback]) -> None:
        """Let callbacks begin, noting which have; if one has a reason, nothing is to be done."""
        reasons, progress = [], self.progress(self._last)
        for callback in self.callbacks:
            reasons.append(callback.begin(progress))
            begun.append(callback)
        if self._is_over():
            reasons.append(_NO_SPLIT)
        if self._stop_for(reasons):
            self.iterations = range(self.iterations.start, self.iterations.start)
            if self.model.best_iteration is None:
                self.model.best_iteration = self.best_before

    @property
    def n_outputs(self) -> int:
        return self.backend.n_outputs

    @property
    def _last(self) -> int:
        """Number of the last iteration that was done."""
        return self.iterations.start + len(self.samples) - 1

    @cached_property
    def _trusting_params(self) -> TreeParams:
        """For leaves whose values need no floor on how many of their rows were drawn."""
        return replace(self.config.tree, min_sampled=1)

    @cached_property
    def _columns(self) -> _Columns:
        return _Columns(self.table.every, self.config.colsample, self.config.seed)

    @cached_property
    def _held_out(self) -> tuple[str, ...]:
        """Evaluation sets but for the training rows themselves, which say nothing new."""
        own, fixed = self.dataset.rows, ~self.dataset.mapper.of_target

        def is_own(rows: BinnedRows) -> bool:
            return np.array_equal(rows.target, own.target) and np.array_equal(
                rows.bins[:, fixed], own.bins[:, fixed]
            )

        sets = {name: data.rows for name, (_, data) in self.evaluation.items()}
        return tuple(name for name, rows in sets.items() if not is_own(rows))

    # --- the lines of the loop ------------------------------------------------------------------

    def compute_gradients(self) -> GradientRange:
        gradients: GradientRange = self.backend.compute_gradients(self.config.order)
        _check_gradients(gradients, self.config.objective, self.dataset)
        if self.table.has_categories:  # which are split by how far gradients stray
            self.moments = gradient_moments(self.backend, gradients)
        return gradients

    def draw(self, iteration: int, gradients: GradientRange) -> Sample:
        context = SamplingContext(
            seed=self.config.seed,
            iteration=iteration,
            n_rows=self.backend.n_rows,
            gradients=gradients,
            leaves=_Leaves(self.model.last_trees(), self.config.objective),
            previous=self.samples[-1] if self.samples else None,
            moments=self.moments,
        )
        return self.config.sampler.draw(self.backend, context)

    def grow(self, iteration: int, output: int, sample: Sample, gradients: GradientRange) -> Tree:
        drawn, params = sample.summary, self.config.tree
        packing = Packing.choose(
            drawn.n_rows, drawn.max_gradient, drawn.max_hessian, drawn.max_weight
        )
        exact = None
        if params.second_look and not self._is_everything(sample):
            exact = Packing.choose(
                self.backend.n_rows, gradients.max_gradient, gradients.max_hessian, 1.0
            )
        if drawn.n_certain == drawn.n_rows or self.config.leaf_values == "all":
            params = self._trusting_params
        key = stream_key(self.config.seed, iteration, Purpose.ROUNDING, output)
        self.backend.begin_tree(output, key, packing, exact)
        features = self._columns.of(iteration)
        noise = 0.0 if self.moments is None else float(self.moments.dispersion[output])
        grown = grow_tree(self.backend, self.table, features, params, packing, exact, noise)
        return self._finish_tree(grown, output, sample, gradients)

    def _is_everything(self, sample: Sample) -> bool:
        """Whether it has every row, each with weight 1."""
        return sample.summary.n_certain == self.backend.n_rows

    def _finish_tree(
        self, grown: GrownTree, output: int, sample: Sample, gradients: GradientRange
    ) -> Tree:
        config, objective, l2 = self.config, self.config.objective, self.config.tree.l2
        rate, step = config.learning_rate, objective.max_step
        if objective.leaf_quantile is not None:
            found = residual_quantiles(self.backend, grown.structure, objective.leaf_quantile)
            return with_quantiles(grown, *found, self.table.monotone, rate)
        if config.leaf_values == "all" or self._is_everything(sample):
            sums = sums_of_all_rows(self.backend, grown.structure, output, gradients)
        else:
            step = min(step, MAX_SAMPLE_STEP) if math.isfinite(step) else math.inf
            sums = sums_of_sample(self.backend, grown, output, sample.summary)
        return with_newton_values(grown, sums, l2, rate, step)

    def update(self, trees: list[Tree], sample: Sample) -> None:
        self.samples.append(sample)
        self.model.append(trees)
        for output, tree in enumerate(trees):
            self.backend.apply_tree(tree, output)
        self.backend.timed("evaluation", self._evaluate)(trees)

    def _evaluate(self, trees: list[Tree]) -> None:
        for name, (rows, data) in self.evaluation.items():
            for output, tree in enumerate(trees):
                rows.apply_tree(tree, output)
            for metric in self.config.metrics:
                try:
                    value = metric.evaluate(rows, data.rows)
                except DataError as error:
                    raise DataError(f"evaluation set {name!r}: {error}") from error
                self.model.record(name, metric, value)

    def notify(self, iteration: int) -> bool:
        """Run every callback, also in the iteration that stops; True if training is to stop."""
        if self.callbacks:
            progress = self.progress(iteration)
            if self._stop_for(callback.after_iteration(progress) for callback in self.callbacks):
                return True
        if self._is_still(self.samples[-1]):
            self.stop_reason = _NO_SPLIT
            return True
        return False

    def _is_still(self, sample: Sample) -> bool:
        """Whether the last trees have no split, and a tree of the same sample will have none.

        All rows and columns that find none will find none again. Other ones may, and so may these
        while single leaves still move the scores.
        """
        trees = self.model.last_trees()
        if not trees or any(tree.n_nodes > 1 for tree in trees):
            return False
        every = self._is_everything(sample) and self.config.colsample >= 1.0
        moved = max(float(np.abs(tree.value).max()) for tree in trees)
        return every and moved <= self._rounding(sample)

    def _rounding(self, sample: Sample) -> float:
        """What a single leaf may move the scores without meaning anything by it."""
        drawn, newton = sample.summary, self.config.objective.leaf_quantile is None
        step = drawn.max_gradient / drawn.max_hessian if newton and drawn.max_hessian else 0.0
        return max(1e-7 * step, 1e-12 * float(np.abs(self.model.baseline).max()))

    def _is_over(self) -> bool:
        """Whether this goes on from a run that found no split any more."""
        trees = self.model.last_trees() if self.resumed else []
        if not trees or any(tree.n_nodes > 1 for tree in trees):
            return False
        try:
            return self._is_still(self.draw(self._last, self.compute_gradients()))
        except ConvergenceStop:
            return False

    def _stop_for(self, answers: Iterable[str | None]) -> bool:
        """Note the first reason to stop, if there is any; every answer is heard."""
        reasons = [reason for reason in answers if reason]
        if reasons:
            self.stop_reason = reasons[0]
        return bool(reasons)

    def progress(self, iteration: int) -> Progress:
        return Progress(
            iteration=iteration,
            n_iterations=self.iterations.stop,
            model=self.model,
            metrics={metric.name: metric.greater_is_better for metric in self.config.metrics},
            eval_sets=tuple(self.evaluation),
            held_out=self._held_out,
            sample=self.samples[-1].as_record() if self.samples else None,
            resumed=self.resumed,
        )

    def finish(self) -> TrainResult:
        history = [sample.as_record() for sample in self.samples]
        return TrainResult(self.model, history, self.stop_reason, dict(self.backend.seconds))


# --- small parts --------------------------------------------------------------------------------


def _baseline(backend: Backend, objective: Objective) -> NDArray[np.float64]:
    max_weight, max_target = backend.target_range()
    # of several outputs a target is 0 or 1
    largest = max_weight, max_target if backend.n_outputs == 1 else max_weight
    scales = np.array([sum_scale(value, backend.n_rows) for value in largest])
    weight, target = (backend.target_sums(scales) / scales).T
    means = target / weight

    def quantile(alpha: float) -> float:
        found = 0.0
        for _ in range(_QUANTILE_STEPS):
            backend.set_baseline(np.full(backend.n_outputs, found))
            (step,), _ = residual_quantiles(backend, Tree.single_leaf(), alpha)
            found += float(step)
            if step == 0.0:
                break
        return found

    return np.asarray(objective.baseline(means, quantile), np.float64)


def _check_arguments(dataset: Any, config: Any, eval_sets: Any, init_model: Any) -> None:
    """Of the right types, and in the right order."""
    if not isinstance(dataset, Dataset):
        raise ParameterError("dataset", type(dataset), "a Dataset, such as Dataset.from_data makes")
    if not isinstance(config, TrainConfig):
        raise ParameterError("config", type(config), "a TrainConfig")
    if not isinstance(eval_sets, Mapping | None) or not all(
        isinstance(data, Dataset) for data in (eval_sets or {}).values()
    ):
        raise ParameterError("eval_sets", type(eval_sets), "a mapping from names to Datasets")
    if not isinstance(init_model, Model | None):
        allowed = "a Model, such as an estimator's model_ or what Model.load reads"
        raise ParameterError("init_model", type(init_model), allowed)


def _check_mapper(data: Dataset, mapper: BinMapper, what: str) -> None:
    if not data.mapper.is_same_as(mapper):
        raise DataError(f"{what} must be binned by the training set's mapper: pass mapper=")


def _check_start(model: Model, dataset: Dataset, objective: Objective) -> None:
    if model.n_outputs != objective.n_outputs:
        raise DataError(
            f"init_model has {model.n_outputs} output(s), objective {objective.name!r} has "
            f"{objective.n_outputs}: continue with the objective it was trained with"
        )
    same_kind(model.objective, objective, "init_model")
    _check_mapper(dataset, model.mapper, "a data set to continue init_model on")
    if not dataset.for_training and model.mapper.statistics_sources:
        raise DataError(
            "rows to continue init_model on would see their own targets in columns of many "
            "categories: make the data set with for_training=True"
        )


def _feature_table(dataset: Dataset, monotone: Mapping[int, int]) -> FeatureTable:
    mapper = dataset.mapper
    signs = np.zeros(len(mapper.n_bins), np.int8)
    for feature, sign in monotone.items():
        if feature not in range(len(signs)) or sign not in (-1, 0, 1):
            allowed = f"signs -1, 0 or 1 by binned feature, 0 to {len(signs) - 1}"
            raise ParameterError("monotone", {feature: sign}, allowed)
        signs[feature] = sign
        if sign and mapper.is_categorical[feature]:
            name = mapper.feature_names[feature]
            raise ParameterError("monotone_constraints", {name: sign}, "on numeric features only")
    return FeatureTable(mapper.n_bins, mapper.is_categorical, signs)


def _check_gradients(gradients: GradientRange, objective: Objective, dataset: Dataset) -> None:
    if gradients.bad_row >= 0:
        weight, weights = "", dataset.rows.weight
        if weights is not None:
            weight = f" of weight {weights[gradients.bad_row] * dataset.weight_unit:g}"
        raise ObjectiveError(
            f"objective {objective.name!r} gave a gradient or hessian that is not finite, "
            f"first in row {gradients.bad_row}{weight}; scale the "
            f"target or the row weights, lower the learning rate or raise l2"
        )
    if gradients.min_hessian < 0:
        raise ObjectiveError(
            f"objective {objective.name!r} gave a negative hessian ({gradients.min_hessian:g}); "
            f"hessians must be zero or positive, or use order=1"
        )


class _Leaves(Sequence[LeafSummary]):
    """Leaves of some trees, summarised when they are asked for: few samplers do."""

    def __init__(self, trees: list[Tree], objective: Objective) -> None:
        self._trees = trees
        self._summary = _leaf_summary if objective.leaf_quantile is None else _summary_by_gain

    def __len__(self) -> int:
        return len(self._trees)

    @overload
    def __getitem__(self, which: int) -> LeafSummary: ...

    @overload
    def __getitem__(self, which: slice) -> list[LeafSummary]: ...

    def __getitem__(self, which: int | slice) -> LeafSummary | list[LeafSummary]:
        if isinstance(which, slice):
            return [self._summary(tree) for tree in self._trees[which]]
        return self._summary(self._trees[which])


def _leaf_summary(tree: Tree) -> LeafSummary:
    leaf = tree.is_leaf
    return LeafSummary(tree.value[leaf] / tree.shrinkage, tree.hessian[leaf], tree.shrinkage)


def _summary_by_gain(tree: Tree) -> LeafSummary:
    """For leaves that are quantiles, which have the unit of the target: all of one Newton value.

    The gains of a tree add up to Σ H v² over the Newton values v of its leaves.
    """
    hessian = tree.hessian[tree.is_leaf]
    total, gain = float(hessian.sum()), float(tree.gain.sum())
    size = math.sqrt(max(gain, 0.0) / total) if total > 0.0 else 0.0
    return LeafSummary(np.full(len(hessian), size), hessian, tree.shrinkage)


class _Columns:
    """The features of each tree: of smallest random number, as many as `colsample` says.

    They are chosen for many iterations at once, which takes little longer than for one.
    """

    _AT_ONCE = 64

    def __init__(self, every: NDArray[np.int64], colsample: float, seed: int) -> None:
        self._every = every
        self._count = max(1, round(colsample * len(every)))
        self._seed = seed
        self._chosen: dict[int, NDArray[np.int64]] = {}

    def of(self, iteration: int) -> NDArray[np.int64]:
        """In their order; not to be written to."""
        if self._count >= len(self._every):
            return self._every
        if iteration not in self._chosen:
            asked = range(iteration, iteration + self._AT_ONCE)
            keys = [stream_key(self._seed, number, Purpose.COLUMNS) for number in asked]
            numbers = uniform(np.array(keys)[:, None], self._every.astype(np.uint64))
            chosen = numbers.argsort(axis=1, kind="stable")[:, : self._count]
            chosen = np.sort(chosen, axis=1)
            self._chosen = dict(zip(asked, chosen, strict=True))
        return self._chosen[iteration]
