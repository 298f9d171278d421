"""``duals_`` of a machine whose rows have one multiplier per sample, as a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["RowsShown", "margin_state", "multiplier_frame"]

_MARGIN_TOL = 1e-6  # of an output, whose margin is 1

RowsShown: TypeAlias = "tuple[str, str, NDArray[Any], NDArray[Any], NDArray[Any]]"
"""A family of rows: its name, the letter of its multipliers, these, the slack of its rows, their states."""


def margin_state(excess: NDArray[Any]) -> NDArray[np.str_]:
    """State of each sample by its output alone: `excess` is y f - 1, negative inside the margin."""
    inside = np.where(excess < -_MARGIN_TOL, "inside the margin", "on the margin")
    return np.where(excess > _MARGIN_TOL, "beyond the margin", inside)


def multiplier_frame(
    families: Sequence[RowsShown], rows: NDArray[Any], label: NDArray[Any], outputs: NDArray[Any]
) -> pd.DataFrame:
    """The families below one another, each in input order.

    families: the families of rows.
    rows (n,): numbers of the samples in the data given to ``fit``.
    label, outputs (n,): their labels, and the machine's outputs.
    """
    import pandas as pd

    frames = [
        pd.DataFrame(
            {
                "row": row,
                "letter": letter,
                "sample": rows,
                "label": label,
                "multiplier": multiplier,
                "slack": slack,
                "output": outputs,
                "state": state,
            }
        )
        for row, letter, multiplier, slack, state in families
    ]
    return pd.concat(frames, ignore_index=True)
