"""The support vector machine and the Sigma-SVM: duals, invariances, intercepts, the kernel."""

import numpy as np

from formulations import sigma_svm, svm
from formulations.centred_kernel import CentredKernel
from formulations.families import hinge_families
from formulations.language.recovery import slacks
from formulations.language.toy_data import two_blobs
from polyopt.crosschecks.registry import RMM, Pairs, Registry, Vector
from polyopt.crosschecks.samples import blobs, generator, rbf

CHECKS = Registry("svm")


@CHECKS.add(RMM)
def _svm(seed: int) -> Pairs:
    """Compare the optimum of the SVM with its dual's, and with those of moved and scaled samples.

    The paper says after eq. (2) that the SVM is sensitive to translations; with the linear kernel it is not,
    as Σ α_i y_i = 0, but with others it is (N01).

    T01 | = 1e-7 | eq. (1), (2) | SVM: value of the primal (1) = value of the dual (2)
    T02 | = 1e-6 | stationarity and complementarity of eq. (1) | SVM: ‖w‖² = 1'α − C 1'ξ at the optimum
    T03 | = 1e-5 | eq. (2), corrected | Linear SVM, x → x + t: w is the same, b' = b − w't
    T04a | = 1e-5 | eq. (1), by substitution | SVM, (sX, C/s²): w' = w/s, b' = b
    T04b | = 1e-7 | eq. (1), by substitution | SVM, (sX, C/s²): the value is divided by s²
    T05a | = 1e-6 | the optimality conditions of eq. (1), solved for b | SVM: every b in [lo, hi] has the
        optimal objective
    """
    X, y, C = blobs(seed)
    program = svm.primal(X, y, C)
    point, dual = program.solve(), svm.dual(X, y, C).solve()
    w, b, alpha = point["w"], point["b"], dual["alpha"]
    yield point.objective, dual.objective
    yield w @ w, alpha.sum() - C * point["xi"].sum()
    t = 5.0 * generator(seed).normal(size=X.shape[1])
    moved, scaled = svm.primal(X + t, y, C).solve(), svm.primal(3.0 * X, y, C / 9.0).solve()
    yield np.append(moved["w"], moved["b"]), np.append(w, b - w @ t)
    yield np.append(scaled["w"], scaled["b"]), np.append(w / 3.0, b)
    yield scaled.objective, point.objective / 9.0
    ends = hinge_families(y, C).intercept_interval(X @ w, {"margin": alpha})
    values = [program.value({"w": w, "b": b, "xi": slacks(X @ w + b, y)}) for b in np.linspace(*ends, 3)]
    yield values, point.objective


@CHECKS.add(RMM)
def _without_a_free_vector(seed: int) -> Pairs:
    """Compare the interval of b with the one worked by hand: both multipliers are at C, so w = 0.2.

    T05b | = 1e-6 | eq. (2), worked by hand | SVM of x = −1, +1 at C = 0.1, where no support vector is free: b
        may be all of [−0.8, 0.8]
    """
    X, y, C = np.array([[-1.0], [1.0]]), np.array([-1.0, 1.0]), 0.1
    alpha = svm.dual(X, y, C).solve()["alpha"]
    yield hinge_families(y, C).intercept_interval(X @ (X.T @ (alpha * y)), {"margin": alpha}), (-0.8, 0.8)


@CHECKS.add(RMM)
def _translation_of_a_kernel(seed: int) -> Pairs:
    """Compare the values before and after a translation: the paper's sentence holds for some kernels.

    N01 | > 1e-3 | after eq. (2) | SVM with the kernel (x'z + 1)²: a translation does change the value
    """
    X, y, C = blobs(seed)
    t = generator(seed).normal(size=X.shape[1])
    value, moved = (svm.kernel_dual((Z @ Z.T + 1.0) ** 2, y, C).solve().objective for Z in (X, X + t))
    yield abs(value - moved) / value, 0.0


_SPREAD_WEIGHTS = (0.7, 0.2, 0.95)  # D, by seed


@CHECKS.add(RMM)
def _sigma(seed: int) -> Pairs:
    """Compare the Sigma-SVM with the SVM, its duals, and itself on mapped samples.

    T06 | = 1e-5 | eq. (1), (3) | Sigma-SVM at D = 0: w = w_svm, b = b_svm + w'μ
    T07 | = 1e-7 | eq. (3), (4) | Sigma-SVM: value of the primal (3) = value of the dual (4) = value of its
        kernelised form
    T08 | = 1e-5 | the kernelised form after eq. (4) | Sigma-SVM: outputs of new samples by the kernel = those
        by w
    T09 | = 1e-5 | eq. (3) | Sigma-SVM at D = 1: outputs are invariant under x → Ax + c
    """
    X, y, C = blobs(seed)
    D, rng = _SPREAD_WEIGHTS[seed % 3], generator(seed)
    plain, sigma = svm.primal(X, y, C).solve(), sigma_svm.primal(X, y, C, 0.0).solve()
    b = plain["b"] + plain["w"] @ X.mean(axis=0)
    yield np.append(sigma["w"], sigma["b"]), np.append(plain["w"], b)

    primal, dual = sigma_svm.primal(X, y, C, D).solve(), sigma_svm.kernel_dual(X @ X.T, y, C, D).solve()
    yield [sigma_svm.dual(X, y, C, D).solve().objective, dual.objective], primal.objective

    new = rng.normal(size=(6, X.shape[1]))
    by_kernel = CentredKernel(X @ X.T).cross(new @ X.T, D) @ (dual["alpha"] * y) + dual.duals["b"]
    yield by_kernel, (new - X.mean(axis=0)) @ primal["w"] + primal["b"]

    def outputs(Z: Vector) -> Vector:
        point = sigma_svm.primal(Z, y, C, 1.0).solve()
        return np.asarray((Z - Z.mean(axis=0)) @ point["w"] + point["b"])

    mapped = X @ (rng.normal(size=(3, 3)) + 2.0 * np.eye(3)).T + rng.normal(size=3)
    yield outputs(mapped), outputs(X)


@CHECKS.add(RMM)
def _interpolation(seed: int) -> Pairs:
    """Compare the solution on samples of which two thirds are positive, at a C above every multiplier.

    T10a | = 1e-5 | eq. (4); derived | Sigma-SVM at D = 1 with a kernel of full rank: α_i = 2 n_other/n²,
        whatever the data
    T10b | = 1e-5 | eq. (4); derived | Sigma-SVM at D = 1 with a kernel of full rank: f(x_i) = y_i, and
        b = (n₊ − n₋)/n
    """
    X, y = two_blobs(seed=seed)
    rows = np.sort(np.concatenate([np.flatnonzero(y > 0), np.flatnonzero(y < 0)[:10]]))
    y, K = y[rows], rbf(X[rows])
    solution = sigma_svm.kernel_dual(K, y, 1.0, 1.0).solve()
    alpha, b = solution["alpha"], solution.duals["b"]
    yield alpha, 2.0 * np.where(y > 0, (y < 0).sum(), (y > 0).sum()) / len(y) ** 2
    yield np.append(CentredKernel(K).gram(1.0) @ (alpha * y) + b, b), np.append(y, y.mean())


@CHECKS.add(RMM)
def _kernel(seed: int) -> Pairs:
    """Compare the Sigma-SVM's kernel with its other forms; the distance of N02 is relative.

    T11a | = 1e-8 | the kernelised form after eq. (4); derived | Sigma-SVM's kernel
        V diag(κ/((1−D) + Dκ/n)) V' = (n/D) Kc (cI + Kc)⁻¹, c = n(1−D)/D
    T11b | = 1e-8 | the kernelised form after eq. (4) | Sigma-SVM's kernel = the printed form, its factor
        1/(1−D) read as one over both terms
    N02 | > 1e-3 | the kernelised form after eq. (4) | Sigma-SVM's kernel: the printed form read with a second
        1/(1−D) in the second term is another matrix
    """
    X, _, _ = blobs(seed)
    K, D, n = rbf(X), _SPREAD_WEIGHTS[seed % 3], len(X)
    H, kernel = np.eye(n) - 1.0 / n, CentredKernel(K).gram(D)
    centred, rows = H @ K @ H, K - K.mean(axis=1)[:, None]
    yield kernel, n / D * centred @ np.linalg.inv(n * (1.0 - D) / D * np.eye(n) + centred)
    second = rows.T @ (H / n) @ np.linalg.inv((1.0 - D) / D * np.eye(n) + K @ (H / n)) @ rows
    yield kernel, (centred - second) / (1.0 - D)
    misread = (centred - second / (1.0 - D)) / (1.0 - D)
    yield np.linalg.norm(misread - kernel) / np.linalg.norm(kernel), 0.0
