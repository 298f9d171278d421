"""Polyceptron(integers=M): the exact program, a stated loss that is proven, rules, refusals."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from helpers.cases import few, in_turn

from formulations import polyceptron, polyceptron_integer
from formulations.printed import misprints
from formulations.samples import two_blobs
from polyopt import Claim, Polyceptron, certify_polyceptron
from polyopt.certificates.whole_faces import certify_polyceptron_integer


def strip(seed, n=80):
    """Two of four measurements in half units; inside of a strip, up to some noise."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-6, 7, size=(n, 4)) / 2.0
    inside = np.abs(2 * X[:, 1] - X[:, 3] + 0.5) + 0.7 * rng.normal(size=n) < 3.5
    return X, np.where(inside, "well", "ill")


@pytest.fixture(scope="module")
def fitted():
    return Polyceptron(2, integers=3, n_init=2, random_state=0).fit(*strip(0))


def test_the_numbers_are_found_the_loss_is_proven_and_the_rules_are_the_machine(fitted):
    X, y = strip(0)
    assert fitted.solver_ == "highs"
    assert np.abs(fitted.integers_).max() <= 3
    assert fitted.score(X, y) > 0.85
    found = fitted.certificate()
    assert found.claim is Claim.SUBOPTIMAL_BY
    assert "whole numbers from -3 to 3" in found.program
    assert found.eps == pytest.approx(fitted.integer_loss_, rel=1e-6)
    outside = np.zeros(len(X), dtype=bool)
    for sums, relation, threshold in re.findall(r"outside if (.*) (>=?) (.*)", fitted.polytope_.rules()):
        total = np.zeros(len(X))
        for sign, number, j in re.findall(r"([+-]?) ?(\d+) x(\d+)", sums):
            total += int(sign + number) * X[:, int(j)]
        outside |= total > float(threshold) if relation == ">" else total >= float(threshold)
    assert (np.where(outside, "ill", "well") == fitted.predict(X)).all()
    assert (fitted.without_data().decision_function(X) == fitted.decision_function(X)).all()


@pytest.mark.parametrize(("radius", "sets"), [(1e4, few((0, 4), range(10))), (0.7, few((0,), range(2)))])
def test_on_ten_sets_the_stated_loss_holds(radius, sets):
    for seed in sets:
        machine = Polyceptron(2, integers=2, n_init=1, random_state=0, radius=radius).fit(*strip(seed, 20))
        found, W = machine.certificate(), machine.solution_["W"]
        assert np.abs(W).max() <= radius * (1 + 1e-12)
        assert found.eps == pytest.approx(machine.integer_loss_, rel=1e-6, abs=1e-9)
        # The bound is that of the real program for this assignment, by its explicit dual.
        z = np.where(machine._y < 0, machine.assignment_, -1)
        program = polyceptron.fixed_assignment_dual(machine._X, machine._y, 2, z, radius=radius)
        assert found.dual_value == pytest.approx(program.solve().objective, rel=1e-5, abs=1e-5)


def test_numbers_that_are_not_allowed_prove_nothing(fitted):
    found = fitted.solution_
    given = {name: found[name] for name in ("integers", "scales", "thresholds")}
    given |= {"largest": 3, "u": found.duals["margin"], "assignment": fitted.assignment_}

    def certify(**changed):
        return certify_polyceptron_integer(fitted._X, fitted._y, **given | changed)

    best = certify()
    half, large = found["integers"] + 0.5, found["integers"] + 4
    for changed in ({"integers": half}, {"integers": large}, {"scales": -found["scales"]}, {"radius": 0.1}):
        assert certify(**changed).claim is Claim.NONE
    blind = certify(u=np.zeros(found.duals["margin"].shape))
    assert blind.dual_value == 0.0 < best.dual_value
    # And the whole faces are no optimum of the real program.
    real = certify_polyceptron(
        fitted._X, fitted._y, found["W"], u=found.duals["margin"], assignment=fitted.assignment_
    )
    assert real.claim is Claim.SUBOPTIMAL_BY


def test_the_program_is_printed_as_computed_and_is_the_best_of_all_numbers():
    X, y = two_blobs(n=14, m=2, seed=3)
    C = np.where(y > 0, 1.0, 0.6)
    for program in (
        polyceptron_integer.mixed_integer(X, y, 0.3, 1, C),
        polyceptron_integer.relaxation_dual(X, y, 0.3, 1, C),
    ):
        assert misprints(program) == []
    found = polyceptron_integer.mixed_integer(X, y, 0.3, 1, C).solve(mip_rel_gap=1e-9).objective

    def of(p):
        # The least over b is at a bend of the hinges.
        s = 0.3 * (X @ p)
        return min(C @ np.maximum(0.0, 1.0 - y * (s + b)) for b in y - s)

    assert found == pytest.approx(min(of(np.array(p)) for p in product((-1, 0, 1), repeat=2)), rel=1e-8)


@in_turn(
    ("asked", "words"),
    [
        ({"solver": "batch"}, "integers=2 needs solver='highs', not 'batch'"),
        ({"solver": "exact"}, "not 'exact'"),
        ({"l1": 0.1}, "integers=2 has no prices or signs"),
        ({"integers": 0}, "integers must be an integer of at least 1, or None"),
    ],
)
def test_what_it_cannot_do_is_refused_in_a_sentence(asked, words):
    with pytest.raises(ValueError, match=words):
        Polyceptron(2, **{"integers": 2, **asked}).fit(*strip(0))
    if "integers" not in asked:
        with pytest.raises(AttributeError) as told:
            Polyceptron(2, integers=2).partial_fit(*strip(0), classes=["ill", "well"])
        assert "partial_fit has no whole numbers" in str(told.value.__cause__)
