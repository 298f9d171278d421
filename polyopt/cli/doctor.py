"""``polyopt doctor``: each part is checked by itself, so that a broken one does not hide the others."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import typer

from polyopt.base.files import is_writable
from polyopt.cli.console import output

_LIBRARIES = (
    "numpy", "scipy", "scikit-learn", "cvxpy", "highspy", "osqp", "clarabel", "scs", "joblib",
    "threadpoolctl", "pandas", "matplotlib", "rich", "typer", "pooch", "skops",
)  # fmt: skip
_OPTIONAL = ("pyscipopt",)
_THREADS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS", "OPENBLAS_CORETYPE",
)  # fmt: skip

NEEDED = ("HIGHS", "OSQP", "CLARABEL", "SCS")
"""The solvers that polyopt cannot do without."""


def examine() -> dict[str, Any]:
    """Collect versions, machine, kernels, caches, solvers and problems, as plain values."""
    from polyopt.datasets.loading import cache_folder

    problems: list[str] = []
    data = cache_folder()
    kept = {"in": str(data), "size": _size(data.rglob("*")), "writable": is_writable(data)}
    return {
        "versions": _versions(problems),
        "machine": _machine(),
        "kernels": _kernels(problems),
        "caches": {"data sets": kept},
        "solvers": _solvers(problems),
        "problems": problems,
    }


def _versions(problems: list[str]) -> dict[str, Any]:
    import polyopt

    found: dict[str, Any] = {"python": platform.python_version(), "polyopt": polyopt.__version__}
    for name in (*_LIBRARIES, *_OPTIONAL):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
            if name not in _OPTIONAL:
                problems.append(f"the library {name} is not installed")
    return found


def _machine() -> dict[str, Any]:
    import scipy.linalg  # noqa: F401, loads the libraries whose threads are listed
    from joblib import cpu_count
    from threadpoolctl import threadpool_info

    found: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.machine(),
        "cores": cpu_count(),
    }
    for pool in threadpool_info():
        name = f"{pool['user_api']}, {Path(pool['filepath']).name.partition('.')[0]}"
        found[name] = {
            "version": pool.get("version"), "threads": pool["num_threads"],
            **({"architecture": pool["architecture"]} if pool.get("architecture") else {}),
        }  # fmt: skip
    found["thread settings"] = {name: os.environ[name] for name in _THREADS if name in os.environ}
    return found


def _kernels(problems: list[str]) -> dict[str, Any]:
    """Describe the compiled kernels, and try one."""
    import numpy as np

    from polyopt.native.library import LIBRARIES, kernel, level

    square_norms = kernel("square_norms", "X: T (n, m); centre: f8 (m); squares!: f8 (n)", T="f8")
    found: dict[str, Any] = {"in": str(LIBRARIES), "size": _size(LIBRARIES.glob("kernels.*.so"))}
    squares = np.zeros(1)
    try:
        square_norms(np.array([[3.0, 4.0]]), np.zeros(2), squares)
        found = {"for": level(), **found}
    except (ImportError, OSError, AttributeError) as error:  # not built, for another machine, or outdated
        problems.append(f"the compiled kernels: {' '.join(str(error).split())}")
    else:
        if squares[0] != 25.0:
            problems.append(f"the compiled kernels: {squares[0]} where 25 is right")
    return found


def _size(files: Iterable[Path]) -> str:
    return f"{sum(file.stat().st_size for file in files if file.is_file()) / 1e6:.1f} MB"


def _solvers(problems: list[str]) -> dict[str, dict[str, Any]]:
    import cvxpy as cp

    here = cp.installed_solvers()
    found = {}
    for name in sorted({*NEEDED, "SCIP", *here}):
        verdict = _tried(name) if name in here else "not installed"
        needed = name in NEEDED
        found[name] = {"verdict": verdict, "works": verdict.startswith("solves it"), "needed": needed}
        if needed and not found[name]["works"]:
            problems.append(f"the solver {name}: {verdict}")
    return found


def _tried(name: str) -> str:
    """Solve ``maximise x + y, x + 2y ≤ 4, 3x + y ≤ 6, x, y ≥ 0``, whose value is 2.8."""
    import cvxpy as cp

    x = cp.Variable(2, nonneg=True)
    program = cp.Problem(cp.Maximize(cp.sum(x)), [x[0] + 2 * x[1] <= 4, 3 * x[0] + x[1] <= 6])
    began = time.perf_counter()
    try:
        value = program.solve(solver=name)
    except Exception as error:  # of any kind: it is what is to be found out
        return f"fails: {' '.join(f'{type(error).__name__}: {error}'.split())}"
    if value is None or not abs(value - 2.8) <= 1e-3:  # what first-order solvers come to by default
        return f"is wrong: {value} where 2.8 is right"
    return f"solves it ({time.perf_counter() - began:.2f} s)"


def doctor() -> None:
    """Tell what this installation is, and whether it works.

    Versions, processor and threads, compiled kernels, caches, and every solver tried on a program of two
    variables. Exit status 1 where something that polyopt needs is missing or does not work. Of the
    environment it reads and prints only what sets the number of threads.
    """
    from rich.text import Text

    found, console = examine(), output()
    for line in _report_lines(found):
        console.print(Text(line), soft_wrap=True)
    if found["problems"]:
        raise typer.Exit(1)


def _report_lines(found: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for heading in ("versions", "machine", "kernels", "caches"):
        lines += [heading.capitalize(), *_entries(found[heading])]
    lines.append("Solvers, on a program of two variables")
    width = max(map(len, found["solvers"]))
    for name, one in found["solvers"].items():
        lines.append(f"  {name:<{width}}  {one['verdict']}")
    if found["problems"]:
        lines += ["Problems", *(f"  {problem}" for problem in found["problems"])]
    else:
        lines.append("Everything that polyopt needs is there and works.")
    return lines


def _entries(values: Mapping[str, Any]) -> list[str]:
    width = max(map(len, values))
    lines = []
    for name, value in values.items():
        parts = value.items() if isinstance(value, dict) else ()
        told = ", ".join(f"{key} {_word(each)}" for key, each in parts) or _word(value)
        lines.append(f"  {name:<{width}}  {told}")
    return lines


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "", {}) else str(value)
