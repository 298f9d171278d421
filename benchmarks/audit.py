"""An audit of other solvers: what they say of fifty programs, and what is so.

Five programs on ten data sets: the SVM, linear and with the RBF kernel, the SVM whose bias is penalised, and
the Relative Margin Machine, whose bounds on the outputs are hard or have slack; C = 1, B = 2, D = 1. The sets
are built in or random, of at most 150 samples; "raw" features have the scales that they came with, those of
the last from 1e-4 to 1e4. The packages of SVMs are called with their own tolerances; OSQP, SCS, HiGHS and
Clarabel by cvxpy, with its settings, on the explicit program (of the kernel machine the dual), for 10 s.

"Said solved" counts the programs of which a solver says so; "user limit" is cvxpy's word for a limit of steps
or time, here OSQP's 10,000 steps. "Gap told" is the relative gap between primal and
dual value that it reports, where it does. The proven gap is relative too: between the value of the solver's
point, its slacks computed anew, and the better of two bounds, by its multipliers and by ours. Of the kernel
machine's dual it is the point that the multipliers imply, and the bound is theirs; where a point breaks hard
bounds it is scaled back to them. "Off" counts the programs that are said to be solved where the proven gap is
above 1e-3. "Violation" is the worst of the explicit program's rows by the solver's own slacks.

Each answer is a claim in a file, which the exact checker has proven. They are written into ``results/audit``,
beside the data that they are of; ``results/audit.csv`` has a line for each, with the claim's digest.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.helpers.audited import Heard, entrants
from benchmarks.helpers.kept import RESULTS
from polyopt import certify, datasets
from polyopt.base.files import write_text
from polyopt.check import check as plain

CELLS, CLAIMS = RESULTS / "audit.csv", RESULTS / "audit"
FAMILIES = ("SVM", "SVM, RBF", "SVM, bias penalised", "RMM", "RMM, soft bounds")
_SAMPLES, _OFF = 150, 1e-3


def run(smoke: bool = False, kept: bool = False) -> pd.DataFrame:
    """One row per program and solver: a line of the table for each of its answers, counted."""
    if kept:
        return as_printed(pd.read_csv(CELLS))
    folder = Path(mkdtemp()) if smoke else CLAIMS
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for data, X, y in list(sets(30))[-2:-1] if smoke else sets():
        for family in FAMILIES[::3] if smoke else FAMILIES:
            for solver, answer in entrants(family).items():
                named = {"program": family, "data": data, "solver": solver}
                print(f"{family}, {data}, {solver}", file=sys.stderr, flush=True)
                rows.append(named | _judged(answer(X, y), X, y, folder, named))
    cells = pd.DataFrame(rows)
    if not smoke:
        write_text(CELLS, cells.to_csv(index=False, float_format="%.3g"))
    return as_printed(cells)


def sets(most: int = _SAMPLES) -> Iterator[tuple[str, Any, Any]]:
    """Names, samples and labels -1 and +1."""
    rng = np.random.default_rng(0)
    for name in ("ionosphere", "sonar", "wdbc", "pima", "bupa"):
        found = datasets.load(name)
        rows = np.sort(rng.permutation(len(found.y))[:most])
        X, y = np.asarray(found.X, dtype=float)[rows], np.where(found.y == found.y.max(), 1, -1)[rows]
        spread = X.std(axis=0)
        yield name, (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y
        if name in ("wdbc", "pima", "bupa"):
            yield f"{name}, raw", X, y
    n = min(most, 120)
    yield "random labels", rng.normal(size=(n, 10)), np.where(rng.random(n) < 0.5, 1, -1)
    X = rng.normal(size=(n, 8))
    y = np.where(X.sum(axis=1) + 2 * rng.normal(size=n) > 0, 1, -1)
    yield "random, raw", X * np.logspace(-4, 4, 8), y


def _judged(heard: Heard, X: Any, y: Any, folder: Path, named: dict[str, str]) -> dict[str, Any]:
    """What is so: the claim's gap, once the checker has proven it."""
    found = {"says": heard.says, "gap told": heard.gap, "violation": heard.violation}
    if heard.solution is None:
        return found | {"gap proven": np.nan, "by": "", "claim": ""}
    settings = {"program": "svm", **heard.settings}
    certificate = certify(settings.pop("program"), (X, y), heard.solution, **settings)
    place = folder / f"{_slug(', '.join(named.values()))}.json"
    data = folder / f"{_slug(named['data'])}.svm"
    (claim,) = certificate.save(place, data=None if data.is_file() else data)
    plain.check(claim, str(data), lambda step: None)
    value, bound = (plain.number(claim["claim"][part]) for part in ("value", "bound"))
    return found | {
        "gap proven": float((value - bound) / max(abs(value), abs(bound))),
        "by": "theirs" if "that came with the solution." in certificate.note else "ours",
        "claim": hashlib.sha256(place.read_bytes()).hexdigest()[:16],
    }


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def as_printed(cells: pd.DataFrame) -> pd.DataFrame:
    """The table: a row for each program and solver."""
    rows = []
    for (program, solver), part in cells.groupby(["program", "solver"], sort=False):
        gap, solved = part["gap proven"], part["says"] == "solved"
        worst = part.loc[gap.idxmax()] if gap.notna().any() else part.iloc[0]
        rows.append(
            {
                "program": program,
                "solver": solver,
                "programs": len(part),
                "said solved": int(solved.sum()),
                "off": int((solved & ~(gap <= _OFF)).sum()),
                "gap told, worst": part["gap told"].max(),
                "gap proven, median": gap.median(),
                "gap proven, worst": gap.max(),
                "there it says": worst["says"],
                "worst on": worst["data"],
                "violation, worst": part["violation"].max(),
            }
        )
    return pd.DataFrame(rows)
