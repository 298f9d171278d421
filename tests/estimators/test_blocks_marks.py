"""Blocks that are others when they are read again, and the names and orders of columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from polyopt import SVM, ConvexPolytopeMachine, scale
from polyopt.scale.blocks import check_block, checksum_of


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3)).round(2)
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=90) > 0.0, "yes", "no"), rng.uniform(0.5, 2.0, 90)


def changed(values, place, to):
    values = np.array(values)
    values[place] = to
    return values


def test_a_mark_is_of_every_number_and_of_nothing_else(data):
    X, y, weights = data
    checksum = checksum_of(scale.Samples(X, y, weights))
    alike = [(np.asfortranarray(X), y, weights), (X.copy(), y.copy(), np.stack([weights, weights], 1)[:, 0])]
    assert {checksum_of(scale.Samples(*each)) for each in alike} == {checksum}
    others = [
        (changed(X, (88, 2), 9.0), y, weights),
        (X, changed(y, 88, "no" if y[88] == "yes" else "yes"), weights),
        (X, y, changed(weights, 88, 9.0)),
        (X, y, None),
        (X[np.r_[1, 0, 2:90]], y, weights),
        (X[:89], y[:89], weights[:89]),
        (X.astype(np.float32), y, weights),
    ]
    assert all(checksum_of(scale.Samples(*each)).all_rows != checksum.all_rows for each in others)
    rows = sp.csr_array(X)
    moved = sp.csr_array((rows.data, changed(rows.indices, 0, 1 - rows.indices[0]), rows.indptr), rows.shape)
    assert checksum_of(scale.Samples(sp.coo_array(rows), y)) == checksum_of(scale.Samples(rows, y))
    assert checksum_of(scale.Samples(moved, y)) != checksum_of(scale.Samples(rows, y))
    texts = [y.astype(object), np.array([str(each) for each in y], dtype=object)]
    assert len({checksum_of(scale.Samples(X.astype(object), each)) for each in texts}) == 1


def test_some_rows_tell_a_block_that_is_another_as_a_whole(data):
    X, y, _ = data
    X, y = np.tile(X, (50, 1)), np.tile(y, 50)
    samples, checksum = scale.Samples(X, y), checksum_of(scale.Samples(X, y))
    assert (
        check_block(samples, 0, checksum, whole=False) is check_block(samples, 0, None, whole=True) is samples
    )
    with pytest.raises(ValueError, match="partition 7 was read again"):
        check_block(scale.Samples(X[::-1], y), 7, checksum, whole=False)
    one = scale.Samples(changed(X, (1, 0), 9.0), y)
    with pytest.raises(ValueError, match="partition 8 was read again"):
        check_block(one, 8, checksum, whole=True)


class Changing:
    """A source whose block 1 is another from the n-th reading on."""

    count = 3

    def __init__(self, X, y, readings):
        self._whole, self._readings = scale.Arrays(X, y, rows=30), readings

    def read(self, number):
        """The block."""
        X, y, _ = self._whole.read(number)
        self._readings -= number == 1
        return scale.Samples(X + 1.0, y) if number == 1 and self._readings < 0 else scale.Samples(X, y)


@pytest.mark.parametrize(
    ("machine", "readings"),
    [
        (SVM(kernel="linear"), 1),
        (SVM(kernel="linear"), 6),
        (ConvexPolytopeMachine(random_state=0), 1),
        (ConvexPolytopeMachine(random_state=0), 4),
    ],
)
def test_a_block_that_is_read_again_and_is_another_is_named(machine, readings, data):
    """As it is made, in the midst of the interior point, as its faces assign, and in Algorithm 1."""
    X, y, _ = data
    with pytest.raises(ValueError, match="partition 1 was read again, and has other samples"):
        machine.fit(Changing(X, y, readings))


def test_columns_of_frames_have_names_and_an_order(data):
    pd = pytest.importorskip("pandas")
    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abc"))
    machine = SVM(kernel="linear").fit(scale.Arrays(frame, y))
    assert machine.feature_names_in_.tolist() == list("abc")
    assert np.array_equal(machine.predict(frame), SVM(kernel="linear").fit(scale.Arrays(X, y)).predict(X))
    with pytest.raises(ValueError, match="must be in the same order"):
        machine.predict(frame[list("bac")])
    assert not hasattr(machine.fit(scale.Arrays(X, y)), "feature_names_in_")
