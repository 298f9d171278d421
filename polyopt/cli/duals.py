"""``polyopt duals``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from polyopt.base.text import visible
from polyopt.cli import options
from polyopt.cli.console import (
    emit,
    end_if_stopped,
    output,
    progress,
    raise_if_stopped,
    say,
    warnings_as_sentences,
)
from polyopt.cli.data import Form, check_data, check_faces, load_data
from polyopt.cli.options import complete_data
from polyopt.methods import Method
from polyopt.methods.registry import DEFAULT_METHOD, answering_for, find_method, for_kernel

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from formulations.language.program import Row

_COLUMNS = ("pair", "row", "letter", "sample", "face", "feature", "label", "multiplier", "state")


def duals(
    method: options.MethodName = DEFAULT_METHOD,
    data: Annotated[
        str, Option(help="Name of a data set, or path of a file.", autocompletion=complete_data)
    ] = "ionosphere",
    top: Annotated[int, Option(min=1, help="Rows to print of each letter.")] = 10,
    csv: Annotated[bool, Option("--csv", help="Print all rows as CSV.")] = False,
    solver: Annotated[options.Solver, Option(help="Which solver.")] = options.Solver.EXACT,
    C: options.C = None, B: options.B = None, D: options.D = None, faces: options.Faces = None,
    kernel: options.Kernel = None, gamma: options.Gamma = None,
    others: options.Set = None, target: options.Target = None, seed: options.Seed = 0,
    time_limit: options.TimeLimit = None, separator: options.Separator = None,
    decimal: options.Decimal = ".", categorical: options.Categorical = None, impute: options.Impute = None,
    large: options.Large = False, quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Print the multipliers, largest first, what they mean, and how the optimum moves with the parameters.

    The method is fitted to all rows of the data, with scaled features.
    """
    given = options.read_settings(others, C=C, B=B, D=D, n_faces=faces, kernel=kernel, gamma=gamma)
    entry = for_kernel(find_method(method), given.get("kernel"))
    named = solver.of(entry)
    form = Form(separator, decimal, categorical, impute, large)
    check_data(data, target, form)

    # What is imported from here on takes seconds, and is imported only when paths and options are right.
    from formulations.language.solution import Status
    from polyopt.compare.data import check_dataset, scaler_for
    from polyopt.compare.run import settings_text
    from polyopt.datasets import fit_preparation
    from polyopt.estimators.status import status_of
    from polyopt.sensitivity import sensitivities

    given = options.check_settings([entry], given, others)
    found = load_data(data, target, form)
    check_dataset(found)
    check_faces(found, given, large)
    found, _ = fit_preparation(found)
    X = scaler_for(found.X, found.feature_names).transform(found.X)
    drawn = progress(f"{entry.name} on {found.name}", quiet)
    raise_if_stopped()
    with warnings_as_sentences(), answering_for(entry), drawn:
        settings = entry.settings_for(X, found.y, **given)
        estimator = entry.make(named, settings, time_limit=time_limit, seed=seed).fit(X, found.y)
        frame = estimator.duals_
    end_if_stopped(status_of(estimator) is Status.INTERRUPTED)
    rows = _rows_of(entry, settings, frame, named)
    frame = _sorted(frame, list(rows), entry.leftovers)
    if csv:
        meanings = frame["letter"].map({letter: row.meaning for letter, row in rows.items()})
        emit(frame.assign(meaning=meanings).to_csv(index=False, lineterminator="\n"))
        return
    console = output()
    title = f"{entry.title_for(settings)} on {found.name} ({settings_text(settings)})"
    console.print(f"{title}, all rows, features scaled.\n")
    largest = float(frame["multiplier"].abs().max())
    for letter in dict.fromkeys(frame["letter"]):
        _print_letter(console, frame[frame["letter"] == letter], rows[letter], top, 1e-6 * largest)
    if entry.slopes:
        with warnings_as_sentences():
            _print_sensitivities(console, sensitivities(estimator))
    with answering_for(entry):
        certificate = estimator.certificate()
    say(certificate.sentence)


def _rows_of(method: Method, settings: dict[str, Any], frame: pd.DataFrame, solver: str) -> dict[str, Row]:
    """Return the row of each letter, in the order of the program whose multipliers these are."""
    from formulations.cpm_sparse import rows_of_prices
    from polyopt.methods.programs import find_programs

    if frame["multiplier"].isna().any():
        raise ValueError(f"the solver {solver!r} of {method.name} has no multipliers; take --solver exact")
    program = find_programs(method.duals_of or method.programs_for(settings)[0])[0]
    rows = {row.multiplier: row for row in program.rows}
    if "feature" in frame:  # prices and signs of weights, which a machine has where they are asked
        present = set(frame["letter"])
        rows |= {row.multiplier: row for row in rows_of_prices() if row.multiplier in present}
    if foreign := sorted(set(frame["letter"]) - set(rows)):
        raise ValueError(f"{program.name} has no row whose multiplier is {', '.join(map(repr, foreign))}")
    return rows


def _sorted(frame: pd.DataFrame, letters: list[str], leftovers: tuple[str, ...]) -> pd.DataFrame:
    """Letters in the program's order, leftovers last; within a letter, largest first, of either sign."""
    order = {letter: i for i, letter in enumerate(sorted(letters, key=lambda one: one in leftovers))}
    sizes = frame["multiplier"].abs()
    # Rounded, so that samples at the same bound stay in input order.
    rounded = -(sizes / max(float(sizes.max()), 1e-300)).round(9)
    keyed = frame.assign(_letter=frame["letter"].map(order), _size=rounded)
    return keyed.sort_values(["_letter", "_size"], kind="stable").drop(columns=["_letter", "_size"])


def _print_letter(console: Console, frame: pd.DataFrame, row: Row, top: int, small: float) -> None:
    """One letter: its row and its meaning, its largest multipliers, and how many there are."""
    from rich.table import Table
    from rich.text import Text

    from polyopt.compare.tables import number

    held = frame[frame["multiplier"].abs() > small]
    signed = bool((held["multiplier"] < 0).any())
    console.print(Text(f"{row.multiplier}   {row.text}", style="bold"))
    console.print(Text(row.meaning))
    if not len(held):
        console.print(f"None of the {len(frame)} is above zero.")
    else:
        total = float(held["multiplier"].sum())
        where = "not zero" if signed else "above zero"
        console.print(f"{len(held)} of {len(frame)} are {where}; they add up to {total:.6g}.")
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        # A price has features and no samples, the other rows the other way round.
        priced = "feature" in frame and (frame["sample"] == -1).all()
        absent = ("sample", "label") if priced else ("feature",)
        shown = [name for name in _COLUMNS if name in frame and name not in absent]
        for name in shown:
            justify: Any = "right" if name in ("sample", "face", "multiplier") else "left"
            table.add_column(name, justify=justify, no_wrap=True)
        for values in held.head(top)[shown].itertuples(index=False):
            table.add_row(*(number(v) if isinstance(v, float) else visible(str(v)) for v in values))
        console.print(table)
    if len(held) > top:
        console.print(f"... and {len(held) - top} more: --top {len(held)}, or --csv for all", style="dim")
    console.print()


def _print_sensitivities(console: Console, frame: pd.DataFrame) -> None:
    """Slopes of the optimal value, a row for each parameter."""
    from rich.table import Table
    from rich.text import Text

    from polyopt.compare.tables import number

    console.print(Text("How the optimal value p moves with its parameters", style="bold"))
    console.print("From these multipliers; elasticity is the percent of p for one percent of the parameter.")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    keys = [name for name in ("pair", "outside") if name in frame]
    for name in (*keys, "parameter", "value", "p", "slope", "elasticity", "from", ""):
        numeric = name in ("value", "p", "slope", "elasticity")
        # In a narrow terminal words are broken, numbers are not cut.
        table.add_column(name, justify="right" if numeric else "left", no_wrap=numeric)
    for row in frame.to_dict("records"):
        numbers = (number(float(row[name])) for name in ("value", "objective", "derivative", "elasticity"))
        side, shown = (
            "" if row["two_sided"] else "may differ between its two sides",
            [row[key] for key in keys],
        )
        table.add_row(*map(visible, shown), row["parameter"], *numbers, row["formula"], side)
    console.print(table)
    console.print()
