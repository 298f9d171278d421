"""A path of machines: what each is worth, what is proven of it, and how many rows hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.plots.sheet import Drawn, Sheet
from polyopt.plots.style import BLUE, FACES, ORANGE, ZERO_SHARE, styled

if TYPE_CHECKING:
    from polyopt.certificates.path_point import Path, Point
    from polyopt.plots.sheet import Places

__all__ = ["path"]

_MARKERS = ("o", "^", "v", "s", "D", "P")


def path(points: Path[Any], *, title: str = "", ax: Places | None = None) -> Drawn:
    """Picture of a path, as of :func:`polyopt.rmm_path`, over what varies along it.

    Above, the value of each machine and the bound that is proven on its optimum; below, how many multipliers
    of each family of rows are not 0. A machine with an infinite bound stands at the right end.

    Parameters
    ----------
    points : Path
        The path.
    title : str
        Title of the picture.
    ax : Axes or array of Axes, optional
        Where to draw: axes for each panel, or one whose place they share; a new figure by default.

    Returns
    -------
    Figure or Axes
        A new figure, which a notebook shows; or what was given as `ax`.

    Raises
    ------
    ValueError
        A path without machines.
    """
    if not points:
        raise ValueError("a picture of a path needs machines on it, and this one has none")
    at = np.array([float(getattr(point, points.varied)) for point in points])
    finite = at[np.isfinite(at)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (1.0, 1.0)
    logarithmic = low > 0 and high > 20.0 * low
    end = high * (high / low) ** 0.15 if logarithmic else high + 0.15 * ((high - low) or 1.0)
    places = np.where(np.isfinite(at), at, end)
    order = np.argsort(places, kind="stable")
    with styled():
        sheet = Sheet(ax, 5.0, 4.4)
        above, below = sheet.grid(2, 1, sharex=True)[:, 0]
        for name, marker, colour, label in (
            ("primal_value", "o", BLUE, "value"), ("dual_value", ".", ORANGE, "proven bound")
        ):  # fmt: skip
            values = np.array([getattr(point.certificate, name) for point in points])
            above.plot(
                places[order], values[order], marker=marker, color=colour, ms=7, lw=1.0, label=label,
                mfc="none" if marker == "o" else colour,
            )  # fmt: skip
        families = dict.fromkeys(family for point in points for family in point.solution.duals)
        for place, family in enumerate(families):
            counts = np.array([_held(point, family) for point in points])
            look = {"marker": _MARKERS[place % len(_MARKERS)], "color": FACES[place % len(FACES)]}
            below.plot(places[order], counts[order], ms=4, lw=1.0, label=family, **look)
        above.set(title=title, ylabel="value and bound")
        below.set(xlabel=points.varied, ylabel="multipliers not 0")
        below.set_ylim(bottom=0)
        if logarithmic:
            below.set_xscale("log")
        if not np.isfinite(at).all():
            above.axvline(end, color=FACES[4], lw=0.6, ls=":")
            above.annotate("∞", (end, 1.0), xycoords=("data", "axes fraction"), ha="center", va="bottom")
        for panel in (above, below):
            panel.grid(axis="y")
        sheet.legend(3)
    return sheet.drawn


def _held(point: Point, family: str) -> int:
    """Multipliers of a family that are not 0, up to what a solver leaves of zeros."""
    values = np.abs(point.solution.duals.get(family, np.zeros(0)))
    largest = max((float(np.abs(own).max(initial=0.0)) for own in point.solution.duals.values()), default=0.0)
    return int((values > ZERO_SHARE * largest).sum())
