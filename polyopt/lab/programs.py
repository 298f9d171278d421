"""The program of a solved state and its dual, typeset, with the state's numbers in their rows."""

from functools import cache
from typing import Any

import numpy as np

from formulations.language.typeset import domains_latex, latex_name, printed_symbols
from polyopt.lab.fitting import Fitted
from polyopt.lab.samples import NO_MULTIPLIERS, RowAtPoint, Rows, number_text
from polyopt.methods.programs import find_programs
from polyopt.report.programs import mathml, objective_latex, prose

_MAX_NUMBERS = 400  # points whose numbers are shown in a row


def program_shown(fitted: Fitted) -> dict[str, Any]:
    """Return the primal and the dual as they are printed, with the values of this state in the primal's rows.

    Values are the certificate's. A row of the primal is binding if its multiplier counts as positive, and a
    row of the dual if the multiplier that it bounds from below counts as 0.
    """
    method, certificate = fitted.method, fitted.certificate
    primal, dual = method.programs_for(fitted.settings)
    primal = method.duals_of or primal
    duals, labels = Rows(fitted), fitted.state.y.tolist()
    rows: dict[str, list[tuple[int, RowAtPoint]]] = {}
    for sample, at_points in enumerate(duals.at_points if duals.has_multipliers else ()):
        for at_point in at_points:
            rows.setdefault(at_point.row, []).append((sample, at_point))
    scope = "" if certificate.scope == certificate.program else f", of {certificate.scope}"

    def shown(name: str, is_dual: bool, variables: list[Any], value: float, noun: str) -> dict[str, Any]:
        mathematics, parts = _typeset(name), []
        for row, formulas in mathematics["rows"].items():
            at_points = rows.get(_primal_row(row, rows) if is_dual else row, [])
            binding = sum(at_point.is_zero == is_dual for _, at_point in at_points)
            listed = [] if is_dual else at_points[:_MAX_NUMBERS]
            numbers = [{"sample": i, **duals.plain(at_point, labels[i])} for i, at_point in listed]
            part = {"row": row, "count": len(at_points), "binding": binding, "numbers": numbers}
            parts.append({**formulas, **part})
        return {
            **mathematics, "rows": parts, "variables": variables, "value": value,
            "note": "" if duals.has_multipliers else NO_MULTIPLIERS,
            "value_words": f"{noun}: {number_text(value)}{scope}",
        }  # fmt: skip

    value, bound = certificate.primal_value, certificate.dual_value
    return {
        "kind": "program", "sentence": certificate.sentence,
        "primal": shown(primal, False, _variables(fitted), value, "value of the point"),
        "dual": shown(dual, True, _multipliers(rows), bound, "proven bound"),
    }  # fmt: skip


@cache
def _typeset(name: str) -> dict[str, Any]:
    """Return a program's mathematics: title, objective, rows by name, and conditions on its letters."""
    [program] = find_programs(name)
    where = (*domains_latex(program), *(symbol.latex for symbol in printed_symbols(program)))
    return {
        "name": program.name, "title": program.title, "source": program.source,
        "objective": mathml(objective_latex(program), display=True),
        "rows": {
            row.name: {
                "mathml": mathml(program.row_latex(row)), "meaning": row.meaning,
                "letter": "" if row.multiplier == "–" else mathml(latex_name(row.multiplier)),
            }
            for row in program.rows
        },
        "where": [prose(formula) for formula in where],
    }  # fmt: skip


def _primal_row(row: str, rows: dict[str, list[tuple[int, RowAtPoint]]]) -> str:
    """Return the primal row whose multiplier a dual row bounds below by 0; "" if there is none."""
    if row in rows:
        return row
    return row.replace("xi", "slack", 1) if row.startswith("xi") else ""


def _variables(fitted: Fitted) -> list[dict[str, Any]]:
    """Return the weights of the machine: w and b, or those of each face."""
    estimator, variables = fitted.estimator, []
    if getattr(estimator, "coef_", None) is not None:
        variables.append(_variable("w", np.ravel(estimator.coef_)))
    if getattr(estimator, "intercept_", None) is not None:
        variables.append(_variable("b", np.ravel(estimator.intercept_)))
    if getattr(estimator, "W_", None) is not None:
        W = np.column_stack([estimator.W_, estimator.b_])
        variables += [_variable(f"W_{k}", row) for k, row in enumerate(W)]
    return variables


def _multipliers(rows: dict[str, list[tuple[int, RowAtPoint]]]) -> list[dict[str, Any]]:
    """Return the multipliers of each letter."""
    by_letter: dict[str, list[float]] = {}
    for at_points in rows.values():
        for _, at_point in at_points:
            value = 0.0 if at_point.is_zero else at_point.multiplier
            by_letter.setdefault(at_point.letter, []).append(value)
    return [_variable(name, np.array(values)) for name, values in by_letter.items()]


def _variable(name: str, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Describe a vector by a few entries and their number."""
    text = ", ".join(number_text(float(value)) for value in values[:4])
    more = f", … {values.size} in all" if values.size > 4 else ""
    text = text if values.size == 1 else f"({text}{more})"
    return {"name": name, "mathml": mathml(latex_name(name)), "value": text}
