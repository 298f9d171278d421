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

    def run_first(quick=False):
        raise DatasetUnavailable("'digits of the moon' is not on this machine")

    for name, run in (("moon", run_first), ("sun", lambda quick=False: pd.DataFrame({"light": [1.0]}))):
        module = ModuleType(f"benchmarks.{name}", f"What {name} shows.")
        module.run = run
        monkeypatch.setitem(sys.modules, f"benchmarks.{name}", module)
    monkeypatch.setattr(command, "NAMES", ("moon", "sun"))
    return lambda *words: (monkeypatch.setattr(sys, "argv", ["benchmarks", *words]), command.main())


def test_a_benchmark_without_its_data_is_left_out_and_told(called, capsys):
    called("run", "--quick")
    said = capsys.readouterr().out
    assert "moon: left out. 'digits of the moon' is not on this machine\n" in said
    assert "sun: What sun shows." in said


def test_a_benchmark_that_is_asked_for_needs_its_data(called, capsys):
    with pytest.raises(SystemExit) as ended:
        called("run", "moon", "--quick")
    assert ended.value.code == 1
    assert capsys.readouterr().err == "moon: 'digits of the moon' is not on this machine\n"
