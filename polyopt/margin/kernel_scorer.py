"""Scores and labels of a fitted kernel classifier: one scorer for all its binary machines, cached.

A classifier of more than two classes has a binary machine for each pair of classes. Scores are computed in
double precision. A label depends only on the signs of scores: it is first decided from scores in a faster
precision with error bounds, and in double precision if the bounds are too wide for the sample.
:func:`add_kernel_scores` writes the scores into an ONNX graph.
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
# Largest error bound of an RBF score at which distances are computed as ‖x‖² − 2x'z + ‖z‖². If the bound is
# larger, they are computed from x − z, which is slower.
_MAX_SCORE_ERROR = 1e-7


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

    machines: the binary machines, one or one for each pair of classes, as they were when this was built.
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
        """Return class numbers (t,) of the rows of X.

        exact_labels: computes the labels that are uncertain in every faster precision.
        """
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
        """Compute labels of these rows of X in the precision `dtype`; return the rows with uncertain labels.

        The first rows are a trial: if fewer than half of their labels are certain, the remaining rows are
        returned undecided.
        """
        undecided, parts = [], [rows[:_TRIAL_POINTS], *chunks(rows[_TRIAL_POINTS:], _BLOCK_POINTS)]
        for number, part in enumerate(parts):
            out_labels[part], is_certain = self._certain_labels(_take_rows(X, part), dtype)
            undecided.append(part[~is_certain])
            if number == 0 and is_certain.mean() < 0.5:
                return np.concatenate([*undecided, *parts[1:]])
        return np.concatenate(undecided)

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
    estimators = [model] if model._is_binary else [pair._as_fitted() for pair in model.estimators_]
    machines = []  # the binary machines, in the order of `estimators`
    for estimator in estimators:
        (positions, coef), b = estimator._support(), float(estimator.intercept_[0])
        machines.append(_BinaryMachine(estimator._kernel, estimator._X, positions, coef, b))
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
        X, parts = _merge_support(model, machines, estimators)
    gram = SampleGram(X, kernel)
    coef_sum = max(float(np.abs(machine.coef).sum()) for machine in machines)
    # The error of a score is at most that of a kernel value times the sum of the absolute coefficients. For
    # RBF entry_error()[0] bounds the error of a kernel value; `careful` computes distances by differences.
    if kernel.name == "rbf" and gram.entry_error()[0] * coef_sum > _MAX_SCORE_ERROR:
        gram = gram.careful(always=True)
    copies = [machine._replace(coef=machine.coef.copy()) for machine in machines]  # to notice later changes
    intercepts = np.array([machine.intercept for machine in machines])
    scorer = KernelScorer(copies, Scorer(gram, parts, len(machines)), intercepts, len(model.classes_))
    _SCORERS[model] = scorer
    return scorer


def _merge_support(
    model: Any, machines: list[_BinaryMachine], estimators: list[Any]
) -> tuple[Any, list[CoefBlock]]:
    """Merge the kernel expansions of all pairs, so that each support vector's kernel is computed once.

    Return the distinct support vectors, sorted by class, and a CoefBlock for each class, with
    start, stop: the range of the class's rows among them.
    columns: the pairs that contain the class.
    coef (rows, columns): coefficient of each row in each of these pairs, 0 if it is not in the expansion.
    """
    pairs = list(combinations(range(len(model.classes_)), 2))
    sample, pair_of, label = _expansion_entries(model, machines, estimators, np.array(pairs))
    coef = np.concatenate([machine.coef for machine in machines])
    # Sort the entries by class, and within a class by sample; keep each sample once.
    order = np.lexsort((sample, label))
    is_first = np.diff(sample[order], prepend=-1) != 0
    first = order[is_first]  # for each row of the merged X, one entry of its sample
    merged_row = np.empty(len(sample), dtype=np.intp)  # for each entry, the row of its sample in the merged X
    merged_row[order] = np.cumsum(is_first) - 1
    X = stack([machine.X[machine.positions] for machine in machines])[first]
    parts, labels = [], label[first]
    for class_number in np.unique(labels):
        start, stop = np.searchsorted(labels, [class_number, class_number + 1])
        columns = np.array([k for k, pair in enumerate(pairs) if class_number in pair])
        block = np.zeros((stop - start, len(pairs)))
        in_class = label == class_number
        block[merged_row[in_class] - start, pair_of[in_class]] = coef[in_class]
        parts.append(CoefBlock(int(start), int(stop), columns, block[:, columns]))
    return X, parts


def _expansion_entries(
    model: Any, machines: list[_BinaryMachine], estimators: list[Any], pairs: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return three arrays with an entry for each support vector of each pair, in the order of the pairs.

    They are the support vector's index among the samples of the fit, the number of the pair, and the class
    number. `model._pair_places[p]` has these indices of the samples of pair p; an estimator's `_rows` are
    indices among the samples of its pair, and `_y` their labels −1 and +1 (the second class). A model without
    data numbers its stored samples, and has `_second` instead of `_y`: a mask of the support vectors of the
    second class.
    """
    samples, is_second = [], []
    for places, estimator, machine in zip(model._pair_places, estimators, machines, strict=True):
        positions = machine.positions
        samples.append(places[estimator._rows[positions]])
        is_second.append(estimator._second if estimator._y is None else estimator._y[positions] > 0)
    pair_of = np.repeat(np.arange(len(pairs)), [len(machine.positions) for machine in machines])
    label = pairs[pair_of, np.concatenate(is_second).astype(int)]
    return np.concatenate(samples), pair_of, label


def stack(parts: list[Any]) -> Any:
    """Return the samples of all parts as one array or CSR matrix."""
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.vstack(parts)


def _take_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return these rows of X, ascending, as a view if they are consecutive."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return X[rows[0] : rows[-1] + 1]
    return X[rows]


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
