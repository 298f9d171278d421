"""The statement of a program: its objective, variables, rows and parameters, all named.

A :class:`Row` is a named family of constraints. A :class:`Statement` is a program without solvers, which
:class:`formulations.language.program.Program` adds.

How to write a program down
---------------------------
Each formula is written as plain text in the notation of :mod:`formulations.language.notation`, beside the
cvxpy expression that computes it. Its LaTeX is made from the text. :mod:`formulations.language.consistency`
evaluates the text at random values and compares it with the expression. So every letter has a value:

- variables and parameters, by their names: ``lam_star`` is printed λ*, ``s_plus`` s⁺, ``xi`` ξ;
- ``data``: the values of the other letters, ``{"x": X, "y": y}``. Indices take the axes of the value in
  order: xᵢ is row i of X, xᵢⱼ an entry. A value may be a cvxpy expression, or a function without arguments,
  called when a formula is checked. A key with indices, such as ``"ξᵢ"``, is for these indices only;
- ``letters``: the meaning of the letters that are not variables, in words or by a formula
  (:mod:`formulations.language.typeset`). The programs of a module may share one mapping; only letters in the
  program's formulas are printed.

A row is compared with its constraint by its violation: left − right for ``≤`` and ``=``, right − left for
``≥``. The free indices of a row (those not summed over), in alphabetical order, are the axes of its
constraint. If they are not, or if the row is stated for some of their values only (``… for yᵢ < 0``),
``Row.at`` has the position of each constraint.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.notation.parser import functions_of, read_expression, read_row
from formulations.language.notation.printing import latex_of_claims, latex_of_expression, plain
from formulations.language.notation.tree import Claim, Expression

_LOGARITHMS = (cp.logistic, cp.log_sum_exp, cp.entr)


@dataclass(frozen=True)
class Row:
    """One named family of constraints."""

    name: str  #: name of the row, also in ``Solution.duals``
    constraint: cp.Constraint  #: the constraints, as one array
    text: str  #: the row as the paper prints it, in plain text
    multiplier: str  #: the paper's letter for the multiplier
    says: str  #: meaning of the multiplier, in words, with formulas between ``$``
    #: for each value of the text's free indices, the flat index in `constraint`, or -1 if the row is not
    #: stated there; by default the free indices are the axes of `constraint`
    at: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)

    @property
    def meaning(self) -> str:
        """The meaning of the multiplier, without the ``$``."""
        return plain(self.says)

    @property
    def is_equality(self) -> bool:
        """True for ``h(x) == r``."""
        return isinstance(self.constraint, (cp.constraints.Equality, cp.constraints.Zero))

    @property
    def is_matrix(self) -> bool:
        """True for ``G(x) >> 0``, a matrix inequality."""
        return isinstance(self.constraint, cp.constraints.PSD)

    @property
    def is_cone(self) -> bool:
        """True for second-order cones ``‖v_k‖ ≤ s_k``, one for each column of ``v``.

        A norm has no gradient at ``v_k = 0``; the multiplier of the cone contains one, the vector ``u_k``.
        """
        return isinstance(self.constraint, cp.SOC)

    @property
    def multipliers(self) -> NDArray[Any]:
        """The multipliers of the last solve: of the row's shape, or for cones ``mu`` of ``s`` above ``u``."""
        if self.is_cone:
            mu, u = (np.array(part, dtype=float) for part in self.constraint.dual_value)
            return np.vstack([mu[None, :], u])
        return np.array(self.constraint.dual_value, dtype=float)

    def keep(self, multipliers: NDArray[Any]) -> None:
        """Replace the multipliers of the last solve."""
        parts = (multipliers[0], multipliers[1:]) if self.is_cone else (multipliers,)
        for variable, part in zip(self.constraint.dual_variables, parts, strict=True):
            variable.save_value(part)


@dataclass(eq=False, repr=False)
class Statement:
    """A program without its solvers."""

    name: str  # short name, such as ``"rmm.qp"``
    title: str  # title in words
    source: str  # paper and equation number
    objective: cp.Minimize | cp.Maximize
    objective_text: str  # the objective as the paper prints it, in plain text
    variables: dict[str, cp.Variable]  # by name
    rows: tuple[Row, ...]
    parameters: dict[str, cp.Parameter] = field(default_factory=dict)  # by name; :meth:`set` changes them
    # meanings, and then values, of the letters that are not variables (see the top of this module)
    letters: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, ArrayLike | cp.Expression | Callable[[], ArrayLike]] = field(
        default_factory=dict, repr=False
    )

    def __post_init__(self) -> None:
        self.problem = cp.Problem(self.objective, [row.constraint for row in self.rows])

    @property
    def sense(self) -> str:
        """``"minimise"`` or ``"maximise"``."""
        return "minimise" if isinstance(self.objective, cp.Minimize) else "maximise"

    @property
    def kind(self) -> str:
        """The class: LP, QP, QCQP, SDP, EXP (with logarithms or exponentials); with integers MILP or MIQP."""
        if self.problem.is_mixed_integer():
            parts = [self.objective, *(row.constraint for row in self.rows)]
            is_linear = all(side.is_affine() for part in parts for side in part.args)
            is_linear &= not any(row.is_cone for row in self.rows)
            return "MILP" if is_linear else "MIQP"
        if any(row.is_matrix for row in self.rows):
            return "SDP"
        if any(issubclass(atom, _LOGARITHMS) for atom in self.problem.atoms()):
            return "EXP"
        if self.problem.is_lp():
            return "LP"
        return "QP" if self.problem.is_qp() else "QCQP"

    @property
    def objective_tree(self) -> Expression:
        """The tree of the objective's text."""
        return read_expression(self.objective_text, functions_of(self.letters))

    @property
    def objective_latex(self) -> str:
        """The objective as LaTeX."""
        return latex_of_expression(self.objective_tree)

    def row_tree(self, row: Row) -> tuple[Claim, ...]:
        """Return the tree of a row's text."""
        return read_row(row.text, functions_of(self.letters))

    def row_latex(self, row: Row) -> str:
        """Return a row as LaTeX."""
        return latex_of_claims(self.row_tree(row))

    def set(self, **values: ArrayLike) -> Self:
        """Set parameters; the next solve re-uses the problem already built."""
        for name, value in values.items():
            if name not in self.parameters:
                raise KeyError(f"{self.name} has no parameter {name!r}; it has {', '.join(self.parameters)}")
            parameter = self.parameters[name]
            parameter.value = np.broadcast_to(np.asarray(value, dtype=float), parameter.shape)
        return self

    def assign(self, values: Mapping[str, ArrayLike]) -> Self:
        """Assign a point to the variables."""
        for name, variable in self.variables.items():
            variable.project_and_assign(np.asarray(values[name], dtype=float).reshape(variable.shape))
        return self

    def value(self, values: Mapping[str, ArrayLike]) -> float:
        """Return the objective at the point `values`, feasible or not."""
        return float(self.assign(values).objective.value)

    def violations(self, values: Mapping[str, ArrayLike]) -> dict[str, float]:
        """Return the largest violation of each row at the point `values`, by row name."""
        self.assign(values)
        with np.errstate(invalid="ignore"):  # cvxpy divides by norms in cones, which may be 0
            return {row.name: float(np.max(row.constraint.violation())) for row in self.rows}


def select(values: cp.Expression, mask: NDArray[np.bool_]) -> cp.Expression:
    """Return the entries of `values` at which the mask is True, as a vector, row by row."""
    return cp.vec(values, order="C")[np.flatnonzero(mask)]


def index_in(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the index of each entry in the vector of :func:`select`, -1 where the mask is False."""
    return np.where(mask, np.cumsum(mask).reshape(mask.shape) - 1, -1)


def without_multipliers(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows of an integer program, marked as rows without multipliers."""
    return tuple(
        replace(row, multiplier="–", says="none: an integer program has no multipliers") for row in rows
    )
