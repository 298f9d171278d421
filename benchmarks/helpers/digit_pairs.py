"""Two digits told apart by the SVM, the RMM, the Sigma-SVM or KLDA, with parameters chosen by validation.

What a cell of the RMM paper's Table 1 consists of: see :mod:`benchmarks.rmm_table`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import normalize

from formulations.centred_kernel import CentredKernel
from formulations.families import hinge_families
from polyopt import Kernel, datasets
from polyopt.baselines.klda import fisher_direction
from polyopt.kernels import SampleGram, chunks
from polyopt.solvers.decomposition import Decomposition

Vector = NDArray[np.float64]
Samples = NDArray[np.intp]
Setting = tuple[float, ...]
Grid = tuple[Setting, ...]

_SPLITS = 5
_GAMMA = 0.5  # of the RBF kernel; on images of unit length, exp(x'z - 1)
_WHOLE = 4_000  # samples up to which a Gram matrix is computed as a whole
_TOL = 1e-3
# Bounds that a low degree cannot keep at any bearable cost take for ever: judged by how far they got.
_MAX_ITER = 50

GRIDS: dict[str, Grid] = {
    "SVM": tuple(product((1.0, 3.0, 10.0, 30.0, 100.0, 1000.0))),  # C
    "RMM": tuple(product((1.0, 10.0, 100.0, 1000.0), (1 / 2, 1 / 4, 1 / 10, 1 / 20))),  # C, share of θ - 1
    "Sigma-SVM": tuple(product((0.9, 0.99, 0.999), (0.1, 1.0, 10.0))),  # D and C
    "KLDA": tuple(product((1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0))),  # ε
}


@dataclass(frozen=True)
class Digits:
    """A set of digits, and what of a pair's samples is trained on.

    Attributes
    ----------
    name, blank : str, float
        What the loader calls it, and the value of an empty pixel.
    part : float, optional
        Samples of a pair (or their share, below 1) that are fitted; the others validate. None for
        splits 80:20.
    is_final : bool
        Whether all samples are fitted in the end, with the parameters chosen on a part.
    methods : tuple of str
        What is computed.
    classes : int
        How many digits.
    """

    name: str
    blank: float
    part: float | None = None
    is_final: bool = True
    methods: tuple[str, ...] = ("SVM", "RMM", "Sigma-SVM", "KLDA")
    classes: int = 10


def test_answers(
    errors_of: Any, digits: Digits, kernel: str, method: str, grid: Grid, pair: tuple[int, int]
) -> tuple[NDArray[np.bool_], Setting, float]:
    """Which test samples get the pair's second digit; the setting chosen; and seconds of the processor."""
    errors, seconds = errors_of(replace(digits, is_final=True), kernel, method, grid, pair)
    setting = _middle([grid[number] for number in np.flatnonzero(errors == errors.min())])
    started = time.process_time()
    A, y = _members(digits, pair)
    if not digits.is_final:
        ((part, _),) = _splits(digits, y)
        A, y = A[part], y[part]
    answer = _outputs(method, (setting,), _kernel(kernel), A, y, pixels(digits)[2])[:, 0] > 0.0
    return answer, setting, seconds + time.process_time() - started


def validation_errors(
    digits: Digits, kernel: str, method: str, grid: Grid, pair: tuple[int, int]
) -> tuple[Vector, float]:
    """Validation errors of every setting, over all splits; and seconds of the processor."""
    started = time.process_time()
    A, y = _members(digits, pair)
    k, errors = _kernel(kernel), np.zeros(len(grid))
    for train, rest in _splits(digits, y):
        outputs = _outputs(method, grid, k, A[train], y[train], A[rest])
        errors += ((outputs > 0.0) != (y[rest, None] > 0.0)).sum(axis=0)
    return errors, time.process_time() - started


def _middle(settings: Sequence[Setting]) -> Setting:
    """Of settings that are equally good, the one in the middle: in its first number, then in the next."""
    for place in range(len(settings[0])):
        values = [setting[place] for setting in settings]
        settings = [s for s in settings if s[place] == values[len(values) // 2]]
    return settings[0]


def _members(digits: Digits, pair: tuple[int, int]) -> tuple[Vector, Vector]:
    """The training samples of two digits, and labels: the second is +1."""
    X, y, _, _ = pixels(digits)
    rows = np.flatnonzero(np.isin(y, pair))
    return X[rows], np.where(y[rows] == pair[1], 1.0, -1.0)


def _splits(digits: Digits, labels: Vector) -> Iterator[tuple[Samples, Samples]]:
    part, repeats = (0.8, _SPLITS) if digits.part is None else (digits.part, 1)
    shuffle = StratifiedShuffleSplit(repeats, train_size=part, random_state=0)
    return shuffle.split(labels, labels)


def _outputs(method: str, grid: Grid, kernel: Kernel, X: Vector, y: Vector, T: Vector) -> Vector:
    """Outputs at the rows of T of the machines that are trained on X, one column per setting."""
    gram = _values(kernel, X, X) if len(X) <= _WHOLE else SampleGram(X, kernel)
    coefs, intercepts = _MACHINES[method](gram, y, grid)
    used = coefs.any(axis=1)
    X, coefs = X[used], coefs[used]
    parts = chunks(np.arange(len(T)))
    return np.vstack([_values(kernel, T[part], X) @ coefs for part in parts]) + intercepts


def _margins(gram: Any, y: Vector, grid: Grid) -> tuple[Vector, Vector]:
    """SVM, settings (C,), and RMM, settings (C, share): the bound is 1 + share (θ - 1), θ the SVM's.

    One machine goes from bound to bound and from cost to cost, each solution the next one's start.
    """
    machine, found, last = Decomposition(gram), [], np.nan
    for C, *share in grid:
        costs = np.full(len(y), C)
        if last != C:
            svm, last = machine.solve(hinge_families(y, costs), tol=_TOL), C
            theta = float(np.abs(svm["f"]).max())
        B = 1.0 + max(theta - 1.0, 0.0) * share[0] if share else np.inf
        found.append(
            machine.solve(hinge_families(y, costs, B), tol=_TOL, max_iter=_MAX_ITER) if share else svm
        )
    return np.column_stack([s["coef"] for s in found]), np.array([float(s["b"]) for s in found])


def _sigma(K: Vector, y: Vector, grid: Grid) -> tuple[Vector, Vector]:
    """Sigma-SVM, settings (D, C): the SVM on the kernel that is centred and shrunk, and back from there."""
    centred, found, last = CentredKernel(K), [], np.nan
    for D, C in grid:
        if last != D:
            machine, last = Decomposition(centred.gram(D)), D
        solution = machine.solve(hinge_families(y, C), tol=_TOL)
        # Outputs are v·(k_t - K1/n) centred; in terms of k_t itself:
        factors = centred.shrinkage(D) / centred.eigenvalues
        v = centred.root @ (factors * (centred.root.T @ solution["coef"]))
        v -= v.mean()
        found.append((v, float(solution["b"]) - K.mean(axis=0) @ v))
    return np.column_stack([v for v, _ in found]), np.array([b for _, b in found])


def _discriminants(K: Vector, y: Vector, grid: Grid) -> tuple[Vector, Vector]:
    """KLDA, settings (ε,), the ridge in feature space."""
    found = [fisher_direction(K, y > 0.0, eps, "ridge") for (eps,) in grid]
    return np.column_stack([v for v, _ in found]), np.array([b for _, b in found])


_MACHINES = {"SVM": _margins, "RMM": _margins, "Sigma-SVM": _sigma, "KLDA": _discriminants}


@cache
def pixels(digits: Digits) -> tuple[Vector, Samples, Vector, Samples]:
    """Training and test part; images of unit length, from pixels of at least 0."""
    data = datasets.load(digits.name)
    X, y, T, t = data.X, data.y, data.X_test, data.y_test
    if T is None:
        X, y = X[data.y < digits.classes], y[data.y < digits.classes]
        X, T, y, t = X[::3], X[1::3], y[::3], y[1::3]
    return normalize(X - digits.blank), y, normalize(T - digits.blank), t


@cache
def is_at_hand(name: str) -> bool:
    """Whether the data set is on this machine, or can be fetched."""
    try:
        datasets.load(name)
    except datasets.DatasetUnavailable:
        return False
    return True


def _kernel(label: str) -> Kernel:
    """(x'z + 1)^d, divided by its value at x = z; or the RBF kernel."""
    return Kernel("rbf", _GAMMA) if label == "RBF" else Kernel("poly", 0.5, int(label), 0.5)


def _values(kernel: Kernel, A: Vector, Z: Vector) -> Vector:
    """The kernel between images of unit length, by products and not by general powers."""
    products = A @ Z.T
    if kernel.name == "rbf":
        return kernel.finish(2.0 * kernel.gamma * (products - 1.0))
    return kernel.finish(kernel.gamma * products + kernel.coef0)


def work(digits: Digits, kernel: str, method: str) -> float:
    """What a cell takes, roughly, in units of its own: for the estimate of the time left."""
    n, m = pixels(digits)[0].shape
    n = n / digits.classes * 2
    fitted = 0.8 * n if digits.part is None else digits.part if digits.part > 1 else digits.part * n
    repeats = _SPLITS if digits.part is None else 1
    solve = {"SVM": 6, "RMM": 300 if kernel == "1" else 40, "Sigma-SVM": 12, "KLDA": 6}[method]
    inverse = {"Sigma-SVM": 0.025, "KLDA": 0.01}.get(method, 0.0) * fitted
    return repeats * fitted**2 * (m / 100 + solve + inverse)
