"""Exact ranks from counts: the k-th key of all rows, found twelve bits at a time.

Fixed-size samples are "the k rows with the smallest number". Nobody needs to gather
the rows to find the cut: the rows count the first twelve bits of their keys, control
sees in which bucket the k-th key lies, the rows count the next twelve bits inside that
bucket, and so on. As soon as the cut takes all of its bucket or none, what follows does
not matter: random keys of up to some million rows take two rounds, and after six
the key is known. Counts add up over parts of the data.
"""

from __future__ import annotations

import numpy as np

from mvsboost.backends.draws import RankKey
from mvsboost.errors import ParameterError
from mvsboost.kernels.sampling import RANK_BITS
from mvsboost.sampling.context import SampledRows

__all__ = ["cut_largest", "cut_smallest"]

_KEY_BITS = 64


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
    >>> from mvsboost.backends.draws import RankKey
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
    first, rank = 0, k  # the smallest key with the bits that are known, and k from there on
    for known_bits in range(0, _KEY_BITS, RANK_BITS):
        counts = backend.rank_counts(key, known_bits, first >> (_KEY_BITS - known_bits))
        if known_bits == 0:
            total = int(counts.sum())
            if not 1 <= k <= total:
                raise ParameterError("k", k, f"from 1 to {total}, the number of ranked rows")
            rank = total - k + 1 if from_top else k
        reached = np.cumsum(counts)
        digit = int(np.searchsorted(reached, rank, side="left"))
        rank -= int(reached[digit] - counts[digit])
        first += (digit << (_KEY_BITS - RANK_BITS)) >> known_bits
        if rank == (1 if from_top else int(counts[digit])):  # the cut parts it from the others
            width = 1 << max(_KEY_BITS - RANK_BITS - known_bits, 0)
            return np.uint64(first if from_top else first + width - 1)
    return np.uint64(first)
