"""The Polyceptron, made exact: one linear program for each face of a polyhedral set.

Problem
-------
A sample x with x̃ = (x, 1) is inside if min_k W_k·x̃ ≥ 0. The positives belong inside: each must be on the
inner side of every face. A negative must be on the outer side of one face only, its assignment z_i.

The paper assigns every sample, of both classes, to its face z_i of least score. The cell of face k is the set
of samples with z_i = k. The paper splits the perceptron criterion Σ_i [−y_i min_k W_k·x̃_i]_+ over the cells
and decreases it face by face,
(4)  min  Σ_{i: z_i = k} [−y_i w·x̃_i]_+.
The exact solution is trivial: w = 0 attains the minimum 0 on any data. Here (4) is the program ``cell`` with
margin=0, and margin=1 excludes w = 0.

The loss of a positive on the face of its cell is a lower bound on its loss over all faces, not an upper
bound, so the paper's steps, if exact, may increase the criterion. Here every positive is in the program of
every face. So the sum of the programs majorises the objective and is tight at the current faces: alternating
with the best assignment never increases the objective.

This is the Convex Polytope Machine with loss="sum" (:mod:`formulations.cpm`) with negated labels and faces,
and with a box |W| ≤ R in place of the norm.

Variables and shapes
--------------------
X is (n, m), y is (n,) of -1 and +1, C is a scalar or (n,). W (K, m+1), its bias last, and the slacks xi
(n, K); u (n, K), s_plus and s_minus (K, m+1) in the dual. A program of one face has w (m+1,), xi and u (n,).
The assignment is (n,) of 0..K-1, its entries at the positives ignored. Z (n, K) is 1 if the sample is in the
face's program: a row of ones at a positive, the unit vector of z_i at a negative. R is the radius of the box,
or infinite; the margin is a number.

mixed_integer has the slacks xi (n₊, K) of the positives and eta (n₋,) of the negatives, and the binary
assignment z (n₋, K). R must be finite. Its constants M (n₋,), λ (n₋, n₊) ≥ 0 and h (n₋,) are computed from
the data; they are defined below. Multipliers are in brackets in the programs.

Programs
--------
cell        min  Σ_i c_i ξ_i
            s.t. y_i w·x̃_i ≥ margin − ξ_i [u_i],  ξ ≥ 0,  w ≤ R [s⁺],  −w ≤ R [s⁻]
cell_dual   max  margin Σ_i u_i − R Σ_l (s⁺_l + s⁻_l)
            s.t. Σ_i u_i y_i x̃_i − s⁺ + s⁻ = 0 [w] (the row balance),  0 ≤ u_i ≤ c_i,  s⁺ ≥ 0,  s⁻ ≥ 0

cell is the program of one face, with c_i = C_i Z_ik; fixed_assignment is the sum of the programs of all
faces, which have no variable in common; fixed_assignment_dual is its dual. Eliminating s⁺ and s⁻ from the
duals leaves the objective margin Σ u − R ‖Σ_i u_i y_i x̃_i‖_1, so any u with 0 ≤ u ≤ c gives a lower bound on
the optimum. Without the box (R infinite) balance is an equation in u alone.
mixed_integer is the machine over all assignments of the negatives, with the margin 1; it has no dual. As
faces may be renumbered, its row ``symmetry`` lets a negative use face k only if an earlier one uses k − 1.

The M_i of the mixed-integer program, and negatives between positives
---------------------------------------------------------------------
The row of a negative is −W_k·x̃_i ≥ 1 − η_i − M_i (1 − z_ik). It must hold at η_i = 0 for a face that is not
chosen (z_ik = 0). No face in the box has a score above R ‖x̃_i‖_1, so M_i = 1 + R ‖x̃_i‖_1 suffices; a face at
a corner of the box attains this bound.

The row ``between``, η_i + Σ_j λ_ij Σ_k ξ_jk ≥ h_i, is valid for every point with z of 0 and 1. It strengthens
the relaxation, whose value is 0 without it, as M_i is large. Let x̃_i = Σ_j λ_ij x̃_j + e_i, over positives
j. The face k assigned to i has

     η_i ≥ 1 + W_k·x̃_i   and   Σ_j λ_ij ξ_jk ≥ Σ_j λ_ij − Σ_j λ_ij W_k·x̃_j,

which add up to η_i + Σ_j λ_ij ξ_jk ≥ 1 + Σ_j λ_ij + W_k·e_i ≥ h_i = 1 + Σ_j λ_ij − R ‖e_i‖_1. A negative in
the convex hull of the positives has such λ with e_i = 0, but for rounding, and h_i = 2: the losses of i and
of these positives sum to at least 2 for any faces. For other negatives λ and h are 0.

Recovery
--------
w is the multiplier of the dual's row balance; ξ_i = [margin − y_i w·x̃_i]_+.

Multipliers
-----------
u_i is the rate at which the face's cost rises with the margin required of sample i: 0 beyond the margin, c_i
inside it. The optimum is a vertex: m+1 samples determine a face and the others have u at a bound. s⁺ and s⁻
are the rates at which the cost falls as R rises. If an entry of s⁺ or s⁻ is not zero, the box is
active and the solution depends on the units: raise the radius, or scale the features.

Infeasible when
---------------
Never: w = 0, ξ = margin is feasible, and with it the optimum lies between 0 and margin Σ c_i.

Reference
---------
Manwani & Sastry, Polyceptron: A Polyhedral Learning Algorithm (2011), eq. (3) and (4). Margin, box, positives
in every program, and the mixed-integer program are additions of this package. The machine with a norm is of
Kantchelian et al. (2014).

Example
-------
>>> import numpy as np
>>> from formulations import polyceptron
>>> X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([-1, 1, -1])  # inside is the middle
>>> solution = polyceptron.fixed_assignment(X, y, n_faces=2, assignment=[0, -1, 1]).solve()
>>> solution.objective
0.0
>>> polyceptron.cell(X, y, margin=0.0).solve().objective  # no face separates these; w = 0 hides that
0.0
>>> polyceptron.cell(X, y, margin=1.0).solve().objective
2.0
>>> polyceptron.big_m(X, y, radius=10.0)
array([31., 31.])
>>> solution = polyceptron.mixed_integer(X, y, n_faces=2, radius=10.0).solve()
>>> solution["z"].argmax(axis=1), round(solution.objective, 6) + 0.0, round(solution.bound, 6) + 0.0
(array([0, 1]), 0.0, 0.0)
>>> polyceptron.mixed_integer(X, -y, n_faces=2).solve().objective  # the negative is between positives
2.0
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from formulations import polytope
from formulations.cpm import expand_to_samples, over_assignments
from formulations.language.arguments import at_least, positive, whole
from formulations.language.clock import Clock
from formulations.language.program import Duality, Program, Row, without_multipliers
from formulations.language.recovery import as_costs, as_data
from formulations.language.statement import index_in
from formulations.language.toy_data import two_blobs
from formulations.language.types import Matrix, MatrixLike, Vector, dense
from formulations.polyhedral import SAMPLE_LETTERS
from formulations.polytope import lift
from formulations.svm import cost_parameter, pair_costs

BOX_LETTERS = {"R": "the radius of the box that keeps the faces bounded"}


def box_rows(faces: cp.Variable, radius: float, letter: str) -> tuple[Row, ...]:
    """Return the rows ``upper`` and ``lower`` of the box |W| ≤ R, or none if R is infinite."""
    if np.isinf(positive("radius", radius, infinite=True)):
        return ()
    says = "rate at which the cost falls as $R$ rises; not zero if the box is active"
    return (  # Row: name, constraint, printed text, letter and meaning of its multiplier
        Row("upper", faces <= radius, f"{letter}ₗ ≤ R", "s_plus", says),
        Row("lower", -faces <= radius, f"−{letter}ₗ ≤ R", "s_minus", says),
    )


def box_duals(
    imbalance: cp.Expression, radius: float, text: str, letter: str
) -> tuple[cp.Expression | float, str, tuple[cp.Variable, ...], tuple[Row, ...]]:
    """Return the box's term in a dual's objective, its text, the variables s⁺ and s⁻, and the dual's rows.

    `imbalance` is Σ_i u_i y_i x̃_i, printed as `text`: the row ``balance`` makes it s⁺ − s⁻, or 0 without a
    box. `letter` is that of the faces, the multipliers of ``balance``.
    """
    meaning = f"the faces ${letter}$, sign included"
    if np.isinf(positive("radius", radius, infinite=True)):
        row = Row("balance", imbalance == 0, f"{text} = 0", letter, meaning)
        return 0.0, "", (), (row,)
    k = "ₖ" if imbalance.ndim == 2 else ""
    s_plus, s_minus = (cp.Variable(imbalance.shape, name=name) for name in ("s_plus", "s_minus"))
    text = f"{text} − s⁺{k} + s⁻{k} = 0"
    rows = (
        Row("balance", imbalance - s_plus + s_minus == 0, text, letter, meaning),
        Row("upper", s_plus >= 0, f"s⁺{k}ₗ ≥ 0", "R - W", "slack of the upper limit"),
        Row("lower", s_minus >= 0, f"s⁻{k}ₗ ≥ 0", "R + W", "slack of the lower limit"),
    )
    term = radius * (cp.sum(s_plus) + cp.sum(s_minus))
    return term, f" − R Σ{k}ₗ (s⁺{k}ₗ + s⁻{k}ₗ)", (s_plus, s_minus), rows


_PAPER = "Manwani & Sastry (2011), eq. (4), with a margin, a box, and every positive at every face"

LETTERS = {  # meaning of the letters in printed formulas
    "Zᵢₖ": "1 if sample $i$ is in the program of face $k$, else 0: a positive in all, a negative in one",
    **BOX_LETTERS,
    **SAMPLE_LETTERS,
    "Cᵢ": "the cost of sample $i$'s slack, $C$ times its weight",
}
_CELL_LETTERS = {**LETTERS, "Cᵢ": "the cost of sample $i$'s slack, 0 if it is not in this program"}


def assignment_matrix(y: ArrayLike, n_faces: int, assignment: ArrayLike) -> NDArray[np.float64]:
    """Return Z (n, K): 1 if sample i is in the program of face k, else 0. A positive is in all programs."""
    whole("n_faces", n_faces)
    # There the samples with label +1 are assigned, here the negatives.
    return polytope.assignment_matrix(-np.asarray(y, dtype=float), n_faces, assignment, "negative")


def cell(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, margin: float = 1.0, radius: float = 1e4
) -> Program:
    """State one face of the program for a fixed assignment.

    Parameters
    ----------
    X, y
        Samples, labels: +1 inside, -1 outside.
    C : float or array_like of shape (n,)
        Cost of slack, per sample: 0 for the negatives of other faces.
    margin : float
        1, or 0 for the paper's (4), whose optimum is 0.
    radius : float
        R, the largest absolute value of an entry of w, or inf.
    """
    X, y = as_data(X, y)
    w, costs = cp.Variable(X.shape[1] + 1, name="w"), cost_parameter(C, len(y))
    return _primal(X, y, w, costs, {"C": costs}, margin, radius)


def cell_dual(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, margin: float = 1.0, radius: float = 1e4
) -> Program:
    """State the dual of :func:`cell`; arguments as in the primal."""
    X, y = as_data(X, y)
    primal, u = cell(X, y, C, margin, radius), cp.Variable(len(y), name="u")
    return _dual(primal, u, lift(X).T @ cp.multiply(y, u), margin, radius)


def fixed_assignment(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike,
    C: ArrayLike = 1.0, margin: float = 1.0, radius: float = 1e4,
) -> Program:  # fmt: skip
    """State all faces for a fixed assignment: the sum of the programs of :func:`cell`.

    Arguments as in :func:`cell` and :func:`assignment_matrix`, which gives the parameter Z.
    """
    X, y = as_data(X, y)
    Z_value, C_parameter = assignment_matrix(y, n_faces, assignment), cost_parameter(C, len(y))
    Z = cp.Parameter(Z_value.shape, nonneg=True, name="Z", value=Z_value)
    parameters = {"C": C_parameter, "Z": Z}
    W = cp.Variable((n_faces, X.shape[1] + 1), name="W")
    return _primal(X, y, W, pair_costs(*parameters.values()), parameters, margin, radius)


def fixed_assignment_dual(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike,
    C: ArrayLike = 1.0, margin: float = 1.0, radius: float = 1e4,
) -> Program:  # fmt: skip
    """State the dual of :func:`fixed_assignment`, with the same parameters; arguments as in the primal."""
    X, y = as_data(X, y)
    primal = fixed_assignment(X, y, n_faces, assignment, C, margin, radius)
    u = cp.Variable((len(y), n_faces), name="u")
    return _dual(primal, u, cp.multiply(y[:, None], u).T @ lift(X), margin, radius)


def _primal(
    X: Matrix, y: Vector, faces: cp.Variable, costs: cp.Parameter, parameters: dict[str, cp.Parameter],
    margin: float, radius: float,
) -> Program:  # fmt: skip
    """State the program of one face, `faces` (m+1,), or of all faces, `faces` (K, m+1)."""
    is_cell, margin = faces.ndim == 1, at_least("margin", margin, 0.0)
    face, i, scope = ("w", "ᵢ", "of one face") if is_cell else ("Wₖ", "ᵢₖ", "for a fixed assignment")
    xi = cp.Variable(costs.shape, name="xi")
    scores = cp.multiply(y if is_cell else y[:, None], lift(X) @ faces.T)
    says = "rate at which the cost rises with sample i's margin: 0 beyond it, its cost inside it"
    return Program(
        name=f"polyceptron.{'cell' if is_cell else 'fixed_assignment'}",
        title=f"Polyceptron, the exact program {scope}",
        source=_PAPER,
        objective=cp.Minimize(cp.sum(cp.multiply(costs, xi))),
        objective_text="Σᵢ Cᵢ ξᵢ" if is_cell else "Σᵢₖ Cᵢ Zᵢₖ ξᵢₖ",
        variables={faces.name(): faces, "xi": xi},
        rows=(
            Row("margin", scores >= margin - xi, f"yᵢ {face}·x̃ᵢ ≥ {_decimal(margin)} − ξ{i}", "u", says),
            Row("slack", xi >= 0, f"ξ{i} ≥ 0", "v", "cost of slack less $u$"),
            *box_rows(faces, radius, face),
        ),
        parameters=parameters,
        letters=_CELL_LETTERS if is_cell else LETTERS,
        data={"x": X, "y": y, "R": radius},
    )


def _dual(primal: Program, u: cp.Variable, imbalance: cp.Expression, margin: float, radius: float) -> Program:
    """State the dual of one face, u (n,), or of all faces, u (n, K); `imbalance` is Σ_i u_i y_i x̃_i."""
    face, i, cap = ("w", "ᵢ", "Cᵢ") if u.ndim == 1 else ("W", "ᵢₖ", "Cᵢ Zᵢₖ")
    costs = primal.parameters["C"] if u.ndim == 1 else pair_costs(*primal.parameters.values())
    factor = "" if margin == 1.0 else f"{_decimal(margin)} "
    term, term_text, variables, rows = box_duals(imbalance, radius, f"Σᵢ u{i} yᵢ x̃ᵢ", face)
    rows += (
        Row("margin", u >= 0, f"u{i} ≥ 0", "surplus", "surplus of sample i over the face's margin"),
        Row("xi", u <= costs, f"u{i} ≤ {cap}", "xi", "the slacks $ξ$"),
    )
    return primal.dual(margin * cp.sum(u) - term, f"{factor}Σ{i} u{i}{term_text}", (u, *variables), rows)


def _decimal(number: float) -> str:
    """Return a number with all its digits, and no exponent."""
    return np.format_float_positional(number, trim="-")


def big_m(X: MatrixLike, y: ArrayLike, radius: float = 1e4) -> NDArray[np.float64]:
    """Return M_i of each negative, shape (n₋,)."""
    X, y = as_data(X, y)
    return np.asarray(1.0 + positive("radius", radius) * np.abs(lift(dense(X)[y < 0])).sum(axis=1))


def shares_between(X: MatrixLike, y: ArrayLike, time_limit: float | None = None) -> NDArray[np.float64]:
    """Return λ (n₋, n₊), the negatives as convex combinations of near positives.

    Among all convex combinations that give negative i, λ_i minimises Σ_j λ_ij ‖x_j − x_i‖², with features
    scaled to largest absolute value 1, so the positives used are near. The row is 0 if the negative is
    outside the hull of the positives, or was not reached before the time limit.
    """
    X, y = as_data(X, y)
    lifted, clock = lift(dense(X)), Clock(time_limit)
    unit = np.abs(lifted).max(axis=0)  # scale of each feature
    unit[unit == 0.0] = 1.0
    points, negatives = lifted[y > 0] / unit, lifted[y < 0] / unit
    shares = np.zeros((len(negatives), len(points)))
    for i, negative in enumerate(negatives):
        if clock.is_over:
            break
        squared_distances = np.square(points - negative).sum(axis=1)
        result = linprog(squared_distances, A_eq=points.T, b_eq=negative, bounds=(0.0, None))
        if result.status == 0:
            # The LP solver satisfies the equations only to its tolerance; least squares over the positives
            # with weight satisfies them to rounding.
            support = np.flatnonzero(result.x > 1e-9)
            weights = np.linalg.lstsq(points[support].T, negative, rcond=None)[0]
            shares[i, support] = np.maximum(weights, 0.0)
    return shares


def mixed_integer(
    X: MatrixLike, y: ArrayLike, n_faces: int, C: ArrayLike = 1.0, radius: float = 1e4,
    shares: NDArray[np.float64] | None = None,
) -> Program:  # fmt: skip
    """State the machine over all assignments; HiGHS and SCIP solve it.

    Arguments as in :func:`fixed_assignment`, with both classes and a finite radius, which should not be much
    larger than the weights: M_i times the solver's tolerance on z is an error of the scores. `shares` are the
    λ ≥ 0 (n₋, n₊), by default from :func:`shares_between`.
    """
    X, y = as_data(X, y)
    if not ((y > 0).any() and (y < 0).any()):
        raise ValueError("y must hold both classes: with one there is nothing to assign")
    R, costs, lifted = positive("radius", radius), as_costs(C, len(y)), lift(dense(X))
    positives, negatives = lifted[y > 0], lifted[y < 0]
    M, shares = big_m(X, y, R), shares_between(X, y) if shares is None else shares
    h = _hull_bounds(positives, negatives, shares, R)
    variables, rows, data, slack_cost, slack_text = over_assignments(
        lifted, y, n_faces, costs, M, -1, padding=0.0
    )
    between = Row(
        "between", variables["eta"] + shares @ cp.sum(variables["xi"], axis=1) >= h,
        "ηᵢ + Σⱼ λᵢⱼ Σₖ ξⱼₖ ≥ hᵢ for yᵢ < 0", "", "", at=index_in(y < 0),
    )  # fmt: skip
    rows = [*rows[:3], between, *rows[3:5], *box_rows(variables["W"], R, "Wₖ"), *rows[5:]]
    # The printed indices run over all samples.
    columns_of_positives = np.eye(len(y))[y > 0]
    data |= {"x": X, "R": R, "h": expand_to_samples(h, y < 0, 0.0),
             "λ": expand_to_samples(shares @ columns_of_positives, y < 0, 0.0)}  # fmt: skip
    return Program(
        name="polyceptron.mixed_integer",
        title="Polyceptron over all assignments",
        source="Manwani & Sastry (2011), eq. (4), with a margin and a box, as a mixed-integer program",
        objective=cp.Minimize(slack_cost),
        objective_text=slack_text,
        variables=variables,
        rows=without_multipliers(rows),
        letters={
            **BOX_LETTERS,
            **SAMPLE_LETTERS,
            "Cᵢ": LETTERS["Cᵢ"],
            "Mᵢ": "so large that the row is inactive if $zᵢₖ = 0$ (from the data)",
            "λᵢⱼ": "weight of positive $j$ in the combination that is negative $i$, else 0",
            "hᵢ": "2 for a negative in the hull of the positives, but for rounding, else 0",
        },
        data=data,
    )  # fmt: skip


def point_of(X: MatrixLike, y: ArrayLike, W: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return all variables at faces W: the best assignment, and faces in the order that symmetry requires."""
    X, y = as_data(X, y)
    scores = lift(dense(X)) @ W.T
    best = scores[y < 0].argmin(axis=1)
    order = list(dict.fromkeys([*best.tolist(), *range(len(W))]))
    scores, z = scores[:, order], np.argsort(order)[best]  # z: new number of each negative's best face
    return {
        "W": W[order],
        "xi": np.maximum(0.0, 1.0 - scores[y > 0]),
        "eta": np.maximum(0.0, 1.0 + scores[y < 0].min(axis=1)),
        "z": np.eye(len(W))[z],
    }


def _hull_bounds(
    positives: NDArray[Any], negatives: NDArray[Any], shares: NDArray[np.float64], radius: float
) -> NDArray[np.float64]:
    """Return h (n₋,) = max(0, 1 + Σ_j λ_ij − 2 R ‖e_i‖_1), and 0 if λ_i = 0.

    The derivation needs R ‖e_i‖_1 only; the second one covers the rounding error of the computed e_i.
    """
    residual = np.abs(negatives - shares @ positives).sum(axis=1)
    h = 1.0 + shares.sum(axis=1) - 2.0 * radius * residual
    return np.where(shares.any(axis=1), np.maximum(h, 0.0), 0.0)


def pairs(seed: int = 0) -> list[Duality]:
    """Return every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(m=2, seed=seed)
    C, K = np.where(y > 0, 0.7, 1.0), 2
    assignment = np.arange(len(y)) % K
    costs, lifted = C * assignment_matrix(y, K, assignment)[:, 0], lift(X)

    def pair(primal: Program, dual: Program, face: str) -> Duality:
        def recover(_: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            # The primal solution is the multiplier of the dual's first row, ``balance``.
            W = np.asarray(dual.rows[0].constraint.dual_value)
            labels = y if face == "w" else y[:, None]
            return {face: W, "xi": np.maximum(0.0, 1.0 - labels * (lifted @ W.T))}

        return Duality(primal, dual, recover)

    arguments = (X, y, K, assignment, C)
    return [
        pair(cell(X, y, costs), cell_dual(X, y, costs), "w"),
        pair(fixed_assignment(*arguments), fixed_assignment_dual(*arguments), "W"),
    ]


def singles(seed: int = 0) -> list[Program]:
    """Return the machine over all assignments, which has no dual, on random data."""
    X, y = two_blobs(n=16, m=2, separation=0.8, seed=seed)
    return [mixed_integer(X, y, 2, np.where(y > 0, 1.3, 0.7), radius=10.0)]
