"""Sparse faces of the machines that have their positives inside: the programs against the fast solvers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations import mixture, plume_sparse, spla1_sparse
from formulations.face_penalty import FacePenalty
from formulations.polyhedral import belonging, hard_loss
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, generator
from polyopt.solvers.logistic import Regressions
from polyopt.solvers.plume import maximise
from polyopt.solvers.priced_newton import minimise_priced

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("priced_faces")

_RIDGE, _FACES = 0.3, 2
_PRICES = ({"l1": 1.0}, {"group": 1.5}, {"l1": 0.4, "group": 0.8, "signs": {0: 1, 3: -1}, "groups": [[1, 2]]})


def _sample(seed: int) -> tuple[Vector, Vector, FacePenalty, Vector]:
    """Samples, labels, a price, and random faces."""
    X, y, _ = blobs(seed, m=4)
    penalty = FacePenalty.of(4, **_PRICES[seed % len(_PRICES)])
    return X, y, penalty, generator(seed).normal(size=(_FACES, 5))


@CHECKS.add("X100", 1e-7)
def spla1_for_its_cells(seed: int) -> Pair:
    """SPLA1 with a price, fixed cells: proximal Newton steps = the explicit program, by an interior point.

    Source: formulations.spla1_sparse; derived.
    """
    X, y, penalty, W = _sample(seed)
    z = generator(seed + 1).integers(_FACES, size=len(y))
    smooth = Regressions(X, y, belonging(y, z, _FACES, "all"), _RIDGE)
    fast = minimise_priced(smooth, penalty, W, ridge=_RIDGE, tol=1e-10)
    program = spla1_sparse.fixed_cells(X, y, _FACES, z, 1.0, _RIDGE, "all", penalty=penalty)
    return [fast.objective, float(fast.bound or 0.0)], program.solve().objective


@CHECKS.add("X101", 1e-7)
def plume_for_its_responsibilities(seed: int) -> Pair:
    """PLUME with a price, M-step: proximal Newton steps = the explicit program, by an interior point.

    Source: formulations.plume_sparse; derived.
    """
    X, y, penalty, W = _sample(seed)
    R = mixture.responsibilities(X, y, W, 2.0)
    fast = maximise(
        X, y, np.ones(len(y)), R, W, gamma=2.0, ridge=_RIDGE, penalty=penalty, max_iter=100, tol=1e-10
    )
    program = plume_sparse.m_step(X, y, R, 2.0, 1.0, _RIDGE, penalty=penalty)
    return [fast.objective, float(fast.bound or 0.0)], program.solve().objective


@CHECKS.add("X102", 1e-12)
def without_a_price(seed: int) -> Pair:
    """A price of nothing: what the machine pays is the loss with its ridge.

    Source: formulations.face_penalty; derived.
    """
    X, y, _, W = _sample(seed)
    z = (X @ W[:, :-1].T + W[:, -1]).argmin(axis=1)
    value, _ = Regressions(X, y, belonging(y, z, _FACES, "all"), _RIDGE)(W)
    none = FacePenalty.of(4)
    return value + none.value(W), hard_loss(X, y, W, 1.0, _RIDGE, "all")
