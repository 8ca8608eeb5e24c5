"""The command line: ``mvsboost demo``, ``warmup`` and ``info``."""

from __future__ import annotations

import argparse
import io
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mvsboost import __version__
from mvsboost.errors import MVSBoostError, ParameterError

__all__ = ["main", "run"]

_QUICK: dict[str, Any] = {"n_rows": 2000, "n_trees": 3, "n_seeds": 1, "rates": (0.2,)}

_FLAGS = {"demo": {"n_trees": "--trees", "n_seeds": "--seeds", "rates": "--rates"}}
"""What the parameters that an error can name are called on the command line."""

_NOWHERE = "no folder (none can be written to: set NUMBA_CACHE_DIR)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code says how it ended.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _parser().parse_args(arguments)
    options.command_line = shlex.join(["mvsboost", *arguments])
    command = options.command
    return run(
        f"mvsboost {command}", partial(_COMMANDS[command], options), flags=_FLAGS.get(command, {})
    )


def run(
    program: str, action: Callable[[], None], *, flags: Mapping[str, str], kept: str = ""
) -> int:
    """Run what a command does; its errors become one line and an exit code.

    That is 0, 1 where the command failed, 2 where it was called wrongly, or 130 where it was
    interrupted.

    Parameters
    ----------
    program : str
        What was called.
    action : callable
    flags : mapping from parameter to flag
        What the parameters that an error can name are called on the command line.
    kept : str
        Said where it is interrupted.
    """

    def end(message: str, code: int) -> int:
        print(f"{program}: {message}", file=sys.stderr)
        return code

    _replace_what_cannot_be_shown()
    try:
        action()
    except ParameterError as error:
        flag = flags.get(error.parameter, error.parameter)
        return end(f"error: {ParameterError(flag, error.value, error.allowed)}", 2)
    except (MVSBoostError, ImportError, OSError) as error:
        return end(f"error: {error}", 1)
    except KeyboardInterrupt:
        return end(f"interrupted{kept}", 130)
    return 0


def _replace_what_cannot_be_shown() -> None:
    """Let a console without λ or − show a question mark; by default it ends the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mvsboost", description="Gradient-boosted trees on the rows that matter."
    )
    parser.add_argument("--version", action="version", version=f"mvsboost {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo = commands.add_parser(
        "demo", help="compare samplers on the Adult data: a table, a figure and a page"
    )
    demo.add_argument(
        "--out", default="demo-results", metavar="DIR", help="folder for results (%(default)s)"
    )
    demo.add_argument("--trees", type=int, metavar="N", help="trees of each fit (100)")
    demo.add_argument(
        "--rates", type=float, nargs="+", metavar="RATE", help="sample rates (0.05 0.1 0.2 0.4)"
    )
    demo.add_argument("--seeds", type=int, metavar="N", help="fits to average over (2)")
    demo.add_argument(
        "--quick",
        action="store_true",
        help="a look at the form of the results: 2000 rows, 3 trees, one rate",
    )
    commands.add_parser("warmup", help="compile all kernels ahead of the first fit")
    commands.add_parser("info", help="versions, cores and the folder of compiled kernels")
    return parser


# each command imports what it needs, so that --help and --version answer at once


def _demo(options: argparse.Namespace) -> None:
    from mvsboost.demo import Demo, format_table

    start = time.perf_counter()
    asked = {"n_trees": options.trees, "n_seeds": options.seeds, "rates": options.rates}
    given = {name: value for name, value in asked.items() if value is not None}
    demo = Demo(**{**(_QUICK if options.quick else {}), **given})
    result = demo.run(options.out, options.command_line)
    print(format_table(result.records))
    print(f"\n{time.perf_counter() - start:.0f} s in all; results:")
    for path in (result.table, result.figure, result.page):
        print(f"  {path}")


def _warmup(options: argparse.Namespace) -> None:
    from mvsboost.backends.cpu.compilation import cache_folder, jit_enabled, needs_compilation
    from mvsboost.warmup import warm_up

    if not jit_enabled():
        print("nothing to compile: NUMBA_DISABLE_JIT is set")
        return
    verb = "compiled" if needs_compilation() else "checked"
    print(f"kernels {verb} in {warm_up():.1f} s; they lie in {cache_folder() or _NOWHERE}")


def _info(options: argparse.Namespace) -> None:
    from mvsboost.backends.cpu.compilation import cache_folder, jit_enabled, needs_compilation
    from mvsboost.report import environment

    none = _NOWHERE if jit_enabled() else "none (NUMBA_DISABLE_JIT is set)"
    facts = {
        **environment(),
        "cache folder": str(cache_folder() or none),
        "kernels": "not compiled yet: `mvsboost warmup`" if needs_compilation() else "ready",
    }
    for name, value in facts.items():
        print(f"{name:<14}{value}")


_COMMANDS = {"demo": _demo, "warmup": _warmup, "info": _info}
