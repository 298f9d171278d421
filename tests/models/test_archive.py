"""The reader of archives makes what skops makes, and leaves to skops what it does not know."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from polyopt.models.files import UnknownContentError, read_archive

CONTENT = {
    "numbers": [1, -2.5, True, None, float("inf")],
    "texts": ("a", "ü", ""),
    3: np.float64(0.5),
    "nested": {"array": np.arange(6.0).reshape(2, 3), "whole": np.arange(3), "text": np.str_("b")},
    "objects": np.array(["a", None, 2.0], dtype=object),
    "table": np.array([["a", 1], ["b", 2]], dtype=object),
    "kind": np.dtype("float32"),
    "slice": slice(1, None),
    "types": [float, np.float64],
    "sparse": sp.csr_matrix(np.eye(3)),
    "no objects": np.empty(0, dtype=object),
}


def same(a, b):
    """True if two objects are of one type and value."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and same(a.tolist(), b.tolist())
    return (a != b).nnz == 0 if sp.issparse(a) else a == b


def test_reads_as_skops_does():
    """Every kind of content that a model file has is read as skops reads it."""
    archive = skops.io.dumps(CONTENT)
    trusted = skops.io.get_untrusted_types(data=archive)
    assert same(read_archive(io.BytesIO(archive), trusted), skops.io.loads(archive, trusted=trusted))


def test_step_of_scikit_learn():
    """A scaler of a file transforms as the one that was written."""
    scaler = StandardScaler().fit(np.arange(8.0).reshape(4, 2))
    found = read_archive(io.BytesIO(skops.io.dumps(scaler)), ())
    np.testing.assert_array_equal(found.transform(np.eye(2)), scaler.transform(np.eye(2)))


def test_one_object_stays_one():
    """An array that stands twice is one object."""
    array = np.arange(3.0)
    first, second = read_archive(io.BytesIO(skops.io.dumps([array, array])), ())
    assert first is second


@pytest.mark.parametrize(
    "content", [LogisticRegression(), {"f": np.exp}, {1, 2}, b"bytes", np.ma.ones(2)], ids=repr
)
def test_other_types_are_left_to_skops(content):
    """Content of no model file is unknown to our reader."""
    with pytest.raises(UnknownContentError):
        read_archive(io.BytesIO(skops.io.dumps([content])), ())


@pytest.mark.parametrize(
    "node",
    [
        {"__class__": "system", "__module__": "os", "__loader__": "ObjectNode"},
        {"__class__": "eval", "__module__": "builtins", "__loader__": "TypeNode"},
        {"__class__": "list", "__module__": "builtins", "__loader__": "DictNode", "content": {}},
        {"__class__": "dict", "__module__": "builtins", "__loader__": {"a": 1}},
    ],
)
@pytest.mark.parametrize("protocol", [1, 2, 3])
def test_nothing_untrusted_is_made(node, protocol):
    """A node that names another module's function or a false loader is refused."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("schema.json", json.dumps(node | {"protocol": protocol}))
    with pytest.raises(UnknownContentError):
        read_archive(stream, ("polyopt.margin.svm.SVM",))
