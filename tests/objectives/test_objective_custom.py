"""A user's own objective: what is accepted, and what each mistake is answered with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mvsboost.boosting import train
from mvsboost.data import Dataset
from mvsboost.errors import DataError, ObjectiveError, ParameterError
from mvsboost.objectives import (
    CustomObjective,
    IdentityLink,
    Logistic,
    LogitLink,
    LogLink,
    Poisson,
    Softmax,
    Squared,
    make_objective,
    objective_from_dict,
)
from mvsboost.sampling import MVS

TARGET = np.array([0.0, 1.0, 1.0, 0.0])
SCORES = np.array([[0.3, -0.2, 1.0, 0.0]])


class Own:
    """Squared error in the user's words; `returns` replaces what it gives."""

    name = "own"

    def __init__(self, returns: Any = None, **attributes: Any) -> None:
        self.returns = returns
        self.__dict__.update(attributes)

    def gradients(self, target: np.ndarray, scores: np.ndarray) -> Any:
        if self.returns is not None:
            return self.returns
        return scores - target, np.ones_like(scores)


class Pair:
    link = "logit"

    def gradient(self, target: np.ndarray, score: np.ndarray) -> np.ndarray:
        return Logistic().gradients(target, score[np.newaxis])[0][0]

    def hessian(self, target: np.ndarray, score: np.ndarray) -> np.ndarray:
        return Logistic().gradients(target, score[np.newaxis])[1][0]


def test_an_object_with_gradients() -> None:
    own = make_objective(Own())
    for a, b in zip(
        own.gradients(TARGET, SCORES), Squared().gradients(TARGET, SCORES), strict=True
    ):
        assert np.array_equal(a, b)
    assert own.name == "own"
    assert own.link == IdentityLink()
    assert not own.is_classifier
    assert own.default_metric == "rmse"
    assert own.baseline(np.array([2.5]), lambda alpha: 0.0) == [2.5]


def test_an_object_with_gradient_and_hessian() -> None:
    pair = make_objective(Pair(), n_classes=2)
    for a, b in zip(
        pair.gradients(TARGET, SCORES), Logistic().gradients(TARGET, SCORES), strict=True
    ):
        assert a.shape == (1, 4)
        assert np.array_equal(a, b)
    assert pair.name == "Pair"
    assert pair.is_classifier
    assert pair.default_metric == "log_loss"
    assert pair.baseline(np.array([0.5]), lambda alpha: 0.0) == [0.0]


def test_gradient_and_hessian_of_several_outputs_see_all_scores() -> None:
    class Several:
        n_outputs = 3

        def gradient(self, target: np.ndarray, score: np.ndarray) -> np.ndarray:
            return score - target

        def hessian(self, target: np.ndarray, score: np.ndarray) -> np.ndarray:
            return np.ones_like(score)

    objective = make_objective(Several(), n_classes=3)
    assert objective.gradients(TARGET, np.zeros((3, 4)))[0].shape == (3, 4)
    assert objective.default_metric == "error"


def test_integers_lists_and_flat_arrays_become_float_rows() -> None:
    g, h = CustomObjective(Own(([1, 2, 3, 4], np.ones(4, dtype=bool)))).gradients(TARGET, SCORES)
    assert g.dtype == h.dtype == np.float64
    assert g.tolist() == [[1, 2, 3, 4]]
    assert h.shape == (1, 4)


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        ((np.ones(3), np.ones(4)), r"'own': the gradient must have shape \(1, 4\) or \(4,\), got"),
        ((np.ones(4), np.ones((4, 1))), r"the hessian must have shape .*got \(4, 1\)"),
        ((np.ones(4), 1.0), r"the hessian must have shape .*got \(\)"),
        ((np.ones(4), None), r"the hessian must hold real numbers, got an object of type NoneType"),
        ((np.ones(4, complex), np.ones(4)), r"real numbers, got an array of dtype complex128"),
        (([[1], [2, 3]], np.ones(4)), r"the gradient must hold real numbers"),
        ((np.ones(4),), r"must return two arrays.*got an object of type tuple"),
        (np.ones((2, 4)), r"must return two arrays.*got an array of dtype float64"),
        (3, r"must return two arrays.*got an object of type int"),
    ],
)
def test_wrong_results(returns: Any, message: str) -> None:
    with pytest.raises(ObjectiveError, match=message):
        CustomObjective(Own(returns)).gradients(TARGET, SCORES)


def test_several_outputs_need_the_full_shape() -> None:
    objective = CustomObjective(Own((np.ones(4), np.ones(4)), n_outputs=2))
    with pytest.raises(ObjectiveError, match=r"must have shape \(2, 4\), got \(4,\)"):
        objective.gradients(TARGET, np.zeros((2, 4)))


def test_the_user_can_neither_change_nor_share_our_arrays() -> None:
    class Writes:
        def gradients(self, target: np.ndarray, scores: np.ndarray) -> Any:
            scores -= target
            return scores, scores

    with pytest.raises(ValueError, match="read-only"):
        CustomObjective(Writes()).gradients(TARGET, SCORES.copy())
    kept = np.ones((1, 4))
    g, h = CustomObjective(Own((kept, kept))).gradients(TARGET, SCORES)
    g *= 5
    assert h.tolist() == kept.tolist() == [[1.0] * 4]


@pytest.mark.parametrize("spec", [object(), 3, None, Own, lambda y, f: (f, f)])
def test_things_that_are_no_objective(spec: Any) -> None:
    with pytest.raises(ParameterError, match="objective must be a name, an Objective, or an inst"):
        make_objective(spec)


def test_a_gradient_without_a_hessian_is_no_objective() -> None:
    class Half:
        gradient = Pair.gradient

    with pytest.raises(ParameterError, match="both gradient"):
        make_objective(Half())


@pytest.mark.parametrize("n_outputs", [0, -1, 1.5, True, "2"])
def test_wrong_number_of_outputs(n_outputs: Any) -> None:
    with pytest.raises(ParameterError, match=r"objective.n_outputs must be a positive"):
        make_objective(Own(n_outputs=n_outputs))


def test_links_of_custom_objectives() -> None:
    assert make_objective(Own(link="log")).link == LogLink()
    assert make_objective(Own(link="log")).default_metric == "poisson_deviance"
    assert make_objective(Own(link=LogitLink())).is_classifier
    assert not make_objective(Own(link="logit", is_classifier=False)).is_classifier
    with pytest.raises(ParameterError, match="link must be one of"):
        make_objective(Own(link="probit"))
    for link in (3, LogitLink, np.exp):
        with pytest.raises(ParameterError, match=r"objective.link must be"):
            make_objective(Own(link=link))


def test_a_link_of_ones_own_needs_a_name_of_its_own() -> None:
    class Temper(LogitLink):
        def inverse(self, scores: np.ndarray) -> np.ndarray:
            return super().inverse(scores / 2.0)

    with pytest.raises(ParameterError, match=r"objective.link.name must be another .*'logit'"):
        make_objective(Own(link=Temper()))
    for name in (None, "", 3):
        wrong = type("Wrong", (Temper,), {"name": name})()
        with pytest.raises(ParameterError, match=r"objective.link.name must be a text that is"):
            make_objective(Own(link=wrong))
    renamed = type("Renamed", (Temper,), {"name": "temper"})()
    assert make_objective(Own(link=renamed)).link is renamed


@pytest.mark.parametrize(
    ("attributes", "step"),
    [
        ({}, np.inf),
        ({"link": "logit"}, Logistic.max_step),
        ({"link": "multinomial", "n_outputs": 3}, Softmax.max_step),
        ({"link": "log"}, Poisson.max_step),
        ({"link": "log", "max_step": 0.5}, 0.5),
        ({"link": "log", "max_step": np.float32(2)}, 2.0),
        ({"link": "log", "max_step": np.inf}, np.inf),
    ],
)
def test_steps_are_bounded_as_those_of_built_in_objectives(
    attributes: dict[str, Any], step: float
) -> None:
    assert make_objective(Own(**attributes)).max_step == step


@pytest.mark.parametrize("step", [0, -1.0, np.nan, "3", True])
def test_wrong_steps(step: Any) -> None:
    with pytest.raises(ParameterError, match=r"objective.max_step must be a positive number"):
        make_objective(Own(max_step=step))


def test_own_poisson_is_as_safe_as_the_built_in_one(make_data: Any, make_config: Any) -> None:
    class OwnPoisson:
        link = "log"

        def gradients(self, target: np.ndarray, scores: np.ndarray) -> Any:
            return Poisson().gradients(target, scores)

    def trees(objective: Any) -> Any:
        options = {"n_estimators": 8, "leaf_values": "sample", "learning_rate": 0.5}
        model = train(data, make_config(make_objective(objective), MVS(0.05), **options)).model
        return model.to_dict()["iterations"]

    data = make_data("poisson")
    unbounded = OwnPoisson()
    unbounded.max_step = np.inf  # type: ignore[attr-defined]
    assert trees(OwnPoisson()) == trees("poisson")
    assert trees(unbounded) != trees("poisson")  # so the bound is met at all


def test_a_log_link_needs_a_positive_mean() -> None:
    own = make_objective(Own(link="log"))
    with pytest.raises(DataError, match="mean of the target must be positive for link 'log'"):
        own.baseline(np.array([-0.5]), lambda alpha: 0.0)


def test_a_link_must_give_a_finite_baseline() -> None:
    class Root:
        name = "root"

        def link(self, mean: np.ndarray) -> np.ndarray:
            return np.where(mean < 0, np.nan, np.sqrt(np.abs(mean)))

        def inverse(self, scores: np.ndarray) -> np.ndarray:
            return scores**2

    own = make_objective(Own(link=Root()))
    assert own.baseline(np.array([4.0]), lambda alpha: 0.0) == [2.0]
    with pytest.raises(ObjectiveError, match="'own': the baseline must be 1 finite"):
        own.baseline(np.array([-4.0]), lambda alpha: 0.0)


def test_leaf_quantiles_of_an_object() -> None:
    assert make_objective(Own(leaf_quantile=0.2)).leaf_quantile == 0.2
    assert make_objective(Own()).leaf_quantile is None
    with pytest.raises(ParameterError, match=r"objective.leaf_quantile .*got 1.0"):
        make_objective(Own(leaf_quantile=1.0))


def test_own_baseline() -> None:
    own = make_objective(Own(baseline=lambda means, quantile: means[0] + quantile(0.25)))
    assert own.baseline(np.array([1.0]), lambda alpha: 10 * alpha).tolist() == [3.5]
    for bad in (np.nan, [1.0, 2.0], [[1.0]]):
        wrong = make_objective(Own(baseline=lambda means, quantile, bad=bad: bad))
        with pytest.raises(ObjectiveError, match=r"'own': the baseline must be 1 finite"):
            wrong.baseline(np.array([1.0]), lambda alpha: 0.0)


def test_a_target_that_is_no_float32(make_config: Any) -> None:
    own = make_objective(Own(baseline=lambda means, quantile: quantile(0.5)))
    data = Dataset.from_data(np.arange(20.0)[:, np.newaxis], np.full(20, 1e39))
    with pytest.raises(DataError, match=r"within ±1e\+38, got 1e\+39 in row 0"):
        train(data, make_config(own))


def test_own_loss() -> None:
    own = make_objective(Own(loss=lambda target, scores: (scores - target) ** 2))
    assert own.default_metric == "loss"
    assert own.loss(TARGET, SCORES).shape == (4,)
    wrong = make_objective(Own(loss=lambda target, scores: 1.0))
    with pytest.raises(ObjectiveError, match=r"the loss must have shape \(4,\).*got \(\)"):
        wrong.loss(TARGET, SCORES)
    without = make_objective(Own())
    assert not without.has_loss
    with pytest.raises(ObjectiveError, match="'own' has no loss"):
        without.loss(TARGET, SCORES)


def test_restored_from_a_file_it_predicts_but_does_not_train() -> None:
    saved = make_objective(Pair(), n_classes=2).to_dict()
    restored = objective_from_dict(saved)
    assert restored.to_dict() == saved
    assert restored.link.inverse(np.zeros((1, 1))) == [[0.5]]
    assert restored.is_classifier
    for attempt in (
        lambda: restored.gradients(TARGET, SCORES),
        lambda: restored.baseline(np.ones(1), lambda alpha: 0.0),
    ):
        with pytest.raises(ObjectiveError, match="'Pair' comes from a model file"):
            attempt()


def test_a_users_own_link_is_missed_when_it_is_needed() -> None:
    class Cube:
        name = "cube"

        def link(self, mean: np.ndarray) -> np.ndarray:
            return np.cbrt(mean)

        def inverse(self, scores: np.ndarray) -> np.ndarray:
            return scores**3

    own = make_objective(Own(link=Cube()))
    assert own.baseline(np.array([8.0]), lambda alpha: 0.0) == pytest.approx([2.0])
    restored = objective_from_dict(own.to_dict())
    assert restored.to_dict() == own.to_dict()
    for use in (restored.link.inverse, restored.link.link):
        with pytest.raises(ObjectiveError, match="link 'cube' of objective 'own'"):
            use(SCORES)


def test_repr_names_the_source() -> None:
    assert "Own" in repr(make_objective(Own()))
    assert repr(objective_from_dict(make_objective(Pair()).to_dict())) == (
        "RestoredObjective('Pair', 'logit')"
    )
