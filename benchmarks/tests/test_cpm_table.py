"""Table 1 and Figure 2 of the CPM paper: what is printed, how settings are chosen, and what is kept."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import cpm_figure2, cpm_table


@pytest.fixture(scope="module")
def digits():
    return cpm_table.digits(True)


def test_grids_are_the_papers():
    """Rates are 10^j / T and entropy floors the logarithms of jK/10, as section 5 says."""
    task = cpm_table.TASKS["MNIST-2"]
    n = 60_000
    T = task.passes * n
    rates = [2.0 / (n * one["C"]) for one in task.grid("CPM, h = 0", None, {})]
    assert sorted(rates) == pytest.approx([10.0**j / T for j in range(5)])
    floors = task.grid("CPM", None, {"C": 1.6, "perplexity": 1.0})
    assert [one["C"] for one in floors] == [1.6] * 10
    entropies = np.log([one["perplexity"] for one in floors])
    assert entropies == pytest.approx([0.0, *np.log(np.arange(1, 10) * task.faces / 10)])
    # Of five faces, a tenth are less than one, which is no floor.
    assert cpm_table.floors(5) == [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5]


class Counted(cpm_table.Task):
    """A task whose machines are not learnt: the error is told by the settings."""

    def grid(self, machine, data, base):
        return [{"x": x, **base} for x in (3, 1, 2, 1.0)]

    def fit(self, name, data, settings, seed, rows=None, held=None):
        assert (held is None) == (seed > 0)
        if held is not None:
            assert not set(rows) & set(held)
            assert len(held) == len(data.y) // 5
        return settings["x"] + 0.25 * seed, "iteration limit" if seed == 0 else "optimal", 7.0


def test_kept_runs_are_not_repeated(digits):
    """Settings are chosen by the held-out error, and only missing runs are made."""
    task = Counted(lambda: digits, 5, 5, ("CPM, h = 0", "RBF SVM"), 2)
    records = list(cpm_table.missing_records("A9A", task, []))
    assert [(one["machine"], one["run"]) for one in records] == [
        ("CPM, h = 0", 0), ("CPM, h = 0", 1), ("CPM, h = 0", 2), ("RBF SVM", 0), ("RBF SVM", 1),
    ]  # fmt: skip
    assert [json.loads(one["settings"])["x"] for one in records] == [1] * 5
    some = [records[0], records[2], records[4]]
    again = list(cpm_table.missing_records("A9A", task, some))
    assert [(one["machine"], one["run"]) for one in again] == [("CPM, h = 0", 1), ("RBF SVM", 0)]
    assert list(cpm_table.missing_records("A9A", replace(task, load=None), records)) == []
    line = cpm_table.as_printed(records).set_index(["data", "machine"]).loc[("A9A", "CPM, h = 0")]
    assert line["held-out error, %"] == 1.0
    assert line["test error, %"] == pytest.approx(1.375)
    assert line["deviation"] == pytest.approx(np.std([1.25, 1.5], ddof=1))
    assert (line["runs"], line["CPU seconds"], line["paper, %"]) == (2, 7.0, 15.15)
    assert line["status"] == "optimal; search: iteration limit"


def test_figure_shows_means_and_changes():
    """A line is the mean over runs; a change is in standard errors of a difference."""
    made = [(125_000, 1.0), (125_000, 1.2), (250_000, 0.6), (250_000, 0.6)]
    records = [
        {"faces": K, "steps": T, "run": k, "error": error + K, "averaged": 0.5, "seconds": 1.0}
        for K in (1, 2) for k, (T, error) in enumerate(made)
    ]  # fmt: skip
    table = cpm_figure2.shown(records)
    assert table["mean error, %"].tolist() == pytest.approx([2.1, 1.6, 3.1, 2.6])
    change = table["change, in standard errors"]
    assert change[1::2].tolist() == pytest.approx([-0.5 / 0.1] * 2)
    assert change[::2].isna().all()
