"""One-vs-one: votes and probabilities of several classes from those of their pairs, in ONNX and in numpy.

A classifier of c classes has a binary classifier for each of the c (c−1)/2 pairs. Pairs are in the order of
``itertools.combinations``; the second class of a pair has the positive scores.

The first part draws ONNX graphs: the functions ``_draw_...`` add operations to a graph and return the names
of the resulting tensors. A subclass of :class:`polyopt.estimators.base.PairwiseClassifier` draws the scores
of two classes; labels, votes and coupled probabilities are drawn here. The last two functions,
:func:`couple_pairs` and :func:`certain_winners`, are in numpy.
"""

import math
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyopt.base.onnx_graph import Graph

MIN_WINNING = math.nextafter(0.5, 1.0)
"""Smallest probability above 1/2."""
_MIN_PROBABILITY = 1e-12  # smallest probability in a pair; smaller ones are raised before they are coupled
_ONNX_TYPES = {"i": "int64", "u": "int64", "f": "double", "b": "bool"}  # of labels, by their numpy kind


def draw_scores_and_labels(machine: Any, graph: Graph, x: str) -> dict[str, tuple[str, str, int | None]]:
    """Draw a fitted classifier of samples x (n, m).

    Return the outputs ``label``, ``probabilities`` if the classifier has them, and ``scores``; the first two
    are those of skl2onnx. Each is a tuple of the name of its tensor, its type, and its number of columns,
    None for a vector.
    """
    n_classes = len(machine.classes_)
    if n_classes == 2:
        scores, is_second, second = _draw_pair(machine, graph, x)
        number = graph.op("Cast", is_second, to=7)  # int64
        flat = graph.constant(np.array([-1]))
        scores, number = graph.op("Reshape", scores, flat), graph.op("Reshape", number, flat)
        if second is not None:
            first = graph.op("Sub", graph.constant(1.0), second)
            second = graph.op("Concat", first, second, axis=1)
        probabilities = second
    else:
        scores, number, probabilities = _draw_several(machine, graph, x)
    kind = _ONNX_TYPES.get(machine.classes_.dtype.kind, "string")
    classes = graph.constant(machine.classes_, "float64")  # labels keep their type
    label = graph.op("Gather", classes, number)
    outputs: dict[str, tuple[str, str, int | None]] = {"label": (label, kind, None)}
    if probabilities is not None:
        outputs["probabilities"] = (probabilities, "real", n_classes)
    return outputs | {"scores": (scores, "real", None if n_classes == 2 else n_classes)}


def _draw_pair(machine: Any, graph: Graph, x: str) -> tuple[str, str, str | None]:
    """Draw the scores of two classes, the mask and the probability of the second; return these, each (n, 1).

    The probability is None if the classifier has none.
    """
    scores = machine._draw_scores(graph, x)
    is_second = graph.op("Greater", scores, graph.constant(0.0))
    by_model = getattr(machine, "_decides_by_model", False)
    return scores, is_second, _draw_second_by_model(graph, scores) if by_model else None


def _draw_several(machine: Any, graph: Graph, x: str) -> tuple[str, str, str | None]:
    """Draw scores (n, n_classes), the predicted class's number (n,), and probabilities, None without any."""
    n_classes = len(machine.classes_)
    if not getattr(machine, "_decides_by_model", False):
        scores = _draw_votes(graph, machine._draw_pairs(graph, x), n_classes)
        return scores, graph.op("ArgMax", scores, axis=1, keepdims=0), None
    parts = [part._as_fitted() for part in machine.estimators_]
    by_model = [_draw_second_by_model(graph, part._draw_scores(graph, x)) for part in parts]
    p = _draw_coupling(graph, graph.op("Concat", *by_model, axis=1), n_classes)
    return graph.op("Log", p), graph.op("ArgMax", p, axis=1, keepdims=0), p


def _draw_votes(graph: Graph, scores: str, n_classes: int) -> str:
    """Draw the votes (n, n_classes) of the pairs, plus a tie break below 1/3 by the sum of the scores."""
    pairs = np.array(list(combinations(range(n_classes), 2)))
    first, second = np.eye(n_classes)[pairs[:, 0]], np.eye(n_classes)[pairs[:, 1]]
    is_second = graph.number(graph.op("Greater", scores, graph.constant(0.0)))
    votes = graph.op("MatMul", is_second, graph.constant(second - first))
    votes = graph.op("Add", votes, graph.constant(first.sum(axis=0)))
    total = graph.op("MatMul", scores, graph.constant(second - first))
    scale = graph.op("Add", graph.op("Abs", total), graph.constant(1.0))
    tie_break = graph.op("Div", total, graph.op("Mul", graph.constant(3.0), scale))
    return graph.op("Add", votes, tie_break)


def _draw_second_by_model(graph: Graph, scores: str) -> str:
    """Draw the probability of the second class from log-odds, clipped to the side of 1/2 of the label."""
    second, is_second = graph.op("Sigmoid", scores), graph.op("Greater", scores, graph.constant(0.0))
    above_half = np.nextafter(graph.dtype.type(0.5), graph.dtype.type(1.0))
    above = graph.op("Max", second, graph.constant(above_half))
    return graph.op("Where", is_second, above, graph.op("Min", second, graph.constant(0.5)))


def _draw_coupling(graph: Graph, second: str, n_classes: int) -> str:
    """Draw the probabilities (n, n_classes) of :func:`couple_pairs`, for `second` (n, pairs).

    With the quadratic form p'Qp that they minimise, they are ``p / Σ p`` for ``(Q + e e') p = e``, where e is
    the vector of ones. Q + e e' is positive definite, so that Gauss-Jordan elimination needs no pivoting: Q
    is positive semidefinite, and a null vector of Q has entries of one sign. ONNX has no operation that
    solves linear systems. Q_ij = −r_ij r_ji and Q_ii = Σ_j r_ji² are linear in products of `first` and
    `second`.
    """
    c = n_classes
    least = max(_MIN_PROBABILITY, float(np.finfo(graph.dtype).eps))
    low, high = graph.constant(least), graph.constant(1.0 - least)
    second = graph.op("Min", graph.op("Max", second, low), high)
    first = graph.op("Sub", graph.constant(1.0), second)
    n_pairs = c * (c - 1) // 2
    off_diagonal, diagonal_i, diagonal_j = (np.zeros((n_pairs, c, c + 1)) for _ in range(3))
    for pair, (i, j) in enumerate(combinations(range(c), 2)):  # entries of [Q, 0] by the pair's products
        off_diagonal[pair, i, j] = off_diagonal[pair, j, i] = -1.0
        diagonal_i[pair, i, i] = diagonal_j[pair, j, j] = 1.0
    terms = [
        graph.op("MatMul", product, graph.constant(entries.reshape(n_pairs, -1)))
        for product, entries in (
            (graph.op("Mul", first, second), off_diagonal),
            (graph.op("Mul", second, second), diagonal_i),
            (graph.op("Mul", first, first), diagonal_j),
        )
    ]
    ones = graph.constant(np.ones(c * (c + 1)))  # e e', and e as the right-hand side
    flat = graph.op("Add", graph.op("Sum", *terms), ones)
    system = graph.op("Reshape", flat, graph.constant(np.array([-1, c, c + 1])))
    for k in range(c):  # eliminate column k from all rows but row k
        begin, end, row_axis, column_axis = (graph.constant(np.array([i])) for i in (k, k + 1, 1, 2))
        row = graph.op("Slice", system, begin, end, row_axis)
        column = graph.op("Slice", system, begin, end, column_axis)
        pivot_row = graph.op("Div", row, graph.op("Slice", row, begin, end, column_axis))
        factors = graph.op("Sub", column, graph.constant(np.eye(c)[:, k][None, :, None]))
        system = graph.op("Sub", system, graph.op("MatMul", factors, pivot_row))
    solution = graph.op("Slice", system, *(graph.constant(np.array([i])) for i in (c, c + 1, 2)))
    p = graph.op("Reshape", solution, graph.constant(np.array([-1, c])))
    p = graph.op("Max", p, graph.constant(np.finfo(graph.dtype).tiny))
    return graph.op("Div", p, graph.over_columns("ReduceSum", p))


def couple_pairs(second: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
    """Return the probabilities (t, n_classes) of the classes that agree best with those of all pairs.

    They minimise Σ_{i≠j} (r_ji p_i − r_ij p_j)² subject to Σ p = 1, where r_ij is the probability of i among
    i and j: the second method of Wu, Lin & Weng, Probability Estimates for Multi-class Classification by
    Pairwise Coupling (2004).

    second (t, pairs): probability of the second class of each pair.
    """
    t = len(second)
    r = np.zeros((t, n_classes, n_classes))  # r[:, i, j]: probability of i among i and j
    # With probabilities 0 and 1 of pairs, several classes could have the probability 0 and be tied.
    second = np.clip(second, _MIN_PROBABILITY, 1.0 - _MIN_PROBABILITY)
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        r[:, j, i], r[:, i, j] = second[:, pair], 1.0 - second[:, pair]
    system = np.zeros((t, n_classes + 1, n_classes + 1))  # optimality conditions of p and a multiplier
    system[:, :-1, :-1] = -r * r.transpose(0, 2, 1)
    diagonal = np.arange(n_classes)
    system[:, diagonal, diagonal] = (r**2).sum(axis=1)
    system[:, -1, :-1] = system[:, :-1, -1] = 1.0
    rhs = np.zeros((t, n_classes + 1, 1))
    rhs[:, -1] = 1.0
    p = np.maximum(np.linalg.solve(system, rhs)[:, :-1, 0], np.finfo(float).tiny)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def certain_winners(
    second: NDArray[np.bool_], first: NDArray[np.bool_], n_classes: int
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the classes (t,) with most certain votes, and the mask of those that are certain to win.

    second, first (t, pairs): True if that class of the pair certainly has the vote. Both are False for an
    uncertain vote.
    """
    pairs = np.array(list(combinations(range(n_classes), 2)))
    is_first, is_second = (np.eye(n_classes, dtype=np.float32)[pairs[:, side]] for side in (0, 1))
    first_votes, second_votes = first.astype(np.float32), second.astype(np.float32)
    min_votes = first_votes @ is_first + second_votes @ is_second
    # All votes of a class except those that certainly go to its opponents.
    max_votes = (n_classes - 1) - (first_votes @ is_second + second_votes @ is_first)
    winner, rows = min_votes.argmax(axis=1), np.arange(len(min_votes))
    max_votes[rows, winner] = -1.0  # leaves the other classes
    return winner, min_votes[rows, winner] > max_votes.max(axis=1)
