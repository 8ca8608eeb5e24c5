"""Kernel: a whole tree in one call of each thread.

The same steps as the grower above the backends, which drives any backend verb by
verb; there a split costs a few hundred microseconds of Python, here a few meetings
of the threads. Splits are found by the same kernels, and the trees are the same.

Every thread owns a slice of the rows and runs this kernel from the root to the last
leaf, with nodes of its own: all decide alike, since they see the same sums. For
each pair of children

1. each thread adds its rows of the smaller child to a histogram of its own;
2. they meet; each thread adds up all threads' histograms for its share of the
   features, takes the sum from the parent's, and searches both for splits;
3. they meet again, and everybody knows the best split of every feature.

A second look repeats this on all rows with the few features that the sample
proposed. Sums are integers, so the number of threads changes nothing.

What is known of the nodes lies in three arrays with named columns, and loops are
written out: every further array or NumPy call here would add to the time of the
first fit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mvsboost.backends.cpu.barrier import meet
from mvsboost.backends.cpu.histogram import add_columns_inlined, add_rows_inlined
from mvsboost.backends.cpu.partition import split_in_place
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


class Team(NamedTuple):
    """The thread, how many there are, and the counter they meet at."""

    thread: int
    n_threads: int
    counter: Any


class Members(NamedTuple):
    """Rows of a tree, and the slice of them that this thread owns.

    `bins` is (n_rows, n_features) for the sample and (n_features, n_rows) for all rows;
    `order` names the thread's rows; nodes own ranges of it.
    """

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
    """Everything this thread knows of the nodes, a row each; see the columns above."""

    integers: Any
    reals: Any
    goes_left: Any


class Found(NamedTuple):
    """Best split of each feature, for the two nodes under search: arrays (2, features, ...)."""

    gains: Any
    thresholds: Any
    sides: Any
    lefts: Any


class Shared(NamedTuple):
    """What threads tell each other.

    Attributes
    ----------
    pool : (leaves, bins, 2)
        Histograms of the sample, one for each leaf that may be split.
    partial : (threads, bins, 2)
        Each thread's part of the smaller child's histogram.
    exact : (2, bins, 2)
        Histograms of all rows, for the two nodes under search.
    exact_partial : (threads, 2, bins, 2)
    totals : (threads, 4)
        Words of each thread's rows, of the sample and of all.
    found, second : Found
        What the sample found, and what all rows found.
    """

    pool: Any
    partial: Any
    exact: Any
    exact_partial: Any
    totals: Any
    found: Any
    second: Any


def make_nodes(n: int) -> Nodes:
    """Arrays for up to n nodes; a node without a split has feature -1."""
    integers = np.zeros((n, N_INTEGERS), np.int64)
    integers[:, [FEATURE, THRESHOLD, LEFT, RIGHT, SLOT]] = -1
    reals = np.zeros((n, N_REALS))
    reals[:, LOW], reals[:, HIGH] = -np.inf, np.inf
    return Nodes(integers, reals, np.zeros((n, 256), np.uint8))


def make_found(n: int) -> Found:
    """Room for n features."""
    return Found(
        np.empty((2, n)),
        np.empty((2, n), np.int64),
        np.empty((2, n), np.int64),
        np.empty((2, n, 2), np.int64),
    )


# --- one node -----------------------------------------------------------------------------------


@inlined
def _search(
    histogram: Any,
    features: Any,
    start: Any,
    stop: Any,
    total: Any,
    scales: Any,
    limits: Any,
    found: Any,
    which: Any,
) -> None:
    """Best split of each of the features start..stop."""
    best_splits_inlined(
        histogram,
        features.offsets[start : stop + 1],
        features.categorical[start:stop],
        features.monotone[start:stop],
        total,
        scales.units,
        scales.bits,
        limits,
        found.gains[which, start:stop],
        found.thresholds[which, start:stop],
        found.sides[which, start:stop],
        found.lefts[which, start:stop],
    )


@inlined
def _best(gains: Any) -> Any:
    best: Any = np.int64(0)
    for j in range(1, gains.shape[0]):
        if gains[j] > gains[best]:
            best = j
    return best


@inlined
def _mark_left(
    histogram: Any,
    start: Any,
    stop: Any,
    categorical: Any,
    threshold: Any,
    side: Any,
    total: Any,
    scales: Any,
    table: Any,
) -> None:
    """Table of the bins that go left under a split of the feature with bins start..stop."""
    for b in range(table.shape[0]):
        table[b] = 0
    if categorical:
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
    which: Any,
    min_gain: Any,
) -> Any:
    """Note the best split found, if it gains enough; its position or -1."""
    j = _best(found.gains[which])
    gain, threshold = found.gains[which, j], found.thresholds[which, j]
    noise = smallest_gain(total, scales.units, scales.bits, limits)
    if not gain > max(min_gain, noise):
        return np.int64(-1)
    categorical = features.categorical[j]
    nodes.integers[node, FEATURE] = features.index[j]
    nodes.integers[node, THRESHOLD] = -1 if categorical else threshold
    nodes.reals[node, GAIN] = gain
    start, stop, side = features.offsets[j], features.offsets[j + 1], found.sides[which, j]
    table = nodes.goes_left[node]
    _mark_left(histogram, start, stop, categorical, threshold, side, total, scales, table)
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
def _bound(limits: Any, nodes: Any, node: Any) -> None:
    limits[LOWER], limits[UPPER] = nodes.reals[node, LOW], nodes.reals[node, HIGH]


@inlined
def _clear(histogram: Any, n_bins: Any) -> None:
    for b in range(n_bins):
        histogram[b, 0] = histogram[b, 1] = 0


@inlined
def _rows_of(members: Any, own: Any, column: Any) -> Any:
    return members.order[own[column] : own[column + 1]]


@inlined
def _partition(nodes: Any, node: Any, members: Any, first: Any, step: Any, column: Any) -> None:
    """Give each child its part of the node's range; see `split_in_place` for first and step."""
    own = nodes.integers[node]
    start, stop = own[column], own[column + 1]
    order, scratch = members.order[start:stop], members.scratch[start:stop]
    bins, table = members.bins.reshape(-1), nodes.goes_left[node]
    middle = start + split_in_place(bins, first, step, table, order, scratch)
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
    _bound(limits, nodes, node)
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
def _next_node(nodes: Any, n_nodes: Any, best_first: Any) -> Any:
    """The node to split next, or -1: largest gain first, or in order of number."""
    best: Any = np.int64(-1)
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
            return np.int64(features.monotone[j])
    return np.int64(0)


# --- together -----------------------------------------------------------------------------------


@inlined
def _share(n: Any, thread: Any, n_threads: Any) -> Any:
    return n * thread // n_threads


@inlined
def _start(team: Any, nodes: Any, sample: Any, everything: Any, totals: Any) -> None:
    """The root owns all rows of the thread; the words of all threads' rows are its words."""
    root = nodes.integers[0]
    root[SAMPLE_RANGE + 1], root[EXACT_RANGE + 1] = len(sample.order), len(everything.order)
    mine = totals[team.thread]
    for word in range(2):
        mine[word] = mine[2 + word] = 0
        for i in range(len(sample.order)):
            mine[word] += sample.words[np.uint64(sample.order[i]), word]
        for i in range(len(everything.order)):
            mine[2 + word] += everything.words[np.uint64(everything.order[i]), word]
    meet(team.counter, team.n_threads, 1)
    for thread in range(team.n_threads):
        for word in range(2):
            root[SAMPLE + word] += totals[thread, word]
            root[EXACT + word] += totals[thread, 2 + word]


@inlined
def _add_up(shared: Any, small: Any, large: Any, start: Any, stop: Any) -> None:
    """Bins start..stop of the smaller node from all threads, of the larger from the parent."""
    one, other = shared.pool[small], shared.pool[large]
    for b in range(start, stop):
        first, second = np.int64(0), np.int64(0)
        for thread in range(shared.partial.shape[0]):
            first += shared.partial[thread, b, 0]
            second += shared.partial[thread, b, 1]
        one[b, 0], one[b, 1] = first, second
        if large != small:
            other[b, 0] -= first
            other[b, 1] -= second


@inlined
def _first_look(
    team: Any,
    nodes: Any,
    first: Any,
    small: Any,
    large: Any,
    go: Any,
    sample: Any,
    features: Any,
    scales: Any,
    limits: Any,
    shared: Any,
    meeting: Any,
) -> None:
    """Histograms of a pair of nodes on the sample, and the best split of every feature."""
    own = nodes.integers[small]
    mine = shared.partial[team.thread]
    _clear(mine, mine.shape[0])
    order = _rows_of(sample, own, SAMPLE_RANGE)
    add_rows_inlined(sample.bins, sample.words, order, features.index, features.offsets, mine)
    meet(team.counter, team.n_threads, meeting + 1)
    n_features = features.index.shape[0]
    start = _share(n_features, team.thread, team.n_threads)
    stop = _share(n_features, team.thread + 1, team.n_threads)
    slots = nodes.integers[small, SLOT], nodes.integers[large, SLOT]
    _add_up(shared, slots[0], slots[1], features.offsets[start], features.offsets[stop])
    for which in range(2):
        if go[which]:
            node = first + which
            _bound(limits, nodes, node)
            histogram = shared.pool[nodes.integers[node, SLOT]]
            total = nodes.integers[node, SAMPLE : SAMPLE + 2]
            _search(histogram, features, start, stop, total, scales, limits, shared.found, which)
    meet(team.counter, team.n_threads, meeting + 2)


@inlined
def _second_look(
    team: Any,
    nodes: Any,
    first: Any,
    go: Any,
    everything: Any,
    features: Any,
    scales: Any,
    limits: Any,
    min_gain: Any,
    shared: Any,
    meeting: Any,
) -> None:
    """All rows decide among the features that the sample proposed for a pair of nodes."""
    count = shared.second.gains.shape[1]
    chosen = np.empty((2, count), np.int64)
    for which in range(2):
        gains = shared.found.gains[which]
        go[which] = go[which] and gains[_best(gains)] > -np.inf
        if go[which]:
            _propose(gains, chosen[which])
            few = _few_features(features, chosen[which])
            mine = shared.exact_partial[team.thread, which]
            own = nodes.integers[first + which]
            _clear(mine, few.offsets[count])
            order = _rows_of(everything, own, EXACT_RANGE)
            add_columns_inlined(
                everything.bins, everything.words, order, few.index, few.offsets, mine
            )
    meet(team.counter, team.n_threads, meeting + 1)
    min_count = limits[MIN_COUNT]
    limits[MIN_COUNT] = 1.0  # all rows need no floor on how many of them were sampled
    for which in range(2):
        if go[which]:
            node = first + which
            _bound(limits, nodes, node)
            few = _few_features(features, chosen[which])
            exact, total = shared.exact[which], nodes.integers[node, EXACT : EXACT + 2]
            for k in range(team.thread, count, team.n_threads):
                for b in range(few.offsets[k], few.offsets[k + 1]):
                    exact[b, 0] = exact[b, 1] = 0
                    for thread in range(team.n_threads):
                        exact[b, 0] += shared.exact_partial[thread, which, b, 0]
                        exact[b, 1] += shared.exact_partial[thread, which, b, 1]
                _search(exact, few, k, k + 1, total, scales, limits, shared.second, which)
    meet(team.counter, team.n_threads, meeting + 2)
    for which in range(2):
        if go[which]:
            node = first + which
            own, few = nodes.integers[node], _few_features(features, chosen[which])
            _bound(limits, nodes, node)
            total, exact = own[EXACT : EXACT + 2], shared.exact[which]
            k = _take_split(
                nodes, node, exact, few, total, scales, limits, shared.second, which, min_gain
            )
            if k >= 0:
                lefts = shared.second.lefts[which, k]
                own[EXACT_LEFT], own[EXACT_LEFT + 1] = lefts[0], lefts[1]
                start = features.offsets[chosen[which, k]]
                histogram = shared.pool[own[SLOT]]
                own[SAMPLE_LEFT], own[SAMPLE_LEFT + 1] = 0, 0
                for b in range(few.offsets[k + 1] - few.offsets[k]):
                    if nodes.goes_left[node, b] == 1:
                        own[SAMPLE_LEFT] += histogram[start + b, 0]
                        own[SAMPLE_LEFT + 1] += histogram[start + b, 1]
    limits[MIN_COUNT] = min_count


@kernel
def grow(
    team: Any,
    sample: Any,
    everything: Any,
    features: Any,
    sample_scales: Any,
    exact_scales: Any,
    shape: Any,
    limits: Any,
    nodes: Any,
    shared: Any,
) -> Any:
    """Grow a tree into `nodes`, together with the other threads; returns their number."""
    n_slots = shared.pool.shape[0]
    free = np.empty(n_slots, np.int64)
    for i in range(n_slots):
        free[i] = i
    n_free, n_nodes, n_leaves, meeting = n_slots - 1, np.int64(1), np.int64(1), np.int64(1)
    nodes.integers[0, SLOT] = free[n_free]
    _start(team, nodes, sample, everything, shared.totals)
    first, last = np.int64(0), np.int64(0)  # the nodes to evaluate: the root, then pairs
    go = np.ones(2, np.bool_)
    go[1] = False
    while True:
        if go[0] or go[1]:
            fewer = _count(nodes.integers[first], sample_scales) <= _count(
                nodes.integers[last], sample_scales
            )
            small, large = (first, last) if fewer else (last, first)
            if small != large:
                n_free -= 1
                nodes.integers[small, SLOT] = free[n_free]
            _first_look(
                team,
                nodes,
                first,
                small,
                large,
                go,
                sample,
                features,
                sample_scales,
                limits,
                shared,
                meeting,
            )
            meeting += 2
            if shape.second_look > 0:
                _second_look(
                    team,
                    nodes,
                    first,
                    go,
                    everything,
                    features,
                    exact_scales,
                    limits,
                    shape.min_gain,
                    shared,
                    meeting,
                )
                meeting += 2
            else:
                for which in range(2):
                    if go[which]:
                        node = first + which
                        own = nodes.integers[node]
                        _bound(limits, nodes, node)
                        j = _take_split(
                            nodes,
                            node,
                            shared.pool[own[SLOT]],
                            features,
                            own[SAMPLE : SAMPLE + 2],
                            sample_scales,
                            limits,
                            shared.found,
                            which,
                            shape.min_gain,
                        )
                        if j >= 0:
                            lefts = shared.found.lefts[which, j]
                            own[SAMPLE_LEFT], own[SAMPLE_LEFT + 1] = lefts[0], lefts[1]
        for child in range(first, last + 1):
            own = nodes.integers[child]
            if own[FEATURE] < 0 and own[SLOT] >= 0:
                free[n_free] = own[SLOT]
                n_free += 1
        node = _next_node(nodes, n_nodes, shape.best_first)
        if node < 0 or n_leaves == shape.max_leaves:
            return n_nodes
        _make_children(nodes, node, n_nodes)
        feature = nodes.integers[node, FEATURE]
        width, height = np.uint64(sample.bins.shape[1]), np.uint64(everything.bins.shape[1])
        _partition(nodes, node, sample, np.uint64(feature), width, SAMPLE_RANGE)
        if shape.second_look > 0:
            start = np.uint64(feature) * height
            _partition(nodes, node, everything, start, np.uint64(1), EXACT_RANGE)
        sign = _sign_of(features, feature)
        if sign != 0:
            scales = exact_scales if shape.second_look > 0 else sample_scales
            column = EXACT if shape.second_look > 0 else SAMPLE
            _bound_children(nodes, node, sign, scales, column, limits)
        first, last = n_nodes, n_nodes + 1
        n_nodes += 2
        n_leaves += 1
        for which in range(2):
            own = nodes.integers[first + which]
            go[which] = n_leaves < shape.max_leaves and _splittable(
                own, sample_scales, exact_scales, shape, limits
            )
        # the larger child takes over its parent's histogram
        heavier = _count(nodes.integers[last], sample_scales) >= _count(
            nodes.integers[first], sample_scales
        )
        nodes.integers[last if heavier else first, SLOT] = nodes.integers[node, SLOT]


@kernel
def mark_leaves(order: Any, integers: Any, n_nodes: Any, leaf: Any) -> None:
    """Tell the rows of a thread's slice which leaf they ended in."""
    for node in range(n_nodes):
        if integers[node, LEFT] < 0:
            for i in range(integers[node, EXACT_RANGE], integers[node, EXACT_RANGE + 1]):
                leaf[np.uint64(order[i])] = node
