"""The generalisation bound of a fitted SVM, Sigma-SVM or Relative Margin Machine, for any kernel."""

import warnings
from typing import Any, Literal

import numpy as np

from formulations.error_bounds.margin_bounds import Landmarks, MarginBound, linear_bound, margin_bound
from polyopt.base.types import SamplesLike
from polyopt.linalg.kernels import MatrixGram, SampleGram, chunks, gram_matvec


def bound_of(
    machine: Any, delta: float, X_unlabelled: "SamplesLike | None", form: Literal["best", "F", "G", "H"]
) -> MarginBound:
    """Apply the theorem of :mod:`formulations.error_bounds.margin_bounds` to a fitted binary machine.

    With probability 1 − delta the theorem bounds the error by the mean ramp loss and the capacity of a class
    of machines: F of small weights, G or H of small outputs (mean square, maximum) at samples without labels,
    the landmarks.

    machine: a fitted :class:`~polyopt.margin.fit.HingeClassifier`.
    delta: probability that the bound fails.
    X_unlabelled: landmarks that were not used in the fit, or None: then only class F is possible.
    form: the class, or "best" for the smallest bound.
    """
    U = None if X_unlabelled is None else _landmarks(machine, X_unlabelled)
    # The theorem counts labelled samples; further ones, of weight 0, may be in the kernel expansion as well.
    labelled = machine._sample_weights > 0.0
    X, y = machine._X, machine._y[labelled]
    if machine.kernel == "linear":
        w, b = machine.coef_[0], float(machine.intercept_[0])
        return linear_bound(
            _floats(X[labelled]), y, w, b, None if U is None else _floats(U), delta, form=form
        )
    if machine.gamma == "scale" and machine.kernel in ("poly", "rbf", "sigmoid"):
        warnings.warn(
            "gamma='scale' was taken from the training data, but the bound is for a kernel that was chosen "
            f"without them: it holds for gamma={machine.gamma_:.6g} if that would have been chosen anyway",
            UserWarning,
            stacklevel=4,
        )
    gram = MatrixGram(X) if machine.kernel == "precomputed" else SampleGram(X, machine._kernel)
    coef, b = machine._v, float(machine.intercept_[0])  # f(x) = Σ coef_i k(x_i, x) + b
    # Scores without the intercept, and the sum of K_ii over the labelled samples.
    scores, trace = gram_matvec(gram, coef), float(gram.diagonal()[labelled].sum())
    landmarks = outputs = None
    if U is not None:  # the kernel between training samples and landmarks is summed block by block
        kernel = machine._kernel
        blocks = (kernel(X[part], U) for part in chunks(np.flatnonzero(labelled)))
        landmarks, outputs = Landmarks.from_blocks(kernel(U), blocks, trace), machine._binary_scores(U)
    norm = float(np.sqrt(max(float(coef @ scores), 0.0)))  # ‖w‖; rounding may make the square negative
    return margin_bound(
        scores[labelled] + b, y, norm=norm, b=b, trace=trace,
        landmarks=landmarks, outputs=outputs, delta=delta, form=form,
    )  # fmt: skip


def _landmarks(machine: Any, X_unlabelled: "SamplesLike") -> Any:
    """Return the unlabelled samples in double precision; raise ValueError if they cannot be scored."""
    if machine.kernel == "precomputed":
        raise ValueError(
            "X_unlabelled needs a kernel that can be computed between its samples, and kernel='precomputed' "
            "cannot be: leave it None, or give the kernel as a function"
        )
    try:
        return _floats(machine._scorable(X_unlabelled))
    except ValueError as error:
        raise ValueError(f"X_unlabelled: {error}") from error


def _floats(X: Any) -> Any:
    """Return samples in double precision."""
    return X.astype(np.float64, copy=False)
