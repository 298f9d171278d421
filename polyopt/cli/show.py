"""``polyopt show``: programs as they are printed, and the exact optimum of a small table."""

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from polyopt.cli import options

if TYPE_CHECKING:
    from polyopt.certificates.claims.refine import ExactSolution


_NAME_HELP = "A family (rmm), a method (rmm-rbf) or a program (rmm.qp)."


def show(
    name: Annotated[str | None, typer.Argument(help=_NAME_HELP, show_default=False)] = None,
    format: Annotated[
        Literal["text", "latex", "markdown", "html"], typer.Option(help="How to print it.")
    ] = "text",
    solve: Annotated[
        str | None, typer.Option(help="A small table of two classes: print its optimum in fractions.")
    ] = None,
    others: options.Set = None,
) -> None:
    """Print a program's mathematics.

    Without a name, it lists what there is to show. With --format html it is a page that needs no network.
    """
    from itertools import groupby

    from polyopt.methods import METHODS
    from polyopt.methods.programs import entries, find_programs, text_of_family
    from polyopt.methods.registry import families, family_module

    if solve is None and others:
        raise ValueError("--set is of an optimum: name a table with --solve")
    if solve is not None:
        if name is None:
            raise ValueError("--solve needs the name of a method")
        typer.echo(worked_example(name, solve, options.read_settings(others)))
        return
    if name is None:
        for family, members in groupby(entries(), key=lambda entry: entry.family):
            typer.echo(f"{family.replace('_', '-')}: {', '.join(entry.name for entry in members)}")
        return
    wanted = name.strip().replace("-", "_")
    is_family = wanted in families()
    if is_family and format == "text":
        typer.echo(text_of_family(family_module(wanted), entries((wanted,))))
        return
    method = METHODS.get(name)
    if method is None or is_family:
        programs = find_programs(name)
    else:
        programs = [program for part in method.programs for program in find_programs(part)]
    if format == "html":
        from polyopt.report.programs import programs_page

        typer.echo(programs_page(programs))
        return
    printer = {"latex": "_repr_latex_", "markdown": "_repr_markdown_"}.get(format, "__str__")
    typer.echo("\n\n".join(getattr(program, printer)() for program in programs))


_LETTERS = {"margin": "alpha", "bound_above": "lambda", "bound_below": "lambda*"}


def worked_example(name: str, data: str, given: dict[str, Any]) -> str:
    """Return the exact optimum of a method's program for a table, as text.

    Features are not scaled, and decimals are exact: 0.1 is a tenth. Settings that are not `given` and that
    the data choose are rounded to two digits. ValueError: a method whose optimum is not rational, or more
    than two classes.
    """
    from polyopt.certificates.claims.file import cells_of
    from polyopt.certificates.claims.refine import exact_solution
    from polyopt.cli.data import load_prepared
    from polyopt.compare.run import settings_text
    from polyopt.methods.registry import find_method

    entry, (_, table, _) = find_method(name), load_prepared(data)
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
    rows = [{j: _decimal(x) for j, x in row.items()} for row in cells_of(statement.X)]
    solution = exact_solution(replace(statement, program=_decimals(statement.program)), rows)
    names = dict(zip((-1, 1), evidence[0].names, strict=True))
    title = f"{solution.title} ({settings_text(settings)}), {len(statement.y)} samples, solved exactly"
    return "\n".join([title, "", *_lines(solution, [names[int(s)] for s in statement.y])])


def _decimal(value: float | Fraction) -> Any:
    """Return the fraction of a double's shortest decimals."""
    return Fraction(repr(float(value)))


def _decimals(program: Any) -> Any:
    """Return a program, or a part of one, with the exact decimals of its numbers."""
    from polyopt.check.check import number

    if isinstance(program, dict):
        return {key: _decimals(value) for key, value in program.items()}
    if isinstance(program, list):
        return [_decimals(value) for value in program]
    if not (isinstance(program, str) and "/" in program):
        return program
    value = number(program)
    is_double = value.denominator & (value.denominator - 1) == 0
    simple = _decimal(value) if is_double else value.limit_denominator(1_000_000)
    return str(simple if float(simple) == float(value) else value)


def _lines(solution: "ExactSolution", labels: list[str]) -> list[str]:
    """Return a line for each number of the solution that is not 0."""

    def shown(value: Fraction) -> str:
        text = str(value)
        if len(text) > 40:
            return f"{float(value):.12g} ({len(text) - 1} digits)"
        return text if value.denominator == 1 else f"{text} = {float(value):.6g}"

    faces = [f"[{k}]" for k in range(len(solution.W))] if len(solution.W) > 1 else [""]
    lines: list[str] = []
    offsets = solution.b or [Fraction(0)] * len(faces)
    for face, w, b in zip(faces, solution.W, offsets, strict=True):
        lines += [f"w{face}_{j + 1} = {shown(value)}" for j, value in enumerate(w) if value]
        lines += [f"b{face} = {shown(b)}"] if b else []
    lines.append("")
    for name, parts in solution.multipliers.items():
        letter = _LETTERS.get(name, name)
        for face, part in zip(faces, parts, strict=True):
            lines += [
                f"{letter}{face}_{i + 1} = {shown(value)}    (label {labels[i]})"
                for i, value in enumerate(part)
                if value
            ]
    return [*lines, "", f"value of the point = bound of the multipliers = {shown(solution.value)}"]
