"""Categories as running means of the target, as the paper's experiments prepare them.

Over one random order of the training rows, a row's category becomes

    (sum of the targets before it in the same category + 1) / (number of them + 2),

so that no row sees its own target. Other rows get the same formula over all training
rows, and a category that these do not have gives 1/2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SEED = 0
"""Of the order of the training rows, which is the same for every column."""


def count_categories(
    train: NDArray[Any], target: NDArray[Any], *others: NDArray[Any]
) -> list[NDArray[np.float64]]:
    """One column as running means, for the training rows and for the rows of other parts.

    Parameters
    ----------
    train : array of shape (n,)
        Categories of the training rows: texts or numbers, None or NaN being one as well.
    target : array of shape (n,)
        0 or 1.
    *others : arrays
        The column in other parts.

    Examples
    --------
    >>> import numpy as np
    >>> train, test = count_categories(np.array(["a", "b"]), np.array([1, 0]), np.array(["a", "c"]))
    >>> train.tolist(), [round(x, 3) for x in test.tolist()]
    ([0.5, 0.5], [0.667, 0.5])
    """
    codes, n_codes = _codes(train, *others)
    own, y = codes[0], np.asarray(target, np.float64)
    order = np.random.RandomState(SEED).permutation(len(own))
    values = np.empty(len(own))
    values[order] = _running_means(own[order], y[order])
    sums = np.bincount(own, y, n_codes)
    counts = np.bincount(own, minlength=n_codes)
    return [values, *((sums[code] + 1.0) / (counts[code] + 2.0) for code in codes[1:])]


def _codes(*parts: NDArray[Any]) -> tuple[list[NDArray[np.int64]], int]:
    """The same whole number for the same category, in all parts, and how many there are."""
    joined = np.concatenate([np.asarray(part, object) for part in parts])
    texts = np.array(["\0" if x is None or x != x else str(x) for x in joined])
    names, codes = np.unique(texts, return_inverse=True)
    edges = np.cumsum([len(part) for part in parts])[:-1]
    return np.split(codes.astype(np.int64), edges), len(names)


def _running_means(codes: NDArray[np.int64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    by_code = np.argsort(codes, kind="stable")
    sorted_codes, sorted_y = codes[by_code], y[by_code]
    is_first = np.append(True, sorted_codes[1:] != sorted_codes[:-1])
    first = np.flatnonzero(is_first)
    group = np.cumsum(is_first) - 1
    before = np.cumsum(sorted_y) - sorted_y
    values = np.empty(len(y))
    values[by_code] = (before - before[first][group] + 1.0) / (
        np.arange(len(y)) - first[group] + 2.0
    )
    return values
