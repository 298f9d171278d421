"""From the answers of pairs of classes to one: votes with ties broken at random, and probabilities."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.base.onnx_graph import Graph
    from polyopt.base.types import Seed


__all__ = ["certain_winners", "couple_pairs", "draw_coupling", "random_votes"]


def random_votes(second: NDArray[np.bool_], n_classes: int, random_state: Seed) -> NDArray[np.float64]:
    """Number of votes of each class; a tie is broken by less than a vote.

    The lots depend on the votes of the pairs alone: samples with the same votes get the same answer, whatever
    other samples there are.

    second (t, pairs): whether the second class of each pair won, pairs in the order of
        ``itertools.combinations``.
    n_classes: number of classes.
    random_state: seed of the lots.
    """
    patterns, which = np.unique(np.packbits(second, axis=1), axis=0, return_inverse=True)
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    lots = np.array(
        [np.random.default_rng([seed, *pattern]).random(n_classes) for pattern in patterns.tolist()]
    )
    votes = 0.5 * lots.reshape(len(patterns), n_classes)[which.ravel()]
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        votes[:, j] += second[:, pair]
        votes[:, i] += ~second[:, pair]
    return votes


def couple_pairs(second: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
    """Probabilities (t, n_classes) that agree best with those of all pairs.

    Minimises Σ_{i≠j} (r_ji p_i − r_ij p_j)² with Σ p = 1, the second method of Wu, Lin & Weng,
    Probability Estimates for Multi-class Classification by Pairwise Coupling (2004).

    second (t, pairs): probability of the second class of each pair, pairs in the order of
        ``itertools.combinations``.
    n_classes: number of classes.
    """
    t = len(second)
    r = np.zeros((t, n_classes, n_classes))  # r[:, i, j]: probability of i among i and j
    # Where pairs are certain, classes would have probabilities of exactly 0 and could not be told apart.
    second = np.clip(second, 1e-12, 1.0 - 1e-12)
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        r[:, j, i], r[:, i, j] = second[:, pair], 1.0 - second[:, pair]
    system = np.zeros((t, n_classes + 1, n_classes + 1))
    system[:, :-1, :-1] = -r * r.transpose(0, 2, 1)
    each = np.arange(n_classes)
    system[:, each, each] = (r**2).sum(axis=1)
    system[:, -1, :-1] = system[:, :-1, -1] = 1.0
    right = np.zeros((t, n_classes + 1, 1))
    right[:, -1] = 1.0
    p = np.maximum(np.linalg.solve(system, right)[:, :-1, 0], np.finfo(float).tiny)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


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


def certain_winners(
    second: NDArray[np.bool_], first: NDArray[np.bool_], n_classes: int
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Classes with most votes, and whether they have most however the pairs in doubt vote.

    second, first (t, pairs): whether the second and whether the first class of each pair won for certain,
        pairs in the order of ``itertools.combinations``.
    n_classes: number of classes.
    Returns classes (t,): the class with most certain votes.
    Returns is_certain (t,): whether each other class has fewer, counting those in doubt.
    """
    pairs = np.array(list(combinations(range(n_classes), 2)))
    is_first, is_second = (np.eye(n_classes, dtype=np.float32)[pairs[:, side]] for side in (0, 1))
    one, two = first.astype(np.float32), second.astype(np.float32)
    least = one @ is_first + two @ is_second
    most = (n_classes - 1) - (one @ is_second + two @ is_first)
    winner, every = least.argmax(axis=1), np.arange(len(least))
    most[every, winner] = -1.0
    return winner, least[every, winner] > most.max(axis=1)
