"""Files from strangers are checked whole before anything follows what they say."""

from __future__ import annotations

import copy
import gzip
import json
import os
import random

import numpy as np
import pytest

from mvsboost.errors import ModelFormatError
from mvsboost.estimators import load_estimator
from mvsboost.model import Model, forest
from tests.model import mutations


@pytest.fixture(scope="module")
def states():
    return mutations.originals()


@pytest.fixture
def changed(states, tmp_path):
    """Loads a file after a change of the first model's state, or of another's."""

    def load(change, number=2):
        state = copy.deepcopy(states[number])
        state.pop("checksum")
        change(state)
        path = tmp_path / "model.json"
        path.write_text(json.dumps(state))
        return load_estimator(path)

    return load


def test_changed_files_are_refused_or_predict_one_thing(states, tmp_path, monkeypatch):
    monkeypatch.setattr(forest, "MASKED_ROWS", forest.MASKED_ROWS)  # the run changes it
    X = mutations.table()
    found = [
        mutations.run_one(7, number, states, tmp_path / "model.json", X) for number in range(600)
    ]
    assert {"refused", "loaded"} <= set(found)


def tree_of(state):
    return state["iterations"][0][0]


def of_sets(tree):
    return [node for node, row in enumerate(tree["categories"]) if row >= 0]


def set_node(name, value):
    return lambda state: tree_of(state)[name].__setitem__(0, value)


def wrap(state):
    tree_of(state)["left"][0], tree_of(state)["right"][0] = 2**31 - 1, -(2**31)


def share_children(state):
    tree = tree_of(state)
    one, other = [node for node, left in enumerate(tree["left"]) if left > 0][:2]
    for side in ("left", "right"):
        tree[side][other] = tree[side][one] = max(tree[side][one], tree[side][other])


def no_parent(state):
    for name, values in tree_of(state).items():
        if isinstance(values, list) and name != "category_sets":
            values += values[-2:]  # two more leaves


def share_a_set(state):
    tree = next(tree for trees in state["iterations"] for tree in trees if len(of_sets(tree)) > 1)
    one, other = of_sets(tree)[:2]
    tree["categories"][other] = tree["categories"][one]


DAMAGE = {
    "children that wrap in 32 bits": wrap,
    "children of two parents": share_children,
    "leaves without a parent": no_parent,
    "a set of two nodes": share_a_set,
    "a threshold beyond the bins": set_node("threshold", 255),
    "a negative threshold": set_node("threshold", -2),
    "a missing bin of another feature": set_node("missing_bin", 3),
    "a child that is no integer": set_node("left", 1.0),
    "a flag that is a number": set_node("missing_left", 1),
    "a value that is text": set_node("value", "0"),
    "a cover that is not finite": set_node("cover", 1e999),
    "a column that is not there": lambda state: state["mapper"]["features"][0].update(source=-1),
    "a column twice": lambda state: state["mapper"]["features"][1].update(source=0),
    "edges that fall": lambda state: state["mapper"]["features"][0]["edges"].reverse(),
    "too many edges": lambda state: state["mapper"]["features"][0].update(edges=list(range(300))),
    "other categories": lambda state: state["mapper"]["features"][1].update(n_categories=3),
    "a name twice": lambda state: state["schema"]["features"][0].update(name="kind"),
    "a category twice": lambda state: state["schema"]["features"][1].update(
        categories=["a", "a", *"bcdefg"]
    ),
    "labels of a huge type": lambda state: state["metadata"].update(classes_dtype="<U536870911"),
    "labels of no type": lambda state: state["metadata"].update(classes_dtype="{"),
    "a label twice": lambda state: state["metadata"].update(classes=["no", "no"]),
    "labels too many": lambda state: state["metadata"].update(classes=["a", "b", "c"]),
    "labels of another type": lambda state: state["metadata"].update(classes_dtype="<i8"),
    "an estimator that is a list": lambda state: state["metadata"].update(estimator=[]),
    "no labels": lambda state: state["metadata"].pop("classes"),
    "labels that are lists": lambda state: state["metadata"].update(classes=[["no"], ["yes"]]),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_damage_is_named(damage, changed):
    with pytest.raises(ModelFormatError, match=r"model\.json"):
        changed(DAMAGE[damage])


def test_what_is_not_changed_is_loaded(changed):
    for number in range(4):
        changed(lambda state: None, number)


# --- checksums ------------------------------------------------------------------------------------


def test_no_changed_bit_changes_a_prediction(states, tmp_path):
    path, state = tmp_path / "model.json", states[0]
    X, rng = mutations.table(), random.Random(0)
    path.write_text(json.dumps(state, separators=(",", ":")))
    expected, data = load_estimator(path).predict(X), path.read_bytes()
    for _ in range(300):
        other = bytearray(data)
        other[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(other)
        try:
            found = load_estimator(path)
        except ModelFormatError:
            continue
        assert np.array_equal(found.predict(X), expected)


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_the_same_in_other_words_has_the_same_checksum(suffix, states, tmp_path):
    path = tmp_path / f"model.{suffix}"
    written = json.dumps(states[0], indent=2, ensure_ascii=False).encode()
    path.write_bytes(gzip.compress(written) if suffix.endswith("gz") else written)
    Model.load(path)


def test_edited_on_purpose(states, tmp_path):
    path, state = tmp_path / "model.json", copy.deepcopy(states[0])
    state["baseline"] = [state["baseline"][0] + 1.0]
    path.write_text(json.dumps(state))
    with pytest.raises(ModelFormatError, match="remove 'checksum' from it"):
        Model.load(path)
    del state["checksum"]
    path.write_text(json.dumps(state))
    assert Model.load(path).baseline.tolist() == state["baseline"]


# --- files that have no end, or become too much ---------------------------------------------------


def test_what_is_no_file_is_not_read(tmp_path):
    with pytest.raises(ModelFormatError, match="no regular file"):
        Model.load("/dev/zero")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ModelFormatError, match="no regular file"):
        Model.load(pipe)


def test_little_that_becomes_much_is_refused(tmp_path):
    path = tmp_path / "model.json.gz"
    path.write_bytes(gzip.compress(b"[" + b"0," * 50_000_000 + b"0]", 1))
    with pytest.raises(ModelFormatError, match="become more than"):
        Model.load(path)
