"""Every built-in sampler: the public suite, sizes, edges and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from mvsboost.backends.messages import GradientRange
from mvsboost.errors import ConvergenceStop, DataError, ParameterError
from mvsboost.sampling import (
    GOSS,
    MVS,
    SAMPLERS,
    SGB,
    BayesianBootstrap,
    Bernoulli,
    ImportanceSampling,
    NoSampling,
    PoissonBootstrap,
    Sampler,
    SamplingContext,
    base,
    make_sampler,
)
from mvsboost.testing import GradientRows, SamplerConformance


class TestNoSampling(SamplerConformance):
    sampler = NoSampling()


class TestSGB(SamplerConformance):
    sampler = SGB(0.3)


class TestBernoulli(SamplerConformance):
    sampler = Bernoulli(0.3)


class TestGOSS(SamplerConformance):
    sampler = GOSS(0.1, 0.2)


class TestGOSSWithoutTop(SamplerConformance):
    n_iterations = 80
    sampler = GOSS(0.0, 0.2)


class TestGOSSByProduct(SamplerConformance):
    n_iterations = 80
    sampler = GOSS(0.1, 0.2, rank_by="product")


class TestMVS(SamplerConformance):
    @pytest.fixture(params=["leaf", "root", 0.1])
    def sampler(self, request):
        return MVS(0.3, request.param)


class TestMVSSmallRate(SamplerConformance):
    sampler = MVS(0.05)


class TestImportanceSampling(SamplerConformance):
    sampler = ImportanceSampling(0.3)


class TestBayesianBootstrap(SamplerConformance):
    sampler = BayesianBootstrap()


class TestPoissonBootstrap(SamplerConformance):
    sampler = PoissonBootstrap()
    expected_share = 1 - np.exp(-1)


class TestPoissonBootstrapSmallRate(SamplerConformance):
    sampler = PoissonBootstrap(0.2)
    expected_share = 1 - np.exp(-0.2)


def random_rows(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    return GradientRows(rng.normal(size=n), rng.random(n) + 0.1)


class TestSizes:
    @given(st.integers(1, 200), st.floats(0.001, 1.0), st.integers(1, 3))
    @settings(max_examples=60, deadline=None)
    def test_sgb_is_exact(self, n, rate, n_values):
        rows = GradientRows(np.arange(n) % n_values + 1.0, np.ones(n))
        sample = SGB(rate).draw(rows, rows.context())
        k = max(1, round(rate * n))
        assert sample.summary.n_rows == k
        assert rows.weights.sum() == pytest.approx(n)

    @given(st.integers(2, 200), st.floats(0.0, 0.6), st.floats(0.01, 0.4), st.integers(1, 3))
    @settings(max_examples=60, deadline=None)
    def test_goss_is_exact_with_ties(self, n, top, other, n_values):
        g = np.arange(n) % n_values + 1.0
        rows = GradientRows(g, np.ones(n))
        sample = GOSS(top, other).draw(rows, rows.context())
        n_top, n_rest = min(round(top * n), n - 1), max(1, round(other * n))
        assert sample.summary.n_rows == min(n, n_top + n_rest)
        assert rows.weights.sum() == pytest.approx(n)
        if n_top:
            assert (rows.weights[g > np.sort(g)[-n_top]] == 1.0).all()

    @pytest.mark.parametrize("kind", [SGB, Bernoulli, PoissonBootstrap, MVS, ImportanceSampling])
    @pytest.mark.parametrize("number", [np.float16, np.float32])
    def test_rates_of_numpy_are_numbers(self, kind, number):
        g = np.ones(300)
        g[7] = 1e25  # so that a threshold is found by bisection
        rows = GradientRows(g, np.ones(300))
        drawn = []
        for rate in (number(0.5), 0.5):
            sample = kind(rate).draw(rows, rows.context())
            assert type(sample.rate) is float
            drawn.append(rows.weights.copy())
        np.testing.assert_array_equal(*drawn)

    def test_goss_keeps_the_largest_gradients(self):
        rows = random_rows()
        size = np.abs(rows.gradients()[0][0])
        GOSS(0.2, 0.1).draw(rows, rows.context())
        largest = np.argsort(size)[-200:]
        assert (rows.weights[largest] == 1.0).all()
        rest = np.delete(rows.weights, largest)
        assert set(rest.tolist()) == {0.0, 8.0}

    def test_goss_by_product_ranks_otherwise(self):
        rows = random_rows()
        g, h = rows.gradients()
        GOSS(0.2, 0.1, rank_by="product").draw(rows, rows.context())
        assert (rows.weights[np.argsort(np.abs(g[0] * h[0]))[-200:]] == 1.0).all()
        assert (rows.weights[np.argsort(np.abs(g[0]))[-200:]] != 1.0).any()

    def test_goss_warms_up_on_all_rows(self):
        rows = random_rows()
        sampler = GOSS(0.2, 0.1, warmup=2)
        drawn = [sampler.draw(rows, rows.context(0, i)).summary.n_rows for i in range(4)]
        assert drawn == [1000, 1000, 300, 300]

    def test_goss_that_takes_everything_weighs_nothing(self):
        rows = random_rows(10)
        sample = GOSS(0.6, 0.4).draw(rows, rows.context())
        assert sample.summary.n_certain == 10

    def test_poisson_bootstrap_weighs_whole_counts(self):
        rows = random_rows()
        PoissonBootstrap(0.5).draw(rows, rows.context())
        counts = rows.weights * 0.5
        assert np.array_equal(counts, np.rint(counts))
        shares = np.bincount(counts.astype(int), minlength=3)[:3] / 1000
        np.testing.assert_allclose(shares, [0.607, 0.303, 0.076], atol=0.05)

    def test_bayesian_bootstrap_weights_are_exponential(self):
        rows = random_rows(4000)
        BayesianBootstrap().draw(rows, rows.context())
        quantiles = np.quantile(rows.weights, [0.25, 0.5, 0.75])
        np.testing.assert_allclose(quantiles, -np.log([0.75, 0.5, 0.25]), rtol=0.1)


class TestEdges:
    @pytest.mark.parametrize("sampler", [MVS(1.0), SGB(1.0), Bernoulli(1), ImportanceSampling(1.0)])
    def test_rate_one_is_no_sampling(self, sampler):
        rows = random_rows()
        expected = NoSampling().draw(rows, rows.context())
        assert sampler.draw(rows, rows.context()).summary == expected.summary
        assert (rows.weights == 1.0).all()

    @pytest.mark.parametrize("sampler", [MVS(0.5, 0.1), MVS(0.5), ImportanceSampling(0.5)])
    def test_few_rows_with_a_gradient_are_all_taken(self, sampler):
        g = np.zeros(100)
        g[[3, 50, 51]] = [1.0, -2.0, 1e-20]
        rows = GradientRows(g, np.abs(g))
        sample = sampler.draw(rows, rows.context())
        assert np.array_equal(rows.weights, (g != 0).astype(float))
        assert (sample.mu, sample.summary.n_certain) == (0.0, 3)

    @pytest.mark.parametrize("name", SAMPLERS)
    def test_no_gradient_ends_training(self, name):
        rows = GradientRows(np.zeros(20), np.ones(20))
        with pytest.raises(ConvergenceStop, match="iteration 4"):
            make_sampler(name).draw(rows, rows.context(0, 4))

    def test_at_least_one_row_is_expected(self):
        rows = random_rows(50)
        drawn = [MVS(1e-6, 0.1).draw(rows, rows.context(0, i)).summary.n_rows for i in range(300)]
        assert min(drawn) >= 1
        assert np.mean(drawn) < 2.5

    def test_lambda_too_large_for_a_score_is_named(self):
        rows = random_rows(50)
        with pytest.raises(ParameterError, match="lam must be small enough"):
            MVS(0.5, 1e100).draw(rows, rows.context())

    @pytest.mark.parametrize("sampler", [GOSS(rank_by="product"), MVS(0.5, 0.1)])
    def test_gradients_too_large_for_a_score_are_named(self, sampler):
        rows = GradientRows(np.full((3, 20), 3e38), np.full((3, 20), 3e38))
        with pytest.raises(DataError, match="scale the target"):
            sampler.draw(rows, rows.context())

    @pytest.mark.parametrize(
        "sampler",
        [MVS(0.01, 0.1), ImportanceSampling(0.01), Bernoulli(0.01), PoissonBootstrap(0.01)],
    )
    def test_empty_draws_are_repeated(self, sampler):
        rows = random_rows(100)
        counts = []
        for iteration in range(100):
            counts.append(sampler.draw(rows, rows.context(0, iteration)).summary.n_rows)
            assert counts[-1] >= 1
        assert counts.count(1) > 30

    def test_after_too_many_empty_draws_the_largest_score_is_taken(self, monkeypatch):
        monkeypatch.setattr(base, "MAX_ATTEMPTS", 0)
        rows = random_rows(100)
        g, h = rows.gradients()
        MVS(0.01, 0.1).draw(rows, rows.context())
        assert np.flatnonzero(rows.weights).tolist() == [np.argmax(g[0] ** 2 + 0.1 * h[0] ** 2)]
        assert rows.weights.max() == 1.0

    @pytest.mark.parametrize("sampler", [Bernoulli(0.01), PoissonBootstrap(0.01)])
    def test_after_too_many_empty_draws_one_row_stands_for_all(self, sampler, monkeypatch):
        monkeypatch.setattr(base, "MAX_ATTEMPTS", 0)
        rows = random_rows(100)
        sample = sampler.draw(rows, rows.context())
        assert (sample.summary.n_rows, sample.summary.max_weight) == (1, 100.0)

    def test_one_huge_gradient_does_not_break_the_rest(self):
        g = np.random.default_rng(0).normal(size=1000)
        g[17] = 1e30
        rows = GradientRows(g, np.ones(1000))
        sample = MVS(0.2, 0.1).draw(rows, rows.context())
        assert 130 < sample.summary.n_rows < 270
        assert rows.weights[17] == 1.0

    def test_tiny_gradients_are_sampled_like_others(self):
        rows, tiny = random_rows(), random_rows()
        g, h = rows.gradients()
        factor = np.float32(2.0**-100)
        tiny = GradientRows(g * factor, h * factor)
        MVS(0.2).draw(rows, rows.context())
        MVS(0.2).draw(tiny, tiny.context())
        assert np.array_equal(rows.weights, tiny.weights)

    def test_iterations_and_seeds_draw_other_rows(self):
        rows = random_rows()
        seen = set()
        for seed, iteration in [(0, 0), (0, 1), (1, 0)]:
            MVS(0.2).draw(rows, rows.context(seed, iteration))
            seen.add(rows.weights.tobytes())
        assert len(seen) == 3


class TestParameters:
    @pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, np.nan, "0.5", None, True])
    @pytest.mark.parametrize("kind", [MVS, SGB, Bernoulli, ImportanceSampling, PoissonBootstrap])
    def test_rate_outside_its_range_is_named(self, kind, rate):
        with pytest.raises(ParameterError, match=r"rate must be in \(0, 1\]"):
            make_sampler(kind(rate=rate))

    @pytest.mark.parametrize(
        ("sampler", "message"),
        [
            (GOSS(-0.1, 0.1), "top_rate"),
            (GOSS(0.2, 0.0), "other_rate"),
            (GOSS(0.7, 0.4), "other_rate must be at most 1 - top_rate"),
            (GOSS(rank_by="hessian"), "rank_by must be 'gradient' or 'product'"),
            (GOSS(warmup=-1), "warmup"),
            (GOSS(warmup=1.5), "warmup"),
        ],
    )
    def test_wrong_parameters_are_named(self, sampler, message):
        with pytest.raises(ParameterError, match=message):
            make_sampler(sampler)

    @pytest.mark.parametrize("name", SAMPLERS)
    def test_names_make_samplers(self, name):
        sampler = make_sampler(name)
        assert isinstance(sampler, Sampler)
        sampler.validate()
        assert type(make_sampler(name.upper())) is type(sampler)

    def test_none_is_no_sampling(self):
        assert isinstance(make_sampler(None), NoSampling)

    def test_fixed_mvs_has_a_number(self):
        assert make_sampler("mvs-fixed").lam == 0.1

    @pytest.mark.parametrize("spec", ["gos", 3, object(), MVS, {"rate": 0.1}])
    def test_unknown_samplers_list_what_is_known(self, spec):
        with pytest.raises(ParameterError, match="sampler must be one of 'none', 'mvs'"):
            make_sampler(spec)

    @pytest.mark.parametrize("name", SAMPLERS)
    def test_parameters_survive_a_clone(self, name):
        sampler = make_sampler(name)
        assert clone(sampler).get_params() == sampler.get_params()

    def test_set_params(self):
        assert MVS().set_params(rate=0.7, lam=2.0).get_params()["rate"] == 0.7

    def test_base_draws_nothing(self):
        rows = random_rows(10)
        Sampler().validate()
        with pytest.raises(NotImplementedError, match="Sampler"):
            Sampler().draw(rows, rows.context())


class TestRecord:
    def test_record_of_a_draw(self):
        rows = random_rows()
        sample = MVS(0.2, 0.1).draw(rows, rows.context())
        record = sample.as_record()
        w = rows.weights[rows.weights > 0]
        assert record["rate"] == 0.2
        assert record["lam"] == 0.1
        assert record["mu"] == sample.mu > 0
        assert (record["rows"], record["certain"]) == (len(w), (w == 1.0).sum())
        assert record["max_weight"] == w.max()
        assert record["effective_sample_size"] == pytest.approx(w.sum() ** 2 / (w**2).sum())

    def test_no_threshold_no_lambda(self):
        rows = random_rows()
        record = SGB(0.2).draw(rows, rows.context()).as_record()
        assert np.isnan(record["mu"])
        assert np.isnan(record["lam"])

    def test_last_threshold_shortens_the_search_and_changes_nothing(self):
        rows = random_rows(5000)
        cold = MVS(0.5, 0.1).draw(rows, rows.context())
        weights = rows.weights
        warm = MVS(0.5, 0.1).draw(rows, rows.context(previous=cold))
        assert warm.passes < cold.passes
        assert (warm.mu, warm.summary) == (cold.mu, cold.summary)
        assert np.array_equal(weights, rows.weights)

    def test_context_defaults(self):
        context = SamplingContext(1, 2, 3, GradientRange(1.0, 1.0, 1.0, -1))
        assert (context.leaves, context.previous) == ((), None)
