"""The site of the documentation builds, its links lead somewhere, and it needs no network."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("material")
pytest.importorskip("latex2mathml")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site():
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "docs" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_move_with_their_pages(site):
    known, page = site.places(), ROOT / "docs" / "method.md"
    text = "[a](samplers.md#b) [c](../README.md) [d](../src/mvsboost/cli.py) [e](https://x.y/z)"
    expected = "[a](samplers.md#b) [c](index.md) d [e](https://x.y/z)"
    assert site.moved(text, page, known) == expected
    image = "![x](../research/results/figure1.png)"
    assert site.moved(image, page, known) == "![x](figures/figure1.png)"
    assert "<math" in site.moved("```math\na^2\n```", page, known)


@pytest.mark.filterwarnings("ignore")
def test_the_site_builds(site, tmp_path):
    site.build(tmp_path)
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        html = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img)[^>]*src="(https?:[^"]+)', html)
        loaded += re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="(https?:[^"]+)', html)
        assert not loaded
