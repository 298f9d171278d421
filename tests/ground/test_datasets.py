"""Named data sets: the documented figures, and what is fetched, checked, kept and refused."""

import bz2
import gzip
import hashlib
import os
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
from scipy import sparse

from polyopt import datasets
from polyopt.datasets import DataFileError, Dataset, DatasetUnavailable, loading
from polyopt.datasets.loading import Parts, read_npz, write_npz
from polyopt.datasets.named_sets import ENTRIES


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    """An empty cache, an empty local folder, which is given, and no internet."""

    def offline(*args, **kwargs):
        raise URLError("no internet")

    monkeypatch.setenv("POLYOPT_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(loading, "retrieve", offline)
    monkeypatch.setattr("sklearn.datasets.fetch_covtype", offline)
    return tmp_path


@pytest.fixture
def australian(no_data, monkeypatch):
    """Let the publisher of "australian" send what is given; return the folders that he filled."""

    def publish(X, y):
        folders = []
        monkeypatch.setitem(
            loading.FETCHERS, "australian", lambda folder: folders.append(folder) or Parts(X, y)
        )
        return folders

    return publish


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
def test_built_in_set_has_published_figures(name, no_data):
    """Shape, types, classes, names and licence of a set in the package, without the internet."""
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


def test_malignant_is_coded_as_published():
    """wbc and wdbc number their classes the other way round."""
    for name, malignant in (("wbc", 239), ("wdbc", 212)):
        data = datasets.load(name)
        code = data.target_names.index("malignant")
        assert (data.y == code).sum() == malignant


def test_catalogue_agrees_with_fetchers():
    """The sets that can be fetched have an address, figures that add up and, but covtype, file names."""
    frame = datasets.catalogue()
    assert tuple(frame.index) == datasets.names()
    assert set(frame.index[frame["kept"] == "fetched"]) == set(loading.FETCHERS)
    for entry in ENTRIES.values():
        assert list(entry.counts) == sorted(entry.counts)
        assert len(entry.target_names) == len(entry.counts)
        for counts, n in ((entry.counts, entry.n_samples), (entry.counts_test, entry.n_test)):
            assert None in counts.values() or sum(counts.values()) == n
        assert entry.feature_names is None or len(entry.feature_names) == entry.n_features
        assert entry.url.startswith("https://") == (entry.name in loading.FETCHERS)
        assert bool(entry.downloads) == (entry.name in set(loading.FETCHERS) - {"covtype"})


def test_unknown_name_has_a_suggestion():
    """A misspelt name is refused with the nearest known one."""
    with pytest.raises(
        ValueError, match=r"name='ionosfere' is not a known data set. Did you mean 'ionosphere'\?"
    ):
        datasets.load("ionosfere")


# --- Dataset -------------------------------------------------------------------------------------


def test_split_keeps_class_shares():
    """A split is stratified, keeps rows with their labels, and follows its seed."""
    y = np.repeat([0, 1], [90, 30])
    data = Dataset("d", np.arange(120.0)[:, None], y, ("a", "b"))
    X_train, X_test, y_train, y_test = data.split(test_size=0.2, random_state=0)
    assert Counter(y_test.tolist()) == {0: 18, 1: 6}
    assert sorted([*X_train[:, 0], *X_test[:, 0]]) == list(range(120))
    assert np.array_equal(y_test, y[X_test[:, 0].astype(int)])
    assert np.array_equal(data.split(0.2, 0)[1], X_test)
    assert not np.array_equal(data.split(0.2, 1)[1], X_test)
    assert len(y_train) == 96


def test_split_gives_published_parts():
    """A set that is published in two parts is split into these."""
    parts = np.zeros((3, 2)), np.array([0, 1, 1]), np.ones((1, 2)), np.array([0])
    data = Dataset("d", parts[0], parts[1], ("a", "b"), X_test=parts[2], y_test=parts[3])
    X_train, X_test, y_train, y_test = data.split(test_size=0.9, random_state=3)
    assert X_train is data.X
    assert X_test is data.X_test
    assert y_train is data.y
    assert y_test is data.y_test


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
def test_unfit_parts_are_refused(arguments, message):
    """Shapes and names that contradict each other are named."""
    fitting = {"name": "d", "X": np.zeros((2, 2)), "y": np.array([0, 1]), "target_names": ("a", "b")}
    with pytest.raises(ValueError, match=message):
        Dataset(**(fitting | arguments))


# --- sets that are fetched -----------------------------------------------------------------------


@pytest.mark.parametrize("name", loading.FETCHERS)
def test_offline_message_says_the_remedy(name, no_data):
    """Without the internet the error names the address and the local file, and nothing is left behind."""
    with pytest.raises(DatasetUnavailable) as caught:
        datasets.load(name)
    message = str(caught.value)
    assert "no internet" in message
    assert f"polyopt.datasets.load('{name}')" in message
    assert ENTRIES[name].url in message
    assert f"POLYOPT_DATA to a folder that holds {name}.npz" in message
    assert isinstance(caught.value, OSError)
    assert list(no_data.iterdir()) == []


def test_local_file_has_dense_samples(no_data):
    """Features become float64, images rows of bytes, and a test part stays one."""
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


def test_local_file_has_sparse_samples(no_data):
    """The parts of CSR matrices are read, of a file under its other name too."""
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
def test_broken_local_file_is_named(no_data, arrays, problem):
    """A file whose arrays do not fit is refused with its name and the fault."""
    np.savez(no_data / "australian.npz", **arrays)
    with pytest.raises(DataFileError, match=rf"australian.npz: .*{problem}"):
        datasets.load("australian")


def test_no_archive_is_refused(no_data):
    """A file that is not an archive is named."""
    (no_data / "australian.npz").write_bytes(b"not a zip file")
    with pytest.raises(DataFileError, match="not a readable"):
        datasets.load("australian")


def test_absent_folder_is_refused(no_data, monkeypatch):
    """POLYOPT_DATA must be a folder."""
    monkeypatch.setenv("POLYOPT_DATA", str(no_data / "nowhere"))
    with pytest.raises(NotADirectoryError, match="POLYOPT_DATA"):
        datasets.load("australian")


def test_download_is_kept(no_data, australian):
    """A second look reads the cache, and the folder of the download is gone."""
    X = np.random.default_rng(0).random((690, 14))
    y = np.repeat([-1, 1], [383, 307])
    folders = australian(X, y)
    for _ in range(2):
        data = datasets.load("australian")
        assert np.array_equal(data.X, X)
        assert np.array_equal(data.y, y)
    assert len(folders) == 1
    assert not folders[0].exists()
    assert [path.name for path in (no_data / "cache" / "polyopt").iterdir()] == ["australian.npz"]


@pytest.mark.parametrize(
    ("shape", "counts"), [((689, 14), (383, 306)), ((690, 13), (383, 307)), ((690, 14), (307, 383))]
)
def test_other_figures_are_refused(no_data, australian, shape, counts):
    """A download of another shape or other class counts is not that set, and not kept."""
    australian(np.zeros(shape), np.repeat([-1, 1], counts))
    with pytest.raises(DatasetUnavailable, match="is not that set"):
        datasets.load("australian")
    assert not (no_data / "cache").exists()


def test_written_arrays_come_back(tmp_path):
    """Dense and sparse parts survive the cache's file."""
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
def test_fetchers_read_published_files(name, monkeypatch, tmp_path):
    """Small files in each publisher's format become the arrays that they hold."""
    asked = []

    def retrieve(url, folder, digest):
        file = url.rpartition("/")[2]
        asked.append(url)
        content = PUBLISHED[name][file]
        (folder / file).write_bytes(bz2.compress(SVMLIGHT) if content is None else content)
        return folder / file

    monkeypatch.setattr(loading, "retrieve", retrieve)
    parts = loading.FETCHERS[name](tmp_path)
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
    """Its download is scikit-learn's own."""

    def fetch_covtype(*, data_home, return_X_y):
        assert data_home == str(tmp_path)
        assert return_X_y
        return np.ones((2, 54)), np.array([1, 7])

    monkeypatch.setattr("sklearn.datasets.fetch_covtype", fetch_covtype)
    parts = loading.FETCHERS["covtype"](tmp_path)
    assert parts.X.shape == (2, 54)
    assert parts.X_test is None


class _Publisher(BaseHTTPRequestHandler):
    """A publisher on this machine, whose connection may break."""

    files: ClassVar[dict[str, bytes]] = {}
    breaks: ClassVar[list[int]] = []  # after how many bytes, once each
    asked: ClassVar[list[str]] = []

    def do_GET(self):
        content = self.files[self.path.lstrip("/")]
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.breaks.pop() if self.breaks else len(content)])

    def log_message(self, *_):
        pass


@pytest.fixture
def publisher(monkeypatch):
    _Publisher.files, _Publisher.breaks, _Publisher.asked = {}, [], []
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Publisher) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_download_is_checked(publisher, tmp_path):
    """A digest is compared; a file without one is named in a warning, with its digest."""
    _Publisher.files = {"known": SVMLIGHT, "unknown": SVMLIGHT}
    digest = hashlib.sha256(SVMLIGHT).hexdigest()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loading.retrieve(f"{publisher}/known", tmp_path, f"sha256:{digest}").read_bytes() == SVMLIGHT
    with pytest.warns(UserWarning, match=f"unknown was downloaded unchecked.*SHA-256 is {digest}"):
        loading.retrieve(f"{publisher}/unknown", tmp_path)
    (tmp_path / "known").unlink()
    with pytest.raises(OSError, match="/known sent is not the file it was"):
        loading.retrieve(f"{publisher}/known", tmp_path, f"sha256:{'0' * 64}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["unknown"]
    assert len(_Publisher.asked) == 2 + 4  # tried again three times


def test_unchecked_sets_say_so(no_data):
    """A set without a known digest says so in its description and when it is read from the cache."""
    frame = datasets.catalogue()
    checked = frame["checked"]
    assert set(frame.index[checked == "in the package"]) == set(frame.index[frame["kept"] == "built in"])
    assert set(frame.index[checked == "SHA-256"]) == {"mnist", "covtype", "adult"}
    assert set(frame.index[checked == "MD5"]) == {"a9a"}
    unchecked = frame.index[checked == "no digest known"]
    assert len(unchecked) == 12
    for entry in ENTRIES.values():
        assert ("cannot be checked" in entry.description) == (entry.name in unchecked)
    cache = no_data / "cache" / "polyopt"
    cache.mkdir(parents=True)
    for name, expected in (("australian", 1), ("covtype", 0)):
        m = ENTRIES[name].n_features
        np.savez(cache / f"{name}.npz", X=np.zeros((2, m)), y=np.array([1, 2]))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            datasets.load(name)
        said = [str(one.message) for one in caught]
        assert len(said) == expected
        assert all("read from the cache; it could not be checked" in text for text in said)


def test_broken_download_is_repeated(publisher, tmp_path):
    """A connection that breaks twice costs two more requests, and a file that is there costs none."""
    content = np.random.default_rng(0).bytes(100_000)
    _Publisher.files, _Publisher.breaks = {"set.gz": content}, [30_000, 20_000]
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert loading.retrieve(f"{publisher}/set.gz", tmp_path, digest).read_bytes() == content
    loading.retrieve(f"{publisher}/set.gz", tmp_path, digest)  # found
    assert len(_Publisher.asked) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["set.gz"]


def test_unwritable_cache_costs_a_warning(no_data, australian):
    """The set is loaded though it cannot be kept."""
    (no_data / "cache").write_text("a file where the folder should be")
    folders = australian(np.zeros((690, 14)), np.repeat([-1, 1], [383, 307]))
    with pytest.warns(UserWarning, match="cannot be kept"):
        assert datasets.load("australian").X.shape == (690, 14)
    assert not folders[0].exists()


@pytest.mark.skipif(not os.environ.get("POLYOPT_DATA"), reason="POLYOPT_DATA is not set")
def test_every_local_file_loads():
    """Each file of POLYOPT_DATA has the published figures of its set."""
    folder = Path(os.environ["POLYOPT_DATA"])
    kept = {file: entry for entry in ENTRIES.values() for file in entry.files}
    for path in sorted(folder.glob("*.npz")):
        entry = kept.get(path.stem)
        if entry is None or entry.name not in loading.FETCHERS:
            read_npz(path)
            continue
        data = datasets.load(entry.name)
        assert data.X.shape == (entry.n_samples, entry.n_features), path
        assert Counter(data.y.tolist()) == entry.counts, path
        if entry.n_test:
            assert data.X_test.shape == (entry.n_test, entry.n_features), path
            assert Counter(data.y_test.tolist()) == entry.counts_test, path
