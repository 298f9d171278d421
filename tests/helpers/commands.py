"""The commands as a test calls them, and a small table for them."""

from __future__ import annotations

from functools import cache

import numpy as np
import typer.testing
from typer.testing import CliRunner

from polyopt.cli import app

# The commands are made of their functions once, for that takes longer than many of them.
typer.testing._get_command = cache(typer.testing._get_command)


def run(*arguments):
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, [str(argument) for argument in arguments])


def worked(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return done.output


def small_table(folder):
    """A CSV file of 30 samples of two classes, with two features."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 15)
    X = rng.normal(size=(30, 2)) + 1.5 * y[:, None]
    path = folder / "table.csv"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", fmt=["%.6f", "%.6f", "%d"])
    return path
