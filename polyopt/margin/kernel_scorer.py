"""Scores and labels of a fitted kernel classifier: one scorer for all its binary machines, cached.

A classifier of more than two classes has a binary machine for each pair of classes. Scores are computed in
double precision. A label depends only on the signs of scores: it is first decided from scores in a faster
precision with error bounds, and in double precision if the bounds are too wide for the sample.
:func:`add_kernel_scores` writes the scores into an ONNX graph.
"""

from collections.abc import Callable
from itertools import combinations, pairwise
from operator import is_
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from formulations.language.types import Array, Matrix, dense
from polyopt.base.onnx_graph import Graph
from polyopt.estimators.votes import certain_winners
from polyopt.linalg.kernel_scores import CoefBlock, Scorer
from polyopt.linalg.kernels import Kernel, SampleGram, chunks

_BLOCK_POINTS = 1 << 12  # samples whose labels are decided at once: limits the memory for scores
# Largest error bound of an RBF score at which distances are computed as ‖x‖² − 2x'z + ‖z‖². If the bound is
# larger, they are computed from x − z, which is slower.
_MAX_SCORE_ERROR = 1e-7


class KernelScorer(NamedTuple):
    """The scorer of a classifier."""

    samples: list[Any]  # those of each binary machine when it was built
    states: list[Any]  # the rest that scores depend on (:func:`_state_of`)
    scorer: Scorer  # computes the scores of all machines without their intercepts
    intercepts: NDArray[np.float64]  # (machines,)
    n_classes: int

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Return the scores (t, machines) of samples."""
        return self.scorer.scores(X) + self.intercepts

    def labels(self, X: Any, exact_labels: Callable[[Any], NDArray[np.intp]]) -> NDArray[np.intp]:
        """Return class numbers (t,) of the rows of X.

        exact_labels: computes the labels that are uncertain in every faster precision.
        """
        labels, precisions = np.empty(X.shape[0], dtype=np.intp), self.scorer.precisions(X)
        for rows in chunks(np.arange(X.shape[0]), _BLOCK_POINTS):
            for dtype in list(precisions):
                if len(rows):
                    labels[rows], is_certain = self._certain_labels(X[rows], dtype)
                    rows = rows[~is_certain]
                    if is_certain.mean() < 0.5:  # a precision that decides few labels is not used again
                        precisions.remove(dtype)
            if len(rows):
                labels[rows] = exact_labels(X[rows])
        return labels

    def _certain_labels(self, X: Any, dtype: Any) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return labels computed in the precision `dtype`, and a mask of those certain despite rounding."""
        scores, errors = self.scorer.bounded_scores(X, dtype)
        scores += self.intercepts
        # Rounding error of adding the intercepts.
        errors += 4 * np.finfo(float).eps * (np.abs(scores) + np.abs(self.intercepts))
        if self.n_classes == 2:
            return (scores[:, 0] > 0).astype(np.intp), np.abs(scores[:, 0]) > errors[:, 0]
        return certain_winners(scores > errors, scores < -errors, self.n_classes)


# The cache is outside of the models, so that a prediction does not change a model or its saved file.
_SCORERS: WeakKeyDictionary[Any, KernelScorer] = WeakKeyDictionary()


def scorer_of(model: Any) -> KernelScorer | None:
    """Return the scorer of a fitted model, from the cache if the model has not changed.

    Return None if the kernel is linear or precomputed, if the kernels of the pairs differ, or if there are no
    support vectors.
    """
    if model.kernel in ("linear", "precomputed"):
        return None
    machines = _machines_of(model)
    samples, states = [machine._X for machine in machines], [_state_of(machine) for machine in machines]
    cached = _SCORERS.get(model)
    if cached is not None and cached.states == states and all(map(is_, samples, cached.samples)):
        return cached
    kernel = machines[0]._kernel
    if any(machine._kernel != kernel for machine in machines) or not any(
        positions for _, positions, *_ in states
    ):
        return None
    X, parts = _merge_support(model)
    gram = SampleGram(X, kernel)
    coef_sum = max(float(np.abs(machine._support()[1]).sum()) for machine in machines)
    # The error of a score is at most that of a kernel value times the sum of the absolute coefficients. For
    # RBF entry_error()[0] bounds the error of a kernel value; `careful` computes distances by differences.
    if kernel.name == "rbf" and gram.entry_error()[0] * coef_sum > _MAX_SCORE_ERROR:
        gram = gram.careful(always=True)
    intercepts = np.array([float(machine.intercept_[0]) for machine in machines])
    scorer = Scorer(gram, parts, len(machines))
    _SCORERS[model] = KernelScorer(samples, states, scorer, intercepts, len(model.classes_))
    return _SCORERS[model]


def _machines_of(model: Any) -> list[Any]:
    """Return the binary machines of a model: itself, or one for each pair of classes."""
    return [model] if model._is_binary else [pair._as_fitted() for pair in model.estimators_]


def _state_of(machine: Any) -> tuple[Any, ...]:
    """Return what the scores of a binary machine depend on besides its samples, to be compared later."""
    positions, coef = machine._support()
    return machine._kernel, positions.tobytes(), coef.tobytes(), float(machine.intercept_[0])


def _merge_support(model: Any) -> tuple[Any, list[CoefBlock]]:
    """Merge the kernel expansions of all pairs, so that each support vector's kernel is computed once.

    Return the distinct support vectors, sorted by class, and the coefficients of each class: those of the
    pairs in which one of its support vectors is. Two classes have one pair, and are one part.
    """
    machines = _machines_of(model.without_data())  # they share one `_X`, in which `_support` has positions
    X, pairs = machines[0]._X, combinations(range(len(model.classes_)), 2)
    label, expansions = np.zeros(X.shape[0], dtype=np.intp), [machine._support() for machine in machines]
    for machine, (positions, _), (first, second) in zip(machines, expansions, pairs, strict=True):
        label[positions] = np.where(machine._second, second, first) if len(machines) > 1 else 0
    rows, values = (np.concatenate(arrays) for arrays in zip(*expansions, strict=True))
    columns = np.repeat(np.arange(len(machines)), [len(positions) for positions, _ in expansions])
    coef = sp.csr_array((values, (rows, columns)), shape=(len(label), len(machines)))
    order = np.argsort(label, kind="stable")
    parts = []
    for start, stop in pairwise(np.append(0, np.cumsum(np.bincount(label)))):
        block = coef[order[start:stop]]
        used = np.unique(block.indices)
        if len(used):
            parts.append(CoefBlock(int(start), int(stop), used, block[:, used].toarray()))
    return X[order], parts


def stack(parts: list[Any]) -> Any:
    """Return the samples of all parts as one array or CSR matrix."""
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.vstack(parts)


def add_kernel_scores(
    graph: Graph, x: str, kernel: Kernel, vectors: Matrix, coef: Array, intercepts: Array
) -> str:
    """Add ``Σ_j coef_jk k(x, x_j) + b_k``, with x_j the rows of `vectors`, to an ONNX graph.

    Return the name of the tensor (n, K). Raises ValueError if the kernel is a callable.
    """
    name = kernel.name
    if callable(name):
        raise ValueError("a kernel that is a function has no ONNX graph: choose one by its name")
    Z = np.asarray(dense(vectors), dtype=float)
    if not len(Z):  # without support vectors the scores are constant
        return graph.affine(x, np.zeros((coef.shape[1], Z.shape[1])), intercepts)
    if name == "rbf":
        # Centring at the vectors' mean reduces cancellation in ‖x‖² − 2x'z + ‖z‖².
        middle = Z.mean(axis=0)
        x, Z = graph.op("Sub", x, graph.constant(middle)), Z - middle
        squares = graph.over_columns("ReduceSum", graph.op("Mul", x, x))
        mixed = graph.affine(x, -2.0 * Z, (Z * Z).sum(axis=1))
        distances = graph.op("Max", graph.op("Add", mixed, squares), graph.constant(0.0))
        K = graph.op("Exp", graph.op("Mul", distances, graph.constant(-float(kernel.gamma))))
    else:
        argument = graph.affine(x, kernel.gamma * Z, np.full(len(Z), kernel.coef0))
        K = graph.op("Tanh", argument) if name == "sigmoid" else argument
        for _ in range(int(kernel.degree) - 1 if name == "poly" else 0):
            K = graph.op("Mul", K, argument)
    return graph.op("Add", graph.op("MatMul", K, graph.constant(coef)), graph.constant(intercepts))
