"""The SVM with the hard-margin loss: which samples to keep, by the cross-entropy method, and proof.

A pattern of the cross-entropy method says which samples are kept. Most patterns cannot be met, so each is
repaired: of the few samples that a climb shows not to go together, the one with the largest multiplier is
given up, until the rest is met; then samples that hold the hyperplane are given up as long as that pays. The
probabilities move towards what the repaired points meet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.solution import Solution, Status
from polyopt.certificates.hard_margin_loss import proven_point
from polyopt.outer.cross_entropy import cross_entropy_minimize
from polyopt.solvers.clock import Clock
from polyopt.solvers.hard_margin_loss.climb import STALLED
from polyopt.solvers.hard_margin_loss.meeting import Meeting, Samples
from polyopt.solvers.hard_margin_loss.point import finished
from polyopt.solvers.hard_margin_loss.tree import Search, solve_tree

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.hard_margin_loss_data import HardMarginLossData
    from formulations.matrices import Vector

    Bits = NDArray[np.bool_]

__all__ = ["search_patterns", "solve_explicitly", "solve_hard_margin_loss", "solve_program"]

_TRIED = 4  # samples that hold the hyperplane, and of those given up the nearest, tried at each step
_LITTLE = 1e-9  # of a value: less is rounding
_LEAST, _MOST = 0.05, 0.95  # probabilities that the root gives
_PRIORS = (0.9, 0.6)  # the probability that a sample is kept, of the further runs
_KEPT = (0.0, 0.2, 0.5, 1.0)  # of z at the root: samples of no more are kept
# Samples for which a tree is begun before the search, and its nodes; a first guess, changed once after a draw
# of the races was seen.
_FEW, _SOON = 100, 40
_DRAWN, _ITERATIONS, _PATIENCE = 40, 30, 4
_MIP_GAP = 1e-8  # relative, that the explicit program is solved to
_TREE_GAP = 5e-7  # half of a certificate's 1e-6, which leaves the other half to rounding
_NODES = 200  # of a tree that is to check an integer solver
_SHARE = 0.5  # of the time limit, that a search, or an integer solver, may take before a proof

Listener = Callable[[dict[str, float]], None] | None


def solve_hard_margin_loss(
    data: HardMarginLossData,
    solver: str = "ce",
    *,
    time_limit: float | None = None,
    seed: int = 0,
    progress: Listener = None,
) -> tuple[Solution, float]:
    """Search for the best point, and prove what can be proven of all points.

    Parameters
    ----------
    data : HardMarginLossData
        The problem.
    solver : {"ce", "global", "exact"}
        The cross-entropy method, with the bound of a tree's root; that, and branch and bound from its answer,
        with up to 100 samples only where forty nodes from some repaired patterns prove no optimum; or the
        explicit program.
    time_limit : float, optional
        Seconds, for everything together.
    seed : int
        Of the patterns drawn.
    progress : callable, optional
        Called with each record of the history.

    Returns
    -------
    solution : Solution
        As of :func:`polyopt.solvers.hard_margin_loss.tree.solve_tree`.
    searched : float
        What is proven of every point.
    """
    clock = Clock(time_limit)
    if solver == "exact":
        return solve_explicitly(data, clock)
    tree = Search(data, _TREE_GAP, clock, 0, progress)
    status = tree.run()
    if status is Status.ITERATION_LIMIT and solver == "global" and len(data.y) <= _FEW:
        _begin_by_repairs(data, tree)
        tree.most = _SOON
        status = tree.run()
    history, iterations, name = list(tree.history), tree.nodes, "branch and bound"
    if status is Status.ITERATION_LIMIT:
        limit = None if clock.left is None else _SHARE * clock.left
        found = search_patterns(data, tree, time_limit=limit, seed=seed, progress=progress)
        status, iterations, name = found.status, found.iterations, found.solver
        history += found.history
        tree.offer(found["w"], float(found["b"]))
    if solver == "global" and status not in (Status.SOLVED, Status.INTERRUPTED):
        tree.most, tree.history = np.inf, []
        status, iterations, name = tree.run(), tree.nodes, f"{name}, then branch and bound"
        history += tree.history
    solution = finished(
        data, (tree.w, tree.b), tree.bound, status, tol=1e-6,
        solver=f"{name}, {len(tree.cuts)} combinatorial Benders' cuts (HiGHS)", iterations=iterations,
        solve_time=clock.seconds, history=tuple(history),
    )  # fmt: skip
    return solution, tree.bound


def _begin_by_repairs(data: HardMarginLossData, root: Search) -> None:
    """Offer what some patterns are repaired to, of the samples that the root would rather keep."""
    search = _Repairs(data)
    for share in _KEPT:
        search.score(root.root <= share)
    root.offer(search.w, search.b)


def search_patterns(
    data: HardMarginLossData,
    root: Search,
    *,
    time_limit: float | None = None,
    seed: int = 0,
    progress: Listener = None,
) -> Solution:
    """Search by the cross-entropy method; a search, not a proof.

    Parameters
    ----------
    data, time_limit, seed, progress
        As of :func:`solve_hard_margin_loss`.
    root : Search
        A tree that has looked into its root: its z is where the first run begins, its best point is one of
        the patterns of all.
    """
    clock, search = Clock(time_limit), _Repairs(data)
    history: list[dict[str, float]] = []

    def tell(record: dict[str, float]) -> None:
        here = {"objective": search.best, "bound": root.bound, "seconds": root.clock.seconds}
        history.append({**record, **here})
        if progress is not None:
            progress(history[-1])

    incumbents = np.stack([np.ones(len(data.y), dtype=bool), data.met(root.w, root.b)])
    evaluations, status = 0, Status.CONVERGED
    priors: list[Vector | float] = [np.clip(1.0 - root.root, _LEAST, _MOST), *_PRIORS]
    for number, prior in enumerate(priors):
        found = cross_entropy_minimize(
            search.score, len(data.y), p0=prior, n_samples=_DRAWN, patience=_PATIENCE, max_iter=_ITERATIONS,
            incumbents=incumbents, improve=search.improve, time_limit=clock.left,
            random_state=np.random.default_rng([seed, number]), progress=tell,
        )  # fmt: skip
        evaluations += found.evaluations
        if found.status is Status.INTERRUPTED or clock.is_over:
            status = Status.INTERRUPTED if found.status is Status.INTERRUPTED else Status.TIME_LIMIT
            break
    return finished(
        data, (search.w, search.b), 0.0, status, tol=1.0, solver=f"cross-entropy, {evaluations} patterns",
        iterations=len(history), solve_time=clock.seconds, history=tuple(history),
    )  # fmt: skip


def solve_explicitly(data: HardMarginLossData, clock: Clock) -> tuple[Solution, float]:
    """Solve the program of :mod:`formulations.hard_margin_loss` as it stands.

    In SCIP; where that is not installed in HiGHS, with tangents in the place of the squares.

    Parameters
    ----------
    data : HardMarginLossData
        The problem.
    clock : Clock
        When time is up, the best point is the answer.

    Returns
    -------
    solution : Solution
        ``bound`` is the solver's word.
    searched : float
        What a small tree of our own proves, begun at the point; where it finds a better one, that is the
        solution.
    """
    known = solve_tree(data, time_limit=clock.left, tol=_TREE_GAP, max_nodes=0)
    limit = None if clock.left is None else _SHARE * clock.left
    found = solve_program(data, Clock(limit), known.objective)
    ours = finished(
        data, (found["w"], float(found["b"])) if found.primal else data.idle(), float(found.bound or 0.0),
        found.status, tol=1e-6, solver=found.solver, iterations=found.iterations,
        build_time=found.build_time, solve_time=found.solve_time,
    )  # fmt: skip
    if clock.is_over or found.status is Status.INTERRUPTED:
        return ours, 0.0
    checked = solve_tree(
        data, start=(ours["w"], float(ours["b"])), time_limit=clock.left, tol=_TREE_GAP, max_nodes=_NODES
    )
    bound = float(checked.bound or 0.0)
    if checked.objective < ours.objective * (1.0 - 1e-9):
        name = f"{ours.solver}; then a better point by {checked.solver}"
        ours = replace(checked, solver=name, status=Status.INACCURATE)
    return ours, bound


def solve_program(data: HardMarginLossData, clock: Clock, upper: float | None = None) -> Solution:
    """Solve the explicit program in SCIP or, where that is not installed, in HiGHS with tangents.

    Parameters
    ----------
    data : HardMarginLossData
        The problem.
    clock : Clock
        When time is up, the best point is the answer.
    upper : float, optional
        The value of any point: the lower, the smaller is the program's M.

    Returns
    -------
    Solution
        The solver's own point, bound and status.
    """
    import cvxpy as cp

    from formulations.hard_margin_loss import mixed_integer
    from formulations.tangents import Square, solve_by_curves

    program = mixed_integer(data.X, data.y, data.costs, upper)
    options: dict[str, Any] = {"limits/gap": _MIP_GAP}
    if "SCIP" in cp.installed_solvers():
        return program.solve(time_limit=clock.left, **options)
    w, lost = program.variables["w"], program.parameters["C"] @ program.variables["z"]
    half = Square(w, np.full(w.size, 0.5), np.full(w.size, np.sqrt(2.0 * (upper or data.at_most()))))
    return solve_by_curves(program, [half], lost, _MIP_GAP, time_limit=clock.left)


class _Repairs:
    """Patterns, repaired; the best point of all."""

    def __init__(self, data: HardMarginLossData):
        self._data, self._samples = data, Samples(data)
        self.w, self.b = data.idle()
        self.best = data.at_most()
        self._last: tuple[bytes, Bits, float] | None = None

    def score(self, pattern: Bits) -> float:
        """The value of the repaired pattern."""
        kept, value = self._repaired(pattern.copy())
        self._last = (pattern.tobytes(), kept, value)
        return value

    def improve(self, pattern: Bits, value: float) -> tuple[Bits, float] | None:
        """The samples that the repaired point meets."""
        if self._last is None or self._last[0] != pattern.tobytes():
            return None
        return self._last[1], value

    def _repaired(self, kept: Bits) -> tuple[Bits, float]:
        data, samples = self._data, self._samples
        found = self._met(kept)
        if found is None:
            return data.met(*data.idle()), data.at_most()
        value, kept = self._whole(found, kept)
        for _ in range(2 * len(kept)):
            near = np.argsort(-samples.margins + 1e9 * kept, kind="stable")[:_TRIED]
            held = found.active[np.argsort(-found.alpha, kind="stable")[:_TRIED]]
            best = None
            for i in (*held.tolist(), *near.tolist()):
                other = kept.copy()
                other[i] = not kept[i]
                # No limit less what is given up: what comes to be met for nothing may repay it.
                tried = samples.meet(other, value)
                if not tried.is_met:
                    continue
                total, other = self._whole(tried, other)
                if total < value * (1.0 - _LITTLE):
                    value, best = total, (tried, other)
            if best is None:
                break
            found, kept = best
            samples.meet(kept)  # for its margins
        found = samples.meet(kept)
        w, b = proven_point(data, *samples.hyperplane(found))
        value = data.value(w, b)
        if value < self.best:
            self.w, self.b, self.best = w, b, value
        return data.met(w, b), value

    def _whole(self, found: Meeting, kept: Bits) -> tuple[float, Bits]:
        """The value of the hyperplane just found, and all that it meets."""
        met = kept | (self._samples.margins >= 1.0 - _LITTLE)
        return found.value + float(self._data.costs[~met].sum()), met

    def _met(self, kept: Bits) -> Meeting | None:
        """Give samples up until the others are met; None where giving a class up is cheaper."""
        data = self._data
        for _ in range(len(kept)):
            room = data.at_most() - float(data.costs[~kept].sum())
            if room <= 0.0:
                return None
            found = self._samples.meet(kept, room)
            if found.is_met:
                return found
            if found.status == STALLED or not found.active.size:
                return None
            kept[found.active[(found.alpha / data.costs[found.active]).argmax()]] = False
        return None
