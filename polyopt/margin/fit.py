"""The fit of a machine of families of rows: the choice of a solver, and the model read off its answer."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from formulations.families import Families, margin_family
from formulations.language.clock import is_out_of_time
from formulations.language.solution import Solution, Status
from polyopt.certificates.certificate import relative_gap
from polyopt.linalg.kernels import MatrixGram, SampleGram, require_psd
from polyopt.linalg.kernels.protocol import MAX_WHOLE
from polyopt.margin.certificate import certify_hinge
from polyopt.margin.decomposition import Decomposition, recapped
from polyopt.margin.geometry import KernelGeometry, LinearGeometry, middle
from polyopt.margin.hinge_program import HingeProgram
from polyopt.margin.kernel_classifier import KernelClassifier

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.language.program import Program
    from polyopt.certificates.certificate import Certificate
    from polyopt.linalg.kernels import Gram
    from polyopt.linalg.rounding import Ball
    from polyopt.margin.geometry import Geometry

__all__ = ["HingeFit"]

# Number of samples up to which ``solver="auto"`` solves to 1e-8 whatever `tol` is: it takes no longer.
_MAX_AUTO_SAMPLES = 2_000
# Number of features up to which ``solver="auto"`` solves a tall linear machine in its features.
_MAX_AUTO_FEATURES = 2_000
_OUTPUT_ROUNDING = 1e-13  # relative error of an output, which the costs multiply
# Relative gaps: of an optimal end, whatever `tol` is; of an inaccurate one; of an optimal one at most.
_OPTIMAL_GAP, _INACCURATE_GAP, _MAX_GAP = 1e-5, 1e-3, 0.1


class HingeFit(KernelClassifier):
    """Base of :class:`polyopt.margin.classifier.HingeClassifier`, which has the parameters and answers."""

    C: float
    solver: str
    tol: float
    max_iter: int | None
    time_limit: float | None
    cache_size: float
    warm_start: bool
    verbose: bool | int

    # -- what a subclass supplies ------------------------------------------------------------

    _dtypes: ClassVar[list[Any]] = [np.float64, np.float32]
    _title: str
    families_: Families
    multipliers_: dict[str, NDArray[Any]]
    _costs: NDArray[np.float64]  # of slack, (n,): C times the samples' weights
    _sample_weights: NDArray[np.float64]
    _short: float  # the most negative eigenvalue of the kernel matrix, in size
    # The solution: w of the centred samples, or their coefficients (n,) in the kernel expansion; and its b.
    _v: NDArray[np.float64]
    _b: float
    _centre: NDArray[np.float64]  # of the samples, for the linear kernel
    _share: float | None = None

    def _families(self, y: NDArray[Any], weights: NDArray[Any]) -> Families:
        """The families of rows of the machine."""
        return Families(margin_family(y, self.C * weights))

    @abstractmethod
    def _primal_program(self, X: Any, rows: Families, weights: NDArray[Any]) -> Program:
        """The primal program in linear features, with variables w and b and rows named as the families."""

    @abstractmethod
    def _dual_program(self, K: NDArray[Any], rows: Families) -> Program:
        """The dual program for the Gram matrix of :meth:`_machine_gram`, with the families' letters."""

    def _machine_gram(self, X: Any, weights: NDArray[Any]) -> Gram:
        """The Gram matrix the solver sees."""
        if self.kernel == "precomputed":
            return MatrixGram(X)
        # b is free, so samples may be taken from any point; amid them inner products keep their digits.
        return SampleGram(X, self._kernel, middle(X) if self.kernel == "linear" else None)

    def _feature_space(self) -> Any:
        """The geometry of the program, for certificates: that of the true kernel, whatever the solver saw."""
        if self.kernel == "linear":
            return LinearGeometry(self._X, centred=True)
        return KernelGeometry(self._given_gram(), self._short)

    def _given_gram(self) -> Gram:
        """The Gram matrix of the training samples, by the kernel as it is given."""
        return MatrixGram(self._X) if self.kernel == "precomputed" else SampleGram(self._X, self._kernel)

    # Whether an entry of the machine's Gram matrix depends on its two samples alone.
    _is_pairwise = True

    # -- fitting -----------------------------------------------------------------------------

    def _fit_pairs(self, X: Any, codes: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        super()._fit_pairs(X, codes, weights, rows)
        if self.kernel == "linear":
            self.coef_ = -np.concatenate([pair.coef_ for pair in self.estimators_])

    def _fit_binary(self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        earlier = self._earlier or {}
        known = "multipliers_" in earlier
        is_same = known and np.array_equal(rows, earlier["_rows"]) and np.array_equal(y, earlier["_y"])
        self._X, self._y, self._sample_weights, self._rows = X, y, weights, rows
        with np.errstate(over="ignore"):
            self._costs = self.C * weights
            families = self._families(y, weights)
        if not np.isfinite(self._costs).all():
            raise ValueError(
                f"C={self.C:g} times a sample's weight, {weights.max():g}, is not finite: choose smaller ones"
            )
        start = None
        if is_same:
            start = recapped(earlier["multipliers_"], earlier["families_"], families)
        self.families_ = families
        self.gamma_ = self._gamma_of(X, weights)
        self.solver_ = self._pick_solver(X)
        if is_out_of_time() and self.kernel != "linear":
            self._fit_nothing()
            return
        geometry = cache(self._feature_space)  # made where it is first wanted, and once
        if self.solver_ == "interior-point" or (self.solver_ == "exact" and self._is_tall(X)):
            v, b = self._fit_features(X)
        else:
            v, b = self._fit_gram(start, geometry)
        self._read_off(v, b, geometry)
        certificate = None
        # Whether the rounding of an output, times all costs together, matters beside the objective.
        dear = _OUTPUT_ROUNDING * float(self._costs.sum()) > _OPTIMAL_GAP * abs(self.solution_.objective)
        if self.solver_ == "exact" or dear or (self.solver_ == "decomposition" and b is None):
            certificate = self._certify(geometry(), tol=1e-6)
            self._take_back(certificate.relative_gap)
        elif v is None and self.solution_.bound is not None:
            # The vector was made of the multipliers: its value is compared with the solver's bound.
            certificate = self._certify(geometry(), tol=1e-6)
            bound = max(certificate.dual_value, self.solution_.bound)
            self._take_back(relative_gap(certificate.primal_value, bound))
        # For a kernel machine of many samples a certificate would cost too much here.
        is_dear = certificate is None and self.solver_ == "decomposition" and X.shape[0] > _MAX_AUTO_SAMPLES
        self._warn_if_short(None if is_dear else lambda: certificate or self._certify(geometry(), 1e-6))

    def _fit_nothing(self) -> None:
        """In a run that is over, before anything was made of the kernel: no support vectors."""
        nothing = np.zeros(len(self._y))
        self._v, self._b = nothing, self.families_.best_intercept(nothing)
        self.outputs_ = nothing + self._b
        self.solution_ = Solution(
            status=Status.TIME_LIMIT,
            primal={"coef": nothing, "b": np.array(self._b), "f": self.outputs_},
            duals={},
            objective=self.families_.cost(self.outputs_),
            bound=0.0,
            solver="none: there was no time",
        )
        self._short = 0.0
        self._keep({family.name: nothing for family in self.families_})
        self.intercept_ = np.array([self._b])
        self._set_support(np.empty(0, dtype=np.intp), nothing[:0], self._sample_weights > 0.0)
        self._warn_if_short(None)

    def _fit_features(self, X: Any) -> tuple[NDArray[Any] | None, float | None]:
        """Solve in the features; set ``solution_`` and the multipliers; return w, and b if it is known."""
        if self.solver_ == "interior-point":
            from polyopt.margin.interior_point import solve_interior_point

            # An iteration on a million entries costs next to nothing.
            tol = 1e-11 if X.size <= 1_000_000 else min(self.tol, 1e-8)
            self.solution_ = solve_interior_point(
                X, self.families_, D=self._share, weights=self._sample_weights,
                tol=tol, **self._limits(),
            )  # fmt: skip
        else:
            # With D > 0 the regulariser has a scale of its own, and stays as it is.
            unit = min(1.0, float(self._costs.max())) if self._share in (None, 0.0) else 1.0
            rows = self.families_.repriced(1.0 / unit)
            program = self._primal_program(np.sqrt(unit) * X, rows, self._sample_weights)
            solution = self._solve(program, unit)
            self.solution_ = replace(
                solution,
                primal={**solution.primal, "w": np.sqrt(unit) * solution["w"]},
                duals={name: unit * multipliers for name, multipliers in solution.duals.items()},
            )
        self._keep(self.solution_.duals)
        # At D = 1 w is unique only up to directions without spread: the multipliers give the least norm.
        return (self.solution_["w"] if self._share != 1.0 else None), None

    def _fit_gram(self, start: Any, geometry: Callable[[], Any]) -> tuple[NDArray[Any] | None, float | None]:
        """Solve for a Gram matrix; set ``solution_`` and the multipliers; return v and b if known."""
        self._short = 0.0
        if self.kernel == "precomputed" or not (self.kernel == "linear" or self._kernel_is_mercer):
            self._short = require_psd(self._given_gram())
        gram = self._machine_gram(self._X, self._sample_weights)
        if self.solver_ == "exact":
            unit = min(1.0, float(self._costs.max()))
            K = gram.panel(None, np.float64).rows(np.arange(gram.n))
            solution = self._solve(self._dual_program(unit * K, self.families_.repriced(1.0 / unit)), unit)
            scaled = {name: unit * multipliers for name, multipliers in solution.primal.items()}
            self.solution_ = replace(solution, primal=scaled)
            self._keep(self.families_.of_letters(scaled))
            return None, None
        limits = self._limits()
        machine = Decomposition(gram, cache_size=self.cache_size, progress=limits.pop("progress"))
        tol = min(self.tol, 1e-8) if self.solver == "auto" and gram.n <= _MAX_AUTO_SAMPLES else self.tol
        self.solution_ = machine.solve(self.families_, tol=tol, start=start, **limits)
        self._keep(self.solution_.duals)
        # The solver's coefficients, which it keeps within the bounds, and not what alpha implies.
        coef = self.solution_["coef"]
        # The solver's own outputs and intercept are taken, unless more digits cancel than it accounts for, or
        # than single precision has.
        size = float(np.abs(gram.diagonal()).max(initial=0.0)) * float(np.abs(coef).sum())
        rounding = _OUTPUT_ROUNDING * size * float(self._costs.sum())
        dear = rounding > _OPTIMAL_GAP * abs(self.solution_.objective)
        if self.kernel == "linear" or not self._is_pairwise or dear or not size < 1e7:
            return geometry().represent(coef), None
        return coef, float(self.solution_["b"])

    def _take_back(self, gap: float) -> None:
        """Take back the status optimal where a certificate's gap shows that the kernel was too inexact."""
        stated = max(10.0 * self.tol if self.solver_ == "decomposition" else 0.0, _OPTIMAL_GAP)
        if self.solution_.status is Status.SOLVED and not gap <= min(stated, _MAX_GAP):
            status = Status.INACCURATE if gap <= _INACCURATE_GAP else Status.STALLED
            self.solution_ = replace(self.solution_, status=status)

    def _limits(self) -> dict[str, Any]:
        from polyopt.base.progress import listener

        progress = listener()
        return {"max_iter": self.max_iter, "time_limit": self.time_limit, "progress": progress}

    def _keep(self, vectors: dict[str, NDArray[Any]]) -> None:
        """Set the multipliers, from those of each family."""
        self.multipliers_ = self.families_.named(self.families_.stacked(vectors))
        self.n_iter_ = max(self.solution_.iterations, 1)

    def _solve(self, program: Program, unit: float) -> Solution:
        """Solve the program for features scaled by √unit and costs divided by unit.

        That is the same program with the objective in units of `unit`: costs far below 1 would
        otherwise drown in the solver's absolute tolerances.
        """
        solution = program.solve(time_limit=self.time_limit, max_iter=self.max_iter)
        if not solution.primal:
            raise RuntimeError(
                f"{type(self).__name__}: no solver found a point, though there is one: C={self.C:g} is out "
                "of scale with the features. Scale them to unit variance, lower C, or choose solver='auto'."
            )
        return replace(solution, objective=unit * solution.objective)

    def _read_off(self, v: NDArray[Any] | None, b: float | None, geometry: Callable[[], Any]) -> None:
        """Set the model from the solution: its vector, its intercept, its outputs, its support."""
        beta = self.families_.beta(self.families_.stacked(self.multipliers_))
        if b is None:
            space = geometry()
            v = space.represent(beta) if v is None else v
            # Where a whole interval of intercepts is optimal, every solver's answer is its midpoint.
            b = self._program(space).best_intercept(v)
            outputs = space.outputs(v) + b
            self.outputs_ = outputs.mid
            self._warn_if_vague(outputs)
        else:
            self.outputs_ = self.solution_["f"]
        assert v is not None
        self._v, self._b = v, b
        if self.kernel == "linear":
            self._centre = geometry().centre
            self.coef_ = v[None, :]
        # Intercept in the original coordinates; pairwise kernels already use them.
        is_moved = self.kernel == "linear" or not self._is_pairwise
        self.intercept_ = np.array([b - float(geometry().moved(v, 0.0).mid) if is_moved else b])
        used = np.abs(beta) > 1e-6 * max(float(np.abs(beta).max()), np.finfo(float).tiny)
        is_expansion = self.kernel != "linear" and self._is_pairwise
        places = np.flatnonzero(used)
        self._set_support(places, (v if is_expansion else beta)[places], self._sample_weights > 0.0)

    def _warn_if_vague(self, outputs: Ball) -> None:
        """Warn if rounding alone moves an output by more than 1e-3."""
        vague = float(outputs.rad.max(initial=0.0))
        if not vague <= 1e-3:
            warnings.warn(
                f"{type(self).__name__}: the outputs are known to {vague:.2g} only, as their terms cancel; "
                "centre the features, scale them, or choose a smaller C",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _is_tall(self, X: Any) -> bool:
        """Return True if the machine is linear and no larger in its features than in its samples."""
        return self.kernel == "linear" and X.shape[1] <= X.shape[0]

    def _pick_solver(self, X: Any) -> str:
        n, m = X.shape
        solver = self.solver
        if solver == "interior-point" and self.kernel != "linear":
            raise ValueError(
                f"solver='interior-point' works on linear features, not on kernel={self.kernel!r}; "
                "choose solver='decomposition'"
            )
        if solver == "auto":
            solver = "interior-point" if self._is_tall(X) and m <= _MAX_AUTO_FEATURES else "decomposition"
        if solver == "interior-point" and m > MAX_WHOLE:
            raise ValueError(
                f"{m} features need matrices of {8e-9 * m * m:.0f} GB, and solver='interior-point' takes at "
                f"most {MAX_WHOLE}: choose solver='auto' or 'decomposition'"
            )
        whole = solver == "exact" or not self._is_pairwise
        if whole and n > MAX_WHOLE and not (self.kernel == "linear" and solver != "decomposition"):
            raise ValueError(
                f"{n} samples need a kernel matrix of {8e-9 * n * n:.0f} GB, and {type(self).__name__} with "
                f"solver={self.solver!r} takes at most {MAX_WHOLE}: choose "
                f"{'another solver' if self._is_pairwise else 'a linear kernel'} or fewer samples"
            )
        return solver

    def _certify(self, geometry: Geometry, tol: float) -> Certificate:
        return certify_hinge(
            self._program(geometry),
            v=self._v,
            b=geometry.moved(self._v, float(self.intercept_[0])),  # the model as it stands, rounded
            multipliers=self.multipliers_,
            tol=tol,
        )

    def _program(self, geometry: Geometry) -> HingeProgram:
        return HingeProgram(self._title, geometry, self.families_)
