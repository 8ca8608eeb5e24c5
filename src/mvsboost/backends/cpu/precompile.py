"""The kernels of a first fit, compiled by two processes at once.

The kernel that grows a tree is half of all that a first fit compiles. This process compiles
it while another one compiles the rest, and Numba's cache on disk brings them together.
Threads would not do: Numba compiles one function at a time.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import typeof

from mvsboost.backends.cpu.backend import CPUBackend
from mvsboost.backends.cpu.compilation import (
    announce_compilation,
    keep_quiet,
    logger,
    needs_compilation,
)
from mvsboost.backends.cpu.growing import Members, TreeGrower, Ways, grown_nodes
from mvsboost.backends.draws import Poisson, Score, ScoreRule
from mvsboost.backends.messages import BinnedRows, RowSet, TreeRequest
from mvsboost.exact.dtypes import BIN, NODE, PACKED, ROW, TABLE
from mvsboost.exact.fixedpoint import Packing
from mvsboost.kernels.apply import TreeArrays
from mvsboost.kernels.nodes import describe_nodes, finish_nodes
from mvsboost.kernels.tree import Source, grow, grow_full, make_nodes
from mvsboost.runtime.arena import Arena
from mvsboost.runtime.jit import kernels_are_kept, without_thrashing
from mvsboost.runtime.pool import CALLER, make_pool, mark_awake, serve
from mvsboost.runtime.threads import ThreadPool

_FOLDER = Path(__file__).parents[3]  # of the package
_PACKING = Packing(1.0, 1.0, 1.0, 1)

_DONE = 17
"""Status of a helper that has compiled its part; 0 is that of any program that ends early."""

_PROGRAM = f"""
import gc, sys
gc.disable()
sys.path[:] = sys.argv[1:]
from mvsboost.backends.cpu.precompile import compile_the_rest
compile_the_rest(nodes={{nodes}})
sys.exit({_DONE})
"""


def start_helper(nodes: bool = True) -> subprocess.Popen[bytes] | None:
    """A process that compiles the rest; None where there is no Python to run."""
    name = Path(sys.executable or "").name.lower()
    if getattr(sys, "frozen", False) or not name.startswith("python"):
        return None
    command = [sys.executable, "-c", _PROGRAM.format(nodes=nodes), *_search_path()]
    nowhere, window = subprocess.DEVNULL, getattr(subprocess, "CREATE_NO_WINDOW", 0)
    try:
        return subprocess.Popen(
            command, stdin=nowhere, stdout=nowhere, stderr=nowhere, creationflags=window
        )
    except OSError:
        return None


def prepare_kernels(
    cores: int,
    full: bool = False,
    kept: bool | None = None,
    start: Callable[[bool], subprocess.Popen[bytes] | None] = start_helper,
) -> None:
    """Before a first fit: say that kernels are compiled, and compile them by two processes.

    With one core the fit compiles them itself, when it comes to them; so it does where no
    other process can be had or can keep what it compiles, or where that one fails.

    Parameters
    ----------
    cores : int
        That this process may use.
    full : bool
        Whether its trees need the kernel for any tree.
    kept : bool, optional
        Whether other processes find what one has compiled; looked up if not said.
    start : callable
        Starts the other process, and says whether it compiles the kernels for nodes, too.
    """
    needed = needs_compilation()
    announce_compilation()
    if needed:  # that was the line for the tree's kernel, too
        keep_quiet([grow_full if full else grow])
    if not needed or cores == 1 or not (kernels_are_kept() if kept is None else kept):
        return
    helper = start(full)  # of the two parts the smaller has them
    if helper is None:
        return
    begin = time.perf_counter()
    try:
        with _without_collector():
            compile_growing(full)
            if not full:
                compile_nodes()
        # it had as much to do: if it takes twice as long, something is wrong with it
        helper.wait(timeout=time.perf_counter() - begin)
    except subprocess.TimeoutExpired:
        pass
    finally:
        helper.kill()
        if (status := helper.wait()) != _DONE:
            logger.debug("the process that helps to compile ended with status %d", status)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Leave cycles of objects alone: Numba makes millions of objects that are all in use."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _search_path() -> list[str]:
    """Where this process finds modules; not the working directory, though it may look there.

    Its files may have names of modules that were imported here before it was looked at.
    """
    return [entry for entry in sys.path if isinstance(entry, str) and entry] + [str(_FOLDER)]


@without_thrashing
def compile_growing(full: bool = False) -> None:
    """Compile a kernel of trees, the one for most of them or that for any, and run nothing."""
    one, row, word = np.zeros(1, np.int64), np.zeros(1, ROW), np.zeros(1, PACKED)
    request = TreeRequest(
        features=one,
        categorical=np.zeros(1, np.bool_),
        monotone=np.zeros(1, np.int8),
        sample=_PACKING,
        all_rows=None,
        max_leaves=1,
        max_depth=None,
        min_samples_leaf=0.0,
        min_child_weight=0.0,
        min_sampled=0,
        l2=0.0,
        min_gain=0.0,
        second_look=0,
        dispersion=0.0,
    )
    members = Members(word, 1, np.zeros(2, np.int64), row, row)
    grower = TreeGrower(one, None, ThreadPool(1), Arena(), Ways(full=full))
    size = grower.size_of(request, members, None)
    source = Source(np.zeros((1, 1), BIN))
    kernel, arguments = grower.kernel_and_arguments(request, size, members, None, source)
    kernel.compile(tuple(map(typeof, (CALLER, make_pool(1), 1, *arguments))))


@without_thrashing
def compile_nodes() -> None:
    """Compile what a grown tree goes through."""
    n_bins, tree, bits = np.array([1], np.int64), _stump(), _PACKING.count_bits
    grown_nodes(make_nodes(1, 1, 0, 0), 1, exact=False)
    goes_left, words = np.zeros((3, TABLE), np.uint8), np.zeros((3, 2), np.int64)
    numbers, sums, is_categorical = np.zeros((2, 3), NODE), np.zeros((3, 3)), np.zeros(1, np.bool_)
    described = tree.missing_left, numbers, sums, tree.category_sets
    given = tree.feature, goes_left, words, n_bins, is_categorical
    describe_nodes(*given, _PACKING.units(), bits, *described)
    finish_nodes(tree.left, tree.right, sums[1], sums[2], True, 1.0, 0.0, np.inf, 0.1, sums)


@without_thrashing
def compile_the_rest(nodes: bool = True) -> None:
    """Compile what else boosting with MVS and the logistic loss needs, on a few rows.

    The verbs of an iteration, in the order of the loop; the tree is a stump.
    """
    serve(make_pool(2), 1, 0, 1, 1)
    mark_awake(make_pool(2), 1)
    key, scales, n_bins = np.uint64(1), np.ones(4), np.array([1], np.int64)
    rows = BinnedRows(np.zeros((2, 1), BIN), n_bins, np.array([0.0, 1.0]))
    backend = CPUBackend(rows, _Logistic())
    backend.set_baseline(np.zeros(1))
    backend.compute_gradients(2)
    backend.gradient_sums(scales)
    backend.score_rows(ScoreRule(Score.MVS))
    backend.threshold_sums(1.0, 1.0)
    backend.draw(Poisson(key, 1.0))
    backend.begin_tree(0, key, _PACKING, None)
    if nodes:
        compile_nodes()
    tree = _stump()
    backend.leaf_sums(RowSet.ALL, tree, 0, scales)
    backend.apply_tree(tree, 0)


class _Logistic:
    name, kernel, n_outputs = "logistic", "logistic", 1

    def gradients(self, target: Any, scores: Any) -> Any:
        raise NotImplementedError


def _stump() -> TreeArrays:
    """A tree of one split."""
    feature, left, right = np.array([[0, -1, -1], [1, -1, -1], [2, -1, -1]], NODE)
    nothing = np.full((2, 3), -1, NODE)
    return SimpleNamespace(
        feature=feature,
        threshold=feature,
        missing_left=np.zeros(3, np.bool_),
        missing_bin=nothing[0],
        categories=nothing[1],
        category_sets=np.zeros((0, TABLE // 32), np.uint32),
        left=left,
        right=right,
        value=np.zeros((3, 3))[0],
        n_nodes=3,
    )
