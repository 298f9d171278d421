"""ConvexPolytopeMachine in use: two sides, streams, bytes and margins."""

import numpy as np
import pytest
from helpers.cpm import clusters
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.preprocessing import StandardScaler

from formulations import cpm, cpm_margins
from formulations.language.toy_data import separated_clusters
from polyopt import Claim, FacePenalty, SGDSettings, certify_cpm
from polyopt import ConvexPolytopeMachine as CPM  # noqa: N817
from polyopt.datasets import load

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y, _ = clusters(40, 3, 0, widen=1.4)
LABELS = np.where(Y > 0, "b", "a")
WBC = StandardScaler().fit_transform(load("wbc").X), load("wbc").y

# -- two sides ---------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["exact", "sgd"])
def test_two_sides_are_two_machines(solver):
    """With inside_label="both" the scores are the difference of those of the machines with one side."""
    settings = {"solver": solver, "random_state": 0, "n_init": 2, "max_iter": 50}
    both = CPM(3, inside_label="both", **settings).fit(X, LABELS)
    minus, plus = (CPM(3, inside_label=label, **settings).fit(X, LABELS) for label in ("a", "b"))
    difference = minus.face_scores(X).max(axis=1) - plus.face_scores(X).max(axis=1)
    assert both.decision_function(X) == pytest.approx(difference, abs=1e-12)
    assert (both.sides_[0].W_ == minus.W_).all()
    assert (both.sides_[1].W_ == plus.W_).all()
    together = minus.certificate().primal_value + plus.certificate().primal_value
    assert both.certificate().primal_value == pytest.approx(together)
    assert both.duals_.groupby("outside").size().to_dict() == {"a": len(plus.duals_), "b": len(minus.duals_)}
    assert set(both.history_["outside"]) == {"a", "b"}


def test_two_sides_swap_with_labels():
    """With the names of the classes swapped, the scores change their sign alone."""
    machine = CPM(3, inside_label="both", random_state=0, n_init=1)
    one, other = clone(machine).fit(X, Y), clone(machine).fit(X, -Y)
    assert one.decision_function(X) == pytest.approx(-other.decision_function(X), abs=1e-9)


def test_jobs_make_no_difference():
    """Two sides fitted by two processes have the bits of one."""
    machine = CPM(3, inside_label="both", random_state=0, solver="sgd", max_iter=20)
    one, two = clone(machine).fit(X, Y), clone(machine).set_params(n_jobs=2).fit(X, Y)
    assert (one.decision_function(X) == two.decision_function(X)).all()


def test_attribute_of_one_polytope_says_so():
    """A machine of two sides has no polytope of its own, and one that is fitted with one side no sides."""
    machine = CPM(2, inside_label="both", solver="sgd", random_state=0, max_iter=5).fit(X, LABELS)
    for ask in (lambda: machine.polytope_, lambda: machine.face_scores(X), machine.generalization_bound):
        with pytest.raises(AttributeError, match="sides_"):
            ask()
    machine.set_params(inside_label=None).fit(X, LABELS)
    with pytest.raises(AttributeError, match="sides_ is of a machine with inside_label='both'"):
        _ = machine.sides_


# -- streams -----------------------------------------------------------------------------------


def test_stream_learns_what_epochs_learn():
    """Chunks in random order, each epoch anew, end at the objective of fit, without a certificate."""
    samples, y = WBC
    whole = CPM(1, solver="sgd", random_state=0, max_iter=60, tol=1e-9).fit(samples, y)
    stream, rng = CPM(1, random_state=0), np.random.default_rng(0)
    for _ in range(60):
        for chunk in np.array_split(rng.permutation(len(y)), 5):
            stream.partial_fit(samples[chunk], y[chunk], classes=np.unique(y), n_total=len(y))
    signs = np.where(y == stream.classes_[1], 1.0, -1.0)
    J = [cpm.objective(samples, signs, machine.solution_["W"]) for machine in (whole, stream)]
    assert J[1] == pytest.approx(J[0], rel=0.02)
    assert stream.score(samples, y) == pytest.approx(whole.score(samples, y), abs=0.01)
    assert stream.history_["steps"].iloc[-1] == 60 * len(y)
    assert stream.history_["estimate"].iloc[-1] < 0.5 * stream.history_["estimate"].iloc[0]
    assert certify_cpm(samples, signs, 1.0, W=stream.solution_["W"]).relative_gap < 0.1
    with pytest.raises(ValueError, match="needs the training data"):
        stream.certificate()


def test_chunk_may_have_one_class():
    """Chunks of one class in turn are learnt if all classes are named."""
    samples, y = WBC
    stream = CPM(2, random_state=0)
    for label in np.tile(np.unique(y), 40):
        chunk = np.flatnonzero(y == label)[:150]
        stream.partial_fit(samples[chunk], y[chunk], classes=np.unique(y), n_total=len(y))
    assert stream.score(samples, y) > 0.93


@pytest.mark.parametrize(("inside", "n_classes", "least"), [(None, 3, 0.9), ("both", 2, 1.0)], ids=str)
def test_stream_of_pairs_and_sides(inside, n_classes, least):
    """Every pair of classes, and either side, learns from a stream."""
    samples, codes = load_iris(return_X_y=True)
    kept = codes < n_classes
    machine = CPM(2, random_state=0, inside_label=inside)
    for _ in range(60 if n_classes == 3 else 20):
        machine.partial_fit(samples[kept], codes[kept])
    assert machine.score(samples[kept], codes[kept]) >= least
    parts = machine.estimators_ if n_classes == 3 else machine.sides_
    assert len({part.outer_label_ for part in parts}) == 2


STREAMS = [
    ({"solver": "exact"}, {}, "partial_fit is Algorithm 1"),
    ({"loss": "max"}, {}, "partial_fit is Algorithm 1"),
    ({"penalty__max_features": 2}, {}, "no max_features"),
    ({"penalty__l1": 1.0}, {}, "no l1, group or signs"),
    ({}, {"classes": [1.0]}, "there is one class"),
    ({}, {"classes": [1.0, 7.0]}, r"y must be of the classes \[1.0, 7.0\]; it has \[-1.0\]"),
    ({}, {"n_total": 0}, "n_total must be an integer of at least 1, or None, not 0"),
    ({}, {"sample_weight": -np.ones(40)}, "sample_weight must be positive and finite"),
]


@pytest.mark.parametrize(("settings", "arguments", "sentence"), STREAMS)
def test_impossible_stream_is_refused(settings, arguments, sentence):
    """Settings and arguments that a stream cannot have are named."""
    with pytest.raises(ValueError, match=sentence):
        CPM(2).set_params(**settings).partial_fit(X, Y, **arguments)


# -- bytes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["exact", "dual", "sgd"])
def test_bytes_are_pixels_without_floats(solver):
    """Pixels as bytes with their scale make the machine of the scaled floats, and stay bytes."""
    pixels, codes = load_digits(return_X_y=True)
    pixels, y = pixels[np.isin(codes, (3, 8))][:120], codes[np.isin(codes, (3, 8))][:120]
    machine = CPM(2, solver=solver, n_init=1, random_state=0, max_iter=50)
    floats = clone(machine).fit(pixels / 16, y)
    small = pixels.astype(np.uint8)
    bytes_ = clone(machine).set_params(sgd=SGDSettings(feature_scale=1 / 16)).fit(small, y)
    assert bytes_.certificate().primal_value == pytest.approx(floats.certificate().primal_value, rel=1e-3)
    assert bytes_.score(small, y) == pytest.approx(floats.score(pixels / 16, y), abs=0.02)
    scores = (pixels @ bytes_.W_.T + bytes_.b_).max(axis=1)
    assert bytes_.decision_function(small) == pytest.approx(scores, abs=1e-4)


# -- margins and bounds ------------------------------------------------------------------------


def test_bound_of_theorem_1_is_positive():
    """The bound on the error of Theorem 1 is a number above 0."""
    machine = CPM(3, C=0.01, solver="sgd", random_state=0).fit(*WBC)
    assert machine.generalization_bound(delta=0.1).total > 0.0


def test_worst_margin_is_best_at_its_own():
    """Each penalty's machine is best at its own objective, which a swap would turn round."""
    total = CPM(3, C=5.0, solver="exact", n_init=5, random_state=0).fit(X, Y)
    worst = CPM(3, C=5.0, penalty=FacePenalty(margin="worst"), n_init=5, random_state=0).fit(X, Y)
    norms = [(np.c_[machine.W_, machine.b_] ** 2).sum(axis=1) for machine in (total, worst)]
    faces = [np.c_[machine.W_, machine.b_] for machine in (total, worst)]
    paid = [cpm.objective(X, Y, W, 5.0) - norm.sum() for W, norm in zip(faces, norms, strict=True)]
    assert paid[0] + norms[0].sum() <= (paid[1] + norms[1].sum()) * (1 + 1e-6)
    assert paid[1] + norms[1].max() <= (paid[0] + norms[0].max()) * (1 + 1e-6)
    certificate = worst.certificate()
    assert certificate.claim is Claim.STATIONARY
    assert certificate.primal_value == pytest.approx(paid[1] + norms[1].max(), rel=1e-6)


def margins_by_hand(machine, samples, y):
    """Worst and total margin of one polytope, sample by sample; y is +1 outside."""
    faces = np.c_[machine.W_, machine.b_]
    faces /= np.linalg.norm(faces, axis=1, keepdims=True)
    own = {}
    for x, label in zip(np.c_[samples, np.ones(len(samples))], y, strict=True):
        scores = faces @ x
        own.setdefault(int(scores.argmax()), []).append(label * scores.max())
    least = [min(values) for values in own.values()]
    return min(least), sum(least), len(own)


@pytest.mark.parametrize("solver", ["exact", "sgd", "dual"])
def test_margins_are_those_of_the_paper(solver):
    """One polytope, each side of two and each pair of classes has a row of its worst and total margin."""
    settings = {"C": 10.0, "solver": solver, "random_state": 0, "n_init": 1}
    machine = CPM(3, **settings).fit(X, LABELS)
    [row] = machine.margins_.to_dict("records")
    assert (row["outside"], row["inside"]) == ("b", "a")
    assert (row["worst"], row["total"], row["faces"]) == pytest.approx(margins_by_hand(machine, X, Y))
    both = CPM(3, inside_label="both", **settings).fit(X, LABELS)
    assert both.margins_["outside"].tolist() == ["b", "a"]
    assert both.margins_.iloc[0].to_dict() == pytest.approx(row)
    three = np.where((Y > 0) & (X[:, 0] > 0), "c", LABELS)
    many = CPM(2, **settings).fit(X, three)
    assert list(zip(many.margins_["inside"], many.margins_["outside"], strict=True)) == many.pairs_
    last = three != "a"
    expected = margins_by_hand(many.estimators_[2], X[last], np.where(three[last] == "c", 1.0, -1.0))
    assert many.margins_.iloc[2][["worst", "total", "faces"]].tolist() == pytest.approx(expected)


def test_hard_worst_margin_is_that_of_the_program():
    """A cost beyond every multiplier makes hard margins: 1 over the norm of the longest face."""
    samples, y, z = separated_clusters(n=18)
    best = cpm_margins.worst(samples, y, 3, z).solve().objective
    penalty = FacePenalty(margin="worst")
    machine = CPM(3, C=1e4, penalty=penalty, loss="max", random_state=0, n_init=2).fit(samples, y)
    [row] = machine.margins_.to_dict("records")
    assert row["worst"] >= (1 - 1e-6) * best  # another assignment may do better
    longest = np.sqrt((np.c_[machine.W_, machine.b_] ** 2).sum(axis=1).max())
    assert row["worst"] >= (1 - 1e-5) / longest
    assert machine.certificate(1e-5).claim is Claim.STATIONARY
    assert "margin='worst'" in machine.certificate().program
    assert machine.solution_.duals["norm"].sum() == pytest.approx(1.0, abs=1e-5)


def test_margins_are_in_units_of_the_solver():
    """Margins count features by their scale, and need the training data."""
    machine = CPM(2, C=10.0, random_state=0, solver="sgd", sgd=SGDSettings(feature_scale=0.5)).fit(X, Y)
    halved = CPM(2, C=10.0, random_state=0, solver="sgd").fit(0.5 * X, Y)
    assert machine.margins_["total"][0] == pytest.approx(halved.margins_["total"][0])
    for other in (machine.without_data(), CPM(2).partial_fit(X, Y)):
        with pytest.raises(ValueError, match="margins_ needs the training data"):
            _ = other.margins_
