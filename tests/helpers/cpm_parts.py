"""Parts of the polytope machine's kernels, which only tests call by themselves."""

from __future__ import annotations

import numpy as np
from helpers.c_parts import kernel

from formulations.language.clock import Clock
from polyopt.cpm.global_search.assignment_tree import Moves, Node
from polyopt.cpm.global_search.face import Best, Samples, alternate
from polyopt.cpm.global_search.prices import FaceBox

assert {Best, FaceBox, Moves, Node, Samples}  # the signatures below name them

MARGIN = 1e-12  # of a cap, by which the boxes of joint moves are smaller
OPEN, ASSIGNED, CLOSED = 0, 1, 2  # what forbidding led to

_BLOCK = 100_000  # numbers: room for any part of a small node

_slope_blur = kernel("cpm_slope_blur", "data: Samples; a: f8 (n); w: f8 (d); blur: f8 (t)", returns="f8")
_cost_on = kernel(
    "cpm_cost_on",
    "data: Samples; a: f8 (n); w: f8 (d); moves: Moves; order: i8 (r); p: i8; k: i8; out: f8 (t); "
    "block: f8 (b)",
    returns="i8",
)
_shift = kernel("cpm_shift", "v: f8 (d); p: i8; k: i8; moves: Moves; others: i8 (r)")
_charge = kernel("cpm_charge", "move: f8 (t); e: f8 (d); p: i8; k: i8; moves: Moves; others: i8 (r)")
_joint_move = kernel(
    "cpm_joint_move",
    "data: Samples; a: f8 (n); w: f8 (d); p: i8; k: i8; moves: Moves; others: i8 (r); change: f8 (n); "
    "e: f8 (d); move: f8 (t); block: f8 (b)",
)
_solve_faces = kernel(
    "cpm_solve_faces",
    "data: Samples; node: Node; used: i8; sweeps: i8; least: f8; out: f8 (t); block: f8 (b)",
)
_try_incumbent = kernel("cpm_try_incumbent", "data: Samples; best: Best; node: Node; tol: f8; block: f8 (b)")
_forbid_dear = kernel(
    "cpm_forbid_dear",
    "data: Samples; best: Best; node: Node; moves: Moves; order: i8 (r); used: i8; opens: i8; jointly: i8; "
    "limits: f8 (t); block: f8 (b)",
    returns="i8",
)
_value_of = kernel("cpm_value_of", "data: Samples; box: FaceBox; error: f8 (t)", returns="f8")

most_added = kernel("cpm_most_added", "worth: f8; square: f8", returns="f8")
least_share = kernel("cpm_least_share", "worth: f8; square: f8; amount: f8", returns="f8")
set_up = kernel("cpm_set_up", "data: Samples; prices: f8 (p); box: FaceBox", returns="i8")
bound_box = kernel(
    "cpm_bound_box",
    "data: Samples; prices: f8 (p); box: FaceBox; goal: f8; slow: f8",
    returns="f8",
)
pull = kernel("cpm_pull", "data: Samples; box: FaceBox")
sweep_open = kernel("cpm_sweep_open", "data: Samples; box: FaceBox; count: i8")
shrink = kernel("cpm_shrink", "data: Samples; box: FaceBox; goal: f8; proven: f8", returns="f8")


def settle(data, face, W, precision):
    """Alternate without a limit."""
    return alternate(data, face, W, precision, Clock())


def slope_blur(data, a, w):
    """Numbers s and t such that a computed 1 − y_i w·x̃_i is off by s + t ‖x̃_i‖ at most."""
    blur = np.zeros(2)
    _slope_blur(data, a, w, blur)
    return tuple(blur.tolist())


def hyperplane_error(data, a):
    """A bound on the distance of w from ½ Σ a_i y_i x̃_i."""
    return _slope_blur(data, a, np.zeros(data.A.shape[1]), np.zeros(2))


def cost_on(data, a, w, moves, order, p, k):
    """What p adds at least on face k beside all others, and its error."""
    out = np.zeros(2)
    _cost_on(data, a, w, moves, order, int(p), int(k), out, np.zeros(_BLOCK))
    return tuple(out.tolist())


def shift(v, p, k, moves, others):
    """Shift v by half of the others' moves that pull the same way."""
    _shift(v, int(p), int(k), moves, others)


def charge(worth, error, e, blur, p, k, moves, others):
    """The worth of a move less its charges, and its error."""
    move = np.array([worth, e @ e, blur, error])
    _charge(move, e, int(p), int(k), moves, others)
    return float(move[0]), float(move[3])


def joint_move(data, a, w, p, k, moves, others, change, e):
    """Worth, square, blur and error of the best move within what the others leave."""
    move = np.zeros(4)
    _joint_move(data, a, w, int(p), int(k), moves, others, change, e, move, np.zeros(_BLOCK))
    return tuple(move.tolist())


def solve_faces(data, node, used, sweeps, least):
    """The sum of the dual values of a node's faces, and its error."""
    out = np.zeros(2)
    _solve_faces(data, node, used, sweeps, least, out, np.zeros(_BLOCK))
    return tuple(out.tolist())


def try_incumbent(data, best, node, tol):
    """Keep the node's faces if they are the best, and what alternating makes of them."""
    _try_incumbent(data, best, node, tol, np.zeros(_BLOCK))


def forbid_dear(data, best, node, moves, order, used, opens, base, error, cut, *, jointly):
    """Forbid the moves that cost too much by themselves, or with all others."""
    limits = np.array([base, error, cut])
    block = np.zeros(_BLOCK)
    return _forbid_dear(data, best, node, moves, order, used, int(opens), int(jointly), limits, block)


def value_of(data, box):
    """The bound of a box as computed, and its error."""
    error = np.zeros(1)
    return _value_of(data, box, error), float(error[0])
