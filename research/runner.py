"""Run the cells that are missing, in as many processes as asked for.

Cells that measure time run alone, in this process, after the others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from mvsboost.errors import DataError, ParameterError
from research.engines import fit_and_judge
from research.experiments import EXPERIMENTS
from research.levels import boost_by_levels
from research.plan import Cell, Plan
from research.race import race
from research.store import key_of, made_by
from research.theory import judge_samplers

__all__ = ["check_jobs", "missing_cells", "repeat_cells", "run_cells"]

KINDS: dict[str, Callable[[Cell, Path | None], dict[str, Any]]] = {
    "fit": fit_and_judge,
    "race": race,
    "theory": judge_samplers,
    "levels": boost_by_levels,
}
"""What is done with a cell, by its ``kind``, which is ``"fit"`` where none is named."""


def check_jobs(jobs: int) -> None:
    """Raise `ParameterError` unless there is a process at least."""
    if jobs < 1:
        raise ParameterError("jobs", jobs, "an integer >= 1")


def missing_cells(
    plan: Plan, experiments: Iterable[str], given_up: Container[str] = ()
) -> list[Cell]:
    """Cells that can be done now and are not, each once, but for those of some keys."""
    cells: dict[str, Cell] = {}
    for name in experiments:
        for cell in EXPERIMENTS[name].cells(plan):
            key = key_of(cell)
            if plan.store.get(cell) is None and key not in given_up:
                cells.setdefault(key, cell)
    return list(cells.values())


def run_cells(
    plan: Plan, experiments: Iterable[str], *, jobs: int = 1, progress: bool = True
) -> dict[str, DataError | ImportError]:
    """Do all that is missing, what depends on other cells after them.

    Returns why some cannot be done here, by their keys, or by the name of an experiment that
    cannot even be planned: data or a library is not there. The others are done all the same.

    Parameters
    ----------
    plan : Plan
        Its store must be open for writing: results are kept as they come.
    experiments : iterable of str
    jobs : int
        Processes; each trains with one thread.
    progress : bool
        Show a bar with the time left.
    """
    names = list(experiments)
    given_up: dict[str, DataError | ImportError] = {**_not_planned(plan, names)}
    names = [name for name in names if name not in given_up]
    with _workers(jobs) as submit, _bar(progress) as show:
        while cells := missing_cells(plan, names, given_up):
            show(0, len(cells))
            shared = sorted((cell for cell in cells if not cell.get("alone")), key=_rows_of)
            results = (
                _results(submit, shared, plan.folder, jobs)
                if shared
                else _results(_at_once, cells, plan.folder, jobs=1)
            )
            for cell, finished in results:
                try:
                    result, seconds = finished.result()
                except (DataError, ImportError) as error:
                    given_up[key_of(cell)] = error
                else:
                    plan.store.put(cell, result, took=round(seconds, 3), made_by=made_by(cell))
                show(1, 0)
            show(0, len(shared) - len(cells) if shared else 0)  # they are counted again
    return given_up


def repeat_cells(
    cells: Iterable[Cell], folder: Path | None, *, jobs: int = 1, progress: bool = True
) -> Iterator[tuple[Cell, Future[Any]]]:
    """Do cells whether they are done or not; each comes with its result and its seconds.

    Parameters
    ----------
    cells : iterable of Cell
    folder : path or None
        Of the data.
    jobs, progress
        See `run_cells`.
    """
    todo = sorted(cells, key=_rows_of)
    with _workers(jobs) as submit, _bar(progress) as show:
        show(0, len(todo))
        for done in _results(submit, todo, folder, jobs):
            show(1, 0)
            yield done


def _not_planned(plan: Plan, experiments: Iterable[str]) -> dict[str, DataError]:
    """Why some experiments cannot even say which cells they have."""
    reasons = {}
    for name in experiments:
        try:
            next(iter(EXPERIMENTS[name].cells(plan)), None)
        except DataError as error:
            reasons[name] = error
    return reasons


def _rows_of(cell: Cell) -> tuple[str, str, int]:
    """Cells of the same rows come together, so that these are read and binned once."""
    return cell["set"], cell.get("view", ""), cell.get("fold", -1)


def _timed(cell: Cell, folder: Path | None) -> tuple[dict[str, Any], float]:
    start = time.perf_counter()
    return KINDS[cell.get("kind", "fit")](cell, folder), time.perf_counter() - start


Submit = Callable[..., "Future[Any]"]


@contextmanager
def _workers(jobs: int) -> Iterator[Submit]:
    """How work is handed over: here and now, or to processes of their own."""
    if jobs == 1:
        yield _at_once
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent) as pool:
        try:
            yield pool.submit
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work, and keep its rows, for ever."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _at_once(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(function(*arguments))
    except Exception as error:
        future.set_exception(error)
    return future


def _results(
    submit: Submit, cells: list[Cell], folder: Path | None, jobs: int
) -> Iterator[tuple[Cell, Future[Any]]]:
    """Results as they come, failures last; no more than one cell waits for a process."""
    at_once = jobs + (jobs > 1)
    waiting: dict[Future[Any], Cell] = {}
    todo = iter(cells)
    while True:
        for cell in islice(todo, at_once - len(waiting)):
            waiting[submit(_timed, cell, folder)] = cell
        if not waiting:
            return
        finished = wait(waiting, return_when=FIRST_COMPLETED).done
        for future in sorted(finished, key=lambda one: one.exception() is not None):
            yield waiting.pop(future), future


@contextmanager
def _bar(progress: bool) -> Iterator[Callable[[int, int], None]]:
    """A function that moves the bar on, or makes it longer."""
    if not progress:
        yield lambda steps, more: None
        return
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("the progress bar needs tqdm: pip install tqdm") from error
    with tqdm(total=0, unit="cell", mininterval=0.5, smoothing=0.05) as bar:

        def show(steps: int, more: int) -> None:
            bar.total = (bar.total or 0) + more
            bar.update(steps)
            bar.refresh()

        yield show
