"""The programs of patterns, of nodes and of the relaxation where squares have a price.

They are those of :mod:`polyopt.solvers.l0.lp` and :mod:`polyopt.solvers.l0.node`, of the same answers, by the
interior-point method of :mod:`polyopt.solvers.l0.interior`. It has no use for another program's answer, so
that an answer depends on its program alone. A node takes the columns that its parent had use for, and more
where its own multipliers say that these would pay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from formulations.families import best_intercept
from formulations.l0_data import as_patterns
from formulations.recovery import slacks
from formulations.solution import Solution, Status
from polyopt.certificates.l0 import cut_of, score_bound
from polyopt.solvers.clock import Clock
from polyopt.solvers.l0.interior import Pieces, Point, minimise
from polyopt.solvers.l0.lp import UNPROVEN, PatternLP, PatternSolution
from polyopt.solvers.l0.node import FREE, OFF, ON, NodeBound, NodeSolution
from polyopt.solvers.l0.warm import WarmLP

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.l0_data import L0Data
    from formulations.matrices import Vector
    from polyopt.certificates.rounding import Ball

    Marks = NDArray[np.int8]
    PatternModel: TypeAlias = "PatternLP | PatternQP"
    NodeModel: TypeAlias = "WarmLP | NodeQP"

__all__ = ["NodeQP", "PatternQP", "node_model", "pattern_model", "solve_ridge_relaxation"]

_NEARLY = 0.5  # of what a centre costs: columns that save more are tried at a node's children
_NEW = 1e-9  # beyond what it costs, that a column left out may save
_ROUNDS = 20  # of columns added
_GAP = 1e-9  # of a node's program, in relation
_SOLVED = 1e-6  # and at which it counts as solved
_NOTHING = 1e-7  # of a whole centre, that a share less than counts as none, and one less short of it as whole
_FEW = 8  # steps of a trial


def pattern_model(data: L0Data) -> PatternModel:
    """What solves the programs of a problem's patterns.

    Parameters
    ----------
    data : L0Data
        The problem.
    """
    return PatternQP(data) if data.cap_price > 0.0 else PatternLP(data)


def node_model(data: L0Data) -> NodeModel:
    """What solves the programs of a tree's nodes.

    Parameters
    ----------
    data : L0Data
        The problem.
    """
    return NodeQP(data) if data.cap_price > 0.0 else WarmLP(data)


def solve_ridge_relaxation(data: L0Data, *, time_limit: float | None = None) -> Solution:
    """Solve the relaxation, eq. (4) of :mod:`formulations.l0_ridge`.

    Parameters
    ----------
    data : L0Data
        The problem, with a price of squares.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    Solution
        As of :func:`polyopt.solvers.one_norm.solve_relaxation`.
    """
    clock, model = Clock(time_limit), NodeQP(data)
    found = model.solve(np.full(len(data.centres), FREE, dtype=np.int8), None, np.inf, clock)
    alpha, u = data.C * found.a, found.u
    b = best_intercept(data.outputs(alpha, 0.0), data.y, data.weights)
    value = float(model.costs_of(found.a)) + data.C * data.loss(alpha, b)
    late = Status.TIME_LIMIT if clock.is_over else Status.INACCURATE
    return Solution(
        status=Status.SOLVED if found.solved else late,
        primal={
            "alpha": alpha, "b": np.array(b), "xi": slacks(data.outputs(alpha, b), data.y),
            "sigma": found.shares,
        },
        duals={"margin": u},
        objective=value,
        bound=max(score_bound(data, u / data.C), 0.0),
        solver="interior point",
        iterations=model.steps,
        solve_time=clock.seconds,
    )  # fmt: skip


class _Columns:
    """A problem's columns in the units of a = α / C, and the samples that count."""

    def __init__(self, data: L0Data):
        self.data, self.steps = data, 0
        caps = np.nextafter(data.C * data.weights, 0.0)
        self.rows = np.flatnonzero(caps > 0.0)
        self.y, self.costs = data.y[self.rows].astype(float), caps[self.rows]
        self.is_two_sided = len(np.unique(self.y)) == 2
        self.A = np.ascontiguousarray(self.y[:, None] * data.K[self.rows] * (data.C * data.centres))

    def minimise(self, columns: NDArray[np.intp], pieces: Pieces, clock: Clock, **settings: Any) -> Point:
        """The program of these columns; with samples of one class, or with no columns, it is that of b."""
        if not (self.is_two_sided and columns.size):
            return self._of_intercept(len(columns), pieces)
        found = minimise(self.A[:, columns], self.y, self.costs, pieces, clock=clock, **settings)
        self.steps += found.steps
        return found

    def _of_intercept(self, size: int, pieces: Pieces) -> Point:
        positive = self.y > 0
        sums = float(self.costs[positive].sum()), float(self.costs[~positive].sum())
        u = self.costs * (min(sums) / np.where(positive, *sums)) if min(sums) else np.zeros_like(self.costs)
        b = best_intercept(np.zeros(len(self.y)), self.y, self.costs)
        value = float(self.costs @ np.maximum(1.0 - self.y * b, 0.0))
        return Point(np.zeros(size), b, u, value, float(u.sum()), 0)

    def of_all(self, u: Vector) -> Vector:
        """Multipliers of all samples."""
        whole = np.zeros(len(self.data.y))
        whole[self.rows] = u
        return whole


class PatternQP:
    """The program of a pattern, with a price of squares; as :class:`polyopt.solvers.l0.lp.PatternLP`.

    Parameters
    ----------
    data : L0Data
        The problem, kept as an attribute of that name.

    Attributes
    ----------
    solves, limits, cut_off, failures : int
        Programs solved; those stopped by a limit; those cut off by a cutoff; those without an answer: none.
    """

    def __init__(self, data: L0Data):
        self.data = data
        self.solves = self.limits = self.cut_off = self.failures = 0
        self._columns = _Columns(data)

    def prepare(self, Sigma: ArrayLike, *, time_limit: float | None = None) -> PatternSolution:
        """The program of a batch's mean, whose cut is near all of the batch.

        Parameters
        ----------
        Sigma : array_like of shape (m, p)
            The patterns.
        time_limit : float, optional
            Seconds.
        """
        patterns = np.atleast_2d(as_patterns(Sigma, len(self.data.centres)))
        mean = patterns.mean(axis=0) if len(patterns) else np.zeros(patterns.shape[1])
        return self._solve(mean, time_limit, None)

    def solve(
        self, sigma: ArrayLike, *, time_limit: float | None = None, cutoff: float | None = None
    ) -> PatternSolution:
        """Solve the program of one pattern; arguments, answer and errors as of the linear program's."""
        pattern = as_patterns(sigma, len(self.data.centres))
        if pattern.ndim != 1:
            raise ValueError(f"sigma must be one pattern, of shape ({len(self.data.centres)},)")
        self.solves += 1
        found = self._solve(pattern, time_limit, cutoff)
        if found.status is Status.CUT_OFF and cutoff is not None and found.bound <= cutoff:
            found = self._solve(pattern, time_limit, None)
        self.limits += found.status is Status.TIME_LIMIT
        self.cut_off += found.status is Status.CUT_OFF
        return found

    def _solve(self, sigma: Vector, time_limit: float | None, cutoff: float | None) -> PatternSolution:
        data, clock = self.data, Clock(time_limit)
        used = np.flatnonzero(sigma)
        none, caps = np.zeros_like(used, dtype=float), sigma[used]
        # Of a pattern in part, the perspective: squares of what a centre in part does cost the more.
        squares = np.stack([data.cap_price / caps, none])
        pieces = Pieces(np.zeros_like(squares), squares, np.stack([caps, none]))
        enough = np.inf if cutoff is None else data.C * cutoff
        point = self._columns.minimise(used, pieces, clock, enough=enough)
        u = self._columns.of_all(point.u) / data.C
        constant, slopes = cut_of(data, u)
        proves = constant - slopes.dot(sigma)
        bound = max(float(proves.lower), 0.0)
        alpha = np.zeros(len(sigma))
        alpha[used] = np.clip(data.C * point.a, 0.0, data.C * caps)
        b = best_intercept(data.outputs(alpha, 0.0), data.y, data.weights)
        in_part = 1.0 / caps - 1.0  # more that squares cost for a part of a centre
        value = data.cost(alpha, b) + data.l2 / data.C * float((in_part * alpha[used] ** 2).sum())
        is_proven = value - max(float(proves.mid), 0.0) <= UNPROVEN * max(float(data.weights.sum()), value)
        status = Status.SOLVED if is_proven else Status.INACCURATE
        if not is_proven and point.bound >= enough:
            status, alpha, b, value = Status.CUT_OFF, np.full(len(sigma), np.nan), np.nan, np.inf
        elif not is_proven and clock.is_over:
            status = Status.TIME_LIMIT
        return PatternSolution(
            status, value, bound, alpha, b, u, (float(constant.lower), slopes.upper), point.steps,
            warm=False, restarted=False,
        )  # fmt: skip


class NodeQP:
    """The programs of the nodes of one tree, with a price of squares.

    Parameters
    ----------
    data : L0Data
        The problem.

    Attributes
    ----------
    bound : NodeBound
        What multipliers prove.
    solves, failures : int
        Programs solved, and those left short of their optimum by more than a millionth.
    """

    def __init__(self, data: L0Data):
        self.data, self.bound, self._columns = data, NodeBound(data), _Columns(data)
        self.solves = self.failures = 0
        self._price = data.cap_price
        root = float(np.sqrt(self._price))
        # A free centre: what it costs at first, and where that ends.
        self._linear, self._knee = (2.0 * root, 1.0 / root) if root >= 1.0 else (1.0 + self._price, 1.0)

    @property
    def steps(self) -> int:
        """Steps of the interior-point method, in all programs."""
        return self._columns.steps

    def shares_of(self, a: Vector) -> Vector:
        """The share of a whole centre that minimises what a free one costs at a, shape (p,)."""
        shares = np.maximum(a, np.minimum(a / self._knee, 1.0))
        return np.where(shares > 1.0 - _NOTHING, 1.0, shares)

    def costs_of(self, a: Vector) -> float:
        """What free centres cost, in all."""
        return self._pieces(np.full(len(a), FREE, dtype=np.int8)).value(a)

    def solve(
        self, fixed: Marks, basis: Marks | None, cutoff: float, clock: Clock, *, most: int | None = None
    ) -> NodeSolution:
        """Solve the program of a node.

        Parameters
        ----------
        fixed : ndarray of int8 of shape (p,)
            ON, OFF or FREE, each centre.
        basis : ndarray of int8 of shape (p,), optional
            The columns to begin with, of the parent's answer; by default all.
        cutoff : float
            A bound of this much is enough.
        clock : Clock
            No solve goes on after its limit.
        most : int, optional
            For a quick bound, whatever the number.
        """
        self.solves += 1
        free, on = fixed == FREE, float((fixed == ON).sum())
        taken = (fixed != OFF) if basis is None else (fixed == ON) | (free & (basis > 0))
        best: tuple[float, Ball, Ball] | None = None
        limits = {} if most is None else {"most": _FEW}
        for _ in range(_ROUNDS):
            columns = np.flatnonzero(taken)
            pieces = self._pieces(fixed[columns])
            point = self._columns.minimise(columns, pieces, clock, tol=_GAP, enough=cutoff - on, **limits)
            proven = self.bound.of(fixed, self._columns.of_all(point.u))
            best = proven if best is None or proven[0] > best[0] else best
            new = free & ~taken & (proven[1].mid > 1.0 + _NEW)
            if not new.any() or best[0] >= cutoff or most is not None or clock.is_over:
                break
            taken |= new
        a = np.zeros(len(fixed))
        a[columns] = np.where(point.a > _NOTHING * self._knee, np.clip(point.a, 0.0, 1.0), 0.0)
        assert best is not None
        bound, rates, u = best
        value = on + point.value
        solved = value - bound <= _SOLVED * max(value, _GAP * float(self._columns.costs.sum()))
        self.failures += not solved and most is None and bound < cutoff
        shares = np.where(free, self.shares_of(a), fixed == ON)
        kept = ((rates.mid > _NEARLY) | (a > 0.0)).astype(np.int8)
        return NodeSolution(bound, a, point.b, rates, kept, u.mid, solved, shares)

    def _pieces(self, fixed: Marks) -> Pieces:
        """What the coefficients of centres that are on or free cost; 1 for each that is on is left out."""
        on = fixed == ON
        none = np.zeros(len(fixed))
        first, beyond = np.where(on, 1.0, self._knee), np.where(on, 0.0, 1.0 - self._knee)
        linear = np.where(on, 0.0, self._linear)
        squares = np.where(on, self._price, none)
        return Pieces(
            np.stack([linear, linear]),
            np.stack([squares, np.where(on, none, self._price)]),
            np.stack([first, np.maximum(beyond, 0.0)]),
        )
