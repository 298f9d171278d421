"""The Convex Polytope Machine with at most s features a face: alternating minimisation, and what it proves.

For a fixed assignment each face is a search of its own. In the rounds from many starts it is short: the
features that the face had, the largest of the relaxation, and swaps. So no round raises the objective. The
best end then goes on with branch and bound over the features of every face, until the assignment stays; what
is left open is the gap between the objective and the sum of the faces' bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations import cpm
from formulations.language.arguments import as_costs, whole
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.cpm.few_feature_face import SubsetFace
from polyopt.cpm.few_feature_tree import SubsetSearch, draw_patterns, swap_features
from polyopt.optim.rounds import AlternatingProblem, Stage, run_from_many_starts, run_rounds
from polyopt.optim.starts import continued, number_of_best

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Matrix, Vector
    from polyopt.cpm.alternating import Engine

    Assignment = NDArray[np.int64]

__all__ = ["SubsetProblem", "search_subset", "solve_cpm_subset"]

_SHORT = (Status.TIME_LIMIT, Status.INTERRUPTED)


def search_subset(
    face: SubsetFace, *, tol: float = 1e-6, max_nodes: int = 1000, time_limit: float | None = None,
    features: NDArray[np.int64] | None = None, seed: int = 0,
) -> tuple[SubsetSearch, Status]:  # fmt: skip
    """Search for the best features of a face, and bound what any cost.

    face: the face.
    tol: relative gap at which to end.
    max_nodes: nodes of the tree at most; with 0 there are swaps alone, and without features the root before
        them.
    time_limit: seconds. One face is always made.
    features: features to begin with.
    seed: of the patterns that are drawn.
    Returns search: with its best face, its bound and its tree.
    Returns status: ``SOLVED`` where the gap is closed. A limit, or Ctrl-C, keeps the best face and the bound.
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

        return search, search.search(max_nodes, pause, after=30)  # most faces are proven sooner
    except KeyboardInterrupt:
        if search.best is None:
            raise
        return search, interrupted()


@dataclass
class _Answer:
    """The faces of the last answer, and the assignment that comes after it."""

    features: list[NDArray[np.int64]]
    following: Assignment


class SubsetProblem(AlternatingProblem):
    """Steps of alternating minimisation with at most s features a face, loss="sum".

    X (n, m): samples.
    y (n,): labels: -1 inside, +1 outside.
    C (n,): cost of slack per sample.
    n_faces, max_features: K and s, at least 1.
    engine: which starts: those of the explicit programs, or of the dual engine, for large data.
    tol: relative gap at which the search of a face ends.
    max_nodes: nodes for each face at most; 0 for swaps alone.
    seed: of the patterns drawn.
    """

    _own = ("_last", "_known")
    _last: _Answer | None = None
    _known: dict[bytes, tuple[SubsetSearch, Status]] | None = None  # searches of faces, by their samples

    def __init__(
        self, X: Matrix, y: Vector, C: Vector, n_faces: int, max_features: int, *, engine: Engine = "program",
        tol: float = 1e-6, max_nodes: int = 0, seed: int = 0,
    ):  # fmt: skip
        self.X, self.y, self.C, self.n_faces = X, y, as_costs(C, len(y)), n_faces
        self.max_features = whole("max_features", max_features)
        self.tol, self.max_nodes, self.seed = tol, max_nodes, seed
        self.starts = PolytopeProblem(X, y, C, n_faces, engine=engine)
        self._scored = self.starts if engine == "program" else PolytopeProblem(X, y, C, n_faces)

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Sources of randomness for `count` starts."""
        return self.starts.generators(seed, count)

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """A random assignment, as of the machine with all features."""
        self._last = None
        return self.starts.start(rng, time_limit)

    def begin_from(self, W: Vector, assignment: Assignment) -> None:
        """Take faces (K, m+1) as those before an assignment: none will be worse."""
        self._last = _Answer([np.flatnonzero(w[:-1]) for w in W], assignment)

    def solve(self, assignment: Assignment, time_limit: float | None = None) -> Solution:
        """The best faces found for an assignment: W (K, m+1), multipliers ``margin`` (n, K), trees, a bound.

        The tree of face k is among the multipliers as ``tree_k``, a table of
        :class:`polyopt.cpm.certificate_few_features.SubsetTree`.
        """
        clock, last = Clock(time_limit), self._last
        is_next = last is not None and np.array_equal(assignment, last.following)
        Z, parts = cpm.answers(self.y, self.n_faces, assignment), list[tuple[SubsetSearch, Status]]()
        for k, mask in enumerate(Z.T):
            left = None if clock.left is None else clock.left / (self.n_faces - k)
            own = last.features[k] if last is not None and is_next else None
            parts.append(self._face(mask, own, left))
        found = self._solution(parts, Z)
        self._last = _Answer([np.flatnonzero(w[:-1]) for w in found["W"]], assignment)
        return found

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Move each positive to its best face where that lowers its hinge strictly."""
        following = self._scored.reassign(point, assignment)
        if self._last is not None:
            self._last.following = following
        return following

    def _face(
        self, mask: Vector, features: NDArray[np.int64] | None, time_limit: float | None
    ) -> tuple[SubsetSearch, Status]:
        key = np.packbits(mask > 0).tobytes()
        if self._known is None or not self.max_nodes:
            self._known = {}  # of a short search the end depends on where it began
        if key not in self._known:
            face = SubsetFace(self.X, self.y, self.C * mask, self.max_features)
            self._known[key] = search_subset(
                face, tol=self.tol, max_nodes=self.max_nodes, time_limit=time_limit, features=features,
                seed=self.seed,
            )  # fmt: skip
        return self._known[key]

    def _solution(self, parts: list[tuple[SubsetSearch, Status]], Z: Vector) -> Solution:
        W, alpha, duals = np.zeros((self.n_faces, self.X.shape[1] + 1)), np.zeros(Z.shape), {}
        for k, (search, _) in enumerate(parts):
            assert search.best is not None
            W[k], alpha[search.face.rows, k] = search.best.w, search.best.alpha
            if self.max_nodes:
                duals[f"tree_{k}"] = search.tree.table()
        statuses = [status for _, status in parts]
        hinge = np.maximum(0.0, 1.0 - self.y[:, None] * np.asarray(cpm.lift(self.X) @ W.T))
        return Solution(
            status=next((status for status in statuses if status in _SHORT), Status.SOLVED),
            primal={"W": W},
            duals={"margin": alpha, **duals},
            objective=float((W**2).sum() + self.C @ (hinge * Z).sum(axis=1)),
            bound=float(sum(search.bound for search, _ in parts)),
            solver="alternating, branch and bound over features" if self.max_nodes else "alternating, swaps",
            iterations=sum(search.nodes for search, _ in parts),
        )


def solve_cpm_subset(
    X: Matrix, y: Vector, C: Vector, n_faces: int, max_features: int, *, engine: Engine = "program",
    tol: float = 1e-6, max_nodes: int = 1000, n_init: int = 10, max_iter: int = 300,
    time_limit: float | None = None, seed: int = 0, n_jobs: int | None = None,
) -> Solution:  # fmt: skip
    """Alternate from many starts, and prove the best end as far as the nodes go.

    max_nodes: nodes for each face at most, at the end.
    n_init: starts.
    max_iter: rounds at most, per start; for the best start those that prove its end are among them.
    time_limit: seconds; half of them for the starts.
    seed: of all that is random.
    n_jobs: starts run at once.
    Returns: primal ``W`` (K, m+1) and ``assignment`` (n,), -1 at the negatives; duals ``margin`` (n, K), of
        each face with its own features, and ``tree_0`` to ``tree_K-1``; ``bound``, for that assignment.
        ``ITERATION_LIMIT`` where the nodes did not suffice.
    """
    clock = Clock(time_limit)
    short = SubsetProblem(X, y, C, n_faces, max_features, engine=engine, seed=seed)
    first = run_from_many_starts(
        [Stage(short, max_iter)], n_init=n_init if n_faces > 1 else 1, seed=seed, n_jobs=n_jobs,
        time_limit=None if time_limit is None else 0.5 * time_limit,
    )  # fmt: skip
    number = number_of_best(first.runs)
    made = first.runs[number].iterations
    if first.status is Status.INTERRUPTED:
        return first
    if made >= max_iter:
        return replace(first, status=Status.ITERATION_LIMIT)
    proving = SubsetProblem(
        X, y, C, n_faces, max_features, engine=engine, tol=tol, max_nodes=max_nodes, seed=seed
    )
    proving.begin_from(first["W"], first["assignment"])
    try:
        last = run_rounds(proving, first["assignment"], max_iter=max_iter - made, time_limit=clock.left)
    except KeyboardInterrupt:  # before there was a first round
        return replace(first, status=interrupted())
    status = last.status
    if status is Status.CONVERGED and last.bound is not None:
        is_proven = last.objective - last.bound <= tol * last.objective
        status = Status.CONVERGED if is_proven else Status.ITERATION_LIMIT
    return replace(
        last, status=status, iterations=first.iterations + last.iterations, solve_time=clock.seconds,
        history=(*first.history, *continued(last.history, "round", number, made, first.solve_time)),
        runs=first.runs,
    )  # fmt: skip
