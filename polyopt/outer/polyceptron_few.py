"""The exact Polyceptron with at most s features a face, as a problem of descent, and what its end proves.

For a fixed assignment each face is a search over its features (:mod:`polyopt.solvers.box_subset`). In the
rounds from many starts it is short: the features that the face had, and swaps. So no round raises the
objective. The best end then goes on with branch and bound for every face, until it brings nothing; what is
left open is the gap between the objective and the bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from formulations.arguments import positive, whole
from formulations.clock import interrupted
from formulations.polyhedral import belonging
from formulations.solution import Solution, Status
from polyopt.certificates.polyceptron_subset import bounds_of_faces
from polyopt.outer.cpm.subset import search_subset
from polyopt.outer.cpm.subset_tree import SubsetSearch
from polyopt.outer.few_faces import EXACT, SHORT, ended, largest_weights, told
from polyopt.outer.polyceptron import ExactPolyceptron
from polyopt.outer.rounds import Stage, run_from_many_starts, run_rounds
from polyopt.solvers.box_subset import BoxSubset, FeatureLP
from polyopt.solvers.clock import Clock

if TYPE_CHECKING:
    from formulations.matrices import Matrix, Vector
    from polyopt.outer.faces_by_programs import Assignment

__all__ = ["FewPolyceptron", "solve_few_polyceptron"]

_SHARE = 0.5  # of the time, for the rounds from many starts
_ROUNDS = 20  # with branch and bound at most
_GAIN = 1e-7  # relative fall of the objective that counts as one


class FewPolyceptron(ExactPolyceptron):
    """The exact Polyceptron with at most s features a face.

    Parameters
    ----------
    X, y, c, n_faces, radius
        As of :class:`polyopt.outer.polyceptron.ExactPolyceptron`; the radius is finite.
    s : int
        Features at most, of each face.
    seed : int
        Of the patterns that searches draw.
    """

    _own: ClassVar[tuple[str, ...]] = ("_last", "_models", "_program", "_linear")
    _linear: list[FeatureLP] | None = None

    def __init__(
        self, X: Matrix, y: Vector, c: Vector, n_faces: int, s: int, radius: float = 1e4, seed: int = 0
    ):
        super().__init__(X, y, c, n_faces, positive("radius", radius))
        self.s, self.seed = whole("max_features", s), seed

    # Another face of the same scores may use more features.

    def _least_norm(self, faces: Vector, assignment: Assignment) -> Vector:
        return faces

    def within_span(self, W: Vector) -> Vector:
        """As of the base, but faces of few features stay as they are."""
        return W

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Vector:
        """Random faces, whose largest weights are kept, in the units of their features."""
        return largest_weights(super().start(rng, time_limit), self.s, self._units[:-1])

    def record(self, W: Vector) -> dict[str, float]:
        """The number of faces that some negative is at, and the weights in use."""
        return {**super().record(W), "weights": float(np.count_nonzero(W[:, :-1]))}

    def searches(self, W: Vector, clock: Clock, max_nodes: int) -> list[tuple[SubsetSearch, Status]]:
        """For the assignment of W, the search over the features of each face, begun with those that it has.

        Parameters
        ----------
        W : ndarray of shape (K, m+1)
            Faces.
        clock : Clock
            When to stop; the faces that are left share what is left.
        max_nodes : int
            Nodes of each face at most.
        """
        for model in self._models:
            model.forget()
        return self._searched(W, self._assign(W), clock, max_nodes)

    def _searched(
        self, W: Vector, assignment: Assignment, clock: Clock, max_nodes: int = 0
    ) -> list[tuple[SubsetSearch, Status]]:
        if self._linear is None:
            self._linear = [
                FeatureLP(self.X, self.y, self.s, self.radius, self._units) for _ in range(self.n_faces)
            ]
            self._models = [program.model for program in self._linear]
        costs = self.caps(assignment)
        found = list[tuple[SubsetSearch, Status]]()
        for k, program in enumerate(self._linear):
            left = None if clock.left is None else clock.left / (self.n_faces - k)
            face = BoxSubset(program, costs[:, k], Clock(left))
            own = np.flatnonzero(W[k, :-1])
            search, status = search_subset(
                face, tol=EXACT, max_nodes=max_nodes, time_limit=left, features=own, seed=self.seed
            )
            if status is Status.INTERRUPTED:
                raise KeyboardInterrupt  # of the whole run, which keeps its best faces
            found.append((search, status))
        return found

    def caps(self, assignment: Assignment) -> Vector:
        """What each sample's slack costs at each face (n, K), 0 where it is not in the face's program.

        Parameters
        ----------
        assignment : ndarray of int, shape (n,)
            The face of each negative.
        """
        costs: Vector = self.c[:, None] * belonging(self.y, assignment, self.n_faces, "all")
        return costs

    def faces_of(self, searches: list[tuple[SubsetSearch, Status]]) -> tuple[Vector, Vector]:
        """The best faces (K, m+1) of searches, and their multipliers (n, K).

        Parameters
        ----------
        searches : list
            As :meth:`searches` gives them.
        """
        best = [search.best for search, _ in searches]
        W = np.array([each.w * self._units for each in best if each is not None])
        return W, np.column_stack([each.alpha for each in best if each is not None])

    def finished(self, W: Vector, faces: Vector) -> Vector:
        """Faces for the assignment of W that are no worse: unused ones moved, and rounding put right."""
        return self._finish(W, faces, self._assign(W))

    def _solve(
        self, W: Vector, assignment: Assignment, clock: Clock
    ) -> tuple[Status, Vector, dict[str, Vector], int]:
        faces, u = self.faces_of(self._searched(W, assignment, clock))
        return Status.TIME_LIMIT if clock.is_over else Status.SOLVED, faces, {"margin": u}, 1


def solve_few_polyceptron(
    problem: FewPolyceptron, *, max_nodes: int = 1000, n_init: int = 10, max_iter: int = 100,
    time_limit: float | None = None, n_jobs: int | None = None,
) -> Solution:  # fmt: skip
    """Steps from many starts, and the best end proven as far as the nodes go.

    Parameters
    ----------
    problem : FewPolyceptron
        The machine; its seed is that of the starts.
    max_nodes : int
        Nodes at most for each face of the end.
    n_init, max_iter, n_jobs
        As of :func:`polyopt.outer.rounds.run_from_many_starts` and its stage.
    time_limit : float, optional
        Seconds; half of them for the starts.

    Returns
    -------
    Solution
        Primal ``W``; duals ``margin`` (n, K), of each face with its own features, and ``tree_0`` and on, of
        the assignment that W has; ``bound``, for that assignment, as the certificate evaluates it.
        ``ITERATION_LIMIT`` where the nodes did not suffice. A limit, or Ctrl-C, keeps the best point.
    """
    clock = Clock(time_limit)
    best = run_from_many_starts(
        [Stage(problem, max_iter)], n_init=n_init, seed=problem.seed, n_jobs=n_jobs,
        time_limit=None if time_limit is None else _SHARE * time_limit,
    )  # fmt: skip
    if best.status is Status.INTERRUPTED:
        return best
    first, history, made = best, list(best.history), best.iterations
    status = Status.ITERATION_LIMIT
    try:
        for _ in range(_ROUNDS):
            searches = problem.searches(best["W"], clock, max_nodes)
            made += sum(search.nodes for search, _ in searches)
            faces = problem.finished(best["W"], problem.faces_of(searches)[0])
            if problem.value(faces) < (1.0 - _GAIN) * best.objective:
                best = run_rounds(problem, faces, max_iter=max_iter, time_limit=clock.left)
                history += [{"start": -1.0, **record} for record in best.history]
                if best.status in SHORT:
                    status = best.status
                    break
                continue
            best = _proven(problem, best, searches)
            short = next((status for _, status in searches if status in SHORT), None)
            status = short or ended(best, first.status)
            break
    except KeyboardInterrupt:
        status = interrupted()
    return told(best, first, status, "linear programs", made, clock, history)


def _proven(problem: FewPolyceptron, best: Solution, searches: list[tuple[SubsetSearch, Status]]) -> Solution:
    """The best end with the trees of its assignment, and what these prove."""
    trees = [search.tree.table() for search, _ in searches]
    caps = problem.caps(problem.assignment(best["W"]))
    bound = sum(bounds_of_faces(problem.X, problem.y, caps, problem.s, problem.radius, trees))
    _, u = problem.faces_of(searches)
    named = {f"tree_{k}": tree for k, tree in enumerate(trees)}
    return replace(best, duals={"margin": u, **named}, bound=min(bound, best.objective))
