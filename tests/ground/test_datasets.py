"""Data sets: the documented figures, the generators' known answers, every broken file by its line."""

import bz2
import gzip
import hashlib
import os
import pickle
import struct
import threading
import warnings
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.error import URLError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_breast_cancer
from sklearn.svm import SVC

from polyopt import datasets
from polyopt.datasets import DataFileError, Dataset, DatasetUnavailable, _download, _load
from polyopt.datasets._catalogue import ENTRIES
from polyopt.datasets._npz import Parts, read_npz, write_npz
from polyopt.datasets._svmlight import _read_carefully

# --- built-in sets -------------------------------------------------------------------------------

# Published figures, and a row that pins the order of rows and columns.
BUILT_IN = {
    "ionosphere": (351, 34, {0: 126, 1: 225}, [1, 0, 0.99539, -0.05889]),
    "sonar": (208, 60, {0: 97, 1: 111}, [0.02, 0.0371, 0.0428, 0.0207]),
    "pima": (768, 8, {0: 500, 1: 268}, [6, 148, 72, 35]),
    "bupa": (345, 6, {1: 145, 2: 200}, [85, 92, 45, 27]),
    "wbc": (683, 9, {0: 444, 1: 239}, [5, 1, 1, 1]),
    "wdbc": (569, 30, {0: 212, 1: 357}, [17.99, 10.38, 122.8, 1001]),
    "digits": (1797, 64, None, [0, 0, 5, 13]),
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_set_has_the_published_figures(name, monkeypatch):
    monkeypatch.setattr(_load, "FETCHERS", dict.fromkeys(_load.FETCHERS))  # nothing may be downloaded
    n, m, counts, first = BUILT_IN[name]
    data = datasets.load(name)
    assert data.X.shape == (n, m)
    assert data.X.dtype == np.float64
    assert data.y.dtype == np.int64
    assert np.isfinite(data.X).all()
    assert Counter(data.y.tolist()) == (counts or ENTRIES[name].counts)
    assert data.X[0, :4].tolist() == first
    assert len(data.feature_names) == m
    assert "Licence: " in data.description
    assert "Source: " in data.description


def test_wbc_and_wdbc_code_malignant_the_other_way_round():
    for name, malignant in (("wbc", 239), ("wdbc", 212)):
        data = datasets.load(name)
        code = data.target_names.index("malignant")
        assert (data.y == code).sum() == malignant


def test_wdbc_names_agree_with_scikit_learn():
    theirs = load_breast_cancer()
    ours = datasets.load("wdbc")
    assert ours.target_names == tuple(theirs.target_names)
    for our_name, their_name in zip(ours.feature_names, theirs.feature_names, strict=True):
        assert set(our_name.replace(" of ", " ").split()) == set(their_name.split())


def test_catalogue_agrees_with_itself_and_with_the_fetchers():
    frame = datasets.catalogue()
    assert tuple(frame.index) == datasets.names()
    assert set(frame.index[frame["kept"] == "fetched"]) == set(_load.FETCHERS)
    for entry in ENTRIES.values():
        assert list(entry.counts) == sorted(entry.counts)
        assert len(entry.target_names) == len(entry.counts)
        for counts, n in ((entry.counts, entry.n_samples), (entry.counts_test, entry.n_test)):
            assert None in counts.values() or sum(counts.values()) == n
        assert entry.feature_names is None or len(entry.feature_names) == entry.n_features
        assert entry.url.startswith("https://") == (entry.name in _load.FETCHERS)
        assert bool(entry.downloads) == (entry.name in set(_load.FETCHERS) - {"covtype"})


def test_every_named_set_is_in_the_docstring_of_load_with_its_size():
    rows = {line.split()[0]: line for line in datasets.load.__doc__.splitlines() if line.strip()}
    for entry in ENTRIES.values():
        size = f"{entry.n_samples} + {entry.n_test} " if entry.n_test else f"{entry.n_samples} "
        assert size in rows[entry.name]
        assert f" {entry.n_features} " in rows[entry.name]


def test_unknown_name_is_refused_with_a_suggestion():
    with pytest.raises(
        ValueError, match=r"name='ionosfere' is not a known data set. Did you mean 'ionosphere'\?"
    ):
        datasets.load("ionosfere")


# --- Dataset -------------------------------------------------------------------------------------


def test_split_keeps_class_shares_and_rows_together():
    y = np.repeat([0, 1], [90, 30])
    data = Dataset("d", np.arange(120.0)[:, None], y, ("a", "b"))
    X_train, X_test, y_train, y_test = data.split(test_size=0.2, random_state=0)
    assert Counter(y_test.tolist()) == {0: 18, 1: 6}
    assert sorted([*X_train[:, 0], *X_test[:, 0]]) == list(range(120))
    assert np.array_equal(y_test, y[X_test[:, 0].astype(int)])
    assert np.array_equal(data.split(0.2, 0)[1], X_test)
    assert not np.array_equal(data.split(0.2, 1)[1], X_test)
    assert len(y_train) == 96


def test_split_gives_the_published_parts():
    parts = np.zeros((3, 2)), np.array([0, 1, 1]), np.ones((1, 2)), np.array([0])
    data = Dataset("d", parts[0], parts[1], ("a", "b"), X_test=parts[2], y_test=parts[3])
    X_train, X_test, y_train, y_test = data.split(test_size=0.9, random_state=3)
    assert X_train is data.X
    assert X_test is data.X_test
    assert y_train is data.y
    assert y_test is data.y_test


def test_repr_says_size_kind_and_labels():
    data = Dataset("toy", sparse.csr_matrix((3, 5)), np.array([-1, 1, 1]), ("no", "yes"))
    assert repr(data) == "Dataset('toy', 3 × 5 sparse, labels {-1: 1, 1: 2})"
    with_test = Dataset(
        "t", np.zeros((1, 2)), np.array([0]), ("z",), X_test=np.zeros((4, 2)), y_test=np.zeros(4)
    )
    assert repr(with_test) == "Dataset('t', 1 × 2 dense, test 4 × 2, labels {0: 1})"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": np.zeros(3)}, "X must be"),
        ({"X": np.zeros(2)}, "X must be"),
        ({"feature_names": ("a",)}, "feature_names has 1 names; X has 2 columns"),
        ({"X_test": np.zeros((1, 2))}, "together"),
        ({"X_test": np.zeros((1, 3)), "y_test": np.zeros(1)}, "X_test has 3 columns; X has 2"),
        ({"X_test": np.zeros((2, 2)), "y_test": np.zeros(1)}, "X_test must be"),
    ],
)
def test_dataset_refuses_parts_that_do_not_fit(arguments, message):
    fitting = {"name": "d", "X": np.zeros((2, 2)), "y": np.array([0, 1]), "target_names": ("a", "b")}
    with pytest.raises(ValueError, match=message):
        Dataset(**(fitting | arguments))


# --- generators ----------------------------------------------------------------------------------


@pytest.mark.parametrize("margin", [0.0, 0.1, 3.0])
@pytest.mark.parametrize(("m", "K"), [(1, 1), (1, 2), (2, 3), (2, 7), (10, 4), (50, 5), (3, 1)])
@pytest.mark.parametrize("seed", [0, 1])
def test_polytope_points_keep_the_margin_on_their_side(m, K, margin, seed):
    X, y, W, b = datasets.make_polytope(400, m, K, margin=margin, random_state=seed)
    assert (W.shape, b.shape, X.shape) == ((K, m), (K,), (400, m))
    assert np.allclose(np.linalg.norm(W, axis=1), 1.0, atol=1e-14)
    assert (y * (X @ W.T + b).min(axis=1) >= margin).all()
    assert 0.35 < (y == 1).mean() < 0.65


@pytest.mark.parametrize(("m", "K"), [(1, 2), (2, 3), (2, 7), (3, 12), (10, 4)])
def test_every_face_of_the_polytope_is_needed(m, K):
    """On each face there is a point strictly inside all other half-spaces: where the inner ball touches."""
    _, _, W, b = datasets.make_polytope(10, m, K, random_state=5)
    # The ball's centre c and radius r solve W c + b = r.
    solution = np.linalg.lstsq(np.column_stack([W, -np.ones(K)]), -b, rcond=None)[0]
    centre, radius = solution[:m], solution[m]
    assert np.allclose(W @ centre + b, radius)
    for k in range(K):
        others = np.delete(np.arange(K), k)
        touch = np.linalg.lstsq(W[[k]], np.array([-b[k] - W[k] @ centre]), rcond=None)[0] + centre
        assert abs(W[k] @ touch + b[k]) < 1e-12
        assert (W[others] @ touch + b[others] > 1e-9).all()


def test_noise_flips_exactly_its_share():
    clean = datasets.make_polytope(200, 3, 4, random_state=2)
    noisy = datasets.make_polytope(200, 3, 4, noise=0.13, random_state=2)
    assert (clean[1] != noisy[1]).sum() == 26
    assert all(np.array_equal(clean[i], noisy[i]) for i in (0, 2, 3))


def test_the_faces_do_not_depend_on_how_many_points_are_drawn():
    few, many = (datasets.make_polytope(n, 3, 4, random_state=2) for n in (10, 1000))
    assert np.array_equal(few[2], many[2])
    assert np.array_equal(few[3], many[3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples must be an integer of at least 1, not 0"),
        ({"n_features": 0}, "n_features must be an integer of at least 1"),
        ({"n_faces": 0}, "n_faces must be an integer of at least 1"),
        ({"n_samples": 10.5}, "n_samples must be an integer"),
        ({"n_features": 1, "n_faces": 3}, "n_faces must be at most 2"),
        ({"margin": -0.1}, "margin must be"),
        ({"margin": np.nan}, "margin must be"),
        ({"noise": 0.6}, r"noise must lie in \[0, 0.5\]"),
    ],
)
def test_polytope_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        datasets.make_polytope(**arguments)


@pytest.mark.parametrize(
    ("make", "which", "m", "K"),
    [(datasets.make_polyceptron1, 1, 10, 3), (datasets.make_polyceptron2, 2, 20, 4)],
)
def test_polyceptron_labels_follow_its_faces(make, which, m, K):
    X, y = make(random_state=0)
    W, b = datasets.polyceptron_faces(which)
    assert (X.shape, W.shape, b.shape) == ((1000, m), (K, m), (K,))
    assert np.abs(X).max() <= 1.0
    inside = np.array([all(w @ x + c >= 0 for w, c in zip(W, b, strict=True)) for x in X])
    assert np.array_equal(y == 1, inside)
    assert 0.4 < inside.mean() < 0.55  # both papers' sets are nearly balanced


def test_polyceptron_faces_as_printed():
    W, b = datasets.polyceptron_faces(1)
    assert b.tolist() == [1, 1, 0.5]
    assert W[1].tolist() == [1, -1] * 5
    W, b = datasets.polyceptron_faces(2)
    assert b.tolist() == [20, 15, 8, 6]
    assert {j + 1: v for j, v in enumerate(W[3]) if v} == {
        1: 1, 2: -1, 5: 2, 6: -2, 9: 6, 10: -3, 13: 4, 14: -4, 17: 5, 18: -5,
    }  # fmt: skip
    W[0] = 0  # a copy: the next caller gets the faces untouched
    assert datasets.polyceptron_faces(2)[0][0].any()
    with pytest.raises(ValueError, match="dataset must be 1 or 2; got 3"):
        datasets.polyceptron_faces(3)


@pytest.mark.parametrize(
    "make",
    [datasets.make_polyceptron1, datasets.make_polyceptron2, datasets.make_polytope, datasets.make_two_lines],
)
def test_a_seed_gives_the_same_data_and_another_seed_other_data(make):
    first, again, other = (make(n_samples=30, random_state=seed) for seed in (7, 7, 8))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0, 10.0])
def test_two_lines_have_their_two_known_answers(scale):
    X, y = datasets.make_two_lines(40, scale=scale, random_state=3)
    # Relative margin with B = 1: the only w, b that project every point exactly to its label.
    augmented = np.column_stack([X, np.ones(40)])
    w, _, rank, _ = np.linalg.lstsq(augmented, y, rcond=None)
    assert rank == 3
    assert np.allclose(augmented @ w, y, atol=1e-12)
    assert np.allclose(w, [-2 / scale, 2, 0], atol=1e-12)
    # Largest margin: between the near ends.
    machine = SVC(kernel="linear", C=1e6, tol=1e-10).fit(X, y)
    p = np.array([scale / 4, 3 / 4])
    assert np.allclose(machine.coef_[0], p / (p @ p), rtol=1e-6)
    assert abs(machine.intercept_[0]) < 1e-6


def test_two_lines_scaling_turns_the_largest_margin_but_not_the_relative_one():
    svm, relative = [], []
    for scale in (0.5, 1.0, 2.0, 4.0):
        X, y = datasets.make_two_lines(40, scale=scale, random_state=3)
        stretch = np.array([scale, 1.0])  # w·x = (w * stretch)·(x / stretch): back to the unscaled axes
        w = SVC(kernel="linear", C=1e6, tol=1e-10).fit(X, y).coef_[0] * stretch
        svm.append(np.degrees(np.arctan2(w[1], w[0])))
        w = np.linalg.lstsq(X, y, rcond=None)[0] * stretch
        relative.append(np.degrees(np.arctan2(w[1], w[0])))
    assert np.ptp(relative) < 1e-9
    assert (np.diff(svm) < -5).all()


def test_two_lines_scale_changes_nothing_but_the_first_axis():
    X, y = datasets.make_two_lines(20, random_state=1)
    scaled, same = datasets.make_two_lines(20, scale=8.0, random_state=1)
    assert np.array_equal(y, same)
    assert np.array_equal(scaled, X * [8.0, 1.0])
    assert np.allclose(X[:, 1] - X[:, 0], 0.5 * y)


@pytest.mark.parametrize("arguments", [{"n_samples": 3}, {"scale": 0.0}, {"scale": np.inf}])
def test_two_lines_refuses_bad_arguments(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        datasets.make_two_lines(**arguments)


# --- svmlight files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "X", "y"),
    [
        (b"1 1:2\n-1 3:0.5\n", [[2, 0, 0], [0, 0, 0.5]], [1, -1]),
        (
            b"# header\n\n-1\n+1\t1:2  2:-1e-3 # remark, with 1_0 and qid:3\r\n\n",
            [[0, 0], [2, -0.001]],
            [-1, 1],
        ),
        (b"0.5 1:1\n2 1:.5", [[1], [0.5]], [0.5, 2]),
        (b"\xef\xbb\xbf1 2:1\n", [[0, 1]], [1]),
        (b"3 1:0 2:1\n", [[0, 1]], [3]),
        ("1 1:1 # größer\n".encode(), [[1]], [1]),
    ],
)
def test_svmlight_legal_files(tmp_path, content, X, y):
    path = tmp_path / "legal.svm"
    path.write_bytes(content)
    data = datasets.read_svmlight(path)
    assert data.X.toarray().tolist() == X
    assert data.y.tolist() == y
    assert data.y.dtype == (np.float64 if 0.5 in y else np.int64)
    with path.open("rb") as stream:
        careful_X, labels = _read_carefully(path, stream)
    assert (careful_X != data.X).nnz == 0
    assert list(map(float, labels)) == y


BROKEN_SVMLIGHT = {
    b"1 1:1\n1 1:nan\n": (2, "'nan' is not finite"),
    b"1 1:1\n\n# remark\n1 1:-inf\n": (4, "'-inf' is not finite"),
    b"1 1:1e400\n": (1, "too large for a float"),
    b"nan 1:1\n": (1, "the label 'nan' is not finite"),
    b"1 1:1\nx 1:1\n": (2, "the label 'x' is not a number"),
    b"1 1:a\n": (1, "the value of feature 1 'a' is not a number"),
    b"1 1:\n": (1, "the value of feature 1 is empty"),
    b"1 1:1\n1 1:1 2:1_0\n": (2, "'1_0' is not a number"),
    b"1_0 1:1\n": (1, "the label '1_0' is not a number"),
    b"1 1_0:1\n": (1, "the index '1_0' of '1_0:1' is not a whole number"),
    b"1 a:1\n": (1, "the index 'a' of 'a:1' is not a whole number"),
    b"1 :2\n": (1, "the index '' of ':2' is not a whole number"),
    b"1 1.0:2\n": (1, "the index '1.0'"),
    b"1 0:1\n": (1, "index 0 in '0:1': indices start at 1"),
    b"1 1:1\n1 -1:1\n": (2, "index -1 in '-1:1': indices start at 1"),
    b"1 1:1\n1 2:1 2:2\n": (2, "index 2 appears twice"),
    b"1 3:1 2:2\n": (1, "index 2 comes after index 3"),
    b"1 99999999999:2\n": (1, "larger than 2147483647"),
    b"1 1\n": (1, "'1' is not index:value"),
    b"1 1: 2\n": (1, "the value of feature 1 is empty"),
    b"1 1:2:3\n": (1, "'2:3' is not a number"),
    b"1,2 1:1\n": (1, "one label per row"),
    b"1 qid:3 1:2\n": (1, "query ids ('qid:3') are not supported"),
    b"1 qid:3\n": (1, "query ids"),
    b"1 1:1\n1:2 2:3\n": (2, "has no label: it starts with '1:2'"),
    b"1 1:2\x00\n": (1, "is not a number"),
    b"1 1:0x10\n": (1, "'0x10' is not a number"),
    b"": (None, "holds no rows"),
    b"# only a remark\n\n": (None, "holds no rows"),
    b"-1\n1\n": (None, "no row lists a feature, and how many there are is not known"),
}


@pytest.mark.parametrize("content", BROKEN_SVMLIGHT)
def test_svmlight_names_the_broken_line(tmp_path, content):
    line, problem = BROKEN_SVMLIGHT[content]
    path = tmp_path / "broken.svm"
    path.write_bytes(content)
    with pytest.raises(DataFileError) as caught:
        datasets.read_svmlight(path)
    assert caught.value.line == line
    assert problem in caught.value.problem
    where = f"{path}: " if line is None else f"{path}, line {line}: "
    assert str(caught.value).startswith(where)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_svmlight_n_features_pads_and_limits(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n-1\n1 3:2\n")
    assert datasets.read_svmlight(path, n_features=5).X.shape == (3, 5)
    with pytest.raises(DataFileError, match=r"line 3: index 3 in '3:2' is larger than 2"):
        datasets.read_svmlight(path, n_features=2)
    with pytest.raises(ValueError, match="n_features must be at least 1; got 0"):
        datasets.read_svmlight(path, n_features=0)
    labels_only = tmp_path / "labels.svm"
    labels_only.write_text("1\n-1\n")
    assert datasets.read_svmlight(labels_only, n_features=2).X.shape == (2, 2)


# Numbers of at most 15 digits: the 16 that dump_svmlight_file writes give them back exactly.
DECIMALS = st.builds(lambda k, e: float(f"{k}e{e}"), st.integers(1 - 10**15, 10**15), st.integers(-300, 280))


@given(data=st.data(), n=st.integers(1, 12), m=st.integers(1, 8), tabs=st.booleans())
@settings(max_examples=15, deadline=None)
def test_svmlight_round_trip_by_both_readers(data, n, m, tabs, tmp_path_factory):
    values = st.one_of(st.just(0.0), DECIMALS)
    X = np.array(data.draw(st.lists(st.lists(values, min_size=m, max_size=m), min_size=n, max_size=n)))
    y = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)))
    path = tmp_path_factory.mktemp("svm") / "round.svm"
    dump_svmlight_file(sparse.csr_matrix(X), y, str(path), zero_based=False)
    if tabs:
        path.write_text(path.read_text().replace(" ", "\t"))
    read = datasets.read_svmlight(path, n_features=m)
    with path.open("rb") as stream:
        careful_X, labels = _read_carefully(path, stream, m)
    assert np.array_equal(read.X.toarray(), X)
    assert np.array_equal(careful_X.toarray(), X)
    assert np.array_equal(read.y, y)
    assert np.array_equal(list(map(int, map(float, labels))), y)


def test_svmlight_reads_gzip_and_names_a_torn_one(tmp_path):
    path = tmp_path / "rows.gz"
    path.write_bytes(gzip.compress(b"1 1:2\n-1 2:1\n"))
    assert datasets.read_svmlight(path).X.toarray().tolist() == [[2, 0], [0, 1]]
    path.write_bytes(gzip.compress(b"1 1:2\n1 1:nan\n"))
    with pytest.raises(DataFileError, match="line 2"):
        datasets.read_svmlight(path)
    path.write_bytes(gzip.compress(b"1 1:2\n" * 1000)[:-12])
    with pytest.raises(DataFileError, match="cannot be decompressed"):
        datasets.read_svmlight(path)
    path.write_bytes(b"1 1:2\n")
    with pytest.raises(DataFileError, match="cannot be decompressed"):
        datasets.read_svmlight(path)


@pytest.mark.parametrize("read", [datasets.read_svmlight, datasets.read_csv])
def test_a_missing_file_is_named_in_a_sentence(read, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot read '.*nowhere': it does not exist"):
        read(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="it is a folder"):
        read(tmp_path)


# --- csv files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "target", "X", "y", "names"),
    [
        ("a,b,label\n1,2,yes\n3,4.5,no\n", -1, [[1, 2], [3, 4.5]], ["yes", "no"], ("a", "b")),
        ("1,2,0\n3,4,1\n", -1, [[1, 2], [3, 4]], [0, 1], None),
        ("1,2,red\n\n3,4,green\n", -1, [[1, 2], [3, 4]], ["red", "green"], None),
        ("label,a\n1,2\n0,3\n", "label", [[2], [3]], [1, 0], ("a",)),
        ("x,2019,2020\n1,2,3\n0,3,4\n", "x", [[2, 3], [3, 4]], [1, 0], ("2019", "2020")),
        ("0,5,6\n1,7,8\n", 0, [[5, 6], [7, 8]], [0, 1], None),
        ("0,5,6\n1,7,8\n", -2, [[0, 6], [1, 8]], [5, 7], None),
        (
            '"a, b",c\r\n" 1 ","no, never"\r\n2,"two\nlines"\r\n',
            -1,
            [[1], [2]],
            ["no, never", "two\nlines"],
            ("a, b",),
        ),
        ('"a\nb",c\n1,2\n3,4\n', -1, [[1], [3]], [2, 4], ("a\nb",)),
        ("\n\na,c\n1,2\n", -1, [[1]], [2], ("a",)),
        ("\ufeffa,c\n1,NA\n2,None\n", -1, [[1], [2]], ["NA", "None"], ("a",)),
        ("a,c\n1, 0.5\n2, 1e3\n", -1, [[1], [2]], ["0.5", "1e3"], ("a",)),
        ("a,c\n0.1,1\n123456789012345678901,2\n", -1, [[0.1], [123456789012345678901.0]], [1, 2], ("a",)),
    ],
)
def test_csv_legal_files(tmp_path, content, target, X, y, names):
    path = tmp_path / "table.csv"
    path.write_bytes(content.encode())
    data = datasets.read_csv(path, target)
    assert data.X.tolist() == X
    assert data.y.tolist() == y
    assert data.feature_names == names
    assert data.target_names == tuple(str(label) for label in sorted(set(y)))


BROKEN_CSV = {
    b"": (None, "is empty"),
    b"\n \n": (None, "is empty"),
    b"a,b,c\n": (None, "holds a header and no rows"),
    b"1\n2\n": (1, "has one column"),
    b"\n1:2:3\n": (2, "has one column"),
    b"1,2,0\n3,4,1,9\n": (2, "has 4 cells where 3 are expected"),
    b"a,b,c\n1,2,0\n\n3,1\n": (4, "has 2 cells where 3 are expected"),
    b"a,b,c\n1,2,0,5\n3,4,1,5\n": (2, "has 4 cells where 3 are expected"),
    b"1,2,0\n3,4,1,\n": (2, "has 4 cells where 3 are expected"),
    b"a,b,c\n1,2,0\n1,red,0\n": (3, "column 'b': 'red' is not a number"),
    b"1,2,0\nred,2,0\n": (2, "column 1: 'red' is not a number"),
    b"x,1,0\n1,2,0\n": (1, "column 1: 'x' is not a number"),
    b"a,b,c\n1,,0\n": (2, "column 'b': the cell is empty"),
    b"a,b,c\n1,NA,0\n": (2, "'NA' is not a number"),
    b"a,b,c\n1,2,0\n1,nan,0\n": (3, "'nan' is not finite"),
    b"a,b,c\n1,inf,0\n": (2, "'inf' is not finite"),
    b"a,b,c\n1,1e400,0\n": (2, "too large"),
    b"a,b,c\n1,True,0\n": (2, "'True' is not a number"),
    b"a,b,c\n1,1_0,0\n": (2, "'1_0' is not a number"),
    b"a,b,c\n1,2,0\n1,2,\n": (3, "the label (column 'c') is missing"),
    b"a,b,c\n1,2,0\n1,2,NaN\n": (3, "the label (column 'c') is missing"),
    b"1,2,0\n1,2,\n": (2, "the label (column 3) is missing"),
    b",b,c\n1,2,0\n": (1, "column 1 has no name"),
    b"a,a,c\n1,2,0\n": (1, "two columns are named 'a'"),
    b'a,b\n1,"x\ny"\nred,z\n': (4, "'red' is not a number"),
    b'a,b\nred,"x\ny"\n': (2, "'red' is not a number"),
    b'a,b\n1,2\n1,"never closed\n': (3, "unexpected end of data"),
    b"a,b\n1,2\n1,\xff\n": (3, "is not UTF-8 text"),
}


@pytest.mark.parametrize("content", BROKEN_CSV)
def test_csv_names_the_broken_line(tmp_path, content):
    line, problem = BROKEN_CSV[content]
    path = tmp_path / "broken.csv"
    path.write_bytes(content)
    with pytest.raises(DataFileError) as caught:
        datasets.read_csv(path)
    assert caught.value.line == line
    assert problem in caught.value.problem
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("target", ["nope", 3, -4])
def test_csv_target_that_is_not_there(tmp_path, target):
    path = tmp_path / "table.csv"
    path.write_text("a,b,c\n1,2,0\n")
    with pytest.raises(ValueError, match=f"target={target!r} is not a column"):
        datasets.read_csv(path, target)


@given(data=st.data(), n=st.integers(1, 8), m=st.integers(1, 5), header=st.booleans())
@settings(max_examples=10, deadline=None)
def test_csv_round_trip_is_exact(data, n, m, header, tmp_path_factory):
    values = st.floats(allow_nan=False, allow_infinity=False)
    X = np.array(data.draw(st.lists(st.lists(values, min_size=m, max_size=m), min_size=n, max_size=n)))
    path = tmp_path_factory.mktemp("csv") / "round.csv"
    lines = [",".join([*map(repr, row), f"c{i}"]) for i, row in enumerate(X.tolist())]
    path.write_text("\n".join([",".join(f"x{j}" for j in range(m)) + ",y"] * header + lines))
    assert np.array_equal(datasets.read_csv(path).X, X)


# --- sets that are fetched -----------------------------------------------------------------------


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    """An empty cache, no local folder, and no internet."""

    def offline(*args, **kwargs):
        raise URLError("no internet")

    monkeypatch.delenv("POLYOPT_DATA", raising=False)
    monkeypatch.setattr(_load, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(_load, "retrieve", offline)
    monkeypatch.setattr("sklearn.datasets.fetch_covtype", offline)
    return tmp_path


@pytest.mark.parametrize("name", _load.FETCHERS)
def test_offline_the_message_says_how_to_get_it(name, no_data):
    with pytest.raises(DatasetUnavailable) as caught:
        datasets.load(name)
    message = str(caught.value)
    assert "no internet" in message
    assert f"polyopt.datasets.load('{name}')" in message
    assert ENTRIES[name].url in message
    assert f"POLYOPT_DATA to a folder that holds {name}.npz" in message
    assert isinstance(caught.value, OSError)
    assert list(no_data.iterdir()) == []  # no half-written cache


def test_local_folder_dense_flat_and_with_a_test_part(no_data, monkeypatch):
    monkeypatch.setenv("POLYOPT_DATA", str(no_data))
    X = np.arange(5 * 14, dtype=np.int16).reshape(5, 14)
    np.savez(no_data / "australian.npz", X=X, y=np.array([1, -1, 1, 1, -1], dtype=np.int8))
    data = datasets.load("australian")
    assert np.array_equal(data.X, X)
    assert (data.X.dtype, data.y.dtype) == (np.float64, np.int64)
    assert data.y.tolist() == [1, -1, 1, 1, -1]

    images = np.random.default_rng(0).integers(0, 255, (6, 28, 28)).astype(np.uint8)
    np.savez(
        no_data / "mnist.npz",
        X_train=images[:4],
        y_train=np.arange(4),
        X_test=images[4:],
        y_test=np.arange(2),
    )
    data = datasets.load("mnist")
    assert data.X.dtype == np.uint8
    assert np.array_equal(data.X, images[:4].reshape(4, 784))
    assert np.array_equal(data.X_test, images[4:].reshape(2, 784))
    assert data.feature_names[29] == "pixel_1_1"


def test_local_folder_sparse_and_under_its_other_name(no_data, monkeypatch):
    monkeypatch.setenv("POLYOPT_DATA", str(no_data))
    train, test = (sparse.random(n, 123, 0.1, "csr", random_state=n) for n in (7, 3))
    arrays = {}
    for X, part in ((train, "train"), (test, "test")):
        arrays |= {f"{key}_{part}": getattr(X, key) for key in ("data", "indices", "indptr", "shape")}
        arrays[f"y_{part}"] = np.resize([1, -1], X.shape[0])
    np.savez(no_data / "a9a.npz", **arrays)
    data = datasets.load("a9a")
    assert sparse.issparse(data.X)
    assert (train != data.X).nnz == 0
    assert (data.X_test != test).nnz == 0

    X = sparse.random(4, 22, 0.5, "csr", random_state=1)
    parts = {key: getattr(X, key) for key in ("data", "indices", "indptr", "shape")}
    np.savez(no_data / "ijcnn1_train.npz", y=np.array([1, -1, 1, -1]), **parts)
    assert (datasets.load("ijcnn1").X != X).nnz == 0


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"X": np.zeros((2, 14))}, "holds no labels"),
        ({"y": np.zeros(2)}, "holds neither X nor a whole CSR matrix"),
        ({"X": np.zeros((2, 14)), "y": np.zeros(3)}, r"y has shape \(3,\); X has 2 rows"),
        ({"X": np.zeros((2, 13)), "y": np.zeros(2)}, "has 13 columns; 'australian' has 14"),
        (
            {
                "data": np.ones(1),
                "indices": np.array([14]),
                "indptr": np.array([0, 1]),
                "shape": [1, 14],
                "y": [1],
            },
            "are not a CSR matrix",
        ),
    ],
)
def test_a_broken_local_file_is_named(no_data, monkeypatch, arrays, problem):
    monkeypatch.setenv("POLYOPT_DATA", str(no_data))
    np.savez(no_data / "australian.npz", **arrays)
    with pytest.raises(DataFileError, match=rf"australian.npz: .*{problem}"):
        datasets.load("australian")


def test_a_file_that_is_no_archive_and_a_folder_that_is_none(no_data, monkeypatch):
    monkeypatch.setenv("POLYOPT_DATA", str(no_data))
    (no_data / "australian.npz").write_bytes(b"not a zip file")
    with pytest.raises(DataFileError, match="not a readable"):
        datasets.load("australian")
    monkeypatch.setenv("POLYOPT_DATA", str(no_data / "nowhere"))
    with pytest.raises(NotADirectoryError, match="POLYOPT_DATA"):
        datasets.load("australian")


def test_a_download_is_cached_and_not_repeated(no_data, monkeypatch):
    calls = []
    X = np.random.default_rng(0).random((690, 14))
    y = np.repeat([-1, 1], [383, 307])

    def fetch(folder: Path) -> Parts:
        calls.append(folder)
        return Parts(X, y)

    monkeypatch.setitem(_load.FETCHERS, "australian", fetch)
    first, second = datasets.load("australian"), datasets.load("australian")
    assert len(calls) == 1
    assert not calls[0].exists()
    assert np.array_equal(first.X, second.X)
    assert np.array_equal(first.y, second.y)
    assert [path.name for path in (no_data / "cache").iterdir()] == ["australian.npz"]


@pytest.mark.parametrize(
    ("shape", "counts"), [((689, 14), (383, 306)), ((690, 13), (383, 307)), ((690, 14), (307, 383))]
)
def test_a_download_with_other_figures_is_refused_and_not_cached(no_data, monkeypatch, shape, counts):
    y = np.repeat([-1, 1], counts)
    monkeypatch.setitem(_load.FETCHERS, "australian", lambda folder: Parts(np.zeros(shape), y))
    with pytest.raises(DatasetUnavailable, match="is not that set"):
        datasets.load("australian")
    assert not (no_data / "cache").exists()


def test_written_arrays_come_back(tmp_path):
    X, X_test = np.eye(3), sparse.random(4, 3, 0.5, "csr", random_state=0)
    write_npz(tmp_path / "new" / "set.npz", Parts(X, np.arange(3), X_test, np.arange(4)))
    back = read_npz(tmp_path / "new" / "set.npz")
    assert np.array_equal(back.X, X)
    assert (back.X_test != X_test).nnz == 0
    assert np.array_equal(back.y_test, np.arange(4))
    assert len(list((tmp_path / "new").iterdir())) == 1


# Small files as the publishers write them, and what each fetcher must make of them.
def _idx(images: np.ndarray) -> bytes:
    header = struct.pack(">i", 0x800 + images.ndim) + struct.pack(f">{images.ndim}i", *images.shape)
    return gzip.compress(header + images.astype(np.uint8).tobytes())


IMAGES = np.random.default_rng(0).integers(0, 256, (3, 28, 28))
SVMLIGHT = b"-1 1:0.5 2:2\n+1 2:4\n"
TABLE = b"1.0 2.5 1\n3.0 4.0 2\n"
PUBLISHED = {
    "mnist": {
        "train-images-idx3-ubyte.gz": _idx(IMAGES[:2]),
        "train-labels-idx1-ubyte.gz": _idx(np.array([7, 3])),
        "t10k-images-idx3-ubyte.gz": _idx(IMAGES[2:]),
        "t10k-labels-idx1-ubyte.gz": _idx(np.array([9])),
    },
    "usps": {
        "zip.train.gz": gzip.compress(b"6.0 -1 0.5\n5.0 1 0\n"),
        "zip.test.gz": gzip.compress(b"9 -1 -1\n"),
    },
    "optdigits": {"optdigits.tra": b"0,16,7\n1,2,3\n", "optdigits.tes": b"5,6,4\n"},
    "a9a": {"a9a": SVMLIGHT, "a9a.t": b"-1 1:1\n"},
    "ijcnn1": {"ijcnn1.bz2": None},
    "rcv1": {"rcv1_train.binary.bz2": None, "rcv1_test.binary.bz2": None},
    "url": {"url_combined.bz2": None},
    "kdda": {"kdda.bz2": bz2.compress(SVMLIGHT.replace(b"-1", b"0")), "kdda.t.bz2": None},
    "cod_rna": {"cod-rna": SVMLIGHT},
    "svmguide1": {"svmguide1": b"0 1:1 4:2\n1 2:1\n", "svmguide1.t": b"1 1:1\n"},
    "australian": {"australian": SVMLIGHT},
    "german_numer": {"german.data-numeric": TABLE},
    "heart_statlog": {"heart.dat": TABLE},
    "fourclass_scaled": {"fourclass": b"+1 1:3 2:1\n-1 1:1 2:5\n-1 1:2 2:3\n"},
    "adult": {
        "adult.data": b"39, State-gov, 7, B, 13, N, ?, H, W, M, 0, 0, 40, US, <=50K\n"
        b"50, Private, 8, A, 9, N, Sales, H, W, F, 1, 0, 13, ?, >50K\n",
        "adult.test": b"|1x3 Cross validator\n25, ?, 9, C, 7, N, Craft, O, B, M, 0, 0, 40, US, >50K.\n\n",
    },
}
EXPECTED = {
    "mnist": (IMAGES[:2].reshape(2, 784), [7, 3], IMAGES[2:].reshape(1, 784), [9]),
    "usps": ([[-1, 0.5], [1, 0]], [6, 5], [[-1, -1]], [9]),
    "optdigits": ([[0, 16], [1, 2]], [7, 3], [[5, 6]], [4]),
    "a9a": ([[0.5, 2], [0, 4]], [-1, 1], [[1, 0]], [-1]),
    "ijcnn1": ([[0.5, 2], [0, 4]], [-1, 1], None, None),
    "rcv1": ([[0.5, 2], [0, 4]], [-1, 1], [[0.5, 2], [0, 4]], [-1, 1]),
    "url": ([[0.5, 2], [0, 4]], [-1, 1], None, None),
    "kdda": ([[0.5, 2], [0, 4]], [-1, 1], [[0.5, 2], [0, 4]], [-1, 1]),
    "cod_rna": ([[0.5, 2], [0, 4]], [-1, 1], None, None),
    "svmguide1": ([[1, 0, 0, 2], [0, 1, 0, 0]], [0, 1], [[1, 0, 0, 0]], [1]),
    "australian": ([[0.5, 2], [0, 4]], [-1, 1], None, None),
    "german_numer": ([[1, 2.5], [3, 4]], [1, 2], None, None),
    "heart_statlog": ([[1, 2.5], [3, 4]], [1, 2], None, None),
    "fourclass_scaled": ([[1, -1], [-1, 1], [0, 0]], [1, -1, -1], None, None),
    "adult": (
        [
            [39, 1, 7, 1, 13, 0, np.nan, 0, 1, 1, 0, 0, 40, 0],
            [50, 0, 8, 0, 9, 0, 1, 0, 1, 0, 1, 0, 13, np.nan],
        ],
        [0, 1],
        [[25, np.nan, 9, 2, 7, 0, 0, 1, 0, 1, 0, 0, 40, 0]],
        [1],
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_fetchers_read_what_the_publishers_write(name, monkeypatch, tmp_path):
    asked = []

    def retrieve(url, folder):
        file = url.rpartition("/")[2]
        asked.append(url)
        content = PUBLISHED[name][file]
        (folder / file).write_bytes(bz2.compress(SVMLIGHT) if content is None else content)
        return folder / file

    monkeypatch.setattr(_load, "retrieve", retrieve)
    parts = _load.FETCHERS[name](tmp_path)
    for got, expected in zip(parts, EXPECTED[name], strict=True):
        if expected is None:
            assert got is None
            continue
        expected = np.asarray(expected)
        if sparse.issparse(got):  # as wide as the whole set; the rest is 0
            assert got.shape[1] == ENTRIES[name].n_features
            assert got.nnz == np.count_nonzero(expected)
            got = got[:, : expected.shape[1]].toarray()
        if got.ndim == 2:
            assert not got[:, expected.shape[1] :].any()
            got = got[:, : expected.shape[1]]
        assert np.array_equal(got, expected, equal_nan=got.dtype.kind == "f")
    assert sparse.issparse(parts.X) == (name in {"a9a", "ijcnn1", "rcv1", "url", "kdda"})
    assert {url.rpartition("/")[2] for url in asked} == set(PUBLISHED[name]) == set(ENTRIES[name].downloads)
    assert all(url.startswith("https://") for url in asked)


def test_covtype_comes_through_scikit_learn(monkeypatch, tmp_path):
    def fetch_covtype(*, data_home, return_X_y):
        assert data_home == str(tmp_path)
        assert return_X_y
        return np.ones((2, 54)), np.array([1, 7])

    monkeypatch.setattr("sklearn.datasets.fetch_covtype", fetch_covtype)
    parts = _load.FETCHERS["covtype"](tmp_path)
    assert parts.X.shape == (2, 54)
    assert parts.X_test is None


class _Publisher(BaseHTTPRequestHandler):
    """A publisher on this machine, whose connection may break, and which can go on from a place."""

    files: ClassVar[dict[str, bytes]] = {}
    breaks: ClassVar[list[int]] = []  # after how many bytes, once each
    asked: ClassVar[list[str | None]] = []

    def do_GET(self):
        content, wanted = self.files[self.path.lstrip("/")], self.headers.get("Range")
        self.asked.append(wanted)
        begin = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        end = self.breaks.pop() if self.breaks else len(content)
        self.wfile.write(content[begin : begin + end])

    def log_message(self, *_):
        pass


@pytest.fixture
def publisher(monkeypatch):
    for name in ("files", "breaks", "asked"):
        monkeypatch.setattr(_Publisher, name, {} if name == "files" else [])
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Publisher) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_download_is_checked_and_one_without_a_digest_says_so(publisher, tmp_path, monkeypatch):
    _Publisher.files = {"known": SVMLIGHT, "unknown": SVMLIGHT}
    digest = hashlib.sha256(SVMLIGHT).hexdigest()
    monkeypatch.setitem(_download.DIGESTS, "known", f"sha256:{digest}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _download.retrieve(f"{publisher}/known", tmp_path).read_bytes() == SVMLIGHT
    with pytest.warns(UserWarning, match=f"unknown was downloaded unchecked.*SHA-256 is {digest}"):
        _download.retrieve(f"{publisher}/unknown", tmp_path)
    monkeypatch.setitem(_download.DIGESTS, "known", f"sha256:{'0' * 64}")
    (tmp_path / "known").unlink()
    with pytest.raises(OSError, match="/known sent is not the file it was"):
        _download.retrieve(f"{publisher}/known", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["unknown"]
    assert len(_Publisher.asked) == 2 + 4  # tried again three times


def test_what_cannot_be_checked_says_so_wherever_it_is_named(no_data, monkeypatch):
    frame = datasets.catalogue()
    checked = frame["checked"]
    assert set(frame.index[checked == "in the package"]) == set(frame.index[frame["kept"] == "built in"])
    assert set(frame.index[checked == "SHA-256"]) == {"mnist", "covtype", "adult"}
    assert set(frame.index[checked == "MD5"]) == {"a9a"}
    unchecked = frame.index[checked == "no digest known"]
    assert len(unchecked) == 12
    for entry in ENTRIES.values():
        assert ("cannot be checked" in entry.description) == (entry.name in unchecked)
    (no_data / "cache").mkdir()
    for name, expected in (("australian", 1), ("covtype", 0)):
        m = ENTRIES[name].n_features
        np.savez(no_data / "cache" / f"{name}.npz", X=np.zeros((2, m)), y=np.array([1, 2]))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            datasets.load(name)
        said = [str(one.message) for one in caught]
        assert len(said) == expected
        assert all("read from the cache; it could not be checked" in text for text in said)


def test_a_broken_download_goes_on_where_it_was(publisher, tmp_path, monkeypatch):
    content = np.random.default_rng(0).bytes(100_000)
    _Publisher.files, _Publisher.breaks = {"set.gz": content}, [30_000, 20_000]
    monkeypatch.setitem(_download.DIGESTS, "set.gz", f"sha256:{hashlib.sha256(content).hexdigest()}")
    assert _download.retrieve(f"{publisher}/set.gz", tmp_path).read_bytes() == content
    first, *later = _Publisher.asked
    assert first is None
    starts = [int(asked.strip("bytes=-")) for asked in later]
    assert 0 < starts[0] < starts[1] < 100_000
    _download.retrieve(f"{publisher}/set.gz", tmp_path)  # found
    assert len(_Publisher.asked) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["set.gz"]


def test_every_file_of_the_sets_has_a_digest_or_is_known_to_have_none():
    sources = {file for files in PUBLISHED.values() for file in files}
    unknown = {"zip.train.gz", "zip.test.gz", "optdigits.tra", "optdigits.tes", "ijcnn1.bz2", "cod-rna",
               "rcv1_train.binary.bz2", "rcv1_test.binary.bz2", "svmguide1", "svmguide1.t", "australian",
               "german.data-numeric", "heart.dat", "fourclass", "url_combined.bz2",
               "kdda.bz2", "kdda.t.bz2"}  # fmt: skip
    assert sources - set(_download.DIGESTS) == unknown
    assert set(_download.DIGESTS) - sources == {"sms+spam+collection.zip"}  # of a benchmark's own set


@pytest.mark.parametrize("where", ["cache", "downloads"])
def test_an_unwritable_cache_is_told_and_the_set_comes_all_the_same(no_data, monkeypatch, where):
    cache = no_data / "cache"
    if where == "cache":
        cache.write_text("a file where the folder should be")
    else:
        cache.mkdir()
        (cache / "downloads").write_text("likewise")
    X, y = np.zeros((690, 14)), np.repeat([-1, 1], [383, 307])
    folders = []
    monkeypatch.setitem(_load.FETCHERS, "australian", lambda folder: folders.append(folder) or Parts(X, y))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert datasets.load("australian").X.shape == (690, 14)
    assert ["cannot be kept" in str(one.message) for one in caught] == [True] * (where == "cache")
    assert not folders[0].exists()


@pytest.mark.skipif(not os.environ.get("POLYOPT_DATA"), reason="POLYOPT_DATA is not set")
def test_every_file_in_the_local_folder_loads():
    folder = Path(os.environ["POLYOPT_DATA"])
    kept = {file: entry for entry in ENTRIES.values() for file in entry.files or (entry.name,)}
    for path in sorted(folder.glob("*.npz")):
        entry = kept.get(path.stem)
        if entry is None or entry.name not in _load.FETCHERS:
            read_npz(path)
            continue
        data = datasets.load(entry.name)
        assert data.X.shape == (entry.n_samples, entry.n_features), path
        assert Counter(data.y.tolist()) == entry.counts, path
        if entry.n_test:
            assert data.X_test.shape == (entry.n_test, entry.n_features), path
            assert Counter(data.y_test.tolist()) == entry.counts_test, path
