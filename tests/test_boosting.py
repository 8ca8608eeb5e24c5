"""The whole loop: the same bits from every backend, stops, and runs that never diverge."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest

from mvsboost.backends.composite import CompositeBackend
from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.cpu.growing import MOST_ROOM
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.boosting import train
from mvsboost.data import Dataset
from mvsboost.errors import DataError, MVSBoostError, ObjectiveError, ParameterError
from mvsboost.metrics import get_metric
from mvsboost.model import Model
from mvsboost.objectives import (
    Absolute,
    CustomObjective,
    Logistic,
    Poisson,
    Quantile,
    Softmax,
    Squared,
)
from mvsboost.sampling import (
    GOSS,
    MVS,
    SGB,
    BayesianBootstrap,
    Bernoulli,
    ImportanceSampling,
    NoSampling,
    PoissonBootstrap,
    WrappedSampler,
)


class HalfOfTheLarge:
    """A user's own sampler."""

    def probabilities(self, gradients, hessians, iteration):
        size = np.abs(gradients).sum(axis=0)
        return np.where(size > np.median(size), 0.6, 0.3)


class LogCosh:
    """A user's own objective."""

    def gradient(self, target, score):
        return np.tanh(score - target)

    def hessian(self, target, score):
        return 1 - np.tanh(score - target) ** 2


SAMPLERS = {
    "none": NoSampling(),
    "mvs": MVS(0.4),
    "mvs root": MVS(0.4, "root"),
    "mvs fixed": MVS(0.4, 0.1),
    "importance": ImportanceSampling(0.4),
    "goss": GOSS(0.2, 0.2),
    "goss by product": GOSS(0.2, 0.2, rank_by="product", warmup=1),
    "sgb": SGB(0.4),
    "bernoulli": Bernoulli(0.4),
    "bayesian": BayesianBootstrap(),
    "poisson": PoissonBootstrap(0.7),
    "custom": WrappedSampler(HalfOfTheLarge()),
}

OBJECTIVES = {
    "logistic": Logistic(),
    "softmax": Softmax(3),
    "squared": Squared(),
    "absolute": Absolute(),
    "quantile": Quantile(0.2),
    "poisson": Poisson(),
    "custom": CustomObjective(LogCosh()),
}

CASES = {
    **{f"sampler {name}": ("logistic", {"sampler": s}) for name, s in SAMPLERS.items()},
    **{
        f"sampler {name}, second look": ("logistic", {"sampler": s, "second_look": 2})
        for name, s in SAMPLERS.items()
    },
    **{f"objective {name}": (name, {"sampler": MVS(0.4)}) for name in OBJECTIVES},
    "softmax, everything": (
        "softmax",
        {"sampler": MVS(0.4), "weighted": True, "colsample": 0.6, "second_look": 1},
    ),
    "weights": ("logistic", {"weighted": True}),
    "weighted quantile": ("quantile", {"weighted": True, "sampler": MVS(0.4), "second_look": 1}),
    "monotone": ("squared", {"sampler": MVS(0.4), "monotone": {0: 1, 1: -1}}),
    "monotone, second look": (
        "squared",
        {"sampler": MVS(0.4), "monotone": {0: 1, 1: -1}, "second_look": 2},
    ),
    "colsample": ("logistic", {"colsample": 0.5}),
    "first order": ("logistic", {"sampler": MVS(0.4), "order": 1, "weighted": True}),
    "sample leaves": ("logistic", {"sampler": MVS(0.4), "leaf_values": "sample"}),
    "sample leaves, few rows": (
        "logistic",
        {"sampler": MVS(0.4), "leaf_values": "sample", "min_sampled": 6},
    ),
    "sample leaves, second look": (
        "logistic",
        {"sampler": MVS(0.2), "leaf_values": "sample", "second_look": 2},
    ),
    "depth-wise": ("logistic", {"sampler": MVS(0.4), "max_leaves": None, "max_depth": 3}),
    "depth-wise, second look": (
        "squared",
        {"sampler": SGB(0.3), "max_leaves": None, "max_depth": 4, "second_look": 1},
    ),
    "tiny sample, second look": (
        "squared",
        {"sampler": SGB(0.05), "second_look": 3, "min_samples_leaf": 1},
    ),
    "no floor": (
        "logistic",
        {"sampler": MVS(0.4), "l2": 0.0, "min_child_weight": 0.0, "min_samples_leaf": 1},
    ),
}


def chunked(make, size, rows, objective):
    """A composite whose children hold `size` rows each."""
    starts = range(0, rows.n_rows, size)
    return CompositeBackend([make(rows.slice(a, a + size), objective) for a in starts])


def run(data, objective, options, make_config, **how):
    options = {key: value for key, value in options.items() if key != "weighted"}
    sampler = options.pop("sampler", NoSampling())
    config = make_config(
        OBJECTIVES[objective], sampler, **options, **{"seed": 7, **how.pop("config", {})}
    )
    if OBJECTIVES[objective].has_loss and objective != "custom":
        config = replace(config, metrics=[get_metric("loss", config.objective)])
        how["eval_sets"] = {"train": data}
    return train(data, config, **how)


CHUNKED = {
    "chunks of 64": partial(chunked, ReferenceBackend, 64),
    "chunks of 17 on the cpu": partial(chunked, CPUBackend, 17),
}


@pytest.mark.parametrize("case", list(CASES))
def test_the_model_is_the_same_for_any_backend(case, make_data, make_config, model_bytes, sliced):
    objective, options = CASES[case]
    data = make_data(objective, 200, weighted=options.get("weighted", False))
    expected = run(data, objective, options, make_config, config={"device": "reference"})
    assert any(tree.n_leaves > 1 for trees in expected.model.iterations for tree in trees)
    # whole trees in one call, and verb by verb
    ways = [(n, room) for n in (1, 2, 4) for room in (MOST_ROOM, 0)]
    backends = {f"{n} threads, {room}": sliced(n, room=room) for n, room in ways} | CHUNKED
    for name, make in backends.items():
        seen = run(data, objective, options, make_config, backend=make)
        assert model_bytes(seen.model) == model_bytes(expected.model), name
        assert seen.stop_reason == expected.stop_reason


@pytest.mark.large
@pytest.mark.parametrize("case", ["sampler mvs, second look", "softmax, everything"])
def test_the_model_is_the_same_for_real_slices(case, make_data, make_config, model_bytes):
    """More rows than a thread's smallest slice, with nothing patched."""
    objective, options = CASES[case]
    data = make_data(objective, 40_000)
    models = [
        run(data, objective, options, make_config, **how).model
        for how in (
            {"config": {"n_threads": 1}},
            {"backend": partial(CPUBackend, n_threads=4)},
            {"backend": partial(chunked, CPUBackend, 9_999)},
        )
    ]
    assert len({model_bytes(model) for model in models}) == 1


@pytest.mark.parametrize("second_look", [0, 2])
@pytest.mark.parametrize("leaf_values", ["all", "sample"])
@pytest.mark.parametrize(
    "sampler",
    [MVS(1.0), MVS(1.0, 0.1), SGB(1.0), Bernoulli(1.0), GOSS(0.4, 0.6), ImportanceSampling(1.0)],
    ids=repr,
)
def test_rate_one_is_no_sampling_to_the_bit(
    sampler, leaf_values, second_look, make_data, make_config, model_bytes
):
    data = make_data("logistic")
    options = {"leaf_values": leaf_values, "second_look": second_look, "min_sampled": 3}
    seen = train(data, make_config(Logistic(), sampler, **options)).model
    assert model_bytes(seen) == model_bytes(train(data, make_config(**options)).model)


def test_no_sampling_ignores_the_second_look(make_data, make_config, model_bytes):
    data = make_data("logistic")
    models = [train(data, make_config(second_look=k)).model for k in (0, 1, 10)]
    assert len({model_bytes(model) for model in models}) == 1


def test_the_seed_decides(make_data, make_config, model_bytes):
    data = make_data("logistic")
    config = make_config(Logistic(), MVS(0.3), seed=1)
    same, again = train(data, config).model, train(data, config).model
    other = train(data, replace(config, seed=2)).model
    assert model_bytes(same) == model_bytes(again) != model_bytes(other)


@pytest.mark.parametrize("max_leaves", [8, None])
@pytest.mark.parametrize("second_look", [1, 10])
def test_a_second_look_counts_every_row(second_look, max_leaves, make_data, make_config):
    data = make_data("logistic")
    config = make_config(
        Logistic(), MVS(0.1), second_look=second_look, max_leaves=max_leaves, max_depth=4
    )
    model = train(data, config).model
    leaves = model.leaves(data.rows.bins)
    for tree, numbers in zip((t for (t,) in model.iterations), leaves.T, strict=True):
        sizes = np.bincount(numbers, minlength=tree.n_leaves)
        assert np.array_equal(tree.cover[tree.is_leaf], sizes)
        assert tree.cover[0] == 300
        assert sizes.min() >= 5


@pytest.mark.large
@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("second_look", [0, 2])
@pytest.mark.parametrize("sampler", [NoSampling(), MVS(0.5), SGB(0.5)], ids=repr)
def test_leaf_sums_of_all_rows_are_exact_beside_a_heavy_row(
    sampler, second_look, device, make_config
):
    """Sixteen bits of a row of weight a million leave nothing of the rows of weight one."""
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(600, 3)), np.ones(600)
    weight[7] = 1e6
    data = Dataset.from_data(X, X[:, 0] + np.sin(X[:, 1]), weight=weight)
    config = make_config(Squared(), sampler, second_look=second_look, device=device, max_leaves=12)
    model = train(data, config).model
    for (tree,), numbers in zip(model.iterations, model.leaves(data.rows.bins).T, strict=True):
        expected = np.bincount(numbers, weights=weight, minlength=tree.n_leaves)
        assert tree.hessian[tree.is_leaf] == pytest.approx(expected, rel=1e-9)


@pytest.mark.large
def test_leaf_sums_of_a_sample_are_exact_beside_a_heavy_row(make_config, model_bytes):
    """A sample of all rows but two comes to what the rows themselves come to, less those."""
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(2_000, 3)), np.ones(2_000)
    weight[7] = 1e6
    data = Dataset.from_data(X, X[:, 0] + np.sin(X[:, 1]), weight=weight)
    config = make_config(Squared(), SGB(0.999), leaf_values="sample", max_leaves=12)
    model = train(data, config).model
    for (tree,), numbers in zip(model.iterations, model.leaves(data.rows.bins).T, strict=True):
        heavy = numbers[7]
        rows = 0.999 * np.delete(tree.hessian[tree.is_leaf], heavy)
        expected = np.delete(np.bincount(numbers, minlength=tree.n_leaves), heavy)
        assert (np.abs(rows - expected) < 2.001).all()
    same = train(data, replace(config, device="reference")).model
    assert model_bytes(model) == model_bytes(same)


@pytest.mark.parametrize("lam", ["leaf", "root"])
@pytest.mark.parametrize("objective", [Absolute(), Quantile(0.7)], ids=repr)
def test_the_unit_of_the_target_changes_no_sample_of_quantile_leaves(objective, lam, make_config):
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = X[:, 0] + X[:, 1] ** 2
    histories = []
    for scale in (2.0**-30, 1.0, 2.0**30):
        data = Dataset.from_data(X, scale * y)
        result = train(data, make_config(objective, MVS(0.3, lam), n_estimators=6))
        histories.append(result.sampling_history)
    assert histories[0] == histories[1] == histories[2]
    assert min(record["lam"] for record in histories[0][1:]) > 1e-5


@pytest.mark.parametrize("max_leaves", [20, None])
@pytest.mark.parametrize("second_look", [1, 2, 3, 4, 5, 7, 9])
def test_a_second_look_at_any_number_of_features_is_that_of_the_reference(
    second_look, max_leaves, make_config, model_bytes, sliced
):
    rng = np.random.default_rng(second_look)
    X = rng.integers(0, [[2, 3, 5, 9, 20, 40, 40, 60, 80]], (900, 9)).astype(float)
    X[:, 1] = X[:, 0]  # equal gains
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nansum(X, axis=1) + rng.normal(scale=30.0, size=900) > np.nansum(X, axis=1).mean()
    data = Dataset.from_data(X, y.astype(float), n_classes=2)
    sampler, options = MVS(0.3), {"second_look": second_look, "max_leaves": max_leaves}
    config = make_config(Logistic(), sampler, n_estimators=2, max_depth=6, **options)
    expected = train(data, replace(config, device="reference")).model
    assert expected.iterations[0][0].n_leaves > 10
    for n_threads in (1, 3):
        model = train(data, config, backend=sliced(n_threads)).model
        assert model_bytes(model) == model_bytes(expected)


def test_a_second_look_at_every_feature_decides_as_full_data_would(regression, make_config):
    data, objective = regression
    full = train(data, make_config(objective, n_estimators=1, max_leaves=2)).model
    config = make_config(objective, SGB(0.5), n_estimators=1, max_leaves=2, second_look=2)
    looked = train(data, config).model
    a, b = full.iterations[0][0], looked.iterations[0][0]
    assert (a.feature[0], a.threshold[0]) == (b.feature[0], b.threshold[0])
    assert a.value == pytest.approx(b.value, rel=1e-6)


def test_colsample_bounds_the_features_of_a_tree(make_data, make_config):
    model = train(make_data("logistic"), make_config(colsample=0.5, n_estimators=10)).model
    used = [set(tree.feature[~tree.is_leaf]) for (tree,) in model.iterations]
    assert max(len(features) for features in used) <= 2
    assert set.union(*used) == {0, 1, 2, 3}


def test_the_features_of_a_tree_are_those_of_its_iteration(make_data, make_config):
    """They are chosen for many iterations at once: where that begins must not matter."""
    data = make_data("logistic")

    def features(n, before=None):
        config = make_config(colsample=0.5, n_estimators=n)
        model = train(data, config, init_model=before).model
        return model, [tree.feature.tolist() for (tree,) in model.iterations]

    start, _ = features(50)
    assert features(50, before=start)[1] == features(100)[1]


def test_the_loss_falls(make_data, make_config):
    for name in ("logistic", "softmax", "squared", "absolute", "quantile", "poisson"):
        result = run(make_data(name), name, {}, make_config, config={"n_estimators": 10})
        losses = result.model.history["train"]["loss"]
        assert losses[-1] < losses[0], name


def test_the_sampling_history_has_a_record_of_each_iteration(make_data, make_config):
    result = train(make_data("logistic"), make_config(Logistic(), MVS(0.3)))
    assert len(result.sampling_history) == result.model.n_iterations == 3
    for record in result.sampling_history:
        assert record["rate"] == 0.3
        assert 40 < record["rows"] < 150
        assert record["effective_sample_size"] <= record["rows"] + 1e-9
        assert record["lam"] > 0
        assert record["mu"] > 0


@pytest.mark.parametrize("name", ["logistic", "squared", "poisson", "softmax"])
def test_the_baseline_is_the_best_constant(name, make_data, make_config):
    data = make_data(name, weighted=True)
    model = train(data, make_config(OBJECTIVES[name])).model
    y, w = data.rows.target, data.rows.weight
    mean = np.average(np.equal.outer(np.arange(3), y) if name == "softmax" else y[None], 1, w)
    scores = np.tile(model.baseline[:, None], (1, 1))
    assert OBJECTIVES[name].link.inverse(scores)[:, 0] == pytest.approx(mean)


@pytest.mark.parametrize("size", [1e-30, 5e-17, 1e13, 1e17, 1e30])
def test_the_baseline_of_targets_of_any_size(size, make_config):
    rng = np.random.default_rng(0)
    y, w = size * rng.uniform(0.5, 1.5, 2_000), rng.choice([0.7, 1.0], 2_000)
    data = Dataset.from_data(rng.normal(size=(2_000, 1)), y, weight=w)
    model = train(data, make_config(OBJECTIVES["squared"])).model
    assert model.baseline[0] == pytest.approx(np.average(y, weights=w), rel=1e-12)


@pytest.mark.large
@pytest.mark.parametrize("weight", [1e-12, 1.0, 1e12])
def test_tiny_targets_are_learned(weight, make_config):
    """However heavy the rows are: what counts is how large the targets are."""
    x = np.random.default_rng(0).normal(size=(500, 1))
    y = 5e-17 * (2.0 + np.tanh(x[:, 0]))
    data = Dataset.from_data(x, y, weight=np.full(500, weight))
    options = {"n_estimators": 30, "l2": 0.0, "min_child_weight": 0.0}
    model = train(data, make_config(Squared(), **options)).model
    residual = y - model.raw_scores(data.rows.bins)[0]
    assert residual.std() < 0.1 * y.std()
    model = train(data, make_config(Poisson(), **options)).model
    assert np.exp(model.baseline[0]) == pytest.approx(y.mean())


@pytest.mark.large
@pytest.mark.parametrize("name", ["logistic", "softmax", "squared", "absolute", "poisson"])
@pytest.mark.parametrize("size", [2.0**-1060, 2.0**-200, 2.0**200, 2.0**1020])
def test_weights_of_any_size_train_the_same_model(size, name, make_data, make_config):
    data = make_data(name, weighted=True)
    options = {"l2": 0.0, "min_child_weight": 0.0, "second_look": 1}
    config = make_config(OBJECTIVES[name], MVS(0.5), **options)
    rows = replace(data.rows, weight=None)

    def trained(weight):
        binned = Dataset.from_data(
            rows.bins.astype(float), rows.target, weight=weight, n_classes=0, max_bins=20
        )
        result = train(binned, config, eval_sets={"own": binned})
        return result.model.raw_scores(binned.rows.bins), result.model.history

    plain, history = trained(np.ones(300))
    seen, same = trained(np.full(300, size))
    np.testing.assert_array_equal(seen, plain)
    assert same == history


def test_parameters_in_the_unit_of_weights_keep_it(make_config):
    """Tiny weights are nothing beside l2, and huge ones make it nothing."""
    x = np.random.default_rng(0).normal(size=(200, 1))
    y = (x[:, 0] + np.random.default_rng(1).normal(size=200) > 0.5).astype(float)
    spreads = []
    for size in (1e-306, 1.0, 1e300):
        data = Dataset.from_data(x, y, weight=np.full(200, size))
        model = train(data, make_config(min_child_weight=0.0)).model
        assert model.predict(x).mean() == pytest.approx(y.mean(), abs=0.02)
        spreads.append(np.ptp(model.raw_scores(data.rows.bins)))
    assert spreads[0] == pytest.approx(0.0, abs=1e-200)
    assert 0.5 < spreads[1] < spreads[2]


@pytest.mark.parametrize("centre", [0.0, 1.7e9 + 50, -3.3e15, 1e-20])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_a_quantile_is_found_to_the_last_bit(centre, alpha, make_config):
    y = centre + np.random.default_rng(0).permutation(np.linspace(-1, 1, 101))
    data = Dataset.from_data(np.zeros((101, 1)), y)
    model = train(data, make_config(Quantile(alpha))).model
    assert model.baseline[0] == np.sort(y)[int(np.ceil(alpha * 101)) - 1]


@pytest.mark.parametrize("weight", [0.1, 0.5, 3.3])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_equal_weights_change_no_quantile(weight, alpha, make_config):
    rng = np.random.default_rng(0)
    for n in (6, 10, 30):
        X, y = rng.normal(size=(n, 1)), rng.normal(size=n) * 10
        plain = train(Dataset.from_data(X, y), make_config(Quantile(alpha))).model
        same = train(
            Dataset.from_data(X, y, weight=np.full(n, weight)), make_config(Quantile(alpha))
        ).model
        assert same.baseline[0] in y
        rank = np.sort(y)
        places = [np.argmin(np.abs(rank - m.baseline[0])) for m in (plain, same)]
        assert abs(places[0] - places[1]) <= 1


# --- why it stops --------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [NoSampling(), MVS(0.3), GOSS(), SGB(0.5)], ids=repr)
def test_vanishing_gradients_stop_with_a_reason(sampler, make_data, make_config):
    data = make_data("squared", 80)
    data.rows.target[:] = 2.5
    result = train(data, make_config(Squared(), sampler))
    assert result.model.n_iterations == 0
    assert "optimum" in result.stop_reason
    assert result.sampling_history == []
    assert np.array_equal(result.model.raw_scores(data.rows.bins), np.full((1, 80), 2.5))


def test_no_possible_split_stops_with_a_reason(make_data, make_config):
    data = make_data("logistic", 60)
    result = train(data, make_config(min_samples_leaf=31, n_estimators=50))
    assert result.model.n_iterations == 1
    assert result.stop_reason == "no split improves the loss"
    assert result.model.iterations[0][0].n_leaves == 1


def test_constant_columns_stop_with_a_reason(make_config):
    data = Dataset.from_data(np.zeros((50, 2)), np.arange(50) % 2)
    result = train(data, make_config(min_samples_leaf=1))
    assert result.stop_reason == "no split improves the loss"


def test_leaves_without_a_split_go_on_while_they_move_the_scores(make_config):
    class Huber:
        def gradients(self, target, scores):
            return np.clip(scores - target, -1.0, 1.0), np.ones_like(scores)

    target = np.r_[np.zeros(25), np.full(5, 90.0)]
    data = Dataset.from_data(np.arange(30.0)[:, None], target)
    options = {"learning_rate": 1.0, "min_samples_leaf": 20, "n_estimators": 100, "l2": 0.0}
    result = train(data, make_config(CustomObjective(Huber()), **options))
    assert result.model.baseline[0] == pytest.approx(15.0)
    scores = result.model.raw_scores(data.rows.bins)
    np.testing.assert_allclose(scores, 0.2, atol=1e-5)  # where the few pull as much as the many
    assert result.stop_reason == "no split improves the loss"


def test_a_sample_without_a_split_does_not_stop(make_data, make_config):
    data = make_data("logistic", 60)
    result = train(data, make_config(Logistic(), SGB(0.05), min_samples_leaf=25, n_estimators=6))
    assert result.model.n_iterations == 6


def test_columns_without_a_split_do_not_stop_where_others_may_come(make_config):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), np.zeros(200)])
    data = Dataset.from_data(X, 2 * X[:, 0])
    result = train(data, make_config(Squared(), colsample=0.5, n_estimators=12))
    assert result.model.n_iterations == 12
    assert sum(tree.n_leaves > 1 for (tree,) in result.model.iterations) > 2


def test_an_objective_that_is_not_finite_is_named(make_data, make_config):
    class Broken:
        name = "broken"

        def gradients(self, target, scores):
            g = scores - target
            g[0, 17] = np.inf
            return g, np.ones_like(g)

    for device in ("cpu", "reference"):
        config = make_config(CustomObjective(Broken()), device=device)
        with pytest.raises(ObjectiveError, match=r"'broken'.*row 17;"):
            train(make_data("squared"), config)
        with pytest.raises(ObjectiveError, match=r"row 17 of weight [\d.]+; .*row weights"):
            train(make_data("squared", weighted=True), config)


def test_a_negative_hessian_is_an_error_at_second_order_only(make_data, make_config):
    class Concave:
        name = "concave"

        def gradients(self, target, scores):
            return scores - target, np.full_like(scores, -1.0)

    objective = CustomObjective(Concave())
    with pytest.raises(ObjectiveError, match="negative hessian"):
        train(make_data("squared"), make_config(objective))
    assert train(make_data("squared"), make_config(objective, order=1)).model.n_iterations == 3


def test_monotone_categories_are_an_error(make_data, make_config):
    with pytest.raises(ParameterError, match="numeric"):
        train(make_data("squared"), make_config(Squared(), monotone={3: 1}))


class Halved(Squared):
    """A built-in objective with other gradients, under the built-in's name."""

    def gradients(self, target, scores):
        g, h = super().gradients(target, scores)
        return 0.5 * g, h


def test_an_objective_is_never_mistaken_for_a_built_in_one(make_data, make_config, model_bytes):
    """Either it is refused, or its own gradients are used."""
    data = make_data("squared")
    try:
        models = [
            train(data, make_config(Halved(), device=device)).model
            for device in ("cpu", "reference")
        ]
    except MVSBoostError:
        return
    assert model_bytes(models[0]) == model_bytes(models[1])


# --- continuing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["logistic", "softmax", "quantile"])
def test_two_runs_are_one_long_run(objective, make_data, make_config, model_bytes):
    data = make_data(objective)
    options = {"sampler": MVS(0.4), "second_look": 1, "colsample": 0.7}
    whole = run(data, objective, options, make_config, config={"n_estimators": 4})
    half = run(data, objective, options, make_config, config={"n_estimators": 2})
    more = {"config": {"n_estimators": 2}, "init_model": half.model}
    rest = run(data, objective, options, make_config, **more, resume=True)
    assert model_bytes(rest.model) == model_bytes(whole.model)
    assert half.model.n_iterations == 2
    other = run(data, objective, options, make_config, **more).model  # the same trees
    assert other.history["train"]["loss"] == whole.model.history["train"]["loss"][2:]
    other.history = whole.model.history
    assert model_bytes(other) == model_bytes(whole.model)


def test_a_model_of_other_outputs_cannot_be_continued(make_data, make_config):
    data = make_data("softmax")
    binary = train(make_data("logistic"), make_config()).model
    with pytest.raises(MVSBoostError):
        train(data, make_config(Softmax(3)), init_model=binary)


def test_a_model_of_other_bins_cannot_be_continued(make_data, make_config):
    first = train(make_data("logistic", seed=0), make_config()).model
    with pytest.raises(MVSBoostError):
        train(make_data("logistic", seed=1), make_config(), init_model=first)


def test_a_model_of_another_quantile_cannot_be_continued(make_data, make_config):
    data = make_data("squared")
    upper = train(data, make_config(Quantile(0.9))).model
    with pytest.raises(DataError, match=r"alpha 0\.9, this is for .*alpha 0\.1"):
        train(data, make_config(Quantile(0.1)), init_model=upper)


def test_a_continued_model_has_the_objective_that_is_passed(make_data, make_config):
    data = make_data("squared")
    first = train(data, make_config(CustomObjective(LogCosh()))).model
    from_file = Model.from_dict(first.to_dict())  # which cannot train
    objective = CustomObjective(LogCosh())
    more = train(data, make_config(objective), init_model=from_file).model
    assert more.objective is objective


# --- no setting diverges -------------------------------------------------------------------------


def skewed(name):
    """Few positives, heavy tails, and a row far away from all others."""
    rng = np.random.default_rng(5)
    n = 250
    X = rng.lognormal(0.0, 1.5, (n, 3))
    X[0] = 1e6
    if name == "logistic":
        y = (X[:, 0] * rng.lognormal(0, 0.5, n) > 12).astype(float)
        y[0] = 0.0
    elif name == "softmax":
        y = np.digitize(X[:, 0], [3.0, 12.0]).astype(float)
    elif name == "poisson":
        y = rng.poisson(np.minimum(X[:, 0], 50)).astype(float)
    else:
        y = X[:, 0] * rng.lognormal(0, 0.5, n)
        y[0] = 1e4
    return Dataset.from_data(X, y, max_bins=32)


GRID = list(product([0.02, 0.2], [0.0, 1.0], ["all", "sample"], [1, 2]))


def losses(data, config):
    """Mean loss at the start and at the end; infinite where a score is not finite."""
    model = train(data, config).model
    y, bins = data.rows.target, data.rows.bins
    scores = model.raw_scores(bins)
    if not np.isfinite(scores).all():
        return 0.0, np.inf
    before, after = (config.objective.loss(y, s) for s in (model.raw_scores(bins, 0), scores))
    return float(before.mean()), float(after.mean())


@pytest.mark.large
@pytest.mark.parametrize("second_look", [0, 2])
@pytest.mark.parametrize(
    "make_sampler",
    [
        lambda rate: NoSampling(),
        MVS,
        lambda rate: MVS(rate, 0.1),
        ImportanceSampling,
        SGB,
        PoissonBootstrap,
        lambda rate: GOSS(rate / 2, rate / 2),
    ],
    ids=["none", "mvs", "mvs fixed", "importance", "sgb", "poisson", "goss"],
)
@pytest.mark.parametrize(
    "name", ["logistic", "softmax", "squared", "absolute", "quantile", "poisson"]
)
def test_no_setting_diverges(name, make_sampler, second_look, make_config):
    data = skewed(name)
    bad = []
    for rate, l2, leaf_values, order in GRID:
        if (name, order) == ("poisson", 1):
            continue  # which is refused
        config = make_config(
            OBJECTIVES[name],
            make_sampler(rate),
            n_estimators=8,
            learning_rate=0.1,
            min_sampled=3,
            min_samples_leaf=20,
            l2=l2,
            leaf_values=leaf_values,
            order=order,
            second_look=second_look,
        )
        before, after = losses(data, config)
        if not after <= before + 0.5 * abs(before) + 0.2:
            bad.append((rate, l2, leaf_values, order, before, after))
    assert not bad


class OwnPoisson:
    link = "log"

    def gradients(self, target, scores):
        return np.exp(scores) - target, np.exp(scores)


@pytest.mark.parametrize(
    "objective", [Poisson(), CustomObjective(OwnPoisson())], ids=lambda o: o.name
)
def test_a_logarithmic_link_needs_the_hessian(objective, make_data, make_config):
    """A residual of 1000 is a step by e**1000, or one that is cut off and turns back for ever."""
    with pytest.raises(ParameterError, match="order must be 2 for objective"):
        train(make_data("poisson"), make_config(objective, order=1))


@pytest.mark.large
@pytest.mark.parametrize("l2", [0.0, 1.0])
@pytest.mark.parametrize("second_look", [0, 4])
@pytest.mark.parametrize("sampler", [SGB(0.02), SGB(0.05), MVS(0.02)], ids=repr)
def test_values_of_few_sampled_rows_do_not_explode(sampler, second_look, l2, make_config):
    """Rows that are predicted with wrong certainty have gradients but hardly any hessian."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 6))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=2000) > 1).astype(float)
    config = make_config(
        Logistic(),
        sampler,
        n_estimators=200,
        learning_rate=0.1,
        max_leaves=31,
        min_samples_leaf=20,
        min_sampled=3,
        l2=l2,
        leaf_values="sample",
        second_look=second_look,
    )
    before, after = losses(Dataset.from_data(X, y), config)
    # forty rows are noise enough for some loss, not for a model that is sure and wrong
    assert after <= before + 1.0


@pytest.mark.parametrize("leaf_values", ["all", "sample"])
def test_a_sample_that_is_all_rows_is_trusted_like_all_rows(leaf_values, make_config):
    x = np.arange(1000.0)
    data = Dataset.from_data(x[:, None], (x >= 950).astype(float))
    options = {"n_estimators": 1, "learning_rate": 1.0, "l2": 0.0, "leaf_values": leaf_values}
    (tree,) = train(data, make_config(min_samples_leaf=5, **options)).model.last_trees()
    # (1 - p) / (p (1 - p)) for the rare class, far beyond what a sample is trusted with
    assert tree.value.max() == pytest.approx(20.0, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("objective", "squared"),
        ("sampler", "mvs"),
        ("n_estimators", -1),
        ("learning_rate", -1.0),
        ("colsample", 0.0),
        ("leaf_values", "x"),
        ("order", 3),
        ("n_threads", 0),
        ("n_threads", 1.5),
    ],
)
def test_a_configuration_is_checked(name, value, make_data, make_config):
    config = replace(make_config(Squared()), **{name: value})
    with pytest.raises(ParameterError, match=f"{name} must be"):
        train(make_data("squared", 40), config)


@pytest.mark.parametrize(
    ("n_rows", "second_look", "fix"),
    [(1 << 29, 2, "set second_look=0"), (1 << 31, 0, "rate of the sampler to at most 0.12")],
)
def test_more_rows_than_trees_can_sum_are_an_error(
    n_rows, second_look, fix, make_data, make_config
):
    def pretend(rows, objective):
        backend = ReferenceBackend(rows, objective)
        backend.n_rows = n_rows
        return backend

    config = make_config(Logistic(), MVS(0.4), second_look=second_look)
    with pytest.raises(DataError, match=fix):
        train(make_data("logistic"), config, backend=pretend)


def test_samplers_targets_and_metrics_are_checked(make_data, make_config):
    data = make_data("squared", 40)
    with pytest.raises(ParameterError, match="rate must be"):
        train(data, make_config(Squared(), sampler=MVS(rate=5.0)))
    with pytest.raises(DataError, match="class codes"):
        train(data, make_config(Logistic()))
    twice = [get_metric("rmse", Squared())] * 2
    with pytest.raises(ParameterError, match="metrics must be different"):
        train(data, make_config(Squared(), metrics=twice), eval_sets={"same": data})
    with pytest.raises(ParameterError, match=r"metrics must be a list of Metric.*'rmse'"):
        train(data, make_config(Squared(), metrics=["rmse"]), eval_sets={"same": data})


def test_arguments_are_checked(make_data, make_config):
    data, config = make_data("squared", 40), make_config(Squared())
    with pytest.raises(ParameterError, match="dataset must be a Dataset"):
        train(config, data)
    with pytest.raises(ParameterError, match="config must be a TrainConfig"):
        train(data, {"objective": "squared"})
    for wrong in ([data], {"v": data.rows}):
        with pytest.raises(ParameterError, match="eval_sets must be a mapping from names to Data"):
            train(data, config, eval_sets=wrong)


def test_the_metric_of_the_objective_is_evaluated_where_none_is_named(make_data, make_config):
    data = make_data("squared", 40)
    history = train(data, make_config(Squared()), eval_sets={"v": data}).model.history
    assert {name: len(values) for name, values in history["v"].items()} == {"rmse": 3}


def test_a_set_that_cannot_be_evaluated_is_named(make_data, make_config):
    data = make_data("logistic", 60)
    one_class = replace(data, rows=replace(data.rows, target=np.ones(60)))
    config = make_config(metrics=[get_metric("auc", Logistic())])
    with pytest.raises(DataError, match="evaluation set 'b': eval_metric 'auc' needs"):
        train(data, config, eval_sets={"a": data, "b": one_class})


def test_metrics_have_their_place_where_nothing_was_trained(make_config):
    data = Dataset.from_data(np.arange(20.0)[:, None], np.full(20, 2.5))
    result = train(data, make_config(Squared()), eval_sets={"v": data})
    assert result.model.history == {"v": {"rmse": []}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"l2": -25.0}, "l2 must be a number >= 0, got -25.0"),
        ({"l2": float("nan")}, "l2 must be a number >= 0"),
        ({"max_leaves": 0}, "max_leaves must be an integer >= 2"),
        ({"min_samples_leaf": -1}, "min_samples_leaf must be a number >= 0"),
        ({"second_look": -1}, "second_look must be an integer >= 0"),
        ({"n_estimators": 2.5}, "n_estimators must be an integer >= 0, got 2.5"),
        ({"n_estimators": -1}, "n_estimators must be an integer >= 0, got -1"),
        ({"monotone": {0: 5}}, r"monotone must be signs -1, 0 or 1 .*, got {0: 5}"),
        ({"monotone": {-1: 1}}, r"monotone must be signs .* by binned feature, 0 to"),
        ({"monotone": {99: 1}}, r"monotone must be signs .* by binned feature, 0 to"),
    ],
)
def test_trees_and_constraints_are_checked(given, message, make_data, make_config):
    with pytest.raises(ParameterError, match=message):
        train(make_data("logistic", 60), make_config(**given))


def test_what_is_no_model_cannot_be_continued(make_data, make_config):
    with pytest.raises(ParameterError, match="init_model must be a Model, such as an estimator's"):
        train(make_data("squared", 60), make_config(), init_model="model.json")
