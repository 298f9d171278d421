"""The checks of ``polyopt doctor``: each part by itself, so that a broken one does not hide the others."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from polyopt.files import is_writable, temporary_folder

__all__ = ["NEEDED", "examine"]

_LIBRARIES = (
    "numpy", "scipy", "scikit-learn", "cvxpy", "highspy", "osqp", "clarabel", "scs", "numba", "joblib",
    "threadpoolctl", "pandas", "matplotlib", "rich", "typer", "pooch", "skops",
)  # fmt: skip
_OPTIONAL = ("pyscipopt",)
_THREADS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OPENBLAS_CORETYPE",
)  # fmt: skip

NEEDED = ("HIGHS", "OSQP", "CLARABEL", "SCS")
"""The solvers that polyopt cannot do without."""

_KERNEL = re.compile(r"^\s*@\w*njit|= *njit\(", re.MULTILINE)  # a compiled function


def examine() -> dict[str, Any]:
    """Versions, machine, caches, solvers, and what is wrong with them, as plain values."""
    problems: list[str] = []
    return {
        "versions": _versions(problems),
        "machine": _machine(),
        "caches": _caches(problems),
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


def _caches(problems: list[str]) -> dict[str, Any]:
    """Where compiled kernels are kept, which are there by their folders of sources, and data sets."""
    import polyopt
    from polyopt.datasets._download import cache_folder

    root = Path(polyopt.__file__).parent
    places: dict[Path, None] = {}
    families: dict[str, list[bool]] = {}
    for source in sorted(root.rglob("*.py")):
        if not _KERNEL.search(source.read_text(encoding="utf-8")):
            continue
        family = families.setdefault(str(source.parent.relative_to(root.parent)), [])
        place = _cache_of(source)
        if place is None:
            family.append(False)
            continue
        places[place] = None
        compiled = [file for file in place.glob(f"{source.stem}.*.nbi") if _is_newer(file, source)]
        family.append(bool(compiled))
    homes = dict.fromkeys(str(place.parent) for place in places)
    writable = bool(places) and all(is_writable(place) for place in places)
    if not writable:
        problems.append("compiled kernels cannot be kept: set NUMBA_CACHE_DIR to a folder that is writable")
    kernels = {
        "in": homes.popitem()[0] if len(homes) == 1 else f"{root}, beside the sources",
        "size": _size(file for place in places for file in place.glob("*.nb[ic]")),
        "writable": writable,
    }
    found: dict[str, Any] = {"kernels": kernels}
    for name, ready in families.items():
        state = "warm" if all(ready) else "cold: the first fit compiles" if not any(ready) else "warm in part"
        found[name] = f"{state} ({sum(ready)} of {len(ready)} files)"
    data = cache_folder()
    found["data sets"] = {"in": str(data), "size": _size(data.rglob("*")), "writable": is_writable(data)}
    return found


def _cache_of(source: Path) -> Path | None:
    """The folder in which the compiled functions of a file are kept; None where none can be written."""
    from numba.core.caching import CompileResultCacheImpl, UserProvidedCacheLocator

    for kind in CompileResultCacheImpl._locator_classes:
        if (locator := kind.from_function(examine, str(source))) is not None:
            return Path(locator.get_cache_path())
    folder = temporary_folder()
    return folder and Path(folder, UserProvidedCacheLocator.get_suitable_cache_subpath(str(source)))


def _is_newer(file: Path, source: Path) -> bool:
    return file.stat().st_mtime >= source.stat().st_mtime


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
