"""``polyopt fit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyopt.cli import settings as options
from polyopt.methods.registry import DEFAULT_METHOD, answering_for

if TYPE_CHECKING:
    from polyopt.datasets import Dataset


def fit(
    data: Annotated[str, typer.Argument(help="Name of a data set, or path of a CSV or svmlight file.")],
    method: options.MethodName = DEFAULT_METHOD,
    out: Annotated[Path | None, typer.Option(help="File to save the model in, such as model.skops.")] = None,
    scale: Annotated[
        bool, typer.Option(help="Scale the features to unit variance; the model keeps the scaling.")
    ] = True,
    solver: Annotated[options.Solver, typer.Option(help="Which solver.")] = options.Solver.AUTO,
    C: options.C = None, B: options.B = None, D: options.D = None, faces: options.Faces = None,
    perplexity: options.Perplexity = None, double_sided: options.DoubleSided = None,
    ridge: options.Ridge = None, kernel: options.Kernel = None, gamma: options.Gamma = None,
    others: options.Set = None, target: options.Target = None, seed: options.Seed = 0,
    time_limit: options.TimeLimit = None,
) -> None:  # fmt: skip
    """Fit a method to data, certify it, and save it.

    The last column of a CSV file holds the labels, unless --target names another.
    """
    from polyopt.cli.console import output, say, warnings_as_sentences
    from polyopt.cli.data import load_data
    from polyopt.cli.model import Model, save_model
    from polyopt.compare.data import check_dataset, scaler_for
    from polyopt.compare.run import settings_text
    from polyopt.methods import find_method

    entry = find_method(method)
    given = options.check_settings(
        entry, others, C=C, B=B, D=D, n_faces=faces, perplexity=perplexity, double_sided=double_sided,
        ridge=ridge, kernel=kernel, gamma=gamma,
    )  # fmt: skip
    if out is not None and not out.absolute().parent.is_dir():
        raise ValueError(f"--out: the folder {out.absolute().parent} does not exist")
    found = load_data(data, target)
    check_dataset(found)
    scaler = scaler_for(found.X) if scale else None
    X = found.X if scaler is None else scaler.transform(found.X)
    with warnings_as_sentences(), answering_for(entry):
        settings = entry.settings_for(X, found.y, **given)
        estimator = entry.make(solver.of(entry), settings, time_limit=time_limit, seed=seed).fit(X, found.y)
    model = Model(
        estimator,
        scaler,
        None if found.feature_names is None else list(found.feature_names),
        _target_of(data, found, target),
        entry.name,
    )
    if out is not None:
        save_model(model, out)
        say(f"saved: {out}")
    wrong = int((model.predict(found.X) != found.y).sum())
    n = len(found.y)
    console = output()
    console.print(f"{entry.title} ({settings_text(settings)}), fitted to {found.name}")
    console.print(f"training error {100 * wrong / n:.2f} % ({wrong} of {n} samples)\n")
    with answering_for(entry):
        console.print(estimator.certificate().table())


def _target_of(text: str, data: Dataset, target: str | None) -> str | int:
    """The label column by its name where the file has one, else by its place."""
    from polyopt.cli.data import column_of, first_row, is_svmlight

    path = Path(text)
    if not path.is_file() or is_svmlight(path):
        return -1
    if data.feature_names is not None:
        return next(name for name in first_row(path) if name not in data.feature_names)
    return -1 if target is None else column_of(path, target)
