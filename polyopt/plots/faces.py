"""A polytope in the plane: its inside, its faces, and what a legend says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.plots.style import CLASSES, MUTED

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from formulations.matrices import Array
    from polyopt.plots.scene import Scene
    from polyopt.polytope import Polytope

__all__ = ["TINT", "draw_body", "face_handles", "handle"]

TINT = 0.11
_CROWD = 12  # faces up to which each is drawn across the picture, not only where it bounds the inside
_NAMED = 8  # faces that a legend has room for


def draw_body(axes: Axes, scene: Scene, plane: Polytope, low: Array, high: Array) -> set[int]:
    """Tint and faces of a polytope in the plane; the faces that bound it in the picture."""
    part = plane.within(low, high)
    if not part.is_empty and not part.is_flat:
        axes.fill(*part.vertices().T, color=scene.inner_colour, alpha=TINT, lw=0, zorder=1)
    drawn = set()
    for k in range(plane.n_faces):
        colour, line = scene.look(k)
        across = _segment(plane, k, low, high, others=False)
        if across is None:
            continue
        if plane.n_faces <= _CROWD:
            axes.plot(*across.T, color=colour, lw=0.6, ls=line, alpha=0.45, zorder=2)
        edge = _segment(plane, k, low, high, others=True)
        if edge is not None:
            axes.plot(*edge.T, color=colour, lw=2.2, ls=line, solid_capstyle="round", zorder=4)
            drawn.add(k)
    return drawn


def _segment(plane: Polytope, face: int, low: Array, high: Array, *, others: bool) -> Array | None:
    """The part of a face's line within the picture, and if so asked within the other faces."""
    unit = high - low
    w, b = plane.W[face] * unit, plane.b[face] + plane.W[face] @ low  # the picture is [0, 1]²
    size = float(np.hypot(*w))
    if not size:
        return None
    start, along = -b * w / size**2, np.array([-w[1], w[0]]) / size
    rows = [np.vstack([np.eye(2), -np.eye(2)]), np.array([-1.0, -1.0, 0.0, 0.0])]
    if others:
        rest = np.arange(plane.n_faces) != face
        rows = [
            np.vstack([rows[0], plane.W[rest] * unit]),
            np.append(rows[1], plane.b[rest] + plane.W[rest] @ low),
        ]
    slope, room = rows[0] @ along, -(rows[0] @ start + rows[1])
    flat = np.abs(slope) <= 1e-12 * np.linalg.norm(rows[0], axis=1)
    if np.any(room[flat] < -1e-9):
        return None
    steps = room[~flat] / slope[~flat]
    first, last = steps[slope[~flat] < 0].max(), steps[slope[~flat] > 0].min()
    if last - first <= 1e-6:
        return None
    return low + unit * (start + np.array([[first], [last]]) * along)


def face_handles(scene: Scene, faces: list[int], *, by_face: bool = False) -> list[Artist]:
    """Entries of the legend for the classes and the faces; where colour tells the face, markers are grey."""
    from matplotlib.patches import Patch

    handles = [
        handle(name, ls="", marker=marker, color=MUTED if by_face else colour, ms=4)
        for name, (colour, marker) in zip(scene.class_names, CLASSES, strict=True)
    ]
    if by_face:
        handles.append(handle("on the wrong side", ls="", marker="o", color="white", mec=MUTED, ms=4))
    inside = f"inside: {scene.inner_name}"
    handles.append(Patch(color=scene.inner_colour, alpha=2 * TINT, lw=0, label=inside))
    busiest = sorted(faces, key=lambda k: -scene.answers[k])[:_NAMED]
    for k in sorted(busiest):
        colour, line = scene.look(k)
        handles.append(handle(f"face {k}, answers for {scene.answers[k]}", color=colour, ls=line, lw=2.2))
    if len(faces) > _NAMED:
        handles.append(handle(f"and {len(faces) - _NAMED} faces that answer for fewer", ls=""))
    return handles


def handle(label: str, **look: Any) -> Artist:
    """An entry of a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **look)
