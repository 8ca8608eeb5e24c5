"""A small campaign of kills; see campaign.py. A process of its own, since it forks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("resource", reason="no signals that end a process")


def test_what_is_killed_leaves_the_old_or_the_new():
    program = Path(__file__).with_name("campaign.py")
    done = subprocess.run(
        [sys.executable, str(program), "--kills", "30", "--seed", "1", "--jobs", "1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^30 kills .* 0 failures", done.stdout, re.MULTILINE)
    # a campaign that always kills before or after all is done would show nothing
    assert "'new'" in done.stdout
    assert "'old'" in done.stdout
