"""The state of the search of :mod:`polyopt.solvers.l0.branch`: open nodes, its best point, gains seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyopt.operands import put
from polyopt.solvers.l0.basis import Given, State, empty_state, within
from polyopt.solvers.l0.node import FREE, OFF, ON, Problem
from polyopt.solvers.l0.pivots import OPTIMAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Marks = NDArray[np.int8]
    Numbers = NDArray[np.int64]

__all__ = [
    "BASE",
    "BEST",
    "BEST_OFF",
    "BEST_ON",
    "CENTRE",
    "CLOSED",
    "DEEPEST",
    "DONE_SIDES",
    "GOAL",
    "HEAP",
    "INTERCEPT_AT",
    "MADE",
    "MIN_COEFFICIENT",
    "MOST",
    "NODES",
    "NUMBER",
    "OFF_PLACE",
    "OFF_SIDE",
    "ON_PLACE",
    "ON_SIDE",
    "PATTERN",
    "ROOM",
    "SPARE",
    "STACK",
    "STEPS",
    "TOL",
    "Desk",
    "Memory",
    "Nodes",
    "desk_of",
    "enlarged",
    "enough",
    "first",
    "largest",
    "least",
    "memory_of",
    "nodes_of",
    "offer",
    "opened",
    "pick",
    "state_of",
    "taken",
]  # fmt: skip

# Places in Nodes.counts: nodes in the heap, on the stack, free slots, and how many nodes the heap may have.
HEAP, STACK, SPARE, ROOM = 0, 1, 2, 3
# Places in Memory.counts: nodes whose children were made, nodes opened, how many of the first at most, steps,
# and how many centres a node may decide. Where that last number is not 0, each decision is a node of its own.
NODES, MADE, MOST, STEPS, DEEPEST = 0, 1, 2, 3, 4
# Places in Memory.looked, about the node whose children were made last: its number, the centre decided (-1
# before), the places in Desk.states of its children with that centre off and on, and how many are dealt with.
NUMBER, CENTRE, OFF_PLACE, ON_PLACE, DONE_SIDES = 0, 1, 2, 3, 4
# Places in Memory.values: the best score, its intercept, the least bound of what is closed, the tolerance,
# and a bound that is enough.
BEST, INTERCEPT_AT, CLOSED, TOL, GOAL = 0, 1, 2, 3, 4
MIN_COEFFICIENT = 1e-9  # a coefficient under this share of its cap counts as none, as in formulations.l0_data
_REL_SCORE_ROUNDING = 1e-6  # of a score: its rounding


class Nodes(NamedTuple):
    """Open nodes in slots: what each decides and the basis of its program; heap and stack hold slots.

    ``fixed, cols, on`` (slots, p), ``rows`` (slots, n), ``bound, number`` (slots,), ``heap, stack, spare``
    (slots,), ``counts`` (4,).
    """

    fixed: Marks
    rows: Marks
    cols: Marks
    on: Marks
    bound: Vector
    number: Numbers
    heap: Numbers
    stack: Numbers
    spare: Numbers
    counts: Numbers


class Memory(NamedTuple):
    """Statistics: the best ``a`` (p,), and the gains of deciding each centre off or on so far.

    ``gain`` (2, p) are rises of the bound for each unit that the centre moved, ``seen`` (2, p) their numbers.
    ``tried`` has the patterns rounded to last, by their hashes; ``looked, counts, values`` are numbers.
    """

    a: Vector
    gain: Vector
    seen: Vector
    tried: Numbers
    looked: Numbers
    counts: Numbers
    values: Vector


# Places in Desk.states: of a node, of its two children, of the best two so far, and one for patterns.
BASE, OFF_SIDE, ON_SIDE, BEST_OFF, BEST_ON, PATTERN = 0, 1, 2, 3, 4, 5


class Desk(NamedTuple):
    """Room to work in.

    ``states`` are six, one above the other: each part has one dimension more. As tuples of their own they
    would be hundreds of numbers, which compiled code hands from function to function.
    """

    states: State
    fixed: Marks
    marks: Marks
    shares: Vector
    rates: Vector


def nodes_of(n: int, p: int, slots: int, room: int) -> Nodes:
    """Slots, all free."""
    return Nodes(
        np.zeros((slots, p), np.int8), np.zeros((slots, n), np.int8), np.zeros((slots, p), np.int8),
        np.zeros((slots, p), np.int8), np.zeros(slots), np.zeros(slots, np.int64), np.zeros(slots, np.int64),
        np.zeros(slots, np.int64), np.arange(slots)[::-1].copy(), np.array([0, 0, slots, room]),
    )  # fmt: skip


def enlarged(nodes: Nodes, slots: int) -> Nodes:
    """The same nodes among more slots."""
    old = len(nodes.bound)
    new = nodes_of(nodes.rows.shape[1], nodes.fixed.shape[1], slots, int(nodes.counts[ROOM]))
    for name in Nodes._fields:
        if name not in ("spare", "counts"):
            getattr(new, name)[:old] = getattr(nodes, name)
    more, kept = slots - old, int(nodes.counts[SPARE])
    new.spare[:kept], new.spare[kept : kept + more] = nodes.spare[:kept], np.arange(old, slots)
    new.counts[:] = nodes.counts
    new.counts[SPARE] += more
    return new


def memory_of(p: int, best: float, tol: float, most: int) -> Memory:
    """Nothing seen; a point of that score is known."""
    return Memory(
        np.zeros(p), np.zeros((2, p)), np.zeros((2, p)), np.zeros(256, np.int64), np.zeros(5, np.int64),
        np.array([0, 0, most, 0, 0]), np.array([best, np.nan, np.inf, tol, np.inf]),
    )  # fmt: skip


def desk_of(n: int, p: int) -> Desk:
    """Empty room."""
    parts: Any = (np.stack([part] * (PATTERN + 1)) for part in empty_state(n, p))
    states = State(*parts)
    return Desk(states, np.zeros(p, np.int8), np.zeros(p, np.int8), np.zeros(p), np.zeros((2, p)))


def state_of(desk: Desk, place: int) -> State:
    """One of the states, for Python."""
    parts: Any = (part[place] for part in desk.states)
    return State(*parts)


@within
def pick(desk: Desk, at: int) -> State:
    """One of the states."""
    of = desk.states
    return State(
        of.rows[at], of.cols[at], of.on[at], of.R[at], of.Q[at], of.W[at], of.u[at], of.s[at], of.d[at],
        of.a[at], of.of_rows[at], of.of_cols[at], of.sizes[at], of.rest[at],
    )  # fmt: skip


@within
def largest(of: Vector) -> int:
    """The place of the largest number."""
    found = 0
    for j in range(len(of)):
        if of[j] > of[found]:
            found = j
    return found


@within
def enough(memory: Memory) -> float:
    """A node of this bound need not be looked into."""
    return min(memory.values[BEST] * (1.0 - memory.values[TOL]), memory.values[GOAL])


@within
def least(nodes: Nodes, memory: Memory) -> float:
    """The proven lower bound on every score."""
    found = min(memory.values[CLOSED], memory.values[BEST])
    if nodes.counts[HEAP] > 0:
        found = min(found, nodes.bound[nodes.heap[0]])
    for at in range(nodes.counts[STACK]):
        found = min(found, nodes.bound[nodes.stack[at]])
    return found


@within
def _before(nodes: Nodes, one: int, other: int) -> bool:
    if nodes.bound[one] != nodes.bound[other]:
        return nodes.bound[one] < nodes.bound[other]
    return nodes.number[one] < nodes.number[other]


@within
def first(nodes: Nodes) -> int:
    """The slot of the node to look into next, -1 where none is open."""
    if nodes.counts[STACK] > 0:
        return nodes.stack[nodes.counts[STACK] - 1]
    return nodes.heap[0] if nodes.counts[HEAP] > 0 else -1


@within
def taken(nodes: Nodes, slot: int) -> None:
    """Take out a node, which is the first one of the heap or anywhere on the stack; its slot is free."""
    heap = nodes.heap
    nodes.spare[nodes.counts[SPARE]] = slot
    nodes.counts[SPARE] += 1
    if nodes.counts[HEAP] == 0 or heap[0] != slot:
        for at in range(nodes.counts[STACK]):
            if nodes.stack[at] == slot:
                nodes.counts[STACK] -= 1
                for later in range(at, nodes.counts[STACK]):
                    nodes.stack[later] = nodes.stack[later + 1]
                return
        return
    nodes.counts[HEAP] -= 1
    size = nodes.counts[HEAP]
    last, at = heap[size], 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(nodes, heap[child + 1], heap[child]):
            child += 1
        if not _before(nodes, heap[child], last):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last


@within
def _put(nodes: Nodes, slot: int) -> None:
    """Put a node on the heap, or on the stack once there is no more room."""
    if nodes.counts[STACK] > 0 or nodes.counts[HEAP] >= nodes.counts[ROOM]:
        nodes.stack[nodes.counts[STACK]] = slot
        nodes.counts[STACK] += 1
        return
    heap, at = nodes.heap, nodes.counts[HEAP]
    nodes.counts[HEAP] += 1
    while at > 0 and _before(nodes, slot, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = slot


@within
def offer(of: Problem, given: Given, memory: Memory, at: State) -> None:
    """Keep the point of a solved program, if its score is the best so far."""
    n, p = of.signed.shape
    a, s, score = np.zeros(p), np.zeros(n), 0.0
    for i in range(n):
        s[i] = of.y[i] * at.rest[0] - 1.0
    scaled = 0.0
    for j in range(p):
        a[j] = min(max(at.a[j] / given.full[j], 0.0), 1.0)
        if a[j] > MIN_COEFFICIENT:
            score += 1.0
            scaled = a[j] * given.full[j]
            for i in range(n):
                s[i] += scaled * given.columns[j, i]
        else:
            a[j] = 0.0
    for i in range(n):
        score += of.caps[i] * max(-s[i], 0.0)
    if score < memory.values[BEST]:
        memory.values[BEST], memory.values[INTERCEPT_AT] = score, at.rest[0]
        put(a, memory.a)


@within
def opened(
    of: Problem, given: Given, nodes: Nodes, memory: Memory, fixed: Marks, at: State, ended: int,
    bound: float, rates: Vector,
) -> int:  # fmt: skip
    """Open the node of a solved or stopped program, if there is anything left to decide; its slot, or -1.

    ``bound`` and ``rates`` are what its multipliers prove.
    """
    if ended == OPTIMAL:
        unpaid = 0.0
        for j in range(len(fixed)):
            if fixed[j] == FREE and at.a[j] > 0.0:
                unpaid += 1.0 - at.a[j] / given.full[j]
        # Its support, once paid for, is worth as much; what is certainly no better need not be evaluated.
        if bound + unpaid < memory.values[BEST] * (1.0 + _REL_SCORE_ROUNDING):
            offer(of, given, memory, at)
    goal, left, deepest, decided = enough(memory), 0, memory.counts[DEEPEST], 0
    for j in range(len(fixed)):
        decided += fixed[j] != FREE
    if bound < goal and (deepest == 0 or decided < deepest):
        for j in range(len(fixed)):
            if fixed[j] != FREE:
                continue
            # What the multipliers say of one centre more: on, it costs 1 and saves its rate at most.
            on, off = bound + 1.0 - max(rates[1, j], 0.0), bound + rates[0, j] - 1.0
            on -= 1e-15 * (abs(on) + abs(rates[1, j]) + 1.0)
            off -= 1e-15 * (abs(off) + abs(rates[0, j]) + 1.0)
            if deepest == 0 and on >= goal:
                fixed[j] = OFF
                memory.values[CLOSED] = min(memory.values[CLOSED], on)
            elif deepest == 0 and off >= goal:
                fixed[j] = ON
                memory.values[CLOSED] = min(memory.values[CLOSED], off)
            elif ended != OPTIMAL or 0.0 < at.a[j] < given.full[j]:
                left += 1
    if left == 0:  # of no use, or a leaf
        memory.values[CLOSED] = min(memory.values[CLOSED], bound)
        return -1
    nodes.counts[SPARE] -= 1
    slot = nodes.spare[nodes.counts[SPARE]]
    memory.counts[MADE] += 1
    nodes.bound[slot], nodes.number[slot] = bound, memory.counts[MADE]
    put(fixed, nodes.fixed[slot])
    put(at.rows, nodes.rows[slot])
    put(at.cols, nodes.cols[slot])
    put(at.on, nodes.on[slot])
    _put(nodes, slot)
    return slot
