"""Fewer and fewer weights: those go that cost the least to lose, and the others are fitted again.

To hold the weight w_kj at 0 raises the loss by about h w_kj²/2, where h is what is left of its curvature once
the bias of its face has taken the feature's mean over: the saliency of LeCun, Denker & Solla (1989), "Optimal
brain damage". The weights of least saliency are held at 0, some at a time, and all others descend again. This
is backward elimination: no proof that other weights would not have been better. What is proven afterwards is
the program of the weights that are left (:mod:`formulations.logistic_polytopes`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.types import Array, is_sparse
from polyopt.polyhedral.logistic_solver.descend import descend
from polyopt.polyhedral.logistic_solver.smooth import FaceLoss, shares_of

Chosen = NDArray[np.bool_]


_SOFTNESS = 0.3
_KEPT_SHARE = 0.85  # share of the numbers that a step keeps
_ITERATIONS = 20  # of the descent after a step


def numbers_of(W: Array, knots: Array | None = None) -> int:
    """Weights and biases that are not 0, and the knots of the features that are used.

    Parameters
    ----------
    W : ndarray of shape (K, m+1)
        Faces.
    knots : ndarray of shape (m,), optional
        Numbers that a feature itself takes, once for all faces; by default none.
    """
    found = int(np.count_nonzero(W))
    return found if knots is None else found + int(knots[(W[:, :-1] != 0.0).any(axis=0)].sum())


def sizes_down_to(least: int, most: int) -> list[int]:
    """Numbers from `most` down to `least`, each about 0.85 of the one before."""
    sizes = [most]
    while sizes[-1] > least:
        sizes.append(max(least, min(int(_KEPT_SHARE * sizes[-1]), sizes[-1] - 1)))
    return sizes


def eliminate(
    problem: FaceLoss, W: Array, most: int, clock: Clock, knots: Array | None = None
) -> tuple[Array, Chosen]:
    """Faces with no more than so many numbers.

    Parameters
    ----------
    problem : FaceLoss
        The samples and prices.
    W : ndarray of shape (K, m+1)
        A good point.
    most : int
        How many numbers are left at most (:func:`numbers_of`). No face loses its bias.
    clock : Clock
        When to stop. The weights of a run that is over are not fitted again.
    knots : ndarray of shape (m,), optional
        Numbers that a feature itself takes, once for all faces.

    Returns
    -------
    W : ndarray of shape (K, m+1)
        Faces.
    support : ndarray of bool, shape (K, m)
        Their weights that may differ from 0.
    """
    squares = _Squares(problem)
    support = W[:, :-1] != 0.0
    while numbers_of(W, knots) > most and support.any():
        loss = np.where(support, squares.saliency(W), np.inf)
        support = _without(W, loss, max(most, int(_KEPT_SHARE * numbers_of(W, knots))), knots)
        W = np.column_stack([np.where(support, W[:, :-1], 0.0), W[:, -1]])
        if not clock.is_over:
            W = _descended(problem, W, support, clock)
    return W, support


def _without(W: Array, loss: Array, most: int, knots: Array | None) -> Chosen:
    """The weights that stay, at most so many numbers: those of least loss for each number go."""
    support = W[:, :-1] != 0.0
    users = support.sum(axis=0)
    own = np.zeros(support.shape[1], dtype=int) if knots is None else np.asarray(knots, dtype=int)
    left = numbers_of(W, knots)
    freed = 1 + np.where(users == 1, own, 0)
    order = np.argsort(loss / freed, axis=None)[: int(support.sum())]
    for k, j in zip(*np.unravel_index(order, support.shape), strict=True):
        if left <= most:
            break
        support[k, j] = False
        users[j] -= 1
        left -= 1 + (own[j] if users[j] == 0 else 0)
    return support


def _descended(problem: FaceLoss, W: Array, support: Chosen, clock: Clock) -> Array:
    """The weights that stay, fitted again, with the features that they are of."""
    used = np.flatnonzero(support.any(axis=0))
    used = used if len(used) else np.zeros(1, dtype=int)  # biases alone are left
    kept = np.append(used, W.shape[1] - 1)
    part = problem.of_features(used, support)
    V, _ = descend(part, W[:, kept], clock, softness=(_SOFTNESS,), max_iter=_ITERATIONS)
    found = np.zeros_like(W)
    found[:, kept] = V
    return found


class _Squares:
    """The squares of the features around their means, from which saliencies come."""

    def __init__(self, problem: FaceLoss):
        self.problem, X = problem, problem.X
        mean = np.asarray(X.T @ problem.c).ravel() / problem.c.sum()
        self.centred = X if is_sparse(X) else X - mean
        self.squared = X.multiply(X).tocsr() if is_sparse(X) else self.centred**2

    def saliency(self, W: Array) -> Array:
        """By about how much the objective rises where each weight (K, m) alone is held at 0."""
        problem = self.problem
        _, _, R, a = problem.smooth(W, _SOFTNESS, _SOFTNESS)
        bend = (a * (1.0 - problem.probabilities(a)))[:, None] * shares_of(R, a) ** 2
        total = bend.sum(axis=0)
        first, second = (np.asarray(M.T @ bend).T for M in (self.centred, self.squared))
        spread = second - first**2 / np.where(total > 0.0, total, 1.0)[:, None]
        curvature = np.maximum(spread, 0.0) + problem.ridge
        return 0.5 * curvature * W[:, :-1] ** 2 + problem.l1 * np.abs(W[:, :-1])
