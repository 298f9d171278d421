"""The plane of two features: decision boundaries with levels of the program, and the metric of a machine."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from formulations.language.recovery import moments
from formulations.language.types import Array, dense
from formulations.rmm import bounding_spread
from polyopt.base.text import in_picture
from polyopt.margin.rmm import RelativeMarginMachine
from polyopt.margin.sigma_svm import SigmaSVM
from polyopt.margin.svm import SVM
from polyopt.plots import figure as style
from polyopt.plots.figure import draw_legend, draw_line, feature_names, new_panels, plane_limits, values_of


def decision_boundary(
    estimator: Any | Mapping[str, Any], X: ArrayLike, y: ArrayLike, *,
    axis_names: Sequence[str] | None = None, class_names: Sequence[str] | None = None,
) -> Any:  # fmt: skip
    """Draw a picture of a binary classifier of two features, or of several, three in a row.

    The boundary f = 0 and the margins f = ±1; for a finite B the bounds f = ±B; for a polytope each
    of its faces as a line. The support vectors are ringed.

    Parameters
    ----------
    estimator : estimator or mapping of str to estimator
        Fitted to X and y; several with their titles.
    X, y : array_like of shape (n, 2) and (n,)
        Its training samples, such as a frame, whose columns are found by name, and their labels.
    axis_names, class_names : sequence of str, optional
        Names of the two features, by default those of the fit or of the frame, else x₁ and x₂; and names of
        the two classes, by default their labels.
    """
    is_single = not isinstance(estimator, Mapping)
    machines: Mapping[str, Any] = {"": estimator} if is_single else estimator
    if not machines:
        raise ValueError("estimator must have at least one entry")
    x_name, y_name = _axis_names(axis_names, next(iter(machines.values())), X)
    rows, columns = -(-len(machines) // 3), min(3, len(machines))
    size = (5.0, 4.6) if is_single else (3.2 * columns, 3.1 * rows + 0.3)
    with new_panels(*size, rows, columns, sharex=True, sharey=True) as (figure, grid):
        for axes, (name, machine) in zip(grid.ravel(), machines.items(), strict=False):
            _draw(axes, machine, X, y, class_names)
            axes.set(title=name)
        for axes in grid.ravel()[len(machines) :]:
            axes.set_visible(False)
        for axes in grid[:, 0]:
            axes.set(ylabel=y_name)
        for axes in grid[-1]:
            axes.set(xlabel=x_name)
        draw_legend(figure, 3 if is_single else 5)
    return figure


def _axis_names(names: Sequence[str] | None, estimator: Any, X: ArrayLike | None) -> tuple[str, str]:
    x_name, y_name = names or feature_names(estimator, X) or ("x₁", "x₂")
    return in_picture(x_name), in_picture(y_name)


def _class_names(estimator: Any, names: Sequence[str] | None) -> list[str]:
    return [in_picture(str(name)) for name in (estimator.classes_ if names is None else names)]


def _draw(axes: style.Axes, estimator: Any, X: ArrayLike, y: ArrayLike, names: Sequence[str] | None) -> None:
    """Draw boundary, levels, faces and samples of one classifier."""
    data = values_of(X, feature_names(estimator))
    if data.ndim != 2 or data.shape[1] != 2:
        raise ValueError(f"a picture of the boundary needs two features; X has shape {data.shape}")
    if len(estimator.classes_) != 2:
        raise ValueError(f"a picture of the boundary needs two classes, not {len(estimator.classes_)}")
    limits, faces = plane_limits(data), _faces(estimator)
    _draw_levels(axes, estimator, limits)
    if len(faces) > 1:
        _draw_faces(axes, faces, limits)
    _draw_classes(axes, data, np.asarray(y), estimator.classes_, _class_names(estimator, names))
    if len(support := getattr(estimator, "support_", ())):
        look = {"s": 42, "facecolor": "none", "ec": style.INK, "lw": 0.6, "alpha": 0.8, "zorder": 4}
        axes.scatter(*data[support].T, label="support vector", **look)
    axes.set(xlim=limits[0], ylim=limits[1])


def _draw_classes(
    axes: style.Axes, X: NDArray[Any], y: NDArray[Any], labels: ArrayLike, names: Sequence[str]
) -> None:
    """Draw the samples of both classes, each with its colour and marker."""
    for label, name, (colour, marker) in zip(np.asarray(labels), names, style.CLASSES, strict=True):
        u, v = X[y == label].T
        axes.scatter(u, v, s=20, c=colour, marker=marker, lw=0.3, ec="white", label=name, zorder=3)


def _draw_levels(axes: style.Axes, estimator: Any, limits: NDArray[Any]) -> None:
    """Draw the two sides as tints, and the lines f = 0, ±1, ±B."""
    u, v = (np.linspace(low, high, 240) for low, high in limits)
    U, V = np.meshgrid(u, v)
    points: Any = np.column_stack([U.ravel(), V.ravel()])
    if hasattr(estimator, "feature_names_in_"):  # fitted to a frame
        points = pd.DataFrame(points, columns=estimator.feature_names_in_)
    f = estimator.decision_function(points).reshape(U.shape)
    tints = [colour for colour, _ in style.CLASSES]
    axes.contourf(U, V, f, levels=[-np.inf, 0.0, np.inf], colors=tints, alpha=0.09)
    B = float(getattr(estimator, "B", np.inf))
    width = 2.0 if len(_faces(estimator)) > 1 else 1.5
    lines: list[Any] = [
        ([0.0], style.INK, "-", width, "f = 0"),
        ([-1.0, 1.0], style.INK, "--", 0.9, "f = ±1"),
    ]
    if np.isfinite(B):
        lines.append((sorted({-B, B}), style.GREEN, "-.", 1.3, f"f = ±B = ±{B:.3g}"))
    for levels, colour, line, width, label in lines:
        axes.plot([], [], color=colour, linestyle=line, linewidth=width, label=label)
        if f.min() < max(levels) and f.max() > min(levels):
            axes.contour(U, V, f, levels=levels, colors=colour, linestyles=line, linewidths=width)


def _faces(estimator: Any) -> NDArray[Any]:
    """Return rows (w, b) of the hyperplanes of a polytope; none for other classifiers."""
    if not (hasattr(estimator, "W_") and hasattr(estimator, "b_")):
        return np.empty((0, 3))
    return np.column_stack([estimator.W_, estimator.b_])


def _draw_faces(axes: style.Axes, faces: NDArray[Any], limits: NDArray[Any]) -> None:
    """Draw each face that meets the picture as a line across it."""
    U, V = np.meshgrid(*limits)
    for k, (*w, b) in enumerate(faces):
        values = w[0] * U + w[1] * V + b
        if values.min() < 0.0 < values.max():
            colour = style.FACES[k % len(style.FACES)]
            draw_line(axes, np.array(w), b, color=colour, lw=1.1, zorder=2, label=f"face {k}")


_MIN_RING, _MAX_RING = 40.0, 260.0  # areas of the rings of the smallest and largest multiplier, in points²
_MULTIPLIER_TOL = 1e-6  # multipliers below this fraction of the largest cost are an interior point's zeros


def whitening(estimator: RelativeMarginMachine | SigmaSVM) -> Any:
    """Draw a picture of the metric in which a machine's margin is large, over its samples.

    On the left the support vector machine with the same C: its margin is Euclidean, and a circle lies
    between f = −1 and f = 1. On the right the machine itself: the samples at the bounds of a Relative Margin
    Machine give the metric I + Σ_λ (:mod:`formulations.rmm`, from eq. (5) and (6) of its paper). In this
    metric it is a support vector machine, and the ellipse ``d'(I + Σ_λ)^{-1} d = const`` lies between its
    margins. It is long in the directions in which these samples vary. They are ringed, the ring larger for a
    larger multiplier. The ellipse of a Sigma-SVM is that of (1 − D) I + D Σ.

    Both touch the lines f = ±1 of their panel: their size is the margin's, their shape the metric's.

    Parameters
    ----------
    estimator : RelativeMarginMachine or SigmaSVM
        With the linear kernel, fitted to two classes and two features.
    """
    _check(estimator)
    X, y = np.asarray(dense(estimator._X), dtype=float), estimator._y
    names = _class_names(estimator, None)
    x_name, y_name = _axis_names(None, estimator, None)
    svm = SVM(estimator.C, kernel="linear").fit(X, y, sample_weight=estimator._costs / estimator.C)
    centre, metric, title, formula = _metric(estimator, X)
    has_label = estimator._sample_weights > 0.0
    limits = plane_limits(X)
    with new_panels(7.2, 4.4, 1, 2, sharex=True, sharey=True) as (figure, grid):
        left, right = grid[0]
        for axes, machine, matrix, name, label in (
            (left, svm, np.eye(2), "Support vector machine", "circle: the metric $I$"),
            (right, estimator, metric, title, f"ellipse: the metric {formula}"),
        ):
            _draw_levels(axes, machine, limits)
            _draw_classes(axes, X[has_label], y[has_label], (-1.0, 1.0), names)
            axes.plot(*X[~has_label].T, ".", color=style.MUTED, ms=3, label="_without label", zorder=2)
            _draw_ball(axes, machine, centre, matrix, label, dotted=machine is svm)
            axes.set(title=name, xlabel=x_name)
            axes.set_aspect("equal")
        _draw_active_bounds(right, estimator, X)
        left.set(xlim=limits[0], ylim=limits[1], ylabel=y_name)
        draw_legend(figure, 4)
    return figure


def _check(estimator: Any) -> None:
    if not isinstance(estimator, RelativeMarginMachine | SigmaSVM):
        raise TypeError(
            "the picture is of a RelativeMarginMachine or a SigmaSVM, which have a metric; not of "
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


def _metric(estimator: Any, X: Array) -> tuple[Array, Array, str, str]:
    """Return the centre of the ellipse, its metric, the machine's title, and the metric's formula."""
    if isinstance(estimator, SigmaSVM):
        (mean, Sigma), D = moments(X, estimator._costs), float(estimator.D)
        return mean, (1.0 - D) * np.eye(2) + D * Sigma, f"Sigma-SVM, D = {D:.3g}", r"$(1 - D)\,I + D\,\Sigma$"
    mean, Sigma = bounding_spread(X, *_bound_multipliers(estimator), estimator.B)
    title = f"RMM, B = {estimator.B:.3g}" + ("" if Sigma.any() else ": no active bound")
    return mean, np.eye(2) + Sigma, title, r"$I + \Sigma_\lambda$"


def _draw_ball(
    axes: style.Axes, machine: Any, centre: Array, metric: Array, label: str, dotted: bool
) -> None:
    """Draw the ball of the margin's radius in the metric, around the boundary's point nearest to the centre.

    Distances in x are those of the inverse metric, which is dual to the metric of w.
    """
    w, b = machine.coef_[0], float(machine.intercept_[0])
    norm_sq = float(w @ metric @ w)
    if norm_sq == 0.0:
        return  # no hyperplane, and no margin
    middle = centre - (w @ centre + b) / norm_sq * (metric @ w)
    values, vectors = np.linalg.eigh(metric)
    angles = np.linspace(0.0, 2.0 * np.pi, 200)
    sphere = (vectors * np.sqrt(np.maximum(values, 0.0))) @ np.stack([np.cos(angles), np.sin(angles)])
    u, v = middle[:, None] + sphere / np.sqrt(norm_sq)
    axes.fill(u, v, color=style.MUTED, alpha=0.12, lw=0, zorder=1)
    axes.plot(u, v, color=style.INK, lw=1.3, ls=":" if dotted else "-", label=label, zorder=4)
    axes.plot(*middle, "+", color=style.INK, ms=6, zorder=4)


def _bound_multipliers(estimator: Any) -> tuple[Array, Array]:
    """Return the multipliers λ and λ* of the bounds, zero for a Sigma-SVM."""
    tol = _MULTIPLIER_TOL * float(estimator._costs.max())
    zeros = np.zeros_like(estimator._costs)
    values = (estimator.multipliers_.get(name, zeros) for name in ("bound_above", "bound_below"))
    lam, lam_star = (np.where(each > tol, each, 0.0) for each in values)
    return lam, lam_star


def _draw_active_bounds(axes: style.Axes, estimator: Any, X: Array) -> None:
    """Draw rings around the samples at the bounds."""
    lam, lam_star = _bound_multipliers(estimator)
    largest = max(float(lam.max()), float(lam_star.max()))
    looks = (lam, "λ: f = B", style.GREEN), (lam_star, "λ*: f = −B", style.PURPLE)
    for multiplier, label, colour in looks:
        active = multiplier > 0.0
        if active.any():
            areas = _MIN_RING + (_MAX_RING - _MIN_RING) * multiplier[active] / largest
            u, v = X[active].T
            axes.scatter(u, v, s=areas, facecolor="none", ec=colour, lw=1.4, zorder=5)
            axes.scatter([], [], s=60.0, facecolor="none", ec=colour, lw=1.4, label=label)
