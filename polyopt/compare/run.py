"""`compare`: the exact solution and the fast one of the same program, side by side."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from formulations import arguments
from formulations.samples import two_blobs
from formulations.solution import Status
from polyopt.compare.comparison import Comparison, Row
from polyopt.compare.data import Prepared, prepare
from polyopt.methods.registry import BUILT_IN, DEFAULT_METHODS, Method, answering_for, find_method
from polyopt.methods.status import status_of

if TYPE_CHECKING:
    from polyopt.datasets import Dataset

__all__ = ["DEFAULT_DATA", "compare"]

DEFAULT_DATA = ("ionosphere", "wbc")
PROVABLE_DATA = ("wdbc",)  # where a search over all assignments ends in seconds
_PROOF = 60.0  # seconds for a search that may never end, unless a limit is given

_NUMBERS = ("objective", "bound", "gap", "relative_gap", "residual", "test_error")


def compare(
    data: str | Dataset | Iterable[str | Dataset] = DEFAULT_DATA,
    methods: Iterable[str] | None = None,
    *,
    seed: int = 0,
    time_limit: float | None = None,
    prove: bool = False,
    on_start: Callable[[str, str, str], None] | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> Comparison:
    """Solve each method's program exactly and by its fast solver, and certify both.

    Parameters
    ----------
    data : str, Dataset, or several of them
        Names of data sets, or data sets.
    methods : iterable of str, optional
        Names of methods, see :data:`polyopt.compare.METHODS`; :data:`polyopt.compare.DEFAULT_METHODS`
        by default.
    seed : int
        Seed of the splits and of the stochastic solvers.
    time_limit : float, optional
        Seconds at most for each fit; the point reached is kept, and certified as it is.
    prove : bool
        Whether methods that are not convex are also solved by search over all assignments, which proves
        the optimum on small data, and a bound on it elsewhere; 60 seconds at most unless `time_limit`
        says otherwise.
    on_start : callable, optional
        Called with data, method and solver before each fit.
    on_row : callable, optional
        Called with each :class:`Row` when it is done.

    Returns
    -------
    Comparison
        After Ctrl-C, with the rows done by then.

    Raises
    ------
    ValueError
        An unknown data set or method, or data that no method can use. A method that cannot use a
        data set which others can has a row that says so.
    """
    began = time.perf_counter()
    time_limit = arguments.seconds(time_limit)
    chosen = [find_method(name) for name in dict.fromkeys(methods or DEFAULT_METHODS)]
    several = [data] if not isinstance(data, Iterable) or isinstance(data, str) else list(data)
    datasets = tuple(prepare(one, seed) for one in several)
    rows: list[Row] = []
    interrupted = False
    try:
        for method in chosen:
            _warm_up(method, prove, on_start)
        for prepared in datasets:
            for method in chosen:
                settings, wrong = _settings(method, prepared)
                for solver in method.solvers(prove):
                    if on_start is not None:
                        on_start(prepared.name, method.name, solver)
                    endless = solver == method.proving or (method.is_integer and solver == "exact")
                    seconds = _PROOF if time_limit is None and endless else time_limit
                    given = {"settings": settings, "time_limit": seconds, "seed": seed}
                    row = _fit(method, solver, given, prepared, wrong)
                    rows.append(row)
                    if on_row is not None:
                        on_row(row)
                    if row.status == str(Status.INTERRUPTED):
                        raise KeyboardInterrupt
    except KeyboardInterrupt:
        interrupted = True
    whole = time.perf_counter() - began
    return Comparison(tuple(rows), datasets, seed, time_limit, whole, interrupted)


def _settings(method: Method, data: Prepared) -> tuple[Mapping[str, Any], str]:
    """The method's settings for these data; and why there are none, of a method that is another package's."""
    if method.name in BUILT_IN:
        return method.settings_for(data.X_train, data.y_train), ""
    try:
        with answering_for(method):
            return method.settings_for(data.X_train, data.y_train), ""
    except RuntimeError as error:
        return method.settings, str(error)


def _warm_up(method: Method, prove: bool, on_start: Callable[[str, str, str], None] | None) -> None:
    """Import and compile what the method needs, so that neither is in the seconds of its fits."""
    if on_start is not None:
        on_start("", method.name, "compiling")
    X, y = two_blobs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for solver in method.solvers(prove):
            # What another package's method raises here it raises again, for its row to tell.
            with nullcontext() if method.name in BUILT_IN else suppress(Exception):
                method.make(solver, method.settings_for(X, y)).fit(X, y)


def _fit(method: Method, solver: str, given: Mapping[str, Any], data: Prepared, wrong: str = "") -> Row:
    """Fit and certify; or, where that cannot be done or something is `wrong`, a row that says so."""
    known: dict[str, Any] = {
        "data": data.name,
        "method": method.name,
        "solver": solver,
        "program": method.programs[0],
        "settings": settings_text(given["settings"]),
        "counts": method.counts,
    }
    started = time.perf_counter()
    try:
        if wrong:
            raise RuntimeError(wrong)
        with answering_for(method), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the row's status says it
            estimator = method.make(solver, **given)
            started = time.perf_counter()
            estimator.fit(data.X_train, data.y_train)
            seconds = time.perf_counter() - started
        with answering_for(method):
            return _judged(method, estimator, seconds, data, known)
    except (ValueError, RuntimeError, MemoryError) as error:
        nothing: dict[str, Any] = dict.fromkeys(_NUMBERS, np.nan)
        return Row(
            **known,
            **nothing,
            residual_at="",
            claim="none",
            complexity=None,
            seconds=time.perf_counter() - started,
            status=str(error),
        )


def _judged(method: Method, estimator: Any, seconds: float, data: Prepared, known: Mapping[str, Any]) -> Row:
    """The row of a fitted estimator."""
    certificate = estimator.certificate()
    worst = certificate.worst
    return Row(
        **known,
        objective=float(certificate.primal_value),
        bound=float(certificate.dual_value),
        gap=float(certificate.gap),
        relative_gap=float(certificate.relative_gap),
        residual=np.nan if worst is None else float(worst.relative),
        residual_at="" if worst is None or worst.relative == 0.0 else worst.label,
        claim=certificate.claim.name.lower(),
        complexity=method.complexity(estimator),
        test_error=float(1.0 - estimator.score(data.X_test, data.y_test)),
        seconds=seconds,
        status=str(status_of(estimator)),
        estimator=estimator,
    )


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings as ``C=1, kernel=rbf, B=8.47``; those that are None are left out."""
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in settings.items()
        if value is not None
    )
