"""``polyopt doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping


def doctor() -> None:
    """Tell what this installation is, and whether it works.

    Versions, processor and threads, compiled kernels, caches, and every solver tried on a program of two
    variables. Exit status 1 where something that polyopt needs is missing or does not work. Of the
    environment it reads and prints only what sets the number of threads.
    """
    from rich.text import Text

    from polyopt.cli.console import output
    from polyopt.cli.health import examine

    found, console = examine(), output()
    for line in _lines(found):
        console.print(Text(line), soft_wrap=True)
    if found["problems"]:
        raise typer.Exit(1)


def _lines(found: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for heading in ("versions", "machine", "kernels", "caches"):
        lines += [heading.capitalize(), *_entries(found[heading])]
    lines.append("Solvers, on a program of two variables")
    width = max(map(len, found["solvers"]))
    for name, one in found["solvers"].items():
        lines.append(f"  {name:<{width}}  {one['verdict']}")
    if found["problems"]:
        lines += ["Problems", *(f"  {problem}" for problem in found["problems"])]
    else:
        lines.append("Everything that polyopt needs is there and works.")
    return lines


def _entries(values: Mapping[str, Any]) -> list[str]:
    width = max(map(len, values))
    lines = []
    for name, value in values.items():
        told = (
            ", ".join(f"{key} {_word(each)}" for key, each in value.items())
            if isinstance(value, dict)
            else ""
        )
        lines.append(f"  {name:<{width}}  {told or _word(value)}")
    return lines


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "", {}) else str(value)
