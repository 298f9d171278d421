"""Iteration caps: ``max_iter`` caps what ``n_iter_`` counts and ``history_`` records, for every method.

The cases are those of all methods and solvers, and further parameters that change the iterations.
"""

import warnings

import numpy as np
import pytest
from helpers.methods import CASES
from sklearn.exceptions import ConvergenceWarning

from formulations.language.solution import Status
from polyopt import PLUME

LARGE = 50_000  # iterations, more than any of the runs below needs
UNITS = ("iteration", "epoch", "pass", "round", "step")
OPTIONS = {
    "cpm": [
        {"penalty__l1": 0.3},
        {"penalty__max_features": 1},
        {"penalty__integers": 3},
        {"sgd__average": False},
    ],
    "logistic": [{"penalty__l1": 0.3}, {"penalty__group": 0.3}, {"max_numbers": 8}, {"n_faces": 1}],
    "plume": [
        {"gamma": 2.0, "em__polish": False},
        {"em__anneal": False},
        {"em__anneal": False, "em__polish": False},
    ],
    "polyceptron": [{"passes__pocket": False}],
}
FORBIDDEN = [
    ("cpm", solver, name) for solver in ("global", "sgd") for name in ("l1", "max_features", "integers")
]
SLOW = [("plume", "exact", "polish")]  # hundreds of explicit programs


def capped_cases():
    for case in CASES:
        if "max_iter" not in case.known({"max_iter": 1}) or case.solver == "global":  # which it does not cap
            continue
        for options in [{}, *OPTIONS.get(case.name, [])]:
            words = [name.split("__")[-1] for name in options]
            if not any((case.name, case.solver, word) in (*FORBIDDEN, *SLOW) for word in words):
                yield pytest.param(case, options, id="-".join([str(case), *words]))


RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.where((X**2).sum(axis=1) + 0.5 * RNG.normal(size=40) > 2.5, 1, 0)


def fitted(case, options, max_iter):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return case.make(max_iter=max_iter).set_params(**options).fit(X, Y)


def iterations_of_starts(machine):
    """The number of iterations of each start by their rows; n_iter_ if the solver records nothing."""
    history = machine.history_
    if history.empty:
        return [machine.n_iter_]
    unit = next(name for name in UNITS if name in history)
    if machine.solver_ == "decomposition":  # a row for some iterations, and for the last one
        assert history[unit].is_monotonic_increasing
        return [int(history[unit].iloc[-1])]
    rows = history[history[unit] > 0]
    starts = rows["start"] if "start" in rows else np.zeros(len(rows))
    for _, own in rows.groupby(starts):
        assert own[unit].tolist() == list(range(1, len(own) + 1))
    return np.unique(starts, return_counts=True)[1].tolist()


@pytest.mark.parametrize(("case", "options"), list(capped_cases()))
def test_max_iter_caps_iterations(case, options):
    """A start makes at most `max_iter` iterations, each a row of ``history_``; ``n_iter_`` counts them."""
    whole = fitted(case, options, LARGE)
    assert whole.solution_.status is not Status.ITERATION_LIMIT
    assert whole.n_iter_ == sum(iterations_of_starts(whole))
    one_less = max(1, max(iterations_of_starts(whole)) - 1)
    for max_iter in (1, one_less):
        machine = fitted(case, options, max_iter)
        starts = iterations_of_starts(machine)
        assert max(starts) <= max_iter
        assert machine.n_iter_ == sum(starts)
        limited = machine.solution_.status is Status.ITERATION_LIMIT
        assert not limited or max(starts) == max_iter
        if max_iter == 1 and len(starts) == 1 and whole.n_iter_ > 1:
            assert limited


@pytest.mark.parametrize("options", [{}, {"em__polish": False}, {"em__anneal": False}], ids=str)
def test_capped_run_warns(options):
    """The end of a run by the cap is told by a ConvergenceWarning, whatever part of it was capped."""
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        PLUME(n_init=1, max_iter=2, random_state=0).set_params(**options).fit(X, Y)
