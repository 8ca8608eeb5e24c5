"""Pages: escaped, complete, and readable without a network."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mvsboost.errors import DataError
from mvsboost.report import Chart, Code, Picture, Section, Table, Text, render_page, write_page

NASTY = "<script>alert('λ & \"µ\"')</script>"


class Reader(HTMLParser):
    """Collects text, and checks that every tag that opens also closes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


def test_text_is_escaped_wherever_it_stands() -> None:
    parts = [Text(NASTY), Code(NASTY), Table([NASTY], [[NASTY]]), Picture(b"x", NASTY, NASTY)]
    reader = read(render_page(NASTY, [Section(NASTY, parts)]))
    assert "script" not in {tag for tag, _ in reader.tags}
    # title, h1, h2, paragraph, code, header, cell and caption
    assert reader.text.count(NASTY) == 8
    assert [attrs["alt"] for tag, attrs in reader.tags if tag == "img"] == [NASTY]


def test_a_picture_is_inside_the_page() -> None:
    png = bytes(range(256))
    page = render_page("t", [Section("s", [Picture(png, "all bytes")])])
    (data,) = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert base64.b64decode(data) == png
    assert "figcaption>" not in page


def test_nothing_is_fetched_from_elsewhere() -> None:
    page = render_page("t", [Section("s", [Text("x"), Picture(b"x", "y")])])
    assert not re.search(r"https?:|//|@import|<link", page)


def test_a_chart_is_data_and_a_script_that_draws_it() -> None:
    points = [{"x": 1.0, "y": 2.0, "label": NASTY}]
    spec = {"x": "rate", "y": "error", "series": [{"name": NASTY, "points": points}]}
    reader = read(render_page("t", [Section("s", [Chart(spec, NASTY, "caption")])]))
    (figure,) = [attrs for tag, attrs in reader.tags if tag == "figure"]
    assert json.loads(figure["data-chart"] or "") == spec
    assert figure["aria-label"] == NASTY
    assert [tag for tag, _ in reader.tags].count("script") == 1


def test_what_json_cannot_say_is_no_chart() -> None:
    with pytest.raises(ValueError, match="JSON"):
        Chart({"series": [{"points": [{"x": float("nan")}]}]}, "x").html()


def test_only_what_needs_a_script_has_one() -> None:
    assert "<script>" not in render_page("t", [Section("s", [Table(["a"], [["b"]])])])
    page = render_page("t", [Section("s", [Table(["a"], [["b"]], sortable=True)])])
    assert '<table class="sortable">' in page
    assert "<script>" in page


def test_colours_follow_the_reader() -> None:
    page = render_page("t", [])
    assert "prefers-color-scheme: dark" in page
    assert "color-scheme: light dark" in page


def test_numbers_are_set_flush_right_and_text_is_not() -> None:
    html = Table(["name", "kind", "value"], [["a", "b", 1.5]], text_columns=2).html()
    assert '<td>a</td><td>b</td><td class="number">1.5</td>' in html
    assert '<th>kind</th><th class="number">value</th>' in html


def test_a_row_of_the_wrong_length_is_named() -> None:
    table = Table(["a", "b"], [[1, 2], [3]])
    with pytest.raises(DataError, match="row 1 of the table has 1 cells, its header has 2"):
        table.html()


def test_a_page_is_one_utf8_file(tmp_path: Path) -> None:
    path = write_page(tmp_path / "index.html", "λ and µ", [Section("one", []), Section("two", [])])
    assert list(tmp_path.iterdir()) == [path]
    page = path.read_text(encoding="utf-8")
    assert page.index("<h1>λ and µ</h1>") < page.index("<h2>one</h2>") < page.index("<h2>two</h2>")
