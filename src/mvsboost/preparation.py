"""What a run is made of, checked: configuration, rows behind backends, a first model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import NO_GROUPS, are_plain
from mvsboost.backends.protocol import Backend
from mvsboost.backends.registry import BackendFactory, backend_factory
from mvsboost.backends.timed import TimedBackend
from mvsboost.data import BinMapper, Dataset
from mvsboost.errors import DataError, ParameterError
from mvsboost.exact.fixedpoint import check_rows, sum_scale
from mvsboost.metrics import Metric, default_metric
from mvsboost.model import Model
from mvsboost.objectives import Objective, same_kind
from mvsboost.parameters import check_parameters
from mvsboost.sampling import Sampler
from mvsboost.trees import FeatureTable, Tree, TreeParams
from mvsboost.trees.leaves import residual_quantiles

__all__ = ["Prepared", "TrainConfig", "check_arguments", "prepare", "start_model"]

_BYTES_DRAWN, _BYTES_IN_TREE = 12, 16
"""Of a drawn row its number and weight; of a row of a tree its packed words and its place."""

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
    interactions : sequence of sequences of binned features
        Groups that may meet in a branch; all may where there are none.
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
    interactions: Sequence[Sequence[int]] = ()
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
        of_tree = ["max_depth", "min_child_weight", "l2", "l1", "min_gain", "second_look"]
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
class Prepared:
    """The rows of a run, behind backends.

    Attributes
    ----------
    dataset : Dataset
        Training rows.
    config : TrainConfig
        With the metrics that are evaluated, and limits in the unit of the rows' weights.
    backend : TimedBackend
        Holds the training rows.
    evaluation : dict of str to (Backend, Dataset)
        Evaluation sets by name.
    table : FeatureTable
    """

    dataset: Dataset
    config: TrainConfig
    backend: TimedBackend
    evaluation: dict[str, tuple[Backend, Dataset]]
    table: FeatureTable


def prepare(
    dataset: Dataset,
    config: TrainConfig,
    eval_sets: Mapping[str, Dataset] | None,
    factory: BackendFactory | None,
) -> Prepared:
    """Check values and rows of a run, and put the rows behind backends."""
    eval_sets = dict(eval_sets or {})
    config.validate()
    if dataset.weight_unit != 1.0:
        config = replace(config, tree=config.tree.in_units(dataset.weight_unit))
    if eval_sets and not config.metrics:
        config = replace(config, metrics=[default_metric(config.objective)])
    _check_memory(dataset, config)
    dataset.check_target(config.objective)
    for data in (dataset, *eval_sets.values()):
        _check_start_scores(data, dataset, config.objective)
    for data in eval_sets.values():
        _check_mapper(data, dataset.mapper, "an evaluation set")
        data.check_values(config.objective)
    table = feature_table(dataset, config)
    full = config.tree.second_look > 0 or not are_plain(table)
    make = factory or backend_factory(config.device, config.n_threads, full)
    backend = TimedBackend(make(dataset.rows, config.objective))
    check_rows(backend.n_rows, config.sampler.share, config.tree.second_look)
    evaluation = {
        name: (make(data.rows, config.objective), data) for name, data in eval_sets.items()
    }
    return Prepared(dataset, config, backend, evaluation, table)


def start_model(
    rows: Prepared,
    init_model: Model | None,
    metadata: Mapping[str, Any] | None,
    *,
    resume: bool,
) -> Model:
    """The model before the first iteration, a baseline or `init_model`, its scores put on rows."""
    objective = rows.config.objective
    if init_model is None:
        scores = rows.dataset.rows.start
        baseline = _baseline(rows.backend, objective) if scores is None else _no_baseline(objective)
        model = Model.empty(rows.dataset, objective, baseline)
    else:
        _check_start(init_model, rows.dataset, objective)
        model = init_model.copy()
        model.objective = objective  # of a user's own a file keeps the name alone
        model.best_iteration = None  # early stopping looks for it anew
        if not resume:
            model.history = {}  # which may be of other data
    if metadata is not None:
        model.metadata = dict(metadata)
    for name in rows.evaluation:
        model.expect(name, rows.config.metrics)
    for backend in (rows.backend, *(other for other, _ in rows.evaluation.values())):
        model.put_scores(backend)
    return model


# --- small parts --------------------------------------------------------------------------------


def _no_baseline(objective: Objective) -> NDArray[np.float64]:
    """Rows that have scores of their own need none."""
    return np.zeros(objective.n_outputs)


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


def check_arguments(dataset: Any, config: Any, eval_sets: Any, init_model: Any) -> None:
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


def _check_memory(dataset: Dataset, config: TrainConfig) -> None:
    """What training keeps of the rows in files must fit into the memory there may be.

    Of each row a score, g and h for each output, ĝ, and the number of its leaf; of a drawn row
    its bins, too, and its number and weight twice.
    """
    pages, n_rows = dataset.rows.pages, dataset.n_rows
    if pages is None or pages.memory_limit is None:
        return
    drawn = _BYTES_IN_TREE + 2 * _BYTES_DRAWN + dataset.n_features
    state = n_rows * (16 * config.objective.n_outputs + 5)
    needed = int(state + n_rows * (min(config.sampler.share, 1.0) * drawn))
    if config.tree.second_look:
        needed += n_rows * _BYTES_IN_TREE
    if needed > pages.memory_limit:
        allowed = f"at least {needed} for {n_rows} rows with this objective and sampler"
        raise ParameterError("memory_limit", pages.memory_limit, allowed)


def _check_start_scores(data: Dataset, dataset: Dataset, objective: Objective) -> None:
    start = data.rows.start
    if (start is None) != (dataset.rows.start is None):
        raise DataError("init_score must be given for all sets of rows, or for none")
    if start is not None and len(start) != objective.n_outputs:
        raise DataError(
            f"init_score must have {objective.n_outputs} score(s) a row for objective "
            f"{objective.name!r}, it has {len(start)}"
        )


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


def feature_table(dataset: Dataset, config: TrainConfig) -> FeatureTable:
    """What is known of the features of a data set, constraints included."""
    mapper = dataset.mapper
    signs = np.zeros(len(mapper.n_bins), np.int8)
    for feature, sign in config.monotone.items():
        if feature not in range(len(signs)) or sign not in (-1, 0, 1):
            allowed = f"signs -1, 0 or 1 by binned feature, 0 to {len(signs) - 1}"
            raise ParameterError("monotone", {feature: sign}, allowed)
        signs[feature] = sign
        if sign and mapper.is_categorical[feature]:
            name = mapper.feature_names[feature]
            raise ParameterError("monotone_constraints", {name: sign}, "on numeric features only")
    groups = _group_words(len(signs), config.interactions)
    return FeatureTable(mapper.n_bins, mapper.is_categorical, signs, groups)


def _group_words(n_features: int, interactions: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """The groups of each feature, as bits; those in none are a group of their own."""
    if not interactions:
        return NO_GROUPS
    listed = {feature for group in interactions for feature in group}
    if not listed <= set(range(n_features)):
        allowed = f"groups of binned features, 0 to {n_features - 1}"
        raise ParameterError("interactions", interactions, allowed)
    rest = [feature for feature in range(n_features) if feature not in listed]
    groups = [*interactions, rest]
    words = np.zeros((n_features, -(-len(groups) // _BITS)), np.int64)
    for number, group in enumerate(groups):
        for feature in group:
            words[feature, number // _BITS] |= 1 << number % _BITS
    return words


_BITS = 62
"""Groups in a word: no sign bit, so that numbers stay positive."""
