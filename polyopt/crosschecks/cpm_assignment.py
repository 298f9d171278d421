"""The Convex Polytope Machine's assignments: the best of all, and how Algorithm 2 spreads them."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations import cpm
from formulations.cpm import big_m, mixed_integer
from formulations.polytope import perplexity
from polyopt.cpm.global_search.search import solve_cpm_global
from polyopt.cpm.sgd import assign
from polyopt.crosschecks.registry import NotRun, Registry
from polyopt.crosschecks.samples import clusters, generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.program import Program
    from formulations.polytope import Loss, Margin
    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("cpm")


@CHECKS.add("T31a", 1e-6)
def branch_and_bound(seed: int) -> Pair:
    """CPM: branch and bound = the least over all assignments, one by one.

    Source: Kantchelian et al. (2014), the unconstrained form after eq. (6).
    """
    X, y = clusters(seed, n=14, spread=0.8)
    program = cpm.fixed_assignment(X, y, 2, np.zeros(14, dtype=int))
    return solve_cpm_global(X, y, 1.0, 2, tol=1e-9).objective, _least_of_two_faces(program, y)


def _least_of_two_faces(program: Program, y: Vector) -> float:
    """The least optimum of a fixed-assignment program over all assignments to two faces."""
    positives, values = np.flatnonzero(y > 0), []
    # The faces are alike: the first positive may stay at the first.
    for rest in product(range(2), repeat=len(positives) - 1):
        z = np.zeros(len(y), dtype=int)
        z[positives[1:]] = rest
        values.append(program.set(Z=cpm.answers(y, 2, z)).solve().objective)
    return min(values)


@CHECKS.add("T31c", 1e-6)
def coupled_mixed_integer_programs(seed: int) -> Pair:
    """CPM: the mixed-integer program with loss="max", or the worst-case margin, = the least over assignments.

    Source: Kantchelian et al. (2014), eq. (6) and the worst-case margin beside it; the programs are derived.
    """
    X, y = clusters(seed, n=10, spread=0.8)
    by_program, by_assignment = [], []
    forms: tuple[tuple[Loss, Margin], ...] = (("max", "total"), ("sum", "worst"), ("max", "worst"))
    for loss, margin in forms:
        try:
            by_program.append(mixed_integer(X, y, 2, loss=loss, margin=margin).solve().objective)
        except ModuleNotFoundError as missing:
            raise NotRun(str(missing)) from missing
        program = cpm.fixed_assignment(X, y, 2, np.zeros(len(y), dtype=int), 1.0, loss, margin)
        by_assignment.append(_least_of_two_faces(program, y))
    return by_program, by_assignment


@CHECKS.add("T31b", 1e-6)
def mixed_integer_program(seed: int) -> Pair:
    """CPM: the mixed-integer program, solved by SCIP, = branch and bound.

    Source: Kantchelian et al. (2014), the unconstrained form after eq. (6); the program is derived.
    """
    X, y = clusters(seed, n=14, spread=0.8)
    program = mixed_integer(X, y, 2)
    try:
        found = program.solve()
    except ModuleNotFoundError as missing:
        raise NotRun(str(missing)) from missing
    return found.objective, solve_cpm_global(X, y, 1.0, 2, tol=1e-9).objective


@CHECKS.add("X13", 1e-9, "≤")
def margins_off_the_face(seed: int) -> Pair:
    """CPM: at the global optimum 1 − W_k·x̃_i ≤ M_i for every positive and face, so M is large enough.

    Source: Kantchelian et al. (2014), the unconstrained form after eq. (6); the bound is derived.
    """
    X, y = clusters(seed, n=14, spread=0.8)
    found = solve_cpm_global(X, y, 1.0, 2, tol=1e-9)
    M = big_m(X, y, 2, 1.0, found.objective)
    return 1.0 - cpm.lift(X)[y > 0] @ found["W"].T, M[:, None] * np.ones(2)


def _entropy(faces: NDArray[Any]) -> float:
    return float(np.log(perplexity(faces))) if len(faces) else 0.0


def _literal(kept: dict[int, int], key: int, scores: Vector, floor: float) -> int:
    """Algorithm 2 with its dictionary UNADJ, to the letter; it does not say what to do if K_inc is empty."""
    before, natural = dict(kept), int(scores.argmax())
    kept[key] = natural
    if _entropy(np.array(list(kept.values()))) >= floor - 1e-12:
        return natural
    least = _entropy(np.array(list(before.values()), dtype=np.int64))
    raising = [
        k
        for k in range(len(scores))
        if before and _entropy(np.array(list({**before, key: k}.values()))) > least + 1e-12
    ]
    return max(raising, key=lambda k: scores[k]) if raising else natural


@CHECKS.add("T33", 0.0)
def assignment_by_counts(seed: int) -> Pair:
    """CPM: ASSIGN by counts of the faces = ASSIGN with its dictionary, in 300 calls.

    Where no face would raise the entropy, the natural one answers.

    Source: Kantchelian et al. (2014), Algorithm 2.
    """
    drawn, n, K, floor = generator(seed), 30, 4, float(np.log(3.3))
    kept: dict[int, int] = {}
    unadjusted, counts, tally = np.full(n, -1), np.zeros(K, dtype=np.int64), np.zeros(5)
    phi = np.append(0.0, np.arange(1.0, n + 2) * np.log(np.arange(1.0, n + 2)))
    by_counts, literal = [], []
    for _ in range(300):
        i, scores = int(drawn.integers(n)), drawn.normal(size=K) + np.array([2.0, 0.0, 0.0, 0.0])
        by_counts.append(assign(scores, int(scores.argmax()), i, floor, unadjusted, counts, phi, tally))
        literal.append(_literal(kept, i, scores, floor))
    return by_counts, literal


@CHECKS.add("X09", 0.0)
def entropy_rises(seed: int) -> Pair:
    """CPM: moving a sample from face a to face k raises the entropy exactly when c_k ≤ c_a − 2.

    Source: Kantchelian et al. (2014), Algorithm 2; derived.
    """
    drawn = generator(seed)
    raised, predicted = [], []
    for _ in range(200):
        faces = drawn.integers(4, size=int(drawn.integers(5, 25)))
        counts, k = np.bincount(faces, minlength=4), int(drawn.integers(4))
        moved = np.append(k, faces[1:])
        raised.append(perplexity(moved) > perplexity(faces) * (1.0 + 1e-12))
        predicted.append(k != faces[0] and counts[k] <= counts[faces[0]] - 2)
    return raised, predicted
