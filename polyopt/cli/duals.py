"""``polyopt duals``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from polyopt.base.table import Column, terminal_table
from polyopt.base.text import visible
from polyopt.cli import options
from polyopt.cli.console import emit, end_if_stopped, output, progress, raise_if_stopped, say
from polyopt.cli.data import Form, check_data, load_prepared
from polyopt.methods import Method
from polyopt.methods.registry import DEFAULT_METHOD, answering_for, find_method, for_kernel

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from formulations.language.program import Row

_COLUMNS = ("pair", "row", "letter", "sample", "face", "feature", "label", "multiplier", "state")
_NUMBERS = ("sample", "face", "multiplier", "value", "p", "slope", "elasticity")


def duals(
    method: options.MethodName = DEFAULT_METHOD,
    data: Annotated[str, Option(help="Name of a data set, or path of a file.")] = "ionosphere",
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
    from polyopt.compare.data import scaler_for
    from polyopt.compare.run import settings_text
    from polyopt.estimators.status import status_of
    from polyopt.sensitivity import sensitivities

    given = options.check_settings([entry], given, others)
    _, dataset, _ = load_prepared(data, target, form, given)
    X = scaler_for(dataset.X, dataset.feature_names).transform(dataset.X)
    shown_progress = progress(f"{entry.name} on {dataset.name}", quiet)
    raise_if_stopped()
    with answering_for(entry), shown_progress:
        settings = entry.settings_for(X, dataset.y, **given)
        estimator = entry.make(named, settings, time_limit=time_limit, seed=seed).fit(X, dataset.y)
        frame = estimator.duals_
    end_if_stopped(status_of(estimator) is Status.INTERRUPTED)
    rows = _rows_of(entry, settings, frame, named)
    frame = _sorted(frame, list(rows), entry.leftovers)
    if csv:
        meanings = frame["letter"].map({letter: row.meaning for letter, row in rows.items()})
        emit(frame.assign(meaning=meanings).to_csv(index=False, lineterminator="\n"))
        return
    console = output()
    title = f"{entry.title_for(settings)} on {dataset.name} ({settings_text(settings)})"
    console.print(f"{title}, all rows, features scaled.\n")
    largest = float(frame["multiplier"].abs().max())
    for letter in dict.fromkeys(frame["letter"]):
        _print_letter(console, frame[frame["letter"] == letter], rows[letter], top, 1e-6 * largest)
    if entry.slopes:
        _print_sensitivities(console, sensitivities(estimator))
    with answering_for(entry):
        certificate = estimator.certificate()
    say(certificate.sentence)


def _rows_of(method: Method, settings: dict[str, Any], frame: pd.DataFrame, solver: str) -> dict[str, Row]:
    """Return the row of each letter, in the order of the program whose multipliers these are."""
    from formulations.cpm_sparse import penalty_rows
    from polyopt.methods.programs import find_programs

    if frame["multiplier"].isna().any():
        raise ValueError(f"the solver {solver!r} of {method.name} has no multipliers; take --solver exact")
    program = find_programs(method.duals_of or method.programs_for(settings)[0])[0]
    rows = {row.multiplier: row for row in program.rows}
    if "feature" in frame:  # the machine has a penalty or signs of weights
        present = set(frame["letter"])
        rows |= {row.multiplier: row for row in penalty_rows() if row.multiplier in present}
    if foreign := sorted(set(frame["letter"]) - set(rows)):
        raise ValueError(f"{program.name} has no row whose multiplier is {', '.join(map(repr, foreign))}")
    return rows


def _sorted(frame: pd.DataFrame, letters: list[str], leftovers: tuple[str, ...]) -> pd.DataFrame:
    """Sort by letter in the program's order, leftovers last, then by absolute value, largest first."""
    order = {letter: i for i, letter in enumerate(sorted(letters, key=leftovers.__contains__))}
    sizes = frame["multiplier"].abs()
    # Rounded, so that samples at the same bound stay in input order.
    rounded = -(sizes / max(float(sizes.max()), 1e-300)).round(9)
    keyed = frame.assign(_letter=frame["letter"].map(order), _size=rounded)
    return keyed.sort_values(["_letter", "_size"], kind="stable").drop(columns=["_letter", "_size"])


def _print_letter(console: Console, frame: pd.DataFrame, row: Row, top: int, small: float) -> None:
    """Print a letter: its row and meaning, its largest multipliers, and how many there are."""
    from rich.text import Text

    nonzero = frame[frame["multiplier"].abs() > small]
    console.print(Text(f"{row.multiplier}   {row.text}", style="bold"))
    console.print(Text(row.meaning))
    if not len(nonzero):
        console.print(f"None of the {len(frame)} is above zero.")
    else:
        total = float(nonzero["multiplier"].sum())
        relation = "not zero" if (nonzero["multiplier"] < 0).any() else "above zero"
        console.print(f"{len(nonzero)} of {len(frame)} are {relation}; they add up to {total:.6g}.")
        # A penalty on a weight has a feature and no sample, another row a sample and no feature.
        is_penalty = "feature" in frame and (frame["sample"] == -1).all()
        absent = ("sample", "label") if is_penalty else ("feature",)
        _print_frame(console, nonzero.head(top)[[c for c in _COLUMNS if c in frame and c not in absent]])
    if len(nonzero) > top:
        more = f"... and {len(nonzero) - top} more: --top {len(nonzero)}, or --csv for all"
        console.print(more, style="dim")
    console.print()


def _print_frame(console: Console, frame: pd.DataFrame, wrapped: str = "") -> None:
    """Print a frame as a table, in which one column may be wrapped if the terminal is narrow."""
    from polyopt.compare.tables import number

    def cell(name: str) -> Callable[[dict[Any, Any]], str]:
        return lambda row: number(row[name]) if isinstance(row[name], float) else visible(str(row[name]))

    columns = [
        Column(name, cell(name), name not in _NUMBERS, overflow="wrap" if name == wrapped else "")
        for name in map(str, frame)
    ]
    rows: list[dict[Any, Any]] = frame.to_dict("records")
    console.print(terminal_table(columns, rows, console.width, title=""))


def _print_sensitivities(console: Console, frame: pd.DataFrame) -> None:
    """Print the slopes of the optimal value, a row for each parameter."""
    from rich.text import Text

    console.print(Text("How the optimal value p moves with its parameters", style="bold"))
    console.print("From these multipliers; elasticity is the percent of p for one percent of the parameter.")
    keys = [name for name in ("pair", "outside") if name in frame]
    numbers = frame[["value", "objective", "derivative", "elasticity"]].astype(float)
    shown = frame[[*keys, "parameter"]].join(numbers.set_axis(["value", "p", "slope", "elasticity"], axis=1))
    shown["from"] = frame["formula"]
    shown[""] = frame["two_sided"].map({True: "", False: "may differ between its two sides"})
    _print_frame(console, shown, wrapped="from")
    console.print()
