"""New leaf values for the trees of a model, from other rows: the structure stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import GradientRange
from mvsboost.backends.protocol import Backend
from mvsboost.backends.registry import backend_factory
from mvsboost.data import Dataset
from mvsboost.errors import ParameterError
from mvsboost.model import Model
from mvsboost.preparation import TrainConfig, feature_table
from mvsboost.trees import Tree
from mvsboost.trees.leaves import in_order, residual_quantiles, sums_of_all_rows, with_free_values

__all__ = ["refit"]


def refit(model: Model, dataset: Dataset, config: TrainConfig, keep: float) -> Model:
    """A model with the same splits, whose leaf values are drawn towards those of other rows.

    Parameters
    ----------
    model : Model
    dataset : Dataset
        The rows, binned by the model's mapper.
    config : TrainConfig
        Its penalties, its order, its monotone signs and its threads count.
    keep : float
        Share of the old values that stays, in [0, 1]. Leaves without rows keep theirs.
    """
    if not 0.0 <= keep <= 1.0:
        raise ParameterError("keep", keep, "a number in [0, 1]")
    dataset.check_values(model.objective)
    config = replace(config, tree=config.tree.in_units(dataset.weight_unit))
    backend = backend_factory(config.device, config.n_threads)(dataset.rows, model.objective)
    signs = feature_table(dataset, config).monotone
    other = model.copy()
    other.iterations, other.history, other.best_iteration = [], {}, None
    backend.set_baseline(model.baseline)
    for trees in model.iterations[: model.used_iterations()]:
        gradients = backend.compute_gradients(config.order)
        changed = [
            _refitted(backend, tree, k, gradients, config, signs, keep)
            for k, tree in enumerate(trees)
        ]
        other.append(changed)
        for k, tree in enumerate(changed):
            backend.apply_tree(tree, k)
    return other


def _refitted(
    backend: Backend,
    tree: Tree,
    output: int,
    gradients: GradientRange,
    config: TrainConfig,
    signs: NDArray[np.int8],
    keep: float,
) -> Tree:
    objective, params = config.objective, config.tree
    sums = sums_of_all_rows(backend, tree, output, gradients)
    rows = sums[2].copy()
    if objective.leaf_quantile is not None:
        sums[0], _ = residual_quantiles(backend, tree, objective.quantile_of(output), output)
        new = with_free_values(tree, sums, tree.shrinkage)
    else:
        limits = objective.max_step, params.l2, params.l1
        new = with_free_values(tree, sums, tree.shrinkage, *limits)
    mixed = keep * tree.value + (1.0 - keep) * new.value
    value = np.where(tree.is_leaf & (rows > 0), mixed, tree.value)
    value = in_order(tree, value, signs, np.maximum(rows, 1.0))
    return new.with_leaves(value, new.hessian, new.cover, tree.shrinkage)
