"""Links: each direction undoes the other, and no input gives a non-finite score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvsboost.errors import DataError, ParameterError
from mvsboost.objectives import (
    IdentityLink,
    Link,
    LogitLink,
    LogLink,
    MultinomialLogit,
    link_by_name,
)


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=20))
@pytest.mark.parametrize("name", ["identity", "log", "logit"])
def test_score_to_mean_and_back(name: str, values: list[float]) -> None:
    link = link_by_name(name)
    scores = np.array([values])
    back = link.link(link.inverse(scores))
    # near p = 1 the float 1 - p has an error of 1e-16, which is e**F / 1e16 in the score
    tolerance = 1e-12 + 1e-15 * np.exp(np.maximum(scores, 0.0)) * (name == "logit")
    assert np.all(np.abs(back - scores) <= tolerance)


@given(st.lists(st.floats(0.001, 1.0), min_size=2, max_size=6))
def test_multinomial_round_trip(raw: list[float]) -> None:
    shares = np.array(raw) / np.sum(raw)
    link = MultinomialLogit()
    for p in (shares, shares[:, np.newaxis]):
        np.testing.assert_allclose(link.inverse(link.link(p)), p, rtol=1e-13)


def test_multinomial_of_two_is_logit_of_the_difference() -> None:
    scores = np.random.default_rng(0).normal(size=(2, 50))
    two = MultinomialLogit().inverse(scores)
    np.testing.assert_allclose(two[1], LogitLink().inverse(scores[1] - scores[0]), rtol=1e-13)
    np.testing.assert_allclose(two.sum(axis=0), 1.0, rtol=1e-14)


def test_multinomial_is_a_slice_for_a_slice() -> None:
    scores = np.random.default_rng(0).normal(size=(9, 40)) * 10
    whole = MultinomialLogit().inverse(scores)
    parts = [MultinomialLogit().inverse(scores[:, i : i + 7]) for i in range(0, 40, 7)]
    assert np.array_equal(whole, np.concatenate(parts, axis=1))


@pytest.mark.parametrize(("share", "score"), [(0.0, -34.53877639491), (1.0, 34.5387763949)])
def test_a_class_that_never_or_always_occurs_has_a_finite_score(share: float, score: float) -> None:
    assert LogitLink().link(np.array([share]))[0] == pytest.approx(score, rel=0.01)
    assert np.all(np.isfinite(MultinomialLogit().link(np.array([share, 1.0 - share]))))


def test_extreme_scores_stay_within_bounds() -> None:
    scores = np.array([[-1e6, 1e6]])
    assert np.all((LogitLink().inverse(scores) >= 0) & (LogitLink().inverse(scores) <= 1))
    assert np.all(np.isfinite(LogLink().inverse(scores)))
    assert MultinomialLogit().inverse(scores.T).ravel() == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize("mean", [0.0, -1.5, np.nan])
def test_a_mean_that_has_no_logarithm(mean: float) -> None:
    with pytest.raises(DataError, match=rf"positive for link 'log', got {mean}"):
        LogLink().link(np.array([mean]))


def test_by_name() -> None:
    for link in (IdentityLink(), LogLink(), LogitLink(), MultinomialLogit()):
        assert link_by_name(link.name) == link
        assert isinstance(link, Link)
    with pytest.raises(ParameterError, match=r"link must be one of 'identity', .*got 'probit'"):
        link_by_name("probit")
