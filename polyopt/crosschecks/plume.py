"""PLUME: its likelihood, its M-step, its EM, and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import entr, expit

from formulations import mixture, plume, spla1
from formulations.polyhedral import scores
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import clusters, generator
from polyopt.polyhedral.plume import minimise

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("plume")

# One sharpness for each seed, either side of 1, where the gate's formula changes.
_GAMMAS = (2.0, 0.5, 6.0)
_RIDGE = 1e-2  # positive, so that each program has one optimum


def _sample(seed: int, n_faces: int = 3) -> tuple[Vector, Vector, Vector, float]:
    """Samples, labels that put the middle inside, random faces, and a sharpness of the gate."""
    X, y = clusters(seed, spread=0.8)
    return X, -y, generator(seed).normal(size=(n_faces, 3)), _GAMMAS[seed % len(_GAMMAS)]


@CHECKS.add("T43", 1e-9)
def likelihood_and_expectation(seed: int) -> Pair:
    """PLUME: log-likelihood(W) = Q(W; W) + entropy of the responsibilities.

    Source: Shah, Sastry & Manwani (2019), eq. (3), (6), (7).
    """
    X, y, W, gamma = _sample(seed)
    R = mixture.responsibilities(X, y, W, gamma)
    return mixture.loss(X, y, W, gamma), mixture.expected(X, y, W, R, gamma) - entr(R).sum()


@CHECKS.add("T44", 1e-8, "≥")
def concave_expectation(seed: int) -> Pair:
    """PLUME: Q is concave in W: no eigenvalue of the Hessian of −Q is negative.

    Source: Shah, Sastry & Manwani (2019), eq. (7); the Hessian is derived.
    """
    X, y, W, gamma = _sample(seed)
    R = mixture.responsibilities(X, y, W, gamma)
    other = generator(seed + 1).normal(size=W.shape)
    return np.linalg.eigvalsh(mixture.hessian(X, y, other, R, gamma)).min(), 0.0


@CHECKS.add("T45", 1e-6)
def maximisation(seed: int) -> Pair:
    """PLUME: the M-step by Newton's method and by L-BFGS = the explicit convex program.

    Source: Shah, Sastry & Manwani (2019), eq. (7), with a ridge.
    """
    X, y, W, gamma = _sample(seed)
    R, ones = mixture.responsibilities(X, y, W, gamma), np.ones(len(y))
    fast = [
        minimise(X, y, ones, R, W, gamma=gamma, ridge=_RIDGE, method=method, max_iter=2000).objective
        for method in ("newton", "bfgs")
    ]
    return fast, plume.m_step(X, y, R, gamma, 1.0, _RIDGE).solve().objective


def _em(X: Vector, y: Vector, W: Vector, gamma: float, steps: int) -> tuple[Vector, Vector]:
    """The losses along EM, one Newton step in each M-step, and the faces at its end."""
    ones, values = np.ones(len(y)), [mixture.loss(X, y, W, gamma, 1.0, _RIDGE)]
    for _ in range(steps):
        R = mixture.responsibilities(X, y, W, gamma)
        W = minimise(X, y, ones, R, W, gamma=gamma, ridge=_RIDGE, max_iter=1)["W"]
        values.append(mixture.loss(X, y, W, gamma, 1.0, _RIDGE))
    return np.array(values), W


@CHECKS.add("T46", 1e-10, "≤")
def em_descends(seed: int) -> Pair:
    """PLUME: no step of EM lowers the penalised log-likelihood (its negative is shown).

    Source: Shah, Sastry & Manwani (2019), Algorithm 1.
    """
    X, y, W, gamma = _sample(seed)
    values, _ = _em(X, y, W, gamma, 15)
    return values[1:], values[:-1]


@CHECKS.add("T47", 1e-8)
def sharp_gate(seed: int) -> Pair:
    """PLUME, γ → ∞: P(+1|x) → σ(min_k w_k·x̃), the model of SPLA1.

    Source: Shah, Sastry & Manwani (2019), eq. (3), (4).
    """
    X, _, W, _ = _sample(seed)
    return mixture.posterior(X, W, 1e6), expit(scores(X, W).min(axis=1))


@CHECKS.add("T48", 1e-6)
def one_face(seed: int) -> Pair:
    """PLUME, K = 1 = ridge logistic regression, which EM's M-step solves at once.

    Source: Shah, Sastry & Manwani (2019), eq. (3), at K = 1.
    """
    X, y, W, gamma = _sample(seed, n_faces=1)
    ones = np.ones(len(y))
    found = minimise(X, y, ones, np.ones((len(y), 1)), W, gamma=gamma, ridge=_RIDGE)
    regression = spla1.cell(X, y, 1.0, _RIDGE).solve().objective
    return mixture.loss(X, y, found["W"], gamma, 1.0, _RIDGE), regression


@CHECKS.add("X24", 0.0, "≤")
def distance_from_the_limit(seed: int) -> Pair:
    """PLUME: |P(+1|x) − σ(h)| ≤ (K−1) e^(−γ·gap), gap being how far the second score is above the least.

    Source: Shah, Sastry & Manwani (2019), eq. (3), (4); derived.
    """
    X, _, W, _ = _sample(seed)
    s, gamma = np.sort(scores(X, W), axis=1), 3.0
    return (
        np.abs(mixture.posterior(X, W, gamma) - expit(s[:, 0])),
        2.0 * np.exp(-gamma * (s[:, 1] - s[:, 0])),
    )


@CHECKS.add("X25", 1e-9)
def fisher_identity(seed: int) -> Pair:
    """PLUME: the gradient of the log-likelihood at W = that of Q(·; W) at W.

    Source: Shah, Sastry & Manwani (2019), eq. (8); Fisher's identity.
    """
    X, y, W, gamma = _sample(seed)
    R = mixture.responsibilities(X, y, W, gamma)
    own = mixture.value_and_gradient(X, y, W, None, gamma)[1]
    return own, mixture.value_and_gradient(X, y, W, R, gamma)[1]


@CHECKS.add("X26", 1e-6)
def gradient(seed: int) -> Pair:
    """PLUME: the gradient (8) = central differences of Q.

    Source: Shah, Sastry & Manwani (2019), eq. (8).
    """
    X, y, W, gamma = _sample(seed)
    R, h, slopes = mixture.responsibilities(X, y, W, gamma), 1e-5, np.zeros_like(W)
    for place in np.ndindex(W.shape):
        step = np.zeros_like(W)
        step[place] = h
        up, down = (mixture.expected(X, y, W + d, R, gamma) for d in (step, -step))
        slopes[place] = (up - down) / (2.0 * h)
    return mixture.value_and_gradient(X, y, W, R, gamma)[1], slopes


@CHECKS.add("X27", 1e-12)
def flat_gate(seed: int) -> Pair:
    """PLUME, γ = 0: P(+1|x) = the mean of σ(w_k·x̃).

    Source: Shah, Sastry & Manwani (2019), eq. (3), (4).
    """
    X, _, W, _ = _sample(seed)
    return mixture.posterior(X, W, 0.0), expit(scores(X, W)).mean(axis=1)


@CHECKS.add("X28", 1e-9)
def equal_faces(seed: int) -> Pair:
    """PLUME: faces that begin equal stay equal under EM, so starts must differ.

    Source: Shah, Sastry & Manwani (2019), Algorithm 1.
    """
    X, y, W, gamma = _sample(seed)
    W[1] = W[0]
    _, W = _em(X, y, W, gamma, 5)
    return W[1], W[0]
