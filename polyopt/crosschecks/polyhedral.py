"""Positives inside: the Polyceptron, PC-SLP, SPLA1, PLUME; and logistic polytopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import entr, expit

from formulations import class_faces as faces
from formulations import logistic_polytopes, mixture, pc_slp, plume, polyceptron, polyhedral, polytope, spla1
from formulations.class_faces import Owners
from formulations.language.clock import Clock
from formulations.language.program import Program
from formulations.polyhedral import scores
from polyopt.crosschecks.registry import CPM, PC_SLP, PLUME, POLYCEPTRON, SPLA1, Pair, Registry, Vector
from polyopt.crosschecks.samples import blobs, central_gradient, clusters, generator
from polyopt.linalg.rows import as_rows
from polyopt.polyhedral.logistic_descent import descend
from polyopt.polyhedral.logistic_loss import FaceLoss
from polyopt.polyhedral.logistic_polytopes import random_start, solve_logistic_polytopes
from polyopt.polyhedral.plume import minimise
from polyopt.polyhedral.polyceptron import OnlinePolyceptron, solve_batch
from polyopt.polyhedral.spla1 import LogisticCells

CHECKS = Registry("polyhedral")


def _sample(seed: int) -> tuple[Vector, Vector, Vector]:
    """Overlapping clusters, labels that put the middle inside, and three random faces."""
    X, y = clusters(seed, spread=0.8)
    return X, -y, generator(seed).normal(size=(3, 3))


@CHECKS.add("T34", f"{POLYCEPTRON}, eq. (3); {CPM}, eq. (6)", 1e-13)
def mirrored_faces(seed: int) -> Pair:
    """Mirrored faces: min_k W_k·x̃ = −max_k(−W_k·x̃), and the margin errors of both machines agree.

    The exact Polyceptron's margin error of W is the CPM's sum form at −W, with the labels turned around and
    without the norm.
    """
    X, y, W = _sample(seed)
    mirrored = polytope.lift(X) @ (-W).T
    error = polytope.objective(X, -y, -W) - (W**2).sum()
    return (
        np.append(polyhedral.scores(X, W).min(axis=1), polyhedral.margin_error(X, y, W)),
        np.append(-mirrored.max(axis=1), error),
    )


@CHECKS.add("T35a", f"{POLYCEPTRON}, eq. (3)", 1e-9)
def homogeneous_criterion(seed: int) -> Pair:
    """Polyceptron: E_P(tW) = t E_P(W) for t > 0."""
    X, y, W = _sample(seed)
    return polyhedral.criterion(X, y, 2.5 * W), 2.5 * polyhedral.criterion(X, y, W)


@CHECKS.add("T35b", f"{POLYCEPTRON}, eq. (3)", 0.0)
def criterion_of_nothing(seed: int) -> Pair:
    """Polyceptron: E_P(0) = 0, so W = 0 minimises the criterion."""
    X, y, W = _sample(seed)
    return polyhedral.criterion(X, y, 0.0 * W), 0.0


@CHECKS.add("X15", f"{POLYCEPTRON}, eq. (4)", 1e-12)
def empty_subproblem(seed: int) -> Pair:
    """Polyceptron: the linear program of a face without a margin has the value 0, whatever the data."""
    X, y, _ = blobs(seed)
    return polyceptron.cell(X, y, margin=0.0).solve().objective, 0.0


def _slopes(seed: int) -> tuple[Vector, tuple[Vector, Vector, Vector]]:
    """Return the gradient of E_P by central differences, and the point."""
    X, y, W = _sample(seed)
    return central_gradient(lambda V: polyhedral.criterion(X, y, V), W, 1e-6), (X, y, W)


@CHECKS.add("X16", f"{POLYCEPTRON}, eq. (3)", 1e-6)
def gradient_of_the_misclassified(seed: int) -> Pair:
    """Polyceptron: ∂E_P/∂w_k = −Σ y_i x̃_i over the misclassified samples of its cell (by differences)."""
    slopes, (X, y, W) = _slopes(seed)
    return polyhedral.criterion_gradient(X, y, W), slopes


@CHECKS.add("N08", f"{POLYCEPTRON}, Algorithm 1", 0.1, ">")
def printed_update(seed: int) -> Pair:
    """Polyceptron: the printed update, over all samples of a cell, is no gradient of E_P.

    What is compared with 0 is the relative distance.
    """
    slopes, (X, y, W) = _slopes(seed)
    own = polyhedral.cells(X, W)[:, None] == np.arange(len(W))
    printed = -polyhedral.pull(X, y[:, None] * own)
    return np.linalg.norm(printed - slopes) / np.linalg.norm(slopes), 0.0


@CHECKS.add("N09", f"{POLYCEPTRON}, Algorithm 1", 0.0)
def printed_loop(seed: int) -> Pair:
    """Polyceptron: Algorithm 1 as printed, “while … < γ”, makes no iteration where the corrected one does."""
    X, y, W = _sample(seed)
    ones = np.ones(len(y))
    updates = [
        solve_batch(X, y, ones, W, threshold=1.0, rule=rule, max_iter=20).history
        for rule in ("printed", "corrected")
    ]
    return [len(updates[0]) - 1, float(len(updates[1]) > 1)], [0.0, 1.0]


def _descent(W: Vector, step: Callable[[Vector], Vector], value: Callable[[Vector], float]) -> Pair:
    """Return the values after and before each of some steps."""
    values = [value(W)]
    for _ in range(6):
        W = step(W)
        values.append(value(W))
    return values[1:], values[:-1]


def _descent_of(
    program: Program, name: str, choice: Callable[..., Vector], error: Callable[..., float], X: Vector,
    y: Vector, W: Vector,
) -> Pair:  # fmt: skip
    """Return the values of a program of three faces, in which `name` is the choice that fits the cells."""

    def step(W: Vector) -> Vector:
        return program.set(**{name: choice(y, 3, polyhedral.cells(X, W))}).solve()["W"]

    return _descent(W, step, lambda W: error(X, y, W))


@CHECKS.add("X17", f"{POLYCEPTRON}, eq. (3), (4), amended", 1e-8, "≤")
def exact_polyceptron_descends(seed: int) -> Pair:
    """Polyceptron, exact, every positive in every program: no step raises the margin error."""
    X, y, W = _sample(seed)
    program = polyceptron.fixed_assignment(X, y, 3, polyhedral.cells(X, W))
    return _descent_of(program, "Z", polyceptron.assignment_matrix, polyhedral.margin_error, X, y, W)


@CHECKS.add("X18", f"{POLYCEPTRON}, Algorithm 2", 1e-12)
def online_step(seed: int) -> Pair:
    """Polyceptron, online: a step lowers the sample's own −y w·x̃ by exactly η‖x̃‖²."""
    X, y, W = _sample(seed)
    lifted, face = polytope.lift(X), polyhedral.cells(X, W)
    wrong = int(np.flatnonzero(y * polyhedral.scores(X, W).min(axis=1) < 0)[0])
    machine = OnlinePolyceptron(W)
    machine.show(as_rows(X[[wrong]]), y[[wrong]], np.ones(1))
    x, k = lifted[wrong], face[wrong]
    return -y[wrong] * (machine.faces[k] - W[k]) @ x, -x @ x


@CHECKS.add("T36a", f"{PC_SLP}, reconstructed", 1e-8, "≤")
def successive_programs_descend(seed: int) -> Pair:
    """PC-SLP: no linear program raises the separation error z."""
    X, y, W = _sample(seed)
    program = pc_slp.step(X, y, 3, polyhedral.cells(X, W))
    return _descent_of(program, "P", pc_slp.choice, polyhedral.separation_error, X, y, W)


@CHECKS.add("T36b", f"{PC_SLP}, reconstructed", 1e-12)
def error_of_nothing(seed: int) -> Pair:
    """PC-SLP: z(0) = z(all inside) = z(all outside) = 2."""
    X, y, _ = _sample(seed)
    trivial = [np.tile([0.0, 0.0, b], (3, 1)) for b in (0.0, 1.0, -1.0)]
    return [polyhedral.separation_error(X, y, W) for W in trivial], 2.0


@CHECKS.add("X19", f"{PC_SLP}, reconstructed; the dual is derived", 1e-7)
def duality_of_a_step(seed: int) -> Pair:
    """PC-SLP: value of a step's linear program = value of its dual = z at the faces it stays at."""
    X, y, W = _sample(seed)
    for _ in range(20):
        program = pc_slp.step(X, y, 3, polyhedral.cells(X, W))
        found = program.solve()
        if found.objective >= polyhedral.separation_error(X, y, W) * (1.0 - 1e-9):
            break
        W = found["W"]
    dual = pc_slp.step_dual(X, y, 3, polyhedral.cells(X, W)).solve()
    return [found.objective, dual.objective], polyhedral.separation_error(X, y, W)


@CHECKS.add("X20", f"{SPLA1}, reconstructed; the dual is derived", 1e-7)
def duality_of_a_cell(seed: int) -> Pair:
    """SPLA1: value of a cell's logistic regression = value of its dual with entropies."""
    X, y, _ = blobs(seed)
    arguments = (X, y, 1.0, 1.0)
    return spla1.cell_dual(*arguments).solve().objective, spla1.cell(*arguments).solve().objective


def _alternation(seed: int, positives: Any) -> tuple[Vector, Vector]:
    """Return values of SPLA1 after and before each step, from several starts."""
    X, y, _ = _sample(seed)
    problem = LogisticCells(X, y, np.ones(len(y)), 3, ridge=1e-2, positives=positives)
    pairs = [
        _descent(W, lambda W: problem.step(W, None)["W"], problem.value)
        for W in generator(seed).normal(size=(5, 3, 3))
    ]
    after, before = np.array(pairs, dtype=float).transpose(1, 0, 2).reshape(2, -1)
    return after, before


@CHECKS.add("X21", f"{SPLA1}, reconstructed and amended", 1e-9, "≤")
def all_positives_descend(seed: int) -> Pair:
    """SPLA1 with every positive in the program of every face: no step raises the loss."""
    return _alternation(seed, "all")


@CHECKS.add("N10", f"{SPLA1}, reconstructed", 1e-3, ">")
def own_cells_do_not_descend(seed: int) -> Pair:
    """SPLA1 with each positive in the program of its cell alone: some step raises the loss.

    What is compared with 0 is the largest relative rise.
    """
    after, before = _alternation(seed, "cell")
    return ((after - before) / before).max(), 0.0


# One sharpness for each seed, either side of 1, where the gate's formula changes.
_GAMMAS = (2.0, 0.5, 6.0)
_RIDGE = 1e-2  # positive, so that each program has one optimum


def _mixture(seed: int, n_faces: int = 3) -> tuple[Vector, Vector, Vector, float]:
    """Samples, labels that put the middle inside, random faces, and a sharpness of the gate."""
    X, y = clusters(seed, spread=0.8)
    return X, -y, generator(seed).normal(size=(n_faces, 3)), _GAMMAS[seed % len(_GAMMAS)]


@CHECKS.add("T43", f"{PLUME}, eq. (3), (6), (7)", 1e-9)
def likelihood_and_expectation(seed: int) -> Pair:
    """PLUME: log-likelihood(W) = Q(W; W) + entropy of the responsibilities."""
    X, y, W, gamma = _mixture(seed)
    R = mixture.responsibilities(X, y, W, gamma)
    return mixture.loss(X, y, W, gamma), mixture.expected(X, y, W, R, gamma) - entr(R).sum()


@CHECKS.add("T44", f"{PLUME}, eq. (7); the Hessian is derived", 1e-8, "≥")
def concave_expectation(seed: int) -> Pair:
    """PLUME: Q is concave in W: no eigenvalue of the Hessian of −Q is negative."""
    X, y, W, gamma = _mixture(seed)
    R = mixture.responsibilities(X, y, W, gamma)
    other = generator(seed + 1).normal(size=W.shape)
    return np.linalg.eigvalsh(mixture.hessian(X, y, other, R, gamma)).min(), 0.0


@CHECKS.add("T45", f"{PLUME}, eq. (7), with a ridge", 1e-6)
def maximisation(seed: int) -> Pair:
    """PLUME: the M-step by Newton's method and by L-BFGS = the explicit convex program."""
    X, y, W, gamma = _mixture(seed)
    R, ones = mixture.responsibilities(X, y, W, gamma), np.ones(len(y))
    fast = [
        minimise(X, y, ones, R, W, gamma=gamma, ridge=_RIDGE, method=method, max_iter=2000).objective
        for method in ("newton", "bfgs")
    ]
    return fast, plume.m_step(X, y, R, gamma, 1.0, _RIDGE).solve().objective


def _em(X: Vector, y: Vector, W: Vector, gamma: float, steps: int) -> tuple[Vector, Vector]:
    """Return the losses along EM, one Newton step in each M-step, and the faces at its end."""
    ones, values = np.ones(len(y)), [mixture.loss(X, y, W, gamma, 1.0, _RIDGE)]
    for _ in range(steps):
        R = mixture.responsibilities(X, y, W, gamma)
        W = minimise(X, y, ones, R, W, gamma=gamma, ridge=_RIDGE, max_iter=1)["W"]
        values.append(mixture.loss(X, y, W, gamma, 1.0, _RIDGE))
    return np.array(values), W


@CHECKS.add("T46", f"{PLUME}, Algorithm 1", 1e-10, "≤")
def em_descends(seed: int) -> Pair:
    """PLUME: no step of EM lowers the penalised log-likelihood (its negative is shown)."""
    X, y, W, gamma = _mixture(seed)
    values, _ = _em(X, y, W, gamma, 15)
    return values[1:], values[:-1]


@CHECKS.add("T47", f"{PLUME}, eq. (3), (4)", 1e-8)
def sharp_gate(seed: int) -> Pair:
    """PLUME, γ → ∞: P(+1|x) → σ(min_k w_k·x̃), the model of SPLA1."""
    X, _, W, _ = _mixture(seed)
    return mixture.posterior(X, W, 1e6), expit(scores(X, W).min(axis=1))


@CHECKS.add("T48", f"{PLUME}, eq. (3), at K = 1", 1e-6)
def one_plume_face(seed: int) -> Pair:
    """PLUME, K = 1 = ridge logistic regression, which EM's M-step solves at once."""
    X, y, W, gamma = _mixture(seed, n_faces=1)
    ones = np.ones(len(y))
    found = minimise(X, y, ones, np.ones((len(y), 1)), W, gamma=gamma, ridge=_RIDGE)
    regression = spla1.cell(X, y, 1.0, _RIDGE).solve().objective
    return mixture.loss(X, y, found["W"], gamma, 1.0, _RIDGE), regression


@CHECKS.add("X24", f"{PLUME}, eq. (3), (4); derived", 0.0, "≤")
def distance_from_the_limit(seed: int) -> Pair:
    """PLUME: |P(+1|x) − σ(h)| ≤ (K−1) e^(−γ·gap), gap being how far the second score is above the least."""
    X, _, W, _ = _mixture(seed)
    s, gamma = np.sort(scores(X, W), axis=1), 3.0
    return (
        np.abs(mixture.posterior(X, W, gamma) - expit(s[:, 0])),
        2.0 * np.exp(-gamma * (s[:, 1] - s[:, 0])),
    )


@CHECKS.add("X25", f"{PLUME}, eq. (8); Fisher's identity", 1e-9)
def fisher_identity(seed: int) -> Pair:
    """PLUME: the gradient of the log-likelihood at W = that of Q(·; W) at W."""
    X, y, W, gamma = _mixture(seed)
    R = mixture.responsibilities(X, y, W, gamma)
    own = mixture.value_and_gradient(X, y, W, None, gamma)[1]
    return own, mixture.value_and_gradient(X, y, W, R, gamma)[1]


@CHECKS.add("X26", f"{PLUME}, eq. (8)", 1e-6)
def gradient_of_q(seed: int) -> Pair:
    """PLUME: the gradient (8) = central differences of Q."""
    X, y, W, gamma = _mixture(seed)
    R = mixture.responsibilities(X, y, W, gamma)
    slopes = central_gradient(lambda V: mixture.expected(X, y, V, R, gamma), W, 1e-5)
    return mixture.value_and_gradient(X, y, W, R, gamma)[1], slopes


@CHECKS.add("X27", f"{PLUME}, eq. (3), (4)", 1e-12)
def flat_gate(seed: int) -> Pair:
    """PLUME, γ = 0: P(+1|x) = the mean of σ(w_k·x̃)."""
    X, _, W, _ = _mixture(seed)
    return mixture.posterior(X, W, 0.0), expit(scores(X, W)).mean(axis=1)


@CHECKS.add("X28", f"{PLUME}, Algorithm 1", 1e-9)
def equal_faces(seed: int) -> Pair:
    """PLUME: faces that begin equal stay equal under EM, so starts must differ."""
    X, y, W, gamma = _mixture(seed)
    W[1] = W[0]
    _, W = _em(X, y, W, gamma, 5)
    return W[1], W[0]


_OWNERS = (Owners(2, 2), Owners(0, 3), Owners(3, 1))


def _drawn(seed: int) -> tuple[Vector, Vector, Owners, Vector, Vector]:
    """Samples, labels, whose the faces are, and random faces, those at rest among them."""
    X, y = clusters(seed, spread=0.8)
    owners, rng = _OWNERS[seed % len(_OWNERS)], generator(seed)
    w, b = rng.normal(size=(owners.count, X.shape[1])), rng.normal(size=owners.count)
    return X, y, owners, w * owners.free[:, None], b * owners.free


@CHECKS.add("X70", "formulations.logistic_polytopes; derived", 1e-7)
def logistic_regression(seed: int) -> Pair:
    """Logistic polytopes: one face against none = the ridge logistic regression of SPLA1's cell."""
    X, y, _ = blobs(seed)
    problem = FaceLoss(X, y, np.ones(len(y)), Owners(0, 1), 0.5, 0.5)
    found = solve_logistic_polytopes(problem, tol=1e-10)
    return found.objective, spla1.cell(X, y, 1.0, 0.5).solve().objective


@CHECKS.add("X71", "formulations.logistic_polytopes; derived", 0.0, "≥")
def majorant(seed: int) -> Pair:
    """Logistic polytopes: the objective of any assignment is at least that of the best one."""
    X, y, owners, w, b = _drawn(seed)
    own = np.where(owners.others(y), -1.0, generator(seed + 1).random((len(y), owners.count)))
    drawn = faces.value(X, y, w, b, owners, assignment=own.argmax(axis=1))
    return drawn, faces.value(X, y, w, b, owners)


def _newton_and_program(seed: int, l1: float, **prices: Any) -> Pair:
    """Return the optimum by Newton's method, and of the explicit program of its assignment."""
    X, y, owners, _, _ = _drawn(seed)
    problem = FaceLoss(X, y, np.ones(len(y)), owners, 0.1, 0.1, l1, **prices)
    found = solve_logistic_polytopes(problem, tol=1e-8, n_init=1)
    program = logistic_polytopes.fixed_assignment(
        X, y, owners, found["assignment"], ridge=0.1, bias_ridge=0.1, l1=l1, **prices
    )
    return found.objective, program.solve().objective


@CHECKS.add("X72", "formulations.logistic_polytopes; derived", 1e-6)
def newton_and_the_program(seed: int) -> Pair:
    """Logistic polytopes: where Newton's method ends = the explicit program of its assignment."""
    return _newton_and_program(seed, 0.3)


@CHECKS.add("X135", "formulations.logistic_polytopes; derived", 1e-6)
def newton_and_the_program_with_signs(seed: int) -> Pair:
    """Logistic polytopes with signs to keep: where Newton's method ends = the program of its assignment."""
    signs = np.sign(generator(seed + 2).normal(size=2)).astype(int)
    return _newton_and_program(seed, 0.3 * (seed % 2), signs=signs)


@CHECKS.add("X136", "formulations.logistic_polytopes; derived", 1e-6)
def newton_and_the_program_with_groups(seed: int) -> Pair:
    """Logistic polytopes with a price of groups: where Newton's method ends = its assignment's program."""
    signs = np.array([seed % 2, 0])
    return _newton_and_program(seed, 0.2 * (seed % 2), group=2.0, groups=np.arange(2) // 2, signs=signs)


@CHECKS.add("X73", "formulations.logistic_polytopes; derived", 1e-12)
def common_plane(seed: int) -> Pair:
    """Logistic polytopes: the same plane added to all faces, none at rest, changes no log-odds."""
    X, y, _, _, _ = _drawn(seed)
    owners, rng = Owners(2, 3), generator(seed)
    w, b, plane = rng.normal(size=(5, X.shape[1])), rng.normal(size=5), rng.normal(size=X.shape[1])
    moved = faces.shortfall(y, faces.scores(X, w + plane, b + 0.7), owners)
    return moved, faces.shortfall(y, faces.scores(X, w, b), owners)


@CHECKS.add("X74", "formulations.logistic_polytopes; derived", 0.0, "≤")
def softer_is_higher(seed: int) -> Pair:
    """Logistic polytopes: a soft maximum of the other class's scores alone never lowers the loss."""
    X, y, owners, w, b = _drawn(seed)
    problem, W = FaceLoss(X, y, np.ones(len(y)), owners, 0.1, 0.1), np.column_stack([w, b])
    sharp, soft = (problem.smooth(W, 0.0, t)[0] for t in (0.0, 0.3))
    return sharp, soft + 1e-12 * abs(soft)


@CHECKS.add("X75", "formulations.logistic_polytopes; derived", 0.0, "≤")
def logistic_descent(seed: int) -> Pair:
    """Logistic polytopes: a descent does not end above its start."""
    X, y, owners, _, _ = _drawn(seed)
    problem = FaceLoss(X, y, np.ones(len(y)), owners, 0.1, 0.1, 0.3)
    start = random_start(problem, generator(seed))
    ended, _ = descend(problem, start, Clock(None), softness=(0.05,))
    return problem.value(ended), problem.value(start)
