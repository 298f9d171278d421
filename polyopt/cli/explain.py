"""``polyopt explain``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyopt.base.text import visible
from polyopt.cli import settings as options
from polyopt.cli.console import emit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.explanations import SampleExplanation, Subject

    Array = NDArray[Any]


def explain(
    model: Annotated[Path, typer.Argument(help="A polytope machine that 'polyopt fit' saved.")],
    data: Annotated[
        str, typer.Argument(help="CSV or svmlight file, with or without labels, or name of a data set.")
    ],
    row: Annotated[
        int | None, typer.Option(min=0, help="Explain this row of the data, counted from 0, not the model.")
    ] = None,
    hold: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A column that may not change; may be given again."),
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Columns to show: 5 of a row, 8 of the model by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON instead.")] = False,
    report: Annotated[
        Path | None, typer.Option(help="Write it as a page, too, with the faces drawn.")
    ] = None,
    by_position: options.ByPosition = False,
    separator: options.Separator = None,
    decimal: options.Decimal = ".",
    force: options.Force = False,
) -> None:
    """Say what a polytope machine goes by, or why a row has its label and what would change it.

    Of the model: which columns count, and what each face catches that no other does. Of a row (--row): the
    face that answers for it, what its columns add, and the nearest point that has the other label.
    """
    import json

    from polyopt.base.files import check_is_file, check_target
    from polyopt.cli.data import check_data

    if row is None and hold:
        raise ValueError("--hold is about a row: say which by --row")
    check_is_file(model, "model")
    check_data(data)
    check_target(report, "--report", inputs=(model, data), replace_input=force)

    from polyopt.explanations import explain_model  # takes seconds, and so only when the paths are right

    subject, X, y = _read(model, data, (separator, decimal), by_position)
    if not len(X):
        raise ValueError(f"{data} has no rows")
    one = None if row is None else _explain_row(subject, X, row, hold or [], top or 5)
    whole = explain_model(subject, X, y, top=top or 8) if one is None or report is not None else None
    found = one or whole
    assert found is not None
    emit(json.dumps(found.to_dict(), indent=2, allow_nan=False) + "\n" if as_json else f"{found.text()}\n")
    if report is not None:
        from polyopt.report import write_explanation

        assert whole is not None
        write_explanation(whole, report, title=f"polyopt: {model.name} explained on {data}", sample=one)


def _read(
    model: Path, data: str, form: tuple[str | None, str], by_position: bool
) -> tuple[Subject, Array, Array | None]:
    """Return the subject of the explanation, the features of the data, and their labels if there are any."""
    from polyopt.cli.data import Form
    from polyopt.cli.deferred import load_saved
    from polyopt.cli.predict import read_rows

    found = load_saved(model)
    from polyopt.models.explained import features_of_table, subject_of

    try:
        subject = subject_of(found)
    except ValueError as error:
        raise ValueError(f"{model}: {error}") from None
    X, y = read_rows(found, data, Form(*form), by_position)
    return subject, features_of_table(found, X), y


def _explain_row(subject: Subject, X: Array, row: int, hold: list[str], top: int) -> SampleExplanation:
    from polyopt.explanations import explain_sample

    if row >= len(X):
        raise ValueError(f"--row {row}: the data have {len(X)} rows, counted from 0")
    names = [column.name for column in subject.columns]
    for name in hold:
        if name not in names:
            shown = ", ".join(visible(each) for each in names[:8])
            more = f" and {len(names) - 8} more" if len(names) > 8 else ""
            raise ValueError(f"--hold {visible(name)}: no such column; there are {shown}{more}")
    return explain_sample(subject, X[row], held=hold, top=top, data=X)
