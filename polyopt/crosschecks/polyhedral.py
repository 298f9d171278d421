"""Machines with the positives inside: the Polyceptron, PC-SLP, SPLA1, PLUME."""

from collections.abc import Callable

import numpy as np
from scipy.special import entr, expit

from formulations import mixture, pc_slp, plume, polyhedral, polytope, spla1
from formulations.polyhedral import scores
from polyopt.crosschecks.registry import PC_SLP, PLUME, POLYCEPTRON, SPLA1, Pair, Pairs, Registry, Vector
from polyopt.crosschecks.samples import clusters, generator
from polyopt.polyhedral.plume import minimise
from polyopt.polyhedral.polyceptron import solve_batch
from polyopt.polyhedral.spla1 import LogisticCells

CHECKS = Registry("polyhedral")


def _sample(seed: int, n_faces: int = 3) -> tuple[Vector, Vector, Vector]:
    """Return overlapping clusters, labels that put the middle inside, and random faces."""
    X, y = clusters(seed, spread=0.8)
    return X, -y, generator(seed).normal(size=(n_faces, 3))


@CHECKS.add(POLYCEPTRON)
def _criterion(seed: int) -> Pairs:
    """Evaluate the criterion at faces, mirrored, scaled, and after the printed steps.

    The exact Polyceptron's margin error of W is the CPM's sum form at −W, with the labels turned around and
    without the norm (T34). The distance of N08 is relative.

    T34 | = 1e-13 | eq. (3), and Kantchelian et al. (2014), eq. (6) | Mirrored faces:
        min_k W_k·x̃ = −max_k(−W_k·x̃), and the margin errors of both machines agree
    T35a | = 1e-9 | eq. (3) | Polyceptron: E_P(tW) = t E_P(W) for t > 0
    T35b | = 0.0 | eq. (3) | Polyceptron: E_P(0) = 0, so W = 0 minimises the criterion
    N08 | > 0.1 | Algorithm 1 | Polyceptron: the printed update, over all samples of a cell, is no gradient of
        E_P
    N09 | = 0.0 | Algorithm 1 | Polyceptron: Algorithm 1 as printed, “while … < γ”, makes no iteration, the
        corrected one some
    """
    X, y, W = _sample(seed)
    mirrored = polytope.lift(X) @ (-W).T
    error = polytope.objective(X, -y, -W) - (W**2).sum()
    own = np.append(polyhedral.scores(X, W).min(axis=1), polyhedral.margin_error(X, y, W))
    yield own, np.append(-mirrored.max(axis=1), error)
    yield polyhedral.criterion(X, y, 2.5 * W), 2.5 * polyhedral.criterion(X, y, W)
    yield polyhedral.criterion(X, y, 0.0 * W), 0.0

    slopes = np.zeros_like(W)
    for entry in np.ndindex(W.shape):
        step = np.zeros_like(W)
        step[entry] = 1e-6
        slopes[entry] = (polyhedral.criterion(X, y, W + step) - polyhedral.criterion(X, y, W - step)) / 2e-6
    in_cell = polyhedral.cells(X, W)[:, None] == np.arange(len(W))
    printed = -polyhedral.pull(X, y[:, None] * in_cell)
    yield np.linalg.norm(printed - slopes) / np.linalg.norm(slopes), 0.0

    history = solve_batch(X, y, np.ones(len(y)), W, threshold=1.0, max_iter=20).history
    yield [float(history[0]["norm"] < 1.0), float(len(history) > 1)], [0.0, 1.0]


def _descent(W: Vector, step: Callable[[Vector], Vector], value: Callable[[Vector], float]) -> Pair:
    """Return the values after and before each of six steps."""
    values = [value(W)]
    for _ in range(6):
        W = step(W)
        values.append(value(W))
    return values[1:], values[:-1]


@CHECKS.add(PC_SLP)
def _separation_error(seed: int) -> Pairs:
    """Evaluate the separation error on the way of PC-SLP, and at trivial faces.

    T36a | ≤ 1e-8 | reconstructed | PC-SLP: no linear program raises the separation error z
    T36b | = 1e-12 | reconstructed | PC-SLP: z(0) = z(all inside) = z(all outside) = 2
    """
    X, y, W = _sample(seed)
    program = pc_slp.step(X, y, 3, polyhedral.cells(X, W))

    def step(W: Vector) -> Vector:
        return program.set(P=pc_slp.choice(y, 3, polyhedral.cells(X, W))).solve()["W"]

    yield _descent(W, step, lambda W: polyhedral.separation_error(X, y, W))
    trivial = [np.tile([0.0, 0.0, b], (3, 1)) for b in (0.0, 1.0, -1.0)]
    yield [polyhedral.separation_error(X, y, W) for W in trivial], 2.0


@CHECKS.add(SPLA1)
def _positives_of_one_cell(seed: int) -> Pairs:
    """Compare the largest relative rise of SPLA1's loss, over five starts, with 0.

    N10 | > 1e-3 | reconstructed | SPLA1 with each positive in the program of its cell alone: some step raises
        the loss
    """
    X, y, _ = _sample(seed)
    problem = LogisticCells(X, y, np.ones(len(y)), 3, ridge=1e-2, positives="cell")
    rises = []
    for W in generator(seed).normal(size=(5, 3, 3)):
        after, before = map(
            np.asarray, _descent(W, lambda W: problem.round(W, None).following, problem.value)
        )
        rises.append(((after - before) / before).max())
    yield max(rises), 0.0


# Sharpness of the gate by seed, on either side of 1, where the gate's formula changes.
_GAMMAS = (2.0, 0.5, 6.0)
_RIDGE = 1e-2  # positive, so that each program has one optimum


@CHECKS.add(PLUME)
def _plume(seed: int) -> Pairs:
    """Evaluate likelihood, expectation and maximisation of PLUME; T46 shows the negative log-likelihood.

    T43 | = 1e-9 | eq. (3), (6), (7) | PLUME: log-likelihood(W) = Q(W; W) + entropy of the responsibilities
    T44 | ≥ 1e-8 | eq. (7); the Hessian is derived | PLUME: Q is concave in W: no eigenvalue of the Hessian of
        −Q is negative
    T45 | = 1e-6 | eq. (7), with a ridge | PLUME: the M-step by Newton's method and by L-BFGS = the explicit
        convex program
    T46 | ≤ 1e-10 | Algorithm 1 | PLUME: no step of EM lowers the penalised log-likelihood (its negative is
        shown)
    T47 | = 1e-8 | eq. (3), (4) | PLUME, γ → ∞: P(+1|x) → σ(min_k w_k·x̃), the model of SPLA1
    """
    X, y, W = _sample(seed)
    gamma, ones = _GAMMAS[seed % len(_GAMMAS)], np.ones(len(y))
    R = mixture.responsibilities(X, y, W, gamma)
    yield mixture.loss(X, y, W, gamma), mixture.expected(X, y, W, R, gamma) - entr(R).sum()
    other = generator(seed + 1).normal(size=W.shape)
    yield np.linalg.eigvalsh(mixture.hessian(X, y, other, R, gamma)).min(), 0.0

    fast = [
        minimise(X, y, ones, R, W, gamma=gamma, ridge=_RIDGE, method=method, max_iter=2000).objective
        for method in ("newton", "bfgs")
    ]
    yield fast, plume.m_step(X, y, R, gamma, 1.0, _RIDGE).solve().objective

    def step(W: Vector) -> Vector:
        R = mixture.responsibilities(X, y, W, gamma)
        return minimise(X, y, ones, R, W, gamma=gamma, ridge=_RIDGE, max_iter=1)["W"]

    yield _descent(W, step, lambda W: mixture.loss(X, y, W, gamma, 1.0, _RIDGE))
    yield mixture.posterior(X, W, 1e6), expit(scores(X, W).min(axis=1))


@CHECKS.add(PLUME)
def _one_plume_face(seed: int) -> Pairs:
    """Compare PLUME of one face with a logistic regression.

    T48 | = 1e-6 | eq. (3), at K = 1 | PLUME, K = 1 = ridge logistic regression, which EM's M-step solves at
        once
    """
    X, y, W = _sample(seed, n_faces=1)
    gamma, ones = _GAMMAS[seed % len(_GAMMAS)], np.ones(len(y))
    optimum = minimise(X, y, ones, np.ones((len(y), 1)), W, gamma=gamma, ridge=_RIDGE)
    yield (
        mixture.loss(X, y, optimum["W"], gamma, 1.0, _RIDGE),
        spla1.cell(X, y, 1.0, _RIDGE).solve().objective,
    )
