"""What other packages answer to a program: their point, what they say of it, and the gap that they tell."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import cvxpy as cp
import numpy as np
from sklearn.svm import SVC, LinearSVC

from formulations import rmm, svm
from formulations.language.program import Program
from polyopt.linalg.kernels import Kernel

C, B, D = 1.0, 2.0, 1.0
LIMIT = 10.0  # seconds of a general solver
STEPS = 10_000_000  # LIBSVM's own limit; scikit-learn has none unless it is told, nor has ...
INTELEX_STEPS = 300  # ... scikit-learn-intelex, which counts in larger ones
GENERAL = {
    "OSQP": {"time_limit": LIMIT}, "SCS": {"time_limit_secs": LIMIT}, "HiGHS": {"time_limit": LIMIT},
    "Clarabel": {"time_limit": LIMIT},
}  # fmt: skip
_SOLVED = "solved"


@dataclass(frozen=True)
class Heard:
    """A solution as `polyopt.certify` takes it, or None; the status; the gap and the violation of rows."""

    solution: Any
    says: str
    gap: float = np.nan
    violation: float = np.nan
    settings: dict[str, Any] = field(default_factory=dict)


def entrants(family: str) -> dict[str, Callable[[Any, Any], Heard]]:
    """By name, what answers to a family's program: a function of samples (n, m) and labels -1 and +1."""
    found: dict[str, Callable[[Any, Any], Heard]] = {}
    if family in ("SVM", "SVM, RBF"):
        kernel = "linear" if family == "SVM" else "rbf"
        found["scikit-learn"] = lambda X, y: _svc(SVC, kernel, X, y)
        if find_spec("sklearnex"):
            found["scikit-learn-intelex"] = lambda X, y: _svc(_intelex(), kernel, X, y, INTELEX_STEPS)
        if find_spec("libsvm"):
            found["LIBSVM"] = lambda X, y: _libsvm(kernel, X, y)
    elif family == "SVM, bias penalised":
        found["scikit-learn"] = _linear_svc
        if find_spec("liblinear"):
            found["LIBLINEAR"] = _liblinear
    return found | {name: _general(name, family) for name in GENERAL}


def _intelex() -> Any:
    from sklearnex import svm as intelex

    return intelex.SVC


def _svc(kind: Any, kernel: str, X: Any, y: Any, steps: int = STEPS) -> Heard:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine = kind(kernel=kernel, C=C, max_iter=steps).fit(X, y)
    return Heard(machine, "iteration limit" if np.max(machine.n_iter_) >= steps else _SOLVED)


def _linear_svc(X: Any, y: Any) -> Heard:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        machine = LinearSVC(loss="hinge", C=C, random_state=0).fit(X, y)
    return Heard(machine, "iteration limit" if any("converge" in str(w.message) for w in said) else _SOLVED)


def _libsvm(kernel: str, X: Any, y: Any) -> Heard:
    from libsvm import svmutil

    gamma = 1.0 / (X.shape[1] * X.var())  # as scikit-learn's rule has it
    options = f"-t {0 if kernel == 'linear' else 2} -c {C} -g {float(gamma)!r}"
    with _heard() as said:
        model = svmutil.svm_train(svmutil.svm_problem(y, X), options)
    return _of_library(model, said)


def _liblinear(X: Any, y: Any) -> Heard:
    from liblinear import liblinearutil

    with _heard() as said:
        model = liblinearutil.train(liblinearutil.problem(y, X), f"-s 3 -c {C} -B 1")
    return _of_library(model, said)


def _of_library(model: Any, said: list[str]) -> Heard:
    return Heard(model, "iteration limit" if "max number of iterations" in said[0] else _SOLVED)


@contextmanager
def _heard() -> Iterator[list[str]]:
    """What C code prints on both streams, in a list of one text."""
    said, streams = [""], (sys.stdout, sys.stderr)
    for stream in streams:
        stream.flush()
    kept = [os.dup(number) for number in (1, 2)]
    with tempfile.TemporaryFile("w+") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        try:
            yield said
        finally:
            for stream in streams:
                stream.flush()
            for number, old in zip((1, 2), kept, strict=True):
                os.dup2(old, number)
                os.close(old)
            file.seek(0)
            said[0] = file.read()


def _general(name: str, family: str) -> Callable[[Any, Any], Heard]:
    def answer(X: Any, y: Any) -> Heard:
        program, settings = _program(family, X, y)
        is_ours = isinstance(program, Program)
        rows = [row.constraint for row in program.rows] if is_ours else program.constraints
        problem = cp.Problem(program.objective, rows)
        try:
            with warnings.catch_warnings(), _heard():
                warnings.simplefilter("ignore")
                problem.solve(solver=name.upper(), **GENERAL[name])
        except cp.SolverError:
            return Heard(None, "failed")
        if problem.solution is None or any(v.value is None for v in problem.variables()):
            return Heard(None, str(problem.status))
        broken = max(float(np.max(row.violation(), initial=0.0)) for row in problem.constraints)
        says = _SOLVED if problem.status == "optimal" else re.sub("_", " ", problem.status)
        if is_ours:
            duals = {row.name: row.constraint.dual_value for row in program.rows}
        else:
            duals = {row.label: row.dual_value for row in rows if row.label}
        return Heard(_fields(problem, duals), says, _told_gap(problem), broken, settings)

    return answer


def _program(family: str, X: Any, y: Any) -> tuple[Any, dict[str, Any]]:
    """The explicit program, and its settings as `polyopt.certify` takes them."""
    y = y.astype(float)
    if family == "SVM":
        return svm.primal(X, y, C), {"C": C}
    if family == "SVM, RBF":
        gamma = 1.0 / (X.shape[1] * X.var())
        return svm.kernel_dual(Kernel("rbf", gamma)(X), y, C), {"C": C, "kernel": "rbf", "gamma": gamma}
    if family == "RMM":
        return rmm.qp(X, y, C, B), {"program": "rmm", "C": C, "B": B}
    if family == "RMM, soft bounds":
        return rmm.qp(X, y, C, B, D), {"program": "soft-rmm", "C": C, "B": B, "D": D}
    w, b, xi = cp.Variable(X.shape[1], name="w"), cp.Variable(name="b"), cp.Variable(len(y), name="xi")
    row = (cp.multiply(y, X @ w + b) >= 1 - xi).set_label("margin")
    size = (cp.sum_squares(w) + cp.square(b)) / 2
    return cp.Problem(cp.Minimize(size + C * cp.sum(xi)), [row, xi >= 0]), {"C": C, "intercept": "penalised"}


def _fields(problem: cp.Problem, duals: dict[str, Any]) -> dict[str, Any]:
    """The point and the multipliers of a solved problem, as `polyopt.certify` takes them."""
    rows = {"alpha": "margin", "lam": "bound_above", "lam_star": "bound_below"}
    found = {one.name(): one.value for one in problem.variables() if one.name() in ("w", "b", *rows)}
    if "w" not in found:  # a dual, whose variables are the multipliers
        return {rows.get(name, name): value for name, value in found.items()}
    return found | {row: duals[row] for row in rows.values() if duals.get(row) is not None}


def _told_gap(problem: cp.Problem) -> float:
    """The relative gap between primal and dual value that the solver reports, if it does."""
    told = problem.solver_stats.extra_stats
    if isinstance(told, dict) and "info" in told:  # SCS
        info = told["info"]
        return abs(info["gap"]) / max(1e-300, abs(info["pobj"]), abs(info["dobj"]))
    if hasattr(told, "primal_dual_objective_error"):  # HiGHS
        return float(told.primal_dual_objective_error)
    if hasattr(told, "info") and hasattr(told.info, "dual_obj_val"):  # OSQP
        values = abs(told.info.obj_val), abs(told.info.dual_obj_val)
        return abs(told.info.obj_val - told.info.dual_obj_val) / max(1e-300, *values)
    return np.nan
