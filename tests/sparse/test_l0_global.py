"""The proof of the L0 machine's optimum: a tree alone, and one that asks for a point where it stays open."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.l0 import degenerate, problem

from formulations.l0_data import as_l0_data
from formulations.language.clock import Clock
from formulations.language.solution import Status
from polyopt.sparse.certificate import score_bound
from polyopt.sparse.cross_entropy import solve_l0
from polyopt.sparse.proof import DEFAULT, Options, solve_globally, solve_integer_program

KERNELS = ["linear", "rbf", "indefinite", "rectangular"]
DEGENERATE = ["duplicates", "lonely", "one class", "zero kernel", "weightless"]


def data_of(kind, n=18):
    return as_l0_data(*(degenerate(kind) if kind in DEGENERATE else problem(kind, n=n, p=8)))


class Asked:
    """The cross-entropy method, which remembers what it answered."""

    def __init__(self, data):
        self.data, self.answers = data, []

    def __call__(self, seconds):
        self.answers.append(solve_l0(self.data, time_limit=seconds, seed=0)[0])
        return self.answers[-1]


def settled(data, limit=None, options=DEFAULT):
    asked = Asked(data)
    found, bound = solve_globally(data, asked, Clock(limit), options=options)
    return found, bound, asked.answers


@pytest.mark.parametrize("kind", [*KERNELS, *DEGENERATE])
def test_the_optimum_with_and_without_a_point(kind):
    """With and without a point it is the optimum of another solver."""
    data = data_of(kind)
    other, _ = solve_integer_program(data, Clock(None))
    for options, times in ((DEFAULT, 0), (Options(first_pivots=0), 1)):
        found, bound, answers = settled(data, options=options)
        assert len(answers) == times or (kind in DEGENERATE and not answers)  # its root may be a leaf
        assert found.status is Status.SOLVED
        assert found.objective == pytest.approx(other.objective, rel=1e-6, abs=1e-9)
        assert found.objective == pytest.approx(data.score(found["alpha"], float(found["b"])), rel=1e-12)
        assert bound <= found.objective
        assert bound == pytest.approx(found.objective, rel=1e-6)
        assert all(found.objective <= one.objective * (1 + 1e-12) for one in answers)
        relaxed = score_bound(data, found.duals["relaxation"] / data.C)
        assert relaxed <= bound * (1 + 1e-9) + 1e-12
        assert relaxed == pytest.approx(score_bound(data, solve_l0(data)[0]["relaxation"] / data.C), rel=1e-6)


@pytest.mark.parametrize("limit", [0.0, 1e-4])
def test_short_of_time_it_is_never_above_the_point_asked_for(limit):
    data = data_of("rbf", 40)
    found, bound, answers = settled(data, limit)
    assert answers or found.status is Status.SOLVED
    assert all(found.objective <= one.objective * (1 + 1e-12) for one in answers)
    assert bound <= settled(data)[0].objective * (1 + 1e-9)


def test_an_interrupted_search_keeps_the_bound():
    """A search that is interrupted ends it with what the tree had proven."""
    data = data_of("rbf", 40)
    optimum = settled(data)[0].objective

    def interrupted(seconds):
        return replace(solve_l0(data, seed=0)[0], status=Status.INTERRUPTED)

    found, bound = solve_globally(data, interrupted, Clock(None), options=Options(first_pivots=0))
    assert found.status is Status.INTERRUPTED
    assert 0.0 < bound <= optimum * (1 + 1e-9)
    assert optimum * (1 - 1e-9) <= found.objective <= solve_l0(data, seed=0)[0].objective * (1 + 1e-12)
