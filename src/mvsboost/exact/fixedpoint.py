"""Sums are integers: how reals become fixed-point numbers, and how four of them share two words.

Floating-point addition depends on its order; integer addition does not. Every
sum over rows that a decision depends on is therefore a sum of integers, and the
model is the same bit for bit for any number of threads, chunks or workers.

All scales are powers of two, so scaling itself never rounds, and a value that
is already a multiple of the unit (a count, a hessian of 1) is kept exactly.

A row's contribution to a histogram is one pair of int64 words::

    word 0:  gradient (signed)  | count      count_bits low bits
    word 1:  hessian  (31 bits) | weight     32 low bits

so that one pair of additions accumulates the gradient, the number of sampled
rows, the hessian and the sum of weights. The scales leave room for all rows to
fall into one bin: no field can overflow into its neighbour.

They also keep each row's own numbers short, so that a backend may hold a row in
one word until it is added::

    row:  gradient (32, signed) | hessian (16) | weight (16)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.errors import DataError
from mvsboost.exact.dtypes import PACKED, ROW

__all__ = [
    "HALF",
    "MAX_IDS",
    "MAX_ROWS",
    "QUARTER",
    "Packing",
    "Sums",
    "check_rows",
    "power_of_two_below",
    "sum_scale",
]

HALF = 32
"""Low bits of word 1 that hold the weight."""

QUARTER = 16
"""Bits of a row's hessian, and of its weight."""

MAX_ROWS = 1 << 28
"""Rows that the words of a tree may sum: each keeps 16 levels of the gradient and 4 of the hessian.

With four times as many a row would keep one of each, and with eight times none; docs/large-data.md
has what that costs.
"""

MAX_IDS = int(np.iinfo(ROW).max) + 1
"""Rows there may be in all, drawn or not: 32 bits number them.

A backend keeps positions as `ROW`, and ranks by score break ties by 32 bits of the row's id
(`draws.score_key`). Sums of all rows (`sum_scale`) would have room for more: at so many rows
the largest value still has 2**30 levels.
"""

_WEIGHT_MASK = (1 << HALF) - 1
_MANTISSA_BITS = 52
_LEAST_POWER, _LARGEST_POWER = 2.0**-1000, 2.0**1000


def power_of_two_below(x: float) -> float:
    """The largest power of two that is at most x, but none beyond 2**±1000.

    Examples
    --------
    >>> power_of_two_below(5.0), power_of_two_below(0.3)
    (4.0, 0.25)
    """
    if _LEAST_POWER <= x < _LARGEST_POWER:
        return math.ldexp(0.5, math.frexp(x)[1])
    return _LEAST_POWER if x < _LEAST_POWER else _LARGEST_POWER


def sum_scale(largest: float, n_rows: int) -> float:
    """Scale under which a sum of n_rows values of magnitude at most `largest` fits an int64."""
    if largest == 0.0 or n_rows == 0:
        return 1.0
    room = min(2.0**62 / n_rows, 2.0**_MANTISSA_BITS)
    return power_of_two_below(room / largest)


def check_rows(n_rows: int, share: float, second_look: int) -> None:
    """Raise `DataError` where trees could not sum the rows, before any work is done.

    Parameters
    ----------
    n_rows : int
        All rows there are.
    share : float
        Share of them that a sample is expected to have.
    second_look : int
        Where it is positive, all rows are summed besides the sample.

    Examples
    --------
    >>> check_rows(10**9, share=0.2, second_look=0)
    >>> check_rows(2**33, share=0.01, second_look=0)
    Traceback (most recent call last):
        ...
    mvsboost.errors.DataError: 8,589,934,592 rows are too many, 4,294,967,296 are possible
    """
    if n_rows > MAX_IDS:
        raise DataError(f"{n_rows:,} rows are too many, {MAX_IDS:,} are possible")
    # a draw may be larger by chance: eight standard deviations of its size are kept free
    expected = MAX_ROWS - 8 * math.isqrt(MAX_ROWS)
    if n_rows <= MAX_ROWS or (share * n_rows <= expected and second_look == 0):
        return
    fixes = []
    if second_look:
        fixes.append("set second_look=0, since a second look sums all rows")
    if share * n_rows > expected:
        rate = math.floor(100 * expected / n_rows) / 100
        fixes.append(f"lower the rate of the sampler to at most {rate:g}")
    raise DataError(
        f"{n_rows:,} rows of which the sampler draws {100 * share:g}% are too many: "
        f"a tree can sum {MAX_ROWS:,}; {' and '.join(fixes)}"
    )


@dataclass(frozen=True)
class Sums:
    """What a set of rows adds up to, as real numbers.

    Attributes
    ----------
    gradient, hessian : float
        Σ w g and Σ w h.
    weight : float
        Σ w: the estimated number of rows.
    count : int
        Rows actually summed.
    """

    gradient: float
    hessian: float
    weight: float
    count: int


@dataclass(frozen=True)
class Packing:
    """Scales of one packed word pair.

    Attributes
    ----------
    gradient_scale, hessian_scale, weight_scale : float
        Powers of two; a real times its scale is the integer that is summed.
    count_bits : int
        Low bits of word 0 that hold the count.
    """

    gradient_scale: float
    hessian_scale: float
    weight_scale: float
    count_bits: int

    @classmethod
    def choose(
        cls, n_rows: int, max_gradient: float, max_hessian: float, max_weight: float
    ) -> Packing:
        """The finest scales under which `n_rows` rows of these maxima cannot overflow.

        Raises
        ------
        DataError
            There are more than `MAX_ROWS`.

        Examples
        --------
        >>> p = Packing.choose(1000, max_gradient=1.0, max_hessian=0.25, max_weight=10.0)
        >>> p.count_bits
        10
        """
        if n_rows > MAX_ROWS:
            raise DataError(
                f"a tree is to sum {n_rows:,} rows, and {MAX_ROWS:,} are possible: lower the rate "
                "of the sampler, and with a second look, which sums all rows, set second_look=0"
            )
        n = max(n_rows, 1)
        count_bits = n.bit_length()

        def scale(field_bits: int, row_bits: int, largest: float) -> float:
            # one unit a row is kept free for rounding up
            room = min(2.0**field_bits / n, 2.0**row_bits - 1.0) - 1.0
            return power_of_two_below(room / largest) if largest > 0.0 else 1.0

        return cls(
            gradient_scale=scale(62 - count_bits, HALF - 1, max_gradient),
            hessian_scale=scale(31, QUARTER, max_hessian),
            weight_scale=scale(HALF, QUARTER, max_weight),
            count_bits=count_bits,
        )

    def pack(
        self,
        gradient: NDArray[np.float64],
        hessian: NDArray[np.float64],
        weight: NDArray[np.float64],
        rounding: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        """Quantise weighted rows into word pairs, rounding up where `rounding` in [0, 1) says so.

        The expectation of a rounded value over a uniform `rounding` is the value itself.
        """
        words = np.empty((len(gradient), 2), PACKED)
        g = _round(gradient * self.gradient_scale, rounding)
        h = _round(hessian * self.hessian_scale, rounding)
        w = _round(weight * self.weight_scale, rounding)
        words[:, 0] = (g << self.count_bits) + 1
        words[:, 1] = (h << HALF) + w
        return words

    def unpack_all(
        self, words: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Gradients, hessians and weights of many word pairs, (n, 2)."""
        return (
            (words[:, 0] >> self.count_bits) / self.gradient_scale,
            (words[:, 1] >> HALF) / self.hessian_scale,
            (words[:, 1] & _WEIGHT_MASK) / self.weight_scale,
        )

    def units(self) -> NDArray[np.float64]:
        """Real value of one step of the gradient, the hessian and the weight."""
        return self._units

    @cached_property
    def _units(self) -> NDArray[np.float64]:
        return 1.0 / self.scales()

    def scales(self) -> NDArray[np.float64]:
        """Scales of the gradient, the hessian and the weight."""
        return np.array([self.gradient_scale, self.hessian_scale, self.weight_scale])

    def unpack(self, words: Any) -> Sums:
        """Read the four sums back from one word pair."""
        first, second = int(words[0]), int(words[1])
        return Sums(
            gradient=(first >> self.count_bits) / self.gradient_scale,
            hessian=(second >> HALF) / self.hessian_scale,
            weight=(second & _WEIGHT_MASK) / self.weight_scale,
            count=first & ((1 << self.count_bits) - 1),
        )


def _round(x: NDArray[np.float64], rounding: NDArray[np.float64]) -> NDArray[np.int64]:
    """Numbers rounded up where its fraction and `rounding` reach 1; a whole number stays."""
    whole = np.floor(x)
    return whole.astype(np.int64) + ((x - whole) + rounding >= 1.0)
