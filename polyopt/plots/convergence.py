"""How a solver came to its answer: objective and bound by iteration, and the gap between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.plots.style import BLUE, INK, ORANGE, PURPLE, new_figure, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["convergence"]


def convergence(
    history: pd.DataFrame, *, reference: float | None = None, unit: str = "iteration", title: str = ""
) -> Figure:
    """Picture of a run.

    Above, objective and bound by iteration, and the exact solution's objective; below, the relative
    gap on a logarithmic scale. Without bounds, the lower picture is left out.

    Parameters
    ----------
    history : DataFrame
        ``iteration``, ``objective`` and, where they are known, ``bound``.
    reference : float, optional
        Objective of the exact solution.
    unit : str
        What an iteration is.
    title : str
        Title of the picture.
    """
    steps, objective = history["iteration"].to_numpy(), history["objective"].to_numpy()
    bound = history["bound"].to_numpy() if "bound" in history else None
    with styled():
        figure = new_figure(5.0, 4.6 if bound is not None else 2.8)
        axes = figure.subplots(1 if bound is None else 2, 1, sharex=True, squeeze=False)[:, 0]
        axes[0].plot(steps, objective, "-o", color=BLUE, ms=3, lw=1.4, label="objective")
        if bound is not None:
            axes[0].plot(steps, bound, "-s", color=ORANGE, ms=3, lw=1.4, label="proven bound")
            scale = np.maximum(np.maximum(np.abs(objective), np.abs(bound)), np.finfo(float).tiny)
            gap = np.abs(objective - bound) / scale
            axes[1].plot(steps, gap, "-D", color=PURPLE, ms=3, lw=1.4)
            axes[1].set(yscale="log", ylabel="relative gap")
            axes[1].grid(axis="y")
        if reference is not None:
            axes[0].axhline(reference, color=INK, lw=0.9, ls="--", label="exact solution")
        axes[0].set(title=title, ylabel="objective and bound")
        axes[0].grid(axis="y")
        axes[0].legend(loc="best")
        if steps.max() > 50 * max(steps.min(), 1):
            axes[-1].set_xscale("log")
        axes[-1].set_xlabel(unit)
    return figure

