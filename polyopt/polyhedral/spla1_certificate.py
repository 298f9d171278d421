"""Certificates of SPLA1.

For fixed cells it is one logistic regression with a ridge for each face, convex, and its dual has a point
for every w: u_i = c_i σ(−z_i), by which the optimum is at least the value less ‖∇‖²/(2ρ), as the program is
strongly convex with modulus ρ. Value and gradient are balls (:mod:`polyopt.linalg.rounding`): the
bound takes the least value and the longest gradient that rounding leaves room for.

Every face pays its ridge. A face whose cell is empty has its optimum at 0; without it the same machine has a
lower value. The problem is not convex over the cells, and there is no bound on it here: the certificate is
of the program for the cells that the faces have, or for those that are given, which faces were fitted to. It
says where these differ. That program's value need not be above the problem's, as h is a minimum and the loss
of a positive in its cell is no upper bound.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

from formulations.language.arguments import positive, tolerance, whole
from formulations.language.recovery import as_costs, as_data
from formulations.polyhedral import belonging, check_positives, hard_loss, pull, scores
from formulations.polytope import check_assignment, lift
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude, residual
from polyopt.certificates.claims.statement import Evidence, Statement, numeral
from polyopt.certificates.points import checked_faces
from polyopt.cpm.claim import state_faces
from polyopt.linalg.rounding import Ball, product, strongly_convex_bound, transposed_product

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Matrix, MatrixLike, Vector
    from formulations.polyhedral import Positives

__all__ = ["certify_spla1"]

_EMPTY = "A face has no samples in its cell: without it the value is lower by its ridge."
_OTHERS = "Other cells may have a lower optimum."
_MOVED = (
    "The cells are those given, of a fitted machine those that its faces were fitted to: {count} of {n} "
    "samples have a lower score at another face, by up to {worst:.3g}, so this is no fixed point. With every "
    "sample in the cell of its least score the loss is {loss:.6g}."
)


class _Cells(NamedTuple):
    """The samples in the program of each face, and a certificate's sentences about that."""

    members: Vector  # (n, K), 1 or 0
    residuals: list[Residual]
    which: str
    notes: list[str]


def _cells_at(
    X: Matrix, y: Vector, W: Vector, positives: Positives, assignment: ArrayLike | None, single: bool,
    tol: float, loss: Callable[[], float],
) -> _Cells:  # fmt: skip
    """The cells given, or those of W, and how many samples are in another cell of W.

    single: whether there can be one face alone.
    loss: the loss with every sample in its cell of W.
    """
    s = scores(X, W)
    chosen: NDArray[np.int64] = np.argmin(s, axis=1)
    if assignment is not None:
        chosen = check_assignment(np.ones(len(y)), len(W), assignment, "sample")
    members = belonging(y, chosen, len(W), positives)
    empty = "" if members.any(axis=0).all() else _EMPTY
    if single:
        return _Cells(members, [], "its cell", [empty])
    # A positive in every program has no cell; the others pay less at the face with the least score.
    cell = np.take_along_axis(s, chosen[:, None], axis=1)[:, 0]
    moves, size = np.where(members.sum(axis=1) > 1, 0.0, cell - s.min(axis=1)), float(np.abs(s).max()) or 1.0
    moved, which, told = moves > tol * size, "fixed cells", ""
    if moved.any():
        which, n = "the cells given", len(y)
        told = _MOVED.format(count=int(moved.sum()), n=n, worst=float(moves.max()), loss=loss())
    return _Cells(members, [residual("stationarity", "cells", moves, size)], which, [_OTHERS, told, empty])


@np.errstate(over="ignore", invalid="ignore")
def certify_spla1(
    X: MatrixLike, y: ArrayLike, W: ArrayLike, *, ridge: float, C: ArrayLike = 1.0,
    positives: Positives = "cell", assignment: ArrayLike | None = None, n_faces: int | None = None,
    tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces of SPLA1 (:mod:`formulations.spla1`).

    Parameters
    ----------
    X, y, W, C, tol
        As in :func:`~polyopt.polyhedral.lp_certificate.certify_polyceptron`; C is the weight of each sample.
    ridge : float
        ρ, positive.
    positives : {"cell", "all"}
        Whether the positives are in the program of their cell, or in those of all faces.
    assignment : array_like of int, shape (n,), optional
        The cell of each sample, such as the one that W was fitted to; by default that of W.
    n_faces : int, optional
        How many faces there might be, at least those of W: a machine that uses one of three is no optimum
        among those with three. By default as many as W has.

    Returns
    -------
    Certificate
        ``stationary`` if every face is optimal for its cell and every sample is in the cell that W gives
        it; ``optimal`` for one face of one, which has one cell; else ``suboptimal_by``, within the fixed
        cells. Its note says how many samples are not in their cell.

    Raises
    ------
    ValueError
        Anything given that is not finite, real and of its shape, or a ridge that is not positive.
    """
    X, y = as_data(X, y)
    check_positives(positives)
    tol, rho = tolerance(tol), positive("ridge", ridge)  # without a ridge there is no bound
    W = checked_faces("W", W, None, X.shape[1] + 1)
    least = len(W) if n_faces is None else whole("n_faces", n_faces, len(W))
    costs = as_costs(C, len(y))

    def loss() -> float:
        return hard_loss(X, y, W, costs, rho, positives)

    cells = _cells_at(X, y, W, positives, assignment, least == 1, tol, loss)
    members = cells.members
    value, bound, residuals = _of_cells(X, y, W, costs[:, None] * members, rho)
    certificate = conclude(
        f"SPLA1, positives={positives!r}",
        value,
        bound,
        [*residuals, *cells.residuals],
        tol,
        reached=Claim.OPTIMAL if least == 1 else Claim.STATIONARY,
        scope="SPLA1" if least == 1 else f"the program for {cells.which}",
        notes=cells.notes,
    )
    stated = partial(_statement, X, y, W, costs, members, rho)
    return replace(certificate, evidence=(Evidence(stated),))


def _statement(X: Matrix, y: Vector, W: Vector, costs: Vector, members: Vector, rho: float) -> Statement:
    """The claim about the faces, for the checker."""
    pulls = costs[:, None] * members * expit(-y[:, None] * scores(X, W))
    size = {"kind": "square", "factor": numeral(0.5 * rho)}
    title = "SPLA1 for the cells that are listed"
    return state_faces(title, X, y, W, size, costs.tolist(), members, pulls, loss="logistic")


def _of_cells(
    X: Matrix, y: Vector, W: Vector, weights: Vector, rho: float
) -> tuple[Ball, Ball, list[Residual]]:
    """Value and bound of the program for fixed cells, and how far the faces are from those they imply."""
    lifted = lift(X)
    against = product(lifted, W.T).signed(-y[:, None])
    loss, ridge = (against.softplus() * weights).sum(), (0.5 * rho) * Ball(W).square_sum()
    own = against.logistic() * weights  # c σ(−z)
    pulls = transposed_product(lifted, own.signed(y[:, None]))
    # The terms that cancel at the optimum, not what is left of them.
    scale = float(pull(abs(X), own.mid).max()) or 1.0
    value, gradient = loss + ridge, rho * Ball(W) - pulls.transposed()
    bound = strongly_convex_bound(value, gradient, rho)
    return value, bound, [residual("stationarity", "W", np.abs(gradient.mid).max(axis=1), scale)]
