"""The compiled steps of :mod:`polyopt.solvers.l0.tree`: nodes looked into one after the other.

A node takes some dozens of microseconds. The steps that a trial of a centre has made are kept: where that
centre is chosen, its children go on from there. A program that the steps of
:mod:`polyopt.solvers.l0.pivots` fail in is left to the caller, who asks HiGHS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.compiled import borrowed, njit
from polyopt.operands import put
from polyopt.solvers.l0.basis import Given, State, copy, joined, load, within
from polyopt.solvers.l0.node import FREE, OFF, ON, PERTURBATION, Problem, prove
from polyopt.solvers.l0.open_nodes import (
    BASE,
    BEST_OFF,
    BEST_ON,
    CENTRE,
    CLOSED,
    DONE_SIDES,
    MOST,
    NODES,
    NUMBER,
    OFF_PLACE,
    OFF_SIDE,
    ON_PLACE,
    ON_SIDE,
    PATTERN,
    SPARE,
    STEPS,
    Desk,
    Memory,
    Nodes,
    enough,
    first,
    largest,
    least,
    offer,
    opened,
    pick,
    taken,
)  # fmt: skip
from polyopt.solvers.l0.pivots import FAILED, OPTIMAL, STOPPED, pivot_to_optimum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Marks = NDArray[np.int8]

__all__ = [
    "DONE", "FULL", "LIMIT", "LOST", "PAUSE", "adopt", "close", "first_open", "grow", "plant", "proven",
]  # fmt: skip

# Reliability branching, its rows and columns, and its rounding. None of these is critical: on five problems
# of 69 to 114 samples, 50 to 1,011 nodes each, any one of them at a third or less, and at two and a half
# times or more, made 20 % fewer to 45 % more nodes; all five together took 0.9 to 1.2 times as long.
_RELIABLE_GAINS = 4  # gains of a centre's children seen, from which on it is not tried any more
_TRIES = 12  # centres tried at a node at most, with few pivots each
_PIVOTS = 40  # of such a trial, at most
_MAX_IDLE_CENTRES = 6  # centres in a row that are no better, after which the best so far is taken
_MIN_REL_RISE = 1e-3  # of a gap: a rise of less counts as this much
_ROUNDING = (0.0, 0.25, 0.5, 0.75)  # a centre is on where its coefficient, in units of the cap, is over this
_FIRST, _EVERY = 3, 5  # nodes at which each of these is tried; then one of them at every fifth
BOTH, NEITHER = 2, 3  # sides that are left of a centre, beside 0 and 1 for one of them
_STEPS = 20  # for each row and column, after which a program is given up

# How a run ended.
DONE, PAUSE, LIMIT, FULL, LOST = 0, 1, 2, 3, 4


@njit(cache=True)
def plant(of: Problem, given: Given, nodes: Nodes, memory: Memory, desk: Desk, fixed: Marks) -> bool:
    """Solve a node's program, from the first of the desk's states, and open it; whether it was solved.

    Its multipliers are the state's. The node of a pattern has nothing to decide: its point is offered.
    """
    of, given, nodes = borrowed(of), borrowed(given), borrowed(nodes)
    memory, desk, fixed = borrowed(memory), borrowed(desk), borrowed(fixed)
    base = pick(desk, BASE)
    _decide(given, desk, fixed)
    ended = _run(given, memory, desk, base, _most(desk), np.inf)
    if ended != OPTIMAL:
        return False
    bound = max(prove(of, fixed, base.u, desk.rates), 0.0)
    if opened(of, given, nodes, memory, fixed, base, ended, bound, desk.rates) >= 0:
        _round(of, given, memory, desk, base)
    return True


@njit(cache=True)
def adopt(
    of: Problem, given: Given, nodes: Nodes, memory: Memory, desk: Desk, fixed: Marks, place: int,
    least: float, is_solved: bool,
) -> None:  # fmt: skip
    """Open a node whose program was solved elsewhere, or left unsolved.

    The desk's state at `place` has a basis to begin from, multipliers, a and b; the node's scores are known
    to be `least` or more.
    """
    of, given, nodes = borrowed(of), borrowed(given), borrowed(nodes)
    memory, desk, fixed = borrowed(memory), borrowed(desk), borrowed(fixed)
    at = pick(desk, place)
    bound = max(prove(of, fixed, at.u, desk.rates), least)
    opened(of, given, nodes, memory, fixed, at, OPTIMAL if is_solved else FAILED, bound, desk.rates)


@njit(cache=True)
def first_open(nodes: Nodes) -> int:
    """The slot of the node to look into next, -1 if none is open."""
    return first(borrowed(nodes))


@njit(cache=True)
def close(nodes: Nodes, slot: int) -> None:
    """Take out the first open node, or any of the stack."""
    taken(borrowed(nodes), slot)


@njit(cache=True)
def grow(of: Problem, given: Given, nodes: Nodes, memory: Memory, desk: Desk, steps: int) -> int:
    """Look into nodes until nothing is open, a limit is reached, or so many steps are made.

    of, given: the data, and the program as the steps take it.
    nodes, memory, desk: the search as it stands, and room to work in.
    steps: steps after which to pause; a node begun is brought to its end.
    Returns: DONE; PAUSE; LIMIT of the nodes; FULL, where more slots are needed; LOST, where a program of the
        first open node failed, of which ``memory.looked`` says how far it came.
    """
    of, given, nodes = borrowed(of), borrowed(given), borrowed(nodes)
    memory, desk = borrowed(memory), borrowed(desk)
    until = memory.counts[STEPS] + steps
    while True:
        slot = first(nodes)
        if slot < 0 or least(nodes, memory) >= enough(memory):
            return DONE
        if nodes.bound[slot] >= enough(memory):
            memory.values[CLOSED] = min(memory.values[CLOSED], nodes.bound[slot])
            taken(nodes, slot)
            continue
        if memory.counts[NODES] >= memory.counts[MOST]:
            return LIMIT
        if nodes.counts[SPARE] < 2:
            return FULL
        if memory.counts[STEPS] >= until:
            return PAUSE
        if not _branch(of, given, nodes, memory, desk, slot):
            return LOST


@njit(cache=True)
def proven(nodes: Nodes, memory: Memory) -> float:
    """The proven lower bound on every score."""
    return least(nodes, memory)


@within
def _decide(given: Given, desk: Desk, fixed: Marks) -> None:
    """Set the caps and the marks of a node."""
    for j in range(len(fixed)):
        given.cap[j] = 0.0 if fixed[j] == OFF else given.full[j]
        desk.marks[j] = 1 if fixed[j] == ON else 0
    put(fixed, desk.fixed)


@within
def _side(given: Given, desk: Desk, j: int, side: int) -> None:
    """Decide a free centre, off (0) or on (1), or free it again (2)."""
    given.cap[j] = 0.0 if side == 0 else given.full[j]
    desk.marks[j] = 1 if side == 1 else 0


@within
def _most(desk: Desk) -> int:
    """Steps after which a program is given up."""
    return _STEPS * (desk.states.s.shape[1] + desk.states.d.shape[1])


@within
def _run(given: Given, memory: Memory, desk: Desk, at: State, most: int, cutoff: float) -> int:
    """Steps from a state; each counts."""
    at.sizes[2] = 0
    ended = pivot_to_optimum(given, at, desk.marks, most, cutoff)
    memory.counts[STEPS] += at.sizes[2] + 1
    return ended


@joined
def _branch(of: Problem, given: Given, nodes: Nodes, memory: Memory, desk: Desk, slot: int) -> bool:
    """Decide one centre more of a node, and open what is left of both; whether all programs were solved."""
    base, bound = pick(desk, BASE), nodes.bound[slot]
    _decide(given, desk, nodes.fixed[slot])
    put(nodes.rows[slot], base.rows)
    put(nodes.cols[slot], base.cols)
    put(nodes.on[slot], base.on)
    memory.looked[NUMBER], memory.looked[CENTRE], memory.looked[DONE_SIDES] = nodes.number[slot], -1, 0
    if not load(given, base):
        return False
    memory.counts[STEPS] += base.sizes[0]
    is_known = _share(given, desk, base)
    if not is_known:  # the node was adopted, with a basis that is not its own
        is_known = _run(given, memory, desk, base, _most(desk), np.inf) == OPTIMAL
        is_known = is_known and _share(given, desk, base)
    if not is_known:
        return False
    j, sides, off, on = _choose(of, given, memory, desk, bound)
    memory.looked[CENTRE], memory.looked[OFF_PLACE], memory.looked[ON_PLACE] = j, off, on
    memory.counts[NODES] += 1
    for side in range(2):
        if sides in (BOTH, side):
            at = pick(desk, on if side else off)
            if not _child(of, given, nodes, memory, desk, at, j, side, bound):
                return False
        memory.looked[DONE_SIDES] = side + 1
    taken(nodes, slot)
    return True


@within
def _share(given: Given, desk: Desk, base: State) -> bool:
    """Note which free centres a node's point uses in part, -1 for the others; whether there is one."""
    for j in range(len(desk.shares)):
        share = base.a[j] / given.full[j]
        desk.shares[j] = share if desk.fixed[j] == FREE and 0.0 < share < 1.0 else -1.0
    return desk.shares[largest(desk.shares)] > 0.0


@joined
def _choose(of: Problem, given: Given, memory: Memory, desk: Desk, bound: float) -> tuple[int, int, int, int]:
    """The centre to decide, which of off (0) and on (1) may have scores under the best, and their states."""
    p, gap = len(desk.shares), enough(memory) - bound
    worth = _worths(memory, desk, gap)
    chosen, most, tries, since = largest(worth), -1.0, 0, 0
    off, on, best_off, best_on = OFF_SIDE, ON_SIDE, BEST_OFF, BEST_ON
    copy(pick(desk, BASE), pick(desk, best_off))
    copy(pick(desk, BASE), pick(desk, best_on))
    for _ in range(p):
        j = largest(worth)
        value, worth[j] = worth[j], -1.0
        if value < 0.0 or since >= _MAX_IDLE_CENTRES:
            break
        if min(memory.seen[0, j], memory.seen[1, j]) < _RELIABLE_GAINS and tries < _TRIES:
            tries += 1
            value, sides = 1.0, BOTH
            for side in range(2):
                at = pick(desk, on if side else off)
                found = _tried(of, given, memory, desk, at, j, side, bound)
                if found == np.inf:
                    sides = 1 - side if sides == BOTH else NEITHER
                value *= _clipped(found - bound, gap)
            if sides != BOTH:
                return j, sides, off, on
            if value > most:
                off, best_off, on, best_on = best_off, off, best_on, on
        elif value > most:
            copy(pick(desk, BASE), pick(desk, best_off))
            copy(pick(desk, BASE), pick(desk, best_on))
        since += 1
        if value > most:
            chosen, most, since = j, value, 0
    return chosen, BOTH, best_off, best_on


@within
def _clipped(rise: float, gap: float) -> float:
    return min(max(rise, _MIN_REL_RISE * gap), gap)


@within
def _worths(memory: Memory, desk: Desk, gap: float) -> Vector:
    """Expected product of gains of deciding each centre, -1 for those that are not used in part."""
    usual, worth = np.ones(2), np.empty(len(desk.shares))
    for side in range(2):
        gain, seen = 0.0, 0.0
        for j in range(len(worth)):
            gain += memory.gain[side, j]
            seen += memory.seen[side, j]
        if seen > 0.0:
            usual[side] = gain / seen
    for j in range(len(worth)):
        share = desk.shares[j]
        worth[j] = -1.0
        if share > 0.0:
            worth[j] = 1.0
            for side in range(2):
                seen = memory.seen[side, j]
                gain = memory.gain[side, j] / seen if seen > 0.0 else usual[side]
                worth[j] *= _clipped(gain * (1.0 - share if side else share), gap)
    return worth


@within
def _learn(memory: Memory, desk: Desk, j: int, side: int, rise: float, gap: float) -> None:
    """Remember by how much deciding a centre raises the bound, for each unit that it moves."""
    moved = 1.0 - desk.shares[j] if side else desk.shares[j]
    memory.gain[side, j] += min(max(rise, 0.0), gap) / max(moved, 1e-3)
    memory.seen[side, j] += 1.0


@joined
def _tried(
    of: Problem, given: Given, memory: Memory, desk: Desk, at: State, j: int, side: int, bound: float
) -> float:
    """The bound after some steps with one centre more decided; infinite if it reaches the goal."""
    goal = enough(memory)
    copy(pick(desk, BASE), at)
    _side(given, desk, j, side)
    ended = _run(given, memory, desk, at, np.int64(_PIVOTS), goal + 4.0 * PERTURBATION * abs(goal))
    _side(given, desk, j, np.int64(2))
    if ended == FAILED:
        copy(pick(desk, BASE), at)
        return bound
    value = at.rest[1]
    if value >= goal:
        marked = desk.fixed.copy()
        marked[j] = ON if side else OFF
        proven = prove(of, marked, at.u, desk.rates)
        if proven >= goal:
            memory.values[CLOSED] = min(memory.values[CLOSED], proven)
            value = np.inf
    _learn(memory, desk, j, side, value - bound, goal - bound)
    return value


@joined
def _child(
    of: Problem, given: Given, nodes: Nodes, memory: Memory, desk: Desk, at: State, j: int, side: int,
    bound: float,
) -> bool:  # fmt: skip
    """Solve the program of a child, from what was tried of it, and open its node; whether it was solved."""
    goal = enough(memory)
    cutoff = goal + 4.0 * PERTURBATION * abs(goal)
    marked = desk.fixed.copy()
    marked[j] = ON if side else OFF
    _side(given, desk, j, side)
    ended = _run(given, memory, desk, at, _most(desk), cutoff)
    well = ended == OPTIMAL or (ended == STOPPED and at.rest[1] >= cutoff)
    own = prove(of, marked, at.u, desk.rates)
    if well and ended != OPTIMAL and own < goal:  # stopped at what is not quite proven
        ended = _run(given, memory, desk, at, _most(desk), np.inf)
        well = ended == OPTIMAL
        own = prove(of, marked, at.u, desk.rates)
    _side(given, desk, j, np.int64(2))
    if not well:
        return False
    _learn(memory, desk, j, side, own - bound, goal - bound)
    own = max(own, bound)
    slot = opened(of, given, nodes, memory, marked, at, ended, own, desk.rates)
    if slot >= 0 and (memory.counts[NODES] <= _FIRST or memory.counts[NODES] % _EVERY == 0):
        _round(of, given, memory, desk, at)
    return True


@within
def _round(of: Problem, given: Given, memory: Memory, desk: Desk, at: State) -> None:
    """Try the patterns of the larger coefficients: all at the first nodes, then one now and then."""
    before, sigma, number = desk.fixed.copy(), desk.fixed.copy(), memory.counts[NODES]
    for turn in range(len(_ROUNDING)):
        if number > _FIRST and turn != number // _EVERY % len(_ROUNDING):
            continue
        mark = np.int64(1469598103934665603)
        for j in range(len(sigma)):
            sigma[j] = ON if at.a[j] / given.full[j] > _ROUNDING[turn] else OFF
            mark = (mark ^ np.int64(sigma[j] + 3)) * np.int64(1099511628211)
        place = (mark >> 20) % len(memory.tried)
        if memory.tried[place] == mark:
            continue
        memory.tried[place] = mark
        spare, goal = pick(desk, PATTERN), enough(memory)
        copy(at, spare)
        _decide(given, desk, sigma)
        if _run(given, memory, desk, spare, _most(desk), goal + 4.0 * PERTURBATION * abs(goal)) == OPTIMAL:
            offer(of, given, memory, spare)
    _decide(given, desk, before)
