"""The steps in which the faces of a polytope become whole numbers, and what is told of them at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from formulations.clock import interrupted
from formulations.solution import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from polyopt.solvers.clock import Clock
    from polyopt.solvers.whole import Whole

__all__ = ["Steps", "carried_out", "numbers_of"]


class Steps(Protocol):
    """How a machine's faces are rounded."""

    def round_all(self) -> None:
        """Round every face."""

    def search_again(self) -> None:
        """Search the numbers from where they are, as long as that helps."""

    def finish(self) -> None:
        """After an interruption: round what is still real."""


def carried_out(steps: Steps, status: Status, clock: Clock) -> Status:
    """Carry out the steps.

    Parameters
    ----------
    steps : Steps
        Those of a machine.
    status : Status
        How the real faces ended.
    clock : Clock
        The limit.

    Returns
    -------
    Status
        INTERRUPTED after Ctrl-C, with all faces rounded; TIME_LIMIT where the time is up; else that of the
        real faces.
    """
    try:
        steps.round_all()
        steps.search_again()
    except KeyboardInterrupt:
        steps.finish()
        status = interrupted()
    return Status.TIME_LIMIT if clock.is_over and status is Status.CONVERGED else status


def numbers_of(wholes: Sequence[Whole]) -> dict[str, NDArray[np.float64]]:
    """The primal ``integers`` (K, m), ``scales`` (K,) and ``thresholds`` (K,) of K faces."""
    return {
        "integers": np.array([each.numbers for each in wholes]),
        "scales": np.array([each.scale for each in wholes]),
        "thresholds": np.array([each.threshold for each in wholes]),
    }
