"""Arithmetic of the checker: 80-bit floats, kernels as their definitions read, and an error bound on each.

Every function that returns a value and an error means: the real number is within the error of the value. The
errors are the usual a-priori ones, (number of operations) times eps times the sum of the terms' sizes, and
generous rather than tight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "EPS",
    "LD",
    "best_intercept",
    "centred",
    "cholesky",
    "factor",
    "is_extended",
    "kernel_matrix",
    "need_extended",
    "product",
    "solve_triangular",
]

LD = np.longdouble
EPS = LD(np.finfo(LD).eps)


def is_extended() -> bool:
    """Whether this machine's long double has more digits than its double."""
    return bool(EPS < 1e-18)


def need_extended() -> None:
    """Refuse to check where long double is double."""
    if not is_extended():
        raise RuntimeError(
            "the campaign's checker computes in 80-bit floats (numpy.longdouble), and on this machine that "
            f"type has no more digits than a double (eps {float(EPS):.2g}): run it on x86-64 Linux"
        )


def product(A: Array, B: Array) -> tuple[Array, Array]:
    """``A @ B`` and its error, in 80 bits."""
    A, B = np.asarray(A, dtype=LD), np.asarray(B, dtype=LD)
    return A @ B, (A.shape[-1] + 2) * EPS * (abs(A) @ abs(B))


def kernel_matrix(
    X: Array, name: str | Callable[..., Any], gamma: float = 1.0, degree: int = 3, coef0: float = 0.0
) -> tuple[Array, Array]:
    """The Gram matrix K[i, j] = k(x_i, x_j) and the error of its entries, by the kernel's definition.

    For "precomputed" `X` is the matrix itself; the values of a kernel that is a function are taken as they
    are.
    """
    X = np.asarray(X, dtype=LD)
    if callable(name) or name == "precomputed":
        K = np.asarray(name(X.astype(float), X.astype(float)) if callable(name) else X, dtype=LD)
        return K, np.zeros_like(K)
    m = X.shape[1]
    if name == "rbf":
        squares = sum(
            ((X[:, None, j] - X[None, :, j]) ** 2 for j in range(m)), np.zeros((len(X), len(X)), LD)
        )
        exponent = LD(gamma) * squares
        K = np.exp(-exponent)
        return K, (8 + (m + 6) * exponent) * EPS * K
    K, error = product(X, X.T)
    if name == "linear":
        return K, error
    argument = LD(gamma) * K + LD(coef0)
    error = LD(gamma) * error + 4 * EPS * (abs(LD(gamma) * K) + abs(LD(coef0)))
    if name == "sigmoid":
        return np.tanh(argument), error + 4 * EPS
    largest = abs(argument) + error
    return argument ** int(degree), degree * largest ** (int(degree) - 1) * error + 4 * EPS * largest ** int(
        degree
    )


def centred(K: Array, weights: Array | None = None) -> Array:
    """The Gram matrix of the features less their (weighted) mean."""
    s = np.ones(len(K), LD) if weights is None else np.asarray(weights, dtype=LD)
    row = s @ K / s.sum()
    column = K @ s / s.sum()
    return K - row[None, :] - column[:, None] + (row @ s) / s.sum()


def best_intercept(g: Array, y: Array, costs: Array, B: float = np.inf) -> Any:
    """A b that minimises Σ C_i [1 − y_i (g_i + b)]_+, within −B − min g and B − max g."""
    order = np.argsort(y - g, kind="stable")
    slope = np.cumsum(costs[order]) - costs[y > 0].sum()
    b = (y - g)[order[min(int(np.searchsorted(slope, 0.0)), len(g) - 1)]]
    if np.isfinite(B):
        low, high = -LD(B) - g.min(), LD(B) - g.max()
        b = (low + high) / 2 if low > high else min(max(b, low), high)
    return b


def cholesky(A: Array) -> Array:
    """The lower factor of a positive definite matrix; a pivot that rounding made negative is made tiny.

    What is solved with it need not be exact: it only proposes points, which are evaluated afterwards.
    """
    L = np.array(A, dtype=LD)
    for k in range(len(L)):
        tiny = EPS * max(abs(A[k, k]), LD(1e-4000))
        L[k, k] = np.sqrt(max(L[k, k], tiny))
        L[k + 1 :, k] /= L[k, k]
        L[k + 1 :, k + 1 :] -= np.outer(L[k + 1 :, k], L[k + 1 :, k])
        L[k, k + 1 :] = 0
    return L


def solve_triangular(L: Array, R: Array) -> Array:
    """``(L L')^{-1} R``."""
    R = np.array(R, dtype=LD)
    for k in range(len(L)):
        R[k] = (R[k] - L[k, :k] @ R[:k]) / L[k, k]
    for k in range(len(L) - 1, -1, -1):
        R[k] = (R[k] - L[k + 1 :, k] @ R[k + 1 :]) / L[k, k]
    return R


def factor(K: Array) -> Array:
    """F (n, rank) with F F' = K but for rounding, by Cholesky's method with pivots."""
    rest, columns = np.array(K, dtype=LD), []
    floor = len(K) * EPS * abs(rest.diagonal()).max(initial=0)
    for _ in range(len(K)):
        k = int(rest.diagonal().argmax())
        if not rest[k, k] > floor:
            break
        column = rest[:, k] / np.sqrt(rest[k, k])
        rest -= np.outer(column, column)
        columns.append(column)
    return np.array(columns).T if columns else np.zeros((len(K), 1), LD)
