"""Exponential and logarithm with the same bits everywhere.

The library functions of NumPy, of the C library and of a GPU differ in their
last bits, and a last bit can decide a draw. These are built from IEEE
additions, multiplications and bit shifts only, so the same source gives the
same result on arrays (reference backend) and on scalars inside compiled loops,
where it also vectorises, which a call into the C library does not.

Every function works on a float64 array and on a float64 scalar. Bits are seen through
``view``, which keeps the shape; ``np.float64(array)`` makes a scalar of an array of one in
NumPy before 2.4. The names with ``_scalar`` are the compiled ones for use inside kernels.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import numpy as np
from numba.extending import overload

from mvsboost.runtime.jit import inlined

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2 = 0.6931471805599453
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits
_EXP_LIMIT = 708.0
_SQRT2 = 1.4142135623730951
MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)
"""Bits of a float64 without its sign."""

_MANTISSA = np.int64(0x000FFFFFFFFFFFFF)
_ONE_BITS = np.int64(0x3FF0000000000000)
_BIAS = np.int64(1023)
_SHIFT = np.int64(52)
_SMALLEST = 2.2250738585072014e-308
_INT32, _INT64, _FLOAT32, _FLOAT64 = map(Struct, ("=i", "=q", "=f", "=d"))


def float32_of_bits(bits: int) -> float:
    """The float32 number with these bits; a tenth of the time that NumPy's scalars take.

    Examples
    --------
    >>> float32_of_bits(0x3FC00000)
    1.5
    """
    return float(_FLOAT32.unpack(_INT32.pack(bits))[0])


def float64_of_bits(bits: int) -> float:
    """The float64 number with these bits.

    Examples
    --------
    >>> float64_of_bits(0x3FF8000000000000)
    1.5
    """
    return float(_FLOAT64.unpack(_INT64.pack(bits))[0])


def bits_of(x: Any) -> Any:
    """The bits of float64 numbers, as int64."""
    return x.view(np.int64)


def float64_of(bits: Any) -> Any:
    """The float64 numbers with these bits."""
    return bits.view(np.float64)


# in kernels, where Numba wants to see that it is a scalar


@overload(bits_of)
def _in_kernels(x: Any) -> Any:
    def bits_of(x: Any) -> Any:
        return np.float64(x).view(np.int64)

    return bits_of


@overload(float64_of)
def _back_in_kernels(bits: Any) -> Any:
    def float64_of(bits: Any) -> Any:
        return np.int64(bits).view(np.float64)

    return float64_of


def exp(x: Any) -> Any:
    """e**x for float64 arrays or scalars, clamped to [-708, 708]; error below 2 ulp.

    Examples
    --------
    >>> import numpy as np
    >>> bool(abs(exp(np.float64(1.0)) - np.e) < 1e-15)
    True
    """
    x = np.minimum(np.maximum(x, -_EXP_LIMIT), _EXP_LIMIT)
    shifted = x * _LOG2_E + _ROUND
    n = shifted - _ROUND
    r = x - n * _LN2_HIGH
    r = r - n * _LN2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    scale = float64_of((bits_of(shifted) + _BIAS) << _SHIFT)
    return p * scale


def log(x: Any) -> Any:
    """Natural logarithm of positive float64 arrays or scalars; error below 2 ulp.

    Values under the smallest normal number are taken as that number.

    Examples
    --------
    >>> import numpy as np
    >>> float(log(np.float64(1.0)))
    0.0
    """
    bits = bits_of(np.maximum(x, _SMALLEST))
    mantissa = float64_of((bits & _MANTISSA) | _ONE_BITS)
    above = mantissa > _SQRT2
    exponent = (bits >> _SHIFT) - _BIAS + above
    mantissa = mantissa * (1.0 - 0.5 * above)
    # log(1 + f) = f − (f²/2 − s (f²/2 + R)) with s = f / (2 + f): the large term f is exact
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = 2.0 / 21.0
    p = p * z + 2.0 / 19.0
    p = p * z + 2.0 / 17.0
    p = p * z + 2.0 / 15.0
    p = p * z + 2.0 / 13.0
    p = p * z + 2.0 / 11.0
    p = p * z + 2.0 / 9.0
    p = p * z + 2.0 / 7.0
    p = p * z + 2.0 / 5.0
    p = p * z + 2.0 / 3.0
    half = 0.5 * f * f
    small = half - (s * (half + p * z) + exponent * _LN2_LOW)
    return exponent * _LN2_HIGH - (small - f)


def coarse_exp(x: Any) -> Any:
    """`exp` with a relative error below 1e-8, in little more than half the time.

    Enough for what becomes a float32, as gradients do.

    Examples
    --------
    >>> import numpy as np
    >>> bool(abs(coarse_exp(np.float64(1.0)) / np.e - 1) < 1e-8)
    True
    """
    x = np.minimum(np.maximum(x, -_EXP_LIMIT), _EXP_LIMIT)
    shifted = x * _LOG2_E + _ROUND
    r = x - (shifted - _ROUND) * _LN2
    r2 = r * r
    # the series in pairs, which do not wait for each other
    low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6.0))
    high = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0))
    scale = float64_of((bits_of(shifted) + _BIAS) << _SHIFT)
    return (low + (r2 * r2) * high) * scale


def sigmoid(x: Any) -> Any:
    """1 / (1 + e**-x)."""
    return 1.0 / (1.0 + exp(-x))


def coarse_sigmoid(x: Any) -> Any:
    """`sigmoid` by `coarse_exp`."""
    return 1.0 / (1.0 + coarse_exp(-x))


exp_scalar = inlined(exp)
log_scalar = inlined(log)


_coarse_exp_scalar = inlined(coarse_exp)


def _coarse_sigmoid_scalar(x: Any) -> Any:
    return 1.0 / (1.0 + _coarse_exp_scalar(-x))


coarse_sigmoid_scalar = inlined(_coarse_sigmoid_scalar)
