"""Whole models from backends that the loop does not make itself.

A fit takes no more threads than there are cores; a backend takes as many as it is told, so that
these tests have three and more on any machine.
"""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost.backends.composite import CompositeBackend
from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.boosting import train
from mvsboost.objectives import Absolute, CustomObjective, Logistic, Softmax, Squared
from mvsboost.sampling import GOSS, MVS, SGB, NoSampling, WrappedSampler


class Centred:
    """An objective whose gradients depend on all rows."""

    def gradients(self, target, scores):
        return scores - scores.mean() - (target - target.mean()), np.ones_like(scores)


CASES = {
    "all rows": ("logistic", Logistic(), NoSampling(), {}),
    "mvs": ("logistic", Logistic(), MVS(0.4), {}),
    "mvs, second look": ("logistic", Logistic(), MVS(0.4), {"second_look": 2}),
    "goss, depth-wise": ("squared", Squared(), GOSS(0.2, 0.2), {"max_leaves": None}),
    "sgb, second look, depth-wise": (
        "squared",
        Squared(),
        SGB(0.3),
        {"max_leaves": None, "max_depth": 4, "second_look": 1},
    ),
    "softmax": ("softmax", Softmax(3), MVS(0.4), {"colsample": 0.6, "second_look": 1}),
    "absolute": ("squared", Absolute(), MVS(0.4), {}),
    "sample leaves": ("logistic", Logistic(), MVS(0.4), {"leaf_values": "sample"}),
    "monotone": ("squared", Squared(), MVS(0.4), {"monotone": {0: 1, 1: -1}, "second_look": 2}),
    "a user's own": ("squared", CustomObjective(Centred()), NoSampling(), {}),
}


@pytest.mark.parametrize("n_threads", [3, 4])
@pytest.mark.parametrize("case", list(CASES))
def test_more_threads_than_cores_give_the_same_model(
    case, n_threads, make_data, make_config, model_bytes, sliced
):
    name, objective, sampler, options = CASES[case]
    data, config = make_data(name, 200), make_config(objective, sampler, **options)
    seen = train(data, config, backend=sliced(n_threads)).model
    expected = train(data, config, backend=ReferenceBackend).model
    assert any(tree.n_leaves > 1 for trees in expected.iterations for tree in trees)
    assert model_bytes(seen) == model_bytes(expected)


class NearlyOnlyTheFirst:
    """Draws the first hundred rows, and very few of the others."""

    def probabilities(self, gradients, hessians, iteration):
        return np.where(np.arange(gradients.shape[1]) < 100, 1.0, 1e-5)


def test_a_chunk_that_is_drawn_whole_beside_a_very_heavy_row(make_data, make_config, model_bytes):
    # under this seed one of the others is drawn, with a weight of 100,000
    config = make_config(sampler=WrappedSampler(NearlyOnlyTheFirst()), seed=274, n_estimators=1)

    def chunks(rows, objective):
        return CompositeBackend(
            [CPUBackend(rows.slice(*edges), objective) for edges in ((0, 100), (100, 300))]
        )

    models = [
        train(make_data("logistic"), config, backend=make).model
        for make in (ReferenceBackend, CPUBackend, chunks)
    ]
    assert models[0].iterations[0][0].n_leaves > 2
    assert len({model_bytes(model) for model in models}) == 1
