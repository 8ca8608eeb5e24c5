"""Put the pages of the documentation together, and build the site from them.

    python docs/site.py [--out site]

Pages keep the links that GitHub follows. Here they are moved to where they lie on the site, links
with them; one to a file that is no page, such as a module, becomes its text. Formulas become
MathML. The site needs no network, neither to be built nor to be read.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
from pathlib import Path

from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
FORMULA = re.compile(r"^( *)```math\n(.*?)\n *```", re.DOTALL | re.MULTILINE)


def places() -> dict[Path, Path]:
    """Where each page and figure lies on the site, by where it lies in the repository."""
    found = {
        ROOT / "README.md": Path("index.md"),
        ROOT / "CHANGELOG.md": Path("changelog.md"),
        ROOT / "CONTRIBUTING.md": Path("contributing.md"),
    }
    folders = {ROOT / "docs": Path(), ROOT / "research" / "notes": Path("notes")}
    for folder, place in folders.items():
        found |= {page: place / page.relative_to(folder) for page in folder.rglob("*.md")}
    figures = (ROOT / "research" / "results").glob("*.png")
    return found | {figure: Path("figures") / figure.name for figure in figures}


def moved(text: str, source: Path, known: dict[Path, Path]) -> str:
    """A page's text with its links as they are on the site."""
    here = known[source].parent

    def link(found: re.Match[str]) -> str:
        mark, label, target, anchor = found.groups(default="")
        if not target or ":" in target:
            return found[0]
        path = Path(os.path.normpath(source.parent / target))
        path = path / "README.md" if path / "README.md" in known else path
        if path not in known:
            return label
        return f"{mark}[{label}]({os.path.relpath(known[path], here)}{anchor})"

    text = LINK.sub(link, text)
    return FORMULA.sub(lambda found: f"{found[1]}{convert(found[2], display='block')}", text)


def assemble(folder: Path) -> None:
    """Write all pages and figures into a folder."""
    known = places()
    for source, place in known.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(moved(source.read_text(encoding="utf-8"), source, known), "utf-8")
        else:
            shutil.copy(source, target)


def build(out: Path) -> None:
    """Build the site; a link that leads nowhere is an error."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    with tempfile.TemporaryDirectory() as folder:
        assemble(Path(folder))
        config = load_config(
            str(ROOT / "mkdocs.yml"), docs_dir=folder, site_dir=str(out.resolve()), strict=True
        )
        build_site(config)


def main() -> None:
    """Build it where the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("site"))
    build(parser.parse_args().out)


if __name__ == "__main__":
    main()
