"""Options shared by commands, and the settings of methods among them."""

import ast
import dataclasses
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal

from typer import Option

from polyopt.methods import METHODS, Method
from polyopt.methods.registry import BUILT_IN, answering_for

MethodName = Annotated[
    str, Option("--method", help=f"One of {', '.join(BUILT_IN)}, or a method of another package.")
]
C = Annotated[float | None, Option("--C", help="Cost of a unit of slack.")]
B = Annotated[float | None, Option("--B", help="Bound on the outputs; the method chooses one by default.")]
D = Annotated[float | None, Option("--D", help="Share of the output variance, 0 to 1.")]
Kernel = Annotated[Literal["linear", "rbf", "poly", "sigmoid"] | None, Option(help="Kernel.")]
Gamma = Annotated[
    str | None,
    Option(help="Kernel coefficient: scale, auto or a number; of a gate between faces, its sharpness."),
]
Faces = Annotated[int | None, Option("--faces", help="Faces of the polytope.")]
Numbers = Annotated[
    int | None,
    Option(min=1, help="Search logistic polytopes of so many weights, biases and knots."),
]
TimeLimit = Annotated[float | None, Option(help="Seconds at most.")]
Seed = Annotated[int, Option(min=0, help="Seed of a stochastic solver.")]
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE",
           help="Another parameter of the estimator, such as degree=2; may be given again. "
                "A name that it does not have lists those it has."),
]  # fmt: skip
Quiet = Annotated[bool, Option("--quiet", "-q", help="Show no progress.")]
Target = Annotated[str | None, Option(help="Label column of a CSV file: name, or place from 0.")]
ByPosition = Annotated[bool, Option("--by-position", help="Take the columns in order, whatever their names.")]
Separator = Annotated[
    str | None,
    Option(help="What separates cells: comma, semicolon, tab, space or a character; found by default."),
]
Decimal = Annotated[str, Option(help="Decimal mark: a point, or a comma.")]
Categorical = Annotated[
    str | None,
    Option(help="Columns of text to make indicators of: all, or names or places with commas between."),
]
Impute = Annotated[
    Literal["median", "most-frequent"] | None, Option(help="Fill missing values by this value of the column.")
]
Force = Annotated[
    bool, Option("--force", help="Let the output replace a file that is read and, after Ctrl-C, any other.")
]
Large = Annotated[
    bool, Option("--large", help="Go on although the data would take very long or much memory.")
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
    """Return the given settings as parameters of an estimator.

    `others` are without an option of their own, each as ``"name=value"``; of the rest None is not given.
    """
    settings = {name: value for name, value in given.items() if value is not None}
    for name, value in map(_parsed, others or ()):
        if name in _OWN:
            raise ValueError(f"--set: {name} has an option of its own, {_OWN[name]}")
        settings[name] = value
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
    """Return the settings, those by ``--set`` in `others` among them, or refuse one that no method has."""
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
    """Return a setting that is a dataclass, such as the options of a search, with one field changed."""
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
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"--set takes NAME=VALUE, not {text!r}")
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (SyntaxError, ValueError):
        return name.strip(), value.strip()
