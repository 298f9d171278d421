"""Programs and their solutions: the two words every other file of the house uses.

A :class:`Program` is a convex program as a paper states it: an objective, named variables,
named rows (each constraint explicit, so that each has a multiplier), named parameters and its
source. ``print(program)`` reads like the paper; ``program.solve()`` gives a :class:`Solution`.
A :class:`Duality` joins a primal, its dual and the recovery map that leads back.

The one sign convention
-----------------------
A maximisation of ``f`` is the minimisation of ``-f``. The Lagrangian of a minimisation adds, for
every row, its multiplier times the row's violation, so that an inequality multiplier is never
negative and a right-hand side that is relaxed lowers the optimal value at that rate:

==============  =======================  ==========  ==================================
row             term in the Lagrangian   multiplier  rate of change of the minimum
==============  =======================  ==========  ==================================
``g(x) <= r``   ``+ mu (g(x) - r)``      mu >= 0     d p*/d r = -mu
``g(x) >= r``   ``+ mu (r - g(x))``      mu >= 0     d p*/d r = +mu
``h(x) == r``   ``+ nu (h(x) - r)``      any sign    d p*/d r = -nu
``G(x) >> 0``   ``- <Z, G(x)>``          Z >> 0      (matrix order)
``|v| <= s``    ``- mu s - <u, v>``      |u| <= mu   (cone order, as a row of its own)
==============  =======================  ==========  ==================================

In a maximisation the last column changes its sign, and nothing else does: the multiplier of
``y'alpha == 0`` in the SVM dual is ``+b``. Every solver behind :meth:`Program.solve` follows this
table; a test holds each of them to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.backends import PREFERRED
from formulations.solution import Solution, Status
from formulations.solving import solve
from formulations.typeset import latex_of, markdown_of, text_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Duality", "Program", "Row", "Solution", "Status"]


@dataclass(frozen=True)
class Row:
    """One named family of constraints.

    Attributes
    ----------
    name : str
        Its name in ``Solution.duals``.
    constraint : cvxpy.Constraint
        The constraint itself.
    text, latex : str
        The row as the paper prints it.
    multiplier : str
        The paper's letter for its multiplier.
    meaning : str
        What the multiplier says, in words.
    """

    name: str
    constraint: cp.Constraint
    text: str
    latex: str
    multiplier: str
    meaning: str

    @property
    def is_equality(self) -> bool:
        """Whether it is ``h(x) == r``."""
        return isinstance(self.constraint, (cp.constraints.Equality, cp.constraints.Zero))

    @property
    def is_matrix(self) -> bool:
        """Whether it is ``G(x) >> 0``, a matrix inequality."""
        return isinstance(self.constraint, cp.constraints.PSD)

    @property
    def is_cone(self) -> bool:
        """Whether it is a cone, the columns of ``v`` each no longer than their entry of ``s``.

        ``‖v‖ ≤ s`` written as a norm has no gradient at ``v = 0``; as a cone it has a vector for its
        multiplier, and that is what the gradient asks for.
        """
        return isinstance(self.constraint, cp.SOC)

    @property
    def multipliers(self) -> NDArray[Any]:
        """The multipliers that the last solve left: of the row's shape, or for a cone ``mu`` above ``u``."""
        if self.is_cone:
            mu, u = (np.array(part, dtype=float) for part in self.constraint.dual_value)
            return np.vstack([mu[None, :], u])
        return np.array(self.constraint.dual_value, dtype=float)

    def keep(self, multipliers: NDArray[Any]) -> None:
        """Put multipliers in the place of those that the last solve left."""
        parts = (multipliers[0], multipliers[1:]) if self.is_cone else (multipliers,)
        for variable, part in zip(self.constraint.dual_variables, parts, strict=True):
            variable.save_value(part)


_LOGARITHMS = (cp.logistic, cp.log_sum_exp, cp.entr)


@dataclass(eq=False)
class Program:
    """A convex program as a paper states it.

    Attributes
    ----------
    name : str
        Short name, such as ``"rmm.qp"``.
    title : str
        What it is, in words.
    source : str
        Paper and equation number.
    objective : cvxpy.Minimize or cvxpy.Maximize
        The objective.
    objective_text, objective_latex : str
        The objective as the paper prints it.
    variables : dict of str to cvxpy.Variable
        Named variables.
    rows : tuple of Row
        Named constraints, each with the letter and the meaning of its multiplier.
    parameters : dict of str to cvxpy.Parameter
        Named parameters; change them with :meth:`set`, and solving again skips the rebuilding.
    """

    name: str
    title: str
    source: str
    objective: cp.Minimize | cp.Maximize
    objective_text: str
    objective_latex: str
    variables: dict[str, cp.Variable]
    rows: tuple[Row, ...]
    parameters: dict[str, cp.Parameter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.problem = cp.Problem(self.objective, [row.constraint for row in self.rows])
        self.jacobians: dict[int, Any] = {}  # of affine expressions: formulations.optimality

    @property
    def sense(self) -> str:
        """``"minimise"`` or ``"maximise"``."""
        return "minimise" if isinstance(self.objective, cp.Minimize) else "maximise"

    @property
    def kind(self) -> str:
        """The program's class: LP, QP, QCQP, SDP, EXP (logarithms), MILP or MIQP (but for integers)."""
        if self.problem.is_mixed_integer():
            return "MILP" if self.objective.args[0].is_affine() else "MIQP"
        if any(row.is_matrix for row in self.rows):
            return "SDP"
        if any(issubclass(atom, _LOGARITHMS) for atom in self.problem.atoms()):
            return "EXP"
        if self.problem.is_lp():
            return "LP"
        return "QP" if self.problem.is_qp() else "QCQP"

    @property
    def solvers(self) -> tuple[str, ...]:
        """Names of the solvers that can solve it, preferred first."""
        return PREFERRED[self.kind]

    def set(self, **values: ArrayLike) -> Program:
        """Give parameters new values; the next solve re-uses the problem already built.

        Parameters
        ----------
        **values : array_like
            New values by parameter name; a scalar fills a vector parameter.

        Returns
        -------
        Program
            Itself, so that calls chain.
        """
        for name, value in values.items():
            if name not in self.parameters:
                raise KeyError(f"{self.name} has no parameter {name!r}; it has {', '.join(self.parameters)}")
            parameter = self.parameters[name]
            parameter.value = np.broadcast_to(np.asarray(value, dtype=float), parameter.shape)
        return self

    def solve(
        self,
        solver: str | None = None,
        *,
        time_limit: float | None = None,
        max_iter: int | None = None,
        verbose: bool = False,
        **options: Any,
    ) -> Solution:
        """Solve the program.

        Parameters
        ----------
        solver : str, optional
            One of :attr:`solvers`. By default each is tried in turn until one leaves an optimal point;
            "infeasible" and "unbounded" stand if no other solver refutes them.
        time_limit : float, optional
            Seconds, for everything: building, solving, and asking again.
        max_iter : int, optional
            Iterations of the solver, each time it is asked.
        verbose : bool
            Let the solver print its log.
        **options
            The solver's own options; they replace those of :mod:`formulations.backends`. A solver with
            options is asked once, and its answer is taken.

        Returns
        -------
        Solution
            With status ``FAILED`` and no point if no solver succeeded; limits keep their point. A solver that
            falls short is asked again with other settings, and then the next one; the point kept is the one
            whose own optimality conditions come nearest to holding, ``OPTIMAL`` if they do to 1e-6, and
            ``solver`` says whose it is. Integer programs have no multipliers: their ``duals`` is empty,
            and HiGHS and SCIP state their ``bound``.

        Raises
        ------
        ValueError
            An unknown solver, or a limit that is none.
        ModuleNotFoundError
            The program needs SCIP, and it is not installed.
        """
        return solve(self, solver, time_limit=time_limit, max_iter=max_iter, verbose=verbose, options=options)

    def assign(self, values: Mapping[str, ArrayLike]) -> Program:
        """Put a point into the variables, for :meth:`value` and :meth:`violations`.

        Parameters
        ----------
        values : mapping of str to array_like
            A value for every variable.
        """
        for name, variable in self.variables.items():
            variable.project_and_assign(np.asarray(values[name], dtype=float).reshape(variable.shape))
        return self

    def value(self, values: Mapping[str, ArrayLike]) -> float:
        """Objective at the point `values`, feasible or not."""
        return float(self.assign(values).objective.value)

    def violations(self, values: Mapping[str, ArrayLike]) -> dict[str, float]:
        """Largest violation of each row at the point `values`, by row name."""
        self.assign(values)
        return {row.name: float(np.max(row.constraint.violation())) for row in self.rows}

    def __str__(self) -> str:
        return text_of(self)

    def _repr_latex_(self) -> str:
        return latex_of(self)

    def _repr_markdown_(self) -> str:
        return markdown_of(self)


@dataclass(frozen=True)
class Duality:
    """A primal program, its dual, and the map from dual variables back to primal ones.

    Attributes
    ----------
    primal, dual : Program
        The pair; their optimal values are equal.
    recover : callable
        Takes the dual's variables (a mapping of name to array) to the primal's.
    """

    primal: Program
    dual: Program
    recover: Callable[[Mapping[str, NDArray[Any]]], dict[str, NDArray[Any]]]

    def demonstrate(self) -> str:
        """Solve both programs and report values, gap and worst residual as a few lines of text."""
        primal, dual = self.primal.solve(), self.dual.solve()
        recovered = self.recover(dual.primal)
        residuals = {
            **{f"primal {k}": v for k, v in self.primal.violations(primal.primal).items()},
            **{f"dual {k}": v for k, v in self.dual.violations(dual.primal).items()},
            **{f"recovered {k}": v for k, v in self.primal.violations(recovered).items()},
        }
        worst = max(residuals, key=lambda name: residuals[name])
        gap = abs(primal.objective - dual.objective)
        return "\n".join(
            [
                f"{self.primal.name} and {self.dual.name}",
                f"  primal value      {primal.objective:.12g}   ({primal.solver})",
                f"  dual value        {dual.objective:.12g}   ({dual.solver})",
                f"  recovered value   {self.primal.value(recovered):.12g}",
                f"  gap               {gap:.2e}",
                f"  worst residual    {residuals[worst]:.2e}   ({worst})",
            ]
        )
