"""Machines with the positives inside: the Polyceptron, PC-SLP, SPLA1, PLUME."""

from collections.abc import Callable

import numpy as np
from scipy.special import entr, expit

from formulations import mixture, pc_slp, plume, polyhedral, polytope, spla1
from formulations.polyhedral import scores
from polyopt.crosschecks.registry import CPM, PC_SLP, PLUME, POLYCEPTRON, SPLA1, Pair, Registry, Vector
from polyopt.crosschecks.samples import clusters, generator
from polyopt.polyhedral.plume import minimise
from polyopt.polyhedral.polyceptron import solve_batch
from polyopt.polyhedral.spla1 import LogisticCells

CHECKS = Registry("polyhedral")


def _sample(seed: int, n_faces: int = 3) -> tuple[Vector, Vector, Vector]:
    """Return overlapping clusters, labels that put the middle inside, and random faces."""
    X, y = clusters(seed, spread=0.8)
    return X, -y, generator(seed).normal(size=(n_faces, 3))


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
def criterion_at_zero(seed: int) -> Pair:
    """Polyceptron: E_P(0) = 0, so W = 0 minimises the criterion."""
    X, y, W = _sample(seed)
    return polyhedral.criterion(X, y, 0.0 * W), 0.0


@CHECKS.add("N08", f"{POLYCEPTRON}, Algorithm 1", 0.1, ">")
def printed_update(seed: int) -> Pair:
    """Polyceptron: the printed update, over all samples of a cell, is no gradient of E_P.

    The relative distance is compared with 0.
    """
    X, y, W = _sample(seed)
    slopes = np.zeros_like(W)
    for entry in np.ndindex(W.shape):
        step = np.zeros_like(W)
        step[entry] = 1e-6
        slopes[entry] = (polyhedral.criterion(X, y, W + step) - polyhedral.criterion(X, y, W - step)) / 2e-6
    in_cell = polyhedral.cells(X, W)[:, None] == np.arange(len(W))
    printed = -polyhedral.pull(X, y[:, None] * in_cell)
    return np.linalg.norm(printed - slopes) / np.linalg.norm(slopes), 0.0


@CHECKS.add("N09", f"{POLYCEPTRON}, Algorithm 1", 0.0)
def printed_loop(seed: int) -> Pair:
    """Polyceptron: Algorithm 1 as printed, “while … < γ”, makes no iteration, the corrected one some."""
    X, y, W = _sample(seed)
    history = solve_batch(X, y, np.ones(len(y)), W, threshold=1.0, max_iter=20).history
    return [float(history[0]["norm"] < 1.0), float(len(history) > 1)], [0.0, 1.0]


def _descent(W: Vector, step: Callable[[Vector], Vector], value: Callable[[Vector], float]) -> Pair:
    """Return the values after and before each of six steps."""
    values = [value(W)]
    for _ in range(6):
        W = step(W)
        values.append(value(W))
    return values[1:], values[:-1]


@CHECKS.add("T36a", f"{PC_SLP}, reconstructed", 1e-8, "≤")
def successive_programs_descend(seed: int) -> Pair:
    """PC-SLP: no linear program raises the separation error z."""
    X, y, W = _sample(seed)
    program = pc_slp.step(X, y, 3, polyhedral.cells(X, W))

    def step(W: Vector) -> Vector:
        return program.set(P=pc_slp.choice(y, 3, polyhedral.cells(X, W))).solve()["W"]

    return _descent(W, step, lambda W: polyhedral.separation_error(X, y, W))


@CHECKS.add("T36b", f"{PC_SLP}, reconstructed", 1e-12)
def error_at_trivial_faces(seed: int) -> Pair:
    """PC-SLP: z(0) = z(all inside) = z(all outside) = 2."""
    X, y, _ = _sample(seed)
    trivial = [np.tile([0.0, 0.0, b], (3, 1)) for b in (0.0, 1.0, -1.0)]
    return [polyhedral.separation_error(X, y, W) for W in trivial], 2.0


@CHECKS.add("N10", f"{SPLA1}, reconstructed", 1e-3, ">")
def positives_of_one_cell_do_not_descend(seed: int) -> Pair:
    """SPLA1 with each positive in the program of its cell alone: some step raises the loss.

    The largest relative rise, over five starts, is compared with 0.
    """
    X, y, _ = _sample(seed)
    problem = LogisticCells(X, y, np.ones(len(y)), 3, ridge=1e-2, positives="cell")
    rises = []
    for W in generator(seed).normal(size=(5, 3, 3)):
        after, before = map(
            np.asarray, _descent(W, lambda W: problem.round(W, None).following, problem.value)
        )
        rises.append(((after - before) / before).max())
    return max(rises), 0.0


# Sharpness of the gate by seed, on either side of 1, where the gate's formula changes.
_GAMMAS = (2.0, 0.5, 6.0)
_RIDGE = 1e-2  # positive, so that each program has one optimum


def _mixture(seed: int, n_faces: int = 3) -> tuple[Vector, Vector, Vector, float]:
    """Return the data of :func:`_sample` and a sharpness of the gate."""
    return *_sample(seed, n_faces), _GAMMAS[seed % len(_GAMMAS)]


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


@CHECKS.add("T46", f"{PLUME}, Algorithm 1", 1e-10, "≤")
def em_descends(seed: int) -> Pair:
    """PLUME: no step of EM lowers the penalised log-likelihood (its negative is shown)."""
    X, y, W, gamma = _mixture(seed)

    def step(W: Vector) -> Vector:
        R = mixture.responsibilities(X, y, W, gamma)
        return minimise(X, y, np.ones(len(y)), R, W, gamma=gamma, ridge=_RIDGE, max_iter=1)["W"]

    return _descent(W, step, lambda W: mixture.loss(X, y, W, gamma, 1.0, _RIDGE))


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
    optimum = minimise(X, y, ones, np.ones((len(y), 1)), W, gamma=gamma, ridge=_RIDGE)
    regression = spla1.cell(X, y, 1.0, _RIDGE).solve().objective
    return mixture.loss(X, y, optimum["W"], gamma, 1.0, _RIDGE), regression
