"""Files of older releases and of other machines."""

from __future__ import annotations

import json

import pytest

from mvsboost.estimators import load_estimator
from tests.model.golden import GOLDEN, READ_ONLY, paths, predictions


@pytest.mark.parametrize("name", [*GOLDEN, *READ_ONLY])
def test_a_kept_file_loads_and_predicts_as_ever(name):
    model, said = paths(name)
    assert predictions(load_estimator(model)) == json.loads(said.read_text())


@pytest.mark.parametrize("name", GOLDEN)
def test_training_gives_the_kept_file_again(name, tmp_path):
    kept = paths(name)[0]
    estimator = GOLDEN[name]()
    ours = estimator.model_.metadata
    theirs = load_estimator(kept).model_.metadata
    assert {**ours["parameters"], **theirs["parameters"]} == ours["parameters"]
    ours["parameters"] = theirs["parameters"]  # a release may have more of them
    estimator.save(tmp_path / "model.json")
    assert (tmp_path / "model.json").read_bytes() == kept.read_bytes()


@pytest.mark.parametrize("name", [*GOLDEN, *READ_ONLY])
def test_a_kept_file_is_written_again_byte_for_byte(name, tmp_path):
    kept = paths(name)[0]
    load_estimator(kept).save(tmp_path / "model.json")
    assert (tmp_path / "model.json").read_bytes() == kept.read_bytes()
