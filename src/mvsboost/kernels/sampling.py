"""Kernels: scores, threshold sums, the Poisson draw, and the sample's packed words."""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.exact.fixedpoint import HALF, QUARTER
from mvsboost.exact.numerics import MAGNITUDE
from mvsboost.exact.random import (
    NEXT_ROW,
    row_bits_scalar,
    row_state_scalar,
    uniform_from_state_scalar,
)
from mvsboost.kernels.histogram import PREFETCH
from mvsboost.runtime.intrinsics import copy_items, prefetch, stack_array, wide_vectors
from mvsboost.runtime.jit import inlined, kernel
from mvsboost.runtime.pool import (
    NOTHING,
    begin,
    end,
    largest_found,
    note,
    share,
    sum_parts,
    sums_found,
    worth,
)

RANK_BITS = 12
"""Bits of a rank key that are counted at a time: their counts stay in the first-level cache."""

_BLOCK = 512  # rows whose numbers stay in the first-level cache, with room to spare
_reals, _flags = stack_array(np.float64, _BLOCK), stack_array(np.uint8, _BLOCK)
_keys = stack_array(np.uint64, _BLOCK)
_RANK_SHIFT = 64 - RANK_BITS


@inlined
def _add_squares(values: Any, first: Any, n: Any, sums: Any) -> None:
    """Sum over outputs of the squares of n rows."""
    for i in range(n):
        sums[i] = 0.0
    for k in range(values.shape[0]):
        row = values[k, first : first + n]
        for i in range(n):
            sums[i] += np.float64(row[i]) * np.float64(row[i])


@kernel
def mvs_scores(
    part: Any, pool: Any, g: Any, h: Any, lam: float, scale: float, out: Any, bits: Any
) -> Any:
    """Regularised absolute values sqrt(Σ g² + λ Σ h²); returns the largest, as its bits.

    `bits` is another view of `out`: a maximum of integers vectorises, one of floats does not.
    A root of float32 takes a third of the time of one of float64; see `ScoreRule`.
    """
    wide_vectors()
    mine = begin(part, pool, worth(pool, out.shape[0]))
    start, stop = share(pool, mine, out.shape[0])
    gradients, hessians, largest = _reals(), _reals(), np.int32(0)
    up, down = scale * scale, np.float32(1.0 / scale)
    for block in range(start, stop, _BLOCK):
        n = min(_BLOCK, stop - block)
        scores, score_bits = out[block : block + n], bits[block : block + n]
        if g.shape[0] == 1:  # without sums that are written and read again
            row_g, row_h = g[0, block : block + n], h[0, block : block + n]
            for i in range(n):
                x, y = np.float64(row_g[i]), np.float64(row_h[i])
                scores[i] = np.sqrt(np.float32((x * x + lam * (y * y)) * up)) * down
        else:
            _add_squares(g, block, n, gradients)
            _add_squares(h, block, n, hessians)
            for i in range(n):
                scores[i] = np.sqrt(np.float32((gradients[i] + lam * hessians[i]) * up)) * down
        for i in range(n):
            largest = max(largest, score_bits[i])
    note(pool, mine, NOTHING, (np.int64(largest), np.int64(0), np.int64(0)))
    end(part, pool)
    return largest_found(pool)[0]


@kernel
def threshold_sums(part: Any, pool: Any, scores: Any, mu: float, scale: float) -> Any:
    """Fixed-point sum of the scores under µ, rows at or over µ, rows at 0."""
    wide_vectors()
    mine = begin(part, pool, worth(pool, scores.shape[0]))
    start, stop = share(pool, mine, scores.shape[0])
    own = scores[start:stop]
    total, large, zero = np.int64(0), np.int64(0), np.int64(0)
    for i in range(own.shape[0]):
        score = np.float64(own[i])
        small = score < mu
        total += np.int64(np.rint(score * scale)) if small else np.int64(0)
        large += np.int64(0) if small else np.int64(1)
        zero += np.int64(1) if score == 0.0 else np.int64(0)
    note(pool, mine, (total, large, zero), NOTHING)
    end(part, pool)
    return sums_found(pool)


@inlined
def _score_key(key: Any, score: Any, row: Any) -> Any:
    """One row of `draws.score_key`."""
    low = np.uint32(row) ^ np.uint32(key & np.uint64(0xFFFFFFFF))
    low = np.uint32((low ^ (low >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    low = np.uint32((low ^ (low >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    low = low ^ (low >> np.uint32(16))
    return (np.uint64(np.float32(score).view(np.uint32)) << np.uint64(32)) | np.uint64(low)


@inlined
def _mark_below(cut_key: Any, cut: Any, scores: Any, first: Any, below: Any) -> None:
    """Mark the rows, from `first` on, whose score key does not reach a cut."""
    for i in range(scores.shape[0]):
        reached = _score_key(cut_key, scores[i], first + np.uint64(i)) >= cut
        below[i] = np.uint8(0) if reached else np.uint8(1)


@kernel
def count_ranks(
    part: Any,
    pool: Any,
    scores: Any,
    offset: int,
    key: Any,
    by_score: bool,
    only_below: bool,
    cut_key: Any,
    cut: Any,
    known_bits: int,
    prefix: Any,
    room: Any,
) -> None:
    """Count rows by the bits of their rank key that follow the known ones; see `RankKey`.

    Each part counts into its own row of `room`; in the end the first has them all.
    """
    wide_vectors()
    mine = begin(part, pool, worth(pool, scores.shape[0]))
    start, stop = share(pool, mine, scores.shape[0])
    known, rest, shift = np.uint64(known_bits), np.uint64(64 - known_bits), np.uint64(_RANK_SHIFT)
    keys, counted, out = _keys(), _flags(), room[mine]
    for i in range(out.shape[0]):
        out[i] = 0
    for block in range(start, stop, _BLOCK):
        some = scores[block : min(block + _BLOCK, stop)]
        first, n = np.uint64(offset + block), np.uint64(some.shape[0])
        if by_score:
            for i in range(some.shape[0]):
                keys[i] = _score_key(key, some[i], first + np.uint64(i))
        else:
            for i in range(some.shape[0]):
                keys[i] = row_bits_scalar(key, first + np.uint64(i))
        if only_below or known_bits > 0:
            for i in range(some.shape[0]):
                counted[i] = np.uint8(1)
            if only_below:
                _mark_below(cut_key, cut, some, first, counted)
            if known_bits > 0:
                for i in range(some.shape[0]):
                    counted[i] &= np.uint8(1) if keys[i] >> rest == prefix else np.uint8(0)
            n = np.uint64(0)
            for i in range(some.shape[0]):
                keys[n] = keys[i]
                n += np.uint64(counted[i])
        for i in range(np.int64(n)):
            out[(keys[i] << known) >> shift] += 1
    end(part, pool)
    if part < 0:
        sum_parts(pool, room.reshape(-1), room.shape[1])


@kernel
def draw_poisson(
    part: Any,
    pool: Any,
    scores: Any,
    mu: float,
    key: Any,
    offset: int,
    rows: Any,
    weights: Any,
    counts: Any,
) -> Any:
    """Draw rows with p = min(1, score / µ); returns how many, and the bits of the largest weight.

    Each part writes its rows and weights from its own first row on, and how many into `counts`.
    """
    wide_vectors()
    mine = begin(part, pool, worth(pool, scores.shape[0]))
    start, stop = share(pool, mine, scores.shape[0])
    keep, of_drawn = _flags(), _reals()
    own, largest = rows[start:stop], np.int64(0)
    n = np.uint64(0)  # an index that cannot be negative: others are checked for it
    for block in range(start, stop, _BLOCK):
        some = scores[block : min(block + _BLOCK, stop)]
        state = row_state_scalar(key, np.uint64(offset + block))
        for i in range(some.shape[0]):
            score, u = np.float64(some[i]), uniform_from_state_scalar(state)
            state += NEXT_ROW
            drawn = ((score >= mu) | (u * mu < score)) & (score > 0.0)
            keep[i] = np.uint8(1) if drawn else np.uint8(0)
        for i in range(some.shape[0]):
            # always written, kept only if drawn: no branch to mispredict
            own[n] = block + i
            n += np.uint64(keep[i])
    for block in range(0, np.int64(n), _BLOCK):
        those = own[block : min(block + _BLOCK, np.int64(n))]
        w = weights[start + block : start + block + those.shape[0]]
        for j in range(those.shape[0]):
            of_drawn[j] = scores[np.uint64(those[j])]
        for j in range(those.shape[0]):
            w[j] = 1.0 if of_drawn[j] >= mu else mu / of_drawn[j]
        for j in range(those.shape[0]):
            largest = max(largest, np.float64(w[j]).view(np.int64))
    return _end_draw(part, pool, mine, counts, np.int64(n), largest)


@kernel
def draw_ranked(
    part: Any,
    pool: Any,
    scores: Any,
    offset: int,
    with_top: bool,
    top_key: Any,
    top_cut: Any,
    key: Any,
    cut: Any,
    weight: float,
    rows: Any,
    weights: Any,
    counts: Any,
) -> Any:
    """Rows of the largest scores with weight 1, if wanted, and rows whose bits reach no cut.

    Writes and returns what `draw_poisson` does.
    """
    wide_vectors()
    mine = begin(part, pool, worth(pool, scores.shape[0]))
    start, stop = share(pool, mine, scores.shape[0])
    keep, below = _flags(), _flags()
    own, own_weights = rows[start:stop], weights[start:stop]
    n, others = np.uint64(0), np.uint64(0)
    for i in range(_BLOCK):
        below[i] = np.uint8(1)
    for block in range(start, stop, _BLOCK):
        some = scores[block : min(block + _BLOCK, stop)]
        first = np.uint64(offset + block)
        if with_top:
            _mark_below(top_key, top_cut, some, first, below)
        for i in range(some.shape[0]):
            drawn = row_bits_scalar(key, first + np.uint64(i)) <= cut
            keep[i] = (np.uint8(1) if drawn else np.uint8(0)) | (below[i] ^ np.uint8(1))
        for i in range(some.shape[0]):
            own[n] = block + i
            own_weights[n] = weight if below[i] else 1.0
            n += np.uint64(keep[i])
            others += np.uint64(keep[i] & below[i])
    largest = max(weight if others > 0 else 0.0, 1.0 if n > others else 0.0)
    return _end_draw(part, pool, mine, counts, np.int64(n), np.float64(largest).view(np.int64))


@inlined
def _end_draw(part: Any, pool: Any, mine: Any, counts: Any, n: Any, largest: Any) -> Any:
    counts[mine] = n
    note(pool, mine, (n, np.int64(0), np.int64(0)), (largest, np.int64(0), np.int64(0)))
    end(part, pool)
    return sums_found(pool)[0], largest_found(pool)[0]


@kernel
def settle_draw(
    part: Any,
    pool: Any,
    g: Any,
    h: Any,
    drawn: Any,
    their_weights: Any,
    counts: Any,
    scales: Any,
    rows: Any,
    weights: Any,
) -> Any:
    """Put the drawn rows of all parts and their weights side by side, and summarise them.

    There are as many parts as drew them, or as `counts` has, if these are fewer. Returns rows of
    weight 1, fixed-point Σ w and Σ w²; and the largest w |g| and w h as their bits.
    """
    wide_vectors()
    mine = begin(part, pool, min(counts.shape[0], worth(pool, drawn.shape[0])))
    start, _ = share(pool, mine, drawn.shape[0])
    to = np.int64(0)
    for other in range(mine):
        to += counts[other]
    gradients, hessians = _reals(), _reals()
    certain = weight = squared = largest_g = largest_h = np.int64(0)
    for block in range(0, counts[mine], _BLOCK):
        n = min(_BLOCK, counts[mine] - block)
        those = drawn[start + block : start + block + n]
        w = their_weights[start + block : start + block + n]
        out_rows, out_weights = rows[to + block : to + block + n], weights[to + block :]
        for j in range(n):
            out_rows[j] = those[j]
        for j in range(n):
            out_weights[j] = w[j]
            certain += np.int64(1) if w[j] == 1.0 else np.int64(0)
            weight += np.int64(np.rint(w[j] * scales[0]))
            squared += np.int64(np.rint(w[j] * w[j] * scales[1]))
        for k in range(g.shape[0]):
            row_g, row_h = g[k], h[k]
            for j in range(n):
                i = np.uint64(those[j])
                gradients[j], hessians[j] = np.float64(row_g[i]), np.float64(row_h[i])
            for j in range(n):
                x, y = np.float64(w[j] * gradients[j]), np.float64(w[j] * hessians[j])
                largest_g = max(largest_g, np.float64(x).view(np.int64) & MAGNITUDE)
                largest_h = max(largest_h, np.float64(y).view(np.int64) & MAGNITUDE)
    note(pool, mine, (certain, weight, squared), (largest_g, largest_h, np.int64(0)))
    end(part, pool)
    return sums_found(pool), largest_found(pool)


@inlined
def rounded(x: Any, u: Any) -> Any:
    """A number rounded up where its fraction and u reach 1."""
    whole = np.floor(x)
    return np.int64(whole) + (np.int64(1) if (x - whole) + u >= 1.0 else np.int64(0))


@kernel
def pack_rows(
    part: Any,
    pool: Any,
    g: Any,
    h: Any,
    rows: Any,
    weights: Any,
    key: Any,
    offset: int,
    scales: Any,
    count_bits: int,
    words: Any,
    order: Any,
) -> Any:
    """Quantise weighted gradients, a word a row, and add up their pairs; see `fixedpoint`.

    Rows lie apart, so that they are gathered first: what is left to do vectorises. `order` gets
    the numbers of the words.
    """
    wide_vectors()
    mine = begin(part, pool, worth(pool, rows.shape[0]))
    start, stop = share(pool, mine, rows.shape[0])
    gradients, hessians, uniform = _reals(), _reals(), _reals()
    first = second = np.int64(0)
    for block in range(start, stop, _BLOCK):
        n = min(_BLOCK, stop - block)
        those, w = rows[block : block + n], weights[block : block + n]
        out, numbers = words[block : block + n], order[block : block + n]
        for j in range(n):
            i = np.uint64(those[j])
            gradients[j], hessians[j] = np.float64(g[i]), np.float64(h[i])
        for j in range(n):
            state = row_state_scalar(key, np.uint64(offset) + np.uint64(those[j]))
            uniform[j] = uniform_from_state_scalar(state)
        for j in range(n):
            u = uniform[j]
            gradient = rounded(w[j] * gradients[j] * scales[0], u)
            hessian = rounded(w[j] * hessians[j] * scales[1], u)
            weight = rounded(w[j] * scales[2], u)
            out[j] = (gradient << HALF) + (hessian << QUARTER) + weight
            first += (gradient << count_bits) + 1
            second += (hessian << HALF) + weight
        for j in range(n):
            numbers[j] = block + j
    note(pool, mine, (first, second, np.int64(0)), NOTHING)
    end(part, pool)
    return sums_found(pool)[:2]


@kernel
def pack_all(
    part: Any,
    pool: Any,
    g: Any,
    h: Any,
    key: Any,
    offset: int,
    scales: Any,
    count_bits: int,
    words: Any,
    order: Any,
) -> Any:
    """`pack_rows` of consecutive rows with weight 1, from the global id `offset` on.

    The scale of weights must be at least 1.
    """
    wide_vectors()
    mine = begin(part, pool, worth(pool, g.shape[0]))
    start, stop = share(pool, mine, g.shape[0])
    row_g, row_h, out, numbers = g[start:stop], h[start:stop], words[start:stop], order[start:stop]
    first = second = np.int64(0)
    weight = np.int64(scales[2])  # a power of two of at least 1: a whole number stays whole
    state = row_state_scalar(key, np.uint64(offset + start))
    for i in range(out.shape[0]):
        u = uniform_from_state_scalar(state)
        state += NEXT_ROW
        gradient = rounded(np.float64(row_g[i]) * scales[0], u)
        hessian = rounded(np.float64(row_h[i]) * scales[1], u)
        out[i] = (gradient << HALF) + (hessian << QUARTER) + weight
        first += (gradient << count_bits) + 1
        second += (hessian << HALF) + weight
    for i in range(out.shape[0]):
        numbers[i] = start + i
    note(pool, mine, (first, second, np.int64(0)), NOTHING)
    end(part, pool)
    return sums_found(pool)[:2]


@kernel
def gather_rows(bins: Any, rows: Any, out: Any) -> None:
    """Copy the bins of some rows side by side."""
    flat, flat_out = bins.reshape(-1), out.reshape(-1)
    width, n_rows = np.uint64(bins.shape[1]), rows.shape[0]
    for j in range(n_rows):
        prefetch(flat, np.uint64(rows[min(j + PREFETCH, n_rows - 1)]) * width)
        copy_items(flat_out, np.uint64(j) * width, flat, np.uint64(rows[j]) * width, width)
