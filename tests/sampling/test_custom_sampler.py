"""A user's own sampler, right and wrong."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from mvsboost.errors import ParameterError
from mvsboost.sampling import CustomSampler, WrappedSampler, base, make_sampler
from mvsboost.testing import GradientRows, SamplerConformance


class Uniform:
    def __init__(self, rate):
        self.rate = rate

    def probabilities(self, gradients, hessians, iteration):
        return np.full(gradients.shape[1], self.rate)


class ByGradient:
    def probabilities(self, gradients, hessians, iteration):
        size = np.sqrt((gradients.astype(float) ** 2).sum(axis=0))
        return np.clip(size / max(size.max(), 1e-300), 0.1, 1.0).tolist()


class Answers:
    """Says whatever it is told to say."""

    def __init__(self, answer):
        self.answer = answer

    def probabilities(self, gradients, hessians, iteration):
        return self.answer


class TestUniform(SamplerConformance):
    sampler = Uniform(0.3)


class TestByGradient(SamplerConformance):
    @pytest.fixture
    def sampler(self):
        return ByGradient()


def rows(n=5):
    return GradientRows(np.arange(1.0, n + 1), np.ones(n))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.full(4, 0.5), r"of shape \(5,\), one number a row, got \(4,\)"),
        (np.full((1, 5), 0.5), r"got \(1, 5\)"),
        (0.5, r"got \(\)"),
        ([0.5, 0.5, np.nan, 0.5, 0.5], r"\(row 2\), got nan"),
        ([0.5, np.inf, 0.5, 0.5, 0.5], r"\(row 1\), got inf"),
        ([0.5, 0.5, 0.5, 0.5, 1.01], r"in \(0, 1\] for every row \(row 4\), got 1.01"),
        ([-0.5, 0.5, 0.5, 0.5, 1.0], r"\(row 0\), got -0.5"),
        ([0.0, 0.5, 0.5, 0.5, 1.0], "positive where g or h is not zero"),
        (None, "Answers.probabilities"),
        (["a", "b", "c", "d", "e"], "an array of numbers"),
    ],
)
def test_wrong_probabilities_are_named(answer, message):
    data = rows()
    with pytest.raises(ParameterError, match=message) as caught:
        make_sampler(Answers(answer)).draw(data, data.context())
    assert "Answers.probabilities" in str(caught.value)


def test_rows_without_gradient_may_have_no_chance():
    data = GradientRows([0.0, 1.0, 2.0], [0.0, 1.0, 1.0])
    sample = make_sampler(Answers([0.0, 1.0, 1.0])).draw(data, data.context())
    assert data.weights.tolist() == [0.0, 1.0, 1.0]
    assert sample.rate == pytest.approx(2 / 3)


def test_gradients_cannot_be_changed():
    class Scribbler:
        def probabilities(self, gradients, hessians, iteration):
            gradients[:] = 0.0

    data = rows()
    with pytest.raises(ValueError, match="read-only"):
        make_sampler(Scribbler()).draw(data, data.context())


def test_what_the_sampler_is_given():
    class Recorder:
        def probabilities(self, gradients, hessians, iteration):
            self.seen = gradients.copy(), hessians.copy(), iteration
            return np.ones(gradients.shape[1])

    recorder = Recorder()
    data = GradientRows(np.array([[1, 2, 3], [4, 5, 6]]), np.ones((2, 3)))
    make_sampler(recorder).draw(data, data.context(0, 9))
    gradients, hessians, iteration = recorder.seen
    assert np.array_equal(gradients, [[1, 2, 3], [4, 5, 6]])
    assert hessians.shape == (2, 3)
    assert iteration == 9


def test_tiny_probabilities_end_in_the_likeliest_row():
    p = np.full(5, 1e-12)
    p[3] = 2e-12
    data = rows()
    sample = make_sampler(Answers(p)).draw(data, data.context())
    assert data.weights.tolist() == [0.0, 0.0, 0.0, 1.0, 0.0]
    assert sample.summary.n_rows == 1
    assert base.MAX_ATTEMPTS == 64


def test_wrapping():
    wrapped = make_sampler(Uniform(0.3))
    assert isinstance(wrapped, WrappedSampler)
    assert isinstance(Uniform(0.3), CustomSampler)
    assert make_sampler(wrapped) is wrapped
    assert clone(wrapped).custom.rate == 0.3
    assert wrapped.share == 1.0
    sparing = Uniform(0.3)
    sparing.share = 0.3
    assert make_sampler(sparing).share == 0.3


@pytest.mark.parametrize("spec", [Uniform, WrappedSampler(3), "uniform"])
def test_classes_and_strangers_are_refused(spec):
    with pytest.raises(ParameterError, match="probabilities"):
        make_sampler(spec)
