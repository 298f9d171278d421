"""Samples in blocks: every kind of source, frames, and faults that are named with their place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.blocks import Breaking, bits, blobs
from threadpoolctl import threadpool_limits

from polyopt import SVM, Claim, ConvexPolytopeMachine, FacePenalty, RelativeMarginMachine, SGDSettings, scale
from polyopt.scale.blocks import check_block, checksum_of

X, Y, WEIGHTS = blobs()
FRAME = pd.DataFrame(
    {"a": X[:, 0], "b": X[:, 1] > 0.0, "c": X[:, 2].round().astype(int)}, index=np.arange(5, 155)
)
ROWS = 50


def linear(**settings):
    return SVM(kernel="linear", **settings)


# -- sources -----------------------------------------------------------------------------------


def in_memory(X, y, folder):
    return scale.Arrays(X, y, rows=ROWS)


def generated(X, y, folder):
    return scale.Generated(lambda k: (X[ROWS * k : ROWS * (k + 1)], y[ROWS * k : ROWS * (k + 1)]), 3)


def in_files(X, y, folder):
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    return scale.NpyFiles(folder / "X.npy", folder / "y.npy", rows=ROWS)


def of_polars(X, y, folder):
    return scale.Arrays(pytest.importorskip("polars").from_pandas(X), y, rows=ROWS)


@pytest.mark.parametrize("source", [in_memory, generated, in_files])
def test_every_source_has_same_bits(source, tmp_path):
    """Arrays, a function and files of numpy give the same blocks, on one thread and on two."""
    wanted = bits(linear().fit(scale.Arrays(X, Y, rows=ROWS)))
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert bits(linear().fit(source(X, Y, tmp_path))) == wanted


def test_arrays_with_executor_are_blocks(tmp_path):
    """An executor, or a checkpoint, makes blocks of arrays, and no pairs of two classes."""
    wanted = bits(linear().fit(scale.Arrays(X, Y, WEIGHTS)))
    for given in ({"executor": "threads"}, {"checkpoint": tmp_path / "checkpoint"}):
        machine = linear().fit(X, Y, WEIGHTS, **given)
        assert bits(machine) == wanted
        assert "pair" not in machine.history_


@pytest.mark.parametrize("kind", [np.int16, np.uint8, np.int64])
def test_integers_are_numbers(kind):
    """Blocks of integers have the optimum of the same numbers in memory."""
    whole = np.round(10.0 * X - 10.0 * X.min()).astype(kind)
    parts = linear().fit(scale.Arrays(whole, Y, rows=ROWS)).certificate()
    best = linear().fit(whole.astype(float), Y).certificate()
    assert parts.primal_value == pytest.approx(best.primal_value, rel=1e-7)


def test_pairs_of_classes_are_those_of_array():
    """Three classes have a machine for each pair, and no multipliers or probabilities."""
    three = np.where(X[:, 0] > 1.0, "other", Y)
    whole, parts = linear().fit(X, three), linear().fit(scale.Arrays(X, three, rows=ROWS))
    assert parts.pairs_ == whole.pairs_
    assert parts.certificate().claim is Claim.OPTIMAL
    assert parts.coef_ == pytest.approx(whole.coef_, abs=1e-4)
    assert parts.intercept_ == pytest.approx(whole.intercept_, abs=1e-4)
    assert (parts.without_data().predict(X) == whole.predict(X)).all()
    assert set(parts.history_["pair"]) == {"no vs other", "no vs yes", "other vs yes"}
    with pytest.raises(ValueError, match="does not hold"):
        parts.duals_  # noqa: B018
    with pytest.raises(AttributeError, match="CalibratedClassifierCV"):
        parts.predict_proba(X)


def test_failed_fit_leaves_machine(tmp_path):
    """A fit that is refused leaves the machine of the fit before."""
    machine = linear().fit(scale.Arrays(X, Y))
    wanted = bits(machine)
    with pytest.raises(ValueError, match="at least two classes"):
        machine.fit(scale.Arrays(X, np.zeros(len(Y))))
    assert bits(machine) == wanted


# -- frames ------------------------------------------------------------------------------------

FRAMES = pytest.mark.parametrize("source", [in_memory, of_polars, generated])


@FRAMES
def test_frame_is_its_float_matrix(source, tmp_path):
    """Booleans are 0 and 1, columns keep their names, and a fit without names forgets them."""
    found = linear().fit(source(FRAME, Y, tmp_path))
    assert bits(found) == bits(linear().fit(scale.Arrays(FRAME.to_numpy(dtype=float), Y, rows=ROWS)))
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]
    assert found.predict(FRAME).tolist() == found.predict(FRAME.astype(float)).tolist()
    with pytest.raises(ValueError, match="must be in the same order"):
        found.predict(FRAME[["c", "a", "b"]])
    assert not hasattr(found.fit(scale.Arrays(X, Y)), "feature_names_in_")


CELLS = {
    "gap": (
        pd.array([None if k == 77 else 1 for k in range(150)], dtype="Int64"),
        r"NaN or an infinite value in .*partition 1, row 27, column 'c'",
    ),
    "date": (pd.Timestamp("2026-01-02"), "column 'c' holds"),
    "duration": (pd.Timedelta(days=1), "column 'c' holds"),
    "text": ("Rome", "column 'c' holds"),
}


@FRAMES
@pytest.mark.parametrize(("cells", "sentence"), CELLS.values(), ids=CELLS)
def test_cells_without_number_are_named(source, cells, sentence, tmp_path):
    """A gap, a date or a text is refused with its column, a gap with its block and row too."""
    with pytest.raises(ValueError, match=sentence):
        linear().fit(source(FRAME.assign(c=cells), Y, tmp_path))


COLUMNS = {
    "order": (["b", "a", "c"], "partition 1 has its columns in another order"),
    "name": (["a", "c"], "partition 1 lacks the column 'b'"),
}


@pytest.mark.parametrize(("names", "sentence"), COLUMNS.values(), ids=COLUMNS)
def test_block_with_other_columns_is_named(names, sentence):
    """The columns of each block of a frame are those of the first."""
    parts = [FRAME[:50], FRAME[50:100][names], FRAME[100:]]
    with pytest.raises(ValueError, match=sentence):
        linear().fit(scale.Generated(lambda k: (parts[k], Y[ROWS * k : ROWS * (k + 1)]), 3))


# -- faults in a block -------------------------------------------------------------------------


def faulty(**changes):
    """A source of five blocks, with changes of samples, labels or weights in block 3."""

    def make(k):
        found = {"X": np.column_stack([np.arange(5.0), np.full(5, k + 1.0)]), "y": np.array([0, 1, 0, 1, 0])}
        found["weights"] = None
        if k == 3:
            found |= {name: change(found[name]) for name, change in changes.items()}
        return tuple(found.values())

    return scale.Generated(make, 5)


def labels(*given):
    return lambda _: np.array(given, dtype=object)


def with_nan(array):
    array = np.array(array, dtype=float)
    array.ravel()[5 if array.ndim == 2 else 2] = np.nan
    return array


FAULTS = {
    "NaN": (faulty(X=with_nan), "X has NaN or an infinite value in partition 3, row 2, feature 1"),
    "NaN, CSR": (faulty(X=lambda X: sp.csr_array(with_nan(X))), "in partition 3, row 2, feature 1"),
    "NaN among labels": (faulty(y=with_nan), "y has NaN or an infinite value in partition 3, row 2"),
    "labels in two columns": (faulty(y=lambda y: y[:, None]), "y has 2 dimensions in partition 3, and needs"),
    "label None": (faulty(y=labels("a", None, "b", "a", "b")), "y has no label in partition 3, row 1"),
    "label NA": (faulty(y=labels("a", "a", "b", pd.NA, "b")), "y has no label in partition 3, row 3"),
    "few labels": (faulty(y=lambda y: y[:4]), "y has 4 entries in partition 3, and X has 5 rows"),
    "weights in two columns": (
        faulty(weights=lambda _: np.ones((5, 1))),
        "sample_weight has 2 dimensions in partition 3",
    ),
    "negative weight": (faulty(weights=lambda _: np.array([1, 1, -1, 1, 1])), "partition 3, row 2, it is -1"),
    "NaN among weights": (faulty(weights=lambda _: with_nan(np.ones(5))), "partition 3, row 2, it is nan"),
    "few features": (faulty(X=lambda X: X[:, :1]), r"some with \[1, 2\]"),
    "one dimension": (faulty(X=lambda X: X[:, 0]), "X has 1 dimensions in partition 3"),
    "dense and sparse": (faulty(X=sp.csr_array), "all dense or all sparse"),
    "one class": (scale.Generated(lambda k: (np.ones((3, 1)), np.zeros(3)), 2), "at least two classes"),
}


@pytest.mark.parametrize(("source", "sentence"), FAULTS.values(), ids=FAULTS)
def test_fault_is_named_with_its_place(source, sentence):
    """A fault in samples, labels or weights is named with its block, row and feature."""
    with pytest.raises(ValueError, match=sentence):
        linear().fit(source)


# -- what blocks do not take -------------------------------------------------------------------

ARGUMENTS = {
    "no labels": (linear(), (X,), {"executor": "threads"}, "needs labels y"),
    "labels twice": (linear(), (scale.Arrays(X, Y), Y), {}, "leave y and sample_weight out"),
    "C": (linear(C=0.0), (scale.Arrays(X, Y),), {}, "C must be positive"),
    "executor": (
        linear(), (X, Y), {"executor": 3}, "executor must be 'threads', 'dask' or a client of Dask, not 3",
    ),
    "kernel": (SVM(), (scale.Arrays(X, Y),), {}, "need kernel='linear', not 'rbf'"),
    "solver": (linear(solver="exact"), (scale.Arrays(X, Y),), {}, "need solver='interior-point' or 'auto'"),
    "soft bound": (
        RelativeMarginMachine(kernel="linear", bound_cost=2.0), (scale.Arrays(X, Y),), {},
        "leave bound_cost infinite",
    ),
    "bounded samples": (
        RelativeMarginMachine(kernel="linear"), (scale.Arrays(X, Y),), {"bound_training": False},
        "leave X_bounded",
    ),
    **{
        told: (ConvexPolytopeMachine(**settings), (scale.Arrays(X, Y),), {}, f"leave {told} out")
        for told, settings in {
            "loss='max'": {"loss": "max"},
            "penalty": {"penalty": FacePenalty(l1=1.0)},
            "solver='global'": {"solver": "global"},
            "inside_label='both'": {"inside_label": "both"},
            "perplexity": {"sgd": SGDSettings(perplexity=2.0)},
            "n_init=2": {"n_init": 2},
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize(("machine", "data", "given", "sentence"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_unsupported_argument_is_named(machine, data, given, sentence):
    """A kernel, a penalty, another solver or a missing argument is refused by its name."""
    with pytest.raises(ValueError, match=sentence):
        machine.fit(*data, **given)


def test_labels_of_arrays_are_counted():
    """Arrays need as many labels as rows."""
    with pytest.raises(ValueError, match="y has 3 entries, and X has 150 rows"):
        scale.Arrays(X, Y[:3])


# -- blocks that change ------------------------------------------------------------------------


def changed(values, place, to):
    values = np.array(values)
    values[place] = to
    return values


def csr_with_moved_entry(X):
    rows = sp.csr_array(X)
    rows.indices = changed(rows.indices, 0, 1 - rows.indices[0])
    return rows


EQUAL = {
    "columns in turn": scale.Samples(np.asfortranarray(X), Y, WEIGHTS),
    "a copy": scale.Samples(X.copy(), Y.copy(), np.stack([WEIGHTS, WEIGHTS], 1)[:, 0]),
}
OTHERS = {
    "number": scale.Samples(changed(X, (88, 2), 9.0), Y, WEIGHTS),
    "label": scale.Samples(X, changed(Y, 88, "no" if Y[88] == "yes" else "yes"), WEIGHTS),
    "weight": scale.Samples(X, Y, changed(WEIGHTS, 88, 9.0)),
    "no weights": scale.Samples(X, Y, None),
    "order": scale.Samples(X[np.r_[1, 0, 2:150]], Y, WEIGHTS),
    "length": scale.Samples(X[:149], Y[:149], WEIGHTS[:149]),
    "type": scale.Samples(X.astype(np.float32), Y, WEIGHTS),
}


@pytest.mark.parametrize("samples", [*EQUAL.values(), *OTHERS.values()], ids=[*EQUAL, *OTHERS])
def test_checksum_is_of_every_number(samples):
    """A checksum changes with every number, label and weight, and not with the order in memory."""
    is_equal = any(samples is each for each in EQUAL.values())
    checksum = checksum_of(scale.Samples(X, Y, WEIGHTS))
    assert (checksum_of(samples).all_rows == checksum.all_rows) == is_equal


def test_checksum_of_sparse_samples_and_texts():
    """A checksum is of the places of entries, in any sparse format, and of texts by their letters."""
    checksum = checksum_of(scale.Samples(sp.csr_array(X), Y))
    assert checksum_of(scale.Samples(sp.coo_array(X), Y)) == checksum
    assert checksum_of(scale.Samples(csr_with_moved_entry(X), Y)) != checksum
    texts = [Y.astype(object), np.array([str(each) for each in Y], dtype=object)]
    assert len({checksum_of(scale.Samples(X, each)) for each in texts}) == 1


def test_some_rows_tell_another_block():
    """Some rows tell a block that is another as a whole, and all rows one with another number."""
    many, y = np.tile(X, (30, 1)), np.tile(Y, 30)
    samples, checksum = scale.Samples(many, y), checksum_of(scale.Samples(many, y))
    assert check_block(samples, 0, checksum, whole=False) is samples
    assert check_block(samples, 0, None, whole=True) is samples
    with pytest.raises(ValueError, match="partition 7 was read again"):
        check_block(scale.Samples(many[::-1], y), 7, checksum, whole=False)
    with pytest.raises(ValueError, match="partition 8 was read again"):
        check_block(scale.Samples(changed(many, (1, 0), 9.0), y), 8, checksum, whole=True)


@pytest.mark.parametrize("machine", [linear(), ConvexPolytopeMachine(random_state=0)], ids=["svm", "cpm"])
@pytest.mark.parametrize("reading", [2, 7])
def test_changed_block_is_named(machine, reading, tmp_path):
    """A block that is another as it is read again is refused, at the start and within a fit."""
    samples = X.copy()

    def change():
        samples[ROWS:] += 1.0

    source = Breaking(scale.Arrays(samples, Y, rows=ROWS), tmp_path / "log", {reading}, change)
    with pytest.raises(ValueError, match="partition 1 was read again, and has other samples"):
        machine.fit(source)
