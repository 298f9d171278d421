"""The Sigma-SVM: its two ends, its kernel, its invariance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations import sigma_svm, svm
from formulations.centred_kernel import CentredKernel
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, generator, rbf, unbalanced

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("sigma_svm")

_SHARES = (0.7, 0.2, 0.95)  # D, one for each seed


def _share(seed: int) -> float:
    return _SHARES[seed % len(_SHARES)]


@CHECKS.add("T06", 1e-5)
def no_spread(seed: int) -> Pair:
    """Sigma-SVM at D = 0: w = w_svm, b = b_svm + w'μ.

    Source: Shivaswamy & Jebara (2008), eq. (1), (3).
    """
    X, y, C = blobs(seed)
    plain, here = svm.primal(X, y, C).solve(), sigma_svm.primal(X, y, C, 0.0).solve()
    b = plain["b"] + plain["w"] @ X.mean(axis=0)
    return np.append(here["w"], here["b"]), np.append(plain["w"], b)


@CHECKS.add("T07", 1e-7)
def strong_duality(seed: int) -> Pair:
    """Sigma-SVM: value of the primal (3) = value of the dual (4) = value of its kernelised form.

    Source: Shivaswamy & Jebara (2008), eq. (3), (4).
    """
    X, y, C = blobs(seed)
    D = _share(seed)
    duals = sigma_svm.dual(X, y, C, D), sigma_svm.kernel_dual(X @ X.T, y, C, D)
    return [dual.solve().objective for dual in duals], sigma_svm.primal(X, y, C, D).solve().objective


@CHECKS.add("T08", 1e-5)
def outputs_of_new_samples(seed: int) -> Pair:
    """Sigma-SVM: outputs of new samples by the kernel = those by w.

    Source: Shivaswamy & Jebara (2008), the kernelised form after eq. (4).
    """
    X, y, C = blobs(seed)
    D, new = _share(seed), generator(seed).normal(size=(6, X.shape[1]))
    primal, dual = sigma_svm.primal(X, y, C, D).solve(), sigma_svm.kernel_dual(X @ X.T, y, C, D).solve()
    by_kernel = CentredKernel(X @ X.T).cross(new @ X.T, D) @ (dual["alpha"] * y) + dual.duals["b"]
    return by_kernel, (new - X.mean(axis=0)) @ primal["w"] + primal["b"]


@CHECKS.add("T09", 1e-5)
def affine_invariance(seed: int) -> Pair:
    """Sigma-SVM at D = 1: outputs are invariant under x → Ax + c.

    Source: Shivaswamy & Jebara (2008), eq. (3).
    """
    X, y, C = blobs(seed)
    drawn = generator(seed)
    mapped = X @ (drawn.normal(size=(3, 3)) + 2.0 * np.eye(3)).T + drawn.normal(size=3)

    def outputs(Z: Vector) -> Vector:
        point = sigma_svm.primal(Z, y, C, 1.0).solve()
        return np.asarray((Z - Z.mean(axis=0)) @ point["w"] + point["b"])

    return outputs(mapped), outputs(X)


@CHECKS.add("T10a", 1e-5)
def interpolation(seed: int) -> Pair:
    """Sigma-SVM at D = 1 with a kernel of full rank: α_i = 2 n_other/n², whatever the data.

    It holds for C at or above that.

    Source: Shivaswamy & Jebara (2008), eq. (4); derived.
    """
    X, y = unbalanced(seed)
    others = np.where(y > 0, (y < 0).sum(), (y > 0).sum())
    alpha = sigma_svm.kernel_dual(rbf(X), y, 1.0, 1.0).solve()["alpha"]
    return alpha, 2.0 * others / len(y) ** 2


@CHECKS.add("T10b", 1e-5)
def interpolated_labels(seed: int) -> Pair:
    """Sigma-SVM at D = 1 with a kernel of full rank: f(x_i) = y_i, and b = (n₊ − n₋)/n.

    Source: Shivaswamy & Jebara (2008), eq. (4); derived.
    """
    X, y = unbalanced(seed)
    K = rbf(X)
    found = sigma_svm.kernel_dual(K, y, 1.0, 1.0).solve()
    b = found.duals["b"]
    outputs = CentredKernel(K).gram(1.0) @ (found["alpha"] * y) + b
    return np.append(outputs, b), np.append(y, y.mean())


def _pieces(seed: int) -> tuple[Vector, float, Vector, Vector, int]:
    """K, D, the centred Gram matrix, its rows (K_i − K1/n) and n."""
    X, _, _ = blobs(seed)
    K, D, n = rbf(X), _share(seed), len(X)
    H = np.eye(n) - 1.0 / n
    return K, D, H @ K @ H, K - K.mean(axis=1)[:, None], n


@CHECKS.add("T11a", 1e-8)
def kernel_by_one_inverse(seed: int) -> Pair:
    """Sigma-SVM's kernel V diag(κ/((1−D) + Dκ/n)) V' = (n/D) Kc (cI + Kc)⁻¹, c = n(1−D)/D.

    Source: Shivaswamy & Jebara (2008), the kernelised form after eq. (4); derived.
    """
    K, D, centred, _, n = _pieces(seed)
    inverse = np.linalg.inv(n * (1.0 - D) / D * np.eye(n) + centred)
    return CentredKernel(K).gram(D), n / D * centred @ inverse


def _printed(seed: int, *, nested: bool) -> Vector:
    K, D, centred, rows, n = _pieces(seed)
    G = np.eye(n) / n - 1.0 / n**2
    second = rows.T @ G @ np.linalg.inv((1.0 - D) / D * np.eye(n) + K @ G) @ rows
    return (centred - second / (1.0 - D if nested else 1.0)) / (1.0 - D)


@CHECKS.add("T11b", 1e-8)
def kernel_as_printed(seed: int) -> Pair:
    """Sigma-SVM's kernel = the printed form, its factor 1/(1−D) read as one over both terms.

    Source: Shivaswamy & Jebara (2008), the kernelised form after eq. (4).
    """
    K, D, *_ = _pieces(seed)
    return CentredKernel(K).gram(D), _printed(seed, nested=False)


@CHECKS.add("N02", 1e-3, ">")
def kernel_misread(seed: int) -> Pair:
    """Sigma-SVM's kernel: the printed form read with a second 1/(1−D) in the second term is another matrix.

    What is compared with 0 is the relative distance.

    Source: Shivaswamy & Jebara (2008), the kernelised form after eq. (4).
    """
    K, D, *_ = _pieces(seed)
    right = CentredKernel(K).gram(D)
    return np.linalg.norm(_printed(seed, nested=True) - right) / np.linalg.norm(right), 0.0


@CHECKS.add("X03", 1e-5)
def whitening(seed: int) -> Pair:
    """Sigma-SVM at 0 < D < 1 = SVM on z = ((1−D)I + DΣ)^(−½)(x − μ): the outputs are the same.

    Source: Shivaswamy & Jebara (2008), eq. (3), by substitution.
    """
    X, y, C = blobs(seed)
    D, centred = _share(seed), X - X.mean(axis=0)
    values, vectors = np.linalg.eigh((1.0 - D) * np.eye(3) + D * centred.T @ centred / len(X))
    Z = centred @ (vectors / np.sqrt(values)) @ vectors.T
    here, plain = sigma_svm.primal(X, y, C, D).solve(), svm.primal(Z, y, C).solve()
    return centred @ here["w"] + here["b"], Z @ plain["w"] + plain["b"]
