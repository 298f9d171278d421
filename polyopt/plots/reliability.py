"""Reliability of probabilities: observed frequency of a class against its predicted probability."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import whole
from formulations.language.types import Array
from polyopt.plots.figure import CLASSES, GRID, INK, MUTED, Axes, draw_legend, new_panels

_Z = 1.96  # quantile of the normal distribution for an interval of 95 %


def reliability(
    y: ArrayLike, probabilities: ArrayLike, classes: Sequence[object], *, bins: int = 10, title: str = "",
) -> Any:  # fmt: skip
    """Draw observed against predicted frequencies of a class, over the counts; with Brier score and log loss.

    Of two classes it is the second, of more the one with the largest probability. Samples are put into bins
    of equal numbers by :func:`sklearn.calibration.calibration_curve`. A bar is Wilson's 95 % interval for the
    frequency in a bin.

    Parameters
    ----------
    y, probabilities : array_like of shape (n,) and (n, n_classes)
        Labels, and what ``predict_proba`` gives.
    classes : sequence
        The labels of the columns.
    bins : int
        Largest number of bins.
    title : str
        Title of the picture.
    """
    labels, p_all = np.asarray(y), np.asarray(probabilities, dtype=float)
    if not len(labels) or p_all.shape != (len(labels), len(classes)) or len(classes) < 2:
        raise ValueError(
            f"probabilities must be (n, {len(classes)}) for n labels of {len(classes)} classes, at least one "
            f"and two; they are {p_all.shape} for {len(labels)} labels"
        )
    if not ((p_all >= 0).all() and np.allclose(p_all.sum(axis=1), 1.0)):
        raise ValueError("probabilities must be at least 0, and of each sample add up to 1")
    if foreign := [label for label in dict.fromkeys(labels.tolist()) if label not in list(classes)]:
        raise ValueError(f"y has labels that are none of the classes: {foreign[:5]!r}")
    bins = whole("bins", bins)
    truth = np.column_stack([labels == label for label in classes])
    if len(classes) == 2:
        event, complement = f"class {classes[1]}", f"class {classes[0]}"
        is_event, p = truth[:, 1], p_all[:, 1]
    else:
        event, complement = "the class predicted", "another class"
        predicted = np.arange(len(labels)), p_all.argmax(axis=1)
        is_event, p = truth[predicted], p_all[predicted]
    with new_panels(4.6, 5.4, 2, sharex=True, height_ratios=[3, 1]) as (figure, grid):
        axes, counts = grid[:, 0]
        axes.plot([0, 1], [0, 1], color=MUTED, lw=0.8, ls=(0, (4, 3)), label="predicted")
        _draw_curve(axes, is_event, p, bins)
        parts = ((event, is_event, CLASSES[1][0]), (complement, ~is_event, CLASSES[0][0]))
        for name, mask, colour in parts:
            counts.hist(p[mask], np.linspace(0, 1, 21), color=colour, histtype="step", lw=1.4, label=name)
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), ylabel=f"frequency of {event}", title=title)
        axes.annotate(
            _losses(truth, p_all), (0, 1), (6, -4), "axes fraction", textcoords="offset points",
            va="top", fontsize=8, color=MUTED,
        )  # fmt: skip
        counts.set(xlabel=f"probability of {event}", ylabel="samples")
        for panel in (axes, counts):
            panel.grid(color=GRID)
        draw_legend(figure, 2)
    return figure


def _draw_curve(axes: Axes, is_event: NDArray[np.bool_], p: Array, bins: int) -> None:
    """Draw the frequency in each bin, with its interval."""
    from sklearn.calibration import calibration_curve

    observed, predicted = calibration_curve(is_event, p, n_bins=bins, strategy="quantile")
    edges = np.percentile(p, np.linspace(0, 1, bins + 1) * 100)  # as in calibration_curve
    counts = np.bincount(np.searchsorted(edges[1:-1], p), minlength=bins)
    n = counts[counts > 0]
    scale = 1.0 + _Z**2 / n
    middle = (observed + _Z**2 / (2 * n)) / scale
    half = _Z * np.sqrt(observed * (1 - observed) / n + (_Z / (2 * n)) ** 2) / scale
    axes.vlines(predicted, middle - half, middle + half, color=INK, lw=1.0, alpha=0.5)
    axes.plot(predicted, observed, color=INK, marker="o", ms=4, lw=1.4, label="observed")


def _losses(truth: NDArray[np.bool_], p: Array) -> str:
    """Format the Brier score, for two classes half of the squares over both, and the log loss."""
    brier = float(((p - truth) ** 2).sum(axis=1).mean()) / (2 if truth.shape[1] == 2 else 1)
    loss = float(-np.log(np.maximum(p[truth], np.finfo(float).tiny)).mean())
    return f"Brier score {brier:.4f}\nlog loss {loss:.4f}\n{len(truth)} samples"
