"""What one combination is: a `Case`, how it is drawn, and the data and estimator it means."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC
from typing import Any

import numpy as np
from hypothesis import strategies as st

from mvsboost import (
    GOSS,
    MVS,
    SGB,
    BayesianBootstrap,
    Bernoulli,
    ImportanceSampling,
    MVSClassifier,
    MVSRegressor,
    NoSampling,
    PoissonBootstrap,
)
from mvsboost.exact.numerics import exp

# --- objectives of a user's own -----------------------------------------------------------------


class Pinball:
    """The quantile loss, written by a user."""

    name = "own pinball"

    def __init__(self, alpha: float) -> None:
        self.leaf_quantile = alpha

    def gradient(self, target, score):
        under = np.where(score < target, -self.leaf_quantile, 0.0)
        return np.where(score > target, 1.0 - self.leaf_quantile, under)

    def hessian(self, target, score):
        return np.ones_like(score)

    def baseline(self, means, quantile):
        return np.array([quantile(self.leaf_quantile)])


class LogCosh:
    """log cosh of the residual, with the library's exp, whose bits do not depend on the slice."""

    name = "own log-cosh"

    def gradient(self, target, score):
        return 1.0 - 2.0 / (exp(np.clip(2.0 * (score - target), -40.0, 40.0)) + 1.0)

    def hessian(self, target, score):
        return np.maximum(1.0 - self.gradient(target, score) ** 2, 0.05)


# --- the choices --------------------------------------------------------------------------------

SAMPLERS: dict[str, Callable[[], Any]] = {
    "none": NoSampling,
    "mvs 0.3 leaf": lambda: MVS(0.3),
    "mvs 0.1 leaf": lambda: MVS(0.1),
    "mvs 0.7 root": lambda: MVS(0.7, "root"),
    "mvs 0.5 fixed": lambda: MVS(0.5, 0.1),
    "mvs 1.0": lambda: MVS(1.0),
    "goss": lambda: GOSS(0.2, 0.3),
    "goss product": lambda: GOSS(0.1, 0.5, rank_by="product", warmup=1),
    "sgb": lambda: SGB(0.5),
    "bernoulli": lambda: Bernoulli(0.5),
    "bayesian": BayesianBootstrap,
    "poisson bootstrap": PoissonBootstrap,
    "importance": lambda: ImportanceSampling(0.5),
}

NUMERIC = (
    "number",
    "float32",
    "integer",
    "int32",
    "few",
    "missing",
    "constant",
    "infinite",
    "boolean",
    "date",
    "zoned date",
    "duration",
)
BY_DTYPE = ("text", "category", "many")
BY_NAME = ("id", "float32 category", "float64 category")
"""Categories that only `categorical_features` can tell from numbers."""
CATEGORICAL = (*BY_DTYPE, *BY_NAME)
KINDS = (*NUMERIC, *CATEGORICAL)

CLASSIFIERS = ("logistic", "softmax")
QUANTILES = ("absolute", "quantile", "pinball")
CONTAINERS = ("pandas", "polars", "pyarrow", "dict", "numpy")

# a value that stands twice is drawn twice as often
CHOICES: dict[str, tuple[Any, ...]] = {
    "objective": (
        *("squared", "squared", "absolute", "quantile", "pinball"),
        *("poisson", "logistic", "logistic", "softmax", "logcosh"),
    ),
    "alpha": (0.1, 0.25, 0.5, 0.8, 0.95),
    "target": ("plain", "plain", "plain", "ties", "far", "tiny", "heavy", "constant"),
    "n_rows": (40, 64, 100, 160, 250),
    "sampler": ("none", *SAMPLERS),
    "second_look": (0, 1, 2, 4, None),
    "leaf_values": ("all", "all", "sample"),
    "weights": ("none", "none", "random", "zeros", "integers", "wide", "minute"),
    "class_weight": (None, "balanced", "mapping"),
    "constrained": (False, True),
    "container": CONTAINERS,
    "max_bins": (8, 8, 16, 32, 255),
    "n_estimators": (2, 3, 5, 8),
    "learning_rate": (0.1, 0.5, 1.0),
    "max_leaves": (2, 4, 8, 31, None),
    "max_depth": (1, 3, 5, None),
    "min_samples_leaf": (1, 1, 3, 10),
    "min_child_weight": (0.0, 1e-3, 1.0),
    "l2": (0.0, 1.0, 10.0),
    "min_gain": (0.0, 0.0, 0.01),
    "colsample": (1.0, 1.0, 0.5),
    "order": (2, 2, 1),
    "validation": (False, False, True),
}
MAX_COLUMNS = 5
SEEDS = 2**20


@dataclass(frozen=True)
class Case:
    """Everything that is drawn."""

    objective: str = "squared"
    alpha: float = 0.5
    target: str = "plain"
    n_rows: int = 100
    columns: tuple[str, ...] = ("number", "few")
    sampler: str = "none"
    second_look: int | None = 0
    leaf_values: str = "all"
    weights: str = "none"
    class_weight: str | None = None
    constrained: bool = False
    container: str = "pandas"
    max_bins: int = 255
    n_estimators: int = 3
    learning_rate: float = 0.5
    max_leaves: int | None = 8
    max_depth: int | None = None
    min_samples_leaf: int = 1
    min_child_weight: float = 1e-3
    l2: float = 1.0
    min_gain: float = 0.0
    colsample: float = 1.0
    order: int = 2
    validation: bool = False
    seed: int = 0

    def __repr__(self) -> str:
        """As short as it can be: what differs from the defaults."""
        given = [(f.name, getattr(self, f.name)) for f in fields(self)]
        told = [f"{name}={v!r}" for name, v in given if v != getattr(Case, name)]
        return f"Case({', '.join(told)})"

    @property
    def is_classifier(self) -> bool:
        return self.objective in CLASSIFIERS

    @property
    def quantile(self) -> float | None:
        """The quantile that leaves are, or None for Newton steps."""
        if self.objective == "absolute":
            return 0.5
        return self.alpha if self.objective in QUANTILES else None

    @property
    def all_rows(self) -> bool:
        """Whether every tree sees every row with weight 1."""
        return self.sampler in ("none", "mvs 1.0")

    @property
    def has_statistics(self) -> bool:
        """Whether a column may become target statistics."""
        return any(kind in ("many", "id") for kind in self.columns)

    @property
    def has_categories(self) -> bool:
        return any(kind in CATEGORICAL for kind in self.columns)


def settled(case: Case) -> Case:
    """The nearest case that the library does not refuse by design."""
    changes: dict[str, Any] = {}
    if case.max_leaves is None and case.max_depth is None:
        changes["max_depth"] = 3
    if case.objective == "poisson":
        changes["order"] = 2  # refused
    if not case.is_classifier:
        changes["class_weight"] = None
    if case.objective in ("logcosh", "poisson") and case.target in ("far", "heavy", "tiny"):
        # log-cosh has a unit of its own, and the far tail of a logarithm is no target
        changes["target"] = "tiny" if case.objective == "poisson" else "plain"
    if case.is_classifier and case.target in ("far", "tiny"):
        changes["target"] = "plain"
    if case.validation:
        changes["n_rows"] = max(case.n_rows, 100)
    return replace(case, **changes)


def cases() -> st.SearchStrategy[Case]:
    """Cases, for hypothesis."""
    parts: dict[str, Any] = {name: st.sampled_from(values) for name, values in CHOICES.items()}
    parts["columns"] = st.lists(st.sampled_from(KINDS), min_size=1, max_size=MAX_COLUMNS).map(tuple)
    parts["seed"] = st.integers(0, SEEDS - 1)
    return st.fixed_dictionaries(parts).map(lambda drawn: settled(Case(**drawn)))


def drawn_case(numbers: random.Random) -> Case:
    """A case from a plain generator, for the campaign."""
    parts = {name: numbers.choice(values) for name, values in CHOICES.items()}
    columns = tuple(numbers.choices(KINDS, k=numbers.randint(1, MAX_COLUMNS)))
    return settled(Case(**parts, columns=columns, seed=numbers.randrange(SEEDS)))


# --- data ---------------------------------------------------------------------------------------
# The same bits on every machine, as the golden digests need: no normal, uniform(a, b), poisson,
# sin or power of NumPy, whose last bits are those of a processor and a library.


@dataclass(frozen=True, eq=False)
class Data:
    """Columns as NumPy arrays, by name, with their kinds; target and weights."""

    kinds: dict[str, str]
    columns: dict[str, Any]
    y: Any
    weight: Any

    @property
    def n_rows(self) -> int:
        return len(self.y)

    def take(self, rows: Any) -> Data:
        columns = {name: values[rows] for name, values in self.columns.items()}
        weight = None if self.weight is None else self.weight[rows]
        return Data(self.kinds, columns, self.y[rows], weight)

    def table(self, container: str) -> Any:
        return _TABLES[container](self)


def make_data(case: Case, *, stream: int = 0) -> Data:
    """Training data of a case; another `stream` gives other rows of the same kind."""
    rng = np.random.default_rng([case.seed, stream])
    n = case.n_rows
    kinds = {f"c{j}": kind for j, kind in enumerate(case.columns)}
    made = {name: _COLUMNS[kind](rng, n, case) for name, kind in kinds.items()}
    slopes = np.random.default_rng(case.seed).choice([-1.0, 0.5, 1.0, 2.0], len(made))
    signal = sum(slope * latent for slope, (_, latent) in zip(slopes, made.values(), strict=True))
    columns = {name: values for name, (values, _) in made.items()}
    return Data(kinds, columns, _target(case, signal, rng), _weights(case, rng))


def _spread(rng: Any, n: int) -> Any:
    """Nearly normal: the sum of six uniform numbers has a variance of 1/2."""
    return 1.414 * sum(rng.random((6, n)) - 0.5)


def _uniform(rng: Any, low: float, high: float, n: int) -> Any:
    return low + (high - low) * rng.random(n)


def _poisson(rng: Any, mean: Any) -> Any:
    """How many uniform numbers have a product above exp(-mean)."""
    products = np.cumprod(rng.random((40, len(mean))), axis=0)
    return (products > exp(-mean)).sum(axis=0).astype(float)


def _waves(codes: Any) -> Any:
    """Numbers in [-1, 1] without order, one for each code."""
    return codes * 37 % 64 / 31.5 - 1.0


def _holes(values: Any, rng: Any, missing: Any) -> Any:
    values[rng.random(len(values)) < 0.15] = missing
    return values


def _number(rng: Any, n: int, case: Case) -> tuple[Any, Any]:
    x = _spread(rng, n)
    return x, x


def _float32(rng: Any, n: int, case: Case) -> tuple[Any, Any]:
    x = _spread(rng, n).astype(np.float32)
    return x, x.astype(float)


def _whole(dtype: Any) -> Any:
    def make(rng: Any, n: int, case: Case) -> tuple[Any, Any]:
        x = rng.integers(-20, 21, n)
        return x.astype(dtype), x / 10.0

    return make


def _few(rng: Any, n: int, case: Case) -> tuple[Any, Any]:
    x = rng.integers(0, 5, n).astype(float)
    return x, x - 2.0


def _missing(rng: Any, n: int, case: Case) -> tuple[Any, Any]:
    x = _spread(rng, n)
    return _holes(x.copy(), rng, np.nan), x


def _constant(rng: Any, n: int, case: Case) -> tuple[Any, Any]:
    return np.full(n, 3.0), np.zeros(n)


def _infinite(rng: Any, n: int, case: Case) -> tuple[Any, Any]:
    x = _spread(rng, n)
    return np.where(np.abs(x) > 1.2, np.sign(x) * np.inf, x), np.clip(x, -1.2, 1.2)


def _boolean(rng: Any, n: int, case: Case) -> tuple[Any, Any]:
    x = rng.random(n) < 0.4
    return x, x.astype(float)


def _date(rng: Any, n: int, case: Case) -> tuple[Any, Any]:
    days = rng.integers(0, 2000, n)
    x = np.datetime64("2019-03-01T12:30:00", "us") + days.astype("timedelta64[D]")
    return _holes(x, rng, np.datetime64("NaT", "us")), days / 1000.0 - 1.0


def _duration(rng: Any, n: int, case: Case) -> tuple[Any, Any]:
    seconds = rng.integers(-5000, 5000, n)
    x = seconds.astype("timedelta64[s]").astype("timedelta64[us]")
    return _holes(x, rng, np.timedelta64("NaT", "us")), seconds / 5000.0


def _named(n_categories: Callable[[int], int], missing: Any = None) -> Any:
    def make(rng: Any, n: int, case: Case) -> tuple[Any, Any]:
        codes = rng.integers(0, n_categories(n), n)
        values = np.array([f"k{code}" for code in codes], dtype=object)
        return _holes(values, rng, missing), _waves(codes)

    return make


def _id(rng: Any, n: int, case: Case) -> tuple[Any, Any]:
    """Ids above 2**53, next to each other: as floats they would be the same."""
    codes = rng.integers(0, max(n // 4, 6), n)
    return 2**60 + 1 + codes.astype(np.int64), _waves(codes)


def _number_category(dtype: Any) -> Any:
    def make(rng: Any, n: int, case: Case) -> tuple[Any, Any]:
        codes = rng.integers(0, 6, n)
        values = np.array([0.1, 0.7, np.inf, 2.0, 3.3, 1e-3])[codes].astype(dtype)
        return _holes(values, rng, np.nan), _waves(codes)

    return make


_COLUMNS: dict[str, Any] = {
    "number": _number,
    "float32": _float32,
    "integer": _whole(np.int64),
    "int32": _whole(np.int32),
    "few": _few,
    "missing": _missing,
    "constant": _constant,
    "infinite": _infinite,
    "boolean": _boolean,
    "date": _date,
    "zoned date": _date,
    "duration": _duration,
    "text": _named(lambda n: 5),
    "category": _named(lambda n: 4),
    "many": _named(lambda n: max(n // 3, 6)),
    "id": _id,
    "float32 category": _number_category(np.float32),
    "float64 category": _number_category(np.float64),
}


def _target(case: Case, signal: Any, rng: Any) -> Any:
    n = len(signal)
    noisy = signal + 0.5 * _spread(rng, n)
    if case.target == "constant" and not case.is_classifier:
        return np.full(n, 3.0)
    if case.is_classifier:
        n_classes = 3 if case.objective == "softmax" else 2
        shares = [0.9] if case.target == "heavy" else [0.5]
        shares = [0.4, 0.8] if n_classes == 3 else shares
        y = np.digitize(noisy, [np.sort(noisy)[int(share * n)] for share in shares])
        y[:n_classes] = np.arange(n_classes)  # every class occurs
        return y
    if case.objective == "poisson":
        y = _poisson(rng, exp(np.clip(0.5 * signal, -3.0, 2.0)))
        y[0] = 1.0
        return y * 5e-17 if case.target == "tiny" else y
    return {
        "plain": lambda: noisy,
        "ties": lambda: np.round(noisy),
        "far": lambda: 1.7e9 + 50.0 + noisy,
        "tiny": lambda: 5e-17 * noisy,
        "heavy": lambda: 0.5 * (exp(3.0 * noisy) - exp(-3.0 * noisy)),
    }[case.target]()


def _weights(case: Case, rng: Any) -> Any:
    n = case.n_rows
    return {
        "none": lambda: None,
        "random": lambda: _uniform(rng, 0.2, 3.0, n),
        # the first rows have one row of every class
        "zeros": lambda: np.where(np.arange(n) < 3, 1.0, rng.choice([0.0, 1.0, 2.5], n)),
        "integers": lambda: rng.integers(1, 4, n).astype(float),
        "minute": lambda: 2.0**-1000 * _uniform(rng, 0.2, 3.0, n),
        "wide": lambda: exp(_uniform(rng, -18.4, 18.4, n)),
    }[case.weights]()


# --- tables -------------------------------------------------------------------------------------


def _as_pandas(data: Data) -> Any:
    import pandas as pd

    def series(values: Any, kind: str) -> Any:
        if kind == "zoned date":
            return pd.Series(values).dt.tz_localize("UTC").dt.tz_convert("Europe/Oslo")
        return pd.Series(pd.Categorical(values)) if kind == "category" else pd.Series(values)

    return pd.DataFrame({name: series(v, data.kinds[name]) for name, v in data.columns.items()})


def _as_polars(data: Data) -> Any:
    import polars as pl

    def series(name: str, values: Any, kind: str) -> Any:
        if kind in BY_DTYPE:
            read = pl.Series(name, values.tolist(), pl.String)
            return read.cast(pl.Categorical) if kind == "category" else read
        read = pl.Series(name, values)
        if kind == "zoned date":
            return read.dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
        return read

    return pl.DataFrame([series(name, v, data.kinds[name]) for name, v in data.columns.items()])


def _as_arrow(data: Data) -> Any:
    import pyarrow as pa

    def array(values: Any, kind: str) -> Any:
        if kind in BY_DTYPE:
            read = pa.array(values.tolist(), pa.string())
            return read.dictionary_encode() if kind == "category" else read
        if kind == "zoned date":
            return pa.array(values).cast(pa.timestamp("us", tz="UTC"))
        return pa.array(values)

    return pa.table({name: array(v, data.kinds[name]) for name, v in data.columns.items()})


def _zoned(values: Any) -> list[Any]:
    moments = values.astype("datetime64[us]").tolist()
    return [None if m is None else m.replace(tzinfo=UTC) for m in moments]


def _as_dict(data: Data) -> Any:
    zoned = {name for name, kind in data.kinds.items() if kind == "zoned date"}
    return {name: _zoned(v) if name in zoned else v for name, v in data.columns.items()}


def _as_numpy(data: Data) -> Any:
    plain = (*NUMERIC[:9], *BY_NAME[1:])
    if all(kind in plain for kind in data.kinds.values()):
        return np.column_stack([v.astype(float) for v in data.columns.values()])
    objects = np.empty((data.n_rows, len(data.columns)), object)
    for j, (name, values) in enumerate(data.columns.items()):
        zoned = data.kinds[name] == "zoned date"
        objects[:, j] = _zoned(values) if zoned else values.astype(object)
    return objects


_TABLES: dict[str, Callable[[Data], Any]] = {
    "pandas": _as_pandas,
    "polars": _as_polars,
    "pyarrow": _as_arrow,
    "dict": _as_dict,
    "numpy": _as_numpy,
}


# --- estimators ---------------------------------------------------------------------------------


def signs(case: Case) -> list[int]:
    """A constraint for each column: the sign it has in the target, or not."""
    if not case.constrained:
        return [0] * len(case.columns)
    free = [0 if kind in CATEGORICAL else 1 for kind in case.columns]
    return [sign * (-1 if (case.seed >> j) % 3 == 0 else 1) for j, sign in enumerate(free)]


def make_objective(case: Case) -> Any:
    """What the parameter `objective` is."""
    if case.is_classifier:
        return "auto"
    own = {"pinball": lambda: Pinball(case.alpha), "logcosh": LogCosh}
    return own[case.objective]() if case.objective in own else case.objective


def make_estimator(case: Case, **changes: Any) -> Any:
    """The estimator of a case, on one thread unless `changes` say otherwise."""
    taken = ("n_estimators", "learning_rate", "max_leaves", "max_depth", "min_samples_leaf")
    taken += ("min_child_weight", "l2", "min_gain", "max_bins", "colsample", "leaf_values")
    parameters: dict[str, Any] = {name: getattr(case, name) for name in taken}
    parameters |= {
        "second_look": case.second_look,
        "order": case.order,
        "sampler": SAMPLERS[case.sampler](),
        "objective": make_objective(case),
        "monotone_constraints": signs(case) if case.constrained else None,
        "random_state": case.seed,
        "n_jobs": 1,
    }
    if any(kind in BY_NAME for kind in case.columns):
        chosen = [j for j, kind in enumerate(case.columns) if kind in CATEGORICAL]
        parameters["categorical_features"] = chosen
    if case.validation:
        parameters |= {"validation_fraction": 0.3, "early_stopping_rounds": 2}
    if case.is_classifier:
        mapping = {0: 0.5, 1: 2.0} if case.class_weight == "mapping" else case.class_weight
        return MVSClassifier(**{**parameters, "class_weight": mapping, **changes})
    if case.objective == "quantile":
        parameters["quantile"] = case.alpha
    return MVSRegressor(**{**parameters, **changes})


def fitted(case: Case, data: Data | None = None, *, fit: Any = None, **changes: Any) -> Any:
    """An estimator of the case, fitted; `fit` has more arguments of its `fit`."""
    data = make_data(case) if data is None else data
    estimator = make_estimator(case, **changes)
    return estimator.fit(data.table(case.container), data.y, data.weight, **(fit or {}))
