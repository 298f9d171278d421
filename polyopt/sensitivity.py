"""Sensitivity of a fitted estimator's optimum, from its multipliers: slopes, and the samples that bind it.

:mod:`formulations.sensitivity` has the formulas and their sources. `sensitivities` and `binding` take
an estimator; below them is a function for each machine, which its method's entry names.
"""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from formulations import sensitivity as slopes
from formulations.class_faces import BIAS_RIDGE
from formulations.language.recovery import moments
from formulations.language.types import Array, dense
from formulations.polyhedral import belonging, pull
from formulations.polytope import lift
from formulations.sensitivity import Sensitivity
from polyopt.certificates.certificate import Claim, relative_gap
from polyopt.cpm.estimator import ConvexPolytopeMachine
from polyopt.estimators.base import PairwiseClassifier
from polyopt.margin.fit import HingeClassifier
from polyopt.margin.sigma_svm import SigmaSVM
from polyopt.methods.method import named
from polyopt.methods.registry import answering_for, method_of
from polyopt.polyhedral.logistic_estimator import LogisticPolytopes
from polyopt.polyhedral.lp_certificate import is_at_box
from polyopt.polyhedral.pc_slp import PCSLP
from polyopt.polyhedral.plume import PLUME
from polyopt.polyhedral.polyceptron import Polyceptron
from polyopt.polyhedral.spla1 import SPLA1
from polyopt.sparse.estimator import CrossEntropySVM
from polyopt.sparse.expansion_classifier import ExpansionClassifier
from polyopt.sparse.one_norm_estimator import OneNormSVM

ACTIVE_TOL = 1e-6  # slack of an active constraint, in units of the outputs


def sensitivities(estimator: object, tol: float = 1e-6) -> pd.DataFrame:
    """Return the slopes of the optimal value of a fitted estimator's program in its parameters.

    No program is solved: by the envelope theorem the slopes follow from the multipliers and slacks of the
    solution. For a machine with faces the program is that of its assignment (cells, responsibilities), for
    :class:`CrossEntropySVM` that of its pattern.

    Parameters
    ----------
    estimator : estimator
        A fitted classifier of this package.
    tol : float
        Relative tolerance for the certificate; if it shows no optimum, there is a ConvergenceWarning.

    Returns
    -------
    DataFrame
        One row per parameter (and per ``pair`` of classes, or polytope with one class ``outside``):
        ``parameter``; its ``value``; the ``objective``; its ``derivative``; ``elasticity``, the percent by
        which the objective moves for one percent of the parameter; ``two_sided``, True if the slope is known
        to be the same on both sides of the value (if several multipliers are optimal, the derivative is a
        number between two slopes); and the ``formula``.
    """
    columns = "parameter", "value", "objective", "derivative", "elasticity", "two_sided", "formula"
    rows: list[dict[str, Any]] = []
    for names, machine in _machines(estimator):
        method = method_of(machine)
        if method is None or not method.slopes:
            raise TypeError(f"no derivatives are known of {type(machine).__name__}")
        with answering_for(method):
            slopes_of_machine = named(method.slopes)(machine, tol)
        rows += [{**names, **{name: getattr(slope, name) for name in columns}} for slope in slopes_of_machine]
    return pd.DataFrame(rows)


def binding(estimator: Any) -> pd.DataFrame:
    """Return the binding rows of a fitted estimator's program: its multipliers, family by family.

    The frame has one row per family (and pair of classes, or polytope): ``row`` and ``letter``; ``rows``,
    their number; ``binding``, the number of nonzero multipliers; ``total``, the sum of their sizes;
    ``largest``; and ``samples``, the three with the largest multipliers, of a polytope summed over its faces.
    ``estimator.duals_`` has every row.
    """
    frame = estimator.duals_
    _check_multipliers(estimator, frame["multiplier"])
    sizes = frame["multiplier"].abs()
    frame = frame.assign(multiplier=sizes.where(sizes > ACTIVE_TOL * float(sizes.max()), 0.0))
    keys = [name for name in ("pair", "outside", "row", "letter") if name in frame]
    families = []
    for key, rows in frame.groupby(keys, sort=False):
        by_sample = rows.groupby("sample", sort=False)["multiplier"].sum().sort_values(ascending=False)
        sizes, samples = rows["multiplier"], [i for i in by_sample[by_sample > 0].index if i != -1]
        families.append({
            **dict(zip(keys, key, strict=True)), "rows": len(rows), "binding": int((sizes > 0).sum()),
            "total": float(sizes.sum()), "largest": float(sizes.max()), "samples": tuple(samples[:3]),
        })  # fmt: skip
    return pd.DataFrame(families)


def _machines(estimator: Any) -> list[tuple[dict[str, str], Any]]:
    """Return the binary machines with one program each, with the columns that tell them apart."""
    if not isinstance(estimator, PairwiseClassifier) and method_of(estimator) is None:
        raise TypeError(
            f"{type(estimator).__name__} is not a classifier of polyopt with a program of its own; of a "
            "search, give best_estimator_"
        )
    check_is_fitted(estimator)
    if hasattr(estimator, "estimators_") and len(estimator.classes_) > 2:
        pairs = [{"pair": f"{first} vs {second}"} for first, second in estimator.pairs_]
        parts = zip(pairs, estimator.estimators_, strict=True)
        return [({**pair, **names}, part) for pair, whole in parts for names, part in _machines(whole)]
    if getattr(estimator, "_sides", None):
        return [({"outside": str(side.outer_label_)}, side) for side in estimator.sides_]
    return [({}, estimator)]


def _value_of(machine: Any, tol: float, scale: float = 0.0) -> float:
    """Return the value at a machine's solution, and warn if its certificate at `tol` shows no optimum.

    `scale` is the size of the terms of the objective, for a value that is 0 up to their rounding.
    """
    certificate = machine.certificate(tol)
    proven = certificate.claim in (Claim.OPTIMAL, Claim.STATIONARY)
    # A machine may be optimal for its assignment, cells or responsibilities and claim no more.
    if not (proven or certificate.relative_gap <= tol or certificate.gap <= 1e-12 * scale):
        _warn(machine, certificate.sentence)
    return certificate.primal_value


def _warn(machine: object, sentence: str) -> None:
    """Warn that slopes are not those of an optimum, with a sentence on the distance from it."""
    warnings.warn(
        f"{type(machine).__name__}: these are slopes of the Lagrangian at the point reached, not of the "
        f"optimum. {sentence}",
        ConvergenceWarning,
        stacklevel=5,
    )


def _check_multipliers(machine: Any, multipliers: ArrayLike | None) -> None:
    """Refuse a machine whose solver left no multipliers: None, or nan."""
    if multipliers is None or np.isnan(np.asarray(multipliers)).any():
        raise ValueError(
            f"solver={getattr(machine, 'solver_', machine.solver)!r} of {type(machine).__name__} has no "
            "multipliers; fit it with solver='exact'"
        )


def _are_independent(rows: Array) -> bool:
    """Return True if the rows of a matrix are linearly independent."""
    n, m = rows.shape
    return n == 0 or (n <= m and int(np.linalg.matrix_rank(rows)) == n)


def _slacks(duals: pd.DataFrame, rows: NDArray[np.intp], weights: Array) -> tuple[Array, Array]:
    """Return every slack in the objective, and the weight of its sample.

    rows, weights (n,): numbers of the samples in the data given to ``fit``, and their weights.
    """
    slack = duals.query("row == 'slack'")
    slack_weights = pd.Series(weights, index=rows)[slack["sample"]]
    return np.asarray(slack["slack"], dtype=np.float64), np.asarray(slack_weights, dtype=np.float64)


# -- machines of families of rows -------------------------------------------------------------------


def of_hinge(machine: HingeClassifier, tol: float) -> list[Sensitivity]:
    """Return the slopes in the costs of slack and, if the machine has them, in B and D."""
    value, families = _value_of(machine, tol), machine.families_
    result = []
    for name in dict.fromkeys(family.price for family in families if family.price):
        with_cost = [family for family in families if family.price == name]
        cost = getattr(machine, name)
        slack = np.concatenate([np.maximum(0.0, -family.surplus(machine.outputs_)) for family in with_cost])
        weights = np.concatenate([family.cap for family in with_cost]) / cost
        letters = [family.excess for family in with_cost]
        result.append(slopes.cost(cost, value, slack, weights, name=name, letters=letters))
    if "B" in machine.get_params():
        multipliers = [machine.multipliers_[family.name] for family in families if family.place == "B"]
        is_unique = not multipliers or _are_independent(_active_samples(machine))
        result.append(slopes.bound(machine.B, value, multipliers, is_unique))
    if isinstance(machine, SigmaSVM):
        norm, variance = _norm_and_variance(machine)
        two_sided = 0.0 < machine.D < 1.0  # at D = 1, where w need not be unique, w has least norm
        slope = 0.5 * (variance - norm)
        result.append(Sensitivity("D", machine.D, slope, value, "½ (w'Σw − ‖w‖²)", two_sided))
    return result


def _active_samples(machine: HingeClassifier) -> Array:
    """Return a row (φ(x_i), 1) for each active constraint; if they are independent, multipliers are unique.

    For a kernel the rows are those of the Gram matrix among them, plus 1, which has the same rank.
    """
    slacks = [(family.surplus(machine.outputs_), family.cap > 0.0) for family in machine.families_]
    active = np.concatenate([np.flatnonzero((np.abs(s) <= ACTIVE_TOL) & exists) for s, exists in slacks])
    if machine.kernel == "linear":
        rows = machine._X[active]
        return np.column_stack([rows.toarray() if sp.issparse(rows) else rows, np.ones(len(active))])
    if machine.kernel == "precomputed":
        return machine._X[np.ix_(active, active)] + 1.0
    return machine._kernel(machine._X[active], machine._X[active]) + 1.0


def _norm_and_variance(machine: SigmaSVM) -> tuple[float, float]:
    """Return ‖w‖² and w'Σw."""
    if machine.kernel == "linear":
        w = machine.coef_[0]
        return float(w @ w), float(w @ moments(machine._X, machine._costs)[1] @ w)
    geometry = machine._feature_space()
    f, weights = geometry.scores(machine._v), geometry.weights
    return float(f @ machine._v), float(weights @ f**2 / weights.sum())


# -- sparse expansions ------------------------------------------------------------------------------


def of_one_norm(machine: OneNormSVM, tol: float) -> list[Sensitivity]:
    """Return the slope in the cost of slack, which caps the coefficients as well."""
    frame = machine.duals_
    s = frame.query("letter == 's'")["multiplier"].to_numpy()
    matrix, is_strict = _basis(machine)
    is_unique = is_strict and matrix.shape[0] == matrix.shape[1] and _are_independent(matrix)
    xi, weights = _slacks(frame, machine._rows, machine._weights)
    value, slope = _value_of(machine, tol), float(weights @ (xi - s))
    return [Sensitivity("C", machine.C, slope, value, "Σ wᵢ ξᵢ − Σ wⱼ sⱼ", is_unique)]


def of_l0(machine: CrossEntropySVM, tol: float) -> list[Sensitivity]:
    """Return the slope in the cost of the loss, for the pattern found."""
    frame, sigma = machine.duals_, np.asarray(machine.solution_["sigma"])
    s = frame.query("letter == 's'")["multiplier"].to_numpy()
    xi, weights = _slacks(frame, machine._rows, machine._weights)
    loss = float(weights @ xi)
    bound = float(machine.solution_["margin"].sum() - machine.C * (sigma @ s))
    if abs(loss - bound) > tol * max(float(weights.sum()), loss):
        _warn(machine, f"The loss of its pattern is within {relative_gap(loss, bound):.1e} of the least.")
    is_unique = not sigma.any() or _are_independent(_basis(machine)[0])  # an empty pattern has no caps
    slope, score = loss - machine.C * float(sigma @ s), float(sigma.sum()) + machine.C * loss
    return [Sensitivity("C", machine.C, slope, score, "L − C Σ σⱼ sⱼ", is_unique)]


def _basis(machine: ExpansionClassifier) -> tuple[Array, bool]:
    """Return the matrix of samples on the margin by free coefficients and b, and True if all is strict.

    If its rows are independent, the multipliers are unique. If it is also square and regular and every other
    active constraint has a positive multiplier, the coefficients are unique.
    """
    frame, y = machine.duals_, machine._y
    rows = {letter: family.reset_index() for letter, family in frame.groupby("letter")}
    xi = rows["v"]["slack"].to_numpy()
    on_margin = (rows["u"]["slack"].to_numpy() <= ACTIVE_TOL) & (xi <= ACTIVE_TOL)
    tol = ACTIVE_TOL * machine.C
    is_free = (rows["r"]["slack"].to_numpy() > tol) & (rows["s"]["slack"].to_numpy() > tol)
    K, _ = machine._training_kernel()
    matrix = np.column_stack([K[np.ix_(on_margin, is_free)] * y[is_free], np.ones(int(on_margin.sum()))])
    u, v = (rows[letter]["multiplier"].to_numpy()[on_margin] for letter in ("u", "v"))
    at_bound = (rows["r"]["multiplier"] + rows["s"]["multiplier"]).to_numpy()[~is_free]
    return matrix, bool(all((part > ACTIVE_TOL).all() for part in (u, v, at_bound)))


# -- faces, at the assignment reached ---------------------------------------------------------------


def of_cpm(machine: ConvexPolytopeMachine, tol: float) -> list[Sensitivity]:
    """Return the slopes in the cost of slack and the penalties on weights."""
    slacks = _slacks(machine.duals_, machine._rows, machine._costs / machine.C)
    value = _value_of(machine, tol)
    is_unique = machine._asked_penalty.margin == "total"  # faces of the worst margin may not be unique
    return [slopes.cost(machine.C, value, *slacks), *_penalties(machine, value, is_unique)]


def _penalties(
    machine: ConvexPolytopeMachine | LogisticPolytopes, value: float, is_unique: bool = True
) -> list[Sensitivity]:
    """Return the slopes in the ℓ1 and the group penalty, if there are any."""
    penalty, W = machine._face_penalty(), machine.solution_["W"]
    if penalty is None:
        return []
    norms = {"l1": float(np.abs(W[:, :-1]).sum()), "group": float(penalty.group_norms(W[:, :-1]).sum())}
    weights = {name: getattr(penalty, name) for name in norms}
    return [
        slopes.price(name, weights[name], value, norms[name], is_unique) for name in norms if weights[name]
    ]


def of_spla1(machine: SPLA1, tol: float) -> list[Sensitivity]:
    """Return the slope in the ridge."""
    machine._need_data("sensitivities()")
    return [slopes.ridge(machine.ridge, _value_of(machine, tol), machine.solution_["W"])]


def of_plume(machine: PLUME, tol: float) -> list[Sensitivity]:
    """Return the slopes in the ridge and the sharpness of the gate, for the responsibilities reached."""
    machine._need_data("sensitivities()")
    W, value = machine.solution_["W"], _value_of(machine, tol)
    return [
        slopes.ridge(machine.ridge, value, W),
        slopes.gate(machine.gamma, value, machine._X, machine._y, W, machine._costs),
    ]


def of_logistic_polytopes(machine: LogisticPolytopes, tol: float) -> list[Sensitivity]:
    """Return the slopes in the ridge, on biases too, and the penalties on weights."""
    machine._need_data("sensitivities()")
    W, value = machine.solution_["W"], _value_of(machine, tol)
    norm = float(np.abs(W[:, :-1]).sum())
    ridge_scale = np.append(np.ones(W.shape[1] - 1), np.sqrt(BIAS_RIDGE))
    return [
        slopes.ridge(machine.ridge, value, ridge_scale * W),
        slopes.price("l1", machine._asked_penalty.l1, value, norm),
        *(slope for slope in _penalties(machine, value) if slope.parameter == "group"),
    ]


def of_polyceptron(machine: Polyceptron, tol: float) -> list[Sensitivity]:
    """Return the slope in the radius of the box."""
    machine._need_data("sensitivities()")
    u = machine.solution_.duals.get("margin")
    _check_multipliers(machine, u)
    assert u is not None
    W, y, lifted = machine.solution_["W"], machine._y, dense(lift(machine._X))
    at_box, pulls = is_at_box(W, machine.radius), pull(machine._X, y[:, None] * u)
    members = belonging(y, machine.assignment_, len(W), "all") > 0
    on_margin = members & (np.abs(y[:, None] * (lifted @ W.T) - 1.0) <= ACTIVE_TOL)
    # The box's multipliers are unique if they are 0, or if those of a face's margins are.
    faces = [k for k in range(len(W)) if at_box[k].any()]
    is_unique = all(_are_independent(lifted[on_margin[:, k]][:, ~at_box[k]]) for k in faces)
    value = _value_of(machine, tol, float(machine._costs.sum()))
    return [slopes.box(machine.radius, value, np.abs(pulls) * at_box, is_unique)]


def of_pc_slp(machine: PCSLP, tol: float) -> list[Sensitivity]:
    """Return the slope in the radius of the box."""
    machine._need_data("sensitivities()")
    duals, y = machine.solution_.duals, machine._y
    _check_multipliers(machine, duals.get("inside"))
    at_box = is_at_box(machine.solution_["W"], machine.radius)
    is_assigned = machine.assignment_[:, None] == np.arange(len(at_box))
    M = duals["inside"] + is_assigned * duals["outside"][:, None]
    multipliers = np.abs(pull(machine._X, y[:, None] * M)) * at_box
    is_unique = not at_box.any() or _are_independent(_undetermined_pairs(machine, is_assigned, at_box))
    value = _value_of(machine, tol, 2.0)  # the error at W = 0
    return [slopes.box(machine.radius, value, multipliers, is_unique)]


def _undetermined_pairs(machine: PCSLP, is_assigned: NDArray[np.bool_], at_box: NDArray[np.bool_]) -> Array:
    """Return a row for each pair of sample and face whose multiplier does not follow from its slack.

    The columns are equations: stationarity in the weights off the box and, for each positive with a slack at
    several faces at once, the sum of its multipliers, which is its cost. If the rows are independent, the
    multipliers of the box are unique.
    """
    lifted, y = dense(lift(machine._X)), machine._y
    K = is_assigned.shape[1]
    hinge = 1.0 - y[:, None] * (lifted @ machine.solution_["W"].T)
    is_positive = (y > 0)[:, None]
    slack = np.maximum(np.where(is_positive, hinge.max(axis=1, keepdims=True), 0.0), 0.0)
    pairs = (np.abs(hinge - slack) <= ACTIVE_TOL) & (is_positive | is_assigned)
    has_slack = (slack[:, 0] > ACTIVE_TOL) & (y > 0)
    pairs &= ~(has_slack & (pairs.sum(axis=1) == 1))[:, None]  # a single multiplier is the cost
    sample, face = np.nonzero(pairs)
    rows = np.zeros((len(sample), K, lifted.shape[1]))
    rows[np.arange(len(sample)), face] = lifted[sample]
    sums = (sample[:, None] == np.unique(sample[has_slack[sample]])).astype(float)
    return np.hstack([rows[:, ~at_box], sums])
