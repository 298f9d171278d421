"""Warnings of a fit that did not reach the optimum."""

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning

from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt import SVM

ENDS = {  # settings, status, and the sentence of the warning or None
    "inaccurate": ({"C": 1e8}, Status.INACCURATE, "short of the tolerance"),
    "inaccurate but proven": ({"C": 1e8, "kernel": "linear"}, Status.INACCURATE, None),
    "stalled": ({"C": 1e16}, Status.STALLED, "no closer in double precision"),
    "exact, inaccurate": ({"C": 1e8, "solver": "exact"}, Status.INACCURATE, "Short of exact"),
    "exact, stalled": ({"C": 1e12, "solver": "exact"}, Status.STALLED, "Short of exact.*unit variance"),
    "exact, proven": ({"solver": "exact"}, Status.SOLVED, None),
}


@pytest.mark.parametrize(("settings", "status", "sentence"), ENDS.values(), ids=ENDS)
def test_unproven_end_warns(settings, status, sentence):
    """A fit that rounding ends warns of it unless its certificate proves the optimum."""
    X, y = two_blobs(n=40, separation=0.5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine = SVM(tol=1e-9, **settings).fit(X, y)
    assert machine.solution_.status is status
    assert len(caught) == (sentence is not None)
    if sentence:
        with pytest.warns(ConvergenceWarning, match=sentence):
            SVM(tol=1e-9, **settings).fit(X, y)
