"""Declarations of kernels and C functions fit each other: neither side has one that the other lacks."""

from __future__ import annotations

import re
from pathlib import Path

import polyopt
from polyopt.native.build import FOLDER

CALLED_BY_NAME = {"processor_level"}  # by the library itself, before a level is chosen
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.[chi]*")}
C = "\n".join(re.sub(r"/\*.*?\*/|_##\w+", "", text, flags=re.DOTALL) for text in SOURCES.values())
NAME = r"(?:JOIN\()*(\w+)"  # of a function, also of one for each type


def declared(folder):
    """Names of the C functions that the modules of a folder declare."""
    texts = (path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    return {name for text in texts for name in re.findall(r"\b(?:kernel|in_c)\(\s*\"(\w+)\"", text)}


def stem(name):
    """The name without the type of its numbers."""
    return re.sub(r"_f[48]$", "", name)


KERNELS = declared(Path(polyopt.__file__).parent)
IN_TESTS = declared(Path(__file__).parents[1])


def test_every_kernel_is_a_function_and_every_function_a_kernel():
    """Parts of kernels, which tests alone call, are declared there."""
    functions = set(map(stem, re.findall(rf"^ *API \w+ \**{NAME}", C, flags=re.MULTILINE)))
    assert KERNELS <= functions
    assert functions - CALLED_BY_NAME <= KERNELS | IN_TESTS


def test_every_kernel_has_drawn_calls():
    text = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    drawn = {
        name for names in re.findall(r"@drawn_calls\(([^)]*)\)", text) for name in re.findall(r"\w+", names)
    }
    assert KERNELS <= drawn <= KERNELS | IN_TESTS


def test_no_function_is_unused():
    """The compiler does not say so of those in headers and templates."""
    functions = re.findall(
        rf"^(?:static|INLINE)\b[\w \n*()]*?\b{NAME}(?:, \w+\))*\([^;]*?\{{", C, flags=re.MULTILINE
    )
    assert len(functions) > 100
    unused = [name for name in functions if len(re.findall(rf"\b(?:{name}|{stem(name)})\b", C)) < 2]
    assert unused == []
