"""The command line: ``train``, ``predict``, ``compare``, ``explain``, ``info`` and ``warmup``."""

from __future__ import annotations

import argparse
import ast
import io
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from mvsboost import __version__
from mvsboost.errors import MVSBoostError, ParameterError

__all__ = ["main", "run"]

_FLAGS = {
    "data": "DATA",
    "n_estimators": "--trees",
    **{
        name: f"--{name}"
        for name in ("rates", "folds", "budget", "peers", "target", "task", "weight", "out")
    },
}
"""What the parameters that an error can name are called on the command line."""

_NOWHERE = "no folder (none can be written to: set NUMBA_CACHE_DIR)"

_EXAMPLES = """examples:
  mvsboost compare data.parquet --target y --budget 10min
  mvsboost train data.csv --target y --model model.json
  mvsboost predict new.csv --model model.json --out predictions.csv
  mvsboost explain new.csv --model model.json --out contributions.parquet

Tables are CSV, Parquet, Arrow or Feather by their suffix; - is CSV from or to a pipe.
"""


_EXAMPLES_OF = {
    "train": """examples:
  mvsboost train data.csv --target y
  mvsboost train data.parquet --target y --drop id --categorical zip --model y.json.gz
  mvsboost train data.csv --target y --validation-fraction 0.2 --set n_estimators=2000 sampler=goss
""",
    "predict": """examples:
  mvsboost predict new.csv --out predictions.csv
  cat new.csv | mvsboost predict - --proba > probabilities.csv
""",
    "compare": """examples:
  mvsboost compare data.parquet --target y --budget 10min
  mvsboost compare data.csv --target y --rates 0.05 0.1 --peers LightGBM --set max_leaves=63
""",
    "explain": """examples:
  mvsboost explain new.csv --out contributions.parquet
  mvsboost explain new.csv --top 10
""",
    "info": """examples:
  mvsboost info
  mvsboost info model.json --json
""",
}


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
    action = partial(_COMMANDS[options.command], options)
    kept = (
        "; all fits are kept, and the same command goes on" if options.command == "compare" else ""
    )
    return run(f"mvsboost {options.command}", action, flags=_FLAGS, kept=kept)


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
        sys.stdout.flush()  # what cannot be written is an error here, not at the exit
    except ParameterError as error:
        flag = flags.get(error.parameter, error.parameter)
        return end(f"error: {ParameterError(flag, error.value, error.allowed)}", 2)
    except BrokenPipeError:
        sys.stderr.close()  # who read the output has had enough
        return 0
    except (MVSBoostError, ImportError, OSError) as error:
        _let_go_of_output()
        return end(f"error: {error}", 1)
    except KeyboardInterrupt:
        return end(f"interrupted{kept}", 130)
    return 0


def _let_go_of_output() -> None:
    """Forget what standard output cannot take: Python would try again at the exit."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            sys.stdout.close()


def _replace_what_cannot_be_shown() -> None:
    """Let a console without λ or − show a question mark; by default it ends the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


# --- arguments ----------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mvsboost",
        description="Gradient-boosted trees on the rows that matter.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mvsboost {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (help_, add) in _ARGUMENTS.items():
        command = commands.add_parser(
            name,
            help=help_,
            description=f"{help_[0].upper()}{help_[1:]}.",
            epilog=_EXAMPLES_OF.get(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add(command)
    return parser


def _add_table(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("data", metavar="DATA", help=f"{what}: a file, or - for CSV from a pipe")


def _add_target(parser: argparse.ArgumentParser) -> None:
    _add_table(parser, "training table")
    parser.add_argument("--target", required=True, metavar="COLUMN", help="column to predict")
    parser.add_argument("--weight", metavar="COLUMN", help="column of row weights")
    parser.add_argument(
        "--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out"
    )
    parser.add_argument(
        "--categorical", nargs="+", metavar="COLUMN", help="the categorical columns (text is one)"
    )
    parser.add_argument(
        "--task",
        default="auto",
        help="classification or regression; by default text and up to 20 whole numbers are classes",
    )
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="parameters of the estimator, such as learning_rate=0.05",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _add_compare(parser: argparse.ArgumentParser) -> None:
    _add_target(parser)
    parser.add_argument(
        "--out",
        default="comparison",
        metavar="DIR",
        help="folder that keeps all fits, and gets the page (%(default)s)",
    )
    parser.add_argument(
        "--rates", type=float, nargs="+", metavar="RATE", help="sample rates (0.1 0.2 0.3 0.5)"
    )
    parser.add_argument("--folds", type=int, default=5, metavar="N", help="folds (%(default)s)")
    parser.add_argument(
        "--trees", type=int, default=1000, metavar="N", help="of a fit at most (%(default)s)"
    )
    parser.add_argument(
        "--budget",
        metavar="TIME",
        help="such as 90s, 10min or 2h; fits of most use come first, the others are left out",
    )
    parser.add_argument(
        "--peers",
        nargs="+",
        default=[],
        metavar="LIBRARY",
        help="to have beside: LightGBM XGBoost CatBoost",
    )


def _add_model_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", default="model.json", metavar="FILE", help="file of the model (%(default)s)"
    )


def _add_train(parser: argparse.ArgumentParser) -> None:
    _add_target(parser)
    _add_model_file(parser)
    parser.add_argument(
        "--validation-fraction",
        type=float,
        metavar="SHARE",
        help="hold out this share of the rows, and stop early by it",
    )


def _add_model(parser: argparse.ArgumentParser, out: str) -> None:
    _add_table(parser, "table with the columns of training")
    _add_model_file(parser)
    parser.add_argument(
        "--out", default="-", metavar="FILE", help=f"{out} (by default CSV to a pipe)"
    )


def _add_predict(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, "file of predictions")
    parser.add_argument("--proba", action="store_true", help="probabilities of all classes")
    parser.add_argument("--raw", action="store_true", help="raw scores")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, "file of contributions, a column for each of the table's")
    parser.add_argument(
        "--top", type=int, metavar="N", help="print the N largest in the mean instead"
    )
    parser.add_argument("--json", action="store_true", help="print them as JSON")


def _add_info(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a model file to tell about")
    parser.add_argument("--json", action="store_true", help="print as JSON")


_ARGUMENTS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "train": ("train a model and write it to a file", _add_train),
    "predict": ("predict from a model file", _add_predict),
    "compare": ("which rows may be left out: samplers compared on a table", _add_compare),
    "explain": ("what each column adds to each prediction: SHAP values", _add_explain),
    "info": ("versions, cores and compiled kernels; or what a model file holds", _add_info),
    "warmup": ("compile all kernels ahead of the first fit", lambda parser: None),
}


def _parameters(options: argparse.Namespace) -> dict[str, Any]:
    """What --set says, as Python values; what is none is text."""
    found: dict[str, Any] = {}
    for item in options.set:
        name, separator, text = item.partition("=")
        if not separator:
            raise ParameterError("--set", item, "of the form name=value")
        try:
            found[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[name] = text
    if options.categorical is not None:
        found["categorical_features"] = options.categorical
    return found


def _training_table(options: argparse.Namespace) -> tuple[Any, Any, Any]:
    """Columns, target and weights."""
    from mvsboost.tables import column_of, read_table, without

    table = read_table(options.data)
    y = column_of(table, options.target, "target")
    weight = None if options.weight is None else column_of(table, options.weight, "weight")
    beside = [options.target, *options.drop, *([options.weight] if options.weight else [])]
    return without(table, beside), y, weight


# --- commands -----------------------------------------------------------------------------------

# each command imports what it needs, so that --help and --version answer at once


def _compare(options: argparse.Namespace) -> None:
    from mvsboost.comparison import compare
    from mvsboost.comparison.plan import RATES

    start = time.perf_counter()
    X, y, weight = _training_table(options)
    found = compare(
        X,
        y,
        sample_weight=weight,
        task=options.task,
        rates=options.rates or RATES,
        folds=options.folds,
        budget=options.budget,
        peers=options.peers,
        out=options.out,
        n_estimators=options.trees,
        progress=not options.json,
        command=options.command_line,
        **_parameters(options),
    )
    if options.json:
        print(
            json.dumps(
                {"sentence": found.sentence, "code": found.code, "settings": found.records()}
            )
        )
        return
    print(found)
    print(f"{time.perf_counter() - start:.0f} s in all; results:")
    print(*(f"  {path}" for path in found.paths), sep="\n")


def _train(options: argparse.Namespace) -> None:
    from mvsboost import MVSClassifier, MVSRegressor
    from mvsboost.comparison.tasks import task_of

    X, y, weight = _training_table(options)
    task, _, _ = task_of(y, options.task)
    parameters = _parameters(options)
    if options.validation_fraction is not None:
        parameters["validation_fraction"] = options.validation_fraction
        parameters.setdefault("early_stopping_rounds", 50)
    kind = MVSClassifier if task.is_classification else MVSRegressor
    start = time.perf_counter()
    model = kind(**parameters).fit(X, y, weight)
    model.save(options.model)
    found = {
        "model": options.model,
        "estimator": type(model).__name__,
        "rows": len(y),
        "trees": model.n_iter_,
        "seconds": round(time.perf_counter() - start, 3),
        "stopped": model.stop_reason_,
        **_last_metrics(model),
    }
    _print_facts(found, options.json)


def _last_metrics(model: Any) -> dict[str, float]:
    """Metrics at the trees that are used."""
    return {
        f"{data} {metric}": values[model.n_iter_ - 1]
        for data, metrics in model.evals_result_.items()
        for metric, values in metrics.items()
        if values
    }


def _load(path: str) -> Any:
    """The estimator of a model file."""
    from mvsboost.estimators import load_estimator

    return load_estimator(path)


def _features_of(options: argparse.Namespace, model: Any) -> Any:
    """The model's columns of the table; others are left out."""
    from mvsboost.tables import read_table, without

    table, known = read_table(options.data), model.model_.schema.names
    names = list(table) if isinstance(table, dict) else table.column_names
    return without(table, [name for name in names if name not in known])


def _predict(options: argparse.Namespace) -> None:
    from mvsboost.tables import write_table

    model = _load(options.model)
    if options.proba and not hasattr(model, "classes_"):
        raise ParameterError("--proba", True, "left out where the target is numbers")
    output = "probabilities" if options.proba else "scores" if options.raw else "predictions"
    if options.data.endswith(".parquet") and options.out.endswith(".parquet"):
        model.predict_files(options.data, options.out, output=output)
    else:
        write_table(model.named_outputs(_features_of(options, model), output), options.out)


def _explain(options: argparse.Namespace) -> None:
    import numpy as np

    from mvsboost.tables import write_table

    model = _load(options.model)
    found = model.predict_contributions(_features_of(options, model))
    names = [*model.model_.schema.names, "mean"]
    if options.top is not None or options.json:
        size = np.abs(found).reshape(-1, len(names)).mean(axis=0)[:-1]
        order = np.argsort(-size, kind="stable")[: options.top]
        _print_facts({names[j]: float(f"{size[j]:.6g}") for j in order}, options.json)
        return
    if found.ndim == 3:
        names = [f"{output}: {name}" for output in model.output_names() for name in names]
    columns = found.reshape(len(found), -1).T
    write_table(dict(zip(_distinct(names), columns, strict=True)), options.out)


def _distinct(names: Iterable[str]) -> list[str]:
    """Names of columns; one that another has already, such as "mean", gets an underscore."""
    found: dict[str, None] = {}
    for name in names:
        while name in found:
            name += "_"
        found[name] = None
    return list(found)


def _warmup(options: argparse.Namespace) -> None:
    from mvsboost.backends.cpu.compilation import cache_folder, jit_enabled, needs_compilation
    from mvsboost.warmup import warm_up

    if not jit_enabled():
        print("nothing to compile: NUMBA_DISABLE_JIT is set")
        return
    verb = "compiled" if needs_compilation() else "checked"
    print(f"kernels {verb} in {warm_up():.1f} s; they lie in {cache_folder() or _NOWHERE}")


def _info(options: argparse.Namespace) -> None:
    if options.model is not None:
        _print_facts(_facts_of_model(options.model), options.json)
        return
    from mvsboost.backends.cpu.compilation import cache_folder, jit_enabled, needs_compilation
    from mvsboost.report import environment

    none = _NOWHERE if jit_enabled() else "none (NUMBA_DISABLE_JIT is set)"
    facts = {
        **environment(),
        "cache folder": str(cache_folder() or none),
        "kernels": "not compiled yet: `mvsboost warmup`" if needs_compilation() else "ready",
    }
    _print_facts(facts, options.json)


def _facts_of_model(path: str) -> dict[str, Any]:
    from mvsboost import Model

    model = Model.load(path)
    trees = [tree for trees in model.iterations for tree in trees]
    return {
        "estimator": model.metadata.get("estimator", "none, a bare model"),
        "objective": model.objective.name,
        "outputs": model.n_outputs,
        "columns": model.schema.n_features,
        "names": list(model.schema.names),
        "iterations": model.n_iterations,
        "best iteration": model.best_iteration,
        "leaves": sum(tree.n_leaves for tree in trees),
        "parameters": model.metadata.get("parameters", {}),
    }


def _print_facts(facts: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts))
        return
    width = max(map(len, facts), default=0) + 2
    for name, value in facts.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        print(f"{name:<{width}}{shown}")


_COMMANDS = {
    "train": _train,
    "predict": _predict,
    "compare": _compare,
    "explain": _explain,
    "info": _info,
    "warmup": _warmup,
}
