"""The commands: what they print is right, what they refuse they name, what they save comes back."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
import skops.io
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from polyopt import CrossEntropySettings
from polyopt.cli import app
from polyopt.cli.console import sentences_at_once
from polyopt.compare import METHODS, find_method
from polyopt.crosschecks.registry import Crosscheck
from polyopt.datasets import load
from polyopt.margin.rmm import RelativeMarginMachine
from polyopt.methods.programs import find_programs, programs_of
from polyopt.methods.registry import families
from polyopt.models import load_model, save_model
from polyopt.sensitivity import sensitivities
from polyopt.verify import Check


def run(*arguments):
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, [str(argument) for argument in arguments])


def test_warnings_are_said_once_and_deprecations_not(capsys):
    """What a library deprecates in another one is nothing for users; a warning is one sentence."""
    with sentences_at_once():
        for _ in range(2):
            warnings.warn("scale the features", UserWarning, stacklevel=1)
            warnings.warn("oneOf is deprecated", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: scale the features\n"


def blobs(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n // 2)
    return rng.normal(size=(n, 3)) * [1.0, 30.0, 0.1] + 1.5 * y[:, None] * [1.0, 30.0, 0.1], y


def write_csv(path, X, labels=None, names=None):
    lines = [] if names is None else [",".join(names)]
    for i, row in enumerate(X):
        cells = [repr(float(value)) for value in row]
        lines.append(",".join(cells if labels is None else [*cells, str(labels[i])]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def table(tmp_path):
    """A CSV file with a header and labels that are words."""
    X, y = blobs()
    return write_csv(tmp_path / "table.csv", X, np.where(y == 1, "yes", "no"), ["a", "b", "c", "answer"])


@pytest.fixture
def sparse(tmp_path):
    X, y = blobs()
    path = tmp_path / "data.txt"
    dump_svmlight_file(np.where(np.abs(X) > 0.05, X, 0.0), 2 * y - 1, str(path), zero_based=False)
    return path


# -- compare --------------------------------------------------------------------------------------


def test_compare_runs_as_a_program(tmp_path):
    """The real thing: one process, built-in data, a table, a report and a good exit."""
    report = tmp_path / "out.html"
    command = [sys.executable, "-c", "from polyopt.cli import main; main()", "compare", "--data", "sonar"]
    done = subprocess.run(
        [*command, "--methods", "svm", "--report", str(report)],
        capture_output=True, text=True, encoding="utf-8",
        env={**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("sonar: 156 training and 52 test samples, 60 features")
    assert lines[2].split()[:2] == ["svm", "exact"]
    assert lines[3].split()[0] == "interior"
    assert max(map(len, lines)) <= 100
    assert done.stderr.strip() == f"report: {report}", "progress is for terminals"
    assert "<svg" in report.read_text(encoding="utf-8")


def test_compare_gives_csv(table, sparse):
    done = run("compare", "--data", table, "--data", sparse, "--methods", "svm", "--csv", "--seed", 1)
    assert done.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["data"] for row in rows] == ["table.csv"] * 2 + ["data.txt"] * 2
    for row in rows:
        assert float(row["bound"]) <= float(row["objective"]) * (1 + 1e-9)


def test_compare_takes_the_column_of_the_labels(tmp_path):
    X, y = blobs()
    path = write_csv(tmp_path / "t.csv", np.column_stack([y, X]), X[:, 0], ["kind", "a", "b", "c", "d"])
    done = run("compare", "--data", path, "--methods", "svm", "--target", "kind")
    assert done.exit_code == 0
    assert "test samples, 4 features" in done.stdout


# -- show and verify ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", families())
def test_show_a_family_prints_its_mathematics(name):
    text = run("show", name.replace("_", "-")).output
    for heading in ("Problem", "Primal", "Dual", "Multipliers", "Reference"):
        assert f"\n{heading}\n---" in text
    assert "Example" not in text
    assert all(program in text for program in programs_of(name))


def test_show_a_program_prints_it():
    assert run("show", "rmm.qp").output.strip() == str(find_programs("rmm.qp")[0])
    latex = run("show", "sigma-svm.dual", "--format", "latex").output
    assert latex.startswith(r"$$\begin{aligned}")
    assert run("show", "cpm.face", "--format", "markdown").output.startswith("**")
    assert run("show", "svm", "--format", "latex").output.count(r"\begin{aligned}") == len(programs_of("svm"))


def test_show_a_method_prints_its_programs():
    text = run("show", "rmm-rbf").output
    assert text.strip() == "\n\n".join(str(find_programs(p)[0]) for p in METHODS["rmm-rbf"].programs)


def test_show_writes_a_page_that_stands_alone():
    page = run("show", "rmm.qp", "--format", "html").output
    assert page.startswith("<!doctype html>")
    # the objective, four rows with their multipliers, and what B, x, y and C stand for, of sample i in three
    assert page.count("<math") == 1 + 2 * 4 + 4 + 4
    assert not re.search("https?:", page)
    assert run("show", "svm", "--format", "html").output.count("<h2 id=") == len(programs_of("svm"))
    assert "rmm.kernel_dual" in run("show", "rmm-rbf", "--format", "html").output


def without_programs(monkeypatch, *verdicts):
    """Let verify find one program, and each of some cross-checks end as told."""

    def one_check(names):
        return [Check("svm", "svm.dual", "clarabel", 1.0, 0.0, 0.0, "w", "ok")] if "svm" in names else []

    checks = [
        Crosscheck(
            f"T9{i}", "toys", "=", 1e-6, lambda seed, off=verdict != "ok": (3.0, 3.0 + off), "A toy breaks"
        )
        for i, verdict in enumerate(verdicts)
    ]
    monkeypatch.setattr("polyopt.verify.verify", one_check)
    monkeypatch.setattr("polyopt.crosschecks.all_checks", lambda: tuple(checks))


def test_verify_all_tells_by_its_exit_status_whether_every_check_holds(monkeypatch):
    without_programs(monkeypatch, "ok", "ok")
    done = run("verify", "--all")
    assert done.exit_code == 0
    assert "2 of 2 cross-checks hold" in done.output
    without_programs(monkeypatch, "ok", "FAILS")
    done = run("verify", "--all")
    assert done.exit_code == 1
    assert "1 of 2 cross-checks hold" in done.output
    assert "FAILING: T91" in done.output
    row = next(line for line in done.output.splitlines() if line.startswith("T91"))
    assert row.split()[1:] == ["A", "toy", "breaks", "3", "=", "4", "2.5e-01", "≤", "1e-06", "FAILS"]
    assert "cross-checks" not in run("verify").output


# -- duals ----------------------------------------------------------------------------------------


def test_duals_print_the_largest_of_each_letter(table):
    done = run("duals", "--method", "svm", "--data", table, "--top", 2)
    assert done.exit_code == 0
    assert len(re.findall(r"^margin +alpha ", done.output, re.M)) == 2
    assert re.search(r"^\d+ of 60 are above zero; they add up to", done.output, re.M)
    assert "rate at which the cost rises with sample i's margin" in done.output
    assert re.search(r"\.\.\. and \d+ more: --top \d+", done.output)


@pytest.mark.parametrize("method", ["rmm", "rmm-rbf"])
def test_duals_of_bounds_with_slack_are_explained_by_their_own_program(method, table):
    given = ("duals", "--method", method, "--data", table, "--B", 1.2, "--top", 1)
    soft, hard = run(*given, "--set", "bound_cost=0.05"), run(*given)
    assert (soft.exit_code, hard.exit_code) == (0, 0)
    rows = {row.multiplier: row for row in find_programs("soft_rmm.qp")[0].rows}
    for letter in ("lam", "rho", "rho_star"):
        assert f"{letter}   {rows[letter].text}\n" in soft.output
    assert "\nbound_cost " in soft.output
    assert "rho" not in hard.output


def test_duals_of_prices_name_the_feature(table):
    given = ("duals", "--method", "cpm", "--data", table, "--faces", 2, "--set", "penalty.l1=0.5")
    done = run(*given, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    priced = [row for row in rows if row["letter"] in ("r_plus", "r_minus")]
    assert {row["sample"] for row in priced} == {"-1"}
    assert "" not in {row["feature"] for row in priced}
    assert all(row["meaning"] for row in rows)
    shown = run(*given, "--top", 2)
    assert shown.exit_code == 0, shown.output
    assert "part of λ on this side of the weight" in " ".join(shown.stdout.split())


@pytest.mark.parametrize(
    ("name", "solver"),
    [("ce-svm-rbf", "fast"), ("one-norm-svm", "fast"), ("rmm", "exact"), ("plume", "fast"), ("cpm", "exact")],
)
def test_duals_print_meanings_and_the_slopes_of_the_optimum(name, solver, table):
    entry = find_method(name)
    done = run("duals", "--method", name, "--solver", solver, "--data", table, "--top", 1)
    assert done.exit_code == 0, done.output
    X, y = blobs()
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), np.where(y == 1, "yes", "no")
    machine = entry.make(entry.fast if solver == "fast" else solver, entry.settings_for(X, y)).fit(X, y)
    rows = {row.multiplier: row for row in find_programs(entry.duals_of or entry.programs[0])[0].rows}
    letters = set(machine.duals_["letter"])
    for letter in letters:
        assert f"{letter}   {rows[letter].text}\n{rows[letter].meaning}" in done.output
    _, _, below = done.output.partition("How the optimal value p moves")
    assert not any(f"\n{letter}   " in below for letter in letters), "the slopes come last"
    for found in sensitivities(machine).itertuples():
        line = next(line for line in below.splitlines() if line.startswith(f"{found.parameter} "))
        printed = [float(cell) for cell in line.split()[1:5]]
        assert printed == pytest.approx(
            [found.value, found.objective, found.derivative, found.elasticity], rel=1e-4
        )
        assert found.formula in line
        assert ("two sides" in line) == (not found.two_sided)


def test_duals_show_the_largest_of_either_sign(table):
    """PLUME's outside pulls faces down: its multipliers are negative, and count."""
    done = run("duals", "--method", "plume", "--data", table, "--faces", 1, "--csv")
    sizes = np.array([float(row["multiplier"]) for row in csv.DictReader(io.StringIO(done.stdout))])
    assert (sizes < 0).any()
    assert (np.diff(np.abs(sizes)) <= 1e-8).all()
    text = run("duals", "--method", "plume", "--data", table, "--faces", 1, "--top", 1).output
    assert re.search(r"^60 of 60 are not zero", text, re.M)


# -- fit and predict ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_a_saved_model_predicts_bit_for_bit_the_same(name, table, tmp_path, monkeypatch):
    kept = []
    original = find_method(name).estimator_class.fit

    def fit(self, *arguments, **more):
        kept.append(original(self, *arguments, **more))
        return kept[-1]

    monkeypatch.setattr(find_method(name).estimator_class, "fit", fit)
    path = tmp_path / "model.skops"
    few = ("--set", "n_init=2") if name == "polyceptron" else ()  # each start keeps many records
    done = run("fit", table, "--method", name, "--out", path, "--keep-data", *few)
    assert done.exit_code == 0, done.output
    model = load_model(path)
    X, _ = blobs(seed=1)
    scaled = model.scaler.transform(X)
    fitted = kept[-1]
    np.testing.assert_array_equal(model.estimator.decision_function(scaled), fitted.decision_function(scaled))
    np.testing.assert_array_equal(model.predict(X), fitted.predict(scaled))
    assert model.estimator.certificate() == fitted.certificate()
    assert model.estimator.duals_.equals(fitted.duals_)
    assert str(model.estimator.solution_.status) == str(fitted.solution_.status)
    assert (model.feature_names, model.target, model.method) == (["a", "b", "c"], "answer", name)


def test_a_search_is_saved_with_its_model(table, tmp_path):
    """The L0 machine keeps how it was found, in types of its own."""
    path = tmp_path / "model.skops"
    assert run("fit", table, "--method", "ce-svm-rbf", "--out", path, "--keep-data").exit_code == 0
    model = load_model(path)
    assert model.estimator.search_.work.programs > 0
    assert len(model.estimator.search_.runs[0].history) > 0
    done = run("predict", path, table)
    labels = [line for line in done.stdout.splitlines() if line in ("yes", "no")]
    assert labels == model.predict(blobs()[0]).tolist()
    how = CrossEntropySettings(n_samples=20, prior=0.3)
    model.estimator.set_params(search=how)
    save_model(model, path)
    assert load_model(path).estimator.search == how


def test_fit_says_how_good_the_model_is(table):
    done = run("fit", table, "--method", "rmm", "--C", 0.5, "--B", 1.5)
    assert done.exit_code == 0
    assert "C=0.5, kernel=linear, B=1.5" in done.output
    X, y = blobs()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    machine = RelativeMarginMachine(C=0.5, B=1.5, kernel="linear").fit(X, y)
    wrong = int((machine.predict(X) != y).sum())
    assert f"({wrong} of 60 samples)" in done.output
    assert f"{machine.certificate().primal_value:.8g}" in done.output
    assert "optimal within the tolerance" in done.output


def test_fit_without_scaling_keeps_the_features(table, tmp_path):
    path = tmp_path / "m.skops"
    assert run("fit", table, "--method", "svm", "--no-scale", "--out", path).exit_code == 0
    model = load_model(path)
    X, y = blobs()
    assert model.scaler is None
    assert np.mean(model.predict(X) == np.where(y == 1, "yes", "no")) > 0.8


def labels_in(path):
    return path.read_text(encoding="utf-8").split()


@pytest.fixture
def model(table, tmp_path):
    path = tmp_path / "model.skops"
    assert run("fit", table, "--method", "svm", "--out", path).exit_code == 0
    return path


def test_predict_counts_the_errors_where_there_are_labels(model, table, tmp_path):
    X, y = blobs()
    wrong = int((load_model(model).predict(X) != np.where(y == 1, "yes", "no")).sum())
    done = run("predict", model, table, "--out", tmp_path / "l")
    assert f"({wrong} of 60 samples)" in done.output
    bare = write_csv(tmp_path / "bare.csv", X)
    assert "samples)" not in run("predict", model, bare, "--out", tmp_path / "l").output
    other = write_csv(tmp_path / "other.csv", X, ["maybe"] * 60)
    assert "does not know: maybe" in run("predict", model, other, "--out", tmp_path / "l").output


def test_sparse_files_make_models_too(sparse, tmp_path):
    path, out = tmp_path / "m.skops", tmp_path / "l"
    assert run("fit", sparse, "--method", "cpm", "--out", path).exit_code == 0
    assert run("predict", path, sparse, "--out", out).exit_code == 0
    assert set(labels_in(out)) == {"-1", "1"}
    short = tmp_path / "short.txt"
    short.write_text("1 1:0.5\n-1 2:-1\n", encoding="utf-8")  # lacks the third feature
    assert run("predict", path, short, "--out", out).exit_code == 0
    assert len(labels_in(out)) == 2


@pytest.mark.parametrize("sides", [(), ("--set", "inside_label=both")])
def test_the_rules_of_a_polytope_are_the_model_in_the_units_of_the_file(table, tmp_path, sides):
    path = tmp_path / "m.skops"
    assert run("fit", table, "--method", "cpm", "--faces", 2, *sides, "--out", path).exit_code == 0
    done = run("rules", path, "--digits", 6)
    assert done.exit_code == 0, done.output
    n_polytopes = 2 if sides else 1
    assert done.output.count("Inside, class 'no'") + done.output.count("Inside, class 'yes'") == n_polytopes
    machine = load_model(path)
    X = blobs()[0]
    parts = getattr(machine.estimator, "sides_", [machine.estimator])
    polytopes = json.loads(run("rules", path, "--format", "json").stdout)["polytopes"]
    for part, polytope in zip(parts, polytopes, strict=True):
        faces = [
            {term["feature"]: term["coefficient"] for term in face["terms"]} for face in polytope["faces"]
        ]
        W = np.array([[terms.get(name, 0.0) for name in "abc"] for terms in faces])
        scores = X @ W.T - np.array([face["limit"] for face in polytope["faces"]])
        assert scores == pytest.approx(part.face_scores(machine.scaler.transform(X)), rel=1e-6, abs=1e-8)


def test_bad_settings_of_a_polytope_are_named(table):
    fit = ("fit", table, "--method")
    refused(run(*fit, "cpm", "--set", "sgd.perplexity=7"), r"perplexity must be from 1 to n_faces=3, not 7")
    refused(run(*fit, "rmm", "--faces", 2), r"--faces is not a setting of rmm; it is one of cpm")


def test_rules_are_of_polytopes(model):
    refused(run("rules", model), "is a model of svm; rules are of a polytope")
    refused(run("rules", "nowhere.skops"), "no model file")


def test_a_model_of_a_table_reads_sparse_files(model, sparse, tmp_path):
    done = run("predict", model, sparse, "--out", tmp_path / "l")
    assert done.exit_code == 0, done.output
    X = np.where(np.abs(blobs()[0]) > 0.05, blobs()[0], 0.0)
    assert labels_in(tmp_path / "l") == load_model(model).predict(X).tolist()


class Trap:
    """An object whose unpickling leaves a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def test_unsafe_files_are_refused_unopened(tmp_path, table):
    mark = tmp_path / "mark"
    pickled = tmp_path / "model.joblib"
    pickled.write_bytes(pickle.dumps(Trap(mark)))
    done = run("predict", pickled, table)
    assert done.exit_code == 2
    assert "Pickles (joblib) are refused" in done.output
    assert not mark.exists()

    foreign = tmp_path / "foreign.skops"
    skops.io.dump({"format": "polyopt model, version 1", "estimator": Trap(mark)}, foreign)
    done = run("predict", foreign, table)
    assert done.exit_code == 2
    assert "Trap" in done.output or "open" in done.output
    assert "refused" in done.output
    assert not mark.exists()


def test_files_of_other_programs_are_no_models(tmp_path, table):
    other = tmp_path / "other.skops"
    skops.io.dump(LogisticRegression(), other)
    done = run("predict", other, table)
    assert done.exit_code == 2
    assert "is not a model saved by 'polyopt fit'" in done.output


# -- bad input: one sentence, exit status 2 ---------------------------------------------------------

ROW, OTHER = "1.0,2.0,yes", "2.0,1.0,no"
BROKEN_FILES = {
    "nan": (f"{ROW}\nnan,1.0,no\n", r"line 2: .*'nan' is not finite"),
    "inf": (f"{ROW}\n{OTHER}\n1.0,inf,no\n", r"line 3: .*'inf' is not finite"),
    "word": (f"{ROW}\n1.0,oops,no\n", r"line 2: .*'oops' is not a number"),
    "lengths": (f"{ROW}\n{OTHER}\n1.0,no\n", r"line 3: has 2 cells where 3 are expected"),
    "no label": (f"{ROW}\n1.0,2.0,\n", r"line 2: the label .* is missing"),
    "empty": ("", r"is empty"),
    "header alone": ("a,b,label\n", r"holds a header and no rows"),
    "one class": (f"{ROW}\n{ROW}\n{ROW}\n", r"one class, \['yes'\]"),
}
COMMANDS = {
    "compare": lambda path: ("compare", "--data", path),
    "duals": lambda path: ("duals", "--method", "svm", "--data", path),
    "fit": lambda path: ("fit", path, "--method", "svm"),
}


def refused(done, message):
    assert done.exit_code == 2, done.output
    assert re.search(message, done.output), done.output
    assert "Traceback" not in done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.parametrize("kind", BROKEN_FILES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_broken_file_is_named_with_its_line(command, kind, tmp_path):
    content, message = BROKEN_FILES[kind]
    path = tmp_path / "broken.csv"
    path.write_text(content, encoding="utf-8")
    refused(run(*COMMANDS[command](path)), rf"broken\.csv.*{message}")


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_data_lists_what_is_known(command):
    refused(
        run(*COMMANDS[command]("ionosfear")),
        r"'ionosfear' is neither a file nor a known data set.*ionosphere",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--C", "0"), r"C must be positive and finite, not 0\.0"),
        (("--C", "-1"), r"C must be positive and finite, not -1\.0"),
        (("--C", "nan"), r"C must be positive and finite, not nan"),
        (("--B", "0.5"), r"B must be at least 1, not 0\.5"),
        (("--method", "sigma-svm", "--D", "1.5"), r"D must lie in \[0, 1\], not 1\.5"),
        (("--method", "sigma-svm", "--D", "-0.1"), r"D must lie in \[0, 1\], not -0\.1"),
        (("--method", "cpm", "--faces", "0"), r"n_faces must be an integer of at least 1, not 0"),
        (("--method", "svm", "--B", "2"), r"--B is not a setting of svm; it is one of rmm"),
        (("--method", "cpm", "--kernel", "rbf"), r"--kernel is not a setting of cpm"),
        (("--method", "rmm", "--faces", "2"), r"--faces is not a setting of rmm; it is one of cpm"),
        (
            ("--kernel", "precomputed"),
            r"'--kernel': .*'precomputed' is not one of 'linear', 'rbf', 'poly', 'sigmoid'",
        ),
        (("--method", "rmm-rbf", "--gamma", "wide"), r"--gamma must be scale, auto or a number, not 'wide'"),
        (("--method", "rmm-rbf", "--gamma", "-1"), r"'gamma' parameter.*-1"),
        (("--time-limit", "-1"), r"time_limit must be seconds, at least 0, or None, not -1\.0"),
        (("--method", "tree"), r"method 'tree' is not known.*Known: svm"),
        (("--target", "nobody"), r"target='nobody' is not a column of .*table\.csv"),
        (("--target", "9"), r"target=9 is not a column of .*table\.csv"),
        (("--solver", "magic"), r"magic"),
        (("--seed", "-1"), r"'--seed'.*0"),
    ],
)
@pytest.mark.parametrize("command", ["duals", "fit"])
def test_bad_settings_are_named(command, options, message, table):
    start = ("fit", table) if command == "fit" else ("duals", "--data", table)
    refused(run(*start, *options), message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--methods", "svm,tree"), r"method 'tree' is not known.*Known: svm"),
        (("--methods", ""), r"method '' is not known"),
        (
            ("--global", "--methods", "svm,rmm"),
            r"--global is for .*cpm, polyceptron; of svm, rmm the exact solution is",
        ),
        (("--report", "/no/such/folder/out.html"), r"--report: the folder .*folder does not exist"),
        (("--time-limit", "-1"), r"time_limit must be seconds, at least 0, or None, not -1"),
        (("--seed", "-1"), r"'--seed'.*0"),
        (("--data", "sonar", "--data", "no.csv"), r"'no\.csv' is neither a file nor a known data set"),
    ],
)
def test_compare_refuses_bad_options(options, message):
    refused(run("compare", *options), message)


def test_target_is_for_tables(sparse):
    refused(
        run("fit", sparse, "--target", "a"), r"--target is for CSV files; .*data\.txt is an svmlight file"
    )


@pytest.mark.parametrize(
    ("name", "message"), [("rm", "Did you mean 'rmm'"), ("rmm.qq", "the family has rmm")]
)
def test_show_refuses_unknown_names(name, message):
    refused(run("show", name), message)


def test_multipliers_that_a_solver_has_not_are_not_shown(table):
    refused(run("duals", "--method", "cpm", "--solver", "fast", "--data", table), "take --solver exact")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b,answer\n1.0,2.0,yes\n", r"new\.csv lacks the column 'c'.*a, b, c"),
        ("a,b,c,d\n1.0,2.0,3.0,4.0\n", r"new\.csv has a column 'd'"),
        ("1.0,2.0\n", r"new\.csv has 2 columns; the model has 3 features"),
        ("1.0,2.0,3.0\n1.0,2.0\n", r"new\.csv, line 2: has 2 cells where 3"),
        ("1.0,2.0,3.0\n1.0,2.0,oops\n", r"new\.csv, line 2: .*'oops' is not a number"),
        ("a,b,c\n1.0,2.0,3.0\n1.0,nan,3.0\n", r"new\.csv, line 3: .*'nan' is not finite"),
        ("", r"new\.csv.*empty"),
    ],
)
def test_predict_refuses_what_does_not_fit_the_model(content, message, model, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text(content, encoding="utf-8")
    refused(run("predict", model, path), message)


def test_predict_refuses_missing_files_and_folders(model, table, tmp_path):
    refused(run("predict", tmp_path / "none.skops", table), r"there is no model file '.*none\.skops'")
    refused(
        run("predict", model, tmp_path / "none.csv"), r"none\.csv' is neither a file nor a known data set"
    )
    refused(
        run("predict", model, table, "--out", tmp_path / "no" / "l"), r"--out: the folder .*no does not exist"
    )
    refused(run("predict", model, "sonar"), r"sonar has 60 features; the model has 3")
    refused(run("fit", table, "--out", tmp_path / "no" / "m"), r"--out: the folder .*no does not exist")


# -- manners --------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["fit", "duals"])
def test_the_help_names_every_method(command):
    text = re.sub(r"(?<=\w)- ", "-", " ".join(run(command, "--help").output.replace("│", " ").split()))
    for name in METHODS:
        assert re.search(rf"\b{name.removesuffix('-rbf')}\b", text), name


def test_the_version_is_printed():
    import polyopt

    assert run("--version").output.strip() == f"polyopt {polyopt.__version__}"


def test_built_in_data_are_found_by_name_before_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sonar").mkdir()
    done = run("fit", "sonar", "--method", "svm")
    assert f"of {len(load('sonar').y)} samples" in done.output


def test_fit_with_numbers_searches_logistic_polytopes(table, tmp_path):
    found = run(
        "fit", table, "--numbers", 6, "--faces", 2, "--out", tmp_path / "model.skops", "--set", "n_init=1"
    )
    assert found.exit_code == 0, found.output
    machine = load_model(tmp_path / "model.skops").estimator
    assert type(machine).__name__ == "LogisticPolytopes"
    assert machine.n_numbers_ <= 6
    assert "max_numbers=" in found.output
    refused = run("fit", table, "--numbers", 6, "--method", "svm")
    assert refused.exit_code != 0
    assert "--numbers is of --method logistic" in refused.output
