"""Logistic polytopes: what they are with one face, their upper bound, and their solvers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations import class_faces as faces
from formulations import logistic_polytopes, spla1
from formulations.class_faces import Owners
from formulations.language.clock import Clock
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, clusters, generator
from polyopt.polyhedral.logistic_descent import descend
from polyopt.polyhedral.logistic_loss import FaceLoss
from polyopt.polyhedral.logistic_polytopes import random_start, solve_logistic_polytopes

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("logistic_polytopes")

_OWNERS = (Owners(2, 2), Owners(0, 3), Owners(3, 1))


def _drawn(seed: int) -> tuple[Vector, Vector, Owners, Vector, Vector]:
    """Samples, labels, whose the faces are, and random faces, those at rest among them."""
    X, y = clusters(seed, spread=0.8)
    owners, rng = _OWNERS[seed % len(_OWNERS)], generator(seed)
    w, b = rng.normal(size=(owners.count, X.shape[1])), rng.normal(size=owners.count)
    return X, y, owners, w * owners.free[:, None], b * owners.free


@CHECKS.add("X70", 1e-7)
def logistic_regression(seed: int) -> Pair:
    """Logistic polytopes: one face against none = the ridge logistic regression of SPLA1's cell.

    Source: formulations.logistic_polytopes; derived.
    """
    X, y, _ = blobs(seed)
    problem = FaceLoss(X, y, np.ones(len(y)), Owners(0, 1), 0.5, 0.5)
    found = solve_logistic_polytopes(problem, tol=1e-10)
    return found.objective, spla1.cell(X, y, 1.0, 0.5).solve().objective


@CHECKS.add("X71", 0.0, "≥")
def majorant(seed: int) -> Pair:
    """Logistic polytopes: the objective of any assignment is at least that of the best one.

    Source: formulations.logistic_polytopes; derived.
    """
    X, y, owners, w, b = _drawn(seed)
    own = np.where(owners.others(y), -1.0, generator(seed + 1).random((len(y), owners.count)))
    drawn = faces.value(X, y, w, b, owners, assignment=own.argmax(axis=1))
    return drawn, faces.value(X, y, w, b, owners)


@CHECKS.add("X72", 1e-6)
def newton_and_the_program(seed: int) -> Pair:
    """Logistic polytopes: where Newton's method ends = the explicit program of its assignment.

    Source: formulations.logistic_polytopes; derived.
    """
    X, y, owners, _, _ = _drawn(seed)
    problem = FaceLoss(X, y, np.ones(len(y)), owners, 0.1, 0.1, 0.3)
    found = solve_logistic_polytopes(problem, tol=1e-8, n_init=1)
    program = logistic_polytopes.fixed_assignment(
        X, y, owners, found["assignment"], ridge=0.1, bias_ridge=0.1, l1=0.3
    )
    return found.objective, program.solve().objective


@CHECKS.add("X135", 1e-6)
def newton_and_the_program_with_signs(seed: int) -> Pair:
    """Logistic polytopes with signs to keep: where Newton's method ends = its assignment's explicit program.

    Source: formulations.logistic_polytopes; derived.
    """
    X, y, owners, _, _ = _drawn(seed)
    l1, signs = 0.3 * (seed % 2), np.sign(generator(seed + 2).normal(size=X.shape[1])).astype(int)
    problem = FaceLoss(X, y, np.ones(len(y)), owners, 0.1, 0.1, l1, signs=signs)
    found = solve_logistic_polytopes(problem, tol=1e-8, n_init=1)
    program = logistic_polytopes.fixed_assignment(
        X, y, owners, found["assignment"], ridge=0.1, bias_ridge=0.1, l1=l1, signs=signs
    )
    return found.objective, program.solve().objective


@CHECKS.add("X136", 1e-6)
def newton_and_the_program_with_groups(seed: int) -> Pair:
    """Logistic polytopes with a price of groups: where Newton's method ends = its assignment's program.

    Source: formulations.logistic_polytopes; derived.
    """
    X, y, owners, _, _ = _drawn(seed)
    prices: dict[str, Any] = {"l1": 0.2 * (seed % 2), "group": 2.0, "groups": np.arange(X.shape[1]) // 2}
    prices["signs"] = np.append((seed % 2) * [1], np.zeros(X.shape[1] - seed % 2, dtype=int)).astype(int)
    problem = FaceLoss(X, y, np.ones(len(y)), owners, 0.1, 0.1, **prices)
    found = solve_logistic_polytopes(problem, tol=1e-8, n_init=1)
    program = logistic_polytopes.fixed_assignment(
        X, y, owners, found["assignment"], ridge=0.1, bias_ridge=0.1, **prices
    )
    return found.objective, program.solve().objective


@CHECKS.add("X73", 1e-12)
def common_plane(seed: int) -> Pair:
    """Logistic polytopes: the same plane added to all faces, none at rest, changes no log-odds.

    Source: formulations.logistic_polytopes; derived.
    """
    X, y, _, _, _ = _drawn(seed)
    owners, rng = Owners(2, 3), generator(seed)
    w, b, plane = rng.normal(size=(5, X.shape[1])), rng.normal(size=5), rng.normal(size=X.shape[1])
    moved = faces.shortfall(y, faces.scores(X, w + plane, b + 0.7), owners)
    return moved, faces.shortfall(y, faces.scores(X, w, b), owners)


@CHECKS.add("X74", 0.0, "≤")
def softer_is_higher(seed: int) -> Pair:
    """Logistic polytopes: a soft maximum of the other class's scores alone never lowers the loss.

    Source: formulations.logistic_polytopes; derived.
    """
    X, y, owners, w, b = _drawn(seed)
    problem, W = FaceLoss(X, y, np.ones(len(y)), owners, 0.1, 0.1), np.column_stack([w, b])
    sharp, soft = (problem.smooth(W, 0.0, t)[0] for t in (0.0, 0.3))
    return sharp, soft + 1e-12 * abs(soft)


@CHECKS.add("X75", 0.0, "≤")
def descent(seed: int) -> Pair:
    """Logistic polytopes: a descent does not end above its start.

    Source: formulations.logistic_polytopes; derived.
    """
    X, y, owners, _, _ = _drawn(seed)
    problem = FaceLoss(X, y, np.ones(len(y)), owners, 0.1, 0.1, 0.3)
    start = random_start(problem, generator(seed))
    ended, _ = descend(problem, start, Clock(None), softness=(0.05,))
    return problem.value(ended), problem.value(start)
