"""Statements for claim files: hinge programs, linear or of a kernel, the one-norm SVM and the L0 machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from formulations.families import Family
from formulations.language.types import Matrix, Vector
from polyopt.certificates.claims.statement import Statement, cap_of, numeral, numerals
from polyopt.linalg.kernels import Kernel, SampleGram
from polyopt.margin.geometry import LinearGeometry, SigmaKernelGeometry, SigmaLinearGeometry

_KERNELS = ("linear", "poly", "rbf")


def state_hinge(program: Any, v: Vector, b: float, Z: Vector) -> Statement:
    """State a point of a hinge program: w (m,) or expansion coefficients (n,) as v, and multipliers Z (q, n).

    b is the intercept for samples as the geometry scores them. Raise ValueError for a Gram matrix without
    samples, or a kernel whose values cannot be enclosed by integers.
    """
    geometry, rows = program.geometry, program.rows
    y = next(iter(rows)).side
    size: dict[str, Any] = {"kind": "square", "factor": "1/2"}
    features: dict[str, Any] = {"kind": "plain"}
    moved = Fraction(b)
    if isinstance(geometry, LinearGeometry | SigmaLinearGeometry):
        X: Matrix = geometry.X
        moved -= _inner(v, geometry.centre)
    elif isinstance(geometry.gram, SampleGram):
        X, features = geometry.gram.X, _kernel(geometry.gram.kernel, "kernel")
        if isinstance(geometry, SigmaKernelGeometry):
            moved -= Fraction(float(geometry.centred_intercept(v, 0.0).mid))
    else:
        raise ValueError("a claim is checked from the samples, so it needs them and not a Gram matrix")
    if isinstance(geometry, SigmaLinearGeometry | SigmaKernelGeometry):
        size = _sigma(geometry.D, geometry.weights)
    stated = {
        "features": features, "size": size, "faces": 1, "intercept": program.intercept,
        "rows": [_row(family, y) for family in rows],
    }  # fmt: skip
    multipliers = {family.name: mu[None, :] for family, mu in zip(rows, Z, strict=True)}
    return Statement(program.name, X, y, stated, [v], [moved] if program.intercept else [], multipliers)


def state_ray(program: Any, ray: list[list[Fraction]]) -> Statement:
    """State that a program is infeasible: the multipliers (q, n) are exactly a ray of its dual."""
    nothing = np.zeros((len(ray), program.rows.n))
    found = state_hinge(program, program.geometry.primal_from_dual(nothing[0]), 0.0, nothing)
    multipliers = {family.name: [part] for family, part in zip(program.rows, ray, strict=True)}
    return replace(found, multipliers=multipliers, kind="infeasible")


def _sigma(D: float, weights: Vector) -> dict[str, Any]:
    """The Sigma-SVM's regulariser in the format of the file."""
    if D >= 1.0:
        raise ValueError("a claim of the Sigma-SVM needs D below 1: its bound divides by 1 - D")
    plain = {"kind": "square", "factor": numeral((1 - Fraction(D)) / 2)}
    variance = {"share": numeral(D), "weights": numerals(weights)}
    return {**plain, "variance": variance} if D else plain


def _inner(v: Vector, centre: Vector) -> Fraction:
    return sum(
        (Fraction(a) * Fraction(c) for a, c in zip(v.tolist(), centre.tolist(), strict=True)), Fraction(0)
    )


def _row(family: Family, y: Vector) -> dict[str, Any]:
    """A family of rows in the format of the file."""
    side = "label" if np.array_equal(family.side, y) else int(family.side[0])
    if side != "label" and not (family.side == side).all():
        raise ValueError(f"the rows {family.name} are on sides that are neither the labels nor all the same")
    cap = cap_of(family.cap.tolist())
    return {"name": family.name, "side": side, "kink": numeral(float(family.kink)), "cap": cap}


def _kernel(kernel: Kernel, kind: str) -> dict[str, Any]:
    if kernel.name not in _KERNELS:
        raise ValueError(f"a claim needs a kernel of {', '.join(_KERNELS)}, not {kernel.name!r}")
    found: dict[str, Any] = {"kind": kind, "kernel": kernel.name}
    if kernel.name != "linear":
        found["gamma"] = numeral(float(kernel.gamma))
    if kernel.name == "poly":
        if kernel.coef0 < 0.0 and kind == "kernel":
            raise ValueError("a claim needs a kernel that is certainly semidefinite: coef0 of at least 0")
        found |= {"coef0": numeral(float(kernel.coef0)), "degree": int(kernel.degree)}
    return found


def state_one_norm(
    X: Matrix, y: Vector, costs: Vector, kernel: Kernel, alpha: Vector, b: float, u: Vector
) -> Statement:
    """State a point of the one-norm SVM: coefficients alpha (n,), intercept b, multipliers u (n,).

    The costs (n,) of slack are also the upper bounds of the coefficients.
    """
    stated = _expansion(kernel, costs.tolist(), high=numerals(costs), l1=1)
    return Statement("the one-norm SVM", X, y, stated, [alpha], [b], {"margin": u[None, :]})


def state_l0(
    X: Matrix, y: Vector, C: float, weights: Vector, kernel: Kernel, alpha: Vector, b: float,
    tree: dict[str, Any], bound: float,
) -> Statement:  # fmt: skip
    """State a point (alpha (n,), b) of the L0 machine over all patterns.

    C is the cost of the loss and the upper bound of the coefficients, `weights` (n,) weigh the samples in the
    loss. `tree` has the multipliers of the leaves, which together prove `bound`.
    """
    stated = _expansion(kernel, _caps(C, weights), high=numeral(C), count=1)
    title = "the L0 support vector machine"
    return Statement(title, X, y, stated, [alpha], [b], {}, tree=tree, bound=bound)


def state_pattern(
    X: Matrix, y: Vector, C: float, weights: Vector, kernel: Kernel, alpha: Vector, b: float, u: Vector
) -> Statement:
    """State a point of the L0 machine restricted to its own centres, which is a linear program.

    u (n,) are multipliers of the margin rows, at most the weights (:mod:`formulations.l0`, eq. (5)).
    """
    used = alpha > 0
    stated = _expansion(kernel, _caps(C, weights), high=numerals(np.where(used, C, 0.0)))
    stated["constant"] = int(used.sum())
    title = "the L0 support vector machine with the centres that it uses"
    return Statement(title, X, y, stated, [alpha], [b], {"margin": C * u[None, :]})


def _caps(C: float, weights: Vector) -> list[Fraction]:
    return [Fraction(C) * Fraction(weight) for weight in weights.tolist()]


def _expansion(kernel: Kernel, caps: Iterable[Any], **size: Any) -> dict[str, Any]:
    """A program of margins for the coefficients of a kernel expansion, in the format of the file."""
    return {
        "features": _kernel(kernel, "expansion"),
        "size": {"kind": "square", "factor": 0, "low": 0, **size},
        "faces": 1,
        "intercept": True,
        "rows": [{"name": "margin", "side": "label", "kink": 1, "cap": cap_of(caps)}],
    }
