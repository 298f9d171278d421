"""Statements of machines with logistic losses of their own: PLUME's M-step, and logistic polytopes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import entr, expit, softmax

from formulations.polyhedral import scores
from polyopt.certificates.claims.statement import Statement, cap_of, numeral, numerals
from polyopt.cpm.claim import priced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.class_faces import Owners
    from formulations.face_penalty import FacePenalty
    from formulations.language.types import Matrix

    Vector = NDArray[np.float64]

__all__ = ["state_logistic_polytopes", "state_plume"]


def state_plume(
    X: Matrix, y: Vector, W: Vector, R: Vector, gamma: float, ridge: float, costs: Vector
) -> Statement:
    """State PLUME's M-step for faces W (K, m+1) at responsibilities R (n, K), less their weighted entropy.

    The gate pays C γ times (1/γ) ln Σ exp(−γ s_k), a face C γ R s_k, and an expert C R ln(1 + exp(−y s_k)). C
    are the costs (n,), ρ is the ridge.
    """
    s, n, K = scores(X, W), len(y), len(W)
    weights = [Fraction(c) for c in costs.tolist()]
    steep = [c * Fraction(gamma) for c in weights]
    shares = [[Fraction(r) for r in column] for column in R.T.tolist()]
    constant = -float(costs @ entr(R).sum(axis=1))
    rows: list[dict[str, Any]] = []
    multipliers: dict[str, Any] = {}
    for k in range(K):
        answers = {"kink": 0, "at": k}
        wrong = [c * r for c, r in zip(weights, shares[k], strict=True)]
        rows.append(_row(f"expert {k}", "label", "logistic", wrong) | answers)
        pulls = np.zeros((K, n))
        pulls[k] = costs * R[:, k] * expit(-y * s[:, k])
        multipliers[f"expert {k}"] = pulls
        if gamma:
            own = [c * r for c, r in zip(steep, shares[k], strict=True)]
            rows.append(_row(f"face {k}", -1, "linear", own) | answers)
            multipliers[f"face {k}"] = np.zeros((K, n))
    if gamma:
        rows.append(_row("gate", 1, "linear", steep) | {"kink": 0, "pays": "soft", "sharp": numeral(gamma)})
        multipliers["gate"] = (gamma * costs[:, None] * softmax(-gamma * s, axis=1)).T
    else:
        constant += float(costs.sum() * np.log(K))
    told = {
        "features": {"kind": "lifted"},
        "size": {"kind": "square", "factor": numeral(0.5 * ridge)},
        "faces": K,
        "intercept": False,
        "rows": rows,
        "constant": numeral(constant),
    }
    return Statement("PLUME's M-step at its responsibilities", X, y, told, W, [], multipliers)


def _row(name: str, side: int | str, loss: str, caps: list[Fraction]) -> dict[str, Any]:
    return {"name": name, "side": side, "loss": loss, "cap": cap_of(caps)}


def state_logistic_polytopes(
    X: Matrix, y: Vector, W: Vector, owners: Owners, free: NDArray[np.bool_], ways: Vector,
    prices: tuple[float, float, FacePenalty], costs: Vector, own: NDArray[np.int64], alpha: Vector,
) -> Statement:  # fmt: skip
    """State logistic polytopes W (K, m+1) for an assignment `own` (n,), with multipliers alpha (n, K).

    `free` (K, m+1) tells which weights may differ from 0, `ways` (K, m) the sign that a weight keeps, 0 if
    any. `prices` are ρ, η, and the prices of weights, whose signs are not looked at.
    """
    (rho, eta), penalty = (Fraction(v) for v in prices[:2]), replace(prices[2], signs=0 * prices[2].signs)
    m, others = X.shape[1], {s: np.flatnonzero(owners.classes == -s).tolist() for s in (-1.0, 1.0)}
    size = priced({"kind": "square", "factor": numerals([rho / 2] * m + [eta / 2])}, penalty)
    if not free.all() or ways.any():
        signed = np.column_stack([ways, np.zeros(len(W))])
        low, high = free & (signed <= 0), free & (signed >= 0)
        size["low"] = {"faces": [["-inf" if may else 0 for may in face] for face in low.tolist()]}
        size["high"] = {"faces": [["inf" if may else 0 for may in face] for face in high.tolist()]}
    row = _row("margin", -1, "logistic", [Fraction(c) for c in costs.tolist()])
    row |= {"kink": 0, "pays": "worst", "at": [others[s] for s in y.tolist()], "less": own.tolist()}
    told = {"features": {"kind": "lifted"}, "size": size, "faces": len(W), "intercept": False, "rows": [row]}
    title = "logistic polytopes for their assignment"
    return Statement(title, X, y, told, W, [], {"margin": alpha.T})
