"""The portfolio's ratios, profiles and data are what they are said to be."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import kernel_portfolio
from benchmarks.helpers.portfolio_data import SETS, samples


def a_cell(data, ours, theirs, status="SOLVED", peer_status="ended", threads=1):
    """One kept cell: ours and the peer's seconds; of the processor half of those by the clock."""
    facts = {"violation": 1e-4, "predict CPU": 1.0, "predict clock": 1.0}
    row = {
        "threads": threads,
        "data": data,
        "degree": 0,
        "C": 10.0,
        "gamma": 2.0,
        "share": 0.0,
        "n": 9,
        "m": 2,
    }
    row |= {"limit": 60.0, "past limit": 0.0}
    for who, seconds, ended in (("polyopt", ours, status), ("intelex", theirs, peer_status)):
        found = {"CPU": seconds, "clock": 2 * seconds, "status": ended, **facts}
        row |= {f"{who}: {name}": value for name, value in found.items()}
    return row


def test_means_and_worst_cells_lead():
    """The table begins with the geometric mean and the worst cell, and ends with absent sets."""
    rows = [a_cell("a", 1.0, 2.0), a_cell("b", 8.0, 1.0)]
    table = kernel_portfolio.as_printed(rows, absent=["c"])
    assert list(table["data"][:2]) == ["geometric mean", "worst: b"]
    assert list(table["ratio"][:2]) == ["2", "8"]
    assert list(table["data"])[-3:] == ["a (9, 2)", "b (9, 2)", "c"]
    assert table["task"].iloc[-1] == "not at hand"


@pytest.mark.parametrize(
    ("statuses", "ratio"),
    [(("limit", "ended"), "> 4"), (("SOLVED", "limit"), "< 4"), (("limit", "limit"), "neither ended")],
)
def test_ratio_at_limit_is_a_bound(statuses, ratio):
    """A ratio with a run at the time limit is shown as a bound."""
    table = kernel_portfolio.as_printed([a_cell("a", 4.0, 1.0, *statuses)])
    assert table.loc[table["data"] == "a (9, 2)", "ratio"].tolist() == [ratio]


def test_profile_counts_unfinished_runs():
    """Unfinished runs are infinitely slow in the profile; cells without a rival are left out."""
    rows = [
        a_cell("a", 1.0, 3.0), a_cell("b", 4.0, 2.0), a_cell("c", 1.0, 1.0, peer_status="limit"),
        a_cell("d", 9.0, 9.0, "limit", "limit"), a_cell("e", 1.0, 1.0, peer_status=np.nan),
    ]  # fmt: skip
    found = kernel_portfolio.profiles(pd.DataFrame(rows), ("polyopt", "intelex"))
    np.testing.assert_allclose(found["polyopt"], [1.0, 1.0, 2.0, np.inf])
    np.testing.assert_allclose(found["intelex"], [1.0, 3.0, np.inf, np.inf])


@pytest.mark.parametrize("name", [name for name in SETS if not SETS[name].file])
def test_seed_decides_a_set(name):
    """A smaller draw of the set has both classes, and is the same each time."""
    make = SETS[name].make
    size, *rest = make.args
    assert 2000 <= size <= 20_000
    (X, positive), (again, same) = make.func(300, *rest), make.func(300, *rest)
    assert set(positive) == {False, True}
    np.testing.assert_array_equal(positive, same)
    assert abs(X - again).max() == 0.0


@pytest.mark.parametrize("name", ["moons", "one-hot"], ids=["dense", "sparse"])
def test_samples_are_single_with_signs(name):
    """Samples are single precision, labels -1 and +1."""
    X, y = samples(name)
    assert X.dtype == np.float32
    assert X.shape[0] == len(y) == SETS[name].make.args[0]
    assert set(y) == {-1.0, 1.0}
