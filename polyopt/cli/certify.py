"""``polyopt certify``, and what ``polyopt fit --certificate`` writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyopt.cli import settings as options
from polyopt.cli.completion import among, complete_data
from polyopt.foreign import PROGRAMS

if TYPE_CHECKING:
    from sklearn.preprocessing import StandardScaler

    from polyopt.certificates import Certificate
    from polyopt.cli.data import Form
    from polyopt.models import Model

__all__ = ["certify", "write_claim"]


def certify(
    model: Annotated[Path | None, typer.Argument(help="Model saved by polyopt fit --keep-data.")] = None,
    data: Annotated[
        str | None,
        typer.Argument(help="The data it was fitted to: a name or a file.", autocompletion=complete_data),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write the claim in, such as claim.json.")] = None,
    coefficients: Annotated[
        Path | None,
        typer.Option(
            help="Another package's solution in the place of a model: weights and intercept in CSV or .npy, "
            "or an .npz with w and b, and multipliers if there are any."
        ),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option("--data", help="The data that it is of, as that package saw them: a name or a file.",
                     autocompletion=complete_data),
    ] = None,
    program: Annotated[
        str, typer.Option(help=f"Its program: {', '.join(PROGRAMS)}.", autocompletion=among(*PROGRAMS))
    ] = next(iter(PROGRAMS)),
    positive: Annotated[
        str | None, typer.Option(help="Label where w'x + b is positive; by default the second in order.")
    ] = None,
    C: options.C = None, B: options.B = None, D: options.D = None, kernel: options.Kernel = None,
    gamma: options.Gamma = None, others: options.Set = None, target: options.Target = None,
    time_limit: options.TimeLimit = None, separator: options.Separator = None,
    decimal: options.Decimal = ".", categorical: options.Categorical = None, impute: options.Impute = None,
    large: options.Large = False, force: options.Force = False,
) -> None:  # fmt: skip
    """Certify a saved model, or another package's solution, and write the claim for a stranger to check.

    polyopt/check/check.py, which needs Python and nothing else, proves the claim from the data in exact
    arithmetic, or refuses it. With --coefficients FILE --data DATA the claim says how far another package's
    solution is from the optimum of --program, and whose multipliers prove that; --set takes degree, coef0,
    intercept (free, penalised, none), loss and margin.
    """
    from polyopt.base.files import check_is_file, check_target
    from polyopt.cli.console import output
    from polyopt.cli.data import Form, check_data
    from polyopt.cli.deferred import load_saved

    form = Form(separator, decimal, categorical, impute, large)
    inputs = [str(path) for path in (model, data, coefficients, of) if path is not None]
    check_target(out, "--out", inputs=inputs, replace_input=force, is_alone=False)
    given = options.read_settings(others, C=C, B=B, D=D, kernel=kernel, gamma=gamma)
    if model is not None and data is not None and len(inputs) == 2:
        if given or (positive, target, time_limit, form) != (None, None, None, Form()):
            raise ValueError("a model has settings of its own; options for them are for --coefficients")
        check_is_file(model, "model")
        check_data(data)
        found = load_saved(model)
        certificate = found.estimator.certificate()
        output().print(certificate.table())
        if out is not None:
            write_claim(certificate, found, data, out, replace_input=force)
    elif coefficients is not None and of is not None and len(inputs) == 2:
        check_is_file(coefficients, "coefficients")
        check_data(of, target, form)
        given |= {"positive": positive, "time_limit": time_limit}
        certificate, column = _of_solution(coefficients, of, program, given, target, form)
        output().print(certificate.table())
        if out is not None:
            _write(certificate, of, out, target=column, inputs=() if force else inputs)
    else:
        raise ValueError("certify takes MODEL and DATA, or --coefficients FILE and --data DATA")


def _of_solution(
    coefficients: Path, data: str, program: str, given: dict[str, Any], target: str | None, form: Form
) -> tuple[Certificate, str | int]:
    """The certificate of another package's solution, and the label column of the data."""
    if program not in PROGRAMS:
        raise ValueError(f"--program must be one of {', '.join(PROGRAMS)}, not {program!r}")
    import pandas as pd

    from formulations.language.types import is_sparse
    from polyopt.cli.console import warnings_as_sentences
    from polyopt.cli.data import load_data
    from polyopt.compare.data import check_dataset
    from polyopt.datasets import fit_preparation
    from polyopt.foreign.certify import certify_solution

    known = (*PROGRAMS[program], "positive", "time_limit")
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"{unknown[0]} is no setting of {program}, which has {', '.join(PROGRAMS[program])}")
    table = load_data(data, target, form)
    check_dataset(table)
    found, _ = fit_preparation(table)
    X: Any = found.X
    if found.feature_names is not None and not is_sparse(X):
        X = pd.DataFrame(X, columns=list(found.feature_names))
    with warnings_as_sentences():
        certificate = certify_solution(coefficients, X, found.y, program, **given)
    return certificate, -1 if table.target is None else table.target


def write_claim(
    certificate: Certificate, model: Model, data: str, out: Path, *, replace_input: bool = False
) -> None:
    """Write a model's claim, have it checked, and say how to do so.

    Where the checker cannot read the data as they are (names of data sets, texts, gaps, compressed files),
    the samples that the machine saw are written beside the claim.

    replace_input: whether the samples may be written over the data.
    ValueError: A program that the format has no form for, a claim that the checker refuses, or samples that
        would be written over the data.
    """
    plain = all(step is model.scaler for _, step in model.steps)
    _write(
        certificate, data, out, scaler=model.scaler, target=model.target, plain=plain,
        inputs=() if replace_input else (data,),
    )  # fmt: skip


def _write(
    certificate: Certificate, data: str, out: Path, *, scaler: StandardScaler | None = None,
    target: str | int | None = None, plain: bool = True, inputs: tuple[str, ...] | list[str] = (),
) -> None:  # fmt: skip
    from polyopt.base.files import check_target
    from polyopt.check.check import Refused, check
    from polyopt.cli.console import say

    file, plain = Path(data), plain and Path(data).is_file()
    steps: list[str] = []
    if plain:
        claims = certificate.save(out, scaler=scaler, target=target)
        try:
            for claim in claims:
                check(claim, data, steps.append)
        except Refused:
            plain = False
    if not plain:
        file = out.with_suffix(".svm")
        if file == out:
            raise ValueError(
                f"--out: {out} is where the samples go; name the claim otherwise, such as claim.json"
            )
        check_target(file, f"the samples beside {out}", inputs=inputs)
        steps = []
        for claim in certificate.save(out, data=file):
            try:
                check(claim, str(file), steps.append)
            except Refused as why:
                raise ValueError(f"the checker refuses the claim in {out}: {why}") from why
    say(f"claim: {out}, checked in {len(steps)} steps; again: python -m polyopt.check.check {out} {file}")
