"""Functions in C that only tests call, in tests/native/parts, compiled here beside the library."""

from __future__ import annotations

import ctypes
import tempfile
from functools import cache
from pathlib import Path

import pytest

from polyopt.native import build, library

SOURCES = sorted((Path(__file__).parents[1] / "native" / "parts").glob("*.c"))


@cache
def _compiled():
    """Compile the parts for the processor's level, with the flags of the kernels; skip without a compiler."""
    command = build.own_compiler()
    if command is None:
        pytest.skip("no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        objects = [build.compile_c(command, source, library.level(), Path(folder)) for source in SOURCES]
        build.link(command, objects, Path(folder, "parts.so"))
        return ctypes.CDLL(str(Path(folder, "parts.so")))


def kernel(name, signature, **types):
    """Declare a function of the parts, as polyopt.native.library.kernel does one of the library."""
    return library.kernel(name, signature, _compiled, **types)
