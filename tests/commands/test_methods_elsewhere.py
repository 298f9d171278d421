"""Methods of other packages: the example of the guide works as built-in ones do, a broken one harms none."""

import importlib
import re
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import refused, registry, run, small_table, worked

import polyopt
from formulations.language.consistency import misprints
from polyopt.base.text import escape
from polyopt.compare import compare
from polyopt.crosschecks import all_checks
from polyopt.datasets import Dataset
from polyopt.methods import METHODS, find_method
from polyopt.methods.programs import entries, find_programs
from polyopt.methods.registry import BUILT_IN, families
from polyopt.report import write_report
from polyopt.sensitivity import sensitivities
from polyopt.verify import falls_short, verify

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"
_, _, SECTION = GUIDE.read_text(encoding="utf-8").partition("## Adding a method")
EXAMPLE = re.search(r"```python\n(.*?)```", SECTION, re.S)[1]


@pytest.fixture
def table(tmp_path):
    return small_table(tmp_path)


@pytest.fixture
def site(tmp_path):
    """A folder on the path to install packages into, and a registry that has not looked there yet."""
    folder = tmp_path / "site"
    folder.mkdir()
    sys.path.insert(0, str(folder))
    before = set(sys.modules)
    with registry():
        yield folder
    sys.path.remove(str(folder))
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


def test_guide_example_works_everywhere(site, table, tmp_path):
    """A program, its dual, its loop and its entry, in another package: it gets what built-in methods get."""
    install(site, "lagrangian", "lsvm = lagrangian:METHOD", lagrangian=EXAMPLE)
    assert told(lambda: list(METHODS)) == []
    assert list(METHODS) == [*BUILT_IN, "lsvm"]
    assert "lsvm: lsvm.primal, lsvm.dual" in worked("show")
    assert worked("show", "lsvm").startswith("The Lagrangian support vector machine")
    assert "maximise    Σᵢ αᵢ − ½‖Σᵢ αᵢ zᵢ‖²" in worked("show", "lsvm.dual")

    assert [misprints(entry.program) for entry in entries(("lsvm",))] == [[], []]
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
    assert page.count("<svg") == 2 * 4
    assert "every multiplier is 0" not in page
    assert escape(find_programs("lsvm.primal")[0].objective_latex, quote=True) in page

    text = worked("duals", "--method", "lsvm", "--data", table, "--set", "C=0.5", "--top", 2)
    assert "Lagrangian SVM on table.csv (C=0.5)" in text
    assert "the price of sample i's margin, Cᵢ ξᵢ" in text
    assert "optimal within the tolerance" in text
    model = tmp_path / "m.skops"
    assert "optimal within the tolerance" in worked(
        "fit", table, "--method", "lsvm", "--C", 2, "--out", model
    )
    assert len(worked("predict", model, table).split()) >= 30
    said = "method 'lsvm' of the package 'lagrangian': C must be positive and finite"
    assert said in refused("fit", table, "--method", "lsvm", "--C", -1)
    refused("fit", table, "--method", "lsvm", "--set", "D=1")


def str_data(table):
    values = np.loadtxt(table, delimiter=",")
    return Dataset("table", values[:, :-1], values[:, -1].astype(int), target_names=("no", "yes"))


def test_method_is_registered_again(site, table):
    """A method of a session is replaced by a later one of its name; taken names are refused."""
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
    "leaves": ("lsvm = broken:METHOD", "raise SystemExit(3)", r"cannot be read: SystemExit: 3"),
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
def test_broken_entry_is_told(kind, site):
    """A package with a broken entry is named in a warning, and all other methods are there."""
    points, code, sentence = BROKEN[kind]
    install(site, "bad-one", points, broken=code)
    install(site, "lagrangian", "lsvm = lagrangian:METHOD", lagrangian=EXAMPLE)
    (told_of,) = told(lambda: list(METHODS))
    assert re.search(sentence, told_of)
    assert "'bad-one'" in told_of
    assert list(METHODS) == [*BUILT_IN, "lsvm"]
    assert all(METHODS[name] is method for name, method in BUILT_IN.items())


FAULTS = {
    "def pairs(seed=0):": "def pairs(seed=0):\n    raise KeyError('pairs')",
    "    def _fit_binary(self, X, y, weights, rows):": (
        "    def _fit_binary(self, X, y, weights, rows):\n        1 / 0"
    ),
}


def faulty(place):
    return re.sub(re.escape(place) + ".*", lambda _: FAULTS[place], EXAMPLE)


def test_unstated_programs_fail(site):
    """Programs that cannot be stated fail in verify, and lists leave them out with a warning."""
    install(site, "lagrangian", "lsvm = lagrangian:METHOD", lagrangian=faulty("def pairs(seed=0):"))
    (check,) = verify(0, ("lsvm",))
    assert (check.verdict, falls_short([check])) == ("FAILS", ["lsvm"])
    assert check.where == "method 'lsvm' of the package 'lagrangian': KeyError: 'pairs'"
    text = worked("show")
    assert "warning: the programs of lsvm are left out. method 'lsvm' of the package 'lagrangian'" in text
    assert "rmm.qp" in text
    assert "of the package 'lagrangian': KeyError" in refused("show", "lsvm.primal")


def test_failing_estimator_is_told(site, table, tmp_path):
    """The rows, the report and the commands name the package and the error of its estimator."""
    code = faulty("    def _fit_binary(self, X, y, weights, rows):")
    install(site, "lagrangian", "lsvm = lagrangian:METHOD", lagrangian=code)
    found = compare(str_data(table), ["lsvm", "svm"])
    sentence = "method 'lsvm' of the package 'lagrangian': ZeroDivisionError: division by zero"
    assert [row.status for row in found.rows[:2]] == [sentence] * 2
    assert [row.claim for row in found.rows] == ["none", "none", "optimal", "optimal"]
    write_report(found, tmp_path / "r.html")
    for command in (("fit", table), ("duals", "--data", table)):
        assert sentence in refused(*command, "--method", "lsvm")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {}, "tuned": "C", "rule": "by hand", "tuning": "lagrangian.nowhere"}, "AttributeError"),
        ({"home": "lagrangian.Nobody"}, "AttributeError"),
        ({"home": "nowhere.Nobody"}, "ModuleNotFoundError"),
        ({"crosschecks": ("nowhere",)}, ""),
    ],
)
def test_wrong_name_in_entry_is_told(changes, message, site, table):
    """What an entry names and is not there is told when it is used, and harms no other method."""
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
