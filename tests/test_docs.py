"""Documents say what the code does: pages are current, listings run, links lead somewhere."""

import ast
import importlib
import importlib.util
import re
import textwrap
from pathlib import Path

import pytest

from mvsboost.backends.protocol import Backend

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
NOTES = ROOT / "research" / "notes"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *NOTES.rglob("*.md")])
DECISIONS = sorted(
    path for place in (ROOT / "docs", NOTES) for path in (place / "decisions").glob("0*.md")
)
OPTIONAL = {"lightgbm", "mlflow", "optuna", "shap"}
"""What listings need and a test run may do without; the extra `dev` has all of them."""
LISTING = re.compile(r"(?:<!-- listing: (\S+) -->\n)?```python\n(.*?)```", re.DOTALL)


def load_generator():
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()


def name_of(path):
    return str(path.relative_to(ROOT))


def listings(path):
    """Python listings of a document: the file each one quotes, if any, and its code."""
    return LISTING.findall(path.read_text(encoding="utf-8"))


WITH_LISTINGS = [
    path
    for path in (
        README,
        *sorted((ROOT / "docs").glob("*.md")),
        *(ROOT / "docs" / "tutorials").glob("*.md"),
    )
    if any(not source for source, _ in listings(path))
]


def prose_of(path):
    """A document without its listings and formulas."""
    return re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(path):
    """Names under which GitHub links to the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", prose_of(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


# --- generated pages ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(GENERATOR.pages()))
def test_generated_page_is_current(name):
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == GENERATOR.pages()[name], f"docs/{name} is out of date: run make docs"


def test_sections_of_a_docstring():
    text = """Title.

    More.

    Parameters
    ----------
    rate : float
        Share
        of rows.
    other
        Something.

    Notes
    -----
    Last words.
    """
    parts = GENERATOR.sections(text)
    assert parts[""] == "Title.\n\nMore."
    assert parts["Notes"] == "Last words."
    assert GENERATOR.entries(parts["Parameters"]) == [
        ("rate", "float", "Share of rows."),
        ("other", "", "Something."),
    ]


def test_displayed_formula_becomes_a_math_block():
    assert GENERATOR.prose("Before.\n\n.. math:: a\n   b\n\nAfter.") == (
        "Before.\n\n```math\na b\n```\n\nAfter."
    )


# --- listings -----------------------------------------------------------------------------------


def test_first_listing_of_the_readme_is_the_loop_as_it_is():
    source, code = listings(README)[0]
    assert source == "src/mvsboost/boosting.py"
    assert textwrap.indent(code, "    ") in (ROOT / source).read_text(encoding="utf-8")
    assert code.rstrip().endswith("return run.finish()")


@pytest.mark.large
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",
    "ignore::PendingDeprecationWarning",
    "ignore:.*type hint is inferred:UserWarning",
)
@pytest.mark.parametrize("path", WITH_LISTINGS, ids=name_of)
def test_listings_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = [code for source, code in listings(path) if not source]
    # runs of MLflow are kept as files, of which it warns
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/runs")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    namespace = {"__name__": "listing"}
    for code in blocks:
        try:
            exec(compile(code, path.name, "exec"), namespace)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            pytest.skip(f"needs {error.name}")


@pytest.mark.parametrize("path", DECISIONS, ids=name_of)
def test_imports_of_a_decision_resolve(path):
    trees = [ast.parse(code) for _, code in listings(path)]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    for node in imports:
        if node.module.startswith("mvsboost"):
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"


# --- links and tables ---------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(path)):
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{name_of(path)} links to {target}"
        if anchor:
            assert anchor in anchors(there), f"{name_of(path)} links to {target}"


def test_every_page_is_linked_from_another():
    linked = set()
    for path in DOCUMENTS:
        targets = re.findall(r"\]\(([^)#\s]+)", prose_of(path))
        linked |= {(path.parent / target).resolve() for target in targets}
    assert [name_of(path) for path in DOCUMENTS if path not in linked and path != README] == []


def test_architecture_names_every_verb():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = set(re.findall(r"^\| `(\w+)` \|.*\|.*\|.*\|$", text, flags=re.MULTILINE))
    verbs = {name for name, member in vars(Backend).items() if callable(member)}
    verbs = {name for name in verbs if not name.startswith("_")}
    assert table == verbs


def test_decision_counts_the_verbs():
    verbs = [n for n, m in vars(Backend).items() if callable(m) and not n.startswith("_")]
    text = (ROOT / "docs" / "decisions" / "0005-more-verbs.md").read_text(encoding="utf-8")
    assert f"There are {len(verbs)}\n" in text
