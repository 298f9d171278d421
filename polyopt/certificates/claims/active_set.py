"""Optimal points in rational arithmetic or to many digits, by an active-set method started at a close point.

Once it is known which constraints and bounds are active, the KKT conditions are linear equations. The method
reads an active set off the close point, solves the equations, and checks the signs of the solution. A
constraint or weight with a wrong sign changes its state (active or inactive, slack positive or 0, weight free
or fixed), and the equations are solved again. If no sign is wrong, the KKT conditions hold exactly.

A program is a :class:`polyopt.check.check.Program`, the form in which :mod:`polyopt.check` verifies files. A
family of constraints, `row`, demands

    s_i (f_ik − Σ_{l in less_i} f_il) ≥ c − ξ        for each sample i and each face k in at_i,

where f_ik is the score of sample i at face k, s_i = ±1 is ``row.side[i]``, c is ``row.kink``, and a unit of
the slack ξ ≥ 0 costs ``row.cap[i]``, the *cap* of its multipliers (a cap of None forbids slack). If
``row.pays`` is "sum", each constraint has its own slack; if it is "worst", the constraints of a sample share
one. ``program.through(w, True)`` computes the scores X w, and ``program.through(beta, False)`` the adjoint
X'β, each with an error bound. For a kernel, w are the coefficients of the expansion, and X stands for the
kernel matrix.

A weight w has the penalty h w² + l |w|, low ≤ w ≤ high; ``program.prices[k][j]`` has h, l, a count (0 here),
low and high. It may be fixed at a breakpoint of its penalty: at low, at high, or at 0 if l > 0. The objective
may also have the term D/2 times the variance of the scores with weights p (``program.share`` is D,
``program.weights`` p). With the multipliers m of the constraints, and β_i the signed sum of sample i's
multipliers (``program.betas``), the equations are

    2h w + l sign(w) + D·(gradient of half the variance) = X'β    for a weight that is not fixed,
    Σ β = 0                                                       for a face with an intercept,
    c − s f = ξ                                                   for an active constraint,
    Σ m = C                                                       for a positive slack with the cap C;

other multipliers and slacks are 0.

If the objective is h|w|² plus the sum of hinge losses, the first equations give w = X'β / 2h. Then the
weights are eliminated, only multipliers and intercepts are unknown, and each face is solved by itself
(:class:`_RowActiveSet`); otherwise weights are unknowns too (:class:`_RowAndWeightActiveSet`). Each
:class:`_Slack` keeps the states of the constraints that share it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import inf
from typing import Any

import numpy as np

from polyopt.check.check import Program, Rows, number

Vector = list[Fraction]
Multipliers = dict[str, list[Vector]]  # by the name of the family, for each face, n numbers
Key = tuple[Any, ...]  # an unknown: ("w", face, weight), ("b", face), ("m", slack, face) or ("xi", slack)
Expression = dict[Key, Fraction]  # a linear expression: its coefficients by unknown
Equation = tuple[Expression, Fraction]  # an expression and the right-hand side
ScoreTerms = Callable[[int], tuple[Expression, Fraction]]  # sample -> its score's unknown and known part
Solve = Callable[[list[Vector], Vector, Vector], Vector]  # (A, rhs, guess) -> solution of A x = rhs

_ZERO, _ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class Options:
    """Limits of the active-set method."""

    max_equations: int = 400  # largest number of unknowns; with more, elimination in fractions takes minutes
    max_rounds: int = 60  # largest number of active sets tried
    # Number of first rounds that change all wrong states; later ones change one, as the former may cycle
    joint_rounds: int = 12
    # Violation, in multiples of its tolerance, above which ξ counts as positive whatever its multipliers are
    clear_violation: int = 1000


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


def refining_solver(bits: int) -> Solve:
    """Return a solver of linear equations by iterative refinement.

    Its solutions have about `bits` bits, relative to the largest component. Each step computes the residual
    exactly and solves for it in double precision.
    """

    def solve(A: list[Vector], rhs: Vector, guess: Vector) -> Vector:
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

    return solve


# -- active sets ---------------------------------------------------------------------------------------------


def check_rational_form(program: Program) -> None:
    """Raise ValueError unless the optimum is rational; a price of nonzero weights (count) is refused too."""
    has_hinges = all(row.loss == "hinge" and row.pays != "soft" for row in program.rows)
    counts_weights = any(count for penalties in program.prices for _, _, count, _, _ in penalties)
    if program.shape != "square" or program.grouped or not has_hinges or counts_weights:
        raise ValueError(
            "exact solutions are of programs whose optimum is rational: hinge losses and, for single weights,"
            " squares, absolute values and bounds; this one has logarithms, norms, or numbers of weights"
        )


def has_row_form(program: Program) -> bool:
    """Return True if the objective is h|w|² plus the sum of hinge losses, so that weights are eliminated."""
    has_own_slacks = all(row.pays == "sum" or max(map(len, row.at)) <= 1 for row in program.rows)
    has_hinges = all(row.loss == "hinge" and not any(row.less) for row in program.rows)
    has_one_factor = not isinstance(program.size["factor"], dict | list)
    return program.is_square and has_own_slacks and has_hinges and has_one_factor


def stationary_faces(program: Program, multipliers: Multipliers) -> list[Vector]:
    """Return the faces that minimise the Lagrangian if the penalty is h|w|²."""
    return [_stationary_face(program, beta) for beta in program.betas(multipliers)]


def _stationary_face(program: Program, beta: Vector) -> Vector:
    """Return w = X'β / 2h; for a kernel, the coefficients β / 2h."""
    v = beta if program.kind == "kernel" else program.through(beta, False)[0]
    return [value / (2 * number(program.size["factor"])) for value in v]


def solve_active_set(
    program: Program, W: list[Vector], b: Vector, multipliers: Multipliers, *, active_tol: float,
    solve: Solve = solve_exactly, sign_tol: Fraction = _ZERO,
) -> tuple[list[Vector], Vector, Multipliers]:  # fmt: skip
    """Return the faces, intercepts and multipliers of the optimum.

    W, b, multipliers: a close point: for each face its weights, its intercept (b is [] if the program has no
        intercepts) and its multipliers.
    active_tol: distance within which a number of the close point counts as at its bound, relative to the
        largest number of its kind.
    solve: a solver of linear equations: :func:`solve_exactly`, or a result of :func:`refining_solver`.
    sign_tol: tolerance of the signs; 0, unless `solve` rounds.
    ValueError: the active set does not settle; the point is not close enough, or the optimum is degenerate.
    """
    all_faces = list(range(program.faces))
    groups, active_set_type = [[k] for k in all_faces], _RowActiveSet
    if not has_row_form(program):
        groups, active_set_type = [all_faces], _RowAndWeightActiveSet
    for faces in groups:
        active_set = active_set_type(program, faces, W, b, multipliers, active_tol)
        active_set.settle(solve, sign_tol)
        W, b, solved = active_set.W, active_set.b, active_set.multipliers()
        multipliers = {
            name: [solved[name][k] if k in faces else m for k, m in enumerate(by_face)]
            for name, by_face in multipliers.items()
        }
    return W, b if program.intercept else [], multipliers


class _RowActiveSet:
    """The slacks of some faces with their active constraints, and the point that follows from them.

    The weights are eliminated: w = X'β / 2h, with scores K β / 2h + b, where K is the kernel matrix, or X X'.

    W, b: weights and intercepts of all faces; those of `faces` are the present solution.
    slacks: the slacks of `faces`, with their states and multipliers.
    """

    def __init__(
        self, program: Program, faces: list[int], W: list[Vector], b: Vector, multipliers: Multipliers,
        active_tol: float,
    ):  # fmt: skip
        self.program, self.faces = program, faces
        self.columns: dict[int, Vector] = {}  # computed columns of K / 2h
        self.W, self.b = [list(w) for w in W], list(b) or [_ZERO] * program.faces
        scores, tol = self._scores(), Fraction(active_tol)
        largest = max((max(values) for by_face in multipliers.values() for values in by_face), default=1)
        self.slacks: list[_Slack] = []
        for row in program.rows:
            for i, at in enumerate(row.at):
                multiplier_tol = tol * (row.cap[i] or largest or 1)
                # Each list has the faces that share one slack.
                for sharing in [[k] for k in at] if row.pays == "sum" else [list(at)]:
                    if row.cap[i] != 0 and sharing and set(sharing) <= set(faces):
                        slack = _Slack(row, i, sharing, multipliers[row.name], multiplier_tol, scores, tol)
                        self.slacks.append(slack)

    def settle(self, solve: Solve, sign_tol: Fraction) -> None:
        """Solve the equations and change wrong states, in turn, until no sign is wrong."""
        for n_rounds in range(OPTIONS.max_rounds):
            self._solve_equations(solve)
            changes = self._weight_changes()
            scores = self._scores()
            for slack in self.slacks:
                changes += slack.find_changes(scores, sign_tol)
            if not changes:
                return
            for change in changes if n_rounds < OPTIONS.joint_rounds else changes[:1]:
                change()  # each function changes one state
        raise ValueError(
            "the active set does not settle: solve more closely first (a smaller tol), or the optimum is "
            "degenerate"
        )

    def _scores(self) -> dict[int, Vector]:
        """Return the n scores of each face, with the intercept."""
        return {k: [v + self.b[k] for v in self.program.through(self.W[k], True)[0]] for k in self.faces}

    def multipliers(self) -> Multipliers:
        """Return the present multipliers; 0 for other faces."""
        n, faces = self.program.samples.n, self.program.faces
        by_family = {row.name: [[_ZERO] * n for _ in range(faces)] for row in self.program.rows}
        for slack in self.slacks:
            for k, m in slack.multipliers.items():
                by_family[slack.row.name][k][slack.i] = m
        return by_family

    def _solve_equations(self, solve: Solve) -> None:
        """Compute weights, intercepts, multipliers and slacks for the present active set, from its equations.

        In the keys of unknowns, u is the index of a slack, k of a face and j of a weight.
        """
        guess = self._weight_unknowns()  # the unknowns, each with its present value
        if self.program.intercept:
            guess |= {("b", k): self.b[k] for k in self.faces}
        for u, slack in enumerate(self.slacks):
            if not slack.is_capped:  # else its multiplier is the cap, and ξ is computed afterwards
                guess |= {("m", u, k): slack.multipliers[k] for k in slack.active}
                if slack.is_positive:
                    guess["xi", u] = slack.xi
        if len(guess) > OPTIONS.max_equations:
            limit = OPTIONS.max_equations
            raise ValueError(f"{len(guess)} numbers are at no bound; at most {limit} are solved for")
        equations = self._equations()
        A = [[expression.get(key, _ZERO) for key in guess] for expression, _ in equations]
        x = solve(A, [rhs for _, rhs in equations], list(guess.values())) if A else []
        values = dict(zip(guess, x, strict=True))
        for k in self.faces:
            self.b[k] = values.get(("b", k), _ZERO)
        for u, slack in enumerate(self.slacks):
            slack.multipliers = dict.fromkeys(slack.faces, _ZERO)
            for k in slack.active:
                slack.multipliers[k] = (slack.cap or _ZERO) if slack.is_capped else values["m", u, k]
        self._update_weights(values)
        scores = self._scores()
        for u, slack in enumerate(self.slacks):
            if slack.is_capped:
                slack.xi = max(slack.violation(scores, k) for k in slack.active)
            else:
                slack.xi = values.get(("xi", u), _ZERO)

    def _equations(self) -> list[Equation]:
        """Return the equations of all unknowns, in the order of the module's docstring."""
        equations: list[Equation] = []
        scores: dict[int, ScoreTerms] = {}
        for k in self.faces:
            beta, constants = self._beta_terms(k)
            scores[k] = self._score_terms(k, beta, constants)
            equations += self._weight_equations(k, beta, constants)
            if self.program.intercept:  # Σ β = 0
                equations.append((add_up((_ONE, term) for term in beta), -sum(constants, _ZERO)))
        for u, slack in enumerate(self.slacks):
            if slack.is_capped:
                continue
            for k in slack.active:  # ξ + s f = c
                terms, rhs = [(_ONE, {("xi", u): _ONE})], slack.row.kink
                for sign, face in ((1, k), *((-1, face) for face in slack.row.less[slack.i])):
                    expression, constant = scores[face](slack.i)
                    terms.append((Fraction(sign * slack.side), expression))
                    rhs -= sign * slack.side * constant
                equations.append((add_up(terms), rhs))
            if slack.is_positive:  # Σ m = C
                equations.append(({("m", u, k): _ONE for k in slack.active}, slack.cap or _ZERO))
        return equations

    def _beta_terms(self, k: int) -> tuple[list[Expression], Vector]:
        """Return β of each sample at a face: an expression in the unknown multipliers, and a constant."""
        n = self.program.samples.n
        unknown: list[Expression] = [{} for _ in range(n)]
        constants = [_ZERO] * n
        for u, slack in enumerate(self.slacks):
            i, less = slack.i, slack.row.less[slack.i]
            for face in slack.active:
                sign = Fraction(slack.side * ((face == k) - (k in less)))
                if slack.is_capped:
                    constants[i] += sign * (slack.cap or 0)
                elif sign:
                    unknown[i]["m", u, face] = sign
        return unknown, constants

    def _weight_unknowns(self) -> Expression:
        """Return the unknown weights with their present values: here none, because weights are eliminated."""
        return {}

    def _weight_equations(self, k: int, beta: list[Expression], constants: Vector) -> list[Equation]:
        """Return the stationarity equations of the unknown weights of a face.

        beta, constants: the unknown and the known part of each β_i, from :meth:`_beta_terms`.
        """
        return []

    def _weight_changes(self) -> list[Callable[[], None]]:
        """Return functions, each of which changes the state of one weight with a wrong sign."""
        return []

    def _score_terms(self, k: int, beta: list[Expression], constants: Vector) -> ScoreTerms:
        """Return a function from a sample to its score: an expression in the unknowns, and a constant."""
        constant_scores = self.program.through(_stationary_face(self.program, constants), True)[0]

        def score(i: int) -> tuple[Expression, Fraction]:
            expression = add_up((self._column(j)[i], term) for j, term in enumerate(beta) if term)
            return expression | {("b", k): _ONE}, constant_scores[i]

        return score

    def _column(self, j: int) -> Vector:
        """Return column j of K / 2h."""
        if j not in self.columns:
            w = _stationary_face(self.program, _unit_vector(j, self.program.samples.n))
            self.columns[j] = self.program.through(w, True)[0]
        return self.columns[j]

    def _update_weights(self, values: Expression) -> None:
        """Compute the weights from the values of the unknowns."""
        betas = self.program.betas(self.multipliers())
        for k in self.faces:
            self.W[k] = _stationary_face(self.program, betas[k])
            if self.program.intercept and not any(key[0] == "m" for key in values):
                self.b[k] = self._middle_intercept(k)

    def _middle_intercept(self, k: int) -> Fraction:
        """Return the middle of the interval of optimal intercepts, if all multipliers are at their bounds."""
        scores = self.program.through(self.W[k], True)[0]
        lower, upper = Vector(), Vector()
        for slack in self.slacks:
            # A satisfied constraint with s = 1 bounds the intercept from below, and so does a violated one
            # with s = -1.
            bounds = lower if (slack.side > 0) == (not slack.active) else upper
            bounds.append(slack.side * slack.row.kink - scores[slack.i])
        if not (lower and upper):
            raise ValueError("every intercept beyond some number is optimal: there is no middle one")
        return (max(lower) + min(upper)) / 2


class _RowAndWeightActiveSet(_RowActiveSet):
    """An active set with weights, which are unknowns or fixed at breakpoints of their penalties.

    X: the rows of the samples, or of the kernel matrix.
    fixed: for each face the breakpoint of each fixed weight, None for an unknown one.
    """

    def __init__(
        self, program: Program, faces: list[int], W: list[Vector], b: Vector, multipliers: Multipliers,
        active_tol: float,
    ):  # fmt: skip
        super().__init__(program, faces, W, b, multipliers, active_tol)
        columns = [program.through(_unit_vector(j, program.width), True)[0] for j in range(program.width)]
        self.X = [list(row) for row in zip(*columns, strict=True)]
        # Row j of `adjoint`: the coefficients of β in the stationarity condition of weight j. With a kernel
        # matrix K the condition is 2h K w = K β; K is cancelled, so the rows are those of the identity.
        self.adjoint, self.penalties = columns, program.prices
        if program.kind == "kernel":
            self.adjoint = [_unit_vector(j, program.samples.n) for j in range(program.samples.n)]
        self.fixed: list[list[Fraction | None]] = []  # the breakpoint of each fixed weight
        # By (face, weight), the subgradient of a fixed weight if it is an end of the subdifferential of l|w|.
        # Such a weight has a stationarity equation too, without which multipliers would be undetermined.
        self.end_slopes: dict[tuple[int, int], Fraction] = {}
        for w, penalties in zip(self.W, self.penalties, strict=True):
            tol = Fraction(active_tol) * (max(map(abs, w), default=_ZERO) or 1)
            self.fixed.append([_breakpoint_at(v, p, tol) for v, p in zip(w, penalties, strict=True)])

    def _weight_unknowns(self) -> Expression:
        return {
            ("w", k, j): self.W[k][j]
            for k, fixed in enumerate(self.fixed)
            for j, v in enumerate(fixed)
            if v is None
        }

    def _weight_equations(self, k: int, beta: list[Expression], constants: Vector) -> list[Equation]:
        equations, variance = [], self._variance_gradient(k)
        for j, fixed in enumerate(self.fixed[k]):
            if fixed is not None and (k, j) not in self.end_slopes:
                continue
            h, l1, *_ = self.penalties[k][j]
            sign = 1 if self.W[k][j] > 0 else -1
            slope = sign * l1 if fixed is None else self.end_slopes[k, j]
            adjoint = self.adjoint[j]
            terms = [(-a, term) for a, term in zip(adjoint, beta, strict=True) if a and term]
            rhs = sum((a * v for a, v in zip(adjoint, constants, strict=True)), _ZERO) - slope
            if fixed is None:
                terms.append((_ONE, {("w", k, j): 2 * h}))
            else:
                rhs -= 2 * h * fixed
            for a, (expression, constant) in zip(adjoint, variance, strict=False):  # variance may be []
                terms.append((a, expression))
                rhs -= a * constant
            equations.append((add_up(terms), rhs))
        return equations

    def _linear(self, k: int, coefficients: Vector) -> tuple[Expression, Fraction]:
        """Return Σ_j c_j w_kj: an expression in the unknown weights, and the sum of the other terms."""
        pairs = list(zip(coefficients, self.fixed[k], strict=True))
        expression = {("w", k, j): c for j, (c, fixed) in enumerate(pairs) if c and fixed is None}
        return expression, sum((c * fixed for c, fixed in pairs if fixed), _ZERO)

    def _score_terms(self, k: int, beta: list[Expression], constants: Vector) -> ScoreTerms:
        def score(i: int) -> tuple[Expression, Fraction]:
            expression, constant = self._linear(k, self.X[i])
            return expression | {("b", k): _ONE}, constant

        return score

    def _variance_gradient(self, k: int) -> list[tuple[Expression, Fraction]]:
        """Return D/2 times the derivative of the variance by each score of a face; [] without a variance."""
        program = self.program
        if not program.share:
            return []
        total = sum(program.weights)
        mean = [
            sum((p * row[j] for p, row in zip(program.weights, self.X, strict=True)), _ZERO) / total
            for j in range(program.width)
        ]
        return [
            self._linear(k, [program.share * p * (x - v) / total for x, v in zip(row, mean, strict=True)])
            for p, row in zip(program.weights, self.X, strict=True)
        ]

    def _update_weights(self, values: Expression) -> None:
        self.W = [
            [values.get(("w", k, j), v or _ZERO) for j, v in enumerate(fixed)]
            for k, fixed in enumerate(self.fixed)
        ]

    def _weight_changes(self) -> list[Callable[[], None]]:
        changes: list[Callable[[], None]] = []
        betas = self.program.betas(self.multipliers())
        for k, (w, beta) in enumerate(zip(self.W, betas, strict=True)):
            if self.program.share:  # subtract D times the gradient of half the variance
                slopes = self.program.spread(self.program.through(w, True)[0], _ZERO)[0]
                beta = [v - self.program.share * z for v, z in zip(beta, slopes, strict=True)]
            for j, line in enumerate(self.adjoint):
                descent = sum((v * a for v, a in zip(beta, line, strict=True) if v and a), _ZERO)
                changes += self._changes_of_weight(k, j, descent)
        return changes

    def _changes_of_weight(self, k: int, j: int, descent: Fraction) -> list[Callable[[], None]]:
        """Return the change of state of a weight, or [] if its signs are not wrong.

        descent: the negative derivative by the weight of the Lagrangian without the weight's own penalty.

        - A free weight beyond low or high is fixed there; one that has changed its sign is fixed at 0.
        - A fixed weight becomes free if the slope is beyond the subdifferential of l |w| there; if it is
          beyond by little, the end of the subdifferential becomes its slope instead.
        """
        h, l1, _, low, high = self.penalties[k][j]
        w, fixed = self.W[k][j], self.fixed[k][j]
        slope = descent - 2 * h * w  # in the subdifferential of l |w| at an optimum between low and high

        def move(breakpoint_: Fraction | None, value: Fraction) -> Callable[[], None]:
            # Fix the weight at a breakpoint, or free it (None), and set its value.
            def change() -> None:
                self.fixed[k][j], self.W[k][j] = breakpoint_, value

            return change

        if fixed is None:
            if not low <= w <= high:
                bound = low if w < low else high
                return [move(bound, bound)]
            has_changed_sign = l1 and w * slope < 0  # its equation had the slope l sign(w) for the old w
            return [move(_ZERO, _ZERO)] if has_changed_sign else []
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
                return [move(None, w or sign)]
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
        scores: dict[int, Vector], score_tol: Fraction,
    ):  # fmt: skip
        """Read the states off a close point: multipliers (n,) and scores (n,) by face, with tolerances."""
        self.row, self.i, self.faces, self.cap, self.side = row, i, faces, row.cap[i], row.side[i]
        self.multipliers = {k: multipliers[k][i] for k in faces}
        violations = {k: self.violation(scores, k) for k in faces}
        largest = max(violations.values())
        self.active = {k for k in faces if self.multipliers[k] > multiplier_tol}
        self.is_positive = False
        if self.cap is not None:
            is_at_cap = self.cap - sum(self.multipliers.values()) <= multiplier_tol
            self.is_positive = largest > (score_tol if is_at_cap else OPTIONS.clear_violation * score_tol)
        if self.is_positive and not self.active:
            self.active = {max(faces, key=violations.__getitem__)}
        self.xi = largest if self.is_positive else _ZERO

    def violation(self, scores: dict[int, Vector], k: int) -> Fraction:
        """Return c − s f, the slack that the constraint at face k needs."""
        subtracted = sum((scores[face][self.i] for face in self.row.less[self.i]), _ZERO)
        return self.row.kink - self.side * (scores[k][self.i] - subtracted)

    @property
    def is_capped(self) -> bool:
        """True if ξ > 0 and a single constraint is active, so that its multiplier is the cap."""
        return self.is_positive and len(self.active) == 1

    def find_changes(self, scores: dict[int, Vector], sign_tol: Fraction) -> list[Callable[[], None]]:
        """Return a change of state for each wrong sign of a multiplier, of a violation less ξ, or of ξ."""
        changes: list[Callable[[], None]] = []
        least = min(self.active, key=self.multipliers.__getitem__, default=None)
        if least is not None and self.multipliers[least] < -sign_tol and not self.is_capped:
            changes.append(partial(self.active.discard, least))
        most_violated = max(self.faces, key=lambda k: self.violation(scores, k))
        if most_violated not in self.active and self.violation(scores, most_violated) > self.xi + sign_tol:
            changes.append(partial(self.active.add, most_violated))
        if self.is_positive and self.xi < -sign_tol:
            changes.append(partial(setattr, self, "is_positive", False))
        is_over = self.cap is not None and sum(self.multipliers.values()) > self.cap + sign_tol
        if not self.is_positive and is_over:
            changes.append(partial(setattr, self, "is_positive", True))
        return changes


def add_up(terms: Iterable[tuple[Fraction, Expression]]) -> Expression:
    """Return the sum of multiples of linear expressions, each a factor and an expression."""
    total: Expression = {}
    for factor, expression in terms:
        for key, value in expression.items():
            total[key] = total.get(key, _ZERO) + factor * value
    return total


def _unit_vector(j: int, size: int) -> Vector:
    return [Fraction(int(position == j)) for position in range(size)]
