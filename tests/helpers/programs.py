"""Every printed program, stated once for all files that read them: stating takes a second."""

from __future__ import annotations

from polyopt.methods.programs import entries

__all__ = ["ENTRIES"]

ENTRIES = entries()
