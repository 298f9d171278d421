"""The lab as a widget in Jupyter, VS Code and marimo: the same page, the same messages, no server."""

import re
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polyopt.lab.engine import Engine
from polyopt.lab.sets import beginning, state_of
from polyopt.lab.state import read_state

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise ImportError("polyopt.lab.Lab needs what is installed by: pip install 'polyopt[lab]'") from error


_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.-]+\.js)";\n?', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|const|let|class)", re.MULTILINE)


def bundle() -> str:
    """Return the page's script as one module, as a widget cannot import others.

    The imported modules precede it, each once. Their names are unique, so only the words ``import`` and
    ``export`` are removed.
    """
    first, folder, parts, seen = "lab.js", resources.files("polyopt.lab") / "static", [], set()

    def add(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        text = (folder / name).read_text(encoding="utf-8")
        for imported in _IMPORT.finditer(text):
            add(imported[1])
        text = _IMPORT.sub("", text)
        parts.append(text if name == first else _EXPORT.sub("", text))

    add(first)
    return "\n".join(parts)


def style() -> str:
    """Return the page's style sheet."""
    return (resources.files("polyopt.lab") / "static" / "lab.css").read_text(encoding="utf-8")


class Lab(anywidget.AnyWidget):
    """Points that are drawn and dragged, and the program of these points, in a notebook.

    Parameters
    ----------
    points : array_like of shape (n, 3), optional
        Points and their labels, -1 or +1, to begin with.
    **settings
        Settings of the state: ``machine="cpm"``, ``method="sgd"``, ``seed=1``, or those of the machine, such
        as ``C=10.0``. Points, machine, method, settings and seed are the dict ``state``.
    """

    state = traitlets.Dict().tag(sync=True)
    height = traitlets.Int(640).tag(sync=True)

    def __init__(self, points: ArrayLike | None = None, **settings: Any):
        height = settings.pop("height", 640)
        begin = _begin(points, settings)
        self.engine = Engine(lambda message: self.send(message), begin)
        super().__init__(state=begin, height=height)
        self.on_msg(self.hear)

    def hear(self, widget: object, content: object, buffers: object) -> None:
        """Give a message of the page to the engine."""
        self.engine.receive(content)

    @property
    def _esm(self) -> str:
        return bundle()

    @property
    def _css(self) -> str:
        return style()

    def close(self) -> None:
        """End the engine, and the widget."""
        if hasattr(self, "engine"):  # not if the constructor has refused
            self.engine.close()
        super().close()


def _begin(points: ArrayLike | None, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the state to begin with, checked; keys of a state are taken out of the `settings`."""
    state = beginning()
    if points is not None:
        table = np.asarray(points, dtype=float)
        if table.ndim != 2 or table.shape[1] != 3:
            raise ValueError(f"points must be of shape (n, 3): x, y and label; not {table.shape}")
        state = state_of(table.tolist())
    if "machine" in settings:
        state |= {"machine": settings.pop("machine"), "settings": {}}
        state.pop("method")
    state |= {name: settings.pop(name) for name in ("method", "seed") if name in settings}
    state["settings"] = {**state["settings"], **settings}
    return read_state(state).to_dict()
