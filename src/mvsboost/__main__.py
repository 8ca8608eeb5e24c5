"""``python -m mvsboost``."""

from __future__ import annotations

from mvsboost.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
