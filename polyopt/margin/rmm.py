"""The Relative Margin Machine: a support vector machine with a bound B on the absolute outputs.

The margin is thus large relative to the range of the outputs. The bounds can also hold at further samples,
whose labels need not be known, and they can have slack, at a cost. The machine is a
:class:`~polyopt.margin.fit.HingeClassifier` with three families of constraints (rows), one constraint per
sample: ``margin``, y_i f_i ≥ 1 − ξ_i; ``bound_above``, f_i ≤ B; and ``bound_below``, −f_i ≤ B. In the arrays
of a fit the further samples follow the training samples, with the weight 0.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.families import Families, append, bound_families, bounded_families, extend_multipliers
from formulations.language.arguments import positive
from polyopt.base.types import SamplesLike
from polyopt.estimators.collections import CollectionLike
from polyopt.estimators.parameters import checked_by, estimator, shared
from polyopt.estimators.validation import validated
from polyopt.margin.fit import HingeClassifier

if TYPE_CHECKING:
    from formulations.language.program import Program


@estimator
class RelativeMarginMachine(HingeClassifier):
    """Relative Margin Machine: a support vector machine whose outputs stay within ±B.

    Minimises ``½||w||² + C Σ ξ_i`` subject to ``y_i f_i >= 1 - ξ_i`` and ``|f_i| <= B`` at every
    training sample, ``f_i = w'x_i + b``: eq. (7) of [1]_. The intercept is not penalised. With ``X_bounded``,
    which :meth:`fit` takes, the bounds hold at further samples as well, whose labels need not be known; with
    ``bound_training=False`` at those alone, the class H of [1]_.

    With a finite ``bound_cost`` D the bounds have slack: minimises ``½||w||² + C Σ ξ_i + D Σ (τ_i + τ*_i)``
    subject to ``y_i f_i >= 1 - ξ_i``, ``f_i <= B + τ_i`` and ``-f_i <= B + τ*_i``, with all slacks at least
    0. A single outlier can determine the machine with hard bounds; with soft ones its influence is limited.

    Parameters
    ----------
    B : float, default=2.0
        Bound on the absolute output at every training sample, at least 1. If it is infinite, or above the
        SVM's largest absolute output, the machine is the SVM.
    bound_cost : float, default=inf
        Cost of a unit of output beyond B, times the sample's weight (1 for further samples); positive. It is
        an upper bound on the multipliers of the bounds: if it is infinite, or above all multipliers that hard
        bounds have, the bounds are hard.

    References
    ----------
    .. [1] Shivaswamy & Jebara, Relative Margin Machines, 2008; slack on the bounds is named in section 3.1,
       and not investigated.

    Examples
    --------
    >>> from polyopt import RelativeMarginMachine, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = RelativeMarginMachine(C=10.0, B=1.5).fit(data.X, data.y)
    >>> outputs = machine.decision_function(data.X)
    >>> print(f"{outputs.min():.2f} {outputs.max():.2f}")
    -1.50 1.50
    >>> machine.certificate(tol=1e-3).is_optimal
    True
    """

    B: float = 2.0
    _: KW_ONLY
    bound_cost: float = np.inf

    # Arguments of `fit`, stored while it runs.
    _bounded: Any = field(init=False, default=None)  # X_bounded
    _bounds_training: bool = field(init=False, default=True)  # bound_training
    _fit_inputs: ClassVar[tuple[str, ...]] = ("_bounded", "_bounds_training")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **HingeClassifier._parameter_constraints,
        **shared("B"),
        "bound_cost": checked_by("bound_cost", positive, infinite=True),
    }

    @property
    def _title(self) -> str:  # type: ignore[override]
        soft = " with slack on its bounds" if np.isfinite(self.bound_cost) else ""
        return f"the Relative Margin Machine{soft}"

    def fit(
        self, X: SamplesLike | CollectionLike, y: ArrayLike | CollectionLike | None = None,
        sample_weight: ArrayLike | CollectionLike | None = None,
        X_bounded: SamplesLike | None = None, bound_training: bool = True, **settings: Any,
    ) -> Self:  # fmt: skip
        """Fit the classifier.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`polyopt.SVM.fit`.
        X_bounded : array_like or sparse matrix of shape (k, m), optional
            Further samples, without labels, at which the bounds hold as well, such as those to be classified.
            With more than two classes, the machine of each pair has all further samples. In the results of
            the fit they are samples n, ..., n + k - 1. They do not enter ``gamma="scale"``.
        bound_training : bool
            True: the bounds hold at the training samples as well. False: only at those of `X_bounded`.
        **settings
            `executor`, `checkpoint` and `resume`, for samples in blocks, as in :meth:`polyopt.SVM.fit`.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ValueError
            A parameter out of its range, data that are not finite or do not fit, or fewer than two classes.
        """
        if not isinstance(bound_training, bool | np.bool_):
            raise ValueError(f"bound_training must be True or False, not {bound_training!r}")
        self._bounded, self._bounds_training = X_bounded, bool(bound_training)
        try:
            return super().fit(X, y, sample_weight, **settings)
        finally:
            del self._bounded, self._bounds_training

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        """Return the machine to be fitted to pairs of classes, whose samples include ``X_bounded``."""
        machine = super()._for_pairs(X, weights)
        machine._bounds_training = self._bounds_training
        return machine

    def _append_unlabelled(
        self, X: Any, codes: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any], n: int
    ) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the arguments with ``X_bounded`` appended: code -1 (no label), weight 0, rows from n."""
        if self._bounded is None:
            if not self._bounds_training:
                raise ValueError(
                    "bound_training=False leaves no sample within the bounds: give fit the samples "
                    "X_bounded, or take the support vector machine"
                )
            return X, codes, weights, rows
        if self.kernel == "precomputed":
            raise ValueError(
                "X_bounded needs a kernel that can be computed between its samples, and kernel='precomputed' "
                "cannot be: leave it None, or give the kernel as a function"
            )
        try:
            U = validated(
                self, self._bounded, accept_sparse=self._accept_sparse, dtype=self._dtypes, reset=False
            )
        except ValueError as error:
            raise ValueError(f"X_bounded: {error}") from error
        zeros, further_rows = np.zeros(U.shape[0]), np.arange(n, n + U.shape[0])
        codes = np.append(codes, zeros.astype(codes.dtype) - 1)
        return append(X, U), codes, np.append(weights, zeros), np.append(rows, further_rows)

    # -- the machine's programs --------------------------------------------------------------
    # rows: the constraints by family; "margin" has y as its side, the costs C_i of slack as its cap.

    def _families(self, y: NDArray[Any], weights: NDArray[Any]) -> Families:
        B, hard = float(self.B), np.isinf(self.bound_cost)
        bound_costs = np.inf if hard else self.bound_cost * np.where(weights > 0.0, weights, 1.0)
        if weights[-1] > 0.0:  # there are no further samples, which have the weight 0
            return Families(*super()._families(y, weights), *bound_families(len(y), B, bound_costs))
        n = int(np.count_nonzero(weights))
        return bounded_families(
            y[:n], self.C * weights[:n], B, len(y) - n, D=bound_costs, training=self._bounds_training
        )

    def _bounded_settings(self, rows: Families) -> tuple[int, dict[str, Any]]:
        """Return the number n of labelled samples, and the arguments C, B and D of a program with bounds."""
        margin, bound = rows["margin"], rows["bound_above"]
        n = int(np.count_nonzero(margin.cap))  # further samples have no margin: their cost is 0
        bound_costs = bound.cap[0 if self._bounds_training else n :] if bound.has_slack else None
        return n, {"C": margin.cap[:n], "B": self.B, "D": bound_costs}

    def _primal_program(self, X: Any, rows: Families, weights: NDArray[Any]) -> Program:
        from formulations import rmm, rmm_bounded

        if np.isinf(self.B):
            return super()._primal_program(X, rows, weights)
        y = rows["margin"].side
        n, settings = self._bounded_settings(rows)
        if n == len(y):
            return rmm.qp(X, y, **settings)
        return rmm_bounded.qp(X[:n], y[:n], X[n:], training=self._bounds_training, **settings)

    def _dual_program(self, K: NDArray[Any], rows: Families) -> Program:
        from formulations import rmm, rmm_bounded

        if np.isinf(self.B):
            return super()._dual_program(K, rows)
        y = rows["margin"].side
        n, settings = self._bounded_settings(rows)
        if n == len(y):
            return rmm.kernel_dual(K, y, **settings)
        return rmm_bounded.kernel_dual(K, y[:n], training=self._bounds_training, **settings)

    def _set_multipliers(self, vectors: dict[str, NDArray[Any]]) -> None:
        weights = self._sample_weights
        if weights[-1] == 0.0:  # there are further samples, whose missing constraints get multipliers 0
            vectors = extend_multipliers(vectors, int(np.count_nonzero(weights)), len(weights))
        super()._set_multipliers(vectors)
