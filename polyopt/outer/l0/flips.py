"""Descent by flips: a centre off, a centre on, or one for another, as long as that lowers the score.

The multipliers of the pattern at hand tell which flips are worth a program. With r_j the rate at which the
loss falls as the cap of α_j rises, the cut of :func:`polyopt.certificates.l0.cut_of` says that

    S after i goes off  ≥  S − 1 + C² [r_i]_+,     S after j comes on  ≥  S + 1 − C² [r_j]_+,

and both together for a swap. The cuts of all programs solved before rule out most of what that leaves:
some dozens of programs prove that a whole neighbourhood, thousands of patterns, holds nothing better.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.clock import interrupted
from formulations.solution import Status
from polyopt.outer.cross_entropy.patterns import with_ties
from polyopt.outer.starts import TIE
from polyopt.solvers.l0.lp import PatternLP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.outer.l0.scores import Work
    from polyopt.solvers.clock import Clock
    from polyopt.solvers.l0.cuts import CutPool
    from polyopt.solvers.l0.lp import PatternSolution

    Bits = NDArray[np.bool_]

__all__ = ["Flipped", "descend_by_flips"]

_CHUNK = 16  # flips looked at between two looks at the cuts


@dataclass(frozen=True)
class Flipped:
    """Where a descent ended.

    pattern (p,): the pattern: the support of its coefficients.
    solution: its program's; or that of a larger pattern, where its own came to nothing better.
    score: its score.
    moves: flips and swaps made.
    is_local_optimum: whether no flip and no swap lowers the score by more than 1e-9 of it, as far as the
        programs' own optima go; else the time was up, or a neighbour's program has no answer.
    interrupted: whether Ctrl-C ended it.
    """

    pattern: Bits
    solution: PatternSolution
    score: float
    moves: int
    is_local_optimum: bool
    interrupted: bool = False


def descend_by_flips(model: PatternLP, pool: CutPool, pattern: Bits, *, clock: Clock, work: Work) -> Flipped:
    """Flip and swap centres until nothing is gained.

    Where it ends depends on the pattern alone, not on the cuts known nor on what the model has solved: those
    rule out what is no better, and each pattern moved to is solved from nothing.

    model: solves the programs.
    pool: cuts known, to which it adds.
    pattern (p,): where to begin.
    clock: when time is up, the best pattern so far is the answer; so it is after Ctrl-C, once there is one.
    work: counts the programs.
    """
    descent = _Descent(model, pool, clock, work)
    here = descent.settle(pattern, 0)
    if not np.isfinite(here.score):
        return here
    try:
        while True:
            there = descent.step(here)
            if there.moves == here.moves:
                return there
            here = there
    except KeyboardInterrupt:
        interrupted()
        return replace(here, interrupted=True)


class _Descent:
    """What a descent knows: its programs' model, the cuts, and the patterns that were no better."""

    def __init__(self, model: PatternLP, pool: CutPool, clock: Clock, work: Work):
        self.data, self.model, self.pool, self.clock, self.work = model.data, model, pool, clock, work
        self.apart = PatternLP(model.data)
        self.refused: set[bytes] = set()

    def settle(self, pattern: Bits, moves: int, best: PatternSolution | None = None) -> Flipped:
        """The support, and its own program: only that one's multipliers tell of the support's neighbours.

        Not worse than the solution given, which need not be the one that another basis leads to.
        """
        data = self.data
        while True:
            own = self._learn(self.apart.prepare(pattern, time_limit=self.clock.left))
            if best is not None and not self._score(own) <= with_ties(self._score(best)):
                break
            if not np.isfinite(own.value):  # of what HiGHS failed in, nothing can be said
                return Flipped(pattern, own, np.inf, moves, is_local_optimum=False)
            best, size = own, pattern.sum()
            pattern = data.support(own.alpha)
            if pattern.sum() == size:
                break
        return Flipped(data.support(best.alpha), best, self._score(best), moves, is_local_optimum=False)

    def step(self, here: Flipped) -> Flipped:
        """The first better neighbour; without one, or without time to find it, where it was."""
        aim = here.score - TIE * abs(here.score)
        is_proven = True
        for flips in _worthwhile(here.pattern, self.data.C, here.solution, aim):
            if self.clock.is_over:
                return here
            for neighbour in self._promising(here.pattern, flips, aim):
                better, is_no_better = self._try(neighbour, here.moves + 1, aim)
                if better is not None:
                    return better
                is_proven &= is_no_better
        return replace(here, is_local_optimum=is_proven)

    def _promising(self, pattern: Bits, flips: NDArray[np.intp], aim: float) -> Bits:
        """The neighbours that these flips lead to, except those that a cut rules out."""
        neighbours = np.repeat(pattern[None], len(flips), axis=0)
        for neighbour, pair in zip(neighbours, flips, strict=True):
            neighbour[pair[pair >= 0]] ^= True
        bounds = neighbours.sum(axis=1) + self.data.C * self.pool.bounds(neighbours)
        return neighbours[bounds < aim]

    def _try(self, neighbour: Bits, moves: int, aim: float) -> tuple[Flipped | None, bool]:
        """Where a neighbour leads if it is better; if it is not, whether that is proven."""
        key = np.packbits(neighbour).tobytes()
        if key in self.refused:
            return None, True
        cutoff = (aim - neighbour.sum()) / self.data.C
        tried = self._learn(self.model.solve(neighbour, time_limit=self.clock.left, cutoff=cutoff))
        # Not the score of its support: where there are several, it depends on the basis which one is found.
        if self.data.pattern_score(neighbour, tried.value) < aim:
            settled = self.settle(neighbour, moves, tried)
            return (settled, True) if settled.score < aim else (None, False)
        if tried.status not in (Status.SOLVED, Status.CUT_OFF):
            return None, False
        self.refused.add(key)
        return None, True

    def _learn(self, found: PatternSolution) -> PatternSolution:
        self.work.count(found)
        self.pool.add(*found.cut)
        return found

    def _score(self, found: PatternSolution) -> float:
        return self.data.score(found.alpha, found.b) if np.isfinite(found.value) else np.inf


def _worthwhile(at: Bits, C: float, found: PatternSolution, aim: float) -> list[NDArray[np.intp]]:
    """Flips that the pattern's own cut does not rule out, the most promising first, some at a time.

    Each is a pair (i, j): i goes off, j comes on; -1 stands for none.
    """
    constant, slopes = found.cut
    here = at.sum() + C * (constant - float(slopes[at].sum()))
    on, off = np.flatnonzero(at), np.flatnonzero(~at)
    loses, gains = C * slopes[on] - 1.0, C * slopes[off] - 1.0
    swaps, offs, ons = loses[:, None] - gains[None, :], loses[:, None], -gains[None, :]
    after = here + np.block([[swaps, offs], [ons, np.full((1, 1), np.inf)]])
    i, j = np.nonzero(after < aim)
    order = np.argsort(after[i, j], kind="stable")
    pairs = np.column_stack([np.append(on, -1)[i], np.append(off, -1)[j]])[order]
    return [pairs[start : start + _CHUNK] for start in range(0, len(pairs), _CHUNK)]
