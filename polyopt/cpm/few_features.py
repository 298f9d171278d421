"""The Convex Polytope Machine with at most s features a face: alternating minimisation and its bound.

For a fixed assignment each face is a search over features of its own (:func:`search_subset`). In the rounds
from many starts it is short: the features that the face had, the largest of the relaxation, and swaps; so no
round raises the objective. The best run then continues with branch and bound over the features of every face,
until the assignment stays; the remaining gap is that between the objective and the sum of the faces' bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from formulations import cpm
from formulations.language.arguments import whole
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from polyopt.cpm.alternating import PolytopeProblem, continue_best
from polyopt.cpm.dual import DualProblem
from polyopt.cpm.few_feature_face import SubsetFace
from polyopt.cpm.few_feature_tree import SubsetSearch, draw_patterns, swap_features
from polyopt.optim.rounds import Stage, run_from_many_starts

Assignment = NDArray[np.int64]
Features = NDArray[np.int64]

_NODES_BEFORE_DRAWS = 30  # nodes before patterns of features are drawn: most faces are proven sooner
_STARTS_TIME_SHARE = 0.5  # of a time limit


def search_subset(
    face: SubsetFace, *, tol: float = 1e-6, max_nodes: int = 1000, time_limit: float | None = None,
    features: Features | None = None, seed: int = 0,
) -> tuple[SubsetSearch, Status]:  # fmt: skip
    """Search for the best features of a face; SOLVED if the relative gap `tol` is reached.

    max_nodes: nodes of the tree at most; with 0 there are swaps alone, and without features the root before
        them.
    features: features to begin with.
    A limit, or Ctrl-C, keeps the best face and the bound; one face is always made.
    """
    search = SubsetSearch(face, tol, Clock(time_limit))
    try:
        search.offer(np.empty(0, dtype=np.int64) if features is None else features)
        if max_nodes or features is None:
            search.begin()
        swap_features(search)

        def pause(at: SubsetSearch) -> None:
            draw_patterns(at, seed)
            swap_features(at)

        return search, search.search(max_nodes, pause, after=_NODES_BEFORE_DRAWS)
    except KeyboardInterrupt:
        if search.best is None:
            raise
        return search, interrupted()


@dataclass
class _Incumbent:
    """Features of the last faces, and the assignment that follows."""

    features: list[Features]
    following: Assignment


class SubsetProblem(PolytopeProblem):
    """Alternating minimisation with at most s features a face, loss="sum".

    large: True if the starts are those of the dual solver, for large data.
    tol, max_nodes: relative gap at which the search of a face ends, and its nodes at most; 0 for swaps alone.
    signs (m,): signs of the weights, as of :class:`~polyopt.cpm.few_feature_face.SubsetFace`.
    """

    _not_pickled: ClassVar[tuple[str, ...]] = ("_last", "_known", "_lifted")
    _last: _Incumbent | None = None
    _known: dict[bytes, tuple[SubsetSearch, Status]] | None = None  # searches of faces, by their samples

    def __init__(
        self, X: Matrix, y: Vector, C: Vector, n_faces: int, max_features: int, *, large: bool = False,
        tol: float = 1e-6, max_nodes: int = 0, seed: int = 0, signs: Features | None = None,
    ):  # fmt: skip
        super().__init__(X, y, C, n_faces)
        self.max_features = whole("max_features", max_features)
        self.tol, self.max_nodes, self.seed, self.signs = tol, max_nodes, seed, signs
        self._starts = DualProblem(X, y, C, n_faces) if large else None

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """Return a random assignment, as without a limit of features."""
        self._last = None
        return super().start(rng) if self._starts is None else self._starts.start(rng, time_limit)

    def begin_from(self, W: Vector, assignment: Assignment) -> None:
        """Take faces (K, m+1) as those before an assignment; the next are no worse."""
        self._last = _Incumbent([np.flatnonzero(w[:-1]) for w in W], assignment)

    def solve(self, assignment: Assignment, time_limit: float | None = None) -> Solution:
        """Return the best faces found for an assignment: ``W`` (K, m+1), ``margin`` (n, K), and a bound.

        If there are nodes, the tree of face k is among the multipliers as ``tree_k``, a table of
        :class:`polyopt.cpm.certificate_restricted.SubsetTree`.
        """
        clock, last = Clock(time_limit), self._last
        is_next = last is not None and np.array_equal(assignment, last.following)
        Z = cpm.assignment_matrix(self.y, self.n_faces, assignment)
        parts = list[tuple[SubsetSearch, Status]]()
        for k, mask in enumerate(Z.T):
            left = None if clock.left is None else clock.left / (self.n_faces - k)
            features = last.features[k] if last is not None and is_next else None
            parts.append(self._face(mask, features, left))
        solution = self._solution(parts, Z)
        self.begin_from(solution["W"], assignment)
        return solution

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Move each positive to its best face if that lowers its hinge."""
        following = super().reassign(point, assignment)
        if self._last is not None:
            self._last.following = following
        return following

    def _face(
        self, mask: Vector, features: Features | None, time_limit: float | None
    ) -> tuple[SubsetSearch, Status]:
        key = np.packbits(mask > 0).tobytes()
        if self._known is None or not self.max_nodes:
            self._known = {}  # the end of a short search depends on its start
        if key not in self._known:
            face = SubsetFace(self.X, self.y, self.C * mask, self.max_features, self.signs)
            self._known[key] = search_subset(
                face, tol=self.tol, max_nodes=self.max_nodes, time_limit=time_limit, features=features,
                seed=self.seed,
            )  # fmt: skip
        return self._known[key]

    def _solution(self, parts: list[tuple[SubsetSearch, Status]], Z: Vector) -> Solution:
        W, alpha, trees = np.zeros((self.n_faces, self.X.shape[1] + 1)), np.zeros(Z.shape), {}
        for k, (search, _) in enumerate(parts):
            assert search.best is not None
            W[k], alpha[search.face.rows, k] = search.best.w, search.best.alpha
            if self.max_nodes:
                trees[f"tree_{k}"] = search.tree.table()
        stopped = [status for _, status in parts if status in (Status.TIME_LIMIT, Status.INTERRUPTED)]
        return Solution(
            status=stopped[0] if stopped else Status.SOLVED,
            primal={"W": W},
            duals={"margin": alpha, **trees},
            objective=self.value(W, Z),
            bound=float(sum(search.bound for search, _ in parts)),
            solver="alternating, branch and bound over features" if self.max_nodes else "alternating, swaps",
            iterations=sum(search.nodes for search, _ in parts),
        )


def solve_cpm_subset(
    X: Matrix, y: Vector, C: Vector, n_faces: int, max_features: int, *, large: bool = False,
    tol: float = 1e-6, max_nodes: int = 1000, n_init: int = 10, max_iter: int = 300,
    time_limit: float | None = None, seed: int = 0, n_jobs: int | None = None,
    signs: Features | None = None,
) -> Solution:  # fmt: skip
    """Alternate from many starts, and bound the best end with `max_nodes` nodes for each face at most.

    max_iter: rounds at most, per start; for the best start those that prove its end are among them.
    Returns: primal ``W`` (K, m+1) and ``assignment`` (n,), -1 at the negatives; duals ``margin`` (n, K), of
        each face with its own features, and ``tree_0`` to ``tree_K-1``; ``bound``, for that assignment.
        ``ITERATION_LIMIT`` if the nodes did not suffice.
    """
    clock, data = Clock(time_limit), (X, y, C, n_faces, max_features)
    first = run_from_many_starts(
        [Stage(SubsetProblem(*data, large=large, seed=seed, signs=signs), max_iter)],
        n_init=n_init if n_faces > 1 else 1, seed=seed, n_jobs=n_jobs,
        time_limit=None if time_limit is None else _STARTS_TIME_SHARE * time_limit,
    )  # fmt: skip
    if first.status is Status.INTERRUPTED:
        return first
    proving = SubsetProblem(*data, tol=tol, max_nodes=max_nodes, seed=seed, signs=signs)
    proving.begin_from(first["W"], first["assignment"])
    try:
        last = continue_best(first, proving, max_iter, clock.left)
    except KeyboardInterrupt:  # before there was a first round
        return replace(first, status=interrupted())
    if last.status is Status.CONVERGED:
        is_proven = last.bound is None or last.objective - last.bound <= tol * last.objective
        last = replace(last, status=Status.CONVERGED if is_proven else Status.ITERATION_LIMIT)
    return replace(last, solve_time=clock.seconds)
