"""Sets of the paper that cannot be passed on: read from the files of their publishers.

Put the files into the folder of the data, under the names that they have there:

* KDD Cup 2009 (Orange): ``orange_small_train.data``, ``orange_small_train_churn.labels``,
  ``orange_small_train_upselling.labels``;
* KDD Cup 2012, track 2 (Tencent): ``training.txt``;
* HIGGS (UCI): ``HIGGS.csv`` or ``HIGGS.csv.gz``;
* RecSys Challenge 2015 (YOOCHOOSE): ``yoochoose-clicks.dat``, ``yoochoose-buys.dat``.

Orange and Click are split by the published indices, in ``catboost_split_indices.parquet``.
How the paper made its table out of RecSys is not known; the columns here are our own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.datasets import data_path
from mvsboost.errors import DataError
from research.sets.base import (
    Columns,
    Part,
    PreparedSet,
    SetInfo,
    as_part,
    import_arrow,
    published_rows,
    split_as_published,
)
from research.sets.published import CLICK_NUMBERS, tuned

__all__ = ["PUBLISHER_SETS"]


def read_text(
    path: Path,
    names: list[str] | None,
    texts: tuple[str, ...] = (),
    *,
    delimiter: str = ",",
) -> Columns:
    """Columns of a text file, compressed or not; `names` where it has no header.

    Columns of texts are read as such, whatever they look like; empty fields are missing.
    """
    csv: Any = import_arrow("csv")
    pa: Any = import_arrow()
    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=names),
        parse_options=csv.ParseOptions(delimiter=delimiter, quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types={name: pa.string() for name in texts},
            strings_can_be_null=True,
            null_values=[""],
        ),
    )
    return {name: table[name].to_numpy() for name in table.column_names}


# --- KDD Cup 2009 -------------------------------------------------------------------------------

_ORANGE_TEXTS = tuple(f"Var{i}" for i in range(191, 230) if i != 209)
"""Var209 and Var230 are empty and count as numbers."""


def _orange(name: str, folder: Path | None) -> PreparedSet:
    path = data_path("orange_small_train.data", folder)
    table = read_text(path, None, _ORANGE_TEXTS, delimiter="\t")
    labels = np.loadtxt(data_path(f"orange_small_train_{name}.labels", folder), dtype=np.int64)
    if len(labels) != len(next(iter(table.values()))):
        raise DataError(
            f"orange_small_train_{name}.labels has {len(labels)} lines, "
            f"orange_small_train.data {len(next(iter(table.values())))} rows"
        )
    for column in _ORANGE_TEXTS:
        table[column] = np.array([_plain_number(x) for x in table[column]], object)
    rows = as_part(table, labels == 1, _ORANGE_TEXTS)
    return split_as_published(name, rows, _ORANGE_TEXTS, folder)


def _plain_number(text: str | None) -> str | None:
    """Texts that are numbers are written in one way.

    Examples
    --------
    >>> _plain_number("1.50"), _plain_number("a1"), _plain_number(None)
    ('1.5', 'a1', None)
    """
    if text is None:
        return None
    try:
        return f"{float(text):.17g}"
    except ValueError:
        return text


# --- KDD Cup 2012 -------------------------------------------------------------------------------

_CLICK_COLUMNS = (
    "click",
    "impression",
    "url_hash",
    "ad_id",
    "advertiser_id",
    "depth",
    "position",
    "query_id",
    "keyword_id",
    "title_id",
    "description_id",
    "user_id",
)


def _whole_click(folder: Path | None) -> PreparedSet:
    wanted = published_rows("click", "subsampling", folder)
    fields = _lines(data_path("training.txt", folder), wanted)
    columns = dict(zip(_CLICK_COLUMNS, np.array(fields, object).T, strict=True))
    clicks = columns.pop("click").astype(np.int64)
    texts = tuple(name for name in columns if name not in CLICK_NUMBERS)
    return split_as_published("click", as_part(columns, clicks > 0, texts), texts, folder)


def _lines(path: Path, wanted: NDArray[np.int64]) -> list[list[str]]:
    """Some lines of a large file, split at tabs, in the order they are wanted in, from 0 on."""
    found: dict[int, list[str]] = {number: [] for number in wanted.tolist()}
    last = int(wanted.max())
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            if number in found:
                found[number] = line.rstrip("\n").split("\t")
            if number == last:
                break
        else:
            raise DataError(f"{path} ends before line {last + 1}: it is not the whole file")
    return [found[number] for number in wanted.tolist()]


# --- HIGGS --------------------------------------------------------------------------------------

_HIGGS_TEST = 500_000
"""The last rows are for testing, as its publishers say; a tenth of a smaller file."""


def _higgs(folder: Path | None) -> PreparedSet:
    try:
        path = data_path("HIGGS.csv", folder)
    except DataError:
        path = data_path("HIGGS.csv.gz", folder)
    names = ["label", *(f"x{i}" for i in range(1, 29))]
    table = read_text(path, names)
    target = table.pop("label") > 0.5
    columns = {name: column.astype(np.float32) for name, column in table.items()}
    rows = Part(columns, target.astype(np.int64))
    cut = len(rows) - min(_HIGGS_TEST, len(rows) // 10)
    every = np.arange(len(rows))
    return PreparedSet("higgs", rows.take(every[:cut]), rows.take(every[cut:]), ())


# --- RecSys 2015 --------------------------------------------------------------------------------


def _recsys(folder: Path | None) -> PreparedSet:
    """Items that were looked at in a session; the target is whether they were bought there.

    Sessions whose number ends in 0 or 1 are for testing.
    """
    clicks = read_text(
        data_path("yoochoose-clicks.dat", folder),
        ["session", "time", "item", "category"],
        ("time", "category"),
    )
    buys = read_text(
        data_path("yoochoose-buys.dat", folder),
        ["session", "time", "item", "price", "quantity"],
        ("time",),
    )
    session, item = clicks["session"].astype(np.int64), clicks["item"].astype(np.int64)
    stamps = np.array([text.rstrip("Z") for text in clicks["time"]], "datetime64[ms]")
    time = stamps.astype(np.int64) / 1000.0
    pair, first, inverse = _pairs(session, item)
    bought = np.isin(
        pair, _pairs(buys["session"].astype(np.int64), buys["item"].astype(np.int64))[0]
    )
    columns = _session_columns(session, item, time, first, inverse)
    columns["category"] = clicks["category"][first].astype(object)
    rows = Part(columns, bought.astype(np.int64))
    testing = session[first] % 10 < 2
    return PreparedSet(
        "recsys",
        rows.take(np.flatnonzero(~testing)),
        rows.take(np.flatnonzero(testing)),
        ("category",),
    )


_ITEMS = np.int64(1) << 32


def _pairs(
    session: NDArray[np.int64], item: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Distinct pairs as one number, the first click of each, and the pair of every click."""
    pair, first, inverse = np.unique(
        session * _ITEMS + item, return_index=True, return_inverse=True
    )
    return pair, first.astype(np.int64), inverse.astype(np.int64)


def _session_columns(
    session: NDArray[np.int64],
    item: NDArray[np.int64],
    time: NDArray[np.float64],
    first: NDArray[np.int64],
    inverse: NDArray[np.int64],
) -> Columns:
    """What is known of a pair from its session's clicks and from the item's over all sessions."""
    _, of_session = np.unique(session, return_inverse=True)
    _, of_item = np.unique(item, return_inverse=True)
    n = len(first)
    begin, end = _extremes(time, of_session)
    seen, seen_last = _extremes(time, inverse)
    here, what = of_session[first], of_item[first]
    own = np.bincount(inverse, minlength=n).astype(np.float64)
    in_session = np.bincount(of_session).astype(np.float64)[here]
    items = np.bincount(here).astype(np.float64)[here]
    day = seen / 86_400.0
    return {
        "clicks": own,
        "share": own / in_session,
        "session_clicks": in_session,
        "session_items": items,
        "session_seconds": (end - begin)[here],
        "since_begin": seen - begin[here],
        "until_end": end[here] - seen_last,
        "between": seen_last - seen,
        "hour": np.floor(day % 1.0 * 24.0),
        "weekday": np.floor(day) % 7,
        "day": np.floor(day),
        "item_clicks": np.bincount(of_item).astype(np.float64)[what],
        "item_sessions": np.bincount(what).astype(np.float64)[what],
    }


def _extremes(
    values: NDArray[np.float64], group: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    n = int(group.max()) + 1
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    return low, high


PUBLISHER_SETS: dict[str, SetInfo] = {
    "upselling": SetInfo(
        "KDD Upselling",
        lambda folder: _orange("upselling", folder),
        paper_error=0.1345,
        **tuned(2435, 0.0044401929, 11, 109, 1.0201872e-05, 0.58042987, 0.0061435827, 0.0),
    ),
    "churn": SetInfo(
        "KDD Churn",
        lambda folder: _orange("churn", folder),
        paper_error=0.2532,
        **tuned(4211, 0.0024681278, 19, 2, 1.7132439e-06, 0.6555786, 4.3131168e-06, 3.2898082),
    ),
    "whole click": SetInfo(
        "Click",
        _whole_click,
        paper_error=0.2655,
        **tuned(684, 0.0292633, 45, 8, 0.0045499582, 0.67023297, 0.76774135, 0.10721554),
    ),
    "higgs": SetInfo(
        "Higgs",
        _higgs,
        note="the paper's parameters are not published",
        **tuned(500, 0.1, 63, 20, 1e-3, 1.0, 0.0, 1.0),
    ),
    "recsys": SetInfo(
        "RecSys",
        _recsys,
        note="the paper's columns and parameters are not published",
        **tuned(500, 0.1, 63, 20, 1e-3, 1.0, 0.0, 1.0),
    ),
}
"""Sets of the paper that are read from their publishers' files."""
