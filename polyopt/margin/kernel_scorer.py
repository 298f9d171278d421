"""Scores and labels of a fitted kernel classifier: one scorer for all its binary machines, cached.

A classifier of more than two classes has a binary machine for each pair of classes. Scores are computed in
double precision. A label depends only on the signs of scores: it is first decided from scores in a faster
precision with error bounds, and in double precision if the bounds are too wide for the sample.
"""

from collections.abc import Callable
from itertools import combinations
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

_BLOCK_POINTS = 1 << 14  # samples whose labels are decided at once: limits the memory for scores
_TRIAL_POINTS = 1 << 10  # samples on which a precision is tried: half of their labels must be certain
_MAX_KERNEL_ERROR = 1e-7  # error of a score above which an RBF kernel squares differences of samples


class _BinaryMachine(NamedTuple):
    """The part of a binary machine that scores depend on."""

    kernel: Kernel
    X: Any
    positions: NDArray[np.intp]  # positions in X of the samples in the kernel expansion
    coef: NDArray[np.float64]  # coefficients of these samples
    intercept: float

    def is_same_as(self, other: "_BinaryMachine") -> bool:
        return (
            self.kernel == other.kernel
            and self.X is other.X
            and self.intercept == other.intercept
            and np.array_equal(self.positions, other.positions)
            and np.array_equal(self.coef, other.coef)
        )


class KernelScorer(NamedTuple):
    """The scorer of a classifier.

    machines: the classifier's binary machines: one, or one for each pair of classes.
    scorer: computes the scores of all machines without their intercepts.
    intercepts (machines,): the intercepts.
    n_classes: the number of classes.
    """

    machines: list[_BinaryMachine]
    scorer: Scorer
    intercepts: NDArray[np.float64]
    n_classes: int

    def is_current_for(self, machines: list[_BinaryMachine]) -> bool:
        """Return True if the scorer was built for these machines, which have not changed since."""
        are_same = map(_BinaryMachine.is_same_as, machines, self.machines)
        return len(machines) == len(self.machines) and all(are_same)

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Return the scores (t, machines) of samples."""
        return self.scorer.scores(X) + self.intercepts

    def labels(self, X: Any, exact_labels: Callable[[Any], NDArray[np.intp]]) -> NDArray[np.intp]:
        """Return class numbers (t,) of samples; `exact_labels` computes those that no precision decides."""
        labels, undecided = np.empty(X.shape[0], dtype=np.intp), np.arange(X.shape[0])
        for dtype in self.scorer.precisions(X):
            if len(undecided):
                undecided = self._decide(X, undecided, dtype, out_labels=labels)
        for block in chunks(undecided, _BLOCK_POINTS):
            labels[block] = exact_labels(_take_rows(X, block))
        return labels

    def _decide(
        self, X: Any, rows: NDArray[np.intp], dtype: Any, out_labels: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Set the labels of those rows of X that are certain in one precision; return the other rows.

        The first rows are a trial: if less than half of their labels are certain, the others are not tried.
        """
        undecided, parts = [], [rows[:_TRIAL_POINTS], *chunks(rows[_TRIAL_POINTS:], _BLOCK_POINTS)]
        for number, part in enumerate(parts):
            out_labels[part], is_certain = self._certain_labels(_take_rows(X, part), dtype)
            undecided.append(part[~is_certain])
            if number == 0 and is_certain.mean() < 0.5:
                return np.concatenate([*undecided, *parts[1:]])
        return np.concatenate(undecided)

    def _certain_labels(self, X: Any, dtype: Any) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return labels computed in one precision, and a mask of those that its error cannot change."""
        scores, errors = self.scorer.bounded_scores(X, dtype)
        scores += self.intercepts
        errors += 4 * np.finfo(float).eps * (np.abs(scores) + np.abs(self.intercepts))  # of this sum
        if self.n_classes == 2:
            return (scores[:, 0] > 0).astype(np.intp), np.abs(scores[:, 0]) > errors[:, 0]
        return certain_winners(scores > errors, scores < -errors, self.n_classes)


# The cache is outside of the models, so that a prediction does not change a model or its saved file.
_SCORERS: WeakKeyDictionary[Any, KernelScorer] = WeakKeyDictionary()


def scorer_of(model: Any) -> KernelScorer | None:
    """Return the scorer of a fitted model, from the cache if the model has not changed.

    Return None for a linear or precomputed kernel, if the pairs' kernels differ, or without support vectors.
    """
    if model.kernel in ("linear", "precomputed"):
        return None
    fitted = [model] if model._is_binary else [machine._as_fitted() for machine in model.estimators_]
    machines = []
    for machine in fitted:
        (positions, coef), b = machine._support(), float(machine.intercept_[0])
        machines.append(_BinaryMachine(machine._kernel, machine._X, positions, coef, b))
    cached = _SCORERS.get(model)
    if cached is not None and cached.is_current_for(machines):
        return cached
    kernel = machines[0].kernel
    kernels_differ = any(machine.kernel != kernel for machine in machines)
    if kernels_differ or not any(len(machine.positions) for machine in machines):
        return None
    if model._is_binary:
        X, parts = machines[0].X[machines[0].positions], [CoefBlock.whole(machines[0].coef)]
    else:
        X, parts = _merge_support(model, machines, fitted)
    gram = SampleGram(X, kernel)
    coef_sum = max(float(np.abs(machine.coef).sum()) for machine in machines)
    if kernel.name == "rbf" and gram.entry_error()[0] * coef_sum > _MAX_KERNEL_ERROR:
        gram = gram.careful(always=True)
    scorer = KernelScorer(
        [machine._replace(coef=machine.coef.copy()) for machine in machines],
        Scorer(gram, parts, len(machines)),
        np.array([machine.intercept for machine in machines]),
        len(model.classes_),
    )
    _SCORERS[model] = scorer
    return scorer


def _merge_support(
    model: Any, machines: list[_BinaryMachine], fitted: list[Any]
) -> tuple[Any, list[CoefBlock]]:
    """Return the distinct samples of all pairs' expansions, sorted by class, and a part for each class.

    A part has the range of the class's samples, the columns of the pairs with this class, and coefficients
    (samples, pairs).
    """
    pairs = list(combinations(range(len(model.classes_)), 2))
    # `rows`, `pair_of`, `coef` and `label` have an entry for each sample in the expansion of each pair.
    rows = np.concatenate(
        [
            samples[machine._rows[binary.positions]]
            for samples, machine, binary in zip(model._pair_places, fitted, machines, strict=True)
        ]
    )
    pair_of = np.repeat(np.arange(len(pairs)), [len(machine.positions) for machine in machines])
    coef = np.concatenate([machine.coef for machine in machines])
    is_second = np.concatenate(
        [
            machine._second if machine._y is None else machine._y[binary.positions] > 0
            for machine, binary in zip(fitted, machines, strict=True)
        ]
    )
    label = np.array(pairs)[pair_of, is_second.astype(int)]
    # Sort by class, and within a class by sample; keep each sample once.
    order = np.lexsort((rows, label))
    is_first = np.diff(rows[order], prepend=-1) != 0
    first, merged_row = order[is_first], np.empty(len(rows), dtype=np.intp)
    merged_row[order] = np.cumsum(is_first) - 1
    X = stack([binary.X[binary.positions] for binary in machines])[first]
    parts, labels = [], label[first]
    for class_number in np.unique(labels):
        start, stop = np.searchsorted(labels, [class_number, class_number + 1])
        columns = np.array([k for k, pair in enumerate(pairs) if class_number in pair])
        block = np.zeros((stop - start, len(pairs)))
        in_class = label == class_number
        block[merged_row[in_class] - start, pair_of[in_class]] = coef[in_class]
        parts.append(CoefBlock(int(start), int(stop), columns, block[:, columns]))
    return X, parts


def stack(parts: list[Any]) -> Any:
    """Return the samples of all parts as one array or CSR matrix."""
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.vstack(parts)


def _take_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return these rows of X, ascending, as a view if they are consecutive."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return X[rows[0] : rows[-1] + 1]
    return X[rows]


def draw_kernel(graph: Graph, x: str, kernel: Kernel, vectors: Matrix, coef: Array, intercepts: Array) -> str:
    """Add ``Σ_j coef_jk k(x, x_j) + b_k``, with x_j the rows of `vectors`, to an ONNX graph.

    Return the name of the tensor (n, K). ValueError: the kernel is a function.
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
