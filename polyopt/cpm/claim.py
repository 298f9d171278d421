"""Statements for claim files of machines with faces that answer for samples: polytopes, SPLA1 and others."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from formulations.face_penalty import FacePenalty
from formulations.language.types import Matrix, Vector
from polyopt.certificates.claims.statement import Statement, cap_of, numeral


def state_faces(
    title: str, X: Matrix, y: Vector, W: Vector, size: dict[str, Any], caps: Sequence[float | Fraction],
    answers: Vector, M: Vector, *, loss: str = "hinge", pays: str = "sum",
) -> Statement:  # fmt: skip
    """State faces W (K, m+1), the bias last, each sample answering at some of them.

    X is (n, m), y (n,) of -1 and +1, `caps` the n costs of the samples. `answers` (n, K) is not 0 where a
    sample answers, M (n, K) are the multipliers. `size` is the size of W, as in the file; `loss` is "hinge"
    or "logistic"; `pays` ("sum" or "worst") is what a sample with several faces pays.
    """
    at = [_faces_of(is_assigned) for is_assigned in (answers != 0).tolist()]
    row = {
        "name": "margin",
        "side": "label",
        "kink": 1 if loss == "hinge" else 0,
        "cap": cap_of(caps),
        "at": "all" if all(is_assigned == "all" for is_assigned in at) else at,
        "loss": loss,
        "pays": pays,
    }
    program = {
        "features": {"kind": "lifted"},
        "size": size,
        "faces": len(W),
        "intercept": False,
        "rows": [row],
    }
    return Statement(title, X, y, program, W, [], {"margin": M.T})


def _faces_of(is_assigned: list[bool]) -> Any:
    faces = [k for k, assigned in enumerate(is_assigned) if assigned]
    if len(faces) == len(is_assigned):
        return "all"
    return "none" if not faces else faces[0] if len(faces) == 1 else faces


def priced(size: dict[str, Any], penalty: FacePenalty | None) -> dict[str, Any]:
    """Add the penalty on the weights to the size (as in the file) of faces with the bias last."""
    if penalty is None:
        return size
    stated, signs = dict(size), [*penalty.signs.tolist(), 0]
    if penalty.l1:
        stated["l1"] = [*[numeral(penalty.l1)] * penalty.n_features, 0]
    if penalty.signs.any():
        low, high = size.get("low", "-inf"), size.get("high", "inf")
        stated["low"] = [0 if sign > 0 else low for sign in signs]
        stated["high"] = [0 if sign < 0 else high for sign in signs]
    if penalty.group:
        stated |= {"groups": [*(penalty.groups + 1).tolist(), 0], "group": numeral(penalty.group)}
    return stated
