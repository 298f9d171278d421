"""A real cluster of processes, and one in this process."""

from __future__ import annotations

import multiprocessing
import os
import sys
from contextlib import contextmanager
from multiprocessing import forkserver

import pytest

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install polyopt[dask]")
da = pytest.importorskip("dask.array")
config = pytest.importorskip("dask.config")

ROWS = 40  # of a block


@contextmanager
def cluster(workers):
    """A cluster of processes and its client; with fork, of one process that has loaded all that they need."""
    settings = {
        "distributed.comm.timeouts.connect": "10s",
        "distributed.deploy.lost-worker-timeout": "120s",  # a busy machine starts a worker slowly
        "distributed.worker.daemon": True,
        "polyopt.task-poll": 0.1,
        "polyopt.worker-poll": 0.1,
    }
    if "forkserver" in multiprocessing.get_all_start_methods():
        settings["distributed.worker.multiprocessing-method"] = "forkserver"
        with config.set(settings):
            context = distributed.utils.get_mp_context()  # which sets what is loaded when it is first asked
        context.set_forkserver_preload(["helpers.dask_loaded"])
        _start_forkserver()
    with (
        config.set(settings),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as made,
        distributed.Client(made) as client,
    ):
        yield made, client


def _start_forkserver():
    """Start the process that forks workers, which looks for its modules on PYTHONPATH alone."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        forkserver.ensure_running()
    finally:
        del os.environ["PYTHONPATH"]
        os.environ |= {} if before is None else {"PYTHONPATH": before}


@contextmanager
def in_one_process(threads=1):
    """A cluster of one worker in this process, and its client; its end does not wait for a lost scheduler."""
    settings = {"processes": False, "dashboard_address": None, "silence_logs": 50}
    with (
        config.set({"distributed.deploy.lost-worker-timeout": "1s"}),
        distributed.LocalCluster(n_workers=1, threads_per_worker=threads, **settings) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        yield made, client
        with config.set({"distributed.comm.timeouts.connect": "1s"}):
            client.close()
            made.close()


def on_dask(*arrays):
    """Arrays as Dask's, in blocks."""
    return tuple(da.from_array(each, chunks=(ROWS, *each.shape[1:])) for each in arrays)
