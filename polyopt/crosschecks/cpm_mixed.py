"""Faces of few features, and of whole numbers: two integer solvers, our searches, and what they prove."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations import cpm_faces
from formulations.language.toy_data import two_blobs
from polyopt.cpm.few_feature_face import SubsetFace
from polyopt.cpm.few_features import search_subset
from polyopt.cpm.integer_face import IntegerFace
from polyopt.crosschecks.outer_approximation import least_by_tangents
from polyopt.crosschecks.registry import NotRun, Registry

if TYPE_CHECKING:
    from formulations.language.program import Program
    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("cpm")

_FEATURES, _N_CHOSEN, _NUMBERS = 6, 2, 2


def _sample(seed: int) -> tuple[Vector, Vector, Vector]:
    X, y = two_blobs(n=24, m=_FEATURES, seed=seed)
    return X, y, np.where(y > 0, 0.3, 0.2)


def _by_scip(program: Program) -> float:
    try:
        return float(program.solve().objective)
    except ModuleNotFoundError as missing:
        raise NotRun(str(missing)) from missing


@CHECKS.add("X103", 1e-6)
def few_features_by_our_search(seed: int) -> Pair:
    """CPM, one face of at most s features: our branch and bound = HiGHS with tangents of the squares.

    Both the value and the bound of either are compared.

    Source: formulations.cpm_faces; derived.
    """
    X, y, C = _sample(seed)
    program = cpm_faces.subset_face(X, y, _N_CHOSEN, C)
    search, _ = search_subset(SubsetFace(X, y, C, _N_CHOSEN), tol=1e-8)
    assert search.best is not None
    mine = (search.best.objective, search.bound)
    return mine, least_by_tangents(program, {"w": 1.0, "b": 1.0})[::-1]


@CHECKS.add("X104", 1e-6)
def few_features_by_scip(seed: int) -> Pair:
    """CPM, one face of at most s features: SCIP = HiGHS with tangents of the squares.

    Source: formulations.cpm_faces; derived.
    """
    X, y, C = _sample(seed)
    program = cpm_faces.subset_face(X, y, _N_CHOSEN, C)
    return _by_scip(program), least_by_tangents(program, {"w": 1.0, "b": 1.0})[1]


def _whole(seed: int) -> tuple[Program, float, float]:
    """The program at the scale that our search has found, what it found there, and the squared scale."""
    X, y, C = _sample(seed)
    X = X[:, :4]
    real = SubsetFace(X, y, C, 4).fit(np.arange(4)).w
    found = IntegerFace(X, y, C, _NUMBERS).round(real)
    return cpm_faces.integer_face(X, y, found.scale, _NUMBERS, C), found.objective, found.scale**2


@CHECKS.add("X105", 1e-6)
def whole_numbers_by_scip(seed: int) -> Pair:
    """CPM, one face of whole numbers at a scale: SCIP = HiGHS with tangents of the squares.

    Source: formulations.cpm_faces; derived.
    """
    program, _, square = _whole(seed)
    return _by_scip(program), least_by_tangents(program, {"p": square, "b": 1.0})[1]


@CHECKS.add("X106", 1e-7, "≥")
def whole_numbers_by_our_search(seed: int) -> Pair:
    """CPM, one face of whole numbers: our search costs no less than what HiGHS proves at its scale.

    Source: formulations.cpm_faces; derived.
    """
    program, mine, square = _whole(seed)
    return mine, least_by_tangents(program, {"p": square, "b": 1.0})[0]
