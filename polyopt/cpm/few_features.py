"""The Convex Polytope Machine with at most s features per face: alternating minimisation and its bound.

The program is, with x̃ = (x, 1) and faces W (K, m+1), the bias last,

    min  Σ_k ‖W_k‖² + Σ_i C_i loss_i    subject to    at most s nonzero weights in each W_k besides the bias.

A positive has the loss [1 − W_k·x̃]_+ of its assigned face k, a negative Σ_k [1 + W_k·x̃]_+. For a fixed
assignment each face is a program of its own, a search over subsets of features (:func:`search_subset`).

The rounds from many starts use short searches without branching. Such a search starts from the face's
features of the previous round, so no round raises the objective; in the first round, from those with the
largest weights in the relaxation. It then swaps single features. The best run continues with branch and bound
over the features of every face, until the assignment no longer changes; the gap is the objective less the sum
of the faces' bounds.
"""

from dataclasses import replace
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
from polyopt.cpm.few_feature_tree import SubsetSearch, swap_features
from polyopt.optim.rounds import Stage, run_from_many_starts

Assignment = NDArray[np.int64]
Features = NDArray[np.int64]


def search_subset(
    face: SubsetFace, *, tol: float = 1e-6, max_nodes: int = 1000, time_limit: float | None = None,
    features: Features | None = None,
) -> tuple[SubsetSearch, Status]:  # fmt: skip
    """Search for the best features of a face; the status is SOLVED at the relative gap `tol`.

    First `features` and the relaxation of the tree's root give candidates, which swaps improve. Then branch
    and bound runs to `max_nodes`.

    max_nodes: largest number of the tree's nodes; 0 means swaps only, from `features` or else from those that
        the root relaxation suggests.
    features: features of the first candidate.
    Returns: the search, with the incumbent and its bound, and its status. A limit or Ctrl-C ends the search
        after at least one fit.
    """
    search = SubsetSearch(face, tol, Clock(time_limit))
    try:
        search.offer(np.empty(0, dtype=np.int64) if features is None else features)
        if max_nodes or features is None:
            search.begin()  # the root relaxation, and the fit to its s largest weights
        swap_features(search)
        return search, search.run(search.clock, max_nodes)
    except KeyboardInterrupt:
        if search.best is None:
            raise
        return search, interrupted()


class SubsetProblem(PolytopeProblem):
    """Alternating minimisation with at most s features per face, loss="sum".

    large: True to start like :class:`~polyopt.cpm.dual.DualProblem`, for large data.
    tol: relative gap of a face's search.
    max_nodes: largest number of nodes of a face's search; 0 means swaps only.
    signs (m,): sign constraints, as in :class:`~polyopt.cpm.few_feature_face.SubsetFace`.
    """

    _not_pickled: ClassVar[tuple[str, ...]] = ("_features", "_searches", "_lifted")  # the last is inherited
    _features: list[Features] | None = None  # features of each face in the previous round of the run
    _searches: dict[bytes, tuple[SubsetSearch, Status]] | None = None  # by the mask of the face's samples

    def __init__(
        self, X: Matrix, y: Vector, C: Vector, n_faces: int, max_features: int, *, large: bool = False,
        tol: float = 1e-6, max_nodes: int = 0, signs: Features | None = None,
    ):  # fmt: skip
        super().__init__(X, y, C, n_faces)
        self.max_features = whole("max_features", max_features)
        self.tol, self.max_nodes, self.signs = tol, max_nodes, signs
        self._starts = DualProblem(X, y, C, n_faces) if large else None

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """Return an initial assignment, as without a limit on features; forget the previous features."""
        self._features = None
        return super().start(rng) if self._starts is None else self._starts.start(rng, time_limit)

    def begin_from(self, W: Vector) -> None:
        """Start the next searches from the features of faces (K, m+1)."""
        self._features = [np.flatnonzero(w[:-1]) for w in W]

    def solve(self, assignment: Assignment, time_limit: float | None = None) -> Solution:
        """Return faces ``W`` (K, m+1) for an assignment, with multipliers ``margin`` (n, K) and a bound.

        With max_nodes > 0, the duals include the search tree of face k as ``tree_k``, an array with a row for
        each node; :class:`polyopt.cpm.certificate_restricted.SubsetTree` describes the columns.
        """
        clock = Clock(time_limit)
        Z = cpm.assignment_matrix(self.y, self.n_faces, assignment)
        searches = list[tuple[SubsetSearch, Status]]()
        for k, mask in enumerate(Z.T):
            seconds = None if clock.left is None else clock.left / (self.n_faces - k)
            features = None if self._features is None else self._features[k]
            searches.append(self._search_face(mask, features, seconds))
        solution = self._solution(searches, Z)
        self.begin_from(solution["W"])
        return solution

    def _search_face(
        self, mask: Vector, features: Features | None, time_limit: float | None
    ) -> tuple[SubsetSearch, Status]:
        """Search the features of the face with these samples, or return the search made before."""
        key = np.packbits(mask > 0).tobytes()
        if self._searches is None or not self.max_nodes:
            self._searches = {}  # not stored: with swaps only, the result depends on the first features
        if key not in self._searches:
            face = SubsetFace(self.X, self.y, self.C * mask, self.max_features, self.signs)
            self._searches[key] = search_subset(
                face, tol=self.tol, max_nodes=self.max_nodes, time_limit=time_limit, features=features
            )  # fmt: skip
        return self._searches[key]

    def _solution(self, searches: list[tuple[SubsetSearch, Status]], Z: Vector) -> Solution:
        """Return the faces of the searches as one solution; Z (n, K) is the assignment as a matrix."""
        W, alpha, trees = np.zeros((self.n_faces, self.X.shape[1] + 1)), np.zeros(Z.shape), {}
        for k, (search, _) in enumerate(searches):
            assert search.best is not None
            W[k], alpha[search.face.rows, k] = search.best.w, search.best.alpha
            if self.max_nodes:
                trees[f"tree_{k}"] = search.tree.table()
        # A node limit only widens the bound; `solve_cpm_subset` tests the gap.
        stopped = [status for _, status in searches if status in (Status.TIME_LIMIT, Status.INTERRUPTED)]
        return Solution(
            stopped[0] if stopped else Status.SOLVED, {"W": W}, {"margin": alpha, **trees},
            objective=self.value(W, Z), bound=float(sum(search.bound for search, _ in searches)),
            solver="alternating, branch and bound over features" if self.max_nodes else "alternating, swaps",
            iterations=sum(search.nodes for search, _ in searches),
        )  # fmt: skip


def solve_cpm_subset(
    X: Matrix, y: Vector, C: Vector, n_faces: int, max_features: int, *, large: bool = False,
    tol: float = 1e-6, max_nodes: int = 1000, n_init: int = 10, max_iter: int = 300,
    time_limit: float | None = None, seed: int = 0, n_jobs: int | None = None,
    signs: Features | None = None,
) -> Solution:  # fmt: skip
    """Alternate from many starts, then continue the best run with branch and bound.

    max_nodes: largest number of nodes per face.
    max_iter: largest number of rounds per start; for the best run it includes those with branch and bound.
    Returns: primal ``W`` (K, m+1) and ``assignment`` (n,), -1 at the negatives; duals ``margin`` (n, K) of
        the faces with their selected features, and ``tree_0`` to ``tree_K-1``; ``bound``, valid for the
        assignment. The status is ``ITERATION_LIMIT`` if the nodes did not suffice.
    """
    clock, data = Clock(time_limit), (X, y, C, n_faces, max_features)
    best = run_from_many_starts(
        [Stage(SubsetProblem(*data, large=large, signs=signs), max_iter)],
        n_init=n_init if n_faces > 1 else 1, seed=seed, n_jobs=n_jobs,
        time_limit=None if time_limit is None else 0.5 * time_limit,
    )  # fmt: skip
    if best.status is Status.INTERRUPTED:
        return best
    proving = SubsetProblem(*data, tol=tol, max_nodes=max_nodes, signs=signs)
    proving.begin_from(best["W"])
    try:
        proven = continue_best(best, proving, max_iter, clock.left)
    except KeyboardInterrupt:  # in the first round
        return replace(best, status=interrupted())
    if proven.status is Status.CONVERGED:  # the assignment is unchanged; is the gap closed, too?
        is_closed = proven.bound is None or proven.objective - proven.bound <= tol * proven.objective
        proven = replace(proven, status=Status.CONVERGED if is_closed else Status.ITERATION_LIMIT)
    return replace(proven, solve_time=clock.seconds)
