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

from formulations.solution import Status
from polyopt.outer.cross_entropy.patterns import with_ties
from polyopt.outer.starts import TIE
from polyopt.solvers.l0.lp import PatternLP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.outer.l0.scores import Work
    from polyopt.solvers.clock import Clock
    from polyopt.solvers.l0.lp import CutPool, PatternSolution

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
        Its program's; or that of a larger pattern, where its own came to nothing better.
    score : float
        Its score.
    moves : int
        Flips and swaps made.
    is_local_optimum : bool
        Whether no flip and no swap lowers the score by more than 1e-9 of it, as far as the programs' own
        optima go; else the time was up, or a neighbour's program has no answer.
    interrupted : bool
        Whether Ctrl-C ended it.
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

    Parameters
    ----------
    model : PatternLP
        Solves the programs.
    pool : CutPool
        Cuts known, to which it adds.
    pattern : ndarray of bool, shape (p,)
        Where to begin.
    clock : Clock
        When time is up, the best pattern so far is the answer; so it is after Ctrl-C, once there is one.
    work : Work
        Counts the programs.
    """
    data = model.data
    apart = PatternLP.of(data)

    def learn(found: PatternSolution) -> PatternSolution:
        work.count(found)
        pool.add(*found.cut)
        return found

    def score(found: PatternSolution) -> float:
        return data.score(found.alpha, found.b) if np.isfinite(found.value) else np.inf

    def settle(pattern: Bits, moves: int, best: PatternSolution | None = None) -> Flipped:
        """The support, and its own program: only that one's multipliers tell of the support's neighbours.

        Not worse than the solution given, which need not be the one that another basis leads to.
        """
        while True:
            own = learn(apart.prepare(pattern, time_limit=clock.left))
            if best is not None and not score(own) <= with_ties(score(best)):
                break
            if not np.isfinite(own.value):  # of what HiGHS failed in, nothing can be said
                return Flipped(pattern, own, np.inf, moves, is_local_optimum=False)
            best, size = own, pattern.sum()
            pattern = data.support(own.alpha)
            if pattern.sum() == size:
                break
        return Flipped(data.support(best.alpha), best, score(best), moves, is_local_optimum=False)

    here = settle(pattern, 0)
    if not np.isfinite(here.score):
        return here
    refused: set[bytes] = set()
    try:
        while True:
            aim = here.score - TIE * abs(here.score)
            better: Flipped | None = None
            is_proven = True
            for flips in _worthwhile(here.pattern, data.C, here.solution, aim):
                if clock.is_over:
                    return here
                neighbours = np.repeat(here.pattern[None], len(flips), axis=0)
                for neighbour, pair in zip(neighbours, flips, strict=True):
                    neighbour[pair[pair >= 0]] ^= True
                bounds = neighbours.sum(axis=1) + data.C * pool.bounds(neighbours)
                for neighbour in neighbours[bounds < aim]:
                    key = np.packbits(neighbour).tobytes()
                    if key in refused:
                        continue
                    cutoff = (aim - neighbour.sum()) / data.C
                    tried = learn(model.solve(neighbour, time_limit=clock.left, cutoff=cutoff))
                    # Not the score of its support: where there are several, that is a matter of the basis.
                    if data.pattern_score(neighbour, tried.value) < aim:
                        settled = settle(neighbour, here.moves + 1, tried)
                        if settled.score < aim:
                            better = settled
                            break
                        is_proven = False
                    elif tried.status in (Status.OPTIMAL, Status.CUT_OFF):
                        refused.add(key)
                    else:
                        is_proven = False
                if better is not None:
                    break
            if better is None:
                return replace(here, is_local_optimum=is_proven)
            here = better
    except KeyboardInterrupt:
        return replace(here, interrupted=True)


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
