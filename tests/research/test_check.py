"""Repeating fits of a report, on a small set."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mvsboost.errors import DataError, ParameterError
from research import runner
from research.__main__ import main
from research.check import Checked, check_paper, format_checks
from research.engines import fit_and_judge
from research.sets import SETS
from research.sets.large import synthetic
from research.store import Store


def _cell(**changes):
    return {
        "engine": "mvsboost",
        "set": "small synthetic",
        "view": "native",
        "fold": -1,
        "folds": 5,
        "seed": 0,
        "sampler": {"name": "mvs", "rate": 0.2},
        "leaf_values": "all",
        "second_look": 0,
        "learning_rate": 0.3,
        "trees": 2,
        "patience": 2,
        "tree": dict(SETS["small synthetic"].tree),
        **changes,
    }


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Three fits of this library, one of another, and a race."""
    small = replace(SETS["small synthetic"], read=lambda folder: synthetic(400))
    monkeypatch.setitem(SETS, "small synthetic", small)
    with Store(tmp_path) as store:
        for seed in range(3):
            store.put(_cell(seed=seed), fit_and_judge(_cell(seed=seed), None))
        store.put(_cell(engine="lightgbm"), {"error": 0.0, "seconds": 1.0})
        store.put({"kind": "race", "contenders": {"one": _cell()}}, {"seconds": {"one": [1.0]}})
    return tmp_path


def _change_one(results):
    path = results / "cells.jsonl"
    lines = path.read_text().splitlines()
    record = json.loads(lines[1])
    record["result"]["error"] += 1e-12
    lines[1] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n")
    return record


def test_fits_are_what_the_records_say(results, capsys):
    checks = check_paper(9, out=results, progress=False)
    assert {check.record["cell"]["seed"] for check in checks} == {0, 1, 2}
    assert all(check.same for check in checks)
    assert main(["--check", "2", "--out", str(results)]) == 0
    assert capsys.readouterr().out == "small synthetic 2 of 2 fits the same\n"


def test_a_result_that_differs_is_shown(results, capsys):
    record = _change_one(results)
    assert main(["--check", "3", "--out", str(results)]) == 1
    out, error = capsys.readouterr()
    first, second = out.splitlines()
    assert first == "small synthetic 2 of 3 fits the same"
    changed = record["result"]["error"]
    assert second.startswith(f"  error {changed} in the records, {changed - 1e-12} here: ")
    assert '"seed": 1' in second
    assert "1 of 3 fits differ or could not be repeated" in error


def test_what_a_record_does_not_tell_is_no_difference():
    record = {"key": "k", "cell": {"set": "toy"}, "result": {"error": 0.5, "curve": [1, 2]}}
    assert Checked(record, {"error": 0.5, "curve": [1, 2], "trees": 7}).same
    assert Checked(record, {"error": 0.5}).differing == ["curve"]
    other = Checked(record, {"error": 0.5, "curve": [1, 3]})
    assert "curve not the same" in format_checks([other])


def test_more_fits_are_those_and_others(results):
    seeds = [
        {check.record["cell"]["seed"] for check in check_paper(n, out=results, progress=False)}
        for n in (1, 2)
    ]
    assert [len(some) for some in seeds] == [1, 2]
    assert seeds[0] < seeds[1]


def test_what_cannot_be_repeated_is_told_and_not_counted(results, monkeypatch):
    def fit_one(cell, folder):
        if cell["seed"] != 1:
            raise DataError("no file here")
        return fit_and_judge(cell, folder)

    monkeypatch.setitem(runner.KINDS, "fit", fit_one)
    checks = check_paper(3, out=results, progress=False)
    assert sum(check.same for check in checks) == 1
    assert format_checks(checks).splitlines() == [
        "small synthetic 1 of 1 fits the same",
        "  not repeated: no file here",
    ]


def test_nothing_is_written(results):
    before = (results / "cells.jsonl").read_bytes()
    check_paper(1, out=results, progress=False)
    assert (results / "cells.jsonl").read_bytes() == before
    assert [path.name for path in results.iterdir()] == ["cells.jsonl"]


def test_bad_requests_name_what_is_allowed(results, tmp_path, capsys):
    with pytest.raises(ParameterError, match="check"):
        check_paper(0, out=results)
    with pytest.raises(ParameterError, match="small synthetic"):
        check_paper(1, sets=["adult"], out=results)
    with pytest.raises(DataError, match="no results to check"):
        check_paper(1, out=tmp_path / "nothing")
    assert main(["--check", "0", "--out", str(results)]) == 2
    assert "--check" in capsys.readouterr().err
