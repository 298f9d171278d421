"""What goes wrong on a cluster costs no bit: workers that are lost, join and leave, and a lost scheduler."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
from helpers.dask_cluster import (
    CHUNK,
    bits,
    bits_of_faces,
    in_one_process,
    on_dask,
    passes,
    polytopes,
)

from formulations.language.clock import Clock, OutOfTimeError
from formulations.language.solution import Status
from polyopt import SVM, Claim, SGDSettings, scale
from polyopt.scale.crew import Change
from polyopt.scale.executor import ThreadExecutor

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install polyopt[dask]")
da = pytest.importorskip("dask.array")

from polyopt.scale.dask import DaskBlocks, DaskExecutor, executor_of_collection  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def killing(client, monkeypatch, sender, name_of, phases):
    """The workers that are killed: one after each phase, by name and by how many times it was sent."""
    send, sent, killed = sender._send, [], []

    def sending(*given):
        sent.append(name_of(*given))
        future = send(*given)
        if (sent[-1], sent.count(sent[-1])) in phases:
            killed.append(sorted(client.run(os.getpid).values())[0])
            os.kill(killed[-1], signal.SIGKILL)
        return future

    monkeypatch.setattr(sender, "_send", sending)
    return killed


def test_killed_workers_cost_a_polytope_no_bit(client, data, monkeypatch):
    """One dies while blocks are made, one in a face, one in its proof."""

    X, y, weights = data
    phases = [("facts", 2), (None, 9), ("prove", 3)]
    wanted = bits_of_faces(polytopes().fit(scale.Arrays(X, y, weights, rows=CHUNK)))
    killed = killing(client, monkeypatch, DaskBlocks, lambda crew, numbers, ask: ask and ask.name, phases)
    begun = time.monotonic()
    assert bits_of_faces(polytopes().fit(*on_dask(X, y, weights))) == wanted
    assert len(killed) == len(phases)
    assert time.monotonic() - begun < 240.0  # it does not hang


def test_killed_workers_cost_the_dual_ascent_no_bit(client, data, monkeypatch):
    """In folds from block to block and side by side: a sweep, a scan, gathered rows, and the proof."""

    def fitted(executor):
        settings = {"solver": "dual", "sgd": SGDSettings(feature_scale=0.5), "max_iter": 2, "tol": 1e-6}
        machine = polytopes(**settings).begin_from(np.eye(2, 5))
        return machine.fit(scale.Arrays(*data, rows=CHUNK), executor=executor)

    wanted = bits_of_faces(fitted("threads"))
    phases = [("sweep_block", 2), ("scan_block", 2), ("gather_rows", 2), ("weigh_block", 1)]
    killed = killing(client, monkeypatch, DaskExecutor, lambda own, step, *given: step.__name__, phases)
    assert bits_of_faces(fitted("dask")) == wanted
    assert len(killed) == len(phases)


def test_a_block_that_has_missed_a_part_of_the_log_says_so(data):
    """It was at home here, then elsewhere, and is here again, whoever was lost in between."""
    from polyopt.margin.by_blocks import HingeRecipe
    from polyopt.scale.blocks import Pair
    from polyopt.scale.on_worker import Missing, answer, forget

    X, y, _ = data
    log = [Change("place", (np.zeros(4), False)), Change("begin", (1.0, 1e-9)), Change("set_rhs", (0.0, 0.0))]
    part, recipe = (X, y, None), HingeRecipe(Pair(("no", "yes"), (1.0, 1.0), 1.0), np.inf)
    ask = Change("costs", (1.0,))
    assert isinstance(answer("fit", 0, recipe, part, None, log[1:], 1, ask), Missing)
    assert answer("fit", 0, recipe, part, None, log[:2], 0, ask) > 0.0
    assert isinstance(answer("fit", 0, recipe, part, None, [], 3, ask), Missing)
    assert answer("fit", 0, recipe, part, None, log, 0, ask) > 0.0
    forget("fit")


def test_workers_that_join_and_leave_cost_no_bit(client, data, monkeypatch):
    from polyopt.scale import dask as executor

    source = scale.Arrays(*data, rows=20)
    wanted = bits(SVM(kernel="linear").fit(source))
    send, homes, asked = executor.DaskBlocks._send, [], []

    def sending(self, numbers, ask):
        asked.append("change" if ask is None else ask.name)
        if (asked[-1], asked.count(asked[-1])) == ("newton_rhs", 5):
            client.cluster.scale(3)
            client.wait_for_workers(3)
        if (asked[-1], asked.count(asked[-1])) == ("newton_rhs", 20):
            client.retire_workers([homes[0]], close_workers=True)
        homes.append(self._homes[numbers[0]])
        return send(self, numbers, ask)

    monkeypatch.setattr(executor, "_WORKER_POLL_SECONDS", 0.0)  # workers are looked at in every round
    monkeypatch.setattr(executor.DaskBlocks, "_send", sending)
    try:
        assert bits(SVM(kernel="linear").fit(source, executor="dask")) == wanted
    finally:
        client.cluster.scale(2)
    assert len(set(homes[:4])) == 2 < len(set(homes))  # the one that joined had blocks
    assert homes[0] not in homes[-4:]  # and the one that left has none


def test_an_error_that_is_no_loss_of_a_worker_is_raised(client, data, monkeypatch, tmp_path):

    np.save(tmp_path / "X.npy", data[0])
    np.save(tmp_path / "y.npy", data[1])
    source = scale.NpyFiles(tmp_path / "X.npy", tmp_path / "y.npy", rows=50)
    send = DaskBlocks._send

    def sending(self, numbers, ask):
        if ask is not None and ask.name == "survey":
            (tmp_path / "X.npy").unlink(missing_ok=True)
        return send(self, numbers, ask)

    monkeypatch.setattr(DaskBlocks, "_send", sending)
    with pytest.raises(FileNotFoundError, match=r"X\.npy"):
        SVM(kernel="linear").fit(source, executor="dask")


def test_ctrl_c_in_a_round_keeps_a_point_with_its_proof(client, data, monkeypatch):

    X, y, _ = data
    best = SVM(kernel="linear").fit(scale.Arrays(X, y)).certificate()
    ended, rounds = DaskBlocks._ended, []

    def interrupted(self, futures):
        rounds.append(1)
        if len(rounds) == 45:
            raise KeyboardInterrupt
        return ended(self, futures)

    monkeypatch.setattr(DaskBlocks, "_ended", interrupted)
    machine = SVM(kernel="linear").fit(*on_dask(X, y))
    assert machine.solution_.status is Status.INTERRUPTED
    proof = machine.certificate()
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert 0.0 < proof.dual_value <= best.primal_value
    assert proof.primal_value >= best.dual_value


def test_killed_workers_cost_algorithm_1_no_bit(client, data, monkeypatch):
    """While the sample is drawn, and in a pass."""

    source = scale.Arrays(*data, rows=20)
    wanted = passes(ThreadExecutor(source))
    dX, dy, dw = (da.from_array(each, chunks=(20, *each.shape[1:])) for each in data)
    phases = [("_draw_rows", 2), ("_take_steps", 2)]
    killed = killing(client, monkeypatch, DaskExecutor, lambda own, step, *given: step.__name__, phases)
    team = executor_of_collection(client, dX, dy, dw)
    assert passes(team) == wanted
    team.close()
    assert len(killed) == len(phases)
    monkeypatch.undo()
    assert passes(DaskExecutor(client, [source] * source.count)) == wanted  # which workers read


def test_steps_and_chains_stop_at_the_time_limit_and_raise_errors(client, data):
    source = scale.Arrays(*data, rows=20)
    teams = DaskExecutor(client, [source] * source.count), ThreadExecutor(source)
    for team in teams:
        assert team.each(_sized, [(k,) if k < 3 else None for k in range(team.count)]) == [20, 21, 22]
        assert team.chain(_counted, 5, [(0, ()), (1, ())]) == (45, [5, 25])
        assert team.chain(_counted, "as it was", []) == ("as it was", [])
        with pytest.raises(OutOfTimeError):
            team.each(_sized, [(0,)] * team.count, Clock(0.0))
        with pytest.raises(OutOfTimeError):
            team.chain(_counted, 5, [(0, ())], Clock(0.0))
        with pytest.raises(ZeroDivisionError):
            team.chain(_broken, 0, [(0, ()), (1, ())])


def _sized(samples, number, more):
    return len(samples.y) + more


def _counted(carried, samples, number):
    return carried + len(samples.y), carried


def _broken(carried, samples, number):
    return 1 / (number - 1), None


def test_a_lost_scheduler_is_an_error_and_leaves_a_checkpoint(data, tmp_path):

    X, y, _ = data
    source, path, sent = scale.Arrays(X, y, rows=CHUNK), tmp_path / "checkpoint", []
    wanted = bits(SVM(kernel="linear").fit(source))
    with pytest.MonkeyPatch.context() as patched, in_one_process() as (made, client):
        send = DaskBlocks._send

        def sending(self, *arguments):
            sent.append(1)
            if len(sent) == 60:
                made.sync(made.scheduler.close)
            return send(self, *arguments)

        patched.setattr(DaskBlocks, "_send", sending)
        with pytest.raises(RuntimeError, match="scheduler is lost"):
            SVM(kernel="linear").fit(*on_dask(X, y), executor=client, checkpoint=path)
    assert bits(SVM(kernel="linear").fit(source, resume=path)) == wanted


def test_a_scheduler_lost_in_the_first_look_is_an_error(data):
    from polyopt.scale import dask as executor

    with pytest.MonkeyPatch.context() as patched, in_one_process() as (made, client):
        send = executor.DaskExecutor._send

        def sending(*arguments):
            future = send(*arguments)
            made.sync(made.scheduler.close)
            return future

        patched.setattr(executor.DaskExecutor, "_send", sending)
        with pytest.raises(RuntimeError, match="scheduler is lost"):
            SVM(kernel="linear").fit(*on_dask(*data[:2]), executor=client)
