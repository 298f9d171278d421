"""Runs of solvers: convergence, gaps against time, and paths of machines."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from formulations.language.solution import Solution
from polyopt.certificates.path_point import Path, Point
from polyopt.plots import figure as style
from polyopt.plots.figure import draw_legend, machine_of, new_panels


def convergence(
    history: pd.DataFrame | Solution | BaseEstimator, *, reference: float | None = None,
    unit: str | None = None,
) -> Any:  # fmt: skip
    """Draw a picture of a run.

    Above, objective and bound by iteration, and the objective of the exact solver; below, the relative
    gap on a logarithmic scale. Without bounds, the lower picture is left out.

    Parameters
    ----------
    history : DataFrame, Solution or estimator
        A fitted machine of two classes, a solution, or the records of either: ``objective`` and, if known,
        ``bound`` by ``iteration``, ``epoch``, ``step`` or ``round``. Of several starts the best is drawn.
    reference : float, optional
        Objective of the exact solution.
    unit : str, optional
        Name of an iteration; by default the column's.
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
    shape = (2.8, 1) if bound is None else (4.6, 2)
    with new_panels(5.0, *shape, sharex=True) as (figure, grid):
        axes = grid[:, 0]
        size = 3 if len(steps) <= 40 else 0  # marks of more steps would touch
        axes[0].plot(steps, objective, "-o", color=style.BLUE, ms=size, lw=1.4, label="objective")
        if bound is not None:
            axes[0].plot(steps, bound, "-s", color=style.ORANGE, ms=size, lw=1.4, label="proven bound")
            scale = np.maximum(np.maximum(np.abs(objective), np.abs(bound)), np.finfo(float).tiny)
            gap = np.abs(objective - bound) / scale
            axes[1].plot(steps, gap, "-D", color=style.PURPLE, ms=size, lw=1.4)
            axes[1].set(yscale="log", ylabel="relative gap")
            axes[1].grid(axis="y")
        if reference is not None:
            axes[0].axhline(reference, color=style.INK, lw=0.9, ls="--", label="exact solver")
        if bound is None and objective.min() > 0 and objective.max() > 5.0 * objective.min():
            axes[0].set_yscale("log")
        axes[0].set(ylabel="objective" if bound is None else "objective and bound")
        axes[0].grid(axis="y")
        axes[0].legend(loc="best")
        if steps.min() > 0 and steps.max() > 50 * steps.min():
            axes[-1].set_xscale("log")
        axes[-1].set_xlabel(unit)
    return figure


_MIN_GAP = 1e-7  # smaller relative gaps are drawn there, on a logarithmic scale
_MIN_SECONDS = 1e-3  # shorter times are drawn there


def gaps(
    runs: Mapping[str, ArrayLike], ends: Mapping[str, Mapping[str, tuple[float, float]]], *,
    title: str = "",
) -> Any:  # fmt: skip
    """Draw a picture of the gap against time, both on logarithmic scales.

    A line for each run, from its best point to its bound; a marker for the end of each solver, from its
    objective to the best bound known.

    Parameters
    ----------
    runs, ends : mapping of str to array_like of shape (records, 2), and to mapping of str to (float, float)
        Seconds and relative gap by the name of the problem, of a run and, by solver, of the end.
    title : str
        Title of the picture.
    """
    names = list(dict.fromkeys([*runs, *ends]))
    if not names:
        raise ValueError("a picture of gaps needs a run, and there is none")
    solvers = list(dict.fromkeys(solver for by_solver in ends.values() for solver in by_solver))
    with new_panels(5.0, 4.4) as (figure, grid):
        axes = grid[0, 0]
        for number, name in enumerate(names):
            colour = style.FACES[number % len(style.FACES)]
            line = np.reshape(np.asarray(runs.get(name, ()), dtype=float), (-1, 2))
            axes.plot(*_shown(line), color=colour, lw=1.4, label=name)
            for solver, end in ends.get(name, {}).items():
                marker = style.MARKERS[solvers.index(solver) % len(style.MARKERS)]
                axes.plot(*_shown(np.array([end])), marker=marker, color=colour, ms=6, mfc="none", ls="")
        for number, solver in enumerate(solvers):
            marker = style.MARKERS[number % len(style.MARKERS)]
            axes.plot([], [], marker=marker, color=style.MUTED, mfc="none", ls="", label=solver)
        axes.set(title=title, xlabel="seconds", ylabel="relative gap", xscale="log", yscale="log")
        axes.grid(axis="y")
        draw_legend(figure, 3)
    return figure


def _shown(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return seconds and gaps, not below the least of the logarithmic scales."""
    return np.maximum(points[:, 0], _MIN_SECONDS), np.clip(points[:, 1], _MIN_GAP, None)


def path(points: Path[Any]) -> Any:
    """Draw a picture of a path, as of :func:`polyopt.rmm_path`, over what varies along it.

    Above, the value of each machine and the proven bound on its optimum; below, the number of nonzero
    multipliers of each family of rows. A machine with an infinite bound stands at the right end.

    Parameters
    ----------
    points : Path
        The path.
    """
    if not points:
        raise ValueError("a picture of a path needs machines on it, and this one has none")
    values = np.array([float(getattr(point, points.varied)) for point in points])
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (1.0, 1.0)
    logarithmic = low > 0 and high > 20.0 * low
    end = high * (high / low) ** 0.15 if logarithmic else high + 0.15 * ((high - low) or 1.0)
    x = np.where(np.isfinite(values), values, end)
    order = np.argsort(x, kind="stable")
    x = x[order]
    with new_panels(5.0, 4.4, 2, sharex=True) as (figure, grid):
        above, below = grid[:, 0]
        bounds = np.array([(p.certificate.primal_value, p.certificate.dual_value) for p in points])[order]
        above.plot(x, bounds[:, 0], "-o", color=style.BLUE, label="value", mfc="none", ms=7, lw=1.0)
        above.plot(x, bounds[:, 1], marker=".", color=style.ORANGE, label="proven bound", ms=7, lw=1.0)
        families = dict.fromkeys(family for point in points for family in point.solution.duals)
        for number, family in enumerate(families):
            counts = np.array([_count_nonzero(point, family) for point in points])
            look = number % len(style.FACES)  # as many as there are markers
            marker, colour = style.MARKERS[look], style.FACES[look]
            below.plot(x, counts[order], marker=marker, color=colour, ms=4, lw=1.0, label=family)
        above.set(ylabel="value and bound")
        below.set(xlabel=points.varied, ylabel="multipliers not 0")
        below.set_ylim(bottom=0)
        if logarithmic:
            below.set_xscale("log")
        if not np.isfinite(values).all():
            above.axvline(end, color=style.FACES[4], lw=0.6, ls=":")
            above.annotate("∞", (end, 1.0), xycoords=("data", "axes fraction"), ha="center", va="bottom")
        for panel in (above, below):
            panel.grid(axis="y")
        draw_legend(figure, 3)
    return figure


def _count_nonzero(point: Point, family: str) -> int:
    """Count the multipliers of a family that are not 0, up to a solver's rounding."""
    duals = point.solution.duals
    values = np.abs(duals.get(family, np.zeros(0)))
    largest = max((float(np.abs(each).max(initial=0.0)) for each in duals.values()), default=0.0)
    return int((values > style.ZERO_TOL * largest).sum())
