"""The mathematics is documented by one template, the public API by numpydoc sections."""

import doctest
import inspect
import pydoc
import re
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from itertools import pairwise

import pytest

import polyopt
from formulations import FAMILIES, family
from formulations.language.program import Program
from polyopt.methods.programs import entries_of, pairs_of, text_of_family

HEADINGS = [
    "Problem", "Variables and shapes", "Programs", "Recovery", "Multipliers", "Infeasible when",
    "Reference", "Example",
]  # fmt: skip
by_family = pytest.mark.parametrize("name", FAMILIES)


@by_family
def test_family_follows_template(name):
    """Its docstring has the sections of the template, in their order."""
    docstring = inspect.getdoc(family(name))
    underlined = [line for line, rule in pairwise(docstring.splitlines()) if rule == "-" * len(line)]
    assert [heading for heading in underlined if heading in HEADINGS] == HEADINGS
    assert re.search(r"\(\d{4}\)", docstring), "the reference gives a year"
    assert re.search(r"eq\. \(\d", docstring), "the reference gives an equation number"


def makers(module):
    """The functions of a module that make a program, by name."""
    functions = {name: thing for name, thing in vars(module).items() if inspect.isfunction(thing)}
    return {
        name: thing
        for name, thing in functions.items()
        if thing.__module__ == module.__name__ and not name.startswith("_")
        if inspect.signature(thing).return_annotation in ("Program", Program)
    }


@by_family
def test_programs_of_family_are_named(name):
    """In the family's docstring, and stated on its page."""
    module = family(name)
    entries = entries_of(name, module)
    assert makers(module)
    assert set(makers(module)) <= set(re.findall(r"\w+", inspect.getdoc(module)))
    page = text_of_family(module, entries)
    for entry in entries:
        assert entry.program.objective_text in page
        assert all(row.text in page and row.meaning in page for row in entry.program.rows)


@by_family
def test_examples_are_true(name):
    """The doctests of a module print what they show."""
    results = doctest.testmod(family(name))
    assert results.attempted >= 4
    assert results.failed == 0


@by_family
def test_family_has_an_example(name):
    """Its docstring runs one of its programs."""
    pairs = pairs_of(name, family(name))
    printed = "\n".join(pair.demonstrate() for pair in pairs)
    gaps = [float(text) for text in re.findall(r"^  gap +(\S+)", printed, re.M)]
    residuals = [float(text) for text in re.findall(r"^  worst residual +(\S+)", printed, re.M)]
    assert len(gaps) == len(residuals) == len(pairs)
    assert max(gaps + residuals) < 1e-6
    assert all(word in printed for word in ("primal value", "dual value", "recovered value"))


MODULES = [
    "polyopt", "polyopt.verify", "polyopt.certificates", "polyopt.datasets", "polyopt.methods",
    "polyopt.polytope", "polyopt.plots", "formulations.language.program",
]  # fmt: skip


def public_callables():
    """Functions and classes by name; errors and enumerations have no parameters to be documented."""
    found = {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in map(import_module, MODULES)
        for name in module.__all__
    }
    for name in FAMILIES:
        found |= {f"{name}.{key}": value for key, value in makers(family(name)).items()}
    without = (Enum, BaseException)
    return {
        key: value
        for key, value in found.items()
        if callable(value) and not (inspect.isclass(value) and issubclass(value, without))
    }


@pytest.mark.parametrize(("name", "thing"), sorted(public_callables().items()))
def test_every_parameter_is_documented(name, thing):
    """By numpydoc sections, or beside the fields of a dataclass; one parameter alone is in the summary."""
    docstring = inspect.getdoc(thing) or ""
    assert docstring, f"{name} has no docstring"
    parameters = [*inspect.signature(thing).parameters.keys() - {"self", "args", "kwargs", "values"}]
    if len(parameters) <= 1 or re.search(r"rguments as in|from the (dual's|multipliers)", docstring):
        return
    section = re.search(r"(Parameters|Attributes)\n-+\n.*", docstring, re.S)
    if section is None and is_dataclass(thing):
        text, pattern = inspect.getsource(thing), r"#:.*\n    {0}: |^    {0}: .*  #: "
    else:
        text, pattern = section[0], r"(?:^|, )\*{{0,2}}{0}(?:, [\w, ]+)?(?: :|$)"
    for parameter in parameters:
        assert re.search(pattern.format(parameter), text, re.M), f"{name} does not document {parameter}"


ESTIMATORS = [name for name in polyopt.__all__ if hasattr(getattr(polyopt, name), "fit")]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_example_of_estimator_is_true(name):
    """The docstring of every public estimator ends with a short example, which runs as it says."""
    estimator = getattr(polyopt, name)
    tests = doctest.DocTestFinder(recurse=False).find(estimator, name, import_module(estimator.__module__))
    (example,) = tests
    assert 3 <= len(example.examples) <= 8
    assert doctest.DocTestRunner().run(example).failed == 0


def test_help_begins_with_an_example():
    """help(polyopt) is at most two pages, and fits, explains and certifies in its first lines."""
    lines = pydoc.render_doc(polyopt, renderer=pydoc.plaintext).splitlines()
    assert len(lines) <= 100
    first = "\n".join(lines[:20])
    assert all(word in first for word in (".fit(", ".explain(", ".certificate("))
    assert doctest.testmod(polyopt) == doctest.TestResults(failed=0, attempted=5)


def test_dir_has_public_names_alone():
    """dir(polyopt) has the public names and the version; a star import has the same names."""
    assert sorted(dir(polyopt)) == sorted([*polyopt.__all__, "__version__"])
    taken = {}
    exec("from polyopt import *", taken)
    assert set(taken) - {"__builtins__"} == set(polyopt.__all__)
