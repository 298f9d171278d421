"""Few features of smooth faces: our searches against outer approximation by HiGHS."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from formulations import (
    mixture,
    plume_subset,
    polyceptron_subset,
    spla1_subset,
)
from formulations.samples import two_blobs
from formulations.tangents import Logistic, Square, least_by_curves
from polyopt.certificates.polyceptron_subset import bounds_of_faces
from polyopt.certificates.smooth_tree import bound_of_few_faces
from polyopt.certificates.spla1_subset import CellLoss
from polyopt.crosschecks.registry import Registry
from polyopt.outer.cpm.subset import search_subset
from polyopt.outer.plume import PlumeProblem
from polyopt.outer.plume_few import FewPlume
from polyopt.outer.polyceptron_few import FewPolyceptron
from polyopt.solvers.clock import Clock
from polyopt.solvers.logistic import Regressions
from polyopt.solvers.smooth_subset import SmoothSubset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.program import Program
    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("few_faces")

_FEATURES, _FEW, _RIDGE = 4, 2, 0.8


def _sample(seed: int) -> tuple[Vector, Vector, Vector]:
    X, y = two_blobs(n=14, m=_FEATURES, seed=seed)
    return X, y, np.where(y > 0, 1.0, 0.6)


def _least(program: Program, squares: dict[str, float], C: Vector) -> tuple[float, float]:
    """Bound and value of a cell's program by tangents: squares of variables at prices, and its losses."""
    squared = cp.hstack([cp.vec(program.variables[name], order="C") for name in squares])
    price = np.repeat(list(squares.values()), [program.variables[name].size for name in squares])
    most = np.sqrt(np.log(2.0) * C.sum() / price)
    losses = Logistic(program.variables["z"], C, np.full(len(C), 6.0))
    return least_by_curves(program, [Square(squared, price, most), losses])


@CHECKS.add("X130", 1e-6)
def few_features_of_a_cell(seed: int) -> Pair:
    """SPLA1, one cell, at most s features: our branch and bound, and its certificate, = HiGHS with tangents.

    Both the value and the bound of either are compared.

    Source: formulations.spla1_subset; derived.
    """
    X, y, C = _sample(seed)

    def loss(columns: NDArray[np.int64]) -> Regressions:
        return Regressions(X[:, columns], y, C[:, None], _RIDGE)

    face = SmoothSubset(loss, _FEATURES, 1, _FEW, ridge=_RIDGE)
    search, _ = search_subset(face, tol=1e-8)
    assert search.best is not None
    W = face.faces(search.best.w)
    proven = bound_of_few_faces(CellLoss(X, y, C[:, None]), W, _FEW, _RIDGE, search.tree.table())
    program = spla1_subset.mixed_integer(X, y, _FEW, C, _RIDGE)
    bound, value = _least(program, {"w": 0.5 * _RIDGE, "b": 0.5 * _RIDGE}, C)
    return (search.best.objective, search.bound, proven), (value, bound, bound)


@CHECKS.add("X131", 1e-6)
def few_features_of_a_mixture(seed: int) -> Pair:
    """PLUME, M-step, at most one feature a face: our branch and bound = the least of all choices.

    Each choice is the explicit program with these features in for certain, by an interior point.

    Source: formulations.plume_subset; derived.
    """
    X, y, C = _sample(seed)
    X, gamma = X[:, :3], 1.5
    W = np.random.default_rng(seed).normal(size=(2, 4))
    problem = PlumeProblem(X, y, C, 2, gamma=gamma, ridge=_RIDGE)
    (part,) = FewPlume(problem).parts(W, 1)
    search, _ = search_subset(part.program, tol=1e-8)
    assert search.best is not None
    R = mixture.responsibilities(X, y, W, gamma)
    costs = [
        plume_subset.relaxation(X, y, R, gamma, 1, C, _RIDGE, np.eye(3)[list(chosen)]).solve().objective
        for chosen in product(range(3), repeat=2)
    ]
    least = min(costs) - part.program.constant
    return (search.best.objective, search.bound), (least, least)


@CHECKS.add("X138", 1e-6)
def few_features_of_a_polyceptron(seed: int) -> Pair:
    """The exact Polyceptron, one face of at most s features: our branch and bound = HiGHS's integer program.

    Both the value and what the tree's multipliers prove are compared, in a box that holds the face.

    Source: formulations.polyceptron_subset; derived.
    """
    X, y, C = _sample(seed)
    y, radius = np.where(np.arange(len(y)) % 5 == 0, -y, y), 0.7
    machine = FewPolyceptron(X, y, C, 1, _FEW, radius)
    ((search, _),) = machine.searches(np.zeros((1, _FEATURES + 1)), Clock(None), 1000)
    assert search.best is not None
    (proven,) = bounds_of_faces(X, y, C[:, None], _FEW, radius, [search.tree.table()])
    program = polyceptron_subset.mixed_integer(X, y, _FEW, C, radius)
    least = program.solve("HIGHS", mip_rel_gap=1e-9).objective
    return (search.best.objective, proven), (least, least)
