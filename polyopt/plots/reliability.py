"""Reliability of probabilities: observed frequency of a class against its predicted probability."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.types import Array
from polyopt.plots.figure import CLASSES, GRID, INK, MUTED, Axes, Drawn, Panels, Places

_Z = 1.96  # standard deviations either side of a share: 19 times of 20


def reliability(
    y: ArrayLike, probabilities: ArrayLike, classes: Sequence[object], *, bins: int = 10, title: str = "",
    ax: Places | None = None,
) -> Drawn:  # fmt: skip
    """Draw observed against predicted frequencies of a class, over the counts; with Brier score and log loss.

    Of two classes it is the second, of more the one with the largest probability. Samples are put into bins
    of equal numbers by :func:`sklearn.calibration.calibration_curve`. A bar is Wilson's interval for the
    share of a bin, 19 times of 20.

    Parameters
    ----------
    y : array_like of shape (n,)
        Labels.
    probabilities : array_like of shape (n, n_classes)
        As ``predict_proba`` gives them.
    classes : sequence
        The labels of the columns.
    bins : int
        Bins at most.
    title : str
        What the picture shows; by default nothing.
    ax : Axes or array of Axes, optional
        Axes for each panel, or one whose place they share; a new figure by default. It is returned.
    """
    labels, shown = np.asarray(y), np.asarray(probabilities, dtype=float)
    _check(labels, shown, classes, bins)
    truth = np.column_stack([labels == label for label in classes])
    if len(classes) == 2:
        what, others = f"class {classes[1]}", f"class {classes[0]}"
        is_so, p = truth[:, 1], shown[:, 1]
    else:
        what, others, best = "the class predicted", "another class", shown.argmax(axis=1)
        is_so, p = (one[np.arange(len(labels)), best] for one in (truth, shown))
    with Panels(ax, 4.6, 5.4) as panels:
        axes, counts = panels.grid(2, 1, sharex=True, height_ratios=[3, 1])[:, 0]
        axes.plot([0, 1], [0, 1], color=MUTED, lw=0.8, ls=(0, (4, 3)), label="as said")
        _draw_curve(axes, is_so, p, bins)
        parts = ((what, is_so, CLASSES[1][0]), (others, ~is_so, CLASSES[0][0]))
        for name, chosen, colour in parts:
            counts.hist(p[chosen], np.linspace(0, 1, 21), color=colour, histtype="step", lw=1.4, label=name)
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), ylabel=f"share of {what}", title=title)
        axes.annotate(
            _losses(truth, shown), (0, 1), (6, -4), "axes fraction", textcoords="offset points",
            va="top", fontsize=8, color=MUTED,
        )  # fmt: skip
        counts.set(xlabel=f"probability of {what}", ylabel="samples")
        for one in (axes, counts):
            one.grid(color=GRID)
        panels.legend(2)
    return panels.drawn


def _draw_curve(axes: Axes, is_so: NDArray[np.bool_], p: Array, bins: int) -> None:
    """Draw the shares, and their intervals by Wilson."""
    from sklearn.calibration import calibration_curve

    share, said = calibration_curve(is_so, p, n_bins=bins, strategy="quantile")
    edges = np.percentile(p, np.linspace(0, 1, bins + 1) * 100)  # as that function has them
    each = np.bincount(np.searchsorted(edges[1:-1], p), minlength=bins)
    count = each[each > 0]
    scale = 1.0 + _Z**2 / count
    middle = (share + _Z**2 / (2 * count)) / scale
    half = _Z * np.sqrt(share * (1 - share) / count + (_Z / (2 * count)) ** 2) / scale
    axes.vlines(said, middle - half, middle + half, color=INK, lw=1.0, alpha=0.5)
    axes.plot(said, share, color=INK, marker="o", ms=4, lw=1.4, label="as it was")


def _losses(truth: NDArray[np.bool_], shown: Array) -> str:
    """Format the Brier score, for two classes half of the squares over both, and the log loss."""
    brier = float(((shown - truth) ** 2).sum(axis=1).mean()) / (2 if truth.shape[1] == 2 else 1)
    loss = float(-np.log(np.maximum(shown[truth], np.finfo(float).tiny)).mean())
    return f"Brier score {brier:.4f}\nlog loss {loss:.4f}\n{len(truth)} samples"


def _check(y: NDArray[np.generic], p: Array, classes: Sequence[object], bins: int) -> None:
    if not len(y) or p.shape != (len(y), len(classes)) or len(classes) < 2:
        raise ValueError(
            f"probabilities must be (n, {len(classes)}) for n labels of {len(classes)} classes, at least one "
            f"and two; they are {p.shape} for {len(y)} labels"
        )
    if not (np.isfinite(p).all() and (p >= 0).all() and np.allclose(p.sum(axis=1), 1.0)):
        raise ValueError("probabilities must be at least 0, and of each sample add up to 1")
    if foreign := [label for label in dict.fromkeys(y.tolist()) if label not in list(classes)]:
        raise ValueError(f"y has labels that are none of the classes: {foreign[:5]!r}")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, not {bins!r}")
