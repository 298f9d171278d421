"""Convex and mixed-integer programs as papers state them.

A :class:`Program` has an objective, named variables, named rows (each constraint explicit, so that each has
a multiplier), named parameters and a source. ``print(program)`` reads like the paper; ``program.solve()``
returns a :class:`Solution`. A :class:`Duality` joins a primal, its dual, and the map that recovers primal
variables from dual ones.

The one sign convention
-----------------------
A maximisation of ``f`` is the minimisation of ``-f``. The Lagrangian of a minimisation adds, for
every row, its multiplier times the row's violation. So the multiplier of an inequality is never
negative, and is the rate at which the minimum ``p*`` falls as the right-hand side ``r`` is relaxed:

==============  =======================  ==========  ==================================
row             term in the Lagrangian   multiplier  rate of change of the minimum
==============  =======================  ==========  ==================================
``g(x) <= r``   ``+ mu (g(x) - r)``      mu >= 0     d p*/d r = -mu
``g(x) >= r``   ``+ mu (r - g(x))``      mu >= 0     d p*/d r = +mu
``h(x) == r``   ``+ nu (h(x) - r)``      any sign    d p*/d r = -nu
``G(x) >> 0``   ``- <Z, G(x)>``          Z >> 0      (no right-hand side)
``|v| <= s``    ``- mu s - <u, v>``      |u| <= mu   (no right-hand side)
==============  =======================  ==========  ==================================

``>>`` is the semidefinite order, and the last row is a second-order cone with the Euclidean norm
``|v|``. In a maximisation the last column changes its sign, and nothing else does: the multiplier of
``y'alpha == 0`` in the SVM dual is ``+b``. Tests check every solver against this table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import cvxpy as cp
from numpy.typing import ArrayLike, NDArray

from formulations.language.display import Shown, Summary, short
from formulations.language.solution import Solution, Status
from formulations.language.solving import PREFERRED, solve
from formulations.language.statement import Row, Statement, without_multipliers
from formulations.language.typeset import latex_of, markdown_of, text_of

__all__ = ["Duality", "Program", "Row", "Solution", "Status", "without_multipliers"]


class Program(Shown, Statement):
    """A convex or mixed-integer program as a paper states it, to be solved and printed.

    Attributes
    ----------
    name : str
        Short name, such as ``"rmm.qp"``.
    title : str
        Title, in words.
    source : str
        Paper and equation number.
    objective : cvxpy.Minimize or cvxpy.Maximize
        The objective.
    objective_text : str
        The objective as the paper prints it, in plain text.
    variables : dict of str to cvxpy.Variable
        Named variables.
    rows : tuple of Row
        Named constraints, each with the letter and the meaning of its multiplier.
    parameters : dict of str to cvxpy.Parameter
        Named parameters; :meth:`set` changes them, and the next solve need not rebuild the problem.
    letters : mapping of str to str
        Meaning of the formulas' letters that are not variables (:mod:`formulations.language.typeset`).
    data : mapping of str to array_like, cvxpy.Expression or callable
        Values of these letters, with which the formulas are checked
        (:mod:`formulations.language.consistency`).
    """

    @property
    def solvers(self) -> tuple[str, ...]:
        """Names of the solvers of this class of programs, preferred first."""
        return PREFERRED[self.kind]

    def solve(
        self, solver: str | None = None, *, time_limit: float | None = None, max_iter: int | None = None,
        verbose: bool = False, start: Mapping[str, ArrayLike] | None = None, **options: Any,
    ) -> Solution:  # fmt: skip
        """Solve the program.

        Parameters
        ----------
        solver : str, optional
            One of :attr:`solvers`. By default all of these run in turn until one returns an optimal point;
            the status is ``INFEASIBLE`` or ``UNBOUNDED`` only if no solver finds a point.
        time_limit : float, optional
            Seconds for building the problem and for all attempts together.
        max_iter : int, optional
            Largest number of iterations of each attempt.
        verbose : bool
            If True, the solver prints its log.
        start : mapping of str to array_like, optional
            A value for every variable, from which HiGHS begins an integer program.
        **options
            The solver's own options; they replace those of :mod:`formulations.language.solving`. A solver
            with options runs once, and its point is returned unchecked.

        Returns
        -------
        Solution
            The status is ``FAILED``, without a point, if no solver succeeded; after a limit, the point is the
            best so far. An inaccurate solver runs again with other settings, and then the next solver runs;
            the point with the smallest residual of the optimality conditions is returned, and is ``SOLVED``
            up to a residual of 1e-6. Integer programs have no multipliers: their ``duals`` are empty, and
            HiGHS and SCIP set ``bound``.

        Raises
        ------
        ValueError
            An unknown solver, an invalid limit, or a program that no installed solver can solve.
        ModuleNotFoundError
            The program needs SCIP, and it is not installed.
        """
        return solve(
            self, solver, time_limit=time_limit, max_iter=max_iter, verbose=verbose, start=start,
            options=options,
        )  # fmt: skip

    def dual(
        self, objective: cp.Expression, text: str, variables: tuple[cp.Variable, ...],
        rows: tuple[Row, ...], **changes: Any,
    ) -> Self:  # fmt: skip
        """State the dual of this program: it has the same parameters, letters and data.

        `text` is the objective as printed; `changes` are fields of the dual that differ otherwise.
        """
        sense = cp.Maximize if self.sense == "minimise" else cp.Minimize
        fields: dict[str, Any] = {
            "name": f"{self.name}_dual",
            "title": f"{self.title}, dual",
            "source": f"{self.source.removesuffix(' (derived)')} (derived)",
            "variables": {variable.name(): variable for variable in variables},
        }
        return replace(
            self, objective=sense(objective), objective_text=text, rows=rows, **{**fields, **changes}
        )

    def __str__(self) -> str:
        return text_of(self)

    def __repr__(self) -> str:
        return "\n".join(short(str(self).splitlines(), " lines: print it"))

    def _summary(self) -> Summary:
        return Summary(self.name, program=self)

    def _repr_latex_(self) -> str:
        return latex_of(self)

    def _repr_markdown_(self) -> str:
        return markdown_of(self)


@dataclass(frozen=True)
class Duality:
    """A primal program, its dual, and the map from dual variables back to primal ones."""

    primal: Program  #: the program
    dual: Program  #: the program of equal optimal value
    #: function from the dual's variables to the primal's, both mappings of name to array
    recover: Callable[[Mapping[str, NDArray[Any]]], dict[str, NDArray[Any]]]

    def demonstrate(self) -> str:
        """Solve both programs; return a text with their values, the gap and the largest residual."""
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
