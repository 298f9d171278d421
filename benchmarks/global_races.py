"""Proven optima of the machines with integer programs: our searches against SCIP and HiGHS.

Drawn samples of three built-in sets, scaled: the polytope machine with two faces, and the L0 machine with
three kernels, C = 1. Each solver goes from the data to its answer. Ours knows no point, and the time of its
heuristic counts; it has six seconds of the clock. Where it proves its point within them the rivals have
forty, else six as well, and the gaps are those at equal time. SCIP gets for the polytope machine the value
of a point of ours, which makes its M small; that cvxpy builds its programs counts, some tenths of a second.
HiGHS takes no squares beside integers: it has the programs of the L0 machine alone.
With ``loss="max"`` or ``margin="worst"`` the polytope machine has no search of its own but SCIP, and no race.

Seconds are of the processor, which on a busy machine has less than the clock. Times are those of the rival
over ours, where ours ended; of a rival that did not end they are of what it had, and the true number is
larger. A gap is relative, from a solver's own point to its own bound; ours ends at 1e-6, SCIP and HiGHS at
1e-4. The geometric mean and the least are over all cases that ours proved, tiny ones too; "behind" counts the
cases that ours did not prove in which its gap was larger than the rival's.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

from formulations import l0
from formulations.cpm import mixed_integer
from formulations.l0_data import as_l0_data
from formulations.language.clock import Clock
from polyopt import Kernel, datasets
from polyopt.cpm.global_search.search import solve_cpm_global
from polyopt.sparse.cross_entropy import solve_l0
from polyopt.sparse.proof import Options, solve_globally

_SETS, _SEED, _LIMIT = ("bupa", "wbc", "ionosphere"), 24, 6.0
_RIVAL_SECONDS = 40.0  # for rivals, where ours ended
_SOLVERS_GAP = 1.01e-4  # the gap at which SCIP and HiGHS end
_MIP = {"limits/gap": 1e-4}


class _Case(NamedTuple):
    """A program, and what each solver makes of it: (objective, bound) within so many seconds."""

    program: str
    data: str
    n: int
    solvers: dict[str, Callable[[float], tuple[float, float]]]


def run(smoke: bool = False) -> pd.DataFrame:
    """One row per program and draw, then the means."""
    sizes, sets, limit = ((12,), ("bupa",), 2.0) if smoke else ((24, 72), _SETS, _LIMIT)
    for case in _cases("bupa", 10):  # loads what is imported
        case.solvers["ours"](1.0)
    rows = []
    for n, name in product(sizes, sets):
        for case in _cases(name, n):
            rows.append(_row(case, limit))
            print("  " + ", ".join(str(value) for value in list(rows[-1].values())[:5]), flush=True)
    return _with_means(pd.DataFrame(rows))


def _cases(name: str, n: int) -> Iterator[_Case]:
    """Every program on one draw."""
    whole = datasets.load(name)
    kept = np.random.default_rng(_SEED).permutation(len(whole.y))[:n]
    X = StandardScaler().fit_transform(np.asarray(whole.X, dtype=float)[kept])
    y = np.where(whole.y[kept] == np.unique(whole.y)[1], 1.0, -1.0)
    yield _Case("polytope", name, n, _polytope(X, y))
    for kernel in ("linear", "poly", "rbf"):
        m = X.shape[1]
        K = X @ X.T / m if kernel == "linear" else Kernel(kernel, 1.0 / m, 3, 1.0)(X)
        yield _Case(f"L0, {kernel}", name, n, _l0(K, y))


def _has_scip() -> bool:
    return importlib.util.find_spec("pyscipopt") is not None


def _polytope(X: Any, y: Any) -> dict[str, Callable[[float], tuple[float, float]]]:
    known = solve_cpm_global(X, y, 1.0, 2, max_nodes=1).objective

    def scip(limit: float) -> tuple[float, float]:
        program = mixed_integer(X, y, 2, 1.0, upper=known * (1 + 1e-6))
        return _value(program.solve("SCIP", time_limit=limit, **_MIP))

    ours = {"ours": lambda limit: _value(solve_cpm_global(X, y, 1.0, 2, time_limit=limit))}
    return ours | ({"SCIP": scip} if _has_scip() else {})


def _l0(K: Any, y: Any) -> dict[str, Callable[[float], tuple[float, float]]]:
    data = as_l0_data(K, y, 1.0)

    def ours(limit: float) -> tuple[float, float]:
        def search(seconds: float | None) -> Any:
            return solve_l0(data, time_limit=seconds, seed=0)[0]

        return _value(solve_globally(data, search, Clock(limit), options=Options(search_time=0.3))[0])

    def scip(limit: float) -> tuple[float, float]:
        return _value(l0.mixed_integer(K, y, 1.0).solve("SCIP", time_limit=limit, **_MIP))

    def highs(limit: float) -> tuple[float, float]:
        return _value(l0.mixed_integer(K, y, 1.0).solve("HIGHS", time_limit=limit))

    return {"ours": ours, **({"SCIP": scip} if _has_scip() else {}), "HiGHS": highs}


def _value(solution: Any) -> tuple[float, float]:
    return float(solution.objective), np.nan if solution.bound is None else float(solution.bound)


def _row(case: _Case, limit: float) -> dict[str, Any]:
    row: dict[str, Any] = {"program": case.program, "data": case.data, "n": case.n}
    for name, solve in case.solvers.items():
        is_proven = row.get("ours, gap %", np.inf) <= 100 * _SOLVERS_GAP
        started = time.process_time()
        value, bound = solve(max(limit, _RIVAL_SECONDS) if is_proven else limit)
        row[f"{name}, s"] = time.process_time() - started
        gap = (value - bound) / abs(value) if np.isfinite(value) and np.isfinite(bound) else np.inf
        row[f"{name}, gap %"] = 100 * max(gap, 0.0)
    is_proven = row["ours, gap %"] <= 100 * _SOLVERS_GAP
    for rival in case.solvers:
        if rival != "ours":
            row[f"{rival}, times"] = row[f"{rival}, s"] / row["ours, s"] if is_proven else np.nan
    return row


def _with_means(table: pd.DataFrame) -> pd.DataFrame:
    """The table, and under it for each rival the geometric mean of the times, and the least."""
    more = []
    of_program = table["program"].str.partition(",")[0]
    for title in (*of_program.unique(), "all"):
        own = table if title == "all" else table[of_program == title]
        mean: dict[str, Any] = {"program": title, "data": "geometric mean", "n": len(own)}
        least: dict[str, Any] = {"program": title, "data": "least", "n": len(own)}
        worse: dict[str, Any] = {"program": title, "data": "behind", "n": len(own)}
        for rival in ("SCIP", "HiGHS"):
            if f"{rival}, times" not in own or own[f"{rival}, gap %"].isna().all():
                continue
            times = own[f"{rival}, times"].dropna()
            mean[f"{rival}, times"] = float(np.exp(np.log(times).mean())) if len(times) else np.nan
            least[f"{rival}, times"] = times.min() if len(times) else np.nan
            ours, theirs = own["ours, gap %"], own[f"{rival}, gap %"]
            open_ = (ours > 100 * _SOLVERS_GAP) & theirs.notna()
            worse[f"{rival}, times"] = float((open_ & (ours > theirs * (1 + 1e-6))).sum())
        more += [mean, least, worse]
    order = ["program", "data", "n"]
    order += [f"{name}, {what}" for what in ("s", "gap %", "times") for name in ("ours", "SCIP", "HiGHS")]
    whole = pd.concat([table, pd.DataFrame(more)], ignore_index=True)
    return whole[[name for name in order if name in whole]]
