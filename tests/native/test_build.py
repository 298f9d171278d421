"""The build: which compiler it takes, and what it says when there is none that works."""

import os
import shutil
import stat
import sys

import pytest

from polyopt.native import build


@pytest.fixture
def path(tmp_path, monkeypatch):
    """An empty folder that is the whole PATH; no compiler of a variable or a package."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setitem(sys.modules, "ziglang", None)
    return tmp_path


def put(folder, name, code):
    """A program that ends with this code."""
    program = folder / name
    program.write_text(f"#!/bin/sh\necho no such option >&2\nexit {code}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_missing_compiler_is_named(path):
    """The error says what to install, and nothing is left behind."""
    with pytest.raises(RuntimeError, match=r"no compiler was found: install gcc 11 or clang 12 .* ziglang"):
        build.build(path / "lib")
    assert not (path / "lib").exists()


def test_broken_compiler_is_passed_over(path, monkeypatch):
    """One from PyPI is taken then."""
    put(path, "cc", 1)
    assert build.own_compiler() is None
    monkeypatch.setitem(sys.modules, "ziglang", os)  # any module
    assert build.compiler() == [sys.executable, "-m", "ziglang", "cc"]


@pytest.mark.parametrize("named", ["nonsense", "broken"])
def test_named_compiler_must_work(path, monkeypatch, named):
    """A compiler of CC that fails is an error with its words."""
    put(path, "broken", 1)
    monkeypatch.setenv("CC", f"{path / named} -O2")
    with pytest.raises(RuntimeError, match=r"variable CC names does not work; unset CC") as told:
        build.compiler()
    assert ("no such option" if named == "broken" else "No such file") in str(told.value)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_own_compiler_is_taken(monkeypatch):
    """If there is one."""
    monkeypatch.delenv("CC", raising=False)
    assert build.own_compiler()


def test_processors_are_named():
    """No build is for the machine's own processor."""
    zig = [sys.executable, "-m", "ziglang", "cc"]
    assert build.target_flags(zig, "x86-64-v3") == ["-mcpu=x86_64_v3"]
    assert build.target_flags(zig, "default") == ["-mcpu=baseline"]
    assert build.target_flags(["cc"], "x86-64-v3")[-1] == "-march=x86-64-v3"


@pytest.mark.parametrize(
    ("flags", "levels"),
    [
        ("-arch arm64", ("default",)),
        ("-arch x86_64", build.X86_LEVELS),
        ("-arch x86_64 -arch arm64", ("default",)),
    ],
)
def test_macos_architectures_are_built(monkeypatch, flags, levels):
    """Those of ARCHFLAGS."""
    monkeypatch.setattr(build.sys, "platform", "darwin")
    monkeypatch.setenv("ARCHFLAGS", flags)
    assert build.levels() == levels
    assert build.target_flags(["cc"], levels[-1])[: len(flags.split())] == flags.split()
