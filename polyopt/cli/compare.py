"""``polyopt compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyopt.cli import settings as options

if TYPE_CHECKING:
    from polyopt.compare.comparison import Comparison


def compare(
    data: Annotated[
        list[str] | None,
        typer.Option(help="Name of a data set, or path of a CSV or svmlight file; may be given again."),
    ] = None,
    methods: Annotated[
        str | None, typer.Option("--methods", "--method", help="Methods, separated by commas.")
    ] = None,
    prove: Annotated[
        bool,
        typer.Option(
            "--global",
            help="Also prove the optimum where the others prove less (of a polytope, over all assignments).",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits and of the stochastic solvers.")] = 0,
    time_limit: Annotated[float | None, typer.Option(help="Seconds at most for each fit.")] = None,
    target: options.Target = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print the rows as CSV.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    report: Annotated[Path | None, typer.Option(help="Also write one self-contained HTML page.")] = None,
    separator: options.Separator = None, decimal: options.Decimal = ".",
    categorical: options.Categorical = None, impute: options.Impute = None,
    large: options.Large = False, overwrite_input: options.OverwriteInput = False,
) -> None:  # fmt: skip
    """Solve each method exactly and fast, and certify both.

    Prints, for each method and solver, objective, proven bound, gap, worst residual of the optimality
    conditions and its row, support vectors or faces, test error and seconds. With --global a third row of
    each method that has a solver that proves more, such as branch and bound over all assignments of a
    polytope. Ctrl-C prints what is done.
    """
    from polyopt.cli.console import progress, say
    from polyopt.cli.data import Form, load_data
    from polyopt.compare import DEFAULT_DATA, PROVABLE_DATA, find_method
    from polyopt.compare import compare as run
    from polyopt.files import check_target

    if csv and json:
        raise ValueError("--csv and --json exclude each other: one of them goes to standard output")
    check_target(report, "--report", inputs=data or (), replace_input=overwrite_input)
    chosen = _chosen(methods, prove)
    form = Form(separator, decimal, categorical, impute, large)
    datasets = [load_data(text, target, form) for text in data or (PROVABLE_DATA if prove else DEFAULT_DATA)]
    fits = sum(len(find_method(name).solvers(prove)) for name in set(chosen))
    with progress(fits * len(datasets)) as step:

        def starting(data: str, method: str, solver: str) -> None:
            step(f"{method} {solver} on {data}" if data else f"{solver} {method}", 0)

        found = run(
            datasets, chosen, seed=seed, time_limit=time_limit, prove=prove,
            on_start=starting, on_row=lambda row: step("", 1),
        )  # fmt: skip
    _show(found, csv, json)
    if found.interrupted:
        raise typer.Exit(130)
    if report is not None:
        from polyopt.report import write_report

        with progress(len({(row.data, row.method) for row in found.rows})) as step:
            write_report(found, report, on_step=lambda text: step(text, 1))
        say(f"report: {report}")


def _chosen(methods: str | None, prove: bool) -> list[str]:
    """The names of the methods to compare."""
    from polyopt.compare import DEFAULT_METHODS, METHODS, find_method

    usual = [name for name in DEFAULT_METHODS if METHODS[name].proving or not prove]
    chosen = [find_method(name).name for name in (methods.split(",") if methods is not None else usual)]
    if prove and not any(find_method(name).proving for name in chosen):
        able = ", ".join(method.name for method in METHODS.values() if method.proving)
        raise ValueError(f"--global is for {able}; of {', '.join(chosen)} the exact solution is the optimum")
    return chosen


def _show(found: Comparison, csv: bool, json: bool) -> None:
    """Print the comparison in the form asked for."""
    from polyopt.cli.console import emit, output

    if json:
        import json as writer

        emit(writer.dumps(found.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    elif csv:
        emit(found.to_frame().to_csv(index=False, lineterminator="\n"))
    else:
        output().print(found)
