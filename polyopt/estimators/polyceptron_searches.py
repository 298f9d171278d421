"""The Polyceptron's searches: over the features of faces, and over all faces and assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.matrices import Array, Matrix
    from formulations.solution import Solution

__all__ = ["check_global", "solve_few", "solve_globally"]

_NODES, _NUMBERS = 1000, 4_000_000  # nodes of a search, and numbers in its tree


class _Asked(Protocol):
    """The parameters that searches have to do with."""

    n_faces: int
    radius: float
    max_features: int | None
    n_init: int
    max_iter: int
    time_limit: float | None
    n_jobs: int | None

    @property
    def _is_priced(self) -> bool: ...

    def _tell_if_empty(self, W: Array) -> None: ...


def check_global(machine: _Asked) -> None:
    """Refuse what the integer program of solver="global" does not have.

    Parameters
    ----------
    machine : Polyceptron
        One with this solver.

    Raises
    ------
    ValueError
        A price, signs, or a radius that is not finite.
    """
    if machine._is_priced:
        raise ValueError(
            "l1, group and signs need solver='highs' or 'exact', not 'global', whose program has "
            "no price: set l1=0, group=0 and signs=None for it"
        )
    if np.isinf(machine.radius):
        raise ValueError("solver='global' needs a finite radius, which alone bounds the weights")


def solve_globally(
    machine: _Asked, X: Matrix, y: Array, c: Array, seed: int, first: Callable[[float | None], Array]
) -> Solution:
    """The optimum over all faces in the box, or a bound on it.

    Parameters
    ----------
    machine : Polyceptron
        The settings.
    X, y, c
        Samples (n, m), labels (n,), +1 inside, and weights (n,).
    seed : int
        Of the starts.
    first : callable
        Gives the faces of one start more, the first, from the seconds left.
    """
    from polyopt.outer.polyceptron_global import solve_polyceptron_global

    found = solve_polyceptron_global(
        X, y, c, machine.n_faces,
        radius=machine.radius, n_init=machine.n_init, time_limit=machine.time_limit, seed=seed,
        n_jobs=machine.n_jobs, first=first,
    )  # fmt: skip
    machine._tell_if_empty(found["W"])
    return found


def solve_few(machine: _Asked, X: Matrix, y: Array, c: Array, seed: int) -> Solution:
    """Faces of at most `max_features` features; arguments as in :func:`solve_globally`."""
    from polyopt.outer.polyceptron_few import FewPolyceptron, solve_few_polyceptron

    assert machine.max_features is not None
    problem = FewPolyceptron(X, y, c, machine.n_faces, machine.max_features, machine.radius, seed)
    found = solve_few_polyceptron(
        problem,
        max_nodes=max(1, min(_NODES, _NUMBERS // len(y))),
        n_init=machine.n_init if machine.n_faces > 1 else 1,
        max_iter=machine.max_iter,
        time_limit=machine.time_limit,
        n_jobs=machine.n_jobs,
    )
    machine._tell_if_empty(found["W"])
    return found
