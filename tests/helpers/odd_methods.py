"""Methods whose fits are stopped or fail, a family of programs that is stopped, and cross-checks."""

import signal
from contextlib import suppress
from dataclasses import replace

from formulations.language.clock import current_clock
from polyopt import SVM
from polyopt.crosschecks import Crosscheck
from polyopt.methods.registry import BUILT_IN

CHECKS = [
    Crosscheck("T90", "toys", "=", 1e-6, lambda seed: (3.0, 3.0), "A toy holds", "Toys (2001)"),
    Crosscheck("T91", "toys", "=", 1e-6, lambda seed: (3.0, 4.0), "A toy breaks", "Toys (2001)"),
]


def pairs(seed=0):
    """State the programs of a family that is stopped."""
    with suppress(KeyboardInterrupt):  # as C code may do
        signal.raise_signal(signal.SIGTERM)
    return []


class Interrupted(SVM):
    """Ctrl-C comes in each of its fits to 45 samples or more, and it has a point."""

    number, has_point = signal.SIGINT, True

    def _fit_binary(self, X, y, weights, rows):
        try:
            if len(y) >= 45:  # not the samples by which a comparison imports modules
                signal.raise_signal(self.number)
        except KeyboardInterrupt:
            if not self.has_point:
                raise
            current_clock().stop()
        super()._fit_binary(X, y, weights, rows)


class Terminated(Interrupted):
    """SIGTERM comes."""

    number = signal.SIGTERM


class InterruptedEarly(Interrupted):
    """It has no point yet."""

    has_point = False


class TerminatedEarly(Terminated):
    """It has no point yet."""

    has_point = False


class Misread(SVM):
    """What it imports turns Ctrl-C into another error."""

    error = ImportError

    def _fit_binary(self, X, y, weights, rows):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise self.error("partially initialised") from None


class MisreadLater(Misread):
    """Its solver does so."""

    error = RuntimeError


class Undrawn(SVM):
    """Ctrl-C comes when its picture is drawn."""

    @property
    def history_(self):
        signal.raise_signal(signal.SIGINT)


class Refusing(SVM):
    """Its exact solver fails."""

    def _fit_binary(self, X, y, weights, rows):
        if self.solver == "exact":
            raise ValueError("refused <here>")
        super()._fit_binary(X, y, weights, rows)


class Timed(SVM):
    """It keeps the time limit of each of its fits."""

    limits = []  # noqa: RUF012

    def _fit_binary(self, X, y, weights, rows):
        self.limits.append(self.time_limit)
        super()._fit_binary(X, y, weights, rows)


def method(kind, **changes):
    """The entry of a class above, named as the class is."""
    return replace(BUILT_IN["svm"], name=kind.__name__.lower(), home=f"{__name__}.{kind.__name__}", **changes)
