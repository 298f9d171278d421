"""Few features of smooth faces, and whole numbers: our searches against outer approximation by HiGHS."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from formulations import (
    mixture,
    plume_integer,
    plume_subset,
    polyceptron_integer,
    polyceptron_subset,
    spla1_integer,
    spla1_subset,
)
from formulations.samples import two_blobs
from formulations.solution import Solution, Status
from formulations.tangents import Logistic, Square, least_by_curves
from polyopt.certificates.polyceptron_subset import bounds_of_faces
from polyopt.certificates.smooth_tree import bound_of_few_faces
from polyopt.certificates.spla1_subset import CellLoss
from polyopt.crosschecks.registry import Registry
from polyopt.outer.cpm.subset import search_subset
from polyopt.outer.plume import PlumeProblem
from polyopt.outer.plume_few import FewPlume
from polyopt.outer.polyceptron import ExactPolyceptron
from polyopt.outer.polyceptron_few import FewPolyceptron
from polyopt.outer.polyceptron_whole import PolyceptronRounding
from polyopt.outer.spla1 import LogisticCells
from polyopt.outer.whole_faces import round_smooth_faces
from polyopt.solvers.clock import Clock
from polyopt.solvers.logistic import Regressions
from polyopt.solvers.smooth_subset import SmoothSubset
from polyopt.solvers.smooth_whole import SmoothWhole

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


@CHECKS.add("X132", 1e-6, "≥")
def whole_numbers_of_a_cell(seed: int) -> Pair:
    """SPLA1, one cell of whole numbers: our search costs no less than what HiGHS proves at its scale.

    Source: formulations.spla1_integer; derived.
    """
    X, y, C = _sample(seed)
    machine = LogisticCells(X, y, C, 1, ridge=_RIDGE)
    W = np.random.default_rng(seed).normal(size=(1, _FEATURES + 1))
    rows, loss = machine.scored(W, 0)
    found = SmoothWhole(X[rows], loss, _RIDGE, 2).round(machine.step(W, None)["W"][0])
    program = spla1_integer.mixed_integer(X, y, found.scale, 2, C, _RIDGE)
    prices = {"p": 0.5 * _RIDGE * found.scale**2, "b": 0.5 * _RIDGE}
    return found.objective, _least(program, prices, C)[0]


@CHECKS.add("X133", 1e-7, "≥")
def whole_numbers_of_a_mixture(seed: int) -> Pair:
    """PLUME of whole numbers: they cost no less than real ones at their scales, nor these than the bound.

    The real ones are the explicit program's at the same responsibilities, by an interior point.

    Source: formulations.plume_integer; derived.
    """
    X, y, C = _sample(seed)
    gamma, machine = 1.5, FewPlume(PlumeProblem(X, y, C, 2, gamma=1.5, ridge=_RIDGE))
    W = machine.polished(np.random.default_rng(seed).normal(size=(2, _FEATURES + 1)))
    real = Solution(Status.CONVERGED, {"W": W}, {}, machine.value(W), None, "Newton")
    found = round_smooth_faces(machine, real, 2)
    R = mixture.responsibilities(X, y, found["W"], gamma)
    relaxed = plume_integer.relaxation(X, y, R, gamma, found["scales"], 2, C, _RIDGE).solve().objective
    (part,) = machine.parts(found["W"], _FEATURES)
    relaxed -= part.program.constant
    return (found.objective, relaxed), (relaxed, found.bound or 0.0)


@CHECKS.add("X134", 1e-6, "≥")
def whole_numbers_of_a_polyceptron(seed: int) -> Pair:
    """The exact Polyceptron, one face of whole numbers: our search costs no less than HiGHS's at its scale.

    Nor do these cost less than the real face, by its linear program.

    Source: formulations.polyceptron_integer; derived.
    """
    X, y, C = _sample(seed)
    y = np.where(np.arange(len(y)) % 5 == 0, -y, y)  # or there is nothing to pay
    machine = ExactPolyceptron(X, y, C, 1)
    W, _ = machine.fitted(machine.start(np.random.default_rng(seed)), Clock(None))
    found = PolyceptronRounding(machine, 2).rounded(W, 0, None, Clock(None))
    program = polyceptron_integer.mixed_integer(X, y, found.scale, 2, C)
    least = program.solve("HIGHS", mip_rel_gap=1e-9).objective
    return (machine.value(found.w[None, :]), least), (least, machine.value(W))


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
