"""The support vector machine and the Sigma-SVM: duals, invariances, intercepts, the kernel."""

import numpy as np

from formulations import sigma_svm, svm
from formulations.centred_kernel import CentredKernel
from formulations.families import hinge_families
from formulations.language.recovery import slacks
from formulations.language.toy_data import two_blobs
from polyopt.crosschecks.registry import RMM, Pair, Registry, Vector
from polyopt.crosschecks.samples import blobs, generator, rbf

CHECKS = Registry("svm")


@CHECKS.add("T01", f"{RMM}, eq. (1), (2)", 1e-7)
def strong_duality(seed: int) -> Pair:
    """SVM: value of the primal (1) = value of the dual (2)."""
    X, y, C = blobs(seed)
    return svm.primal(X, y, C).solve().objective, svm.dual(X, y, C).solve().objective


@CHECKS.add("T02", f"stationarity and complementarity of {RMM}, eq. (1)", 1e-6)
def norm_from_multipliers(seed: int) -> Pair:
    """SVM: ‖w‖² = 1'α − C 1'ξ at the optimum."""
    X, y, C = blobs(seed)
    point, alpha = svm.primal(X, y, C).solve(), svm.dual(X, y, C).solve()["alpha"]
    return point["w"] @ point["w"], alpha.sum() - C * point["xi"].sum()


@CHECKS.add("T03", f"{RMM}, eq. (2), corrected", 1e-5)
def translation(seed: int) -> Pair:
    """Linear SVM, x → x + t: w is the same, b' = b − w't.

    The paper says after eq. (2) that the SVM is sensitive to translations; with the linear kernel it is
    not, as Σ α_i y_i = 0.
    """
    X, y, C = blobs(seed)
    t = 5.0 * generator(seed).normal(size=X.shape[1])
    original, moved = svm.primal(X, y, C).solve(), svm.primal(X + t, y, C).solve()
    expected = np.append(original["w"], original["b"] - original["w"] @ t)
    return np.append(moved["w"], moved["b"]), expected


@CHECKS.add("T04a", f"{RMM}, eq. (1), by substitution", 1e-5)
def scaling(seed: int) -> Pair:
    """SVM, (sX, C/s²): w' = w/s, b' = b."""
    X, y, C = blobs(seed)
    original, scaled = svm.primal(X, y, C).solve(), svm.primal(3.0 * X, y, C / 9.0).solve()
    return np.append(scaled["w"], scaled["b"]), np.append(original["w"] / 3.0, original["b"])


@CHECKS.add("T04b", f"{RMM}, eq. (1), by substitution", 1e-7)
def scaling_of_the_value(seed: int) -> Pair:
    """SVM, (sX, C/s²): the value is divided by s²."""
    X, y, C = blobs(seed)
    return svm.primal(3.0 * X, y, C / 9.0).solve().objective, svm.primal(X, y, C).solve().objective / 9.0


@CHECKS.add("T05a", f"the optimality conditions of {RMM}, eq. (1), solved for b", 1e-6)
def intercepts(seed: int) -> Pair:
    """SVM: every b in [lo, hi] has the optimal objective."""
    X, y, C = blobs(seed)
    program = svm.primal(X, y, C)
    point, alpha = program.solve(), svm.dual(X, y, C).solve()["alpha"]
    g = X @ point["w"]
    values = [
        program.value({"w": point["w"], "b": b, "xi": slacks(g + b, y)})
        for b in np.linspace(*hinge_families(y, C).intercept_interval(g, {"margin": alpha}), 3)
    ]
    return values, point.objective


@CHECKS.add("T05b", f"worked by hand from {RMM}, eq. (2)", 1e-6)
def intercepts_without_a_free_vector(seed: int) -> Pair:
    """SVM of x = −1, +1 at C = 0.1, where no support vector is free: b may be all of [−0.8, 0.8].

    Both multipliers are at C, so w = 0.2.
    """
    X, y, C = np.array([[-1.0], [1.0]]), np.array([-1.0, 1.0]), 0.1
    alpha = svm.dual(X, y, C).solve()["alpha"]
    bracket = hinge_families(y, C).intercept_interval(X @ (X.T @ (alpha * y)), {"margin": alpha})
    return bracket, (-0.8, 0.8)


@CHECKS.add("N01", f"{RMM}, after eq. (2)", 1e-3, ">")
def translation_of_a_polynomial_kernel(seed: int) -> Pair:
    """SVM with the kernel (x'z + 1)²: a translation does change the value.

    So the paper's sentence on translations is right for kernels that do not depend on differences alone.
    """
    X, y, C = blobs(seed)
    t = generator(seed).normal(size=X.shape[1])
    value, moved = (svm.kernel_dual((Z @ Z.T + 1.0) ** 2, y, C).solve().objective for Z in (X, X + t))
    return abs(value - moved) / value, 0.0


_SPREAD_WEIGHTS = (0.7, 0.2, 0.95)  # D, by seed


@CHECKS.add("T06", f"{RMM}, eq. (1), (3)", 1e-5)
def no_spread(seed: int) -> Pair:
    """Sigma-SVM at D = 0: w = w_svm, b = b_svm + w'μ."""
    X, y, C = blobs(seed)
    plain, sigma = svm.primal(X, y, C).solve(), sigma_svm.primal(X, y, C, 0.0).solve()
    b = plain["b"] + plain["w"] @ X.mean(axis=0)
    return np.append(sigma["w"], sigma["b"]), np.append(plain["w"], b)


@CHECKS.add("T07", f"{RMM}, eq. (3), (4)", 1e-7)
def sigma_strong_duality(seed: int) -> Pair:
    """Sigma-SVM: value of the primal (3) = value of the dual (4) = value of its kernelised form."""
    X, y, C = blobs(seed)
    D = _SPREAD_WEIGHTS[seed % 3]
    duals = sigma_svm.dual(X, y, C, D), sigma_svm.kernel_dual(X @ X.T, y, C, D)
    return [dual.solve().objective for dual in duals], sigma_svm.primal(X, y, C, D).solve().objective


@CHECKS.add("T08", f"{RMM}, the kernelised form after eq. (4)", 1e-5)
def outputs_of_new_samples(seed: int) -> Pair:
    """Sigma-SVM: outputs of new samples by the kernel = those by w."""
    X, y, C = blobs(seed)
    D, new = _SPREAD_WEIGHTS[seed % 3], generator(seed).normal(size=(6, X.shape[1]))
    primal, dual = sigma_svm.primal(X, y, C, D).solve(), sigma_svm.kernel_dual(X @ X.T, y, C, D).solve()
    by_kernel = CentredKernel(X @ X.T).cross(new @ X.T, D) @ (dual["alpha"] * y) + dual.duals["b"]
    return by_kernel, (new - X.mean(axis=0)) @ primal["w"] + primal["b"]


@CHECKS.add("T09", f"{RMM}, eq. (3)", 1e-5)
def affine_invariance(seed: int) -> Pair:
    """Sigma-SVM at D = 1: outputs are invariant under x → Ax + c."""
    X, y, C = blobs(seed)
    rng = generator(seed)
    mapped = X @ (rng.normal(size=(3, 3)) + 2.0 * np.eye(3)).T + rng.normal(size=3)

    def outputs(Z: Vector) -> Vector:
        point = sigma_svm.primal(Z, y, C, 1.0).solve()
        return np.asarray((Z - Z.mean(axis=0)) @ point["w"] + point["b"])

    return outputs(mapped), outputs(X)


def _unbalanced(seed: int) -> tuple[Vector, Vector]:
    """Return samples (30, 3) of which two thirds are positive, and their labels (30,)."""
    X, y = two_blobs(seed=seed)
    rows = np.sort(np.concatenate([np.flatnonzero(y > 0), np.flatnonzero(y < 0)[:10]]))
    return X[rows], y[rows]


@CHECKS.add("T10a", f"{RMM}, eq. (4); derived", 1e-5)
def interpolation(seed: int) -> Pair:
    """Sigma-SVM at D = 1 with a kernel of full rank: α_i = 2 n_other/n², whatever the data.

    It holds for C at or above that.
    """
    X, y = _unbalanced(seed)
    n_other = np.where(y > 0, (y < 0).sum(), (y > 0).sum())
    alpha = sigma_svm.kernel_dual(rbf(X), y, 1.0, 1.0).solve()["alpha"]
    return alpha, 2.0 * n_other / len(y) ** 2


@CHECKS.add("T10b", f"{RMM}, eq. (4); derived", 1e-5)
def interpolated_labels(seed: int) -> Pair:
    """Sigma-SVM at D = 1 with a kernel of full rank: f(x_i) = y_i, and b = (n₊ − n₋)/n."""
    X, y = _unbalanced(seed)
    K = rbf(X)
    solution = sigma_svm.kernel_dual(K, y, 1.0, 1.0).solve()
    b = solution.duals["b"]
    outputs = CentredKernel(K).gram(1.0) @ (solution["alpha"] * y) + b
    return np.append(outputs, b), np.append(y, y.mean())


def _pieces(seed: int) -> tuple[Vector, float, Vector, Vector, int]:
    """Return K, D, the centred Gram matrix HKH, the rows K_i − K1/n, and n."""
    X, _, _ = blobs(seed)
    K, D, n = rbf(X), _SPREAD_WEIGHTS[seed % 3], len(X)
    H = np.eye(n) - 1.0 / n
    return K, D, H @ K @ H, K - K.mean(axis=1)[:, None], n


@CHECKS.add("T11a", f"{RMM}, the kernelised form after eq. (4); derived", 1e-8)
def kernel_by_one_inverse(seed: int) -> Pair:
    """Sigma-SVM's kernel V diag(κ/((1−D) + Dκ/n)) V' = (n/D) Kc (cI + Kc)⁻¹, c = n(1−D)/D."""
    K, D, centred, _, n = _pieces(seed)
    inverse = np.linalg.inv(n * (1.0 - D) / D * np.eye(n) + centred)
    return CentredKernel(K).gram(D), n / D * centred @ inverse


def _printed(seed: int, *, nested: bool) -> Vector:
    """Return the printed kernel, with the factor 1/(1−D) once more in the second term if `nested`."""
    K, D, centred, rows, n = _pieces(seed)
    G = np.eye(n) / n - 1.0 / n**2
    second = rows.T @ G @ np.linalg.inv((1.0 - D) / D * np.eye(n) + K @ G) @ rows
    return (centred - second / (1.0 - D if nested else 1.0)) / (1.0 - D)


@CHECKS.add("T11b", f"{RMM}, the kernelised form after eq. (4)", 1e-8)
def kernel_as_printed(seed: int) -> Pair:
    """Sigma-SVM's kernel = the printed form, its factor 1/(1−D) read as one over both terms."""
    K, D, *_ = _pieces(seed)
    return CentredKernel(K).gram(D), _printed(seed, nested=False)


@CHECKS.add("N02", f"{RMM}, the kernelised form after eq. (4)", 1e-3, ">")
def kernel_misread(seed: int) -> Pair:
    """Sigma-SVM's kernel: the printed form read with a second 1/(1−D) in the second term is another matrix.

    The relative distance is compared with 0.
    """
    K, D, *_ = _pieces(seed)
    right = CentredKernel(K).gram(D)
    return np.linalg.norm(_printed(seed, nested=True) - right) / np.linalg.norm(right), 0.0
