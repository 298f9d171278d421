"""Solvers in compiled code, which know neither the run they are a part of nor Python's answer to Ctrl-C.

HiGHS and Clarabel call back on their way; what is called here looks at a clock, and is where Python answers
signals. OSQP, SCS and SCIP answer Ctrl-C themselves and say so; the run is then stopped here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import cvxpy as cp
import scipy.sparse as sp
from cvxpy.reductions.solvers.solving_chain import SolvingChain

from formulations.clock import Clock, current_run
from formulations.highs import quiet_highs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Ear", "by_clarabel", "solved_by_cvxpy", "stop_at"]


Settings = dict[str, Any]
Vector: TypeAlias = "NDArray[np.float64]"


class _Watch(threading.local):
    """The clock by which HiGHS is run in this thread."""

    clock: Clock | None = None


_watch, _lock = _Watch(), threading.Lock()
_CALLS = ("cbSimplexInterrupt", "cbIpmInterrupt", "cbMipInterrupt")
_OWN_WORDS = ("interrupted", "userinterrupt")


class Ear:
    """HiGHS looks at a clock on its way, and ends where that is over.

    Parameters
    ----------
    highs : highspy.Highs
        The solver.
    """

    def __init__(self, highs: object):
        held = self._held = _Held()

        def look(event: Any) -> None:
            try:
                if held.raised or (held.clock is not None and held.clock.is_over):
                    event.interrupt()
            except BaseException as exception:
                held.raised.append(exception)
                event.interrupt()

        for name in _CALLS:
            getattr(highs, name).subscribe(look)

    @contextmanager
    def hears(self, clock: Clock) -> Iterator[None]:
        """By this clock. What a signal raises meanwhile is raised when HiGHS has ended.

        Parameters
        ----------
        clock : Clock
            The clock.
        """
        held = self._held
        held.clock, held.raised = clock, []
        try:
            yield
        finally:
            held.clock = None
        if held.raised:
            raise held.raised[0]


class _Held:
    """The clock of an ear, and what was raised in it; nothing of HiGHS, which would never be freed."""

    clock: Clock | None = None

    def __init__(self) -> None:
        self.raised: list[BaseException] = []


def solved_by_cvxpy(
    chain: SolvingChain, problem: cp.Problem, data: dict[str, object], *, verbose: bool, settings: Settings,
    warm_start: bool = False,
) -> Any:  # fmt: skip
    """What a solver returns for a program that cvxpy has compiled.

    Parameters
    ----------
    chain, problem, data : object
        What ``get_problem_data`` gave, and the problem.
    verbose : bool
        Let the solver print its log.
    settings : dict
        The solver's settings.
    warm_start : bool
        Let HiGHS begin from the solution in the problem's cache.
    """
    name, clock = chain.solver.name(), Clock()
    if name == "CLARABEL":
        return _clarabel(chain.solver, data, clock, verbose, settings)
    if name == "HIGHS":
        return _highs(chain, problem, data, clock, verbose, settings, warm_start)
    # Without a warm start: a solver kept from the last solve would keep its limits, too.
    return chain.solve_via_data(problem, data, warm_start=False, verbose=verbose, solver_opts=settings)


def stop_at(word: str) -> None:
    """Stop the run where a solver's word says that it answered Ctrl-C itself.

    Parameters
    ----------
    word : str
        How it ended.
    """
    run = current_run()
    if run is not None and word.lower() in _OWN_WORDS:
        run.stop()


def _clarabel(solver: Any, data: Any, clock: Clock, verbose: bool, settings: dict[str, Any]) -> Any:
    """As cvxpy calls Clarabel, with a look at the clock in every iteration."""
    from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import dims_to_solver_cones

    P = data["P"] if "P" in data else sp.csc_array((data["c"].size, data["c"].size))
    told, cones = solver.parse_solver_opts(verbose, settings), dims_to_solver_cones(data["dims"])
    return by_clarabel(sp.triu(P).tocsc(), data["c"], data["A"], data["b"], cones, told, clock)


def by_clarabel(
    P: sp.csc_array, c: Vector, A: sp.csc_array, b: Vector, cones: list[Any], told: object, clock: Clock
) -> Any:
    """What Clarabel returns for ``min ½ x'Px + c'x, Ax + s = b, s in the cones``.

    Parameters
    ----------
    P, A : csc_array
        The matrices; of P, which is symmetric, what is on and above the diagonal.
    c, b : ndarray
        The vectors.
    cones : list
        Clarabel's cones.
    told : object
        Clarabel's settings.
    clock : Clock
        It ends where this is over, with ``"MaxTime"`` as its status.
    """
    import clarabel  # type: ignore[import-untyped]

    machine = clarabel.DefaultSolver(P, c, A, b, cones, told)
    raised: list[BaseException] = []

    def is_over(info: Any) -> bool:
        try:
            return bool(raised) or clock.is_over
        except BaseException as exception:
            raised.append(exception)
            return True

    machine.set_termination_callback(is_over)
    found = machine.solve()
    if raised:
        raise raised[0]
    if str(found.status) != "CallbackTerminated":
        return found
    names = [name for name in dir(found) if not name.startswith("_")]
    return SimpleNamespace(**{name: getattr(found, name) for name in names} | {"status": "MaxTime"})


def _highs(
    chain: Any, problem: Any, data: Any, clock: Clock, verbose: bool, settings: Settings, warm_start: bool
) -> Any:
    """As cvxpy calls HiGHS, with looks at the clock: the solver that cvxpy makes is one that listens."""
    before, _watch.clock = _watch.clock, clock
    try:
        with _listeners():
            found = chain.solve_via_data(
                problem, data, warm_start=warm_start, verbose=verbose, solver_opts=settings
            )
    finally:
        _watch.clock = before
    if found["model_status"] == "kInterrupt":
        found["model_status"] = "kTimeLimit"
    return found


class _Many:
    """How many threads are at it, and the class that cvxpy makes else."""

    count = 0
    usual: Any = None


@contextmanager
def _listeners() -> Iterator[None]:
    """Solvers that are made meanwhile listen, where their thread has a clock."""
    highspy = quiet_highs()
    with _lock:
        if _Many.count == 0:
            _Many.usual, highspy.Highs = highspy.Highs, _listener(highspy.Highs)
        _Many.count += 1
    try:
        yield
    finally:
        with _lock:
            _Many.count -= 1
            if _Many.count == 0:
                highspy.Highs = _Many.usual


@cache
def _listener(usual: Any) -> Any:
    class Listener(usual):  # type: ignore[misc]
        def run(self) -> Any:
            if _watch.clock is None:
                return super().run()
            with Ear(self).hears(_watch.clock):
                return super().run()

    return Listener
