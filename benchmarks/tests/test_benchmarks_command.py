"""The benchmarks' command where data, rivals or parts of the project are missing."""

from types import ModuleType

import pandas as pd
import pytest

from benchmarks.__main__ import main
from polyopt.datasets import DatasetUnavailable

NO_DATA = DatasetUnavailable("'digits of the moon' is not on this machine")


def call(error, *words):
    """The command with two benchmarks: the first one raises the error, the second one has a line."""

    def fail(smoke=False):
        raise error

    moon, sun = ModuleType("moon", "What moon shows."), ModuleType("sun", "What sun shows.")
    moon.run, sun.run = fail, lambda smoke=False: pd.DataFrame({"light": [1.0]})
    main(["run", *words], {"moon": moon, "sun": sun})


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NO_DATA, "'digits of the moon' is not on this machine\n"),
        (ModuleNotFoundError("No module", name="rival.parts"), "rival is not installed; pip install"),
    ],
    ids=["data", "rival"],
)
def test_missing_data_or_rivals_are_named(error, reason, capsys):
    """A run of all benchmarks goes on to the next one; a benchmark that was asked for is an error."""
    call(error, "--smoke")
    said = capsys.readouterr().out
    assert f"moon: left out. {reason}" in said
    assert "sun: What sun shows." in said
    with pytest.raises(SystemExit) as ended:
        call(error, "moon", "--smoke")
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(f"moon: {reason}")


@pytest.mark.parametrize("name", ["polyopt.no_such_part", "formulations", None])
def test_missing_own_module_is_an_error(name):
    """A missing module of this project is not taken for a missing rival."""
    with pytest.raises(ModuleNotFoundError):
        call(ModuleNotFoundError("No module", name=name), "--smoke")
