"""Relative gap against time, of several runs, and the point where each solver ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from polyopt.plots.sheet import Drawn, Sheet
from polyopt.plots.style import FACES, MUTED, styled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from polyopt.plots.sheet import Places

__all__ = ["gaps"]

_MIN_GAP, _MIN_SECONDS = 1e-7, 1e-3  # what is less is drawn there: the scales are logarithmic
_MARKERS = ("o", "s", "^", "*", "D", "v")


def gaps(
    runs: Mapping[str, ArrayLike],
    ends: Mapping[str, Mapping[str, tuple[float, float]]],
    *,
    title: str = "",
    ax: Places | None = None,
) -> Drawn:
    """Picture of the gap against time, both on logarithmic scales.

    A line for each run, between its own best point and its own bound; a mark for each solver, where it ended,
    from its objective to the best bound known.

    Parameters
    ----------
    runs : mapping of str to array_like of shape (records, 2)
        Seconds and relative gap, by what was solved.
    ends : mapping of str to mapping of str to (float, float)
        Seconds and relative gap of each solver, by what was solved.
    title : str
        Title of the picture.
    ax : Axes or array of Axes, optional
        Where to draw: axes, or one whose place they share; a new figure by default.

    Returns
    -------
    Figure or Axes
        A new figure, which a notebook shows; or what was given as `ax`.

    Raises
    ------
    ValueError
        Nothing to draw.
    """
    names = list(dict.fromkeys([*runs, *ends]))
    if not names:
        raise ValueError("a picture of gaps needs a run, and there is none")
    solvers = list(dict.fromkeys(solver for own in ends.values() for solver in own))
    with styled():
        sheet = Sheet(ax, 5.0, 4.4)
        axes = sheet.grid(1, 1)[0, 0]
        for number, name in enumerate(names):
            colour = FACES[number % len(FACES)]
            line = np.reshape(np.asarray(runs.get(name, ()), dtype=float), (-1, 2))
            axes.plot(*_shown(line), color=colour, lw=1.4, label=name)
            for solver, end in ends.get(name, {}).items():
                marker = _MARKERS[solvers.index(solver) % len(_MARKERS)]
                axes.plot(*_shown(np.array([end])), marker=marker, color=colour, ms=6, mfc="none", ls="")
        for number, solver in enumerate(solvers):
            axes.plot(
                [], [], marker=_MARKERS[number % len(_MARKERS)], color=MUTED, mfc="none", ls="", label=solver
            )
        axes.set(title=title, xlabel="seconds", ylabel="relative gap", xscale="log", yscale="log")
        axes.grid(axis="y")
        sheet.legend(3)
    return sheet.drawn


def _shown(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and gaps, held where the scales can show them."""
    return np.maximum(points[:, 0], _MIN_SECONDS), np.clip(points[:, 1], _MIN_GAP, None)
