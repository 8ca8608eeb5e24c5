"""Every array dtype of the library, each with its reason.

Kernels are compiled once for each combination of dtypes they meet, so a dtype
that changes its mind costs compilation as well as memory. Nobody writes
``np.float32`` elsewhere; they write what the array *is*.
"""

from __future__ import annotations

import numpy as np

BIN = np.uint8
"""A binned feature value. 255 regular bins and one for missing fill a byte exactly."""

SCORE = np.float64
"""A raw score F_i. A float32 score loses the residual of a large regression target."""

GRADIENT = np.float32
"""A stored g_i or h_i: 24 bits are more than the noise of any sample, at half the traffic."""

ROW = np.uint32
"""A row's position within one backend. Unsigned, so that kernels skip negative indexing."""

NODE = np.int32
"""A node's number within a tree."""

PACKED = np.int64
"""A pair of words that carries gradient, count, hessian and weight; see ``fixedpoint``."""

WEIGHT = np.float64
"""A row weight or an inverse probability; it is multiplied once and then quantised."""

MAX_BINS = 255
"""Regular bins a feature may have; the missing bin comes after them."""

TABLE = 256
"""Entries of a bin-indexed lookup table: every value a ``BIN`` can take."""
