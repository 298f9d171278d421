"""Kernel linear discriminant analysis, a baseline: for the papers' tables; not advertised as more."""

from __future__ import annotations

from itertools import combinations
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted, validate_data

from benchmarks.baselines.labels import LargestScore, coded_labels
from polyopt.kernels import Kernel, MatrixGram, require_psd

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike, Vector

__all__ = ["KernelLDA", "fisher_direction"]


class KernelLDA(LargestScore, ClassifierMixin, BaseEstimator):
    """Kernel LDA: for the papers' tables; not advertised as more.

    Two classes are told apart by ``f(x) = Σ_i α_i k(x_i, x) + b``. With the class means
    ``m_c = K_c 1/n_c`` and ``N = Σ_c K_c (I − 11'/n_c) K_c'`` (K_c: the columns of class c), there are
    two regularisations in use, and papers seldom say which they took:

    - "ridge": ``S_w + εI`` in feature space, ``α = (N + εK)⁻¹ (m₊ − m₋)``. It is found from
      ``(H K + εI) α = δ``, which has one solution even where K is singular; H centres each class and
      ``δ_i = ±1/n_c``.
    - "mika": ``α = (N + εI)⁻¹ (m₊ − m₋)``, as [1]_ is usually coded.

    The intercept puts the boundary half-way between the projected class means. More than two classes
    are told apart by pairs. Fitting takes the whole Gram matrix, and time with the cube of the samples.

    Parameters
    ----------
    eps : float, default=1e-3
        ε, positive; in units of the scatter, which grows with the number of samples.
    regularization : {"ridge", "mika"}, default="ridge"
        Which matrix ε is added to.
    kernel, gamma, degree, coef0
        Kernel and its numbers, as in :class:`~polyopt.SVM`, "rbf" by default; positive semidefinite on the
        training data.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    dual_coef_ : ndarray of shape (n_pairs, n)
        α of each pair of classes, pairs in the order of ``itertools.combinations``; the later class of
        a pair is positive, and samples of other classes have zeros.
    intercept_ : ndarray of shape (n_pairs,)
        b of each pair.

    References
    ----------
    .. [1] Mika, Rätsch, Weston, Schölkopf & Müller, Fisher Discriminant Analysis with Kernels, 1999.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "eps": [Interval(Real, 0, None, closed="neither")],
        "regularization": [StrOptions({"ridge", "mika"})],
        "kernel": [StrOptions({"linear", "poly", "rbf", "sigmoid", "precomputed"}), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
    }

    def __init__(
        self,
        eps: float = 1e-3,
        *,
        regularization: str = "ridge",
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
    ):
        self.eps = eps
        self.regularization = regularization
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def fit(self, X: MatrixLike, y: ArrayLike) -> Self:
        """Fit the classifier to samples (n, m), or a Gram matrix (n, n), and labels of two or more classes.

        ValueError where a parameter is out of its range, data are not finite or of one class only, or a Gram
        matrix is not positive semidefinite.
        """
        self._validate_params()
        X, y = validate_data(self, X, y, dtype=np.float64, copy=True)
        self.classes_, codes = coded_labels(y, type(self).__name__)
        self._X = None if self.kernel == "precomputed" else X
        self._kernel = Kernel(
            "linear" if self.kernel == "precomputed" else self.kernel,
            self._gamma_of(X), self.degree, self.coef0,
        )  # fmt: skip
        K = X if self._X is None else self._kernel(X)
        if self._X is None or not self._kernel.is_mercer:
            require_psd(MatrixGram(K))
        pairs = list(combinations(range(len(self.classes_)), 2))
        self.dual_coef_, self.intercept_ = np.zeros((len(pairs), len(K))), np.zeros(len(pairs))
        for pair, (first, second) in enumerate(pairs):
            rows = np.flatnonzero((codes == first) | (codes == second))
            alpha, b = fisher_direction(
                K[np.ix_(rows, rows)], codes[rows] == second, self.eps, self.regularization
            )
            self.dual_coef_[pair, rows], self.intercept_[pair] = alpha, b
        return self

    def _gamma_of(self, X: Vector) -> float:
        if self.gamma not in ("scale", "auto"):
            return float(self.gamma)
        spread = float(X.var()) if self.gamma == "scale" else 1.0
        return 1.0 / (X.shape[1] * spread) if spread > 0.0 else 1.0

    def decision_function(self, X: MatrixLike) -> NDArray[Any]:
        """Scores of samples (t, m), or of their kernel (t, n) with the training samples if precomputed.

        Of two classes (t,), positive for ``classes_[1]``; of more (t, n_classes), the votes of the pairs,
        ties broken by the sum of their scores.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        K = X if self._X is None else self._kernel(X, self._X)
        scores = K @ self.dual_coef_.T + self.intercept_
        if len(self.classes_) == 2:
            return scores[:, 0]
        return _ovr_decision_function(scores > 0, scores, len(self.classes_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def fisher_direction(
    K: Vector, positive: NDArray[np.bool_], eps: float, regularization: str
) -> tuple[Vector, float]:
    """The discriminant of two classes: expansion coefficients, shape (n,), and intercept.

    `regularization` is as in :class:`KernelLDA`.
    """
    members = np.column_stack([~positive, positive]).astype(float)
    means = members / members.sum(axis=0)  # (n, 2): K means are m₋ and m₊
    centred = K - members @ (means.T @ K)  # H K
    delta = means[:, 1] - means[:, 0]
    if regularization == "ridge":
        alpha = np.linalg.solve(centred + eps * np.eye(len(K)), delta)
    else:
        # H is a projection: K H K = (H K)'(H K), symmetric to the last digit.
        alpha = np.linalg.solve(centred.T @ centred + eps * np.eye(len(K)), K @ delta)
    return alpha, float(-0.5 * alpha @ K @ means.sum(axis=1))
