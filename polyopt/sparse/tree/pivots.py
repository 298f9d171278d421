"""The dual simplex method for the node programs of the L0 tree.

It works on the bases of :mod:`polyopt.sparse.tree.basis`. A step takes a row on the wrong side, or a column
beyond a bound, and moves its multiplier as far as the dual value rises: past every d_j that changes its sign,
a_j going to its other bound, until the slope is used up (a column enters) or some u_l meets a bound (a row
leaves). Switching a centre on is such a step as well: c_q falls from 1 to 0, and a_q goes to its cap if
anything stops that.

Costs and caps are to be such that no two steps tie. Nothing here is trusted: what the multipliers prove is
evaluated by :mod:`polyopt.sparse.tree.node` from the data.

References: Koberstein, The dual simplex method (2005), on the long step; Forrest & Goldfarb, Steepest-edge
simplex algorithms (1992).
"""

from __future__ import annotations

from polyopt.native.library import kernel
from polyopt.sparse.tree.basis import Given, State

__all__ = ["FAILED", "OPTIMAL", "STOPPED", "pivot_to_optimum"]

# How a run ended.
OPTIMAL, STOPPED, FAILED = 0, 1, 2

# Go on from a dual feasible state until it is optimal; OPTIMAL, STOPPED by one of the limits, or FAILED.
# given: the program; its caps may have changed since the state was made. on: which centres are on; those that
# the state has on are among them. most: steps at most. cutoff: a dual value of this much is enough.
pivot_to_optimum = kernel(
    "l0_pivot_to_optimum",
    f"given: {Given.__name__}; at: {State.__name__}; on: i1 (p); most: i8; cutoff: f8",
    returns="i8",
)
