"""``polyopt compare``."""

from pathlib import Path
from typing import Annotated

from typer import Option

from polyopt.base.files import check_target
from polyopt.cli import options
from polyopt.cli.console import (
    emit,
    end_if_stopped,
    is_replaced,
    output,
    progress,
    raise_if_stopped,
    say,
    tell,
)
from polyopt.cli.data import Form, check_data, check_faces, check_read_once, load_data
from polyopt.methods.registry import DEFAULT_METHODS, METHODS, find_method, for_kernel

_Data = Annotated[
    list[str] | None,
    Option(help="Name of a data set, or path of a CSV or svmlight file; may be given again."),
]
_Methods = Annotated[str | None, Option("--methods", "--method", help="Methods, separated by commas.")]
_Prove = Annotated[
    bool,
    Option("--global",
           help="Also prove the optimum where the others prove less (of a polytope, over all assignments)."),
]  # fmt: skip


def compare(
    data: _Data = None,
    methods: _Methods = None,
    prove: _Prove = False,
    C: options.C = None, B: options.B = None, D: options.D = None, faces: options.Faces = None,
    kernel: options.Kernel = None, gamma: options.Gamma = None,
    others: options.Set = None,
    seed: Annotated[int, Option(min=0, help="Seed of the split, and of the solvers.")] = 0,
    time_limit: Annotated[float | None, Option(help="Seconds at most for each fit.")] = None,
    target: options.Target = None,
    csv: Annotated[bool, Option("--csv", help="Print the rows as CSV.")] = False,
    report: Annotated[Path | None, Option(help="Also write one self-contained HTML page.")] = None,
    separator: options.Separator = None, decimal: options.Decimal = ".",
    categorical: options.Categorical = None, impute: options.Impute = None,
    large: options.Large = False, force: options.Force = False, quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Solve each method exactly and fast, and certify both.

    Prints, for each method and solver, objective, proven bound, gap, worst residual of the optimality
    conditions and its row, support vectors or faces, test error and seconds. With --global further rows of
    each method that has a solver that proves more, such as branch and bound over all assignments of a
    polytope, and how far each solver ended from that bound; the report draws the gap against time. Ctrl-C
    prints what is done, and writes it to the report; to one that is there only with --force.

    A setting is for the methods that have it.
    """
    check_target(report, "--report", inputs=data or (), replace_input=force, is_alone=False)
    given = options.read_settings(others, C=C, B=B, D=D, n_faces=faces, kernel=kernel, gamma=gamma)
    default = [name for name in DEFAULT_METHODS if METHODS[name].proving or not prove]
    entries = [find_method(name) for name in (methods.split(",") if methods is not None else default)]
    chosen = [entry.name for entry in entries]
    if prove and not any(entry.proving for entry in entries):
        able = ", ".join(method.name for method in METHODS.values() if method.proving)
        raise ValueError(f"--global is for {able}; of {', '.join(chosen)} the exact solution is the optimum")
    form = Form(separator, decimal, categorical, impute, large)
    check_read_once(data or ())
    for text in data or ():
        check_data(text, target, form)

    # What is imported from here on takes seconds, and is imported only when paths and options are right.
    from polyopt.compare import DEFAULT_DATA, PROVABLE_DATA
    from polyopt.compare import compare as run

    names = data or (PROVABLE_DATA if prove else DEFAULT_DATA)
    machines = [for_kernel(entry, given.get("kernel")) for entry in entries]
    given = options.check_settings(machines, given, others)
    datasets = [load_data(text, target, form) for text in names]
    for dataset in datasets:
        check_faces(dataset, given, large)
    raise_if_stopped()
    with progress("", quiet):
        comparison = run(datasets, chosen, settings=given, seed=seed, time_limit=time_limit, prove=prove)
    tell("what was done by then is printed")
    if csv:
        emit(comparison.to_frame().to_csv(index=False, lineterminator="\n"))
    else:
        output().print(comparison)
    if report is not None and (not comparison.interrupted or is_replaced(report, force)):
        from polyopt.report import write_report

        tell(f"the comparison is printed, but not written to {report}")
        with progress("", quiet):
            write_report(comparison, report)
        tell(f"what was done by then is kept in {report}")
        say(f"report: {report}")
    end_if_stopped(comparison.interrupted)
