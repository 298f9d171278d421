"""ConvexPolytopeMachine(integers=M): a stated loss that is proven, rules that are the machine, refusals."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

from formulations.language.toy_data import two_blobs
from polyopt import Claim, ConvexPolytopeMachine, FacePenalty, certify_cpm
from polyopt.cpm import integer
from polyopt.cpm.certificate_restricted import certify_cpm_integer
from polyopt.cpm.solve import Settings, solve_cpm

CPM = ConvexPolytopeMachine


@pytest.fixture(scope="module")
def data():
    """Two of four measurements in whole units."""
    rng = np.random.default_rng(0)
    X = rng.integers(-6, 7, size=(120, 4)).astype(float)
    return X, np.where(np.abs(2 * X[:, 1] - X[:, 3] + 1) > 7, "out", "in")


@pytest.fixture(scope="module")
def fitted(data):
    return CPM(2, C=1.0, penalty=FacePenalty(integers=3), inside_label="in", n_init=3, random_state=0).fit(
        *data
    )


def test_the_numbers_are_found_and_the_loss_is_proven(data, fitted):
    X, y = data
    assert np.flatnonzero(fitted.integers_.any(axis=0)).tolist() == [1, 3]
    assert np.abs(fitted.integers_).max() <= 3
    assert fitted.score(X, y) > 0.95
    found = fitted.certificate()
    assert found.claim in (Claim.SUBOPTIMAL_BY, Claim.STATIONARY)
    assert found.eps == pytest.approx(fitted.integer_loss_, rel=1e-6)
    # The same bound by the certificate of the real program, at its multipliers.
    real = certify_cpm(X, np.where(y == "out", 1, -1), 1.0, alpha=fitted.solution_.duals["margin"],
                       assignment=fitted.assignment_)  # fmt: skip
    assert found.dual_value == pytest.approx(real.dual_value, rel=1e-9)
    assert real.dual_value == pytest.approx(real.primal_value, rel=1e-6)


def test_its_rules_are_the_machine(data, fitted):
    X = data[0]
    text = fitted.polytope_.rules()
    outside = np.zeros(len(X), dtype=bool)
    for sums, threshold in re.findall(r"outside if (.*) > (.*)", text):
        total = np.zeros(len(X))
        for sign, number, j in re.findall(r"([+-]?) ?(\d+) x(\d+)", sums):
            total += int(sign + number) * X[:, int(j)]
        outside |= total > float(threshold)
    assert (np.where(outside, "out", "in") == fitted.predict(X)).all()
    assert (fitted.polytope_.contains(X) == (fitted.predict(X) == "in")).all()
    light = pickle.loads(pickle.dumps(fitted)).without_data()
    assert (light.decision_function(X) == fitted.decision_function(X)).all()
    assert light.polytope_.rules() == text
    assert fitted.decision_function(X) == pytest.approx((X @ fitted.W_.T + fitted.b_).max(axis=1))


def test_with_few_features_the_loss_is_to_faces_of_as_few(data):
    X, y = data
    found = CPM(1, C=0.1, penalty=FacePenalty(integers=2, max_features=1), inside_label="in").fit(X, y)
    assert (found.integers_ != 0).sum() <= 1
    assert "at most 1 features" in found.certificate().program
    assert 0 <= found.certificate().eps == pytest.approx(found.integer_loss_, abs=1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_on_ten_sets_the_stated_loss_holds(seed):
    X, y = two_blobs(n=40, m=3, seed=seed)
    C = np.full(40, 0.4)
    found = solve_cpm(X, y, C, Settings(2, "dual", n_init=1, tol=1e-3, integers=2), seed)
    given = {name: found[name] for name in ("integers", "scales", "thresholds", "assignment")}
    certificate = certify_cpm_integer(X, y, C, **given, alpha=found.duals["margin"], largest=2)
    real = certify_cpm(X, y, C, W=found["W"], assignment=found["assignment"])  # with a bound of its own
    assert found.bound <= certificate.primal_value
    assert certificate.primal_value == pytest.approx(found.objective, rel=1e-9)
    assert real.dual_value <= certificate.dual_value * (1 + 1e-4)
    assert certificate.eps == pytest.approx(found.objective - found.bound, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("change", ["half", "large", "negative scale", "more features"])
def test_numbers_that_are_not_allowed_prove_nothing(data, fitted, change):
    X, y = data
    found = fitted.solution_
    given = {name: found[name].astype(float) for name in ("integers", "scales", "thresholds")}
    if change == "half":
        given["integers"][0, 1] += 0.5
    elif change == "large":
        given["integers"][0, 1] = 4
    elif change == "negative scale":
        given["scales"][0] *= -1
    else:
        given["max_features"] = 1
    wrong = certify_cpm_integer(
        X, np.where(y == "out", 1, -1), 1.0, **given, alpha=found.duals["margin"], largest=3,
        assignment=fitted.assignment_,
    )  # fmt: skip
    assert wrong.claim is Claim.NONE


def test_ctrl_c_leaves_whole_numbers(data, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(integer._Rounding, "search_again", interrupted)
    X, y = data
    found = solve_cpm(X, np.where(y == "out", 1.0, -1.0), np.ones(120), Settings(1, "dual", integers=2), 0)
    assert found.status.name == "INTERRUPTED"
    assert (found["integers"] == np.round(found["integers"])).all()
    assert 0 < found.bound <= found.objective


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"solver": "sgd"}, "integers=2 needs solver='exact' or 'dual', not 'sgd'"),
        ({"penalty__l1": 0.1}, "integers=2 excludes a penalty"),
        ({"loss": "max"}, "needs loss='sum' and margin='total'"),
        ({"sgd__perplexity": 1.5}, "needs perplexity=1"),
        ({"sgd__feature_scale": 0.5}, "counts in the units of X"),
        ({"penalty__integers": 0}, "integers must be an integer of at least 1, or None"),
    ],
)
def test_what_it_cannot_do_is_refused_in_a_sentence(data, settings, words):
    with pytest.raises(ValueError, match=words):
        CPM().set_params(**{"penalty__integers": 2, **settings}).fit(*data)
