"""The settings of a method as options, shared by ``fit`` and ``duals``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyopt.cli.completion import among, complete_method
from polyopt.methods.registry import BUILT_IN, answering_for

if TYPE_CHECKING:
    from polyopt.methods import Method

__all__ = [
    "B",
    "C",
    "Calibration",
    "Categorical",
    "D",
    "Decimal",
    "Faces",
    "Force",
    "Gamma",
    "Impute",
    "Kernel",
    "Large",
    "MethodName",
    "Quiet",
    "Seed",
    "Separator",
    "Set",
    "Solver",
    "Target",
    "TimeLimit",
    "check_settings",
    "read_settings",
]

_KERNELS = ("linear", "rbf", "poly", "sigmoid")

MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        autocompletion=complete_method,
        help=f"One of {', '.join(BUILT_IN)}, or a method of another package.",
    ),
]
C = Annotated[float | None, typer.Option("--C", help="Cost of a unit of slack.")]
B = Annotated[
    float | None, typer.Option("--B", help="Bound on the outputs; the method chooses one by default.")
]
D = Annotated[float | None, typer.Option("--D", help="Share of the output variance, 0 to 1.")]
Kernel = Annotated[
    str | None, typer.Option(autocompletion=among(*_KERNELS), help="linear, rbf, poly or sigmoid.")
]
Gamma = Annotated[
    str | None,
    typer.Option(
        autocompletion=among("scale", "auto"),
        help="Kernel coefficient: scale, auto or a number; of a gate between faces, its sharpness.",
    ),
]
Faces = Annotated[
    int | None,
    typer.Option("--faces", help="Faces of the polytope."),
]
Calibration = Annotated[
    str | None,
    typer.Option(
        autocompletion=among("sigmoid", "isotonic"),
        help="Probabilities, calibrated on samples held out: sigmoid or isotonic.",
    ),
]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds at most.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of a stochastic solver.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Another parameter of the estimator, such as degree=2; may be given again. "
        "A name that it does not have lists those it has.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Target = Annotated[str | None, typer.Option(help="Label column of a CSV file: name, or place from 0.")]
ByPosition = Annotated[
    bool, typer.Option("--by-position", help="Take the columns in order, whatever their names.")
]
Separator = Annotated[
    str | None,
    typer.Option(help="What separates cells: comma, semicolon, tab, space or a character; found by default."),
]
Decimal = Annotated[str, typer.Option(help="Decimal mark: a point, or a comma.")]
Categorical = Annotated[
    str | None,
    typer.Option(help="Columns of text to make indicators of: all, or names or places with commas between."),
]
Impute = Annotated[
    str | None, typer.Option(help="Fill missing values by the column's: median or most-frequent.")
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Let the output replace a file that is read and, after Ctrl-C, any other."),
]
Large = Annotated[
    bool, typer.Option("--large", help="Go on although the data would take very long or much memory.")
]


class Solver(StrEnum):
    """Solver: chosen by size, the explicit program, the fast one, or the one that proves a global optimum."""

    AUTO = "auto"
    EXACT = "exact"
    FAST = "fast"
    PROVING = "proving"

    def of(self, method: Method) -> str:
        """Name of this solver in the method's estimator."""
        if self is not Solver.PROVING:
            return method.fast if self is Solver.FAST else self.value
        if not method.proving:
            raise ValueError(
                f"--solver proving: {method.name} has no solver that proves more than its others do"
            )
        return method.proving


def read_settings(others: list[str] | None = None, **given: Any) -> dict[str, Any]:
    """The settings that were given, as the parameters of an estimator.

    others: settings without an option of their own, each as ``"name=value"``.
    **given: the others; None for those that were not given.
    ValueError: A kernel that is not known, or text where a number is wanted.
    """
    settings = {name: value for name, value in given.items() if value is not None}
    for name, value in map(_parsed, others or ()):
        if name in _OWN:
            raise ValueError(f"--set: {name} has an option of its own, {_OWN[name]}")
        settings[name] = value
    if settings.get("kernel", "linear") not in _KERNELS:
        raise ValueError(f"--kernel must be one of {', '.join(_KERNELS)}, not {settings['kernel']!r}")
    gamma = settings.get("gamma")
    if gamma is not None and gamma not in ("scale", "auto"):
        try:
            settings["gamma"] = float(gamma)
        except (TypeError, ValueError):
            raise ValueError(f"--gamma must be scale, auto or a number, not {gamma!r}") from None
    return settings


def check_settings(
    methods: Sequence[Method], settings: Mapping[str, Any], others: list[str] | None = None
) -> dict[str, Any]:
    """The settings, if for each there is a method that has it.

    others: those of them that came by ``--set``.
    ValueError: one that none of the methods has; the message names those that do, or what the method has.
    """
    from polyopt.methods import METHODS

    known: dict[str, None] = {}
    for method in methods:
        with answering_for(method):
            known |= dict.fromkeys(method.parameters)
    words = {_parsed(text)[0] for text in others or ()}
    whose = ", ".join(method.name for method in methods)
    found = dict(settings)
    for name in settings:
        field, _, part = name.partition(".")
        if part and field in known:
            found[field] = _part_of(methods, field, part, found.pop(name), found.get(field))
        elif name not in known and name in words:
            start = f"{whose} has no setting {name!r}; it has"
            if len(methods) > 1:
                start = f"none of {whose} has a setting {name!r}; there are"
            raise ValueError(f"--set: {start} {', '.join(known)}")
        elif name not in known:
            having = [m.name for m in METHODS.values() if m.name in BUILT_IN and name in m.parameters]
            option = "--faces" if name == "n_faces" else f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} is not a setting of {whose}; it is one of {', '.join(having)}")
    return found


def _part_of(methods: Sequence[Method], field: str, part: str, value: object, before: object) -> object:
    """A setting that has settings of its own, such as how a search is made, with one of them changed."""
    import dataclasses

    for method in methods:
        for kind in getattr(method.estimator_class, "_parameter_constraints", {}).get(field, ()):
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                names = [one.name for one in dataclasses.fields(kind)]
                if part not in names:
                    raise ValueError(f"--set: {field} has no setting {part!r}; it has {', '.join(names)}")
                start = before if isinstance(before, kind) else kind()
                return dataclasses.replace(start, **{part: value})
    raise ValueError(f"--set: {field} has no settings of its own, and so no {part!r}")


_OWN = {"solver": "--solver", "time_limit": "--time-limit", "random_state": "--seed"}


def _parsed(text: str) -> tuple[str, Any]:
    """Name and value of ``name=value``; the value is a number, True, False or None, or else a word."""
    import ast

    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"--set takes NAME=VALUE, not {text!r}")
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (SyntaxError, ValueError):
        return name.strip(), value.strip()
