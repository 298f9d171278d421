"""The first incumbent of the global search, by heuristics (:func:`find_incumbent`).

Each offers its faces to the incumbent `best`, which is replaced if they cost less. There are three:

1. *Alternation* (alternating minimisation over faces and assignment) from many starts, and *dual ascents*
   (:class:`polyopt.cpm.dual.DualProblem`: alternation whose faces are approximate, by coordinate ascent on
   their duals). An ascent starts from a *loosened* assignment: before the faces are compared, part of the
   contribution of a positive's own multiplier is taken off its score (:meth:`DualProblem.loosen`).
2. Column generation, which combines faces of different starts.
3. *Kicks*: some positives of the incumbent are reassigned at random; alternation or a dual ascent follows.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Vector
from formulations.polytope import objective
from polyopt.cpm.dual import DualProblem
from polyopt.cpm.global_search.face import Best, Samples, alternate, no_best, total_cost
from polyopt.cpm.global_search.prices import (
    MAX_FEATURES,
    Columns,
    Location,
    below_price,
    priced_cost,
    priced_face,
)
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds
from polyopt.optim.starts import TIE

if TYPE_CHECKING:
    Assignment = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Parameters of the heuristics."""

    columns_time: float = 0.2  # fraction of the time limit for column generation
    kicks_time: float = 0.3  # fraction of the time limit for kicks
    ascents_time: float = 0.4  # fraction of the starts' time for all batches of dual ascents
    fewer_time: float = 0.3  # fraction of the time left to the starts, for the solution with one face less
    # Samples × dimensions × faces from which dual ascents and kicks are used; chosen on six data sets, sonar
    # and ionosphere among them, and some pairs of digits
    min_size_for_ascents: int = 10_000
    ascents: int = 20  # number of dual ascents in a batch
    max_rounds: int = 300  # largest number of rounds of a dual ascent
    kicks_per_start: int = 4  # number of kicks in a batch, per random start
    max_batches: int = 25  # largest number of batches, of ascents and of kicks; one each without a time limit
    kicked_fraction: float = 0.1  # largest fraction of the positives that a kick reassigns before alternation
    kicked_fraction_loose: float = 0.3  # largest fraction that a kick reassigns before a dual ascent
    kick_tol: float = 1e-4  # precision of alternation after a kick, relative to the incumbent's cost
    max_cost_ratio: float = 1.02  # cost, relative to the incumbent's, up to which a kick is continued
    end_tol: float = 1e-8  # precision of that continuation, relative to the incumbent's cost
    max_column_work: float = 5e7  # largest (known faces)² × positives; then column generation takes 1 to 2 s
    max_column_rounds: int = 40  # largest number of rounds of column generation
    max_idle_rounds: int = 4  # number of rounds in a row without a new face that end column generation
    column_trials: int = 60  # number of faces that a round of column generation tries
    n_largest: int = 20  # a trial starts from one of so many faces, those with the largest weights
    # One is drawn per trial: the probability with which the trial adds or removes each positive; chosen on
    # draws of german, parkinsons and heart
    changed_fractions: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2)


OPTIONS = Options()


def find_incumbent(
    data: Samples, best: Best, precision: float, starts: int, clock: Clock, rng: np.random.Generator
) -> None:
    """Improve the incumbent `best` in place.

    precision: precision of alternation, relative to the sum of all costs of slack.
    starts: number of random directions, and of random assignments, from which alternation starts.

    If the data are large enough, dual ascents come before the alternations, and column generation and kicks
    after them.
    """
    is_large = _has_ascents(data, len(best.W))
    limit = clock.left
    # Column generation needs time only in more than a few features: in few, prices.py runs it later.
    is_wide = is_large and data.A.shape[1] > MAX_FEATURES + 1
    later_time = OPTIONS.kicks_time + (OPTIONS.columns_time if is_wide else 0.0)
    starts_clock = clock.part(1.0 - later_time if is_large else 1.0)
    _from_many(data, best, precision, starts, starts_clock, rng)
    # Column generation needs both classes.
    if is_wide and 0 < data.inside < len(data.C):
        part = Clock(None if limit is None else OPTIONS.columns_time * limit)
        improve_by_columns(data, best, part, rng)
    if is_large and data.npos:
        part = Clock(None if limit is None else OPTIONS.kicks_time * limit)
        _kick(data, best, OPTIONS.kicks_per_start * starts, part, rng)


def try_faces(data: Samples, best: Best, precision: float, W: Vector, clock: Clock) -> None:
    """Offer the faces W (K, d) and the result of alternation from them as incumbents."""
    best.offer(objective(data.y[:, None] * data.A[:, :-1], data.y, W, data.C), W)
    _alternate_from(data, best, precision, (data.points @ W.T).argmax(axis=1), clock)


def _alternate_from(data: Samples, best: Best, precision: float, face: "Assignment", clock: Clock) -> None:
    """Offer the result of alternation from an assignment `face` (npos,) as incumbent."""
    W = np.zeros_like(best.W)
    best.offer(alternate(data, face.astype(np.int64), W, precision * data.C.sum(), clock), W)


def _has_ascents(data: Samples, n_faces: int) -> bool:
    """True if the data are large enough for dual ascents and kicks."""
    return n_faces > 1 and data.A.size * n_faces >= OPTIONS.min_size_for_ascents


def _from_many(
    data: Samples, best: Best, precision: float, starts: int, clock: Clock, rng: np.random.Generator
) -> None:
    """Offer the results from dual ascents, from a solution with one face less, and from random starts."""
    n_faces = len(best.W)
    if _has_ascents(data, n_faces):
        _from_dual(data, best, clock, int(rng.integers(2**31)))
    if n_faces > 2:
        _from_fewer(data, best, precision, starts, clock, rng)
    features = centred(data.points)
    _alternate_from(data, best, precision, np.zeros(data.npos, dtype=np.int64), clock)
    for _ in range(starts if n_faces > 1 else 0):
        by_direction = (features @ rng.normal(size=(features.shape[1], n_faces))).argmax(axis=1)
        at_random = rng.integers(0, n_faces, data.npos)
        for face in (by_direction, at_random):
            _alternate_from(data, best, precision, face, clock)
        if clock.is_over:
            return


def centred(points: Vector) -> Vector:
    """Return the features of rows x̃ = (x, 1) without the bias, standardised."""
    features = points[:, :-1]
    if not len(features):
        return features
    scale = features.std(axis=0)
    return np.asarray((features - features.mean(axis=0)) / np.where(scale > 0, scale, 1.0))


def _from_fewer(
    data: Samples, best: Best, precision: float, starts: int, clock: Clock, rng: np.random.Generator
) -> None:
    """Alternate from the best solution with one face less, and an additional face without positives.

    The additional face is w = 0 with the bias -1, which adds at most 1 to the cost.
    """
    fewer = no_best(len(best.W) - 1, best.W.shape[1])
    _from_many(data, fewer, precision, starts, clock.part(OPTIONS.fewer_time), deepcopy(rng))
    additional = np.zeros_like(best.W[:1])
    additional[0, -1] = -1.0
    W = np.vstack([fewer.W, additional])
    cost, best_face = total_cost(data, W)
    best.offer(cost, W)
    _alternate_from(data, best, precision, best_face, clock)


def _from_dual(data: Samples, best: Best, clock: Clock, seed: int) -> None:
    """Offer the results of a batch of dual ascents; with a time limit, of batches until it is reached.

    In many dimensions a face can separate almost any samples assigned to it, so alternation from random faces
    stops after few moves; dual ascents from loosened assignments reach lower costs.
    """
    problem, part = _problem(data, len(best.W)), clock.part(OPTIONS.ascents_time)
    for batch in range(1 if clock.left is None else OPTIONS.max_batches):
        if batch > 0 and part.is_over:
            return
        left = part.left if batch > 0 else clock.left  # the first batch may take the time of all starts
        solution = run_from_many_starts(
            [Stage(problem, OPTIONS.max_rounds)], n_init=OPTIONS.ascents, time_limit=left,
            seed=seed + batch, n_jobs=1,
        )  # fmt: skip
        _offer_end(data, best, solution)


def _kick(data: Samples, best: Best, count: int, clock: Clock, rng: np.random.Generator) -> None:
    """Kick the incumbent `count` times; with a time limit, up to `max_batches` times as often.

    Alternation has many local minima; those near a good one are better than random ones. Every other kick
    reassigns more positives, and a dual ascent from the loosened assignment follows.
    """
    problem = _problem(data, len(best.W))
    for number in range(count if clock.left is None else OPTIONS.max_batches * count):
        if clock.is_over:
            return
        is_ascent = number % 2 == 1
        max_fraction = OPTIONS.kicked_fraction_loose if is_ascent else OPTIONS.kicked_fraction
        face = _reassigned(data.points, best.W, max_fraction, rng)
        if is_ascent:
            state = problem.loosen(np.concatenate([np.full(data.inside, -1), face]), clock.left)
            solution = run_rounds(problem, state, max_iter=OPTIONS.max_rounds, time_limit=clock.left)
            _offer_end(data, best, solution)
            continue
        W = np.zeros_like(best.W)
        cost = alternate(data, face, W, OPTIONS.kick_tol * best.cost, clock)
        if cost < OPTIONS.max_cost_ratio * best.cost:
            cost = alternate(data, face, W, OPTIONS.end_tol * best.cost, clock)
        best.offer(cost, W)


def _reassigned(points: Vector, W: Vector, max_fraction: float, rng: np.random.Generator) -> "Assignment":
    """Return each positive's best face of W, with some positives, at most `max_fraction`, reassigned."""
    face = (points @ W.T).argmax(axis=1)
    max_count = max(max_fraction * len(points), 2.0)
    count = int(np.exp(rng.uniform(0.0, np.log(max_count))))  # log-uniform from 1 to max_count
    chosen = rng.choice(len(points), min(count, len(points)), replace=False)
    if rng.random() < 0.5:  # half of the time the nearest neighbours of one positive
        chosen = np.square(points - points[chosen[0]]).sum(axis=1).argsort()[:count]
    # Half of the time each chosen positive moves to its own random face, else all to the same one.
    face[chosen] = rng.integers(0, len(W), len(chosen)) if rng.random() < 0.5 else rng.integers(0, len(W))
    return face


def _problem(data: Samples, n_faces: int) -> DualProblem:
    """Return the problem of the dual ascents. With a tolerance of 1e-2 they would end at higher costs."""
    X = np.ascontiguousarray((data.y[:, None] * data.A)[:, :-1])
    return DualProblem(X, data.y, data.C, n_faces, tol=1e-4)


def _offer_end(data: Samples, best: Best, solution: Solution) -> None:
    """Offer the result of a dual ascent as incumbent."""
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    W = np.ascontiguousarray(solution["W"], dtype=float)
    best.offer(total_cost(data, W)[0], W)


def improve_by_columns(data: Samples, best: Best, clock: Clock, rng: np.random.Generator) -> None:
    """Improve the incumbent by column generation.

    Alternation improves each face given the others; here K faces are selected from those of many starts. The
    linear relaxation of the choice (the location program of :mod:`.prices`) gives each known face a weight
    and each positive a price. The faces of largest weight are offered as an incumbent, and faces that cost
    little at these prices are added to the known ones.
    """
    columns, idle = Columns(data, best, tol=1e-8, precision=1e-8), 0
    max_faces = float(np.sqrt(OPTIONS.max_column_work / data.npos))
    columns.add_initial(clock, rng, max_faces)
    for _ in range(OPTIONS.max_column_rounds):
        location = None if clock.is_over else columns.solve_prices(clock)
        if location is None or len(columns.W) >= max_faces:
            return
        before = len(columns.W)
        _add_columns(columns, location, max_faces, clock, rng)
        idle = 0 if len(columns.W) > before else idle + 1
        if idle == OPTIONS.max_idle_rounds:
            return


def _add_columns(
    columns: Columns, location: Location, max_faces: float, clock: Clock, rng: np.random.Generator
) -> None:
    """Add faces whose cost at the current prices is below that of every known face (negative reduced cost).

    Each trial fits a face to positives: those below their price on a known face of large weight, after a
    random change; every third trial, random positives instead.
    """
    npos, max_cost = columns.data.npos, columns.least_cost(location.prices) * (1.0 - TIE)
    largest = np.argsort(-location.weights, kind="stable")[: OPTIONS.n_largest]
    starts = [below_price(columns.data, location.prices, columns.W[t]) for t in largest]
    for number in range(OPTIONS.column_trials):
        if clock.is_over or len(columns.W) >= max_faces:
            return
        start = starts[rng.integers(len(starts))]
        positives = start ^ (rng.random(npos) < rng.choice(OPTIONS.changed_fractions))
        if number % 3 == 0:
            positives = rng.random(npos) < rng.random()
        w = priced_face(columns.data, location.prices, positives)
        if priced_cost(columns.data, location.prices, w) < max_cost:
            columns.add(w)
