"""Base of the sparse kernel classifiers f(x) = Σ_j y_j α_j k(x, x_j) + b that are fitted by linear programs.

The kernel may be indefinite or asymmetric. Its first argument is the sample to be classified, its second the
support vector, in training (``K[i, j] = k(x_i, x_j)``) as in prediction.
"""

from abc import abstractmethod
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from formulations.families import best_intercept
from formulations.language.clock import Clock, is_out_of_time
from formulations.language.recovery import slacks
from formulations.language.solution import Solution, Status
from formulations.language.types import Array
from polyopt.base.onnx_graph import Graph
from polyopt.base.types import ClassWeight
from polyopt.estimators.frames import margin_state, multiplier_frame
from polyopt.estimators.parameters import estimator, shared
from polyopt.linalg.kernels import Kernel, SampleGram
from polyopt.margin.kernel_classifier import KERNEL_PARAMETERS, KernelClassifier

if TYPE_CHECKING:
    import pandas as pd

_MAX_SAMPLES = 5_000  # the linear programs contain the whole kernel matrix


@estimator
class ExpansionClassifier(KernelClassifier):
    """Base of the one-norm machine and of the L0 machine.

    A subclass solves the binary problem in :meth:`_solve`, and returns the caps and costs of its linear
    program in :meth:`_terms`. The coefficients ``dual_coef_`` of two classes are y_j α_j.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack, and cap of the coefficients; positive.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        Kernel, as in scikit-learn; it need be neither semidefinite nor symmetric.
    """

    C: float = 1.0
    _: KW_ONLY
    solver: str = "auto"
    time_limit: float | None = None
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    verbose: bool | int = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KERNEL_PARAMETERS,
        **shared("C", "time_limit", "class_weight", "n_jobs", "verbose"),
    }

    _prediction_attributes: ClassVar[tuple[str, ...]] = (
        *KernelClassifier._prediction_attributes, "_hyperplane", "support_", "score_"
    )  # fmt: skip
    _weights: Array = field(init=False)
    _hyperplane: Array | None = field(init=False, default=None)
    _largest_entry: ClassVar[float]  # largest entry of C times the kernel matrix that HiGHS can solve

    @abstractmethod
    def _solve(self, K: Array, y: Array, weights: Array, error: float | Array, clock: Clock) -> Solution:
        """Solve the binary problem: ``alpha`` (n,), ``b``, and the multipliers ``margin`` (n,).

        `error` bounds the distance of the entries of K from the kernel's true values.
        """

    @abstractmethod
    def _terms(self) -> tuple[Array, float | Array, Array]:
        """Return caps of the coefficients (n,), the cost of a unit of one, and costs of slack (n,)."""

    # -- fitting -----------------------------------------------------------------------------

    def _fit_binary(self, X: Any, y: Array, weights: Array, rows: NDArray[np.intp]) -> None:
        if X.shape[0] > _MAX_SAMPLES:
            raise ValueError(
                f"{type(self).__name__} holds the kernel matrix of all samples in its linear programs and "
                f"takes at most {_MAX_SAMPLES} of them, not {X.shape[0]}: choose fewer, or the SVM"
            )
        clock = Clock(self.time_limit)
        self._X, self._y, self._weights, self._rows = X, y, weights, rows
        self.gamma_ = self._gamma_of(X, weights)
        if is_out_of_time():
            self.solution_ = self._unsolved(y, weights)
        else:
            K, error = self._training_kernel()
            self._check_size(K, weights)
            self.solution_ = self._solve(K, y, weights, error, clock)
        self.n_iter_ = max(self.solution_.iterations, 1)
        expansion = y * self.solution_["alpha"]
        support = np.flatnonzero(expansion)
        self._set_support(support, expansion[support], weights > 0.0)
        self._used = self._support_places
        self.intercept_ = np.array([float(self.solution_["b"])])
        if self.kernel == "linear":
            self._hyperplane = np.asarray(X[support].T @ expansion[support])
        self._warn_if_incomplete(lambda: self._binary_certificate(1e-6))

    def _unsolved(self, y: Array, weights: Array) -> Solution:
        """Return the constant classifier, if time is up before the kernel matrix is computed."""
        zeros, costs = np.zeros(len(y)), self.C * weights
        b = best_intercept(zeros, y, costs)
        xi = slacks(zeros + b, y)
        self.solver_ = "none"
        primal = {"alpha": zeros, "sigma": zeros, "b": np.array(b), "xi": xi}
        duals = {"margin": zeros, "relaxation": zeros}
        return Solution(Status.TIME_LIMIT, primal, duals, float(costs @ xi), 0.0, "none: there was no time")

    @property
    def coef_(self) -> Array:
        """The hyperplane Σ y_j α_j x_j of the linear kernel, shape (1, m), or those of the pairs of classes.

        The weight of a feature that is a constant c in training is c Σ y_j α_j, which b compensates.
        """
        check_is_fitted(self)
        if self._as_fitted().kernel != "linear":
            raise AttributeError("coef_ needs kernel='linear': the other kernels have no hyperplane")
        if not self._is_binary:
            return -np.concatenate([pair.coef_ for pair in self.estimators_])
        assert self._hyperplane is not None
        return self._hyperplane[None, :]

    def _coefficients(self) -> Array:
        """Return α (n,) as used in prediction."""
        alpha = np.zeros(len(self._y))
        alpha[self._used] = self.dual_coef_[0] * self._y[self._used]
        return alpha

    def _training_kernel(self) -> tuple[Array, float | Array]:
        """Return the kernel matrix of the samples, and an error bound of its entries."""
        if self.kernel == "precomputed":
            if self._X.shape[0] != self._X.shape[1]:
                raise ValueError(f"the Gram matrix must be square, not of shape {self._X.shape}")
            return np.asarray(self._X), 0.0
        return kernel_matrix(self._X, self._kernel)

    def _check_size(self, K: Array, weights: Array) -> None:
        largest, cap = float(np.abs(K).max()), self.C * max(float(weights.max()), 1.0)
        if largest * cap > self._largest_entry:
            raise ValueError(
                f"a kernel value of {largest:.3g} with a coefficient of up to {cap:.3g} is more than the "
                f"linear programs of {type(self).__name__} tell from rounding: the product may be "
                f"{self._largest_entry:g}; scale the features (or the kernel), or choose a smaller C"
            )

    # -- answering ---------------------------------------------------------------------------

    def _binary_scores(self, X: Any) -> Array:
        if self.kernel == "linear":
            return np.asarray(X @ self.coef_[0]).ravel() + self.intercept_[0]
        return self._kernel_scores(X)

    def _draw_scores(self, graph: Graph, x: str) -> str:
        if self.kernel == "linear":
            return graph.affine(x, self.coef_, self.intercept_)
        return super()._draw_scores(graph, x)

    def _support(self) -> tuple[NDArray[np.intp], Array]:
        return self._used, self.dual_coef_[0]

    def _binary_duals(self) -> "pd.DataFrame":
        (K, _), y, solution = self._training_kernel(), self._y, self.solution_
        alpha, u, (caps, cost, costs_of_slack) = solution["alpha"], solution["margin"], self._terms()
        f = K @ (y * alpha) + self.intercept_[0]
        xi = slacks(f, y)
        # Decrease of the loss per unit of α_j, minus the cost of α_j: the negative reduced cost.
        rate = y * (K.T @ (y * u)) - cost
        zero_tol = 1e-6
        cap_slack = caps - alpha
        families = [
            ("margin", "u", u, y * f - 1.0 + xi, margin_state(y * f - 1.0)),
            ("slack", "v", costs_of_slack - u, xi, np.where(xi > zero_tol, "slack in use", "no slack")),
            ("sign", "r", np.maximum(-rate, 0.0), alpha, np.where(alpha > 0, "support vector", "not used")),
            ("cap", "s", np.maximum(rate, 0.0), cap_slack,
             np.select([caps == 0, cap_slack <= zero_tol * self.C], ["held at 0", "at the cap"],
                       "under the cap")),
        ]  # fmt: skip
        label = np.where(y > 0, self.classes_[1], self.classes_[0])
        return multiplier_frame(families, self._rows, label, f)


def kernel_matrix(X: Array, kernel: Kernel) -> tuple[Array, float | Array]:
    """Return the kernel matrix of samples, and an error bound of its entries."""
    gram = SampleGram(X, kernel).careful()
    with np.errstate(over="ignore", invalid="ignore"):
        K = gram.panel(None, np.float64).rows(np.arange(gram.n))
    if not np.isfinite(K).all():
        raise ValueError(
            "the kernel has values that are not finite on these samples: scale the features, or choose "
            f"another gamma than {kernel.gamma:g}"
        )
    error, sizes = gram.entry_error()
    return K, error * np.outer(sizes, sizes) if error else 0.0
