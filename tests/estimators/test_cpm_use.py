"""ConvexPolytopeMachine in use: two sides, votes, streams, bytes, faces and files."""

from __future__ import annotations

import pickle
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.cpm import clusters
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from formulations import cpm, cpm_margins
from formulations.language.toy_data import separated_clusters
from polyopt import Claim, FacePenalty, SGDSettings, certify_cpm
from polyopt import ConvexPolytopeMachine as CPM  # noqa: N817
from polyopt.datasets import load
from polyopt.models import Model, load_model, save_model


@pytest.fixture(autouse=True)
def without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def wbc():
    data = load("wbc")
    return StandardScaler().fit_transform(data.X), data.y


# -- two sides -----------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["exact", "sgd"])
def test_two_sides_are_the_two_machines_with_one(solver):
    X, y, _ = clusters(60, 3, 0, widen=1.4)
    labels = np.where(y > 0, "b", "a")
    settings = {"solver": solver, "random_state": 0, "n_init": 2, "max_iter": 50}
    both = CPM(3, inside_label="both", **settings).fit(X, labels)
    minus, plus = (CPM(3, inside_label=label, **settings).fit(X, labels) for label in ("a", "b"))
    f_minus, f_plus = minus.face_scores(X).max(axis=1), plus.face_scores(X).max(axis=1)
    assert both.decision_function(X) == pytest.approx(f_minus - f_plus, abs=1e-12)
    assert (both.sides_[0].W_ == minus.W_).all()
    assert (both.sides_[1].W_ == plus.W_).all()
    together = minus.certificate().primal_value + plus.certificate().primal_value
    assert both.certificate().primal_value == pytest.approx(together)
    assert both.duals_.groupby("outside").size().to_dict() == {"a": len(plus.duals_), "b": len(minus.duals_)}
    assert set(both.history_["outside"]) == {"a", "b"}


def test_two_sides_do_not_depend_on_the_names_of_the_classes():
    X, y, _ = clusters(60, 3, 0, widen=1.4)
    machine = CPM(3, inside_label="both", random_state=0, n_init=2)
    one, other = clone(machine).fit(X, y), clone(machine).fit(X, -y)
    assert one.decision_function(X) == pytest.approx(-other.decision_function(X), abs=1e-9)


def test_jobs_make_no_difference():
    X, y, _ = clusters(60, 3, 0, widen=1.4)
    machine = CPM(3, inside_label="both", random_state=0, solver="sgd", max_iter=20)
    one, two = clone(machine).fit(X, y), clone(machine).set_params(n_jobs=2).fit(X, y)
    assert (one.decision_function(X) == two.decision_function(X)).all()


# -- streams -------------------------------------------------------------------------------


def test_a_stream_learns_what_epochs_learn():
    X, y = wbc()
    whole = CPM(1, solver="sgd", random_state=0, max_iter=60, tol=1e-9).fit(X, y)
    stream = CPM(1, random_state=0)
    rng = np.random.default_rng(0)
    for _ in range(60):
        for chunk in np.array_split(rng.permutation(len(y)), 5):
            stream.partial_fit(X[chunk], y[chunk], classes=np.unique(y), n_total=len(y))
    signs = np.where(y == stream.classes_[1], 1.0, -1.0)
    J = [cpm.objective(X, signs, machine.solution_["W"]) for machine in (whole, stream)]
    assert J[1] == pytest.approx(J[0], rel=0.02)
    assert stream.score(X, y) == pytest.approx(whole.score(X, y), abs=0.01)
    assert stream.history_["steps"].iloc[-1] == 60 * len(y)
    assert stream.history_["estimate"].iloc[-1] < 0.5 * stream.history_["estimate"].iloc[0]
    with pytest.raises(ValueError, match="needs the training data"):
        stream.certificate()
    assert certify_cpm(X, signs, 1.0, W=stream.solution_["W"]).relative_gap < 0.1


def test_a_chunk_may_have_one_class():
    X, y = wbc()
    stream = CPM(2, random_state=0)
    classes = np.unique(y)
    for label in np.tile(classes, 40):
        stream.partial_fit(X[y == label][:150], y[y == label][:150], classes=classes, n_total=len(y))
    assert stream.score(X, y) > 0.93


def test_streams_of_two_sides_and_of_many_classes():
    X, y = load_iris(return_X_y=True)
    many = CPM(2, random_state=0)
    for _ in range(60):
        many.partial_fit(X, y)
    assert many.score(X, y) > 0.9
    assert len(many.estimators_) == 3
    two = y < 2
    sides = CPM(2, random_state=0, inside_label="both")
    for _ in range(20):
        sides.partial_fit(X[two], y[two])
    assert sides.score(X[two], y[two]) == 1.0
    assert sides.sides_[0].outer_label_ != sides.sides_[1].outer_label_


def test_a_fit_with_one_side_leaves_nothing_of_one_with_two():
    X, y, _ = clusters(60, 3, 0)
    machine = CPM(2, inside_label="both", solver="sgd", max_iter=5, random_state=0).fit(X, y)
    assert len(machine.sides_) == 2
    machine.set_params(inside_label=None).fit(X, y)
    with pytest.raises(AttributeError, match="sides_ is of a machine with inside_label='both'"):
        _ = machine.sides_
    assert machine.without_data().polytope_.n_faces == 2


def test_a_copy_without_data_of_two_sides_answers_alike():
    X, y, _ = clusters(60, 3, 0)
    machine = CPM(2, inside_label="both", solver="sgd", max_iter=5, random_state=0).fit(X, y)
    lean = machine.without_data()
    assert (lean.decision_function(X) == machine.decision_function(X)).all()
    assert all(solution.primal == {} for solution in lean.solution_)
    assert [side.perplexity_ for side in lean.sides_] == [side.perplexity_ for side in machine.sides_]
    with pytest.raises(ValueError, match="needs the training data"):
        lean.certificate()


def test_a_fit_begins_anew_after_a_stream_and_a_stream_after_a_fit():
    X, y, _ = clusters(60, 3, 0)
    machine = CPM(3, solver="sgd", random_state=0, max_iter=20)
    expected = clone(machine).fit(X, y).W_
    machine.partial_fit(X, y).fit(X, y)
    assert (machine.W_ == expected).all()
    first = clone(machine).partial_fit(X, y).W_
    assert (machine.partial_fit(X, y).W_ == first).all()


@pytest.mark.parametrize(
    ("settings", "arguments", "sentence"),
    [
        ({"solver": "exact"}, {}, "partial_fit is Algorithm 1"),
        ({"loss": "max"}, {}, "partial_fit is Algorithm 1"),
        ({}, {"classes": [1.0]}, "there is one class"),
        ({}, {"classes": [1.0, 7.0]}, r"y must be of the classes \[1.0, 7.0\]; it has \[-1.0\]"),
        ({}, {"n_total": 0}, "n_total must be an integer of at least 1, or None, not 0"),
        ({}, {"sample_weight": -np.ones(20)}, "sample_weight must be positive and finite"),
    ],
)
def test_a_bad_stream_is_refused(settings, arguments, sentence):
    X, y, _ = clusters(20, 2, 0)
    with pytest.raises(ValueError, match=sentence):
        CPM(2, **settings).partial_fit(X, y, **arguments)


# -- bytes, faces, files -------------------------------------------------------------------


def test_bytes_are_pixels_without_floats():
    X, y = (part[:600] for part in load_digits(return_X_y=True))
    pixels, y = X.astype(np.uint8), y == 2
    machine = CPM(4, C=0.1, solver="sgd", random_state=0, max_iter=20)
    floats = clone(machine).fit(X / 16, y)
    bytes_ = clone(machine).set_params(sgd__feature_scale=1 / 16).fit(pixels, y)
    assert bytes_._X.dtype == np.uint8
    assert bytes_.decision_function(pixels) == pytest.approx(floats.decision_function(X / 16), abs=1e-3)
    assert bytes_.decision_function(pixels) == pytest.approx(
        (X @ bytes_.W_.T + bytes_.b_).max(axis=1), abs=1e-4
    )
    assert bytes_.certificate().primal_value == pytest.approx(floats.certificate().primal_value, rel=1e-3)


@pytest.mark.parametrize("form", [np.float64, np.float32, "csr"])
def test_the_faces_of_samples(form):
    X, y, _ = clusters(60, 3, 0)
    machine = CPM(random_state=0, n_init=2).fit(X, y)
    Z = sp.csr_array(X) if form == "csr" else X.astype(form)
    scores = machine.face_scores(Z)
    assert scores == pytest.approx(X @ machine.W_.T + machine.b_, abs=1e-5)
    assert (machine.active_face(Z) == scores.argmax(axis=1)).all()
    assert machine.decision_function(Z) == pytest.approx(scores.max(axis=1))
    outside = y > 0
    assert (machine.active_face(X)[outside] == machine.assignment_[outside]).all()
    assert (machine.polytope_.contains(X) == (scores.max(axis=1) <= 0)).all()


def test_what_is_of_one_polytope_says_so():
    X, y, _ = clusters(40, 2, 0)
    both = CPM(2, inside_label="both", solver="sgd", random_state=0, max_iter=5).fit(X, y)
    for ask in (lambda: both.polytope_, lambda: both.face_scores(X), both.generalization_bound):
        with pytest.raises(AttributeError, match="sides_"):
            ask()


def test_the_bound_of_theorem_1_is_above_the_error():
    X, y = wbc()
    bound = CPM(3, C=0.01, solver="sgd", random_state=0).fit(X, y).generalization_bound(delta=0.1)
    assert bound.total > 0.0


@pytest.mark.parametrize("kind", ["one side", "two sides", "three classes"])
def test_model_files_come_back_exactly(kind, tmp_path):
    X, y = load_iris(return_X_y=True)
    X, y = (X[::3], y[::3]) if kind == "three classes" else (X[y > 0], y[y > 0])
    # More faces than are of use: an unused one must come back as well.
    machine = CPM(
        5,
        solver="sgd",
        inside_label="both" if kind == "two sides" else None,
        n_init=2,
        random_state=0,
        max_iter=20,
    )
    machine.fit(X, y)
    scores = machine.decision_function(X)
    joblib.dump(machine, tmp_path / "model.joblib")
    save_model(Model.of(machine, method="cpm"), tmp_path / "model.skops")
    save_model(Model.of(machine.without_data(), method="cpm"), tmp_path / "lean.skops")
    copies = [
        pickle.loads(pickle.dumps(machine)),
        joblib.load(tmp_path / "model.joblib"),
        load_model(tmp_path / "model.skops").estimator,
        load_model(tmp_path / "lean.skops").estimator,
    ]
    for again in copies:
        assert (again.decision_function(X) == scores).all()
        assert again.get_params() == machine.get_params()
    assert copies[2].certificate().primal_value == machine.certificate().primal_value
    with pytest.raises(ValueError, match="needs the training data"):
        copies[3].certificate()
    assert len(pickle.dumps(machine.without_data())) < 0.5 * len(pickle.dumps(machine))


# -- every solver, one objective -----------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_solver_minimises_one_objective(seed):
    X, y, _ = clusters(40, 3, seed, widen=1.4)
    found = {
        solver: CPM(3, solver=solver, random_state=0, tol=1e-4).fit(X, y)
        for solver in ("global", "exact", "dual", "sgd")
    }
    J = {solver: cpm.objective(X, y, np.c_[machine.W_, machine.b_]) for solver, machine in found.items()}
    least = found["global"].certificate()
    assert least.claim is Claim.OPTIMAL
    assert least.primal_value == pytest.approx(J["global"], rel=1e-9)
    for solver in ("exact", "dual", "sgd"):
        assert J[solver] >= least.dual_value * (1 - 1e-9)
        assert J[solver] <= 1.05 * J["global"]
        certificate = found[solver].certificate(tol=1e-3)
        assert certificate.primal_value == pytest.approx(J[solver], rel=1e-6)
        assert certificate.claim is not Claim.OPTIMAL
    assert found["dual"].certificate().relative_gap <= 1e-5
    assert found["dual"].certificate(tol=1e-3).claim is Claim.STATIONARY
    assert found["exact"].certificate().relative_gap <= 1e-8


def test_the_worst_margin_is_wider_and_the_total_no_better():
    """Each machine is best at its own objective, which a swap of the penalties would turn round."""
    X, y, _ = clusters(60, 3, 1, widen=1.2)
    total = CPM(3, C=5.0, solver="exact", random_state=0).fit(X, y)
    worst = CPM(3, C=5.0, penalty=FacePenalty(margin="worst"), random_state=0).fit(X, y)
    norms = {name: (np.c_[m.W_, m.b_] ** 2).sum(axis=1) for name, m in (("total", total), ("worst", worst))}
    paid = {
        name: cpm.objective(X, y, np.c_[m.W_, m.b_], 5.0) - norms[name].sum()
        for name, m in (("total", total), ("worst", worst))
    }
    assert paid["total"] + norms["total"].sum() <= (paid["worst"] + norms["worst"].sum()) * (1 + 1e-6)
    assert paid["worst"] + norms["worst"].max() <= (paid["total"] + norms["total"].max()) * (1 + 1e-6)
    certificate = worst.certificate()
    assert certificate.claim is Claim.STATIONARY
    assert certificate.primal_value == pytest.approx(paid["worst"] + norms["worst"].max(), rel=1e-6)


def test_bytes_go_to_every_solver():
    X, y = load_digits(return_X_y=True)
    kept = np.isin(y, (3, 8))
    X, y = X[kept][:120].astype(np.uint8), y[kept][:120]
    for solver in ("exact", "dual", "sgd"):
        settings = {"solver": solver, "n_init": 1, "random_state": 0, "max_iter": 50}
        bytes_ = CPM(2, sgd=SGDSettings(feature_scale=1 / 16), **settings).fit(X, y)
        floats = CPM(2, **settings).fit(X / 16, y)
        assert bytes_.certificate().primal_value == pytest.approx(floats.certificate().primal_value, rel=1e-3)
        assert bytes_.score(X, y) == pytest.approx(floats.score(X / 16, y), abs=0.02)


# -- margins -------------------------------------------------------------------------------


def margins_by_hand(machine, X, y):
    """Worst and total margin of one polytope, sample by sample; y is +1 outside."""
    faces = np.c_[machine.W_, machine.b_]
    faces /= np.linalg.norm(faces, axis=1, keepdims=True)
    own = {}
    for x, label in zip(np.c_[X, np.ones(len(X))], y, strict=True):
        scores = faces @ x
        own.setdefault(int(scores.argmax()), []).append(label * scores.max())
    least = [min(values) for values in own.values()]
    return min(least), sum(least), len(own)


@pytest.mark.parametrize("solver", ["exact", "sgd", "dual"])
def test_the_margins_are_those_of_the_paper(solver):
    X, y, _ = clusters(40, 3, 0)
    labels = np.where(y > 0, "b", "a")
    machine = CPM(3, C=10.0, solver=solver, random_state=0, n_init=2).fit(X, labels)
    [row] = machine.margins_.to_dict("records")
    assert (row["outside"], row["inside"]) == ("b", "a")
    assert (row["worst"], row["total"], row["faces"]) == pytest.approx(margins_by_hand(machine, X, y))
    # Two sides have a row each, those of the machines with one; so has each pair of classes.
    both = CPM(3, C=10.0, solver=solver, random_state=0, n_init=2, inside_label="both").fit(X, labels)
    assert both.margins_["outside"].tolist() == ["b", "a"]
    assert both.margins_.iloc[0].to_dict() == pytest.approx(row)
    three = np.where((y > 0) & (X[:, 0] > 0), "c", labels)
    many = CPM(2, C=10.0, solver=solver, random_state=0, n_init=2).fit(X, three)
    assert list(zip(many.margins_["inside"], many.margins_["outside"], strict=True)) == many.pairs_
    last = np.isin(three, ["b", "c"])
    expected = margins_by_hand(many.estimators_[2], X[last], np.where(three[last] == "c", 1.0, -1.0))
    assert many.margins_.iloc[2][["worst", "total", "faces"]].tolist() == pytest.approx(expected)


def test_a_hard_worst_case_machine_has_the_margin_that_its_program_states():
    """A cost beyond every multiplier makes hard margins: 1 over the norm of the longest face."""
    X, y, z = separated_clusters(n=18)
    best = cpm_margins.worst(X, y, 3, z).solve().objective
    machine = CPM(3, C=1e4, penalty=FacePenalty(margin="worst"), loss="max", random_state=0, n_init=2).fit(
        X, y
    )
    [row] = machine.margins_.to_dict("records")
    assert row["worst"] >= (1 - 1e-6) * best  # another assignment may do better
    longest = np.sqrt((np.c_[machine.W_, machine.b_] ** 2).sum(axis=1).max())
    assert row["worst"] >= (1 - 1e-5) / longest
    assert machine.certificate(1e-5).claim is Claim.STATIONARY
    assert "margin='worst'" in machine.certificate().program
    shares = machine.solution_.duals["norm"]
    assert shares.sum() == pytest.approx(1.0, abs=1e-5)


def test_margins_need_the_data_and_count_samples_as_the_solver_saw_them():
    X, y, _ = clusters(40, 2, 0)
    machine = CPM(2, C=10.0, random_state=0, solver="sgd", sgd=SGDSettings(feature_scale=0.5)).fit(X, y)
    halved = CPM(2, C=10.0, random_state=0, solver="sgd").fit(0.5 * X, y)
    assert machine.margins_["total"][0] == pytest.approx(halved.margins_["total"][0])
    for other in (machine.without_data(), CPM(2).partial_fit(X, y)):
        with pytest.raises(ValueError, match="margins_ needs the training data"):
            _ = other.margins_
