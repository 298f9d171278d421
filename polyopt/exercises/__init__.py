"""Exercises that check themselves: ``from polyopt.exercises import rmm_3; rmm_3.check(answer)``.

Each has a ``task``, a ``hint``, ``data``, a ``solution``, and ``check``, which says whether an answer is
right, or how it is wrong. ``exercises()`` has all of them by chapter: ``exercise`` says what one is, and then
``svm``, ``rmm``, ``cpm``, ``polyceptron``, ``l0``, ``plume`` and ``certificates`` are the chapters.
"""

from importlib import import_module
from typing import Any

__all__ = ["CHAPTERS", "exercises"]

CHAPTERS = {
    "svm": "Optimisation for classifiers",
    "rmm": "Relative Margin Machines",
    "cpm": "The Convex Polytope Machine",
    "polyceptron": "The Polyceptron",
    "l0": "Few support vectors",
    "plume": "PLUME",
    "certificates": "Certificates",
}
"""The chapters, and what they are about."""


def exercises() -> dict[str, Any]:
    """Return all exercises by name, in their order."""
    return {name: exercise for chapter in CHAPTERS for name, exercise in _of(chapter).items()}


def _of(chapter: str) -> dict[str, Any]:
    return dict(import_module(f"polyopt.exercises.{chapter}").EXERCISES)


def __getattr__(name: str) -> Any:
    stem = name.rpartition("_")[0]
    for chapter in CHAPTERS if stem else ():
        if stem in (chapter, chapter.removesuffix("s")) and name in (found := _of(chapter)):
            return found[name]
    raise AttributeError(f"there is no exercise {name!r}; polyopt.exercises.exercises() has those there are")
