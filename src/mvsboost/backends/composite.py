"""Backends whose rows live in other backends: they add up their summaries.

Children may be slices of rows in one process, or live on the workers of a cluster
(`mvsboost.dask`). Nothing above knows, and since sums are integers nothing changes in
the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.draws import DrawRule, DrawSummary, RankKey, ScoreRule
from mvsboost.backends.messages import GradientRange, NodeSplit, RowMetric, RowSet
from mvsboost.backends.protocol import Backend
from mvsboost.errors import ParameterError
from mvsboost.exact.fixedpoint import Packing
from mvsboost.kernels.apply import TreeArrays

__all__ = ["JOINED", "CompositeBackend", "MergedBackend", "merge"]


def _add(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return reduce(np.add, parts)


def _each(merged: Callable[..., Any], parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The merge of each entry of several tuples."""
    return tuple(map(merged, zip(*parts, strict=True)))


def _largest(parts: Sequence[float]) -> float:
    return float(np.max(parts))  # NaN wins, wherever it is


_MERGES: dict[str, Callable[[Sequence[Any]], Any]] = {
    "target_range": partial(_each, max),
    "target_sums": _add,
    "compute_gradients": partial(reduce, GradientRange.merge),
    "gradients": partial(_each, np.hstack),
    "gradient_sums": _add,
    "score_rows": max,
    "threshold_sums": partial(_each, sum),
    "row_scores": np.concatenate,
    "rank_counts": _add,
    "draw": partial(reduce, DrawSummary.merge),
    "histograms": _add,
    "grow_whole_tree": itemgetter(0),  # all have grown the same
    "leaf_sums": _add,
    "residual_counts": _add,
    "metric_range": _largest,
    "metric_sums": sum,
    "scores": np.hstack,
}

JOINED = frozenset({"gradients", "row_scores", "scores"})
"""Verbs whose answers are one number a row, so that the order of the parts matters."""


def merge(verb: str, parts: Sequence[Any]) -> Any:
    """The answer of a whole to a verb, from those of its parts in the order of their rows.

    Examples
    --------
    >>> merge("threshold_sums", [(5, 1, 0), (7, 0, 2)])
    (12, 1, 2)
    """
    return parts[0] if len(parts) == 1 else _MERGES[verb](parts)


class MergedBackend:
    """The verbs of a backend, by two ways to speak to its parts.

    Attributes
    ----------
    n_rows, n_outputs : int
    """

    n_rows: int
    n_outputs: int

    def _tell(self, verb: str, *arguments: Any) -> None:
        """Have all parts do what has no answer."""
        raise NotImplementedError

    def _ask(self, verb: str, *arguments: Any) -> Any:
        """The merged answer of all parts."""
        raise NotImplementedError

    def set_baseline(self, baseline: NDArray[np.float64]) -> None:
        self._tell("set_baseline", baseline)

    def target_range(self) -> tuple[float, float]:
        found: tuple[float, float] = self._ask("target_range")
        return found

    def target_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = self._ask("target_sums", scales)
        return sums

    def compute_gradients(self, order: int) -> GradientRange:
        found: GradientRange = self._ask("compute_gradients", order)
        return found

    def gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        found: tuple[NDArray[np.float32], NDArray[np.float32]] = self._ask("gradients")
        return found

    def gradient_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = self._ask("gradient_sums", scales)
        return sums

    def score_rows(self, rule: ScoreRule) -> float:
        return float(self._ask("score_rows", rule))

    def row_scores(self) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._ask("row_scores")
        return found

    def threshold_sums(self, mu: float, scale: float) -> tuple[int, int, int]:
        sums: tuple[int, int, int] = self._ask("threshold_sums", mu, scale)
        return sums

    def rank_counts(self, key: RankKey, known_bits: int, prefix: int) -> NDArray[np.int64]:
        counts: NDArray[np.int64] = self._ask("rank_counts", key, known_bits, prefix)
        return counts

    def draw(self, rule: DrawRule) -> DrawSummary:
        summary: DrawSummary = self._ask("draw", rule)
        return summary

    def begin_tree(
        self, output: int, key: np.uint64, sample: Packing, all_rows: Packing | None
    ) -> None:
        self._tell("begin_tree", output, key, sample, all_rows)

    def histograms(
        self, rows: RowSet, nodes: Sequence[int], features: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = self._ask("histograms", rows, nodes, features)
        return sums

    def partition(self, rows: RowSet, splits: Sequence[NodeSplit]) -> None:
        self._tell("partition", rows, splits)

    def leaf_sums(
        self, rows: RowSet, tree: TreeArrays, output: int, scales: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = self._ask("leaf_sums", rows, tree, output, scales)
        return sums

    def residual_counts(
        self,
        tree: TreeArrays,
        output: int,
        prefix: NDArray[np.int64],
        known_bits: int,
        scale: float,
    ) -> NDArray[np.int64]:
        counts: NDArray[np.int64] = self._ask(
            "residual_counts", tree, output, prefix, known_bits, scale
        )
        return counts

    def apply_tree(self, tree: TreeArrays, output: int) -> None:
        self._tell("apply_tree", tree, output)

    def metric_range(self, metric: RowMetric) -> float:
        return float(self._ask("metric_range", metric))

    def metric_sums(self, metric: RowMetric, scale: float) -> int:
        return int(self._ask("metric_sums", metric, scale))

    def scores(self) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self._ask("scores")
        return found


class CompositeBackend(MergedBackend):
    """Several backends that hold consecutive rows, seen as one.

    Parameters
    ----------
    children : sequence of Backend
        In order of their rows' global ids.
    each : callable, optional
        ``each(function, children)`` returns the results in order; the built-in `map`
        by default, a thread pool's `map` as well.
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

    def _tell(self, verb: str, *arguments: Any) -> None:
        list(self._map(lambda child: getattr(child, verb)(*arguments), self.children))

    def _ask(self, verb: str, *arguments: Any) -> Any:
        answers = self._map(lambda child: getattr(child, verb)(*arguments), self.children)
        return merge(verb, list(answers))
