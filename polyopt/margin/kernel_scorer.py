"""Scores and labels of a fitted kernel classifier: one scorer for all its machines, kept between predictions.

Scores are in double precision. Labels need no more than the signs of scores: they come from faster scores
with error bounds, and from double precision for the samples whose labels these leave open.
"""

from __future__ import annotations

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
from polyopt.linalg.kernel_scores import Part, Scorer
from polyopt.linalg.kernels import Kernel, SampleGram, chunks

_BLOCK_POINTS = 1 << 14  # points whose labels are decided at once, so that their scores fit the memory
_TRIAL_POINTS = 1 << 10  # on which a precision is tried: half of their labels must be certain
_MAX_KERNEL_ERROR = 1e-7  # of a score, by the rounding of RBF distances; above it differences are squared


class _Machine(NamedTuple):
    """A binary machine, as a scorer needs it."""

    kernel: Kernel
    X: Any
    places: NDArray[np.intp]  # of its support vectors in X
    coef: NDArray[np.float64]
    intercept: float

    def is_as(self, other: _Machine) -> bool:
        return (
            self.kernel == other.kernel
            and self.X is other.X
            and self.intercept == other.intercept
            and np.array_equal(self.places, other.places)
            and np.array_equal(self.coef, other.coef)
        )


class KernelScorer(NamedTuple):
    """The scorer of the machines of a classifier: one, or one for each pair of classes."""

    machines: list[_Machine]
    scorer: Scorer
    intercepts: NDArray[np.float64]
    n_classes: int

    def is_of(self, machines: list[_Machine]) -> bool:
        """Return True if these are the same machines still."""
        return len(machines) == len(self.machines) and all(map(_Machine.is_as, machines, self.machines))

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Return the scores (t, machines) of samples."""
        return self.scorer.scores(X) + self.intercepts

    def labels(self, X: Any, exact_labels: Callable[[Any], NDArray[np.intp]]) -> NDArray[np.intp]:
        """Return the numbers of the classes (t,); `exact_labels` gives those that stay open."""
        labels, left = np.empty(X.shape[0], dtype=np.intp), np.arange(X.shape[0])
        for dtype in self.scorer.precisions(X):
            if len(left):
                left = self._decide(X, left, labels, dtype)
        for rest in chunks(left, _BLOCK_POINTS):
            labels[rest] = exact_labels(_rows(X, rest))
        return labels

    def _decide(
        self, X: Any, points: NDArray[np.intp], labels: NDArray[np.intp], dtype: Any
    ) -> NDArray[np.intp]:
        """Set the labels of points that are certain in one precision; return the other points."""
        unsure, parts = [], [points[:_TRIAL_POINTS], *chunks(points[_TRIAL_POINTS:], _BLOCK_POINTS)]
        for number, part in enumerate(parts):
            labels[part], sure = self._certain_labels(_rows(X, part), dtype)
            unsure.append(part[~sure])
            if number == 0 and sure.mean() < 0.5:
                return np.concatenate([*unsure, *parts[1:]])
        return np.concatenate(unsure)

    def _certain_labels(self, X: Any, dtype: Any) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return labels by one precision, and a mask of those that its error cannot change."""
        scores, errors = self.scorer.bounded_scores(X, dtype)
        scores += self.intercepts
        errors += 4 * np.finfo(float).eps * (np.abs(scores) + np.abs(self.intercepts))
        if self.n_classes == 2:
            return (scores[:, 0] > 0).astype(np.intp), np.abs(scores[:, 0]) > errors[:, 0]
        return certain_winners(scores > errors, scores < -errors, self.n_classes)


# Beside the models and not in them, so that a model stays as it was fitted, and is saved without.
_KEPT: WeakKeyDictionary[Any, KernelScorer] = WeakKeyDictionary()


def scorer_of(model: Any) -> KernelScorer | None:
    """Return the scorer of a fitted model; None for a kernel without one, or if its kernels differ."""
    if model.kernel in ("linear", "precomputed"):
        return None
    fitted = [model] if model._is_binary else [machine._as_fitted() for machine in model.estimators_]
    machines = []
    for machine in fitted:
        places, coef = machine._support()
        machines.append(_Machine(machine._kernel, machine._X, places, coef, float(machine.intercept_[0])))
    kept = _KEPT.get(model)
    if kept is not None and kept.is_of(machines):
        return kept
    kernel = machines[0].kernel
    if any(machine.kernel != kernel for machine in machines):
        return None
    if not any(len(machine.places) for machine in machines):
        return None
    if model._is_binary:
        X, parts = machines[0].X[machines[0].places], [Part.whole(machines[0].coef)]
    else:
        X, parts = _union(model, machines, fitted)
    gram = SampleGram(X, kernel)
    largest = max(float(np.abs(machine.coef).sum()) for machine in machines)
    if kernel.name == "rbf" and gram.entry_error()[0] * largest > _MAX_KERNEL_ERROR:
        gram = gram.careful(always=True)
    found = KernelScorer(
        [machine._replace(coef=machine.coef.copy()) for machine in machines],
        Scorer(gram, parts, len(machines)),
        np.array([machine.intercept for machine in machines]),
        len(model.classes_),
    )
    _KEPT[model] = found
    return found


def _union(model: Any, machines: list[_Machine], fitted: list[Any]) -> tuple[Any, list[Part]]:
    """Return the support vectors of all pairs, by class, and each class's coefficients in its pairs."""
    pairs = list(combinations(range(len(model.classes_)), 2))
    rows = np.concatenate(
        [
            of_pair[machine._rows[found.places]]
            for of_pair, machine, found in zip(model._pair_places, fitted, machines, strict=True)
        ]
    )
    pair_of = np.repeat(np.arange(len(pairs)), [len(machine.places) for machine in machines])
    coef = np.concatenate([machine.coef for machine in machines])
    second = np.concatenate(
        [
            machine._second if machine._y is None else machine._y[found.places] > 0
            for machine, found in zip(fitted, machines, strict=True)
        ]
    )
    label = np.array(pairs)[pair_of, second.astype(int)]
    # By class, and within a class by sample, each once.
    order = np.lexsort((rows, label))
    is_first = np.diff(rows[order], prepend=-1) != 0
    first, place = np.flatnonzero(is_first), np.empty(len(rows), dtype=np.intp)
    place[order] = np.cumsum(is_first) - 1
    vectors = [found.X[found.places] for found in machines]
    X: Any = sp.vstack(vectors, format="csr") if sp.issparse(vectors[0]) else np.vstack(vectors)
    X = X[order[first]]
    parts, labels = [], label[order[first]]
    for number in np.unique(labels):
        start, stop = np.searchsorted(labels, [number, number + 1])
        columns = np.array([k for k, pair in enumerate(pairs) if number in pair])
        block = np.zeros((stop - start, len(pairs)))
        own = label == number
        block[place[own] - start, pair_of[own]] = coef[own]
        parts.append(Part(int(start), int(stop), columns, block[:, columns]))
    return X, parts


def _rows(X: Any, points: NDArray[np.intp]) -> Any:
    """Return these rows; without a copy if they lie side by side."""
    if len(points) and points[-1] - points[0] == len(points) - 1:
        return X[points[0] : points[-1] + 1]
    return X[points]


def draw_kernel(graph: Graph, x: str, kernel: Kernel, vectors: Matrix, coef: Array, intercepts: Array) -> str:
    """``Σ_j coef_jk k(x, x_j) + b_k``, a tensor (n, K).

    ValueError: A kernel that is a function.
    """
    name = kernel.name
    if callable(name):
        raise ValueError("a kernel that is a function has no ONNX graph: choose one by its name")
    Z = np.asarray(dense(vectors), dtype=float)
    if not len(Z):  # the graph of no support vectors is constant
        return graph.affine(x, np.zeros((coef.shape[1], Z.shape[1])), intercepts)
    if name == "rbf":
        # About the vectors' middle, so that the squares cancel less.
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
