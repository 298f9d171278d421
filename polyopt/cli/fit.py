"""``polyopt fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyopt.cli import settings as options
from polyopt.methods.registry import DEFAULT_METHOD, answering_for


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
    time_limit: options.TimeLimit = None, separator: options.Separator = None,
    decimal: options.Decimal = ".", categorical: options.Categorical = None, impute: options.Impute = None,
    large: options.Large = False, overwrite_input: options.OverwriteInput = False,
) -> None:  # fmt: skip
    """Fit a method to data, certify it, and save it.

    The last column of a CSV file holds the labels, unless --target names another.
    """
    from polyopt.cli.console import output, say, warnings_as_sentences
    from polyopt.cli.data import Form, load_data
    from polyopt.cli.model import Model, save_model
    from polyopt.compare.data import check_dataset, scaler_for
    from polyopt.compare.run import settings_text
    from polyopt.datasets import fit_preparation
    from polyopt.files import check_target
    from polyopt.methods import find_method

    entry = find_method(method)
    given = options.check_settings(
        entry, others, C=C, B=B, D=D, n_faces=faces, perplexity=perplexity, double_sided=double_sided,
        ridge=ridge, kernel=kernel, gamma=gamma,
    )  # fmt: skip
    check_target(out, "--out", inputs=(data,), replace_input=overwrite_input)
    table = load_data(data, target, Form(separator, decimal, categorical, impute, large))
    check_dataset(table)
    found, preparation = fit_preparation(table)
    scaler = scaler_for(found.X) if scale else None
    X = found.X if scaler is None else scaler.transform(found.X)
    with warnings_as_sentences(), answering_for(entry):
        settings = entry.settings_for(X, found.y, **given)
        estimator = entry.make(solver.of(entry), settings, time_limit=time_limit, seed=seed).fit(X, found.y)
    model = Model(
        estimator,
        scaler,
        None if table.feature_names is None else list(table.feature_names),
        -1 if table.target is None else table.target,
        entry.name,
        preparation,
    )
    if out is not None:
        save_model(model, out)
        say(f"saved: {out}")
    wrong = int((model.predict(table.X) != found.y).sum())
    n = len(found.y)
    console = output()
    console.print(f"{entry.title} ({settings_text(settings)}), fitted to {found.name}")
    console.print(f"training error {100 * wrong / n:.2f} % ({wrong} of {n} samples)\n")
    with answering_for(entry):
        console.print(estimator.certificate().table())
