"""How the Convex Polytope Machine is learnt, and what is then known of it.

Its parameters and what they mean are in :mod:`polyopt.estimators.cpm`.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from formulations.polyhedral import pull
from formulations.polytope import answers, natural_assignment, perplexity
from polyopt.certificates.cpm import certify_cpm, certify_cpm_held, certify_cpm_search
from polyopt.certificates.face_price import held_by_groups
from polyopt.estimators.cpm_duals import duals_frame, price_rows
from polyopt.estimators.cpm_from import AssignedFaces
from polyopt.estimators.cpm_stream import PolytopeStream
from polyopt.estimators.restricted_faces import FEW_CELLS, FEW_STARTS
from polyopt.estimators.two_sides import TwoSidedClassifier
from polyopt.outer.cpm.leaves import evidence_of
from polyopt.outer.cpm.solve import Settings, as_floats, solve_cpm, solve_cpm_from
from polyopt.solvers.cpm.sgd import CpmSgd
from polyopt.used_features import UsedFeatures, present_features

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from formulations.solution import Solution
    from polyopt.certificates.certificate import Certificate

__all__ = ["STARTS", "PolytopeLearner"]

# ``solver="auto"`` is exact up to this many entries of the face programs, two or three seconds for all
# starts. Each face counts as some entries more, the least that a program costs.
_EXACT_CELLS = 30_000
_CELLS_PER_FACE = 1_500
_PRICED_CELLS = 10_000_000  # entries of all faces' programs up to which Newton steps are worth their time
_PRICED_STARTS = 5  # of "dual" with a price, each of which begins with a run without
STARTS = {"exact": 20, "dual": 20, "sgd": 1, "global": 1}


class PolytopeLearner(AssignedFaces, TwoSidedClassifier):
    """Base of the Convex Polytope Machine: from data to faces, their certificate and their multipliers."""

    n_faces: int
    C: float
    n_init: int | str
    average: bool
    tol: float
    max_iter: int
    time_limit: float | None
    random_state: Any
    _perplexity: float | None = None
    _known: NDArray[np.float64] | None = None  # faces that the next global search is to reach

    # -- fitting -----------------------------------------------------------------------------

    def _fit_side(
        self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any], side: float
    ) -> None:
        self._check_sizes(X, weights, self.C)
        self._advise_scaling(X)
        chooses = self.max_features is not None or self.integers is not None
        used = UsedFeatures.all(X) if chooses else UsedFeatures.of(X)
        samples, begin = used.samples(X), self._beginning
        self._side, self.solver_ = side, self._pick_solver(samples) if begin is None else "exact"
        self._X, self._y, self._rows, self._costs = X, side * y, rows, self.C * weights
        settings = self._settings()
        if settings.penalty is not None:
            settings = replace(settings, penalty=settings.penalty.of_features(used.columns))
        if settings.known is not None:
            settings = replace(settings, known=used.faces(settings.known))
        self.__dict__.pop("_known", None)  # for this fit alone
        program = (samples, self._y, self._costs, settings)
        if begin is None:
            found = solve_cpm(*program, self._seed())
        else:
            self._is_held = begin.is_held
            found = solve_cpm_from(*program, begin.of(rows, self._y, self.n_faces), hold=begin.is_held)
        self._show(used.solution(found))
        self.n_iter_ = max(self.solution_.iterations, 1)
        W = self.solution_["W"]
        if "assignment" in self.solution_.primal:
            self._assignment = self.solution_["assignment"]
        else:
            self._assignment = natural_assignment(self._scaled(X), self._y, W)
        outside = self._y > 0
        self._perplexity = perplexity(self.assignment_[outside], weights[outside])
        # Of whole numbers there is no tolerance to be short of.
        self._warn_if_short(None if self.integers else lambda: self._binary_certificate(tol=1e-6))
        self._tell_if_empty(W)
        if self.perplexity_ < (1.0 - 1e-9) * self.perplexity:
            warnings.warn(
                f"ConvexPolytopeMachine: the faces' perplexity is {self.perplexity_:.3g}, below the floor of "
                f"{self.perplexity:.3g} that was asked: Algorithm 2 steers by samples inside their margin "
                "alone. A smaller C brings more of them inside",
                ConvergenceWarning,
                stacklevel=3,
            )

    def begin_from(self, fitted: PolytopeLearner) -> Self:
        """Let the next fit, of two classes by "global", begin from known faces as well.

        Its answer is then no worse.

        Parameters
        ----------
        fitted : ConvexPolytopeMachine
            A machine fitted to the same samples with the same settings, by any solver, with one polytope.
        """
        check_is_fitted(fitted)
        self._known = None if isinstance(fitted.solution_, list) else fitted.solution_["W"]
        return self

    def _settings(self) -> Settings:
        return Settings(
            n_faces=self.n_faces,
            solver=self.solver_,
            loss=self.loss,
            margin=self.margin,
            perplexity=self.perplexity,
            average=self.average,
            feature_scale=self.feature_scale,
            n_init=self._starts() if isinstance(self.n_init, str) else self.n_init,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            n_jobs=self.n_jobs,
            max_features=self.max_features,
            penalty=self._price(),
            integers=self.integers,
            known=self._known,
        )

    def _starts(self) -> int:
        """Of n_init="auto"."""
        if self.max_features is not None:
            return FEW_STARTS
        return _PRICED_STARTS if self._is_priced and self.solver_ == "dual" else STARTS[self.solver_]

    def _forget(self) -> None:
        super()._forget()
        self._perplexity, self._is_held = None, False

    def _show(self, solution: Solution) -> None:
        """Take the faces of a solution, and bring them to the units of X."""
        self.solution_ = solution
        self.W_, self.b_ = self.feature_scale * solution["W"][:, :-1], solution["W"][:, -1]
        self._take_numbers(solution)

    def _pick_solver(self, X: Any) -> str:
        if self.solver != "auto":
            return self.solver
        if self.loss == "max" or self.margin == "worst":
            return "exact"
        n, m = X.shape
        if self._is_priced:
            return "dual" if n * m * self.n_faces <= _PRICED_CELLS else "sgd"
        if self.max_features is not None or self.integers is not None:
            return "exact" if self.n_faces * n * (m + 1) <= FEW_CELLS else "dual"
        small = self.n_faces * (n * (m + 1) + _CELLS_PER_FACE) <= _EXACT_CELLS
        return "exact" if small and self.perplexity == 1 else "sgd"

    def _at_once(self) -> str:
        if self.loss == "max" or self.margin == "worst":
            return self.solver
        plain = self.max_features is None and self.integers is None and not self._is_priced
        return "sgd" if plain else "dual"

    def _scaled(self, X: Any) -> Any:
        return as_floats(X, self._asked["feature_scale"])

    # -- streams -----------------------------------------------------------------------------

    def _begin(self, X: Any, n_total: int) -> PolytopeStream:
        outer = [1.0, -1.0] if self.double_sided else [self._chosen_side()]
        sides = [
            CpmSgd(
                X.shape[1], self.n_faces, perplexity=self.perplexity, average=self.average,
                scale=self.feature_scale, seed=self._seed(),
            )
            for _ in outer
        ]  # fmt: skip
        for side in sides:
            side.U[:-1][~present_features(X)] = 0.0  # until a chunk shows them
        return PolytopeStream(sides, outer, n_total)

    def _learn(self, X: Any, codes: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        self._check_sizes(X, weights, self.C)
        assert isinstance(self._stream, PolytopeStream)
        found = self._stream.show(X, codes, self.C * weights)
        parts = [self._one_sided() for _ in found] if self.double_sided else [self]
        for part, outer, solution in zip(parts, self._stream.outer, found, strict=True):
            part._side, part.solver_, part.n_iter_ = outer, "sgd", solution.iterations
            part._show(solution)
        if self.double_sided:
            self._take_sides(parts)

    # -- what is known -----------------------------------------------------------------------

    @property
    def perplexity_(self) -> float:
        """Effective number of faces in use: the exponential of the entropy of the assignment."""
        if self._perplexity is None:
            raise AttributeError("perplexity_ needs a fit on whole data with one polytope")
        return self._perplexity

    def _keep_no_solution(self, whole: Self) -> None:
        self._perplexity = whole._perplexity
        super()._keep_no_solution(whole)

    def _side_certificate(self, tol: float) -> Certificate:
        if self.solver_ == "global" and len(self.W_) > 1:
            program = (self._scaled(self._X), self._y, self._costs, self.solution_, tol)
            loss, margin = self._asked["loss"], self._asked["margin"]
            certificate = certify_cpm_search(*program, loss=loss, margin=margin)
            return replace(certificate, evidence=evidence_of(*program, loss=loss, margin=margin))
        if self._asked["integers"] is not None or self._asked["max_features"] is not None:
            return self._restricted_certificate(self._scaled(self._X), tol)
        certify = certify_cpm_held if self._is_held else certify_cpm
        return certify(
            self._scaled(self._X),
            self._y,
            self._costs,
            W=self.solution_["W"],
            alpha=self.solution_.duals.get("margin"),
            assignment=self.assignment_,
            margin=self._asked["margin"],
            loss=self._asked["loss"],
            penalty=self._price(),
            tol=tol,
        )

    def _side_duals(self) -> pd.DataFrame:
        X, labels = self._scaled(self._X), self.classes_[::-1] if self._side > 0 else self.classes_
        Z = answers(self._y, len(self.W_), self.assignment_)
        frame = duals_frame(
            X, self._y, self._costs, self.solution_, Z, self._asked["loss"], self._rows, labels
        )
        alpha, penalty = self.solution_.duals.get("margin"), self._price()
        if alpha is None or penalty is None:
            return frame
        import pandas as pd

        V, W = pull(X, alpha * self._y[:, None]), self.solution_["W"]
        q = held_by_groups(penalty, V, W) if self._asked["margin"] == "worst" else None
        rows = price_rows(penalty, V, W, getattr(self, "feature_names_in_", None), q)
        return pd.concat([frame.astype({"label": object}), rows], ignore_index=True)
