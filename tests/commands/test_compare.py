"""The comparison: its numbers are the certificates', and its two solutions are of one program."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

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

CONVEX = [name for name, method in METHODS.items() if method.counts != "faces" and not method.is_integer]
INTEGER = [name for name, method in METHODS.items() if method.is_integer]


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


def test_the_numbers_are_the_certificates(comparison):
    data = comparison.datasets[0]
    for row in comparison.rows:
        certificate = row.estimator.certificate()
        assert row.objective == certificate.primal_value
        assert row.bound == certificate.dual_value
        assert row.gap == certificate.gap
        assert row.claim == certificate.claim.name.lower()
        assert row.residual == max(r.relative for r in certificate.residuals)
        if row.residual:
            assert row.residual_at == certificate.worst.label
        wrong = np.mean(row.estimator.predict(data.X_test) != data.y_test)
        assert row.test_error == pytest.approx(wrong, abs=1e-12)


def test_the_bound_is_below_the_objective(comparison):
    for row in comparison.rows:
        assert row.bound <= row.objective * (1 + 1e-9)


@pytest.mark.parametrize("name", CONVEX)
def test_exact_and_fast_agree_within_the_gap_of_the_fast_one(comparison, name):
    exact, fast = pairs_of(comparison)[name]
    assert exact.claim == "optimal"
    assert fast.claim in ("optimal", "suboptimal_by")
    assert fast.bound - 1e-8 <= exact.objective <= fast.objective + 1e-8
    assert fast.relative_gap < 1e-2


@pytest.mark.parametrize("name", INTEGER)
def test_the_integer_optimum_lies_between_the_fast_bound_and_the_fast_score(comparison, name):
    exact, fast = pairs_of(comparison)[name]
    assert exact.claim == "optimal"
    assert fast.claim in ("optimal", "suboptimal_by")
    if fast.claim == "optimal":  # which a tree's root may prove at once
        assert fast.objective <= exact.objective * (1 + 1e-6)
    assert fast.bound - 1e-6 <= exact.objective <= fast.objective + 1e-8
    assert fast.objective <= 1.02 * exact.objective


def test_exact_and_fast_regressions_end_at_the_same_fixed_point(comparison):
    exact, fast = pairs_of(comparison)["spla1"]
    assert exact.claim == fast.claim == "stationary"
    assert fast.objective == pytest.approx(exact.objective, rel=1e-6)


@pytest.mark.parametrize("name", ["polyceptron", "pc-slp", "plume"])
def test_a_method_that_ends_elsewhere_has_its_proof_there(comparison, name):
    exact, fast = pairs_of(comparison)[name]
    assert exact.claim in ("stationary", "optimal")
    assert exact.relative_gap <= 1e-6
    assert fast.bound <= fast.objective
    if name != "polyceptron":  # whose fast solver has no program
        assert fast.claim in ("stationary", "optimal")


def test_a_polytope_is_never_called_optimal(comparison):
    exact, fast = pairs_of(comparison)["cpm"]
    assert exact.claim == "stationary"
    assert fast.claim in ("stationary", "suboptimal_by")
    assert any("not convex" in note for note in comparison.notes())
    assert 1 <= exact.complexity <= 3
    assert exact.counts == "faces"


def test_methods_of_one_program_count_the_same_support_vectors(comparison):
    exact, fast = pairs_of(comparison)["svm"]
    y, f = comparison.datasets[0].y_train, exact.estimator.decision_function(comparison.datasets[0].X_train)
    inside = int(np.sum(np.where(y == 1, f, -f) < 1 + 1e-6))
    assert exact.complexity == inside
    assert abs(fast.complexity - inside) <= 2


def test_features_are_scaled_on_the_training_part_alone(comparison):
    data, raw = comparison.datasets[0], blobs()
    X_train, X_test, _, y_test = raw.split(0.25, random_state=0)
    mean, scale = X_train.mean(axis=0), X_train.std(axis=0)
    np.testing.assert_allclose(data.X_train, (X_train - mean) / scale, atol=1e-12)
    np.testing.assert_allclose(data.X_test, (X_test - mean) / scale, atol=1e-12)
    np.testing.assert_array_equal(data.y_test, y_test)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_bound_of_the_rmm_is_half_way_to_the_svm(comparison, kernel):
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


def test_a_setting_that_is_given_is_not_chosen_again(comparison):
    data = comparison.datasets[0]
    assert METHODS["rmm"].settings_for(data.X_train, data.y_train, B=1.25)["B"] == 1.25


def test_the_narrower_class_is_inside():
    X = np.array([[0.0], [0.1], [-5.0], [5.0]])
    assert narrower_class(X, np.array(["in", "in", "out", "out"]), {}) == "in"
    assert narrower_class(X, np.array(["b", "b", "a", "a"]), {}) == "b"
    assert narrower_class(X, np.array([0, 1, 2, 2]), {}) is None


def test_the_same_seed_gives_the_same_rows():
    def numbers(seed):
        frame = compare(blobs(40), ["svm", "cpm"], settings={"n_init": 2}, seed=seed).to_frame()
        return frame.drop(columns="seconds")

    found = numbers(3)
    pd.testing.assert_frame_equal(found, numbers(3))
    assert not found.equals(numbers(4))


def test_csv_comes_back_as_it_went(comparison):
    records = list(csv.DictReader(io.StringIO(comparison.to_frame().to_csv(index=False))))
    for record, row in zip(records, comparison.rows, strict=True):
        values = {field.name: getattr(row, field.name) for field in fields(row) if field.name != "estimator"}
        assert list(record) == list(values)
        assert all(type(value)(record[name]) == value for name, value in values.items())


def test_ctrl_c_keeps_what_is_done(monkeypatch):
    machine = find_method("rmm").estimator_class
    fit = machine.fit

    def stopped(self, X, y):
        if len(y) == 60:  # not the few samples by which modules are imported
            raise KeyboardInterrupt
        return fit(self, X, y)

    monkeypatch.setattr(machine, "fit", stopped)
    found = compare(blobs(), ["svm", "rmm"])
    assert found.interrupted
    assert [(row.method, row.solver) for row in found.rows] == [("svm", "exact"), ("svm", "interior-point")]
    assert any("interrupted" in note for note in found.notes())
    assert "svm" in printed(found, 80)


def test_ctrl_c_before_the_first_row_says_that_there_is_none(monkeypatch):
    def stopped(self, X, y):
        raise KeyboardInterrupt

    monkeypatch.setattr(find_method("svm").estimator_class, "fit", stopped)
    found = compare(blobs(), ["svm"])
    assert found.rows == ()
    assert "No fit was finished." in printed(found, 80)


def printed(comparison, width):
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(comparison)
    return capture.get()


@pytest.mark.parametrize(("width", "seconds"), [(80, 4321.0), (100, 0.004), (160, 99.96)])
def test_the_table_fits_and_shows_every_number(comparison, width, seconds):
    """A table of 80 columns has room for every number, however long the runs took."""
    rows = [replace(row, seconds=seconds) for row in comparison.rows]
    comparison = replace(comparison, rows=rows)
    text = printed(comparison, width)
    assert max(map(len, text.splitlines())) <= width
    for row in comparison.rows:
        digits = 7 if width < 112 else 8
        solver = row.solver.partition("-")[0][:6] if width < 112 else row.solver
        assert number(row.objective, digits) in text
        assert number(row.bound, digits) in text
        line = next(
            line
            for line in text.splitlines()
            if f" {solver}" in line and number(row.objective, digits) in line
        )
        assert f"{row.relative_gap:.{0 if width < 112 else 1}e}" in line
        assert f"{100 * row.test_error:.1f}" in line
        assert str(row.complexity) in line.split()
        badge = CLAIMS[row.claim]
        assert (badge.word if width >= 112 else badge.mark) in line
        assert line.rstrip().endswith(duration(row.seconds))
        assert float(duration(row.seconds)) == pytest.approx(row.seconds, rel=5e-3, abs=5e-3)


def test_narrow_tables_explain_their_marks(comparison):
    text = printed(comparison, 80)
    for claim in {row.claim for row in comparison.rows}:
        assert f"{CLAIMS[claim].mark} {CLAIMS[claim].meaning}" in text


@pytest.mark.parametrize("name", ["svm", "rmm-rbf"])
def test_a_trace_closes_in_on_the_optimum(comparison, name):
    exact, fast = pairs_of(comparison)[name]
    found = trace(fast.estimator)
    assert len(found) >= 3
    assert found["objective"].iloc[0] > exact.objective + 1e-3
    assert found["iteration"].is_monotonic_increasing
    assert (found["objective"] >= exact.objective - 1e-8).all()
    assert (found["bound"] <= exact.objective + 1e-8).all()
    assert found["objective"].iloc[-1] == pytest.approx(fast.objective, rel=1e-9)


def test_the_trace_of_the_polytope_is_its_history(comparison):
    fast = pairs_of(comparison)["cpm"][1]
    found = trace(fast.estimator)
    measured = fast.estimator.history_["objective"].dropna()
    np.testing.assert_array_equal(found["objective"], measured)
    assert found["objective"].min() == pytest.approx(fast.objective, rel=1e-9)


# -- bad input ---------------------------------------------------------------------------------


def with_value(value):
    data = blobs()
    data.X[3, 1] = value
    return data


def labelled(y):
    return Dataset("odd", np.arange(2.0 * len(y)).reshape(-1, 2), np.asarray(y), target_names=("0",))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": with_value(np.nan)}, r"blobs.*NaN.*row 3, column 1"),
        ({"data": with_value(np.inf)}, r"blobs.*infinite.*row 3, column 1"),
        ({"data": labelled([0, 0, 0])}, r"one class, \[0\]"),
        ({"data": labelled([0, 0, 0, 1])}, r"class 1 has one sample"),
        ({"data": "nope"}, r"nope.*Known: ionosphere"),
        ({"data": "ionospher"}, r"Did you mean 'ionosphere'"),
        ({"methods": ["svmm"]}, r"'svmm'.*Did you mean 'svm'"),
        ({"methods": ["svm", "nonsense"]}, r"'nonsense' is not known.*Known: svm"),
        ({"time_limit": -1.0}, r"time_limit must be seconds, at least 0, or None, not -1"),
        ({"time_limit": float("nan")}, r"time_limit must be .* not nan"),
    ],
)
def test_bad_input_is_refused_before_any_fit(arguments, message, monkeypatch):
    monkeypatch.setattr(SVM, "fit", lambda *_: pytest.fail("fitted"))
    with pytest.raises(ValueError, match=message):
        compare(**{"data": blobs(), **arguments})


# -- settings ------------------------------------------------------------------------------------


def test_settings_given_are_noted(comparison):
    assert "Settings given: n_init=1 (" in " ".join(comparison.notes())


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
def test_bad_settings_are_refused_before_any_fit(settings, message, monkeypatch):
    monkeypatch.setattr(SVM, "fit", lambda *_: pytest.fail("fitted"))
    with pytest.raises(ValueError, match=message):
        compare(blobs(), ["svm", "rmm"], settings=settings)


def test_a_kernel_chooses_the_entry_that_it_is_of():
    assert for_kernel(find_method("svm"), "poly") is find_method("svm-rbf")
    assert for_kernel(find_method("svm-rbf"), "linear") is find_method("svm")
    assert for_kernel(find_method("rmm-rbf"), "sigmoid") is find_method("rmm-rbf")
    assert for_kernel(find_method("cpm"), "rbf") is find_method("cpm")
    assert find_method("svm-rbf").title_for({"kernel": "poly"}).endswith(", poly kernel")
    assert find_method("svm-rbf").title_for({"kernel": "rbf"}) == find_method("svm-rbf").title
    assert list(chosen_methods(["svm", "svm-rbf"], {"kernel": "rbf"})) == ["svm-rbf"]


def test_a_published_test_part_is_used_and_noted():
    data = blobs()
    held = replace(data, name="held", X_test=data.X[::3], y_test=data.y[::3])
    found = compare([data, held], ["svm"])
    assert len(found.datasets[1].y_test) == len(held.y_test)
    assert "a stratified quarter (seed 0), of held the publisher's" in " ".join(found.notes())


# -- the registry --------------------------------------------------------------------------------


def test_names_are_found_with_either_hyphen():
    assert find_method("sigma_svm_rbf") is METHODS["sigma-svm-rbf"]
    assert set(DEFAULT_METHODS) <= set(METHODS)


@pytest.mark.parametrize(
    ("name", "message"),
    [("rm", "Did you mean 'rmm'"), ("zzz", "Families: svm"), ("rmm.nonsense", "the family has rmm.qcqp")],
)
def test_an_unknown_program_is_named(name, message):
    with pytest.raises(ValueError, match=message):
        find_programs(name)


def test_the_optimum_over_all_assignments_is_proven_beside_the_others():
    found = compare(blobs(40), ["svm", "cpm"], prove=True)
    rows = {(row.method, row.solver): row for row in found.rows}
    assert list(rows) == [
        ("svm", "exact"), ("svm", "interior-point"), ("cpm", "exact"), ("cpm", "sgd"), ("cpm", "dual"),
        ("cpm", "global"),
    ]  # fmt: skip
    proven = rows["cpm", "global"]
    assert proven.relative_gap < 1e-6
    for solver in ("exact", "sgd", "dual"):
        assert proven.bound <= rows["cpm", solver].objective * (1 + 1e-9)
        assert rows["cpm", solver].claim != "optimal"
    assert any("over all assignments" in note for note in found.notes())
    (proof,) = found.proofs()
    assert (proof.data, proof.method, proof.bound) == ("blobs", "cpm", proven.bound)
    assert set(proof.gaps) == {"exact", "sgd", "dual", "global"}
    assert min(proof.gaps.values()) == pytest.approx(0.0, abs=1e-6)
    assert all(proof.gaps[row.solver] == relative_gap(row.objective, proven.bound) for row in found.rows[2:])
    assert proof.run[-1, 1] <= proof.run[0, 1]
    assert (np.diff(proof.run[:, 0]) >= 0).all()
    axes = gaps({"blobs": proof.run}, {"blobs": {"sgd": (0.0, 0.0), "global": (1.0, 0.5)}}).axes[0]
    assert [line.get_label() for line in axes.lines if not line.get_label().startswith("_")] == [
        "blobs", "sgd", "global",
    ]  # fmt: skip
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert "Gap to the bound" in printed(found, 120)
    with pytest.raises(ValueError, match="needs a run"):
        gaps({}, {})
