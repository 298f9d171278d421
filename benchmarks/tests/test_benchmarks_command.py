"""The benchmarks' command: what it does where data are not at hand."""

from __future__ import annotations

import sys
from types import ModuleType

import pandas as pd
import pytest

from benchmarks import __main__ as command
from polyopt.datasets import DatasetUnavailable


@pytest.fixture
def called(monkeypatch):
    """The command with two benchmarks: the first one's data are missing, the second one has a line."""

    def run_first(smoke=False):
        raise DatasetUnavailable("'digits of the moon' is not on this machine")

    for name, run in (("moon", run_first), ("sun", lambda smoke=False: pd.DataFrame({"light": [1.0]}))):
        module = ModuleType(f"benchmarks.{name}", f"What {name} shows.")
        module.run = run
        monkeypatch.setitem(sys.modules, f"benchmarks.{name}", module)
    monkeypatch.setattr(command, "NAMES", ("moon", "sun"))
    return lambda *words: (monkeypatch.setattr(sys, "argv", ["benchmarks", *words]), command.main())


def test_a_benchmark_without_its_data_is_left_out_and_told(called, capsys):
    called("run", "--smoke")
    said = capsys.readouterr().out
    assert "moon: left out. 'digits of the moon' is not on this machine\n" in said
    assert "sun: What sun shows." in said


def test_a_benchmark_that_is_asked_for_needs_its_data(called, capsys):
    with pytest.raises(SystemExit) as ended:
        called("run", "moon", "--smoke")
    assert ended.value.code == 1
    assert capsys.readouterr().err == "moon: 'digits of the moon' is not on this machine\n"


def test_a_benchmark_without_its_rivals_is_left_out_and_told(called, capsys, monkeypatch):
    def run_first(smoke=False):
        raise ModuleNotFoundError("No module named 'rival.parts'", name="rival.parts")

    monkeypatch.setattr(sys.modules["benchmarks.moon"], "run", run_first)
    called("run", "--smoke")
    said = capsys.readouterr().out
    assert "moon: left out. rival is not installed; pip install" in said
    assert "sun: What sun shows." in said
    with pytest.raises(SystemExit):
        called("run", "moon")
    assert "moon: rival is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["polyopt.no_such_part", "formulations", None])
def test_a_missing_part_of_our_own_is_an_error(called, monkeypatch, name):
    def run_first(smoke=False):
        raise ModuleNotFoundError("No module", name=name)

    monkeypatch.setattr(sys.modules["benchmarks.moon"], "run", run_first)
    with pytest.raises(ModuleNotFoundError):
        called("run", "--smoke")
