"""Every verb of every backend against the reference, on the same rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mvsboost.backends.composite import CompositeBackend
from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.draws import (
    AllRows,
    BayesianBootstrap,
    DrawSummary,
    GivenProbabilities,
    Poisson,
    PoissonBootstrap,
    PositiveScores,
    RankKey,
    Score,
    ScoreRule,
    SmallestKeys,
    TopAndRest,
)
from mvsboost.backends.messages import NodeSplit, RowSet
from mvsboost.backends.protocol import Backend
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.errors import ParameterError
from mvsboost.exact.fixedpoint import Packing
from mvsboost.exact.random import Purpose, stream_key
from mvsboost.kernels.sampling import RANK_BITS
from mvsboost.metrics import RowMean, get_metric
from mvsboost.objectives import (
    Absolute,
    CustomObjective,
    Logistic,
    Quantile,
    Softmax,
    Squared,
)
from mvsboost.objectives import Poisson as PoissonLoss
from mvsboost.runtime.threads import Smallest, ThreadPool
from mvsboost.sampling.samplers import _poisson_distribution

KEY = stream_key(1, 2, Purpose.DRAW)
OTHER = stream_key(1, 2, Purpose.REST)
ALL_FEATURES = np.arange(4)


class LogCosh:
    """A user's own objective, which no backend has a kernel for."""

    def gradient(self, target, score):
        return np.tanh(score - target)

    def hessian(self, target, score):
        return 1 - np.tanh(score - target) ** 2


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "logistic": (Logistic(), {"classes": 2}),
    "logistic weighted": (Logistic(), {"classes": 2, "weighted": True, "offset": 1000}),
    "softmax weighted": (Softmax(3), {"classes": 3, "weighted": True}),
    "softmax": (Softmax(3), {"classes": 3, "offset": 3}),
    "squared": (Squared(), {}),
    "quantile weighted": (Quantile(0.3), {"weighted": True}),
    "absolute": (Absolute(), {}),
    "poisson weighted": (PoissonLoss(), {"counts": True, "weighted": True}),
    "custom weighted": (CustomObjective(LogCosh()), {"weighted": True}),
}


def chunked(make: Callable[..., Backend], edges: list[int], rows: Any, objective: Any) -> Backend:
    """A composite of children that hold the rows between the edges."""
    bounds = [0, *edges, rows.n_rows]
    return CompositeBackend([make(rows.slice(a, b), objective) for a, b in pairwise(bounds)])


def sliced(n_threads: int) -> Callable[..., Backend]:
    """Makes backends whose threads share a few rows."""
    threads = ThreadPool(n_threads, Smallest(slice=7, part=7))
    return partial(CPUBackend, n_threads=threads)


MAKERS: dict[str, Callable[..., Backend]] = {
    "cpu 1": sliced(1),
    "cpu 2": sliced(2),
    "cpu 4": sliced(4),
    "composite of reference": partial(chunked, ReferenceBackend, [1, 2, 60]),
    "composite of cpu": partial(chunked, sliced(2), [37, 38, 100]),
}


# --- verbs: from a backend with gradients to something that can be compared ---------------------


def ready(backend: Backend, tree: Any, order: int = 2) -> Backend:
    """Scores that differ between rows, and their gradients."""
    backend.set_baseline(np.linspace(-0.2, 0.4, backend.n_outputs))
    for output in range(backend.n_outputs):
        backend.apply_tree(tree, output)
    backend.compute_gradients(order)
    return backend


def scored(backend: Backend, rule: ScoreRule) -> Any:
    return backend.score_rows(rule), backend.row_scores()


def drawn(backend: Backend, make_rule: Callable[[float], Any]) -> Any:
    """The summary of a draw, and a histogram, which shows rows and weights."""
    largest = backend.score_rows(ScoreRule(Score.MVS, 0.1))
    summary = backend.draw(make_rule(largest))
    begun(backend, summary, second=False)
    return summary, backend.histograms(RowSet.SAMPLE, [0], ALL_FEATURES)


def begun(
    backend: Backend,
    summary: DrawSummary | None = None,
    *,
    second: bool = True,
    output: int | None = None,
) -> Backend:
    """Begin a tree with scales that suit a draw, or draws of small weights."""
    n, largest = 200, (500.0, 100.0, 50.0)
    if summary is not None:
        largest = (summary.max_gradient, summary.max_hessian, summary.max_weight)
    sample, all_rows = Packing.choose(n, *largest), Packing.choose(n, 50.0, 50.0, 1.0)
    last = backend.n_outputs - 1 if output is None else output
    backend.begin_tree(last, OTHER, sample, all_rows if second else None)
    return backend


def mvs_draw(backend: Backend) -> Backend:
    largest = backend.score_rows(ScoreRule(Score.MVS, 0.1))
    return begun(backend, backend.draw(Poisson(KEY, largest * 1.5)))


def splits() -> list[NodeSplit]:
    low, odd = np.zeros(256, np.uint8), np.zeros(256, np.uint8)
    low[:5] = 1
    odd[1::2] = 1
    return [NodeSplit(0, 1, 2, 1, low), NodeSplit(1, 3, 4, 0, odd), NodeSplit(2, 5, 6, 3, odd)]


def partitioned(backend: Backend, rows: RowSet) -> Any:
    mvs_draw(backend)
    first, *rest = splits()
    backend.partition(rows, [first])
    backend.partition(rows, rest)
    return backend.histograms(rows, [6, 3, 4, 5], ALL_FEATURES)


def by_node(backend: Backend) -> Any:
    mvs_draw(backend)
    backend.partition(RowSet.ALL, splits()[:1])
    return backend.histograms(RowSet.ALL, [1, 2], np.array([[3, 0], [2, 1]]))


def ranked(backend: Backend, key: RankKey) -> Any:
    backend.score_rows(ScoreRule(Score.ABS_GRADIENT))
    found, first = [], 0
    for known_bits in range(0, 64, RANK_BITS):
        counts = backend.rank_counts(key, known_bits, first >> (64 - known_bits)).copy()
        digit = int(np.append(np.flatnonzero(counts), 0)[0])
        first += (digit << (64 - RANK_BITS)) >> known_bits
        found.append(counts)
    return found


def residual_digits(backend: Backend, tree: Any) -> Any:
    first = backend.residual_counts(tree, 0, np.zeros(tree.n_nodes, np.int64), 0, 1024.0)
    prefix = first.argmax(axis=1)
    return first, backend.residual_counts(tree, 0, prefix, 8, 1024.0)


def measured(backend: Backend, objective: Any, tree: Any) -> Any:
    if not objective.has_loss or isinstance(objective, CustomObjective):
        return None
    metric = get_metric("loss", objective)
    before = backend.metric_range(metric), backend.metric_sums(metric, 2.0**20)
    backend.metric_range(metric)
    backend.apply_tree(tree, 0)  # what was measured before it no longer counts
    return before, backend.metric_sums(metric, 2.0**20)


DRAWS: dict[str, Callable[[float], Any]] = {
    "all rows": lambda largest: AllRows(),
    "certain": lambda largest: PositiveScores(),
    "poisson": lambda largest: Poisson(KEY, 0.6 * largest),
    "poisson, nobody certain": lambda largest: Poisson(KEY, 3.0 * largest),
    "given": lambda largest: GivenProbabilities(KEY, np.linspace(0, 1, 2000)),
    "smallest": lambda largest: SmallestKeys(KEY, np.uint64(2**62), 4.0),
    "nobody": lambda largest: SmallestKeys(KEY, np.uint64(0), 4.0),
    "top and rest": lambda largest: TopAndRest(
        KEY,
        np.uint64(int(np.float32(0.7 * largest).view(np.uint32)) << 32),
        OTHER,
        np.uint64(2**62),
        3.7,
    ),
    "bayesian": lambda largest: BayesianBootstrap(KEY),
    "poisson bootstrap": lambda largest: PoissonBootstrap(KEY, _poisson_distribution(0.8), 1.25),
}

VERBS: dict[str, Callable[[Backend, Any, Any], Any]] = {
    "target_range": lambda b, t, o: b.target_range(),
    "target_sums": lambda b, t, o: b.target_sums(np.array([2.0**30, 2.0**20])),
    "compute_gradients": lambda b, t, o: (b.compute_gradients(2), b.gradients()),
    "compute_gradients first order": lambda b, t, o: (b.compute_gradients(1), b.gradients()),
    "gradient_sums": lambda b, t, o: b.gradient_sums(2.0 ** np.array([30, 28, 20, 25])),
    "gradient_sums of squares": lambda b, t, o: b.gradient_sums(np.array([0, 0, 2.0**20, 2.0**25])),
    "gradient_sums, then fewer": lambda b, t, o: [
        b.gradient_sums(2.0 ** np.array([30, 28, 20, 25]) * wanted)
        for wanted in (np.ones(4), np.array([0.0, 1.0, 0.0, 1.0]), np.ones(4))
    ],
    **{
        f"score_rows {rule.name}": lambda b, t, o, rule=rule: scored(b, ScoreRule(rule, 0.3))
        for rule in Score
    },
    **{
        f"score_rows at {scale}": lambda b, t, o, scale=scale: scored(
            b, ScoreRule(Score.MVS, 0.3, scale)
        )
        for scale in (2.0**-60, 2.0**50)
    },
    "threshold_sums": lambda b, t, o: (
        b.score_rows(ScoreRule(Score.MVS, 0.0)),
        [b.threshold_sums(mu, 2.0**20) for mu in (0.0, 0.3, 1.0, 1e9)],
    ),
    "rank_counts": lambda b, t, o: ranked(b, RankKey(KEY)),
    "rank_counts by score": lambda b, t, o: ranked(b, RankKey(KEY, by_score=True)),
    "rank_counts of the rest": lambda b, t, o: ranked(
        b, RankKey(KEY, only_below=(OTHER, np.uint64(0x3F400000 << 32)))
    ),
    **{f"draw {name}": lambda b, t, o, rule=rule: drawn(b, rule) for name, rule in DRAWS.items()},
    "histograms of each output": lambda b, t, o: [
        begun(mvs_draw(b), output=k).histograms(rows, [0], np.array([2, 1]))
        for k in range(b.n_outputs)
        for rows in RowSet
    ],
    "histograms by node": lambda b, t, o: by_node(b),
    "histograms of all features out of order": lambda b, t, o: [
        mvs_draw(b).histograms(rows, [0], np.array([3, 0, 2, 1])) for rows in RowSet
    ],
    "partition of the sample": lambda b, t, o: partitioned(b, RowSet.SAMPLE),
    "partition of all rows": lambda b, t, o: partitioned(b, RowSet.ALL),
    "leaf_sums": lambda b, t, o: [
        mvs_draw(b).leaf_sums(rows, t, k, np.array([2.0**30, 2.0**31, 1.0]))
        for k in range(b.n_outputs)
        for rows in RowSet
    ],
    "residual_counts": lambda b, t, o: residual_digits(b, t),
    "apply_tree": lambda b, t, o: (b.apply_tree(t, b.n_outputs - 1), b.scores()),
    "metrics": lambda b, t, o: measured(b, o, t),
    "set_baseline": lambda b, t, o: (b.set_baseline(np.arange(b.n_outputs) + 0.5), b.scores()),
}


def assert_same(seen: Any, expected: Any) -> None:
    """Equal to the bit, but for the float sums that a draw only reports."""
    if is_dataclass(expected):
        seen, expected = asdict(seen), asdict(expected)
        for name in [key for key in expected if key.startswith("sum_weight")]:
            assert seen.pop(name) == pytest.approx(expected.pop(name), rel=1e-12)
        assert seen == expected
    elif isinstance(expected, (tuple, list)):
        assert len(seen) == len(expected)
        for a, b in zip(seen, expected, strict=True):
            assert_same(a, b)
    elif isinstance(expected, np.ndarray):
        assert seen.dtype == expected.dtype
        assert seen.shape == expected.shape
        # as bytes, -0.0 and 0.0 would differ, which no decision sees
        assert np.array_equal(seen, expected)
    else:
        assert seen == expected


@pytest.mark.parametrize("verb", list(VERBS))
@pytest.mark.parametrize("case", list(CASES))
def test_verbs_agree_with_the_reference(verb, case, make_rows, mixed_tree):
    objective, options = CASES[case]
    rows = make_rows(120, **options)
    expected = VERBS[verb](
        ready(ReferenceBackend(rows, objective), mixed_tree), mixed_tree, objective
    )
    for name, make in MAKERS.items():
        seen = VERBS[verb](ready(make(rows, objective), mixed_tree), mixed_tree, objective)
        try:
            assert_same(seen, expected)
        except AssertionError as error:
            raise AssertionError(f"backend {name!r} differs") from error


@pytest.mark.parametrize("make", [ReferenceBackend, CPUBackend], ids=["reference", "cpu"])
@settings(deadline=None, max_examples=15)
@given(edges=st.sets(st.integers(1, 59), max_size=8), case=st.sampled_from(sorted(CASES)))
def test_any_chunks_make_the_same_whole(make, edges, case, make_rows, mixed_tree):
    objective, options = CASES[case]
    rows = make_rows(60, **options)
    whole = ready(make(rows, objective), mixed_tree)
    parts = ready(chunked(make, sorted(edges), rows, objective), mixed_tree)
    for verb in ("gradient_sums", "draw poisson", "partition of all rows", "leaf_sums", "metrics"):
        expected = VERBS[verb](whole, mixed_tree, objective)
        assert_same(VERBS[verb](parts, mixed_tree, objective), expected)


def test_chunks_of_one_row(make_rows, mixed_tree):
    objective, options = CASES["softmax weighted"]
    rows = make_rows(20, **options)
    whole = ready(ReferenceBackend(rows, objective), mixed_tree)
    parts = ready(chunked(CPUBackend, list(range(1, 20)), rows, objective), mixed_tree)
    for verb in VERBS:
        expected = VERBS[verb](whole, mixed_tree, objective)
        assert_same(VERBS[verb](parts, mixed_tree, objective), expected)


def test_every_backend_speaks_the_whole_protocol(make_rows):
    rows = make_rows(20)
    for make in (ReferenceBackend, *MAKERS.values()):
        if isinstance(make, partial) and make.func is chunked:
            make = partial(chunked, make.args[0], [3])
        assert isinstance(make(rows, Squared()), Backend)


def test_a_draw_forgets_the_one_before(make_rows, mixed_tree):
    rows = make_rows(80)
    for make in (ReferenceBackend, CPUBackend):
        backend = ready(make(rows, Squared()), mixed_tree)
        backend.draw(SmallestKeys(KEY, np.uint64(2**60), 9.0))
        assert backend.draw(AllRows()).n_rows == 80
        histogram = begun(backend).histograms(RowSet.SAMPLE, [0], np.array([2]))
        assert Packing.choose(200, 500.0, 100.0, 50.0).unpack(histogram[0].sum(axis=0)).count == 80


@pytest.mark.parametrize("make", [ReferenceBackend, *MAKERS.values()])
def test_the_first_row_that_is_not_finite_is_named_by_its_global_id(make, make_rows):
    class Broken:
        name = "broken"

        def gradients(self, target, scores):
            g = scores - target
            return np.where(np.abs(target) > 99, np.nan, g), np.ones_like(g)

    rows = make_rows(120, offset=500)
    rows.target[[70, 71, 110]] = 100.0
    backend = make(rows, CustomObjective(Broken()))
    backend.set_baseline(np.zeros(1))
    with np.errstate(invalid="ignore"):
        assert backend.compute_gradients(2).bad_row == 570


class RanksAndBesides:
    """An objective that looks at all rows, and has an array beside the target."""

    def __init__(self, n):
        self.besides, self.calls = np.linspace(1.0, 2.0, n), []

    def _noted(self, scores):
        self.calls.append((scores.shape[1], threading.current_thread()))

    def gradients(self, target, scores):
        self._noted(scores)
        rank = np.argsort(np.argsort(target - scores[0]))
        return (scores - target.mean()) * self.besides - rank, np.ones_like(scores)

    def loss(self, target, scores):
        self._noted(scores)
        return (target - target.mean() - scores[0]) ** 2 * self.besides


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_users_own_objective_is_called_once_on_all_rows(n_threads, make_rows, mixed_tree):
    rows, seen = make_rows(120, weighted=True), []
    for make in (ReferenceBackend, sliced(n_threads)):
        own = RanksAndBesides(120)
        objective = CustomObjective(own)
        backend, metric = make(rows, objective), get_metric("loss", objective)
        backend.set_baseline(np.zeros(1))
        backend.apply_tree(mixed_tree, 0)
        seen.append(
            (backend.compute_gradients(2), backend.gradients(), backend.metric_range(metric))
        )
        assert own.calls == [(120, threading.current_thread())] * 2
    assert_same(seen[1], seen[0])


def test_a_composite_calls_an_objective_chunk_by_chunk(make_rows):
    own = RanksAndBesides(60)
    backend = chunked(CPUBackend, [60], make_rows(120), CustomObjective(own))
    backend.compute_gradients(2)
    assert [n for n, _ in own.calls] == [60, 60]


@pytest.mark.parametrize("weight_scale", [0.25, 0.5, 1.0, 8.0])
@pytest.mark.parametrize("rule", [AllRows(), PositiveScores()], ids=["all rows", "certain"])
def test_rows_drawn_whole_keep_their_weight_beside_heavy_ones(
    weight_scale, rule, make_rows, mixed_tree
):
    """Where another chunk has weights of a million, a weight of 1 is less than a unit."""
    packing, sums = Packing(64.0, 64.0, weight_scale, 8), []
    for make in (ReferenceBackend, *MAKERS.values()):
        backend = ready(make(make_rows(120), Squared()), mixed_tree)
        backend.score_rows(ScoreRule(Score.MVS, 0.1))
        assert backend.draw(rule).n_certain == 120
        backend.begin_tree(0, OTHER, packing, None)
        sums.append(backend.histograms(RowSet.SAMPLE, [0], ALL_FEATURES))
        assert_same(sums[-1], sums[0])
    assert packing.unpack(sums[0][0, :6].sum(axis=0)).weight > 60


@pytest.mark.parametrize("make", [ReferenceBackend, *MAKERS.values()])
def test_a_negative_hessian_is_seen(make, make_rows):
    class Concave:
        name = "concave"

        def gradients(self, target, scores):
            h = np.ones_like(scores)
            h[:, target > 12] = -2.0
            return scores - target, h

    backend = make(make_rows(120), CustomObjective(Concave()))
    backend.set_baseline(np.zeros(1))
    assert backend.compute_gradients(2).min_hessian == -2.0
    assert backend.compute_gradients(1).min_hessian == 1.0


def test_a_composite_needs_a_child():
    with pytest.raises(ParameterError, match="at least one backend"):
        CompositeBackend([])


def test_a_composite_runs_its_children_where_it_is_told(make_rows, mixed_tree):
    calls = []

    def each(function, children):
        calls.append(len(children))
        return [function(child) for child in children]

    rows = make_rows(60)
    children = [ReferenceBackend(rows.slice(a, a + 20), Squared()) for a in (0, 20, 40)]
    backend = ready(CompositeBackend(children, each), mixed_tree)
    whole = ready(ReferenceBackend(rows, Squared()), mixed_tree)
    assert np.array_equal(backend.scores(), whole.scores())
    assert set(calls) == {3}


@pytest.mark.parametrize("make", [ReferenceBackend, *MAKERS.values()])
def test_a_loss_that_is_no_number_is_seen_wherever_its_row_lies(make, make_rows):
    rows = make_rows(120)
    rows.target[70] = np.inf
    metric = RowMean("odd", lambda y, p: np.where(np.isinf(y), np.nan, 1.0), False)
    assert np.isnan(metric.evaluate(make(rows, Squared()), rows))
