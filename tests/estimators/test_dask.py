"""Machines on a real cluster of processes: the bits of one machine, from arrays and frames of any kind."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from helpers.blocks import bits, quietly
from helpers.dask_cluster import ROWS, da, in_one_process, on_dask
from joblib import parallel_config
from sklearn.exceptions import NotFittedError

from polyopt import SVM, ConvexPolytopeMachine, RelativeMarginMachine, SigmaSVM, scale
from polyopt.base.parallel import run_tasks

dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.filterwarnings("ignore")

MACHINES = {
    "svm": SVM(kernel="linear", C=0.5),
    "sigma-svm": SigmaSVM(kernel="linear", D=0.5, max_iter=4),
    "rmm": RelativeMarginMachine(kernel="linear", B=1.5, max_iter=4),
    "cpm": ConvexPolytopeMachine(n_faces=2, C=0.5, max_iter=1, random_state=0),
}
NAMES = list("abcd")
SHORT = SVM(kernel="linear", max_iter=2)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_dask_has_bits_of_threads(client, data, machine, tmp_path):
    """Arrays of Dask give the bits of the same blocks in this process, which can resume the checkpoint."""
    source, path = scale.Arrays(*data, rows=ROWS), tmp_path / "checkpoint"
    wanted = bits(quietly(machine, source))
    assert bits(quietly(machine, on_dask(*data), checkpoint=path)) == wanted
    assert bits(quietly(machine, source, resume=path)) == wanted


def test_number_of_threads_changes_no_bit(data):
    """A worker of three threads gives the bits of one thread, from arrays that it is sent."""
    source = scale.Arrays(*data, rows=ROWS)
    wanted = bits(quietly(MACHINES["rmm"], source))
    with in_one_process(threads=3) as (_, client):
        assert bits(quietly(MACHINES["rmm"], source, executor=client)) == wanted


def test_answers_are_lazy(client, data):
    """Labels and scores of Dask arrays are Dask arrays, with the values of one machine."""
    X, y, _ = data
    dX, dy = on_dask(X, y)
    machine = SHORT.fit(dX, dy)
    scores, labels = machine.decision_function(dX), machine.predict(dX)
    assert scores.chunks == (dX.chunks[0],)
    assert np.array_equal(scores.compute(), machine.decision_function(X))
    assert np.array_equal(labels.compute(), machine.predict(X))
    assert float((labels == dy).mean().compute()) == machine.score(X, y)
    with pytest.raises(TypeError, match=r"\(machine\.predict\(X\) == y\)\.mean\(\)"):
        machine.score(dX, dy)
    with pytest.raises(NotFittedError):
        SVM(kernel="linear").predict(dX)
    many = SHORT.fit(dX, da.where(dX[:, 0] > 1.0, "other", dy))
    assert many.decision_function(dX).shape == (len(X), 3)
    assert np.array_equal(many.predict(dX).compute(), many.predict(X))
    polytope = quietly(MACHINES["cpm"].begin_from(np.eye(2, 5)), (dX, dy))
    assert np.array_equal(polytope.face_scores(dX).compute(), polytope.face_scores(X))


def test_partitions_may_be_empty_or_one_sided(client, data):
    """Partitions of a frame may lack a class or all rows."""
    X, y, _ = data
    frame = pd.DataFrame(X, columns=NAMES).assign(label=y).sort_values("label", ignore_index=True)
    whole = dd.from_pandas(frame, npartitions=4)
    whole = whole.map_partitions(lambda part: part[part.a > -1.0] if len(part) else part)
    whole = dd.concat([whole, whole[whole.a > 1e9]])
    machine = SVM(kernel="linear").fit(whole[NAMES], whole["label"])
    kept = frame[frame.a > -1.0]
    wanted = SVM(kernel="linear").fit(kept[NAMES].to_numpy(), kept.label.to_numpy())
    assert machine.certificate().primal_value == pytest.approx(wanted.certificate().primal_value, rel=1e-7)
    assert (machine.predict(whole[NAMES]).compute() == wanted.predict(kept[NAMES])).all()


def halves(frame, *columns):
    """A Dask frame of two partitions, each with its columns."""
    parts = [half[names] for half, names in zip((frame[:75], frame[75:]), columns, strict=True)]
    return dd.from_map(lambda number: parts[number], [0, 1], meta=frame[:0])


def test_columns_of_partitions(client, data):
    """Columns go by their names in partitions, in the order of the fit in predictions; none may lack."""
    X, y, _ = data
    frame, labels = pd.DataFrame(X, columns=NAMES), dd.from_pandas(pd.Series(y), npartitions=2)
    plain, turned = halves(frame, NAMES, NAMES), halves(frame, NAMES, list("dbca"))
    wanted = bits(SHORT.fit(plain, labels))
    assert bits(SHORT.fit(turned, labels)) == wanted
    assert SHORT.feature_names_in_.tolist() == NAMES
    assert SHORT.predict(turned).compute().tolist() == SHORT.predict(frame).tolist()
    with pytest.raises(ValueError, match="must be in the same order"):
        SHORT.predict(plain[list("bacd")])
    with pytest.raises(ValueError, match="X has 3 features"):
        SHORT.predict(on_dask(X[:, :3])[0])
    with pytest.raises(ValueError, match=r"partition 1 lacks the columns 'c', 'd'"):
        SVM(kernel="linear").fit(halves(frame, NAMES, list("ab")), labels)


def test_booleans_are_numbers(client, data):
    """Booleans and integers of a frame are the numbers that they are as floats."""
    X, y, _ = data
    frame = pd.DataFrame(X, columns=NAMES).assign(d=X[:, 3] > 0.0, c=X[:, 2].round().astype(int))
    labels = dd.from_pandas(pd.Series(y), npartitions=2)
    wanted = bits(SHORT.fit(dd.from_pandas(frame.astype(float), npartitions=2), labels))
    assert bits(SHORT.fit(dd.from_pandas(frame, npartitions=2), labels)) == wanted
    answers = SHORT.predict(dd.from_pandas(frame, npartitions=3)).compute().tolist()
    assert answers == SHORT.predict(frame.astype(float)).tolist()


CELLS = {
    "gap": (
        lambda n: pd.array([None if k == 1 else 2 for k in range(n)], dtype="Int64"),
        "NaN or an infinite value in partition 0, row 1, column 'c'",
    ),
    "date": (lambda n: pd.Timestamp("2026-01-02"), "column 'c' holds"),
    "text": (lambda n: "Rome", r"X in partition \d: column 'c' holds"),
}


@pytest.mark.parametrize(("cells", "sentence"), CELLS.values(), ids=CELLS)
def test_cells_without_number_are_named(client, data, cells, sentence):
    """A gap, a date or a text in a partition is refused with its column."""
    frame = pd.DataFrame(data[0], columns=NAMES).assign(c=cells(len(data[0])))
    labels = dd.from_pandas(pd.Series(data[1]), npartitions=3)
    with pytest.raises(ValueError, match=sentence):
        SVM(kernel="linear").fit(dd.from_pandas(frame, npartitions=3), labels)


@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_masked_entries_are_refused(client, data, name):
    """A masked entry in a partition of samples, labels or weights is no data."""
    given = dict(zip(("X", "y", "sample_weight"), data, strict=True))
    mask = np.zeros(given[name].shape, dtype=bool)
    mask.flat[-1] = True
    given[name] = np.ma.masked_array(given[name], mask=mask)
    arrays = dict(zip(given, on_dask(*given.values()), strict=True))
    with pytest.raises(ValueError, match=f"{name} has a masked entry"):
        SHORT.fit(**arrays)


def drawn(number):
    """Samples without a seed."""
    return np.random.default_rng().normal(size=(30, 2)), np.arange(30) % 2


@pytest.mark.parametrize("machine", [SVM(kernel="linear"), ConvexPolytopeMachine(2)], ids=["svm", "cpm"])
def test_changed_partition_is_named(client, machine):
    """A partition that is made anew and has other samples is refused."""
    with pytest.raises(ValueError, match="partition 0 was read again, and has other samples"):
        machine.fit(scale.Generated(drawn, 1), executor="dask")


def test_fault_is_named_with_its_place(client, data):
    """NaN has its partition and row; labels need as many partitions as samples."""
    X, y, _ = data
    X = X.copy()
    X[3 * ROWS + 7, 2] = np.nan
    with pytest.raises(ValueError, match="in partition 3, row 7, feature 2"):
        SVM(kernel="linear").fit(*on_dask(X, y))
    with pytest.raises(ValueError, match="y has 3 partitions of rows and X has 4"):
        SVM(kernel="linear").fit(on_dask(X)[0], da.from_array(y, chunks=60))


# -- independent work by joblib ----------------------------------------------------------------


def test_joblib_on_dask_has_same_bits(client, data):
    """Pairs of classes and starts that joblib gives to workers are those of this process."""
    X, y = data[0][:60], data[1][:60]
    three = np.where(X[:, 0] > 1, "other", y)
    starts = ConvexPolytopeMachine(n_faces=2, n_init=3, random_state=0, solver="exact")

    def answers():
        scores = SVM().fit(X, three).decision_function(X), starts.fit(X, y).decision_function(X)
        return [each.tobytes() for each in scores]

    here = answers()
    with parallel_config(backend="dask"):
        assert answers() == here


class Sent(np.ndarray):
    """An array that counts how often it is packed with a task."""

    times = 0

    def __reduce_ex__(self, protocol):
        Sent.times += 1
        return np.asarray(self).__reduce_ex__(protocol)


class Sum(NamedTuple):
    X: Any
    power: int


def total_power(task):
    return float((task.X**task.power).sum())


def test_joblib_packs_samples_with_no_task(client):
    """Samples that several tasks share are sent beforehand."""
    tasks = [Sum(np.arange(4000.0).view(Sent), power) for power in range(6)]
    tasks = [task._replace(X=tasks[0].X) for task in tasks]
    wanted, Sent.times = [total_power(task) for task in tasks], 0
    with parallel_config(backend="dask"):
        assert run_tasks(total_power, tasks, None, "sum") == wanted
    assert Sent.times == 0
