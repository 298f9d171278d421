"""The rounds of a search over logistic polytopes: structures first, then ridges, then fewer weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from formulations.language.clock import interrupted, is_out_of_time
from formulations.language.types import Array
from polyopt.polyhedral.logistic_descent import sizes_down_to
from polyopt.polyhedral.logistic_paths import Candidate, Paths

if TYPE_CHECKING:
    import pandas as pd

RIDGES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Ridges that are tried, times the weight of the samples."""


Structure = tuple[int, tuple[int, int]]  # knots, faces of each class


class SearchRounds:
    """The three rounds of a search (:class:`~polyopt.polyhedral.logistic_search.LogisticSearch`).

    `unit` is the weight of the samples, and `first` the number of the split of the first round. `tell` hears
    of the progress.
    """

    def __init__(
        self, paths: Paths, unit: float, n_splits: int, first: int, max_faces: int, max_numbers: int | None,
        n_knots: Sequence[int], tell: Callable[[dict[str, float]], object] | None,
    ):  # fmt: skip
        self.paths, self.unit, self.all, self.first = paths, unit, range(n_splits), [first]
        self.max_faces, self.max_numbers, self.tell = max_faces, max_numbers, tell
        self.n_knots = n_knots
        self.tried: list[Candidate] = []
        self.begun = time.perf_counter()

    def run(self) -> None:
        """Run all rounds within time and budget; Ctrl-C keeps the candidates that were tried whole."""
        try:
            for structure in self._first():
                self._second(structure)
            for structure in self._best_structures(self.all, 2):
                self._third(structure)
        except KeyboardInterrupt:
            interrupted()

    def best(self) -> Candidate | None:
        """Return the best candidate that is small enough, tried on all splits or else on the first."""
        for splits in (self.all, self.first):
            small = [c for c in self.tried if self.paths.tried(c, splits) and self._is_small(c, splits)]
            if small:
                return self._fullest(self._plainest(small, splits), small, splits)
        return None

    def _plainest(self, small: list[Candidate], splits: Sequence[int]) -> Candidate:
        """Return the best one, or the best with the fewest knots that is not clearly worse."""
        least = min(small, key=lambda c: self.paths.loss(c, splits))
        for count in self.n_knots:
            own = min(
                (c for c in small if c.n_knots == count),
                key=lambda c: self.paths.loss(c, splits),
                default=None,
            )
            if own is not None and not self._is_better(least, own):
                return own
        return least

    def _fullest(self, least: Candidate, small: list[Candidate], splits: Sequence[int]) -> Candidate:
        """Return the candidate with most weights on the same path that is not clearly worse.

        The least of many losses is low by chance, too: a difference within the error should not cost weights.
        """
        path = [c for c in small if c._replace(max_numbers=None) == least._replace(max_numbers=None)]
        near = [c for c in path if not self._is_better(least, c)]
        return max(near, key=lambda c: self.paths.numbers(c, splits))

    def table(self) -> pd.DataFrame:
        """Return the candidates that were tried, with their losses."""
        import pandas as pd

        columns = (
            "faces_of_first", "faces_of_second", "ridge", "knots", "splits", "numbers", "log_loss", "error"
        )  # fmt: skip
        rows = []
        for c in self.tried:
            # The part of a split that the first round has is told of where nothing else was tried.
            splits = [s for s in self.all if self.paths.tried(c, [s])] or self.first
            losses, weights = self.paths.losses(c, splits)
            rows.append(
                (*c.n_faces, c.ridge, c.n_knots, len(splits), self.paths.numbers(c, splits),
                 self.paths.loss(c, splits), _standard_error(losses, weights))
            )  # fmt: skip
        return pd.DataFrame(rows, columns=columns)

    def _first(self) -> list[Structure]:
        """Try every structure on the first split; beyond four faces only while the loss falls."""
        for n_knots in self.n_knots:
            faces, before = 1, None
            while faces <= self.max_faces:
                for n_faces in [(0, 1)] if faces == 1 else [(0, faces), (faces, 0), (faces, faces)]:
                    points = [Candidate(n_faces, ridge * self.unit, n_knots) for ridge in RIDGES]
                    self._follow(points, self.first)
                best = self._best_of([c for c in self.tried if c.n_knots == n_knots], self.first)
                if faces > 4 and (best is None or before is None or not self._is_better(best, before)):
                    break
                faces, before = 2 * faces, best
        return self._best_structures(self.first, 3)

    def _second(self, structure: Structure) -> None:
        """Try ridges around the best on all splits."""
        own = self._best_of(self._of(structure), self.first)
        if own is not None:
            at = self._place(own)
            near = RIDGES[max(at - 1, 0) : at + 2]
            self._follow([own._replace(ridge=ridge * self.unit) for ridge in near], self.all)

    def _third(self, structure: Structure) -> None:
        """Try fewer and fewer weights, at the best ridge and at the one below it."""
        own = self._best_of(self._of(structure), self.all)
        if own is None:
            return
        for ridge in RIDGES[max(self._place(own) - 1, 0) : self._place(own) + 1]:
            dense = own._replace(ridge=ridge * self.unit)
            if not self._follow([dense], self.all):
                return
            # By default four numbers for each face.
            least = 4 * sum(own.n_faces) if self.max_numbers is None else self.max_numbers
            sizes = sizes_down_to(max(least // 2, 1), self.paths.numbers(dense, self.all))
            points, best = [dense], dense
            for size in sorted({*sizes[1:], least}, reverse=True):
                points.append(dense._replace(max_numbers=size))
                if not self._follow(points, self.all):
                    return
                best = min(best, points[-1], key=lambda c: self.paths.loss(c, self.all))
                if size < least and self._is_better(best, points[-1], 2.0):
                    break

    def _of(self, structure: Structure) -> list[Candidate]:
        return [c for c in self.tried if (c.n_knots, c.n_faces) == structure and c.max_numbers is None]

    def _place(self, candidate: Candidate) -> int:
        return int(np.argmin([abs(candidate.ridge - ridge * self.unit) for ridge in RIDGES]))

    def _follow(self, points: Sequence[Candidate], splits: Sequence[int]) -> bool:
        whole = self.paths.follow(points, splits)
        self.tried += [c for c in points if c not in self.tried and self.paths.tried(c, splits[:1])]
        if self.tell is not None:
            self.tell({"fit": self.paths.made, "seconds": time.perf_counter() - self.begun})
        return whole and not is_out_of_time()

    def _best_of(self, candidates: Sequence[Candidate], splits: Sequence[int]) -> Candidate | None:
        known = [c for c in candidates if self.paths.tried(c, splits)]
        return min(known, key=lambda c: self.paths.loss(c, splits), default=None)

    def _best_structures(self, splits: Sequence[int], count: int) -> list[Structure]:
        """Return the best ones, the best of every number of knots, and the best of one face."""
        losses: dict[Structure, float] = {}
        for c in self.tried:
            if c.max_numbers is None and self.paths.tried(c, splits):
                key, loss = (c.n_knots, c.n_faces), self.paths.loss(c, splits)
                losses[key] = min(loss, losses.get(key, loss))
        ranked = sorted(losses, key=lambda each: losses[each])
        single = [each for each in ranked if each[1] == (0, 1)][:1]
        others = [next((each for each in ranked if each[0] == knots), None) for knots in self.n_knots]
        kept = ranked[:count]
        for each in (*others, *single):
            if each is not None and each not in kept:
                kept.append(each)
        return kept

    def _is_better(self, one: Candidate, other: Candidate, errors: float = 1.0) -> bool:
        """Return True if the loss is lower by more than so many standard errors of the difference."""
        splits = (
            self.all if self.paths.tried(one, self.all) and self.paths.tried(other, self.all) else self.first
        )
        (mine, weights), (theirs, _) = (self.paths.losses(c, splits) for c in (one, other))
        gain = float((theirs - mine) @ weights / weights.sum())
        return gain > errors * _standard_error(theirs - mine, weights)

    def _is_small(self, candidate: Candidate, splits: Sequence[int]) -> bool:
        return self.max_numbers is None or self.paths.numbers(candidate, splits) <= self.max_numbers


def _standard_error(values: Array, weights: Array) -> float:
    """Return the standard error of the weighted mean."""
    share = weights / weights.sum()
    mean = float(share @ values)
    return float(np.sqrt(share**2 @ (values - mean) ** 2))
