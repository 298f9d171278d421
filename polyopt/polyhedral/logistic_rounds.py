"""Model selection for logistic polytopes: fits of candidates on splits, and the three rounds of the search.

A candidate is a setting of the hyperparameters (:class:`Candidate`). Its structure is its number of knots and
the numbers of faces of the two classes. A split divides the samples into a training and a validation part,
and candidates are compared by the log loss of the validation samples.

A path is a sequence of candidates of one structure, each of which is the warm start of the next: first the
ridge rises, and then weights are removed, those first whose removal raises the loss the least. The random
starts of a path depend on its training part only.

:class:`CandidateFits` fits the candidates of paths on the splits; :class:`SearchRounds` chooses the paths.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.class_faces import BIAS_RIDGE, Owners, shortfall
from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock, interrupted, is_out_of_time
from formulations.language.types import Array, Matrix
from formulations.polyhedral import scores
from polyopt.base.progress import tell
from polyopt.polyhedral.logistic_descent import OPTIONS as DESCENT
from polyopt.polyhedral.logistic_descent import count_numbers, descend, eliminate, refit, sizes_down_to
from polyopt.polyhedral.logistic_loss import FaceLoss, Units
from polyopt.polyhedral.logistic_polytopes import random_start

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Options:
    """Numbers of the search."""

    rel_ridges: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # relative to the samples' total weight
    first_round_samples: int = 3000  # largest training part of the first round, which only ranks structures
    one_split_min_samples: int = 3000  # number of samples from which the default is one split
    three_folds_min_samples: int = 1000  # number from which it is three folds; below, five folds
    max_faces_always_tried: int = 4  # number of faces up to which the first round does not stop early
    second_round_structures: int = 3  # besides the best ones with one face and for each number of knots
    third_round_structures: int = 2  # likewise
    numbers_per_face: int = 4  # weights and biases aimed at in the third round, without `max_numbers`
    stop_errors: float = 2.0  # standard errors by which a loss must be higher to end the third round


OPTIONS = Options()


class Candidate(NamedTuple):
    """Settings of a fit."""

    n_faces: tuple[int, int]  # numbers of faces of the classes -1 and +1
    ridge: float  # ρ of a fit to all samples; on a split it is multiplied by the weight in training
    n_knots: int = 0  # number of knots of every feature (:class:`~polyopt.estimators.hinges.Hinges`)
    max_numbers: int | None = None  # largest number of nonzero weights, biases and knots; None: no limit


Structure = tuple[int, tuple[int, int]]  # number of knots, numbers of faces of the classes


# -- fits ------------------------------------------------------------------------------------------------


class BinarySplit(NamedTuple):
    """Training and validation part of a binary problem: samples (n, m), labels of -1 and +1, and weights."""

    X: Matrix
    y: Array
    c: Array
    X_validation: Matrix
    y_validation: Array
    c_validation: Array
    weight_share: float  # total weight of the training part over that of all samples


@dataclass(frozen=True)
class SplitFeatures:
    """The splits of the samples, with features for one number of knots."""

    problems: Sequence[Sequence[BinarySplit]]  # for each split its binary problems, one for each pair
    knots: Array | None  # (m,), number of knots in each feature; None without knots
    penalty: FacePenalty  # on the features, with λ and τ of a fit to all samples


class _Fit(NamedTuple):
    """Faces of each binary problem of a split, and log losses and weights (t,) of its validation samples."""

    faces: list[Array]
    losses: Array
    weights: Array


class CandidateFits:
    """Fits of candidates on the splits.

    features: the splits for each number of knots.
    seed, n_init: seed and number of the random starts of each path; the best of them is continued.
    budget: largest number of fits; None is no limit.
    """

    def __init__(
        self, features: Mapping[int, SplitFeatures], seed: int, n_init: int, budget: int | None = None
    ):
        self._features, self._seed, self._n_init, self._budget = features, seed, n_init, budget
        self._fits: dict[tuple[Candidate, int], _Fit] = {}
        self._units: dict[tuple[int, int, int], Units] = {}

    @property
    def count(self) -> int:
        """Number of fits so far."""
        return len(self._fits)

    def follow(self, path: Sequence[Candidate], splits: Sequence[int]) -> bool:
        """Fit the candidates of a path on each split, each from the faces of the one before.

        Return False if the time or the budget ended before the last candidate.
        """
        for split in splits:
            start: list[Array] | None = None
            for candidate in path:
                fit = self._fits.get((candidate, split))
                if fit is None:
                    if self._budget is not None and self.count >= self._budget:
                        return False
                    faces = self._fit_faces(candidate, split, start)
                    if is_out_of_time():
                        return False
                    fit = self._fits[candidate, split] = _Fit(faces, *self._validate(candidate, split, faces))
                start = fit.faces
        return True

    def losses(self, candidate: Candidate, splits: Sequence[int]) -> tuple[Array, Array]:
        """Return the log losses and the weights of all validation samples of these splits."""
        fits = [self._fits[candidate, split] for split in splits]
        return np.concatenate([fit.losses for fit in fits]), np.concatenate([fit.weights for fit in fits])

    def loss(self, candidate: Candidate, splits: Sequence[int]) -> float:
        """Return the mean log loss of the validation samples."""
        losses, weights = self.losses(candidate, splits)
        return float(losses @ weights / weights.sum())

    def numbers(self, candidate: Candidate, splits: Sequence[int]) -> int:
        """Return the largest number of weights, biases and knots in use over the splits."""
        knots = self._features[candidate.n_knots].knots
        return max(sum(count_numbers(W, knots) for W in self._fits[candidate, s].faces) for s in splits)

    def are_done(self, candidate: Candidate, splits: Sequence[int]) -> bool:
        """Return True if the candidate was fitted on all of these splits."""
        return all((candidate, split) in self._fits for split in splits)

    def faces(self, candidate: Candidate, split: int) -> list[Array]:
        """Return the candidate's faces for each binary problem."""
        return self._fits[candidate, split].faces

    def _fit_faces(self, candidate: Candidate, split: int, start: list[Array] | None) -> list[Array]:
        """Fit a candidate to each binary problem of a split: from `start`, or from random starts if None."""
        clock, faces = Clock(None), []
        features = self._features[candidate.n_knots]
        parts = features.problems[split]
        for number, part in enumerate(parts):
            problem = self._problem(candidate, part, (candidate.n_knots, split, number))
            if start is None:
                W = self._best_start(problem, (split, number), clock)
            elif candidate.max_numbers is None:
                W = refit(problem, start[number], clock)
            else:
                limit = candidate.max_numbers // len(parts)
                W, _ = eliminate(problem, start[number], limit, clock, features.knots)
            faces.append(W)
        return faces

    def _best_start(self, problem: FaceLoss, key: tuple[int, int], clock: Clock) -> Array:
        """Return the best of `n_init` descents without penalties, refitted with the penalties."""
        penalty = problem.penalty
        smooth = replace(problem, penalty=replace(penalty, l1=0.0, group=0.0))
        descents = []
        for number in range(1 if problem.is_convex else self._n_init):
            W = random_start(smooth, np.random.default_rng([self._seed, *key, number]))
            descents.append(descend(smooth, W, clock, max_iter=DESCENT.first_max_iter)[0])
        W = min(descents, key=smooth.value)
        return refit(problem, W, clock) if penalty.l1 > 0.0 or penalty.group > 0.0 else W

    def _problem(self, candidate: Candidate, part: BinarySplit, key: tuple[int, int, int]) -> FaceLoss:
        """Return the training problem of a candidate; `key` (knots, split, pair) is that of its units."""
        penalty, share = self._features[candidate.n_knots].penalty, part.weight_share
        ridge = candidate.ridge * share
        problem = FaceLoss(
            part.X, part.y, part.c, Owners(*candidate.n_faces), ridge, BIAS_RIDGE * ridge,
            replace(penalty, l1=share * penalty.l1, group=share * penalty.group),
            known_units=self._units.get(key),
        )  # fmt: skip
        self._units[key] = problem.units
        return problem

    def _validate(self, candidate: Candidate, split: int, faces: Sequence[Array]) -> tuple[Array, Array]:
        """Return the log losses and the weights of the validation samples of all binary problems."""
        owners, parts = Owners(*candidate.n_faces), self._features[candidate.n_knots].problems[split]
        losses = [
            np.logaddexp(0.0, shortfall(part.y_validation, scores(part.X_validation, W), owners))
            for part, W in zip(parts, faces, strict=True)
        ]
        return np.concatenate(losses), np.concatenate([part.c_validation for part in parts])


# -- rounds ----------------------------------------------------------------------------------------------


class SearchRounds:
    """The three rounds of a :class:`~polyopt.polyhedral.logistic_search.LogisticSearch`.

    weight: total weight of the samples, of which ridges are multiples.
    n_splits, first: number of splits, and the index of the split of the first round.
    max_faces, max_numbers, n_knots: as in the search.
    """

    def __init__(
        self, fits: CandidateFits, weight: float, n_splits: int, first: int, max_faces: int,
        max_numbers: int | None, n_knots: Sequence[int],
    ):  # fmt: skip
        self.fits, self.splits, self.first = fits, range(n_splits), [first]
        self.max_faces, self.max_numbers, self.n_knots = max_faces, max_numbers, n_knots
        self.ridges = [weight * ridge for ridge in OPTIONS.rel_ridges]
        self.candidates: list[Candidate] = []  # those that were fitted on some split, in order
        self.started = time.perf_counter()

    def run(self) -> None:
        """Run all rounds within the time and the budget; after Ctrl-C the fitted candidates remain."""
        try:
            for structure in self._try_structures():
                self._try_ridges(structure)
            for structure in self._best_structures(self.splits, OPTIONS.third_round_structures):
                self._remove_weights(structure)
        except KeyboardInterrupt:
            interrupted()

    def best(self) -> Candidate | None:
        """Return the best candidate within `max_numbers`, fitted on all splits or else on the first."""
        for splits in (self.splits, self.first):
            done = [c for c in self.candidates if self.fits.are_done(c, splits)]
            small = [c for c in done if self._is_small(c, splits)]
            if small:
                return self._with_most_weights(self._with_fewest_knots(small, splits), small, splits)
        return None

    def table(self) -> "pd.DataFrame":
        """Return the candidates that were tried, with their losses."""
        import pandas as pd

        columns = (
            "faces_of_first", "faces_of_second", "ridge", "knots", "splits", "numbers", "log_loss", "error"
        )  # fmt: skip
        rows = []
        for c in self.candidates:
            # The split of the first round is shown if the candidate was fitted on no other.
            splits = [s for s in self.splits if self.fits.are_done(c, [s])] or self.first
            losses, weights = self.fits.losses(c, splits)
            rows.append(
                (*c.n_faces, c.ridge, c.n_knots, len(splits), self.fits.numbers(c, splits),
                 self.fits.loss(c, splits), _standard_error(losses, weights))
            )  # fmt: skip
        return pd.DataFrame(rows, columns=columns)

    def _with_fewest_knots(self, small: list[Candidate], splits: Sequence[int]) -> Candidate:
        """Return the best candidate with the fewest knots that is not worse by a standard error."""
        best = self._best_of(small, splits)
        assert best is not None
        for count in self.n_knots:
            candidate = self._best_of([c for c in small if c.n_knots == count], splits)
            if candidate is not None and not self._is_better(best, candidate):
                return candidate
        return best

    def _with_most_weights(self, best: Candidate, small: list[Candidate], splits: Sequence[int]) -> Candidate:
        """Return the candidate with most weights on the best one's path, not worse by a standard error.

        The smallest of many losses is small partly by chance, so a difference within the error is no reason
        to remove weights.
        """
        path = [c for c in small if c._replace(max_numbers=None) == best._replace(max_numbers=None)]
        similar = [c for c in path if not self._is_better(best, c)]
        return max(similar, key=lambda c: self.fits.numbers(c, splits))

    def _try_structures(self) -> list[Structure]:
        """Fit every structure on the first split, with doubled numbers of faces; return the best structures.

        Beyond ``max_faces_always_tried`` this stops once the loss no longer falls by a standard error.
        """
        for n_knots in self.n_knots:
            faces, previous = 1, None
            while faces <= self.max_faces:
                for n_faces in [(0, 1)] if faces == 1 else [(0, faces), (faces, 0), (faces, faces)]:
                    self._follow([Candidate(n_faces, ridge, n_knots) for ridge in self.ridges], self.first)
                best = self._best_of([c for c in self.candidates if c.n_knots == n_knots], self.first)
                if faces > OPTIONS.max_faces_always_tried and (
                    best is None or previous is None or not self._is_better(best, previous)
                ):
                    break
                faces, previous = 2 * faces, best
        return self._best_structures(self.first, OPTIONS.second_round_structures)

    def _try_ridges(self, structure: Structure) -> None:
        """Fit a structure on all splits, at its best ridge and the two next to it."""
        best = self._best_of(self._dense_of(structure), self.first)
        if best is not None:
            index = self._ridge_index(best)
            ridges = self.ridges[max(index - 1, 0) : index + 2]
            self._follow([best._replace(ridge=ridge) for ridge in ridges], self.splits)

    def _remove_weights(self, structure: Structure) -> None:
        """Fit a structure with fewer and fewer weights, at its best ridge and at the one below it."""
        best_dense = self._best_of(self._dense_of(structure), self.splits)
        if best_dense is None:
            return
        index = self._ridge_index(best_dense)
        for ridge in self.ridges[max(index - 1, 0) : index + 1]:
            dense = best_dense._replace(ridge=ridge)
            if not self._follow([dense], self.splits):
                return
            target = self.max_numbers or OPTIONS.numbers_per_face * sum(dense.n_faces)
            sizes = sizes_down_to(max(target // 2, 1), self.fits.numbers(dense, self.splits))
            path, best = [dense], dense
            for size in sorted({*sizes[1:], target}, reverse=True):
                path.append(dense._replace(max_numbers=size))
                if not self._follow(path, self.splits):
                    return
                best = min(best, path[-1], key=lambda c: self.fits.loss(c, self.splits))
                if size < target and self._is_better(best, path[-1], OPTIONS.stop_errors):
                    break

    def _dense_of(self, structure: Structure) -> list[Candidate]:
        """Return the candidates of a structure with all weights."""
        return [c for c in self.candidates if (c.n_knots, c.n_faces) == structure and c.max_numbers is None]

    def _ridge_index(self, candidate: Candidate) -> int:
        return int(np.argmin([abs(candidate.ridge - ridge) for ridge in self.ridges]))

    def _follow(self, path: Sequence[Candidate], splits: Sequence[int]) -> bool:
        """Fit a path and note its candidates; return False if time or budget ended before its end."""
        is_complete = self.fits.follow(path, splits)
        self.candidates += [c for c in path if c not in self.candidates and self.fits.are_done(c, splits[:1])]
        tell({"fit": self.fits.count, "seconds": time.perf_counter() - self.started})
        return is_complete and not is_out_of_time()

    def _best_of(self, candidates: Sequence[Candidate], splits: Sequence[int]) -> Candidate | None:
        """Return the candidate with the least loss of those fitted on all these splits, if any."""
        done = [c for c in candidates if self.fits.are_done(c, splits)]
        return min(done, key=lambda c: self.fits.loss(c, splits), default=None)

    def _best_structures(self, splits: Sequence[int], count: int) -> list[Structure]:
        """Return the `count` best structures, the best for each number of knots, the best of one face."""
        losses: dict[Structure, float] = {}
        for c in self.candidates:
            if c.max_numbers is None and self.fits.are_done(c, splits):
                key, loss = (c.n_knots, c.n_faces), self.fits.loss(c, splits)
                losses[key] = min(loss, losses.get(key, loss))
        ranked = sorted(losses, key=lambda structure: losses[structure])
        best_of_knots = {n_knots: (n_knots, n_faces) for n_knots, n_faces in reversed(ranked)}
        with_knots = [best_of_knots[n_knots] for n_knots in self.n_knots if n_knots in best_of_knots]
        with_one_face = [structure for structure in ranked if structure[1] == (0, 1)][:1]
        return list(dict.fromkeys([*ranked[:count], *with_knots, *with_one_face]))

    def _is_better(self, candidate: Candidate, other: Candidate, errors: float = 1.0) -> bool:
        """Return True if the loss is lower by more than `errors` standard errors of the difference."""
        are_done = self.fits.are_done(candidate, self.splits) and self.fits.are_done(other, self.splits)
        splits = self.splits if are_done else self.first
        (losses, weights), (other_losses, _) = (self.fits.losses(c, splits) for c in (candidate, other))
        difference = other_losses - losses
        return float(difference @ weights / weights.sum()) > errors * _standard_error(difference, weights)

    def _is_small(self, candidate: Candidate, splits: Sequence[int]) -> bool:
        return self.max_numbers is None or self.fits.numbers(candidate, splits) <= self.max_numbers


def _standard_error(values: Array, weights: Array) -> float:
    """Return the standard error of the weighted mean."""
    normalised = weights / weights.sum()
    mean = float(normalised @ values)
    return float(np.sqrt(normalised**2 @ (values - mean) ** 2))
