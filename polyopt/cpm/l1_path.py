"""The Convex Polytope Machine along rising penalties of its weights: from dense faces to none.

A path begins with the machine without penalty, from one start or the best of several, and each point begins
where the last one ended, with its assignment and its multipliers. So faces that have found their roles keep
them while their weights vanish; from the largest penalty on, all faces would be alike and stay so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.arguments import at_least, tolerance, whole, within
from formulations.language.clock import Clock
from formulations.language.display import Shown, Summary
from formulations.language.recovery import as_costs, as_data
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, MatrixLike, Vector
from formulations.polytope import assignment_matrix, check_assignment
from polyopt.base.progress import steps
from polyopt.certificates.certificate import Certificate
from polyopt.certificates.path_point import Path, point_summary
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.dual import DualProblem
from polyopt.cpm.penalised import PenalisedDualProblem
from polyopt.cpm.penalised_face_dual import PenalisedAscent
from polyopt.cpm.penalty_term import checked_penalty
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds

_NAME = "Convex Polytope Machines with priced weights"


@dataclass(frozen=True, repr=False)
class L1Point(Shown):
    """One machine of a path.

    Attributes
    ----------
    price : float
        λ + τ: the penalty of a unit of the weights' sizes and of the groups' lengths, by the path's shares.
    penalty : FacePenalty
        The penalty with its signs and groups.
    solution : Solution
        ``primal`` has ``W`` (K, m+1), bias last, and ``assignment`` (n,); ``duals`` has ``margin`` (n, K).
    certificate : Certificate
        The certificate for its assignment.
    """

    price: float
    penalty: FacePenalty
    solution: Solution
    certificate: Certificate

    def _summary(self) -> Summary:
        return point_summary(_NAME, "price", self)

    @property
    def n_nonzero(self) -> int:
        """Weights in use, biases left out."""
        return int(np.count_nonzero(self.solution["W"][:, :-1]))

    @property
    def features(self) -> NDArray[np.int64]:
        """The features in use."""
        return self.penalty.features(self.solution["W"])


def l1_path(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, n_faces: int = 3, prices: Sequence[float] | None = None,
    *, penalty: FacePenalty | None = None, grouped: float = 0.0, assignment: ArrayLike | None = None,
    n_init: int = 1, max_iter: int = 100, tol: float = 1e-8, certificate_tol: float = 1e-6,
    time_limit: float | None = None, seed: int = 0,
) -> Path[L1Point]:  # fmt: skip
    """Solve the machine for one price after another, loss="sum" and margin="total".

    Parameters
    ----------
    X : array_like or CSR of shape (n, m)
        Training samples, scaled.
    y : array_like of shape (n,)
        Labels: -1 inside, +1 outside; both present.
    C : float or array_like of shape (n,)
        Cost of slack, per sample.
    n_faces : int
        K.
    prices : sequence of float, optional
        Penalties, at least 0; they are taken in rising order. By default twelve, evenly by their logarithms,
        up to the least at which all weights are 0 for the first assignment.
    penalty : FacePenalty, optional
        The signs and groups; its l1 and group are not used.
    grouped : float
        Share of a penalty for the groups' lengths, from 0 to 1; the rest is for single weights.
    assignment : array_like of int, shape (n,), optional
        The first assignment: the face of each positive. By default the best of the machine without penalty.
    n_init, max_iter, seed : int
        Starts of that machine, rounds at most for each penalty, and the seed of the starts.
    tol, certificate_tol : float
        Relative gap of each point for its assignment, and the tolerance of the certificates.
    time_limit : float, optional
        Seconds for the whole path; machines that find no time left, or come after Ctrl-C, are not in it.

    Returns
    -------
    Path, a list of L1Point
        One for each price, rising.

    Raises
    ------
    ValueError
        Data that are not finite, one class only, a price below 0, or a penalty for other features.
    """
    X, labels = as_data(X, y)
    if len(np.unique(labels)) < 2:
        raise ValueError("l1_path needs samples of both classes; y has one")
    costs, K = as_costs(C, len(labels)), whole("n_faces", n_faces)
    tol, grouped = tolerance(tol), within("grouped", grouped, 0.0, 1.0)
    certificate_tol = tolerance(certificate_tol, "certificate_tol")
    for number, price in enumerate([] if prices is None else prices):
        at_least(f"prices[{number}]", price, 0.0)
    shape = FacePenalty.of(X.shape[1]) if penalty is None else penalty
    checked_penalty(replace(shape, l1=1.0), X.shape[1])
    clock = Clock(time_limit)
    if assignment is not None:
        state = check_assignment(labels, K, assignment)
    else:
        free = DualProblem(X, labels, costs, K, tol=1e-2)
        begin = [Stage(free, max_iter)]
        count = whole("n_init", n_init) if K > 1 else 1
        begun = run_from_many_starts(begin, n_init=count, seed=seed, time_limit=clock.left)
        if begun.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        state = begun["assignment"]
    if prices is None:
        largest = _least_without_weights(
            X, labels, costs[:, None] * assignment_matrix(labels, K, state), shape, grouped
        )
        prices = np.geomspace(1e-2 * largest, largest, 12).tolist()
    path: Path[L1Point] = Path(_NAME, "price")
    found: Solution | None = None
    with steps(len(prices), "price") as step:
        for price in sorted(map(float, prices)):
            if path and clock.is_over:
                break
            own = _priced(shape, price, grouped)
            problem = PenalisedDualProblem(X, labels, costs, K, own, tol=tol, begin_with=found)
            found = run_rounds(problem, state, max_iter=max_iter, time_limit=clock.left)
            state = found["assignment"]
            certificate = certify_cpm(
                X, labels, costs, W=found["W"], alpha=found.duals["margin"], assignment=state, penalty=own,
                tol=certificate_tol,
            )  # fmt: skip
            path.append(L1Point(price, own, found, certificate))
            step.done()
            if found.status is Status.INTERRUPTED:
                break
    return path


def _priced(shape: FacePenalty, price: float, grouped: float) -> FacePenalty:
    return replace(shape, l1=(1.0 - grouped) * price, group=grouped * price)


def _least_without_weights(X: Matrix, y: Vector, caps: Vector, shape: FacePenalty, grouped: float) -> float:
    """Return the least penalty at which all weights are 0 for an assignment, from bare biases."""
    largest = float(abs(X).max()) if X.shape[1] else 0.0
    ascent = PenalisedAscent(X, y, caps, _priced(shape, 2.0 * max(largest * caps.sum(), 1.0), grouped))
    ascent.reach(1e-9)
    low, high = 0.0, 1.0

    def has_weights(price: float) -> bool:
        return bool(_priced(shape, price, grouped).shrunk(ascent.V)[:, :-1].any())

    while has_weights(high):
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if has_weights(middle) else (low, middle)
    return high
