from __future__ import annotations

import pytest

from mvsboost.backends.composite import CompositeBackend
from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.protocol import GrowsWholeTrees
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.backends.timed import TimedBackend
from mvsboost.boosting import train
from mvsboost.objectives import Logistic


def test_a_timed_backend_is_the_backend_with_a_stopwatch(make_rows):
    backend = ReferenceBackend(make_rows(30, classes=2), Logistic())
    timed = TimedBackend(backend)
    assert timed.n_rows == 30
    assert timed.compute_gradients(2) == backend.compute_gradients(2)
    assert set(timed.seconds) == {"compute_gradients"}
    assert timed.seconds["compute_gradients"] > 0


def test_it_grows_whole_trees_exactly_if_the_backend_does(make_rows):
    rows = make_rows(30, classes=2)
    child = CPUBackend(rows, Logistic())
    assert isinstance(TimedBackend(child), GrowsWholeTrees)
    assert not isinstance(TimedBackend(CompositeBackend([child])), GrowsWholeTrees)


def test_time_counts_where_a_verb_fails(make_rows):
    timed = TimedBackend(ReferenceBackend(make_rows(30, classes=2), Logistic()))
    with pytest.raises(AttributeError):
        timed.histograms("nobody", [0], None)
    assert timed.seconds["histograms"] > 0


def test_training_reports_its_stages(make_data, make_config):
    objective = Logistic()
    result = train(make_data(objective.name, 60), make_config(objective))
    stages = {"compute_gradients", "draw", "begin_tree", "apply_tree", "evaluation"}
    assert stages <= set(result.stage_times)
