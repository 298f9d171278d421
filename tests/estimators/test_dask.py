"""Machines on a real cluster of processes: the bits of one machine, from arrays and frames of any kind."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.dask_cluster import (
    CHUNK,
    bits,
    bits_of_faces,
    machines,
    on_dask,
    passes,
    polytopes,
)
from sklearn.exceptions import NotFittedError

from polyopt import SVM, Claim, ConvexPolytopeMachine, scale

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install polyopt[dask]")
da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.filterwarnings("ignore")


def test_dask_has_the_bits_of_one_machine(client, data):
    X, y, weights = data
    for here, there in zip(machines(), machines(), strict=True):
        here.fit(scale.Arrays(X, y, weights, rows=CHUNK))
        there.fit(*on_dask(X, y, weights))
        assert bits(there) == bits(here)
        assert (there.certificate().claim is Claim.OPTIMAL) == (there.max_iter is None)
        assert there.n_iter_ == here.n_iter_
    again = machines()[-1].fit(scale.Arrays(X, y, weights, rows=CHUNK), executor="dask")
    assert bits(again) == bits(there)  # arrays of the client


def test_a_polytope_on_dask_has_the_bits_of_one_machine(client, data, tmp_path):
    X, y, weights = data
    dX, dy, dw = on_dask(X, y, weights)
    wanted = bits_of_faces(polytopes().fit(scale.Arrays(X, y, weights, rows=CHUNK)))
    machine = polytopes().fit(dX, dy, dw, checkpoint=tmp_path / "checkpoint")
    assert bits_of_faces(machine) == wanted
    assert np.array_equal(machine.predict(dX).compute(), machine.predict(X))
    assert machine.face_scores(dX).shape == (len(X), 2)
    assert np.array_equal(machine.face_scores(dX).compute(), machine.face_scores(X))
    source = scale.Arrays(X, y, weights, rows=CHUNK)
    here = polytopes().fit(source, resume=tmp_path / "checkpoint")  # the last of all
    assert bits_of_faces(here) == wanted


def test_answers_are_lazy_and_those_of_one_machine(client, data):
    X, y, _ = data
    dX, dy = on_dask(X, y)
    machine = SVM(kernel="linear", max_iter=2).fit(dX, dy)
    scores, labels = machine.decision_function(dX), machine.predict(dX)
    assert scores.chunks == (dX.chunks[0],)
    assert np.array_equal(scores.compute(), machine.decision_function(X))
    assert np.array_equal(labels.compute(), machine.predict(X))
    assert float((labels == dy).mean().compute()) == machine.score(X, y)
    with pytest.raises(TypeError, match=r"\(machine\.predict\(X\) == y\)\.mean\(\)"):
        machine.score(dX, dy)
    with pytest.raises(NotFittedError):
        SVM(kernel="linear").predict(dX)
    many = SVM(kernel="linear", max_iter=2).fit(dX, da.where(dX[:, 0] > 1.0, "other", dy))
    assert many.decision_function(dX).shape == (len(X), 3)
    assert np.array_equal(many.predict(dX).compute(), many.predict(X))


def test_frames_and_empty_and_one_sided_partitions(client, data):
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=y).sort_values("label", ignore_index=True)
    whole = dd.from_pandas(frame, npartitions=6)
    whole = whole.map_partitions(lambda part: part[part.a > -1.0] if len(part) else part)
    whole = dd.concat([whole, whole[whole.a > 1e9]])
    machine = SVM(kernel="linear").fit(whole[list("abcd")], whole["label"])
    kept = frame[frame.a > -1.0]
    wanted = SVM(kernel="linear").fit(kept[list("abcd")].to_numpy(), kept.label.to_numpy())
    assert machine.certificate().primal_value == pytest.approx(wanted.certificate().primal_value, rel=1e-7)
    assert (machine.predict(whole[list("abcd")]).compute() == wanted.predict(kept[list("abcd")])).all()


def test_columns_of_frames_are_in_order_or_refused(client, data):
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    X, y, _ = data
    frame, names = pd.DataFrame(X, columns=list("abcd")), list("abcd")
    labels = dd.from_pandas(pd.Series(y), npartitions=2)

    def frames(orders):
        halves = [frame[:75][orders[0]], frame[75:][orders[1]]]
        return dd.from_map(lambda half: halves[half], [0, 1], meta=frame[:0])

    plain, turned = frames([names, names]), frames([names, list("dbca")])  # not as the frame says
    machine, again = (SVM(kernel="linear", max_iter=2).fit(each, labels) for each in (plain, turned))
    assert bits(machine) == bits(again)
    assert machine.feature_names_in_.tolist() == names
    assert machine.predict(turned).compute().tolist() == machine.predict(frame).tolist()
    with pytest.raises(ValueError, match="must be in the same order"):
        machine.predict(plain[list("bacd")])
    with pytest.raises(ValueError, match="X has 3 features"):
        machine.predict(on_dask(X[:, :3], y)[0])
    with pytest.raises(ValueError, match=r"partition 1 lacks the columns 'c', 'd'"):
        SVM(kernel="linear").fit(frames([names, list("ab")]), labels)


@pytest.mark.parametrize("what", ["X", "y", "sample_weight"])
def test_masked_entries_on_dask_are_refused(client, data, what):
    """A masked entry in a partition of samples, labels or weights is no data."""
    given = dict(zip(("X", "y", "sample_weight"), data, strict=True))
    mask = np.zeros(given[what].shape, dtype=bool)
    mask.flat[-1] = True
    given[what] = np.ma.masked_array(given[what], mask=mask)
    chunked = {name: da.from_array(each, chunks=(60, *each.shape[1:])) for name, each in given.items()}
    with pytest.raises(ValueError, match=f"{what} has a masked entry"):
        SVM(kernel="linear", max_iter=2).fit(**chunked)


def test_frames_on_dask_hold_numbers_booleans_and_no_gaps(client, data):
    """Booleans are 0 and 1; a gap, a date or a text is refused with its partition and column."""
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abcd")).assign(d=X[:, 3] > 0.0, c=X[:, 2].round().astype(int))
    labels = dd.from_pandas(pd.Series(y), npartitions=3)
    machine, wanted = (
        SVM(kernel="linear", max_iter=2).fit(dd.from_pandas(each, npartitions=3), labels)
        for each in (frame, frame.astype(float))
    )
    assert bits(machine) == bits(wanted)
    assert machine.predict(dd.from_pandas(frame, npartitions=2)).compute().tolist() == (
        wanted.predict(frame.astype(float)).tolist()
    )
    gap = pd.array([None if k == 1 else 2 for k in range(len(y))], dtype="Int64")
    with pytest.raises(ValueError, match="NaN or an infinite value in partition 0, row 1, column 'c'"):
        SVM(kernel="linear").fit(dd.from_pandas(frame.assign(c=gap), npartitions=3), labels)
    # The frame's own types tell of dates before a partition is read.
    for values, where in ((pd.Timestamp("2026-01-02"), ""), ("Rome", r"X in partition \d: ")):
        with pytest.raises(ValueError, match=f"{where}column 'c' holds"):
            SVM(kernel="linear").fit(dd.from_pandas(frame.assign(c=values), npartitions=3), labels)
        with pytest.raises(ValueError, match="column 'c' holds"):
            machine.predict(dd.from_pandas(frame.assign(c=values), npartitions=3)).compute()


def test_a_partition_that_is_made_anew_and_is_another_is_named(client, data):
    X, y, _ = data

    def drawn(number):  # without a seed
        return np.random.default_rng().normal(size=X.shape), y

    for machine in (SVM(kernel="linear"), ConvexPolytopeMachine(2)):
        with pytest.raises(ValueError, match="partition 0 was read again, and has other samples"):
            machine.fit(scale.Generated(drawn, 1), executor="dask")


def test_a_nan_is_named_with_its_partition_and_row(client, data):
    X, y, _ = data
    X = X.copy()
    X[3 * CHUNK + 7, 2] = np.nan
    with pytest.raises(ValueError, match="in partition 3, row 7, feature 2"):
        SVM(kernel="linear").fit(*on_dask(X, y))
    with pytest.raises(ValueError, match="y has 3 partitions of rows and X has 4"):
        SVM(kernel="linear").fit(on_dask(X, y)[0], da.from_array(y, chunks=60))


def test_threads_in_place_of_processes_have_the_same_bits(data):
    from polyopt.scale.dask import DaskExecutor
    from polyopt.scale.executor import ThreadExecutor

    X, y, weights = data
    wanted = bits(machines()[-1].fit(scale.Arrays(X, y, weights, rows=CHUNK)))
    settings = {"processes": False, "dashboard_address": None, "silence_logs": 50}
    for workers, threads in ((2, 1), (1, 3)):
        with (
            distributed.LocalCluster(n_workers=workers, threads_per_worker=threads, **settings) as made,
            distributed.Client(made) as client,
        ):
            assert bits(machines()[-1].fit(*on_dask(X, y, weights), executor=client)) == wanted
            source = scale.Arrays(X, y, weights, rows=20)
            steps = passes(DaskExecutor(client, [source] * source.count))
            assert steps == passes(ThreadExecutor(source))
