"""Statements of machines whose faces answer for samples: polytopes, linear programs, SPLA1."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from polyopt.certificates.claims.statement import Statement, cap_of, numeral

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.face_penalty import FacePenalty
    from formulations.matrices import Matrix, Vector
    from formulations.polytope import Loss
    from polyopt.certificates.cpm_point import CpmPoint, Margin

__all__ = ["priced", "state_choice", "state_cpm", "state_faces", "state_integers"]


def state_faces(
    title: str, X: Matrix, y: Vector, W: Vector, size: dict[str, Any], caps: Sequence[float | Fraction],
    answers: Vector, M: Vector, *, loss: str = "hinge", pays: str = "sum",
) -> Statement:  # fmt: skip
    """The statement of faces W with the bias last, each sample answering at some of them.

    Parameters
    ----------
    title : str
        What the machine is called.
    X : ndarray or CSR of shape (n, m)
        Samples.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    W : ndarray of shape (K, m+1)
        Faces.
    size : dict
        What W costs, as in the file.
    caps : sequence of n numbers
        Costs of the samples.
    answers : ndarray of shape (n, K)
        Not 0 where a sample answers.
    M : ndarray of shape (n, K)
        Multipliers.
    loss : {"hinge", "logistic"}
        What a row costs.
    pays : {"sum", "worst"}
        What a sample with several faces pays.
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
    """The size of faces with the bias last, and what a price on their weights adds to it.

    Parameters
    ----------
    size : dict
        What W costs without it, as in the file.
    penalty : FacePenalty or None
        The price.
    """
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
    """The statement of the point of a Convex Polytope Machine for its assignment.

    Parameters
    ----------
    point : CpmPoint
        Data, faces and who answers where.
    alpha : ndarray of shape (n, K)
        Multipliers.
    loss, margin
        As in :func:`polyopt.certificates.certify_cpm`.
    """
    X: Any = point.geometry.X
    size = priced({"kind": "worst" if margin == "worst" else "square", "factor": 1}, point.penalty)
    pays = "worst" if loss == "max" else "sum"
    title = "the Convex Polytope Machine for its assignment"
    return state_faces(title, X[:, :-1], point.y, point.W, size, point.C.tolist(), point.Z, alpha, pays=pays)


def state_choice(X: Matrix, y: Vector, W: Vector, C: Vector, tree: dict[str, Any], bound: float) -> Statement:
    """The statement of a Convex Polytope Machine's point among all assignments.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Samples.
    y, C : ndarray of shape (n,)
        Labels -1 and +1, costs.
    W : ndarray of shape (K, m+1)
        Faces, the bias last.
    tree : dict
        Multipliers of the leaves, as in the file.
    bound : float
        What all of them prove.
    """
    size, everywhere = {"kind": "square", "factor": 1}, y[:, None] + 0.0 * W[None, :, 0]
    title = "the Convex Polytope Machine"
    found = state_faces(title, X, y, W, size, C.tolist(), everywhere, everywhere)
    row = {**found.program["rows"][0], "at": ["all" if s < 0 else "one" for s in y.tolist()]}
    return replace(found, program={**found.program, "rows": [row]}, multipliers={}, tree=tree, bound=bound)


def state_integers(
    point: CpmPoint, alpha: Vector, p: Vector, scale: Vector, theta: Vector, M: int
) -> Statement:
    """The statement of faces of whole numbers against the real ones of their assignment.

    Parameters
    ----------
    point, alpha
        As in :func:`state_cpm`.
    p : ndarray of shape (K, m)
        The numbers.
    scale, theta : ndarray of shape (K,)
        The scale and the threshold of each face: its score is ``scale (p x - theta)``.
    M : int
        The largest number.
    """
    found = state_cpm(point, alpha)
    rows = zip(p.tolist(), scale.tolist(), theta.tolist(), strict=True)
    W = [[*(Fraction(d) * int(v) for v in numbers), -Fraction(d) * Fraction(t)] for numbers, d, t in rows]
    size = {**found.program["size"], "whole": M}
    title = "the Convex Polytope Machine with whole numbers, next to the real one"
    return replace(found, W=W, title=title, program={**found.program, "size": size})
