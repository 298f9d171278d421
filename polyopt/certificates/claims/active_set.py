"""Optimal points in rational arithmetic or to many digits, by active-set methods started at a close point.

Once it is known which constraints and bounds are active, the KKT conditions are linear equations. Each method
reads an active set off the close point, solves the equations, and checks the signs of the solution. If
multipliers or constraints have the wrong sign, they change their state, and the equations are solved again.
If none has, the KKT conditions hold exactly.

A program is the checker's :class:`polyopt.check.check.Program`. A family `row` of its rows demands

    s_i (f_ik − Σ_{l in less_i} f_il) ≥ c − ξ        for each sample i and each face k in at_i,

where f_ik is the score of sample i at face k, s_i = ±1 is ``row.side``, c is ``row.kink``, and the slack ξ
costs ``row.cap[i]`` times ξ (a cap of None forbids slack). If ``row.pays`` is "sum", each constraint has its
own slack; if it is "worst", the constraints of a sample share one. ``program.through(w, True)`` computes the
scores X w, and ``program.through(beta, False)`` the adjoint X'β, each with an error bound. For a kernel, w
are the coefficients of the expansion, and X stands for the kernel matrix.

:func:`solve_row_active_set` is for the objective h|w|² plus the sum of hinge losses, where each face is a
program of its own. A constraint's multiplier is 0 (then s f ≥ c), free (s f = c), or at its cap (s f ≤ c).
The free multipliers and the intercept b solve

    Σ_j K_ij β_j / 2h + b = s_i c  for free multipliers,    Σ β_i = 0 with an intercept,    β_i = Σ s m.

:func:`solve_row_and_weight_active_set` is for linear and quadratic programs with the penalty
h w² + l |w|, low ≤ w ≤ high, of each weight, and perhaps D/2 times the variance of the scores. A weight may
be fixed at a breakpoint of its penalty (at low, at high, or at 0 if l > 0). The unknowns solve

    2h w + l sign(w) + D·(gradient of half the variance) = X'β    for a weight that is not fixed,
    Σ β = 0                                                       for a face with an intercept,
    c − s f = ξ                                                   for an active constraint,
    Σ m = C                                                       for a positive slack; the others are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
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
Solve = Callable[[list[Vector], Vector, Vector], Vector]  # solves A x = right, from a guess of x

MAX_EQUATIONS = 400  # solved in fractions: beyond, numbers of thousands of digits take minutes
MAX_ROUNDS = 60  # systems of equations solved for one active set
MAX_JOINT_ROUNDS = 12  # in which all wrong states change at once, which may cycle; later rounds change one
CLEARLY_INACTIVE = 1000  # residual of a constraint that is not active, relative to the tolerance

_ZERO, _ONE = Fraction(0), Fraction(1)
_NOT_SETTLED = (
    "the active set does not settle: solve more closely first (a smaller tol), or the optimum is degenerate"
)


# -- linear equations ----------------------------------------------------------------------------------------


def solve_exactly(A: list[Vector], right: Vector, guess: Vector) -> Vector:
    """Solve A x = right in fractions by Gauss-Jordan elimination.

    Components that the equations leave undetermined are those of the guess, which is nearly a solution. Raise
    ValueError if the equations contradict each other.
    """
    lines = [[*line, value] for line, value in zip(A, right, strict=True)]
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

    def solve(A: list[Vector], right: Vector, guess: Vector) -> Vector:
        inverse = np.linalg.pinv(np.array([[float(v) for v in line] for line in A]), rcond=1e-13)
        x, residual, grid = [_ZERO] * len(A[0]), right, _ZERO
        for _ in range(40):  # each gains up to 50 bits
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
                for line, value in zip(A, right, strict=True)
            ]
            if max(map(abs, new_residual)) >= norm:
                break
            x, residual = candidate, new_residual
        return x

    return solve


# -- active sets of rows: quadratic programs of hinge losses -------------------------------------------------


def has_row_form(program: Program) -> bool:
    """Return True for the objective of :func:`solve_row_active_set`: h|w|² plus the sum of hinge losses."""
    has_own_slacks = all(row.pays == "sum" or max(map(len, row.at)) <= 1 for row in program.rows)
    has_hinges = all(row.loss == "hinge" and not any(row.less) for row in program.rows)
    has_one_factor = not isinstance(program.size["factor"], dict | list)
    return program.is_square and has_own_slacks and has_hinges and has_one_factor


def solve_row_active_set(
    program: Program, multipliers: Multipliers, scores: list[Vector], solve: Solve, *,
    active_tol: float, sign_tol: Fraction = _ZERO,
) -> tuple[list[Vector], Multipliers]:  # fmt: skip
    """Return the optimal intercepts (for each face [b], or [] without one) and multipliers.

    multipliers, scores: those of a close point; K lists of n scores, with b.
    solve: solves linear equations: :func:`solve_exactly`, or one of :func:`refining_solver`.
    active_tol: a multiplier within this distance of a bound, relative to the largest, begins at the bound.
    sign_tol: by how much a sign may be wrong: 0, unless `solve` rounds.
    ValueError: the active set does not settle; the point is not close enough, or the optimum is degenerate.
    """
    optimal: Multipliers = {row.name: [] for row in program.rows}
    intercepts = []
    for k in range(program.faces):
        multipliers_of_face = {name: by_face[k] for name, by_face in multipliers.items()}
        active_set = _RowActiveSet(program, k, multipliers_of_face, scores[k], active_tol, sign_tol)
        b, optimal_of_face = active_set.optimise(solve)
        intercepts.append(b)
        for name, values in optimal_of_face.items():
            optimal[name].append(values)
    return intercepts, optimal


class _State(Enum):
    """The state of a constraint, by its multiplier."""

    ZERO = "the multiplier is 0, and s f >= c"
    FREE = "the multiplier is between its bounds, and s f = c"
    CAP = "the multiplier is at its cap, and s f <= c"


class _RowActiveSet:
    """The constraints of one face and their states."""

    def __init__(
        self, program: Program, k: int, multipliers: dict[str, Vector], scores: Vector, active_tol: float,
        sign_tol: Fraction,
    ):  # fmt: skip
        self.program, self.multipliers, self.sign_tol = program, multipliers, sign_tol
        self.double_factor = 2 * number(program.size["factor"])
        self.constraints = [
            (row, i) for row in program.rows for i, at in enumerate(row.at) if k in at and row.cap[i] != 0
        ]
        self.columns: dict[int, Vector] = {}  # computed columns of K / 2h
        largest = max((abs(m) for values in multipliers.values() for m in values), default=_ZERO)
        multiplier_tol = (largest or 1) * Fraction(active_tol)
        self.states = [
            self._initial_state(row, i, scores[i], multiplier_tol, Fraction(active_tol))
            for row, i in self.constraints
        ]

    def _initial_state(
        self, row: Rows, i: int, score: Fraction, multiplier_tol: Fraction, score_tol: Fraction
    ) -> _State:
        m, cap, residual = self.multipliers[row.name][i], row.cap[i], row.side[i] * score - row.kink
        if m <= multiplier_tol:
            return _State.ZERO
        is_near_cap = cap is not None and cap - m <= multiplier_tol and residual < score_tol
        is_off_kink = cap is not None and abs(residual) > CLEARLY_INACTIVE * score_tol
        return _State.CAP if is_near_cap or is_off_kink else _State.FREE

    def optimise(self, solve: Solve) -> tuple[Vector, dict[str, Vector]]:
        """Return the intercept and the multipliers by family, once every constraint agrees with its state."""
        for _ in range(MAX_ROUNDS):
            m, b, scores = self._solve_equations(solve)
            states = [self._corrected_state(p, value, scores) for p, value in enumerate(m)]
            if states == self.states:
                by_family = {row.name: [_ZERO] * self.program.samples.n for row in self.program.rows}
                for (row, i), value in zip(self.constraints, m, strict=True):
                    by_family[row.name][i] = value
                return b, by_family
            self.states = states
        raise ValueError(_NOT_SETTLED)

    def _corrected_state(self, position: int, m: Fraction, scores: Vector) -> _State:
        """Return the present state of a constraint if m and the scores agree with it, else the next one."""
        (row, i), state = self.constraints[position], self.states[position]
        cap, residual = row.cap[i], row.side[i] * scores[i] - row.kink
        if state is _State.FREE:
            if m < -self.sign_tol:
                return _State.ZERO
            return _State.CAP if cap is not None and m > cap + self.sign_tol else state
        is_wrong = residual < -self.sign_tol if state is _State.ZERO else residual > self.sign_tol
        return _State.FREE if is_wrong else state

    def _solve_equations(self, solve: Solve) -> tuple[Vector, Vector, Vector]:
        """Return the multipliers of all constraints, [b] or [], and the scores, for the present states."""
        free = [p for p, state in enumerate(self.states) if state is _State.FREE]
        if len(free) > MAX_EQUATIONS:
            raise ValueError(
                f"{len(free)} multipliers are between their bounds; at most {MAX_EQUATIONS} are solved for"
            )
        m = [
            (row.cap[i] or _ZERO) if state is _State.CAP else _ZERO
            for (row, i), state in zip(self.constraints, self.states, strict=True)
        ]
        beta = self._beta(m)  # of the multipliers at their caps
        scores = self._scores(beta)
        active = [self.constraints[p] for p in free]
        A = [[self._column(j)[i] * row.side[j] for row, j in active] for _, i in active]
        right = [row.side[i] * row.kink - scores[i] for row, i in active]
        guess = [self.multipliers[row.name][i] for row, i in active]
        if self.program.intercept:
            A = [[*line, _ONE] for line in A]
            A.append([*(Fraction(row.side[j]) for row, j in active), _ZERO])
            right.append(-sum(beta, _ZERO))
            guess.append(_ZERO)
        x = solve(A, right, guess) if A else []
        b = x[len(free) :]
        if self.program.intercept and not free:
            b = [self._middle_intercept(beta, scores)]
        for p, value in zip(free, x, strict=False):
            m[p] = value
        intercept = b[0] if b else _ZERO
        return m, b, [v + intercept for v in self._scores(self._beta(m))]

    def _middle_intercept(self, beta: Vector, scores: Vector) -> Fraction:
        """Return the middle of the interval of optimal intercepts, if no multiplier is free."""
        if sum(beta):
            raise ValueError("the multipliers at their caps do not balance: solve more closely first")
        lower, upper = [], []
        for (row, i), state in zip(self.constraints, self.states, strict=True):
            bounds = lower if (row.side[i] > 0) == (state is _State.ZERO) else upper
            bounds.append(row.side[i] * row.kink - scores[i])
        if not (lower and upper):
            raise ValueError("every intercept beyond some number is optimal: there is no middle one")
        return (max(lower) + min(upper)) / 2

    def _beta(self, m: Vector) -> Vector:
        """Return β_i, the signed sum of the multipliers of sample i."""
        beta = [_ZERO] * self.program.samples.n
        for (row, i), value in zip(self.constraints, m, strict=True):
            beta[i] += row.side[i] * value
        return beta

    def _scores(self, beta: Vector) -> Vector:
        """Return K β / 2h, the scores without b."""
        c = beta if self.program.kind == "kernel" else self.program.through(beta, False)[0]
        return [v / self.double_factor for v in self.program.through(c, True)[0]]

    def _column(self, j: int) -> Vector:
        """Return column j of K / 2h."""
        if j not in self.columns:
            self.columns[j] = self._scores(_unit_vector(j, self.program.samples.n))
        return self.columns[j]


# -- active sets of rows and weights: linear and quadratic programs ------------------------------------------


def check_rational_form(program: Program) -> None:
    """Raise ValueError if the optimum need not be rational, or if the penalty counts nonzero weights."""
    has_hinges = all(row.loss == "hinge" and row.pays != "soft" for row in program.rows)
    counts_weights = program.kind != "kernel" and any(
        count for penalties in program.prices for _, _, count, _, _ in penalties
    )
    if program.shape != "square" or program.grouped or not has_hinges or counts_weights:
        raise ValueError(
            "exact solutions are of programs whose optimum is rational: hinge losses and, for single weights,"
            " squares, absolute values and bounds; this one has logarithms, norms, or numbers of weights"
        )


def solve_row_and_weight_active_set(
    program: Program, W: list[Vector], b: Vector, multipliers: Multipliers, active_tol: float
) -> tuple[list[Vector], Vector, Multipliers]:
    """Return the faces, intercepts and multipliers of the optimum, as fractions.

    W, b, multipliers: a close point: K lists of weights, and K intercepts ([] if the program has none).
    active_tol: a number within this distance of a bound, relative to the largest of its kind, begins there.
    ValueError: the active set does not settle; the point is not close enough, or the optimum is degenerate.
    """
    active_set = _RowAndWeightActiveSet(program, W, b, multipliers, active_tol)
    for count in range(MAX_ROUNDS):
        active_set.solve_equations()
        changes = active_set.find_changes()
        if not changes:
            intercepts = active_set.b if program.intercept else []
            return active_set.W, intercepts, active_set.multipliers()
        for change in changes if count < MAX_JOINT_ROUNDS else changes[:1]:
            change()
    raise ValueError(_NOT_SETTLED)


class _RowAndWeightActiveSet:
    """The fixed weights, the slacks with their active constraints, and the point that follows from them."""

    def __init__(
        self, program: Program, W: list[Vector], b: Vector, multipliers: Multipliers, active_tol: float
    ):
        self.program, n, width = program, program.samples.n, program.width
        self.W, self.b = [list(w) for w in W], list(b) or [_ZERO] * program.faces
        columns = [program.through(_unit_vector(j, width), True)[0] for j in range(width)]
        self.X = [list(row) for row in zip(*columns, strict=True)]
        # Row j: the coefficients of β in the stationarity condition of weight j, and (h, l, count, low, high)
        # of each weight. With a kernel matrix K the condition is 2h K w = K β, of which K is cancelled.
        self.adjoint, self.penalties = columns, program.prices if program.kind != "kernel" else []
        if program.kind == "kernel":
            self.adjoint = [_unit_vector(j, n) for j in range(n)]
            self.penalties = [[(program.factor, _ZERO, _ZERO, -inf, inf)] * n]
        self.fixed: list[list[Fraction | None]] = []  # the breakpoint of each fixed weight
        # Fixed weights whose penalty has a subgradient at an end of its interval: that end, and so an
        # equation more. Their multipliers would otherwise be undetermined.
        self.end_slopes: dict[tuple[int, int], Fraction] = {}
        for w, penalties in zip(self.W, self.penalties, strict=True):
            tol = Fraction(active_tol) * (max(map(abs, w), default=_ZERO) or 1)
            self.fixed.append([_breakpoint_at(v, p, tol) for v, p in zip(w, penalties, strict=True)])
        scores = self._scores()
        self.slacks = [
            _Slack(row, i, faces, multipliers[row.name], scores, active_tol)
            for row in program.rows
            for i, at in enumerate(row.at)
            if row.cap[i] != 0
            for faces in ([[k] for k in at] if row.pays == "sum" else [at])
            if faces
        ]

    def _scores(self) -> list[Vector]:
        """Return the n scores of each face."""
        return [
            [sum((x * v for x, v in zip(row, w, strict=True) if v), b) for row in self.X]
            for w, b in zip(self.W, self.b, strict=True)
        ]

    def multipliers(self) -> Multipliers:
        """Return the present multipliers."""
        n, faces = self.program.samples.n, self.program.faces
        by_family = {row.name: [[_ZERO] * n for _ in range(faces)] for row in self.program.rows}
        for slack in self.slacks:
            for k, m in slack.multipliers.items():
                by_family[slack.row.name][k][slack.i] = m
        return by_family

    # the equations

    def solve_equations(self) -> None:
        """Compute weights, intercepts, multipliers and slacks for the present active set."""
        guess = self._unknowns()
        if len(guess) > MAX_EQUATIONS:
            raise ValueError(f"{len(guess)} numbers are at no bound; at most {MAX_EQUATIONS} are solved for")
        position = {key: p for p, key in enumerate(guess)}
        lines = [self._to_line(*equation, position) for equation in self._equations()]
        A, right = [line for line, _ in lines], [value for _, value in lines]
        x = solve_exactly(A, right, list(guess.values())) if lines else []
        values = dict(zip(guess, x, strict=True))
        for k, fixed in enumerate(self.fixed):
            self.W[k] = [values.get(("w", k, j), v or _ZERO) for j, v in enumerate(fixed)]
            self.b[k] = values.get(("b", k), _ZERO)
        scores = self._scores()
        for u, slack in enumerate(self.slacks):
            cap = slack.cap if slack.is_capped else None
            slack.multipliers = {
                k: (cap or values["m", u, k]) if k in slack.active else _ZERO for k in slack.faces
            }
            if slack.is_capped:
                slack.xi = max(slack.violation(scores, k) for k in slack.active)
            else:
                slack.xi = values.get(("xi", u), _ZERO)

    def _unknowns(self) -> Expression:
        """Return the unknowns with their present values."""
        unknowns: dict[Key, Fraction] = {}
        for k, fixed in enumerate(self.fixed):
            unknowns |= {("w", k, j): self.W[k][j] for j, v in enumerate(fixed) if v is None}
            if self.program.intercept:
                unknowns["b", k] = self.b[k]
        for u, slack in enumerate(self.slacks):
            if not slack.is_capped:
                unknowns |= {("m", u, k): slack.multipliers[k] for k in slack.active}
                if slack.is_positive:
                    unknowns["xi", u] = slack.xi
        return unknowns

    def _to_line(
        self, expression: Expression, right: Fraction, position: dict[Key, int]
    ) -> tuple[Vector, Fraction]:
        """Return the coefficients of an equation in order, with fixed weights moved to the right."""
        line = [_ZERO] * len(position)
        for key, value in expression.items():
            if key in position:
                line[position[key]] += value
            elif key[0] == "w":
                right -= value * (self.fixed[key[1]][key[2]] or 0)
        return line, right

    def _equations(self) -> list[Equation]:
        equations: list[Equation] = []
        for k in range(self.program.faces):
            beta, constants = self._betas(k)
            equations += self._stationarity(k, beta, constants)
            if self.program.intercept:
                equations.append((add_up((_ONE, term) for term in beta), -sum(constants, _ZERO)))
        for u, slack in enumerate(self.slacks):
            if slack.is_capped:
                continue
            row, i, side = slack.row, slack.i, Fraction(slack.side)
            for k in slack.active:
                terms = [(_ONE, {("xi", u): _ONE}), (side, self._score(i, k))]
                terms += [(-side, self._score(i, face)) for face in row.less[i]]
                equations.append((add_up(terms), row.kink))
            if slack.is_positive:
                equations.append(({("m", u, k): _ONE for k in slack.active}, slack.cap or _ZERO))
        return equations

    def _stationarity(self, k: int, beta: list[Expression], constants: Vector) -> list[Equation]:
        """Return the stationarity conditions of the weights of a face that are not fixed, or have one anyway.

        beta, constants: β of each sample, as in :meth:`_betas`.
        """
        equations, variance = [], self._variance_gradient(k)
        for j, fixed in enumerate(self.fixed[k]):
            if fixed is not None and (k, j) not in self.end_slopes:
                continue
            h, l1, *_ = self.penalties[k][j]
            terms: list[tuple[Fraction, Expression]] = [(_ONE, {("w", k, j): 2 * h})]
            terms += [(-a, term) for a, term in zip(self.adjoint[j], beta, strict=True) if a and term]
            terms += [(a, term) for a, term in zip(self.adjoint[j], variance, strict=False) if a]
            right = sum((a * v for a, v in zip(self.adjoint[j], constants, strict=True)), _ZERO)
            slope = l1 * (1 if self.W[k][j] > 0 else -1) if fixed is None else self.end_slopes[k, j]
            equations.append((add_up(terms), right - slope))
        return equations

    def _score(self, i: int, k: int) -> Expression:
        """Return the score of a sample at a face."""
        return {("w", k, j): x for j, x in enumerate(self.X[i]) if x} | {("b", k): _ONE}

    def _betas(self, k: int) -> tuple[list[Expression], Vector]:
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

    def _variance_gradient(self, k: int) -> list[Expression]:
        """Return D times the gradient of half the variance in each score of a face; [] without a variance."""
        program = self.program
        if not program.share:
            return []
        total = sum(program.weights)
        mean = [
            sum((p * row[j] for p, row in zip(program.weights, self.X, strict=True)), _ZERO) / total
            for j in range(program.width)
        ]
        return [
            {("w", k, j): program.share * p * (x - mean[j]) / total for j, x in enumerate(row)}
            for p, row in zip(program.weights, self.X, strict=True)
        ]

    # the signs

    def find_changes(self) -> list[Callable[[], None]]:
        """Return one change of state for each weight or constraint whose sign is wrong."""
        changes: list[Callable[[], None]] = []
        scores, multipliers = self._scores(), self.multipliers()
        betas = [[_ZERO] * self.program.samples.n for _ in self.W]
        for row in self.program.rows:
            row.pull(multipliers[row.name], betas)
        for k, (w, beta) in enumerate(zip(self.W, betas, strict=True)):
            if self.program.share:
                slopes = self.program.spread(self.program.through(w, True)[0], _ZERO)[0]
                beta = [v - self.program.share * z for v, z in zip(beta, slopes, strict=True)]
            for j, line in enumerate(self.adjoint):
                gain = sum((v * a for v, a in zip(beta, line, strict=True) if v and a), _ZERO)
                changes += self._changes_of_weight(k, j, gain)
        for slack in self.slacks:
            changes += slack.find_changes(scores)
        return changes

    def _changes_of_weight(self, k: int, j: int, gain: Fraction) -> list[Callable[[], None]]:
        """Return the change of state of a weight, if there is one.

        gain: the negative derivative of all terms of the Lagrangian but the weight's own penalty.
        """
        h, l1, _, low, high = self.penalties[k][j]
        w, fixed = self.W[k][j], self.fixed[k][j]
        slope = gain - 2 * h * w  # in the subdifferential of l |w| at an optimum between low and high

        def move(breakpoint_: Fraction | None, value: Fraction) -> Callable[[], None]:
            def change() -> None:
                self.fixed[k][j], self.W[k][j] = breakpoint_, value

            return change

        if fixed is None:
            if not low <= w <= high:
                bound = low if w < low else high
                return [move(bound, bound)]
            has_wrong_sign = l1 and w * slope < 0
            return [move(_ZERO, _ZERO)] if has_wrong_sign else []
        tol = Fraction(l1 + 1) / 10**9  # within it the slope is taken for the end of the subdifferential
        largest, least = (l1 if w >= 0 else -l1), (l1 if w > 0 else -l1)
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

    multipliers: of the constraint at each face.
    active: the faces whose constraint is active.
    is_positive: True if ξ > 0, so that the multipliers add up to the cap.
    """

    def __init__(
        self, row: Rows, i: int, faces: list[int], multipliers: list[Vector], scores: list[Vector],
        active_tol: float,
    ):  # fmt: skip
        """Read the states off the multipliers and scores (K lists each) of a point near the optimum."""
        self.row, self.i, self.faces, self.cap, self.side = row, i, faces, row.cap[i], row.side[i]
        self.multipliers = {k: multipliers[k][i] for k in faces}
        violations = {k: self.violation(scores, k) for k in faces}
        largest = max(violations.values())
        tol = Fraction(active_tol) * (self.cap or max(map(max, multipliers)) or 1)
        self.active = {k for k in faces if self.multipliers[k] > tol}
        is_at_cap = self.cap is not None and self.cap - sum(self.multipliers.values()) <= tol
        self.is_positive = is_at_cap and largest > Fraction(active_tol)
        if self.is_positive and not self.active:
            self.active = {max(faces, key=violations.__getitem__)}
        self.xi = largest if self.is_positive else _ZERO

    def violation(self, scores: list[Vector], k: int) -> Fraction:
        """Return c − s f, the slack that the constraint at face k needs."""
        subtracted = sum((scores[face][self.i] for face in self.row.less[self.i]), _ZERO)
        return self.row.kink - self.side * (scores[k][self.i] - subtracted)

    @property
    def is_capped(self) -> bool:
        """True if only one multiplier is positive, and at the cap."""
        return self.is_positive and len(self.active) == 1

    def find_changes(self, scores: list[Vector]) -> list[Callable[[], None]]:
        """Return the changes of state for wrong signs of multipliers, violations and ξ."""
        changes: list[Callable[[], None]] = []
        least = min(self.active, key=self.multipliers.__getitem__, default=None)
        if least is not None and self.multipliers[least] < 0 and not self.is_capped:
            changes.append(partial(self.active.discard, least))
        most_violated = max(self.faces, key=lambda k: self.violation(scores, k))
        if most_violated not in self.active and self.violation(scores, most_violated) > self.xi:
            changes.append(partial(self.active.add, most_violated))
        if self.is_positive and self.xi < 0:
            changes.append(partial(setattr, self, "is_positive", False))
        if not self.is_positive and self.cap is not None and sum(self.multipliers.values()) > self.cap:
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
