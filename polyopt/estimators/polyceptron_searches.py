"""The Polyceptron's search over all faces and assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.matrices import Array, Matrix
    from formulations.solution import Solution

__all__ = ["check_global", "solve_globally"]


class _Asked(Protocol):
    """The parameters that searches have to do with."""

    n_faces: int
    radius: float
    n_init: int
    time_limit: float | None
    n_jobs: int | None


def check_global(machine: _Asked) -> None:
    """Refuse what the integer program of solver="global" does not have.

    machine: one with this solver.
    ValueError: A radius that is not finite.
    """
    if np.isinf(machine.radius):
        raise ValueError("solver='global' needs a finite radius, which alone bounds the weights")


def solve_globally(
    machine: _Asked, X: Matrix, y: Array, c: Array, seed: int, first: Callable[[float | None], Array]
) -> Solution:
    """The optimum over all faces in the box, or a bound on it.

    machine: the settings.
    X, y, c: samples (n, m), labels (n,), +1 inside, and weights (n,).
    seed: of the starts.
    first: gives the faces of one start more, the first, from the seconds left.
    """
    from polyopt.outer.polyceptron_global import solve_polyceptron_global

    return solve_polyceptron_global(
        X, y, c, machine.n_faces,
        radius=machine.radius, n_init=machine.n_init, time_limit=machine.time_limit, seed=seed,
        n_jobs=machine.n_jobs, first=first,
    )  # fmt: skip
