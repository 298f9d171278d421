"""Iteration caps: ``max_iter`` caps what ``n_iter_`` counts and ``history_`` records, for every estimator.

The estimators and their solvers are read off the package, so that a new one is covered.
"""

import warnings
from inspect import signature

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import polyopt
from formulations.language.solution import Status

LARGE = 50_000  # iterations, more than any of the runs below needs
UNCAPPED = ("auto", "global")  # an alias, and searches whose max_iter caps nothing
SAMPLED = ("decomposition",)  # solvers with a row for some iterations and for the last one
UNITS = ("iteration", "epoch", "pass", "round", "step")
HINGE = [{}, {"kernel": "linear"}]
OPTIONS = {
    "ConvexPolytopeMachine": [
        {},
        {"penalty__l1": 0.3},
        {"penalty__max_features": 1},
        {"penalty__integers": 3},
        {"sgd__average": False},
    ],
    "LogisticPolytopes": [
        {},
        {"penalty__l1": 0.3},
        {"penalty__group": 0.3},
        {"max_numbers": 8},
        {"n_faces": 1},
    ],
    "PLUME": [
        {"gamma": 4.0},
        {"gamma": 2.0, "em__polish": False},
        {"em__anneal": False},
        {"em__anneal": False, "em__polish": False},
    ],
    "Polyceptron": [{}, {"passes__pocket": False}],
    "RelativeMarginMachine": HINGE,
    "SVM": HINGE,
    "SigmaSVM": HINGE,
}
SLOW = [("exact", False)]  # solver and `polish`: hundreds of explicit programs


def machines():
    for name in sorted(polyopt.__all__):
        kind = getattr(polyopt, name)
        if not (isinstance(kind, type) and hasattr(kind, "fit") and "max_iter" in signature(kind).parameters):
            continue
        constraint = kind._parameter_constraints.get("solver")
        solvers = sorted(set(constraint[0].options) - set(UNCAPPED)) if constraint else [None]
        for solver in solvers:
            for options in OPTIONS.get(name, [{}]):
                if (solver, options.get("em__polish")) in SLOW:
                    continue
                chosen = options if solver is None else {"solver": solver, **options}
                words = [str(solver), *(f"{key}={value}" for key, value in options.items())]
                yield pytest.param(kind, chosen, id=f"{name}-{'-'.join(words)}")


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, np.where((X**2).sum(axis=1) + 0.5 * rng.normal(size=40) > 2.5, 1, 0)


def fitted(kind, options, samples, max_iter):
    own = {
        name: value
        for name, value in (("n_init", 1), ("random_state", 0))
        if name in signature(kind).parameters
    }
    machine = kind(max_iter=max_iter, **own).set_params(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return machine.fit(*samples)
        except ValueError as error:
            pytest.skip(str(error))


def iterations_of_starts(machine):
    """The number of iterations of each start by their rows; None if the solver records nothing."""
    history = machine.history_
    if history.empty:
        return None
    unit = next(name for name in UNITS if name in history)
    if machine.solver_ in SAMPLED:
        assert history[unit].is_monotonic_increasing
        return [int(history[unit].iloc[-1])]
    rows = history[history[unit] > 0]
    starts = rows["start"] if "start" in rows else np.zeros(len(rows))
    for _, own in rows.groupby(starts):
        assert own[unit].tolist() == list(range(1, len(own) + 1))
    return np.unique(starts, return_counts=True)[1].tolist()


@pytest.mark.parametrize(("kind", "options"), list(machines()))
def test_max_iter_caps_what_is_counted_and_recorded(kind, options, samples):
    """A start makes at most `max_iter` iterations, each a row of ``history_``; ``n_iter_`` counts them."""
    whole = fitted(kind, options, samples, LARGE)
    for max_iter in (1, 2, 3, LARGE):
        machine = whole if max_iter == LARGE else fitted(kind, options, samples, max_iter)
        starts = iterations_of_starts(machine)
        if starts is None:
            starts = [machine.n_iter_]
        assert max(starts) <= max_iter
        assert machine.n_iter_ == sum(starts)
        limited = machine.solution_.status is Status.ITERATION_LIMIT
        assert not limited or max(starts) == max_iter
        if len(starts) == 1 and whole.n_iter_ > max_iter:
            assert limited
    assert whole.solution_.status is not Status.ITERATION_LIMIT


@pytest.mark.parametrize("options", [{}, {"em__polish": False}, {"em__anneal": False}])
def test_a_run_that_the_cap_ends_warns(options, samples):
    """The end of a run by the cap is told by a ConvergenceWarning."""
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        polyopt.PLUME(n_init=1, max_iter=2, random_state=0).set_params(**options).fit(*samples)
