"""Certificates of the exact Polyceptron whose faces have few features.

For a fixed assignment each face is a linear program over all choices of at most s features
(:mod:`formulations.polyceptron_subset`). Multipliers u of its margins, within their caps, bound every face in
the box |w| ≤ R that has the features of a node of a search in, and none of those that are out:

    Σ u − R (|v_b| + Σ_{j in} |v_j| + the s − |in| largest |v_j| of the free),        v = Σ u_i y_i x̃_i.

A proof is a tree over the features with multipliers for each node; every choice of features is at one of its
leaves. Nothing of a search is believed: multipliers are clipped to their caps, and each node's bound is
evaluated anew from the data, less its rounding. What a solver's tolerance leaves of v would cost R times as
much, so it is removed first where that helps. Without a tree there is its root alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import positive, tolerance, whole
from formulations.polyhedral import belonging, pull, scores
from formulations.polytope import check_assignment, lift
from formulations.recovery import as_costs, as_data
from polyopt.certificates.careful import careful_transposed_product
from polyopt.certificates.certificate import Certificate, Claim, conclude
from polyopt.certificates.claims.statement import without_form
from polyopt.certificates.cpm_subset import FEW
from polyopt.certificates.face_box import FaceBox
from polyopt.certificates.face_multipliers import balanced
from polyopt.certificates.given import checked_faces
from polyopt.certificates.polyhedral_lp import LARGE, OTHERS, TRIVIAL, ZERO, gains_elsewhere, hinges_of
from polyopt.certificates.rounding import UNIT, Ball
from polyopt.certificates.smooth_tree import kept_features
from polyopt.certificates.subset_tree import SubsetTree, nodes_of, proven_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Matrix, MatrixLike, Vector

    Bits = NDArray[np.bool_]

__all__ = ["bounds_of_faces", "certify_polyceptron_subset"]

_TREES = (
    "The bound of each face is that of a search tree over its features, every node's evaluated anew from the "
    "data and its multipliers."
)
_ROOT = (
    "The bound of each face is that of the root alone: in a wide box that is the linear program of all "
    "features."
)
_NOTHING = 1e-7  # of the terms of a pull: what is left of them is a solver's tolerance


@np.errstate(over="ignore", invalid="ignore")
def bounds_of_faces(
    X: Matrix, y: Vector, caps: Vector, s: int, radius: float, trees: Sequence[ArrayLike] | None
) -> list[float]:
    """What each face costs at least, of all with at most s features, for its samples; 0 or more.

    Parameters
    ----------
    X, y
        Samples (n, m) and labels (n,).
    caps : ndarray of shape (n, K)
        What each sample's slack costs at each face, 0 where it is not in the face's program.
    s : int
        Features at most.
    radius : float
        R, finite.
    trees : sequence of array_like or None
        For each face the table of a :class:`polyopt.certificates.subset_tree.SubsetTree` whose points are
        multipliers (n,); without, the root alone, whose linear program is solved unless the data are large.

    Raises
    ------
    ValueError
        Trees of another number, or tables that are none.
    """
    (n, m), K = X.shape, caps.shape[1]
    if trees is not None and len(trees) != K:
        raise ValueError(f"trees must be one for each of the {K} faces, not {len(trees)}")
    found = []
    for k in range(K):
        own = np.flatnonzero(caps[:, k])
        cap = caps[own, k]
        if trees is not None:
            tree = SubsetTree.of(f"trees[{k}]", trees[k], m, width=n)
            tree = replace(tree, w=tree.w[:, own])
        else:
            none, large = np.array([-1]), n * m * K > LARGE
            u = np.zeros(len(own)) if large else _root(X[own], y[own], cap, s, radius)
            tree = SubsetTree(none, none, none, u[None, :], np.ones(1))
        nodes, bounds = nodes_of(tree, m), np.full(len(tree.eps), -np.inf)
        for number, inside, out in nodes:
            bounds[number] = _bound(X[own], y[own], cap, tree.w[number], s, radius, inside, out)
        found.append(proven_by(tree, nodes, bounds))
    return found


def _root(X: Matrix, y: Vector, cap: Vector, s: int, radius: float) -> Vector:
    """Multipliers of the relaxation, 0 where a solver finds none."""
    from formulations import polyceptron_subset

    if not len(cap):
        return cap
    solved = polyceptron_subset.relaxation_dual(X, y, s, cap, radius).solve()
    return np.asarray(solved["alpha"]) if solved.primal else np.zeros(len(cap))


def _bound(
    X: Matrix, y: Vector, cap: Vector, u: Vector, s: int, radius: float, inside: Bits, out: Bits
) -> float:
    """The bound of a node at its multipliers, as they are or balanced."""
    if int(inside.sum()) > s:
        return np.inf  # no face has so many
    u = np.clip(u, 0.0, cap)
    if not u.any():
        return 0.0
    left = np.flatnonzero(~out)
    kept, columns = X[:, left], inside[left]
    found = _value(kept, y, u, s, radius, columns)
    free = (u > 0.0) & (u < cap)
    if free.any():
        off = pull(kept, (y * u)[:, None])
        size = pull(abs(kept), u[:, None])
        # Where the pull is no rounding the box is to hold the weight.
        at = np.where(np.abs(off) > _NOTHING * size, np.copysign(radius, off), 0.0)
        near = balanced(kept, y, u[:, None], free[:, None], FaceBox(at, radius, None, False))[:, 0]
        found = max(found, _value(kept, y, np.clip(near, 0.0, cap), s, radius, columns))
    return found


def _value(X: Matrix, y: Vector, u: Vector, s: int, radius: float, inside: Bits) -> float:
    sizes = careful_transposed_product(lift(X), (y * u)[:, None]).size[:, 0]
    free = np.sort(sizes[:-1][~inside])
    left = min(s - int(inside.sum()), len(free))
    taken = np.concatenate([sizes[-1:], sizes[:-1][inside], free[len(free) - left :]])
    found = Ball(u).sum() - radius * Ball(taken).sum()
    return float(found.lower) if np.isfinite(found.lower) else -np.inf


@np.errstate(over="ignore", invalid="ignore")
def certify_polyceptron_subset(
    X: MatrixLike, y: ArrayLike, W: ArrayLike, *, max_features: int, C: ArrayLike = 1.0,
    assignment: ArrayLike | None = None, radius: float = 1e4, trees: Sequence[ArrayLike] | None = None,
    tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces of the exact Polyceptron of at most s features each, among all such for the assignment.

    Parameters
    ----------
    X, y, W, C, assignment, tol
        As of :func:`polyopt.certificates.certify_polyceptron`; by default the assignment is the best for W.
        A face of more features is not feasible.
    max_features : int
        s, at least 1.
    radius : float
        R, the largest absolute value of an entry of W; finite.
    trees : sequence of array_like, optional
        A search tree for each face, as :meth:`polyopt.certificates.subset_tree.SubsetTree.table` has it, with
        the multipliers (n,) of each node for its point. Without them the relaxation is solved for its root.

    Returns
    -------
    Certificate
        ``optimal`` if the value is 0, or with one face if it attains its bound; ``stationary`` with more, if
        no faces of so few features cost less for this assignment, and no negative gains by another face,
        within `tol`; else ``suboptimal_by``, for the fixed assignment. ``none`` for faces outside the box, or
        of more features.

    Raises
    ------
    ValueError
        Anything given that is not finite, real and of its shape, or trees that are none.
    """
    X, y = as_data(X, y)
    s, tol, costs = whole("max_features", max_features), tolerance(tol), as_costs(C, len(y))
    box = FaceBox.around(checked_faces("W", W, None, X.shape[1] + 1), positive("radius", radius), tol)
    K = len(box.W)
    chosen: NDArray[np.int64] = scores(X, box.W).argmin(axis=1)
    if assignment is not None:
        chosen = check_assignment(-y, K, assignment, "negative")
    caps = costs[:, None] * belonging(y, chosen, K, "all")
    hinges = hinges_of(X, y, box.W)
    pays = hinges.signed(caps > 0)
    zero = not (pays.mid.any() or pays.rad.any())
    feasible = kept_features(box.W, s) and not box.broken
    single, is_zero = K == 1, zero and feasible
    bound = 0.0 if zero else float(np.sum(bounds_of_faces(X, y, caps, s, box.radius, trees)))
    name = f"the exact Polyceptron with at most {s} features a face"
    certificate = conclude(
        name,
        Ball(0.0) if zero else (hinges * caps).sum(),
        Ball(bound, 4.0 * K * UNIT * bound),
        [*box.residuals(), *([] if is_zero else gains_elsewhere(y, hinges.mid, chosen))],
        tol,
        feasible=feasible,
        reached=Claim.OPTIMAL if single or is_zero else Claim.STATIONARY,
        scope=name if single or is_zero else "the program for this assignment with so few features",
        notes=[
            ZERO if is_zero else _ROOT if trees is None else _TREES,
            "" if single or is_zero else OTHERS,
            *([] if is_zero else box.notes),
            TRIVIAL if trees is None and not zero and X.shape[0] * X.shape[1] * K > LARGE else "",
        ],
    )
    return replace(certificate, evidence=without_form(FEW))
