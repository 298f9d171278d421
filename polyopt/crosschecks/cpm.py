"""The Convex Polytope Machine: losses, faces, assignments, margins."""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

from formulations import cpm, cpm_margins, svm
from formulations.cpm import mixed_integer
from formulations.language.program import Program
from formulations.polytope import perplexity
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.cpm.dual import solve_cpm_dual
from polyopt.cpm.global_search.search import solve_cpm_global
from polyopt.cpm.sgd import assign
from polyopt.crosschecks.registry import CPM, Pair, Pairs, Registry, Vector
from polyopt.crosschecks.samples import blobs, clusters, generator
from polyopt.optim.rounds import run_rounds

CHECKS = Registry("cpm")


@CHECKS.add(CPM)
def _one_face(seed: int) -> Pairs:
    """Compare a machine of one face with support vector machines.

    T27 | = 1e-6 | eq. (6) | CPM, K = 1: its value = 2 · SVM of cost C/2 on x̃ = (x, 1), the bias penalised
        (by liblinear)
    N07 | > 1e-6 | eq. (6) | CPM, K = 1: its value is above that of twice the SVM with a bias that is not
        penalised
    """
    X, y, C = blobs(seed)
    lifted = cpm.lift(X)
    value = cpm.fixed_assignment(X, y, 1, np.zeros(len(y), dtype=int), C).solve().objective
    machine = LinearSVC(loss="hinge", C=C / 2.0, fit_intercept=False, tol=1e-10, max_iter=1_000_000)
    w = machine.fit(lifted, y).coef_.ravel()
    hinge = np.maximum(0.0, 1.0 - y * (lifted @ w))
    yield value, 2.0 * (0.5 * w @ w + C / 2.0 * hinge.sum())
    yield value, 2.0 * svm.primal(X, y, C / 2.0).solve().objective


@CHECKS.add(CPM)
def _alternation(seed: int) -> Pairs:
    """Compare the objective after and before each round of alternating minimisation, from random starts.

    T28a | ≤ 1e-7 | the unconstrained form after eq. (6) | CPM: no round of alternating minimisation raises
        the sum form of (6)
    T28b | ≤ 1e-7 | eq. (6) | CPM: no round of alternating minimisation raises (6) as printed
    """
    X, y = clusters(seed, spread=0.8)
    yield _rounds(X, y, "sum", generator(seed))
    yield _rounds(X, y, "max", generator(seed))


def _rounds(X: Vector, y: Vector, loss: Any, rng: np.random.Generator) -> Pair:
    problem = PolytopeProblem(X, y, np.ones(len(y)), 3, loss)
    after: list[float] = []
    before: list[float] = []
    for _ in range(4):
        start = np.where(y > 0, np.argmax(X @ rng.normal(size=(2, 3)), axis=1), -1)
        values = [record["objective"] for record in run_rounds(problem, start).history]
        after, before = after + values[1:], before + values[:-1]
    return after, before


@CHECKS.add(CPM)
def _losses(seed: int) -> Pairs:
    """Compare faces alone and together, for a fixed assignment, and the two losses.

    The fast values of T29 are objective and bound of the dual coordinate solver, which solves each face
    alone.

    T29 | = 1e-7 | the unconstrained form after eq. (6) | CPM, sum form: its value for a fixed assignment =
        Σ_k of the values of the faces
    T30 | ≤ 1e-12 | eq. (6) and the form after it, which the paper takes for one | CPM: J_max(W) ≤ J_sum(W)
        for any faces W
    T32 | ≥ 1e-8 | eq. (6), for one face | CPM: V(P ∪ {i}) ≥ V(P): one more positive at a face costs no less
    """
    X, y = clusters(seed, spread=0.8)
    z = generator(seed).integers(3, size=len(y))
    faces = [cpm.face(X, y, costs).solve().objective for costs in cpm.assignment_matrix(y, 3, z).T]
    fast = solve_cpm_dual(X, y, 1.0, 3, z, tol=1e-9)
    total = cpm.fixed_assignment(X, y, 3, z).solve().objective
    yield [total, fast.objective, float(fast.bound or np.nan)], sum(faces)

    many = generator(seed).normal(size=(50, 3, 3))
    worst, sums = ([cpm.objective(X, y, W, 1.0, loss) for W in many] for loss in ("max", "sum"))
    yield worst, sums

    positives, program, values = np.flatnonzero(y > 0), cpm.face(X, y), []
    for count in range(7):
        costs = np.where(y < 0, 1.0, 0.0)
        costs[positives[:count]] = 1.0
        values.append(program.set(C=costs).solve().objective)
    yield values[1:], values[:-1]


@CHECKS.add(CPM)
def _max_form(seed: int) -> Pairs:
    """Compare the two losses on overlapping classes: which the paper takes for one.

    N06 | < 1e-3 | eq. (6) and the form after it | CPM, K = 3, overlapping classes: the value of (6) as
        printed is below that of the sum form
    """
    X, y = clusters(seed, spread=1.2)
    z = np.arange(len(y)) % 3
    literal, total = (
        cpm.fixed_assignment(X, y, 3, z, 1.0, loss).solve().objective for loss in ("max", "sum")
    )
    yield literal, total


def _least_of_two_faces(program: Program, y: Vector) -> float:
    """Return the least optimum of a fixed-assignment program over all assignments to two faces."""
    positives, values = np.flatnonzero(y > 0), []
    # By symmetry of the faces, the first positive is at the first face.
    for rest in product(range(2), repeat=len(positives) - 1):
        z = np.zeros(len(y), dtype=int)
        z[positives[1:]] = rest
        values.append(program.set(Z=cpm.assignment_matrix(y, 2, z)).solve().objective)
    return min(values)


@CHECKS.add(CPM)
def _branch_and_bound(seed: int) -> Pairs:
    """Compare branch and bound with an enumeration of all assignments.

    T31a | = 1e-6 | the unconstrained form after eq. (6) | CPM: branch and bound = the least over all
        assignments, one by one
    """
    X, y = clusters(seed, n=14, spread=0.8)
    program = cpm.fixed_assignment(X, y, 2, np.zeros(14, dtype=int))
    yield solve_cpm_global(X, y, 1.0, 2, tol=1e-9).objective, _least_of_two_faces(program, y)


@CHECKS.add(CPM)
def _mixed_integer(seed: int) -> Pairs:
    """Compare the mixed-integer programs, by SCIP, with an enumeration, or with branch and bound.

    T31c | = 1e-6 | eq. (6) and the worst-case margin beside it; the programs are derived | CPM: the integer
        program with loss="max" or the worst-case margin = the least over assignments
    T31b | = 1e-6 | the unconstrained form after eq. (6); the program is derived | CPM: the mixed-integer
        program, solved by SCIP, = branch and bound
    """
    X, y = clusters(seed, n=10, spread=0.8)
    by_program, by_assignment = [], []
    forms: tuple[tuple[Any, Any], ...] = (("max", "total"), ("sum", "worst"), ("max", "worst"))
    for loss, margin in forms:
        by_program.append(mixed_integer(X, y, 2, loss=loss, margin=margin).solve().objective)
        program = cpm.fixed_assignment(X, y, 2, np.zeros(len(y), dtype=int), 1.0, loss, margin)
        by_assignment.append(_least_of_two_faces(program, y))
    yield by_program, by_assignment
    X, y = clusters(seed, n=14, spread=0.8)
    best = solve_cpm_global(X, y, 1.0, 2, tol=1e-9).objective
    yield mixed_integer(X, y, 2).solve().objective, best


def _entropy(faces: NDArray[Any]) -> float:
    return float(np.log(perplexity(faces))) if len(faces) else 0.0


def _assign_literally(unadjusted: dict[int, int], i: int, scores: Vector, min_entropy: float) -> int:
    """Algorithm 2 as printed, with its dictionary UNADJ, and the natural face if K_inc is empty."""
    before, natural = dict(unadjusted), int(scores.argmax())
    unadjusted[i] = natural
    if _entropy(np.array(list(unadjusted.values()))) >= min_entropy - 1e-12:
        return natural
    entropy = _entropy(np.array(list(before.values()), dtype=np.int64))
    increasing = [
        k
        for k in range(len(scores))
        if before and _entropy(np.array(list({**before, i: k}.values()))) > entropy + 1e-12
    ]
    return max(increasing, key=lambda k: scores[k]) if increasing else natural


@CHECKS.add(CPM)
def _assign(seed: int) -> Pairs:
    """Compare the two ways to assign; if no face would raise the entropy, both return the natural face.

    T33 | = 0.0 | Algorithm 2 | CPM: ASSIGN by counts of the faces = ASSIGN with its dictionary, in 300 calls
    """
    rng, n, K, min_entropy = generator(seed), 30, 4, float(np.log(3.3))
    dictionary: dict[int, int] = {}
    unadjusted, counts, tally = np.full(n, -1), np.zeros(K, dtype=np.int64), np.zeros(5)
    phi = np.append(0.0, np.arange(1.0, n + 2) * np.log(np.arange(1.0, n + 2)))
    by_counts, literal = [], []
    for _ in range(300):
        i, scores = int(rng.integers(n)), rng.normal(size=K) + np.array([2.0, 0.0, 0.0, 0.0])
        natural = int(scores.argmax())
        by_counts.append(assign(scores, natural, i, min_entropy, unadjusted, counts, phi, tally))
        literal.append(_assign_literally(dictionary, i, scores, min_entropy))
    yield by_counts, literal


@CHECKS.add(CPM)
def _margins(seed: int) -> Pairs:
    """Compare (2) with (3), which the paper takes for equivalent, and (3) with (4)-(5), on two examples.

    N21 | < 1e-3 | eq. (2) and (3) | CPM: faces of (2) divided by their ζ_k violate (3), for a negative with
        another face of largest score
    N22 | > 1e-2 | eq. (3) and (4)-(5) | CPM, hard: of two assignments, the one with the larger Σ 1/‖W_k‖ also
        has the larger Σ ‖W_k‖²
    """
    del seed
    W, zeta, x = np.eye(2), np.array([0.2, 1.0]), np.array([-0.3, -0.6])  # (2): −W₁·x = 0.3 ≥ 0.2
    assert (W @ x).argmax() == 0
    assert -W[0] @ x >= zeta[0]
    scaled = (W / zeta[:, None]) @ x
    yield -scaled[scaled.argmax()], 1.0

    positives = [[3.0, -2.0], [-4.0, -2.0], [-1.0, 3.0], [0.0, -4.0], [-1.0, 1.0]]
    X, y = np.array([*positives, [1.0, 1.0], [1.0, -1.0]]), np.array([1] * 5 + [-1] * 2)
    # The assignment with the largest total margin of all, and the one with the least norms.
    largest, least = (
        cpm_margins.hard_total(X, y, 2, [*z, 0, 0]).solve()["W"] for z in ([0, 1, 1, 0, 1], [0, 1, 1, 1, 1])
    )
    total_margins = [(1.0 / np.linalg.norm(W, axis=1)).sum() for W in (largest, least)]
    assert total_margins[0] > total_margins[1]
    yield (largest**2).sum(), (least**2).sum()
