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

SAMPLER_CLASSES = (
    "MVS",
    "ImportanceSampling",
    "GOSS",
    "SGB",
    "Bernoulli",
    "BayesianBootstrap",
    "PoissonBootstrap",
    "NoSampling",
)

SAMPLERS_INTRODUCTION = """\
# Samplers

A sampler decides which rows the next trees are grown from and what each of them weighs. It
sees the gradients and never changes them, and its sums are unbiased: E[Σ w g] = Σ g and
E[Σ w h] = Σ h over any fixed set of rows. (A draw without any row is repeated, which makes sums
too large on the mean where a handful of rows is asked for: by 5% with three of them.) Why MVS
draws as it does is in [the method](method.md); how the draw stays the same for any number of
threads is in [the architecture](architecture.md#randomness).

An estimator takes a sampler as an object, `sampler=MVS(rate=0.2)`, or by name with its default
parameters, `sampler="mvs"`:
"""

SAMPLERS_END = """\
## A sampler of your own

Any object with a method `probabilities(gradients, hessians, iteration)` can be passed as
`sampler`. It returns one number in (0, 1] for each row; the library draws each row on its own
with that probability and weighs it by the inverse. 0 is allowed only where g = h = 0, since
leaving out a row that says something would bias the sums. An attribute `share` may say
what share of the rows is to be expected, which decides on the default second look; without it
that is all of them.

Inherit the tests that the built-in samplers pass:

```python
from mvsboost.testing import SamplerConformance


class TestMySampler(SamplerConformance):
    sampler = MySampler()
```

## What a draw leaves behind

`sampling_history_` of an estimator is a list with one record an iteration:

| key | meaning |
|---|---|
| `rate` | share of rows that was asked for |
| `mu` | threshold µ; NaN if there is none, 0 if every row that carries something was taken |
| `lam` | λ of this iteration; NaN where the score has none |
| `rows` | rows drawn |
| `certain` | rows drawn with weight 1 |
| `max_weight` | largest weight |
| `effective_sample_size` | (Σw)² / Σw²: as many rows of equal weight would be as precise |
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
    own = [c for c in reversed(cls.__mro__) if c.__module__ == estimators.__name__]
    names = dict.fromkeys(name for c in own for name in vars(c))
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


def sampler_section(name: str) -> str:
    """What one sampler's docstring says."""
    cls = getattr(sampling, name)
    parts = sections(cls.__doc__)
    texts = [f"## `{name}{_arguments(cls)}`", prose(parts[""])]
    if "Parameters" in parts:
        texts.append(bullet_list(parts["Parameters"]))
    if "Notes" in parts:
        texts.append(prose(parts["Notes"]))
    if "variant" in vars(cls):
        variant = sections(cls.variant.__doc__)
        texts.append(f"### `{name}.variant{_arguments(cls.variant)}`")
        texts += [prose(variant[""]), bullet_list(variant["Parameters"])]
    return "\n\n".join(texts)


def samplers_page() -> str:
    """Every sampler, by name and by class."""
    names = "\n".join(f'| `"{name}"` | `{make()!r}` |' for name, make in SAMPLERS.items())
    rules = sections(sampling.regularisation.__doc__ or "")["Parameters"]
    rule_text = re.search(r"^lam : .*?\n(.*?)^score : ", rules, flags=re.DOTALL | re.MULTILINE)
    assert rule_text is not None, "the docstring of `regularisation` has no entry lam"
    return "\n\n".join(
        [
            SAMPLERS_INTRODUCTION.replace("# Samplers\n", f"# Samplers\n\n{NOTE}\n").strip(),
            f"| name | object |\n|---|---|\n{names}",
            *(sampler_section(name) for name in SAMPLER_CLASSES),
            "## Rules for λ",
            "The parameter `lam` of `MVS` is a number or one of these names:",
            textwrap.dedent(rule_text[1]).strip(),
            "A rule never gives less than a small share of mean(g²) / mean(h²) "
            f"(`LAMBDA_FLOOR` = {sampling.LAMBDA_FLOOR:g}; of mean(g²) alone where the score does "
            "not multiply λ by h²), which bounds the weights.",
            SAMPLERS_END,
        ]
    )


WATCHING_INTRODUCTION = """\
# Metrics, callbacks and plots

## Metrics

`eval_metric` takes a name, a `Metric` of one's own, or a list of them. Each is evaluated after
every iteration on every set of `eval_set` and on the rows of `validation_fraction`; values are in
`evals_result_`, under `"eval_0"`, `"eval_1"`, ... and `"validation"`. Without `eval_metric` it is
that of the objective, which comes first here:
"""

OWN_METRIC = """\
A metric of one's own is made from a function:

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
    shown = (plots.plot_history, plots.plot_sampling, plots.plot_importance)
    kinds = [getattr(callbacks, name) for name in callbacks.__all__ if name != "Progress"]
    return (
        "\n\n".join(
            [
                WATCHING_INTRODUCTION.replace("plots\n", f"plots\n\n{NOTE}\n", 1).strip(),
                f"| objective | metrics |\n|---|---|\n{rows}",
                OWN_METRIC.strip(),
                docstring_section(metrics.Metric, "###"),
                "## Callbacks",
                "`callbacks=[...]` of an estimator and of `train` takes objects out of "
                "`mvsboost.callbacks`. `early_stopping_rounds` and `verbose` add one each.",
                *(docstring_section(kind, "###") for kind in kinds),
                "What a callback is handed, `Progress`, has:",
                bullet_list(sections(callbacks.Progress.__doc__ or "")["Attributes"]),
                "## Plots",
                "They need matplotlib, take a fitted estimator and return a `Figure`, which a "
                "notebook shows and `figure.savefig(...)` saves; `pyplot` does not know of it.",
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
