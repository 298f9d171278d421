"""``polyopt info``, ``export``, ``rules`` and ``explain``: a saved model, described."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from polyopt.base.files import check_is_file, check_target, write_bytes
from polyopt.base.text import visible
from polyopt.cli import options
from polyopt.cli.console import emit, output, say
from polyopt.cli.data import Form, check_data, load_data, load_saved
from polyopt.cli.predict import read_rows
from polyopt.methods import find_method

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.explanations import DecisionModel, SampleExplanation
    from polyopt.models import Model
    from polyopt.models.rules import Rules

    Array = NDArray[Any]

_UNKNOWN = "not known: the model was saved without the facts of its fit"


def info(
    model: Annotated[Path, Argument(help="Model saved by polyopt fit.")],
    as_json: Annotated[bool, Option("--json", help="Print it as JSON instead.")] = False,
) -> None:
    """Print what a saved model is: method, parameters, what was proven, features, classes, data, versions."""
    check_is_file(model, "model")
    found = _facts(load_saved(model), model.stat().st_size)
    if as_json:
        typer.echo(json.dumps(found, indent=2, allow_nan=False, default=str))
        return
    pairs = list(_lines(found))
    width = max(len(name) for name, _ in pairs)
    room = max(output().width - width - 2, 20)
    for name, text in pairs:
        lines = textwrap.wrap(visible(text), room, break_long_words=False, break_on_hyphens=False)
        for heading, line in zip_longest([name], lines, fillvalue=""):
            typer.echo(f"{heading:<{width}}  {line}".rstrip())


def size_text(size: int) -> str:
    """Return a size in bytes as people read it."""
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000.0:
            return f"{amount:.3g} {unit}" if unit != "B" else f"{size} B"
        amount /= 1000.0
    return f"{amount:.3g} GB"


def probabilities_of(machine: object) -> str:
    """Describe the probabilities of a fitted machine."""
    if not hasattr(machine, "predict_proba"):
        return "none"
    parts = getattr(machine, "estimators_", [machine])
    curves: list[Any] = [getattr(part, "calibration_", None) for part in parts]
    if any(curve is None for curve in curves):
        return "the model's own"
    if len(curves) > 1:
        return f"calibrated, {curves[0].method}, for each of {len(curves)} pairs of classes"
    return f"calibrated, {curves[0].method}, on samples held out"


def _facts(model: Model, size: int) -> dict[str, Any]:
    """Contents of a model file, as plain values for JSON."""
    facts: dict[str, Any] = dict(model.facts)
    classes = model.estimator.classes_.tolist()
    claim = facts.get("claim")
    if isinstance(claim, dict):  # JSON has no infinite numbers
        endless = {k: str(v) for k, v in claim.items() if isinstance(v, float) and not math.isfinite(v)}
        claim = {**claim, **endless}
    parameters = {name: str(value) for name, value in model.estimator.get_params().items()}
    return {
        "method": model.method, "title": find_method(model.method).title, "settings": facts.get("settings"),
        "parameters": facts.get("parameters", parameters), "claim": claim, "status": facts.get("status"),
        "classes": [c if isinstance(c, (bool, int, str)) else float(c) for c in classes],
        "probabilities": probabilities_of(model.estimator), "target": model.target,
        "n_features": model.n_features, "features": model.feature_names,
        "steps": [[name, type(step).__name__] for name, step in model.pipeline.steps],
        "data": facts.get("data"), "holds_data": model.holds_data, "fitted": facts.get("fitted"),
        "versions": facts.get("versions"), "size": size,
    }  # fmt: skip


def _lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield names and texts, in the order of print."""
    yield "method", f"{found['method']}: {found['title']}"
    settings = found["settings"] or {}
    yield "settings", ", ".join(f"{name}={value}" for name, value in settings.items()) or _UNKNOWN
    yield "parameters", ", ".join(f"{name}={value}" for name, value in found["parameters"].items())
    claim = found["claim"]
    if isinstance(claim, dict):
        yield "claim", str(claim.get("sentence"))
        names = ("primal", "bound", "gap", "relative_gap")
        yield "", ", ".join(f"{name.replace('_', ' ')} {claim.get(name)}" for name in names)
    else:
        why = "none: the fit was interrupted before it was certified"
        yield "claim", why if found["fitted"] else _UNKNOWN
    yield "status", " ".join(map(str, found["status"] or [_UNKNOWN]))
    yield "classes", f"{len(found['classes'])}: {_some(found['classes'])}"
    yield "probabilities", found["probabilities"]
    yield "target", str(found["target"])
    named = "without names" if found["features"] is None else _some(found["features"])
    yield "features", f"{found['n_features']}: {named}"
    yield "steps", ", then ".join(f"{name} ({kind})" for name, kind in found["steps"])
    data, text = found["data"], "{name}: {samples} samples, SHA-256 {sha256}"
    yield "data", text.format(**data) if isinstance(data, dict) else _UNKNOWN
    yield "holds data", "yes" if found["holds_data"] else "no (fit with --keep-data for it)"
    yield "fitted", str(found["fitted"] or _UNKNOWN)
    versions = found["versions"] or {}
    yield "versions", ", ".join(f"{name} {of}" for name, of in versions.items()) or _UNKNOWN
    yield "size", size_text(found["size"])


def _some(values: list[Any]) -> str:
    more = f", ... ({len(values)} in all)" if len(values) > 20 else ""
    return ", ".join(str(value) for value in values[:20]) + more


def export(
    model: Annotated[Path, Argument(help="Model saved by polyopt fit.")],
    out: Annotated[Path, Option(help="File to write, such as model.onnx.")],
) -> None:
    """Write a saved model as other programs read it: the whole pipeline as an ONNX graph.

    The graph takes the features as the model does and gives "label" and "scores". It needs the extra
    polyopt[onnx].
    """
    check_is_file(model, "model")
    check_target(out, "--out", inputs=(model,))
    made = load_saved(model).to_onnx()
    content = made.SerializeToString()
    write_bytes(out, content)
    inputs = ", ".join(one.name for one in made.graph.input)
    opset = made.opset_import[0].version
    say(f"saved: {out} ({size_text(len(content))}), onnx, opset {opset}, input {inputs}")


_DIGITS = 3  # of numbers for people


class Output(StrEnum):
    """Form in which rules are printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    SQL = "sql"
    PYTHON = "python"
    CSV = "csv"


def rules(
    model: Annotated[Path, Argument(help="A polytope machine that 'polyopt fit' saved.")],
    digits: Annotated[
        int | None,
        Option(min=1, help=f"Significant digits; {_DIGITS} in text and Markdown, else all by default."),
    ] = None,
    terms: Annotated[int | None, Option(min=1, help="Terms of each face; all by default.")] = None,
    fidelity: Annotated[
        float | None, Option(help="Take the fewest terms of each face that agree on this share of --data.")
    ] = None,
    data: Annotated[
        str | None, Option(help="File or data set on which rules and model are compared.")
    ] = None,
    form: Annotated[Output, Option("--format", help="What the rules are printed as.")] = Output.TEXT,
    separator: options.Separator = None,
    decimal: options.Decimal = ".",
) -> None:
    """Print the faces of a learnt polytope as rules, in the units of the data they were learnt from.

    With --data it says how often the rules as they are printed agree with the model. The terms kept of a face
    are its largest, coefficient times the feature's spread; the others are put at their typical values.
    """
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
    parts = [] if data is None else _parts_of(found, data, Form(separator, decimal))
    if fidelity is not None:
        terms = whole.fewest_terms(parts[0][1], fidelity, digits)
    short = whole.shortened(digits, terms)
    counts = [(name, short.agreement(X)) for name, X in parts]
    remarks = _cost(whole, terms, fidelity, digits, counts)
    if is_for_people:
        from polyopt.polytope.rules import as_markdown

        dressed: Callable[[str], str] = as_markdown if form is Output.MARKDOWN else str
        texts = [dressed(text) for text in whole.texts(digits or _DIGITS, terms, visible)]
        emit("".join(f"{text}\n\n" for text in texts))
        emit("".join(dressed(remark) + ("\n\n" if form is Output.MARKDOWN else "\n") for remark in remarks))
    elif form is Output.JSON:
        agreement = [{"data": name, "same": one.same, "samples": one.samples} for name, one in counts]
        told = {
            "method": found.method, "terms": terms, "polytopes": short.to_json(),
            "agreement": agreement, "remarks": remarks,
        }  # fmt: skip
        emit(json.dumps(told, indent=2) + "\n")
    elif form is Output.CSV:
        emit("".join(polytope.to_frame().to_csv(lineterminator="\n") for polytope in short.polytopes))
        for remark in remarks:
            say(remark)
    else:
        code, mark = (short.to_sql(), "-- ") if form is Output.SQL else (short.to_python(), "# ")
        emit("".join(f"{mark}{remark}\n" for remark in remarks) + f"{code}\n")


def _parts_of(model: Model, data: str, form: Form) -> list[tuple[str, Any]]:
    """Return names and features of the data, training and test part apart if published so."""
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
    whole: Rules, terms: int | None, fidelity: float | None, digits: int | None, counts: list[tuple[str, Any]]
) -> list[str]:
    """Describe the loss of agreement by shortening, in sentences."""
    of = f"{terms} term{'s' if terms != 1 else ''} a face (of {whole.most_terms})"
    said = [] if fidelity is None else [f"The fewest terms that agree on {100 * fidelity:g} %: {of}."]
    for name, found in counts:
        share = f"{100 * found.share:.2f} % of the {name} ({found.same} of {found.samples})"
        said.append(f"These rules agree with the model on {share}.")
    is_cut = terms is not None and terms < whole.most_terms
    if not counts and (is_cut or digits is not None):
        what = f"cut to {of}" if is_cut else f"rounded to {digits} digits"
        said.append(f"How often these rules, {what}, agree with the model is not known: give --data.")
    if not whole.decides:
        said.append(
            "The model decides by its probabilities, and these rules are its polytope: some labels may "
            f"differ, {'as counted above' if counts else 'which --data counts'}."
        )
    if len(whole.inside) > 1:
        said.append("The model decides by both polytopes: by the difference of their scores.")
    return said


def explain(
    model: Annotated[Path, Argument(help="A polytope machine that 'polyopt fit' saved.")],
    data: Annotated[
        str, Argument(help="CSV or svmlight file, with or without labels, or name of a data set.")
    ],
    row: Annotated[
        int | None, Option(min=0, help="Explain this row of the data, counted from 0, not the model.")
    ] = None,
    hold: Annotated[
        list[str] | None, Option(metavar="NAME", help="A column that may not change; may be given again.")
    ] = None,
    top: Annotated[
        int | None, Option(min=1, help="Columns to show: 5 of a row, 8 of the model by default.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print it as JSON instead.")] = False,
    report: Annotated[Path | None, Option(help="Write it as a page, too, with the faces drawn.")] = None,
    by_position: options.ByPosition = False,
    separator: options.Separator = None,
    decimal: options.Decimal = ".",
    force: options.Force = False,
) -> None:
    """Say what a polytope machine goes by, or why a row has its label and what would change it.

    Of the model: which columns count, and what each face catches that no other does. Of a row (--row): the
    face that answers for it, what its columns add, and the nearest point that has the other label.
    """
    if row is None and hold:
        raise ValueError("--hold is about a row: say which by --row")
    check_is_file(model, "model")
    check_data(data)
    check_target(report, "--report", inputs=(model, data), replace_input=force)

    from polyopt.explanations import explain_model  # takes seconds, and so only when the paths are right

    found = load_saved(model)
    from polyopt.models.explained import features_of_table, subject_of

    try:
        subject = subject_of(found)
    except ValueError as error:
        raise ValueError(f"{model}: {error}") from None
    X, y = read_rows(found, data, Form(separator, decimal), by_position)
    X = features_of_table(found, X)
    if not len(X):
        raise ValueError(f"{data} has no rows")
    one = None if row is None else _explain_row(subject, X, row, hold or [], top or 5)
    whole = explain_model(subject, X, y, top=top or 8) if one is None or report is not None else None
    told = one or whole
    assert told is not None
    emit(json.dumps(told.to_dict(), indent=2, allow_nan=False) + "\n" if as_json else f"{told.text()}\n")
    if report is not None:
        from polyopt.report import write_explanation

        assert whole is not None
        write_explanation(whole, report, title=f"polyopt: {model.name} explained on {data}", sample=one)


def _explain_row(subject: DecisionModel, X: Array, row: int, hold: list[str], top: int) -> SampleExplanation:
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
