"""What stands under the tables of an experiment."""

from __future__ import annotations

import mvsboost
from research.provenance import made_from
from research.store import Store


def _cell(**more):
    return {"set": "a", "engine": "mvsboost", "seed": 0, "fold": -1, **more}


def test_command_seeds_and_versions(tmp_path):
    guest = _cell(split=7, seed=7, engine="lightgbm")
    race = {"kind": "race", "contenders": {"x": _cell(seed=4), "y": guest}}
    cells = [_cell(seed=seed) for seed in (1, 2, 3)] + [_cell(fold=2), _cell(engine="lightgbm")]
    with Store(tmp_path) as store:
        store.put(cells[0], {})  # as earlier versions did
        store.put(race, {}, made_by={"code": "abc", "lightgbm": "4.7.0"})
        for cell in (*cells[1:4], _cell(seed=9)):  # the last is of another experiment
            store.put(cell, {}, made_by={"code": "abc"})
        store.put(cells[4], {}, made_by={"code": "abc", "lightgbm": "4.7.0"})
        store.put(old := _cell(seed=10), {}, made_by={"commit": "c0ffee"})
    missing = _cell(seed=8)
    assert made_from(store, [*cells, race, missing, cells[1], old], "do it") == (
        "do it  # seeds 0, 1, 2, 3, 4 and 10; fold 2, seed 0; random split 7, seed 7; "
        f"6 fits by mvsboost {mvsboost.__version__} "
        "(4 of code abc, 1 of a version not kept, 1 of commit c0ffee); 2 fits by lightgbm 4.7.0"
    )
