"""What mathematics says of every combination: each relation fits a case, changes something whose
effect is known, and compares.

A relation is a function of a case, with asserts, and a predicate that says where it holds.
"""

from __future__ import annotations

import json
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import (
    BY_DTYPE,
    BY_NAME,
    CATEGORICAL,
    CLASSIFIERS,
    CONTAINERS,
    NUMERIC,
    QUANTILES,
    SAMPLERS,
    Case,
    Data,
    fitted,
    make_data,
    make_estimator,
    make_objective,
    settled,
    signs,
)

from mvsboost import Dataset, Model, TrainConfig, TreeParams, train
from mvsboost.backends import registry
from mvsboost.backends.composite import CompositeBackend
from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.cpu.growing import Ways
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.data import ingest
from mvsboost.data.columns import UNSEEN, CategoricalColumn
from mvsboost.errors import SchemaError
from mvsboost.objectives import make_objective as as_objective
from mvsboost.runtime.threads import Smallest, ThreadPool

__all__ = ["RELATIONS", "Relation"]


@dataclass(frozen=True)
class Relation:
    """A named invariant.

    Attributes
    ----------
    name : str
    check : callable
        ``check(case)`` raises where the case breaks it.
    where : mapping from a field of a case to its allowed values
        Where mathematics says it.
    without : tuple of kinds
        Kinds that no column may be of.
    having : tuple of kinds
        Kinds of which a column must be, if there are any.
    """

    name: str
    check: Callable[[Case], None]
    where: Mapping[str, tuple[Any, ...]]
    without: tuple[str, ...] = ()
    having: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        """One line for people."""
        return (self.check.__doc__ or "").strip().splitlines()[0]

    def applies(self, case: Case) -> bool:
        """Whether it is said of a case."""
        fields = all(getattr(case, name) in values for name, values in self.where.items())
        has_kind = not self.having or bool({*case.columns} & {*self.having})
        return fields and has_kind and not {*case.columns} & {*self.without}

    def towards(self, case: Case) -> Case:
        """The nearest case that it is said of."""
        changes = {
            name: values[case.seed % len(values)]
            for name, values in self.where.items()
            if getattr(case, name) not in values
        }
        columns = ["number" if kind in self.without else kind for kind in case.columns]
        if self.having and not {*columns} & {*self.having}:
            columns[case.seed % len(columns)] = self.having[case.seed % len(self.having)]
        return settled(replace(case, columns=tuple(columns), **changes))


RELATIONS: dict[str, Relation] = {}


def relation(
    *, without: tuple[str, ...] = (), having: tuple[str, ...] = (), **where: tuple[Any, ...]
) -> Any:
    """Register a function of a case as a relation."""

    def register(check: Callable[[Case], None]) -> Callable[[Case], None]:
        RELATIONS[check.__name__] = Relation(check.__name__, check, where, without, having)
        return check

    return register


# --- how models are compared --------------------------------------------------------------------


def scores_of(estimator: Any, X: Any, n_iterations: int | None = None) -> Any:
    """Raw scores, (n_outputs, n_rows)."""
    model = estimator.model_
    return model.raw_scores(model.bin(X), n_iterations)


def written(estimator: Any, *, leave_out: tuple[str, ...] = ()) -> str:
    """The model's file, without parts that may differ."""
    state = estimator.model_.to_dict()
    state["metadata"] = {**state["metadata"], "parameters": None, "not kept": None}
    return json.dumps({key: value for key, value in state.items() if key not in leave_out})


def trees_of(estimator: Any) -> Any:
    """Trees and baseline as plain numbers."""
    state = estimator.model_.to_dict()
    return state["baseline"], state["iterations"]


def assert_equal(one: Any, other: Any, what: str) -> None:
    """Bit for bit."""
    one, other = np.asarray(one), np.asarray(other)
    if np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
        return
    detail = ""
    if one.shape == other.shape and one.dtype.kind == "f":
        apart = np.abs(one - other)
        detail = f": {int((apart > 0).sum())} differ, by up to {apart.max():.3g}"
    raise AssertionError(f"{what}{detail}")


def assert_same_trees(one: Any, other: Any, what: str) -> None:
    assert trees_of(one) == trees_of(other), f"{what}: the trees differ"


def splits_of(tree: Any) -> list[tuple[Any, ...]]:
    """The splits of a tree in the order in which they were made: node, test and gain."""
    inner = sorted(np.flatnonzero(~tree.is_leaf).tolist(), key=lambda node: tree.left[node])
    return [
        (node, int(tree.feature[node]), int(tree.threshold[node]), float(tree.gain[node]))
        for node in inner
    ]


def assert_same_but_for_ties(
    one: Any, other: Any, X: Any, tolerance: float, errors: Any, what: str
) -> None:
    """Scores within a tolerance, up to the first tree in which two splits gain the same.

    Numbers that are equal on paper may differ in their last bit, and either split may win then.
    `errors` has for each tree of `one` what rounding may change in the gain of each node.
    """
    pairs = (
        pair
        for trees in zip(one.model_.iterations, other.model_.iterations, strict=False)
        for pair in zip(*trees, strict=True)
    )
    for (first, second), error in zip(pairs, errors, strict=False):
        for mine, theirs in zip_longest(splits_of(first), splits_of(second)):
            if mine is None or theirs is None:
                node, *_, gain = mine or theirs
                assert gain <= error[node], f"{what}: a split more, which gains {gain!r}"
                return
            apart, allowed = abs(mine[-1] - theirs[-1]), error[mine[0]]
            if min(mine[-1], theirs[-1]) <= allowed:
                return
            close = apart <= allowed
            assert close, f"{what}: gains {mine[-1]!r} and {theirs[-1]!r}, {allowed!r} is rounding"
            if mine[:-1] != theirs[:-1]:
                return
    a, b = scores_of(one, X), scores_of(other, X)
    np.testing.assert_allclose(a, b, rtol=0.0, atol=tolerance, err_msg=what)


def rounding_of_gains(case: Case, estimator: Any, data: Data) -> Iterator[Any]:
    """For every tree: what the rounding of packed words may change in the gain of each node.

    A gain is a difference of G² / (H + l2). Of a row H keeps 16 bits of the largest hessian,
    rounded at random: n rows err by the root of n steps. Of G a row keeps 24 bits at least.
    """
    weight, objective = _row_weights(case, data), estimator.model_.objective
    y = data.y.astype(float)
    for output, tree, _, leaf, before in _leaf_walk(case, estimator, data):
        g, h = objective.gradients(y, before)
        h = np.ones_like(h) if case.order == 1 else h
        step_g, step_h = (2.0**-bits * np.abs(a).max() for bits, a in ((23, g), (15, h)))
        node = np.flatnonzero(tree.is_leaf)[leaf]
        parts = (g[output] * weight, h[output] * weight, np.ones(len(y)))
        G, H, n = (np.bincount(node, part, tree.n_nodes) for part in parts)
        for parent in np.flatnonzero(~tree.is_leaf)[::-1]:
            for sums in (G, H, n):
                sums[parent] = sums[tree.left[parent]] + sums[tree.right[parent]]
        value = np.abs(G) / (H + case.l2)
        steps = 6.0 * np.sqrt(0.5 * n)  # six standard deviations of two models
        error = steps * weight.max() * (value**2 * step_h + 2.0 * value * step_g)
        yield error + error[tree.left] + error[tree.right]


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@contextmanager
def sliced(n_threads: int) -> Iterator[None]:
    """Let estimators have threads and lanes that share a few rows: small data really is sliced."""
    pool = ThreadPool(n_threads, Smallest(slice=7, part=7))
    make = partial(CPUBackend, n_threads=pool, ways=Ways(lanes=1))
    try:
        registry.CPUBackend = lambda rows, objective, *_: make(rows, objective)
        yield
    finally:
        registry.CPUBackend = CPUBackend


# --- the same rows, told in another way ---------------------------------------------------------


@relation()
def every_table_is_the_same(case: Case) -> None:
    """NumPy, pandas, polars, Arrow and a dict of columns give the same model and predictions."""
    data = make_data(case)
    first = fitted(case, data)
    own = scores_of(first, data.table(case.container))
    for container in CONTAINERS:
        other = fitted(replace(case, container=container), data)
        assert_same_trees(first, other, container)
        assert_equal(own, scores_of(other, data.table(container)), f"predictions by {container}")
        names_differ = "numpy" in (container, case.container)
        if not names_differ:
            assert written(first) == written(other), f"files by {container}"
            X = data.table(container)
            assert_equal(own, scores_of(first, X), f"{case.container} to {container}")


@relation()
def names_do_not_matter(case: Case) -> None:
    """Renamed columns give the same trees."""
    data = make_data(case)
    renamed = Data(
        {f"a {name}": kind for name, kind in data.kinds.items()},
        {f"a {name}": values for name, values in data.columns.items()},
        data.y,
        data.weight,
    )
    assert_same_trees(fitted(case, data), fitted(case, renamed), "renamed columns")


def _wider(values: Any) -> Any:
    """The same numbers in another width and with strides."""
    small = values.dtype.kind in "iu" and abs(values).max() < 2**31
    if small or values.dtype == np.float32:
        values = values.astype(np.float64)
    doubled = np.repeat(values, 2)
    return doubled[::2]


@relation()
def width_and_layout_do_not_matter(case: Case) -> None:
    """Float32 as float64, integers as floats, strided columns, rows or columns first."""
    case = replace(case, container="dict")
    data = make_data(case)
    wide = replace_columns(data, {name: _wider(v) for name, v in data.columns.items()})
    first, second = fitted(case, data), fitted(case, wide)
    assert written(first) == written(second), "wider columns"
    own = scores_of(first, data.table("dict"))
    assert_equal(own, scores_of(first, wide.table("dict")), "trained narrow, predicted wide")
    assert_equal(own, scores_of(second, data.table("dict")), "trained wide, predicted narrow")
    decimal = {
        name: np.array([float(str(x)) for x in values])
        for name, values in data.columns.items()
        if data.kinds[name] == "float32 category"
    }
    told = replace_columns(data, {**data.columns, **decimal})
    assert_equal(own, scores_of(first, told.table("dict")), "0.1 as float64 where it was float32")
    matrix = data.table("numpy")
    other = fitted(replace(case, container="numpy"), data)
    for order in "CF":
        assert_equal(own, scores_of(other, np.array(matrix, order=order)), f"{order} order")


def replace_columns(data: Data, columns: dict[str, Any]) -> Data:
    return Data(data.kinds, columns, data.y, data.weight)


@relation(objective=CLASSIFIERS, class_weight=(None, "balanced"))
def labels_do_not_matter(case: Case) -> None:
    """Labels renamed in their order give the same trees, and predictions renamed."""
    data = make_data(case)
    first = fitted(case, data)
    X = data.table(case.container)
    for names in (np.array(["a", "b", "c"]), np.array([-1.0, 0.0, 7.0]), np.array([3, 40, 500])):
        named = Data(data.kinds, data.columns, names[data.y], data.weight)
        other = fitted(case, named)
        assert_same_trees(first, other, f"labels {names}")
        assert_equal(names[first.predict(X)], other.predict(X), f"labels {names}")


@relation(having=("category",), container=("pandas",))
def order_of_categories_does_not_matter(case: Case) -> None:
    """The order of a pandas dtype's categories, and ones that do not occur, change nothing."""
    import pandas as pd

    data = make_data(case)
    X = data.table("pandas")
    first = fitted(case, data)
    other = X.copy()
    for name, kind in data.kinds.items():
        if kind == "category":
            names = ["k9", *reversed(X[name].cat.categories), "k7"]
            other[name] = pd.Categorical(data.columns[name], categories=names)
    second = make_estimator(case).fit(other, data.y, data.weight)
    assert written(first) == written(second), "categories in another order"
    assert_equal(scores_of(first, X), scores_of(first, other), "predictions")


def _other_names(values: Any, kind: str) -> Any:
    """Categories renamed in their order."""
    if kind == "id":
        return np.array([f"{value:020d}" for value in values.tolist()], object)
    if kind in BY_NAME:
        return np.where(np.isinf(values), 99.0, 2.0 * values).astype(values.dtype)
    return np.array([None if v is None else f"a {v}!" for v in values], object)


@relation(having=CATEGORICAL, container=("pandas", "polars", "pyarrow", "dict"))
def names_of_categories_do_not_matter(case: Case) -> None:
    """Categories renamed in their order, and ids as text, give the same trees."""
    data = make_data(case)
    renamed = {
        name: _other_names(values, data.kinds[name]) if data.kinds[name] in CATEGORICAL else values
        for name, values in data.columns.items()
    }
    kinds = {name: "many" if kind == "id" else kind for name, kind in data.kinds.items()}
    other = Data(kinds, renamed, data.y, data.weight)
    one, two = fitted(case, data), fitted(case, other)
    assert_same_trees(one, two, "renamed categories")
    X, renamed_X = data.table(case.container), other.table(case.container)
    assert_equal(scores_of(one, X), scores_of(two, renamed_X), "renamed categories")


@relation(having=("date", "zoned date", "duration"), container=("pandas", "dict"))
def unit_of_time_does_not_matter(case: Case) -> None:
    """Moments kept in seconds or nanoseconds give the file of those in microseconds."""
    data = make_data(case)
    first = fitted(case, data)
    for unit in ("s", "ns"):
        kept = {
            name: values.astype(f"{values.dtype.kind}8[{unit}]")
            if values.dtype.kind in "mM"
            else values
            for name, values in data.columns.items()
        }
        other = replace_columns(data, kept)
        assert written(first) == written(fitted(case, other)), unit
        X, own = other.table(case.container), data.table(case.container)
        assert_equal(scores_of(first, own), scores_of(first, X), unit)


@relation(having=("date", "zoned date", "duration"))
def moments_are_not_numbers(case: Case) -> None:
    """Numbers where training had moments are refused, not read as microseconds."""
    data = make_data(case)
    estimator = fitted(case, data)
    numbers = {
        name: values.astype(np.int64).astype(float) if values.dtype.kind in "mM" else values
        for name, values in data.columns.items()
    }
    kinds = {n: "number" if numbers[n] is not v else data.kinds[n] for n, v in data.columns.items()}
    table = Data(kinds, numbers, data.y, None).table(case.container)
    try:
        estimator.predict(table)
    except SchemaError:
        return
    raise AssertionError("numbers were read as moments")


@relation(having=("infinite",))
def infinities_are_the_largest_numbers(case: Case) -> None:
    """Infinities are binned as numbers beyond all others."""
    data = make_data(case)
    finite = {
        name: np.clip(values, -1e300, 1e300) if data.kinds[name] == "infinite" else values
        for name, values in data.columns.items()
    }
    other = replace_columns(data, finite)
    one, two = fitted(case, data), fitted(case, other)
    assert_same_trees(one, two, "1e300 for infinity")
    X, clipped = data.table(case.container), other.table(case.container)
    assert_equal(scores_of(one, X), scores_of(two, clipped), "1e300 for infinity")


@relation()
def scaled_columns_have_the_same_bins(case: Case) -> None:
    """A numeric column times a power of two gives the same trees."""
    data = make_data(case)
    factor = 2.0 ** (case.seed % 41 - 20)
    scaled = {
        name: values * values.dtype.type(factor)
        if values.dtype.kind == "f" and data.kinds[name] not in CATEGORICAL
        else values
        for name, values in data.columns.items()
    }
    other = replace_columns(data, scaled)
    assert_same_trees(fitted(case, data), fitted(case, other), f"columns times {factor}")


@relation()
def rows_are_predicted_alone(case: Case) -> None:
    """A prediction does not depend on the other rows of its table, nor on how many they are."""
    data = make_data(case)
    estimator = fitted(case, data)
    whole = scores_of(estimator, data.table(case.container))
    some = np.arange(data.n_rows)[:: max(1, data.n_rows // 7)][::-1]
    part = scores_of(estimator, data.take(some).table(case.container))
    assert_equal(whole[:, some], part, "a few rows")
    one = scores_of(estimator, data.take(some[:1]).table(case.container))
    assert_equal(whole[:, some[:1]], one, "one row")
    many = np.resize(np.arange(data.n_rows), 4200)  # another way through the trees
    bins = estimator.model_.bin(data.table(case.container))
    assert_equal(whole[:, many], estimator.model_.raw_scores(bins[many]), "many rows")


# --- the same model by another way --------------------------------------------------------------


@relation()
def backends_agree(case: Case) -> None:
    """Compiled on one thread, on two, and the plain NumPy reference write the same file."""
    data = make_data(case)
    first = written(fitted(case, data))
    assert first == written(fitted(case, data)), "fitted twice"
    with sliced(2):
        assert first == written(fitted(case, data)), "two threads"
    assert first == written(fitted(case, data, device="reference")), "reference"


def trained(case: Case, data: Data, backend: Any = None, **changes: Any) -> Model:
    """The same by `mvsboost.train`."""
    n_classes = {"logistic": 2, "softmax": 3}.get(case.objective, 0)
    estimator = make_estimator(case)
    dataset = Dataset.from_data(
        data.table(case.container),
        data.y,
        weight=data.weight,
        categorical_features=estimator.categorical_features,
        max_bins=case.max_bins,
        n_classes=n_classes,
        seed=case.seed,
    )
    sampler, look = SAMPLERS[case.sampler](), case.second_look
    if look is None:
        look = 4 if sampler.share * data.n_rows < 100 else 0
    spec = make_objective(case)
    alpha = case.alpha if case.objective == "quantile" else None
    if case.is_classifier:
        objective = as_objective(case.objective, n_classes=n_classes)
    else:
        objective = as_objective(spec, alpha=alpha)
    by_column = signs(case)
    config = TrainConfig(
        objective=objective,
        sampler=sampler,
        n_estimators=case.n_estimators,
        learning_rate=case.learning_rate,
        tree=TreeParams(
            max_leaves=case.max_leaves,
            max_depth=case.max_depth,
            min_samples_leaf=case.min_samples_leaf,
            min_child_weight=case.min_child_weight,
            min_sampled=3,
            l2=case.l2,
            min_gain=case.min_gain,
            second_look=look,
        ),
        colsample=case.colsample,
        leaf_values=case.leaf_values,
        order=case.order,
        monotone={f: by_column[c] for f, c in enumerate(dataset.mapper.source) if by_column[c]},
        seed=case.seed,
        **changes,
    )
    return train(dataset, config, backend=backend).model


@relation(class_weight=(None,), validation=(False,))
def chunks_add_up(case: Case) -> None:
    """Rows in three chunks, compiled and reference mixed, train the model of the whole."""
    data = make_data(case)
    whole = fitted(case, data).model_.to_dict()["iterations"]
    direct = trained(case, data).to_dict()["iterations"]
    assert direct == whole, "train and the estimator differ"

    def in_chunks(rows: Any, objective: Any) -> Any:
        cuts = [0, rows.n_rows // 3, rows.n_rows // 3 + 1, rows.n_rows]
        kinds = (CPUBackend, ReferenceBackend, CPUBackend)
        children = [
            kind(rows.slice(a, b), objective)
            for kind, a, b in zip(kinds, cuts[:-1], cuts[1:], strict=True)
        ]
        return CompositeBackend(children)

    chunked = trained(case, data, in_chunks).to_dict()["iterations"]
    assert chunked == whole, "chunks"


@relation(sampler=("none",))
def full_rate_is_no_sampling(case: Case) -> None:
    """MVS at rate 1 trains the model that no sampling trains, whatever the second look."""
    data = make_data(case)
    look = (0, 1, 2, 4, None)[case.seed % 5]
    full = fitted(replace(case, sampler="mvs 1.0", second_look=look), data)
    assert_same_trees(fitted(case, data), full, "rate 1")


@relation(objective=("pinball", "absolute"), validation=(False,))
def one_objective_by_two_names(case: Case) -> None:
    """A user's own pinball loss is the built-in one; absolute is the quantile of a half."""
    data = make_data(case)
    if case.objective == "pinball":
        built_in = fitted(replace(case, objective="quantile"), data)
        assert_same_trees(fitted(case, data), built_in, "pinball")
        return
    # gradients of half the size: what is measured in them is left out
    sampler = "mvs 0.3 leaf" if case.sampler == "mvs 0.5 fixed" else case.sampler
    case = replace(case, min_gain=0.0, sampler=sampler)
    half = replace(case, objective="quantile", alpha=0.5)
    X = data.table(case.container)
    one, two = scores_of(fitted(case, data), X), scores_of(fitted(half, data), X)
    assert_equal(one, two, "absolute and the quantile of a half")


@relation(objective=CLASSIFIERS, class_weight=("balanced", "mapping"), validation=(False,))
def class_weights_are_row_weights(case: Case) -> None:
    """Class weights give the trees of row weights multiplied by them."""
    data = make_data(case)
    weighted = Data(data.kinds, data.columns, data.y, _row_weights(case, data))
    plain = replace(case, class_weight=None)
    assert_same_trees(fitted(case, data), fitted(plain, weighted), "class weights")


def _reloaded(case: Case, estimator: Any, path: Path) -> Any:
    own = make_objective(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about objects of the user's own
        objective = None if isinstance(own, str) else own
        return type(estimator).load(path, objective=objective)


@relation()
def files_keep_every_bit(case: Case) -> None:
    """Saved and loaded, gzipped or pickled: the same file again and the same predictions."""
    data = make_data(case)
    estimator, X = fitted(case, data), data.table(case.container)
    other = make_data(case, stream=1).table(case.container)
    with folder() as place:
        for name in ("model.json", "model.json.gz"):
            estimator.save(place / name)
            again = _reloaded(case, estimator, place / name)
            for table in (X, other):
                assert_equal(scores_of(estimator, table), scores_of(again, table), name)
                assert_equal(estimator.predict(table), again.predict(table), name)
            again.save(place / "again.json")
            estimator.save(place / "first.json")
            first, second = ((place / f).read_bytes() for f in ("first.json", "again.json"))
            assert first == second, "saved again"
    pickled = pickle.loads(pickle.dumps(estimator))
    assert_equal(estimator.predict(X), pickled.predict(X), "pickled")


@relation()
def stages_end_in_the_prediction(case: Case) -> None:
    """Staged predictions, predictions of fewer trees, and leaves of `apply` add up."""
    data = make_data(case)
    estimator, X = fitted(case, data), data.table(case.container)
    stages = list(estimator.staged_predict(X))
    assert len(stages) == estimator.n_iter_
    if stages:
        assert_equal(stages[-1], estimator.predict(X), "the last stage")
        first = estimator.predict(X, n_iterations=1)
        assert_equal(stages[0], first, "the first stage")
    model = estimator.model_
    total = np.repeat(model.baseline[:, None], data.n_rows, axis=1)
    leaves, t = estimator.apply(X), 0
    for trees in model.iterations[: estimator.n_iter_]:
        for output, tree in enumerate(trees):
            total[output] += tree.value[tree.is_leaf][leaves[:, t]]
            t += 1
    assert t == leaves.shape[1]
    assert_equal(total, scores_of(estimator, X), "leaves of apply")


# --- training in parts --------------------------------------------------------------------------


@relation(validation=(False,))
def continued_is_at_once(case: Case) -> None:
    """Trees added by `init_model` on the same rows are those of one longer run."""
    data, n = make_data(case), case.n_estimators
    more = 1 + case.seed % 3
    at_once = fitted(case, data, n_estimators=n + more)
    start = fitted(case, data)
    went_on = fitted(case, data, n_estimators=more, fit={"init_model": start})
    if not _found_no_split(at_once):  # `init_model` tries again, which it is asked for
        assert_same_trees(at_once, went_on, f"{n} and {more} more trees")


def _found_no_split(estimator: Any) -> bool:
    return "no split" in estimator.stop_reason_


@relation()
def resumed_is_at_once(case: Case) -> None:
    """A run that goes on from its checkpoint writes the file of one that was not stopped."""
    data, n = make_data(case), case.n_estimators
    more = 1 + case.seed % 3
    with folder() as place:
        path = place / "checkpoint.json"
        fitted(case, data, fit={"resume": path})
        went_on = fitted(case, data, n_estimators=n + more, fit={"resume": path})
    at_once = fitted(case, data, n_estimators=n + more)
    assert written(at_once) == written(went_on), f"{n} and {more} more trees"


@relation(validation=(True,))
def early_stopping_keeps_the_best(case: Case) -> None:
    """Early stopping ends the longer run, does not change it, and keeps the best iteration."""
    data = make_data(case)
    stopped = fitted(case, data)
    longer = fitted(case, data, early_stopping_rounds=10**6)
    k = len(stopped.model_.iterations)
    assert trees_of(stopped)[1] == trees_of(longer)[1][:k], "the trees differ"
    (values,) = stopped.evals_result_["validation"].values()
    if not values:  # training was at its optimum before the first tree
        return
    (all_values,) = longer.evals_result_["validation"].values()
    assert values == all_values[:k], "the metrics differ"
    assert stopped.best_iteration_ == 1 + int(np.argmin(values)), values
    assert k <= stopped.best_iteration_ + 2


# --- a target, weights or rows that are changed ---------------------------------------------------

STATISTICS = "many", "id"
"""Kinds that may become target statistics, whose prior weighs as much as one row."""


@relation(objective=("squared", *QUANTILES), min_gain=(0.0,))
def scaled_target_scales_predictions(case: Case) -> None:
    """A target times a power of two gives predictions times that, bit for bit."""
    if case.objective == "squared" and case.sampler == "mvs 0.5 fixed":
        case = replace(case, sampler="mvs 0.3 leaf")  # a fixed λ has the unit of the target
    data = make_data(case)
    factor = 2.0 ** (case.seed % 61 - 30)
    scaled = Data(data.kinds, data.columns, data.y * factor, data.weight)
    X = data.table(case.container)
    one, other = scores_of(fitted(case, data), X), scores_of(fitted(case, scaled), X)
    assert_equal(one * factor, other, f"target times {factor}")


@relation(
    objective=("squared", *QUANTILES),
    target=("plain",),
    without=STATISTICS,
    validation=(False,),
    constrained=(False,),  # which moves leaves to means of others, and these are rounded
)
def shifted_target_shifts_predictions(case: Case) -> None:
    """A target plus a constant gives predictions plus that constant, bit for bit."""
    weights = "none" if case.objective == "squared" else case.weights
    case = replace(case, learning_rate=0.5, n_rows=64, weights=weights)
    data = make_data(case)
    # halves of halves: every residual of quantile leaves, and a mean of 64 rows, is exact
    data = Data(data.kinds, data.columns, np.round(data.y * 256) / 256, data.weight)
    shift = float((-1) ** case.seed * 2 ** (case.seed % 11))
    shifted = Data(data.kinds, data.columns, data.y + shift, data.weight)
    X = data.table(case.container)
    one, other = fitted(case, data), fitted(case, shifted)
    if case.quantile is not None:
        assert_equal(scores_of(one, X) + shift, scores_of(other, X), f"target plus {shift}")
        return
    # leaves are rounded means: from the second tree on residuals differ in their last bits
    a, b = scores_of(one, X, 1) + shift, scores_of(other, X, 1)
    np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-12 * (8.0 + abs(shift)))


@relation(
    weights=("random", "zeros", "integers", "wide", "minute"),
    without=STATISTICS,
    l2=(0.0,),
    min_child_weight=(0.0,),
    min_gain=(0.0,),
)
def scaled_weights_change_nothing(case: Case) -> None:
    """Weights times a power of two, with nothing that has their unit, give the same scores."""
    data = make_data(case)
    power = case.seed % 61 - 30
    if case.weights == "minute":
        power = abs(power)  # smaller ones would be denormal, and lose bits before they come here
    factor = 2.0**power
    scaled = Data(data.kinds, data.columns, data.y, data.weight * factor)
    X = data.table(case.container)
    one, other = scores_of(fitted(case, data), X), scores_of(fitted(case, scaled), X)
    assert_equal(one, other, f"weights times {factor}")


OWN_BINS: dict[str, Any] = {
    "max_bins": (255,),
    "n_rows": (40, 64, 100, 160),
    "without": CATEGORICAL,
    "min_samples_leaf": (1,),
    "sampler": ("none",),
    "validation": (False,),
    "class_weight": (None, "mapping"),
}
"""Each value has a bin of its own, and nothing depends on numbers of rows."""


@relation(**OWN_BINS)
def rows_of_weight_zero_are_not_there(case: Case) -> None:
    """Rows of weight 0 behind the others change no prediction."""
    data = make_data(case)
    n = data.n_rows
    weight = np.ones(n) if data.weight is None else data.weight
    copies = np.concatenate([np.arange(n), np.arange(n)[::-3]])
    more = data.take(copies)
    y, w = data.y[copies].copy(), weight[copies].copy()
    y[n:], w[n:] = np.roll(y[n:], 1), 0.0
    with_zeros = Data(more.kinds, more.columns, y, w)
    alone = Data(data.kinds, data.columns, data.y, weight)
    X = data.table(case.container)
    one, other = fitted(case, alone), fitted(case, with_zeros)
    assert_equal(scores_of(one, X), scores_of(other, X), "rows of weight 0")


ROUNDED: dict[str, tuple[Any, ...]] = {
    **OWN_BINS,
    "n_rows": (40, 64, 100),
    # a leaf of hessian 0, and a side that just has enough, are at the mercy of the last bit
    "l2": (1.0, 10.0),
    "min_child_weight": (0.0,),
    "n_estimators": (2, 3),
    "leaf_values": ("all",),
    "constrained": (False,),
    "target": ("plain", "ties", "tiny", "heavy", "constant"),
}
"""Rows of other numbers are rounded otherwise, which changes little."""


def _assert_same_but_for_rounding(case: Case, data: Data, changed: Data, what: str) -> None:
    X = data.table(case.container)
    one, other = fitted(case, data), fitted(case, changed)
    has_unit = case.objective in ("squared", *QUANTILES)
    unit = float(np.abs(data.y - np.median(data.y)).max()) if has_unit else 1.0
    errors = rounding_of_gains(case, one, data)
    assert_same_but_for_ties(one, other, X, 1e-5 * unit, errors, what)


@relation(**ROUNDED, weights=("integers",))
def integer_weights_are_copies(case: Case) -> None:
    """A row of weight k is k copies of it."""
    data = make_data(case)
    copies = np.repeat(np.arange(data.n_rows), data.weight.astype(int))
    repeated = data.take(copies)
    repeated = Data(repeated.kinds, repeated.columns, repeated.y, None)
    _assert_same_but_for_rounding(case, data, repeated, "copies of rows")


@relation(**ROUNDED, weights=("none", "integers"))
def order_of_rows_decides_rounding_only(case: Case) -> None:
    """The same rows in another order."""
    data = make_data(case)
    order = np.random.default_rng(case.seed).permutation(data.n_rows)
    _assert_same_but_for_rounding(case, data, data.take(order), "rows in another order")


# --- what a model may say -----------------------------------------------------------------------


def _more(case: Case) -> dict[str, Any]:
    """Parameters that no field of a case has, by its seed."""
    n, seed = len(case.columns), case.seed
    groups = [
        None,
        "no_interactions",
        "pairwise",
        [[seed % n, (seed >> 3) % n], [(seed >> 6) % n]],
    ][(seed >> 2) % 4]
    changes: dict[str, Any] = {
        "l1": (0.0, 0.3, 3.0)[(seed >> 4) % 3],
        "interaction_constraints": groups,
    }
    others = {
        "squared": ["huber", "squared"],
        "poisson": ["poisson", "gamma", "tweedie"],
        "absolute": ["quantile"],
    }.get(case.objective)
    if others:
        changes["objective"] = others[(seed >> 5) % len(others)]
        if changes["objective"] == "quantile":
            changes["quantile"] = [0.2, 0.5, 0.9]
    return changes


def _more_data(case: Case, changes: Mapping[str, Any]) -> Data:
    data = make_data(case)
    if changes.get("objective") == "gamma":  # which no target of 0 has
        data = replace(data, y=data.y + 1e-3)
    return data


def _branches(tree: Any, node: int = 0, path: frozenset[int] = frozenset()) -> Iterator[Any]:
    """The features on the way to each leaf."""
    if tree.left[node] < 0:
        yield path
        return
    for child in (tree.left[node], tree.right[node]):
        yield from _branches(tree, int(child), path | {int(tree.feature[node])})


@relation(constrained=(False,))
def more_parameters_agree(case: Case) -> None:
    """With penalties, groups of columns and more objectives, backends agree and groups hold."""
    changes = _more(case)
    data = _more_data(case, changes)
    estimator = fitted(case, data, **changes)
    first = written(estimator)
    with sliced(2):
        assert first == written(fitted(case, data, **changes)), "two threads"
    assert first == written(fitted(case, data, device="reference", **changes)), "reference"
    groups, n = changes["interaction_constraints"], len(case.columns)
    if isinstance(groups, list):
        rest = set(range(n)) - {column for group in groups for column in group}
        groups = [*map(set, groups), rest]
    source = estimator.model_.mapper.source
    for trees in estimator.model_.iterations:
        for path in (path for tree in trees for path in _branches(tree)):
            columns = {int(source[feature]) for feature in path}
            if isinstance(groups, list):
                assert any(columns <= group for group in groups), f"{columns} met"
            elif groups is not None:
                assert len(columns) <= (1 if groups == "no_interactions" else 2), f"{columns} met"


@relation()
def contributions_are_the_score(case: Case) -> None:
    """Contributions add up to the raw score, and interactions to contributions."""
    data, more = make_data(case), make_data(case, stream=1)
    estimator = fitted(case, data)
    X = more.table(case.container)
    scores = scores_of(estimator, X).T.reshape(more.n_rows, -1)
    parts = estimator.predict_contributions(X).reshape(*scores.shape, -1)
    size = 1e-9 * (1.0 + np.abs(scores).max())
    np.testing.assert_allclose(parts.sum(axis=2), scores, rtol=0.0, atol=size)
    pairs = estimator.predict_contributions(X, interactions=True)
    pairs = pairs.reshape(*parts.shape, parts.shape[-1])
    np.testing.assert_allclose(pairs.sum(axis=3), parts, rtol=0.0, atol=size)
    np.testing.assert_allclose(pairs, np.swapaxes(pairs, 2, 3), rtol=0.0, atol=size)


@relation(without=("date", "zoned date", "duration"))
def lightgbm_says_the_same(case: Case) -> None:
    """A model exported to LightGBM predicts what it does."""
    pytest.importorskip("lightgbm")
    estimator = fitted(case)
    booster, schema = estimator.to_lightgbm(), estimator.model_.schema
    for stream in (0, 1):
        X = make_data(case, stream=stream).table(case.container)
        columns = schema.check(ingest(X), by_name=isinstance(X, Mapping)).columns
        read = np.column_stack(
            [
                np.where(c.codes < 0, np.nan, c.codes)
                if isinstance(c, CategoricalColumn)
                else np.asarray(c.values, float)
                for c in columns
            ]
        )
        known = np.ones(len(read), bool)
        for column in columns:
            if isinstance(column, CategoricalColumn):
                known &= column.codes != UNSEEN
        ours = scores_of(estimator, X).T[known]
        theirs = booster.predict(read, raw_score=True).reshape(len(read), -1)[known]
        size = 1e-6 * max(1.0, np.abs(ours).max(initial=0.0))
        np.testing.assert_allclose(theirs, ours, rtol=0.0, atol=size, err_msg=f"stream {stream}")


@relation(sampler=("none",), validation=(False,), constrained=(False,))
def refitted_on_the_same_rows_it_is_the_same(case: Case) -> None:
    """New leaf values from the rows of training are the old ones; none of them keeps the old."""
    data = make_data(case)
    estimator = fitted(case, data)
    X = data.table(case.container)
    scores = scores_of(estimator, X)
    size = 1e-9 * (1e-300 + np.abs(scores).max())
    kept = estimator.refit(X, data.y, data.weight, keep=1.0)
    np.testing.assert_allclose(scores_of(kept, X), scores, rtol=0.0, atol=size)
    if case.has_statistics:  # their values are other ones in training than in prediction
        return
    again = estimator.refit(X, data.y, data.weight, keep=0.0)
    # leaves are sums in fixed point
    size = 1e-6 * (1e-300 + np.abs(scores - scores.mean(axis=1, keepdims=True)).max())
    np.testing.assert_allclose(scores_of(again, X), scores, rtol=0.0, atol=size)


@relation(constrained=(True,), having=NUMERIC)
def constraints_hold(case: Case) -> None:
    """Along a constrained column no score moves the wrong way."""
    data = make_data(case)
    estimator = fitted(case, data)
    base = data.take(np.arange(0, data.n_rows, max(1, data.n_rows // 6)))
    size = np.abs(scores_of(estimator, data.table(case.container))).max()
    for (name, values), sign in zip(data.columns.items(), signs(case), strict=True):
        if sign == 0:
            continue
        known = values if values.dtype.kind == "b" else values[values == values]
        grid = np.unique(known)
        grid = grid[:: max(1, len(grid) // 40)]
        rows = np.repeat(np.arange(base.n_rows), len(grid))
        columns = {n: v[rows] for n, v in base.columns.items()}
        columns[name] = np.tile(grid, base.n_rows).astype(values.dtype)
        table = Data(base.kinds, columns, base.y[rows], None).table(case.container)
        scores = scores_of(estimator, table).reshape(-1, base.n_rows, len(grid))
        wrong = float((-sign * np.diff(scores, axis=2)).max(initial=0.0))
        assert wrong <= 1e-12 * size, f"column {name} ({sign:+d}): {wrong} the wrong way"


@relation()
def scores_are_sums_of_leaves(case: Case) -> None:
    """Scores of seen and unseen rows are finite and within the sums of extreme leaves."""
    data = make_data(case)
    estimator = fitted(case, data)
    model = estimator.model_
    values = [[tree.value[tree.is_leaf] for tree in trees] for trees in model.iterations]
    used = values[: estimator.n_iter_]
    low = model.baseline + sum((np.array([v.min() for v in trees]) for trees in used), 0.0)
    high = model.baseline + sum((np.array([v.max() for v in trees]) for trees in used), 0.0)
    assert np.isfinite(low).all()
    assert np.isfinite(high).all()
    slack = 1e-9 * (1e-300 + np.abs(low) + np.abs(high))
    for stream in (0, 1):
        X = make_data(case, stream=stream).table(case.container)
        scores = scores_of(estimator, X)
        assert (scores >= (low - slack)[:, None]).all()
        assert (scores <= (high + slack)[:, None]).all()
        assert np.isfinite(np.asarray(estimator.predict(X), float)).all()


def _row_weights(case: Case, data: Data) -> Any:
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    if case.class_weight == "balanced":
        counts = np.bincount(data.y)
        return weight * (data.n_rows / (len(counts) * counts))[data.y]
    if case.class_weight == "mapping":
        return weight * np.array([0.5, 2.0, 1.0])[data.y]
    return weight


def _leaf_walk(case: Case, estimator: Any, data: Data) -> Iterator[tuple[Any, ...]]:
    """For every tree: its output, leaves, the leaf of each row, and the scores before it."""
    model, X = estimator.model_, data.table(case.container)
    leaves, t = estimator.apply(X), 0
    scores = np.repeat(model.baseline[:, None], data.n_rows, axis=1)
    for trees in model.iterations[: estimator.n_iter_]:
        before = scores.copy()
        for output, tree in enumerate(trees):
            values = tree.value[tree.is_leaf]
            yield output, tree, values, leaves[:, t], before
            scores[output] += values[leaves[:, t]]
            t += 1


def _lower_quantile(residuals: Any, weight: Any, alpha: float) -> float:
    """The smallest residual up to which a share alpha of the weight lies."""
    order = np.argsort(residuals, kind="stable")
    reached = np.cumsum(weight[order])
    place = np.searchsorted(reached, alpha * reached[-1] * (1.0 - 1e-12))
    return float(residuals[order][min(place, len(order) - 1)])


# rows that were trained on have target statistics of their own there
@relation(objective=QUANTILES, without=STATISTICS, validation=(False,))
def leaves_are_quantiles(case: Case) -> None:
    """Leaves of quantile objectives are the weighted lower quantile of their rows' residuals."""
    data = make_data(case)
    estimator = fitted(case, data)
    weight, alpha = _row_weights(case, data), case.quantile
    lowest = _lower_quantile(data.y, weight, alpha)
    size = max(np.abs(data.y).max(), 1e-300)
    np.testing.assert_allclose(estimator.model_.baseline, [lowest], rtol=1e-15)
    for _, _, values, leaf, before in _leaf_walk(case, estimator, data):
        residuals = data.y - before[0]
        far = max(residuals.max(), 0.0), min(residuals.min(), 0.0)
        slack = 1e-6 * max(np.abs(residuals).max(), 1e-9 * size)
        for j in range(len(values)):
            mine = leaf == j
            value = values[j] / case.learning_rate
            assert far[1] - slack <= value <= far[0] + slack, "a leaf beyond every residual"
            if case.constrained or not weight[mine].any():
                continue
            r, w = residuals[mine], weight[mine]
            # where the share falls on a boundary either neighbour is right
            bounds = [_lower_quantile(r, w, a) for a in (alpha - 1e-9, alpha + 1e-9)]
            inside = bounds[0] - slack <= value <= bounds[1] + slack
            assert inside, f"leaf {value!r}, quantile {bounds}"


@relation(
    objective=("squared", "poisson", "logistic", "softmax", "logcosh"),
    constrained=(False,),
    without=STATISTICS,
    validation=(False,),
)
def leaves_are_newton_steps(case: Case) -> None:
    """Leaves from all rows are −G / (H + l2) of their rows, times the learning rate."""
    if not case.all_rows:
        case = replace(case, leaf_values="all")
    data = make_data(case)
    estimator = fitted(case, data)
    weight, objective = _row_weights(case, data), estimator.model_.objective
    y, step = data.y.astype(float), objective.max_step
    # a common power of two, so that by hand minute weights do not end in numbers of few bits
    times = 2.0**900 if 0.0 < weight.max() < 2.0**-900 else 1.0
    weight, l2 = weight * times, case.l2 * times
    for output, _, values, leaf, before in _leaf_walk(case, estimator, data):
        every_g, every_h = (a * weight for a in objective.gradients(y, before))
        every_h = every_h if case.order == 2 else np.broadcast_to(weight, every_g.shape)
        largest_g, largest_h = np.abs(every_g).max(), every_h.max()
        g, h = every_g[output], every_h[output]
        for j in range(len(values)):
            mine = leaf == j
            below = h[mine].sum() + l2
            if below <= 0.0:
                assert values[j] == 0.0
                continue
            value = np.clip(-g[mine].sum() / below, -step, step)
            slack = 2e-6 * np.abs(g[mine]).sum() / below + 1e-12 * abs(value)
            slack += 1e-290  # sums of minute weights, beside l2
            # sums have 52 bits of the largest row
            lost = 2.0**-52 * (largest_g + abs(value) * largest_h)
            slack += lost * mine.sum() / below
            slack += 1e-7 * np.abs(before).max() if case.objective == "squared" else 0.0
            off = abs(values[j] / case.learning_rate - value)
            assert off <= slack, f"leaf {values[j] / case.learning_rate!r}, by hand {value!r}"


@relation(having=(*BY_DTYPE, *BY_NAME[1:]), max_bins=(255,))
def unseen_categories_are_missing_ones(case: Case) -> None:
    """A category that training did not have is predicted as a missing value."""
    # of as many categories as there are bins: target statistics have a prior for unseen ones
    data = make_data(case)
    estimator = fitted(case, data)
    unseen, missing = dict(data.columns), dict(data.columns)
    for name, kind in data.kinds.items():
        if kind in ("text", "category", "many"):
            unseen[name] = np.full(data.n_rows, "never seen", object)
            missing[name] = np.full(data.n_rows, None, object)
        elif kind in BY_NAME[1:]:
            values = data.columns[name]
            unseen[name] = np.full(data.n_rows, 1234.5, values.dtype)
            missing[name] = np.full(data.n_rows, np.nan, values.dtype)
    one = scores_of(estimator, replace_columns(data, unseen).table(case.container))
    other = scores_of(estimator, replace_columns(data, missing).table(case.container))
    assert np.isfinite(one).all()
    assert_equal(one, other, "unseen categories")


# --- what must not be learned -------------------------------------------------------------------

N_NOISE, N_IDS = 1200, 300


@relation(objective=("squared", "logistic"))
def noise_is_not_learned_through_ids(case: Case) -> None:
    """Noise with an id a few rows share is not fitted: on new rows the loss is no worse.

    A row that saw its own target in the statistics of its id would teach trees to read it, and
    these would be wrong with confidence on rows that come later.
    """
    changes: dict[str, Any] = {"weights": "none", "class_weight": None, "constrained": False}
    changes |= {"max_bins": min(case.max_bins, 32), "min_samples_leaf": 10, "max_depth": 3}
    changes |= {"l2": 1.0, "order": 2, "learning_rate": 0.1, "max_leaves": 4, "min_gain": 0.0}
    changes |= {"columns": ("many",), "colsample": 1.0, "n_rows": N_NOISE, "n_estimators": 30}
    case = replace(case, **changes)
    rng = np.random.default_rng(case.seed)
    ids = rng.integers(0, N_IDS, 2 * N_NOISE)
    columns = {"c0": np.array([f"id {i}" for i in ids], object)}
    y = rng.integers(0, 2, 2 * N_NOISE)
    y = y if case.is_classifier else 2.0 * y - 1.0 + 0.01 * rng.normal(size=2 * N_NOISE)
    every = Data({"c0": "many"}, columns, y, None)
    train_rows, new_rows = every.take(slice(0, N_NOISE)), every.take(slice(N_NOISE, None))
    estimator = _fitted_somehow(case, train_rows)
    objective, X = estimator.model_.objective, new_rows.table(case.container)
    target = new_rows.y.astype(float)
    scores = scores_of(estimator, X)
    start = np.repeat(estimator.model_.baseline[:, None], N_NOISE, axis=1)
    worse = objective.loss(target, scores).mean() / objective.loss(target, start).mean()
    assert worse < MOST_HARM, f"the loss on new rows is {worse:.3f} of that of the baseline"
    if case.is_classifier:
        classes = target == 1.0
        pairs = scores[0, classes][:, None] - scores[0, ~classes]
        auc = (pairs > 0).mean() + 0.5 * (pairs == 0).mean()
        error = np.sqrt((N_NOISE + 1) / (12.0 * classes.sum() * (~classes).sum()))
        assert abs(auc - 0.5) < 5 * error, f"AUC {auc:.3f} on noise"


MOST_HARM = 1.08
"""Trees that read their own target come to 1.12 to 1.4, others to at most 1.04."""


def _fitted_somehow(case: Case, data: Data) -> Any:
    """By one run, by a continued one, by a resumed one or with early stopping."""
    way = case.seed % 4
    if way == 0:
        return fitted(case, data)
    if way == 1:
        start = fitted(replace(case, validation=False), data, n_estimators=5)
        rest = replace(case, validation=False, n_estimators=25)
        return fitted(rest, data, fit={"init_model": start})
    if way == 2:
        with folder() as place:
            fitted(case, data, n_estimators=5, fit={"resume": place / "checkpoint.json"})
            return fitted(case, data, fit={"resume": place / "checkpoint.json"})
    return fitted(replace(case, validation=True), data)


# --- metrics ------------------------------------------------------------------------------------


def _losses(case: Case, y: Any, scores: Any) -> Any:
    """The loss of each row, by its textbook formula."""
    if case.objective == "squared":
        return (y - scores[0]) ** 2
    if case.objective in ("absolute", "quantile"):
        residual = y - scores[0]
        pinball = np.maximum(case.quantile * residual, (case.quantile - 1.0) * residual)
        return 2.0 * pinball if case.objective == "absolute" else pinball
    if case.objective == "logistic":
        return np.logaddexp(0.0, scores[0]) - y * scores[0]
    total = np.logaddexp.reduce(scores, axis=0)
    return total - scores[y.astype(int), np.arange(len(y))]


@relation(objective=("squared", "absolute", "quantile", "logistic", "softmax"), validation=(False,))
def metrics_are_as_by_hand(case: Case) -> None:
    """Metrics of an evaluation set are the weighted means of the losses of its predictions."""
    data, other = make_data(case), make_data(case, stream=1)
    X = other.table(case.container)
    item = (X, other.y) if other.weight is None else (X, other.y, other.weight)
    estimator = fitted(case, data, fit={"eval_set": [item]})
    (values,) = estimator.evals_result_["eval_0"].values()
    weight = np.ones(other.n_rows) if other.weight is None else other.weight
    for k, value in enumerate(values):
        losses = _losses(case, other.y.astype(float), scores_of(estimator, X, k + 1))
        mean = np.average(losses, weights=weight / weight.max())
        mean = np.sqrt(mean) if case.objective == "squared" else mean
        np.testing.assert_allclose(value, mean, rtol=1e-6)


# --- the order of columns -----------------------------------------------------------------------


@relation(colsample=(1.0,), constrained=(False,), second_look=(0,))
def order_of_columns_decides_ties_only(case: Case) -> None:
    """Columns in another order give the same scores, unless two splits gain the same."""
    data = make_data(case)
    turned = list(data.columns)[::-1]
    other_case = replace(case, columns=case.columns[::-1])
    other = Data(
        {name: data.kinds[name] for name in turned},
        {name: data.columns[name] for name in turned},
        data.y,
        data.weight,
    )
    one = fitted(case, data)
    two = fitted(other_case, other)
    last = len(one.model_.mapper.source) - 1
    moved = _features_moved(one.model_.mapper.source, two.model_.mapper.source, len(turned))
    assert sorted(moved) == list(range(last + 1))
    for trees in zip(one.model_.iterations, two.model_.iterations, strict=False):
        for first, second in zip(*trees, strict=True):
            for mine, theirs in zip(splits_of(first), splits_of(second), strict=False):
                # exact sums are the same; a tie may be won by either
                assert mine[-1] == theirs[-1] or mine[0] != theirs[0], "the best gain differs"
                if (mine[0], moved[mine[1]], mine[2]) != theirs[:-1]:
                    return
    a, b = scores_of(one, data.table(case.container)), scores_of(two, other.table(case.container))
    assert_equal(a, b, "columns in another order")


def _features_moved(first: Any, second: Any, n_columns: int) -> list[int]:
    """Where each binned feature of the first model is in that of the turned columns."""
    moved = []
    for feature, column in enumerate(first):
        place = feature - int(np.argmax(first == column))
        moved.append(int(np.argmax(second == n_columns - 1 - column)) + place)
    return moved
