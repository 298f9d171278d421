"""Descent by flips: a centre off, a centre on, or one for another, as long as that lowers the score.

The multipliers of the pattern at hand tell which flips are worth a program. With r_j the rate at which the
loss falls as the cap of α_j rises, the cut of :func:`polyopt.certificates.l0.cut_of` says that

    S after i goes off  ≥  S − 1 + C² [r_i]_+,     S after j comes on  ≥  S + 1 − C² [r_j]_+,

and both together for a swap. The cuts of all programs solved before rule out most of what that leaves:
some dozens of programs prove that a whole neighbourhood, thousands of patterns, holds nothing better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from polyopt.outer.starts import TIE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.outer.l0_scores import Work
    from polyopt.solvers.clock import Clock
    from polyopt.solvers.l0_lp import CutPool, PatternLP, PatternSolution

    Bits = NDArray[np.bool_]

__all__ = ["Flipped", "descend_by_flips"]

_CHUNK = 16  # flips looked at between two looks at the cuts


@dataclass(frozen=True)
class Flipped:
    """Where a descent ended.

    Attributes
    ----------
    pattern : ndarray of bool, shape (p,)
        The pattern: the support of its coefficients.
    solution : PatternSolution
        Its program's.
    score : float
        Its score.
    moves : int
        Flips and swaps made.
    is_local_optimum : bool
        Whether no flip and no swap lowers the score by more than 1e-9 of it; else the time was up.
    """

    pattern: Bits
    solution: PatternSolution
    score: float
    moves: int
    is_local_optimum: bool


def descend_by_flips(model: PatternLP, pool: CutPool, pattern: Bits, *, clock: Clock, work: Work) -> Flipped:
    """Flip and swap centres until nothing is gained.

    Parameters
    ----------
    model : PatternLP
        Solves the programs.
    pool : CutPool
        Cuts known, to which it adds.
    pattern : ndarray of bool, shape (p,)
        Where to begin.
    clock : Clock
        When time is up, the best pattern so far is the answer.
    work : Work
        Counts the programs.
    """
    data = model.data

    def solve(pattern: Bits, cutoff: float | None = None) -> PatternSolution:
        found = model.solve(pattern, time_limit=clock.left, cutoff=cutoff)
        work.count(found)
        pool.add(*found.cut)
        return found

    def settle(found: PatternSolution) -> tuple[Bits, PatternSolution, float]:
        """The support, and its own program: only that one's multipliers tell of the support's neighbours."""
        while True:
            support = data.support(found.alpha)
            own = solve(support)
            if not np.isfinite(own.value):
                return support, found, data.score(found.alpha, found.b)
            if data.support(own.alpha).sum() == support.sum():
                return support, own, data.score(own.alpha, own.b)
            found = own

    first = solve(pattern)
    if not np.isfinite(first.value):  # HiGHS failed: what can be said of the pattern is said of none at all
        return Flipped(pattern, first, np.inf, 0, is_local_optimum=False)
    at, found, score = settle(first)
    refused: set[bytes] = set()
    moves = 0
    while True:
        aim = score - TIE * abs(score)
        better = None
        for flips in _worthwhile(at, data.C, found, aim):
            if clock.is_over:
                return Flipped(at, found, score, moves, is_local_optimum=False)
            neighbours = np.repeat(at[None], len(flips), axis=0)
            for neighbour, pair in zip(neighbours, flips, strict=True):
                neighbour[pair[pair >= 0]] ^= True
            bounds = neighbours.sum(axis=1) + data.C * pool.bounds(neighbours)
            for neighbour in neighbours[bounds < aim]:
                key = np.packbits(neighbour).tobytes()
                if key in refused:
                    continue
                refused.add(key)
                tried = solve(neighbour, cutoff=(aim - neighbour.sum()) / data.C)
                if np.isfinite(tried.value) and data.score(tried.alpha, tried.b) < aim:
                    better = tried
                    break
            if better is not None:
                break
        if better is None:
            return Flipped(at, found, score, moves, is_local_optimum=True)
        at, found, score = settle(better)
        moves += 1


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
