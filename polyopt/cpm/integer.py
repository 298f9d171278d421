"""Faces of small whole numbers: real faces rounded one after the other, and what that may have cost at most.

The face that loses least is rounded first (:mod:`polyopt.cpm.integer_face`). Then the positives choose
their faces anew, and those that are still real are fitted to them: so they can make good what rounding lost.
Once all are whole, assigning and searching the numbers alternate, from which no round comes back worse.

What is proven is for the assignment at the end: the real program's dual bound. The objective less that is no
less than what whole numbers cost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations import cpm
from formulations.language.arguments import as_costs, whole
from formulations.language.clock import Clock
from formulations.language.recovery import slacks
from formulations.language.solution import Solution, Status
from formulations.polytope import natural_assignment
from polyopt.cpm.alternating import reassigned
from polyopt.cpm.dual import solve_cpm_dual
from polyopt.cpm.few_feature_face import SubsetFace
from polyopt.cpm.few_features import search_subset
from polyopt.cpm.integer_face import IntegerFace, Whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Matrix, Vector

    Assignment = NDArray[np.int64]

__all__ = ["round_faces"]

_MAX_FEATURES_TO_REFIT = 500  # as a step of the refit solves so many equations
_REL_GAP = 1e-4  # of a face that is fitted anew, and of the bound where there are more features


def round_faces(
    X: Matrix, y: Vector, C: Vector, real: Solution, M: int, *, max_features: int | None = None,
    max_nodes: int = 1000, tol: float = 1e-6, time_limit: float | None = None, seed: int = 0,
) -> Solution:  # fmt: skip
    """Round the faces of a solution to whole numbers from −M to M, times a scale for each face.

    X (n, m): samples.
    y (n,): labels: -1 inside, +1 outside.
    C (n,): cost of slack per sample.
    real: faces ``W`` (K, m+1) and, where it has one, their ``assignment``.
    M: the largest number.
    max_features: numbers other than 0 at most, for each face; the bound is then among faces of so few
        features.
    max_nodes, tol: of the search for that bound, as of :func:`polyopt.cpm.few_features.search_subset`.
    time_limit: seconds. Every face is rounded once whatever the time.
    seed: of that search.
    Returns: primal ``integers`` (K, m), ``scales`` (K,), ``thresholds`` (K,), the faces ``W`` (K, m+1) that
        they make, and ``assignment`` (n,); duals ``margin`` (n, K) of the real program for that assignment,
        with trees where `max_features` is given; ``bound``, that program's.
    """
    clock = Clock(time_limit)
    rounding = _Rounding(X, y, as_costs(C, len(y)), whole("M", M), max_features, np.array(real["W"]), clock)
    status = real.status
    try:
        rounding.round_all()
        rounding.search_again()
    except KeyboardInterrupt:
        rounding.finish()
        status = Status.INTERRUPTED
    if clock.is_over and status is Status.CONVERGED:
        status = Status.TIME_LIMIT
    W, z, wholes = rounding.W, rounding.z, [each for each in rounding.wholes if each is not None]
    alpha, bound, trees = rounding.bound(max_nodes, tol, seed)
    hinge = slacks(np.asarray(cpm.lift(X) @ W.T), y[:, None])
    return replace(
        real,
        status=status,
        primal={
            "W": W,
            "assignment": z,
            "integers": np.array([each.numbers for each in wholes]),
            "scales": np.array([each.scale for each in wholes]),
            "thresholds": np.array([each.threshold for each in wholes]),
        },
        duals={"margin": alpha, **trees},
        objective=float((W**2).sum() + rounding.C @ (hinge * cpm.answers(y, len(W), z)).sum(axis=1)),
        bound=bound,
        solver=f"{real.solver}; rounded to whole numbers",
        solve_time=real.solve_time + clock.seconds,
    )


class _Rounding:
    """The faces on the way: real ones, and those that are whole already."""

    def __init__(self, X: Matrix, y: Vector, C: Vector, M: int, s: int | None, W: Vector, clock: Clock):
        self.X, self.y, self.C, self.M, self.s, self.W, self.clock = X, y, C, M, s, W, clock
        self.lifted = cpm.lift(self.X)
        self.wholes: list[Whole | None] = [None for _ in self.W]
        self.z = natural_assignment(self.X, self.y, self.W)

    def round_all(self) -> None:
        """Round one face after the other, and refit those that are left to the assignment that follows."""
        losses = [self._rounded(k).objective - self._cost(self.W[k], k) for k in range(len(self.W))]
        for k in np.argsort(losses, kind="stable"):
            self._take(int(k), self._rounded(int(k)))
            for _ in range(3):
                if self.clock.is_over or not self._assign():
                    break
                for other, each in enumerate(self.wholes):
                    if each is None:
                        self.W[other] = self._real(other)

    def search_again(self) -> None:
        """Search the numbers of every face and assign anew, until the assignment stays."""
        moves = True
        while moves:
            for k, each in enumerate(self.wholes):
                assert each is not None
                if self.clock.is_over:
                    return
                found = self._rounded(k, self._real(k), each)
                if self._cost(found.w, k) < self._cost(each.w, k):
                    self._take(k, found)
            moves = self._assign()

    def finish(self) -> None:
        """After an interruption: round what is still real."""
        for k, each in enumerate(self.wholes):
            if each is None:
                self._take(k, self._rounded(k))

    def bound(self, max_nodes: int, tol: float, seed: int) -> tuple[Vector, float, dict[str, Vector]]:
        """Multipliers (n, K) of the real program, its bound, and the search trees."""
        n, K = len(self.y), len(self.W)
        alpha, total = np.zeros((n, K)), 0.0
        trees: dict[str, Vector] = {}
        if self.s is None and self.X.shape[1] > _MAX_FEATURES_TO_REFIT:
            left = self.clock.left
            found = solve_cpm_dual(self.X, self.y, self.C, K, self.z, tol=_REL_GAP, time_limit=left)
            return found.duals["margin"], float(found.bound or 0.0), trees
        for k in range(K):
            face = self._face(k)
            if self.s is None:
                fitted = face.fit(np.arange(face.m))
                alpha[face.rows, k], total = fitted.alpha, total + max(fitted.bound, 0.0)
                continue
            left = None if self.clock.left is None else self.clock.left / (K - k)
            search, _ = search_subset(
                face, tol=tol, max_nodes=max_nodes, time_limit=left, features=np.flatnonzero(self.W[k, :-1]),
                seed=seed,
            )  # fmt: skip
            assert search.best is not None
            alpha[face.rows, k], total = search.best.alpha, total + search.bound
            trees[f"tree_{k}"] = search.tree.table()
        return alpha, total, trees

    # -- one face ------------------------------------------------------------------------------

    def _costs(self, k: int) -> Vector:
        return np.where((self.y < 0) | (self.z == k), self.C, 0.0)

    def _face(self, k: int) -> SubsetFace:
        return SubsetFace(self.X, self.y, self._costs(k), self.X.shape[1] if self.s is None else self.s)

    def _real(self, k: int) -> Vector:
        """The real face of its samples, of the features that it has where they are to be few."""
        if self.X.shape[1] > _MAX_FEATURES_TO_REFIT:
            return self.W[k]
        face = self._face(k)
        used = np.arange(face.m) if self.s is None else np.flatnonzero(self.W[k, :-1])
        return face.fit(used, tol=_REL_GAP, w=self.W[k]).w

    def _rounded(self, k: int, w: Vector | None = None, now: Whole | None = None) -> Whole:
        face = IntegerFace(self.X, self.y, self._costs(k), self.M, self.s)
        return face.round(self.W[k] if w is None else w, *([] if now is None else [now.numbers]))

    def _cost(self, w: Vector, k: int) -> float:
        """What a face costs with the samples of face k."""
        hinge = np.maximum(0.0, 1.0 - self.y * np.asarray(self.lifted @ w))
        return float(w @ w + self._costs(k) @ hinge)

    def _take(self, k: int, found: Whole) -> None:
        self.wholes[k], self.W[k] = found, found.w

    def _assign(self) -> bool:
        """Move each positive to its best face where that lowers its hinge; whether any moves."""
        before = self.z
        self.z = reassigned(np.asarray(self.lifted @ self.W.T), self.y, before)
        return bool((self.z != before).any())
