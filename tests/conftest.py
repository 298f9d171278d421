"""Settings and data that several test files share.

What is tested is imported within, and not by the process that only hands out the tests.
"""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
from types import SimpleNamespace

import pytest
from helpers import cases
from hypothesis import settings

# Each worker has a core for itself: the threads of several would only wait for each other. This must be said
# before numpy is imported.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")  # gw0, gw1, ..., and nothing without workers
if WORKER:
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# Programs and compilers leave much that is soon gone and hardly any garbage in circles; what a worker has
# before its first test is kept to the end.
gc.set_threshold(10_000, 20, 20)
if WORKER:
    gc.disable()

# Solvers are slow next to what hypothesis expects, and a shared machine is slower still.
settings.register_profile("polyopt", deadline=None, max_examples=10, derandomize=True)
settings.register_profile("every-case", settings.get_profile("polyopt"), max_examples=25)
settings.load_profile("polyopt")


def pytest_configure(config):
    """What numba warns of is an error.

    Among pytest's settings this filter would import numba, and numpy with it, before the threads are limited
    above, and also in the process that only hands out the tests.
    """
    if config.getoption("every_case"):
        cases.EVERY = True
        settings.load_profile("every-case")
    if WORKER or not getattr(config.option, "numprocesses", None):
        config.addinivalue_line("filterwarnings", "error::numba.core.errors.NumbaWarning")


def pytest_addoption(parser):
    parser.addoption(
        "--every-case",
        action="store_true",
        help="run also the cases that take the same way through the code as others, as the project's CI does",
    )


def pytest_report_header(config):
    """Workers do not tell what they leave out."""
    return None if config.getoption("every_case") else "few cases of each test; all of them with --every-case"


# The order of the tests: two workers have a half each, and what one of them compiles serves both. The second
# begins with certificates and formulations, which compile little; what both want, the first has by then.
# The files of formulas and claims that fit hinge machines come late, with the polyhedral ones.
FOLDERS = "models", "ground", "solvers", "outer", "estimators", "commands", "certificates", "formulations"
LATE = re.compile(
    "cpm|poly|l0|plume|pc_slp|coordinate|sparse_claims|hinge_|cross_entropy|face|lanes|votes|families|margin_bounds"
)


class FromTheEnd(pytest.Dir):
    """A folder whose last file is read first, so that two workers do not rewrite the same asserts."""

    def collect(self):
        return reversed(list(super().collect()))


def pytest_collect_directory(path, parent):
    return FromTheEnd.from_parent(parent, path=path) if WORKER[-1:] in tuple("13579") else None


@pytest.hookimpl(tryfirst=True)  # before what the user leaves out by words and markers
def pytest_collection_modifyitems(config, items):
    """Hinge losses, commands and formulas come first; polyhedral machines, and whatever needs all, last."""
    by_name = any("::" in argument for argument in config.args)  # who names a test wants all of it
    if not config.getoption("every_case") and not by_name:
        out = set(cases.left_out(items))
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]

    def place(item):
        folder, file = item.path.parts[-2:]
        whole = folder == "whole"
        number = FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS)
        return whole or LATE.search(file) is not None, number, file

    items.sort(key=place)
    # Of two workers only the first starts processes, which import all that they need; when it comes to them,
    # most is compiled.
    dealing = [item for item in items if item.get_closest_marker("processes")]
    others = [item for item in items if not item.get_closest_marker("processes")]
    early = len(others) // 3
    items[:] = others[:early] + dealing + others[early:]


def pytest_collection_finish():
    """What is imported and collected by now stays: collections of garbage leave it alone."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish():
    """Nobody looks for garbage when all is over: pytest, and Python itself, would spend seconds on it."""
    gc.freeze()


@pytest.fixture(params=[0, 2])
def blobs(request):
    """Two overlapping classes in three dimensions: X (40, 3), y (40,)."""
    from formulations.samples import two_blobs

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
def ticking(monkeypatch):
    """The solvers' clock goes 10 ms with every look at it, however fast or busy the machine is."""
    looks = itertools.count()
    monkeypatch.setattr("formulations.clock.time", SimpleNamespace(perf_counter=lambda: 0.01 * next(looks)))


@pytest.fixture
def working_sets(monkeypatch):
    """Small machines are solved by working sets alone, as large ones are, without pair steps over all."""
    monkeypatch.setattr("polyopt.solvers.decomposition.walk._WALK_ROW", 0)
