"""The Sigma-SVM: a support vector machine whose regulariser includes the variance of the outputs.

In the SVM's program, w'((1-D) I + D Σ)w takes the place of ‖w‖², with the covariance Σ of the samples. A
linear machine is solved in this form by solver="interior-point" or, with at most as many features as samples,
by solver="exact". In all other cases it is solved as a support vector machine with the centred kernel
(x - μ)' ((1-D) I + D Σ)⁻¹ (z - μ), in which x stands for φ(x) (:mod:`formulations.centred_kernel`).
"""

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from formulations.families import Families
from polyopt.estimators.parameters import estimator, shared
from polyopt.estimators.status import warn
from polyopt.linalg.kernels import Gram, MatrixGram
from polyopt.margin.fit import HingeClassifier
from polyopt.margin.geometry import SigmaKernelGeometry, SigmaLinearGeometry

if TYPE_CHECKING:
    from formulations.centred_kernel import CentredKernel
    from formulations.language.program import Program


@estimator
class SigmaSVM(HingeClassifier):
    """Sigma-SVM: a support vector machine that also keeps the variance of its outputs small.

    Minimises ``(1-D)/2 ||w||² + D/2 w'Σw + C Σ ξ_i`` subject to ``y_i (w'(x_i - μ) + b) >= 1 - ξ_i``
    with μ and Σ the mean and covariance of the training samples: eq. (3) of [1]_. The intercept is not
    penalised. (In [1]_, the kernel program has 1/(1-D) on one of its two terms only; here it is on both.)

    Parameters
    ----------
    D : float, default=0.5
        Share of the output variance in the regulariser, within [0, 1]. At D = 0 the machine is the SVM. At
        D = 1 a linear machine is invariant to affine maps of the data, but a machine with a kernel of full
        rank (RBF) fits any labels of the training samples, whatever the samples: use D < 1 with such kernels.

    References
    ----------
    .. [1] Shivaswamy & Jebara, Relative Margin Machines, 2008.

    Examples
    --------
    >>> from polyopt import SigmaSVM, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = SigmaSVM(C=10.0, D=0.9).fit(data.X, data.y)
    >>> print(f"{machine.score(data.X, data.y):.2f}")
    1.00
    >>> machine.certificate(tol=1e-3).is_optimal
    True
    """

    D: float = 0.5

    _title = "the Sigma-SVM"
    _centred: "CentredKernel | None" = field(init=False, default=None)  # set by `_solver_gram`
    _is_pairwise = False  # an entry of the centred kernel depends on all samples, not on its two alone
    _parameter_constraints = HingeClassifier._parameter_constraints | shared("D")

    @property
    def _variance_share(self) -> float:  # type: ignore[override]
        return float(self.D)

    # The dual is the base's: with the centred kernel the Sigma-SVM is a support vector machine.
    def _primal_program(self, X: Any, rows: Families, weights: NDArray[Any]) -> "Program":
        from formulations import sigma_svm

        return sigma_svm.primal(X, rows["margin"].side, rows["margin"].cap, self.D, weights)

    def _solver_gram(self, gram: Gram) -> Gram:
        from formulations.centred_kernel import CentredKernel

        gram = super()._solver_gram(gram)
        all_columns = gram.panel(None, np.float64)  # the kernel matrix, in double precision
        self._centred = CentredKernel(all_columns.rows(np.arange(gram.n)), self._sample_weights)
        if (
            self.kernel != "linear"
            and self._variance_share == 1.0
            and (self.kernel == "rbf" or self._centred.is_degenerate())  # rank n − 1 once centred
        ):
            warn(
                self, "at D=1 and a kernel of full rank the machine interpolates the labels whatever "
                "the data; choose D < 1", UserWarning,
            )  # fmt: skip
        return MatrixGram(self._centred.gram(self._variance_share))

    def _feature_space(self) -> Any:
        if self.kernel == "linear":
            return SigmaLinearGeometry(self._X, self._variance_share, self._sample_weights)
        gram = self._kernel_gram()
        if self._centred is None:
            self._solver_gram(gram)  # sets `_centred`
        assert self._centred is not None
        return SigmaKernelGeometry(
            gram, self._variance_share, self._sample_weights, self._centred.factors,
            psd_defect=self._short,  # magnitude of the Gram matrix's most negative eigenvalue
        )  # fmt: skip
