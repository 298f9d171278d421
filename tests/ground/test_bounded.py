"""Scores with bounds: no error is above its bound, far-out samples cost others little, labels are exact."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs

from polyopt import SVM
from polyopt.base import threads
from polyopt.linalg import kernel_scores as scoring
from polyopt.linalg.kernel_scores import CoefBlock, Scorer
from polyopt.linalg.kernels import Kernel, SampleGram
from polyopt.linalg.sparse_products import multiply_transposed
from polyopt.margin.kernel_scorer import scorer_of

PRECISIONS = [np.float32, np.float64]


def ordinary(rng, count, m):
    return rng.normal(size=(count, m))


def far_out(rng, count, m):
    """A few samples lie up to 1,000 times as far out as the others."""
    X = rng.normal(size=(count, m))
    X[:: count // 9] *= np.geomspace(3.0, 1000.0, len(X[:: count // 9]))[:, None]
    return X[rng.permutation(count)]


def badly_scaled(rng, count, m):
    """Columns over six decades, and a mean that is far from zero."""
    return (5.0 + rng.normal(size=(count, m))) * np.geomspace(1e-3, 1e3, m) / 1e3 * np.sqrt(m)


def rare(rng, count, m):
    """Most entries are zero, of a sample and of a column."""
    return np.where(rng.random((count, m)) < rng.random(m) ** 4, rng.normal(size=(count, m)), 0.0)


DATA = [ordinary, far_out, badly_scaled, rare]


def exactly(kernel, Z, X):
    """The kernel in extended precision, from its definition."""
    Z, X = np.asarray(Z, dtype=np.longdouble), np.asarray(X, dtype=np.longdouble)
    if kernel.name == "rbf":
        return np.array([np.exp(-kernel.gamma * ((X - z) ** 2).sum(axis=1)) for z in Z])
    return (kernel.gamma * (Z @ X.T) + kernel.coef0) ** kernel.degree


def expansions(gram):
    """Coefficients of many sizes, of one expansion and of two by two parts."""
    n = gram.n
    coef = np.random.default_rng(1).normal(size=(n, 2)) * np.geomspace(1e-3, 1e3, n)[:, None]
    half, both = n // 2, np.array([0, 1])
    parts = [CoefBlock(0, half, both, coef[:half]), CoefBlock(half, n, both, coef[half:])]
    return [(coef, Scorer(gram, parts, 2)), (coef[:, :1], Scorer(gram, [CoefBlock.whole(coef[:, 0])]))]


# -- the bounds ------------------------------------------------------------------------------


@lru_cache(maxsize=2)  # for all precisions and forms, which follow each other
def rbf_problem(data, gamma):
    """Samples, some of which are equal or nearly so, and their exact kernel."""
    rng = np.random.default_rng(0)
    X, Z = data(rng, 1200, 12), data(rng, 300, 12)
    Z[:20], Z[20:40] = X[:20], X[20:40] * (1.0 + 1e-6)
    kernel = Kernel("rbf", gamma)
    return kernel, X, Z, exactly(kernel, Z, X)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("gamma", [1e-4, 30.0])
@pytest.mark.parametrize("data", DATA)
def test_no_error_of_an_rbf_score_is_above_its_bound(data, gamma, dtype, sparse):
    kernel, X, Z, K = rbf_problem(data, gamma)
    made = sp.csr_array if sparse else np.asarray
    for coef, scorer in expansions(SampleGram(made(X), kernel)):
        found, bounds = scorer.bounded_scores(made(Z), dtype)
        assert (np.abs(found - K @ coef) <= bounds).all()
        assert np.isfinite(bounds).mean() > 0.9


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("data", DATA)
def test_no_error_of_a_sparse_polynomial_score_is_above_its_bound(data, degree):
    rng = np.random.default_rng(0)
    X, Z = data(rng, 700, 12), data(rng, 300, 12)
    kernel = Kernel("poly", 0.1, degree, 1.0)
    K = exactly(kernel, Z, X)
    for coef, scorer in expansions(SampleGram(sp.csr_array(X), kernel)):
        found, bounds = scorer.bounded_scores(sp.csr_array(Z))
        assert (np.abs(found - K @ coef) <= bounds).all()
        assert np.isfinite(bounds).all()


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_samples_far_out_cost_the_others_little(dtype):
    rng = np.random.default_rng(0)
    X, Z, coef = rng.normal(size=(2000, 10)), rng.normal(size=(500, 10)), rng.normal(size=2000)
    few = X.copy()
    few[::400] *= np.array([10.0, 100.0, 1e3, 1e3, 1e3])[:, None]
    few[1::400] = -few[::400]  # so that the mean stays
    bounds = [
        Scorer(SampleGram(samples, Kernel("rbf", 0.1)), [CoefBlock.whole(coef)]).bounded_scores(Z, dtype)[1]
        for samples in (X, few)
    ]
    assert np.median(bounds[1] / bounds[0]) < 2.0


@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.1), Kernel("poly", 1.0, 3, 1.0)], ids=["rbf", "poly"])
def test_where_single_precision_overflows_there_is_no_bound(kernel):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(300, 4)), rng.normal(size=(40, 4))
    Z[:10] *= 1e13
    Z[10:20] *= 1e25
    scorer = Scorer(SampleGram(X, kernel), [CoefBlock.whole(rng.normal(size=300))])
    bounds = scorer.bounded_scores(Z)[1]
    assert (bounds[:20] == np.inf).all()
    assert np.isfinite(bounds[20:]).all()


# -- sparse products -------------------------------------------------------------------------


def test_a_row_of_a_sparse_product_has_no_more_roundings_than_it_says():
    """Against sums of fractions, by the bound of so many roundings that the scores count on."""
    rng = np.random.default_rng(0)
    A = (rng.normal(size=(5, 40)) * 10.0 ** rng.integers(-4, 5, size=40)).astype(np.float32)
    out = np.empty((5, 5), dtype=np.float32)
    multiply_transposed(sp.csr_array(A), sp.csr_array(A), out)
    for i in range(5):
        for j in range(5):
            terms = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(A[i], A[j], strict=True)]
            allowed = Fraction(41, 2**24) * sum(map(abs, terms))
            assert abs(Fraction(float(out[i, j])) - sum(terms)) <= allowed


# -- labels ----------------------------------------------------------------------------------


def classified(data, classes, count):
    """Points of some kind, and labels by where they lie among random centres, some of them flipped."""
    rng = np.random.default_rng(2)
    X = data(rng, count, 8)
    _, y = make_blobs(count, 8, centers=classes, random_state=0)
    scaled = (X - np.median(X, axis=0)) / (X.std(axis=0) + 1e-9)
    nearest = (scaled @ rng.normal(size=(8, classes))).argmax(axis=1)
    return X, np.where(rng.random(count) < 0.1, y, nearest)


@pytest.mark.parametrize(("C", "classes", "sparse", "kernel"), [
    (1.0, 2, False, "rbf"), (1e4, 3, False, "rbf"), (1e4, 2, True, "rbf"), (1.0, 3, False, "poly"),
])  # fmt: skip
@pytest.mark.parametrize("data", DATA)
def test_labels_are_those_of_the_scores_in_double_precision(data, C, classes, sparse, kernel, monkeypatch):
    monkeypatch.setattr(scoring, "_MIN_BOUND_WORK", 0.0)
    X, y = classified(data, classes, 2600)
    made = sp.csr_array if sparse else np.asarray
    model = SVM(C, kernel=kernel, tol=1e-2, max_iter=300).fit(made(X[:600]), y[:600])
    scores = model.decision_function(made(X))
    expected = (scores > 0).astype(int) if classes == 2 else scores.argmax(axis=1)
    assert np.array_equal(model.predict(made(X)), model.classes_[expected])


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_hardly_a_label_needs_distances_by_differences(sparse, monkeypatch):
    """Products serve where coefficients are so large that scores are taken from differences."""
    monkeypatch.setattr(scoring, "_MIN_BOUND_WORK", 0.0)
    X, y = classified(far_out, 2, 600)
    Z = classified(far_out, 2, 3000)[0]
    made = sp.csr_array if sparse else np.asarray
    model = SVM(1e3, gamma=1.0, tol=1e-2, max_iter=300).fit(made(X), y)
    assert scorer_of(model).scorer._gram._uses_differences
    exact = []
    monkeypatch.setattr(
        Scorer,
        "_score_block",
        lambda self, Z, was=Scorer._score_block: (exact.append(Z.shape[0]), was(self, Z))[1],
    )
    model.predict(made(Z))
    assert sum(exact) < 0.01 * len(Z)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_sparse_scores_have_the_same_bits_on_one_thread_and_on_many(dtype, monkeypatch):
    monkeypatch.setattr(threads, "_MIN_THREAD_WORK", 0.0)
    rng = np.random.default_rng(0)
    X, Z = sp.csr_array(rare(rng, 900, 40)), sp.csr_array(rare(rng, 2100, 40))
    scorer = Scorer(SampleGram(X, Kernel("rbf", 0.1)), [CoefBlock.whole(rng.normal(size=900))])
    answers = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "thread_count", lambda count=count: count)
        answers.append([scorer.scores(Z), *scorer.bounded_scores(Z, dtype)])
    for other in answers[1:]:
        assert all(map(np.array_equal, answers[0], other))
