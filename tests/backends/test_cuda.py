"""The CUDA backend against the reference: on Numba's simulator, or on a GPU (`make test-gpu`)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from mvsboost import MVSClassifier, MVSRegressor
from mvsboost.backends.cuda import CUDABackend, device
from mvsboost.backends.cuda.device import SIMULATED
from mvsboost.backends.cuda.growing import TreeGrower, chunk_bits
from mvsboost.backends.cuda.programs import Queue
from mvsboost.backends.messages import BinnedRows, TreeRequest
from mvsboost.backends.protocol import Backend
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.errors import DataError
from mvsboost.exact.fixedpoint import Packing
from mvsboost.objectives import (
    Absolute,
    CrossEntropy,
    Gamma,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Quantiles,
    Softmax,
    Squared,
    Tweedie,
)
from mvsboost.objectives.builtin import BUILTIN
from tests.backends.test_verbs import CASES, VERBS, assert_same, chunked, ready

pytestmark = [pytest.mark.large, pytest.mark.usefixtures("often_switched")]

N_ROWS = 30 if SIMULATED else 120
"""The simulator goes through rows in plain Python."""

OF_GRADIENTS = ["compute_gradients", "compute_gradients first order", "metrics"]


def agree(verb, case, make, make_rows, tree):
    objective, options = CASES[case]
    rows = make_rows(N_ROWS, **options)
    expected = VERBS[verb](ready(ReferenceBackend(rows, objective), tree), tree, objective)
    assert_same(VERBS[verb](ready(make(rows, objective), tree), tree, objective), expected)


@pytest.mark.parametrize("verb", list(VERBS))
@pytest.mark.parametrize("case", ["logistic weighted"] if SIMULATED else list(CASES))
def test_verbs_agree_with_the_reference(verb, case, make_rows, mixed_tree):
    agree(verb, case, CUDABackend, make_rows, mixed_tree)


@pytest.mark.parametrize("verb", OF_GRADIENTS)
@pytest.mark.parametrize("case", list(CASES))
def test_gradients_agree_with_the_reference(verb, case, make_rows, mixed_tree):
    agree(verb, case, CUDABackend, make_rows, mixed_tree)


EXTREME_SCORES = [0.0, 700.0, -700.0, 709.0, -709.0, 80.0, -80.0, 35.0, -35.0, 1e-9]

REALS = [0.0, 1e-3, -2.5, 40.0, 1e30]
COUNTS = [0.0, 1.0, 3.0, 1e6]

OBJECTIVES = {
    "logistic": (Logistic, (), [0.0, 1.0]),
    "softmax": (Softmax, (3,), [0.0, 1.0, 2.0]),
    "squared": (Squared, (), REALS),
    "absolute": (Absolute, (), REALS),
    "quantile": (Quantile, (0.3,), REALS),
    "quantiles": (Quantiles, ([0.1, 0.5, 0.7],), REALS),
    "huber": (Huber, (0.7,), REALS),
    "poisson": (Poisson, (), COUNTS),
    "gamma": (Gamma, (), [1e-3, 0.7, 1e6]),
    "tweedie": (Tweedie, (1.3,), COUNTS),
    "cross_entropy": (CrossEntropy, (), [0.0, 0.3, 1.0]),
}
"""Of each built-in objective: its class, its parameters, and targets."""


def gradients_of(make, objective, targets, order, weighted):
    """Gradients at extreme scores and at usual ones, some of them equal to the target."""
    rng = np.random.default_rng(0)
    n = len(EXTREME_SCORES) + N_ROWS
    y = rng.choice(targets, n)
    scores = rng.normal(0.0, 2.0, (objective.n_outputs, n))
    scores[:, : len(EXTREME_SCORES)] = rng.permuted([EXTREME_SCORES] * len(scores), axis=1)
    scores[:, -3:] = y[-3:]
    weight = rng.choice([0.0, 0.1, 2.5], n) if weighted else None
    bins = np.zeros((n, 1), np.uint8)
    backend = make(BinnedRows(bins, np.array([1]), y, weight, start=scores), objective)
    backend.set_baseline(np.zeros(objective.n_outputs))
    return backend.compute_gradients(order), *backend.gradients()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", list(BUILTIN))
def test_every_builtin_objective_has_a_kernel(name, order, weighted, monkeypatch):
    kind, parameters, targets = OBJECTIVES[name]
    assert kind is BUILTIN[name]
    with np.errstate(all="ignore"):  # some are beyond float32, or 0 times infinity
        expected, *values = gradients_of(
            ReferenceBackend, kind(*parameters), targets, order, weighted
        )
    objective = kind(*parameters)
    monkeypatch.setattr(objective, "gradients", None)  # nobody calls them on the host
    seen, *found = gradients_of(CUDABackend, objective, targets, order, weighted)
    for array, value in zip(found, values, strict=True):
        assert np.array_equal(array, value, equal_nan=True)
    assert seen.bad_row == expected.bad_row
    if seen.bad_row < 0:
        assert seen == expected


def test_a_subclass_has_its_own_gradients():
    class Halved(Gamma):
        def gradients(self, target, scores):
            g, h = super().gradients(target, scores)
            return 0.5 * g, 0.5 * h

    (_, whole, _), (_, half, _) = (
        gradients_of(CUDABackend, kind(), [1.0], 2, True) for kind in (Gamma, Halved)
    )
    is_finite = np.isfinite(whole)
    assert np.array_equal(half[is_finite], 0.5 * whole[is_finite])


@pytest.mark.parametrize("verb", ["draw poisson", "partition of all rows", "leaf_sums", "metrics"])
def test_chunks_make_the_same_whole(verb, make_rows, mixed_tree):
    def make(rows, objective):
        return chunked(CUDABackend, [11], rows, objective)

    agree(verb, "softmax weighted", make, make_rows, mixed_tree)


def test_the_whole_protocol_is_spoken(make_rows):
    assert isinstance(CUDABackend(make_rows(4), Squared()), Backend)


def test_the_first_row_that_is_not_finite_is_named(make_rows):
    rows = make_rows(20, offset=5)
    rows.target[[7, 9]] = np.nan
    backend = CUDABackend(rows, Squared())
    backend.set_baseline(np.zeros(1))
    assert backend.compute_gradients(2).bad_row == 12


def rows_of(n, n_features, **others):
    bins, n_bins = np.zeros((n, n_features), np.uint8), np.ones(n_features, np.int64)
    return BinnedRows(bins, n_bins, np.zeros(n), **others)


def test_too_little_memory_is_said_ahead():
    rows = rows_of(1_000_000, 28, weight=np.ones(1_000_000))
    said = (
        "device 'cuda' must have 0.108 GB of memory free for 1,000,000 rows of 28 features "
        "(outputs: 1), got 0.100 GB: train with device='cpu', on fewer rows"
    )
    with pytest.raises(DataError, match=re.escape(said)):
        CUDABackend(rows, Squared(), free=100_000_000)


# for each row: words of bins; target, losses, draw, row score, leaf; a score, g and h; words
# and orders; weight or initial score, if any
@pytest.mark.parametrize(
    ("n_features", "objective", "given", "needed"),
    [
        (8, Squared(), {}, 8 + 36 + 16 + 16),
        (9, Squared(), {"weight": np.ones(5)}, 16 + 36 + 16 + 16 + 8),
        (3, Softmax(3), {}, 8 + 36 + 48 + 16),
        (3, Softmax(3), {"start": np.zeros((3, 5))}, 8 + 36 + 48 + 24),  # gone before trees
        (400, Squared(), {}, 400 + 400),  # bins, and bins as they come, before all else
    ],
)
def test_as_much_memory_is_needed_as_rows_take(n_features, objective, given, needed):
    rows = rows_of(5, n_features, **given)
    assert CUDABackend(rows, objective, free=5 * needed).n_rows == 5
    with pytest.raises(DataError, match=f"for 5 rows of {n_features} features"):
        CUDABackend(rows, objective, free=5 * needed - 1)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("std::bad_alloc"),
        RuntimeError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"),
    ],
)
def test_memory_that_is_short_later_is_the_same_error(error):
    device.give_back()
    said = r"device 'cuda' must have 3\.000 GB of memory free for one array more, got .* GB: train"
    with pytest.raises(DataError, match=said), device.asking_for(3_000_000_000):
        raise error


def test_other_errors_of_the_device_are_what_they_are():
    with pytest.raises(RuntimeError, match="ILLEGAL_ADDRESS"), device.asking_for(1):
        raise RuntimeError("[700] Call to cuMemAlloc results in CUDA_ERROR_ILLEGAL_ADDRESS")


@pytest.mark.skipif(SIMULATED, reason="the simulator has no end of memory")
def test_a_gpu_says_that_it_has_no_room():
    device.check_memory(1 << 20, "a little")
    with pytest.raises(DataError, match="for rows, got"):
        device.check_memory(1 << 50, "rows")
    with pytest.raises(DataError, match="for one array more, got"):
        device.room(1 << 45, np.float64)
    device.room(1 << 10, np.float64)  # it works on


MODELS = {
    "mvs": (MVSRegressor, {}),
    "second look": (MVSRegressor, {"second_look": 2}),
    "depth-wise": (MVSRegressor, {"max_leaves": None, "max_depth": 3}),
    "depth-wise second look": (
        MVSRegressor,
        {"max_leaves": None, "max_depth": 4, "second_look": 2, "monotone_constraints": [1, 0, 0]},
    ),
    "depth-wise second look of three classes": (
        MVSClassifier,
        {"max_leaves": None, "max_depth": 3, "second_look": 1, "colsample": 0.7},
    ),
    "groups": (MVSRegressor, {"interaction_constraints": [[0, 1], [1, 2]], "colsample": 0.7}),
    "leaves of the sample": (MVSRegressor, {"leaf_values": "sample"}),
    "goss": (MVSRegressor, {"sampler": "goss"}),
    "quantile": (MVSRegressor, {"objective": "quantile", "quantile": 0.3}),
    "all rows": (MVSRegressor, {"sampler": "none", "monotone_constraints": [1, 0, 0]}),
    "two classes": (MVSClassifier, {}),
    "three classes": (MVSClassifier, {}),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_models_are_those_of_the_cpu(name):
    kind, parameters = MODELS[name]
    rng = np.random.default_rng(0)
    n = 60 if SIMULATED else 5000
    X = rng.integers(0, 9, (n, 3)).astype(float)
    X[rng.random((n, 3)) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2 + rng.normal(size=n)
    if kind is MVSClassifier:
        y = np.digitize(y, [20.0] if name == "two classes" else [10.0, 30.0])
    n_trees = 20 if not SIMULATED else 2 if name in ("mvs", "two classes") else 1
    size = {"n_estimators": n_trees, "max_leaves": 5, "min_samples_leaf": 3}
    others = {"categorical_features": [2], "second_look": 0, "n_jobs": 1}
    parameters = {**size, **others, **parameters}
    weight = rng.random(n)
    cpu, cuda = (
        kind(**parameters, device=device).fit(X, y, sample_weight=weight).model_.to_dict()
        for device in ("cpu", "cuda")
    )
    for part in ("iterations", "baseline", "history"):
        assert cuda[part] == cpu[part]


def test_leaves_by_a_feature_of_large_number(mixed_tree):
    wide = np.full(70_000, 1, np.int64)
    wide[[65_537, 69_999]] = [12, 5]
    tree = replace(mixed_tree, feature=np.array([65_537, 69_999, -1, -1, -1], np.int32))
    bins = np.zeros((12, len(wide)), np.uint8)
    bins[:, 65_537], bins[:, 69_999] = [*range(4), *range(4), 5, 9, 11, 12], np.arange(12) % 6
    rows = BinnedRows(bins, wide, np.zeros(12))
    expected, seen = (make(rows, Squared()) for make in (ReferenceBackend, CUDABackend))
    for backend in (expected, seen):
        backend.set_baseline(np.zeros(1))
        backend.apply_tree(tree, 0)
    assert len(np.unique(expected.scores())) == 3
    np.testing.assert_array_equal(seen.scores(), expected.scores())


def test_too_many_features_are_an_error():
    bins = np.broadcast_to(np.uint8(0), (1, 2**20 + 1))
    with pytest.raises(DataError, match=r"room for 1,048,576 features, got 1,048,577: use device"):
        CUDABackend(BinnedRows(bins, np.ones(2**20 + 1, np.int64), np.zeros(1)), Squared())


@pytest.mark.parametrize("n", [1, 2, 3, 1000, 2**15, 2**17 - 1, 2**20, 11_000_000, 2**28])
def test_sums_of_a_chunk_fit_32_bits(n):
    packing = Packing.choose(n, max_gradient=3.0, max_hessian=0.7, max_weight=40.0)
    bits = chunk_bits(packing.count_bits, most=15)
    rows, cut = min(n, 2**bits), 31 - bits
    largest = int(3.0 * packing.gradient_scale) + 1  # one more where it is rounded up
    for gradient in (largest, -largest):
        low, high = gradient & (2**cut - 1), ((gradient >> cut) << (bits + 1)) + 1
        assert 0 <= rows * low < 2**31
        assert -(2**31) <= rows * high < 2**31
    for value, scale in ((0.7, packing.hessian_scale), (40.0, packing.weight_scale)):
        assert rows * (int(value * scale) + 1) < 2**31


REQUEST = TreeRequest(
    features=np.arange(3),
    categorical=np.zeros(3, bool),
    monotone=np.zeros(3, np.int8),
    sample=Packing(1.0, 1.0, 1.0, 10),
    all_rows=None,
    max_leaves=31,
    max_depth=None,
    min_samples_leaf=1.0,
    min_child_weight=0.0,
    min_sampled=1,
    l2=1.0,
    min_gain=0.0,
    second_look=0,
    dispersion=0.0,
)
LEVELS = {"max_leaves": None, "max_depth": 6}


@pytest.mark.parametrize(
    ("options", "leaves"),
    [
        ({}, 31),
        ({"max_depth": 3}, 8),
        (LEVELS, 64),
        ({**LEVELS, "second_look": 2, "all_rows": REQUEST.sample}, 64),
        ({"second_look": 2, "all_rows": REQUEST.sample}, None),
        ({"max_leaves": None}, None),
        ({"max_leaves": 5000}, None),
        ({**LEVELS, "max_depth": 13}, None),
    ],
)
def test_trees_that_are_grown_at_once(options, leaves):
    grower = TreeGrower(Queue(), np.full(3, 255))
    assert grower.leaves(REQUEST._replace(**options)) == leaves


def test_without_a_gpu_the_error_says_so():
    script = (
        "import numpy as np, mvsboost\n"
        "mvsboost.MVSRegressor(device='cuda').fit(np.arange(40.0)[:, None], np.arange(40.0))\n"
    )
    nothing = {**os.environ, "NUMBA_ENABLE_CUDASIM": "0", "CUDA_VISIBLE_DEVICES": "-1"}
    ended = subprocess.run(
        [sys.executable, "-c", script], env=nothing, capture_output=True, text=True, check=False
    )
    assert "ParameterError: device must be 'cpu' on this machine: no NVIDIA GPU" in ended.stderr


@pytest.mark.skipif(SIMULATED, reason="the simulator runs one kernel at a time")
def test_fits_of_several_threads():
    X, y = np.random.default_rng(0).normal(size=(20_000, 4)), np.arange(20_000) % 3

    def fit(depth):
        model = MVSClassifier(n_estimators=10, max_depth=depth, device="cuda").fit(X, y)
        return model.model_.to_dict()["iterations"]

    depths = [3, 4, 5, 6] * 3
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(fit, depths)) == [fit(depth) for depth in depths[:4]] * 3


TWICE = """
import numpy as np
from mvsboost import MVSRegressor
from mvsboost.backends.cuda import tree

X = np.random.default_rng(0).normal(size=(1000, 3))
MVSRegressor(device="cuda", n_estimators=2).fit(X, X[:, 0])
print(sum(tree.search.stats.cache_hits.values()))
"""


@pytest.mark.skipif(SIMULATED, reason="nothing is compiled")
def test_kernels_are_kept(tmp_path):
    where = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for hits in ("0\n", "1\n"):
        command = [sys.executable, "-c", TWICE]
        ended = subprocess.run(command, env=where, capture_output=True, text=True, check=True)
        assert ended.stdout == hits
