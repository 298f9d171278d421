"""Kernel scores: those of the definition, errors within their bounds, and labels of the exact scores."""

import pickle
import threading
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import make_blobs

from polyopt import SVM, OneNormSVM
from polyopt.linalg.kernel_scores import CoefBlock, Scorer
from polyopt.linalg.kernels import Kernel, SampleGram, chunks
from polyopt.linalg.sparse_products import multiply_transposed
from polyopt.margin.kernel_scorer import scorer_of

KERNELS = [
    Kernel("rbf", 0.05),
    Kernel("poly", 0.1, 3, 1.0),
    Kernel("poly", 0.1, 2, -1.0),
    Kernel("sigmoid", 0.05, coef0=-0.5),
]
by_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda each: f"{each.name} {each.coef0:+g}")
by_form = pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
by_type = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["single", "double"])


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


by_data = pytest.mark.parametrize(
    "data", [ordinary, far_out, badly_scaled, rare], ids=lambda each: each.__name__
)


def exactly(kernel, Z, X):
    """The kernel in extended precision, from its definition."""
    Z, X = np.asarray(Z, dtype=np.longdouble), np.asarray(X, dtype=np.longdouble)
    if kernel.name == "rbf":
        return np.array([np.exp(-kernel.gamma * ((X - z) ** 2).sum(axis=1)) for z in Z])
    argument = kernel.gamma * (Z @ X.T) + kernel.coef0
    return np.tanh(argument) if kernel.name == "sigmoid" else argument**kernel.degree


def overlapping(kernel, n=1300, d=20, t=1100, scale=1.0):
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


def expansions(gram):
    """Coefficients of many sizes: two expansions over two halves of the samples, and a single one."""
    n = gram.n
    coef = np.random.default_rng(1).normal(size=(n, 2)) * np.geomspace(1e-3, 1e3, n)[:, None]
    half, both = n // 2, np.array([0, 1])
    parts = [CoefBlock(0, half, both, coef[:half]), CoefBlock(half, n, both, coef[half:])]
    return [(coef, Scorer(gram, parts, 2)), (coef[:, :1], Scorer(gram, [CoefBlock.whole(coef[:, 0])]))]


# -- scores -----------------------------------------------------------------------------------


@by_kernel
def test_scores_are_their_definition(kernel):
    """To 1e-12 of the sum of sizes, and single-precision points are taken as they are."""
    X, Z, coef, scorer = overlapping(kernel)
    K = exactly(kernel, Z, X)
    sizes = np.abs(K) @ np.abs(coef)
    assert (np.abs(scorer.scores(Z) - K @ coef) <= 1e-12 * sizes).all()
    single = Z.astype(np.float32)
    assert np.array_equal(scorer.scores(single), scorer.scores(single.astype(float)))


@by_kernel
def test_sparse_points_have_the_same_scores(kernel):
    """Sparse points with dense samples, and dense points with sparse samples."""
    X, Z, coef, dense = overlapping(kernel)
    mixed = dense.scores(sp.csr_array(Z))
    assert mixed == pytest.approx(dense.scores(Z), rel=1e-12, abs=1e-9)
    whole = Scorer(SampleGram(sp.csr_array(X), kernel), [CoefBlock.whole(coef[:, 1])])
    assert whole.scores(Z)[:, 0] == pytest.approx(mixed[:, 1], rel=1e-10, abs=1e-9)


def test_far_points_are_scored_by_differences():
    """Whether differences or products are taken does not depend on the company a point is in."""
    X, Z, _, scorer = overlapping(Kernel("rbf", 1e-3))
    Z[::7] *= 1e6
    Z[0] = 1e6 + X[0]
    together = scorer.scores(Z)
    assert (np.abs(together[::7][1:]) < 1e-300).all()
    assert together[1:7] == pytest.approx(scorer.scores(Z[1:7]), rel=1e-12, abs=1e-13)


@by_form
@by_type
def test_scores_have_one_machine_s_bits(form, dtype, on_threads):
    """Scores and their bounds are the same on one thread, two and five."""
    rng = np.random.default_rng(0)
    X, Z = form(rare(rng, 900, 40)), form(rare(rng, 2100, 40))
    scorer = Scorer(SampleGram(X, Kernel("rbf", 0.1)), [CoefBlock.whole(rng.normal(size=900))])
    answers = []
    for count in (1, 2, 5):
        on_threads(count)
        answers.append([scorer.scores(Z), *scorer.bounded_scores(Z, dtype)])
    for other in answers[1:]:
        assert all(map(np.array_equal, answers[0], other))


def test_chunks_are_all_the_samples():
    """In their order, none larger than asked for."""
    for n, size in product(range(8), (1, 3, 5)):
        parts = list(chunks(np.arange(n), size))
        assert [i for part in parts for i in part] == list(range(n))
        assert [len(part) for part in parts[:-1]] == [size] * (len(parts) - 1)
        assert all(0 < len(part) <= size for part in parts)


# -- bounds -----------------------------------------------------------------------------------


BOUNDED = {
    "wide": Kernel("rbf", 1e-4), "narrow": Kernel("rbf", 30.0),
    "square": Kernel("poly", 0.1, 2, 1.0), "cube": Kernel("poly", 0.1, 3, 1.0),
}  # fmt: skip


@lru_cache(maxsize=2)  # for all precisions and forms, which follow each other
def problem(data, name):
    """Samples, some of which are equal or nearly so, and their exact kernel."""
    rng = np.random.default_rng(0)
    X, Z = data(rng, 1200, 12), data(rng, 300, 12)
    Z[:20], Z[20:40] = X[:20], X[20:40] * (1.0 + 1e-6)
    return X, Z, exactly(BOUNDED[name], Z, X)


@pytest.mark.parametrize(
    ("name", "dtype", "form"),
    [
        *product(["wide", "narrow"], [np.float32, np.float64], [np.asarray, sp.csr_array]),
        *product(["square", "cube"], [np.float32], [sp.csr_array]),
    ],
)
@by_data
def test_errors_are_within_bounds(data, name, dtype, form):
    """Against extended precision; nine of ten bounds are finite, and all of sparse polynomials."""
    X, Z, K = problem(data, name)
    for coef, scorer in expansions(SampleGram(form(X), BOUNDED[name])):
        found, bounds = scorer.bounded_scores(form(Z), dtype)
        assert (np.abs(found - K @ coef) <= bounds).all()
        assert np.isfinite(bounds).mean() > 0.9
        assert BOUNDED[name].name == "rbf" or np.isfinite(bounds).all()


@pytest.mark.parametrize(("d", "scale"), [(1, 3.0), (20, 1e-3), (300, 1.0)], ids=["a line", "near 0", "high"])
@by_kernel
def test_errors_of_parts_are_within_bounds(kernel, d, scale):
    """Of three expansions over two parts, and of one, in dimensions of 1 to 300."""
    X, Z, coef, scorer = overlapping(kernel, n=720, d=d, t=120, scale=scale)
    Z[:10] *= 20.0
    Z[10] = X[5]
    Z = Z.astype(np.float32)  # points that both precisions have
    exact = exactly(kernel, Z, X) @ coef
    found, bounds = scorer.bounded_scores(Z.astype(float))
    assert (np.abs(found - exact) <= bounds).all()
    one = Scorer(SampleGram(X, kernel), [CoefBlock.whole(coef[:, 1])])
    found, bounds = one.bounded_scores(Z)
    assert (np.abs(found[:, 0] - exact[:, 1]) <= bounds[:, 0]).all()


def test_bounds_in_single_precision_are_useful():
    """The median bound is below 1 % of its score."""
    _, Z, _, scorer = overlapping(KERNELS[0])
    found, bounds = scorer.bounded_scores(Z)
    assert np.median(bounds / np.abs(found)) < 0.01


@by_type
def test_far_samples_cost_others_little(dtype):
    """Five samples in 2,000 that lie 10 to 1,000 times as far out do not double the median bound."""
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
def test_overflow_has_no_bound(kernel):
    """Points that overflow single precision have an infinite bound, and the others a finite one."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(300, 4)), rng.normal(size=(40, 4))
    Z[:10] *= 1e13
    Z[10:20] *= 1e25
    scorer = Scorer(SampleGram(X, kernel), [CoefBlock.whole(rng.normal(size=300))])
    bounds = scorer.bounded_scores(Z)[1]
    assert (bounds[:20] == np.inf).all()
    assert np.isfinite(bounds[20:]).all()


def test_sparse_products_have_few_roundings():
    """Against sums of fractions: no more roundings than the bounds count on."""
    rng = np.random.default_rng(0)
    A = (rng.normal(size=(5, 40)) * 10.0 ** rng.integers(-4, 5, size=40)).astype(np.float32)
    out = np.empty((5, 5), dtype=np.float32)
    multiply_transposed(sp.csr_array(A), sp.csr_array(A), out)
    for i, j in product(range(5), repeat=2):
        terms = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(A[i], A[j], strict=True)]
        allowed = Fraction(41, 2**24) * sum(map(abs, terms))
        assert abs(Fraction(float(out[i, j])) - sum(terms)) <= allowed


# -- labels -----------------------------------------------------------------------------------


def blobs(classes=4, n=900, m=12):
    return make_blobs(n, m, centers=classes, cluster_std=7.0, random_state=0)


def classified(data, classes, count):
    """Points of some kind, and labels by where they lie among random centres, some of them flipped."""
    rng = np.random.default_rng(2)
    X = data(rng, count, 8)
    _, y = make_blobs(count, 8, centers=classes, random_state=0)
    scaled = (X - np.median(X, axis=0)) / (X.std(axis=0) + 1e-9)
    nearest = (scaled @ rng.normal(size=(8, classes))).argmax(axis=1)
    return X, np.where(rng.random(count) < 0.1, y, nearest)


@pytest.mark.parametrize(("C", "classes", "form", "kernel"), [
    (1.0, 2, np.asarray, "rbf"), (1e4, 3, np.asarray, "rbf"), (1e4, 2, sp.csr_array, "rbf"),
    (1.0, 3, np.asarray, "poly"),
], ids=["two classes", "three", "sparse", "poly"])  # fmt: skip
@by_data
def test_labels_are_those_of_exact_scores(data, C, classes, form, kernel):
    """Labels from scores in single precision, where their bounds allow, are those of the double ones."""
    X, y = classified(data, classes, 9000 if form is np.asarray else 30_000)
    model = SVM(C, kernel=kernel, tol=1e-2, max_iter=300).fit(form(X[:600]), y[:600])
    assert scorer_of(model).scorer.precisions(form(X))
    scores = model.decision_function(form(X))
    expected = (scores > 0).astype(int) if classes == 2 else scores.argmax(axis=1)
    assert np.array_equal(model.predict(form(X)), model.classes_[expected])


@by_form
@pytest.mark.parametrize(("C", "gamma", "most"), [(1.0, "scale", 0.1), (1e3, 1.0, 0.01)], ids=["near", "far"])
def test_few_labels_need_exact_scores(C, gamma, most, form):
    """Also where coefficients are so large that double scores are taken from differences."""
    data, exact = far_out if gamma == 1.0 else ordinary, []
    X, y = classified(data, 2, 600)
    Z = form(classified(data, 2, 6000)[0])
    scorer = scorer_of(SVM(C, gamma=gamma, tol=1e-2, max_iter=300).fit(form(X), y))
    assert scorer.scorer.precisions(Z)

    def exact_labels(rows):
        exact.append(rows.shape[0])
        return np.zeros(rows.shape[0], dtype=int)

    scorer.labels(Z, exact_labels)
    assert sum(exact) < most * 6000


def votes(scores, classes):
    """Votes of the pairs of classes, and within a third of a vote the sum of their scores."""
    found, sums = np.zeros((2, len(scores), classes))
    for score, (first, second) in zip(scores.T, combinations(range(classes), 2), strict=True):
        found[:, second] += score > 0
        found[:, first] += score <= 0
        sums[:, second] += score
        sums[:, first] -= score
    return found + sums / (3 * (np.abs(sums) + 1))


@pytest.mark.parametrize("machine", [SVM(), OneNormSVM(kernel="rbf")], ids=["svm", "one-norm"])
@by_form
def test_pairs_vote_as_each_by_itself(machine, form):
    """The scores of four classes, whose pairs are scored at once, are the votes of the pairs."""
    X, y = blobs(4, 200)
    X, Z = form(X), form(blobs(4, 700)[0])
    weights = np.where(np.arange(200) % 5 == 0, 0.0, 1.0)
    model = clone(machine).fit(X, y, sample_weight=weights)
    scores = np.column_stack([pair.decision_function(Z) for pair in model.estimators_])
    expected = votes(scores, 4)
    assert model.decision_function(Z) == pytest.approx(expected, abs=1e-9)


def test_pairs_without_support_vectors_have_intercepts():
    """At a cost that no sample is worth, each pair's score is its intercept."""
    X, y = blobs(3, 200)
    model = OneNormSVM(C=1e-6, kernel="rbf").fit(X, y)
    scores = np.column_stack([pair.decision_function(X) for pair in model.estimators_])
    assert (scores == [pair.intercept_[0] for pair in model.estimators_]).all()
    expected = votes(scores, 3)
    assert model.decision_function(X) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_predictions_leave_no_trace_in_files(classes):
    """What is kept to predict faster is not pickled, and is made anew for another fit."""
    X, y = blobs(classes, 300)
    model = SVM().fit(X, y)
    before, first = pickle.dumps(model), model.decision_function(X)
    model.predict(X)
    assert pickle.dumps(model) == before
    assert np.array_equal(pickle.loads(before).decision_function(X), first)
    model.fit(X[::2], y[::2])
    assert np.array_equal(model.decision_function(X), SVM().fit(X[::2], y[::2]).decision_function(X))


def test_function_as_kernel_gets_doubles(on_threads):
    """And it is called by the caller's thread alone."""
    on_threads(4)
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
def test_new_parameters_change_no_fit(classes):
    """A pickled model predicts with the parameters of its fit, whatever is set afterwards."""
    X, y = blobs(classes, 200)
    model = pickle.loads(pickle.dumps(SVM(0.5, gamma=0.01).fit(X, y)))
    before = model.decision_function(X)
    model.set_params(gamma=1.0, C=3.0)
    assert np.array_equal(model.decision_function(X), before)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_machine_of_a_pair_is_fitted_alone(n_jobs):
    """Its parameters, outputs and claim are those of a machine of its two classes."""
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
