"""Slopes of the machines with faces, for the assignment (cells, responsibilities) that was reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations import sensitivity as slopes
from formulations.class_faces import BIAS
from formulations.language.types import dense
from formulations.polyhedral import belonging, pull
from formulations.polytope import lift
from polyopt.polyhedral.lp_certificate import is_at_box
from polyopt.sensitivity.solution import ROW_TOL, are_independent, need_multipliers, paid, value_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.sensitivity import Sensitivity
    from polyopt.cpm.estimator import ConvexPolytopeMachine
    from polyopt.polyhedral.logistic_estimator import LogisticPolytopes
    from polyopt.polyhedral.pc_slp_estimator import PCSLP
    from polyopt.polyhedral.plume_estimator import PLUME
    from polyopt.polyhedral.polyceptron_estimator import Polyceptron
    from polyopt.polyhedral.spla1_estimator import SPLA1

    Array = NDArray[np.float64]

__all__ = [
    "of_cpm",
    "of_logistic_polytopes",
    "of_pc_slp",
    "of_plume",
    "of_polyceptron",
    "of_spla1",
]


def of_cpm(machine: ConvexPolytopeMachine, tol: float) -> list[Sensitivity]:
    """The price of slack, and those of weights, for the assignment reached."""
    found, value = paid(machine.duals_, machine._rows, machine._costs / machine.C), value_of(machine, tol)
    # Of the worst margin a face that may be longer is not unique.
    known = machine._asked_penalty.margin == "total"
    return [slopes.cost(machine.C, value, *found), *_prices(machine, value, known)]


def _prices(
    machine: ConvexPolytopeMachine | LogisticPolytopes, value: float, known: bool = True
) -> list[Sensitivity]:
    """The prices of weights and of groups, where there are any."""
    own, W = machine._face_penalty(), machine.solution_["W"]
    if own is None:
        return []
    sizes = {"l1": float(np.abs(W[:, :-1]).sum()), "group": float(own.lengths(W[:, :-1]).sum())}
    asked = {name: getattr(own, name) for name in sizes}
    return [slopes.price(name, asked[name], value, sizes[name], known) for name in sizes if asked[name]]


def of_spla1(machine: SPLA1, tol: float) -> list[Sensitivity]:
    """The ridge, for the cells reached."""
    machine._need_data("sensitivities()")
    return [slopes.ridge(machine.ridge, value_of(machine, tol), machine.solution_["W"])]


def of_plume(machine: PLUME, tol: float) -> list[Sensitivity]:
    """The ridge and the sharpness of the gate, for the responsibilities reached."""
    machine._need_data("sensitivities()")
    W, value = machine.solution_["W"], value_of(machine, tol)
    return [
        slopes.ridge(machine.ridge, value, W),
        slopes.gate(machine.gamma, value, machine._X, machine._y, W, machine._costs),
    ]


def of_logistic_polytopes(machine: LogisticPolytopes, tol: float) -> list[Sensitivity]:
    """The ridge, and with it that of the biases, and the prices of weights, for the assignment reached."""
    machine._need_data("sensitivities()")
    W, value = machine.solution_["W"], value_of(machine, tol)
    size = float(np.abs(W[:, :-1]).sum())
    shares = np.append(np.ones(W.shape[1] - 1), np.sqrt(BIAS))
    found = [
        slopes.ridge(machine.ridge, value, shares * W),
        slopes.price("l1", machine._asked_penalty.l1, value, size),
    ]
    return found + [own for own in _prices(machine, value) if own.parameter == "group"]


def of_polyceptron(machine: Polyceptron, tol: float) -> list[Sensitivity]:
    """The radius of the box, for the assignment reached."""
    machine._need_data("sensitivities()")
    u = machine.solution_.duals.get("margin")
    need_multipliers(machine, u)
    assert u is not None
    W, y, lifted = machine.solution_["W"], machine._y, _lifted(machine)
    held, pulls = _at_box(machine), pull(machine._X, y[:, None] * u)
    members = belonging(y, machine.assignment_, len(W), "all") > 0
    on_margin = members & (np.abs(y[:, None] * (lifted @ W.T) - 1.0) <= ROW_TOL)
    # The box's multipliers are unique where they are 0, or where those of a face's margins are.
    faces = [k for k in range(len(W)) if held[k].any()]
    only = all(are_independent(lifted[on_margin[:, k]][:, ~held[k]]) for k in faces)
    value = value_of(machine, tol, float(machine._costs.sum()))
    return [slopes.box(machine.radius, value, np.abs(pulls) * held, only)]


def of_pc_slp(machine: PCSLP, tol: float) -> list[Sensitivity]:
    """The radius of the box, for the assignment reached."""
    machine._need_data("sensitivities()")
    duals, y = machine.solution_.duals, machine._y
    need_multipliers(machine, duals.get("inside"))
    held = _at_box(machine)
    own = machine.assignment_[:, None] == np.arange(len(held))
    M = duals["inside"] + own * duals["outside"][:, None]
    s = np.abs(pull(machine._X, y[:, None] * M)) * held
    only = not held.any() or are_independent(_open_pairs(machine, own, held))
    value = value_of(machine, tol, 2.0)  # the error of no faces at all
    return [slopes.box(machine.radius, value, s, only)]


def _open_pairs(machine: PCSLP, own: NDArray[np.bool_], held: NDArray[np.bool_]) -> Array:
    """A row of the equations for each sample and face whose multiplier its slack does not say by itself.

    The equations are the balance of the faces where the box does not hold them, and for each positive with a
    slack at several faces at once that they share its price. The box's multipliers are unique where these
    rows are independent.
    """
    lifted, y = _lifted(machine), machine._y
    K = own.shape[1]
    hinge = 1.0 - y[:, None] * (lifted @ machine.solution_["W"].T)
    inside = (y > 0)[:, None]
    worst = np.maximum(np.where(inside, hinge.max(axis=1, keepdims=True), 0.0), 0.0)
    open_ = (np.abs(hinge - worst) <= ROW_TOL) & (inside | own)
    shares = (worst[:, 0] > ROW_TOL) & (y > 0)
    open_ &= ~(shares & (open_.sum(axis=1) == 1))[:, None]  # alone it has all of the price
    place, face = np.nonzero(open_)
    rows = np.zeros((len(place), K, lifted.shape[1]))
    rows[np.arange(len(place)), face] = lifted[place]
    sharing = np.unique(place[shares[place]])
    tied = (place[:, None] == sharing).astype(float)
    return np.hstack([rows[:, ~held], tied])


def _lifted(machine: Polyceptron | PCSLP) -> Array:
    """The samples (x, 1), dense."""
    return dense(lift(machine._X))


def _at_box(machine: Polyceptron | PCSLP) -> NDArray[np.bool_]:
    """Mask of the entries of W that the box holds."""
    return is_at_box(machine.solution_["W"], machine.radius)
