"""The one-norm support vector machine: its dual, and what its norm is no bound on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formulations import one_norm
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, generator, rbf

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Pair

__all__ = ["CHECKS"]

CHECKS = Registry("one_norm")


@CHECKS.add("X01", 1e-7)
def one_norm_duality(seed: int) -> Pair:
    """One-norm SVM: its value = max 1'u − C Σ [y_j(K'Yu)_j − 1]_+, for a kernel that is not symmetric.

    It is the transpose of K that stands in the dual.

    Source: Mannor, Peleg & Rubinstein, slides; the dual is derived.
    """
    X, y, C = blobs(seed)
    K = rbf(X) + 0.1 * generator(seed).normal(size=(len(y), len(y)))
    return one_norm.primal(K, y, C).solve().objective, one_norm.dual(K, y, C).solve().objective


@CHECKS.add("N11", 1e-3, "<")
def no_bound_on_the_norm(seed: int) -> Pair:
    """One-norm SVM: ‖α‖₁ may be below ‖α‖₀, so it is no upper bound on it, as the slides say it is.

    Source: Mannor, Peleg & Rubinstein, slides.
    """
    X, y, _ = blobs(seed)
    alpha = one_norm.primal(rbf(X), y, 1.0).solve()["alpha"]
    return alpha.sum(), (alpha > 1e-9).sum()
