"""The command from end to end, on a small set and a small protocol."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from mvsboost.errors import DataError, ParameterError
from research import command, plan, runner
from research.__main__ import main
from research.command import run_paper
from research.engines import fit_and_judge
from research.experiments import EXPERIMENTS
from research.plan import METHODS, NO_SAMPLING, SIZES, Size, setting
from research.sets import LARGE_SETS, PAPER_SETS, SETS, Part, PreparedSet, SetInfo
from research.sets.base import split_at_random
from research.sets.large import synthetic
from research.summaries import change_of, paired_change

TINY = Size(
    effort=0,
    pace=0.6,
    seeds=2,
    folds=1,
    small_folds=1,
    rates=(0.3,),
    more_rates=(0.6,),
    lambdas=(0.1, 1.0),
    ratios=((1, 1), (1, 2)),
    looks=(1, 2),
    sets=("toy",),
)


def _toy(folder) -> PreparedSet:
    rng = np.random.default_rng(0)
    n = 400
    kind = np.array(list("abc"), object)[rng.integers(0, 3, n)]
    x = np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n))
    y = (np.nan_to_num(x) + (kind == "a") + rng.normal(size=n) > 0.5).astype(np.int64)
    return split_at_random("toy", Part({"kind": kind, "x": x}, y), ("kind",))


def _lines(folder) -> list[str]:
    return (folder / "cells.jsonl").read_text().splitlines()


@pytest.fixture
def toy(monkeypatch):
    tree = {
        "num_leaves": 4,
        "min_data_in_leaf": 5,
        "min_sum_hessian_in_leaf": 1e-3,
        "feature_fraction": 1.0,
        "lambda_l1": 0.0,
        "lambda_l2": 1.0,
    }
    info = SetInfo("Toy", _toy, paper_error=0.25, trees=4, learning_rate=0.3, tree=tree, small=True)
    monkeypatch.setitem(SETS, "toy", info)
    small = replace(LARGE_SETS["small synthetic"], read=lambda folder: synthetic(2000))
    monkeypatch.setitem(LARGE_SETS, "small synthetic", small)
    monkeypatch.setitem(SETS, "small synthetic", small)
    monkeypatch.setitem(SIZES, "tiny", TINY)


@pytest.fixture
def suite(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "data" / "suite"
    folder.mkdir(parents=True)
    (folder / "INDEX.csv").write_text("name\none\ntwo\n")
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        x = rng.normal(size=300)
        y = (x + rng.normal(size=300) > 0).astype(int)
        pq.write_table(
            pa.table({"x": x, "z": rng.normal(size=300), "target": y}), folder / f"{name}.parquet"
        )
    return folder.parent


@pytest.mark.usefixtures("toy")
@pytest.mark.large
def test_a_run_writes_a_page_and_does_nothing_twice(tmp_path, monkeypatch, suite):
    for library in ("lightgbm", "catboost", "xgboost"):
        pytest.importorskip(library)
    out = tmp_path / "out"
    monkeypatch.setitem(SIZES, "tiny", replace(TINY, folds=2, small_folds=2))
    files = run_paper(size="tiny", data=suite, out=out, progress=False)
    assert [file.name for file in files] == ["index.html", "paper.md"]
    text = (out / "paper.md").read_text()
    for name, experiment in EXPERIMENTS.items():
        assert f"## {experiment.title}" in text
        assert f"\npython -m research --size tiny --only {name}  # " in text
    for method in METHODS.values():
        assert f"| {method.title} |" in text
    assert "| MVS, paper |" in text
    assert "| Toy |" in text
    assert "| CatBoost, its MVS |" in text
    assert "| second look 8 |" in text
    assert (out / "figure1.png").stat().st_size > 1000
    before = (out / "cells.jsonl").read_bytes()
    cells = [json.loads(line)["cell"] for line in before.splitlines()]
    fits = [cell for cell in cells if "kind" not in cell]
    assert {cell["engine"] for cell in fits} == {"mvsboost", "lightgbm", "catboost", "xgboost"}
    assert {cell["fold"] for cell in fits} == {-1, 0, 1}
    assert {cell.get("kind", "fit") for cell in cells} == set(runner.KINDS)
    for kind in runner.KINDS:
        monkeypatch.setitem(runner.KINDS, kind, None)  # nothing is left to do
    run_paper(size="tiny", data=suite, out=out, progress=False)
    assert (out / "cells.jsonl").read_bytes() == before


@pytest.mark.usefixtures("toy")
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    done, fit = [], runner.KINDS["fit"]

    def fit_some(cell, folder):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(cell)
        return fit(cell, folder)

    monkeypatch.setitem(runner.KINDS, "fit", fit_some)
    with pytest.raises(KeyboardInterrupt):
        run_paper(size="tiny", experiments=["rates"], out=tmp_path, progress=False)
    assert len(_lines(tmp_path)) == 3
    monkeypatch.setitem(runner.KINDS, "fit", fit)
    run_paper(size="tiny", experiments=["rates"], out=tmp_path, progress=False)
    cells = [json.loads(line)["cell"] for line in _lines(tmp_path)]
    assert cells[:3] == done
    assert len({json.dumps(cell, sort_keys=True) for cell in cells}) == len(cells) > 3


@pytest.mark.large
@pytest.mark.parametrize("jobs", [1, 2])
def test_what_cannot_be_had_is_told_when_all_else_is_done(tmp_path, monkeypatch, jobs):
    monkeypatch.setitem(SIZES, "tiny", replace(TINY, pace=20.0, sets=("adult", "sba")))
    asked = {"size": "tiny", "data": tmp_path / "none", "out": tmp_path / "out", "jobs": jobs}
    with pytest.raises(DataError, match=r"INDEX\.csv .* All else is done") as failure:
        run_paper(experiments=["quality", "suite"], progress=False, **asked)
    assert str(failure.value).count("sba_loans.parquet is not in") == 1
    cells = [json.loads(line)["cell"] for line in _lines(tmp_path / "out")]
    assert {cell["set"] for cell in cells} == {"adult"}
    text = (tmp_path / "out" / "paper.md").read_text()
    header = next(line for line in text.splitlines() if line.startswith("|  | Adult |"))
    assert "SBA" not in header


def test_sets_that_are_named_leave_the_suite_out(tmp_path):
    made = plan.Plan(SIZES["standard"], ["adult"], command.Store(tmp_path), tmp_path)
    assert not list(EXPERIMENTS["suite"].cells(made))


@pytest.mark.large
def test_a_quick_run_from_the_command_line(tmp_path, capsys):
    """A cut of what `make paper` does: the package's own data, one experiment."""
    main(["--size", "quick", "--only", "rates", "--out", str(tmp_path)])
    assert capsys.readouterr().out.split() == [
        str(tmp_path / "index.html"),
        str(tmp_path / "paper.md"),
    ]
    rows = [line.split(" | ") for line in (tmp_path / "paper.md").read_text().splitlines()]
    changes = {row[0].strip("| "): row[1:] for row in rows if len(row) == 3}
    methods = ("SGB", "GOSS", "MVS", "MVS, second look")
    sgb, goss, mvs, second_look = (float(changes[name][0].split()[0]) for name in methods)
    assert mvs < min(sgb, goss)
    assert second_look < mvs


@pytest.mark.large
def test_processes_share_the_work(tmp_path, monkeypatch):
    pytest.importorskip("lightgbm")
    monkeypatch.setitem(SIZES, "tiny", replace(TINY, pace=1.0, sets=("adult",)))
    run_paper(size="tiny", experiments=["preparation"], jobs=2, out=tmp_path, progress=False)
    (record,) = map(json.loads, _lines(tmp_path))
    assert record["cell"]["engine"] == "lightgbm"
    assert 0.05 < record["result"]["error"] < 0.1


def test_processes_end_with_a_run_that_is_killed(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import os, sys, time\n"
        f"sys.path.insert(0, {str(Path(command.__file__).parents[1])!r})\n"
        "from research.runner import _workers\n"
        "if __name__ == '__main__':\n"
        "    with _workers(2) as submit:\n"
        "        print(submit(os.getppid).result(), flush=True)\n"
        "        time.sleep(600)\n"
    )
    run = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert int(run.stdout.readline()) == run.pid
    run.kill()
    # what it printed to is closed by the last process that holds it
    assert run.communicate(timeout=60) == ("", None)


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("view", ["native", "counters"])
def test_a_cell_may_split_its_set_anew(view, tmp_path):
    cell = plan.Plan(TINY, ["toy"], command.Store(tmp_path)).cell("toy", NO_SAMPLING, 0, view=view)
    losses = [fit_and_judge({**cell, **at})["log_loss"] for at in ({}, {"split": 0}, {"split": 1})]
    assert len(set(losses)) == 3
    assert fit_and_judge({**cell, "split": 1})["log_loss"] == losses[2]


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("lam", [0.1, "root"])
def test_lightgbm_grows_trees_on_rows_that_mvs_draws(lam, tmp_path):
    pytest.importorskip("lightgbm")
    made = plan.Plan(TINY, ["toy"], command.Store(tmp_path))
    mvs = setting({"name": "mvs", "rate": 0.5, "lam": lam})
    host = {"engine": "lightgbm", "view": "counters"}
    result = fit_and_judge(made.cell("toy", mvs, 0, **host))
    without = fit_and_judge(made.cell("toy", NO_SAMPLING, 0, **host))
    assert result["error"] == pytest.approx(without["error"], abs=0.08)
    with pytest.raises(ParameterError, match="counters"):
        fit_and_judge(made.cell("toy", mvs, 0, engine="lightgbm"))


@pytest.mark.usefixtures("toy")
def test_lightgbm_can_ask_for_drawn_rows_in_leaves(tmp_path):
    pytest.importorskip("lightgbm")
    made = plan.Plan(TINY, ["toy"], command.Store(tmp_path))

    def loss(least: int, **support: str) -> float:
        mvs = setting({"name": "mvs", "rate": 0.25, "lam": 0.1, **support})
        cell = made.cell("toy", mvs, 0, engine="lightgbm", view="counters")
        return fit_and_judge({**cell, "tree": {**cell["tree"], "min_data_in_leaf": least}})[
            "log_loss"
        ]

    assert loss(20, support="drawn") == loss(80) != loss(20)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": "huge"}, "quick, standard, full"),
        (
            {"experiments": ["quantity"]},
            "preparation, quality, rates, pace, splits, folds, time, trees, large",
        ),
        ({"sets": ["iris"]}, "adult, amazon"),
        ({"jobs": 0}, ">= 1"),
    ],
)
def test_what_is_not_known_is_refused(wrong, message, tmp_path):
    with pytest.raises(ParameterError, match=message):
        run_paper(out=tmp_path, progress=False, **wrong)


def test_a_higher_pace_keeps_the_product_of_trees_and_learning_rate(tmp_path):
    for name, info in PAPER_SETS.items():
        made = plan.Plan(SIZES["standard"], [name], command.Store(tmp_path))
        cell = made.cell(name, NO_SAMPLING, 0)
        assert cell["learning_rate"] == max(info.learning_rate, 0.02)
        assert cell["trees"] * cell["learning_rate"] == pytest.approx(
            info.trees * info.learning_rate, rel=0.01
        )


def test_changes_are_in_percent_of_the_mean_baseline():
    change = change_of([0.09, 0.11], [0.1, 0.1])
    assert change.mean == pytest.approx(0.0)
    assert change.deviation == pytest.approx(np.std([-10, 10], ddof=1))
    assert change.p_value == pytest.approx(1.0)
    assert np.isnan(change_of([0.1], [0.1]).p_value)
    assert change_of([0.08, 0.0801, 0.0799], [0.1, 0.1, 0.1]).p_value < 0.01


def test_splits_of_the_same_rows_are_not_independent():
    ratios = [0.97, 1.0, 0.98, 1.01, 0.96, 0.99]
    plain = paired_change(ratios, [1.0] * 6)
    shared = paired_change(ratios, [1.0] * 6, shared=0.25)
    assert plain.p_value == pytest.approx(ttest_1samp(np.array(ratios) - 1.0, 0.0).pvalue)
    t = abs(plain.mean) / (plain.deviation * np.sqrt(1 / 6 + 0.25))
    assert shared.p_value == pytest.approx(2 * student.sf(t, 5))
    assert shared.p_value > plain.p_value
    assert (shared.mean, shared.deviation) == (plain.mean, plain.deviation)
