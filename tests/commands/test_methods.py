"""A method is its entry: each works through the commands, and no module outside the entries names one."""

import ast
import importlib
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.commands import small_table, worked

import polyopt
from formulations import FAMILIES
from polyopt.crosschecks import all_checks
from polyopt.methods import DEFAULT_METHOD, DEFAULT_METHODS, METHODS
from polyopt.methods.method import named
from polyopt.methods.programs import entries
from polyopt.methods.registry import BUILT_IN, families, method_of

ROOT = Path(polyopt.__path__[0]).parent


@pytest.fixture
def table(tmp_path):
    return small_table(tmp_path)


@pytest.mark.parametrize("name", BUILT_IN)
def test_method_is_shown_and_explained(name, table):
    """Each method has its programs shown, and its multipliers and slopes explained."""
    method = METHODS[name]
    shown = worked("show", name)
    assert name.replace("-", "_") in families() or worked("show", method.programs[0]).strip() in shown
    multipliers = worked("duals", "--method", name, "--data", table, "--top", 1)
    assert multipliers.startswith(method.title)
    assert "How the optimal value p moves" in multipliers


def test_programs_of_methods_are_listed():
    """The programs that methods name are those that verify goes over."""
    assert set(families()) == set(FAMILIES)
    listed = {entry.name for entry in entries()}
    for method in BUILT_IN.values():
        assert {*method.programs, method.duals_of or method.programs[0]} <= listed
        assert set(method.families) <= {entry.family for entry in entries(method.families)}


@pytest.mark.parametrize("name", BUILT_IN)
def test_names_of_entry_are_there(name):
    """What an entry names is there, under the name by which saved models call it."""
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
    assert getattr(polyopt, cls.__name__) is cls
    parameters = cls(**method.settings).get_params()
    assert {"solver", "time_limit", *filter(None, [method.tuned])} <= set(parameters)
    assert method_of(cls()) in [other for other in BUILT_IN.values() if other.home == method.home]


def test_crosscheck_files_are_named():
    """Every file of cross-checks is named by an entry, and no check has the name of another."""
    folder = ROOT / "polyopt" / "crosschecks"
    files = {path.stem for path in folder.glob("*.py") if "\nCHECKS = " in path.read_text(encoding="utf-8")}
    assert files == {m.rpartition(".")[2] for method in BUILT_IN.values() for m in method.crosschecks}
    assert len({check.name for check in all_checks()}) == len(all_checks())


def test_every_classifier_has_an_entry():
    """LogisticSearch chooses the settings of a method; the other classifiers are methods."""
    from sklearn.base import is_classifier

    public = [getattr(polyopt, name) for name in polyopt.__all__]
    found = {cls.__name__ for cls in public if isinstance(cls, type) and {"fit", "predict"} <= set(dir(cls))}
    homes = {method.home.rpartition(".")[2] for method in BUILT_IN.values()}
    assert found - homes == {"LogisticSearch"}
    assert all(is_classifier(getattr(polyopt, name)()) for name in homes)
    assert {DEFAULT_METHOD, *DEFAULT_METHODS} <= set(BUILT_IN)


def test_type_checkers_see_public_names():
    """The names that type checkers read are public, and lead where the lazy ones do."""
    tree = ast.parse(Path(polyopt.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    pairs = [(node.module, alias.name) for node in block.body for alias in node.names]
    assert {name for _, name in pairs} <= set(polyopt.__all__)
    for module, name in pairs:
        assert getattr(polyopt, name) is getattr(importlib.import_module(module), name, None) or (
            name == "datasets"
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "My method"}, "a method's name must be small letters, digits and hyphens, not 'My method'"),
        ({"title": ""}, "method 'rmm': title must be a word or more, not ''"),
        ({"counts": "trees"}, "counts must be 'support vectors' or 'faces', not 'trees'"),
        ({"programs": ("rmm.qp",)}, r"programs must be the names of a program and of its dual"),
        (
            {"programs": ("rmm.qp", "cpm.face")},
            r"programs must be of its families \(rmm, rmm_bounded, rmm_bounds, soft_rmm\)",
        ),
        ({"duals_of": "svm.dual"}, r"programs must be of its families"),
        ({"variants": {"B": ("svm.primal", "svm.dual")}}, r"programs must be of its families"),
        ({"families": {}}, r"of its families \(there are none\)"),
        ({"families": {"r-mm": "rmm"}}, "families must be named by letters, digits and underscores"),
        ({"home": "SVM"}, "home must be a module and a name in it, with a dot between, not 'SVM'"),
        ({"slopes": "of rmm"}, "slopes must be a module and a name in it"),
        ({"crosschecks": ("a b",)}, "must be the names of modules, not 'a b'"),
        ({"tuned": ""}, "tuned, rule and tuning must be given together"),
    ],
)  # fmt: skip
def test_unusable_entry_is_refused(changes, message):
    """An entry that no command could use is refused by its wrong field."""
    with pytest.raises(ValueError, match=message):
        replace(BUILT_IN["rmm"], **changes)
