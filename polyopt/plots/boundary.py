"""The decision boundary in two dimensions, with the levels that the program names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from polyopt.base.text import in_picture
from polyopt.plots.sheet import Drawn, Sheet
from polyopt.plots.style import CLASSES, FACES, GREEN, INK, styled
from polyopt.plots.subject import feature_names, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from polyopt.plots.sheet import Places

__all__ = ["decision_boundaries", "decision_boundary", "draw_classes", "draw_levels", "plane_limits"]


class Classifier(Protocol):
    """Interface that a picture needs of a fitted classifier."""

    classes_: NDArray[Any]

    def decision_function(self, X: NDArray[Any], /) -> NDArray[Any]:
        """Its scores, whose sign tells the class."""


def decision_boundary(
    estimator: Classifier,
    X: ArrayLike,
    y: ArrayLike,
    *,
    axis_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Drawn:
    """Picture of a binary classifier of two features.

    The boundary f = 0 and the margins f = ±1; for a finite B the bounds f = ±B; for a polytope each
    of its faces as a line. The samples that carry the solution are ringed.

    Parameters
    ----------
    estimator : estimator
        Fitted to X and y.
    X : array_like of shape (n, 2)
        Its training samples, such as a frame; its columns are found by name.
    y : array_like of shape (n,)
        Their labels.
    axis_names : sequence of str, optional
        Names of the two features; by default those of the fit or of the frame, else x₁ and x₂.
    class_names : sequence of str, optional
        Names of the two classes; their labels by default.
    title : str
        Title of the picture.
    ax : Axes or array of Axes, optional
        Where to draw: axes; a new figure by default.

    Returns
    -------
    Figure or Axes
        A new figure, which a notebook shows; or what was given as `ax`.

    Raises
    ------
    ValueError
        Data that are not of two features, or not of two classes.
    """
    data, labels = _checked(X, y, estimator)
    across, up = _axis_names(axis_names, estimator, X)
    with styled():
        sheet = Sheet(ax, 5.0, 4.6)
        axes = sheet.axes()
        _draw(axes, estimator, data, labels, _names(estimator, class_names))
        axes.set(xlabel=across, ylabel=up, title=title)
        sheet.legend(3)
    return sheet.drawn


def decision_boundaries(
    estimators: Mapping[str, Classifier],
    X: ArrayLike,
    y: ArrayLike,
    *,
    axis_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    ax: Places | None = None,
) -> Drawn:
    """Pictures of several binary classifiers of the same two features, three in a row.

    Parameters
    ----------
    estimators : mapping of str to estimator
        Each with its title, fitted to X and y.
    X, y, axis_names, class_names
        As in :func:`decision_boundary`.
    ax : Axes or array of Axes, optional
        Where to draw: axes for each panel, or one whose place they share; a new figure by default.

    Returns
    -------
    Figure or Axes
        A new figure, which a notebook shows; or what was given as `ax`.

    Raises
    ------
    ValueError
        No estimator; data that are not of two features, or not of two classes.
    """
    if not estimators:
        raise ValueError("estimators must have at least one entry")
    across, up = _axis_names(axis_names, next(iter(estimators.values())), X)
    rows, columns = -(-len(estimators) // 3), min(3, len(estimators))
    with styled():
        sheet = Sheet(ax, 3.2 * columns, 3.1 * rows + 0.3)
        panels = sheet.grid(rows, columns, sharex=True, sharey=True)
        for axes, (title, estimator) in zip(panels.ravel(), estimators.items(), strict=False):
            data, labels = _checked(X, y, estimator)
            _draw(axes, estimator, data, labels, _names(estimator, class_names))
            axes.set(title=title)
        for axes in panels.ravel()[len(estimators) :]:
            axes.set_visible(False)
        for axes in panels[:, 0]:
            axes.set(ylabel=up)
        for axes in panels[-1]:
            axes.set(xlabel=across)
        sheet.legend(5)
    return sheet.drawn


def _checked(X: ArrayLike, y: ArrayLike, estimator: Classifier) -> tuple[NDArray[Any], NDArray[Any]]:
    data, labels = values_of(X, feature_names(estimator)), np.asarray(y)
    if data.ndim != 2 or data.shape[1] != 2:
        raise ValueError(f"a picture of the boundary needs two features; X has shape {data.shape}")
    if len(estimator.classes_) != 2:
        raise ValueError(f"a picture of the boundary needs two classes, not {len(estimator.classes_)}")
    return data, labels


def _axis_names(given: Sequence[str] | None, estimator: Classifier, X: ArrayLike) -> tuple[str, str]:
    across, up = given or feature_names(estimator, X) or ("x₁", "x₂")
    return in_picture(across), in_picture(up)


def _names(estimator: Classifier, class_names: Sequence[str] | None) -> list[str]:
    given = estimator.classes_ if class_names is None else class_names
    return [in_picture(str(name)) for name in given]


def _draw(axes: Axes, estimator: Classifier, X: NDArray[Any], y: NDArray[Any], names: list[str]) -> None:
    """Boundary, levels, faces and samples of one classifier."""
    limits = plane_limits(X)
    draw_levels(axes, estimator, limits)
    if len(_faces(estimator)) > 1:
        _draw_faces(axes, _faces(estimator), limits)
    draw_classes(axes, X, y, estimator.classes_, names)
    support = getattr(estimator, "support_", np.empty(0, dtype=int))
    if len(support):
        u, v = X[support].T
        axes.scatter(
            u, v, s=42, facecolor="none", ec=INK, lw=0.6, alpha=0.8, label="support vector", zorder=4
        )
    axes.set(xlim=limits[0], ylim=limits[1])


def plane_limits(X: NDArray[Any]) -> NDArray[Any]:
    """The limits of a picture of samples in two dimensions: a row (low, high) for each axis."""
    low, high = X.min(axis=0), X.max(axis=0)
    pad = 0.06 * np.maximum(high - low, 1e-9)
    return np.column_stack([low - pad, high + pad])


def draw_classes(
    axes: Axes, X: NDArray[Any], y: NDArray[Any], labels: ArrayLike, names: Sequence[str]
) -> None:
    """The samples of both classes, each with its colour and marker."""
    for label, name, (colour, marker) in zip(np.asarray(labels), names, CLASSES, strict=True):
        u, v = X[y == label].T
        axes.scatter(u, v, s=20, c=colour, marker=marker, lw=0.3, ec="white", label=name, zorder=3)


def draw_levels(axes: Axes, estimator: Classifier, limits: NDArray[Any]) -> None:
    """The two sides as tints, and the lines f = 0, ±1, ±B."""
    u, v = (np.linspace(low, high, 240) for low, high in limits)
    U, V = np.meshgrid(u, v)
    f = estimator.decision_function(_as_fitted(estimator, np.column_stack([U.ravel(), V.ravel()])))
    f = f.reshape(U.shape)
    tints = [colour for colour, _ in CLASSES]
    axes.contourf(U, V, f, levels=[-np.inf, 0.0, np.inf], colors=tints, alpha=0.09)
    B = float(getattr(estimator, "B", np.inf))
    polytope = len(_faces(estimator)) > 1
    families: list[tuple[tuple[float, ...], str, str, float, str]]
    families = [((0.0,), INK, "-", 2.0 if polytope else 1.5, "f = 0")]
    families.append(((-1.0, 1.0), INK, "--", 0.9, "f = ±1"))
    if np.isfinite(B):
        families.append(((-B, B), GREEN, "-.", 1.3, f"f = ±B = ±{B:.3g}"))
    for levels, colour, line, width, label in families:
        axes.plot([], [], color=colour, linestyle=line, linewidth=width, label=label)
        if f.min() < max(levels) and f.max() > min(levels):
            axes.contour(
                U, V, f, levels=sorted(set(levels)), colors=colour, linestyles=line, linewidths=width
            )


def _as_fitted(estimator: Classifier, points: NDArray[Any]) -> Any:
    """Points as a frame, if the estimator was fitted to one."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return points
    import pandas as pd

    return pd.DataFrame(points, columns=names)


def _faces(estimator: Classifier) -> NDArray[Any]:
    """Rows (w, b) of the hyperplanes of a polytope; none for other classifiers."""
    if not (hasattr(estimator, "W_") and hasattr(estimator, "b_")):
        return np.empty((0, 3))
    return np.column_stack([estimator.W_, estimator.b_])


def _draw_faces(axes: Axes, faces: NDArray[Any], limits: NDArray[Any]) -> None:
    """Each face as a line across the picture; one that misses the picture is left out."""
    U, V = np.meshgrid(*limits)
    for k, (w1, w2, b) in enumerate(faces):
        values = w1 * U + w2 * V + b
        if values.min() < 0.0 < values.max():
            colour = FACES[k % len(FACES)]
            axes.contour(U, V, values, levels=[0.0], colors=colour, linewidths=1.1, zorder=2)
            axes.plot([], [], color=colour, linewidth=1.1, label=f"face {k}")
