"""A line of a comparison: one fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

__all__ = ["Row", "as_plain"]


@dataclass(frozen=True)
class Row:
    """One fit.

    Attributes
    ----------
    data, method, solver : str
        What was solved, and by what.
    program : str
        The program, as ``polyopt show`` calls it.
    settings : str
        The settings that matter, such as ``"C=1, B=8.47"``.
    objective, bound : float
        Primal value and proven bound, from the certificate.
    gap, relative_gap : float
        Their distance, absolute and relative.
    residual : float
        The worst residual of the optimality conditions, relative to its scale.
    residual_at : str
        Its condition, row and index; empty where every condition holds exactly.
    claim : str
        What the certificate proves: ``optimal``, ``suboptimal_by``, ``stationary``, ``infeasible``,
        ``none``.
    complexity : int or None
        Support vectors, or faces.
    counts : str
        Which of the two.
    test_error : float
        Share of the test samples that are misclassified.
    seconds : float
        Time of the fit, imports apart.
    status : str
        How the solver ended, by its own account, or why there is no fit.
    split, seed : int
        The seeds of the split and of the solver.
    estimator : object
        The fitted estimator; None where there is none, and of all but the first split and seed.
    """

    data: str
    method: str
    solver: str
    program: str
    settings: str
    objective: float
    bound: float
    gap: float
    relative_gap: float
    residual: float
    residual_at: str
    claim: str
    complexity: int | None
    counts: str
    test_error: float
    seconds: float
    status: str
    split: int = 0
    seed: int = 0
    estimator: Any = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the estimator; numbers that are not finite as None, for JSON."""
        return as_plain({f.name: getattr(self, f.name) for f in fields(self) if f.name != "estimator"})


def as_plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values by name, numbers that are not finite as None, for JSON."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in values.items()
    }
