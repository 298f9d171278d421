"""Base of the SVM, the Sigma-SVM and the RMM: choose a solver, solve, set the model from the solution.

All three minimise ½‖w‖² plus hinge losses, the cost of slack in families of rows, which are constraints with
one row per sample (:mod:`formulations.families`). A subclass defines its families of rows, its programs
(primal for linear features, dual for a Gram matrix) and D, the share of the output variance in its
regulariser.

``_fit_binary`` is one fit: it picks a solver, solves in the features or for a Gram matrix, sets the model
from w or from the multipliers, and checks the solver's status by a certificate if that is needed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from formulations.families import Families, margin_family
from formulations.language.clock import is_out_of_time
from formulations.language.solution import Solution, Status
from polyopt.base.onnx_graph import Graph
from polyopt.base.types import ClassWeight, SamplesLike
from polyopt.certificates.certificate import Certificate, relative_gap
from polyopt.estimators.multiplier_frame import RowsShown, multiplier_frame
from polyopt.estimators.parameters import estimator, shared
from polyopt.estimators.status import warn
from polyopt.linalg.kernels import MAX_SQUARE_ROWS, Gram, MatrixGram, SampleGram, chunks, require_psd
from polyopt.linalg.rounding import Ball
from polyopt.margin.certificate import HingeProgram, certify_hinge
from polyopt.margin.decomposition import Decomposition, recapped
from polyopt.margin.geometry import Geometry, KernelGeometry, LinearGeometry, middle
from polyopt.margin.kernel_classifier import KERNEL_PARAMETERS, KernelClassifier

if TYPE_CHECKING:
    import pandas as pd

    from formulations.error_bounds.margin_bounds import MarginBound
    from formulations.language.program import Program


@dataclass(frozen=True)
class Options:
    """Limits and tolerances of a fit."""

    # Number of samples up to which ``solver="auto"`` solves to 1e-8 for any `tol`: it takes no longer
    max_auto_samples: int = 2_000
    # Number of features up to which ``solver="auto"`` solves a tall linear machine in its features
    max_auto_features: int = 2_000
    max_offset: float = 1e3  # |centre|·|w| up to which samples are scored without centring
    output_rounding: float = 1e-13  # relative rounding error of an output
    optimal_gap: float = 1e-5  # relative gap that the status "solved" allows for any `tol`
    max_optimal_gap: float = 0.1  # relative gap that the status "solved" allows at most, for a large `tol`
    certificate_tol: float = 1e-6  # tolerance of the certificate that checks a fit
    support_tol: float = 1e-6  # least coefficient of a support vector, relative to the largest
    # distance from a bound, relative to the largest cost, at which a multiplier is at it
    multiplier_tol: float = 1e-6
    min_slack: float = 1e-6  # least slack that is reported as in use
    max_output_error: float = 1e-3  # rounding error of an output above which a fit warns
    max_output_terms: float = 1e7  # size of an output's terms up to which single precision suffices
    # relative gap up to which a machine that is not solved is inaccurate, not stalled
    inaccurate_gap: float = 1e-3


OPTIONS = Options()


@estimator
class HingeClassifier(KernelClassifier):
    """Base of the SVM, the Sigma-SVM and the Relative Margin Machine.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack; positive.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        Kernel, as in scikit-learn; it must be positive semidefinite on the training data.
    solver : {"auto", "exact", "decomposition", "interior-point"}, default="auto"
        "decomposition" solves the dual by working sets, for any kernel; "interior-point" the primal
        of a linear machine, best if there are many more samples than features; "exact" the explicit
        program of the machine in ``formulations`` by a general solver. "auto" is the interior point for a
        linear machine of up to 2,000 features and at least as many samples, else decomposition;
        ``solver_`` is the one chosen.
    tol : float, default=1e-3
        Largest violation of the optimality conditions at which decomposition stops, in units of the
        outputs; the relative duality gap is then within ten times `tol` (at most 0.1). "auto" lowers it to
        1e-8 for up to 2,000 samples, the other solvers always do. A fit that does not reach it warns.
    max_iter : int, optional
        Maximal number of iterations of the solver (working sets and Newton steps of "decomposition"), as
        counted by ``n_iter_``; the last point is kept.
    time_limit : float, optional
        Seconds for the complete fit, shared by the pairs of classes; the last point is kept.
        "exact" checks the clock only between its iterations. With a kernel and thousands of samples an
        iteration takes minutes, and so does building the program.
    cache_size : float, default=500.0
        Megabytes that decomposition may use for kernel rows and for Newton's method.
    warm_start : bool, default=False
        True: decomposition starts from the multipliers of the last fit, if that had the same samples. With
        other costs or bounds it then stops sooner, at the same solution within `tol`.

    Attributes
    ----------
    duals_ : pandas.DataFrame
        One row per constraint, with its multiplier, in input order.
    history_ : pandas.DataFrame
        "interior-point": one row per iteration. "decomposition": a row every ten working sets, after each
        Newton step and at the end, whose ``iteration`` is ``n_iter_``. "exact": empty.
    """

    C: float = 1.0
    _: KW_ONLY
    solver: str = "auto"
    tol: float = 1e-3
    max_iter: int | None = None
    time_limit: float | None = None
    cache_size: float = 500.0
    warm_start: bool = False
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    verbose: bool | int = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **shared("C", "tol", "time_limit", "class_weight", "n_jobs", "verbose", optional=["max_iter"]),
        **KERNEL_PARAMETERS,
        "solver": [StrOptions({"auto", "exact", "decomposition", "interior-point"})],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "warm_start": ["boolean"],
    }

    _prediction_attributes: ClassVar[tuple[str, ...]] = (
        *KernelClassifier._prediction_attributes, "coef_", "_centre", "_b",
    )  # fmt: skip

    # -- defined by a subclass ---------------------------------------------------------------

    _dtypes: ClassVar[list[Any]] = [np.float64, np.float32]
    _title: ClassVar[str]
    families_: Families = field(init=False)
    multipliers_: dict[str, NDArray[Any]] = field(init=False)
    _costs: NDArray[np.float64] = field(init=False)  # costs of slack (n,): C times the samples' weights
    _sample_weights: NDArray[np.float64] = field(init=False)
    _short: float = field(init=False)  # magnitude of the Gram matrix's most negative eigenvalue
    # The solution: w for the centred samples, or the coefficients (n,) of the kernel expansion; and b.
    _v: NDArray[np.float64] = field(init=False)
    _b: float = field(init=False)
    _centre: NDArray[np.float64] = field(init=False)  # mean of the samples, for the linear kernel
    _variance_share: ClassVar[float | None] = None

    def _families(self, y: NDArray[Any], weights: NDArray[Any]) -> Families:
        """Return the families of rows of the machine."""
        return Families(margin_family(y, self.C * weights))

    @abstractmethod
    def _primal_program(self, X: Any, rows: Families, weights: NDArray[Any]) -> Program:
        """Return the primal in linear features, with variables w and b and rows named as the families."""

    @abstractmethod
    def _dual_program(self, K: NDArray[Any], rows: Families) -> Program:
        """Return the dual for the Gram matrix of :meth:`_solver_gram`, with the families' letters."""

    def _solver_gram(self, X: Any, weights: NDArray[Any]) -> Gram:
        """Return the Gram matrix for the solver."""
        if self.kernel == "precomputed":
            return MatrixGram(X)
        # b is free, so the origin is arbitrary: centring loses the fewest digits of inner products.
        return SampleGram(X, self._kernel, middle(X) if self.kernel == "linear" else None)

    def _feature_space(self) -> Any:
        """Return the geometry for certificates: that of the kernel itself, not of :meth:`_solver_gram`."""
        if self.kernel == "linear":
            return LinearGeometry(self._X, centred=True)
        return KernelGeometry(self._kernel_gram(), self._short)

    def _kernel_gram(self) -> Gram:
        """Return the Gram matrix of the training samples under the kernel."""
        return MatrixGram(self._X) if self.kernel == "precomputed" else SampleGram(self._X, self._kernel)

    # True if an entry of the machine's Gram matrix depends on its two samples alone.
    _is_pairwise = True

    # -- fitting -----------------------------------------------------------------------------

    def _fit_pairs(self, X: Any, codes: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        super()._fit_pairs(X, codes, weights, rows)
        if self.kernel == "linear":
            self.coef_ = -np.concatenate([pair.coef_ for pair in self.estimators_])

    def _fit_binary(self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        earlier = self._earlier or {}
        has_same_samples = "multipliers_" in earlier and np.array_equal(rows, earlier["_rows"])
        has_same_samples = has_same_samples and np.array_equal(y, earlier["_y"])
        self._X, self._y, self._sample_weights, self._rows = X, y, weights, rows
        with np.errstate(over="ignore"):
            self._costs = self.C * weights
            families = self._families(y, weights)
        if not np.isfinite(self._costs).all():
            raise ValueError(
                f"C={self.C:g} times a sample's weight, {weights.max():g}, is not finite: choose smaller ones"
            )
        start = None
        if has_same_samples:
            start = recapped(earlier["multipliers_"], earlier["families_"], families)
        self.families_ = families
        self.gamma_ = self._gamma_of(X, weights)
        self.solver_ = self._pick_solver(X)
        if is_out_of_time() and self.kernel != "linear":
            self._set_empty_model()
            return
        geometry = cache(self._feature_space)  # built at its first use
        if self.solver_ == "interior-point" or (self.solver_ == "exact" and self._is_tall(X)):
            v, b = self._solve_in_features(X)
        else:
            v, b = self._solve_with_gram(start, geometry)
        self._set_model(v, b, geometry)
        certificate = None
        # True if the rounding of outputs, times the sum of all costs, is not negligible in the objective.
        rounding_matters = OPTIONS.output_rounding * float(self._costs.sum()) > OPTIONS.optimal_gap * abs(
            self.solution_.objective
        )
        if self.solver_ == "exact" or rounding_matters or (self.solver_ == "decomposition" and b is None):
            certificate = self._certify(geometry(), OPTIONS.certificate_tol)
            self._downgrade_status(certificate.relative_gap)
        elif v is None and self.solution_.bound is not None:
            # v was computed from the multipliers: its value is compared with the solver's bound.
            certificate = self._certify(geometry(), OPTIONS.certificate_tol)
            bound = max(certificate.dual_value, self.solution_.bound)
            self._downgrade_status(relative_gap(certificate.primal_value, bound))
        # A certificate of a kernel machine of many samples would cost too much here.
        is_too_costly = (
            certificate is None and self.solver_ == "decomposition" and X.shape[0] > OPTIONS.max_auto_samples
        )

        def certify() -> Certificate:
            return certificate or self._certify(geometry(), OPTIONS.certificate_tol)

        self._warn_if_short(None if is_too_costly else certify)

    def _set_empty_model(self) -> None:
        """Set the model w = 0, without support vectors, for a time limit that ends before the solve."""
        zeros = np.zeros(len(self._y))
        self._v, self._b = zeros, self.families_.best_intercept(zeros)
        self.outputs_ = zeros + self._b
        self.solution_ = Solution(
            status=Status.TIME_LIMIT,
            primal={"coef": zeros, "b": np.array(self._b), "f": self.outputs_},
            duals={},
            objective=self.families_.cost(self.outputs_),
            bound=0.0,
            solver="none: there was no time",
        )
        self._short = 0.0
        self._set_multipliers({family.name: zeros for family in self.families_})
        self.intercept_ = np.array([self._b])
        self._set_support(np.empty(0, dtype=np.intp), zeros[:0], self._sample_weights > 0.0)
        self._warn_if_short(None)

    def _solve_in_features(self, X: Any) -> tuple[NDArray[Any] | None, float | None]:
        """Solve in the features and set ``solution_`` and the multipliers.

        Return w and b; None for one that is to be computed from the multipliers.
        """
        if self.solver_ == "interior-point":
            from polyopt.margin.interior_point import solve_interior_point

            # An iteration on a million entries costs almost nothing.
            tol = 1e-11 if X.size <= 1_000_000 else min(self.tol, 1e-8)
            self.solution_ = solve_interior_point(
                X, self.families_, D=self._variance_share, weights=self._sample_weights,
                tol=tol, **self._limits(),
            )  # fmt: skip
        else:
            # With D > 0 the regulariser has its own scale, so the program is not scaled.
            unit = min(1.0, float(self._costs.max())) if self._variance_share in (None, 0.0) else 1.0
            rows = self.families_.repriced(1.0 / unit)
            program = self._primal_program(np.sqrt(unit) * X, rows, self._sample_weights)
            solution = self._solve(program, unit)
            self.solution_ = replace(
                solution,
                primal={**solution.primal, "w": np.sqrt(unit) * solution["w"]},
                duals={name: unit * multipliers for name, multipliers in solution.duals.items()},
            )
        self._set_multipliers(self.solution_.duals)
        # At D = 1 w is unique only up to directions without variance: the multipliers give the least norm.
        return (self.solution_["w"] if self._variance_share != 1.0 else None), None

    def _solve_with_gram(
        self, start: Any, geometry: Callable[[], Any]
    ) -> tuple[NDArray[Any] | None, float | None]:
        """Solve for a Gram matrix and set ``solution_`` and the multipliers.

        Return v and b; None for one that is to be computed from the multipliers.
        """
        self._short = 0.0
        if self.kernel == "precomputed" or not (self.kernel == "linear" or self._kernel_is_mercer):
            self._short = require_psd(self._kernel_gram())
        gram = self._solver_gram(self._X, self._sample_weights)
        if self.solver_ == "exact":
            unit = min(1.0, float(self._costs.max()))
            K = gram.panel(None, np.float64).rows(np.arange(gram.n))
            solution = self._solve(self._dual_program(unit * K, self.families_.repriced(1.0 / unit)), unit)
            scaled = {name: unit * multipliers for name, multipliers in solution.primal.items()}
            self.solution_ = replace(solution, primal=scaled)
            self._set_multipliers(self.families_.of_letters(scaled))
            return None, None
        limits = self._limits()
        machine = Decomposition(gram, cache_size=self.cache_size, progress=limits.pop("progress"))
        tol = (
            min(self.tol, 1e-8) if self.solver == "auto" and gram.n <= OPTIONS.max_auto_samples else self.tol
        )
        self.solution_ = machine.solve(self.families_, tol=tol, start=start, **limits)
        self._set_multipliers(self.solution_.duals)
        # The solver's coefficients are scaled to satisfy the bounds; those implied by alpha are not.
        coef = self.solution_["coef"]
        # The solver's outputs and intercept are used, unless rounding is not negligible in the objective, or
        # in an output in single precision.
        output_scale = float(np.abs(gram.diagonal()).max(initial=0.0)) * float(np.abs(coef).sum())
        rounding = OPTIONS.output_rounding * output_scale * float(self._costs.sum())
        rounding_matters = rounding > OPTIONS.optimal_gap * abs(self.solution_.objective)
        is_accurate = not rounding_matters and output_scale < OPTIONS.max_output_terms
        if self.kernel == "linear" or not self._is_pairwise or not is_accurate:
            return geometry().primal_from_dual(coef), None
        return coef, float(self.solution_["b"])

    def _downgrade_status(self, gap: float) -> None:
        """Change the status SOLVED if a certificate's gap is too large, because kernel values are rounded."""
        allowed = max(10.0 * self.tol if self.solver_ == "decomposition" else 0.0, OPTIONS.optimal_gap)
        if self.solution_.status is Status.SOLVED and not gap <= min(allowed, OPTIONS.max_optimal_gap):
            status = Status.INACCURATE if gap <= OPTIONS.inaccurate_gap else Status.STALLED
            self.solution_ = replace(self.solution_, status=status)

    def _limits(self) -> dict[str, Any]:
        """Return the limits and the progress listener for a solver, as keyword arguments."""
        from polyopt.base.progress import listener

        progress = listener()
        return {"max_iter": self.max_iter, "time_limit": self.time_limit, "progress": progress}

    def _set_multipliers(self, vectors: dict[str, NDArray[Any]]) -> None:
        """Set ``multipliers_`` from the multipliers of each family, and ``n_iter_``."""
        self.multipliers_ = self.families_.named(self.families_.stacked(vectors))
        self.n_iter_ = max(self.solution_.iterations, 1)

    def _solve(self, program: Program, unit: float) -> Solution:
        """Solve the program for features scaled by √unit and costs divided by unit.

        It is the same program with the objective in units of `unit`. Without scaling, costs far below 1 would
        be lost in the solver's absolute tolerances.
        """
        solution = program.solve(time_limit=self.time_limit, max_iter=self.max_iter)
        if not solution.primal:
            raise RuntimeError(
                f"{type(self).__name__}: no solver found a point, though there is one: C={self.C:g} is out "
                "of scale with the features. Scale them to unit variance, lower C, or choose solver='auto'."
            )
        return replace(solution, objective=unit * solution.objective)

    def _set_model(self, v: NDArray[Any] | None, b: float | None, geometry: Callable[[], Any]) -> None:
        """Set the model from the solution v and b: vector, intercept, outputs and support vectors.

        A v or b that is None is computed from the multipliers.
        """
        beta = self.families_.beta(self.families_.stacked(self.multipliers_))
        if b is None:
            feature_space = geometry()
            v = feature_space.primal_from_dual(beta) if v is None else v
            # If all intercepts of an interval are optimal, every solver takes its midpoint.
            b = self._program(feature_space).best_intercept(v)
            outputs = feature_space.outputs(v) + b
            self.outputs_ = outputs.mid
            self._warn_if_inaccurate(outputs)
        else:
            self.outputs_ = self.solution_["f"]
        assert v is not None
        self._v, self._b = v, b
        if self.kernel == "linear":
            self._centre = geometry().centre
            self.coef_ = v[None, :]
        # The intercept for uncentred samples; pairwise kernels do not centre them.
        is_centred = self.kernel == "linear" or not self._is_pairwise
        self.intercept_ = np.array([b - float(geometry().centred_intercept(v, 0.0).mid) if is_centred else b])
        is_support = np.abs(beta) > OPTIONS.support_tol * max(float(np.abs(beta).max()), np.finfo(float).tiny)
        is_expansion = self.kernel != "linear" and self._is_pairwise
        positions = np.flatnonzero(is_support)
        self._set_support(positions, (v if is_expansion else beta)[positions], self._sample_weights > 0.0)

    def _warn_if_inaccurate(self, outputs: Ball) -> None:
        """Warn if rounding alone changes an output by more than `OPTIONS.max_output_error`."""
        error = float(outputs.rad.max(initial=0.0))
        if not error <= OPTIONS.max_output_error:
            warn(
                self,
                f"the outputs are known to {error:.2g} only, as their terms cancel; "
                "centre the features, scale them, or choose a smaller C",
            )

    def _is_tall(self, X: Any) -> bool:
        """Return True if the machine is linear and has at most as many features as samples."""
        return self.kernel == "linear" and X.shape[1] <= X.shape[0]

    def _pick_solver(self, X: Any) -> str:
        """Return the solver for ``solver="auto"``; raise ValueError for one that cannot solve the machine."""
        n, m = X.shape
        solver = self.solver
        if solver == "interior-point" and self.kernel != "linear":
            raise ValueError(
                f"solver='interior-point' works on linear features, not on kernel={self.kernel!r}; "
                "choose solver='decomposition'"
            )
        if solver == "auto":
            solver = (
                "interior-point" if self._is_tall(X) and m <= OPTIONS.max_auto_features else "decomposition"
            )
        if solver == "interior-point" and m > MAX_SQUARE_ROWS:
            raise ValueError(
                f"{m} features need matrices of {8e-9 * m * m:.0f} GB, and solver='interior-point' takes at "
                f"most {MAX_SQUARE_ROWS}: choose solver='auto' or 'decomposition'"
            )
        needs_gram = solver == "exact" or not self._is_pairwise
        if needs_gram and n > MAX_SQUARE_ROWS and not (self.kernel == "linear" and solver != "decomposition"):
            raise ValueError(
                f"{n} samples need a kernel matrix of {8e-9 * n * n:.0f} GB, and {type(self).__name__} with "
                f"solver={self.solver!r} takes at most {MAX_SQUARE_ROWS}: choose "
                f"{'another solver' if self._is_pairwise else 'a linear kernel'} or fewer samples"
            )
        return solver

    def _certify(self, geometry: Geometry, tol: float) -> Certificate:
        return certify_hinge(
            self._program(geometry),
            v=self._v,
            b=geometry.centred_intercept(self._v, float(self.intercept_[0])),
            multipliers=self.multipliers_,
            tol=tol,
        )

    def _program(self, geometry: Geometry) -> HingeProgram:
        return HingeProgram(self._title, geometry, self.families_)

    # -- predicting --------------------------------------------------------------------------

    def _binary_scores(self, X: Any) -> NDArray[Any]:
        if self.kernel == "linear":
            w, centre = self.coef_[0], self._centre
            if sp.issparse(X) or np.abs(centre) @ np.abs(w) < OPTIONS.max_offset:
                return np.asarray(X @ w).ravel() + self.intercept_[0]
            parts = [(X[part] - centre) @ w for part in chunks(np.arange(X.shape[0]))]
            return np.concatenate([np.zeros(0), *parts]) + self._b
        return self._kernel_scores(X)

    def _draw_scores(self, graph: Graph, x: str) -> str:
        if self.kernel != "linear":
            return super()._draw_scores(graph, x)
        w, centre = self.coef_, self._centre
        if np.abs(centre) @ np.abs(w[0]) < OPTIONS.max_offset:
            return graph.affine(x, w, self.intercept_)
        return graph.affine(graph.op("Sub", x, graph.constant(centre)), w, [self._b])

    def _support(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        coef = vars(self).get("_v")
        if coef is None:  # in files of earlier versions dual_coef_ has the expansion
            coef = self.dual_coef_[0]
        if not self.holds_data:
            return self._used, coef
        used = np.flatnonzero(coef)
        return used, coef[used]

    def _drop_data(self, original: Self) -> None:
        super()._drop_data(original)
        original = original._as_fitted()
        if original.kernel != "linear":
            self._v = original._support()[1]

    def _binary_certificate(self, tol: float) -> Certificate:
        return self._certify(self._feature_space(), tol)

    def generalization_bound(
        self,
        delta: float = 0.05,
        X_unlabelled: SamplesLike | None = None,
        form: Literal["best", "F", "G", "H"] = "best",
    ) -> MarginBound:
        """Bound the error of two classes by the theorem of :mod:`formulations.error_bounds.margin_bounds`.

        Parameters
        ----------
        delta : float
            The bound holds with a probability of 1 - delta over the draw of the training data, for features
            and a kernel that were chosen without these data. Each sample counts once, with any weight.
        X_unlabelled : array_like or CSR matrix of shape (t, m), optional
            Further samples, independent of the training data; no labels are needed. Small outputs at them,
            which the Relative Margin Machine aims at, tighten the bound.
        form : {"best", "F", "G", "H"}
            Class of functions: "F" bounds the weights alone, "G" the weights and the mean square of the
                outputs at `X_unlabelled`, "H" the weights and each of these outputs. "best" is the smallest
                of the three bounds, and "F" without `X_unlabelled`: the training data cannot replace it,
                because the class must be chosen without them.

        Returns
        -------
        MarginBound
            The bound and its terms; ``print`` shows them.

        Raises
        ------
        ValueError
            More than two classes, samples that do not fit, or an argument out of its range.
        """
        from polyopt.margin.bounds import bound_of

        self._need_data("generalization_bound()")
        machine = self._as_fitted()
        if not self._is_binary:
            raise ValueError(
                f"the bound is of two classes, but there are {len(self.classes_)}: ask the machines in "
                "estimators_"
            )
        return bound_of(machine, delta, X_unlabelled, form)

    def _binary_duals(self) -> pd.DataFrame:
        f, tolerance = self.outputs_, OPTIONS.multiplier_tol * float(self._costs.max())
        frame_rows: list[RowsShown] = []
        exists: list[NDArray[np.bool_]] = []
        for family in self.families_:
            exists += [family.cap > 0.0] * (2 if family.slack else 1)
            mu, surplus = self.multipliers_[family.name], family.surplus(f)
            slack = np.maximum(0.0, -surplus) if family.slack else np.zeros(len(f))
            idle, between, at_cap = family.states
            state = np.where(mu >= family.cap - tolerance, at_cap, between)
            state = np.where(mu <= tolerance, idle, state)
            frame_rows.append((family.name, family.letter, mu, surplus + slack, state))
            if family.slack:
                used = np.where(slack > OPTIONS.min_slack, "slack in use", "no slack")
                frame_rows.append((*family.slack, family.cap - mu, slack, used))
        label = np.where(self._y > 0, self.classes_[1], self.classes_[0])
        unlabelled = self._sample_weights == 0.0
        if not unlabelled.any():
            return multiplier_frame(frame_rows, self._rows, label, f)
        label = label.astype(object)
        label[unlabelled] = None
        frame = multiplier_frame(frame_rows, self._rows, label, f)
        return frame[np.concatenate(exists)].reset_index(drop=True)
