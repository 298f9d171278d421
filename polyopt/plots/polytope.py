"""Pictures of a learnt polytope: pairwise slices of a high-dimensional one, and the plane in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.plots.faces import TINT, draw_body, face_handles, handle
from polyopt.plots.scene import Scene
from polyopt.plots.sheet import Drawn, Sheet
from polyopt.plots.style import CLASSES, INK, styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from formulations.matrices import Array
    from polyopt.plots.sheet import Places
    from polyopt.polytope import Polytope

__all__ = ["polytope_plane", "polytope_slices"]

_PANEL = 2.1  # inches
_GRID = 400  # points of each axis at which faces are told apart
_MANY = 2000  # samples above which a picture holds pixels: as shapes they make it slow to open


def polytope_slices(
    model: object,
    X: ArrayLike,
    y: ArrayLike,
    *,
    features: Sequence[int | str] | None = None,
    at: str | ArrayLike = "inside",
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    title: str = "",
    ax: Places | None = None,
) -> Drawn:
    """Slices through a polytope, one for each pair of the chosen features.

    In a slice two features vary and all others are held at one point, the cross. The faces are lines, thick
    where they bound the polytope; its inside is tinted. The samples are projected onto each slice and
    fade with their distance from it, counted in standard deviations of the features held: the boldest
    tenth are the samples of which the slice tells most.

    Parameters
    ----------
    model : estimator or Polytope
        Fitted binary estimator with faces ``W_`` and ``b_``, or a polytope.
    X : array_like of shape (n, m)
        Samples.
    y : array_like of shape (n,)
        Their labels, of two classes.
    features : sequence of int or str, optional
        Two or more features, by number or name; by default the four whose terms weigh most in the faces,
        each face counting by the samples that it answers for.
    at : {"inside", "median", "chebyshev"} or array_like of shape (m,)
        Where the other features are held: the median of the samples inside, the median of all, the
        centre of the largest ball inside, each feature counted in standard deviations, within the range
        of the data; or a point.
    feature_names : sequence of str, optional
        Names of the m features; by default those of the polytope.
    class_names : sequence of str, optional
        Names of the two classes, in the order of the sorted labels; by default the labels.
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
        Data of another width or number of classes, or features or a point that are not there.
    """
    scene = Scene(model, X, y, feature_names, class_names)
    chosen = scene.pick(features)
    point = scene.point(at)
    wanted = len(chosen) - 1
    with styled():
        sheet = Sheet(ax, _PANEL * wanted + 0.9 + (2.2 if wanted == 1 else 0.0), _PANEL * wanted + 0.9)
        grid = sheet.grid(wanted, wanted, sharex="col", sharey="row")
        drawn: set[int] = set()
        for row in range(wanted):
            for column in range(wanted):
                axes = grid[row, column]
                if column > row:
                    axes.set_axis_off()
                    continue
                pair = (chosen[column], chosen[row + 1])
                drawn |= _draw_slice(axes, scene, pair, point)
                if row == wanted - 1:
                    axes.set_xlabel(scene.names[pair[0]])
                if column == 0:
                    axes.set_ylabel(scene.names[pair[1]])
        sheet.figure.align_ylabels(grid[:, 0])
        sheet.title(title)
        extras = [handle("where all slices meet", ls="", marker="+", color=INK, ms=8)]
        if scene.polytope.n_features > 2:
            extras.append(handle("faint: far from the slice", ls=""))
        handles = face_handles(scene, sorted(drawn)) + extras
        if wanted == 1:
            sheet.legend(1, handles, beside=True)
        else:
            legend = grid[0, -1].legend(handles=handles, loc="upper right", borderaxespad=0.0)
            legend.set_in_layout(sheet.is_new)
    return sheet.drawn


def polytope_plane(
    model: object,
    X: ArrayLike,
    y: ArrayLike,
    *,
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Drawn:
    """A polytope of two features in full: corners, largest ball inside, and which face answers where.

    Every point of the plane outside has the tint of the face that answers for it, the face of the largest
    score, and samples there have its colour; samples inside have the colour of the class inside. A
    sample's marker is its class, hollow where it is on the wrong side.

    Parameters
    ----------
    model, X, y, feature_names, class_names, title
        As in :func:`polytope_slices`, of two features.
    ax : Axes or array of Axes, optional
        Where to draw: axes; a new figure by default.

    Returns
    -------
    Figure or Axes
        A new figure, which a notebook shows; or what was given as `ax`.

    Raises
    ------
    ValueError
        Data of another width or number of classes, or a polytope of other than two features.
    """
    scene = Scene(model, X, y, feature_names, class_names)
    polytope = scene.polytope
    if polytope.n_features != 2:
        raise ValueError(
            f"a picture of the plane needs two features, and the polytope has {polytope.n_features}; "
            "polytope_slices shows pairs of them"
        )
    with styled():
        sheet = Sheet(ax, 6.2, 4.4)
        axes = sheet.axes()
        low, high = scene.limits((0, 1))
        _draw_regions(axes, scene, low, high)
        drawn = draw_body(axes, scene, polytope, low, high)
        outside = ~polytope.contains(scene.X)
        answers = polytope.active_face(scene.X)
        drawn |= set(answers[outside].tolist())
        colours = np.where(outside, [scene.look(k)[0] for k in answers], scene.inner_colour)
        wrong = outside != (scene.y == scene.outer_label)
        for label, (_, marker) in zip(scene.classes, CLASSES, strict=True):
            for mine, full in ((scene.y == label) & ~wrong, True), ((scene.y == label) & wrong, False):
                u, v = scene.X[mine].T
                fill, edge = (colours[mine], "white") if full else ("white", colours[mine])
                axes.scatter(u, v, s=19, c=fill, ec=edge, marker=marker, lw=0.4 if full else 1.0, zorder=3)
        extras = _draw_ball_and_corners(axes, polytope, low, high)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), title=title)
        axes.set(xlabel=scene.names[0], ylabel=scene.names[1])
        handles = face_handles(scene, sorted(drawn), by_face=True) + extras
        sheet.legend(1, handles, beside=True)
    return sheet.drawn


def _draw_slice(axes: Axes, scene: Scene, pair: tuple[int, int], point: Array) -> set[int]:
    """One panel; the faces that bound the polytope in it."""
    section = scene.polytope.section(pair, point)
    low, high = scene.limits(pair)
    drawn = draw_body(axes, scene, section, low, high)
    held = np.setdiff1d(np.arange(len(point)), pair)
    away = np.sqrt((((scene.X[:, held] - point[held]) / scene.spread[held]) ** 2).sum(axis=1))
    rank = np.argsort(np.argsort(away, kind="stable")) / len(away)  # 0 nearest, 1 farthest
    strength = 0.9 * np.exp(-2.6 * rank) if len(held) else np.full(len(away), 0.85)
    order = np.argsort(-rank, kind="stable")
    for label, (colour, marker) in zip(scene.classes, CLASSES, strict=True):
        mine = order[scene.y[order] == label]
        u, v = scene.X[mine][:, pair].T
        many = len(mine) > _MANY  # too many for a vector picture
        shade = strength[mine]
        axes.scatter(u, v, s=11, c=colour, alpha=shade, marker=marker, lw=0, zorder=3, rasterized=many)
    axes.plot(*point[list(pair)], "+", color=INK, ms=8, mew=1.3, zorder=5)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.locator_params(nbins=4)
    return drawn


def _draw_regions(axes: Axes, scene: Scene, low: Array, high: Array) -> None:
    """Outside, the tint of the face that answers."""
    from matplotlib.colors import to_rgba

    polytope = scene.polytope
    u, v = (np.linspace(low[j], high[j], _GRID) for j in (0, 1))
    points = np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2)
    answers = polytope.active_face(points)
    looks = np.array([to_rgba(scene.look(k)[0], 1.6 * TINT) for k in range(polytope.n_faces)])
    image = looks[answers]
    image[polytope.contains(points), 3] = 0.0
    axes.imshow(
        image.reshape(_GRID, _GRID, 4), origin="lower", aspect="auto", zorder=0,
        extent=(low[0], high[0], low[1], high[1]), interpolation="nearest",
    )  # fmt: skip


def _draw_ball_and_corners(axes: Axes, polytope: Polytope, low: Array, high: Array) -> list[Artist]:
    """Their entries in the legend."""
    from matplotlib.patches import Circle

    if polytope.is_empty or polytope.is_flat:
        return []
    handles = []
    part = polytope if polytope.is_bounded else polytope.within(low, high)
    corners, on = part.vertices(), part.faces_of_vertices()
    own = on[:, : polytope.n_faces].sum(axis=1) >= 2  # not those that the picture's frame cuts
    look: dict[str, Any] = {"color": "white", "mec": INK, "mew": 1.1, "ms": 5, "ls": "", "marker": "o"}
    if own.any():
        axes.plot(*corners[own].T, **look, zorder=6)
        handles.append(handle("corner", **look))
    ball = polytope.chebyshev()
    if np.isfinite(ball.radius):
        dashes, (x, y) = (0, (4, 3)), ball.centre
        axes.add_patch(Circle((x, y), ball.radius, fill=False, ec=INK, lw=1.0, ls=dashes, zorder=4))
        axes.plot(*ball.centre, "+", color=INK, ms=8, mew=1.3, zorder=5)
        handles.append(handle("largest ball inside", color=INK, ls=dashes, lw=1.0))
    return handles
