"""The kernel classifiers' common body: SVM, Sigma-SVM and Relative Margin Machine are one program.

A subclass names its program (primal for linear features, dual for a Gram matrix), its bound B and
its Sigma share D; everything else, from kernels to certificates, is here.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils._param_validation import Interval, StrOptions

from formulations.recovery import gram_factor, slacks
from polyopt.certificates.geometry import KernelGeometry, LinearGeometry
from polyopt.certificates.hinge import HingeProgram, certify_hinge
from polyopt.estimators.base import PairwiseClassifier

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from formulations.program import Program
    from formulations.solution import Solution
    from polyopt.certificates.certificate import Certificate
    from polyopt.certificates.geometry import Geometry

__all__ = ["HingeClassifier"]

# Up to these sizes ``solver="auto"`` solves the explicit program: a second or two at the most.
_EXACT_SAMPLES = 250
_EXACT_LINEAR_CELLS = 200_000
# Solvers that hold the whole kernel matrix stop here: 3.2 GB.
_GRAM_SAMPLES = 20_000


class HingeClassifier(PairwiseClassifier):
    """Base of the kernel classifiers; its parameters are documented where they are used."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions({"linear", "poly", "rbf", "sigmoid", "precomputed"}), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "solver": [StrOptions({"auto", "exact", "smo"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "time_limit": [Interval(Real, 0, None, closed="neither"), None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int | None = None,
        time_limit: float | None = None,
        class_weight: Any = None,
        n_jobs: int | None = None,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.class_weight = class_weight
        self.n_jobs = n_jobs

    # -- what a subclass supplies ------------------------------------------------------------

    _title: str
    _bound: float = np.inf
    _share: float | None = None

    @abstractmethod
    def _primal_program(self, X: Any, y: NDArray[Any], costs: NDArray[Any], weights: NDArray[Any]) -> Program:
        """The primal program in linear features, with variables w and b and a row ``margin``."""

    @abstractmethod
    def _dual_program(self, K: NDArray[Any], y: NDArray[Any], costs: NDArray[Any]) -> Program:
        """The dual program for the Gram matrix that :meth:`_gram` gives."""

    def _gram(self, K: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
        """The Gram matrix the machine sees, from the kernel between training samples."""
        return K

    def _cross(self, K_test: NDArray[Any]) -> NDArray[Any]:
        """The kernel between test and training samples as the machine sees it."""
        return K_test

    # -- fitting -----------------------------------------------------------------------------

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        return super()._for_pairs(X, weights).set_params(gamma=self._gamma_of(X, weights))

    def _fit_binary(self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        self._X, self._y, self._sample_weights, self._rows = X, y, weights, rows
        self._costs = self.C * weights
        self.gamma_ = self._gamma_of(X, weights)
        self.solver_ = self._pick_solver(X)
        geometry = self._geometry()
        by_features = self.solver_ == "exact" and self._is_tall(X)
        if by_features:
            # With D > 0 the regulariser has a scale of its own, and stays as it is.
            unit = min(1.0, float(self._costs.max())) if self._share in (None, 0.0) else 1.0
            program = self._primal_program(np.sqrt(unit) * X, y, self._costs / unit, weights)
            solution = self._solve(program, unit)
            self.solution_ = replace(
                solution,
                primal={**solution.primal, "w": np.sqrt(unit) * solution["w"]},
                duals={name: unit * multipliers for name, multipliers in solution.duals.items()},
            )
            vectors = self.solution_.duals
        else:
            K = geometry.K if isinstance(geometry, KernelGeometry) else self._gram(self._kernel(X), weights)
            vectors = self._fit_gram(K)
        self._alpha, self._lam, self._lam_star = _multipliers(vectors)
        self.n_iter_ = max(self.solution_.iterations, 1)
        self._read_off(geometry, by_features)
        self._warn_if_short(lambda: self._certify(geometry, tol=1e-6))

    def _fit_gram(self, K: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Solve for a Gram matrix; return the vectors that hold the multipliers."""
        if self.kernel not in ("linear", "poly", "rbf"):
            gram_factor(K)  # raises, in words, where the kernel is not positive semidefinite
        if self.solver_ == "exact":
            unit = min(1.0, float(self._costs.max()))
            solution = self._solve(self._dual_program(unit * K, self._y, self._costs / unit), unit)
            scaled = {name: unit * multipliers for name, multipliers in solution.primal.items()}
            self.solution_ = replace(solution, primal=scaled)
            return scaled
        from polyopt.solvers.smo import solve_smo

        limits: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "time_limit": self.time_limit}
        self.solution_ = solve_smo(K, self._y, self._costs, self._bound, **limits)
        return self.solution_.duals

    def _solve(self, program: Program, unit: float) -> Solution:
        """Solve the program for features scaled by √unit and costs divided by unit.

        That is the same program with the objective in units of `unit`: costs far below 1 would
        otherwise drown in the solver's absolute tolerances.
        """
        solution = program.solve(time_limit=self.time_limit, max_iter=self.max_iter)
        if not solution.primal:
            raise RuntimeError(
                f"{type(self).__name__}: no solver found a point, though there is one: C={self.C:g} is out "
                "of scale with the features. Scale them to unit variance, lower C, or choose solver='smo'."
            )
        return replace(solution, objective=unit * solution.objective)

    def _read_off(self, geometry: Any, by_features: bool) -> None:
        """Set the model from the solution: its vector, its intercept, its outputs, its support."""
        beta = self._alpha * self._y - self._lam + self._lam_star
        if self.solver_ == "smo":
            # The solver's coefficients, which it keeps within the bounds, and not what alpha implies.
            v = geometry.represent(self.solution_["coef"])
        elif by_features and self._share != 1.0:
            v = self.solution_["w"]
        else:
            # At D = 1 w is unique only up to directions without spread: this takes the least norm.
            v = geometry.represent(beta)
        # Where a whole interval of intercepts is optimal, every solver's answer is its midpoint.
        b = self._program(geometry).best_intercept(v)
        self._v, self._b = v, b
        self._outputs = geometry.scores(v) + b
        if self.kernel == "linear":
            self.coef_ = v[None, :]
            self.intercept_ = np.array([b - geometry.mean @ v])
        else:
            self.dual_coef_ = v[None, :]
            self.intercept_ = np.array([b])
        used = np.abs(beta) > 1e-6 * max(float(np.abs(beta).max()), np.finfo(float).tiny)
        self.support_ = self._rows[used]

    def _is_tall(self, X: Any) -> bool:
        """Whether the machine is linear and no larger in its features than in its samples."""
        return self.kernel == "linear" and X.shape[1] <= X.shape[0]

    def _pick_solver(self, X: Any) -> str:
        n, m = X.shape
        by_features = self._is_tall(X)
        if self.solver == "auto":
            small = n * m <= _EXACT_LINEAR_CELLS if by_features else n <= _EXACT_SAMPLES
            solver = "exact" if small or (by_features and n > _GRAM_SAMPLES) else "smo"
        else:
            solver = self.solver
        if n > _GRAM_SAMPLES and not (by_features and solver == "exact"):
            raise ValueError(
                f"{n} samples need a kernel matrix of {8e-9 * n * n:.0f} GB, and {type(self).__name__} "
                f"takes at most {_GRAM_SAMPLES} here: choose kernel='linear' with solver='exact', "
                "or fewer samples"
            )
        return solver

    # -- kernels -----------------------------------------------------------------------------

    def _gamma_of(self, X: Any, weights: NDArray[Any]) -> float:
        """Gamma as a number, by scikit-learn's rules for "scale" (here with weights) and "auto"."""
        if self.gamma not in ("scale", "auto"):
            return float(self.gamma)
        if self.kernel in ("linear", "precomputed") or callable(self.kernel):
            return 1.0
        m = X.shape[1]
        if self.gamma == "auto":
            return 1.0 / m
        squares = X.multiply(X) if sp.issparse(X) else X * X
        total = m * float(weights.sum())
        mean = float(weights @ np.asarray(X.sum(axis=1)).ravel()) / total
        variance = float(weights @ np.asarray(squares.sum(axis=1)).ravel()) / total - mean**2
        return 1.0 / (m * variance) if variance > 0 else 1.0

    def _kernel(self, A: Any, Z: Any = None) -> NDArray[Any]:
        """Kernel between the rows of A and of Z (of A and A by default), dense."""
        if self.kernel == "precomputed":
            return A
        settings = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
        if callable(self.kernel):
            return np.asarray(self.kernel(A, A if Z is None else Z), dtype=float)
        K = pairwise_kernels(A, Z, metric=self.kernel, filter_params=True, **settings)
        return K.toarray() if sp.issparse(K) else K

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    # -- answering ---------------------------------------------------------------------------

    def _binary_scores(self, X: Any) -> NDArray[Any]:
        if self.kernel == "linear":
            return np.asarray(X @ self.coef_[0]).ravel() + self.intercept_[0]
        K_test = X[:, self._rows] if self.kernel == "precomputed" else self._kernel(X, self._X)
        return self._cross(K_test) @ self._v + self._b

    def _geometry(self) -> Any:
        if self.kernel == "linear":
            return LinearGeometry(self._X, self._share, self._sample_weights)
        return KernelGeometry(self._gram(self._kernel(self._X), self._sample_weights))

    def _program(self, geometry: Geometry) -> HingeProgram:
        return HingeProgram(self._title, geometry, self._y, self._costs, self._bound)

    def _binary_certificate(self, tol: float) -> Certificate:
        return self._certify(self._geometry(), tol)

    def _certify(self, geometry: Geometry, tol: float) -> Certificate:
        return certify_hinge(
            self._program(geometry),
            v=self._v,
            b=self._b,
            alpha=self._alpha,
            lam=self._lam,
            lam_star=self._lam_star,
            tol=tol,
        )

    def _binary_duals(self) -> pd.DataFrame:
        import pandas as pd

        y, f, C = self._y, self._outputs, self._costs
        xi = slacks(f, y)
        small = 1e-6 * float(C.max())
        on_margin = np.where(self._alpha >= C - small, "inside the margin", "on the margin")
        families = [
            ("margin", "alpha", self._alpha, y * f - 1.0 + xi,
             np.where(self._alpha <= small, "beyond the margin", on_margin)),
            ("slack", "beta", C - self._alpha, xi, np.where(xi > 1e-6, "slack in use", "no slack")),
        ]  # fmt: skip
        if np.isfinite(self._bound):
            for row, letter, multiplier, room, text in (
                ("bound_above", "lam", self._lam, self._bound - f, "held at +B"),
                ("bound_below", "lam_star", self._lam_star, self._bound + f, "held at -B"),
            ):
                families.append((row, letter, multiplier, room, np.where(multiplier > small, text, "idle")))
        label = np.where(y > 0, self.classes_[1], self.classes_[0])
        frames = [
            pd.DataFrame(
                {
                    "row": row,
                    "letter": letter,
                    "sample": self._rows,
                    "label": label,
                    "multiplier": multiplier,
                    "slack": slack,
                    "output": f,
                    "state": state,
                }
            )
            for row, letter, multiplier, slack, state in families
        ]
        return pd.concat(frames, ignore_index=True)


def _multipliers(vectors: dict[str, NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Alpha, lam and lam_star from a solution's duals (by row) or variables (by letter)."""
    alpha = vectors["margin"] if "margin" in vectors else vectors["alpha"]
    zeros = np.zeros_like(alpha)
    lam = vectors.get("bound_above", vectors.get("lam", zeros))
    lam_star = vectors.get("bound_below", vectors.get("lam_star", zeros))
    return alpha, lam, lam_star
