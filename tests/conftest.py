"""Settings and data that several test files share.

What is tested is imported within, and not by the process that only hands out the tests.
"""

from __future__ import annotations

import gc
import itertools
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings

# Solvers are slow next to what hypothesis expects, and a shared machine is slower still.
settings.register_profile("polyopt", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("polyopt")


def pytest_collection_finish():
    """What is imported and collected by now stays: collections of garbage leave it alone."""
    gc.freeze()


@pytest.fixture(params=[0, 2])
def blobs(request):
    """Two overlapping classes in three dimensions: X (40, 3), y (40,)."""
    from formulations.samples import two_blobs

    return two_blobs(seed=request.param)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, even where a shell in the background has had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def ticking(monkeypatch):
    """The solvers' clock goes 10 ms with every look at it, however fast or busy the machine is."""
    looks = itertools.count()
    monkeypatch.setattr("formulations.clock.time", SimpleNamespace(perf_counter=lambda: 0.01 * next(looks)))


@pytest.fixture
def working_sets(monkeypatch):
    """Small machines are solved by working sets alone, as large ones are, without pair steps over all."""
    monkeypatch.setattr("polyopt.solvers.decomposition.walk._WALK_ROW", 0)
