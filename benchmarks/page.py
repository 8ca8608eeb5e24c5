"""Write docs/benchmarks.md: the measured tables, and what they mean."""

from __future__ import annotations

from pathlib import Path

from record import load
from table import as_markdown

HERE = Path(__file__).parent


def main() -> None:
    results = load(HERE / "results.json")
    notes = (HERE / "notes.md").read_text()
    page = notes.replace("<!-- tables -->", as_markdown(results))
    (HERE.parent / "docs" / "benchmarks.md").write_text(page)


if __name__ == "__main__":
    main()
