"""``polyopt rules``."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyopt.base.text import visible
from polyopt.cli import settings as options
from polyopt.cli.console import emit

if TYPE_CHECKING:
    from polyopt.cli.data import Form
    from polyopt.models.model import Model
    from polyopt.models.rules import Rules

_DIGITS = 3  # of numbers for people


class Output(StrEnum):
    """For whom the rules are."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    SQL = "sql"
    PYTHON = "python"
    CSV = "csv"


_COMMENTS = {Output.SQL: "-- ", Output.PYTHON: "# "}


def rules(
    model: Annotated[Path, typer.Argument(help="A polytope machine that 'polyopt fit' saved.")],
    digits: Annotated[
        int | None,
        typer.Option(min=1, help=f"Significant digits; {_DIGITS} in text and Markdown, else all by default."),
    ] = None,
    terms: Annotated[int | None, typer.Option(min=1, help="Terms of each face; all by default.")] = None,
    fidelity: Annotated[
        float | None,
        typer.Option(help="Take the fewest terms of each face that agree on this share of --data."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="File or data set on which rules and model are compared.")
    ] = None,
    form: Annotated[Output, typer.Option("--format", help="What the rules are printed as.")] = Output.TEXT,
    separator: options.Separator = None,
    decimal: options.Decimal = ".",
) -> None:
    """Print the faces of a learnt polytope as rules, in the units of the data they were learnt from.

    With --data it says how often the rules as they are printed agree with the model. The terms kept of a face
    are its largest, coefficient times the feature's spread; the others are put at their typical values.
    """
    from polyopt.base.files import check_is_file
    from polyopt.cli.data import Form, check_data
    from polyopt.cli.deferred import load_saved

    if fidelity is not None and (terms is not None or data is None):
        raise ValueError("--fidelity finds the number of terms on --data: give that, and no --terms")
    check_is_file(model, "model")
    if data is not None:
        check_data(data)
    found, is_for_people = load_saved(model), form in (Output.TEXT, Output.MARKDOWN)
    digits = _DIGITS if digits is None and is_for_people else digits
    from polyopt.models.rules import Rules

    try:
        whole = Rules.of(found, visible if is_for_people else str)
    except ValueError as error:
        raise ValueError(f"{model}: {error}") from None
    parts = [] if data is None else _parts(found, data, Form(separator, decimal))
    if fidelity is not None:
        terms = whole.fewest_terms(parts[0][1], fidelity, digits)
    short = whole.shortened(digits, terms)
    remarks = _cost(short, whole, terms, fidelity, digits, parts)
    if form is Output.JSON:
        _print_json(short, terms, parts, remarks)
    elif is_for_people:
        _print_text(whole, form, digits or _DIGITS, terms, remarks)
    else:
        _print_code(short, form, remarks)


def _parts(model: Model, data: str, form: Form) -> list[tuple[str, Any]]:
    """Return names and features of the data, training and test part apart if published so."""
    from polyopt.cli.data import load_data
    from polyopt.cli.predict import read_rows
    from polyopt.datasets import names

    X, _ = read_rows(model, data, form, False)
    is_named = data in names() and not Path(data).is_file()
    found = load_data(data) if is_named else None  # a pipe can be read but once
    if found is None or found.X_test is None:
        return [(f"{X.shape[0]} samples of {visible(data)}", X)]
    return [
        (f"{part.shape[0]} {name} samples of {visible(data)}", part)
        for name, part in (("training", X), ("test", found.X_test))
    ]


def _cost(
    short: Rules, whole: Rules, terms: int | None, fidelity: float | None, digits: int | None,
    parts: list[tuple[str, Any]],
) -> list[str]:  # fmt: skip
    """Say what the shortening costs, in sentences."""
    of = f"{terms} term{'s' if terms != 1 else ''} a face (of {whole.most_terms})"
    said = [] if fidelity is None else [f"The fewest terms that agree on {100 * fidelity:g} %: {of}."]
    for name, X in parts:
        found = short.agreement(X)
        share = f"{100 * found.share:.2f} % of the {name} ({found.same} of {found.samples})"
        said.append(f"These rules agree with the model on {share}.")
    is_cut = terms is not None and terms < whole.most_terms
    if not parts and (is_cut or digits is not None):
        what = f"cut to {of}" if is_cut else f"rounded to {digits} digits"
        said.append(f"How often these rules, {what}, agree with the model is not known: give --data.")
    if not whole.decides:
        said.append(
            "The model decides by its probabilities, and these rules are its polytope: some labels may "
            f"differ, {'as counted above' if parts else 'which --data counts'}."
        )
    if len(whole.inside) > 1:
        said.append("The model decides by both polytopes: by the difference of their scores.")
    return said


def _print_text(whole: Rules, form: Output, digits: int, terms: int | None, remarks: list[str]) -> None:
    from polyopt.polytope.rules import as_markdown

    dressed: Callable[[str], str] = as_markdown if form is Output.MARKDOWN else str
    for text in whole.texts(digits, terms, visible):
        emit(f"{dressed(text)}\n\n")
    for remark in remarks:
        emit(dressed(remark) + ("\n\n" if form is Output.MARKDOWN else "\n"))


def _print_json(short: Rules, terms: int | None, parts: list[tuple[str, Any]], remarks: list[str]) -> None:
    import json

    counts = [(name, short.agreement(X)) for name, X in parts]
    found = {
        "method": short.model.method,
        "terms": terms,
        "polytopes": short.to_json(),
        "agreement": [{"data": name, "same": one.same, "samples": one.samples} for name, one in counts],
        "remarks": remarks,
    }
    emit(json.dumps(found, indent=2) + "\n")


def _print_code(short: Rules, form: Output, remarks: list[str]) -> None:
    from polyopt.cli.console import say

    if form is Output.CSV:
        for polytope in short.polytopes:
            emit(polytope.to_frame().to_csv(lineterminator="\n"))
        for remark in remarks:
            say(remark)
        return
    code = short.to_sql() if form is Output.SQL else short.to_python()
    for remark in remarks:
        emit(f"{_COMMENTS[form]}{remark}\n")
    emit(f"{code}\n")
