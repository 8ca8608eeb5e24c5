"""What reads LightGBM's models reads ours: treelite, ONNX and shap, end to end."""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost import MVSClassifier, MVSRegressor

pytest.importorskip("lightgbm")
pytestmark = pytest.mark.filterwarnings("ignore")


def numbers(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)  # what ONNX has
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.nan_to_num(X) @ [1.0, -2.0, 0.5, 0.0] + 0.1 * rng.normal(size=n)


def models():
    X, y = numbers()
    small = {"n_estimators": 20, "min_samples_leaf": 5}
    return {
        "numbers": MVSRegressor(**small).fit(X, y),
        "two classes": MVSClassifier(**small).fit(X, y > 0),
        "classes": MVSClassifier(**small).fit(X, np.digitize(y, [-1.0, 1.0])),
    }


def expected(model, X):
    return model.predict(X) if isinstance(model, MVSRegressor) else model.predict_proba(X)


@pytest.mark.parametrize("kind", ["numbers", "two classes", "classes"])
def test_treelite(kind, tmp_path):
    treelite = pytest.importorskip("treelite")
    model, (X, _) = models()[kind], numbers(seed=1)
    model.to_lightgbm().save_model(tmp_path / "model.txt")
    compiled = treelite.frontend.load_lightgbm_model(tmp_path / "model.txt")
    found = treelite.gtil.predict(compiled, X)
    found = found.reshape(len(X), -1)
    wanted = expected(model, X).reshape(len(X), -1)
    np.testing.assert_allclose(found, wanted[:, -found.shape[1] :], atol=1e-5)


@pytest.mark.parametrize("kind", ["numbers", "two classes", "classes"])
def test_onnx(kind):
    onnxmltools, runtime = map(pytest.importorskip, ("onnxmltools", "onnxruntime"))
    from onnxmltools.convert.common.data_types import FloatTensorType

    model, (X, _) = models()[kind], numbers(seed=1)
    graph = onnxmltools.convert_lightgbm(
        model.to_lightgbm(),
        initial_types=[("X", FloatTensorType([None, 4]))],
        zipmap=False,
        target_opset=15,
    )
    session = runtime.InferenceSession(graph.SerializeToString())
    found = session.run(None, {"X": X})[-1].reshape(len(X), -1)
    wanted = expected(model, X).reshape(len(X), -1)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_shap_explains_the_exported_model():
    shap = pytest.importorskip("shap")
    model, (X, _) = models()["numbers"], numbers(50, seed=1)
    found = shap.TreeExplainer(model.to_lightgbm())(X)
    ours = model.predict_contributions(X)
    np.testing.assert_allclose(found.values, ours[:, :-1], atol=1e-6)
    np.testing.assert_allclose(found.base_values, ours[:, -1], atol=1e-6)
