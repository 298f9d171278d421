"""What is left out means the same wherever it can be left out."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import formulations
import polyopt
import polyopt.certificates
import polyopt.cli

EVERYWHERE = {
    # whatever is random is the same in every run, and whatever is asked twice is not
    "seed": {0}, "seeds": {1}, "splits": {1}, "random_state": {0},
    # nothing is limited, silent, told, overwritten, kept or proven that nobody asked for
    "time_limit": set(), "progress": set(), "n_jobs": set(),
    "quiet": {False}, "verbose": {False}, "overwrite_input": {False}, "keep_data": {False},
    "keep_interrupted": {False}, "prove": {False}, "warm_start": {False}, "large": {False},
    "json": {False}, "as_json": {False}, "csv": {False}, "decimal": {"."},
    # an argument is a finite number, of the sample itself, as it is
    "infinite": {False}, "nan": {False}, "finite": {True}, "low": {1}, "precomputed": {False},
    "two_sided": {True}, "latex": {False}, "entry_error": {0.0},
    # of programs and machines; the worth of a bound's parts
    "C": {1.0}, "B": {2.0, float("inf")}, "E": {1.0}, "radius": {1e4}, "positives": {"cell"}, "delta": {0.05},
    "loss": {"sum"}, "margin": {"total", 1.0}, "n_faces": {3, (1, 2, 3, 4, 6, 8)}, "anneal": {True},
    "average": {True}, "perplexity": {1.0}, "feature_scale": {1.0}, "pocket": {True}, "double_sided": {False},
    "degree": {3}, "coef0": {0.0}, "threshold": {0.0}, "rule": {"corrected", ""}, "ridge": {0.1, 1e-3, 0.0},
    "l1": {0.0}, "group": {0.0}, "cache_size": {500.0, 100_000}, "certificate_tol": {1e-6},
    # of the cross-entropy method, the same by whatever door
    "n_samples": {100}, "rho": {0.1}, "beta": {0.5}, "restarts": {0}, "batch": {False}, "p0": {0.5},
}  # fmt: skip
CERTIFIED = {"tol": {1e-6}, "max_iter": {2000}, "D": {0.5, 1.0}}


def public(home):
    """The functions, classes and methods that a module offers by name."""
    for name in getattr(home, "__all__", ()):
        thing = getattr(home, name)
        if inspect.isfunction(thing) or (inspect.isclass(thing) and inspect.isfunction(thing.__init__)):
            yield thing
        if inspect.isclass(thing) and thing.__module__.split(".")[0] in ("polyopt", "formulations"):
            methods = inspect.getmembers(thing, inspect.isfunction)
            yield from (method for name, method in methods if not name.startswith("_"))


def commands():
    """The commands of the command line, each a function of its module."""
    for info in pkgutil.iter_modules(polyopt.cli.__path__):
        module = import_module(f"polyopt.cli.{info.name}")
        if inspect.isfunction(function := getattr(module, info.name, None)):
            yield function


def offered():
    modules = [
        import_module(f"formulations.{info.name}") for info in pkgutil.iter_modules(formulations.__path__)
    ]
    things = [thing for module in (polyopt, *modules) for thing in public(module)]
    return list(dict.fromkeys([*things, *commands()]))


def default(thing):
    """What is taken where nothing is given."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(thing).parameters.items()
        if parameter.default is not parameter.empty
    }


@pytest.fixture(scope="module")
def defaults():
    """Of each public function and class."""
    return {thing: default(thing) for thing in offered()}


def taken(defaults, names):
    """The values that some function takes for each name, with their types, and None apart."""
    found = {name: [given[name] for given in defaults.values() if name in given] for name in names}
    return {
        name: {(value, type(value)) for value in values if value is not None}
        for name, values in found.items()
        if values
    }


def test_an_argument_has_one_default_wherever_it_is(defaults):
    """None is no value of its own: it is what is given elsewhere, chosen by the data, or no limit."""
    usual = {name: {(value, type(value)) for value in values} for name, values in EVERYWHERE.items()}
    assert taken(defaults, EVERYWHERE) == usual


def test_every_certificate_is_as_close_and_as_patient_unless_told(defaults):
    certified = {thing: given for thing, given in defaults.items() if thing.__name__.startswith("certify_")}
    for info in pkgutil.iter_modules(polyopt.certificates.__path__):
        if info.name != "projection":  # of a few numbers, and closer
            module = import_module(f"polyopt.certificates.{info.name}")
            certified |= {f: default(f) for f in public(module) if f.__name__.startswith("certify_")}
    usual = {name: {(value, type(value)) for value in values} for name, values in CERTIFIED.items()}
    assert len(certified) >= 12
    assert taken(certified, CERTIFIED) == usual


CHANGED = {  # what is filled in as it goes: counts, streams, searches, a task with its answer
    "FaceTerms", "Pair", "PolyceptronStream", "PolytopeStream", "State", "Statement", "Step", "Tally",
    "Work", "_Answer", "_Run", "_Search", "_Side", "_State",
}  # fmt: skip


def test_records_are_not_changed_but_for_those_that_are_filled_in():
    found = set()
    for package in (polyopt, formulations):
        for path in Path(package.__path__[0]).rglob("*.py"):
            records = re.findall(r"^@dataclass\b(.*)\nclass (\w+)", path.read_text(encoding="utf-8"), re.M)
            found |= {name for how, name in records if "frozen=True" not in how}
    assert found == CHANGED
