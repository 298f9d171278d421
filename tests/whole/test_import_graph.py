"""Each floor of the house imports only the floors under it."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import formulations
import polyopt

ROOTS = {"formulations": Path(formulations.__path__[0]), "polyopt": Path(polyopt.__path__[0])}

# Lowest first. A file may import floors under its own, and its own.
FLOORS = [
    ("what programs are made of", ("formulations.language",)),
    ("every mathematical program", ("formulations",)),
    ("files, threads, progress; data; kernels in C", ("polyopt.base", "polyopt.datasets", "polyopt.native")),
    ("samples, kernels, error bounds", ("polyopt.linalg",)),
    ("polytopes as sets", ("polyopt.check", "polyopt.polytope")),
    ("what a certificate says", ("polyopt.certificates",)),
    ("what several families are optimised with", ("polyopt.optim",)),
    ("scikit-learn classes in general", ("polyopt.estimators", "polyopt.explanations")),
    ("samples in blocks, on many machines", ("polyopt.scale",)),
    ("margins", ("polyopt.margin",)),
    ("the Convex Polytope Machine", ("polyopt.cpm",)),
    ("polyhedral and sparse machines", ("polyopt.polyhedral", "polyopt.sparse")),
    (
        "the methods by name, models in files; exact against fast, identities, pictures, slopes",
        (
            "polyopt.compare",
            "polyopt.crosschecks",
            "polyopt.exercises",
            "polyopt.foreign",
            "polyopt.methods",
            "polyopt.models",
            "polyopt.plots",
            "polyopt.sensitivity",
            "polyopt.verify",
        ),
    ),
    (
        "what a person calls and sees",
        (
            "polyopt.cli",
            "polyopt.handbook",
            "polyopt.lab",
            "polyopt.lecture",
            "polyopt.report",
            "polyopt.__main__",
        ),
    ),
]


def floor_of(module: str) -> int | None:
    for height, (_, names) in enumerate(FLOORS):
        if any(module == name or module.startswith(name + ".") for name in names):
            return height
    return None


def modules() -> list[tuple[str, Path]]:
    found = []
    for package, root in ROOTS.items():
        for path in sorted(root.rglob("*.py")):
            parts = [package, *path.relative_to(root).with_suffix("").parts]
            found.append((".".join(parts).removesuffix(".__init__"), path))
    return found


@cache
def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_every_module_has_a_floor():
    """A new room is given one in FLOORS; the front door names everything, but imports it lazily."""
    assert [name for name, _ in modules() if floor_of(name) is None] == ["polyopt"]


@pytest.mark.parametrize("height", range(len(FLOORS)), ids=[title for title, _ in FLOORS])
def test_floor_imports_lower_floors_alone(height):
    """And itself."""
    above = [
        f"{module} imports {imported}"
        for module, path in modules()
        if floor_of(module) == height
        for imported in imports_of(path)
        if (floor_of(imported) or 0) > height
    ]
    assert above == []


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Of every module that leads back to itself, the modules that it is in a circle with."""
    reached = {module: set(imported) for module, imported in graph.items()}
    for middle in graph:
        for module in graph:
            if middle in reached[module]:
                reached[module] |= reached[middle]
    return [
        sorted(other for other in graph if other in reached[module] and module in reached[other])
        for module in sorted(graph)
        if module in reached[module]
    ]


def test_no_import_circles():
    """Neither at once, nor by an import within a function, nor for types alone. Rooms' doors are left out."""
    doors = {module for module, path in modules() if path.name == "__init__.py"}
    known = {module for module, _ in modules()} - doors
    graph = {module: imports_of(path) & known for module, path in modules() if module in known}
    assert circles(graph) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c"], ["b", "c"]]


def test_formulations_never_import_polyopt():
    """The programs can be read and run alone."""
    for module, path in modules():
        if module.startswith("formulations"):
            assert not any(name.split(".")[0] == "polyopt" for name in imports_of(path)), module


def test_front_door_imports_nothing_heavy():
    """`import polyopt` loads no solver, no pandas and no scikit-learn."""
    script = (
        "import sys, polyopt;"
        "heavy = {'cvxpy', 'matplotlib', 'pandas', 'sklearn', 'rich', 'typer'};"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}))"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_unknown_name_is_attribute_error():
    """A name that is not public is an AttributeError, as of any module."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = polyopt.nonsense


ESTIMATORS = sorted(name for name in polyopt.__all__ if hasattr(getattr(polyopt, name), "fit"))


def test_estimators_load_at_most_sixty_modules():
    """Of this package: certificates' files, the checker, polytopes and methods are loaded when asked for."""
    script = (
        "import importlib, sys\n"
        "ours = lambda: [m for m in sys.modules if m.partition('.')[0] in ('polyopt', 'formulations')]\n"
        f"for name in {sorted(ESTIMATORS)}:\n"
        "    for module in ours():\n"
        "        del sys.modules[module]\n"
        "    getattr(importlib.import_module('polyopt'), name)\n"
        "    print(name, len(ours()))\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    loaded = {name: int(count) for name, count in map(str.split, out.splitlines())}
    assert loaded.keys() == set(ESTIMATORS)
    assert max(loaded.values()) <= 60, loaded
