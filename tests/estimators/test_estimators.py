from __future__ import annotations

import pickle
from types import MappingProxyType

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score

from mvsboost import GOSS, MVS, SGB, Metric, Model, MVSClassifier, MVSRegressor
from mvsboost.boosting import TrainConfig, train
from mvsboost.callbacks import Callback, Checkpoint, TimeLimit
from mvsboost.data import Dataset
from mvsboost.errors import DataError, ModelFormatError, ParameterError, SchemaError
from mvsboost.objectives import Logistic, Quantile
from mvsboost.parameters import plain_parameters
from mvsboost.runtime.threads import SMALLEST_SLICE

# whole fits: without compiled kernels minutes in all, and every line is reached with them
pytestmark = pytest.mark.large


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:, :8], y


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


def small(**parameters):
    return MVSClassifier(**{"n_estimators": 5, "n_jobs": 1, "max_leaves": 6, **parameters})


def small_regressor(**parameters):
    return MVSRegressor(**{"n_estimators": 5, "n_jobs": 1, "max_leaves": 6, **parameters})


class TestFit:
    def test_the_issue_in_short(self, cancer, tmp_path):
        X, y = cancer
        clf = small(sampler=MVS(rate=0.2)).fit(X, y, eval_set=[(X[:50], y[:50])])
        history = clf.sampling_history_
        assert len(history) == 5
        assert set(history[0]) == {
            "rate",
            "mu",
            "lam",
            "rows",
            "certain",
            "max_weight",
            "effective_sample_size",
        }
        assert history[0]["rate"] == 0.2
        clf.save(tmp_path / "model.json")
        again = MVSClassifier.load(tmp_path / "model.json")
        np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))

    @pytest.mark.parametrize(
        "sampler",
        [
            "mvs",
            "goss",
            "sgb",
            "none",
            "bernoulli",
            "importance",
            "bayesian",
            "poisson",
            GOSS(top_rate=0.1, other_rate=0.2),
            SGB(rate=0.5),
            MVS(0.5, lam=0.1),
            MVS(0.5, lam="root"),
        ],
        ids=str,
    )
    def test_every_sampler_learns(self, cancer, sampler):
        X, y = cancer
        clf = small(sampler=sampler, n_estimators=15, min_samples_leaf=5).fit(X, y)
        assert clf.score(X, y) > 0.9

    def test_learns_three_classes(self):
        X, y = load_iris(return_X_y=True)
        labels = np.array(["setosa", "versicolor", "virginica"])[y]
        clf = small(sampler="none", n_estimators=20, min_samples_leaf=5).fit(X, labels)
        assert clf.score(X, labels) > 0.95
        assert clf.predict_proba(X).shape == (150, 3)
        assert clf.decision_function(X).shape == (150, 3)
        assert len(clf.model_.iterations[0]) == 3
        np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1.0)

    @pytest.mark.parametrize("objective", ["squared", "absolute", "quantile", "poisson"])
    def test_every_regression_objective_learns(self, diabetes, objective):
        X, y = diabetes
        model = small_regressor(objective=objective, n_estimators=30, sampler="none").fit(X, y)
        assert np.abs(model.predict(X) - y).mean() < 0.8 * np.abs(np.median(y) - y).mean()

    def test_quantile_covers_its_share(self, diabetes):
        X, y = diabetes
        model = small_regressor(
            objective="quantile", quantile=0.9, n_estimators=60, sampler="none"
        ).fit(X, y)
        assert 0.85 < (y <= model.predict(X)).mean() < 0.95

    def test_order_one_is_gradient_boosting_without_hessians(self, cancer):
        X, y = cancer
        clf = small(order=1, sampler="none", n_estimators=1, l2=0.0, second_look=0).fit(X, y)
        tree = clf.model_.iterations[0][0]
        np.testing.assert_array_equal(tree.hessian, tree.cover)

    def test_sample_weight_of_two_is_the_row_twice(self, cancer):
        X, y = cancer
        options = {"sampler": "none", "min_samples_leaf": 1, "max_bins": 16}
        weights = np.where(np.arange(len(y)) < 100, 2.0, 1.0)
        weighted = small(**options).fit(X, y, sample_weight=weights)
        rows = np.r_[np.arange(len(y)), np.arange(100)]
        # rows are binned alike only if the quantiles are: so bin edges come from the same model
        twice = small(**options, n_estimators=5).fit(
            X[rows], y[rows], init_model=_no_trees(weighted)
        )
        np.testing.assert_allclose(weighted.predict_proba(X), twice.predict_proba(X), atol=1e-6)

    def test_class_weight_balances(self, cancer):
        X, y = cancer
        plain = small(sampler="none").fit(X, y)
        heavy = small(sampler="none", class_weight={0: 10.0, 1: 1.0}).fit(X, y)
        balanced = small(sampler="none", class_weight="balanced").fit(X, y)
        assert heavy.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.1
        assert balanced.model_.baseline[0] == pytest.approx(0.0, abs=1e-9)

    def test_class_weights_belong_to_the_fit(self, cancer):
        X, y = cancer
        clf = small(sampler="none", class_weight="balanced").fit(X, y)
        rare = np.r_[np.flatnonzero(y == 1), np.flatnonzero(y == 0)[:20]]
        clf.fit(X[rare], y[rare])
        assert clf.model_.baseline[0] == pytest.approx(0.0, abs=1e-9)

    def test_seed(self, cancer):
        X, y = cancer
        one, same, other = (small(random_state=seed).fit(X, y) for seed in (1, 1, 2))
        assert one.model_.to_dict() == same.model_.to_dict()
        assert one.sampling_history_ != other.sampling_history_
        generator = small(random_state=np.random.default_rng(0)).fit(X, y)
        state = small(random_state=np.random.RandomState(0)).fit(X, y)
        assert generator.sampling_history_ != state.sampling_history_

    def test_n_jobs_changes_no_bit(self, cancer, tmp_path):
        X, y = (np.concatenate([part] * 60) for part in cancer)
        assert len(X) > SMALLEST_SLICE
        files = []
        for jobs in (1, 2, 4, -1, None):
            path = tmp_path / f"{jobs}.json"
            small(n_jobs=jobs).fit(X, y).save(path)
            files.append(path.read_bytes())
        assert len(set(files)) == 1


def _no_trees(estimator):
    model = estimator.model_.copy()
    model.iterations = []
    return model


class TestEvaluation:
    def test_validation_fraction_is_stratified_and_set_aside(self, cancer):
        X, y = cancer
        clf = small(validation_fraction=0.25, sampler="none").fit(X, y)
        assert len(clf.evals_result_["validation"]["log_loss"]) == 5
        assert clf.sampling_history_[0]["rows"] == len(y) - sum(
            round(0.25 * (y == k).sum()) for k in (0, 1)
        )

    def test_early_stopping_uses_the_best_number_of_trees(self, cancer):
        X, y = cancer
        clf = small(n_estimators=200, learning_rate=0.5, early_stopping_rounds=5)
        clf.fit(X[:300], y[:300], eval_set=(X[300:], y[300:]))
        losses = clf.evals_result_["eval_0"]["log_loss"]
        assert clf.best_iteration_ == int(np.argmin(losses)) + 1 == clf.n_iter_
        assert len(losses) == clf.best_iteration_ + 5
        assert "has not improved for 5 iterations" in clf.stop_reason_
        *_, last = clf.staged_predict_proba(X)
        np.testing.assert_array_equal(last, clf.predict_proba(X))

    def test_evaluation_is_not_weighted_by_class(self, cancer):
        X, y = cancer
        clf = small(class_weight={0: 1.0, 1: 100.0}).fit(X, y, eval_set=[(X, y), (X[:5], y[:5])])
        (losses,) = clf.evals_result_["eval_0"].values()
        assert losses[-1] == pytest.approx(log_loss(y, clf.predict_proba(X)))

    def test_several_metrics_and_sets(self, cancer):
        X, y = cancer
        worst = Metric("worst", lambda t, p: float(np.abs(t - p).max()), greater_is_better=False)
        clf = small(eval_metric=["auc", "accuracy", worst])
        clf.fit(X, y, eval_set=[(X, y), (X[:90], y[:90], np.ones(90))])
        assert set(clf.evals_result_) == {"eval_0", "eval_1"}
        assert set(clf.evals_result_["eval_0"]) == {"auc", "accuracy", "worst"}
        assert clf.evals_result_["eval_0"]["accuracy"][-1] == clf.score(X, y)

    def test_evaluation_changes_no_bit_of_the_trees(self, cancer):
        X, y = cancer
        with_set = small().fit(X, y, eval_set=[(X, y)])
        without = small().fit(X, y)
        for one, other in zip(with_set.model_.iterations, without.model_.iterations, strict=True):
            assert one[0].to_dict() == other[0].to_dict()


class TestGoingOn:
    def test_init_model_adds_trees(self, cancer):
        X, y = cancer
        whole = small(n_estimators=8).fit(X, y)
        part = small(n_estimators=5).fit(X, y)
        more = small(n_estimators=3).fit(X, y, init_model=part)
        assert more.model_.to_dict()["iterations"] == whole.model_.to_dict()["iterations"]
        assert part.n_iter_ == 5

    def test_early_stopping_on_other_data_starts_anew(self, diabetes):
        X, y = diabetes
        first = small_regressor(n_estimators=20).fit(X, y, eval_set=[(X, y)])
        noisy = y + np.random.default_rng(0).normal(scale=300.0, size=len(y))
        early = small_regressor(n_estimators=4, early_stopping_rounds=2, learning_rate=1e-3)
        more = early.fit(X, y, eval_set=[(X, noisy)], init_model=first)
        lengths = {len(values) for values in more.evals_result_["eval_0"].values()}
        assert lengths == {more.model_.n_iterations - 20}
        assert more.best_iteration_ > 20
        assert len(next(iter(first.evals_result_["eval_0"].values()))) == 20

    def test_init_model_from_a_file_or_a_model(self, cancer, tmp_path):
        X, y = cancer
        part = small().fit(X, y)
        part.save(tmp_path / "part.json.gz")
        from_file = small().fit(X, y, init_model=tmp_path / "part.json.gz")
        from_model = small().fit(X, y, init_model=Model.load(tmp_path / "part.json.gz"))
        assert from_file.n_iter_ == from_model.n_iter_ == 10

    def test_resume_ends_where_an_uninterrupted_run_ends(self, cancer, tmp_path):
        X, y = cancer
        path = tmp_path / "run.json"

        class PowerCut(Callback):
            def after_iteration(self, progress):
                if progress.iteration == 12:
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            small(n_estimators=25, callbacks=[PowerCut()]).fit(X, y, resume=path)
        assert Model.load(path).n_iterations == 10
        resumed = small(n_estimators=25).fit(X, y, resume=path)
        whole = small(n_estimators=25).fit(X, y)
        assert resumed.model_.to_dict() == whole.model_.to_dict()
        assert small(n_estimators=25).fit(X, y, resume=path).n_iter_ == 25

    @pytest.mark.parametrize("more", [{}, {"validation_fraction": 0.3}])
    def test_a_run_without_a_seed_goes_on_with_that_it_began_with(self, cancer, tmp_path, more):
        X, y = cancer
        path = tmp_path / "run.json"
        chance = {"random_state": None, "sampler": SGB(rate=0.5), **more}
        small(n_estimators=3, **chance).fit(X, y, resume=path)
        seed = Model.load(path).metadata["seed"]
        resumed = small(n_estimators=6, **chance).fit(X, y, resume=path)
        whole = small(n_estimators=6, **chance | {"random_state": seed}).fit(X, y)
        assert resumed.model_.to_dict()["iterations"] == whole.model_.to_dict()["iterations"]

    @pytest.mark.parametrize("by_fit", [True, False])
    def test_rows_of_a_resumed_run_do_not_see_their_own_targets(self, cancer, tmp_path, by_fit):
        X, y = cancer
        X = X[:, :3].copy()
        X[:, 0] = np.arange(len(X)) % 90  # more categories than bins: ordered target statistics
        path = tmp_path / "run.json"
        given = {"max_bins": 20, "categorical_features": [0]}
        if by_fit:
            small(n_estimators=3, **given).fit(X, y, resume=path)
        else:
            small(n_estimators=3, callbacks=[Checkpoint(path)], **given).fit(X, y)
        resumed = small(n_estimators=6, **given).fit(X, y, resume=path)
        whole = small(n_estimators=6, **given).fit(X, y)
        assert resumed.model_.to_dict()["iterations"] == whole.model_.to_dict()["iterations"]

    def test_resuming_a_fit_that_stopped_early_adds_nothing_but_going_on_does(
        self, cancer, tmp_path
    ):
        X, y = cancer
        path = tmp_path / "run.json"

        def stopping():
            early = {"early_stopping_rounds": 2, "validation_fraction": 0.3, "learning_rate": 0.9}
            return small(n_estimators=200, **early)

        done = stopping().fit(X, y, resume=path)
        assert done.n_iter_ < 200
        assert "has not improved" in done.stop_reason_
        again = stopping().fit(X, y, resume=path)
        assert again.model_.to_dict() == done.model_.to_dict()
        assert again.stop_reason_ == done.stop_reason_
        more = stopping().fit(X, y, init_model=done)
        assert more.model_.n_iterations > done.model_.n_iterations

    def test_a_checkpoint_is_a_whole_file_and_belongs_to_its_fit(self, cancer, tmp_path):
        X, y = cancer
        path = tmp_path / "model.json"
        done = small(n_estimators=3).fit(X, y, resume=path)
        assert np.array_equal(MVSClassifier.load(path).predict(X), done.predict(X))
        assert small(n_estimators=5).fit(X, y, resume=path).n_iter_ == 5
        with pytest.raises(ParameterError, match=r"learning_rate must be 0\.1.*remove"):
            small(n_estimators=6, learning_rate=0.2).fit(X, y, resume=path)
        with pytest.raises(DataError, match="other data"):
            small(n_estimators=6).fit(X[::-1], y, resume=path)
        with pytest.raises(DataError, match=r"other data \(eval_0: None"):
            small(n_estimators=6).fit(X, y, resume=path, eval_set=[(X, y)])
        with pytest.raises(ParameterError, match=r"n_estimators must be at least 5.*got 4"):
            small(n_estimators=4).fit(X, y, resume=path)
        assert MVSClassifier.load(path).n_iter_ == 5  # nothing is lost

    def test_going_on_keeps_the_classes(self, cancer):
        X, y = cancer
        names = np.array(["a", "b", "c"])[(y + (X[:, 0] > 16)).astype(int)]
        first = small(n_estimators=2).fit(X, names)
        some = names != "a"
        more = small(n_estimators=2).fit(X[some], names[some], init_model=first)
        assert more.classes_.tolist() == ["a", "b", "c"]
        assert more.predict_proba(X).shape == (len(X), 3)
        with pytest.raises(DataError, match="y holds class 'd', which is not among"):
            small().fit(X, np.where(names == "a", "d", names), init_model=first)

    def test_going_on_keeps_the_objective(self, cancer, diabetes):
        X, y = cancer
        numbers = MVSRegressor(n_estimators=1).fit(X, 1000.0 * y)
        with pytest.raises(DataError, match=r"'squared'.*'logistic'"):
            small().fit(X, y, init_model=numbers)
        with pytest.raises(DataError, match=r"'squared'.*'poisson'"):
            MVSRegressor(objective="poisson").fit(X, y, init_model=numbers)

    def test_time_limit(self, cancer):
        X, y = cancer
        clf = small(n_estimators=10**6, callbacks=[TimeLimit(0.05)]).fit(X, y)
        assert 1 <= clf.n_iter_ < 10**6
        assert "time limit" in clf.stop_reason_


class TestPredict:
    def test_staged_and_final_agree(self, cancer):
        X, y = cancer
        clf = small().fit(X, y)
        stages = list(clf.staged_decision_function(X))
        assert len(stages) == 5
        np.testing.assert_array_equal(stages[-1], clf.decision_function(X))
        *_, labels = clf.staged_predict(X)
        np.testing.assert_array_equal(labels, clf.predict(X))

    def test_apply_names_leaves(self, cancer):
        X, y = cancer
        clf = small().fit(X, y)
        leaves = clf.apply(X)
        assert leaves.shape == (len(X), 5)
        for t, (tree,) in enumerate(clf.model_.iterations):
            assert set(np.unique(leaves[:, t])) <= set(range(tree.n_leaves))
            values = tree.value[tree.is_leaf][leaves[:, t]]
            assert len(np.unique(values)) == len(np.unique(leaves[:, t]))

    def test_importances(self, cancer):
        X, y = cancer
        clf = small().fit(X, y)
        assert clf.feature_importances_.sum() == pytest.approx(1.0)
        assert clf.importances("split").sum() == sum(
            tree.n_leaves - 1 for (tree,) in clf.model_.iterations
        )
        assert (clf.importances("cover") >= clf.importances("split")).all()

    def test_monotone_constraints_by_name_and_position(self, diabetes):
        X, y = diabetes
        frame = {f"c{j}": X[:, j] for j in range(X.shape[1])}
        for constraints in ({"c2": 1}, {2: 1}, [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]):
            model = small_regressor(monotone_constraints=constraints, n_estimators=30)
            model.fit(frame, y)
            grid = {name: np.full(50, np.median(column)) for name, column in frame.items()}
            grid["c2"] = np.linspace(X[:, 2].min(), X[:, 2].max(), 50)
            assert (np.diff(model.predict(grid)) >= 0).all()


class TestTables:
    def test_pandas_polars_arrow_and_dict_give_the_same_model(self, cancer):
        pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
        X, y = cancer
        columns = {f"c{j}": X[:, j] for j in range(4)}
        columns["kind"] = np.array(["red", "green", "blue"], object)[np.arange(len(y)) % 3]
        columns["c0"] = np.where(np.arange(len(y)) % 7 == 0, np.nan, columns["c0"])
        plain = {name: column.tolist() for name, column in columns.items()}
        tables = [columns, pd.DataFrame(columns), pl.DataFrame(plain), pa.table(plain)]
        models = [small().fit(table, y) for table in tables]
        assert all(m.model_.to_dict() == models[0].model_.to_dict() for m in models)
        assert models[1].feature_names_in_.tolist() == list(columns)
        for fitted in models:
            predictions = [fitted.predict_proba(table) for table in tables]
            assert all((p == predictions[0]).all() for p in predictions)

    def test_a_dict_goes_by_name_also_after_an_array(self, cancer):
        X, y = cancer
        clf = small().fit(X[:, :3], y)
        columns = {f"f{j}": X[:, j] for j in (2, 0, 1)}
        assert np.array_equal(clf.predict_proba(columns), clf.predict_proba(X[:, :3]))
        with pytest.raises(SchemaError, match="Column 'f0' is missing"):
            clf.predict(dict.fromkeys("abc", X[:, 0]))

    def test_more_categories_than_bins(self):
        rng = np.random.default_rng(0)
        level = rng.normal(size=400)
        codes = rng.integers(0, 400, 3000)
        y = (level[codes] + 0.5 * rng.normal(size=3000) > 0).astype(int)
        X = {"id": np.array([f"v{c}" for c in codes], object), "noise": rng.normal(size=3000)}
        train, test = np.arange(3000) < 2400, np.arange(3000) >= 2400
        clf = small(n_estimators=30).fit({k: v[train] for k, v in X.items()}, y[train])
        assert clf.score({k: v[test] for k, v in X.items()}, y[test]) > 0.75
        assert clf.feature_importances_.shape == (2,)


class TestScikitLearn:
    def test_clone_pickle_joblib(self, cancer, tmp_path):
        X, y = cancer
        clf = small(sampler=MVS(rate=0.4)).fit(X, y)
        copy = clone(clf)
        assert copy.sampler is not clf.sampler
        assert copy.sampler.rate == 0.4
        joblib.dump(clf, tmp_path / "clf.joblib")
        for again in (pickle.loads(pickle.dumps(clf)), joblib.load(tmp_path / "clf.joblib")):
            np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))

    def test_grid_search_over_the_rate(self, cancer):
        X, y = cancer
        search = GridSearchCV(small(sampler=MVS()), {"sampler__rate": [0.1, 0.9]}, cv=2)
        assert search.fit(X, y).best_params_["sampler__rate"] in (0.1, 0.9)

    def test_parallel_cross_validation(self, cancer):
        X, y = cancer
        scores = cross_val_score(small(), X, y, cv=2, n_jobs=2)
        assert (scores > 0.8).all()


class TestFiles:
    @pytest.mark.parametrize("labels", [[0, 1], ["no", "yes"], [False, True], [1.0, 2.0]])
    def test_labels_keep_their_type(self, cancer, tmp_path, labels):
        X, y = cancer
        for dtype in (None, object) if isinstance(labels[0], str) else (None,):
            target = np.array(labels, dtype)[y]
            clf = small().fit(X, target)
            clf.save(tmp_path / "m.json")
            again = MVSClassifier.load(tmp_path / "m.json")
            assert again.classes_.dtype == clf.classes_.dtype
            np.testing.assert_array_equal(again.predict(X), clf.predict(X))

    def test_parameters_come_back(self, diabetes, tmp_path):
        X, y = diabetes
        model = small_regressor(
            sampler=GOSS(top_rate=0.2, other_rate=0.3),
            objective="quantile",
            quantile=0.3,
            monotone_constraints={2: 1},
            categorical_features=[1],
            l2=np.float64(0.5),
        ).fit(X, y)
        model.save(tmp_path / "m.json.gz")
        again = MVSRegressor.load(tmp_path / "m.json.gz")
        assert again.sampler.get_params() == model.sampler.get_params()
        for name in ("objective", "quantile", "monotone_constraints", "categorical_features", "l2"):
            assert getattr(again, name) == getattr(model, name)
        assert again.fit(X, y).model_.to_dict() == model.model_.to_dict()

    def test_numbers_of_numpy_are_written_as_plain_ones(self, diabetes, tmp_path):
        X, y = diabetes
        given = {"order": np.int64(2), "leaf_values": np.str_("all"), "device": np.str_("cpu")}
        sampler = MVS(rate=np.float32(0.5))
        model = small_regressor(sampler=sampler, **given).fit(X, y, resume=tmp_path / "m.json")
        again = MVSRegressor.load(tmp_path / "m.json")
        assert again.sampler.get_params() == MVS(rate=0.5).get_params()
        assert type(again.sampler.rate) is float
        plain = small_regressor(sampler=MVS(rate=0.5)).fit(X, y)
        assert model.model_.to_dict() == plain.model_.to_dict()

    def test_a_sampler_that_cannot_be_written_is_left_out(self):
        given = {"sampler": MVS(lam=float("inf")), "l2": 1.0, "n_jobs": 2}
        assert plain_parameters(given) == ({"l2": 1.0}, ["sampler"])

    def test_a_sampler_of_ones_own_is_not_taken_for_a_built_in_of_its_name(self, cancer, tmp_path):
        class GOSS:
            def probabilities(self, gradients, hessians, iteration):
                return np.full(gradients.shape[1], 0.5)

        small(sampler=GOSS()).fit(*cancer).save(tmp_path / "m.json")
        with pytest.warns(UserWarning, match="sampler has the default now"):
            assert MVSClassifier.load(tmp_path / "m.json").sampler == "mvs"

    @pytest.mark.parametrize("part", ["parameters", "classes", "classes_dtype"])
    def test_a_file_that_lacks_the_estimator(self, cancer, tmp_path, part):
        model = small(n_estimators=1).fit(*cancer).model_
        del model.metadata[part]
        model.save(tmp_path / "m.json")
        with pytest.raises(ModelFormatError, match=rf"m\.json: .*'{part}'"):
            MVSClassifier.load(tmp_path / "m.json")

    def test_wrong_class_of_file(self, diabetes, tmp_path):
        small_regressor().fit(*diabetes).save(tmp_path / "m.json")
        with pytest.raises(ValueError, match="holds MVSRegressor, not MVSClassifier"):
            MVSClassifier.load(tmp_path / "m.json")

    def test_own_objective_predicts_after_loading_but_does_not_train(self, diabetes, tmp_path):
        X, y = diabetes

        class Huber:
            link = "identity"

            def gradients(self, target, scores):
                return np.clip(scores - target, -50, 50), np.ones_like(scores)

        model = small_regressor(objective=Huber()).fit(X, y)
        model.save(tmp_path / "m.json")
        with pytest.warns(UserWarning, match=r"m\.json .*: objective has the default now. Use set"):
            again = MVSRegressor.load(tmp_path / "m.json")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        with pytest.raises(ValueError, match="train"):
            small_regressor(objective=again.model_.objective).fit(X, y)


class SquareLink:
    """A link that no file can bring back."""

    name = "square"

    def link(self, mean):
        return np.sqrt(mean)

    def inverse(self, scores):
        return scores * scores


class SquareLoss:
    link = SquareLink()

    def gradients(self, target, scores):
        return 2 * scores * (scores * scores - target), np.maximum(4 * scores * scores, 1e-3)


def test_an_objective_with_a_link_of_its_own_is_handed_to_load(diabetes, tmp_path):
    X, y = diabetes
    path = tmp_path / "m.json"
    model = small_regressor(objective=SquareLoss()).fit(X, y, resume=path)
    again = MVSRegressor.load(path, objective=SquareLoss())  # without a warning
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    more = small_regressor(objective=SquareLoss(), n_estimators=8).fit(X, y, resume=path)
    assert more.predict(X).shape == y.shape
    with pytest.raises(DataError, match=r"the file was trained for objective 'SquareLoss'"):
        MVSRegressor.load(path, objective="squared")


def test_early_stopping_does_not_watch_the_training_set(cancer):
    X, y = cancer
    options = {"n_estimators": 100, "early_stopping_rounds": 3, "learning_rate": 0.5}
    sets = (X[:300], y[:300]), (X[300:], y[300:])
    alone = small(**options).fit(*sets[0], eval_set=[sets[1]])
    assert alone.best_iteration_ < 90
    both = small(**options).fit(*sets[0], eval_set=[*sets])
    assert both.best_iteration_ == alone.best_iteration_


def test_predictions_of_the_first_iterations(cancer):
    X, y = cancer
    clf = small(n_estimators=6).fit(X, y)
    staged = list(clf.staged_predict_proba(X))
    np.testing.assert_array_equal(clf.predict_proba(X, n_iterations=2), staged[1])
    np.testing.assert_array_equal(clf.predict(X, n_iterations=2), staged[1].argmax(axis=1))
    scores = clf.decision_function(X, n_iterations=2)
    np.testing.assert_array_equal(scores, list(clf.staged_decision_function(X))[1])
    np.testing.assert_array_equal(clf.model_.predict(X, n_iterations=2), staged[1][:, 1])
    with pytest.raises(ParameterError, match="n_iterations must be an integer from 0 to 6"):
        clf.predict(X, n_iterations=7)


@pytest.mark.parametrize("kind", [bool, int, np.int16, float])
def test_labels_may_be_objects(cancer, kind):
    X, y = cancer
    labels = np.array([kind(label) for label in y], object)
    clf = small(n_estimators=2).fit(X, labels, eval_set=[(X, labels)])
    assert clf.classes_.tolist() == [kind(0), kind(1)]
    assert clf.predict(X).dtype.kind == np.dtype(kind).kind
    np.testing.assert_array_equal(
        clf.predict_proba(X), small(n_estimators=2).fit(X, y).predict_proba(X)
    )


def test_own_sampler_learns(cancer):
    X, y = cancer

    class LargeGradients:
        def probabilities(self, gradients, hessians, iteration):
            size = np.abs(gradients).sum(axis=0)
            return np.clip(size / size.max(), 0.05, 1.0)

    clf = small(sampler=LargeGradients(), n_estimators=15, min_samples_leaf=5).fit(X, y)
    assert clf.score(X, y) > 0.9
    assert clf.sampling_history_[0]["max_weight"] >= 1.0


def test_verbose_logs_through_logging(cancer, caplog):
    X, y = cancer
    with caplog.at_level("INFO", logger="mvsboost"):
        small(verbose=2).fit(X, y, eval_set=[(X, y)])
    lines = [record.message for record in caplog.records if record.message.startswith("iteration")]
    assert len(lines) == 2
    assert "eval_0 log_loss" in lines[0]


def test_silent_by_default(cancer, capfd, caplog):
    small().fit(*cancer)
    out, err = capfd.readouterr()
    assert out == ""
    assert [r for r in caplog.records if "compiling" not in r.message] == []
    assert err == "" or "compiling" in err


@pytest.mark.parametrize(
    ("sampler", "n_rows", "expected"),
    [
        (MVS(rate=0.3), 300, 4),
        (MVS(rate=0.3), 400, 0),
        (GOSS(top_rate=0.05, other_rate=0.05), 990, 4),
        (GOSS(top_rate=0.05, other_rate=0.05), 1010, 0),
        (SGB(rate=0.1), 990, 4),
    ],
)
def test_a_handful_of_rows_only_proposes(sampler, n_rows, expected):
    assert MVSClassifier()._look(sampler, n_rows) == expected
    assert MVSClassifier(second_look=2)._look(sampler, n_rows) == 2
    assert MVSClassifier(second_look=0)._look(sampler, n_rows) == 0


def test_parameters_of_a_sampler_that_is_a_name(cancer):
    X, y = cancer
    search = GridSearchCV(small(), {"sampler__rate": [0.1, 0.5]}, cv=2).fit(X, y)
    assert search.best_estimator_.sampler.rate in (0.1, 0.5)
    assert search.best_estimator_.sampling_history_[0]["rate"] in (0.1, 0.5)
    named = small().set_params(sampler="goss", sampler__top_rate=0.3).sampler
    assert (type(named), named.top_rate) == (GOSS, 0.3)
    with pytest.raises(ParameterError, match="magic"):
        small().set_params(sampler="magic", sampler__rate=0.1)


@pytest.mark.filterwarnings("error")
def test_an_objective_of_the_library_is_in_the_file(diabetes, tmp_path):
    X, y = diabetes
    small_regressor(objective=Quantile(0.9)).fit(X, y).save(tmp_path / "model.json")
    again = MVSRegressor.load(tmp_path / "model.json")
    assert again.objective.to_dict() == Quantile(0.9).to_dict()
    assert again.fit(X, y).model_.objective.to_dict() == Quantile(0.9).to_dict()


def test_weights_of_classes_in_any_mapping_are_in_the_file(cancer, tmp_path):
    X, y = cancer
    weights = MappingProxyType({0: 2.0, 1: 1.0})
    small(class_weight=weights).fit(X, y).save(tmp_path / "model.json")
    assert MVSClassifier.load(tmp_path / "model.json").class_weight == {0: 2.0, 1: 1.0}


# --- one model at a time --------------------------------------------------------------------------


@pytest.fixture
def two_fits():
    """A classifier, rows, and two ways to fit it that share neither classes nor trees."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    two = np.where(X[:, 0] > 0, "a", "b")
    three = np.array(["c", "d", "e"])[np.digitize(X[:, 1], [-0.5, 0.5])]
    clf = MVSClassifier(n_estimators=3)
    return clf, X, lambda: clf.fit(X, two), lambda: clf.fit(X, three)


@pytest.mark.parametrize(
    "ask",
    [
        MVSClassifier.predict,
        MVSClassifier.predict_proba,
        MVSClassifier.decision_function,
        MVSClassifier.apply,
        lambda clf, X: list(clf.staged_predict(X)),
        lambda clf, X: list(clf.staged_predict_proba(X)),
    ],
)
def test_a_refit_does_not_come_between_the_lines_of_a_prediction(ask, two_fits, monkeypatch):
    clf, X, fit_two, fit_three = two_fits
    fit_two()
    expected, bin_rows = ask(clf, X), Model.bin

    def refit_meanwhile(self, *arguments):
        bins = bin_rows(self, *arguments)
        monkeypatch.undo()
        fit_three()
        return bins

    monkeypatch.setattr(Model, "bin", refit_meanwhile)
    np.testing.assert_array_equal(ask(clf, X), expected)
    assert set(clf.predict(X)) <= set(clf.classes_) == {"c", "d", "e"}


def test_a_fit_under_way_changes_nothing_yet(two_fits):
    clf, X, fit_two, fit_three = two_fits
    fit_two()
    expected, seen = clf.predict(X), []

    class Asks(Callback):
        def after_iteration(self, progress):
            seen.append(clf.predict(X))

    clf.set_params(callbacks=[Asks()])
    fit_three()
    assert len(seen) == 3
    assert all((labels == expected).all() for labels in seen)
    assert set(clf.predict(X)) <= {"c", "d", "e"}


def test_a_fit_forgets_names_of_columns_that_have_none_now():
    pd = pytest.importorskip("pandas")
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    clf = MVSClassifier(n_estimators=1).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    assert clf.feature_names_in_.tolist() == ["a", "b"]
    assert not hasattr(clf.fit(X, y), "feature_names_in_")


# --- continuing on columns of many categories -----------------------------------------------------


@pytest.fixture(scope="module")
def table():
    """Ids without a meaning, more than bins, beside one column that has one."""
    rng = np.random.default_rng(0)
    x, ids = rng.normal(size=1200), [f"id {i}" for i in rng.integers(0, 500, 1200)]
    y = (x + rng.normal(size=1200) > 0).astype(int)
    return {"id": np.array(ids, object), "x": x}, y


class TestContinuedStatistics:
    @staticmethod
    def rows(table, which):
        X, y = table
        return {name: column[which] for name, column in X.items()}, y[which]

    def test_the_same_rows_get_the_same_bins_again(self, table, tmp_path):
        X, y = table
        whole = small(n_estimators=10).fit(X, y)
        half = small(n_estimators=5).fit(X, y)
        half.save(tmp_path / "half.json")
        for start in (half, half.model_, tmp_path / "half.json"):
            seen = small(n_estimators=5).fit(X, y, init_model=start)
            assert (seen.predict_proba(X) == whole.predict_proba(X)).all()

    def test_rows_set_aside_are_set_aside_again(self, table):
        X, y = table
        settings = {"validation_fraction": 0.25, "n_estimators": 4}
        half = small(**settings).fit(X, y)
        seen = small(**settings).fit(X, y, init_model=half)
        whole = small(**{**settings, "n_estimators": 8}).fit(X, y)
        assert (seen.predict_proba(X) == whole.predict_proba(X)).all()

    def test_the_same_rows_with_other_weights_see_no_targets_of_their_own(self, table):
        X, y = table
        half = small(n_estimators=5).fit(X, y)
        weight = np.where(y == 1, 2.0, 1.0)
        seen = small(n_estimators=20).fit(X, y, weight, init_model=half)
        assert seen.importances("gain")[0] < 0.5 * seen.importances("gain")[1]

    def test_a_seed_that_nobody_named_is_known_again(self, table):
        X, y = table
        half = small(random_state=None).fit(X, y)
        seen = small(random_state=None).fit(X, y, init_model=half)
        assert seen.model_.n_iterations == 10

    @pytest.mark.parametrize("which", [slice(0, 1100), np.s_[::-1]], ids=["some", "turned"])
    def test_rows_that_may_be_the_same_are_warned_about(self, which, table):
        half = small().fit(*table)
        X, y = self.rows(table, which)
        with pytest.warns(UserWarning, match=r"columns \['id'\] have more categories than bins"):
            small().fit(X, y, init_model=half)

    def test_a_file_that_does_not_say_which_rows_it_is_of_is_warned_about(self, table):
        X, y = table
        state = small().fit(X, y).model_.to_dict()
        del state["mapper"]["training"]
        with pytest.warns(UserWarning, match="see their own target"):
            small().fit(X, y, init_model=Model.from_dict(state))

    def test_rows_of_new_categories_are_not(self, table):
        half = small().fit(*table)
        X, y = table
        X = {**X, "id": np.array([f"new {i}" for i in range(len(y))], object)}
        assert small().fit(X, y, init_model=half).model_.n_iterations == 10

    def test_a_data_set_in_which_rows_see_themselves_is_no_place_to_continue(self, table):
        X, y = table
        model = small().fit(X, y).model_
        options = {"n_classes": 2, "mapper": model.mapper, "schema": model.schema}
        config = TrainConfig(Logistic(), MVS(), n_estimators=2)
        with pytest.raises(DataError, match="for_training=True"):
            train(Dataset.from_data(X, y, **options), config, init_model=model)
        data = Dataset.from_data(X, y, for_training=True, **options)
        assert train(data, config, init_model=model).model.n_iterations == 7
