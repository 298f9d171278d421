"""Faces of few features, of whole numbers, of prices and signs: found, proven, printed and copied."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from formulations.language.clock import Clock, running
from formulations.language.toy_data import two_blobs
from polyopt import Claim, FacePenalty, certify_cpm, sensitivities
from polyopt import ConvexPolytopeMachine as CPM  # noqa: N817
from polyopt.base.progress import records_to
from polyopt.cpm import integer
from polyopt.cpm.certificate_restricted import certify_cpm_integer, certify_cpm_subset
from polyopt.cpm.solve import Settings, solve_cpm

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def fitted(data, n_faces=2, C=2.0, **penalty):
    machine = CPM(n_faces, C, penalty=FacePenalty(**penalty), inside_label="in", n_init=3, random_state=0)
    return machine.fit(*data)


# -- few features ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strip():
    """A strip in two of five features: two faces of one feature each are enough."""
    X = np.random.default_rng(0).normal(size=(150, 5)).astype(np.float32)
    return X, np.where(np.abs(X[:, 1]) > 0.8, "out", "in")


@pytest.fixture(scope="module")
def few(strip):
    return fitted(strip, max_features=1)


def test_few_features_are_found(strip, few):
    """Two faces of one feature each separate a strip, are printed so, and are proven for their cells."""
    X, y = strip
    assert (few.W_ != 0).sum(axis=1).tolist() == [1, 1]
    assert few.score(X, y) > 0.95
    assert few.polytope_.rules().count("x1") == 2
    found = few.certificate()
    assert found.claim is Claim.STATIONARY
    assert "at most 1 features" in found.program
    assert few.solution_.bound == pytest.approx(found.dual_value, rel=1e-6)


def test_multipliers_make_weights_that_are_used(strip, few):
    """On the features in use, w = ½ Σ α y x."""
    X = np.c_[strip[0], np.ones(len(strip[0]))].astype(float)
    frame = few.duals_.query("row == 'margin'")
    for k, w in enumerate(few.solution_["W"]):
        own = frame[frame["face"] == k]
        v = X[own["sample"]].T @ (own["multiplier"] * np.where(own["label"] == "out", 1.0, -1.0))
        used = np.append(w[:-1] != 0, True)
        assert w[used] == pytest.approx(0.5 * v[used], abs=1e-5)


def test_dual_solver_finds_few_features(strip, few):
    """The dual solver, on CSR samples in other units, comes to the same objective."""
    X, y = strip
    machine = CPM(2, 2.0, penalty=FacePenalty(max_features=1), inside_label="in", n_init=3, random_state=0)
    thin = machine.set_params(solver="dual", sgd__feature_scale=0.5).fit(sp.csr_array(2 * X), y)
    assert thin.solution_.objective == pytest.approx(few.solution_.objective, rel=1e-2)
    assert thin.certificate(1e-3).claim is Claim.STATIONARY


def test_face_of_too_many_features_proves_nothing(strip, few):
    """A face with one more feature than allowed is infeasible, and with as many it is not."""
    W, y = few.solution_["W"].astype(float), np.where(strip[1] == "out", 1.0, -1.0)
    W[0, np.flatnonzero(W[0, :-1] == 0)[0]] = 1e-3
    found = [certify_cpm_subset(strip[0], y, 2.0, W=W, max_features=s).claim for s in (1, 2)]
    assert found == [Claim.NONE, Claim.SUBOPTIMAL_BY]


@pytest.mark.parametrize("max_features", [5, 50])
def test_all_features_are_no_limit(strip, max_features):
    """A limit of all features or more is none."""
    free = CPM(1, C=0.5, solver="exact").fit(*strip)
    found = CPM(1, C=0.5, penalty=FacePenalty(max_features=max_features)).fit(*strip)
    assert found.solution_.objective == pytest.approx(free.solution_.objective, rel=1e-6)
    assert found.certificate().is_optimal


@pytest.mark.parametrize("restriction", [{"max_features": 1}, {"integers": 3}], ids=str)
def test_restricted_faces_keep_signs(strip, restriction):
    """A score of the strip's outside may not fall with feature 1: one face with that sign is left of two."""
    machine = fitted(strip, signs={1: 1}, **restriction)
    assert (machine.W_[:, 1] >= 0).all()
    assert machine.certificate().claim is not Claim.NONE


# -- whole numbers -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counts():
    """Two of four measurements in whole units."""
    X = np.random.default_rng(0).integers(-6, 7, size=(120, 4)).astype(float)
    return X, np.where(np.abs(2 * X[:, 1] - X[:, 3] + 1) > 7, "out", "in")


@pytest.fixture(scope="module")
def whole(counts):
    return fitted(counts, C=1.0, integers=3)


def test_whole_numbers_are_found(counts, whole):
    """The numbers are of the features in use and at most 3; their loss to real faces is proven."""
    X, y = counts
    assert np.flatnonzero(whole.integers_.any(axis=0)).tolist() == [1, 3]
    assert np.abs(whole.integers_).max() <= 3
    assert whole.score(X, y) > 0.95
    assert whole.decision_function(X) == pytest.approx((X @ whole.W_.T + whole.b_).max(axis=1))
    found = whole.certificate()
    assert found.claim in (Claim.SUBOPTIMAL_BY, Claim.STATIONARY)
    assert found.eps == pytest.approx(whole.integer_loss_, rel=1e-6)
    alpha, assignment = whole.solution_.duals["margin"], whole.assignment_
    real = certify_cpm(X, np.where(y == "out", 1, -1), 1.0, alpha=alpha, assignment=assignment)
    assert found.dual_value == pytest.approx(real.dual_value, rel=1e-9)
    assert real.dual_value == pytest.approx(real.primal_value, rel=1e-6)


def test_rules_of_whole_numbers_are_the_machine(counts, whole):
    """The printed sums of whole numbers, evaluated here, are the predictions; so are a copy's rules."""
    X, text = counts[0], whole.polytope_.rules()
    outside = np.zeros(len(X), dtype=bool)
    for sums, threshold in re.findall(r"outside if (.*) > (.*)", text):
        terms = re.findall(r"([+-]?) ?(\d+) x(\d+)", sums)
        outside |= sum(int(sign + n) * X[:, int(j)] for sign, n, j in terms) > float(threshold)
    assert (np.where(outside, "out", "in") == whole.predict(X)).all()
    assert (whole.polytope_.contains(X) == (whole.predict(X) == "in")).all()
    light = pickle.loads(pickle.dumps(whole)).without_data()
    assert (light.decision_function(X) == whole.decision_function(X)).all()
    assert light.polytope_.rules() == text


def test_loss_is_to_faces_of_as_few(counts):
    """With few features as well, the loss is to real faces of as few."""
    found = fitted(counts, n_faces=1, C=0.1, integers=2, max_features=1)
    certificate = found.certificate()
    assert (found.integers_ != 0).sum() <= 1
    assert "at most 1 features" in certificate.program
    assert 0 <= certificate.eps == pytest.approx(found.integer_loss_, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_stated_loss_holds(seed):
    """The solver's bound is below the certificate's value, and above that of the multipliers alone."""
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


CHANGES = {
    "half": lambda given: given["integers"].__setitem__((0, 1), given["integers"][0, 1] + 0.5),
    "large": lambda given: given["integers"].__setitem__((0, 1), 4),
    "negative scale": lambda given: given["scales"].__setitem__(0, -given["scales"][0]),
    "more features": lambda given: given.update(max_features=1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_impossible_numbers_prove_nothing(counts, whole, change):
    """Halves, numbers beyond the largest, negative scales and too many features have no certificate."""
    X, y = counts
    given = {name: whole.solution_[name].astype(float) for name in ("integers", "scales", "thresholds")}
    change(given)
    given |= {"alpha": whole.solution_.duals["margin"], "largest": 3, "assignment": whole.assignment_}
    assert certify_cpm_integer(X, np.where(y == "out", 1, -1), 1.0, **given).claim is Claim.NONE


class Interrupting(Clock):
    """A clock that raises KeyboardInterrupt at the first look."""

    looks = 0

    @property
    def is_over(self):
        self.looks += 1
        if self.looks == 1:
            raise KeyboardInterrupt
        return False


@pytest.mark.parametrize("place", ["before", "in alternation", "in rounding"])
def test_ctrl_c_leaves_whole_numbers(counts, place, monkeypatch):
    """Ctrl-C before the first iterate, after it, or in the search for numbers leaves a true bound."""
    X, y = counts

    def interrupt(state):
        if place == "in alternation":
            raise KeyboardInterrupt

    if place == "in rounding":
        monkeypatch.setattr(integer, "Clock", Interrupting)
    with running(Clock()) as clock, records_to(interrupt):
        if place == "before":
            clock.stop()
        found = solve_cpm(
            X, np.where(y == "out", 1.0, -1.0), np.ones(120), Settings(1, "dual", integers=2), 0
        )
    assert found.status.name == "INTERRUPTED"
    assert (found["integers"] == np.round(found["integers"])).all()
    assert 0 < found.bound <= found.objective


# -- prices and signs --------------------------------------------------------------------------

NAMES = ["age", "size", "noise", "red", "green", "blue"]
COLOURS = [["red", "green", "blue"]]


@pytest.fixture(scope="module")
def patients():
    """Two groups outside along age and size, noise, and one column for each of three colours."""
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=(120, 3)), np.eye(3)[rng.integers(0, 3, 120)]])
    y = np.where(np.maximum(X[:, 0] - X[:, 3], X[:, 1]) + 0.2 * rng.normal(size=120) > 0.5, "ill", "healthy")
    return pd.DataFrame(X, columns=NAMES), y


@pytest.fixture(scope="module")
def priced(patients):
    penalty = FacePenalty(l1=1.5, group=1.0, feature_groups=COLOURS, signs={"age": +1, "size": +1})
    return CPM(2, penalty=penalty, n_init=2, random_state=0).fit(*patients)


def test_priced_faces_are_sparse_and_proven(patients, priced):
    """Features are used by whole groups, are counted, and the faces are stationary."""
    certificate, used = priced.certificate(), (priced.W_ != 0).any(axis=0)
    assert certificate.claim is Claim.STATIONARY
    assert certificate.relative_gap < 1e-6
    assert priced.features_.tolist() == np.flatnonzero(used).tolist()
    assert 0 < priced.n_nonzero_ == np.count_nonzero(priced.W_) < priced.W_.size
    assert used[3:].all() or not used[3:].any()
    assert priced.score(*patients) > 0.8


def test_duals_have_rows_for_prices_and_signs(priced):
    """Multipliers of a price are within it, and at its end where a weight is not 0."""
    duals = priced.duals_
    rows = {name: part.set_index(["face", "feature"]) for name, part in duals.groupby("row")}
    held = rows["upper"].multiplier - rows["lower"].multiplier
    assert held.abs().max() <= 1.5
    for place, weight in pd.DataFrame(priced.W_, columns=NAMES).stack().items():
        assert rows["upper"].output[place] == weight
        if weight:
            assert held[place] == pytest.approx(1.5 * np.sign(weight), rel=1e-4)
    lengths = rows["group"].multiplier.unstack()
    assert np.sqrt((lengths[["red", "green", "blue"]] ** 2).sum().sum()) <= 1.0 + 1e-9
    assert set(rows["sign"].index.get_level_values("feature")) == {"age", "size"}
    for name in ("margin", "sign"):
        assert (rows[name].multiplier >= 0).all()
    assert (duals[duals["sample"] >= 0].row.isin(["margin", "slack"])).all()


def test_score_never_falls_against_its_sign(priced, rng):
    """A score does not fall if a feature with the sign +1 grows."""
    X = 3 * rng.normal(size=(500, 6))
    for feature in (0, 1):
        more = X.copy()
        more[:, feature] += rng.exponential(size=500)
        frames = [pd.DataFrame(each, columns=NAMES) for each in (X, more)]
        before, after = map(priced.decision_function, frames)
        assert (after >= before).all()
        assert (after > before).any()


@pytest.mark.parametrize("inside", ["ill", "both"])
def test_signs_are_of_the_later_class(patients, inside):
    """Signs hold for the scores of classes_[1], also if it is inside or there are two sides."""
    X, y = patients
    penalty = FacePenalty(l1=0.5, signs={0: +1, 1: -1})
    machine = CPM(2, penalty=penalty, n_init=1, random_state=0, inside_label=inside).fit(X, y)
    for feature, sign in ((0, 1), (1, -1)):
        more = X.copy()
        more.iloc[:, feature] += 1.0
        change = sign * (machine.decision_function(more) - machine.decision_function(X))
        assert (change >= -1e-12).all()
    parts = machine.sides_ if inside == "both" else [machine]
    assert all(part.certificate().claim is Claim.STATIONARY for part in parts)
    assert machine.n_nonzero_ == sum(np.count_nonzero(part.W_) for part in parts)


def test_priced_solvers_agree_on_one_face(patients):
    """Exact and dual solvers, frames and CSR arrays, have one optimum and its zeros."""
    X, y = patients
    penalty = FacePenalty(l1=2.0, group=1.0, signs={2: 1})
    given = {"exact": X, "dual": X, "sparse": sp.csr_array(X.to_numpy())}
    solvers = {"exact": "exact", "dual": "dual", "sparse": "dual"}
    found = {name: CPM(1, penalty=penalty, solver=solvers[name]).fit(Z, y) for name, Z in given.items()}
    proof = found["exact"].certificate()
    for name in ("dual", "sparse"):
        certificate = found[name].certificate()
        assert (certificate.claim, proof.claim) == (Claim.OPTIMAL, Claim.OPTIMAL)
        assert certificate.primal_value == pytest.approx(proof.primal_value, rel=1e-7)
        assert ((found[name].W_ != 0) == (found["exact"].W_ != 0)).all()
        assert found[name].W_ == pytest.approx(found["exact"].W_, abs=1e-4)


@pytest.mark.parametrize("name", ["C", "l1", "group"])
def test_slopes_are_those_of_the_optimum(patients, name):
    """The derivative of the optimal value in a parameter is that of differences."""

    def fit(**given):
        values = {"C": 1.0, "l1": 2.0, "group": 1.0} | given
        return CPM(1, values.pop("C"), penalty=FacePenalty(**values)).fit(*patients)

    found = sensitivities(fit()).set_index("parameter")
    assert set(found.index) == {"C", "l1", "group"}
    value = found.value[name]
    low, high = (fit(**{name: value + step}).certificate().primal_value for step in (-1e-3, 1e-3))
    assert (high - low) / 2e-3 == pytest.approx(found.derivative[name], rel=1e-4)


def test_price_above_every_worth_leaves_nothing(patients):
    """At a price beyond all gains the machine is a constant, is proven, and says so."""
    with pytest.warns(UserWarning, match="every weight is zero at the penalty"):
        machine = CPM(2, penalty=FacePenalty(l1=1e6), n_init=1, random_state=0).fit(*patients)
    assert machine.features_.tolist() == []
    assert machine.n_nonzero_ == 0
    assert len(set(machine.predict(patients[0]))) == 1
    assert machine.certificate().claim is Claim.STATIONARY
    assert machine.polytope_.redundant.all()


def test_pairs_of_classes_take_names(patients, priced):
    """Names hold in every pair of classes, and in copies."""
    X, y = patients
    three = np.where(X["noise"] > 0.8, "other", y)
    penalty = FacePenalty(l1=1.0, signs={"age": 1})
    several = CPM(2, penalty=penalty, n_init=1, random_state=0).fit(X, three)
    assert several.n_nonzero_ == sum(np.count_nonzero(part.W_) for part in several.estimators_)
    for again in (priced.without_data(), pickle.loads(pickle.dumps(priced))):
        np.testing.assert_array_equal(again.decision_function(X), priced.decision_function(X))
        assert again.features_.tolist() == priced.features_.tolist()


REFUSED = [
    ({"signs": {"weight": 1}}, "signs names the feature 'weight', but the features are age, size"),
    ({"signs": {"age": 3}}, "signs must be -1, 0 or"),
    ({"signs": [1, 1]}, "one entry for each of the 6"),
    ({"l1": 1.0, "feature_groups": [["age", "age"]]}, "feature 0 is in two"),
    ({"l1": 1.0, "feature_groups": [1, 2]}, "a label for each of the 6 features"),
]


@pytest.mark.parametrize(("penalty", "sentence"), REFUSED, ids=str)
def test_impossible_names_are_refused(patients, penalty, sentence):
    """Features that there are not, and groups that overlap, are named."""
    with pytest.raises(ValueError, match=sentence):
        CPM(2, penalty=FacePenalty(**penalty)).fit(*patients)


def test_names_need_names(patients):
    """Signs by name need samples with names."""
    with pytest.raises(ValueError, match=r"the training data have no names.*set_output"):
        CPM(2, penalty=FacePenalty(signs={"age": 1})).fit(patients[0].to_numpy(), patients[1])
