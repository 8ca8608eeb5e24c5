"""Arrays on a GPU give the models and predictions of arrays on the host, to the bit.

On Numba's simulator, whose device has the memory of the host, or on a GPU (`make test-gpu`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mvsboost import MVSClassifier, MVSRegressor
from mvsboost.backends.cuda import CUDABackend, Table
from mvsboost.backends.cuda.device import SIMULATED, cuda
from mvsboost.data import Dataset, device, ingest
from mvsboost.data.targets import vector_of
from mvsboost.errors import DataError, ParameterError
from mvsboost.objectives import Squared

pytestmark = [pytest.mark.large, pytest.mark.usefixtures("often_switched")]

N_ROWS = 40 if SIMULATED else 3000
"""The simulator goes through rows in plain Python."""


class OnGPU:
    """An array on a GPU, of which is known what CuPy and PyTorch tell."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.shape = array.shape
        if SIMULATED:
            self._held, interface = array, array.__array_interface__
        else:
            self._held = whole = cuda.to_device(_base(array))
            offset = array.__array_interface__["data"][0] - _base(array).ctypes.data
            start = whole.__cuda_array_interface__["data"][0] + offset
            interface = {**array.__array_interface__, "data": (start, False)}
        self.__cuda_array_interface__ = {**interface, "version": 3, "stream": None}

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: Any) -> Any:
        raise TypeError("implicit conversion is not allowed")


class Told:
    """An array of which nothing is there but what is told of it."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3}


def _base(array: NDArray[Any]) -> NDArray[Any]:
    """What an array is a view of."""
    return array if array.base is None else array.base


LAYOUTS = {
    "C": lambda x: x.copy(),
    "Fortran": lambda x: np.array(x, order="F"),
    "every second row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "some columns": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "backwards": lambda x: x.copy()[::-1],
}


def numbers(n: int = N_ROWS, n_columns: int = 10, seed: int = 0) -> NDArray[np.float32]:
    """Numbers with a few values among them that are missing or infinite."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_columns)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[3, 1], X[4, 1], X[5, 1] = np.inf, -np.inf, -0.0
    X[:, 2] = rng.integers(0, 3, n)
    return X


def target(X: NDArray[Any]) -> NDArray[np.float64]:
    rng = np.random.default_rng(1)
    return np.nan_to_num(X[:, 0]) + X[:, 2] + 0.1 * rng.normal(size=len(X))


def assert_same(seen: Dataset, expected: Dataset) -> None:
    assert seen.schema == expected.schema
    assert seen.mapper.to_dict() == expected.mapper.to_dict()
    np.testing.assert_array_equal(seen.rows.bins.on_host(), expected.rows.bins)
    np.testing.assert_array_equal(seen.rows.target, expected.rows.target)


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("sample_rows", [25, 100_000])
def test_bins_are_those_of_the_host(layout, sample_rows):
    X = LAYOUTS[layout](numbers())
    X[:, 4] = np.nan
    X[1:, 5] = np.nan
    seen, expected = (
        Dataset.from_data(x, target(X), sample_rows=sample_rows, max_bins=9) for x in (OnGPU(X), X)
    )
    assert_same(seen, expected)
    assert seen.schema.features[4].kind is None  # a column without a value
    assert seen.fingerprint() == expected.fingerprint()
    assert seen.has_rows_of(expected)


@pytest.mark.parametrize("dtype", ["float64", "int8", "uint8", "int32", "int64", "uint64", "bool"])
def test_bins_of_every_type(dtype):
    X = np.random.default_rng(0).integers(0, 99, (N_ROWS, 3)).astype(dtype)
    if dtype.endswith("64"):
        X[:2] = [[2**53], [2**53 - 1]]
    assert_same(*(Dataset.from_data(x, np.arange(N_ROWS)) for x in (OnGPU(X), X)))


@pytest.mark.parametrize("categorical", [[2], [2, 9], [False] * 9 + [True]])
def test_columns_of_categories_are_read_on_the_host(categorical):
    X = numbers()
    X[:, 9] = np.round(X[:, 9], 1)  # more than bins, so that they become means of the target
    options = {"categorical_features": categorical, "max_bins": 8}
    seen, expected = (Dataset.from_data(x, target(X), **options) for x in (OnGPU(X), X))
    assert_same(seen, expected)
    later = numbers(20, seed=5)
    again = [
        Dataset.from_data(x, target(later), mapper=data.mapper, schema=data.schema)
        for x, data in ((OnGPU(later), seen), (later, expected))
    ]
    assert_same(*again)


def test_integers_that_floats_do_not_tell_apart_are_categories():
    X = 2**53 + np.arange(N_ROWS)[:, None] % 3
    seen, expected = (
        Dataset.from_data(x, np.zeros(N_ROWS), categorical_features=[0]) for x in (OnGPU(X), X)
    )
    np.testing.assert_array_equal(seen.rows.bins, expected.rows.bins)
    assert seen.schema.features[0].categories == tuple(2**53 + k for k in range(3))


def test_of_a_table_nothing_but_the_sample_comes_to_the_host(monkeypatch):
    def refuse(*_: Any) -> Any:
        raise AssertionError("it came to the host")

    sizes, sample = [], Table.sample

    def noted(self: Table, rows: Any) -> Any:
        sizes.append(len(rows))
        return sample(self, rows)

    monkeypatch.setattr(Table, "values", refuse)
    monkeypatch.setattr(Table, "sample", noted)
    monkeypatch.setattr("mvsboost.backends.cuda.tables.Bins.on_host", refuse)
    X = numbers()
    data = Dataset.from_data(OnGPU(X), target(X), sample_rows=7)
    CUDABackend(data.rows, Squared())
    assert set(sizes) == {7}


def test_memory_for_bins_that_are_there_is_not_asked_for_again():
    X = numbers(N_ROWS, 28)
    seen, host = (Dataset.from_data(x, target(X)).rows for x in (OnGPU(X), X))
    needed = {}
    for name, rows in (("seen", seen), ("host", host)):
        with pytest.raises(DataError) as error:
            CUDABackend(rows, Squared(), free=0)
        needed[name] = float(str(error.value).split("must have ")[1].split()[0])
    assert needed["seen"] <= needed["host"]
    CUDABackend(seen, Squared(), free=N_ROWS * (36 + 16 + 16))


VECTORS = {
    "float64": lambda y: y,
    "float32": lambda y: y.astype(np.float32),
    "integers": lambda y: np.round(4 * y).astype(np.int64),
    "apart": lambda y: np.repeat(y, 2)[::2],
    "a column": lambda y: y[:, None].copy()[:, 0],
}


@pytest.mark.parametrize("kind", list(VECTORS))
def test_targets_and_weights_are_brought_to_the_host(kind):
    X = numbers()
    y = VECTORS[kind](target(X))
    weight, start = np.abs(y) + 1, np.array([y, -y]).T
    seen, expected = (
        Dataset.from_data(x, a, weight=w, init_score=s).rows
        for x, a, w, s in ((OnGPU(X), OnGPU(y), OnGPU(weight), OnGPU(start)), (X, y, weight, start))
    )
    for name in ("target", "weight", "start"):
        np.testing.assert_array_equal(getattr(seen, name), getattr(expected, name))
        assert getattr(seen, name).dtype == np.float64


FITS: dict[str, tuple[Any, dict[str, Any]]] = {
    "numbers and categories": (MVSRegressor, {"categorical_features": [2]}),
    "rows set aside": (MVSRegressor, {"validation_fraction": 0.3, "early_stopping_rounds": 2}),
    "classes": (MVSClassifier, {"class_weight": "balanced", "validation_fraction": 0.25}),
}


SIZE = {"n_estimators": 2, "max_leaves": 4, "min_samples_leaf": 3, "second_look": 0, "n_jobs": 1}


def fitted(put: Any, kind: Any = MVSRegressor, device: str = "cuda", **given: Any) -> Any:
    """An estimator trained on arrays that are where `put` puts them."""
    X, other = numbers(N_ROWS, 3), numbers(20, 3, seed=7)
    y, held_out = target(X), target(other)
    if kind is MVSClassifier:
        y, held_out = (np.digitize(values, [0.5, 1.5]) for values in (y, held_out))
    to_fit = {name: given.pop(name) for name in ("init_model", "resume") if name in given}
    weight, sets = np.linspace(0.5, 2, len(y)), [(put(other), put(held_out))]
    model = kind(**SIZE, device=device, **given)
    return model.fit(put(X), put(y), put(weight), eval_set=sets, **to_fit)


def trained(model: Any) -> dict[str, Any]:
    """All of a model but what its user asked for."""
    return {name: part for name, part in model.model_.to_dict().items() if name != "metadata"}


@pytest.mark.parametrize("name", list(FITS))
def test_models_are_those_of_the_host(name):
    kind, options = FITS[name]
    seen = fitted(OnGPU, kind, **options)
    assert trained(seen) == trained(fitted(np.asarray, kind, "cpu", **options))


def test_training_goes_on_from_arrays_of_either_kind(tmp_path):
    path = tmp_path / "checkpoint.json"
    before = fitted(np.asarray, resume=path)
    # the same data, by its fingerprint
    assert trained(fitted(OnGPU, resume=path)) == trained(before)
    X, y = numbers(N_ROWS, 3), np.arange(N_ROWS)
    expected = trained(before.refit(X, y))
    assert trained(before.refit(OnGPU(X), y)) == expected


@pytest.mark.skipif(SIMULATED, reason="the simulator runs one kernel at a time")
def test_several_threads_have_arrays_at_the_same_time():
    X, expected = OnGPU(numbers(N_ROWS, 3)), fitted(np.asarray, device="cpu")
    predictions = expected.predict(numbers(N_ROWS, 3))

    def work(_: int) -> tuple[bool, bool]:
        model = fitted(OnGPU)
        same = np.array_equal(model.predict(X), predictions)
        return trained(model) == trained(expected), same

    with ThreadPoolExecutor(4) as threads:
        assert all(map(all, threads.map(work, range(12))))


def test_an_evaluation_set_may_be_on_the_gpu_alone():
    X = numbers(N_ROWS, 3)
    y = target(X)
    seen, expected = (
        MVSRegressor(**SIZE, device=device).fit(X, y, eval_set=[(x, y)])
        for device, x in (("cuda", OnGPU(X)), ("cpu", X))
    )
    assert trained(seen) == trained(expected)


def test_another_device_says_which_one_it_must_be():
    X = numbers()
    said = r"device must be 'cuda' for rows on a GPU; or pass .* X.get\(\) of CuPy .*, got 'cpu'"
    with pytest.raises(ParameterError, match=said):
        MVSRegressor().fit(OnGPU(X), target(X))
    with pytest.raises(ParameterError, match=said):
        MVSRegressor().fit(X, target(X), eval_set=[(OnGPU(X), target(X))])
    with pytest.raises(ParameterError, match="got 'reference'"):
        MVSRegressor(device="reference").fit(OnGPU(X), target(X))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3),
        np.zeros((2, 2, 2)),
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        np.zeros((3, 2), complex),
    ],
    ids=str,
)
def test_errors_are_those_of_the_host(array):
    with pytest.raises(DataError) as expected:
        ingest(array)

    with pytest.raises(DataError) as seen:
        ingest(Told(array))
    assert str(seen.value) == str(expected.value)


def test_types_that_kernels_do_not_read():
    for dtype in ("float16", "M8[s]"):
        with pytest.raises(DataError, match=r"X on a GPU must hold float32, .* got (float16|date)"):
            ingest(Told(np.zeros((3, 2)).astype(dtype)))
    with pytest.raises(DataError, match=r"y is an array on a GPU .* pass .* y.get\(\)"):
        vector_of(Told(np.zeros(3, "M8[s]")))


def test_a_dict_of_arrays_asks_for_copies():
    with pytest.raises(DataError, match=r"Column 'a' is an array on a GPU \(Told\): pass"):
        ingest({"a": Told(np.zeros(3))})


class OfDLPack:
    """An array that has no other interface than DLPack."""

    def __init__(self, device: int) -> None:
        self.device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __array__(self, *_: Any, **__: Any) -> Any:
        return np.zeros((3, 2))


def test_arrays_of_dlpack_alone_are_asked_for_another_interface():
    for read, name in ((ingest, "X"), (vector_of, "y")):
        with pytest.raises(DataError, match=rf"pass cupy.from_dlpack\({name}\)"):
            read(OfDLPack(2))
    assert ingest(OfDLPack(1)).n_rows == 3


def test_without_a_gpu_the_error_asks_for_a_copy(monkeypatch):
    def refuse(_: Any) -> Any:
        raise ParameterError("device", "cuda", "'cpu' on this machine")

    monkeypatch.setattr(device, "device_table", refuse)
    said = r"X is an array on a GPU \(Told\): pass its copy .*, as Numba finds no GPU, X.get\(\)"
    with pytest.raises(DataError, match=said):
        ingest(Told(np.zeros((3, 2))))
    with pytest.raises(DataError, match=r"y is an array on a GPU .*y.cpu\(\) of PyTorch"):
        vector_of(Told(np.zeros(3)))


def test_rows_are_taken_by_number_or_mask():
    X = numbers(20, 3)
    columns, mask = ingest(OnGPU(X)), np.arange(20) % 3 == 0
    for rows in (mask, np.flatnonzero(mask), np.zeros(20, bool)):
        taken = columns.take(rows)
        assert taken.n_rows == len(X[rows])
        for column, expected in zip(taken.columns, X[rows].T, strict=True):
            np.testing.assert_array_equal(column.values, expected)


PREDICTIONS: dict[str, tuple[Any, dict[str, Any], list[str]]] = {
    "numbers": (MVSRegressor, {"categorical_features": [2]}, ["predict"]),
    "counts": (MVSRegressor, {"objective": "poisson"}, ["predict"]),
    "quantiles": (MVSRegressor, {"objective": "quantile", "quantile": [0.2, 0.8]}, ["predict"]),
    "two classes": (MVSClassifier, {}, ["predict", "predict_proba", "decision_function"]),
    "three classes": (MVSClassifier, {}, ["predict", "predict_proba", "decision_function"]),
}


@pytest.mark.parametrize("layout", ["C", "Fortran"])
@pytest.mark.parametrize("name", list(PREDICTIONS))
def test_predictions_are_those_of_the_host(name, layout, monkeypatch):
    kind, options, asked = PREDICTIONS[name]
    X = numbers(300, 11)
    y = target(X) ** 2
    if kind is MVSClassifier:
        y = np.array(["a", "b", "c"])[
            np.digitize(y, [1.0] if name == "two classes" else [1.0, 4.0])
        ]
    model = kind(n_estimators=4, n_jobs=1, **options).fit(X, y)
    later = LAYOUTS[layout](numbers(N_ROWS, 11, seed=9))
    expected = [
        getattr(model, method)(later, n_iterations=n) for method in asked for n in (None, 2)
    ]
    monkeypatch.setattr("mvsboost.backends.cuda.tables.Bins.on_host", None)
    for (method, n), values in zip(
        [(m, n) for m in asked for n in (None, 2)], expected, strict=True
    ):
        seen = getattr(model, method)(OnGPU(later), n_iterations=n)
        assert isinstance(seen, np.ndarray)
        np.testing.assert_array_equal(seen, values)


def test_predictions_of_a_model_without_trees_are_its_baseline():
    X = numbers(N_ROWS, 3)
    model = MVSRegressor(n_estimators=1).fit(X, target(X))
    np.testing.assert_array_equal(
        model.predict(OnGPU(X), n_iterations=0), model.predict(X, n_iterations=0)
    )
    np.testing.assert_array_equal(model.model_.predict(OnGPU(X)), model.model_.predict(X))


def test_columns_at_prediction_are_checked():
    X = numbers(N_ROWS, 3)
    model = MVSRegressor(n_estimators=1).fit(X, target(X))
    with pytest.raises(ValueError, match="X has 2 features, but MVSRegressor is expecting 3"):
        model.predict(OnGPU(X[:, :2].copy()))


def test_what_explains_a_prediction_takes_either_kind():
    model, X = fitted(np.asarray, device="cpu"), numbers(10, 3, seed=3)
    for ask in (model.apply, model.predict_contributions, lambda x: list(model.staged_predict(x))):
        np.testing.assert_array_equal(ask(OnGPU(X)), ask(X))
