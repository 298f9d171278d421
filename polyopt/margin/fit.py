"""Base of the SVM, the Sigma-SVM and the RMM: choose a solver, solve, set the model from the solution.

All three minimise ½‖w‖² plus hinge losses, the cost of slack in families of rows. A family has one constraint
``side_i f_i ≥ kink − slack_i`` on the output f_i of each sample; its cap is the cost of a unit of slack, and
an upper bound on its multipliers (:mod:`formulations.families`). A subclass defines its families of rows, its
programs (primal for linear features, dual for a Gram matrix) and D, the share of the output variance in its
regulariser, (1-D)/2 ‖w‖² + D/2 times the variance. The coefficients of w in the samples are `beta`.

``_fit_binary`` is one fit: it picks a solver, solves in the features or for a Gram matrix, sets the model
from the solution, and checks the solver's status by a certificate if that is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from formulations.families import Families, margin_family
from formulations.language.clock import is_out_of_time
from formulations.language.solution import Solution, Status
from polyopt.base.onnx_graph import Graph
from polyopt.base.types import ClassWeight, SamplesLike
from polyopt.certificates.certificate import Certificate, relative_gap
from polyopt.estimators.collections import CollectionLike, is_in_blocks
from polyopt.estimators.frames import RowsShown, multiplier_frame
from polyopt.estimators.parameters import estimator, shared
from polyopt.estimators.status import warn
from polyopt.linalg.kernels import MAX_SQUARE_ROWS, Gram, MatrixGram, SampleGram, chunks, require_psd
from polyopt.linalg.rounding import Ball
from polyopt.margin.certificate import HingeProgram, certify_hinge
from polyopt.margin.decomposition import Decomposition
from polyopt.margin.geometry import Geometry, KernelGeometry, LinearGeometry, middle
from polyopt.margin.kernel_classifier import KERNEL_PARAMETERS, KernelClassifier

if TYPE_CHECKING:
    import pandas as pd

    from formulations.error_bounds.margin_bounds import MarginBound
    from formulations.language.program import Program


@dataclass(frozen=True)
class Options:
    """Limits and tolerances of a fit."""

    # Choice of the solver, and its tolerance.
    max_small_samples: int = 2_000  # largest n for which "auto" solves to 1e-8 and checks a warning
    max_auto_features: int = 2_000  # largest m for which "auto" is the interior point
    # Rounding.
    output_rounding: float = 1e-13  # rounding error of an output, relative to its terms
    max_output_terms: float = 1e7  # largest sum of an output's terms for which single precision suffices
    max_output_error: float = 1e-3  # largest rounding error of an output without a warning
    max_offset: float = 1e3  # largest |centre|·|w| for which samples are scored without centring
    # The status by the relative gap of a certificate.
    certificate_tol: float = 1e-6  # tolerance of this certificate
    optimal_gap: float = 1e-5  # gap that is SOLVED for any `tol`
    max_optimal_gap: float = 0.1  # largest gap that is SOLVED, however large `tol` is
    inaccurate_gap: float = 1e-3  # largest gap that is INACCURATE, if not SOLVED; above it STALLED
    # The solution as it is reported.
    support_tol: float = 1e-6  # least coefficient of a support vector, relative to the largest one
    multiplier_tol: float = 1e-6  # distance at which a multiplier is at a bound, relative to the largest cost
    min_slack: float = 1e-6  # least slack that is reported as in use


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
        "decomposition" solves the dual by working sets, for any kernel. "interior-point" solves a linear
        machine in its features, and is fast if there are many more samples than features. "exact" solves
        the explicit program in ``formulations`` by a general solver. "auto" is the interior point for a
        linear machine of up to 2,000 features and at least as many samples, else decomposition. The
        attribute ``solver_`` is the solver of the fit.
    tol : float, default=1e-3
        Largest violation of the optimality conditions at which decomposition stops, in units of the
        outputs; the relative duality gap is then within ten times `tol` (at most 0.1). The other solvers,
        and "auto" for up to 2,000 samples, solve to 1e-8. There is a warning if `tol` is not reached.
    max_iter : int, optional
        Largest number of iterations of the solver (working sets and Newton steps of "decomposition"), as
        counted by ``n_iter_``; after the limit, the last point is kept.
    time_limit : float, optional
        Seconds for the complete fit, shared by the pairs of classes; after the limit, the last point is
        kept. "exact" checks the clock only between its iterations. With a kernel and thousands of samples an
        iteration takes minutes, and so does building the program.
    cache_size : float, default=500.0
        Megabytes that decomposition may use for kernel rows and for Newton's method.

    Attributes
    ----------
    duals_ : pandas.DataFrame
        One row per constraint, with its multiplier, in input order.
    history_ : pandas.DataFrame
        "interior-point": one row per iteration. "decomposition": a row every ten working sets, after each
        Newton phase and at the end; the last ``iteration`` is ``n_iter_``. "exact": empty.
    """

    C: float = 1.0
    _: KW_ONLY
    solver: str = "auto"
    tol: float = 1e-3
    max_iter: int | None = None
    time_limit: float | None = None
    cache_size: float = 500.0
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    verbose: bool | int = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **shared("C", "tol", "time_limit", "class_weight", "n_jobs", "verbose", optional=["max_iter"]),
        **KERNEL_PARAMETERS,
        "solver": [StrOptions({"auto", "exact", "decomposition", "interior-point"})],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
    }

    _prediction_attributes: ClassVar[tuple[str, ...]] = (
        *KernelClassifier._prediction_attributes, "coef_", "_centre", "_b",
    )  # fmt: skip

    # -- defined by a subclass ---------------------------------------------------------------

    _dtypes: ClassVar[list[Any]] = [np.float64, np.float32]
    _title: ClassVar[str]  # name of the program in certificates
    families_: Families = field(init=False)
    multipliers_: dict[str, NDArray[Any]] = field(init=False)  # (n,), by the names of the families
    _costs: NDArray[np.float64] = field(init=False)  # costs of slack (n,): C times the samples' weights
    _sample_weights: NDArray[np.float64] = field(init=False)
    _short: float = field(init=False)  # magnitude of the Gram matrix's most negative eigenvalue
    _v: NDArray[np.float64] = field(init=False)  # w (m,) if linear, else coefficients (n,) of the expansion
    _b: float = field(init=False)  # intercept for centred samples; `intercept_` is for samples as given
    _centre: NDArray[np.float64] = field(init=False)  # mean of the samples, for the linear kernel
    _variance_share: ClassVar[float | None] = None  # D of the Sigma-SVM

    def _families(self, y: NDArray[Any], weights: NDArray[Any]) -> Families:
        """Return the families of rows of the machine."""
        return Families(margin_family(y, self.C * weights))

    def _primal_program(self, X: Any, rows: Families, weights: NDArray[Any]) -> Program:
        """Return the primal in linear features, with variables w and b and rows named as the families."""
        from formulations import svm

        return svm.primal(X, rows["margin"].side, rows["margin"].cap)

    def _dual_program(self, K: NDArray[Any], rows: Families) -> Program:
        """Return the dual for the Gram matrix of :meth:`_solver_gram`; a variable is a family's `letter`."""
        from formulations import svm

        return svm.kernel_dual(K, rows["margin"].side, rows["margin"].cap)

    def _solver_gram(self, gram: Gram) -> Gram:
        """Return the Gram matrix for the solver from that of the kernel."""
        if self.kernel != "linear":
            return gram
        # b is free, so the origin is arbitrary: centring loses the fewest digits of inner products.
        return SampleGram(self._X, self._kernel, middle(self._X))

    def _feature_space(self) -> Any:
        """Return the geometry for certificates: that of the kernel itself, not of :meth:`_solver_gram`."""
        if self.kernel == "linear":
            return LinearGeometry(self._X, centred=True)
        return KernelGeometry(self._kernel_gram(), self._short)

    def _kernel_gram(self) -> Gram:
        """Return the Gram matrix of the training samples under the kernel."""
        return MatrixGram(self._X) if self.kernel == "precomputed" else SampleGram(self._X, self._kernel)

    # True if an entry of the machine's Gram matrix depends on its two samples alone: not if it is centred.
    _is_pairwise = True

    # -- fitting -----------------------------------------------------------------------------

    def fit(
        self, X: SamplesLike | CollectionLike, y: ArrayLike | CollectionLike | None = None,
        sample_weight: ArrayLike | CollectionLike | None = None, *, executor: Any = None,
        checkpoint: str | Path | None = None, resume: str | Path | None = None,
    ) -> Self:  # fmt: skip
        """Fit the classifier.

        Samples in blocks are a source, arrays or frames of Dask, or any samples with one of the last three
        arguments. Their machine is linear; it is solved by the interior point, to a gap of 1e-8, and
        certified where the blocks are, which it does not keep.

        Parameters
        ----------
        X : array_like, sparse matrix, Dask array or frame of shape (n, m), or source
            Training samples (a Gram matrix for a precomputed kernel); a source is one of
            :mod:`polyopt.scale`, with its labels and weights.
        y : array_like or Dask collection of shape (n,)
            Labels of two or more classes, of any type; none for a source.
        sample_weight : array_like or Dask collection of shape (n,), optional
            Non-negative weights; a weight of 2 is the same as repeating the sample, a weight of 0 the same
            as leaving it out. None for a source.
        executor : {"threads", "dask"} or distributed.Client, optional
            Where blocks are worked on: on all threads of this process, or by the workers of the current
            client or of this one; by default by Dask for its collections, else on threads. The model is the
            same to the last bit.
        checkpoint : str or Path, optional
            A file to write after every iteration on blocks of two classes. A disk that is full is a warning.
        resume : str or Path, optional
            A checkpoint to resume, of the same machine, blocks, labels and weights; the result has the same
            bits.

        Returns
        -------
        self
            The fitted classifier. A fit that fails leaves it unchanged.

        Raises
        ------
        ValueError
            A parameter out of its range, data that are not finite, or fewer than two classes.
        """
        if not is_in_blocks(X, executor, checkpoint, resume):
            return super().fit(X, y, sample_weight)  # type: ignore[arg-type]
        from polyopt.margin.by_blocks import fit_linear

        return fit_linear(self, X, y, sample_weight, executor, checkpoint, resume)

    def _fit_pairs(self, X: Any, codes: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        super()._fit_pairs(X, codes, weights, rows)
        if self.kernel == "linear":
            # A pair's own scores are positive for its second class; in SVC's layout for its first.
            self.coef_ = -np.concatenate([pair.coef_ for pair in self.estimators_])

    def _fit_binary(self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        self._X, self._y, self._sample_weights, self._rows = X, y, weights, rows
        with np.errstate(over="ignore"):
            self._costs = self.C * weights
            families = self._families(y, weights)
        if not np.isfinite(self._costs).all():
            raise ValueError(
                f"C={self.C:g} times a sample's weight, {weights.max():g}, is not finite: choose smaller ones"
            )
        self.families_ = families
        self.gamma_ = self._gamma_of(X, weights)
        self.solver_ = self._pick_solver(X)
        if is_out_of_time() and self.kernel != "linear":
            self._set_empty_model()
            return
        geometry = cache(self._feature_space)  # a function: the feature space is built at its first use
        # v is w (m,) or the coefficients (n,) of a kernel; b is None if it must be computed from v.
        if self.solver_ == "interior-point" or (self.solver_ == "exact" and self._is_tall(X)):
            v, b = self._solve_in_features(X, geometry), None
        else:
            v, b = self._solve_with_gram(geometry)
        self._set_model(v, b, geometry)
        certificate = self._check_status(geometry, has_new_intercept=b is None)
        if certificate is None and self.solver_ == "decomposition" and len(y) > OPTIONS.max_small_samples:
            self._warn_if_incomplete(None)  # a certificate would cost too much
        else:
            self._warn_if_incomplete(
                lambda: certificate or self._certify(geometry(), OPTIONS.certificate_tol)
            )

    def _check_status(self, geometry: Callable[[], Any], *, has_new_intercept: bool) -> Certificate | None:
        """Lower the status SOLVED if the gap of a certificate is too large; return the certificate.

        Return None if the solver's own gap is that of the model, so that no certificate is needed.
        """
        has_new_intercept = has_new_intercept and self.solver_ == "decomposition"
        # "exact" has tolerances of its own; rounding and another intercept than the solver's change the gap.
        if self.solver_ == "exact" or self._rounding_matters() or has_new_intercept:
            solver_bound = -np.inf  # only the certificate's bound counts
        elif self.solver_ == "interior-point" and self._variance_share == 1.0:  # w is not the solver's
            assert self.solution_.bound is not None
            solver_bound = self.solution_.bound
        else:
            return None
        certificate = self._certify(geometry(), OPTIONS.certificate_tol)
        gap = relative_gap(certificate.primal_value, max(certificate.dual_value, solver_bound))
        allowed = max(10.0 * self.tol if self.solver_ == "decomposition" else 0.0, OPTIONS.optimal_gap)
        if self.solution_.status is Status.SOLVED and not gap <= min(allowed, OPTIONS.max_optimal_gap):
            status = Status.INACCURATE if gap <= OPTIONS.inaccurate_gap else Status.STALLED
            self.solution_ = replace(self.solution_, status=status)
        return certificate

    def _rounding_matters(self, output_terms: float = 1.0) -> bool:
        """Return True if rounding of outputs can change the objective by more than `optimal_gap`, relative.

        output_terms: sum of the absolute terms of an output; its rounding error is proportional to this sum.
        """
        rounding = OPTIONS.output_rounding * output_terms * float(self._costs.sum())
        return rounding > OPTIONS.optimal_gap * abs(self.solution_.objective)

    def _set_empty_model(self) -> None:
        """Set the model w = 0, without support vectors, for a time limit that ends before the solve."""
        zeros = np.zeros(len(self._y))
        self._v, self._b = zeros, self.families_.best_intercept(zeros)
        self.outputs_ = zeros + self._b
        self.solution_ = Solution(
            status=Status.TIME_LIMIT,
            primal={"coef": zeros, "b": np.array(self._b), "f": self.outputs_}, duals={},
            objective=self.families_.cost(self.outputs_), bound=0.0,
            solver="none: there was no time",
        )  # fmt: skip
        self._short = 0.0
        self._set_multipliers({family.name: zeros for family in self.families_})
        self.intercept_ = np.array([self._b])
        self._set_support(np.empty(0, dtype=np.intp), zeros[:0], self._sample_weights > 0.0)
        self._warn_if_incomplete(None)

    def _beta(self) -> NDArray[Any]:
        """Return the coefficients (n,) of w in the samples: signed sums of the multipliers."""
        return self.families_.beta(self.families_.stacked(self.multipliers_))

    def _solve_in_features(self, X: Any, geometry: Callable[[], Any]) -> NDArray[Any]:
        """Solve in the features and set ``solution_`` and the multipliers; return w."""
        if self.solver_ == "interior-point":
            from polyopt.margin.interior_point import solve_interior_point

            tol = 1e-11 if X.size <= 1_000_000 else min(self.tol, 1e-8)  # iterations on few entries are cheap
            self.solution_ = solve_interior_point(
                X, self.families_, D=self._variance_share, weights=self._sample_weights,
                tol=tol, max_iter=self.max_iter, time_limit=self.time_limit,
            )  # fmt: skip
        else:
            # With D > 0 the regulariser has its own scale; else features and costs are scaled (see `_solve`).
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
        if self._variance_share == 1.0:  # w is not unique; that of the multipliers has the least norm
            return geometry().primal_from_dual(self._beta())
        return self.solution_["w"]

    def _solve_with_gram(self, geometry: Callable[[], Any]) -> tuple[NDArray[Any], float | None]:
        """Solve for a Gram matrix and set ``solution_`` and the multipliers; return v and b.

        b is None if it must be computed from v.
        """
        gram = self._kernel_gram()
        self._short = require_psd(gram)
        gram = self._solver_gram(gram)
        if self.solver_ == "exact":
            unit = min(1.0, float(self._costs.max()))  # see `_solve`
            K = gram.panel(None, np.float64).rows(np.arange(gram.n))
            solution = self._solve(self._dual_program(unit * K, self.families_.repriced(1.0 / unit)), unit)
            scaled = {name: unit * multipliers for name, multipliers in solution.primal.items()}
            self.solution_ = replace(solution, primal=scaled)
            self._set_multipliers(self.families_.of_letters(scaled))
            return geometry().primal_from_dual(self._beta()), None
        machine = Decomposition(gram, cache_size=self.cache_size)
        is_small = self.solver == "auto" and gram.n <= OPTIONS.max_small_samples
        tol = min(self.tol, 1e-8) if is_small else self.tol
        self.solution_ = machine.solve(
            self.families_, tol=tol, max_iter=self.max_iter, time_limit=self.time_limit
        )
        self._set_multipliers(self.solution_.duals)
        coef = self.solution_["coef"]  # the coefficients `_beta`, scaled to satisfy the hard bounds
        # The solver's outputs and intercept, perhaps in single precision, are kept unless rounding matters.
        output_terms = float(np.abs(gram.diagonal()).max(initial=0.0)) * float(np.abs(coef).sum())
        is_accurate = output_terms < OPTIONS.max_output_terms and not self._rounding_matters(output_terms)
        if self.kernel != "linear" and self._is_pairwise and is_accurate:
            return coef, float(self.solution_["b"])
        return geometry().primal_from_dual(coef), None

    def _set_multipliers(self, vectors: dict[str, NDArray[Any]]) -> None:
        """Set ``multipliers_`` from the multipliers of each family, and ``n_iter_``."""
        self.multipliers_ = self.families_.named(self.families_.stacked(vectors))
        self.n_iter_ = max(self.solution_.iterations, 1)

    def _solve(self, program: Program, unit: float) -> Solution:
        """Solve the program with features scaled by √unit and costs divided by unit; return its solution.

        Its objective, which is scaled by 1/unit, is scaled back. Without the scaling, costs far below 1 would
        be lost in the solver's absolute tolerances.
        """
        solution = program.solve(time_limit=self.time_limit, max_iter=self.max_iter)
        if not solution.primal:
            raise RuntimeError(
                f"{type(self).__name__}: no solver found a point, though there is one: C={self.C:g} is out "
                "of scale with the features. Scale them to unit variance, lower C, or choose solver='auto'."
            )
        return replace(solution, objective=unit * solution.objective)

    def _set_model(self, v: NDArray[Any], b: float | None, geometry: Callable[[], Any]) -> None:
        """Set the model from v and b: vector, intercept, outputs and support vectors.

        If b is None, the best intercept and the outputs are computed from v; else they are the solver's.
        """
        beta = self._beta()
        if b is None:
            # If all intercepts of an interval are optimal, every solver takes its midpoint.
            b = self._program(geometry()).best_intercept(v)
            outputs = geometry().outputs(v) + b
            self.outputs_ = outputs.mid
            self._warn_if_inaccurate(outputs)
        else:
            self.outputs_ = self.solution_["f"]
        self._v, self._b = v, b
        if self.kernel == "linear":
            self._centre = geometry().centre
            self.coef_ = v[None, :]
        is_centred = self.kernel == "linear" or not self._is_pairwise  # scores are of centred samples
        self.intercept_ = np.array([b - float(geometry().centred_intercept(v, 0.0).mid) if is_centred else b])
        min_coef = OPTIONS.support_tol * max(float(np.abs(beta).max()), np.finfo(float).tiny)
        positions = np.flatnonzero(np.abs(beta) > min_coef)
        self._set_support(positions, (beta if is_centred else v)[positions], self._sample_weights > 0.0)

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
        needs_all_entries = solver == "exact" or not self._is_pairwise  # decomposition computes rows
        works_in_features = self.kernel == "linear" and solver != "decomposition"
        if needs_all_entries and not works_in_features and n > MAX_SQUARE_ROWS:
            raise ValueError(
                f"{n} samples need a kernel matrix of {8e-9 * n * n:.0f} GB, and {type(self).__name__} with "
                f"solver={self.solver!r} takes at most {MAX_SQUARE_ROWS}: choose "
                f"{'another solver' if self._is_pairwise else 'a linear kernel'} or fewer samples"
            )
        return solver

    def _certify(self, geometry: Geometry, tol: float) -> Certificate:
        return certify_hinge(
            self._program(geometry), v=self._v,
            b=geometry.centred_intercept(self._v, float(self.intercept_[0])),
            multipliers=self.multipliers_, tol=tol,
        )  # fmt: skip

    def _program(self, geometry: Geometry) -> HingeProgram:
        return HingeProgram(self._title, geometry, self.families_)

    # -- predicting --------------------------------------------------------------------------

    def _binary_scores(self, X: Any) -> NDArray[Any]:
        if self.kernel != "linear":
            return self._kernel_scores(X)
        w, centre = self.coef_[0], self._centre
        if sp.issparse(X) or np.abs(centre) @ np.abs(w) < OPTIONS.max_offset:
            return np.asarray(X @ w).ravel() + self.intercept_[0]
        parts = [(X[part] - centre) @ w for part in chunks(np.arange(X.shape[0]))]
        return np.concatenate([np.zeros(0), *parts]) + self._b

    def _draw_scores(self, graph: Graph, x: str) -> str:
        if self.kernel != "linear":
            return super()._draw_scores(graph, x)
        w, centre = self.coef_, self._centre
        if np.abs(centre) @ np.abs(w[0]) < OPTIONS.max_offset:
            return graph.affine(x, w, self.intercept_)
        return graph.affine(graph.op("Sub", x, graph.constant(centre)), w, [self._b])

    def _support(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        if not self.holds_data:  # only the samples of the expansion are left
            return self._used, self._v
        used = np.flatnonzero(self._v)
        return used, self._v[used]

    def _drop_data(self, original: Self) -> None:
        super()._drop_data(original)
        original = original._as_fitted()
        if original.kernel != "linear":
            self._v = original._support()[1]

    def _binary_certificate(self, tol: float) -> Certificate:
        return self._certify(self._feature_space(), tol)

    def generalization_bound(
        self, delta: float = 0.05, X_unlabelled: SamplesLike | None = None,
        form: Literal["best", "F", "G", "H"] = "best",
    ) -> MarginBound:  # fmt: skip
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
                f"the bound is of two classes, but there are {len(self.classes_)}: call the method of the "
                "machines in estimators_"
            )
        return bound_of(machine, delta, X_unlabelled, form)

    def _binary_duals(self) -> pd.DataFrame:
        f, tolerance = self.outputs_, OPTIONS.multiplier_tol * float(self._costs.max())
        frame_rows: list[RowsShown] = []
        exists: list[NDArray[np.bool_]] = []  # for each of these kinds of rows: the samples that have one
        for family in self.families_:
            exists += [family.cap > 0.0] * (2 if family.slack else 1)  # the constraint, and slack ≥ 0
            mu, surplus = self.multipliers_[family.name], family.surplus(f)
            slack = np.maximum(0.0, -surplus) if family.slack else np.zeros(len(f))
            idle, between, at_cap = family.states  # names of mu = 0, 0 < mu < cap and mu = cap
            state = np.where(mu >= family.cap - tolerance, at_cap, between)
            state = np.where(mu <= tolerance, idle, state)
            frame_rows.append((family.name, family.letter, mu, surplus + slack, state))
            if family.slack:
                used = np.where(slack > OPTIONS.min_slack, "slack in use", "no slack")
                frame_rows.append((*family.slack, family.cap - mu, slack, used))
        label = np.where(self._y > 0, self.classes_[1], self.classes_[0])
        unlabelled = self._sample_weights == 0.0
        if unlabelled.any():
            label = label.astype(object)
            label[unlabelled] = None
        frame = multiplier_frame(frame_rows, self._rows, label, f)
        return frame[np.concatenate(exists)].reset_index(drop=True)
