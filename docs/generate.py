"""Write the pages of ``docs/`` that are made from the code.

``make docs`` runs it; ``tests/test_docs.py`` fails when a page is out of date.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import types
from pathlib import Path
from typing import Any

from mvsboost import callbacks, estimators, metrics, objectives, plots, sampling
from mvsboost.parameters import Parameter, parameters_of
from mvsboost.sampling import SAMPLERS

HERE = Path(__file__).resolve().parent

NOTE = "<!-- Made by docs/generate.py from the code; change the docstrings, then `make docs`. -->"

SAMPLER_CLASSES = ("MVS", "GOSS")
"""Samplers with a section of their own; the table says enough of the others."""

SAMPLERS_INTRODUCTION = """\
# Samplers

A sampler chooses the rows of the next trees and their weights. Pass an object,
`sampler=MVS(rate=0.2)`, or a name, `sampler="mvs"`:
"""

SAMPLERS_PROMISE = """\
Weighted sums are unbiased: E[Σ w g] = Σ g and E[Σ w h] = Σ h over any fixed set of rows. A draw
does not depend on the number of threads. Empty draws are repeated, which makes sums of tiny samples
too large (by 5% with three expected rows). [The method](method.md) explains MVS.
"""

SAMPLERS_END = """\
## A sampler of your own

Pass an object with a method `probabilities(gradients, hessians, iteration)` that returns a number
in (0, 1] for each row. Each row is drawn independently with that probability and weighed by the
inverse. 0 is allowed only where g = h = 0.

An attribute `share` may say what share of the rows to expect, for the default of `second_look` and
the [limit of rows](large-data.md). Without it that is 1.

Inherit the tests that built-in samplers pass:

```python
from mvsboost import SGB
from mvsboost.testing import SamplerConformance


class TestMySampler(SamplerConformance):
    sampler = SGB(rate=0.3)  # yours
```

## The record of a draw

`sampling_history_` has a record for each iteration:

| key | meaning |
|---|---|
| `rate` | share of rows asked for |
| `mu` | threshold µ; NaN without one, 0 if all rows with ĝ > 0 were taken |
| `lam` | λ; NaN without one |
| `rows`, `certain` | rows drawn; those with weight 1 |
| `max_weight` | largest weight |
| `effective_sample_size` | (Σw)² / Σw²: as precise as this many equally weighted rows |
"""


# --- docstrings ---------------------------------------------------------------------------------


def sections(docstring: str) -> dict[str, str]:
    """Sections of a numpydoc docstring by title; what comes before the first is under ""."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    titles = ["", *parts[1::2]]
    return {title: text.strip() for title, text in zip(titles, parts[::2], strict=True)}


def entries(section: str) -> list[tuple[str, str, str]]:
    """Name, type and description of each entry of a Parameters or Attributes section."""
    found = []
    for block in re.split(r"\n(?=\S)", section):
        head, _, text = block.partition("\n")
        name, _, kind = head.partition(" : ")
        found.append((name.strip(), kind.strip(), " ".join(textwrap.dedent(text).split())))
    return found


def prose(text: str) -> str:
    """Paragraphs of reStructuredText as Markdown: displayed formulas become math blocks."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        formula = re.match(r"\.\. math::(.*)", paragraph, flags=re.DOTALL)
        if formula:
            paragraphs.append(f"```math\n{' '.join(formula[1].split())}\n```")
        else:
            paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


def bullet_list(section: str) -> str:
    """Entries of a section as a Markdown list."""
    lines = []
    for name, kind, text in entries(section):
        head = f"- **`{name}`**" + (f" ({kind})" if kind else "")
        lines.append(f"{head}: {text}" if text else head)
    return "\n".join(lines)


def first_line(function: Any) -> str:
    """The first line of a docstring."""
    return inspect.getdoc(function).split("\n")[0]  # type: ignore[union-attr]


# --- pages --------------------------------------------------------------------------------------


def table_cell(text: str) -> str:
    """Text that does not end a table's cell."""
    return text.replace("|", "\\|")


def parameter_row(parameter: Parameter) -> str:
    """One line of the table of parameters."""
    cells = (
        f"`{parameter.name}`",
        f"`{parameter.default!r}`",
        table_cell(parameter.allowed),
        table_cell(parameter.meaning),
    )
    return f"| {' | '.join(cells)} |"


def estimator_page(name: str) -> str:
    """Parameters, attributes and methods of an estimator."""
    cls = getattr(estimators, name)
    parts = sections(cls.__doc__)
    methods = [
        f"- `{method}{_arguments(getattr(cls, method))}`: {first_line(getattr(cls, method))}"
        for method in public_methods(cls)
    ]
    rows = "\n".join(parameter_row(parameter) for parameter in parameters_of(name))
    example = parts["Examples"]
    return "\n\n".join(
        [
            f"# `{name}`",
            NOTE,
            parts[""],
            "## Parameters",
            "All are keyword arguments of the constructor. `fit` checks them before it trains.",
            f"| parameter | default | must be | meaning |\n|---|---|---|---|\n{rows}",
            "Samplers and their parameters have [a page of their own](samplers.md). Tables that "
            "can be trained on are described under [data](data.md).",
            "## `fit`",
            bullet_list(sections(cls.fit.__doc__)["Parameters"]),
            "## Attributes after `fit`",
            bullet_list(parts["Attributes"]),
            "## Methods",
            "\n".join(methods),
            "## Example",
            f"```pycon\n{example}\n```\n",
        ]
    )


def public_methods(cls: type) -> list[str]:
    """Methods of the library's own classes, in order of definition."""
    own = [c for c in reversed(cls.__mro__) if c.__module__.startswith(estimators.__name__)]
    names = dict.fromkeys(["fit", *(name for c in own for name in vars(c))])
    static = {name: inspect.getattr_static(cls, name) for name in names if name[0] != "_"}
    kinds = (types.FunctionType, classmethod)
    return [name for name, member in static.items() if isinstance(member, kinds)]


def _arguments(function: Any) -> str:
    names = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        names.append(stars + parameter.name + default)
    return f"({', '.join(names)})"


def sampler_row(name: str, sampler: sampling.Sampler) -> str:
    """One line of the table of samplers, with the defaults that are not named by keyword only."""
    kind = type(sampler)
    first = inspect.signature(kind).parameters.values()
    defaults = [f"{p.name}={p.default!r}" for p in first if p.kind is p.POSITIONAL_OR_KEYWORD]
    usual = repr(sampler) == f"{kind.__name__}()"
    shown = f"{kind.__name__}({', '.join(defaults)})" if usual else repr(sampler)
    meaning = table_cell(first_line(kind)) if usual else ""
    return f'| `"{name}"` | `{shown}` | {meaning} |'


def sampler_section(name: str) -> str:
    """What one sampler's docstring says."""
    cls = getattr(sampling, name)
    parts = sections(cls.__doc__)
    _, text = parts[""].split("\n\n", 1)  # the first line is in the table
    texts = [f"## `{name}{_arguments(cls)}`", prose(text)]
    if "Parameters" in parts:
        texts.append(bullet_list(parts["Parameters"]))
    if "Notes" in parts:
        texts.append(prose(parts["Notes"]))
    return "\n\n".join(texts)


def samplers_page() -> str:
    """Every sampler, by name and by class."""
    made = {name: make() for name, make in SAMPLERS.items()}
    names = "\n".join(sampler_row(name, sampler) for name, sampler in made.items())
    rules = sections(sampling.regularisation.__doc__ or "")["Parameters"]
    rule_text = re.search(r"^lam : .*?\n(.*?)^backend : ", rules, flags=re.DOTALL | re.MULTILINE)
    assert rule_text is not None, "the docstring of `regularisation` has no entry lam"
    return "\n\n".join(
        [
            SAMPLERS_INTRODUCTION.replace("# Samplers\n", f"# Samplers\n\n{NOTE}\n").strip(),
            f"| name | object | rows |\n|---|---|---|\n{names}",
            SAMPLERS_PROMISE.strip(),
            *(sampler_section(name) for name in SAMPLER_CLASSES),
            "## Rules for λ",
            "`lam` of `MVS` is a number or one of these names:",
            textwrap.dedent(rule_text[1]).strip(),
            f"To bound the weights, a rule gives at least {sampling.LAMBDA_FLOOR:g} · mean(g²) / "
            "mean(h²), or the same without mean(h²) for the other scores.",
            SAMPLERS_END,
        ]
    )


WATCHING_INTRODUCTION = """\
# Metrics, callbacks and plots

## Metrics

`eval_metric` takes a name, a `Metric` of your own, or a list of them. Metrics are evaluated after
every iteration on each set of `eval_set` and on the rows of `validation_fraction`. Values are in
`evals_result_`, under `"eval_0"`, `"eval_1"`, ... and `"validation"`. The default is the first
metric of the objective:
"""

OWN_METRIC = """\
Make your own metric from a function:

```python
import numpy as np
from mvsboost import Metric


def worst_error(y_true, y_pred):
    return np.abs(y_true - y_pred).max()


Metric("worst error", worst_error, greater_is_better=False)
```
"""

METRIC_OBJECTIVES = (
    objectives.Logistic(),
    objectives.Softmax(3),
    objectives.Squared(),
    objectives.Absolute(),
    objectives.Quantile(0.5),
    objectives.Poisson(),
)


def docstring_section(member: Any, heading: str) -> str:
    """What a docstring says, its parameters as a list."""
    parts = sections(member.__doc__)
    texts = [f"{heading} `{member.__name__}{_arguments(member)}`", prose(parts[""])]
    return "\n\n".join(
        texts + ([bullet_list(parts["Parameters"])] if "Parameters" in parts else [])
    )


def metric_row(objective: objectives.Objective) -> str:
    """The metrics that fit an objective, its own first."""
    first = metrics.default_metric(objective).name
    names = [first, *(name for name in metrics.names_for(objective) if name != first)]
    return f"| `{objective.name}` | {', '.join(f'`{name}`' for name in names)} |"


def watching_page() -> str:
    """Metrics by objective, and what callbacks and plots say of themselves."""
    rows = "\n".join(map(metric_row, METRIC_OBJECTIVES))
    shown = (plots.plot_history, plots.plot_sampling, plots.plot_importance, plots.plot_tree)
    kinds = [getattr(callbacks, name) for name in callbacks.__all__ if name != "Progress"]
    return (
        "\n\n".join(
            [
                WATCHING_INTRODUCTION.replace("plots\n", f"plots\n\n{NOTE}\n", 1).strip(),
                f"| objective | metrics |\n|---|---|\n{rows}",
                OWN_METRIC.strip(),
                docstring_section(metrics.Metric, "###"),
                "## Callbacks",
                "Pass a list of objects of `mvsboost.callbacks` to an estimator or to `train`. "
                "`early_stopping_rounds` and `verbose` each add one.",
                *(docstring_section(kind, "###") for kind in kinds),
                "Callbacks get a `Progress`, which has:",
                bullet_list(sections(callbacks.Progress.__doc__ or "")["Attributes"]),
                "## Plots",
                "Plots need matplotlib. They take a fitted estimator and return Axes, or draw on "
                "those of `ax=`. A notebook shows them, `plt.show()` does in a script, and "
                "`ax.figure.savefig(...)` saves them. A notebook shows progress bars, the "
                "parameters of an estimator and the answer of a comparison, too.",
                *(docstring_section(function, "###") for function in shown),
            ]
        )
        + "\n"
    )


def pages() -> dict[str, str]:
    """Text of every generated page by file name."""
    return {
        "parameters-classifier.md": estimator_page("MVSClassifier"),
        "parameters-regressor.md": estimator_page("MVSRegressor"),
        "samplers.md": samplers_page(),
        "watching.md": watching_page(),
    }


def main() -> None:
    """Write the pages beside this file."""
    for name, text in pages().items():
        (HERE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
