"""The command line: what it prints, what it writes, how it ends."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mvsboost
from mvsboost.backends.cpu import compilation
from mvsboost.cli import main
from mvsboost.demo import DemoResult, Record

Output = pytest.CaptureFixture[str]


def test_version(capsys: Output) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"mvsboost {mvsboost.__version__}\n"


@pytest.mark.parametrize("arguments", [["dance"], [], ["demo", "--trees", "many"], ["info", "-x"]])
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


@pytest.mark.large
def test_a_quick_demo_prints_and_writes_its_results(tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / "results"
    assert main(["demo", "--quick", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "no sampling" in printed
    for name in ("table.csv", "figure.png", "index.html"):
        assert (out / name).stat().st_size > 0
        assert str(out / name) in printed
    assert len((out / "table.csv").read_text(encoding="utf-8").splitlines()) == 7
    page = (out / "index.html").read_text(encoding="utf-8")
    assert f"mvsboost demo --quick --out {out}" in page
    assert "3 trees" in page


@pytest.mark.large
def test_options_go_before_what_quick_sets(tmp_path: Path, capsys: Output) -> None:
    options = ["--quick", "--trees", "1", "--rates", "0.3", "0.5", "--seeds", "2"]
    assert main(["demo", *options, "--out", str(tmp_path)]) == 0
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "has 1 trees" in page
    assert "the mean of 2 seeds" in page
    assert len((tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()) == 12


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_a_console_cannot_show_is_replaced(
    stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any) -> DemoResult:
        print("− λ", file=sys.stderr)
        record = Record("λ = 0.1", 0.1, 0.08, 5.0, 0.3, 3256.0, 12.0)
        return DemoResult([record], Path("table"), Path("figure"), Path("page"))

    monkeypatch.setattr("mvsboost.demo.Demo.run", run)
    written = io.BytesIO()
    monkeypatch.setattr(sys, stream, io.TextIOWrapper(written, encoding="cp1252"))
    assert main(["demo", "--quick"]) == 0
    getattr(sys, stream).flush()
    expected = {"stdout": "1 ? AUC", "stderr": "? ?"}
    assert expected[stream] in written.getvalue().decode("cp1252")


def test_a_rate_that_is_none_ends_with_code_2(tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / "results"
    assert main(["demo", "--rates", "2", "--out", str(out)]) == 2
    assert "error: --rates must be numbers in (0, 1), got 2.0" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--trees", "0"], "--trees must be an integer >= 1, got 0"),
        (["demo", "--seeds", "0"], "--seeds must be an integer >= 1, got 0"),
    ],
)
def test_an_error_names_the_flag(
    arguments: list[str], message: str, tmp_path: Path, capsys: Output
) -> None:
    assert main([*arguments, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"mvsboost {arguments[0]}: error: {message}")


@pytest.mark.parametrize(
    ("command", "within"),
    [("demo", "mvsboost.demo.Demo.run"), ("info", "mvsboost.report.environment")],
)
def test_an_interrupt_ends_with_one_line(
    command: str, within: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(within, stop)
    assert main([command]) == 130
    assert capsys.readouterr() == ("", f"mvsboost {command}: interrupted\n")


def test_a_folder_that_cannot_be_made_ends_with_code_1(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(["demo", "--quick", "--out", str(tmp_path / "file")]) == 1
    assert "mvsboost demo: error:" in capsys.readouterr().err


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
