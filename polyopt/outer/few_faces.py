"""Faces of at most s features with smooth losses: steps of a machine, and what its end proves.

SPLA1 and PLUME go from faces to faces: they fix what the faces have (cells, or responsibilities), minimise a
convex program, and so on. With few features that program is one over all choices of them. In the rounds from
many starts its search is short: the features that the faces had, the largest of the relaxation, and swaps. So
no step is worse for what it fixes. The best end then goes on with branch and bound, until it brings nothing;
what is left open is the gap between the objective and the bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.clock import interrupted
from formulations.solution import Solution, Status
from polyopt.outer.cpm.subset import search_subset
from polyopt.outer.descent import DescentProblem
from polyopt.outer.rounds import Round, Stage, run_from_many_starts
from polyopt.solvers.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from formulations.matrices import Matrix, Vector
    from polyopt.outer.cpm.subset_tree import SubsetSearch
    from polyopt.solvers.smooth_subset import SmoothSubset
    from polyopt.solvers.smooth_whole import ScoreLoss

    Integers = NDArray[np.int64]

__all__ = [
    "EXACT", "SHORT", "FewFaces", "Part", "SmoothParts", "ended", "largest_weights", "solve_few_faces",
    "told",
]  # fmt: skip

_ROUNDS = 20  # with branch and bound at most
_FIRST = 5  # steps of each machine that comes first
_SHARE = 0.5  # of the time, for the rounds from many starts
EXACT = 1e-6  # relative gap of a search that is exact, as certificates have it by default
_CLOSE = 1e-15  # the same of the faces of the features that are chosen
SHORT = (Status.TIME_LIMIT, Status.INTERRUPTED)


@dataclass(frozen=True)
class Part:
    """Some of the faces, by their numbers, and the program that has them together."""

    faces: Integers
    program: SmoothSubset


class SmoothParts(DescentProblem, ABC):
    """A machine whose step is a smooth convex program, or one for each face."""

    X: Matrix
    n_faces: int
    ridge: float

    @abstractmethod
    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Vector:
        """Random faces (K, m+1)."""

    @abstractmethod
    def parts(self, W: Vector, s: int) -> list[Part]:
        """The programs of the step at W, with at most s features a face; of other faces there is none."""

    def fixed(self, W: Vector) -> dict[str, NDArray[Any]]:
        """What W fixes, where faces that are fitted to it are to say so."""
        return {}

    def holding(self, point: Mapping[str, NDArray[Any]]) -> SmoothParts:
        """The machine that proves a point: itself, or one that keeps what the point was fitted to."""
        return self

    def value_for(self, point: Mapping[str, NDArray[Any]]) -> float:
        """The value of a point in the program that it was fitted to, where that is not the objective."""
        return self.value(point["W"])

    @abstractmethod
    def scored(self, W: Vector, k: int) -> tuple[Integers, ScoreLoss]:
        """The samples of face k for what W fixes, and their loss as one of its scores alone."""

    def polished(self, W: Vector) -> Vector:
        """Faces no worse than W of the same features, where the machine knows how to find them."""
        return W


def largest_weights(W: Vector, s: int, units: Vector | float = 1.0) -> Vector:
    """Faces with their s largest weights alone, of ties the first.

    Parameters
    ----------
    W : ndarray of shape (K, m+1)
        Faces, biases last.
    s : int
        Features at most, of each face.
    units : ndarray of shape (m,) or float
        What a weight is divided by before it is compared.
    """
    kept = W.copy()
    order = np.argsort(-np.abs(W[:, :-1]) / units, axis=1, kind="stable")
    np.put_along_axis(kept, order[:, s:], 0.0, axis=1)
    return kept


class FewFaces(DescentProblem):
    """Steps of a machine with at most s features a face.

    Parameters
    ----------
    machine : SmoothParts
        The machine, whose objective without a limit this is.
    s : int
        Features at most, of each face.
    max_nodes : int
        Nodes of a search at most; 0 for short ones.
    tol : float
        Relative gap at which a search ends.
    seed : int
        Of the patterns that searches draw.
    """

    def __init__(
        self, machine: SmoothParts, s: int, *, max_nodes: int = 0, tol: float = EXACT, seed: int = 0
    ):
        self.machine, self.s, self.max_nodes, self.tol, self.seed = machine, s, max_nodes, tol, seed

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Vector:
        """Random faces, whose largest weights are kept."""
        return self.kept(self.machine.start(rng, time_limit))

    def kept(self, W: Vector) -> Vector:
        """The faces with their s largest weights alone."""
        return largest_weights(W, self.s)

    def judge(self, state: Vector) -> Round[Vector] | None:
        """The faces as a point, where they are one to the machine."""
        return None if self.machine.judge(state) is None else super().judge(state)

    def value(self, W: Vector) -> float:
        """The machine's objective."""
        return self.machine.value(W)

    def record(self, W: Vector) -> dict[str, float]:
        """What the machine records, and the weights in use."""
        return {**self.machine.record(W), "weights": float(np.count_nonzero(W[:, :-1]))}

    def step(self, W: Vector, time_limit: float | None) -> Solution:
        """The best faces found for what W fixes; the multipliers are the search trees, ``tree_0`` and on."""
        clock, following, fixed = Clock(time_limit), W.copy(), self.machine.fixed(W)
        bound, nodes = 0.0, 0
        statuses: list[Status] = []
        duals: dict[str, Vector] = {}
        parts = self.machine.parts(W, self.s)
        for number, part in enumerate(parts):
            left = None if clock.left is None else clock.left / (len(parts) - number)
            search, status = self._search(part, W, left)
            assert search.best is not None
            found = part.program.fit(search.best.features, tol=_CLOSE, w=search.best.w)
            following[part.faces] = part.program.faces(found.w)
            if self.max_nodes:
                duals[f"tree_{number}"] = search.tree.table()
            bound, nodes, statuses = bound + search.bound, nodes + search.nodes, [*statuses, status]
        following = self.machine.polished(following)
        short = next((status for status in statuses if status in SHORT), Status.SOLVED)
        return Solution(
            short, {"W": following, **fixed}, duals, self.value(following), bound if self.max_nodes else None,
            "branch and bound over features" if self.max_nodes else "swaps of features", nodes,
        )  # fmt: skip

    def _search(self, part: Part, W: Vector, time_limit: float | None) -> tuple[SubsetSearch, Status]:
        """Search from the features at hand; a short search of faces that have none begins with the root."""
        own = np.flatnonzero(W[part.faces, :-1])
        begin = own if len(own) or self.max_nodes else None
        return search_subset(
            part.program, tol=self.tol, max_nodes=self.max_nodes, time_limit=time_limit, features=begin,
            seed=self.seed,
        )  # fmt: skip


def solve_few_faces(
    machine: SmoothParts, s: int, *, softer: Sequence[SmoothParts] = (), max_nodes: int = 1000,
    n_init: int = 10, max_iter: int = 100, tol: float = EXACT, patience: int = 1,
    time_limit: float | None = None, seed: int = 0, n_jobs: int | None = None,
) -> Solution:  # fmt: skip
    """Steps from many starts, and the best end proven as far as the nodes go.

    Parameters
    ----------
    machine : SmoothParts
        The machine.
    s : int
        Features at most, of each face.
    softer : sequence of SmoothParts
        Machines that a run makes some steps of first, one after the other.
    max_nodes : int
        Nodes at most for each program of the end.
    n_init, max_iter, tol, patience, seed, n_jobs
        As of :func:`polyopt.outer.rounds.run_from_many_starts` and its stage.
    time_limit : float, optional
        Seconds; half of them for the starts.

    Returns
    -------
    Solution
        Primal ``W``; duals ``tree_0`` and on, of the programs that W fixes; ``bound`` is theirs.
        ``ITERATION_LIMIT`` where the nodes did not suffice: the choice of features is then proven no
        further than the bound. A limit, or Ctrl-C, keeps the best point.
    """
    clock = Clock(time_limit)
    stages = [Stage(FewFaces(each, s, seed=seed), _FIRST, tol) for each in softer]
    stages.append(Stage(FewFaces(machine, s, seed=seed), max_iter, tol, patience))
    first = run_from_many_starts(
        stages, n_init=n_init, seed=seed, n_jobs=n_jobs,
        time_limit=None if time_limit is None else _SHARE * time_limit,
    )  # fmt: skip
    if first.status is Status.INTERRUPTED:
        return first
    best, history = first, list(first.history)
    status, made = Status.ITERATION_LIMIT, first.iterations
    machine = machine.holding(best.primal)
    proving = FewFaces(machine, s, max_nodes=max_nodes, tol=EXACT, seed=seed)
    try:
        for _ in range(_ROUNDS):
            found = proving.step(best["W"], clock.left)
            made += 1
            is_lower = found.objective < best.objective - tol * abs(best.objective)
            if not is_lower:
                # The trees are of what these faces fix.
                primal = {"W": best["W"], **machine.fixed(best["W"])}
                best = replace(best, primal=primal, duals=found.duals, bound=found.bound)
                own = replace(best, objective=machine.value_for(primal))
                status = found.status if found.status in SHORT else ended(own, first.status)
                break
            best = replace(found, duals={}, bound=None)
            record = {"start": -1.0, "step": float(made), "seconds": clock.seconds}
            history.append({**record, "objective": best.objective, **proving.record(best["W"])})
            if found.status in SHORT:
                status = found.status
                break
    except KeyboardInterrupt:
        status = interrupted()
    return told(best, first, status, "steps", made, clock, history)


def told(
    best: Solution, first: Solution, status: Status, by: str, made: int, clock: Clock,
    history: Sequence[dict[str, float]],
) -> Solution:  # fmt: skip
    """The best point of a search for few features, with how it was found.

    Parameters
    ----------
    best, first : Solution
        The best point, and what the starts ended with.
    status : Status
        How the search ended.
    by : str
        What solves between the trees.
    made : int
        Steps, or nodes, of the search.
    clock : Clock
        Started with it.
    history : sequence of dict
        Its records.
    """
    return replace(
        best, status=status, solver=f"{by}, branch and bound over features", iterations=made,
        solve_time=clock.seconds, history=tuple(history), runs=first.runs,
    )  # fmt: skip


def ended(best: Solution, before: Status) -> Status:
    """How a search for few features ended: CONVERGED where the gap is closed, or what ended the starts.

    Parameters
    ----------
    best : Solution
        The best end, with its bound.
    before : Status
        What ended the rounds from many starts.
    """
    if best.bound is None or best.objective - best.bound > 2.0 * EXACT * abs(best.objective):
        return Status.ITERATION_LIMIT
    return Status.CONVERGED if before is Status.ITERATION_LIMIT else before
