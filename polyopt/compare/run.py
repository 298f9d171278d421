"""`compare`: the exact solution and the fast one of the same program, side by side."""

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from formulations.language import arguments
from formulations.language.clock import Clock, running
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.base.progress import Step, steps
from polyopt.compare.comparison import Comparison, Row
from polyopt.compare.data import Prepared, prepare
from polyopt.datasets import Dataset, load
from polyopt.estimators.status import status_of
from polyopt.methods.method import Method
from polyopt.methods.registry import DEFAULT_METHODS, MethodError, answering_for, find_method, for_kernel


def chosen_methods(names: Iterable[str], settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the methods to compare, and for each its settings among some parameters of estimators.

    If there is a ``kernel`` among the settings, the name of a linear machine stands for that machine with the
    kernel.
    """
    methods = [for_kernel(find_method(name), settings.get("kernel")) for name in dict.fromkeys(names)]
    by_method: dict[str, dict[str, Any]] = {method.name: {} for method in methods}
    for method in methods if settings else ():
        with answering_for(method):
            by_method[method.name] = {n: settings[n] for n in settings if n in method.parameters}
            method.check(by_method[method.name])
    used = {name for each in by_method.values() for name in each}
    for name in settings:
        if name not in used:
            raise ValueError(f"no compared method has the setting {name}; compared: {', '.join(by_method)}")
    return by_method


def settings_text(settings: Mapping[str, Any]) -> str:
    """Format settings as ``C=1, kernel=rbf, B=8.47``, without those that are None."""
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in settings.items()
        if value is not None
    )


def given_text(by_method: Mapping[str, Mapping[str, Any]]) -> str:
    """Format settings by method, such as ``C=10, n_faces=5 (cpm)``: methods are named unless all have one."""
    parts = []
    for name in dict.fromkeys(name for settings in by_method.values() for name in settings):
        methods = [method for method, settings in by_method.items() if name in settings]
        text = settings_text({name: by_method[methods[0]][name]}) or f"{name}=None"
        parts.append(text if len(methods) == len(by_method) else f"{text} ({', '.join(methods)})")
    return ", ".join(parts)


DEFAULT_DATA = ("ionosphere", "wbc")
PROVABLE_DATA = ("wdbc",)  # a search over all assignments ends in seconds

SEARCH_SECONDS = 60.0  # default time limit of a search over assignments or patterns
_NUMBERS = ("objective", "bound", "gap", "relative_gap", "residual", "test_error")


def compare(
    data: str | Dataset | Iterable[str | Dataset] = DEFAULT_DATA, methods: Iterable[str] | None = None, *,
    settings: Mapping[str, Any] | None = None, seed: int = 0, time_limit: float | None = None,
    prove: bool = False,
) -> Comparison:  # fmt: skip
    """Solve each method's program exactly and by its fast solver, and certify both.

    After Ctrl-C the comparison has the rows done by then. ValueError: an unknown data set or method, or data
    that no method can use; if only some methods can, the rows of the others say so.

    Parameters
    ----------
    data : str, Dataset, or several of them
        Data sets, or names of data sets.
    methods : iterable of str, optional
        Names of methods, see :data:`polyopt.compare.METHODS`; :data:`polyopt.compare.DEFAULT_METHODS`
        by default.
    settings : mapping of str to object, optional
        Parameters of the estimators that replace the methods' own, such as ``{"C": 10.0}``; each is for the
        methods that have it. With a kernel, a linear method's name stands for the same method's with kernels.
    seed : int
        Seed of the split into training and test part, unless there is a publisher's, and of the stochastic
        solvers.
    time_limit : float, optional
        Seconds at most for each fit; the point reached is kept, and certified as it is.
    prove : bool
        True to solve methods that are not convex also by a search over all assignments, which proves the
        optimum on small data and a bound on large data, by default for 60 seconds at most.
    """
    began = time.perf_counter()
    time_limit = arguments.seconds(time_limit)
    by_method = chosen_methods(methods or DEFAULT_METHODS, settings or {})
    several = [data] if not isinstance(data, Iterable) or isinstance(data, str) else list(data)
    loaded = [load(each) if isinstance(each, str) else each for each in several]
    datasets = tuple(prepare(dataset, seed) for dataset in _number_names(loaded))
    solvers = {name: find_method(name).solvers(prove) for name in by_method}
    rows: list[Row] = []
    interrupted = False

    try:
        n_fits = len(datasets) * sum(map(len, solvers.values()))
        with running(Clock()) as clock, steps(n_fits, "fit") as step:
            for name, chosen in by_method.items():
                step.name(f"importing {name}")
                _warm_up(find_method(name), prove, chosen)
            for prepared, (name, chosen) in product(datasets, by_method.items()):
                fits = _fits(
                    find_method(name), solvers[name], prepared, chosen, time_limit, seed, clock, step
                )
                for row in fits:
                    rows.append(row)
                    if row.status == str(Status.INTERRUPTED):
                        raise KeyboardInterrupt
                    step.done()
            _end_if_stopped(clock)
    except KeyboardInterrupt:
        interrupted = True
    seconds = time.perf_counter() - began
    return Comparison(tuple(rows), datasets, seed, seconds, interrupted, given_text(by_method))


def _fits(
    method: Method, solvers: Iterable[str], data: Prepared, chosen: Mapping[str, Any],
    time_limit: float | None, seed: int, clock: Clock, step: Step,
) -> Iterator[Row]:  # fmt: skip
    """Yield the row of a method by each solver; the proving one begins at the best point of the others."""
    settings, error = _settings(method, data, chosen)
    best: Row | None = None
    for solver in solvers:
        _end_if_stopped(clock)
        step.name(f"{method.name} {solver} on {data.name}")
        searches = solver == method.proving or (method.is_integer and solver == "exact")
        seconds = SEARCH_SECONDS if time_limit is None and searches else time_limit
        fit_args = {"settings": settings, "time_limit": seconds, "seed": seed}
        start = best.estimator if best is not None and solver == method.proving else None
        row = _fit(method, solver, fit_args, data, error, start)
        if row.estimator is not None and (best is None or row.objective < best.objective):
            best = row
        yield row


def _end_if_stopped(clock: Clock) -> None:
    """Raise KeyboardInterrupt after Ctrl-C in a fit or a search of settings that kept its point."""
    if clock.is_stopped:
        raise KeyboardInterrupt


def _number_names(datasets: list[Dataset]) -> list[Dataset]:
    """Return the data sets, the second of a name as ``name (2)``, since rows are found by name."""
    counts: dict[str, int] = {}
    numbered = []
    for data in datasets:
        count = counts[data.name] = counts.get(data.name, 0) + 1
        numbered.append(data if count == 1 else replace(data, name=f"{data.name} ({count})"))
    return numbered


def _settings(method: Method, data: Prepared, chosen: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return a method's settings for these data, and an error of another package's method as text."""
    try:
        with answering_for(method):
            return method.settings_for(data.X_train, data.y_train, **chosen), ""
    except MethodError as error:
        return {**method.settings, **chosen}, str(error)


def _warm_up(method: Method, prove: bool, chosen: Mapping[str, Any]) -> None:
    """Fit the method to a few samples by each solver, so that the seconds of its fits have no imports."""
    X, y = two_blobs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for solver in method.solvers(prove):
            # What is raised here, the fit raises again, for its row; or the settings do not suit these data.
            with suppress(Exception):
                method.make(solver, method.settings_for(X, y, **chosen)).fit(X, y)


def _fit(
    method: Method, solver: str, fit_args: Mapping[str, Any], data: Prepared, error: str, start: Any
) -> Row:
    """Fit and certify, from the machine `start` if the method can, or return a row with an error."""
    settings = fit_args["settings"]
    names: dict[str, Any] = {
        "data": data.name, "method": method.name, "solver": solver, "counts": method.counts,
        "program": method.programs_for(settings)[0], "settings": settings_text(settings),
        "seed": fit_args["seed"],
    }  # fmt: skip
    started = time.perf_counter()
    try:
        if error:
            raise RuntimeError(error)
        with answering_for(method), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the row's status says it
            estimator = method.make(solver, **fit_args)
            if start is not None and hasattr(estimator, "begin_from"):
                estimator.begin_from(start)
            started = time.perf_counter()
            estimator.fit(data.X_train, data.y_train)
            seconds = time.perf_counter() - started
        with answering_for(method):
            return _row(method, estimator, seconds, data, names)
    except (ValueError, RuntimeError, MemoryError) as failure:
        numbers: dict[str, Any] = dict.fromkeys(_NUMBERS, np.nan)
        return Row(
            **names, **numbers, residual_at="", claim="none", complexity=None,
            seconds=time.perf_counter() - started, status=str(failure),
        )  # fmt: skip


def _row(method: Method, estimator: Any, seconds: float, data: Prepared, names: Mapping[str, Any]) -> Row:
    """Return the row of a fitted estimator."""
    certificate = estimator.certificate()
    worst = certificate.worst
    if method.is_bound_stated and certificate.stated is not None:
        certificate = replace(certificate, dual_value=max(certificate.dual_value, certificate.stated))
    return Row(
        **names, objective=float(certificate.primal_value), bound=float(certificate.dual_value),
        gap=float(certificate.gap), relative_gap=float(certificate.relative_gap),
        residual=np.nan if worst is None else float(worst.relative),
        residual_at="" if worst is None or worst.relative == 0.0 else worst.label,
        claim=certificate.claim.name.lower(), complexity=method.complexity(estimator),
        test_error=float(1.0 - estimator.score(data.X_test, data.y_test)),
        seconds=seconds, status=str(status_of(estimator)), estimator=estimator,
    )  # fmt: skip
