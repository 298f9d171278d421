"""Linear machines on a real cluster of processes: the bits of one machine, whoever is lost on the way."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from helpers.cases import few
from sklearn.exceptions import NotFittedError

from formulations.samples import two_blobs
from formulations.solution import Status
from polyopt import Claim, large
from polyopt.solvers.interior_point.crew import Change

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install polyopt[dask]")
da = pytest.importorskip("dask.array")

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore")]
CHUNK = 40


@contextmanager
def cluster(workers):
    """Workers of processes; where there is fork, of one that has loaded all that they need."""
    settings = {
        "distributed.comm.timeouts.connect": "10s",
        "distributed.deploy.lost-worker-timeout": "120s",  # a busy machine starts a worker slowly
        "distributed.worker.daemon": True,
    }
    if "forkserver" in multiprocessing.get_all_start_methods():
        settings["distributed.worker.multiprocessing-method"] = "forkserver"
        with __import__("dask").config.set(settings):
            context = distributed.utils.get_mp_context()  # which sets what is loaded when it is first asked
        context.set_forkserver_preload(["helpers.dask_loaded"])
    with (
        __import__("dask").config.set(settings),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as made,
        distributed.Client(made) as client,
    ):
        yield made, client


@pytest.fixture(scope="module")
def client():
    with cluster(2) as (_, client):
        yield client


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=150, m=4, separation=1.0, seed=0)
    y = np.where(y > 0, "yes", "no")
    weights = np.random.default_rng(0).uniform(0.0, 2.0, len(y)).round(1)
    return X, y, weights


def bits(machine):
    proof = machine.certificate()
    return machine.coef_.tobytes(), machine.intercept_.tobytes(), proof.primal_value, proof.dual_value


def on_dask(X, y, weights=None):
    arrays = (X, y) if weights is None else (X, y, weights)
    return tuple(da.from_array(each, chunks=(CHUNK, *each.shape[1:])) for each in arrays)


def machines(module):
    """One to its end, and the others for some iterations, which have all that there is in one."""
    return [
        module.SVM(C=0.5),
        module.SigmaSVM(D=0.5, max_iter=4),
        module.RelativeMarginMachine(B=1.5, max_iter=4),
    ]


def test_dask_has_the_bits_of_one_machine(client, data):
    import polyopt.dask

    X, y, weights = data
    for here, there in zip(machines(large), machines(polyopt.dask), strict=True):
        here.fit(large.Arrays(X, y, weights, rows=CHUNK))
        there.fit(*on_dask(X, y, weights))
        assert bits(there) == bits(here)
        assert (there.certificate().claim is Claim.OPTIMAL) == (there.max_iter is None)
        assert there.n_iter_ == here.n_iter_
    again = machines(polyopt.dask)[-1].fit(large.Arrays(X, y, weights, rows=CHUNK))
    assert bits(again) == bits(there)  # arrays of the client


def polytopes(module):
    return module.ConvexPolytopeMachine(2, C=0.5, max_passes=1, max_rounds=1, max_iter=5)


def bits_of_faces(machine):
    proof = machine.certificate()
    return machine.faces_.tobytes(), proof.primal_value, proof.dual_value, machine.n_iter_


def test_a_polytope_on_dask_has_the_bits_of_one_machine(client, data, tmp_path):
    import polyopt.dask

    X, y, weights = data
    dX, dy, dw = on_dask(X, y, weights)
    wanted = bits_of_faces(polytopes(large).fit(large.Arrays(X, y, weights, rows=CHUNK)))
    machine = polytopes(polyopt.dask).fit(dX, dy, dw, checkpoint=tmp_path / "checkpoint")
    assert bits_of_faces(machine) == wanted
    assert np.array_equal(machine.predict(dX).compute(), machine.predict(X))
    assert machine.face_scores(dX).shape == (len(X), 2)
    assert np.array_equal(machine.face_scores(dX).compute(), machine.face_scores(X))
    source = large.Arrays(X, y, weights, rows=CHUNK)
    here = polytopes(large).fit(source, resume=tmp_path / "checkpoint")  # the last of all
    assert bits_of_faces(here) == wanted
    for workers, threads in ((1, 4), (4, 1)):
        with (
            distributed.LocalCluster(
                n_workers=workers, threads_per_worker=threads, processes=False, dashboard_address=None,
                silence_logs=50,
            ) as made,
            distributed.Client(made, set_as_default=False) as other,
        ):  # fmt: skip
            machine = polytopes(polyopt.dask)
            machine.client = other
            assert bits_of_faces(machine.fit(large.Arrays(X, y, weights, rows=CHUNK))) == wanted


def test_answers_are_lazy_and_those_of_one_machine(client, data):
    from polyopt.dask import SVM

    X, y, weights = data
    dX, dy, dw = on_dask(X, y, weights)
    machine = SVM(max_iter=2).fit(dX, dy)
    scores, labels = machine.decision_function(dX), machine.predict(dX)
    assert scores.chunks == (dX.chunks[0],)
    assert np.array_equal(scores.compute(), machine.decision_function(X))
    assert np.array_equal(labels.compute(), machine.predict(X))
    for columns in ((dy, dw), (dy[:, None], dw[:, None])):
        assert machine.score(dX, *columns) == pytest.approx(machine.score(X, y, weights))
    with pytest.raises(NotFittedError):
        SVM().predict(dX)
    many = SVM(max_iter=2).fit(dX, da.where(dX[:, 0] > 1.0, "other", dy))
    assert many.decision_function(dX).shape == (len(X), 3)
    assert np.array_equal(many.predict(dX).compute(), many.predict(X))


def test_frames_and_empty_and_one_sided_partitions(client, data):
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    from polyopt.dask import SVM

    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=y).sort_values("label", ignore_index=True)
    whole = dd.from_pandas(frame, npartitions=6)
    whole = whole.map_partitions(lambda part: part[part.a > -1.0] if len(part) else part)
    whole = dd.concat([whole, whole[whole.a > 1e9]])
    machine = SVM().fit(whole[list("abcd")], whole["label"])
    kept = frame[frame.a > -1.0]
    wanted = large.SVM().fit(kept[list("abcd")].to_numpy(), kept.label.to_numpy())
    assert machine.certificate().primal_value == pytest.approx(wanted.certificate().primal_value, rel=1e-7)
    assert (machine.predict(whole[list("abcd")]).compute() == wanted.predict(kept[list("abcd")])).all()


def test_columns_of_frames_are_in_order_or_refused(client, data):
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    from polyopt.dask import SVM

    X, y, _ = data
    frame, names = pd.DataFrame(X, columns=list("abcd")), list("abcd")
    labels = dd.from_pandas(pd.Series(y), npartitions=2)

    def frames(orders):
        halves = [frame[:75][orders[0]], frame[75:][orders[1]]]
        return dd.from_map(lambda half: halves[half], [0, 1], meta=frame[:0])

    plain, turned = frames([names, names]), frames([names, list("dbca")])  # not as the frame says
    machine, again = (SVM(max_iter=2).fit(each, labels) for each in (plain, turned))
    assert bits(machine) == bits(again)
    assert machine.feature_names_in_.tolist() == names
    assert machine.predict(turned).compute().tolist() == machine.predict(frame).tolist()
    with pytest.raises(ValueError, match="must be in the same order"):
        machine.predict(plain[list("bacd")])
    with pytest.raises(ValueError, match="X has 3 features"):
        machine.predict(on_dask(X[:, :3], y)[0])
    with pytest.raises(ValueError, match=r"partition 1 has the columns \['a', 'b'\]"):
        SVM().fit(frames([names, list("ab")]), labels)


def test_a_partition_that_is_made_anew_and_is_another_is_named(client, data):
    from polyopt.dask import SVM, ConvexPolytopeMachine
    from polyopt.dask.on_worker import answers, forget
    from polyopt.large.marks import mark_of
    from polyopt.large.parts import Recipe

    X, y, _ = data

    def drawn(number):  # without a seed
        return np.random.default_rng().normal(size=X.shape), y

    for machine in (SVM(), ConvexPolytopeMachine(2, pilot=40)):
        with pytest.raises(ValueError, match="partition 0 was read again, and has other samples"):
            machine.fit(large.Generated(drawn, 1))
    recipe, mark = Recipe(("no", "yes"), (1.0, 1.0), 1.0), mark_of(large.Samples(X, y))
    for part in ((X, y, None), (X + 1.0, y, None)):
        if part[0] is not X:
            with pytest.raises(ValueError, match="partition 5 was read again"):
                answers("fit", [5], recipe, [part], [mark], [], 0, Change("facts"))
        else:
            assert answers("fit", [5], recipe, [part], [mark], [], 0, Change("facts"))[0].n == len(y)
    forget("fit")


def test_a_nan_is_named_with_its_partition_and_row(client, data):
    from polyopt.dask import SVM

    X, y, _ = data
    X = X.copy()
    X[3 * CHUNK + 7, 2] = np.nan
    with pytest.raises(ValueError, match="in partition 3, row 7, feature 2"):
        SVM().fit(*on_dask(X, y))
    with pytest.raises(ValueError, match="y has 3 partitions of rows and X has 4"):
        SVM().fit(on_dask(X, y)[0], da.from_array(y, chunks=60))


def test_killed_workers_cost_no_bit(client, data, monkeypatch):
    """One in the midst of each of three phases: while blocks are made, on the way, and in the proof."""
    from polyopt.dask import SVM
    from polyopt.dask.crew import Workers

    X, y, weights = data
    phases = few([("change", 9)], [("facts", 2), ("change", 9), ("prove", 1)])
    wanted = bits(large.SVM(max_iter=5).fit(large.Arrays(X, y, weights, rows=CHUNK)))
    send, asked, killed = Workers._send, [], []

    def sending(self, numbers, ask):
        asked.append("change" if ask is None else ask.name)
        future = send(self, numbers, ask)
        if (asked[-1], asked.count(asked[-1])) in phases:
            pid = sorted(client.run(os.getpid).values())[0]
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        return future

    monkeypatch.setattr(Workers, "_send", sending)
    begun = time.monotonic()
    assert bits(SVM(max_iter=5).fit(*on_dask(X, y, weights))) == wanted
    assert len(killed) == len(phases)
    assert time.monotonic() - begun < 240.0  # it does not hang


def test_killed_workers_cost_a_polytope_no_bit(client, data, monkeypatch):
    """One in the midst of a face, one in its proof, and one as faces are weighed."""
    import polyopt.dask
    from polyopt.dask.crew import Workers

    X, y, weights = data
    phases = few([("prove", 3)], [("change", 9), ("prove", 3), ("weigh", 1)])
    wanted = bits_of_faces(polytopes(large).fit(large.Arrays(X, y, weights, rows=CHUNK)))
    send, asked, killed = Workers._send, [], []

    def sending(self, numbers, ask):
        asked.append("change" if ask is None else ask.name)
        future = send(self, numbers, ask)
        if (asked[-1], asked.count(asked[-1])) in phases:
            pid = sorted(client.run(os.getpid).values())[0]
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        return future

    monkeypatch.setattr(Workers, "_send", sending)
    assert bits_of_faces(polytopes(polyopt.dask).fit(*on_dask(X, y, weights))) == wanted
    assert len(killed) == len(phases)


def test_a_block_that_has_missed_a_part_of_the_log_says_so(data):
    """It was at home here, then elsewhere, and is here again, whoever was lost in between."""
    from polyopt.dask.on_worker import Missing, answers, forget
    from polyopt.large.parts import Recipe

    X, y, _ = data
    log = [Change("place", (np.zeros(4), False)), Change("begin", (1.0, 1e-9)), Change("aim", (0.0, 0.0))]
    parts, recipe = [(X, y, None)], Recipe(("no", "yes"), (1.0, 1.0), 1.0)
    ask = Change("costs", (1.0,))
    assert isinstance(answers("fit", [0], recipe, parts, [None], log[1:], 1, ask)[0], Missing)
    assert answers("fit", [0], recipe, parts, [None], log[:2], 0, ask)[0] > 0.0
    assert isinstance(answers("fit", [0], recipe, parts, [None], [], 3, ask)[0], Missing)
    assert answers("fit", [0], recipe, parts, [None], log, 0, ask)[0] > 0.0
    forget("fit")


def test_a_worker_keeps_what_it_frees_only_where_it_was_told_to_give_it_back(monkeypatch):
    from polyopt.dask import allocation

    told = []
    monkeypatch.setattr(allocation, "_set", lambda option, size: told.append((option, size)))
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    allocation.hold()
    allocation.give_back()
    assert told == []
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    for given, held, back in (
        ("65536", 1 << 26, 65536),
        ("999999999", 999999999, 999999999),
        ("?", 1 << 26, 1 << 17),
    ):
        monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", given)
        told.clear()
        allocation.hold()
        assert told == [(-1, held), (-3, 1 << 25)]  # of trimming, and of mapping, as <malloc.h> numbers them
        told.clear()
        allocation.give_back()
        assert told == [(-1, back), (-3, 1 << 17)]


def test_workers_that_join_and_leave_cost_no_bit(client, data, monkeypatch):
    from polyopt.dask import SVM, crew

    source = large.Arrays(*data, rows=20)
    wanted = bits(large.SVM().fit(source))
    send, homes, asked = crew.Workers._send, [], []

    def sending(self, numbers, ask):
        asked.append("change" if ask is None else ask.name)
        if (asked[-1], asked.count(asked[-1])) == ("balance", 5):
            client.cluster.scale(3)
            client.wait_for_workers(3)
        if (asked[-1], asked.count(asked[-1])) == ("balance", 40):
            client.retire_workers([homes[0]], close_workers=True)
        homes.append(self._homes[numbers[0]])
        return send(self, numbers, ask)

    monkeypatch.setattr(crew, "_NEWS", 0.0)  # workers are looked at in every round
    monkeypatch.setattr(crew.Workers, "_send", sending)
    try:
        assert bits(SVM().fit(source)) == wanted
    finally:
        client.cluster.scale(2)
    assert len(set(homes[:4])) == 2 < len(set(homes))  # the one that joined had blocks
    assert homes[0] not in homes[-4:]  # and the one that left has none


def test_what_is_no_loss_of_a_worker_is_raised(client, data, monkeypatch, tmp_path):
    from polyopt.dask import SVM
    from polyopt.dask.crew import Workers

    np.save(tmp_path / "X.npy", data[0])
    np.save(tmp_path / "y.npy", data[1])
    source = large.NpyFiles(tmp_path / "X.npy", tmp_path / "y.npy", rows=50)
    send = Workers._send

    def sending(self, numbers, ask):
        if ask is not None and ask.name == "survey":
            (tmp_path / "X.npy").unlink(missing_ok=True)
        return send(self, numbers, ask)

    monkeypatch.setattr(Workers, "_send", sending)
    with pytest.raises(FileNotFoundError, match=r"X\.npy"):
        SVM().fit(source)


def test_ctrl_c_in_the_midst_of_a_round_keeps_a_point_with_its_proof(client, data, monkeypatch):
    from polyopt.dask import SVM
    from polyopt.dask.crew import Workers

    X, y, _ = data
    best = large.SVM().fit(X, y).certificate()
    ended, rounds = Workers._ended, []

    def interrupted(self, futures):
        rounds.append(1)
        if len(rounds) == 45:
            raise KeyboardInterrupt
        return ended(self, futures)

    monkeypatch.setattr(Workers, "_ended", interrupted)
    machine = SVM().fit(*on_dask(X, y))
    assert machine.solutions_[0].status is Status.INTERRUPTED
    proof = machine.certificate()
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert 0.0 < proof.dual_value <= best.primal_value
    assert proof.primal_value >= best.dual_value


def test_threads_in_place_of_processes_have_the_same_bits(data):
    import polyopt.dask
    from polyopt.dask.crew import Team
    from polyopt.large.held import Here

    X, y, weights = data
    wanted = bits(machines(large)[-1].fit(large.Arrays(X, y, weights, rows=CHUNK)))
    settings = {"processes": False, "dashboard_address": None, "silence_logs": 50}
    for workers, threads in ((2, 1), (1, 3)):
        with (
            distributed.LocalCluster(n_workers=workers, threads_per_worker=threads, **settings) as made,
            distributed.Client(made) as client,
        ):
            machine = machines(polyopt.dask)[-1]
            machine.client = client
            assert bits(machine.fit(*on_dask(X, y, weights))) == wanted
            source = large.Arrays(X, y, weights, rows=20)
            steps = rounds(Team(client, [source] * source.count), source.count)
            assert steps == rounds(Here(source), source.count)


def rounds(hands, count, **settings):
    from polyopt.large.local_sgd import solve_cpm_rounds
    from polyopt.large.parts import Recipe

    usual = {"n_shards": 3, "n_pilot": 60, "max_iter": 3, "seed": 4}
    found = solve_cpm_rounds(hands, count, Recipe(("no", "yes"), (1.0, 2.0), 0.1), 2, **usual | settings)
    return found["W"].tobytes(), found.objective, [record["estimate"] for record in found.history[1:]]


def test_local_steps_have_the_bits_of_one_machine_wherever_workers_are_killed(client, data, monkeypatch):
    """In a walk of every kind: the survey, the sample, the objective, and a round."""
    from polyopt.dask import walks
    from polyopt.dask.collections import parts_of
    from polyopt.dask.crew import Team
    from polyopt.large.held import Here

    source = large.Arrays(*data, rows=20)
    wanted = rounds(Here(source), source.count)
    dX, dy, dw = (da.from_array(each, chunks=(20, *each.shape[1:])) for each in data)
    phases = few({"_visit": 5}, {"_survey": 3, "_draw": 2, "_losses": 10, "_visit": 5})
    send, sent, killed = walks._send, [], []

    def sending(client, parts, step, walk, marks):
        sent.append(step.__name__)
        future = send(client, parts, step, walk, marks)
        if sent.count(step.__name__) == phases.get(step.__name__):
            pid = sorted(client.run(os.getpid).values())[0]
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        return future

    monkeypatch.setattr(walks, "_send", sending)
    team = Team(client, parts_of(client, dX, dy, dw))
    assert rounds(team, len(team.parts)) == wanted
    team.close()
    assert len(killed) == len(phases)
    monkeypatch.setattr(walks, "_send", send)
    assert rounds(Team(client, [source] * source.count), source.count) == wanted  # which workers read


def test_local_steps_stop_when_time_is_over_and_raise_what_is_no_loss(client, data):
    from polyopt.dask.crew import Team
    from polyopt.large.held import Walk

    source = large.Arrays(*data, rows=20)
    team = Team(client, [source] * source.count)
    walks = [Walk(number, [(0, ()), (1, ())]) for number in range(3)] + [Walk("as it was", [])]
    assert team.walk(_counted, walks) == [40, 41, 42, "as it was"]
    assert team.walk(_counted, walks, lambda: True) is None
    with pytest.raises(ZeroDivisionError):
        team.walk(_broken, walks)


def _counted(carried, samples, number):
    return carried + len(samples.y)


def _broken(carried, samples, number):
    return 1 / (number - 1)


@contextmanager
def in_one_process():
    settings = {"processes": False, "dashboard_address": None, "silence_logs": 50}
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, **settings) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        yield made, client


def test_a_lost_scheduler_is_an_error_and_the_checkpoint_goes_on_elsewhere(data, tmp_path):
    from polyopt.dask import SVM
    from polyopt.dask.crew import Workers

    X, y, _ = data
    source, path, sent = large.Arrays(X, y, rows=CHUNK), tmp_path / "checkpoint", []
    wanted = bits(large.SVM().fit(source))
    with pytest.MonkeyPatch.context() as patched, in_one_process() as (made, client):
        send = Workers._send

        def sending(self, *arguments):
            sent.append(1)
            if len(sent) == 60:
                made.sync(made.scheduler.close)
            return send(self, *arguments)

        patched.setattr(Workers, "_send", sending)
        machine = SVM()
        machine.client = client
        with pytest.raises(RuntimeError, match="scheduler is lost"):
            machine.fit(*on_dask(X, y), checkpoint=path)
    assert bits(large.SVM().fit(source, resume=path)) == wanted


def test_a_scheduler_that_is_lost_in_the_first_look_is_an_error_and_no_wait(data):
    from polyopt.dask import SVM, walks

    with pytest.MonkeyPatch.context() as patched, in_one_process() as (made, client):
        send = walks._send

        def sending(*arguments):
            future = send(*arguments)
            made.sync(made.scheduler.close)
            return future

        patched.setattr(walks, "_send", sending)
        machine = SVM()
        machine.client = client
        with pytest.raises(RuntimeError, match="scheduler is lost"):
            machine.fit(*on_dask(*data[:2]))


def test_independent_work_goes_to_the_workers_by_joblib_and_has_the_same_bits(client):
    """Pairs of classes, starts, and the patterns of cross-entropy."""
    from joblib import parallel_config

    from polyopt import SVM, ConvexPolytopeMachine, cross_entropy_minimize

    X, y = two_blobs(n=60, m=3, separation=1.0, seed=1)
    three = np.where(X[:, 0] > 1, 2, y)

    def answers():
        pairs = SVM().fit(X, three).decision_function(X)
        starts = ConvexPolytopeMachine(n_faces=2, n_init=3, random_state=0, solver="exact").fit(X, y)
        drawn = cross_entropy_minimize(_score, 6, n_samples=20, max_iter=3)
        return (
            pairs.tobytes(),
            starts.decision_function(X).tobytes(),
            drawn.pattern.tolist(),
            drawn.evaluations,
        )

    here = answers()
    with parallel_config(backend="dask"):
        assert answers() == here


class Sent(np.ndarray):
    """An array that counts how often it is packed."""

    times = 0

    def __reduce_ex__(self, protocol):
        Sent.times += 1
        return np.asarray(self).__reduce_ex__(protocol)


@dataclass
class Sum:
    X: Any
    power: int


def _sum(task):
    return float((task.X**task.power).sum())


def test_joblib_sends_the_samples_once(client, monkeypatch):
    from joblib import parallel_config

    from polyopt.jobs import deal

    X = np.arange(4000.0).view(Sent)
    wanted, Sent.times = [_sum(Sum(X, power)) for power in range(6)], 0
    scatter, sent = distributed.Client.scatter, []

    def scattering(self, data, **settings):
        sent.append(data is X)
        return scatter(self, data, **settings)

    monkeypatch.setattr(distributed.Client, "scatter", scattering)
    with parallel_config(backend="dask"):
        assert deal(_sum, [Sum(X, power) for power in range(6)], None, "sum") == wanted
    assert sent.count(True) == 1
    assert Sent.times == 0  # with no task


def test_searches_and_folds_go_to_the_workers_and_have_the_same_bits(client):
    from joblib import parallel_config
    from sklearn.model_selection import GridSearchCV

    from polyopt import SVM, ConvexPolytopeMachine, PolytopeSearch

    X, y = two_blobs(n=80, m=3, separation=1.0, seed=2)
    polytopes = ConvexPolytopeMachine(n_faces=2, solver="exact", random_state=0, calibration="sigmoid")

    def answers():
        search = GridSearchCV(SVM(), {"C": [0.1, 1.0]}, cv=2).fit(X, y)
        return (
            search.cv_results_["mean_test_score"].tolist(),
            polytopes.fit(X, y).predict_proba(X).tobytes(),
            PolytopeSearch(polytopes, costs=[0.1, 1.0], perplexities=[], cv=2)
            .fit(X, y)
            .results_.error.tolist(),
        )

    here = answers()
    with parallel_config(backend="dask"):
        assert answers() == here


def _score(pattern):
    return float(abs(np.arange(1, 7)[pattern].sum() - 9))
