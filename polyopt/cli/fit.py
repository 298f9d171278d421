"""``polyopt fit`` and ``certify``: models, their certificates, and claims for anyone to check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich import filesize
from typer import Argument, Option

from polyopt.base.files import check_is_file, check_target
from polyopt.cli import options
from polyopt.cli.console import (
    end_if_stopped,
    is_replaced,
    output,
    progress,
    raise_if_stopped,
    say,
    tell,
)
from polyopt.cli.data import Form, by_features, check_data, load_prepared, load_saved
from polyopt.foreign.programs import PROGRAMS
from polyopt.methods.registry import DEFAULT_METHOD, answering_for, find_method, for_kernel

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from polyopt.certificates import Certificate
    from polyopt.datasets import Dataset
    from polyopt.models import Model


_KeepData = Annotated[
    bool, Option("--keep-data", help="Keep the training data in the file: certificates and duals need them.")
]
_Data = Annotated[str, Argument(help="Name of a data set, or path of a CSV or svmlight file.")]
_Scale = Annotated[bool, Option(help="Scale the features to unit variance; the model keeps the scaling.")]
_Claim = Annotated[
    Path | None, Option("--certificate", help="File for the certificate, such as claim.json, to be checked.")
]


def fit(
    data: _Data,
    method: options.MethodName = DEFAULT_METHOD,
    out: Annotated[Path | None, Option(help="File to save the model in, such as model.skops.")] = None,
    claim: _Claim = None,
    scale: _Scale = True,
    solver: Annotated[options.Solver, Option(help="Which solver.")] = options.Solver.AUTO,
    C: options.C = None, B: options.B = None, D: options.D = None, faces: options.Faces = None,
    numbers: options.Numbers = None, kernel: options.Kernel = None, gamma: options.Gamma = None,
    others: options.Set = None, target: options.Target = None,
    seed: options.Seed = 0, time_limit: options.TimeLimit = None, separator: options.Separator = None,
    decimal: options.Decimal = ".", categorical: options.Categorical = None, impute: options.Impute = None,
    large: options.Large = False, keep_data: _KeepData = False, force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Fit a method to data, certify it, and save it.

    The last column of a CSV file holds the labels, unless --target names another. --time-limit is for the
    whole fit, with all its pairs of classes. Ctrl-C ends it with the best point, which is saved where --out
    names a new file; a file that is there is replaced by it only with --force. With --numbers the method is
    logistic, and LogisticSearch chooses its faces, its ridge and its knots.
    """
    if numbers is not None:
        if method not in (DEFAULT_METHOD, "logistic"):
            raise ValueError(f"--numbers is of --method logistic, not of {method}")
        method = "logistic"
    given = options.read_settings(others, C=C, B=B, D=D, n_faces=faces, kernel=kernel, gamma=gamma)
    entry = for_kernel(find_method(method), given.get("kernel"))
    named = solver.of(entry)
    form = Form(separator, decimal, categorical, impute, large)
    check_data(data, target, form)
    for path, option in ((out, "--out"), (claim, "--certificate")):
        check_target(path, option, inputs=(data,), replace_input=force, is_alone=False)

    # What is imported from here on takes seconds, and is imported only when paths and options are right.
    from formulations.language.clock import Clock, running
    from polyopt.compare.data import scaler_for
    from polyopt.compare.run import settings_text
    from polyopt.models import Model, facts_of_fit
    from polyopt.polyhedral.logistic_search import LogisticSearch, hinges_and_machine

    given = options.check_settings([entry], given, others)
    table, found, preparation = load_prepared(data, target, form, given)
    given = by_features(given, found.feature_names, table.feature_names, preparation)
    scaler = scaler_for(found.X, found.feature_names) if scale else None
    X = found.X if scaler is None else scaler.transform(found.X)
    if out is not None:
        import skops.io  # noqa: F401, before Ctrl-C, after which time is short

        if out.exists():
            tell(f"{out} is as it was")
    raise_if_stopped()
    with answering_for(entry), progress(f"{entry.name} on {found.name}", quiet):
        with running(Clock(time_limit)) as limited:
            settings = entry.settings_for(X, found.y, **given)
            machine = entry.make(named, settings, time_limit=limited.left, seed=seed)
            if numbers is not None:
                most, limit = given.get("n_faces", 4), limited.left
                machine = LogisticSearch(machine, numbers, max_faces=most, n_knots=(0, 3), time_limit=limit)
        estimator, hinges = machine.fit(X, found.y), None
        if numbers is not None:
            hinges, estimator = hinges_and_machine(estimator.best_estimator_)
            settings |= {name: getattr(estimator, name) for name in ("n_faces", "ridge", "max_numbers")}
        certificate = _certified(estimator)
    is_cut = _is_cut(estimator)
    named_steps = (("preparation", preparation), ("scaler", scaler), ("hinges", hinges))
    steps = [(name, step) for name, step in named_steps if step is not None]
    model = Model.of(
        estimator, steps, feature_names=table.feature_names, method=entry.name,
        target=-1 if table.target is None else table.target,
        facts=facts_of_fit(estimator, table, certificate, settings),
    )  # fmt: skip
    if out is not None and (not is_cut or is_replaced(out, force)):
        say(_saved(model, out, keep_data, "what was done by then" if is_cut else "the whole fit"))
    if not is_cut:
        _print(f"{entry.title_for(settings)} ({settings_text(settings)})", model, table, certificate)
        if certificate is not None and claim is not None:
            _write_claim(certificate, data, claim, model=model, inputs=() if force else (data,))
    end_if_stopped(is_cut or certificate is None)


def _is_cut(estimator: BaseEstimator) -> bool:
    """True if Ctrl-C ended the fit."""
    from formulations.language.solution import Status
    from polyopt.estimators.status import status_of

    return status_of(estimator) is Status.INTERRUPTED


def _certified(estimator: Any) -> Certificate | None:
    """Return the certificate, or None if Ctrl-C leaves no time for it or for those of all pairs."""
    if len(estimator.classes_) > 2 and _is_cut(estimator):
        return None
    try:
        found: Certificate = estimator.certificate()
    except KeyboardInterrupt:
        return None
    return found


def _print(title: str, model: Model, table: Dataset, certificate: Certificate | None) -> None:
    """Print the method, its training error and its certificate."""
    wrong, n = int((model.predict(table.X) != table.y).sum()), len(table.y)
    console = output()
    console.print(f"{title}, fitted to {table.name}")
    console.print(f"training error {100 * wrong / n:.2f} % ({wrong} of {n} samples)\n")
    if certificate is not None:
        console.print(certificate.table())
    if len(model.pairs) > 1:
        console.print(
            f"{len(model.estimator.classes_)} classes: rules and explanations are of each of the "
            f"{len(model.pairs)} pairs."
        )


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
    return f"saved: {out} ({filesize.decimal(out.stat().st_size)}), {inside}"


def certify(
    model: Annotated[Path | None, Argument(help="Model saved by polyopt fit --keep-data.")] = None,
    data: Annotated[str | None, Argument(help="The data it was fitted to: a name or a file.")] = None,
    out: Annotated[Path | None, Option(help="File to write the claim in, such as claim.json.")] = None,
    coefficients: Annotated[
        Path | None,
        Option(
            help="Another package's solution in the place of a model: weights and intercept in CSV or .npy, "
            "or an .npz with w and b, and multipliers if there are any."
        ),
    ] = None,
    of: Annotated[
        str | None,
        Option("--data", help="The data that it is of, as that package saw them: a name or a file."),
    ] = None,
    program: Annotated[str, Option(help=f"Its program: {', '.join(PROGRAMS)}.")] = next(iter(PROGRAMS)),
    positive: Annotated[
        str | None, Option(help="Label where w'x + b is positive; by default the second in order.")
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
            _write_claim(certificate, data, out, model=found, inputs=() if force else (data,))
    elif coefficients is not None and of is not None and len(inputs) == 2:
        check_is_file(coefficients, "coefficients")
        check_data(of, target, form)
        given |= {"positive": positive, "time_limit": time_limit}
        certificate, column = _of_solution(coefficients, of, program, given, target, form)
        output().print(certificate.table())
        if out is not None:
            _write_claim(certificate, of, out, target=column, inputs=() if force else inputs)
    else:
        raise ValueError("certify takes MODEL and DATA, or --coefficients FILE and --data DATA")


def _of_solution(
    coefficients: Path, data: str, program: str, given: dict[str, Any], target: str | None, form: Form
) -> tuple[Certificate, str | int]:
    """Return the certificate of another package's solution, and the label column of the data."""
    if program not in PROGRAMS:
        raise ValueError(f"--program must be one of {', '.join(PROGRAMS)}, not {program!r}")
    from polyopt.foreign.certify import certify

    known = (*PROGRAMS[program].settings, "positive", "time_limit")
    if unknown := [name for name in given if name not in known]:
        raise ValueError(
            f"{unknown[0]} is no setting of {program}, which has {', '.join(PROGRAMS[program].settings)}"
        )
    table, found, _ = load_prepared(data, target, form)
    certificate = certify(program, (found.X, found.y), coefficients, **given)
    return certificate, -1 if table.target is None else table.target


def _write_claim(
    certificate: Certificate, data: str, out: Path, *, model: Model | None = None, target: str | int = -1,
    inputs: Sequence[str] = (),
) -> None:  # fmt: skip
    """Write the claim of a model or of another package's solution, have it checked, and say how to do so.

    If the checker cannot read the data as they are (names of data sets, texts, gaps, compressed files), the
    samples that the machine saw are written beside the claim, and not over the `inputs`.
    """
    from polyopt.check.check import Refused, check
    from polyopt.datasets import is_svmlight, open_source

    scaler = None if model is None else model.scaler
    file, steps = Path(data), list[str]()
    plain = file.is_file() and (model is None or all(step is scaler for _, step in model.steps))
    if plain:
        target = target if model is None else model.target
        table = None if is_svmlight(open_source(data)) else data
        try:
            for claim in certificate.save(out, scaler=scaler, table=table, target=target):
                check(claim, data, steps.append)
        except (Refused, ValueError):
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
