"""The compiled steps of :mod:`polyopt.sparse.tree.search`: nodes looked into one after the other.

A node takes some dozens of microseconds. A program that the steps of :mod:`polyopt.sparse.tree.pivots` fail
in is left to the caller, who asks HiGHS. The branching rule is in ``native/l0_branch.c``, what is opened and
the heap in ``native/l0_open_nodes.c``.
"""

from __future__ import annotations

from polyopt.native.library import kernel
from polyopt.sparse.tree.basis import Given
from polyopt.sparse.tree.node import Problem
from polyopt.sparse.tree.open_nodes import Desk, Memory, Nodes

__all__ = ["DONE", "FULL", "LIMIT", "LOST", "PAUSE", "adopt", "grow", "plant"]

# How a run ended.
DONE, PAUSE, LIMIT, FULL, LOST = 0, 1, 2, 3, 4

_PARTS = {"of": Problem, "given": Given, "nodes": Nodes, "record": Memory, "desk": Desk}
_SEARCH = "; ".join(f"{name}: {part.__name__}" for name, part in _PARTS.items())

# Solve a node's program, from the first of the desk's states, and open it; 1 if it was solved, else 0. Its
# multipliers are the state's. The node of a pattern has nothing to decide: its point is offered.
plant = kernel("l0_plant", f"{_SEARCH}; decided!: i1 (p)", returns="i8")

# Open a node whose program was solved elsewhere, or left unsolved. The desk's state at `place` has a basis to
# begin from, multipliers, a and b; the node's scores are known to be `least` or more.
adopt = kernel("l0_adopt", f"{_SEARCH}; decided!: i1 (p); place: i8; least: f8; is_solved: i8")

# Look into nodes until nothing is open, a limit is reached, or so many steps are made; a node begun is
# brought to its end. Returns: DONE; PAUSE; LIMIT of the nodes; FULL, where more slots are needed; LOST, where
# a program of the first open node failed, of which ``memory.looked`` says how far it came.
grow = kernel("l0_grow", f"{_SEARCH}; steps: i8", returns="i8")
