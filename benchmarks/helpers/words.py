"""How a status or a claim is called in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enum import Enum

__all__ = ["word_of"]


def word_of(end: Enum) -> str:
    """Its name in small letters."""
    return end.name.lower().replace("_", " ")
