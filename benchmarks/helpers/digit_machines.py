"""The machines of the RMM paper's Table 1 on one pair of digits, chosen by validation and fitted.

Read :func:`pair_record` first: what a job gives. See :mod:`benchmarks.rmm_table`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from benchmarks.baselines.klda import fisher_direction
from benchmarks.helpers.digit_pairs import Digits, Matrix, Pair, PairData, Vector
from formulations.centred_kernel import CentredKernel
from formulations.families import Families, hinge_families
from formulations.language.solution import Solution, Status
from polyopt.linalg.kernels import MatrixGram
from polyopt.margin.decomposition import Decomposition
from polyopt.margin.decomposition.state import Dual

Setting = tuple[float, ...]
Grid = tuple[Setting, ...]

TOL = 1e-3
GRIDS: dict[str, Grid] = {
    "SVM": tuple(product((1.0, 3.0, 10.0, 30.0, 100.0, 1000.0))),  # C
    "RMM": tuple(product((1.0, 10.0, 100.0, 1000.0), (1 / 2, 1 / 4, 1 / 10, 1 / 20))),  # C, share of θ - 1
    "Sigma-SVM": tuple(product((0.9, 0.99, 0.999), (0.1, 1.0, 10.0))),  # D and C
    "KLDA": tuple(product((1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0))),  # ε
}
DIRECT = "DIRECT"  # the status of a linear system
# From the best to the worst, as cells count them.
ENDS = (DIRECT, *(s.name for s in (Status.SOLVED, Status.CONVERGED, Status.INACCURATE, Status.STALLED)))


class SingleGram(MatrixGram):
    """A Gram matrix that is there as a whole, in the precision it has."""

    K: Matrix

    def __init__(self, K: Matrix):
        self.K, self.n, self.entry_cost = K, len(K), 1

    def diagonal(self) -> Vector:
        """Of the matrix, in double precision."""
        return self.K.diagonal().astype(float)


@dataclass
class Fits:
    """Machines of one method on the same samples, one per setting."""

    settings: list[Setting] = field(default_factory=list)  # their settings
    coefs: list[Vector] = field(default_factory=list)  # expansion coefficients, shape (n,), and b
    intercepts: list[float] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)  # how each solve ended
    # violation m - M of the optimality conditions, of outputs computed anew in double precision
    violations: list[float] = field(default_factory=list)
    shared: int = 0  # how many are the machine with a smaller C, whose solution serves them as well
    seconds: float = 0.0  # CPU seconds of the solves

    def add(self, setting: Setting, coef: Vector, b: float, end: str, violation: float) -> None:
        """Add a machine."""
        self.settings.append(setting)
        self.coefs.append(coef)
        self.intercepts.append(b)
        self.ends.append(end)
        self.violations.append(violation)

    def of(self, settings: Sequence[Setting]) -> tuple[Vector, Vector]:
        """Coefficients, shape (n, settings), and intercepts of the machines with these settings."""
        places = [self.settings.index(setting) for setting in settings]
        return np.column_stack([self.coefs[k] for k in places]), np.array(
            [self.intercepts[k] for k in places]
        )


def pair_record(
    digits: Digits, scaling: str, methods: Sequence[str], kernels: Sequence[str], pair: Pair
) -> dict[str, Any]:
    """All that the table needs of a pair.

    "cells": by (kernel, method) validation errors and mean losses of every setting. "answers": by (line of
    the table, kernel, method) whether each test sample gets the second digit, packed; the setting
    chosen; how its solves, and those that chose it, ended; their largest violation. "seconds": of the
    processor, in all.
    """
    started = time.process_time()
    data = PairData(digits, scaling, pair)
    record: dict[str, Any] = {"cells": {}, "answers": {}, "pair": pair, "scaling": scaling}
    record["grids"] = GRIDS
    for kernel in kernels:
        _add_kernel(record, data, digits, kernel, methods)
    record["seconds"] = time.process_time() - started
    return record


def _add_kernel(
    record: dict[str, Any], data: PairData, digits: Digits, kernel: str, methods: Sequence[str]
) -> None:
    grids = {method: GRIDS[method] for method in methods}
    errors = {method: np.zeros(len(grid)) for method, grid in grids.items()}
    losses = {method: np.zeros(len(grid)) for method, grid in grids.items()}
    tried: dict[str, list[Fits]] = {method: [] for method in methods}
    for train, rest in data.splits:
        fits = fitted(data.gram(kernel, train), data.y[train], grids)
        for method, fit in fits.items():
            coefs, b = fit.of(grids[method])
            scores = (data.outputs(kernel, rest, train, coefs) + b) * data.y[rest, None]
            errors[method] += (scores <= 0.0).sum(axis=0)
            losses[method] += np.maximum(1.0 - scores, 0.0).mean(axis=0) / len(data.splits)
            tried[method].append(fit)
    chosen = {method: _chosen(grid, errors[method], losses[method]) for method, grid in grids.items()}
    for name, whole in digits.tables:
        samples = np.arange(len(data.y)) if whole else data.splits[0][0]
        last = fits
        if whole:
            wanted = {method: (chosen[method],) for method in methods}
            last = fitted(data.gram(kernel, samples), data.y[samples], wanted)
        for method in methods:
            coefs, b = last[method].of([chosen[method]])
            is_second = data.outputs(kernel, None, samples, coefs) + b > 0.0
            counted = [*tried[method]] + ([last[method]] if whole else [])
            record["answers"][name, kernel, method] = {
                "answers": np.packbits(is_second[:, 0]),
                "setting": chosen[method],
                "end": max((end for f in counted for end in f.ends), key=badness),
                "violation": max(v for f in counted for v in f.violations),
                "shared": sum(f.shared for f in counted),
                "solves": sum(len(f.settings) for f in counted),
                "validation errors": float(errors[method].min()),
                "seconds": sum(f.seconds for f in counted),
            }
    for method in methods:
        record["cells"][kernel, method] = {"errors": errors[method], "losses": losses[method]}


def badness(end: str) -> int:
    """How bad an end of a solve is: what is not known is worst."""
    return ENDS.index(end) if end in ENDS else len(ENDS)


def _chosen(grid: Grid, errors: Vector, losses: Vector) -> Setting:
    """Of the settings with fewest validation errors, that with the least mean hinge loss."""
    return grid[np.lexsort((losses, errors))[0]]


def fitted(K: Matrix, y: Vector, settings: dict[str, Grid]) -> dict[str, Fits]:
    """Machines with these settings, by method, on the samples of a Gram matrix."""
    margins = {method: settings[method] for method in ("SVM", "RMM") if method in settings}
    found = margin_machines(K, y, margins)
    if "Sigma-SVM" in settings:
        found["Sigma-SVM"] = _sigma(K, y, settings["Sigma-SVM"])
    if "KLDA" in settings:
        found["KLDA"] = _discriminants(K, y, settings["KLDA"])
    return found


def margin_machines(K: Matrix, y: Vector, settings: dict[str, Grid]) -> dict[str, Fits]:
    """SVM, settings (C,), and RMM, settings (C, share): the bound is 1 + share (θ - 1), θ the SVM's.

    Costs rise, and each machine starts from one solved before. Where no multiplier is at its cap C, the
    solution is that of every larger C (with the same bound), which then shares it.
    """
    machine, walk = Decomposition(SingleGram(K)), _Walk(y)
    costs = sorted({setting[0] for grid in settings.values() for setting in grid})
    for C in costs:
        theta = float(np.abs(walk.solve(machine, "SVM", (C,), np.inf)["f"]).max())
        for setting in settings.get("RMM", ()):
            if setting[0] == C:
                walk.solve(machine, "RMM", setting, 1.0 + max(theta - 1.0, 0.0) * setting[1])
    fits = walk.fits(K)
    places = {method: [fits[method].settings.index(s) for s in grid] for method, grid in settings.items()}
    assert all(len(found) == len(settings[method]) for method, found in places.items())
    return {method: fits[method] for method in settings}


class _Walk:
    """Machines of one kind after the other, as C rises."""

    def __init__(self, y: Vector):
        self._y = y
        self._found: dict[str, list[tuple[Setting, Solution, Families]]] = {"SVM": [], "RMM": []}
        self._free: dict[tuple[float, ...], tuple[float, Solution, Families]] = {}
        self._shared, self._seconds = {"SVM": 0, "RMM": 0}, {"SVM": 0.0, "RMM": 0.0}

    def solve(self, machine: Decomposition, method: str, setting: Setting, B: float) -> Solution:
        """The machine with this setting and bound, or the one with a smaller C that is the same."""
        before = self._free.get(setting[1:])
        if before is not None and before[0] == B:
            self._found[method].append((setting, *before[1:]))
            self._shared[method] += 1
            return before[1]
        started = time.process_time()
        rows = hinge_families(self._y, np.full(len(self._y), setting[0]), B)
        solution = machine.solve(rows, tol=TOL)
        self._seconds[method] += time.process_time() - started
        self._found[method].append((setting, solution, rows))
        if solution.duals["margin"].max() < setting[0]:
            self._free[setting[1:]] = (B, solution, rows)
        return solution

    def fits(self, K: Matrix) -> dict[str, Fits]:
        """All that was found, with the violations computed anew."""
        every = {id(s): (s, rows) for found in self._found.values() for _, s, rows in found}
        violations = dict(zip(every, _violations(K, [*every.values()]), strict=True))
        fits = {}
        for method, found in self._found.items():
            fit = fits[method] = Fits(shared=self._shared[method], seconds=self._seconds[method])
            for setting, s, _ in found:
                fit.add(setting, s["coef"], float(s["b"]), s.status.name, violations[id(s)])
        return fits


def _violations(K: Matrix, found: Sequence[tuple[Solution, Families]]) -> list[float]:
    """Violation m - M of each solution, in double precision."""
    betas = np.column_stack([rows.beta(rows.stacked(s.duals)) for s, rows in found])
    support = np.flatnonzero(betas.any(axis=1))
    G = np.zeros(betas.shape)
    for start in range(0, len(K), 500):
        G[start : start + 500] = K[start : start + 500, support].astype(float) @ betas[support]
    each = zip(found, betas.T.copy(), G.T.copy(), strict=True)
    pairs = [Dual(rows).extremes(beta, g) for (_, rows), beta, g in each]
    return [float(m - M) for m, M in pairs]


def _sigma(K: Vector, y: Vector, grid: Grid) -> Fits:
    """Sigma-SVM, settings (D, C): the SVM on the kernel that is centred and shrunk, and back from there."""
    started = time.process_time()
    centred, fit, last = CentredKernel(K), Fits(), np.nan
    for D, C in grid:
        if last != D:
            gram = centred.gram(D)
            machine, last = Decomposition(gram), D
        rows = hinge_families(y, C)
        solution = machine.solve(rows, tol=TOL)
        # Outputs are v·(k_t - K1/n) centred; in terms of k_t itself:
        factors = centred.shrinkage(D) / centred.eigenvalues
        v = centred.root @ (factors * (centred.root.T @ solution["coef"]))
        v -= v.mean()
        (violation,) = _violations(gram, [(solution, rows)])
        fit.add((D, C), v, float(solution["b"]) - K.mean(axis=0) @ v, solution.status.name, violation)
    fit.seconds = time.process_time() - started
    return fit


def _discriminants(K: Vector, y: Vector, grid: Grid) -> Fits:
    """KLDA, settings (ε,), the ridge in feature space; outputs are -1 and 1 at the projected class means."""
    started, fit = time.process_time(), Fits()
    delta = np.where(y > 0.0, 1.0 / (y > 0.0).sum(), -1.0 / (y < 0.0).sum())
    for (eps,) in grid:
        v, b = fisher_direction(K, y > 0.0, eps)
        half = 0.5 * float(v @ (K @ delta))
        fit.add((eps,), v / half, b / half, DIRECT, 0.0)
    fit.seconds = time.process_time() - started
    return fit
