"""How much of a change is the luck of a set's one split into training and test part."""

from __future__ import annotations

from collections.abc import Iterator

from mvsboost.report import Part, Table, Text
from research.experiments.pace import CONTENDERS, Contender, at_published_rates
from research.experiments.quality import paper_quality
from research.plan import METHODS, NO_SAMPLING, Cell, Experiment, Plan, Setting
from research.sets import SETS
from research.summaries import (
    FIFTH_TESTED,
    Change,
    average,
    change_at,
    paired_change,
    percent,
    with_spread,
)

__all__ = ["SPLITS"]

_ADAPTIVE = CONTENDERS["mvs"]._replace(method=METHODS["adaptive"], paper="adaptive")
_ASKED = [
    *(CONTENDERS[key] for key in ("counters", "mvs")),
    _ADAPTIVE,
    *(CONTENDERS[key] for key in ("sgb", "all leaves", "tuned")),
]

_TEXT = (
    "Change of 1 − AUC at the best rate and at the published learning rates: on the set's own "
    "split, mean and standard deviation over {} seeds, and on {} random splits of all its rows, a "
    "fifth of them for testing, one fit each, mean and standard deviation over these. A star "
    "marks changes that a paired t-test gives a probability under 5% to be chance, for splits one "
    "that knows that they share rows. Settings are those that folds of the set's own training part "
    "chose at the raised learning rates (on counters out of fewer rates and λ, as for other "
    "hosts), so rows that are for testing in other splits had a part in the choice. {}"
)
_ONLY_SMALL = "Sets under 50,000 rows alone."


def _sets(plan: Plan) -> list[str]:
    """Small sets alone, but in a full run."""
    return [name for name in plan.published.sets if SETS[name].small or plan.size.effort == 2]


def _n_splits(plan: Plan) -> int:
    return 20 if plan.size.effort > 0 else 2


def _chosen(plan: Plan, name: str, one: Contender) -> Setting | None:
    return one.tuning(plan, None).chosen(name, one.method)


def _of_splits(plan: Plan, name: str, one: Contender, setting: Setting) -> list[Cell]:
    """One cell for each split, whose number is the seed as well."""
    engine, view = one.method.engine, one.method.view
    cells = []
    for split in range(_n_splits(plan)):
        cell = at_published_rates(plan).cell(name, setting, split, engine=engine, view=view)
        cells.append({**cell, "split": split})
    return cells


def _cells(plan: Plan) -> Iterator[Cell]:
    for name in _sets(plan):
        for one in _ASKED:
            yield from one.tuning(plan, None).tuned(name, one.method)
            for setting in (NO_SAMPLING, _chosen(plan, name, one)):
                if setting is not None:
                    yield from at_published_rates(plan).judged(name, one.method, setting)
                    yield from _of_splits(plan, name, one, setting)


def _changes(plan: Plan, name: str, one: Contender) -> tuple[Change, Change] | None:
    """On the set's own split and over others; None while either is unknown."""
    setting = _chosen(plan, name, one)
    if setting is None:
        return None
    own = change_at(at_published_rates(plan), name, one.method, setting)
    errors = plan.errors(_of_splits(plan, name, one, setting))
    baseline = plan.errors(_of_splits(plan, name, one, NO_SAMPLING))
    if own is None or errors is None or baseline is None:
        return None
    return own, paired_change(errors, baseline, FIFTH_TESTED)


def _parts(plan: Plan) -> list[Part]:
    found = {name: [_changes(plan, name, one) for one in _ASKED] for name in _sets(plan)}
    # sets that all contenders have: means are over the same, in an interrupted run too
    known = {name: of for name, of in found.items() if None not in of}
    if not known:
        return []
    rows = []
    for one, by_set in zip(_ASKED, zip(*known.values(), strict=True), strict=True):
        for name, (own, others) in zip(known, by_set, strict=True):
            rows.append(_row(f"{SETS[name].title}: {one.method.title}", one, own, others, [name]))
        if len(known) > 1:
            own, others = (average(of) for of in zip(*by_set, strict=True))
            rows.append(_row(f"mean: {one.method.title}", one, own, others, list(known)))
    which = "" if plan.size.effort == 2 else _ONLY_SMALL
    text = _TEXT.format(plan.size.seeds, _n_splits(plan), which).rstrip()
    return [Text(text), Table(["", "own split", "random splits", "paper"], rows)]


def _row(title: str, one: Contender, own: Change, others: Change, names: list[str]) -> list[str]:
    paper = percent(paper_quality(one.paper, names)) if one.paper else ""
    return [title, with_spread(own), with_spread(others), paper]


SPLITS = Experiment("The split: its own and others", _cells, _parts)
