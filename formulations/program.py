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
==============  =======================  ==========  ==================================

In a maximisation the last column changes its sign, and nothing else does: the multiplier of
``y'alpha == 0`` in the SVM dual is ``+b``. Every solver behind :meth:`Program.solve` follows this
table; a test holds each of them to it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.solution import Solution, Status
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


# In order of preference. Clarabel is an interior-point solver: accurate to 1e-9 and above on all
# but the worst scaled data. HiGHS has exact vertices for LPs, but its QP solver gives up on some
# convex programs ("Non-convex"), so it never stands alone.
_PREFERRED = {
    "LP": ("HIGHS", "CLARABEL"),
    "QP": ("CLARABEL", "OSQP", "HIGHS"),
    "QCQP": ("CLARABEL", "SCS"),
    "SDP": ("CLARABEL", "SCS"),
    "EXP": ("CLARABEL", "SCS"),
    "MILP": ("HIGHS",),
    "MIQP": ("SCIP",),
}
_TIGHT: dict[str, dict[str, Any]] = {
    "CLARABEL": {
        "tol_gap_abs": 1e-11,
        "tol_gap_rel": 1e-11,
        "tol_feas": 1e-11,
        "max_threads": 1,
        # A point short of these tolerances is still a point; its status says so.
        "accept_unknown": True,
    },
    # Its QP solver regularises by 1e-7, which is how far stationarity then falls short. With none at all
    # it gives up on every other program of this package; with this little on hardly any.
    # Nor does it always end.
    "HIGHS": {"qp_regularization_value": 1e-10, "qp_iteration_limit": 50_000},
    "OSQP": {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iter": 200_000, "polishing": True},
    "SCS": {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 200_000},
    "SCIP": {"limits/gap": 1e-7, "numerics/feastol": 1e-8},
}
_LOGARITHMS = (cp.logistic, cp.log_sum_exp, cp.entr)
_LIMIT_NAMES = {
    "CLARABEL": ("time_limit", "max_iter"),
    "HIGHS": ("time_limit", "simplex_iteration_limit"),
    "OSQP": ("time_limit", "max_iter"),
    "SCS": ("time_limit_secs", "max_iters"),
    "SCIP": ("limits/time", "limits/nodes"),
}
# SCIP's own words for what cvxpy calls "optimal_inaccurate" throughout.
_SCIP_ENDS = {
    "gaplimit": Status.OPTIMAL,
    "timelimit": Status.TIME_LIMIT,
    "nodelimit": Status.ITERATION_LIMIT,
    "totalnodelimit": Status.ITERATION_LIMIT,
}
_STATUSES = {
    cp.OPTIMAL: Status.OPTIMAL,
    cp.OPTIMAL_INACCURATE: Status.INACCURATE,
    cp.INFEASIBLE: Status.INFEASIBLE,
    cp.INFEASIBLE_INACCURATE: Status.INFEASIBLE,
    cp.UNBOUNDED: Status.UNBOUNDED,
    cp.UNBOUNDED_INACCURATE: Status.UNBOUNDED,
    cp.USER_LIMIT: Status.ITERATION_LIMIT,
}


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

    @property
    def sense(self) -> str:
        """``"minimise"`` or ``"maximise"``."""
        return "minimise" if isinstance(self.objective, cp.Minimize) else "maximise"

    @property
    def kind(self) -> str:
        """The program's class: LP, QP, QCQP, SDP, EXP (logarithms), MILP or MIQP (but for integers)."""
        if self.problem.is_mixed_integer():
            return "MILP" if self.objective.args[0].is_affine() else "MIQP"
        if any(isinstance(row.constraint, cp.constraints.PSD) for row in self.rows):
            return "SDP"
        if any(issubclass(atom, _LOGARITHMS) for atom in self.problem.atoms()):
            return "EXP"
        if self.problem.is_lp():
            return "LP"
        return "QP" if self.problem.is_qp() else "QCQP"

    @property
    def solvers(self) -> tuple[str, ...]:
        """Names of the solvers that can solve it, preferred first."""
        return _PREFERRED[self.kind]

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
            One of :attr:`solvers`. By default each is tried in turn until one leaves a point; "infeasible"
            and "unbounded" stand if no other solver refutes them.
        time_limit : float, optional
            Seconds.
        max_iter : int, optional
            Iterations of the solver.
        verbose : bool
            Let the solver print its log.
        **options
            The solver's own options; they replace the tight defaults of this module.

        Returns
        -------
        Solution
            With status ``FAILED`` and no point if no solver succeeded; limits keep their point. Integer
            programs have no multipliers: their ``duals`` is empty, and HiGHS and SCIP state their ``bound``.

        Raises
        ------
        ModuleNotFoundError
            The program needs SCIP, and it is not installed.
        """
        if solver is not None and solver.upper() not in _TIGHT:
            raise ValueError(f"solver must be one of {', '.join(_TIGHT)}, not {solver!r}")
        if "SCIP" in (self.solvers if solver is None else (solver.upper(),)):
            _require_scip()
        failed: list[str] = []
        verdict = solution = None
        for name in self.solvers if solver is None else (solver.upper(),):
            settings = {**_TIGHT[name], **options}
            for limit, key in zip((time_limit, max_iter), _LIMIT_NAMES[name], strict=True):
                if limit is not None:
                    settings[key] = limit
            solution = self._solve_once(name, failed, verbose, settings)
            if solution.status is Status.ITERATION_LIMIT and time_limit is not None:
                solution = _timed_out(solution, time_limit)
            if solution.status in (Status.OPTIMAL, Status.INACCURATE):
                return solution
            if solution.status in (Status.INFEASIBLE, Status.UNBOUNDED):
                # On badly scaled data this may be wrong: it stands only if no other solver finds a point.
                verdict = verdict or solution
            elif solution.status is not Status.FAILED and verdict is None:
                return solution  # a limit was reached; its point is kept
            failed.append(name)
        assert solution is not None
        return verdict or solution

    def _solve_once(
        self, solver: str, failed: list[str], verbose: bool, settings: dict[str, Any]
    ) -> Solution:
        started = time.perf_counter()
        try:
            with warnings.catch_warnings():
                # An inaccurate solution is reported by its status, which the caller reads.
                warnings.filterwarnings("ignore", message="Solution may be inaccurate")
                # Without a warm start: a solver kept from the last solve would keep its limits, too.
                self.problem.solve(solver=solver, verbose=verbose, warm_start=False, **settings)
            status = _STATUSES.get(self.problem.status, Status.FAILED)
        except cp.error.SolverError:
            status = Status.FAILED
        elapsed = time.perf_counter() - started
        extra = getattr(self.problem.solver_stats, "extra_stats", None)
        scip = extra.get("model") if solver == "SCIP" and isinstance(extra, dict) else None
        if scip is not None:
            status = _SCIP_ENDS.get(scip.getStatus(), status)
        has_point = status not in (Status.INFEASIBLE, Status.UNBOUNDED, Status.FAILED) and all(
            variable.value is not None for variable in self.variables.values()
        )
        if not has_point and status not in (Status.INFEASIBLE, Status.UNBOUNDED):
            status = Status.FAILED
        stats = self.problem.solver_stats if status is not Status.FAILED else None
        solve_time = float(getattr(stats, "solve_time", None) or 0.0)
        objective, bound = float(self.objective.value) if has_point else float("nan"), None
        distance = np.nan
        if has_point and scip is not None:
            distance = scip.getObjVal() - scip.getDualbound()
        elif has_point and solver == "HIGHS" and self.problem.is_mixed_integer():
            distance = extra.objective_function_value - extra.mip_dual_bound if extra is not None else np.nan
        if np.isfinite(distance):
            # cvxpy minimises, up to a constant: the distance to the bound is what can be carried over.
            distance = max(distance, 0.0)
            bound = objective - distance if self.sense == "minimise" else objective + distance
        return Solution(
            status=status,
            primal={k: np.array(v.value, dtype=float) for k, v in self.variables.items()}
            if has_point
            else {},
            duals={r.name: np.array(r.constraint.dual_value, dtype=float) for r in self.rows}
            if has_point and not self.problem.is_mixed_integer()
            else {},
            objective=objective,
            bound=bound,
            solver=solver.lower() + (f" (after {', '.join(failed).lower()} failed)" if failed else ""),
            iterations=int(scip.getNTotalNodes() if scip else getattr(stats, "num_iters", None) or 0),
            build_time=max(elapsed - solve_time, 0.0),
            solve_time=solve_time,
        )

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


def _require_scip() -> None:
    if "SCIP" not in cp.installed_solvers():
        raise ModuleNotFoundError(
            "this program needs SCIP, which is not installed: pip install 'polyopt[mip]'"
        )


def _timed_out(solution: Solution, time_limit: float) -> Solution:
    """Of the limits, which cvxpy reports alike: the clock tells one of time from one of iterations."""
    if solution.build_time + solution.solve_time < 0.9 * time_limit:
        return solution
    return Solution(**{**solution.__dict__, "status": Status.TIME_LIMIT})


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
