"""The page of a comparison in a real browser: charts, sorting, hover, both widths, no network."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from mvsboost import compare

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
SHOTS = os.environ.get("MVSBOOST_SCREENSHOTS")
"""Folder to keep pictures in, for people to look at."""

OPTIONS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=400) > 0
    out = tmp_path_factory.mktemp("out")
    found = compare(
        X,
        y,
        out=out,
        rates=[0.1, 0.3, 0.5],
        folds=3,
        n_estimators=15,
        progress=False,
        command="mvsboost compare table.csv --target y",
    )
    assert found.paths == [out / "index.html", out / "results.csv"]
    return out / "index.html"


def test_the_page_needs_no_network(page):
    text = page.read_text(encoding="utf-8")
    outside = re.sub(r'"http://www.w3.org/2000/svg"', "", text)
    assert not re.search(r"https?://|@import|<link|src=\"(?!data:)", outside)
    assert "mvsboost compare table.csv --target y" in text


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield found
        found.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_in_a_browser(page: Path, browser, width: int, scheme: str):
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    tab, trouble = context.new_page(), []
    tab.on("console", lambda message: trouble.append(message.text))
    tab.on("pageerror", lambda error: trouble.append(str(error)))
    tab.goto(page.as_uri())
    charts = tab.locator("figure.chart")
    assert charts.count() == 6
    for k in range(6):
        assert charts.nth(k).locator("svg .series").count() > 0
        assert "NaN" not in charts.nth(k).locator("svg").evaluate("svg => svg.outerHTML")
    # nothing but tables and code may be wider than the screen
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    _hover(tab, charts.first)
    _hide(charts.first)
    _sort(tab)
    if SHOTS:
        tab.screenshot(path=f"{SHOTS}/comparison-{width}-{scheme}.png", full_page=True)
    assert trouble == []
    context.close()


def _hover(tab, chart):
    tip = chart.locator(".tip")
    assert not tip.is_visible()
    dot = chart.locator(".dot").first
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    tab.mouse.move(box["x"] + 3, box["y"] + 3)
    assert tip.is_visible()
    assert re.search(r"MVS at 0\.\d: 1 − AUC 0\.\d+", tip.inner_text())


def _hide(chart):
    before = chart.locator(".series").count()
    chart.locator(".legend button").first.click()
    assert chart.locator(".series").count() == before - 1
    chart.locator(".legend button").first.click()
    assert chart.locator(".series").count() == before


def _sort(tab):
    table = tab.locator("table.sortable")
    head = table.locator("th", has_text="error")
    for order in ("ascending", "descending"):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == order
        cells = table.locator("tbody tr td:nth-child(2)").all_inner_texts()
        assert len(cells) == 13
        assert cells == sorted(cells, reverse=order == "descending")
