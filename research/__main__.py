"""The paper's experiments on real data: ``python -m research``, or ``make paper``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from functools import partial

from mvsboost.cli import run
from mvsboost.errors import DataError
from research.check import check_paper, format_checks
from research.command import run_paper

_FLAGS = {name: f"--{name}" for name in ("size", "only", "datasets", "jobs", "check")}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiments or check some of their fits; the exit code says how it ended."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _parser().parse_args(arguments)
    options.command_line = shlex.join(["python", "-m", "research", *arguments])
    if options.check is not None:
        return run("research", partial(_check, options), flags=_FLAGS)
    kept = "; what is done is kept, and the same command goes on from there"
    return run("research", partial(_paper, options), flags=_FLAGS, kept=kept)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="research", description=(__doc__ or "").split(":")[0])
    parser.add_argument(
        "--size",
        default="quick",
        metavar="SIZE",
        help="quick (minutes), standard (hours) or full (the paper's protocol, days)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="experiments: preparation, quality, rates, pace, splits, folds, time, trees, large, "
        "suite, theory, hosts, ablation (those of the size)",
    )
    parser.add_argument("--datasets", nargs="+", metavar="NAME", help="sets (those of the size)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (%(default)s)")
    parser.add_argument("--data", metavar="DIR", help="folder of the data ($MVSBOOST_DATA)")
    parser.add_argument(
        "--out", default="paper-results", metavar="DIR", help="folder for results (%(default)s)"
    )
    parser.add_argument(
        "--check",
        type=int,
        metavar="N",
        help="repeat N random fits of each set in the folder of results, and compare",
    )
    return parser


def _paper(options: argparse.Namespace) -> None:
    for path in run_paper(
        size=options.size,
        experiments=options.only,
        sets=options.datasets,
        jobs=options.jobs,
        data=options.data,
        out=options.out,
        command=options.command_line,
    ):
        print(path)


def _check(options: argparse.Namespace) -> None:
    checks = check_paper(
        options.check,
        sets=options.datasets,
        jobs=options.jobs,
        data=options.data,
        out=options.out,
    )
    print(format_checks(checks))
    if failed := sum(not check.same for check in checks):
        raise DataError(f"{failed} of {len(checks)} fits differ or could not be repeated")


if __name__ == "__main__":
    sys.exit(main())
