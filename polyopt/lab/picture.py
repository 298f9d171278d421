"""A solved state as a picture: values on a grid, faces, and the numbers of points and certificate."""

import base64
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyopt.lab.fitting import Fitted, status_of
from polyopt.lab.samples import Rows, active_faces

View = tuple[float, float, float, float]

MAX_NODES = 200


def read_grid(grid: Any) -> tuple[int, int] | None:
    """Check a client's grid: two whole numbers, or None for no grid."""
    if grid is None:
        return None
    if not isinstance(grid, (list, tuple)) or len(grid) != 2 or any(type(k) is not int for k in grid):
        raise ValueError("grid must be two whole numbers")
    if not all(2 <= k <= MAX_NODES for k in grid):
        raise ValueError(f"grid must be two numbers from 2 to {MAX_NODES}")
    return grid[0], grid[1]


def picture(fitted: Fitted, view: View, grid: tuple[int, int] | None) -> dict[str, Any]:
    """Describe a solved state."""
    start = time.perf_counter()
    rows = Rows(fitted)
    shown = {
        "kind": "picture", "state": fitted.state.to_dict(**fitted.shown_settings), "tuned": fitted.tuned,
        "title": fitted.method.title_for(fitted.settings), "stopped": fitted.is_stopped,
        "status": status_of(fitted), "solver": fitted.estimator.solver_,
        "iterations": int(fitted.estimator.n_iter_), "warnings": list(fitted.warnings),
        "samples": rows.samples(), "families": rows.families(), "certificate": fitted.certificate.to_dict(),
        **drawing(fitted, view, grid),
    }  # fmt: skip
    return {**shown, "seconds": fitted.seconds + time.perf_counter() - start}


def drawing(fitted: Fitted, view: View, grid: tuple[int, int] | None) -> dict[str, Any]:
    """Return the drawing under the points: values on a grid, lines, faces, and levels of the program."""
    estimator = fitted.estimator
    coef = getattr(estimator, "coef_", None)
    return {
        "view": list(view),
        "grid": None if grid is None else _grid(fitted, view, *grid),
        "levels": _levels(fitted),
        "line": None if coef is None else {"w": coef[0].tolist(), "b": float(estimator.intercept_[0])},
        "faces": _faces(fitted),
        "inside": getattr(estimator, "inside_label_", None) if fitted.method.has_faces else None,
    }


def _grid(fitted: Fitted, view: View, nx: int, ny: int) -> dict[str, Any]:
    x0, x1, y0, y1 = view
    U, V = np.meshgrid(np.linspace(x0, x1, nx), np.linspace(y0, y1, ny))
    nodes = np.column_stack([U.ravel(), V.ravel()])
    values = np.asarray(fitted.estimator.decision_function(nodes), dtype=float)
    values = np.nan_to_num(np.clip(values, -1e30, 1e30))  # in the range of float32
    polytopes = _polytopes(fitted)
    cells = None
    if len(polytopes) == 1 and polytopes[0][0].shape[0] <= 255:  # a cell is a byte
        W, b = polytopes[0]
        cells = _base64((nodes @ W.T + b).argmax(axis=1).astype("<u1"))
    return {"nx": nx, "ny": ny, "values": _base64(values.astype("<f4")), "cells": cells}


def _base64(values: NDArray[Any]) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")


def _polytopes(fitted: Fitted) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return normals, pointing outside, and offsets of each polytope."""
    if not fitted.method.has_faces:
        return []
    polytopes = getattr(fitted.estimator, "polytopes_", None)
    if polytopes is None:
        polytopes = [fitted.estimator.polytope_]
    return [(np.asarray(polytope.W), np.asarray(polytope.b)) for polytope in polytopes]


def _faces(fitted: Fitted) -> list[dict[str, Any]]:
    polytopes = _polytopes(fitted)
    active = active_faces(fitted.estimator, len(fitted.state.y))
    total = sum(len(b) for _, b in polytopes)
    counts = np.bincount(active[(active >= 0) & (active < total)], minlength=total)
    faces: list[dict[str, Any]] = []
    for piece, (W, b) in enumerate(polytopes):
        for w, offset in zip(W, b, strict=True):
            k = len(faces)
            face = {"k": k, "piece": piece, "w": w.tolist(), "b": float(offset), "answers": int(counts[k])}
            faces.append(face)
    return faces


def _levels(fitted: Fitted) -> list[dict[str, Any]]:
    """Return the levels of f that are drawn: 0, the margins, the bounds."""
    levels: list[dict[str, Any]] = [{"value": 0.0, "name": "boundary"}]
    states = fitted.duals["state"].astype(str)
    if not fitted.method.has_faces or states.str.contains("margin").any():
        levels += [{"value": value, "name": "margin"} for value in (1.0, -1.0)]
    B = float(getattr(fitted.estimator, "B", np.inf))
    if np.isfinite(B):
        levels += [{"value": value, "name": "bound"} for value in (B, -B)]
    return levels
