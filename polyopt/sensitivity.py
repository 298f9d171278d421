"""What a fitted estimator's multipliers say: the slopes of its optimum, and which samples hold it.

:mod:`formulations.sensitivity` has the formulas and where they come from.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from formulations import sensitivity as slopes
from formulations.matrices import dense
from formulations.polyhedral import belonging, pull
from formulations.polytope import lift
from formulations.recovery import moments
from polyopt.certificates.certificate import Claim, relative_gap
from polyopt.estimators.base import PairwiseClassifier
from polyopt.estimators.cpm import ConvexPolytopeMachine
from polyopt.estimators.expansion import ExpansionClassifier
from polyopt.estimators.hinge import HingeClassifier
from polyopt.estimators.l0 import CrossEntropySVM
from polyopt.estimators.one_norm import OneNormSVM
from polyopt.estimators.pc_slp import PCSLP
from polyopt.estimators.plume import PLUME
from polyopt.estimators.polyceptron import Polyceptron
from polyopt.estimators.sigma_svm import SigmaSVM
from polyopt.estimators.spla1 import SPLA1
from polyopt.methods.method import named
from polyopt.methods.registry import answering_for, method_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from formulations.sensitivity import Sensitivity

    Array = NDArray[np.float64]

__all__ = ["binding", "centre_prices", "sensitivities"]

_AT = 1e-6  # within which, in units of the outputs, a row holds
_BOX = 1e-9  # share of the radius within which an entry of W is at it
_ROUNDING = 1e-12  # of what a value was added up from: a gap of less is none
_FEW = 3  # samples that binding names of each family


def sensitivities(estimator: Any, tol: float = 1e-6) -> pd.DataFrame:
    """How the optimal value of a fitted estimator's program moves with its parameters.

    Nothing is solved again: by the envelope theorem the multipliers and slacks of the one solution say it.
    For a machine with faces it is the program of the assignment (cells, responsibilities) that it has, for
    :class:`CrossEntropySVM` that of its pattern.

    Parameters
    ----------
    estimator : estimator
        A fitted classifier of this package.
    tol : float
        Relative tolerance at which its certificate must find it optimal, or there is a warning.

    Returns
    -------
    DataFrame
        One row per parameter (and per ``pair`` of classes, or polytope with one class ``outside``):
        ``parameter``; its ``value``; the ``objective``; its ``derivative``; ``elasticity``, the percent by
        which the objective moves for one percent of the parameter; ``two_sided``, whether the slope is known
        to be the same on both sides of the value, for where several multipliers are optimal they give but a
        number between two slopes; and the ``formula``.

    Raises
    ------
    TypeError
        Not a classifier that is a program here.
    ValueError
        A solver that leaves no multipliers, where they are needed, or a machine without its data.

    Warns
    -----
    ConvergenceWarning
        The machine is short of its optimum, whose slopes then are not known.
    """
    import pandas as pd

    columns: list[dict[str, Any]] = []
    for names, machine in _machines(estimator):
        for found in _slopes(machine, tol):
            columns.append(
                {
                    **names,
                    "parameter": found.parameter,
                    "value": found.value,
                    "objective": found.objective,
                    "derivative": found.derivative,
                    "elasticity": found.elasticity,
                    "two_sided": found.two_sided,
                    "formula": found.formula,
                }
            )
    return pd.DataFrame(columns)


def binding(estimator: Any) -> pd.DataFrame:
    """Which rows hold a fitted estimator's solution: its multipliers, family by family.

    Parameters
    ----------
    estimator : estimator
        A fitted classifier of this package whose solver leaves multipliers.

    Returns
    -------
    DataFrame
        One row per family of rows (and pair of classes, or polytope): ``row`` and ``letter``; ``rows``, how
        many there are; ``binding``, how many have a multiplier that is not zero; ``total``, the sum of their
        sizes; ``largest``; and ``samples``, the few that hold most. A polytope's sample counts with all its
        faces. ``estimator.duals_`` has every row.

    Raises
    ------
    ValueError
        A solver that leaves no multipliers.
    """
    import pandas as pd

    frame = estimator.duals_
    _need_multipliers(estimator, frame["multiplier"])
    sizes = frame["multiplier"].abs()
    small = _AT * float(sizes.max())
    keys = [name for name in ("pair", "outside", "row", "letter") if name in frame]
    found = []
    for key, mine in frame.assign(multiplier=sizes.where(sizes > small, 0.0)).groupby(keys, sort=False):
        each = mine.groupby("sample", sort=False)["multiplier"].sum().sort_values(ascending=False)
        found.append(
            {
                **dict(zip(keys, key, strict=True)),
                "rows": len(mine),
                "binding": int((mine["multiplier"] > 0).sum()),
                "total": float(mine["multiplier"].sum()),
                "largest": float(mine["multiplier"].max()),
                "samples": tuple(each[each > 0].index[:_FEW].tolist()),
            }
        )
    return pd.DataFrame(found)


def centre_prices(estimator: CrossEntropySVM) -> pd.DataFrame:
    """What the L0 machine would gain by one more centre.

    Parameters
    ----------
    estimator : CrossEntropySVM
        Fitted to two classes.

    Returns
    -------
    DataFrame
        One row per sample that is no centre, the most promising first: ``sample``; ``rate``, at which the
        loss falls as its coefficient may rise from 0; and ``least_change``, 1 − C² rate, under which the
        score cannot change: where it is positive the centre cannot pay for itself.
    """
    import pandas as pd

    if not isinstance(estimator, CrossEntropySVM):
        raise TypeError(f"centre_prices is of a CrossEntropySVM, not of {type(estimator).__name__}")
    check_is_fitted(estimator)
    if len(estimator.classes_) != 2:
        raise ValueError("centre_prices is of two classes: ask the machines in estimators_")
    caps = estimator.duals_.query("letter == 's'")
    off = caps["state"].eq("held at 0").to_numpy()
    rates = caps["multiplier"].to_numpy()[off]
    found = pd.DataFrame(
        {
            "sample": caps["sample"].to_numpy()[off],
            "rate": rates,
            "least_change": slopes.switching_on(estimator.C, rates),
        }
    )
    return found.sort_values("rate", ascending=False, kind="stable", ignore_index=True)


def _machines(estimator: Any) -> list[tuple[dict[str, str], Any]]:
    """The binary machines with one program each, with the columns that tell them apart."""
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
    if getattr(estimator, "double_sided", False):
        return [({"outside": str(side.outer_label_)}, side) for side in estimator.sides_]
    return [({}, estimator)]


def _objective(machine: Any, tol: float, scale: float = 0.0) -> float:
    """The value at the machine's solution, with a warning where it is not shown to be an optimum.

    `scale` is what a value that is 0 but for rounding was added up from.
    """
    certificate = machine.certificate(tol)
    proven = certificate.claim in (Claim.OPTIMAL, Claim.STATIONARY)
    # For its assignment, cells or responsibilities a machine may be optimal though another would do better.
    if not (proven or certificate.relative_gap <= tol or certificate.gap <= _ROUNDING * scale):
        _warn(machine, certificate.sentence)
    return certificate.primal_value


def _warn(machine: Any, sentence: str) -> None:
    warnings.warn(
        f"{type(machine).__name__}: these are slopes of the Lagrangian at the point reached, not of the "
        f"optimum. {sentence}",
        ConvergenceWarning,
        stacklevel=6,
    )


def _need_multipliers(machine: Any, multipliers: Any) -> None:
    if multipliers is None or np.isnan(np.asarray(multipliers)).any():
        raise ValueError(
            f"solver={getattr(machine, 'solver_', machine.solver)!r} of {type(machine).__name__} has no "
            "multipliers; fit it with solver='exact'"
        )


def _independent(rows: Any) -> bool:
    """Whether the rows of a matrix are linearly independent."""
    n, m = rows.shape
    return n == 0 or (n <= m and int(np.linalg.matrix_rank(rows)) == n)


# -- one machine each -------------------------------------------------------------------------------


def _slopes(machine: Any, tol: float) -> list[Sensitivity]:
    """By the function that the entry of its method names."""
    method = method_of(machine)
    if method is None or not method.slopes:
        raise TypeError(f"no derivatives are known of {type(machine).__name__}")
    with answering_for(method):
        return named(method.slopes)(machine, tol)


def _paid(machine: Any) -> tuple[Array, Array]:
    """Every slack that is paid for, and the weight of its sample."""
    import pandas as pd

    slack = machine.duals_.query("row == 'slack'")
    weights = machine._weights if isinstance(machine, ExpansionClassifier) else machine._costs / machine.C
    by_sample = pd.Series(weights, index=machine._rows)
    return slack["slack"].to_numpy(), by_sample[slack["sample"]].to_numpy()


def of_hinge(machine: HingeClassifier, tol: float) -> list[Sensitivity]:
    """The prices of slack, and where the machine has them the bound and the share."""
    value, rows = _objective(machine, tol), machine.families_
    found = []
    for name in dict.fromkeys(family.price for family in rows if family.price):
        mine = [family for family in rows if family.price == name]
        price = getattr(machine, name)
        slack = np.concatenate([np.maximum(0.0, -family.room(machine.outputs_)) for family in mine])
        weights = np.concatenate([family.cap for family in mine]) / price
        found.append(slopes.cost(price, value, slack, weights, name=name))
    if "B" in machine.get_params():
        placed = [machine.multipliers_[family.name] for family in rows if family.place == "B"]
        only = not placed or _independent(_active_samples(machine))
        found.append(slopes.bound(machine.B, value, placed, only))
    if isinstance(machine, SigmaSVM):
        found.append(slopes.share(machine.D, value, *_norm_and_variance(machine)))
    return found


def _active_samples(machine: HingeClassifier) -> Array:
    """A row (φ(x_i), 1) for every row of the program that holds without its multiplier being known by it.

    Their multipliers are unique where these are independent. For a kernel the rows are those of the Gram
    matrix among them, plus 1, which is of the same rank.
    """
    places = [family.room(machine.outputs_) for family in machine.families_]
    active = np.concatenate([np.flatnonzero(np.abs(room) <= _AT) for room in places])
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


def of_one_norm(machine: OneNormSVM, tol: float) -> list[Sensitivity]:
    """The price of slack, which caps the coefficients as well."""
    frame = machine.duals_
    s = frame.query("letter == 's'")["multiplier"].to_numpy()
    matrix, strict = _basis(machine)
    only = strict and matrix.shape[0] == matrix.shape[1] and _independent(matrix)
    xi, weights = _paid(machine)
    return [slopes.capped_cost(machine.C, _objective(machine, tol), xi, s, weights, only)]


def of_l0(machine: CrossEntropySVM, tol: float) -> list[Sensitivity]:
    """The price of loss, for the pattern found."""
    frame, sigma = machine.duals_, np.asarray(machine.solution_["sigma"])
    s = frame.query("letter == 's'")["multiplier"].to_numpy()
    xi, weights = _paid(machine)
    loss, proven = float(weights @ xi), float(machine.solution_["margin"].sum() - machine.C * (sigma @ s))
    if abs(loss - proven) > tol * max(float(weights.sum()), loss):
        _warn(machine, f"The loss of its pattern is within {relative_gap(loss, proven):.1e} of the least.")
    only = not sigma.any() or _independent(_basis(machine)[0])  # an empty pattern has no caps
    return [slopes.pattern_cost(machine.C, sigma, loss, s, only)]


def _basis(machine: ExpansionClassifier) -> tuple[Array, bool]:
    """The samples on the margin by the coefficients between their bounds and b, and whether all is strict.

    The multipliers are unique where its rows are independent; the coefficients, where it is square and
    regular besides and every other row holds with a multiplier.
    """
    frame, y = machine.duals_, machine._y
    rows = {letter: mine.reset_index() for letter, mine in frame.groupby("letter")}
    xi = rows["v"]["slack"].to_numpy()
    margin = (rows["u"]["slack"].to_numpy() <= _AT) & (xi <= _AT)
    small = _AT * machine.C
    inside = (rows["r"]["slack"].to_numpy() > small) & (rows["s"]["slack"].to_numpy() > small)
    K, _ = machine._training_kernel()
    matrix = np.column_stack([K[np.ix_(margin, inside)] * y[inside], np.ones(int(margin.sum()))])
    held = rows["u"]["multiplier"].to_numpy()[margin], rows["v"]["multiplier"].to_numpy()[margin]
    bound = (rows["r"]["multiplier"] + rows["s"]["multiplier"]).to_numpy()[~inside]
    return matrix, bool(all((part > _AT).all() for part in (*held, bound)))


def of_cpm(machine: ConvexPolytopeMachine, tol: float) -> list[Sensitivity]:
    """The price of slack, for the assignment reached."""
    return [slopes.cost(machine.C, _objective(machine, tol), *_paid(machine))]


def of_spla1(machine: SPLA1, tol: float) -> list[Sensitivity]:
    """The ridge, for the cells reached."""
    machine._need_data("sensitivities()")
    return [slopes.ridge(machine.ridge, _objective(machine, tol), machine.solution_["W"])]


def of_plume(machine: PLUME, tol: float) -> list[Sensitivity]:
    """The ridge and the sharpness of the gate, for the responsibilities reached."""
    machine._need_data("sensitivities()")
    W, value = machine.solution_["W"], _objective(machine, tol)
    return [
        slopes.ridge(machine.ridge, value, W),
        slopes.gate(machine.gamma, value, machine._X, machine._y, W, machine._costs),
    ]


def of_polyceptron(machine: Polyceptron, tol: float) -> list[Sensitivity]:
    """The radius of the box, for the assignment reached."""
    machine._need_data("sensitivities()")
    u = machine.solution_.duals.get("margin")
    _need_multipliers(machine, u)
    assert u is not None
    W, y, lifted = machine.solution_["W"], machine._y, _lifted(machine)
    held = _at_box(machine)
    on_margin = np.abs(y[:, None] * (lifted @ W.T) - 1.0) <= _AT
    on_margin &= belonging(y, machine.assignment_, len(W), "all") > 0
    # The box's multipliers are unique where they are 0, or where those of a face's margins are.
    faces = [k for k in range(len(W)) if held[k].any()]
    only = all(_independent(lifted[on_margin[:, k]][:, ~held[k]]) for k in faces)
    s = np.abs(pull(machine._X, y[:, None] * u)) * held
    value = _objective(machine, tol, float(machine._costs.sum()))
    return [slopes.box(machine.radius, value, s, only)]


def of_pc_slp(machine: PCSLP, tol: float) -> list[Sensitivity]:
    """The radius of the box, for the assignment reached."""
    machine._need_data("sensitivities()")
    duals, y = machine.solution_.duals, machine._y
    _need_multipliers(machine, duals.get("inside"))
    held = _at_box(machine)
    own = machine.assignment_[:, None] == np.arange(len(held))
    M = duals["inside"] + own * duals["outside"][:, None]
    s = np.abs(pull(machine._X, y[:, None] * M)) * held
    only = not held.any() or _independent(_open_pairs(machine, own, held))
    value = _objective(machine, tol, 2.0)  # the error of no faces at all
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
    open_ = (np.abs(hinge - worst) <= _AT) & (inside | own)
    shares = (worst[:, 0] > _AT) & (y > 0)
    open_ &= ~(shares & (open_.sum(axis=1) == 1))[:, None]  # alone it has all of the price
    place, face = np.nonzero(open_)
    rows = np.zeros((len(place), K, lifted.shape[1]))
    rows[np.arange(len(place)), face] = lifted[place]
    sharing = np.unique(place[shares[place]])
    tied = (place[:, None] == sharing).astype(float)
    return np.hstack([rows[:, ~held], tied])


def _lifted(machine: Any) -> Array:
    """The samples (x, 1), dense."""
    return dense(lift(machine._X))


def _at_box(machine: Any) -> NDArray[np.bool_]:
    """Which entries of W the box holds."""
    return np.abs(machine.solution_["W"]) >= (1.0 - _BOX) * machine.radius
