"""Files and functions that fit a reader's head, and arguments that say what they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from helpers.cases import in_turn

import benchmarks
import formulations
import polyopt

PACKAGES = [Path(package.__path__[0]) for package in (formulations, polyopt, benchmarks)]
FILE, FUNCTION = 350, 60  # lines at most; of a function without its docstring

# What is larger still. The lists only shrink: what fits now is to be taken off them.
LARGE_FILES: set[str] = set()
# A program of its own, which stands in one file so that it can be copied, and the lines it may have.
ALONE = {"polyopt/check/check.py": 660}
LARGE_FUNCTIONS: set[str] = set()


def sources() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            yield path.relative_to(package.parent).as_posix(), path.read_text(encoding="utf-8")


parsed = cache(ast.parse)


def large_functions(source: str, most: int = FUNCTION) -> list[str]:
    found = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                lines -= node.body[0].end_lineno - node.body[0].lineno + 1
            if lines > most:
                found.append(node.name)
    return found


def untyped_arguments(source: str) -> list[str]:
    """Arguments annotated Any, and nothing else, of functions and methods that are public.

    Fields of a class that :func:`polyopt.estimators.declaration.estimator` declares are its arguments too.
    """
    found: list[str] = []

    def is_any(node: ast.AST) -> bool:
        return getattr(node.annotation, "id", None) == "Any"

    def look(node: ast.AST, path: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                special = child.name in ("__init__", "__call__")
                if special or not child.name.startswith("_"):
                    given = child.args.posonlyargs + child.args.args + child.args.kwonlyargs
                    names = [arg.arg for arg in given if is_any(arg)]
                    found.extend(".".join((*path, child.name, name)) for name in names)
            elif isinstance(child, ast.ClassDef):
                if not child.name.startswith("_"):
                    if any(getattr(name, "id", None) == "estimator" for name in child.decorator_list):
                        fields = [node for node in child.body if isinstance(node, ast.AnnAssign)]
                        names = [field.target.id for field in fields if is_any(field)]
                        found.extend(".".join((*path, child.name, name)) for name in names)
                    look(child, (*path, child.name))
            elif isinstance(child, ast.If | ast.Try):
                look(child, path)

    look(parsed(source), ())
    return found


def test_no_two_files_of_tests_have_one_name():
    """pytest imports them by their names alone."""
    names = [path.name for path in Path(__file__).parents[1].rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)


def test_no_file_is_too_long():
    long = {name for name, source in sources() if source.count("\n") > ALONE.get(name, FILE)}
    assert long == LARGE_FILES


def test_no_function_is_too_long():
    assert {f"{name} {large}" for name, source in sources() for large in large_functions(source)} == (
        LARGE_FUNCTIONS
    )


def test_arguments_have_types():
    found = {name: arguments for name, source in sources() if (arguments := untyped_arguments(source))}
    assert {name: found[name] for name in found if not name.startswith("benchmarks/")} == {}


@in_turn(
    ("source", "expected"),
    [
        ("def f(a: Any, *, b: Any = None): ...", ["f.a", "f.b"]),
        ("class A:\n    def __init__(self, x: Any): ...\n    def _own(self, y: Any): ...", ["A.__init__.x"]),
        ("def f(a: dict[str, Any], **more: Any): ...\nclass _B:\n    def f(a: Any): ...", []),
        ("def _g(a: Any): ...", []),
        ("@estimator\nclass A:\n    x: Any = 1\n    y: int = 2\nclass B:\n    x: Any = 1", ["A.x"]),
        ("if True:\n    def f(a: Any):\n        def g(b: Any): ...", ["f.a"]),
    ],
)
def test_an_untyped_argument_is_seen(source, expected):
    assert untyped_arguments(source) == expected


def test_a_long_function_is_seen():
    body = "    pass\n" * 4
    assert large_functions(f"def f():\n{body}", most=4) == ["f"]
    assert large_functions(f'def f():\n    """One.\n\n    Two.\n    """\n{body}', most=5) == []
    assert large_functions(f'def f():\n    """One.\n\n    Two.\n    """\n{body}', most=4) == ["f"]
