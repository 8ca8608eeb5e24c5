"""Kernel: a whole tree in one call of all threads.

The same steps as the grower above the backends, which drives any backend verb by
verb; there a split costs a few hundred microseconds of Python, here a few meetings
of the threads. Splits are found by the same kernels, and the trees are the same.

Every thread runs this kernel from the root to the last leaf, with nodes of its own: all
decide alike, since they see the same sums. Rows lie in lanes, each of which has its own
ranges of all nodes: a long one for each thread, and a few short ones. For each pair of
children

1. each thread takes its long lane, and then one short lane after another, its own first,
   until none is left, so that a slow core is not waited for; it parts the rows of a lane
   between the children, and adds those of the smaller to a histogram of its own;
2. they meet; each thread adds up all threads' histograms for its share of the
   features, takes the sum from the parent's, and searches both for splits;
3. they meet again, and everybody knows the best split of every feature.

Where the smaller has few rows nothing is added up in the first step; in the second each thread goes
through all its rows for its share of the features, and through the larger's too if both have few
(`small_nodes`).

A second look goes through the same steps with all rows of one node and the few features
that the sample proposed for it, once its turn to be split has come. Many of them were
proposed for its parent too; there the rows of the smaller of the two children are counted,
and the other's sums are the parent's less those. Sums are integers, so neither this nor the
number of threads changes anything.

Most trees need less than all of this. There are two kernels: `grow` for trees that the sample alone
decides on, of numeric features without constraints, and `grow_full` for any tree. What only the
latter needs stands behind ``if full is not None``. Numba knows which arguments are None, and leaves
out what is never reached before it compiles it; that is a quarter of the time.

What is known of the nodes lies in three arrays with named columns, loops are written
out, and both looks are one piece of code: every further array, call or copy here would
add to the time of the first fit.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from mvsboost.exact.dtypes import BIN, ROW, TABLE
from mvsboost.kernels.histogram import add_columns_inlined, add_rows_inlined
from mvsboost.kernels.partition import split_apart
from mvsboost.kernels.small_nodes import (
    add_gathered,
    add_gathered_marked,
    bin_marks,
    bin_sums,
    clear_bins,
    clear_marks,
    gather_rows,
    gathered_rows,
    marked_bins,
)
from mvsboost.kernels.sparse_rows import NOT_SPARSE, SPREAD, add_sparse_inlined
from mvsboost.kernels.split import (
    ALL_BINS,
    LOWER,
    MIN_SAMPLES_LEAF,
    N_LIMITS,
    UPPER,
    WEIGHT,
    best_split_of,
    bin_list,
    category_set_inlined,
    leaf_value,
    smallest_gain,
)
from mvsboost.runtime.atomics import take_number
from mvsboost.runtime.barrier import meet
from mvsboost.runtime.intrinsics import stack_array
from mvsboost.runtime.jit import inlined, kernel
from mvsboost.runtime.pool import begin, end
from mvsboost.runtime.references import by_reference

_pair_of_limits = stack_array(np.float64, 2, N_LIMITS)
_LOW = np.int64(0xFFFFFFFF)
_ONE = np.int64(1)
_ROOT, _SAMPLE, _ALL = map(np.int64, (0, 0, 1))  # a node, and the numbers of the looks

# columns of the integers of a node
# (typed: kernels would be compiled anew for every plain number they are called with)
FEATURE, THRESHOLD, LEFT, RIGHT, DEPTH, PARENT = map(np.int64, range(6))
_PROPOSED = np.int64(-2)  # in place of a feature: the sample has proposed some, nobody decided
SLOT = np.int64(6)
"""First of two columns, for the sample and for all rows: where the node's histogram lies, or -1."""
WORDS, LEFT_WORDS = map(np.int64, (8, 12))
"""First of four columns each, two for the sample and two for all rows: packed words of the
node, and packed words of the left side of its split."""
N_INTEGERS = 16

LANES, SHORT = 5, 16
"""Lanes of a thread, all but the first a 16th of its rows each."""

# columns of the step that all threads are at
FIRST, N_SEARCHED, SMALL = map(np.int64, range(3))
"""Nodes under search: the first, one or two, and which of them has fewer rows."""
NUMBER = np.int64(3)
"""The look that searches them, or -1 where rows are partitioned only."""
PARTED = np.int64(4)
"""The node whose rows go to its children, or -1."""
KNOWN, OWN_SLOT = map(np.int64, (5, 6))
"""Slots of all rows: what is known of the node already, and its own; or -1."""
WANTED, BY_ROW = map(np.int64, (7, 9))
"""Two columns each: which of the nodes are searched; whether the smaller, and whether both, have so
few rows that they need no histogram."""
N_NODES, N_LEAVES, VISITS, MEETINGS = map(np.int64, range(11, 15))
_step = stack_array(np.int64, 15)

# columns of the reals of a node
GAIN, LOW, HIGH = 0, 1, 2
N_REALS = 3


class Team(NamedTuple):
    """A thread among all.

    Attributes
    ----------
    thread, n_threads
    counter : (1,)
        What they meet at.
    taken : (2, n_threads, a cache line)
        How many of each thread's lanes are taken, in turn of visits.
    """

    thread: int
    n_threads: int
    counter: Any
    taken: Any


class Source(NamedTuple):
    """Where the bins of rows are found.

    Attributes
    ----------
    columns : (n_features, all rows)
        Bins by column.
    ids
        The row of `columns` that each row of the sample is; empty where they are the same.
    bins : (n_rows, n_features)
        Bins of the sample's rows; of all rows where there are lists.
    by_row
        Whether the sample's rows are partitioned by `bins`, not by `columns`.
    lists
        Lists of the sample's rows; empty where there are bins.
    whole_bins, whole_sparse, drawn
        Bins or lists of all rows, and which of them the sample's rows are, where `bins` or
        `lists` is room that the root has yet to fill; `drawn` is empty where it is filled.
    """

    columns: Any
    ids: Any = np.empty(0, ROW)
    bins: Any = np.empty((0, 0), BIN)
    by_row: bool = False
    lists: Any = NOT_SPARSE
    whole_bins: Any = np.empty((0, 0), BIN)
    whole_sparse: Any = NOT_SPARSE
    drawn: Any = np.empty(0, ROW)


class Rows(NamedTuple):
    """The rows of a look.

    Attributes
    ----------
    words : (n_rows,)
    total : (2,)
        Their packed sums.
    order, scratch : (n_rows,)
        The rows, and as much room; of each lane's part nodes own ranges.
    ranges : (lanes, nodes, 4)
        Where a node's rows in a lane start and stop, where its scratch starts, and whether they
        lie in `scratch` and it in `order`, not the other way round.
    units, bits
        Real value of a step of each field, and the bits of the count.
    """

    words: Any
    total: Any
    order: Any
    scratch: Any
    ranges: Any
    units: Any
    bits: int


class Features(NamedTuple):
    """Features in the order in which they lie in a histogram.

    Attributes
    ----------
    position, index : (n,)
        The position among the features of the sample, and the number.
    offsets, places : (n + 1,)
        The first entry in a histogram, and in a thread's part of one; and the end.
    categorical, monotone : (n,)
        The kind, and the constraint.
    usual : (n,)
        The bin that lists leave out, or -1.
    """

    position: Any
    index: Any
    offsets: Any
    places: Any
    categorical: Any
    monotone: Any
    usual: Any


class Found(NamedTuple):
    """What all threads write to.

    Attributes
    ----------
    histograms : (slots, bins, 2)
        Of nodes, a slot each.
    partial : (threads, bins and gaps, 2)
        Each thread's part of the histogram of the one node whose rows are counted.
    gains, thresholds, sides : (2, n)
        Best split of each feature of up to two nodes.
    """

    histograms: Any
    partial: Any
    gains: Any
    thresholds: Any
    sides: Any


class Look(NamedTuple):
    """Rows that look for splits, and where: the sample (look 0), or all rows (look 1).

    Each thread turns all rows to features of its own, so theirs have a first dimension more.
    """

    rows: Rows
    features: Features
    found: Found


class Shape(NamedTuple):
    """What bounds the tree.

    Attributes
    ----------
    max_leaves, max_depth, best_first, min_gain
    last
        The number of the look that decides.
    small_node
        Drawn rows of a pair, or of the smaller of it, up to which histograms are not kept.
    groups : (all features, words)
        The groups each feature is in, as bits; see `TreeRequest`.
    """

    max_leaves: int
    max_depth: int
    best_first: bool
    last: int
    min_gain: float
    small_node: int
    groups: Any


class Nodes(NamedTuple):
    """Everything a thread knows of the nodes, a row each; see the columns above.

    All threads' lie in the same arrays, which have a first dimension more.

    Attributes
    ----------
    integers, reals, goes_left
    proposed : (n, look)
        Positions of the features that the sample proposed.
    held : (n, look, 2)
        Positions of the features in a node's slot of all rows, or -1, and their first entries.
    free, n_free : (2, slots), (2,)
        Slots of each look that are not in use: the first so many.
    plan : (look, 2)
        Of each proposed feature of the node at which all rows look: the node whose rows are
        counted, or -1, and the first entry of what is known of it already, or -1.
    chosen : (2, look)
        Room for numbers and places of features.
    work : (2,)
        Rows of this thread that were counted by each look, once for each feature.
    heap : (leaves + 1,)
        How many nodes wait for their turn, and then their numbers: none of those at 2i and 2i + 1
        goes before that at i.
    groups : (n, words)
        Groups that all features of the branch are in.
    """

    integers: Any
    reals: Any
    goes_left: Any
    proposed: Any
    held: Any
    free: Any
    n_free: Any
    plan: Any
    chosen: Any
    work: Any
    heap: Any
    groups: Any


_DTYPES: dict[str, Any] = {"goes_left": np.uint8, "reals": np.float64}
"""Of the arrays of `Nodes` that hold no int64."""


def _shapes(n_leaves: int, look: int, words: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays of `Nodes`, for one thread."""
    n = 2 * n_leaves - 1
    return {
        "integers": (n, N_INTEGERS),
        "reals": (n, N_REALS),
        "goes_left": (n, TABLE),
        "proposed": (n, look),
        "held": (n, look, 2),
        "free": (2, n_leaves + 1),
        "n_free": (2,),
        "plan": (look, 2),
        "chosen": (2, look),
        "work": (2,),
        "heap": (n_leaves + 1,),
        "groups": (n, words),
    }


def bytes_of_nodes(n_leaves: int, look: int, words: int) -> int:
    """How large the nodes of a thread are; `words` hold the groups of a node."""
    shapes = _shapes(n_leaves, look, words)
    return sum(
        prod(shape) * np.dtype(_DTYPES.get(name, np.int64)).itemsize
        for name, shape in shapes.items()
    )


def make_nodes(n_threads: int, n_leaves: int, look: int, words: int) -> Nodes:
    """Room for the nodes of a tree, which every tree begins anew."""
    return Nodes(
        **{
            name: np.empty((n_threads, *shape), _DTYPES.get(name, np.int64))
            for name, shape in _shapes(n_leaves, look, words).items()
        }
    )


@inlined
def _clear(nodes: Any, node: Any) -> None:
    for column in range(N_INTEGERS):
        nodes.integers[node, column] = -1 if column < WORDS else 0
    nodes.reals[node, GAIN] = 0.0
    nodes.reals[node, LOW], nodes.reals[node, HIGH] = -np.inf, np.inf
    for b in range(TABLE):
        nodes.goes_left[node, b] = 0
    for k in range(nodes.held.shape[1]):
        nodes.held[node, k, 0] = -1


@inlined
def _begin(nodes: Any, looks: Any, last: Any) -> None:
    """A root that holds all rows, and nothing else."""
    _clear(nodes, _ROOT)
    root = nodes.integers[0]
    root[DEPTH] = nodes.heap[0] = 0
    for word in range(nodes.groups.shape[1]):
        nodes.groups[_ROOT, word] = -1
    for number in range(2):
        n_slots = looks[number].found.histograms.shape[0]
        nodes.work[number], nodes.n_free[number] = 0, n_slots
        for slot in range(n_slots):
            nodes.free[number, slot] = slot
    for number in range(last + 1):
        rows, at = looks[number].rows, WORDS + 2 * number
        root[at], root[at + 1] = rows.total[0], rows.total[1]


@inlined
def _end(nodes: Any, n_nodes: Any) -> None:
    """Forget splits that were found and not made."""
    for node in range(n_nodes):
        if nodes.integers[node, LEFT] < 0:
            nodes.integers[node, FEATURE] = nodes.integers[node, THRESHOLD] = -1
            nodes.reals[node, GAIN] = 0.0


# --- one node -----------------------------------------------------------------------------------


@inlined
def _bound(limits: Any, nodes: Any, node: Any) -> None:
    limits[LOWER], limits[UPPER] = nodes.reals[node, LOW], nodes.reals[node, HIGH]


@inlined
def _best(gains: Any) -> Any:
    best: Any = np.int64(0)
    for j in range(1, gains.shape[0]):
        if gains[j] > gains[best]:
            best = j
    return best


@inlined
def _propose(nodes: Any, node: Any, gains: Any) -> None:
    """Note the features in which the sample found the largest gains, largest first."""
    chosen, largest = nodes.proposed[node], gains[_best(gains)]
    if largest == -np.inf:
        return
    nodes.integers[node, FEATURE], nodes.reals[node, GAIN] = _PROPOSED, largest
    for k in range(chosen.shape[0]):
        best: Any = np.int64(-1)
        for j in range(gains.shape[0]):
            taken = False
            for i in range(k):
                taken = taken or chosen[i] == j
            if not taken and (best < 0 or gains[j] > gains[best]):
                best = j
        chosen[k] = best


@inlined
def _turn_to(look: Any, sample: Any, proposed: Any) -> None:
    """Let a look see the proposed features."""
    chosen, every = look.features, sample.features
    chosen.offsets[0] = chosen.places[0] = 0
    for k in range(proposed.shape[0]):
        j = proposed[k]
        chosen.position[k], chosen.index[k] = j, every.index[j]
        chosen.offsets[k + 1] = chosen.offsets[k] + every.offsets[j + 1] - every.offsets[j]
        chosen.places[k + 1] = chosen.offsets[k + 1] + (k + 1) * SPREAD
        chosen.categorical[k], chosen.monotone[k] = every.categorical[j], every.monotone[j]


@inlined
def _take_slot(nodes: Any, node: Any, number: Any) -> None:
    nodes.n_free[number] -= 1
    nodes.integers[node, SLOT + number] = nodes.free[number, nodes.n_free[number]]


@inlined
def _free_slot(nodes: Any, slot: Any, number: Any) -> None:
    if slot >= 0:
        nodes.free[number, nodes.n_free[number]] = slot
        nodes.n_free[number] += 1


@inlined
def _plan(nodes: Any, node: Any, look: Any) -> Any:
    """Plan how all rows look at a node; returns the slot of what is known already, or -1.

    A node's slot has the histograms of the features proposed for it. The first of its children
    whose turn comes takes a slot of its own, and the other takes over the parent's, less what
    the first counted. So the second finds something in its slot, the first in its parent's; and
    as slots of nodes and of those below them are never in use together, they are no more than
    leaves, and one for the node under search.
    """
    own = nodes.integers[node]
    known, parent, sibling, counted = own[SLOT + 1], own[PARENT], np.int64(-1), node
    held = nodes.held[node]
    if known < 0 and parent >= 0:
        known, held = nodes.integers[parent, SLOT + 1], nodes.held[parent]
        sibling = nodes.integers[parent, LEFT] + nodes.integers[parent, RIGHT] - node
        other = nodes.integers[sibling]
        other[SLOT + 1], nodes.integers[parent, SLOT + 1] = known, -1
        if _count(other, look, _ALL) < _count(own, look, _ALL):
            counted = sibling
    position, offsets = look.features.position, look.features.offsets
    for k in range(position.shape[0]):
        nodes.plan[k, 0], nodes.plan[k, 1] = node, -1
        for place in range(held.shape[0]):
            if known >= 0 and held[place, 0] == position[k]:
                nodes.plan[k, 0] = -1 if sibling < 0 else counted
                nodes.plan[k, 1] = held[place, 1]
                if sibling >= 0:
                    nodes.held[sibling, place, 0] = held[place, 0]
                    nodes.held[sibling, place, 1] = held[place, 1]
    for k in range(position.shape[0]):
        nodes.held[node, k, 0], nodes.held[node, k, 1] = position[k], offsets[k]
    _take_slot(nodes, node, _ALL)
    return known


@inlined
def _take_split(
    nodes: Any,
    node: Any,
    looks: Any,
    source: Any,
    which: Any,
    limits: Any,
    shape: Any,
    full: Any,
) -> None:
    """Note the best split found, if it gains enough."""
    look, own = looks[shape.last], nodes.integers[node]
    rows, features, found = look.rows, look.features, look.found
    own[FEATURE] = -1
    j = _best(found.gains[which])
    gain, threshold = found.gains[which, j], found.thresholds[which, j]
    side = found.sides[which, j]
    total = own[WORDS + 2 * shape.last : WORDS + 2 * shape.last + 2]
    if not gain > max(shape.min_gain, smallest_gain(total, rows.units, rows.bits, limits)):
        return
    start, stop = features.offsets[j], features.offsets[j + 1]
    table, categorical = nodes.goes_left[node], features.categorical[j]
    own[FEATURE], own[THRESHOLD] = features.index[j], -1 if categorical else threshold
    nodes.reals[node, GAIN] = gain
    small_bins = bin_sums()
    if own[SLOT] < 0:
        gathered, bins = gathered_rows(), source.bins.reshape(-1)
        n = gather_rows(source, looks[0].rows, node, np.int64(0), gathered)
        clear_bins(small_bins, np.int64(TABLE))
        add_gathered(bins, gathered, np.int64(0), n, own[FEATURE], small_bins.reshape(-1))
    for b in range(TABLE):
        table[b] = 1 if b <= threshold and not categorical else 0
    if full is not None and categorical:
        part = small_bins[: stop - start]
        if own[SLOT + shape.last] >= 0:
            part = found.histograms[own[SLOT + shape.last], start:stop]
        category_set_inlined(part, total, rows.units, rows.bits, threshold, side, table)
    else:
        table[stop - start - 1] = side
    for number in range(shape.last + 1):
        one, first, second = looks[number], np.int64(0), np.int64(0)
        part, slot = small_bins[: stop - start], own[SLOT + number]
        offset = start if number == 1 else one.features.offsets[features.position[j]]
        if slot >= 0:
            part = one.found.histograms[slot, offset : offset + stop - start]
        for b in range(stop - start):
            if table[b] == 1:
                first += part[b, 0]
                second += part[b, 1]
        own[LEFT_WORDS + 2 * number], own[LEFT_WORDS + 2 * number + 1] = first, second


@inlined
def _partition(nodes: Any, node: Any, source: Any, look: Any, number: Any, lane: Any) -> None:
    """Give each child its part of the node's ranges in a lane; see `partition`."""
    own, ranges = nodes.integers[node], look.rows.ranges[lane]
    start, stop, spare, swapped = _range_of(ranges, node)
    rows, room = look.rows.order, look.rows.scratch
    if swapped == 1:
        rows, room = room, rows
    rows, room = rows[start:stop], room[spare : spare + stop - start]
    bins, first, step = source.columns, own[FEATURE] * source.columns.shape[1], _ONE
    if number == 0 and source.by_row:
        bins, first, step = source.bins, own[FEATURE], np.int64(source.bins.shape[1])
    ids = source.ids if number == 0 else source.ids[:0]
    flat, table = bins.reshape(-1), nodes.goes_left[node]
    # a lane's bins are in the cache: its rows have just been added up, or will be
    lefts = split_apart(
        flat, np.uint64(first), np.uint64(step), ids, table, rows, room, np.int64(0)
    )
    middle, spare_middle = start + lefts, spare + stop - start - lefts
    _set_range(ranges, own[LEFT], start, middle, spare_middle, swapped)
    _set_range(ranges, own[RIGHT], spare, spare_middle, middle, 1 - swapped)


@inlined
def _range_of(ranges: Any, node: Any) -> Any:
    return ranges[node, 0], ranges[node, 1], ranges[node, 2], ranges[node, 3]


@inlined
def _set_range(ranges: Any, node: Any, start: Any, stop: Any, spare: Any, swapped: Any) -> None:
    ranges[node, 0], ranges[node, 1], ranges[node, 2], ranges[node, 3] = start, stop, spare, swapped


@inlined
def _count(own: Any, look: Any, number: Any) -> Any:
    return own[WORDS + 2 * number] & ((_ONE << look.rows.bits) - _ONE)


@inlined
def _bound_children(
    nodes: Any, node: Any, sample: Any, look: Any, number: Any, limits: Any
) -> None:
    """Monotone constraints: the middle of the two values parts the children."""
    own, sign = nodes.integers[node], np.int64(0)
    for j in range(sample.features.index.shape[0]):
        if sample.features.index[j] == own[FEATURE]:
            sign = np.int64(sample.features.monotone[j])
    if sign == 0:
        return
    _bound(limits, nodes, node)
    middle = 0.0
    for child in (own[LEFT], own[RIGHT]):
        words = nodes.integers[child, WORDS + 2 * number : WORDS + 2 * number + 2]
        middle += leaf_value(words, look.rows.units, look.rows.bits, limits)
    middle /= 2
    low, high = (own[LEFT], own[RIGHT]) if sign > 0 else (own[RIGHT], own[LEFT])
    nodes.reals[low, HIGH], nodes.reals[high, LOW] = middle, middle


@inlined
def _make_children(nodes: Any, node: Any, first: Any, groups: Any) -> None:
    for child in range(first, first + 2):
        _clear(nodes, child)
    own, left, right = nodes.integers[node], nodes.integers[first], nodes.integers[first + 1]
    own[LEFT], own[RIGHT] = first, first + 1
    left[PARENT] = right[PARENT] = node
    left[DEPTH] = right[DEPTH] = own[DEPTH] + 1
    for word in range(groups.shape[1]):
        common = nodes.groups[node, word] & groups[own[FEATURE], word]
        nodes.groups[first, word] = nodes.groups[first + 1, word] = common
    for column in (LOW, HIGH):
        nodes.reals[first, column] = nodes.reals[node, column]
        nodes.reals[first + 1, column] = nodes.reals[node, column]
    for word in range(4):
        left[WORDS + word] = own[LEFT_WORDS + word]
        right[WORDS + word] = own[WORDS + word] - own[LEFT_WORDS + word]


# --- whose turn is next --------------------------------------------------------------------------


@inlined
def _goes_before(nodes: Any, one: Any, other: Any, best_first: Any) -> Any:
    """Whether a node has its turn before another: that of larger gain, or of smaller number."""
    gain, gain_of_other = nodes.reals[one, GAIN], nodes.reals[other, GAIN]
    if best_first and gain != gain_of_other:
        return gain > gain_of_other
    return one < other


@inlined
def _wait(nodes: Any, node: Any, best_first: Any) -> None:
    """Let a node that can be split, or of which all rows have yet to decide, wait for its turn."""
    heap = nodes.heap
    heap[0] += 1
    place = heap[0]
    while place > 1 and _goes_before(nodes, node, heap[place >> _ONE], best_first):
        heap[place] = heap[place >> _ONE]
        place >>= _ONE
    heap[place] = node


@inlined
def _next_node(nodes: Any, best_first: Any) -> Any:
    """The node whose turn it is, which waits no longer, or -1."""
    heap, place = nodes.heap, _ONE
    if heap[0] == 0:
        return np.int64(-1)
    first, last = heap[1], heap[heap[0]]
    heap[0] -= 1
    while 2 * place <= heap[0]:
        below = 2 * place
        if below < heap[0] and _goes_before(nodes, heap[below + 1], heap[below], best_first):
            below += 1
        if not _goes_before(nodes, heap[below], last, best_first):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = last
    return first


# --- together -----------------------------------------------------------------------------------


@inlined
def _take_lane(team: Any, visit: Any, n_lanes: Any) -> Any:
    """The next lane that nobody has taken on this visit, or -1: own ones first."""
    taken, n = team.taken[visit & _ONE], team.n_threads
    each = n_lanes // n
    for step in range(n):
        owner = (team.thread + step) % n
        if taken[owner, 0] < each:
            number = take_number(taken[owner])
            if number < each:
                return owner * each + number
    return np.int64(-1)


@inlined
def _begin_lane(team: Any, looks: Any, last: Any, lane: Any) -> None:
    """The root has all rows of a lane: a long one, or one of the short ones behind it."""
    for number in range(last + 1):
        rows = looks[number].rows
        n, each = rows.order.shape[0], rows.ranges.shape[0] // team.n_threads
        owner, behind = lane // each, each - 1 - lane % each
        start, stop = n * owner // team.n_threads, n * (owner + 1) // team.n_threads
        short = (stop - start) // SHORT
        stop -= behind * short
        if behind < each - 1:
            start = stop - short
        _set_range(rows.ranges[lane], _ROOT, start, stop, start, np.int64(0))


@inlined
def _collect(
    source: Any,
    look: Any,
    nodes: Any,
    node: Any,
    thread: Any,
    lane: Any,
) -> None:
    """Add the sampled rows of a node in a lane to this thread's part of the histogram."""
    mine, own, ranges = look.found.partial[thread], nodes.integers[node], look.rows.ranges[lane]
    index, places = look.features.index, look.features.places
    words, bits = look.rows.words, look.rows.bits
    rows = look.rows.order if ranges[node, 3] == 0 else look.rows.scratch
    order = rows[ranges[node, 0] : ranges[node, 1]]
    drawn = source.drawn if own[DEPTH] == 0 else source.drawn[:0]
    nodes.work[0] += order.shape[0] * index.shape[0]
    if source.lists.starts.shape[0] > 0:
        add_sparse_inlined(source.lists, source.whole_sparse, drawn, words, bits, order, mine)
    else:
        bins, whole, to = source.bins, source.whole_bins, places[: index.shape[0]]
        add_rows_inlined(bins, whole, drawn, words, bits, order, index, to, mine)


@inlined
def _collect_planned(
    source: Any,
    look: Any,
    nodes: Any,
    node: Any,
    thread: Any,
    lane: Any,
) -> None:
    """The same of all rows: some features are counted over the node, some over its sibling."""
    mine, own, ranges = look.found.partial[thread], nodes.integers[node], look.rows.ranges[lane]
    index, places = look.features.index, look.features.places
    words, bits = look.rows.words, look.rows.bits
    first = nodes.integers[own[PARENT], LEFT] if own[PARENT] >= 0 else node
    for counted in range(first, first + 2):
        n = 0
        for k in range(index.shape[0]):
            if nodes.plan[k, 0] == counted:
                nodes.chosen[0, n], nodes.chosen[1, n] = index[k], places[k]
                n += 1
        if n > 0:
            rows = look.rows.order if ranges[counted, 3] == 0 else look.rows.scratch
            order = rows[ranges[counted, 0] : ranges[counted, 1]]
            features, to = nodes.chosen[0], nodes.chosen[1]
            nodes.work[1] += n * order.shape[0]
            add_columns_inlined(source.columns, words, bits, order, features[:n], to[:n], mine)


@inlined
def _share(offsets: Any, team: Any, thread: Any) -> Any:
    """First feature of a thread's share: all have as many entries, as nearly as can be."""
    n, k = offsets.shape[0] - 1, np.int64(0)
    while k < n and (offsets[k] + offsets[k + 1]) * team.n_threads <= 2 * offsets[n] * thread:
        k += 1
    return k


@inlined
def _entry(found: Any, slot: Any, entry: Any) -> Any:
    """Where the sums of an entry of a slot begin, in histograms as one row of numbers."""
    return 2 * (slot * found.histograms.shape[1] + entry)


@inlined
def _add_up(
    team: Any,
    look: Any,
    nodes: Any,
    step: Any,
    own: Any,
    f: Any,
    flat: Any,
    parts: Any,
    full: Any,
) -> None:
    """Histogram of one feature of the smaller, or only, node: the sum of all threads' parts.

    The parts are cleared on the way, while they are in the cache. All rows follow the plan
    besides, by what is known of the node. `flat` and `parts` are the histograms and the threads'
    parts as one row of numbers.
    """
    offsets, found, usual = look.features.offsets, look.found, look.features.usual[f]
    number = step[NUMBER]
    n, start = 2 * (offsets[f + 1] - offsets[f]), _entry(found, own[SLOT + number], offsets[f])
    sums = flat[start : start + n]
    counted, at = np.int64(0), -_ONE
    if full is not None and number == 1:
        counted, at = nodes.plan[f, 0], nodes.plan[f, 1]
    for thread in range(team.n_threads if counted >= 0 else 0):
        start = 2 * (thread * found.partial.shape[1] + look.features.places[f])
        part = parts[start : start + n]
        for b in range(n):
            sums[b] = part[b] + (sums[b] if thread > 0 else 0)
        for b in range(n):
            part[b] = 0
    if full is not None and at >= 0:
        start = _entry(found, step[KNOWN], at)
        before = flat[start : start + n]
        for b in range(n):
            if counted < 0:
                sums[b] = before[b]
            elif counted == step[FIRST]:
                before[b] -= sums[b]
            else:
                sums[b], before[b] = before[b] - sums[b], sums[b]
    if usual >= 0:
        first_word, second_word = own[WORDS + 2 * number], own[WORDS + 2 * number + 1]
        for b in range(n // 2):
            first_word -= sums[2 * b]
            second_word -= sums[2 * b + 1]
        sums[2 * usual], sums[2 * usual + 1] = first_word, second_word


@inlined
def _may_meet(groups: Any, of_node: Any, feature: Any) -> Any:
    """Whether a feature is in a group with all those of a node's branch."""
    allowed = groups.shape[1] == 0
    for word in range(groups.shape[1]):
        allowed = allowed or of_node[word] & groups[feature, word] != 0
    return allowed


@inlined
def _search(
    step: Any, team: Any, look: Any, nodes: Any, source: Any, shape: Any, limits: Any, full: Any
) -> None:
    """Best splits of a node or of a pair, for this thread's share of the features.

    The larger of a pair has its parent's histogram, and takes the smaller's from it. Nodes of few
    rows, the smaller or both, have one small histogram, which is used for every feature in turn.
    """
    offsets, found, number = look.features.offsets, look.found, step[NUMBER]
    own = nodes.integers[step[FIRST] + step[SMALL]]
    gathered, small_bins, marks = gathered_rows(), bin_sums(), bin_marks()
    bins_listed, flat_bins, flat_sums = bin_list(), source.bins.reshape(-1), small_bins.reshape(-1)
    flat, parts = found.histograms.reshape(-1), found.partial.reshape(-1)
    n_small, n_both = _gather(step, source, look.rows, gathered, marks)
    for f in range(_share(offsets, team, team.thread), _share(offsets, team, team.thread + 1)):
        size = offsets[f + 1] - offsets[f]
        if not step[BY_ROW]:
            _add_up(team, look, nodes, step, own, f, flat, parts, full)
        for turn in range(step[N_SEARCHED]):
            which = step[SMALL] if turn == 0 else _ONE - step[SMALL]
            # of a node that stays a leaf sums are wanted where the larger takes them from its own
            if not step[WANTED + which] and (turn == 1 or step[BY_ROW] == step[BY_ROW + 1]):
                continue
            searched = step[FIRST] + which
            node = nodes.integers[searched]
            histogram, n_bins_listed = small_bins[:size], ALL_BINS
            if step[BY_ROW + turn]:
                clear_bins(small_bins, size)
                a, b = (np.int64(0), n_small) if turn == 0 else (n_small, n_both)
                feature = look.features.index[f]
                if b - a < size:
                    add_gathered_marked(flat_bins, gathered, a, b, feature, flat_sums, marks)
                    n_bins_listed = marked_bins(marks, bins_listed)
                else:
                    add_gathered(flat_bins, gathered, a, b, feature, flat_sums)
            else:
                histogram = found.histograms[node[SLOT + number], offsets[f] : offsets[f + 1]]
                if turn == 1:
                    at = _entry(found, node[SLOT + number], offsets[f])
                    rest, less = flat[at : at + 2 * size], flat_sums
                    if not step[BY_ROW]:
                        less = flat[_entry(found, own[SLOT + number], offsets[f]) :]
                    for i in range(2 * size):
                        rest[i] -= less[i]
            if full is not None:
                if not _may_meet(shape.groups, nodes.groups[searched], look.features.index[f]):
                    found.gains[which, f] = -np.inf
                    continue
                _bound(limits, nodes, searched)
            best_split_of(
                histogram,
                bins_listed,
                n_bins_listed,
                look.features.categorical[f],
                look.features.monotone[f],
                node[WORDS + 2 * number : WORDS + 2 * number + 2],
                look.rows.units,
                look.rows.bits,
                limits,
                f,
                found.gains[which],
                found.thresholds[which],
                found.sides[which],
                full,
            )


@inlined
def _gather(step: Any, source: Any, rows: Any, gathered: Any, marks: Any) -> Any:
    """Rows of nodes that are searched row by row: how many of the smaller, and in all."""
    first, small, n_small, n_both = step[FIRST], step[SMALL], np.int64(0), np.int64(0)
    if step[BY_ROW]:
        clear_marks(marks)
        n_small = n_both = gather_rows(source, rows, first + small, np.int64(0), gathered)
    if step[BY_ROW + 1]:
        n_both = gather_rows(source, rows, first + _ONE - small, n_small, gathered)
    return n_small, n_both


# --- the steps of a tree ------------------------------------------------------------------------


@inlined
def _meet(step: Any, team: Any) -> None:
    step[MEETINGS] += 1
    meet(team.counter, team.n_threads, step[MEETINGS])


@inlined
def _start(step: Any, team: Any, nodes: Any, looks: Any, last: Any) -> None:
    """The first step: the sample looks at the root."""
    _begin(nodes, looks, last)
    for one in range(last + 1):
        mine = looks[one].found.partial[team.thread]
        for b in range(mine.shape[0]):  # whoever adds parts up clears them for the next node
            mine[b, 0] = mine[b, 1] = 0
    _take_slot(nodes, _ROOT, _SAMPLE)
    for column in range(step.shape[0]):
        step[column] = 0
    step[N_SEARCHED] = step[N_NODES] = step[N_LEAVES] = step[WANTED] = 1
    step[KNOWN] = step[OWN_SLOT] = step[PARTED] = -1


@inlined
def _choose(step: Any, nodes: Any, looks: Any, shape: Any, limits: Any, full: Any) -> Any:
    """What comes next: a look at new nodes, rows to part, all rows' look; False at the end."""
    while True:
        step[NUMBER] = -1
        if step[WANTED] or step[WANTED + 1]:
            step[NUMBER] = 0
            if step[N_SEARCHED] == 2 and not step[BY_ROW]:
                _take_slot(nodes, step[FIRST] + step[SMALL], _SAMPLE)
            return True
        if step[PARTED] >= 0:
            return True
        _free_slots_of_leaves(step, nodes, shape.last)
        node = _next_node(nodes, shape.best_first)
        if node < 0 or step[N_LEAVES] == shape.max_leaves:
            return False
        if full is not None and nodes.integers[node, FEATURE] == _PROPOSED:
            _let_all_rows_look(step, nodes, looks, node)
            return True
        _split(step, nodes, looks, shape, limits, node, full)


@inlined
def _free_slots_of_leaves(step: Any, nodes: Any, last: Any) -> None:
    for which in range(step[N_SEARCHED]):
        own = nodes.integers[step[FIRST] + which]
        if own[FEATURE] == -1:
            for one in range(last + 1):
                _free_slot(nodes, own[SLOT + one], one)
                own[SLOT + one] = -1


@inlined
def _let_all_rows_look(step: Any, nodes: Any, looks: Any, node: Any) -> None:
    """All rows look at the features that the sample proposed for a node."""
    step[NUMBER], step[FIRST], step[N_SEARCHED], step[SMALL] = 1, node, 1, 0
    step[WANTED] = 1
    step[BY_ROW] = step[BY_ROW + 1] = 0
    _turn_to(looks[1], looks[0], nodes.proposed[node])
    step[OWN_SLOT] = nodes.integers[node, SLOT + 1]
    step[KNOWN] = _plan(nodes, node, looks[1])


@inlined
def _split(
    step: Any, nodes: Any, looks: Any, shape: Any, limits: Any, node: Any, full: Any
) -> None:
    """Make the children of a node, and note which of them are searched, and how."""
    first, last, sample = step[N_NODES], shape.last, looks[0]
    _make_children(nodes, node, first, shape.groups)
    step[FIRST], step[N_SEARCHED] = first, 2
    step[N_NODES] += 2
    step[N_LEAVES] += 1
    if full is not None:
        _bound_children(nodes, node, sample, looks[last], last, limits[last])
    for which in range(2):
        own = nodes.integers[first + which]
        weight = (own[WORDS + 2 * last + 1] & _LOW) * looks[last].rows.units[WEIGHT]
        wanted = step[N_LEAVES] < shape.max_leaves and own[DEPTH] < shape.max_depth
        wanted &= _count(own, sample, _SAMPLE) >= 2
        step[WANTED + which] = wanted & (weight >= 2 * limits[last, MIN_SAMPLES_LEAF])
    # the larger child takes over its parent's histogram
    n_left = _count(nodes.integers[first], sample, _SAMPLE)
    n_right = _count(nodes.integers[first + 1], sample, _SAMPLE)
    small = _ONE if n_left > n_right else np.int64(0)
    step[SMALL] = small
    step[BY_ROW] = min(n_left, n_right) <= shape.small_node
    step[BY_ROW + 1] = _count(nodes.integers[node], sample, _SAMPLE) <= shape.small_node
    if step[BY_ROW + 1]:
        _free_slot(nodes, nodes.integers[node, SLOT], _SAMPLE)
    else:
        nodes.integers[first + 1 - small, SLOT] = nodes.integers[node, SLOT]
    # nobody asks which leaf a row of the sample is in
    step[PARTED] = node if step[WANTED] or step[WANTED + 1] or last == 1 else -_ONE


@inlined
def _visit(step: Any, team: Any, nodes: Any, looks: Any, source: Any, last: Any, full: Any) -> None:
    """Go through the rows, lane by lane: part those of a split node, and add up the smaller's."""
    number, n_lanes = step[NUMBER], looks[0].rows.ranges.shape[0]
    lane = _take_lane(team, step[VISITS], n_lanes)
    while lane >= 0:
        if step[VISITS] == 0:
            _begin_lane(team, looks, last, lane)
        if step[PARTED] >= 0:
            for one in range(last + 1):
                _partition(nodes, step[PARTED], source, looks[one], one, lane)
        if number >= 0 and not step[BY_ROW]:
            node = step[FIRST] + step[SMALL]
            if full is not None and number == 1:
                _collect_planned(source, looks[1], nodes, node, team.thread, lane)
            else:
                _collect(source, looks[0], nodes, node, team.thread, lane)
        lane = _take_lane(team, step[VISITS], n_lanes)
    _meet(step, team)
    # used again after the next visit's meeting
    team.taken[step[VISITS] & _ONE, team.thread, 0] = 0
    step[VISITS] += 1
    step[PARTED] = -1


@inlined
def _decide(
    step: Any, team: Any, nodes: Any, looks: Any, source: Any, shape: Any, limits: Any, full: Any
) -> None:
    """Take the best splits that all threads have found, or propose features to all rows."""
    number, last = step[NUMBER], shape.last
    for which in range(step[N_SEARCHED]):
        node = step[FIRST] + which
        if not step[WANTED + which]:
            continue
        if full is not None and number < last:
            _propose(nodes, node, looks[number].found.gains[which])
        else:
            _take_split(nodes, node, looks, source, which, limits[last], shape, full)
        if nodes.integers[node, FEATURE] != -1:
            _wait(nodes, node, shape.best_first)
    small = step[FIRST] + step[SMALL]
    if number == last and nodes.integers[small, SLOT] < 0 and team.n_threads > 1:
        _meet(step, team)  # rows were read, and may move now
    _free_slot(nodes, step[OWN_SLOT], _ALL)
    step[KNOWN] = step[OWN_SLOT] = -1
    step[WANTED] = step[WANTED + 1] = 0


@inlined
def _nodes_of(nodes: Any, thread: Any) -> Any:
    """A thread's own of all threads' nodes."""
    return Nodes(
        nodes.integers[thread],
        nodes.reals[thread],
        nodes.goes_left[thread],
        nodes.proposed[thread],
        nodes.held[thread],
        nodes.free[thread],
        nodes.n_free[thread],
        nodes.plan[thread],
        nodes.chosen[thread],
        nodes.work[thread],
        nodes.heap[thread],
        nodes.groups[thread],
    )


@inlined
def _features_of(features: Any, thread: Any) -> Any:
    """The features that a thread's look of all rows turns to."""
    return Features(
        features.position[thread],
        features.index[thread],
        features.offsets[thread],
        features.places[thread],
        features.categorical[thread],
        features.monotone[thread],
        features.usual[thread],
    )


@inlined
def _grow(
    team: Any, source: Any, looks: Any, shape: Any, all_limits: Any, nodes: Any, full: Any
) -> Any:
    """Grow a tree into the nodes of a thread; returns their number.

    `full` is None where the tree needs no more than `grow` can do.
    """
    limits, step = _pair_of_limits(), _step()
    for one in range(2):
        for j in range(N_LIMITS):
            limits[one, j] = all_limits[one, j]
    _start(step, team, nodes, looks, shape.last)
    while _choose(step, nodes, looks, shape, limits, full):
        _visit(step, team, nodes, looks, source, shape.last, full)
        if step[NUMBER] >= 0:
            number = step[NUMBER]
            _search(step, team, looks[number], nodes, source, shape, limits[number], full)
            _meet(step, team)
            _decide(step, team, nodes, looks, source, shape, limits, full)
    _end(nodes, step[N_NODES])
    return step[N_NODES]


@kernel
def grow(
    part: Any,
    pool: Any,
    n_threads: Any,
    counter: Any,
    taken: Any,
    source: Any,
    looks: Any,
    shape: Any,
    all_limits: Any,
    all_nodes: Any,
) -> Any:
    """Grow a tree into the nodes of each thread; returns their number.

    `looks` holds that of the sample, `all_limits` a row for each look there may be; see `Team` for
    the counters. The tree must need nothing that is left out here; see `grow_full`.
    """
    thread = begin(part, pool, n_threads)
    team = by_reference(Team(thread, n_threads, counter, taken))
    sample, nodes = by_reference(looks[0]), by_reference(_nodes_of(all_nodes, thread))
    two: Any = sample, sample  # all rows never look
    n_nodes = _grow(team, by_reference(source), two, shape, all_limits, nodes, None)
    end(part, pool)
    return n_nodes


@kernel
def grow_full(
    part: Any,
    pool: Any,
    n_threads: Any,
    counter: Any,
    taken: Any,
    source: Any,
    looks: Any,
    shape: Any,
    all_limits: Any,
    all_nodes: Any,
) -> Any:
    """The same for any tree: with a second look, categories and constraints.

    `looks` holds both.
    """
    thread = begin(part, pool, n_threads)
    team = by_reference(Team(thread, n_threads, counter, taken))
    sample, nodes = by_reference(looks[0]), by_reference(_nodes_of(all_nodes, thread))
    rows, features, found = looks[1]
    all_rows = by_reference(Look(rows, _features_of(features, thread), found))
    two: Any = sample, all_rows
    n_nodes = _grow(team, by_reference(source), two, shape, all_limits, nodes, True)
    end(part, pool)
    return n_nodes


@kernel
def copy_nodes(nodes: Any, links: Any, reals: Any, sample: Any, all_rows: Any) -> None:
    """Copy what a tree keeps of its nodes, column by column; `all_rows` may be empty."""
    integers, own = nodes.integers[0], nodes.reals[0]  # all threads' are the same
    for node in range(sample.shape[0]):
        for column in range(links.shape[0]):
            links[column, node] = integers[node, column]
        for column in range(N_REALS):
            reals[column, node] = own[node, column]
        for word in range(2):
            sample[node, word] = integers[node, WORDS + word]
            if all_rows.shape[0] > 0:
                all_rows[node, word] = integers[node, WORDS + 2 + word]


@kernel
def mark_leaves(
    part: Any, pool: Any, n_threads: Any, rows: Any, integers: Any, n_nodes: Any, leaf: Any
) -> None:
    """Tell all rows which leaf they ended in, each thread those of its lanes."""
    thread = begin(part, pool, n_threads)
    each = rows.ranges.shape[0] // n_threads
    for lane in range(thread * each, (thread + 1) * each):
        ranges = rows.ranges[lane]
        for node in range(n_nodes):
            if integers[node, LEFT] < 0:
                order = rows.order if ranges[node, 3] == 0 else rows.scratch
                for j in range(ranges[node, 0], ranges[node, 1]):
                    leaf[np.uint64(order[j])] = node
    end(part, pool)
