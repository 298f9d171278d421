"""``polyopt info``, ``export``, ``rules`` and ``explain``: a saved model, described."""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich import filesize
from typer import Argument, Option

from polyopt.base.files import check_is_file, check_target, write_bytes
from polyopt.base.table import Column, terminal_table
from polyopt.base.text import visible
from polyopt.cli import options
from polyopt.cli.console import emit, output, say
from polyopt.cli.data import Form, check_data, is_named, load_data, load_saved
from polyopt.cli.predict import read_rows
from polyopt.methods import find_method

if TYPE_CHECKING:
    from polyopt.models import Model
    from polyopt.models.rules import Rules


def info(model: Annotated[Path, Argument(help="Model saved by polyopt fit.")]) -> None:
    """Print a saved model's method, parameters, claim, features, classes, data and versions."""
    check_is_file(model, "model")
    console = output()
    columns: list[Column[tuple[str, str]]] = [
        Column("model", itemgetter(0), is_text=True),
        Column(visible(str(model)), itemgetter(1), is_text=True, overflow="wrap"),
    ]
    rows = list(_facts(load_saved(model), filesize.decimal(model.stat().st_size)))
    console.print(terminal_table(columns, rows, console.width, title=""))


def _facts(model: Model, size: str) -> Iterator[tuple[str, str]]:
    """Yield names and texts of what a model file holds."""
    known, estimator = model.facts, model.estimator
    interrupted = "none: the fit was interrupted before it was certified" if known.get("fitted") else None
    facts = {
        "method": model.method, "title": find_method(model.method).title, "settings": known.get("settings"),
        "parameters": known.get("parameters", estimator.get_params()),
        "claim": known.get("claim") or interrupted, "status": known.get("status"),
        "classes": estimator.classes_.tolist(),
        "probabilities": "the model's own" if hasattr(estimator, "predict_proba") else "none",
        "target": model.target, "n features": model.n_features,
        "features": model.feature_names or "without names",
        "steps": {name: type(step).__name__ for name, step in model.pipeline.steps},
        "data": known.get("data"), "holds data": "yes" if model.holds_data else "no",
        "fitted": known.get("fitted"), "versions": known.get("versions"), "size": size,
    }  # fmt: skip
    for name, value in facts.items():
        text = str(value)
        if value in (None, {}, []):
            text = "not known: the model was saved without the facts of its fit"
        elif isinstance(value, dict):
            text = ", ".join(f"{key} {part}" for key, part in value.items())
        elif isinstance(value, list):
            more = f", ... ({len(value)} in all)" if len(value) > 20 else ""
            text = ", ".join(map(str, value[:20])) + more
        yield name, text


def export(
    model: Annotated[Path, Argument(help="Model saved by polyopt fit.")],
    out: Annotated[Path, Option(help="File to write, such as model.onnx.")],
    dtype: Annotated[Literal["float64", "float32"], Option(help="Type of the graph's numbers.")] = "float64",
) -> None:
    """Write the whole pipeline of a saved model as an ONNX graph, for other programs.

    The graph takes the features as the model does, as "X" or, with columns of text, by their names. It gives
    "label", "probabilities" if the model has them, and "scores". In float32 a sample whose scores are tied
    but for rounding may have the other label. It needs the extra polyopt[onnx].
    """
    check_is_file(model, "model")
    check_target(out, "--out", inputs=(model,))
    made = load_saved(model).to_onnx(dtype)
    content = made.SerializeToString()
    write_bytes(out, content)
    inputs = ", ".join(tensor.name for tensor in made.graph.input)
    opset = made.opset_import[0].version
    say(f"saved: {out} ({filesize.decimal(len(content))}), onnx, {dtype}, opset {opset}, input {inputs}")


_DIGITS = 3  # significant digits in text, by default


def rules(
    model: Annotated[Path, Argument(help="A polytope machine that 'polyopt fit' saved.")],
    digits: Annotated[
        int | None,
        Option(min=1, help=f"Significant digits; {_DIGITS} in text, else all by default."),
    ] = None,
    terms: Annotated[int | None, Option(min=1, help="Terms of each face; all by default.")] = None,
    fidelity: Annotated[
        float | None, Option(help="Take the fewest terms of each face that agree on this share of --data.")
    ] = None,
    data: Annotated[
        str | None, Option(help="File or data set on which rules and model are compared.")
    ] = None,
    form: Annotated[
        Literal["text", "json", "sql"],
        Option("--format", help="What the rules are printed as."),
    ] = "text",
    separator: options.Separator = None,
    decimal: options.Decimal = ".",
) -> None:
    """Print the faces of a learnt polytope as rules, in the units of the data they were learnt from.

    With --data it prints how often these rules agree with the model. A shortened face has its largest terms,
    coefficient times the feature's spread; features of other terms are set to their typical values. More
    than two classes have rules for each pair, which --data compares with the model of the pair.
    """
    if fidelity is not None and (terms is not None or data is None):
        raise ValueError("--fidelity finds the number of terms on --data: give that, and no --terms")
    check_is_file(model, "model")
    if data is not None:
        check_data(data)
    saved, is_text = load_saved(model), form == "text"
    digits = _DIGITS if digits is None and is_text else digits
    from polyopt.models.rules import Rules

    if len(saved.pairs) > 1 and not is_text and form != "json":
        raise ValueError(f"--format {form} is of two classes; those of {model} vote by pairs")
    try:
        pairs = [Rules.of(part, visible if is_text else str) for part in saved.pairs]
    except ValueError as error:
        raise ValueError(f"{model}: {error}") from None
    parts = [] if data is None else _parts_of(saved, data, Form(separator, decimal))
    content: list[tuple[Model, dict[str, Any]]] = []
    for whole in pairs:
        most = terms if fidelity is None else whole.fewest_terms(parts[0][1], fidelity, digits)
        short = whole.shortened(digits, most)
        counts = [(name, short.agreement(X)) for name, X in parts]
        remarks = _cost(whole, most, fidelity, digits, counts)
        if is_text:
            texts = whole.texts(digits or _DIGITS, most, visible)
            texts = [_pair_of(whole.model), *texts] if len(pairs) > 1 else texts
            emit("".join(f"{text}\n\n" for text in texts))
            end = "\n\n" if whole is not pairs[-1] else "\n"
            emit("".join(f"{remark}{end}" for remark in remarks))
        elif form == "json":
            agreement = [
                {"data": name, "same": int(agrees.sum()), "samples": len(agrees)} for name, agrees in counts
            ]
            values = {"method": saved.method, "terms": most, "polytopes": short.to_json()}
            content.append((whole.model, values | {"agreement": agreement, "remarks": remarks}))
        else:
            emit("".join(f"-- {remark}\n" for remark in remarks) + f"{short.to_sql()}\n")
    if form == "json":
        emit(_as_json(content))


def _pair_of(model: Model) -> str:
    """Name the two classes of a model."""
    first, second = model.estimator.classes_.tolist()
    return visible(f"Class '{first}' against class '{second}'.")


def _as_json(content: list[tuple[Model, dict[str, Any]]]) -> str:
    """Return the content for a model of two classes, or a list of the content for each pair of classes."""
    pairs = [{"pair": pair.estimator.classes_.tolist(), **values} for pair, values in content]
    return json.dumps(content[0][1] if len(pairs) == 1 else pairs, indent=2, allow_nan=False) + "\n"


def _parts_of(model: Model, data: str, form: Form) -> list[tuple[str, Any]]:
    """Return names and features of the data, or of its published training and test part."""
    X, _ = read_rows(model, data, form, False)
    named = load_data(data) if is_named(data) else None  # a pipe can be read only once
    if named is None or named.X_test is None:
        return [(f"{X.shape[0]} samples of {visible(data)}", X)]
    return [
        (f"{part.shape[0]} {name} samples of {visible(data)}", part)
        for name, part in (("training", X), ("test", named.X_test))
    ]


def _cost(
    whole: Rules, terms: int | None, fidelity: float | None, digits: int | None, counts: list[tuple[str, Any]]
) -> list[str]:
    """Return sentences on the agreement of shortened rules with the model."""
    length = f"{terms} term{'s' if terms != 1 else ''} a face (of {whole.most_terms})"
    remarks = [] if fidelity is None else [f"The fewest terms that agree on {100 * fidelity:g} %: {length}."]
    for name, agrees in counts:
        percent = f"{100 * agrees.mean():.2f} % of the {name} ({agrees.sum()} of {len(agrees)})"
        remarks.append(f"These rules agree with the model on {percent}.")
    is_cut = terms is not None and terms < whole.most_terms
    if not counts and (is_cut or digits is not None):
        change = f"cut to {length}" if is_cut else f"rounded to {digits} digits"
        remarks.append(f"How often these rules, {change}, agree with the model is not known: give --data.")
    if not whole.decides:
        remarks.append(
            "The model decides by its probabilities, and these rules are its polytope: some labels may "
            f"differ, {'as counted above' if counts else 'which --data counts'}."
        )
    if whole.decision.kind == "difference":
        remarks.append("The model decides by both polytopes: by the difference of their scores.")
    return remarks


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
    by_position: options.ByPosition = False,
    separator: options.Separator = None,
    decimal: options.Decimal = ".",
) -> None:
    """Explain a polytope machine, or the label of a row and its nearest change.

    The model: the importance of columns, and the samples that each face alone excludes. A row (--row): its
    active face, the terms of its columns, and the nearest point that has the other label. More than two
    classes are explained for each pair, and a row for each pair with its label.
    """
    if row is None and hold:
        raise ValueError("--hold is about a row: say which by --row")
    check_is_file(model, "model")
    check_data(data)

    # What takes seconds to import comes after the checks of paths.
    from polyopt.explanations import ModelExplanation, SampleExplanation, explain_model, explain_sample

    saved = load_saved(model)
    from polyopt.models.explained import features_of_table, subject_of

    is_voted = len(saved.pairs) > 1
    try:
        pairs = [(pair, subject_of(pair)) for pair in saved.pairs]
    except ValueError as error:
        raise ValueError(f"{model}: {error}") from None
    table, y = read_rows(saved, data, Form(separator, decimal), by_position)
    X = features_of_table(saved, table)
    if not len(X):
        raise ValueError(f"{data} has no rows")
    if row is not None and row >= len(X):
        raise ValueError(f"--row {row}: the data have {len(X)} rows, counted from 0")
    if row is not None and is_voted:
        label = saved.predict(table[row : row + 1])[0]
        pairs = [(pair, subject) for pair, subject in pairs if label in pair.estimator.classes_]
    found: list[tuple[Model, Any]] = []
    for pair, subject in pairs:
        shown: ModelExplanation | SampleExplanation
        if row is None:
            own = [k for k in range(len(X)) if y is None or not is_voted or y[k] in pair.estimator.classes_]
            shown = explain_model(subject, X[own], None if y is None else y[own], top=top or 8)
        else:
            shown = explain_sample(subject, X[row], held=hold or (), top=top or 5)
        found.append((pair, shown))
    if as_json:
        emit(_as_json([(pair, shown.to_dict()) for pair, shown in found]))
    else:
        texts = [
            f"{_pair_of(pair)}\n\n{shown.text()}\n\n" if is_voted else f"{shown.text()}\n"
            for pair, shown in found
        ]
        emit("".join(texts))
