"""Kernels as functions of two matrices, and Gram matrices by blocks: of samples, or there as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from formulations.language.arguments import refuse_masked
from formulations.language.types import dense
from polyopt.linalg.kernels.operands import KernelFunction, KernelOperands
from polyopt.linalg.kernels.panels import FunctionPanel, SamplePanel
from polyopt.linalg.kernels.protocol import DENSE_ROWS, chunks
from polyopt.linalg.sparse_products import multiply_turned

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from formulations.language.types import Matrix, MatrixLike
    from polyopt.linalg.kernels.protocol import Gram, Panel, Samples, Vector

__all__ = ["Kernel", "MatrixGram", "SampleGram", "as_gram"]


class Kernel(KernelFunction):
    """A kernel function.

    Attributes
    ----------
    name : {"linear", "poly", "rbf", "sigmoid"} or callable
        Its name, or a function of two sample matrices (a, m) and (z, m) that gives (a, z).
    gamma, degree, coef0
        As in scikit-learn, gamma > 0; a kernel that has no use for one ignores it.

    Raises
    ------
    ValueError
        A name or a number that is none of these.
    """

    def __call__(self, A: MatrixLike, Z: MatrixLike | None = None) -> Vector:
        """Kernel between the rows of A and of Z (of A and A by default), dense float64."""
        if callable(self.name):
            return self._of_function(A, A if Z is None else Z)
        return SampleGram(A if Z is None else Z, self).cross(A)

    def _of_function(self, A: Any, Z: Any) -> Vector:
        """Return the values of a kernel that is a function, dense and checked."""
        assert callable(self.name)
        given = self.name(A, Z)
        refuse_masked("the kernel's matrix", given)
        values = dense(given)
        shape, is_numeric = (A.shape[0], Z.shape[0]), values.dtype.kind in "biuf"
        if values.shape != shape or not is_numeric or not np.isfinite(values).all():
            name = getattr(self.name, "__name__", type(self.name).__name__)
            found = f"shape {values.shape}" if is_numeric else f"{type(given).__name__} of {values.dtype}"
            found = found if values.shape != shape or not is_numeric else "NaN or infinite values"
            raise ValueError(
                f"the kernel {name} must return finite real numbers of shape {shape} (rows of its first "
                f"argument by rows of its second), not {found}"
            )
        return values.astype(float, copy=False)


class SampleGram(KernelOperands):
    """The Gram matrix of samples under a named kernel.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    kernel : Kernel
        The kernel.
    centre : ndarray of shape (m,), optional
        What to take from dense samples first. The RBF kernel takes their mean by itself.
    """

    kernel: Kernel

    def part(self, samples: Samples) -> SampleGram:
        """The same for some of the samples, as others see it: far from the middle by the same kernel."""
        centre = None if self.is_sparse or self.kernel.name == "rbf" else self._middle
        found = SampleGram(self.X[samples], self.kernel, centre)
        found._careful = self._careful
        return found

    def diagonal(self) -> Vector:
        if callable(self.kernel.name):
            parts = chunks(np.arange(self.n), DENSE_ROWS)
            return np.concatenate([self.kernel(self.X[part].astype(float)).diagonal() for part in parts])
        if self.kernel.name == "rbf":
            return np.ones(self.n)
        argument = self.square_norms(self.X)
        if self.kernel.name != "linear":
            argument = self.kernel.gamma * argument + self.kernel.coef0
        return self.kernel.finish(argument)

    def is_single(self) -> bool:
        if self.kernel.name == "rbf":
            return len(self.far_out) <= 0.02 * self.n  # their rows are computed by differences
        return float(np.abs(self.diagonal()).max()) < 1e30

    def entry_error(self) -> tuple[float, Vector]:
        """As the protocol says. What a callable gives counts as exact, with sizes by its largest value."""
        name, unit = self.kernel.name, np.finfo(float).eps
        # Two sparse rows differ in as many features as both have entries, at most.
        terms = ((2 if self.is_sparse else 1) * self.terms() + 8) * unit
        if callable(name):
            return 0.0, np.full(self.n, np.inf)
        if name == "rbf":
            careful = self._careful or self.loses_digits()
            # The exponent -t is off by its own share, and t exp(-t) is at most 1/e.
            error = terms if careful else self._exponent_error(self._squares)
            return error + 8 * unit, self.sizes(self._squares)
        return self.product_error(self.terms(), unit), self.sizes(self.square_norms(self.X))

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> Panel:
        every = np.arange(self.n) if columns is None else columns
        if callable(self.kernel.name):
            right = self.X[every].astype(float)
            return FunctionPanel(lambda rows: self.kernel(self.X[rows].astype(float), right), np.dtype(dtype))
        if self.kernel.name == "rbf":
            single = np.dtype(dtype) == np.float32 and self.is_single()
            if not single and (self._careful or self.loses_digits()):
                exponents = self.differences_from(every)
                return FunctionPanel(
                    lambda rows: self.kernel.finish(exponents(self.X, rows)), np.dtype(dtype)
                )
        return SamplePanel(self, every, np.dtype(dtype))

    def cross(self, Z: Matrix) -> Vector:
        """``k(z, x)`` for other points z and these samples x, float64.

        Parameters
        ----------
        Z : ndarray or CSR of shape (t, m)
            The points.

        Returns
        -------
        ndarray of shape (t, n)
        """
        if callable(self.kernel.name):
            return self.kernel(Z, self.X)
        Z = self.alike(Z)
        every, points = np.arange(self.n), np.arange(Z.shape[0])
        squares = self.square_norms(Z) if self.kernel.name == "rbf" else np.zeros(0)
        if self.needs_differences(squares, Z).any():
            return self.kernel.finish(self.differences(Z, points, every))
        right = self.operand(every, np.dtype(float), left=False)
        K = np.empty((len(points), self.n))
        for part in chunks(points):
            left = self.operand(part, np.dtype(float), left=True, of=(Z, squares))
            if self.is_sparse:
                multiply_turned(right, left, K[part[0] : part[-1] + 1])
            else:
                K[part] = left @ right.T
        return self.kernel.finish(K)


class MatrixGram:
    """A Gram matrix that is there as a whole.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric positive semidefinite matrix.

    Raises
    ------
    ValueError
        K is not square.
    """

    def __init__(self, K: MatrixLike):
        self.K = np.asarray(dense(K), dtype=float)
        if self.K.ndim != 2 or self.K.shape[0] != self.K.shape[1]:
            raise ValueError(f"the Gram matrix must be square, not of shape {self.K.shape}")
        self.n, self.width = len(self.K), 1

    def diagonal(self) -> Vector:
        return self.K.diagonal()

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> Panel:
        def block(samples: Samples) -> Vector:
            return self.K[samples] if columns is None else self.K[np.ix_(samples, columns)]

        return FunctionPanel(block, np.dtype(dtype))

    def is_single(self) -> bool:
        return float(np.abs(self.K.diagonal()).max()) < 1e30

    def entry_error(self) -> tuple[float, Vector]:
        """The matrix is what it is: no error; sizes by its largest entry."""
        return 0.0, np.full(self.n, float(np.sqrt(np.abs(self.K).max(initial=0.0))))


def as_gram(K: Gram | MatrixLike) -> Gram:
    """A Gram matrix served by blocks, as it is; a square array as a :class:`MatrixGram`."""
    return cast("Gram", K) if hasattr(K, "panel") else MatrixGram(K)
