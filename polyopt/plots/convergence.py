"""Convergence of a solver: objective and bound by iteration, and the gap between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.plots.sheet import Drawn, Sheet
from polyopt.plots.style import BLUE, INK, ORANGE, PURPLE, styled
from polyopt.plots.subject import machine_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

    from formulations.language.solution import Solution
    from polyopt.plots.sheet import Places

__all__ = ["convergence"]


def convergence(
    history: pd.DataFrame | Solution | BaseEstimator, *, reference: float | None = None,
    unit: str | None = None, title: str = "",
    ax: Places | None = None,
) -> Drawn:  # fmt: skip
    """Picture of a run.

    Above, objective and bound by iteration, and the objective of the exact solver; below, the relative
    gap on a logarithmic scale. Without bounds, the lower picture is left out.

    Parameters
    ----------
    history : DataFrame, Solution or estimator
        A fitted machine of two classes, a solution, or the records of either: ``objective`` and, if they
        are known, ``bound`` by ``iteration``, ``epoch``, ``step`` or ``round``. If there are several starts,
        the one that was kept is drawn.
    reference : float, optional
        Objective of the exact solution.
    unit : str, optional
        Name of an iteration; by default the column's.
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
    TypeError
        No machine, solution or frame.
    ValueError
        No objective in the records, or several pairs of classes.
    """
    from polyopt.compare.trace import records_of, trace, unit_of

    run = machine_of(history)
    if not any(hasattr(run, name) for name in ("history_", "history", "columns")):
        raise TypeError(f"history must be a fitted machine, a Solution or a frame, not {type(run).__name__}")
    records = records_of(run)
    if "pair" in records and records["pair"].nunique() > 1:
        raise ValueError("a picture is of one pair of classes: give history_[history_['pair'] == ...]")
    unit, history = unit or unit_of(records), trace(records)
    if not len(history):
        raise ValueError("this run has no objective by iteration to be drawn: its solver keeps none")
    steps, objective = history["iteration"].to_numpy(), history["objective"].to_numpy()
    bound = history["bound"].to_numpy() if "bound" in history else None
    with styled():
        sheet = Sheet(ax, 5.0, 4.6 if bound is not None else 2.8)
        axes = sheet.grid(1 if bound is None else 2, 1, sharex=True)[:, 0]
        size = 3 if len(steps) <= 40 else 0  # marks of more steps would touch
        axes[0].plot(steps, objective, "-o", color=BLUE, ms=size, lw=1.4, label="objective")
        if bound is not None:
            axes[0].plot(steps, bound, "-s", color=ORANGE, ms=size, lw=1.4, label="proven bound")
            scale = np.maximum(np.maximum(np.abs(objective), np.abs(bound)), np.finfo(float).tiny)
            gap = np.abs(objective - bound) / scale
            axes[1].plot(steps, gap, "-D", color=PURPLE, ms=size, lw=1.4)
            axes[1].set(yscale="log", ylabel="relative gap")
            axes[1].grid(axis="y")
        if reference is not None:
            axes[0].axhline(reference, color=INK, lw=0.9, ls="--", label="exact solver")
        if bound is None and objective.min() > 0 and objective.max() > 5.0 * objective.min():
            _logarithmic(axes[0])
        axes[0].set(title=title, ylabel="objective" if bound is None else "objective and bound")
        axes[0].grid(axis="y")
        axes[0].legend(loc="best")
        if steps.min() > 0 and steps.max() > 50 * steps.min():
            axes[-1].set_xscale("log")
        axes[-1].set_xlabel(unit)
    return sheet.drawn


def _logarithmic(axes: Axes) -> None:
    """A logarithmic scale with plain numbers at 1, 2 and 5, as it may not span two powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
