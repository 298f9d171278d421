"""What is asked of the point nearest to a sample: from where, in which units, and what may move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from formulations.arguments import real_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Array

__all__ = ["Question"]


@dataclass(frozen=True)
class Question:
    """From where, in which units, and what may move.

    x (m,): the sample.
    spread (m,): the unit in which each feature's change is measured.
    low, high (m,): bounds on the features.
    held (m,): the features that may not move.
    groups: features of which one is 1 and the others are 0, each group by itself.
    gaps (2,): A number that is missing and the mark of its gap, each pair by itself.
    """

    x: Array
    spread: Array
    low: Array
    high: Array
    held: NDArray[np.bool_]
    groups: tuple[NDArray[np.intp], ...] = ()
    gaps: tuple[NDArray[np.intp], ...] = ()

    @classmethod
    def of(
        cls, x: ArrayLike, *, spread: ArrayLike | None = None, low: ArrayLike | None = None,
        high: ArrayLike | None = None, held: ArrayLike | None = None,
        groups: Sequence[ArrayLike] = (), gaps: Sequence[ArrayLike] = (),
    ) -> Self:  # fmt: skip
        """The same with what is left out filled in: spreads of 1, no bounds, nothing held.

        Of a group an indicator whose upper bound is below 1 stays 0, unless it is 1 now. A number that is
        known stays known: of the pairs of `gaps` those are kept whose mark is set.
        """
        point = real_array("x", x)
        m = len(point)
        ends = [
            np.array(np.broadcast_to(value if end is None else np.asarray(end, dtype=float), m))
            for end, value in ((low, -np.inf), (high, np.inf))
        ]
        fixed = np.zeros(m, dtype=bool) if held is None else np.array(held)
        unit = np.ones(m) if spread is None else real_array("spread", spread, (m,))
        own = []
        for places in (np.asarray(group, dtype=np.intp) for group in groups):
            if fixed[places].any():  # a text that may not change
                fixed[places] = True
                continue
            may = (ends[1][places] >= 1.0) | (point[places] == 1.0)
            ends[0][places], ends[1][places] = 0.0, may
            own.append(places)
        missing = []
        for pair in (np.asarray(gap, dtype=np.intp) for gap in gaps):
            if not point[pair[1]]:
                fixed[pair[1]] = True
            elif fixed[pair].any():
                fixed[pair] = True
            else:
                ends[0][pair[1]], ends[1][pair[1]] = 0.0, 1.0
                missing.append(pair)
        return cls(point, unit, ends[0], ends[1], fixed, tuple(own), tuple(missing))
