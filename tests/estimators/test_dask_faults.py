"""Faults of a cluster cost no bit: workers that are lost, join and leave, errors, and a lost scheduler."""

from __future__ import annotations

import os
import signal
from functools import partial

import numpy as np
import pytest
from helpers.blocks import Breaking, at_records, bits, quietly, raise_error
from helpers.dask_cluster import ROWS, config, in_one_process, on_dask

from formulations.language.clock import Clock, OutOfTimeError
from formulations.language.solution import Status
from polyopt import SVM, Claim, ConvexPolytopeMachine, SGDSettings, scale
from polyopt.margin.by_blocks import HingeRecipe
from polyopt.scale.blocks import Pair
from polyopt.scale.crew import Change
from polyopt.scale.dask import DaskExecutor
from polyopt.scale.executor import ThreadExecutor
from polyopt.scale.on_worker import Missing, answer, forget

pytestmark = pytest.mark.filterwarnings("ignore")


def kill_this_process():
    os.kill(os.getpid(), signal.SIGKILL)


POLYTOPES = {
    "by faces": ConvexPolytopeMachine(n_faces=2, C=0.5, max_iter=1, random_state=0),
    "by dual ascent": ConvexPolytopeMachine(
        n_faces=2, C=0.5, solver="dual", sgd=SGDSettings(feature_scale=0.5), max_iter=2, tol=1e-6,
        random_state=0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("machine", POLYTOPES.values(), ids=POLYTOPES)
def test_killed_workers_cost_no_bit(client, data, machine, tmp_path):
    """Workers die as they inspect a block, in a pass, in a face or a scan, and near the end of a fit."""
    source = scale.Arrays(*data, rows=ROWS)
    counting = Breaking(source, tmp_path / "log")
    wanted, count = bits(quietly(machine, counting)), counting.n_readings
    kills = {1, count // 4, 3 * count // 4, count}
    breaking = Breaking(source, tmp_path / "log", kills, kill_this_process)
    assert bits(quietly(machine, breaking, executor="dask")) == wanted
    assert breaking.n_readings >= count + len(kills)


def test_lost_arrays_are_computed_anew(client, data):
    """A worker that is killed loses its partitions of Dask arrays, and the fit has the same bits."""
    wanted = bits(SVM(kernel="linear").fit(scale.Arrays(*data, rows=ROWS)))

    def kill():
        os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)

    with at_records({3: kill}) as told:
        assert bits(SVM(kernel="linear").fit(*on_dask(*data))) == wanted
    assert len(told) > 3


def test_workers_join_and_leave(client, data, tmp_path):
    """A worker that joins is given blocks, one that leaves has none, and the bits are the same."""
    source = scale.Generated(partial(_with_worker, tmp_path, scale.Arrays(*data, rows=20)), 8)
    wanted = bits(SVM(kernel="linear").fit(scale.Arrays(*data, rows=20)))
    first = sorted(client.scheduler_info()["workers"])

    def at_work():
        return {path.read_text() for path in tmp_path.iterdir()}

    def join():
        client.cluster.scale(3)
        client.wait_for_workers(3)

    def leave():
        assert len(at_work()) == 3
        client.retire_workers([first[0]], close_workers=True)

    try:
        with config.set({"polyopt.worker-poll": 0.0}), at_records({2: join, 6: leave}):
            assert bits(SVM(kernel="linear").fit(source, executor="dask")) == wanted
    finally:
        client.cluster.scale(2)
    assert first[0] not in at_work()


def _with_worker(folder, source, number):
    """Read a block, and note the worker that reads it."""
    from distributed import get_worker

    (folder / str(number)).write_text(get_worker().address)
    return source.read(number)


def test_error_of_task_is_raised(client, data, tmp_path):
    """An error that is not the loss of a worker ends the fit in any phase."""
    error = partial(raise_error, FileNotFoundError("X.npy"))
    for reading in (1, 2, 9):
        breaking = Breaking(scale.Arrays(*data, rows=50), tmp_path / "log", {reading}, error)
        with pytest.raises(FileNotFoundError, match=r"X\.npy"):
            SVM(kernel="linear").fit(breaking, executor="dask")


def test_ctrl_c_keeps_proven_point(client, data):
    """Ctrl-C in the driving process leaves the best point with a true proof."""
    X, y, _ = data
    best = SVM(kernel="linear").fit(scale.Arrays(X, y)).certificate()
    with at_records({8: partial(raise_error, KeyboardInterrupt)}):
        machine = SVM(kernel="linear").fit(*on_dask(X, y))
    assert machine.solution_.status is Status.INTERRUPTED
    proof = machine.certificate()
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert 0.0 < proof.dual_value <= best.primal_value
    assert proof.primal_value >= best.dual_value


CLUSTERS = []  # in this process; a worker's task finds the one whose scheduler it closes


def close_scheduler():
    CLUSTERS[-1].loop.add_callback(CLUSTERS[-1].scheduler.close)


@pytest.mark.parametrize("reading", [1, 12], ids=["inspection", "solver"])
def test_lost_scheduler_is_error(data, tmp_path, reading):
    """A fit whose scheduler is lost ends with an error; a checkpoint from before is resumed."""
    source, path = scale.Arrays(*data, rows=ROWS), tmp_path / "checkpoint"
    breaking = Breaking(source, tmp_path / "log", {reading}, close_scheduler)
    with config.set({"polyopt.scheduler-timeout": 1.0}), in_one_process() as (made, client):
        CLUSTERS.append(made)
        with pytest.raises(RuntimeError, match="scheduler is lost"):
            SVM(kernel="linear").fit(breaking, executor=client, checkpoint=path)
    assert path.exists() == (reading > 1)
    if reading > 1:
        resumed = SVM(kernel="linear").fit(source, resume=path)
        assert bits(resumed) == bits(SVM(kernel="linear").fit(source))


def _sized(samples, number, more):
    return len(samples.y) + more


def _counted(carried, samples, number):
    return carried + len(samples.y), carried


def _broken(carried, samples, number):
    return 1 / (number - 1), None


@pytest.mark.parametrize("place", ["threads", "dask"])
def test_steps_and_chains(client, data, place):
    """Executors give the results of steps in order, stop at the time limit, and raise errors."""
    source = scale.Arrays(*data, rows=20)
    team = DaskExecutor(client, [source] * source.count) if place == "dask" else ThreadExecutor(source)
    assert team.each(_sized, [(k,) if k < 3 else None for k in range(team.count)]) == [20, 21, 22]
    assert team.chain(_counted, 5, [(0, ()), (1, ())]) == (45, [5, 25])
    assert team.chain(_counted, "as it was", []) == ("as it was", [])
    with pytest.raises(OutOfTimeError):
        team.each(_sized, [(0,)] * team.count, Clock(0.0))
    with pytest.raises(OutOfTimeError):
        team.chain(_counted, 5, [(0, ())], Clock(0.0))
    with pytest.raises(ZeroDivisionError):
        team.chain(_broken, 0, [(0, ()), (1, ())])


def test_missed_log_entries_are_told(data):
    """A block that was elsewhere meanwhile does not answer from its old state."""
    X, y, _ = data
    log = [Change("place", (np.zeros(4), False)), Change("begin", (1.0, 1e-9)), Change("set_rhs", (0.0, 0.0))]
    part, recipe = (X, y, None), HingeRecipe(Pair(("no", "yes"), (1.0, 1.0), 1.0), np.inf)
    ask = Change("costs", (1.0,))
    assert isinstance(answer("fit", 0, recipe, part, None, log[1:], 1, ask), Missing)
    assert answer("fit", 0, recipe, part, None, log[:2], 0, ask) > 0.0
    assert isinstance(answer("fit", 0, recipe, part, None, [], 3, ask), Missing)
    assert answer("fit", 0, recipe, part, None, log, 0, ask) > 0.0
    forget("fit")
