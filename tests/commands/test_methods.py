"""A method is its entry: each works through every command, and no module names one; so do others' methods."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import formulations
import polyopt
from formulations import FAMILIES
from polyopt.certificates import Claim
from polyopt.cli import app
from polyopt.compare import compare
from polyopt.compare.programs import entries
from polyopt.compare.table import CLAIMS, SIZES, solver_word
from polyopt.crosschecks import all_checks
from polyopt.datasets import Dataset
from polyopt.methods import DEFAULT_METHOD, DEFAULT_METHODS, METHODS, Method, find_method
from polyopt.methods.method import named
from polyopt.methods.registry import BUILT_IN, families, method_of
from polyopt.report import write_report
from polyopt.sensitivity import sensitivities
from polyopt.verify import falls_short, verify

ROOT = Path(polyopt.__path__[0]).parent
GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"
_, _, SECTION = GUIDE.read_text(encoding="utf-8").partition("## Adding a method")
EXAMPLE = re.search(r"```python\n(.*?)```", SECTION, re.S)[1]


def run(*arguments):
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, [str(argument) for argument in arguments])


def worked(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 15)
    X = rng.normal(size=(30, 2)) + 1.5 * y[:, None]
    path = tmp_path / "table.csv"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", fmt=["%.6f", "%.6f", "%d"])
    return path


@pytest.fixture
def registry():
    """The registry, which forgets afterwards what a test registers."""
    kept = METHODS.found, METHODS.packages, METHODS.families
    METHODS.found, METHODS.packages, METHODS.families = (dict(part) for part in kept)
    METHODS.__dict__.pop("complete", None)
    yield METHODS
    METHODS.found, METHODS.packages, METHODS.families = kept
    METHODS.__dict__.pop("complete", None)


# -- every method, through every command ------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_method_is_shown_and_has_its_multipliers_explained(name, table):
    """That each is compared is in test_compare, that each is fitted and saved in test_cli."""
    method = METHODS[name]
    shown = worked("show", name)
    assert name.replace("-", "_") in families() or worked("show", method.programs[0]).strip() in shown
    multipliers = worked("duals", "--method", name, "--data", table, "--top", 1)
    assert multipliers.startswith(method.title)
    assert "How the optimal value p moves" in multipliers


def test_verify_goes_over_the_programs_of_every_method():
    """That they are proven is in test_verify."""
    assert set(families()) == set(FAMILIES)
    listed = {entry.name for entry in entries()}
    for method in BUILT_IN.values():
        assert {*method.programs, method.duals_of or method.programs[0]} <= listed
        assert set(method.families) <= {entry.family for entry in entries(method.families)}


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_an_entry_names_is_there(name):
    method = METHODS[name]
    cls = method.estimator_class
    assert f"{cls.__module__}.{cls.__qualname__}" == method.home, "a saved model calls it so"
    for place in filter(None, (method.tuning, method.slopes)):
        assert callable(named(place))
    for place in method.keeps:
        kept = named(place)
        assert f"{kept.__module__}.{kept.__qualname__}" == place
    for module in method.crosschecks:
        assert importlib.import_module(module).CHECKS
    for public in (cls.__name__, *method.exports):
        assert public in polyopt.__all__
        assert getattr(polyopt, public) is not None
    parameters = cls(**method.settings).get_params()
    assert {"solver", "time_limit", *filter(None, [method.tuned])} <= set(parameters)
    assert method_of(cls()) in [other for other in BUILT_IN.values() if other.home == method.home]


def test_every_file_of_cross_checks_is_named_by_an_entry():
    folder = ROOT / "polyopt" / "crosschecks"
    files = {path.stem for path in folder.glob("*.py") if "\nCHECKS = " in path.read_text(encoding="utf-8")}
    assert files == {m.rpartition(".")[2] for method in BUILT_IN.values() for m in method.crosschecks}
    assert len({check.name for check in all_checks()}) == len(all_checks())


def test_every_estimator_that_is_a_method_has_an_entry():
    """PolytopeSearch and FaceSearch choose the settings of others; the other classifiers are methods."""
    from sklearn.base import is_classifier

    public = [getattr(polyopt, name) for name in polyopt.__all__]
    found = {cls.__name__ for cls in public if isinstance(cls, type) and hasattr(cls, "fit")}
    homes = {method.home.rpartition(".")[2] for method in BUILT_IN.values()}
    assert found - homes == {"PolytopeSearch", "FaceSearch"}
    assert all(is_classifier(getattr(polyopt, name)()) for name in homes)


def test_the_defaults_are_methods():
    assert {DEFAULT_METHOD, *DEFAULT_METHODS} <= set(BUILT_IN)


def test_every_claim_and_size_can_be_shown():
    assert set(CLAIMS) == {claim.name.lower() for claim in Claim}
    assert {method.counts for method in METHODS.values()} <= set(SIZES)
    assert [solver_word(name, 80) for name in ("decomposition", "interior-point", "exact", "sgd")] == [
        "decomp.", "interior", "exact", "sgd"
    ]  # fmt: skip
    assert solver_word("decomposition", 150) == "decomposition"


# -- nothing else names a method ----------------------------------------------------------------------

# What goes over the methods, and the examples in its help.
OVER_METHODS = [
    *(ROOT / "polyopt" / "cli").glob("*.py"),
    *(ROOT / "polyopt" / "compare").glob("*.py"),
    *(ROOT / "polyopt" / "report").glob("*.py"),
    *(ROOT / "polyopt" / "crosschecks" / f"{name}.py" for name in ("__init__", "registry", "table")),
    ROOT / "polyopt" / "methods" / "method.py",
    ROOT / "polyopt" / "verify.py",
    ROOT / "polyopt" / "__init__.py",
    ROOT / "formulations" / "__init__.py",
    ROOT / "formulations" / "catalogue.py",
]
EXAMPLES = {
    "A family (rmm); all by default.",
    "A family (rmm), a method (rmm-rbf) or a program (rmm.qp).",
}
FLOORS = ("polyopt.estimators", "polyopt.outer", "polyopt.solvers", "polyopt.baselines")


def names_of_methods():
    homes = [method.home.rpartition(".")[2] for method in BUILT_IN.values()]
    return {*BUILT_IN, *FAMILIES, *homes}


def namings(source):
    """Where code, types and docstrings apart, has the name of a method, of a family or of an estimator."""
    tree = ast.parse(source)
    known = names_of_methods()
    any_of = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    word = re.compile(rf"(?<![\w.-])({any_of})(?![\w-])")
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = None  # a docstring
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in EXAMPLES:
            if word.search(node.value):
                yield node.value
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", "") or ""
            for name in [module, *(f"{module}.{alias.name}".strip(".") for alias in node.names)]:
                if name.startswith(FLOORS) or name.removeprefix("formulations.") in FAMILIES:
                    yield name
        elif isinstance(node, ast.Name) and node.id in known - set(FAMILIES):
            yield node.id


@pytest.mark.parametrize("path", OVER_METHODS, ids=lambda path: "/".join(path.parts[-2:]))
def test_no_module_outside_the_entries_names_a_method(path):
    assert list(namings(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        'usual = ["cpm"]',
        'help = "svm, sigma-svm and rmm-rbf"',
        'find_programs("rmm.qp")',
        'f"--global is for cpm; of {1} it is not"',
        "from polyopt.estimators.rmm import RelativeMarginMachine",
        "from formulations import plume",
        "import formulations.cpm",
        "kinds = [SVM]",
        "def f():\n    from polyopt.outer.l0.search import L0Search",
    ],
)
def test_a_method_that_is_named_is_seen(line):
    assert list(namings(f"{line}\n"))
    assert not list(
        namings('"""rmm."""\nif TYPE_CHECKING:\n    from polyopt.estimators.rmm import X\nx = ".svm"\n')
    )


def test_the_list_for_type_checkers_is_of_public_names():
    tree = ast.parse(Path(polyopt.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    pairs = [(node.module, alias.name) for node in block.body for alias in node.names]
    assert {name for _, name in pairs} <= set(polyopt.__all__)
    for module, name in pairs:
        assert getattr(polyopt, name) is getattr(importlib.import_module(module), name, None) or (
            name == "datasets"
        )


# -- methods of other packages ------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path, monkeypatch, registry):
    """A folder on the path to install packages into, and a registry that has not looked there yet."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder):
            del sys.modules[name]


def install(folder, package, points, **modules):
    """A package with entry points, as an installer leaves it."""
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(f"[polyopt.methods]\n{points}\n", encoding="utf-8")
    importlib.invalidate_caches()


def told(action):
    """The warnings of an action, as sentences."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(warning.message) for warning in caught]


def test_the_example_is_short():
    assert len(EXAMPLE.splitlines()) <= 80
    assert max(map(len, EXAMPLE.splitlines())) <= 115


def test_the_example_of_the_guide_works_through_every_command(site, table, tmp_path):
    """A program, its dual, its loop and its entry, in another package: it gets what built-in methods get."""
    install(site, "lagrangian", "lsvm = lagrangian:METHOD", lagrangian=EXAMPLE)
    assert told(lambda: list(METHODS)) == []
    assert list(METHODS) == [*BUILT_IN, "lsvm"]
    assert "lsvm: lsvm.primal, lsvm.dual" in worked("show")
    assert worked("show", "lsvm").startswith("The Lagrangian support vector machine")
    assert "maximise    Σᵢ αᵢ − ½‖Z'α‖²" in worked("show", "lsvm.dual")
    assert "lsvm.primal" in worked("catalogue", "lsvm")

    checks = verify(0, ("lsvm",))
    assert falls_short(checks) == []
    assert {check.program for check in checks} == {"lsvm.primal", "lsvm.dual"}
    assert {check.verdict for check in checks} == {"ok"}
    assert "lsvm" in families()

    report = tmp_path / "report.html"
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # of pictures that are left out
        found = compare(str_data(table), ["svm", "lsvm"])
        write_report(found, report)
    exact, fast = found.rows[2:]
    assert (exact.solver, fast.solver, exact.claim, fast.claim) == ("exact", "ascent", "optimal", "optimal")
    assert fast.objective == pytest.approx(exact.objective, rel=1e-6)
    assert fast.complexity == exact.complexity > 0
    page = report.read_text(encoding="utf-8")
    assert page.count("<svg") == 2 * 3
    assert "every multiplier is 0" not in page
    assert "½‖w‖² + ½ Σᵢ Cᵢ ξᵢ²" in page

    text = worked("duals", "--method", "lsvm", "--data", table, "--set", "C=0.5", "--top", 2)
    assert "Lagrangian SVM on table.csv (C=0.5)" in text
    assert "its price: Cᵢ ξᵢ" in text
    assert "optimal within the tolerance" in text
    model = tmp_path / "m.skops"
    assert "optimal within the tolerance" in worked(
        "fit", table, "--method", "lsvm", "--C", 2, "--out", model
    )
    assert len(worked("predict", model, table).split()) >= 30
    refused = run("fit", table, "--method", "lsvm", "--C", -1)
    assert (refused.exit_code, "Traceback" in refused.output) == (2, False)
    assert "method 'lsvm' of the package 'lagrangian': C must be finite and positive" in refused.output
    assert run("fit", table, "--method", "lsvm", "--set", "D=1").exit_code == 2


def str_data(table):
    values = np.loadtxt(table, delimiter=",")
    return Dataset("table", values[:, :-1], values[:, -1].astype(int), target_names=("no", "yes"))


def test_a_notebook_registers_a_method_and_registers_it_again(site, table):
    (site / "notebook.py").write_text(EXAMPLE, encoding="utf-8")
    method = importlib.import_module("notebook").METHOD
    polyopt.register(method)
    assert find_method("lsvm") is method
    changed = replace(method, title="Another title")
    polyopt.register(changed)  # as when a cell is run again
    assert find_method("lsvm") is changed
    with pytest.raises(ValueError, match=r"there is a method 'rmm' already, of polyopt"):
        polyopt.register(replace(method, name="rmm"))
    with pytest.raises(ValueError, match=r"a family 'svm' of programs already, in formulations\.svm"):
        polyopt.register(
            replace(method, name="other", families={"svm": "notebook"}, programs=("svm.primal", "svm.dual"))
        )
    with pytest.raises(TypeError, match=r"by a polyopt\.Method, not by str"):
        polyopt.register("lsvm")
    machine = method.make("exact", {"C": 1.0}).fit(*(np.eye(4), [0, 0, 1, 1]))
    with pytest.raises(TypeError, match="no derivatives are known of LagrangianSVM"):
        sensitivities(machine)
    assert METHODS["rmm"] is BUILT_IN["rmm"]


BROKEN = {
    "no module": ("lsvm = nowhere:METHOD", "", r"cannot be read: ModuleNotFoundError: .*'nowhere'"),
    "no name": ("lsvm = broken:OTHER", "", r"cannot be read: AttributeError: .*OTHER"),
    "no syntax": ("lsvm = broken:METHOD", "def", r"cannot be read: SyntaxError"),
    "leaves": ("lsvm = broken:METHOD", "raise SystemExit(3)", r"cannot be read: SystemExit: 3"),
    "a number": ("lsvm = broken:METHOD", "METHOD = 3", r"cannot be read: TypeError"),
    "a word": ("lsvm = broken:METHOD", "METHOD = 'lsvm'", r"left out: .* not by str"),
    "a function that fails": ("lsvm = broken:f", "def f():\n    return 1 / 0", r"ZeroDivisionError"),
    "a wrong entry": (
        "lsvm = broken:f",
        "from polyopt import Method\ndef f():\n    return Method('L', '', {}, ('a', 'b'), 'x', 'y')",
        r"cannot be read: a method's name must be small letters, digits and hyphens, not 'L'",
    ),
    "a name that is taken": (
        "lsvm = broken:f",
        "from dataclasses import replace\nfrom polyopt.methods import find_method\n"
        "def f():\n    return [replace(find_method('svm'), title='mine')]",
        r"left out: there is a method 'svm' already, of polyopt",
    ),
    "no entry": ("lsvm", "", r"the entry points of the package 'bad-one' cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_entry_is_told_and_takes_nothing_away(kind, site):
    points, code, sentence = BROKEN[kind]
    install(site, "bad-one", points, broken=code)
    install(site, "lagrangian", "lsvm = lagrangian:METHOD", lagrangian=EXAMPLE)
    (told_of,) = told(lambda: list(METHODS))
    assert re.search(sentence, told_of)
    assert "'bad-one'" in told_of
    assert list(METHODS) == [*BUILT_IN, "lsvm"]
    assert all(METHODS[name] is method for name, method in BUILT_IN.items())


def test_an_entry_point_may_give_several_and_one_of_them_may_be_wrong(site):
    code = EXAMPLE + (
        "\nfrom dataclasses import replace\n"
        "def several():\n    yield METHOD\n    yield replace(METHOD, name='rmm')\n"
        "    yield replace(METHOD, name='lsvm-cheap', settings={'C': 0.1})\n"
    )
    install(site, "lagrangian", "all = lagrangian:several", lagrangian=code)
    (sentence,) = told(lambda: list(METHODS))
    assert "there is a method 'rmm' already, of polyopt" in sentence
    assert list(METHODS) == [*BUILT_IN, "lsvm", "lsvm-cheap"]


FAULTS = {
    "def pairs(seed=0):": "def pairs(seed=0):\n    raise KeyError('pairs')",
    "    def _fit_binary(self, X, y, weights, rows):": (
        "    def _fit_binary(self, X, y, weights, rows):\n        1 / 0"
    ),
}


def faulty(place):
    return re.sub(re.escape(place) + ".*", lambda _: FAULTS[place], EXAMPLE)


def test_programs_that_cannot_be_stated_fail_in_verify_and_are_left_out_of_lists(site):
    install(site, "lagrangian", "lsvm = lagrangian:METHOD", lagrangian=faulty("def pairs(seed=0):"))
    (check,) = verify(0, ("lsvm",))
    assert (check.verdict, falls_short([check])) == ("FAILS", ["lsvm"])
    assert check.where == "method 'lsvm' of the package 'lagrangian': KeyError: 'pairs'"
    text = worked("show")
    assert "warning: the programs of lsvm are left out. method 'lsvm' of the package 'lagrangian'" in text
    assert "rmm.qp" in text
    refused = run("show", "lsvm.primal")
    assert refused.exit_code == 2
    assert "of the package 'lagrangian': KeyError" in refused.output


def test_an_estimator_that_fails_has_rows_that_say_so(site, table, tmp_path):
    code = faulty("    def _fit_binary(self, X, y, weights, rows):")
    install(site, "lagrangian", "lsvm = lagrangian:METHOD", lagrangian=code)
    found = compare(str_data(table), ["lsvm", "svm"])
    sentence = "method 'lsvm' of the package 'lagrangian': ZeroDivisionError: division by zero"
    assert [row.status for row in found.rows[:2]] == [sentence] * 2
    assert [row.claim for row in found.rows] == ["none", "none", "optimal", "optimal"]
    write_report(found, tmp_path / "r.html")
    for command in (("fit", table), ("duals", "--data", table)):
        done = run(*command, "--method", "lsvm")
        assert (done.exit_code, "Traceback" in done.output) == (2, False)
        assert sentence in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {}, "tuned": "C", "rule": "by hand", "tuning": "lagrangian.nowhere"}, "AttributeError"),
        ({"home": "lagrangian.Nobody"}, "AttributeError"),
        ({"home": "nowhere.Nobody"}, "ModuleNotFoundError"),
        ({"crosschecks": ("nowhere",)}, ""),
    ],
)
def test_what_an_entry_names_wrongly_is_told_when_it_is_needed(changes, message, site, table):
    code = f"{EXAMPLE}\nfrom dataclasses import replace\nMETHOD = replace(METHOD, **{changes!r})\n"
    install(site, "lagrangian", "lsvm = lagrangian:METHOD", lagrangian=code)
    if "crosschecks" in changes:
        (sentence,) = told(lambda: all_checks())
        assert "cross-checks are left out. method 'lsvm' of the package 'lagrangian'" in sentence
    else:
        rows = compare(str_data(table), ["lsvm", "svm"]).rows
        assert all(f"of the package 'lagrangian': {message}" in row.status for row in rows[:2])
        assert run("fit", table, "--method", "lsvm").exit_code == 2
    assert "B is not a setting of svm" in run("fit", table, "--method", "svm", "--B", 2).output
    assert worked("fit", table, "--method", "svm")


def test_an_installed_method_is_found_by_the_program_itself(tmp_path, table):
    """The real thing, in a process of its own, beside a package that is broken."""
    install(tmp_path, "lagrangian", "lsvm = lagrangian:METHOD", lagrangian=EXAMPLE)
    install(tmp_path, "bad-one", "x = nowhere:METHOD")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "polyopt", "compare", "--data", str(table), "--methods", "lsvm", "--csv"],
        capture_output=True, text=True, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[1:3] for line in done.stdout.splitlines()[1:]] == [
        ["lsvm", "exact"],
        ["lsvm", "ascent"],
    ]
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "warning: the package 'bad-one' registers 'x' as a method of polyopt, which cannot"
    )


# -- what an entry may hold ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "My method"}, "a method's name must be small letters, digits and hyphens, not 'My method'"),
        ({"title": ""}, "method 'rmm': title must be a word or more, not ''"),
        ({"counts": "trees"}, "counts must be 'support vectors' or 'faces', not 'trees'"),
        ({"programs": ("rmm.qp",)}, r"programs must be the names of a program and of its dual"),
        ({"programs": ("rmm.qp", "cpm.face")}, r"programs must be of its families \(rmm, rmm_bounds\)"),
        ({"duals_of": "svm.dual"}, r"programs must be of its families"),
        ({"families": {}}, r"of its families \(there are none\)"),
        ({"home": "SVM"}, "home must be a module and a name in it, with a dot between, not 'SVM'"),
        ({"slopes": "of rmm"}, "slopes must be a module and a name in it"),
        ({"crosschecks": ("a b",)}, "must be the names of modules, not 'a b'"),
        ({"tuned": ""}, "tuned, rule and tuning must be given together"),
    ],
)  # fmt: skip
def test_an_entry_that_no_command_could_use_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(BUILT_IN["rmm"], **changes)


def test_a_size_that_is_not_kept_is_not_counted():
    class Bare:
        pass

    assert BUILT_IN["svm"].complexity(Bare()) is None
    assert isinstance(BUILT_IN["svm"], Method)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("C", r"--set takes NAME=VALUE, not 'C'"),
        ("=1", r"--set takes NAME=VALUE, not '=1'"),
        ("width=2", r"--set: svm has no setting 'width'; it has C, kernel, gamma"),
        ("solver=exact", r"--set: svm has no setting 'solver'"),
        ("degree=word", r"'degree' parameter.*'word'"),
    ],
)
def test_settings_without_an_option_are_checked(given, message, table):
    done = run("fit", table, "--method", "svm", "--set", given)
    assert done.exit_code == 2
    assert re.search(message, done.output), done.output


def test_any_setting_can_be_given(table):
    text = worked("fit", table, "--method", "svm-rbf", "--set", "kernel=poly", "--set", "degree=2")
    assert "kernel=poly, degree=2" in text


def test_the_mathematics_needs_no_list_of_its_families():
    assert all(hasattr(formulations.family(name), "pairs") for name in FAMILIES)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = formulations.nothing
