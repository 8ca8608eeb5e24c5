"""Which rows may I leave out, on my data? Samplers compared by cross-validation.

`compare` fits every method at every rate on every fold, keeps each fit, and ends with one sentence
and the estimator that does what it says.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import Any
from zlib import crc32

from mvsboost.comparison.fitting import Protocol, Rows, compile_kernels, fit_on_fold
from mvsboost.comparison.page import summary_html, write_results
from mvsboost.comparison.peers import check_peers
from mvsboost.comparison.plan import (
    RATES,
    Setting,
    check_rates,
    in_order_of_use,
    seconds_of,
    settings_of,
)
from mvsboost.comparison.statistics import Change, Verdict, changes_of, verdict_of
from mvsboost.comparison.store import Fit, Store
from mvsboost.comparison.tasks import Task, folds_of, task_of
from mvsboost.data import check_lengths, check_weight, ingest
from mvsboost.data.columns import CategoricalColumn
from mvsboost.errors import ParameterError
from mvsboost.exact.checksum import checksum
from mvsboost.parameters import check_parameters

__all__ = ["Comparison", "compare"]


def compare(
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    task: str = "auto",
    rates: Sequence[float] = RATES,
    folds: int = 5,
    budget: str | float | None = None,
    peers: Sequence[str] = (),
    out: str | PathLike[str] | None = None,
    n_estimators: int = 1000,
    early_stopping_rounds: int = 50,
    random_state: int = 0,
    progress: bool = True,
    command: str = "",
    **parameters: Any,
) -> Comparison:
    """Compare ways to choose rows on a table, by cross-validation.

    Parameters
    ----------
    X : table
        Anything that `fit` takes.
    y : array-like
    sample_weight : array of shape (n_rows,), optional
    task : {"auto", "classification", "regression"}
    rates : sequence of float
        Sample rates in (0, 1).
    folds : int
    budget : str or float, optional
        A time such as ``"10min"``. Fits that would not end in it are left out; those of most use
        come first.
    peers : sequence of {"LightGBM", "XGBoost", "CatBoost"}
        Libraries to have beside, with their defaults.
    out : path, optional
        Folder that keeps every fit, so that an interrupted run goes on, and gets a page.
    n_estimators, early_stopping_rounds : int
        Trees of a fit at most, and how many may pass without an improvement on an eighth of the
        training rows.
    random_state : int
    progress : bool
        Show what is done, and the time that is left.
    command : str
        What the page says it was made by.
    **parameters
        Of the estimators: ``learning_rate=0.05``, ``categorical_features=[...]``, ...

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> found = compare(X, y, rates=[0.3], folds=2, n_estimators=5, progress=False)
    >>> [change.setting.name for change in found.changes][:2]
    ['all rows', 'MVS at 0.3']
    """
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise ParameterError("folds", folds, "an integer >= 2")
    limit, rates, peers = seconds_of(budget), check_rates(rates), check_peers(peers)
    kind, target, classes = task_of(y, task)
    protocol = Protocol(kind, parameters, n_estimators, early_stopping_rounds)
    check_parameters(protocol.estimator().get_params(deep=False))  # before any work
    columns = ingest(X, categorical_features=parameters.get("categorical_features", "auto"))
    check_lengths(columns.n_rows, y=target)
    rows = Rows(columns, target, check_weight(sample_weight, columns.n_rows, "sample_weight"))
    run = _fingerprint(rows, protocol, folds, random_state)
    folder = None if out is None else Path(out)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    store = Store(None if folder is None else folder / "fits.jsonl", run)
    settings = settings_of(rates, peers)
    shape = columns.n_rows, columns.n_columns
    found = Comparison(protocol, settings, store, folds, *shape, classes, command)
    _run(found, rows, limit, random_state, progress)
    if folder is not None:
        found.paths = found.write(folder)
    return found


def _fingerprint(rows: Rows, protocol: Protocol, folds: int, seed: int) -> str:
    """What all fits of a run depend on, as a short text."""
    parameters = sorted(protocol.parameters.items())
    limits = protocol.n_estimators, protocol.patience, folds, seed
    check = crc32(repr((protocol.task.name, parameters, limits)).encode())
    for column in rows.columns.columns:
        if isinstance(column, CategoricalColumn):
            check = crc32(repr(column.categories).encode(), check)
        values = column.codes if isinstance(column, CategoricalColumn) else column.values
        check = checksum(values, before=check)
    return f"{checksum(rows.target, rows.weight, before=check):08x}"


def _run(found: Comparison, rows: Rows, limit: float, seed: int, progress: bool) -> None:
    """Fit what the store does not have, what is of most use first."""
    start, store = time.perf_counter(), found.store
    todo = [
        (fold, setting)
        for fold, setting in in_order_of_use(found.settings, found.folds)
        if not store.has(setting, fold)
    ]
    if not todo:
        return
    with _display(len(found.settings) * found.folds, len(store.fits), progress) as show:
        show("compiling", 0, None)
        compile_kernels(found.protocol, rows)
        splits = list(folds_of(found.protocol.task, rows.target, found.folds, seed))
        parts: tuple[int, tuple[Rows, Rows, Rows]] | None = None
        for done, (fold, setting) in enumerate(todo):
            left = _time_left(store.fits, todo[done:])
            spent = time.perf_counter() - start
            if store.fits and spent + _expected(store.fits, setting) > limit:
                continue
            if parts is None or parts[0] != fold:
                training, held, judged = map(rows.take, splits[fold])
                parts = fold, (training, held, judged)
            show(f"fold {fold + 1}, {setting.name}", 0, left)
            store.add(fit_on_fold(found.protocol, setting, fold, parts[1]))
            show("", 1, None)


def _expected(fits: Sequence[Fit], setting: Setting) -> float:
    """Seconds that a fit will take, by those before; 0 where nothing is known."""
    own = [fit.seconds for fit in fits if fit.setting == setting]
    return fmean(own or [fit.seconds for fit in fits] or [0.0])


def _time_left(fits: Sequence[Fit], todo: Sequence[tuple[int, Setting]]) -> float | None:
    return sum(_expected(fits, setting) for _, setting in todo) if fits else None


@contextmanager
def _display(
    total: int, done: int, progress: bool
) -> Iterator[Callable[[str, int, float | None], None]]:
    """A function that names the fit under way and the time left, or moves the bar on."""
    if not progress:
        yield lambda name, steps, left: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield _Lines(total, done)
        return
    shape = "{l_bar}{bar}| {n_fmt}/{total_fmt} fits{postfix}"
    with tqdm(total=total, initial=done, bar_format=shape, mininterval=0.2) as bar:

        def show(name: str, steps: int, left: float | None) -> None:
            if name:
                bar.set_description(f"{name:<32}")
            if left is not None:
                bar.set_postfix_str(_told(left))
            bar.update(steps)

        yield show


def _told(left: float) -> str:
    return f"{left / 60:.1f} min left" if left >= 90 else f"{left:.0f} s left"


class _Lines:
    """The display where tqdm is not installed: a line for each fit."""

    def __init__(self, total: int, done: int) -> None:
        self._total, self._done = total, done

    def __call__(self, name: str, steps: int, left: float | None) -> None:
        self._done += steps
        if name:
            rest = "" if left is None else f", {_told(left)}"
            print(f"{self._done}/{self._total} fits{rest}: {name}", file=sys.stderr)


@dataclass(eq=False)
class Comparison:
    """What was found.

    Attributes
    ----------
    protocol : Protocol
    settings : list of Setting
    store : Store
        Its ``fits`` are all that were done.
    folds, n_rows, n_columns : int
    classes : list
        Of the target; empty for numbers.
    command : str
        What the page says it was made by.
    paths : list of Path
        What was written.
    """

    protocol: Protocol
    settings: list[Setting]
    store: Store
    folds: int
    n_rows: int
    n_columns: int
    classes: list[Any]
    command: str = ""
    paths: list[Path] = field(default_factory=list)

    @property
    def task(self) -> Task:
        """Kind of the target."""
        return self.protocol.task

    @property
    def changes(self) -> list[Change]:
        """Each setting beside all rows, in the order of the plan."""
        by_setting: dict[Setting, dict[int, dict[str, float]]] = {s: {} for s in self.settings}
        for fit in self.store.fits:
            if fit.setting in by_setting:
                numbers = {n: float(getattr(fit, n)) for n in ("error", "seconds", "trees", "rows")}
                by_setting[fit.setting][fit.fold] = numbers
        return changes_of(by_setting)

    @property
    def verdict(self) -> Verdict:
        """The setting to take, and one sentence that says why."""
        return verdict_of(self.changes, self.task.measure)

    @property
    def sentence(self) -> str:
        """The answer."""
        return self.verdict.sentence

    @property
    def estimator(self) -> Any:
        """The estimator that does it, with the mean number of trees; not fitted."""
        setting = self.verdict.setting
        return self.protocol.estimator(**setting.parameters(), n_estimators=self._trees(setting))

    @property
    def code(self) -> str:
        """The same as code to paste."""
        setting = self.verdict.setting
        kind = "MVSClassifier" if self.task.is_classification else "MVSRegressor"
        own = [f"{name}={value!r}" for name, value in self.protocol.parameters.items()]
        inside = ", ".join([setting.code(), f"n_estimators={self._trees(setting)}", *own])
        names = [name for name in ("GOSS", "MVS", "SGB") if f"{name}(" in setting.code()]
        imports = ", ".join(sorted([kind, *names]))
        return f"from mvsboost import {imports}\n\nmodel = {kind}({inside})\n"

    def _trees(self, setting: Setting) -> int:
        trees = [change.trees for change in self.changes if change.setting == setting]
        return max(1, round(trees[0])) if trees else self.protocol.n_estimators

    def records(self) -> list[dict[str, Any]]:
        """One dictionary a setting; infinite intervals are None."""
        return [{"setting": c.setting.name, **_numbers_of(c)} for c in self.changes]

    def to_dataframe(self) -> Any:
        """One line a setting, as a pandas table."""
        import pandas as pd

        return pd.DataFrame(self.records())

    def write(self, folder: str | PathLike[str]) -> list[Path]:
        """Write ``index.html`` and ``results.csv`` into a folder; their paths."""
        return write_results(self, Path(folder))

    def _repr_html_(self) -> str:
        return summary_html(self)

    def __str__(self) -> str:
        lines = [
            _line("", ("error", "change", "95% interval", "speed", "seconds", "trees", "folds"))
        ]
        for c in self.changes:
            cells = (
                f"{c.error:.5f}",
                f"{c.change:+.2f}%",
                f"{c.low:+.2f} to {c.high:+.2f}" if math.isfinite(c.spread) else "–",
                f"{c.speed:.2f}×",
                f"{c.seconds:.2f}",
                f"{c.trees:.0f}",
                f"{c.folds}",
            )
            lines.append(_line(c.setting.name, cells))
        return "\n".join([*lines, "", self.sentence, "", self.code])


_WIDTHS = (9, 9, 16, 7, 8, 6, 6)


def _line(name: str, cells: Sequence[str]) -> str:
    inside = "".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True))
    return f"{name:<24}{inside}"


def _numbers_of(change: Change) -> dict[str, float | None]:
    names = ["error", "change", "low", "high", "speed", "seconds", "trees", "rows", "folds"]
    numbers = {name: float(getattr(change, name)) for name in names}
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}
