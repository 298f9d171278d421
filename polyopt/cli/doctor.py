"""``polyopt doctor``: each part is checked by itself, so that a broken one does not hide the others."""

import os
import platform
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

from polyopt.base.files import is_writable
from polyopt.cli.console import output

_LIBRARIES = (
    "numpy", "scipy", "scikit-learn", "cvxpy", "highspy", "osqp", "clarabel", "scs", "joblib",
    "threadpoolctl", "pandas", "matplotlib", "rich", "typer", "pooch", "skops", "pyscipopt",
)  # fmt: skip
_OPTIONAL = ("pyscipopt",)
_NEEDED_SOLVERS = ("HIGHS", "OSQP", "CLARABEL", "SCS")
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS", "OPENBLAS_CORETYPE",
)  # fmt: skip

Facts = Iterator[tuple[str, str]]  # names and texts


def doctor() -> None:
    """Tell what this installation is, and whether it works.

    Versions, processor and threads, compiled kernels, caches, and every solver tried on a program of two
    variables. Exit status 1 where something that polyopt needs is missing or does not work. Of the
    environment it reads and prints only what sets the number of threads.
    """
    from rich.text import Text

    console, problems = output(), list[str]()
    sections = {
        "Versions": _versions(problems),
        "Machine": _machine(),
        "Kernels": _kernels(problems),
        "Caches": _caches(),
        "Solvers, on a program of two variables": _solvers(problems),
    }
    lines = []
    for heading, facts in sections.items():
        pairs = list(facts)
        width = max(len(name) for name, _ in pairs)
        lines += [heading, *(f"  {name:<{width}}  {text}" for name, text in pairs)]
    well = ["Everything that polyopt needs is there and works."]
    lines += ["Problems", *(f"  {problem}" for problem in problems)] if problems else well
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    if problems:
        raise typer.Exit(1)


def _versions(problems: list[str]) -> Facts:
    import polyopt

    yield "python", platform.python_version()
    yield "polyopt", polyopt.__version__
    for name in _LIBRARIES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "not installed"
            if name not in _OPTIONAL:
                problems.append(f"the library {name} is not installed")


def _machine() -> Facts:
    import scipy.linalg  # noqa: F401, loads the libraries whose threads are listed
    from joblib import cpu_count
    from threadpoolctl import threadpool_info

    yield "system", f"{platform.system()} {platform.release()}"
    yield "processor", platform.machine()
    yield "cores", str(cpu_count())
    for pool in threadpool_info():
        name = f"{pool['user_api']}, {Path(pool['filepath']).name.partition('.')[0]}"
        kind = f", architecture {pool['architecture']}" if pool.get("architecture") else ""
        yield name, f"version {pool.get('version')}, threads {pool['num_threads']}{kind}"
    settings = [f"{name} {os.environ[name]}" for name in _THREAD_VARIABLES if name in os.environ]
    yield "thread settings", ", ".join(settings) or "none"


def _kernels(problems: list[str]) -> Facts:
    """Describe the compiled kernels, and try one."""
    import numpy as np

    from polyopt.native.library import LIBRARIES, kernel, level

    square_norms = kernel("square_norms", "X: T (n, m); centre: f8 (m); squares!: f8 (n)", T="f8")
    squares = np.zeros(1)
    try:
        square_norms(np.array([[3.0, 4.0]]), np.zeros(2), squares)
        yield "for", level()
    except (ImportError, OSError, AttributeError) as error:  # not built, for another machine, or outdated
        problems.append(f"the compiled kernels: {' '.join(str(error).split())}")
    else:
        if squares[0] != 25.0:
            problems.append(f"the compiled kernels: {squares[0]} where 25 is right")
    yield "in", str(LIBRARIES)


def _caches() -> Facts:
    from polyopt.datasets.loading import cache_folder

    yield "data sets", f"in {cache_folder()}, writable {'yes' if is_writable(cache_folder()) else 'no'}"


def _solvers(problems: list[str]) -> Facts:
    import cvxpy as cp

    installed = cp.installed_solvers()
    for name in sorted({*_NEEDED_SOLVERS, "SCIP", *installed}):
        verdict = _try_solver(name) if name in installed else "not installed"
        yield name, verdict
        if name in _NEEDED_SOLVERS and not verdict.startswith("solves it"):
            problems.append(f"the solver {name}: {verdict}")


def _try_solver(name: str) -> str:
    """Solve ``maximise x + y, x + 2y ≤ 4, 3x + y ≤ 6, x, y ≥ 0``, whose value is 2.8."""
    import cvxpy as cp

    x = cp.Variable(2, nonneg=True)
    program = cp.Problem(cp.Maximize(cp.sum(x)), [x[0] + 2 * x[1] <= 4, 3 * x[0] + x[1] <= 6])
    began = time.perf_counter()
    try:
        value = program.solve(solver=name)
    except Exception as error:  # of any kind: it becomes the verdict
        return f"fails: {' '.join(f'{type(error).__name__}: {error}'.split())}"
    if value is None or not abs(value - 2.8) <= 1e-3:  # accuracy of first-order solvers by default
        return f"is wrong: {value} where 2.8 is right"
    return f"solves it ({time.perf_counter() - began:.2f} s)"
