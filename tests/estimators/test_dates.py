"""Dates, times and other cells that are no numbers are refused with their column, by fit and by predict."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt import SVM, ConvexPolytopeMachine, Hinges, LogisticSearch

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

MACHINES = [
    SVM(), ConvexPolytopeMachine(random_state=0), Hinges(), LogisticSearch(cv=2),
]  # fmt: skip
DAYS = np.arange("2020-01-01", "2020-02-10", dtype="datetime64[D]").astype("datetime64[us]")
N = len(DAYS)
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)})
Y = (FRAME["a"] > 0).to_numpy()


def objects(value):
    return pd.Series([value] * N, dtype=object)


FRAMES = {
    "dates": FRAME.assign(b=DAYS),
    "zones": FRAME.assign(b=pd.Series(DAYS).dt.tz_localize("UTC")),
    "spans": FRAME.assign(b=DAYS - DAYS[0]),
    "periods": FRAME.assign(b=pd.period_range("2020", periods=N)),
    "intervals": FRAME.assign(b=pd.interval_range(0, periods=N)),
    "dates-alone": FRAME.assign(a=DAYS, b=DAYS),
    "objects-of-dates": FRAME.assign(b=objects(pd.Timestamp(2020, 1, 1))),
    "objects-of-lists": FRAME.assign(b=objects([1])),
    "objects-with-NA": FRAME.assign(b=objects(pd.NA)),
    "polars-dates": pl.from_pandas(FRAME).with_columns(b=pl.Series(DAYS)),
    "polars-spans": pl.from_pandas(FRAME).with_columns(b=pl.Series(DAYS - DAYS[0])),
    "polars-lists": pl.from_pandas(FRAME).with_columns(b=pl.Series([[1]] * N)),
}


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: f"{type(machine).__module__}.{machine}")
def test_cells_without_a_number_are_refused(machine):
    """A column of a frame that holds no numbers is named by a ValueError of fit and of predict."""
    for given in FRAMES.values():
        with pytest.raises(ValueError, match=r"column '[ab]'"):
            machine.fit(given, Y)
    machine.fit(FRAME, Y)
    answer = getattr(machine, "predict", None) or machine.transform
    for given in FRAMES.values():
        with pytest.raises(ValueError, match=r"column '[ab]'"):
            answer(given[["a", "b"]])


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: f"{type(machine).__module__}.{machine}")
def test_arrays_of_dates_are_refused(machine):
    """An array of dates or of times is a ValueError, and not a matrix of nanoseconds."""
    for given in (DAYS[:, None], (DAYS - DAYS[0])[:, None]):
        with pytest.raises(ValueError, match="which is no number"):
            machine.fit(given, Y)


def test_blocks_refuse_cells_without_a_number():
    """Frames and arrays that are fitted in blocks are refused alike."""
    linear = SVM(kernel="linear")
    for given in FRAMES.values():
        with pytest.raises(ValueError, match=r"column '[ab]'"):
            linear.fit(given, Y, executor="threads")
    for given in (DAYS[:, None], (DAYS - DAYS[0])[:, None]):
        with pytest.raises(ValueError, match="which is no number"):
            linear.fit(given, Y, executor="threads")
