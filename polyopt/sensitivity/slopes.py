"""Slopes of the optimum: families of rows, sparse expansions, and faces at the assignment reached."""

from __future__ import annotations

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from formulations import sensitivity as slopes
from formulations.class_faces import BIAS
from formulations.language.recovery import moments
from formulations.language.types import Array, dense
from formulations.polyhedral import belonging, pull
from formulations.polytope import lift
from formulations.sensitivity import Sensitivity
from polyopt.certificates.certificate import relative_gap
from polyopt.cpm.estimator import ConvexPolytopeMachine
from polyopt.margin.fit import HingeClassifier
from polyopt.margin.sigma_svm import SigmaSVM
from polyopt.polyhedral.logistic_estimator import LogisticPolytopes
from polyopt.polyhedral.lp_certificate import is_at_box
from polyopt.polyhedral.pc_slp import PCSLP
from polyopt.polyhedral.plume import PLUME
from polyopt.polyhedral.polyceptron import Polyceptron
from polyopt.polyhedral.spla1 import SPLA1
from polyopt.sensitivity.frames import ROW_TOL, are_independent, need_multipliers, paid, value_of, warn_of
from polyopt.sparse.estimator import CrossEntropySVM
from polyopt.sparse.expansion_classifier import ExpansionClassifier
from polyopt.sparse.one_norm_estimator import OneNormSVM


def of_hinge(machine: HingeClassifier, tol: float) -> list[Sensitivity]:
    """Return the slopes in the prices of slack and, if the machine has them, the bound and the share."""
    value, rows = value_of(machine, tol), machine.families_
    found = []
    for name in dict.fromkeys(family.price for family in rows if family.price):
        mine = [family for family in rows if family.price == name]
        price = getattr(machine, name)
        slack = np.concatenate([np.maximum(0.0, -family.room(machine.outputs_)) for family in mine])
        weights = np.concatenate([family.cap for family in mine]) / price
        found.append(
            slopes.cost(price, value, slack, weights, name=name, letters=[each.excess for each in mine])
        )
    if "B" in machine.get_params():
        placed = [machine.multipliers_[family.name] for family in rows if family.place == "B"]
        only = not placed or are_independent(_active_samples(machine))
        found.append(slopes.bound(machine.B, value, placed, only))
    if isinstance(machine, SigmaSVM):
        found.append(slopes.share(machine.D, value, *_norm_and_variance(machine)))
    return found


def _active_samples(machine: HingeClassifier) -> Array:
    """Return a row (φ(x_i), 1) for every active row, whose multiplier is not known by its slack.

    Their multipliers are unique where these are independent. For a kernel the rows are those of the Gram
    matrix among them, plus 1, which is of the same rank.
    """
    places = [(family.room(machine.outputs_), family.cap > 0.0) for family in machine.families_]
    active = np.concatenate([np.flatnonzero((np.abs(room) <= ROW_TOL) & there) for room, there in places])
    if machine.kernel == "linear":
        rows = machine._X[active]
        return np.column_stack([rows.toarray() if sp.issparse(rows) else rows, np.ones(len(active))])
    if machine.kernel == "precomputed":
        return machine._X[np.ix_(active, active)] + 1.0
    return machine._kernel(machine._X[active], machine._X[active]) + 1.0


def _norm_and_variance(machine: SigmaSVM) -> tuple[float, float]:
    """‖w‖² and w'Σw."""
    if machine.kernel == "linear":
        w = machine.coef_[0]
        return float(w @ w), float(w @ moments(machine._X, machine._costs)[1] @ w)
    geometry = machine._feature_space()
    f, weights = geometry.scores(machine._v), geometry.weights
    return float(f @ machine._v), float(weights @ f**2 / weights.sum())


def centre_prices(estimator: CrossEntropySVM) -> pd.DataFrame:
    """Return the gains of the L0 machine by one more centre.

    Parameters
    ----------
    estimator : CrossEntropySVM
        Fitted to two classes.

    Returns
    -------
    DataFrame
        One row per sample that is no centre, the most promising first: ``sample``; ``rate``, at which the
        loss falls as its coefficient may rise from 0; and ``least_change``, 1 − C² rate, under which
        the score cannot change: where it is positive the centre cannot pay
        for itself.
    """
    if not isinstance(estimator, CrossEntropySVM):
        raise TypeError(f"centre_prices is of a CrossEntropySVM, not of {type(estimator).__name__}")
    check_is_fitted(estimator)
    if len(estimator.classes_) != 2:
        raise ValueError("centre_prices is of two classes: ask the machines in estimators_")
    caps = estimator.duals_.query("letter == 's'")
    off = caps["state"].eq("held at 0").to_numpy()
    rates = caps["multiplier"].to_numpy()[off]
    least = slopes.switching_on(estimator.C, rates)
    samples = caps["sample"].to_numpy()[off]
    found = pd.DataFrame({"sample": samples, "rate": rates, "least_change": least})
    return found.sort_values("rate", ascending=False, kind="stable", ignore_index=True)


def of_one_norm(machine: OneNormSVM, tol: float) -> list[Sensitivity]:
    """Return the slope in the price of slack, which caps the coefficients as well."""
    frame = machine.duals_
    s = frame.query("letter == 's'")["multiplier"].to_numpy()
    matrix, strict = _basis(machine)
    only = strict and matrix.shape[0] == matrix.shape[1] and are_independent(matrix)
    xi, weights = paid(frame, machine._rows, machine._weights)
    return [slopes.capped_cost(machine.C, value_of(machine, tol), xi, s, weights, only)]


def of_l0(machine: CrossEntropySVM, tol: float) -> list[Sensitivity]:
    """Return the slope in the price of loss, for the pattern found."""
    frame, sigma = machine.duals_, np.asarray(machine.solution_["sigma"])
    s = frame.query("letter == 's'")["multiplier"].to_numpy()
    xi, weights = paid(frame, machine._rows, machine._weights)
    loss = float(weights @ xi)
    proven = float(machine.solution_["margin"].sum() - machine.C * (sigma @ s))
    if abs(loss - proven) > tol * max(float(weights.sum()), loss):
        warn_of(machine, f"The loss of its pattern is within {relative_gap(loss, proven):.1e} of the least.")
    only = not sigma.any() or are_independent(_basis(machine)[0])  # an empty pattern has no caps
    return [slopes.pattern_cost(machine.C, sigma, loss, s, only)]


def _basis(machine: ExpansionClassifier) -> tuple[Array, bool]:
    """Return the matrix of samples on the margin by free coefficients and b, and True if all is strict.

    The multipliers are unique where its rows are independent; the coefficients, where it is square and
    regular besides and every other row holds with a multiplier.
    """
    frame, y = machine.duals_, machine._y
    rows = {letter: mine.reset_index() for letter, mine in frame.groupby("letter")}
    xi = rows["v"]["slack"].to_numpy()
    margin = (rows["u"]["slack"].to_numpy() <= ROW_TOL) & (xi <= ROW_TOL)
    small = ROW_TOL * machine.C
    inside = (rows["r"]["slack"].to_numpy() > small) & (rows["s"]["slack"].to_numpy() > small)
    K, _ = machine._training_kernel()
    matrix = np.column_stack([K[np.ix_(margin, inside)] * y[inside], np.ones(int(margin.sum()))])
    held = rows["u"]["multiplier"].to_numpy()[margin], rows["v"]["multiplier"].to_numpy()[margin]
    bound = (rows["r"]["multiplier"] + rows["s"]["multiplier"]).to_numpy()[~inside]
    return matrix, bool(all((part > ROW_TOL).all() for part in (*held, bound)))


def of_cpm(machine: ConvexPolytopeMachine, tol: float) -> list[Sensitivity]:
    """Return the slopes in the prices of slack and of weights, for the assignment reached."""
    found, value = paid(machine.duals_, machine._rows, machine._costs / machine.C), value_of(machine, tol)
    known = machine._asked_penalty.margin == "total"  # a face of the worst margin may not be unique
    return [slopes.cost(machine.C, value, *found), *_prices(machine, value, known)]


def _prices(
    machine: ConvexPolytopeMachine | LogisticPolytopes, value: float, known: bool = True
) -> list[Sensitivity]:
    """Return the slopes in the prices of weights and of groups, if there are any."""
    own, W = machine._face_penalty(), machine.solution_["W"]
    if own is None:
        return []
    sizes = {"l1": float(np.abs(W[:, :-1]).sum()), "group": float(own.lengths(W[:, :-1]).sum())}
    asked = {name: getattr(own, name) for name in sizes}
    return [slopes.price(name, asked[name], value, sizes[name], known) for name in sizes if asked[name]]


def of_spla1(machine: SPLA1, tol: float) -> list[Sensitivity]:
    """Return the slope in the ridge, for the cells reached."""
    machine._need_data("sensitivities()")
    return [slopes.ridge(machine.ridge, value_of(machine, tol), machine.solution_["W"])]


def of_plume(machine: PLUME, tol: float) -> list[Sensitivity]:
    """Return the slopes in the ridge and the sharpness of the gate, for the responsibilities reached."""
    machine._need_data("sensitivities()")
    W, value = machine.solution_["W"], value_of(machine, tol)
    return [
        slopes.ridge(machine.ridge, value, W),
        slopes.gate(machine.gamma, value, machine._X, machine._y, W, machine._costs),
    ]


def of_logistic_polytopes(machine: LogisticPolytopes, tol: float) -> list[Sensitivity]:
    """Return the slopes in the ridge, the biases' included, and the prices of weights, for the assignment."""
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
    """Return the slope in the radius of the box, for the assignment reached."""
    machine._need_data("sensitivities()")
    u = machine.solution_.duals.get("margin")
    need_multipliers(machine, u)
    assert u is not None
    W, y, lifted = machine.solution_["W"], machine._y, dense(lift(machine._X))
    held, pulls = is_at_box(machine.solution_["W"], machine.radius), pull(machine._X, y[:, None] * u)
    members = belonging(y, machine.assignment_, len(W), "all") > 0
    on_margin = members & (np.abs(y[:, None] * (lifted @ W.T) - 1.0) <= ROW_TOL)
    # The box's multipliers are unique where they are 0, or where those of a face's margins are.
    faces = [k for k in range(len(W)) if held[k].any()]
    only = all(are_independent(lifted[on_margin[:, k]][:, ~held[k]]) for k in faces)
    value = value_of(machine, tol, float(machine._costs.sum()))
    return [slopes.box(machine.radius, value, np.abs(pulls) * held, only)]


def of_pc_slp(machine: PCSLP, tol: float) -> list[Sensitivity]:
    """Return the slope in the radius of the box, for the assignment reached."""
    machine._need_data("sensitivities()")
    duals, y = machine.solution_.duals, machine._y
    need_multipliers(machine, duals.get("inside"))
    held = is_at_box(machine.solution_["W"], machine.radius)
    own = machine.assignment_[:, None] == np.arange(len(held))
    M = duals["inside"] + own * duals["outside"][:, None]
    s = np.abs(pull(machine._X, y[:, None] * M)) * held
    only = not held.any() or are_independent(_open_pairs(machine, own, held))
    value = value_of(machine, tol, 2.0)  # the error of no faces at all
    return [slopes.box(machine.radius, value, s, only)]


def _open_pairs(machine: PCSLP, own: NDArray[np.bool_], held: NDArray[np.bool_]) -> Array:
    """Return a row of the equations for each sample and face whose multiplier its slack does not tell.

    The equations are the balance of the faces where the box does not hold them, and for each positive with a
    slack at several faces at once that they share its price. The box's multipliers are unique where these
    rows are independent.
    """
    lifted, y = dense(lift(machine._X)), machine._y
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
