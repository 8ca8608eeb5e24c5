"""The command line: what it prints, what it writes, how it ends."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mvsboost
from mvsboost.backends.cpu import compilation
from mvsboost.boosting import TrainConfig, train
from mvsboost.cli import main
from mvsboost.data import Dataset
from mvsboost.objectives import Squared
from mvsboost.sampling import MVS

Output = pytest.CaptureFixture[str]


def test_version(capsys: Output) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"mvsboost {mvsboost.__version__}\n"


@pytest.mark.parametrize("arguments", [["dance"], [], ["compare", "x.csv"], ["info", "-x"]])
def test_a_wrong_call_ends_with_code_2(arguments: list[str], capsys: Output) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage: mvsboost" in capsys.readouterr().err


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "mvsboost", "--version"]
    source = Path(mvsboost.__file__).parents[1]
    process = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
    assert process.stdout == f"mvsboost {mvsboost.__version__}\n"


def test_info_names_versions_cores_and_cache(capsys: Output) -> None:
    assert main(["info"]) == 0
    facts = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert facts["mvsboost"] == mvsboost.__version__
    assert {"python", "numpy", "numba", "scikit-learn", "cores", "kernels"} <= set(facts)
    assert str(compilation.cache_folder() or "NUMBA_DISABLE_JIT") in facts["cache"]


@pytest.mark.skipif(not compilation.jit_enabled(), reason="nothing is compiled")
def test_info_and_warmup_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setattr(compilation, "kernels_are_kept", lambda: False)
    monkeypatch.setattr("mvsboost.warmup.warm_up", lambda: 12.34)
    for command in ("info", "warmup"):
        assert main([command]) == 0
        assert "set NUMBA_CACHE_DIR" in capsys.readouterr().out


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "table.csv"
    lines = [
        f"{x:.3f},{c},{'yes' if x + (c == 'a') + e > 0.3 else 'no'},{w:.2f}"
        for x, c, e, w in zip(
            rng.normal(size=400),
            rng.choice(["a", "b", ""], 400),
            rng.normal(size=400) / 3,
            rng.random(400),
            strict=True,
        )
    ]
    path.write_text("\n".join(["x,c,y,w", *lines]))
    return path


def trained(csv: Path, *more: str) -> Path:
    model = csv.with_name("model.json")
    command = ["train", str(csv), "--target", "y", "--weight", "w", "--model", str(model), "--set"]
    assert main([*command, "n_estimators=5", *more]) == 0
    return model


def test_a_column_called_mean_is_explained_too(tmp_path: Path) -> None:
    x = np.arange(60.0)
    pd.DataFrame({"mean": x, "y": x % 7}).to_csv(tmp_path / "t.csv", index=False)
    model, out = str(tmp_path / "model.json"), str(tmp_path / "out.csv")
    table = str(tmp_path / "t.csv")
    command = ["train", table, "--target", "y", "--task", "regression", "--model", model]
    assert main([*command, "--set", "min_samples_leaf=1"]) == 0
    assert main(["explain", table, "--model", model, "--out", out]) == 0
    found = pd.read_csv(out)
    assert list(found) == ["mean", "mean_"]
    assert found["mean"].nunique() > 1
    assert found["mean_"].nunique() == 1


def test_train_predict_and_explain(csv: Path, tmp_path: Path, capsys: Output) -> None:
    model, out = trained(csv), tmp_path / "out.csv"
    assert "MVSClassifier" in capsys.readouterr().out
    assert main(["predict", str(csv), "--model", str(model), "--out", str(out)]) == 0
    table = pd.read_csv(csv)
    assert (pd.read_csv(out)["prediction"] == table["y"]).mean() > 0.8
    assert main(["predict", str(csv), "--model", str(model), "--proba", "--out", str(out)]) == 0
    assert list(pd.read_csv(out)) == ["p_no", "p_yes"]
    assert main(["predict", str(csv), "--model", str(model), "--raw", "--out", str(out)]) == 0
    scores = pd.read_csv(out)["score"]
    parquet = tmp_path / "out.parquet"
    assert main(["explain", str(csv), "--model", str(model), "--out", str(parquet)]) == 0
    contributions = pd.read_parquet(parquet)
    assert list(contributions) == ["x", "c", "mean"]
    np.testing.assert_allclose(contributions.sum(axis=1), scores, atol=1e-9)
    capsys.readouterr()
    assert main(["explain", str(csv), "--model", str(model), "--top", "1", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["x"]


def test_numbers_are_predicted_too(csv: Path, tmp_path: Path, capsys: Output) -> None:
    model = str(tmp_path / "m.json.gz")
    command = ["train", str(csv), "--target", "x", "--drop", "w", "--model", model, "--json"]
    assert main([*command, "--validation-fraction", "0.2", "--set", "learning_rate=0.3"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["estimator"] == "MVSRegressor"
    assert told["validation rmse"] > 0
    assert main(["info", model, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["names"] == ["c", "y"]
    assert facts["parameters"]["learning_rate"] == 0.3
    assert main(["predict", str(csv), "--model", model, "--proba"]) == 2
    assert "--proba must be left out" in capsys.readouterr().err


def test_quantiles_have_a_column_each(csv: Path, tmp_path: Path) -> None:
    model, out = str(tmp_path / "m.json"), tmp_path / "out.csv"
    command = ["train", str(csv), "--target", "x", "--drop", "w", "y", "--model", model]
    assert main([*command, "--set", "objective=quantile", "quantile=[0.1, 0.9]"]) == 0
    assert main(["predict", str(csv), "--model", model, "--out", str(out)]) == 0
    found = pd.read_csv(out)
    assert list(found) == ["q0.1", "q0.9"]
    assert (found["q0.1"] <= found["q0.9"]).all()
    assert main(["explain", str(csv), "--model", model, "--out", str(out)]) == 0
    assert list(pd.read_csv(out)) == ["q0.1: c", "q0.1: mean", "q0.9: c", "q0.9: mean"]


def test_help_shows_examples(capsys: Output) -> None:
    for command in ("train", "predict", "compare", "explain", "info"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"  mvsboost {command} " in capsys.readouterr().out


def test_a_file_of_no_estimator(tmp_path: Path, capsys: Output) -> None:
    data = Dataset.from_data(np.arange(60.0)[:, None], np.arange(60.0))
    train(data, TrainConfig(Squared(), MVS(0.5), n_estimators=1)).model.save(tmp_path / "m.json")
    assert main(["predict", "adult", "--model", str(tmp_path / "m.json")]) == 1
    assert "was not saved by an estimator" in capsys.readouterr().err


def test_pipes(csv: Path) -> None:
    model = trained(csv)
    command = [sys.executable, "-m", "mvsboost", "predict", "-", "--model", str(model)]
    source = Path(mvsboost.__file__).parents[1]
    done = subprocess.run(
        command, input=csv.read_bytes(), capture_output=True, cwd=source, check=True
    )
    assert done.stdout.splitlines()[0] == b'"prediction"'
    assert len(done.stdout.splitlines()) == 401


@pytest.mark.large
def test_compare_prints_and_writes_its_results(csv: Path, tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / "results"
    command = ["compare", str(csv), "--target", "y", "--drop", "w", "--out", str(out)]
    command += ["--rates", "0.3", "--folds", "2", "--trees", "5"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "all rows" in printed
    assert "model = MVSClassifier(" in printed
    for name in ("results.csv", "index.html"):
        assert str(out / name) in printed
    assert len(pd.read_csv(out / "results.csv")) == 5
    assert "mvsboost compare" in (out / "index.html").read_text(encoding="utf-8")
    assert main([*command, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["settings"]) == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rates", "2"], "--rates must be numbers in (0, 1), got 2.0"),
        (["--folds", "1"], "--folds must be an integer >= 2, got 1"),
        (["--budget", "soon"], "--budget must be a time such as"),
        (["--peers", "magic"], "--peers must be one of 'LightGBM'"),
        (["--target", "z"], "--target must be a column of the table: x, c, y, w, got 'z'"),
        (["--weight", "z"], "--weight must be a column of the table"),
        (["--task", "magic"], "--task must be 'auto'"),
        (["--set", "magic"], "--set must be of the form name=value"),
        (["--set", "learning_rate=0"], "learning_rate must be a number > 0, got 0"),
    ],
)
def test_an_error_names_the_flag(
    arguments: list[str], message: str, csv: Path, tmp_path: Path, capsys: Output
) -> None:
    out = tmp_path / "results"
    command = ["compare", str(csv), "--target", "y", "--out", str(out), *arguments]
    assert main(command) == 2
    assert f"mvsboost compare: error: {message}" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train", "nowhere.csv", "--target", "y"], 1, "there is no file 'nowhere.csv'"),
        (["train", "table.xlsx", "--target", "y"], 2, "DATA must be a file that ends in .csv"),
        (["predict", "adult", "--model", "nowhere.json"], 1, "nowhere.json"),
        (["info", "nowhere.json"], 1, "nowhere.json"),
        (
            ["train", "adult", "--target", "target", "--set", "num_leaves=7"],
            1,
            "called 'max_leaves'",
        ),
    ],
)
def test_errors_without_tracebacks(
    arguments: list[str], code: int, message: str, capsys: Output
) -> None:
    assert main(arguments) == code
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("command", "within", "kept"),
    [
        (["info"], "mvsboost.report.environment", ""),
        (
            ["compare", "adult", "--target", "target", "--out", "results"],
            "mvsboost.comparison.compare",
            "; all fits are kept, and the same command goes on",
        ),
    ],
)
def test_an_interrupt_ends_with_one_line(
    command: list[str], within: str, kept: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(within, stop)
    assert main(command) == 130
    assert capsys.readouterr() == ("", f"mvsboost {command[0]}: interrupted{kept}\n")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_a_console_cannot_show_is_replaced(
    stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def environment() -> dict[str, str]:
        print("− λ", file=sys.stderr)
        return {"1 − AUC": "λ"}

    monkeypatch.setattr("mvsboost.report.environment", environment)
    written = io.BytesIO()
    monkeypatch.setattr(sys, stream, io.TextIOWrapper(written, encoding="cp1252"))
    assert main(["info"]) == 0
    getattr(sys, stream).flush()
    expected = {"stdout": "1 ? AUC", "stderr": "? ?"}
    assert expected[stream] in written.getvalue().decode("cp1252")


def test_warmup_says_how_long_it_took(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setattr("mvsboost.warmup.warm_up", lambda: 12.34)
    monkeypatch.setattr(compilation, "jit_enabled", lambda: True)
    monkeypatch.setattr(compilation, "cache_folder", lambda: Path("somewhere"))
    for needed, verb in ((True, "compiled"), (False, "checked")):
        monkeypatch.setattr(compilation, "needs_compilation", lambda needed=needed: needed)
        assert main(["warmup"]) == 0
        assert capsys.readouterr().out == f"kernels {verb} in 12.3 s; they lie in somewhere\n"


def test_warmup_has_nothing_to_do_without_the_jit(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setattr(compilation, "jit_enabled", lambda: False)
    assert main(["warmup"]) == 0
    assert "nothing to compile" in capsys.readouterr().out
