"""The SVM with the hard-margin loss: its programs, the climb, the cuts, the exact program and the tree."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from formulations import hard_margin_loss, svm
from formulations.hard_margin_loss_data import as_hard_margin_loss_data
from polyopt.certificates.hard_margin_loss import least_square
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, generator
from polyopt.outer.hard_margin_loss import solve_program
from polyopt.solvers.clock import Clock
from polyopt.solvers.hard_margin_loss.meeting import Samples
from polyopt.solvers.hard_margin_loss.tree import solve_tree

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("hard_margin_loss")

_SMALL = 12  # samples: few enough for an integer solver, and for all choices of those given up


def _sample(seed: int, n: int = _SMALL) -> tuple[Vector, Vector, Vector]:
    X, y, C = blobs(seed)
    near = np.sort(np.concatenate([np.flatnonzero(y > 0)[: n // 2], np.flatnonzero(y < 0)[: n - n // 2]]))
    return X[near], y[near], np.full(n, C)


def _every_choice(n: int, most: int) -> NDArray[np.bool_]:
    """All choices of up to `most` of n samples."""
    found = [np.isin(np.arange(n), some) for k in range(most + 1) for some in combinations(range(n), k)]
    return np.array(found)


@CHECKS.add("X110", 1e-6)
def the_climb(seed: int) -> Pair:
    """Hard-margin loss: the climb's value over samples that can be met = the explicit program's.

    Source: Goldfarb & Idnani (1983); Brooks (2011).
    """
    X, y, _ = _sample(seed)
    samples = Samples(as_hard_margin_loss_data(X, y))
    kept = [z for z in _every_choice(len(y), 3) if samples.meet(~z).is_met][::7][:6] or [y > 0]
    program = hard_margin_loss.pattern(X, y, kept[0])
    return (
        [samples.meet(~z).value for z in kept],
        [program.set(z=z.astype(float)).solve().objective for z in kept],
    )


@CHECKS.add("X111", 1e-6)
def relaxed_duality(seed: int) -> Pair:
    """Hard-margin loss: value of the relaxation = value of its dual.

    Source: Brooks (2011); the dual is derived.
    """
    X, y, C = _sample(seed)
    primal, dual = hard_margin_loss.relaxation(X, y, C), hard_margin_loss.relaxation_dual(X, y, C)
    return primal.solve().objective, dual.solve().objective


@CHECKS.add("X112", 1e-6, "≥")
def relaxed_is_an_svm(seed: int) -> Pair:
    """Hard-margin loss: value of the relaxation ≥ value of the SVM with the costs Cᵢ/Mᵢ.

    They differ by the row zᵢ ≤ 1.

    Source: formulations.hard_margin_loss; derived.
    """
    X, y, C = _sample(seed)
    M = as_hard_margin_loss_data(X, y, C).big_m()
    return hard_margin_loss.relaxation(X, y, C).solve().objective, svm.primal(X, y, C / M).solve().objective


@CHECKS.add("X113", 1e-6)
def the_tree(seed: int) -> Pair:
    """Hard-margin loss: the tree's optimum = the least over all choices of the samples given up.

    Source: Santana, Serrano, Schiffer & Vidal (2025); derived.
    """
    X, y, C = _sample(seed, n=9)
    data = as_hard_margin_loss_data(X, y, C)
    samples, best = Samples(data), data.at_most()
    for z in _every_choice(len(y), len(y)):
        cost = float(C[z].sum())
        if cost < best:
            found = samples.meet(~z, best - cost)
            best = min(best, found.value + cost) if found.is_met else best
    tree = solve_tree(data)
    return [tree.objective, tree.bound or 0.0], [best, best]


@CHECKS.add("X114", 1e-6)
def the_explicit_program(seed: int) -> Pair:
    """Hard-margin loss: the tree's optimum = that of the explicit program with its M, in SCIP or HiGHS.

    Source: Brooks (2011).
    """
    data = as_hard_margin_loss_data(*_sample(seed))
    return solve_tree(data).objective, solve_program(data, Clock()).objective


@CHECKS.add("X115", 1e-9, "≤")
def a_cut_holds(seed: int) -> Pair:
    """Hard-margin loss: what multipliers prove of some samples ≤ the value of the hard-margin SVM of them.

    Source: formulations.hard_margin_loss; derived.
    """
    X, y, _ = _sample(seed)
    data = as_hard_margin_loss_data(X, y)
    samples, drawn = Samples(data), generator(seed)
    proven, values = [], []
    for z in _every_choice(len(y), 3):
        found = samples.meet(~z)
        if found.is_met and found.active.size:
            alpha = found.alpha * drawn.uniform(0.5, 1.5, len(found.alpha))
            proven.append(least_square(data, found.active, alpha))
            values.append(found.value)
    return proven or [0.0], values or [0.0]
