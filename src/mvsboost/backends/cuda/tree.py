"""Kernels: how a whole tree grows without the host.

A batch of nodes at a time, one where the tree grows best-first, a level where it grows level by
level, in four kernels that follow each other:

1. `part_rows`: the rows of nodes that are split go to the children.
2. `add_up`: the rows of the smaller child of each pair are added to its histogram: blocks take
   chunks of rows and a part of the features each, and add up in shared memory.
3. `search`: the larger child's histogram is its parent's less the smaller's; each warp searches
   the histogram of one feature, and the last one of a node notes the best split.
4. `decide`: one block decides which nodes are split next, and makes their children.

`begin` makes the root, which is searched without being parted. Once no node is left to split, the
kernels find nothing to do.

With a second look there are two of all that: of the sample, whose `search` proposes features for
each node, and of all rows, whose nodes have the same numbers. `plan` sets all rows of the new nodes
out for `add_up`, by the proposed features alone, `search` finds the best split among these, and
`decide` makes the children of both.

Sums are integers, so neither the order of rows in a node nor the number of blocks changes anything.
Splits are ranked by the formulas of `kernels.split`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mvsboost.backends.cuda.device import (
    BINS_EACH,
    LANES,
    ROWS_AT_ONCE,
    SHARED_INTS,
    WARPS,
    add,
    best_of_block,
    best_of_warp,
    block,
    blocks,
    each,
    formula,
    in_place,
    kernel,
    lane,
    meet,
    meet_in_warp,
    on_device,
    own_fields,
    own_limits,
    own_rows,
    own_words,
    publish,
    scan_of_block,
    scan_of_warp,
    share_of_block,
    shared_bins,
    shared_ints,
    shared_reals_of_bins,
    thread,
    threads,
    warp,
)
from mvsboost.backends.cuda.nodes import LEAF, bin_of, test_of
from mvsboost.exact.dtypes import TABLE
from mvsboost.exact.fixedpoint import HALF, QUARTER
from mvsboost.kernels import split
from mvsboost.kernels.split import (
    CATEGORY_SUPPORT,
    HESSIAN,
    L2,
    LOWER,
    MIN_CHILD_WEIGHT,
    MIN_SAMPLED,
    MIN_SAMPLES_LEAF,
    N_LIMITS,
    NEVER,
    UPPER,
    WEIGHT,
)

_plain_rank, _bounded_rank = formula(split.plain_rank), formula(split.bounded_rank)
_is_bounded, _split_gain = formula(split.is_bounded), formula(split.split_gain)
_smallest_gain, _leaf_value = formula(split.smallest_gain), formula(split.leaf_value)
_ratio, _gain_by_chance = formula(split.category_ratio), formula(split.gain_by_chance)
_smoothing = formula(split.category_smoothing)

PLANES = 4
"""Sums in shared memory of each bin: gradient, its high bits above the rows, hessian, weight."""

PART_ENTRIES = SHARED_INTS // PLANES
"""Bins of the features that a block adds up at a time."""

_ZERO, _ONE = np.int64(0), np.int64(1)
_LOW, _LOW_HALF = np.int64(0xFFFFFFFF), np.int64(0xFFFF)
_LARGE = float(1 << 40)
_SIDE = np.int64(2 * TABLE)  # in the number of a cut: those of the second side come later

# columns of the integers of a node
FEATURE, THRESHOLD, LEFT, DEPTH = range(4)
START, STOP, BUFFER = 4, 5, 6
"""Its rows: from where to where in which of the two orders; at the root, all as they are."""
SLOT, OPEN, WANTED, IS_SMALLER = 7, 8, 9, 10
"""Where its histogram lies; whether it waits to be split; whether it may be; whether its rows are
added up, not taken from its parent's."""
POSITION, WORDS, LEFT_WORDS = 11, 12, 14
"""Position of the feature; packed words of all its rows, and of those that go left."""
TO_LEFT, TO_RIGHT = 16, 17
"""Where the next rows that go to a child are put."""
N_INTEGERS = 18

# columns of its reals
GAIN, LOW, HIGH = range(3)
N_REALS = 3

# the state of the tree
N_NODES, N_LEAVES, FIRST, N_NEW = range(4)
"""The nodes that are new, and how many."""
N_PARENTS, PART_CHUNKS, N_COUNTED, ADD_CHUNKS, CHUNK_ROWS = range(4, 9)
"""Split nodes whose rows move, and chunks of these; nodes whose rows are added up, chunks of these,
and the rows of one."""
N_STATE = 9

# columns of the lists of nodes whose rows are parted or added up: the node, its first chunk
NODE, FIRST_CHUNK = range(2)
N_LISTED = 2

# columns of what is known of a feature
INDEX, OFFSET, SIZE, CATEGORICAL, MONOTONE, PLACE = range(6)
"""Of a proposed one also its place among those of the sample."""
N_FEATURE = 6

# numbers of a tree: limits, and behind them the gain that a split must have, and units;
MIN_GAIN, UNITS = N_LIMITS, N_LIMITS + 1
N_REAL_NUMBERS = N_LIMITS + 4
# rows, bits of the count, what bounds the tree, its policy, rows of a chunk as a power of two, the
# weight of a row where all have the same, in units, or −1; parts of the features; blocks at work
N_ROWS, BITS, MAX_LEAVES, MAX_DEPTH, IS_BEST_FIRST, CHUNK_BITS, SAME_WEIGHT, N_PARTS, AT_WORK = (
    range(9)
)
ROLE = 9
N_INTEGER_NUMBERS = 10

DECIDES, PROPOSES, DECIDES_ON_PROPOSALS = range(3)
"""Roles of rows that grow a tree."""

# columns of what is found for a node and a feature
F_THRESHOLD, F_SIDE, F_FIRST, F_SECOND = range(4)
N_FOUND = 4


class Tray(NamedTuple):
    """Where rows are added up.

    Attributes
    ----------
    sums : (SHARED_INTS,)
        int32 that the threads of a block share.
    rows, words, fields
        Of a thread, for rows at once: their numbers, eight bins of each, and what is added.
    """

    sums: Any
    rows: Any
    words: Any
    fields: Any


class Desk(NamedTuple):
    """Where a warp looks for splits.

    Attributes
    ----------
    ratios, order : (256,)
        Of the warp: categories by their ratios.
    limits, first, second
        Of a thread: limits of a split, and the words of its bins.
    """

    ratios: Any
    order: Any
    limits: Any
    first: Any
    second: Any


class Growth(NamedTuple):
    """All that a tree is grown from, and in.

    Attributes
    ----------
    bins : (rows, bytes of a row / 8)
    words : (rows,)
    order : (2, rows)
        Two orders of the rows; a node's lie side by side in one of them.
    histograms : (slots, bins, 2)
    integers, reals : (nodes, columns)
    tables : (nodes, 256)
        Which bins go left.
    tests : (nodes,)
        See `nodes.test_of`.
    groups : (nodes, words)
        Groups that all features of the branch are in.
    parents, counted : (nodes, 2)
        Nodes whose rows are parted, and those whose rows are added up.
    gains, found : (nodes, features), (nodes, features, 4)
        The best split of each new node, by each feature.
    searched : (nodes,)
        Features by which a new node was searched.
    features : (1 or new nodes, features, 6)
        The same for all nodes, or those that were proposed for each new one.
    parts : (features + 1,)
        First feature of each part that blocks add up, and behind the last the number of features.
    feature_groups : (all features, words)
    total : (2,)
        Packed words of all rows.
    state : (9,)
    numbers_real, numbers
        Of the program; see above.
    """

    bins: Any
    words: Any
    order: Any
    histograms: Any
    integers: Any
    reals: Any
    tables: Any
    tests: Any
    groups: Any
    parents: Any
    counted: Any
    gains: Any
    found: Any
    searched: Any
    features: Any
    parts: Any
    feature_groups: Any
    total: Any
    state: Any
    numbers_real: Any
    numbers: Any


# --- rows ---------------------------------------------------------------------------------------


@on_device
def _listed(nodes: Any, n: Any, chunk: Any) -> Any:
    """The place of the last node whose first chunk is not beyond this one."""
    low, high = _ZERO, n
    while high - low > 1:
        middle = (low + high) // 2
        if nodes[middle, FIRST_CHUNK] <= chunk:
            low = middle
        else:
            high = middle
    return low


@in_place
def _features_of(tree: Any, node: Any) -> Any:
    """The features that a new node is searched by."""
    return tree.features[(node - tree.state[FIRST]) % tree.features.shape[0]]


@on_device
def _n_rows(own: Any) -> Any:
    return own[STOP] - own[START]


@on_device
def _chunk_rows(tree: Any, n_rows: Any) -> Any:
    """Rows of a chunk, as many as sums have room for in as few rounds of all blocks as it takes."""
    n, at_work, batch = n_rows * tree.numbers[N_PARTS], tree.numbers[AT_WORK], _batch()
    rounds = max(_parts_of(n, at_work << tree.numbers[CHUNK_BITS]), _ONE)
    return max(_parts_of(n, at_work * rounds * batch), _ONE) * batch


@on_device
def _batch() -> Any:
    """Rows that a block takes at once."""
    return ROWS_AT_ONCE * threads()


@on_device
def _parts_of(n: Any, size: Any) -> Any:
    """How many parts of a size n items make."""
    return (n + size - 1) // size


@on_device
def _row_at(tree: Any, node: Any, buffer: Any, at: Any) -> Any:
    """A row of a node; nothing was moved before the root's rows are."""
    return np.int64(at) if node == 0 else np.int64(tree.order[buffer, at])


@kernel
def part_rows(tree: Any) -> None:
    """Send the rows of split nodes to their children, a chunk at a time."""
    rows, size = own_rows(), _batch()
    for chunk in range(block(), tree.state[PART_CHUNKS], blocks()):
        place = _listed(tree.parents, tree.state[N_PARENTS], chunk)
        node = tree.parents[place, NODE]
        own = tree.integers[node]
        buffer, feature = own[BUFFER], own[FEATURE]
        first = own[START] + (chunk - tree.parents[place, FIRST_CHUNK]) * size
        stop = min(first + size, own[STOP])
        for u in range(ROWS_AT_ONCE):
            at = first + u * threads() + thread()
            rows[u] = _row_at(tree, node, buffer, min(at, stop - 1))
        sides, count = _ZERO, _ZERO
        for u in range(ROWS_AT_ONCE):
            goes_left = tree.tables[node, bin_of(tree.bins, rows[u], feature)] != 0
            if goes_left and first + u * threads() + thread() < stop:
                sides, count = sides | (_ONE << u), count + 1
        before, total = scan_of_block(count)
        left = right = _ZERO
        if thread() == 0:
            left = np.int64(add(tree.integers, (node, TO_LEFT), total))
            right = np.int64(add(tree.integers, (node, TO_RIGHT), stop - first - total))
        left = share_of_block(left) + before
        # as many as come before this thread's, less those of them that go left
        per, more = (stop - first) // threads(), (stop - first) % threads()
        right = share_of_block(right) + thread() * per + min(thread(), more) - before
        for u in range(ROWS_AT_ONCE):
            if first + u * threads() + thread() < stop:
                goes_left = (sides >> u) & 1 != 0
                tree.order[1 - buffer, left if goes_left else right] = rows[u]
                left, right = left + (1 if goes_left else 0), right + (0 if goes_left else 1)


@on_device
def _fetch(tray: Any, tree: Any, node: Any, at: Any, stop: Any, cut: Any, count_at: Any) -> None:
    """Fetch rows, and what is added up of them: nothing beyond the last one."""
    own, below = tree.integers[node], (_ONE << cut) - _ONE
    for u in range(ROWS_AT_ONCE):
        tray.rows[u] = _row_at(tree, node, own[BUFFER], min(at + u * threads(), stop - 1))
    for u in range(ROWS_AT_ONCE):
        is_there = at + u * threads() < stop
        word = tree.words[tray.rows[u]] if is_there else _ZERO
        gradient, count = word >> HALF, _ONE if is_there else _ZERO
        tray.fields[u, 0] = gradient & below
        tray.fields[u, 1] = ((gradient >> cut) << count_at) + count
        tray.fields[u, 2] = (word >> QUARTER) & _LOW_HALF
        tray.fields[u, 3] = word & _LOW_HALF


@on_device
def _add_chunk(
    tray: Any, tree: Any, node: Any, first: Any, stop: Any, features: Any, n_entries: Any
) -> None:
    """Add rows of a node to the sums of some features."""
    chunk_bits, weighs = tree.numbers[CHUNK_BITS], tree.numbers[SAME_WEIGHT] < 0
    n_entries, base = np.int32(n_entries), features[0, OFFSET]
    for at in range(first + thread(), stop, ROWS_AT_ONCE * threads()):
        _fetch(tray, tree, node, at, stop, np.int64(31) - chunk_bits, chunk_bits + 1)
        known = np.int64(-1)
        for f in range(features.shape[0]):
            feature, offset = features[f, INDEX], np.int32(features[f, OFFSET] - base)
            if feature >> 3 != known:
                known = feature >> 3
                for u in range(ROWS_AT_ONCE):
                    tray.words[u] = tree.bins[tray.rows[u], known]
            shift = (feature & 7) << 3
            for u in range(ROWS_AT_ONCE):
                entry = offset + np.int32((tray.words[u] >> shift) & 0xFF)
                add(tray.sums, entry, tray.fields[u, 0])
                add(tray.sums, n_entries + entry, tray.fields[u, 1])
                add(tray.sums, n_entries * np.int32(2) + entry, tray.fields[u, 2])
                if weighs:
                    add(tray.sums, n_entries * np.int32(3) + entry, tray.fields[u, 3])


@on_device
def _hand_over(sums: Any, tree: Any, slot: Any, base: Any, n_entries: Any, is_alone: Any) -> None:
    """Add the sums of a block to a histogram, or write them where no other block adds any."""
    chunk_bits, same_weight = tree.numbers[CHUNK_BITS], tree.numbers[SAME_WEIGHT]
    bits, cut = tree.numbers[BITS], np.int64(31) - chunk_bits
    for entry in range(thread(), n_entries, threads()):
        above = np.int64(sums[n_entries + entry])
        count = above & ((_ONE << (chunk_bits + 1)) - _ONE)
        if count > 0:
            gradient = ((above >> (chunk_bits + 1)) << cut) + np.int64(sums[entry])
            weight = np.int64(sums[3 * n_entries + entry])
            if same_weight >= 0:
                weight = same_weight * count
            second = (np.int64(sums[2 * n_entries + entry]) << HALF) + weight
            if is_alone:
                tree.histograms[slot, base + entry, 0] = (gradient << bits) + count
                tree.histograms[slot, base + entry, 1] = second
            else:
                add(tree.histograms, (slot, base + entry, 0), (gradient << bits) + count)
                add(tree.histograms, (slot, base + entry, 1), second)


@kernel
def add_up(tree: Any) -> None:
    """Add the rows of the smaller children to histograms, a chunk and a part of them at a time.

    A row's gradient is cut in two, so that sums of a chunk fit 32 bits; the rows are counted below
    its high part.
    """
    tray = Tray(shared_ints(), own_rows(), own_rows(), own_fields())
    n_parts, size = tree.numbers[N_PARTS], tree.state[CHUNK_ROWS]
    for item in range(block(), tree.state[ADD_CHUNKS] * n_parts, blocks()):
        chunk, part = item // n_parts, item % n_parts
        place = _listed(tree.counted, tree.state[N_COUNTED], chunk)
        node = tree.counted[place, NODE]
        own = tree.integers[node]
        features = _features_of(tree, node)[tree.parts[part] : tree.parts[part + 1]]
        base, last = features[0, OFFSET], features[features.shape[0] - 1]
        n_entries = last[OFFSET] + last[SIZE] - base
        for entry in range(thread(), PLANES * n_entries, threads()):
            tray.sums[entry] = 0
        meet()
        first = own[START] + (chunk - tree.counted[place, FIRST_CHUNK]) * size
        _add_chunk(tray, tree, node, first, min(first + size, own[STOP]), features, n_entries)
        meet()
        _hand_over(tray.sums, tree, own[SLOT], base, n_entries, _n_rows(own) <= size)
        meet()


# --- splits -------------------------------------------------------------------------------------


@on_device
def _bound(tree: Any, node: Any, limits: Any) -> None:
    """Write the limits of a node's splits."""
    for i in range(N_LIMITS):
        limits[i] = tree.numbers_real[i]
    limits[LOWER], limits[UPPER] = tree.reals[node, LOW], tree.reals[node, HIGH]


@on_device
def _may_meet(tree: Any, node: Any, feature: Any) -> Any:
    """Whether a feature is in a group with all those of a node's branch."""
    n_words = tree.feature_groups.shape[1]
    allowed = n_words == 0
    for word in range(n_words):
        allowed = allowed or tree.groups[node, word] & tree.feature_groups[feature, word] != 0
    return allowed


@on_device
def _sort_categories(part: Any, total: Any, units: Any, bits: Any, desk: Any) -> Any:
    """Categories with support in order of their ratios; returns how many. See `kernels.split`."""
    supported, n, ratios, order = _ZERO, part.shape[0], desk.ratios, desk.order
    smoothing = _smoothing(total, units, bits)
    meet_in_warp()
    for c in range(lane(), n, LANES):
        ratios[c] = np.inf
        if part[c, 0] & ((_ONE << bits) - _ONE) >= CATEGORY_SUPPORT:
            ratios[c] = _ratio(part[c], smoothing, units, bits)
            supported += 1
    meet_in_warp()
    for c in range(lane(), n, LANES):
        if ratios[c] < np.inf:
            place = 0
            for other in range(n):
                before = ratios[other] < ratios[c] or (ratios[other] == ratios[c] and other < c)
                place += 1 if before else 0
            order[place] = c
    meet_in_warp()
    _, n_supported = scan_of_warp(supported)
    return n_supported


@on_device
def _sum_bins(desk: Any, part: Any, n: Any, categorical: Any, from_end: Any) -> Any:
    """Sums of n bins up to each of this lane's, and of all; which of its bins are cut behind.

    Lanes have bins side by side. Categories come in their order, from its beginning or its end.
    """
    share = (n + LANES - 1) // LANES
    start = lane() * share
    sum_0 = sum_1 = _ZERO
    for k in range(BINS_EACH):
        desk.first[k] = desk.second[k] = _ZERO
        if k < share and start + k < n:
            b = start + k
            if categorical:
                b = np.int64(desk.order[n - 1 - b if from_end else b])
            desk.first[k], desk.second[k] = part[b, 0], part[b, 1]
        sum_0 += desk.first[k]
        sum_1 += desk.second[k]
    before_0, all_0 = scan_of_warp(sum_0)
    before_1, all_1 = scan_of_warp(sum_1)
    cuts = _ZERO
    for k in range(BINS_EACH):
        # a cut behind a bin without rows is the one before it
        is_new = categorical | (desk.first[k] != 0) | (start + k == 0)
        if is_new & (k < share) & (start + k < n):
            cuts |= _ONE << k
        before_0, before_1 = before_0 + desk.first[k], before_1 + desk.second[k]
        desk.first[k], desk.second[k] = before_0, before_1
    return start, cuts, all_0, all_1


@on_device
def _search_side(
    desk: Any,
    tree: Any,
    part: Any,
    own: Any,
    n: Any,
    n_missing: Any,
    categorical: Any,
    sign: Any,
    from_end: Any,
) -> Any:
    """The best of the cuts behind each of n bins: rank, number, and words on the left.

    With missing values on the left it tries each cut once more.
    """
    limits, units, bits = desk.limits, tree.numbers_real[UNITS:], tree.numbers[BITS]
    total = own[WORDS : WORDS + 2]
    least = np.int64(math.ceil(min(limits[MIN_SAMPLES_LEAF] / units[WEIGHT], _LARGE)))
    most = (total[1] & _LOW) - least
    least_n = np.int64(limits[MIN_SAMPLED])
    most_n = (total[0] & ((_ONE << bits) - _ONE)) - least_n
    l2, min_h = limits[L2] / units[HESSIAN], limits[MIN_CHILD_WEIGHT] / units[HESSIAN]
    g, h = np.float64(total[0] >> bits), np.float64(total[1] >> HALF)
    bounded = _is_bounded(units, limits, sign)
    start, cuts, all_0, all_1 = _sum_bins(desk, part, n, categorical, from_end)
    # nothing besides the sorted categories: the same sets from the end as from the beginning
    is_twin = from_end and (n == 0 or (all_0 == total[0] and all_1 == total[1]))
    best, number, best_0, best_1 = NEVER, _SIDE * 2, _ZERO, _ZERO
    for side in range(0 if is_twin else 1 + n_missing):
        more_0 = part[part.shape[0] - 1, 0] if side == 1 else _ZERO
        more_1 = part[part.shape[0] - 1, 1] if side == 1 else _ZERO
        for k in range(BINS_EACH):
            first, second = desk.first[k] + more_0, desk.second[k] + more_1
            if bounded:
                rank = _bounded_rank(
                    first, second, total, units, bits, limits, sign, min_h, least_n, most_n
                )
            else:
                rank = _plain_rank(first, second, g, h, bits, l2, min_h, least_n, most_n)
            weight = second & _LOW
            # of equals the first one stays, whose number is the smallest
            is_better = ((cuts >> k) & 1 != 0) & (least <= weight) & (weight <= most)
            if is_better & (rank > best):
                best, best_0, best_1 = rank, first, second
                number = start + k + (_SIDE if side == 1 or from_end else _ZERO)
    return best, number, best_0, best_1


@on_device
def _search(desk: Any, tree: Any, node: Any, f: Any) -> None:
    """The best split of a node by one feature; what `kernels.split.best_split_of` finds."""
    own, at, feature = tree.integers[node], node - tree.state[FIRST], _features_of(tree, node)[f]
    n_bins, categorical = feature[SIZE] - 1, feature[CATEGORICAL] != 0
    part = tree.histograms[own[SLOT], feature[OFFSET] : feature[OFFSET] + feature[SIZE]]
    total, units, bits = own[WORDS : WORDS + 2], tree.numbers_real[UNITS:], tree.numbers[BITS]
    limits, sign = desk.limits, np.float64(feature[MONOTONE])
    _bound(tree, node, limits)
    has_missing = part[n_bins, 0] != 0 or part[n_bins, 1] != 0
    n_missing = 1 if has_missing and not categorical else 0
    n = n_bins if has_missing or categorical else n_bins - 1
    if categorical:
        n = _sort_categories(part, total, units, bits, desk)
    given = desk, tree, part, own, n, n_missing, categorical, sign
    best, number, first, second = _search_side(*given, False)
    if categorical:
        other = _search_side(*given, True)
        if other[0] > best:
            best, number, first, second = other
    best_rank, best_number = best_of_warp(best, number)
    if best_rank == NEVER:
        if lane() == 0:
            tree.gains[at, f] = -np.inf
    elif number == best_number:
        gain, _ = _split_gain(first, second, total, units, bits, limits)
        gain = gain if gain < np.inf else -np.inf
        side, threshold = best_number // _SIDE, best_number % _SIDE
        if not categorical and not has_missing:
            # a missing value not seen here follows the larger side
            side = _ONE if 2 * (second & _LOW) >= (total[1] & _LOW) else _ZERO
        if categorical:
            gain -= _gain_by_chance(n, total, units, bits, limits)
        tree.gains[at, f] = gain
        tree.found[at, f, F_THRESHOLD], tree.found[at, f, F_SIDE] = threshold, side
        tree.found[at, f, F_FIRST], tree.found[at, f, F_SECOND] = first, second


@on_device
def _best_after(tree: Any, at: Any, gain: Any, place: Any) -> Any:
    """The feature of largest gain behind one in the order of gains: that gain and its place.

    As a place, −1 comes before all, and there are as many features as the place that is none.
    """
    n = np.int64(tree.features.shape[1])
    best, its = -np.inf, n
    for f in range(lane(), n, LANES):
        other = tree.gains[at, f]
        is_behind = place < 0 or other < gain or (other == gain and f > place)
        if is_behind and (other > best or its == n):
            best, its = other, np.int64(f)
    return best_of_warp(best, its)


@on_device
def _choose(desk: Any, tree: Any, sample: Any, node: Any) -> None:
    """Note the best split of a node, if it gains enough; by a warp."""
    own, at = tree.integers[node], node - tree.state[FIRST]
    gain, best = _best_after(tree, at, np.inf, np.int64(-1))
    total, units, bits = own[WORDS : WORDS + 2], tree.numbers_real[UNITS:], tree.numbers[BITS]
    least = _smallest_gain(total, units, bits, tree.numbers_real)
    if gain > max(tree.numbers_real[MIN_GAIN], least):
        feature, threshold = _features_of(tree, node)[best], tree.found[at, best, F_THRESHOLD]
        n_bins, side, table = feature[SIZE] - 1, tree.found[at, best, F_SIDE], tree.tables[node]
        categorical = feature[CATEGORICAL] != 0
        for b in range(lane(), TABLE, LANES):
            goes_left = side if b == n_bins else (_ONE if b <= threshold else _ZERO)
            table[b] = _ZERO if categorical else goes_left
        if categorical:
            part = tree.histograms[own[SLOT], feature[OFFSET] : feature[OFFSET] + feature[SIZE]]
            n = _sort_categories(part, total, units, bits, desk)
            for place in range(lane(), threshold + 1, LANES):
                table[desk.order[n - 1 - place if side else place]] = 1
            threshold = np.int64(-1)
        meet_in_warp()
        if tree.numbers[ROLE] == DECIDES_ON_PROPOSALS:
            _note_left(sample, node, feature[PLACE], table)
        if lane() == 0:
            own[FEATURE], own[THRESHOLD], own[POSITION] = feature[INDEX], threshold, best
            own[OPEN], tree.reals[node, GAIN] = 1, gain
            own[LEFT_WORDS] = tree.found[at, best, F_FIRST]
            own[LEFT_WORDS + 1] = tree.found[at, best, F_SECOND]


@on_device
def _note_left(sample: Any, node: Any, f: Any, table: Any) -> None:
    """Note what goes left of the sample's rows of a node where all rows have decided; by a warp."""
    own, feature = sample.integers[node], sample.features[0, f]
    part = sample.histograms[own[SLOT], feature[OFFSET] : feature[OFFSET] + feature[SIZE]]
    first = second = _ZERO
    for b in range(lane(), feature[SIZE], LANES):
        if table[b]:
            first, second = first + part[b, 0], second + part[b, 1]
    _, first = scan_of_warp(first)
    _, second = scan_of_warp(second)
    if lane() == 0:
        own[FEATURE], own[LEFT_WORDS], own[LEFT_WORDS + 1] = feature[INDEX], first, second


@on_device
def _propose(tree: Any, all_rows: Any, node: Any) -> None:
    """Propose the features of largest gain to all rows of a node, if any gains; by a warp."""
    at, its, proposed = node - tree.state[FIRST], all_rows.integers[node], all_rows.features
    gain, f = np.inf, np.int64(-1)
    for k in range(proposed.shape[1]):
        gain, f = _best_after(tree, at, gain, f)
        if lane() == 0:
            for column in range(N_FEATURE):
                proposed[at, k, column] = tree.features[0, f, column]
            proposed[at, k, OFFSET], proposed[at, k, PLACE] = k * TABLE, f
            if k == 0 and gain > -np.inf:
                its[WANTED], its[SLOT], all_rows.searched[at] = 1, at, 0


@on_device
def _is_last(tree: Any, at: Any) -> Any:
    """Whether all other warps have found the best split of a new node by their features."""
    publish()
    meet_in_warp()
    n_before = _ZERO
    if lane() == 0:
        n_before = np.int64(add(tree.searched, at, 1))
    _, n_before = scan_of_warp(n_before)
    publish()
    return n_before == tree.features.shape[1] - 1


@on_device
def _subtract(tree: Any, node: Any, start: Any, size: Any) -> None:
    """Take the sums of the smaller child of a pair from the parent's, which become the larger's."""
    sibling = node + 1 if node & 1 else node - 1
    more = tree.histograms[tree.integers[node, SLOT]]
    less = tree.histograms[tree.integers[sibling, SLOT]]
    for k in range(BINS_EACH):
        b = start + k * LANES + lane()
        if b < start + size:
            more[b, 0] -= less[b, 0]
            more[b, 1] -= less[b, 1]
    meet_in_warp()


@kernel
def search(tree: Any, other: Any) -> None:
    """The best splits of new nodes: each warp looks at a feature, the last of a node at all.

    `other` are all rows where the sample proposes, and the sample where all rows decide.
    """
    ratios, order = shared_reals_of_bins(), shared_bins()
    desk = Desk(ratios[warp()], order[warp()], own_limits(), own_words(), own_words())
    n_features, step = np.int64(tree.features.shape[1]), blocks() * WARPS
    for item in range(block() * WARPS + warp(), tree.state[N_NEW] * n_features, step):
        node, f = tree.state[FIRST] + item // n_features, item % n_features
        own = tree.integers[node]
        if own[WANTED]:
            feature = _features_of(tree, node)[f]
            if not own[IS_SMALLER]:
                _subtract(tree, node, feature[OFFSET], feature[SIZE])
            if _may_meet(tree, node, feature[INDEX]):
                _search(desk, tree, node, f)
            elif lane() == 0:
                tree.gains[node - tree.state[FIRST], f] = -np.inf
            if _is_last(tree, node - tree.state[FIRST]):
                if tree.numbers[ROLE] == PROPOSES:
                    _propose(tree, other, node)
                else:
                    _choose(desk, tree, other, node)


# --- nodes --------------------------------------------------------------------------------------


@on_device
def _clear(tree: Any, node: Any) -> None:
    own = tree.integers[node]
    for column in range(N_INTEGERS):
        own[column] = 0
    own[FEATURE] = own[THRESHOLD] = own[LEFT] = -1
    tree.tests[node], tree.reals[node, GAIN] = LEAF, 0.0
    tree.reals[node, LOW], tree.reals[node, HIGH] = -np.inf, np.inf


@kernel
def begin(tree: Any) -> None:
    """Empty histograms, and a root that holds all rows."""
    n_entries = tree.histograms.shape[1]
    for i in each(tree.histograms.shape[0] * n_entries):
        tree.histograms[i // n_entries, i % n_entries, 0] = 0
        tree.histograms[i // n_entries, i % n_entries, 1] = 0
    if block() == 0 and thread() == 0:
        _clear(tree, _ZERO)
        root, state = tree.integers[0], tree.state
        for entry in range(N_STATE):
            state[entry] = 0
        state[N_NODES] = state[N_LEAVES] = state[N_NEW] = 1
        root[STOP], root[IS_SMALLER] = tree.numbers[N_ROWS], 1
        root[WORDS], root[WORDS + 1] = tree.total[0], tree.total[1]
        for word in range(tree.groups.shape[1]):
            tree.groups[0, word] = -1
        if tree.numbers[ROLE] != DECIDES_ON_PROPOSALS:
            root[WANTED], tree.searched[0] = 1, 0
            tree.counted[0, NODE] = tree.counted[0, FIRST_CHUNK] = 0
            state[N_COUNTED], state[CHUNK_ROWS] = 1, _chunk_rows(tree, _n_rows(root))
            state[ADD_CHUNKS] = _parts_of(_n_rows(root), state[CHUNK_ROWS])


@on_device
def _part(tree: Any, node: Any, left: Any, n_leaves: Any) -> None:
    """Make the children of a node: their rows, and what these add up to."""
    own, rows = tree.integers[node], (_ONE << tree.numbers[BITS]) - _ONE
    n_left = own[LEFT_WORDS] & rows
    small = left + 1 if 2 * n_left > own[WORDS] & rows else left
    for child in range(left, left + 2):
        _clear(tree, child)
        its = tree.integers[child]
        its[DEPTH], its[BUFFER] = own[DEPTH] + 1, 1 - own[BUFFER]
        its[IS_SMALLER] = 1 if child == small else 0
        its[SLOT] = n_leaves - 1 if child == small else own[SLOT]
        its[START] = own[START] if child == left else own[START] + n_left
        its[STOP] = own[START] + n_left if child == left else own[STOP]
        for word in range(2):
            of_left = own[LEFT_WORDS + word]
            its[WORDS + word] = of_left if child == left else own[WORDS + word] - of_left
    own[LEFT], own[OPEN] = left, 0
    own[TO_LEFT], own[TO_RIGHT] = own[START], own[START] + n_left


@on_device
def _is_worth_it(tree: Any, sample: Any, child: Any, n_leaves: Any) -> Any:
    """Whether a node may be split, by the rows that decide and the number of drawn ones."""
    its, units = tree.integers[child], tree.numbers_real[UNITS:]
    drawn = sample.integers[child, WORDS] & ((_ONE << sample.numbers[BITS]) - _ONE)
    weight = (its[WORDS + 1] & _LOW) * units[WEIGHT]
    is_open = n_leaves < tree.numbers[MAX_LEAVES] and its[DEPTH] < tree.numbers[MAX_DEPTH]
    return is_open and drawn >= 2 and weight >= 2 * tree.numbers_real[MIN_SAMPLES_LEAF]


@on_device
def _make_children(limits: Any, tree: Any, sample: Any, node: Any, number: Any) -> Any:
    """Make the children of a node, the split of this number; whether one may be split again."""
    own, left = tree.integers[node], tree.state[N_NODES] + 2 * number
    n_leaves = tree.state[N_LEAVES] + number + 1
    units, bits = tree.numbers_real[UNITS:], tree.numbers[BITS]
    _bound(tree, node, limits)
    _part(tree, node, left, n_leaves)
    if tree.numbers[ROLE] == DECIDES_ON_PROPOSALS:
        _part(sample, node, left, n_leaves)
    middle, any_wanted = 0.0, False
    for child in range(left, left + 2):
        for column in (LOW, HIGH):
            tree.reals[child, column] = tree.reals[node, column]
        for word in range(tree.groups.shape[1]):
            common = tree.groups[node, word] & tree.feature_groups[own[FEATURE], word]
            tree.groups[child, word] = common
        middle += _leaf_value(tree.integers[child, WORDS : WORDS + 2], units, bits, limits)
        if _is_worth_it(tree, sample, child, n_leaves):
            sample.integers[child, WANTED], any_wanted = 1, True
            sample.searched[child - tree.state[N_NODES]] = 0
        if tree.numbers[ROLE] == DECIDES_ON_PROPOSALS:
            tree.integers[child, IS_SMALLER] = 1
    feature, table = _features_of(tree, node)[own[POSITION]], tree.tables[node]
    missing, in_table = feature[SIZE] - 1, feature[CATEGORICAL]
    tree.tests[node] = test_of(
        left, own[FEATURE], own[THRESHOLD], missing, np.int64(table[missing]), in_table
    )
    sign = feature[MONOTONE]
    if sign != 0:
        below, above = (left, left + 1) if sign > 0 else (left + 1, left)
        tree.reals[below, HIGH] = tree.reals[above, LOW] = middle / 2
    return any_wanted


@in_place
def _plan_parts(tree: Any, n: Any) -> None:
    """Set the rows of so many split nodes out, in chunks; by one block."""
    n_chunks = _ZERO
    for start in range(0, n, threads()):
        here, chunks = start + thread(), _ZERO
        if here < n:
            chunks = _parts_of(_n_rows(tree.integers[tree.parents[here, NODE]]), _batch())
        before, more = scan_of_block(chunks)
        if here < n:
            tree.parents[here, FIRST_CHUNK] = n_chunks + before
        n_chunks += more
    if thread() == 0:
        tree.state[N_PARENTS], tree.state[PART_CHUNKS] = n, n_chunks


@in_place
def _plan_adds(tree: Any, n: Any) -> None:
    """Set the rows of so many nodes out to be added up, in chunks; by one block."""
    n_rows = n_chunks = _ZERO
    for start in range(0, n, threads()):
        here, rows = start + thread(), _ZERO
        if here < n:
            rows = _n_rows(tree.integers[tree.counted[here, NODE]])
        _, rows = scan_of_block(rows)
        n_rows += rows
    size = _chunk_rows(tree, n_rows)
    for start in range(0, n, threads()):
        here, chunks = start + thread(), _ZERO
        if here < n:
            chunks = _parts_of(_n_rows(tree.integers[tree.counted[here, NODE]]), size)
        before, more = scan_of_block(chunks)
        if here < n:
            tree.counted[here, FIRST_CHUNK] = n_chunks + before
        n_chunks += more
    if thread() == 0:
        tree.state[N_COUNTED], tree.state[ADD_CHUNKS] = n, n_chunks
        tree.state[CHUNK_ROWS] = size


@in_place
def _batch_to_split(tree: Any) -> Any:
    """The first of the nodes to be split next, and of how many: the best one, or all new ones."""
    state = tree.state
    first, n = state[FIRST], state[N_NEW]
    if tree.numbers[IS_BEST_FIRST]:
        gain, best = -np.inf, np.int64(state[N_NODES])
        for node in range(thread(), state[N_NODES], threads()):
            if tree.integers[node, OPEN] and tree.reals[node, GAIN] > gain:
                gain, best = tree.reals[node, GAIN], np.int64(node)
        _, first = best_of_block(gain, best)
        n = min(_ONE, state[N_NODES] - first)
    return first, n if state[N_LEAVES] < tree.numbers[MAX_LEAVES] else _ZERO


@kernel
def decide(tree: Any, sample: Any) -> None:
    """Make the children of the nodes that are split next; by one block.

    `tree` are the rows that decide, and `sample` those that propose; or both are the same.
    """
    if block() == 0:
        state, looks_twice = tree.state, tree.numbers[ROLE] == DECIDES_ON_PROPOSALS
        first, n_waiting = _batch_to_split(tree)
        n_splits, n_pairs, limits = _ZERO, _ZERO, own_limits()
        for start in range(0, n_waiting, threads()):
            node = first + start + thread()
            waits = start + thread() < n_waiting and tree.integers[node, OPEN] != 0
            before, n_here = scan_of_block(_ONE if waits else _ZERO)
            moves = False
            if waits:
                moves = _make_children(limits, tree, sample, node, n_splits + before)
            at, n_moving = scan_of_block(_ONE if moves else _ZERO)
            if moves:
                left = tree.integers[node, LEFT]
                smaller = left if sample.integers[left, IS_SMALLER] else left + 1
                tree.parents[n_pairs + at, NODE] = sample.parents[n_pairs + at, NODE] = node
                sample.counted[n_pairs + at, NODE] = smaller
            n_splits, n_pairs = n_splits + n_here, n_pairs + n_moving
        meet()
        _plan_parts(tree, n_pairs)
        if looks_twice:
            _plan_parts(sample, n_pairs)
        _plan_adds(sample, n_pairs)
        meet()
        if thread() == 0:
            state[FIRST], state[N_NEW] = state[N_NODES], 2 * n_splits
            state[N_NODES] += 2 * n_splits
            state[N_LEAVES] += n_splits
            if looks_twice:
                for entry in (FIRST, N_NEW, N_NODES, N_LEAVES):
                    sample.state[entry] = state[entry]


@kernel
def plan(tree: Any) -> None:
    """Set all rows of the new nodes for which features were proposed out; by one block."""
    if block() == 0:
        n = _ZERO
        for start in range(0, tree.state[N_NEW], threads()):
            node = tree.state[FIRST] + start + thread()
            is_wanted = start + thread() < tree.state[N_NEW] and tree.integers[node, WANTED] != 0
            before, n_here = scan_of_block(_ONE if is_wanted else _ZERO)
            if is_wanted:
                tree.counted[n + before, NODE] = node
            n += n_here
        meet()
        _plan_adds(tree, n)
