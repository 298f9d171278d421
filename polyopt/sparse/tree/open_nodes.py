"""The state of the search of :mod:`polyopt.sparse.tree.branch`: open nodes, its best point, gains seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from polyopt.native.library import Struct, kernel
from polyopt.sparse.tree.basis import State, empty_state

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Vector

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
    "close",
    "desk_of",
    "enlarged",
    "first_open",
    "memory_of",
    "nodes_of",
    "proven",
    "state_of",
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


class Nodes(Struct):
    """Open nodes in slots: what each decides and the basis of its program; heap and stack hold slots.

    ``fixed, cols, on`` (slots, p), ``rows`` (slots, n), ``bound, number`` (slots,), ``heap, stack, spare``
    (slots,), ``counts`` (4,).
    """

    signature: ClassVar[str] = (
        "fixed!: i1 (slots, p); rows!: i1 (slots, n); cols!: i1 (slots, p); on!: i1 (slots, p); "
        "bound!: f8 (slots); number!: i8 (slots); heap!: i8 (slots); stack!: i8 (slots); spare!: i8 (slots); "
        "counts!: i8 (c)"
    )
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


class Memory(Struct):
    """Statistics: the best ``a`` (p,), and the gains of deciding each centre off or on so far.

    ``gain`` (2, p) are rises of the bound for each unit that the centre moved, ``seen`` (2, p) their numbers.
    ``tried`` has the patterns rounded to last, by their hashes; ``looked, counts, values`` are numbers.
    """

    signature: ClassVar[str] = (
        "a!: f8 (p); gain!: f8 (s, p); seen!: f8 (s, p); tried!: i8 (hashes); looked!: i8 (five); "
        "counts!: i8 (m); values!: f8 (seven)"
    )
    a: Vector
    gain: Vector
    seen: Vector
    tried: Numbers
    looked: Numbers
    counts: Numbers
    values: Vector


# Places in Desk.states: of a node, of its two children, of the best two so far, and one for patterns.
BASE, OFF_SIDE, ON_SIDE, BEST_OFF, BEST_ON, PATTERN = 0, 1, 2, 3, 4, 5


class Desk(Struct):
    """Room to work in.

    ``fixed, marks`` (p,) are what the node at hand decides and which centres are on, ``shares`` (p,) how much
    its point uses of each, ``rates`` (2, p) the least and the most that the rate of each may be;
    ``addresses`` are those of six states. All else is room, for marks and numbers of the centres and numbers
    of the samples.
    """

    signature: ClassVar[str] = (
        "fixed!: i1 (p); marks!: i1 (p); marked!: i1 (p); sigma!: i1 (p); before!: i1 (p); shares!: f8 (p); "
        "worths!: f8 (p); point!: f8 (p); rates!: f8 (s, p); multipliers!: f8 (n); outputs!: f8 (n); "
        "addresses: i8 (six)"
    )
    states: list[State]


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
    for name in ("fixed", "rows", "cols", "on", "bound", "number", "heap", "stack"):
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
    first = empty_state(n, p)
    states = [first, *(empty_state(n, p, first) for _ in range(PATTERN))]
    desk = Desk(
        *(np.zeros(p, np.int8) for _ in range(5)), *(np.zeros(p) for _ in range(3)), np.zeros((2, p)),
        np.zeros(n), np.zeros(n), np.array([state.address for state in states]),
    )  # fmt: skip
    desk.states = states
    return desk


def state_of(desk: Desk, place: int) -> State:
    """One of the states."""
    return desk.states[place]


# The slot of the node to look into next, -1 if none is open.
first_open = kernel("l0_first_open", "nodes: Nodes", returns="i8")
# Take out a node, which is the first one of the heap or anywhere on the stack; its slot is free.
close = kernel("l0_close", "nodes: Nodes; slot: i8")
# The proven lower bound on every score.
proven = kernel("l0_proven", "nodes: Nodes; record: Memory", returns="f8")
