r"""The threshold µ: three solvers of one equation.

With scores ĝ_i ≥ 0 and a target t (the expected number of sampled rows) µ solves

.. math:: F(µ) = \frac{1}{µ} \sum_{ĝ_i < µ} ĝ_i + \#\{ĝ_i \ge µ\} = t .

F falls as µ grows, so there is one solution as long as more than t scores are
positive. Otherwise every positive score is certain, and all solvers return 0:
min(1, ĝ/µ) is then read as 1 for ĝ > 0. Sorting is the reference, quickselect is
the paper's, Newton is the one that needs only two sums from each part of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mvsboost.errors import ParameterError
from mvsboost.exact.fixedpoint import sum_scale
from mvsboost.exact.random import Purpose, row_bits, stream_key

__all__ = [
    "Threshold",
    "inclusion_probabilities",
    "threshold_by_newton",
    "threshold_by_quickselect",
    "threshold_by_sorting",
]

_RESOLUTION = 2**16
"""Units that the mean score under µ must measure, or µ is found on a finer scale.

Rounding moves a score by at most half a unit, so µ is right to 2**-17, far less than
the noise of the sample's own size. Scores must range over more than nine orders of
magnitude (a million rows) before the finer scale is needed.
"""

ThresholdSums = Callable[[float, float], tuple[int, int, int]]


def inclusion_probabilities(scores: ArrayLike, mu: float) -> NDArray[np.float64]:
    """p_i = min(1, ĝ_i / µ); with µ = 0 it is 1 for every positive score.

    Examples
    --------
    >>> inclusion_probabilities([0.0, 1.0, 4.0], mu=2.0).tolist()
    [0.0, 0.5, 1.0]
    """
    values = np.asarray(scores, np.float64)
    if mu == 0.0:
        return (values > 0.0).astype(np.float64)
    return np.minimum(1.0, values / mu)


def threshold_by_sorting(scores: ArrayLike, target: float) -> float:
    """Solve for µ by sorting and prefix sums, in O(N log N).

    Parameters
    ----------
    scores : array-like of shape (n_rows,)
        Non-negative and finite.
    target : float
        Expected number of sampled rows, positive.

    Returns
    -------
    float
        µ, or 0 where at most `target` scores are positive.

    Examples
    --------
    >>> threshold_by_sorting([1.0, 1.0, 2.0, 8.0], target=2.0)
    4.0
    """
    values = np.sort(_positive(scores, target))
    if len(values) <= target:
        return 0.0
    below = np.concatenate(([0.0], np.cumsum(values)))
    room = target - np.arange(len(values), 0, -1)
    # µ <= values[j]; the sum stays on its own side, where adding a count would absorb it
    reached = below[:-1] <= room * values
    j = int(np.argmax(reached)) if reached.any() else len(values)
    return float(below[j] / (target - (len(values) - j)))


def threshold_by_quickselect(scores: ArrayLike, target: float, seed: int = 0) -> float:
    """Solve for µ as the paper does: quickselect, expected O(N).

    A random score splits the candidates; F at that score tells on which side µ lies,
    and the other side is folded into a sum (smaller) or a count (larger). Ties with
    the pivot leave together with it, so equal scores cannot make it slow.

    Parameters
    ----------
    scores : array-like of shape (n_rows,)
        Non-negative and finite.
    target : float
        Expected number of sampled rows, positive.
    seed : int, default=0
        Seed of the pivots; it changes the time, not the result.

    Returns
    -------
    float
        µ, or 0 where at most `target` scores are positive.

    Examples
    --------
    >>> threshold_by_quickselect([1.0, 1.0, 2.0, 8.0], target=2.0)
    4.0
    """
    candidates = _positive(scores, target)
    if len(candidates) <= target:
        return 0.0
    key = stream_key(seed, 0, Purpose.PIVOT)
    numbers = row_bits(key, np.arange(2048, dtype=np.uint64))
    sum_small, n_large, step = 0.0, 0, 0
    while len(candidates):
        pivot = candidates[int(numbers[step % len(numbers)] % np.uint64(len(candidates)))]
        small, large = candidates[candidates < pivot], candidates[candidates > pivot]
        n_equal = len(candidates) - len(small) - len(large)
        under = sum_small + float(small.sum())
        reaching = n_large + n_equal + len(large)
        if under <= (target - reaching) * pivot:
            n_large, candidates = reaching, small
        else:
            sum_small, candidates = under + n_equal * float(pivot), large
        step += 1
    return sum_small / (target - n_large)


@dataclass(frozen=True)
class Threshold:
    """µ and the number of passes over the rows that it took."""

    mu: float
    passes: int


def threshold_by_newton(
    sums: ThresholdSums,
    target: float,
    *,
    n_rows: int,
    largest: float,
    start: float | None = None,
) -> Threshold:
    r"""Solve for µ from sums alone, by Newton's method on 1/µ.

    :math:`f(v) = \sum_i \min(1, v ĝ_i)` is concave and piecewise linear, so the step

    .. math:: µ ← \frac{\sum_{ĝ_i < µ} ĝ_i}{t - \#\{ĝ_i \ge µ\}}

    comes down to the root from one side after the first one, and ends when the set of
    small scores stays as it is. Scores are counted in integer units and steps are taken
    in exact fractions, so the result depends neither on the start nor on how the rows
    are divided among those who sum them.

    Parameters
    ----------
    sums : callable
        ``sums(mu, scale)`` returns the sum of the scores under `mu`, each rounded to an
        integer after multiplication by `scale`; the number of scores of at least `mu`;
        and the number of zeros. A backend's `threshold_sums`.
    target : float
        Expected number of sampled rows, positive.
    n_rows : int
        Number of all rows.
    largest : float
        The largest score.
    start : float, optional
        Where to begin, best the last iteration's µ. One that does not help is ignored.

    Returns
    -------
    Threshold
        µ (0 where at most `target` scores are positive) and the number of passes.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([1.0, 1.0, 2.0, 8.0])
    >>> def sums(mu, scale):
    ...     small = scores[scores < mu]
    ...     return int(np.rint(small * scale).sum()), int((scores >= mu).sum()), 0
    >>> threshold_by_newton(sums, 2.0, n_rows=4, largest=8.0).mu
    4.0
    """
    _check_target(target)
    if largest == 0.0:
        return Threshold(0.0, 0)
    search = _Search(sums, target, n_rows, largest)
    mu = search.newton(start)
    if mu is None:
        mu = search.bisect()
    return Threshold(mu, search.passes)


class _Search:
    """One search for µ; scores are integers, multiples of 1 / scale."""

    def __init__(self, sums: ThresholdSums, target: float, n_rows: int, largest: float) -> None:
        self.sums = sums
        self.target = target
        self.n_rows = n_rows
        self.largest = largest
        self.scale = sum_scale(largest, n_rows)
        self.top = round(largest * self.scale) + 1
        self.passes = 0

    def newton(self, start: float | None) -> float | None:
        """µ; 0 where all positive scores are certain; None where the unit is too coarse."""
        cut = self._first_cut(start)
        # fractions by hand, which are ten times as fast: a root is above / below
        target, unit = self.target.as_integer_ratio()
        above = below = 0
        while True:
            small, large, zeros = self._below(cut)
            if unit * (self.n_rows - zeros) <= target:
                return 0.0
            room = target - unit * large
            if room == 0 and small == 0 and below > 0:
                # all that is not certain rounds to nothing: the last step was the root
                return above / below / self.scale if above >= _RESOLUTION * below else None
            if room <= 0:
                cut = self.top
                continue
            above, below = unit * small, room
            following = min(-(-above // below), self.top)
            if small == 0 or following == cut:
                enough = small >= _RESOLUTION * (self.n_rows - zeros - large)
                return above / below / self.scale if enough else None
            cut = following

    def _first_cut(self, start: float | None) -> int:
        if start is None or not 0.0 < start < self.largest:
            return self.top
        return max(1, math.ceil(start * self.scale))

    def _below(self, cut: int) -> tuple[int, int, int]:
        """Sums over the scores that round to less than `cut` units."""
        if cut >= self.top:
            return self._pass(2.0 * self.largest, self.scale)
        bound = (cut - 0.5) / self.scale
        if cut % 2:  # a half rounds to the even side, here downwards, so the bound is among them
            bound = math.nextafter(bound, math.inf)
        return self._pass(bound, self.scale)

    def _pass(self, mu: float, scale: float) -> tuple[int, int, int]:
        self.passes += 1
        return self.sums(mu, scale)

    def bisect(self) -> float:
        """µ by bisection on the bits of a float32, with a scale that follows the candidate."""
        low, high = 0, _bits(self.largest)
        if not self._reached(high)[0]:
            small, _, _ = self._pass(2.0 * self.largest, self.scale)
            return float(small / Fraction(self.target)) / self.scale
        while high - low > 1:
            middle = (low + high) // 2
            if self._reached(middle)[0]:
                high = middle
            else:
                low = middle
        _, under, room = self._reached(high)
        return float(under / room) if room > 0 else _float(high)

    def _reached(self, bits: int) -> tuple[bool, Fraction, Fraction]:
        """Whether µ is at most this number, the sum of scores under it, and t less the rest."""
        mu = _float(bits)
        scale = sum_scale(mu, self.n_rows)
        total, large, zeros = self._pass(mu, scale)
        small, room = Fraction(total) / Fraction(scale), Fraction(self.target) - large
        if room == 0:
            # scores under µ that round to nothing are there all the same
            return large + zeros == self.n_rows, small, room
        return small <= room * Fraction(mu), small, room


def _bits(x: float) -> int:
    return int(np.float32(x).view(np.uint32))


def _float(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))


def _check_target(target: float) -> None:
    if not (math.isfinite(target) and target > 0.0):
        raise ParameterError("target", target, "a positive number of rows")


def _positive(scores: ArrayLike, target: float) -> NDArray[np.float64]:
    _check_target(target)
    values = np.asarray(scores, np.float64)
    wrong = ~(np.isfinite(values) & (values >= 0.0))
    if wrong.any():
        raise ParameterError("scores", float(values[wrong][0]), "finite and not negative")
    return values[values > 0.0]
