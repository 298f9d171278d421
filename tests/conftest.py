"""Settings and data that several test files share.

What is tested is imported within, and not by the process that only hands out the tests.
"""

from __future__ import annotations

import itertools
import os
import signal
from types import SimpleNamespace

import pytest
from hypothesis import settings

# Each worker has a core for itself: the threads of several would only wait for each other. This must be said
# before numpy is imported.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")  # gw0, gw1, ..., and nothing without workers
if WORKER:
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# Solvers are slow next to what hypothesis expects, and a shared machine is slower still.
settings.register_profile("polyopt", deadline=None, max_examples=10, derandomize=True)
settings.load_profile("polyopt")


@pytest.fixture(params=[0, 2])
def blobs(request):
    """Two overlapping classes in three dimensions: X (40, 3), y (40,)."""
    from formulations.language.toy_data import two_blobs

    return two_blobs(seed=request.param)


@pytest.fixture(scope="session")
def dask_client():
    """A client of two workers, processes, which whoever kills them finds started anew."""
    from helpers.dask_cluster import cluster

    with cluster(2) as (_, client):
        yield client


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A browser without a window, one for all pages that are files."""
    from helpers.browser import Browser, find_browser

    if find_browser() is None:
        pytest.skip("no Chromium is installed")
    with Browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture
def rng():
    import numpy as np

    return np.random.default_rng(0)


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, even where a shell in the background has had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def on_threads(monkeypatch):
    """A function that sets the number of threads, and the multiplications from which they are started."""
    from polyopt.base import threads

    def set_threads(count, least_work=1.0):
        monkeypatch.setattr(threads, "thread_count", lambda: count)
        monkeypatch.setattr(threads, "_MIN_THREAD_WORK", least_work)

    return set_threads


@pytest.fixture
def ticking(monkeypatch):
    """The solvers' clock goes 10 ms with every look at it, however fast or busy the machine is."""
    looks = itertools.count()
    monkeypatch.setattr(
        "formulations.language.clock.time", SimpleNamespace(perf_counter=lambda: 0.01 * next(looks))
    )
