"""Statements for claim files of machines with several faces: polytopes, SPLA1 and others.

A claim file states a program, a point and multipliers, from which an independent checker verifies the
optimum. A *statement* is the content of such a file; the names in quotes below are its fields, which
``polyopt/check/FORMAT.md`` describes. The program minimises the "size" of the faces, their regulariser, plus
losses. A *family* of rows is a set of constraints side_i W_k·x̃_i ≥ kink − ξ_ik at the faces k named by "at";
"cap" is the cost C_i of ξ_i, and "pays" tells whether a sample's loss is the sum or the largest ("worst") of
its losses at these faces. Features of the kind "lifted" are x̃ = (x, 1).
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from formulations.face_penalty import FacePenalty
from formulations.language.types import Matrix, Vector
from polyopt.certificates.claims.statement import Statement, cap_of, numeral


def state_faces(
    title: str, X: Matrix, y: Vector, W: Vector, size: dict[str, Any], caps: Sequence[float | Fraction],
    assigned: Vector, M: Vector, *, loss: str = "hinge", combine: str = "sum",
) -> Statement:  # fmt: skip
    """State the program of faces W (K, m+1), the bias last, with multipliers M (n, K).

    X (n, m), y (n,), caps (n,): samples, labels -1 and +1, and costs of slack.
    size: the regulariser of W, as in the file.
    assigned (n, K): nonzero if the sample has a loss at the face.
    loss: "hinge" or "logistic".
    combine: "sum" or "worst": a sample's loss is the sum of its losses at faces, or the largest of these.
    """
    faces = [_faces_of(is_assigned) for is_assigned in (assigned != 0).tolist()]
    at = "all" if all(numbers == "all" for numbers in faces) else faces
    kink = 1 if loss == "hinge" else 0
    row = family_of("margin", "label", loss, caps) | {"kink": kink, "at": at, "pays": combine}
    return Statement(title, X, y, program_of(size, len(W), [row]), W, [], {"margin": M.T})


def family_of(name: str, side: int | str, loss: str, caps: Sequence[float | Fraction]) -> dict[str, Any]:
    """Return a family of rows with the kink 0 and the sides `side`, "label" for y, as in the file."""
    return {"name": name, "side": side, "loss": loss, "cap": cap_of(caps), "kink": 0}


def program_of(size: dict[str, Any], n_faces: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the program of faces with the regulariser `size` and families `rows`, as in the file."""
    return {"features": {"kind": "lifted"}, "size": size, "faces": n_faces, "intercept": False, "rows": rows}


def _faces_of(is_assigned: list[bool]) -> Any:
    """Return the faces of a sample as in the file: "all", "none", a number or a list of numbers."""
    faces = [k for k, has_loss in enumerate(is_assigned) if has_loss]
    if len(faces) == len(is_assigned):
        return "all"
    return "none" if not faces else faces[0] if len(faces) == 1 else faces


def add_penalty(size: dict[str, Any], penalty: FacePenalty | None, n_faces: int) -> dict[str, Any]:
    """Return the regulariser `size` of faces, as in the file, with the penalty added."""
    if penalty is None:
        return size
    stated, signs = dict(size), [*penalty.signs.tolist(), 0]
    if penalty.l1:
        stated["l1"] = [[*[numeral(penalty.l1)] * penalty.n_features, 0]] * n_faces
    if penalty.signs.any():
        low, high = size.get("low", "-inf"), size.get("high", "inf")
        stated["low"] = [[0 if sign > 0 else low for sign in signs]] * n_faces
        stated["high"] = [[0 if sign < 0 else high for sign in signs]] * n_faces
    if penalty.group:
        stated |= {"groups": [*(penalty.groups + 1).tolist(), 0], "group": numeral(penalty.group)}
    return stated
