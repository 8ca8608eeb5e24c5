"""Kernel: a whole tree in one call, for rows that one thread is enough for.

The same steps as the grower above the backends, which drives any backend verb by
verb; there a split costs a few hundred microseconds of Python, here none. Splits
are found by the same kernels, and the trees are the same.

What is known of the nodes lies in three arrays with named columns, and loops are
written out: every further array or NumPy call here would add to the time of the
first fit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mvsboost.backends.cpu.histogram import add_rows_inlined
from mvsboost.backends.cpu.partition import split_slice_inlined
from mvsboost.backends.cpu.split import (
    LOWER,
    MIN_COUNT,
    MIN_WEIGHT,
    UPPER,
    WEIGHT,
    best_splits_inlined,
    category_set_inlined,
    leaf_value,
    smallest_gain,
)
from mvsboost.jit import inlined, kernel

_LOW = np.int64(0xFFFFFFFF)
_ONE = np.int64(1)

# columns of the integers of a node
# (typed: kernels would be compiled anew for every plain number they are called with)
FEATURE, THRESHOLD, LEFT, RIGHT, DEPTH, SLOT = map(np.int64, range(6))
SAMPLE, SAMPLE_LEFT, EXACT, EXACT_LEFT = map(np.int64, (6, 8, 10, 12))
"""First of two columns each: packed words of the node, and of the left side of its split."""
SAMPLE_RANGE, EXACT_RANGE = map(np.int64, (14, 16))
"""First of two columns each: the range of `order` that the node owns."""
N_INTEGERS = 18

# columns of the reals of a node
GAIN, LOW, HIGH = 0, 1, 2
N_REALS = 3


class Members(NamedTuple):
    """Rows of a tree: bins, packed words, and the order nodes own ranges of."""

    bins: Any
    words: Any
    order: Any
    scratch: Any


class Features(NamedTuple):
    """Features a tree may use, in histogram order."""

    index: Any
    offsets: Any
    categorical: Any
    monotone: Any


class Scales(NamedTuple):
    """Real value of a step of each field, and the bits of the count."""

    units: Any
    bits: int


class Shape(NamedTuple):
    """What bounds the tree."""

    max_leaves: int
    max_depth: int
    best_first: bool
    second_look: int
    min_gain: float


class Nodes(NamedTuple):
    """Everything known of the nodes, a row each; see the columns above."""

    integers: Any
    reals: Any
    goes_left: Any


class Found(NamedTuple):
    """Room for the best split of each feature."""

    gains: Any
    thresholds: Any
    sides: Any
    lefts: Any


def make_nodes(n: int) -> Nodes:
    """Arrays for up to n nodes; a node without a split has feature -1."""
    integers = np.zeros((n, N_INTEGERS), np.int64)
    integers[:, [FEATURE, THRESHOLD, LEFT, RIGHT]] = -1
    reals = np.zeros((n, N_REALS))
    reals[:, LOW], reals[:, HIGH] = -np.inf, np.inf
    return Nodes(integers, reals, np.zeros((n, 256), np.uint8))


def make_found(n: int) -> Found:
    """Room for n features."""
    whole = np.empty((2, n), np.int64)
    return Found(np.empty(n), whole[0], whole[1], np.empty((n, 2), np.int64))


@inlined
def _best(gains: Any) -> Any:
    best = 0
    for j in range(1, gains.shape[0]):
        if gains[j] > gains[best]:
            best = j
    return best


@inlined
def _mark_left(
    histogram: Any, features: Any, j: Any, total: Any, scales: Any, found: Any, table: Any
) -> None:
    """Table of the bins that go left for the split found on the j-th feature."""
    start, stop = features.offsets[j], features.offsets[j + 1]
    threshold, side = found.thresholds[j], found.sides[j]
    if features.categorical[j]:
        part = histogram[start:stop]
        category_set_inlined(part, total, scales.units, scales.bits, threshold, side, table)
    else:
        for b in range(threshold + 1):
            table[b] = 1
        table[stop - start - 1] = side


@inlined
def _take_split(
    nodes: Any,
    node: Any,
    histogram: Any,
    features: Any,
    total: Any,
    scales: Any,
    limits: Any,
    found: Any,
    min_gain: float,
) -> Any:
    """Search the histogram and note the best split if it gains enough; its position or -1."""
    best_splits_inlined(
        histogram,
        features.offsets,
        features.categorical,
        features.monotone,
        total,
        scales.units,
        scales.bits,
        limits,
        found.gains,
        found.thresholds,
        found.sides,
        found.lefts,
    )
    j = _best(found.gains)
    noise = smallest_gain(total, scales.units, scales.bits, limits)
    if found.gains[j] == -np.inf:
        return -2
    if not found.gains[j] > max(min_gain, noise):
        return -1
    nodes.integers[node, FEATURE] = features.index[j]
    nodes.integers[node, THRESHOLD] = -1 if features.categorical[j] else found.thresholds[j]
    nodes.reals[node, GAIN] = found.gains[j]
    table = nodes.goes_left[node]
    for b in range(table.shape[0]):
        table[b] = 0
    _mark_left(histogram, features, j, total, scales, found, table)
    return j


@inlined
def _propose(gains: Any, chosen: Any) -> None:
    """Positions of the features of largest gain, largest first."""
    for k in range(chosen.shape[0]):
        best = -1
        for j in range(gains.shape[0]):
            taken = False
            for i in range(k):
                taken = taken or chosen[i] == j
            if not taken and (best < 0 or gains[j] > gains[best]):
                best = j
        chosen[k] = best


@inlined
def _few_features(features: Any, chosen: Any) -> Any:
    count = chosen.shape[0]
    index, offsets = np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    categorical, monotone = np.empty(count, np.bool_), np.empty(count, np.int8)
    for k in range(count):
        j = chosen[k]
        index[k], offsets[k + 1] = features.index[j], offsets[k]
        offsets[k + 1] += features.offsets[j + 1] - features.offsets[j]
        categorical[k], monotone[k] = features.categorical[j], features.monotone[j]
    return Features(index, offsets, categorical, monotone)


@inlined
def _find_split(
    nodes: Any,
    node: Any,
    histogram: Any,
    features: Any,
    everything: Any,
    sample_scales: Any,
    exact_scales: Any,
    shape: Any,
    limits: Any,
    found: Any,
    second: Any,
) -> None:
    """The best split of a node: the sample's, or all rows' choice among its proposals."""
    own = nodes.integers[node]
    limits[LOWER], limits[UPPER] = nodes.reals[node, LOW], nodes.reals[node, HIGH]
    total, min_gain = own[SAMPLE : SAMPLE + 2], shape.min_gain
    j = _take_split(nodes, node, histogram, features, total, sample_scales, limits, found, min_gain)
    if shape.second_look == 0 or j == -2:
        if j >= 0:
            own[SAMPLE_LEFT], own[SAMPLE_LEFT + 1] = found.lefts[j, 0], found.lefts[j, 1]
        return
    own[FEATURE] = -1
    chosen = np.empty(second.gains.shape[0], np.int64)
    _propose(found.gains, chosen)
    few = _few_features(features, chosen)
    exact = np.zeros((few.offsets[chosen.shape[0]], 2), np.int64)
    order = everything.order[own[EXACT_RANGE] : own[EXACT_RANGE + 1]]
    add_rows_inlined(everything.bins, everything.words, order, few.index, few.offsets, exact)
    min_count = limits[MIN_COUNT]
    limits[MIN_COUNT] = 1.0
    total = own[EXACT : EXACT + 2]
    k = _take_split(nodes, node, exact, few, total, exact_scales, limits, second, min_gain)
    limits[MIN_COUNT] = min_count
    if k >= 0:
        own[EXACT_LEFT], own[EXACT_LEFT + 1] = second.lefts[k, 0], second.lefts[k, 1]
        own[SAMPLE_LEFT], own[SAMPLE_LEFT + 1] = 0, 0
        start = features.offsets[chosen[k]]
        for b in range(few.offsets[k + 1] - few.offsets[k]):
            if nodes.goes_left[node, b] == 1:
                own[SAMPLE_LEFT] += histogram[start + b, 0]
                own[SAMPLE_LEFT + 1] += histogram[start + b, 1]


@inlined
def _partition(nodes: Any, node: Any, members: Any, column: Any) -> None:
    """Give each child its part of the node's range."""
    own = nodes.integers[node]
    start, stop = own[column], own[column + 1]
    order, scratch = members.order[start:stop], members.scratch[start:stop]
    middle = start + split_slice_inlined(
        members.bins, own[FEATURE], nodes.goes_left[node], order, scratch
    )
    for i in range(stop - start):
        order[i] = scratch[i]
    left, right = nodes.integers[own[LEFT]], nodes.integers[own[RIGHT]]
    left[column], left[column + 1] = start, middle
    right[column], right[column + 1] = middle, stop


@inlined
def _count(own: Any, scales: Any) -> Any:
    return own[SAMPLE] & ((_ONE << scales.bits) - _ONE)


@inlined
def _splittable(own: Any, sample_scales: Any, exact_scales: Any, shape: Any, limits: Any) -> Any:
    if own[DEPTH] >= shape.max_depth or _count(own, sample_scales) < 2:
        return False
    if shape.second_look == 0:
        weight = (own[SAMPLE + 1] & _LOW) * sample_scales.units[WEIGHT]
    else:
        weight = (own[EXACT + 1] & _LOW) * exact_scales.units[WEIGHT]
    return weight >= 2 * limits[MIN_WEIGHT]


@inlined
def _bound_children(
    nodes: Any, node: Any, sign: Any, scales: Any, column: Any, limits: Any
) -> None:
    """Monotone constraints: the middle of the two values parts the children."""
    own = nodes.integers[node]
    limits[LOWER], limits[UPPER] = nodes.reals[node, LOW], nodes.reals[node, HIGH]
    middle = 0.0
    for child in (own[LEFT], own[RIGHT]):
        words = nodes.integers[child, column : column + 2]
        middle += leaf_value(words, scales.units, scales.bits, limits)
    middle /= 2
    low, high = (own[LEFT], own[RIGHT]) if sign > 0 else (own[RIGHT], own[LEFT])
    nodes.reals[low, HIGH], nodes.reals[high, LOW] = middle, middle


@inlined
def _make_children(nodes: Any, node: Any, first: Any) -> None:
    own = nodes.integers[node]
    own[LEFT], own[RIGHT] = first, first + 1
    left, right = nodes.integers[first], nodes.integers[first + 1]
    for column in (LOW, HIGH):
        nodes.reals[first, column] = nodes.reals[node, column]
        nodes.reals[first + 1, column] = nodes.reals[node, column]
    left[DEPTH] = right[DEPTH] = own[DEPTH] + 1
    for word in range(2):
        left[SAMPLE + word] = own[SAMPLE_LEFT + word]
        right[SAMPLE + word] = own[SAMPLE + word] - own[SAMPLE_LEFT + word]
        left[EXACT + word] = own[EXACT_LEFT + word]
        right[EXACT + word] = own[EXACT + word] - own[EXACT_LEFT + word]


@inlined
def _next_node(nodes: Any, n_nodes: Any, best_first: bool) -> Any:
    """The node to split next, or -1: largest gain first, or in order of number."""
    best = -1
    for node in range(n_nodes):
        if nodes.integers[node, FEATURE] < 0 or nodes.integers[node, LEFT] >= 0:
            continue
        if best < 0 or (best_first and nodes.reals[node, GAIN] > nodes.reals[best, GAIN]):
            best = node
    return best


@inlined
def _sign_of(features: Any, feature: Any) -> Any:
    for j in range(features.index.shape[0]):
        if features.index[j] == feature:
            return int(features.monotone[j])
    return 0


@inlined
def _start(nodes: Any, sample: Any, everything: Any) -> None:
    """The root owns all rows, and their words."""
    root = nodes.integers[0]
    root[SAMPLE_RANGE + 1], root[EXACT_RANGE + 1] = len(sample.order), len(everything.order)
    for word in range(2):
        for i in range(len(sample.order)):
            root[SAMPLE + word] += sample.words[i, word]
        for i in range(len(everything.order)):
            root[EXACT + word] += everything.words[i, word]


@inlined
def _build_histograms(
    nodes: Any, small: Any, large: Any, sample: Any, features: Any, pool: Any
) -> None:
    """The smaller child's histogram from its rows, the larger's from their parent's."""
    one = pool[nodes.integers[small, SLOT]]
    for b in range(one.shape[0]):
        one[b, 0] = one[b, 1] = 0
    own = nodes.integers[small]
    order = sample.order[own[SAMPLE_RANGE] : own[SAMPLE_RANGE + 1]]
    add_rows_inlined(sample.bins, sample.words, order, features.index, features.offsets, one)
    if large != small:
        other = pool[nodes.integers[large, SLOT]]
        for b in range(one.shape[0]):
            other[b, 0] -= one[b, 0]
            other[b, 1] -= one[b, 1]


@kernel
def grow(
    sample: Any,
    everything: Any,
    features: Any,
    sample_scales: Any,
    exact_scales: Any,
    shape: Any,
    limits: Any,
    nodes: Any,
    found: Any,
    second: Any,
    pool: Any,
) -> Any:
    """Grow a tree into `nodes`; returns their number. `pool` holds one histogram a leaf."""
    free = np.empty(pool.shape[0], np.int64)
    for i in range(pool.shape[0]):
        free[i] = i
    n_free, n_nodes, n_leaves = pool.shape[0] - 1, np.int64(1), np.int64(1)
    nodes.integers[0, SLOT] = free[n_free]
    _start(nodes, sample, everything)
    first, last = (
        np.int64(0),
        np.int64(0),
    )  # the nodes to evaluate: the root, then pairs of children
    while True:
        go = False
        for child in range(first, last + 1):
            go = (
                go
                or _splittable(nodes.integers[child], sample_scales, exact_scales, shape, limits)
                or child == 0
            )
        if go:
            lefts = _count(nodes.integers[first], sample_scales)
            rights = _count(nodes.integers[last], sample_scales)
            small, large = (first, last) if lefts <= rights else (last, first)
            if small != large:
                n_free -= 1
                nodes.integers[small, SLOT] = free[n_free]
            _build_histograms(nodes, small, large, sample, features, pool)
        for child in range(first, last + 1):
            own = nodes.integers[child]
            if go and (child == 0 or _splittable(own, sample_scales, exact_scales, shape, limits)):
                _find_split(
                    nodes,
                    child,
                    pool[own[SLOT]],
                    features,
                    everything,
                    sample_scales,
                    exact_scales,
                    shape,
                    limits,
                    found,
                    second,
                )
            if own[FEATURE] < 0 and own[SLOT] >= 0:
                free[n_free] = own[SLOT]
                n_free += 1
        node = _next_node(nodes, n_nodes, shape.best_first)
        if node < 0:
            return n_nodes
        _make_children(nodes, node, n_nodes)
        _partition(nodes, node, sample, SAMPLE_RANGE)
        if shape.second_look > 0:
            _partition(nodes, node, everything, EXACT_RANGE)
        sign = _sign_of(features, nodes.integers[node, FEATURE])
        if sign != 0:
            scales = exact_scales if shape.second_look > 0 else sample_scales
            column = EXACT if shape.second_look > 0 else SAMPLE
            _bound_children(nodes, node, sign, scales, column, limits)
        first, last = n_nodes, n_nodes + 1
        n_nodes += 2
        n_leaves += 1
        if n_leaves == shape.max_leaves:
            return n_nodes
        nodes.integers[first, SLOT], nodes.integers[last, SLOT] = -1, -1
        # the larger child takes over its parent's histogram
        heavier = first
        if _count(nodes.integers[last], sample_scales) >= _count(
            nodes.integers[first], sample_scales
        ):
            heavier = last
        nodes.integers[heavier, SLOT] = nodes.integers[node, SLOT]
