"""A backend whose rows live in other backends: it adds up their summaries.

Children on Dask workers would be distributed training, children over memory-mapped
chunks training larger than memory, children on several GPUs multi-GPU; there are none
yet. Nothing above knows, and since sums are integers nothing changes in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.draws import DrawRule, DrawSummary, RankKey, ScoreRule
from mvsboost.backends.messages import GradientRange, NodeSplit, RowMetric, RowSet
from mvsboost.backends.protocol import Backend
from mvsboost.errors import ParameterError
from mvsboost.exact.fixedpoint import Packing
from mvsboost.kernels.apply import TreeArrays

T = TypeVar("T")


class CompositeBackend:
    """Several backends that hold consecutive rows, seen as one.

    Parameters
    ----------
    children : sequence of Backend
        In order of their rows' global ids.
    each : callable, optional
        ``each(function, children)`` returns the results in order; the built-in `map`
        by default, a thread pool's or a cluster's `map` as well.
    """

    def __init__(
        self,
        children: Sequence[Backend],
        each: Callable[[Callable[[Backend], Any], Sequence[Backend]], Iterable[Any]] | None = None,
    ) -> None:
        if not children:
            raise ParameterError("children", children, "at least one backend")
        self.children = list(children)
        self.n_rows = sum(child.n_rows for child in children)
        self.n_outputs = children[0].n_outputs
        self._map = each or map

    def _each(self, verb: Callable[[Backend], T]) -> list[T]:
        return list(self._map(verb, self.children))

    def set_baseline(self, baseline: NDArray[np.float64]) -> None:
        self._each(lambda child: child.set_baseline(baseline))

    def target_range(self) -> tuple[float, float]:
        parts = self._each(lambda child: child.target_range())
        return max(weight for weight, _ in parts), max(target for _, target in parts)

    def target_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        return _add(self._each(lambda child: child.target_sums(scales)))

    def compute_gradients(self, order: int) -> GradientRange:
        return reduce(GradientRange.merge, self._each(lambda child: child.compute_gradients(order)))

    def gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        parts = self._each(lambda child: child.gradients())
        return np.hstack([g for g, _ in parts]), np.hstack([h for _, h in parts])

    def gradient_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        return _add(self._each(lambda child: child.gradient_sums(scales)))

    def score_rows(self, rule: ScoreRule) -> float:
        return max(self._each(lambda child: child.score_rows(rule)))

    def row_scores(self) -> NDArray[np.float32]:
        return np.concatenate(self._each(lambda child: child.row_scores()))

    def threshold_sums(self, mu: float, scale: float) -> tuple[int, int, int]:
        parts = self._each(lambda child: child.threshold_sums(mu, scale))
        small, large, zero = (sum(column) for column in zip(*parts, strict=True))
        return small, large, zero

    def rank_counts(self, key: RankKey, known_bits: int, prefix: int) -> NDArray[np.int64]:
        return _add(self._each(lambda child: child.rank_counts(key, known_bits, prefix)))

    def draw(self, rule: DrawRule) -> DrawSummary:
        return reduce(DrawSummary.merge, self._each(lambda child: child.draw(rule)))

    def begin_tree(
        self, output: int, key: np.uint64, sample: Packing, all_rows: Packing | None
    ) -> None:
        self._each(lambda child: child.begin_tree(output, key, sample, all_rows))

    def histograms(
        self, rows: RowSet, nodes: Sequence[int], features: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return _add(self._each(lambda child: child.histograms(rows, nodes, features)))

    def partition(self, rows: RowSet, splits: Sequence[NodeSplit]) -> None:
        self._each(lambda child: child.partition(rows, splits))

    def leaf_sums(
        self, rows: RowSet, tree: TreeArrays, output: int, scales: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        return _add(self._each(lambda child: child.leaf_sums(rows, tree, output, scales)))

    def residual_counts(
        self,
        tree: TreeArrays,
        output: int,
        prefix: NDArray[np.int64],
        known_bits: int,
        scale: float,
    ) -> NDArray[np.int64]:
        return _add(
            self._each(lambda child: child.residual_counts(tree, output, prefix, known_bits, scale))
        )

    def apply_tree(self, tree: TreeArrays, output: int) -> None:
        self._each(lambda child: child.apply_tree(tree, output))

    def metric_range(self, metric: RowMetric) -> float:
        # NaN wins, wherever it is
        return float(np.max(self._each(lambda child: child.metric_range(metric))))

    def metric_sums(self, metric: RowMetric, scale: float) -> int:
        return sum(self._each(lambda child: child.metric_sums(metric, scale)))

    def scores(self) -> NDArray[np.float64]:
        return np.hstack(self._each(lambda child: child.scores()))


def _add(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return reduce(np.add, parts)
