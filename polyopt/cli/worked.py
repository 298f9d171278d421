"""``polyopt show METHOD --solve TABLE``: the optimum of a small table, in fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyopt.certificates.claims.refine import ExactSolution
    from polyopt.certificates.claims.statement import Statement

__all__ = ["worked_example"]

_LETTERS = {"margin": "alpha", "bound_above": "lambda", "bound_below": "lambda*"}


def worked_example(name: str, data: str, given: dict[str, Any]) -> str:
    """Return the optimum of a method's program for a table, solved exactly, as text.

    Features are as they are in the table, and its decimals are taken for what they say: 0.1 is a tenth.

    given: settings; what else would be chosen by the data is rounded to two digits.
    ValueError: A method whose optimum is not rational, or more than two classes.
    """
    from polyopt.certificates.claims.refine import exact_solution
    from polyopt.cli.data import load_data
    from polyopt.compare.data import check_dataset
    from polyopt.compare.run import settings_text
    from polyopt.datasets import fit_preparation
    from polyopt.methods.registry import find_method

    entry, table = find_method(name), load_data(data)
    check_dataset(table)
    table, _ = fit_preparation(table)
    if len(table.y) > 2000:
        raise ValueError(f"{table.name} has {len(table.y)} samples; exact solutions are of 2000 at most")
    settings = entry.settings_for(table.X, table.y, **given)
    if entry.tuned not in given and isinstance(settings.get(entry.tuned), float):
        settings[entry.tuned] = float(f"{settings[entry.tuned]:.2g}")
    evidence = entry.make("auto", settings).fit(table.X, table.y).certificate().evidence
    if len(evidence) != 1:
        raise ValueError(
            f"--solve is for two classes and one of the programs that certificates save, not {name}"
        )
    statement = evidence[0].state()
    rows = [{j: _decimal(x) for j, x in row.items()} for row in _cells(statement)]
    found = exact_solution(replace(statement, program=_decimals(statement.program)), rows)
    names = dict(zip((-1, 1), evidence[0].names, strict=True))
    title = f"{found.title} ({settings_text(settings)}), {len(statement.y)} samples, solved exactly"
    return "\n".join([title, "", *_lines(found, [names[int(s)] for s in statement.y])])


def _cells(statement: Statement) -> list[dict[int, float]]:
    from polyopt.certificates.claims.file import cells_of

    return cells_of(statement.X)


def _decimal(value: float | Fraction) -> Any:
    """Fraction that the shortest decimals of a double name."""
    return Fraction(repr(float(value)))


def _decimals(told: Any) -> Any:
    """Return a program whose numbers are what their decimals say."""
    from polyopt.check.check import number

    if isinstance(told, dict):
        return {key: _decimals(value) for key, value in told.items()}
    if isinstance(told, list):
        return [_decimals(value) for value in told]
    return str(_decimal(number(told))) if isinstance(told, str) and "0x" in told else told


def _lines(found: ExactSolution, labels: list[str]) -> list[str]:
    """Return a line for each number of the solution that is not 0."""

    def shown(value: Fraction) -> str:
        text = str(value)
        if len(text) > 40:
            return f"{float(value):.12g} ({len(text) - 1} digits)"
        return text if value.denominator == 1 else f"{text} = {float(value):.6g}"

    lines: list[str] = []
    several = len(found.W) > 1
    for k, w in enumerate(found.W):
        of = f"[{k}]" if several else ""
        lines += [f"w{of}_{j + 1} = {shown(value)}" for j, value in enumerate(w) if value]
        lines += [f"b{of} = {shown(found.b[k])}"] if found.b else []
    lines.append("")
    for name, parts in found.multipliers.items():
        for k, part in enumerate(parts):
            of = f"[{k}]" if several else ""
            letter = _LETTERS.get(name, name)
            lines += [
                f"{letter}{of}_{i + 1} = {shown(value)}    (label {labels[i]})"
                for i, value in enumerate(part)
                if value
            ]
    lines += ["", f"value of the point = bound of the multipliers = {shown(found.value)}"]
    return lines
