"""``polyopt predict``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.cli.model import Model


def predict(
    model: Annotated[Path, typer.Argument(help="Model saved by polyopt fit.")],
    data: Annotated[
        str, typer.Argument(help="CSV or svmlight file, with or without labels, or name of a data set.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="File for the labels, one per line; standard output by default.")
    ] = None,
) -> None:
    """Predict labels by a saved model.

    Columns of a CSV file with a header are found by their names. Where the file has labels, the error is
    printed on standard error.
    """
    from polyopt.cli.console import say
    from polyopt.cli.model import load_model

    if out is not None and not out.absolute().parent.is_dir():
        raise ValueError(f"--out: the folder {out.absolute().parent} does not exist")
    saved = load_model(model)
    X, y = _read(saved, data)
    labels = saved.predict(X)
    text = "".join(f"{label}\n" for label in labels)
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")
    if y is not None:
        say(_error(saved, labels, y))


def _error(model: Model, labels: NDArray[Any], y: NDArray[Any]) -> str:
    import numpy as np

    unknown = np.setdiff1d(y, model.estimator.classes_)
    if len(unknown):
        shown = ", ".join(str(label) for label in unknown[:5])
        return f"error: not counted, as the data have labels that the model does not know: {shown}"
    wrong = int((labels != y).sum())
    return f"error {100 * wrong / len(y):.2f} % ({wrong} of {len(y)} samples)"


def _read(model: Model, text: str) -> tuple[Any, NDArray[Any] | None]:
    """Features in the model's order, and the labels where there are any."""
    from polyopt.cli.data import is_svmlight, load_data
    from polyopt.datasets import read_svmlight

    path = Path(text)
    if path.is_file() and not is_svmlight(path):
        return _read_csv(model, path)
    found = read_svmlight(path, n_features=model.n_features) if path.is_file() else load_data(text)
    if found.X.shape[1] != model.n_features:
        raise ValueError(f"{text} has {found.X.shape[1]} features; the model has {model.n_features}")
    return found.X, found.y


def _read_csv(model: Model, path: Path) -> tuple[Any, NDArray[Any] | None]:
    from polyopt.cli.data import first_row
    from polyopt.datasets import read_csv

    row, m = first_row(path), model.n_features
    names = model.feature_names
    if names is not None and set(names) & set(row):
        missing = [name for name in names if name not in row]
        extra = [name for name in row if name not in names and name != model.target]
        if missing or extra:
            problem = f"lacks the column {missing[0]!r}" if missing else f"has a column {extra[0]!r}"
            raise ValueError(f"{path} {problem}; the model has the features {', '.join(names)}")
        if model.target not in row:
            X = _unlabelled(path)
            return X[:, [row.index(name) for name in names]], None
        found = read_csv(path, model.target)
        assert found.feature_names is not None
        return found.X[:, [found.feature_names.index(name) for name in names]], found.y
    if len(row) == m:
        return _unlabelled(path), None
    if row and len(row) != m + 1:
        raise ValueError(f"{path} has {len(row)} columns; the model has {m} features, and a label may follow")
    found = read_csv(path, model.target if isinstance(model.target, int) else -1)
    return found.X, found.y


def _unlabelled(path: Path) -> NDArray[Any]:
    """A table of features alone, by the reader that takes its last column for labels."""
    import numpy as np

    from polyopt.datasets import read_csv

    found = read_csv(path)
    if found.y.dtype.kind not in "if":
        read_csv(path, 0)  # names the line where the last column is not a number
    return np.column_stack([found.X, found.y.astype(float)])
