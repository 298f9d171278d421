"""The program of a solved state, typeset, with these numbers in its rows; and its dual beside it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from formulations.language.program import Program
from formulations.language.typeset import conditions_of, latex_name, symbols_of
from polyopt.lab.fitting import Fitted
from polyopt.lab.samples import Held, Words, number_told, rows_by_sample, rows_held
from polyopt.lab.state import plain
from polyopt.methods.programs import find_programs
from polyopt.report.programs import mathml, objective_latex, prose


def program_told(fitted: Fitted) -> dict[str, Any]:
    """Primal and dual as they are printed, with the values of this state in their rows.

    Values are the certificate's. A row binds where its multiplier counts as more than 0; a row of the
    dual, where what it bounds from below is 0.
    """
    method, certificate = fitted.method, fitted.certificate
    primal, dual = method.programs_for(fitted.settings)
    primal = method.duals_of or primal
    rows, words = rows_held(fitted), Words(fitted)
    note = "" if rows.has_multipliers else "This solver leaves no multipliers; the exact one does."
    held: dict[str, list[tuple[int, Held]]] = {}
    if rows.has_multipliers:
        for sample, own in enumerate(rows_by_sample(rows, len(fitted.state.y))):
            for one in own:
                held.setdefault(one.row, []).append((sample, one))
    labels = fitted.state.y.tolist()
    told = {
        row: [{"sample": sample, **words.row(one, labels[sample])} for sample, one in own[:400]]
        for row, own in held.items()
    }
    of = "" if certificate.scope == certificate.program else f", of {certificate.scope}"

    def shown(name: str, is_dual: bool, variables: list[Any], value: float, what: str) -> dict[str, Any]:
        return {
            **_typeset(name, told, held, is_dual), "variables": variables, "value": value, "note": note,
            "value_words": f"{what}: {number_told(value)}{of}",
        }  # fmt: skip

    return plain(
        {
            "kind": "program", "sentence": certificate.sentence,
            "primal": shown(
                primal, False, _variables(fitted), certificate.primal_value, "value of the point"
            ),
            "dual": shown(dual, True, _prices(held), certificate.dual_value, "proven bound"),
        }
    )  # fmt: skip


@cache
def _program(name: str) -> Program:
    return find_programs(name)[0]


def _typeset(
    name: str, told: dict[str, list[dict[str, Any]]], held: dict[str, list[tuple[int, Held]]], is_dual: bool
) -> dict[str, Any]:
    """Return the mathematics, and beside each row its numbers."""
    program = _program(name)
    rows = []
    for row, parts in _rows(name):
        own = _of_dual(row, held) if is_dual else row
        numbers = [dict(one) for one in told.get(own, [])]
        if is_dual:
            capped = _capped(own, held) if own != row else None
            numbers = [_turned(one, capped) for one in numbers]
        binding = sum(one.is_zero == is_dual for _, one in held.get(own, []))
        count = len(held.get(own, []))
        rows.append({**parts, "row": row, "count": count, "binding": binding, "numbers": numbers})
    return {
        "name": program.name, "title": program.title, "source": program.source, "sense": program.sense,
        "objective": _objective(name), "rows": rows, "where": _where(name),
    }  # fmt: skip


def _turned(one: dict[str, Any], capped: dict[tuple[int, int | None], float] | None) -> dict[str, Any]:
    """Return the numbers of a row of the dual: multiplier and slack of the primal's row change places."""
    price = one["multiplier"]
    return {
        **one, "binding": not one["binding"], "multiplier": one["slack"], "slack": price,
        "left": price if capped is None else capped.get((one["sample"], one["face"])),
        "words": f"{one['letter']} = {number_told(price)}",
    }  # fmt: skip


def _capped(own: str, held: dict[str, list[tuple[int, Held]]]) -> dict[tuple[int, int | None], float]:
    """Return the multipliers that the prices of slacks keep below their caps."""
    suffix = own.removeprefix("slack")
    family = held.get(f"bound{suffix}" if suffix else "margin", [])
    return {(sample, one.face): one.multiplier for sample, one in family}


def _of_dual(row: str, held: dict[str, list[tuple[int, Held]]]) -> str:
    """Return the row of the primal whose multiplier a dual's row keeps from falling below 0."""
    if row in held:
        return row
    return row.replace("xi", "slack", 1) if row.startswith("xi") else ""


@cache
def _rows(name: str) -> list[tuple[str, dict[str, str]]]:
    program = _program(name)
    letters = ["" if row.multiplier == "–" else mathml(latex_name(row.multiplier)) for row in program.rows]
    return [
        (row.name, {"mathml": mathml(program.row_latex(row)), "letter": letter, "meaning": row.meaning})
        for row, letter in zip(program.rows, letters, strict=True)
    ]


@cache
def _objective(name: str) -> str:
    return mathml(objective_latex(_program(name)), display=True)


@cache
def _where(name: str) -> list[str]:
    program = _program(name)
    return [prose(formula) for formula in (*conditions_of(program), *(s.latex for s in symbols_of(program)))]


def _variables(fitted: Fitted) -> list[dict[str, Any]]:
    """Return the model's own numbers."""
    estimator, found = fitted.estimator, []
    if getattr(estimator, "coef_", None) is not None:
        found.append(_variable("w", np.ravel(estimator.coef_)))
    if getattr(estimator, "intercept_", None) is not None:
        found.append(_variable("b", np.ravel(estimator.intercept_)))
    if getattr(estimator, "W_", None) is not None:
        W = np.column_stack([estimator.W_, estimator.b_])
        found += [_variable(f"W_{k}", row) for k, row in enumerate(W)]
    return found


def _prices(held: dict[str, list[tuple[int, Held]]]) -> list[dict[str, Any]]:
    """Return the multipliers, family by family."""
    families: dict[str, list[float]] = {}
    for own in held.values():
        for _, one in own:
            families.setdefault(one.letter, []).append(0.0 if one.is_zero else one.multiplier)
    return [_variable(name, np.array(values)) for name, values in families.items()]


def _variable(name: str, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Describe a vector by a few entries and their number."""
    text = ", ".join(number_told(float(value)) for value in values[:4])
    more = f", … {values.size} in all" if values.size > 4 else ""
    text = text if values.size == 1 else f"({text}{more})"
    return {"name": name, "mathml": mathml(latex_name(name)), "value": text}
