"""The five papers, a chapter each: what they claim and what we see, and where everything in them is.

:mod:`benchmarks.papers.chapter` says what a chapter is made of. The chapters are ``rmm``, ``cross_entropy``,
``polyceptron``, ``cpm`` and ``plume``. Every figure is read from the kept tables; nothing is typed.
"""

from __future__ import annotations

from benchmarks.papers import cpm, cross_entropy, plume, polyceptron, rmm
from benchmarks.papers.chapter import Chapter

__all__ = ["CHAPTERS"]

CHAPTERS: dict[str, Chapter] = {
    "rmm": rmm.CHAPTER,
    "cross_entropy": cross_entropy.CHAPTER,
    "polyceptron": polyceptron.CHAPTER,
    "cpm": cpm.CHAPTER,
    "plume": plume.CHAPTER,
}
