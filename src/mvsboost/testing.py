"""Tests that a sampler or an objective of one's own can inherit; they need pytest.

A subclass names its subject, as an attribute or as a fixture, and pytest finds the rest::

    from mvsboost.testing import SamplerConformance

    class TestMySampler(SamplerConformance):
        sampler = MySampler()

The samplers and objectives of this library pass the same suites.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from mvsboost.backends.composite import CompositeBackend
from mvsboost.exact.random import Purpose, stream_key, uniform
from mvsboost.objectives import Objective, make_objective
from mvsboost.sampling import Sample, SampledRows, Sampler, make_sampler
from mvsboost.sampling.gradient_rows import GradientRows

__all__ = ["GradientRows", "ObjectiveConformance", "SamplerConformance"]

_Z_LIMIT = 5.0
"""Standard errors that a mean may be off; an unbiased sampler is that far off once in 10**6."""


_FIXTURE_TYPES = (types.FunctionType, type(pytest.fixture(lambda: None)))


def _as_fixture(cls: type, name: str) -> None:
    """Make a plain attribute a fixture of the same name, so that tests can ask for either."""
    value = vars(cls).get(name)
    if value is not None and not isinstance(value, _FIXTURE_TYPES):

        def provide(self: object) -> Any:
            return value

        setattr(cls, name, pytest.fixture(name=name)(provide))


def _numbers(n: int, stream: int) -> NDArray[np.float64]:
    """Uniform numbers in (0, 1), the same on every machine."""
    key = stream_key(stream, 0, Purpose.VALIDATION)
    return np.maximum(uniform(key, np.arange(n, dtype=np.uint64)), 1e-9)


class SamplerConformance:
    """What every sampler must keep to.

    Attributes
    ----------
    sampler : object
        The subject: anything that `make_sampler` takes. A fixture of the name `sampler`
        does as well.
    n_rows, n_iterations : int
        Size of the problem, and draws over which means are taken.
    scale_invariant : bool
        Whether the same factor on all g and h must leave the sample as it is.
    expected_share : float or None
        Mean share of rows that are drawn, where it is not the sample's own `rate`.
    """

    sampler: Any = None
    n_rows: int = 300
    n_iterations: int = 200
    scale_invariant: bool = True
    expected_share: float | None = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        _as_fixture(cls, "sampler")

    @pytest.fixture
    def subject(self, sampler: Any) -> Sampler:
        """The sampler under test."""
        return make_sampler(sampler)

    def gradients(
        self, n_rows: int, n_outputs: int = 1
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Gradients of both signs over three orders of magnitude, and hessians in (0, 1)."""
        size = n_rows * n_outputs
        sign = np.where(_numbers(size, 1) < 0.6, 1.0, -1.0)
        g = sign * 10.0 ** (3.0 * _numbers(size, 2) - 2.0)
        return g.reshape(n_outputs, n_rows), _numbers(size, 3).reshape(n_outputs, n_rows)

    def draws(self, sampler: Sampler, rows: GradientRows) -> Iterator[Sample]:
        """One draw for each iteration, each told of the one before."""
        sample = None
        for iteration in range(self.n_iterations):
            sample = sampler.draw(rows, rows.context(7, iteration, previous=sample))
            yield sample

    def test_sums_are_unbiased(self, subject: Sampler) -> None:
        """E[Σ w g] = Σ g and E[Σ w h] = Σ h over a fixed subset of the rows."""
        g, h = self.gradients(self.n_rows)
        rows = GradientRows(g, h)
        subset = np.arange(self.n_rows) % 3 == 0
        weights = np.array([rows.weights for _ in self.draws(subject, rows)])[:, subset]
        for name, values in (("Σ w g", g[0, subset]), ("Σ w h", h[0, subset])):
            estimates = weights @ values
            error = abs(estimates.mean() - values.sum())
            noise = estimates.std(ddof=1) / np.sqrt(len(estimates))
            allowed = _Z_LIMIT * noise + 1e-6 * np.abs(values).sum()
            assert error <= allowed, (
                f"the mean of {name} is off by {error:.3g}, {_Z_LIMIT} errors are {allowed:.3g}"
            )

    def test_rate_is_respected(self, subject: Sampler) -> None:
        """The mean number of drawn rows is the rate's share of all."""
        rows = GradientRows(*self.gradients(self.n_rows))
        samples = list(self.draws(subject, rows))
        counts = np.array([sample.summary.n_rows for sample in samples], float)
        shares = [sample.rate for sample in samples]
        share = float(np.mean(shares)) if self.expected_share is None else self.expected_share
        noise = counts.std(ddof=1) / np.sqrt(len(counts))
        # a fixed-size sampler may round each of two parts
        assert abs(counts.mean() - share * self.n_rows) <= _Z_LIMIT * noise + 1.0

    def test_weights_are_finite_and_agree_with_the_summary(self, subject: Sampler) -> None:
        """No weight is negative, infinite or NaN, with one output and with several."""
        for n_outputs in (1, 3):
            rows = GradientRows(*self.gradients(self.n_rows, n_outputs))
            sample = subject.draw(rows, rows.context())
            weights = rows.weights
            assert np.isfinite(weights).all()
            assert (weights >= 0.0).all()
            assert sample.summary.n_rows == (weights > 0.0).sum()
            assert sample.summary.max_weight == weights.max()
            assert 0.0 < sample.effective_sample_size <= sample.summary.n_rows * (1 + 1e-12)

    def test_sample_is_never_empty(self, subject: Sampler) -> None:
        """However few rows there are, one of them is drawn."""
        for n_rows in (1, 2, 3, 7):
            rows = GradientRows(*self.gradients(n_rows))
            for iteration in range(20):
                assert subject.draw(rows, rows.context(3, iteration)).summary.n_rows > 0

    def test_rows_without_gradient_do_no_harm(self, subject: Sampler) -> None:
        """Rows with g = h = 0 are allowed; sums stay those of the others."""
        g, h = self.gradients(self.n_rows)
        g[:, ::2] = h[:, ::2] = 0.0
        rows = GradientRows(g, h)
        sample = subject.draw(rows, rows.context())
        assert np.isfinite(rows.weights).all()
        assert sample.summary.n_rows > 0

    def test_sample_can_be_replayed(self, subject: Sampler) -> None:
        """The same seed and iteration give the same sample, whatever came before."""
        rows = GradientRows(*self.gradients(self.n_rows))
        first = subject.draw(rows, rows.context(5, 3))
        weights = rows.weights
        later = subject.draw(rows, rows.context(5, 4))
        again = subject.draw(rows, rows.context(5, 3, previous=later))
        assert np.array_equal(weights, rows.weights)
        assert first.summary == again.summary

    def test_chunks_do_not_matter(self, subject: Sampler) -> None:
        """Rows in two parts are drawn as the same rows in one."""
        g, h = self.gradients(self.n_rows)
        whole = GradientRows(g, h)
        cut = self.n_rows // 3
        parts = [GradientRows(g[:, :cut], h[:, :cut]), GradientRows(g[:, cut:], h[:, cut:], cut)]
        together: SampledRows = CompositeBackend(parts)
        for iteration in range(5):
            context = whole.context(11, iteration)
            one, two = subject.draw(whole, context), subject.draw(together, context)
            assert np.array_equal(whole.weights, np.concatenate([p.weights for p in parts]))
            assert np.array_equal([one.mu, one.lam], [two.mu, two.lam], equal_nan=True)

    def test_scale_does_not_matter(self, subject: Sampler) -> None:
        """A common factor of all g and h leaves the sample as it is."""
        if not self.scale_invariant:
            pytest.skip("scale_invariant is False")
        g, h = self.gradients(self.n_rows)
        rows, scaled = GradientRows(g, h), GradientRows(64.0 * g, 64.0 * h)
        subject.draw(rows, rows.context())
        subject.draw(scaled, scaled.context())
        assert np.array_equal(rows.weights, scaled.weights)

    def test_gradients_are_left_alone(self, subject: Sampler) -> None:
        """A sampler weighs rows; it does not change what they say."""
        rows = GradientRows(*self.gradients(self.n_rows))
        before = [array.copy() for array in rows.gradients()]
        subject.draw(rows, rows.context())
        assert all(np.array_equal(*pair) for pair in zip(before, rows.gradients(), strict=True))

    def test_copy_draws_the_same(self, subject: Sampler) -> None:
        """`sklearn.clone` gives a sampler of the same parameters and the same draws."""
        rows = GradientRows(*self.gradients(self.n_rows))
        copy = clone(subject)
        subject.draw(rows, rows.context())
        weights = rows.weights
        copy.draw(rows, rows.context())
        assert np.array_equal(weights, rows.weights)


class ObjectiveConformance:
    """What every objective must keep to.

    Attributes
    ----------
    objective : object
        The subject: anything that `make_objective` takes. A fixture of the name
        `objective` does as well.
    n_rows : int
        Size of the problem.
    step : float
        Half the step of finite differences.
    """

    objective: Any = None
    n_rows: int = 60
    step: float = 1e-5

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        _as_fixture(cls, "objective")

    @pytest.fixture
    def subject(self, objective: Any) -> Objective:
        """The objective under test."""
        return make_objective(objective)

    def targets(self, subject: Objective) -> NDArray[np.float64]:
        """Targets (n,): class codes for a classifier, otherwise whole numbers from 0 to 4."""
        n_values = max(subject.n_outputs, 2) if subject.is_classifier else 5
        return np.floor(_numbers(self.n_rows, 4) * n_values)

    def scores(self, subject: Objective) -> NDArray[np.float64]:
        """Raw scores (n_outputs, n) between -3 and 3."""
        size = subject.n_outputs * self.n_rows
        return (6.0 * _numbers(size, 5) - 3.0).reshape(subject.n_outputs, self.n_rows)

    def test_gradients_have_the_right_shape_and_are_finite(self, subject: Objective) -> None:
        """Derivatives are finite arrays of shape (n_outputs, n)."""
        target, scores = self.targets(subject), self.scores(subject)
        for values in subject.gradients(target, scores):
            assert np.shape(values) == scores.shape
            assert np.isfinite(values).all()

    def test_hessian_is_not_negative(self, subject: Objective) -> None:
        """A negative h would send leaf values the wrong way."""
        _, h = subject.gradients(self.targets(subject), self.scores(subject))
        assert (h >= 0.0).all()
        assert (h > 0.0).any()

    def test_gradient_is_the_slope_of_the_loss(self, subject: Objective) -> None:
        """The gradient agrees with central differences of `loss`, where there is one."""
        if not subject.has_loss:
            pytest.skip("the objective has no loss")
        target, scores = self.targets(subject), self.scores(subject)
        g, _ = subject.gradients(target, scores)
        for k in range(subject.n_outputs):
            above, below = scores.copy(), scores.copy()
            above[k] += self.step
            below[k] -= self.step
            rise = subject.loss(target, above) - subject.loss(target, below)
            np.testing.assert_allclose(g[k], rise / (2.0 * self.step), rtol=1e-5, atol=1e-6)

    def test_rows_do_not_see_each_other(self, subject: Objective) -> None:
        """A slice of the rows gives a slice of the derivatives, bit for bit."""
        target, scores = self.targets(subject), self.scores(subject)
        part = slice(7, 31)
        whole = subject.gradients(target, scores)
        alone = subject.gradients(target[part], scores[:, part])
        for one, other in zip(whole, alone, strict=True):
            assert np.array_equal(one[:, part], other)

    def test_predictions_are_in_range(self, subject: Objective) -> None:
        """The inverse link is finite even for large scores; a class's share is in [0, 1]."""
        scores = np.hstack([self.scores(subject), 100.0 * self.scores(subject)])
        predictions = np.asarray(subject.link.inverse(scores))
        assert predictions.shape == scores.shape
        assert np.isfinite(predictions).all()
        if subject.is_classifier:
            assert (predictions >= 0.0).all()
            assert (predictions <= 1.0).all()

    def test_link_undoes_its_inverse(self, subject: Objective) -> None:
        """Predictions come back from their scores."""
        predictions = subject.link.inverse(self.scores(subject))
        back = subject.link.inverse(subject.link.link(predictions))
        np.testing.assert_allclose(back, predictions, rtol=1e-9)

    def test_baseline_is_one_finite_number_an_output(self, subject: Objective) -> None:
        """Training starts from a finite score."""
        target = self.targets(subject)
        means = np.array([target.mean()])
        if subject.n_outputs > 1:
            means = np.array([(target == k).mean() for k in range(subject.n_outputs)])
        baseline = subject.baseline(means, lambda alpha: float(np.quantile(target, alpha)))
        assert np.shape(baseline) == (subject.n_outputs,)
        assert np.isfinite(baseline).all()
