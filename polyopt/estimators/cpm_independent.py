"""The search trees of faces of few features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.solution import Solution

__all__ = ["trees_of"]


def trees_of(found: Solution) -> list[NDArray[Any]] | None:
    """The search trees of the faces, in order; None where there are none."""
    names = (f"tree_{k}" for k in range(len(found["W"])))
    return [found.duals[name] for name in names if name in found.duals] or None
