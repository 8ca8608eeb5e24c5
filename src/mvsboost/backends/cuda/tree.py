"""Kernel: a whole tree in one launch, whose blocks meet between the steps.

The same steps as the grower above the backends, for a batch of nodes at a time: one node where
the tree grows best-first, a level where it grows level by level.

1. `_collect`: blocks take chunks of the rows of split nodes, and a part of the features each; they
   send the rows to the children, and add those of the smaller child to sums in shared memory,
   which are added to its histogram in the end.
2. `_search`: blocks take features; the larger child's histogram is its parent's less the smaller's,
   and both are searched, a thread a bin.
3. `_choose`: blocks take nodes, and note the best split of each.
4. `_schedule`: one block decides which nodes are split next, and makes their children.

Sums are integers, so neither the order of rows in a node nor the number of blocks changes anything.
Splits are ranked by the formulas of `kernels.split`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mvsboost.backends.cuda.device import (
    SHARED_INTS,
    SIMULATED,
    add,
    block,
    blocks,
    each,
    formula,
    meet,
    meet_all,
    on_device,
    thread,
    threads,
    times,
    whole_kernel,
)
from mvsboost.exact.dtypes import TABLE
from mvsboost.exact.fixedpoint import HALF, QUARTER
from mvsboost.kernels import split
from mvsboost.kernels.split import (
    CATEGORY_NOISE,
    CATEGORY_SUPPORT,
    DISPERSION,
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
_drawn_rows, _ratio = formula(split.drawn_rows), formula(split.category_ratio)
_smoothing = formula(split.category_smoothing)

ROWS_EACH = 4 if SIMULATED else 16
"""Rows of a chunk that a thread takes, side by side."""

_PLANES = 5
"""Sums in shared memory of each bin: low and high half of the gradient, hessian, weight, rows."""

PART_ENTRIES = SHARED_INTS // _PLANES
"""Bins of the features that a block adds up at a time."""

_ONE = np.int64(1)
_LOW = np.int64(0xFFFFFFFF)
_LOW_HALF = np.int64(0xFFFF)
_LARGE = float(1 << 40)
_SIDE = np.int64(2 * TABLE)  # in the number of a cut: those of the second side come later

# columns of the integers of a node
FEATURE, THRESHOLD, LEFT, DEPTH = range(4)
START, STOP, BUFFER = 4, 5, 6
"""Its rows: from where to where in which of the two orders."""
SLOT, OPEN, WANTED, SMALL = 7, 8, 9, 10
"""Where its histogram lies; whether it waits to be split; whether it may be; its smaller child."""
SIDE, POSITION = 11, 12
WORDS, LEFT_WORDS = 13, 15
TO_LEFT, TO_RIGHT = 17, 18
"""Where the next rows that go to a child are put."""
N_INTEGERS = 19

# columns of its reals
GAIN, LOW, HIGH = range(3)
N_REALS = 3

# the state of the tree
N_NODES, N_LEAVES, FIRST, N_NEW, N_PAIRS, N_CHUNKS, IS_DONE = range(7)
"""The nodes that are new, and how many of them; pairs of children that have rows to move."""
N_STATE = 7

# columns of what is known of a feature, and numbers that a tree is grown with
INDEX, OFFSET, SIZE, CATEGORICAL, MONOTONE = range(5)
BITS, MAX_LEAVES, MAX_DEPTH, IS_BEST_FIRST = range(4)

MIN_GAIN = N_LIMITS
"""Behind the limits of a look."""

# columns of what is found for a node and a feature
F_THRESHOLD, F_SIDE, F_FIRST, F_SECOND = range(4)


class Growth(NamedTuple):
    """All that a tree is grown from, and in.

    Attributes
    ----------
    bins : (rows, bytes of a row)
    words : (rows,)
    order : (2, rows)
        Two orders of the rows; a node's lie side by side in one of them.
    histograms : (leaves, bins, 2)
    integers, reals, tables : (nodes, columns)
        Of nodes; tables say which bins go left.
    groups : (nodes, words)
        Groups that all features of the branch are in.
    pairs : (leaves + 1, 2)
        Split nodes whose rows move, and their first chunk.
    gains, found : (nodes, features), (nodes, features, 4)
        The best split of each new node.
    features : (features, 5)
    parts : (parts + 1,)
        First feature of each part that blocks add up.
    feature_groups : (all features, words)
    limits, units, numbers
    total : (2,)
        Packed words of all rows.
    state : (7,)
    arrived : (1,)
        How many blocks have come to meet; 0 at first.
    """

    bins: Any
    words: Any
    order: Any
    histograms: Any
    integers: Any
    reals: Any
    tables: Any
    groups: Any
    pairs: Any
    gains: Any
    found: Any
    features: Any
    parts: Any
    feature_groups: Any
    limits: Any
    units: Any
    numbers: Any
    total: Any
    state: Any
    arrived: Any


# --- over a block -------------------------------------------------------------------------------


@on_device
def _scan(value: Any, room: Any) -> Any:
    """The sum of an int64 over the threads before this one, and over all; each must ask."""
    t, n = thread(), threads()
    room[t] = value
    meet()
    step = 1
    while step < n:
        more = room[t - step] if t >= step else np.int64(0)
        meet()
        room[t] += more
        meet()
        step *= 2
    before, total = room[t] - value, room[n - 1]
    meet()
    return before, total


@on_device
def _best_of_block(rank: Any, tag: Any, ranks: Any, tags: Any) -> Any:
    """The largest rank over all threads, and the smallest tag that has it; each must ask."""
    t, half = thread(), threads() >> 1
    ranks[t], tags[t] = rank, tag
    meet()
    while half > 0:
        if t < half:
            other, its_tag = ranks[t + half], tags[t + half]
            if other > ranks[t] or (other == ranks[t] and its_tag < tags[t]):
                ranks[t], tags[t] = other, its_tag
        meet()
        half >>= 1
    best, its = ranks[0], tags[0]
    meet()
    return best, its


# --- rows ---------------------------------------------------------------------------------------


@on_device
def _collect(scratch: Any, tree: Any, item: Any) -> None:
    """Part a chunk of a split node's rows, and add up those of its smaller child.

    All are added up at the root, which is no child.
    """
    n_parts = tree.parts.shape[0] - 1
    chunk, part = item // n_parts, item % n_parts
    t, room, sums = thread(), scratch.words, scratch.ints
    at_root = tree.state[N_NODES] == 1
    for i in range(t, tree.state[N_PAIRS], threads()):
        if tree.pairs[i, 1] <= chunk < tree.pairs[i + 1, 1]:
            room[0] = i
    low, high = tree.parts[part], tree.parts[part + 1]
    base = tree.features[low, OFFSET]
    n_entries = tree.features[high - 1, OFFSET] + tree.features[high - 1, SIZE] - base
    for i in range(t, _PLANES * n_entries, threads()):
        sums[i] = 0
    meet()
    pair = room[0]
    meet()
    node = tree.pairs[pair, 0]
    own = tree.integers[node]
    buffer, feature = own[BUFFER], own[FEATURE]
    slot = own[SLOT] if at_root else tree.integers[own[SMALL], SLOT]
    counts_left = own[SMALL] == own[LEFT]
    chunk_start = own[START] + (chunk - tree.pairs[pair, 1]) * ROWS_EACH * threads()
    chunk_stop = min(chunk_start + ROWS_EACH * threads(), own[STOP])
    lefts, sides, first = np.int64(0), np.int64(0), chunk_start + t * ROWS_EACH
    for k in range(ROWS_EACH):
        if first + k < chunk_stop:
            # nothing was moved before the root's rows are
            row = np.int64(tree.order[buffer, first + k]) if node > 0 else first + k
            goes_left = not at_root and tree.tables[node, tree.bins[row, feature]] != 0
            if goes_left:
                lefts += 1
                sides |= _ONE << k
            if at_root or goes_left == counts_left:
                word = tree.words[row]
                gradient, weight = word >> HALF, np.int32(word & _LOW_HALF)
                hessian = np.int32((word >> QUARTER) & _LOW_HALF)
                low_part, high_part = np.int32(gradient & _LOW_HALF), np.int32(gradient >> QUARTER)
                for f in range(low, high):
                    at = tree.features[f, OFFSET] - base + tree.bins[row, tree.features[f, INDEX]]
                    add(sums, at, low_part)
                    add(sums, n_entries + at, high_part)
                    add(sums, 2 * n_entries + at, hessian)
                    add(sums, 3 * n_entries + at, weight)
                    add(sums, 4 * n_entries + at, np.int32(1))
    if part == 0 and not at_root:
        before, all_lefts = _scan(lefts, room)
        if t == 0:
            room[0] = add(tree.integers, (node, TO_LEFT), all_lefts)
            room[1] = add(tree.integers, (node, TO_RIGHT), chunk_stop - chunk_start - all_lefts)
        meet()
        left, right = room[0] + before, room[1] + first - chunk_start - before
        for k in range(ROWS_EACH):
            if first + k < chunk_stop:
                row = tree.order[buffer, first + k] if node > 0 else np.uint32(first + k)
                if (sides >> k) & _ONE:
                    tree.order[1 - buffer, left] = row
                    left += 1
                else:
                    tree.order[1 - buffer, right] = row
                    right += 1
    meet()
    bits = tree.numbers[BITS]
    for i in range(t, n_entries, threads()):
        n = np.int64(sums[4 * n_entries + i])
        if n > 0:
            gradient = (np.int64(sums[n_entries + i]) << QUARTER) + np.int64(sums[i])
            second = (np.int64(sums[2 * n_entries + i]) << HALF) + np.int64(sums[3 * n_entries + i])
            add(tree.histograms, (slot, base + i, 0), (gradient << bits) + n)
            add(tree.histograms, (slot, base + i, 1), second)
    meet()


# --- splits -------------------------------------------------------------------------------------


@on_device
def _bound(scratch: Any, tree: Any, node: Any) -> None:
    """Write the limits of a node's splits."""
    limits = scratch.limits
    for i in range(N_LIMITS):
        limits[i] = tree.limits[i]
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
def _sort_categories(
    part: Any, n_bins: Any, total: Any, units: Any, bits: Any, ratios: Any, order: Any
) -> Any:
    """Categories with support in order of their ratios; returns how many. See `kernels.split`."""
    t, supported = thread(), np.int64(0)
    smoothing = _smoothing(total, units, bits)
    for c in range(t, n_bins + 1, threads()):
        ratios[c] = np.inf
        if part[c, 0] & ((_ONE << bits) - _ONE) >= CATEGORY_SUPPORT:
            ratios[c] = _ratio(part[c], smoothing, units, bits)
            supported += 1
    meet()
    for c in range(t, n_bins + 1, threads()):
        if ratios[c] < np.inf:
            place = 0
            for other in range(n_bins + 1):
                before = ratios[other] < ratios[c] or (ratios[other] == ratios[c] and other < c)
                place += 1 if before else 0
            order[place] = c
    meet()
    return supported


@on_device
def _search(scratch: Any, tree: Any, node: Any, f: Any) -> None:
    """The best split of a node by one feature; what `kernels.split.best_split_of` finds."""
    t, n_threads, room = thread(), threads(), scratch.words
    ranks, tags, order = room[:n_threads], room[n_threads:], room[2 * n_threads :]
    own, at = tree.integers[node], node - tree.state[FIRST]
    feature, offset = tree.features[f], tree.features[f, OFFSET]
    if not _may_meet(tree, node, feature[INDEX]):
        if t == 0:
            tree.gains[at, f] = -np.inf
        return
    n_bins, categorical = feature[SIZE] - 1, feature[CATEGORICAL] != 0
    part = tree.histograms[own[SLOT], offset : offset + n_bins + 1]
    total, units, bits = own[WORDS : WORDS + 2], tree.units, tree.numbers[BITS]
    limits, sign = scratch.limits, np.float64(feature[MONOTONE])
    _bound(scratch, tree, node)
    missing_0, missing_1 = part[n_bins, 0], part[n_bins, 1]
    two_sides = categorical or missing_0 != 0 or missing_1 != 0
    n_cuts = n_positions = n_bins if two_sides else n_bins - 1
    if categorical:
        mine = _sort_categories(part, n_bins, total, units, bits, scratch.reals, order)
        _, n_positions = _scan(mine, ranks)
        n_cuts = n_positions
    # what every candidate is held against
    least = np.int64(math.ceil(min(limits[MIN_SAMPLES_LEAF] / units[WEIGHT], _LARGE)))
    most = (total[1] & _LOW) - least
    least_n = np.int64(limits[MIN_SAMPLED])
    most_n = (total[0] & ((_ONE << bits) - _ONE)) - least_n
    l2, min_h = limits[L2] / units[HESSIAN], limits[MIN_CHILD_WEIGHT] / units[HESSIAN]
    g, h = np.float64(total[0] >> bits), np.float64(total[1] >> HALF)
    bounded = _is_bounded(units, limits, sign)
    best, tag, best_0, best_1 = NEVER, _SIDE * 2, np.int64(0), np.int64(0)
    share = (n_positions + n_threads - 1) // n_threads
    start, stop = min(t * share, n_positions), min((t + 1) * share, n_positions)
    for mirrored in range(2 if categorical else 1):
        sum_0 = sum_1 = np.int64(0)
        for position in range(start, stop):
            b = position
            if categorical:
                b = order[n_positions - 1 - position if mirrored else position]
            sum_0 += part[b, 0]
            sum_1 += part[b, 1]
        before_0, all_0 = _scan(sum_0, ranks)
        before_1, all_1 = _scan(sum_1, ranks)
        if mirrored and (n_positions == 0 or (all_0 == total[0] and all_1 == total[1])):
            break  # nothing besides the sorted categories: the same sets, left and right
        for position in range(start, stop):
            b = position
            if categorical:
                b = order[n_positions - 1 - position if mirrored else position]
            before_0 += part[b, 0]
            before_1 += part[b, 1]
            # a cut behind a bin without rows is the one before it
            if position >= n_cuts or not (categorical or part[b, 0] != 0 or position == 0):
                continue
            for with_missing in range(2 if two_sides and not categorical else 1):
                first, second = before_0, before_1
                if with_missing:
                    first += missing_0
                    second += missing_1
                rank = NEVER
                if least <= second & _LOW <= most:
                    if bounded:
                        rank = _bounded_rank(
                            first, second, total, units, bits, limits, sign, min_h, least_n, most_n
                        )
                    else:
                        rank = _plain_rank(first, second, g, h, bits, l2, min_h, least_n, most_n)
                number = np.int64(position) + (_SIDE if with_missing or mirrored else np.int64(0))
                if rank > best or (rank == best and number < tag and rank > NEVER):
                    best, tag, best_0, best_1 = rank, number, first, second
    best_rank, best_tag = _best_of_block(best, tag, ranks, tags)
    if best_rank == NEVER:
        if t == 0:
            tree.gains[at, f] = -np.inf
    elif tag == best_tag:
        gain, _ = _split_gain(best_0, best_1, total, units, bits, limits)
        gain = gain if gain < np.inf else -np.inf
        side, threshold = best_tag // _SIDE, best_tag % _SIDE
        if not two_sides:  # a missing value not seen here follows the larger side
            side = _ONE if 2 * (best_1 & _LOW) >= (total[1] & _LOW) else np.int64(0)
        if categorical:
            weight = (total[1] & _LOW) * units[WEIGHT] / _drawn_rows(total, bits)
            noise = times(times(CATEGORY_NOISE, limits[DISPERSION]), weight)
            gain -= times(n_positions, noise)
        tree.gains[at, f] = gain
        tree.found[at, f, F_THRESHOLD], tree.found[at, f, F_SIDE] = threshold, side
        tree.found[at, f, F_FIRST], tree.found[at, f, F_SECOND] = best_0, best_1
    meet()


@on_device
def _search_pair(scratch: Any, tree: Any, item: Any) -> None:
    """The best splits of the children of a node by one feature; at the root, of the root."""
    n_features = tree.features.shape[0]
    parent, f = tree.pairs[item // n_features, 0], item % n_features
    if tree.state[N_NODES] == 1:
        _search(scratch, tree, parent, f)
        return
    small, left = tree.integers[parent, SMALL], tree.integers[parent, LEFT]
    large = left + left + 1 - small
    if tree.integers[small, WANTED]:
        _search(scratch, tree, small, f)
    if tree.integers[large, WANTED]:
        slot, less = tree.integers[large, SLOT], tree.integers[small, SLOT]
        start = tree.features[f, OFFSET]
        for b in range(start + thread(), start + tree.features[f, SIZE], threads()):
            tree.histograms[slot, b, 0] -= tree.histograms[less, b, 0]
            tree.histograms[slot, b, 1] -= tree.histograms[less, b, 1]
        meet()
        _search(scratch, tree, large, f)


@on_device
def _choose(scratch: Any, tree: Any, node: Any) -> None:
    """Note the best split of a node, if it gains enough."""
    t, n_threads, room, own = thread(), threads(), scratch.words, tree.integers[node]
    at, n_features = node - tree.state[FIRST], tree.features.shape[0]
    reals, tags, order = scratch.reals, room[:n_threads], room[n_threads:]
    gain, best = -np.inf, np.int64(n_features)
    for f in range(t, n_features, n_threads):
        if tree.gains[at, f] > gain:
            gain, best = tree.gains[at, f], np.int64(f)
    gain, best = _best_of_block(gain, best, reals, tags)
    total, units, bits = own[WORDS : WORDS + 2], tree.units, tree.numbers[BITS]
    enough = max(tree.limits[MIN_GAIN], _smallest_gain(total, units, bits, tree.limits))
    if best == n_features or not gain > enough:
        return
    feature, threshold = tree.features[best], tree.found[at, best, F_THRESHOLD]
    n_bins, side, table = feature[SIZE] - 1, tree.found[at, best, F_SIDE], tree.tables[node]
    categorical = feature[CATEGORICAL] != 0
    for b in range(t, TABLE, n_threads):
        table[b] = 1 if b <= threshold and not categorical else 0
        if b == n_bins and not categorical:
            table[b] = side
    if categorical:
        part = tree.histograms[own[SLOT], feature[OFFSET] : feature[OFFSET] + n_bins + 1]
        mine = _sort_categories(part, n_bins, total, units, bits, scratch.reals, order)
        _, n = _scan(mine, tags)
        for place in range(t, threshold + 1, n_threads):
            table[order[n - 1 - place if side else place]] = 1
    if t == 0:
        own[FEATURE], own[THRESHOLD] = feature[INDEX], -1 if categorical else threshold
        own[SIDE], own[POSITION], own[OPEN], tree.reals[node, GAIN] = side, best, 1, gain
        own[LEFT_WORDS] = tree.found[at, best, F_FIRST]
        own[LEFT_WORDS + 1] = tree.found[at, best, F_SECOND]
    meet()


# --- nodes --------------------------------------------------------------------------------------


@on_device
def _clear(tree: Any, node: Any) -> None:
    own = tree.integers[node]
    for column in range(N_INTEGERS):
        own[column] = 0
    own[FEATURE] = own[THRESHOLD] = own[LEFT] = -1
    tree.reals[node, GAIN] = 0.0
    tree.reals[node, LOW], tree.reals[node, HIGH] = -np.inf, np.inf


@on_device
def _begin(tree: Any) -> None:
    """A root that holds all rows, and nothing else."""
    _clear(tree, 0)
    root, state = tree.integers[0], tree.state
    root[STOP], root[WANTED] = tree.words.shape[0], 1
    root[WORDS], root[WORDS + 1] = tree.total[0], tree.total[1]
    for word in range(tree.groups.shape[1]):
        tree.groups[0, word] = -1
    state[N_NODES] = state[N_LEAVES] = state[N_NEW] = state[N_PAIRS] = 1
    state[FIRST] = state[IS_DONE] = 0
    tree.pairs[0, 0] = tree.pairs[0, 1] = 0
    state[N_CHUNKS] = tree.pairs[1, 1] = _chunks(root)


@on_device
def _chunks(own: Any) -> Any:
    size = ROWS_EACH * threads()
    return (own[STOP] - own[START] + size - 1) // size


@on_device
def _make_children(scratch: Any, tree: Any, node: Any, number: Any) -> Any:
    """Make the children of a node, the split of this number; whether one may be split again."""
    own, left = tree.integers[node], tree.state[N_NODES] + 2 * number
    n_leaves = tree.state[N_LEAVES] + number + 1
    own[LEFT], own[OPEN] = left, 0
    limits, rows = scratch.limits, (_ONE << tree.numbers[BITS]) - _ONE
    _bound(scratch, tree, node)
    middle, n_left = 0.0, own[LEFT_WORDS] & rows
    small = left + 1 if 2 * n_left > own[WORDS] & rows else left
    any_wanted = False
    for child in range(left, left + 2):
        _clear(tree, child)
        its = tree.integers[child]
        its[DEPTH], its[BUFFER] = own[DEPTH] + 1, 1 - own[BUFFER]
        its[SLOT] = n_leaves - 1 if child == small else own[SLOT]
        its[START] = own[START] if child == left else own[START] + n_left
        its[STOP] = own[START] + n_left if child == left else own[STOP]
        for word in range(2):
            of_left = own[LEFT_WORDS + word]
            its[WORDS + word] = of_left if child == left else own[WORDS + word] - of_left
        for column in (LOW, HIGH):
            tree.reals[child, column] = tree.reals[node, column]
        for word in range(tree.groups.shape[1]):
            common = tree.groups[node, word] & tree.feature_groups[own[FEATURE], word]
            tree.groups[child, word] = common
        middle += _leaf_value(its[WORDS : WORDS + 2], tree.units, tree.numbers[BITS], limits)
        weight = (its[WORDS + 1] & _LOW) * tree.units[WEIGHT]
        if (
            n_leaves < tree.numbers[MAX_LEAVES]
            and its[DEPTH] < tree.numbers[MAX_DEPTH]
            and its[WORDS] & rows >= 2
            and weight >= 2 * limits[MIN_SAMPLES_LEAF]
        ):
            its[WANTED], any_wanted = 1, True
    own[SMALL], own[TO_LEFT], own[TO_RIGHT] = small, own[START], own[START] + n_left
    sign = tree.features[own[POSITION], MONOTONE]
    if sign != 0:
        below, above = (left, left + 1) if sign > 0 else (left + 1, left)
        tree.reals[below, HIGH] = tree.reals[above, LOW] = middle / 2
    return any_wanted


@on_device
def _schedule(scratch: Any, tree: Any) -> None:
    """Make the children of the node of largest gain, or of all that wait; by one block."""
    t, n_threads, room, state = thread(), threads(), scratch.words, tree.state
    first, n_new = state[FIRST], state[N_NEW]
    n_splits = n_pairs = n_chunks = np.int64(0)
    if state[N_LEAVES] < tree.numbers[MAX_LEAVES]:
        if tree.numbers[IS_BEST_FIRST]:
            gain, best = -np.inf, np.int64(state[N_NODES])
            for node in range(t, state[N_NODES], n_threads):
                if tree.integers[node, OPEN] and tree.reals[node, GAIN] > gain:
                    gain, best = tree.reals[node, GAIN], np.int64(node)
            _, best = _best_of_block(gain, best, scratch.reals, room)
            first, n_new = best, min(_ONE, state[N_NODES] - best)
        for start in range(0, n_new, n_threads):
            node = first + start + t
            waits = start + t < n_new and tree.integers[node, OPEN] != 0
            before, n_waiting = _scan(_ONE if waits else np.int64(0), room)
            moves = waits and _make_children(scratch, tree, node, n_splits + before)
            at, n_moving = _scan(_ONE if moves else np.int64(0), room)
            chunks = _chunks(tree.integers[node]) if moves else np.int64(0)
            earlier, n_more = _scan(chunks, room)
            if moves:
                tree.pairs[n_pairs + at, 0] = node
                tree.pairs[n_pairs + at, 1] = n_chunks + earlier
            n_splits, n_pairs, n_chunks = (
                n_splits + n_waiting,
                n_pairs + n_moving,
                n_chunks + n_more,
            )
    meet()
    if t == 0:
        tree.pairs[n_pairs, 1] = n_chunks
        state[FIRST], state[N_NEW] = state[N_NODES], 2 * n_splits
        state[N_NODES] += 2 * n_splits
        state[N_LEAVES] += n_splits
        state[N_PAIRS], state[N_CHUNKS], state[IS_DONE] = n_pairs, n_chunks, n_splits == 0
    meet()


@whole_kernel
def grow(scratch: Any, tree: Any) -> None:
    """Grow a tree from, and in, a `Growth`."""
    histograms, state = tree.histograms, tree.state
    n_entries = histograms.shape[1]
    for i in each(histograms.shape[0] * n_entries):
        histograms[i // n_entries, i % n_entries, 0] = 0
        histograms[i // n_entries, i % n_entries, 1] = 0
    if block() == 0 and thread() == 0:
        _begin(tree)
    meet_all(tree.arrived)
    while state[IS_DONE] == 0:
        for item in range(block(), state[N_CHUNKS] * (tree.parts.shape[0] - 1), blocks()):
            _collect(scratch, tree, item)
        meet_all(tree.arrived)
        for item in range(block(), state[N_PAIRS] * tree.features.shape[0], blocks()):
            _search_pair(scratch, tree, item)
        meet_all(tree.arrived)
        for new in range(block(), state[N_NEW], blocks()):
            if tree.integers[state[FIRST] + new, WANTED]:
                _choose(scratch, tree, state[FIRST] + new)
        meet_all(tree.arrived)
        if block() == 0:
            _schedule(scratch, tree)
        meet_all(tree.arrived)
