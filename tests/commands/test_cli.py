"""The commands: what they print is right, what they refuse they name, what they save comes back."""

import csv
import io
import json
import os
import pickle
import re
import subprocess
import sys
import warnings
from contextlib import chdir

import numpy as np
import pytest
import skops.io
from helpers import odd_methods
from helpers.commands import refused, registry, run, worked, write
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression

import polyopt
from polyopt.cli.console import sentences_at_once
from polyopt.compare import METHODS, find_method
from polyopt.datasets import load
from polyopt.methods.programs import find_programs, programs_of
from polyopt.methods.registry import BUILT_IN, families
from polyopt.models import load_model
from polyopt.sensitivity import sensitivities


def blobs(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n // 2)
    return rng.normal(size=(n, 3)) * [1.0, 30.0, 0.1] + 1.5 * y[:, None] * [1.0, 30.0, 0.1], y


X, Y = blobs()
WORDS = np.where(Y == 1, "yes", "no")
SCALED = (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.fixture
def table(tmp_path):
    """A CSV file with a header and labels that are words."""
    rows = [[*map(float, x), word] for x, word in zip(X, WORDS, strict=True)]
    return write(tmp_path / "table.csv", ["a", "b", "c", "answer"], *rows)


@pytest.fixture
def sparse(tmp_path):
    path = tmp_path / "data.txt"
    dump_svmlight_file(np.where(np.abs(X) > 0.05, X, 0.0), 2 * Y - 1, str(path), zero_based=False)
    return path


@pytest.fixture
def model(table, tmp_path):
    path = tmp_path / "model.skops"
    worked("fit", table, "--method", "svm", "--out", path)
    return path


def records(*arguments):
    """The rows that a command prints as CSV."""
    return list(csv.DictReader(io.StringIO(run(*arguments, "--csv").stdout)))


def test_warning_is_said_once(capsys):
    """A warning is one sentence; what a library deprecates in another one is nothing for users."""
    with sentences_at_once():
        for _ in range(2):
            warnings.warn("scale the features", UserWarning, stacklevel=1)
            warnings.warn("oneOf is deprecated", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: scale the features\n"


def test_compare_runs_as_program(tmp_path):
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
    assert [lines[2].split()[1], lines[3].split()[0]] == ["exact", "interior"]
    assert max(map(len, lines)) <= 100
    assert done.stderr.strip() == f"report: {report}", "progress is for terminals"
    assert "<svg" in report.read_text(encoding="utf-8")


def test_compare_gives_csv(table, sparse):
    """A row for each data set and solver, whose bound is below its objective."""
    rows = records("compare", "--data", table, "--data", sparse, "--methods", "svm", "--seed", 1)
    assert [row["data"] for row in rows] == ["table.csv"] * 2 + ["data.txt"] * 2
    for row in rows:
        assert float(row["bound"]) <= float(row["objective"]) * (1 + 1e-9)


def test_target_is_column_of_labels(tmp_path):
    """The column that --target names is not a feature."""
    rows = [[label, *map(float, x), x[0]] for label, x in zip(Y, X, strict=True)]
    path = write(tmp_path / "t.csv", ["kind", "a", "b", "c", "d"], *rows)
    done = worked("compare", "--data", path, "--methods", "svm", "--target", "kind")
    assert "test samples, 4 features" in done


@pytest.mark.parametrize("name", families())
def test_show_prints_mathematics_of_family(name):
    """A family is shown with its programs, its multipliers and its source."""
    text = run("show", name.replace("_", "-")).output
    for heading in ("Problem", "Primal", "Dual", "Multipliers", "Reference"):
        assert f"\n{heading}\n---" in text
    assert "Example" not in text
    assert all(program in text for program in programs_of(name))


def test_show_prints_formats():
    """A program is shown as text, LaTeX and Markdown, and a family as all of its programs."""
    assert run("show", "rmm.qp").output.strip() == str(find_programs("rmm.qp")[0])
    assert run("show", "sigma-svm.dual", "--format", "latex").output.startswith(r"$$\begin{aligned}")
    assert run("show", "cpm.face", "--format", "markdown").output.startswith("**")
    assert run("show", "svm", "--format", "latex").output.count(r"\begin{aligned}") == len(programs_of("svm"))


def test_show_writes_page_that_stands_alone():
    """The page of a program has each formula as MathML and loads nothing."""
    page = run("show", "rmm.qp", "--format", "html").output
    assert page.startswith("<!doctype html>")
    # the objective, four rows with their multipliers, and what B, x, y and C stand for, of sample i in three
    assert page.count("<math") == 1 + 2 * 4 + 4 + 4
    assert not re.search("https?:", page)
    assert run("show", "svm", "--format", "html").output.count("<h2 id=") == len(programs_of("svm"))


def test_verify_all_fails_with_crosscheck():
    """A cross-check that fails gives exit status 1, and its row has both numbers."""
    entry = odd_methods.method(odd_methods.Interrupted, crosschecks=(odd_methods.__name__,))
    with registry(entry, alone=True):
        done, programs_alone = run("verify", "--all"), run("verify")
    assert (done.exit_code, programs_alone.exit_code) == (1, 0)
    assert "1 of 2 cross-checks hold" in done.output
    assert "FAILING: T91" in done.output
    row = next(line for line in done.output.splitlines() if line.startswith("T91"))
    assert row.split()[1:] == ["A", "toy", "breaks", "3", "=", "4", "2.5e-01", "≤", "1e-06", "FAILS"]
    assert "programs proven" in done.output
    assert "cross-checks" not in programs_alone.output


@pytest.mark.parametrize("method", ["rmm", "rmm-rbf"])
def test_duals_of_slack_have_own_program(method, table):
    """With slack on the bounds the multipliers are explained by the program with that slack."""
    given = ("duals", "--method", method, "--data", table, "--B", 1.2, "--top", 1)
    soft, hard = worked(*given, "--set", "bound_cost=0.05"), worked(*given)
    rows = {row.multiplier: row for row in find_programs("soft_rmm.qp")[0].rows}
    for letter in ("lam", "rho", "rho_star"):
        assert f"{letter}   {rows[letter].text}\n" in soft
    assert "\nbound_cost " in soft
    assert "rho" not in hard


def test_duals_of_prices_name_features(table):
    """The multiplier of a weight's penalty belongs to a feature and to no sample."""
    given = ("duals", "--method", "cpm", "--data", table, "--faces", 2, "--set", "penalty.l1=0.5")
    given = (*given, "--set", "n_init=1")
    rows = records(*given)
    priced = [row for row in rows if row["letter"] in ("r_plus", "r_minus")]
    assert {row["sample"] for row in priced} == {"-1"}
    assert "" not in {row["feature"] for row in priced}
    assert all(row["meaning"] for row in rows)
    shown = " ".join(worked(*given, "--top", 2).split())
    assert "part of λ on this side of the weight" in shown


@pytest.mark.parametrize(
    ("name", "solver"),
    [("ce-svm-rbf", "fast"), ("one-norm-svm", "fast"), ("rmm", "exact"), ("plume", "fast"), ("cpm", "exact")],
)
def test_duals_print_meanings_and_slopes(name, solver, table):
    """Each letter has its row and meaning, and the slopes of the optimum are those of the estimator."""
    entry = find_method(name)
    text = worked("duals", "--method", name, "--solver", solver, "--data", table, "--top", 1)
    settings = entry.settings_for(SCALED, WORDS)
    machine = entry.make(entry.fast if solver == "fast" else solver, settings).fit(SCALED, WORDS)
    rows = {row.multiplier: row for row in find_programs(entry.duals_of or entry.programs[0])[0].rows}
    letters = set(machine.duals_["letter"])
    for letter in letters:
        assert f"{letter}   {rows[letter].text}\n{rows[letter].meaning}" in text
    _, _, below = text.partition("How the optimal value p moves")
    assert not any(f"\n{letter}   " in below for letter in letters), "the slopes come last"
    for found in sensitivities(machine).itertuples():
        line = next(line for line in below.splitlines() if line.startswith(f"{found.parameter} "))
        told = [found.value, found.objective, found.derivative, found.elasticity]
        assert [float(cell) for cell in line.split()[1:5]] == pytest.approx(told, rel=1e-4)
        assert found.formula in line
        assert ("two sides" in line) == (not found.two_sided)


def test_duals_are_sorted_by_size(table):
    """PLUME's outside pulls faces down: its negative multipliers are sorted by their size and counted."""
    given = ("duals", "--method", "plume", "--data", table, "--faces", 1)
    sizes = np.array([float(row["multiplier"]) for row in records(*given)])
    assert (sizes < 0).any()
    assert (np.diff(np.abs(sizes)) <= 1e-8).all()
    assert re.search(r"^60 of 60 are not zero", worked(*given, "--top", 1), re.M)


@pytest.mark.parametrize("name", BUILT_IN)
def test_saved_model_is_method_fitted(name, table, tmp_path):
    """The model of each method predicts, bit for bit, as the estimator with its printed settings."""
    path, entry = tmp_path / "model.skops", find_method(name)
    few = {"n_init": 2} if "n_init" in entry.parameters else {}
    worked("fit", table, "--method", name, "--out", path, *(f"--set={key}={few[key]}" for key in few))
    model, (other, _) = load_model(path), blobs(seed=1)
    scaled, mine = model.scaler.transform(other), model.scaler.transform(X)
    machine = entry.make("auto", entry.settings_for(mine, WORDS, **few)).fit(mine, WORDS)
    np.testing.assert_array_equal(
        model.estimator.decision_function(scaled), machine.decision_function(scaled)
    )
    np.testing.assert_array_equal(model.predict(other), machine.predict(scaled))
    assert (model.feature_names, model.target, model.method) == (["a", "b", "c"], "answer", name)


def test_fit_without_scaling_keeps_features(table, tmp_path):
    """With --no-scale the model is of the features as they are."""
    worked("fit", table, "--method", "svm", "--no-scale", "--out", tmp_path / "m.skops")
    model = load_model(tmp_path / "m.skops")
    assert model.scaler is None
    assert np.mean(model.predict(X) == WORDS) > 0.8


def test_predict_counts_errors(model, table, tmp_path):
    """Errors are counted if the file has labels; labels that the model does not know are told."""
    wrong = int((load_model(model).predict(X) != WORDS).sum())
    predict, out = ("predict", model), ("--out", tmp_path / "l")
    assert f"({wrong} of 60 samples)" in worked(*predict, table, *out)
    bare = write(tmp_path / "bare.csv", *X.tolist())
    assert "samples)" not in worked(*predict, bare, *out)
    other = write(tmp_path / "other.csv", *([*x, "maybe"] for x in X.tolist()))
    assert "does not know: maybe" in worked(*predict, other, *out)


def test_sparse_files_make_models(sparse, tmp_path):
    """A model of an svmlight file predicts files of that form, which may lack its last features."""
    path, out = tmp_path / "m.skops", tmp_path / "l"
    worked("fit", sparse, "--method", "cpm", "--set", "n_init=1", "--out", path)
    worked("predict", path, sparse, "--out", out)
    assert set(out.read_text().split()) == {"-1", "1"}
    short = tmp_path / "short.txt"
    short.write_text("1 1:0.5\n-1 2:-1\n", encoding="utf-8")
    worked("predict", path, short, "--out", out)
    assert len(out.read_text().split()) == 2


def test_model_of_table_reads_sparse_files(model, sparse, tmp_path):
    """A model of a table predicts an svmlight file of its features."""
    worked("predict", model, sparse, "--out", tmp_path / "l")
    zeros = np.where(np.abs(X) > 0.05, X, 0.0)
    assert (tmp_path / "l").read_text().split() == load_model(model).predict(zeros).tolist()


@pytest.mark.parametrize("sides", [(), ("--set", "inside_label=both")], ids=["one side", "both sides"])
def test_rules_are_faces_in_file_units(table, tmp_path, sides):
    """The rules of a polytope have the scores of its faces, in the units of the file."""
    path = tmp_path / "m.skops"
    few = ("--faces", 2, "--set", "n_init=1")
    worked("fit", table, "--method", "cpm", *few, *sides, "--out", path)
    text = worked("rules", path, "--digits", 6)
    polytopes = json.loads(run("rules", path, "--format", "json").stdout)["polytopes"]
    machine = load_model(path)
    parts = getattr(machine.estimator, "sides_", [machine.estimator])
    assert len(parts) == text.count("Inside, class 'no'") + text.count("Inside, class 'yes'")
    for part, polytope in zip(parts, polytopes, strict=True):
        faces = [
            {term["feature"]: term["coefficient"] for term in face["terms"]} for face in polytope["faces"]
        ]
        W = np.array([[terms.get(name, 0.0) for name in "abc"] for terms in faces])
        scores = X @ W.T - np.array([face["limit"] for face in polytope["faces"]])
        assert scores == pytest.approx(part.face_scores(machine.scaler.transform(X)), rel=1e-6, abs=1e-8)


def test_fit_with_numbers_searches_polytopes(table, tmp_path):
    """--numbers fits logistic polytopes with as many numbers at most."""
    path, few = tmp_path / "model.skops", ("--faces", 2, "--set", "n_init=1")
    assert "max_numbers=" in worked("fit", table, "--numbers", 6, *few, "--out", path)
    machine = load_model(path).estimator
    assert type(machine).__name__ == "LogisticPolytopes"
    assert machine.n_numbers_ <= 6
    assert "--numbers is of --method logistic" in refused("fit", table, "--numbers", 6, "--method", "svm")


class Trap:
    """An object whose unpickling leaves a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def test_unsafe_files_are_refused_unopened(tmp_path, table):
    """Pickles and files of other programs are refused, and none of their code is run."""
    mark, pickled, foreign, other = (tmp_path / name for name in ("mark", "m.joblib", "f.skops", "o.skops"))
    pickled.write_bytes(pickle.dumps(Trap(mark)))
    assert "Pickles (joblib) are refused" in refused("predict", pickled, table)
    skops.io.dump({"format": "polyopt model, version 1", "estimator": Trap(mark)}, foreign)
    assert re.search(r"(Trap|open).*refused|refused.*(Trap|open)", refused("predict", foreign, table))
    assert not mark.exists()
    skops.io.dump(LogisticRegression(), other)
    assert "is not a model saved by 'polyopt fit'" in refused("predict", other, table)


def test_built_in_data_come_before_folders(tmp_path):
    """A folder with the name of a built-in data set does not hide it."""
    (tmp_path / "sonar").mkdir()
    with chdir(tmp_path):
        assert f"of {len(load('sonar').y)} samples" in worked("fit", "sonar", "--method", "svm")


@pytest.mark.parametrize("command", ["fit", "duals"])
def test_help_names_every_method(command):
    """The help of a command lists the methods that it takes."""
    text = re.sub(r"(?<=\w)- ", "-", " ".join(run(command, "--help").output.replace("│", " ").split()))
    for name in METHODS:
        assert re.search(rf"\b{name.removesuffix('-rbf')}\b", text), name


def test_version_is_printed():
    """--version prints the version of the package."""
    assert worked("--version").strip() == f"polyopt {polyopt.__version__}"


# -- bad input: one sentence, exit status 2 ---------------------------------------------------------

ROW, OTHER = "1.0,2.0,yes", "2.0,1.0,no"
BROKEN_FILES = {
    "word": (f"{ROW}\n1.0,oops,no\n", r"line 2: .*'oops' is not a number"),
    "empty": ("", r"is empty"),
    "one class": (f"{ROW}\n{ROW}\n{ROW}\n", r"one class, \['yes'\]"),
}
COMMANDS = {"compare": "compare --data", "duals": "duals --method svm --data", "fit": "fit --method svm"}


@pytest.mark.parametrize(("content", "message"), BROKEN_FILES.values(), ids=BROKEN_FILES)
@pytest.mark.parametrize("command", COMMANDS)
def test_broken_file_is_named(command, content, message, tmp_path):
    """Each command that reads data names the broken file, and the line."""
    path = tmp_path / "broken.csv"
    path.write_text(content, encoding="utf-8")
    assert re.search(rf"broken\.csv.*{message}", refused(*COMMANDS[command].split(), path))


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_data_lists_known_sets(command):
    """A name that is neither a file nor a data set is told with those that are."""
    said = refused(*COMMANDS[command].split(), "ionosfear")
    assert re.search("'ionosfear' is neither a file nor a known data set.*ionosphere", said)


FITTING = {
    "--C 0": "C must be positive and finite, not 0.0",
    "--C nan": "C must be positive and finite, not nan",
    "--B 0.5": "B must be at least 1, not 0.5",
    "--method sigma-svm --D 1.5": "D must lie in [0, 1], not 1.5",
    "--method cpm --faces 0": "n_faces must be an integer of at least 1, not 0",
    "--method svm --B 2": "--B is not a setting of svm; it is one of rmm",
    "--method cpm --kernel rbf": "--kernel is not a setting of cpm",
    "--method rmm --faces 2": "--faces is not a setting of rmm; it is one of cpm",
    "--kernel precomputed": "'precomputed' is not one of 'linear', 'rbf', 'poly', 'sigmoid'",
    "--method rmm-rbf --gamma wide": "--gamma must be scale, auto or a number, not 'wide'",
    "--method rmm-rbf --gamma -1": "The 'gamma' parameter of SVM must be",
    "--time-limit -1": "time_limit must be seconds, at least 0, or None, not -1.0",
    "--method tree": "method 'tree' is not known. Known: svm",
    "--target nobody": "target='nobody' is not a column of",
    "--target 9": "target=9 is not a column of",
    "--solver magic": "magic",
    "--seed -1": "'--seed'",
    "--method svm --set degree": "--set takes NAME=VALUE, not 'degree'",
    "--method svm --set =1": "--set takes NAME=VALUE, not '=1'",
    "--method svm --set facs=2": "--set: svm has no setting 'facs'; it has C, kernel",
    "--method svm --set solver=exact": "--set: solver has an option of its own, --solver",
    "--method svm --set degree=x": "The 'degree' parameter of SVM must be an int",
    "--method svm --set C.x=1": "--set: C has no settings of its own, and so no 'x'",
    "--method ce-svm --set search.x=1": "--set: search has no setting 'x'; it has n_samples",
    "--method cpm --set sgd.perplexity=7": "perplexity must be from 1 to n_faces=3, not 7",
}
SHARED = {
    "show rm": "Did you mean 'rmm'",
    "show rmm.qq": "the family has rmm",
    "compare --methods svm,tree": "method 'tree' is not known. Known: svm",
    "compare --methods ,": "method '' is not known",
    "compare --global --methods svm,rmm": "--global is for ce-svm, ce-svm-rbf, cpm, polyceptron;",
    "compare --report /no/such/folder/out.html": "--report: the folder /no/such/folder does not exist",
    "compare --time-limit -1": "time_limit must be seconds, at least 0, or None, not -1",
    "compare --seed -1": "'--seed'",
    "compare --data sonar --data no.csv": "'no.csv' is neither a file nor a known data set",
    "compare --data TABLE --methods svm,rmm --set facs=2": "--set: none of svm, rmm has a setting 'facs'",
    "compare --data TABLE --methods svm,rmm --faces 2": "--faces is not a setting of svm, rmm; it is one of",
    "compare --data TABLE --methods svm --C -1": "C must be positive and finite, not -1.0",
    "duals --method cpm --solver fast --data TABLE": "take --solver exact",
    "rules nowhere.skops": "no model file",
    "rules MODEL": "is a model of svm; rules are of a polytope",
    "predict nowhere.skops TABLE": "there is no model file 'nowhere.skops'",
    "predict MODEL nowhere.csv": "nowhere.csv' is neither a file nor a known data set",
    "predict MODEL TABLE --out nowhere/l": "nowhere does not exist",
    "predict MODEL sonar": "sonar has 60 features; the model has 3",
    "fit SPARSE --target a": "--target is for CSV files;",
    "fit TABLE --out nowhere/m": "nowhere does not exist",
}
LINES = {
    **{f"fit TABLE {line}": said for line, said in FITTING.items()},
    **{f"duals --data TABLE {line}": FITTING[line] for line in list(FITTING)[::4]},
    **SHARED,
}


@pytest.mark.parametrize("line", LINES)
def test_bad_option_is_named(line, table, request):
    """An option's value that cannot be is told in a sentence, and no traceback."""
    files = {"TABLE": table}
    files |= {name: request.getfixturevalue(name.lower()) for name in ("MODEL", "SPARSE") if name in line}
    assert LINES[line] in refused(*(files.get(word, word) for word in line.split()))


UNFIT = {
    "a,b,answer\n1.0,2.0,yes\n": r"new\.csv lacks the column 'c'.*a, b, c",
    "a,b,c,d\n1.0,2.0,3.0,4.0\n": r"new\.csv has a column 'd'",
    "1.0,2.0\n": r"new\.csv has 2 columns; the model has 3 features",
    "1.0,2.0,3.0\n1.0,2.0\n": r"new\.csv, line 2: has 2 cells where 3",
    "1.0,2.0,3.0\n1.0,2.0,oops\n": r"new\.csv, line 2: .*'oops' is not a number",
    "a,b,c\n1.0,2.0,3.0\n1.0,nan,3.0\n": r"new\.csv, line 3: .*'nan' is not finite",
    "": r"new\.csv.*empty",
}


@pytest.mark.parametrize("content", UNFIT)
def test_predict_refuses_other_tables(content, model, tmp_path):
    """A table that does not fit the model is told by what it lacks."""
    path = tmp_path / "new.csv"
    path.write_text(content, encoding="utf-8")
    assert re.search(UNFIT[content], refused("predict", model, path))
