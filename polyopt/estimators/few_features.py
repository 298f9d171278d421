"""What SPLA1 and PLUME share whose faces may have few features: at most s of each face."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

from formulations.arguments import whole_or_none
from polyopt.estimators.declaration import estimator
from polyopt.estimators.parameters import Ruled
from polyopt.estimators.priced_faces import PricedFaces
from polyopt.solvers.priced_newton import MOST

if TYPE_CHECKING:
    from polyopt.outer.few_faces import SmoothParts

__all__ = ["FEW", "FewFeatures"]

FEW: dict[str, list[Any]] = {
    "max_features": [Ruled(lambda value: whole_or_none("max_features", value))],
}
"""Constraints of these parameters."""

_CELLS = 2_000_000  # entries of the samples times faces beyond which a node takes a second
_NODES, _FEWER = 1000, 50  # of a search up to that, and beyond


@estimator
class FewFeatures(PricedFaces):
    """Base of the classifiers with smooth losses whose faces may have at most s features.

    Parameters
    ----------
    max_features : int, optional
        s: each face has at most s features, whichever are best for it, and the other weights are exact
        zeros. For what the faces fix, branch and bound over the features finds the best ones and proves them,
        with at most 1,000 nodes a program (50 beyond 2 million entries of samples times faces); where these
        do not suffice the status says so, and the certificate how much is left open. Without prices or signs,
        and with Newton's method.
    """

    _: KW_ONLY
    max_features: int | None = None

    def _check_few(self) -> None:
        """Refuse what faces of few features cannot have.

        Raises
        ------
        ValueError
            A sentence that says which.
        """
        if self.max_features is not None:
            asked = f"max_features={self.max_features!r}"
            if self._is_priced:
                raise ValueError(f"{asked} has no prices or signs of weights: leave out l1, group and signs")
            if self.solver not in ("auto", "newton"):
                raise ValueError(f"{asked} needs solver='newton', not {self.solver!r}")
            if self.ridge == 0.0:
                raise ValueError(f"{asked} needs a positive ridge, by which its optimum is proven")

    def _few_settings(self, machine: SmoothParts) -> dict[str, Any]:
        """The settings of :func:`polyopt.outer.few_faces.solve_few_faces` for a machine."""
        n, m = machine.X.shape
        if self.n_faces * (m + 1) > MOST:
            raise ValueError(
                f"max_features takes {MOST} weights and biases at most to choose from, not "
                f"{self.n_faces * (m + 1)}: choose fewer features or faces, or the Convex Polytope Machine"
            )
        return {
            "max_nodes": _NODES if n * m * self.n_faces <= _CELLS else _FEWER,
            "n_init": self.n_init if self.n_faces > 1 else 1,
            "max_iter": self.max_iter,
            "time_limit": self.time_limit,
            "n_jobs": self.n_jobs,
        }
