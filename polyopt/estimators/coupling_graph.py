"""The coupling of pairwise probabilities, :func:`polyopt.estimators.votes.couple_pairs`, as an ONNX graph."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from polyopt.graphs import Graph

__all__ = ["draw_coupling"]


def draw_coupling(graph: Graph, second: str, n_classes: int) -> str:
    """The probabilities (n, n_classes) that agree best with those of all pairs.

    With Q as in that function, the probabilities are ``p / Σ p`` for ``(Q + e e') p = e``: Q is semidefinite,
    and its only null vector can be p itself, so that the sum is definite and is solved by Gauss and Jordan's
    elimination without pivots.

    graph: the graph.
    second: probabilities (n, pairs) of the second class of each pair.
    n_classes: number of classes.
    """
    c = n_classes
    low, high = graph.constant(1e-12), graph.constant(1.0 - 1e-12)
    second = graph.op("Min", graph.op("Max", second, low), high)
    first = graph.op("Sub", graph.constant(1.0), second)
    n_pairs = c * (c - 1) // 2
    product, of_second, of_first = (np.zeros((n_pairs, c, c + 1)) for _ in range(3))
    for pair, (i, j) in enumerate(combinations(range(c), 2)):
        product[pair, i, j] = product[pair, j, i] = -1.0
        of_second[pair, i, i] = of_first[pair, j, j] = 1.0
    terms = [
        graph.op("MatMul", left, graph.constant(right.reshape(n_pairs, -1)))
        for left, right in (
            (graph.op("Mul", first, second), product),
            (graph.op("Mul", second, second), of_second),
            (graph.op("Mul", first, first), of_first),
        )
    ]
    ones = graph.constant(np.ones(c * (c + 1)))  # e e', and e on the right
    flat = graph.op("Add", graph.op("Sum", *terms), ones)
    system = graph.op("Reshape", flat, graph.constant(np.array([-1, c, c + 1])))
    for k in range(c):
        at, after, unit = (graph.constant(np.array([place])) for place in (k, k + 1, 1))
        two = graph.constant(np.array([2]))
        row = graph.op("Slice", system, at, after, unit)
        column = graph.op("Slice", system, at, after, two)
        pivot = graph.op("Div", row, graph.op("Slice", row, at, after, two))
        other = graph.op("Sub", column, graph.constant(np.eye(c)[:, k][None, :, None]))
        system = graph.op("Sub", system, graph.op("MatMul", other, pivot))
    last = graph.op("Slice", system, *(graph.constant(np.array([place])) for place in (c, c + 1, 2)))
    p = graph.op("Reshape", last, graph.constant(np.array([-1, c])))
    p = graph.op("Max", p, graph.constant(np.finfo(float).tiny))
    return graph.op("Div", p, graph.over_columns("ReduceSum", p))
