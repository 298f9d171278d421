"""Statements of machines of several faces: convex polytopes, the polyhedral linear programs, SPLA1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.certificates.claims.statement import Statement, numeral

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from formulations.matrices import Matrix
    from formulations.polytope import Loss
    from polyopt.certificates.cpm_point import CpmPoint, Margin

    Vector = NDArray[np.float64]

__all__ = ["state_cpm", "state_faces"]


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
        Not 0 where a sample answers: at one face, at all or at none.
    M : ndarray of shape (n, K)
        Multipliers.
    loss : {"hinge", "logistic"}
        What a row costs.
    pays : {"sum", "worst"}
        What a sample with several faces pays.
    """
    count, K = (answers != 0).sum(axis=1), len(W)
    own = (answers != 0).argmax(axis=1)
    at = ["all" if c == K else "none" if c == 0 else int(k) for c, k in zip(count, own, strict=True)]
    if ((count > 1) & (count < K)).any():
        raise ValueError("a claim needs samples that answer at one face or at all")
    cap = [numeral(cost) for cost in caps]
    row = {
        "name": "margin",
        "side": "label",
        "kink": 1 if loss == "hinge" else 0,
        "cap": cap[0] if len(set(cap)) == 1 else cap,
        "at": "all" if set(at) == {"all"} else at,
        "loss": loss,
        "pays": pays,
    }
    told = {"features": {"kind": "lifted"}, "size": size, "faces": K, "intercept": False, "rows": [row]}
    return Statement(title, X, y, told, W, [], {"margin": M.T})


def state_cpm(point: CpmPoint, alpha: Vector, loss: Loss, margin: Margin) -> Statement:
    """The statement of a Convex Polytope Machine's point, for its assignment.

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
    size = {"kind": "worst" if margin == "worst" else "square", "factor": 1}
    pays = "worst" if loss == "max" else "sum"
    title = "the Convex Polytope Machine for its assignment"
    return state_faces(title, X[:, :-1], point.y, point.W, size, point.C.tolist(), point.Z, alpha, pays=pays)
