"""Polytopes: slices through one, and the weights of its faces.

Slices show a :class:`Scene`: the polytope, the samples, and the looks of faces and classes, which are the
same in every panel.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from formulations.language.arguments import whole
from formulations.language.types import Array
from polyopt.base.text import cut_short, in_picture
from polyopt.explanations import ModelExplanation
from polyopt.explanations.model import FaceRole
from polyopt.plots import figure as style
from polyopt.plots.figure import draw_line, machine_of, new_panels, plane_limits, values_of
from polyopt.polytope import Polytope

_LINES = ("-", "--", "-.", ":")  # of faces beyond the number of colours
_INSIDE_OPACITY = 0.11
_MAX_LEGEND = 8  # faces in a legend
_MAX_FULL_LINES = 12  # faces whose lines are drawn across the picture; more would hide the inside
_MAX_CHARTS = 12  # faces with a bar chart
_GRID = 400  # points of each axis at which the regions of the faces are coloured


class Scene:
    """The polytope, the samples and their classes, and the looks of the faces, for all panels.

    `scale` are the standard deviations of the features, `n_assigned` the samples outside by face.
    """

    def __init__(self, model: object, X: ArrayLike, y: ArrayLike):
        polytope = model if isinstance(model, Polytope) else getattr(model, "polytope_", None)
        if polytope is None:
            raise ValueError(
                f"model must be a Polytope or a fitted binary estimator with faces, not {model!r}"
            )
        self.polytope: Polytope = polytope
        self.X, self.y = values_of(X, self.polytope.names), np.asarray(y)
        m = self.polytope.n_features
        if self.X.ndim != 2 or self.X.shape[1] != m:
            raise ValueError(f"X must be of shape (n, {m}) like the polytope, not {self.X.shape}")
        self.classes = np.unique(self.y)
        if len(self.classes) != 2:
            raise ValueError(f"y must be of two classes, not {len(self.classes)}")
        self.names = [in_picture(str(name)) for name in self.polytope.names]
        self.class_names = [in_picture(str(label)) for label in self.classes]
        self.scale = np.where(self.X.std(axis=0) > 0, self.X.std(axis=0), 1.0)
        outer = self._outer_class(model)
        self.inner_colour = style.CLASSES[1 - outer][0]
        self.inner_name = self.class_names[1 - outer]
        outside = self.X[~self.polytope.contains(self.X)]
        self.n_assigned = np.bincount(self.polytope.active_face(outside), minlength=self.polytope.n_faces)

    def look(self, face: int) -> tuple[str, str]:
        """Return colour and line style of a face."""
        return style.FACES[face % len(style.FACES)], _LINES[face // len(style.FACES) % len(_LINES)]

    def _outer_class(self, model: object) -> int:
        """Return the number of the class outside: the estimator's, or the one with fewer samples inside."""
        if hasattr(model, "outer_label_"):
            return int(np.argmax(self.classes == model.outer_label_))
        inside = self.polytope.contains(self.X)
        return int(np.argmin([inside[self.y == label].mean() for label in self.classes]))

    def pick(self, features: Sequence[int | str] | None) -> list[int]:
        """Return the numbers of chosen features, by default of the four with the largest weights."""
        if self.polytope.n_features < 2:
            raise ValueError("slices need two features, and the polytope has one")
        if features is None:
            weights = np.abs(self.polytope.W) * self.scale
            weights *= (self.n_assigned / np.maximum(weights.sum(axis=1), np.finfo(float).tiny))[:, None]
            return sorted(np.argsort(-weights.sum(axis=0), kind="stable")[:4].tolist())
        numbers = []
        for feature in features:
            if isinstance(feature, str) and feature not in self.names:
                raise ValueError(f"features has {feature!r}, which is none of {', '.join(self.names)}")
            number = self.names.index(feature) if isinstance(feature, str) else int(feature)
            if not 0 <= number < len(self.names):
                raise ValueError(f"features must be from 0 to {len(self.names) - 1}, not {number}")
            numbers.append(number)
        if len(numbers) < 2 or len(set(numbers)) < len(numbers):
            raise ValueError(f"features must be two or more different ones, not {list(features)!r}")
        return numbers

    def point(self, at: str | ArrayLike) -> Array:
        """Return the point with the values of the features that do not vary."""
        if not isinstance(at, str):
            point = np.asarray(at, dtype=float)
            if point.shape != (self.polytope.n_features,):
                raise ValueError(f"at must have {self.polytope.n_features} entries, not shape {point.shape}")
            return point
        inside = self.polytope.contains(self.X)
        if at == "inside" and inside.any():
            return np.asarray(np.median(self.X[inside], axis=0))
        if at in ("inside", "median"):
            return np.asarray(np.median(self.X, axis=0))
        raise ValueError(f"at must be 'inside', 'median' or a point, not {at!r}")


def polytope_slices(
    model: object, X: ArrayLike, y: ArrayLike, *, features: Sequence[int | str] | None = None,
    at: str | ArrayLike = "inside",
) -> Any:  # fmt: skip
    """Draw slices through a polytope, one for each pair of the chosen features.

    In a slice two features vary and all others are fixed at one point, the cross. Faces are lines, thick
    on the boundary of the polytope; its inside is tinted. Samples are projected onto each slice and fade
    with their distance from it, in standard deviations of the fixed features: the most opaque tenth are
    the samples nearest to the slice. A polytope of two features is shown in full: each point outside has the
    tint of its face, the one with the largest score.

    Parameters
    ----------
    model : estimator or Polytope
        Fitted binary estimator with a ``polytope_``, or a polytope.
    X, y : array_like of shape (n, m) and (n,)
        Samples, and their labels of two classes.
    features : sequence of int or str, optional
        Two or more features, by number or name; by default the four with the largest weights times
        standard deviations in the faces, each face weighted by the number of its samples.
    at : {"inside", "median"} or array_like of shape (m,)
        Values of the other features: the median of the samples inside, the median of all samples, or a point.
    """
    scene = Scene(model, X, y)
    chosen = scene.pick(features)
    point = scene.point(at)
    n = len(chosen) - 1
    with new_panels(
        2.1 * n + 0.9 + (2.2 if n == 1 else 0.0), 2.1 * n + 0.9, n, n, sharex="col", sharey="row"
    ) as (figure, grid):
        visible_faces: set[int] = set()
        for row in range(n):
            for column in range(n):
                axes = grid[row, column]
                if column > row:
                    axes.set_axis_off()
                    continue
                pair = (chosen[column], chosen[row + 1])
                visible_faces |= _draw_slice(axes, scene, pair, point)
                if row == n - 1:
                    axes.set_xlabel(scene.names[pair[0]])
                if column == 0:
                    axes.set_ylabel(scene.names[pair[1]])
        figure.align_ylabels(grid[:, 0])
        handles = _face_handles(scene, sorted(visible_faces))
        if scene.polytope.n_features > 2:
            handles.append(_handle("where all slices meet", ls="", marker="+", color=style.INK, ms=8))
            handles.append(_handle("faint: far from the slice", ls=""))
        if n == 1:
            figure.legend(handles=handles, loc="outside right upper")
        else:
            grid[0, -1].legend(handles=handles, loc="upper right", borderaxespad=0.0)
    return figure


def _draw_body(axes: style.Axes, scene: Scene, plane: Polytope, low: Array, high: Array) -> set[int]:
    """Draw the inside and the faces of a polytope in the plane; return the faces on its boundary."""
    part = plane.within(low, high)
    has_inside = not part.is_empty and not part.is_flat
    if has_inside:
        corners, incidence = part.vertices(), part.faces_of_vertices()
        axes.fill(*corners.T, color=scene.inner_colour, alpha=_INSIDE_OPACITY, lw=0, zorder=1)
    visible_faces = set()
    for k, (w, b) in enumerate(zip(plane.W, plane.b, strict=True)):
        colour, line = scene.look(k)
        if plane.n_faces <= _MAX_FULL_LINES:
            draw_line(axes, w, b, color=colour, lw=0.6, ls=line, alpha=0.45, zorder=2)
        if has_inside and incidence[:, k].sum() == 2:
            ends = corners[incidence[:, k]]
            axes.plot(*ends.T, color=colour, lw=2.2, ls=line, solid_capstyle="round", zorder=4)
            visible_faces.add(k)
    return visible_faces


def _face_handles(scene: Scene, faces: list[int]) -> list[Any]:
    """Return entries of the legend for classes and faces."""
    from matplotlib.patches import Patch

    handles = [
        _handle(name, ls="", marker=marker, color=colour, ms=4)
        for name, (colour, marker) in zip(scene.class_names, style.CLASSES, strict=True)
    ]
    inside = f"inside: {scene.inner_name}"
    handles.append(Patch(color=scene.inner_colour, alpha=2 * _INSIDE_OPACITY, lw=0, label=inside))
    largest = sorted(faces, key=lambda k: -scene.n_assigned[k])[:_MAX_LEGEND]
    for k in sorted(largest):
        colour, line = scene.look(k)
        handles.append(_handle(f"face {k}, {scene.n_assigned[k]} samples", color=colour, ls=line, lw=2.2))
    if len(faces) > _MAX_LEGEND:
        handles.append(_handle(f"and {len(faces) - _MAX_LEGEND} faces with fewer samples", ls=""))
    return handles


def _handle(label: str, **look: Any) -> Any:
    """Return an entry of a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **look)


def _draw_slice(axes: style.Axes, scene: Scene, pair: tuple[int, int], point: Array) -> set[int]:
    """Draw one panel, and return the faces on the boundary of the polytope in it."""
    section = scene.polytope.section(pair, point)
    low, high = plane_limits(scene.X[:, pair]).T
    visible_faces = _draw_body(axes, scene, section, low, high)
    fixed = np.setdiff1d(np.arange(len(point)), pair)
    if not len(fixed):
        visible_faces |= _draw_regions(axes, section, scene, low, high)
    distance = np.sqrt((((scene.X[:, fixed] - point[fixed]) / scene.scale[fixed]) ** 2).sum(axis=1))
    rank = np.argsort(np.argsort(distance, kind="stable")) / len(distance)  # 0 nearest, 1 farthest
    opacity = 0.9 * np.exp(-2.6 * rank) if len(fixed) else np.full(len(rank), 0.85)
    order = np.argsort(-rank, kind="stable")
    for label, (colour, marker) in zip(scene.classes, style.CLASSES, strict=True):
        samples = order[scene.y[order] == label]
        u, v = scene.X[samples][:, pair].T
        axes.scatter(
            u, v, s=11, c=colour, alpha=opacity[samples], marker=marker, lw=0, zorder=3,
            rasterized=len(samples) > style.MAX_SHAPES,
        )  # fmt: skip
    if len(fixed):
        axes.plot(*point[list(pair)], "+", color=style.INK, ms=8, mew=1.3, zorder=5)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.locator_params(nbins=4)
    return visible_faces


def _draw_regions(axes: style.Axes, polytope: Polytope, scene: Scene, low: Array, high: Array) -> set[int]:
    """Tint each point outside with the colour of its face; return the faces of the samples outside."""
    from matplotlib.colors import to_rgba

    u, v = (np.linspace(low[j], high[j], _GRID) for j in (0, 1))
    points = np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2)
    tints = np.array([to_rgba(scene.look(k)[0], 1.6 * _INSIDE_OPACITY) for k in range(polytope.n_faces)])
    image = tints[polytope.active_face(points)]
    image[polytope.contains(points), 3] = 0.0
    axes.imshow(
        image.reshape(_GRID, _GRID, 4), origin="lower", aspect="auto", zorder=0,
        extent=(low[0], high[0], low[1], high[1]), interpolation="nearest",
    )  # fmt: skip
    return set(np.flatnonzero(scene.n_assigned).tolist())


def face_weights(explanation: ModelExplanation | BaseEstimator, most: int = 6) -> Any:
    """Draw each face as a bar chart: weights of features times their standard deviations, the largest first.

    A large value of a feature is evidence for the outside if its bar is to the right, for the inside if its
    bar is to the left. Faces with the most samples come first, up to 12.

    Parameters
    ----------
    explanation : ModelExplanation or estimator
        The result of ``explain_model``, or a fitted machine, which is explained by the data of its fit.
    most : int
        Number of features of each face; the weight of the others stands below the bars.
    """
    machine = machine_of(explanation)
    if hasattr(machine, "explain_model"):
        explanation = machine.explain_model()
    if not hasattr(explanation, "faces"):
        kind = type(explanation).__name__
        raise TypeError(f"explanation must be one of explain_model, or a machine with faces, not {kind}")
    most = whole("most", most)
    roles = sorted(explanation.faces, key=lambda role: -role.active)[:_MAX_CHARTS]
    columns = min(2, len(roles))
    rows = -(-len(roles) // columns)
    deepest = min(most, max((len(role.weights) for role in roles), default=1)) or 1
    height = (0.2 * deepest + 0.85) * rows
    with new_panels(3.6 * columns, height, rows, columns) as (figure, panels):
        grid = panels.ravel()
        limit = 1.05 * max((abs(weight) for role in roles for _, weight in role.weights), default=1.0)
        for axes, role in zip(grid, roles, strict=False):
            is_union = explanation.model.kind != "polytope"
            name = f"{role.name[0]}.{role.name[1]}" if is_union else role.name[1]
            _draw_weights(axes, role, most, limit, f"face {name}")
        for axes in grid[len(roles) :]:
            axes.set_axis_off()
    return figure


def _draw_weights(axes: style.Axes, role: FaceRole, most: int, limit: float, name: str) -> None:
    """Draw the bars of one face, on an axis from -limit to limit."""
    shown, hidden = role.weights[:most], role.weights[most:]
    y = np.arange(len(shown))
    weights = np.array([weight for _, weight in shown])
    axes.barh(
        y, weights, color=[style.ORANGE if weight > 0 else style.BLUE for weight in weights], height=0.7
    )
    axes.set_yticks(y, [in_picture(cut_short(text, 22)) for text, _ in shown])
    axes.invert_yaxis()
    axes.axvline(0.0, color=style.MUTED, lw=0.8)
    axes.set_xlim(-limit, limit)
    axes.tick_params(labelsize=7.5, length=0)
    axes.set_title(f"{name}, {role.active} samples", fontsize=9)
    if hidden:
        total = sum(abs(weight) for _, weight in role.weights)
        rest = sum(abs(weight) for _, weight in hidden) / total
        text = f"{len(hidden)} others have {100 * rest:.0f} % of the weight"
        axes.set_xlabel(text, fontsize=7.5, color=style.MUTED)
