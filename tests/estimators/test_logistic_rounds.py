"""What a search over logistic polytopes takes when the samples held out cannot tell candidates apart."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from polyopt import FacePenalty, LogisticPolytopes, LogisticSearch
from polyopt.polyhedral.logistic_rounds import Candidate, SearchRounds

NOISE = np.random.default_rng(0).normal(size=400)
NOISE -= NOISE.mean()


class Tried:
    """Candidates with losses of which the mean, and the spread around it, are known."""

    def __init__(self, known):
        self.known = known  # candidate: mean loss, its spread, numbers

    def are_done(self, candidate, splits):
        return candidate in self.known

    def losses(self, candidate, splits):
        mean, spread, _ = self.known[candidate]
        return mean + spread * NOISE, np.ones(len(NOISE))

    def loss(self, candidate, splits):
        return self.known[candidate][0]

    def numbers(self, candidate, splits):
        return self.known[candidate][2]


def best(known, max_numbers=None, n_knots=(0, 3)):
    rounds = SearchRounds(Tried(known), 1.0, 1, 0, 2, max_numbers, n_knots)
    rounds.candidates = list(known)
    return rounds.best()


DENSE, BENT = Candidate((0, 1), 1.0, 0), Candidate((0, 1), 1.0, 3)
# The difference of spreads 1 and 0 has a standard error of about 1/20.


def test_knots_come_in_only_where_they_clearly_pay():
    assert best({DENSE: (0.51, 1.0, 9), BENT: (0.50, 0.0, 20)}) == DENSE
    assert best({DENSE: (0.60, 1.0, 9), BENT: (0.50, 0.0, 20)}) == BENT
    assert best({DENSE: (0.50, 1.0, 9), BENT: (0.51, 0.0, 20)}) == DENSE
    # With no spread in the difference any gain is clear.
    assert best({DENSE: (0.51, 1.0, 9), BENT: (0.50, 1.0, 20)}) == BENT


def test_the_fewest_knots_of_those_that_are_not_clearly_worse_are_taken():
    more = Candidate((0, 1), 1.0, 9)
    known = {more: (0.50, 0.0, 30), BENT: (0.51, 1.0, 20), DENSE: (0.60, 1.0, 9)}
    assert best(known, n_knots=(0, 3, 9)) == BENT


def test_of_a_path_the_fullest_that_is_not_clearly_worse_is_taken():
    few, fewer = (DENSE._replace(max_numbers=count) for count in (6, 3))
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
    assert search.results_["numbers"].max() <= pairs  # biases alone
    assert search.n_numbers_ <= pairs
    free = LogisticSearch(LogisticPolytopes(n_init=1, random_state=0), max_faces=1, cv=2).fit(X, y)
    assert free.results_["numbers"].max() > pairs


def test_a_class_of_one_sample_is_told_where_some_are_to_be_held_out():
    X = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.raises(ValueError, match="needs at least two of every class"):
        LogisticSearch().fit(X, np.arange(9) == 0)
