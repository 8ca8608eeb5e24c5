"""Every relation on a few drawn combinations; `campaign.py` runs many thousands."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from cases import Case, cases
from hypothesis import HealthCheck, given, settings
from relations import RELATIONS, Relation

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
EXAMPLES = 15 if COMPILED else 2


@pytest.mark.parametrize("relation", RELATIONS.values(), ids=RELATIONS)
@settings(
    derandomize=True,
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(case=cases())
def test_relation_holds(relation: Relation, case: Case) -> None:
    if not COMPILED:
        case = replace(case, n_rows=40, n_estimators=2, validation=False)
    case = relation.towards(case)
    assert relation.applies(case)
    # plain Python warns of 0 / 0 where a kernel goes on
    with nullcontext() if COMPILED else np.errstate(all="ignore"):
        relation.check(case)
