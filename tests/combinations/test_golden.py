"""Models are those of the record, on this machine as on the one that wrote it."""

from __future__ import annotations

import json

import pytest
from cases import Case
from golden import RECORD, digest, few_cases

CASES = few_cases()
DIGESTS = json.loads(RECORD.read_text())


@pytest.mark.large
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_model_and_predictions_are_those_of_the_record(case: Case) -> None:
    assert digest(case) == DIGESTS[repr(case)]
