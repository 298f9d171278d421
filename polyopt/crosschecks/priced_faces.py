"""Sparse faces of the machines that have their positives inside: the programs against the fast solvers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

from formulations import mixture, plume_sparse, polyceptron_sparse, spla1_sparse
from formulations.face_penalty import FacePenalty
from formulations.polyhedral import belonging, cells, hard_loss, margin_error
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, generator
from polyopt.outer.polyceptron import ExactPolyceptron
from polyopt.solvers.logistic import Regressions
from polyopt.solvers.plume import maximise
from polyopt.solvers.priced_newton import minimise_priced

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("priced_faces")

_RIDGE, _FACES = 0.3, 2
_PRICES = ({"l1": 1.0}, {"group": 1.5}, {"l1": 0.4, "group": 0.8, "signs": {0: 1, 3: -1}, "groups": [[1, 2]]})


def _sample(seed: int) -> tuple[Vector, Vector, FacePenalty, Vector]:
    """Samples, labels, a price, and random faces."""
    X, y, _ = blobs(seed, m=4)
    penalty = FacePenalty.of(4, **_PRICES[seed % len(_PRICES)])
    return X, y, penalty, generator(seed).normal(size=(_FACES, 5))


@CHECKS.add("X100", 1e-7)
def spla1_for_its_cells(seed: int) -> Pair:
    """SPLA1 with a price, fixed cells: proximal Newton steps = the explicit program, by an interior point.

    Source: formulations.spla1_sparse; derived.
    """
    X, y, penalty, W = _sample(seed)
    z = generator(seed + 1).integers(_FACES, size=len(y))
    smooth = Regressions(X, y, belonging(y, z, _FACES, "all"), _RIDGE)
    fast = minimise_priced(smooth, penalty, W, ridge=_RIDGE, tol=1e-10)
    program = spla1_sparse.fixed_cells(X, y, _FACES, z, 1.0, _RIDGE, "all", penalty=penalty)
    return [fast.objective, float(fast.bound or 0.0)], program.solve().objective


@CHECKS.add("X101", 1e-7)
def plume_for_its_responsibilities(seed: int) -> Pair:
    """PLUME with a price, M-step: proximal Newton steps = the explicit program, by an interior point.

    Source: formulations.plume_sparse; derived.
    """
    X, y, penalty, W = _sample(seed)
    R = mixture.responsibilities(X, y, W, 2.0)
    fast = maximise(
        X, y, np.ones(len(y)), R, W, gamma=2.0, ridge=_RIDGE, penalty=penalty, max_iter=100, tol=1e-10
    )
    program = plume_sparse.m_step(X, y, R, 2.0, 1.0, _RIDGE, penalty=penalty)
    return [fast.objective, float(fast.bound or 0.0)], program.solve().objective


@CHECKS.add("X102", 1e-12)
def without_a_price(seed: int) -> Pair:
    """A price of nothing: what the machine pays is the loss with its ridge.

    Source: formulations.face_penalty; derived.
    """
    X, y, _, W = _sample(seed)
    z = (X @ W[:, :-1].T + W[:, -1]).argmin(axis=1)
    value, _ = Regressions(X, y, belonging(y, z, _FACES, "all"), _RIDGE)(W)
    none = FacePenalty.of(4)
    return value + none.value(W), hard_loss(X, y, W, 1.0, _RIDGE, "all")


@CHECKS.add("X137", 1e-6)
def groups_of_one_weight(seed: int) -> Pair:
    """The exact Polyceptron, one face: a price of groups of one weight each = the same price of weights.

    The one is a program of cones by an interior point, the other a linear program in HiGHS.

    Source: formulations.face_penalty; derived.
    """
    X, y, penalty, _ = _linear(seed)
    price, c = max(penalty.l1, 0.5), np.ones(len(y))
    grouped = FacePenalty(0.0, price, penalty.signs, penalty.groups)
    weighed = FacePenalty(price, 0.0, penalty.signs, penalty.groups)
    one = ExactPolyceptron(X, y, c, 1, _RADIUS, "program", grouped)
    other = ExactPolyceptron(X, y, c, 1, _RADIUS, "highs", weighed)
    start = other.start(generator(seed))
    return one.step(start, None).objective, other.step(start, None).objective


_RADIUS = 100.0
_LINEAR = ({"l1": 1.0}, {"l1": 0.4, "signs": {0: 1, 3: -1}}, {"signs": {1: -1, 2: 1}})


def _linear(seed: int) -> tuple[Vector, Vector, FacePenalty, Vector]:
    """Samples, labels, a price that leaves faces linear programs, and an assignment of the negatives."""
    X, y, _, W = _sample(seed)
    return X, y, FacePenalty.of(4, **_LINEAR[seed % len(_LINEAR)]), np.where(y < 0, cells(X, W), -1)


@CHECKS.add("X107", 1e-7)
def polyceptron_for_its_assignment(seed: int) -> Pair:
    """The exact Polyceptron with a price: HiGHS on each face's dual = the program, by an interior point.

    Source: formulations.polyceptron_sparse; derived.
    """
    X, y, penalty, z = _linear(seed)
    faces = 0.0
    for k in range(_FACES):
        own = (y > 0) | (z == k)
        one = ExactPolyceptron(X[own], y[own], np.ones(own.sum()), 1, _RADIUS, penalty=penalty)
        faces += one.step(one.start(generator(seed)), None).objective
    program = polyceptron_sparse.fixed_assignment(X, y, _FACES, z, 1.0, _RADIUS, penalty=penalty)
    return faces, program.solve("CLARABEL").objective


@CHECKS.add("X108", 1e-7)
def one_priced_face_as_it_is_written_elsewhere(seed: int) -> Pair:
    """The exact Polyceptron with a price, one face: its dual = scipy's linprog with w split into two parts.

    Source: formulations.polyceptron_sparse; Zhu, Rosset, Hastie & Tibshirani (2003) for the split.
    """
    X, y, penalty, _ = _linear(seed)
    n, m = X.shape
    signed = y[:, None] * X  # w = p − q, both at least 0; a sign leaves one of them
    rows = -np.hstack([signed, -signed, y[:, None], np.eye(n)])
    most = [np.where(side < np.inf, _RADIUS, 0.0) for side in penalty.thresholds]
    highest = np.concatenate([*most, [_RADIUS], np.full(n, np.inf)])
    lowest = np.where(np.arange(2 * m + 1 + n) == 2 * m, -_RADIUS, 0.0)
    cost = np.concatenate([np.full(2 * m, penalty.l1), [0.0], np.ones(n)])
    found = linprog(cost, rows, -np.ones(n), bounds=np.column_stack([lowest, highest]), method="highs-ipm")
    one = np.zeros(n, dtype=int)
    dual = polyceptron_sparse.fixed_assignment_dual(X, y, 1, one, 1.0, _RADIUS, penalty=penalty)
    return dual.solve("CLARABEL").objective, found.fun


@CHECKS.add("X109", 1e-9, "≤")
def priced_polyceptron_descends(seed: int) -> Pair:
    """The exact Polyceptron with a price: no step raises the margin error and the price together.

    Source: formulations.polyceptron_sparse; derived.
    """
    X, y, penalty, _ = _linear(seed)
    problem = ExactPolyceptron(X, y, np.ones(len(y)), 3, _RADIUS, penalty=penalty)
    faces = [problem.start(generator(seed))]
    for _ in range(4):
        faces.append(problem.step(faces[-1], None)["W"])
    values = [margin_error(X, y, W) + penalty.value(penalty.allowed(W)) for W in faces]
    return values[1:], values[:-1]
