"""A real cluster of processes, and what its tests share."""

from __future__ import annotations

import multiprocessing
from contextlib import contextmanager

import numpy as np
import pytest

from formulations.language.clock import Clock
from formulations.language.toy_data import two_blobs
from polyopt import SVM, ConvexPolytopeMachine, RelativeMarginMachine, SigmaSVM
from polyopt.cpm.sgd_by_blocks import Options, Passes, summarize
from polyopt.scale.blocks import Pair
from polyopt.scale.checkpoint import Checkpoint

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install polyopt[dask]")
da = pytest.importorskip("dask.array")

CHUNK = 40


@contextmanager
def cluster(workers):
    """DaskBlocks of processes; where there is fork, of one that has loaded all that they need."""
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


@contextmanager
def in_one_process():
    """A cluster in this process."""
    settings = {"processes": False, "dashboard_address": None, "silence_logs": 50}
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, **settings) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        yield made, client


def bits(machine):
    """The model and its proof, bit by bit."""
    proof = machine.certificate()
    return machine.coef_.tobytes(), machine.intercept_.tobytes(), proof.primal_value, proof.dual_value


def bits_of_faces(machine):
    """The same of a polytope."""
    proof = machine.certificate()
    return machine.W_.tobytes(), machine.b_.tobytes(), proof.primal_value, proof.dual_value, machine.n_iter_


def on_dask(X, y, weights=None):
    """Arrays as Dask's, in blocks."""
    arrays = (X, y) if weights is None else (X, y, weights)
    return tuple(da.from_array(each, chunks=(CHUNK, *each.shape[1:])) for each in arrays)


def machines():
    """One to its end, and the others for some iterations, which have all that there is in one."""
    return [
        SVM(kernel="linear", C=0.5),
        SigmaSVM(kernel="linear", D=0.5, max_iter=4),
        RelativeMarginMachine(kernel="linear", B=1.5, max_iter=4),
    ]


def polytopes(**settings):
    """A polytope machine whose fit is short."""
    return ConvexPolytopeMachine(**{"n_faces": 2, "C": 0.5, "max_iter": 1, "random_state": 0} | settings)


def passes(executor):
    """Algorithm 1 through the blocks: its answer, its objective, and its estimates."""
    options, pair = Options(pilot_samples=60, max_passes=3), Pair(("no", "yes"), (1.0, 2.0), 0.1)
    summary, save = summarize(executor.inspect(), pair), Checkpoint(None, None, executor, pair)
    found = Passes(executor, pair, summary, 2, save, seed=4, options=options).solve(Clock(None))
    return found["W"].tobytes(), found.objective, [record["estimate"] for record in found.history[1:]]


def blobs():
    """Two classes of 150 samples, and weights of which some are 0."""
    X, y = two_blobs(n=150, m=4, separation=1.0, seed=0)
    y = np.where(y > 0, "yes", "no")
    weights = np.random.default_rng(0).uniform(0.0, 2.0, len(y)).round(1)
    return X, y, weights
