"""The mathematics: every program in the notation of its paper, primal and dual side by side.

A family of programs is a module of this package with a function ``pairs(seed)``, which states its programs on
small random data. Each runs by itself (``python -m formulations.rmm``) and prints its programs and their
demonstration.

Everywhere X (n, m) are the samples, an array or a CSR matrix, y (n,) their labels -1 and +1, C the cost of
slack, one number or one per sample, and K in its place (n, n) a Gram matrix. Of machines of several faces K
is their number, ``n_faces``, and the assignment (n,) says which face answers for a sample.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

__all__ = ["FAMILIES", "family"]

FAMILIES: tuple[str, ...]
"""The families, by the alphabet; their modules are imported when it is asked for."""


def __getattr__(name: str) -> Any:
    if name != "FAMILIES":
        raise AttributeError(f"module 'formulations' has no attribute {name!r}")
    globals()[name] = tuple(each for each in _modules() if _is_family(each))
    return globals()[name]


def family(name: str) -> ModuleType:
    """The module of a family, imported when asked for.

    Parameters
    ----------
    name : str
        One of :data:`FAMILIES`; a hyphen may stand for the underscore.
    """
    name = name.replace("-", "_")
    if name not in _modules() or not _is_family(name):
        raise ValueError(f"the families are {', '.join(__getattr__('FAMILIES'))}, not {name!r}")
    return import_module(f"formulations.{name}")


def _modules() -> list[str]:
    return sorted(info.name for info in iter_modules(__path__))


def _is_family(name: str) -> bool:
    return hasattr(import_module(f"formulations.{name}"), "pairs")
