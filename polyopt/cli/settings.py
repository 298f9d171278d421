"""The settings of a method as options, shared by ``fit`` and ``duals``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from polyopt.compare import Method

__all__ = [
    "B",
    "C",
    "D",
    "DoubleSided",
    "Faces",
    "Gamma",
    "Kernel",
    "MethodName",
    "Perplexity",
    "Ridge",
    "Seed",
    "Solver",
    "Target",
    "TimeLimit",
    "check_settings",
]

MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        help="svm, sigma-svm, rmm, one-norm-svm, ce-svm (also with -rbf), cpm, polyceptron, spla1, pc-slp or "
        "plume.",
    ),
]
C = Annotated[float | None, typer.Option("--C", help="Cost of a unit of slack.")]
B = Annotated[
    float | None, typer.Option("--B", help="Bound on the outputs (rmm); by default half-way to the SVM.")
]
D = Annotated[float | None, typer.Option("--D", help="Share of the output variance (sigma-svm), 0 to 1.")]
Kernel = Annotated[str | None, typer.Option(help="linear, rbf, poly or sigmoid.")]
Gamma = Annotated[
    str | None,
    typer.Option(help="Kernel coefficient: scale, auto or a number; sharpness of the gate (plume)."),
]
Faces = Annotated[
    int | None,
    typer.Option("--faces", help="Faces of the polytope (cpm, polyceptron, spla1, pc-slp, plume)."),
]
Perplexity = Annotated[
    float | None, typer.Option(help="Least effective number of faces in use (cpm), 1 to the faces.")
]
DoubleSided = Annotated[
    bool | None, typer.Option("--double-sided", help="A polytope with each class outside (cpm).")
]
Ridge = Annotated[float | None, typer.Option(help="Penalty on the faces (spla1, plume).")]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds at most.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of a stochastic solver.")]
Target = Annotated[str | None, typer.Option(help="Label column of a CSV file: name, or place from 0.")]


_KERNELS = ("linear", "rbf", "poly", "sigmoid")


class Solver(StrEnum):
    """Which solver: by size, the explicit program, or the fast one."""

    AUTO = "auto"
    EXACT = "exact"
    FAST = "fast"

    def of(self, method: Method) -> str:
        """What the method's estimator calls it."""
        return method.fast if self is Solver.FAST else self.value


def check_settings(method: Method, **given: Any) -> dict[str, Any]:
    """The settings that were given, if the method has them.

    Raises
    ------
    ValueError
        One that the method does not have; the message names those that do.
    """
    import inspect

    from polyopt.compare import METHODS

    settings = {name: value for name, value in given.items() if value is not None}
    for name in settings:
        having = [m.name for m in METHODS.values() if name in inspect.signature(m.estimator_class).parameters]
        if method.name not in having:
            option = "--faces" if name == "n_faces" else f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} is not a setting of {method.name}; it is one of {', '.join(having)}")
    if settings.get("kernel", "linear") not in _KERNELS:
        raise ValueError(f"--kernel must be one of {', '.join(_KERNELS)}, not {settings['kernel']!r}")
    gamma = settings.get("gamma")
    if gamma is not None and gamma not in ("scale", "auto"):
        try:
            settings["gamma"] = float(gamma)
        except ValueError:
            raise ValueError(f"--gamma must be scale, auto or a number, not {gamma!r}") from None
    return settings
