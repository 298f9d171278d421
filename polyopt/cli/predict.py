"""``polyopt predict``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from polyopt.base.files import STANDARD, check_is_file, check_target, write_text
from polyopt.cli import options
from polyopt.cli.console import emit, say
from polyopt.cli.data import Form, check_data, first_row, is_named, load_data, load_saved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.datasets import Source
    from polyopt.models import Model

_BREAKS = "\r\n"


def predict(
    model: Annotated[Path, Argument(help="Model saved by polyopt fit.")],
    data: Annotated[
        str,
        Argument(
            help="CSV or svmlight file, with or without labels, or name of a data set; - for standard input."
        ),
    ],
    out: Annotated[
        Path | None, Option(help="File for the labels, one per line; standard output by default.")
    ] = None,
    probabilities: Annotated[
        bool, Option("--probabilities", help="Write a table: the label, and the probability of each class.")
    ] = False,
    by_position: options.ByPosition = False,
    separator: options.Separator = None,
    decimal: options.Decimal = ".",
    force: options.Force = False,
) -> None:
    """Predict labels by a saved model.

    Columns of a CSV file with a header are found by their names. If the file has labels, the error is printed
    on standard error. SPLA1, PLUME and logistic polytopes have probabilities.
    """
    check_is_file(model, "model")
    check_data(data)
    check_target(out, "--out", inputs=(model, data), replace_input=force)
    saved = load_saved(model)
    X, y = read_rows(saved, data, Form(separator, decimal), by_position)
    labels = saved.predict(X)
    if probabilities:  # CSV with all digits
        p = saved.predict_proba(X)
        rows = [["label", *(f"p({label})" for label in saved.estimator.classes_.tolist())]]
        pairs = zip(labels.tolist(), p.tolist(), strict=True)
        rows += [[str(label), *map(repr, row)] for label, row in pairs]
        text = "".join(",".join(_quoted(cell, _BREAKS + ',"') for cell in row) + "\n" for row in rows)
    else:
        lines = {label: f"{_quoted(str(label), _BREAKS)}\n" for label in set(labels.tolist())}
        text = "".join(lines[label] for label in labels.tolist())
    if out is None or str(out) == STANDARD:
        emit(text)
    else:
        write_text(out, text)
    if y is not None:
        say(_error(saved, labels, y))


def _quoted(text: str, special: str) -> str:
    """Return a text, in the quotation marks of CSV if it has one of the special characters."""
    return '"' + text.replace('"', '""') + '"' if any(char in text for char in special) else text


def _error(model: Model, labels: NDArray[Any], y: NDArray[Any]) -> str:
    """Return the error on the labels y as a sentence."""
    known = set(model.estimator.classes_.tolist())
    unknown = [label for label in dict.fromkeys(y.tolist()) if label not in known]
    if unknown:
        shown = ", ".join(str(label) for label in sorted(unknown, key=str)[:5])
        return f"error: not counted, as the data have labels that the model does not know: {shown}"
    wrong = sum(ours != theirs for ours, theirs in zip(labels.tolist(), y.tolist(), strict=True))
    return f"error {100 * wrong / len(y):.2f} % ({wrong} of {len(y)} samples)"


def read_rows(model: Model, text: str, form: Form, by_position: bool) -> tuple[Any, NDArray[Any] | None]:
    """Read features in the model's order, and labels if there are any, of a file, a named set or ``-``."""
    from polyopt.datasets import is_svmlight, open_source, read_svmlight
    from polyopt.datasets.tables import as_known

    if is_named(text):
        data = load_data(text)
        ours, theirs = model.feature_names, data.feature_names
        if data.X.shape[1] == model.n_features and ours and theirs and not by_position:
            _check_names(text, ours, list(theirs))
            if list(ours) != list(theirs):
                data = replace(data, X=data.X[:, [theirs.index(name) for name in ours]])
    else:
        source = open_source(text)
        if not is_svmlight(source):
            X, y = _read_table(model, source, form, by_position)
            _warn_of_unseen_texts(model, X)
            return X, None if y is None else as_known(y, model.estimator.classes_)
        if model.text_places or model.fills_gaps:
            raise ValueError(f"{text} is an svmlight file; the model's columns hold texts or gaps")
        data = read_svmlight(source, n_features=model.n_features)
    if data.X.shape[1] != model.n_features:
        raise ValueError(f"{text} has {data.X.shape[1]} features; the model has {model.n_features}")
    return data.X, as_known(data.y, model.estimator.classes_)


def _warn_of_unseen_texts(model: Model, X: NDArray[Any]) -> None:
    """Name the texts that the fit did not see: all their indicators are 0."""
    from polyopt.datasets.preparation import unseen_texts
    from polyopt.estimators.frames import listed

    for place, texts in unseen_texts(model.preparation, X).items():
        name = repr(model.feature_names[place]) if model.feature_names else str(place + 1)
        say(f"warning: column {name}: the model has not seen {listed(texts)}, and counts it as no text")


def _read_table(
    model: Model, source: Source, form: Form, by_position: bool
) -> tuple[Any, NDArray[Any] | None]:
    """Read features in the model's order, by name or place, and labels if the table has them."""
    from polyopt.datasets import read_table
    from polyopt.datasets.tables import labels_of_text

    names, row = model.feature_names, first_row(source, form.separator)
    if not row:
        read_table(source, separator=form.separator)  # raises the reason
    by_name = names is not None and not by_position and not set(names).isdisjoint(row)
    target: int | str | None
    if names is not None and by_name:
        target = model.target if isinstance(model.target, str) and model.target in row else None
        _check_names(source.path, names, [name for name in row if target is None or name != target])
        text: list[int | str] = [names[k] for k in model.text_places]
    else:
        if names is not None and not by_position:
            _check_is_headless(source, form, row, names)
        target = _place_of_target(model, source, row)
        text = [k if target is None or k < target else k + 1 for k in model.text_places]
    table = read_table(
        source, target, separator=form.separator, decimal=form.decimal, categorical=text,
        fill=model.fills_gaps, header=True if by_name else None, is_new=True,
    )  # fmt: skip
    if names is not None and not by_name and not by_position:
        say(f"{source.path} has no header: its columns are taken in order")
    X, columns = table.X, list(table.layout.names or ())
    X = X[:, [columns.index(name) for name in names or ()]] if by_name else X
    return X, None if target is None else labels_of_text(table.labels)


def _check_is_headless(source: Source, form: Form, row: list[str], names: list[str]) -> None:
    """Refuse a first row of other names than the model's."""
    from polyopt.datasets.tables import is_number
    from polyopt.estimators.frames import listed

    if not any(is_number(cell, form.decimal) for cell in row):
        hint = "; --separator says what separates them" if len(row) == 1 and len(names) > 1 else ""
        raise ValueError(
            f"{source.path} has the columns {listed(row)}, and none of the model's, which are "
            f"{listed(names)}; --by-position takes them in order{hint}"
        )


def _place_of_target(model: Model, source: Source, row: list[str]) -> int | None:
    """Return the place of the labels in a table whose columns are in the model's order; None without."""
    m = model.n_features
    if len(row) == m:
        return None
    if len(row) != m + 1:
        raise ValueError(
            f"{source.path} has {len(row)} columns; the model has {m} features, and a label may follow"
        )
    place = row.index(model.target) if model.target in row else model.target
    return place % (m + 1) if isinstance(place, int) else m


def _check_names(file: str | Path, names: list[str], found: list[str]) -> None:
    """Refuse columns other than the model's, and name them."""
    from polyopt.estimators.frames import check_names

    try:
        check_names(file, found, names)
    except ValueError as error:
        raise ValueError(f"{error}. --by-position takes the columns in order") from None
