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
from polyopt.crosschecks.registry import CPM, Pair, Registry, Vector
from polyopt.crosschecks.samples import blobs, clusters, generator
from polyopt.optim.rounds import run_rounds

CHECKS = Registry("cpm")


@CHECKS.add("T27", f"{CPM}, eq. (6)", 1e-6)
def one_face_is_an_svm(seed: int) -> Pair:
    """CPM, K = 1: its value = 2 · SVM of cost C/2 on x̃ = (x, 1), the bias penalised (by liblinear)."""
    X, y, C = blobs(seed)
    lifted = cpm.lift(X)
    machine = LinearSVC(loss="hinge", C=C / 2.0, fit_intercept=False, tol=1e-10, max_iter=1_000_000)
    w = machine.fit(lifted, y).coef_.ravel()
    hinge = np.maximum(0.0, 1.0 - y * (lifted @ w))
    twice = 2.0 * (0.5 * w @ w + C / 2.0 * hinge.sum())
    return cpm.fixed_assignment(X, y, 1, np.zeros(len(y), dtype=int), C).solve().objective, twice


def _rounds(seed: int, loss: Any) -> Pair:
    """Return the objective after and before each round of alternating minimisation, from random starts."""
    X, y = clusters(seed, spread=0.8)
    problem, rng = PolytopeProblem(X, y, np.ones(len(y)), 3, loss), generator(seed)
    after: list[float] = []
    before: list[float] = []
    for _ in range(4):
        start = np.where(y > 0, np.argmax(X @ rng.normal(size=(2, 3)), axis=1), -1)
        values = [record["objective"] for record in run_rounds(problem, start).history]
        after, before = after + values[1:], before + values[:-1]
    return after, before


@CHECKS.add("T28a", f"{CPM}, the unconstrained form after eq. (6)", 1e-7, "≤")
def alternation_descends(seed: int) -> Pair:
    """CPM: no round of alternating minimisation raises the sum form of (6)."""
    return _rounds(seed, "sum")


@CHECKS.add("T28b", f"{CPM}, eq. (6)", 1e-7, "≤")
def alternation_descends_with_the_worst_face(seed: int) -> Pair:
    """CPM: no round of alternating minimisation raises (6) as printed."""
    return _rounds(seed, "max")


@CHECKS.add("T29", f"{CPM}, the unconstrained form after eq. (6)", 1e-7)
def faces_are_independent(seed: int) -> Pair:
    """CPM, sum form: its value for a fixed assignment = Σ_k of the values of the faces.

    Objective and bound of the dual coordinate solver, which solves each face alone, are equal to it too.
    """
    X, y = clusters(seed, spread=0.8)
    z = generator(seed).integers(3, size=len(y))
    faces = [cpm.face(X, y, costs).solve().objective for costs in cpm.assignment_matrix(y, 3, z).T]
    fast = solve_cpm_dual(X, y, 1.0, 3, z, tol=1e-9)
    total = cpm.fixed_assignment(X, y, 3, z).solve().objective
    return [total, fast.objective, float(fast.bound or np.nan)], sum(faces)


@CHECKS.add("T30", f"{CPM}, eq. (6) and the form after it, which the paper takes for one", 1e-12, "≤")
def losses_in_order(seed: int) -> Pair:
    """CPM: J_max(W) ≤ J_sum(W) for any faces W."""
    X, y = clusters(seed, spread=0.8)
    many = generator(seed).normal(size=(50, 3, 3))
    worst, total = ([cpm.objective(X, y, W, 1.0, loss) for W in many] for loss in ("max", "sum"))
    return worst, total


@CHECKS.add("T32", f"{CPM}, eq. (6), for one face", 1e-8, "≥")
def more_positives_cost_more(seed: int) -> Pair:
    """CPM: V(P ∪ {i}) ≥ V(P): one more positive at a face costs no less."""
    X, y = clusters(seed, spread=0.8)
    positives, program = np.flatnonzero(y > 0), cpm.face(X, y)
    values = []
    for count in range(7):
        costs = np.where(y < 0, 1.0, 0.0)
        costs[positives[:count]] = 1.0
        values.append(program.set(C=costs).solve().objective)
    return values[1:], values[:-1]


@CHECKS.add("N06", f"{CPM}, eq. (6) and the form after it", 1e-3, "<")
def max_form_is_not_the_sum_form(seed: int) -> Pair:
    """CPM, K = 3, overlapping classes: the value of (6) as printed is below that of the sum form.

    The paper says that the one can be expressed as the other.
    """
    X, y = clusters(seed, spread=1.2)
    z = np.arange(len(y)) % 3
    literal, total = (
        cpm.fixed_assignment(X, y, 3, z, 1.0, loss).solve().objective for loss in ("max", "sum")
    )
    return literal, total


@CHECKS.add("N07", f"{CPM}, eq. (6)", 1e-6, ">")
def bias_is_penalised(seed: int) -> Pair:
    """CPM, K = 1: its value is above that of twice the SVM with a bias that is not penalised."""
    X, y, C = blobs(seed)
    penalised = cpm.fixed_assignment(X, y, 1, np.zeros(len(y), dtype=int), C).solve().objective
    return penalised, 2.0 * svm.primal(X, y, C / 2.0).solve().objective


@CHECKS.add("T31a", f"{CPM}, the unconstrained form after eq. (6)", 1e-6)
def branch_and_bound(seed: int) -> Pair:
    """CPM: branch and bound = the least over all assignments, one by one."""
    X, y = clusters(seed, n=14, spread=0.8)
    program = cpm.fixed_assignment(X, y, 2, np.zeros(14, dtype=int))
    return solve_cpm_global(X, y, 1.0, 2, tol=1e-9).objective, _least_of_two_faces(program, y)


def _least_of_two_faces(program: Program, y: Vector) -> float:
    """Return the least optimum of a fixed-assignment program over all assignments to two faces."""
    positives, values = np.flatnonzero(y > 0), []
    # By symmetry of the faces, the first positive is at the first face.
    for rest in product(range(2), repeat=len(positives) - 1):
        z = np.zeros(len(y), dtype=int)
        z[positives[1:]] = rest
        values.append(program.set(Z=cpm.assignment_matrix(y, 2, z)).solve().objective)
    return min(values)


@CHECKS.add("T31c", f"{CPM}, eq. (6) and the worst-case margin beside it; the programs are derived", 1e-6)
def coupled_mixed_integer_programs(seed: int) -> Pair:
    """CPM: the integer program with loss="max" or the worst-case margin = the least over assignments."""
    X, y = clusters(seed, n=10, spread=0.8)
    by_program, by_assignment = [], []
    forms: tuple[tuple[Any, Any], ...] = (("max", "total"), ("sum", "worst"), ("max", "worst"))
    for loss, margin in forms:
        by_program.append(mixed_integer(X, y, 2, loss=loss, margin=margin).solve().objective)
        program = cpm.fixed_assignment(X, y, 2, np.zeros(len(y), dtype=int), 1.0, loss, margin)
        by_assignment.append(_least_of_two_faces(program, y))
    return by_program, by_assignment


@CHECKS.add("T31b", f"{CPM}, the unconstrained form after eq. (6); the program is derived", 1e-6)
def mixed_integer_program(seed: int) -> Pair:
    """CPM: the mixed-integer program, solved by SCIP, = branch and bound."""
    X, y = clusters(seed, n=14, spread=0.8)
    program = mixed_integer(X, y, 2)
    return program.solve().objective, solve_cpm_global(X, y, 1.0, 2, tol=1e-9).objective


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


@CHECKS.add("T33", f"{CPM}, Algorithm 2", 0.0)
def assignment_by_counts(seed: int) -> Pair:
    """CPM: ASSIGN by counts of the faces = ASSIGN with its dictionary, in 300 calls.

    If no face would raise the entropy, both return the natural face.
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
    return by_counts, literal


@CHECKS.add("N21", f"{CPM}, eq. (2) and (3)", 1e-3, "<")
def dividing_by_the_margins_changes_the_best_face(seed: int) -> Pair:
    """CPM: faces of (2) divided by their ζ_k violate (3), for a negative with another face of largest score.

    The paper says that the programs are equivalent.
    """
    del seed
    W, zeta, x = np.eye(2), np.array([0.2, 1.0]), np.array([-0.3, -0.6])  # (2): −W₁·x = 0.3 ≥ 0.2
    assert (W @ x).argmax() == 0
    assert -W[0] @ x >= zeta[0]
    scaled = (W / zeta[:, None]) @ x
    return -scaled[scaled.argmax()], 1.0


@CHECKS.add("N22", f"{CPM}, eq. (3) and (4)-(5)", 1e-2, ">")
def another_assignment_after_smoothing(seed: int) -> Pair:
    """CPM, hard: of two assignments, the one with the larger Σ 1/‖W_k‖ also has the larger Σ ‖W_k‖²."""
    del seed
    positives = [[3.0, -2.0], [-4.0, -2.0], [-1.0, 3.0], [0.0, -4.0], [-1.0, 1.0]]
    X, y = np.array([*positives, [1.0, 1.0], [1.0, -1.0]]), np.array([1] * 5 + [-1] * 2)
    # The assignment with the largest total margin of all, and the one with the least norms.
    largest, least = (
        cpm_margins.hard_total(X, y, 2, [*z, 0, 0]).solve()["W"] for z in ([0, 1, 1, 0, 1], [0, 1, 1, 1, 1])
    )
    total_margins = [(1.0 / np.linalg.norm(W, axis=1)).sum() for W in (largest, least)]
    assert total_margins[0] > total_margins[1]
    return (largest**2).sum(), (least**2).sum()
