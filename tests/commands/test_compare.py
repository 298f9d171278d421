"""The comparison: its numbers are the certificates', and its two solutions are of one program."""

import csv
import io
import re
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from helpers import odd_methods
from helpers.commands import registry
from rich.console import Console

from polyopt.base.progress import records_to
from polyopt.certificates.certificate import relative_gap
from polyopt.compare import DEFAULT_METHODS, METHODS, compare, find_method
from polyopt.compare.run import chosen_methods, given_text
from polyopt.compare.tables import CLAIMS, duration, number
from polyopt.compare.trace import trace
from polyopt.datasets import Dataset
from polyopt.margin.svm import SVM
from polyopt.methods.programs import find_programs
from polyopt.methods.registry import for_kernel
from polyopt.methods.tuning import narrower_class, relative_bound
from polyopt.plots import gaps


def blobs(n=80, seed=0, name="blobs"):
    """Two overlapping classes, the second one wider, on scales that differ by a thousand."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n // 2)
    X = rng.normal(size=(n, 3)) * np.where(y == 1, 2.0, 1.0)[:, None] + 1.2 * y[:, None]
    return Dataset(name, X * [1.0, 1000.0, 0.1] + 5.0, y, target_names=("narrow", "wide"))


@pytest.fixture(scope="module")
def comparison():
    return compare(blobs(), list(METHODS), settings={"n_init": 1})


def pairs_of(comparison):
    rows = comparison.rows
    return {rows[i].method: (rows[i], rows[i + 1]) for i in range(0, len(rows), 2)}


def test_numbers_are_of_certificates(comparison):
    """Each row has the numbers of its machine's certificate, and its error on the test part."""
    data = comparison.datasets[0]
    for row in comparison.rows:
        certificate = row.estimator.certificate()
        assert row.objective == certificate.primal_value
        assert row.bound == certificate.dual_value
        assert row.bound <= row.objective * (1 + 1e-9)
        assert row.gap == certificate.gap
        assert row.claim == certificate.claim.name.lower()
        assert row.residual == max(r.relative for r in certificate.residuals)
        if row.residual:
            assert row.residual_at == certificate.worst.label
        wrong = np.mean(row.estimator.predict(data.X_test) != data.y_test)
        assert row.test_error == pytest.approx(wrong, abs=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_solvers_of_method_agree(comparison, name):
    """Both solvers' values and bounds fit each other, as far as a method is convex or ends at one point."""
    exact, fast = pairs_of(comparison)[name]
    method = METHODS[name]
    if method.counts != "faces":  # convex, or integer with a proof
        assert exact.claim == "optimal"
        assert fast.claim in ("optimal", "suboptimal_by")
        assert fast.bound - 1e-6 <= exact.objective <= fast.objective + 1e-8
        assert fast.objective - exact.objective <= (0.02 if method.is_integer else 0.01) * exact.objective
    else:  # each may end at an assignment of its own
        assert exact.claim in ("stationary", "optimal")
        assert exact.relative_gap <= 1e-6
    if name == "spla1":
        assert fast.objective == pytest.approx(exact.objective, rel=1e-6)
    if name == "cpm":
        assert (exact.claim, exact.counts) == ("stationary", "faces")
        assert 1 <= exact.complexity <= 3


def test_support_vectors_are_counted_alike(comparison):
    """Both solvers of one program count the samples on their margins or inside."""
    exact, fast = pairs_of(comparison)["svm"]
    y, f = comparison.datasets[0].y_train, exact.estimator.decision_function(comparison.datasets[0].X_train)
    inside = int(np.sum(np.where(y == 1, f, -f) < 1 + 1e-6))
    assert exact.complexity == inside
    assert abs(fast.complexity - inside) <= 2


def test_features_are_scaled_on_training_part(comparison):
    """Means and spreads are of the training part alone."""
    data, raw = comparison.datasets[0], blobs()
    X_train, X_test, _, y_test = raw.split(0.25, random_state=0)
    mean, scale = X_train.mean(axis=0), X_train.std(axis=0)
    np.testing.assert_allclose(data.X_train, (X_train - mean) / scale, atol=1e-12)
    np.testing.assert_allclose(data.X_test, (X_test - mean) / scale, atol=1e-12)
    np.testing.assert_array_equal(data.y_test, y_test)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rmm_bound_is_half_way_to_svm(comparison, kernel):
    """By default B is half way between 1 and the SVM's largest output; the row and the notes say so."""
    data = comparison.datasets[0]
    svm = SVM(C=1.0, kernel=kernel, solver="exact").fit(data.X_train, data.y_train)
    theta = np.abs(svm.decision_function(data.X_train)).max()
    B = relative_bound(data.X_train, data.y_train, {"C": 1.0, "kernel": kernel})
    assert pytest.approx(1 + (theta - 1) / 2, rel=1e-5) == B
    row = pairs_of(comparison)["rmm" if kernel == "linear" else "rmm-rbf"][0]
    assert float(row.estimator.B) == B
    assert f"B={B:.4g}" in row.settings
    named = re.search(rf"B={B:.4g} \(([^)]*) on blobs\)", " ".join(comparison.notes()))
    assert row.method in named[1].split(", ")
    assert METHODS["rmm"].settings_for(data.X_train, data.y_train, B=1.25)["B"] == 1.25


def test_narrower_class_is_inside():
    """The class inside is the one with the smaller spread, or the first one if both are alike."""
    X = np.array([[0.0], [0.1], [-5.0], [5.0]])
    assert narrower_class(X, np.array(["in", "in", "out", "out"]), {}) == "in"
    assert narrower_class(X, np.array(["b", "b", "a", "a"]), {}) == "b"
    assert narrower_class(X, np.array([0, 1, 2, 2]), {}) is None


def test_seed_decides_rows():
    """The same seed gives the same rows, and another seed others."""

    def numbers(seed):
        frame = compare(blobs(40), ["svm", "cpm"], settings={"n_init": 2}, seed=seed).to_frame()
        return frame.drop(columns="seconds")

    found = numbers(3)
    pd.testing.assert_frame_equal(found, numbers(3))
    assert not found.equals(numbers(4))


def test_csv_comes_back(comparison):
    """The rows as CSV have every field, and every number to its last digit."""
    records = list(csv.DictReader(io.StringIO(comparison.to_frame().to_csv(index=False))))
    for record, row in zip(records, comparison.rows, strict=True):
        values = {field.name: getattr(row, field.name) for field in fields(row) if field.name != "estimator"}
        assert list(record) == list(values)
        assert all(type(value)(record[name]) == value for name, value in values.items())


@pytest.mark.parametrize(("methods", "done"), [(["svm"], 2), ([], 0)], ids=["second", "first"])
def test_ctrl_c_keeps_rows(methods, done, interruptible):
    """After Ctrl-C in the fits of a method the comparison has the rows of those before it."""
    with registry(odd_methods.method(odd_methods.InterruptedEarly)):
        found = compare(blobs(), [*methods, "interruptedearly"])
    assert found.interrupted
    assert [row.method for row in found.rows] == ["svm"] * done
    assert any("interrupted" in note for note in found.notes())
    assert ("svm" if done else "No fit was finished.") in printed(found, 80)


def printed(comparison, width):
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(comparison)
    return capture.get()


@pytest.mark.parametrize(("width", "seconds"), [(80, 4321.0), (100, 0.004), (160, 99.96)])
def test_table_fits_and_shows_numbers(comparison, width, seconds):
    """A table of 80 columns has room for every number, however long the runs took."""
    assert [duration(each) for each in (0.004, 9.996, 99.96, 4321.4)] == ["0.00", "10.0", "100", "4321"]
    rows = [replace(row, seconds=seconds) for row in comparison.rows]
    text = printed(replace(comparison, rows=rows), width)
    assert max(map(len, text.splitlines())) <= width
    is_narrow = width < 112
    for row in rows:
        digits, solver = (7, row.solver.partition("-")[0][:6]) if is_narrow else (8, row.solver)
        value, badge = number(row.objective, digits), CLAIMS[row.claim]
        assert number(row.bound, digits) in text
        line = next(line for line in text.splitlines() if f" {solver}" in line and value in line)
        assert f"{row.relative_gap:.{0 if is_narrow else 1}e}" in line
        assert f"{100 * row.test_error:.1f}" in line
        assert str(row.complexity) in line.split()
        assert (badge.mark if is_narrow else badge.word) in line
        assert not is_narrow or f"{badge.mark} {badge.meaning}" in text
        assert line.rstrip().endswith(duration(row.seconds))
        assert float(duration(row.seconds)) == pytest.approx(row.seconds, rel=5e-3, abs=5e-3)


@pytest.mark.parametrize("name", ["svm", "rmm-rbf"])
def test_trace_closes_in_on_optimum(comparison, name):
    """The values of a run stay above the optimum, its bounds below, and the last value is the machine's."""
    exact, fast = pairs_of(comparison)[name]
    found = trace(fast.estimator)
    assert len(found) >= 3
    assert found["objective"].iloc[0] > exact.objective + 1e-3
    assert found["iteration"].is_monotonic_increasing
    assert (found["objective"] >= exact.objective - 1e-8).all()
    assert (found["bound"] <= exact.objective + 1e-8).all()
    assert found["objective"].iloc[-1] == pytest.approx(fast.objective, rel=1e-9)


def test_trace_of_polytope_is_its_history(comparison):
    """The trace has the measured objectives of the history, the least of which is the row's."""
    fast = pairs_of(comparison)["cpm"][1]
    found = trace(fast.estimator)
    np.testing.assert_array_equal(found["objective"], fast.estimator.history_["objective"].dropna())
    assert found["objective"].min() == pytest.approx(fast.objective, rel=1e-9)


def with_value(value):
    data = blobs()
    data.X[3, 1] = value
    return data


def labelled(y):
    return Dataset("odd", np.arange(2.0 * len(y)).reshape(-1, 2), np.asarray(y), target_names=("0",))


REFUSED = {
    "NaN": ({"data": with_value(np.nan)}, r"blobs.*NaN.*row 3, column 1"),
    "infinity": ({"data": with_value(np.inf)}, r"blobs.*infinite.*row 3, column 1"),
    "one class": ({"data": labelled([0, 0, 0])}, r"one class, \[0\]"),
    "one sample": ({"data": labelled([0, 0, 0, 1])}, r"class 1 has one sample"),
    "no set": ({"data": "nope"}, r"nope.*Known: ionosphere"),
    "near set": ({"data": "ionospher"}, r"Did you mean 'ionosphere'"),
    "near method": ({"methods": ["svmm"]}, r"'svmm'.*Did you mean 'svm'"),
    "no method": ({"methods": ["svm", "nonsense"]}, r"'nonsense' is not known.*Known: svm"),
    "time": ({"time_limit": float("nan")}, r"time_limit must be .* not nan"),
    "faces": ({"settings": {"n_faces": 3}}, "no compared method has the setting n_faces; compared: svm, rmm"),
    "cost": ({"settings": {"C": -1.0}}, "C must be positive and finite"),
    "degree": ({"settings": {"degree": "x"}}, "degree"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused(arguments, message):
    """Data, methods and settings that cannot be compared are named, before a solver has told of anything."""
    told = []
    with records_to(told.append), pytest.raises(ValueError, match=message):
        compare(**{"data": blobs(), "methods": ["svm", "rmm"], **arguments})
    assert told == []


def test_solvers_tell_of_comparison():
    """A comparison of good data has records, which the test above would see."""
    told = []
    with records_to(told.append):
        compare(blobs(), ["svm"])
    assert told


def test_setting_is_for_methods_that_have_it(comparison):
    """A setting goes to the methods that have it, and the notes say so."""
    given = chosen_methods(["svm", "cpm"], {"C": 2.0, "n_faces": 5})
    assert given == {"svm": {"C": 2.0}, "cpm": {"C": 2.0, "n_faces": 5}}
    assert given_text(given) == "C=2, n_faces=5 (cpm)"
    assert "Settings given: n_init=1 (" in " ".join(comparison.notes())


def test_kernel_chooses_entry():
    """With a kernel the entry of the same estimator is chosen whose kernel it is."""
    assert for_kernel(find_method("svm"), "poly") is find_method("svm-rbf")
    assert for_kernel(find_method("svm-rbf"), "linear") is find_method("svm")
    assert for_kernel(find_method("rmm-rbf"), "sigmoid") is find_method("rmm-rbf")
    assert for_kernel(find_method("cpm"), "rbf") is find_method("cpm")
    assert find_method("svm-rbf").title_for({"kernel": "poly"}).endswith(", poly kernel")
    assert find_method("svm-rbf").title_for({"kernel": "rbf"}) == find_method("svm-rbf").title
    assert list(chosen_methods(["svm", "svm-rbf"], {"kernel": "rbf"})) == ["svm-rbf"]


def test_published_test_part_is_used():
    """A data set with a test part of its own is not split, and the notes say so."""
    data = blobs()
    held = replace(data, name="held", X_test=data.X[::3], y_test=data.y[::3])
    found = compare([data, held], ["svm"])
    assert len(found.datasets[1].y_test) == len(held.y_test)
    assert "a stratified quarter (seed 0), of held the publisher's" in " ".join(found.notes())


def test_unknown_program_is_named():
    """A method is found with either hyphen; a program's wrong name is told with those near it."""
    assert find_method("sigma_svm_rbf") is METHODS["sigma-svm-rbf"]
    assert set(DEFAULT_METHODS) <= set(METHODS)
    for name, message in (("zzz", "Families: svm"), ("rmm.nonsense", "the family has rmm.qcqp")):
        with pytest.raises(ValueError, match=message):
            find_programs(name)


def test_global_optimum_is_proven_beside_others():
    """With `prove` the optimum over all assignments bounds the values of the other solvers."""
    found = compare(blobs(40), ["svm", "cpm"], settings={"n_init": 1, "n_faces": 2}, prove=True)
    rows = {(row.method, row.solver): row for row in found.rows}
    solvers = ("exact", "sgd", "dual", "global")
    assert list(rows) == [("svm", "exact"), ("svm", "interior-point"), *(("cpm", name) for name in solvers)]
    proven = rows["cpm", "global"]
    assert proven.relative_gap < 1e-6
    for solver in solvers[:3]:
        assert proven.bound <= rows["cpm", solver].objective * (1 + 1e-9)
        assert rows["cpm", solver].claim != "optimal"
    assert any("over all assignments" in note for note in found.notes())
    (proof,) = found.proofs()
    assert (proof.data, proof.method, proof.bound) == ("blobs", "cpm", proven.bound)
    assert min(proof.gaps.values()) == pytest.approx(0.0, abs=1e-6)
    assert proof.gaps == {row.solver: relative_gap(row.objective, proven.bound) for row in found.rows[2:]}
    assert proof.run[-1, 1] <= proof.run[0, 1]
    assert (np.diff(proof.run[:, 0]) >= 0).all()
    assert "Gap to the bound" in printed(found, 120)
    axes = gaps({"blobs": proof.run}, {"blobs": {"sgd": (0.0, 0.0), "global": (1.0, 0.5)}}).axes[0]
    drawn = [line.get_label() for line in axes.lines if not line.get_label().startswith("_")]
    assert drawn == ["blobs", "sgd", "global"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    with pytest.raises(ValueError, match="needs a run"):
        gaps({}, {})
