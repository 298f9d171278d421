"""The Convex Polytope Machine for a fixed assignment: its two losses, its faces, its multipliers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.svm import LinearSVC

from formulations import cpm, svm
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.cpm.face_dual import solve_cpm_dual
from polyopt.cpm.sgd import solve_cpm_sgd
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, clusters, generator
from polyopt.optim.rounds import run_rounds

if TYPE_CHECKING:
    from formulations.language.solution import Solution
    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("cpm")


@CHECKS.add("T27", 1e-6)
def one_face_is_an_svm(seed: int) -> Pair:
    """CPM, K = 1: its value = 2 · SVM of cost C/2 on x̃ = (x, 1), the bias penalised (by liblinear).

    Source: Kantchelian et al. (2014), eq. (6).
    """
    X, y, C = blobs(seed)
    lifted = cpm.lift(X)
    machine = LinearSVC(loss="hinge", C=C / 2.0, fit_intercept=False, tol=1e-10, max_iter=1_000_000)
    w = machine.fit(lifted, y).coef_.ravel()
    hinge = np.maximum(0.0, 1.0 - y * (lifted @ w))
    twice = 2.0 * (0.5 * w @ w + C / 2.0 * hinge.sum())
    return cpm.fixed_assignment(X, y, 1, np.zeros(len(y), dtype=int), C).solve().objective, twice


def _rounds(seed: int, loss: Any) -> Pair:
    """The objective after and before each round of alternating minimisation, from some random starts."""
    X, y = clusters(seed, spread=0.8)
    problem, drawn = PolytopeProblem(X, y, np.ones(len(y)), 3, loss), generator(seed)
    after: list[float] = []
    before: list[float] = []
    for _ in range(4):
        start = np.where(y > 0, np.argmax(X @ drawn.normal(size=(2, 3)), axis=1), -1)
        values = [record["objective"] for record in run_rounds(problem, start).history]
        after, before = after + values[1:], before + values[:-1]
    return after, before


@CHECKS.add("T28a", 1e-7, "≤")
def alternation_descends(seed: int) -> Pair:
    """CPM: no round of alternating minimisation raises the sum form of (6).

    Source: Kantchelian et al. (2014), the unconstrained form after eq. (6).
    """
    return _rounds(seed, "sum")


@CHECKS.add("T28b", 1e-7, "≤")
def alternation_descends_with_the_worst_face(seed: int) -> Pair:
    """CPM: no round of alternating minimisation raises (6) as printed.

    Source: Kantchelian et al. (2014), eq. (6).
    """
    return _rounds(seed, "max")


@CHECKS.add("T29", 1e-7)
def faces_are_independent(seed: int) -> Pair:
    """CPM, sum form: its value for a fixed assignment = Σ_k of the values of the faces.

    The dual coordinate solver, which takes the faces apart, comes to it from both sides.

    Source: Kantchelian et al. (2014), the unconstrained form after eq. (6).
    """
    X, y = clusters(seed, spread=0.8)
    z = generator(seed).integers(3, size=len(y))
    faces = [cpm.face(X, y, costs).solve().objective for costs in cpm.answers(y, 3, z).T]
    fast = solve_cpm_dual(X, y, 1.0, 3, z, tol=1e-9)
    whole = cpm.fixed_assignment(X, y, 3, z).solve().objective
    return [whole, fast.objective, float(fast.bound or np.nan)], sum(faces)


@CHECKS.add("T30", 1e-12, "≤")
def losses_in_order(seed: int) -> Pair:
    """CPM: J_max(W) ≤ J_sum(W) for any faces W.

    Source: Kantchelian et al. (2014), eq. (6) and the form after it, which the paper takes for one.
    """
    X, y = clusters(seed, spread=0.8)
    many = generator(seed).normal(size=(50, 3, 3))
    worst, total = ([cpm.objective(X, y, W, 1.0, loss) for W in many] for loss in ("max", "sum"))
    return worst, total


@CHECKS.add("T32", 1e-8, "≥")
def more_positives_cost_more(seed: int) -> Pair:
    """CPM: V(P ∪ {i}) ≥ V(P): a face that answers for one positive more costs no less.

    Source: Kantchelian et al. (2014), eq. (6), for one face.
    """
    X, y = clusters(seed, spread=0.8)
    positives, program = np.flatnonzero(y > 0), cpm.face(X, y)
    values = []
    for count in range(7):
        costs = np.where(y < 0, 1.0, 0.0)
        costs[positives[:count]] = 1.0
        values.append(program.set(C=costs).solve().objective)
    return values[1:], values[:-1]


@CHECKS.add("X10", 1e-9, "≤")
def any_multipliers_bound(seed: int) -> Pair:
    """CPM, one face: 1'α − ‖w‖² with w = ½ Σ α_i y_i x̃_i bounds the optimum at any α in its box.

    Source: the dual of Kantchelian et al. (2014), eq. (6), for one face; derived.
    """
    X, y = clusters(seed)
    dual, drawn = cpm.face_dual(X, y), generator(seed)
    best = dual.solve()["alpha"]
    points = [best + scale * drawn.normal(size=len(y)) for scale in np.geomspace(1e-6, 1.0, 30)]
    values = [dual.value({"alpha": np.clip(point, 0.0, 1.0)}) for point in points]
    return values, cpm.face(X, y).solve().objective


def _worst_case(seed: int) -> tuple[Vector, Vector, Solution]:
    X, y = clusters(seed)
    z = cpm.natural_assignment(X, y, generator(seed).normal(size=(3, 3)))
    return X, y, cpm.fixed_assignment(X, y, 3, z, margin="worst").solve()


@CHECKS.add("X11", 1e-6)
def shares_of_the_margin(seed: int) -> Pair:
    """CPM, worst-case margin: Σ θ_k = 1.

    Source: Kantchelian et al. (2014), the worst-case margin beside eq. (6); its dual is derived.
    """
    return _worst_case(seed)[2].duals["norm"].sum(), 1.0


@CHECKS.add("X12", 1e-5)
def faces_of_the_worst_margin(seed: int) -> Pair:
    """CPM, worst-case margin: 2θ_k W_k = v_k = Σ α_ik y_i x̃_i.

    Source: Kantchelian et al. (2014), the worst-case margin beside eq. (6); its dual is derived.
    """
    X, y, found = _worst_case(seed)
    pulls = (cpm.lift(X).T @ (found.duals["margin"] * y[:, None])).T
    return 2.0 * found.duals["norm"][:, None] * found["W"], pulls


@CHECKS.add("X29", 1e-2)
def cost_of_the_stochastic_method(seed: int) -> Pair:
    """CPM, K = 1: Algorithm 1 with λ ends at the optimum of the sum form with C = 2/(nλ).

    Its λ is not the 1/C of the unconstrained form.

    Source: Kantchelian et al. (2014), Algorithm 1.
    """
    X, y = clusters(seed)
    C = np.full(len(y), 0.5)
    found = solve_cpm_sgd(X, y, C, 1, max_iter=2000, tol=1e-6, seed=seed)
    return found.objective, cpm.face(X, y, C).solve().objective


@CHECKS.add("X14", 1e-12)
def all_inside(seed: int) -> Pair:
    """CPM, sum form: with every face at (0, …, 0, −1), all samples are inside and J = K + 2 C n₊.

    With overlap, single starts end there: hence many starts.

    Source: Kantchelian et al. (2014), the unconstrained form after eq. (6).
    """
    X, y = clusters(seed)
    W = np.tile([0.0, 0.0, -1.0], (3, 1))
    return cpm.objective(X, y, W, 0.7), 3.0 + 2.0 * 0.7 * (y > 0).sum()


@CHECKS.add("N06", 1e-3, "<")
def two_programs_behind_one_number(seed: int) -> Pair:
    """CPM, K = 3, overlapping classes: the value of (6) as printed is below that of the sum form.

    The paper says that the one can be expressed as the other.

    Source: Kantchelian et al. (2014), eq. (6) and the form after it.
    """
    X, y = clusters(seed, spread=1.2)
    z = np.arange(len(y)) % 3
    literal, total = (
        cpm.fixed_assignment(X, y, 3, z, 1.0, loss).solve().objective for loss in ("max", "sum")
    )
    return literal, total


@CHECKS.add("N07", 1e-6, ">")
def not_the_free_bias(seed: int) -> Pair:
    """CPM, K = 1: its value is above that of twice the SVM with a bias that is not penalised.

    Source: Kantchelian et al. (2014), eq. (6).
    """
    X, y, C = blobs(seed)
    one = cpm.fixed_assignment(X, y, 1, np.zeros(len(y), dtype=int), C).solve().objective
    return one, 2.0 * svm.primal(X, y, C / 2.0).solve().objective
