"""A bound on all assignments of the Convex Polytope Machine for data of any size, from groups of samples.

The mean of the optima of m groups, with costs times m, is no more than the optimum of the whole
(:mod:`polyopt.certificates.cpm_groups`). Each group is bounded by the search of
:mod:`polyopt.outer.cpm.optimum`. In few dimensions small groups are proven to their optima; in more none is,
and the bound by the spread of the faces (:mod:`polyopt.outer.cpm.spread`) grows with the group, so that the
root of one large group proves more than the trees of many small ones. Nothing is lost where all groups have
the faces of the whole among their optima, so they are made as alike as can be
(:mod:`polyopt.outer.cpm.alike`); small groups ask for faces of their own, and large ones take long. The idea
is that of bounds for clustering by anticlustering (arXiv:2502.08397).

Before them all samples are bounded together, with moves of near ones alone
(:mod:`polyopt.outer.cpm.neighbours`), if they have more than four features; where this proves more than the
groups do it is told as the bound of one group that holds all samples.

The point is the best of dual ascents from random starts and from the faces of the groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.arguments import tolerance, whole_or_none
from formulations.clock import running
from formulations.matrices import dense
from formulations.polytope import natural_assignment, objective
from formulations.recovery import as_costs, as_data
from formulations.solution import Solution, Status
from polyopt.certificates.cpm_groups import bound_of_groups, costs_in_groups
from polyopt.jobs import dealt, share
from polyopt.outer.cpm.alike import groups_alike
from polyopt.outer.cpm.arguments import MOST_FEATURES, MOST_SAMPLES, MOST_SPREAD
from polyopt.outer.cpm.neighbours import bound_by_neighbours
from polyopt.outer.cpm.optimum import solve_cpm_global
from polyopt.outer.cpm.problem import PolytopeProblem
from polyopt.outer.rounds import Stage, run_from_many_starts, run_rounds
from polyopt.solvers.clock import Clock
from polyopt.watch import counted, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Matrix, MatrixLike, Vector

    Places = NDArray[np.int64]

__all__ = ["solve_cpm_groups"]

_LEAST, _LARGEST, _PER_FEATURE = 60, 300, 20  # samples of a group by default, of few features
_SPREAD_WORK = 4e7  # squared samples times dimensions of a group, else: some seconds for its root
_STARTS = 10  # dual ascents from random starts
_TRIED, _BEST = 100, 3  # of the groups' faces: those valued on all samples, and the best, to ascend from
_GAP, _ROUNDS = 1e-4, 300  # of a dual ascent
# Of the time, by when the random starts, all samples together, and the groups are to be through.
_FIRST, _NEIGHBOURS, _GROUPS = 0.15, 0.6, 0.9
_CLOSE = 1e-3  # relative gap at which a group is done: less would not show in the sum
_WORK = 10_000_000  # nodes times squared group size, at most, for a group where there is no other limit


def solve_cpm_groups(
    X: MatrixLike,
    y: ArrayLike,
    C: ArrayLike,
    n_faces: int,
    *,
    group_size: int | None = None,
    tol: float = 1e-6,
    max_nodes: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    known: Sequence[Vector] = (),
) -> Solution:
    """A good point of eq. (6) and a bound that no faces can beat, for data of any size.

    Parameters
    ----------
    X : array_like or CSR of shape (n, m)
        Samples; sparse ones are made dense group by group, and once to deal them out.
    y : array_like of shape (n,)
        Labels: -1 inside, +1 outside.
    C : float or array_like of shape (n,)
        Cost of slack, per sample.
    n_faces : int
        K, at least 1.
    group_size : int, optional
        Samples of a group at most, up to 500, or 2,000 with more than one face. By default 20 for each
        feature, from 60 to 300; beyond 4 features as many as the root of a spread takes some seconds for.
    tol : float
        Relative gap at which the point counts as optimal.
    max_nodes : int, optional
        Partial assignments examined at most, in each group. By default fewer the larger the groups are, some
        seconds for each, or, with `time_limit`, as many as there is time for.
    time_limit : float, optional
        Seconds: up to 15 % for the starts, beyond 4 features up to 60 % for all samples together, up to 90 %
        for groups. The groups get equal shares; what one does not need is left to those after it.
    seed : int
        Of the starts and of the division into groups.
    n_jobs : int, optional
        Groups searched at once, as joblib counts.
    known : sequence of ndarray of shape (K, m+1)
        Faces that the answer is to be no worse than.

    Returns
    -------
    Solution
        As of :func:`~polyopt.outer.cpm.optimum.solve_cpm_global`; ``primal`` has besides the ``group`` (n,)
        of each sample, and ``duals`` the bound on each group's own program, ``group_bound`` (groups,), of
        which ``bound`` is the mean; where all samples together prove more they are one group.
        ``BOUNDED`` if all groups were searched to their ends. ``iterations`` counts nodes; ``history`` has a
        record for each group: groups, bound, objective, seconds.

    Raises
    ------
    ValueError
        Arguments that make no program, or groups of more than that.
    """
    X, y = as_data(X, y)
    tol, size = tolerance(tol), whole_or_none("group_size", group_size)
    most = MOST_SPREAD if n_faces > 1 else MOST_SAMPLES
    if size is None:
        size = _default_size(X.shape[1], most)
    if size > most:
        raise ValueError(f"group_size must be an integer from 1 to {most}, not {size}")
    if max_nodes is None and time_limit is None:
        max_nodes = max(_WORK // size**2, 1)
    if not ((y > 0).any() and (y < 0).any()):
        raise ValueError("y must hold both classes, -1 and +1: with one of them there is nothing to assign")
    with running(Clock(time_limit)) as clock:
        search = _Groups(X, y, as_costs(C, len(y)), n_faces, clock, seed, known)
        search.begin(size)
        search.together()
        search.bound(max_nodes, n_jobs)
        return search.end(tol)


def _default_size(m: int, most: int) -> int:
    """Samples of a group, of so many features."""
    size = min(max(_LEAST, _PER_FEATURE * m), _LARGEST)
    if m <= MOST_FEATURES or most <= MOST_SAMPLES:
        return size
    return max(size, min(int(np.sqrt(_SPREAD_WORK / (m + 1))), most))


class _Found(NamedTuple):
    """What is known of a group: its bound, faces if it was looked into, nodes, and how its search ended."""

    bound: float
    W: Vector | None
    nodes: int
    status: Status


@dataclass
class _Groups:
    """One search: the data, the point, the division."""

    X: Matrix
    y: Vector
    C: Vector
    n_faces: int
    clock: Clock
    seed: int
    known: Sequence[Vector]

    def begin(self, size: int) -> None:
        """The point from random starts, and groups that are alike, in what their samples score there too."""
        n = len(self.y)
        self.problem = PolytopeProblem(self.X, self.y, self.C, self.n_faces, engine="dual", tol=_GAP)
        self.point = run_from_many_starts(
            [Stage(self.problem, _ROUNDS)], n_init=_STARTS if self.n_faces > 1 else 1,
            time_limit=self._until(_FIRST), seed=self.seed, n_jobs=1,
        )  # fmt: skip
        for W in self.known:
            self._take(W)
        self.m = -(-n // size)
        features = dense(self.X)
        alike = np.column_stack([features, self._scores(self.point["W"])])
        weights = np.repeat([features.shape[1], self.n_faces], [features.shape[1], self.n_faces]) ** -0.5
        self.group = groups_alike(alike, self.y, self.m, np.random.default_rng(self.seed), weights)
        self.bounds = np.zeros(self.m)
        self.history: list[dict[str, float]] = []
        self.found: list[_Found] = []
        self.whole = 0.0  # what all samples together prove

    def _take(self, W: Vector) -> None:
        """Keep known faces if they are better than the point, or where alternating from them leads."""
        assignment, value = natural_assignment(self.X, self.y, W), objective(self.X, self.y, W, self.C)
        found = run_rounds(self.problem, assignment, max_iter=_ROUNDS, time_limit=self._until(_FIRST))
        if value < found.objective:  # which the dual solver reaches up to its gap
            found = replace(found, primal={"W": W, "assignment": assignment}, objective=value)
        if found.objective < self.point.objective:
            self.point = found

    def together(self) -> None:
        """Bound all samples together, where they are not a group anyway and groups are not solved."""
        if self.m == 1 or self.n_faces == 1 or self.X.shape[1] <= MOST_FEATURES or self.clock.is_over:
            return
        try:
            self.whole = bound_by_neighbours(
                dense(self.X), self.y, self.C, self.n_faces, self.point.objective,
                Clock(self._until(_NEIGHBOURS)), self.seed,
            )  # fmt: skip
        except KeyboardInterrupt:
            self.clock.stop()

    def bound(self, max_nodes: int | None, n_jobs: int | None) -> None:
        """Bound the groups, one after the other or at once."""
        until = Clock(self._until(_GROUPS))
        costs = costs_in_groups(self.C, self.m)
        tasks = []
        # Starts of their own take longer in a large group than its bound.
        start = self.point["W"] if len(self.y) > MOST_SAMPLES * self.m else None
        for g in range(self.m):
            at = np.flatnonzero(self.group == g)
            tasks.append(_Task(self.X[at], self.y[at], costs[at], self.n_faces, g, self.m, self.seed, start))
        searched = partial(_searched, until=until, max_nodes=max_nodes, n_jobs=n_jobs)
        for g, found in counted(dealt(searched, tasks, n_jobs), self.m, "group"):
            self.bounds[g] = found.bound
            self.found.append(found)
            self._record()

    def end(self, tol: float) -> Solution:
        """The better of the point and what the groups' faces lead to, with all that is known."""
        faces = [found.W for found in self.found if found.W is not None][:_TRIED]
        faces.sort(key=lambda W: objective(self.X, self.y, W, self.C))
        for W in faces[:_BEST]:
            if self.clock.is_over:
                break
            assignment = np.where(self.y > 0, self._scores(W).argmax(axis=1), -1)
            other = run_rounds(self.problem, assignment, max_iter=_ROUNDS, time_limit=self.clock.left)
            if other.objective < self.point.objective:
                self.point = other
        count, bounds, group = self.m, self.bounds, self.group
        if self.whole > bound_of_groups(bounds):
            count, bounds, group = 1, np.array([self.whole]), np.zeros_like(group)
        bound = min(bound_of_groups(bounds), self.point.objective)
        status = self._status()
        if self.point.objective - bound <= tol * self.point.objective:
            status = Status.SOLVED
        return replace(
            self.point,
            status=status,
            primal={**self.point.primal, "group": group},
            duals={**self.point.duals, "group_bound": bounds},
            bound=bound,
            solver="moves of neighbours" if count < self.m else f"branch and bound of {self.m} groups",
            iterations=sum(found.nodes for found in self.found),
            solve_time=self.clock.seconds,
            history=tuple(self.history),
            runs=(),
        )

    # -- parts ---------------------------------------------------------------------------------

    def _status(self) -> Status:
        if self.clock.is_stopped:
            return Status.INTERRUPTED
        ends = {found.status for found in self.found} or {Status.TIME_LIMIT}
        for limit in (Status.INTERRUPTED, Status.TIME_LIMIT, Status.ITERATION_LIMIT):
            if limit in ends:
                return limit
        return Status.BOUNDED

    def _until(self, share: float) -> float | None:
        """Seconds left of a share of the time."""
        left = self.clock.left
        return None if left is None else max(share * (left + self.clock.seconds) - self.clock.seconds, 0.0)

    def _scores(self, W: Vector) -> Vector:
        scores: Vector = np.asarray(self.X @ W[:, :-1].T) + W[:, -1]
        return scores

    def _record(self) -> None:
        record = {
            "groups": float(len(self.found)),
            "bound": max(bound_of_groups(self.bounds), self.whole),
            "objective": self.point.objective,
            "seconds": self.clock.seconds,
        }
        self.history.append(record)
        tell(record)


class _Task(NamedTuple):
    """A group's program, with costs times the number of groups; its number, and how many there are."""

    X: Matrix
    y: Vector
    C: Vector
    n_faces: int
    number: int
    groups: int
    seed: int
    start: Vector | None


def _searched(task: _Task, until: Clock, max_nodes: int | None, n_jobs: int | None) -> _Found:
    """Bound a group's program, in whatever worker."""
    if until.is_over:
        return _Found(0.0, None, 0, Status.TIME_LIMIT)
    found = solve_cpm_global(
        task.X, task.y, task.C, task.n_faces, tol=_CLOSE, max_nodes=max_nodes, seed=task.seed,
        start=task.start, time_limit=share(until, task.number, task.groups, n_jobs),
    )  # fmt: skip
    bound = float(found.bound or 0.0)
    return _Found(bound if 0.0 < bound < np.inf else 0.0, found["W"], found.iterations, found.status)
