"""Predictions by tiles, on threads and in single precision: the scores of the formula, and its signs."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.utils.multiclass import _ovr_decision_function

from polyopt import SVM, OneNormSVM
from polyopt.base import threads
from polyopt.linalg.kernel_scores import CoefBlock, Scorer
from polyopt.linalg.kernels import Kernel, SampleGram, chunks
from polyopt.margin.kernel_scorer import scorer_of

KERNELS = [
    Kernel("rbf", 0.05),
    Kernel("poly", 0.1, 3, 1.0),
    Kernel("poly", 0.1, 2, -1.0),
    Kernel("sigmoid", 0.05, coef0=-0.5),
]


@pytest.fixture(params=KERNELS, ids=lambda kernel: f"{kernel.name} {kernel.coef0:+g}")
def kernel(request):
    return request.param


def expansions(kernel, n=1300, d=20, t=1100, scale=1.0):
    """Samples in two parts with coefficients in three expansions, and points."""
    rng = np.random.default_rng(0)
    X, Z = scale * rng.normal(size=(n, d)), scale * rng.normal(size=(t, d))
    coef = rng.normal(size=(n, 3))
    coef[:700, 2] = coef[700:, 0] = 0.0
    parts = [
        CoefBlock(0, 700, np.array([0, 1]), coef[:700, :2]),
        CoefBlock(700, n, np.array([1, 2]), coef[700:, 1:]),
    ]
    return X, Z, coef, Scorer(SampleGram(X, kernel), parts, 3)


def plain(kernel, Z, X):
    """The kernel in extended precision, from its definition."""
    Z, X = np.asarray(Z, dtype=np.longdouble), np.asarray(X, dtype=np.longdouble)
    if kernel.name == "rbf":
        return np.array([np.exp(-kernel.gamma * ((X - z) ** 2).sum(axis=1)) for z in Z])
    argument = kernel.gamma * (Z @ X.T) + kernel.coef0
    return np.tanh(argument) if kernel.name == "sigmoid" else argument**kernel.degree


def test_scores_are_those_of_the_definition(kernel):
    X, Z, coef, scorer = expansions(kernel)
    K = plain(kernel, Z, X)
    sizes = np.abs(K) @ np.abs(coef)
    assert (np.abs(scorer.scores(Z) - K @ coef) <= 1e-12 * sizes).all()
    single = Z.astype(np.float32)
    assert np.array_equal(scorer.scores(single), scorer.scores(single.astype(float)))


def test_sparse_points_have_the_same_scores(kernel):
    X, Z, coef, dense = expansions(kernel)
    mixed = dense.scores(sp.csr_array(Z))
    assert mixed == pytest.approx(dense.scores(Z), rel=1e-12, abs=1e-9)
    whole = Scorer(SampleGram(sp.csr_array(X), kernel), [CoefBlock.whole(coef[:, 1])])
    assert whole.scores(Z)[:, 0] == pytest.approx(mixed[:, 1], rel=1e-10, abs=1e-9)


@pytest.mark.parametrize(("d", "scale"), [(1, 3.0), (20, 1e-3), (300, 1.0)])
def test_errors_in_single_precision_are_within_their_bounds(kernel, d, scale):
    X, Z, coef, scorer = expansions(kernel, n=720, d=d, t=120, scale=scale)
    Z[:10] *= 20.0
    Z[10] = X[5]
    Z = Z.astype(np.float32)  # points that both precisions have
    exact = plain(kernel, Z, X) @ coef
    found, bounds = scorer.bounded_scores(Z.astype(float))
    assert (np.abs(found - exact) <= bounds).all()
    one = Scorer(SampleGram(X, kernel), [CoefBlock.whole(coef[:, 1])])
    found, bounds = one.bounded_scores(Z)
    assert (np.abs(found[:, 0] - exact[:, 1]) <= bounds[:, 0]).all()


def test_bounds_in_single_precision_tell_something():
    _, Z, _, scorer = expansions(KERNELS[0])
    found, bounds = scorer.bounded_scores(Z)
    assert np.median(bounds / np.abs(found)) < 0.01


def test_far_points_are_scored_by_differences_and_the_others_by_products():
    """Which of the two does not depend on the company a point is in."""
    kernel = Kernel("rbf", 1e-3)
    X, Z, _, scorer = expansions(kernel)
    Z[::7] *= 1e6
    Z[0] = 1e6 + X[0]
    together = scorer.scores(Z)
    assert (np.abs(together[::7][1:]) < 1e-300).all()
    assert together[1:7] == pytest.approx(scorer.scores(Z[1:7]), rel=1e-12, abs=1e-13)


# -- classifiers ---------------------------------------------------------------------------


def blobs(classes=4, n=900, m=12):
    return make_blobs(n, m, centers=classes, cluster_std=7.0, random_state=0)


def test_most_labels_come_from_single_precision(monkeypatch):
    X, y = blobs(2)
    Z = blobs(2, 5000)[0]
    model = SVM().fit(X, y)
    exact = []
    monkeypatch.setattr(
        Scorer,
        "_score_block",
        lambda self, Z, was=Scorer._score_block: (exact.append(len(Z)), was(self, Z))[1],
    )
    model.predict(Z)
    assert sum(exact) < 0.1 * len(Z)


@pytest.mark.parametrize("classes", [2, 4])
def test_one_thread_and_many_give_the_same_bits(classes, monkeypatch):
    X, y = blobs(classes)
    Z = blobs(classes, 5000)[0]
    model = SVM().fit(X, y)
    monkeypatch.setattr(threads, "_MIN_THREAD_WORK", 0.0)
    answers = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "thread_count", lambda count=count: count)
        scorer = scorer_of(model).scorer
        answers.append([model.decision_function(Z), *scorer.bounded_scores(Z), model.predict(Z)])
    for other in answers[1:]:
        assert all(map(np.array_equal, answers[0], other))


@pytest.mark.parametrize("machine", [SVM(), OneNormSVM(kernel="rbf")], ids=["svm", "one-norm"])
@pytest.mark.parametrize("sparse", [False, True])
def test_pairs_scored_at_once_vote_as_each_by_itself(machine, sparse):
    X, y = blobs(4, 200)
    Z = blobs(4, 700)[0]
    X, Z = (sp.csr_array(X), sp.csr_array(Z)) if sparse else (X, Z)
    weights = np.where(np.arange(200) % 5 == 0, 0.0, 1.0)
    model = clone(machine).fit(X, y, sample_weight=weights)
    scores = np.column_stack([pair.decision_function(Z) for pair in model.estimators_])
    expected = _ovr_decision_function(scores > 0, scores, 4)
    assert model.decision_function(Z) == pytest.approx(expected, abs=1e-9)


def test_a_pair_without_support_vectors_answers_by_its_intercept():
    X, y = blobs(3, 200)
    model = SVM().fit(X, y)
    last = model.estimators_[-1]
    last._v = np.zeros_like(last._v)
    last._set_support(np.flatnonzero(last._v), last._v[:0], np.ones(len(last._v), dtype=bool))
    scores = np.column_stack([pair.decision_function(X) for pair in model.estimators_])
    assert (scores[:, -1] == last.intercept_[0]).all()
    assert model.decision_function(X) == pytest.approx(
        _ovr_decision_function(scores > 0, scores, 3), abs=1e-9
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_what_is_kept_for_predictions_is_not_saved_and_follows_the_model(classes):
    X, y = blobs(classes, 300)
    model = SVM().fit(X, y)
    before = pickle.dumps(model)
    first = model.decision_function(X)
    model.predict(X)
    assert pickle.dumps(model) == before
    assert np.array_equal(pickle.loads(before).decision_function(X), first)
    machine = model if classes == 2 else model.estimators_[0]
    machine._v *= 3.0
    machine.intercept_ += 5.0
    fresh = pickle.loads(pickle.dumps(model))
    assert np.array_equal(model.decision_function(X), fresh.decision_function(X))
    assert not np.array_equal(model.decision_function(X), first)
    model.fit(X[::2], y[::2])
    assert np.array_equal(model.decision_function(X), SVM().fit(X[::2], y[::2]).decision_function(X))


def test_a_kernel_that_is_a_function_gets_doubles_and_no_threads(monkeypatch):
    import threading

    monkeypatch.setattr(threads, "thread_count", lambda: 4)
    monkeypatch.setattr(threads, "_MIN_THREAD_WORK", 1.0)
    here = threading.get_ident()

    def kernel(A, B):
        assert threading.get_ident() == here
        assert A.dtype == np.float64
        return np.asarray(A @ B.T, dtype=float)

    X, y = blobs(3, 200)
    model = SVM(kernel=kernel, n_jobs=1).fit(X, y)
    Z = blobs(3, 3000)[0].astype(np.float32)
    assert np.array_equal(model.decision_function(Z), model.decision_function(Z.astype(float)))


@pytest.mark.parametrize("classes", [2, 3])
def test_a_loaded_model_is_not_taken_for_one_with_other_parameters(classes):
    X, y = blobs(classes, 200)
    model = pickle.loads(pickle.dumps(SVM(0.5, gamma=0.01).fit(X, y)))
    assert model._as_fitted() is model
    before = model.decision_function(X)
    model.set_params(gamma=1.0, C=3.0)
    assert model._as_fitted() is not model
    assert np.array_equal(model.decision_function(X), before)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_the_machine_of_a_pair_is_that_of_its_two_classes(n_jobs):
    X, y = blobs(3, 240)
    with parallel_config(backend="threading"):
        model = SVM(n_jobs=n_jobs).fit(X, y)
    for machine, pair in zip(model.estimators_, [(0, 1), (0, 2), (1, 2)], strict=True):
        rows = np.isin(y, pair)
        alone = SVM(gamma=machine.gamma_).fit(X[rows], y[rows])
        assert machine.classes_.tolist() == list(pair)
        assert machine.get_params() == alone.get_params()
        assert machine.decision_function(X) == pytest.approx(alone.decision_function(X), abs=1e-6)
        assert machine.certificate().claim is alone.certificate().claim


def test_chunks_are_all_the_samples_in_order_and_none_is_larger():
    for n, size in product(range(8), (1, 3, 5)):
        parts = list(chunks(np.arange(n), size))
        assert [i for part in parts for i in part] == list(range(n))
        assert [len(part) for part in parts[:-1]] == [size] * (len(parts) - 1)
        assert all(0 < len(part) <= size for part in parts)
