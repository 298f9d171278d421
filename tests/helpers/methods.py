"""Every method with each of its solvers, and small data sets that all of them are fitted to.

The cases are read off the registry: a method is tested by being registered.
"""

import re
import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from formulations.language.toy_data import two_blobs
from polyopt.methods import METHODS


@dataclass(frozen=True, order=True)
class Case:
    """A method and one of its solvers, or "auto"."""

    name: str
    solver: str

    @property
    def method(self):
        return METHODS[self.name]

    def make(self, **settings):
        """Return an unfitted machine, with one start and a bound that some outputs reach."""
        machine = self.method.make(self.solver, self.method.settings)
        small = {"n_init": 1, "n_faces": 2, "B": 1.2, "inside_label": None, **settings}
        return machine.set_params(**self.known(small))

    def known(self, settings):
        """Return those of the settings that the method has."""
        names = self.method.estimator_class().get_params()
        return {name: value for name, value in settings.items() if name in names}

    def __str__(self):
        return f"{self.name}-{self.solver}"


def solvers_of(name):
    """The solvers of a method that take its kernel, without "auto", by the error that lists them."""
    with pytest.raises(ValueError, match="'solver' parameter") as refused:
        METHODS[name].make("none", METHODS[name].settings).fit([[0.0], [1.0]], [0, 1])
    [listed] = re.findall("{(.*)}", str(refused.value))
    is_linear = METHODS[name].settings.get("kernel", "linear") == "linear"
    left_out = {"auto"} if is_linear else {"auto", "interior-point"}
    return sorted(set(re.findall("[a-z-]+", listed)) - left_out)


NAMES = list(METHODS)
CASES = [Case(name, solver) for name in NAMES for solver in solvers_of(name)]


def usual(name):
    """The case of a method with its fast solver."""
    return Case(name, METHODS[name].fast)


@dataclass(frozen=True)
class Samples:
    """Samples, labels, and weights or None."""

    X: object
    y: np.ndarray
    weights: np.ndarray | None = None

    def svmlight(self):
        """Return the lines of a file with these samples, numbers to the last digit."""
        rows, lines = sp.csr_array(self.X), []
        for label, start, end in zip(self.y.tolist(), rows.indptr, rows.indptr[1:], strict=False):
            entries = zip(rows.indices[start:end] + 1, rows.data[start:end].tolist(), strict=True)
            lines.append(" ".join([repr(label), *(f"{column}:{value!r}" for column, value in entries)]))
        return "\n".join(lines) + "\n"


def _data():
    X, y = two_blobs(n=24, seed=0)
    apart = two_blobs(n=24, separation=8.0, seed=1)
    twice = np.column_stack([np.vstack([X[:12], X[:12]]), np.full(24, 2.0)])  # each with both labels
    thirds = np.arange(24) % 3
    middles = X + 2.0 * np.column_stack([thirds == 1, thirds == 2, thirds == 0])
    draw = np.random.default_rng(0).random((2, 24, 6))
    counts = sp.csr_array(np.where(draw[0] < 0.4, draw[1], 0.0))
    signs = np.sign(counts @ [1.0, -1.0, 1.0, -1.0, 1.0, -1.0] + 0.01)
    return {
        "overlapping": Samples(X, y),
        "separable": Samples(*apart),
        "weighted": Samples(X, y, np.arange(24) % 3 + 1.0),
        "degenerate": Samples(twice, np.append(y[:12], -y[:12])),
        "three classes": Samples(middles, thirds),
        "sparse": Samples(counts, signs),
    }


DATA = _data()


def fit(machine, data):
    """Fit a machine to data whose limits and advice are of no interest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return machine.fit(data.X, data.y, sample_weight=data.weights)


def assert_true_bounds(first, second):
    """Neither certificate proves more than the other's point: both are of problems with one optimum."""
    room = 1e-9 * max(abs(first.primal_value), abs(second.primal_value), 1.0)
    assert first.dual_value <= second.primal_value + room
    assert second.dual_value <= first.primal_value + room


@cache
def _fitted(case, data_name, settings):
    return fit(case.make(**dict(settings)), DATA[data_name])


@cache
def _certified(case, data_name, settings):
    return _fitted(case, data_name, settings).certificate()


def fitted(case, data_name="overlapping", **settings):
    """The machine of a case, fitted to a data set; the same fit is made once."""
    return _fitted(case, data_name, tuple(case.known(settings).items()))


def certified(case, data_name="overlapping", **settings):
    """Its certificate."""
    return _certified(case, data_name, tuple(case.known(settings).items()))
