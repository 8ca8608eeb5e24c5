"""The public suites pass good subjects (see the samplers' own tests) and catch bad ones."""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost.backends.draws import SmallestKeys
from mvsboost.objectives import (
    Absolute,
    Logistic,
    Poisson,
    Quantile,
    Softmax,
    Squared,
    make_objective,
)
from mvsboost.sampling import SGB, Sample, Sampler
from mvsboost.testing import GradientRows, ObjectiveConformance, SamplerConformance


class TestBuiltinObjectives(ObjectiveConformance):
    @pytest.fixture(
        params=[Logistic(), Softmax(3), Squared(), Absolute(), Quantile(0.3), Poisson()],
        ids=lambda objective: objective.name,
    )
    def objective(self, request):
        return request.param


class LogCosh:
    name = "log-cosh"

    def gradients(self, target, scores):
        slope = np.tanh(scores - target)
        return slope, 1.0 - slope**2

    def loss(self, target, scores):
        return np.log(np.cosh(scores[0] - target))


class TestOwnObjective(ObjectiveConformance):
    objective = LogCosh()


class WithoutReweighting(Sampler):
    """Forgets the weights: biased."""

    def _draw(self, backend, context):
        cut = np.uint64(2**62)
        return Sample(backend.draw(SmallestKeys(np.uint64(context.iteration), cut, 1.0)), rate=0.25)


class FromAGlobalStream(Sampler):
    """Draws anew each time it is asked: cannot be replayed."""

    calls = 0

    def _draw(self, backend, context):
        type(self).calls += 1
        cut = np.uint64(2**62)
        return Sample(backend.draw(SmallestKeys(np.uint64(type(self).calls), cut, 4.0)), rate=0.25)


class Greedy(Sampler):
    """Draws twice as many rows as it says."""

    def _draw(self, backend, context):
        return Sample(SGB(0.5).draw(backend, context).summary, rate=0.25)


class Scribbler(Sampler):
    """Changes gradients in place."""

    def _draw(self, backend, context):
        backend.gradients()[0][:] *= 2.0
        return SGB(0.5).draw(backend, context)


suite = SamplerConformance()


def test_bias_is_caught():
    with pytest.raises(AssertionError, match="the mean of"):
        suite.test_sums_are_unbiased(WithoutReweighting())


def test_a_wrong_rate_is_caught():
    with pytest.raises(AssertionError):
        suite.test_rate_is_respected(Greedy())


def test_a_draw_that_cannot_be_replayed_is_caught():
    with pytest.raises(AssertionError):
        suite.test_sample_can_be_replayed(FromAGlobalStream())
    with pytest.raises(AssertionError):
        suite.test_copy_draws_the_same(FromAGlobalStream())
    with pytest.raises(AssertionError):
        suite.test_chunks_do_not_matter(FromAGlobalStream())


def test_an_empty_sample_is_caught():
    with pytest.raises(AssertionError):
        suite.test_sample_is_never_empty(WithoutReweighting())


def test_changed_gradients_are_caught():
    with pytest.raises(AssertionError):
        suite.test_gradients_are_left_alone(Scribbler())


class WrongSlope(LogCosh):
    def gradients(self, target, scores):
        slope, curvature = super().gradients(target, scores)
        return 2.0 * slope, curvature


class NegativeHessian(LogCosh):
    def gradients(self, target, scores):
        slope, curvature = super().gradients(target, scores)
        return slope, -curvature


class Centred(LogCosh):
    def gradients(self, target, scores):
        slope, curvature = super().gradients(target, scores)
        return slope - slope.mean(), curvature


@pytest.mark.parametrize(
    ("objective", "test"),
    [
        (WrongSlope(), "test_gradient_is_the_slope_of_the_loss"),
        (NegativeHessian(), "test_hessian_is_not_negative"),
        (Centred(), "test_rows_do_not_see_each_other"),
    ],
)
def test_wrong_objectives_are_caught(objective, test):
    with pytest.raises(AssertionError):
        getattr(ObjectiveConformance(), test)(make_objective(objective))


def test_skips_what_does_not_apply():
    class NoLoss:
        def gradients(self, target, scores):
            return scores - target, np.ones_like(scores)

    with pytest.raises(pytest.skip.Exception):
        ObjectiveConformance().test_gradient_is_the_slope_of_the_loss(make_objective(NoLoss()))
    other = SamplerConformance()
    other.scale_invariant = False
    with pytest.raises(pytest.skip.Exception):
        other.test_scale_does_not_matter(SGB(0.5))


def test_gradient_rows_know_their_gradients():
    rows = GradientRows([1.0, -3.0], [0.5, 0.25], offset=10)
    assert rows.gradient_range.max_gradient == 3.0
    assert rows.gradient_range.max_hessian == 0.5
    assert rows.rows.ids.tolist() == [10, 11]
    context = rows.context(4, 5)
    assert (context.seed, context.iteration, context.n_rows) == (4, 5, 2)
