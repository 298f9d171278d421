"""Splits: means, intervals by hand, paired differences, and settings for every method."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from polyopt.compare import Comparison, Row, compare
from polyopt.compare.results import differences_of, interval, summaries_of
from polyopt.compare.run import chosen_methods, given_text
from polyopt.datasets import Dataset
from polyopt.methods.registry import find_method, for_kernel
from polyopt.report import write_report


def blobs(n=48, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n // 2)
    return Dataset("blobs", rng.normal(size=(n, 2)) + 1.0 * y[:, None], y, target_names=("a", "b"))


def row(split, test_error, method="svm", seed=0, **more):
    found = Row(
        data="d", method=method, solver=find_method(method).fast, program="svm.primal", settings="",
        objective=2.0, bound=1.0, gap=1.0, relative_gap=0.5, residual=0.0, residual_at="", claim="optimal",
        complexity=3, counts="support vectors", test_error=test_error, seconds=1.0, status="",
        split=split, seed=seed,
    )  # fmt: skip
    return replace(found, **more)


@pytest.fixture(scope="module")
def repeated():
    settings = {"C": 0.5, "n_faces": 2, "n_init": 1}
    return compare(blobs(), ["svm", "rmm", "cpm"], settings=settings, seed=4, splits=3)


# -- the intervals ---------------------------------------------------------------------------------


def test_the_interval_is_nadeau_and_bengios():
    """From the definition, by another route: scipy's own interval is that without the correction."""
    values, ratio = [0.10, 0.14, 0.09, 0.12, 0.16], 1.0 / 3.0
    mean, low, high = interval(values, ratio)
    J = len(values)
    plain = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    wider = np.sqrt((1.0 / J + ratio) / (1.0 / J))
    assert mean == pytest.approx(np.mean(values))
    assert [low, high] == pytest.approx(
        [mean - wider * (mean - plain.low), mean + wider * (plain.high - mean)], rel=1e-12
    )
    assert interval(values, 0.0)[1:] == pytest.approx([plain.low, plain.high], rel=1e-12)


@pytest.mark.parametrize("values", [[], [0.1], [0.1, 0.1, 0.1]])
def test_no_interval_without_a_spread(values):
    assert np.isnan(interval(values, 0.3)[1:]).all()


def test_differences_are_paired_by_split():
    errors = [0.1, 0.3, 0.2, 0.4]
    rows = [row(k, e) for k, e in enumerate(errors)]
    rows += [row(k, e + (0.05, 0.06)[k % 2], "rmm") for k, e in enumerate(errors)]
    found = differences_of(rows, {"d": 1 / 3})[0]
    assert (found.method, found.other, found.splits) == ("svm", "rmm", 4)
    assert found.difference == pytest.approx(-0.055)
    assert found.high < 0.0
    assert found.verdict == "lower", "the errors' own spread, which is common, does not hide it"


def test_equal_errors_are_no_result():
    rows = [row(k, 0.125 + 0.01 * k, method) for method in ("svm", "rmm") for k in range(3)]
    found = differences_of(rows, {"d": 1 / 3})[0]
    assert (found.verdict, found.difference) == ("equal", 0.0)
    shifted = [replace(one, test_error=one.test_error + 0.01 * (one.method == "svm")) for one in rows]
    assert differences_of(shifted, {"d": 1 / 3})[0].verdict == "not told apart"


def test_a_single_split_tells_no_difference():
    assert differences_of([row(0, 0.1), row(0, 0.4, "rmm")], {"d": 1 / 3}) == []


def test_a_failed_fit_is_told_and_takes_the_interval():
    nothing = {"test_error": np.nan, "claim": "none", "relative_gap": np.nan, "complexity": None}
    rows = [row(0, 0.1), row(1, 0.2, relative_gap=0.7), replace(row(2, 0.0), **nothing)]
    found = summaries_of(rows, {"d": 1 / 3})[0]
    assert (found.failed, found.claim, found.relative_gap) == (1, "none", 0.7)
    assert found.test_error == pytest.approx(0.15)
    assert np.isnan(found.test_error_low)


# -- the run ---------------------------------------------------------------------------------------


def test_a_row_is_that_of_a_run_of_its_own(repeated):
    alone = compare(blobs(), ["svm"], settings={"C": 0.5}, seed=5)
    for one in alone.rows:
        same = next(r for r in repeated.rows if (r.method, r.solver, r.split) == ("svm", one.solver, 5))
        assert (same.objective, same.test_error) == (one.objective, one.test_error)


def test_only_the_first_split_keeps_estimators(repeated):
    assert all((r.estimator is not None) == (r in repeated.first_rows) for r in repeated.rows)
    assert len(repeated.first_rows) == 6


@pytest.mark.parametrize("width", [80, 120])
def test_the_tables_fit(repeated, width):
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(repeated)
    text = capture.get()
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    assert "Settings given: C=0.5, n_faces=2 (cpm), n_init=1 (cpm)." in words
    assert "Nadeau & Bengio 2003" in words
    assert "differences of test error" in words
    assert words.count("svm rmm ") == 1


def test_json_csv_and_the_page_have_rows_and_summaries(repeated, tmp_path, monkeypatch):
    monkeypatch.setattr("polyopt.report.comparison.pictures_of", lambda *what: [])
    content = json.loads(json.dumps(repeated.to_dict(), allow_nan=False))
    assert len(content["rows"]) == len(repeated.rows)
    assert [one["method"] for one in content["means"]] == ["svm", "svm", "rmm", "rmm", "cpm", "cpm"]
    assert len(content["differences"]) == 3
    lines = list(csv.DictReader(io.StringIO(repeated.to_table().to_csv(index=False))))
    kinds = [line["kind"] for line in lines]
    assert [kinds.count(kind) for kind in ("fit", "mean", "difference")] == [len(repeated.rows), 6, 3]
    assert float(lines[-1]["difference"]) == content["differences"][-1]["difference"]
    page = write_report(repeated, tmp_path / "p.html").read_text(encoding="utf-8")
    assert f"All {len(repeated.rows)} fits" in page
    assert "Differences of test error" in page


def test_a_published_test_part_has_one_split():
    data = blobs()
    held = replace(data, name="held", X_test=data.X[::3], y_test=data.y[::3])
    found = compare([data, held], ["svm"], splits=2)
    assert [r.split for r in found.rows if r.data == "held"] == [0, 0]
    assert "of held the publisher's" in " ".join(found.notes())
    assert not [one for one in found.differences() if one.data == "held"]


# -- settings --------------------------------------------------------------------------------------


def test_a_setting_is_for_the_methods_that_have_it():
    given = chosen_methods(["svm", "cpm"], {"C": 2.0, "n_faces": 5})
    assert given == {"svm": {"C": 2.0}, "cpm": {"C": 2.0, "n_faces": 5}}
    assert given_text(given) == "C=2, n_faces=5 (cpm)"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_faces": 3}, "no compared method has the setting n_faces; compared: svm, rmm"),
        ({"C": -1.0}, "C must be positive and finite"),
        ({"degree": "x"}, "degree"),
    ],
)
def test_bad_settings_are_refused_before_any_fit(settings, message):
    done = []
    with pytest.raises(ValueError, match=message):
        compare(blobs(), ["svm", "rmm"], settings=settings, on_row=done.append)
    assert done == []


def test_a_kernel_chooses_the_entry_that_it_is_of():
    assert for_kernel(find_method("svm"), "poly") is find_method("svm-rbf")
    assert for_kernel(find_method("svm-rbf"), "linear") is find_method("svm")
    assert for_kernel(find_method("rmm-rbf"), "sigmoid") is find_method("rmm-rbf")
    assert for_kernel(find_method("cpm"), "rbf") is find_method("cpm")
    assert find_method("svm-rbf").title_for({"kernel": "poly"}).endswith(", poly kernel")
    assert find_method("svm-rbf").title_for({"kernel": "rbf"}) == find_method("svm-rbf").title
    assert list(chosen_methods(["svm", "svm-rbf"], {"kernel": "rbf"})) == ["svm-rbf"]


@pytest.mark.parametrize("name", ["splits"])
def test_counts_are_at_least_one(name):
    with pytest.raises(ValueError, match=rf"{name} must be an integer of at least 1"):
        compare(blobs(), ["svm"], **{name: 0})


def test_a_run_that_was_stopped_summarises_what_is_done(repeated):
    cut = Comparison(repeated.rows[:9], repeated.datasets, seed=4, interrupted=True, splits=3)
    assert [one.fits for one in cut.summaries()] == [2, 2, 2, 1, 1, 1]
    assert cut.differences() == []
    assert any("interrupted" in note for note in cut.notes())
