"""The grower: both policies, limits, exact sums, and the same tree from every backend."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.cpu.compilation import jit_enabled
from mvsboost.backends.cpu.growing import Ways
from mvsboost.backends.draws import AllRows, SmallestKeys
from mvsboost.backends.messages import RowSet
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.exact.fixedpoint import Packing
from mvsboost.exact.random import Purpose, stream_key
from mvsboost.kernels.small_nodes import MOST_ROWS
from mvsboost.objectives import Squared
from mvsboost.runtime import threads
from mvsboost.trees import FeatureTable, TreeParams, grow_tree, grower

KEY = stream_key(0, 0, Purpose.ROUNDING)
PARAMS = TreeParams(max_leaves=10, min_samples_leaf=3)
LEVELS = replace(PARAMS, max_leaves=None, max_depth=3)


def grow(rows, params=PARAMS, make=ReferenceBackend, draw=None, monotone=(0, 0, 0, 0)):
    """A tree on the squared loss; with `draw`, from a sample and, if asked, a second look."""
    backend = make(rows, Squared())
    backend.set_baseline(np.zeros(1))
    seen = backend.compute_gradients(2)
    summary = backend.draw(draw or AllRows())
    sample = Packing.choose(
        summary.n_rows, summary.max_gradient, summary.max_hessian, summary.max_weight
    )
    exact = None
    if params.second_look and draw:
        exact = Packing.choose(rows.n_rows, seen.max_gradient, seen.max_hessian, 1.0)
    backend.begin_tree(0, KEY, sample, exact)
    table = FeatureTable(
        rows.n_bins, np.array([True, False, False, False]), np.array(monotone, np.int8)
    )
    return grow_tree(backend, table, np.arange(4), params, sample, exact)


def some_rows(share: float) -> SmallestKeys:
    return SmallestKeys(KEY, np.uint64(int(share * 2**64)), 1 / share)


def members(tree, rows):
    """Whether each row passes through each node, (n_nodes, n_rows)."""
    table = tree.goes_left()
    inside = np.zeros((tree.n_nodes, rows.n_rows), bool)
    inside[0] = True
    for node in np.flatnonzero(~tree.is_leaf):
        left = table[node, rows.bins[:, tree.feature[node]]] == 1
        inside[tree.left[node]] = inside[node] & left
        inside[tree.right[node]] = inside[node] & ~left
    return inside


def depths(tree):
    depth = np.zeros(tree.n_nodes, int)
    for node in np.flatnonzero(~tree.is_leaf):
        depth[[tree.left[node], tree.right[node]]] = depth[node] + 1
    return depth


def same_tree(a, b):
    assert a.structure.to_dict() == b.structure.to_dict()
    inner = ~a.structure.is_leaf
    assert np.array_equal(a.nodes.goes_left[inner], b.nodes.goes_left[inner])
    for name in ("lower", "upper", "sample", "all_rows"):
        assert np.array_equal(getattr(a.nodes, name), getattr(b.nodes, name)), name


def same_by_verbs_and_at_once(rows, params, draw, monotone, make=CPUBackend):
    by_verbs = grow(rows, params, ReferenceBackend, draw, monotone)
    same_tree(grow(rows, params, make, draw, monotone), by_verbs)
    return by_verbs


class Counting(ReferenceBackend):
    """Notes what histograms it is asked for."""

    def __init__(self, rows, objective):
        super().__init__(rows, objective)
        self.asked = []
        Counting.last = self

    def histograms(self, rows, nodes, features):
        self.asked += [(rows, node, features.shape[-1]) for node in nodes]
        return super().histograms(rows, nodes, features)


def nodes_seen(rows):
    return [node for kind, node, _ in Counting.last.asked if kind is rows]


@pytest.mark.parametrize("params", [PARAMS, LEVELS], ids=["best-first", "depth-wise"])
def test_only_the_smaller_of_two_children_is_counted(params, make_rows):
    grown = grow(make_rows(400), params, Counting, some_rows(0.5))
    tree, words = grown.structure, grown.nodes.sample
    seen = nodes_seen(RowSet.SAMPLE)
    assert len(seen) == len(set(seen)) <= tree.n_leaves
    for node in seen[1:]:
        sibling = node + 1 if node in tree.left else node - 1
        own, other = (grown.sample_packing.unpack(words[i]).count for i in (node, sibling))
        assert own <= other


@pytest.mark.parametrize("params", [PARAMS, LEVELS], ids=["best-first", "depth-wise"])
def test_all_rows_look_at_a_node_once_and_only_when_its_turn_comes(params, make_rows):
    params = replace(params, second_look=2)
    tree = grow(make_rows(400), params, Counting, some_rows(0.3)).structure
    looks = [(node, width) for kind, node, width in Counting.last.asked if kind is RowSet.ALL]
    assert looks[0] == (0, 1)  # one column is enough for the root's own sums
    nodes = [node for node, width in looks[1:]]
    assert len(nodes) == len(set(nodes))
    assert all(width == 2 for _, width in looks[1:])
    assert set(np.flatnonzero(~tree.is_leaf)) <= set(nodes)
    if params.max_leaves is not None:
        assert len(nodes) < tree.n_nodes - 1


def grow_and_count(rows, params, make, draw):
    """A tree, and what each thread counted of both looks' rows."""
    made = []

    def noted(rows, objective):
        made.append(make(rows, objective))
        return made[-1]

    tree = grow(rows, params, noted, draw)
    return tree, made[0].grower.room.nodes.work


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("params", [PARAMS, LEVELS], ids=["best-first", "depth-wise"])
def test_whole_trees_count_the_smaller_of_two_children(params, n_threads, make_rows, sliced):
    if n_threads > 1 and not jit_enabled():
        pytest.skip("plain Python has no threads to meet")
    make = sliced(n_threads, small_node=0)
    # all rows look at all four features, so that a parent's histogram always has the child's
    params = replace(params, second_look=4)
    grown, work = grow_and_count(make_rows(400), params, make, some_rows(0.5))
    tree, inner = grown.structure, ~grown.structure.is_leaf
    assert tree.n_leaves > 5
    sample, exact = (
        [packing.unpack(words).count for words in of_nodes]
        for packing, of_nodes in (
            (grown.sample_packing, grown.nodes.sample),
            (grown.exact_packing, grown.nodes.all_rows),
        )
    )
    pairs = list(zip(tree.left[inner], tree.right[inner], strict=True))
    assert len(work) == n_threads
    of_sample, of_all = work.sum(axis=0)
    smaller = [min(exact[a], exact[b]) for a, b in pairs]
    looked_at = [n for n, (a, b) in zip(smaller, pairs, strict=True) if inner[a] or inner[b]]
    assert of_sample <= 4 * (sample[0] + sum(min(sample[a], sample[b]) for a, b in pairs))
    # nodes that all rows looked at in vain are not inner ones
    assert 4 * (exact[0] + sum(looked_at)) <= of_all <= 4 * (exact[0] + sum(smaller))


@pytest.mark.parametrize("params", [PARAMS, LEVELS], ids=["best-first", "depth-wise"])
@pytest.mark.parametrize("make", [ReferenceBackend, CPUBackend])
def test_every_row_is_in_one_leaf(params, make, make_rows):
    rows = make_rows(200)
    tree = grow(rows, params, make).structure
    inside = members(tree, rows)
    assert tree.n_leaves > 3
    assert (inside[tree.is_leaf].sum(axis=0) == 1).all()
    assert np.array_equal(tree.cover, inside.sum(axis=1))


@pytest.mark.parametrize("make", [ReferenceBackend, CPUBackend])
@pytest.mark.parametrize("max_leaves", [2, 3, 7])
def test_max_leaves(max_leaves, make, make_rows):
    tree = grow(make_rows(300), replace(PARAMS, max_leaves=max_leaves), make).structure
    assert tree.n_leaves == max_leaves
    assert tree.n_nodes == 2 * max_leaves - 1


@pytest.mark.parametrize("make", [ReferenceBackend, CPUBackend])
@pytest.mark.parametrize("max_leaves", [None, 100])
@pytest.mark.parametrize("max_depth", [1, 2, 4])
def test_max_depth(max_depth, max_leaves, make, make_rows):
    params = replace(PARAMS, max_leaves=max_leaves, max_depth=max_depth)
    tree = grow(make_rows(300), params, make).structure
    assert depths(tree).max() == max_depth


def test_levels_are_split_in_full(make_rows):
    tree = grow(make_rows(300), LEVELS).structure
    depth = depths(tree)
    assert (np.diff(depth) >= 0).all()
    # a node above the last level is a leaf only where it cannot be split
    deeper = grow(make_rows(300), replace(LEVELS, max_depth=9)).structure
    shallow = tree.is_leaf & (depth < 3)
    assert deeper.is_leaf[: tree.n_nodes][shallow].all()
    assert not deeper.is_leaf[: tree.n_nodes][~tree.is_leaf].any()


@pytest.mark.parametrize("make", [ReferenceBackend, CPUBackend])
@pytest.mark.parametrize("params", [PARAMS, LEVELS])
@pytest.mark.parametrize("least", [1, 17, 60])
def test_min_samples_leaf_holds_for_real(least, params, make, make_rows):
    rows = make_rows(300)
    tree = grow(rows, replace(params, min_samples_leaf=least), make).structure
    sizes = members(tree, rows).sum(axis=1)
    assert tree.n_leaves > 1
    assert sizes.min() >= least


@pytest.mark.parametrize("params", [PARAMS, LEVELS])
def test_min_samples_leaf_holds_for_real_after_a_second_look(params, make_rows):
    rows = make_rows(400)
    params = replace(params, min_samples_leaf=25, second_look=2)
    tree = grow(rows, params, draw=some_rows(0.3)).structure
    sizes = members(tree, rows).sum(axis=1)
    assert tree.n_leaves > 1
    assert sizes.min() >= 25
    assert np.array_equal(tree.cover, sizes)


def test_min_sampled_holds_for_the_sample(make_rows):
    rows = make_rows(400)
    grown = grow(rows, replace(PARAMS, min_sampled=9), draw=some_rows(0.3))
    counts = [grown.sample_packing.unpack(words).count for words in grown.nodes.sample]
    assert grown.structure.n_leaves > 1
    assert min(counts) >= 9


def test_min_child_weight(make_rows):
    rows = make_rows(300)
    tree = grow(rows, replace(PARAMS, min_child_weight=40.0)).structure
    # the hessian of the squared loss is 1
    assert members(tree, rows).sum(axis=1).min() >= 40


def test_gains_are_taken_in_order_of_size(make_rows):
    tree = grow(make_rows(300)).structure
    whole = grow(make_rows(300), replace(PARAMS, max_leaves=4)).structure
    split = np.flatnonzero(~whole.is_leaf)
    # a smaller tree is the beginning of a larger one
    assert np.array_equal(tree.feature[split], whole.feature[split])
    assert np.array_equal(tree.gain[split], whole.gain[split])


def test_min_gain_bounds_every_split(make_rows):
    every = grow(make_rows(300)).structure
    cut = float(np.median(every.gain[~every.is_leaf]))
    tree = grow(make_rows(300), replace(PARAMS, min_gain=cut)).structure
    assert tree.gain[~tree.is_leaf].min() > cut
    assert tree.n_leaves < every.n_leaves


@pytest.mark.parametrize("draw", [None, some_rows(0.4)], ids=["all rows", "sample"])
@pytest.mark.parametrize("params", [PARAMS, LEVELS])
def test_subtracted_histograms_equal_direct_ones(params, draw, make_rows, monkeypatch):
    seen = []

    class Recording(grower.SplitSearch):
        def __init__(self, table, features, histogram, total, *rest):
            seen.append((histogram.copy(), total.copy()))
            super().__init__(table, features, histogram, total, *rest)

    monkeypatch.setattr(grower, "SplitSearch", Recording)
    made = []

    def make(rows, objective):
        made.append(ReferenceBackend(rows, objective))
        return made[0]

    rows = make_rows(200)
    grown = grow(rows, params, make, draw)
    backend = made[0]
    drawn = next(iter(backend._members.values()))
    words = next(iter(backend._words.values()))
    inside = members(grown.structure, rows)[:, drawn]
    assert len(seen) > 4
    for histogram, total in seen:
        (node,) = [i for i in range(len(inside)) if np.array_equal(words[inside[i]].sum(0), total)]
        bins = rows.bins[drawn][inside[node]]
        direct = []
        for f in range(4):
            part = np.zeros((rows.n_bins[f] + 1, 2), np.int64)
            np.add.at(part, bins[:, f].astype(int), words[inside[node]])
            direct.append(part)
        assert np.array_equal(histogram, np.concatenate(direct))


@pytest.mark.parametrize("second_look", [0, 1, 3, 4])
@pytest.mark.parametrize("draw", [None, some_rows(0.3)], ids=["all rows", "sample"])
@pytest.mark.parametrize("params", [PARAMS, LEVELS, replace(LEVELS, max_depth=None)])
@pytest.mark.parametrize("monotone", [(0, 0, 0, 0), (0, 1, 0, -1)])
@pytest.mark.parametrize("small_node", [0, 40, MOST_ROWS])
def test_a_whole_tree_in_one_call_is_the_tree_grown_by_verbs(
    second_look, draw, params, monotone, small_node, make_rows
):
    params = replace(params, second_look=second_look)
    make = partial(CPUBackend, ways=Ways(small_node=small_node))
    same_by_verbs_and_at_once(make_rows(250), params, draw, monotone, make)


class Far(Counting):
    """Rows that are asked ahead; counts the questions."""

    is_far = True
    questions = 0

    def histograms(self, rows, nodes, features):
        Far.questions += 1
        return super().histograms(rows, nodes, features)


@pytest.mark.parametrize("second_look", [0, 2])
@pytest.mark.parametrize("max_leaves", [2, 5, 10, 31])
@pytest.mark.parametrize("monotone", [(0, 0, 0, 0), (0, 1, 0, -1)])
def test_rows_asked_ahead_give_the_same_tree(second_look, max_leaves, monotone, make_rows):
    params = replace(PARAMS, second_look=second_look, max_leaves=max_leaves)
    rows, draw = make_rows(2000), some_rows(0.4)
    Far.questions = 0
    tree = grow(rows, params, Far, draw, monotone)
    same_tree(tree, grow(rows, params, ReferenceBackend, draw, monotone))
    looks = 2 if second_look else 1
    assert Far.questions <= looks * (tree.structure.n_leaves + 1)
    if max_leaves == 31:
        assert tree.structure.n_leaves > 20
        assert Far.questions <= (28 if second_look else 12)  # 62 and 31, asked one by one


# --- threads, and trees of any size -------------------------------------------------------------


@pytest.mark.parametrize("params", [PARAMS, LEVELS])
@pytest.mark.parametrize(
    "way",
    [{"small_node": 0}, {"small_node": 40}, {"small_node": MOST_ROWS}, {"room": 0}],
    ids=str,
)
def test_threads_grow_the_same_tree(params, way, make_rows, sliced):
    rows = make_rows(250)
    params = replace(params, second_look=2)
    for n_threads in (2, 4):
        make = sliced(n_threads, **way)
        for draw in (None, some_rows(0.3)):
            same_tree(grow(rows, params, make, draw), grow(rows, params, draw=draw))


@pytest.mark.skipif(not jit_enabled(), reason="plain Python has no threads to meet")
@pytest.mark.parametrize("second_look", [0, 2])
def test_threads_take_the_lanes_of_one_that_is_late(second_look, make_rows, sliced, monkeypatch):
    rows, draw = make_rows(250), some_rows(0.4)
    params = replace(PARAMS, second_look=second_look)
    expected, (alone,) = grow_and_count(rows, params, sliced(1, small_node=0), draw)
    serve = threads.serve

    def late(pool, thread, *rest):
        time.sleep(0.05 * (thread == 2))
        return serve(pool, thread, *rest)

    monkeypatch.setattr(threads, "serve", late)
    tree, team = grow_and_count(rows, params, sliced(3, small_node=0), draw)
    same_tree(tree, expected)
    assert np.array_equal(team.sum(axis=0), alone)  # every lane was visited, and once
    in_root = 4 * expected.sample_packing.unpack(expected.nodes.sample[0]).count
    assert team[0][0] + team[1][0] >= in_root


@pytest.mark.parametrize("n", [12, 40, 500])
@pytest.mark.parametrize("second_look", [0, 2])
def test_rows_one_by_one_give_the_tree_of_histograms(n, second_look, make_rows):
    # as many rows as there is room for, and fewer rows than a feature has bins
    params = TreeParams(max_leaves=40, min_samples_leaf=1, second_look=second_look)
    rows, make = make_rows(n), partial(CPUBackend, ways=Ways(small_node=MOST_ROWS))
    for draw in (None, some_rows(0.6)):
        same_tree(grow(rows, params, make, draw), grow(rows, params, draw=draw))


@pytest.mark.parametrize("draw", [None, some_rows(0.5)], ids=["all rows", "some rows"])
@pytest.mark.parametrize("second_look", [0, 2])
@pytest.mark.parametrize("limits", [{"max_leaves": 100}, {"max_leaves": None, "max_depth": 12}])
def test_of_many_nodes_of_equal_gain_the_first_is_split_first(limits, second_look, draw, make_rows):
    rows = make_rows(600)
    rows = replace(rows, target=np.floor(rows.target) % 2)  # so that many small nodes are alike
    params = TreeParams(**limits, min_samples_leaf=1, l2=0.0, second_look=second_look)
    tree = same_by_verbs_and_at_once(rows, params, draw, (0, 0, 0, 0)).structure
    gains = tree.gain[~tree.is_leaf]
    assert len(gains) > 80
    assert len(np.unique(gains)) < len(gains)


def test_a_whole_tree_may_have_more_leaves_than_sampled_rows(make_rows):
    # all rows decide, so a side may hold no sampled row at all
    rows = make_rows(120)
    draw = some_rows(0.04)
    for params in (replace(PARAMS, max_leaves=40), replace(LEVELS, max_depth=9)):
        params = replace(params, second_look=3, min_samples_leaf=1)
        by_verbs = grow(rows, params, draw=draw)
        sampled = by_verbs.sample_packing.unpack(by_verbs.nodes.sample[0]).count
        assert by_verbs.structure.n_leaves > sampled
        same_tree(grow(rows, params, CPUBackend, draw), by_verbs)


def test_a_constant_target_gives_a_single_leaf(make_rows):
    rows = make_rows(100)
    rows.target[:] = 3.0
    for make in (ReferenceBackend, CPUBackend):
        for params in (PARAMS, LEVELS):
            grown = grow(rows, params, make)
            assert grown.structure.n_nodes == 1
            assert grown.structure.cover.tolist() == [100.0]


def test_only_the_given_features_are_used(make_rows):
    rows = make_rows(200)
    for make in (ReferenceBackend, CPUBackend):
        backend = make(rows, Squared())
        backend.set_baseline(np.zeros(1))
        seen = backend.compute_gradients(2)
        backend.draw(AllRows())
        packing = Packing.choose(200, seen.max_gradient, 1.0, 1.0)
        backend.begin_tree(0, KEY, packing, None)
        table = FeatureTable(rows.n_bins, np.zeros(4, bool), np.zeros(4, np.int8))
        tree = grow_tree(backend, table, np.array([0, 3]), PARAMS, packing).structure
        assert set(tree.feature[~tree.is_leaf]) <= {0, 3}
        assert tree.n_leaves > 1
