"""Optimal points in rational arithmetic or to many digits, by an active-set method started at a close point.

Once it is known which constraints and bounds are active, the KKT conditions are linear equations. The method
reads an active set off the close point, solves the equations, and checks the signs of the solution. A
constraint or weight with a wrong sign changes its state (active or inactive, slack positive or 0, weight free
or fixed), and the equations are solved again. If no sign is wrong, the KKT conditions hold exactly.

A program is a :class:`polyopt.check.check.Program`, the form in which :mod:`polyopt.check` verifies files. A
family of constraints, `row`, demands

    s_i (f_ik − Σ_{l in less_i} f_il) ≥ c − ξ        for each sample i and each face k in at_i,

where f_ik is the score of sample i at face k, s_i = ±1 is ``row.side[i]``, c is ``row.kink``, and a unit of
the slack ξ ≥ 0 costs ``row.cap[i]``, the *cap* of its multipliers (an infinite cap forbids slack). If
``row.pays`` is "sum", each constraint has its own slack; if it is "worst", the constraints of a sample share
one. A family whose loss is "square" costs Σ_i C_i/2 (f_ik − mean of f_k)² instead.

A weight w has the penalty h w² + l |w|, low ≤ w ≤ high; ``program.prices[k][j]`` has h, l, a count (0 here),
low and high. It may be fixed at a breakpoint of its penalty: at low, at high, or at 0 if l > 0. With the
multipliers m, β_i the signed sum of sample i's multipliers at a face (``program.betas``) and X the features
(``program.features``), the equations are

    2h w + l sign(w) = X'β      for a weight that is not fixed (for the penalty h w'Kw: 2h w = β),
    Σ β = 0                     for a face with an intercept,
    c − s f = ξ                 for an active constraint,
    Σ m = C                     for a positive slack with the cap C.

All other multipliers and slacks are 0. The unknowns are the free weights, the intercepts, the multipliers of
active constraints and the positive slacks. Some are *eliminated*, that is computed from the others. A weight
with h > 0 follows from the first equation, unless there are squares of scores: then β depends on w. If a
positive slack has a single active constraint, the multiplier is C, and the slack follows from the third.

The residuals of the equations are affine in the unknowns. So their values at 0, and the differences from them
at the unit vectors, are the right-hand side and the columns of the linear system.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from math import inf
from typing import Any

import numpy as np

from polyopt.certificates.claims.file import square_multipliers
from polyopt.certificates.claims.statement import Multipliers, Vector
from polyopt.check.check import Program, Rows

Key = tuple[Any, ...]  # an unknown: ("w", face, weight), ("b", face), ("m", slack, face) or ("xi", slack)
Solve = Callable[[list[Vector], Vector, Vector], Vector]  # (A, rhs, guess) -> solution of A x = rhs
Change = Callable[[], None]  # changes one state of an active set

_ZERO, _ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class Options:
    """Limits of the active-set method."""

    max_equations: int = 400  # largest number of unknowns; with more, elimination in fractions takes minutes
    max_rounds: int = 60  # largest number of active sets tried
    # Number of first rounds that change all wrong states; later ones change one, as the former may cycle
    max_joint_rounds: int = 12
    # Violation, in multiples of its tolerance, above which ξ counts as positive whatever its multipliers are
    clear_violation_ratio: int = 1000


OPTIONS = Options()

# -- linear equations ----------------------------------------------------------------------------------------


def solve_exactly(A: list[Vector], rhs: Vector, guess: Vector) -> Vector:
    """Return a solution of A x = rhs in fractions, by Gauss-Jordan elimination.

    Components that the equations leave undetermined are copied from the guess, which is nearly a solution.
    Raise ValueError if the equations contradict each other.
    """
    lines = [[*line, value] for line, value in zip(A, rhs, strict=True)]
    pivots: list[int] = []
    for column in range(len(A[0])):
        top = len(pivots)
        pivot_line = next((r for r in range(top, len(lines)) if lines[r][column]), None)
        if pivot_line is None:
            continue
        lines[top], lines[pivot_line] = lines[pivot_line], lines[top]
        pivot = lines[top][column]
        lines[top] = [v / pivot for v in lines[top]]
        for r, line in enumerate(lines):
            if r != top and line[column]:
                factor = line[column]
                lines[r] = [v - factor * p for v, p in zip(line, lines[top], strict=True)]
        pivots.append(column)
    if any(line[-1] for line in lines[len(pivots) :]):
        raise ValueError(
            "the equations of the active set contradict each other: solve more closely first (a smaller tol)"
        )
    x = list(guess)
    undetermined = [column for column in range(len(x)) if column not in set(pivots)]
    for column, line in zip(pivots, lines, strict=False):
        x[column] = line[-1] - sum((line[j] * guess[j] for j in undetermined), _ZERO)
    return x


def solve_refined(A: list[Vector], rhs: Vector, guess: Vector, bits: int) -> Vector:
    """Return a solution of A x = rhs by iterative refinement; the guess is not used.

    It has about `bits` bits, relative to the largest component. Each step computes the residual exactly and
    solves for it in double precision.
    """
    inverse = np.linalg.pinv(np.array([[float(v) for v in line] for line in A]), rcond=1e-13)
    x, residual = [_ZERO] * len(A[0]), rhs
    grid = _ZERO  # the solution's components are rounded to multiples of 1/grid; set by the first step
    for _ in range(40):  # a step gains up to 50 bits
        norm = max(map(abs, residual))
        if not norm:
            break
        scale = Fraction(2) ** (norm.numerator.bit_length() - norm.denominator.bit_length())
        step = inverse @ np.array([float(v / scale) for v in residual])
        candidate = [v + Fraction(float(s)) * scale for v, s in zip(x, step, strict=True)]
        if not grid:
            grid = Fraction(2) ** (bits - int(np.frexp(float(max(map(abs, candidate))) or 1.0)[1]))
        candidate = [round(v * grid) / grid for v in candidate]
        new_residual = [
            value - sum((a * v for a, v in zip(line, candidate, strict=True)), _ZERO)
            for line, value in zip(A, rhs, strict=True)
        ]
        if max(map(abs, new_residual)) >= norm:
            break
        x, residual = candidate, new_residual
    return x


# -- active sets ---------------------------------------------------------------------------------------------


def solve_active_set(
    program: Program, W: list[Vector], b: Vector, multipliers: Multipliers, *, active_tol: float,
    solve: Solve = solve_exactly, sign_tol: Fraction = _ZERO,
) -> tuple[list[Vector], Vector, Multipliers]:  # fmt: skip
    """Return the faces, intercepts and multipliers of the optimum.

    W, b, multipliers: a close point: for each face its weights, its intercept (b is [] if the program has no
        intercepts) and its multipliers.
    active_tol: distance within which a number of the close point counts as at its bound, relative to the
        largest number of its kind.
    solve: a solver of linear equations: :func:`solve_exactly`, or :func:`solve_refined` with given bits.
    sign_tol: tolerance of the signs; 0, unless `solve` rounds.
    ValueError: the active set does not settle; the point is not close enough, or the optimum is degenerate.
    """
    active_set = _ActiveSet(program, W, b, multipliers, Fraction(active_tol))
    for n_rounds in range(OPTIONS.max_rounds):
        active_set.solve_equations(solve)
        changes = active_set.find_changes(sign_tol)
        if not changes:
            return active_set.W, active_set.b if program.intercept else [], active_set.multipliers()
        for change in changes if n_rounds < OPTIONS.max_joint_rounds else changes[:1]:
            change()
    raise ValueError(
        "the active set does not settle: solve more closely first (a smaller tol), or the optimum is "
        "degenerate"
    )


class _ActiveSet:
    """The states of slacks and weights, and the point that follows from them.

    entries: the index pairs (face, weight) of W.
    W, b: weights and intercepts of all faces.
    pulls: X'β of each face, set by :meth:`solve_equations`.
    scores: scores of the samples at each face.
    slacks: the slacks, with their states and multipliers.
    is_eliminated: for each face, True for a weight that is computed from the other unknowns while it is free.
    fixed: for each face the breakpoint of each fixed weight, None for a free one.
    end_slopes: by (face, weight), for a fixed weight whose slope X'β − 2h w is at an end of the
        subdifferential of l|w|, that end. The weight stays fixed, but its stationarity equation is added:
        without the equation the multipliers would be undetermined.
    """

    def __init__(self, program: Program, W: list[Vector], b: Vector, multipliers: Multipliers, tol: Fraction):
        self.program, self.entries = program, list(product(range(program.faces), range(program.width)))
        self.W, self.b = [list(w) for w in W], list(b) or [_ZERO] * program.faces
        self.pulls: list[Vector] = []
        self.scores = self._scores()
        has_squares = any(row.loss == "square" for row in program.rows)
        self.is_eliminated = [[h > 0 and not has_squares for h, *_ in face] for face in program.prices]
        self.end_slopes: dict[tuple[int, int], Fraction] = {}
        self.fixed: list[list[Fraction | None]] = []
        for w, penalties in zip(self.W, program.prices, strict=True):
            w_tol = tol * (max(map(abs, w), default=_ZERO) or 1)
            self.fixed.append([_breakpoint_at(v, p, w_tol) for v, p in zip(w, penalties, strict=True)])
        largest = max((max(values) for by_face in multipliers.values() for values in by_face), default=1)
        self.slacks: list[_Slack] = []
        for row in program.rows:
            if row.name not in multipliers:  # a family with the loss "square", which has no slacks
                continue
            m = multipliers[row.name]
            for i, sharing in row.paid():
                cap = row.cap[i]
                if cap > 0:
                    size = cap if cap < inf else largest or 1
                    self.slacks.append(_Slack(row, i, list(sharing), m, tol * size, self.scores, tol))

    def _scores(self) -> list[Vector]:
        """Return the n scores of each face, with the intercept."""
        products = (self.program.features.scores(w)[0] for w in self.W)
        return [[v + b for v in f] for f, b in zip(products, self.b, strict=True)]

    def multipliers(self) -> Multipliers:
        """Return the present multipliers."""
        n, faces = self.program.n, self.program.faces
        by_family = {row.name: [[_ZERO] * n for _ in range(faces)] for row in self.program.rows}
        for slack in self.slacks:
            for k, m in slack.multipliers.items():
                by_family[slack.row.name][k][slack.i] = m
        return by_family | square_multipliers(self.program, self.W)

    def solve_equations(self, solve: Solve) -> None:
        """Compute weights, intercepts, multipliers and slacks for the present states.

        In the keys of unknowns, u is the index of a slack, k of a face and j of a weight.
        """
        faces = range(self.program.faces)
        guess: dict[Key, Fraction] = {  # the unknowns, with their present values
            ("w", k, j): self.W[k][j]
            for k, j in self.entries
            if self.fixed[k][j] is None and not self.is_eliminated[k][j]
        }
        guess |= {("b", k): self.b[k] for k in faces if self.program.intercept}
        for u, slack in enumerate(self.slacks):
            if not slack.is_capped:
                guess |= {("m", u, k): slack.multipliers[k] for k in slack.active}
                guess |= {("xi", u): slack.xi} if slack.is_positive else {}
        if len(guess) > OPTIONS.max_equations:
            raise ValueError(
                f"{len(guess)} numbers are at no bound; at most {OPTIONS.max_equations} are solved for"
            )
        # The subgradient of l|w| at each weight: l sign(w), or the end in `end_slopes`.
        slopes = {
            (k, j): self.program.prices[k][j][1] * (1 if self.W[k][j] > 0 else -1) for k, j in self.entries
        } | self.end_slopes
        zeros = dict.fromkeys(guess, _ZERO)
        at_zero = self._set_point(zeros, slopes)
        at_units = [self._set_point(zeros | {key: _ONE}, slopes) for key in guess]
        # For each equation, its residuals at all unit vectors, and its residual at 0; empty without unknowns.
        equations = zip(zip(*at_units, strict=True), at_zero, strict=False)
        A = [[residual - constant for residual in line] for line, constant in equations]
        x = solve(A, [-v for v in at_zero], list(guess.values())) if A else []
        values = zeros | dict(zip(guess, x, strict=False))
        self._set_point(values, slopes)
        # If no multiplier of a face is unknown, its intercept is in no equation, and an interval of
        # intercepts is optimal: its middle is taken. Without shared slacks, the interval depends on this face
        # only.
        have_own_slacks = all(len(slack.faces) == 1 for slack in self.slacks)
        for k in faces:
            is_undetermined = not any(key[0] == "m" and key[2] == k for key in guess)
            if self.program.intercept and is_undetermined and have_own_slacks:
                values["b", k] = self._middle_intercept(k)
                self._set_point(values, slopes)

    def _set_point(self, values: dict[Key, Fraction], slopes: dict[tuple[int, int], Fraction]) -> Vector:
        """Compute the point from the values of the unknowns, and return the residuals of the equations.

        slopes: the slope of l|w| at each weight, by face and weight.
        """
        program, residuals = self.program, list[Fraction]()
        for u, slack in enumerate(self.slacks):
            slack.xi = values.get(("xi", u), _ZERO)
            slack.multipliers = dict.fromkeys(slack.faces, _ZERO)
            for k in slack.active:
                slack.multipliers[k] = slack.cap if slack.is_capped else values["m", u, k]
        self.b = [values.get(("b", k), _ZERO) for k in range(program.faces)]
        for k, j in self.entries:
            self.W[k][j] = values.get(("w", k, j), self.fixed[k][j] or _ZERO)
        betas = program.betas(self.multipliers())
        is_kernel = program.shape == "kernel"
        self.pulls = betas if is_kernel else [program.features.pull(beta)[0] for beta in betas]
        for k, j in self.entries:
            slope = self.pulls[k][j] - slopes[k, j]
            if self.fixed[k][j] is None and self.is_eliminated[k][j]:
                self.W[k][j] = slope / (2 * program.prices[k][j][0])
            elif self.fixed[k][j] is None or (k, j) in self.end_slopes:
                residuals.append(slope - 2 * program.prices[k][j][0] * self.W[k][j])
        residuals += [sum(beta, _ZERO) for beta in betas] if program.intercept else []
        self.scores = self._scores()
        for slack in self.slacks:
            if slack.is_capped:
                slack.xi = max(slack.violation(self.scores, k) for k in slack.active)
            else:
                residuals += [slack.violation(self.scores, k) - slack.xi for k in slack.active]
                residuals += [sum(slack.multipliers.values()) - slack.cap] if slack.is_positive else []
        return residuals

    def _middle_intercept(self, k: int) -> Fraction:
        """Return the middle of the interval of optimal intercepts, if all multipliers are at their bounds."""
        lower: Vector = []
        upper: Vector = []
        for slack in self.slacks:
            # An inactive constraint must keep s f ≥ c, an active one, which is violated, s f ≤ c. So an
            # inactive one with s = 1 and an active one with s = -1 bound the intercept from below.
            if slack.faces == [k]:
                bounds = lower if (slack.side > 0) == (not slack.active) else upper
                bounds.append(slack.side * slack.row.kink - self.scores[k][slack.i] + self.b[k])
        if not (lower and upper):
            raise ValueError("every intercept beyond some number is optimal: there is no middle one")
        return (max(lower) + min(upper)) / 2

    def find_changes(self, sign_tol: Fraction) -> list[Change]:
        """Return functions, each of which changes one state with a wrong sign."""
        changes = [change for k, j in self.entries for change in self._changes_of_weight(k, j)]
        return changes + [c for slack in self.slacks for c in slack.find_changes(self.scores, sign_tol)]

    def _changes_of_weight(self, k: int, j: int) -> list[Change]:
        """Return the change of state of a weight, as a list of one function; [] if no sign is wrong.

        - A free weight below low or above high is fixed at this bound.
        - A free weight that has changed its sign is fixed at 0.
        - A fixed weight becomes free if its slope X'β − 2h w is outside the subdifferential of l|w|. If the
          slope is outside by at most `tol`, the weight stays fixed, and gets the end as its `end_slopes`.
        """
        h, l1, _, low, high = self.program.prices[k][j]
        w, fixed = self.W[k][j], self.fixed[k][j]
        slope = self.pulls[k][j] - 2 * h * w  # at an optimum in the subdifferential of l |w|

        def set_state(breakpoint_: Fraction | None, value: Fraction) -> None:
            self.fixed[k][j], self.W[k][j] = breakpoint_, value

        if fixed is None:
            if not low <= w <= high:
                bound = low if w < low else high
                return [partial(set_state, bound, bound)]
            has_changed_sign = l1 and w * slope < 0  # its equation had the slope l sign(w) for the old w
            return [partial(set_state, _ZERO, _ZERO)] if has_changed_sign else []
        tol = Fraction(l1 + 1) / 10**9  # within it the slope counts as at the end of the subdifferential
        largest, least = (l1 if w >= 0 else -l1), (l1 if w > 0 else -l1)  # ends of the subdifferential
        # The weight increases if the slope is above the largest subgradient, decreases if below the least.
        for end, excess, can_move, sign in (
            (largest, slope - largest, w < high, _ONE),
            (least, least - slope, w > low, -_ONE),
        ):
            if can_move and excess > 0:
                if excess <= tol:
                    return [partial(self.end_slopes.__setitem__, (k, j), end)]
                return [partial(set_state, None, w or sign)]  # the sign of w determines its slope
        return []


def _breakpoint_at(w: Fraction, penalty: Any, tol: Fraction) -> Fraction | None:
    """Return the breakpoint of a penalty within `tol` of a weight, or None."""
    _, l1, _, low, high = penalty
    breakpoints = [*([_ZERO] if l1 and low <= 0 <= high else []), low, high]
    return next((v for v in breakpoints if abs(v) < inf and abs(w - v) <= tol), None)


class _Slack:
    """One slack ξ of a sample i, and the constraints at some faces that share it.

    faces: the faces of these constraints.
    multipliers: the multiplier of the constraint at each face.
    active: the faces whose constraint is active.
    is_positive: True if ξ > 0, so that the multipliers add up to the cap.
    xi: the value of ξ.
    """

    def __init__(
        self, row: Rows, i: int, faces: list[int], multipliers: list[Vector], multiplier_tol: Fraction,
        scores: list[Vector], score_tol: Fraction,
    ):  # fmt: skip
        """Read the states off a close point: multipliers (n,) and scores (n,) by face, with tolerances."""
        self.row, self.i, self.faces, self.cap, self.side = row, i, faces, row.cap[i], row.side[i]
        self.multipliers = {k: multipliers[k][i] for k in faces}
        violations = {k: self.violation(scores, k) for k in faces}
        largest = max(violations.values())
        self.active = {k for k in faces if self.multipliers[k] > multiplier_tol}
        is_at_cap = self.cap - sum(self.multipliers.values()) <= multiplier_tol
        violation_tol = score_tol if is_at_cap else OPTIONS.clear_violation_ratio * score_tol
        self.is_positive = self.cap < inf and largest > violation_tol
        if self.is_positive and not self.active:
            self.active = {max(faces, key=violations.__getitem__)}
        self.xi = largest if self.is_positive else _ZERO

    def violation(self, scores: list[Vector], k: int) -> Fraction:
        """Return c − s f, the slack that the constraint at face k needs."""
        subtracted = sum((scores[face][self.i] for face in self.row.less[self.i]), _ZERO)
        kink: Fraction = self.row.kink
        return kink - self.side * (scores[k][self.i] - subtracted)

    @property
    def is_capped(self) -> bool:
        """True if ξ > 0 and a single constraint is active, so that its multiplier is the cap."""
        return self.is_positive and len(self.active) == 1

    def find_changes(self, scores: list[Vector], sign_tol: Fraction) -> list[Change]:
        """Return the changes of state.

        There is one change for each of: a negative multiplier, a violation above ξ, a negative ξ, and, with
        ξ = 0, multipliers whose sum is above the cap.
        """
        changes: list[Change] = []
        least = min(self.active, key=self.multipliers.__getitem__, default=None)
        if least is not None and self.multipliers[least] < -sign_tol and not self.is_capped:
            changes.append(partial(self.active.discard, least))
        most_violated = max(self.faces, key=lambda k: self.violation(scores, k))
        if most_violated not in self.active and self.violation(scores, most_violated) > self.xi + sign_tol:
            changes.append(partial(self.active.add, most_violated))
        if self.is_positive and self.xi < -sign_tol:
            changes.append(partial(setattr, self, "is_positive", False))
        if not self.is_positive and sum(self.multipliers.values()) > self.cap + sign_tol:
            changes.append(partial(setattr, self, "is_positive", True))
        return changes
