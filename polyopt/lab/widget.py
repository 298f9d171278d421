"""The lab as a widget in Jupyter, VS Code and marimo: the same page, the same messages, no server."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polyopt.lab.engine import Engine
from polyopt.lab.sets import beginning, state_of
from polyopt.lab.state import machines, read_state
from polyopt.methods.registry import method_of

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise ImportError("polyopt.lab.Lab needs what is installed by: pip install 'polyopt[lab]'") from error


_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.-]+\.js)";\n?', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|const|let|class)", re.MULTILINE)


def bundle() -> str:
    """Return the page's script as one module, as a widget has no place from which it could import others.

    The modules that it imports stand before it, each once; their names are unique, so the words ``import``
    and ``export`` are all that has to go.
    """
    first, folder, parts, seen = "lab.js", resources.files("polyopt.lab") / "static", [], set()

    def add(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        text = (folder / name).read_text(encoding="utf-8")
        for found in _IMPORT.finditer(text):
            add(found[1])
        text = _IMPORT.sub("", text)
        parts.append(text if name == first else _EXPORT.sub("", text))

    add(first)
    return "\n".join(parts)


def style() -> str:
    """Return the page's style sheet."""
    return (resources.files("polyopt.lab") / "static" / "lab.css").read_text(encoding="utf-8")


class Lab(anywidget.AnyWidget):
    """Points that are drawn and dragged, and the program that they make, in a notebook.

    Parameters
    ----------
    points : array_like of shape (n, 3), optional
        Points and their labels, -1 or +1: what the lab begins with.
    estimator : estimator, optional
        A classifier of this package, fitted or not: its machine and settings are those to begin with.
    X : array_like of shape (n, 2), optional
        Points, in the place of `points`.
    y : array_like of shape (n,), optional
        Their labels, of two classes; the later one is +1.
    **settings
        Settings of the state: ``machine="cpm"``, ``method="sgd"``, ``seed=1``, or those of the machine, such
        as ``C=10.0``.

    Attributes
    ----------
    state : dict
        What is shown: points, machine, method, settings and seed.

    Raises
    ------
    ValueError
        Points, labels or settings that the lab does not take.
    """

    state = traitlets.Dict().tag(sync=True)
    height = traitlets.Int(640).tag(sync=True)

    def __init__(
        self, points: ArrayLike | None = None, *, estimator: Any = None, X: ArrayLike | None = None,
        y: ArrayLike | None = None, **settings: Any,
    ):  # fmt: skip
        height = settings.pop("height", 640)
        begin = _begin(_points(points, X, y), estimator, settings)
        self._engine = Engine(lambda message: self.send(message), begin)
        super().__init__(state=begin, height=height)
        self.on_msg(self._hear)

    def _hear(self, widget: object, content: object, buffers: object) -> None:
        self._engine.receive(content)

    @property
    def _esm(self) -> str:
        return bundle()

    @property
    def _css(self) -> str:
        return style()

    def close(self) -> None:
        """End the engine, and the widget."""
        if hasattr(self, "_engine"):  # which there is not where the constructor has refused
            self._engine.close()
        super().close()


def _points(points: ArrayLike | None, X: ArrayLike | None, y: ArrayLike | None) -> list[list[float]] | None:
    if (X is None) != (y is None) or (points is not None and X is not None):
        raise ValueError("give points, or X and y")
    if points is not None:
        table = np.asarray(points, dtype=float)
        if table.ndim != 2 or table.shape[1] != 3:
            raise ValueError(f"points must be of shape (n, 3): x, y and label; not {table.shape}")
        return [[u, v, int(label) if label in (-1, 1) else label] for u, v, label in table.tolist()]
    if X is None or y is None:
        return None
    plane, labels = np.asarray(X, dtype=float), np.asarray(y)
    if plane.ndim != 2 or plane.shape[1] != 2 or labels.shape != plane.shape[:1]:
        shapes = f"{plane.shape} and {labels.shape}"
        raise ValueError(f"X must be of shape (n, 2) and y of shape (n,), not {shapes}")
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) != 2:
        raise ValueError(f"y must be of two classes, not {len(classes)}")
    return [[u, v, 2 * int(code) - 1] for (u, v), code in zip(plane.tolist(), codes, strict=True)]


def _begin(points: list[list[float]] | None, estimator: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state to begin with, checked."""
    state = beginning() if points is None else state_of(points)
    settings = dict(given)
    if estimator is not None:
        method = method_of(estimator)
        if method is None:
            raise ValueError(f"estimator must be a classifier of polyopt, not a {type(estimator).__name__}")
        machine = next(one for one in machines().values() if one.method.home == method.home)
        told = estimator.get_params()
        shown = {}
        for name, one in machine.settings.items():
            value = told.get(name, one.default)
            of_data = one.tuned and (value in (None, math.inf) or isinstance(value, str))
            shown[name] = None if of_data else value
        state |= {"machine": machine.name, "method": told["solver"], "settings": shown}
    elif "machine" in settings:
        state |= {"machine": settings.pop("machine"), "settings": {}}
        state.pop("method")
    state |= {name: settings.pop(name) for name in ("method", "seed") if name in settings}
    state["settings"] = {**state["settings"], **settings}
    return read_state(state).told()
