"""The metric that a Relative Margin Machine implies, beside that of the support vector machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from formulations.language.recovery import moments
from formulations.language.types import dense
from formulations.rmm import bounding_spread
from polyopt.base.text import in_picture
from polyopt.margin.rmm import RelativeMarginMachine
from polyopt.margin.sigma_svm import SigmaSVM
from polyopt.margin.svm import SVM
from polyopt.plots.boundary import draw_classes, draw_levels, plane_limits
from polyopt.plots.sheet import Drawn, Sheet
from polyopt.plots.style import GREEN, INK, MUTED, PURPLE, styled
from polyopt.plots.subject import feature_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from formulations.language.types import Array
    from polyopt.plots.sheet import Places

__all__ = ["whitening"]

_RINGS = 40.0, 260.0  # areas of the ring of the least and of the largest multiplier


def whitening(
    estimator: RelativeMarginMachine | SigmaSVM,
    *,
    axis_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    ax: Places | None = None,
) -> Drawn:
    """Picture of the metric in which a machine's margin is large, over its samples.

    On the left the support vector machine with the same C: its margin is Euclidean, and a circle lies
    between f = −1 and f = 1. On the right the machine itself: to a Relative Margin Machine the samples at
    its bounds give the metric I + Σ_λ (:mod:`formulations.rmm`, from eq. (5) and (6) of its paper), in
    which it is a support vector machine, and what lies between its margins is the ellipse
    ``d'(I + Σ_λ)^{-1} d = const``. It is long where these samples spread. They are ringed, the wider the
    harder they hold the machine back. The ellipse of a Sigma-SVM is that of (1 − D) I + D Σ.

    Both touch the lines f = ±1 of their panel: their size is the margin's, their shape the metric's.

    Parameters
    ----------
    estimator : RelativeMarginMachine or SigmaSVM
        With the linear kernel, fitted to two classes and two features.
    axis_names : sequence of str, optional
        Names of the two features.
    class_names : sequence of str, optional
        Names of the two classes; their labels by default.
    ax : Axes or array of Axes, optional
        Where to draw: axes for each panel, or one whose place they share; a new figure by default.

    Returns
    -------
    Figure or Axes
        A new figure, which a notebook shows; or what was given as `ax`.

    Raises
    ------
    TypeError
        Another estimator.
    ValueError
        Another kernel, or data that are not of two features and two classes.
    """
    _check(estimator)
    X, y = np.asarray(dense(estimator._X), dtype=float), estimator._y
    names = [in_picture(str(name)) for name in (estimator.classes_ if class_names is None else class_names)]
    across, up = axis_names or feature_names(estimator) or ("x₁", "x₂")
    svm = SVM(estimator.C, kernel="linear").fit(X, y, sample_weight=estimator._costs / estimator.C)
    centre, metric, words = _metric(estimator, X)
    has_label = estimator._sample_weights > 0.0
    limits = plane_limits(X)
    with styled():
        sheet = Sheet(ax, 7.2, 4.4)
        left, right = sheet.grid(1, 2, sharex=True, sharey=True)[0]
        for axes, machine, own, title, label in (
            (left, svm, np.eye(2), "Support vector machine", "circle: the metric $I$"),
            (right, estimator, metric, words[0], f"ellipse: the metric {words[1]}"),
        ):
            draw_levels(axes, machine, limits)
            draw_classes(axes, X[has_label], y[has_label], (-1.0, 1.0), names)
            axes.plot(*X[~has_label].T, ".", color=MUTED, ms=3, label="_without label", zorder=2)
            _draw_ball(axes, machine, centre, own, label, dotted=machine is svm)
            axes.set(title=title, xlabel=in_picture(across))
            axes.set_aspect("equal")
        _draw_bounded(right, estimator, X)
        left.set(xlim=limits[0], ylim=limits[1], ylabel=in_picture(up))
        sheet.legend(4)
    return sheet.drawn


def _check(estimator: Any) -> None:
    if not isinstance(estimator, RelativeMarginMachine | SigmaSVM):
        raise TypeError(
            "the picture is of a RelativeMarginMachine or a SigmaSVM, whose metric is their own; not of "
            f"{type(estimator).__name__}"
        )
    check_is_fitted(estimator)
    if estimator.kernel != "linear":
        raise ValueError(f"the picture needs kernel='linear', not {estimator.kernel!r}")
    if estimator.n_features_in_ != 2 or len(estimator.classes_) != 2:
        raise ValueError(
            "the picture needs two features and two classes, not "
            f"{estimator.n_features_in_} and {len(estimator.classes_)}"
        )


def _metric(estimator: Any, X: Array) -> tuple[Array, Array, tuple[str, str]]:
    """Where the ellipse is centred, its metric, and what machine and metric are called."""
    if isinstance(estimator, SigmaSVM):
        mean, Sigma = moments(X, estimator._costs)
        D = float(estimator.D)
        return (
            mean,
            (1.0 - D) * np.eye(2) + D * Sigma,
            (f"Sigma-SVM, D = {D:.3g}", r"$(1 - D)\,I + D\,\Sigma$"),
        )
    mean, Sigma = bounding_spread(X, *_bounding(estimator), estimator.B)
    title = f"RMM, B = {estimator.B:.3g}" + ("" if Sigma.any() else ": no sample is held")
    return mean, np.eye(2) + Sigma, (title, r"$I + \Sigma_\lambda$")


def _draw_ball(axes: Axes, machine: Any, centre: Array, metric: Array, label: str, dotted: bool) -> None:
    """The points whose distance from the boundary's nearest to the centre is the margin, in the metric.

    Distances in x are those of the inverse metric, as that of w is the metric: the dual norm.
    """
    w, b = machine.coef_[0], float(machine.intercept_[0])
    size = float(w @ metric @ w)
    if size == 0.0:
        return  # no hyperplane, and no margin
    middle = centre - (w @ centre + b) / size * (metric @ w)
    values, vectors = np.linalg.eigh(metric)
    angles = np.linspace(0.0, 2.0 * np.pi, 200)
    around = (vectors * np.sqrt(np.maximum(values, 0.0))) @ np.stack([np.cos(angles), np.sin(angles)])
    u, v = middle[:, None] + around / np.sqrt(size)
    axes.fill(u, v, color=MUTED, alpha=0.12, lw=0, zorder=1)
    axes.plot(u, v, color=INK, lw=1.3, ls=":" if dotted else "-", label=label, zorder=4)
    axes.plot(*middle, "+", color=INK, ms=6, zorder=4)


def _bounding(estimator: Any) -> tuple[Array, Array]:
    """The multipliers λ and λ* (none for a Sigma-SVM), without what an interior point leaves of zeros."""
    small = 1e-6 * float(estimator._costs.max())
    zeros = np.zeros_like(estimator._costs)
    owns = (estimator.multipliers_.get(name, zeros) for name in ("bound_above", "bound_below"))
    lam, lam_star = (np.where(own > small, own, 0.0) for own in owns)
    return lam, lam_star


def _draw_bounded(axes: Axes, estimator: Any, X: Array) -> None:
    """Rings around the samples at the bounds."""
    lam, lam_star = _bounding(estimator)
    largest = max(float(lam.max()), float(lam_star.max()))
    looks = (lam, "λ: held at +B", GREEN), (lam_star, "λ*: held at −B", PURPLE)
    for multiplier, label, colour in looks:
        held = multiplier > 0.0
        if held.any():
            areas = _RINGS[0] + (_RINGS[1] - _RINGS[0]) * multiplier[held] / largest
            u, v = X[held].T
            axes.scatter(u, v, s=areas, facecolor="none", ec=colour, lw=1.4, zorder=5)
            axes.scatter([], [], s=60.0, facecolor="none", ec=colour, lw=1.4, label=label)
