"""Callbacks: early stopping, resuming, time, logs and bars."""

from __future__ import annotations

import copy
import io
import logging
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from mvsboost import callbacks as module
from mvsboost.boosting import TrainConfig, train
from mvsboost.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    LogProgress,
    Progress,
    ProgressBar,
    TimeLimit,
)
from mvsboost.data import Dataset
from mvsboost.errors import ParameterError
from mvsboost.metrics import Metric, get_metric
from mvsboost.model import Model
from mvsboost.objectives import CustomObjective, Logistic, Squared
from mvsboost.sampling import GOSS, MVS, NoSampling


class Recorder(Callback):
    """Notes every call."""

    def __init__(self):
        self.calls = []

    def begin(self, progress):
        self.held_out = progress.held_out
        self.calls.append(("begin", progress.iteration))

    def after_iteration(self, progress):
        self.calls.append(("after", progress.iteration))

    def end(self, progress):
        self.calls.append(("end", progress.iteration))


class StopAt(Callback):
    """Stops after the iteration of this number."""

    def __init__(self, iteration, reason="enough"):
        self.iteration, self.reason = iteration, reason

    def after_iteration(self, progress):
        return self.reason if progress.iteration == self.iteration else None


def scripted(values, greater_is_better=False):
    """A metric that takes these values in turn, whatever the predictions."""
    remaining = iter(values)
    return Metric("scripted", lambda y, p: next(remaining), greater_is_better)


@pytest.fixture(scope="module")
def data(make_data):
    return make_data("logistic")


@pytest.fixture(scope="module")
def valid(make_data, data):
    return make_data("logistic", 150, seed=1, like=data)


@pytest.fixture(scope="module")
def slow(make_config):
    """Configurations that overfit soon, so that a validation loss turns."""

    def make(n_estimators, **options):
        metrics = [get_metric("log_loss", Logistic())]
        settings = {"learning_rate": 0.5, "metrics": metrics, "max_leaves": 12, **options}
        return make_config(Logistic(), MVS(0.5), n_estimators=n_estimators, **settings)

    return make


# --- the order of calls --------------------------------------------------------------------------


def test_calls_in_their_order(data, make_config):
    recorder = Recorder()
    train(data, make_config(n_estimators=2), callbacks=[recorder])
    assert recorder.calls == [("begin", -1), ("after", 0), ("after", 1), ("end", 1)]


def test_all_callbacks_run_in_the_iteration_that_stops(data, make_config):
    before, after = Recorder(), Recorder()
    callbacks = [before, StopAt(1), StopAt(1, "another"), after]
    result = train(data, make_config(n_estimators=5), callbacks=callbacks)
    assert result.stop_reason == "enough"
    assert result.model.n_iterations == 2
    assert before.calls == after.calls
    assert after.calls[-2:] == [("after", 1), ("end", 1)]


def test_numbers_go_on_in_a_continued_run(data, make_config):
    first = train(data, make_config(n_estimators=2)).model
    recorder = Recorder()
    train(data, make_config(n_estimators=2), callbacks=[recorder], init_model=first)
    assert recorder.calls == [("begin", 1), ("after", 2), ("after", 3), ("end", 3)]
    assert first.n_iterations == 2


def test_progress_tells_the_latest_values(data, valid, slow):
    seen = []

    class Look(Callback):
        def after_iteration(self, progress):
            seen.append((progress.latest(), progress.n_iterations, progress.sample["rows"]))

    result = train(data, slow(2), eval_sets={"valid": valid}, callbacks=[Look()])
    history = result.model.history["valid"]["log_loss"]
    assert [s[0]["valid log_loss"] for s in seen] == history
    assert [s[1] for s in seen] == [2, 2]
    assert [s[2] for s in seen] == [record["rows"] for record in result.sampling_history]


# --- early stopping ------------------------------------------------------------------------------


def stopped(data, make_config, values, **options):
    greater = options.pop("greater_is_better", False)
    config = make_config(n_estimators=len(values), metrics=[scripted(values, greater)])
    return train(data, config, eval_sets={"valid": data}, callbacks=[EarlyStopping(**options)])


def test_stops_when_nothing_improves(data, make_config):
    result = stopped(data, make_config, [5.0, 3.0, 4.0, 3.5, 3.0, 1.0], rounds=3)
    assert result.model.n_iterations == 5
    assert result.model.best_iteration == 2
    assert "has not improved for 3 iterations" in result.stop_reason
    assert "valid scripted" in result.stop_reason


def test_an_improvement_starts_the_count_anew(data, make_config):
    result = stopped(data, make_config, [5.0, 6.0, 4.0, 6.0, 3.0, 6.0], rounds=2)
    assert result.model.n_iterations == 6
    assert result.model.best_iteration == 5
    assert result.stop_reason == "all iterations done"


def test_direction_of_the_metric(data, make_config):
    result = stopped(data, make_config, [1.0, 3.0, 2.0, 2.5], rounds=2, greater_is_better=True)
    assert result.model.best_iteration == 2
    assert result.model.n_iterations == 4


def test_small_changes_are_none(data, make_config):
    values = [5.0, 4.99, 4.98, 4.97]
    assert stopped(data, make_config, values, rounds=2, min_delta=0.1).model.n_iterations == 3
    assert stopped(data, make_config, values, rounds=2).model.n_iterations == 4


def test_a_value_that_is_no_number_is_never_the_best(data, make_config):
    result = stopped(data, make_config, [np.nan, 3.0, 2.0, 4.0, 5.0], rounds=2)
    assert result.model.best_iteration == 3
    assert result.model.n_iterations == 5


@pytest.mark.parametrize("greater", [False, True])
@pytest.mark.parametrize("bad", ["no number", "infinitely bad"])
def test_iterations_without_a_best_count_as_well(bad, greater, data, make_config):
    """A metric that never says anything does not keep training alive."""
    value = np.nan if bad == "no number" else (-np.inf if greater else np.inf)
    result = stopped(data, make_config, [value] * 6, rounds=3, greater_is_better=greater)
    assert result.model.n_iterations == 3
    assert "has not improved for 3 iterations" in result.stop_reason
    assert result.model.best_iteration is None  # predictions use all trees: none is known better
    assert result.model.used_iterations() == 3


def test_an_infinitely_good_value_is_not_beaten_after_a_file(data, make_config, tmp_path):
    values = [2.0, -np.inf, 1.0, 1.0, 1.0, 1.0]
    config = make_config(n_estimators=3, metrics=[scripted(values[:3])])
    callbacks = [EarlyStopping(3), Checkpoint(tmp_path / "m.json")]
    train(data, config, eval_sets={"valid": data}, callbacks=callbacks)
    start = Model.load(tmp_path / "m.json")
    config = make_config(n_estimators=3, metrics=[scripted(values[3:])])
    rest = {"eval_sets": {"valid": data}, "callbacks": [EarlyStopping(3)]}
    model = train(data, config, init_model=start, resume=True, **rest).model
    assert model.best_iteration == 2
    assert model.n_iterations == 5


def test_set_and_metric_can_be_named(data, valid, slow):
    metrics = [get_metric(name, Logistic()) for name in ("auc", "log_loss")]
    callback = EarlyStopping(2, data="b", metric="log_loss")
    config = slow(15, metrics=metrics)
    result = train(data, config, eval_sets={"a": data, "b": valid}, callbacks=[callback])
    assert "b log_loss" in result.stop_reason
    values = result.model.history["b"]["log_loss"]
    assert result.model.best_iteration == int(np.argmin(values)) + 1


@pytest.mark.parametrize("first", ["train", "v"])
def test_the_training_set_itself_is_not_watched(data, valid, slow, first):
    sets = {"train": data, "v": valid}
    sets = {first: sets[first], **sets}
    both = train(data, slow(60), eval_sets=sets, callbacks=[EarlyStopping(2)]).model
    alone = train(data, slow(60), eval_sets={"v": valid}, callbacks=[EarlyStopping(2)]).model
    assert both.best_iteration == alone.best_iteration < 60
    named = EarlyStopping(2, data="train")
    assert train(data, slow(60), eval_sets=sets, callbacks=[named]).model.best_iteration == 60


def test_training_rows_are_known_by_what_no_target_is_in(make_config):
    """Of many categories a training row has means of other rows' targets, and others else."""
    rng = np.random.default_rng(3)
    user = rng.integers(0, 400, 1500).astype(str)
    a, y = rng.normal(size=1500), rng.integers(0, 2, 1500)

    def part(rows, **binning):
        return Dataset.from_data(
            {"a": a[rows], "user": user[rows]}, y[rows], n_classes=2, **binning
        )

    seen, new = slice(0, 1000), slice(1000, None)
    training = part(seen)
    binning = {"mapper": training.mapper, "schema": training.schema}
    sets = {"same": part(seen, **binning), "other": part(new, **binning)}
    assert not np.array_equal(sets["same"].rows.bins, training.rows.bins)
    assert training.mapper.of_target.tolist() == [False, True, False]
    watching = Recorder()
    config = make_config(objective=Logistic(), n_estimators=1)
    train(training, config, eval_sets=sets, callbacks=[watching])
    assert watching.held_out == ("other",)


def test_the_training_set_is_watched_where_there_is_no_other(data, slow):
    model = train(data, slow(4), eval_sets={"train": data}, callbacks=[EarlyStopping(2)]).model
    assert model.best_iteration == 4


def test_nothing_to_watch_is_an_error(data, make_config):
    with pytest.raises(ParameterError, match="early_stopping_rounds"):
        train(data, make_config(), callbacks=[EarlyStopping(5)])


def test_metrics_without_a_set_are_nothing_to_watch(data, slow):
    with pytest.raises(ParameterError, match="eval_set"):
        train(data, slow(3), callbacks=[EarlyStopping(5)])


@pytest.mark.parametrize("wrong", [{"metric": "auc"}, {"data": "test"}])
def test_an_unknown_name_is_an_error(data, valid, slow, wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        train(data, slow(3), eval_sets={"v": valid}, callbacks=[EarlyStopping(5, **wrong)])


@pytest.mark.parametrize(
    "make",
    [
        lambda: EarlyStopping(0),
        lambda: TimeLimit(0),
        lambda: TimeLimit(-1.0),
        lambda: Checkpoint("x", every=0),
        lambda: LogProgress(0),
        lambda: LogProgress("a"),
        lambda: EarlyStopping(3, min_delta="a"),
        lambda: EarlyStopping(3, min_delta=-1.0),
        lambda: EarlyStopping(3, min_delta=float("nan")),
    ],
)
def test_parameters_are_checked(make):
    own = r"^(early_stopping_rounds|\w+\.(seconds|every|min_delta)) must be "
    with pytest.raises(ParameterError, match=own):
        make()


def test_a_checkpoint_needs_a_folder_before_the_first_tree(data, make_config, tmp_path):
    recorder, lost = Recorder(), Checkpoint(tmp_path / "no" / "run.json")
    with pytest.raises(ParameterError, match=r"Checkpoint\.path must be in a folder that exists"):
        train(data, make_config(n_estimators=2), callbacks=[recorder, lost])
    assert recorder.calls == [("begin", -1), ("end", -1)]


# --- resuming ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [MVS(0.4), GOSS(), MVS(0.4, "root")], ids=repr)
@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_a_resumed_run_ends_in_the_same_file(sampler, suffix, data, tmp_path, make_config):
    path, whole = tmp_path / f"part.{suffix}", tmp_path / f"whole.{suffix}"
    config = make_config(Logistic(), sampler, n_estimators=5, colsample=0.5, second_look=1)
    train(data, config).model.save(whole)
    callbacks = [Checkpoint(path, every=2), StopAt(2)]
    train(data, config, callbacks=callbacks)
    start = Model.load(path)
    assert start.n_iterations == 3
    rest = make_config(Logistic(), sampler, n_estimators=2, colsample=0.5, second_look=1)
    train(data, rest, init_model=start, callbacks=[Checkpoint(path)])
    assert path.read_bytes() == whole.read_bytes()


class Crash(Callback):
    """Ends the process, as it were, so that only checkpoints are left."""

    def __init__(self, iteration):
        self.iteration = iteration

    def after_iteration(self, progress):
        if progress.iteration == self.iteration:
            raise KeyboardInterrupt


@pytest.mark.parametrize("checkpoint_first", [False, True])
@pytest.mark.parametrize("cut", range(2, 10))
def test_early_stopping_goes_on_as_if_never_cut(
    cut, checkpoint_first, data, valid, slow, tmp_path, model_bytes
):
    """Cut after any iteration and with callbacks in any order, the run ends the same."""
    whole = train(data, slow(20), eval_sets={"v": valid}, callbacks=[EarlyStopping(4)])
    assert cut < whole.model.n_iterations < 20
    path = tmp_path / "part.json"
    callbacks = [EarlyStopping(4), Checkpoint(path, every=1)]
    callbacks = callbacks[::-1] if checkpoint_first else callbacks
    with pytest.raises(KeyboardInterrupt):
        train(data, slow(20), eval_sets={"v": valid}, callbacks=[*callbacks, Crash(cut - 1)])
    start = Model.load(path)
    assert start.n_iterations == cut
    on = {"eval_sets": {"v": valid}, "init_model": start, "resume": True}
    rest = train(data, slow(20 - cut), callbacks=callbacks, **on)
    assert model_bytes(rest.model) == model_bytes(whole.model)
    assert rest.stop_reason == whole.stop_reason


def test_a_run_that_was_stopped_early_is_done(data, valid, slow, tmp_path, model_bytes):
    """Resumed it adds no tree, and says again why; without early stopping it goes on."""
    path = tmp_path / "done.json"
    sets, callbacks = {"v": valid}, [EarlyStopping(4), Checkpoint(path)]
    whole = train(data, slow(20), eval_sets=sets, callbacks=callbacks)
    left = 20 - whole.model.n_iterations
    assert left > 0
    start = Model.load(path)
    on = {"eval_sets": sets, "init_model": start}
    again = train(data, slow(left), callbacks=callbacks, resume=True, **on)
    assert model_bytes(again.model) == model_bytes(whole.model)
    assert again.stop_reason == whole.stop_reason
    assert again.sampling_history == []
    assert train(data, slow(left), resume=True, **on).model.n_iterations == 20


@pytest.mark.parametrize("sampler", [NoSampling(), GOSS(0.2, 0.3, warmup=1)], ids=repr)
def test_a_run_that_found_no_split_is_done(sampler, make_data, make_config, tmp_path, model_bytes):
    data = make_data("logistic", 60)
    config = make_config(Logistic(), sampler, min_samples_leaf=31, n_estimators=50)
    path = tmp_path / "m.json"
    done = train(data, config, callbacks=[Checkpoint(path)])
    again = train(data, config, init_model=Model.load(path), resume=True)
    assert again.stop_reason == done.stop_reason == "no split improves the loss"
    assert model_bytes(again.model) == model_bytes(done.model)


def test_a_model_that_was_stopped_early_can_be_continued(data, valid, slow):
    """Trees that are asked for are tried, and the best is looked for among them."""
    sets, stopping = {"v": valid}, [EarlyStopping(4)]
    first = train(data, slow(20), eval_sets=sets, callbacks=stopping).model
    longer = train(data, slow(5), eval_sets=sets, callbacks=stopping, init_model=first).model
    assert longer.n_iterations > first.n_iterations
    assert longer.best_iteration > first.n_iterations


def test_a_continued_model_has_the_history_of_its_own_run(data, make_config):
    """The sets of both runs have one name, and that of the first run has the better values."""
    first_config = make_config(n_estimators=3, metrics=[scripted([0.3, 0.2, 0.1])])
    first = train(data, first_config, eval_sets={"v": data}).model
    config = make_config(n_estimators=4, metrics=[scripted([9.0, 8.0, 7.0, 6.0])])
    on = {"eval_sets": {"v": data}, "init_model": first}
    result = train(data, config, callbacks=[EarlyStopping(2)], **on)
    assert result.model.history == {"v": {"scripted": [9.0, 8.0, 7.0, 6.0]}}
    assert result.model.best_iteration == result.model.n_iterations == 7
    assert first.history == {"v": {"scripted": [0.3, 0.2, 0.1]}}


def test_a_resumed_run_tells_no_values_of_sets_it_does_not_have(data, valid, slow, caplog):
    first = train(data, slow(2), eval_sets={"old": valid}).model
    with caplog.at_level(logging.INFO, logger="mvsboost"):
        on = {"eval_sets": {"new": valid}, "init_model": first, "resume": True}
        result = train(data, slow(1), callbacks=[LogProgress(1)], **on)
    assert set(result.model.history) == {"old", "new"}
    assert "new log_loss" in caplog.text
    assert "old log_loss" not in caplog.text


def test_a_callback_may_have_a_reason_not_to_start(data, make_config):
    heard = []

    class Never(Callback):
        def begin(self, progress):
            heard.append("begin")
            return "not today"

        def end(self, progress):
            heard.append((progress.iteration, progress.model.n_iterations))

    result = train(data, make_config(n_estimators=3), callbacks=[Never(), Never()])
    assert result.stop_reason == "not today"
    assert heard == ["begin", "begin", (-1, 0), (-1, 0)]
    model = train(data, make_config(n_estimators=3)).model
    model.best_iteration = 2
    same = train(data, make_config(), callbacks=[Never()], init_model=model).model
    assert same.used_iterations() == 2


def test_checkpoints_come_every_n_iterations_and_at_the_end(data, make_config, tmp_path):
    saved = []

    class Look(Callback):
        def after_iteration(self, progress):
            saved.append(Model.load(path).n_iterations if path.exists() else 0)

    path = tmp_path / "m.json"
    train(data, make_config(n_estimators=5), callbacks=[Checkpoint(path, every=2), Look()])
    assert saved == [0, 2, 2, 4, 4]
    assert Model.load(path).n_iterations == 5


def test_continuing_uses_all_trees(data, valid, slow, make_config):
    """Trees that were added on purpose are not hidden by an earlier run's best iteration."""
    first = train(data, slow(20), eval_sets={"v": valid}, callbacks=[EarlyStopping(3)]).model
    assert first.best_iteration < first.n_iterations
    longer = train(data, slow(5), init_model=first).model
    assert longer.n_iterations == first.n_iterations + 5
    assert longer.used_iterations() == longer.n_iterations


def test_early_stopping_watches_a_set_of_this_run(data, make_config):
    worse = make_config(n_estimators=3, metrics=[scripted([1.0, 2.0, 3.0])])
    first = train(data, worse, eval_sets={"old": data}).model
    better = make_config(n_estimators=5, metrics=[scripted([9.0, 8.0, 7.0, 6.0, 5.0])])
    result = train(
        data, better, eval_sets={"new": data}, callbacks=[EarlyStopping(2)], init_model=first
    )
    assert result.model.n_iterations == 8
    assert result.model.best_iteration == 8


def test_early_stopping_starts_on_a_model_never_evaluated(data, valid, slow):
    first = train(data, slow(3)).model
    result = train(
        data, slow(4), eval_sets={"train": data}, callbacks=[EarlyStopping(2)], init_model=first
    )
    assert result.model.best_iteration == result.model.n_iterations == 7


# --- time, logs, bars ----------------------------------------------------------------------------


def test_time_limit(data, make_config, monkeypatch):
    clock = iter([100.0, 101.0, 102.5, 104.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    result = train(data, make_config(n_estimators=10), callbacks=[TimeLimit(2.5)])
    assert result.model.n_iterations == 2
    assert result.stop_reason == "the time limit of 2.5 s is reached"


def test_log_progress(data, valid, slow, caplog):
    with caplog.at_level(logging.INFO, logger="mvsboost"):
        result = train(data, slow(5), eval_sets={"v": valid}, callbacks=[LogProgress(2)])
    lines = [r.getMessage() for r in caplog.records if "iteration" in r.getMessage()]
    assert [line.split("  ")[0] for line in lines] == ["iteration 2", "iteration 4"]
    assert f"v log_loss {result.model.history['v']['log_loss'][1]:.6g}" in lines[0]
    assert f"rows {result.sampling_history[1]['rows']}" in lines[0]


def test_training_is_silent(data, valid, slow, caplog, capsys):
    train(data, slow(2))  # kernels may be announced, once
    caplog.clear()
    capsys.readouterr()
    train(data, slow(2), eval_sets={"v": valid}, callbacks=[EarlyStopping(2)])
    assert caplog.records == []
    assert capsys.readouterr() == ("", "")


def test_log_progress_can_be_seen_where_nothing_is_configured(data, make_config, monkeypatch):
    logger = logging.Logger("mvsboost")
    monkeypatch.setattr(module, "logger", logger)
    ended = SimpleNamespace(best_iteration=None, n_iterations=1)
    callback, progress = LogProgress(1), Progress(-1, 1, ended, {}, None)
    callback.begin(progress)
    assert logger.hasHandlers()
    assert logger.isEnabledFor(logging.INFO)
    callback.end(progress)
    assert not logger.hasHandlers()  # or a program that sets logging up later sees lines twice


def test_log_progress_leaves_the_level_as_it_was(data, make_config):
    logger = logging.getLogger("mvsboost")
    before = logger.level
    try:
        logger.setLevel(logging.ERROR)
        train(data, make_config(n_estimators=1), callbacks=[LogProgress(1)])
        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(before)


def test_a_bar_without_tqdm_says_what_to_install(data, make_config, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"pip install tqdm"):
        train(data, make_config(n_estimators=1), callbacks=[ProgressBar()])


def test_what_is_no_callback_is_named(data, make_config):
    with pytest.raises(ParameterError, match=r"callbacks must be a list of .*Callback, got <built"):
        train(data, make_config(), callbacks=[print])


def test_progress_bar(data, valid, slow):
    pytest.importorskip("tqdm")
    screen = io.StringIO()
    bar = ProgressBar(file=screen, mininterval=0)
    callbacks = [bar, StopAt(2)]
    train(data, slow(8), eval_sets={"v": valid}, callbacks=callbacks)
    text = screen.getvalue()
    assert "3/8" in text
    assert "v log_loss" in text


def test_a_progress_bar_can_be_copied_after_a_run_and_after_one_that_failed(data, make_config):
    pytest.importorskip("tqdm")
    bar = ProgressBar()
    train(data, make_config(n_estimators=2), callbacks=[bar])
    with pytest.raises(KeyboardInterrupt):
        train(data, make_config(n_estimators=2), callbacks=[bar, Crash(0)])
    for same in (copy.deepcopy(bar), pickle.loads(pickle.dumps(bar))):
        train(data, make_config(n_estimators=2), callbacks=[same])


def test_progress_bar_of_a_continued_run(data, make_config):
    pytest.importorskip("tqdm")
    first = train(data, make_config(n_estimators=2)).model
    screen = io.StringIO()
    bar = ProgressBar(file=screen, mininterval=0)
    train(data, make_config(n_estimators=3), callbacks=[bar], init_model=first)
    assert "2/5" in screen.getvalue()
    assert "5/5" in screen.getvalue()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("where", ["begin", "after_iteration", "end"])
def test_callbacks_that_began_end_where_a_fit_fails(where, error, data, make_config, tmp_path):
    class Failing(Callback):
        pass

    def fail(self, progress):
        raise error("on purpose")

    setattr(Failing, where, fail)
    before, after, path = Recorder(), Recorder(), tmp_path / "m.json"
    callbacks = [before, Checkpoint(path, every=2), Failing(), after]
    with pytest.raises(error, match="on purpose"):
        train(data, make_config(n_estimators=3), callbacks=callbacks)
    assert [name for name, _ in before.calls].count("end") == 1
    assert before.calls[-1][0] == "end"
    assert [name for name, _ in after.calls].count("end") == (where != "begin")
    assert path.exists() == (where == "end")  # the first iteration is no whole checkpoint


def test_an_objective_that_fails_ends_callbacks_and_leaves_the_checkpoint(data, tmp_path):
    class Weary(Logistic):
        left = 5

        def gradients(self, target, scores):
            self.left -= 1
            if self.left == 0:
                raise ArithmeticError("weary")
            return super().gradients(target, scores)

    path, recorder = tmp_path / "m.json", Recorder()
    config = TrainConfig(CustomObjective(Weary()), NoSampling())
    with pytest.raises(ArithmeticError, match="weary"):
        train(data, config, callbacks=[Checkpoint(path, every=2), recorder])
    assert recorder.calls[-1] == ("end", 3)
    assert Model.load(path).n_iterations == 4


def test_a_bar_is_closed_where_a_fit_fails(data, make_config):
    pytest.importorskip("tqdm")
    bar = ProgressBar(file=io.StringIO())
    with pytest.raises(KeyboardInterrupt):
        train(data, make_config(n_estimators=2), callbacks=[bar, Crash(0)])
    assert bar._bar is None


def test_callbacks_end_also_where_training_never_began(make_data, make_config, tmp_path):
    data = make_data("squared", 60)
    data.rows.target[:] = 2.0
    recorder, path = Recorder(), tmp_path / "m.json"
    result = train(data, make_config(Squared()), callbacks=[recorder, Checkpoint(path)])
    assert recorder.calls == [("begin", -1), ("end", -1)]
    assert Model.load(path).n_iterations == 0
    assert "optimum" in result.stop_reason
