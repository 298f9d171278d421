"""The exact data of claims about hinge programs (linear or kernel), the one-norm SVM and the L0 machine.

A claim says that a point of a program has at most a certain objective, and that no point has less than a
certain bound. A claim file has the program, the point and multipliers in exact numbers, so that a separate
checker can verify both; ``polyopt/check/FORMAT.md`` describes it, and a dict in this module is a part of it.
``rows`` are families of constraints, with one constraint ``side_i f_i ≥ kink − slack_i`` per sample. A
family's cap is the upper limit of its multipliers: the cost of a unit of slack.
The file calls the regulariser "size", and a pair (w, b) a face; the programs here have one face.
"""

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
    """State a point v of a hinge program, w (m,) or coefficients (n,) of a kernel, and multipliers Z (q, n).

    program: a :class:`~polyopt.margin.certificate.HingeProgram`.
    b: the intercept for the samples as its geometry centres them; the claim is for the samples as given.
    ValueError: a Gram matrix without samples, or a kernel whose values the checker cannot enclose.
    """
    geometry, rows = program.geometry, program.rows
    y = next(iter(rows)).side  # the sides of the margins, which are first
    regulariser: dict[str, Any] = {"kind": "square", "factor": "1/2"}
    families = [_row_family(family, y) for family in rows]
    features: dict[str, Any] = {"kind": "plain"}
    intercept = Fraction(b)  # that for the samples as given, after the corrections below
    if isinstance(geometry, LinearGeometry | SigmaLinearGeometry):
        X: Matrix = geometry.X
        intercept -= _exact_dot(v, geometry.centre)
    elif isinstance(geometry.gram, SampleGram):
        X, features = geometry.gram.X, _kernel_features(geometry.gram.kernel, is_norm=True)
        regulariser["kind"] = "kernel"
        if isinstance(geometry, SigmaKernelGeometry):  # subtract the mean score
            intercept -= Fraction(float(geometry.centred_intercept(v, 0.0).mid))
    else:
        raise ValueError("a claim is checked from the samples, so it needs them and not a Gram matrix")
    if isinstance(geometry, SigmaLinearGeometry | SigmaKernelGeometry):
        D, weights = Fraction(geometry.D), [Fraction(weight) for weight in geometry.weights.tolist()]
        if D >= 1:
            raise ValueError("a claim of the Sigma-SVM needs D below 1: its bound divides by 1 - D")
        regulariser["factor"] = numeral((1 - D) / 2)
        total = sum(weights)
        caps = [D * weight / total for weight in weights]
        families.append({"name": "variance", "side": -1, "kink": 0, "cap": cap_of(caps), "loss": "square"})
    encoded = {
        "features": features, "size": regulariser, "faces": 1, "intercept": program.intercept,
        "rows": families,
    }  # fmt: skip
    multipliers = {family.name: mu[None, :] for family, mu in zip(rows, Z, strict=True)}
    intercepts = [intercept] if program.intercept else []
    return Statement(program.name, X, y, encoded, [v], intercepts, multipliers)


def state_ray(program: Any, ray: list[list[Fraction]]) -> Statement:
    """State that a program is infeasible; `ray` has the multipliers (q, n), an exact ray of the dual."""
    zeros = np.zeros((len(ray), program.rows.n))
    statement = state_hinge(program, program.geometry.primal_from_dual(zeros[0]), 0.0, zeros)
    multipliers = {family.name: [part] for family, part in zip(program.rows, ray, strict=True)}
    rows = [row for row in statement.program["rows"] if row["name"] in multipliers]
    encoded = {**statement.program, "rows": rows}
    return replace(statement, program=encoded, multipliers=multipliers, kind="infeasible")


def _exact_dot(v: Vector, centre: Vector) -> Fraction:
    """Return v · centre in exact arithmetic."""
    products = (Fraction(a) * Fraction(c) for a, c in zip(v.tolist(), centre.tolist(), strict=True))
    return sum(products, Fraction(0))


def _row_family(family: Family, y: Vector) -> dict[str, Any]:
    """Return a family of rows in the format of the file, with the side "label" if the sides are y."""
    side = "label" if np.array_equal(family.side, y) else int(family.side[0])
    if side != "label" and not (family.side == side).all():
        raise ValueError(f"the rows {family.name} are on sides that are neither the labels nor all the same")
    cap = cap_of(family.cap.tolist())
    return {"name": family.name, "side": side, "kink": numeral(float(family.kink)), "cap": cap}


def _kernel_features(kernel: Kernel, *, is_norm: bool) -> dict[str, Any]:
    """Return the field "features" of a program whose features are k(x_1, x), ..., k(x_n, x).

    is_norm: True if coefficients c have the size c'Kc, for which K must be semidefinite.
    """
    if kernel.name not in _KERNELS:
        raise ValueError(f"a claim needs a kernel of {', '.join(_KERNELS)}, not {kernel.name!r}")
    if kernel.name == "linear":
        return {"kind": "poly", "gamma": 1, "coef0": 0, "degree": 1}
    gamma = numeral(float(kernel.gamma))
    if kernel.name == "rbf":
        return {"kind": "rbf", "gamma": gamma}
    if kernel.coef0 < 0.0 and is_norm:
        raise ValueError("a claim needs a kernel that is certainly semidefinite: coef0 of at least 0")
    return {
        "kind": "poly",
        "gamma": gamma,
        "coef0": numeral(float(kernel.coef0)),
        "degree": int(kernel.degree),
    }


def state_one_norm(
    X: Matrix, y: Vector, costs: Vector, kernel: Kernel, alpha: Vector, b: float, u: Vector
) -> Statement:
    """State a point of the one-norm SVM: coefficients alpha (n,), intercept b, multipliers u (n,).

    The machine minimises Σ alpha_j + Σ costs_i ξ_i, with 0 ≤ alpha ≤ costs.
    """
    encoded = _expansion_program(kernel, y, costs.tolist(), upper=costs, l1=1)
    return Statement("the one-norm SVM", X, y, encoded, [y * alpha], [b], {"margin": u[None, :]})


def state_l0(
    X: Matrix, y: Vector, C: float, weights: Vector, kernel: Kernel, alpha: Vector, b: float,
    tree: dict[str, Any], bound: float,
) -> Statement:  # fmt: skip
    """State a point (alpha (n,), b) of the L0 machine.

    The machine minimises the number of its centres (samples with alpha_j > 0) plus C Σ weights_i ξ_i, with
    0 ≤ alpha ≤ C. `tree` is a branch-and-bound tree; the multipliers of its leaves prove `bound` together.
    """
    encoded = _expansion_program(kernel, y, _slack_costs(C, weights), upper=np.full(len(y), C), count=1)
    title = "the L0 support vector machine"
    return Statement(title, X, y, encoded, [y * alpha], [b], {}, tree=tree, bound=bound)


def state_pattern(
    X: Matrix, y: Vector, C: float, weights: Vector, kernel: Kernel, alpha: Vector, b: float, u: Vector
) -> Statement:
    """State a point of the L0 machine, among the points without further centres: a linear program.

    u (n,) are multipliers of the margin rows divided by C, at most the weights (:mod:`formulations.l0`, (5)).
    """
    is_centre = alpha > 0
    upper = np.where(is_centre, C, 0.0)
    encoded = _expansion_program(kernel, y, _slack_costs(C, weights), upper=upper)
    encoded["constant"] = int(is_centre.sum())  # the number of centres, added to the objective
    title = "the L0 support vector machine with the centres that it uses"
    return Statement(title, X, y, encoded, [y * alpha], [b], {"margin": C * u[None, :]})


def _slack_costs(C: float, weights: Vector) -> list[Fraction]:
    """Return the exact products ``C weights_i``."""
    return [Fraction(C) * Fraction(weight) for weight in weights.tolist()]


def _expansion_program(
    kernel: Kernel, y: Vector, caps: Iterable[Any], *, upper: Vector, **regulariser: Any
) -> dict[str, Any]:
    """Return the program of f(x) = Σ_j w_j k(x_j, x) + b with margin rows, in the file's format.

    w_j = y_j alpha_j, with 0 ≤ alpha_j ≤ upper_j. The regulariser is ``l1``, the price of Σ alpha_j, or
    ``count``, the price of a centre.
    """
    low, high = numerals(np.minimum(y * upper, 0.0)), numerals(np.maximum(y * upper, 0.0))
    return {
        "features": _kernel_features(kernel, is_norm=False),
        "size": {"kind": "square", "low": [low], "high": [high], **regulariser},
        "faces": 1,
        "intercept": True,
        "rows": [{"name": "margin", "side": "label", "kink": 1, "cap": cap_of(caps)}],
    }
