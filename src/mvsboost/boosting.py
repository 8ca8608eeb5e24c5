"""The loop.

`train` reads like the paper's Algorithm 1: gradients, sample, trees, update,
callbacks. It knows no device, no cluster, no clock and no screen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import GradientRange
from mvsboost.backends.registry import BackendFactory
from mvsboost.callbacks import Callback, Progress, check_callbacks
from mvsboost.data import Dataset
from mvsboost.errors import ConvergenceStop, DataError, ObjectiveError
from mvsboost.exact.fixedpoint import Packing
from mvsboost.exact.random import Purpose, stream_key, uniform
from mvsboost.model import Model
from mvsboost.objectives import Objective
from mvsboost.preparation import Prepared, TrainConfig, check_arguments, prepare, start_model
from mvsboost.runtime.threads import sharing_cores
from mvsboost.sampling import (
    GradientMoments,
    LeafSummary,
    Sample,
    SamplingContext,
    gradient_moments,
)
from mvsboost.trees import GrownTree, Tree, TreeParams, grow_tree
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
    check_arguments(dataset, config, eval_sets, init_model)
    checked = check_callbacks(callbacks)
    rows = prepare(dataset, config, eval_sets, backend)
    model = start_model(rows, init_model, metadata, resume=resume)
    run = _Run(rows, model, checked, init_model, resumed=resume)
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


class _Run:
    """The state of a training run: what Algorithm 1 keeps between its lines."""

    def __init__(
        self,
        rows: Prepared,
        model: Model,
        callbacks: list[Callback],
        init_model: Model | None,
        *,
        resumed: bool,
    ) -> None:
        self.dataset, self.config, self.backend = rows.dataset, rows.config, rows.backend
        self.evaluation, self.table = rows.evaluation, rows.table
        self.model, self.callbacks, self.resumed = model, callbacks, resumed
        self.iterations = range(model.n_iterations, model.n_iterations + rows.config.n_estimators)
        self.best_before = None if init_model is None else init_model.best_iteration
        self.samples: list[Sample] = []
        self.moments: GradientMoments | None = None
        self.stop_reason = "all iterations done"

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Callbacks begin before the first iteration and end after the last, or where one fails."""
        begun: list[Callback] = []
        try:
            self._begin(begun)
            with sharing_cores():
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
        return tuple(
            name
            for name, (_, data) in self.evaluation.items()
            if not self.dataset.has_rows_of(data)
        )

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
        if params.second_look and not self._has_all_rows(sample):
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

    def _has_all_rows(self, sample: Sample) -> bool:
        """Whether it has every row, each with weight 1."""
        return sample.summary.n_certain == self.backend.n_rows

    def _finish_tree(
        self, grown: GrownTree, output: int, sample: Sample, gradients: GradientRange
    ) -> Tree:
        config, objective, params = self.config, self.config.objective, self.config.tree
        rate, step = config.learning_rate, objective.max_step
        if objective.leaf_quantile is not None:
            alpha = objective.quantile_of(output)
            found = residual_quantiles(self.backend, grown.structure, alpha, output)
            return with_quantiles(grown, *found, self.table.monotone, rate)
        if config.leaf_values == "all" or self._has_all_rows(sample):
            sums = sums_of_all_rows(self.backend, grown.structure, output, gradients)
        else:
            step = min(step, MAX_SAMPLE_STEP) if math.isfinite(step) else math.inf
            sums = sums_of_sample(self.backend, grown, output, sample.summary)
        return with_newton_values(grown, sums, params.l2, rate, step, params.l1)

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
        every = self._has_all_rows(sample) and self.config.colsample >= 1.0
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


def _check_gradients(gradients: GradientRange, objective: Objective, dataset: Dataset) -> None:
    if gradients.bad_row >= 0:
        found = dataset.weight_of(gradients.bad_row)
        weight = "" if found is None else f" of weight {found:g}"
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
