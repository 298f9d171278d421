"""Every option of every command is tried here: a command or an option without a trial fails."""

import re
import sys

import numpy as np
import pytest
import typer.main
from helpers import odd_methods
from helpers.commands import Opened, registry, run, worked, write
from helpers.lab import visited_lab

from polyopt.cli import app

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
    "verify": [("--all --quiet", r"^1 of 2 cross-checks hold"), ("-q", r"programs proven")],
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
    "handbook": [("--out MODEL", r"is a file")],  # that it is built and opened is in test_handbook
    "lecture": [("plume --out FOLDER --force -q", r"^  figures/answers.svg +\d+ kB$")],
    "info": [("MODEL", r"u, v")],
    "export": [("MODEL --out OUT --dtype float32", r"onnx, float32, opset")],
    "lab": [
        ("--points DATA --target answer --no-browser", r"^The lab is at http://127\.0\.0\.1:\d+/\?token=\S{40,}$"),
        ("--browser", r"^The lab has ended\.$"),
    ],
    "doctor": [("", r"needs is there and works\.$")],
}  # fmt: skip
STATUS = {"verify": 1, "handbook": 2}  # of a cross-check that fails, and of a folder that is a file
# Of the program itself. Those of completion are tried below, in a home of their own.
WHOLE = {"--version": r"^polyopt \d"}
COMPLETION = {"--install-completion", "--show-completion"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table of two classes, and a polytope machine that was fitted to it."""
    folder = tmp_path_factory.mktemp("trials")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(32, 2)) + 1.5 * np.repeat([0, 1], 16)[:, None]
    rows = [[*x, "ab"[i // 16]] for i, x in enumerate(X.tolist())]
    data, model = write(folder / "data.csv", ["u", "v", "answer"], *rows), folder / "model.skops"
    cells = [[f"{u:.3f}", f"{v:.3f}", "xy"[i % 2], label] for i, (u, v, label) in enumerate(rows)]
    cells[3][1] = ""  # missing
    text = write(folder / "text.csv", ["u", "v", "kind", "answer"], *cells, separator=";")
    text.write_text(text.read_text().replace(".", ","))
    worked("fit", data, "--method", "spla1", "--faces", 1, "--set", "n_init=1", "--keep-data", "--out", model)
    for name, count in (("three", 3), ("five", 5), ("many", 33)):
        np.save(folder / f"{name}.npy", np.linspace(-0.5, 1.0, count))
    numbers = {name.upper(): folder / f"{name}.npy" for name in ("three", "five", "many")}
    return {**numbers, "DATA": data, "TEXT": text, "MODEL": model, "OUT": folder / "out",
            "CLAIM": folder / "claim.json", "FOLDER": folder / "lecture"}  # fmt: skip


def tried(command, words):
    """Run a command; verify on one method alone, the lab until it is visited."""
    if command == "lab":
        return visited_lab(*words)
    if command != "verify":
        return run(command, *words, width=400)
    toy = odd_methods.method(odd_methods.Interrupted, crosschecks=(odd_methods.__name__,))
    with registry(toy, alone=True):
        return run(command, *words, width=400)


@pytest.mark.parametrize(
    ("command", "line", "expected"),
    [(command, line, expected) for command, trials in TRIALS.items() for line, expected in trials],
)
def test_option_does_what_it_says(command, line, expected, files):
    """Options, each tried on small data, change the output or the file as they say."""
    if command == "export":
        pytest.importorskip("onnx")
    files["OUT"].unlink(missing_ok=True)
    done = tried(command, [files.get(word, word) for word in line.split()])
    assert done.exit_code == (0 if line == "-q" else STATUS.get(command, 0)), done.output
    assert re.search(expected, done.output, re.M), done.output
    assert files["OUT"].is_file() == ("OUT" in line)
    if line == "--browser":
        assert Opened.links[-1] in done.output


@pytest.mark.parametrize("option", WHOLE)
def test_option_of_program_does_what_it_says(option):
    """Options before the command are tried too."""
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


def test_no_option_is_untried():
    """A command or an option without a trial fails, and so does a trial of an option that there is not."""
    whole = typer.main.get_command(app)
    assert set(TRIALS) == set(whole.commands)
    assert untried(whole, {*WHOLE, *COMPLETION}) == []
    for name, command in whole.commands.items():
        words = [word for line, _ in TRIALS[name] for word in line.split()]
        words += ["--port"] if name == "lab" else []  # of visited_lab
        assert untried(command, words) == [], f"polyopt {name}: give it a trial in TRIALS"
        assert untried(command, []) == list(options_of(command))
        known = set().union(*options_of(command), {"--help"})
        assert {word for word in words if re.fullmatch(r"--?[a-zA-Z][\w-]*", word)} <= known


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("polyopt co", "compare"),
        ("polyopt fit x.csv --kernel p", "poly"),
        ("polyopt fit --solver e", "exact"),
    ],
)
def test_shell_completes_words(line, some):
    """A shell completes commands and the words of options."""
    count = str(len(line.split(" ")) - 1)
    done = run(_POLYOPT_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=count)
    assert done.output.split() == [some]


def unloaded(*_):
    raise OSError("no such file")


@pytest.mark.parametrize(
    ("target", "wrong", "said"),
    [
        ("cvxpy.installed_solvers", lambda: ["HIGHS", "OSQP", "SCS"], "the solver CLARABEL: not installed"),
        ("cvxpy.Problem.solve", lambda self, **how: None, "the solver CLARABEL: is wrong: None where 2.8"),
        ("cvxpy.Problem.solve", lambda self, **how: 2.0, "the solver HIGHS: is wrong: 2.0 where 2.8"),
        ("polyopt.native.library.kernel", lambda *_, **how: unloaded, "the compiled kernels: no such file"),
        ("polyopt.native.library.kernel", lambda *_, **how: print, "the compiled kernels: 0.0 where 25"),
    ],
    ids=["absent", "without value", "wrong value", "no kernels", "wrong kernels"],
)
def test_doctor_tells_what_is_wrong(target, wrong, said, monkeypatch):
    """A solver or kernel that is absent, or wrong on a known value, is told with exit status 1."""
    monkeypatch.setattr(target, wrong)
    done = run("doctor")
    assert done.exit_code == 1
    assert said in done.output
    assert "the solver SCIP" not in done.output, "it is optional"


def test_doctor_prints_parts_and_no_secrets():
    """Every part is printed with its facts, and of the environment the settings of threads alone."""
    text = run("doctor", SECRET_TOKEN="hush", OMP_NUM_THREADS="1").output
    assert "hush" not in text
    for heading in ("Versions", "Machine", "Kernels", "Caches", "Solvers"):
        assert re.search(rf"^{heading}", text, re.M)
    assert re.search(r"^  thread settings .*OMP_NUM_THREADS 1", text, re.M)
    assert re.search(r"HIGHS +solves it", text)
    for name in ("polyopt", "python", "numpy", "cvxpy", "data sets"):
        assert re.search(rf"^  {name} ", text, re.M)


@pytest.mark.parametrize(
    ("package", "line", "extra"),
    [("furo", "handbook", "handbook"), ("uvicorn", "lab", "lab"), ("onnx", "export MODEL --out OUT", "onnx")],
)
def test_absent_package_is_told(package, line, extra, files, monkeypatch):
    """A command that needs an optional package says how to install it, and writes nothing."""
    monkeypatch.setitem(sys.modules, package, None)
    done = run(*(files.get(word, word) for word in line.split()))
    assert done.exit_code == 2
    assert f"polyopt[{extra}]" in done.output
    assert not files["OUT"].exists()
