"""Consistency of the printed formulas of a program with its cvxpy expressions.

Variables and parameters are set to random numbers. There the printed objective is compared with the computed
one, and the printed violation of every row (a named family of constraints) with that of its constraint.
:func:`misprints` returns a sentence for each difference. A row's text has one or more claims: each is a
relation ``left sign right`` with conditions on its indices, such as ``… for yᵢ < 0``. Free indices are those
not summed over; a formula's value has an axis for each, then none, one or two of a vector or matrix (`rank`).

Examples
--------
>>> from dataclasses import replace
>>> from formulations import svm
>>> program = svm.dual([[0.0], [1.0], [3.0]], [-1, 1, 1])
>>> misprints(program)
[]
>>> misprints(replace(program, objective_text="Σᵢ αᵢ − Σᵢⱼ αᵢ αⱼ yᵢ yⱼ Kᵢⱼ"))  # the ½ is lost
['svm.dual, objective: Σᵢ αᵢ − Σᵢⱼ αᵢ αⱼ yᵢ yⱼ Kᵢⱼ is not what is computed']
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from formulations.language.notation.evaluation import Scope
from formulations.language.notation.parser import (
    INDICES,
    UnreadableError,
    functions_of,
    read_expression,
    read_row,
)
from formulations.language.notation.tree import Claim
from formulations.language.statement import Row, Statement
from formulations.language.types import Array
from formulations.language.typeset import printed_name, symbols_in


def misprints(program: Statement, seed: int = 0, tolerance: float = 1e-9) -> list[str]:
    """Compare the printed formulas with the expressions; return a sentence per misprint."""
    sentences = []
    for name, formula, difference in Trial(program, seed).formulas():
        try:
            if not difference(formula) <= tolerance:
                sentences.append(f"{program.name}, {name}: {formula} is not what is computed")
        except UnreadableError as error:
            sentences.append(f"{program.name}, {name}: {error}")
    return sentences


class Trial:
    """The objective, rows and letters of a program, computed at random numbers drawn from a seed.

    `scope` has the values of the letters and evaluates formulas; `ranges` has the number of values of each
    index, such as the n samples of i. The variables and parameters of the program are restored after the
    construction.
    """

    def __init__(self, program: Statement, seed: int = 0):
        self.program = program
        self.functions = functions_of(program.letters)  # the letters that are functions, as H of H(v)
        with _at_random_numbers(program, np.random.default_rng(seed)):
            self._objective = float(program.objective.value)
            self._rows = {row.name: _violations(row) for row in program.rows}
            leaves: dict[str, Any] = {**program.variables, **program.parameters}
            letters = {printed_name(name): leaf.value for name, leaf in leaves.items()}
            letters |= {name: _numbers(datum) for name, datum in program.data.items()}
        definitions = [symbol.definition for symbol in symbols_in(program.letters)]
        self.scope = Scope(letters, [definition for definition in definitions if definition is not None])
        self.ranges: dict[str, int] = {}  # the scope records them when it evaluates a formula
        for _, formula, difference in self.formulas():
            with suppress(UnreadableError):
                difference(formula)
                self.ranges = dict(self.scope.ranges)

    def formulas(self) -> list[tuple[str, str, Callable[[str], float]]]:
        """Return "objective" and the names of the rows, with their texts and what compares a text."""
        rows = [(row.name, row.text, partial(self.row_difference, row=row)) for row in self.program.rows]
        return [("objective", self.program.objective_text, self.objective_difference), *rows]

    def objective_difference(self, formula: str) -> float:
        """Return the relative difference between a formula and the objective."""
        value = self._evaluated(self.scope.value, read_expression(formula, self.functions))
        if value.kind != "number" or value.axes:
            words = f"it has free indices: {', '.join(value.axes)}" if value.axes else f"it is a {value.kind}"
            raise UnreadableError(f"{formula!r} is not one number: {words}")
        return _difference(value.array, np.array(self._objective))

    def row_difference(self, formula: str, row: Row) -> float:
        """Return the largest difference between a formula and a row, relative to the row's largest number."""
        claims = read_row(formula, self.functions)
        if row.is_matrix != any(claim.relation.sign == "⪰" for claim in claims):
            raise UnreadableError(f"{formula!r}: ⪰ is the sign of matrix inequalities, and only of them")
        if any(row.is_equality != (claim.relation.sign == "=") for claim in claims):
            return np.inf  # an equation printed as an inequality, or the reverse
        if any(claim.relation.sign in "<>" for claim in claims):
            return np.inf  # no constraint of a program is strict
        computed = self._rows[row.name]
        printed = self._evaluated(self._printed_violations, claims, row, computed.shape)
        if printed.shape != computed.shape:
            raise UnreadableError(f"{formula!r} has the shape {printed.shape}, its row {computed.shape}")
        return _difference(printed, computed)

    def _printed_violations(self, claims: tuple[Claim, ...], row: Row, shape: tuple[int, ...]) -> Array:
        """Return the violations of a row by its formula, of the shape of its constraint.

        `row.at` has, for each value of the formula's free indices, the flat index of its constraint, or -1 if
        there is none. If it is None, the free indices are the axes of the constraint.
        """
        # For each claim: the violations, and 1 where its conditions are true, else 0.
        parts = [(self.scope.residual(claim.relation), self.scope.stated(claim)) for claim in claims]
        if row.at is None:
            if len(parts) > 1 or claims[0].conditions:
                raise UnreadableError(f"{row.text!r} holds for some indices only, and the row has no `at`")
            return parts[0][0].array
        axes = {axis for pair in parts for value in pair for axis in value.axes}
        if len(axes) != row.at.ndim or any(residual.kind != "number" for residual, _ in parts):
            raise UnreadableError(f"{row.text!r} must be numbers with {row.at.ndim} free indices")
        printed, count = np.zeros(int(np.prod(shape))), np.zeros(row.at.shape)
        # The axes of a value's entries are i, j, k, l and those of a number.
        indexed = tuple(slice(None) if index in axes else 0 for index in INDICES)
        for residual, is_stated in parts:
            mask = np.broadcast_to(is_stated.entries[(*indexed, 0, 0)], row.at.shape) > 0
            count += mask
            entries = np.broadcast_to(residual.entries[(*indexed, 0, 0)], row.at.shape)
            if not (row.at[mask] >= 0).all():
                raise UnreadableError(f"{row.text!r} is stated where the program has no row")
            printed[row.at[mask]] = entries[mask]
        if not (count == (row.at >= 0)).all():
            raise UnreadableError(f"{row.text!r} leaves rows of the program out, or states them twice")
        return printed.reshape(shape)

    def _evaluated(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function with the program's ranges; its numpy errors become UnreadableError."""
        self.scope.ranges = dict(self.ranges)
        try:
            with np.errstate(all="ignore"):
                return function(*arguments)
        except UnreadableError:
            raise
        except (ValueError, np.linalg.LinAlgError) as error:
            raise UnreadableError(f"the sizes in a formula do not fit: {error}") from None


def _difference(printed: Array, computed: Array) -> float:
    """Return the largest difference relative to the largest computed number."""
    if not np.isfinite(printed).all():
        return np.inf
    scale = max(np.max(np.abs(computed), initial=0.0), 1e-9)
    return float(np.max(np.abs(printed - computed), initial=0.0) / scale)


def _violations(row: Row) -> Array:
    """Return the violation of each constraint of a row, or the matrix of a matrix inequality."""
    if row.is_cone:
        length, vector = row.constraint.args
        lengths = np.linalg.norm(vector.value, axis=row.constraint.axis)
        return np.asarray(lengths - length.value, dtype=float)
    if row.is_matrix:
        return np.asarray(row.constraint.args[0].value, dtype=float)
    return np.asarray(row.constraint.expr.value, dtype=float)


def _numbers(datum: Any) -> Any:
    """Return the numbers of a datum: an array, a cvxpy expression, or a function without arguments."""
    value = datum.value if isinstance(datum, cp.Expression) else datum() if callable(datum) else datum
    return value.toarray() if sp.issparse(value) else value


@contextmanager
def _at_random_numbers(program: Statement, generator: np.random.Generator) -> Iterator[None]:
    """Set variables and parameters to random numbers inside the context, and restore them after it."""
    leaves = (*program.variables.values(), *program.parameters.values())
    saved = [(leaf, leaf.value) for leaf in leaves]
    try:
        for parameter in program.parameters.values():
            # Parameters of zeros and ones, such as an assignment of samples to faces, keep their values.
            if set(np.unique(parameter.value)) != {0.0, 1.0}:
                parameter.value = generator.uniform(0.1, 0.9, parameter.shape)
        _fill(program.variables, lambda shape: generator.normal(size=shape))
        if not np.isfinite(program.objective.value):  # outside the domain of a logarithm
            _fill(program.variables, lambda shape: generator.uniform(0.1, 0.9, shape))
        yield
    finally:
        for leaf, value in saved:
            leaf.save_value(value)


def _fill(variables: Mapping[str, cp.Variable], draw: Callable[[tuple[int, ...]], Array]) -> None:
    """Set each variable to the drawn array of its shape, symmetric if the variable is."""
    for variable in variables.values():
        value = np.asarray(draw(variable.shape))
        variable.save_value((value + value.T) / 2.0 if variable.is_symmetric() and value.ndim == 2 else value)
