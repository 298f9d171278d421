"""The first incumbent of the global search, by heuristics (:func:`find_incumbent`).

Three of them: alternating minimisation and dual ascents from many starts; column generation, which combines
faces of different starts; and perturbations ("kicks") of the incumbent, followed by alternation.
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
from polyopt.cpm.global_search.prices import MAX_FEATURES, Columns, Location, priced_cost, priced_face
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds
from polyopt.optim.starts import TIE

if TYPE_CHECKING:
    Assignment = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Parameters of the heuristics.

    columns_time, kicks_time, ascents_time, fewer_time: fractions of the time for column generation, kicks,
        the first dual ascents, and starts with one face less.
    min_size_for_ascents: samples times dimensions times faces from which dual ascents and kicks are used;
        chosen on six sets and some pairs of digits, sonar and ionosphere among them.
    ascents: dual ascents per batch.
    max_rounds: rounds of a dual ascent.
    kicked_fraction, kicked_fraction_loose: largest fraction of the positives that a kick reassigns, without
        and with a dual ascent after it.
    kick_tol: relative precision of alternation after a kick.
    max_cost_ratio, end_tol: if the cost is then below this multiple of the incumbent's, alternation continues
        with the precision end_tol.
    max_batches: batches of ascents, and of kicks, with a time limit; without one there is one batch.
    max_column_work: faces squared times positives of a location program, which then takes a second or two.
    max_column_rounds: rounds of column generation.
    max_idle_rounds: rounds in a row without a new face that end it.
    column_trials: faces tried in a round.
    n_largest: a trial starts from the positives of one of so many faces with the largest weights.
    changed_fractions: fraction of these that is changed, drawn from the list; chosen on draws of german,
        parkinsons and heart.
    """

    columns_time: float = 0.2
    kicks_time: float = 0.3
    ascents_time: float = 0.4
    fewer_time: float = 0.3
    min_size_for_ascents: int = 10_000
    ascents: int = 20
    max_rounds: int = 300
    kicked_fraction: float = 0.1
    kicked_fraction_loose: float = 0.3
    kick_tol: float = 1e-4
    max_cost_ratio: float = 1.02
    end_tol: float = 1e-8
    max_batches: int = 25
    max_column_work: float = 5e7
    max_column_rounds: int = 40
    max_idle_rounds: int = 4
    column_trials: int = 60
    n_largest: int = 20
    changed_fractions: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2)


DEFAULT = Options()


def find_incumbent(
    data: Samples, best: Best, precision: float, starts: int, clock: Clock, rng: np.random.Generator,
    options: Options = DEFAULT,
) -> None:  # fmt: skip
    """Improve the incumbent `best` by alternating minimisation from many starts and by the other heuristics.

    There are `starts` random directions and as many random assignments; each alternation is as precise as
    `precision` times the sum of all costs. If the data are large enough, dual ascents come before these, and
    column generation and kicks after.
    """
    is_large = _has_ascents(data, len(best.W), options)
    limit = clock.left
    is_wide = is_large and data.A.shape[1] > MAX_FEATURES + 1
    later_time = options.kicks_time + (options.columns_time if is_wide else 0.0)
    starts_clock = clock.part(1.0 - later_time if is_large else 1.0)
    _from_many(data, best, precision, starts, starts_clock, rng, options)
    if is_wide and 0 < data.inside < len(data.C):  # else the bound by prices generates columns
        part = Clock(None if limit is None else options.columns_time * limit)
        improve_by_columns(data, best, part, rng, options)
    if is_large and data.npos:
        part = Clock(None if limit is None else options.kicks_time * limit)
        _kick(data, best, 4 * starts, part, rng, options)


def try_faces(data: Samples, best: Best, precision: float, W: Vector, clock: Clock) -> None:
    """Offer the faces W (K, d) and the result of alternation from them as incumbents."""
    best.offer(objective(data.y[:, None] * data.A[:, :-1], data.y, W, data.C), W)
    _alternate_from(data, best, precision, (data.points @ W.T).argmax(axis=1), clock)


def _alternate_from(data: Samples, best: Best, precision: float, face: "Assignment", clock: Clock) -> None:
    W = np.zeros_like(best.W)
    best.offer(alternate(data, face.astype(np.int64), W, precision * data.C.sum(), clock), W)


def _has_ascents(data: Samples, n_faces: int, options: Options) -> bool:
    return n_faces > 1 and data.A.size * n_faces >= options.min_size_for_ascents


def _from_many(
    data: Samples, best: Best, precision: float, starts: int, clock: Clock, rng: np.random.Generator,
    options: Options,
) -> None:  # fmt: skip
    """Start from dual ascents, from solutions with one face less, and from random faces."""
    n_faces = len(best.W)
    if _has_ascents(data, n_faces, options):
        _from_dual(data, best, clock, int(rng.integers(2**31)), options)
    if n_faces > 2:
        _from_fewer(data, best, precision, starts, clock, rng, options)
    features = centred(data.points)
    _alternate_from(data, best, precision, np.zeros(data.npos, dtype=np.int64), clock)
    for _ in range(starts if n_faces > 1 else 0):
        by_direction = (features @ rng.normal(size=(features.shape[1], n_faces))).argmax(axis=1)
        for face in (by_direction, rng.integers(0, n_faces, data.npos)):
            _alternate_from(data, best, precision, face, clock)
        if clock.is_over:
            return


def centred(points: Vector) -> Vector:
    """Return the standardised features of rows x̃."""
    features = points[:, :-1]
    if not len(features):
        return features
    scale = features.std(axis=0)
    return np.asarray((features - features.mean(axis=0)) / np.where(scale > 0, scale, 1.0))


def _from_fewer(
    data: Samples, best: Best, precision: float, starts: int, clock: Clock, rng: np.random.Generator,
    options: Options,
) -> None:  # fmt: skip
    """Start from the best solution with one face less, and an additional face without positives.

    The additional face is w = 0 with the bias -1, which costs at most 1 more.
    """
    fewer = no_best(len(best.W) - 1, best.W.shape[1])
    _from_many(data, fewer, precision, starts, clock.part(options.fewer_time), deepcopy(rng), options)
    empty = np.zeros_like(best.W[:1])
    empty[0, -1] = -1.0
    W = np.vstack([fewer.W, empty])
    face = np.zeros(data.npos, dtype=np.int64)
    best.offer(total_cost(data, W, face), W)
    _alternate_from(data, best, precision, face, clock)


def _from_dual(data: Samples, best: Best, clock: Clock, seed: int, options: Options) -> None:
    """Offer the results of dual ascents; with a time limit, batches of ascents until it is reached.

    In many dimensions a face can separate almost any samples assigned to it, so alternation from random faces
    ends early; dual ascents with loosened assignments end at lower costs.
    """
    problem, part = _problem(data, len(best.W)), clock.part(options.ascents_time)
    for number in range(1 if clock.left is None else options.max_batches):
        if number > 0 and part.is_over:
            return
        left = part.left if number > 0 else clock.left  # one batch comes before all other starts
        solution = run_from_many_starts(
            [Stage(problem, options.max_rounds)], n_init=options.ascents, time_limit=left,
            seed=seed + number, n_jobs=1,
        )  # fmt: skip
        _offer_end(data, best, solution)


def _kick(
    data: Samples, best: Best, count: int, clock: Clock, rng: np.random.Generator, options: Options
) -> None:
    """Alternate from the incumbent after reassigning some positives, random or neighbouring ones.

    Alternation has many local minima; those near a good one are better than random ones. Every other kick
    reassigns more positives and is followed by a loosened dual ascent.
    """
    problem = _problem(data, len(best.W))
    for number in range(count if clock.left is None else options.max_batches * count):
        if clock.is_over:
            return
        is_loose = number % 2 == 1
        fraction = options.kicked_fraction_loose if is_loose else options.kicked_fraction
        face = _reassigned(data.points, best.W, fraction, rng)
        if is_loose:
            state = problem.loosen(np.concatenate([np.full(data.inside, -1), face]), clock.left)
            solution = run_rounds(problem, state, max_iter=options.max_rounds, time_limit=clock.left)
            _offer_end(data, best, solution)
            continue
        W = np.zeros_like(best.W)
        J = alternate(data, face, W, options.kick_tol * best.cost, clock)
        if options.max_cost_ratio * best.cost > J:
            J = alternate(data, face, W, options.end_tol * best.cost, clock)
        best.offer(J, W)


def _reassigned(points: Vector, W: Vector, largest: float, rng: np.random.Generator) -> "Assignment":
    """Return the natural assignment to W with a fraction, at most `largest`, of the positives reassigned."""
    face = (points @ W.T).argmax(axis=1)
    count = int(np.exp(rng.uniform(0.0, np.log(max(largest * len(points), 2.0)))))
    chosen = rng.choice(len(points), min(count, len(points)), replace=False)
    if rng.random() < 0.5:
        chosen = np.square(points - points[chosen[0]]).sum(axis=1).argsort()[:count]
    face[chosen] = rng.integers(0, len(W), len(chosen)) if rng.random() < 0.5 else rng.integers(0, len(W))
    return face


def _problem(data: Samples, n_faces: int) -> DualProblem:
    """Return the problem of the dual ascents. A tolerance of 1e-2 would end them at higher costs."""
    X = np.ascontiguousarray((data.y[:, None] * data.A)[:, :-1])
    return DualProblem(X, data.y, data.C, n_faces, tol=1e-4)


def _offer_end(data: Samples, best: Best, solution: Solution) -> None:
    """Offer the result of a dual ascent as incumbent."""
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    W = np.ascontiguousarray(solution["W"], dtype=float)
    best.offer(total_cost(data, W, np.zeros(data.npos, dtype=np.int64)), W)


def improve_by_columns(
    data: Samples, best: Best, clock: Clock, rng: np.random.Generator, options: Options = DEFAULT
) -> None:
    """Improve the incumbent by column generation.

    Alternation improves each face given the others; here the location program selects K of the faces of many
    starts, which are rounded to a candidate solution.
    """
    columns, idle = Columns(data, best, tol=1e-8, precision=1e-8), 0
    max_faces = float(np.sqrt(options.max_column_work / data.npos))
    columns.add_initial(clock, rng, max_faces)
    for _ in range(options.max_column_rounds):
        location = None if clock.is_over else columns.solve_prices(clock)
        if location is None or len(columns.W) >= max_faces:
            return
        before = len(columns.W)
        _add_columns(columns, location, max_faces, clock, rng, options)
        idle = 0 if len(columns.W) > before else idle + 1
        if idle == options.max_idle_rounds:
            return


def _add_columns(
    columns: Columns, location: Location, max_faces: float, clock: Clock, rng: np.random.Generator,
    options: Options = DEFAULT,
) -> None:  # fmt: skip
    """Add faces that cost less than all least_cost ones at the current prices (negative reduced cost).

    Every third trial starts from random positives.
    """
    npos, least_cost = columns.data.npos, columns.least_cost(location.prices) * (1.0 - TIE)
    largest = np.argsort(-location.weights, kind="stable")[: options.n_largest]
    starts = [columns.below_price(columns.W[t], location.prices) for t in largest]
    for number in range(options.column_trials):
        if clock.is_over or len(columns.W) >= max_faces:
            return
        positives = starts[rng.integers(len(starts))] ^ (
            rng.random(npos) < rng.choice(options.changed_fractions)
        )
        if number % 3 == 0:
            positives = rng.random(npos) < rng.random()
        w = priced_face(columns.data, location.prices, positives)
        if priced_cost(columns.data, location.prices, w) < least_cost:
            columns.add(w)
