"""Paths of logistic polytopes on the splits of a search, each point from the last and judged on test data.

A path first raises the ridge, and then, from one of its points, weights go, those first that cost the least
to lose. Either way a few steps lead from one point to the next. Every split and every structure begins at
random starts of its own, which see nothing of the test part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.class_faces import Owners, shortfall
from formulations.language.clock import Clock, is_out_of_time
from formulations.language.types import Array, Matrix
from formulations.polyhedral import scores
from polyopt.polyhedral.logistic_descent import OPTIONS, descend, eliminate, numbers_of
from polyopt.polyhedral.logistic_loss import FaceLoss, Units
from polyopt.polyhedral.logistic_polytopes import random_start


class Candidate(NamedTuple):
    """Settings to try.

    n_faces: the faces of the classes -1 and +1.
    ridge: ρ of a fit to all samples; a split has its share of it.
    n_knots: the knots of every feature (:class:`~polyopt.estimators.hinges.Hinges`).
    max_numbers: weights, biases and knots at most; by default any number.
    """

    n_faces: tuple[int, int]
    ridge: float
    n_knots: int = 0
    max_numbers: int | None = None


@dataclass(frozen=True)
class Split:
    """A binary problem of a split.

    X, y, c: samples (n, m) to train on, labels and weights.
    held: the same of the samples held out.
    share: the weight of the samples to train on over that of all.
    """

    X: Matrix
    y: Array
    c: Array
    held: tuple[Matrix, Array, Array]
    share: float


class Paths:
    """Candidates tried, with their faces and test losses on each split.

    splits: for each number of knots, and each split, its binary problems: one, or with more classes one for
        each pair.
    knots, signs, groups: for each number of knots, by feature, the numbers that it takes itself, the sign
        that the log-odds keep with it, and its group; None for none, none, and groups of one feature.
    seed, n_init: seed and number of the starts of each path, the best of which goes on.
    bias_ridge: η over ρ.
    prices: λ and τ of a fit to all samples.
    budget: points of paths at most, counted on each split.
    """

    def __init__(
        self, splits: Mapping[int, Sequence[Sequence[Split]]], knots: Mapping[int, Array | None],
        signs: Mapping[int, NDArray[np.int64] | None], groups: Mapping[int, NDArray[np.int64] | None],
        seed: int, n_init: int, bias_ridge: float, prices: tuple[float, float] = (0.0, 0.0),
        budget: int | None = None,
    ):  # fmt: skip
        self._splits, self._knots, self._signs, self._groups = splits, knots, signs, groups
        self._seed, self._n_init = seed, n_init
        self._bias, self._prices, self._budget = bias_ridge, prices, budget
        self._found: dict[tuple[Candidate, int], tuple[list[Array], Array, Array]] = {}
        self._units: dict[tuple[int, int, int], Units] = {}
        self.made = 0

    def follow(self, points: Sequence[Candidate], splits: Sequence[int]) -> bool:
        """Try candidates of one structure in turn, each from the one before.

        Return False if the run was over before the last one, or the budget spent.
        """
        for split in splits:
            before: list[Array] | None = None
            for candidate in points:
                known = self._found.get((candidate, split))
                if known is None:
                    if self._budget is not None and self.made >= self._budget:
                        return False
                    faces = self._descended(candidate, split, before)
                    if is_out_of_time():
                        return False
                    known = self._found[candidate, split] = (faces, *self._held(candidate, split, faces))
                    self.made += 1
                before = known[0]
        return True

    def losses(self, candidate: Candidate, splits: Sequence[int]) -> tuple[Array, Array]:
        """Return the log loss of every sample held out in these splits, and its weight."""
        found = [self._found[candidate, split] for split in splits]
        return np.concatenate([f[1] for f in found]), np.concatenate([f[2] for f in found])

    def loss(self, candidate: Candidate, splits: Sequence[int]) -> float:
        """Return the mean log loss of the samples held out."""
        losses, weights = self.losses(candidate, splits)
        return float(losses @ weights / weights.sum())

    def numbers(self, candidate: Candidate, splits: Sequence[int]) -> int:
        """Return the largest number of weights, biases and knots in use over the splits."""
        knots = self._knots[candidate.n_knots]
        return max(sum(numbers_of(W, knots) for W in self._found[candidate, s][0]) for s in splits)

    def tried(self, candidate: Candidate, splits: Sequence[int]) -> bool:
        """Return True if the candidate was tried on all of these splits."""
        return all((candidate, split) in self._found for split in splits)

    def faces(self, candidate: Candidate, split: int) -> list[Array]:
        """Return the candidate's faces for each binary problem."""
        return self._found[candidate, split][0]

    def _descended(self, candidate: Candidate, split: int, before: list[Array] | None) -> list[Array]:
        clock, found = Clock(None), []
        parts = self._splits[candidate.n_knots][split]
        for number, part in enumerate(parts):
            problem = self._problem(candidate, part, (candidate.n_knots, split, number))
            if before is None:
                W = self._begun(problem, (split, number), clock)
            elif candidate.max_numbers is None:
                sharp, count = (OPTIONS.sharp_softness,), OPTIONS.refit_max_iter
                W, _ = descend(problem, before[number], clock, softness=sharp, max_iter=count)
            else:
                most, knots = candidate.max_numbers // len(parts), self._knots[candidate.n_knots]
                W, _ = eliminate(problem, before[number], most, clock, knots)
            found.append(W)
        return found

    def _begun(self, problem: FaceLoss, key: tuple[int, int], clock: Clock) -> Array:
        """Return the best of some starts; penalties come in after it."""
        free, sharp = replace(problem, l1=0.0, group=0.0), (OPTIONS.sharp_softness,)
        single = max(problem.owners.minus, problem.owners.plus) <= 1
        ends = []
        for start in range(1 if single else self._n_init):
            W = random_start(free, np.random.default_rng([self._seed, *key, start]))
            ends.append(descend(free, W, clock, max_iter=OPTIONS.first_max_iter)[0])
        W = min(ends, key=free.value)
        if problem.l1 > 0.0 or problem.group > 0.0:
            W, _ = descend(problem, W, clock, softness=sharp, max_iter=OPTIONS.refit_max_iter)
        return W

    def _problem(self, candidate: Candidate, part: Split, key: tuple[int, int, int]) -> FaceLoss:
        ridge, (l1, group) = candidate.ridge * part.share, (part.share * price for price in self._prices)
        problem = FaceLoss(
            part.X, part.y, part.c, Owners(*candidate.n_faces), ridge, self._bias * ridge, l1,
            signs=self._signs[candidate.n_knots], group=group, groups=self._groups[candidate.n_knots],
            known_units=self._units.get(key),
        )  # fmt: skip
        self._units[key] = problem.units
        return problem

    def _held(self, candidate: Candidate, split: int, faces: Sequence[Array]) -> tuple[Array, Array]:
        owners, losses, weights = Owners(*candidate.n_faces), [], []
        for part, W in zip(self._splits[candidate.n_knots][split], faces, strict=True):
            X, y, c = part.held
            losses.append(np.logaddexp(0.0, shortfall(y, scores(X, W), owners)))
            weights.append(c)
        return np.concatenate(losses), np.concatenate(weights)
