"""The Convex Polytope Machine with the worst-case margin as a problem of alternating minimisation.

Only the longest face is paid for, so the faces are solved together; a start and a better assignment are
found as for the total margin. The objective still never rises: a new assignment leaves W, and with it
max_k ‖W_k‖², as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations import cpm, cpm_worst
from formulations.solution import Solution
from polyopt.certificates.cpm import certify_cpm
from polyopt.outer.cpm.problem import PolytopeProblem, status_by_gap

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["WorstCaseProblem"]

_EXACT = 1e-7  # proven relative gap at which a point counts as exact: the cones cost a digit


class WorstCaseProblem(PolytopeProblem):
    """Steps of alternating minimisation for the worst-case margin; arguments as in the class it extends."""

    def solve(self, assignment: NDArray[np.int64], time_limit: float | None = None) -> Solution:
        """The fixed-assignment optimum: primal ``W`` (K, m+1), duals ``margin`` (n, K), ``norm`` (K,).

        RuntimeError: the solver left no point.
        """
        if self._program is None:
            self._program = cpm_worst.fixed_assignment(
                self.X, self.y, self.n_faces, assignment, self.C, self.loss
            )
        Z = cpm.answers(self.y, self.n_faces, assignment)
        found = self._program.set(Z=Z).solve(time_limit=time_limit)
        if not found.primal:
            raise RuntimeError(
                f"no solver left a point for the faces of the polytope ({found.status}): scale the features "
                "to unit variance, or lower C"
            )
        W, alpha = found["W"], found.duals["margin"]
        certificate = certify_cpm(
            self.X, self.y, self.C, W=W, alpha=alpha, assignment=assignment, loss=self.loss, margin="worst"
        )
        return replace(
            found,
            status=status_by_gap(found.status, certificate.relative_gap, _EXACT),
            primal={"W": W},
            duals={"margin": alpha, "norm": found.duals["norm"]},
            objective=certificate.primal_value,
            solver=f"alternating, {found.solver}",
        )
