"""Solved cvxpy problems whose variables, and rows, have our names; our own programs and solutions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from polyopt.foreign.tables import LETTERS, read_fields

if TYPE_CHECKING:
    import cvxpy as cp

    from formulations.program import Program
    from formulations.solution import Solution
    from polyopt.foreign.answer import Answer

__all__ = ["read_problem", "read_program", "read_solution"]

_VARIABLES = ("w", "b", "W", *LETTERS)
_ROWS = tuple(LETTERS.values())


def read_problem(problem: cp.Problem) -> Answer:
    """The solution of a cvxpy problem: variables by name, multipliers of the rows by label.

    Parameters
    ----------
    problem : cvxpy.Problem
        Solved. Variables are named ``w`` and ``b``, or ``W``, or of a dual ``alpha``, ``lam`` and
        ``lam_star``; rows may be labelled ``margin``, ``bound_above`` and ``bound_below``
        (``constraint.set_label``).

    Raises
    ------
    ValueError
        It is not solved, or has none of these variables.
    """
    rows = {getattr(row, "label", None): row.dual_value for row in problem.constraints}
    values = {variable.name(): variable.value for variable in problem.variables()}
    return _read("the cvxpy problem", values, rows)


def read_program(program: Program) -> Answer:
    """The solution that cvxpy has left in one of our programs; see :func:`read_problem`."""
    values = {name: variable.value for name, variable in program.variables.items()}
    rows = {row.name: row.constraint.dual_value for row in program.rows}
    return _read(program.name, values, rows)


def read_solution(solution: Solution) -> Answer:
    """A solution of one of our programs or solvers; see :func:`read_problem`."""
    return _read("the solution", solution.primal, solution.duals)


def _read(source: str, values: Mapping[str, object], rows: Mapping[Any, object]) -> Answer:
    known = {name: values[name] for name in _VARIABLES if name in values}
    if not known:
        raise ValueError(f"{source} has no variable named {', '.join(_VARIABLES)}; it has {_list(values)}")
    if any(value is None for value in known.values()):
        raise ValueError(f"{source} has no values: solve it first")
    multipliers = {name: rows[name] for name in _ROWS if rows.get(name) is not None}
    duals = {LETTERS[name] for name in known if name in LETTERS}
    found = {name: value for name, value in multipliers.items() if name not in duals}
    return read_fields(known | ({"multipliers": found} if found else {}), source)


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(str, names)) or "none"
