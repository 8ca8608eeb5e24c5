"""One-file HTML pages: text, tables, code and pictures, readable without a network.

A page is built from parts that hold plain content; everything is escaped, pictures are
embedded, and the colours follow the reader's choice of light or dark.
"""

from __future__ import annotations

import base64
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from mvsboost.errors import DataError
from mvsboost.runtime.files import write_whole
from mvsboost.runtime.threads import available_cores

__all__ = [
    "Chart",
    "Code",
    "Part",
    "Picture",
    "Section",
    "Table",
    "Text",
    "environment",
    "render_page",
    "write_page",
]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str

    def html(self) -> str:
        """The paragraph, escaped."""
        return f"<p>{escape(self.text)}</p>"


@dataclass(frozen=True)
class Code:
    """Text to be shown as it is: a command, an output."""

    text: str

    def html(self) -> str:
        """The text, escaped, its spaces and lines kept."""
        return f"<pre><code>{escape(self.text)}</code></pre>"


@dataclass(frozen=True)
class Table:
    """A table; the caller formats its numbers.

    Attributes
    ----------
    header : sequence of str
    rows : sequence of sequences
        Cells, as many in each row as the header has.
    text_columns : int
        Columns from the left that hold text; the others hold numbers, set flush right.
    sortable : bool
        Whether a click on a head sorts the rows.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    text_columns: int = 1
    sortable: bool = False

    def html(self) -> str:
        """The table, escaped, able to scroll on a narrow screen."""
        for i, row in enumerate(self.rows):
            if len(row) != len(self.header):
                raise DataError(
                    f"row {i} of the table has {len(row)} cells, its header has {len(self.header)}"
                )
        head = self._row("th", self.header)
        body = "\n".join(self._row("td", row) for row in self.rows)
        kind = ' class="sortable"' if self.sortable else ""
        table = f"<table{kind}>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"
        return f'<div class="scroll">{table}</div>'

    def _row(self, tag: str, cells: Sequence[object]) -> str:
        kinds = [
            tag if column < self.text_columns else f'{tag} class="number"'
            for column in range(len(cells))
        ]
        inside = (
            f"<{kind}>{escape(str(cell))}</{tag}>" for kind, cell in zip(kinds, cells, strict=True)
        )
        return f"<tr>{''.join(inside)}</tr>"


@dataclass(frozen=True)
class Picture:
    """A PNG image, embedded in the page.

    Attributes
    ----------
    png : bytes
        Content of the PNG file.
    description : str
        What it shows, for those who cannot see it.
    caption : str
        Line under the picture.
    """

    png: bytes
    description: str
    caption: str = ""

    def html(self) -> str:
        """The picture as a data URI."""
        data = base64.b64encode(self.png).decode("ascii")
        image = f'<img src="data:image/png;base64,{data}" alt="{escape(self.description)}">'
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        return f"<figure>{image}{caption}</figure>"


@dataclass(frozen=True)
class Chart:
    """Lines or points that the page draws itself: they answer to a pointer, and fit the screen.

    Attributes
    ----------
    spec : mapping
        ``x`` and ``y``, names of the axes; ``series``, each with a ``name`` and ``points``, perhaps
        ``line`` or ``dots`` that are false, a ``colour`` by its number and a ``strength`` of it up
        to 1; a point has ``x`` and ``y``, perhaps ``low``, ``high`` and a ``label``.
        ``xlog``, ``ylog``, ``xticks``, ``percent`` and ``zero`` are optional.
    description : str
        What it shows, for those who cannot see it.
    caption : str
        Line under the chart.
    """

    spec: Mapping[str, Any]
    description: str
    caption: str = ""

    def html(self) -> str:
        """The chart as data of a figure, which the page's script draws."""
        data = escape(json.dumps(self.spec, separators=(",", ":"), allow_nan=False))
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        label = escape(self.description)
        return f'<figure class="chart" aria-label="{label}" data-chart="{data}">{caption}</figure>'


Part = Text | Code | Table | Picture | Chart
"""What a section may hold."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    heading: str
    parts: Sequence[Part]

    def html(self) -> str:
        """The section with all its parts."""
        inside = "\n".join(part.html() for part in self.parts)
        return f"<section>\n<h2>{escape(self.heading)}</h2>\n{inside}\n</section>"


# pictures have white grounds: inverting keeps their lines readable in the dark, and turning
# the hue back keeps blue blue
_STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --text: #1c1e21; --faint: #5f6670;
  --line: #d9dde3; --block: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #16181c; --text: #e6e8eb; --faint: #a0a8b3; --line: #363b43;
    --block: #20242a; }
  img { filter: invert(0.91) hue-rotate(180deg); }
}
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 60rem; background: var(--ground);
  color: var(--text); font: 1rem/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.8rem; border-bottom: 1px solid var(--line); text-align: left;
  white-space: nowrap; }
th { color: var(--faint); font-weight: 600; }
.number { text-align: right; }
.scroll { overflow-x: auto; }
figure { margin: 1rem 0; }
img { max-width: 100%; height: auto; border-radius: 6px; }
figcaption { color: var(--faint); font-size: 0.9rem; }
pre { background: var(--block); padding: 0.8rem 1rem; border-radius: 6px; overflow-x: auto; }
"""

# Okabe and Ito's palette, which stays apart for colour-blind eyes, a shade lighter in the dark
_CHART_STYLE = """
:root { --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #b8860b; --c5: #56b4e9;
  --c6: #7a5cc4; --c7: #8a5a2b; --c8: #444444; }
@media (prefers-color-scheme: dark) {
  :root { --c0: #4aa8e0; --c1: #f08a3c; --c2: #2fc99b; --c3: #e2a3c7; --c4: #e6b94a; --c5: #8accf2;
    --c6: #a58cf0; --c7: #c69a6b; --c8: #c8ccd2; }
}
figure.chart { position: relative; }
.chart svg { display: block; width: 100%; height: auto; touch-action: pan-y; }
.chart text { fill: var(--faint); font-size: 12px; }
.chart .label { fill: var(--text); }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.grid { stroke: var(--line); }
.zero { stroke: var(--faint); stroke-dasharray: 5 4; }
.line { fill: none; stroke: var(--colour); stroke-width: 2; }
.band { fill: var(--colour); opacity: 0.13; }
.dot { fill: var(--colour); }
.mark { fill: none; stroke: var(--text); stroke-width: 1.5; }
.legend { display: flex; flex-wrap: wrap; gap: 0.2rem 0.9rem; }
.legend button, th button { border: 0; padding: 0; background: none; color: inherit; font: inherit;
  cursor: pointer; }
.legend button::before { content: ""; display: inline-block; width: 0.8em; height: 0.8em;
  margin-right: 0.4em; border-radius: 50%; background: var(--colour); }
.legend button[aria-pressed="false"] { opacity: 0.4; }
.tip { position: absolute; max-width: 16rem; padding: 0.3rem 0.6rem; border-radius: 6px;
  background: var(--text); color: var(--ground); font-size: 0.85rem; pointer-events: none; }
th[aria-sort="ascending"] button::after { content: " ↑"; }
th[aria-sort="descending"] button::after { content: " ↓"; }
"""


def render_page(title: str, sections: Iterable[Section]) -> str:
    """The whole page as HTML.

    Examples
    --------
    >>> page = render_page("Rates", [Section("λ < 1", [Text("a & b")])])
    >>> "<h2>λ &lt; 1</h2>" in page, "<p>a &amp; b</p>" in page
    (True, True)
    """
    sections = list(sections)
    body = "\n".join(section.html() for section in sections)
    parts = [part for section in sections for part in section.parts]
    style, script = _STYLE, ""
    if any(isinstance(part, Chart) or getattr(part, "sortable", False) for part in parts):
        style += _CHART_STYLE
        source = files("mvsboost").joinpath("report.js").read_text(encoding="utf-8")
        script = f"<script>\n{source}</script>\n"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n{script}</body>\n</html>\n"
    )


def write_page(path: str | PathLike[str], title: str, sections: Iterable[Section]) -> Path:
    """Write a page as one HTML file, whole or not at all, and return its path.

    Parameters
    ----------
    path : path
        The file; its folder must exist.
    title : str
    sections : iterable of Section
    """
    page = render_page(title, sections).encode()
    write_whole(path, lambda file: file.write(page))
    return Path(path)


def environment(*more: str) -> dict[str, str]:
    """Versions and machine that results depend on; `more` are further packages.

    Examples
    --------
    >>> list(environment("no-such-package"))[:3], environment("no-such-package")["no-such-package"]
    (['mvsboost', 'python', 'numpy'], 'not installed')
    """
    packages = ("numpy", "numba", "scikit-learn", "narwhals", *more)
    return {
        "mvsboost": _version("mvsboost"),
        "python": platform.python_version(),
        **{name: _version(name) for name in packages},
        "platform": platform.platform(),
        "cores": str(available_cores()),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
