"""SPLA1 and PLUME with integers=M: a stated loss that is proven, rules that are the machine, refusals."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from helpers.cases import few

from formulations.solution import Status
from polyopt import PLUME, SPLA1, Claim, certify_plume, certify_spla1
from polyopt.certificates.whole_faces import certify_plume_integer, certify_spla1_integer
from polyopt.outer import whole_faces

MACHINES = {
    "spla1": lambda **given: SPLA1(
        **{"n_faces": 2, "positives": "all", "n_init": 2, "random_state": 0} | given
    ),
    "plume": lambda **given: PLUME(
        **{"n_faces": 2, "decision": "polytope", "anneal": False, "n_init": 1, "random_state": 0} | given
    ),
}


def strip(seed, n=80):
    """Two of four measurements in half units; inside of a strip, up to some noise."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-6, 7, size=(n, 4)) / 2.0
    inside = np.abs(2 * X[:, 1] - X[:, 3] + 0.5) + 0.7 * rng.normal(size=n) < 3.5
    return X, np.where(inside, "well", "ill")


@pytest.fixture(scope="module", params=MACHINES)
def fitted(request):
    return MACHINES[request.param](integers=3).fit(*strip(0))


def certify(machine, **changed):
    """The certificate of the same machine with other numbers."""
    X, y, found = machine._X, machine._y, machine.solution_
    given = {name: found[name] for name in ("integers", "scales", "thresholds")}
    given |= {"largest": 3, "real": found.duals["real"], "ridge": 0.1} | changed
    if isinstance(machine, PLUME):
        return certify_plume_integer(X, y, gamma=1.0, **given)
    return certify_spla1_integer(X, y, positives="all", **given)


def test_the_numbers_are_found_and_the_loss_is_proven(fitted):
    X, y = strip(0)
    assert np.flatnonzero(fitted.integers_.any(axis=0)).tolist() == [1, 3]
    assert np.abs(fitted.integers_).max() <= 3
    assert fitted.score(X, y) > 0.85
    found = fitted.certificate()
    assert found.claim is Claim.SUBOPTIMAL_BY
    assert found.eps == pytest.approx(fitted.integer_loss_, rel=1e-6)
    assert found.primal_value == pytest.approx(fitted.solution_.objective, rel=1e-9)
    assert 0 < fitted.integer_loss_ < 0.2 * found.primal_value


@pytest.mark.parametrize("name", MACHINES)
def test_on_ten_sets_the_stated_loss_holds(name):
    for seed in range(few(2, 10)):
        machine = MACHINES[name](integers=2, n_init=1).fit(*strip(seed, 24))
        found, own = machine.certificate(), machine.solution_
        W, real = own["W"], own.duals["real"]
        assert (W[:, :-1] == machine.scales_[:, None] * machine.integers_).all()
        assert own.bound <= found.primal_value
        assert found.eps == pytest.approx(machine.integer_loss_, rel=1e-5, abs=1e-9)
        # The real program's optimum, by its own certificate, for what the whole numbers fix.
        if name == "spla1":
            cells = machine._scores_of_faces(machine._X).argmin(axis=1)
            other = certify_spla1(machine._X, machine._y, real, ridge=0.1, positives="all", assignment=cells)
        else:
            from formulations.mixture import responsibilities

            R = responsibilities(machine._X, machine._y, W, 1.0)
            other = certify_plume(machine._X, machine._y, real, gamma=1.0, ridge=0.1, responsibilities=R)
        assert other.dual_value == pytest.approx(found.dual_value, rel=1e-7)
        assert other.primal_value == pytest.approx(found.dual_value, rel=1e-6)


def test_its_rules_are_the_machine_and_copies_go_on(fitted):
    X, _ = strip(3)
    text, outside = fitted.polytope_.rules(), np.zeros(80, dtype=bool)
    for sums, relation, threshold in re.findall(r"outside if (.*) (>=?) (.*)", text):
        total = np.zeros(len(X))
        for sign, number, j in re.findall(r"([+-]?) ?(\d+) x(\d+)", sums):
            total += int(sign + number) * X[:, int(j)]
        outside |= total > float(threshold) if relation == ">" else total >= float(threshold)
    assert (np.where(outside, "ill", "well") == fitted.predict(X)).all()
    light = pickle.loads(pickle.dumps(fitted)).without_data()
    assert (light.decision_function(X) == fitted.decision_function(X)).all()
    assert light.polytope_.rules() == text


def test_with_few_features_the_loss_is_to_faces_of_as_few():
    for make in MACHINES.values():
        found = make(integers=2, max_features=1).fit(*strip(0))
        assert ((found.integers_ != 0).sum(axis=1) <= 1).all()
        certificate = found.certificate()
        assert "at most 1 features" in certificate.program
        assert 0 <= certificate.eps == pytest.approx(found.integer_loss_, rel=1e-5, abs=1e-5)


def test_numbers_that_are_not_allowed_prove_nothing_and_poor_ones_lose_more(fitted):
    found = fitted.solution_
    numbers, scales = found["integers"].astype(float), found["scales"]
    half, large = numbers.copy(), numbers.copy()
    half[0, 1] += 0.5
    large[0, 1] = 4
    for changed in ({"integers": half}, {"integers": large}, {"scales": -scales}, {"max_features": 1}):
        assert certify(fitted, **changed).claim is Claim.NONE
    best = certify(fitted)
    assert certify(fitted, scales=0.5 * scales).eps > best.eps
    blind = certify(fitted, real=np.zeros(found["W"].shape))
    assert blind.dual_value < best.dual_value
    assert blind.claim is Claim.SUBOPTIMAL_BY


@pytest.mark.filterwarnings("ignore:.*interrupted")
def test_ctrl_c_leaves_whole_numbers(monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(whole_faces._Run, "search_again", interrupted)
    found = MACHINES["spla1"](integers=2, n_init=1).fit(*strip(1))
    assert found.solution_.status is Status.INTERRUPTED
    assert (found.integers_ == np.round(found.integers_)).all()
    assert found.certificate().claim is Claim.SUBOPTIMAL_BY


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"solver": "bfgs"}, "integers=2 needs solver='newton', not 'bfgs'"),
        ({"l1": 0.1}, "integers=2 has no prices"),
        ({"integers": 0}, "integers must be an integer of at least 1, or None"),
    ],
)
def test_what_it_cannot_do_is_refused_in_a_sentence(name, asked, words):
    with pytest.raises(ValueError, match=words):
        MACHINES[name](**{"integers": 2, **asked}).fit(*strip(0))
