"""A notebook is executed: pictures, a bar, a table of parameters."""

from __future__ import annotations

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

pytestmark = pytest.mark.filterwarnings("ignore")

FIT = """
from sklearn.datasets import load_diabetes
from mvsboost import MVSRegressor
from mvsboost.callbacks import ProgressBar

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = MVSRegressor(n_estimators=5, callbacks=[ProgressBar()]).fit(X, y)
"""
IMPORTANCE = """
from mvsboost import plots
plots.plot_importance(model)
"""
TREE = "plots.plot_tree(model);"
TABLE = "model.model_.to_dataframe().head()"
COMPARISON = """
from mvsboost import compare
compare(X, y, rates=[0.3], folds=2, n_estimators=3, progress=False)
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What each cell shows, by kind of content."""
    notebook = nbformat.v4.new_notebook()
    cells = [FIT, "model", IMPORTANCE, TREE, TABLE, COMPARISON]
    notebook.cells = [nbformat.v4.new_code_cell(source.strip()) for source in cells]
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path_factory.mktemp("nb"))}}
    ).execute()
    return [shown(cell.outputs) for cell in notebook.cells]


def shown(outputs):
    found = {}
    for output in outputs:
        for kind, content in output.get("data", {}).items():
            found[kind] = content
        if output.output_type == "stream":
            found[output.name] = found.get(output.name, "") + output.text
    return found


def test_a_fit_shows_a_bar(outputs):
    assert "5/5" in outputs[0]["stderr"]


def test_an_estimator_shows_its_parameters(outputs):
    assert "n_estimators" in outputs[1]["text/html"]


@pytest.mark.parametrize("cell", [2, 3])
def test_a_plot_is_a_picture(outputs, cell):
    assert len(outputs[cell]["image/png"]) > 1000


def test_nodes_are_a_table(outputs):
    assert "<table" in outputs[4]["text/html"]


def test_a_comparison_shows_its_answer(outputs):
    page = outputs[5]["text/html"]
    assert "MVS at 0.3" in page
    assert "MVSRegressor(" in page
