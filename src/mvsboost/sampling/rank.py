"""Exact ranks from counts: the k-th key of all rows, found sixteen bits at a time.

Fixed-size samples are "the k rows with the smallest number". Nobody needs to gather
the rows to find the cut: the rows count the first sixteen bits of their keys, control
sees in which bucket the k-th key lies, the rows count the next sixteen bits inside that
bucket, and so on. As soon as the cut takes all of its bucket or none, what follows does
not matter: with fewer rows than buckets that is mostly the first round, and after four
the key is known. Counts add up over parts of the data.
"""

from __future__ import annotations

import numpy as np

from mvsboost.backends.protocol import RankKey
from mvsboost.errors import ParameterError
from mvsboost.sampling.context import SampledRows

__all__ = ["cut_largest", "cut_smallest"]

_KEY_BITS = 64
_DIGIT = 16


def cut_smallest(backend: SampledRows, key: RankKey, k: int) -> np.uint64:
    """A number that exactly k rows have a key of at most.

    Parameters
    ----------
    backend : SampledRows
        Holds the rows; for keys by score they must have been scored.
    key : RankKey
        How rows get their keys.
    k : int
        From 1 to the number of rows that have a key.

    Examples
    --------
    >>> import numpy as np
    >>> from mvsboost.backends.protocol import RankKey
    >>> from mvsboost.testing import GradientRows
    >>> rows, key = GradientRows(np.ones(10), np.ones(10)), RankKey(np.uint64(5))
    >>> cut = cut_smallest(rows, key, 3)
    >>> int((key.values(None, np.arange(10, dtype=np.uint64)) <= cut).sum())
    3
    """
    return _cut(backend, key, k, from_top=False)


def cut_largest(backend: SampledRows, key: RankKey, k: int) -> np.uint64:
    """A number that exactly k rows have a key of at least."""
    return _cut(backend, key, k, from_top=True)


def _cut(backend: SampledRows, key: RankKey, k: int, from_top: bool) -> np.uint64:
    prefix = 0
    rank = k
    for known_bits in range(0, _KEY_BITS, _DIGIT):
        counts = backend.rank_counts(key, known_bits, prefix)
        if known_bits == 0:
            total = int(counts.sum())
            if not 1 <= k <= total:
                raise ParameterError("k", k, f"from 1 to {total}, the number of ranked rows")
            rank = total - k + 1 if from_top else k
        reached = np.cumsum(counts)
        digit = int(np.searchsorted(reached, rank, side="left"))
        rank -= int(reached[digit] - counts[digit])
        prefix = (prefix << _DIGIT) | digit
        left = _KEY_BITS - _DIGIT - known_bits
        if rank == (1 if from_top else int(counts[digit])):  # the cut parts it from the others
            return np.uint64(prefix << left if from_top else ((prefix + 1) << left) - 1)
    return np.uint64(prefix)
