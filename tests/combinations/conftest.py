"""Lets the files of this folder import each other, under pytest as in a script."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
