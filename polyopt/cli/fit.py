"""``polyopt fit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyopt.cli import settings as options
from polyopt.cli.completion import complete_data
from polyopt.cli.info import probabilities_of, size_text
from polyopt.cli.stopping import came, end_if_stopped, is_replaced, raise_if_stopped, tell
from polyopt.methods.registry import DEFAULT_METHOD, answering_for

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from polyopt.certificates import Certificate
    from polyopt.datasets import Dataset
    from polyopt.models import Model

_KeepData = Annotated[
    bool,
    typer.Option(
        "--keep-data", help="Keep the training data in the file, which certificates and duals are made of."
    ),
]
_Data = Annotated[
    str,
    typer.Argument(
        help="Name of a data set, or path of a CSV or svmlight file.", autocompletion=complete_data
    ),
]
_Scale = Annotated[
    bool, typer.Option(help="Scale the features to unit variance; the model keeps the scaling.")
]
_Claim = Annotated[
    Path | None,
    typer.Option(
        "--certificate", help="File to write the certificate in, such as claim.json, for anyone to check."
    ),
]


def fit(
    data: _Data,
    method: options.MethodName = DEFAULT_METHOD,
    out: Annotated[Path | None, typer.Option(help="File to save the model in, such as model.skops.")] = None,
    claim: _Claim = None,
    scale: _Scale = True,
    solver: Annotated[options.Solver, typer.Option(help="Which solver.")] = options.Solver.AUTO,
    C: options.C = None, B: options.B = None, D: options.D = None, faces: options.Faces = None,
    kernel: options.Kernel = None, gamma: options.Gamma = None,
    calibration: options.Calibration = None, others: options.Set = None, target: options.Target = None,
    seed: options.Seed = 0, time_limit: options.TimeLimit = None, separator: options.Separator = None,
    decimal: options.Decimal = ".", categorical: options.Categorical = None, impute: options.Impute = None,
    large: options.Large = False, keep_data: _KeepData = False, force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Fit a method to data, certify it, and save it.

    The last column of a CSV file holds the labels, unless --target names another. --time-limit is for the
    whole fit, with all its pairs of classes. Ctrl-C ends it with the best point, which is saved where --out
    names a new file; a file that is there is replaced by it only with --force.
    """
    from polyopt.base.files import check_target
    from polyopt.cli.console import progress, say, warnings_as_sentences
    from polyopt.cli.data import Form, check_data, check_faces, load_data
    from polyopt.methods.registry import find_method, for_kernel

    given = options.read_settings(
        others, C=C, B=B, D=D, n_faces=faces, kernel=kernel, gamma=gamma, calibration=calibration
    )
    entry = for_kernel(find_method(method), given.get("kernel"))
    named = solver.of(entry)
    form = Form(separator, decimal, categorical, impute, large)
    check_data(data, target, form)
    for path, option in ((out, "--out"), (claim, "--certificate")):
        check_target(path, option, inputs=(data,), replace_input=force, is_alone=False)

    # What is imported from here on takes seconds, and is imported only when paths and options are right.
    from formulations.language.clock import Clock, running
    from polyopt.cli.columns import by_features
    from polyopt.compare.data import check_dataset, scaler_for
    from polyopt.compare.settings import settings_text
    from polyopt.datasets import fit_preparation

    given = options.check_settings([entry], given, others)
    table = load_data(data, target, form)
    check_dataset(table)
    check_faces(table, given, large)
    found, preparation = fit_preparation(table)
    given = by_features(given, found.feature_names, table.feature_names, preparation)
    scaler = scaler_for(found.X, found.feature_names) if scale else None
    X = found.X if scaler is None else scaler.transform(found.X)
    _make_ready(out)
    raise_if_stopped()
    with warnings_as_sentences(), answering_for(entry), progress(f"{entry.name} on {found.name}", quiet):
        with running(Clock(time_limit)) as limited:
            settings = entry.settings_for(X, found.y, **given)
            machine = entry.make(named, settings, time_limit=limited.left, seed=seed)
        estimator = machine.fit(X, found.y)
        certificate = _certified(estimator)
    is_cut = _is_cut(estimator)
    model = _model(estimator, entry.name, _steps(preparation, scaler), table, certificate, settings)
    if out is not None and (not is_cut or is_replaced(out, force)):
        say(_saved(model, out, keep_data, "what was done by then" if is_cut else "the whole fit"))
    if not is_cut:
        _print(f"{entry.title_for(settings)} ({settings_text(settings)})", model, table, certificate)
        _write(certificate, model, data, claim, force)
    end_if_stopped(is_cut or certificate is None)


def _write(
    certificate: Certificate | None, model: Model, data: str, out: Path | None, replace_input: bool
) -> None:
    """Write the claim, where it is asked for and there is one."""
    from polyopt.cli.certify import write_claim

    if certificate is not None and out is not None:
        write_claim(certificate, model, data, out, replace_input=replace_input)


def _make_ready(out: Path | None) -> None:
    """Import what saves before Ctrl-C, after which time is short; tell what is kept until then."""
    if out is not None:
        import skops.io  # noqa: F401

        if out.exists():
            tell(f"{out} is as it was")


def _model(
    estimator: BaseEstimator,
    method: str,
    steps: list[tuple[str, BaseEstimator]],
    table: Dataset,
    certificate: Certificate | None,
    settings: dict[str, Any],
) -> Model:
    """Make the model that is saved of a fit."""
    from polyopt.models import Model, facts_of_fit

    return Model.of(
        estimator,
        steps,
        feature_names=table.feature_names,
        target=-1 if table.target is None else table.target,
        method=method,
        facts=facts_of_fit(estimator, table, certificate, settings),
    )


def _is_cut(estimator: BaseEstimator) -> bool:
    """True if Ctrl-C ended the fit."""
    from formulations.language.solution import Status
    from polyopt.estimators.status import status_of

    if status_of(estimator) is Status.INTERRUPTED:
        return True
    return bool(came()) and bool(getattr(estimator, "_uncalibrated", ""))  # in the folds of its calibration


def _certified(estimator: Any) -> Certificate | None:
    """The certificate; none where Ctrl-C leaves no time for it, or for those of all pairs of classes."""
    if len(estimator.classes_) > 2 and _is_cut(estimator):
        return None
    try:
        found: Certificate = estimator.certificate()
    except KeyboardInterrupt:
        return None
    return found


def _print(title: str, model: Model, table: Dataset, certificate: Certificate | None) -> None:
    """Print the method, its training error and its certificate."""
    from polyopt.cli.console import output

    wrong, n = int((model.predict(table.X) != table.y).sum()), len(table.y)
    console = output()
    console.print(f"{title}, fitted to {table.name}")
    console.print(f"training error {100 * wrong / n:.2f} % ({wrong} of {n} samples)\n")
    if certificate is not None:
        console.print(certificate.table())
    if getattr(model.estimator, "calibration", None) is not None:
        console.print(f"Probabilities: {probabilities_of(model.estimator)}.")


def _saved(model: Model, out: Path, keep_data: bool, what: str) -> str:
    """Save the model, and say what is in the file."""
    from polyopt.models import save_model

    kept = model if keep_data else model.without_data()
    save_model(kept, out)
    tell(f"{what} is kept in {out}")
    if kept.holds_data:
        inside = "with the training data, of which certificates, multipliers and warm starts are made"
    else:
        inside = "without the training data: certificates and multipliers need a file made with --keep-data"
    return f"saved: {out} ({size_text(out.stat().st_size)}), {inside}"


def _steps(
    preparation: BaseEstimator | None, scaler: BaseEstimator | None
) -> list[tuple[str, BaseEstimator]]:
    """The steps before the machine that there are."""
    both = (("preparation", preparation), ("scaler", scaler))
    return [(name, step) for name, step in both if step is not None]
