"""Every option of every command is tried here: a command or an option without a trial fails."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import typer.main
from typer.testing import CliRunner

from polyopt.cli import app
from polyopt.verify import Check

# What is tried: arguments, and what must stand in the output. DATA, TEXT, MODEL and OUT are files.
TRIALS = {
    "compare": [
        ("--data TEXT --separator ; --decimal , --categorical kind --impute median --large "
         "--force --methods svm", r"training and 8 test samples, 4 features"),
        ("--data DATA --target answer --methods svm,rmm --C 0.5 --B 1.5 --seed 1 --time-limit 60 --csv -q",
         r"rmm,exact,rmm.qp,\"C=0.5, kernel=linear, B=1.5\".*,1$"),
        ("--data DATA --method sigma-svm-rbf --D 0.3 --kernel poly --gamma 0.5 --set degree=2 --csv --quiet",
         r'"C=1, kernel=poly, D=0.3, gamma=0.5, degree=2"'),
        ("--data DATA --methods cpm --faces 2 --set n_init=2 --report OUT",
         r"Settings given: n_faces=2, n_init=2\."),
        ("--data DATA --methods cpm --faces 2 --global --set n_init=1 --time-limit 60", r"^ +global"),
    ],
    "show": [
        ("svm.primal --format latex", r"begin{aligned}"),
        ("svm --solve DATA --set C=0.5", r"^alpha_\d+ = 1/2 = 0\.5"),
    ],
    "verify": [("--all --quiet", r"1 checks pass"), ("-q", r"1 checks pass")],
    "duals": [
        ("--data TEXT --separator ; --decimal , --categorical kind --impute median --large --method svm",
         r"alpha"),
        ("--data DATA --target answer --method rmm --C 0.5 --B 1.5 --top 1 --solver exact --seed 1 -q "
         "--time-limit 60", r"C=0\.5, kernel=linear, B=1\.5"),
        ("--data DATA --method sigma-svm-rbf --D 0.3 --kernel poly --gamma 0.5 --set degree=2 --csv --quiet",
         r"alpha"),
        ("--data DATA --method cpm --faces 1 --set inside_label=both --set n_init=1", r"inside_label=both"),
    ],
    "fit": [
        ("TEXT --separator ; --decimal , --categorical kind --impute median --large "
         "--force --method svm --out OUT", r"of 32 samples"),
        ("DATA --target answer --method rmm --C 0.5 --B 1.5 --solver exact --no-scale --out OUT --seed 1 -q "
         "--time-limit 60", r"C=0\.5, kernel=linear, B=1\.5"),
        ("DATA --scale --method sigma-svm-rbf --D 0.3 --kernel poly --gamma 0.5 --set degree=2 --quiet",
         r"C=1, kernel=poly, D=0\.3, gamma=0\.5, degree=2"),
        ("DATA --method cpm --faces 2 --set sgd.perplexity=1.2 --set max_iter=50 --keep-data --out OUT",
         r"perplexity=1\.2"),
        ("DATA --method spla1 --set ridge=0.2 --faces 1 --set n_init=1 --certificate CLAIM", r"ridge=0\.2"),
        ("DATA --numbers 6 --faces 1 --set n_init=1", r"Logistic polytopes .*max_numbers="),
        ("DATA --method svm --set class_weight={'a':2.0,'b':1.0}", r"class_weight=\{'a': 2\.0, 'b': 1\.0\}"),
        ("DATA --method ce-svm --set search.n_samples=20 --set search.n_init=2",
         r"n_samples=20.*n_init=2"),
    ],
    "certify": [
        ("MODEL DATA --force --out CLAIM", r"^Certificate: "),
        ("--coefficients FIVE --data TEXT --separator ; --decimal , --categorical kind --impute median "
         "--large --C 2 --time-limit 60", r"none came with the solution"),
        ("--coefficients THREE --data DATA --target answer --program soft-rmm --C 0.5 --B 1.5 --D 2 "
         "--positive a", r"with slack on its bounds"),
        ("--coefficients MANY --data DATA --kernel poly --gamma 0.5 --set degree=2 --set coef0=1 "
         "--out CLAIM", r"none came with the solution"),
    ],
    "predict": [
        ("MODEL DATA --out OUT", r"error \d"),
        ("MODEL DATA --probabilities", r"^label,p\(a\),p\(b\)$"),
        ("MODEL DATA --by-position --separator , --decimal . --force --out OUT", r"error \d"),
    ],
    "rules": [
        ("MODEL --digits 2 --terms 1", r"inside|Inside"), ("MODEL --format sql", r"^CASE"),
        ("MODEL --data DATA --fidelity 0.9 --format json", r'"'),
        ("MODEL --data DATA --separator , --decimal .", r"agree with the model on"),
    ],
    "explain": [
        ("MODEL DATA --row 3 --hold u --top 1 --json", r'"nearest"'),
        ("MODEL DATA --by-position --separator , --decimal .", r"only it"),
    ],
    "handbook": [
        ("rmm", r"chapters/rmm.html$"),
        ("--out FOLDER", r"index.html$"),
    ],
    "lecture": [
        ("", r"^plume +PLUME$"),
        ("plume --out FOLDER --quiet", r"^  slides.html +\d+ kB$"),
        ("plume --out FOLDER --force -q", r"^  figures/answers.svg +\d+ kB$"),
    ],
    "info": [("MODEL", r"u, v")],
    "export": [("MODEL --out OUT --dtype float32", r"onnx, float32, opset")],
    "lab": [
        ("--points DATA --target answer --port 0 --no-browser", r"^The lab is at http://127\.0\.0\.1:\d+/\?token=\S{40,}$"),
        ("--browser --port 0", r"^The lab has ended\.$"),
    ],
    "doctor": [("", r"needs is there and works\.$")],
}  # fmt: skip
# Of the program itself. Those of completion are tried below, in a home of their own.
WHOLE = {"--version": r"^polyopt \d"}
COMPLETION = {"--install-completion", "--show-completion"}


def run(*arguments, **environment):
    runner = CliRunner(env={"COLUMNS": "400", **environment})
    return runner.invoke(app, [str(argument) for argument in arguments], prog_name="polyopt")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table of two classes, and a polytope machine that was fitted to it."""
    folder = tmp_path_factory.mktemp("trials")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(32, 2)) + 1.5 * np.repeat([0, 1], 16)[:, None]
    lines = [f"{x[0]!r},{x[1]!r},{'ab'[i // 16]}" for i, x in enumerate(X.tolist())]
    data, model = folder / "data.csv", folder / "model.skops"
    data.write_text("\n".join(["u,v,answer", *lines]) + "\n", encoding="utf-8")
    text = folder / "text.csv"
    cells = [[f"{u:.3f}".replace(".", ","), f"{v:.3f}".replace(".", ",")] for u, v in X.tolist()]
    cells[3][1] = ""  # missing
    rows = [";".join([*pair, "xy"[i % 2], "ab"[i // 16]]) for i, pair in enumerate(cells)]
    text.write_text("\n".join(["u;v;kind;answer", *rows]) + "\n", encoding="utf-8")
    options = ("--method", "spla1", "--faces", 1, "--set", "n_init=1", "--keep-data")
    assert run("fit", data, *options, "--out", model).exit_code == 0
    for name, count in (("three", 3), ("five", 5), ("many", 33)):
        np.save(folder / f"{name}.npy", np.linspace(-0.5, 1.0, count))
    numbers = {name.upper(): folder / f"{name}.npy" for name in ("three", "five", "many")}
    return {**numbers, "DATA": data, "TEXT": text, "MODEL": model, "OUT": folder / "out",
            "CLAIM": folder / "claim.json",
            "FOLDER": folder / "lecture"}  # fmt: skip


@pytest.fixture
def little_work(monkeypatch):
    """One check stands for all, pages have no pictures, the lab ends at once: these have own tests."""

    def one_check(names):
        return [Check("svm", "svm.dual", "clarabel", 1.0, 0.0, 0.0, "w", "ok")] if "svm" in names else []

    monkeypatch.setattr("polyopt.verify.verify", one_check)
    monkeypatch.setattr("polyopt.crosschecks.all_checks", lambda: ())
    monkeypatch.setattr("polyopt.report.comparison.pictures_of", lambda *what: [])
    monkeypatch.setattr("polyopt.lecture.lectures.chapter_of", lambda lecture: "# A chapter\n\n## A part\n")
    monkeypatch.setattr("polyopt.lab.server.page_files", dict)
    monkeypatch.setattr("polyopt.lab.server.serve", lambda application, listening: None)
    monkeypatch.setattr("polyopt.handbook.site.check_installed", lambda: None)
    monkeypatch.setattr("polyopt.handbook.site.site_folder", lambda: Path("somewhere"))
    monkeypatch.setattr("polyopt.handbook.site.kept_site", lambda tell: Path("somewhere").absolute())
    monkeypatch.setattr("polyopt.handbook.site.build_site", lambda folder, tell: [])
    monkeypatch.setattr("webbrowser.open", lambda link: True)


@pytest.mark.parametrize(
    ("command", "line", "expected"),
    [(command, line, expected) for command, trials in TRIALS.items() for line, expected in trials],
)
def test_every_option_does_what_it_says(command, line, expected, files, little_work):
    if command == "export":
        pytest.importorskip("onnx")
    files["OUT"].unlink(missing_ok=True)
    done = run(command, *(files.get(word, word) for word in line.split()))
    assert done.exit_code == 0, done.output
    assert re.search(expected, done.output, re.M), done.output
    assert files["OUT"].is_file() == ("OUT" in line)


@pytest.mark.parametrize("option", WHOLE)
def test_every_option_of_the_program_does_what_it_says(option):
    assert re.search(WHOLE[option], run(option).output)


def options_of(command):
    """The names of each option, of which one must be tried; a flag's two sides apart."""
    for one in command.params:
        if one.param_type_name == "option" and "--help" not in one.opts:
            yield set(one.opts)
            if one.secondary_opts:
                yield set(one.secondary_opts)


def untried(command, words):
    return [names for names in options_of(command) if not names & set(words)]


def test_no_command_and_no_option_is_untried():
    whole = typer.main.get_command(app)
    assert set(TRIALS) == set(whole.commands)
    assert untried(whole, {*WHOLE, *COMPLETION}) == []
    for name, command in whole.commands.items():
        words = [word for line, _ in TRIALS[name] for word in line.split()]
        assert untried(command, words) == [], f"polyopt {name}: give it a trial in TRIALS"
        assert untried(command, []) == list(options_of(command))
        known = set().union(*options_of(command), {"--help"})
        assert {word for word in words if re.fullmatch(r"--?[a-zA-Z][\w-]*", word)} <= known


# -- completion -----------------------------------------------------------------------------------


def completed(line):
    words = line.split(" ")
    done = run(_POLYOPT_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    return done.output.split()


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("polyopt co", ["compare"]),
        ("polyopt fit x.csv --kernel p", ["poly"]),
        ("polyopt fit --solver e", ["exact"]),
    ],
)
def test_a_shell_completes_commands_and_words_of_options(line, some):
    assert completed(line) == some


# -- doctor ---------------------------------------------------------------------------------------


def test_doctor_tells_what_is_missing(monkeypatch):
    monkeypatch.setattr("cvxpy.installed_solvers", lambda: ["HIGHS", "OSQP", "SCS"])
    done = run("doctor")
    assert done.exit_code == 1
    assert "the solver CLARABEL: not installed" in done.output
    assert "the solver SCIP" not in done.output, "it is optional"
    assert re.search(r"HIGHS +solves it", done.output)


def test_doctor_tells_of_kernels_that_cannot_be_loaded(monkeypatch):
    def absent():
        raise ImportError("polyopt's compiled kernels are not there")

    monkeypatch.setattr("polyopt.native.library._library", absent)
    done = run("doctor")
    assert done.exit_code == 1
    assert "  the compiled kernels: polyopt's compiled kernels are not there" in done.output


def test_doctor_prints_no_secrets_and_every_part(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    done = run("doctor")
    assert "hush" not in done.output
    for heading in ("Versions", "Machine", "Kernels", "Caches", "Solvers"):
        assert re.search(rf"^{heading}", done.output, re.M)
    assert re.search(r"^  thread settings .*OMP_NUM_THREADS 1", done.output, re.M)
    for name in ("polyopt", "python", "numpy", "cvxpy", "data sets"):
        assert re.search(rf"^  {name} ", done.output, re.M)


@pytest.mark.parametrize(("value", "message"), [(None, "is wrong: None"), (2.0, "is wrong: 2.0")])
def test_doctor_tries_each_solver(monkeypatch, value, message):
    monkeypatch.setattr("cvxpy.Problem.solve", lambda self, **how: value)
    done = run("doctor")
    assert done.exit_code == 1
    assert done.output.count(message) >= 4


# -- settings that are refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit DATA --method svm --set facs=2", "--set: svm has no setting 'facs'; it has C, kernel"),
        (
            "compare --data DATA --methods svm,rmm --set facs=2",
            "--set: none of svm, rmm has a setting 'facs'",
        ),
        (
            "compare --data DATA --methods svm,rmm --faces 2",
            "--faces is not a setting of svm, rmm; it is one of",
        ),
        ("compare --data DATA --methods svm --C -1", "C must be positive and finite, not -1.0"),
        ("fit DATA --method svm --set degree=x", "The 'degree' parameter of SVM must be an int"),
        ("fit DATA --method svm --set solver=exact", "--set: solver has an option of its own, --solver"),
        ("fit DATA --method svm --set degree", "--set takes NAME=VALUE, not 'degree'"),
        ("fit DATA --method ce-svm --set search.x=1", "--set: search has no setting 'x'; it has n_samples"),
        ("fit DATA --method svm --set C.x=1", "--set: C has no settings of its own, and so no 'x'"),
    ],
)
def test_what_is_refused_is_told_in_a_sentence(line, message, files):
    done = run(*(files.get(word, word) for word in line.split()))
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output
