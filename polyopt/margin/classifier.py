"""The kernel classifiers' common body: SVM, Sigma-SVM and Relative Margin Machines are one program.

A subclass names its program (primal for linear features, dual for a Gram matrix), its families of rows and
its Sigma share D; everything else, from kernels to certificates, is here and in
:mod:`polyopt.margin.fit`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from polyopt.estimators.multiplier_frame import multiplier_frame
from polyopt.estimators.parameters import estimator, shared
from polyopt.linalg.kernels import chunks
from polyopt.margin.fit import HingeFit
from polyopt.margin.kernel_classifier import KERNEL_PARAMETERS

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from formulations.margin_bounds import MarginBound
    from polyopt.base.onnx_graph import Graph
    from polyopt.base.types import ClassWeight, SamplesLike
    from polyopt.certificates.certificate import Certificate
    from polyopt.estimators.multiplier_frame import RowsShown

__all__ = ["HingeClassifier"]

_MAX_OFFSET = 1e3  # centre times weights up to which samples are scored as they are, without centring


@estimator
class HingeClassifier(HingeFit):
    """Base of the machines of families of rows.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack; positive.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        Kernel, as in scikit-learn; it must be positive semidefinite on the training data.
    solver : {"auto", "exact", "decomposition", "interior-point"}, default="auto"
        "decomposition" solves the dual by working sets, for any kernel; "interior-point" the primal
        of a linear machine, best where there are many more samples than features; "exact" the explicit
        program of the machine in ``formulations`` by a general solver. "auto" takes the interior point for a
        linear machine of up to 2,000 features and at least as many samples, else decomposition;
        ``solver_`` says which.
    tol : float, default=1e-3
        Largest violation of the optimality conditions that decomposition leaves, in units of the
        outputs; the relative duality gap is then within ten times `tol` (at most 0.1). "auto" asks for
        1e-8 at most for up to 2,000 samples; the other solvers always do. A run that ends short warns.
    max_iter : int, optional
        Iterations of the solver at most (working sets and Newton steps of "decomposition"), as ``n_iter_``
        counts them; the point reached is kept.
    time_limit : float, optional
        Seconds for the whole fit, shared by the pairs of classes; the point reached is kept.
        "exact" looks at the clock only between its iterations. With a kernel
        and thousands of samples one iteration takes minutes, and so does building the program.
    cache_size : float, default=500.0
        Megabytes that decomposition may use for kernel rows and for Newton's method.
    warm_start : bool, default=False
        Whether decomposition starts from the last fit's multipliers, if it was of the same samples:
        with other costs or bounds it then ends sooner, at the same solution within `tol`.
    verbose : bool or int, default=False
        Whether to print the progress of long runs, a line a second, on standard error.

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

    _answers_by: ClassVar[tuple[str, ...]] = (*HingeFit._answers_by, "coef_", "_centre", "_b")

    # -- answering ---------------------------------------------------------------------------

    def _binary_scores(self, X: Any) -> NDArray[Any]:
        if self.kernel == "linear":
            w, centre = self.coef_[0], self._centre
            if sp.issparse(X) or np.abs(centre) @ np.abs(w) < _MAX_OFFSET:
                return np.asarray(X @ w).ravel() + self.intercept_[0]
            parts = [(X[part] - centre) @ w for part in chunks(np.arange(X.shape[0]))]
            return np.concatenate([np.zeros(0), *parts]) + self._b
        return self._kernel_scores(X)

    def _draw_scores(self, graph: Graph, x: str) -> str:
        if self.kernel != "linear":
            return super()._draw_scores(graph, x)
        w, centre = self.coef_, self._centre
        if np.abs(centre) @ np.abs(w[0]) < _MAX_OFFSET:
            return graph.affine(x, w, self.intercept_)
        return graph.affine(graph.op("Sub", x, graph.constant(centre)), w, [self._b])

    def _support(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        coef = vars(self).get("_v")
        if coef is None:  # files of earlier versions have the expansion there
            coef = self.dual_coef_[0]
        if not self.holds_data:
            return self._used, coef
        used = np.flatnonzero(coef)
        return used, coef[used]

    def _drop_data(self, whole: Self) -> None:
        super()._drop_data(whole)
        whole = whole._as_fitted()
        if whole.kernel != "linear":
            self._v = whole._support()[1]

    def _binary_certificate(self, tol: float) -> Certificate:
        return self._certify(self._feature_space(), tol)

    def generalization_bound(
        self,
        delta: float = 0.05,
        X_unlabelled: SamplesLike | None = None,
        form: Literal["best", "F", "G", "H"] = "best",
    ) -> MarginBound:
        """A bound on the error, by the theorem of :mod:`formulations.margin_bounds` (two classes).

        Parameters
        ----------
        delta : float
            The bound holds with a probability of 1 - delta over the draw of the training data, for features
            and a kernel that were chosen without them. Each sample counts once, whatever its weight.
        X_unlabelled : array_like or CSR matrix of shape (t, m), optional
            Further samples, independent of the training data; no labels are needed. Small outputs there,
            which is what the Relative Margin Machine strives for, make the bound better.
        form : {"best", "F", "G", "H"}
            What holds the machine in its class: "F" its weights alone, "G" also its outputs at
            `X_unlabelled` on the average, "H" also each of them. "best" is the least bound of all three, and
            "F" where there is no `X_unlabelled`: the training data cannot stand in for it, as the class
            must be fixed before they are seen.

        Returns
        -------
        MarginBound
            Term by term; ``print`` shows it.

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
        f, small = self.outputs_, 1e-6 * float(self._costs.max())
        shown: list[RowsShown] = []
        there: list[NDArray[np.bool_]] = []
        for family in self.families_:
            there += [family.cap > 0.0] * (2 if family.slack else 1)
            mu, room = self.multipliers_[family.name], family.room(f)
            slack = np.maximum(0.0, -room) if family.slack else np.zeros(len(f))
            idle, between, full = family.states
            state = np.where(mu <= small, idle, np.where(mu >= family.cap - small, full, between))
            shown.append((family.name, family.letter, mu, room + slack, state))
            if family.slack:
                used = np.where(slack > 1e-6, "slack in use", "no slack")
                shown.append((*family.slack, family.cap - mu, slack, used))
        label = np.where(self._y > 0, self.classes_[1], self.classes_[0])
        unknown = self._sample_weights == 0.0
        if not unknown.any():
            return multiplier_frame(shown, self._rows, label, f)
        label = label.astype(object)
        label[unknown] = None
        frame = multiplier_frame(shown, self._rows, label, f)
        return frame[np.concatenate(there)].reset_index(drop=True)
