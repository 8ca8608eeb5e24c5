"""MVS as other systems implement it: their thresholds, λ and scores."""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost.errors import ParameterError
from mvsboost.sampling import MVS, LeafSummary
from mvsboost.sampling.gradient_rows import GradientRows
from mvsboost.sampling.regularisation import LAMBDA_FLOOR
from mvsboost.testing import SamplerConformance
from research.engines import make_sampler
from research.variants import CatBoostLambda, CatBoostMVS, ForkMVS, as_in

G = np.array([1.0, -2.0, 0.5, 3.0])
H = np.array([1.0, 0.5, 2.0, 1.0])
LEAVES = [LeafSummary(np.array([1.0, -3.0]), np.ones(2), shrinkage=0.1)]


class TestCatBoost(SamplerConformance):
    sampler = CatBoostMVS(0.3, block=64)
    scale_invariant = False


class TestFork(SamplerConformance):
    sampler = ForkMVS(0.3)
    scale_invariant = False


@pytest.mark.parametrize("sampler", [CatBoostLambda(0.5), CatBoostMVS(0.5)])
def test_catboost_takes_shrunk_leaves_and_at_first_the_mean_norm(sampler):
    rows = GradientRows(G, H)
    assert sampler.draw(rows, rows.context(leaves=LEAVES)).lam == pytest.approx(0.2**2)
    assert sampler.draw(rows, rows.context()).lam == pytest.approx(np.abs(G).mean() ** 2)


def test_the_floor_is_in_units_of_what_lambda_is_added_to():
    rows = GradientRows([1.0, -1.0, 2.0, -2.0], np.full(4, 0.5))
    context = rows.context(leaves=[LeafSummary(np.zeros(2), np.ones(2))])
    assert CatBoostMVS(0.5).draw(rows, context).lam == pytest.approx(LAMBDA_FLOOR * 2.5)
    of_ours = CatBoostLambda(0.5).draw(rows, context).lam
    assert of_ours == pytest.approx(LAMBDA_FLOOR * 2.5 / 0.25)


def test_each_block_has_its_own_share():
    g = np.concatenate([np.full(500, 1.0), np.full(500, 100.0)])
    rows, counts = GradientRows(g, np.ones(1000)), []
    for iteration in range(50):
        ForkMVS(0.2, parts=2).draw(rows, rows.context(0, iteration))
        drawn = rows.weights > 0
        counts.append([drawn[:500].sum(), drawn[500:].sum()])
    np.testing.assert_allclose(np.mean(counts, axis=0), [100, 100], atol=5)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"name": "variant", "variant": "paper", "rate": 0.1}, MVS),
        ({"name": "variant", "variant": "xgboost", "rate": 0.1}, MVS),
        ({"name": "variant", "variant": "catboost", "rate": 0.1}, CatBoostMVS),
        ({"name": "variant", "variant": "fork", "rate": 0.1}, ForkMVS),
        ({"name": "mvs", "rate": 0.1, "lam": "catboost"}, CatBoostLambda),
        ({"name": "mvs", "rate": 0.1, "lam": "root"}, MVS),
    ],
)
def test_cells_name_their_sampler(settings, kind):
    sampler = make_sampler(settings)
    assert (type(sampler), sampler.rate) == (kind, 0.1)


def test_unknown_systems_list_what_is_known():
    with pytest.raises(ParameterError, match="'paper', 'catboost', 'xgboost', 'fork'"):
        as_in("lightgbm", 0.1)
