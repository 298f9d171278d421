"""What a search over logistic polytopes takes when the samples held out cannot tell candidates apart."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from polyopt import FacePenalty, LogisticPolytopes, LogisticSearch
from polyopt.polyhedral.logistic_search import Candidate, Fit, Search

NOISE = np.random.default_rng(0).normal(size=400)
NOISE -= NOISE.mean()


def best(known, max_numbers=None):
    """The choice among candidates of known mean loss, spread around it, and numbers."""
    fits = {
        (candidate, 0): Fit([], mean + spread * NOISE, np.ones(len(NOISE)), numbers)
        for candidate, (mean, spread, numbers) in known.items()
    }
    return Search({}, {}, [0], 0, 1.0, 2, max_numbers, 0, fits).best()


DENSE = Candidate((0, 1), 1.0)
# The difference of spreads 1 and 0 has a standard error of about 1/20.


def test_of_a_path_the_fullest_that_is_not_clearly_worse_is_taken():
    few, fewer = (DENSE._replace(numbers=count) for count in (6, 3))
    elsewhere = Candidate((0, 2), 1.0, 0)
    known = {
        DENSE: (0.60, 1.0, 9),
        few: (0.51, 1.0, 6),
        fewer: (0.50, 0.0, 3),
        elsewhere: (0.51, 1.0, 40),
    }
    assert best(known) == few  # the dense one is clearly worse, and the other structure has a path of its own
    assert best(known, max_numbers=5) == fewer
    assert best(known, max_numbers=2) is None


@pytest.mark.parametrize("classes", [2, 3])
def test_a_search_has_the_price_of_its_machine(classes):
    """A price that leaves no weight in a fit to all samples leaves none on any split."""
    X, y = load_wine(return_X_y=True)
    some = np.isin(y, np.unique(y)[:classes])
    X, y = StandardScaler().fit_transform(X[some]), y[some]
    # At w = 0 the slope in a weight is at most the sum of |x|: above it the price holds every weight at 0.
    price = float(np.abs(X).sum(axis=0).max())
    machine = LogisticPolytopes(penalty=FacePenalty(l1=price), n_init=1, random_state=0)
    search = LogisticSearch(machine, max_faces=1, cv=2).fit(X, y)
    pairs = classes * (classes - 1) // 2
    assert max(search.cv_results_["n_numbers"]) <= pairs  # biases alone
    assert search.n_numbers_ <= pairs
    free = LogisticSearch(LogisticPolytopes(n_init=1, random_state=0), max_faces=1, cv=2).fit(X, y)
    assert max(free.cv_results_["n_numbers"]) > pairs


def test_a_class_of_one_sample_is_told_where_some_are_to_be_held_out():
    X = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.raises(ValueError, match="needs at least two of every class"):
        LogisticSearch().fit(X, np.arange(9) == 0)
