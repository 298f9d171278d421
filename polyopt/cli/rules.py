"""``polyopt rules``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def rules(
    model: Annotated[Path, typer.Argument(help="A polytope machine that 'polyopt fit' saved.")],
    digits: Annotated[int, typer.Option(min=1, help="Significant digits of the numbers.")] = 3,
    terms: Annotated[int | None, typer.Option(min=1, help="Terms of each face; all by default.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print the faces as CSV instead.")] = False,
) -> None:
    """Print the faces of a learnt polytope as rules, in the units of the data they were learnt from."""
    from polyopt.cli.console import emit, visible
    from polyopt.cli.model import load_model
    from polyopt.methods import METHODS, find_method
    from polyopt.polytope import Polytope

    found = load_model(model)
    machine = found.estimator
    if not find_method(found.method).has_faces:
        having = ", ".join(method.name for method in METHODS.values() if method.has_faces)
        raise ValueError(f"{model} is a model of {found.method}; rules are of a polytope, --method {having}")
    if not hasattr(machine, "W_") and not hasattr(machine, "sides_"):
        raise ValueError(f"{model} has {len(machine.classes_)} classes, and so no polytope of its own")
    for one in getattr(machine, "sides_", (machine,)):
        names = None if found.names is None else tuple(map(visible, found.names))
        W, b = one.polytope_.W, one.polytope_.b
        if found.scaler is None:
            polytope = Polytope(W, b, names)
        else:
            polytope = Polytope.from_scaler(W, b, found.scaler, names)
        if csv:
            emit(polytope.to_frame().to_csv(lineterminator="\n"))
            continue
        inside, outside = visible(str(one.inside_label_)), visible(str(one.outer_label_))
        text = polytope.rules(digits, max_terms=terms, inside=inside, outside=outside)
        emit(f"{text}\n\n")
