"""Statements of machines whose faces answer for samples: polytopes, linear programs, SPLA1."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from polyopt.certificates.claims.statement import Statement, cap_of, numeral

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.face_penalty import FacePenalty
    from formulations.language.types import Matrix, Vector
    from formulations.polytope import Loss
    from polyopt.cpm.point import CpmPoint, Margin

__all__ = ["priced", "state_choice", "state_cpm", "state_faces", "state_integers"]


def state_faces(
    title: str, X: Matrix, y: Vector, W: Vector, size: dict[str, Any], caps: Sequence[float | Fraction],
    answers: Vector, M: Vector, *, loss: str = "hinge", pays: str = "sum",
) -> Statement:  # fmt: skip
    """State faces W (K, m+1), the bias last, each sample answering at some of them.

    X is (n, m), y (n,) of -1 and +1, `caps` the n costs of the samples. `answers` (n, K) is not 0 where a
    sample answers, M (n, K) are the multipliers. `size` is the size of W, as in the file; `loss` is "hinge"
    or "logistic"; `pays` ("sum" or "worst") is what a sample with several faces pays.
    """
    at = [_told(own) for own in (answers != 0).tolist()]
    row = {
        "name": "margin",
        "side": "label",
        "kink": 1 if loss == "hinge" else 0,
        "cap": cap_of(caps),
        "at": "all" if all(own == "all" for own in at) else at,
        "loss": loss,
        "pays": pays,
    }
    told = {"features": {"kind": "lifted"}, "size": size, "faces": len(W), "intercept": False, "rows": [row]}
    return Statement(title, X, y, told, W, [], {"margin": M.T})


def _told(own: list[bool]) -> Any:
    """Where a sample answers, as in the file."""
    faces = [k for k, answers in enumerate(own) if answers]
    return (
        "all" if len(faces) == len(own) else "none" if not faces else faces[0] if len(faces) == 1 else faces
    )


def priced(size: dict[str, Any], penalty: FacePenalty | None) -> dict[str, Any]:
    """Add the price of the weights to the size (as in the file) of faces with the bias last."""
    if penalty is None:
        return size
    found, signs = dict(size), [*penalty.signs.tolist(), 0]
    if penalty.l1:
        found["l1"] = [*[numeral(penalty.l1)] * penalty.n_features, 0]
    if penalty.signs.any():
        low, high = size.get("low", "-inf"), size.get("high", "inf")
        found["low"] = [0 if sign > 0 else low for sign in signs]
        found["high"] = [0 if sign < 0 else high for sign in signs]
    if penalty.group:
        found |= {"groups": [*(penalty.groups + 1).tolist(), 0], "group": numeral(penalty.group)}
    return found


def state_cpm(point: CpmPoint, alpha: Vector, loss: Loss = "sum", margin: Margin = "total") -> Statement:
    """State the point of a Convex Polytope Machine for its assignment; alpha (n, K) are multipliers."""
    X: Any = point.geometry.X
    size = priced({"kind": "worst" if margin == "worst" else "square", "factor": 1}, point.penalty)
    pays = "worst" if loss == "max" else "sum"
    title = "the Convex Polytope Machine for its assignment"
    return state_faces(title, X[:, :-1], point.y, point.W, size, point.C.tolist(), point.Z, alpha, pays=pays)


def state_choice(X: Matrix, y: Vector, W: Vector, C: Vector, tree: dict[str, Any], bound: float) -> Statement:
    """State a Convex Polytope Machine's point W (K, m+1) among all assignments.

    `tree` has the multipliers of the leaves, as in the file; all of them prove `bound`.
    """
    size, everywhere = {"kind": "square", "factor": 1}, y[:, None] + 0.0 * W[None, :, 0]
    title = "the Convex Polytope Machine"
    found = state_faces(title, X, y, W, size, C.tolist(), everywhere, everywhere)
    row = {**found.program["rows"][0], "at": ["all" if s < 0 else "one" for s in y.tolist()]}
    return replace(found, program={**found.program, "rows": [row]}, multipliers={}, tree=tree, bound=bound)


def state_integers(
    point: CpmPoint, alpha: Vector, p: Vector, scale: Vector, theta: Vector, M: int
) -> Statement:
    """State faces of whole numbers against the real ones of their assignment.

    The score of a face is ``scale (p x - theta)``, with p (K, m) of whole numbers up to M, scale and theta
    (K,).
    """
    found = state_cpm(point, alpha)
    rows = zip(p.tolist(), scale.tolist(), theta.tolist(), strict=True)
    W = [[*(Fraction(d) * int(v) for v in numbers), -Fraction(d) * Fraction(t)] for numbers, d, t in rows]
    size = {**found.program["size"], "whole": M}
    title = "the Convex Polytope Machine with whole numbers, next to the real one"
    return replace(found, W=W, title=title, program={**found.program, "size": size})
