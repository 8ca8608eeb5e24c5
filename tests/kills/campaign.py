"""Processes killed while they write: the old file or the new one, whole, and work goes on.

    python tests/kills/campaign.py --kills 500 --seed 0 --jobs 2

A case is an operation and a moment. A forked process runs the operation and ends without a chance
to tidy: by SIGKILL before a chosen line of the code that writes or before a chosen change of a
folder; by SIGKILL after a random time; or by the system when a file grows beyond a random byte
(SIGXFSZ). What it leaves is checked. Then the operation runs again undisturbed, and must come to
what it comes to anyway, with nothing left of the other. The exit code is 1 if any case fails.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

import mvsboost
from mvsboost import Dataset, Model, MVSClassifier
from mvsboost.cli import main as command
from mvsboost.report import Section, Text, write_page
from mvsboost.tables import write_table

PATIENCE = 120.0  # seconds after which a process is taken to hang

Tree = dict[str, bytes]
"""Files of a folder, by their paths in it."""


def table(n: int = 500) -> dict[str, Any]:
    """Rows of numbers and categories, and a target."""
    rng = np.random.default_rng(0)
    X = {f"x{k}": rng.normal(size=n) for k in range(5)}
    X["kind"] = rng.choice(list("abcdef"), n)
    noisy = X["x0"] + np.abs(X["x1"]) + 0.5 * rng.normal(size=n)
    return {**X, "y": (noisy > 0.8).astype(np.int64)}


def features() -> dict[str, Any]:
    """The columns of the table but for the target."""
    return {name: column for name, column in table().items() if name != "y"}


def fitted(seed: int) -> MVSClassifier:
    """A small model."""
    made = MVSClassifier(n_estimators=20, max_leaves=15, random_state=seed, n_jobs=1)
    return made.fit(features(), table()["y"])


def tree_of(folder: Path) -> Tree:
    """All files of a folder."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


# --- operations -----------------------------------------------------------------------------------


class Operation:
    """What is killed: it makes one file of a folder, by default a new one of an old one.

    `inputs` has files that operations read.
    """

    out = "out"

    def __init__(self, inputs: Path) -> None:
        self.inputs = inputs

    def prepare(self, folder: Path) -> None:
        """The state before."""

    def run(self, folder: Path) -> None:
        """The operation."""
        raise NotImplementedError

    def content(self, folder: Path) -> Any:
        """What is in the place of the result; None where nothing is; raises where it is torn."""
        path = folder / self.out
        return path.read_bytes() if path.exists() else None

    def check(self, folder: Path, old: Any, new: Any) -> str:
        """What a kill has left: "old" or "new"."""
        found = self.content(folder)
        if found == new:
            return "new"
        assert found == old, "what is there is neither old nor new"
        return "old"

    def check_end(self, folder: Path, new: Any, names: set[str]) -> None:
        """What an undisturbed run comes to afterwards."""
        assert self.content(folder) == new, "the run after it came to something else"
        left = set(tree_of(folder)) ^ names
        assert not left, f"files left or missing: {sorted(left)}"
        empty = [p.name for p in folder.rglob("*") if p.is_dir() and not any(p.iterdir())]
        assert not empty, f"folders left: {empty}"


class Save(Operation):
    """`save` over an older model."""

    out = "model.json"

    def prepare(self, folder: Path) -> None:
        shutil.copy(self.inputs / "old.json", folder / "model.json")

    def run(self, folder: Path) -> None:
        MODELS["new"].save(folder / self.out)


class SaveNew(Save):
    """`save` where there is no file."""

    def prepare(self, folder: Path) -> None:
        pass


class SaveGzipped(Save):
    """`save` over an older model, gzipped."""

    out = "model.json.gz"

    def prepare(self, folder: Path) -> None:
        MODELS["old"].save(folder / self.out)


class Resumed(Operation):
    """A fit with a checkpoint, killed and resumed."""

    out = "model.json"

    def run(self, folder: Path) -> None:
        made = MVSClassifier(n_estimators=40, max_leaves=7, n_jobs=1)
        made.fit(features(), table()["y"], resume=folder / "checkpoint.json")
        made.save(folder / self.out)

    def content(self, folder: Path) -> Any:
        last = super().content(folder)
        try:
            trees = Model.load(folder / "checkpoint.json").to_dict()["iterations"]
        except FileNotFoundError:
            trees = []
        return trees, last

    def check(self, folder: Path, old: Any, new: Any) -> str:
        trees, last = self.content(folder)
        assert trees == new[0][: len(trees)], "the checkpoint has other trees"
        assert len(trees) % 10 == 0, "the checkpoint is of another iteration"
        assert last in (None, new[1]), "the model is neither old nor new"
        return "new" if last else f"{len(trees)} trees" if trees else "old"


class StoreNew(Operation):
    """The building of a store."""

    def run(self, folder: Path) -> None:
        self.build(folder, 255)

    def build(self, folder: Path, max_bins: int) -> None:
        Dataset.from_parquet(
            self.inputs / "table.parquet",
            "y",
            n_classes=2,
            max_bins=max_bins,
            store=folder / self.out,
            memory_limit="100MB",
            n_threads=1,
        )

    def content(self, folder: Path) -> Any:
        if not (folder / self.out).exists():
            return None
        data = Dataset.open(folder / self.out, n_threads=1)  # every byte is checked
        rows = data.rows
        columns = None if rows.columns is None else rows.columns.tobytes()
        return rows.bins.tobytes(), columns, rows.target.tobytes(), data.mapper.to_dict()


class StoreOver(StoreNew):
    """The building of a store in the place of another."""

    def prepare(self, folder: Path) -> None:
        self.build(folder, 16)


class StoreBack(StoreOver):
    """A store in the place of one that had taken the place of another."""

    def prepare(self, folder: Path) -> None:
        self.build(folder, 16)
        self.build(folder, 32)


class PredictFiles(Operation):
    """`predict_files` over older predictions."""

    out = "out.parquet"

    def prepare(self, folder: Path) -> None:
        write_table({"prediction": np.zeros(2000)}, os.fspath(folder / self.out))

    def run(self, folder: Path) -> None:
        MODELS["new"].predict_files(
            self.inputs / "table.parquet", folder / self.out, output="probabilities"
        )


class PredictFilesCsv(PredictFiles):
    """`predict_files` to CSV."""

    out = "out.csv"


class Command(PredictFiles):
    """A command over an older file."""

    out = "out.csv"
    arguments = ("predict", "TABLE", "--proba", "--model", "MODEL", "--out")

    def run(self, folder: Path) -> None:
        assert self.call(folder) == 0

    def call(self, folder: Path) -> int:
        places = {"TABLE": self.inputs / "table.csv", "MODEL": self.inputs / "new.json"}
        given = [os.fspath(places.get(word, word)) for word in self.arguments]
        return command([*given, os.fspath(folder / self.out)])


class PredictCommand(Command):
    """`mvsboost predict --out`, to Parquet."""

    out = "out.parquet"


class ExplainCommand(Command):
    """`mvsboost explain --out`."""

    out = "out.feather"
    arguments = ("explain", "TABLE", "--model", "MODEL", "--out")


class TrainCommand(Command):
    """`mvsboost train --model`."""

    out = "model.json"
    arguments = ("train", "TABLE", "--target", "y", "--set", "n_estimators=5", "--model")

    def prepare(self, folder: Path) -> None:
        shutil.copy(self.inputs / "old.json", folder / self.out)


class Page(Operation):
    """A report page over an older one."""

    out = "page.html"

    def prepare(self, folder: Path) -> None:
        write_page(folder / self.out, "old", [Section("old", [Text("old " * 50_000)])])

    def run(self, folder: Path) -> None:
        write_page(folder / self.out, "new", [Section("new", [Text("new " * 60_000)])])


class Compare(Command):
    """`mvsboost compare`, whose folder has results of another run."""

    def prepare(self, folder: Path) -> None:
        assert self.call(folder, 4) == 0

    def call(self, folder: Path, trees: int = 6) -> int:
        given = ["--target", "y", "--rates", "0.3", "--folds", "2", "--trees", str(trees), "--json"]
        path = os.fspath(self.inputs / "table.csv")
        return command(["compare", path, *given, "--out", os.fspath(folder)])

    def content(self, folder: Path) -> Any:
        """Kept fits, table and page, without times; the page as whether it is whole."""
        lines = (folder / "fits.jsonl").read_bytes().split(b"\n")
        fits, torn, text = [], 0, (folder / "results.csv").read_text()
        for line in filter(None, lines):
            try:
                fits.append(json.loads(line))
            except ValueError:
                torn += 1  # the run that goes on begins a new line
        assert torn <= 1, "lines are torn"
        for fit in fits:
            del fit["seconds"]
            fit["curve"] = [[row[0], row[2]] for row in fit["curve"]]
        assert text.endswith("\n"), "the table is torn"
        timed = ("seconds", "times as fast")
        rows = [
            {name: value for name, value in row.items() if name not in timed}
            for row in csv.DictReader(text.splitlines())
        ]
        page = (folder / "index.html").read_text()
        assert page.startswith("<!doctype html>"), "the page is torn"
        assert page.endswith("</body>\n</html>\n"), "the page is torn"
        return fits, rows

    def check(self, folder: Path, old: Any, new: Any) -> str:
        fits, rows = self.content(folder)
        assert len(fits) >= len(old[0]), "a fit was lost"
        assert fits == new[0][: len(fits)], "fits that are kept are others"
        assert rows in (old[1], new[1]), "the table is neither old nor new"
        if rows == new[1]:
            return "new"
        return f"{len(fits) - len(old[0])} fits" if len(fits) > len(old[0]) else "old"


OPERATIONS: dict[str, type[Operation]] = {
    "save": Save,
    "save where none was": SaveNew,
    "save gzipped": SaveGzipped,
    "checkpoint and resume": Resumed,
    "store": StoreNew,
    "store over a store": StoreOver,
    "store over the second": StoreBack,
    "predict_files": PredictFiles,
    "predict_files to CSV": PredictFilesCsv,
    "predict --out": Command,
    "predict --out to Parquet": PredictCommand,
    "explain --out": ExplainCommand,
    "train --model": TrainCommand,
    "report page": Page,
    "compare": Compare,
}

MODELS: dict[str, MVSClassifier] = {}


# --- moments --------------------------------------------------------------------------------------

_PACKAGE = os.path.dirname(os.path.abspath(mvsboost.__file__))
_WRITERS = {
    os.path.join(_PACKAGE, *name.split("/"))
    for name in (
        *("runtime/files.py", "model/files.py", "data/files.py", "data/store.py", "tables.py"),
        *("report.py", "comparison/store.py", "comparison/page.py"),
    )
} | {shutil.__file__}
_CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate"}


def watch(folder: Path, reached: Callable[[str], None]) -> None:
    """Call before each line of code that writes, and before each change of a folder."""
    inside = os.fspath(folder)

    def trace(frame: Any, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in _WRITERS:
            return None
        if event == "line":
            reached(f"{os.path.basename(name)}:{frame.f_lineno}")
        return trace

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event != "open" or arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event in _CHANGES and writes and str(arguments[0]).startswith(inside):
            reached(event)

    sys.addaudithook(audit)
    sys.settrace(trace)


def kill() -> None:
    """As from outside: nothing of this process runs any more."""
    os.kill(os.getpid(), signal.SIGKILL)


def at_place(folder: Path, place: str, times: int) -> None:
    """Die when a place is reached for so many times."""
    left = [times]

    def reached(here: str) -> None:
        if here == place:
            left[0] -= 1
            if not left[0]:
                kill()

    watch(folder, reached)


def at_byte(byte: int) -> None:
    """Die when a file is to have more bytes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (byte, byte))


def in_child(
    action: Callable[[], None], log: Path, after: float | None = None
) -> tuple[int, float]:
    """Run in a forked process, killed after some seconds; its exit code, and what it took.

    The code is negative for a signal.
    """
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pyarrow's threads are not forked
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            action()
            code = 0
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        spent = time.perf_counter() - start
        if ended:
            return os.waitstatus_to_exitcode(status), spent
        if spent > PATIENCE or (after is not None and spent >= after):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            assert spent <= PATIENCE, "the process hangs"
            return -signal.SIGKILL, spent
        time.sleep(0.0005)


# --- cases ----------------------------------------------------------------------------------------


@dataclass
class Known:
    """What is known of an operation that nothing disturbs."""

    operation: Operation
    before: Path
    old: Any
    new: Any
    names: set[str]
    seconds: float
    largest: int
    places: dict[str, tuple[int, int]]
    """How often each is reached before the first change, and in all."""


def learn(name: str, root: Path) -> Known:
    """Run an operation to see what it comes to, what it takes, and by which places it goes."""
    operation = OPERATIONS[name](root / "inputs")
    place = root / name.replace(" ", "-")
    before, after, log = place / "before", place / "after", place / "log"
    before.mkdir(parents=True)
    operation.prepare(before)
    old = None if not any(before.iterdir()) else operation.content(before)
    shutil.copytree(before, after)
    operation.run(after)  # in this process, so that forked ones have all that is compiled
    new = operation.content(after)
    assert new != old

    def again(action: Callable[[Path], None]) -> tuple[int, float]:
        shutil.rmtree(place / "again", ignore_errors=True)
        shutil.copytree(before, place / "again")
        return in_child(lambda: action(place / "again"), log)

    code, seconds = again(operation.run)
    assert code == 0, log.read_text()
    assert operation.content(place / "again") == new

    def count(folder: Path) -> None:
        seen: list[str] = []
        watch(folder, seen.append)
        operation.run(folder)
        sys.settrace(None)
        (place / "places").write_text("\n".join(seen))

    code, _ = again(count)
    assert code == 0, log.read_text()
    seen = (place / "places").read_text().split("\n")
    first = next(k for k, here in enumerate(seen) if here in _CHANGES)
    early, in_all = Counter(seen[:first]), Counter(seen)
    places = {here: (early[here], in_all[here]) for here in set(seen[first:])}
    files = tree_of(after)
    largest = max(len(content) for content in files.values())
    return Known(operation, before, old, new, set(files), seconds, largest, places)


def run_one(seed: int, number: int, known: dict[str, Known], folder: Path) -> tuple[str, str, str]:
    """Case number i: operation, place of death, and what was left."""
    rng = random.Random(seed * 2**40 + number)
    names = list(known)
    name = names[number % len(names)]
    case, operation, log = known[name], known[name].operation, folder / "log"
    work = folder / "work"
    for _ in range(20):  # a moment may lie after the end
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(case.before, work, symlinks=True)
        kind, after = rng.choice(["change", "change", "place", "place", "byte", "time"]), None
        arm: Callable[[], None] = lambda: None  # noqa: E731
        where = kind
        if kind in ("place", "change"):
            among = set(case.places) & _CHANGES if kind == "change" else case.places
            place = rng.choice(sorted(among))
            before, last = case.places[place]
            times, where = rng.randint(before + 1, last), f"place {place}"
            arm = lambda: at_place(work, place, times)  # noqa: E731, B023
        elif kind == "byte":
            byte = rng.randrange(case.largest)
            arm = lambda: at_byte(byte)  # noqa: E731, B023
        else:
            after = rng.random() * case.seconds

        def act() -> None:
            arm()  # noqa: B023
            operation.run(work)

        code, _ = in_child(act, log, after)
        if code in (-signal.SIGKILL, -signal.SIGXFSZ):
            break
        assert code == 0, log.read_text()[-600:]
    else:
        raise AssertionError("it could not be killed")
    try:
        left = operation.check(work, case.old, case.new)
        code, _ = in_child(lambda: operation.run(work), log)
        assert code == 0, f"the run after it failed: {log.read_text()[-600:]}"
        operation.check_end(work, case.new, case.names)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise AssertionError(f"{name}, killed at {where}: {said}") from error
    return name, where, left


def run_batch(seed: int, numbers: list[int], known: dict[str, Known], report: Any) -> None:
    """Cases one after the other, on one core."""
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            try:
                report.send((number, *run_one(seed, number, known, Path(folder))))
            except Exception as error:
                report.send((number, "", "", f"{type(error).__name__}: {error}"))
    report.send(None)


def one_core(number: int) -> None:
    """Keep to one core: then no operation starts threads, which a fork would not have."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {sorted(_CORES)[number % len(_CORES)]})


_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}


def make_inputs(inputs: Path) -> None:
    """Files that operations read, and models."""
    inputs.mkdir()
    write_table(table(), os.fspath(inputs / "table.parquet"))
    write_table(table(), os.fspath(inputs / "table.csv"))
    for seed, name in enumerate(("old", "new")):
        MODELS[name] = fitted(seed)
        MODELS[name].save(inputs / f"{name}.json")


def run(
    kills: int, seed: int, jobs: int, root: Path, chosen: list[str]
) -> tuple[list[tuple[str, ...]], list[str]]:
    """All cases: what was found, and failures."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    one_core(0)
    make_inputs(root / "inputs")
    with redirect_stdout(io.StringIO()):  # what commands print
        known = {name: learn(name, root) for name in chosen}
    context, found, failures = get_context("fork"), [], []
    pipes: list[Any] = []
    for job in range(jobs):
        ours, theirs = context.Pipe(duplex=False)
        numbers = list(range(job, kills, jobs))

        def work(job: int = job, numbers: list[int] = numbers, theirs: Any = theirs) -> None:
            one_core(job)
            run_batch(seed, numbers, known, theirs)

        context.Process(target=work, daemon=False).start()
        theirs.close()
        pipes.append(ours)
    while pipes:
        for pipe in wait(pipes):
            try:
                said = pipe.recv()
            except EOFError:
                said = None
                failures.append("a process of the campaign ended")
            if said is None:
                pipes.remove(pipe)
            elif said[1]:
                found.append(said[1:])
            else:
                failures.append(f"case {said[0]}: {said[3]}")
                print(failures[-1], flush=True)
    places = {(name, place) for name, one in known.items() for place in one.places}
    hit = {(name, where[6:]) for name, where, _ in found if where.startswith("place ")}
    print(f"{len(hit)} of {len(places)} places of {len(known)} operations were hit")
    return found, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        found, failures = run(options.kills, options.seed, options.jobs, root, options.only)
    for name in options.only:
        left = Counter(what for one, _, what in found if one == name)
        print(f"{name:<26}{sum(left.values()):>5} kills: {dict(sorted(left.items()))}")
    kinds = Counter(where.split()[0] for _, where, _ in found)
    minutes = (time.perf_counter() - start) / 60
    print(f"{len(found)} kills {dict(kinds)}, {len(failures)} failures, in {minutes:.1f} minutes")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
