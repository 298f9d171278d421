"""The settings of a method as options, shared by ``fit`` and ``duals``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyopt.methods.registry import BUILT_IN, answering_for

if TYPE_CHECKING:
    from polyopt.methods import Method

__all__ = [
    "B",
    "C",
    "Categorical",
    "D",
    "Decimal",
    "DoubleSided",
    "Faces",
    "Gamma",
    "Impute",
    "Kernel",
    "Large",
    "MethodName",
    "OverwriteInput",
    "Perplexity",
    "Ridge",
    "Seed",
    "Separator",
    "Set",
    "Solver",
    "Target",
    "TimeLimit",
    "check_settings",
]

MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        help=f"One of {', '.join(BUILT_IN)}, or a method of another package.",
    ),
]
C = Annotated[float | None, typer.Option("--C", help="Cost of a unit of slack.")]
B = Annotated[
    float | None, typer.Option("--B", help="Bound on the outputs; the method chooses one by default.")
]
D = Annotated[float | None, typer.Option("--D", help="Share of the output variance, 0 to 1.")]
Kernel = Annotated[str | None, typer.Option(help="linear, rbf, poly or sigmoid.")]
Gamma = Annotated[
    str | None,
    typer.Option(help="Kernel coefficient: scale, auto or a number; of a gate between faces, its sharpness."),
]
Faces = Annotated[
    int | None,
    typer.Option("--faces", help="Faces of the polytope."),
]
Perplexity = Annotated[
    float | None, typer.Option(help="Least effective number of faces in use, 1 to the faces.")
]
DoubleSided = Annotated[
    bool | None, typer.Option("--double-sided", help="A polytope with each class outside.")
]
Ridge = Annotated[float | None, typer.Option(help="Penalty on the faces.")]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds at most.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of a stochastic solver.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Another parameter of the method, as NAME=VALUE; may be given again."),
]
Target = Annotated[str | None, typer.Option(help="Label column of a CSV file: name, or place from 0.")]
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
OverwriteInput = Annotated[
    bool, typer.Option("--overwrite-input", help="Let the output replace a file that is read.")
]
Large = Annotated[
    bool, typer.Option("--large", help="Go on although the data would take very long or much memory.")
]


_KERNELS = ("linear", "rbf", "poly", "sigmoid")


class Solver(StrEnum):
    """Which solver: by size, the explicit program, or the fast one."""

    AUTO = "auto"
    EXACT = "exact"
    FAST = "fast"

    def of(self, method: Method) -> str:
        """What the method's estimator calls it."""
        return method.fast if self is Solver.FAST else self.value


def check_settings(method: Method, others: list[str] | None = None, **given: Any) -> dict[str, Any]:
    """The settings that were given, if the method has them.

    Parameters
    ----------
    method : Method
        The method.
    others : list of str, optional
        Settings without an option of their own, each as ``"name=value"``.
    **given
        The others; None for those that were not given.

    Raises
    ------
    ValueError
        One that the method does not have; the message names those that do.
    """
    from polyopt.methods import METHODS

    settings = {name: value for name, value in given.items() if value is not None}
    with answering_for(method):
        known = _parameters(method)
    for name in settings:
        if name not in known:
            having = [m.name for m in METHODS.values() if m.name in BUILT_IN and name in _parameters(m)]
            option = "--faces" if name == "n_faces" else f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} is not a setting of {method.name}; it is one of {', '.join(having)}")
    for text in others or ():
        name, value = _parsed(text)
        if name not in known:
            raise ValueError(f"--set: {method.name} has no setting {name!r}; it has {', '.join(known)}")
        settings[name] = value
    if settings.get("kernel", "linear") not in _KERNELS:
        raise ValueError(f"--kernel must be one of {', '.join(_KERNELS)}, not {settings['kernel']!r}")
    gamma = settings.get("gamma")
    if gamma is not None and gamma not in ("scale", "auto"):
        try:
            settings["gamma"] = float(gamma)
        except ValueError:
            raise ValueError(f"--gamma must be scale, auto or a number, not {gamma!r}") from None
    return settings


_LIMITS = ("solver", "time_limit", "random_state")  # these have options of their own


def _parameters(method: Method) -> list[str]:
    """The parameters of a method's estimator that are settings."""
    import inspect

    return [name for name in inspect.signature(method.estimator_class).parameters if name not in _LIMITS]


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
