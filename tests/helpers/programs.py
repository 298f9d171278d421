"""Every printed program, stated once for all files that read them: stating takes a second."""

from __future__ import annotations

from formulations.catalogue import catalogue

__all__ = ["ENTRIES"]

ENTRIES = catalogue()
