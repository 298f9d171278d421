"""A state solved: the fitted estimator, its certificate, and how long both took."""

import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from formulations.language.clock import Clock, running
from polyopt.base.progress import Viewer, points_to, steps
from polyopt.certificates.certificate import Certificate
from polyopt.estimators.status import solutions_of
from polyopt.lab.state import State
from polyopt.methods import Method

# Python keeps its list of warnings for the whole process.
_one_at_a_time = threading.Lock()
_POLL_SECONDS = 0.05  # between two looks at whether a run that waits was stopped


@dataclass(frozen=True)
class Fitted:
    """A solved state, with the seconds of the fit and its certificate.

    `settings` are the estimator's, with what the data chose; if `is_stopped`, the best point was kept.
    """

    state: State
    method: Method
    settings: dict[str, Any]
    estimator: Any
    certificate: Certificate
    warnings: tuple[str, ...]
    seconds: float
    is_stopped: bool

    @property
    def shown_settings(self) -> dict[str, Any]:
        """The settings that the lab shows, with what the data chose."""
        chosen = {name: self.settings.get(name, value) for name, value in self.state.settings.items()}
        if "gamma" in self.tuned:
            chosen["gamma"] = float(self.estimator.gamma_)
        label = getattr(self.estimator, "inside_label_", None) if "inside_label" in chosen else None
        return {**chosen, **({"inside_label": int(label)} if label is not None else {})}

    @property
    def tuned(self) -> list[str]:
        """The settings that the data chose."""
        return [name for name, value in of_kernel(self.state).items() if value is None]

    @cached_property
    def duals(self) -> pd.DataFrame:
        """The multipliers, made once."""
        return self.estimator.duals_


def of_kernel(state: State) -> dict[str, Any]:
    """Return the settings of a state without those of other kernels than its own."""
    kernel, shown = state.settings.get("kernel"), state.machine.settings
    return {
        name: value for name, value in state.settings.items()
        if not shown[name].kernels or kernel in shown[name].kernels
    }  # fmt: skip


def fit_state(
    state: State, run: Clock, *, seeing: Viewer | None = None, begin: NDArray[np.int64] | None = None
) -> Fitted:
    """Solve a state and certify the answer; `run` stops it, by a KeyboardInterrupt before the first point.

    `seeing` gets the points of the fit, not those of a search for settings before it; an alternation begins
    at the assignment `begin` (n,).
    """
    method = state.machine.entry(state.settings)
    with _turn(run), running(run), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        given = {name: value for name, value in of_kernel(state).items() if value is not None}
        settings = method.settings_for(state.X, state.y, **given)
        held = state.assignment
        first = begin if held is None else held
        machine = method.make(state.solver if first is None else "exact", settings, seed=state.seed)
        with nullcontext() if seeing is None else points_to(seeing):
            if first is None:
                estimator = machine.fit(state.X, state.y)
            else:
                estimator = machine.fit_from(state.X, state.y, first, hold=held is not None)
        certificate = estimator.certificate()
        seconds = time.perf_counter() - start
    sentences = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    return Fitted(
        state, method, settings, estimator, certificate, tuple(dict.fromkeys(sentences)), seconds, run.is_over
    )


@contextmanager
def _turn(run: Clock) -> Iterator[None]:
    """Wait until no other solves, and say so; a run that is stopped waits no longer."""
    if not _one_at_a_time.acquire(timeout=_POLL_SECONDS):
        with steps(1, "turn") as step:
            step.name("waits until another page's solver has ended")
            while not _one_at_a_time.acquire(timeout=_POLL_SECONDS):
                if run.is_over:
                    raise KeyboardInterrupt
    try:
        yield
    finally:
        _one_at_a_time.release()


def status_of(fitted: Fitted) -> str:
    """Return the solver's status as a sentence."""
    return " ".join(dict.fromkeys(str(solution.status) for solution in solutions_of(fitted.estimator)))
