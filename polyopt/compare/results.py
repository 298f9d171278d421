"""Results: one row for each fit, and the gaps of each solver to a proven bound."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from formulations.language.types import Vector
from polyopt.certificates.certificate import relative_gap
from polyopt.methods import METHODS


@dataclass(frozen=True)
class Row:
    """One fit."""

    data: str  #: name of the data set
    method: str  #: name of the method
    solver: str  #: name of the solver
    program: str  #: name of the program
    settings: str  #: settings as text
    objective: float  #: primal value
    bound: float  #: proven bound, from the certificate
    gap: float  #: absolute distance of objective and bound
    relative_gap: float  #: relative distance of objective and bound
    residual: float  #: worst residual of the optimality conditions, relative to its scale
    residual_at: str  #: condition, row and index of `residual`; empty if all conditions hold exactly
    claim: str  #: of the certificate: optimal, suboptimal_by, stationary, infeasible or none
    complexity: int | None  #: number of support vectors or faces
    counts: str  #: unit of the complexity
    test_error: float  #: fraction of the test samples that are misclassified
    seconds: float  #: time of the fit, without imports
    status: str  #: status of the solver, or the reason for which there is no fit
    seed: int = 0  #: seed of the split and of the solver
    #: The fitted estimator; None for a failed fit.
    estimator: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Proof:
    """Objectives and seconds of one method's solvers on one data set, and the proving solver's bound.

    `run` (records, 2) has seconds and relative gap between the proving solver's best point and its bound. It
    is empty without records of both, and for several classes, since each pair has a run.
    """

    data: str
    method: str
    bound: float
    objectives: dict[str, float]
    seconds: dict[str, float]
    run: Vector = field(repr=False, compare=False)

    @property
    def gaps(self) -> dict[str, float]:
        """Relative gaps from each objective to the bound."""
        return {solver: relative_gap(value, self.bound) for solver, value in self.objectives.items()}


def proofs_of(rows: Sequence[Row]) -> list[Proof]:
    """Return a proof for each data set and method with a bound, from its rows."""
    proofs = []
    for last in rows:
        if last.solver != METHODS[last.method].proving or not np.isfinite(last.bound):
            continue
        fits = [row for row in rows if (row.data, row.method) == (last.data, last.method)]
        objectives = {row.solver: row.objective for row in fits if np.isfinite(row.objective)}
        seconds = {row.solver: row.seconds for row in fits}
        proofs.append(Proof(last.data, last.method, last.bound, objectives, seconds, _run_of(last.estimator)))
    return proofs


def _run_of(estimator: Any) -> Vector:
    """Return seconds and gap of each record that has both values."""
    history = getattr(estimator, "history_", None)
    if history is None or "pair" in history or not {"seconds", "objective", "bound"} <= set(history):
        return np.empty((0, 2))
    records = history[["seconds", "objective", "bound"]].dropna().to_numpy(dtype=float)
    gaps = [relative_gap(value, bound) for _, value, bound in records]
    return np.column_stack([records[:, 0], np.array(gaps)]) if len(records) else np.empty((0, 2))
