"""Sparse samples in very many columns: nothing costs the width, and empty columns change nothing."""

from __future__ import annotations

import pickle
import tracemalloc
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.methods import Case
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import make_pipeline

from polyopt import SVM, CrossEntropySettings
from polyopt.linalg.kernel_scores import BoundedScorer, CoefBlock
from polyopt.linalg.kernels import Kernel, SampleGram
from polyopt.margin.kernel_classifier import variance
from polyopt.methods import METHODS

pytestmark = pytest.mark.filterwarnings("ignore")

NO_COVARIANCE = {"sigma-svm"}  # its covariance is of all features, and it refuses so many
NAMES = [name for name in METHODS if name not in NO_COVARIANCE]
WIDTH, IN_USE, ENTRIES, SAMPLES = 2**18, 40, 10, 40
DENSE_BYTES = 8 * SAMPLES * WIDTH


def samples(n, seed):
    """Rows of ten entries in forty columns, as a narrow CSR array and spread over 2^18 columns."""
    rng = np.random.default_rng(seed)
    columns = np.concatenate([np.sort(rng.permutation(IN_USE)[:ENTRIES]) for _ in range(n)])
    values, starts = rng.normal(size=n * ENTRIES), np.arange(n + 1) * ENTRIES
    narrow = sp.csr_array((values, columns, starts), shape=(n, IN_USE))
    return narrow, sp.csr_array((values, columns * (WIDTH // IN_USE), starts), shape=(n, WIDTH))


NARROW, WIDE = samples(SAMPLES, 0)
NARROW_NEW, WIDE_NEW = samples(20, 1)
Y = np.where(NARROW @ np.random.default_rng(2).normal(size=IN_USE) > 0, "in", "out")


def machine(name):
    kernel = {"gamma": 0.2} if "kernel" in METHODS[name].settings else {}  # "scale" goes by the columns
    search = CrossEntropySettings(n_samples=20, max_iter=5)
    return Case(name, "auto").make(max_iter=20, random_state=0, search=search, **kernel)


class Fits(NamedTuple):
    """A machine of the narrow samples and of the wide ones, and the bytes that the wide one took at most."""

    narrow: Any
    wide: Any
    peak: int


@cache
def fits(name):
    """The machines of a method; the wide one has answered, is certified and is pickled."""
    narrow = machine(name).fit(NARROW, Y)
    tracemalloc.start()
    try:
        wide = machine(name).fit(WIDE, Y)
        wide.predict(WIDE_NEW)
        wide.score(WIDE, Y)
        wide.certificate()
        pickle.dumps(wide)
        return Fits(narrow, wide, tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


by_name = pytest.mark.parametrize("name", NAMES)


@by_name
def test_empty_columns_change_nothing(name):
    """Scores and certificates are those of the samples without the empty columns."""
    narrow, wide, _ = fits(name)
    expected = narrow.decision_function(NARROW_NEW)
    found = wide.decision_function(WIDE_NEW)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    assert wide.predict(WIDE_NEW).tolist() == narrow.predict(NARROW_NEW).tolist()
    assert wide.certificate().claim is narrow.certificate().claim


@pytest.mark.parametrize(
    "name", [name for name in NAMES if "rbf" not in name]
)  # distances are of all columns
def test_empty_columns_have_no_weight(name):
    """A column without entries in training plays no part in a score."""
    other = WIDE_NEW.copy()
    other.indices = other.indices + 1
    assert np.ptp(fits(name).wide.decision_function(other)) == 0.0


@by_name
def test_samples_never_become_dense(name):
    """No verb allocates the samples densely."""
    assert fits(name).peak < DENSE_BYTES


def test_sigma_svm_refuses():
    """The linear Sigma-SVM, whose covariance is of all features, names what it takes."""
    with pytest.raises(ValueError, match=f"{WIDTH} features"):
        machine("sigma-svm").fit(WIDE, Y)


def test_hashed_texts():
    """Hashed texts are predicted, by labels that bounded scores decide, as their scores say."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice([f"w{k}" for k in range(60 * c, 60 * c + 100)], 10)) for c in (0, 1) * 150]
    model = make_pipeline(HashingVectorizer(), SVM()).fit(texts, [0, 1] * 150)
    assert model.predict(texts).tolist() == (model.decision_function(texts) > 0).astype(int).tolist()


# -- rounding ----------------------------------------------------------------------------------


def grams(kernel):
    return SampleGram(NARROW, kernel), SampleGram(WIDE, kernel)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_of_scores_go_by_entries(dtype):
    """Scores in one precision, and bounds on their errors, are those of the narrow samples."""
    coef = np.random.default_rng(3).normal(size=SAMPLES)
    narrow, wide = (
        BoundedScorer(gram, [CoefBlock.whole(coef)], 1, dtype).scores(new, 1.0)
        for gram, new in zip(grams(Kernel("rbf", gamma=0.2)), (NARROW_NEW, WIDE_NEW), strict=True)
    )
    assert np.array_equal(wide[0], narrow[0])
    assert np.array_equal(wide[1], narrow[1])


def test_distances_by_differences():
    """Exponents by differences are those of dense samples, and take the columns in use alone."""
    narrow, wide = grams(Kernel("rbf", gamma=0.2))
    points, every = np.arange(20), np.arange(SAMPLES)
    found = wide.differences_from(every)(WIDE_NEW, points)
    dense = SampleGram(NARROW.toarray(), Kernel("rbf", gamma=0.2))
    expected = dense.differences_from(every)(NARROW_NEW.toarray(), points)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert np.array_equal(found, narrow.differences_from(every)(NARROW_NEW, points))


@pytest.mark.parametrize("weights", [np.ones(SAMPLES), np.arange(1.0, SAMPLES + 1)], ids=["ones", "many"])
@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_variance(weights, shift):
    """The variance of sparse samples is that of the dense ones, by weights."""
    given = NARROW.copy()
    given.data = given.data + shift
    entries, each = given.toarray().ravel(), np.repeat(weights, IN_USE)
    mean = np.average(entries, weights=each)
    expected = np.average((entries - mean) ** 2, weights=each)
    assert variance(given, weights) == pytest.approx(expected, rel=1e-12)
    assert variance(given.toarray(), weights) == pytest.approx(expected, rel=1e-12)
